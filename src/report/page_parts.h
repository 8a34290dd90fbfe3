/* SPDX-License-Identifier: Apache-2.0 */
/* page_parts.h : the beginning of a page, and how a run was made. */
#ifndef ES_REPORT_PAGE_PARTS_H
#define ES_REPORT_PAGE_PARTS_H

#include "report/page_run.h"
#include "report/sink.h"

/* Head and first lines: what the page is of, of which model, text, date and seed, and its contents.
 * `title` may be NULL: the page names itself. Books are in the order of the page. */
void es_page_begin(es_sink *s, const es_page_run *page_runs, int64_t count, const char *title,
                   bool figures);

/* What a run is about: its question, which names the model; one sentence; the rest, folded. */
void es_page_title(es_sink *s, const es_page_run *page_run);
void es_page_lede(es_sink *s, const es_page_run *page_run);
void es_page_about(es_sink *s, const es_page_run *page_run);

/* "probe.run · minilm on alice.txt · 2026-11-16 · seed 0" */
void es_page_origin(es_sink *s, const es_page_run *page_run);

/* Writes at most `most` of the findings that stand before the first table (es_answer_leads()), one
 * paragraph each. `fold`: the others and the cautions follow, folded. */
void es_page_findings(es_sink *s, const es_page_run *page_run, int64_t most, bool fold);

/* Parameters, machine and the command to repeat it, folded. @return : as es_run_get_stage(). */
es_status es_page_made(es_sink *s, const es_page_run *page_run, long long number, es_error *err);

#endif
