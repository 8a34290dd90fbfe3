/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c : a number that identifies a checkpoint, from a sample of its weights, and whether
 * a plan was made for it. */
#include "base/error.h"
#include "model/layer_slot.h"
#include "model/model.h"
#include "model/plan.h"
#include "model/pool_files.h"

enum { SAMPLE = 4096 }; /* numbers of a part that count, at most */

/* Adds numbers to the hash, evenly taken from `count`, as f32: what a checkpoint holds does not
 * depend on the precision in which the model runs. */
static uint64_t mix(uint64_t h, es_dtype dtype, const void *numbers, int64_t count)
{
    const int64_t step = (count + SAMPLE - 1) / SAMPLE;
    for (int64_t i = 0; i < count; i += step) {
        const float x =
            dtype == ES_F64 ? (float)((const double *)numbers)[i] : ((const float *)numbers)[i];
        h = es_crc(h, &x, sizeof x);
    }
    return h;
}

/* Adds the weights of all parts of a layer, or of those outside the layers (-1). Word embeddings,
 * the language head and experts of a streamed model are on disk, and do not count here. */
static uint64_t mix_parts(uint64_t h, const es_model *m, int64_t layer, const es_layer *weights)
{
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, layer, &s);) {
        if ((layer < 0 && es_part_is_streamed(s.part)) || es_part_is_expert(s.part))
            continue;
        const es_linear *part =
            weights ? (const es_linear *)(const void *)((const char *)weights + s.part->at)
                    : es_model_place(m, s.part, -1);
        if (part->w)
            h = mix(h, m->precision, part->w, s.rows * s.cols);
    }
    return h;
}

/* Adds the first word embeddings. */
static es_status mix_words(es_layer_slot *slot, uint64_t *h, es_error *err)
{
    const es_model_config *c = &slot->model->config;
    const int64_t rows = c->vocab < 64 ? c->vocab : 64;
    const void *panel;
    ES_TRY(es_slot_panel(slot, false, 0, rows, &panel, err));
    *h = mix(*h, slot->model->precision, panel, rows * c->hidden);
    return ES_OK;
}

/* Adds the words, the first layer and the last one. */
static es_status mix_model(es_layer_slot *slot, uint64_t *h, es_error *err)
{
    const es_model *m = slot->model;
    const int64_t last = m->config.layers - 1;
    const es_layer *layer;
    ES_TRY(mix_words(slot, h, err));
    *h = mix_parts(*h, m, -1, NULL);
    for (int64_t l = 0; l <= last; l += last > 0 ? last : 1) {
        ES_TRY(es_slot_layer(slot, l, &layer, err));
        *h = mix_parts(*h, m, l, layer);
    }
    return ES_OK;
}

es_status es_model_fingerprint(const es_model *m, const es_exec *exec, uint64_t *out, es_error *err)
{
    const es_model_config *c = &m->config;
    const double shape[] = {(double)c->layers, (double)c->heads,    (double)c->kv_heads,
                            (double)c->hidden, (double)c->head_dim, (double)c->vocab,
                            c->layer_norm_eps, c->rotary.theta,     c->rotary.factor};
    es_layer_slot slot;
    *out = es_crc(0, shape, sizeof shape);
    ES_TRY(es_slot_new(m, exec, &slot, err));
    const es_status status = mix_model(&slot, out, err);
    es_slot_free(&slot);
    *out += *out == 0;
    return status;
}

es_status es_plan_check_weights(const es_plan *plan, const es_model *model, const es_exec *exec,
                                es_error *err)
{
    uint64_t is;
    if (!plan->fingerprint)
        return ES_OK;
    ES_TRY(es_model_fingerprint(model, exec, &is, err));
    if (is == plan->fingerprint)
        return ES_OK;
    return es_fail(err, ES_E_SHAPE, "plan.fingerprint",
                   "make a plan for this model: esscher budget; or remove \"fingerprint\" from the "
                   "file to try it on other weights",
                   "the plan is for a checkpoint of fingerprint %016llx; this one has %016llx",
                   (unsigned long long)plan->fingerprint, (unsigned long long)is);
}
