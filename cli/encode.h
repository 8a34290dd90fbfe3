/* SPDX-License-Identifier: Apache-2.0 */
/* encode.h : the parts of esscher encode.
 *
 *     encode.c      what is asked, running the model, the answer and its files
 *     encode_ids.c  the ids of the block: of a text, or from a file
 *     encode_cache.c  the key-value cache that the block goes through
 */
#ifndef CLI_ENCODE_H
#define CLI_ENCODE_H

#include <esscher/cache.h>
#include <esscher/model.h>

#include "command.h"

typedef struct encode_options {
    const char *model, *text, *ids, *out, *logits, *layer;
    const char *policy, *kv_type, *kept, *plan;
    int64_t block, prompt, keys;
    int invalid; /* as es_text_invalid */
    int evict;   /* of encode_evict_names; -1: not given */
    bool force, allow_nonfinite, allow_trailing;
} encode_options;

/* The ids of one block, with the special tokens around it, and how many tokens the text has. */
typedef struct block_ids {
    int32_t *ids;
    int64_t n;           /* ids so far */
    int64_t first, last; /* tokens of the text in the block */
    int64_t total;       /* tokens of the text so far */
} block_ids;

typedef struct encode_job {
    cli_session *session;
    const encode_options *o;
    char folder[4096];
    es_model_config config;
    es_dtype precision;
    int64_t layer;    /* -1: all */
    int64_t most;     /* ids that the block may have */
    int64_t capacity; /* tokens of text in a block */
    block_ids block;
    void *hidden, *token_logits;
    double *stats[3], *logits;
    int64_t labels;  /* of the classifier; 0: there is none */
    es_cache *cache; /* NULL: none */
} encode_job;

extern const char *const encode_evict_names[];

/* encode_cache_check() : options of the cache that do not fit together. encode_cache_memory() : a
 * bound on the memory of the cache, 0 if there is none; needs job->config, most and precision.
 * encode_cache_open() : job->cache, for the block that was found. encode_cache_report() : what it
 * did, into the answer and the file of --kept. */
es_status encode_cache_check(const encode_options *o, es_error *err);
es_status encode_cache_memory(const encode_job *job, double *bytes, es_error *err);
es_status encode_cache_open(encode_job *job, const es_model *model, es_error *err);
es_status encode_cache_report(const encode_job *job, es_error *err);

/* encode_ids_most() : job->most, ids that the block may have, before anything is read. Needs
 * job->config. */
es_status encode_ids_most(encode_job *job, es_error *err);

/* Finds job->block, tokenizing the text with the tokenizer beside the model. */
es_status encode_ids_find(encode_job *job, es_error *err);

#endif
