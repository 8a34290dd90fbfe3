/* format.h : numbers and texts as people read them, the same in the terminal and in the report. */
#ifndef ESSCHER_FORMAT_H
#define ESSCHER_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include <esscher/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum es_format {
    ES_FORMAT_TEXT = 0,     /* strings, and anything else as it is */
    ES_FORMAT_COUNT = 1,    /* whole numbers */
    ES_FORMAT_REAL = 2,     /* six significant digits; with an error: value +- error */
    ES_FORMAT_SHORT = 3,    /* three significant digits: errors, ratios, speeds */
    ES_FORMAT_BYTES = 4,    /* as KiB, MiB, GiB */
    ES_FORMAT_DURATION = 5, /* seconds, as minutes and hours when long */
    ES_FORMAT_FLAG = 6      /* yes for what is not 0, no for 0 */
} es_format;

enum { ES_FORMAT_ROOM = 64 }; /* bytes that hold any number, with its end */

/*! es_format_number() : `value` into out (size), in UTF-8, cut at its end. A finite `error` is
 *  written with two digits and the value to the same decimal, "0.512 ± 0.031", unless the format is
 *  short, bytes or duration; NaN: there is no error. Pure function, thread-safe. Returns out. */
ES_API char *es_format_number(es_format format, double value, double error, char *out, size_t size);

/*! es_format_name() : "text", "count", "real", "short", "bytes", "duration", "flag". */
ES_API const char *es_format_name(es_format format);

/*! es_format_parse() : the reverse. @return : true if the name is known. */
ES_API bool es_format_parse(const char *name, es_format *out);

/*! es_escape() : `text` into out (size) so that it can be shown: control characters, bytes that are
 *  no UTF-8 and characters that reverse the direction of writing become \xNN. Cut at `size`; with
 *  4 strlen(text) + 5 bytes nothing is cut. Pure function, thread-safe. Returns out. */
ES_API char *es_escape(const char *text, char *out, size_t size);

/*! es_utf8() : is it UTF-8, to its end? */
ES_API bool es_utf8(const char *text);

/*! es_json_quote() : `text` as a JSON string into out (size), quotes included; text that is no
 *  UTF-8 is escaped as by es_escape() first. 6 strlen(text) + 16 bytes hold any; else it is cut.
 *  Returns out. */
ES_API char *es_json_quote(const char *text, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
