/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : draws tokens at cosine rho, applies attention once, and measures how far their angles
 * shrink (THEORY 7). First the derivative of one output by all tokens, then replicates and their
 * averages, then the stage of the study. */
#include "experiments/collapse/collapse.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "random/experiment.h"
#include "stats/average.h"

/* ==== a row of the Jacobian ====
 * With Q_k = I - y_k y_k', m = sum_j A_ij y_j, C = sum_j A_ij y_j y_j' - m m' and u_k = y_k - m,
 *     dx_i'/dx_k = A_ik (I + beta u_k y_i') Q_k / sqrt q                  k != i
 *     dx_i'/dx_i = (A_ii I + beta C) Q_i / sqrt q + alpha I
 * since dm = sum_j A_ij (dy_j + u_j ds_j), s_j = beta <y_i, y_j>, and dy_k = Q_k dx_k / sqrt q. */

/* Adds factor x to a vector. */
static void add(double *to, double factor, const double *x, int64_t d)
{
    for (int64_t j = 0; j < d; j++)
        to[j] += factor * x[j];
}

/* Sums that one pass over the tokens collects. */
typedef struct pass {
    double off;  /* sum over k != i of the squared norms, without 1/q */
    double wcc;  /* sum_j A_ij <y_i, y_j>^2 */
    double p;    /* A_ii */
    double *CQz; /* C Q_i z */
} pass;

/* Collects all sums of a row in one pass: with w = A_ik, c = <y_i, y_k>, b = <y_k, m> and a = <y_i,
 * m>, |A_ik (I + beta u_k y_i') Q_k|^2 = w^2 (d - 1 + 2 beta (c b - a) + beta^2 |u_k|^2 (1 - c^2)).
 */
static pass sum_up(const es_jacobian_row *r)
{
    const int64_t d = r->dim;
    const double *own = r->y + r->i * d, beta = r->beta;
    const double a = es_dot(own, r->m, d), mm = es_dot(r->m, r->m, d);
    double *z = r->scratch + d; /* Q_i z */
    pass s = {.CQz = r->scratch};
    memset(s.CQz, 0, (size_t)d * sizeof(double));
    memcpy(z, r->probe, (size_t)d * sizeof(double));
    add(z, -es_dot(own, z, d), own, d);
    for (int64_t k = 0; k < r->n; k++) {
        const double *y = r->y + k * d;
        const double c = es_dot(own, y, d), b = es_dot(y, r->m, d), w = exp(beta * c - r->lse);
        add(s.CQz, w * es_dot(y, z, d), y, d);
        s.wcc += w * c * c;
        if (k == r->i)
            s.p = w;
        else
            s.off += w * w *
                     ((double)(d - 1) + 2.0 * beta * (c * b - a) +
                      beta * beta * (1.0 - 2.0 * b + mm) * (1.0 - c * c));
    }
    add(s.CQz, -es_dot(r->m, z, d), r->m, d);
    return s;
}

double es_jacobian_row2(const es_jacobian_row *r)
{
    const int64_t d = r->dim;
    const pass s = sum_up(r);
    const double a = es_dot(r->y + r->i * d, r->m, d), mm = es_dot(r->m, r->m, d);
    const double CQ = (1.0 - mm) - (s.wcc - a * a); /* trace */
    const double trace = s.p * (double)(d - 1) + r->beta * CQ;
    const double own = s.p * s.p * (double)(d - 1) + 2.0 * s.p * r->beta * CQ +
                       r->beta * r->beta * es_dot(s.CQz, s.CQz, d);
    return (own + s.off) / r->square + 2.0 * r->alpha * trace / sqrt(r->square) +
           r->alpha * r->alpha * (double)d;
}

/* ==== replicates ==== */

enum { MOST_N = 10000000, MOST_DIM = 4096 };

/* Options with their defaults filled in, and scratch memory of the threads. */
typedef struct sample_job {
    es_collapse_opts o;
    int64_t n, betas, first;
    double rho;
    const double *beta;
    es_collapse_draw *draws; /* (count, betas) */
    double *scratch;         /* (threads, each) */
    int64_t each;
} sample_job;

/* Scratch memory of one thread. */
typedef struct thread_memory {
    double *y;             /* (n, dim) tokens on the unit sphere */
    double *out;           /* (betas, tokens, dim) */
    double *lse, *squares; /* (betas, tokens) */
    double *probe, *work;  /* (dim), (2 dim) */
    double *beta;          /* (betas) of the replicate */
} thread_memory;

/* Returns the doubles that one thread needs. */
static int64_t memory_size(const sample_job *j)
{
    return j->n * j->o.dim + j->betas * j->o.tokens * (j->o.dim + 2) + 3 * j->o.dim + j->betas;
}

/* Divides the memory of a thread into its arrays. */
static thread_memory memory_of(const sample_job *j, int thread)
{
    const int64_t d = j->o.dim, looked = j->betas * j->o.tokens;
    double *at = j->scratch + thread * j->each;
    thread_memory k = {.y = at, .out = at + j->n * d};
    k.lse = k.out + looked * d;
    k.squares = k.lse + looked;
    k.probe = k.squares + looked;
    k.work = k.probe + d;
    k.beta = k.work + 2 * d;
    return k;
}

/* ---- options ---- */

/* Fails unless a parameter is finite and not negative; `rule` names it after "collapse.". */
static es_status check_real(double value, const char *rule, es_error *err)
{
    if (value >= 0.0 && isfinite(value))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, rule, "a finite number, not negative", "%s is %g",
                   rule + sizeof "collapse." - 1, value);
}

/* Fails for numbers outside their ranges. */
static es_status check_job(const sample_job *j, int64_t count, es_error *err)
{
    if (count < 1 || j->betas < 1)
        return es_fail(err, ES_E_EMPTY, "collapse.count", "", "there is no replicate or no beta");
    ES_TRY(es_check_range(j->n, 2, MOST_N, "collapse.n", err));
    ES_TRY(es_check_range(j->o.dim, 2, MOST_DIM, "collapse.dim", err));
    ES_TRY(es_check_range(j->o.tokens, 2, j->n, "collapse.tokens", err));
    ES_TRY(es_check_range(j->o.rows, 0, j->o.tokens, "collapse.rows", err));
    ES_TRY(es_check_range(j->first, 0, (INT64_C(1) << 48) - count, "collapse.replicate", err));
    if (!(j->rho >= 0.0 && j->rho < 1.0))
        return es_fail(err, ES_E_RANGE, "collapse.rho", "0 <= rho < 1", "rho is %g", j->rho);
    ES_TRY(check_real(j->o.alpha, "collapse.alpha", err));
    ES_TRY(check_real(j->o.square, "collapse.square", err));
    for (int64_t b = 0; b < j->betas; b++)
        ES_TRY(check_real(j->beta[b], "collapse.beta", err));
    return ES_OK;
}

/* Fills in the defaults. */
static es_collapse_opts complete(const es_collapse_opts *opts, int64_t n)
{
    es_collapse_opts o = *opts;
    o.dim = o.dim ? o.dim : 128;
    o.tokens = o.tokens ? o.tokens : n < 64 ? n : 64;
    o.rows = o.rows < 0 ? 0 : o.rows ? o.rows : o.tokens < 4 ? o.tokens : 4;
    o.square = o.square > 0.0 || o.square < 0.0 ? o.square : 1.0;
    return o;
}

/* ---- one replicate ---- */

/* Draws the tokens: token 0 of the address is z_0, tokens 1..n are z_1..z_n. *rho is the mean
 * cosine of all pairs, from |sum y|^2 = n + n(n-1) rho; `sum` is scratch (2 dim). */
static es_status draw_tokens(const sample_job *j, es_address at, double *y, double *sum,
                             double *rho, es_error *err)
{
    const int64_t d = j->o.dim, n = j->n;
    double *z0 = sum + d;
    ES_TRY(es_normal_rows(&at, 1, d, z0, err));
    at.token = 1;
    ES_TRY(es_normal_rows(&at, n, d, y, err));
    for (int64_t c = 0; c < d; c++)
        sum[c] = 0.0;
    const double common = sqrt(j->rho), own = sqrt(1.0 - j->rho);
    for (int64_t i = 0; i < n; i++) {
        double *row = y + i * d;
        for (int64_t c = 0; c < d; c++)
            row[c] = common * z0[c] + own * row[c];
        const double norm = sqrt(es_dot(row, row, d));
        for (int64_t c = 0; c < d; c++)
            sum[c] += row[c] /= norm;
    }
    *rho = (es_dot(sum, sum, d) - (double)n) / ((double)n * (double)(n - 1));
    return ES_OK;
}

/* Averages cosine and angle over all pairs of rows of x (count, d), whatever their norms. */
static void average_pairs(const double *x, int64_t count, int64_t d, double *cosine, double *angle)
{
    double cosines = 0.0, angles = 0.0;
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = a + 1; b < count; b++) {
            /* The angle from |u - v|, which loses no digits where the two nearly coincide. */
            const double *u = x + a * d, *v = x + b * d;
            const double nu = sqrt(es_dot(u, u, d)), nv = sqrt(es_dot(v, v, d));
            double chord2 = 0.0;
            for (int64_t c = 0; c < d; c++) {
                const double off = u[c] / nu - v[c] / nv;
                chord2 += off * off;
            }
            cosines += 1.0 - 0.5 * chord2;
            angles += 2.0 * asin(fmin(1.0, 0.5 * sqrt(chord2)));
        }
    const double pairs = 0.5 * (double)count * (double)(count - 1);
    *cosine = cosines / pairs;
    *angle = angles / pairs;
}

/* Computes the attention of the first tokens over all of them, at all betas at once. */
static es_status attend(const sample_job *j, const thread_memory *k, es_error *err)
{
    const es_view tokens = es_view_f64(k->y, j->n, j->o.dim);
    const es_view queries = es_view_rows(&tokens, 0, j->o.tokens);
    const es_exec alone = es_exec_one_thread(j->o.exec);
    const es_attend_opts opts = {
        .precision = ES_F64, .scales = k->beta, .n_scales = j->betas, .exec = &alone};
    const es_attend_out out = {.output = k->out, .lse = k->lse, .sum_squares = k->squares};
    return es_attend(&queries, &tokens, &tokens, &opts, &out, err);
}

/* Computes the mean over the first rows of |dx_i'/dX|^2/dim at one beta. */
static es_status gradient_at(const sample_job *j, const thread_memory *k, int64_t b, es_address at,
                             double *out, es_error *err)
{
    const int64_t d = j->o.dim;
    double sum = 0.0;
    for (int64_t i = 0; i < j->o.rows; i++) {
        at.token = (uint64_t)(j->n + 1 + i); /* addresses beyond the tokens: the probes */
        ES_TRY(es_normal_rows(&at, 1, d, k->probe, err));
        const es_jacobian_row row = {.y = k->y,
                                     .n = j->n,
                                     .dim = d,
                                     .i = i,
                                     .beta = k->beta[b],
                                     .alpha = j->o.alpha,
                                     .square = j->o.square,
                                     .m = k->out + (b * j->o.tokens + i) * d,
                                     .lse = k->lse[b * j->o.tokens + i],
                                     .probe = k->probe,
                                     .scratch = k->work};
        sum += es_jacobian_row2(&row);
    }
    *out = j->o.rows ? sum / (double)(j->o.rows * d) : (double)NAN;
    return ES_OK;
}

/* Measures everything else at one beta, after adding the residual alpha x to the outputs. */
static es_collapse_draw measure(const sample_job *j, const thread_memory *k, int64_t b,
                                double angle_in)
{
    const int64_t d = j->o.dim, count = j->o.tokens;
    const double residual = j->o.alpha * sqrt(j->o.square);
    double *out = k->out + b * count * d, angle_out;
    es_collapse_draw draw = {0};
    for (int64_t i = 0; i < count; i++) {
        draw.self_weight += exp(k->beta[b] - k->lse[b * count + i]);
        draw.ess += 1.0 / k->squares[b * count + i];
        for (int64_t c = 0; c < d; c++)
            out[i * d + c] += residual * k->y[i * d + c];
    }
    draw.self_weight /= (double)count;
    draw.ess /= (double)count;
    average_pairs(out, count, d, &draw.cosine, &angle_out);
    draw.angle_ratio = angle_out / angle_in;
    return draw;
}

/* Computes one replicate at all betas, from the same tokens. */
static es_status draw_replicate(void *user, int64_t unit, int thread, es_error *err)
{
    sample_job *j = user;
    const thread_memory k = memory_of(j, thread);
    const es_address at = {
        .seed = j->o.seed, .experiment = j->o.experiment, .cell = (uint64_t)(j->first + unit)};
    double rho, cosine, angle;
    ES_TRY(draw_tokens(j, at, k.y, k.probe, &rho, err));
    const double factor = j->o.realised ? (1.0 - j->rho) / (1.0 - rho) : 1.0;
    for (int64_t b = 0; b < j->betas; b++)
        k.beta[b] = factor * j->beta[b];
    ES_TRY(attend(j, &k, err));
    average_pairs(k.y, j->o.tokens, j->o.dim, &cosine, &angle);
    for (int64_t b = 0; b < j->betas; b++) {
        double gradient;
        ES_TRY(gradient_at(j, &k, b, at, &gradient, err));
        es_collapse_draw *draw = &j->draws[unit * j->betas + b];
        *draw = measure(j, &k, b, angle);
        draw->rho = rho;
        draw->gradient = gradient;
    }
    return ES_OK;
}

es_status es_collapse_sample(const es_collapse_opts *opts, int64_t n, double rho,
                             const double *beta, int64_t betas, int64_t first, int64_t count,
                             es_collapse_draw *draws, es_error *err)
{
    sample_job j = {.o = complete(opts, n),
                    .n = n,
                    .betas = betas,
                    .first = first,
                    .rho = rho,
                    .beta = beta,
                    .draws = draws};
    ES_TRY(check_job(&j, count, err));
    es_mem_limit *budget = opts->exec ? opts->exec->budget : NULL;
    j.each = memory_size(&j);
    ES_TRY(ES_MEM_NEW_2D(budget, j.scratch, es_parallel_threads(opts->exec, count), j.each,
                         "tokens", err));
    const es_status status = es_parallel_run(opts->exec, count, draw_replicate, &j, err);
    es_mem_free(budget, j.scratch);
    return status;
}

/* ---- averages ---- */

void es_collapse_average(const es_collapse_draw *draws, int64_t count, int64_t betas,
                         es_collapse_row *rows)
{
    /* Every member of a draw is a double, and a row is a mean and its errors. */
    es_average_rows((const double *)draws, count, betas, sizeof *draws / sizeof(double),
                    (double *)rows);
}

/* ---- the stage ---- */

static const es_cell_field draw_fields[] = {ES_FIELD(es_collapse_draw, rho),
                                            ES_FIELD(es_collapse_draw, cosine),
                                            ES_FIELD(es_collapse_draw, angle_ratio),
                                            ES_FIELD(es_collapse_draw, self_weight),
                                            ES_FIELD(es_collapse_draw, ess),
                                            ES_FIELD(es_collapse_draw, gradient),
                                            {0}};

/* Draws all replicates of one n and rho. They are one cell because they share the threads: a single
 * replicate is too little work for several threads. */
static es_status run_pair(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    const collapse_params *p = job->params;
    const collapse_state *s = job->state;
    const int64_t n = p->n.counts[cell / p->rho.count];
    const double rho = p->rho.reals[cell % p->rho.count];
    const es_collapse_opts opts = {job->seed,
                                   .experiment = ES_EXPERIMENT_COLLAPSE,
                                   .dim = p->dim,
                                   .tokens = p->queries < n ? p->queries : n,
                                   .alpha = p->alpha,
                                   .square = p->square,
                                   .realised = p->realised,
                                   .exec = exec};
    es_arena arena = {.budget = exec->budget};
    double *beta;
    ES_TRY(ES_ARENA_NEW(&arena, beta, s->gammas, "scales", err));
    for (int64_t g = 0; g < s->gammas; g++)
        beta[g] = collapse_gamma(p, rho, g) * log((double)n);
    const es_status status =
        es_collapse_sample(&opts, n, rho, beta, s->gammas, 0, p->replicates, record, err);
    es_arena_free(&arena);
    return status;
}

/* Returns the operations of all replicates at one n: scores of the queries, an output for each
 * gamma, and the gradients of some rows. */
static double pair_flops(const collapse_params *p, const collapse_state *s, double n)
{
    const double M = fmin(n, (double)p->queries), G = (double)s->gammas;
    return (double)p->replicates * n * (double)p->dim * (2.0 * M * (1.0 + G) + 40.0 * G);
}

double collapse_flops(const collapse_params *p, const collapse_state *s)
{
    double flops = 0.0;
    for (int64_t i = 0; i < s->pairs; i++)
        flops += pair_flops(p, s, p->n.reals[i / p->rho.count]);
    return flops;
}

es_status collapse_stage(es_job *job, es_error *err)
{
    const collapse_params *p = job->params;
    const collapse_state *s = job->state;
    const double flops = s->pairs ? collapse_flops(p, s) / (double)s->pairs : 0.0;
    return es_job_stage(job,
                        &(es_stage){"model", .phase = "drawing tokens", .noun = "pairs (n, rho)",
                                    .cells = s->pairs, .rows = p->replicates * s->gammas,
                                    ES_RECORD(es_collapse_draw, draw_fields),
                                    .reports_progress = true, .flops = flops, .run = run_pair},
                        err);
}
