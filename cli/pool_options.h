/* pool_options.h : a model, texts, and the pools of hidden states made of them; the same in every
 * command that looks at real tokens.
 *
 *     typedef struct my_options { cli_pool_options pool; ... } my_options;
 *     static const cli_option options[] = {CLI_POOL_OPTIONS(my_options, pool), ..., {0}};
 *
 *     cli_pools pools;
 *     status = cli_pools_open(session, &options->pool, &pools, err);     model, sizes, defaults
 *     ... pools.cost, --dry-run ...
 *     status = cli_pools_build(&pools, err);                             pools.domains[d].pool
 *     cli_pools_close(&pools);                                           whatever happened
 */
#ifndef CLI_POOL_OPTIONS_H
#define CLI_POOL_OPTIONS_H

#include <esscher/pool.h>

#include "command.h"
#include "scratch.h"

typedef struct cli_pool_options {
    const char *model, *folder;
    cli_strings texts, domains;
    int64_t tokens;
    int special, store; /* store: -1 until it is known how much that takes */
    bool repeat, allow_trailing;
} cli_pool_options;

extern const char *const cli_pool_special[]; /* "keep", "drop" */
extern const char *const cli_pool_store[];   /* "f32", "f16" */

/* Rows of an option table for member `pool` of struct `type`. */
/* clang-format off */
#define CLI_POOL_OPTIONS(type, pool)                                                               \
    {"model", 'm', CLI_STRING, "MODEL",                                                            \
     "folder of a BERT checkpoint (config.json, model.safetensors, tokenizer), or org/name in the "\
     "cache of the Hugging Face hub",                                                              \
     .field = offsetof(type, pool.model)},                                                         \
    {"text", 0, CLI_STRINGS, "FILE", "text, UTF-8; may be given several times",                    \
     .field = offsetof(type, pool.texts)},                                                         \
    {"domain", 0, CLI_STRINGS, "NAME=FILE",                                                        \
     "text of a domain, instead of --text; once or more for each. Domains are looked at one by one",\
     .field = offsetof(type, pool.domains)},                                                       \
    {"pool", 0, CLI_WHOLE, "N",                                                                    \
     "tokens of text, specials included, of each domain (default: all there are, or what the "     \
     "shortest domain has, at most 100000)",                                                       \
     .field = offsetof(type, pool.tokens), .min = 16, .max = 1e9},                                 \
    {"special", 0, CLI_CHOICE, "WHAT",                                                             \
     "keep the rows of [CLS] and [SEP] in the pool, or drop them (default: keep)",                 \
     .field = offsetof(type, pool.special), .choices = cli_pool_special},                          \
    {"repeat", 0, CLI_FLAG, NULL, "a text that is too short is read again; the answer says so",    \
     .field = offsetof(type, pool.repeat)},                                                        \
    {"store", 0, CLI_CHOICE, "f32|f16",                                                            \
     "numbers of the pool on disk (default: f32, or f16 where that takes more than 4 GiB)",        \
     .field = offsetof(type, pool.store), .choices = cli_pool_store},                              \
    {"pool-dir", 0, CLI_STRING, "DIR",                                                             \
     "keep the pool here, and take it from here if it is there (default: a temporary folder)",     \
     .field = offsetof(type, pool.folder), .aside = true},                                         \
    {"allow-trailing", 0, CLI_FLAG, NULL, "bytes after the last tensor of a file are a remark",    \
     .field = offsetof(type, pool.allow_trailing), .aside = true}
/* clang-format on */

/* One text, or several that belong together, and the pool made of it. */
typedef struct cli_domain {
    char *name;
    cli_strings texts;
    char folder[4096];
    es_pool *pool;
} cli_domain;

typedef struct cli_pools {
    cli_session *session;
    cli_pool_options *asked;
    es_model *model;
    const es_model_config *config;
    es_tokenizer *tokenizer;
    cli_domain *domains;
    int64_t n_domains;
    es_pool_cost cost;   /* tokens: of the smallest; bytes: of the largest; the others: of all */
    cli_scratch scratch; /* where pools are that are not kept, until they are open */
} cli_pools;

/* Open model and tokenizer, read and count the texts, and complete the options. *pools must be
 * closed whatever is returned. @return : ES_OK; ES_E_ARGUMENT (pool.options); as es_model_open(),
 * es_tokenizer_open(), es_pool_cost_of(). */
es_status cli_pools_open(cli_session *session, cli_pool_options *asked, cli_pools *pools,
                         es_error *err);

/* Make the pools, or take those that are there, and put into the answer what they are.
 * @return : ES_OK; ES_E_IO; as es_pool_build() and es_pool_open(). */
es_status cli_pools_build(cli_pools *pools, es_error *err);

/* Close everything; pools of a temporary folder are gone then. */
void cli_pools_close(cli_pools *pools);

#endif
