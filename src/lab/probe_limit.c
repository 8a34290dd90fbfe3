/* probe_limit.c : one walk through a layer's pool: moments of its tokens, and what the queries see
 * in all of it and in either half; then the keys near a query.
 *
 * Scores are taken twice, as they are and doubled: the weights of doubled scores are w^2 / sum w^2,
 * and with |v|^2 as one more value that is all that sum w^2 |v - output|^2 needs, the square of
 * what a drawn token changes (THEORY 9). */
#include "lab/probe_inside.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/exponent.h>
#include <esscher/freezing.h>
#include <esscher/linalg.h>
#include <esscher/moments.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/average.h"

enum { STRIP_MOST = 4096, STRIPS_LEAST = 16 }; /* tokens read at a time */

/* Strips alternate between the halves: an even number of them, all of one length but the last, so
 * that the halves are alike in size, and so many that both see all of the text. */
int64_t es_probe_strip(int64_t tokens)
{
    const int64_t wanted = 2 * ((tokens + 2 * STRIP_MOST - 1) / (2 * STRIP_MOST));
    const int64_t strips = wanted < STRIPS_LEAST ? STRIPS_LEAST : wanted;
    return (tokens + strips - 1) / strips;
}

typedef struct walk {
    const es_probe_spec *spec;
    int64_t layer, queries, strip;
    es_probe_weights weights;
    float *q;                 /* (queries, H) */
    float *x, *keys, *values; /* (strip, H) */
    float *longer;            /* (strip, k + 1) values of a head and their squared lengths */
    double *mean, *cov;       /* of a strip */
    es_moments moments;       /* of all */
    es_partial **partial;     /* (2, heads): what each half has shown */
} walk;

/* ---- set up ---- */

static es_status open_partials(walk *w, es_error *err)
{
    const double scale = 1.0 / sqrt((double)w->weights.width), scales[2] = {scale, 2.0 * scale};
    const es_exec exec = es_lab_quiet(w->spec->exec);
    const es_attend_opts opts = {.scales = scales, .n_scales = 2, .exec = &exec};
    ES_TRY(es_mem_array(es_probe_budget(w->spec), 2, w->weights.heads, sizeof *w->partial,
                        "partial states", (void **)&w->partial, err));
    for (int64_t i = 0; i < 2 * w->weights.heads; i++)
        ES_TRY(es_partial_new(w->queries, w->weights.width + 1, &opts, &w->partial[i], err));
    return ES_OK;
}

static es_status prepare_walk(walk *w, es_error *err)
{
    es_budget *budget = es_probe_budget(w->spec);
    ES_TRY(es_probe_weights_new(w->spec, w->layer, &w->weights, err));
    const int64_t H = w->weights.hidden;
    ES_TRY(es_mem_array(budget, w->queries, H, sizeof(float), "queries", (void **)&w->q, err));
    ES_TRY(es_mem_array(budget, w->strip, 3 * H + w->weights.width + 1, sizeof(float),
                        "a strip of the pool", (void **)&w->x, err));
    w->keys = w->x + w->strip * H;
    w->values = w->keys + w->strip * H;
    w->longer = w->values + w->strip * H;
    ES_TRY(es_mem_array(budget, H + 1, H, sizeof(double), "a covariance", (void **)&w->mean, err));
    w->cov = w->mean + H;
    ES_TRY(es_moments_new(H, budget, &w->moments, err));
    ES_TRY(open_partials(w, err));
    return es_probe_queries(w->spec, w->layer, &w->weights, w->q, err);
}

static void release_walk(walk *w)
{
    es_budget *budget = es_probe_budget(w->spec);
    for (int64_t i = 0; w->partial && i < 2 * w->weights.heads; i++)
        es_partial_free(w->partial[i]);
    es_mem_free(budget, w->partial);
    es_moments_free(&w->moments);
    es_mem_free(budget, w->mean);
    es_mem_free(budget, w->x);
    es_mem_free(budget, w->q);
    es_probe_weights_free(w->spec, &w->weights);
}

/* ---- a strip ---- */

/* Moments of the strip by BLAS, joined to those of the strips before. */
static es_status add_moments(walk *w, int64_t count, es_error *err)
{
    const int64_t H = w->weights.hidden;
    const es_view x = es_view_f32(w->x, count, H);
    const es_exec exec = es_lab_quiet(w->spec->exec);
    ES_TRY(es_cov_estimate(&x, false, &exec, w->mean, w->cov, err));
    for (int64_t i = 0; i < H * H; i++)
        w->cov[i] *= (double)count;
    const es_moments strip = {.count = count, .dim = H, .mean = w->mean, .scatter = w->cov};
    es_moments_merge(&w->moments, &strip);
    return ES_OK;
}

static es_status add_strip(walk *w, int64_t first, int64_t count, es_error *err)
{
    const es_probe_weights *p = &w->weights;
    const int64_t half = first / w->strip % 2;
    ES_TRY(es_pool_rows(w->spec->pool, w->layer, first, count, w->x, err));
    ES_TRY(add_moments(w, count, err));
    ES_TRY(es_probe_project(w->spec->exec, w->x, count, p->wk, NULL, p->hidden, p->hidden, w->keys,
                            err));
    ES_TRY(es_probe_project(w->spec->exec, w->x, count, p->wv, NULL, p->hidden, p->hidden,
                            w->values, err));
    for (int64_t h = 0; h < p->heads; h++) {
        es_view q = es_view_f32(w->q + h * p->width, w->queries, p->width);
        es_view k = es_view_f32(w->keys + h * p->width, count, p->width);
        const es_view v = es_view_f32(w->longer, count, p->width + 1);
        q.row_stride = k.row_stride = p->hidden * (int64_t)sizeof(float);
        es_probe_lengthen(w->values + h * p->width, p->hidden, count, p->width, w->longer);
        ES_TRY(es_partial_attend(w->partial[half * p->heads + h], &q, &k, &v, first, err));
    }
    return ES_OK;
}

/* ---- the numbers ---- */

/* Outputs of a head over some tokens, their logarithms of sum exp(score), both for scores as they
 * are and doubled. */
typedef struct seen {
    double *output;   /* (2, queries, k + 1) */
    double *lse;      /* (2, queries) */
    double *top;      /* (2, queries) largest weights */
    double *squares;  /* (2, queries) sum w^2 */
    double *sampling; /* (queries) */
    int64_t tokens;
} seen;

/* N sum w^2 |v - output|^2, mean over queries, and in *thin the share of those for which fewer than
 * ES_PROBE_THIN tokens count, 1/sum w^2. */
static double sampling_of(const walk *w, const seen *s, double *thin)
{
    const int64_t k = w->weights.width, m = w->queries;
    const double N = (double)s->tokens;
    double sum = 0.0;
    *thin = 0.0;
    for (int64_t i = 0; i < m; i++) {
        const double *output = s->output + i * (k + 1), *doubled = output + m * (k + 1);
        const double squares = exp(s->lse[m + i] - 2.0 * s->lse[i]); /* sum w^2 */
        s->sampling[i] = N * es_probe_sampling_at(output, doubled, s->lse[i], s->lse[m + i], k);
        sum += s->sampling[i] / (double)m;
        *thin += squares * ES_PROBE_THIN > 1.0 ? 1.0 / (double)m : 0.0;
    }
    return sum;
}

static es_status look(es_partial *partial, const seen *s, es_error *err)
{
    const es_attend_out out = {
        .output = s->output, .lse = s->lse, .top_weight = s->top, .sum_squares = s->squares};
    return es_partial_finish(partial, &out, err);
}

es_probe_focus es_probe_focus_of(double *squares, double *top, int64_t queries)
{
    es_probe_focus f = {0};
    for (int64_t i = 0; i < queries; i++) {
        f.ess_low += squares[i] > 0.5 ? 1.0 / (double)queries : 0.0;
        f.top_high += top[i] > 0.5 ? 1.0 / (double)queries : 0.0;
    }
    es_sort_reals(squares, queries);
    es_sort_reals(top, queries);
    f.ess = 1.0 / es_median_of(squares, queries);
    f.top = es_median_of(top, queries);
    return f;
}

/* Outputs over the pool into limit; half the distance between the halves, and what sampling adds,
 * into `about`. The error of a pool of one token is not known. */
static es_status finish_head(walk *w, int64_t head, seen half[2], double *numbers, es_error *err)
{
    const es_probe_layout at = es_probe_layout_of(w->spec);
    double *limit = numbers + at.limit, *about = numbers + at.about + ES_PROBE_ABOUT * head;
    const int64_t k = w->weights.width, H = w->weights.hidden, m = w->queries;
    es_partial *even = w->partial[head], *odd = w->partial[w->weights.heads + head];
    es_probe_cell apart = {(double)NAN, (double)NAN, (double)NAN};
    double difference = (double)NAN, thin;
    ES_TRY(look(even, &half[0], err));
    if (half[1].tokens > 0) {
        ES_TRY(look(odd, &half[1], err));
        ES_TRY(es_probe_errors(es_probe_budget(w->spec), half[0].output, k + 1, half[1].output,
                               k + 1, m, k, &apart, err));
        difference = fabs(sampling_of(w, &half[0], &thin) - sampling_of(w, &half[1], &thin));
        ES_TRY(es_partial_merge(even, odd, err));
        ES_TRY(look(even, &half[0], err));
    }
    seen all = half[0];
    all.tokens += half[1].tokens;
    for (int64_t i = 0; i < m; i++)
        memcpy(limit + i * H + head * k, all.output + i * (k + 1), (size_t)k * sizeof *limit);
    const double sampling = sampling_of(w, &all, &thin);
    memcpy(numbers + at.sampling + head * m, all.sampling, (size_t)m * sizeof *numbers);
    const es_probe_focus f = es_probe_focus_of(all.squares, all.top, m);
    const double of_head[ES_PROBE_ABOUT] = {apart.mean_error / 2.0,
                                            apart.cov_error / 2.0,
                                            apart.map_error / 2.0,
                                            sampling,
                                            difference / 2.0,
                                            thin,
                                            f.ess,
                                            f.ess_low,
                                            f.top,
                                            f.top_high};
    memcpy(about, of_head, sizeof of_head);
    return ES_OK;
}

static es_status finish(walk *w, double *numbers, es_error *err)
{
    const int64_t m = w->queries, outputs = 2 * m * (w->weights.width + 1), strip = w->strip;
    const int64_t tokens = es_pool_about(w->spec->pool).tokens;
    double *room;
    ES_TRY(es_mem_array(es_probe_budget(w->spec), 2, outputs + 7 * m, sizeof *room, "outputs",
                        (void **)&room, err));
    seen half[2];
    for (int i = 0; i < 2; i++) {
        double *at = room + i * (outputs + 7 * m), *lse = at + outputs;
        half[i] = (seen){at, lse, lse + 2 * m, lse + 4 * m, lse + 6 * m, 0};
    }
    for (int64_t first = 0; first < tokens; first += strip)
        half[first / strip % 2].tokens += tokens - first < strip ? tokens - first : strip;
    es_status status = ES_OK;
    for (int64_t h = 0; h < w->weights.heads && status == ES_OK; h++)
        status = finish_head(w, h, half, numbers, err);
    es_mem_free(es_probe_budget(w->spec), room);
    return status;
}

static es_status walk_pool(walk *w, double *numbers, es_error *err)
{
    const int64_t tokens = es_pool_about(w->spec->pool).tokens, H = w->weights.hidden;
    const es_probe_layout at = es_probe_layout_of(w->spec);
    for (int64_t first = 0; first < tokens; first += w->strip) {
        const int64_t count = tokens - first < w->strip ? tokens - first : w->strip;
        ES_TRY(add_strip(w, first, count, err));
        ES_TRY(es_lab_tell(w->spec->exec, first + count, tokens, err));
    }
    memcpy(numbers + at.mean, w->moments.mean, (size_t)H * sizeof(double));
    es_moments_covariance(&w->moments, 0, numbers + at.cov);
    return finish(w, numbers, err);
}

es_status es_probe_measure(const es_probe_spec *spec, int64_t layer, double *numbers, es_error *err)
{
    ES_TRY(es_probe_check(spec, layer, err));
    walk w = {.spec = spec,
              .layer = layer,
              .queries = es_probe_queries_of(spec),
              .strip = es_probe_strip(es_pool_about(spec->pool).tokens)};
    es_status status = prepare_walk(&w, err);
    if (status == ES_OK)
        status = walk_pool(&w, numbers, err);
    release_walk(&w);
    return status;
}

/* ==== neighbours ====
 * How many keys lie near the direction of a query, and what that means for a head (THEORY 6). */

enum { ASKED = 64 }; /* queries: enough for an error of a few per cent */

typedef struct neighbours {
    const es_probe *probe;
    int64_t n;     /* keys */
    int64_t *rows; /* (n) of the pool */
    float *x;      /* (n, H) tokens, */
    float *keys;   /* (n, H) their keys less the mean key, all heads side by side */
    float *centre; /* (H) the mean key, */
    float *mean;   /* (H) that of the mean token */
} neighbours;

static es_status prepare(neighbours *s, es_error *err)
{
    const int64_t H = s->probe->weights.hidden;
    es_budget *budget = s->probe->exec.budget;
    ES_TRY(es_mem_array(budget, s->n, 1, sizeof *s->rows, "rows of keys", (void **)&s->rows, err));
    ES_TRY(es_mem_array(budget, 2 * (s->n + 1), H, sizeof *s->x, "keys", (void **)&s->x, err));
    s->keys = s->x + s->n * H;
    s->centre = s->keys + s->n * H;
    s->mean = s->centre + H;
    return ES_OK;
}

static void release(neighbours *s)
{
    es_mem_free(s->probe->exec.budget, s->x);
    es_mem_free(s->probe->exec.budget, s->rows);
}

/* Keys of tokens drawn from the pool. Adding a vector to all keys changes no weight of attention,
 * but it does change angles; without their mean, angles are those that tell keys apart. */
static es_status draw_keys(neighbours *s, es_error *err)
{
    const es_probe *p = s->probe;
    const int64_t H = p->weights.hidden;
    const es_address at = {
        .seed = p->spec.seed, .experiment = ES_PROBE_LOCAL, .cell = (uint64_t)p->layer};
    es_permutation shuffle;
    ES_TRY(es_permutation_init(&at, p->pool.tokens, &shuffle, err));
    for (int64_t i = 0; i < s->n; i++)
        s->rows[i] = es_permutation_at(&shuffle, i);
    ES_TRY(es_pool_gather(p->spec.pool, p->layer, s->rows, s->n, s->x, err));
    for (int64_t i = 0; i < H; i++)
        s->mean[i] = (float)-p->mean[i];
    ES_TRY(es_probe_project(&p->exec, s->mean, 1, p->weights.wk, NULL, H, H, s->centre, err));
    return es_probe_project(&p->exec, s->x, s->n, p->weights.wk, s->centre, H, H, s->keys, err);
}

/* |q| |k - mean k| / sqrt(width), root mean square: how much a score changes from a key in the
 * direction of the query to one across it. */
static double inverse_temperature(const neighbours *s, int64_t head)
{
    const es_probe *p = s->probe;
    const int64_t k = p->weights.width;
    const es_probe_gram gram = es_probe_gram_of(p, head);
    double keys = 0.0, queries = 0.0;
    for (int64_t i = 0; i < k; i++)
        keys += gram.kk[i * k + i];
    for (int64_t i = 0; i < p->queries; i++)
        for (int64_t j = 0; j < k; j++)
            queries += pow((double)p->q[i * p->weights.hidden + head * k + j], 2.0);
    return sqrt(keys * queries / (double)p->queries / (double)k);
}

static es_status ask_head(const neighbours *s, int64_t head, es_probe_local *out, es_error *err)
{
    const es_probe *p = s->probe;
    const int64_t H = p->weights.hidden, k = p->weights.width;
    es_view keys = es_view_f32(s->keys + head * k, s->n, k);
    es_view queries = es_view_f32(p->q + head * k, p->queries < ASKED ? p->queries : ASKED, k);
    keys.row_stride = queries.row_stride = H * (int64_t)sizeof(float);
    const es_exec quiet = es_lab_quiet(&p->exec);
    es_exponent_pool found;
    const es_status status = es_exponent_queries(
        &keys, &queries, &(es_exponent_opts){.exec = &quiet}, NULL, &found, err);
    *out = (es_probe_local){.beta = inverse_temperature(s, head),
                            .exponent = (double)NAN,
                            .exponent_se = (double)NAN,
                            .beta_frozen = (double)NAN};
    if (status == ES_E_NUMERIC || status == ES_E_RANGE || status == ES_E_EMPTY)
        return ES_OK; /* keys are too few, in one place, or one is nowhere: there is no exponent */
    ES_TRY(status);
    out->exponent = found.alpha;
    out->exponent_se = found.alpha_se;
    const es_exponent law = {.alpha = found.alpha, .log_c = found.log_c, .reach = found.reach};
    es_scales scales;
    ES_TRY(es_exponent_scales(&law, (double)p->spec.sizes[p->spec.n_sizes - 1], p->exec.budget,
                              &scales, NULL, err));
    out->beta_frozen = scales.frozen;
    return ES_OK;
}

es_status es_probe_local_of(const es_probe *probe, es_probe_local *out, es_error *err)
{
    const int64_t tokens = probe->pool.tokens;
    neighbours s = {.probe = probe, .n = tokens < ES_PROBE_KEYS ? tokens : ES_PROBE_KEYS};
    es_status status = prepare(&s, err);
    if (status == ES_OK)
        status = draw_keys(&s, err);
    for (int64_t h = 0; h < probe->weights.heads && status == ES_OK; h++)
        status = ask_head(&s, h, &out[h], err);
    release(&s);
    return status;
}
