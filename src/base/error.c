/* SPDX-License-Identifier: Apache-2.0 */
/* error.c : names of failures, their records, remarks. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *es_status_name(es_status code)
{
    static const char *const names[] = {
        [ES_OK] = "ES_OK",
        [ES_E_ARGUMENT] = "ES_E_ARGUMENT",
        [ES_E_SHAPE] = "ES_E_SHAPE",
        [ES_E_RANGE] = "ES_E_RANGE",
        [ES_E_NONFINITE] = "ES_E_NONFINITE",
        [ES_E_OVERFLOW] = "ES_E_OVERFLOW",
        [ES_E_MEMORY] = "ES_E_MEMORY",
        [ES_E_LIMIT] = "ES_E_LIMIT",
        [ES_E_IO] = "ES_E_IO",
        [ES_E_FORMAT] = "ES_E_FORMAT",
        [ES_E_UNSUPPORTED] = "ES_E_UNSUPPORTED",
        [ES_E_NUMERIC] = "ES_E_NUMERIC",
        [ES_E_INTERRUPTED] = "ES_E_INTERRUPTED",
        [ES_E_EXISTS] = "ES_E_EXISTS",
        [ES_E_EMPTY] = "ES_E_EMPTY",
    };
    const size_t count = sizeof names / sizeof names[0];
    return (unsigned)code < count && names[code] ? names[code] : "ES_E_UNKNOWN";
}

const char *es_version(void) { return ES_VERSION_STRING; }

/* Copies `text` to `out` with \xNN for control characters: untrusted file names and headers must
 * not move the cursor of the terminal. */
static void copy_escaped(char *out, size_t size, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        const int control = *p < 0x20 || *p == 0x7f;
        if (used + (control ? 4 : 1) >= size)
            break;
        if (control) {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = hex[*p >> 4];
            out[used++] = hex[*p & 15];
        } else {
            out[used++] = (char)*p;
        }
    }
    out[used] = '\0';
}

/* Fills an error record. The message is escaped, because it may quote file names and file
 * contents. */
static es_status fill(es_error *err, es_status code, const char *rule, const char *hint,
                      const char *fmt, va_list args)
{
    if (!err)
        return code;
    char raw[sizeof err->message];
    vsnprintf(raw, sizeof raw, fmt, args);
    memset(err, 0, sizeof *err);
    err->code = code;
    err->offset = err->row = err->col = -1;
    copy_escaped(err->message, sizeof err->message, raw);
    copy_escaped(err->rule, sizeof err->rule, rule ? rule : "");
    copy_escaped(err->hint, sizeof err->hint, hint ? hint : "");
    return code;
}

es_status es_fail(es_error *err, es_status code, const char *rule, const char *hint,
                  const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, rule, hint, fmt, args);
    va_end(args);
    return code;
}

es_status es_fail_file(es_error *err, es_status code, const char *file, int64_t offset,
                       const char *rule, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, rule, hint, fmt, args);
    va_end(args);
    if (err) {
        err->offset = offset;
        copy_escaped(err->file, sizeof err->file, file ? file : "");
    }
    return code;
}

es_status es_fail_at(es_error *err, es_status code, int64_t row, int64_t col, const char *rule,
                     const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fill(err, code, rule, hint, fmt, args);
    va_end(args);
    if (err) {
        err->row = row;
        err->col = col;
    }
    return code;
}

/* ---- log messages ---- */

static struct {
    es_log_fn fn;
    void *user;
    es_log_level most;
} listener;

void es_log_set(es_log_fn fn, void *user, es_log_level most)
{
    listener.fn = fn;
    listener.user = user;
    listener.most = most;
}

void es_log(es_log_level level, const char *fmt, ...)
{
    if (!listener.fn || level > listener.most)
        return;
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    listener.fn(listener.user, level, message);
}
