/* A table that only its run file knows, described as the run describes it: titles, units, formats,
 * standard errors, and the views in which its command showed it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "export_files.h"
#include "talk.h"

/* Texts of the file, escaped: they go to a terminal. */
typedef struct text_list {
    char **at; /* (count) */
    size_t count;
} text_list;

static const char *shown(text_list *list, const char *text)
{
    return list->at[list->count++] = cli_escape_new(text);
}

/* Is column j the standard error of another one? */
static bool is_error(const es_run_table *said, const es_run_table *table, int64_t j)
{
    for (int64_t k = 0; k < table->cols; k++)
        if (strcmp(es_run_said(said, table->name, table->columns[k].name, "error"),
                   table->columns[j].name) == 0)
            return true;
    return false;
}

enum { SHOWN = 3 }; /* texts about a column */

/* Columns (cols + 1); standard errors come with what they belong to. */
static void describe(const es_run_table *said, const es_run_table *table, es_column *columns,
                     text_list *texts)
{
    int64_t count = 0;
    for (int64_t j = 0; j < table->cols; j++) {
        const es_run_column *c = &table->columns[j];
        const char *title = es_run_said(said, table->name, c->name, "header"),
                   *definition = es_run_said(said, table->name, c->name, "definition"),
                   *error = es_run_said(said, table->name, c->name, "error");
        es_format format = c->kind == ES_RUN_REAL ? ES_FORMAT_REAL : ES_FORMAT_TEXT;
        if (is_error(said, table, j))
            continue;
        if (c->kind == ES_RUN_REAL &&
            (!es_format_parse(es_run_said(said, table->name, c->name, "format"), &format) ||
             format == ES_FORMAT_TEXT))
            format = ES_FORMAT_REAL;
        columns[count++] =
            (es_column){c->name,
                        shown(texts, *title ? title : c->name),
                        shown(texts, es_run_said(said, table->name, c->name, "unit")),
                        format,
                        *definition ? shown(texts, definition) : NULL,
                        *error ? error : NULL};
    }
    columns[count] = (es_column){0};
}

enum { MOST_VIEWS = 16 };

typedef struct view_list {
    es_table_view at[MOST_VIEWS + 1]; /* ends with a title that is NULL */
    const char *names[MOST_VIEWS];    /* titles as the file has them */
    char *columns[MOST_VIEWS];        /* ours to free */
    int count;
} view_list;

static const char *word_of(const es_run_table *said, const char *what, int64_t row)
{
    const es_run_column *c = es_run_column_of(said, what);
    return c && c->kind == ES_RUN_TEXT ? c->texts[row] : "";
}

/* The view of that title, new at the end; NULL if there are too many. */
static es_table_view *view_of(view_list *list, const char *title, const char *note,
                              text_list *texts)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->names[i], title) == 0)
            return &list->at[i];
    if (list->count == MOST_VIEWS)
        return NULL;
    list->names[list->count] = title;
    list->at[list->count] =
        (es_table_view){.title = shown(texts, title), .note = *note ? shown(texts, note) : NULL};
    return &list->at[list->count++];
}

/* "_columns" has a line for each column of each view, in the order of the view. */
static void find_views(const es_run_table *said, const es_run_table *table, view_list *list,
                       text_list *texts)
{
    for (int64_t i = 0; i < said->rows; i++) {
        const char *key = word_of(said, "key", i);
        if (strcmp(word_of(said, "table", i), table->name) != 0 ||
            strcmp(word_of(said, "hidden", i), "yes") == 0)
            continue;
        es_table_view *view =
            view_of(list, word_of(said, "title", i), word_of(said, "note", i), texts);
        if (!view)
            continue;
        char **columns = &list->columns[view - list->at];
        const size_t used = *columns ? strlen(*columns) : 0, size = used + strlen(key) + 2;
        char *longer = cli_alloc(size);
        snprintf(longer, size, "%s%s%s", used ? *columns : "", used ? " " : "", key);
        free(*columns);
        view->columns = *columns = longer;
    }
    if (list->count == 0) /* nobody described it */
        list->at[list->count++] = (es_table_view){.title = shown(texts, table->name)};
}

static void fill(const es_run_table *table, es_table *t)
{
    for (int64_t i = 0; i < table->rows; i++) {
        const int64_t row = es_table_row(t);
        for (int64_t j = 0; j < table->cols; j++) {
            const es_run_column *c = &table->columns[j];
            if (c->kind == ES_RUN_REAL)
                es_table_real(t, row, c->name, c->reals[i]);
            else
                es_table_text(t, row, c->name, c->texts[i]);
        }
    }
}

es_status cli_export_table(cli_session *session, const es_run_table *table,
                           const es_run_table *said, es_error *err)
{
    es_column *columns = cli_alloc_array((size_t)table->cols + 1, sizeof *columns);
    view_list views = {0};
    const size_t most = SHOWN * (size_t)table->cols + 2 * MOST_VIEWS;
    text_list texts = {.at = cli_alloc_array(most, sizeof(char *))};
    describe(said, table, columns, &texts);
    find_views(said, table, &views, &texts);
    const es_table_spec spec = {table->name, columns, views.at};
    fill(table, es_answer_table(cli_result(session), &spec));
    const es_status status = es_answer_status(session->result, err);
    if (status == ES_OK)
        cli_print(session);
    for (int i = 0; i < views.count; i++)
        free(views.columns[i]);
    for (size_t i = 0; i < texts.count; i++)
        free(texts.at[i]);
    free(texts.at);
    free(columns);
    return status;
}
