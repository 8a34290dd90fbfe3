/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.c : JSON written piece by piece, into memory first, so that a failed command prints
 * no half of an object. */
#include "json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

void cli_json_text(FILE *out, const char *text)
{
    const size_t size = 6 * strlen(text) + 16;
    char *buffer = cli_alloc(size);
    fputs(es_json_quote(text, buffer, size), out);
    free(buffer);
}

void cli_json_key(FILE *out, const char *key, bool *first, int depth)
{
    fprintf(out, "%s\n%*s", *first ? "" : ",", 2 * depth, "");
    *first = false;
    cli_json_text(out, key);
    fputs(": ", out);
}

void cli_json_real(FILE *out, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    if (!isfinite(value))
        fputs("null", out);
    else
        fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Writes to a stream in memory; a writer of es_answer_write(). */
static bool to_memory(void *user, const char *bytes, size_t count)
{
    return fwrite(bytes, 1, count, user) == count;
}

es_status cli_json_begin(cli_session *session, cli_json *json, es_error *err)
{
    *json = (cli_json){0};
    session->printed = true;
    json->out = open_memstream(&json->text, &json->size);
    if (!json->out)
        return cli_fail(err, ES_E_MEMORY, NULL, "json.memory", "",
                        "out of memory for the JSON output");
    const es_status status =
        es_answer_write(cli_result(session), ES_ANSWER_JSON, NULL, to_memory, json->out, err);
    fflush(json->out);
    char *end = status == ES_OK ? strrchr(json->text, '}') : NULL;
    if (end) /* of the whole object, which goes on */
        fseek(json->out, (long)(end - 1 - json->text), SEEK_SET);
    return status;
}

es_status cli_json_end(cli_json *json, es_status status)
{
    if (!json->out)
        return status;
    fputs("\n}\n", json->out);
    fclose(json->out);
    if (status == ES_OK)
        fwrite(json->text, 1, json->size, stdout);
    free(json->text);
    return status;
}
