/* cells.c : attention of one query over n keys on the sphere (THEORY 6): what is asked and the
 * units of work; then averages over the replicates, and whether they follow the laws. */
#include "experiments/regimes/inside.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "stats/average.h"
#include "stats/special.h"
#include "tokens/keys_law.h"

enum { UNIT = 16, NEAREST = 2048, DIRECTIONS = 64 };

/* Options with their defaults in place, and what a unit of work needs. */
typedef struct job {
    es_regimes_opts o;
    es_nearest_job nearest;
    es_brute brute;
    es_regimes_draw *draws;
    double *scratch; /* (threads, each) */
    int64_t each;
    bool all; /* brute force */
} job;

/* ---- what is asked ---- */

static es_status check_points(const es_regimes_opts *o, int64_t n, es_error *err)
{
    const es_view *p = o->points;
    ES_TRY(es_view_check(p, "points", err));
    if (p->cols < 2 || p->cols > ES_KEYS_MOST_DIM)
        return es_fail(err, ES_E_SHAPE, "regimes.points", "from 2 to 4096 columns",
                       "keys in dimension %lld", (long long)p->cols);
    const int64_t most = o->query ? p->rows : p->rows - 1;
    if (n > most)
        return es_fail(err, ES_E_RANGE, "regimes.points",
                       o->query ? "fewer keys" : "fewer keys, or a query of your own",
                       "n is %lld; the points give %lld keys", (long long)n, (long long)most);
    es_scan scan;
    ES_TRY(es_view_scan(p, "points", &scan, err));
    if (!o->query)
        return ES_OK;
    const es_view q = es_view_f64(o->query, 1, p->cols);
    return es_view_scan(&q, "query", &scan, err);
}

static es_status check(const es_regimes_opts *o, int64_t n, double beta, es_error *err)
{
    const bool all = o->method == ES_REGIMES_BRUTE || o->points;
    if (o->method != ES_REGIMES_NEAREST && o->method != ES_REGIMES_BRUTE)
        return es_fail(err, ES_E_ARGUMENT, "regimes.method", "nearest or brute",
                       "there is no method number %d", (int)o->method);
    ES_TRY(es_lab_check(n, 1, all ? ES_REGIMES_MOST_KEYS : ES_KEYS_MOST_N, "regimes.n", err));
    ES_TRY(es_lab_check(o->replicates, 1, 10000000, "regimes.replicates", err));
    ES_TRY(es_lab_check(o->nearest, 64, 1000000, "regimes.nearest", err));
    if (!(beta > 0.0 && beta <= ES_KEYS_MOST_BETA))
        return es_fail(err, ES_E_RANGE, "regimes.beta", "positive and at most 1e60",
                       "the inverse temperature is %g", beta);
    return o->points ? check_points(o, n, err) : es_keys_check(o->keys, err);
}

static es_regimes_opts complete(const es_regimes_opts *opts)
{
    es_regimes_opts o = *opts;
    o.replicates = o.replicates ? o.replicates : 1000;
    o.nearest = o.nearest ? o.nearest : NEAREST;
    return o;
}

/* ---- keys in order ---- */

static bool is_turned(const es_keys *keys)
{
    for (int64_t i = 0; i < keys->n_parts; i++)
        if (keys->parts[i].kappa > 0.0 && fabs(keys->parts[i].cosine) < 1.0)
            return true;
    return false;
}

static es_status make_nearest(job *j, int64_t n, double beta, es_mem_limit *budget, es_error *err)
{
    const es_keys *keys = j->o.keys;
    es_nearest_job *w = &j->nearest;
    *w = (es_nearest_job){.seed = j->o.seed,
                          .n = n - (keys->planted ? 1 : 0),
                          .beta = beta,
                          .planted = keys->planted,
                          .turned = is_turned(keys),
                          .tangents = keys->dim - 1};
    w->ordered = w->n <= 2 * j->o.nearest ? w->n : j->o.nearest;
    w->directions = 4096 / keys->dim;
    w->directions = w->directions < 8 ? 8 : w->directions;
    w->directions = w->directions > DIRECTIONS ? DIRECTIONS : w->directions;
    j->each = 2 * w->tangents;
    ES_TRY(es_cap_make(keys, budget, &w->cap, err));
    return w->ordered < w->n ? es_bulk_make(&w->cap, beta, budget, &w->bulk, err) : ES_OK;
}

/* ---- all keys ---- */

/* What brute force owns beside the job. */
typedef struct brute_parts {
    es_sampler *sampler;
    es_law *law;
    double *query;
} brute_parts;

static es_status make_brute(job *j, int64_t n, double beta, es_mem_limit *budget, brute_parts *own,
                            es_error *err)
{
    const es_regimes_opts *o = &j->o;
    const bool law = !o->points;
    j->brute = (es_brute){.seed = o->seed,
                          .n = n,
                          .dim = law ? o->keys->dim : o->points->cols,
                          .beta = beta,
                          .planted = law && o->keys->planted,
                          .keys = law ? o->keys : NULL,
                          .points = o->points,
                          .outputs = o->outputs};
    j->each = es_brute_scratch(j->brute.dim);
    if (law && o->keys->vanish == 0.0) {
        es_law keys;
        ES_TRY(es_keys_law(o->keys, budget, &keys, &own->law, err));
        ES_TRY(es_sampler_new(&keys, budget, &own->sampler, err));
        j->brute.sampler = own->sampler;
    }
    if (law || !o->query)
        return ES_OK;
    const size_t bytes = (size_t)j->brute.dim * sizeof(double);
    ES_TRY(ES_MEM_NEW(budget, own->query, j->brute.dim, "query", err));
    memcpy(own->query, o->query, bytes);
    j->brute.query = own->query;
    if (!es_unit_vector(own->query, j->brute.dim))
        return es_fail(err, ES_E_NUMERIC, "regimes.zero", "give it a direction",
                       "the query is the zero vector");
    return ES_OK;
}

/* ---- units of work ---- */

static es_status draw_unit(void *user, int64_t unit, int thread, es_error *err)
{
    job *j = user;
    double *scratch = j->scratch + thread * j->each;
    for (int64_t r = unit * UNIT; r < (unit + 1) * UNIT && r < j->o.replicates; r++)
        ES_TRY(j->all ? es_brute_draw(&j->brute, r, scratch, &j->draws[r], err)
                      : es_nearest_draw(&j->nearest, r, scratch, &j->draws[r], err));
    return ES_OK;
}

static es_status draw_all(job *j, es_mem_limit *budget, es_error *err)
{
    const int64_t units = (j->o.replicates + UNIT - 1) / UNIT;
    ES_TRY(ES_MEM_NEW_2D(budget, j->scratch, es_parallel_threads(j->o.exec, units), j->each,
                         "replicates at work", err));
    const es_status status = es_parallel_run(j->o.exec, units, draw_unit, j, err);
    es_mem_free(budget, j->scratch);
    return status;
}

es_status es_regimes_sample(const es_regimes_opts *opts, int64_t n, double beta,
                            es_regimes_draw *draws, es_error *err)
{
    if (!opts || !draws || (!opts->keys && !opts->points))
        return es_fail(err, ES_E_ARGUMENT, "regimes.null", "", "opts, draws or the keys are NULL");
    job j = {.o = complete(opts), .draws = draws};
    ES_TRY(check(&j.o, n, beta, err));
    es_mem_limit *budget = opts->exec ? opts->exec->budget : NULL;
    brute_parts own = {0};
    j.all = opts->points || opts->method == ES_REGIMES_BRUTE;
    es_status status =
        j.all ? make_brute(&j, n, beta, budget, &own, err) : make_nearest(&j, n, beta, budget, err);
    if (status == ES_OK)
        status = draw_all(&j, budget, err);
    es_cap_free(&j.nearest.cap);
    es_bulk_free(&j.nearest.bulk);
    es_sampler_free(own.sampler);
    es_mem_free(budget, own.law);
    es_mem_free(budget, own.query);
    return status;
}

/* ==== rows ==== */

enum { FEWEST = 20 };   /* replicates that a test of normality needs */
#define SMALL_BULK 1e-6 /* share of a Gaussian sum that cannot decide such a test */

/* The weight of order k of each draw. */
static void copy_top(const es_regimes_draw *draws, int64_t count, int k, double *out)
{
    for (int64_t r = 0; r < count; r++)
        out[r] = draws[r].top[k];
}

static es_estimate estimate(const double *x, int64_t count, int64_t stride)
{
    const es_measured m = es_average_column(x, count, stride);
    return (es_estimate){m.value, m.se};
}

static void average(const es_regimes_draw *draws, int64_t count, double *column,
                    es_regimes_row *out)
{
    const int64_t width = sizeof *draws / sizeof(double); /* every member of a draw is a double */
    for (int k = 0; k < ES_REGIMES_TOP; k++)
        out->top[k] = estimate(&draws->top[k], count, width);
    out->squares = estimate(&draws->squares, count, width);
    out->entropy = estimate(&draws->entropy, count, width);
    out->deficit = estimate(&draws->deficit, count, width);
    for (int64_t r = 0; r < count; r++) {
        column[r] = draws[r].tangential * draws[r].tangential;
        out->bulk = fmax(out->bulk, draws[r].bulk);
        out->normality = fmax(out->normality, draws[r].normality);
    }
    out->tangential = estimate(column, count, 1);
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
        copy_top(draws, count, k, column);
        copy_top(reference, count, k, column + count);
        out->limit[k] = estimate(column + count, count, 1);
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

double es_regimes_normal_p(const es_regimes_row *row)
{
    const double least = fmin(row->normal[0].p, row->normal[1].p);
    return least * (2.0 - least);
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
    es_mem_limit *budget = opts->exec ? opts->exec->budget : NULL;
    const int64_t count = opts->replicates ? opts->replicates : 1000;
    es_regimes_draw *draws;
    double *column = NULL;
    if (count < 1 || count > 10000000)
        return es_fail(err, ES_E_RANGE, "regimes.replicates", "from 1 to 10^7", "%lld replicates",
                       (long long)count);
    ES_TRY(ES_MEM_NEW_2D(budget, draws, 2, count, "replicates", err));
    es_status status = ES_MEM_NEW_2D(budget, column, 2, count, "replicates", err);
    if (status == ES_OK)
        status = fill(opts, n, beta, draws, count, column, out, err);
    es_mem_free(budget, column);
    es_mem_free(budget, draws);
    return status;
}
