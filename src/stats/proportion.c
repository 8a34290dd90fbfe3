/* SPDX-License-Identifier: Apache-2.0 */
/* proportion.c : proportions and changes of proportions with their 95 % intervals: Wilson's score
 * interval, and Bonett and Price's for paired changes. */
#include "stats/proportion.h"

#include <math.h>

#include "stats/special.h"

#define Z95 1.959963984540054 /* of the normal law, two-sided */

/* Wilson's interval: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). Unlike p -+ z se
 * it covers near 0 and 1, too. */
es_proportion es_proportion_of(int64_t count, int64_t n)
{
    const double p = (double)count / (double)n, N = (double)n, z2 = Z95 * Z95;
    if (n < 1)
        return (es_proportion){NAN, NAN, NAN, NAN};
    const double middle = (p + z2 / (2.0 * N)) / (1.0 + z2 / N);
    const double half = Z95 / (1.0 + z2 / N) * sqrt(p * (1.0 - p) / N + z2 / (4.0 * N * N));
    return (es_proportion){.value = p,
                           .se = sqrt(p * (1.0 - p) / N),
                           .low = count == 0 ? 0.0 : fmax(0.0, middle - half),
                           .high = count == n ? 1.0 : fmin(1.0, middle + half)};
}

/* P(|heads - n/2| >= |k - n/2|) of n fair coins. */
static double coins_p(int64_t k, int64_t n)
{
    const int64_t few = k < n - k ? k : n - k;
    double tail = 0.0;
    if (n == 0)
        return 1.0;
    for (int64_t i = 0; i <= few; i++)
        tail += exp(es_log_coins(n, i));
    return fmin(1.0, 2.0 * tail);
}

/* Change of a paired proportion, d = (lost - gained)/n. The interval adds one to both counts and
 * two to n (Bonett and Price); p is the exact sign test of lost against gained. */
es_change es_change_of(int64_t lost, int64_t gained, int64_t n)
{
    const double N = (double)n, d = (double)(lost - gained) / N, both = (double)(lost + gained) / N;
    if (n < 1)
        return (es_change){NAN, NAN, NAN, NAN, NAN};
    const double a = ((double)lost + 1.0) / (N + 2.0), b = ((double)gained + 1.0) / (N + 2.0);
    const double half = Z95 * sqrt((a + b - (a - b) * (a - b)) / (N + 2.0));
    return (es_change){.value = d,
                       .se = sqrt(fmax(0.0, both - d * d) / N),
                       .low = fmax(-1.0, a - b - half),
                       .high = fmin(1.0, a - b + half),
                       .p = coins_p(lost, lost + gained)};
}
