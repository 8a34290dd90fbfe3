/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : measures one layer: checks and cost; directions from covariance and weights;
 * projections of all tokens, and their statistics with those of Gaussian samples (THEORY 9). */
#include "experiments/tails/tails.h"

#include <math.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "linalg/dense.h"
#include "linalg/linalg.h"
#include "model/layer_heads.h"
#include "random/random.h"
#include "stats/moments.h"

enum { STRIP = 2048 }; /* tokens read at a time */

/* The phase under way as part of the whole, which is 1. */
typedef struct phase {
    const es_exec *exec;
    double before, share;
    bool stopped; /* by the caller; kept, because a request at the end of a phase must end them all
                   */
} phase;

/* A measurement under way: the spec with its defaults, and everything it needs. */
typedef struct tails_job {
    es_tails_spec spec;
    es_exec exec;   /* as the caller gave it */
    es_exec phased; /* the same, with progress of the phase */
    phase part;     /* of `phased` */
    int64_t layer, tokens, dim, heads, rows;
    int64_t group, first; /* directions projected in one walk, whole panels; the first of them */
    double *mean;         /* (d) */
    double *spectrum;     /* (d) eigenvalues of the covariance, decreasing, none below 0 */
    double *vectors;      /* (d, d) their unit vectors, as rows */
    double *directions;   /* (whole panels of rows, d); 0 for the norms and beyond the last */
    double *projected;    /* (group, tokens) */
    es_tails_control gaussian, norms;
    es_tails_row *out;
} tails_job;

/* ---- defaults ---- */

/* Returns what was asked for, or the default where that is 0. */
static int64_t or_default(int64_t asked, int64_t otherwise) { return asked ? asked : otherwise; }

/* Fills in the defaults of a spec, for a number of tokens. */
static tails_job sized(const es_tails_spec *spec, int64_t tokens, int64_t dim, int64_t heads)
{
    tails_job job = {.spec = *spec, .tokens = tokens, .dim = dim, .heads = heads};
    es_tails_spec *s = &job.spec;
    job.exec = spec->exec ? *spec->exec : (es_exec){0};
    s->principal = or_default(s->principal, 8);
    s->random = or_default(s->random, 8);
    s->queries = or_default(s->queries, 4);
    s->draws = or_default(s->draws, 64);
    s->principal = s->principal < dim ? s->principal : dim;
    s->random = s->random < dim ? s->random : dim;
    job.rows = s->principal + s->random + 1 + heads * (1 + s->queries);
    return job;
}

/* The measurement of a spec, sized for its pool or its tokens. */
static tails_job job_of(const es_tails_spec *spec)
{
    if (!spec->pool)
        return sized(spec, spec->tokens->rows, spec->tokens->cols, 0);
    const es_pool_info pool = es_pool_about(spec->pool);
    return sized(spec, pool.tokens, pool.hidden, pool.heads);
}

int64_t es_tails_rows(const es_tails_spec *spec) { return job_of(spec).rows; }

es_tails_direction es_tails_direction_of(const es_tails_spec *spec, int64_t row)
{
    const tails_job job = job_of(spec);
    const es_tails_spec *s = &job.spec;
    if (row < s->principal)
        return (es_tails_direction){ES_TAILS_PRINCIPAL, -1, row};
    row -= s->principal;
    if (row < s->random)
        return (es_tails_direction){ES_TAILS_RANDOM, -1, row};
    row -= s->random;
    if (row == 0)
        return (es_tails_direction){ES_TAILS_NORM, -1, 0};
    row -= 1;
    if (row < job.heads)
        return (es_tails_direction){ES_TAILS_KEY, row, 0};
    row -= job.heads;
    return (es_tails_direction){ES_TAILS_SCORE, row / s->queries, row % s->queries};
}

const char *es_tails_kind_name(es_tails_kind kind)
{
    static const char *const names[] = {[ES_TAILS_PRINCIPAL] = "principal",
                                        [ES_TAILS_RANDOM] = "random",
                                        [ES_TAILS_NORM] = "norm",
                                        [ES_TAILS_KEY] = "key",
                                        [ES_TAILS_SCORE] = "score"};
    return (unsigned)kind <= ES_TAILS_SCORE ? names[kind] : "?";
}

/* ---- cost ---- */

/* Panels of ES_TAILS_PANEL directions; the last may be partly empty. */
static int64_t panels(int64_t rows) { return (rows + ES_TAILS_PANEL - 1) / ES_TAILS_PANEL; }

/* Operations of the phases, an exp counted as 20. The covariance is f64 and counted twice. */
typedef struct work {
    double covariance, gaussian, norms, directions;
} work;

/* Returns the operations of each phase; 3400 per number is measured. */
static work work_of(const tails_job *job)
{
    const double n = (double)job->tokens, d = (double)job->dim, draws = (double)job->spec.draws;
    const double sample = 3400.0; /* the statistics of a number */
    return (work){.covariance = 4.0 * n * d * d,
                  .gaussian = job->spec.gaussian ? 0.0 : sample * n * draws,
                  .norms = n * draws * (sample + 20.0 * d),
                  .directions = n * (double)job->rows * (4.0 * d + sample)};
}

/* Memory without the projections. */
static double fixed_bytes(const tails_job *job)
{
    const double threads = (double)es_parallel_threads(&job->exec, INT64_MAX);
    const double n = (double)job->tokens, d = (double)job->dim;
    const double rows = (double)(panels(job->rows) * ES_TAILS_PANEL);
    /* of each thread: a strip, as floats, too, and a panel of its projections; a sample twice,
     * drawn or projected; vectors of a control; what BLAS packs. Moments, vectors, root and
     * directions of all; matrices of the heads of a layer. */
    const es_model *model = job->spec.model;
    const double heads =
        model ? es_layer_heads_bytes(es_model_config_of(model), ES_F32, &job->exec) : 0.0;
    return heads + threads * 16e6 +
           8.0 * (threads * (STRIP * (1.5 * d + ES_TAILS_PANEL) + 2.0 * n + 64.0 * d) +
                  12.0 * d * d + rows * d);
}

/* Directions that share a walk through the tokens: as many as 64 MiB and the memory limit hold, but
 * at least a panel. A walk costs little compared with the statistics, so that more gain nothing. */
static int64_t group_of(const tails_job *job)
{
    const es_mem_limit *budget = job->exec.budget;
    double scratch = 0x1p26;
    if (budget && budget->limit)
        scratch = fmin(scratch, (double)budget->limit - (double)budget->used - fixed_bytes(job));
    const double fit = floor(scratch / (8.0 * (double)job->tokens * ES_TAILS_PANEL));
    return ES_TAILS_PANEL * (int64_t)fmax(1.0, fmin(fit, (double)panels(job->rows)));
}

es_tails_cost es_tails_cost_of(const es_tails_spec *spec, int64_t tokens, int64_t dim,
                               int64_t heads)
{
    tails_job job = sized(spec, tokens, dim, heads);
    const work w = work_of(&job);
    const int64_t group = group_of(&job);
    return (es_tails_cost){.rows = job.rows,
                           .flops = w.covariance + w.gaussian + w.norms + w.directions,
                           .bytes = fixed_bytes(&job) + 8.0 * (double)tokens * (double)group};
}

/* ---- progress ---- */

/* Reports progress of the phase as a part of the whole. */
static bool report_phase(void *user, double done, double total)
{
    phase *p = user;
    p->stopped = p->stopped || p->exec->progress(p->exec->progress_user,
                                                 p->before + p->share * done / total, 1.0);
    return p->stopped;
}

/* Reports progress of the running phase and fails if the run is to stop. */
static es_status report(const tails_job *job, double done, double total, es_error *err)
{
    if (job->phased.progress && job->phased.progress(job->phased.progress_user, done, total))
        return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request");
    return ES_OK;
}

/* Ends the phase before and begins one of `flops` operations. */
static void begin_phase(tails_job *job, double flops)
{
    const work w = work_of(job);
    job->part.before += job->part.share;
    job->part.share = flops / (w.covariance + w.gaussian + w.norms + w.directions);
}

/* ---- checks ---- */

/* Checks that there is either a pool of this model or tokens, and that the layer exists. */
static es_status check(const es_tails_spec *spec, int64_t layer, es_error *err)
{
    if (!spec->model != !spec->pool || !spec->pool == !spec->tokens)
        return es_fail(err, ES_E_ARGUMENT, "tails.source", "",
                       "give a model with its pool, or tokens");
    if (spec->tokens)
        ES_TRY(es_view_check(spec->tokens, "tokens", err));
    if (spec->principal < 0 || spec->random < 0 || spec->queries < 0)
        return es_fail(err, ES_E_RANGE, "tails.directions", "0 for the default",
                       "a number of directions is negative");
    const int64_t layers = spec->pool ? es_pool_about(spec->pool).layers : 1;
    if (layer < 0 || layer >= layers)
        return es_fail(err, ES_E_RANGE, "tails.layer", "count from 0", "layer %lld of %lld",
                       (long long)layer, (long long)layers);
    if (!spec->pool)
        return ES_OK;
    const es_model_config *c = es_model_config_of(spec->model);
    const es_pool_info pool = es_pool_about(spec->pool);
    if (pool.hidden != c->hidden || pool.layers != c->layers || pool.heads != c->heads)
        return es_fail(err, ES_E_SHAPE, "tails.pool", "make a pool of this model",
                       "the pool has %lld layers of width %lld, the model %lld of %lld",
                       (long long)pool.layers, (long long)pool.hidden, (long long)c->layers,
                       (long long)c->hidden);
    return ES_OK;
}

/* Reads tokens [first, first + count) into out (count, d). Thread-safe. */
static es_status read_tokens(const tails_job *job, int64_t first, int64_t count, double *out,
                             es_error *err)
{
    const int64_t d = job->dim;
    if (!job->spec.pool) {
        for (int64_t i = 0; i < count; i++)
            es_view_read_row(job->spec.tokens, first + i, out + i * d);
        return ES_OK;
    }
    float *narrow;
    ES_TRY(ES_MEM_NEW_2D(job->exec.budget, narrow, count, d, "a strip of the pool", err));
    const es_status status = es_pool_rows(job->spec.pool, job->layer, first, count, narrow, err);
    for (int64_t i = 0; status == ES_OK && i < count * d; i++)
        out[i] = (double)narrow[i];
    es_mem_free(job->exec.budget, narrow);
    return status;
}

/* ==== directions ==== */

/* ---- covariance ---- */

/* Moments of all tokens, strip by strip; `mean` (d) and `cov` (d, d) are scratch. */
static es_status walk(const tails_job *job, double *x, double *mean, double *cov,
                      es_moments *moments, es_error *err)
{
    const int64_t d = job->dim;
    es_exec quiet = job->exec;
    quiet.progress = NULL;
    for (int64_t first = 0; first < job->tokens; first += STRIP) {
        const int64_t left = job->tokens - first;
        const int64_t count = left < STRIP ? left : STRIP;
        const es_view strip = es_view_f64(x, count, d);
        ES_TRY(read_tokens(job, first, count, x, err));
        ES_TRY(es_cov_estimate(&strip, false, &quiet, mean, cov, err));
        for (int64_t i = 0; i < d * d; i++)
            cov[i] *= (double)count;
        es_moments_merge(moments,
                         &(es_moments){.count = count, .dim = d, .mean = mean, .scatter = cov});
        ES_TRY(report(job, (double)(first + count), (double)job->tokens, err));
    }
    return ES_OK;
}

/* Stores eigenvalues, which come in increasing order, with the largest first. */
static void store_decreasing(tails_job *job, const double *values, const double *vectors)
{
    const int64_t d = job->dim;
    for (int64_t j = 0; j < d; j++) {
        job->spectrum[j] = fmax(values[d - 1 - j], 0.0);
        memcpy(job->vectors + j * d, vectors + (d - 1 - j) * d, (size_t)d * sizeof *vectors);
    }
}

/* Finds mean, eigenvalues and eigenvectors of the covariance of the tokens. */
static es_status find_spectrum(tails_job *job, es_error *err)
{
    const int64_t d = job->dim;
    es_mem_limit *budget = job->exec.budget;
    es_moments moments = {0};
    double *x = NULL, *values = NULL;
    es_status status = es_moments_new(d, budget, &moments, err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, x, STRIP, d, "a strip of tokens", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, values, 2 * d + 1, d, "a covariance", err);
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
            store_decreasing(job, values, vectors);
    }
    es_mem_free(budget, values);
    es_mem_free(budget, x);
    es_moments_free(&moments);
    return status;
}

/* ---- directions of a head ---- */

/* out (d) = Wk' q / sqrt(k), or what the model divides scores by: the tilt under which a query
 * whose projection is q sees the tokens. */
static void tilt_of(const tails_job *job, const es_model_head *head, const double *q, double *out)
{
    const double divisor = es_model_config_of(job->spec.model)->score_divisor;
    const int64_t k = head->wk.rows, d = head->wk.cols;
    for (int64_t j = 0; j < d; j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < k; i++)
            sum += es_view_get(&head->wk, i, j) * q[i];
        out[j] = sum / divisor;
    }
}

/* Queries and keys in units in which tokens have unit covariance, S = L L', L = (sqrt(s_j) v_j):
 * scores are x' M' y, M = L'Wk'Wq L / sqrt(k). With C = Wk L and B = Wq L,
 * M'M = B' (C C') B / k: the leading right singular vector of (C C')^{1/2} B is the query, in these
 * units, that moves scores most, and the whole stays (k, d). */
static es_status key_direction(const tails_job *job, const es_model_head *head, const es_view *L,
                               double *out, es_error *err)
{
    const int64_t k = head->wq.rows, d = job->dim;
    es_mem_limit *budget = job->exec.budget;
    double *B;
    ES_TRY(ES_MEM_NEW(budget, B, 4 * k * d + 3 * k * k + 2 * k, "a head", err));
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
        tilt_of(job, head, q, out);
    }
    es_mem_free(budget, B);
    return status;
}

/* Writes the tilt of a token's query, with its bias. A key's bias changes all scores by the same
 * amount and is left out. */
static void score_direction(const tails_job *job, const es_model_head *head, const float *x,
                            double *q, double *out)
{
    for (int64_t i = 0; i < head->wq.rows; i++) {
        q[i] = es_view_get(&head->bq, 0, i);
        for (int64_t j = 0; j < head->wq.cols; j++)
            q[i] += es_view_get(&head->wq, i, j) * (double)x[j];
    }
    tilt_of(job, head, q, out);
}

/* Draws the tokens whose queries are measured, the same for all heads: x (queries, d). */
static es_status draw_queries(const tails_job *job, float *x, es_error *err)
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

/* Writes the directions of every head: keys (heads, d), and scores (heads, queries, d). */
static es_status head_directions(tails_job *job, const es_view *L, const float *x, double *q,
                                 double *keys, double *scores, es_error *err)
{
    const int64_t d = job->dim, m = job->spec.queries;
    es_status status = ES_OK;
    es_layer_heads *heads;
    ES_TRY(es_layer_heads_open(job->spec.model, job->layer, &job->exec, &heads, err));
    for (int64_t h = 0; h < job->heads && status == ES_OK; h++) {
        const es_model_head head = es_layer_heads_at(heads, h);
        status = key_direction(job, &head, L, keys + h * d, err);
        for (int64_t i = 0; i < m && status == ES_OK; i++)
            score_direction(job, &head, x + i * d, q, scores + (h * m + i) * d);
        if (status == ES_OK)
            status = report(job, (double)(h + 1), (double)job->heads, err);
    }
    es_layer_heads_close(heads);
    return status;
}

/* ---- all of them ---- */

/* Fills job->directions in the order of es_tails_direction_of(); the row of norms stays 0. */
static es_status find_directions(tails_job *job, es_error *err)
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
    es_mem_limit *budget = job->exec.budget;
    es_status status = ES_MEM_NEW_2D(budget, L, d + 1, d, "root of a covariance", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, x, job->spec.queries, d, "queries", err);
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

/* ==== projections and their statistics ==== */

/* One panel of directions from `panel` on: x (count, d), tokens from `first` on around their mean;
 * y (count, ES_TAILS_PANEL) is scratch. */
static void project_panel(tails_job *job, int64_t panel, int64_t first, int64_t count,
                          const double *x, double *y)
{
    const int64_t d = job->dim, norms = job->spec.principal + job->spec.random;
    memset(y, 0, (size_t)(count * ES_TAILS_PANEL) * sizeof *y);
    es_gemm_add(ES_F64, count, ES_TAILS_PANEL, d, x, job->directions + panel * d, y);
    for (int64_t r = 0; r < ES_TAILS_PANEL; r++) {
        double *out = job->projected + (panel + r - job->first) * job->tokens + first;
        for (int64_t i = 0; i < count; i++)
            out[i] = y[i * ES_TAILS_PANEL + r];
        for (int64_t i = 0; panel + r == norms && i < count; i++) {
            double squares = 0.0;
            for (int64_t j = 0; j < d; j++)
                squares += x[i * d + j] * x[i * d + j];
            out[i] = sqrt(squares);
        }
    }
}

/* The group's projections of a strip of tokens around their mean. */
static es_status project_strip(void *user, int64_t unit, int thread, es_error *err)
{
    tails_job *job = user;
    const int64_t d = job->dim, first = unit * STRIP;
    const int64_t last = panels(job->rows) * ES_TAILS_PANEL, end = job->first + job->group;
    const int64_t left = job->tokens - first;
    const int64_t count = left < STRIP ? left : STRIP;
    double *x;
    (void)thread;
    ES_TRY(ES_MEM_NEW_2D(job->exec.budget, x, count, d + ES_TAILS_PANEL, "a strip of tokens", err));
    const es_status status = read_tokens(job, first, count, x, err);
    if (status == ES_OK) {
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < d; j++)
                x[i * d + j] -= job->mean[j];
        for (int64_t panel = job->first; panel < end && panel < last; panel += ES_TAILS_PANEL)
            project_panel(job, panel, first, count, x, x + count * d);
    }
    es_mem_free(job->exec.budget, x);
    return status;
}

/* Projects all tokens on the directions of the group, in parallel over strips. */
static es_status project(tails_job *job, es_error *err)
{
    const int64_t strips = (job->tokens + STRIP - 1) / STRIP;
    ES_TRY(es_blas_scratch_for(es_parallel_threads(&job->phased, strips), err));
    es_blas_enter();
    const es_status status = es_parallel_run(&job->phased, strips, project_strip, job, err);
    es_blas_leave();
    return status;
}

/* ---- statistics ---- */

/* Measures one direction and compares it with its control. Norms have a control of their own. */
static es_status measure_row(void *user, int64_t unit, int thread, es_error *err)
{
    tails_job *job = user;
    es_tails_row *out = &job->out[job->first + unit];
    const bool norm = job->first + unit == job->spec.principal + job->spec.random;
    (void)thread;
    out->control = norm ? job->norms : job->gaussian;
    ES_TRY(es_tails_of(job->projected + unit * job->tokens, job->tokens,
                       norm ? ES_TAILS_UPPER : ES_TAILS_BOTH, job->exec.budget, &out->sample, err));
    out->p = es_tails_compare(&out->sample, &out->control, NULL);
    return ES_OK;
}

/* Draws the Gaussian samples of both controls, unless the first is known. */
static es_status draw_controls(tails_job *job, es_error *err)
{
    const es_tails_spec *s = &job->spec;
    const work w = work_of(job);
    begin_phase(job, w.gaussian);
    if (s->gaussian)
        job->gaussian = *s->gaussian;
    else
        ES_TRY(
            es_tails_gaussian(job->tokens, s->draws, s->seed, &job->phased, &job->gaussian, err));
    begin_phase(job, w.norms);
    return es_tails_gaussian_norms(job->spectrum, job->dim, job->tokens, s->draws, s->seed,
                                   &job->phased, &job->norms, err);
}

/* Group by group: a walk through the tokens, then the statistics of what it gave. */
static es_status measure_groups(tails_job *job, es_error *err)
{
    const double flops = work_of(job).directions / (double)job->rows;
    const double walk = 4.0 * (double)job->tokens * (double)job->dim; /* of that */
    for (job->first = 0; job->first < job->rows; job->first += job->group) {
        const int64_t left = job->rows - job->first;
        const int64_t count = left < job->group ? left : job->group;
        begin_phase(job, walk * (double)count);
        ES_TRY(project(job, err));
        begin_phase(job, (flops - walk) * (double)count);
        ES_TRY(es_parallel_run(&job->phased, count, measure_row, job, err));
    }
    return ES_OK;
}

/* Measures a layer: spectrum, directions, Gaussian controls, then the statistics of each
 * direction. */
static es_status run(tails_job *job, es_error *err)
{
    const int64_t d = job->dim, rows = panels(job->rows) * ES_TAILS_PANEL;
    es_mem_limit *budget = job->exec.budget;
    ES_TRY(ES_MEM_NEW_2D(budget, job->mean, d + 2 + rows, d, "directions", err));
    job->spectrum = job->mean + d;
    job->vectors = job->spectrum + d;
    job->directions = job->vectors + d * d;
    begin_phase(job, work_of(job).covariance);
    ES_TRY(find_spectrum(job, err));
    begin_phase(job, 0.0);
    ES_TRY(find_directions(job, err));
    ES_TRY(draw_controls(job, err));
    ES_TRY(ES_MEM_NEW_2D(budget, job->projected, job->group, job->tokens, "projections of tokens",
                         err));
    return measure_groups(job, err);
}

es_status es_tails_measure(const es_tails_spec *spec, int64_t layer, es_tails_row *out,
                           es_error *err)
{
    ES_TRY(check(spec, layer, err));
    tails_job job = job_of(spec);
    if (job.tokens < ES_TAILS_LEAST)
        return es_fail(err, ES_E_EMPTY, "tails.count", "give more text, or more rows of --tokens",
                       "%lld tokens are too few for tails: at least %d", (long long)job.tokens,
                       ES_TAILS_LEAST);
    job.layer = layer;
    job.out = out;
    job.group = group_of(&job); /* before any of it is taken */
    job.part.exec = &job.exec;
    job.phased = job.exec;
    job.phased.progress = job.exec.progress ? report_phase : NULL;
    job.phased.progress_user = &job.part;
    const es_status status = run(&job, err);
    es_mem_free(job.exec.budget, job.projected);
    es_mem_free(job.exec.budget, job.mean);
    return status;
}
