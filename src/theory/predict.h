/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h : what predictions ask before they begin, and what isotropic.c and general.c share. */
#ifndef ES_THEORY_PREDICT_H
#define ES_THEORY_PREDICT_H

#include "theory/theory.h"

/*! es_horizons_check() : a covariance with finite numbers and a head of its dimension. */
es_status es_horizons_check(const es_view *cov, const es_head *head, es_error *err);

es_status es_predict_check(int64_t d, double n, es_error *err);

/* Below this |M|_F outputs are an average and a linear map, V (y_mean + S_n A x), whose covariance
 * is quadratic in A: predictions of it are made here and scaled down. Made at a smaller A they
 * would be differences of nearly equal numbers. */
#define ES_PREDICT_SMALL 0.2

/*! es_predict_shrink() : the covariance's errors of `small`, from those of the same head with A
 * larger by 1/ratio. */
void es_predict_shrink(es_prediction *small, const es_prediction *larger, double ratio);

/*! es_norm_ratio() : E|z| / sqrt(E|z|^2) of z ~ N(0, I_d). */
double es_norm_ratio(int64_t d);

/*! es_predict_next() : the n with which slopes at n are computed. */
double es_predict_next(double n);

/*! es_predict_slope() : -d log / d log n from two predictions, log n apart by `distance`. */
void es_predict_slope(const es_prediction *here, const es_prediction *next, double distance,
                      es_prediction *out);

#endif
