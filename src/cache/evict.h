/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h : which keys a key-value cache drops for good.
 *
 * Two modes (THEORY 19):
 *
 *     prompt   a prompt of P tokens is read with full attention; then each key-value head keeps
 *              `keys` of its P keys, once and for all. Later keys are appended.
 *     decode   a key-value head holds at most `keys` keys between two tokens. After each token one
 *              key goes, and never returns.
 *
 * An *eviction policy* is one file, evict_NAME.c, that ends with its row; evict_table.c lists the
 * rows once. In prompt mode a policy gives every key a score, and keeps some first and last keys
 * whatever they score; in decode mode it names the number by which the key that goes is found.
 *
 *     evict.c         policies as text, "snapkv:window=16:sinks=4"; their options and defaults
 *     evict_table.c   the registry
 *     keep.c          kept sets from scores
 *     votes.c         weights that queries gave to the keys of a prompt
 *     decode.c        attention over a cache that drops a key after each token
 */
#ifndef ES_CACHE_EVICT_H
#define ES_CACHE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/view.h>

typedef enum es_evict_mode {
    ES_EVICT_NOTHING = 0,
    ES_EVICT_PROMPT = 1,
    ES_EVICT_DECODE = 2
} es_evict_mode;

typedef struct es_eviction es_eviction; /* a policy */

enum { ES_EVICT_UNSET = -1 };

/* A policy with its options. ES_EVICT_UNSET: as published. */
typedef struct es_evict_spec {
    const es_eviction *policy; /* NULL: every key is kept */
    int64_t keys;              /* to keep */
    int64_t sinks;             /* first keys that are always kept */
    int64_t recent;            /* last keys that are always kept: h2o, expected */
    int64_t protect;           /* the same: tova */
    int64_t window;            /* last queries that vote, and last keys that are kept: snapkv */
    int64_t kernel;            /* keys that are pooled: snapkv */
    int64_t pooling;           /* 0: mean, 1: maximum */
    int64_t scope;             /* tova; 0: one set for all heads of a layer, 1: one for each unit */
    int64_t future;            /* positions over which queries are expected */
    int64_t covariance;        /* expected: 1 if the spread of queries counts */
    int64_t vnorm;             /* expected: 1 if scores are multiplied by the norm of the value */
    int64_t seed;              /* random */
    double eps;                /* expected: added to the mean weight */
    double alpha;              /* Ada-KV: heads of a layer share their keys, and each has at least
                                  this share of its own; UNSET: they do not share */
    double beta;               /* PyramidKV: the last layer keeps keys/beta; UNSET: all layers keep
                                  the same number */
} es_evict_spec;

/*! es_eviction_at() : the policies in a fixed order; NULL beyond the last. es_eviction_find() : by
 *  name, or by another name in use; NULL: there is none. */
const es_eviction *es_eviction_at(int64_t at);
const es_eviction *es_eviction_find(const char *name);

/*! es_eviction_name() : its name. es_eviction_decodes() : returns whether it has a decode mode.
 *  es_eviction_plain() : whether it uses queries before rotary positions. es_eviction_full() :
 *  whether it needs scores from a pass of the full model over what follows the prompt. */
const char *es_eviction_name(const es_eviction *policy);
bool es_eviction_decodes(const es_eviction *policy);
bool es_eviction_plain(const es_eviction *policy);
bool es_eviction_full(const es_eviction *policy);

/*! es_evict_init() : everything unset, `keys` 0.
 *  es_evict_parse() : "NAME" or "NAME:option=value:option=value"; keys is not set.
 *  @return : ES_OK; ES_E_ARGUMENT (evict.policy: no such policy; evict.option: one that it does not
 *  have, or a value that is none). */
void es_evict_init(es_evict_spec *spec, const es_eviction *policy);
es_status es_evict_parse(const char *text, es_evict_spec *out, es_error *err);

/*! es_evict_write() : the same text, with every option that is set; cut to `size` bytes. */
void es_evict_write(const es_evict_spec *spec, char *out, size_t size);

/*! es_evict_resolve() : the spec with every option set as it is in `mode`. es_evict_check() : fails
 *  unless it can run. @return : ES_OK; ES_E_RANGE (evict.keys) for less than one key; ES_E_ARGUMENT
 *  (evict.mode) for a policy without a decode mode there. */
es_evict_spec es_evict_resolve(const es_evict_spec *spec, es_evict_mode mode);
es_status es_evict_check(const es_evict_spec *spec, es_evict_mode mode, es_error *err);

/*! es_evict_missing() : returns the name of the first option of the policy that is unset; NULL:
 *  every option is set. Alpha and beta may stay unset. */
const char *es_evict_missing(const es_evict_spec *spec);

/*! es_evict_one_set() : returns whether all units of a layer hold the same places. The spec is
 * resolved. */
bool es_evict_one_set(const es_evict_spec *spec);

/*! es_evict_together() : returns whether units of a layer with this policy choose their keys
 *  together in `mode`, so that all must have the same policy. The spec is resolved. */
bool es_evict_together(const es_evict_spec *spec, es_evict_mode mode);

/*! es_evict_same() : returns whether both keep the same keys, given the same scores. */
bool es_evict_same(const es_evict_spec *a, const es_evict_spec *b);

/*! es_pyramid_keys() : keys of `layer` of `layers` as PyramidKV shares them: from 2 keys - low in
 *  the first to low = keys/beta in the last, with at least `window` in each. */
int64_t es_pyramid_keys(int64_t keys, double beta, int64_t window, int64_t prompt, int64_t layer,
                        int64_t layers);

/* ---- prompt mode ---- */

/* A query head and the keys that it reads. */
typedef struct es_evict_head {
    es_view q;       /* (n, d) after rotary positions */
    es_view plain_q; /* (n, d) before; only where es_eviction_plain() */
    es_view k;       /* (n, d) as the cache holds them */
    double sink;     /* logit of a learned sink; -inf: none */
} es_evict_head;

/* One unit, a key-value head of a layer, when its prompt has been read. */
typedef struct es_evict_prompt {
    int64_t prompt; /* P */
    int64_t layer, unit;
    const es_evict_head *heads; /* (all) of the layer */
    int64_t first, count, all;  /* heads of the unit are heads[first .. first + count) */
    es_view k, v;               /* (n, d) of the unit as the cache holds them */
    double scale, cap;          /* of scores; cap 0: none */
    int64_t window;             /* of the layer; 0: none */
    const double *given;        /* (P) scores of a policy that looks at the full model */
    /* Multiplies rows (count, d) by the mean over places first .. first + places - 1 of the rotary
     * matrix; NULL: no rotary positions. */
    es_status (*turn)(const void *context, int64_t first, int64_t places, int64_t count,
                      double *rows, es_error *err);
    const void *context;
    es_mem_limit *budget;
} es_evict_prompt;

/*! es_evict_score() : score (P) of every key of the unit; NaN of a policy without scores. The spec
 *  is resolved. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_evict_score(const es_evict_spec *spec, const es_evict_prompt *p, double *score,
                         es_error *err);

/*! es_evict_chooses() : returns false if as many keys as are kept stay whatever they score, so that
 *  scores decide nothing; true for policies without scores. */
bool es_evict_chooses(const es_evict_spec *spec);

/*! es_evict_keep() : kept (P) gets 1 for each key that stays: the first and last ones that always
 *  do, and those of largest score; of equal scores the lower place.
 *  es_evict_share() : the same for all `units` units of a layer together, as Ada-KV: score and kept
 *  (units, P), units * keys keys in all. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_evict_keep(const es_evict_spec *spec, int64_t prompt, const double *score,
                        uint8_t *kept, es_mem_limit *budget, es_error *err);
es_status es_evict_share(const es_evict_spec *spec, int64_t units, int64_t prompt,
                         const double *score, uint8_t *kept, es_mem_limit *budget, es_error *err);

/*! es_votes_add() : sums (prompt) get the weights that queries from .. to - 1 of a head gave to the
 *  keys of the prompt. Between es_blas_enter() and es_blas_leave(). @return : ES_OK; ES_E_LIMIT,
 *  ES_E_MEMORY. */
es_status es_votes_add(const es_evict_prompt *p, const es_evict_head *head, int64_t from,
                       int64_t to, double *sums, es_error *err);

/*! es_votes_late() : oracle (P): mean over late queries and heads of the unit of the weight that
 *  each key of the prompt gets, in a pass where all keys are seen. */
es_status es_votes_late(const es_evict_prompt *p, double *score, es_error *err);

/* ---- decode mode ---- */

/* Units of a layer that hold the same places: one, or all of a layer for tova. */
typedef struct es_decode {
    const es_evict_spec *spec;  /* resolved */
    const es_evict_head *heads; /* (count) of all of the units */
    int64_t count, units;       /* count / units heads read each unit */
    const es_view *k, *v;       /* (units) each (n, d) */
    double scale, cap;
    int64_t window; /* of the layer; 0: none */
    char *out;      /* outputs: row i, head h at out + i * out_stride + h * d numbers, bytes */
    int64_t out_stride;
    double *entropy, *top_weight, *sum_squares, *ess; /* (count) means over queries; NULL: not
                                                         wanted */
    int32_t *last;                                    /* (n) the last query that finds key j */
    int32_t *gone; /* the key that goes after the last token, -1: none; NULL: not wanted */
    es_mem_limit *budget;
} es_decode;

/*! es_decode_run() : attention of n queries, one after the other, over what the cache holds
 *  (golden/cache B). O(n keys d) time, O(units keys d) memory. Heads are rows of q with `d`
 *  channels side by side. Between es_blas_enter() and es_blas_leave(). @return : ES_OK; ES_E_LIMIT,
 *  ES_E_MEMORY. */
es_status es_decode_run(const es_decode *decode, es_error *err);

#endif
