/* SPDX-License-Identifier: Apache-2.0 */
/* forward_inside.h : what the parts of the forward pass share.
 *
 * A block runs layer by layer, and in a layer three phases follow each other:
 *
 *   project   strip by strip of ES_STRIP rows: norm, queries, keys and values, rotary positions
 *   attend    head by head: the attention engine over the whole block, or what a policy keeps
 *   transform strip by strip: what heads found, and the two products around the activation
 *
 * so that nothing of size n x n, nor n times the widest layer, ever exists: a block has its hidden
 * state, its queries, keys and values, and the outputs of its heads; the rest is a strip's. How a
 * block is cut into strips depends on its length alone, and so the bits do not depend on which
 * thread runs a strip. */
#ifndef ES_MODEL_FORWARD_INSIDE_H
#define ES_MODEL_FORWARD_INSIDE_H

#include "cache/evict.h"
#include "model/layer_slot.h"
#include "model/model_inside.h"
#include "model/sparse_head.h"

enum {
    ES_STRIP = 512,             /* rows */
    ES_STREAMED_TOKENS = 2048,  /* of blocks that go through a decoded layer together */
    ES_LOGITS_AT_ONCE = 1 << 24 /* numbers, for which a decoded panel is used */
};

/* Memory of one thread for the experts of a strip. */
typedef struct es_expert_scratch {
    char *logits;    /* (ES_STRIP, experts) of the router */
    char *share;     /* (ES_STRIP, experts_used) of the experts that a token uses */
    char *factor;    /* (ES_STRIP) share of each token of one expert */
    char *gathered;  /* (ES_STRIP, H) rows of those tokens */
    char *found;     /* (ES_STRIP, H) what the expert makes of them */
    int32_t *chosen; /* (ES_STRIP, experts_used) experts that a token uses */
    int32_t *which;  /* (ES_STRIP) tokens of one expert */
} es_expert_scratch;

/* Memory of one thread for a strip. */
typedef struct es_strip_scratch {
    char *normed; /* (ES_STRIP, H) */
    char *middle; /* (ES_STRIP, I), or twice that for gates; I of whichever layer is widest */
    char *branch; /* (ES_STRIP, H) what is added to the state, if that is normed or scaled first */
    es_expert_scratch experts; /* if the model has any */
    char *logits; /* (rows of logits at a time, vocab), if the next token is predicted */
} es_strip_scratch;

/* The rotary positions of a layer, for policies that expect queries. */
typedef struct es_cache_turn {
    const es_rotary *rotary; /* NULL: the layer does not turn */
    int64_t head_dim;
    es_mem_limit *budget;
} es_cache_turn;

/* Memory of a block for its cache (forward_cache.c). */
typedef struct es_cache_scratch {
    es_mem_limit *budget;
    int64_t longest;      /* tokens that every array has place for */
    es_evict_head *heads; /* (heads) of the layer */
    int64_t *positions;   /* (n) of late queries */
    int64_t *listed;      /* (n) keys that late queries of a head may see */
    double *score;        /* (kv_heads, n) of keys of the prompt */
    int32_t *last;        /* (kv_heads, n) the last query that finds each key */
    uint8_t *kept;        /* (kv_heads, n) 1: of the prompt it is kept, or it is later */
    char *fine;           /* (n, 2 K) rows as new places find them; NULL: no unit differs by age */
    es_cache_turn turn;   /* of the layer */
} es_cache_scratch;

/* Memory of a block. */
typedef struct es_block_scratch {
    char *x;      /* (n, H) hidden state */
    char *qkv;    /* (n, Q + 2K) */
    char *plain;  /* (n, Q + K) before they turn, if wanted */
    char *heads;  /* (n, Q) outputs of all heads */
    char *pooled; /* (H) and then (labels) */
    double *head; /* (g, n, k) outputs of one head, or of a group whose heads may keep one set */
    double *lse, *entropy, *top_weight, *sum_squares; /* (g, n) */
    double *cosines[2], *sines[2]; /* (n, width/2) of rotary and of rotary_local */
    double *query_factor;          /* (n) of rotary.query_beta, if it is not 0 */
    /* of a model whose experts are streamed, what strips keep until all of them have run: */
    char *normed, *branch; /* (n, H) as in es_strip_scratch */
    char *share;           /* (n, experts_used) */
    int32_t *chosen;       /* (n, experts_used) */
    void *memory;
    es_sparse_scratch sparse;      /* of heads with a policy, if there are any */
    es_cache_scratch cache;        /* of blocks with a cache */
    const es_strip_scratch *strip; /* of each thread that may work on the block */
} es_block_scratch;

/* All blocks. */
typedef struct es_forward {
    const es_model *model;
    const es_model_block *blocks;
    const es_row_kernels *rows;
    es_activate activate, activate_pooled;
    es_gelu_table gelu;
    es_exec team;  /* all threads, memory, progress */
    es_exec inner; /* threads that share a block */
    es_exec outer; /* threads that have a block each, of those that run layer by layer */
    bool shared;   /* threads share a block, which then reports progress itself */
    int64_t count;
    es_block_scratch *scratch;
    es_strip_scratch *strips; /* (threads) */
    int64_t first, together;  /* the first block of those that run layer by layer, and how many */
    es_layer_slot *slot;      /* of a streamed model, the layer that is decoded; shared by blocks */
    char *logits;             /* of a streamed model (es_logits_together(), vocab) */
} es_forward;

/* A layer of a block while it runs. */
typedef struct es_layer_pass {
    const es_forward *f;
    es_block_scratch *scratch;
    const es_model_block *b;
    const es_layer *l;
    int64_t block, layer;
} es_layer_pass;

/*! es_pass_rotary() : returns the rotation of the pass' layer, the block's own where it has one;
 *  NULL: the layer does not turn. */
static inline const es_rotary *es_pass_rotary(const es_layer_pass *p)
{
    const es_layer_kind *kind = es_model_layer(&p->f->model->config, p->layer);
    if (kind->rotary >= 0 && p->b->rotary)
        return &p->b->rotary[kind->rotary];
    return es_model_rotary(&p->f->model->config, kind);
}

/*! es_pass_band() : a head's columns of rows that are `width` numbers long, without copying.
 *  es_pass_sink() : logit of a head's learned sink; -inf: it has none. */
es_view es_pass_band(const es_layer_pass *p, char *rows, int64_t column, int64_t width);
double es_pass_sink(const es_layer_pass *p, int64_t head);

/*! es_block_wants_logits() : returns whether the block asks for anything about the next token.
 *  es_block_check() : fails if the model cannot run block number `index`. @return : ES_OK;
 *  ES_E_EMPTY, ES_E_RANGE, ES_E_ARGUMENT, ES_E_UNSUPPORTED (forward.*). */
static inline bool es_block_wants_logits(const es_model_block *b)
{
    return b->nll || b->token_logits || (b->visit && b->visit->logits);
}

es_status es_block_check(const es_model *model, const es_model_block *block, int64_t index,
                         es_error *err);

/*! es_branches_apart() : returns whether what is added to the state is normed or scaled first, for
 *  which strips have a place of its own. */
bool es_branches_apart(const es_arch *arch, const es_model_config *config);

/*! es_logits_together() : returns for how many rows of n a streamed model has logits at a time. */
int64_t es_logits_together(int64_t vocab, int64_t n, int threads);

/*! es_forward_progress() : reports that the blocks which run layer by layer have done `layers`
 *  layers; `progress` may be NULL. @return : ES_OK; ES_E_INTERRUPTED. */
es_status es_forward_progress(const es_forward *f, es_progress_fn progress, double layers,
                              es_error *err);

/*! es_pass_norm() : norms rows x (n, H) into out, which may be x. @return : ES_OK; ES_E_NONFINITE
 *  (forward.overflow). */
es_status es_pass_norm(const es_layer_pass *pass, const es_linear *norm, int64_t n, const void *x,
                       void *out, es_error *err);

/*! es_strip_transform() : steps 4 to 6 of strip `unit` of an es_layer_pass.
 *  es_strip_route() : the same up to which experts its rows use. */
es_status es_strip_transform(void *pass, int64_t unit, int thread, es_error *err);
es_status es_strip_route(void *pass, int64_t unit, int thread, es_error *err);

/*! es_layer_run() : layer `layer` of block `block`, with its weights, from scratch->x to
 * scratch->x; up to what its experts do if es_streams_experts(). es_layer_experts() : what experts
 * do in that layer, for the blocks that run together: one expert after the other is decoded, and
 * used for all of them. */
es_status es_layer_run(const es_forward *f, es_block_scratch *scratch, int64_t block, int64_t layer,
                       const es_layer *weights, es_error *err);
es_status es_layer_experts(const es_forward *f, int64_t layer, const es_layer *weights,
                           es_error *err);

/*! es_streams_experts() : returns whether a layer has experts that are decoded one by one. */
static inline bool es_streams_experts(const es_model *m, int64_t layer)
{
    return m->config.weights == ES_WEIGHTS_STREAMED && es_model_layer(&m->config, layer)->experts;
}

/*! es_layers_end() : returns the first layer that a block does not run. */
static inline int64_t es_layers_end(const es_forward *f, const es_model_block *b)
{
    return b->states ? b->states - 1 : f->model->config.layers;
}

/*! es_block_classify() : pooled state and logits of a block, from its last state. */
void es_block_classify(const es_forward *f, const es_block_scratch *scratch,
                       const es_model_block *b);

/*! es_block_predict() : nll and logits of the next token, from the last state of block `block`. */
es_status es_block_predict(const es_forward *f, const es_block_scratch *scratch, int64_t block,
                           es_error *err);

/*! es_predict_rows() : how many rows of logits are made at a time: as many as make four million
 *  numbers, and a strip at most. */
int64_t es_predict_rows(int64_t vocab);

/*! es_linear_apply() : y (n, outputs) = residual + x w' + b; residual may be NULL, or y. Bias and
 *  residual are laid down first and the product is added to them: BLAS's own sum takes them in, and
 *  no pass over the result follows. */
void es_linear_apply(const es_forward *f, const es_linear *linear, const void *x,
                     const void *residual, int64_t n, int64_t inputs, int64_t outputs, void *y);

/*! es_experts_numbers() : returns how many numbers experts take for one row of a strip.
 *  es_experts_place() : points them into `memory`, for a strip of `rows` rows.
 *  es_experts_route() : chooses the experts of rows x (n, H), with their shares, and sets y (n, H)
 * to the residual, which may be NULL, or y; y is not x. es_experts_use() : returns whether one of n
 * rows uses an expert. es_experts_add() : adds to y what an expert of `layer` makes of the rows of
 * x that use it. */
int64_t es_experts_numbers(const es_model_config *config);
void es_experts_place(const es_model *model, int64_t rows, char *memory,
                      es_expert_scratch *scratch);
void es_experts_route(const es_forward *f, const es_layer *layer, const es_strip_scratch *strip,
                      int64_t n, const void *x, const void *residual, void *y);
bool es_experts_use(const es_forward *f, const es_strip_scratch *strip, int64_t expert, int64_t n);
void es_experts_add(const es_forward *f, const es_layer *layer, const es_strip_scratch *strip,
                    int64_t expert, int64_t n, const void *x, void *y);

/* Rows of a block that are a strip: where they begin and how many they are. */
typedef struct es_strip {
    int64_t first, n;
} es_strip;

static inline int64_t es_strips(int64_t n) { return (n + ES_STRIP - 1) / ES_STRIP; }

static inline es_strip es_strip_at(int64_t n, int64_t at)
{
    const int64_t first = at * ES_STRIP, left = n - first;
    return (es_strip){first, left < ES_STRIP ? left : ES_STRIP};
}

/* Row `first` of rows of `width` numbers. */
static inline char *es_row_at(const es_forward *f, char *rows, int64_t first, int64_t width)
{
    return rows + first * width * (int64_t)es_dtype_size(f->model->precision);
}

#endif
