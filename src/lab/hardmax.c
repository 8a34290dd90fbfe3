#include "lab/hardmax.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "stats/average.h"

enum { CHUNK = 256 }; /* replicates of one n that one thread does in a row */

/* Options with their defaults in place, and the units of work. */
typedef struct job {
    es_hardmax_opts o;
    const int64_t *n;
    int64_t count;
    es_hardmax_draw *draws; /* (replicates, count) */
    double *scratch;        /* (threads, each) */
    int64_t each;
    int64_t chunks; /* one dimension: units of each n */
} job;

/* ---- what is asked ---- */

static es_status check_number(int64_t value, int64_t low, int64_t high, const char *rule,
                              es_error *err)
{
    if (value >= low && value <= high)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, rule, "", "%s is %lld; it must be from %lld to %lld",
                   rule + sizeof "hardmax." - 1, (long long)value, (long long)low, (long long)high);
}

static es_status check_job(const job *j, es_error *err)
{
    const es_hardmax_opts *o = &j->o;
    if (o->queries != ES_HARDMAX_POPULATION && o->queries != ES_HARDMAX_SELF)
        return es_fail(err, ES_E_ARGUMENT, "hardmax.queries", "population or self",
                       "there are no queries number %d", (int)o->queries);
    if (j->count < 1)
        return es_fail(err, ES_E_EMPTY, "hardmax.count", "", "no n is given");
    ES_TRY(check_number(o->dim, 1, ES_HARDMAX_MOST_DIM, "hardmax.dim", err));
    ES_TRY(check_number(o->replicates, 1, 100000000, "hardmax.replicates", err));
    ES_TRY(check_number(o->first, 0, 100000000, "hardmax.first", err));
    ES_TRY(check_number(o->directions, 2, 65536, "hardmax.directions", err));
    if (!(o->sigma > 0.0 && isfinite(o->sigma)))
        return es_fail(err, ES_E_RANGE, "hardmax.sigma", "a positive number", "sigma is %g",
                       o->sigma);
    if (o->dim > 1 && o->queries == ES_HARDMAX_SELF)
        return es_fail(err, ES_E_UNSUPPORTED, "hardmax.queries",
                       "in several dimensions queries are those of the population",
                       "queries = tokens is simulated in one dimension only");
    const int64_t most = o->dim > 1 ? ES_HARDMAX_MOST_TOKENS : ES_HARDMAX_MOST_N;
    for (int64_t i = 0; i < j->count; i++) {
        ES_TRY(check_number(j->n[i], 1, most, "hardmax.n", err));
        if (i > 0 && j->n[i] <= j->n[i - 1])
            return es_fail(err, ES_E_ARGUMENT, "hardmax.increasing", "sort the n",
                           "n[%lld] is not above the one before", (long long)i);
    }
    return ES_OK;
}

static es_hardmax_opts complete(const es_hardmax_opts *opts)
{
    es_hardmax_opts o = *opts;
    o.dim = o.dim ? o.dim : 1;
    o.sigma = o.sigma == 0.0 ? 1.0 : o.sigma;
    o.replicates = o.replicates ? o.replicates : 1000;
    o.directions = o.directions ? o.directions : 256;
    return o;
}

/* ---- units of work ---- */

static void put(job *j, int64_t replicate, int64_t p, es_hardmax_draw draw)
{
    const double sigma = j->o.sigma;
    j->draws[replicate * j->count + p] =
        (es_hardmax_draw){.value = sigma * draw.value, .square = sigma * sigma * draw.square};
}

/* Unit = (n, chunk of replicates). */
static es_status draw_extremes(void *user, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    job *j = user;
    double gbar[CHUNK];
    int64_t first, last;
    const int64_t p = unit / j->chunks;
    es_part(j->o.replicates, j->chunks, unit % j->chunks, &first, &last);
    const es_address at = {.seed = j->o.seed,
                           .experiment = j->o.experiment,
                           .cell = (uint64_t)j->n[p] & ((UINT64_C(1) << 48) - 1)};
    ES_TRY(
        es_extremes_draw(at, j->o.queries, j->n[p], j->o.first + first, last - first, gbar, err));
    for (int64_t r = first; r < last; r++) {
        const double g = gbar[r - first];
        put(j, r, p, (es_hardmax_draw){.value = g, .square = g * g});
    }
    return ES_OK;
}

/* Unit = replicate. */
static es_status draw_hull(void *user, int64_t unit, int thread, es_error *err)
{
    job *j = user;
    const es_address at = {.seed = j->o.seed, .experiment = j->o.experiment};
    es_hardmax_draw *row = j->draws + unit * j->count;
    ES_TRY(es_hull_draw(at, j->o.first + unit, j->o.dim, j->o.directions, j->n, j->count,
                        j->scratch + thread * j->each, row, err));
    for (int64_t p = 0; p < j->count; p++)
        put(j, unit, p, row[p]);
    return ES_OK;
}

es_status es_hardmax_sample(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                            es_hardmax_draw *draws, es_error *err)
{
    if (!opts || !n || !draws)
        return es_fail(err, ES_E_ARGUMENT, "hardmax.null", "", "opts, n or draws is NULL");
    job j = {.o = complete(opts), .n = n, .count = count, .draws = draws};
    ES_TRY(check_job(&j, err));
    const es_exec *exec = opts->exec;
    j.chunks = (j.o.replicates + CHUNK - 1) / CHUNK;
    if (j.o.dim == 1)
        return es_parallel_run(exec, j.chunks * count, draw_extremes, &j, err);
    es_budget *budget = exec ? exec->budget : NULL;
    j.each = es_hull_scratch(j.o.dim, j.o.directions);
    ES_TRY(es_mem_array(budget, es_parallel_threads(exec, j.o.replicates), j.each,
                        sizeof *j.scratch, "directions", (void **)&j.scratch, err));
    const es_status status = es_parallel_run(exec, j.o.replicates, draw_hull, &j, err);
    es_mem_free(budget, j.scratch);
    return status;
}

/* ---- averages ---- */

void es_hardmax_average(const es_hardmax_draw *draws, int64_t replicates, const int64_t *n,
                        int64_t count, es_hardmax_row *rows)
{
    const int64_t width = count * (int64_t)(sizeof *draws / sizeof(double));
    for (int64_t p = 0; p < count; p++) {
        const es_measured size = es_average_column(&draws[p].value, replicates, width);
        const es_measured square = es_average_column(&draws[p].square, replicates, width);
        const double rms = square.value > 0.0 ? sqrt(square.value) : (double)NAN;
        rows[p] = (es_hardmax_row){.n = n[p],
                                   .mean_abs = size.value,
                                   .mean_abs_se = size.se,
                                   .rms = rms,
                                   .rms_se = 0.5 * square.se / rms}; /* d sqrt(x) = dx/(2 sqrt x) */
    }
}

es_status es_hardmax_run(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                         es_hardmax_row *rows, es_error *err)
{
    if (!opts || !n || !rows)
        return es_fail(err, ES_E_ARGUMENT, "hardmax.null", "", "opts, n or rows is NULL");
    job j = {.o = complete(opts), .n = n, .count = count};
    ES_TRY(check_job(&j, err));
    es_budget *budget = opts->exec ? opts->exec->budget : NULL;
    ES_TRY(es_mem_array(budget, j.o.replicates, count, sizeof *j.draws, "replicates",
                        (void **)&j.draws, err));
    const es_status status = es_hardmax_sample(opts, n, count, j.draws, err);
    for (int64_t i = 0; i < j.o.replicates * count && status == ES_OK; i++)
        j.draws[i].value = fabs(j.draws[i].value);
    if (status == ES_OK)
        es_hardmax_average(j.draws, j.o.replicates, n, count, rows);
    es_mem_free(budget, j.draws);
    return status;
}
