/* SPDX-License-Identifier: Apache-2.0 */
#include "report/book.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "table/answer.h"
#include "table/table.h"

/* ---- lookups ---- */

bool es_book_has(const es_table *table, const char *key)
{
    es_table_column c;
    return es_table_find(table, key, &c);
}

double es_book_real(const es_table *table, const char *key, int64_t row)
{
    es_table_column c;
    return row >= 0 && row < es_table_rows(table) && es_table_find(table, key, &c)
               ? es_column_real(&c, row)
               : (double)NAN;
}

const char *es_book_text(const es_table *table, const char *key, int64_t row)
{
    es_table_column c;
    const char *text = row >= 0 && row < es_table_rows(table) && es_table_find(table, key, &c)
                           ? es_column_text(&c, row)
                           : NULL;
    return text ? text : "";
}

const char *es_book_fact(const es_book *book, int64_t session, const char *key)
{
    for (int64_t i = 0; i < book->about.facts_count; i++) {
        const es_run_fact *fact = &book->about.facts[i];
        if (fact->session == session && strcmp(fact->key, key) == 0)
            return fact->text;
    }
    return "";
}

const char *es_book_param(const es_book *book, const char *key)
{
    for (int64_t i = 0; i < book->about.params_count; i++)
        if (strcmp(book->about.params[i].key, key) == 0)
            return book->about.params[i].text;
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

const char *es_book_option(const es_book *book, const char *name, char letter, int at, char *out,
                           size_t size)
{
    const char *line = es_book_fact(book, 0, "command"), *value;
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

es_book_kind es_book_kind_of(const es_book *book)
{
    const char *command = book->about.command;
    if (strcmp(command, "compare") == 0)
        return ES_BOOK_COMPARE;
    if (*es_book_param(book, "model") || strcmp(command, "measure") == 0)
        return ES_BOOK_REAL;
    return strcmp(command, "claims") == 0      ? ES_BOOK_CLAIMS
           : strcmp(command, "selfcheck") == 0 ? ES_BOOK_SELFCHECK
                                               : ES_BOOK_SYNTHETIC;
}

es_book_pick es_book_pick_rows(int64_t rows, int64_t most)
{
    es_book_pick pick = {.rows = rows, .stride = 1, .count = rows};
    if (rows > most && most > 1) {
        pick.stride = (rows - 2) / (most - 1) + 1;
        pick.count = (rows - 2) / pick.stride + 2;
    }
    return pick;
}

int64_t es_book_row(const es_book_pick *pick, int64_t i)
{
    return i * pick->stride < pick->rows ? i * pick->stride : pick->rows - 1;
}

/* ---- views ---- */

/* Returns true if the file has rows or columns of the table; an empty table is only in the
 * description of its study. */
static bool is_stored(const es_book *book, const char *table)
{
    int64_t count = 0;
    char name[256];
    (void)es_run_tables_count(book->run, &count, NULL);
    for (int64_t i = 0; i < count; i++)
        if (es_run_table_name(book->run, i, name, NULL) == ES_OK && strcmp(name, table) == 0)
            return true;
    return false;
}

/* Adds a view, or counts it if there are more than a page shows. */
static void add_view(es_book *book, const es_table *t, const es_table_view *view, bool first)
{
    if (book->count < ES_BOOK_TABLES)
        book->views[book->count++] = (es_book_view){.table = t, .view = *view, .first = first};
    else
        book->missing++;
}

/* Adds all views of a table, or the table itself if it has none. */
static void add_views(es_book *book, const es_table *t)
{
    const es_table_spec *spec = es_table_about(t);
    for (const es_table_view *v = spec->views; v && v->title; v++)
        add_view(book, t, v, v == spec->views);
    if (!spec->views)
        add_view(book, t, &(es_table_view){.title = spec->key}, true);
}

/* ---- reading ---- */

/* Adds the name of the run file to an error. */
static es_status naming(const es_book *book, es_status status, es_error *err)
{
    if (status != ES_OK && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", book->path);
    return status;
}

es_status es_book_open(es_book *book, const char *path, es_mem_limit *budget, es_error *err)
{
    *book = (es_book){.path = path, .budget = budget};
    ES_TRY(es_run_open(path, &book->run, err));
    book->about = es_run_info(book->run);
    return naming(book, es_run_answer(book->run, "", budget, &book->answer, err), err);
}

/* Reads the answer of a run and lists the tables to show; empty ones only if the run stored
 * them. */
static es_status read_all(es_book *book, es_error *err)
{
    const es_table *t;
    ES_TRY(es_run_answer(book->run, NULL, book->budget, &book->answer, err));
    ES_TRY(ES_MEM_NEW(book->budget, book->views, ES_BOOK_TABLES, "tables of a report", err));
    for (int64_t i = 0; (t = es_answer_at(book->answer, i)); i++)
        if (es_table_rows(t) > 0 || is_stored(book, es_table_about(t)->key))
            add_views(book, t);
    return ES_OK;
}

es_status es_book_read(es_book *book, es_error *err)
{
    es_book_forget(book);
    const es_status status = read_all(book, err);
    if (status != ES_OK)
        es_book_forget(book);
    return naming(book, status, err);
}

void es_book_forget(es_book *book)
{
    es_mem_free(book->budget, book->views);
    es_answer_free(book->answer);
    book->views = NULL;
    book->answer = NULL;
    book->count = book->missing = 0;
}

void es_book_close(es_book *book)
{
    es_book_forget(book);
    es_run_close(book->run, NULL);
    *book = (es_book){0};
}
