/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h : JSON written piece by piece, for output that is too long or too irregular for
 * tables. */
#ifndef CLI_JSON_TEXT_H
#define CLI_JSON_TEXT_H

#include <stdio.h>

#include "command.h"

/* A JSON answer under way: it is printed when it is whole, so that a failure leaves none. */
typedef struct cli_json {
    FILE *out; /* into memory */
    char *text;
    size_t size;
    bool first; /* the object being written is still empty */
} cli_json;

/* The beginning of every answer, up to its provenance; results follow as keys of depth 1. */
es_status cli_json_begin(cli_session *session, cli_json *json, es_error *err);

/* Print it if `status` is ES_OK; free it in any case. Returns `status`. */
es_status cli_json_end(cli_json *json, es_status status);

/* A string, quotes included; what cannot be shown is escaped as everywhere else. */
void cli_json_text(FILE *out, const char *text);

/* "key": , after a comma unless it is the *first, on a line of its own. */
void cli_json_key(FILE *out, const char *key, bool *first, int depth);

/* A number with all its digits; null for NaN and infinities. */
void cli_json_real(FILE *out, double value);

#endif
