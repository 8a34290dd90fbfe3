/* weights.h : a BERT in memory. Matrices are (rows, cols) as in the file, row = output channel. */
#ifndef ES_MODEL_MODEL_INSIDE_H
#define ES_MODEL_MODEL_INSIDE_H

#include <stddef.h>
#include <stdint.h>

#include <esscher/model.h>
#include <esscher/safetensors.h>

typedef struct es_linear {
    void *w; /* (outputs, inputs) */
    void *b; /* (outputs) */
} es_linear;

typedef struct es_layer {
    es_linear qkv;   /* (3H, H): query, key, value one below the other, so that one product does */
    es_linear out;   /* (H, H) */
    es_linear norm1; /* (H): scale and shift */
    es_linear up;    /* (I, H) */
    es_linear down;  /* (H, I) */
    es_linear norm2; /* (H) */
} es_layer;

struct es_model {
    es_model_config config;
    es_dtype precision;
    es_budget *budget;
    char *folder;
    bool nonfinite; /* NaN or Inf is among the weights, and was allowed */
    void *weights;  /* all of it, one block; what follows points into it */
    void *word, *position, *type;
    es_linear norm0;
    es_layer *layers;
    es_linear pooler, classifier; /* NULL where the model has none */
};

/*! es_weights_load() : check that every tensor is there in the shape that model->config says, then
 *  take memory and read them. Sets pooler and labels of the config. After a failure the model is
 *  fit for es_model_close(). `opts` is not NULL. */
es_status es_weights_load(es_model *model, const es_st *st, const es_model_opts *opts,
                          es_error *err);

/* gelu.h : x (1 + erf(x / sqrt 2)) / 2, the exact one, at the speed of a table.
 *
 * A block of 512 tokens of MiniLM has five million of them, and erff() of the C library takes as
 * long for those as BLAS for all products. In f32 a cubic per cell of width 1/32 does: Taylor's
 * remainder max |gelu''''| (1/64)^4 / 24 is below 5e-9, a tenth of an ulp of 1. Beyond 6 it is x,
 * or 0, within 7e-9. */

enum { ES_GELU_CELLS = 384 }; /* of [-6, 6] */

typedef struct es_gelu_table {
    float cell[ES_GELU_CELLS][4]; /* coefficients around the middle of the cell */
} es_gelu_table;

void es_gelu_prepare(es_gelu_table *table);

/*! es_gelu_f32(), es_gelu_f64() : in place. NaN stays NaN. */
void es_gelu_f32(const es_gelu_table *table, float *x, int64_t count);
void es_gelu_f64(double *x, int64_t count);

/* rows.h : what happens to the rows of hidden states between two products, in f32 and f64. */

/* One precision's functions; rows_template.h says what they do. */
typedef struct es_rows {
    void (*embed)(const es_model *m, const int32_t *ids, int64_t n, void *out);
    void (*begin)(const void *bias, const void *residual, int64_t n, int64_t cols, void *out);
    bool (*norm)(const es_linear *norm, double eps, int64_t n, int64_t cols, void *x);
    void (*place)(const double *head, int64_t n, int64_t k, int64_t H, void *out);
    void (*gelu)(const es_gelu_table *table, void *x, int64_t count);
} es_rows;

extern const es_rows es_rows_f32, es_rows_f64;

/* config.h : config.json, read from memory. */

/*! es_config_parse() : as es_model_config_load(), from text; `file` is for messages. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err);

#endif
