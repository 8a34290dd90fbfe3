/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h : which keys a query keeps.
 *
 * Sparse attention keeps some of the keys that a query may see and attends over those alone. A
 * *policy* is the rule: a window around the query, the largest weights, some keys at random, or a
 * mixture. Whatever the rule, for one query it comes down to a *choice* (THEORY 13):
 *
 *     F  keys that are always kept,
 *     R  keys of which some are kept by chance: m draws with or without replacement, or each on
 *        its own with probability p_j; a key kept by chance has its weight multiplied by c_j, i.e.
 *        log c_j added to its score (c = 1: as published; c = 1/P(kept): corrected).
 *
 * A choice can be asked for its exact risk (policy_risk.h), and drawn from (es_choice_draw()).
 *
 *     es_policy_spec spec;
 *     es_policy_spec_init(&spec, es_policy_find("bigbird"));
 *     spec.window = 10;
 *     spec.random = 8;
 *     es_policy_query query = {.n = n, .position = 201};
 *     es_choice choice = {0};
 *     es_policy_choose(&spec, &query, NULL, &choice, &err);
 *     es_choice_free(&choice);
 *
 * Policies are rows of a table, one file each (src/policy/policy_NAME.c); no other code lists them.
 * Everything here is thread-safe and deterministic: random numbers are functions of an address.
 */
#ifndef ESSCHER_POLICY_H
#define ESSCHER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/random.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is ---- */

/* What a policy looks at beside positions. */
enum {
    ES_POLICY_SCORES = 1,   /* the query's own scores: it cannot be run without all of the keys */
    ES_POLICY_REACH = 2,    /* how far values are from the output: for the limit alone */
    ES_POLICY_HISTORY = 4,  /* the weight that keys have had from earlier queries */
    ES_POLICY_OBSERVED = 8, /* the weight that the last few queries gave them */
    ES_POLICY_CHANCE = 16,  /* some keys are kept by chance */
    ES_POLICY_FUTURE = 32,  /* takes keys after the query: for models that are not causal */
    ES_POLICY_MEASURED = 64 /* keeps no set of keys at all: measured only (linformer) */
};

/* Parts of a spec that a policy may have beside `keys`. */
enum {
    ES_PART_WINDOW = 1,
    ES_PART_SINKS = 2,
    ES_PART_RANDOM = 4,
    ES_PART_SPAN = 8,
    ES_PART_CORRECTION = 16,  /* can correct, or not */
    ES_PART_REPLACEMENT = 32, /* may draw with replacement */
    ES_PART_POOL = 64         /* judges a key by its neighbours, too */
};

typedef struct es_policy es_policy;

/*! es_policy_at() : the policies in a fixed order; NULL beyond the last. es_policy_find() : by name
 *  ("full", "random", "retention", "window", "stream", "bigbird", "longformer", "top",
 *  "top-random", "heavy", "observe", "strided", "local", "linformer", "limit") or by its name in
 *  the literature ("h2o", "snapkv", "streamingllm"); NULL if there is none. */
ES_API const es_policy *es_policy_at(int64_t at);
ES_API const es_policy *es_policy_find(const char *name);

/*! es_policy_name() : its name. es_policy_inputs() : ES_POLICY_ flags. es_policy_parts() : ES_PART_
 *  flags. NULL is full. */
ES_API const char *es_policy_name(const es_policy *policy);
ES_API unsigned es_policy_inputs(const es_policy *policy);
ES_API unsigned es_policy_parts(const es_policy *policy);

/* ---- what is asked of one ---- */

typedef enum es_correction {
    ES_CORRECTION_OWN = 0,    /* as the policy is published */
    ES_CORRECTION_NONE = 1,   /* c = 1 */
    ES_CORRECTION_INVERSE = 2 /* c = |R|/m, or 1/p_j */
} es_correction;

enum { ES_POLICY_UNSET = -1 };
enum { ES_POLICY_SPAN = 32 }; /* queries of an observation window whose spec.span is unset */
#define ES_POLICY_MOST ((int64_t)1 << 40) /* keys, of a query and of a part */
enum { ES_POLICY_MOST_DRAWS = 1000000 };  /* with replacement: keys may be fewer */
enum { ES_POLICY_MOST_POOL = 64 };        /* neighbours on either side */

/* Parts are numbers of keys. One that is ES_POLICY_UNSET is made from `keys`, the number to keep in
 * all, after the parts that were given have been taken off; where `keys` is unset, too, the policy
 * has its own default (policy_NAME.c says which). With keys given and every part unset, about
 * `keys` keys are kept: a window is the last ones of a causal query, and half of its number on each
 * side, and the query's own, of another, which may be one more (es_policy_spec_fit()). keys >= n
 * keeps everything, whatever else is said, but for draws with replacement: n of them leave out a
 * third of the keys. */
typedef struct es_policy_spec {
    const es_policy *policy; /* NULL: full */
    int64_t keys;
    int64_t window; /* |i - j| <= window; causal: the last `window` keys, its own included */
    int64_t sinks;  /* the first keys; "global" tokens of BigBird and Longformer */
    int64_t random; /* draws, or expected number of keys retained */
    int64_t span;   /* keys of a block (local), between two keys (strided), queries observed */
    int64_t pool;   /* neighbours on either side whose weight counts for a key (observe) */
    es_correction correction;
    bool with_replacement;
} es_policy_spec;

/*! es_policy_spec_init() : everything unset. es_policy_spec_check() : checks it for a causal model
 *  or for another.
 *  @return : ES_OK; ES_E_ARGUMENT (policy.null; policy.part: a part that this policy does not
 *  have); ES_E_RANGE (policy.keys: no key, a negative number, more than 2^40, or nothing that says
 *  how many); ES_E_UNSUPPORTED (policy.causal: a policy that takes keys after the query in a causal
 *  model). */
ES_API void es_policy_spec_init(es_policy_spec *spec, const es_policy *policy);
ES_API es_status es_policy_spec_check(const es_policy_spec *spec, bool causal, es_error *err);

/* ---- one query's choice ---- */

typedef struct es_policy_query {
    int64_t n;        /* keys that it may see, 0 .. n-1; causal: position + 1 */
    int64_t position; /* its own among them; -1: it has none, and windows keep nothing */
    bool causal;
    const double *scores;   /* (n) ln w up to a constant; NULL unless asked for by needs */
    const double *reach;    /* (n) |u_j| = |v_j - y| */
    const double *history;  /* (n) weight that key j has had from queries before this one */
    const double *observed; /* (n) weight that it had from the last `span` (32) of them */
} es_policy_query;

typedef enum es_chance {
    ES_CHANCE_NONE = 0,
    ES_CHANCE_WITH = 1,    /* `draws` draws from R with replacement */
    ES_CHANCE_WITHOUT = 2, /* `draws` different keys of R, every set of them alike */
    ES_CHANCE_EACH = 3     /* each key of R on its own */
} es_chance;

typedef struct es_choice {
    es_mem_limit *budget;
    int64_t n;
    int64_t sure_count, rest_count;
    int64_t *sure; /* (sure_count) keys of F, increasing */
    int64_t *rest; /* (rest_count) keys of R, increasing, none of F; empty without chance */
    es_chance chance;
    int64_t draws;    /* of WITH and WITHOUT */
    double factor;    /* c of theirs */
    double *kept;     /* (rest_count) of EACH: p_j in (0, 1] */
    double *factors;  /* (rest_count) of EACH: c_j */
    int64_t capacity; /* keys that the arrays have space for */
} es_choice;

/*! es_policy_choose() : what the spec's policy does for this query. *choice starts zeroed, or is an
 *  earlier one, whose memory is used again. Where scores are the same the smaller key comes first.
 *  Nothing may be kept at all: a window of a query without a position. O(n log n) at most.
 *  @return : ES_OK; as es_policy_spec_check(); ES_E_RANGE (policy.query) for a position that is not
 *  among the keys, or a causal one that is not the last; ES_E_ARGUMENT (policy.needs) for input
 *  that the policy needs and has not, ES_E_NONFINITE (policy.needs) for NaN in it; ES_E_UNSUPPORTED
 *  (policy.measured) for one that keeps no set; ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_policy_choose(const es_policy_spec *spec, const es_policy_query *query,
                                  es_mem_limit *budget, es_choice *choice, es_error *err);
ES_API void es_choice_free(es_choice *choice);

/*! es_choice_keys() : number of keys kept, expected where chance decides (draws with replacement
 *  count as often as they are drawn). */
ES_API double es_choice_keys(const es_choice *choice);

/* One outcome of a choice: keys increasing (repeated where drawn twice), and log c of each. */
typedef struct es_kept {
    es_mem_limit *budget;
    int64_t count, capacity;
    int64_t *keys;
    double *log_factor;
} es_kept;

/*! es_choice_draw() : chance decides. `at` is the address of this query's numbers: seed,
 *  experiment, cell; token and lane are used from 0 on, whatever they are. *kept as *choice above,
 *  on the choice's budget. Draws without replacement are the first of a permutation of R, so those
 *  of fewer draws are among those of more; of EACH key j has a number of its own, so one that is
 *  kept stays so where its probability is larger. An outcome may be empty (EACH with nothing sure).
 *  O(|F| + m log m) for m draws, O(|F| + |R|) for EACH.
 *  @return : ES_OK; ES_E_ARGUMENT (policy.null); ES_E_RANGE for the address; ES_E_LIMIT,
 *  ES_E_MEMORY. */
ES_API es_status es_choice_draw(const es_choice *choice, const es_address *at, es_kept *kept,
                                es_error *err);
ES_API void es_kept_free(es_kept *kept);

#ifdef __cplusplus
}
#endif
#endif
