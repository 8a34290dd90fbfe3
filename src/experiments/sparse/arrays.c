/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c : queries, keys and values from files, for `sparse`. */
#include <math.h>

#include "base/error.h"
#include "base/view.h"
#include "experiments/kit/array_source.h"
#include "experiments/sparse/sparse.h"
#include "table/table.h"

static const char *const roles[] = {"q", "k", "v"};

/* Reads the header of an array and finds how its heads lie in it. */
static es_status inspect_file(es_job *job, int which, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    es_npy_info *info = &s->info[which];
    ES_TRY(es_source_inspect(p->paths[which], p->bf16, info, err));
    if (info->rank < 2)
        return es_fail_file(err, ES_E_SHAPE, p->paths[which], -1, "sparse.shape",
                            "use shape (n, d), (heads, n, d) or (batch, heads, n, d)",
                            "the array has 1 dimension");
    for (int i = 0; i < info->rank; i++)
        if (info->shape[i] < 1)
            return es_fail_file(err, ES_E_EMPTY, p->paths[which], -1, "sparse.empty",
                                "there must be at least one head, row and column",
                                "the array holds nothing");
    es_answer_input(job->answer, roles[which], p->paths[which], info->rank, info->shape,
                    info->descr);
    const int64_t batch = es_params_given(job->given, "batch") ? p->batch : -1;
    return es_array_layout_of(info, p->layout < 0 ? ES_ARRAY_BHND : (es_array_order)p->layout,
                              batch, p->paths[which], &s->at[which], err);
}

/* Fails because the shapes of two arrays do not fit; names both files. */
static es_status fail_pair(const sparse_state *s, int a, int b, const char *hint, es_error *err)
{
    const es_array_layout *x = &s->at[a], *y = &s->at[b];
    return es_fail_file(err, ES_E_SHAPE, s->p->paths[a], -1, "sparse.shape", hint,
                        "%lld heads of (%lld, %lld) do not fit %lld heads of (%lld, %lld) in %s",
                        (long long)x->heads, (long long)x->rows, (long long)x->cols,
                        (long long)y->heads, (long long)y->rows, (long long)y->cols,
                        s->p->paths[b]);
}

/* Checks that the three arrays fit each other, and takes sizes from them. */
static es_status fit_files(sparse_state *s, es_error *err)
{
    const es_array_layout *q = &s->at[0], *k = &s->at[1], *v = &s->at[2];
    if (q->cols != k->cols)
        return fail_pair(s, 0, 1, "queries and keys have the same last dimension", err);
    if (k->heads != v->heads || k->rows != v->rows)
        return fail_pair(s, 1, 2, "there is one value per key", err);
    if (q->heads % k->heads != 0)
        return fail_pair(s, 0, 1, "the heads of K divide those of Q", err);
    s->kv_heads = k->heads;
    s->m = q->rows;
    s->n = k->rows;
    s->d = q->cols;
    s->dv = v->cols;
    s->layers = 1;
    s->heads = q->heads;
    s->contexts = 1;
    s->scale = isnan(s->p->scale) ? 1.0 / sqrt((double)s->d) : s->p->scale;
    return ES_OK;
}

/* Reads where queries stand from the file --positions. */
static es_status copy_positions(sparse_state *s, const es_array *array, es_error *err)
{
    es_view view;
    const char *path = s->p->positions;
    ES_TRY(es_array_view(array, 0, &view, err));
    if (array->rank > 2 || (view.rows > 1 && view.cols > 1) || view.rows * view.cols != s->m)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "sparse.positions", "one for each query",
                            "(%lld, %lld) positions of %lld queries", (long long)view.rows,
                            (long long)view.cols, (long long)s->m);
    for (int64_t i = 0; i < s->m; i++) {
        const double x = es_view_get(&view, view.rows > 1 ? i : 0, view.rows > 1 ? 0 : i);
        if (!(x >= 0.0 && x < (double)s->n) || x != floor(x))
            return es_fail_file(err, ES_E_FORMAT, path, -1, "sparse.positions",
                                "a position is the number of a key, from 0",
                                "query %lld stands at %g among %lld keys", (long long)i, x,
                                (long long)s->n);
        s->positions[i] = (int64_t)x;
    }
    return ES_OK;
}

/* Finds where queries stand: as the file says; at their own number if there are as many queries as
 * keys; otherwise nowhere. */
static es_status find_positions(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    es_array array = {0};
    if (!p->positions && s->m == s->n)
        return ES_OK;
    if (!p->positions && p->causal)
        return es_refuse(err, "sparse.positions", "--positions P.npy, one for each query",
                         "%lld queries over %lld keys: which keys does a causal query see?",
                         (long long)s->m, (long long)s->n);
    ES_TRY(ES_JOB_NEW(job, s->positions, s->m, err));
    for (int64_t i = 0; i < s->m; i++)
        s->positions[i] = -1;
    if (!p->positions)
        return ES_OK;
    es_status status =
        es_npy_load_as(p->positions, ES_NPY_RAW_WHOLE, job->exec.budget, &array, err);
    if (status == ES_OK)
        status = copy_positions(s, &array, err);
    es_array_free(&array);
    return status;
}

/* Reads the shapes of Q, K and V and checks that they belong together. The arrays are read later,
 * when memory has been granted. */
static es_status open_arrays(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    s->causal = p->causal;
    if (!p->paths[0] || !p->paths[1] || !p->paths[2])
        return es_refuse(err, "sparse.options", "esscher sparse --q Q.npy --k K.npy --v V.npy",
                         "--q, --k and --v must be given together");
    if (p->pool.model || p->pool.texts.count || p->context)
        return es_refuse(err, "sparse.options", "give arrays or a model, not both",
                         "--q, --k and --v exclude --model, --text and --context");
    for (int i = 0; i < 3; i++)
        ES_TRY(inspect_file(job, i, err));
    ES_TRY(fit_files(s, err));
    return find_positions(job, err);
}

/* Reads the arrays and checks that all numbers are finite. */
static es_status load_arrays(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    es_job_phase(job, "loading", 0.0);
    for (int i = 0; i < 3; i++) {
        ES_TRY(es_source_load(p->paths[i], p->bf16, job->exec.budget, &s->arrays[i], err));
        ES_TRY(es_array_scan(&s->arrays[i], &s->at[i], p->paths[i], err));
    }
    return ES_OK;
}

/* Heads are views into the arrays; query heads share a key head in groups of equal size. */
static es_status view_head(const es_job *job, int64_t place, int64_t context, es_arena *arena,
                           es_sparse_head *out, es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t head = s->places[place].head, kv = head / (s->heads / s->kv_heads);
    (void)context, (void)arena, (void)err;
    out->queries = es_array_head(&s->arrays[0], &s->at[0], head);
    out->keys = es_array_head(&s->arrays[1], &s->at[1], kv);
    out->values = es_array_head(&s->arrays[2], &s->at[2], kv);
    return ES_OK;
}

const sparse_source sparse_arrays = {"files", .queries = 256, .open = open_arrays,
                                     .begin = load_arrays, .head = view_head};
