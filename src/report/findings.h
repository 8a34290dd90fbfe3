/* findings.h : the result of a run in a sentence or two. The study that made the run wrote them
 * into its file; files of version 0.1 have none. */
#ifndef ES_REPORT_FINDINGS_H
#define ES_REPORT_FINDINGS_H

#include "report/book.h"
#include "report/sink.h"

/* Nothing is written for a run without findings. */
void es_findings_html(es_sink *s, const es_book *book);

#endif
