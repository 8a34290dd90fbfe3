/* table.h : tables and CSV as views of the one answer object.
 *
 * A view names an array of row objects inside the answer (or one object: a record) and the columns
 * to show. For people it prints aligned columns, a line of units and the definitions of what is
 * shown; for programs RFC 4180 CSV with full precision.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include <esscher/format.h>

/* As esscher/format.h says; a real number with an error key is shown as value +- error. */
typedef enum cli_format {
    CLI_TEXT = ES_FORMAT_TEXT,
    CLI_COUNT = ES_FORMAT_COUNT,
    CLI_REAL = ES_FORMAT_REAL,
    CLI_SHORT = ES_FORMAT_SHORT,
    CLI_BINARY = ES_FORMAT_BYTES,
    CLI_DURATION = ES_FORMAT_DURATION
} cli_format;

typedef struct cli_column {
    const char *key;    /* in the row object, with at most one dot; NULL ends a list */
    const char *header; /* for people */
    const char *unit;   /* or "" */
    cli_format format;
    const char *definition; /* for the foot of the table; NULL: the header says it all */
    const char *error;      /* key of the standard error; NULL: none */
    bool hidden;            /* from people; CSV has it */
    const char *each;       /* the value is an array with one element for each element of this
                               array of the answer, whose values end the headers; NULL: a number */
} cli_column;

typedef struct cli_table {
    const char
        *rows; /* key of the answer, with at most one dot: "compare.heads"; "": the answer itself */
    const char *title;
    const cli_column *columns;
    const char *note; /* last lines of the foot; NULL: none */
} cli_table;

/* Does the answer hold the rows of this view? */
bool cli_table_present(const cli_table *table, const json_t *answer);

/* Print for people. Nothing is printed when the answer does not hold the rows. */
void cli_table_print(const cli_table *table, const json_t *answer, FILE *out, bool colour);

/* Print as CSV. Returns false, having printed nothing, when the answer does not hold the rows. */
bool cli_table_csv(const cli_table *table, const json_t *answer, FILE *out);

/* One field of CSV, quoted if it must be. */
void cli_csv_text(FILE *out, const char *text);

#endif
