/* arch.h : an architecture is a description.
 *
 * What distinguishes one family of checkpoints from another is written down once, in the constant
 * of its own file (arch_bert.c), and registered once, in the table of arch.c. Everybody else reads
 * it: config.json is checked against its fields, weights are found by the names and shapes of its
 * parts, the forward pass looks up its functions by its kinds, pools hash the parts, and so nobody
 * asks which architecture it is.
 *
 * A kind (of norm, of positions, of attention, of order) is the index of a function in a table of
 * forward.c or layer_rows.c. A new one is an enumerator and that function; an architecture that is
 * made of known ones is its description and nothing else. A decoder will say: another norm,
 * positions, attention and order; parts without biases, a second matrix beside `up`; key and value
 * parts with fewer rows than the query's, for rows and columns are members of the configuration.
 */
#ifndef ES_MODEL_ARCH_H
#define ES_MODEL_ARCH_H

#include <stddef.h>

#include <esscher/model.h>

/* A number that config.json states, by its member: for fields, and for shapes of parts. */
#define ES_CONFIG(member) offsetof(es_model_config, member)

/* ---- what config.json has ---- */

typedef enum es_field_kind {
    ES_FIELD_WHOLE, /* an integer in [min, max]; may be written 512.0, as some tools do */
    ES_FIELD_REAL,  /* a number in [min, max] */
    ES_FIELD_WORD,  /* a string; null is as if it were not there */
    ES_FIELD_FLAG,  /* true or false */
    ES_FIELD_FIRST, /* the first string of an array */
    ES_FIELD_LABELS /* an object of names by their numbers: how many, and the names */
} es_field_kind;

/* A key and what becomes of its value: it goes into the configuration, or (WORD with `only`, FLAG)
 * it may have one value only, because any other would change the function that is computed. */
typedef struct es_field {
    const char *key; /* NULL ends a table */
    es_field_kind kind;
    bool required;
    size_t at; /* ES_CONFIG(member): int64_t, double or char[64] */
    double min, max;
    const char *only;        /* WORD: the value that is supported; of a FLAG it is false */
    const char *rule, *hint; /* of the refusal of another */
} es_field;

enum { ES_ARCH_FIELDS = 32 }; /* most fields of a description */

/* A size that must be there. */
#define ES_FIELD_SIZE(key, member, most)                                                           \
    {                                                                                              \
        key, ES_FIELD_WHOLE, true, ES_CONFIG(member), .min = 1, .max = most                        \
    }

/* ---- which tensors there are ---- */

typedef enum es_part_kind {
    ES_PART_TABLE,  /* NAME.weight (rows, cols) */
    ES_PART_LINEAR, /* NAME.weight (rows, cols) and NAME.bias (rows): y = W x + b */
    ES_PART_NORM    /* NAME.weight and NAME.bias (rows), or .gamma and .beta as in TensorFlow */
} es_part_kind;

/* Everything but the body is there or not, in checkpoints of one architecture. */
typedef enum es_part_role { ES_ROLE_BODY, ES_ROLE_POOLER, ES_ROLE_CLASSIFIER } es_part_role;

/* One linear map or table. Neighbours in the description that share a place are stacked there, rows
 * below rows: one product does for all of them. */
typedef struct es_arch_part {
    const char *name; /* NULL ends a table; '*' is the number of a layer */
    es_part_kind kind;
    size_t at;         /* ES_IN_LAYER(member) if there is a '*', else ES_IN_MODEL(member) */
    size_t rows, cols; /* ES_CONFIG(member) */
    es_part_role role;
    bool outside; /* of the prefix that the other names may have */
} es_arch_part;

#define ES_SHAPE(r, c) .rows = ES_CONFIG(r), .cols = ES_CONFIG(c)
#define ES_WIDTH(r)    .rows = ES_CONFIG(r)

/* ---- how they are put together ---- */

typedef enum es_norm_kind { ES_NORM_LAYER, ES_NORMS } es_norm_kind; /* mean off, over deviation */

typedef enum es_positions_kind {
    ES_POSITIONS_TABLE, /* a row for each place in a block, added to the word's */
    ES_POSITIONS
} es_positions_kind;

typedef enum es_attention_kind {
    ES_ATTENTION_ALL, /* every token of a block sees every other */
    ES_ATTENTIONS
} es_attention_kind;

typedef enum es_order_kind {
    ES_ORDER_POST, /* x = norm(x + f(x)): the norm comes after the sum */
    ES_ORDERS
} es_order_kind;

/* A function of single numbers, in place. gelu's table is prepared once per forward pass. */
typedef struct es_gelu_table es_gelu_table;
typedef void (*es_activate)(const es_gelu_table *table, void *x, int64_t count);
typedef struct es_activation {
    es_activate f32, f64;
} es_activation;

typedef struct es_arch {
    /* which checkpoints it is for */
    const char *model_type; /* of config.json */
    const char *classes; /* what names in "architectures" begin with, if model_type is not there */
    const char *title;   /* for people */
    const char *relatives; /* well-known checkpoints of this type, for people */

    /* config.json */
    const es_field *fields;
    es_model_config defaults; /* what no field states */

    /* weights */
    const char *prefix; /* that names of tensors may begin with, all of them or none */
    const es_arch_part *parts;
    const char *classifier; /* the class of checkpoint whose classifier part is meant for blocks */

    /* forward pass */
    es_norm_kind norm;
    es_positions_kind positions;
    es_attention_kind attention;
    es_order_kind order;
    const es_activation *activation; /* between `up` and `down` */
    const es_activation *pooled;     /* after the pooler */

    const char *tokenizer; /* the kind that comes with it, for people */
} es_arch;

/*! es_arch_find() : by its model_type, or, where config.json has none (""), by the beginning of the
 *  class it names. NULL if there is none. */
const es_arch *es_arch_find(const char *model_type, const char *architecture);

/*! es_config_parse() : as es_model_config_load(), from text; `file` is for messages. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err);

/* ---- walking the parts ---- */

static inline int64_t es_config_size(const es_model_config *config, size_t member)
{
    return *(const int64_t *)((const char *)config + member);
}

bool es_part_in_layer(const es_arch_part *part);

/* Parts that share a place: the first of them, how many, and the shape they have together. */
typedef struct es_stack {
    const es_arch_part *part;
    int count;
    int64_t rows, cols; /* cols is 1 for a norm */
} es_stack;

/*! es_stack_next() : the stack after `stack` (begin with {0}) that is a body's part in a layer, or
 *  not in one. @return : false if there is none. */
bool es_stack_next(const es_arch *arch, const es_model_config *config, bool in_layer,
                   es_stack *stack);

#endif
