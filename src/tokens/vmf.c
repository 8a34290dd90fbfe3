/* vmf.c : von Mises and Fisher's law, by Wood's (1994) correction of Ulrich's method.
 *
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
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "random/elementary.h"
#include "tokens/sampler.h"

enum {
    ATTEMPTS = 64,       /* each kept with probability above 0.65, worst in the plane */
    ATTEMPT_LANES = 256, /* 128 for the beta, then one for U */
    LANE_U = 128,
    CHUNK = 128 /* tokens whose first attempts are made together */
};

_Static_assert(ES_LANE_ATTEMPT + ATTEMPTS * ATTEMPT_LANES <= ES_TOKENS_LANES, "lanes of a token");

/* The reflection that takes (1, 0, ..., 0) to -+direction: H = I - r r'/divisor, r = e1 +- mu, with
 * the sign that does not cancel; the other sign is given back afterwards. */
static void prepare_reflection(es_sampler *s)
{
    const int64_t dim = s->law.dim;
    const double *mu = s->law.direction;
    double *r = s->reflection, largest = 0.0, sum = 0.0;
    for (int64_t i = 0; i < dim; i++)
        largest = fabs(mu[i]) > largest ? fabs(mu[i]) : largest;
    for (int64_t i = 0; i < dim; i++)
        sum += (mu[i] / largest) * (mu[i] / largest);
    const double sign = mu[0] < 0.0 ? -1.0 : 1.0, norm = sqrt(sum);
    for (int64_t i = 0; i < dim; i++)
        r[i] = sign * (mu[i] / largest / norm);
    r[0] += 1.0;
    s->vmf.sign = -sign;
    s->vmf.divisor = r[0]; /* |r|^2/2 = 1 + |mu_0| */
}

es_status es_vmf_prepare(es_sampler *s, es_error *err)
{
    void *memory;
    const double kappa = s->law.concentration, m = (double)(s->law.dim - 1);
    if (kappa > 1e15)
        return es_fail(err, ES_E_RANGE, "tokens.concentration", "use at most 1e15",
                       "concentration is %g", kappa);
    ES_TRY(es_mem_array(s->budget, s->law.dim, 1, sizeof(double), "a direction", &memory, err));
    s->reflection = memory;
    prepare_reflection(s);
    s->vmf.kappa = kappa;
    s->vmf.m = m;
    if (m == 0.0)
        return ES_OK;
    const double root = sqrt(4.0 * kappa * kappa + m * m), sum = 2.0 * kappa + root;
    const double rest = (2.0 * kappa + 4.0 * kappa * kappa / (root + m)) / sum; /* 1 - b */
    s->vmf.b = m / sum;
    s->vmf.gap = 2.0 * s->vmf.b / (1.0 + s->vmf.b);
    s->vmf.mode = rest / (1.0 + s->vmf.b);
    return ES_OK;
}

/* 1 - w of the proposal z, or -1 if U = exp(-e) does not keep it. */
static double attempt(const es_vmf *c, double z, double e)
{
    double v = 2.0 * c->b * z / ((1.0 - z) + c->b * z);
    v = v < 2.0 ? v : 2.0;
    const double ratio = (1.0 + c->mode * (v / c->gap)) / (1.0 + c->mode);
    return e + c->kappa * (c->gap - v) - c->m * es_negative_log(ratio) >= 0.0 ? v : -1.0;
}

/* z and e of attempt k of `count` tokens. */
static es_status proposals(const es_vmf *c, const es_address *first, int64_t count, uint32_t k,
                           double *z, double *e, es_error *err)
{
    es_address at = es_token_at(first, 0, ES_LANE_ATTEMPT + k * ATTEMPT_LANES);
    ES_TRY(es_beta_rows(&at, count, 1, 0.5 * c->m, 0.5 * c->m, z, err));
    at.lane += LANE_U;
    return es_exponential_rows(&at, count, 1, e, err);
}

/* v = 1 - cosine of count <= CHUNK tokens. Should all attempts of a token fail (probability below
 * 1e-29), it gets the most likely place of the proposal. */
static es_status cosine_gaps(const es_vmf *c, const es_address *first, int64_t count, double *v,
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
static void turn(const es_sampler *s, double *x)
{
    double dot = 0.0;
    for (int64_t j = 0; j < s->law.dim; j++)
        dot += s->reflection[j] * x[j];
    dot /= s->vmf.divisor;
    for (int64_t j = 0; j < s->law.dim; j++)
        x[j] = s->vmf.sign * s->law.size * (x[j] - dot * s->reflection[j]);
}

/* In one dimension the sphere is two points. */
static es_status two_points(const es_sampler *s, const es_address *first, int64_t count,
                            double *out, es_error *err)
{
    const es_address at = es_token_at(first, 0, ES_LANE_ATTEMPT);
    const double odds = es_exp(-2.0 * s->vmf.kappa), sign = -s->vmf.sign;
    ES_TRY(es_uniform_rows(&at, count, 1, out, err));
    for (int64_t i = 0; i < count; i++)
        out[i] = (out[i] < odds / (1.0 + odds) ? -sign : sign) * s->law.size;
    return ES_OK;
}

es_status es_base_vmf(const es_sampler *s, const es_address *first, int64_t count,
                      const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    const int64_t dim = s->law.dim, rest = dim - 1;
    double v[CHUNK];
    if (rest == 0)
        return two_points(s, first, count, out, err);
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, ES_LANE_COORDINATES);
        double *rows = out + i * dim;
        ES_TRY(cosine_gaps(&s->vmf, &at, n, v, err));
        ES_TRY(es_sphere_rows(&at, n, rest, rows, err));
        for (int64_t r = n - 1; r >= 0; r--) { /* from the last, so that rows make way */
            double *x = rows + r * dim;
            const double sine = sqrt(v[r] * (2.0 - v[r]));
            memmove(x + 1, rows + r * rest, (size_t)rest * sizeof *x);
            x[0] = 1.0 - v[r];
            for (int64_t j = 1; j < dim; j++)
                x[j] *= sine;
            turn(s, x);
        }
    }
    return ES_OK;
}
