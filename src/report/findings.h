/* findings.h : the result of a run in a sentence or two, made from its numbers. */
#ifndef ES_REPORT_FINDINGS_H
#define ES_REPORT_FINDINGS_H

#include "report/book.h"
#include "report/sink.h"

/* Nothing is written for a command that we have no sentence for, or without the numbers for it. */
void es_findings_html(es_sink *s, const es_book *book);

#endif
