/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c : stages whose cells are computed in groups and in parts: a cell that is too large for one
 * rank, or cells that one pass through a text computes together.
 *
 * A part is the unit of work. Its result, the *state*, is sent to rank 0 and folded into the states
 * of the parts before it, always in the order of the part numbers: a part that arrives early waits.
 * So the bits do not depend on which rank computed which part. Parts are distributed in order and
 * within a window (executor.h), so that few have to wait.
 *
 * The folded state is saved to the run file from time to time and whenever a run ends early, in a
 * scratch stage (run.h) whose name encodes how the work was split. A killed run loses the parts
 * since the last save. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "base/memory.h"
#include "driver/driver.h"
#include "store/run.h"

#define SAVE_SECONDS 30.0 /* between two savings, */
#define SAVE_SHARE   20.0 /* and so much more than the last one took */

/* A state may be more than a cell of a run file can hold: it is cut into chunks, each with the
 * number of parts that are in it. Two places take turns, so that one is whole at any moment. */
enum { CHUNK = 1 << 22, SLOTS = 2 };

/* Numbers of a part that came before its turn. */
typedef struct early {
    struct early *after;
    int64_t piece;
    double *numbers;
} early;

/* The state of one group; parts are folded in their order, whenever they arrive. */
typedef struct folding {
    double *state; /* (part_numbers); NULL: nothing is folded yet */
    int64_t next;  /* next part to be folded */
    int64_t saved; /* parts in what the run file has, 0: nothing */
    int slot;      /* where it is not */
} folding;

/* A stage whose groups are computed in parts. */
typedef struct fold {
    es_driver *d;
    int s; /* the stage, */
    const es_stage *stage;
    int64_t group, parts, groups; /* cells of a group, parts of one, groups */
    folding *of;                  /* (groups) */
    early *waiting;
    int64_t made;                       /* cells that are there since the last count */
    int64_t saved_stage, chunk, chunks; /* of the run file; numbers of a chunk, chunks of a state */
    double *scratch;                    /* (1 + chunk) */
    double save_at;                     /* not before */
} fold;

/* Returns the number of cells of a group; the last group may be smaller. */
static int64_t cells_of(const fold *f, int64_t group)
{
    const int64_t left = f->stage->cells - group * f->group;
    return left < f->group ? left : f->group;
}

/* Returns the memory limit of the run. */
static es_mem_limit *budget_of(const fold *f) { return f->d->job.exec.budget; }

/* ---- the run file ---- */

/* Returns the number of the stored cell that holds a chunk of a group's state. Two slots
 * alternate, so that a crash while one is written leaves the other. */
static int64_t saved_cell(const fold *f, int64_t group, int slot, int64_t chunk)
{
    return (group * SLOTS + slot) * f->chunks + chunk;
}

/* Numbers of a state from `chunk * f->chunk` on that are one chunk. */
static int64_t size_of_chunk(const fold *f, int64_t chunk)
{
    const int64_t left = f->stage->part_numbers - chunk * f->chunk;
    return left < f->chunk ? left : f->chunk;
}

/* Stores the folded state of a group, so that a killed run resumes after its last folded part. */
static es_status save(fold *f, int64_t group, es_error *err)
{
    folding *g = &f->of[group];
    const double begun = es_seconds();
    if (!f->d->run || !g->state || g->next == g->saved)
        return ES_OK;
    for (int64_t c = 0; c < f->chunks; c++) {
        memset(f->scratch, 0, (size_t)(1 + f->chunk) * sizeof *f->scratch);
        f->scratch[0] = (double)g->next;
        memcpy(f->scratch + 1, g->state + c * f->chunk,
               (size_t)size_of_chunk(f, c) * sizeof *f->scratch);
        ES_TRY(es_run_put_cell(f->d->run, f->saved_stage, saved_cell(f, group, g->slot, c),
                               f->scratch, err));
    }
    g->saved = g->next;
    g->slot = (g->slot + 1) % SLOTS;
    const double took = es_seconds() - begun;
    f->save_at =
        es_seconds() + (took * SAVE_SHARE > SAVE_SECONDS ? took * SAVE_SHARE : SAVE_SECONDS);
    return ES_OK;
}

/* It is not in the way once its cells are there. */
static es_status drop(const fold *f, int64_t group, es_error *err)
{
    for (int slot = 0; f->d->run && f->parts > 1 && slot < SLOTS; slot++)
        for (int64_t c = 0; c < f->chunks; c++)
            ES_TRY(es_run_drop_cell(f->d->run, f->saved_stage, saved_cell(f, group, slot, c), err));
    return ES_OK;
}

/* Parts that are in a slot; 0 if it is not whole. */
static es_status parts_in(const fold *f, int64_t group, int slot, double *parts, es_error *err)
{
    *parts = 0.0;
    for (int64_t c = 0; c < f->chunks; c++) {
        const int64_t cell = saved_cell(f, group, slot, c);
        bool there;
        ES_TRY(es_run_has_cell(f->d->run, f->saved_stage, cell, &there, err));
        if (there)
            ES_TRY(es_run_get_cell(f->d->run, f->saved_stage, cell, f->scratch, err));
        const double found = there ? f->scratch[0] : 0.0;
        *parts = c == 0 || found == *parts ? found : 0.0;
        if (!(*parts >= 1.0 && *parts < (double)f->parts))
            *parts = 0.0;
        if (*parts == 0.0)
            return ES_OK;
    }
    return ES_OK;
}

/* Loads the newer of the two stored states of a group, if there is one. */
static es_status load(fold *f, int64_t group, es_error *err)
{
    folding *g = &f->of[group];
    double parts[SLOTS];
    if (!f->d->run || f->parts < 2)
        return ES_OK;
    for (int slot = 0; slot < SLOTS; slot++)
        ES_TRY(parts_in(f, group, slot, &parts[slot], err));
    const int best = parts[1] > parts[0];
    if (parts[best] == 0.0)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(budget_of(f), g->state, f->stage->part_numbers, "a folded state", err));
    for (int64_t c = 0; c < f->chunks; c++) {
        ES_TRY(es_run_get_cell(f->d->run, f->saved_stage, saved_cell(f, group, best, c), f->scratch,
                               err));
        memcpy(g->state + c * f->chunk, f->scratch + 1,
               (size_t)size_of_chunk(f, c) * sizeof *f->scratch);
    }
    g->next = g->saved = (int64_t)parts[best];
    g->slot = 1 - best;
    return ES_OK;
}

/* ---- parts ---- */

/* Computes one part of a group. */
static es_status compute(void *user, int64_t piece, const es_exec *exec, double *out, es_error *err)
{
    const fold *f = user;
    return f->stage->run_part(&f->d->job, piece / f->parts, piece % f->parts, exec, out, err);
}

/* Makes the cells of a group, `out`, and keeps them like any others. */
static es_status finish_cells(const fold *f, int64_t group, double *out, es_error *err)
{
    es_driver *d = f->d;
    const int64_t numbers = f->stage->rows * f->stage->cols, first = group * f->group;
    const int64_t cells = cells_of(f, group);
    if (f->stage->finish)
        ES_TRY(f->stage->finish(&d->job, group, f->of[group].state, out, err));
    else
        memcpy(out, f->of[group].state, (size_t)(cells * numbers) * sizeof *out);
    for (int64_t i = 0; i < cells; i++) {
        ES_TRY(es_cells_put(d, f->s, first + i, out + i * numbers, err));
        ES_TRY(es_keep_cell(d, f->s, first + i, out + i * numbers, err));
    }
    return ES_OK;
}

/* Finishes a group, all parts of which are folded. Cells on disk are in memory meanwhile. */
static es_status finish(fold *f, int64_t group, es_error *err)
{
    const int64_t numbers = f->stage->rows * f->stage->cols, cells = cells_of(f, group);
    double *out = NULL;
    if (f->stage->on_disk)
        ES_TRY(ES_MEM_NEW_2D(budget_of(f), out, cells, numbers, "cells of a group", err));
    const es_status status =
        finish_cells(f, group, out ? out : f->d->job.cells[f->s] + group * f->group * numbers, err);
    es_mem_free(budget_of(f), out);
    ES_TRY(status);
    es_mem_free(budget_of(f), f->of[group].state);
    f->of[group].state = NULL;
    f->made += cells;
    return drop(f, group, err);
}

/* Folds the numbers of the next part into the state of its group; the first part becomes the
 * state. */
static es_status add_part(fold *f, int64_t group, const double *numbers, es_error *err)
{
    folding *g = &f->of[group];
    if (g->state)
        ES_TRY(f->stage->fold(&f->d->job, group, g->state, numbers, err));
    else {
        ES_TRY(ES_MEM_NEW(budget_of(f), g->state, f->stage->part_numbers, "a folded state", err));
        memcpy(g->state, numbers, (size_t)f->stage->part_numbers * sizeof *numbers);
    }
    return ++g->next == f->parts ? finish(f, group, err) : ES_OK;
}

/* Discards a state that fold() left incomplete before it can be saved; the state saved earlier
 * stays valid. */
static es_status fold_one(fold *f, int64_t piece, const double *numbers, es_error *err)
{
    const int64_t group = piece / f->parts;
    folding *g = &f->of[group];
    const es_status status = add_part(f, group, numbers, err);
    if (status != ES_OK) {
        es_mem_free(budget_of(f), g->state);
        g->state = NULL;
        return status;
    }
    return es_seconds() >= f->save_at ? save(f, group, err) : ES_OK;
}

/* Stores a part that arrived before its turn: states are folded in the order of the parts, so
 * that results do not depend on which rank was faster. */
static es_status wait(fold *f, int64_t piece, const double *numbers, es_error *err)
{
    early *e;
    ES_TRY(ES_MEM_NEW(budget_of(f), e, 1, "a part", err));
    e->after = f->waiting; /* so that it is freed whatever comes */
    e->piece = piece;
    f->waiting = e;
    ES_TRY(ES_MEM_NEW(budget_of(f), e->numbers, f->stage->part_numbers, "a part", err));
    memcpy(e->numbers, numbers, (size_t)f->stage->part_numbers * sizeof *numbers);
    return ES_OK;
}

/* Frees a part that waited for its turn. */
static void release_early(const fold *f, early *e)
{
    es_mem_free(budget_of(f), e->numbers);
    es_mem_free(budget_of(f), e);
}

/* One of those that waited, if its turn has come. */
static early *take(fold *f)
{
    for (early **at = &f->waiting; *at; at = &(*at)->after)
        if (f->of[(*at)->piece / f->parts].next == (*at)->piece % f->parts) {
            early *e = *at;
            *at = e->after;
            return e;
        }
    return NULL;
}

/* Receives a computed part: folds it if it is its turn, together with those that waited for it,
 * else stores it. */
static es_status done(void *user, int64_t piece, const double *numbers, es_error *err)
{
    fold *f = user;
    es_driver *d = f->d;
    const bool in_turn = f->of[piece / f->parts].next == piece % f->parts;
    es_status status = in_turn ? fold_one(f, piece, numbers, err) : wait(f, piece, numbers, err);
    for (early *e; status == ES_OK && (e = take(f));) {
        status = fold_one(f, e->piece, e->numbers, err);
        release_early(f, e);
    }
    d->done += f->made;
    f->made = 0;
    ES_TRY(status);
    d->weight_done += 1.0;
    return es_driver_report(d, d->weight_done, d->weight_all)
               ? es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request")
               : ES_OK;
}

/* Reports progress inside a part, if the stage supports it. */
static bool part_progress(void *user, double part, double total)
{
    es_driver *d = user;
    const bool partial = d->job.stages[d->stage].reports_progress && total > 0.0;
    return es_driver_report(d, d->weight_done + (partial ? part / total : 0.0), d->weight_all);
}

/* ---- the stage ---- */

/* Shares are cut between groups. */
static int64_t groups_of_share(const fold *f)
{
    const es_share own = es_share_at(f->d, f->s);
    return (own.to - own.from + f->group - 1) / f->group;
}

/* Finds the groups with missing cells and their folded states; the remaining parts become the
 * work. */
static es_status find(fold *f, int64_t *missing, int64_t **pieces, int64_t *count, es_error *err)
{
    es_driver *d = f->d;
    int64_t cells;
    *count = 0;
    ES_TRY(es_keep_find(d, f->s, missing, &cells, err));
    es_share_pick(d, f->s, missing, &cells);
    d->done = es_share_cells(d, f->s);
    ES_TRY(ES_MEM_NEW_2D(NULL, *pieces, f->groups, f->parts, "parts", err));
    for (int64_t i = 0; i < cells; i++) {
        const int64_t group = missing[i] / f->group;
        if (i && missing[i - 1] / f->group == group)
            continue;
        d->done -= cells_of(f, group); /* all of them are made anew */
        ES_TRY(load(f, group, err));
        for (int64_t part = f->of[group].next; part < f->parts; part++)
            (*pieces)[(*count)++] = group * f->parts + part;
    }
    return ES_OK;
}

/* Allocates the state of all groups and declares the stage that stores them in the run file. */
static es_status prepare(fold *f, es_error *err)
{
    static const char *const columns[] = {"number"};
    char name[256];
    ES_TRY(ES_MEM_NEW(NULL, f->of, f->groups, "groups", err));
    if (!f->d->run || f->parts < 2)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(NULL, f->scratch, 1 + f->chunk, "a chunk", err));
    /* in other groups or parts it is another state: a run may go on with one as with the other */
    snprintf(name, sizeof name, "_%s-%lld-%lld-%lld", f->stage->name, (long long)f->group,
             (long long)f->parts, (long long)f->stage->part_numbers);
    return es_run_add_stage(f->d->run, name, 1 + f->chunk, 1, columns, &f->saved_stage, err);
}

/* Frees all states and waiting parts. */
static void release(fold *f)
{
    for (early *e; (e = f->waiting);) {
        f->waiting = e->after;
        release_early(f, e);
    }
    for (int64_t g = 0; f->of && g < f->groups; g++)
        es_mem_free(budget_of(f), f->of[g].state);
    es_mem_free(NULL, f->scratch);
    es_mem_free(NULL, f->of);
}

/* Saves the folded states when a run ends early. A failed save does not replace the error that
 * ended the run. */
static es_status run_parts(fold *f, const es_work *work, es_error *err)
{
    es_exec exec = f->d->job.exec;
    es_error saving;
    exec.progress = part_progress;
    exec.progress_user = f->d;
    const es_status status = es_work_run(work, &exec, err);
    for (int64_t g = 0; status != ES_OK && f->of && g < f->groups; g++)
        save(f, g, &saving);
    return status;
}

/* One part in work and one on its way for each rank, and some more: no rank waits for the next
 * part unless another takes twice as long. */
int64_t es_job_window(const es_job *job)
{
    return 2 * (int64_t)es_executor_of(&job->exec)->ranks + 2;
}

/* Derives the layout of groups, parts and chunks from a stage. */
static fold fold_of(es_driver *d, int s)
{
    const es_stage *stage = &d->job.stages[s];
    fold f = {.d = d, .s = s, .stage = stage, .save_at = es_seconds() + SAVE_SECONDS};
    f.group = stage->group ? stage->group : 1;
    f.parts = stage->parts ? stage->parts : 1;
    f.groups = (stage->cells + f.group - 1) / f.group;
    f.chunk = stage->part_numbers < CHUNK ? stage->part_numbers : CHUNK;
    f.chunks = (stage->part_numbers + f.chunk - 1) / f.chunk;
    return f;
}

es_status es_fold_stage(es_driver *d, int64_t *missing, es_error *err)
{
    fold f = fold_of(d, d->stage);
    int64_t *pieces = NULL, count = 0;
    es_status status = ES_OK;
    if (es_executor_of(&d->job.exec)->rank == 0) {
        status = prepare(&f, err);
        if (status == ES_OK)
            status = find(&f, missing, &pieces, &count, err);
    }
    const es_work work = {.noun = f.parts > 1 ? "parts" : f.stage->noun,
                          .pieces = pieces,
                          .count = count,
                          .numbers = f.stage->part_numbers,
                          .window = f.parts > 1 ? es_job_window(&d->job) : 0,
                          .user = &f,
                          .compute = compute,
                          .done = done};
    d->weight_all = (double)(groups_of_share(&f) * f.parts);
    d->weight_done = d->weight_all - (double)count;
    es_driver_resumed(d);
    if (status == ES_OK)
        status = run_parts(&f, &work, err);
    es_mem_free(NULL, pieces);
    release(&f);
    return status;
}

/* One group, here and now, from where an earlier start came to. */
static es_status fold_group(fold *f, int64_t group, const es_exec *exec, double *numbers,
                            es_error *err)
{
    es_error saving;
    es_status status = load(f, group, err);
    for (int64_t part = f->of[group].next; status == ES_OK && part < f->parts; part++) {
        const int64_t piece = group * f->parts + part;
        status = compute(f, piece, exec, numbers, err);
        if (status == ES_OK)
            status = fold_one(f, piece, numbers, err);
    }
    if (status != ES_OK)
        save(f, group, &saving);
    return status;
}

es_status es_fold_needed(es_driver *d, int s, int64_t cell, const es_exec *exec, es_error *err)
{
    fold f = fold_of(d, s);
    double *numbers = NULL;
    es_status status = prepare(&f, err);
    if (status == ES_OK)
        status = ES_MEM_NEW(exec->budget, numbers, f.stage->part_numbers, "a part", err);
    if (status == ES_OK)
        status = fold_group(&f, cell / f.group, exec, numbers, err);
    es_mem_free(exec->budget, numbers);
    release(&f);
    return status;
}
