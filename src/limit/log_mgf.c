/* log_mgf.c : from base laws to any law: the affine rule, mixtures, and the public function. */
#include <float.h>
#include <math.h>
#include <string.h>

#include <esscher/linalg.h>

#include "base/error.h"
#include "base/memory.h"
#include "limit/tilt.h"

#define EPS DBL_EPSILON

static es_status new_doubles(es_budget *budget, int64_t rows, int64_t cols, double **out,
                             es_error *err)
{
    void *memory = NULL;
    const es_status status =
        es_mem_array(budget, rows, cols, sizeof(double), "log-MGF", &memory, err);
    *out = memory;
    return status;
}

static double distance2(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* ---- mixtures ---- */

/* Parts of a mixture at one point: K_j becomes the weight p_j = pi_j e^{K_j} / sum. */
typedef struct mixture {
    const es_law *law;
    const double *s;
    es_budget *budget;
    double *p;     /* (parts) */
    double *grads; /* (parts, d) */
    double *hess;  /* (d, d) of one part; NULL if not wanted */
    double p_err;  /* relative error of a p_j */
} mixture;

static es_status evaluate_parts(mixture *m, es_tilt *out, es_error *err)
{
    const int64_t d = m->law->dim, parts = m->law->n_parts;
    double most = -INFINITY, worst = 0.0, total = 0.0, sum = 0.0;
    for (int64_t j = 0; j < parts; j++)
        total += m->law->weights[j];
    for (int64_t j = 0; j < parts; j++) {
        es_tilt part = {.grad = m->grads + j * d};
        ES_TRY(es_tilt_law(&m->law->parts[j], m->s, m->budget, &part, err));
        m->p[j] = part.K + log(m->law->weights[j] / total);
        most = fmax(most, m->p[j]);
        worst = fmax(worst, part.K_err);
    }
    for (int64_t j = 0; j < parts; j++)
        sum += m->p[j] = exp(m->p[j] - most);
    for (int64_t j = 0; j < parts; j++)
        m->p[j] /= sum;
    out->K = most + log(sum);
    out->K_err = worst + EPS * (2.0 * fabs(most) + (double)parts + 4.0);
    m->p_err = 2.0 * out->K_err;
    return ES_OK;
}

/* Gradient g = sum p_j g_j, Hessian sum p_j (H_j + (g_j-g)(g_j-g)'). */
static es_status combine_parts(mixture *m, es_tilt *out, es_error *err)
{
    const int64_t d = m->law->dim, parts = m->law->n_parts;
    for (int64_t j = 0; j < parts; j++) {
        const double *g = m->grads + j * d;
        double norm2 = 0.0;
        for (int64_t i = 0; i < d; i++) {
            out->grad[i] += m->p[j] * g[i];
            norm2 += g[i] * g[i];
        }
        out->grad_err += (double)(parts + 2) * EPS * m->p[j] * sqrt(norm2);
    }
    for (int64_t j = 0; j < parts; j++) {
        const double p = m->p[j], *g = m->grads + j * d;
        const double off2 = distance2(g, out->grad, d), off = sqrt(off2);
        double *scratch = m->grads + parts * d;
        es_tilt part = {.grad = scratch, .hess = m->hess};
        ES_TRY(es_tilt_law(&m->law->parts[j], m->s, m->budget, &part, err));
        out->grad_err += p * (part.grad_err + m->p_err * off);
        out->hess_err += p * (part.hess_err + 2.0 * off * part.grad_err +
                              (m->p_err + 4.0 * EPS) * (part.curvature + off2));
        out->curvature += p * (part.curvature + off2);
        out->third += p * (part.third + 3.0 * part.curvature * off + off2 * off);
        for (int64_t a = 0; m->hess && a < d; a++) {
            for (int64_t b = 0; b < d; b++)
                out->hess[a * d + b] +=
                    p * (m->hess[a * d + b] + (g[a] - out->grad[a]) * (g[b] - out->grad[b]));
        }
    }
    return ES_OK;
}

static es_status mixture_tilt(const es_law *law, const double *s, es_budget *budget, es_tilt *out,
                              es_error *err)
{
    const int64_t d = law->dim;
    mixture m = {.law = law, .s = s, .budget = budget};
    *out = (es_tilt){.grad = out->grad, .hess = out->hess};
    memset(out->grad, 0, (size_t)d * sizeof(double));
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
    es_status status = new_doubles(budget, law->n_parts, 1, &m.p, err);
    if (status == ES_OK) /* one row more: scratch of combine_parts() */
        status = new_doubles(budget, law->n_parts + 1, d, &m.grads, err);
    if (status == ES_OK && out->hess)
        status = new_doubles(budget, d, d, &m.hess, err);
    if (status == ES_OK)
        status = evaluate_parts(&m, out, err);
    if (status == ES_OK)
        status = combine_parts(&m, out, err);
    es_mem_free(budget, m.p);
    es_mem_free(budget, m.grads);
    es_mem_free(budget, m.hess);
    return status;
}

/* ---- Y = mean + B Z ---- */

/* s = B't, and a bound on the Euclidean norm of its rounding error. */
static double pull_back(const double *B, const double *t, int64_t d, double *s)
{
    double error2 = 0.0;
    for (int64_t j = 0; j < d; j++) {
        double sum = 0.0, size = 0.0;
        for (int64_t i = 0; i < d; i++) {
            sum += B[i * d + j] * t[i];
            size += fabs(B[i * d + j] * t[i]);
        }
        s[j] = sum;
        const double off = (double)d * EPS * size;
        error2 += off * off;
    }
    return sqrt(error2);
}

/* The derivatives at s become those at t: grad <- B grad, hess <- B hess B'. s_err is the error of
 * s, work (d) and square (d, d) are scratch. */
static es_status push_forward(const double *B, int64_t d, double s_err, double *work,
                              double *square, es_budget *budget, es_tilt *z, es_error *err)
{
    double frobenius2 = 0.0, g2 = 0.0;
    for (int64_t i = 0; i < d * d; i++)
        frobenius2 += B[i] * B[i];
    for (int64_t i = 0; i < d; i++)
        g2 += z->grad[i] * z->grad[i];
    const double size = sqrt(frobenius2), rounding = (double)(d + 1) * EPS;
    z->K_err += (sqrt(g2) + z->curvature * s_err) * s_err;
    z->grad_err = size * (z->grad_err + z->curvature * s_err + rounding * sqrt(g2));
    z->hess_err =
        frobenius2 * ((double)d * z->hess_err + z->third * s_err + 2.0 * rounding * z->curvature);
    z->third *= frobenius2 * size;
    z->curvature *= frobenius2;
    for (int64_t i = 0; i < d; i++) {
        work[i] = 0.0;
        for (int64_t j = 0; j < d; j++)
            work[i] += B[i * d + j] * z->grad[j];
    }
    memcpy(z->grad, work, (size_t)d * sizeof *work);
    if (!z->hess)
        return ES_OK;
    const es_view b = es_view_f64(B, d, d), bt = es_view_transpose(&b);
    const es_view h = es_view_f64(z->hess, d, d), bh = es_view_f64(square, d, d);
    ES_TRY(es_mat_multiply(&b, &h, budget, square, err));
    return es_mat_multiply(&bh, &bt, budget, z->hess, err);
}

static void add_mean(const double *mean, const double *t, int64_t d, es_tilt *out)
{
    double sum = 0.0, size = 0.0, norm2 = 0.0;
    for (int64_t i = 0; i < d; i++) {
        sum += mean[i] * t[i];
        size += fabs(mean[i] * t[i]);
        out->grad[i] += mean[i];
        norm2 += out->grad[i] * out->grad[i];
    }
    out->K += sum;
    out->K_err += (double)d * EPS * size + EPS * fabs(out->K);
    out->grad_err += EPS * sqrt(norm2);
}

/* Z at s. */
static es_status inner_tilt(const es_law *law, const double *s, double *work, es_budget *budget,
                            es_tilt *out, es_error *err)
{
    if (law->kind == ES_LAW_MIXTURE)
        return mixture_tilt(law, s, budget, out, err);
    if (law->kind == ES_LAW_EMPIRICAL)
        return es_tilt_points(law->points, s, budget, out, err);
    return es_tilt_base(law, s, work, out, err);
}

es_status es_tilt_law(const es_law *law, const double *t, es_budget *budget, es_tilt *out,
                      es_error *err)
{
    const int64_t d = law->dim;
    double *vectors = NULL, *square = NULL, s_err = 0.0;
    ES_TRY(new_doubles(budget, 2, d, &vectors, err));
    double *s = vectors, *work = vectors + d;
    es_status status = ES_OK;
    if (law->factor && out->hess)
        status = new_doubles(budget, d, d, &square, err);
    if (law->factor)
        s_err = pull_back(law->factor, t, d, s);
    else
        memcpy(s, t, (size_t)d * sizeof *s);
    if (status == ES_OK)
        status = inner_tilt(law, s, work, budget, out, err);
    if (status == ES_OK && law->factor)
        status = push_forward(law->factor, d, s_err, work, square, budget, out, err);
    if (status == ES_OK && law->mean)
        add_mean(law->mean, t, d, out);
    es_mem_free(budget, vectors);
    es_mem_free(budget, square);
    if (status == ES_OK && !(isfinite(out->K) && isfinite(out->curvature)))
        status = es_fail(err, ES_E_OVERFLOW, "limit.overflow", "scale the law or the tilt down",
                         "the log-MGF overflows");
    return status;
}

/* ---- public ---- */

es_status es_limit_log_mgf(const es_law *law, const double *t, es_budget *budget, es_log_mgf *out,
                           es_error *err)
{
    es_scan scan;
    double *own = NULL;
    ES_TRY(es_law_check(law, err));
    const es_view v = es_view_f64(t, 1, law->dim);
    ES_TRY(es_view_scan(&v, "t", &scan, err));
    if (!out->grad)
        ES_TRY(new_doubles(budget, law->dim, 1, &own, err));
    es_tilt tilt = {.grad = out->grad ? out->grad : own, .hess = out->hess};
    const es_status status = es_tilt_law(law, t, budget, &tilt, err);
    out->val = (es_num){tilt.K, tilt.K_err};
    out->grad_error = tilt.grad_err;
    out->hess_error = tilt.hess_err;
    es_mem_free(budget, own);
    return status;
}
