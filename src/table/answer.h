/* SPDX-License-Identifier: Apache-2.0 */
/* answer.h : what tables and answers are made of, for the files of this directory. */
#ifndef ES_TABLE_ANSWER_H
#define ES_TABLE_ANSWER_H

#include <esscher/table.h>

#include "base/memory.h"
#include "table/table.h"

/* A column as it is in one table: of the spec, of a label, or the standard error of the one before.
 * A cell is found from the row's first byte: `offset` bytes on, and, of a pointer to one element
 * for each label, `within` bytes into what it points at. */
typedef struct column {
    es_table_column about;
    es_type type; /* of the cell: real, count, int, flag, text or numbers */
    size_t offset;
    bool indirect;
    size_t within;
    bool used;    /* some row has a value; never becomes false again */
    int64_t seen; /* rows that were looked at for that */
} column;

struct es_table {
    es_answer *answer;
    const es_table_spec *spec;
    column *columns;
    int64_t count, columns_capacity;
    char *data;  /* (rows_capacity, row_size) */
    char *blank; /* (row_size) a row in which everything is unset */
    size_t row_size;
    int64_t rows, rows_capacity;
    int64_t hint;    /* where the next key is looked for first */
    uint64_t hidden; /* views that are not shown this time, one bit each */
};

/*! es_cell() : the address of a cell. es_cell_real(), es_cell_text(), es_cell_numbers() : what it
 *  holds; NaN, NULL and NULL where it is unset or holds something else. */
void *es_cell(const es_table *t, const column *c, int64_t row);
double es_cell_real(const es_table *t, const column *c, int64_t row);
const char *es_cell_text(const es_table *t, const column *c, int64_t row);
const es_numbers *es_cell_numbers(const es_table *t, const column *c, int64_t row);

/*! es_column_used() : returns whether the column has a value in some row. Lists do not count: only
 *  JSON and CSV show them. */
bool es_column_used(const es_table *t, int64_t j);

/*! es_column_gather() : the numbers of a column (rows), in `arena`. */
es_status es_column_gather(const es_table_column *c, es_arena *arena, double **out, es_error *err);

/*! es_column_error_key() : the key of a column's standard error, in `buffer` where it is made up;
 *  NULL: it has none. */
const char *es_column_error_key(const es_column *c, char buffer[ES_KEY_SIZE]);

/* A result that stands alone, or a fact. */
typedef enum lone_kind { LONE_REAL, LONE_COUNT, LONE_FLAG, LONE_TEXT, LONE_TEXTS } lone_kind;
/* A result outside the tables: a value, a list or a matrix. */
typedef struct lone {
    const char *key;
    lone_kind kind;
    int rank; /* 0: one value; 1: a list; 2: a matrix */
    int64_t rows, cols;
    double *reals; /* numbers of any kind */
    const char *text;
    const char **texts;
    int64_t after; /* tables that were there before it: JSON keeps the order */
} lone;

/* The results outside the tables, in the order of JSON. */
typedef struct lone_list {
    lone *at;
    int64_t count, capacity;
} lone_list;

/* A file that was read. */
typedef struct input {
    const char *role, *path, *dtype;
    int rank;
    int64_t shape[4];
} input;

/* A text as cells have it, and with its formulas between backquotes. */
typedef struct marked_text {
    const char *plain, *marked;
} marked_text;

struct es_answer {
    es_arena arena;
    es_status status; /* of the first failure */
    es_error err;
    const char *command;
    int64_t seed;
    bool refuted;
    es_table **tables;
    int64_t tables_count, tables_capacity;
    lone_list results, facts;
    input *inputs;
    int64_t inputs_count, inputs_capacity;
    const char **findings;
    int64_t findings_count, findings_capacity;
    marked_text *marked;
    int64_t marked_count, marked_capacity;
    const char *qualifier; /* what findings begin with; NULL: nothing */
    es_table nowhere;      /* takes nothing: what a failure gives */
};

/*! es_answer_grow() : space for one more of `count` elements; false, with the failure kept, if
 * there is none. What was there is copied; the old piece stays in the arena until the end. */
bool es_answer_grow(es_answer *a, void *list, int64_t count, int64_t *buffer, size_t element);

/*! es_lone_text() : a result of one value as text with all digits, which may be in `buffer` (size).
 */
const char *es_lone_text(const lone *l, char *buffer, size_t size);

/*! es_answer_keep() : a copy of a text; NULL, with the failure kept, if there is no memory. */
const char *es_answer_keep(es_answer *a, const char *text);

/*! es_answer_marked() : the text with its formulas marked, if es_answer_plain() was given it; else
 *  the text itself. */
const char *es_answer_marked(const es_answer *a, const char *text);

/*! es_words_at() : where `key` stands among the words of `list`, which have a space between them:
 * the byte it begins at, -1 if it is none of them. */
int64_t es_words_at(const char *list, const char *key);

/*! es_command_word() : takes the next word of a command line that was quoted for a shell into out
 *  (size), and moves *at behind it. @return : false at the end of the line. In run_answer.c. */
bool es_command_word(const char **at, char *out, size_t size);

/*! es_column_shown() : returns whether column j is in the views of this table. */
bool es_column_shown(const es_table *t, int64_t j);

/* A view under way. Bytes are gathered; after the first failure everything is dropped. */
typedef struct es_writer {
    es_write_fn write;
    void *user;
    bool failed;
    size_t used;
    char buffer[8192];
} es_writer;

void es_writer_put(es_writer *writer, const char *text);
void es_writer_char(es_writer *writer, char c);
void es_writer_format(es_writer *writer, const char *fmt, ...) ES_PRINTF(2, 3);
void es_writer_flush(es_writer *writer);

es_status es_answer_text_view(const es_answer *a, bool markdown, const es_answer_opts *opts,
                              es_writer *writer, es_error *err);
void es_answer_json_view(const es_answer *a, es_writer *writer);
void es_json_lone(const lone *l, es_writer *writer);
void es_json_provenance(const es_answer *a, es_writer *writer);
es_status es_answer_latex_view(const es_answer *a, const es_answer_opts *opts, es_writer *writer,
                               es_error *err);
es_status es_answer_csv_view(const es_table *t, const es_answer_opts *opts, es_writer *writer,
                             es_error *err);

/*! es_sentence() : `text` with numbers as sentences have them, in out (capacity): what printf
 * writes as 1.5e+03 is 1500, 1e+12 is 1e12 and 2e-09 is 2e-9; anything else stays as it is. In
 *  sentence.c. */
void es_sentence(const char *text, char *out, size_t capacity);

#endif
