/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_head.h : heads of one block whose queries keep some of their keys (policy.h). Heads that
 * share keys and values, and ask for the same, share what they keep, as their cache would. */
#ifndef ES_MODEL_SPARSE_HEAD_H
#define ES_MODEL_SPARSE_HEAD_H

#include <esscher/attend.h>
#include <esscher/model.h>
#include <esscher/policy.h>

/* One head of those that keep the same keys. */
typedef struct es_sharing_head {
    es_view q;         /* (n, dk) */
    double sink;       /* logit of its sink (attend.h), which is never dropped; -inf: none */
    es_attend_out out; /* where its results go */
} es_sharing_head;

/* Memory of one thread, sized for the longest block. */
typedef struct es_sparse_scratch {
    es_mem_limit *budget;
    es_sharing_head *heads; /* (size) filled in by the caller */
    int64_t size;           /* heads that share keys and values, at most */
    int64_t longest;        /* tokens */
    double *q;              /* (size, n, dk) of the heads in f64, times the score scale */
    double *k, *v;          /* (n, dk) theirs in common */
    double *scores;         /* (size, chunk, n) of some queries */
    double *weights;        /* (n) of one query: of all keys, then of those it keeps */
    double *joint;          /* (n) ln of the heads' mean weight of one query */
    double *history;        /* (n) weight that keys have had from the queries before */
    double *observed;       /* (n) from the last `span` of them */
    double *recent;         /* (span + 1, n) their weights and sums of them; NULL: not used */
    int64_t span;
    double divisor; /* scores are q.k / divisor; set by the caller */
    double cap;     /* of scores, es_cap_scores(); likewise */
    double *reach;  /* (n) |v_j - y|, y the output over all keys; or what heads have in common */
    double *each;   /* (n) of one head among several */
    double *mean;   /* (dk) that y */
    int64_t *keys;  /* (n) different keys that are kept */
    es_choice choice;
    es_kept kept;
    double *memory;
} es_sparse_scratch;

/*! es_sparse_scratch_new() : for blocks of up to n tokens and up to `size` heads of dimension dk
 * that share keys. *scratch may be freed whatever is returned. O(size n dk) memory, and O(n span)
 * while the past is looked at: es_model_sparse_bytes(). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY.
 */
es_status es_sparse_scratch_new(int64_t n, int64_t dk, int64_t size, es_mem_limit *budget,
                                es_sparse_scratch *scratch, es_error *err);
void es_sparse_scratch_free(es_sparse_scratch *scratch);

/* What a query may see before any policy: every key of the block; or, causal, its own and those
 * before it, the last `window` of them where that is not 0. Not causal, `window` keys to each side
 * where that is not 0. */
typedef struct es_past {
    bool causal;
    int64_t window;
} es_past;

/*! es_past_of() : what queries of a layer see. */
static inline es_past es_past_of(const es_model_config *config, int64_t layer)
{
    return (es_past){config->causal, es_model_layer(config, layer)->window};
}

/*! es_past_begin(), es_past_end() : the keys that query i of n sees are begin .. end - 1. */
static inline int64_t es_past_begin(es_past past, int64_t i)
{
    const int64_t before = past.causal ? past.window - 1 : past.window; /* keys before its own */
    return past.window && i > before ? i - before : 0;
}
static inline int64_t es_past_end(es_past past, int64_t i, int64_t n)
{
    if (past.causal)
        return i + 1;
    return past.window && i + past.window + 1 < n ? i + past.window + 1 : n;
}

/*! es_past_most() : most keys that a query of n sees; in a causal model the last one, whose keys a
 *  cache has to hold. */
static inline int64_t es_past_most(es_past past, int64_t n)
{
    const int64_t i = past.causal ? n - 1 : n / 2;
    return es_past_end(past, i, n) - es_past_begin(past, i);
}

/*! es_past_keys() : how many keys a query of n sees, mean over queries. */
static inline double es_past_keys(es_past past, int64_t n)
{
    const double all = (double)n, w = past.window ? (double)past.window : all;
    if (!past.causal) /* the keys to one side, its own included, twice, but its own once */
        return w >= all ? all : 2.0 * (w + 1.0 - (w + 1.0) * w / (2.0 * all)) - 1.0;
    return w >= all ? (all + 1.0) / 2.0 : w - w * (w - 1.0) / (2.0 * all);
}

/* Statistics of a head that keeps some keys. */
typedef struct es_sparse_found {
    double kept;   /* keys of a query, as often as they are drawn; mean over queries */
    int64_t empty; /* queries for which chance kept no key */
} es_sparse_found;

/*! es_sparse_attend() : every query of scratch->heads[0 .. count) over the keys k, v (n rows each)
 * that `spec` keeps of those it may see, chance at cells first->cell + query. What is kept for a
 *  position is one set for all of the heads, chosen by what they look at in common (model.h).
 *  Results as es_attend() with the scale 1/scratch->divisor and the cap, of the weights that were
 * used: output, entropy, top_weight and sum_squares alone. Between es_blas_enter() and
 * es_blas_leave(). @return : ES_OK; ES_E_NONFINITE; as es_policy_choose() and es_choice_draw(). */
es_status es_sparse_attend(es_sparse_scratch *scratch, int64_t count, const es_policy_spec *spec,
                           es_past past, const es_address *first, const es_view *k,
                           const es_view *v, es_sparse_found *found, es_error *err);

#endif
