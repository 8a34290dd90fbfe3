/* SPDX-License-Identifier: Apache-2.0 */
/* pool_hash.c : hashes of the model and the text that a pool is made from. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/layer_slot.h"
#include "model/pool_files.h"
#include "store/file.h"

/* Hashes the bytes of a file, not its name or date: a text that was moved is the same text. */
static es_status hash_file(const char *path, uint64_t *crc, es_error *err)
{
    unsigned char bytes[65536];
    es_file file;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    for (uint64_t at = 0; at < file.size && status == ES_OK;) {
        const uint64_t left = file.size - at;
        const size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
        status = es_file_read(&file, at, bytes, size, err);
        if (status == ES_OK)
            *crc = es_crc(*crc, bytes, size);
        at += size;
    }
    es_file_close(&file);
    return status;
}

/* One chain over all files: their order matters, as it does for the pool. */
es_status es_pool_hash_texts(const char *const *texts, int64_t count, uint64_t *out, es_error *err)
{
    for (int64_t i = 0; i < count; i++)
        ES_TRY(hash_file(texts[i], out, err));
    return ES_OK;
}

/* Hashes with one multiplication per number, since there are many. It only has to detect
 * weights that differ. */
static uint64_t mix(uint64_t h, const float *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

/* Adds a part as it is in memory to the hash: the weights, then the biases. */
static uint64_t mix_stack(uint64_t h, const es_linear *part, const es_part_stack *s)
{
    /* blocks are single texts: of their types only the first is used */
    const int64_t rows = s->part->rows == ES_CONFIG(types) ? 1 : s->rows;
    if (!part->w) /* of other layers only */
        return h;
    h = mix(h, part->w, rows * s->cols);
    return s->part->kind == ES_PART_TABLE || !part->b ? h : mix(h, part->b, rows);
}

/* Adds what differs between layers, factors and caps to the hash; nothing if there are none, so
 * that hashes of models without them do not change. */
static uint64_t mix_kinds(uint64_t h, const es_model_config *c)
{
    const es_rotary *r = &c->rotary;
    const double numbers[] = {c->embed_factor, c->branch_factor, c->logit_factor,
                              c->logit_cap,    c->score_cap,     c->score_divisor,
                              r->query_beta,   (double)r->pairs, (double)c->first_position};
    const bool usual = c->embed_factor == 1.0 && c->branch_factor == 1.0 &&
                       c->logit_factor == 1.0 && !(c->logit_cap > 0.0) && !(c->score_cap > 0.0) &&
                       c->score_divisor == sqrt((double)c->head_dim) && r->query_beta == 0.0 &&
                       !r->pairs && !c->first_position;
    if (!usual)
        h = es_crc(h, numbers, sizeof numbers);
    for (int64_t l = 0; l < c->layers && (c->kinds > 1 || c->rotary_local.width); l++) {
        const es_layer_kind *kind = es_model_layer(c, l);
        const double about[] = {(double)kind->window, (double)kind->rotary};
        h = es_crc(h, about, sizeof about);
    }
    const double used[] = {(double)c->experts_used, (double)c->shares_sum};
    if (c->experts)
        h = es_crc(h, used, sizeof used);
    h = es_crc(h, r->short_factor, (size_t)r->short_count * sizeof *r->short_factor);
    return es_crc(h, r->long_factor, (size_t)r->long_count * sizeof *r->long_factor);
}

/* Adds the heads and one rotation of a configuration to the hash. */
static uint64_t mix_rotary(uint64_t h, const es_model_config *c, const es_rotary *r)
{
    const double about[] = {(double)c->kv_heads,
                            (double)c->head_dim,
                            (double)c->kind[0].window,
                            (double)c->parallel,
                            (double)r->width,
                            r->theta,
                            r->factor,
                            r->original,
                            r->low,
                            r->high,
                            r->fast,
                            r->slow,
                            r->attention,
                            r->mscale,
                            r->mscale_all,
                            (double)r->rounded};
    h = es_crc(h, about, sizeof about);
    return es_crc_text(es_crc_text(h, r->type), c->activation);
}

/* Encoders like BERT have none of it, and the hashes they had before there were other models. */
static uint64_t mix_config(uint64_t h, const es_model_config *c)
{
    if (!c->causal && !c->rotary.width && c->kinds == 1 && !c->first_position &&
        c->embed_factor == 1.0 && strcmp(c->activation, "gelu") == 0)
        return h;
    h = mix_rotary(h, c, &c->rotary);
    if (c->rotary_local.width)
        h = mix_rotary(h, c, &c->rotary_local);
    return mix_kinds(h, c);
}

/* Hashes the word embeddings, a panel at a time. */
static es_status mix_words(es_layer_slot *slot, uint64_t *h, es_error *err)
{
    const es_model_config *c = &slot->model->config;
    for (int64_t first = 0; first < c->vocab; first += ES_PANEL) {
        const int64_t rows = c->vocab - first < ES_PANEL ? c->vocab - first : ES_PANEL;
        const void *panel;
        ES_TRY(es_slot_panel(slot, false, first, rows, &panel, err));
        *h = mix(*h, panel, rows * c->hidden);
    }
    return ES_OK;
}

/* Hashes a stack of experts' parts as it lies in memory: the weights of all experts, then their
 * biases. */
static es_status mix_experts(es_layer_slot *slot, int64_t layer, const es_linear *part,
                             const es_part_stack *s, uint64_t *h, es_error *err)
{
    const es_model *m = slot->model;
    const int64_t rows = s->rows / m->config.experts;
    for (int64_t e = 0; e < m->config.experts; e++) {
        ES_TRY(es_slot_expert(slot, layer, e, err));
        *h = mix(*h, es_linear_expert(m, part, e, rows, s->cols).w, rows * s->cols);
    }
    if (part->b)
        *h = mix(*h, part->b, s->rows);
    return ES_OK;
}

/* Hashes all weights in the order of the description. */
static es_status mix_weights(es_layer_slot *slot, uint64_t *h, es_error *err)
{
    const es_model *m = slot->model;
    const es_layer *layer;
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, -1, &s);)
        if (es_part_is_streamed(s.part))
            ES_TRY(mix_words(slot, h, err));
        else
            *h = mix_stack(*h, es_model_place(m, s.part, -1), &s);
    for (int64_t l = 0; l < m->config.layers; l++) {
        ES_TRY(es_slot_layer(slot, l, &layer, err));
        for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, l, &s);) {
            const es_linear *part = (const es_linear *)((const char *)layer + s.part->at);
            if (es_part_is_expert(s.part))
                ES_TRY(mix_experts(slot, l, part, &s, h, err));
            else
                *h = mix_stack(*h, part, &s);
        }
    }
    return ES_OK;
}

/* As the weights were loaded: how the checkpoint was cut into files, or what else is in them, does
 * not matter. */
es_status es_pool_hash_model(const es_model *m, const es_exec *exec, uint64_t *out, es_error *err)
{
    const es_model_config *c = &m->config;
    const double about[] = {(double)c->heads, c->layer_norm_eps};
    es_layer_slot slot;
    *out = mix_config(es_crc(0, about, sizeof about), c);
    ES_TRY(es_slot_new(m, exec, &slot, err));
    const es_status status = mix_weights(&slot, out, err);
    es_slot_free(&slot);
    return status;
}
