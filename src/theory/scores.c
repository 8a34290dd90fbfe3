/* scores.c : the lattice of l and g, and sums over g. */
#include "theory/scores.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

#define STEP      0.25 /* of l and of qg: trapezoidal error e^{-2 pi (pi/2) / STEP} */
#define GAUSS     0.4  /* largest step of g: e^{-2 pi^2 / GAUSS^2} */
#define DROP      45.0 /* terms below e^-DROP of the largest are left out */
#define WIDE      9.6  /* sqrt(2 DROP), rounded up */
#define OVERFLOWS 6.75 /* e^-e^x is 0 from here on */
#define GONE      90.0 /* e^-GONE is 0 beside anything it is added to */

/* The lattice of g: g_i = i h, i in [low, high], with weights h phi(g), times 1 and (g-q)^2, and
 * the sum of the weights from i upwards. q h = skip * delta: every skip-th point of the common
 * lattice will do where that is finer than these sums need. */
typedef struct gauss_lattice {
    double h;
    int64_t low, high, skip;
    double *one, *square, *above;
} gauss_lattice;

/* log Z is L + q^2/2, a little more where rare samples count, and once the scores are frozen,
 * q > sqrt(2L), q times the largest g, which is above sqrt(2(L+40)) with probability e^-40. */
static double highest_l(const es_scores *s, const es_scores_grid *grid)
{
    const double L = log(s->n), q = s->q, frozen = sqrt(2.0 * L);
    const double top =
        q > frozen ? q * sqrt(2.0 * (L + 40.0)) : fmax(L + 0.5 * q * q, q * (frozen + 1.0));
    return fmax(top, grid->extra_most) + 36.0;
}

static void choose_lattice(es_scores *s, const es_scores_grid *grid)
{
    s->delta = fmin(STEP, GAUSS * s->q);
    if (grid->extra_space > 0.0)
        s->delta = s->q * grid->extra_space / ceil(s->q * grid->extra_space / s->delta);
    s->stride = (int64_t)fmax(1.0, floor(STEP / s->delta));
    /* Between l and the largest of n scores lies a Gumbel variable of width q / sqrt(2 log n); in
     * the frozen phase that is what has to be resolved, unless a deterministic token is there. */
    if (isinf(grid->extra_most))
        s->stride *= (int64_t)fmax(1.0, floor(s->q / 9.0));
    s->step = s->delta * (double)s->stride;
    s->top_index = (int64_t)ceil(highest_l(s, grid) / s->delta);
    s->top = (double)s->top_index * s->delta;
    const double lowest = -WIDE * s->q - OVERFLOWS;
    s->count = (int64_t)((s->top - lowest) / s->step) + 1;
}

static void fill_gauss(const es_scores *s, gauss_lattice *g)
{
    double sum = 0.0;
    for (int64_t i = g->high; i >= g->low; i--) {
        const double x = (double)i * g->h;
        const double weight = 0.3989422804014327 * g->h * exp(-0.5 * x * x);
        g->one[i - g->low] = weight;
        g->square[i - g->low] = weight * (x - s->q) * (x - s->q);
        g->above[i - g->low] = sum += weight;
    }
}

static void fill_kernels(es_scores *s)
{
    for (int64_t i = s->kernel_low; i <= s->kernel_high; i++) {
        const double x = (double)i * s->delta, e = exp(x);
        s->kernel[0][i - s->kernel_low] = -expm1(-e);
        s->kernel[1][i - s->kernel_low] = exp(x - e);
        s->kernel[2][i - s->kernel_low] = exp(2.0 * x - e);
        s->kernel[3][i - s->kernel_low] = exp(4.0 * x - e);
    }
}

/* How far left of g = l/q the sum must reach: until e^{-g^2/2 + qg} is e^-DROP of its largest value
 * among g <= l/q, which it takes at g = min(q, l/q). */
static double leftmost(double q, double tau)
{
    const double a = 1.0 - tau / q;
    if (a <= 0.0)
        return q - WIDE;
    return tau - q * (sqrt(a * a + 2.0 * DROP / (q * q)) - a);
}

/* Row j: sums over g at l_j. */
static void sum_row(es_scores *s, const gauss_lattice *g, int64_t j)
{
    const int64_t at = s->top_index - j * s->stride; /* l_j / delta */
    const double tau = (double)at * s->delta / s->q;
    int64_t first = (int64_t)floor(leftmost(s->q, tau) / g->h);
    int64_t last = (int64_t)floor((double)(at + s->kernel_high) / (double)g->skip);
    first = first < g->low ? g->low : first;
    last = last > g->high ? g->high : last;
    const int64_t beyond = last + 1 < g->low ? g->low : last + 1; /* there 1 - e^-s is 1 */
    double tail = beyond <= g->high ? g->above[beyond - g->low] : 0.0;
    double m1 = 0.0, m2 = 0.0, m4 = 0.0, e2 = 0.0;
    for (int64_t i = first; i <= last; i++) {
        const int64_t x = i * g->skip - at - s->kernel_low, y = i - g->low;
        tail += g->one[y] * s->kernel[0][x];
        m1 += g->one[y] * s->kernel[1][x];
        m2 += g->one[y] * s->kernel[2][x];
        m4 += g->one[y] * s->kernel[3][x];
        e2 += g->square[y] * s->kernel[2][x];
    }
    s->tail[j] = tail, s->m1[j] = m1, s->m2[j] = m2, s->m4[j] = m4, s->e2[j] = e2;
}

static es_status carve(es_scores *s, gauss_lattice *g, void **gauss_memory, es_error *err)
{
    const int64_t kernels = s->kernel_high - s->kernel_low + 1, points = g->high - g->low + 1;
    ES_TRY(es_mem_array(s->budget, 6 * s->count + 4 * kernels, 1, sizeof(double), "score tables",
                        &s->memory, err));
    const es_status status =
        es_mem_array(s->budget, points, 3, sizeof(double), "score tables", gauss_memory, err);
    if (status != ES_OK) {
        es_scores_free(s);
        return status;
    }
    double **arrays[] = {&s->tail, &s->m1, &s->m2, &s->m4, &s->e2, &s->power};
    double *next = s->memory;
    for (int i = 0; i < 6; i++, next += s->count)
        *arrays[i] = next;
    for (int i = 0; i < 4; i++, next += kernels)
        s->kernel[i] = next;
    g->one = *gauss_memory;
    g->square = g->one + points;
    g->above = g->square + points;
    return ES_OK;
}

es_status es_scores_make(double n, double q, const es_scores_grid *grid, es_budget *budget,
                         es_scores *out, es_error *err)
{
    *out = (es_scores){.q = q, .n = n, .budget = budget};
    choose_lattice(out, grid);
    gauss_lattice g = {.skip = (int64_t)fmax(1.0, floor(fmin(STEP, GAUSS * q) / out->delta))};
    g.h = out->delta * (double)g.skip / q;
    g.low = (int64_t)floor(-(WIDE + 1.0) / g.h);
    g.high = (int64_t)ceil((fmin(out->top / q, 2.0 * q) + WIDE + OVERFLOWS / q) / g.h);
    out->kernel_low = g.low * g.skip - out->top_index;
    out->kernel_high = (int64_t)ceil(OVERFLOWS / out->delta);
    void *gauss_memory;
    ES_TRY(carve(out, &g, &gauss_memory, err));
    fill_gauss(out, &g);
    fill_kernels(out);
    int64_t j = 0;
    do
        sum_row(out, &g, j);
    while (n * out->tail[j++] < GONE && j < out->count);
    out->count = j;
    es_mem_free(budget, gauss_memory);
    return ES_OK;
}

void es_scores_free(es_scores *s)
{
    es_mem_free(s->budget, s->memory);
    s->memory = NULL;
}

double es_scores_power(double tail, double count)
{
    if (count <= 0.0)
        return 1.0;
    return tail >= 1.0 ? 0.0 : exp(count * log1p(-tail));
}
