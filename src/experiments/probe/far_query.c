/* SPDX-License-Identifier: Apache-2.0 */
/* far_query.c : one query over its sure keys and a far field, real or drawn (THEORY 20). */
#include "experiments/probe/far_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "random/random.h"
#include "stats/weigh.h"

enum { LANES = 8 };

/* ---- scores ---- */

/* Returns a . b, summed in lanes: additions to a single sum would wait for each other. */
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

double far_score(const far_work *w, const far_query *q, int64_t distance, const float *key)
{
    double score = q->scale * (double)dot(turned_at(w, distance), key, w->k);
    es_cap_scores(w->seen->cap, 1, &score);
    return score;
}

/* Puts key `to` of the query: its score and value. */
static void put(far_work *w, const far_query *q, int64_t to, int64_t distance, const float *key,
                const float *value)
{
    w->score[to] = far_score(w, q, distance, key);
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

/* Returns whether the head has a learned sink. */
static bool has_sink(const far_work *w) { return w->seen->sink && isfinite(*w->seen->sink); }

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
    q->sure = q->sinks + q->near + (has_sink(w) ? 1 : 0);
}

/* Finds scores and values of the keys that stay as they are: sinks, then the last keys by distance.
 */
static void put_sure(far_work *w, const far_query *q)
{
    int64_t to = 0;
    for (int64_t j = w->spec->sinks - q->sinks; j < w->spec->sinks; j++)
        put(w, q, to++, q->at - j, w->key + j * w->k, w->value + j * w->dv);
    if (has_sink(w)) {
        w->score[to] = *w->seen->sink;
        w->value_of[to++] = NULL;
    }
    for (int64_t d = 0; d < q->near; d++)
        put(w, q, to++, d, w->key + (q->i - d) * w->k, w->value + (q->i - d) * w->dv);
}

/* Returns the factor of turned queries: the factor by which YaRN and longrope multiply queries and
 * keys, counted once because the angles contain it once, and the factor of queries by their place.
 */
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

far_sources far_sources_of(const far_work *w, const es_far_pool *pool, int part, int parts)
{
    far_sources s = {.pool = pool};
    for (int64_t b = 0; b < pool->blocks; b++)
        if (pool->source[b] != w->text->number && b * parts / pool->blocks == part)
            s.block[s.count++] = b;
    return s.count || parts == 1 ? s : far_sources_of(w, pool, 0, 1);
}

int64_t far_row(const far_work *w, const far_query *q, const far_sources *s, int64_t place,
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

es_status far_uniforms(far_work *w, const far_query *q, int which, int64_t count, es_error *err)
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
    const far_sources from = far_sources_of(w, pool, part, ES_FAR_PARTS);
    const int which = part + (pool == w->text->other ? ES_FAR_PARTS : 0);
    if (q->far == 0)
        return ES_OK;
    ES_TRY(far_uniforms(w, q, which, q->far, err));
    for (int64_t f = 0; f < q->far; f++) {
        const int64_t distance = q->from + f;
        const int64_t row = far_row(w, q, &from, q->at - distance, w->uniform + 2 * f);
        put(w, q, q->sure + f, distance,
            es_far_pool_key(pool, w->c, w->seen->layer, w->kv_head, row),
            es_far_pool_value(pool, w->c, w->seen->layer, w->kv_head, row));
    }
    return ES_OK;
}

/* ---- weights ---- */

/* Returns the sum that key j belongs to. A learned sink belongs to none: `rest`. */
static double *mass_of(const far_query *q, int64_t j, double *sink, double *near, double *far,
                       double *rest)
{
    return j < q->sinks ? sink : j >= q->sure ? far : j >= q->sure - q->near ? near : rest;
}

/* Writes a sum of values over its sum of weights to out (dv); 0 if all weights are. */
static void copy_output(const double *sum, double z, int64_t dv, double *out)
{
    for (int64_t i = 0; i < dv; i++)
        out[i] = z > 0.0 ? sum[i] / z : 0.0;
}

/* Adds |y_w - y|^2 of all windows that leave out keys: `windows` of w->window are filled. */
static void add_windows(const far_work *w, int windows, const double *y, double *errors)
{
    for (int c = 0; c < windows; c++)
        for (int64_t i = 0; i < w->dv; i++)
            errors[c] += pow(w->window[c * w->dv + i] - y[i], 2.0);
}

void far_weigh(far_work *w, const far_query *q, double *stats, double *windows, double *y)
{
    const int64_t count = q->sure + q->far, first = q->sure - q->near; /* of the last keys */
    double top = -(double)INFINITY, z = 0.0, squares = 0.0, mean = 0.0, sink = 0.0, near = 0.0;
    double far = 0.0, rest = 0.0;
    int64_t next = es_far_window(0);
    int c = 0;
    for (int64_t j = 0; j < count; j++)
        top = fmax(top, w->score[j]);
    for (int64_t i = 0; i < w->dv; i++)
        y[i] = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double e = exp(w->score[j] - top);
        const float *v = w->value_of[j];
        z += e;
        squares += e * e;
        mean += e > 0.0 ? e * (w->score[j] - top) : 0.0;
        *mass_of(q, j, &sink, &near, &far, &rest) += e;
        for (int64_t i = 0; i < w->dv && v; i++)
            y[i] += e * (double)v[i];
        if (j + 1 - first == next && j + 1 < count && c < ES_FAR_WINDOWS) {
            copy_output(y, z, w->dv, w->window + c * w->dv);
            next = es_far_window(++c);
        }
    }
    copy_output(y, z, w->dv, y);
    add_windows(w, c, y, windows);
    stats[ES_FAR_ENTROPY] += log(z) - mean / z;
    stats[ES_FAR_LOG_ESS] += log(z * z / squares);
    stats[ES_FAR_ESS] += z * z / squares;
    stats[ES_FAR_FAR] += far / z;
    stats[ES_FAR_SINK] += sink / z;
    stats[ES_FAR_NEAR] += near / z;
    stats[ES_FAR_TOP] += 1.0 / z;
}
