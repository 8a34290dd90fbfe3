/* SPDX-License-Identifier: Apache-2.0 */
/* arch.h : an architecture is a description.
 *
 * What distinguishes one family of checkpoints from another is written down once, in the constant
 * of its own file (arch_bert.c), and registered once, in the table of arch.c. All other code reads
 * this description: config.json is checked against its fields, weights are found by the names and
 * shapes of its parts, the forward pass looks up functions by its kinds, and pools hash the parts.
 * No code compares the name of an architecture.
 *
 * A kind (of norm, of positions, of attention, of order) is the index of a function in a table of
 * forward_layer.c or layer_rows.c. A new one is an enumerator and that function; an architecture
 * that is made of known ones is its description and nothing else: arch_qwen3.c differs from
 * arch_llama.c by two lines.
 */
#ifndef ES_MODEL_ARCH_H
#define ES_MODEL_ARCH_H

#include <stddef.h>

#include <esscher/model.h>

/* A number that config.json states, by its member: for fields, and for shapes of parts. */
#define ES_CONFIG(member) offsetof(es_model_config, member)

/* ---- what config.json has ---- */

typedef enum es_field_kind {
    ES_FIELD_WHOLE,  /* an integer in [min, max]; may be written 512.0, as some tools do */
    ES_FIELD_REAL,   /* a number in [min, max] */
    ES_FIELD_WORD,   /* a string; null is as if it were not there */
    ES_FIELD_BOOL,   /* true or false; null is as if it were not there */
    ES_FIELD_CAP,    /* a number in [min, max]; null is 0 */
    ES_FIELD_SKIP,   /* whatever it is: this family does not read the key */
    ES_FIELD_NONE,   /* whatever it is: it must be false, null, a number in [min, 0], or empty */
    ES_FIELD_TRUE,   /* it must be true */
    ES_FIELD_FIRST,  /* the first string of an array */
    ES_FIELD_LAYERS, /* an array of strings that says of each layer whether it has the window */
    ES_FIELD_TURNS,  /* an array of 0 and 1 that says of each layer whether it turns */
    ES_FIELD_DENSE,  /* an array of the numbers of layers that have no experts */
    ES_FIELD_METHOD, /* an object, or null, whose key quant_method is one of `only` */
    ES_FIELD_PERIOD, /* an integer in [min, max], or a word like "LLLG": its length */
    ES_FIELD_LABELS, /* an object of names by their numbers: how many, and the names */
    ES_FIELD_OBJECT, /* an object, or null, that is read later */
    ES_FIELD_SHORT,  /* an array of numbers: rotary.short_factor */
    ES_FIELD_LONG    /* an array of numbers: rotary.long_factor */
} es_field_kind;

/* A key and what becomes of its value: it goes into the draft of the configuration, or (NONE, TRUE,
 * and WORD with `only`) it may have some values only, because any other would change the function
 * that is computed. A WORD with `only` goes into the draft, too, where `at` is not 0. Of two fields
 * with the same key the first counts: a family's own field stands before those that it shares. */
typedef struct es_config_field {
    const char *key; /* NULL ends a table */
    es_field_kind kind;
    bool required;
    size_t at; /* ES_CONFIG(member) or ES_STATED(member): int64_t, double, bool or char[64] */
    double min, max;
    bool nullable;    /* it may be null: a WHOLE is then 0, a REAL as if it were not there */
    const char *only; /* WORD, METHOD: the values that are supported, with '|' between them */
    const char *rule, *hint; /* of the refusal of another; NULL: config.function */
} es_config_field;

enum { ES_ARCH_FIELDS = 80 }; /* most fields of a description */

/* A size that must be there. */
#define ES_FIELD_SIZE(key, member, most)                                                           \
    {                                                                                              \
        key, ES_FIELD_WHOLE, true, ES_CONFIG(member), .min = 1, .max = most                        \
    }

/* Sizes, which most families must state. */
#define ES_ARCH_SIZES                                                                              \
    ES_FIELD_SIZE("hidden_size", hidden, 65536),                                                   \
        ES_FIELD_SIZE("num_hidden_layers", layers, ES_MODEL_LAYERS),                               \
        ES_FIELD_SIZE("num_attention_heads", heads, 65536),                                        \
        ES_FIELD_SIZE("intermediate_size", intermediate, 1 << 20),                                 \
        ES_FIELD_SIZE("vocab_size", vocab, 1 << 24),                                               \
        ES_FIELD_SIZE("max_position_embeddings", positions, 1 << 24)

/* The activation of the feed-forward layers, under the key of the family. */
#define ES_ARCH_ACTIVATION(key)                                                                    \
    {                                                                                              \
        key, ES_FIELD_WORD,                                                                        \
            .at = ES_CONFIG(activation),                                                           \
            .only = "silu|swish|gelu|gelu_new|gelu_fast|gelu_pytorch_tanh|relu",                   \
            .rule = "config.activation",                                                           \
            .hint = "supported: silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu"          \
    }

/* Keys that no decoder here supports, whichever config.json has them. */
#define ES_FIELDS_REFUSED                                                                          \
    {"quantization_config", ES_FIELD_NONE, .rule = "config.quantised",                             \
     .hint = "use weights in F32, F16 or BF16, or a GGUF file"},                                   \
        {"num_experts", ES_FIELD_NONE}, {"num_local_experts", ES_FIELD_NONE},                      \
        {"n_routed_experts", ES_FIELD_NONE}, {"alibi", ES_FIELD_NONE},                             \
        {"final_logit_softcapping", ES_FIELD_NONE}, {"attn_logit_softcapping", ES_FIELD_NONE},     \
        {"logit_scale", ES_FIELD_NONE}, {"residual_multiplier", ES_FIELD_NONE},                    \
        {"embedding_multiplier", ES_FIELD_NONE}, {"attention_multiplier", ES_FIELD_NONE},          \
        {"add_cross_attention", ES_FIELD_NONE}, {"is_encoder_decoder", ES_FIELD_NONE},             \
        {"is_causal", ES_FIELD_TRUE}, {"use_bidirectional_attention", ES_FIELD_NONE},              \
        {"use_qk_norm", ES_FIELD_NONE}, {"qk_layernorm", ES_FIELD_NONE},                           \
        {"clip_qkv", ES_FIELD_NONE}, {"use_logn_attn", ES_FIELD_NONE},                             \
        {"use_mrope", ES_FIELD_NONE}, {"no_rope_layers", ES_FIELD_NONE},                           \
        {"compression_config", ES_FIELD_NONE},                                                     \
    {                                                                                              \
        "layer_types", ES_FIELD_LAYERS,                                                            \
            .rule = "config.window",                                                               \
            .hint = "supported are full_attention and, where there is a sliding_window, "          \
                    "sliding_attention"                                                            \
    }

/* ---- which layers have the window, and which turn ---- */

/* Kinds of layers by config.json or, without its keys, by the description. Layer l has the window
 * if layer_types says so; where that is missing, if l >= first, and period is 0 or (l + phase) mod
 * period is not 0, and, where only_still is set, if it does not turn. */
typedef struct es_layers_stated {
    int64_t window;        /* sliding_window; 0 and below: none */
    bool asks, used;       /* the family has the key use_sliding_window, and what that says */
    int64_t period, phase; /* every `period`-th layer has no window */
    int64_t first;         /* layers before it have none */
    bool only_still;       /* layers that turn have none */
    int64_t still_period;  /* layer l does not turn if (l + 1) mod still_period is 0; 0: all turn */
    bool still_full;       /* layers without the window do not turn, where others have it */
    bool still_sliding;    /* layers with the window do not turn */
    bool local;            /* layers with the window turn by config.rotary_local */
    bool both_sides;       /* tokens see those after them, too */
    bool rotary_stated;    /* there is a key about rotary positions */
    double original;       /* original_max_position_embeddings outside of the rotary object; 0 */
    int64_t expert_step;   /* layer l has experts if (l + 1) mod expert_step is 0; 0: all have */
    int64_t types, turns;  /* layers that layer_types and no_rope_layers name; 0: no such key */
    char attention[64];    /* attention_type */
    int64_t block, random; /* block_size and num_random_blocks of attention_type block_sparse */
    bool rescaled;         /* rescale_embeddings */
    char pooling[64];      /* classifier_pooling */
    char other[64];        /* what layer_types has beside full_attention and sliding_attention */
    bool sliding[ES_MODEL_LAYERS]; /* (types) */
    bool turning[ES_MODEL_LAYERS]; /* (turns) */
    bool dense[ES_MODEL_LAYERS];   /* layers without experts, whatever expert_step says */
} es_layers_stated;

/* A configuration while it is read. Fields address it from its beginning, so that ES_CONFIG() is a
 * place in it. */
typedef struct es_config_draft {
    es_model_config config;
    es_layers_stated layers;
} es_config_draft;

#define ES_STATED(member) offsetof(es_config_draft, layers.member)

/* ---- which tensors there are ---- */

typedef enum es_part_kind {
    ES_PART_TABLE,  /* NAME.weight (rows, cols) */
    ES_PART_LINEAR, /* NAME.weight (rows, cols) and NAME.bias (rows): y = W x + b */
    ES_PART_MATRIX, /* the same without a bias, or with one if the config's bool at `biased` says */
    ES_PART_NORM,   /* NAME.weight and NAME.bias (rows), or .gamma and .beta as in TensorFlow */
    ES_PART_SCALE,  /* NAME.weight (rows): a norm without a shift, or with one as `biased` says */
    ES_PART_SCALES, /* NAME.weight (rows, cols): such a norm for each of `rows` heads. With a second
                       '*' in its name, which is the head: as many tensors (cols) */
    ES_PART_VALUES, /* NAME (rows): numbers, one for each of `rows` heads */
    ES_PART_EXPERTS, /* a MATRIX for each expert, whose number is the second '*' of the name */
    ES_PART_FUSED /* NAME (experts, rows, cols), and NAME_bias (experts, rows) where it is biased:
                     the same in one tensor. config.experts_packed: NAME_blocks and NAME_scales */
} es_part_kind;

/* Everything but the body is there or not, in checkpoints of one architecture. */
typedef enum es_part_role {
    ES_ROLE_BODY,
    ES_ROLE_POOLER,
    ES_ROLE_DENSE, /* takes the place of the pooler where there is a classifier of blocks */
    ES_ROLE_CLASSIFIER,
    ES_ROLE_PREDICTOR, /* of the next token; not looked for where embeddings are tied */
    ES_ROLES
} es_part_role;

/* How the rows of a matrix lie in the file. */
typedef enum es_part_order {
    ES_ROWS_PLAIN,
    ES_ROWS_TRANSPOSED, /* (cols, rows): y = x W + b, as in GPT-2 */
    ES_ROWS_BY_HEAD     /* query, key and value of head 0, then of head 1, ...; in memory all
                           queries come first, then all keys */
} es_part_order;

/* Layers that have a part. */
typedef enum es_part_layers {
    ES_LAYERS_ALL,
    ES_LAYERS_DENSE,  /* those without experts */
    ES_LAYERS_EXPERTS /* those with experts */
} es_part_layers;

/* One linear map or table. Neighbours in the description that share a place are stacked there, rows
 * below rows: one product does for all of them. */
typedef struct es_arch_part {
    const char *name; /* NULL ends a table; '*' is the number of a layer */
    es_part_kind kind;
    size_t at;         /* ES_IN_LAYER(member) if there is a '*', else ES_IN_MODEL(member) */
    size_t rows, cols; /* ES_CONFIG(member) */
    es_part_role role;
    bool outside;  /* of the prefix that the other names may have */
    size_t biased; /* MATRIX, SCALE: ES_CONFIG(member) of a bool; 0: never */
    es_part_order order;
    size_t when;   /* ES_CONFIG(member) of a bool without which there is no such part; 0: always */
    size_t unless; /* of one with which there is none; 0: none */
    int64_t first; /* layers before it have no such part */
    es_part_layers in;   /* layers that have it */
    const char *instead; /* another name that the part may have in the file; NULL: none */
} es_arch_part;

/*! es_part_is_vector() : returns whether its tensors have one dimension. */
static inline bool es_part_is_vector(const es_arch_part *part)
{
    return part->kind == ES_PART_NORM || part->kind == ES_PART_SCALE ||
           part->kind == ES_PART_VALUES;
}

/*! es_part_is_norm() : returns whether it is part of a norm. */
static inline bool es_part_is_norm(const es_arch_part *part)
{
    return part->kind == ES_PART_NORM || part->kind == ES_PART_SCALE ||
           part->kind == ES_PART_SCALES;
}

/*! es_part_is_expert() : returns whether each expert of a layer has such a part. */
static inline bool es_part_is_expert(const es_arch_part *part)
{
    return part->kind == ES_PART_EXPERTS || part->kind == ES_PART_FUSED;
}

#define ES_SHAPE(r, c) .rows = ES_CONFIG(r), .cols = ES_CONFIG(c)
#define ES_WIDTH(r)    .rows = ES_CONFIG(r)

/* ---- how they are put together ---- */

typedef enum es_norm_kind {
    ES_NORM_LAYER, /* mean off, over deviation */
    ES_NORM_RMS,   /* over the root of the mean square */
    ES_NORMS
} es_norm_kind;

typedef enum es_order_kind {
    ES_ORDER_POST,  /* x = norm(x + f(x)): the norm comes after the sum */
    ES_ORDER_PRE,   /* x = x + f(norm(x)): before what it is for */
    ES_ORDER_BOTH,  /* x = x + norm'(f(norm(x))) */
    ES_ORDER_AFTER, /* x = x + norm'(f(x)) */
    ES_ORDERS
} es_order_kind;

/* How queries and keys are normed, where config.head_norms is set. */
typedef enum es_head_norm {
    ES_HEAD_NORM_SHARED, /* each head by itself, all with the same scale (head_dim) */
    ES_HEAD_NORM_WIDE,   /* all heads of a token together, scale (heads head_dim) */
    ES_HEAD_NORM_OWN,    /* each head by itself, with its own scale (heads, head_dim) */
    ES_HEAD_NORMS
} es_head_norm;

/* The function of the rows of gate and W1. */
typedef enum es_gate_kind {
    ES_GATE_HALVES,  /* f(gate) up; all of the gate's come first */
    ES_GATE_CLIPPED, /* (up' + 1) gate' sigmoid(1.702 gate'), gate' = min(gate, 7), up' = up clipped
                        to [-7, 7]; gate and up in turn */
    ES_GATES
} es_gate_kind;

/* Positions that are added are a table, ES_IN_MODEL(position); those that turn are config.rotary
 * and config.rotary_local; a model has those of its description. Which keys a query sees follows
 * from config.causal and the kind of the layer. */

/* A function of single numbers, in place. gelu's table is prepared once per forward pass. */
typedef struct es_gelu_table es_gelu_table;
typedef void (*es_activate)(const es_gelu_table *table, void *x, int64_t count);
typedef struct es_activation {
    const char *names; /* in config.json, with '|' between them */
    es_activate f32, f64;
} es_activation;

/*! es_activation_find() : the one of this name; NULL if there is none. */
const es_activation *es_activation_find(const char *name);

typedef struct es_arch {
    /* which checkpoints it is for */
    const char *model_type; /* of config.json */
    const char *classes; /* what names in "architectures" begin with, if model_type is not there */
    const char *title;   /* for people */

    /* config.json */
    const es_config_field *fields;
    es_model_config defaults;               /* what no field states */
    es_layers_stated layers;                /* likewise */
    void (*derive)(es_config_draft *draft); /* what follows from what is stated; NULL: nothing */
    bool query_beta; /* config.json may state rotary.query_beta; in others it is refused */

    /* weights */
    const char *prefix; /* that names of tensors may begin with, all of them or none */
    const es_arch_part *parts;
    const char *classifier; /* the class of checkpoint whose classifier part is meant for blocks */

    /* forward pass */
    es_norm_kind norm;
    es_head_norm head_norm; /* of queries and keys; its kind is `norm` */
    es_order_kind order;
    bool gated;                  /* f(gate) up between `up` and `down`, instead of f(up) */
    es_gate_kind gate;           /* how, if it is gated */
    const es_activation *pooled; /* after the pooler */
    const es_activation *dense;  /* after what takes its place; NULL: config.activation */

    const char *tokenizer; /* the kind that comes with it, for people */
} es_arch;

/*! es_arch_find() : by its model_type, or, where config.json has none (""), by the beginning of the
 *  class it names. NULL if there is none. */
const es_arch *es_arch_find(const char *model_type, const char *architecture);

/*! es_arch_unknown() : fails, naming the architectures that there are; `file` is for messages.
 *  @return : ES_E_UNSUPPORTED (config.model). */
es_status es_arch_unknown(const char *file, const es_model_config *c, es_error *err);

/*! es_config_parse() : as es_model_config_load(), from text; `file` is for messages. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err);

/*! es_word_among() : returns whether `word` is one of the words of `list`, separated by '|'. */
bool es_word_among(const char *word, const char *list);

/*! es_config_begin() : a draft that has what the description says where no key does. */
void es_config_begin(const es_arch *arch, es_config_draft *draft);

/*! es_config_complete() : fill in what a configuration leaves to rules (widths of heads, rotary
 *  positions, kinds of layers), and check that it fits together; `file` is for messages.
 *  @return : ES_OK; ES_E_FORMAT: config.heads, config.rotary; ES_E_UNSUPPORTED: config.rotary,
 *  config.window. */
es_status es_config_complete(const es_arch *arch, const char *file, es_config_draft *draft,
                             es_error *err);

/* ---- walking the parts ---- */

static inline int64_t es_config_size(const es_model_config *config, size_t member)
{
    return *(const int64_t *)((const char *)config + member);
}

bool es_part_in_layer(const es_arch_part *part);

/*! es_part_exists() : returns whether a model of this configuration has the part. */
bool es_part_exists(const es_model_config *config, const es_arch_part *part);

/* Parts that share a place: the first of them, how many, and the shape they have together. */
typedef struct es_part_stack {
    const es_arch_part *part;
    int count;
    int64_t rows, cols; /* cols is 1 for a vector; rows are those of all experts */
} es_part_stack;

/*! es_part_stack_next() : the stack after `stack` (begin with {0}) that is a body's part in this
 *  layer; -1: in none. @return : false if there is none. */
bool es_part_stack_next(const es_arch *arch, const es_model_config *config, int64_t layer,
                        es_part_stack *stack);

#endif
