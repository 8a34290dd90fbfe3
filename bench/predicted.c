/* SPDX-License-Identifier: Apache-2.0 */
/* predicted.c : errors of attention on n Gaussian tokens, measured, beside what theory.h predicts
 * without a fitted constant.
 *
 *     predicted [--quick] [--only haar|identity|population|general] [--cells]
 *
 * Both sides are the same functional: root mean square over replicates of |mean - limit|, of the
 * Frobenius norm of the covariance's error, and of the error of one output. `se` is the relative
 * standard error of the measured one, `off` is predicted/measured - 1, z is off/se. Four tables:
 *
 *   haar        A = H O, O uniformly random and new in every replicate (O = 1 in one dimension);
 *               the tokens are the queries
 *   identity    A = H I: every token attends to itself
 *   population  as haar, but for 8192 fresh queries, so that n is not the number of queries
 *   general     heads without symmetry, by es_predict_general()
 *
 * docs/TRUST.md quotes the output. Everything is a function of the seed below. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/random.h>

#include "experiments/converge/converge.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "theory/theory.h"
#include "tokens/spectrum.h"

enum { QUANTITIES = 3, SCALES = 6, MOST_CELLS = 256, MOST_DIM = 64, SEED = 20, QUERIES = 8192 };

#define TINY 1e-6 /* a score scale at which all weights are 1/n: the control */

static const char *const quantity_names[QUANTITIES] = {"query", "mean", "cov"};
static const double horizons[SCALES + 1] = {0.05, 0.2, 0.5, 1, 2, 5, TINY};
static es_error err;

static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "predicted: %s (%s)\n", err.message, err.hint);
    exit(1);
}

/* ---- root mean squares, with a control ----
 *
 * This is not the rms of fit.h, which `esscher converge` shows, but one with less noise. Beside x,
 * the square of an error, each replicate has a control c: the square of the mean error at score
 * scale 0, where outputs are the plain mean of the tokens and E c = tr S / n is known. Where a
 * sample's mean is off by chance, x and c are off together, so the least-squares line of x on c,
 * read at E c instead of at the c that came out, has the same expectation to order 1/N and the
 * variance of the residuals alone: (1 - corr^2) of that of x. */

/* Moments over replicates. */
typedef struct squares {
    double x, c, xx, xc, cc; /* sums; of x and c, of their products */
    int64_t count;
} squares;

typedef struct cell {
    squares of[QUANTITIES];
} cell;

static void add_square(squares *s, double error, double control)
{
    const double x = error * error, c = control * control;
    s->x += x;
    s->c += c;
    s->xx += x * x;
    s->xc += x * c;
    s->cc += c * c;
    s->count++;
}

static void add_replicate(cell *to, const es_converge_cell *from, const es_converge_cell *control)
{
    add_square(&to->of[0], from->map_error, control->mean_error);
    add_square(&to->of[1], from->mean_error, control->mean_error);
    add_square(&to->of[2], from->cov_frobenius, control->mean_error);
}

/* The root of the mean of x at `expected`, on that line, and its relative standard error: half that
 * of the mean, d sqrt(x)/sqrt(x) = dx/(2x); a line leaves N - 2 degrees of freedom. */
static double root_mean(const squares *s, double expected, double *se)
{
    const double N = (double)s->count, x = s->x / N, c = s->c / N;
    const double xx = s->xx / N - x * x, xc = s->xc / N - x * c, cc = s->cc / N - c * c;
    const double slope = xc / cc, mean = x - slope * (c - expected);
    *se = 0.5 * sqrt(fmax(xx - slope * xc, 0.0) / (N - 2.0)) / mean;
    return sqrt(mean);
}

/* ---- a table and its summary ---- */

typedef struct table {
    bool cells; /* print every cell */
    int count;
    double off[QUANTITIES][MOST_CELLS], se[QUANTITIES][MOST_CELLS];
} table;

static void begin(table *t, const char *title)
{
    t->count = 0;
    printf("\n%s\n", title);
    if (!t->cells)
        return;
    printf("%-20s %6s %6s", "", "n", "reps");
    for (int q = 0; q < QUANTITIES; q++)
        printf(" | %9s %5s %9s %6s %5s", quantity_names[q], "se %", "predicted", "off %", "z");
    printf("\n");
}

/* trace: that of the tokens' covariance, in the metric of outputs. */
static void compare(table *t, const char *name, int64_t n, double trace, const cell *c,
                    const es_predicted *p)
{
    const double predicted[QUANTITIES] = {p->query_rms, p->mean_rms, p->cov_rms};
    if (t->cells)
        printf("%-20s %6lld %6lld", name, (long long)n, (long long)c->of[0].count);
    for (int q = 0; q < QUANTITIES; q++) {
        double se;
        const double measured = root_mean(&c->of[q], trace / (double)n, &se);
        const double off = predicted[q] / measured - 1.0;
        t->off[q][t->count] = off;
        t->se[q][t->count] = se;
        if (t->cells)
            printf(" | %9.4g %5.2f %9.4g %6.2f %5.1f", measured, 100.0 * se, predicted[q],
                   100.0 * off, off / se);
    }
    if (t->cells)
        printf("\n");
    t->count++;
    fflush(stdout);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Order statistic of |off| less `allowed` standard errors, in per cent. */
static double quantile(const table *t, int q, double allowed, double level)
{
    double x[MOST_CELLS];
    for (int i = 0; i < t->count; i++)
        x[i] = 100.0 * fmax(0.0, fabs(t->off[q][i]) - allowed * t->se[q][i]);
    qsort(x, (size_t)t->count, sizeof x[0], ascending);
    const int at = (int)ceil(level * t->count) - 1;
    return x[at < 0 ? 0 : at];
}

static double median_se(const table *t, int q)
{
    double x[MOST_CELLS];
    memcpy(x, t->se[q], sizeof x);
    qsort(x, (size_t)t->count, sizeof x[0], ascending);
    return 100.0 * x[(t->count - 1) / 2];
}

static void end(const table *t)
{
    printf("%d cells, per cent          median se   |off|: median   90 %%    max   beyond one se: "
           "median   90 %%    max\n",
           t->count);
    for (int q = 0; q < QUANTITIES; q++)
        printf("%-27s %9.2f %15.2f %6.2f %6.2f %22.2f %6.2f %6.2f\n", quantity_names[q],
               median_se(t, q), quantile(t, q, 0, 0.5), quantile(t, q, 0, 0.9),
               quantile(t, q, 0, 1), quantile(t, q, 1, 0.5), quantile(t, q, 1, 0.9),
               quantile(t, q, 1, 1));
    fflush(stdout);
}

/* ---- isotropic heads ---- */

/* O of one replicate: uniformly random, or the identity. */
static void rotation(int64_t d, bool haar, int64_t number, double *o)
{
    memset(o, 0, (size_t)(d * d) * sizeof *o);
    for (int64_t i = 0; i < d; i++)
        o[i * d + i] = 1.0;
    if (!haar || d == 1)
        return;
    static double normals[MOST_DIM * MOST_DIM];
    const es_address at = {.seed = SEED, .experiment = 10, .cell = (uint64_t)number};
    must(es_normal_rows(&at, d, d, normals, &err));
    must(es_haar_make(normals, d, NULL, o, &err));
}

/* All horizons at one d and n. */
static void measure_isotropic(int64_t d, int64_t n, bool haar, bool population, int64_t replicates,
                              cell *cells)
{
    static double o[MOST_DIM * MOST_DIM];
    const es_view a = es_view_f64(o, d, d);
    const es_head head = {.A = &a};
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = d, .size = 1.0};
    const es_converge_spec spec = {.law = &law,
                                   .head = &head,
                                   .scales = horizons,
                                   .n_scales = SCALES + 1,
                                   .sizes = &n,
                                   .n_sizes = 1,
                                   .seed = SEED,
                                   .population = population,
                                   .queries = population ? QUERIES : 0};
    memset(cells, 0, SCALES * sizeof *cells);
    for (int64_t r = 0; r < replicates; r++) {
        es_converge_limit *limit;
        es_converge_cell out[SCALES + 1];
        rotation(d, haar, r, o);
        must(es_converge_limit_new(&spec, &limit, &err));
        must(es_converge_replicate(&spec, limit, r, out, &err));
        es_converge_limit_free(limit);
        for (int s = 0; s < SCALES; s++)
            add_replicate(&cells[s], &out[s], &out[SCALES]);
    }
}

/* The mean over m queries has the variance of that over infinitely many, and an m-th of what is
 * each query's own. */
static es_predicted with_finite_queries(es_predicted p)
{
    const double own = p.query_rms * p.query_rms - p.mean_rms * p.mean_rms;
    p.mean_rms = sqrt(p.mean_rms * p.mean_rms + own / QUERIES);
    return p;
}

static void compare_isotropic(table *t, int64_t d, int64_t n, bool haar, bool population,
                              int64_t replicates)
{
    cell cells[SCALES];
    measure_isotropic(d, n, haar, population, replicates, cells);
    for (int s = 0; s < SCALES; s++) {
        es_prediction p;
        char name[32];
        must(es_predict_isotropic(d, horizons[s], haar ? ES_ROTATION_HAAR : ES_ROTATION_NONE,
                                  (double)n, NULL, &p, NULL, &err));
        const es_predicted x = population ? with_finite_queries(p.population) : p.self;
        snprintf(name, sizeof name, "d=%-3lld H=%g", (long long)d, horizons[s]);
        compare(t, name, n, (double)d, &cells[s], &x);
    }
}

/* ---- heads without symmetry ---- */

/* A covariance, random Wq, Wk (k, d) and, for some, V, all from addresses. */
typedef struct example {
    const char *name;
    es_spectrum spectrum;
    int64_t k;
    double scale; /* on A */
    bool values;
} example;

static const example examples[] = {
    {"power law d=32",
     {.kind = ES_SPECTRUM_POWER, .dim = 32, .level = 1.0, .decay = 1.0},
     .k = 8,
     .scale = 0.5},
    {"power law d=6",
     {.kind = ES_SPECTRUM_POWER, .dim = 6, .level = 1.0, .decay = 1.5},
     .k = 6,
     .scale = 1.0},
    {"rank 3 of 24",
     {.kind = ES_SPECTRUM_LOW_RANK, .dim = 24, .level = 1.0, .rank = 3, .floor = 0.01},
     .k = 24,
     .scale = 0.5},
    {"Toeplitz d=16, V",
     {.kind = ES_SPECTRUM_TOEPLITZ, .dim = 16, .level = 1.0, .correlation = 0.7},
     .k = 4,
     .scale = 0.2,
     .values = true},
};

static es_view random_matrix(uint64_t purpose, int64_t rows, int64_t cols, double size, double *out)
{
    const es_address at = {.seed = SEED, .experiment = 10, .cell = (UINT64_C(1) << 40) + purpose};
    must(es_normal_rows(&at, rows, cols, out, &err));
    for (int64_t i = 0; i < rows * cols; i++)
        out[i] *= size;
    return es_view_f64(out, rows, cols);
}

static void measure_general(const es_converge_spec *spec, int64_t replicates, cell *c)
{
    es_converge_limit *limit;
    memset(c, 0, sizeof *c);
    must(es_converge_limit_new(spec, &limit, &err));
    for (int64_t r = 0; r < replicates; r++) {
        es_converge_cell out[2];
        must(es_converge_replicate(spec, limit, r, out, &err));
        add_replicate(c, &out[0], &out[1]);
    }
    es_converge_limit_free(limit);
}

/* tr VSV'. */
static double output_trace(const es_view *cov, const es_view *v)
{
    double sum = 0.0;
    for (int64_t i = 0; i < cov->rows; i++)
        for (int64_t j = 0; j < cov->rows; j++) {
            double vv = v ? 0.0 : (double)(i == j);
            for (int64_t c = 0; v && c < v->rows; c++)
                vv += es_view_get(v, c, i) * es_view_get(v, c, j);
            sum += vv * es_view_get(cov, i, j);
        }
    return sum;
}

static void compare_general(table *t, int number, int64_t n, int64_t replicates)
{
    static double wq[MOST_DIM * MOST_DIM], wk[MOST_DIM * MOST_DIM], values[MOST_DIM * MOST_DIM];
    const example *x = &examples[number];
    const int64_t d = x->spectrum.dim;
    const uint64_t at = 4 * (uint64_t)number;
    es_covariance cov;
    must(es_covariance_make(&x->spectrum, NULL, &cov, &err));
    const es_view q = random_matrix(at, x->k, d, x->scale, wq);
    const es_view k = random_matrix(at + 1, x->k, d, 1.0, wk);
    const es_view v = random_matrix(at + 2, d, d, 1.0 / sqrt((double)d), values);
    const es_head head = {.Wq = &q, .Wk = &k, .V = x->values ? &v : NULL};
    const es_view matrix = es_view_f64(cov.matrix, d, d);
    es_horizons h;
    es_prediction p;
    must(es_horizons_of(&matrix, 0.0, &head, NULL, &h, &err));
    must(es_predict_general(&matrix, 0.0, &head, (double)n, NULL, NULL, &p, NULL, &err));
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = d, .size = 1.0, .factor = cov.factor};
    const double scales[2] = {1.0, TINY};
    const es_converge_spec spec = {.law = &law,
                                   .head = &head,
                                   .scales = scales,
                                   .n_scales = 2,
                                   .sizes = &n,
                                   .n_sizes = 1,
                                   .seed = SEED + 1 + (uint64_t)number};
    cell c;
    measure_general(&spec, replicates, &c);
    compare(t, x->name, n, output_trace(&matrix, head.V), &c, &p.self);
    if (t->cells)
        printf("%20s H %.2f, F %.2f, tr M %.2f; sampling leaves %.1f %% in the prediction\n", "",
               h.horizon.val, h.frobenius.val, h.trace, 100.0 * p.sampling);
    es_covariance_free(&cov);
}

/* ---- the four tables ---- */

static const int64_t dims[] = {1, 2, 10, 50}, sizes[] = {100, 1000, 4000};

/* Replicates: in d dimensions one of them is worth about d, and n costs n^2. */
static int64_t replicates_of(int64_t d, int64_t n, double wanted)
{
    const double cost = fmax(0.2, (double)n * (double)n / 1e6), worth = fmin(10.0, (double)d);
    return (int64_t)fmax(wanted / 60.0, wanted / cost / worth);
}

static void table_isotropic(table *t, const char *title, bool haar, double wanted, int sizes_used)
{
    begin(t, title);
    for (int i = haar ? 0 : 1; i < 4; i++)
        for (int j = 0; j < sizes_used; j++)
            compare_isotropic(t, dims[i], sizes[j], haar, false,
                              replicates_of(dims[i], sizes[j], wanted));
    end(t);
}

static void table_population(table *t, double wanted)
{
    begin(t, "population: A = H O, fresh queries");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            compare_isotropic(t, dims[i], sizes[j], true, true,
                              (int64_t)fmax(20.0, wanted / (j ? 45.0 : 6.0)));
    end(t);
}

static void table_general(table *t, double wanted, int sizes_used)
{
    begin(t, "general: random heads, the tokens are the queries");
    for (int i = 0; i < (int)(sizeof examples / sizeof examples[0]); i++)
        for (int j = 0; j < sizes_used; j++)
            compare_general(t, i, sizes[j], replicates_of(5, sizes[j], wanted));
    end(t);
}

static int usage(void)
{
    fprintf(stderr, "usage: predicted [--quick] [--cells] [--only TABLE]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static table t;
    const char *only = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--cells"))
            t.cells = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            only = argv[++i];
        else
            return usage();
    }
    const double wanted = quick ? 300.0 : 9000.0;
    const int all = quick ? 2 : 3; /* quick: without n = 4000 */
    if (!only || !strcmp(only, "haar"))
        table_isotropic(&t, "haar: A = H O, the tokens are the queries", true, wanted, all);
    if (!only || !strcmp(only, "identity"))
        table_isotropic(&t, "identity: A = H I, the tokens are the queries", false, wanted / 4.0,
                        2);
    if (!only || !strcmp(only, "population"))
        table_population(&t, wanted);
    if (!only || !strcmp(only, "general"))
        table_general(&t, wanted, all);
    return 0;
}
