/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_arch.h : an architecture of GGUF files is a description.
 *
 * A description says which keys an architecture has and where their values go in the configuration,
 * and under which name of a Hugging Face checkpoint each of its tensors is known. Lists are shared:
 * an architecture names those that it is made of. Forward pass and defaults are those of the
 * es_arch of its model_type.
 *
 * Descriptions are in gguf_arch_*.c, one file for each group of relatives; gguf_arch.c has the
 * table of all, and the lists that groups share. */
#ifndef ES_MODEL_GGUF_ARCH_H
#define ES_MODEL_GGUF_ARCH_H

#include "checkpoint/gguf_inside.h"
#include "model/arch.h"

/* ---- keys ---- */

/* How the value of a key is used. */
typedef enum es_gguf_use {
    ES_GGUF_USE_WHOLE,     /* an integer in [min, max], an int64_t of the configuration */
    ES_GGUF_USE_PER_LAYER, /* the same, or a list of it for all layers, which must be equal */
    ES_GGUF_USE_REAL,      /* a number in [min, max], a double of the configuration */
    ES_GGUF_USE_FLAG,      /* true or false, a bool of the configuration */
    ES_GGUF_USE_WINDOWS,   /* which layers have the window: a period, or a list of flags */
    ES_GGUF_USE_ZERO,      /* only 0 is supported: another value would change the function */
    ES_GGUF_USE_CODE       /* gguf_config.c or gguf_rotary.c reads it, or it does not matter */
} es_gguf_use;

typedef struct es_gguf_key {
    const char *key; /* after "ARCHITECTURE."; NULL ends a list */
    es_gguf_use use;
    size_t at; /* ES_CONFIG(member) or ES_STATED(member) */
    double min, max;
    bool required;
} es_gguf_key;

#define ES_GGUF_AT(member) ES_CONFIG(member)

/* Shared lists. Of two keys with the same name the first counts. */
extern const es_gguf_key es_gguf_size_keys[];    /* of all architectures */
extern const es_gguf_key es_gguf_head_keys[];    /* numbers and widths of heads */
extern const es_gguf_key es_gguf_rotary_keys[];  /* of those with rotary positions */
extern const es_gguf_key es_gguf_rms_keys[];     /* the eps of RMS norms, */
extern const es_gguf_key es_gguf_layer_keys[];   /* of LayerNorms */
extern const es_gguf_key es_gguf_expert_keys[];  /* numbers of experts */
extern const es_gguf_key es_gguf_window_keys[];  /* a window that some layers have */
extern const es_gguf_key es_gguf_encoder_keys[]; /* of encoders */

/* ---- tensors ---- */

/* Where a tensor is: in every file of the architecture or not. */
typedef enum es_gguf_presence {
    ES_GGUF_ALWAYS,
    ES_GGUF_BIASED,  /* always; with a bias where the architecture has biases */
    ES_GGUF_DENSE,   /* in layers without experts */
    ES_GGUF_EXPERTS, /* in layers with experts */
    ES_GGUF_OPTIONAL /* the configuration, or a tensor beside it, decides */
} es_gguf_presence;

enum { ES_GGUF_VECTOR = -1 };

/* One tensor of the file. With `times` it has one more dimension, which comes first: a tensor for
 * each expert or head of the checkpoint, whose number is the last '*' of known_as; if known_as has
 * no such '*', the checkpoint has them in one tensor as well. */
typedef struct es_gguf_tensor {
    const char *name; /* without ".weight"; '*' is the number of a layer, a second one that of an
                         expert; NULL ends a list */
    const char *known_as; /* in a checkpoint; NULL: it is not read, or read with another tensor */
    size_t rows;          /* ES_CONFIG(member) */
    int64_t cols;         /* the same, or ES_GGUF_VECTOR */
    es_gguf_presence presence;
    size_t heads; /* ES_CONFIG(member): of queries or keys, whose rows turn; 0: of none */
    size_t times; /* ES_CONFIG(member) of the first dimension; 0: there is no such dimension */
    const char *in_turn; /* tensor whose rows stand between the rows of this one; NULL: none */
    bool bare; /* known_as is the whole name of the weight; that of the bias has "_bias" */
} es_gguf_tensor;

#define ES_GGUF_LAYER(name) "model.layers.*." name

/* Shared lists, under the names of Llama's relatives. */
extern const es_gguf_tensor es_gguf_end_tensors[];       /* embeddings, last norm, language head */
extern const es_gguf_tensor es_gguf_attention_tensors[]; /* four matrices of attention */
extern const es_gguf_tensor es_gguf_mlp_tensors[];       /* gate, up and down */
extern const es_gguf_tensor es_gguf_norm_tensors[];      /* norms before attention and mlp, */
extern const es_gguf_tensor es_gguf_after_tensors[];     /* or after both */
extern const es_gguf_tensor es_gguf_head_norm_tensors[]; /* norms of queries and keys */
extern const es_gguf_tensor es_gguf_expert_tensors[];    /* router and experts */

/* ---- architectures ---- */

/* Biases of tensors that are ES_GGUF_BIASED. */
typedef enum es_gguf_biases {
    ES_GGUF_BIASES_NONE,
    ES_GGUF_BIASES_MAYBE, /* config.attention_bias: if the queries of the first layer have one */
    ES_GGUF_BIASES_ALWAYS
} es_gguf_biases;

enum { ES_GGUF_LISTS = 8 }; /* most lists of an architecture */

typedef struct es_gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* of its es_arch */
    const char *if_key;     /* this description is for files where the key is above 0; */
    const char *if_tensor;  /* for files that have the tensor. NULL: for all */
    const es_gguf_key *keys[ES_GGUF_LISTS];       /* NULL after the last */
    const es_gguf_tensor *tensors[ES_GGUF_LISTS]; /* likewise */
    es_gguf_biases biases;
    void (*derive)(es_config_draft *draft); /* what keys leave to rules; NULL: nothing */
    bool pairs; /* rows of queries and keys are rotary pairs side by side, not first halves first */
    bool partial; /* a part of the channels of a head may turn */
    bool encoder; /* tokens see those after them */
    bool sums;    /* shares of experts sum to 1, unless a key says otherwise */
    bool mixed;   /* layers without a router have an mlp in place of experts */
} es_gguf_arch;

/*! es_gguf_archs : all architectures, in the order of messages; NULL ends the table. Of two with
 *  the same name the first that is for a file counts. */
extern const es_gguf_arch *const es_gguf_archs[];

/*! es_gguf_arch_find() : returns the description of a file in *out. @return : ES_OK; ES_E_FORMAT
 *  (gguf.missing, gguf.value), ES_E_UNSUPPORTED (gguf.architecture). */
es_status es_gguf_arch_find(const es_gguf *g, const es_gguf_arch **out, es_error *err);

#endif
