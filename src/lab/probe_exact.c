/* probe_exact.c : the error that n tokens drawn independently from the pool give some queries of
 * every head: the exact integral over the weights that a query gives the pool (THEORY 13); then
 * what these queries say about all of them, and about the n that a head needs.
 *
 * Weights on 10^5 tokens are not kept: a query's tokens are gathered on a grid of scores while the
 * pool goes by (theory/draw_atoms.h), those of either half of the pool apart. */
#include "lab/probe_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "theory/draw_atoms.h"

enum { ALL, EVEN, ODD, SETS = ES_PROBE_SETS, POWERS = ES_PROBE_POWERS, GROUP = ES_PROBE_GROUP };

static int64_t sizes_of(const es_probe_spec *spec) { return spec->n_sizes + POWERS; }

int64_t es_probe_exact_numbers(const es_probe_spec *spec)
{
    const int64_t heads = es_model_config_of(spec->model)->heads;
    return heads * es_probe_exact_of(spec, es_probe_queries_of(spec)) * SETS * sizes_of(spec);
}

/* Of query i of a head: (SETS, sizes). */
static int64_t place_of(const es_probe_spec *spec, int64_t few, int64_t head, int64_t i)
{
    return (head * few + i) * SETS * sizes_of(spec);
}

/* ---- the walk ---- */

typedef struct exact_walk {
    const es_probe_spec *spec;
    int64_t layer, few, strip, count; /* queries; tokens of a strip, and of the present one */
    int64_t first;                    /* head of the group */
    int half;                         /* that the strip belongs to */
    es_probe_weights weights;
    float *q;              /* (queries, H) */
    float *x, *projected;  /* (strip, H), (strip, GROUP k) */
    double *keys, *values; /* (GROUP, k, strip) and (GROUP, strip, k) */
    double *scores;        /* (threads, strip) */
    const double *limit;   /* (queries, H) outputs */
    double *center;        /* (GROUP, few, k) of the group, contiguous */
    int64_t *sizes;        /* (sizes_of()) */
    es_draw_grid *grids;   /* (GROUP, few, 2) */
    es_draw_risk *risks;   /* (threads, sizes_of()) */
    double *out;
} exact_walk;

static int threads_of(const exact_walk *w)
{
    const es_exec quiet = es_lab_quiet(w->spec->exec);
    return es_parallel_threads(&quiet, GROUP * w->few);
}

static es_status prepare_exact(exact_walk *w, es_error *err)
{
    es_budget *budget = es_probe_budget(w->spec);
    ES_TRY(es_probe_weights_new(w->spec, w->layer, &w->weights, err));
    const int64_t H = w->weights.hidden, k = w->weights.width, threads = threads_of(w);
    const int64_t queries = es_probe_queries_of(w->spec), all = sizes_of(w->spec);
    ES_TRY(es_mem_array(budget, queries, H, sizeof *w->q, "queries", (void **)&w->q, err));
    ES_TRY(es_mem_array(budget, w->strip, H + GROUP * k, sizeof *w->x, "a strip of the pool",
                        (void **)&w->x, err));
    w->projected = w->x + w->strip * H;
    ES_TRY(es_mem_array(budget, w->strip, 2 * GROUP * k + threads, sizeof *w->keys,
                        "keys and values", (void **)&w->keys, err));
    w->values = w->keys + w->strip * GROUP * k;
    w->scores = w->values + w->strip * GROUP * k;
    ES_TRY(es_mem_array(budget, GROUP * w->few, k, sizeof *w->center, "outputs",
                        (void **)&w->center, err));
    ES_TRY(es_mem_array(budget, GROUP * w->few, 2, sizeof *w->grids, "grids of scores",
                        (void **)&w->grids, err));
    ES_TRY(es_mem_array(budget, all, 1, sizeof *w->sizes, "sizes", (void **)&w->sizes, err));
    ES_TRY(es_mem_array(budget, all, threads, sizeof *w->risks, "errors", (void **)&w->risks, err));
    for (int64_t i = 0; i < all; i++)
        w->sizes[i] =
            i < w->spec->n_sizes ? w->spec->sizes[i] : INT64_C(1) << (i - w->spec->n_sizes);
    return es_probe_queries(w->spec, w->layer, &w->weights, w->q, err);
}

static void free_grids(exact_walk *w)
{
    for (int64_t i = 0; w->grids && i < 2 * GROUP * w->few; i++)
        es_draw_grid_free(&w->grids[i]);
}

static void release_exact(exact_walk *w)
{
    es_budget *budget = es_probe_budget(w->spec);
    free_grids(w);
    es_mem_free(budget, w->risks);
    es_mem_free(budget, w->sizes);
    es_mem_free(budget, w->grids);
    es_mem_free(budget, w->center);
    es_mem_free(budget, w->keys);
    es_mem_free(budget, w->x);
    es_mem_free(budget, w->q);
    es_probe_weights_free(w->spec, &w->weights);
}

/* ---- a strip ---- */

static int64_t heads_of(const exact_walk *w)
{
    const int64_t left = w->weights.heads - w->first;
    return left < GROUP ? left : GROUP;
}

/* Keys or values of the group's heads: channel by channel, so that the scores of a query are a sum
 * of rows, or token by token. */
static es_status project_group(exact_walk *w, const float *matrix, bool by_channel, double *to,
                               es_error *err)
{
    const int64_t H = w->weights.hidden, k = w->weights.width, heads = heads_of(w), n = w->count;
    ES_TRY(es_probe_project(w->spec->exec, w->x, n, matrix + w->first * k * H, NULL, heads * k, H,
                            w->projected, err));
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                to[h * k * w->strip + (by_channel ? l * w->strip + j : j * k + l)] =
                    (double)w->projected[(j * heads + h) * k + l];
    return ES_OK;
}

static es_status gather_query(void *user, int64_t unit, int thread, es_error *err)
{
    const exact_walk *w = user;
    const int64_t k = w->weights.width, head = unit / w->few, i = unit % w->few, n = w->count;
    const float *q = w->q + i * w->weights.hidden + (w->first + head) * k;
    const double *keys = w->keys + head * k * w->strip;
    double *scores = w->scores + thread * w->strip;
    for (int64_t j = 0; j < n; j++)
        scores[j] = 0.0;
    for (int64_t l = 0; l < k; l++) {
        const double scaled = (double)q[l] / sqrt((double)k);
        for (int64_t j = 0; j < n; j++)
            scores[j] += scaled * keys[l * w->strip + j];
    }
    for (int64_t j = 0; j < n; j++)
        if (!(fabs(scores[j]) <= ES_DRAW_MOST_SCORE))
            return es_fail(err, ES_E_RANGE, "probe.score", "weights of the model are damaged",
                           "a score is %g", scores[j]);
    return es_draw_grid_add(&w->grids[2 * unit + w->half], scores, w->values + head * k * w->strip,
                            n, err);
}

static es_status gather_strip(exact_walk *w, int64_t first, int64_t count, es_error *err)
{
    const es_exec quiet = es_lab_quiet(w->spec->exec);
    w->count = count;
    w->half = (int)(first / w->strip % 2);
    ES_TRY(es_pool_rows(w->spec->pool, w->layer, first, count, w->x, err));
    ES_TRY(project_group(w, w->weights.wk, true, w->keys, err));
    ES_TRY(project_group(w, w->weights.wv, false, w->values, err));
    return es_parallel_run(&quiet, heads_of(w) * w->few, gather_query, w, err);
}

/* ---- a query ---- */

static es_status solve_set(const exact_walk *w, const es_draw_grid *const *grids, int64_t n,
                           es_draw_risk *risks, double *out, es_error *err)
{
    es_draw_atoms atoms;
    const int64_t all = sizes_of(w->spec);
    int64_t keys = 0;
    for (int64_t g = 0; g < n; g++)
        keys += grids[g]->keys;
    for (int64_t s = 0; s < all; s++)
        out[s] = (double)NAN;
    if (keys == 0)
        return ES_OK; /* a pool of one token has no other half */
    ES_TRY(es_draw_atoms_of(grids, n, &atoms, err));
    const es_status status = es_draw_solve(&atoms, w->sizes, all, risks, NULL, err);
    es_draw_atoms_free(&atoms);
    for (int64_t s = 0; s < all && status == ES_OK; s++)
        out[s] = risks[s].square.val;
    return status;
}

static es_status solve_query(void *user, int64_t unit, int thread, es_error *err)
{
    const exact_walk *w = user;
    const int64_t all = sizes_of(w->spec);
    es_draw_grid *grids = w->grids + 2 * unit;
    const es_draw_grid *const both[2] = {&grids[0], &grids[1]};
    es_draw_risk *risks = w->risks + thread * all;
    double *out = w->out + place_of(w->spec, w->few, w->first, 0) + unit * SETS * all;
    ES_TRY(solve_set(w, both, 2, risks, out + ALL * all, err));
    ES_TRY(solve_set(w, both, 1, risks, out + EVEN * all, err));
    ES_TRY(solve_set(w, both + 1, 1, risks, out + ODD * all, err));
    es_draw_grid_free(&grids[0]);
    es_draw_grid_free(&grids[1]);
    return ES_OK;
}

/* ---- all heads ---- */

static es_status begin_group(exact_walk *w, es_error *err)
{
    const int64_t H = w->weights.hidden, k = w->weights.width;
    for (int64_t unit = 0; unit < heads_of(w) * w->few; unit++) {
        double *center = w->center + unit * k;
        for (int64_t l = 0; l < k; l++)
            center[l] = w->limit[unit % w->few * H + (w->first + unit / w->few) * k + l];
        for (int half = 0; half < 2; half++)
            ES_TRY(es_draw_grid_init(&w->grids[2 * unit + half], es_probe_budget(w->spec), k,
                                     center, err));
    }
    return ES_OK;
}

static es_status walk_group(exact_walk *w, es_error *err)
{
    const int64_t tokens = es_pool_about(w->spec->pool).tokens;
    const double heads = (double)w->weights.heads, first = (double)w->first;
    /* gathering is to solving as es_probe_cost_of() has it */
    const double solving = first + (double)heads_of(w) * es_probe_gathering((double)tokens);
    es_lab_part gather = {w->spec->exec, first / heads, solving / heads};
    es_lab_part solve = {w->spec->exec, gather.to, (first + (double)heads_of(w)) / heads};
    const es_exec gathered = es_lab_exec_of(&gather), solved = es_lab_exec_of(&solve);
    ES_TRY(begin_group(w, err));
    for (int64_t at = 0; at < tokens; at += w->strip) {
        ES_TRY(gather_strip(w, at, tokens - at < w->strip ? tokens - at : w->strip, err));
        ES_TRY(es_lab_tell(&gathered, at, tokens, err));
    }
    return es_parallel_run(&solved, heads_of(w) * w->few, solve_query, w, err);
}

es_status es_probe_exact(const es_probe_spec *spec, int64_t layer, const double *numbers,
                         double *exact, es_error *err)
{
    ES_TRY(es_probe_check(spec, layer, err));
    exact_walk w = {.spec = spec,
                    .layer = layer,
                    .few = es_probe_exact_of(spec, es_probe_queries_of(spec)),
                    .strip = es_probe_strip(es_pool_about(spec->pool).tokens),
                    .limit = numbers + es_probe_layout_of(spec).limit,
                    .out = exact};
    es_status status = prepare_exact(&w, err);
    for (; w.first < w.weights.heads && status == ES_OK; w.first += GROUP)
        status = walk_group(&w, err);
    release_exact(&w);
    return status;
}

/* ==== what it says about a head ==== */

typedef struct curve {
    const es_probe *probe;
    int64_t head, few;
    const double *exact; /* (few, SETS, sizes) of the head */
    double *apart;       /* (queries) mean square distance of values from the output */
} curve;

/* mean |v - y|^2 = tr Wv S Wv' + |Wv mean - y|^2: the error of one token. */
static es_status curve_of(const es_probe *p, int64_t head, const double *exact, curve *c,
                          es_error *err)
{
    const int64_t H = p->weights.hidden, k = p->weights.width, m = p->queries;
    if (head < 0 || head >= p->weights.heads)
        return es_fail(err, ES_E_RANGE, "probe.head", "count from 0", "head %lld of %lld",
                       (long long)head, (long long)p->weights.heads);
    *c = (curve){.probe = p, .head = head, .few = es_probe_exact_of(&p->spec, m)};
    c->exact = exact + place_of(&p->spec, c->few, head, 0);
    ES_TRY(
        es_mem_array(p->exec.budget, m, 1, sizeof *c->apart, "distances", (void **)&c->apart, err));
    const es_probe_gram gram = es_probe_gram_of(p, head);
    for (int64_t l = 0; l < k; l++) {
        const float *row = p->weights.wv + (head * k + l) * H;
        double mean = 0.0;
        for (int64_t j = 0; j < H; j++)
            mean += (double)row[j] * p->mean[j];
        for (int64_t i = 0; i < m; i++)
            c->apart[i] += gram.vv[l * k + l] + pow(p->limit[i * H + head * k + l] - mean, 2.0);
    }
    return ES_OK;
}

/* What all queries have: right for one token and, if the weights spread, for many. */
static double rough(const curve *c, int64_t i, double n)
{
    const double sampling = c->probe->sampling[c->head * c->probe->queries + i];
    return 1.0 / (n / sampling + 1.0 / c->apart[i]);
}

static double of_set(const curve *c, int64_t i, int set, int64_t s)
{
    return c->exact[(i * SETS + set) * sizes_of(&c->probe->spec) + s];
}

static double mean_of_set(const curve *c, int set, int64_t s)
{
    double sum = 0.0;
    for (int64_t i = 0; i < c->few; i++)
        sum += of_set(c, i, set, s) / (double)c->few;
    return sum;
}

/* Mean square error over all queries: that of the exact ones, and their line on the rough error,
 * which is known for all (the regression estimator of survey sampling). Its variance is that around
 * the line, each query against the line of the others, over those that are not exact, and that of
 * the line's slope; where that is more than the plain mean has, there is no line. As a sample of
 * the text's queries it also has the scatter along the line, over all. */
typedef struct estimate {
    double square, variance, in_text;
} estimate;

/* Deviations of exact and rough errors of the exact queries from their means. */
typedef struct scatter {
    double mean, rough, step; /* means, and by how much that of all queries is above the latter */
    double xx, xy, yy;
} scatter;

static scatter scatter_at(const curve *c, int64_t s, double n)
{
    const double few = (double)c->few, m = (double)c->probe->queries;
    scatter d = {.mean = mean_of_set(c, ALL, s)};
    for (int64_t i = 0; i < c->probe->queries; i++) {
        d.step += rough(c, i, n) / m;
        d.rough += i < c->few ? rough(c, i, n) / few : 0.0;
    }
    d.step -= d.rough;
    for (int64_t i = 0; i < c->few; i++) {
        const double x = rough(c, i, n) - d.rough, y = of_set(c, i, ALL, s) - d.mean;
        d.xx += x * x;
        d.xy += x * y;
        d.yy += y * y;
    }
    return d;
}

static estimate estimate_at(const curve *c, int64_t s, double n)
{
    const scatter d = scatter_at(c, s, n);
    const double few = (double)c->few, left = 1.0 / few - 1.0 / (double)c->probe->queries;
    const double plain = d.yy / fmax(few - 1.0, 1.0);
    const estimate mean = {d.mean, plain * left, plain / few};
    if (!(d.xx > 0.0))
        return mean;
    const double slope = d.xy / d.xx;
    double around = 0.0;
    for (int64_t i = 0; i < c->few; i++) {
        const double x = rough(c, i, n) - d.rough, own = 1.0 / few + x * x / d.xx;
        const double off = of_set(c, i, ALL, s) - d.mean - slope * x;
        around += own < 1.0 ? pow(off / (1.0 - own), 2.0) / few : off * off;
    }
    const double of_slope = around * d.step * d.step / d.xx, along = plain - around;
    const estimate line = {d.mean + slope * d.step, around * left + of_slope,
                           around / few + of_slope + fmax(along, 0.0) / (double)c->probe->queries};
    return line.square > 0.0 && line.variance < mean.variance ? line : mean;
}

es_status es_probe_curve(const es_probe *probe, int64_t head, const double *exact,
                         es_probe_point *out, es_error *err)
{
    curve c;
    ES_TRY(curve_of(probe, head, exact, &c, err));
    for (int64_t s = 0; s < probe->spec.n_sizes; s++) {
        const estimate e = estimate_at(&c, s, (double)probe->spec.sizes[s]);
        const double error = sqrt(e.square);
        const double halves = sqrt(mean_of_set(&c, EVEN, s)) - sqrt(mean_of_set(&c, ODD, s));
        out[s] =
            (es_probe_point){.map_error = error,
                             .map_error_se = error > 0.0 ? sqrt(e.variance) / error / 2.0 : 0.0,
                             .map_error_pool = fabs(halves) / 2.0,
                             .few = sqrt(mean_of_set(&c, ALL, s))};
    }
    es_mem_free(probe->exec.budget, c.apart);
    return ES_OK;
}

/* ---- how many tokens ---- */

/* Where a curve (POWERS) at powers of two, a line in logarithms between them, falls to `square`;
 * its slope there. */
static double crossing(const double *at, double square, double *slope)
{
    int64_t i = 0;
    while (i < POWERS - 2 && at[i + 1] > square)
        i++;
    *slope = log(at[i + 1] / at[i]) / log(2.0);
    if (at[POWERS - 1] > square) { /* beyond: like 1/n */
        *slope = -1.0;
        return ldexp(at[POWERS - 1] / square, POWERS - 1);
    }
    return at[i] <= square ? 1.0 : ldexp(exp(log(square / at[i]) / *slope), (int)i);
}

es_status es_probe_needs(const es_probe *probe, int64_t head, const double *exact, double level,
                         es_probe_need *out, es_error *err)
{
    curve c;
    double all[POWERS], halves[2][POWERS], relative[POWERS], slope, unused;
    if (!(level > 0.0))
        return es_fail(err, ES_E_RANGE, "probe.level", "above zero", "the level is %g", level);
    ES_TRY(curve_of(probe, head, exact, &c, err));
    for (int64_t i = 0; i < POWERS; i++) {
        const int64_t s = probe->spec.n_sizes + i;
        const estimate e = estimate_at(&c, s, ldexp(1.0, (int)i));
        all[i] = e.square;
        relative[i] = sqrt(e.in_text) / e.square;
        for (int h = 0; h < 2; h++) /* with the same step from some queries to all */
            halves[h][i] = e.square * mean_of_set(&c, EVEN + h, s) / mean_of_set(&c, ALL, s);
    }
    es_mem_free(probe->exec.budget, c.apart);
    const double square = level * level, tokens = crossing(all, square, &slope);
    const int64_t near = (int64_t)fmin(fmax(floor(log2(tokens) + 0.5), 0.0), POWERS - 1);
    const double even = crossing(halves[0], square, &unused);
    const double odd = crossing(halves[1], square, &unused);
    *out = (es_probe_need){.tokens = tokens,
                           .queries_se = tokens * relative[near] / fmax(-slope, 0.05),
                           .pool_error = fabs(even - odd) / 2.0};
    return ES_OK;
}
