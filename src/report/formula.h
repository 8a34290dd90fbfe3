/* SPDX-License-Identifier: Apache-2.0 */
/* formula.h : texts whose formulas are marked, as HTML.
 *
 * Definitions and notes mark their formulas with backquotes: "error ~ `n^-rate`". The terminal
 * drops the marks, Markdown keeps them, and a page sets what is between them. */
#ifndef ES_REPORT_FORMULA_H
#define ES_REPORT_FORMULA_H

#include "report/sink.h"

/*! es_formula_html() : writes a text as HTML. Between backquotes single letters are italic, names
 *  of Greek letters become letters, `^` and `_` raise and lower what follows (a number, a name, or
 *  a bracket), and <=, >=, ->, +- become signs; words alone are code. The rest is escaped as by
 *  es_sink_text(), with the same signs where they stand alone. A backquote without its partner
 *  stays one. O(length). */
void es_formula_html(es_sink *s, const char *text);

#endif
