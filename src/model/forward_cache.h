/* SPDX-License-Identifier: Apache-2.0 */
/* forward_cache.h : a layer of a block whose keys and values go through a cache (cache/cache.h). */
#ifndef ES_MODEL_FORWARD_CACHE_H
#define ES_MODEL_FORWARD_CACHE_H

#include "cache/cache.h"
#include "model/forward_inside.h"

/*! es_model_cache_bytes() : memory of a block of n tokens with a cache whose units are all as
 *  `like`, beyond what es_model_cost_of() reports, on `threads` threads; a bound. */
double es_model_cache_bytes(const es_cache_unit *like, es_evict_mode mode, int64_t prompt,
                            const es_model_config *config, es_dtype precision, int64_t n,
                            int threads);

/*! es_cache_turn_rows() : es_evict_prompt.turn of a layer that turns, whose context is an
 *  es_cache_turn. */
es_status es_cache_turn_rows(const void *turn, int64_t first, int64_t places, int64_t count,
                             double *rows, es_error *err);

/*! es_cache_scratch_new() : memory for the cache of blocks of up to n tokens; release with
 *  es_cache_scratch_free(). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_cache_scratch_new(const es_model_config *config, int64_t n, es_mem_limit *budget,
                               es_cache_scratch *scratch, es_error *err);
void es_cache_scratch_free(es_cache_scratch *scratch);

/*! es_cache_check() : fails unless a block of the model can run with its cache. @return : ES_OK;
 *  ES_E_UNSUPPORTED (cache.causal, cache.visit), ES_E_RANGE (cache.prompt), ES_E_ARGUMENT
 *  (cache.together, cache.oracle); as es_evict_check(). */
es_status es_cache_check(const es_model *model, const es_model_block *block, es_error *err);

/*! es_cache_plain() : returns whether a unit of the block's cache uses queries before rotary
 * positions. */
bool es_cache_plain(const es_model *model, const es_model_block *block);

/*! es_cache_begin() : rounds keys and values of a layer, and chooses what its units keep of the
 *  prompt. After it heads can be computed. */
es_status es_cache_begin(const es_layer_pass *p, es_error *err);

/*! es_cache_attend() : a head over what its unit keeps of the prompt, into `out`. */
es_status es_cache_attend(const es_layer_pass *p, int64_t head, const es_attend_out *out,
                          es_error *err);

/*! es_cache_decode() : all heads of a layer over what their units hold token by token. */
es_status es_cache_decode(const es_layer_pass *p, es_error *err);

#endif
