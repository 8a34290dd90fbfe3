/* SPDX-License-Identifier: Apache-2.0 */
/* law_vmf.c : von Mises and Fisher's law on the sphere of radius `size`.
 *
 * Its density e^{kappa <mu, u>} is itself a tilt of the uniform law, and tilts add up: K(s) =
 * K_d(|kappa mu + size s|) - K_d(kappa) (THEORY 1).
 *
 * Drawing, by Wood's (1994) correction of Ulrich's method.
 * With m = dim - 1, the cosine w = <direction, u> has density proportional to
 * (1-w^2)^(m/2-1) e^(kappa w). Wood proposes w = (1 - (1+b) z) / (1 - (1-b) z) with z ~
 * Beta(m/2, m/2) and keeps it if
 *     kappa w + m log(1 - x0 w) - kappa x0 - m log(1 - x0^2) >= log U,   x0 = (1-b)/(1+b).
 * For large kappa all cosines are next to 1, and these differences are noise. So everything is
 * written in v = 1 - w and v0 = 1 - x0 = 2b/(1+b), which stay accurate:
 *     v = 2bz / (1 - z + bz),
 *     kappa (v0 - v) + m log((1 + x0 v/v0) / (1 + x0)) >= log U.
 * For kappa = 0, b is 1, x0 is 0, and the first proposal is always kept: the uniform law.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "law/law_row.h"
#include "random/elementary.h"
#include "random/random.h"

enum {
    ATTEMPTS = 64,       /* each kept with probability above 0.65, worst in the plane */
    ATTEMPT_LANES = 256, /* 128 for the beta, then one for U */
    LANE_U = 128,
    CHUNK = 128 /* tokens whose first attempts are made together */
};

_Static_assert(ES_LANE_ATTEMPT + ATTEMPTS * ATTEMPT_LANES <= ES_LANE_END, "lanes of a token");

/* Wood's constants, and the reflection. */
typedef struct wood {
    double kappa, m;      /* m = dim - 1 */
    double b;             /* of the proposal */
    double gap, mode;     /* 1 - x0 and x0, where the proposal touches */
    double sign, divisor; /* of the reflection */
    double reflection[];  /* (dim) */
} wood;

/* Checks concentration and direction. */
static es_status check(const es_law *law, es_error *err)
{
    if (!(law->concentration >= 0.0) || !isfinite(law->concentration))
        return es_fail(err, ES_E_RANGE, "law.concentration", "kappa is not negative",
                       "concentration is %g", law->concentration);
    if (!law->direction)
        return es_fail(err, ES_E_ARGUMENT, "law.direction", "give a vector of dimension dim",
                       "a vMF law has no direction");
    /* The scan's norm neither overflows nor vanishes: any direction but 0 will do. */
    es_scan scan;
    const es_view direction = es_view_f64(law->direction, 1, law->dim);
    ES_TRY(es_view_scan(&direction, "direction", &scan, err));
    if (scan.max_abs == 0.0)
        return es_fail(err, ES_E_RANGE, "law.direction", "give a vector that is not zero",
                       "the direction of a vMF law is zero");
    return ES_OK;
}

/* ---- drawing ---- */

/* The reflection that takes (1, 0, ..., 0) to -+direction: H = I - r r'/divisor, r = e1 +- mu, with
 * the sign that does not cancel; the other sign is given back afterwards. */
static void prepare_reflection(const es_law *law, wood *c)
{
    const int64_t dim = law->dim;
    const double *mu = law->direction;
    double *r = c->reflection, largest = 0.0, sum = 0.0;
    for (int64_t i = 0; i < dim; i++)
        largest = fabs(mu[i]) > largest ? fabs(mu[i]) : largest;
    for (int64_t i = 0; i < dim; i++)
        sum += (mu[i] / largest) * (mu[i] / largest);
    const double sign = mu[0] < 0.0 ? -1.0 : 1.0, norm = sqrt(sum);
    for (int64_t i = 0; i < dim; i++)
        r[i] = sign * (mu[i] / largest / norm);
    r[0] += 1.0;
    c->sign = -sign;
    c->divisor = r[0]; /* |r|^2/2 = 1 + |mu_0| */
}

/* Prepares Wood's rejection method for the cosine between token and direction. */
static es_status prepare(es_source *s, es_error *err)
{
    const double kappa = s->law.concentration, m = (double)(s->law.dim - 1);
    if (kappa > 1e15)
        return es_fail(err, ES_E_RANGE, "tokens.concentration", "use at most 1e15",
                       "concentration is %g", kappa);
    ES_TRY(ES_MEM_BYTES(s->budget, s->own, sizeof(wood) + (size_t)s->law.dim * sizeof(double),
                        "a direction", err));
    wood *c = s->own;
    prepare_reflection(&s->law, c);
    c->kappa = kappa;
    c->m = m;
    if (m == 0.0)
        return ES_OK;
    const double root = sqrt(4.0 * kappa * kappa + m * m), sum = 2.0 * kappa + root;
    const double rest = (2.0 * kappa + 4.0 * kappa * kappa / (root + m)) / sum; /* 1 - b */
    c->b = m / sum;
    c->gap = 2.0 * c->b / (1.0 + c->b);
    c->mode = rest / (1.0 + c->b);
    return ES_OK;
}

/* 1 - w of the proposal z, or -1 if U = exp(-e) does not keep it. */
static double attempt(const wood *c, double z, double e)
{
    double v = 2.0 * c->b * z / ((1.0 - z) + c->b * z);
    v = v < 2.0 ? v : 2.0;
    const double ratio = (1.0 + c->mode * (v / c->gap)) / (1.0 + c->mode);
    return e + c->kappa * (c->gap - v) - c->m * es_negative_log(ratio) >= 0.0 ? v : -1.0;
}

/* z and e of attempt k of `count` tokens. */
static es_status proposals(const wood *c, const es_address *first, int64_t count, uint32_t k,
                           double *z, double *e, es_error *err)
{
    es_address at = es_token_at(first, 0, ES_LANE_ATTEMPT + k * ATTEMPT_LANES);
    ES_TRY(es_beta_rows(&at, count, 1, 0.5 * c->m, 0.5 * c->m, z, err));
    at.lane += LANE_U;
    return es_exponential_rows(&at, count, 1, e, err);
}

/* v = 1 - cosine of count <= CHUNK tokens. Should all attempts of a token fail (probability below
 * 1e-29), it gets the most likely place of the proposal. */
static es_status cosine_gaps(const wood *c, const es_address *first, int64_t count, double *v,
                             es_error *err)
{
    double z[CHUNK], e[CHUNK];
    ES_TRY(proposals(c, first, count, 0, z, e, err));
    for (int64_t i = 0; i < count; i++) {
        v[i] = attempt(c, z[i], e[i]);
        const es_address at = es_token_at(first, i, 0);
        for (uint32_t k = 1; v[i] < 0.0 && k < ATTEMPTS; k++) {
            ES_TRY(proposals(c, &at, 1, k, z + i, e + i, err));
            v[i] = attempt(c, z[i], e[i]);
        }
        v[i] = v[i] < 0.0 ? c->gap : v[i];
    }
    return ES_OK;
}

/* x (dim) = (cosine, a vector of the other coordinates), turned to the direction and scaled. */
static void turn(const es_source *s, double *x)
{
    const wood *c = s->own;
    double dot = 0.0;
    for (int64_t j = 0; j < s->law.dim; j++)
        dot += c->reflection[j] * x[j];
    dot /= c->divisor;
    for (int64_t j = 0; j < s->law.dim; j++)
        x[j] = c->sign * s->law.size * (x[j] - dot * c->reflection[j]);
}

/* In one dimension the sphere is two points. */
static es_status two_points(const es_source *s, const es_address *first, int64_t count, double *z,
                            es_error *err)
{
    const wood *c = s->own;
    const es_address at = es_token_at(first, 0, ES_LANE_ATTEMPT);
    const double odds = es_exp(-2.0 * c->kappa), sign = -c->sign;
    ES_TRY(es_uniform_rows(&at, count, 1, z, err));
    for (int64_t i = 0; i < count; i++)
        z[i] = (z[i] < odds / (1.0 + odds) ? -sign : sign) * s->law.size;
    return ES_OK;
}

/* Draws the cosine by rejection and a uniform direction in the orthogonal complement. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    const int64_t dim = s->law.dim, rest = dim - 1;
    double v[CHUNK];
    if (rest == 0)
        return two_points(s, first, count, z, err);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, ES_LANE_COORDINATES);
        double *part = z + i * dim;
        ES_TRY(cosine_gaps(s->own, &at, n, v, err));
        ES_TRY(es_sphere_rows(&at, n, rest, part, err));
        for (int64_t r = n - 1; r >= 0; r--) { /* from the last, so that rows make way */
            double *x = part + r * dim;
            const double sine = sqrt(v[r] * (2.0 - v[r]));
            memmove(x + 1, part + r * rest, (size_t)rest * sizeof *x);
            x[0] = 1.0 - v[r];
            for (int64_t j = 1; j < dim; j++)
                x[j] *= sine;
            turn(s, x);
        }
    }
    return ES_OK;
}

/* ---- tilting ---- */

/* Computes K(s) = ln I(|kappa m + s|) - ln I(kappa), I the Bessel function of the sphere: tilting
 * a von Mises-Fisher law gives another one. */
static es_status tilt(const es_law *law, const double *s, double *v, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)budget, (void)err;
    const int64_t d = law->dim;
    const double kappa = law->concentration;
    const double length = kappa > 0.0 ? es_tilt_norm(law->direction, d) : 1.0;
    for (int64_t i = 0; i < d; i++)
        v[i] = law->size * s[i] + (kappa > 0.0 ? kappa * (law->direction[i] / length) : 0.0);
    const double v_err = DBL_EPSILON * (law->size * es_tilt_norm(s, d) + (double)(d + 6) * kappa);
    es_tilt_radial(d, law->size, v, d, v_err, out);
    if (kappa > 0.0) {
        const es_num zero = es_bessel_log(d, kappa);
        out->K -= zero.val;
        out->K_err += zero.err + DBL_EPSILON * fabs(out->K);
    }
    return ES_OK;
}

/* Returns the concentration with the sign of the direction, for dimension 1. */
static double lean(const es_law *law) { return copysign(law->concentration, *law->direction); }

const es_law_row es_law_row_vmf = {.kind = ES_LAW_VMF,
                                   .name = "vmf",
                                   .title = "von Mises-Fisher",
                                   .uses = ES_LAW_USES_SIZE | ES_LAW_USES_CONCENTRATION |
                                           ES_LAW_USES_DIRECTION,
                                   .traits = ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_ON_SPHERE,
                                   .check = check,
                                   .prepare = prepare,
                                   .rows = rows,
                                   .tilt = tilt,
                                   .lean = lean};
