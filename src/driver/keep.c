/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c : the run file of a study: cells that are there, tables that are finished. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <esscher/machine.h>

#include "base/error.h"
#include "driver/driver.h"
#include "store/run.h"
#include "table/answer.h"
#include "table/table.h"

/* ---- the file ---- */

/* A process may be killed before it has begun its run file; the same command with --resume then
 * begins it. */
static bool nothing_to_resume(const char *path)
{
    if (access(path, F_OK) == 0 || errno != ENOENT)
        return false;
    es_log(ES_LOG_WARN, "%s does not exist yet: starting it", path);
    return true;
}

es_status es_keep_open(es_driver *d, es_error *err)
{
    const es_study_opts *o = d->opts;
    if (!o->out)
        return ES_OK;
    const es_build build = es_build_info();
    char shard[64];
    snprintf(shard, sizeof shard, "%lld of %lld", (long long)o->shard, (long long)o->shards);
    const es_run_pair facts[] = {{"command", o->line ? o->line : ""},
                                 {"version", build.version},
                                 {"compiler", build.compiler},
                                 {"cpu", es_cpu_name()},
                                 {"blas", build.blas},
                                 {"shard", shard}};
    es_fingerprint print;
    ES_TRY(es_fingerprint_make(&d->job, &d->job.exec.isa, &d->job.arena, &print, err));
    const es_run_spec spec = {.command = d->job.study->name,
                              .params = print.pairs,
                              .params_count = print.count,
                              .facts = facts,
                              .facts_count = sizeof facts / sizeof facts[0] - !o->shards};
    if (o->resume && !nothing_to_resume(o->out))
        return es_run_resume(o->out, &spec, &d->run, err);
    const es_status status = es_run_create(o->out, &spec, o->force, &d->run, err);
    if (status == ES_E_EXISTS && err)
        snprintf(err->hint, sizeof err->hint,
                 "continue it with --resume, overwrite it with --force, or choose another name");
    return status;
}

es_status es_keep_find(es_driver *d, int s, int64_t *missing, int64_t *count, es_error *err)
{
    const es_stage *stage = &d->job.stages[s];
    *count = 0;
    if (d->run && stage->cells)
        ES_TRY(es_run_add_stage(d->run, stage->name, stage->rows, stage->cols, stage->columns,
                                &d->stage_ids[s], err));
    for (int64_t i = 0; i < stage->cells; i++) {
        bool done = false;
        if (d->run)
            ES_TRY(es_run_has_cell(d->run, d->stage_ids[s], i, &done, err));
        if (done)
            ES_TRY(es_cells_load(d, s, i, err));
        else
            missing[(*count)++] = i;
        if (d->shared_out)
            d->have[s][i] = done;
    }
    return ES_OK;
}

es_status es_keep_cell(es_driver *d, int s, int64_t cell, const double *values, es_error *err)
{
    if (d->shared_out)
        d->have[s][cell] = true;
    return d->run ? es_run_put_cell(d->run, d->stage_ids[s], cell, values, err) : ES_OK;
}

/* ---- tables ---- */

/* A column of a table as run files take it, in `arena`. A row without text has an empty one. */
static es_status copy_column(const es_table_column *c, int64_t rows, es_run_column *out,
                             es_arena *arena, es_error *err)
{
    if (c->format == ES_FORMAT_TEXT) {
        const char **texts;
        ES_TRY(ES_ARENA_NEW(arena, texts, rows, "texts", err));
        for (int64_t i = 0; i < rows; i++)
            texts[i] = es_column_text(c, i) ? es_column_text(c, i) : "";
        *out = (es_run_column){.name = c->key, .kind = ES_RUN_TEXT, .texts = texts};
        return ES_OK;
    }
    double *reals;
    ES_TRY(es_column_gather(c, arena, &reals, err));
    *out = (es_run_column){.name = c->key, .kind = ES_RUN_REAL, .reals = reals};
    return ES_OK;
}

/* Writes the columns of a table to the run file. */
static es_status keep_table(es_run *run, const es_table *t, es_arena *arena, es_error *err)
{
    es_table_column c;
    const int64_t rows = es_table_rows(t), cols = es_table_columns(t);
    es_run_column *columns;
    ES_TRY(ES_ARENA_NEW(arena, columns, cols, "columns", err));
    for (int64_t j = 0; j < cols; j++) {
        es_table_column_at(t, j, &c);
        ES_TRY(copy_column(&c, rows, &columns[j], arena, err));
    }
    const es_run_table table = {
        .name = es_table_about(t)->key, .rows = rows, .cols = cols, .columns = columns};
    return cols && rows ? es_run_put_table(run, &table, err) : ES_OK;
}

/* Descriptions of columns: one row for each column of each view, in the order of the view, and one
 * for each column in no view, so that every column of the file is explained.
 *
 *     more          the view is printed only with --full ("yes"), or was not printed ("never")
 *     each, label   the key of which the column is one of several, and what distinguishes it
 *     missing       empty texts of the column mean that there is no value
 *     place         number among the columns of the table, which the file has only if it has rows
 */
static const es_column said_columns[] = {
    {"table", "", "", ES_FORMAT_TEXT},    {"title", "", "", ES_FORMAT_TEXT},
    {"note", "", "", ES_FORMAT_TEXT},     {"key", "", "", ES_FORMAT_TEXT},
    {"header", "", "", ES_FORMAT_TEXT},   {"unit", "", "", ES_FORMAT_TEXT},
    {"format", "", "", ES_FORMAT_TEXT},   {"definition", "", "", ES_FORMAT_TEXT},
    {"standing", "", "", ES_FORMAT_TEXT}, {"error", "", "", ES_FORMAT_TEXT},
    {"hidden", "", "", ES_FORMAT_TEXT},   {"role", "", "", ES_FORMAT_TEXT},
    {"more", "", "", ES_FORMAT_TEXT},     {"each", "", "", ES_FORMAT_TEXT},
    {"label", "", "", ES_FORMAT_TEXT},    {"missing", "", "", ES_FORMAT_TEXT},
    {"place", "", "", ES_FORMAT_COUNT},   {0}};
static const es_table_spec said_table = {"_columns", said_columns, NULL};

/* Returns the role of a column: a key identifies rows, an error belongs to another column,
 * everything else is a result. */
static const char *role_of(const es_table_spec *spec, const es_table_column *c)
{
    if (c->is_error)
        return "error";
    return spec->keys && es_words_at(spec->keys, c->spec->key) >= 0 ? "key" : "value";
}

/* Returns "yes" or "no", as run files store flags. */
static const char *yes_no(bool yes) { return yes ? "yes" : "no"; }

/* Returns whether a view is shown only with --full: yes, no, or never if it is hidden. */
static const char *more_of(const es_table *t, const es_table_view *view)
{
    if (!view)
        return "no";
    return t->hidden >> (view - t->spec->views) & 1 ? "never" : yes_no(view->only_with_full);
}

/* Returns true if a text column has an empty cell. */
static bool has_missing(const es_table *t, const es_table_column *c)
{
    for (int64_t i = 0; c->format == ES_FORMAT_TEXT && i < t->rows; i++)
        if (!es_column_text(c, i))
            return true;
    return false;
}

/* Describes one column for readers of the run file: title, unit, format, definition, place in the
 * view. */
static void say_column(es_table *to, const es_table *t, const es_table_view *view,
                       const es_table_column *c, int64_t place, bool hidden)
{
    char buffer[ES_KEY_SIZE];
    const char *each = !c->spec->each ? ""
                       : c->is_error  ? es_column_error_key(c->spec, buffer)
                                      : c->spec->key;
    const int64_t row = es_table_row(to);
    const char *const values[] = {es_table_about(t)->key,
                                  view ? view->title : es_table_about(t)->key,
                                  view && view->note ? view->note : "",
                                  c->key,
                                  c->title,
                                  c->spec->unit,
                                  es_format_name(c->format),
                                  c->is_error           ? "one standard error"
                                  : c->spec->definition ? c->spec->definition
                                                        : "",
                                  es_standing_name(c->is_error ? 0 : c->spec->standing),
                                  c->error ? c->error : "",
                                  yes_no(hidden),
                                  role_of(es_table_about(t), c),
                                  more_of(t, view),
                                  each,
                                  *each ? c->name + strlen(each) + 1 : "", /* name: EACH_LABEL */
                                  yes_no(has_missing(t, c))};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        es_table_text(to, row, said_columns[i].key, values[i]);
    es_table_count(to, row, "place", place);
}

/* Columns of a view stand in the order in which it names them. */
static void say_view(es_table *to, const es_table *t, const es_table_view *view)
{
    char word[ES_KEY_SIZE];
    es_table_column c;
    for (const char *at = view->columns ? view->columns : ""; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at += length;
        for (int64_t j = 0; es_table_column_at(t, j, &c); j++)
            if (!c.is_error && strcmp(c.spec->key, word) == 0)
                say_column(to, t, view, &c, j, false);
    }
    for (int64_t j = 0; !view->columns && es_table_column_at(t, j, &c); j++)
        if (!c.is_error)
            say_column(to, t, view, &c, j, false);
}

/* Returns true if some view shows the column. */
static bool in_a_view(const es_table_spec *spec, const es_table_column *c)
{
    for (const es_table_view *v = spec->views; v && v->title && !c->is_error; v++)
        if (!v->columns || es_words_at(v->columns, c->spec->key) >= 0)
            return true;
    return false;
}

/* Describes all views and columns of a table. */
static void say_table(es_table *to, const es_table *t)
{
    const es_table_spec *spec = es_table_about(t);
    es_table_column c;
    for (const es_table_view *v = spec->views; v && v->title; v++)
        say_view(to, t, v);
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++)
        if (!in_a_view(spec, &c))
            say_column(to, t, spec->views, &c, j, true);
}

/* Describes all tables in order; tables without rows appear only here. */
static const es_column table_columns[] = {{"table", "", "", ES_FORMAT_TEXT},
                                          {"record", "", "", ES_FORMAT_TEXT},
                                          {"inside", "", "", ES_FORMAT_TEXT},
                                          {"link", "", "", ES_FORMAT_TEXT},
                                          {"nested", "", "", ES_FORMAT_TEXT},
                                          {"only_inside", "", "", ES_FORMAT_TEXT},
                                          {0}};
static const es_table_spec tables_table = {"_tables", table_columns, NULL};

/* Describes how a table nests in the JSON answer. */
static void say_spec(es_table *to, const es_table_spec *spec)
{
    const int64_t row = es_table_row(to);
    const char *const values[] = {spec->key,
                                  yes_no(spec->record),
                                  spec->inside ? spec->inside : "",
                                  spec->link ? spec->link : "",
                                  spec->nested ? spec->nested : "",
                                  yes_no(spec->only_inside)};
    for (int i = 0; table_columns[i].key; i++)
        es_table_text(to, row, table_columns[i].key, values[i]);
}

/* ---- values outside tables ---- */

/* Results that stand alone. `json` has their kind, too, and lists, of which `value` is empty;
 * `after`: how many tables stand before it in JSON. */
static const es_column lone_columns[] = {{"key", "", "", ES_FORMAT_TEXT},
                                         {"value", "", "", ES_FORMAT_TEXT},
                                         {"json", "", "", ES_FORMAT_TEXT},
                                         {"after", "", "", ES_FORMAT_COUNT},
                                         {0}};
static const es_table_spec lone_table = {"_answer", lone_columns, NULL};

static const es_column finding_columns[] = {{"sentence", "", "", ES_FORMAT_TEXT}, {0}};
static const es_table_spec finding_table = {"_findings", finding_columns, NULL};

/* Texts of cells and findings that have formulas, which are marked here alone. */
static const es_column formula_columns[] = {{"text", "", "", ES_FORMAT_TEXT}, {0}};
static const es_table_spec formula_table = {"_formulas", formula_columns, NULL};

/* Stores the rest of an answer: whether a check failed, and the provenance. */
static const es_column about_columns[] = {
    {"key", "", "", ES_FORMAT_TEXT}, {"json", "", "", ES_FORMAT_TEXT}, {0}};
static const es_table_spec about_table = {"_about", about_columns, NULL};

/* Text of an es_writer, in memory. */
typedef struct gathered {
    char *bytes;
    int64_t used, capacity;
} gathered;

/* Collects written bytes in memory; a writer of es_answer_write(). */
static bool gather(void *user, const char *bytes, size_t count)
{
    gathered *g = user;
    const int64_t needed = g->used + (int64_t)count + 1;
    if (ES_MEM_GROW(NULL, g->bytes, &g->capacity, needed, "a text", NULL) != ES_OK)
        return false;
    memcpy(g->bytes + g->used, bytes, count);
    g->used += (int64_t)count;
    g->bytes[g->used] = '\0';
    return true;
}

/* Member "json" of a row: a result, or the provenance if there is none. */
static es_status say_json(es_table *to, int64_t row, const es_answer *answer, const lone *l,
                          es_error *err)
{
    gathered g = {0};
    es_writer writer = {.write = gather, .user = &g};
    if (l)
        es_json_lone(l, &writer);
    else
        es_json_provenance(answer, &writer);
    es_writer_flush(&writer);
    if (!writer.failed)
        es_table_text(to, row, "json", g.bytes);
    es_mem_free(NULL, g.bytes);
    return writer.failed ? es_fail(err, ES_E_MEMORY, "memory.system", "",
                                   "out of memory for the contents of the run file")
                         : ES_OK;
}

/* Stores the single values of an answer, outside its tables. */
static es_status say_lone(es_table *to, const es_answer *answer, es_error *err)
{
    char buffer[ES_FORMAT_SIZE];
    for (int64_t i = 0; i < answer->results.count; i++) {
        const lone *l = &answer->results.at[i];
        const int64_t row = es_table_row(to);
        es_table_text(to, row, "key", l->key);
        es_table_text(to, row, "value", l->rank ? "" : es_lone_text(l, buffer, sizeof buffer));
        es_table_count(to, row, "after", l->after);
        ES_TRY(say_json(to, row, answer, l, err));
    }
    return ES_OK;
}

/* Stores whether a check failed, and the provenance. */
static es_status say_about(es_table *to, const es_answer *answer, es_error *err)
{
    const int64_t refuted = es_table_row(to), provenance = es_table_row(to);
    es_table_text(to, refuted, "key", "refuted");
    es_table_text(to, refuted, "json", es_answer_check_failed(answer) ? "true" : "false");
    es_table_text(to, provenance, "key", "provenance");
    return say_json(to, provenance, answer, NULL, err);
}

/* Tables about the tables, in an answer of their own. */
static es_status make_about(const es_answer *answer, es_answer *about, es_error *err)
{
    const es_table *t;
    const char *text;
    es_table *said = es_answer_table(about, &said_table),
             *specs = es_answer_table(about, &tables_table),
             *findings = es_answer_table(about, &finding_table);
    for (int64_t i = 0; (t = es_answer_at(answer, i)); i++) {
        say_spec(specs, es_table_about(t));
        say_table(said, t);
    }
    ES_TRY(say_lone(es_answer_table(about, &lone_table), answer, err));
    ES_TRY(say_about(es_answer_table(about, &about_table), answer, err));
    for (int64_t i = 0; (text = es_answer_finding(answer, i)); i++)
        es_table_text(findings, es_table_row(findings), "sentence", text);
    es_table *formulas = es_answer_table(about, &formula_table);
    for (int64_t i = 0; i < answer->marked_count; i++)
        es_table_text(formulas, es_table_row(formulas), "text", answer->marked[i].marked);
    return es_answer_status(about, err);
}

es_status es_keep_tables(es_run *run, const es_answer *answer, es_error *err)
{
    es_answer *about;
    es_arena arena = {0};
    const es_table *t;
    ES_TRY(es_answer_new(NULL, &about, err));
    es_status status = make_about(answer, about, err);
    for (int64_t i = 0; status == ES_OK && (t = es_answer_at(answer, i)); i++)
        status = keep_table(run, t, &arena, err);
    for (int64_t i = 0; status == ES_OK && (t = es_answer_at(about, i)); i++)
        status = keep_table(run, t, &arena, err);
    es_arena_free(&arena);
    es_answer_free(about);
    return status;
}
