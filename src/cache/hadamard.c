/* SPDX-License-Identifier: Apache-2.0 */
/* hadamard.c : rotation of rows by the orthonormal Walsh-Hadamard matrix. */
#include "cache/hadamard.h"

#include <math.h>

/* Replaces pairs (a, b) of numbers that are `apart` from each other by (a + b, a - b). */
static inline void add_pairs(double *x, int64_t n, int64_t apart)
{
    for (int64_t start = 0; start < n; start += 2 * apart)
        for (int64_t i = start; i < start + apart; i++) {
            const double a = x[i], b = x[i + apart];
            x[i] = a + b;
            x[i + apart] = a - b;
        }
}

/* Does the same for `apart` and then for 2 apart, and reads and writes each number once. */
static inline void add_quads(double *x, int64_t n, int64_t apart)
{
    for (int64_t start = 0; start < n; start += 4 * apart) {
        double *restrict p = x + start, *restrict q = p + apart, *restrict r = q + apart,
                         *restrict s = r + apart;
        for (int64_t i = 0; i < apart; i++) {
            const double a = p[i] + q[i], b = p[i] - q[i], c = r[i] + s[i], d = r[i] - s[i];
            p[i] = a + c;
            q[i] = b + d;
            r[i] = a - c;
            s[i] = b - d;
        }
    }
}

void es_hadamard(double *x, int64_t n)
{
    const int64_t m = n & -n;
    const double norm = sqrt((double)m);
    int64_t apart = 1;
    for (; 4 * apart <= m; apart *= 4)
        add_quads(x, n, apart);
    if (apart < m)
        add_pairs(x, n, apart);
    for (int64_t i = 0; i < n; i++)
        x[i] /= norm;
}
