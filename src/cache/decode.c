/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c : attention over a cache that drops a key after each token (golden/cache B).
 *
 * Token t = 0, 1, ..., for a set of units that hold the same places, `keys` of them at most:
 *   1  the new key and value take the slot that is free
 *   2  the query attends to all that is held, its own key included
 *   3  if keys + 1 are held, one of them goes; its slot is the next one's
 * Products are in the model's precision, weights in f64. Keys beyond the layer's window are never
 * seen again, so they go first. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cache/evict_row.h"
#include "cache/softmax.h"
#include "linalg/dense.h"

/* What is held. */
typedef struct slots {
    int64_t most;   /* keys + 1, or n */
    int64_t count;  /* slots in use */
    int64_t free;   /* the slot that the next key takes, if count = most */
    int64_t *place; /* (most) of each slot's key in the text */
    double *sum;    /* (most) weight that it has had */
    double *weight; /* (most) weight that the present query gives it, of all heads */
    double *w;      /* (most) of one head */
    char *k, *v;    /* (units, most, d) rows of the units */
    char *products; /* (heads of a unit, most) */
    char *weights;  /* (heads of a unit, most) rounded to the model's precision */
    void *memory;
    int64_t d, item;
    es_dtype dtype;
} slots;

static es_status slots_new(const es_decode *p, slots *s, es_error *err)
{
    const int64_t n = p->k[0].rows, each = p->count / p->units;
    *s = (slots){.d = p->k[0].cols, .dtype = p->k[0].dtype};
    s->item = (int64_t)es_dtype_size(s->dtype);
    s->most = p->spec->keys < n ? p->spec->keys + 1 : n;
    const int64_t narrow = s->most * (2 * p->units * s->d + 2 * each) * s->item;
    ES_TRY(
        ES_MEM_BYTES(p->budget, s->memory, (size_t)(s->most * 32 + narrow), "a decode cache", err));
    s->place = s->memory;
    s->sum = (double *)(void *)(s->place + s->most);
    s->weight = s->sum + s->most;
    s->w = s->weight + s->most;
    s->k = (char *)(s->w + s->most);
    s->v = s->k + p->units * s->most * s->d * s->item;
    s->products = s->v + p->units * s->most * s->d * s->item;
    s->weights = s->products + each * s->most * s->item;
    return ES_OK;
}

/* Copies the key and value of token t of every unit into the free slot. */
static void hold(const es_decode *p, slots *s, int64_t t)
{
    const int64_t at = s->count < s->most ? s->count++ : s->free;
    const size_t bytes = (size_t)(s->d * s->item);
    for (int64_t u = 0; u < p->units; u++) {
        const int64_t row = (u * s->most + at) * s->d * s->item;
        memcpy(s->k + row, (const char *)p->k[u].data + t * p->k[u].row_stride, bytes);
        memcpy(s->v + row, (const char *)p->v[u].data + t * p->v[u].row_stride, bytes);
    }
    s->place[at] = t;
    s->sum[at] = 0.0;
}

/* Writes a head's weights w (count) in the model's precision. */
static void narrow(const slots *s, int64_t head)
{
    char *to = s->weights + head * s->count * s->item;
    if (s->dtype == ES_F32)
        for (int64_t i = 0; i < s->count; i++)
            ((float *)(void *)to)[i] = (float)s->w[i];
    else
        memcpy(to, s->w, (size_t)s->count * sizeof *s->w);
}

/* Products of slots whose keys have left the window become -inf. */
static void hide(const es_decode *p, const slots *s, int64_t t, char *products)
{
    for (int64_t i = 0; p->window && i < s->count; i++) {
        if (t - s->place[i] < p->window)
            continue;
        if (s->dtype == ES_F32)
            ((float *)(void *)products)[i] = -INFINITY;
        else
            ((double *)(void *)products)[i] = -(double)INFINITY;
    }
}

/* Adds what a head's weights are like to its sums. */
static void look(const es_decode *p, int64_t head, const slots *s)
{
    if (!p->entropy && !p->top_weight && !p->sum_squares && !p->ess)
        return;
    const es_softmax_found found = es_softmax_look(s->w, s->count);
    if (p->entropy)
        p->entropy[head] += found.entropy;
    if (p->top_weight)
        p->top_weight[head] += found.top_weight;
    if (p->sum_squares)
        p->sum_squares[head] += found.sum_squares;
    if (p->ess)
        p->ess[head] += 1.0 / found.sum_squares;
}

/* Query t of all heads of a unit over what is held. Heads of a unit lie side by side, as queries
 * and as outputs. */
static void attend(const es_decode *p, slots *s, int64_t unit, int64_t t)
{
    const int64_t each = p->count / p->units, first = unit * each, d = s->d;
    const es_view *q = &p->heads[first].q;
    const es_view queries = {
        (char *)q->data + t * q->row_stride, s->dtype, each, d, d * s->item, s->item};
    const es_view keys = {
        s->k + unit * s->most * d * s->item, s->dtype, s->count, d, d * s->item, s->item};
    const es_view values = {
        s->v + unit * s->most * d * s->item, s->dtype, s->count, d, d * s->item, s->item};
    es_gemm_views(&queries, &keys, s->products, s->count);
    for (int64_t g = 0; g < each; g++) {
        const es_softmax how = {p->scale, p->cap, p->heads[first + g].sink};
        char *products = s->products + g * s->count * s->item;
        hide(p, s, t, products);
        es_softmax_row(&how, s->dtype, products, s->count, s->w);
        for (int64_t i = 0; i < s->count; i++)
            s->weight[i] += s->w[i];
        narrow(s, g);
        look(p, first + g, s);
    }
    es_gemm_mix(s->weights, each, &values, p->out + t * p->out_stride + first * d * s->item);
}

/* Returns whether the slot's key is never dropped: one of the first keys or of the newest. */
static bool stays(const es_decode *p, const slots *s, int64_t slot, int64_t t)
{
    const es_evict_spec *spec = p->spec;
    const int64_t first = spec->sinks < spec->keys ? spec->sinks : spec->keys;
    const int64_t asked = spec->recent > spec->protect ? spec->recent : spec->protect;
    const int64_t recent = asked < spec->keys - first ? asked : spec->keys - first;
    return s->place[slot] < first || s->place[slot] > t - recent;
}

/* Returns the number by which the key that goes is found. */
static double value_of(const es_decode *p, const slots *s, int64_t slot, int64_t t)
{
    if (p->window && t + 1 - s->place[slot] >= p->window)
        return -(double)INFINITY; /* the next query does not see it */
    switch (p->spec->policy->decode) {
    case ES_DECODE_BY_SUM:
        return s->sum[slot];
    case ES_DECODE_BY_WEIGHT:
        return s->weight[slot];
    default:
        return (double)s->place[slot];
    }
}

/* Frees the slot of the key that goes: the smallest value, of equal ones the higher place. */
static void evict(const es_decode *p, slots *s, int64_t t)
{
    int64_t goes = -1;
    double least = (double)INFINITY;
    for (int64_t i = 0; i < s->count; i++) {
        const double value = value_of(p, s, i, t);
        if (value > -(double)INFINITY && stays(p, s, i, t))
            continue;
        if (goes < 0 || value < least || (value == least && s->place[i] > s->place[goes])) {
            goes = i;
            least = value;
        }
    }
    s->free = goes;
    p->last[s->place[goes]] = (int32_t)t;
    if (p->gone && t == p->k[0].rows - 1)
        *p->gone = (int32_t)s->place[goes];
}

/* Runs all tokens. */
static void run(const es_decode *p, slots *s)
{
    const int64_t n = p->k[0].rows;
    for (int64_t t = 0; t < n; t++) {
        hold(p, s, t);
        p->last[t] = (int32_t)(n - 1);
        memset(s->weight, 0, (size_t)s->count * sizeof *s->weight);
        for (int64_t u = 0; u < p->units; u++)
            attend(p, s, u, t);
        for (int64_t i = 0; i < s->count; i++)
            s->sum[i] += s->weight[i];
        if (s->count > p->spec->keys)
            evict(p, s, t);
    }
}

es_status es_decode_run(const es_decode *p, es_error *err)
{
    double *const statistics[] = {p->entropy, p->top_weight, p->sum_squares, p->ess};
    slots s;
    ES_TRY(slots_new(p, &s, err));
    if (p->gone)
        *p->gone = -1;
    for (int i = 0; i < 4; i++)
        for (int64_t h = 0; statistics[i] && h < p->count; h++)
            statistics[i][h] = 0.0;
    run(p, &s);
    for (int i = 0; i < 4; i++)
        for (int64_t h = 0; statistics[i] && h < p->count; h++)
            statistics[i][h] /= (double)p->k[0].rows;
    es_mem_free(p->budget, s.memory);
    return ES_OK;
}
