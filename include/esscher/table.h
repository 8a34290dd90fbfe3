/* SPDX-License-Identifier: Apache-2.0 */
/* table.h : answers: tables of typed rows, single results and findings.
 *
 * Text, Markdown, LaTeX, CSV, JSON, run files, pages and figures are views of an answer. Nothing is
 * computed from a view.
 *
 * A row is a struct. Its columns are described once, beside it: ES_COL() takes key, type and offset
 * from the member, so a misspelt column or one of a wrong type does not compile.
 *
 *     typedef struct rate_row {
 *         double scale;
 *         es_measured rate; // value and standard error: columns "rate" and "rate_se"
 *         const char *flag;
 *     } rate_row;
 *
 *     static const es_column rate_columns[] = {
 *         ES_COL(rate_row, scale, ES_FORMAT_SHORT, "scale", "", "factor on the scores"),
 *         ES_COL(rate_row, rate, ES_FORMAT_REAL, "rate", "", "the error falls like n^-rate"),
 *         ES_COL(rate_row, flag, ES_FORMAT_TEXT, "flag", ""),
 *         {0}};
 *     static const es_table_view views[] = {{"Rates", "scale rate"}, {0}};
 *     static const es_table_spec rates = {"fits", rate_columns, views, ES_ROW(rate_row)};
 *
 *     es_table *t = es_answer_table(answer, &rates);
 *     rate_row *r = es_rows_add(t, rate_row);
 *     if (!r)
 *         return es_answer_status(answer, err);
 *     r->rate = es_fit_rate(...);
 *
 * Members that are never assigned are unset. A column that is unset in every row is in no view;
 * one that is NaN is shown as missing. Tables whose columns are known only at run time (run files,
 * other languages) are filled by key instead: es_table_real() and its neighbours.
 *
 * CSV, JSON and run files hold every column; a *view* is the part that people are shown. Specs are
 * constants and outlive every table made of them.
 *
 * A dot in a key nests: "predicted.rate" is member "rate" of an object "predicted" in JSON, and
 * "rate_ci.0", "rate_ci.1" are the elements of an array. CSV and run files keep the key as it is.
 *
 * An answer belongs to one thread at a time.
 */
#ifndef ESSCHER_TABLE_H
#define ESSCHER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/format.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a table is ---- */

/* How far a number that theory says may be trusted, as docs/THEORY.md marks it; what was measured
 * has no standing. Numbers never change. */
typedef enum es_standing {
    ES_STANDING_NONE = 0,
    ES_STANDING_PROVED = 1,    /* [P]: follows from the model by a proof, and is computed as exactly
                                  as it is printed; of a bound or a limit: that it is one */
    ES_STANDING_HEURISTIC = 2, /* [H]: a large-deviation, scaling or leading-order argument */
    ES_STANDING_NUMERICAL = 3, /* [N]: seen in simulations or tables; not derived */
    ES_STANDING_CITED = 4      /* [A] to [D]: a paper states it; it is not proved again here */
} es_standing;

/*! es_standing_name() : "proved", "heuristic", "numerical", "cited"; "" of none. */
ES_API const char *es_standing_name(es_standing standing);

/* A list (rows = 0) or a matrix of numbers as one cell: es_table_numbers() makes one. */
typedef struct es_numbers {
    const double *values; /* (cols) or (rows, cols); NULL: no list */
    int64_t rows, cols;
} es_numbers;

/* The type of a row's member. ES_COL() finds it; columns that are filled by key have none. */
typedef enum es_type {
    ES_TYPE_NONE = 0,
    ES_TYPE_REAL = 1,      /* double */
    ES_TYPE_COUNT = 2,     /* int64_t */
    ES_TYPE_INT = 3,       /* int */
    ES_TYPE_FLAG = 4,      /* bool, which is never unset */
    ES_TYPE_TEXT = 5,      /* const char *, that outlives the answer: es_table_format() */
    ES_TYPE_MEASURED = 6,  /* es_measured: a column, and its error under KEY_se */
    ES_TYPE_NUMBERS = 7,   /* es_numbers: for JSON and CSV alone */
    ES_TYPE_REALS = 8,     /* double *: one number for each label of es_table_each() */
    ES_TYPE_MEASUREDS = 9, /* es_measured *: likewise, with their errors */
    ES_TYPE_TEXTS = 10     /* const char **: likewise */
} es_type;

/* What counts and ints hold that were never assigned. An unset real is a NaN of its own, which a
 * computation does not give; an unset text is NULL. */
#define ES_UNSET_COUNT INT64_MIN
#define ES_UNSET_INT   INT32_MIN

typedef struct es_column {
    const char *key;        /* for programs; NULL ends a list */
    const char *title;      /* for people */
    const char *unit;       /* or "" */
    es_format format;       /* text is text; counts are whole numbers in JSON */
    const char *definition; /* for the foot of a table; NULL: the title says it all. Formulas stand
                               between backquotes: "error of `1/(2(1+H^2))`" */
    const char *error;      /* key of the standard error, a column by itself that need not be in
                               the list; NULL: none, or KEY_se of a measured member */
    bool each;              /* one column for each label given to es_table_each() */
    bool array;             /* a cell is a list or a matrix of numbers: for JSON and CSV alone */
    es_standing standing;   /* of what theory says; every view but CSV shows it */
    es_type type;           /* of the member; ES_TYPE_NONE: filled by key */
    size_t offset;          /* of the member in its row */
    int64_t inline_count;   /* of a member that is an array with one element for each label: its
                               length; 0: a pointer, which es_rows_add() sets */
} es_column;

#define ES_TYPE_OF_(pointer)                                                                       \
    _Generic((pointer), double *                                                                   \
             : ES_TYPE_REAL, int64_t *                                                             \
             : ES_TYPE_COUNT, int *                                                                \
             : ES_TYPE_INT, bool *                                                                 \
             : ES_TYPE_FLAG, const char **                                                         \
             : ES_TYPE_TEXT, es_measured *                                                         \
             : ES_TYPE_MEASURED, es_numbers *                                                      \
             : ES_TYPE_NUMBERS, double **                                                          \
             : ES_TYPE_REALS, es_measured **                                                       \
             : ES_TYPE_MEASUREDS, const char ***                                                   \
             : ES_TYPE_TEXTS)
#define ES_IS_EACH_(pointer)                                                                       \
    _Generic((pointer), double **                                                                  \
             : true, es_measured **                                                                \
             : true, const char ***                                                                \
             : true, default                                                                       \
             : false)
#define ES_IS_ARRAY_(pointer) _Generic((pointer), es_numbers * : true, default : false)

/* ES_COL(row type, member, format, title, unit, definition, .standing = ...) : a column whose key
 * is the member's name, nested members with their dots. What follows the unit may be left out.
 * ES_COL_KEY() : the same under another key. ES_COL_LIST() : a member that is an array of double,
 * es_measured or const char *, one element for each label of es_table_each(). */
#define ES_COL(row, member, format_, title_, unit_, ...)                                           \
    ES_COL_KEY(row, member, #member, format_, title_, unit_, __VA_ARGS__)
#define ES_COL_KEY(row, member, key_, format_, title_, unit_, ...)                                 \
    {                                                                                              \
        .type = ES_TYPE_OF_(&((row *)0)->member), .offset = offsetof(row, member),                 \
        .each = ES_IS_EACH_(&((row *)0)->member), .array = ES_IS_ARRAY_(&((row *)0)->member),      \
        .key = key_, .title = title_, .unit = unit_, .format = format_, __VA_ARGS__                \
    }
#define ES_COL_LIST(row, member, format_, title_, unit_, ...)                                      \
    {                                                                                              \
        .type = ES_TYPE_OF_(&((row *)0)->member[0]), .offset = offsetof(row, member),              \
        .each = true,                                                                              \
        .inline_count = (int64_t)(sizeof((row *)0)->member / sizeof((row *)0)->member[0]),         \
        .key = #member, .title = title_, .unit = unit_, .format = format_, __VA_ARGS__             \
    }

/* What people are shown of a table at a time. */
typedef struct es_table_view {
    const char *title;   /* NULL ends a list */
    const char *columns; /* keys with a space between them, what matters most first: a narrow
                            terminal drops from the right; NULL: all */
    const char *note;    /* last lines of the foot, formulas as in definitions; NULL: none */
    bool only_with_full; /* people see it only when they ask for everything */
} es_table_view;

typedef struct es_table_spec {
    const char *key;            /* name of the table; rows are the array of that name in JSON */
    const es_column *columns;   /* ends with a key that is NULL */
    const es_table_view *views; /* ends with a title that is NULL; NULL: no view for people */
    size_t row;                 /* bytes of a row's struct, ES_ROW(); 0: rows are filled by key */
    bool record;                /* one row at most: an object in JSON, a list for people */
    /* Rows also stand in JSON inside those rows of table `inside` that agree with them in the
     * columns `link` (keys with a space between them; NULL: in all), as an array `nested`. */
    const char *inside, *link, *nested;
    bool only_inside; /* and not at the top level */
    /* Keys of the columns that identify a row, with a space between them; the other columns hold
     * results. NULL: rows are identified by their number. */
    const char *keys;
} es_table_spec;

/* The struct that rows of a table are, in its spec. */
#define ES_ROW(type) .row = sizeof(type)

typedef struct es_table es_table;
typedef struct es_answer es_answer;

/* ---- an answer ---- */

/*! es_answer_new(), es_answer_free() : an empty answer; memory is counted in `budget` (may be
 * NULL), which must outlive it. NULL may be freed. @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_answer_new(es_mem_limit *budget, es_answer **out, es_error *err);
ES_API void es_answer_free(es_answer *answer);

/*! es_answer_status() : whether all that was put is stored. @return : ES_OK, or the first failure:
 *  ES_E_MEMORY, ES_E_LIMIT, or ES_E_ARGUMENT (table.column) for a key that a spec does not have. */
ES_API es_status es_answer_status(const es_answer *answer, es_error *err);

/*! es_answer_table() : the table of that spec, made empty if it is new. Belongs to the answer;
 * never NULL: after a failure it is a table that takes nothing. */
ES_API es_table *es_answer_table(es_answer *answer, const es_table_spec *spec);

/*! es_answer_find() : a table by its key; NULL if there is none. es_answer_at() : by its number, in
 *  the order in which they were made; NULL beyond the last. */
ES_API const es_table *es_answer_find(const es_answer *answer, const char *key);
ES_API const es_table *es_answer_at(const es_answer *answer, int64_t at);

/*! Results that stand alone, by key; a second value replaces the first. Texts and numbers are
 *  copied. NaN is null in JSON. */
ES_API void es_answer_real(es_answer *answer, const char *key, double value);
ES_API void es_answer_count(es_answer *answer, const char *key, int64_t value);
ES_API void es_answer_flag(es_answer *answer, const char *key, bool value);
ES_API void es_answer_text(es_answer *answer, const char *key, const char *text);
ES_API void es_answer_reals(es_answer *answer, const char *key, const double *values, int64_t n);
ES_API void es_answer_counts(es_answer *answer, const char *key, const int64_t *values, int64_t n);

/*! es_answer_provenance() : adds program, machine or settings under "provenance" in JSON. The
 *  others do so with a whole number or a list of texts. */
ES_API void es_answer_provenance(es_answer *answer, const char *key, const char *text);
ES_API void es_answer_provenance_count(es_answer *answer, const char *key, int64_t value);
ES_API void es_answer_provenance_list(es_answer *answer, const char *key, const char *const *texts,
                                      int64_t n);

/*! es_answer_add_finding() : a finding: one sentence with its numbers and their uncertainty, plain
 * text of any length. Numbers that printf writes as 1.5e+03, 1e+12 or 2e-09 become 1500, 1e12 and
 * 2e-9. es_answer_finding() : sentence `at`, NULL beyond the last. */
ES_API void es_answer_add_finding(es_answer *answer, const char *fmt, ...) ES_PRINTF(2, 3);
ES_API const char *es_answer_finding(const es_answer *answer, int64_t at);

/*! es_answer_name() : whose answer it is, and the seed (negative: none was used). */
ES_API void es_answer_name(es_answer *answer, const char *command, int64_t seed);

/*! es_answer_fail_check() : records that a check of the user failed; es_answer_check_failed()
 *  returns it. */
ES_API void es_answer_fail_check(es_answer *answer);
ES_API bool es_answer_check_failed(const es_answer *answer);

/* ---- filling a table of typed rows ---- */

/*! es_rows_add() : adds a row of the given type to a table whose spec has that row, and returns it
 *  with all members unset and those that no column describes zero. The pointer is valid until the
 *  next row is added. NULL after a failure, which es_answer_status() reports: no memory, or a type
 *  that is not the table's. */
#define es_rows_add(table, type) ((type *)es_table_add_row((table), sizeof(type)))
ES_API void *es_table_add_row(es_table *table, size_t size);

/*! es_rows() : the rows of a table, an array of es_table_rows() structs; valid like the last of
 *  them. */
#define es_rows(table, type) ((type *)es_table_row_array((table), sizeof(type)))
ES_API void *es_table_row_array(const es_table *table, size_t size);

/*! es_table_format() : a formatted text that lives as long as the answer; "" after a failure.
 *  es_table_numbers() : a copy of a list of `cols` numbers (rows = 0) or a matrix (rows, cols) that
 *  lives as long as the answer. NaN is null. */
ES_API const char *es_table_format(es_table *table, const char *fmt, ...) ES_PRINTF(2, 3);
ES_API es_numbers es_table_numbers(es_table *table, const double *values, int64_t rows,
                                   int64_t cols);

/* ---- filling a table by key ---- */

/*! es_table_row() : one more row, empty. @return : its number. */
ES_API int64_t es_table_row(es_table *table);

/*! es_table_real(), ... : sets the value of a column in a row, of typed rows too. A NULL text is no
 *  text: the cell stays empty, and JSON has no such member. A key that the spec does not have is a
 *  failure, which es_answer_status() reports. */
ES_API void es_table_real(es_table *table, int64_t row, const char *key, double value);
ES_API void es_table_count(es_table *table, int64_t row, const char *key, int64_t value);
ES_API void es_table_text(es_table *table, int64_t row, const char *key, const char *text);

/* ---- both ---- */

/*! es_table_each() : the columns that a spec's column with `each` stands for, one for each label.
 *  Call it once per key, before the first row; the errors of the columns come with them. Their keys
 *  are KEY.0, KEY.1, ...: an array in JSON. CSV calls them KEY_LABEL. */
ES_API void es_table_each(es_table *table, const char *key, const char *const *labels, int64_t n);

/*! es_table_show() : only the views of `titles` (NULL-ended) are for people this time; NULL: none.
 *  Files hold the table whatever is shown. */
ES_API void es_table_show(es_table *table, const char *const *titles);

/* ---- reading one ---- */

ES_API const es_table_spec *es_table_about(const es_table *table);
ES_API int64_t es_table_rows(const es_table *table);

/* A column as it is here: one of the spec, one that stands for a label, or a standard error. */
typedef struct es_table_column {
    const char *key;       /* as in run files */
    const char *name;      /* as in CSV */
    const char *title;     /* with its label */
    const es_column *spec; /* of a standard error: that of the column it belongs to */
    es_format format;
    bool is_error;         /* of the column before it */
    const char *error;     /* key of the column that is its standard error; NULL: it has none */
    const es_table *table; /* for es_column_real() and es_column_text() */
    int64_t at;
} es_table_column;

/*! es_table_column_at() : column `at` among those that were given a value. @return : false beyond
 *  the last. es_table_columns() : how many there are. es_table_find() : the column of a key.
 * @return : false if there is none. */
ES_API bool es_table_column_at(const es_table *table, int64_t at, es_table_column *out);
ES_API int64_t es_table_columns(const es_table *table);
ES_API bool es_table_find(const es_table *table, const char *key, es_table_column *out);

/*! es_column_real() : returns the number in a row of a column of numbers; NaN if the row has none,
 *  or if the column holds texts. es_column_text() : returns the text in a row of a column whose
 *  format is ES_FORMAT_TEXT; NULL if the row has none, or if the column holds numbers. `row` is
 *  from 0 to es_table_rows() - 1. O(1), pure functions; the text belongs to the answer. */
ES_API double es_column_real(const es_table_column *column, int64_t row);
ES_API const char *es_column_text(const es_table_column *column, int64_t row);

/*! es_column_reals() : copies the numbers of the first `rows` rows into out (rows), as
 *  es_column_real() gives them. */
ES_API void es_column_reals(const es_table_column *column, int64_t rows, double *out);

/*! es_table_get() : a number; NaN if the row has none. es_table_get_text() : a text; "" likewise. A
 *  key that the table does not have is an error of the program, which es_answer_status() returns.
 */
ES_API double es_table_get(const es_table *table, int64_t row, const char *key);
ES_API const char *es_table_get_text(const es_table *table, int64_t row, const char *key);

/* ---- views ---- */

typedef enum es_answer_form {
    ES_ANSWER_TEXT = 0,     /* for a terminal: findings, then the views that support them */
    ES_ANSWER_MARKDOWN = 1, /* the same, as Markdown tables */
    ES_ANSWER_CSV = 2,      /* one table, every column, all digits: RFC 4180 */
    ES_ANSWER_JSON = 3,     /* all of it, one object */
    ES_ANSWER_LATEX = 4     /* tables for a paper, every column and row of the views */
} es_answer_form;

/* Rows whose column `key` holds one of the values. A table that has no such column has no say. */
typedef struct es_row_pick {
    const char *key; /* NULL ends a list */
    const int64_t *values;
    int64_t count;
} es_row_pick;

typedef struct es_answer_opts {
    const char *table; /* of CSV; NULL: the first with rows that people see */
    bool colour;       /* of text: bold titles, by the codes of terminals */
    bool full;         /* of text, Markdown and LaTeX: every view, with every column and row */
    int width;         /* of text: columns of the terminal: sentences are broken into lines, and
                          what does not fit of a table is dropped from the right unless `full`; 0:
                          as wide as it comes */
    int64_t most_rows; /* of a table in text, unless `top` says otherwise; 0: all */
    const char *rest;  /* how to get what was left out, said beside it: "--full"; NULL: unsaid */
    /* Rows of text, Markdown, LaTeX and CSV. JSON holds everything. */
    const es_row_pick *picks; /* NULL: all of them */
    const char *sort; /* by a column's key or title, "-key": descending; NULL: as they are */
    int64_t top;      /* number of rows after sorting; 0: all */
} es_answer_opts;

/* Takes the next bytes of a view; false: it cannot, and nothing more is sent. */
typedef bool (*es_write_fn)(void *user, const char *bytes, size_t count);

/*! es_answer_write() : a view of the answer. @return : ES_OK; ES_E_IO (answer.write) if `write`
 *  could not; ES_E_ARGUMENT, before anything is written: answer.table for a table that is not
 *  there, answer.sort for a column that no table has, answer.rows for picks that no row fits;
 *  ES_E_MEMORY. */
ES_API es_status es_answer_write(const es_answer *answer, es_answer_form form,
                                 const es_answer_opts *opts, es_write_fn write, void *user,
                                 es_error *err);

#ifdef __cplusplus
}
#endif
#endif
