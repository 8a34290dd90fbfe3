/* logits.h : compare the logits of two runs of a model. */
#ifndef ES_EXPERIMENTS_KIT_LOGITS_H
#define ES_EXPERIMENTS_KIT_LOGITS_H

#include <stdint.h>

/*! es_logits_best() : the number of the largest logit, the first if several are equal. */
int64_t es_logits_best(const double *logits, int64_t labels);

/*! es_logits_kl() : sum p ln(p/q) in nats, p and q the softmax of the logits a and b (labels); at
 *  least 0. Exact to 1e-15 where they are close, too. */
double es_logits_kl(const double *a, const double *b, int64_t labels);

#endif
