/* SPDX-License-Identifier: Apache-2.0 */
/* page_run.h : a run as its page shows it: its answer, and the views of the answer's tables.
 *
 * Tables that the run does not describe are shown with all their columns under their own names. */
#ifndef ES_REPORT_BOOK_H
#define ES_REPORT_BOOK_H

#include <esscher/format.h>
#include <esscher/run.h>
#include <esscher/table.h>

enum {
    ES_PAGE_RUN_TABLES = 96, /* views of one run; more are not shown, and the page says so */
    ES_PAGE_RUN_ROWS = 150   /* of a table that people are shown; files and CSV have all */
};

/* A view of a table: what one table of the page shows. */
typedef struct es_page_run_view {
    const es_table *table;
    es_table_view view;
    bool first; /* of its table */
} es_page_run_view;

/* A run file as a page shows it; its tables are read one run at a time. */
typedef struct es_page_run {
    es_run *run;
    const char *path; /* the caller's string */
    es_run_about about;
    es_answer *answer; /* without tables from the opening on, with them while they are read */
    es_page_run_view *views;
    int64_t count;   /* views that are here */
    int64_t missing; /* views beyond ES_PAGE_RUN_TABLES */
    es_mem_limit *budget;
} es_page_run;

/*! es_page_run_open() : the run and what it found, without its tables. @return : as es_run_open(),
 * naming the file. */
es_status es_page_run_open(es_page_run *page_run, const char *path, es_mem_limit *budget,
                           es_error *err);

/*! es_page_run_read() : all tables, into memory that es_page_run_forget() gives back. O(file). */
es_status es_page_run_read(es_page_run *page_run, es_error *err);
void es_page_run_forget(es_page_run *page_run);

void es_page_run_close(es_page_run *page_run);

/* Lookups, none of which fails: NaN and "" stand for what is not there. */
bool es_page_run_has(const es_table *table, const char *key);
double es_page_run_real(const es_table *table, const char *key, int64_t row);
const char *es_page_run_text(const es_table *table, const char *key, int64_t row);
const char *es_page_run_fact(const es_page_run *page_run, int64_t session, const char *key);
const char *es_page_run_param(const es_page_run *page_run, const char *key);

/*! es_page_run_option() : what was given for an option, "model", or by its letter, 'm' (0: it has
 * none), in the command line that the run keeps: the one number `at` of several, without its
 * folder. Into out (size); "" if there is none. */
const char *es_page_run_option(const es_page_run *page_run, const char *name, char letter, int at,
                               char *out, size_t size);

/* What a run is of, in the order in which a page shows them: numbers of a real model or of
 * the user's own arrays first, because they are what a reader came for; then experiments on
 * synthetic tokens; then the papers' claims; then how far the program itself can be believed. */
typedef enum es_page_run_kind {
    ES_PAGE_RUN_COMPARE = -1, /* two runs side by side: asked for last, looked for first */
    ES_PAGE_RUN_REAL = 0,
    ES_PAGE_RUN_SYNTHETIC = 1,
    ES_PAGE_RUN_CLAIMS = 2,
    ES_PAGE_RUN_SELFCHECK = 3
} es_page_run_kind;
es_page_run_kind es_page_run_kind_of(const es_page_run *page_run);

/* Every how-manieth row of `rows` is taken so that at most `most` are; row i of those is row
 * min(i * stride, rows - 1), so that first and last are among them. */
typedef struct es_page_run_pick {
    int64_t rows, stride, count;
} es_page_run_pick;
es_page_run_pick es_page_run_pick_rows(int64_t rows, int64_t most);
int64_t es_page_run_row(const es_page_run_pick *pick, int64_t i);

#endif
