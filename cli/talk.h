/* SPDX-License-Identifier: Apache-2.0 */
/* talk.h : messages of the program on stderr, and its exit codes. */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include <stddef.h>

#include <esscher/status.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_CHECK = 1,   /* completed, but a check the user asked for failed */
    CLI_USAGE = 2,   /* wrong command line */
    CLI_INPUT = 3,   /* an input file is invalid */
    CLI_IO = 4,      /* a file or stdout could not be read or written */
    CLI_LIMIT = 5,   /* refused: over a limit on memory or time */
    CLI_NUMERIC = 6, /* the numbers do not allow an answer */
    CLI_STOPPED = 7, /* by SIGTERM, as from a scheduler's time limit; run files and pool directories
                        can be resumed */
    CLI_HUNG_UP = 129,    /* SIGHUP: the terminal is gone */
    CLI_INTERRUPTED = 130 /* Ctrl-C */
};

/* What they mean, for help and man pages; ends with a NULL text. */
typedef struct cli_exit_meaning {
    int code;
    const char *text, *more; /* in a few words; in a sentence where these are too few, or NULL */
} cli_exit_meaning;
extern const cli_exit_meaning cli_exits[];

/* The one place where the library's statuses become exit codes. */
int cli_exit_of(es_status status);

/* Copy `text` into `out` so that it can be shown: control characters, bytes that are no UTF-8 and
 * characters that reverse the direction of writing become \xNN. Cut at `size`. Returns out. */
char *cli_escape(const char *text, char *out, size_t size);

/* The same into memory of its own, whole; release with free(). */
char *cli_escape_new(const char *text);

/* Fill *err and return `code`, as the library does inside; file may be NULL. */
es_status cli_fail(es_error *err, es_status code, const char *file, const char *rule,
                   const char *hint, const char *fmt, ...) ES_PRINTF(6, 7);

/* "esscher measure: K.npy: byte 12: message [rule ...]" and the hint; command may be NULL. */
void cli_complain(const char *command, const es_error *err);

/* Memory that is there: the program ends with exit code 5 when the system refuses. For small
 * things; what grows with the input is counted before a run starts. */
void *cli_alloc(size_t size);
/* The same for `count` things; also ends the program when the product does not fit. */
void *cli_alloc_array(size_t count, size_t size);

#endif
