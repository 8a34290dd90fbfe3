/* SPDX-License-Identifier: Apache-2.0 */
/* depth.h : what an error of attention does on its way through the layers (THEORY 15).
 *
 * Two stacks of layers:
 *
 *   - a real model in which a policy (policy.h) keeps some of each query's keys, in one layer or in
 *     all: how far hidden states are from the full model's after every layer, how much a layer
 *     makes of an error that it is given (its gain), and what it adds of its own. If both are
 *     small and independent, e_{l+1}^2 = g_l^2 e_l^2 + s_l^2.
 *   - a synthetic one, x <- x + V Gamma_n(x), whose n tokens start as a Gaussian sample, without
 *     and with a norm; its limit of infinitely many tokens is known in closed form without, and by
 *     large samples with it.
 *
 *     es_depth_spec spec = {.model = m, .policy = &policy, .layer = -1, .seed = 7};
 *     es_depth_state states[7];                                     L + 1 of MiniLM
 *     es_depth_block(&spec, ids, 512, 0, NULL, states, &err);
 *
 * All functions are thread-safe.
 */
#ifndef ES_EXPERIMENTS_DEPTH_DEPTH_H
#define ES_EXPERIMENTS_DEPTH_DEPTH_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/model.h>
#include <esscher/policy.h>
#include <esscher/tokenizer.h>

#include "driver/job.h"
#include "experiments/kit/cache_params.h"
#include "experiments/kit/policy_params.h"
#include "model/pool.h"

/* ---- a model ---- */

/* Which policy is applied to which layers, and how gains are measured. */
typedef struct es_depth_spec {
    const es_model *model;
    const es_policy_spec *policy;  /* of every head of a sparse layer */
    const es_cache_setting *cache; /* instead: its cache, in a decoder; NULL: none */
    int64_t from;                  /* the first token that counts; 0: es_late_begin() */
    int64_t layer;                 /* the sparse layer; -1: all of them */
    int64_t directions;            /* of noise, for gains; 0: 4 */
    double size;                   /* of the noise, in spreads of the state; 0: 0.01 */
    uint64_t seed;
} es_depth_spec;

/* One hidden state of one block, means over its tokens: of a causal model over its second half, i
 * >= n/2, where a query sees more than half of the context, or after the prompt of a cache. x is
 * the full model's state, x^S that of the sparse one. Fields about a layer belong to the state that
 * the layer makes; state 0, the embedding, has 0 there. */
typedef struct es_depth_state {
    double spread2; /* |x - mean of x|^2 */
    double error2;  /* |x^S - x|^2 */
    double own2;    /* the same if the layer is sparse and is given the full model's state, chance
                       decided anew; 0 if it is not sparse */
    /* |F(x + d) - F(x)|^2 / |d|^2 of the layer F as it is, x its input; NaN where the error of that
     * is 0 */
    double gain2;  /* d: noise, for each token another, with the second moments of x^S - x over the
                      tokens, of the given size; mean over directions. Tokens that no cache can
                      change, those of a prompt, get none */
    double along2; /* d: x^S - x itself, made that small */
    double far2;   /* d: x^S - x as it is */
    double fresh2; /* |F^S(x^S) - F(x^S)|^2: what the sparse layer adds where it really stands. With
                      d' = F(x^S) - F(x): error2 = |d'|^2 + fresh2 + twice their mean product */
    double kept;   /* keys of a query, mean over the layer's heads and all n queries */
    double empty;  /* queries that kept none, of all heads and n queries */
} es_depth_state;

/*! es_depth_block() : block number `block` of ids (n): out (L + 1). Chance is a function of seed
 *  and block. As much as 2 sparse forward passes and directions + 3 full ones. Threads of exec
 *  share the model's layers and little else: give them blocks, unless es_model_shares_block().
 *  @return : ES_OK; as es_model_forward(); ES_E_RANGE (depth.layer, depth.directions). */
es_status es_depth_block(const es_depth_spec *spec, const int32_t *ids, int64_t n, int64_t block,
                         const es_exec *exec, es_depth_state *out, es_error *err);

/*! es_depth_flops() : operations of it. es_depth_bytes() : its memory on `threads` threads,
 *  model, ids and cache (es_cache_bytes()) not counted; span as es_model_sparse_bytes() has it. */
double es_depth_flops(const es_model *model, int64_t n, int64_t directions);
double es_depth_bytes(const es_model *model, int64_t n, int64_t span, int threads);

/* ---- a synthetic stack ---- */

/* What a layer of a synthetic stack does after attention. */
typedef enum es_stack_norm {
    ES_STACK_NONE = 0, /* x + V Gamma(x) */
    ES_STACK_LAYER = 1 /* N(x + V Gamma(x)), N(x) = (x - mean)/sd over the dimensions of x, as BERT
                          has it after each sum, without scale and shift; tokens start as N(z) */
} es_stack_norm;

/* Tokens start as z ~ N(0, I_dim); Gamma is attention over the n tokens of the layer, each query
 * among them, with scores <A x, y>. A layer has its own A and V. */
typedef struct es_stack {
    int64_t dim, depth;
    const double *A, *V; /* (depth, dim, dim) */
    es_stack_norm norm;
    es_dtype precision; /* of the attention kernels; 0: ES_F64 */
    uint64_t seed;
} es_stack;

/* What infinitely many tokens do. Without a norm tokens stay Gaussian: x_l = M_l x_0, and S_{l+1} =
 * (I + V S_l A) S_l (I + V S_l A)'. With one, `samples` independent sets of tokens stand for them,
 * each of which is a limit with an error. */
typedef struct es_stack_limit es_stack_limit;

/*! es_stack_limit_new() : samples and tokens are those of the sets; 0, 0: the closed form, without
 *  a norm alone. samples >= 2. O(samples tokens^2 dim depth) time, O(samples tokens dim depth)
 *  memory. Release with es_stack_limit_free(). @return : ES_OK; ES_E_ARGUMENT (stack.limit);
 *  ES_E_SHAPE; as es_attend(). */
es_status es_stack_limit_new(const es_stack *stack, int64_t samples, int64_t tokens,
                             const es_exec *exec, es_stack_limit **out, es_error *err);
void es_stack_limit_free(es_stack_limit *limit);

/*! es_stack_limit_cov() : S_l (dim, dim), 0 <= l <= depth, of the limit's tokens, as it knows it.
 */
const double *es_stack_limit_cov(const es_stack_limit *limit, int64_t layer);

/* The tokens before layer l, or after the last. NaN from the layer on whose scores are beyond what
 * floating point holds. */
typedef struct es_stack_state {
    double error2;       /* |x - x of the limit|^2, mean over ES_STACK_QUERIES tokens or all. Of
                            samples: the mean of <x - x_a, x - x_b> over pairs of them, to which
                            their own errors, being independent, add nothing on average */
    double limit_error2; /* |x_a - x of the limit|^2 as the samples show it; 0 of a closed form */
    double spread2;      /* |x - mean|^2 of all tokens */
    double horizon;      /* |C^{1/2} A C^{1/2}|, C the tokens' covariance, A of layer l (of the last
                            one after it) */
    double agreement;    /* <C, S> / <S, S>: 1 if C is S on average */
    double cov_error;    /* |C - S| / |S|, Frobenius */
} es_stack_state;

enum { ES_STACK_QUERIES = 256 };

/*! es_stack_measure() : one replicate with n tokens: out (depth + 1). The tokens of a replicate are
 *  the same for every n, as far as they go. O(n^2 dim depth). @return : ES_OK; as es_attend(). */
es_status es_stack_measure(const es_stack *stack, const es_stack_limit *limit, int64_t n,
                           int64_t replicate, const es_exec *exec, es_stack_state *out,
                           es_error *err);

/*! es_stack_horizon() : |S^{1/2} A S^{1/2}| for cov and A (dim, dim). */
es_status es_stack_horizon(const double *cov, const double *A, int64_t dim, es_mem_limit *budget,
                           double *out, es_error *err);

/* ---- the study ---- */

/* the two questions of the study `depth`: a model's layers (model.c) and a synthetic
 * stack's (synthetic.c). */

/* The options of both questions. */
typedef struct depth_params {
    /* a model */
    const char *model;
    es_texts texts;
    int64_t length, blocks;
    int invalid; /* as es_text_invalid */
    es_policy_params policy;
    es_cache_params cache;
    int64_t layer, directions;
    /* a stack */
    bool synthetic, fresh;
    int64_t dim, depth, replicates, reference;
    es_grid n, horizon;
    double value;
    int norm, head;
} depth_params;

/* One synthetic stack: a norm and a horizon before the first layer. */
typedef struct depth_stack {
    es_stack stack;
    double asked;  /* horizon */
    double *A, *V; /* (depth, dim, dim) */
    es_stack_limit *limit;
    double *horizon; /* (depth + 1) of the limit */
} depth_stack;

/* What a run asks, chosen once in open(). */
typedef struct depth_question {
    es_status (*open)(es_job *job, es_error *err); /* the rest of open(), with its stage */
    es_status (*cost)(es_job *job, es_cost *out, es_error *err);
    es_status (*begin)(es_job *job, es_error *err); /* NULL: nothing to make */
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
} depth_question;

extern const depth_question depth_model, depth_synthetic;

/* What is done to a model. */
typedef struct depth_setting {
    es_policy_spec policy;
    const es_cache_setting *cache; /* instead of the policy; NULL: none */
} depth_setting;

/* What the options make, for a model or for stacks. */
typedef struct depth_state {
    const depth_question *question;
    /* a model */
    es_model *model;
    es_tokenizer *tokenizer;
    es_blocks text;
    int64_t *chosen; /* (blocks) numbers of the blocks that are read */
    int64_t blocks;
    depth_setting *settings; /* (count) */
    int64_t count;
    int64_t from; /* the first token that counts; 0: es_late_begin() */
    /* stacks */
    depth_stack *stacks;
    int64_t n_stacks;
} depth_state;

/* ---- settings.c ---- */

/*! depth_check_settings() : fails for options of policies and caches that do not fit together or do
 *  not fit the model. depth_make_settings() : makes all settings for blocks of n tokens. @return :
 *  as es_cache_params_check(), es_cache_settings_make(), es_policies_make(). */
es_status depth_check_settings(const es_job *job, es_error *err);
es_status depth_make_settings(es_job *job, int64_t n, es_error *err);

/*! depth_say() : "h2o, 128 keys, q4_0", for findings. Returns out. */
const char *depth_say(const depth_setting *setting, char out[ES_CACHE_SIZE]);

#endif
