/* SPDX-License-Identifier: Apache-2.0 */
/* heat_drift.h : attention as heat run backwards: infinitely many keys, exactly.
 *
 * Keys of density f on the unit sphere S^{d-1}, a query q on it, inverse temperature beta.
 * Attention over infinitely many keys answers with a point near q, and the part of it that is
 * tangent to the sphere at q is exactly
 *
 *     (1/beta) grad log f_beta(q),      f_beta = f smoothed by the von Mises-Fisher law of
 *                                       concentration beta, log f_beta(q) = K(beta q) - K_d(beta),
 *
 * which for large beta is (1/beta) grad log f up to 1/beta^2. A token that moves by its own
 * attention output therefore climbs the density of the others: one step is the heat equation
 * backwards, d_t f = -Laplace f, for the time 1/beta, and many steps sharpen f into points (Scaling
 * Limits of Long-Context Transformers, arXiv 2605.08505; THEORY.md 6). While f is smooth, the mean
 * of the tokens grows like exp((d-1) t): the first harmonics are eigenfunctions.
 *
 * Laws of keys: the uniform law (ES_LAW_SPHERE), von Mises-Fisher (ES_LAW_VMF), and mixtures of
 * these, all with size 1, without mean and factor.
 */
#ifndef ES_THEORY_HEAT_DRIFT_H
#define ES_THEORY_HEAT_DRIFT_H

#include <stdint.h>

#include <esscher/exec.h>

#include "law/law.h"

enum { ES_HEAT_MOST_DIM = 64 };

/* Density and drift at one query. */
typedef struct es_heat_point {
    double log_density;  /* ln f(q), relative to the uniform law */
    double log_smoothed; /* ln f_beta(q) */
    double radial;       /* 1 - <output, q> */
} es_heat_point;

/*! es_heat_at() : at the unit vector q (dim): gradient (dim) gets grad log f, drift (dim) the
 * tangential part of the limit output; either may be NULL. O(parts dim). Thread-safe.
 *  @return : ES_OK; as es_law_check(); ES_E_UNSUPPORTED (heat.law) for another law; ES_E_RANGE for
 * dim outside [2, 64], beta not positive and finite, or a q whose norm is not 1 to 1e-9. */
es_status es_heat_at(const es_law *law, const double *q, double beta, double *gradient,
                     double *drift, es_heat_point *out, es_error *err);

/* What infinitely many keys give, over the same queries. */
typedef struct es_heat_exact {
    double slope, radial;
    double error; /* root mean square of beta drift - grad log f: falls like 1/beta */
    double size;  /* root mean square of grad log f */
} es_heat_exact;

/*! es_heat_exact_of() : exact (betas) over the queries (m, dim), unit vectors. */
es_status es_heat_exact_of(const es_law *law, const double *queries, int64_t m, const double *beta,
                           int64_t betas, es_heat_exact *exact, es_error *err);

/*! es_heat_fastest() : the degree l of the spherical harmonics that grow fastest out of a uniform
 * density of particles which move by their own attention, and their growth in one step to first
 * order,
 *     l (l+d-2)/beta A_d(beta) A_{d+2}(beta) ... A_{d+2l-2}(beta),
 * which on the circle is l^2/beta I_l(beta)/I_0(beta): about sqrt(2 beta) waves (THEORY 6). That
 * as many clusters form is a heuristic. growth may be NULL. O(sqrt(beta) + dim) time.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_RANGE for dim outside [2, 64] or beta outside (0, 1e6]. */
#define ES_HEAT_MOST_FASTEST 1e6
es_status es_heat_fastest(int64_t dim, double beta, int64_t *degree, double *growth, es_error *err);

/* What n keys give on average, over the same queries. Weights that few keys share are biased: the
 * slope is above that of infinitely many keys by about 1/(2 ESS) of itself (THEORY 6). */
typedef struct es_heat_finite {
    double slope, radial; /* expectations of those of es_heat_draw */
    double squares;       /* E sum w^2, mean over the queries */
    double defect;        /* of sum w = 1, the largest; all others are NaN if it is not below
                             ES_HEAT_DEFECT, as where the nearest key takes all */
} es_heat_finite;

#define ES_HEAT_DEFECT 1e-5

/*! es_heat_finite_of() : out (betas) for n independent keys, by quadrature to about 1e-8. Some 2 ms
 * for a query and a beta, up to 50 ms where weights freeze; same bits for any number of threads.
 *  @return : as es_heat_at(); ES_E_EMPTY if m or betas < 1; ES_E_RANGE for n outside [2, 10^15];
 * ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_heat_finite_of(const es_law *law, const double *queries, int64_t m, const double *beta,
                            int64_t betas, int64_t n, const es_exec *exec, es_heat_finite *out,
                            es_error *err);

#endif
