/* SPDX-License-Identifier: Apache-2.0 */
/* arch_experts.h : what the descriptions of models with experts share.
 *
 *     x = x + sum over e in S of g_e W2e (silu(Wge y) (W1e y)),  y = norm(x)
 *
 * S the experts_used largest of the logits r = Wr y, g = softmax(r) over S (config.shares_sum), or
 * over all experts. Files have a tensor for each expert and matrix, or one for all experts, in
 * which the gate's rows come before those of W1. */
#ifndef ES_MODEL_ARCH_EXPERTS_H
#define ES_MODEL_ARCH_EXPERTS_H

#include "model/arch_llama.h"

#define ES_EXPERT_FIELDS(key, least)                                                               \
    {key, ES_FIELD_WHOLE, .at = ES_CONFIG(experts), .min = least, .max = 1 << 16},                 \
    {                                                                                              \
        "num_experts_per_tok", ES_FIELD_WHOLE, .at = ES_CONFIG(experts_used), .min = 1,            \
                                               .max = 1 << 16                                      \
    }

/* What parts of experts have in common. */
#define ES_EXPERT_PART .in = ES_LAYERS_EXPERTS

/* One tensor for all experts. */
#define ES_EXPERTS_FUSED(name)                                                                     \
    ES_LLAMA_LAYER("mlp.experts." name), ES_PART_FUSED, ES_EXPERT_PART,                            \
        .when = ES_CONFIG(experts_fused)

#endif
