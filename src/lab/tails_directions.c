/* tails_directions.c : where to look. */
#include <math.h>
#include <string.h>

#include <esscher/linalg.h>
#include <esscher/moments.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "lab/tails.h"

/* ---- covariance ---- */

/* Moments of all tokens, strip by strip; `mean` (d) and `cov` (d, d) are scratch. */
static es_status walk(const es_tails_job *job, double *x, double *mean, double *cov,
                      es_moments *moments, es_error *err)
{
    const int64_t d = job->dim;
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    for (int64_t first = 0; first < job->tokens; first += ES_TAILS_STRIP) {
        const int64_t left = job->tokens - first;
        const int64_t count = left < ES_TAILS_STRIP ? left : ES_TAILS_STRIP;
        const es_view strip = es_view_f64(x, count, d);
        ES_TRY(es_tails_read(job, first, count, x, err));
        ES_TRY(es_cov_estimate(&strip, false, &quiet, mean, cov, err));
        for (int64_t i = 0; i < d * d; i++)
            cov[i] *= (double)count;
        es_moments_merge(moments,
                         &(es_moments){.count = count, .dim = d, .mean = mean, .scatter = cov});
        ES_TRY(es_tails_tell(job, (double)(first + count), (double)job->tokens, err));
    }
    return ES_OK;
}

/* Eigenvalues came increasing; the job has the largest first. */
static void turn_round(es_tails_job *job, const double *values, const double *vectors)
{
    const int64_t d = job->dim;
    for (int64_t j = 0; j < d; j++) {
        job->spectrum[j] = fmax(values[d - 1 - j], 0.0);
        memcpy(job->vectors + j * d, vectors + (d - 1 - j) * d, (size_t)d * sizeof *vectors);
    }
}

es_status es_tails_spectrum(es_tails_job *job, es_error *err)
{
    const int64_t d = job->dim;
    es_budget *budget = job->exec.budget;
    es_moments moments = {0};
    double *x = NULL, *values = NULL;
    es_status status = es_moments_new(d, budget, &moments, err);
    if (status == ES_OK)
        status = es_mem_array(budget, ES_TAILS_STRIP, d, sizeof *x, "a strip of tokens",
                              (void **)&x, err);
    if (status == ES_OK)
        status = es_mem_array(budget, 2 * d + 1, d, sizeof *values, "a covariance",
                              (void **)&values, err);
    if (status == ES_OK) {
        double *cov = values + d, *vectors = cov + d * d;
        status = walk(job, x, values, cov, &moments, err);
        if (status == ES_OK) {
            const es_view view = es_view_f64(cov, d, d);
            memcpy(job->mean, moments.mean, (size_t)d * sizeof *job->mean);
            es_moments_covariance(&moments, 0, cov);
            status = es_sym_eigen(&view, budget, values, vectors, err);
        }
        if (status == ES_OK)
            turn_round(job, values, vectors);
    }
    es_mem_free(budget, values);
    es_mem_free(budget, x);
    es_moments_free(&moments);
    return status;
}

/* ---- directions of a head ---- */

/* out (d) = Wk' q / sqrt(k): the tilt under which a query whose projection is q sees the tokens. */
static void tilt_of(const es_model_head *head, const double *q, double *out)
{
    const int64_t k = head->wk.rows, d = head->wk.cols;
    for (int64_t j = 0; j < d; j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < k; i++)
            sum += es_view_get(&head->wk, i, j) * q[i];
        out[j] = sum / sqrt((double)k);
    }
}

/* Queries and keys in units in which tokens have unit covariance, S = L L', L = (sqrt(s_j) v_j):
 * scores are x' M' y, M = L'Wk'Wq L / sqrt(k). With C = Wk L and B = Wq L,
 * M'M = B' (C C') B / k: the leading right singular vector of (C C')^{1/2} B is the query, in these
 * units, that moves scores most, and the whole stays (k, d). */
static es_status key_direction(const es_tails_job *job, const es_model_head *head, const es_view *L,
                               double *out, es_error *err)
{
    const int64_t k = head->wq.rows, d = job->dim;
    es_budget *budget = job->exec.budget;
    double *B;
    ES_TRY(es_mem_array(budget, 1, 4 * k * d + 3 * k * k + 2 * k, sizeof *B, "a head", (void **)&B,
                        err));
    double *C = B + k * d, *R = C + k * d, *vt = R + k * d;
    double *gram = vt + k * d, *root = gram + k * k, *u = root + k * k, *s = u + k * k, *q = s + k;
    const es_view vB = es_view_f64(B, k, d), vC = es_view_f64(C, k, d), vR = es_view_f64(R, k, d);
    const es_view Ct = es_view_transpose(&vC), vG = es_view_f64(gram, k, k);
    const es_view vRoot = es_view_f64(root, k, k);
    es_status status = es_mat_multiply(&head->wq, L, budget, B, err);
    if (status == ES_OK)
        status = es_mat_multiply(&head->wk, L, budget, C, err);
    if (status == ES_OK)
        status = es_mat_multiply(&vC, &Ct, budget, gram, err);
    if (status == ES_OK)
        status = es_sym_sqrt(&vG, 0.0, budget, root, NULL, err);
    if (status == ES_OK)
        status = es_mat_multiply(&vRoot, &vB, budget, R, err);
    if (status == ES_OK)
        status = es_svd_factor(&vR, budget, s, u, vt, NULL, err);
    if (status == ES_OK) {
        for (int64_t i = 0; i < k; i++) {
            q[i] = 0.0;
            for (int64_t j = 0; j < d; j++)
                q[i] += B[i * d + j] * vt[j];
        }
        tilt_of(head, q, out);
    }
    es_mem_free(budget, B);
    return status;
}

/* The tilt of a token's query, bias included; a key's bias changes all scores alike. */
static void score_direction(const es_model_head *head, const float *x, double *q, double *out)
{
    for (int64_t i = 0; i < head->wq.rows; i++) {
        q[i] = es_view_get(&head->bq, 0, i);
        for (int64_t j = 0; j < head->wq.cols; j++)
            q[i] += es_view_get(&head->wq, i, j) * (double)x[j];
    }
    tilt_of(head, q, out);
}

/* Tokens of the pool whose queries are looked at, the same for all heads: x (queries, d). */
static es_status draw_queries(const es_tails_job *job, float *x, es_error *err)
{
    const es_address at = {
        .seed = job->spec.seed, .experiment = ES_TAILS_QUERIES, .cell = (uint64_t)job->layer};
    es_permutation shuffle;
    ES_TRY(es_permutation_init(&at, job->tokens, &shuffle, err));
    for (int64_t i = 0; i < job->spec.queries; i++) {
        const int64_t row = es_permutation_at(&shuffle, i % job->tokens);
        ES_TRY(es_pool_gather(job->spec.pool, job->layer, &row, 1, x + i * job->dim, err));
    }
    return ES_OK;
}

static es_status head_directions(es_tails_job *job, const es_view *L, const float *x, double *q,
                                 double *keys, double *scores, es_error *err)
{
    const int64_t d = job->dim, m = job->spec.queries;
    for (int64_t h = 0; h < job->heads; h++) {
        es_model_head head;
        ES_TRY(es_model_head_of(job->spec.model, job->layer, h, &head, err));
        ES_TRY(key_direction(job, &head, L, keys + h * d, err));
        for (int64_t i = 0; i < m; i++)
            score_direction(&head, x + i * d, q, scores + (h * m + i) * d);
        ES_TRY(es_tails_tell(job, (double)(h + 1), (double)job->heads, err));
    }
    return ES_OK;
}

/* ---- all of them ---- */

es_status es_tails_directions(es_tails_job *job, es_error *err)
{
    const int64_t d = job->dim, p = job->spec.principal;
    const es_address at = {
        .seed = job->spec.seed, .experiment = ES_TAILS_SPHERE, .cell = (uint64_t)job->layer};
    double *random = job->directions + p * d;
    memcpy(job->directions, job->vectors, (size_t)(p * d) * sizeof *job->directions);
    ES_TRY(es_sphere_rows(&at, job->spec.random, d, random, err));
    if (!job->heads)
        return ES_OK;

    double *keys = random + (job->spec.random + 1) * d, *L = NULL;
    float *x = NULL;
    es_budget *budget = job->exec.budget;
    es_status status =
        es_mem_array(budget, d + 1, d, sizeof *L, "root of a covariance", (void **)&L, err);
    if (status == ES_OK)
        status = es_mem_array(budget, job->spec.queries, d, sizeof *x, "queries", (void **)&x, err);
    if (status == ES_OK)
        status = draw_queries(job, x, err);
    if (status == ES_OK) {
        const es_view root = es_view_f64(L, d, d);
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = 0; j < d; j++)
                L[i * d + j] = sqrt(job->spectrum[j]) * job->vectors[j * d + i];
        status = head_directions(job, &root, x, L + d * d, keys, keys + job->heads * d, err);
    }
    es_mem_free(budget, x);
    es_mem_free(budget, L);
    return status;
}
