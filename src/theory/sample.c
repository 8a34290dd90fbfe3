/* sample.c : draw queries, whiten, multiply. */
#include "theory/sample.h"

#include <math.h>
#include <string.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/horizons.h"
#include "theory/scores.h"

static es_status carve(es_sample *s, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    double **arrays[] = {&s->q,  &s->zQz, &s->zQQz, &s->e,  &s->z,   &s->M,   &s->Q,
                         &s->ee, &s->eQe, &s->eQQe, &s->ez, &s->eQz, &s->eQQz};
    const int64_t sizes[] = {N,     N,     N,     N * d, N * d, d * d, d * d,
                             N * N, N * N, N * N, N * N, N * N, N * N};
    int64_t total = 0;
    for (int i = 0; i < 13; i++)
        total += sizes[i];
    ES_TRY(es_mem_array(s->budget, total, 1, sizeof(double), "prediction", &s->memory, err));
    double *next = s->memory;
    for (int i = 0; i < 13; i++) {
        *arrays[i] = next;
        next += sizes[i];
    }
    return ES_OK;
}

/* Scratch of the steps below: (d, d) three times, (rows, d) twice, (count, d) once. */
typedef struct scratch {
    double *root, *product, *A, *left, *right, *eQ;
} scratch;

/* M = S^{1/2} A S^{1/2} and Q. */
static es_status whiten(const es_view *cov, double tolerance, const es_head *head, es_sample *s,
                        scratch *w, es_error *err)
{
    const int64_t d = s->d;
    const es_view root = es_view_f64(w->root, d, d), product = es_view_f64(w->product, d, d);
    const es_view A = es_view_f64(w->A, d, d);
    ES_TRY(es_sym_sqrt(cov, tolerance, s->budget, w->root, NULL, err));
    if (head->A) {
        ES_TRY(es_mat_multiply(head->A, &root, s->budget, w->product, err));
    } else {
        const es_view keys = es_view_transpose(head->Wk);
        ES_TRY(es_mat_multiply(&keys, head->Wq, s->budget, w->A, err));
        for (int64_t i = 0; i < d * d; i++)
            w->A[i] /= sqrt((double)head->Wq->rows);
        ES_TRY(es_mat_multiply(&A, &root, s->budget, w->product, err));
    }
    ES_TRY(es_mat_multiply(&root, &product, s->budget, s->M, err));
    if (!head->V)
        return es_mat_multiply(&root, &root, s->budget, s->Q, err);
    const es_view output = es_view_f64(w->left, head->V->rows, d);
    const es_view transposed = es_view_transpose(&output);
    ES_TRY(es_mat_multiply(head->V, &root, s->budget, w->left, err));
    return es_mat_multiply(&transposed, &output, s->budget, s->Q, err);
}

double es_sample_normalise(double *row, int64_t d, int64_t j)
{
    double square = 0.0;
    for (int64_t i = 0; i < d; i++)
        square += row[i] * row[i];
    const double q = sqrt(square);
    for (int64_t i = 0; i < d; i++) /* no scores at all: any direction will do */
        row[i] = square > 0.0 ? row[i] / q : (double)(i == j % d);
    return q;
}

static es_status draw(es_sample *s, uint64_t seed, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    const es_address at = {.seed = seed, .experiment = ES_EXPERIMENT_PREDICT};
    ES_TRY(es_normal_rows(&at, N, d, s->z, err));
    const es_view z = es_view_f64(s->z, N, d), M = es_view_f64(s->M, d, d);
    const es_view transposed = es_view_transpose(&M);
    ES_TRY(es_mat_multiply(&z, &transposed, s->budget, s->e, err));
    for (int64_t j = 0; j < N; j++) {
        s->q[j] = es_sample_normalise(s->e + j * d, d, j);
        s->highest = fmax(s->highest, s->q[j]);
    }
    /* Below 0.05 nothing depends on q by more than q^2. */
    s->lowest = fmax(ES_SCORES_MIN_Q, fmin(0.05, 0.05 * s->highest));
    s->highest = fmax(s->highest, s->lowest);
    for (int64_t j = 0; j < N; j++)
        s->q[j] = fmax(s->q[j], s->lowest);
    return ES_OK;
}

/* Inner products in the metric `left` / e: e_j' X e_k and e_j' X z_k with left_j = X e_j. */
static es_status products(es_sample *s, const double *left, double *with_e, double *with_z,
                          es_error *err)
{
    const es_view a = es_view_f64(left, s->count, s->d), e = es_view_f64(s->e, s->count, s->d);
    const es_view z = es_view_f64(s->z, s->count, s->d);
    const es_view et = es_view_transpose(&e), zt = es_view_transpose(&z);
    ES_TRY(es_mat_multiply(&a, &et, s->budget, with_e, err));
    return es_mat_multiply(&a, &zt, s->budget, with_z, err);
}

static double dot(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

static es_status multiply(es_sample *s, scratch *w, es_error *err)
{
    const int64_t N = s->count, d = s->d;
    const es_view Q = es_view_f64(s->Q, d, d), e = es_view_f64(s->e, N, d);
    const es_view z = es_view_f64(s->z, N, d), eQ = es_view_f64(w->eQ, N, d);
    ES_TRY(products(s, s->e, s->ee, s->ez, err));
    ES_TRY(es_mat_multiply(&e, &Q, s->budget, w->eQ, err));
    ES_TRY(products(s, w->eQ, s->eQe, s->eQz, err));
    ES_TRY(es_mat_multiply(&eQ, &Q, s->budget, w->right, err));
    ES_TRY(products(s, w->right, s->eQQe, s->eQQz, err));
    ES_TRY(es_mat_multiply(&z, &Q, s->budget, w->eQ, err));
    for (int64_t j = 0; j < N; j++) {
        s->zQz[j] = dot(w->eQ + j * d, s->z + j * d, d);
        s->zQQz[j] = dot(w->eQ + j * d, w->eQ + j * d, d);
        s->widest = fmax(s->widest, fabs(s->ez[j * N + j]));
    }
    for (int64_t i = 0; i < d; i++)
        s->trace += s->Q[i * d + i];
    s->trace2 = dot(s->Q, s->Q, d * d);
    return ES_OK;
}

es_status es_sample_make(const es_view *cov, double tolerance, const es_head *head, int64_t count,
                         uint64_t seed, es_budget *budget, es_sample *out, es_error *err)
{
    *out = (es_sample){.budget = budget};
    ES_TRY(es_horizons_check(cov, head, err));
    const int64_t d = cov->rows, values = head->V ? head->V->rows : 1;
    out->count = count;
    out->d = d;
    ES_TRY(carve(out, err));
    void *memory;
    es_status status = es_mem_array(budget, 3 * d + values + 2 * count, d, sizeof(double),
                                    "prediction", &memory, err);
    if (status == ES_OK) {
        double *at = memory;
        scratch w = {.root = at, .product = at + d * d, .A = at + 2 * d * d};
        w.left = w.A + d * d;
        w.right = w.left + values * d;
        w.eQ = w.right + count * d;
        status = whiten(cov, tolerance, head, out, &w, err);
        if (status == ES_OK)
            status = draw(out, seed, err);
        if (status == ES_OK)
            status = multiply(out, &w, err);
        es_mem_free(budget, memory);
    }
    if (status != ES_OK)
        es_sample_free(out);
    return status;
}

void es_sample_free(es_sample *s)
{
    es_mem_free(s->budget, s->memory);
    s->memory = NULL;
}
