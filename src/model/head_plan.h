/* SPDX-License-Identifier: Apache-2.0 */
/* head_plan.h : plans (plan.h) from the inside: text that is to become one, and what every plan
 * must obey whether it was read or made. */
#ifndef ES_MODEL_HEAD_PLAN_H
#define ES_MODEL_HEAD_PLAN_H

#include <stddef.h>

#include <esscher/plan.h>

enum { ES_PLAN_BYTES = 1 << 24 }; /* of a file: 65000 heads; real plans have some hundred */

/*! es_plan_parse() : es_plan_load() of text[0 .. size), which need not end in NUL; `file` is for
 *  messages. *out is NULL after a failure. */
es_status es_plan_parse(const void *text, size_t size, const char *file, es_mem_limit *budget,
                        es_plan **out, es_error *err);

/* Offsets of a plan's heads in its file, for messages. Zero: no file. */
typedef struct es_plan_origin {
    const char *file;
    const int64_t *at; /* (layers, heads or kv_heads) bytes */
} es_plan_origin;

/*! es_plan_obey() : the rules of es_plan_load() that are about heads: specs, keys, parts, groups.
 *  Totals are the caller's. Of a file (origin.file) policies of units must have all options. */
es_status es_plan_obey(const es_plan *plan, es_plan_origin origin, es_error *err);

/* ---- of plans of caches (cache_plan.c) ---- */

#define ES_PLAN_CACHE_TYPE "f16" /* of the cache that a plan replaces, unless it states another */

/*! es_plan_obey_cache(), es_plan_count_cache(), es_plan_check_cache_context() : as the functions
 *  without `cache`, which call them. */
es_status es_plan_obey_cache(const es_plan *plan, es_plan_origin origin, es_error *err);
void es_plan_count_cache(es_plan *plan);
es_status es_plan_check_cache_context(const es_plan *plan, int64_t n, es_error *err);

#endif
