/* SPDX-License-Identifier: Apache-2.0 */
/* model.h : a checkpoint on disk, and what it makes of token ids.
 *
 * A model is a folder with config.json and model.safetensors (or its shards), as model hubs hand
 * them out, or the name of one in the hub's cache. Its model_type must be one of those that are
 * known. *Encoders*, "bert" first of all: BERT and what is exactly BERT, MiniLM, gte, bge, e5 and
 * classifiers made from them. With hidden width H, h heads of dimension k = H/h:
 *
 *     x = LayerNorm(word[id] + position[i] + type[0])                    hidden state 0
 *     for each layer:  a = x + Wo [heads of softmax(q k' / sqrt(k)) v] + bo,   a = LayerNorm(a)
 *                      x = LayerNorm(a + W2 gelu(W1 a + b1) + b2)        hidden state 1 .. L
 *     pooled = tanh(Wp x_0 + bp),   logits = Wc pooled + bc
 *
 * with the exact gelu, x (1 + erf(x / sqrt 2)) / 2; other types may lack token types, or have
 * another function in place of tanh. *Decoders* ("llama" and its relatives, "gemma3_text", "gpt2";
 * docs/MODELS.md lists all): a token sees itself and those before it, norms come before what they
 * are for, heads may share keys and values in groups, and queries and keys turn with their place:
 *
 *     x = word[id]  (+ position[i])                                      hidden state 0
 *     for each layer:  x = x + Wo [causal heads of norm(x)] + bo
 *                      x = x + W2 (f(Wg y) (W1 y)) + b2,  y = norm(x)    hidden state 1 .. L
 *     logits of the next token = Wl norm(x),   nll_i = -ln softmax(logits_i)[id_{i+1}]
 *
 * Families differ in where norms stand, in factors and caps, which are values of es_model_config,
 * and in kinds of layers: a window, or another rotation, in some of them (es_layer_kind).
 *
 * A block of n ids runs at its own length: there is no padding, so nothing has to be masked.
 *
 *     es_model *m;
 *     es_error err;
 *     int32_t ids[] = {101, 4937, 102};                                  [CLS] cat [SEP]
 *     es_model_open("sentence-transformers/all-MiniLM-L6-v2", NULL, &m, &err);
 *     float hidden[7 * 3 * 384];                                         (L + 1, n, H)
 *     es_model_block block = {.ids = ids, .n = 3, .hidden = hidden};
 *     es_model_forward(m, &block, 1, NULL, &err);
 *     es_model_close(m);
 *
 * Accuracy. The f32 model's hidden states are within 2e-5 of the f64 model's for MiniLM, tested
 * against an independent f64 program.
 *
 * Determinism. A block's results have the same bits whatever blocks it is run with and on any
 * number of threads. They depend on the CPU, whose kernels BLAS chooses.
 */
#ifndef ESSCHER_MODEL_H
#define ESSCHER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/attend.h>
#include <esscher/exec.h>
#include <esscher/policy.h>
#include <esscher/random.h>
#include <esscher/status.h>
#include <esscher/tokenizer.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what kind of model it is ---- */

enum { ES_MODEL_LABELS = 16 }; /* whose names are kept; a classifier may have more */

enum {
    ES_MODEL_LAYERS = 1024, /* most layers of a model */
    ES_MODEL_KINDS = 8,     /* most kinds of layers */
    ES_ROTARY_FACTORS = 128 /* most frequencies that longrope may state factors for */
};

/* Rotary positions: channels c and c + width/2 of queries and keys are turned, as points of a
 * plane, by the angle place * f_c, f_c = theta^(-2c/width), changed as `type` says (THEORY 16.2).
 */
typedef struct es_rotary {
    int64_t width;     /* channels of a head that turn; 0: the model has no rotary positions */
    double share;      /* width over head_dim, as config.json states it */
    double theta;      /* rope_theta */
    char type[64];     /* "default", "linear", "dynamic", "yarn", "llama3" or "longrope" */
    double factor;     /* by how much positions are stretched */
    double original;   /* positions of the model before that */
    double low, high;  /* llama3: wavelengths, as parts of `original` */
    double fast, slow; /* yarn: turns within `original` */
    double attention, mscale, mscale_all; /* yarn, longrope: factor of queries and of keys; 0: by
                                             rule */
    bool rounded;                         /* yarn: channels between fast and slow are whole */
    bool pairs;        /* channels 2c and 2c + 1 turn together, instead of c and c + width/2 */
    double query_beta; /* queries at place i are multiplied by 1 + query_beta ln(1 + floor(i /
                          original)), after they turn; 0: they are not */
    int64_t short_count, long_count;        /* longrope: factors that are stated; width/2 each */
    double short_factor[ES_ROTARY_FACTORS], /* f_c is divided by these in blocks of up to */
        long_factor[ES_ROTARY_FACTORS];     /* `original` tokens, and by these in longer ones */
} es_rotary;

/* What the layers of one kind have in common. */
typedef struct es_layer_kind {
    int64_t window; /* 0: a query sees all keys. Causal: the last `window`, its own included;
                       otherwise key j if |i - j| <= window */
    int rotary;     /* 0: config.rotary; 1: config.rotary_local; -1: queries and keys do not turn */
    bool experts;   /* what follows attention are experts: es_model_config.experts */
} es_layer_kind;

/* How weights are held. Resident: all of them in memory, 4 or 8 bytes each. Streamed: norms, biases
 * and tables of positions are in memory; matrices, word embeddings and the language head stay in
 * the file, and a forward pass decodes one layer at a time, of its experts one. Results have the
 * same bits. */
typedef enum es_weights_mode {
    ES_WEIGHTS_AUTO, /* streamed if resident weights would take more than 1 GiB */
    ES_WEIGHTS_RESIDENT,
    ES_WEIGHTS_STREAMED
} es_weights_mode;

typedef struct es_model_config {
    int64_t hidden;         /* H */
    int64_t layers;         /* L */
    int64_t heads;          /* h, of queries */
    int64_t kv_heads;       /* of keys and values, a divisor of h: query head i has those of head
                               i / (h / kv_heads). Encoders: h */
    int64_t head_dim;       /* k; h k need not be H */
    int64_t query_width;    /* h k */
    int64_t kv_width;       /* kv_heads k */
    int64_t qkv_width;      /* query_width + 2 kv_width */
    int64_t intermediate;   /* rows of W1 */
    int64_t vocab;          /* rows of the word embeddings: ids are 0 .. vocab - 1 */
    int64_t positions;      /* longest block */
    int64_t position_rows;  /* of the table of positions, where there is one */
    int64_t first_position; /* the row of it that the first token has. Above 0, tokens whose id is
                               first_position - 1 are padding: all have that row, and positions of
                               the others do not count them */
    int64_t types;          /* token types; the first is the one used. 0: the model has none */
    int64_t labels;         /* of id2label; 0 if config.json names none. After es_model_open():
                               outputs of the classifier, 0 without one */
    int64_t up_width;       /* rows of W1 and of the gate together */
    int64_t experts;        /* E, of layers that have them; 0: no layer has */
    int64_t experts_used;   /* by a token: those with the largest logits r = Wr y + br; equal ones:
                               the lowest numbers. A token's result is the sum of theirs, each times
                               its share of softmax(r) */
    int64_t expert_width;   /* rows of an expert's W1 */
    int64_t expert_up;      /* rows of its W1 and of its gate together */
    int64_t kinds;          /* of layers, 1 .. ES_MODEL_KINDS */
    es_layer_kind kind[ES_MODEL_KINDS];
    uint8_t layer_kind[ES_MODEL_LAYERS]; /* which of them each layer is: es_model_layer() */
    char label[ES_MODEL_LABELS][64]; /* names of id2label, by their numbers; "": without a name */
    bool pooler;                     /* set by es_model_open() */
    bool causal;                     /* a token sees itself and those before it */
    bool tied;                       /* the next token's logits are made by the word embeddings */
    bool predicts;                   /* set by es_model_open(): it has logits of the next token */
    es_weights_mode weights;         /* set by es_model_open(); AUTO before */
    bool parallel;      /* attention and what follows it are given the same state (gpt_neox) */
    bool head_norms;    /* queries and keys of a head are normed before they meet (qwen3) */
    bool norm_from_one; /* norms multiply by 1 + what the file has */
    bool attention_bias, mlp_bias, norm_bias, pooler_bias;
    bool mean_pooled;    /* the pooler is given the mean over tokens, instead of the first one */
    bool shares_sum;     /* shares are of the softmax over the experts that are used, and sum to 1;
                            otherwise over all experts */
    bool experts_fused;  /* set by es_model_open(): the file has experts in one tensor; */
    bool experts_packed; /* in blocks of MXFP4 */
    bool sinks;          /* a learned logit of each head stands in the denominator of its softmax */
    double layer_norm_eps; /* of whichever norm it has */
    double score_divisor;  /* scores are q.k / score_divisor; sqrt(head_dim) unless stated */
    double score_cap;      /* c: a score s becomes c tanh(s / c); 0: it stays */
    double embed_factor;   /* hidden state 0 is embed_factor word[id]; 1 unless stated */
    double branch_factor;  /* what attention and W2 add to the state is multiplied by it; 1 */
    double logit_factor;   /* logits are multiplied by it; 1 */
    double logit_cap;      /* c: a logit z then becomes c tanh(z / c); 0: it stays */
    es_rotary rotary, rotary_local; /* es_layer_kind.rotary says which a layer has */
    char activation[64];
    char architecture[64]; /* the first of "architectures", or "" */
    char model_type[64];   /* which description it was read by: "bert" */
} es_model_config;

/*! es_model_config_load() : read a config.json, by its path or that of its folder, or what a GGUF
 *  says of itself. O(file), of a GGUF O(header). Thread-safe.
 *  @return : ES_OK; ES_E_IO (model.config: a folder without it); ES_E_LIMIT above a megabyte;
 *  ES_E_FORMAT with err->offset where there is one: config.json, config.utf8, config.depth (no
 * JSON), config.missing (a field), config.range (a field that is no number of the size it should
 * be), config.duplicate, config.heads (hidden size not a multiple of heads), config.layers (a list
 * that is shorter than the layers); ES_E_UNSUPPORTED: config.model (a model_type that is not known;
 * the hint names some of those that are), config.activation, config.positions (not absolute),
 * config.rotary, config.window, config.quantised, config.function (experts, caps on logits and the
 * like), config.decoder: values that would change what is computed; the hint says which is
 * supported. */
ES_API es_status es_model_config_load(const char *path, es_model_config *out, es_error *err);

/*! es_model_layer() : returns the kind of layer 0 <= layer < L. */
ES_API const es_layer_kind *es_model_layer(const es_model_config *config, int64_t layer);

/*! es_model_locate() : the folder of a model. `name` is a folder, or "name", "org/name" or
 *  "org/name@revision" (a branch, tag or commit; main) in the cache of the Hugging Face hub:
 *  $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
 *  ~/.cache/huggingface/hub. Nothing is downloaded. A folder on disk wins.
 *  @return : ES_OK with the path in out[0 .. size); ES_E_IO (model.locate) naming what was looked
 *  at; ES_E_FORMAT (model.locate) for a file that is not a GGUF, (hub.ref) for a cache whose refs
 *  lead out of it; ES_E_ARGUMENT. */
ES_API es_status es_model_locate(const char *name, char *out, size_t size, es_error *err);

/* ---- the model ---- */

/* How to open one. Zero-initialise; every zero means the default. */
typedef struct es_model_opts {
    es_dtype precision;   /* of weights and arithmetic: ES_F32 (default) or ES_F64 */
    bool allow_nonfinite; /* NaN and Inf among the weights are a remark, and spread from there */
    bool allow_trailing;  /* bytes after the last tensor of a file, too */
    es_weights_mode weights;
    int threads;          /* that read and check the weights; 0: as many as there are cores */
    es_mem_limit *budget; /* the weights are counted here; must outlive the model */
} es_model_opts;

/* Weights in memory and what they mean. Never changes once open: any number of threads may use it.
 */
typedef struct es_model es_model;

/*! es_model_open() : find (es_model_locate()), check and load a model. Tensors may be named with or
 *  without their type's prefix ("bert."), LayerNorms by weight and bias or by gamma and beta.
 * O(weights) time; memory as es_weights_mode says. The files of a streamed model stay open. Release
 *  with es_model_close().
 *  @return : ES_OK; as es_model_locate(), es_model_config_load(), es_st_open(); ES_E_FORMAT:
 *  model.shape (a tensor's shape is not what config.json says; both are named), model.layers (fewer
 *  layers than config.json says), model.tensor (one is missing), model.prefix (tensors with and
 *  without the prefix, or none of either); ES_E_UNSUPPORTED (model.unknown) for a tensor of a
 *  decoder's layer that its type does not have; ES_E_IO (model.weights) if there are no weights,
 * ES_E_UNSUPPORTED if they are of another format, which is named; ES_E_NONFINITE (model.finite),
 * naming the tensor. */
ES_API es_status es_model_open(const char *name, const es_model_opts *opts, es_model **out,
                               es_error *err);
ES_API void es_model_close(es_model *model); /* NULL is fine */

/*! es_model_config_of() : the configuration of what was opened. */
ES_API const es_model_config *es_model_config_of(const es_model *model);

/*! es_model_check_tokenizer() : fails unless the tokenizer fits the model of this configuration in
 *  `folder`. Embeddings without a token are a remark, for checkpoints pad their vocabulary; so are
 *  added tokens without an embedding, for most texts have none of them, and es_encode_opts.vocab
 *  refuses those that have. @return : ES_OK; ES_E_FORMAT (model.vocab) if tokens of the vocabulary
 *  itself, or those around every text, have no embedding. */
ES_API es_status es_model_check_tokenizer(const es_model_config *config, const char *folder,
                                          const es_tokenizer *tokenizer, es_error *err);

/* One head's matrices, as views into the model. Rows of wq, wk, wv are output channels: q = wq x +
 * bq, with zeros where the model has no bias; heads of a group share wk and wv. The head's scores
 * are q.k / score_divisor, once norms of queries and keys and rotary positions, where the model has
 * them, have been applied to both; its contribution to the layer is wo (sum w v). */
typedef struct es_model_head {
    es_view wq, wk, wv; /* (k, H) */
    es_view bq, bk, bv; /* (1, k) */
    es_view wo;         /* (H, k) */
} es_model_head;

/* ---- running it ---- */

/* What takes the place of attention in some heads: each query keeps the keys of its block that a
 * policy chooses (policy.h), and attends over those alone. Scores, weights and outputs of such a
 * head are f64. Query i of head h in layer l has the numbers of the cell
 *
 *     at.cell + (l heads + h) positions + i,
 *
 * tokens and lanes from 0 on, so that a block has es_model_sparse_cells() of them: give blocks, and
 * repeats of a block, cells that are so far apart. "History" is the weight that keys have from the
 * queries of the block that stand before this one, if those kept everything; "observed" that from
 * the last spec.span of them (32 unless it says). A query for which chance keeps no key attends to
 * its own token. Linformer's mixtures, as many as spec.keys, have the first query's cell and are
 * the same for all of them.
 *
 * Heads that share keys and values share a cache: those of a group whose specs are the same keep
 * one set for each position. It is chosen by the sum of their weights (history, observed, and those
 * of the present query), and drawn once, in the cells of the first of them. Where a policy looks at
 * how far values are (limit), a key counts by the root of the sum over them of (w |u|)^2. Heads of
 * a group whose specs differ choose apart, as if they had a cache each. */
typedef struct es_model_sparse {
    const es_policy_spec *heads; /* (L, h) what each head keeps; policy NULL: everything, by the
                                    engine, with the bits that it has without a policy */
    es_address at;               /* seed, experiment and first cell of the draws */
} es_model_sparse;

/* One head of one layer of a block, as it ran. q, k, v, wo, plain_q and plain_k are valid until the
 * last head of the layer has been shown, the rest during the call that shows it. */
typedef struct es_model_seen {
    int64_t block, layer, head;
    int64_t window;           /* of its layer: es_layer_kind */
    double scale, cap;        /* scores are scale q.k, or cap tanh(scale q.k / cap) if cap > 0 */
    const double *sink;       /* logit of its sink (attend.h); NULL or -inf: it has none */
    es_view q, k, v;          /* (n, k) as they meet: after norms, rotary positions, factors */
    es_view wo;               /* (H, k) what the head adds to the layer is wo times its output */
    es_view bo;               /* (1, H) what Wo adds to the sum over heads */
    es_view plain_q, plain_k; /* (n, k) before rotary positions; without data unless asked for */
    const double *output;     /* (n, k) before Wo */
    const double *lse, *entropy, *top_weight, *sum_squares; /* (n); NULL unless asked for */
} es_model_seen;

/* Functions that see what a block makes and does not store; each may be NULL. Several blocks may
 * run at once. Any status other than ES_OK ends the run. */
typedef struct es_model_visit {
    /* Called after each head of each layer, heads in order, on the thread that runs the block.
     * Heads with a policy have no lse. */
    es_status (*head)(void *context, const es_model_seen *seen, es_error *err);
    void *context;
    bool statistics; /* lse, entropy, top_weight, sum_squares */
    bool plain;      /* plain_q and plain_k */
    /* Called with each hidden state x (n, H), in order, in the model's precision, on the thread
     * that runs the block: those that es_model_block.hidden would get. */
    es_status (*state)(void *context, int64_t block, int64_t state, const void *x, es_error *err);
    /* Called with logits (rows, vocab) of the tokens after tokens first ... first + rows - 1, in
     * the model's precision, rows in any order, on several threads at once. */
    es_status (*logits)(void *context, int64_t block, int64_t first, int64_t rows,
                        const void *logits, es_error *err);
} es_model_visit;

typedef struct es_cache es_cache; /* what becomes of keys and values: cache.h */

/* One block of token ids and what is wanted of it; a NULL pointer means "not wanted". Statistics of
 * a sparse head are those of the weights that were used. Hidden states of a decoder are those
 * before its last norm. */
typedef struct es_model_block {
    const int32_t *ids;  /* (n), [CLS] and [SEP] included where they belong; not read with input,
                            unless nll is wanted */
    int64_t n;           /* 1 .. positions; see rotary */
    int64_t states;      /* hidden states, counted from state 0: the last that is computed is
                            states - 1. The layers after it are not run, and have no statistics.
                            0: all L + 1 */
    void *hidden;        /* (states - start, n, H) in the model's precision; state `start` first */
    void *last;          /* (n, H) state L alone; of an encoder with a last norm, after that */
    double *entropy;     /* (L, h) -sum w ln w in nats, mean over the block's queries */
    double *top_weight;  /* (L, h) largest weight, mean */
    double *sum_squares; /* (L, h) sum w^2, mean */
    double *ess;         /* (L, h) effective number of keys, 1/sum w^2, mean */
    double *pooled;      /* (H) of the pooler, after tanh or what the type has in its place */
    double *logits;      /* (labels) of the classifier */
    const es_model_sparse *sparse; /* NULL: every head keeps everything */
    double *kept;                  /* (L, h) keys of a query, as often as drawn, mean; n of all */
    int64_t *empty;                /* (L, h) queries that kept no key */
    /* To begin in the middle: `input` (n, H), in the model's precision, is hidden state `start`, 0
     * .. L, and the layers before it are not run. start = l and states = l + 2 is layer l alone.
     * From a state of its own the model makes what it made of it before, bit for bit. NULL: begin
     * with ids, start = 0. */
    int64_t start;
    const void *input;
    void *inputs; /* (layers that run, n, H) what each layer's attention is given: its norm of the
                     hidden state, or the state itself where norms come after; in the model's
                     precision */
    /* Of a model that predicts: */
    double *nll;        /* (n - 1) -ln p(ids[i + 1] given ids[0 .. i]), nats; logits are made in
                           pieces and not stored */
    void *token_logits; /* (n, vocab) of the token after each, in the model's precision */
    /* What attention does otherwise than the model says: */
    const es_mask *mask; /* what queries see of the keys that the layer's own mask and window let
                            them see; NULL: all of them. Heads with a policy do not look at it */
    const double *score_factor; /* (n) scores of query i are multiplied by it */
    const es_cache *cache;      /* NULL: keys and values stay as they are */
    const es_rotary *rotary;    /* (2) instead of config.rotary and config.rotary_local, of their
                                   widths; the block may then be longer than the model's positions,
                                   unless it has sparse heads. query_beta stays the model's. NULL:
                                   its own */
    const es_model_visit *visit;
} es_model_block;

/*! es_model_forward() : run every block through the model, one per thread at a time; where there
 *  are fewer long blocks than threads, one after the other with all threads. A streamed model runs
 *  blocks of together 2048 tokens layer by layer, with all threads. es_model_cost_of()
 *  says what that takes. A sparse head takes 2 n^2 k operations for its scores, in f64, and what
 *  its policy takes for n queries.
 *  @return : ES_OK; ES_E_EMPTY if n is 0; ES_E_RANGE for a block longer than the model's positions
 *  (forward.length) or an id outside the vocabulary (forward.id, err->row the block and err->col
 *  the place in it), or more states than there are, or none from `start` on (forward.states), or
 *  cells beyond the last (as es_address_check()); ES_E_ARGUMENT if pooled or logits are wanted of a
 *  model without them, or with the last state not reached, or `start` without input
 *  (forward.start), or sparse without heads (forward.sparse), or rotary of other widths than the
 *  model's or of a model without (forward.rotary), or nll or token_logits of a model
 *  that does not predict (forward.predict); as es_policy_spec_check() and, for the mask,
 *  es_attend();
 *  ES_E_NONFINITE or ES_E_RANGE if hidden states overflow; ES_E_IO (file.changed) if a file of a
 *  streamed model has become shorter; ES_E_LIMIT, ES_E_MEMORY,
 *  ES_E_INTERRUPTED (progress counts blocks). */
ES_API es_status es_model_forward(const es_model *model, const es_model_block *blocks,
                                  int64_t count, const es_exec *exec, es_error *err);

/* What running a block takes. */
typedef struct es_model_cost {
    double products;  /* operations of its products with matrices, 2 per multiply-add */
    double attention; /* of attention, of the pairs that are seen */
    double bytes;     /* of memory on `threads` threads, sparse heads and results not counted */
    double weights;   /* numbers that the model holds in memory, whatever runs; at most */
} es_model_cost;

/*! es_model_cost_of() : of a block of n tokens; `predict` counts logits of the next token, too.
 *  bytes is a bound for any number of such blocks in `precision` on `threads` threads. */
ES_API es_model_cost es_model_cost_of(const es_model_config *config, es_dtype precision, int64_t n,
                                      int threads, bool predict);

/*! es_model_products() : the products of `count` blocks of n tokens with the layers' matrices and
 *  nothing else, on as many threads: what es_model_forward() is timed against. It has no result.
 *  @return : ES_OK; ES_E_RANGE unless 1 <= n <= positions; ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_model_products(const es_model *model, int64_t n, int64_t count,
                                   const es_exec *exec, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
