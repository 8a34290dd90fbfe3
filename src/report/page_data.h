/* SPDX-License-Identifier: Apache-2.0 */
/* page_data.h : the data of a page: for its figures, and for saving a table. */
#ifndef ES_REPORT_PAGE_DATA_H
#define ES_REPORT_PAGE_DATA_H

#include "report/page_run.h"
#include "report/sink.h"

/* A page carries every row and every column of its tables. Only where that is beyond reason rows
 * are left out, and this is the one rule by which:
 *
 *   A page has space for ES_PAGE_VALUES numbers and texts, ten bytes each. Tables take it in the
 * order of the page, each at most half of what is left, so that none starves those after it. One
 * that needs more keeps whole series, the first ones, as many as fit: a curve with every second
 * point would be another curve, one that is missing is seen to be missing. A series are the rows
 * that agree in the table's first columns: in as many of them as leave two rows to a series on
 * average. If not even the first series fits, there is no whole one to keep: rows are taken at
 * equal distances, the first and the last among them. Whatever is left out is said, under each
 * figure. */
enum {
    ES_PAGE_VALUES = 250000,
    ES_PAGE_POINTS = 3000 /* of a series that alone is too long */
};

/* How many numbers a page may still carry for figures. */
typedef struct es_page_scratch {
    int64_t values; /* that a page may still carry */
} es_page_scratch;

/*! es_page_data() : the run's tables as a <script> of JSON:
 *  {"command", "answer": {}, "params": {}, "tables": {"rows": {"id": "run-1-table-1", "rows": 15,
 *  "shown": 15, "left": "", "columns": {"n": [...], ...}}}}; a column whose rows are all alike has
 *  one element. "left" says what of the rows is not there, "" if nothing.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_page_data(es_sink *s, const es_page_run *page_run, long long number,
                       es_page_scratch *scratch, es_error *err);

/* Parts of the same, for figures that are drawn without a page.
 *  es_page_facts() : "command": ..., "answer": {}, "params": {}.
 *  es_page_table() : "rows": {...} as above, with every row; it has no place on a page: "id": "".
 */
void es_page_facts(es_sink *s, const es_page_run *page_run);
void es_page_table(es_sink *s, const es_table *t);

/* "run-1-table-2" */
enum { ES_PAGE_ID = 64 };
void es_page_table_id(char id[ES_PAGE_ID], long long run, int64_t table);

#endif
