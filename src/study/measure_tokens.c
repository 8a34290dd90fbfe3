/* measure_tokens.c : with --tokens, queries, keys and values are x Wq', x Wk', x Wv' of tokens x
 * that the user brings. */
#include "base/error.h"
#include "study/answer_kit.h"
#include "study/array_source.h"
#include "study/measure_study.h"

static const char *const roles[] = {"Wq", "Wk", "Wv"};

static int64_t heads_of(const es_npy_info *i) { return i->rank == 3 ? i->shape[0] : 1; }

/* ---- shapes ---- */

static es_status inspect(es_job *job, const char *role, const char *path, int most_rank,
                         es_npy_info *info, es_error *err)
{
    ES_TRY(es_source_inspect(path, info, err));
    if (info->rank < 2 || info->rank > most_rank)
        return es_fail_file(
            err, ES_E_SHAPE, path, -1, "measure.rank",
            most_rank == 2 ? "use shape (n, d)" : "use shape (k, d) or (heads, k, d)",
            "--%s has %d dimension%s", role, info->rank, info->rank == 1 ? "" : "s");
    for (int i = 0; i < info->rank; i++)
        if (info->shape[i] < 1)
            return es_fail_file(err, ES_E_EMPTY, path, -1, "measure.empty",
                                "there must be at least one head, row and column",
                                "--%s holds nothing", role);
    es_answer_input(job->answer, role, path, info->rank, info->shape, info->descr);
    return ES_OK;
}

/* What `which` of queries, keys and values is: (heads, n, rows of its matrix), or the tokens
 * themselves where there is none. */
static es_status inspect_matrix(es_job *job, int which, es_error *err)
{
    measure_state *s = job->state;
    measure_tokens *t = &s->tokens;
    const char *path = s->p->weights[which];
    const int64_t n = t->info.shape[0], d = t->info.shape[1];
    es_npy_info *w = &t->weight_info[which], *out = &s->info[which];
    *out = t->info;
    if (!path)
        return ES_OK;
    ES_TRY(inspect(job, roles[which], path, 3, w, err));
    if (w->shape[w->rank - 1] != d)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.dim", "a matrix has shape (k, d)",
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

es_status measure_tokens_inspect(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    const measure_params *o = s->p;
    const es_npy_info *w = s->tokens.weight_info;
    ES_TRY(inspect(job, "tokens", o->tokens, 2, &s->tokens.info, err));
    for (int i = 0; i < 3; i++)
        ES_TRY(inspect_matrix(job, i, err));
    if (o->weights[MEASURE_Q] &&
        w[MEASURE_Q].shape[w[MEASURE_Q].rank - 2] != w[MEASURE_K].shape[w[MEASURE_K].rank - 2])
        return es_fail_file(err, ES_E_SHAPE, o->weights[MEASURE_K], -1, "measure.dim",
                            "queries and keys have the same dimension k",
                            "--Wq and --Wk do not have as many rows");
    if (o->weights[MEASURE_Q] && heads_of(&w[MEASURE_Q]) % heads_of(&w[MEASURE_K]) != 0)
        return es_fail_file(err, ES_E_SHAPE, o->weights[MEASURE_K], -1, "measure.heads",
                            "the heads of Wk divide those of Wq", "%lld heads do not share %lld",
                            (long long)heads_of(&w[MEASURE_Q]), (long long)heads_of(&w[MEASURE_K]));
    const int64_t kv = heads_of(&s->info[MEASURE_K]);
    if (o->weights[MEASURE_V] && heads_of(&w[MEASURE_V]) != kv)
        return es_fail_file(err, ES_E_SHAPE, o->weights[MEASURE_V], -1, "measure.values",
                            "as many as --Wk has", "--Wv has %lld heads, keys have %lld",
                            (long long)heads_of(&w[MEASURE_V]), (long long)kv);
    if (!o->weights[MEASURE_V] && kv > 1) { /* every head has the tokens as its values */
        es_npy_info *v = &s->info[MEASURE_V];
        *v = (es_npy_info){
            .dtype = v->dtype, .rank = 3, .shape = {kv, v->shape[0], v->shape[1], 1}, .bytes = 0};
    }
    s->cost.input_bytes += (double)s->tokens.info.bytes;
    for (int i = 0; i < 3; i++)
        s->cost.input_bytes += (double)w[i].bytes;
    return ES_OK;
}

/* ---- numbers ---- */

static es_status project(es_job *job, int which, es_error *err)
{
    measure_state *s = job->state;
    measure_tokens *t = &s->tokens;
    const es_npy_info *info = &s->info[which];
    const int64_t heads = info->shape[0], n = info->shape[1], k = info->shape[2];
    es_view x, w;
    ES_TRY(measure_read(job, s->p->weights[which], &t->weights[which], err));
    ES_TRY(es_job_array(job, heads * n, k, sizeof(double), &t->projected[which], err));
    es_array_view(&t->x, 0, &x, err);
    for (int64_t h = 0; h < heads; h++) {
        ES_TRY(es_job_tick(job, h, heads));
        es_array_view(&t->weights[which], h, &w, err);
        const es_view down = es_view_transpose(&w);
        ES_TRY(es_mat_multiply(&x, &down, job->exec.budget, t->projected[which] + h * n * k, err));
    }
    return ES_OK;
}

es_status measure_tokens_load(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    ES_TRY(measure_read(job, s->p->tokens, &s->tokens.x, err));
    for (int i = 0; i < 3; i++)
        if (s->p->weights[i])
            ES_TRY(project(job, i, err));
    return measure_horizon_tokens(job);
}

es_view measure_tokens_view(const measure_state *s, int which, int64_t head)
{
    const measure_tokens *t = &s->tokens;
    const es_npy_info *info = &s->info[which];
    es_view x;
    if (t->projected[which]) {
        const int64_t n = info->shape[1], k = info->shape[2];
        return es_view_f64(t->projected[which] + head * n * k, n, k);
    }
    es_array_view(&t->x, 0, &x, NULL);
    return x;
}
