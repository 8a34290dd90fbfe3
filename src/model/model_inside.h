/* model_inside.h : a model in memory, and what is done to its hidden states.
 *
 * Matrices are (rows, cols) as in the file, row = output channel. The names of members are those of
 * no architecture: descriptions (arch.h) say which tensor goes where. */
#ifndef ES_MODEL_MODEL_INSIDE_H
#define ES_MODEL_MODEL_INSIDE_H

#include <stdint.h>

#include <esscher/model.h>
#include <esscher/safetensors.h>

#include "model/arch.h"

/* ---- weights (checkpoint.c) ---- */

typedef struct es_linear {
    void *w; /* (outputs, inputs); a norm's scale (outputs); NULL: the model has no such part */
    void *b; /* (outputs); NULL of a table */
} es_linear;

typedef struct es_layer {
    es_linear qkv;   /* (3H, H): query, key, value one below the other, so that one product does */
    es_linear out;   /* (H, H) */
    es_linear norm1; /* (H) */
    es_linear up;    /* (I, H) */
    es_linear down;  /* (H, I) */
    es_linear norm2; /* (H) */
} es_layer;

struct es_model {
    const es_arch *arch;
    es_model_config config;
    es_dtype precision;
    es_budget *budget;
    char *folder;
    bool nonfinite; /* NaN or Inf is among the weights, and was allowed */
    void *weights;  /* all of it, one block; what follows points into it */
    es_linear word, position, type;
    es_linear norm0;
    es_layer *layers;
    es_linear pooler, classifier;
};

#define ES_IN_MODEL(member) offsetof(es_model, member)
#define ES_IN_LAYER(member) offsetof(es_layer, member)

/*! es_model_place() : where a part lies; `layer` counts only for one of a layer. */
static inline es_linear *es_model_place(const es_model *m, const es_arch_part *part, int64_t layer)
{
    const char *base = es_part_in_layer(part) ? (const char *)&m->layers[layer] : (const char *)m;
    return (es_linear *)(base + part->at);
}

/*! es_weights_load() : check that every tensor of model->arch is there in the shape that
 *  model->config says, then take memory and read them. Sets pooler and labels of the config. After
 *  a failure the model is fit for es_model_close(). `opts` is not NULL. */
es_status es_weights_load(es_model *model, const es_st *st, const es_model_opts *opts,
                          es_error *err);

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

extern const es_activation es_gelu, es_tanh;

/* One precision's functions on rows of hidden states; layer_rows_template.h says what they do. */
typedef struct es_rows {
    void (*embed[ES_POSITIONS])(const es_model *m, const int32_t *ids, int64_t n, void *out);
    void (*begin)(const void *bias, const void *residual, int64_t n, int64_t cols, void *out);
    bool (*norm[ES_NORMS])(const es_linear *norm, double eps, int64_t n, int64_t cols, void *x);
    void (*place)(const double *head, int64_t n, int64_t k, int64_t H, void *out);
} es_rows;

extern const es_rows es_rows_f32, es_rows_f64;

#endif
