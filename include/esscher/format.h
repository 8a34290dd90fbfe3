/* SPDX-License-Identifier: Apache-2.0 */
/* format.h : numbers and texts as people read them, the same in the terminal and in the report. */
#ifndef ESSCHER_FORMAT_H
#define ESSCHER_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum es_format {
    ES_FORMAT_TEXT = 0,     /* strings, and anything else as it is */
    ES_FORMAT_COUNT = 1,    /* whole numbers */
    ES_FORMAT_REAL = 2,     /* up to six significant digits; with an error: value +- error */
    ES_FORMAT_SHORT = 3,    /* three or four significant digits: errors, ratios, speeds */
    ES_FORMAT_BYTES = 4,    /* as KiB, MiB, GiB */
    ES_FORMAT_DURATION = 5, /* seconds, as minutes and hours when long */
    ES_FORMAT_FLAG = 6      /* yes for what is not 0, no for 0 */
} es_format;

/* A measurement and its standard error. */
typedef struct es_measured {
    double value, se;
} es_measured;

enum { ES_FORMAT_SIZE = 64 }; /* bytes that hold any number, with its end */

/* How every number of one column is written, so that they can be compared at a glance. */
typedef struct es_format_form {
    es_format format;
    bool scientific; /* d.dde+NN in every row; else d.dd in every row */
    int digits;      /* most significant digits of a number that has no error */
    int decimals;    /* most of them behind the point */
} es_format_form;

/*! es_format_choose() : the form of a column. values, errors (rows); errors may be NULL, and what
 *  is not finite does not count. Whole numbers below 1e7 are whole; numbers from 1e-4 to 1e6 have
 *  a point and, if they span less than two decades or need few, the same decimals; if any is
 *  outside, all are scientific. Counts are whole whatever their size. O(rows), pure function.
 *
 *     const es_format_form form = es_format_choose(c.format, c.reals, NULL, rows);
 *     for (int64_t i = 0; i < rows; i++)
 *         puts(es_format_put(form, c.reals[i], NAN, text, sizeof text)); */
ES_API es_format_form es_format_choose(es_format format, const double *values, const double *errors,
                                       int64_t rows);

/*! es_format_put() : `value` in a form into out (size), in UTF-8, cut at its end; "-" if it is not
 *  finite. A finite `error` is written with two digits and the value to the same decimal,
 *  "0.512 ± 0.031" or "(3.36 ± 0.12)e-09", unless the format is short, bytes or duration; NaN:
 *  there is no error. Pure function, thread-safe. Returns out. */
ES_API char *es_format_put(es_format_form form, double value, double error, char *out, size_t size);

/*! es_format_name() : "text", "count", "real", "short", "bytes", "duration", "flag". */
ES_API const char *es_format_name(es_format format);

/*! es_format_parse() : the reverse. @return : true if the name is known. */
ES_API bool es_format_parse(const char *name, es_format *out);

/*! es_escape() : `text` into out (size) so that it can be shown: control characters, bytes that are
 *  no UTF-8 and characters that reverse the direction of writing become \xNN. Cut at `size`; with
 *  4 strlen(text) + 5 bytes nothing is cut. Pure function, thread-safe. Returns out. */
ES_API char *es_escape(const char *text, char *out, size_t size);

/*! es_utf8() : returns whether it is UTF-8 to its end. */
ES_API bool es_utf8(const char *text);

/*! es_json_quote() : `text` as a JSON string into out (size), quotes included; text that is no
 *  UTF-8 is escaped as by es_escape() first. 6 strlen(text) + 16 bytes hold any; else it is cut.
 *  Returns out. */
ES_API char *es_json_quote(const char *text, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
