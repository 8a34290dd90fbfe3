/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c : the user's files: shapes, checks, loading.
 *
 * Shapes are looked at before any number is read: a mistake in the last file must not cost the
 * loading of the first. In order: one array, tokens as a source of Q, K and V, shapes and
 * cost of a run, loading. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/array_source.h"
#include "experiments/measure/oracle.h"
#include "stats/moments.h"
#include "table/table.h"

/* ---- shapes and numbers of one array ---- */

/* Writes a shape: "(8, 4096, 64)". */
static const char *shape_text(const es_npy_info *info, char out[96])
{
    int used = snprintf(out, 96, "(");
    for (int i = 0; i < info->rank; i++)
        used += snprintf(out + used, 96 - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)info->shape[i]);
    snprintf(out + used, 96 - (size_t)used, ")");
    return out;
}

/* Fails because files a and b do not fit together; names both shapes. */
static es_status fail_pair(const measure_state *s, int a, int b, const char *rule, const char *hint,
                           es_error *err)
{
    char first[96], second[96];
    return es_fail_file(err, ES_E_SHAPE, s->paths[a], -1, rule, hint,
                        "shape %s does not fit shape %s of %s", shape_text(&s->info[a], first),
                        shape_text(&s->info[b], second), s->paths[b]);
}

/* Loads a file and checks that every number of its layout is finite. */
static es_status measure_read(es_job *job, const char *path, const es_array_layout *l,
                              es_array *out, es_error *err)
{
    const measure_params *p = job->params;
    ES_TRY(es_source_load(path, p->bf16, job->exec.budget, out, err));
    return es_array_scan(out, l, path, err);
}

/* ---- tokens ----
 * With --tokens, queries, keys and values are x Wq', x Wk', x Wv' of tokens x from a file.
 */

/* Returns how many heads an array of matrices holds. */
static int64_t heads_of(const es_npy_info *i) { return i->rank == 3 ? i->shape[0] : 1; }

/* Returns the layout of tokens and matrices: no batch, heads first. */
static es_array_layout plain_layout(const es_npy_info *info)
{
    es_array_layout out = {0};
    (void)es_array_layout_of(info, ES_ARRAY_BHND, -1, NULL, &out, NULL);
    return out;
}

static const char *const weight_roles[] = {"Wq", "Wk", "Wv"};

/* Reads the header of tokens or of a matrix and checks its rank. */
static es_status inspect_weights(es_job *job, const char *role, const char *path, int most_rank,
                                 es_npy_info *info, es_error *err)
{
    ES_TRY(es_source_inspect(path, ((const measure_params *)job->params)->bf16, info, err));
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

/* Finds the shape of queries, keys or values: (heads, n, rows of the matrix), or that of the tokens
 * if there is no matrix. */
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
    ES_TRY(inspect_weights(job, weight_roles[which], path, 3, w, err));
    if (w->shape[w->rank - 1] != d)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.dim", "a matrix has shape (k, d)",
                            "--%s has %lld columns, tokens have %lld", weight_roles[which],
                            (long long)w->shape[w->rank - 1], (long long)d);
    const int64_t heads = heads_of(w), k = w->shape[w->rank - 2];
    *out = (es_npy_info){
        .dtype = ES_F64, .rank = 3, .shape = {heads, n, k, 1}, .bytes = heads * n * k * 8};
    /* f64 at half the speed of f32, in which operations are counted */
    t->flops += 4.0 * (double)heads * (double)n * (double)k * (double)d;
    if (which == MEASURE_V)
        out->dtype = t->info.dtype; /* what --output is written in */
    return ES_OK;
}

/* Reads the headers of tokens and matrices, and checks that they fit together. */
static es_status measure_tokens_inspect(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    const measure_params *o = s->p;
    const es_npy_info *w = s->tokens.weight_info;
    ES_TRY(inspect_weights(job, "tokens", o->tokens, 2, &s->tokens.info, err));
    for (int i = 0; i < 3; i++)
        ES_TRY(inspect_matrix(job, i, err));
    if (o->weights[MEASURE_Q] &&
        w[MEASURE_Q].shape[w[MEASURE_Q].rank - 2] != w[MEASURE_K].shape[w[MEASURE_K].rank - 2])
        return es_fail_file(err, ES_E_SHAPE, o->weights[MEASURE_K], -1, "measure.dim",
                            "queries and keys have the same dimension k",
                            "--Wq and --Wk have different numbers of rows");
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

/* Computes queries, keys or values x W' of all heads. */
static es_status project(es_job *job, int which, es_error *err)
{
    measure_state *s = job->state;
    measure_tokens *t = &s->tokens;
    const es_npy_info *info = &s->info[which];
    const int64_t heads = info->shape[0], n = info->shape[1], k = info->shape[2];
    es_view x, w;
    const es_array_layout l = plain_layout(&t->weight_info[which]);
    ES_TRY(measure_read(job, s->p->weights[which], &l, &t->weights[which], err));
    ES_TRY(ES_JOB_NEW_2D(job, t->projected[which], heads * n, k, err));
    es_array_view(&t->x, 0, &x, err);
    for (int64_t h = 0; h < heads; h++) {
        ES_TRY(es_job_tick(job, h, heads));
        es_array_view(&t->weights[which], h, &w, err);
        const es_view down = es_view_transpose(&w);
        ES_TRY(es_mat_multiply(&x, &down, job->exec.budget, t->projected[which] + h * n * k, err));
    }
    return ES_OK;
}

/* Loads tokens and matrices, and makes queries, keys and values of them. */
static es_status measure_tokens_load(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    const es_array_layout l = plain_layout(&s->tokens.info);
    ES_TRY(measure_read(job, s->p->tokens, &l, &s->tokens.x, err));
    for (int i = 0; i < 3; i++)
        if (s->p->weights[i])
            ES_TRY(project(job, i, err));
    return measure_horizon_tokens(job);
}

/* Returns queries, keys or values of a head. */
static es_view measure_tokens_view(const measure_state *s, int which, int64_t head)
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

/* ---- the whole run ---- */

/* Returns whether two-byte items of this file are bfloat16. */
static bool two_byte_bf16(const measure_state *s, int which)
{
    const int dtype = s->p->compare_dtype;
    return s->p->bf16 ||
           (which == MEASURE_Y && dtype >= 0 && strcmp(measure_dtypes[dtype], "bf16") == 0);
}

/* Reads the header of a file and checks its rank. */
static es_status inspect_file(es_job *job, int which, es_error *err)
{
    static const char *const roles[] = {"q", "k", "v", "compare"};
    measure_state *s = job->state;
    const char *path = s->paths[which];
    es_npy_info *info = &s->info[which];
    char text[96];
    ES_TRY(es_source_inspect(path, two_byte_bf16(s, which), info, err));
    if (info->rank < 2)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "measure.rank",
                            "use shape (n, d), (heads, n, d) or (batch, heads, n, d)",
                            "shape %s has 1 dimension", shape_text(info, text));
    for (int i = 0; i < info->rank; i++)
        if (info->shape[i] < 1)
            return es_fail_file(err, ES_E_EMPTY, path, -1, "measure.empty",
                                "there must be at least one head, row and column",
                                "shape %s holds nothing", shape_text(info, text));
    es_answer_input(job->answer, roles[which], path, info->rank, info->shape, info->descr);
    return ES_OK;
}

/* ---- do they fit together? ---- */

/* Returns the order of dimensions of a file: as given, or bhnd. */
static es_array_order order_of(const measure_state *s, int which)
{
    const int layout = s->p->layout < 0 ? ES_ARRAY_BHND : s->p->layout;
    return which == MEASURE_Y && s->p->compare_layout >= 0 ? (es_array_order)s->p->compare_layout
                                                           : (es_array_order)layout;
}

/* Finds the layout of the output to compare, which may hold all heads side by side. */
static es_status lay_out_theirs(measure_state *s, es_array_order order, int64_t batch,
                                es_error *err)
{
    es_array_layout *y = &s->at[MEASURE_Y];
    ES_TRY(es_array_layout_of(&s->info[MEASURE_Y], order, batch, s->paths[MEASURE_Y], y, err));
    if (s->heads > 1 && y->heads == 1 && y->rows == s->m && y->cols == s->heads * s->dv)
        es_array_layout_split(y, s->heads);
    if (y->heads == s->heads && y->rows == s->m && y->cols == s->dv)
        return ES_OK;
    char text[96];
    return es_fail_file(err, ES_E_SHAPE, s->paths[MEASURE_Y], -1, "measure.compare",
                        "one output row per query, as wide as the values",
                        "the output to compare has shape %s, not (%lld, %lld, %lld)",
                        shape_text(&s->info[MEASURE_Y], text), (long long)s->heads, (long long)s->m,
                        (long long)s->dv);
}

/* Checks that Q, K and V fit together and stores their sizes. An error names both files with their
 * shapes: only the user knows which of them is wrong. */
static es_status check_shapes(measure_state *s, es_error *err)
{
    const es_array_layout *q = &s->at[MEASURE_Q], *k = &s->at[MEASURE_K], *v = &s->at[MEASURE_V];
    if (q->cols != k->cols)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.dim",
                         "queries and keys have the same last dimension", err);
    if (k->heads != v->heads || k->rows != v->rows)
        return fail_pair(s, MEASURE_K, MEASURE_V, "measure.values", "there is one value per key",
                         err);
    if (q->heads % k->heads != 0)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.heads",
                         "the heads of K divide those of Q", err);
    s->heads = q->heads;
    s->kv_heads = k->heads;
    s->m = q->rows;
    s->n = k->rows;
    s->d = q->cols;
    s->dv = v->cols;
    if (s->p->self && s->m != s->n)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.self",
                         "with --self the queries are the tokens: as many rows as keys", err);
    if (measure_masked(s->p) && s->m > s->n)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.mask",
                         "with --causal and --window each query stands at a key: no more than keys",
                         err);
    if (measure_masked(s->p) && s->p->prefixes.count && s->m != s->n)
        return fail_pair(s, MEASURE_Q, MEASURE_K, "measure.mask",
                         "--prefixes with --causal or --window are of tokens that are queries and "
                         "keys: as many of both",
                         err);
    return ES_OK;
}

/* Finds the layouts of Q, K and V for an order of dimensions. */
static es_status lay_out(measure_state *s, es_array_order order, int64_t batch, es_error *err)
{
    for (int i = 0; i < MEASURE_Y; i++)
        ES_TRY(es_array_layout_of(&s->info[i], order, batch, s->paths[i], &s->at[i], err));
    return check_shapes(s, err);
}

/* Returns whether the shapes fit in the other order of dimensions. */
static bool other_fits(const measure_state *s, es_array_order order, int64_t batch, bool theirs)
{
    measure_state try = *s;
    es_error ignored = {0};
    const es_array_order other = order == ES_ARRAY_BHND ? ES_ARRAY_BNHD : ES_ARRAY_BHND;
    bool several = false;
    for (int i = 0; i < MEASURE_FILES; i++)
        several = several || s->info[i].rank > 2;
    return several && (theirs ? lay_out_theirs(&try, other, batch, &ignored)
                              : lay_out(&try, other, batch, &ignored)) == ES_OK;
}

/* Puts the other order of dimensions, which fits, into the hint. */
static es_status name_other(es_array_order order, const char *option, es_status status,
                            es_error *err)
{
    snprintf(err->hint, sizeof err->hint, "the shapes fit as %s: %s %s",
             order == ES_ARRAY_BHND ? "(batch, n, heads, d)" : "(batch, heads, n, d)", option,
             order == ES_ARRAY_BHND ? "bnhd" : "bhnd");
    return status;
}

/* Finds the layouts of all files; where they do not fit, but the other order would, says so. */
static es_status choose_layout(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    const int64_t batch = es_params_given(job->given, "batch") ? s->p->batch : -1;
    const es_array_order order = s->p->tokens ? ES_ARRAY_BHND : order_of(s, MEASURE_Q);
    es_status status = lay_out(s, order, batch, err);
    if (status != ES_OK)
        return status == ES_E_SHAPE && !s->p->tokens && other_fits(s, order, batch, false)
                   ? name_other(order, "--layout", status, err)
                   : status;
    if (s->p->layout < 0 && s->heads > s->m && s->heads > 1 && other_fits(s, order, batch, false))
        es_log(ES_LOG_WARN,
               "read as %lld heads of %lld queries; if these are %lld queries of %lld heads, say "
               "--layout bnhd",
               (long long)s->heads, (long long)s->m, (long long)s->heads, (long long)s->m);
    if (!s->p->compare)
        return ES_OK;
    const es_array_order theirs = order_of(s, MEASURE_Y);
    status = lay_out_theirs(s, theirs, batch, err);
    return status == ES_E_SHAPE && other_fits(s, theirs, batch, true)
               ? name_other(theirs, "--compare-layout", status, err)
               : status;
}

/* ---- the run ---- */

/* Sets scales, prefixes and options of attention. Outputs to compare are judged by the f64 engine;
 * files keep the precision of V. */
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
    s->numbers = MEASURE_NUMBERS + 2 * s->K + (p->moments ? s->dv * (s->dv + 1) : 0) +
                 (p->sink_logits ? 2 : 0);
    s->opts =
        (es_attend_opts){job->precision,
                         .scales = p->scales.count ? p->scales.reals : &s->default_scale,
                         .n_scales = s->S,
                         .score_cap = isnan(p->score_cap) ? 0.0 : p->score_cap,
                         .prefixes = p->prefixes.count ? p->prefixes.counts : &s->default_prefix,
                         .n_prefixes = s->P,
                         .self = p->self || p->tokens || (measure_masked(p) && p->prefixes.count),
                         .exclude_self = p->exclude_self,
                         .top_k = p->top_k.counts,
                         .n_top_k = s->K,
                         .spread = p->block > 0 || p->compare,
                         .block = p->block,
                         .exec = &job->exec};
}

/* Estimates the cost from shapes alone; es_cost_admit() compares it with the limit before anything
 * is loaded. */
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
    if (s->p->block) /* sums of blocks, and the bars */
        s->cost.output_bytes += cells * (double)s->m * 8.0 * (double)(s->dv + 4 + MEASURE_BARS);
    /* The moments of all cells live on after es_attend() until their numbers are taken. */
    s->cost.work_bytes = (double)(plan.bytes > check_bytes ? plan.bytes : check_bytes) +
                         cells * (double)es_moments_bytes(s->dv) +
                         8.0 * heads * cells * (double)(s->numbers + MEASURE_HORIZON_NUMBERS) +
                         64.0 * (double)s->numbers + /* their names */
                         (measure_masked(s->p) ? 8.0 * (double)s->m : 0.0);
    if (s->p->compare) /* for the search if it does not match: a head in f64, and rows of it */
        s->cost.work_bytes +=
            8.0 * ((double)s->n * (double)(s->d + s->dv + 3 * s->opts.exec->threads) +
                   16.0 * (double)s->m + 64.0 * (double)s->heads * (double)s->dv);
    s->horizon_flops = measure_horizon_plan(s, plan.flops * heads) / heads;
    if (measure_counts_gaps(s)) {
        s->cost.flops += heads * measure_gap_flops(s);
        s->cost.work_bytes += measure_gap_bytes(s);
    }
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
    ES_TRY(choose_layout(job, err));
    choose_grids(job);
    ES_TRY(measure_sinks_start(job, err));
    ES_TRY(measure_mask_start(job, err));
    if (s->kv_heads != s->heads)
        es_log(ES_LOG_WARN, "grouped queries: %lld query heads share %lld key heads, %lld to 1",
               (long long)s->heads, (long long)s->kv_heads, (long long)(s->heads / s->kv_heads));
    return estimate(s, err);
}

es_status measure_load(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    for (int i = 0; i < MEASURE_Y; i++)
        if (s->paths[i])
            ES_TRY(measure_read(job, s->paths[i], &s->at[i], &s->arrays[i], err));
    /* NaN in the output to compare is a finding, not an error. */
    if (s->p->compare)
        ES_TRY(es_source_load(s->p->compare, two_byte_bf16(s, MEASURE_Y), job->exec.budget,
                              &s->arrays[MEASURE_Y], err));
    if (s->p->compare)
        s->their_format = compare_format_of(s);
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
            views[i] = es_array_head(&s->arrays[i], &s->at[i], of);
    }
}
