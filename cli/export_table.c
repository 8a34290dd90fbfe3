/* A table that only its run file knows, described as the run describes it: titles, units, formats,
 * standard errors, and the views in which its command showed it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "export_files.h"
#include "talk.h"

/* Columns (cols + 1); standard errors come with what they belong to. */
static void describe(const es_run_table *said, const es_run_table *table, es_column *columns)
{
    int64_t count = 0;
    for (int64_t j = 0; j < table->cols; j++) {
        const es_run_column *c = &table->columns[j];
        const char *title = cli_said_of(said, table->name, c->name, "header"),
                   *definition = cli_said_of(said, table->name, c->name, "definition"),
                   *error = cli_said_of(said, table->name, c->name, "error");
        es_format format = c->kind == ES_RUN_REAL ? ES_FORMAT_REAL : ES_FORMAT_TEXT;
        if (strcmp(cli_said_of(said, table->name, c->name, "role"), "error") == 0)
            continue;
        if (c->kind == ES_RUN_REAL &&
            (!es_format_parse(cli_said_of(said, table->name, c->name, "format"), &format) ||
             format == ES_FORMAT_TEXT))
            format = ES_FORMAT_REAL;
        columns[count++] = (es_column){c->name,
                                       *title ? title : c->name,
                                       cli_said_of(said, table->name, c->name, "unit"),
                                       format,
                                       *definition ? definition : NULL,
                                       *error ? error : NULL};
    }
    columns[count] = (es_column){0};
}

enum { MOST_VIEWS = 16 };

typedef struct view_list {
    es_table_view at[MOST_VIEWS + 1]; /* ends with a title that is NULL */
    char *columns[MOST_VIEWS];        /* ours to free */
    int count;
} view_list;

static const char *word_of(const es_run_table *said, const char *what, int64_t row)
{
    for (int64_t j = 0; j < said->cols; j++)
        if (strcmp(said->columns[j].name, what) == 0 && said->columns[j].kind == ES_RUN_TEXT)
            return said->columns[j].texts[row];
    return "";
}

/* The view of that title, new at the end; NULL if there are too many. */
static es_table_view *view_of(view_list *list, const char *title, const char *note)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->at[i].title, title) == 0)
            return &list->at[i];
    if (list->count == MOST_VIEWS)
        return NULL;
    list->at[list->count] = (es_table_view){.title = title, .note = *note ? note : NULL};
    return &list->at[list->count++];
}

/* "_columns" has a line for each column of each view, in the order of the view. */
static void find_views(const es_run_table *said, const es_run_table *table, view_list *list)
{
    for (int64_t i = 0; i < said->rows; i++) {
        const char *key = word_of(said, "key", i);
        if (strcmp(word_of(said, "table", i), table->name) != 0 ||
            strcmp(word_of(said, "hidden", i), "yes") == 0)
            continue;
        es_table_view *view = view_of(list, word_of(said, "title", i), word_of(said, "note", i));
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
        list->at[list->count++] = (es_table_view){.title = table->name};
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
    describe(said, table, columns);
    find_views(said, table, &views);
    const es_table_spec spec = {table->name, columns, views.at};
    fill(table, es_answer_table(cli_result(session), &spec));
    const es_status status = es_answer_status(session->result, err);
    if (status == ES_OK)
        cli_print(session);
    for (int i = 0; i < views.count; i++)
        free(views.columns[i]);
    free(columns);
    return status;
}
