/* SPDX-License-Identifier: Apache-2.0 */
/* allocate.h : divides a number of keys among heads (THEORY 14).
 *
 * A *unit*, a head or a group of heads that share keys and values, has options: m keys kept leave
 * the risk r(m). Dividing M keys so that the sum of weighted risks is least means that one more key
 * lowers every unit's risk equally. With options on a grid: on the lower convex hull of each unit's
 * curve, steps are taken in decreasing order of
 *
 *     weight (r(m) - r(m')) / (m' - m),
 *
 * until the keys are spent. At every total that this passes through no other choice of options has
 * less risk: a smaller one would lie below a hull. Between two of them a step does not fit; what is
 * left is then spent on smaller ones.
 *
 *     es_curve curves[] = {{3, keys, risk_a, 1.0}, {3, keys, risk_b, 2.0}};
 *     int64_t chosen[2];
 *     double used, risk;
 *     es_allocate_keys(curves, 2, 128, chosen, &used, &risk, &err);
 *     keys[chosen[1]]                                                   what unit 1 gets
 *
 * Both functions read curves and nothing else, are thread-safe and deterministic (of units that are
 * alike the first comes first), and take O(options) memory of their own. Both can return:
 * ES_E_ARGUMENT (allocate.null); ES_E_RANGE (allocate.curve: no option, keys that do not increase
 * or are negative, a risk or weight that is negative or not a number; err->row is the unit);
 * ES_E_MEMORY. */
#ifndef ESSCHER_ALLOCATE_H
#define ESSCHER_ALLOCATE_H

#include <stdint.h>

#include <esscher/export.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one unit may have. Risks need not fall, and curves need not be convex: what lies above the
 * hull is passed over. */
typedef struct es_curve {
    int64_t count;
    const double *keys; /* (count) increasing */
    const double *risk; /* (count) >= 0 */
    double weight;      /* how much its risk counts: a depth gain; >= 0 */
} es_curve;

/*! es_allocate_keys() : the least sum of weighted risks for at most `keys` keys. chosen (units) are
 *  options; *used their keys, *risk their weighted risks (both may be NULL). Keys that lower no
 *  risk stay unused. O(N log N) for N options, and O(N) for each step that spends the remainder.
 *  @return : ES_OK; ES_E_RANGE (allocate.keys) if the first options have more already. */
ES_API es_status es_allocate_keys(const es_curve *curves, int64_t units, double keys,
                                  int64_t *chosen, double *used, double *risk, es_error *err);

/*! es_allocate_risk() : the fewest keys for a sum of weighted risks of at most `most`; the reverse.
 *  After the steps that it takes, units give back what is not needed.
 *  @return : ES_OK; ES_E_RANGE (allocate.risk) if all keys leave more than that. */
ES_API es_status es_allocate_risk(const es_curve *curves, int64_t units, double most,
                                  int64_t *chosen, double *used, double *risk, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
