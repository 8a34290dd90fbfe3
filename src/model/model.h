/* SPDX-License-Identifier: Apache-2.0 */
/* model.h : what the library alone needs beside <esscher/model.h>. */
#ifndef ES_MODEL_MODEL_H
#define ES_MODEL_MODEL_H

#include <esscher/model.h>

/*! es_model_folder(), es_model_precision() : folder and precision of what was opened. */
const char *es_model_folder(const es_model *model);
es_dtype es_model_precision(const es_model *model);

/*! es_model_fingerprint() : a number that identifies a checkpoint: its configuration, and a few
 *  thousand numbers of each part outside the layers, and of the first and last layer. The same for
 *  any precision, number of threads and way in which weights are held; never 0. A copy whose
 *  weights differ in other layers alone is not recognised. @return : ES_OK; as es_slot_layer(). */
es_status es_model_fingerprint(const es_model *model, const es_exec *exec, uint64_t *out,
                               es_error *err);

/*! es_model_weights_mode() : returns how es_model_open() holds the weights of a model of this
 *  configuration, or how it did. */
es_weights_mode es_model_weights_mode(const es_model_config *config, es_dtype precision);

/*! es_model_shares_block() : returns whether all threads should run one block of n tokens together
 *  instead of one each: a streamed model then decodes a layer once, and a block has parts for
 *  several threads. */
bool es_model_shares_block(const es_model_config *config, int64_t n);

/*! es_model_head_of() : head 0 <= head < h of layer 0 <= layer < L, whose input is hidden state
 *  `layer`. Valid until es_model_close(). layer_heads.h does the same for streamed models, too.
 *  @return : ES_OK; ES_E_RANGE; ES_E_ARGUMENT (model.streamed). */
es_status es_model_head_of(const es_model *model, int64_t layer, int64_t head, es_model_head *out,
                           es_error *err);

/*! es_model_head_rows() : queries, keys and values (n, k each) of a head as they meet in a block of
 *  n tokens, in f64, from x (n, H), what the layer's attention is given (es_model_block.inputs):
 *  biases, norms of heads and rotary positions 0 .. n-1 included. Scores are q.k / score_divisor.
 *  O(n H k), and O(n H Q) where a norm is over all heads.
 *  @return : ES_OK; ES_E_RANGE (model.head; forward.length for more tokens than a model whose
 * queries turn has positions); as es_mat_multiply(). */
es_status es_model_head_rows(const es_model *model, int64_t layer, int64_t head, const es_view *x,
                             es_mem_limit *budget, double *q, double *k, double *v, es_error *err);

/*! es_model_branch() : how attention of a layer is added to the state: *factor times what Wo gives,
 *  normed by its root mean square with scale (H) if it returns true. Either may be NULL; without
 *  scale it needs no weights (es_model_open_headers()). */
bool es_model_branch(const es_model *model, int64_t layer, double *scale, double *factor);

/*! es_model_sink() : returns the logit of the learned sink of a head; -inf: it has none. */
double es_model_sink(const es_model *model, int64_t layer, int64_t head);

/*! es_late_begin() : returns the first position of a block of n tokens over which experiments
 *  average errors: n / 2 in a causal model, whose early queries see fewer keys than policies keep;
 * 0 otherwise. */
static inline int64_t es_late_begin(const es_model_config *config, int64_t n)
{
    return config->causal ? n / 2 : 0;
}

/*! es_model_work() : returns the operations that attention does in the time of a forward pass.
 *  Products of matrices, norms and activations are slower than attention: measured, a pass takes
 *  1.1 to 1.4 times as long as its operations would, for 1 to 1100 million parameters, and 1.25
 *  stands for all of them. */
#define ES_FORWARD_SLOWNESS 1.25
static inline double es_model_work(const es_model_cost *cost)
{
    return ES_FORWARD_SLOWNESS * (cost->products + cost->attention);
}

/* How rotary positions are stretched to longer texts than the model was trained on: THEORY 16.2
 * (R2), (R4), (R8), (R9). */
typedef enum es_stretch_kind {
    ES_STRETCH_NONE,   /* as the checkpoint has them */
    ES_STRETCH_LINEAR, /* positions over `by` */
    ES_STRETCH_NTK,    /* theta times by^(w / (w - 2)) */
    ES_STRETCH_YARN,   /* YaRN by the factor `by`, from `trained` positions on, with its attention
                          factor */
    ES_STRETCH_BASE    /* theta is `by` */
} es_stretch_kind;

typedef struct es_stretch {
    es_stretch_kind kind;
    double by;      /* 1 to 1e6; of ES_STRETCH_BASE 1.0001 to 1e15 */
    double trained; /* of ES_STRETCH_YARN, at least 1 */
} es_stretch;

/*! es_model_stretch() : the rotations of a model, stretched, for es_model_block.rotary.
 * config.rotary is; config.rotary_local, of layers with a window, within which no distance is new,
 * is not.
 *  @return : ES_OK; ES_E_UNSUPPORTED: rope.none (a model without rotary positions), rope.twice
 * (linear or yarn where the checkpoint itself stretches otherwise), rope.width (ntk of two
 * channels); ES_E_RANGE (rope.range). */
es_status es_model_stretch(const es_model_config *config, const es_stretch *stretch,
                           es_rotary out[2], es_error *err);

/*! es_model_widest(), es_model_narrowest() : return the widest and the narrowest window of a layer;
 *  0: some layer has none, and no layer has one. */
static inline int64_t es_model_widest(const es_model_config *config)
{
    int64_t most = 0;
    for (int64_t i = 0; i < config->kinds; i++) {
        if (!config->kind[i].window)
            return 0;
        most = config->kind[i].window > most ? config->kind[i].window : most;
    }
    return most;
}
static inline int64_t es_model_narrowest(const es_model_config *config)
{
    int64_t least = 0;
    for (int64_t i = 0; i < config->kinds; i++) {
        const int64_t window = config->kind[i].window;
        least = window && (!least || window < least) ? window : least;
    }
    return least;
}

/*! es_model_sparse_cells() : cells of random numbers that a block may use: L h positions.
 *  es_model_sparse_bytes() : memory of a block of n tokens with sparse heads beyond what
 *  es_model_cost_of() says, draws with replacement apart; `span` is the longest observation window
 *  of their specs, 0: ES_POLICY_SPAN. */
int64_t es_model_sparse_cells(const es_model *model);
double es_model_sparse_bytes(const es_model_config *config, int64_t n, int64_t span);

#endif
