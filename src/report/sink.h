/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h : where a page is written to, and the three languages it is written in.
 *
 * Text goes through a buffer into a draft. The first failure is kept and everything after it is
 * dropped, so that a page can be written without a check of every line: es_sink_end() returns it.
 *
 * Whatever came from a run file passes es_sink_text() into HTML or es_sink_json_text() into JSON;
 * es_sink_put() is for what stands in our own source. */
#ifndef ES_REPORT_SINK_H
#define ES_REPORT_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "store/file.h"

/* A buffered writer of a page. After the first failure it drops what follows. */
typedef struct es_sink {
    es_draft draft;
    es_status status;
    es_error *err;
    int64_t written;
    size_t used;
    char buffer[65536];
} es_sink;

es_status es_sink_begin(es_sink *s, const char *path, bool overwrite, es_error *err);

/* Into a file that is open and stays so; `name` is what failures call it. es_sink_flush() at the
 * end instead of es_sink_end(). */
void es_sink_begin_open(es_sink *s, int fd, const char *name, es_error *err);
es_status es_sink_flush(es_sink *s);

/*! es_sink_end() : publish if nothing failed, else leave no trace. @return : the first failure. */
es_status es_sink_end(es_sink *s);

/* For a failure that is not the sink's own: the page will not be published. Returns `status`. */
es_status es_sink_give_up(es_sink *s, es_status status);

void es_sink_bytes(es_sink *s, const void *bytes, size_t size);
void es_sink_put(es_sink *s, const char *markup);
void es_sink_format(es_sink *s, const char *fmt, ...) ES_PRINTF(2, 3);

/* Text of a page or of an attribute. Markup is escaped; control characters, characters that change
 * the direction of writing, and bytes that are no UTF-8 become visible: \u202e, \xff. Text of more
 * than ES_SINK_LONGEST bytes is cut, and the cut is visible. */
enum { ES_SINK_LONGEST = 4000 };
void es_sink_text(es_sink *s, const char *text);

/* A JSON string, quotes included, that is harmless inside <script>: every <, > and &, and the line
 * ends that only JavaScript knows, are escaped. Cut like es_sink_text(). */
void es_sink_json_text(es_sink *s, const char *text);

/* A JSON number: whole ones as they are, others with ES_SINK_DIGITS significant digits, which is
 * more than a figure can show or an error bar leave and half of what a page would weigh with all of
 * them; null for NaN and infinities. */
enum { ES_SINK_DIGITS = 7 };
void es_sink_json_real(es_sink *s, double value);

#endif
