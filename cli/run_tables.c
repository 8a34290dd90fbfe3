#include "run_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "talk.h"

/* ---- rows, made flat ---- */

/* Arrays inside a row that are longer are data of their own, not numbers beside numbers. */
enum { LONGEST_ARRAY = 16, LONGEST_KEY = 255 };

/* Put what `value` holds into `flat`, under keys that begin with `key`. */
static void flatten(json_t *flat, const char *key, json_t *value)
{
    char longer[LONGEST_KEY + 1];
    const char *member;
    json_t *inside;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach(value, member, inside)
        {
            snprintf(longer, sizeof longer, "%s%s%s", key, key[0] ? "." : "", member);
            flatten(flat, longer, inside);
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, inside)
        {
            if (json_array_size(value) > LONGEST_ARRAY || json_is_object(inside))
                return; /* rows of another table */
            snprintf(longer, sizeof longer, "%s.%zu", key, i);
            flatten(flat, longer, inside);
        }
    } else {
        json_object_set(flat, key, value);
    }
}

/* Flat copies of all rows, and in `*kinds` every key that one of them has, in order of first
 * appearance, with a text or a null. */
static json_t *flat_rows(const json_t *rows, json_t **kinds)
{
    json_t *copies = json_array(), *row, *value;
    const char *key;
    size_t i;
    *kinds = json_object();
    json_array_foreach(rows, i, row)
    {
        json_t *flat = json_object();
        flatten(flat, "", row);
        json_object_foreach(flat, key, value)
        {
            if (json_is_string(value))
                json_object_set_new(*kinds, key, json_true());
            else if (!json_object_get(*kinds, key))
                json_object_set_new(*kinds, key, json_false());
        }
        json_array_append_new(copies, flat);
    }
    return copies;
}

static double number_of(const json_t *value)
{
    return json_is_boolean(value)  ? (double)json_boolean_value(value)
           : json_is_number(value) ? json_number_value(value)
                                   : (double)NAN;
}

/* Rows are objects; numbers that are null become NaN, texts that are missing empty. */
static es_status put_rows(es_run *run, const char *name, const json_t *rows, es_error *err)
{
    json_t *kinds, *kind;
    json_t *flat = flat_rows(rows, &kinds);
    const size_t count = json_array_size(flat), most = json_object_size(kinds);
    es_run_column *columns = cli_alloc_array(most + 1, sizeof *columns);
    double *reals = cli_alloc_array(most * count + 1, sizeof *reals);
    const char **texts = cli_alloc_array(most * count + 1, sizeof *texts);
    const char *key;
    int64_t cols = 0;
    json_object_foreach(kinds, key, kind)
    {
        double *real = reals + (size_t)cols * count;
        const char **text = texts + (size_t)cols * count;
        for (size_t i = 0; i < count; i++) {
            const json_t *cell = json_object_get(json_array_get(flat, i), key);
            real[i] = number_of(cell);
            text[i] = json_is_string(cell) ? json_string_value(cell) : "";
        }
        columns[cols++] = (es_run_column){.name = key,
                                          .kind = json_is_true(kind) ? ES_RUN_TEXT : ES_RUN_REAL,
                                          .reals = real,
                                          .texts = text};
    }
    const es_run_table table = {
        .name = name, .rows = (int64_t)count, .cols = cols, .columns = columns};
    const es_status status = cols ? es_run_put_table(run, &table, err) : ES_OK;
    free(columns);
    free(reals);
    free(texts);
    json_decref(flat);
    json_decref(kinds);
    return status;
}

/* ---- what is said about them ---- */

static json_t *text_or_empty(const char *text) { return json_string(text ? text : ""); }

static void describe_view(json_t *list, const cli_table *view)
{
    for (const cli_column *c = view->columns; c->key; c++) {
        json_t *row = json_object();
        json_object_set_new(row, "table", text_or_empty(view->rows));
        json_object_set_new(row, "title", text_or_empty(view->title));
        json_object_set_new(row, "note", text_or_empty(view->note));
        json_object_set_new(row, "key", text_or_empty(c->key));
        json_object_set_new(row, "header", text_or_empty(c->header));
        json_object_set_new(row, "unit", text_or_empty(c->unit));
        json_object_set_new(row, "format", text_or_empty(es_format_name((es_format)c->format)));
        json_object_set_new(row, "definition", text_or_empty(c->definition));
        json_object_set_new(row, "error", text_or_empty(c->error));
        json_object_set_new(row, "hidden", text_or_empty(c->hidden ? "yes" : "no"));
        json_array_append_new(list, row);
    }
}

/* Rows of a view, to be released: an object is one row. NULL: the answer has none. */
static json_t *rows_of(const cli_table *view, const json_t *answer)
{
    json_t *rows = json_object_get(answer, view->rows);
    if (json_is_object(rows))
        return json_pack("[O]", rows);
    return json_array_size(rows) > 0 ? json_incref(rows) : NULL;
}

static bool is_viewed(const cli_session *session, const char *key)
{
    for (const cli_table *const *view = session->command->views; *view; view++)
        if (strcmp((*view)->rows, key) == 0)
            return true;
    return false;
}

/* Results at the top level that are neither tables nor what every answer begins with. */
static json_t *lone_results(const cli_session *session)
{
    static const char *const preamble[] = {"schema", "command", "version", "provenance"};
    json_t *list = json_array(), *flat = json_object(), *value;
    const char *key;
    json_object_foreach(session->answer, key, value)
    {
        bool known = (json_is_array(value) && json_is_object(json_array_get(value, 0))) ||
                     (json_is_object(value) && is_viewed(session, key));
        for (size_t i = 0; i < sizeof preamble / sizeof preamble[0]; i++)
            known = known || strcmp(key, preamble[i]) == 0;
        if (!known)
            flatten(flat, key, value);
    }
    json_object_foreach(flat, key, value)
    {
        char number[32];
        json_t *row = json_object();
        snprintf(number, sizeof number, "%.17g", number_of(value));
        json_object_set_new(row, "key", json_string(key));
        json_object_set_new(row, "value",
                            json_is_string(value) ? json_copy(value)
                                                  : json_string(json_is_null(value) ? "" : number));
        json_array_append_new(list, row);
    }
    json_decref(flat);
    return list;
}

es_status cli_run_tables(es_run *run, const cli_session *session, es_error *err)
{
    const cli_table *const *views = session->command->views;
    json_t *columns = json_array(), *alone = lone_results(session);
    es_status status = ES_OK;
    for (; *views && status == ES_OK; views++) {
        json_t *rows = rows_of(*views, session->answer);
        if (!rows)
            continue;
        describe_view(columns, *views);
        status = put_rows(run, (*views)->rows, rows, err);
        json_decref(rows);
    }
    if (status == ES_OK)
        status = put_rows(run, "_columns", columns, err);
    if (status == ES_OK)
        status = put_rows(run, "_answer", alone, err);
    json_decref(columns);
    json_decref(alone);
    return status;
}
