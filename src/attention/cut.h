/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h : how a problem is cut into units of work. */
#ifndef ES_ATTENTION_CUT_H
#define ES_ATTENTION_CUT_H

#include "attention/block.h"

/*! es_cut_make() : the cut depends on the problem and the kernels, never on the number of threads:
 * that is what makes results the same for any number of them. */
es_status es_cut_make(const es_problem *p, bool wants_moments, es_attend_plan *plan,
                      const es_kernels **kernels, es_error *err);

/*! es_cut_key() : key at which segment `segment` of plan->segments begins; segment == segments
 * gives the end. Every prefix is the end of some segment. */
int64_t es_cut_key(const es_problem *p, const es_attend_plan *plan, int64_t segment);

#endif
