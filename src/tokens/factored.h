/* factored.h : the making of an es_covariance, shared by those that are described (spectrum.c)
 * and those that are brought (factored.c). */
#ifndef ES_TOKENS_FACTORED_H
#define ES_TOKENS_FACTORED_H

#include <esscher/spectrum.h>

/*! es_covariance_new() : all zero. On failure *out may be freed. */
es_status es_covariance_new(int64_t dim, es_budget *budget, es_covariance *out, es_error *err);

/*! es_covariance_eigen() : values from the matrix, by LAPACK. */
es_status es_covariance_eigen(es_covariance *c, es_error *err);

/*! es_covariance_sort() : values, largest first. */
void es_covariance_sort(es_covariance *c);

#endif
