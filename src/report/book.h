/* book.h : a run as its reader finds it: tables, and what is said about their columns.
 *
 * A run file says in "_columns" how people are shown each column of each table: header, unit,
 * format, definition, and which column is its standard error. Nothing of that is required. A table
 * that nobody described is shown with all its columns under their own names. */
#ifndef ES_REPORT_BOOK_H
#define ES_REPORT_BOOK_H

#include <esscher/format.h>
#include <esscher/run.h>

enum {
    ES_BOOK_TABLES = 96, /* views of one run; more are not shown, and the page says so */
    ES_BOOK_ROWS = 150   /* of a table that people are shown; files and CSV have all */
};

/* A column as people see it. */
typedef struct es_book_column {
    const es_run_column *value;
    const es_run_column *error;                        /* standard error; NULL: none */
    const char *header, *unit, *definition, *standing; /* "": none */
    es_format format;
} es_book_column;

/* A view of a table. A table that was described several times, under several titles, has as many;
 * the first of them owns the data. */
typedef struct es_book_table {
    es_run_table data; /* every row, every column */
    bool owner;
    const char *title, *note;
    es_book_column *columns; /* those that people are shown */
    int64_t shown;           /* how many */
} es_book_table;

typedef struct es_book {
    es_run *run;
    const char *path; /* the caller's string */
    es_run_about about;
    es_run_table findings;        /* "_findings", from the opening on; empty if absent */
    es_run_table columns, answer; /* "_columns", "_answer"; empty if absent */
    es_book_table *tables;
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

/* Lookups, none of which fails: NULL, NaN and "" stand for what is not there. */
const es_run_column *es_book_column_of(const es_run_table *table, const char *key);
double es_book_real(const es_run_table *table, const char *key, int64_t row);
const char *es_book_text(const es_run_table *table, const char *key, int64_t row);
const char *es_book_fact(const es_book *book, int64_t session, const char *key);
const char *es_book_param(const es_book *book, const char *key);

/*! es_book_option() : what was given for an option, "model", or by its letter, 'm' (0: it has
 * none), in the command line that the run keeps: the one number `at` of several, without its
 * folder. Into out (size); "" if there is none. */
const char *es_book_option(const es_book *book, const char *name, char letter, int at, char *out,
                           size_t size);

/* What a run is of, in the order in which a page shows them: numbers of a real model or of
 * somebody's own attention first, because they are what a reader came for; then experiments on
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
