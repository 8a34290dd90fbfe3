/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch.h : an architecture of GGUF files is a description.
 *
 * A row of the table in gguf_arch.c says which keys an architecture has and where their values go
 * in the configuration, and under which name of a Hugging Face checkpoint each of its tensors is
 * known. Lists are shared: an architecture names those that it is made of. Forward pass and
 * defaults are those of the es_arch of its model_type. */
#ifndef ES_MODEL_GGUF_ARCH_H
#define ES_MODEL_GGUF_ARCH_H

#include "checkpoint/gguf_inside.h"
#include "model/arch.h"

/* What becomes of the value of a key. */
typedef enum es_gguf_use {
    ES_GGUF_USE_WHOLE,     /* an integer in [min, max], an int64_t of the configuration */
    ES_GGUF_USE_PER_LAYER, /* the same, or a list of it for all layers, which must be equal */
    ES_GGUF_USE_REAL,      /* a number in [min, max], a double of the configuration */
    ES_GGUF_USE_ZERO,      /* only 0 is supported: another value would change the function */
    ES_GGUF_USE_CODE       /* gguf_model.c reads it, or it does not matter */
} es_gguf_use;

typedef struct es_gguf_key {
    const char *key; /* after "ARCHITECTURE."; NULL ends a list */
    es_gguf_use use;
    size_t at; /* ES_CONFIG(member) or ES_STATED(member) */
    double min, max;
    bool required;
} es_gguf_key;

/* Where a tensor is: in every file of the architecture or not. */
typedef enum es_gguf_presence {
    ES_GGUF_ALWAYS,
    ES_GGUF_UNTIED, /* unless the embeddings predict */
    ES_GGUF_BIASED  /* always; with a bias where the architecture has biases */
} es_gguf_presence;

enum { ES_GGUF_VECTOR = -1 };

typedef struct es_gguf_tensor {
    const char *name;     /* without ".weight"; '*' is the number of a layer; NULL ends a list */
    const char *known_as; /* in a checkpoint */
    size_t rows;          /* ES_CONFIG(member) */
    int64_t cols;         /* the same, or ES_GGUF_VECTOR */
    es_gguf_presence presence;
    size_t heads; /* ES_CONFIG(member): of queries or keys, whose rows turn; 0: of none */
} es_gguf_tensor;

/* Biases of queries, keys and values. */
typedef enum es_gguf_biases {
    ES_GGUF_BIASES_NONE,
    ES_GGUF_BIASES_MAYBE, /* if the first layer has one */
    ES_GGUF_BIASES_ALWAYS
} es_gguf_biases;

enum { ES_GGUF_LISTS = 4 }; /* most lists of an architecture */

typedef struct es_gguf_arch {
    const char *name;                             /* general.architecture; NULL ends the table */
    const char *model_type;                       /* of its es_arch */
    const es_gguf_key *keys[ES_GGUF_LISTS];       /* NULL after the last */
    const es_gguf_tensor *tensors[ES_GGUF_LISTS]; /* likewise */
    es_gguf_biases biases;
    void (*derive)(es_config_draft *draft); /* what keys leave to rules; NULL: nothing */
    bool pairs; /* rows of queries and keys are rotary pairs side by side, not first halves first */
} es_gguf_arch;

/*! es_gguf_archs : all architectures, in the order of messages. */
extern const es_gguf_arch es_gguf_archs[];

#endif
