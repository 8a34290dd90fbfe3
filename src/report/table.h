/* table.h : a table of a run as HTML for people and as JSON for the figures. */
#ifndef ES_REPORT_TABLE_H
#define ES_REPORT_TABLE_H

#include "report/book.h"
#include "report/sink.h"

/* The table with its definitions and notes; `id` is unique in the page. One that is too long shows
 * some of its rows and a summary of all. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_table_html(es_sink *s, const es_book *book, const es_book_table *t, const char *id,
                        es_error *err);

/* {"id": "run-1-table-1", "rows": 15, "shown": 15, "columns": {"n": [...], ...}}, at most `most`
 * rows; `id` is that of the table for people. */
void es_table_json(es_sink *s, const es_run_table *t, const char *id, int64_t most);

/* Minimum, quartiles, maximum and mean of each column of numbers that people are shown, over every
 * row. O(rows log rows) for each. */
es_status es_table_summary(es_sink *s, const es_book *book, const es_book_table *t, const char *id,
                           es_error *err);

/* Put numbers in order of size. */
void es_table_sort(double *values, size_t count);

/* One row of a table with two columns; the text is escaped. */
void es_table_pair(es_sink *s, const char *key, const char *text);

#endif
