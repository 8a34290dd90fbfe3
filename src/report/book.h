/* SPDX-License-Identifier: Apache-2.0 */
/* book.h : a run as its page shows it: its answer, and the views of the answer's tables.
 *
 * Tables that the run does not describe are shown with all their columns under their own names. */
#ifndef ES_REPORT_BOOK_H
#define ES_REPORT_BOOK_H

#include <esscher/format.h>
#include <esscher/run.h>
#include <esscher/table.h>

enum {
    ES_BOOK_TABLES = 96, /* views of one run; more are not shown, and the page says so */
    ES_BOOK_ROWS = 150   /* of a table that people are shown; files and CSV have all */
};

/* A view of a table: what one table of the page shows. */
typedef struct es_book_view {
    const es_table *table;
    es_table_view view;
    bool first; /* of its table */
} es_book_view;

/* A run file as a page shows it; its tables are read one run at a time. */
typedef struct es_book {
    es_run *run;
    const char *path; /* the caller's string */
    es_run_about about;
    es_answer *answer; /* without tables from the opening on, with them while they are read */
    es_book_view *views;
    int64_t count;   /* views that are here */
    int64_t missing; /* views beyond ES_BOOK_TABLES */
    es_mem_limit *budget;
} es_book;

/*! es_book_open() : the run and what it found, without its tables. @return : as es_run_open(),
 * naming the file. */
es_status es_book_open(es_book *book, const char *path, es_mem_limit *budget, es_error *err);

/*! es_book_read() : all tables, into memory that es_book_forget() gives back. O(file). */
es_status es_book_read(es_book *book, es_error *err);
void es_book_forget(es_book *book);

void es_book_close(es_book *book);

/* Lookups, none of which fails: NaN and "" stand for what is not there. */
bool es_book_has(const es_table *table, const char *key);
double es_book_real(const es_table *table, const char *key, int64_t row);
const char *es_book_text(const es_table *table, const char *key, int64_t row);
const char *es_book_fact(const es_book *book, int64_t session, const char *key);
const char *es_book_param(const es_book *book, const char *key);

/*! es_book_option() : what was given for an option, "model", or by its letter, 'm' (0: it has
 * none), in the command line that the run keeps: the one number `at` of several, without its
 * folder. Into out (size); "" if there is none. */
const char *es_book_option(const es_book *book, const char *name, char letter, int at, char *out,
                           size_t size);

/* What a run is of, in the order in which a page shows them: numbers of a real model or of
 * the user's own arrays first, because they are what a reader came for; then experiments on
 * synthetic tokens; then the papers' claims; then how far the program itself can be believed. */
typedef enum es_book_kind {
    ES_BOOK_COMPARE = -1, /* two runs side by side: asked for last, looked for first */
    ES_BOOK_REAL = 0,
    ES_BOOK_SYNTHETIC = 1,
    ES_BOOK_CLAIMS = 2,
    ES_BOOK_SELFCHECK = 3
} es_book_kind;
es_book_kind es_book_kind_of(const es_book *book);

/* Every how-manieth row of `rows` is taken so that at most `most` are; row i of those is row
 * min(i * stride, rows - 1), so that first and last are among them. */
typedef struct es_book_pick {
    int64_t rows, stride, count;
} es_book_pick;
es_book_pick es_book_pick_rows(int64_t rows, int64_t most);
int64_t es_book_row(const es_book_pick *pick, int64_t i);

#endif
