/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c : a CSV file as a table of numbers, refused at the first byte that is not what csv.h says.
 */
#include "store/csv_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"

enum { LONGEST = 63 }; /* bytes of a field without its quotes */

/* The position of the reader. */
typedef struct reader {
    const char *text, *end, *at;
    const char *file;
    int64_t line, field; /* from 1 */
} reader;

/* Fails at the current field, naming line and field. */
static es_status refuse(const reader *r, es_status code, const char *rule, const char *hint,
                        const char *what, es_error *err)
{
    const es_status status =
        es_fail_file(err, code, r->file, r->at - r->text, rule, hint, "line %lld, field %lld: %s",
                     (long long)r->line, (long long)r->field, what);
    if (err) {
        err->row = r->line;
        err->col = r->field;
    }
    return status;
}

/* ---- fields ---- */

/* Returns true at the end of a line or of the text; a line may end in CR LF. */
static bool at_line_end(const reader *r)
{
    return r->at == r->end || *r->at == '\n' ||
           (*r->at == '\r' && (r->at + 1 == r->end || r->at[1] == '\n'));
}

/* Skips blanks and tabs. */
static void skip_spaces(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

/* Past the line's end; false if the text ended instead. */
static bool next_line(reader *r)
{
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end)
        r->at++;
    r->line++;
    r->field = 1;
    return r->at < r->end;
}

/* Appends the current character to a field; fails for a zero byte or a field that is too long. */
static es_status append(const reader *r, char out[LONGEST + 1], int *used, es_error *err)
{
    if (*r->at == '\0')
        return refuse(r, ES_E_FORMAT, "csv.nul", "is it a text file?", "a zero byte", err);
    if (*used == LONGEST)
        return refuse(r, ES_E_FORMAT, "csv.fields", "a name or number has up to 63 characters",
                      "the field is too long", err);
    out[(*used)++] = *r->at;
    return ES_OK;
}

/* Reads the rest of a quoted field; a doubled quote is one quote. */
static es_status quoted(reader *r, char out[LONGEST + 1], int *used, es_error *err)
{
    for (r->at++; !at_line_end(r); r->at++) {
        if (*r->at == '"' && !(r->at + 1 < r->end && r->at[1] == '"')) {
            r->at++;
            return ES_OK;
        }
        if (*r->at == '"')
            r->at++; /* two quotes are one */
        ES_TRY(append(r, out, used, err));
    }
    return refuse(r, ES_E_FORMAT, "csv.quote", "close the quote on the same line",
                  "a quote is not closed", err);
}

/* One field without quotes and outer spaces; the reader ends at its comma or at the line's end. */
static es_status read_field(reader *r, char out[LONGEST + 1], es_error *err)
{
    int used = 0;
    skip_spaces(r);
    if (r->at < r->end && *r->at == '"') {
        ES_TRY(quoted(r, out, &used, err));
        skip_spaces(r);
        if (!at_line_end(r) && *r->at != ',')
            return refuse(r, ES_E_FORMAT, "csv.quote", "quote the whole field or nothing",
                          "text after a closing quote", err);
    } else {
        for (; !at_line_end(r) && *r->at != ','; r->at++)
            ES_TRY(append(r, out, &used, err));
        while (used > 0 && (out[used - 1] == ' ' || out[used - 1] == '\t'))
            used--;
    }
    out[used] = '\0';
    return ES_OK;
}

/* ---- the table ---- */

/* Reads the names of the columns. A number among them means that the header is missing. */
static es_status read_header(reader *r, es_csv *out, es_error *err)
{
    for (;; r->at++, r->field++) {
        double number;
        if (out->cols == ES_CSV_COLUMNS)
            return refuse(r, ES_E_FORMAT, "csv.columns", "", "there are more than 64 columns", err);
        char *name = out->names[out->cols];
        ES_TRY(read_field(r, name, err));
        if (!*name)
            return refuse(r, ES_E_FORMAT, "csv.header", "the first line names the columns",
                          "a column has no name", err);
        if (es_decimal_read(name, &number))
            return refuse(r, ES_E_FORMAT, "csv.header",
                          "the first line names the columns, e.g. context,loss",
                          "a number where a name should be", err);
        if (es_csv_column(out, name) >= 0)
            return refuse(r, ES_E_FORMAT, "csv.header", "give every column a name of its own",
                          "duplicate column name", err);
        out->cols++;
        if (at_line_end(r))
            return ES_OK;
    }
}

/* Reads one number for each column. */
static es_status read_row(reader *r, const es_csv *out, double *row, es_error *err)
{
    for (int64_t c = 0; c < out->cols; c++, r->field++) {
        char field[LONGEST + 1];
        ES_TRY(read_field(r, field, err));
        if (!es_decimal_read(field, &row[c]) || !isfinite(row[c]))
            return refuse(r, ES_E_FORMAT, "csv.number", "a decimal number such as 4096 or 2.31e-1",
                          *field ? "this is not a finite decimal number" : "the field is empty",
                          err);
        const bool last = c + 1 == out->cols;
        if (last != at_line_end(r))
            return refuse(
                r, ES_E_FORMAT, "csv.fields", "one number for each name of the first line",
                last ? "the line has too many fields" : "the line has too few fields", err);
        r->at += !last; /* the comma */
    }
    return ES_OK;
}

/* Blank lines end the data; anything after them is a mistake. */
static es_status read_rows(reader *r, es_csv *out, int64_t capacity, es_error *err)
{
    bool more = next_line(r), blank = false;
    while (more) {
        skip_spaces(r);
        if (at_line_end(r)) {
            blank = true;
        } else if (blank) {
            return refuse(r, ES_E_FORMAT, "csv.blank", "remove the blank line",
                          "data after a blank line", err);
        } else {
            if (out->rows == capacity) /* cannot be: every row has its line */
                return refuse(r, ES_E_FORMAT, "csv.fields", "", "too many lines", err);
            ES_TRY(read_row(r, out, out->data + out->rows * out->cols, err));
            out->rows++;
        }
        more = next_line(r);
    }
    if (out->rows == 0)
        return refuse(r, ES_E_EMPTY, "csv.rows", "", "no line of numbers", err);
    return ES_OK;
}

/* Counts lines, to allocate all rows at once. */
static int64_t count_lines(const char *text, size_t size)
{
    int64_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Returns whether the first line has a comma. Tables of one column have none. */
static bool has_comma(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    return memchr(text, ',', end ? (size_t)(end - text) : size) != NULL;
}

/* Returns whether an error before the first row means that the file is no table: prose, or a table
 * with another separator. A number in the first line is a header that is missing. */
static bool is_no_table(const char *text, size_t size, const es_csv *table, const es_error *err)
{
    static const char *const rules[] = {"csv.fields", "csv.blank", "csv.number", "csv.rows"};
    bool suspect = false;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        suspect = suspect || strcmp(err->rule, rules[i]) == 0;
    return suspect && table->rows == 0 && size > 0 && !has_comma(text, size);
}

es_status es_csv_parse(const char *text, size_t size, const char *file, es_mem_limit *budget,
                       es_csv *out, es_error *err)
{
    reader r = {.text = text, .end = text + size, .at = text, .file = file, .line = 1, .field = 1};
    *out = (es_csv){.budget = budget};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    const int64_t capacity = count_lines(text, size);
    es_status status = read_header(&r, out, err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(budget, out->data, capacity, out->cols, "table", err);
    if (status == ES_OK)
        status = read_rows(&r, out, capacity, err);
    if (status != ES_OK && err && is_no_table(text, size, out, err)) {
        r = (reader){.text = text, .at = text, .file = file, .line = 1, .field = 1};
        status = refuse(&r, ES_E_FORMAT, "csv.table",
                        "give columns with commas between them and their names in the first line, "
                        "e.g. context,loss",
                        "this is not a CSV table: its first line has no comma", err);
    }
    if (status != ES_OK)
        es_csv_free(out);
    return status;
}

int64_t es_csv_column(const es_csv *table, const char *name)
{
    for (int64_t c = 0; c < table->cols; c++)
        if (strcmp(table->names[c], name) == 0)
            return c;
    return -1;
}

void es_csv_free(es_csv *table)
{
    es_mem_free(table->budget, table->data);
    *table = (es_csv){0};
}

/* ---- the file ---- */

es_status es_csv_load(const char *path, es_mem_limit *budget, es_csv *out, es_error *err)
{
    es_file file;
    char *text = NULL;
    *out = (es_csv){0};
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    if (file.size > ES_CSV_BYTES)
        status = es_fail_file(err, ES_E_LIMIT, path, -1, "csv.size", "a table has up to 64 MiB",
                              "the file has %llu bytes", (unsigned long long)file.size);
    if (status == ES_OK)
        status = ES_MEM_BYTES(budget, text, (size_t)file.size, "text", err);
    if (status == ES_OK)
        status = es_file_read(&file, 0, text, (size_t)file.size, err);
    es_file_close(&file);
    if (status == ES_OK)
        status = es_csv_parse(text, (size_t)file.size, path, budget, out, err);
    es_mem_free(budget, text);
    return status;
}
