/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "table/answer.h"
#include "table/table.h"

/* ---- lookups ---- */

bool es_page_run_has(const es_table *table, const char *key)
{
    es_table_column c;
    return es_table_find(table, key, &c);
}

double es_page_run_real(const es_table *table, const char *key, int64_t row)
{
    es_table_column c;
    return row >= 0 && row < es_table_rows(table) && es_table_find(table, key, &c)
               ? es_column_real(&c, row)
               : (double)NAN;
}

const char *es_page_run_text(const es_table *table, const char *key, int64_t row)
{
    es_table_column c;
    const char *text = row >= 0 && row < es_table_rows(table) && es_table_find(table, key, &c)
                           ? es_column_text(&c, row)
                           : NULL;
    return text ? text : "";
}

const char *es_page_run_fact(const es_page_run *page_run, int64_t session, const char *key)
{
    for (int64_t i = 0; i < page_run->about.facts_count; i++) {
        const es_run_fact *fact = &page_run->about.facts[i];
        if (fact->session == session && strcmp(fact->key, key) == 0)
            return fact->text;
    }
    return "";
}

const char *es_page_run_param(const es_page_run *page_run, const char *key)
{
    for (int64_t i = 0; i < page_run->about.params_count; i++)
        if (strcmp(page_run->about.params[i].key, key) == 0)
            return page_run->about.params[i].text;
    return "";
}

/* Returns the file name without its directory. */
static const char *without_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Returns whether a word names the option: "--model", "--model=..." or "-m". *value is the text
 * after "=", NULL if the value is the next word. */
static bool is_option(const char *word, const char *name, char letter, const char **value)
{
    const size_t length = strlen(name);
    *value = NULL;
    if (letter && word[0] == '-' && word[1] == letter && word[2] == '\0')
        return true;
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0)
        return false;
    *value = word[2 + length] == '=' ? word + 3 + length : NULL;
    return *value || word[2 + length] == '\0';
}

const char *es_page_run_option(const es_page_run *page_run, const char *name, char letter, int at,
                               char *out, size_t size)
{
    const char *line = es_page_run_fact(page_run, 0, "command"), *value;
    char word[1024];
    while (es_command_word(&line, word, sizeof word)) {
        if (!is_option(word, name, letter, &value))
            continue;
        if (!value)
            value = es_command_word(&line, word, sizeof word) ? word : "";
        if (at-- == 0) {
            snprintf(out, size, "%s", without_folder(value));
            return out;
        }
    }
    out[0] = '\0';
    return out;
}

es_page_run_kind es_page_run_kind_of(const es_page_run *page_run)
{
    const char *command = page_run->about.command;
    if (strcmp(command, "compare") == 0)
        return ES_PAGE_RUN_COMPARE;
    if (*es_page_run_param(page_run, "model") || strcmp(command, "measure") == 0)
        return ES_PAGE_RUN_REAL;
    return strcmp(command, "claims") == 0      ? ES_PAGE_RUN_CLAIMS
           : strcmp(command, "selfcheck") == 0 ? ES_PAGE_RUN_SELFCHECK
                                               : ES_PAGE_RUN_SYNTHETIC;
}

es_page_run_pick es_page_run_pick_rows(int64_t rows, int64_t most)
{
    es_page_run_pick pick = {.rows = rows, .stride = 1, .count = rows};
    if (rows > most && most > 1) {
        pick.stride = (rows - 2) / (most - 1) + 1;
        pick.count = (rows - 2) / pick.stride + 2;
    }
    return pick;
}

int64_t es_page_run_row(const es_page_run_pick *pick, int64_t i)
{
    return i * pick->stride < pick->rows ? i * pick->stride : pick->rows - 1;
}

/* ---- views ---- */

/* Returns true if the file has rows or columns of the table; an empty table is only in the
 * description of its study. */
static bool is_stored(const es_page_run *page_run, const char *table)
{
    int64_t count = 0;
    char name[256];
    (void)es_run_tables_count(page_run->run, &count, NULL);
    for (int64_t i = 0; i < count; i++)
        if (es_run_table_name(page_run->run, i, name, NULL) == ES_OK && strcmp(name, table) == 0)
            return true;
    return false;
}

/* Adds a view, or counts it if there are more than a page shows. */
static void add_view(es_page_run *page_run, const es_table *t, const es_table_view *view,
                     bool first)
{
    if (page_run->count < ES_PAGE_RUN_TABLES)
        page_run->views[page_run->count++] =
            (es_page_run_view){.table = t, .view = *view, .first = first};
    else
        page_run->missing++;
}

/* Adds all views of a table, or the table itself if it has none. */
static void add_views(es_page_run *page_run, const es_table *t)
{
    const es_table_spec *spec = es_table_about(t);
    for (const es_table_view *v = spec->views; v && v->title; v++)
        add_view(page_run, t, v, v == spec->views);
    if (!spec->views)
        add_view(page_run, t, &(es_table_view){.title = spec->key}, true);
}

/* ---- reading ---- */

/* Adds the name of the run file to an error. */
static es_status naming(const es_page_run *page_run, es_status status, es_error *err)
{
    if (status != ES_OK && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", page_run->path);
    return status;
}

es_status es_page_run_open(es_page_run *page_run, const char *path, es_mem_limit *budget,
                           es_error *err)
{
    *page_run = (es_page_run){.path = path, .budget = budget};
    ES_TRY(es_run_open(path, &page_run->run, err));
    page_run->about = es_run_info(page_run->run);
    return naming(page_run, es_run_answer(page_run->run, "", budget, &page_run->answer, err), err);
}

/* Reads the answer of a run and lists the tables to show; empty ones only if the run stored
 * them. */
static es_status read_all(es_page_run *page_run, es_error *err)
{
    const es_table *t;
    ES_TRY(es_run_answer(page_run->run, NULL, page_run->budget, &page_run->answer, err));
    ES_TRY(ES_MEM_NEW(page_run->budget, page_run->views, ES_PAGE_RUN_TABLES, "tables of a report",
                      err));
    for (int64_t i = 0; (t = es_answer_at(page_run->answer, i)); i++)
        if (es_table_rows(t) > 0 || is_stored(page_run, es_table_about(t)->key))
            add_views(page_run, t);
    return ES_OK;
}

es_status es_page_run_read(es_page_run *page_run, es_error *err)
{
    es_page_run_forget(page_run);
    const es_status status = read_all(page_run, err);
    if (status != ES_OK)
        es_page_run_forget(page_run);
    return naming(page_run, status, err);
}

void es_page_run_forget(es_page_run *page_run)
{
    es_mem_free(page_run->budget, page_run->views);
    es_answer_free(page_run->answer);
    page_run->views = NULL;
    page_run->answer = NULL;
    page_run->count = page_run->missing = 0;
}

void es_page_run_close(es_page_run *page_run)
{
    es_page_run_forget(page_run);
    es_run_close(page_run->run, NULL);
    *page_run = (es_page_run){0};
}
