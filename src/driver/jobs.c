/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c : what a study may ask of the job it runs in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "base/format.h"
#include "base/view.h"
#include "driver/driver.h"
#include "model/model_inside.h"
#include "store/npy.h"
#include "table/table.h"

es_status es_job_array(es_job *job, int64_t rows, int64_t cols, size_t element, void *out,
                       es_error *err)
{
    return es_arena_array(&job->arena, rows, cols, element, job->study->name, out, err);
}

es_status es_job_model(es_job *job, const char *name, const es_model_opts *opts, es_model **out,
                       es_error *err)
{
    es_model_opts own = *opts;
    own.threads = job->exec.threads;
    ES_TRY(es_model_open_headers(name, &own, out, err));
    job->models[job->n_models++] = *out;
    const double used = opts->budget ? (double)opts->budget->used : 0.0;
    char text[2][ES_FORMAT_SIZE];
    if (!job->dry_run && job->max_memory && used > (double)job->max_memory)
        return es_fail(
            err, ES_E_LIMIT, "memory.limit", "raise --max-memory, or use a smaller model",
            "the model's weights take %s; the limit is %s", es_format_bytes(used, text[0]),
            es_format_bytes((double)job->max_memory, text[1]));
    return ES_OK;
}

/* ---- stages ---- */

/* Names number `at` of a field: NAME, NAME_se, or NAME_3, NAME_3_se of a list. */
static const char *name_number(es_job *job, const es_cell_field *f, size_t at)
{
    char name[ES_KEY_SIZE];
    const size_t per = f->measured ? 2 : 1;
    const char *error = f->measured && at % 2 ? "_se" : "";
    if (f->size / sizeof(double) == per)
        snprintf(name, sizeof name, "%s%s", f->name, error);
    else
        snprintf(name, sizeof name, "%s_%zu%s", f->name, at / per + 1, error);
    return es_arena_text(&job->arena, name);
}

/* Names the numbers of a record as columns. Fails unless the fields, in their order, fill it. */
static es_status name_record(es_job *job, es_stage *stage, es_error *err)
{
    const char **names;
    size_t used = 0;
    stage->cols = (int64_t)(stage->record / sizeof(double));
    ES_TRY(es_job_array(job, stage->cols, 1, sizeof *names, &names, err));
    for (const es_cell_field *f = stage->fields; f->name; f++) {
        if (f->offset != used || used + f->size > stage->record)
            break;
        for (size_t i = 0; i < f->size / sizeof(double); i++)
            names[used / sizeof(double) + i] = name_number(job, f, i);
        used += f->size;
    }
    if (used != stage->record)
        return es_fail(err, ES_E_ARGUMENT, "study.record", "list every member in its order",
                       "fields of stage %s describe %zu of %zu bytes", stage->name, used,
                       stage->record);
    stage->columns = names;
    return ES_OK;
}

es_status es_job_stage(es_job *job, const es_stage *stage, es_error *err)
{
    if (job->n_stages == ES_MOST_STAGES)
        return es_fail(err, ES_E_LIMIT, "study.stages", "", "more stages than a study may have");
    if (stage->on_disk && !stage->run_part)
        return es_fail(err, ES_E_ARGUMENT, "study.disk", "give it run_part()",
                       "stage %s: cells on disk are made in parts", stage->name);
    job->stages[job->n_stages] = *stage;
    if (stage->record)
        ES_TRY(name_record(job, &job->stages[job->n_stages], err));
    job->n_stages++;
    return ES_OK;
}

const double *es_job_numbers(const es_job *job, int stage, int64_t cell)
{
    const es_stage *s = &job->stages[stage];
    return job->cells[stage] + cell * s->rows * s->cols;
}

const void *es_job_cell(const es_job *job, int stage, int64_t cell)
{
    return es_job_numbers(job, stage, cell);
}

void es_job_phase(es_job *job, const char *phase, double flops)
{
    es_driver *d = job->driver;
    if (!d->moved)
        d->flops_phase =
            0.0; /* "preparing" as a whole gives way to the study's own account of it */
    es_driver_phase(d, phase, flops);
}

/* ---- matrices ---- */

es_status es_matrix_cols(const char *path, int64_t *cols, es_error *err)
{
    es_npy_info info;
    ES_TRY(es_npy_inspect(path, &info, err));
    *cols = info.shape[info.rank - 1];
    return ES_OK;
}

/* "3" or "any number of" */
static const char *count_text(int64_t count, char out[32])
{
    if (count < 0)
        return "any number of";
    snprintf(out, 32, "%lld", (long long)count);
    return out;
}

/* Checks the shape of a matrix from a file; rows or cols < 0 accept any number. */
static es_status check_shape(const char *role, const char *path, const es_npy_info *info,
                             int64_t rows, int64_t cols, es_error *err)
{
    const int64_t has_cols = info->shape[info->rank - 1];
    const int64_t has_rows = info->rank == 2 ? info->shape[0] : 1;
    char want_rows[32], want_cols[32];
    if (info->rank > 2)
        return es_fail_file(err, ES_E_SHAPE, path, -1, "input.rank",
                            "give one matrix, such as one head", "--%s has %d dimensions", role,
                            info->rank);
    if (has_rows < 1 || has_cols < 1)
        return es_fail_file(err, ES_E_EMPTY, path, -1, "input.empty", "check the file",
                            "--%s is empty", role);
    if ((rows >= 0 && has_rows != rows) || (cols >= 0 && has_cols != cols))
        return es_fail_file(err, ES_E_SHAPE, path, -1, "input.shape",
                            "all matrices share one dimension d",
                            "--%s is (%lld, %lld), but %s rows and %s columns are needed", role,
                            (long long)has_rows, (long long)has_cols, count_text(rows, want_rows),
                            count_text(cols, want_cols));
    return ES_OK;
}

/* Copies a matrix to doubles and fails at the first number that is not finite, naming file, row
 * and column. */
static es_status copy_finite(const char *role, const char *path, const es_view *v, double *out,
                             es_error *err)
{
    es_scan scan;
    es_error found = {0};
    if (es_view_scan(v, role, &scan, &found) != ES_OK)
        return es_blame_number(path, "input.finite", "", v, &found, err);
    for (int64_t i = 0; i < v->rows; i++)
        es_view_read_row(v, i, out + i * v->cols);
    return ES_OK;
}

es_status es_job_matrix(es_job *job, const char *role, const char *path, int64_t rows, int64_t cols,
                        es_matrix *out, es_error *err)
{
    es_npy_info info;
    es_array array = {0};
    es_view view;
    *out = (es_matrix){0};
    if (!path)
        return ES_OK;
    ES_TRY(es_npy_inspect(path, &info, err));
    ES_TRY(check_shape(role, path, &info, rows, cols, err));
    ES_TRY(es_npy_load(path, job->exec.budget, &array, err));
    es_status status = es_array_view(&array, 0, &view, err);
    if (status == ES_OK)
        status = ES_JOB_NEW_2D(job, out->data, view.rows, view.cols, err);
    if (status == ES_OK)
        status = copy_finite(role, path, &view, out->data, err);
    if (status == ES_OK) {
        out->rows = view.rows;
        out->cols = view.cols;
        out->view = es_view_f64(out->data, out->rows, out->cols);
        job->matrix_bytes += 8.0 * (double)out->rows * (double)out->cols;
        es_answer_input(job->answer, role, path, info.rank, info.shape, info.descr);
    } else {
        *out = (es_matrix){0};
    }
    es_array_free(&array);
    return status;
}

es_status es_blame_number(const char *path, const char *rule, const char *head, const es_view *v,
                          const es_error *found, es_error *err)
{
    const int64_t row = found->row, col = found->col;
    es_fail_file(err, ES_E_NONFINITE, path, -1, rule, "remove or replace the value",
                 "%srow %lld, column %lld is %s", head, (long long)row, (long long)col,
                 isnan(es_view_get(v, row, col)) ? "NaN" : "infinite");
    if (err) {
        err->row = row;
        err->col = col;
    }
    return ES_E_NONFINITE;
}

es_status es_blame_file(es_status status, const char *path, es_error *err)
{
    if (status == ES_OK || status == ES_E_INTERRUPTED || status == ES_E_MEMORY ||
        status == ES_E_LIMIT || !path || err->file[0])
        return status;
    snprintf(err->file, sizeof err->file, "%s", path);
    const bool holds_it = status == ES_E_RANGE || strncmp(err->rule, "linalg.", 7) == 0;
    return err->code = holds_it ? ES_E_FORMAT : status;
}
