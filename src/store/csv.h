/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h : a table of numbers from a text file.
 *
 * The first line names the columns; every other line has one decimal number for each of them,
 * separated by commas. That is all: no missing values, no text, no nan, because a measurement that
 * is silently read as something else is worse than a refusal. Fields may stand in double quotes and
 * have spaces around them, lines may end in CR LF, a byte order mark is skipped, and blank lines at
 * the end are not data. Numbers have a point as their decimal mark whatever the locale.
 *
 *     es_csv table;
 *     if (es_csv_load("loss.csv", NULL, &table, &err) == ES_OK) {
 *         int64_t c = es_csv_column(&table, "context");     -1: there is none
 *         ... table.data[row * table.cols + c] ...
 *         es_csv_free(&table);
 *     }
 *
 * A refusal names the file, the byte, the line in the file (err->row, from 1) and the column
 * (err->col, from 1), and the rule.
 */
#ifndef ES_STORE_CSV_H
#define ES_STORE_CSV_H

#include <stdint.h>

#include <esscher/exec.h>

enum { ES_CSV_COLUMNS = 64, ES_CSV_NAME = 64, ES_CSV_BYTES = 1 << 26 };

/* A CSV file of numbers in memory. */
typedef struct es_csv {
    int64_t rows, cols;
    char names[ES_CSV_COLUMNS][ES_CSV_NAME]; /* names[0 .. cols), all different, not empty */
    double *data;                            /* (rows, cols), all finite; never NULL */
    es_mem_limit *budget;                    /* the memory is counted here */
} es_csv;

/*! es_csv_load() : the whole table; `budget` may be NULL. Release with es_csv_free(); after a
 *  failure *out is empty and may be freed too. O(bytes), files up to 64 MiB. Thread-safe.
 *  @return : ES_OK; ES_E_IO (file.open, file.regular, file.read);
 *   ES_E_FORMAT: csv.header (no names, an empty, repeated or too long one), csv.columns (more than
 *     64), csv.quote, csv.fields (a line with another number of fields), csv.number, csv.blank (an
 *     empty line before the last data), csv.nul, csv.table (no comma in the first line, no row);
 *   ES_E_EMPTY: csv.rows (no line of numbers); ES_E_LIMIT: csv.size, or over the budget;
 *   ES_E_MEMORY. */
es_status es_csv_load(const char *path, es_mem_limit *budget, es_csv *out, es_error *err);

/*! es_csv_column() : the column of this name, -1 if there is none. */
int64_t es_csv_column(const es_csv *table, const char *name);

/*! es_csv_free() : give the memory back; fine on an empty one. */
void es_csv_free(es_csv *table);

#endif
