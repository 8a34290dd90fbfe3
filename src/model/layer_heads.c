/* SPDX-License-Identifier: Apache-2.0 */
/* layer_heads.c : the attention matrices of one layer, in memory or from the file. */
#include "model/layer_heads.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/layer_slot.h"

struct es_layer_heads {
    es_layer_slot slot;
    es_mem_limit *budget;
};

es_status es_layer_heads_open(const es_model *model, int64_t layer, const es_exec *exec,
                              es_layer_heads **out, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    es_layer_heads *h;
    *out = NULL;
    if (layer < 0 || layer >= model->config.layers)
        return es_fail(err, ES_E_RANGE, "model.head", "count from 0",
                       "layer %lld of a model of %lld layers", (long long)layer,
                       (long long)model->config.layers);
    ES_TRY(ES_MEM_NEW(budget, h, 1, "heads of a layer", err));
    h->budget = budget;
    const es_status status = es_slot_attention(model, layer, exec, &h->slot, err);
    if (status == ES_OK)
        *out = h;
    else
        es_mem_free(budget, h);
    return status;
}

void es_layer_heads_close(es_layer_heads *heads)
{
    if (!heads)
        return;
    es_slot_free(&heads->slot);
    es_mem_free(heads->budget, heads);
}

es_model_head es_layer_heads_at(const es_layer_heads *heads, int64_t head)
{
    return es_layer_head(heads->slot.model, &heads->slot.layer, head);
}

double es_layer_heads_bytes(const es_model_config *c, es_dtype precision, const es_exec *exec)
{
    static const es_exec defaults = {0};
    const int threads = es_parallel_threads(exec ? exec : &defaults, INT64_MAX);
    const bool streamed = es_model_weights_mode(c, precision) == ES_WEIGHTS_STREAMED;
    return (double)sizeof(es_layer_heads) +
           (streamed ? es_slot_attention_bytes(c, precision, threads) : 0.0);
}
