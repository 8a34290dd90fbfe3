/* SPDX-License-Identifier: Apache-2.0 */
/* plan_reading.h : a plan file while it is read.
 *
 *     plan_fields.c       objects, by tables of fields
 *     plan_read.c         what all plans share: schema, model, layers, totals
 *     head_plan_read.c    plans of ideal mode, head by head
 *     cache_plan_read.c   plans of caches, key-value head by key-value head */
#ifndef ES_MODEL_PLAN_READING_H
#define ES_MODEL_PLAN_READING_H

#include <stddef.h>

#include "base/error.h"
#include "checkpoint/json.h"
#include "model/plan.h"

enum { ES_PLAN_WORD = 64, ES_PLAN_NO_WINDOW = -1 };
extern const char es_plan_hint[];

typedef struct es_plan_reading es_plan_reading;

/* What a value is, and where it goes. */
typedef enum es_plan_kind {
    ES_PLAN_WHOLE, /* int64_t */
    ES_PLAN_COUNT, /* double, a whole number */
    ES_PLAN_REAL,  /* double */
    ES_PLAN_RISK,  /* double; null is NaN */
    ES_PLAN_CHARS, /* char[max]; with a rule longer texts are refused, otherwise cut */
    ES_PLAN_TRUTH, /* bool */
    ES_PLAN_OBJECT /* whatever `take` makes of it */
} es_plan_kind;

/* A key of an object. */
typedef struct es_plan_field {
    const char *key;
    es_plan_kind kind;
    size_t at; /* in the struct that is filled */
    double min, max;
    const char *rule; /* of a number out of range; NULL: plan.range */
    bool optional;
    es_status (*take)(es_plan_reading *r);
} es_plan_field;

/* A file being read. Heads, or key-value heads, are gathered as they come, at most as many as the
 * file has bytes for. */
struct es_plan_reading {
    es_json j;
    int version;
    es_plan *plan;
    int64_t count, capacity; /* heads so far */
    int64_t *at, *group;     /* (count) where they stand, which group they state */
    int64_t scratch_at, scratch_group;
    int64_t layers, in_layer; /* layers so far; heads of the present one, -1: outside of a layer */
    int64_t layer, window;    /* the numbers it states; window -1: it states none */
    int64_t scratch_windows;
};

/*! es_plan_fail() : fails with a byte of the file; -1: with none. */
es_status es_plan_fail(es_plan_reading *r, int64_t at, const char *rule, const char *hint,
                       const char *fmt, ...) ES_PRINTF(5, 6);

/*! es_plan_where() : writes "layer 3, head 2: ", or as much of it as is known; returns out. */
const char *es_plan_where(const es_plan_reading *r, char out[ES_PLAN_WORD]);

/*! es_plan_object() : reads one object by its table, which ends with {0}. Keys that the table does
 *  not have, or that are there twice, are refused. */
es_status es_plan_object(es_plan_reading *r, const es_plan_field *fields, void *into);

/*! es_plan_place() : makes space to note where head `count` stands in the file, and its group. */
es_status es_plan_place(es_plan_reading *r, size_t at, int64_t group);

/*! es_plan_layers() : reads a list of layers, each by `fields`, which fill `r` itself. All layers
 *  have as many heads as the first. es_plan_heads() : reads a list of heads of a layer, each by
 *  `take`. es_plan_check_counts() : fails unless every layer and head is listed. */
es_status es_plan_layers(es_plan_reading *r, const es_plan_field *fields);
es_status es_plan_heads(es_plan_reading *r, es_status (*take)(es_plan_reading *r));
es_status es_plan_check_counts(es_plan_reading *r);

/*! es_plan_check_total() : fails unless a total that the file states is the sum over heads. */
es_status es_plan_check_total(es_plan_reading *r, const char *key, double stated, double counted);

/*! es_plan_take_model() : reads what the plan states about the model. */
es_status es_plan_take_model(es_plan_reading *r);

/*! es_plan_read_ideal(), es_plan_read_cache() : read a plan of versions 1 and 2, or 3, and check
 *  everything that does not need the model. es_plan_skip() : skips a value that was read before. */
es_status es_plan_read_ideal(es_plan_reading *r);
es_status es_plan_read_cache(es_plan_reading *r);
es_status es_plan_skip(es_plan_reading *r);

#endif
