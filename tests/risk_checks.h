/* SPDX-License-Identifier: Apache-2.0 */
/* risk_checks.h : choices of keys for one query, and what tests of their exact risks ask each time.
 */
#ifndef ES_TESTS_RISK_CHECKS_H
#define ES_TESTS_RISK_CHECKS_H

#include "testing.h"

#include <esscher/policy_risk.h>

static es_choice choice; /* used again from test to test */

static inline es_policy_spec spec_of(const char *name, int64_t keys)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.keys = keys;
    return spec;
}

static inline es_policy_risk risk_of(const es_risk_query *q, const es_choice *c)
{
    es_policy_risk risk;
    assert_ok(es_policy_risk_of(q, c, NULL, &risk, &err));
    assert_at_least(risk.square.err, 0.0);
    assert_finite(risk.square.val);
    assert_near(risk.bias2 + risk.variance, risk.square.val, 1e-15 * risk.square.val);
    assert_at_least(risk.variance, 0.0);
    return risk;
}

static inline int free_choice(void **state)
{
    (void)state;
    es_choice_free(&choice);
    return 0;
}

#endif
