/* SPDX-License-Identifier: Apache-2.0 */
/* few.h : few queries meet many keys, at the speed at which memory gives them.
 *
 * A panel costs the same for one query as for all its lanes. Queries that fill but a part of one
 * are better met the other way round: elements of a key lie in SIMD lanes, as they lie in memory,
 * and so do channels of a value; scores of a query lie side by side, so that the panels' `top` and
 * `tilt` see a row of keys in their lanes. Keys and values are read once, from front to back, and
 * checked on the way. */
#ifndef ES_ATTENTION_FEW_H
#define ES_ATTENTION_FEW_H

#include "attention/kernels.h"
#include "attention/attend.h"
#include "attention/partial.h"

/*! es_few_suits() : returns whether these queries are computed here. Few, and without what only a
 * block knows: the self token, spreads, blocks of keys. */
bool es_few_suits(const es_problem *p);

/*! es_few_tile() : keys per tile. */
int64_t es_few_tile(const es_problem *p, const es_kernels *kernels);

/*! es_few_bytes() : memory es_few_attend() takes for each thread. */
double es_few_bytes(const es_problem *p, const es_kernels *kernels);

/*! es_few_attend() : states (plan->segments) of p->m queries that have met nothing meet their
 * segments of the keys, whose indices count from `index_base`. Merge them in their order. The data
 * are checked here, by reading them along: p needs es_problem_views() only.
 *  @return : as es_attend(); after a failure the states mean nothing. */
es_status es_few_attend(const es_problem *p, const es_attend_plan *plan, const es_kernels *kernels,
                        bool plain, int64_t index_base, es_partial *states, es_error *err);

#endif
