/* SPDX-License-Identifier: Apache-2.0 */
/* model_inside.h : a model in memory, and what is done to its hidden states.
 *
 * Matrices are (rows, cols) as in the file, row = output channel. The names of members are those of
 * no architecture: descriptions (arch.h) say which tensor goes where. */
#ifndef ES_MODEL_MODEL_INSIDE_H
#define ES_MODEL_MODEL_INSIDE_H

#include <math.h>
#include <stdint.h>

#include <esscher/model.h>

#include "checkpoint/safetensors.h"
#include "model/arch.h"

/* ---- weights (model/weights.c) ---- */

typedef struct es_linear {
    void *w; /* (outputs, inputs); a norm's scale (outputs); NULL: the model has no such part */
    void *b; /* (outputs), zeros where the model has none */
} es_linear;

/* Q = query_width, K = kv_width. */
typedef struct es_layer {
    es_linear qkv;   /* (Q + 2K, H): query, key, value one below the other: one product does */
    es_linear out;   /* (H, Q) */
    es_linear norm1; /* (H) of attention */
    es_linear up;    /* (I, H), or gate and up (2I, H) */
    es_linear down;  /* (H, I) */
    es_linear norm2; /* (H) of what follows attention */
    es_linear norm_q, norm_k; /* of queries and keys: (k), (Q) and (K), or (heads, k) */
    es_linear after1, after2; /* (H) of what attention, and what W2, adds to the state */
    es_linear sinks;          /* (heads) logits of the heads' sinks */
    es_linear router;         /* (E, H), of a layer with E experts of width F */
    es_linear experts_up;     /* (E, 2F, H) */
    es_linear experts_down;   /* (E, H, F) */
} es_layer;

/*! es_layer_head() : returns views of the matrices of head 0 <= head < h of a layer of the model,
 * in the model's memory or in a slot. */
es_model_head es_layer_head(const es_model *model, const es_layer *layer, int64_t head);

/*! es_layer_sink() : returns the logit of a head's sink; -inf: it has none. */
static inline double es_layer_sink(const es_layer *l, es_dtype precision, int64_t head)
{
    const void *sinks = l->sinks.w;
    if (!sinks)
        return -(double)INFINITY;
    return precision == ES_F32 ? (double)((const float *)sinks)[head]
                               : ((const double *)sinks)[head];
}

struct es_model {
    const es_arch *arch;
    es_model_config config;
    es_dtype precision;
    es_mem_limit *budget;
    char *folder;
    const es_activation *activation; /* between `up` and `down` */
    const es_activation *pooled;     /* after the pooler; NULL: there is none */
    bool nonfinite;                  /* NaN or Inf is among the weights, and was allowed */
    void *weights; /* one block; what follows points into it, and w is NULL of a part that
                      es_part_is_streamed() in a streamed model */
    es_linear word, position, type;
    es_linear norm0; /* of the first hidden state */
    es_layer *layers;
    es_linear pooler, classifier;
    es_linear norm_pooled;           /* (H) of what the pooler gives */
    es_linear norm_last, predictor;  /* logits of the next token are predictor norm_last(x) */
    struct es_weight_source *source; /* the files; NULL once all weights are in memory */
};

#define ES_IN_MODEL(member) offsetof(es_model, member)
#define ES_IN_LAYER(member) offsetof(es_layer, member)

/*! es_model_place() : where a part lies; `layer` counts only for one of a layer. */
static inline es_linear *es_model_place(const es_model *m, const es_arch_part *part, int64_t layer)
{
    const char *base = es_part_in_layer(part) ? (const char *)&m->layers[layer] : (const char *)m;
    return (es_linear *)(base + part->at);
}

/*! es_model_open_headers() : as es_model_open(), without reading weights: the configuration and the
 *  headers of the weights are checked, and what the weights will take is charged to the budget. The
 *  model answers es_model_config_of(), es_model_folder(), es_model_precision(),
 *  es_model_check_tokenizer(), es_model_sparse_cells(), and es_model_branch() without scale; for
 *  everything else es_model_load() it first. es_model_load() : reads the weights into the memory
 *  that was charged; O(weights). After a failure the model is fit for es_model_close() only.
 *  @return : as es_model_open(). */
es_status es_model_open_headers(const char *name, const es_model_opts *opts, es_model **out,
                                es_error *err);
es_status es_model_load(es_model *model, es_error *err);

/*! es_weights_check() : check that every tensor of model->arch is in `st` in the shape that
 *  model->config says, and charge the budget with what they take. Sets pooler, labels, predicts and
 *  weights of the config, and model->source, which owns `st` from then on, also after a failure.
 *  es_weights_read() : read them, or what a streamed model holds of them, and check that all are
 *  finite. es_weights_forget() : free model->source and take back its charge. */
es_status es_weights_check(es_model *model, es_st *st, const es_model_opts *opts, es_error *err);
es_status es_weights_read(es_model *model, es_error *err);
void es_weights_forget(es_model *model);

/* ---- rotary positions (rotary.c) ---- */

/*! es_rotary_complete() : fill in what config.json leaves to rules, and check it.
 *  @return : ES_OK; ES_E_UNSUPPORTED (config.rotary) for a type that is not known; ES_E_FORMAT
 *  (config.rotary) for numbers that make no sense. `file` is for messages. */
es_status es_rotary_complete(es_model_config *config, const char *file, es_error *err);

/*! es_model_rotary() : returns the rotation of layers of a kind; NULL: they do not turn. */
static inline const es_rotary *es_model_rotary(const es_model_config *config,
                                               const es_layer_kind *kind)
{
    return kind->rotary < 0 ? NULL : kind->rotary ? &config->rotary_local : &config->rotary;
}

/*! es_rotary_fits() : returns whether `other` can replace the rotation `own` of a model. Both have
 *  the same width, and the numbers of `other` are in the ranges of config.json. */
bool es_rotary_fits(const es_rotary *own, const es_rotary *other);

/*! es_rotary_angles() : cosines and sines, (n, width/2) each, of places 0 .. n-1 of a block of n
 *  tokens, times what YaRN and longrope multiply queries and keys with. O(n width). */
void es_rotary_angles(const es_rotary *rotary, int64_t n, double *cosines, double *sines);

/*! es_rotary_query_factors() : what queries at places 0 .. n-1 are multiplied by, out (n):
 *  es_rotary.query_beta. */
void es_rotary_query_factors(const es_rotary *rotary, int64_t n, double *out);

/* ---- between two products (layer_rows.c) ---- */

/* x (1 + erf(x / sqrt 2)) / 2, the exact one, at the speed of a table.
 *
 * A block of 512 tokens of MiniLM has five million of them, and erff() of the C library takes as
 * long for those as BLAS for all products. In f32 a cubic per cell of width 1/32 does: Taylor's
 * remainder max |gelu''''| (1/64)^4 / 24 is below 5e-9, a tenth of an ulp of 1. Beyond 6 it is x,
 * or 0, within 7e-9. NaN stays NaN. */
enum { ES_GELU_CELLS = 384 }; /* of [-6, 6] */

struct es_gelu_table {
    float cell[ES_GELU_CELLS][4]; /* coefficients around the middle of the cell */
};

void es_gelu_prepare(es_gelu_table *table);

extern const es_activation es_gelu, es_tanh, es_relu;

/* Heads that lie beside each other in rows of `stride` numbers, k channels each. */
typedef struct es_head_rows {
    void *x;
    int64_t n, stride, heads, k;
} es_head_rows;

/* One precision's functions on rows of hidden states; layer_rows_template.h says what they do. */
typedef struct es_row_kernels {
    void (*embed)(const es_model *m, const int32_t *ids, int64_t n, void *out);
    void (*begin)(const void *bias, const void *residual, int64_t n, int64_t cols, void *out);
    bool (*norm[ES_NORMS])(const es_linear *norm, double eps, int64_t n, int64_t cols,
                           const void *x, void *out);
    void (*norm_heads)(const es_arch *arch, const es_linear *norm, double eps,
                       const es_head_rows *rows);
    void (*turn)(const es_head_rows *rows, const es_rotary *rotary, const double *cosines,
                 const double *sines);
    void (*scale)(const es_head_rows *rows, const double *factor);
    void (*gate[ES_GATES])(const es_activate activate, const es_gelu_table *table, int64_t n,
                           int64_t cols, void *pairs);
    void (*route)(const es_model_config *c, const void *logits, int64_t n, int32_t *chosen,
                  void *share);
    void (*gather)(const void *rows, const int32_t *which, int64_t n, int64_t cols, void *out);
    void (*scatter)(const void *rows, const int32_t *which, const void *factor, int64_t n,
                    int64_t cols, void *out);
    void (*add)(const void *branch, double factor, int64_t count, void *x);
    void (*finish_logits)(double factor, double cap, int64_t count, void *logits);
    void (*place)(const double *head, int64_t n, int64_t k, int64_t width, void *out);
    void (*mean)(const void *x, int64_t n, int64_t cols, void *out);
    void (*surprise)(const void *logits, int64_t n, int64_t vocab, const int32_t *next,
                     double *nll);
} es_row_kernels;

extern const es_row_kernels es_row_kernels_f32, es_row_kernels_f64;

#endif
