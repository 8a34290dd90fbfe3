/* SPDX-License-Identifier: Apache-2.0 */
/* draw_risk.h : attention over n keys drawn from given ones: its mean square error, exactly.
 *
 * One query gives N keys the weights w_j (any scale) and they have the values v_j, so that its
 * output is y = sum w_j v_j / sum w_j. Draw n of the N keys independently, with replacement, and
 * attend over those alone: the output y_S misses y by
 *
 *     y_S - y = sum_S w_j u_j / sum_S w_j,   u_j = v_j - y,
 *
 * a ratio of two sums over the same draws. THEORY 13, with nothing kept surely and no correction,
 * turns its mean square into one integral that is exact for every n, every set of weights and
 * values: no law is assumed, nothing is drawn. For large n it tends to N sum w^2 |u|^2 / n
 * (`sampling`/n, weights of sum 1), which is the whole answer only once n is far beyond the
 * effective number of keys that N/n of the keys would make: at n = 64 a head that selects is off
 * by a factor of 2.
 *
 *     es_draw_query about;
 *     es_draw_risk risk[2];
 *     const int64_t n[2] = {64, 4096};
 *     es_draw_risks(&scores, ES_DRAW_SCORES, &values, n, 2, NULL, risk, &about, &err);
 *
 * A key of weight zero (score -inf) is drawn like any other. A draw of nothing else has no output:
 * it is left out, i.e. everything is given that at least one drawn key has weight; `empty` says how
 * probable the opposite was.
 */
#ifndef ES_RISK_DRAW_RISK_H
#define ES_RISK_DRAW_RISK_H

#include <esscher/exec.h>
#include <esscher/view.h>

/* What the given numbers are. */
typedef enum es_draw_input {
    ES_DRAW_SCORES = 0, /* ln w up to a constant; -inf is a weight of zero */
    ES_DRAW_WEIGHTS = 1 /* w >= 0, of any sum above zero */
} es_draw_input;

#define ES_DRAW_MOST_N      INT64_C(1000000000000) /* draws */
#define ES_DRAW_MOST_SCORE  1e6                    /* magnitude of a score */
#define ES_DRAW_MOST_VALUE  1e150                  /* magnitude of a value; squares must fit */
#define ES_DRAW_MOST_CHOSEN INT64_C(4096)          /* sizes that are asked at a time */

/* What n draws do. */
typedef struct es_draw_risk {
    es_num square; /* E|y_S - y|^2 and a bound on its error: 1e-10 of it up to 4096 keys, 2e-7
                      beyond, and what rounding of the values leaves */
    double bias;   /* |E y_S - y| */
    double empty;  /* probability that no drawn key has weight; the two above are given the rest */
} es_draw_risk;

/* What the weights say by themselves. */
typedef struct es_draw_query {
    double ess;      /* 1/sum w^2: effective number of keys */
    double top;      /* the largest weight */
    double sampling; /* N sum w^2 |u|^2: n E|y_S - y|^2 for large n */
    double spread2;  /* sum w |u|^2: mean square distance of values from the output */
    double output2;  /* |y|^2 */
} es_draw_query;

/*! es_draw_risks() : for each of m queries, scores or weights (m, N), over the same values (N, dv):
 *  out (m, n_sizes), and about (m) unless NULL. Sizes need not be in order. O(m N dv) time and
 *  some 8 N dv bytes; up to 4096 keys O(m N dv nodes), 100 nodes being usual. Parallel over
 *  queries; the same bits for any number of threads.
 *  @return : ES_OK; ES_E_ARGUMENT (draw.input); ES_E_SHAPE (draw.shape) unless the
 *  matrices fit together and nothing is empty; ES_E_RANGE (draw.sizes, draw.score, draw.weight,
 *  draw.value, naming row and column); ES_E_NONFINITE (draw.score, draw.weight, values);
 *  ES_E_LIMIT, ES_E_MEMORY, ES_E_INTERRUPTED. */
es_status es_draw_risks(const es_view *scores, es_draw_input input, const es_view *values,
                        const int64_t *sizes, int64_t n_sizes, const es_exec *exec,
                        es_draw_risk *out, es_draw_query *about, es_error *err);

#endif
