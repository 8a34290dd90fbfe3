/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : the cells of a stage: in memory, or, if they are large, in a temporary file without a
 * name, from which one is read at a time. A run file has them besides, and no other process can
 * reach the temporary one. */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/executor.h"
#include "base/memory.h"
#include "driver/driver.h"
#include "store/file.h"
#include "store/run.h"

/* What messages call the file. */
static const char file_name[] = "temporary file for cells";

/* Returns how many numbers a cell of a stage has. */
static int64_t numbers_of(const es_driver *d, int s)
{
    return d->job.stages[s].rows * d->job.stages[s].cols;
}

/* Reads or writes numbers of a stage on disk, from number `at` of all its cells on. */
static es_status move(const es_driver *d, int s, int64_t at, int64_t count, void *values,
                      bool writing, es_error *err)
{
    return es_file_move(d->files[s], file_name, (uint64_t)at * sizeof(double), values,
                        (size_t)count * sizeof(double), writing, err);
}

es_status es_cells_new(es_driver *d, int s, es_error *err)
{
    es_job *job = &d->job;
    const es_stage *stage = &job->stages[s];
    return stage->on_disk ? es_file_nameless(&d->files[s], err)
                          : ES_JOB_NEW_2D(job, job->cells[s], stage->cells, numbers_of(d, s), err);
}

void es_cells_close(es_driver *d)
{
    for (int s = 0; s < ES_MOST_STAGES; s++)
        if (d->files[s] > 0)
            close(d->files[s]);
}

es_status es_cells_put(es_driver *d, int s, int64_t cell, const double *values, es_error *err)
{
    const int64_t numbers = numbers_of(d, s);
    if (d->job.stages[s].on_disk) /* writing does not change them */
        return move(d, s, cell * numbers, numbers, (void *)(uintptr_t)values, true, err);
    double *to = d->job.cells[s] + cell * numbers;
    if (values != to)
        memcpy(to, values, (size_t)numbers * sizeof *to);
    return ES_OK;
}

es_status es_cells_get(const es_driver *d, int s, int64_t cell, int64_t first, int64_t count,
                       double *out, es_error *err)
{
    const int64_t at = cell * numbers_of(d, s) + first;
    if (d->job.stages[s].on_disk)
        return move(d, s, at, count, out, false, err);
    memcpy(out, d->job.cells[s] + at, (size_t)count * sizeof *out);
    return ES_OK;
}

es_status es_cells_load(es_driver *d, int s, int64_t cell, es_error *err)
{
    const int64_t numbers = numbers_of(d, s);
    double *values;
    if (!d->job.stages[s].on_disk)
        return es_run_get_cell(d->run, d->stage_ids[s], cell, d->job.cells[s] + cell * numbers,
                               err);
    ES_TRY(ES_MEM_NEW(d->job.exec.budget, values, numbers, "a cell", err));
    es_status status = es_run_get_cell(d->run, d->stage_ids[s], cell, values, err);
    if (status == ES_OK)
        status = es_cells_put(d, s, cell, values, err);
    es_mem_free(d->job.exec.budget, values);
    return status;
}

/* Shares the cells of a stage on disk one by one. A rank that cannot read or write one takes part
 * until the last, because the others wait for it, and fails then. */
static es_status share_files(es_driver *d, int s, double *values, es_error *err)
{
    const int64_t numbers = numbers_of(d, s);
    const bool first = es_executor_of(&d->job.exec)->rank == 0;
    es_status status = ES_OK;
    for (int64_t i = 0; i < d->job.stages[s].cells; i++) {
        if (first && status == ES_OK)
            status = es_cells_get(d, s, i, 0, numbers, values, err);
        ES_TRY(es_work_share(&d->job.exec, values, (size_t)numbers * sizeof *values, err));
        if (!first && status == ES_OK)
            status = es_cells_put(d, s, i, values, err);
    }
    return status;
}

es_status es_cells_share(es_driver *d, int s, es_error *err)
{
    const es_job *job = &d->job;
    const int64_t numbers = numbers_of(d, s);
    double *values;
    if (es_executor_of(&job->exec)->ranks < 2)
        return ES_OK;
    if (!job->stages[s].on_disk)
        return es_work_share(&job->exec, job->cells[s],
                             (size_t)(job->stages[s].cells * numbers) * sizeof *values, err);
    const es_status made = ES_MEM_NEW(job->exec.budget, values, numbers, "a cell", err);
    ES_TRY(es_work_agree(&job->exec, made, "", err));
    const es_status status = share_files(d, s, values, err);
    es_mem_free(job->exec.budget, values);
    return es_work_agree(&job->exec, status, "", err);
}
