/* SPDX-License-Identifier: Apache-2.0 */
/* error_bar.h : how far one output of attention, from one context, is from that of infinitely many
 * such tokens.
 *
 * The output o = sum w_j v_j is a ratio of two sums over the tokens. Blocks of consecutive keys,
 * Z_b of the weight and N_b of the output each, say how much either varies, and with that how much
 * o does (THEORY 9 (E2)); es_attend() streams what is needed.
 *
 *     const es_attend_opts opts = {.block = 64, ...};
 *     const es_attend_out out = {.output = o, .entropy = H, .block_spread2 = s, .block_powers = Z};
 *     es_attend(&q, &k, &v, &opts, &out, &err);
 *     es_error_bar bar = es_error_bar_of(Z + 3 * i, n, H[i]);              // of query i
 *     double se = sqrt(bar.factor * s[i * dv + c]);
 *     if (bar.valid)                                    // 95 % interval of channel c of its output
 *         printf("%g +- %g\n", o[i * dv + c], bar.t * se);
 *
 * What is claimed: the root mean square error of the output is sqrt(factor sum_c s_c), and a
 * channel is within t standard errors of its limit in 95 of 100 contexts. Errors are skew along the
 * query: there it is 88 to 95 (THEORY 9 (E3)). The distance of the whole output is below t times
 * the root mean square in at least 95: the worst case is an error in one direction only (Szekely
 * and Bakirov 2003).
 */
#ifndef ES_STATS_ERROR_BAR_H
#define ES_STATS_ERROR_BAR_H

#include <stdbool.h>
#include <stdint.h>

/* The correction for few blocks, (E3) of THEORY 9. */
typedef struct es_error_bar {
    double factor;  /* variance of a channel over its block_spread2; NaN below two blocks */
    double freedom; /* of Student's t: about as many blocks as have the variance, less 1 */
    double t;       /* half of a 95 % interval, in standard errors; NaN likewise */
    bool valid;     /* the claims above hold: see es_error_bar_of() */
} es_error_bar;

/*! es_error_bar_of() : powers (3) are the sums of Z_b^2, Z_b^3, Z_b^4 of one query, n the keys it
 * saw, `entropy` that of its weights in nats. Pure.
 *
 * Were the blocks' means of one variance, sum Z_b^2 (mean - o)^2 would miss the share 2 S_3/S_2 -
 * S_2 of it, and be like chi^2 of S_2^2/S_4 degrees (Satterthwaite); S_k = sum Z_b^k. One is
 * taken off, which is right for equal blocks.
 *
 * The claims do not hold, and `valid` is false, where the variance comes from fewer than five
 * blocks (freedom < 4), or where the weights are so uneven that the keys that were not seen matter:
 * entropy < (3/4) ln n. For normal scores that is where twice the score scale freezes: sum w^2 then
 * hangs on the few largest weights whatever n is, and no sample knows its own variance. */
es_error_bar es_error_bar_of(const double powers[3], int64_t n, double entropy);

#endif
