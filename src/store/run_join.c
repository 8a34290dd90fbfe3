/* SPDX-License-Identifier: Apache-2.0 */
/* run_join.c : the files of shards, joined into one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"
#include "store/run.h"
#include "store/run_inside.h"

/* ---- what a shard says of itself ---- */

/* The newest text of a fact, `last`: of the last start alone; NULL: there is none. */
static const char *fact_of(const es_run *run, const char *key, bool last)
{
    const int64_t count = run->facts_count;
    for (int64_t i = count - 1; i >= 0; i--) {
        if (last && run->facts[i].session != run->facts[count - 1].session)
            return NULL;
        if (strcmp(run->facts[i].key, key) == 0)
            return run->facts[i].text;
    }
    return NULL;
}

bool es_run_shard(const es_run *run, int64_t *shard, int64_t *shards)
{
    const char *text = fact_of(run, "shard", true);
    long long at = 0, of = 0;
    const bool known = text && sscanf(text, "%lld of %lld", &at, &of) == 2 && at >= 1 && at <= of;
    *shard = known ? at : 0;
    *shards = known ? of : 0;
    return known;
}

/* ---- a join under way ---- */

enum { MOST_STAGES = 64 };

/* A stage of the whole run, and which file had each of its cells. */
typedef struct whole_stage {
    char name[ES_RUN_NAME + 1];
    int64_t cells;
    int32_t *owner; /* (cells) number of a file, from 1; 0: none yet */
    int64_t id;     /* in the new file; -1: not yet there */
} whole_stage;

/* Shards that are joined, and the one in hand. */
typedef struct joint {
    const char *const *paths;
    int64_t count, file; /* how many, and the one being read */
    const es_run_join_opts *opts;
    es_run_joined *joined;
    const es_run *first;
    es_run_draft draft;
    es_arena arena;
    const char *cells; /* the parameters that the first shard states for all; NULL: not read yet */
    whole_stage stages[MOST_STAGES];
    int n_stages;
    /* of the stage being read */
    whole_stage *stage;
    double *before; /* a cell as it was in another file */
    size_t bytes;   /* of a cell */
    int64_t read, to_read;
} joint;

/* Returns the name of the file that is read. */
static const char *path_of(const joint *j) { return j->paths[j->file]; }

/* Fails because the cells of a file do not fit those of the other shards. */
static es_status fail_version(const joint *j, const char *what, es_error *err)
{
    return es_fail_file(err, ES_E_ARGUMENT, path_of(j), -1, "merge.stage",
                        "was it written by another version of the command?",
                        "its cells are not those of the other shards: %s", what);
}

/* ---- files ---- */

/* Found out by what the names lead to: a link is the same file. */
static es_status check_names(const char *const *paths, int64_t count, const char *out,
                             es_error *err)
{
    if (count < 1)
        return es_fail(err, ES_E_EMPTY, "merge.none", "name the run files of all shards",
                       "no run files to join");
    if (!out || !*out)
        return es_fail(err, ES_E_ARGUMENT, "file.path", "pass a file name", "no file name");
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < i; k++)
            if (es_file_same(paths[i], paths[k]))
                return es_fail_file(err, ES_E_ARGUMENT, paths[i], -1, "merge.twice",
                                    "name each file once", "the file is given twice");
        if (es_file_same(paths[i], out))
            return es_fail_file(err, ES_E_ARGUMENT, out, -1, "merge.output",
                                "write to another file",
                                "the output is one of the files to be joined");
    }
    return ES_OK;
}

/* ---- how many cells there are ---- */

/* "limit 6, draw 48": names have no comma. */
static es_status read_stages(joint *j, const char *text, es_error *err)
{
    j->cells = es_arena_text(&j->arena, text);
    if (!j->cells)
        return es_fail(err, ES_E_MEMORY, "merge.memory", "", "out of memory for the stages");
    for (const char *at = j->cells; *at; at += strspn(at, ", ")) {
        const size_t length = strcspn(at, ",");
        size_t name = length;
        while (name > 0 && at[name - 1] != ' ')
            name--;
        whole_stage *s = &j->stages[j->n_stages];
        if (j->n_stages == MOST_STAGES || name < 2 || name - 1 > ES_RUN_NAME)
            return fail_version(j, "it does not say how many there are", err);
        snprintf(s->name, sizeof s->name, "%.*s", (int)(name - 1), at);
        s->cells = strtoll(at + name, NULL, 10);
        s->id = -1;
        ES_TRY(ES_ARENA_NEW(&j->arena, s->owner, s->cells, "cells", err));
        j->n_stages++;
        at += length;
    }
    return ES_OK;
}

/* Every shard knows how many cells the whole run has, unless it was killed before it had one. */
static es_status agree_on_cells(joint *j, const es_run *run, es_error *err)
{
    const char *text = fact_of(run, "cells", false);
    if (!text && run->stages_count == 0)
        return ES_OK;
    if (!text)
        return es_fail_file(err, ES_E_ARGUMENT, path_of(j), -1, "merge.whole",
                            "continue it with --resume",
                            "not a shard: it was made without --shard I/K");
    if (!j->cells)
        return read_stages(j, text, err);
    return strcmp(j->cells, text) == 0 ? ES_OK : fail_version(j, text, err);
}

/* Returns the stage of a name; NULL if no file had it yet. */
static whole_stage *find_stage(joint *j, const char *name)
{
    for (int i = 0; i < j->n_stages; i++)
        if (strcmp(j->stages[i].name, name) == 0)
            return &j->stages[i];
    return NULL;
}

/* ---- cells ---- */

/* A cell that several shards needed is the same in all of them, to the last bit. */
static es_status compare_cell(joint *j, int64_t index, const double *values, es_error *err)
{
    ES_TRY(es_run_get_cell(j->draft.run, j->stage->id, index, j->before, err));
    j->joined->twice++;
    if (memcmp(j->before, values, j->bytes) == 0)
        return ES_OK;
    return es_fail_file(
        err, ES_E_FORMAT, path_of(j), -1, "merge.overlap",
        "one of them comes from another build or another kind of machine: compute it again",
        "cell %lld of stage %s differs from the one in %s", (long long)index, j->stage->name,
        j->paths[j->stage->owner[index] - 1]);
}

/* Reports progress and returns true if a stop was requested. */
static bool wants_to_stop(const joint *j)
{
    const double share = j->to_read > 0 ? (double)j->read / (double)j->to_read : 0.0;
    return j->opts->progress &&
           j->opts->progress(j->opts->progress_user, (double)j->file + share, (double)j->count);
}

/* Copies a cell of a shard into the joined run; a cell that two shards have must be equal. */
static es_status take_cell(void *user, int64_t index, const double *values, es_error *err)
{
    joint *j = user;
    if (index < 0 || index >= j->stage->cells)
        return fail_version(j, "there are more than all of them", err);
    if (wants_to_stop(j))
        return es_fail(err, ES_E_INTERRUPTED, "run.interrupted", "run it again",
                       "interrupted; nothing was written");
    j->read++;
    if (j->stage->owner[index])
        return compare_cell(j, index, values, err);
    j->stage->owner[index] = (int32_t)(j->file + 1);
    j->joined->cells++;
    return es_run_put_cell(j->draft.run, j->stage->id, index, values, err);
}

/* Copies all cells of a stage. Scratch stages hold intermediate state and are not joined. */
static es_status take_stage(joint *j, es_run *run, int64_t id, es_error *err)
{
    es_run_stage stage;
    ES_TRY(es_run_get_stage(run, id, &stage, err));
    if (stage.scratch)
        return ES_OK;
    j->stage = find_stage(j, stage.name);
    if (!j->stage)
        return fail_version(j, stage.name, err);
    if (es_run_add_stage(j->draft.run, stage.name, stage.rows, stage.cols, stage.columns,
                         &j->stage->id, err) != ES_OK)
        return strcmp(err->rule, "run.stage") == 0 ? fail_version(j, stage.name, err) : err->code;
    j->bytes = (size_t)(stage.rows * stage.cols) * sizeof *j->before;
    j->read = 0;
    j->to_read = stage.cells;
    ES_TRY(ES_MEM_NEW_2D(NULL, j->before, stage.rows, stage.cols, "a cell", err));
    const es_status status = es_run_each_cell(run, id, take_cell, j, err);
    es_mem_free(NULL, j->before);
    if (status == ES_E_FORMAT && strcmp(err->rule, "run.checksum") == 0)
        snprintf(err->hint, sizeof err->hint,
                 "go on with that shard by --shard and --resume: it is computed again");
    return status;
}

/* Another build may well give the same bits; the user should know of it. */
static void remark_builds(const joint *j, const es_run *run)
{
    static const char *const keys[] = {"version", "compiler", "blas"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *here = fact_of(run, keys[i], false), *first = fact_of(j->first, keys[i], false);
        if (here && first && strcmp(here, first) != 0)
            es_log(ES_LOG_WARN, "%s was made with %s %s, %s with %s: the last bits may differ",
                   path_of(j), keys[i], here, j->paths[0], first);
    }
}

/* Checks that a file is a shard of the same run and copies its cells. */
static es_status take_file(joint *j, es_run *run, const es_run_spec *spec, es_error *err)
{
    int64_t tables;
    ES_TRY(es_run_spec_join(run, spec, j->paths[0], err));
    ES_TRY(es_run_tables_count(run, &tables, err));
    if (tables > 0)
        return es_fail_file(err, ES_E_ARGUMENT, path_of(j), -1, "merge.finished",
                            "esscher report and esscher export read it as it is",
                            "the run is already complete");
    ES_TRY(agree_on_cells(j, run, err));
    remark_builds(j, run);
    for (int64_t id = 0; id < run->stages_count; id++)
        ES_TRY(take_stage(j, run, id, err));
    j->joined->files++;
    return ES_OK;
}

/* ---- gaps ---- */

/* Appends a range of missing cells to the text of the gaps. */
static void add_range(es_run_joined *to, const char *name, int64_t from, int64_t last)
{
    enum { MORE = 5 }; /* space for ", ..." */
    char text[ES_RUN_NAME + 64];
    const size_t used = strlen(to->gaps), capacity = sizeof to->gaps;
    if (used >= MORE && strcmp(to->gaps + used - 3, "...") == 0)
        return;
    int length = snprintf(text, sizeof text, from == last ? "%s%s %lld" : "%s%s %lld-%lld",
                          used ? ", " : "", name, (long long)from, (long long)last);
    if (used + (size_t)length + MORE >= capacity)
        snprintf(text, sizeof text, "%s...", used ? ", " : "");
    snprintf(to->gaps + used, capacity - used, "%s", text);
}

/* Lists the cells that no file has. */
static void find_gaps(joint *j)
{
    j->joined->missing = 0;
    j->joined->gaps[0] = '\0';
    for (int i = 0; i < j->n_stages; i++) {
        const whole_stage *s = &j->stages[i];
        for (int64_t from = 0, end; from < s->cells; from = end + 1) {
            for (end = from; end < s->cells && !s->owner[end]; end++)
                ;
            if (end > from)
                add_range(j->joined, s->name, from, end - 1);
            j->joined->missing += end - from;
        }
    }
}

/* Fails if cells are missing, unless a partial result was asked for. */
static es_status check_gaps(joint *j, es_error *err)
{
    find_gaps(j);
    if (!j->cells)
        return es_fail(err, ES_E_EMPTY, "merge.gaps", "run the shards, or --resume them",
                       "none of the files has a cell yet");
    if (j->opts->partial)
        return es_run_note(j->draft.run, "cells", j->cells, err);
    if (j->joined->missing == 0)
        return ES_OK;
    return es_fail(err, ES_E_EMPTY, "merge.gaps",
                   "run the shards that are missing, --resume those that were stopped, or join "
                   "what there is with --partial",
                   "%lld cell%s in none of the files: %s", (long long)j->joined->missing,
                   j->joined->missing == 1 ? " is" : "s are", j->joined->gaps);
}

/* ---- all of it ---- */

/* The first file stays open, because its parameters are those of all. */
static es_status join_all(joint *j, es_run *first, const char *out, es_error *err)
{
    const es_run_spec spec = {.command = first->command,
                              .params = first->params,
                              .params_count = first->params_count,
                              .facts = j->opts->facts,
                              .facts_count = j->opts->facts_count};
    ES_TRY(es_run_draft_open(out, &spec, j->opts->overwrite, &j->draft, err));
    es_status status = take_file(j, first, &spec, err);
    for (j->file = 1; j->file < j->count && status == ES_OK; j->file++) {
        es_run *run;
        status = es_run_open(path_of(j), &run, err);
        if (status != ES_OK)
            break;
        status = take_file(j, run, &spec, err);
        es_run_close(run, NULL);
        if (status != ES_OK)
            break;
    }
    if (status == ES_OK)
        status = check_gaps(j, err);
    return es_run_draft_end(&j->draft, status, err);
}

es_status es_run_join(const char *const *paths, int64_t count, const char *out,
                      const es_run_join_opts *opts, es_run_joined *joined, es_error *err)
{
    es_error own;
    es_run_joined nobodys;
    joint *memory;
    es_run *first;
    err = err ? err : &own;
    joined = joined ? joined : &nobodys;
    *joined = (es_run_joined){0};
    ES_TRY(check_names(paths, count, out, err));
    ES_TRY(es_run_open(paths[0], &first, err));
    es_status status = ES_MEM_NEW(NULL, memory, 1, "a join", err);
    if (status == ES_OK) {
        joint *j = memory;
        *j =
            (joint){.paths = paths, .count = count, .opts = opts, .joined = joined, .first = first};
        status = join_all(j, first, out, err);
        es_arena_free(&j->arena);
        es_mem_free(NULL, j);
    }
    es_run_close(first, NULL);
    return status;
}
