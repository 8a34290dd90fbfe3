/* SPDX-License-Identifier: Apache-2.0 */
/* far_query.c : one query over its sure keys and a far field, real or drawn; limit and exact error
 * of drawn ones (THEORY 20). */
#include "experiments/probe/far_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "random/random.h"
#include "risk/far_risk.h"
#include "stats/average.h"
#include "stats/weigh.h"

enum { LANES = 8, MOST_STRATA = 64, HALVES = 2 };

/* Multiples of this are spread evenly, modulo 1. */
#define GOLDEN 0.6180339887498949

/* Accuracy of the integral: far below what a few draws can show. */
#define TOLERANCE 1e-4

/* ---- scores ---- */

/* Returns a . b, in lanes: a single sum waits for itself. */
static float dot(const float *a, const float *b, int64_t k)
{
    float lane[LANES] = {0}, sum = 0.0F;
    int64_t c = 0;
    for (; c + LANES <= k; c += LANES)
        for (int64_t l = 0; l < LANES; l++)
            lane[l] += a[c + l] * b[c + l];
    for (; c < k; c++)
        sum += a[c] * b[c];
    for (int64_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* Returns the query as it meets a key at this distance. */
static const float *turned_at(const far_work *w, int64_t distance)
{
    return w->rotary ? w->turned + distance * w->k : w->query;
}

/* Returns the score of a key (before rotation) at a distance. */
static double score_of(const far_work *w, const far_query *q, int64_t distance, const float *key)
{
    double score = q->scale * (double)dot(turned_at(w, distance), key, w->k);
    es_cap_scores(w->seen->cap, 1, &score);
    return score;
}

/* Puts key `to` of the query: its score and value. */
static void put(far_work *w, const far_query *q, int64_t to, int64_t distance, const float *key,
                const float *value)
{
    w->score[to] = score_of(w, q, distance, key);
    w->value_of[to] = value;
}

/* ---- the query ---- */

/* Turns the query by every distance up to the farthest: THEORY 16.2 (R1). */
static void turn(far_work *w, const far_query *q)
{
    const es_rotary *r = w->rotary;
    const far_angles *a = &w->angles[q->table];
    const int which = r == &w->c->rotary_local, apart = r->pairs ? 1 : 0;
    const int64_t half = r->width / 2;
    for (int64_t d = 0; d <= q->at; d++) {
        const double *cosines = a->cosines[which] + d * half, *sines = a->sines[which] + d * half;
        float *to = w->turned + d * w->k;
        for (int64_t c = 0; c < half; c++) {
            const int64_t first = apart ? 2 * c : c, second = apart ? 2 * c + 1 : c + half;
            const double x = (double)w->query[first], y = (double)w->query[second];
            to[first] = (float)(x * cosines[c] - y * sines[c]);
            to[second] = (float)(y * cosines[c] + x * sines[c]);
        }
        for (int64_t c = r->width; c < w->k; c++)
            to[c] = w->query[c];
    }
}

/* Counts the keys that the query sees in a layer with a window of 0 (none) or more keys. */
static void count_keys(const far_work *w, far_query *q)
{
    const int64_t seen =
        w->seen->window && w->seen->window < q->at + 1 ? w->seen->window : q->at + 1;
    const int64_t hidden = q->at + 1 - seen; /* first places that it does not see */
    q->sinks = hidden < w->spec->sinks ? w->spec->sinks - hidden : 0;
    q->near = w->spec->near < seen - q->sinks ? w->spec->near : seen - q->sinks;
    q->far = seen - q->sinks - q->near;
    q->from = q->near;
    q->sure = q->sinks + q->near + (w->seen->sink ? 1 : 0);
}

/* Finds scores and values of the keys that stay as they are. */
static void put_sure(far_work *w, const far_query *q)
{
    int64_t to = 0;
    for (int64_t j = w->spec->sinks - q->sinks; j < w->spec->sinks; j++)
        put(w, q, to++, q->at - j, w->key + j * w->k, w->value + j * w->dv);
    for (int64_t d = 0; d < q->near; d++)
        put(w, q, to++, d, w->key + (q->i - d) * w->k, w->value + (q->i - d) * w->dv);
    if (w->seen->sink) {
        w->score[to] = *w->seen->sink;
        w->value_of[to] = NULL;
    }
}

/* Returns the factor of turned queries: what YaRN and longrope multiply queries and keys with, of
 * which the angles have one, and what queries are multiplied with at their place. */
static double scale_of(const far_work *w, const far_query *q)
{
    return w->seen->scale * (w->rotary ? w->rotary->attention : 1.0) *
           (w->query_factor && w->seen->plain_q.data ? w->query_factor[q->at] : 1.0);
}

far_query far_query_begin(far_work *w, int64_t i, int64_t at, int64_t base, int64_t table,
                          uint64_t token)
{
    far_query q = {.i = i, .at = at, .base = base, .table = table, .token = token};
    const es_view *plain = w->seen->plain_q.data ? &w->seen->plain_q : &w->seen->q;
    es_view_read_row(plain, i, w->row);
    for (int64_t c = 0; c < w->k; c++)
        w->query[c] = (float)w->row[c];
    q.scale = scale_of(w, &q);
    if (w->rotary)
        turn(w, &q);
    count_keys(w, &q);
    put_sure(w, &q);
    return q;
}

/* ---- far keys ---- */

void far_real(far_work *w, const far_query *q)
{
    for (int64_t f = 0; f < q->far; f++) {
        const int64_t j = q->i - q->from - f;
        put(w, q, q->sure + f, q->from + f, w->key + j * w->k, w->value + j * w->dv);
    }
}

/* Blocks of a pool that a far field may come from. */
typedef struct sources {
    const es_far_pool *pool;
    int64_t block[ES_FAR_BLOCKS], count;
} sources;

/* Lists the other blocks of part `part` of `parts` stretches of a pool, or all of them if it has
 * none. Draws of a query have a part each, so that they know nothing of each other. */
static sources sources_of(const far_work *w, const es_far_pool *pool, int part, int parts)
{
    sources s = {.pool = pool};
    for (int64_t b = 0; b < pool->blocks; b++)
        if (pool->source[b] != w->text->number && b * parts / pool->blocks == part)
            s.block[s.count++] = b;
    return s.count || parts == 1 ? s : sources_of(w, pool, 0, 1);
}

/* Returns the row of a pool that two uniform numbers stand for: one of the blocks, and a place
 * below q->base, or, where keys know their place, the part of the block with `place`. */
static int64_t row_of(const far_work *w, const far_query *q, const sources *s, int64_t place,
                      const double *u)
{
    const es_far_pool *pool = s->pool;
    const double part = (double)pool->rows / (double)(pool->length - pool->first);
    int64_t rows = (int64_t)((double)(q->base - pool->first) * part), row;
    rows = rows < 1 ? 1 : rows > pool->rows ? pool->rows : rows;
    row = (int64_t)(w->by_place ? (double)(place - pool->first) * part : u[1] * (double)rows);
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    return s->block[(int64_t)(u[0] * (double)s->count)] * pool->rows + row;
}

/* Draws uniform numbers (2 count) of purpose `which` of the query. */
static es_status draw_uniforms(far_work *w, const far_query *q, int which, int64_t count,
                               es_error *err)
{
    const es_address at = {.seed = w->spec->seed,
                           .experiment = ES_EXPERIMENT_FAR_KEYS,
                           .cell = w->cell,
                           .token = q->token + (uint64_t)which};
    return es_uniform_rows(&at, 1, 2 * count, w->uniform, err);
}

es_status far_draw(far_work *w, const far_query *q, const es_far_pool *pool, int part,
                   es_error *err)
{
    const sources from = sources_of(w, pool, part, ES_FAR_PARTS);
    const int which = part + (pool == w->text->other ? ES_FAR_PARTS : 0);
    if (q->far == 0)
        return ES_OK;
    ES_TRY(draw_uniforms(w, q, which, q->far, err));
    for (int64_t f = 0; f < q->far; f++) {
        const int64_t distance = q->from + f;
        const int64_t row = row_of(w, q, &from, q->at - distance, w->uniform + 2 * f);
        put(w, q, q->sure + f, distance,
            es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row),
            es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row));
    }
    return ES_OK;
}

/* ---- weights ---- */

void far_weigh(far_work *w, const far_query *q, double *stats, double *y)
{
    const int64_t count = q->sure + q->far;
    double top = -(double)INFINITY, z = 0.0, squares = 0.0, mean = 0.0, sink = 0.0, near = 0.0;
    double far = 0.0;
    for (int64_t j = 0; j < count; j++)
        top = fmax(top, w->score[j]);
    for (int64_t c = 0; c < w->dv; c++)
        y[c] = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double e = exp(w->score[j] - top);
        const float *v = w->value_of[j];
        z += e;
        squares += e * e;
        mean += e > 0.0 ? e * (w->score[j] - top) : 0.0;
        *(j < q->sinks             ? &sink
          : j < q->sinks + q->near ? &near
          : j >= q->sure           ? &far
                                   : &(double){0}) += e;
        for (int64_t c = 0; c < w->dv && v; c++)
            y[c] += e * (double)v[c];
    }
    for (int64_t c = 0; c < w->dv; c++)
        y[c] /= z;
    stats[ES_FAR_ENTROPY] += log(z) - mean / z;
    stats[ES_FAR_LOG_ESS] += log(z * z / squares);
    stats[ES_FAR_ESS] += z * z / squares;
    stats[ES_FAR_FAR] += far / z;
    stats[ES_FAR_SINK] += sink / z;
    stats[ES_FAR_NEAR] += near / z;
    stats[ES_FAR_TOP] += 1.0 / z;
}

/* ---- the exact error ---- */

/* Distances of one stratum and where its keys are. */
typedef struct strata {
    es_far_stratum of[MOST_STRATA];
    int64_t from[MOST_STRATA], count;
} strata;

/* Cuts the far distances into half octaves. */
static void cut(const far_query *q, strata *s)
{
    const int64_t end = q->from + q->far;
    for (int64_t from = q->from; from < end && s->count < MOST_STRATA; s->count++) {
        int64_t to = (int64_t)llround(sqrt(2.0) * (double)from);
        to = to <= from ? from + 1 : to;
        to = to > end || s->count == MOST_STRATA - 1 ? end : to;
        s->from[s->count] = from;
        s->of[s->count].draws = (double)(to - from);
        from = to;
    }
}

/* Fills one key of a stratum: a pool key at a distance of that stratum. */
static void put_atom(const far_work *w, const far_query *q, const sources *from, int64_t distance,
                     const double *u, double *score, double *value)
{
    const es_far_pool *pool = from->pool;
    const int64_t row = row_of(w, q, from, q->at - distance, u);
    const float *v = es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row);
    *score = score_of(w, q, distance, es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row));
    for (int64_t c = 0; c < w->dv; c++)
        value[c] = (double)v[c];
}

/* Keys of all strata (strata, HALVES, atoms / HALVES): each half comes from one half of the pool.
 */
typedef struct sampled {
    double *scores, *values, *sure;
} sampled;

/* Samples one half of the keys of stratum d, at distances that are evenly spread over it. */
static void sample_half(const far_work *w, const far_query *q, const strata *s, int64_t d, int half,
                        const sampled *out)
{
    const int64_t count = w->spec->atoms / HALVES, first = (d * HALVES + half) * count;
    const sources from = sources_of(w, w->text->pool, half, HALVES);
    for (int64_t a = 0; a < count; a++) {
        const double part = ((double)a + 0.5) / (double)count;
        const int64_t distance = s->from[d] + (int64_t)(part * s->of[d].draws), at = first + a;
        put_atom(w, q, &from, distance, w->uniform + 2 * (half * count + a), &out->scores[at],
                 out->values + at * w->dv);
    }
}

/* Samples keys of all strata. */
static es_status sample(far_work *w, const far_query *q, const strata *s, const sampled *out,
                        es_error *err)
{
    for (int64_t d = 0; d < s->count; d++) {
        ES_TRY(draw_uniforms(w, q, 2 * ES_FAR_PARTS + (int)d, w->spec->atoms, err));
        for (int half = 0; half < HALVES; half++)
            sample_half(w, q, s, d, half, out);
    }
    return ES_OK;
}

/* Computes (F2) with one half of the keys, or all of them: half -1. */
static es_status risk_of(const far_work *w, const far_query *q, strata *s, const sampled *keys,
                         int half, double *limit, es_far_risk *out, es_error *err)
{
    const int64_t atoms = w->spec->atoms, count = half < 0 ? atoms : atoms / HALVES;
    for (int64_t d = 0; d < s->count; d++) {
        const int64_t first = d * atoms + (half < 0 ? 0 : half * count);
        s->of[d].keys = (es_far_keys){count, keys->scores + first, keys->values + first * w->dv};
    }
    const es_far_query query = {w->dv, {q->sure, w->score, keys->sure}, s->of, s->count};
    return es_far_risk_of(&query, TOLERANCE, w->budget, limit, out, err);
}

/* Adds (F3): the risk by all keys, less what that by half of them has more. */
static void add_risk(const es_far_risk *all, const es_far_risk half[HALVES], es_far_cell *cell)
{
    cell->exact += 2.0 * all->square.val - 0.5 * (half[0].square.val + half[1].square.val);
    cell->exact_bias += 2.0 * all->bias2 - 0.5 * (half[0].bias2 + half[1].bias2);
    cell->sampling += 2.0 * all->sampling - 0.5 * (half[0].sampling + half[1].sampling);
}

/* Computes (F2) and (F3) with memory of the arena. */
static es_status solve(far_work *w, const far_query *q, es_arena *arena, es_far_cell *cell,
                       es_error *err)
{
    strata s = {.count = 0};
    sampled keys;
    double *limit;
    es_far_risk all, half[HALVES];
    cut(q, &s);
    const int64_t atoms = s.count * w->spec->atoms;
    ES_TRY(ES_ARENA_NEW(arena, keys.scores, atoms, "scores", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, keys.values, atoms, w->dv, "values", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, keys.sure, q->sure, w->dv, "values", err));
    ES_TRY(ES_ARENA_NEW(arena, limit, w->dv, "a limit", err));
    for (int64_t j = 0; j < q->sure; j++)
        for (int64_t c = 0; c < w->dv && w->value_of[j]; c++)
            keys.sure[j * w->dv + c] = (double)w->value_of[j][c];
    ES_TRY(sample(w, q, &s, &keys, err));
    ES_TRY(risk_of(w, q, &s, &keys, -1, limit, &all, err));
    for (int h = 0; h < HALVES; h++)
        ES_TRY(risk_of(w, q, &s, &keys, h, limit, &half[h], err));
    add_risk(&all, half, cell);
    return ES_OK;
}

es_status far_exact(far_work *w, const far_query *q, es_far_cell *cell, es_error *err)
{
    es_arena arena = {.budget = w->budget};
    const es_status status = solve(w, q, &arena, cell, err);
    es_arena_free(&arena);
    return status;
}

/* ---- the error of the limit ---- */

/* A sum of e^score and of e^score v (dv), in units of e^top. */
typedef struct weighted {
    double top, z, *n;
} weighted;

/* Adds `times` a key; value NULL: 0. */
static void add_key(weighted *sum, double score, double times, const float *value, int64_t dv)
{
    if (score > sum->top) {
        const double less = exp(sum->top - score);
        sum->z *= less;
        for (int64_t c = 0; c < dv; c++)
            sum->n[c] *= less;
        sum->top = score;
    }
    const double e = times * exp(score - sum->top);
    sum->z += e;
    for (int64_t c = 0; c < dv && value; c++)
        sum->n[c] += e * (double)value[c];
}

/* Adds all keys of a part of the pool to the sum over a stratum, each at one of its distances. */
static void add_pool(const far_work *w, const far_query *q, const sources *from, double draws,
                     int64_t first, weighted *sum)
{
    const es_far_pool *pool = from->pool;
    const int64_t keys = from->count * pool->rows;
    for (int64_t a = 0; a < keys; a++) {
        const double turn = (double)a * GOLDEN;
        const int64_t distance = first + (int64_t)((turn - floor(turn)) * draws);
        const double u[2] = {((double)(a / pool->rows) + 0.5) / (double)from->count,
                             ((double)(a % pool->rows) + 0.5) / (double)pool->rows};
        const int64_t row = row_of(w, q, from, q->at - distance, u);
        const float *key = es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row);
        add_key(sum, score_of(w, q, distance, key), draws / (double)keys,
                es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row), w->dv);
    }
}

/* Finds the limit (F1) by the keys of one part of the pool: y (dv), zeros before. */
static void find_limit(const far_work *w, const far_query *q, const strata *s, int part, double *y)
{
    const sources from = sources_of(w, w->text->pool, part, ES_FAR_PARTS);
    weighted sum = {.top = -(double)INFINITY, .n = y};
    for (int64_t j = 0; j < q->sure; j++)
        add_key(&sum, w->score[j], 1.0, w->value_of[j], w->dv);
    for (int64_t d = 0; d < s->count; d++)
        add_pool(w, q, &from, s->of[d].draws, s->from[d], &sum);
    for (int64_t c = 0; c < w->dv; c++)
        y[c] /= sum.z;
}

es_status far_limit_error(far_work *w, const far_query *q, double *out, es_error *err)
{
    strata s = {.count = 0};
    double *limits;
    cut(q, &s);
    ES_TRY(ES_MEM_NEW_2D(w->budget, limits, ES_FAR_PARTS, w->dv, "limits", err));
    for (int p = 0; p < ES_FAR_PARTS; p++)
        find_limit(w, q, &s, p, limits + p * w->dv);
    *out = 0.0;
    for (int64_t c = 0; c < w->dv; c++)
        *out += es_spread_of(limits + c, ES_FAR_PARTS, w->dv).squares;
    *out /= ES_FAR_PARTS * (ES_FAR_PARTS - 1);
    es_mem_free(w->budget, limits);
    return ES_OK;
}
