/* regimes_row.c : averages over the replicates, and whether they follow the laws. */
#include <esscher/regimes.h>

#include <math.h>
#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/special.h"

enum { FEWEST = 20 };   /* replicates that a test of normality needs */
#define SMALL_BULK 1e-6 /* share of a Gaussian sum that cannot decide such a test */

/* The number at `offset` of each draw. */
static double get(const es_regimes_draw *d, size_t offset)
{
    return *(const double *)((const char *)d + offset);
}

static void copy_out(const es_regimes_draw *draws, int64_t count, size_t offset, double *out)
{
    for (int64_t r = 0; r < count; r++)
        out[r] = get(&draws[r], offset);
}

static es_estimate estimate(const double *x, int64_t count)
{
    const double R = (double)count;
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < count; r++)
        sum += x[r];
    const double mean = sum / R;
    for (int64_t r = 0; r < count; r++)
        squares += (x[r] - mean) * (x[r] - mean);
    return (es_estimate){mean, count > 1 ? sqrt(squares / (R - 1.0) / R) : (double)NAN};
}

static void average(const es_regimes_draw *draws, int64_t count, double *column,
                    es_regimes_row *out)
{
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        copy_out(draws, count, offsetof(es_regimes_draw, top) + (size_t)k * sizeof(double), column);
        out->top[k] = estimate(column, count);
    }
    const struct {
        size_t from;
        es_estimate *to;
    } plain[] = {{offsetof(es_regimes_draw, squares), &out->squares},
                 {offsetof(es_regimes_draw, entropy), &out->entropy},
                 {offsetof(es_regimes_draw, deficit), &out->deficit}};
    for (int i = 0; i < 3; i++) {
        copy_out(draws, count, plain[i].from, column);
        *plain[i].to = estimate(column, count);
    }
    for (int64_t r = 0; r < count; r++) {
        column[r] = draws[r].tangential * draws[r].tangential;
        out->bulk = fmax(out->bulk, draws[r].bulk);
        out->normality = fmax(out->normality, draws[r].normality);
    }
    out->tangential = estimate(column, count);
}

static es_agreement agreement(es_ks ks)
{
    return (es_agreement){.distance = ks.distance, .p = ks.p};
}

/* The ordered weights against a sample of the critical limit, column (2 count). */
static es_status compare_law(const es_regimes_opts *o, int64_t n, double beta,
                             const es_regimes_draw *draws, es_regimes_draw *reference,
                             int64_t count, double *column, es_regimes_row *out, es_error *err)
{
    es_cap_exponent cap;
    ES_TRY(es_keys_exponent(o->keys, &cap, err));
    const double scaled = es_critical_scale(&cap, (double)n, beta);
    if (!(scaled >= 1e-12 && scaled <= 1e12 && es_critical_mean(cap.alpha, scaled) <= 1e15))
        return ES_OK; /* no such limit */
    ES_TRY(es_critical_sample(o->seed, cap.alpha, scaled, count, o->exec, reference, err));
    for (int k = 0; k < ES_REGIMES_TOP && k < n; k++) {
        const size_t at = offsetof(es_regimes_draw, top) + (size_t)k * sizeof(double);
        copy_out(draws, count, at, column);
        copy_out(reference, count, at, column + count);
        out->limit[k] = estimate(column + count, count);
        out->law[k] = agreement(es_ks_two(column, count, column + count, count));
    }
    return ES_OK;
}

/* The output's fluctuations against the Gaussian of the subcritical regime. */
static void compare_normal(int64_t dim, int64_t n, double beta, const es_regimes_draw *draws,
                           int64_t count, double *column, es_regimes_row *out)
{
    es_average a;
    if (es_average_at(dim, beta, &a, NULL) != ES_OK)
        return;
    for (int64_t r = 0; r < count; r++)
        column[r] = (1.0 - a.mean.val - draws[r].deficit) * sqrt((double)n / a.radial.val);
    out->normal[0] = agreement(es_ks_normal(column, count));
    for (int64_t r = 0; r < count; r++)
        column[r] = draws[r].one * sqrt((double)n / a.tangential.val);
    out->normal[1] = agreement(es_ks_normal(column, count));
}

static es_status fill(const es_regimes_opts *o, int64_t n, double beta, es_regimes_draw *draws,
                      int64_t count, double *column, es_regimes_row *out, es_error *err)
{
    const es_agreement none = {(double)NAN, (double)NAN};
    ES_TRY(es_regimes_sample(o, n, beta, draws, err));
    *out = (es_regimes_row){.bulk = 0.0};
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        out->law[k] = none;
        out->limit[k] = (es_estimate){(double)NAN, (double)NAN};
    }
    out->normal[0] = out->normal[1] = none;
    average(draws, count, column, out);
    if (o->points || o->keys->planted)
        return ES_OK;
    ES_TRY(compare_law(o, n, beta, draws, draws + count, count, column, out, err));
    if (o->keys->n_parts == 0 && o->keys->vanish == 0.0 && out->bulk < SMALL_BULK &&
        count >= FEWEST)
        compare_normal(o->keys->dim, n, beta, draws, count, column, out);
    return ES_OK;
}

es_status es_regimes_run(const es_regimes_opts *opts, int64_t n, double beta, es_regimes_row *out,
                         es_error *err)
{
    if (!opts || !out)
        return es_fail(err, ES_E_ARGUMENT, "regimes.null", "", "opts or out is NULL");
    es_budget *budget = opts->exec ? opts->exec->budget : NULL;
    const int64_t count = opts->replicates ? opts->replicates : 1000;
    es_regimes_draw *draws;
    double *column = NULL;
    if (count < 1 || count > 10000000)
        return es_fail(err, ES_E_RANGE, "regimes.replicates", "from 1 to 10^7", "%lld replicates",
                       (long long)count);
    ES_TRY(es_mem_array(budget, 2, count, sizeof *draws, "replicates", (void **)&draws, err));
    es_status status =
        es_mem_array(budget, 2, count, sizeof *column, "replicates", (void **)&column, err);
    if (status == ES_OK)
        status = fill(opts, n, beta, draws, count, column, out, err);
    es_mem_free(budget, column);
    es_mem_free(budget, draws);
    return status;
}
