/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : Gbar, the mean output of hardmax attention, drawn (THEORY 5): how many of n coins
 * show heads, the extremes of n tokens, the hull in several dimensions; then options, units of work
 * and averages. */
#include "experiments/hardmax/hardmax.h"

#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "experiments/kit/cell_kit.h"
#include "random/random.h"
#include "stats/average.h"
#include "stats/special.h"

/* ==== coins ==== */

enum { TRIES = 64, FEW = 64 };

/* Heads among few coins, one uniform each. */
static es_status count_few(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    double u[FEW];
    ES_TRY(es_uniform_rows(&at, 1, n, u, err));
    *heads = 0;
    for (int64_t i = 0; i < n; i++)
        *heads += u[i] < 0.5;
    return ES_OK;
}

/* Heads among n coins by transformed rejection (Hoermann 1993, algorithm BTRS for p = 1/2). A try
 * has two uniforms and succeeds four times in five; after TRIES of them, which never happens, the
 * mode is as good as any. */
static es_status count_many(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    const double deviation = 0.5 * sqrt((double)n), b = 1.15 + 2.53 * deviation;
    const double a = -0.0873 + 0.0248 * b + 0.01 * 0.5, sure = 0.92 - 4.2 / b;
    const double alpha = (2.83 + 5.1 / b) * deviation, at_mode = es_log_coins(n, n / 2);
    *heads = n / 2;
    for (int i = 0; i < TRIES; i++, at.lane++) {
        double uv[2];
        ES_TRY(es_uniform_rows(&at, 1, 2, uv, err));
        const double u = uv[0] - 0.5, us = 0.5 - fabs(u);
        /* Counted from n/2, which a double need not hold: n p + 1/2 = n/2 + (n odd)/2 + 1/2. */
        const double shift = floor((2.0 * a / us + b) * u + (n % 2 ? 1.0 : 0.5));
        if (fabs(shift) > 0.5 * (double)n)
            continue;
        const int64_t k = n / 2 + (int64_t)shift;
        if (k < 0 || k > n)
            continue;
        if ((us >= 0.07 && uv[1] <= sure) ||
            log(uv[1] * alpha / (a / (us * us) + b)) <= es_log_coins(n, k) - at_mode) {
            *heads = k;
            break;
        }
    }
    return ES_OK;
}

es_status es_coins_draw(es_address at, int64_t n, int64_t *heads, es_error *err)
{
    return (n <= FEW ? count_few : count_many)(at, n, heads, err);
}

/* ==== one dimension: extremes of n tokens without the tokens ==== */

enum { LANE_COINS = 1 }; /* lane 0 of a replicate holds its two exponentials */

/* ln(1 - exp(-x)), the logarithm of a tail, for x > 0. */
static double log_tail_of(double x) { return log(-expm1(-x)); }

/* The x whose upper tail and lower tail have these logarithms; the smaller one is exact. */
static double quantile_of(double log_upper, double log_lower)
{
    return log_upper <= log_lower ? es_normal_tail_quantile(log_upper)
                                  : -es_normal_tail_quantile(log_lower);
}

/* (max + min)/2 of n standard normals, from two exponentials. The largest of n uniforms is
 * V = exp(-e_0/n); the others are uniform below it, so that the smallest is
 * V (1 - exp(-e_1/(n-1))). Neither 1 - V nor the smallest is formed, only their logarithms. */
static double midrange(int64_t n, const double e[2])
{
    const double log_v = -e[0] / (double)n;
    const double max = quantile_of(log_tail_of(-log_v), log_v);
    if (n == 1)
        return max;
    const double log_least = log_v + log_tail_of(e[1] / (double)(n - 1));
    const double min = -quantile_of(log_least, log_tail_of(-log_least));
    return 0.5 * (max + min);
}

/* ---- queries = tokens ---- */

/* The largest of k half-normals, from one exponential: 2 Q = 1 - exp(-e/k). */
static double largest_half_normal(int64_t k, double e)
{
    return k == 0 ? 0.0
                  : es_normal_tail_quantile(log_tail_of(e / (double)k) - 0.69314718055994530942);
}

/* Returns the mean output of n tokens that are their own queries, in one dimension: those on each
 * side of 0 select the extreme token of their side, so it follows from how many are positive and
 * two extremes. */
static es_status own_queries(es_address at, int64_t n, const double e[2], double *out,
                             es_error *err)
{
    int64_t k;
    at.lane = LANE_COINS;
    ES_TRY(es_coins_draw(at, n, &k, err));
    const double size = (double)n;
    *out = (double)k / size * largest_half_normal(k, e[0]) -
           (double)(n - k) / size * largest_half_normal(n - k, e[1]);
    return ES_OK;
}

/* Gbar of `count` replicates from number `first` on, n standard normal tokens; at.cell is set
 * already, token is the replicate. */
static es_status extremes(es_address at, es_hardmax_queries queries, int64_t n, int64_t first,
                          int64_t count, double *out, es_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        double e[2];
        at.token = (uint64_t)(first + i);
        ES_TRY(es_exponential_rows(&at, 1, 2, e, err));
        if (queries == ES_HARDMAX_POPULATION)
            out[i] = midrange(n, e);
        else
            ES_TRY(own_queries(at, n, e, &out[i], err));
    }
    return ES_OK;
}

/* ==== several dimensions: tokens met by directions ==== */

/* Gbar = d avg_u[h(u) u], h the support function of the tokens. With u goes -u, so that the average
 * is over midranges: g_u = d (max <y,u> + min <y,u>)/2 u. That is small where h alone is large, and
 * few directions do. Over M directions,
 *     value  = |avg g_u|                                          raised by the directions' noise
 *     square = (|sum g_u|^2 - sum |g_u|^2) / (M (M-1))            free of it: pairs of different u
 */

enum { TOKENS = 64 };                                      /* drawn at a time */
static const uint64_t directions_cell = UINT64_C(1) << 47; /* beside the tokens' cells */

/* Returns the doubles that the support function of one sample needs. */
static int64_t hull_scratch(int64_t dim, int64_t directions)
{
    return TOKENS * dim + dim * directions + 3 * directions;
}

/* The support function of a sample's convex hull in M directions. */
typedef struct hull {
    int64_t d, M;
    double *tokens;       /* (TOKENS, d) */
    double *u;            /* (d, M) */
    double *top, *bottom; /* (M): max and min of <y,u> so far */
    double *score;        /* (M) */
} hull;

/* Draws the directions of a replicate. Each has its own address, so that n does not change them. */
static es_status start(hull *h, es_address at, int64_t replicate, es_error *err)
{
    at.cell = directions_cell + (uint64_t)replicate;
    for (int64_t m = 0; m < h->M; m++) {
        double row[ES_HARDMAX_MOST_DIM];
        at.token = (uint64_t)m;
        ES_TRY(es_sphere_rows(&at, 1, h->d, row, err));
        for (int64_t c = 0; c < h->d; c++)
            h->u[c * h->M + m] = row[c];
        h->top[m] = -(double)INFINITY;
        h->bottom[m] = (double)INFINITY;
    }
    return ES_OK;
}

/* One token meets all directions. Comparisons, not fmax(): the compiler makes them vectors. */
static void meet(const hull *h, const double *restrict token)
{
    const int64_t M = h->M;
    double *restrict score = h->score, *restrict top = h->top, *restrict bottom = h->bottom;
    for (int64_t m = 0; m < M; m++)
        score[m] = token[0] * h->u[m];
    for (int64_t c = 1; c < h->d; c++) {
        const double *restrict u = h->u + c * M;
        for (int64_t m = 0; m < M; m++)
            score[m] += token[c] * u[m];
    }
    for (int64_t m = 0; m < M; m++) {
        top[m] = score[m] > top[m] ? score[m] : top[m];
        bottom[m] = score[m] < bottom[m] ? score[m] : bottom[m];
    }
}

/* Returns the mean output from the support function of the hull in M directions: an unbiased
 * estimate of its square leaves out products of a direction with itself. */
static es_hardmax_draw look(const hull *h)
{
    const double d = (double)h->d, M = (double)h->M;
    double norm2 = 0.0, own = 0.0;
    for (int64_t c = 0; c < h->d; c++) {
        double sum = 0.0;
        for (int64_t m = 0; m < h->M; m++)
            sum += 0.5 * (h->top[m] + h->bottom[m]) * h->u[c * h->M + m];
        norm2 += sum * sum;
    }
    for (int64_t m = 0; m < h->M; m++)
        own += 0.25 * (h->top[m] + h->bottom[m]) * (h->top[m] + h->bottom[m]);
    return (es_hardmax_draw){.value = d * sqrt(norm2) / M,
                             .square = d * d * (norm2 - own) / (M * (M - 1.0))};
}

/* One replicate at n[0] < n[1] < ..., standard normal tokens. */
static es_status meet_tokens(es_address at, int64_t replicate, int64_t dim, int64_t directions,
                             const int64_t *n, int64_t count, double *scratch, es_hardmax_draw *out,
                             es_error *err)
{
    hull h = {.d = dim, .M = directions, .tokens = scratch, .u = scratch + TOKENS * dim};
    h.top = h.u + dim * directions;
    h.bottom = h.top + directions;
    h.score = h.bottom + directions;
    ES_TRY(start(&h, at, replicate, err));
    at.cell = (uint64_t)replicate;
    int64_t seen = 0;
    for (int64_t p = 0; p < count; p++) {
        while (seen < n[p]) {
            const int64_t here = n[p] - seen < TOKENS ? n[p] - seen : TOKENS;
            at.token = (uint64_t)seen;
            ES_TRY(es_normal_rows(&at, here, dim, h.tokens, err));
            for (int64_t i = 0; i < here; i++)
                meet(&h, h.tokens + i * dim);
            seen += here;
        }
        out[p] = look(&h);
    }
    return ES_OK;
}

/* ==== the experiment ==== */

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

/* Fails for numbers outside their ranges. */
static es_status check_job(const job *j, es_error *err)
{
    const es_hardmax_opts *o = &j->o;
    if (o->queries != ES_HARDMAX_POPULATION && o->queries != ES_HARDMAX_SELF)
        return es_fail(err, ES_E_ARGUMENT, "hardmax.queries", "population or self",
                       "there are no queries number %d", (int)o->queries);
    if (j->count < 1)
        return es_fail(err, ES_E_EMPTY, "hardmax.count", "", "no n is given");
    ES_TRY(es_check_range(o->dim, 1, ES_HARDMAX_MOST_DIM, "hardmax.dim", err));
    ES_TRY(es_check_range(o->replicates, 1, 100000000, "hardmax.replicates", err));
    ES_TRY(es_check_range(o->first, 0, 100000000, "hardmax.first", err));
    ES_TRY(es_check_range(o->directions, 2, 65536, "hardmax.directions", err));
    if (!(o->sigma > 0.0 && isfinite(o->sigma)))
        return es_fail(err, ES_E_RANGE, "hardmax.sigma", "a positive number", "sigma is %g",
                       o->sigma);
    if (o->dim > 1 && o->queries == ES_HARDMAX_SELF)
        return es_fail(err, ES_E_UNSUPPORTED, "hardmax.queries",
                       "in several dimensions queries are those of the population",
                       "queries = tokens is simulated in one dimension only");
    const int64_t most = o->dim > 1 ? ES_HARDMAX_MOST_TOKENS : ES_HARDMAX_MOST_N;
    for (int64_t i = 0; i < j->count; i++) {
        ES_TRY(es_check_range(j->n[i], 1, most, "hardmax.n", err));
        if (i > 0 && j->n[i] <= j->n[i - 1])
            return es_fail(err, ES_E_ARGUMENT, "hardmax.increasing", "sort the n",
                           "n[%lld] is not above the one before", (long long)i);
    }
    return ES_OK;
}

/* Returns the options with default values. */
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

/* Stores a draw in units of sigma. */
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
    ES_TRY(extremes(at, j->o.queries, j->n[p], j->o.first + first, last - first, gbar, err));
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
    ES_TRY(meet_tokens(at, j->o.first + unit, j->o.dim, j->o.directions, j->n, j->count,
                       j->scratch + thread * j->each, row, err));
    for (int64_t p = 0; p < j->count; p++)
        put(j, unit, p, row[p]);
    return ES_OK;
}

es_status es_hardmax_sample(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                            es_hardmax_draw *draws, es_error *err)
{
    job j = {.o = complete(opts), .n = n, .count = count, .draws = draws};
    ES_TRY(check_job(&j, err));
    const es_exec *exec = opts->exec;
    j.chunks = (j.o.replicates + CHUNK - 1) / CHUNK;
    if (j.o.dim == 1)
        return es_parallel_run(exec, j.chunks * count, draw_extremes, &j, err);
    es_mem_limit *budget = exec ? exec->budget : NULL;
    j.each = hull_scratch(j.o.dim, j.o.directions);
    ES_TRY(ES_MEM_NEW_2D(budget, j.scratch, es_parallel_threads(exec, j.o.replicates), j.each,
                         "directions", err));
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
                                   .mean_abs = size,
                                   /* d sqrt(x) = dx/(2 sqrt x) */
                                   .rms = {rms, 0.5 * square.se / rms}};
    }
}

es_status es_hardmax_run(const es_hardmax_opts *opts, const int64_t *n, int64_t count,
                         es_hardmax_row *rows, es_error *err)
{
    job j = {.o = complete(opts), .n = n, .count = count};
    ES_TRY(check_job(&j, err));
    es_mem_limit *budget = opts->exec ? opts->exec->budget : NULL;
    ES_TRY(ES_MEM_NEW_2D(budget, j.draws, j.o.replicates, count, "replicates", err));
    const es_status status = es_hardmax_sample(opts, n, count, j.draws, err);
    for (int64_t i = 0; i < j.o.replicates * count && status == ES_OK; i++)
        j.draws[i].value = fabs(j.draws[i].value);
    if (status == ES_OK)
        es_hardmax_average(j.draws, j.o.replicates, n, count, rows);
    es_mem_free(budget, j.draws);
    return status;
}
