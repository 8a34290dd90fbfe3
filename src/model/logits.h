/* SPDX-License-Identifier: Apache-2.0 */
/* logits.h : two answers of a classifier or decoder compared. All functions are thread-safe. */
#ifndef ES_MODEL_LOGITS_H
#define ES_MODEL_LOGITS_H

#include <stdint.h>

/*! es_logits_best() : returns the number of the largest of logits (labels), the first if several
 * are equal. */
int64_t es_logits_best(const double *logits, int64_t labels);

/*! es_logits_kl() : returns sum p ln(p/q) in nats, p and q the softmax of the logits a and b
 *  (labels); at least 0. Exact to 1e-15 also where they are close. O(labels). */
double es_logits_kl(const double *a, const double *b, int64_t labels);

#endif
