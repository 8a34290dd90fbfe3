/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/setting_params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "linalg/linalg.h"
#include "random/experiment.h"

/* ---- the law ---- */

/* Fails because options about the law do not fit together. */
static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "law.options", hint, "%s", message);
}

/* The law that has a use for these parameters. */
static const char *owner_of(unsigned uses)
{
    int kind = 1;
    while (!(es_law_uses((es_law_kind)kind) & uses))
        kind++;
    return es_law_name((es_law_kind)kind);
}

/* Parameters that the law needs, and those it has no use for. */
static es_status check(const es_law_params *p, es_error *err)
{
    if (p->kind < 0)
        return refuse("e.g. --law sphere --dim 3", "--law is needed", err);
    const unsigned uses = es_law_uses((es_law_kind)(p->kind + 1));
    const struct {
        unsigned uses;
        bool needed, given;
        const char *hint, *option, *all;
    } rules[] = {{ES_LAW_USES_DIRECTION, p->direction != NULL, p->direction || p->kappa > 0.0,
                  "name a vector of dimension d", "--direction", "--direction and --kappa"},
                 {ES_LAW_USES_FREEDOM, p->freedom > 0.0, p->freedom > 0.0, "e.g. --freedom 5",
                  "--freedom", NULL},
                 {ES_LAW_USES_PARTS, p->means != NULL, p->means || p->weights,
                  "name a matrix (parts, d)", "--means", "--means and --weights"},
                 {ES_LAW_USES_POINTS, p->points != NULL, p->points != NULL, "name a matrix (n, d)",
                  "--points", NULL}};
    if (p->cov && p->rho != 1.0)
        return refuse("choose one", "--cov and --rho at once", err);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if ((uses & rules[i].uses) && !rules[i].needed)
            return es_refuse(err, "law.options", rules[i].hint, "--law %s needs %s",
                             es_law_names[p->kind], rules[i].option);
        if (!(uses & rules[i].uses) && rules[i].given)
            return es_refuse(err, "law.options", "name that law, or leave the option out",
                             "%s belong%s to --law %s",
                             rules[i].all ? rules[i].all : rules[i].option, rules[i].all ? "" : "s",
                             owner_of(rules[i].uses));
    }
    return ES_OK;
}

bool es_law_params_speak(const es_law_params *p)
{
    return p->dim || p->cov || p->mean || p->points || p->means || p->direction;
}

/* Returns the dimension: that of --dim, or of the first file. */
static es_status find_dim(const es_law_params *p, int64_t dim, int64_t *out, es_error *err)
{
    const char *const files[] = {p->points, p->means, p->cov, p->mean, p->direction};
    *out = p->dim;
    for (size_t i = 0; *out == 0 && i < sizeof files / sizeof *files; i++)
        if (files[i])
            ES_TRY(es_matrix_cols(files[i], out, err));
    if (*out == 0)
        *out = dim;
    return *out ? ES_OK : refuse("e.g. --dim 3", "nothing says what the dimension is", err);
}

/* Reads the files of a law and checks that their dimensions agree. */
static es_status read_files(es_job *job, const es_law_params *p, int64_t d, es_law_data *out,
                            es_error *err)
{
    ES_TRY(es_job_matrix(job, "mean", p->mean, 1, d, &out->mean, err));
    ES_TRY(es_job_matrix(job, "cov", p->cov, d, d, &out->cov, err));
    ES_TRY(es_job_matrix(job, "direction", p->direction, 1, d, &out->direction, err));
    ES_TRY(es_job_matrix(job, "means", p->means, -1, d, &out->means, err));
    ES_TRY(es_job_matrix(job, "points", p->points, -1, d, &out->points, err));
    return es_job_matrix(job, "weights", p->weights, 1, out->means.rows, &out->weights, err);
}

/* A singular covariance has no Cholesky factor without a jitter. What was added is said, because
 * a law that differs from the one asked for must not pass in silence. */
static es_status factor_cov(es_job *job, const char *path, es_law_data *out, es_error *err)
{
    const int64_t d = out->cov.rows;
    double jitter;
    ES_TRY(ES_JOB_NEW_2D(job, out->factor, d, d, err));
    const es_status status =
        es_chol_factor(&out->cov.view, 0.0, job->exec.budget, out->factor, &jitter, err);
    if (status != ES_OK)
        return es_blame_file(status, path, err);
    es_answer_real(job->answer, "jitter", jitter);
    if (jitter > 0.0)
        es_log(ES_LOG_WARN, "--cov is singular: %.3g was added to its diagonal", jitter);
    return ES_OK;
}

/* The parts of a mixture: Gaussians that differ in their centres. */
static es_status make_parts(es_job *job, es_law_data *out, es_error *err)
{
    const int64_t parts = out->means.rows, d = out->law.dim;
    ES_TRY(ES_JOB_NEW(job, out->parts, parts, err));
    if (!out->weights.data) {
        ES_TRY(ES_JOB_NEW(job, out->weights.data, parts, err));
        for (int64_t j = 0; j < parts; j++)
            out->weights.data[j] = 1.0;
    }
    for (int64_t j = 0; j < parts; j++)
        out->parts[j] = (es_law){ES_LAW_GAUSSIAN, .dim = d, .size = out->law.size,
                                 .mean = out->means.data + j * d, .factor = out->factor};
    out->law.parts = out->parts;
    out->law.n_parts = parts;
    out->law.weights = out->weights.data;
    out->law.factor = NULL; /* of the parts, not of the whole */
    return ES_OK;
}

es_status es_law_make(es_job *job, const es_law_params *p, int64_t dim, es_law_data *out,
                      es_error *err)
{
    int64_t d = 0;
    ES_TRY(check(p, err));
    ES_TRY(find_dim(p, dim, &d, err));
    ES_TRY(read_files(job, p, d, out, err));
    if (p->cov)
        ES_TRY(factor_cov(job, p->cov, out, err));
    out->law = (es_law){(es_law_kind)(p->kind + 1),
                        .dim = d,
                        .size = p->radius * sqrt(p->rho),
                        .freedom = p->freedom > 0.0 ? p->freedom : 0.0,
                        .concentration = p->kappa,
                        .direction = out->direction.data,
                        .mean = out->mean.data,
                        .factor = out->factor,
                        .points = out->points.data ? &out->points.view : NULL};
    if (es_law_uses(out->law.kind) & ES_LAW_USES_PARTS)
        ES_TRY(make_parts(job, out, err));
    es_answer_text(job->answer, "law", es_law_name(out->law.kind));
    es_answer_count(job->answer, "dim", d);
    const es_status status = es_law_check(&out->law, err);
    if (status == ES_OK)
        return ES_OK;
    return es_blame_file(status,
                         strcmp(err->rule, "law.weight") == 0      ? p->weights
                         : strcmp(err->rule, "law.direction") == 0 ? p->direction
                                                                   : NULL,
                         err);
}

es_status es_law_cov(es_job *job, const es_law_params *p, es_matrix *out, es_error *err)
{
    int64_t d = p->dim;
    if (!p->cov && !d)
        return refuse("give --cov S.npy, or --dim D [--rho R]", "missing --cov or --dim", err);
    if (p->cov && p->rho != 1.0)
        return refuse("choose one", "--cov and --rho at once", err);
    if (d == 0)
        ES_TRY(es_matrix_cols(p->cov, &d, err));
    if (p->cov)
        return es_job_matrix(job, "cov", p->cov, d, d, out, err);
    ES_TRY(ES_JOB_NEW_2D(job, out->data, d, d, err));
    for (int64_t i = 0; i < d; i++)
        out->data[i * d + i] = p->rho;
    out->rows = out->cols = d;
    out->view = es_view_f64(out->data, d, d);
    return ES_OK;
}

const char *const es_head_kinds[] = {"random", "rotation", "identity", NULL};

static const char *const roles[ES_HEAD_MATRICES] = {"Wq", "Wk", "Wv", "A"};

es_status es_head_dim(const es_head_params *p, int64_t *dim, es_error *err)
{
    *dim = 0;
    for (int i = 0; i < ES_HEAD_MATRICES && *dim == 0; i++)
        if (p->file[i])
            ES_TRY(es_matrix_cols(p->file[i], dim, err));
    return ES_OK;
}

/* ---- the head: matrices from the seed ---- */

/* Uniform on the orthogonal matrices. A line is not turned: of its two, the one that is 1. */
static es_status fill(es_job *job, int which, int kind, int64_t dim, double *out, es_error *err)
{
    const es_address at = {
        .seed = job->seed, .experiment = ES_EXPERIMENT_HEAD, .cell = (uint64_t)which};
    if (which != ES_HEAD_A)
        return es_head_fill_random(&at, dim, out, err);
    if (kind == ES_HEAD_ROTATION && dim > 1)
        return es_head_fill_rotation(&at, dim, job->exec.budget, out, err);
    for (int64_t i = 0; i < dim; i++)
        out[i * (dim + 1)] = 1.0;
    return ES_OK;
}

/* ---- the head: all together ---- */

/* Fails unless scores are given in exactly one way: --head, --A, or --Wq with --Wk. */
static es_status check_head(const es_head_params *p, int kind, es_error *err)
{
    const bool projections = p->file[ES_HEAD_WQ] || p->file[ES_HEAD_WK];
    if (!p->file[ES_HEAD_WQ] != !p->file[ES_HEAD_WK])
        return es_refuse(err, "head.options", "give both, or neither",
                         "--Wq and --Wk belong together");
    if (projections + (p->file[ES_HEAD_A] != NULL) + (p->kind >= 0) > 1)
        return es_refuse(err, "head.options", "choose one",
                         kind < 0 ? "--A, and --Wq with --Wk, both say what the scores are"
                                  : "--head, --A, and --Wq with --Wk all say what the scores are");
    if (kind == ES_HEAD_REQUIRED && !projections && !p->file[ES_HEAD_A])
        return es_refuse(err, "head.options", "give --A A.npy, or --Wq Wq.npy --Wk Wk.npy",
                         "no head");
    return ES_OK;
}

/* Returns whether the head has this matrix. Values are the tokens themselves unless drawn or given.
 */
static bool has(const es_head_params *p, int which, bool draws_values)
{
    if (p->file[which])
        return true;
    if (which == ES_HEAD_A)
        return p->kind == ES_HEAD_ROTATION || p->kind == ES_HEAD_IDENTITY;
    if (which == ES_HEAD_WV)
        return draws_values && (p->kind == ES_HEAD_RANDOM || p->file[ES_HEAD_WQ]);
    return p->kind == ES_HEAD_RANDOM;
}

/* Returns a matrix of the head, from its file or drawn. */
static es_status make_matrix(es_job *job, const es_head_params *p, int which, int64_t dim,
                             es_view *out, es_error *err)
{
    es_matrix m;
    if (p->file[which]) {
        ES_TRY(es_job_matrix(job, roles[which], p->file[which], which == ES_HEAD_A ? dim : -1, dim,
                             &m, err));
        *out = m.view;
        return ES_OK;
    }
    ES_TRY(ES_JOB_NEW_2D(job, m.data, dim, dim, err));
    *out = es_view_f64(m.data, dim, dim);
    return fill(job, which, p->kind, dim, m.data, err);
}

es_status es_head_make(es_job *job, es_head_params *p, int64_t dim, int kind, bool draws_values,
                       es_head_data *out, es_error *err)
{
    const es_view **const slots[ES_HEAD_MATRICES] = {&out->head.Wq, &out->head.Wk, &out->head.V,
                                                     &out->head.A};
    if (kind < 0) /* then there is no --head that could have said */
        p->kind = ES_HEAD_NONE;
    ES_TRY(check_head(p, kind, err));
    if (p->kind < 0 && !p->file[ES_HEAD_A] && !p->file[ES_HEAD_WQ])
        p->kind = kind >= 0 ? kind : ES_HEAD_NONE;
    for (int i = 0; i < ES_HEAD_MATRICES; i++) {
        if (!has(p, i, draws_values))
            continue;
        ES_TRY(make_matrix(job, p, i, dim, &out->view[i], err));
        *slots[i] = &out->view[i];
    }
    return ES_OK;
}
