/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.h : finds which kind of attention an output array is; for measure --compare.
 *
 *     measure/oracle_bound.c       the error that a kernel of a format may have (THEORY 17)
 *     measure/oracle_row.c         one row of attention with something changed, in plain f64 loops
 *     measure/oracle_lost.c        rows that are lost or changed at random
 *     measure/oracle_rows.c        which rows are compared, over all heads and all widths
 *     measure/oracle_fit.c         what is changed by an unknown amount: a scale, a width, an order
 *     measure/oracle_kernels.c     what is changed by one number of a few: tiles, offsets, heads
 *     measure/oracle_noise.c       whether errors look like those of rounding in a kernel
 *     measure/oracle_hypotheses.c  what can be changed, one description each
 *     measure/oracle_theirs.c      an output of a head against the f64 engine's
 *     measure/oracle_search.c      trying them
 *     measure/oracle_verdict.c     tables and sentences
 */
#ifndef ES_EXPERIMENTS_MEASURE_ORACLE_H
#define ES_EXPERIMENTS_MEASURE_ORACLE_H

#include "experiments/measure/measure.h"

/* ---- the error that may be expected ---- */

/* A number format in which attention is computed: outputs and, of 16 bits, weights are stored in
 * it; sums are in f32, or in f64 for f64. */
typedef struct compare_format {
    const char *name;
    double unit;  /* u: a stored number is off by at most u of it */
    double least; /* and by at most so much if it is subnormal: half the smallest number */
    double sums;  /* u of the sums */
    bool weights; /* the weights are stored */
} compare_format;

/*! compare_format_named() : "f16", "bf16", "f32", "f64"; NULL if it is none.
 *  compare_format_of_eight() : 0: fp8 e4m3, 1: fp8 e5m2. compare_round() : the nearest number of
 * the format, of 8 bits without its largest number. */
const compare_format *compare_format_named(const char *name);
const compare_format *compare_format_of_eight(int64_t at);
double compare_round(const compare_format *f, double value);

/* What the error of one output row depends on. */
typedef struct compare_row {
    double length; /* |o| */
    double spread; /* sqrt(sum w^2 |v - o|^2) */
    double share;  /* sqrt(sum w^2) */
    double reach;  /* b |q| max |k|, no score is larger */
    double focus;  /* 1 - entropy / ln(keys): 0 of equal weights, 1 of a single one */
    double stored; /* the largest |score| where scores are stored in the format; else 0 */
    int64_t keys, cols;
} compare_row;

/*! compare_focus() : returns the focus of weights of this entropy over `keys` keys. */
double compare_focus(double entropy, int64_t keys);

/*! compare_quantile() : z of (C5) for `rows` rows. */
double compare_quantile(int64_t rows);

/*! compare_expected() : the error of a row that is to be expected, root mean square over its
 *  elements: THEORY 17 (C5), ours included. */
double compare_expected(const compare_format *f, const compare_row *row, double z);

/* ---- attention with something changed ---- */

/* Which keys a query sees. */
typedef enum compare_mask {
    COMPARE_ALL,
    COMPARE_CAUSAL, /* key j <= i + shift */
    COMPARE_WINDOW, /* and j > i + shift - width */
    COMPARE_BAND    /* |i + shift - j| <= width */
} compare_mask;

/* What weights are divided by. */
typedef enum compare_norm {
    COMPARE_SOFTMAX,
    COMPARE_SUM, /* sum exp(s) v, not divided */
    COMPARE_MAX  /* sum exp(s - max s) v */
} compare_norm;

/* What stands for the value of a key that has none, where values are shifted. */
typedef enum compare_edge { COMPARE_ROLL, COMPARE_ZERO, COMPARE_CLAMP } compare_edge;

/* A way to compute attention that an output is compared with; mistakes of kernels are variants,
 * too. */
typedef struct compare_variant {
    double scale;
    compare_mask mask;
    int64_t shift, width;
    int64_t skipped;   /* number of first keys left out */
    int64_t keys;      /* those after them do not exist */
    bool exclude_self; /* query i does not see key i + own */
    int64_t own;
    int64_t block;       /* causal: size of blocks; a query's own block is not seen. 0: it is */
    bool whole;          /* but by the last query of the block */
    bool ahead;          /* or it is seen to its end, behind the query */
    int64_t one_head;    /* 1 + the key head that all query heads have; 0: their own */
    bool alibi;          /* scores less a slope of the head times the distance */
    int64_t values_by;   /* key j has the value of key j + values_by, */
    compare_edge edge;   /* and beyond the last key this one */
    double overflow;     /* rows are lost where exp(score) is above e to this power; 0: none */
    double dropout;      /* probability with which weights were dropped; 0: none was */
    bool tiled;          /* query head h has key head h % kv_heads */
    bool swapped_output; /* (m, heads) rows of outputs, taken for (heads, m) */
    bool flat_output;    /* the reverse: (heads, m) rows, taken for (m, heads) */
    bool swapped;        /* the same of all arrays */
    const struct compare_format *inputs; /* Q, K and V are rounded to it; NULL: they are not */
    bool round_scores;                   /* to the format of the output */
    bool row_factor;                     /* every row times a number of its own */
    bool zero_rows;                      /* rows of zeros say nothing */
    compare_norm norm;
    double sink;          /* number of extra keys with score 0 and value 0 */
    const double *sinks;  /* (heads) logits of learned sinks; NULL: none */
    double cap;           /* scores are cap tanh(s / cap); 0: they are not */
    double factor;        /* of the output */
    const int64_t *place; /* (heads): where the output of a head stands; NULL: where it belongs */
    const struct compare_format *format; /* computed in it; NULL: in that of the output */
    char note[64];                       /* what was changed by how much; "" */
} compare_variant;

/* A row of their output. */
typedef struct compare_place {
    int64_t head, row;
} compare_place;

/* The question. */
typedef struct compare_case {
    const measure_state *s;
    const compare_format *format;
    double z;
    es_exec exec;           /* its progress only says whether to stop */
    bool glance;            /* a few heads, evenly spread, are enough for now */
    compare_place furthest; /* from what was asked for */
    es_arena arena;
} compare_case;

/* How far an output is from it. Errors of rows are root mean squares over their elements. */
typedef struct compare_sum {
    int64_t rows, elements, nonfinite;
    int64_t rounded;           /* rows whose error is no less than 1/50 of the expected */
    double squares;            /* of all elements */
    double largest;            /* error of a row */
    double ratio;              /* largest of error / expected, of row `row` of `head` */
    double expected;           /* of that row */
    int64_t head, row;         /* of their output */
    double along, slope2;      /* <y - o, do/db>, |do/db|^2 */
    double theirs_ours, ours2; /* <y, o>, |o|^2 */
    double allowed;            /* squared norm of the expected errors */
} compare_sum;

/*! compare_asked() : attention as it was asked for. compare_as_asked() : returns whether the
 *  variant sees the same keys. */
compare_variant compare_asked(const compare_case *c);
bool compare_as_asked(const compare_case *c, const compare_variant *v);

/*! compare_rows() : `per_head` rows of every head, evenly spread (all if there are fewer), of the
 *  variant against their output. The same for any number of threads.
 *  @return : ES_OK; ES_E_INTERRUPTED; ES_E_MEMORY, ES_E_LIMIT. */
es_status compare_rows(compare_case *c, const compare_variant *v, int64_t per_head,
                       compare_sum *out, es_error *err);

/*! compare_row_at() : the variant's row for one of their output, added to *out. */
es_status compare_row_at(compare_case *c, const compare_variant *v, compare_place theirs,
                         compare_sum *out, es_error *err);

/*! compare_outputs() : outputs (heads, per_head, dv) of such rows, and theirs at the same places.
 */
es_status compare_outputs(compare_case *c, const compare_variant *v, int64_t per_head, double *ours,
                          double *theirs, es_error *err);

/* Ever more keys: back from a query's own, to either side of it, from the first on, from the last
 * back. */
typedef enum compare_growth {
    COMPARE_BACK,
    COMPARE_AROUND,
    COMPARE_FIRSTS,
    COMPARE_LASTS
} compare_growth;

/*! compare_widths() : squared distance (keys) of their output from attention over 1, 2, ... keys,
 *  or around a query's own 0, 1, ... to either side; over a few late rows of each head. */
es_status compare_widths(compare_case *c, const compare_variant *v, compare_growth growth,
                         double *out, es_error *err);

/*! compare_queries() : of the variant: swapped arrays have rows for heads. */
int64_t compare_queries(const compare_case *c, const compare_variant *v);

/*! compare_zero_rows() : returns how many rows of their output are all zero. */
es_status compare_zero_rows(compare_case *c, int64_t *count, es_error *err);

/*! compare_row_flops() : what a row takes. */
double compare_row_flops(const compare_case *c);

/* ---- what may have been changed ---- */

/* A kind of variant, with a function that fits its unknown number. */
typedef struct compare_hypothesis {
    const char *name; /* of the row in the table */
    const char
        *sentence; /* "OUT.npy is what ... gives"; the variant's note follows it, or stands at # */
    /* Changes *v. *applies is false where that is impossible, or nothing else than before. */
    es_status (*change)(compare_case *c, compare_variant *v, bool *applies, es_error *err);
    const char *also; /* of a causal mask: how it is said beside something else */
    bool noise;       /* its bound is wide: what is left must look like rounding */
    bool ordinary;    /* what kernels of the format may do: where this explains it, it is met */
} compare_hypothesis;

/* In order of preference; ends with a name that is NULL. The first COMPARE_CAUSALS are causal
 * masks: the rest is also tried together with each of them. */
extern const compare_hypothesis compare_hypotheses[];
enum { COMPARE_CAUSALS = 2 };

/*! Fits: a scale, a cap of scores, a factor of everything, a width, an order of heads. */
es_status compare_fit_scale(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_cap(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_factor(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_window(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_band(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_firsts(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_lasts(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_fit_order(compare_case *c, compare_variant *v, bool *applies, es_error *err);

/*! Mistakes with one number of a few: future keys, first keys, blocks, a head, an offset of
 * values, a limit, a format of sums, a probability. */
es_status compare_causal_next(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_first_dropped(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_own_block(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_whole_blocks(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_block_ahead(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_last_block(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_one_head(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_alibi(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_values_shifted(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_overflows(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_inputs_rounded(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_narrow_sums(compare_case *c, compare_variant *v, bool *applies, es_error *err);
es_status compare_dropout(compare_case *c, compare_variant *v, bool *applies, es_error *err);

/*! compare_like_rounding() : whether the errors of an output that the bound of the variant allows
 *  look like rounding in a kernel: different in every row and, of v->format, small in rows of few
 *  keys. */
es_status compare_like_rounding(compare_case *c, const compare_variant *v, bool *like,
                                es_error *err);

/* One of them that was tried. */
typedef struct compare_try {
    const compare_hypothesis *mask, *hypothesis; /* mask: NULL, or a causal one under it */
    compare_variant variant;
    compare_sum sum;
    bool explains;  /* the rows of the sum, which are some */
    bool confirmed; /* on all rows, or as many as sum.rows says */
    int64_t at;     /* in the order of trying */
} compare_try;

/* What was tried, and what explains the output. */
typedef struct compare_found {
    compare_try *tries; /* (compare_most_tries()) */
    int64_t count;
    const compare_try *match; /* NULL: none explains it */
} compare_found;

/*! compare_search() : try them. */
int64_t compare_most_tries(void);
es_status compare_search(compare_case *c, compare_found *found, es_error *err);

/* ---- the verdict ---- */

/*! compare_format_of() : the format of their output: as the user says, or the narrowest that holds
 *  all its numbers. Needs the arrays. */
const compare_format *compare_format_of(const measure_state *s);

/*! compare_head() : compares their output of a head with ours (m, dv) and with the error to be
 *  expected. `out` has output, entropy, spread2 and sum_squares. */
measure_their compare_head(const measure_state *s, int64_t head, const es_attend_out *out);

/*! compare_summarise() : tables, verdict, what it is instead; refutes the answer if it is not met.
 */
es_status compare_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
