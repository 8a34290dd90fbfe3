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
        es_run_table table;
        snprintf(name, sizeof name, "%s", only ? only : "");
        if (!only)
            status = es_run_table_name(run, i, name, err);
        if (status == ES_OK)
            status = es_run_get_table(run, name, budget, &table, err);
        if (status == ES_OK) {
            fn(user, &table);
            es_run_table_free(&table);
        }
    }
    return status;
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

static void put_value(const es_run_column *c, int64_t row)
{
    if (c->kind == ES_RUN_TEXT)
        put_quoted(c->texts[row], '\'');
    else if (isfinite(c->reals[row]))
        printf("%.17g", c->reals[row]);
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

static void sql_table(void *tables, const es_run_table *t)
{
    sql_names columns = {.at = cli_alloc_array((size_t)t->cols, sizeof *columns.at)};
    const char *name = add_name(tables, t->name);
    fputs("CREATE TABLE ", stdout);
    put_quoted(name, '"');
    for (int64_t j = 0; j < t->cols; j++) {
        fputs(j ? ",\n  " : " (\n  ", stdout);
        put_quoted(add_name(&columns, t->columns[j].name), '"');
        fputs(t->columns[j].kind == ES_RUN_TEXT ? " TEXT" : " DOUBLE PRECISION", stdout);
    }
    free_names(&columns);
    fputs("\n);\n", stdout);
    for (int64_t i = 0; i < t->rows; i++) {
        fputs("INSERT INTO ", stdout);
        put_quoted(name, '"');
        for (int64_t j = 0; j < t->cols; j++) {
            fputs(j ? ", " : " VALUES (", stdout);
            put_value(&t->columns[j], i);
        }
        fputs(");\n", stdout);
    }
}

/* What was asked, and who computed it, as tables like the others. */
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

/* A column, and what "_columns" says about it. */
typedef struct described {
    const es_run_column *column, *error; /* its standard error; NULL: none */
    const char *unit;
    bool key, value; /* tells rows apart; was found */
} described;

typedef struct tidying {
    es_run_table said; /* "_columns"; empty in a run that says nothing */
    bool one;          /* table: its keys are columns */
} tidying;

es_status cli_said(es_run *run, es_mem_limit *budget, es_run_table *out, es_error *err)
{
    const es_status status = es_run_get_table(run, "_columns", budget, out, err);
    if (status == ES_E_EMPTY)
        *out = (es_run_table){0};
    return status == ES_E_EMPTY ? ES_OK : status;
}

/* The columns of a table (cols); release with free(). */
static described *describe(const tidying *y, const es_run_table *t)
{
    described *all = cli_alloc_array((size_t)t->cols, sizeof *all);
    for (int64_t j = 0; j < t->cols; j++) {
        const es_run_column *c = &t->columns[j];
        const char *role = es_run_said(&y->said, t->name, c->name, "role");
        const es_run_column *error =
            es_run_column_of(t, es_run_said(&y->said, t->name, c->name, "error"));
        all[j] = (described){.column = c,
                             .error = error && error->kind == ES_RUN_REAL ? error : NULL,
                             .unit = es_run_said(&y->said, t->name, c->name, "unit"),
                             .key = strcmp(role, "key") == 0,
                             .value = strcmp(role, "key") != 0 && strcmp(role, "error") != 0};
    }
    return all;
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

static void put_cell(const es_run_column *c, int64_t row)
{
    if (c->kind == ES_RUN_TEXT)
        put_field(c->texts[row]);
    else
        put_number(c->reals[row]);
}

/* layer=0 head=3, as one field */
static void put_place(const described *all, int64_t cols, int64_t row)
{
    char *place = NULL;
    size_t size = 0;
    FILE *into = open_memstream(&place, &size);
    for (int64_t j = 0; into && j < cols; j++) {
        const es_run_column *c = all[j].column;
        if (!all[j].key)
            continue;
        fprintf(into, "%s%s=", ftell(into) > 0 ? " " : "", c->name);
        if (c->kind == ES_RUN_TEXT)
            fputs(c->texts[row], into);
        else if (isfinite(c->reals[row]))
            fprintf(into, "%.17g", c->reals[row]);
    }
    if (into)
        fclose(into);
    put_field(place ? place : "");
    putchar(',');
    free(place);
}

static void put_observation(const tidying *y, const es_run_table *t, const described *all,
                            int64_t row, const described *found)
{
    const es_run_column *c = found->column;
    put_field(t->name);
    printf(",%lld,", (long long)row);
    for (int64_t j = 0; y->one && j < t->cols; j++)
        if (all[j].key) {
            put_cell(all[j].column, row);
            putchar(',');
        }
    if (!y->one)
        put_place(all, t->cols, row);
    put_field(c->name);
    putchar(',');
    put_field(found->unit);
    putchar(',');
    if (c->kind == ES_RUN_REAL)
        put_number(c->reals[row]);
    putchar(',');
    if (found->error)
        put_number(found->error->reals[row]);
    putchar(',');
    put_field(c->kind == ES_RUN_TEXT ? c->texts[row] : "");
    putchar('\n');
}

static const char observed[] = "quantity,unit,value,error,text\n";

static void tidy_header(const described *all, int64_t cols)
{
    fputs("table,row,", stdout);
    for (int64_t j = 0; j < cols; j++)
        if (all[j].key) {
            put_field(all[j].column->name);
            putchar(',');
        }
    fputs(observed, stdout);
}

/* Tables about tables are for us; an empty number or text is no observation. */
static void tidy_table(void *user, const es_run_table *t)
{
    const tidying *y = user;
    if (t->name[0] == '_')
        return;
    described *all = describe(y, t);
    if (y->one)
        tidy_header(all, t->cols);
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->cols; j++) {
            const es_run_column *c = all[j].column;
            if (all[j].value &&
                (c->kind == ES_RUN_TEXT ? *c->texts[i] != '\0' : isfinite(c->reals[i])))
                put_observation(y, t, all, i, &all[j]);
        }
    free(all);
}

es_status cli_export_tidy(es_run *run, const char *table, es_mem_limit *budget, es_error *err)
{
    tidying y = {.one = table != NULL};
    es_status status = cli_said(run, budget, &y.said, err);
    if (status == ES_OK && !table)
        printf("table,row,at,%s", observed);
    if (status == ES_OK)
        status = cli_each_table(run, table, budget, tidy_table, &y, err);
    es_run_table_free(&y.said);
    return status;
}
