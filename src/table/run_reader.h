/* SPDX-License-Identifier: Apache-2.0 */
/* run_reader.h : what the two files that read an answer from a run file share. */
#ifndef ES_TABLE_RUN_READER_H
#define ES_TABLE_RUN_READER_H

#include <esscher/run.h>

#include "table/answer.h"

/* Columns of "_columns" that hold text; run_table.c has their names. */
// clang-format off
/* What a run file stores about each column: the words of its table _columns. */
typedef enum es_said {
    SAID_TABLE, SAID_TITLE, SAID_NOTE, SAID_KEY, SAID_HEADER, SAID_UNIT, SAID_FORMAT,
    SAID_DEFINITION, SAID_STANDING, SAID_ERROR, SAID_HIDDEN, SAID_ROLE, SAID_MORE, SAID_EACH,
    SAID_LABEL, SAID_MISSING, SAID_COUNT
} es_said;
// clang-format on

/* A run file while its answer is read. */
typedef struct es_run_reader {
    es_run *run;
    es_mem_limit *budget;
    es_answer *answer;
    const char *only;                    /* the table to read; NULL: all */
    es_run_table columns, tables;        /* "_columns", "_tables"; empty if absent */
    const char *const *said[SAID_COUNT]; /* (columns.rows) each; NULL if absent */
    const double *place;                 /* likewise */
} es_run_reader;

/*! es_reader_describe() : reads "_columns" and "_tables", if they are there.
 *  es_reader_list() : the names of the answer's tables, in the order in which the study made them.
 *  es_reader_table() : adds a table to the answer, which describes it as the run does. */
es_status es_reader_describe(es_run_reader *r, es_error *err);
es_status es_reader_list(const es_run_reader *r, char (**out)[256], int64_t *count, es_error *err);
es_status es_reader_table(const es_run_reader *r, const char *name, es_error *err);

/*! es_reader_optional() : reads a table that may be absent; it is then empty. */
es_status es_reader_optional(const es_run_reader *r, const char *name, es_run_table *out,
                             es_error *err);

/*! es_reader_texts(), es_reader_reals() : (rows) of a column; NULL if the table has none of that
 *  name and kind. */
const char *const *es_reader_texts(const es_run_table *t, const char *name);
const double *es_reader_reals(const es_run_table *t, const char *name);

/*! ES_READER_NEW() : ES_ARENA_NEW() in the memory of the answer, which lives as long as its tables.
 */
#define ES_READER_NEW(r, ptr, count, err)                                                          \
    ES_ARENA_NEW(&(r)->answer->arena, ptr, count, "an answer", err)

/*! es_reader_fail() : "the JSON of seed cannot be read": ES_E_FORMAT (run.answer). */
es_status es_reader_fail(es_error *err, const char *what, const char *name);

#endif
