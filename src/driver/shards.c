/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c : a process that computes its share of the cells without contact to the others. Shares
 * are a pure function of the stages, so that all processes find the same ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/executor.h"
#include "driver/driver.h"
#include "store/run.h"

/* ---- which cells ---- */

/* Cuts the cells, in order, where their weights add up to equal parts; a cell belongs to the part
 * that holds its middle. Neighbours stay together: cells of two stages about the same layer are in
 * the same shard or in the next. */
void es_share_of(int64_t cells, double (*weight)(void *user, int64_t cell), void *user,
                 int64_t shard, int64_t shards, es_share *out)
{
    double all = 0.0, before = 0.0;
    for (int64_t i = 0; weight && i < cells; i++)
        all += fmax(weight(user, i), 0.0);
    const bool weighs = all > 0.0 && isfinite(all);
    all = weighs ? all : (double)cells;
    *out = (es_share){0, 0};
    for (int64_t i = 0; i < cells; i++) {
        const double own = weighs ? fmax(weight(user, i), 0.0) : 1.0;
        const double at = floor((double)shards * ((before + 0.5 * own) / all));
        const int64_t of = at < (double)shards ? (int64_t)at + 1 : shards;
        before += own;
        if (of < shard)
            out->from = i + 1;
        if (of <= shard)
            out->to = i + 1;
    }
    out->to = out->to < out->from ? out->from : out->to;
}

/* Returns true if this run computes only its share of the cells. */
static bool is_shard(const es_driver *d) { return d->opts->shards > 0; }

int64_t es_share_cells(const es_driver *d, int s)
{
    return d->shared_out ? d->share_at[s].to - d->share_at[s].from : d->job.stages[s].cells;
}

es_share es_share_at(const es_driver *d, int s)
{
    return d->shared_out ? d->share_at[s] : (es_share){0, d->job.stages[s].cells};
}

void es_share_pick(const es_driver *d, int s, int64_t *missing, int64_t *count)
{
    const es_share own = es_share_at(d, s);
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (missing[i] >= own.from && missing[i] < own.to)
            missing[kept++] = missing[i];
    *count = kept;
}

/* ---- the beginning ---- */

es_status es_share_check(const es_study *study, const es_study_opts *o, es_error *err)
{
    if (!o->shards && !o->shard)
        return ES_OK;
    if (o->shards < 1 || o->shards > ES_MOST_SHARDS || o->shard < 1 || o->shard > o->shards)
        return es_refuse(err, "run.shard", "four shards are 1/4, 2/4, 3/4 and 4/4",
                         "shard %lld of %lld", (long long)o->shard, (long long)o->shards);
    if (study->keeps_nothing)
        return es_refuse(err, "run.shard", "run it without --shard",
                         "%s is too quick to be split into shards", study->name);
    if (!o->out && !o->dry_run)
        return es_refuse(err, "run.shard", "name a run file of its own with --out",
                         "--shard without --out: what it computes would be lost");
    if (es_executor_of(&o->exec)->ranks > 1)
        return es_refuse(err, "run.shard", "remove --shard: ranks share the cells already",
                         "--shard in an MPI run of %d ranks", es_executor_of(&o->exec)->ranks);
    return ES_OK;
}

/* The cells of a stage, whose weights divide them among shards. */
typedef struct weighing {
    const es_job *job;
    const es_stage *stage;
} weighing;

/* Returns how many cells of a stage are computed together. */
static int64_t group_of(const es_stage *stage) { return stage->group ? stage->group : 1; }

/* Returns the share of the cells that are computed together. */
static double weight_at(void *user, int64_t group)
{
    const weighing *w = user;
    const int64_t from = group * group_of(w->stage), after = from + group_of(w->stage);
    const int64_t to = after < w->stage->cells ? after : w->stage->cells;
    double sum = 0.0;
    for (int64_t i = from; i < to; i++)
        sum += w->stage->weight ? fmax(w->stage->weight(w->job, i), 0.0) : 1.0;
    return sum;
}

/* Cut between groups: two shards that had cells of one would both make all of it. */
static es_share share_of_stage(const es_driver *d, const es_stage *stage)
{
    weighing w = {&d->job, stage};
    es_share own;
    const int64_t group = group_of(stage), cells = stage->cells;
    es_share_of((cells + group - 1) / group, weight_at, &w, d->opts->shard, d->opts->shards, &own);
    own.from = own.from * group < cells ? own.from * group : cells;
    own.to = own.to * group < cells ? own.to * group : cells;
    return own;
}

/* "limit 6, draw 48": what the whole run has, so that gaps can be named. */
static es_status note_cells(const es_driver *d, es_error *err)
{
    char text[ES_MOST_STAGES * 288] = "";
    size_t used = 0;
    for (int s = 0; s < d->job.n_stages; s++)
        if (d->job.stages[s].cells)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%.255s %lld", used ? ", " : "",
                                 d->job.stages[s].name, (long long)d->job.stages[s].cells);
    return es_run_note(d->run, "cells", text, err);
}

es_status es_share_begin(es_driver *d, es_error *err)
{
    pthread_mutexattr_t again;
    if (!is_shard(d))
        return ES_OK;
    for (int s = 0; s < d->job.n_stages; s++) {
        const es_stage *stage = &d->job.stages[s];
        d->share_at[s] = share_of_stage(d, stage);
        ES_TRY(ES_JOB_NEW(&d->job, d->have[s], stage->cells, err));
    }
    pthread_mutexattr_init(&again); /* a cell that is needed may need one itself */
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->needing, &again);
    pthread_mutexattr_destroy(&again);
    d->shared_out = true;
    return note_cells(d, err);
}

void es_share_end(es_driver *d)
{
    if (d->shared_out)
        pthread_mutex_destroy(&d->needing);
    d->shared_out = false;
}

/* ---- cells of others ---- */

/* Asks whether to stop, and reports nothing: progress of the running cell is reported separately.
 */
static bool only_stop(void *user, double done, double total)
{
    const es_exec *exec = user;
    (void)done, (void)total;
    return exec->progress && exec->progress(exec->progress_user, 0.0, 1.0);
}

/* Computes a cell of a shared stage that other cells read but another shard owns; it is not
 * stored. */
static es_status compute_needed(es_driver *d, int s, int64_t cell, const es_exec *exec,
                                es_error *err)
{
    const es_stage *stage = &d->job.stages[s];
    double *scratch = d->job.cells[s] + cell * stage->rows * stage->cols;
    es_exec quiet = *exec;
    quiet.progress = only_stop;
    quiet.progress_user = (void *)(uintptr_t)exec;
    if (stage->run_part)
        return es_fold_needed(d, s, cell, &quiet, err);
    ES_TRY(stage->run(&d->job, cell, &quiet, scratch, err));
    return es_keep_cell(d, s, cell, scratch, err);
}

/* Makes sure that a cell of an earlier stage is there. */
static es_status require(const es_job *job, int stage, int64_t cell, const es_exec *exec,
                         es_error *err)
{
    es_driver *d = job->driver;
    es_status status = ES_OK;
    if (!d->shared_out)
        return ES_OK;
    pthread_mutex_lock(&d->needing);
    if (!d->have[stage][cell])
        status = compute_needed(d, stage, cell, exec, err);
    pthread_mutex_unlock(&d->needing);
    return status;
}

es_status es_job_fetch(const es_job *job, int stage, int64_t cell, const es_exec *exec, void *out,
                       es_error *err)
{
    const void *found = es_job_cell(job, stage, cell);
    memcpy(out, &found, sizeof found); /* `out` is a pointer to a pointer of any type */
    return require(job, stage, cell, exec, err);
}

es_status es_job_read(const es_job *job, int stage, int64_t cell, int64_t first, int64_t count,
                      const es_exec *exec, double *out, es_error *err)
{
    ES_TRY(require(job, stage, cell, exec, err));
    return es_cells_get(job->driver, stage, cell, first, count, out, err);
}

/* ---- the answer ---- */

/* "part-3.run" of shard 3 is one of "part-*.run". A name that does not have the number is one of
 * FILES; so is one that has it twice ("2-of-2.run"), where the other may be that of all shards, and
 * one that a shell would not take as it is. */
static void name_all(const char *path, int64_t shard, char *out, size_t size)
{
    static const char digits[] = "0123456789";
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path;
    int places = 0;
    snprintf(out, size, "FILES");
    if (path[strcspn(path, " \t\n'\"\\$`&;|<>()*?[]{}~#!")])
        return;
    while (*(at += strcspn(at, digits))) {
        const char *end = at + strspn(at, digits);
        long long number;
        if (sscanf(at, "%18lld", &number) == 1 && number == shard && ++places == 1)
            snprintf(out, size, "%.*s*%s", (int)(at - path), path, end);
        at = end;
    }
    if (places > 1)
        snprintf(out, size, "FILES");
}

/* Reports stages with the same noun and number once: "2 of 6 layers". */
static bool is_reported(const es_driver *d, int s)
{
    const es_stage *stages = d->job.stages;
    for (int i = 0; i < s; i++)
        if (strcmp(stages[i].noun, stages[s].noun) == 0 && stages[i].cells == stages[s].cells)
            return true;
    return stages[s].cells == 0;
}

void es_share_report(const es_driver *d)
{
    char cells[1024] = "", files[512];
    size_t used = 0;
    const es_study_opts *o = d->opts;
    for (int s = 0; s < d->job.n_stages; s++)
        if (!is_reported(d, s) && used < sizeof cells)
            used += (size_t)snprintf(cells + used, sizeof cells - used, "%s%lld of %lld %s",
                                     used ? ", " : "", (long long)es_share_cells(d, s),
                                     (long long)d->job.stages[s].cells, d->job.stages[s].noun);
    name_all(o->out, o->shard, files, sizeof files);
    es_answer_count(d->job.answer, "shard", o->shard);
    es_answer_count(d->job.answer, "shards", o->shards);
    es_answer_add_finding(
        d->job.answer, "Shard %lld of %lld: %s are in %s; esscher merge %s -o all.run joins them.",
        (long long)o->shard, (long long)o->shards, used ? cells : "no cells", o->out, files);
}

void es_share_price(const es_driver *d)
{
    if (is_shard(d))
        es_answer_add_finding(
            d->job.answer,
            "This is the cost of the whole run: a shard has about one of %lld parts of "
            "its cells, and everything that is made before the first of them.",
            (long long)d->opts->shards);
}
