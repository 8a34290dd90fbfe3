/* weights.h : a BERT in memory. Matrices are (rows, cols) as in the file, row = output channel. */
#ifndef ES_MODEL_WEIGHTS_H
#define ES_MODEL_WEIGHTS_H

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

#endif
