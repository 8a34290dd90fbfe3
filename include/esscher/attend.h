/* attend.h : exact softmax attention and its statistics, streamed.
 *
 * For queries q_i (m, d), keys k_j (n, d), values v_j (n, dv) and a score scale b, attention
 * weights are
 *
 *     w_ij = exp(b q_i.k_j) / sum_j' exp(b q_i.k_j'),           output_i = sum_j w_ij v_j .
 *
 * es_attend() computes, in one pass over the keys and without ever holding an (m, n) matrix,
 *   - per query: the output, log-sum-exp, entropy, the largest weight and its index, sum of squared
 * weights, mass of the k largest weights;
 *   - per query: how far its output may be from that of infinitely many such keys, from the spread
 * of what keys, or blocks of consecutive keys, contribute (esscher/error_bar.h makes bars of it);
 *   - over queries: mean and covariance of the outputs;
 *   - all of it for every prefix n_1 < ... < n_P of the keys and for several score scales at once;
 *   - all of it under a mask: a query may see only some of the keys, and keys that no query sees
 * cost nothing.
 *
 * Simple use:
 *
 *     es_view q = es_view_f32(Q, m, d), k = es_view_f32(K, n, d), v = es_view_f32(V, n, dv);
 *     es_attend_out out = {.output = Y, .entropy = H};               // (m, dv) and (m) doubles
 *     es_status st = es_attend(&q, &k, &v, NULL, &out, &err);       // scale 1/sqrt(d), f32 kernels
 *
 * Accuracy. ES_F32 kernels sum in f32 within a few hundred keys and in f64 beyond. What remains is
 * the rounding of the f32 score itself, so that errors grow with the scores. ES_ATTEND_F32_ERROR
 * and the two that follow bound the relative error of an output (L2, over many queries); tests hold
 * the kernels to them, against es_attend_reference().
 *
 * Determinism. Results have the same bits for any number of threads. Different instruction sets
 * agree within the accuracy above, not bit for bit.
 *
 * Memory. O(tile + m dv) beyond input and output, see es_attend_plan().
 */
#ifndef ESSCHER_ATTEND_H
#define ESSCHER_ATTEND_H

#include <esscher/exec.h>
#include <esscher/moments.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The relative error of an output is below these: of f32 kernels while scores stay within 10 nats,
 * of f32 kernels while they stay within 130 nats, and of f64 kernels. */
#define ES_ATTEND_F32_ERROR     1e-6
#define ES_ATTEND_F32_ERROR_130 5e-6
#define ES_ATTEND_F64_ERROR     1e-12

enum { ES_ATTEND_BLOCK = 1024 }; /* keys per block, at most: sums of a block are the kernel's */

/* Which keys a query may see, and what is added to their scores. Zero-initialise: all, and nothing.
 *
 * Query i stands at the place p of a key. With j <= p where `causal` is set, it sees
 *   - every key, if neither window, sinks, local nor lists are given;
 *   - else each key that one of them lets it see. What several let it see it sees once.
 *
 * Keys that no query of a block sees are neither read nor multiplied: time is that of the pairs
 * that are seen, rounded up to what some 48 neighbouring queries see together. For the same reason
 * a list is that of consecutive queries, best of a hundred or more: lists of single queries are
 * correct, but cost what the union of 48 of them costs. Where blocks of keys are asked for
 * (opts.block) listed keys are not gathered: every tile with one of them is multiplied.
 *
 * Factors are logarithms, in nats, added to a score after the scale: exp(factor) multiplies the
 * weight. Every statistic is then that of the corrected weights w_ij ~ exp(b q_i.k_j + factor):
 * lse, entropy, the largest weight and its key, which may be another one at another scale. Several
 * scales with factors are computed one after the other. */
typedef struct es_mask {
    const int64_t *positions; /* (m) p of each query, 0 <= p < n, in any order; NULL: query i stands
                                 at key i, with m <= n, and m = n where causal is set */
    bool causal;              /* no key behind p */
    int64_t window;           /* 0: none. |j - p| <= window; causal: the last `window` keys, its own
                                 included, p - window < j <= p */
    int64_t sinks;            /* 0: none. Keys j < sinks */
    int64_t local;            /* 0: none. Keys of its own block, j / local = p / local */
    int64_t list_queries;     /* 0: no lists. Queries i of one list: i / list_queries */
    const int64_t *list_offsets; /* (lists + 1) list b is list_keys[list_offsets[b]], ... , to
                                    before list_offsets[b + 1]; lists = ceil(m / list_queries) */
    const int64_t *list_keys;    /* increasing in each list; may be none */
    const double *list_factors;  /* (lists) added to the scores of keys that a query sees by its
                                    list alone: ln(|R| / r) makes r keys drawn from |R| stand for
                                    all of them; NULL: 0 */
    int64_t n_classes;           /* 0: no classes of keys. At most 256 */
    const uint8_t *classes;      /* (n) class of each key */
    const double *class_factors; /* (n_classes) added to the scores of its keys */
} es_mask;

/* What to compute. Zero-initialise; every zero means the default. */
typedef struct es_attend_opts {
    es_dtype precision;   /* ES_F32 (default) or ES_F64 */
    const double *scales; /* (n_scales) score scales b >= 0; NULL: one scale, 1/sqrt(d) */
    int64_t n_scales;
    const int64_t
        *prefixes; /* (n_prefixes) strictly increasing, 1 <= n_p <= n; NULL: one prefix, n */
    int64_t n_prefixes;
    bool self; /* the queries are the tokens: m = n, and at prefix n_p only queries i < n_p exist */
    bool exclude_self;    /* query i does not see key i; with mask->positions, key positions[i] */
    const es_mask *mask;  /* which keys it sees otherwise; NULL: all */
    const int64_t *top_k; /* (n_top_k) sizes k >= 1 for out->top_mass; NULL: none */
    int64_t n_top_k;
    bool spread;         /* out->spread2 is wanted: about one more product with the values */
    int64_t block;       /* keys per block for out->block_spread2: a power of two up to
                            ES_ATTEND_BLOCK; 0: not wanted. Block b is keys bB..bB+B-1, whatever
                            else cuts the keys; a prefix may end inside one. Prefixes that are no
                            multiples of B keep the keys from being cut among threads */
    const es_exec *exec; /* threads, memory, progress; NULL: defaults */
} es_attend_opts;

/* Where to put it. S scales, P prefixes, m queries; arrays are contiguous, scale-major. A NULL
 * pointer means "not wanted". In self mode entries of queries that do not exist at a prefix are NaN
 * (index -1). */
typedef struct es_attend_out {
    double *output;      /* (S, P, m, dv) */
    double *lse;         /* (S, P, m)  ln sum_j exp(score), nats */
    double *entropy;     /* (S, P, m)  -sum w ln w = lse - E[score], nats */
    double *top_weight;  /* (S, P, m)  largest weight */
    int64_t *top_index;  /* (S, P, m)  a key that attains it: the first with the largest score */
    double *sum_squares; /* (S, P, m)  sum w^2 = 1 / effective number of keys */
    double *top_mass;    /* (S, P, m, n_top_k)  mass of the k largest weights */
    /* Of key j: w_j. Of a block b of keys: Z_b = sum w_j, N_b = sum w_j v_j. THEORY 9 (E2) */
    double *spread2;       /* (S, P, m)  sum_j w_j^2 |v_j - output|^2; needs opts.spread */
    double *block_spread2; /* (S, P, m, dv)  sum_b (N_b - Z_b output)^2, by channel; the same */
    double *block_powers;  /* (S, P, m, 3)  sums over b of Z_b^2, Z_b^3, Z_b^4; needs opts.block */
    es_moments *moments;   /* (S, P)  of the outputs over the queries; initialised by the callee,
                              freed by the caller */
} es_attend_out;

/*! es_attend() : attention of every query against every key, with statistics, in one pass.
 *  q (m, d), k (n, d), v (n, dv), 1 <= d, dv <= 4096, 1 <= m, n <= 2^40; any strides, f32 or f64.
 * Only read. O(m n (d + S dv)) time. Thread-safe: calls share nothing.
 *  @return : ES_OK;
 *            ES_E_ARGUMENT or ES_E_SHAPE for options or shapes that make no sense (rules mask.*
 * for masks);
 *            ES_E_NONFINITE if an input holds NaN or Inf (err->row, err->col say where);
 *            ES_E_RANGE if scores or outputs could overflow the kernel's precision (ask for
 * ES_F64) or a factor is beyond 10^6; ES_E_EMPTY if some query would see no key at a prefix
 * (err->row is the first); ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED if progress asked to stop.
 * After a failure the contents of *out are undefined, but moments need no freeing. */
ES_API es_status es_attend(const es_view *q, const es_view *k, const es_view *v,
                           const es_attend_opts *opts, const es_attend_out *out, es_error *err);

/*! es_attend_reference() : the same answer, written to be read: f64, two passes per query, prefix
 * and scale, no blocking. O(m n P (d + S dv)) time, O(n) memory. What the fast kernels are tested
 * against. */
ES_API es_status es_attend_reference(const es_view *q, const es_view *k, const es_view *v,
                                     const es_attend_opts *opts, const es_attend_out *out,
                                     es_error *err);

/* What es_attend() will do for a problem, and what that costs. */
typedef struct es_attend_plan {
    es_isa isa;     /* kernels that will run */
    int threads;    /* threads that will have work */
    int64_t block;  /* queries per block */
    int64_t blocks; /* blocks of queries */
    int64_t tile;   /* keys per tile */
    int64_t cuts;   /* pieces the keys are cut into, not counting cuts at prefixes; 1 unless queries
                       are few */
    int64_t segments; /* pieces with those */
    int64_t chunks;   /* groups of blocks whose moments are summed together */
    bool few; /* queries so few that keys are read as they lie, once, at the speed of memory; not
                 with self, exclude_self, spread, block or a mask */
    double flops; /* floating-point operations, counting 2 per multiply-add of the two products, for
                     the pairs of query and key that are seen */
    size_t bytes; /* upper bound on memory allocated at one time, inputs and outputs not counted */
} es_attend_plan;

/*! es_attend_plan_for() : the plan for (m, d) queries against (n, d) keys with (n, dv) values.
 * Depends on the shapes and options only; `wants_moments` says whether out->moments will be asked
 * for.
 *  @return : as es_attend() for shapes and options. */
ES_API es_status es_attend_plan_for(int64_t m, int64_t n, int64_t d, int64_t dv,
                                    const es_attend_opts *opts, bool wants_moments,
                                    es_attend_plan *plan, es_error *err);

/* ---- partial states: attention over some of the keys, to be merged ---- */

/* What m queries know about the keys they have met so far. Merging the states of disjoint sets of
 * keys gives the state of their union: exactly, up to the rounding of one addition, because offsets
 * are powers of two. */
typedef struct es_partial es_partial;

/*! es_partial_new() : m queries that have met no key. Uses scales, top_k, precision and exec of
 * opts; prefixes, self, exclude_self, spread and block must be unset. scales must be given. A mask
 * may be causal and have a window, sinks and local blocks, but neither lists nor classes; its
 * places (which must be given unless it has only sinks) and numbers of keys count from the first of
 * all keys, and the state keeps a copy. Release with es_partial_free(). */
ES_API es_status es_partial_new(int64_t m, int64_t dv, const es_attend_opts *opts, es_partial **out,
                                es_error *err);
ES_API void es_partial_free(es_partial *p);

/*! es_partial_attend() : the queries meet keys k with values v. `first_key` is the index of k's
 * first row among all keys, for top_index and the mask. Errors as es_attend(), but a query may see
 * none of these keys. */
ES_API es_status es_partial_attend(es_partial *p, const es_view *q, const es_view *k,
                                   const es_view *v, int64_t first_key, es_error *err);

/*! es_partial_merge() : what `from` has met is added to `into`. Same shapes and options, else
 * ES_E_SHAPE. For equal largest scores the index of `into` wins, so merge in key order. */
ES_API es_status es_partial_merge(es_partial *into, const es_partial *from, es_error *err);

/*! es_partial_finish() : results of the keys met so far, as es_attend() gives them with P = 1. The
 * state can go on.
 *  @return : ES_OK; ES_E_EMPTY if some query has met no key. */
ES_API es_status es_partial_finish(const es_partial *p, const es_attend_out *out, es_error *err);

/*! es_partial_numbers() : how many numbers a state is, when it is to travel or to be kept;
 *  arguments as for es_partial_new(). es_partial_save() : the state into out (so many numbers).
 *  es_partial_load() : p, made with the same shapes and options, becomes the state that was saved,
 *  bit for bit; what it knew before is forgotten. @return : ES_OK; ES_E_FORMAT (partial.numbers)
 * for numbers that are no state. */
ES_API int64_t es_partial_numbers(int64_t m, int64_t dv, const es_attend_opts *opts);
ES_API void es_partial_save(const es_partial *p, double *out);
ES_API es_status es_partial_load(es_partial *p, const double *numbers, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
