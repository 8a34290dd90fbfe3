/* SPDX-License-Identifier: Apache-2.0 */
/* error_bar.c : the error of one output from what blocks of keys contribute (THEORY 9 (E3)). */
#include "stats/error_bar.h"

#include <math.h>

#include "stats/special.h"

/* Blocks of keys with shares w_b of the weight; s_k = sum w_b^k. The total contains each block, so
 * that the deviations of blocks from it show only the share 1 - 2 s3/s2 + s2 of the variance; the
 * factor makes up for it. Degrees of freedom by Satterthwaite: s2^2/s4 - 1. */
es_error_bar es_error_bar_of(const double powers[3], int64_t n, double entropy)
{
    const double s2 = powers[0], s3 = powers[1], s4 = powers[2];
    const double seen = 1.0 - 2.0 * s3 / s2 + s2; /* share of the variance that is visible */
    const double freedom = s2 * s2 / s4 - 1.0;
    es_error_bar bar = {.factor = NAN, .freedom = fmax(0.0, freedom), .t = NAN};
    if (!(seen > 0.0) || !(freedom > 0.999)) /* hardly two blocks have it all */
        return bar;
    bar.factor = 1.0 / seen;
    bar.t = es_student_quantile(freedom, 0.025);
    bar.valid = freedom >= 4.0 && entropy >= 0.75 * log((double)n);
    return bar;
}
