/* testing.h : what every test file starts with. */
#ifndef ES_TESTING_H
#define ES_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <esscher/status.h>

/* The record every test hands to the calls it makes: foo(..., &err). */
static es_error err __attribute__((unused));

/* A call that must succeed; its error record is shown when it does not. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        const es_status assert_ok_status_ = (call);                                                \
        if (assert_ok_status_ != ES_OK)                                                            \
            fail_msg("%s: %s: %s", #call, es_status_name(assert_ok_status_), err.message);         \
    } while (0)

/* |actual - expected| <= tolerance, NaN fails. */
#define assert_near(actual, expected, tolerance)                                                   \
    do {                                                                                           \
        const double near_a_ = (actual), near_e_ = (expected), near_t_ = (tolerance);              \
        if (!(fabs(near_a_ - near_e_) <= near_t_))                                                 \
            fail_msg("%s = %.17g, expected %.17g within %.3g (off by %.3g)", #actual, near_a_,     \
                     near_e_, near_t_, near_a_ - near_e_);                                         \
    } while (0)

/* |actual - expected| <= tolerance * |expected|. */
#define assert_close(actual, expected, relative)                                                   \
    assert_near(actual, expected, (relative)*fabs(expected))

#endif
