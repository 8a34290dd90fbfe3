/* SPDX-License-Identifier: Apache-2.0 */
/* page_table.h : a table of a run as HTML, folded under a line that says how large it is. */
#ifndef ES_REPORT_PAGE_TABLE_H
#define ES_REPORT_PAGE_TABLE_H

#include "report/page_run.h"
#include "report/sink.h"

/* The table, folded, with its definitions and notes; `id` is unique in the page. Of a long one the
 * first ES_PAGE_RUN_ROWS rows are shown, and a summary of all. @return : ES_OK; ES_E_LIMIT,
 * ES_E_MEMORY. */
es_status es_page_table_html(es_sink *s, const es_page_run *page_run, const es_page_run_view *v,
                             const char *id, es_error *err);

/* One row of a table with two columns; the text is escaped. */
void es_page_table_pair(es_sink *s, const char *key, const char *text);

/* The verdict of a row that has one. */
void es_page_badge(es_sink *s, const es_table *t, int64_t row);

/* Returns whether the table holds claims: statements with a verdict and a conclusion. */
bool es_page_claims_fit(const es_table *t);

/* The table of claims as people read them, group by group: a line for the statement, one for what
 * to conclude, which opens on the rest, and numbers beside them; and which texts of the papers were
 * available, from table "papers" of the run. `number` is that of the run. */
void es_page_claims_html(es_sink *s, const es_page_run *page_run, const es_table *t,
                         long long number, const char *id);

#endif
