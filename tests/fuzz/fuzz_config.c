/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_config.c : any text as a config.json. What is accepted is a shape a model can have. */
#include <stdint.h>
#include <stdlib.h>

#include "model/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    es_error err = {0};
    es_model_config c;
    const es_status status = es_config_parse(data, size, "fuzz", &c, &err);
    if (status != ES_OK) {
        require(status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(err.offset <= (int64_t)size && c.hidden == 0);
        return 0;
    }
    require(c.hidden >= 1 && c.heads >= 1 && c.heads % c.kv_heads == 0 && c.layers >= 1);
    require(c.query_width == c.heads * c.head_dim && c.score_divisor > 0.0);
    require(c.kinds >= 1 && c.kinds <= ES_MODEL_KINDS && c.layers <= ES_MODEL_LAYERS);
    for (int64_t l = 0; l < c.layers; l++) {
        const es_layer_kind *kind = es_model_layer(&c, l);
        require(c.layer_kind[l] < c.kinds && kind->window >= 0 && kind->rotary <= 1);
        require(kind->rotary != 0 || c.rotary.width >= 2);
        require(kind->rotary != 1 || c.rotary_local.width >= 2);
    }
    require(c.experts >= 0 && (!c.experts || c.experts_used <= c.experts));
    require(!c.experts || (c.experts_used >= 1 && c.expert_up >= c.expert_width));
    require(c.vocab >= 1 && c.positions >= 1 && c.types >= 0 && c.intermediate >= 1);
    require(c.layer_norm_eps >= 1e-20 && c.layer_norm_eps <= 1e-2 && c.labels >= 0);
    return 0;
}
