/* SPDX-License-Identifier: Apache-2.0 */
/* forward_cache.c : a layer of a block whose keys and values go through a cache.
 *
 * Prompt mode: queries of the prompt see all keys before them, so that what a unit keeps follows
 * from what its layer made of the prompt. Later queries see what is kept and all later keys, which
 * is one list of keys for all of them; where the layer has a window, keys that were dropped get the
 * weight e^DROPPED. Decode mode is cache/decode.c, unit by unit. */
#include "model/forward_cache.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "cache/aged.h"

#define DROPPED (-1e6) /* ln of the factor on a weight: it becomes 0 */

/* ---- memory ---- */

/* Returns the memory that choosing the keys of a unit takes: scores of 64 queries at a time, votes,
 * the order of keys, and expected queries with the angles of future positions. */
static double choice_bytes(const es_evict_spec *spec, const es_model_config *c, double item,
                           double n)
{
    const double d = (double)c->head_dim, future = spec->future > 0 ? (double)spec->future : 0.0;
    const double expected =
        8.0 * (d * (3.0 * d + 2.0) + n * (3.0 * d + 2.0) + 2.0 * (n + future + 1.0) * d);
    return n * (8.0 + 64.0 * item) + 32.0 * n + (future > 0.0 ? expected : 0.0);
}

double es_model_cache_bytes(const es_cache_unit *like, es_evict_mode mode, int64_t prompt,
                            const es_model_config *c, es_dtype precision, int64_t n, int threads)
{
    const es_evict_spec spec = es_evict_resolve(&like->evict, mode);
    const double N = (double)n, item = (double)es_dtype_size(precision), d = (double)c->head_dim;
    const double units = (double)c->kv_heads, each = (double)c->heads / units;
    const double all = (double)c->layers * units, T = (double)threads;
    const double block = N * (16.0 + units * 29.0 + 2.0 * (double)c->kv_width * item) +
                         (double)c->heads * (double)sizeof(es_evict_head) +
                         N * (double)(c->query_width + c->kv_width) * item;
    const double chosen = all * (double)(sizeof(es_cache_unit) + 8 * sizeof(double)) +
                          all * (8.0 * (double)prompt + 4.0 * N);
    const double aged = N * (8.0 + 64.0 * 3.0 * item) + 128.0 * d * item;
    const double held = units * N * (32.0 + (2.0 * d + 2.0 * each) * item);
    return block + chosen + T * fmax(choice_bytes(&spec, c, item, N), aged) +
           (mode == ES_EVICT_DECODE ? held : 0.0);
}

es_status es_cache_scratch_new(const es_model_config *c, int64_t n, es_mem_limit *budget,
                               es_cache_scratch *scratch, es_error *err)
{
    *scratch = (es_cache_scratch){.budget = budget, .longest = n};
    ES_TRY(ES_MEM_NEW(budget, scratch->heads, c->heads, "heads of a cache", err));
    ES_TRY(ES_MEM_NEW(budget, scratch->positions, 2 * n, "places of queries", err));
    ES_TRY(ES_MEM_NEW_2D(budget, scratch->score, c->kv_heads, n, "scores of keys", err));
    ES_TRY(ES_MEM_NEW_2D(budget, scratch->last, c->kv_heads, n, "keys of a cache", err));
    scratch->listed = scratch->positions + n;
    return ES_MEM_NEW_2D(budget, scratch->kept, c->kv_heads, n, "keys of a cache", err);
}

void es_cache_scratch_free(es_cache_scratch *scratch)
{
    es_mem_free(scratch->budget, scratch->heads);
    es_mem_free(scratch->budget, scratch->positions);
    es_mem_free(scratch->budget, scratch->score);
    es_mem_free(scratch->budget, scratch->last);
    es_mem_free(scratch->budget, scratch->kept);
    es_mem_free(scratch->budget, scratch->fine);
    *scratch = (es_cache_scratch){0};
}

/* ---- checks ---- */

/* Fails where the units of a layer that share keys (alpha), or one set (tova), differ. */
static es_status check_layer(const es_model_config *c, const es_cache *cache, int64_t layer,
                             es_error *err)
{
    const es_cache_unit *units = cache->units + layer * c->kv_heads;
    const es_evict_spec first = es_evict_resolve(&units[0].evict, cache->mode);
    for (int64_t g = 0; g < c->kv_heads; g++) {
        const es_evict_spec spec = es_evict_resolve(&units[g].evict, cache->mode);
        ES_TRY(es_evict_check(&spec, cache->mode, err));
        const bool together =
            es_evict_together(&spec, cache->mode) || es_evict_together(&first, cache->mode);
        if (together && !es_evict_same(&units[g].evict, &units[0].evict))
            return es_fail(err, ES_E_ARGUMENT, "cache.together",
                           "give all heads of the layer the same policy and number of keys",
                           "heads of layer %lld choose their keys together, but unit %lld has "
                           "another policy or number of keys than unit 0",
                           (long long)layer, (long long)g);
        if (cache->mode != ES_EVICT_NOTHING &&
            (es_kv_format_by_query(&units[g].k) || es_kv_format_by_query(&units[g].v)))
            return es_fail(err, ES_E_UNSUPPORTED, "cache.together",
                           "use a type that is the same for old and new places, like q4_0",
                           "kivi types and eviction at the same time are not defined");
        if (es_eviction_full(spec.policy) && !cache->oracle)
            return es_fail(err, ES_E_ARGUMENT, "cache.oracle", "set oracle",
                           "policy %s needs scores of the full model",
                           es_eviction_name(spec.policy));
    }
    return ES_OK;
}

bool es_cache_plain(const es_model *model, const es_model_block *b)
{
    const int64_t units = model->config.layers * model->config.kv_heads;
    bool plain = false;
    for (int64_t i = 0; b->cache && i < units; i++)
        plain = plain || es_eviction_plain(b->cache->units[i].evict.policy);
    return plain;
}

es_status es_cache_check(const es_model *model, const es_model_block *b, es_error *err)
{
    const es_model_config *c = &model->config;
    if (!b->cache)
        return ES_OK;
    if (!c->causal)
        return es_fail(err, ES_E_UNSUPPORTED, "cache.causal", "use a decoder",
                       "an encoder has no cache of keys and values");
    if (b->sparse || b->mask ||
        (b->visit && b->visit->statistics && b->cache->mode == ES_EVICT_DECODE))
        return es_fail(err, ES_E_UNSUPPORTED, "cache.visit", "run one after the other",
                       "a cache with policies, a mask, or statistics of heads token by token at "
                       "the same time");
    if (b->cache->mode == ES_EVICT_PROMPT && b->cache->prompt < 1)
        return es_fail(err, ES_E_RANGE, "cache.prompt", "give the tokens of the prompt",
                       "a prompt of %lld tokens", (long long)b->cache->prompt);
    for (int64_t l = 0; l < c->layers; l++)
        ES_TRY(check_layer(c, b->cache, l, err));
    return ES_OK;
}

/* ---- what a layer has ---- */

/* Returns the spec of unit g of the layer with all options set. */
static es_evict_spec spec_of(const es_layer_pass *p, int64_t g)
{
    const int64_t units = p->f->model->config.kv_heads;
    return es_evict_resolve(&p->b->cache->units[p->layer * units + g].evict, p->b->cache->mode);
}

/* Returns a unit's keys, or its values. */
static es_view rows_of(const es_layer_pass *p, int64_t g, bool values)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t column = c->query_width + (values ? c->kv_width : 0) + g * c->head_dim;
    return es_pass_band(p, p->scratch->qkv, column, c->qkv_width);
}

/* Fills in queries, keys and sinks of all heads of the layer. */
static void look_at_heads(const es_layer_pass *p)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t both = c->query_width + c->kv_width;
    p->scratch->cache.turn = (es_cache_turn){es_pass_rotary(p), c->head_dim, p->f->inner.budget};
    for (int64_t h = 0; h < c->heads; h++) {
        es_evict_head *head = &p->scratch->cache.heads[h];
        head->q = es_pass_band(p, p->scratch->qkv, h * c->head_dim, c->qkv_width);
        head->k = rows_of(p, h / (c->heads / c->kv_heads), false);
        head->sink = es_pass_sink(p, h);
        if (p->scratch->plain)
            head->plain_q = es_pass_band(p, p->scratch->plain, h * c->head_dim, both);
    }
}

es_status es_cache_turn_rows(const void *turn, int64_t first, int64_t places, int64_t count,
                             double *rows, es_error *err)
{
    const es_cache_turn *t = turn;
    const es_rotary *rotary = t->rotary;
    const int64_t d = t->head_dim;
    const int64_t half = rotary->width / 2, n = first + places;
    double *angles;
    ES_TRY(ES_MEM_NEW_2D(t->budget, angles, 2 * n + 2, half, "angles", err));
    double *cosines = angles, *sines = cosines + n * half, *mean = sines + n * half;
    es_rotary_angles(rotary, n, cosines, sines);
    for (int64_t i = first * half; i < n * half; i++) {
        mean[i % half] += cosines[i] / (double)places;
        mean[half + i % half] += sines[i] / (double)places;
    }
    for (int64_t i = 0; i < count; i++) {
        const es_head_rows row = {rows + i * d, 1, d, 1, d};
        es_row_kernels_f64.turn(&row, rotary, mean, mean + half);
    }
    es_mem_free(t->budget, angles);
    return ES_OK;
}

/* ---- rounding ---- */

/* Returns how a unit holds its keys, or its values. */
static const es_kv_format *format_of(const es_layer_pass *p, int64_t g, bool values)
{
    const int64_t at = p->layer * p->f->model->config.kv_heads + g;
    return values ? &p->b->cache->units[at].v : &p->b->cache->units[at].k;
}

/* Returns the copy of a unit's rows that new places find. */
static es_view fine_of(const es_layer_pass *p, int64_t g, bool values)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t column = (values ? c->kv_width : 0) + g * c->head_dim;
    return es_pass_band(p, p->scratch->cache.fine, column, 2 * c->kv_width);
}

/* Returns whether queries of the unit read a key differently by its age. */
static bool is_aged(const es_layer_pass *p, int64_t g)
{
    return es_kv_format_by_query(format_of(p, g, false)) ||
           es_kv_format_by_query(format_of(p, g, true));
}

/* Copies the rows of all units, for those whose new places are held otherwise than old ones. */
static es_status copy_fine(const es_layer_pass *p, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t item = (int64_t)es_dtype_size(p->f->model->precision), n = p->b->n;
    es_cache_scratch *scratch = &p->scratch->cache;
    if (!scratch->fine)
        ES_TRY(es_mem_array(scratch->budget, scratch->longest, 2 * c->kv_width, (size_t)item,
                            "new keys and values", &scratch->fine, err));
    for (int64_t i = 0; i < n; i++)
        memcpy(scratch->fine + i * 2 * c->kv_width * item,
               p->scratch->qkv + (i * c->qkv_width + c->query_width) * item,
               (size_t)(2 * c->kv_width * item));
    return ES_OK;
}

/* Fails if a number is NaN or beyond the range of its type. */
static es_status check_range(const es_layer_pass *p, int64_t g, bool values, es_error *err)
{
    const es_view rows = rows_of(p, g, values);
    es_scan found;
    es_error at;
    char type[ES_KV_NAME];
    if (es_view_scan(&rows, "rows", &found, &at) == ES_OK)
        return ES_OK;
    return es_fail_at(
        err, ES_E_NONFINITE, at.row, at.col, "cache.range",
        "use a type of a wider range, for instance bf16",
        "layer %lld, key-value head %lld: channel %lld of the %s at place %lld is not "
        "finite in %s",
        (long long)p->layer, (long long)g, (long long)at.col, values ? "value" : "key",
        (long long)at.row, es_kv_format_name(format_of(p, g, values), type, sizeof type));
}

/* Rounds the keys or the values of the layer to what the cache holds. */
static es_status round_side(const es_layer_pass *p, bool values, es_error *err)
{
    const int64_t units = p->f->model->config.kv_heads;
    const es_kv_side side = values ? ES_KV_VALUES : ES_KV_KEYS;
    double peak = 0.0;
    for (int64_t g = 0; g < units; g++) {
        const es_view rows = rows_of(p, g, values);
        if (format_of(p, g, values)->scale_of_tensor)
            peak = fmax(peak, es_kv_peak(format_of(p, g, values), &rows));
    }
    for (int64_t g = 0; g < units; g++) {
        const es_kv_format *format = format_of(p, g, values);
        const es_view rows = rows_of(p, g, values);
        if (es_kv_format_by_query(format)) {
            const es_view fine = fine_of(p, g, values);
            es_kv_round_fine(format, &fine);
        }
        es_kv_round(format, side, peak, &rows);
        if (format->type)
            ES_TRY(check_range(p, g, values, err));
    }
    return ES_OK;
}

/* Rounds keys and values of the layer. */
static es_status round_rows(const es_layer_pass *p, es_error *err)
{
    bool aged = false;
    for (int64_t g = 0; g < p->f->model->config.kv_heads; g++)
        aged = aged || is_aged(p, g);
    if (aged)
        ES_TRY(copy_fine(p, err));
    ES_TRY(round_side(p, false, err));
    return round_side(p, true, err);
}

/* A head whose unit holds old places otherwise than new ones. */
static es_status attend_aged(const es_layer_pass *p, int64_t head, const es_attend_out *out,
                             es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t g = head / (c->heads / c->kv_heads);
    const es_evict_head *h = &p->scratch->cache.heads[head];
    const es_aged aged = {.q = h->q,
                          .k = {format_of(p, g, false), rows_of(p, g, false), fine_of(p, g, false)},
                          .v = {format_of(p, g, true), rows_of(p, g, true), fine_of(p, g, true)},
                          .softmax = {1.0 / c->score_divisor, c->score_cap, h->sink},
                          .window = es_model_layer(c, p->layer)->window,
                          .budget = p->f->inner.budget};
    return es_aged_attend(&aged, out, err);
}

/* ---- prompt mode ---- */

/* Returns the tokens of the prompt that the block has. */
static int64_t prompt_of(const es_layer_pass *p)
{
    return p->b->cache->prompt < p->b->n ? p->b->cache->prompt : p->b->n;
}

/* Returns what a policy may look at of a unit. */
static es_evict_prompt unit_prompt(const es_layer_pass *p, int64_t g)
{
    const es_model_config *c = &p->f->model->config;
    const es_layer_kind *kind = es_model_layer(c, p->layer);
    const int64_t each = c->heads / c->kv_heads, P = prompt_of(p);
    const double *oracle = p->b->cache->oracle;
    return (es_evict_prompt){
        .prompt = P,
        .layer = p->layer,
        .unit = g,
        .heads = p->scratch->cache.heads,
        .first = g * each,
        .count = each,
        .all = c->heads,
        .k = rows_of(p, g, false),
        .v = rows_of(p, g, true),
        .scale = 1.0 / c->score_divisor,
        .cap = c->score_cap,
        .window = kind->window,
        .given = oracle ? oracle + (p->layer * c->kv_heads + g) * p->b->cache->prompt : NULL,
        .turn = es_pass_rotary(p) ? es_cache_turn_rows : NULL,
        .context = &p->scratch->cache.turn,
        .budget = p->f->inner.budget};
}

/* Notes the weight that later queries give to the keys of one unit's prompt. */
static es_status score_late(void *pass, int64_t g, int thread, es_error *err)
{
    const es_layer_pass *p = pass;
    const es_evict_prompt prompt = unit_prompt(p, g);
    const int64_t at = p->layer * p->f->model->config.kv_heads + g;
    (void)thread;
    return es_votes_late(&prompt, p->b->cache->late + at * p->b->cache->prompt, err);
}

/* Scores the keys of one unit, and chooses unless the layer chooses together. */
static es_status score_unit(void *pass, int64_t g, int thread, es_error *err)
{
    const es_layer_pass *p = pass;
    const es_evict_spec spec = spec_of(p, g);
    const es_cache_scratch *scratch = &p->scratch->cache;
    const int64_t n = p->b->n, P = prompt_of(p);
    (void)thread;
    if (!spec.policy || spec.keys >= P)
        return ES_OK;
    const es_evict_prompt prompt = unit_prompt(p, g);
    ES_TRY(es_evict_score(&spec, &prompt, scratch->score + g * P, err));
    if (spec.alpha != ES_EVICT_UNSET)
        return ES_OK;
    return es_evict_keep(&spec, P, scratch->score + g * P, scratch->kept + g * n,
                         p->f->inner.budget, err);
}

/* Units of a layer share their keys (Ada-KV). */
static es_status share_keys(const es_layer_pass *p, es_error *err)
{
    const int64_t units = p->f->model->config.kv_heads, n = p->b->n, P = prompt_of(p);
    const es_evict_spec spec = spec_of(p, 0);
    es_mem_limit *budget = p->f->inner.budget;
    uint8_t *kept;
    if (!spec.policy || spec.alpha == ES_EVICT_UNSET || spec.keys >= P)
        return ES_OK;
    ES_TRY(ES_MEM_NEW_2D(budget, kept, units, P, "keys of a layer", err));
    const es_status status =
        es_evict_share(&spec, units, P, p->scratch->cache.score, kept, budget, err);
    for (int64_t g = 0; g < units && status == ES_OK; g++)
        memcpy(p->scratch->cache.kept + g * n, kept + g * P, (size_t)P);
    es_mem_free(budget, kept);
    return status;
}

/* Notes which query finds each key last: in the prompt, its own last one if it is dropped. */
static void note_last(const es_layer_pass *p)
{
    const int64_t units = p->f->model->config.kv_heads, n = p->b->n, P = prompt_of(p);
    const es_cache_scratch *scratch = &p->scratch->cache;
    for (int64_t i = 0; i < units * n; i++)
        scratch->last[i] = (int32_t)(scratch->kept[i] ? n - 1 : P - 1);
}

/* Hands out what the cache did: the last query of each key, and keys of a query, mean. */
static void report_kept(const es_layer_pass *p)
{
    const es_model_config *c = &p->f->model->config;
    const int64_t units = c->kv_heads, n = p->b->n, each = c->heads / units;
    const int32_t *last = p->scratch->cache.last;
    if (p->b->cache->last)
        memcpy(p->b->cache->last + p->layer * units * n, last, (size_t)(units * n) * sizeof *last);
    for (int64_t h = 0; p->b->kept && h < c->heads; h++) {
        int64_t seen = 0;
        for (int64_t j = 0; j < n; j++)
            seen += last[h / each * n + j] - j + 1;
        p->b->kept[p->layer * c->heads + h] = (double)seen / (double)n;
    }
}

es_status es_cache_begin(const es_layer_pass *p, es_error *err)
{
    const int64_t units = p->f->model->config.kv_heads;
    es_layer_pass copy = *p;
    ES_TRY(round_rows(p, err));
    look_at_heads(p);
    if (p->b->cache->late)
        ES_TRY(es_parallel_run(&p->f->inner, units, score_late, &copy, err));
    memset(p->scratch->cache.kept, 1, (size_t)(units * p->b->n));
    if (p->b->cache->mode == ES_EVICT_PROMPT) {
        ES_TRY(es_parallel_run(&p->f->inner, units, score_unit, &copy, err));
        ES_TRY(share_keys(p, err));
    }
    note_last(p);
    if (p->b->cache->mode != ES_EVICT_DECODE)
        report_kept(p);
    return ES_OK;
}

/* Returns rows from `first` on of a view, and results of queries from there on. */
static es_view rows_from(const es_view *v, int64_t first, int64_t rows)
{
    es_view out = *v;
    out.data = (char *)v->data + first * v->row_stride;
    out.rows = rows;
    return out;
}
static es_attend_out results_from(const es_attend_out *out, int64_t first, int64_t d)
{
    return (es_attend_out){.output = out->output + first * d,
                           .lse = out->lse ? out->lse + first : NULL,
                           .entropy = out->entropy ? out->entropy + first : NULL,
                           .top_weight = out->top_weight ? out->top_weight + first : NULL,
                           .sum_squares = out->sum_squares ? out->sum_squares + first : NULL};
}

/* Queries first .. first + rows - 1 of a head over the keys 0 .. keys - 1 that a mask leaves. */
static es_status attend_rows(const es_layer_pass *p, int64_t head, int64_t first, int64_t rows,
                             int64_t keys, const es_mask *mask, const es_attend_out *out,
                             es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const es_evict_head *h = &p->scratch->cache.heads[head];
    const es_view v = rows_of(p, head / (c->heads / c->kv_heads), true);
    const double scale = 1.0 / c->score_divisor;
    const es_attend_opts opts = {.precision = p->f->model->precision,
                                 .scales = &scale,
                                 .n_scales = 1,
                                 .score_cap = c->score_cap,
                                 .sink = &h->sink,
                                 .mask = mask,
                                 .exec = &p->f->inner};
    const es_view q = rows_from(&h->q, first, rows), k = rows_from(&h->k, 0, keys),
                  values = rows_from(&v, 0, keys);
    const es_attend_out found = results_from(out, first, c->head_dim);
    return es_attend(&q, &k, &values, &opts, &found, err);
}

/* Later queries: what is kept of the prompt, and all later keys up to their own. */
static es_status attend_late(const es_layer_pass *p, int64_t head, const es_attend_out *out,
                             es_error *err)
{
    static const double factors[] = {DROPPED, 0.0};
    const es_model_config *c = &p->f->model->config;
    const es_cache_scratch *scratch = &p->scratch->cache;
    const int64_t n = p->b->n, P = prompt_of(p), window = es_model_layer(c, p->layer)->window;
    const uint8_t *kept = scratch->kept + head / (c->heads / c->kv_heads) * n;
    int64_t offsets[2] = {0, 0};
    for (int64_t j = 0; j < n; j++)
        if (kept[j])
            scratch->listed[offsets[1]++] = j;
    for (int64_t i = P; i < n; i++)
        scratch->positions[i - P] = i;
    es_mask mask = {.positions = scratch->positions, .causal = true};
    if (window && window < n) {
        mask.window = window;
        mask.n_classes = 2;
        mask.classes = kept;
        mask.class_factors = factors;
    } else {
        mask.list_queries = n - P;
        mask.list_offsets = offsets;
        mask.list_keys = scratch->listed;
    }
    return attend_rows(p, head, P, n - P, n, &mask, out, err);
}

es_status es_cache_attend(const es_layer_pass *p, int64_t head, const es_attend_out *out,
                          es_error *err)
{
    const int64_t n = p->b->n, P = p->b->cache->mode == ES_EVICT_PROMPT ? prompt_of(p) : n;
    const es_mask mask = {.causal = true,
                          .window = es_model_layer(&p->f->model->config, p->layer)->window};
    const int64_t units = p->f->model->config.kv_heads;
    if (is_aged(p, head / (p->f->model->config.heads / units)))
        return attend_aged(p, head, out, err);
    ES_TRY(attend_rows(p, head, 0, P, P, &mask, out, err));
    return P < n ? attend_late(p, head, out, err) : ES_OK;
}

/* ---- decode mode ---- */

/* Units `first` .. `first + units - 1` of the layer, which hold the same places. */
static es_status decode_units(const es_layer_pass *p, int64_t first, int64_t units, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const es_model_block *b = p->b;
    const int64_t each = c->heads / c->kv_heads, at = p->layer * c->heads + first * each;
    es_evict_spec spec = spec_of(p, first);
    es_mem_limit *budget = p->f->inner.budget;
    int32_t *gone = b->cache->gone ? b->cache->gone + p->layer * c->kv_heads + first : NULL;
    es_view *rows;
    if (!spec.policy)
        spec.keys = b->n;
    ES_TRY(ES_MEM_NEW_2D(budget, rows, 2, units, "units of a layer", err));
    for (int64_t u = 0; u < units; u++) {
        rows[u] = rows_of(p, first + u, false);
        rows[units + u] = rows_of(p, first + u, true);
    }
    const es_decode decode = {
        .spec = &spec,
        .heads = p->scratch->cache.heads + first * each,
        .count = units * each,
        .units = units,
        .k = rows,
        .v = rows + units,
        .scale = 1.0 / c->score_divisor,
        .cap = c->score_cap,
        .window = es_model_layer(c, p->layer)->window,
        .out = es_row_at(p->f, p->scratch->heads, first * each * c->head_dim, 1),
        .out_stride = c->query_width * (int64_t)es_dtype_size(p->f->model->precision),
        .entropy = b->entropy ? b->entropy + at : NULL,
        .top_weight = b->top_weight ? b->top_weight + at : NULL,
        .sum_squares = b->sum_squares ? b->sum_squares + at : NULL,
        .ess = b->ess ? b->ess + at : NULL,
        .last = p->scratch->cache.last + first * b->n,
        .gone = gone,
        .budget = budget};
    const es_status status = es_decode_run(&decode, err);
    for (int64_t u = 1; u < units && status == ES_OK; u++)
        memcpy(decode.last + u * b->n, decode.last, (size_t)b->n * sizeof *decode.last);
    for (int64_t u = 1; u < units && gone; u++)
        gone[u] = gone[0];
    es_mem_free(budget, rows);
    return status;
}

static es_status decode_unit(void *pass, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    return decode_units(pass, unit, 1, err);
}

es_status es_cache_decode(const es_layer_pass *p, es_error *err)
{
    const int64_t units = p->f->model->config.kv_heads;
    const es_evict_spec spec = spec_of(p, 0);
    es_layer_pass copy = *p;
    if (spec.policy && es_evict_one_set(&spec))
        ES_TRY(decode_units(p, 0, units, err));
    else
        ES_TRY(es_parallel_run(&p->f->inner, units, decode_unit, &copy, err));
    report_kept(p);
    return ES_OK;
}
