/* SPDX-License-Identifier: Apache-2.0 */
/* key_average.c : the output while many keys share the weight, for keys with parts and values V.
 *
 * The output is a ratio of means over n keys, N/Z with N = sum e^{beta <q,k>} k, Z = sum e^{beta
 * <q,k>}. Its limit is the mean of the keys' law tilted by beta q, m_1 = grad K(beta q): for a part
 * vMF(kappa, mu) the law is again vMF, of natural parameter kappa mu + beta q (THEORY 1). With D =
 * e^{K(2 beta q) - 2 K(beta q)}, m_2 and C_2 mean and covariance of the law tilted by 2 beta q, the
 * delta method gives (THEORY 3 at s = t, THEORY 6)
 *
 *     n Cov -> E[e^{2 beta <q,k>} (k - m_1)(k - m_1)'] / (E e^{beta <q,k>})^2
 *            = D (C_2 + (m_2 - m_1)(m_2 - m_1)'),
 *     n (E output - m_1) -> -D (m_2 - m_1).
 */
#include "theory/key_weights.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "base/view_at.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "tokens/keys_law.h"

/* Derivatives of K along the query, at beta and at 2 beta. */
typedef struct tilts {
    int64_t d;
    double *t, *m1, *m2, *cov; /* (d), (d), (d), (d, d) */
    double spread;
} tilts;

/* Fails unless the keys have a log-MGF in closed form and n, beta and the columns of V are in
 * range. */
static es_status check(const es_keys *keys, double n, double beta, const es_view *V, es_error *err)
{
    ES_TRY(es_keys_check(keys, err));
    if (keys->vanish > 0.0 || keys->planted)
        return es_fail(
            err, ES_E_UNSUPPORTED, "average.keys", "use uniform or vMF keys, or mixtures of them",
            "this average does not exist for keys that vanish at the query or are planted");
    if (keys->dim > ES_AVERAGE_MOST_DIM || !(beta > 0.0 && beta <= 1e6) || !(n >= 1.0))
        return es_fail(err, ES_E_RANGE, "average.range",
                       "dim from 2 to 512, beta in (0, 1e6], n from 1 on",
                       "dimension %lld, beta %g, n %g", (long long)keys->dim, beta, n);
    if (V && V->cols != keys->dim)
        return es_fail(err, ES_E_SHAPE, "average.values", "V is (dv, dim)",
                       "V has %lld columns, keys have %lld", (long long)V->cols,
                       (long long)keys->dim);
    return ES_OK;
}

/* Fills the covariance of sqrt(n) (Gamma_n - Gamma) for averaging heads by tilting the law at
 * beta and at 2 beta (THEORY 6): e^(K(2 beta) - 2 K(beta)) (Cov_2 + (m_2 - m_1)(m_2 - m_1)'). */
static es_status tilt_twice(const es_law *law, double beta, es_mem_limit *budget, tilts *s,
                            es_error *err)
{
    es_log_mgf one = {.grad = s->m1}, two = {.grad = s->m2, .hess = s->cov};
    for (int64_t i = 0; i < s->d; i++)
        s->t[i] = 0.0;
    s->t[0] = beta;
    ES_TRY(es_limit_log_mgf(law, s->t, budget, &one, err));
    s->t[0] = 2.0 * beta;
    ES_TRY(es_limit_log_mgf(law, s->t, budget, &two, err));
    s->spread = exp(two.val.val - 2.0 * one.val.val);
    if (!isfinite(s->spread))
        return es_fail(err, ES_E_OVERFLOW, "average.spread",
                       "attention does not average in this regime",
                       "n divided by the effective number of keys overflows");
    for (int64_t i = 0; i < s->d; i++)
        for (int64_t j = 0; j < s->d; j++)
            s->cov[i * s->d + j] =
                s->spread * (s->cov[i * s->d + j] + (s->m2[i] - s->m1[i]) * (s->m2[j] - s->m1[j]));
    return ES_OK;
}

/* Through V: limit, mean with its first correction, covariance. */
static es_status answer(const tilts *s, double n, const es_view *V, es_mem_limit *budget,
                        es_output_law *out, es_error *err)
{
    const int64_t d = s->d, dv = V ? V->rows : d;
    out->spread = s->spread;
    for (int64_t i = 0; i < dv; i++) {
        double limit = 0.0, shift = 0.0;
        for (int64_t j = 0; j < d; j++) {
            const double v = V ? es_view_at(V, i, j) : i == j;
            limit += v * s->m1[j];
            shift += v * (s->m2[j] - s->m1[j]);
        }
        out->limit[i] = limit;
        out->mean[i] = limit - s->spread * shift / n;
    }
    const es_view cov = es_view_f64(s->cov, d, d);
    if (!V) {
        for (int64_t i = 0; i < d * d; i++)
            out->cov[i] = s->cov[i];
        return ES_OK;
    }
    double *half;
    ES_TRY(ES_MEM_NEW_2D(budget, half, dv, d, "covariance", err));
    const es_view down = es_view_transpose(V), left = es_view_f64(half, dv, d);
    es_status status = es_mat_multiply(V, &cov, budget, half, err);
    if (status == ES_OK)
        status = es_mat_multiply(&left, &down, budget, out->cov, err);
    es_mem_free(budget, half);
    return status;
}

es_status es_average_of(const es_keys *keys, double n, double beta, const es_view *V,
                        es_mem_limit *budget, es_output_law *out, es_error *err)
{
    ES_TRY(check(keys, n, beta, V, err));
    tilts s = {.d = keys->dim};
    es_law law;
    es_law *parts = NULL;
    ES_TRY(ES_MEM_NEW_2D(budget, s.t, s.d + 3, s.d, "tilts", err));
    s.m1 = s.t + s.d;
    s.m2 = s.m1 + s.d;
    s.cov = s.m2 + s.d;
    es_status status = es_keys_law(keys, budget, &law, &parts, err);
    if (status == ES_OK)
        status = tilt_twice(&law, beta, budget, &s, err);
    if (status == ES_OK)
        status = answer(&s, n, V, budget, out, err);
    es_mem_free(budget, parts);
    es_mem_free(budget, s.t);
    return status;
}
