#include "report/book.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* ---- lookups ---- */

const es_run_column *es_book_column_of(const es_run_table *table, const char *key)
{
    for (int64_t j = 0; j < table->cols; j++)
        if (strcmp(table->columns[j].name, key) == 0)
            return &table->columns[j];
    return NULL;
}

double es_book_real(const es_run_table *table, const char *key, int64_t row)
{
    const es_run_column *c = es_book_column_of(table, key);
    return c && c->kind == ES_RUN_REAL && row >= 0 && row < table->rows ? c->reals[row]
                                                                        : (double)NAN;
}

const char *es_book_text(const es_run_table *table, const char *key, int64_t row)
{
    const es_run_column *c = es_book_column_of(table, key);
    return c && c->kind == ES_RUN_TEXT && row >= 0 && row < table->rows ? c->texts[row] : "";
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

/* The next word of a command line that was quoted for a shell; false at its end. */
static bool next_word(const char **at, char *out, size_t size)
{
    size_t used = 0;
    bool quoted = false;
    *at += strspn(*at, " ");
    if (!**at)
        return false;
    for (; **at && (quoted || **at != ' '); ++*at) {
        const bool escaped = !quoted && **at == '\\' && (*at)[1];
        if (**at == '\'' && !escaped) {
            quoted = !quoted;
            continue;
        }
        *at += escaped;
        if (used + 1 < size)
            out[used++] = **at;
    }
    out[used] = '\0';
    return true;
}

static const char *without_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Does a word name the option: "--model", "--model=..." or "-m"? *value is then what stands behind
 * the sign, NULL if the next word does. */
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
    while (next_word(&line, word, sizeof word)) {
        if (!is_option(word, name, letter, &value))
            continue;
        if (!value)
            value = next_word(&line, word, sizeof word) ? word : "";
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

/* ---- what people are shown ---- */

/* Is `name` an element of the array `key`, "key.3"? */
static bool is_element_of(const char *name, const char *key)
{
    const size_t length = strlen(key);
    if (strncmp(name, key, length) != 0 || name[length] != '.')
        return false;
    const char *digits = name + length + 1;
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

/* Row `row` of "_columns", applied to column `value`. */
static es_book_column describe(const es_book *book, const es_book_table *t, int64_t row,
                               const es_run_column *value)
{
    const es_run_table *said = &book->columns;
    const char *error = es_book_text(said, "error", row);
    es_book_column c = {.value = value,
                        .header = es_book_text(said, "header", row),
                        .unit = es_book_text(said, "unit", row),
                        .definition = es_book_text(said, "definition", row),
                        .standing = es_book_text(said, "standing", row),
                        .format = ES_FORMAT_REAL};
    es_format_parse(es_book_text(said, "format", row), &c.format);
    const es_run_column *e = *error ? es_book_column_of(&t->data, error) : NULL;
    c.error = e && e->kind == ES_RUN_REAL ? e : NULL;
    if (!*c.header)
        c.header = value->name;
    return c;
}

/* A column of flags of which none is set says nothing. */
static bool is_blank(const es_run_column *c, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        if (c->kind == ES_RUN_REAL || *c->texts[i])
            return false;
    return rows > 0;
}

/* Is row `i` of "_columns" for people? Numbers that the terminal hides are details, texts that it
 * hides were too long for its lines: a page has room for them. */
static bool is_shown(const es_book *book, int64_t i, const es_run_column *c)
{
    return c->kind == ES_RUN_TEXT || strcmp(es_book_text(&book->columns, "hidden", i), "yes") != 0;
}

static bool is_there_already(const es_book_table *t, const es_run_column *c)
{
    for (int64_t j = 0; j < t->shown; j++)
        if (t->columns[j].value == c)
            return true;
    return false;
}

/* Does row `i` of "_columns" speak of this view? */
static bool is_about(const es_book *book, int64_t i, const es_book_table *t)
{
    return strcmp(es_book_text(&book->columns, "table", i), t->data.name) == 0 &&
           strcmp(es_book_text(&book->columns, "title", i), t->title) == 0;
}

/* Columns of a view in the order in which they are described; a key that stands for an array stands
 * for all its elements. */
static void choose_described(const es_book *book, es_book_table *t)
{
    for (int64_t i = 0; i < book->columns.rows; i++) {
        const char *key = es_book_text(&book->columns, "key", i);
        for (int64_t j = 0; j < t->data.cols && is_about(book, i, t); j++) {
            const es_run_column *c = &t->data.columns[j];
            if ((strcmp(c->name, key) == 0 || is_element_of(c->name, key)) &&
                is_shown(book, i, c) && !is_there_already(t, c) && !is_blank(c, t->data.rows))
                t->columns[t->shown++] = describe(book, t, i, c);
        }
    }
}

static void choose_all(es_book_table *t)
{
    for (t->shown = 0; t->shown < t->data.cols; t->shown++) {
        const es_run_column *c = &t->data.columns[t->shown];
        t->columns[t->shown] =
            (es_book_column){.value = c,
                             .header = c->name,
                             .unit = "",
                             .definition = "",
                             .standing = "",
                             .format = c->kind == ES_RUN_TEXT ? ES_FORMAT_TEXT : ES_FORMAT_REAL};
    }
}

/* One more view of `data`, under a title; it owns the data if it is the first. */
static es_status add_view(es_book *book, const es_run_table *data, const char *title,
                          const char *note, bool first, es_error *err)
{
    void *columns;
    if (book->count == ES_BOOK_TABLES && !first) {
        book->missing++;
        return ES_OK;
    }
    ES_TRY(es_mem_array(book->budget, data->cols, 1, sizeof(es_book_column), "columns of a report",
                        &columns, err));
    es_book_table *t = &book->tables[book->count++];
    *t = (es_book_table){
        .data = *data, .owner = first, .title = title, .note = note, .columns = columns};
    choose_described(book, t);
    if (t->shown == 0)
        choose_all(t);
    return ES_OK;
}

/* Was the title of row `i` of "_columns" there in an earlier row about the same table? */
static bool is_repeated(const es_book *book, int64_t i)
{
    const es_run_table *said = &book->columns;
    for (int64_t k = 0; k < i; k++)
        if (strcmp(es_book_text(said, "table", k), es_book_text(said, "table", i)) == 0 &&
            strcmp(es_book_text(said, "title", k), es_book_text(said, "title", i)) == 0)
            return true;
    return false;
}

static es_status read_table(es_book *book, const char *name, es_error *err)
{
    const es_run_table *said = &book->columns;
    es_run_table data;
    bool first = true;
    ES_TRY(es_run_get_table(book->run, name, book->budget, &data, err));
    es_status status = ES_OK;
    for (int64_t i = 0; i < said->rows && status == ES_OK; i++)
        if (strcmp(es_book_text(said, "table", i), name) == 0 && !is_repeated(book, i)) {
            status = add_view(book, &data, es_book_text(said, "title", i),
                              es_book_text(said, "note", i), first, err);
            first = first && status != ES_OK;
        }
    if (first && status == ES_OK) { /* nobody described it */
        status = add_view(book, &data, data.name, "", true, err);
        first = status != ES_OK;
    }
    if (first)
        es_run_table_free(&data);
    return status;
}

/* Tables come in order of their names; people want the order in which they were described. */
static int64_t place_of(const es_book *book, const es_book_table *t)
{
    for (int64_t i = 0; i < book->columns.rows; i++)
        if (is_about(book, i, t))
            return i;
    return book->columns.rows;
}

static void sort_tables(es_book *book)
{
    for (int64_t i = 1; i < book->count; i++)
        for (int64_t j = i; j > 0; j--) {
            es_book_table *a = &book->tables[j - 1], *b = &book->tables[j], swap = *a;
            if (place_of(book, a) <= place_of(book, b))
                break;
            *a = *b;
            *b = swap;
        }
}

/* ---- reading ---- */

/* A table that may be absent. */
static es_status read_if_there(es_book *book, const char *name, es_run_table *out, es_error *err)
{
    const es_status status = es_run_get_table(book->run, name, book->budget, out, err);
    if (status == ES_E_EMPTY)
        *out = (es_run_table){0};
    return status == ES_E_EMPTY ? ES_OK : status;
}

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
    return naming(book, read_if_there(book, "_findings", &book->findings, err), err);
}

static es_status read_all(es_book *book, es_error *err)
{
    int64_t names;
    void *tables;
    ES_TRY(read_if_there(book, "_columns", &book->columns, err));
    ES_TRY(read_if_there(book, "_answer", &book->answer, err));
    ES_TRY(es_mem_array(book->budget, ES_BOOK_TABLES, 1, sizeof *book->tables, "tables of a report",
                        &tables, err));
    book->tables = tables;
    ES_TRY(es_run_tables_count(book->run, &names, err));
    for (int64_t i = 0; i < names; i++) {
        char name[256];
        ES_TRY(es_run_table_name(book->run, i, name, err));
        if (name[0] == '_')
            continue;
        if (book->count == ES_BOOK_TABLES)
            book->missing++;
        else
            ES_TRY(read_table(book, name, err));
    }
    sort_tables(book);
    return ES_OK;
}

es_status es_book_read(es_book *book, es_error *err)
{
    const es_status status = read_all(book, err);
    if (status != ES_OK)
        es_book_forget(book);
    return naming(book, status, err);
}

void es_book_forget(es_book *book)
{
    for (int64_t i = 0; i < book->count; i++) {
        if (book->tables[i].owner)
            es_run_table_free(&book->tables[i].data);
        es_mem_free(book->budget, book->tables[i].columns);
    }
    es_mem_free(book->budget, book->tables);
    es_run_table_free(&book->columns);
    es_run_table_free(&book->answer);
    book->tables = NULL;
    book->columns = book->answer = (es_run_table){0};
    book->count = book->missing = 0;
}

void es_book_close(es_book *book)
{
    es_book_forget(book);
    es_run_table_free(&book->findings);
    es_run_close(book->run, NULL);
    *book = (es_book){0};
}
