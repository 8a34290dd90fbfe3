/* SPDX-License-Identifier: Apache-2.0 */
#include "export_files.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/format.h>

#include "talk.h"

es_status cli_each_table(es_run *run, const char *only, es_mem_limit *budget, cli_table_fn fn,
                         void *user, es_error *err)
{
    int64_t count;
    es_status status = es_run_tables_count(run, &count, err);
    for (int64_t i = 0; status == ES_OK && i < (only ? 1 : count); i++) {
        char name[256];
        es_answer *answer;
        snprintf(name, sizeof name, "%s", only ? only : "");
        if (!only)
            status = es_run_table_name(run, i, name, err);
        if (status == ES_OK)
            status = es_run_answer(run, name, budget, &answer, err);
        if (status == ES_OK) {
            fn(user, es_answer_at(answer, 0));
            es_answer_free(answer);
        }
    }
    return status;
}

static bool is_text(const es_table_column *c) { return c->format == ES_FORMAT_TEXT; }

/* A text of a column; "" if the row has none. */
static const char *text_of(const es_table_column *c, int64_t row)
{
    const char *text = es_column_text(c, row);
    return text ? text : "";
}

/* ---- SQL ---- */

/* Bytes that are no UTF-8 would spoil the file for most readers: they are escaped as in every other
 * view, and only where there are any. Release with free(); NULL: take the text itself. */
static char *readable(const char *text) { return es_utf8(text) ? NULL : cli_escape_new(text); }

/* `text` between quotes, which are doubled inside. */
static void put_quoted(const char *text, char quote)
{
    char *escaped = readable(text);
    putchar(quote);
    for (const char *p = escaped ? escaped : text; *p; p++) {
        if (*p == quote)
            putchar(quote);
        putchar(*p);
    }
    putchar(quote);
    free(escaped);
}

static void put_value(const es_table_column *c, int64_t row)
{
    if (is_text(c))
        put_quoted(text_of(c, row), '\'');
    else if (isfinite(es_column_real(c, row)))
        printf("%.17g", es_column_real(c, row));
    else
        fputs("NULL", stdout);
}

/* Names of tables, or of the columns of a table, as SQL has them: it does not tell n from N. */
typedef struct sql_names {
    char **at;
    int64_t count;
} sql_names;

static bool same_name(const char *a, const char *b)
{
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++)
        b++;
    return *a == *b;
}

static bool is_taken(const sql_names *names, const char *name)
{
    for (int64_t i = 0; i < names->count; i++)
        if (same_name(names->at[i], name))
            return true;
    return false;
}

/* One more name: where it is taken, with its place in the list behind it. Returns it as it became.
 */
static const char *add_name(sql_names *names, const char *wanted)
{
    char *escaped = readable(wanted);
    const char *name = escaped ? escaped : wanted;
    const size_t size = strlen(name) + 24;
    char *own = cli_alloc(size);
    snprintf(own, size, "%s", name);
    for (long long n = names->count + 1; is_taken(names, own); n++)
        snprintf(own, size, "%s_%lld", name, n);
    free(escaped);
    names->at[names->count++] = own;
    return own;
}

static void free_names(sql_names *names)
{
    for (int64_t i = 0; i < names->count; i++)
        free(names->at[i]);
    free(names->at);
}

static void sql_row(const es_table *t, const char *name, int64_t row)
{
    es_table_column c;
    fputs("INSERT INTO ", stdout);
    put_quoted(name, '"');
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++) {
        fputs(j ? ", " : " VALUES (", stdout);
        put_value(&c, row);
    }
    fputs(");\n", stdout);
}

static void sql_table(void *tables, const es_table *t)
{
    es_table_column c;
    sql_names columns = {.at = cli_alloc_array((size_t)es_table_columns(t), sizeof *columns.at)};
    const char *name = add_name(tables, es_table_about(t)->key);
    fputs("CREATE TABLE ", stdout);
    put_quoted(name, '"');
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++) {
        fputs(j ? ",\n  " : " (\n  ", stdout);
        put_quoted(add_name(&columns, c.key), '"');
        fputs(is_text(&c) ? " TEXT" : " DOUBLE PRECISION", stdout);
    }
    free_names(&columns);
    fputs("\n);\n", stdout);
    for (int64_t i = 0; i < es_table_rows(t); i++)
        sql_row(t, name, i);
}

/* Parameters and provenance as tables like the others. */
static void sql_about(const es_run *run)
{
    const es_run_about about = es_run_info(run);
    fputs("CREATE TABLE \"_run\" (\"key\" TEXT, \"value\" TEXT);\n"
          "INSERT INTO \"_run\" VALUES ('command', ",
          stdout);
    put_quoted(about.command, '\'');
    fputs(");\nINSERT INTO \"_run\" VALUES ('created', ", stdout);
    put_quoted(about.created, '\'');
    fputs(");\n", stdout);
    fputs("CREATE TABLE \"_parameters\" (\"key\" TEXT, \"value\" TEXT);\n", stdout);
    for (int64_t i = 0; i < about.params_count; i++) {
        fputs("INSERT INTO \"_parameters\" VALUES (", stdout);
        put_quoted(about.params[i].key, '\'');
        fputs(", ", stdout);
        put_quoted(about.params[i].text, '\'');
        fputs(");\n", stdout);
    }
    fputs("CREATE TABLE \"_provenance\" (\"start\" INTEGER, \"key\" TEXT, \"value\" TEXT);\n",
          stdout);
    for (int64_t i = 0; i < about.facts_count; i++) {
        printf("INSERT INTO \"_provenance\" VALUES (%lld, ", (long long)about.facts[i].session);
        put_quoted(about.facts[i].key, '\'');
        fputs(", ", stdout);
        put_quoted(about.facts[i].text, '\'');
        fputs(");\n", stdout);
    }
}

es_status cli_export_sql(es_run *run, const char *table, es_mem_limit *budget, es_error *err)
{
    static const char *const own[] = {"_run", "_parameters", "_provenance"};
    int64_t count = 0;
    es_status status = es_run_tables_count(run, &count, err);
    if (status != ES_OK)
        return status;
    sql_names tables = {.at = cli_alloc_array((size_t)count + 4, sizeof *tables.at)};
    fputs("BEGIN;\n", stdout);
    for (size_t i = 0; i < sizeof own / sizeof own[0] && !table; i++)
        add_name(&tables, own[i]);
    if (!table)
        sql_about(run);
    status = cli_each_table(run, table, budget, sql_table, &tables, err);
    free_names(&tables);
    fputs(status == ES_OK ? "COMMIT;\n" : "ROLLBACK;\n", stdout);
    return status;
}

/* ---- one observation to a row ---- */

/* Returns whether the column identifies rows. */
static bool is_key(const es_table *t, const es_table_column *c)
{
    const char *at = es_table_about(t)->keys;
    const size_t length = strlen(c->spec->key);
    for (; at && *at && !c->is_error; at += strspn(at, " ")) {
        const size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, c->spec->key, length) == 0)
            return true;
        at += word;
    }
    return false;
}

/* The standard error of a column. */
static bool find_error(const es_table *t, const es_table_column *c, es_table_column *out)
{
    return c->error && es_table_find(t, c->error, out) && !is_text(out);
}

static void put_field(const char *text)
{
    if (strpbrk(text, ",\"\r\n") || !es_utf8(text))
        put_quoted(text, '"');
    else
        fputs(text, stdout);
}

/* Nothing for NaN and infinities. */
static void put_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
}

static void put_cell(const es_table_column *c, int64_t row)
{
    if (is_text(c))
        put_field(text_of(c, row));
    else
        put_number(es_column_real(c, row));
}

/* layer=0 head=3, as one field */
static void put_place(const es_table *t, int64_t row)
{
    char *place = NULL;
    size_t size = 0;
    FILE *into = open_memstream(&place, &size);
    es_table_column c;
    for (int64_t j = 0; into && es_table_column_at(t, j, &c); j++) {
        if (!is_key(t, &c))
            continue;
        fprintf(into, "%s%s=", ftell(into) > 0 ? " " : "", c.key);
        if (is_text(&c))
            fputs(text_of(&c, row), into);
        else if (isfinite(es_column_real(&c, row)))
            fprintf(into, "%.17g", es_column_real(&c, row));
    }
    if (into)
        fclose(into);
    put_field(place ? place : "");
    putchar(',');
    free(place);
}

/* `one`: the columns that tell rows apart are columns here. */
static void put_observation(const es_table *t, bool one, int64_t row, const es_table_column *found)
{
    es_table_column c;
    put_field(es_table_about(t)->key);
    printf(",%lld,", (long long)row);
    for (int64_t j = 0; one && es_table_column_at(t, j, &c); j++)
        if (is_key(t, &c)) {
            put_cell(&c, row);
            putchar(',');
        }
    if (!one)
        put_place(t, row);
    put_field(found->key);
    putchar(',');
    put_field(found->spec->unit);
    putchar(',');
    put_number(es_column_real(found, row));
    putchar(',');
    if (find_error(t, found, &c))
        put_number(es_column_real(&c, row));
    putchar(',');
    put_field(text_of(found, row));
    putchar('\n');
}

static const char observed[] = "quantity,unit,value,error,text\n";

static void tidy_header(const es_table *t)
{
    es_table_column c;
    fputs("table,row,", stdout);
    for (int64_t j = 0; es_table_column_at(t, j, &c); j++)
        if (is_key(t, &c)) {
            put_field(c.key);
            putchar(',');
        }
    fputs(observed, stdout);
}

/* Tables about tables are for us; an empty number or text is no observation. */
static void tidy_table(void *user, const es_table *t)
{
    const bool *one = user;
    es_table_column c;
    if (es_table_about(t)->key[0] == '_')
        return;
    if (*one)
        tidy_header(t);
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int64_t j = 0; es_table_column_at(t, j, &c); j++)
            if (!c.is_error && !is_key(t, &c) &&
                (is_text(&c) ? *text_of(&c, i) != '\0' : isfinite(es_column_real(&c, i))))
                put_observation(t, *one, i, &c);
}

es_status cli_export_tidy(es_run *run, const char *table, es_mem_limit *budget, es_error *err)
{
    bool one = table != NULL;
    if (!one)
        printf("table,row,at,%s", observed);
    return cli_each_table(run, table, budget, tidy_table, &one, err);
}
