/* SPDX-License-Identifier: Apache-2.0 */
/* allocate.h : what the library alone needs beside <esscher/allocate.h>: a bound, and the rules in
 * common use that budget compares with. Their errors are those of <esscher/allocate.h>. */
#ifndef ES_RISK_ALLOCATE_H
#define ES_RISK_ALLOCATE_H

#include <esscher/allocate.h>

/*! es_allocate_bound() : what no choice of options for `keys` keys can be below: hulls that may be
 *  stopped anywhere. es_allocate_keys() meets it at every corner, and is above it by one step at
 *  most. @return : as es_allocate_keys(). */
es_status es_allocate_bound(const es_curve *curves, int64_t units, double keys, double *out,
                            es_error *err);

/* ---- rivals ----
 * Gives units keys in proportion to their shares, between their first and last option; what those
 * limits take or leave goes to the others, in proportion. Each unit gets the largest option that is
 * not above its part. The rest goes, option by option, to the unit that is furthest below its part.
 * Risks are not used. */

/*! es_allocate_mass() : in proportion to need (units), >= 0 and not all 0: how many keys hold a
 *  given mass, or, as in Ada-KV, how many of a unit's keys are among the heaviest of its layer (one
 *  layer at a time then, each with its own number of keys).
 *  @return : ES_OK; ES_E_RANGE: allocate.keys, allocate.need. */
es_status es_allocate_mass(const es_curve *curves, int64_t units, double keys, const double *need,
                           int64_t *chosen, double *used, double *risk, es_error *err);

/*! es_allocate_pyramid() : falling linearly with depth (PyramidKV): a unit of layer[i], 0 <= layer
 * < layers, has 2 - last times the mean in the first layer and `last` times it, in (0, 1], in the
 *  last. @return : also ES_E_RANGE (allocate.layer). */
es_status es_allocate_pyramid(const es_curve *curves, int64_t units, double keys,
                              const int64_t *layer, int64_t layers, double last, int64_t *chosen,
                              double *used, double *risk, es_error *err);

#endif
