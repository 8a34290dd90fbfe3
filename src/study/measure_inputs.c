/* measure_inputs.c : what the user's files hold, and whether it fits together; all of it before
 * anything is loaded. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "study/array_source.h"
#include "study/measure_study.h"

/* "(8, 4096, 64)" */
static const char *shape_text(const es_npy_info *info, char out[96])
{
    int used = snprintf(out, 96, "(");
    for (int i = 0; i < info->rank; i++)
        used += snprintf(out + used, 96 - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)info->shape[i]);
    snprintf(out + used, 96 - (size_t)used, ")");
    return out;
}

static es_status fail_pair(const measure_state *s, int a, int b, const char *rule, const char *hint,
                           es_error *err)
{
    char first[96], second[96];
    return es_fail_file(err, ES_E_SHAPE, s->paths[a], -1, rule, hint,
                        "shape %s does not fit shape %s of %s", shape_text(&s->info[a], first),
                        shape_text(&s->info[b], second), s->paths[b]);
}

static int64_t heads_of(const es_npy_info *i) { return i->rank == 3 ? i->shape[0] : 1; }
static int64_t rows_of(const es_npy_info *i) { return i->shape[i->rank - 2]; }
static int64_t cols_of(const es_npy_info *i) { return i->shape[i->rank - 1]; }

static es_status inspect_file(es_job *job, int which, es_error *err)
{
    static const char *const roles[] = {"q", "k", "v", "compare"};
    measure_state *s = job->state;
    const char *path = s->paths[which];
    es_npy_info *info = &s->info[which];
    char text[96];
    ES_TRY(es_source_inspect(path, info, err));
    if (info->rank != 2 && info->rank != 3)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.rank",
                            "use shape (n, d) or (heads, n, d)", "shape %s has %d dimension%s",
                            shape_text(info, text), info->rank, info->rank == 1 ? "" : "s");
    if (heads_of(info) < 1 || rows_of(info) < 1 || cols_of(info) < 1)
        return es_fail_file(err, ES_E_EMPTY, path, -1, "measure.empty",
                            "there must be at least one head, row and column",
                            "shape %s holds nothing", shape_text(info, text));
    es_answer_input(job->answer, roles[which], path, info->rank, info->shape, info->descr);
    return ES_OK;
}

static es_status check_shapes(measure_state *s, es_error *err)
{
    const es_npy_info *q = &s->info[MEASURE_Q], *k = &s->info[MEASURE_K], *v = &s->info[MEASURE_V];
    if (cols_of(q) != cols_of(k))
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.dim",
                         "queries and keys have the same last dimension", err);
    if (heads_of(k) != heads_of(v) || rows_of(k) != rows_of(v))
        return fail_pair(s, MEASURE_K, MEASURE_V, "measure.values", "there is one value per key",
                         err);
    if (heads_of(q) % heads_of(k) != 0)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.heads",
                         "the heads of K divide those of Q", err);
    s->heads = heads_of(q);
    s->kv_heads = heads_of(k);
    s->m = rows_of(q);
    s->n = rows_of(k);
    s->d = cols_of(q);
    s->dv = cols_of(v);
    if (s->p->self && s->m != s->n)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.self",
                         "with --self the queries are the tokens: as many rows as keys", err);
    const es_npy_info *y = &s->info[MEASURE_Y];
    if (s->p->compare && (heads_of(y) != s->heads || rows_of(y) != s->m || cols_of(y) != s->dv))
        return es_fail_file(err, ES_E_SHAPE, s->paths[MEASURE_Y], -1, "measure.compare",
                            "one output row per query, as wide as the values",
                            "the output to compare does not have shape (%lld, %lld, %lld)",
                            (long long)s->heads, (long long)s->m, (long long)s->dv);
    return ES_OK;
}

/* What another program computed is judged by the f64 engine; files keep the precision of V. */
static void choose_grids(es_job *job)
{
    measure_state *s = job->state;
    const measure_params *p = s->p;
    s->out_dtype = job->precision == ES_F64 ? ES_F64 : s->info[MEASURE_V].dtype;
    if (p->compare)
        job->precision = ES_F64;
    s->default_scale = isnan(p->scale) ? 1.0 / sqrt((double)s->d) : p->scale;
    s->default_prefix = s->n;
    s->S = p->scales.count ? p->scales.count : 1;
    s->P = p->prefixes.count ? p->prefixes.count : 1;
    s->K = p->top_k.count;
    s->numbers = MEASURE_NUMBERS + 2 * s->K + (p->moments ? s->dv * (s->dv + 1) : 0);
    s->opts =
        (es_attend_opts){.precision = job->precision,
                         .scales = p->scales.count ? p->scales.reals : &s->default_scale,
                         .n_scales = s->S,
                         .prefixes = p->prefixes.count ? p->prefixes.counts : &s->default_prefix,
                         .n_prefixes = s->P,
                         .self = p->self || p->tokens,
                         .exclude_self = p->exclude_self,
                         .top_k = p->top_k.counts,
                         .n_top_k = s->K,
                         .exec = &job->exec};
}

static es_status estimate(measure_state *s, es_error *err)
{
    es_attend_plan plan;
    size_t check_bytes;
    ES_TRY(es_attend_plan_for(s->m, s->n, s->d, s->dv, &s->opts, true, &plan, err));
    measure_check_plan(s, &check_bytes);
    const double cells = (double)s->S * (double)s->P, heads = (double)s->heads;
    s->attention_flops = plan.flops;
    s->cost.begin_flops = s->tokens.flops;
    s->cost.flops = plan.flops * heads + s->tokens.flops;
    for (int i = 0; i < MEASURE_FILES; i++)
        s->cost.input_bytes += (double)s->info[i].bytes;
    s->cost.output_bytes = cells * (double)s->m * 8.0 * (double)(5 + s->K) + measure_files_bytes(s);
    if (s->keeps_output)
        s->cost.output_bytes += cells * (double)s->m * (double)s->dv * 8.0;
    /* The moments of all cells live on after es_attend() until their numbers are taken. */
    s->cost.work_bytes = (double)(plan.bytes > check_bytes ? plan.bytes : check_bytes) +
                         cells * (double)es_moments_bytes(s->dv) +
                         8.0 * heads * cells * (double)(s->numbers + MEASURE_HORIZON_NUMBERS) +
                         64.0 * (double)s->numbers; /* their names */
    s->horizon_flops = measure_horizon_plan(s, plan.flops * heads) / heads;
    return ES_OK;
}

es_status measure_inspect(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    for (int i = 0; i < MEASURE_FILES; i++)
        if (s->paths[i])
            ES_TRY(inspect_file(job, i, err));
    if (s->p->tokens)
        ES_TRY(measure_tokens_inspect(job, err));
    ES_TRY(check_shapes(s, err));
    choose_grids(job);
    if (s->kv_heads != s->heads)
        es_log(ES_LOG_WARN, "grouped queries: %lld query heads share %lld key heads, %lld to 1",
               (long long)s->heads, (long long)s->kv_heads, (long long)(s->heads / s->kv_heads));
    return estimate(s, err);
}

/* ---- loading ---- */

/* All rows of all heads as one matrix. */
static es_view whole(const es_array *a)
{
    const int64_t rows = a->rank == 3 ? a->shape[0] * a->shape[1] : a->shape[0];
    const int64_t cols = a->shape[a->rank - 1];
    return a->dtype == ES_F32 ? es_view_f32(a->data, rows, cols) : es_view_f64(a->data, rows, cols);
}

es_status measure_read(es_job *job, const char *path, es_array *out, es_error *err)
{
    es_scan scan;
    es_error found = {0};
    ES_TRY(es_source_load(path, job->exec.budget, out, err));
    const es_view view = whole(out);
    if (es_view_scan(&view, "input", &scan, &found) == ES_OK)
        return ES_OK;
    const int64_t rows = out->shape[out->rank - 2];
    char head[48] = "";
    if (out->rank == 3)
        snprintf(head, sizeof head, "head %lld, ", (long long)(found.row / rows));
    return es_fail_file(err, ES_E_NONFINITE, path, -1, "measure.finite",
                        "remove or replace the value", "%srow %lld, column %lld is %s", head,
                        (long long)(found.row % rows), (long long)found.col,
                        isnan(es_view_get(&view, found.row, found.col)) ? "NaN" : "infinite");
}

es_status measure_load(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    for (int i = 0; i < MEASURE_Y; i++)
        if (s->paths[i])
            ES_TRY(measure_read(job, s->paths[i], &s->arrays[i], err));
    /* NaN in the output of somebody else is a finding, not an obstacle. */
    if (s->p->compare)
        ES_TRY(es_source_load(s->p->compare, job->exec.budget, &s->arrays[MEASURE_Y], err));
    return s->p->tokens ? measure_tokens_load(job, err) : ES_OK;
}

int64_t measure_queries(const measure_state *s, int64_t p)
{
    return s->opts.self ? s->opts.prefixes[p] : s->m;
}

void measure_views(const measure_state *s, int64_t head, es_view views[3])
{
    const int64_t kv = head / (s->heads / s->kv_heads);
    for (int i = 0; i < 3; i++) {
        const int64_t of = i == MEASURE_Q ? head : kv;
        if (s->p->tokens)
            views[i] = measure_tokens_view(s, i, of);
        else
            es_array_view(&s->arrays[i], of, &views[i], NULL);
    }
}
