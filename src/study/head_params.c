#include "study/head_params.h"

#include <esscher/experiment.h>
#include <esscher/random.h>

#include "base/error.h"

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

/* ---- matrices from the seed ---- */

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
                             es_view *out, es_error *err)
{
    es_matrix m;
    if (p->file[which]) {
        ES_TRY(es_job_matrix(job, roles[which], p->file[which], which == ES_HEAD_A ? dim : -1, dim,
                             &m, err));
        *out = m.view;
        return ES_OK;
    }
    ES_TRY(es_job_array(job, dim, dim, sizeof(double), &m.data, err));
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
    ES_TRY(check(p, kind, err));
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
