/* policy_nodes.c : nodes of draws with replacement, and of keys kept each on its own. */
#include "theory/policy_terms.h"

#include <math.h>

#include "theory/damping.h"

static void clear(const es_risk_terms *r, es_risk_node *out)
{
    out->log_mean = -(double)INFINITY;
    out->square = out->some = out->once = 0.0;
    for (int64_t l = 0; l < r->width; l++)
        out->mean[l] = 0.0;
}

static void add(const es_risk_terms *r, int64_t j, double times, double *to)
{
    const double *u = r->u + j * r->width;
    for (int64_t l = 0; l < r->width; l++)
        to[l] += times * u[l];
}

/* ---- with replacement ---- */

/* N_F is shared out among the m draws, g = x u + (x_F/m) n_F, so that l N is the sum of m of them
 * and every term of
 *
 *     E |lN|^2 e^{-lZ} = m E g^2 e^{-x} a^{m-1} + m(m-1) |E g e^{-x}|^2 a^{m-2},   a = E e^{-x},
 *
 * is positive. */
static void with_replacement(const es_risk_terms *r, double t, es_risk_node *out)
{
    const double m = r->draws, count = (double)r->count;
    const double share = exp(t + r->log_sure) / m;
    double a = 0.0, lost = 0.0, square = 0.0, norm2 = 0.0;
    clear(r, out);
    for (int64_t j = 0; j < r->count; j++) {
        const es_damping d = es_damping_at(t + r->s[j]);
        const double once = d.x * d.kept;
        a += d.kept;
        lost += d.lost;
        out->some += d.x > 0.0 ? d.kept : 0.0;
        out->once += once;
        square +=
            once * (d.x * r->u2[j] + 2.0 * share * r->along[j]) + d.kept * share * share * r->sure2;
        if (once > 0.0)
            add(r, j, once, out->mean);
    }
    if (!(a > 0.0)) {
        clear(r, out);
        return;
    }
    for (int64_t l = 0; l < r->width; l++) {
        out->mean[l] = out->mean[l] / a + share * r->sure[l];
        norm2 += out->mean[l] * out->mean[l];
        out->mean[l] *= m;
    }
    out->log_mean = m * (a < 0.5 * count ? log(a / count) : log1p(-lost / count));
    out->square = m * fmax(square, 0.0) / a + m * (m - 1.0) * norm2;
    out->some *= m / a;
    out->once *= m / a;
}

/* ---- each on its own ---- */

/* ln(1 - p + p e^{-x}). */
static double log_left(double p, double log_x, const es_damping *d)
{
    if (p >= 1.0)
        return -exp(log_x);
    return p * d->lost < 0.5 ? log1p(-p * d->lost) : log(1.0 - p + p * d->kept);
}

/* A key is kept with the tilted probability q = p e^{-x}/(1 - p + p e^{-x}): the square of the mean
 * of l N, and the variance sum q (1 - q) |x u|^2. */
static void each(const es_risk_terms *r, double t, es_risk_node *out)
{
    const double sure = exp(t + r->log_sure);
    clear(r, out);
    double log_mean = 0.0, square = 0.0;
    for (int64_t j = 0; j < r->count; j++) {
        const double p = r->p[j];
        const es_damping d = es_damping_at(t + r->s[j]);
        log_mean += log_left(p, t + r->s[j], &d);
        const double left = 1.0 - p + p * d.kept;
        if (!(d.x > 0.0) || !(left > 0.0))
            continue;
        const double q = p * d.kept / left;
        out->some += q;
        out->once += q * d.x;
        square += q * ((1.0 - p) / left) * d.x * d.x * r->u2[j];
        add(r, j, q * d.x, out->mean);
    }
    for (int64_t l = 0; l < r->width; l++) {
        out->mean[l] += sure * r->sure[l];
        square += out->mean[l] * out->mean[l];
    }
    out->log_mean = log_mean;
    out->square = square;
}

void es_risk_node_at(es_risk_terms *terms, double t, es_risk_node *out)
{
    if (terms->log_sure + t > ES_DAMPING_LARGEST)
        clear(terms, out); /* e^{-x_F} is zero */
    else if (terms->chance == ES_CHANCE_WITH)
        with_replacement(terms, t, out);
    else if (terms->chance == ES_CHANCE_EACH)
        each(terms, t, out);
    else
        es_risk_without_at(terms, t, out);
}
