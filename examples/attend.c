/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c : a first program. How fast does attention over n random tokens find its limit?
 *
 * Keys are standard normal in R^d and are their own values. A query x tilts their law by
 * exp(x.y/sqrt(d)); a tilted normal is a normal, now with mean x/sqrt(d), and that is what the
 * output tends to as n grows, with an error like 1/sqrt(n). The entropy H of the weights falls
 * short of ln n by |x|^2/(2d). Printed, the mean over queries of both:
 *
 *          n  entropy  ln n - H    error  error*sqrt(n)
 *        256    5.046    0.4995   0.3482           5.57
 *       1024    6.465    0.4661   0.1817           5.81
 *       4096    7.859    0.4583   0.0823           5.27
 *      16384    9.246    0.4579   0.0369           4.72
 *      65536   10.632    0.4588   0.0200           5.11
 *      limit             0.4583   0.0000
 */
#include <math.h>
#include <stdio.h>

#include <esscher/attend.h>
#include <esscher/random.h>

enum { M = 64, N = 65536, D = 8, P = 5 }; /* queries, keys, dimension, prefixes */

static float queries[M][D], keys[N][D];
static double output[P][M][D], entropy[P][M]; /* what is asked for */

int main(void)
{
    /* Numbers have addresses: these are cells 0 and 1 of seed 7, today and on every machine. */
    const es_address q_at = {.seed = 7, .cell = 0}, k_at = {.seed = 7, .cell = 1};
    es_error err;
    if (es_normal_rows_f32(&q_at, M, D, queries[0], &err) != ES_OK ||
        es_normal_rows_f32(&k_at, N, D, keys[0], &err) != ES_OK)
        return fprintf(stderr, "%s (%s)\n", err.message, err.hint), 1;

    /* One pass over the keys answers for every prefix of them. What is left out is the default:
     * score scale 1/sqrt(d), f32 kernels, all processors. */
    const int64_t prefixes[P] = {256, 1024, 4096, 16384, 65536};
    const es_view q = es_view_f32(queries[0], M, D), k = es_view_f32(keys[0], N, D);
    const es_attend_opts opts = {.prefixes = prefixes, .n_prefixes = P};
    const es_attend_out out = {.output = output[0][0], .entropy = entropy[0]};
    if (es_attend(&q, &k, &k, &opts, &out, &err) != ES_OK)
        return fprintf(stderr, "%s (%s)\n", err.message, err.hint), 1;

    double gap = 0.0, error = 0.0, limit = 0.0;
    printf("     n  entropy  ln n - H    error  error*sqrt(n)\n");
    for (int p = 0; p < P; p++) {
        double h = 0.0, squares = 0.0;
        for (int i = 0; i < M * D; i++) {
            const double x = queries[i / D][i % D], y = output[p][i / D][i % D];
            h += entropy[p][i / D] / (M * D);
            squares += pow(y - x / sqrt(D), 2.0) / M;
            limit += p == 0 ? x * x / (2.0 * D) / M : 0.0;
        }
        const double n = (double)prefixes[p];
        gap = log(n) - h;
        error = sqrt(squares);
        printf("%6.0f  %7.3f  %8.4f  %7.4f  %13.2f\n", n, h, gap, error, error * sqrt(n));
    }
    printf(" limit           %8.4f  %7.4f\n", limit, 0.0);
    return fabs(gap - limit) < 0.01 && error < 0.05 ? 0 : 1; /* it does find its limit */
}
