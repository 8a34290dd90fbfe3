/* law.h : where tokens come from: a probability law on R^d.
 *
 * Every law here is an affine image Y = mean + B Z of a base law Z with independent or
 * rotation-invariant coordinates, a mixture of such images, or a finite set of points. That one
 * form is what makes samplers (tokens.h) and closed forms (limit.h) short: K_Y(t) = K_Z(B't) +
 * <mean, t>.
 *
 * An es_law owns nothing: arrays belong to the caller and must outlive it.
 */
#ifndef ESSCHER_LAW_H
#define ESSCHER_LAW_H

#include <esscher/exec.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Base laws. `size` is their one parameter of scale. */
typedef enum es_law_kind {
    ES_LAW_GAUSSIAN = 1,   /* N(0, size^2 I) */
    ES_LAW_SPHERE = 2,     /* uniform on the sphere of radius `size` */
    ES_LAW_BALL = 3,       /* uniform in the ball of radius `size` */
    ES_LAW_CUBE = 4,       /* uniform in [-size, size]^d */
    ES_LAW_RADEMACHER = 5, /* independent coordinates +-size */
    ES_LAW_LAPLACE = 6,    /* independent, density exp(-|z|/size) / (2 size) */
    ES_LAW_STUDENT =
        7, /* multivariate t, `freedom` degrees, scale matrix size^2 I: no exponential moments */
    ES_LAW_VMF = 8, /* von Mises-Fisher on the sphere of radius `size`, concentration, direction */
    ES_LAW_MIXTURE = 9,   /* of `n_parts` laws that are not mixtures themselves */
    ES_LAW_EMPIRICAL = 10 /* uniform on the rows of `points` */
} es_law_kind;

typedef struct es_law {
    es_law_kind kind;
    int64_t dim;
    double size;             /* > 0 */
    double freedom;          /* of Student t, > 0 */
    double concentration;    /* kappa of vMF, >= 0 */
    const double *direction; /* (dim) of vMF; normalised by its users */
    const double *mean;      /* (dim), NULL: 0 */
    const double *factor; /* B (dim, dim) row-major, NULL: identity. For a Gaussian any B with BB' =
                             covariance */
    const struct es_law *parts; /* (n_parts) of a mixture, all of dimension dim */
    const double *weights;      /* (n_parts), > 0, used after division by their sum */
    int64_t n_parts;
    const es_view *points;    /* (N, dim) of an empirical law */
    bool without_replacement; /* tokens 0, 1, ... are distinct points; at most N of them */
} es_law;

/*! es_law_check() : is this a law? Looks at every number.
 *  @return : ES_OK; ES_E_ARGUMENT, ES_E_SHAPE, ES_E_RANGE, ES_E_NONFINITE, ES_E_EMPTY naming what
 * is wrong. */
ES_API es_status es_law_check(const es_law *law, es_error *err);

/*! es_law_name() : "gaussian", "sphere", ... ; es_law_parse() : the reverse. */
ES_API const char *es_law_name(es_law_kind kind);
ES_API bool es_law_parse(const char *name, es_law_kind *out);

#ifdef __cplusplus
}
#endif
#endif
