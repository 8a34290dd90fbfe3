/* What the user's files hold, and whether it fits together; all of it before anything is loaded. */
#include <math.h>
#include <stdio.h>

#include "array_file.h"
#include "measure.h"
#include "talk.h"

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

static es_status fail_pair(const measure_job *job, int a, int b, const char *rule, const char *hint,
                           es_error *err)
{
    char first[96], second[96];
    return cli_fail(err, ES_E_SHAPE, job->paths[a], rule, hint,
                    "shape %s does not fit shape %s of %s", shape_text(&job->info[a], first),
                    shape_text(&job->info[b], second), job->paths[b]);
}

static int64_t heads_of(const es_npy_info *i) { return i->rank == 3 ? i->shape[0] : 1; }
static int64_t rows_of(const es_npy_info *i) { return i->shape[i->rank - 2]; }
static int64_t cols_of(const es_npy_info *i) { return i->shape[i->rank - 1]; }

static es_status inspect_file(measure_job *job, int which, es_error *err)
{
    static const char *const roles[] = {"q", "k", "v", "compare"};
    es_npy_info *info = &job->info[which];
    char text[96];
    const es_status status = cli_array_inspect(job->paths[which], info, err);
    if (status != ES_OK)
        return status;
    if (info->rank != 2 && info->rank != 3)
        return cli_fail(err, ES_E_SHAPE, job->paths[which], "measure.rank",
                        "use shape (n, d) or (heads, n, d)", "shape %s has %d dimension%s",
                        shape_text(info, text), info->rank, info->rank == 1 ? "" : "s");
    if (heads_of(info) < 1 || rows_of(info) < 1 || cols_of(info) < 1)
        return cli_fail(err, ES_E_EMPTY, job->paths[which], "measure.empty",
                        "there must be at least one head, row and column", "shape %s holds nothing",
                        shape_text(info, text));
    cli_answer_input(job->session, roles[which], job->paths[which], info);
    return ES_OK;
}

static es_status check_shapes(measure_job *job, es_error *err)
{
    const es_npy_info *q = &job->info[MEASURE_Q], *k = &job->info[MEASURE_K],
                      *v = &job->info[MEASURE_V];
    if (cols_of(q) != cols_of(k))
        return fail_pair(job, MEASURE_Q, MEASURE_K, "measure.dim",
                         "queries and keys have the same last dimension", err);
    if (heads_of(k) != heads_of(v) || rows_of(k) != rows_of(v))
        return fail_pair(job, MEASURE_K, MEASURE_V, "measure.values", "there is one value per key",
                         err);
    if (heads_of(q) % heads_of(k) != 0)
        return fail_pair(job, MEASURE_Q, MEASURE_K, "measure.heads",
                         "the heads of K divide those of Q", err);
    job->heads = heads_of(q);
    job->kv_heads = heads_of(k);
    job->m = rows_of(q);
    job->n = rows_of(k);
    job->d = cols_of(q);
    job->dv = cols_of(v);
    if (job->o->self && job->m != job->n)
        return fail_pair(job, MEASURE_Q, MEASURE_K, "measure.self",
                         "with --self the queries are the tokens: as many rows as keys", err);
    const es_npy_info *y = &job->info[MEASURE_Y];
    if (job->o->compare &&
        (heads_of(y) != job->heads || rows_of(y) != job->m || cols_of(y) != job->dv))
        return cli_fail(err, ES_E_SHAPE, job->paths[MEASURE_Y], "measure.compare",
                        "one output row per query, as wide as the values",
                        "the output to compare does not have shape (%lld, %lld, %lld)",
                        (long long)job->heads, (long long)job->m, (long long)job->dv);
    return ES_OK;
}

static void choose_grids(measure_job *job)
{
    const measure_options *o = job->o;
    job->default_scale = isnan(o->scale) ? 1.0 / sqrt((double)job->d) : o->scale;
    job->default_prefix = job->n;
    job->S = o->scales.count ? o->scales.count : 1;
    job->P = o->prefixes.count ? o->prefixes.count : 1;
    job->K = o->top_k.count;
    job->out_dtype = cli_precision(job->session) == ES_F64 ? ES_F64 : job->info[MEASURE_V].dtype;
    job->opts =
        (es_attend_opts){.precision = o->compare ? ES_F64 : cli_precision(job->session),
                         .scales = o->scales.count ? o->scales.reals : &job->default_scale,
                         .n_scales = job->S,
                         .prefixes = o->prefixes.count ? o->prefixes.counts : &job->default_prefix,
                         .n_prefixes = job->P,
                         .self = o->self || o->tokens,
                         .exclude_self = o->exclude_self,
                         .top_k = o->top_k.counts,
                         .n_top_k = job->K,
                         .exec = &job->session->exec};
}

static es_status estimate(measure_job *job, es_error *err)
{
    es_attend_plan plan;
    const es_status status =
        es_attend_plan_for(job->m, job->n, job->d, job->dv, &job->opts, true, &plan, err);
    if (status != ES_OK)
        return status;
    size_t check_bytes;
    measure_check_plan(job, &check_bytes);
    const double cells = (double)job->S * (double)job->P;
    job->cost.flops = plan.flops * (double)job->heads + job->tokens.flops;
    for (int i = 0; i < MEASURE_FILES; i++)
        job->cost.input_bytes += (double)job->info[i].bytes;
    job->cost.output_bytes =
        cells * (double)job->m * 8.0 * (double)(5 + job->K) + measure_files_bytes(job);
    if (job->keeps_output)
        job->cost.output_bytes += cells * (double)job->m * (double)job->dv * 8.0;
    /* The moments of all cells live on after es_attend() until their rows are made. */
    job->cost.work_bytes = (double)(plan.bytes > check_bytes ? plan.bytes : check_bytes) +
                           cells * (double)es_moments_bytes(job->dv);
    measure_horizon_plan(job, plan.flops * (double)job->heads);
    return ES_OK;
}

es_status measure_inspect(measure_job *job, es_error *err)
{
    for (int i = 0; i < MEASURE_FILES; i++) {
        if (!job->paths[i])
            continue;
        const es_status status = inspect_file(job, i, err);
        if (status != ES_OK)
            return status;
    }
    es_status status = job->o->tokens ? measure_tokens_inspect(job, err) : ES_OK;
    if (status == ES_OK)
        status = check_shapes(job, err);
    if (status != ES_OK)
        return status;
    choose_grids(job);
    if (job->kv_heads != job->heads && !job->session->common.quiet)
        fprintf(stderr,
                "esscher measure: grouped queries: %lld query heads share %lld key heads, %lld "
                "to 1\n",
                (long long)job->heads, (long long)job->kv_heads,
                (long long)(job->heads / job->kv_heads));
    return estimate(job, err);
}

/* ---- loading ---- */

/* All rows of all heads as one matrix. */
static es_view whole(const es_array *a)
{
    const int64_t rows = a->rank == 3 ? a->shape[0] * a->shape[1] : a->shape[0];
    const int64_t cols = a->shape[a->rank - 1];
    return a->dtype == ES_F32 ? es_view_f32(a->data, rows, cols) : es_view_f64(a->data, rows, cols);
}

es_status measure_check_finite(const char *path, const es_array *array, es_error *err)
{
    const es_view view = whole(array);
    es_scan scan;
    if (es_view_scan(&view, "input", &scan, err) == ES_OK)
        return ES_OK;
    const int64_t row = err->row, col = err->col, rows = array->shape[array->rank - 2];
    char head[48] = "";
    if (array->rank == 3)
        snprintf(head, sizeof head, "head %lld, ", (long long)(row / rows));
    const double value = es_view_get(&view, row, col);
    cli_fail(err, ES_E_NONFINITE, path, "measure.finite", "remove or replace the value",
             "%srow %lld, column %lld is %s", head, (long long)(row % rows), (long long)col,
             isnan(value) ? "NaN" : "infinite");
    return ES_E_NONFINITE;
}

es_status measure_load(measure_job *job, es_error *err)
{
    for (int i = 0; i < MEASURE_FILES; i++) {
        if (!job->paths[i])
            continue;
        es_status status =
            cli_array_load(job->paths[i], &job->session->budget, &job->arrays[i], err);
        /* NaN in the output of somebody else is a finding, not an obstacle. */
        if (status == ES_OK && i != MEASURE_Y)
            status = measure_check_finite(job->paths[i], &job->arrays[i], err);
        if (status != ES_OK)
            return status;
    }
    return job->o->tokens ? measure_tokens_load(job, err) : ES_OK;
}

int64_t measure_queries(const measure_job *job, int64_t p)
{
    return job->opts.self ? job->opts.prefixes[p] : job->m;
}

void measure_views(const measure_job *job, int64_t head, es_view views[3])
{
    const int64_t kv = head / (job->heads / job->kv_heads);
    es_error err;
    if (job->o->tokens) {
        for (int i = 0; i < 3; i++)
            views[i] = measure_tokens_view(job, i, i == MEASURE_Q ? head : kv);
        return;
    }
    es_array_view(&job->arrays[MEASURE_Q], head, &views[MEASURE_Q], &err);
    es_array_view(&job->arrays[MEASURE_K], kv, &views[MEASURE_K], &err);
    es_array_view(&job->arrays[MEASURE_V], kv, &views[MEASURE_V], &err);
}
