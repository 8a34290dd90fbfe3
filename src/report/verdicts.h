/* verdicts.h : claims as people read them: the verdict, then what was said and what to conclude. */
#ifndef ES_REPORT_VERDICTS_H
#define ES_REPORT_VERDICTS_H

#include "report/book.h"
#include "report/sink.h"

/* Does the table hold claims: statements with a verdict and a conclusion? */
bool es_verdicts_fit(const es_book_table *t);

/* The table, with sentences in one column and numbers beside them. */
void es_verdicts_html(es_sink *s, const es_book_table *t, const char *id);

/* The badge of row `row`: words first, colour second. What does not hold is bad news only where it
 * was expected to. */
void es_verdict_badge(es_sink *s, const es_run_table *t, int64_t row);

#endif
