/* SPDX-License-Identifier: Apache-2.0 */
/* law_mixture.c : sum of pi_j mu_j over `n_parts` base laws, each with its own mean and factor.
 *
 * E e^{<s,Z>} = sum pi_j e^{K_j(s)}, so K is a log-sum-exp; a tilt reweights the parts to p_j
 * proportional to pi_j e^{K_j}: gradient g = sum p_j g_j, Hessian sum p_j (H_j + (g_j-g)(g_j-g)')
 * (THEORY 1). Drawing: one uniform per token picks its part; tokens of one part are then made
 * together. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "law/law_row.h"

#define EPS DBL_EPSILON

enum { CHUNK = 256 }; /* tokens whose parts are picked together */

/* Checks one part: a base law of the mixture's dimension. Mixtures of mixtures are refused; they
 * can be flattened. */
static es_status check_part(const es_law *law, int64_t i, es_error *err)
{
    const es_law *part = &law->parts[i];
    if (es_law_row_of(part->kind) && !(es_law_traits(part->kind) & ES_LAW_BASE))
        return es_fail(err, ES_E_ARGUMENT, "law.part", "flatten the mixture",
                       "part %lld of a mixture is %s", (long long)i, es_law_name(part->kind));
    if (part->dim != law->dim)
        return es_fail(err, ES_E_SHAPE, "law.part", "use parts of the same dimension",
                       "part %lld has dimension %lld in a mixture of dimension %lld", (long long)i,
                       (long long)part->dim, (long long)law->dim);
    ES_TRY(es_law_positive(law->weights[i], "law.weight", "the weight of a part", err));
    return es_law_check(part, err);
}

/* Checks parts and weights of a mixture. */
static es_status check(const es_law *law, es_error *err)
{
    if (law->n_parts < 1)
        return es_fail(err, ES_E_EMPTY, "law.parts", "give at least one part with a weight",
                       "a mixture of %lld parts", (long long)law->n_parts);
    if (!law->parts || !law->weights)
        return es_fail(err, ES_E_ARGUMENT, "law.parts", "give both arrays", "a mixture without %s",
                       law->parts ? "weights" : "parts");
    double sum = 0.0;
    for (int64_t i = 0; i < law->n_parts; i++) {
        ES_TRY(check_part(law, i, err));
        sum += law->weights[i];
    }
    return es_law_positive(sum, "law.weight", "the sum of all weights", err);
}

/* ---- drawing ---- */

/* Prepares a sampler for each part and the cumulative weights by which parts are drawn. */
static es_status prepare(es_source *s, es_error *err)
{
    const int64_t n = s->law.n_parts;
    double *cumulative;
    ES_TRY(ES_MEM_NEW(s->budget, cumulative, n, "weights", err));
    s->own = cumulative;
    ES_TRY(ES_MEM_NEW(s->budget, s->parts, n, "the parts of a mixture", err));
    double sum = 0.0, so_far = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += s->law.weights[i];
    for (int64_t i = 0; i < n; i++) {
        so_far += s->law.weights[i];
        cumulative[i] = i + 1 < n ? so_far / sum : 1.0;
        ES_TRY(es_source_prepare(&s->parts[i], &s->law.parts[i], s->budget, err));
    }
    return ES_OK;
}

/* The first part whose cumulative weight is above u < 1. */
static int64_t part_of(const es_source *s, double u)
{
    const double *cumulative = s->own; /* (n_parts), the last is 1 */
    int64_t low = 0, high = s->law.n_parts - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (u < cumulative[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The tokens of `part` among count <= CHUNK ones. */
static es_status part_rows(const es_source *s, int64_t part, const int64_t *parts,
                           const es_address *first, int64_t count, const es_law_scratch *stage,
                           double *out, es_error *err)
{
    const es_source *p = &s->parts[part];
    int64_t place[CHUNK], n = 0;
    for (int64_t i = 0; i < count; i++) {
        if (parts[i] != part)
            continue;
        const es_address at = es_token_at(first, i, 0);
        ES_TRY(p->row->rows(p, &at, 1, stage, stage->gather + n * s->law.dim, err));
        place[n++] = i;
    }
    if (n > 0)
        es_affine_rows(&p->affine, stage->gather, n, place, out);
    return ES_OK;
}

/* Draws the part of each token from its weight, then the tokens of each part together; each keeps
 * its own address. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *out, es_error *err)
{
    double u[CHUNK];
    int64_t parts[CHUNK];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < CHUNK ? count - i : CHUNK;
        const es_address at = es_token_at(first, i, 0),
                         choice = es_token_at(&at, 0, ES_LANE_CHOICE);
        ES_TRY(es_uniform_rows(&choice, n, 1, u, err));
        for (int64_t r = 0; r < n; r++)
            parts[r] = part_of(s, u[r]);
        /* Parts in the order of their first token: parts that were not drawn cost nothing. */
        for (int64_t r = 0; r < n; r++) {
            bool seen = false;
            for (int64_t q = 0; q < r && !seen; q++)
                seen = parts[q] == parts[r];
            if (!seen)
                ES_TRY(part_rows(s, parts[r], parts, &at, n, stage, out + i * s->law.dim, err));
        }
    }
    return ES_OK;
}

/* ---- tilting ---- */

/* Returns |a - b|^2. */
static double distance2(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Parts of a mixture at one point: K_j becomes the weight p_j = pi_j e^{K_j} / sum. */
typedef struct mixture {
    const es_law *law;
    const double *s;
    es_mem_limit *budget;
    double *p;     /* (parts) */
    double *grads; /* (parts, d) */
    double *hess;  /* (d, d) of one part; NULL if not wanted */
    double p_err;  /* relative error of a p_j */
} mixture;

/* Evaluates K_j and its gradient for every part, and the tilted weights of the parts, p_j exp(K_j
 * - K). */
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

/* Computes K = ln sum p_j exp(K_j): its gradient is the mean of the parts' gradients under the
 * tilted weights, its Hessian their mean Hessian plus the covariance of the gradients. */
static es_status tilt(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)work;
    const int64_t d = law->dim;
    mixture m = {.law = law, .s = s, .budget = budget};
    *out = (es_tilt){.grad = out->grad, .hess = out->hess};
    memset(out->grad, 0, (size_t)d * sizeof(double));
    if (out->hess)
        memset(out->hess, 0, (size_t)(d * d) * sizeof(double));
    es_arena arena = {.budget = budget};
    es_status status = ES_ARENA_NEW(&arena, m.p, law->n_parts, "log-MGF", err);
    if (status == ES_OK) /* one row more: scratch of combine_parts() */
        status = ES_ARENA_NEW_2D(&arena, m.grads, law->n_parts + 1, d, "log-MGF", err);
    if (status == ES_OK && out->hess)
        status = ES_ARENA_NEW_2D(&arena, m.hess, d, d, "log-MGF", err);
    if (status == ES_OK)
        status = evaluate_parts(&m, out, err);
    if (status == ES_OK)
        status = combine_parts(&m, out, err);
    es_arena_free(&arena);
    return status;
}

const es_law_row es_law_row_mixture = {.kind = ES_LAW_MIXTURE,
                                       .name = "mixture",
                                       .title = "mixture",
                                       .uses = ES_LAW_USES_PARTS,
                                       .traits = ES_LAW_ENTIRE,
                                       .check = check,
                                       .prepare = prepare,
                                       .rows = rows,
                                       .tilt = tilt};
