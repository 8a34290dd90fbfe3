/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c : the run of a study, from its parameters to its answer. The only loop over cells. */
#include "driver/driver.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/machine.h>

#include "base/error.h"
#include "base/executor.h"
#include "base/format.h"
#include "base/memory.h"
#include "model/model_inside.h"
#include "store/run.h"
#include "table/table.h"

/* ---- progress ---- */

/* Returns the share of the run that is done when `part` of the phase is done. A phase gets the
 * share of the remaining progress that its work has of the remaining work. So estimates may change
 * between phases: progress slows down, but never goes back. */
static double share_at(const es_driver *d, double part)
{
    const double all = fmax(d->flops_left, d->flops_phase);
    return d->begun + (1.0 - d->begun) * (all > 0.0 ? part * d->flops_phase / all : 0.0);
}

/* Reports progress: `done` of `total` of the current phase. @return : true to stop the run */
bool es_driver_report(es_driver *d, double done, double total)
{
    if (!d->opts->progress)
        return false;
    const double part = total > 0.0 ? fmin(1.0, done / total) : 0.0;
    d->moved = d->moved || part > 0.0;
    d->share = fmin(1.0, fmax(d->share, share_at(d, part)));
    const es_progress now = {
        .phase = d->phase, .phase_share = part, .share = d->share, .kept = d->kept};
    d->stop = d->opts->progress(d->opts->user, &now) || d->stop; /* asked once is asked for good */
    return d->stop;
}

/* Passes progress of a phase that is not a stage (reading, summing up) to the caller. */
static bool phase_progress(void *user, double done, double total)
{
    return es_driver_report(user, done, total);
}

/* Returns the weight of a cell relative to the others of its stage; 1 where they cost the same. */
static double weight_of(void *driver, int64_t cell)
{
    const es_driver *d = driver;
    const es_stage *s = &d->job.stages[d->stage];
    return s->weight ? s->weight(&d->job, cell) : 1.0;
}

/* Reports progress of a stage whose cells run one at a time: finished cells, plus the running
 * cell's own fraction if the stage reports it. */
static bool cell_progress(void *user, double done, double total)
{
    es_driver *d = user;
    const double part =
        d->job.stages[d->stage].reports_progress && total > 0.0 ? done / total : 0.0;
    const int64_t cell = __atomic_load_n(&d->cell, __ATOMIC_RELAXED);
    return es_driver_report(d, d->weight_done + part * weight_of(d, cell), d->weight_all);
}

/* Reports progress of a stage whose cells run side by side: `done` counts those of this start. */
static bool side_progress(void *user, double done, double total)
{
    es_driver *d = user;
    const double all = (double)es_share_cells(d, d->stage);
    return es_driver_report(d, all - total + done, all);
}

/* Fails with exec.progress if the caller's progress function has asked to stop. */
static es_status check_stop(const es_driver *d, es_error *err)
{
    return d->stop ? es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request")
                   : ES_OK;
}

#define SUMMARY 0.01 /* share of a run's work, unless the study states more */

/* What the stages to come take, as far as they are known. */
static double cells_left(const es_driver *d)
{
    double flops = 0.0;
    for (int s = d->stage + 1; s < d->job.n_stages; s++)
        flops += (double)es_share_cells(d, s) * d->job.stages[s].flops;
    return flops;
}

void es_driver_phase(es_driver *d, const char *phase, double flops)
{
    d->begun = d->share = fmax(d->share, share_at(d, 1.0));
    d->flops_left = fmax(d->flops_left - d->flops_phase, flops + (1.0 + SUMMARY) * cells_left(d));
    d->flops_phase = flops;
    d->moved = false;
    d->phase = phase;
    es_driver_report(d, 0.0, 1.0);
}

/* ---- admission ---- */

/* Returns the memory bound of a run in bytes. */
static double memory_of(const es_cost *c)
{
    return c->input_bytes + c->output_bytes + c->work_bytes;
}

/* Adds the memory that every study has: what is in use now, the cells of all stages with the list
 * of those that are missing, and the scratch memory of all threads. Weights and matrices count as
 * inputs, the rest as working memory. */
static void add_known_memory(const es_job *job, es_cost *c)
{
    const double used = job->exec.budget ? (double)job->exec.budget->used : 0.0;
    const double inputs = job->n_models ? used : job->matrix_bytes;
    const int threads = job->exec.threads ? job->exec.threads : es_threads_available();
    c->input_bytes += inputs;
    c->work_bytes += fmax(used - inputs, 0.0) + (double)threads * c->thread_bytes;
    for (int i = 0; i < job->n_stages; i++) {
        const es_stage *s = &job->stages[i];
        const double numbers = s->on_disk ? 0.0 : (double)s->rows * (double)s->cols;
        c->work_bytes += 8.0 * (double)s->cells * (numbers + 1.0);
    }
}

es_status es_cost_admit(const es_cost *c, size_t max_memory, es_mem_limit *budget, es_error *err)
{
    const double bound = memory_of(c), limit = (double)max_memory;
    char text[5][ES_FORMAT_SIZE];
    if (limit > 0.0 && bound > limit)
        return es_fail(err, ES_E_LIMIT, "memory.limit",
                       "raise --max-memory, or ask for less (--dry-run shows the memory bound)",
                       "the run needs up to %s (inputs %s, results %s, working memory %s); the "
                       "limit is %s",
                       es_format_bytes(bound, text[0]), es_format_bytes(c->input_bytes, text[1]),
                       es_format_bytes(c->output_bytes, text[2]),
                       es_format_bytes(c->work_bytes, text[3]), es_format_bytes(limit, text[4]));
    /* results are the answer's, which is not counted; the rest is */
    if (limit > 0.0 && budget)
        budget->limit = (size_t)(limit - c->output_bytes);
    return ES_OK;
}

static const es_column cost_columns[] = {
    {"flops", "operations", "flop", ES_FORMAT_SHORT,
     "2 per multiply-add of attention; other work counts as what attention would do in its time"},
    {"seconds", "time", "", ES_FORMAT_DURATION,
     "estimate for a machine that does nothing else, from short trials, or from the operations at "
     "75 % of the best multiply-add peak found now"},
    {"peak_gflops", "peak", "GF/s", ES_FORMAT_SHORT},
    {"disk_bytes", "disk", "", ES_FORMAT_BYTES, "files made along the way"},
    {"input_bytes", "inputs", "", ES_FORMAT_BYTES},
    {"output_bytes", "results", "", ES_FORMAT_BYTES},
    {"work_bytes", "working memory", "", ES_FORMAT_BYTES},
    {"memory_bytes", "memory bound", "", ES_FORMAT_BYTES,
     "inputs, results and working memory together; the program and its libraries have some 15 MiB "
     "besides"},
    {0}};
static const es_table_view cost_views[] = {
    {"Cost of this run",
     "flops seconds disk_bytes input_bytes output_bytes work_bytes memory_bytes"},
    {0}};
static const es_table_spec cost_table = {"cost", cost_columns, cost_views, .record = true};

/* Others may be using the machine right now. In one of many windows shorter than a time slice they
 * are not. */
static es_status best_peak(const es_exec *exec, es_dtype precision, double *gflops, es_error *err)
{
    enum { WINDOWS = 24 };
    *gflops = 0.0;
    for (int i = 0; i < WINDOWS; i++) {
        double once;
        ES_TRY(es_peak_measure(exec, precision, 0.001, &once, err));
        *gflops = fmax(*gflops, once);
    }
    return ES_OK;
}

es_status es_cost_report(const es_cost *c, const es_exec *exec, es_dtype precision,
                         es_answer *answer, es_error *err)
{
    es_table *t = es_answer_table(answer, &cost_table);
    const int64_t row = es_table_row(t);
    double gflops;
    ES_TRY(best_peak(exec, precision, &gflops, err));
    es_table_real(t, row, "flops", c->flops);
    es_table_real(t, row, "seconds", c->seconds > 0.0 ? c->seconds : c->flops / (0.75e9 * gflops));
    es_table_real(t, row, "peak_gflops", gflops);
    if (c->disk_bytes > 0.0)
        es_table_real(t, row, "disk_bytes", c->disk_bytes);
    es_table_real(t, row, "input_bytes", c->input_bytes);
    es_table_real(t, row, "output_bytes", c->output_bytes);
    es_table_real(t, row, "work_bytes", c->work_bytes);
    es_table_real(t, row, "memory_bytes", memory_of(c));
    return ES_OK;
}

/* ---- cells ---- */

/* Computes one cell and remembers which one runs, for progress. */
static es_status compute_cell(void *driver, int64_t cell, const es_exec *exec, double *out,
                              es_error *err)
{
    es_driver *d = driver;
    const es_stage *s = &d->job.stages[d->stage];
    if (!s->one_thread_per_cell)
        __atomic_store_n(&d->cell, cell, __ATOMIC_RELAXED); /* ranks that wait for others read it */
    return s->run(&d->job, cell, exec, out, err);
}

/* Returns where the numbers of a cell are stored. */
static double *destination_of(void *driver, int64_t cell)
{
    es_driver *d = driver;
    const es_stage *s = &d->job.stages[d->stage];
    return d->job.cells[d->stage] + cell * s->rows * s->cols;
}

/* A finished cell, from any thread, one at a time. */
static es_status cell_done(void *driver, int64_t cell, const double *values, es_error *err)
{
    es_driver *d = driver;
    const es_stage *s = &d->job.stages[d->stage];
    ES_TRY(es_cells_put(d, d->stage, cell, values, err));
    ES_TRY(es_keep_cell(d, d->stage, cell, values, err));
    d->done++;
    if (s->one_thread_per_cell)
        return ES_OK;
    d->weight_done += weight_of(d, cell);
    es_driver_report(d, d->weight_done, d->weight_all);
    return check_stop(d, err);
}

void es_driver_resumed(es_driver *d)
{
    if (d->weight_all > 0.0)
        d->kept += share_at(d, d->weight_done / d->weight_all) - d->begun;
}

/* What the cells of a stage weigh, and those that are there already. */
static void weigh(es_driver *d, const int64_t *missing, int64_t count)
{
    const es_share own = es_share_at(d, d->stage);
    d->weight_all = d->weight_done = 0.0;
    for (int64_t i = own.from; i < own.to; i++)
        d->weight_all += weight_of(d, i);
    d->weight_done = d->weight_all;
    for (int64_t i = 0; i < count; i++)
        d->weight_done -= weight_of(d, missing[i]);
    es_driver_resumed(d);
}

/* Returns true on rank 0, which owns run file, progress and answer. */
static bool is_first(const es_driver *d) { return es_executor_of(&d->job.exec)->rank == 0; }

/* Lists the missing cells of a stage; rank 0 sends the list to the other ranks. */
static es_status run_missing(es_driver *d, int64_t *missing, es_error *err)
{
    const es_stage *stage = &d->job.stages[d->stage];
    es_exec exec = d->job.exec;
    es_work work = {.noun = stage->noun,
                    .pieces = missing,
                    .numbers = stage->rows * stage->cols,
                    .one_thread_per_cell = stage->one_thread_per_cell,
                    .user = d,
                    .weight = stage->weight ? weight_of : NULL,
                    .destination = destination_of,
                    .compute = compute_cell,
                    .done = cell_done};
    exec.progress = stage->one_thread_per_cell ? side_progress : cell_progress;
    exec.progress_user = d;
    es_status status = is_first(d) ? es_keep_find(d, d->stage, missing, &work.count, err) : ES_OK;
    es_share_pick(d, d->stage, missing, &work.count);
    d->done = es_share_cells(d, d->stage) - work.count;
    weigh(d, missing, work.count);
    return status == ES_OK ? es_work_run(&work, &exec, err) : status;
}

/* Computes the cells of a stage that are not in the run file, and stores each as it arrives. All
 * ranks get the cells of a shared stage, because later stages read them. */
static es_status run_stage(es_driver *d, int s, es_error *err)
{
    const es_stage *stage = &d->job.stages[s];
    int64_t *missing;
    d->stage = s;
    if (stage->cells)
        es_driver_phase(d, stage->phase, (double)es_share_cells(d, s) * stage->flops);
    ES_TRY(check_stop(d, err));
    if (is_first(d) || stage->shared)
        ES_TRY(es_cells_new(d, s, err));
    if (!stage->cells)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(NULL, missing, stage->cells, "cells", err));
    es_status status =
        stage->run_part ? es_fold_stage(d, missing, err) : run_missing(d, missing, err);
    es_mem_free(NULL, missing);
    if (status == ES_OK && stage->shared)
        status = es_cells_share(d, s, err);
    return status;
}

/* ---- all of it ---- */

/* Fills the error of an interrupted run: how far it came, and how to continue. */
static void say_interrupted(const es_driver *d, es_error *err)
{
    const char *hint = d->run ? "repeat the command with --resume to continue"
                              : "nothing was stored; with --out RUN, --resume can continue";
    const es_stage *s = d->stage >= 0 ? &d->job.stages[d->stage] : NULL;
    const int64_t cells = s ? es_share_cells(d, d->stage) : 0;
    if (d->done < cells && !d->job.study->keeps_nothing)
        es_fail(err, ES_E_INTERRUPTED, "run.interrupted", hint, "interrupted after %lld of %lld %s",
                (long long)d->done, (long long)cells, s->noun);
    else if (err->hint[0]) /* a study may know better how to go on */
        return;
    else if (d->run)
        es_fail(err, ES_E_INTERRUPTED, "run.interrupted", hint,
                "interrupted; what was finished is kept");
    else
        es_fail(err, ES_E_INTERRUPTED, "run.interrupted", "", "interrupted; nothing was written");
}

/* Runs the study's begin(), once for all cells. A rank that fails shares the failure, because the
 * others would wait for it. */
static es_status begin(es_driver *d, es_error *err)
{
    es_job *job = &d->job;
    const double cells = d->cost.flops - d->cost.begin_flops, parts = (double)d->opts->shards;
    const double flops = d->cost.begin_flops + cells / fmax(parts, 1.0);
    d->flops_left = (1.0 + SUMMARY) * fmax(flops, 1.0);
    es_driver_phase(d, "preparing", d->cost.begin_flops);
    const es_status status = job->study->begin ? job->study->begin(job, err) : ES_OK;
    return es_work_agree(&job->exec, status, "", err);
}

/* Makes the tables from all cells, on rank 0 only; the other ranks have finished. */
static es_status sum_up(es_driver *d, es_error *err)
{
    es_job *job = &d->job;
    job->exec.executor = NULL;             /* the other ranks have gone */
    es_driver_phase(d, "summing up", 0.0); /* what it takes it says itself, if it is much */
    ES_TRY(check_stop(d, err));
    ES_TRY(job->study->summarise(job, job->answer, err));
    ES_TRY(es_answer_status(job->answer, err));
    if (d->run)
        ES_TRY(es_keep_tables(d->run, job->answer, err));
    d->begun = 1.0;
    es_driver_report(d, 1.0, 1.0);
    return ES_OK;
}

/* Does everything before the work: reads inputs, checks the cost, opens the run file. */
static es_status open_study(es_driver *d, es_error *err)
{
    es_job *job = &d->job;
    es_driver_phase(d, "reading inputs", 0.0);
    ES_TRY(job->study->open(job, err));
    ES_TRY(es_outputs_check(job, err));
    if (job->study->takes & ES_TAKES_PRECISION)
        es_answer_provenance(job->answer, "precision", es_dtype_name(job->precision));
    if (job->study->cost) {
        ES_TRY(job->study->cost(job, &d->cost, err));
        add_known_memory(job, &d->cost);
    }
    if (d->opts->dry_run)
        return ES_OK;
    if (job->study->cost && d->opts->admitted)
        d->opts->admitted(d->opts->user, &d->cost);
    /* the limit holds for everything, also for memory that was not foreseen */
    ES_TRY(es_cost_admit(&d->cost, d->opts->max_memory, job->exec.budget, err));
    for (int i = 0; i < job->n_models; i++)
        ES_TRY(es_model_load(job->models[i], err));
    return is_first(d) ? es_keep_open(d, err) : ES_OK;
}

/* All ranks have the same program, kernels, parameters and inputs, or none goes on. */
static es_status agree(es_driver *d, es_status status, es_error *err)
{
    const char *same = "";
    if (status == ES_OK && es_executor_of(&d->job.exec)->ranks > 1)
        status = es_fingerprint_text(&d->job, &same, err);
    return es_work_agree(&d->job.exec, status, same, err);
}

/* Opens the study, checks its cost, opens the run file, runs the stages and makes the tables: the
 * order that study.h describes. */
static es_status open_and_run(es_driver *d, es_error *err)
{
    es_job *job = &d->job;
    ES_TRY(agree(d, open_study(d, err), err));
    if (d->opts->dry_run) {
        es_share_price(d);
        return is_first(d) ? es_cost_report(&d->cost, &job->exec, job->precision, job->answer, err)
                           : ES_OK;
    }
    ES_TRY(begin(d, err));
    ES_TRY(es_share_begin(d, err));
    for (int s = 0; s < job->n_stages; s++)
        ES_TRY(run_stage(d, s, err));
    /* last step in which ranks talk: a failure is shared now */
    const es_status kept = d->run ? es_run_flush(d->run, err) : ES_OK;
    ES_TRY(es_work_agree(&job->exec, kept, "", err));
    if (d->shared_out) {
        es_share_report(d);
        return es_answer_status(job->answer, err);
    }
    return is_first(d) ? sum_up(d, err) : ES_OK;
}

void es_answer_machine(es_answer *a, const es_exec *exec)
{
    const es_build build = es_build_info();
    es_answer_provenance(a, "library", es_version());
    es_answer_provenance(a, "compiler", build.compiler);
    es_answer_provenance(a, "flags", build.flags);
    es_answer_provenance(a, "blas", build.blas);
    es_answer_provenance_flag(a, "openmp", build.openmp);
    es_answer_provenance(a, "cpu", es_cpu_name());
    es_answer_provenance(a, "isa", es_isa_name(exec->isa));
    es_answer_provenance_count(a, "threads", exec->threads);
}

/* Fills a driver from study, parameters and options; nothing is read yet. */
static es_status start(const es_study *study, es_params *params, const es_study_opts *opts,
                       es_driver *d, es_error *err)
{
    es_job *job = &d->job;
    *d = (es_driver){.opts = opts, .stage = -1, .phase = "preparing"};
    *job = (es_job){.study = study,
                    .params = es_params_values(params),
                    .given = params,
                    .seed = opts->seed,
                    .precision = opts->precision ? opts->precision : ES_F32,
                    .precision_given = opts->precision != 0,
                    .dry_run = opts->dry_run,
                    .max_memory = opts->max_memory,
                    .exec = opts->exec,
                    .out = opts->out,
                    .force = opts->force,
                    .shards = opts->shards,
                    .arena = {.budget = opts->exec.budget},
                    .driver = d};
    job->exec.progress = phase_progress;
    job->exec.progress_user = d;
    /* a study that does not know its cost is bounded by what it allocates, files included */
    if (!study->cost && opts->max_memory && job->exec.budget)
        job->exec.budget->limit = opts->max_memory;
    if (opts->out && study->keeps_nothing)
        return es_refuse(err, "run.options", "remove --out", "%s is quick and writes no run file",
                         study->name);
    if (opts->resume && !opts->out)
        return es_refuse(err, "run.options", "name the run file with --out",
                         "--resume without --out");
    ES_TRY(es_share_check(study, opts, err));
    ES_TRY(es_answer_new(NULL, &job->answer, err));
    ES_TRY(es_isa_resolve(opts->exec.isa, &job->exec.isa, err));
    es_answer_name(job->answer, study->name,
                   study->takes & ES_TAKES_SEED ? (int64_t)job->seed : -1);
    es_answer_machine(job->answer, &job->exec);
    return es_job_array(job, (int64_t)(study->state ? study->state : 1), 1, 1, &job->state, err);
}

es_status es_study_run(const es_study *study, es_params *params, const es_study_opts *opts,
                       es_answer **answer, es_error *err)
{
    es_error own = {0}, closing;
    err = err ? err : &own;
    *answer = NULL;
    es_driver *d;
    ES_TRY(ES_MEM_NEW(NULL, d, 1, "a run", err));
    es_status status = start(study, params, opts, d, err);
    const bool opened = status == ES_OK;
    if (opened)
        status = open_and_run(d, err);
    if (status != ES_OK) /* ranks that wait for this one get its failure */
        status = es_work_agree(&opts->exec, status, "", err);
    if (status == ES_E_INTERRUPTED)
        say_interrupted(d, err);
    if (opened && study->close)
        study->close(&d->job);
    es_share_end(d);
    es_cells_close(d);
    if (d->run) {
        const es_status closed = es_run_close(d->run, &closing);
        if (status == ES_OK && closed != ES_OK) {
            *err = closing;
            status = closed;
        }
    }
    if (status == ES_OK && is_first(d))
        *answer = d->job.answer;
    else
        es_answer_free(d->job.answer);
    es_arena_free(&d->job.arena);
    es_mem_free(NULL, d);
    return status;
}
