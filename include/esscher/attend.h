/* SPDX-License-Identifier: Apache-2.0 */
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
 * of what keys, or blocks of consecutive keys, contribute (stats/error_bar.h makes bars of it);
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
 * Score cap. A score s = b q_i.k_j becomes c tanh(s / c), in nats, after the scale and before the
 * mask and its factors. It is computed from the exponential, with a relative error below 6 * 2^-24
 * (f32) or 6 * 2^-53 (f64). From |s| = 10 c (f32) or 20 c (f64) on it is c itself, and keys tie.
 *
 * Sink. A learned sink logit t stands in the denominator alone:
 *
 *     w_ij = exp(s_ij) / (exp(t) + sum_j' exp(s_ij')),         w_sink = exp(t - lse) .
 *
 * It is one more key with value 0 and no position: neither scaled, capped nor masked, and seen at
 * every prefix. The weights of the keys sum to 1 - w_sink. lse, entropy, sum_squares, top_weight
 * and top_mass are those of all outcomes, the sink among them; top_index is -1 where no key has a
 * larger weight than the sink. Spreads are sums over the keys alone: the sink is a constant, not a
 * sample. A query that sees no key has w_sink = 1 and output 0.
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
#include <esscher/mask.h>
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

/* What to compute. Zero-initialise; every zero means the default. */
typedef struct es_attend_opts {
    es_dtype precision;   /* ES_F32 (default) or ES_F64 */
    const double *scales; /* (n_scales) score scales b >= 0; NULL: one scale, 1/sqrt(d) */
    int64_t n_scales;
    double score_cap;   /* c: a score s becomes c tanh(s / c); 0: none. At several scales one after
                           the other */
    const double *sink; /* logit of the sink, nats: one number; NULL or -inf: no sink */
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
    double *lse;         /* (S, P, m)  ln sum_j exp(score), nats, with the sink's */
    double *entropy;     /* (S, P, m)  -sum w ln w = lse - E[score], nats */
    double *top_weight;  /* (S, P, m)  largest weight */
    int64_t *top_index;  /* (S, P, m)  a key that attains it: the first with the largest score; -1:
                            the sink */
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
 * (err->row is the first) and there is no sink; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED if
 * progress asked to stop. After a failure the contents of *out are undefined, but moments need no
 * freeing. */
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

#ifdef __cplusplus
}
#endif
#endif
