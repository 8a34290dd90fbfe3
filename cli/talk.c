/* SPDX-License-Identifier: Apache-2.0 */
/* talk.c : prints errors and maps the library's statuses to exit codes. */
#include "talk.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/format.h>

const cli_exit_meaning cli_exits[] = {
    {CLI_OK, "done", NULL},
    {CLI_CHECK, "done, but a check you asked for failed", NULL},
    {CLI_USAGE, "wrong usage", "wrong usage, or an output file that exists"},
    {CLI_INPUT, "invalid input file",
     "an input file is invalid: its format, its shape, or values that it may not hold, such as a "
     "covariance that is not symmetric"},
    {CLI_IO, "file or stdout cannot be read or written", NULL},
    {CLI_LIMIT, "over a limit", "refused: over a limit on memory"},
    {CLI_NUMERIC, "numerical failure",
     "numerical failure: NaN or infinity in the input, numbers too large, or an answer that does "
     "not exist"},
    {CLI_STOPPED, "stopped by SIGTERM",
     "stopped by SIGTERM, for example by a scheduler's time limit. To continue, repeat the command "
     "with --resume if it had --out, or with the same directory if it had --pool-dir. Without "
     "these options nothing was stored"},
    {CLI_HUNG_UP, "by SIGHUP", "stopped because the terminal was closed (SIGHUP)"},
    {CLI_INTERRUPTED, "interrupted", NULL},
    {0, NULL, NULL}};

int cli_exit_of(es_status status)
{
    static const int exits[] = {
        [ES_OK] = CLI_OK,
        [ES_E_ARGUMENT] = CLI_USAGE,
        [ES_E_EXISTS] = CLI_USAGE,
        [ES_E_FORMAT] = CLI_INPUT,
        [ES_E_UNSUPPORTED] = CLI_INPUT,
        [ES_E_SHAPE] = CLI_INPUT,
        [ES_E_EMPTY] = CLI_INPUT,
        [ES_E_IO] = CLI_IO,
        [ES_E_LIMIT] = CLI_LIMIT,
        [ES_E_MEMORY] = CLI_LIMIT,
        [ES_E_NONFINITE] = CLI_NUMERIC,
        [ES_E_RANGE] = CLI_NUMERIC,
        [ES_E_OVERFLOW] = CLI_NUMERIC,
        [ES_E_NUMERIC] = CLI_NUMERIC,
        [ES_E_INTERRUPTED] = CLI_INTERRUPTED,
    };
    return (unsigned)status < sizeof exits / sizeof exits[0] ? exits[status] : CLI_NUMERIC;
}

/* ---- untrusted text ---- */

char *cli_escape(const char *text, char *out, size_t size) { return es_escape(text, out, size); }

char *cli_escape_new(const char *text)
{
    const size_t size = 4 * strlen(text) + 5;
    return cli_escape(text, cli_alloc(size), size);
}

/* ---- failures ---- */

es_status cli_fail(es_error *err, es_status code, const char *file, const char *rule,
                   const char *hint, const char *fmt, ...)
{
    char raw[2 * sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    *err = (es_error){.code = code, .offset = -1, .row = -1, .col = -1};
    cli_escape(file ? file : "", err->file, sizeof err->file);
    cli_escape(rule, err->rule, sizeof err->rule);
    cli_escape(raw, err->message, sizeof err->message);
    cli_escape(hint, err->hint, sizeof err->hint);
    return code;
}

void cli_complain(const char *command, const es_error *err)
{
    char text[4 * sizeof err->message];
    fprintf(stderr, "esscher%s%s: ", command ? " " : "", command ? command : "");
    if (err->file[0])
        fprintf(stderr, "%s: ", cli_escape(err->file, text, sizeof text));
    if (err->offset >= 0)
        fprintf(stderr, "byte %lld: ", (long long)err->offset);
    fprintf(stderr, "%s", cli_escape(err->message, text, sizeof text));
    if (err->rule[0])
        fprintf(stderr, " [rule %s]", err->rule);
    fputc('\n', stderr);
    if (err->hint[0])
        fprintf(stderr, "  hint: %s\n", cli_escape(err->hint, text, sizeof text));
}

/* ---- memory ---- */

void *cli_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory) {
        fprintf(stderr, "esscher: the system refused %zu bytes of memory\n", size);
        exit(CLI_LIMIT);
    }
    return memory;
}

void *cli_alloc_array(size_t count, size_t size)
{
    if (size != 0 && count > PTRDIFF_MAX / size) {
        fprintf(stderr, "esscher: %zu times %zu bytes of memory do not fit any machine\n", count,
                size);
        exit(CLI_LIMIT);
    }
    return cli_alloc(count * size);
}
