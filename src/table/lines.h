/* SPDX-License-Identifier: Apache-2.0 */
/* lines.h : text on lines of a terminal: what a character takes, where a sentence goes on. */
#ifndef ES_TABLE_LINES_H
#define ES_TABLE_LINES_H

#include "table/answer.h"

/*! es_lines_width() : columns that a text takes on a terminal: none for marks that are put over a
 *  character, two for the wide ones of East Asia. Bytes that are no UTF-8 take one. */
int es_lines_width(const char *text);
/*! es_lines_width_of() : the same of its first `count` bytes, which end with a character. */
int es_lines_width_of(const char *text, size_t count);

/*! es_lines_fit() : bytes of the longest beginning of `text` that takes at most `width` columns. */
size_t es_lines_fit(const char *text, int width);

/*! es_lines_bytes() : the first `count` bytes, as they are. */
void es_lines_bytes(es_writer *writer, const char *text, size_t count);

/*! es_lines_put() : `text` broken at spaces into lines of at most `width` columns (0: any), with
 *  its end. The first has `used` columns already, the others begin with `indent` spaces. A word
 *  that fits no line is broken where it must; a line end in the text stays one. */
void es_lines_put(es_writer *writer, const char *text, int width, int used, int indent);

/*! es_lines_markdown() : `text`, one line, so that Markdown (CommonMark, and GitHub's tables and
 *  strikethrough) shows its characters as they are, at the beginning of a line and in a cell. */
void es_lines_markdown(es_writer *writer, const char *text);

/*! es_lines_marked() : the same of a definition or a note, whose formulas stand between backquotes:
 *  they stay there, as code. es_lines_unmarked() : removes such marks from a text, in place; a
 *  backquote without its partner stays. Returns text. */
void es_lines_marked(es_writer *writer, const char *text);
char *es_lines_unmarked(char *text);

#endif
