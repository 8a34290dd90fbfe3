/* page_table.h : a table of a run as HTML for people and as JSON for the figures. */
#ifndef ES_REPORT_PAGE_TABLE_H
#define ES_REPORT_PAGE_TABLE_H

#include "report/book.h"
#include "report/sink.h"

/* The table with its definitions and notes; `id` is unique in the page. One that is too long shows
 * some of its rows and a summary of all. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_page_table_html(es_sink *s, const es_book *book, const es_book_table *t,
                             const char *id, es_error *err);

/* {"id": "run-1-table-1", "rows": 15, "shown": 15, "columns": {"n": [...], ...}}, at most `most`
 * rows; `id` is that of the table for people. */
void es_page_table_json(es_sink *s, const es_run_table *t, const char *id, int64_t most);

/* One row of a table with two columns; the text is escaped. */
void es_page_table_pair(es_sink *s, const char *key, const char *text);

/* Does the table hold claims: statements with a verdict and a conclusion? */
bool es_page_claims_fit(const es_book_table *t);

/* The table of claims as people read them: the verdict, then what was said and what to conclude,
 * with numbers beside the sentences. */
void es_page_claims_html(es_sink *s, const es_book_table *t, const char *id);

#endif
