/* SPDX-License-Identifier: Apache-2.0 */
/* policy_nodes.c : nodes of draws with replacement, and of keys kept each on its own. */
#include "risk/policy_terms.h"

#include <math.h>

#include <esscher/exec.h>

#include "risk/damping.h"

/* Clears the sums of a node. */
static void clear(const es_risk_terms *r, es_risk_node *out)
{
    out->log_mean = -(double)INFINITY;
    out->square = out->some = out->once = 0.0;
    for (int64_t l = 0; l < r->width; l++)
        out->mean[l] = 0.0;
}

/* Adds a key's vector, times a factor. */
static void add(const es_risk_terms *r, int64_t j, double times, double *to)
{
    const double *u = r->u + j * r->width;
    for (int64_t l = 0; l < r->width; l++)
        to[l] += times * u[l];
}

/* ---- with replacement ---- */

/* N_F is divided among the m draws, g = x u + (x_F/m) n_F, so that l N is the sum of m of them and
 * every term of
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

/* Returns the fastest of the compiled versions that this CPU has; all give the same bits. */
static es_risk_each_fn *best_each(void)
{
    return es_isa_available(ES_ISA_AVX512) ? es_risk_each_avx512
           : es_isa_available(ES_ISA_AVX2) ? es_risk_each_avx2
                                           : es_risk_each_portable;
}

/* Computes ES_RISK_NODES nodes at once for independent retention: the sums over random keys by
 * the best kernel of this CPU, then the keys that are always kept, whose part is e^(-l Z_F) N_F
 * (THEORY 13). */
static void each(const es_risk_terms *r, double t, double step, es_risk_node *out)
{
    for (int64_t i = 0; i < ES_RISK_NODES; i++)
        clear(r, &out[i]);
    best_each()(r, t, step, out);
    for (int64_t i = 0; i < ES_RISK_NODES; i++) {
        const double log_sure = t + step * (double)i + r->log_sure, sure = exp(log_sure);
        if (log_sure > ES_DAMPING_LARGEST) {
            clear(r, &out[i]); /* e^{-x_F} is zero */
            continue;
        }
        for (int64_t l = 0; l < r->width; l++) {
            out[i].mean[l] += sure * r->sure[l];
            out[i].square += out[i].mean[l] * out[i].mean[l];
        }
    }
}

int64_t es_risk_nodes_of(const es_risk_terms *terms)
{
    return terms->chance == ES_CHANCE_EACH ? ES_RISK_NODES : 1;
}

void es_risk_nodes_at(es_risk_terms *terms, double t, double step, es_risk_node *out)
{
    if (terms->chance == ES_CHANCE_EACH)
        each(terms, t, step, out);
    else if (terms->log_sure + t > ES_DAMPING_LARGEST)
        clear(terms, out);
    else if (terms->chance == ES_CHANCE_WITH)
        with_replacement(terms, t, out);
    else
        es_risk_without_at(terms, t, out);
}
