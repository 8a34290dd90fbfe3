/* SPDX-License-Identifier: Apache-2.0 */
/* sheet.h : a view of a table as it is put on paper: the rows that were asked for, the columns that
 * fit, and the text of every cell. */
#ifndef ES_TABLE_SHEET_H
#define ES_TABLE_SHEET_H

#include "table/answer.h"

/* Rows of a table in the order in which they are shown. */
typedef struct es_row_list {
    int64_t *at;
    int64_t count;
} es_row_list;

/*! es_choice_rows() : the rows that `opts` ask for, in `arena`: those of the picks, sorted, the
 *  first of them. A table without the column to sort by keeps its order, and all its rows. */
es_status es_choice_rows(const es_table *t, const es_answer_opts *opts, es_arena *arena,
                         es_row_list *out, es_error *err);

/*! es_choice_shows() : returns true if this view of the table is printed. A view for opts->full
 *  only is printed without it, too, if rows were selected by columns that the table has: then it
 *  is about the question that was asked. */
bool es_choice_shows(const es_table *t, const es_table_view *view, const es_answer_opts *opts);

/*! es_choice_sorted_by() : the column of opts->sort; false if this table has none of that key, name
 *  or title. */
bool es_choice_sorted_by(const es_table *t, const es_answer_opts *opts, es_table_column *out);

/*! es_choice_check() : fails unless a table (`only` this one, unless it is NULL) has the column to
 * sort by, and a row for every pick. @return : ES_OK; ES_E_ARGUMENT: answer.sort, answer.rows. */
es_status es_choice_check(const es_answer *a, const es_table *only, const es_answer_opts *opts,
                          es_error *err);

/* A view of a table, ready to print: chosen rows and columns as text, with their widths. */
typedef struct es_sheet {
    const es_table *table;
    const es_table_view *view;
    const es_answer_opts *opts;
    bool markdown;
    bool page; /* for HTML: its writer escapes texts, and shows those that no view has space for */
    es_table_column *columns; /* (count) those that are shown, then (columns_left) those that are
                                 not */
    const char *title;  /* of the view, and (count + columns_left) units: what a run file says */
    const char **units; /* may hold anything, so that both are escaped, like columns[j].title */
    int64_t count, columns_left;
    es_row_list rows;
    int64_t rows_left;
    int *widths;        /* (count) columns of the terminal */
    const char **cells; /* (rows, count + columns_left) */
    int lines;          /* that the longest title takes */
    bool wrapped;       /* the last column holds texts that take several lines */
    es_arena arena;
} es_sheet;

/*! es_sheet_make() : `s` has table, view, opts and markdown set. es_sheet_free() in any case. */
es_status es_sheet_make(es_sheet *s, es_error *err);
void es_sheet_free(es_sheet *s);

/*! es_sheet_cell() : cell j of row i among those shown. */
const char *es_sheet_cell(const es_sheet *s, int64_t i, int64_t j);

/*! es_sheet_error() : the standard error of a column, if it has one. */
bool es_sheet_error(const es_table *t, const es_table_column *c, es_table_column *out);

/*! es_sheet_explained() : the column that the foot of the table explains for column j; NULL if it
 *  has neither definition nor standing, or shares them with the column before it.
 *  es_sheet_has_errors() : returns whether a column shows standard errors. */
const es_column *es_sheet_explained(const es_sheet *s, int64_t j);
bool es_sheet_has_errors(const es_sheet *s);

/*! es_sheet_title() : finds line `at` of the title of column j, which has up to s->lines lines,
 *  aligned at the last. Returns its bytes, from *from on; 0 if the line is empty. */
size_t es_sheet_title(const es_sheet *s, int64_t j, int at, const char **from);

#endif
