#include "converge.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/random.h>

#include "talk.h"

const char *const converge_head_names[] = {"random", "rotation", "identity", NULL};

static const char *const roles[HEAD_FILES] = {"Wq", "Wk", "Wv", "A"};

void converge_head_free(converge_head *head)
{
    for (int i = 0; i < HEAD_FILES; i++)
        cli_input_free(&head->matrix[i]);
}

es_status converge_head_dim(const converge_head_options *o, int64_t *dim, es_error *err)
{
    *dim = 0;
    for (int i = 0; i < HEAD_FILES && *dim == 0; i++)
        if (o->file[i]) {
            const es_status status = cli_input_cols(o->file[i], dim, err);
            if (status != ES_OK)
                return status;
        }
    return ES_OK;
}

/* ---- matrices from the seed ---- */

/* (dim, dim) standard normals; `which` is their cell. */
static es_status normals(const cli_session *session, int which, int64_t dim, cli_input *out,
                         es_error *err)
{
    const es_address at = {
        .seed = session->common.seed, .experiment = ES_EXPERIMENT_HEAD, .cell = (uint64_t)which};
    *out = (cli_input){
        .data = cli_alloc_array((size_t)(dim * dim), sizeof(double)), .rows = dim, .cols = dim};
    return es_normal_rows(&at, dim, dim, out->data, err);
}

/* Entries N(0, 1/d), the papers' random head. */
static es_status random_matrix(const cli_session *session, int which, int64_t dim, cli_input *out,
                               es_error *err)
{
    const es_status status = normals(session, which, dim, out, err);
    for (int64_t i = 0; i < dim * dim; i++)
        out->data[i] /= sqrt((double)dim);
    return status;
}

static void make_identity(int64_t dim, cli_input *out)
{
    *out = (cli_input){
        .data = cli_alloc_array((size_t)(dim * dim), sizeof(double)), .rows = dim, .cols = dim};
    for (int64_t i = 0; i < dim * dim; i++)
        out->data[i] = i % (dim + 1) == 0 ? 1.0 : 0.0;
}

/* Uniform on the orthogonal matrices. A line is not turned: of its two, the one that is 1. */
static es_status make_rotation(cli_session *session, int64_t dim, cli_input *out, es_error *err)
{
    cli_input drawn = {0};
    make_identity(dim, out);
    if (dim == 1)
        return ES_OK;
    es_status status = normals(session, HEAD_A, dim, &drawn, err);
    if (status == ES_OK)
        status = es_haar_make(drawn.data, dim, &session->budget, out->data, err);
    cli_input_free(&drawn);
    return status;
}

/* ---- all together ---- */

static es_status check(const converge_head_options *o, es_error *err)
{
    const bool projections = o->file[HEAD_WQ] || o->file[HEAD_WK];
    if (!o->file[HEAD_WQ] != !o->file[HEAD_WK])
        return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.options",
                        "give both, or neither for a random head", "--Wq and --Wk belong together");
    if (projections + (o->file[HEAD_A] != NULL) + (o->kind >= 0) > 1)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.options", "choose one",
                        "--head, --A, and --Wq with --Wk all say what the scores are");
    return ES_OK;
}

/* Does the head have this matrix at all? Values are the tokens themselves unless the head is one of
 * projections or --Wv is given. */
static bool has(const converge_head_options *o, int which)
{
    const bool by_a = o->file[HEAD_A] || o->kind == HEAD_ROTATION || o->kind == HEAD_IDENTITY;
    return which == HEAD_A ? by_a : o->file[which] != NULL || !by_a;
}

static es_status make_matrix(cli_session *session, const converge_head_options *o, int which,
                             int64_t dim, cli_input *out, es_error *err)
{
    if (o->file[which])
        return cli_input_read(session, roles[which], o->file[which], which == HEAD_A ? dim : -1,
                              dim, out, err);
    if (which != HEAD_A)
        return random_matrix(session, which, dim, out, err);
    if (o->kind == HEAD_ROTATION)
        return make_rotation(session, dim, out, err);
    make_identity(dim, out);
    return ES_OK;
}

es_status converge_head_make(cli_session *session, converge_head_options *o, int64_t dim,
                             converge_head *out, es_error *err)
{
    const es_view **const slots[HEAD_FILES] = {&out->head.Wq, &out->head.Wk, &out->head.V,
                                               &out->head.A};
    es_status status = check(o, err);
    if (o->kind < 0 && !o->file[HEAD_A] && !o->file[HEAD_WQ])
        o->kind = HEAD_RANDOM;
    for (int i = 0; i < HEAD_FILES && status == ES_OK; i++) {
        if (!has(o, i))
            continue;
        status = make_matrix(session, o, i, dim, &out->matrix[i], err);
        out->view[i] = es_view_f64(out->matrix[i].data, out->matrix[i].rows, out->matrix[i].cols);
        *slots[i] = &out->view[i];
    }
    return status;
}
