/* SPDX-License-Identifier: Apache-2.0 */
/* The answer on stdout: in the form, as wide, and with the rows that were asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <esscher/executor.h>

#include "command.h"
#include "talk.h"

/* Default number of rows of a table in text, and of columns where no terminal defines them. */
enum { MOST_ROWS = 40, PLAIN_WIDTH = 100, LEAST_WIDTH = 20, MOST_WIDTH = 10000 };

/* Writes to stdout; a writer of es_answer_write(). */
static bool to_stdout(void *user, const char *bytes, size_t count)
{
    (void)user;
    return fwrite(bytes, 1, count, stdout) == count;
}

/* Under mpirun each process has a pseudo terminal whose output is forwarded, so that its width
 * means nothing. */
static bool to_terminal(void) { return isatty(STDOUT_FILENO) && !es_launcher_seen().name; }

int cli_paper_width(void)
{
    const char *text = getenv("COLUMNS");
    struct winsize size;
    char *end = NULL;
    const long width = text ? strtol(text, &end, 10) : 0;
    if (width > 0 && *end == '\0')
        return width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : (int)width;
    if (to_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
    return PLAIN_WIDTH;
}

/* What --sort was probably meant to be: the nearest key or title of any column. */
static void hint_sort(const cli_session *s, es_error *err)
{
    enum { MOST = 1024 };
    const char *names[MOST];
    const es_table *t;
    es_table_column c;
    int count = 0;
    for (int64_t i = 0; (t = es_answer_at(s->result, i)); i++)
        for (int64_t j = 0; count + 1 < MOST && es_table_column_at(t, j, &c); j++) {
            names[count++] = c.name;
            names[count++] = c.title;
        }
    const char *key = s->common.sort + (s->common.sort[0] == '-');
    const char *nearest = es_nearest(key, names, count);
    const char *sign = s->common.sort[0] == '-' ? "-" : "";
    if (nearest && strcmp(nearest, key) == 0) /* of CSV, which is one table */
        snprintf(err->hint, sizeof err->hint, "another table has it: --format text");
    else if (nearest)
        snprintf(err->hint, sizeof err->hint, "did you mean %s%s? Rows are as they were", sign,
                 nearest);
    else
        snprintf(err->hint, sizeof err->hint,
                 "the header of --csv lists the keys; rows are as they were");
}

/* Hours of work do not end in a refusal: what cannot be sorted or chosen is printed as it is. */
static void print_anyway(cli_session *s, es_answer_form form, es_answer_opts opts, es_error *err)
{
    if (strcmp(err->rule, "answer.sort") == 0)
        hint_sort(s, err);
    else if (strcmp(err->rule, "answer.rows") == 0)
        snprintf(err->hint, sizeof err->hint, "rows are as they were");
    cli_complain(s->command->name, err);
    s->print_failed = true;
    opts.sort = NULL;
    opts.picks = NULL;
    opts.top = 0;
    (void)es_answer_write(s->result, form, &opts, to_stdout, NULL, err);
}

/* Writes the name of the study's main table: the first word of es_study.csv that the answer has.
 * Returns out, or NULL if it has none. */
static const char *main_table(cli_session *s, char *out, size_t size)
{
    const char *at = s->command->study ? s->command->study->csv : NULL;
    while (at && *at) {
        const size_t length = strcspn(at, " ");
        snprintf(out, size, "%.*s", (int)length, at);
        if (es_answer_find(cli_result(s), out))
            return out;
        at += length + (at[length] == ' ');
    }
    return NULL;
}

void cli_print(cli_session *s)
{
    const es_answer_form form = s->common.json       ? ES_ANSWER_JSON
                                : s->common.csv      ? ES_ANSWER_CSV
                                : s->common.markdown ? ES_ANSWER_MARKDOWN
                                : s->common.latex    ? ES_ANSWER_LATEX
                                                     : ES_ANSWER_TEXT;
    char table[64];
    const es_grid *layers = &s->common.layers, *heads = &s->common.heads;
    es_row_pick picks[3] = {0};
    int count = 0;
    if (layers->count)
        picks[count++] = (es_row_pick){"layer", layers->counts, layers->count};
    if (heads->count)
        picks[count] = (es_row_pick){"head", heads->counts, heads->count};
    const es_answer_opts opts = {.table = main_table(s, table, sizeof table),
                                 .colour = to_terminal() && !getenv("NO_COLOR"),
                                 .full = s->common.full,
                                 .width = cli_paper_width(),
                                 .most_rows = MOST_ROWS,
                                 .rest = "--full or --json",
                                 .picks = picks,
                                 .sort = s->common.sort,
                                 .top = s->common.top};
    es_error err;
    const es_status status = es_answer_write(cli_result(s), form, &opts, to_stdout, NULL, &err);
    /* main() reports what stdout refuses */
    if (status == ES_E_ARGUMENT)
        print_anyway(s, form, opts, &err);
    es_answer_free(s->result);
    s->result = NULL;
    s->printed = true;
}
