/* mathml.h : sentences whose formulas are written for a terminal, with the formulas set.
 *
 * Studies say what they found, and define their columns, in plain text: "falls like n^-0.512",
 * "C(R) grows at most like e^(R^2 |S^1/2 A|^2)". A page can do better. What looks like a formula is
 * parsed and becomes MathML; what does not parse stays the text it is, so that nothing is lost.
 *
 * Formulas are made of numbers (1e-05 is a power of ten), single letters, names of Greek letters,
 * a few functions, + - / and juxtaposition, relations (= <= >= < > ~ ->), brackets ( ) | | < >,
 * powers x^2 x^-a x^(a+b) x^1/2, indices x_n x_{d/2}, primes, and sqrt(x). Words are part of a
 * formula only inside brackets that follow a name: E|tangential part|^2. */
#ifndef ES_REPORT_MATHML_H
#define ES_REPORT_MATHML_H

#include "report/sink.h"

enum { ES_MATHML_ROOM = 4096 }; /* a formula that needs more stays text */

/*! es_mathml_parse() : the formula that `text` begins with, as the inside of <math><mrow>, into
 *  out (ES_MATHML_ROOM); a long one ends and begins that element again where a line may end.
 * @return : how many bytes of the text it takes; 0: none begins here. */
size_t es_mathml_parse(const char *text, char out[ES_MATHML_ROOM]);

/*! es_mathml_text() : a text as HTML, its formulas as <math>, the rest escaped as by
 *  es_sink_text(); +-, <=, >= and -> outside formulas become single signs. */
void es_mathml_text(es_sink *s, const char *text);

#endif
