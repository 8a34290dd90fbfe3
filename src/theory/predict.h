/* predict.h : what the two kinds of prediction share. */
#ifndef ES_THEORY_PREDICT_H
#define ES_THEORY_PREDICT_H

#include <esscher/theory.h>

es_status es_predict_check(int64_t d, double n, es_error *err);

/*! es_norm_ratio() : E|z| / sqrt(E|z|^2) of z ~ N(0, I_d). */
double es_norm_ratio(int64_t d);

/*! es_predict_next() : the n with which slopes at n are computed. */
double es_predict_next(double n);

/*! es_predict_slope() : -d log / d log n from two predictions, log n apart by `distance`. */
void es_predict_slope(const es_prediction *here, const es_prediction *next, double distance,
                      es_prediction *out);

#endif
