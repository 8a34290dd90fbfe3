/* tilt.h : K and its derivatives with what is needed to carry errors on, inside the room. */
#ifndef ES_LIMIT_TILT_H
#define ES_LIMIT_TILT_H

#include <esscher/limit.h>

/* What is known at one point. curvature and third bound the second and third derivatives in
 * operator norm: they say what an error of the point does to gradient and Hessian. */
typedef struct es_tilt {
    double K, K_err;
    double *grad, grad_err; /* (d), never NULL; error in Euclidean norm */
    double *hess, hess_err; /* (d, d) or NULL; error of an element */
    double curvature, third;
} es_tilt;

/*! es_tilt_base() : the base law Z of a law that is neither mixture nor empirical, at s (d). `work`
 *  (d) is scratch. */
es_status es_tilt_base(const es_law *law, const double *s, double *work, es_tilt *out,
                       es_error *err);

/*! es_tilt_law() : a law that es_law_check() has accepted, at a finite t. */
es_status es_tilt_law(const es_law *law, const double *t, es_budget *budget, es_tilt *out,
                      es_error *err);

/*! es_tilt_points() : the empirical law of the rows of `points`, at s. */
es_status es_tilt_points(const es_view *points, const double *s, es_budget *budget, es_tilt *out,
                         es_error *err);

#endif
