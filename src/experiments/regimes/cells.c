/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : attention of one query over n keys on the sphere (THEORY 6): draws replicates, averages
 * them, tests them against the limit laws; and the stage of the study. */
#include "experiments/regimes/draw.h"

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

/* Options with their defaults filled in, and what a unit of work needs. */
typedef struct sample_job {
    es_regimes_opts o;
    es_nearest_job nearest;
    es_brute brute;
    es_regimes_draw *draws;
    double *scratch; /* (threads, each) */
    int64_t each;
    bool all; /* brute force */
} sample_job;

/* ---- options ---- */

/* Fails if the points are not finite, have a wrong shape, or are too few for n keys and the
 * query. */
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

/* Fails for options outside their ranges. Only draws of all keys limit n. */
static es_status check(const es_regimes_opts *o, int64_t n, double beta, es_error *err)
{
    const bool all = o->method == ES_REGIMES_BRUTE || o->points;
    if (o->method != ES_REGIMES_NEAREST && o->method != ES_REGIMES_BRUTE)
        return es_fail(err, ES_E_ARGUMENT, "regimes.method", "nearest or brute",
                       "there is no method number %d", (int)o->method);
    ES_TRY(es_check_range(n, 1, all ? ES_REGIMES_MOST_KEYS : ES_KEYS_MOST_N, "regimes.n", err));
    ES_TRY(es_check_range(o->replicates, 1, 10000000, "regimes.replicates", err));
    ES_TRY(es_check_range(o->nearest, 64, 1000000, "regimes.nearest", err));
    if (!(beta > 0.0 && beta <= ES_KEYS_MOST_BETA))
        return es_fail(err, ES_E_RANGE, "regimes.beta", "positive and at most 1e60",
                       "the inverse temperature is %g", beta);
    return o->points ? check_points(o, n, err) : es_keys_check(o->keys, err);
}

/* Fills in the defaults. */
static es_regimes_opts complete(const es_regimes_opts *opts)
{
    es_regimes_opts o = *opts;
    o.replicates = o.replicates ? o.replicates : 1000;
    o.nearest = o.nearest ? o.nearest : NEAREST;
    return o;
}

/* ---- keys in order ---- */

/* Returns whether a part of the mixture points away from the query, so that directions are not
 * uniform. */
static bool is_turned(const es_keys *keys)
{
    for (int64_t i = 0; i < keys->n_parts; i++)
        if (keys->parts[i].kappa > 0.0 && fabs(keys->parts[i].cosine) < 1.0)
            return true;
    return false;
}

/* Prepares drawing in order: the table of the law of distances, and the moments of the far keys if
 * n is too large to order all of them. */
static es_status make_nearest(sample_job *j, int64_t n, double beta, es_mem_limit *budget,
                              es_error *err)
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

/* Memory that brute force owns. */
typedef struct brute_parts {
    es_sampler *sampler;
    es_law *law;
    double *query;
} brute_parts;

/* Prepares drawing all keys: a sampler of the law, or the query scaled to norm 1. */
static es_status make_brute(sample_job *j, int64_t n, double beta, es_mem_limit *budget,
                            brute_parts *own, es_error *err)
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

/* Draws UNIT replicates. */
static es_status draw_unit(void *user, int64_t unit, int thread, es_error *err)
{
    sample_job *j = user;
    double *scratch = j->scratch + thread * j->each;
    for (int64_t r = unit * UNIT; r < (unit + 1) * UNIT && r < j->o.replicates; r++)
        ES_TRY(j->all ? es_brute_draw(&j->brute, r, scratch, &j->draws[r], err)
                      : es_nearest_draw(&j->nearest, r, scratch, &j->draws[r], err));
    return ES_OK;
}

/* Draws all replicates in units, with memory for each thread. */
static es_status draw_all(sample_job *j, es_mem_limit *budget, es_error *err)
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
    sample_job j = {.o = complete(opts), .draws = draws};
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

/* ==== means and tests ==== */

enum { FEWEST = 20 };   /* replicates that a test of normality needs at least */
#define SMALL_BULK 1e-6 /* share of the Gaussian sum that does not affect such a test */

/* Copies the weight of order k of each draw. */
static void copy_top(const es_regimes_draw *draws, int64_t count, int k, double *out)
{
    for (int64_t r = 0; r < count; r++)
        out[r] = draws[r].top[k];
}

/* Averages the draws; column (count) is scratch. The tangential part enters as its square. */
static void average(const es_regimes_draw *draws, int64_t count, double *column,
                    es_regimes_row *out)
{
    const int64_t width = sizeof *draws / sizeof(double); /* every member of a draw is a double */
    for (int k = 0; k < ES_REGIMES_TOP; k++)
        out->top[k] = es_average_column(&draws->top[k], count, width);
    out->squares = es_average_column(&draws->squares, count, width);
    out->entropy = es_average_column(&draws->entropy, count, width);
    out->deficit = es_average_column(&draws->deficit, count, width);
    for (int64_t r = 0; r < count; r++) {
        column[r] = draws[r].tangential * draws[r].tangential;
        out->bulk = fmax(out->bulk, draws[r].bulk);
        out->normality = fmax(out->normality, draws[r].normality);
    }
    out->tangential = es_average_column(column, count, 1);
    for (int64_t r = 0; r < count; r++)
        column[r] = draws[r].deficit - 0.5 * column[r];
    out->radial = es_average_column(column, count, 1);
}

/* Returns the distance and p-value of a Kolmogorov-Smirnov test. */
static es_agreement agreement(es_ks ks)
{
    return (es_agreement){.distance = ks.distance, .p = ks.p};
}

/* Compares the ordered weights with a sample of the critical limit; column (2 count) is scratch. */
static es_status compare_law(const es_regimes_opts *o, int64_t n, double beta,
                             const es_regimes_draw *draws, es_regimes_draw *reference,
                             int64_t count, double *column, es_regimes_row *out, es_error *err)
{
    es_cap_exponent cap;
    ES_TRY(es_keys_exponent(o->keys, &cap, err));
    const double scaled = es_critical_scale(&cap, (double)n, beta);
    if (!(scaled >= 1e-12 && scaled <= 1e12 && es_critical_mean(cap.alpha, scaled) <= 1e15))
        return ES_OK; /* outside the range of the limit law */
    ES_TRY(es_critical_sample(o->seed, cap.alpha, scaled, count, o->exec, reference, err));
    for (int k = 0; k < ES_REGIMES_TOP && k < n; k++) {
        copy_top(draws, count, k, column);
        copy_top(reference, count, k, column + count);
        out->limit[k] = es_average_column(column + count, count, 1);
        out->law[k] = agreement(es_ks_two(column, count, column + count, count));
    }
    return ES_OK;
}

/* Tests the fluctuations of the output against the Gaussian of the subcritical regime. */
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

/* Draws, averages and tests. draws (2 count) holds the sample of the limit in its second half. */
static es_status fill(const es_regimes_opts *o, int64_t n, double beta, es_regimes_draw *draws,
                      int64_t count, double *column, es_regimes_row *out, es_error *err)
{
    const es_agreement none = {(double)NAN, (double)NAN};
    ES_TRY(es_regimes_sample(o, n, beta, draws, err));
    *out = (es_regimes_row){.bulk = 0.0};
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        out->law[k] = none;
        out->limit[k] = (es_measured){(double)NAN, (double)NAN};
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

/* ==== the stage ==== */

#define FIELD(name, member, measured)                                                              \
    {                                                                                              \
        name, offsetof(es_regimes_row, member), sizeof((es_regimes_row *)0)->member, measured      \
    }
#define TEST(name, member) FIELD(name, member.distance, false), FIELD(name "_p", member.p, false)

static const es_cell_field row_fields[] = {FIELD("weight", top, true),
                                           ES_FIELD(es_regimes_row, squares),
                                           ES_FIELD(es_regimes_row, entropy),
                                           ES_FIELD(es_regimes_row, deficit),
                                           ES_FIELD(es_regimes_row, tangential),
                                           ES_FIELD(es_regimes_row, radial),
                                           ES_FIELD(es_regimes_row, bulk),
                                           ES_FIELD(es_regimes_row, normality),
                                           TEST("ks_1", law[0]),
                                           TEST("ks_2", law[1]),
                                           TEST("ks_3", law[2]),
                                           TEST("ks_4", law[3]),
                                           TEST("ks_5", law[4]),
                                           TEST("ks_6", law[5]),
                                           TEST("ks_7", law[6]),
                                           TEST("ks_8", law[7]),
                                           ES_FIELD_LIST(es_regimes_row, limit),
                                           TEST("normal_radial", normal[0]),
                                           TEST("normal_tangential", normal[1]),
                                           {0}};

es_status regimes_cell_of(const es_job *job, int64_t i, regimes_cell *cell, es_error *err)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    const es_grid *scale = p->beta.count ? &p->beta : &p->b;
    const int64_t at = i % scale->count, size = i / scale->count;
    const bool file = p->law == REGIMES_FILE;
    *cell = (regimes_cell){.n = p->n.counts[size % p->n.count],
                           .dim = file ? s->points.cols : p->dim.counts[size / p->n.count],
                           .cap = {.alpha = p->alpha, .log_c = (double)NAN}};
    cell->keys = (es_keys){.dim = p->law == REGIMES_SUBSPHERE ? p->manifold + 1 : cell->dim,
                           .vanish = p->law == REGIMES_VANISHING ? p->power : 0.0,
                           .parts = s->parts,
                           .n_parts = p->kappa.count,
                           .planted = p->law == REGIMES_PLANTED};
    if (!file)
        ES_TRY(es_keys_exponent(&cell->keys, &cell->cap, err));
    /* THEORY 6: at beta = b n^(1/alpha) the nearest keys' scores differ by order 1 */
    const double unit = pow((double)cell->n, 1.0 / cell->cap.alpha);
    cell->beta = p->beta.count ? scale->reals[at] : scale->reals[at] * unit;
    cell->b = cell->beta / unit;
    return ES_OK;
}

/* Runs all replicates of one dim, n and beta; they share the table of the law of the keys. */
static es_status run_cell(es_job *job, int64_t i, const es_exec *exec, void *record, es_error *err)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    regimes_cell cell;
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    const es_regimes_opts opts = {job->seed,
                                  .method = p->brute ? ES_REGIMES_BRUTE : ES_REGIMES_NEAREST,
                                  .keys = &cell.keys,
                                  .points = s->points.data ? &s->points.view : NULL,
                                  .query = s->query.data,
                                  .replicates = p->replicates,
                                  .nearest = p->nearest,
                                  .exec = exec};
    return es_regimes_run(&opts, cell.n, cell.beta, record, err);
}

double regimes_largest_dim(const es_job *job)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    return s->points.data ? (double)s->points.cols : p->dim.reals[p->dim.count - 1];
}

/* Returns the operations of a cell, mean over n, at the 110 operations per nanosecond that times
 * are estimated with. Measured: a key drawn in order takes 85 ns; one drawn as a vector 60 ns, and
 * 6 ns for each coordinate. */
static double cell_flops(const es_job *job)
{
    const regimes_params *p = job->params;
    double keys = 0.0;
    for (int64_t i = 0; i < p->n.count; i++)
        keys += p->brute ? (6600.0 + 660.0 * regimes_largest_dim(job)) * p->n.reals[i]
                         : 9400.0 * fmin(p->n.reals[i], 2.0 * (double)p->nearest);
    return (double)p->replicates * keys / (double)p->n.count;
}

es_status regimes_stage(es_job *job, es_error *err)
{
    const regimes_params *p = job->params;
    const int64_t dims = p->law == REGIMES_FILE ? 1 : p->dim.count;
    /* Earlier versions wrote the stage "setting", whose cells have no `radial`. */
    return es_job_stage(
        job,
        &(es_stage){"regime", .phase = "drawing keys", .noun = "cells",
                    .cells = dims * p->n.count * (p->beta.count ? p->beta.count : p->b.count),
                    .rows = 1, ES_RECORD(es_regimes_row, row_fields), .flops = cell_flops(job),
                    .run = run_cell},
        err);
}
