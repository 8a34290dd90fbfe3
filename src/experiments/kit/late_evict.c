/* SPDX-License-Identifier: Apache-2.0 */
/* late_evict.c : outputs of late queries over what a unit keeps (THEORY 19).
 *
 * Prompt mode. A larger number of keys keeps all that a smaller one does: keys that always stay are
 * first and last ones, whose number grows with the number of keys, and the number of places left
 * for the largest scores does not fall. So every key comes in at one number of keys, and sums of w
 * and w v grow by those that come in. Each row has an offset, its largest score so far, and sums
 * are multiplied when that moves: a dropped key of large score cannot make them vanish. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/late_inside.h"
#include "linalg/dense.h"
#include "model/forward_cache.h"

/* ---- which keys ---- */

es_status es_late_prompt_new(es_late_work *w, es_late_prompt *p, es_error *err)
{
    const es_late_spec *spec = w->spec;
    const int64_t P = spec->prompt, rows = ES_LATE_CHUNK * w->each;
    *p = (es_late_prompt){0};
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, p->scores, spec->n_types * spec->n_policies, P,
                           "scores of keys", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, p->listed, spec->n_policies, P, "order of keys", err));
    ES_TRY(
        ES_ARENA_NEW_2D(&w->arena, p->ends, spec->n_policies, spec->n_keys, "order of keys", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, p->kept, 2, P, "keys of a cache", err));
    ES_TRY(ES_ARENA_NEW_2D(&w->arena, p->values, P, w->d, "values", err));
    for (int i = 0; i < 2; i++) {
        ES_TRY(ES_ARENA_NEW_2D(&w->arena, p->state[i].sum, rows, w->d, "outputs", err));
        ES_TRY(ES_ARENA_NEW(&w->arena, p->state[i].total, rows, "outputs", err));
        ES_TRY(ES_ARENA_NEW(&w->arena, p->state[i].offset, rows, "outputs", err));
        ES_TRY(ES_ARENA_NEW(&w->arena, p->state[i].mass, rows, "outputs", err));
    }
    ES_TRY(ES_ARENA_NEW(&w->arena, p->given, P, "scores of keys", err));
    const es_model_config *c = w->layer->config;
    p->turn = (es_cache_turn){es_model_rotary(c, es_model_layer(c, w->layer->layer)), c->head_dim,
                              w->budget};
    return ES_OK;
}

/* Returns what policies may look at of the unit. */
static es_evict_prompt look_at(const es_late_work *w, const es_late_prompt *p)
{
    return (es_evict_prompt){.prompt = w->spec->prompt,
                             .layer = w->layer->layer,
                             .unit = w->unit,
                             .heads = w->heads,
                             .first = w->unit * w->each,
                             .count = w->each,
                             .all = w->layer->config->heads,
                             .k = w->views[ES_KV_KEYS][w->unit],
                             .v = w->views[ES_KV_VALUES][w->unit],
                             .scale = w->layer->scale,
                             .cap = w->layer->cap,
                             .window = w->layer->window,
                             .given = p->given,
                             .turn = p->turn.rotary ? es_cache_turn_rows : NULL,
                             .context = &p->turn,
                             .budget = w->budget};
}

/* Computes the weights that later queries of the full model give, once, for policies that look at
 * them. */
static es_status look_ahead(es_late_work *w, es_late_prompt *p, es_error *err)
{
    if (p->looked)
        return ES_OK;
    es_evict_prompt full = look_at(w, p);
    for (int64_t h = 0; h < w->each; h++)
        w->heads[full.first + h].k = w->layer->k[w->unit];
    full.k = w->layer->k[w->unit];
    ES_TRY(es_votes_late(&full, p->given, err));
    for (int64_t h = 0; h < w->each; h++)
        w->heads[full.first + h].k = w->views[ES_KV_KEYS][w->unit];
    p->looked = true;
    return ES_OK;
}

/* Returns whether a policy has the same scores under types a and b: those of values count only if
 * the policy uses their norms. */
static bool same_scores(const es_late_spec *spec, const es_evict_spec *policy, int64_t a, int64_t b)
{
    const es_late_types *x = &spec->types[a], *y = &spec->types[b];
    char one[ES_KV_NAME], two[ES_KV_NAME];
    if (strcmp(es_kv_format_name(&x->k, one, sizeof one),
               es_kv_format_name(&y->k, two, sizeof two)))
        return false;
    return policy->vnorm != 1 || !strcmp(es_kv_format_name(&x->v, one, sizeof one),
                                         es_kv_format_name(&y->v, two, sizeof two));
}

/* Scores the keys of the prompt under a policy, or takes the scores of earlier types. */
static es_status score_keys(es_late_work *w, es_late_prompt *p, int64_t type, int64_t policy,
                            const double **scores, es_error *err)
{
    const es_late_spec *spec = w->spec;
    const es_evict_spec one = es_evict_resolve(&spec->policies[policy], ES_EVICT_PROMPT);
    const int64_t P = spec->prompt;
    int64_t from = 0;
    while (from < type && !same_scores(spec, &one, from, type))
        from++;
    double *own = p->scores + (from * spec->n_policies + policy) * P;
    *scores = own;
    if (from < type)
        return ES_OK;
    if (es_eviction_full(one.policy))
        ES_TRY(look_ahead(w, p, err));
    const es_evict_prompt prompt = look_at(w, p);
    return es_evict_score(&one, &prompt, own, err);
}

/* Lists the keys of a policy in the order in which they come in as the number of keys grows. */
static es_status order_keys(es_late_work *w, es_late_prompt *p, int64_t policy,
                            const double *scores, es_error *err)
{
    const es_late_spec *spec = w->spec;
    const int64_t P = spec->prompt;
    int64_t *listed = p->listed + policy * P, count = 0;
    uint8_t *in = p->kept, *kept = p->kept + P;
    memset(in, 0, (size_t)P);
    for (int64_t i = 0; i < spec->n_keys; i++) {
        es_evict_spec one = spec->policies[policy];
        one.keys = spec->keys[i];
        one = es_evict_resolve(&one, ES_EVICT_PROMPT);
        ES_TRY(es_evict_keep(&one, P, scores, kept, w->budget, err));
        for (int64_t j = 0; j < P; j++) {
            if (in[j] > kept[j])
                return es_fail(err, ES_E_UNSUPPORTED, "late.nested", "use another policy",
                               "policy %s drops key %lld as the number of keys grows",
                               es_eviction_name(one.policy), (long long)j);
            if (kept[j] > in[j])
                listed[count++] = j;
            in[j] = kept[j];
        }
        p->ends[policy * spec->n_keys + i] = count;
    }
    return ES_OK;
}

/* ---- sums ---- */

/* Weights of keys `listed` (count) of every row, beside the offset of the row, which moves to their
 * largest score if that is above. */
static void weigh_listed(es_late_work *w, es_late_state *s, const int64_t *listed, int64_t count)
{
    for (int64_t r = 0; r < w->count * w->each; r++) {
        const double *scores = w->scores + r * w->keys;
        double *weights = w->weights + r * count, most = s->offset[r], sum = 0.0;
        for (int64_t i = 0; i < count; i++)
            most = scores[listed[i]] > most ? scores[listed[i]] : most;
        const double moved = exp(s->offset[r] - most);
        for (int64_t i = 0; i < count; i++) {
            weights[i] = exp(scores[listed[i]] - most);
            sum += weights[i];
            s->mass[r] += w->full_weights[r * w->keys + listed[i]];
        }
        for (int64_t c = 0; c < w->d; c++)
            s->sum[r * w->d + c] *= moved;
        s->total[r] = s->total[r] * moved + sum;
        s->offset[r] = most;
    }
}

/* Adds keys to the sums of every row. */
static void add_listed(es_late_work *w, es_late_prompt *p, es_late_state *s, const int64_t *listed,
                       int64_t count)
{
    const int64_t rows = w->count * w->each;
    if (!count)
        return;
    weigh_listed(w, s, listed, count);
    for (int64_t i = 0; i < count; i++)
        memcpy(p->values + i * w->d, w->side[ES_KV_VALUES].rows + listed[i] * w->d,
               (size_t)w->d * sizeof(double));
    const es_view values = es_view_f64(p->values, count, w->d);
    es_gemm_mix(w->weights, rows, &values, w->partial);
    for (int64_t i = 0; i < rows * w->d; i++)
        s->sum[i] += w->partial[i];
}

/* Begins the sums of every row with its sink and the keys after the prompt. */
static void begin_rows(es_late_work *w, es_late_state *s)
{
    const int64_t P = w->spec->prompt, rows = w->count * w->each, late = w->keys - P;
    for (int64_t r = 0; r < rows; r++) {
        const double *scores = w->scores + r * w->keys, *full = w->full_weights + r * w->keys;
        const double sink = es_late_row_sink(w, r);
        double most = sink, sum = 0.0, mass = 1.0;
        for (int64_t j = P; j < w->keys; j++)
            most = scores[j] > most ? scores[j] : most;
        for (int64_t j = P; j < w->keys; j++) {
            w->weights[r * late + j - P] = exp(scores[j] - most);
            sum += w->weights[r * late + j - P];
        }
        for (int64_t j = 0; j < P; j++)
            mass -= full[j];
        s->offset[r] = most;
        s->total[r] = sum + exp(sink - most);
        s->mass[r] = mass;
    }
    const es_view values = es_view_f64(w->side[ES_KV_VALUES].rows + P * w->d, late, w->d);
    es_gemm_mix(w->weights, rows, &values, s->sum);
}

/* Copies the sums of every row. */
static void copy_state(const es_late_work *w, const es_late_state *from, es_late_state *to)
{
    const size_t rows = (size_t)(w->count * w->each);
    memcpy(to->sum, from->sum, rows * (size_t)w->d * sizeof(double));
    memcpy(to->total, from->total, rows * sizeof(double));
    memcpy(to->offset, from->offset, rows * sizeof(double));
    memcpy(to->mass, from->mass, rows * sizeof(double));
}

/* Returns the number of the first row of the chunk among the rows of all settings. */
static int64_t row_of(const es_late_work *w, int64_t type, int64_t policy, int64_t keys)
{
    const es_late_spec *s = w->spec;
    return (((type * s->n_policies + policy) * s->n_keys + keys) * s->n_queries + w->first) *
           w->each;
}

/* Writes the outputs that sums give. */
static void write_rows(const es_late_work *w, const es_late_state *s, int64_t at)
{
    const int64_t rows = w->count * w->each;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < w->d; c++)
            w->out->outputs[(at + r) * w->d + c] = s->sum[r * w->d + c] / s->total[r];
    for (int64_t r = 0; w->out->mass && r < rows; r++)
        w->out->mass[at + r] = fmin(s->mass[r], 1.0);
}

es_status es_late_prompt_run(es_late_work *w, es_late_prompt *p, int64_t type, es_error *err)
{
    const es_late_spec *spec = w->spec;
    const int64_t P = spec->prompt;
    const double *scores;
    for (int64_t k = 0; k < spec->n_policies; k++) {
        ES_TRY(score_keys(w, p, type, k, &scores, err));
        ES_TRY(order_keys(w, p, k, scores, err));
    }
    for (int64_t first = 0; first < spec->n_queries; first += ES_LATE_CHUNK) {
        es_late_chunk(w, first);
        es_late_scores(w);
        begin_rows(w, &p->state[0]);
        for (int64_t k = 0; k < spec->n_policies; k++) {
            copy_state(w, &p->state[0], &p->state[1]);
            for (int64_t i = 0, from = 0; i < spec->n_keys; i++) {
                const int64_t end = p->ends[k * spec->n_keys + i];
                add_listed(w, p, &p->state[1], p->listed + k * P + from, end - from);
                write_rows(w, &p->state[1], row_of(w, type, k, i));
                from = end;
            }
        }
    }
    return ES_OK;
}

/* ---- decode mode ---- */

/* Writes what the queries of a run over a cache gave. Key j is found up to query last[j]. */
static void write_decoded(es_late_work *w, const es_decode *run, int64_t at)
{
    const int64_t head = w->joint ? w->unit * w->each : 0;
    const es_view out = {run->out + head * w->d * (int64_t)es_dtype_size(w->dtype),
                         w->dtype,
                         w->n,
                         w->each * w->d,
                         run->out_stride,
                         (int64_t)es_dtype_size(w->dtype)};
    for (int64_t i = 0; i < w->count; i++)
        es_view_read_row(&out, w->spec->queries[w->first + i],
                         w->out->outputs + (at + i * w->each) * w->d);
    for (int64_t r = 0; w->out->mass && r < w->count * w->each; r++) {
        const int64_t place = es_late_place(w, r);
        double mass = 1.0;
        for (int64_t j = 0; j < place; j++)
            if (run->last[j] < place)
                mass -= w->full_weights[r * w->keys + j];
        w->out->mass[at + r] = fmax(mass, 0.0);
    }
}

/* Runs one policy with one number of keys. */
static es_status decode_one(es_late_work *w, const es_decode *all, int64_t type, int64_t policy,
                            int64_t keys, es_error *err)
{
    const es_late_spec *spec = w->spec;
    es_evict_spec one = spec->policies[policy];
    es_decode run = *all;
    one.keys = spec->keys[keys];
    one = es_evict_resolve(&one, ES_EVICT_DECODE);
    run.spec = &one;
    if (w->joint && !es_evict_one_set(&one)) { /* the unit alone, at its place of the layer */
        const int64_t head = w->unit * w->each;
        run.heads += head;
        run.count = w->each;
        run.units = 1;
        run.k += w->unit;
        run.v += w->unit;
        run.out += head * w->d * (int64_t)es_dtype_size(w->dtype);
    }
    ES_TRY(es_decode_run(&run, err));
    run.out = all->out;
    for (int64_t first = 0; first < spec->n_queries; first += ES_LATE_CHUNK) {
        es_late_chunk(w, first);
        write_decoded(w, &run, row_of(w, type, policy, keys));
    }
    return ES_OK;
}

es_status es_late_decode(es_late_work *w, int64_t type, es_error *err)
{
    const es_model_config *c = w->layer->config;
    const int64_t count = w->joint ? c->heads : w->each, units = w->joint ? c->kv_heads : 1;
    const int64_t item = (int64_t)es_dtype_size(w->dtype), first = w->joint ? 0 : w->unit;
    es_arena arena = {.budget = w->budget};
    es_decode run = {.heads = w->heads + first * w->each,
                     .count = count,
                     .units = units,
                     .k = w->views[ES_KV_KEYS] + first,
                     .v = w->views[ES_KV_VALUES] + first,
                     .scale = w->layer->scale,
                     .cap = w->layer->cap,
                     .window = w->layer->window,
                     .out_stride = count * w->d * item,
                     .budget = w->budget};
    es_status status = ES_ARENA_NEW(&arena, run.last, w->n, "keys of a cache", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW_2D(&arena, run.out, w->n, run.out_stride, "outputs", err);
    for (int64_t p = 0; p < w->spec->n_policies && status == ES_OK; p++)
        for (int64_t k = 0; k < w->spec->n_keys && status == ES_OK; k++)
            status = decode_one(w, &run, type, p, k, err);
    es_arena_free(&arena);
    return status;
}
