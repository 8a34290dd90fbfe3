/* SPDX-License-Identifier: Apache-2.0 */
/* probe_local.c : how many keys lie near the direction of a query, and what that means for a head
 * (THEORY 6). */
#include "experiments/kit/probe_inside.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "stats/exponent.h"
#include "theory/freezing.h"

enum { ASKED = 64 }; /* queries: enough for an error of a few per cent */

/* Keys around which local exponents are measured. */
typedef struct neighbours {
    const es_probe *probe;
    int64_t n;     /* keys */
    int64_t *rows; /* (n) of the pool */
    float *x;      /* (n, H) tokens, */
    float *keys;   /* (n, Q) their keys less the mean key, all heads side by side */
    float *centre; /* (Q) the mean key, */
    float *mean;   /* (H) that of the mean token */
} neighbours;

/* Allocates the sample of keys around which local exponents are measured. */
static es_status prepare(neighbours *s, es_error *err)
{
    const int64_t H = s->probe->weights.hidden, Q = s->probe->weights.all;
    es_mem_limit *budget = s->probe->exec.budget;
    ES_TRY(ES_MEM_NEW(budget, s->rows, s->n, "rows of keys", err));
    ES_TRY(ES_MEM_NEW_2D(budget, s->x, s->n + 1, H + Q, "keys", err));
    s->keys = s->x + s->n * H;
    s->centre = s->keys + s->n * Q;
    s->mean = s->centre + Q;
    return ES_OK;
}

/* Frees the sample of keys. */
static void release(neighbours *s)
{
    es_mem_free(s->probe->exec.budget, s->x);
    es_mem_free(s->probe->exec.budget, s->rows);
}

/* Draws keys of the pool and subtracts their mean. A vector added to all keys changes no weight of
 * attention but changes angles; without the mean, angles are those between keys. */
static es_status draw_keys(neighbours *s, es_error *err)
{
    const es_probe *p = s->probe;
    const int64_t H = p->weights.hidden, Q = p->weights.all;
    ES_TRY(es_probe_key_rows(&p->spec, p->pool.tokens, p->layer, s->n, s->rows, err));
    ES_TRY(es_pool_gather(p->spec.pool, p->layer, s->rows, s->n, s->x, err));
    for (int64_t i = 0; i < H; i++)
        s->mean[i] = (float)-p->mean[i];
    ES_TRY(es_probe_project(&p->exec, s->mean, 1, p->weights.wk, NULL, Q, H, s->centre, err));
    return es_probe_project(&p->exec, s->x, s->n, p->weights.wk, s->centre, Q, H, s->keys, err);
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
            queries += pow((double)p->q[i * p->weights.all + head * k + j], 2.0);
    return sqrt(keys * queries / (double)p->queries / (double)k);
}

/* Measures the local exponent of a head's keys around its queries, and the inverse temperature. */
static es_status ask_head(const neighbours *s, int64_t head, es_probe_local *out, es_error *err)
{
    const es_probe *p = s->probe;
    const int64_t Q = p->weights.all, k = p->weights.width;
    es_view keys = es_view_f32(s->keys + head * k, s->n, k);
    es_view queries = es_view_f32(p->q + head * k, p->queries < ASKED ? p->queries : ASKED, k);
    keys.row_stride = queries.row_stride = Q * (int64_t)sizeof(float);
    const es_exec quiet = es_exec_quiet(&p->exec);
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
