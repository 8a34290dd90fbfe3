/* SPDX-License-Identifier: Apache-2.0 */
/* heat_finite.c : drift and radial part of attention over n keys on the sphere, exactly (THEORY 6).
 *
 * With s = e^{beta <q,k> - beta + L}, 1/Z = int e^{-lambda Z} dlambda (THEORY 4.2) makes of the
 * ratio of two sums over the same keys an integral of averages over one key,
 *
 *     E sum w_i g(k_i) = n int E[g s e^-s] phi^{n-1} dL,        phi(L) = E e^-s.
 *
 * What matters of a key is x = beta (1 - <q,k>) and its mean beside q given x. For k = cos(t) q +
 * sin(t) omega, omega uniform on S^{d-2}, a von Mises-Fisher law has, with m = |mu beside q|,
 *
 *     density of t   c sin^{d-2}(t) e^{kappa <mu,q> cos t + K_{d-1}(kappa m sin t) - K_d(kappa)}
 *     E[omega | t]   A_{d-1}(kappa m sin t) (mu beside q)/m.
 *
 * The integrand in L is analytic in a strip of half width pi/2: the trapezoidal rule of step 0.3
 * errs by e^{-pi^2/0.3} = 5e-15. g = 1 must give 1, and what that misses is returned. */
#include "theory/heat_drift.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "law/bessel.h"
#include "stats/special.h"
#include "theory/quadrature.h"

#define STEP 0.3
#define LOW  14.0 /* below this under its peak the integrand is e^L, to 1e-6 of itself */
#define OUT  3.5  /* s = e^OUT: e^-s is nothing */
#define FAR  34.0 /* n s = e^-FAR is nothing */

enum { GAUSS = 12, MOST_PANELS = 1024, MOST_NODES = GAUSS * MOST_PANELS };

/* Keys by their distance, panel by panel as far as they were needed. */
typedef struct ladder {
    const es_law *law;
    const double *q, *gradient; /* (dim) */
    double beta, width;         /* of a panel, in x */
    double log_c;               /* ln of the constant of sin^{d-2} */
    double gauss[GAUSS], weight[GAUSS];
    double *x, *probability, *pull; /* (MOST_NODES) pull: probability times E[<k, gradient> | x] */
    int64_t count, panels;
} ladder;

/* ---- one key ---- */

/* Returns the parts of a mixture, or the law itself as its only part. */
static int64_t parts_of(const es_law *law, const es_law **parts)
{
    const bool mixture = es_law_uses(law->kind) & ES_LAW_USES_PARTS;
    *parts = mixture ? law->parts : law;
    return mixture ? law->n_parts : 1;
}

/* Density at the angle t, and times sin(t) E[<omega, gradient> | t], of one part; the gradient is
 * beside q, so that <mu beside q, gradient> = <mu, gradient>. */
static es_status part_at(const ladder *l, const es_law *part, double t, double *density,
                         double *pull, es_error *err)
{
    const int64_t d = part->dim;
    const double shape = d > 2 ? (double)(d - 2) * log(sin(t)) : 0.0;
    double along = 0.0, norm2 = 0.0, climb = 0.0;
    const bool vmf = (es_law_uses(part->kind) & ES_LAW_USES_DIRECTION) && part->concentration > 0.0;
    *pull = 0.0;
    *density = exp(l->log_c + shape);
    if (!vmf)
        return ES_OK;
    for (int64_t i = 0; i < d; i++) {
        along += part->direction[i] * l->q[i];
        climb += part->direction[i] * l->gradient[i];
        norm2 += part->direction[i] * part->direction[i];
    }
    along /= sqrt(norm2);
    const double m = sqrt(fmax(0.0, 1.0 - along * along)), kappa = part->concentration;
    es_num K, inside, ratio;
    ES_TRY(es_bessel_log_mgf(d, kappa, &K, err));
    ES_TRY(es_bessel_log_mgf(d - 1, kappa * m * sin(t), &inside, err));
    ES_TRY(es_bessel_ratio(d - 1, kappa * m * sin(t), &ratio, err));
    *density = exp(l->log_c + shape + kappa * along * cos(t) + inside.val - K.val);
    if (m > 0.0)
        *pull = *density * sin(t) * ratio.val * climb / sqrt(norm2) / m;
    return ES_OK;
}

/* Computes density and mean pull of keys at the distance t from the query, summed over the
 * parts. */
static es_status key_at(const ladder *l, double t, double *density, double *pull, es_error *err)
{
    const es_law *parts;
    const int64_t count = parts_of(l->law, &parts);
    double total = 0.0, f, g;
    *density = *pull = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double weight = count > 1 ? l->law->weights[j] : 1.0;
        ES_TRY(part_at(l, &parts[j], t, &f, &g, err));
        *density += weight * f;
        *pull += weight * g;
        total += weight;
    }
    *density /= total;
    *pull /= total;
    return ES_OK;
}

/* ---- the ladder ---- */

/* Returns the angle at which beta (1 - cos) is x. */
static double angle_of(const ladder *l, double x)
{
    return 2.0 * asin(sqrt(fmin(1.0, 0.5 * x / l->beta)));
}

/* Panels up to x, as far as they fit; in the angle, in which densities are smooth at 0. */
static es_status reach(ladder *l, double x, es_error *err)
{
    const double all = 2.0 * l->beta;
    while (l->panels < MOST_PANELS && l->width * (double)l->panels < fmin(x, all)) {
        const double from = l->width * (double)l->panels, to = fmin(all, from + l->width);
        const double low = angle_of(l, from), span = angle_of(l, to) - low;
        for (int i = 0; i < GAUSS; i++, l->count++) {
            const double t = low + span * l->gauss[i], half = sin(0.5 * t);
            double density, pull;
            ES_TRY(key_at(l, t, &density, &pull, err));
            l->x[l->count] = 2.0 * l->beta * half * half;
            l->probability[l->count] = span * l->weight[i] * density;
            l->pull[l->count] = span * l->weight[i] * pull;
        }
        l->panels++;
    }
    return ES_OK;
}

/* Panels are as narrow as e^-s in x (analytic for |Im x| < pi/2) and the densities need. */
static void begin_ladder(ladder *l, double *memory)
{
    const es_law *parts;
    const int64_t count = parts_of(l->law, &parts);
    const double d = (double)l->law->dim;
    double kappa = 0.0;
    for (int64_t j = 0; j < count; j++)
        kappa = fmax(kappa, parts[j].concentration);
    l->width = fmin(2.0 / (1.0 + kappa / l->beta), 2.0 * l->beta / 24.0);
    l->log_c =
        es_log_gamma(0.5 * d) - es_log_gamma(0.5 * (d - 1.0)) - 0.5 * log(3.14159265358979323846);
    es_legendre(GAUSS, 0.0, 1.0, l->gauss, l->weight);
    l->x = memory;
    l->probability = memory + MOST_NODES;
    l->pull = memory + 2 * MOST_NODES;
}

/* ---- one query ---- */

/* Sums over keys: weights, their squares, distances and pull. */
typedef struct sums {
    double one, squares, distance, pull;
} sums;

/* All of it at one L. `first` and `gone`: nodes that are so near that their e^-s is 0, and their
 * probability. @return : J = 1 - phi. */
static double kernel_at(const ladder *l, double L, int64_t *first, double *gone, sums *out)
{
    double J = 0.0;
    *out = (sums){0};
    while (*first < l->count && l->x[*first] < L - OUT)
        *gone += l->probability[(*first)++];
    for (int64_t i = *first; i < l->count; i++) {
        const double s = exp(L - l->x[i]), miss = -expm1(-s), a = s * (1.0 - miss);
        J += l->probability[i] * miss;
        out->one += l->probability[i] * a;
        out->squares += l->probability[i] * a * s;
        out->distance += l->probability[i] * a * l->x[i];
        out->pull += l->pull[i] * a;
    }
    return fmin(1.0, J + *gone);
}

/* Adds weighted sums. */
static void add(sums *to, const sums *from, double weight)
{
    to->one += weight * from->one;
    to->squares += weight * from->squares;
    to->distance += weight * from->distance;
    to->pull += weight * from->pull;
}

/* `peak`: -ln(n E e^-x), from where on 1/Z counts. */
static es_status integrate(ladder *l, double n, double peak, sums *out, es_error *err)
{
    double gone = 0.0;
    int64_t first = 0;
    *out = (sums){0};
    for (int64_t k = 0;; k++) {
        const double L = peak - LOW + STEP * (double)k;
        sums here;
        ES_TRY(reach(l, L + FAR + log(n), err));
        const double J = kernel_at(l, L, &first, &gone, &here);
        const double none = (n - 1.0) * log1p(-J);           /* ln phi^{n-1}; -inf at J = 1 */
        const double lowest = k ? 1.0 : 1.0 / -expm1(-STEP); /* a geometric sum of what is below */
        if (none > -40.0)
            add(out, &here, n * STEP * lowest * exp(none));
        if (none <= -40.0 || first == l->count) /* every key is nearer, or all panels are used */
            return ES_OK;
    }
}

/* ---- all queries ---- */

/* Queries and betas that threads share. */
typedef struct job {
    const es_law *law;
    const double *queries, *beta;
    int64_t m, betas, n;
    double *each;    /* (m, betas, NUMBERS): defect, squares, radial, pull, |gradient|^2 */
    double *scratch; /* (threads, 3 MOST_NODES) */
} job;

enum { NUMBERS = 5 };

/* Computes drift and weights for n keys of one query at one beta, by integrals over their
 * distance. */
static es_status run_one(void *user, int64_t unit, int thread, es_error *err)
{
    job *j = user;
    const double *q = j->queries + unit / j->betas * j->law->dim, beta = j->beta[unit % j->betas];
    double gradient[ES_HEAT_MOST_DIM], *out = j->each + unit * NUMBERS, size2 = 0.0;
    es_heat_point p;
    es_num uniform;
    sums s;
    ES_TRY(es_heat_at(j->law, q, beta, gradient, NULL, &p, err));
    ES_TRY(es_bessel_log_mgf(j->law->dim, beta, &uniform, err));
    ladder l = {.law = j->law, .q = q, .gradient = gradient, .beta = beta};
    begin_ladder(&l, j->scratch + (int64_t)thread * 3 * MOST_NODES);
    const double peak = beta - p.log_smoothed - uniform.val - log((double)j->n);
    ES_TRY(integrate(&l, (double)j->n, peak, &s, err));
    for (int64_t c = 0; c < j->law->dim; c++)
        size2 += gradient[c] * gradient[c];
    memcpy(out,
           (double[NUMBERS]){fabs(s.one - 1.0), s.squares, s.distance / beta, beta * s.pull, size2},
           NUMBERS * sizeof *out);
    return ES_OK;
}

/* In the order of the queries: the same bits for any number of threads. */
static es_heat_finite gather(const job *j, int64_t b)
{
    es_heat_finite f = {0};
    double pull = 0.0, size2 = 0.0;
    const double m = (double)j->m;
    for (int64_t i = 0; i < j->m; i++) {
        const double *one = j->each + (i * j->betas + b) * NUMBERS;
        f.defect = fmax(f.defect, one[0]);
        f.squares += one[1] / m;
        f.radial += one[2] / m;
        pull += one[3];
        size2 += one[4];
    }
    f.slope = size2 > 0.0 ? pull / size2 : (double)NAN;
    if (!(f.defect < ES_HEAT_DEFECT))
        f.slope = f.radial = f.squares = (double)NAN;
    return f;
}

es_status es_heat_finite_of(const es_law *law, const double *queries, int64_t m, const double *beta,
                            int64_t betas, int64_t n, const es_exec *exec, es_heat_finite *out,
                            es_error *err)
{
    if (m < 1 || betas < 1)
        return es_fail(err, ES_E_EMPTY, "heat.count", "", "no query or no beta is given");
    if (n < 2 || n > INT64_C(1000000000000000))
        return es_fail(err, ES_E_RANGE, "heat.n", "from 2 to 1e15", "n is %lld", (long long)n);
    job j = {law, queries, beta, m, betas, n, NULL, NULL};
    es_arena arena = {.budget = exec ? exec->budget : NULL};
    es_status status = ES_ARENA_NEW_2D(&arena, j.each, m * betas, NUMBERS, "drifts", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW_2D(&arena, j.scratch, es_parallel_threads(exec, m * betas),
                                 3 * MOST_NODES, "nodes", err);
    if (status == ES_OK)
        status = es_parallel_run(exec, m * betas, run_one, &j, err);
    for (int64_t b = 0; b < betas && status == ES_OK; b++)
        out[b] = gather(&j, b);
    es_arena_free(&arena);
    return status;
}
