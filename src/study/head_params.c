#include "study/head_params.h"

#include <math.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/random.h>

#include "base/error.h"

const char *const es_head_kinds[] = {"random", "rotation", "identity", NULL};

static const char *const roles[ES_HEAD_FILES] = {"Wq", "Wk", "Wv", "A"};

es_status es_head_dim(const es_head_params *p, int64_t *dim, es_error *err)
{
    *dim = 0;
    for (int i = 0; i < ES_HEAD_FILES && *dim == 0; i++)
        if (p->file[i])
            ES_TRY(es_matrix_cols(p->file[i], dim, err));
    return ES_OK;
}

/* ---- matrices from the seed ---- */

static es_status new_square(es_job *job, int64_t dim, es_matrix *out, es_error *err)
{
    ES_TRY(es_job_array(job, dim, dim, sizeof(double), &out->data, err));
    out->rows = out->cols = dim;
    out->view = es_view_f64(out->data, dim, dim);
    return ES_OK;
}

/* Standard normals; `which` matrix they are for is their cell. */
static es_status normals(es_job *job, int which, int64_t dim, double *out, es_error *err)
{
    const es_address at = {
        .seed = job->seed, .experiment = ES_EXPERIMENT_HEAD, .cell = (uint64_t)which};
    return es_normal_rows(&at, dim, dim, out, err);
}

static void set_identity(es_matrix *m)
{
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        m->data[i] = i % (m->cols + 1) == 0 ? 1.0 : 0.0;
}

/* Uniform on the orthogonal matrices. A line is not turned: of its two, the one that is 1. */
static es_status set_rotation(es_job *job, es_matrix *m, es_error *err)
{
    double *drawn;
    set_identity(m);
    if (m->rows == 1)
        return ES_OK;
    ES_TRY(es_job_array(job, m->rows, m->cols, sizeof(double), &drawn, err));
    ES_TRY(normals(job, ES_HEAD_A, m->rows, drawn, err));
    return es_haar_make(drawn, m->rows, job->exec.budget, m->data, err);
}

/* ---- all together ---- */

static es_status check(const es_head_params *p, int kind, es_error *err)
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

/* Does the head have this matrix at all? Values are the tokens themselves unless drawn or given. */
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

static es_status make_matrix(es_job *job, const es_head_params *p, int which, int64_t dim,
                             es_matrix *out, es_error *err)
{
    if (p->file[which])
        return es_job_matrix(job, roles[which], p->file[which], which == ES_HEAD_A ? dim : -1, dim,
                             out, err);
    ES_TRY(new_square(job, dim, out, err));
    if (which == ES_HEAD_A && p->kind == ES_HEAD_ROTATION)
        return set_rotation(job, out, err);
    if (which == ES_HEAD_A) {
        set_identity(out);
        return ES_OK;
    }
    ES_TRY(normals(job, which, dim, out->data, err));
    for (int64_t i = 0; i < dim * dim; i++)
        out->data[i] /= sqrt((double)dim); /* entries N(0, 1/d), the papers' random head */
    return ES_OK;
}

es_status es_head_make(es_job *job, es_head_params *p, int64_t dim, int kind, bool draws_values,
                       es_head_data *out, es_error *err)
{
    const es_view **const slots[ES_HEAD_FILES] = {&out->head.Wq, &out->head.Wk, &out->head.V,
                                                  &out->head.A};
    if (kind < 0) /* then there is no --head that could have said */
        p->kind = ES_HEAD_NONE;
    ES_TRY(check(p, kind, err));
    if (p->kind < 0 && !p->file[ES_HEAD_A] && !p->file[ES_HEAD_WQ])
        p->kind = kind >= 0 ? kind : ES_HEAD_NONE;
    for (int i = 0; i < ES_HEAD_FILES; i++) {
        if (!has(p, i, draws_values))
            continue;
        ES_TRY(make_matrix(job, p, i, dim, &out->matrix[i], err));
        *slots[i] = &out->matrix[i].view;
    }
    return ES_OK;
}
