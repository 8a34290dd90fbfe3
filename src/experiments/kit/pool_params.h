/* SPDX-License-Identifier: Apache-2.0 */
/* pool_params.h : a model, texts, and the pools of hidden states made of them, as parameters; the
 * same in every study that looks at real tokens.
 *
 *     typedef struct my_params { es_pool_params pool; ... } my_params;
 *     static const es_param params[] = {ES_POOL_PARAMS(my_params, pool), ..., {0}};
 *
 *     open():   es_pools_open(job, &p->pool, &s->pools, err);     model, sizes, defaults; cost
 *     begin():  es_pools_build(job, &s->pools, err);              pools.domains[d].pool
 *     close():  es_pools_close(&s->pools);                        whatever happened
 */
#ifndef ES_EXPERIMENTS_KIT_POOL_PARAMS_H
#define ES_EXPERIMENTS_KIT_POOL_PARAMS_H

#include "model/pool.h"

#include "driver/job.h"
#include "store/scratch.h"

struct es_pools;

/* Returns the operations of a study beside making the pools, if each domain has `tokens` tokens, in
 * blocks of `block`; pools has model and domains. */
typedef double (*es_pool_work)(const es_job *job, const struct es_pools *pools, int64_t tokens,
                               int64_t block);

/* The options that describe a model and its text. */
typedef struct es_pool_params {
    const char *model, *folder;
    es_texts texts, domains, mix;
    int64_t tokens, block;
    int special, shuffle, from;
    int store;   /* store: -1 until it is known how much that takes */
    int invalid; /* as es_text_invalid */
    bool repeat, allow_trailing;
    bool stream;       /* of studies that can: they call es_pools_keep() */
    int64_t skip;      /* es_pool_spec.skip of a causal model; no parameter: the study says it */
    bool streams;      /* matrices of heads are not used, or read layer by layer (layer_heads.h):
                          a large model may be streamed; no parameter */
    es_pool_work work; /* for defaults that suit the model (default_size.h); NULL: making the pools
                          is nearly all; no parameter */
} es_pool_params;

extern const char *const es_pool_special[];  /* "keep", "drop" */
extern const char *const es_pool_shuffles[]; /* as es_text_shuffle */
extern const char *const es_pool_froms[];    /* as es_blocks_from */
extern const char *const es_pool_stores[];   /* "f32", "f16" */
extern const char *const es_text_invalids[]; /* as es_text_invalid */

/* clang-format off */
/* Which blocks of a text are read, for any study that reads blocks. */
#define ES_BLOCKS_FROM_PARAM(type, member)                                                         \
    {"blocks-from", 0, ES_PARAM_CHOICE, "even|start",                                              \
     "take blocks evenly from the whole text, or from its start. Neighbouring blocks are alike: "  \
     "standard errors over blocks from the start are too small",                                   \
     .field = offsetof(type, member), .choices = es_pool_froms, .default_value = "even"}

/* What is done with text that is no UTF-8, for an int `member` of struct `type`. */
#define ES_INVALID_PARAM(type, member)                                                             \
    {"invalid", 0, ES_PARAM_CHOICE, "WHAT",                                                        \
     "what to do with bytes that are not UTF-8; replace: use U+FFFD, but refuse a text with more " \
     "than 1 % of them; error: refuse the text; replace-all: use U+FFFD for any number of them",   \
     .field = offsetof(type, member), .choices = es_text_invalids, .default_value = "replace",          \
     .not_in_fingerprint = true}

/* Rows of a parameter list for member `pool` of struct `type`. */
#define ES_POOL_PARAMS(type, pool)                                                                 \
    {"model", 'm', ES_PARAM_MODEL, "MODEL",                                                        \
     "folder of a checkpoint (config.json, model.safetensors, tokenizer), or org/name in the "      \
     "cache of the Hugging Face hub",                                                              \
     .field = offsetof(type, pool.model)},                                                         \
    {"text", 0, ES_PARAM_FILES, "FILE", "text, UTF-8; may be given several times",                 \
     .field = offsetof(type, pool.texts)},                                                         \
    {"domain", 0, ES_PARAM_NAMED, "NAME=FILE",                                                     \
     "text of a domain, instead of --text; repeat it for more domains or files. Each domain is "    \
     "measured by itself",                                                                      \
     .field = offsetof(type, pool.domains)},                                                       \
    {"mix", 0, ES_PARAM_TEXTS, "NAME=SHARE",                                                       \
     "mix all domains into one pool instead, with these shares of its tokens: --mix a=0.5 b=0.5",  \
     .field = offsetof(type, pool.mix), .several = true},                                          \
    {"pool", 0, ES_PARAM_WHOLE, "N", "tokens to take from the text of each domain, special tokens included",\
     .field = offsetof(type, pool.tokens), .min = 16, .max = 1e9, .unit = "tokens",                \
     .default_note = "all of the text, or as many as the shortest domain has, at most 100000 and " \
                     "what takes about five minutes on two cores"},                                \
    {"block", 0, ES_PARAM_WHOLE, "N",                                                              \
     "tokens per forward pass of the model, special tokens included",                              \
     .field = offsetof(type, pool.block), .min = 2, .max = 1e9, .unit = "tokens",                  \
     .default_note = "as many as it can, at most 2048 if it is causal, fewer if 8 blocks take "    \
                     "more than five minutes on two cores"},                                       \
    ES_BLOCKS_FROM_PARAM(type, pool.from),                                                         \
    {"special", 0, ES_PARAM_CHOICE, "WHAT",                                                        \
     "keep the rows of [CLS] and [SEP] in the pool, or drop them",                                 \
     .field = offsetof(type, pool.special), .choices = es_pool_special, .default_value = "keep"},       \
    {"repeat", 0, ES_PARAM_FLAG, NULL, "read a text that is too short again; the answer says so",  \
     .field = offsetof(type, pool.repeat)},                                                        \
    {"shuffle", 0, ES_PARAM_CHOICE, "WHAT",                                                        \
     "what to shuffle before the model reads the text: word, sentence, block or none. A control "   \
     "for the effect of the text's order",                                                          \
     .field = offsetof(type, pool.shuffle), .choices = es_pool_shuffles, .default_value = "none"},      \
    {"store", 0, ES_PARAM_CHOICE, "f32|f16", "number format of the pool on disk",                  \
     .field = offsetof(type, pool.store), .choices = es_pool_stores,                               \
     .default_note = "f32, or f16 where that takes more than 4 GiB"},                                 \
    {"pool-dir", 0, ES_PARAM_OUTPUT, "DIR",                                                        \
     "directory of the pool, the hidden states that the model computes from the text: read if it "  \
     "exists, else stored",                                                                        \
     .field = offsetof(type, pool.folder), .default_note = "a temporary folder"},                     \
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL, "accept extra bytes at the end of a weight file (with a warning)",\
     .field = offsetof(type, pool.allow_trailing), .not_in_fingerprint = true},                                 \
    ES_INVALID_PARAM(type, pool.invalid)
/* clang-format on */

/* One text, or several that belong together, and the pool made of it. */
typedef struct es_domain {
    const char *name;
    es_texts texts;
    const char *folder;
    double flops; /* of making the pool */
    es_text_facts text;
    es_pool *pool;
} es_domain;

/* The pools of all domains, their model and tokenizer. */
typedef struct es_pools {
    const es_pool_params *asked;
    uint64_t seed; /* the job's */
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer;
    es_domain *domains;
    int64_t n_domains;
    es_text_part *parts;     /* (n_parts) of the one domain, if it is a mixture */
    const char **part_names; /* likewise */
    int64_t n_parts;
    es_pool_cost cost;    /* tokens: of the smallest; bytes: of the largest; the others: of all */
    es_scratch scratch;   /* where pools are that are not kept, until they are open */
    es_pool_keep_fn keep; /* rows that are kept of a pool that is streamed; NULL: all */
    void *keep_user;
} es_pools;

/*! es_pools_open() : open model and tokenizer, read and count the texts, and complete the
 *  parameters. *pools must be closed whatever is returned; memory is the job's. @return : ES_OK;
 *  ES_E_ARGUMENT (pool.options); as es_model_open(), es_tokenizer_open(), es_pool_cost_of(). */
es_status es_pools_open(es_job *job, es_pool_params *asked, es_pools *pools, es_error *err);

/*! es_pools_keep() : only these rows will be kept (es_pool_spec.keep), and all rows are walked
 *  through by reading the text again; what that costs becomes pools->cost. */
es_status es_pools_keep(es_job *job, es_pools *pools, es_pool_keep_fn keep, void *user,
                        es_error *err);

/*! es_pools_build() : make the pools, or take those that are there, and put into the answer what
 *  they are. What they hold in memory is taken off the job's budget, which does not count it.
 *  @return : ES_OK; ES_E_IO; as es_pool_build() and es_pool_open(). */
es_status es_pools_build(es_job *job, es_pools *pools, es_error *err);

/*! es_pools_blocks() : the text of a domain, cut into the blocks that its pool is made of.
 *  es_blocks_free(). @return : as es_blocks_read(). */
es_status es_pools_blocks(const es_pools *pools, int64_t domain, es_mem_limit *budget,
                          es_blocks *out, es_error *err);

/*! es_pools_domain() : the name of a domain for column "domain" of a row of `table`, as a copy that
 *  lives as long as the answer; NULL where there is only one domain. */
const char *es_pools_domain(const es_pools *pools, int64_t domain, es_table *table);

/*! es_pools_caution() : findings that begin with "Caution:" about texts that are hardly one: mostly
 *  unknown tokens, stretches that come again, a few lines. es_pools_unreadable() : the same about
 *  texts of which more than half is unknown, which is to be said before anything else; the former
 *  leaves them out. */
void es_pools_unreadable(const es_pools *pools, es_answer *answer);
void es_pools_caution(const es_pools *pools, es_answer *answer);

/*! es_caution_scores() : a finding that `what` is of scores x'A'y, where scores of the model have
 *  more: rotary positions of an encoder, norms of queries and keys, a cap; none otherwise. */
void es_caution_scores(const es_model_config *config, const char *what, es_answer *answer);

/*! es_pools_close() : close everything; pools of a temporary folder are gone then. */
void es_pools_close(es_pools *pools);

#endif
