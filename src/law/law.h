/* SPDX-License-Identifier: Apache-2.0 */
/* law.h : where tokens come from: a probability law on R^d.
 *
 * Every law here is an affine image Y = mean + B Z of a base law Z with independent or
 * rotation-invariant coordinates, a mixture of such images, or a finite set of points. That one
 * form is what makes samplers (tokens.h) and closed forms (limit.h) short: K_Y(t) = K_Z(B't) +
 * <mean, t>. `mean` and `factor` act on mixtures and on points as well, on top of what a part
 * does by itself; `size` concerns the base laws alone.
 *
 *     es_law keys = {.kind = ES_LAW_SPHERE, .dim = 64, .size = 8.0};
 *
 * An es_law owns nothing: arrays belong to the caller and must outlive it.
 */
#ifndef ES_LAW_LAW_H
#define ES_LAW_LAW_H

#include <esscher/exec.h>
#include <esscher/view.h>

/* Every law once: number, enumerator, name on a command line. Numbers are never reused. `size` is
 * the one parameter of scale of all but mixtures and empirical laws.
 *     GAUSSIAN     N(0, size^2 I)
 *     SPHERE       uniform on the sphere of radius `size`
 *     BALL         uniform in the ball of radius `size`
 *     CUBE         uniform in [-size, size]^d
 *     RADEMACHER   independent coordinates +-size
 *     LAPLACE      independent, density exp(-|z|/size) / (2 size)
 *     STUDENT      multivariate t, `freedom` degrees, scale matrix size^2 I: no exponential moments
 *     VMF          von Mises-Fisher on the sphere of radius `size`: density at size*u proportional
 *                  to exp(concentration <direction, u>)
 *     MIXTURE      of `n_parts` base laws, each with its own mean and factor
 *     EMPIRICAL    uniform on the rows of `points`
 *     LOGISTIC     independent, distribution function 1 / (1 + exp(-z/size)) */
#define ES_LAWS(LAW)                                                                               \
    LAW(1, GAUSSIAN, gaussian)                                                                     \
    LAW(2, SPHERE, sphere)                                                                         \
    LAW(3, BALL, ball)                                                                             \
    LAW(4, CUBE, cube)                                                                             \
    LAW(5, RADEMACHER, rademacher)                                                                 \
    LAW(6, LAPLACE, laplace)                                                                       \
    LAW(7, STUDENT, student)                                                                       \
    LAW(8, VMF, vmf)                                                                               \
    LAW(9, MIXTURE, mixture)                                                                       \
    LAW(10, EMPIRICAL, empirical)                                                                  \
    LAW(11, LOGISTIC, logistic)

#define ES_LAW_VALUE_(number, upper, lower) ES_LAW_##upper = (number),
typedef enum es_law_kind { ES_LAWS(ES_LAW_VALUE_) } es_law_kind;

/* The names of all laws, for help: a comma follows each. */
#define ES_LAW_LISTED_(number, upper, lower) #lower ", "
#define ES_LAW_LIST                          ES_LAWS(ES_LAW_LISTED_)

typedef struct es_law {
    es_law_kind kind;
    int64_t dim;
    double size;             /* > 0; not looked at in mixtures and empirical laws */
    double freedom;          /* of Student t, > 0 */
    double concentration;    /* kappa of vMF, >= 0 */
    const double *direction; /* (dim) of vMF, not 0; normalised by its users */
    const double *mean;      /* (dim), NULL: 0 */
    const double *factor; /* B (dim, dim) row-major, NULL: identity. For a Gaussian any B with BB' =
                             covariance */
    const struct es_law *parts; /* (n_parts) of a mixture, all of dimension dim */
    const double *weights;      /* (n_parts), > 0, used after division by their sum */
    int64_t n_parts;
    const es_view *points;    /* (N, dim) of an empirical law */
    bool without_replacement; /* tokens 0, 1, ... are distinct points; at most N of them */
} es_law;

/*! es_law_check() : fails unless this is a law. Looks at every number, those of the points too:
 *  O(dim^2), or O(N dim). Fields that the kind does not use are not looked at. Thread-safe.
 *  @return : ES_OK;
 *   ES_E_ARGUMENT: law.kind, law.part (a part that is a mixture or empirical), law.parts
 *     and law.direction (no array), view.data and view.dtype (of points);
 *   ES_E_SHAPE: law.dim, law.part (dimension of a part), law.points, view.shape;
 *   ES_E_RANGE: law.size, law.freedom, law.concentration, law.direction (zero), law.weight;
 *   ES_E_NONFINITE (view.finite), with err->row, err->col: NaN or Inf in an array;
 *   ES_E_EMPTY: law.parts, law.points. */
es_status es_law_check(const es_law *law, es_error *err);

/* Members of es_law that a law looks at, beside dim, mean and factor. */
enum {
    ES_LAW_USES_SIZE = 1,
    ES_LAW_USES_FREEDOM = 2,
    ES_LAW_USES_CONCENTRATION = 4,
    ES_LAW_USES_DIRECTION = 8,
    ES_LAW_USES_PARTS = 16, /* parts, weights, n_parts */
    ES_LAW_USES_POINTS = 32 /* points, without_replacement */
};

/* What is true of a law before mean and factor (of a mixture: as long as its parts allow). */
enum {
    ES_LAW_BASE = 1,      /* may be a part of a mixture */
    ES_LAW_ENTIRE = 2,    /* K is finite everywhere */
    ES_LAW_QUADRATIC = 4, /* K is a polynomial of degree 2: the Gaussian */
    ES_LAW_PRODUCT = 8,   /* coordinates are independent */
    ES_LAW_ROUND = 16,    /* no rotation changes it */
    ES_LAW_SHADOW = 32,   /* a sphere, or the projection of one of more dimensions */
    ES_LAW_ON_SPHERE = 64 /* lies on the sphere of radius size, with a vMF density */
};

/*! es_law_uses(), es_law_traits() : of a kind, as sets of the above; 0 for a number that is no
 *  law. Pure functions. Kinds are numbered from 1 without a gap. */
unsigned es_law_uses(es_law_kind kind);
unsigned es_law_traits(es_law_kind kind);

/*! es_law_names : of every law, in the order of their kinds, which are counted from 1; NULL-ended.
 */
extern const char *const es_law_names[];

/*! es_law_name() : "gaussian", "sphere", ... ; "?" for a number that is no law.
 *  es_law_parse() : the reverse. @return : true if name is known. */
const char *es_law_name(es_law_kind kind);
bool es_law_parse(const char *name, es_law_kind *out);

#endif
