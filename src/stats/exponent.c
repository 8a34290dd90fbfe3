/* exponent.c : the local exponent of one query's gaps (THEORY.md 6). */
#include <esscher/exponent.h>

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "stats/exponent.h"
#include "stats/minimum.h"

/* ---- the law of keys on a great sphere ---- */

double es_log_half_beta(double a, double x)
{
    /* x^a (1-x)^a/a sum_j (2a)_j/(a+1)_j x^j: every term is positive. Terms shrink from where
     * x (2a+j) < a+1+j on; 1-x is at least 1e-12 or so, but then a tail of the law is not local. */
    double term = 1.0, sum = 1.0;
    for (int j = 0; j < 100000 && term > 1e-17 * sum; j++) {
        term *= x * (2.0 * a + j) / (a + 1.0 + j);
        sum += term;
    }
    return a * (log(x) + log1p(-x)) - log(a) + log(sum);
}

typedef struct likelihood {
    double mean; /* of ln(x(1-x)) over the k nearest */
    double x;    /* where the law is cut */
} likelihood;

/* Minus the log-likelihood of one point at a = e^t; it is convex in a. */
static double surprise(const void *context, double t)
{
    const likelihood *l = context;
    const double a = exp(t);
    return es_log_half_beta(a, l->x) - (a - 1.0) * l->mean;
}

/* Around Hill's estimate, to 1e-8 of itself. */
static double most_likely(const likelihood *l, double hill)
{
    return exp(es_minimum(surprise, l, log(hill) - 1.5, log(hill) + 1.5, 45));
}

/* The second derivative of ln B in a, which is the information of one point; 1/a^2 for small x. */
static double information(double a, double x)
{
    const double h = 1e-3 * a;
    return (es_log_half_beta(a + h, x) - 2.0 * es_log_half_beta(a, x) +
            es_log_half_beta(a - h, x)) /
           (h * h);
}

/* ---- estimates ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bring the `count` smallest of T (n) to its front, in order. Hoare's selection with the middle of
 * three as pivot, then a sort of what was selected. */
static void smallest_first(double *T, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const double a = T[low], b = T[low + (high - low) / 2], c = T[high];
        const double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c));
        int64_t i = low, j = high;
        while (i <= j) {
            while (T[i] < pivot)
                i++;
            while (T[j] > pivot)
                j--;
            if (i <= j) {
                const double t = T[i];
                T[i++] = T[j];
                T[j--] = t;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            break;
    }
    qsort(T, (size_t)count, sizeof *T, by_size);
}

/* Zeros to the front. */
static int64_t zeros_first(double *T, int64_t n)
{
    int64_t zeros = 0;
    for (int64_t i = 0; i < n; i++)
        if (T[i] == 0.0) {
            T[i] = T[zeros];
            T[zeros++] = 0.0;
        }
    return zeros;
}

static es_status check_gaps(const double *T, int64_t n, es_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (!(T[i] >= 0.0 && T[i] <= 2.0 + 1e-9))
            return es_fail_at(err, ES_E_RANGE, i, -1, "exponent.gap", "T = 1 - cosine",
                              "gap %lld is %g, not in [0, 2]", (long long)i, T[i]);
    return ES_OK;
}

/* Both estimates from the sorted gaps that are not 0. */
static void estimate(const double *T, es_exponent *e)
{
    const int64_t k = e->k;
    const double edge = T[k], x = fmin(0.5 * edge, 1.0 - 1e-9);
    double logs = 0.0, beta = 0.0;
    for (int64_t i = 0; i < k; i++) {
        const double xi = fmin(0.5 * T[i], 1.0 - 1e-9);
        logs += log(edge / T[i]);
        beta += log(xi) + log1p(-xi);
    }
    e->reach = edge;
    e->hill = (double)(k - 1) / logs;
    e->hill_se = e->hill / sqrt((double)(k - 2));
    const likelihood l = {.mean = beta / (double)k, .x = x};
    const double top = most_likely(&l, e->hill);
    /* The same correction for few points that makes Hill's estimate unbiased. */
    e->alpha = top * (double)(k - 1) / (double)k;
    e->alpha_se = 1.0 / sqrt((double)(k - 2) * information(e->alpha, x));
    /* k/n of the keys lie within the edge: C B(alpha; x) = k/n, c = C 2^-alpha/alpha. */
    e->log_c = log((double)k / (double)e->n) - es_log_half_beta(e->alpha, x) -
               e->alpha * 0.69314718055994531 - log(e->alpha);
}

int64_t es_exponent_default_k(int64_t n)
{
    const int64_t root = (int64_t)(sqrt((double)n) + 0.5), least = root < 20 ? 20 : root;
    return least < n / 2 ? least : n / 2;
}

es_status es_exponent_estimate(double *T, int64_t n, int64_t k, es_exponent *out, es_error *err)
{
    if (!T || !out)
        return es_fail(err, ES_E_ARGUMENT, "exponent.null", "", "T or out is NULL");
    ES_TRY(check_gaps(T, n, err));
    es_exponent e = {.n = n, .copies = zeros_first(T, n)};
    const int64_t rest = n - e.copies;
    T += e.copies;
    if (rest < 4)
        return es_fail(err, ES_E_EMPTY, "exponent.keys", "at least 4 keys that are no copies",
                       "there are %lld keys beside copies of the query", (long long)rest);
    if (k == 0)
        k = rest < 6 ? 3 : es_exponent_default_k(rest);
    if (k < 3 || k >= rest)
        return es_fail(err, ES_E_RANGE, "exponent.k", "from 3 to one less than there are keys",
                       "k is %lld, of %lld keys", (long long)k, (long long)rest);
    smallest_first(T, rest, k + 1);
    if (!(T[0] < T[k]))
        return es_fail(err, ES_E_NUMERIC, "exponent.ties", "are the keys copies of one another?",
                       "the %lld nearest keys are all at one distance", (long long)k + 1);
    e.k = k;
    e.nearest[0] = T[0];
    e.nearest[1] = T[1];
    estimate(T, &e);
    *out = e;
    return ES_OK;
}

/* ---- what it means for a head ---- */

es_freezing es_exponent_freezing(const es_exponent *e, double n)
{
    if (!(n > 0.0))
        return (es_freezing){(double)NAN, (double)NAN, (double)NAN};
    const double critical = exp((log(n) + e->log_c) / e->alpha);
    /* ln beta = ln(n k/n_0)/alpha - ln T_(k+1), with independent errors of alpha and of T. */
    const double lever = log(n * (double)e->k / (double)e->n) / e->alpha;
    const double of_alpha = lever * e->alpha_se / e->alpha;
    const double of_reach = 1.0 / (e->alpha * sqrt((double)e->k));
    return (es_freezing){critical, 2.0 * e->alpha * critical, hypot(of_alpha, of_reach)};
}

double es_exponent_tokens(const es_exponent *e, double beta)
{
    return exp(e->alpha * log(beta / (2.0 * e->alpha)) - e->log_c);
}
