/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_row.h : one row of one head of a variant (oracle.h), for oracle_row.c, oracle_lost.c and
 * oracle_rows.c. */
#ifndef ES_EXPERIMENTS_MEASURE_ORACLE_ROW_H
#define ES_EXPERIMENTS_MEASURE_ORACLE_ROW_H

#include "experiments/measure/oracle.h"

/* Sums over one row that decide whether two outputs agree. */
typedef struct compare_row_found {
    bool seen; /* some key is */
    int64_t nonfinite;
    double squares, expected;
    double along, slope2, theirs_ours, ours2;
} compare_row_found;

/* A head of the variant, all of it f64, and what its rows need. */
typedef struct compare_head_rows {
    compare_case *c;
    const compare_variant *v;
    int64_t head, keys, rows, count; /* `count` of `rows` are looked at */
    es_view q;
    double *k, *values;       /* (keys, d), (keys, dv) */
    double longest;           /* max |k| */
    double *scratch;          /* for each thread: scores (keys), q (d), o, slope, y (dv each) */
    int64_t each;             /* doubles of it */
    double *ours, *theirs;    /* (count, dv), NULL: not wanted */
    compare_row_found *found; /* (count) */
} compare_head_rows;

/* What a thread computes a row in. */
typedef struct compare_row_work {
    int64_t i;             /* the row */
    double *w, *q;         /* weights (keys), query (d) */
    double *o, *slope, *y; /* our output, its slope, theirs (dv each) */
} compare_row_work;

/* ---- oracle_row.c ---- */

/*! compare_load_head() : copies keys and values of a head as f64. @return : ES_OK;
 *  ES_E_INTERRUPTED. */
es_status compare_load_head(compare_head_rows *h, int64_t head, es_error *err);

/*! compare_read_query() : reads query i, rounded to the format if the variant rounds its inputs.
 *  compare_read_theirs() : reads their row for row i of our head. */
void compare_read_query(const compare_head_rows *h, int64_t i, double *out);
void compare_read_theirs(const compare_head_rows *h, int64_t i, double *out);

/*! compare_seen_by() : finds the keys [*first, *last) that query i sees. */
void compare_seen_by(const compare_head_rows *h, int64_t i, int64_t *first, int64_t *last);

/*! compare_score() : returns the score of query q and key j. compare_sink_logit() : returns the
 *  logit of the head's learned sink, -inf if it has none. */
double compare_score(const compare_head_rows *h, const double *q, int64_t j);
double compare_sink_logit(const compare_head_rows *h);

/*! compare_over_keys() : compares a row with the output over keys [first, last). Returns false if
 *  there is no key, nor a sink. */
bool compare_over_keys(const compare_head_rows *h, const compare_row_work *r, int64_t first,
                       int64_t last, compare_row_found *out);

/* ---- oracle_lost.c ---- */

/*! compare_is_zero() : returns whether all numbers of the row are zero. */
bool compare_is_zero(const double *y, int64_t count);

/*! compare_overflow_row() : decides a row of a kernel that overflows: it must be lost where exp()
 *  of one of its scores overflows, and may be where a sum could, or the score of a key that is
 *  masked afterwards. Returns false if the row is to be compared as usual. */
bool compare_overflow_row(const compare_head_rows *h, int64_t first, int64_t last, const double *q,
                          const double *w, const double *y, compare_row_found *out);

/*! compare_dropped_row() : compares a row of weights w whose dropped ones are unknown. Of up to
 *  eight keys every set of keys is tried; that no key is left of three or more is no sign of
 *  dropout. A row of more keys says nothing, unless it is off by much more or much less than
 *  dropout does. */
void compare_dropped_row(const compare_head_rows *h, int64_t first, int64_t last, const double *w,
                         const double *o, const double *y, double expected, compare_row_found *out);

/*! compare_lost_row() : compares a row whose keys the kernel misses, all of them. Zeros and NaN
 *  prove nothing: most kernels write them. One that avoids them may give the query all keys up to
 *  its own, or that one alone. Anything else speaks against the mistake. */
void compare_lost_row(const compare_head_rows *h, const compare_row_work *r,
                      compare_row_found *out);

#endif
