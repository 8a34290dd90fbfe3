/* SPDX-License-Identifier: Apache-2.0 */
/* files.c : outputs and statistics of every query, as files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/file.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/measure/measure.h"

/* ---- what is written ---- */

enum { COLUMNS = 5 }; /* of per-query files, before the top-k masses and error bars */
enum { TOP_INDEX = 3 };

/* Returns whether the text ends with `end` and has more before it. */
static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

/* Returns how many columns a per-query file has. */
static int64_t columns_of(const measure_state *s)
{
    return COLUMNS + s->K + (s->p->block ? MEASURE_BARS : 0);
}

/* Returns how many rows a head has in a file: scales, prefixes, queries. */
static int64_t cells_of(const measure_state *s) { return s->S * s->P * s->m; }

double measure_files_bytes(const measure_state *s)
{
    const double cells = (double)s->heads * (double)cells_of(s);
    double bytes = 0.0;
    if (s->p->output)
        bytes += cells * (double)s->dv * (double)es_dtype_size(s->out_dtype);
    if (s->p->per_query)
        bytes += cells * 8.0 * (double)columns_of(s);
    return bytes;
}

/* Stores the shape (heads, S, P, m, last) without leading dimensions of size 1; returns the rank.
 */
static int file_shape(const measure_state *s, int64_t last, int64_t shape[5])
{
    const int64_t leading[] = {s->heads, s->S, s->P};
    int rank = 0;
    for (int i = 0; i < 3; i++)
        if (leading[i] > 1)
            shape[rank++] = leading[i];
    shape[rank++] = s->m;
    shape[rank++] = last;
    return rank;
}

/* Fails if the array would have five dimensions. */
static es_status check_rank(const measure_state *s, const char *path, es_error *err)
{
    int64_t shape[5];
    if (file_shape(s, 1, shape) <= ES_ARRAY_RANK)
        return ES_OK;
    return es_fail_file(err, ES_E_ARGUMENT, path, -1, "measure.out.rank",
                        "run one scale or one prefix at a time, or write --per-query FILE.csv",
                        "several heads, scales and prefixes at once make five dimensions, an array "
                        "has at most four");
}

es_status measure_files_start(measure_state *s, es_error *err)
{
    const measure_params *p = s->p;
    const int64_t cells = s->heads * cells_of(s);
    ES_TRY(ES_ARENA_NEW(&s->files, s->filled, s->heads, "heads", err));
    if (p->output) {
        ES_TRY(check_rank(s, p->output, err));
        ES_TRY(es_arena_array(&s->files, cells, s->dv, es_dtype_size(s->out_dtype), "outputs",
                              &s->outputs, err));
    }
    if (!p->per_query)
        return ES_OK;
    if (!ends_with(p->per_query, ".csv") && !ends_with(p->per_query, ".npy"))
        return es_fail_file(err, ES_E_ARGUMENT, p->per_query, -1, "measure.per_query",
                            "end the name in .csv or .npy", "the name does not say which format");
    if (ends_with(p->per_query, ".npy"))
        ES_TRY(check_rank(s, p->per_query, err));
    ES_TRY(ES_ARENA_NEW_2D(&s->files, s->per_query, cells, columns_of(s), "statistics of queries",
                           err));
    return ES_OK;
}

void measure_files_head(measure_state *s, int64_t head, const es_attend_out *ours,
                        const measure_bar *bars)
{
    const int64_t cells = cells_of(s), width = columns_of(s), count = cells * s->dv;
    for (int64_t i = 0; s->outputs && i < count; i++) {
        if (s->out_dtype == ES_F32)
            ((float *)s->outputs)[head * count + i] = (float)ours->output[i];
        else
            ((double *)s->outputs)[head * count + i] = ours->output[i];
    }
    for (int64_t at = 0; s->per_query && at < cells; at++) {
        double *to = s->per_query + (head * cells + at) * width;
        to[0] = ours->lse[at];
        to[1] = ours->entropy[at];
        to[2] = ours->top_weight[at];
        to[TOP_INDEX] = (double)ours->top_index[at];
        to[4] = ours->sum_squares[at];
        for (int64_t k = 0; k < s->K; k++)
            to[COLUMNS + k] = ours->top_mass[at * s->K + k];
        if (bars)
            memcpy(to + COLUMNS + s->K, &bars[at], sizeof bars[at]);
    }
    s->filled[head] = true;
}

/* A CSV file that is being written, with a buffer of lines. */
typedef struct csv {
    es_draft draft;
    char text[65536];
    size_t used;
} csv;

/* Writes the buffered lines. */
static es_status flush(csv *c, es_error *err)
{
    const size_t used = c->used;
    c->used = 0;
    return es_draft_write(&c->draft, c->text, used, err);
}

/* Appends a whole number after the text `before`. */
static void add_count(csv *c, const char *before, int64_t value)
{
    c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%s%lld", before,
                                (long long)value);
}

/* Appends a number with all digits; an empty field for NaN and infinities. */
static void add_real(csv *c, double value)
{
    c->text[c->used++] = ',';
    if (isfinite(value))
        c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%.17g", value);
}

/* Makes sure that the buffer takes some more numbers. */
static es_status flush_if_full(csv *c, es_error *err)
{
    return c->used + 512 > sizeof c->text ? flush(c, err) : ES_OK;
}

/* Writes a line for each query of head h at scale and prefix `at`, in the order of the array. */
static es_status csv_rows(const measure_state *s, csv *c, int64_t h, int64_t at, es_error *err)
{
    const int64_t width = columns_of(s);
    for (int64_t i = 0; i < measure_queries(s, at % s->P); i++) {
        const double *from = s->per_query + ((h * s->S * s->P + at) * s->m + i) * width;
        add_count(c, "", h);
        add_real(c, s->opts.scales[at / s->P]);
        add_count(c, ",", s->opts.prefixes[at % s->P]);
        add_count(c, ",", i);
        for (int64_t j = 0; j < width; j++) {
            if (j == TOP_INDEX)
                add_count(c, ",", (int64_t)from[j]);
            else
                add_real(c, from[j]);
            ES_TRY(flush_if_full(c, err));
        }
        c->text[c->used++] = '\n';
    }
    return ES_OK;
}

/* Writes header and lines of all heads. */
static es_status csv_all(const measure_state *s, csv *c, es_error *err)
{
    c->used = (size_t)snprintf(c->text, sizeof c->text,
                               "head,scale,n,query,lse,entropy,top_weight,top_index,sum_squares");
    for (int64_t k = 0; k < s->K; k++) {
        add_count(c, ",top_mass_", s->opts.top_k[k]);
        ES_TRY(flush_if_full(c, err));
    }
    for (int i = 0; s->p->block && i < MEASURE_BARS; i++)
        c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, ",%s",
                                    measure_bar_names[i]);
    c->text[c->used++] = '\n';
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t at = 0; at < s->S * s->P; at++)
            ES_TRY(csv_rows(s, c, h, at, err));
    return flush(c, err);
}

/* Writes the per-query file as CSV; a failure leaves no file behind. */
static es_status write_csv(const measure_state *s, bool force, es_error *err)
{
    es_arena scratch = {0};
    csv *c;
    ES_TRY(ES_ARENA_NEW(&scratch, c, 1, "lines", err));
    es_status status = es_draft_open(s->p->per_query, force, &c->draft, err);
    if (status == ES_OK) {
        status = csv_all(s, c, err);
        if (status == ES_OK)
            status = es_draft_publish(&c->draft, err);
        else
            es_draft_discard(&c->draft);
    }
    es_arena_free(&scratch);
    return status;
}

/* ---- all of them ---- */

/* Refuses existing outputs before inputs are read: the cheapest check first. */
es_status measure_files_check(const es_job *job, es_error *err)
{
    const measure_params *p = job->params;
    if (job->out && ends_with(job->out, ".npy"))
        return es_fail_file(err, ES_E_ARGUMENT, job->out, -1, "measure.out",
                            "--output names the array of outputs, --out the run file",
                            "a run file does not end in .npy");
    if (p->output && p->per_query && strcmp(p->output, p->per_query) == 0)
        return es_refuse(err, "measure.options", "give two names",
                         "--output and --per-query name the same file");
    if (p->output)
        ES_TRY(es_file_may_create(p->output, job->force, err));
    return p->per_query ? es_file_may_create(p->per_query, job->force, err) : ES_OK;
}

/* Computes again the heads that a run file already had: it holds their numbers, not their outputs.
 */
static es_status fill_heads(es_job *job, es_error *err)
{
    measure_state *s = job->state;
    double *again = NULL;
    for (int64_t h = 0; h < s->heads; h++) {
        if (s->filled[h])
            continue;
        if (!again)
            ES_TRY(ES_JOB_NEW_2D(job, again, s->S * s->P, s->numbers, err));
        ES_TRY(es_job_tick(job, h, s->heads));
        ES_TRY(measure_head(job, h, &job->exec, again, err));
    }
    return ES_OK;
}

es_status measure_files_finish(es_job *job, es_error *err)
{
    const measure_state *s = job->state;
    const measure_params *p = s->p;
    int64_t shape[5];
    if (!s->outputs && !s->per_query)
        return ES_OK;
    ES_TRY(fill_heads(job, err));
    if (s->outputs) {
        const int rank = file_shape(s, s->dv, shape);
        ES_TRY(es_npy_save(p->output, s->out_dtype, rank, shape, s->outputs, job->force, err));
    }
    if (!s->per_query)
        return ES_OK;
    if (ends_with(p->per_query, ".csv"))
        return write_csv(s, job->force, err);
    const int rank = file_shape(s, columns_of(s), shape);
    return es_npy_save(p->per_query, ES_F64, rank, shape, s->per_query, job->force, err);
}
