/* --tokens: queries, keys and values are x Wq', x Wk', x Wv' of tokens x that the user brings. */
#include <stdlib.h>

#include "array_file.h"
#include "measure.h"
#include "talk.h"

static const char *const roles[] = {"Wq", "Wk", "Wv"};

static int64_t heads_of(const es_npy_info *i) { return i->rank == 3 ? i->shape[0] : 1; }

/* ---- shapes ---- */

static es_status inspect(measure_job *job, const char *role, const char *path, int most_rank,
                         es_npy_info *info, es_error *err)
{
    const es_status status = cli_array_inspect(path, info, err);
    if (status != ES_OK)
        return status;
    if (info->rank < 2 || info->rank > most_rank)
        return cli_fail(err, ES_E_SHAPE, path, "measure.rank",
                        most_rank == 2 ? "use shape (n, d)" : "use shape (k, d) or (heads, k, d)",
                        "--%s has %d dimension%s", role, info->rank, info->rank == 1 ? "" : "s");
    for (int i = 0; i < info->rank; i++)
        if (info->shape[i] < 1)
            return cli_fail(err, ES_E_EMPTY, path, "measure.empty",
                            "there must be at least one head, row and column", "--%s holds nothing",
                            role);
    cli_answer_input(job->session, role, path, info);
    return ES_OK;
}

/* What `which` of queries, keys and values is: (heads, n, rows of its matrix), or the tokens
 * themselves where there is none. */
static es_status inspect_matrix(measure_job *job, int which, es_error *err)
{
    measure_tokens *t = &job->tokens;
    const char *path = job->o->weights[which];
    const int64_t n = t->info.shape[0], d = t->info.shape[1];
    es_npy_info *w = &t->weight_info[which], *out = &job->info[which];
    *out = t->info;
    if (!path)
        return ES_OK;
    const es_status status = inspect(job, roles[which], path, 3, w, err);
    if (status != ES_OK)
        return status;
    if (w->shape[w->rank - 1] != d)
        return cli_fail(err, ES_E_SHAPE, path, "measure.dim", "a matrix has shape (k, d)",
                        "--%s has %lld columns, tokens have %lld", roles[which],
                        (long long)w->shape[w->rank - 1], (long long)d);
    const int64_t heads = heads_of(w), k = w->shape[w->rank - 2];
    *out = (es_npy_info){
        .dtype = ES_F64, .rank = 3, .shape = {heads, n, k, 1}, .bytes = heads * n * k * 8};
    /* f64 at half the speed of f32, in which operations are counted */
    t->flops += 4.0 * (double)heads * (double)n * (double)k * (double)d;
    if (which == MEASURE_V)
        out->dtype = t->info.dtype; /* what --out is written in */
    return ES_OK;
}

es_status measure_tokens_inspect(measure_job *job, es_error *err)
{
    const measure_options *o = job->o;
    const es_npy_info *w = job->tokens.weight_info;
    es_status status = inspect(job, "tokens", o->tokens, 2, &job->tokens.info, err);
    for (int i = 0; i < 3 && status == ES_OK; i++)
        status = inspect_matrix(job, i, err);
    if (status != ES_OK)
        return status;
    if (o->weights[MEASURE_Q] &&
        w[MEASURE_Q].shape[w[MEASURE_Q].rank - 2] != w[MEASURE_K].shape[w[MEASURE_K].rank - 2])
        return cli_fail(err, ES_E_SHAPE, o->weights[MEASURE_K], "measure.dim",
                        "queries and keys have the same dimension k",
                        "--Wq and --Wk do not have as many rows");
    if (o->weights[MEASURE_Q] && heads_of(&w[MEASURE_Q]) % heads_of(&w[MEASURE_K]) != 0)
        return cli_fail(err, ES_E_SHAPE, o->weights[MEASURE_K], "measure.heads",
                        "the heads of Wk divide those of Wq", "%lld heads do not share %lld",
                        (long long)heads_of(&w[MEASURE_Q]), (long long)heads_of(&w[MEASURE_K]));
    const int64_t kv = heads_of(&job->info[MEASURE_K]);
    if (o->weights[MEASURE_V] && heads_of(&w[MEASURE_V]) != kv)
        return cli_fail(err, ES_E_SHAPE, o->weights[MEASURE_V], "measure.values",
                        "as many as --Wk has", "--Wv has %lld heads, keys have %lld",
                        (long long)heads_of(&w[MEASURE_V]), (long long)kv);
    if (!o->weights[MEASURE_V] && kv > 1) { /* every head has the tokens as its values */
        es_npy_info *v = &job->info[MEASURE_V];
        *v = (es_npy_info){
            .dtype = v->dtype, .rank = 3, .shape = {kv, v->shape[0], v->shape[1], 1}, .bytes = 0};
    }
    job->cost.input_bytes += (double)job->tokens.info.bytes;
    for (int i = 0; i < 3; i++)
        job->cost.input_bytes += (double)w[i].bytes;
    return ES_OK;
}

/* ---- numbers ---- */

static es_status load(measure_job *job, const char *path, es_array *out, es_error *err)
{
    const es_status status = cli_array_load(path, &job->session->budget, out, err);
    return status == ES_OK ? measure_check_finite(path, out, err) : status;
}

static es_status project(measure_job *job, int which, es_error *err)
{
    measure_tokens *t = &job->tokens;
    const es_npy_info *info = &job->info[which];
    const int64_t heads = info->shape[0], n = info->shape[1], k = info->shape[2];
    es_status status = load(job, job->o->weights[which], &t->weights[which], err);
    if (status != ES_OK)
        return status;
    t->projected[which] = cli_alloc_array((size_t)(heads * n * k), sizeof(double));
    es_view x, w;
    es_array_view(&t->x, 0, &x, err);
    for (int64_t h = 0; h < heads && status == ES_OK; h++) {
        if (cli_interrupted())
            return ES_E_INTERRUPTED;
        es_array_view(&t->weights[which], h, &w, err);
        const es_view down = es_view_transpose(&w);
        status =
            es_mat_multiply(&x, &down, &job->session->budget, t->projected[which] + h * n * k, err);
    }
    return status;
}

es_status measure_tokens_load(measure_job *job, es_error *err)
{
    es_status status = load(job, job->o->tokens, &job->tokens.x, err);
    for (int i = 0; i < 3 && status == ES_OK; i++)
        status = job->o->weights[i] ? project(job, i, err) : ES_OK;
    return status == ES_OK ? measure_horizon_tokens(job) : status;
}

es_view measure_tokens_view(const measure_job *job, int which, int64_t head)
{
    const measure_tokens *t = &job->tokens;
    const es_npy_info *info = &job->info[which];
    es_view x;
    es_error err;
    if (t->projected[which]) {
        const int64_t n = info->shape[1], k = info->shape[2];
        return es_view_f64(t->projected[which] + head * n * k, n, k);
    }
    es_array_view(&t->x, 0, &x, &err);
    return x;
}

void measure_tokens_free(measure_job *job)
{
    es_array_free(&job->tokens.x);
    for (int i = 0; i < 3; i++) {
        es_array_free(&job->tokens.weights[i]);
        free(job->tokens.projected[i]);
    }
}
