/* Outputs and per-query statistics as files. */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "talk.h"

enum { COLUMNS = 5 }; /* of per-query files, before the top-k masses */

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

static int64_t cells_of(const measure_job *job) { return job->S * job->P * job->m; }

double measure_files_bytes(const measure_job *job)
{
    const measure_options *o = job->o;
    const double cells = (double)job->heads * (double)job->S * (double)job->P * (double)job->m;
    double bytes = 0.0;
    if (o->out)
        bytes += cells * (double)job->dv * (double)es_dtype_size(job->out_dtype);
    if (o->per_query && ends_with(o->per_query, ".npy"))
        bytes += cells * 8.0 * (double)(COLUMNS + job->K);
    return bytes;
}

/* (heads, S, P, m, last) without the leading dimensions of size 1; returns the rank. */
static int file_shape(const measure_job *job, int64_t last, int64_t shape[5])
{
    const int64_t leading[] = {job->heads, job->S, job->P};
    int rank = 0;
    for (int i = 0; i < 3; i++)
        if (leading[i] > 1)
            shape[rank++] = leading[i];
    shape[rank++] = job->m;
    shape[rank++] = last;
    return rank;
}

static es_status check_rank(const measure_job *job, const char *path, es_error *err)
{
    int64_t shape[5];
    if (file_shape(job, 1, shape) <= ES_ARRAY_RANK)
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, path, "measure.out.rank",
                    "run one scale or one prefix at a time, or write --per-query FILE.csv",
                    "several heads, scales and prefixes at once make five dimensions, an array "
                    "has at most four");
}

static void csv_header(const measure_job *job)
{
    FILE *out = job->csv.file;
    fputs("head,scale,n,query,lse,entropy,top_weight,top_index,sum_squares", out);
    for (int64_t i = 0; i < job->K; i++)
        fprintf(out, ",top_mass_%lld", (long long)job->opts.top_k[i]);
    fputc('\n', out);
}

es_status measure_files_start(measure_job *job, es_error *err)
{
    const measure_options *o = job->o;
    es_status status = ES_OK;
    const size_t cells = (size_t)job->heads * (size_t)cells_of(job);
    if (o->out) {
        status = check_rank(job, o->out, err);
        if (status == ES_OK)
            status = cli_target_check(o->out, o->force, err);
        if (status == ES_OK)
            job->outputs = cli_alloc_array(cells, (size_t)job->dv * es_dtype_size(job->out_dtype));
    }
    if (status != ES_OK || !o->per_query)
        return status;
    if (ends_with(o->per_query, ".csv")) {
        status = cli_draft_open(&job->csv, o->per_query, o->force, err);
        if (status == ES_OK)
            csv_header(job);
        return status;
    }
    if (!ends_with(o->per_query, ".npy"))
        return cli_fail(err, ES_E_ARGUMENT, o->per_query, "measure.per_query",
                        "end the name in .csv or .npy", "the name does not say which format");
    status = check_rank(job, o->per_query, err);
    if (status == ES_OK)
        status = cli_target_check(o->per_query, o->force, err);
    if (status == ES_OK)
        job->per_query = cli_alloc_array(cells, (size_t)(COLUMNS + job->K) * sizeof(double));
    return status;
}

static void csv_head(const measure_job *job, int64_t head)
{
    FILE *out = job->csv.file;
    for (int64_t cell = 0; cell < job->S * job->P; cell++) {
        for (int64_t i = 0; i < measure_queries(job, cell % job->P); i++) {
            const int64_t at = cell * job->m + i;
            const double reals[] = {job->out.lse[at], job->out.entropy[at],
                                    job->out.top_weight[at]};
            fprintf(out, "%lld,", (long long)head);
            cli_csv_real(out, job->opts.scales[cell / job->P]);
            fprintf(out, ",%lld,%lld", (long long)job->opts.prefixes[cell % job->P], (long long)i);
            for (int c = 0; c < 3; c++) {
                fputc(',', out);
                cli_csv_real(out, reals[c]);
            }
            fprintf(out, ",%lld,", (long long)job->out.top_index[at]);
            cli_csv_real(out, job->out.sum_squares[at]);
            for (int64_t k = 0; k < job->K; k++) {
                fputc(',', out);
                cli_csv_real(out, job->out.top_mass[at * job->K + k]);
            }
            fputc('\n', out);
        }
    }
}

static void array_head(measure_job *job, int64_t head)
{
    const int64_t width = COLUMNS + job->K;
    double *to = job->per_query + head * cells_of(job) * width;
    for (int64_t at = 0; at < cells_of(job); at++, to += width) {
        to[0] = job->out.lse[at];
        to[1] = job->out.entropy[at];
        to[2] = job->out.top_weight[at];
        to[3] = (double)job->out.top_index[at];
        to[4] = job->out.sum_squares[at];
        for (int64_t k = 0; k < job->K; k++)
            to[COLUMNS + k] = job->out.top_mass[at * job->K + k];
    }
}

void measure_files_head(measure_job *job, int64_t head)
{
    const int64_t count = cells_of(job) * job->dv;
    for (int64_t i = 0; job->outputs && i < count; i++) {
        if (job->out_dtype == ES_F32)
            ((float *)job->outputs)[head * count + i] = (float)job->out.output[i];
        else
            ((double *)job->outputs)[head * count + i] = job->out.output[i];
    }
    if (job->per_query)
        array_head(job, head);
    if (job->csv.file)
        csv_head(job, head);
}

es_status measure_files_finish(measure_job *job, es_error *err)
{
    const measure_options *o = job->o;
    int64_t shape[5];
    es_status status = ES_OK;
    if (job->outputs) {
        const int rank = file_shape(job, job->dv, shape);
        status = es_npy_save(o->out, job->out_dtype, rank, shape, job->outputs, o->force, err);
    }
    if (status == ES_OK && job->per_query) {
        const int rank = file_shape(job, COLUMNS + job->K, shape);
        status = es_npy_save(o->per_query, ES_F64, rank, shape, job->per_query, o->force, err);
    }
    if (status == ES_OK && job->csv.file)
        status = cli_draft_publish(&job->csv, err);
    return status;
}

void measure_files_free(measure_job *job)
{
    free(job->outputs);
    free(job->per_query);
    cli_draft_discard(&job->csv);
}
