/* SPDX-License-Identifier: Apache-2.0 */
/* error.h : filling an es_error, in one line at the place of failure; remarks of the library. */
#ifndef ES_BASE_ERROR_H
#define ES_BASE_ERROR_H

#include <esscher/exec.h>
#include <esscher/status.h>

/*! es_fail() : fill *err (when not NULL) and return `code`, so that a failure reads
 *      return es_fail(err, ES_E_SHAPE, "attend.dim", "use the same d", "q has %d columns, k %d", a,
 * b); Control characters that input brought into the message are escaped. */
es_status es_fail(es_error *err, es_status code, const char *rule, const char *hint,
                  const char *fmt, ...) ES_PRINTF(5, 6);

/*! es_fail_file() : the same, naming the file and the byte offset (-1: none). */
es_status es_fail_file(es_error *err, es_status code, const char *file, int64_t offset,
                       const char *rule, const char *hint, const char *fmt, ...) ES_PRINTF(7, 8);

/*! es_fail_at() : the same, naming a position in a matrix. */
es_status es_fail_at(es_error *err, es_status code, int64_t row, int64_t col, const char *rule,
                     const char *hint, const char *fmt, ...) ES_PRINTF(7, 8);

/* Hand a failure of a callee to our own caller unchanged. */
#define ES_TRY(call)                                                                               \
    do {                                                                                           \
        const es_status es_try_status_ = (call);                                                   \
        if (es_try_status_ != ES_OK)                                                               \
            return es_try_status_;                                                                 \
    } while (0)

/*! es_log() : sends a message to the function that es_log_set() has set. */
void es_log(es_log_level level, const char *fmt, ...) ES_PRINTF(2, 3);

#endif
