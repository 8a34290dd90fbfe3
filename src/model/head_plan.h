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

/* Where a plan's heads stand in its file, for messages. Zero: nowhere. */
typedef struct es_plan_origin {
    const char *file;
    const int64_t *at; /* (layers, heads) bytes */
} es_plan_origin;

/*! es_plan_obey() : the rules of es_plan_load() that are about heads: specs, keys, parts, groups.
 *  Totals are the caller's. */
es_status es_plan_obey(const es_plan *plan, es_plan_origin origin, es_error *err);

#endif
