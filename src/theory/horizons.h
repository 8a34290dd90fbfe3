/* horizons.h : what predictions ask before they begin. */
#ifndef ES_THEORY_HORIZONS_H
#define ES_THEORY_HORIZONS_H

#include <esscher/theory.h>

/*! es_horizons_check() : a covariance with finite numbers and a head of its dimension. */
es_status es_horizons_check(const es_view *cov, const es_head *head, es_error *err);

#endif
