/* SPDX-License-Identifier: Apache-2.0 */
/* status.h : how every function of Esscher reports failure.
 *
 * A function that can fail returns an es_status and takes an optional es_error as its last
 * argument. The status is a stable number that programs may switch on; the record says, for people,
 * what happened, where, which rule was broken and what to do about it. The library never prints,
 * exits or aborts on input: what to do with a failure is the caller's decision.
 *
 *     es_error err;
 *     if (es_npy_load("K.npy", NULL, &array, &err) != ES_OK)
 *         fprintf(stderr, "%s: %s (%s)\n", err.file, err.message, err.hint);
 */
#ifndef ESSCHER_STATUS_H
#define ESSCHER_STATUS_H

#include <stdint.h>

#include <esscher/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are part of the ABI: new codes are added at the end, none is ever renumbered. */
typedef enum es_status {
    ES_OK = 0,
    ES_E_ARGUMENT = 1,     /* a call or option that makes no sense whatever the data */
    ES_E_SHAPE = 2,        /* shapes that do not fit together */
    ES_E_RANGE = 3,        /* a number outside the interval in which the operation is defined */
    ES_E_NONFINITE = 4,    /* NaN or Inf in the input */
    ES_E_OVERFLOW = 5,     /* the result or a size would not fit its type */
    ES_E_MEMORY = 6,       /* the system refused memory */
    ES_E_LIMIT = 7,        /* refused: over a resource limit the caller has set */
    ES_E_IO = 8,           /* open, read, write or rename failed */
    ES_E_FORMAT = 9,       /* the file breaks a rule of its format */
    ES_E_UNSUPPORTED = 10, /* well formed, but not something this build can do */
    ES_E_NUMERIC = 11,     /* not positive definite, no convergence, ... */
    ES_E_INTERRUPTED = 12, /* the caller's progress callback asked to stop */
    ES_E_EXISTS = 13,      /* an output file is there already */
    ES_E_EMPTY = 14        /* nothing to work on: no tokens, every key masked */
} es_status;

/* Everything known about one failure. Strings are always terminated; empty means "does not apply".
 */
typedef struct es_error {
    es_status code;
    int64_t offset;    /* byte offset in file, or -1 */
    int64_t row, col;  /* position in a matrix, or -1 */
    char file[256];    /* file the failure is about */
    char rule[48];     /* short stable name of the rule broken, e.g. "npy.header.shape" */
    char message[320]; /* what happened, one sentence, control characters escaped */
    char hint[256];    /* what to do about it */
} es_error;

/*! es_status_name() : "ES_E_SHAPE" for ES_E_SHAPE; "ES_E_UNKNOWN" for a number that is no status.
 *  Pure function, thread-safe. */
ES_API const char *es_status_name(es_status code);

/*! es_version() : version of the library that was loaded, which may differ from ES_VERSION_STRING.
 */
ES_API const char *es_version(void);

#ifdef __cplusplus
}
#endif
#endif
