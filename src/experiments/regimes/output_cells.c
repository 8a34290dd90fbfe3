/* SPDX-License-Identifier: Apache-2.0 */
/* output_cells.c : the output of attention as a vector: draws all n keys of each replicate and
 * averages outputs and their fluctuations (THEORY 6). outputs.c has the prediction. */
#include "experiments/regimes/regimes.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/view_at.h"
#include "stats/average.h"

/* Outputs of all replicates, and a scratch column with a number for each. */
typedef struct outputs {
    int64_t count, dim, dv;
    const es_view *V;
    es_regimes_draw *draws;
    double *x;      /* (count, dim) before V */
    double *column; /* (count) */
    double *mean;   /* (dim) */
} outputs;

/* Returns mean and error of what is in the column. */
static es_measured average(const outputs *o) { return es_average_column(o->column, o->count, 1); }

/* Returns element i of V x. */
static double value_at(const outputs *o, const double *x, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = 0; o->V && j < o->dim; j++)
        sum += es_view_at(o->V, i, j) * x[j];
    return o->V ? sum : x[i];
}

/* Returns n times the variance of the column: the mean of its squared deviations. */
static es_measured variance(outputs *o, double mean, double n)
{
    const double unbiased = n * (double)o->count / ((double)o->count - 1.0);
    for (int64_t r = 0; r < o->count; r++)
        o->column[r] = unbiased * (o->column[r] - mean) * (o->column[r] - mean);
    return average(o);
}

/* Averages the outputs along each direction and their fluctuations; then n times the trace of the
 * covariance, from the squared distances to the mean output. */
static void sum_up(outputs *o, double n, const double *directions, es_output_row *out)
{
    for (int k = 0; k < ES_OUTPUT_DIRECTIONS; k++) {
        for (int64_t r = 0; r < o->count; r++) {
            o->column[r] = 0.0;
            for (int64_t i = 0; i < o->dv; i++)
                o->column[r] += directions[k * o->dv + i] * value_at(o, o->x + r * o->dim, i);
        }
        out->mean[k] = average(o);
        out->variance[k] = variance(o, out->mean[k].value, n);
    }
    for (int64_t j = 0; j < o->dim; j++)
        o->mean[j] = es_average_column(o->x + j, o->count, o->dim).value;
    for (int64_t r = 0; r < o->count; r++) {
        double *x = o->x + r * o->dim, square = 0.0;
        for (int64_t j = 0; j < o->dim; j++)
            x[j] -= o->mean[j];
        for (int64_t i = 0; i < o->dv; i++) {
            const double y = value_at(o, x, i);
            square += y * y;
        }
        o->column[r] = n * square * (double)o->count / ((double)o->count - 1.0);
    }
    out->trace = average(o);
}

/* Fails for keys that are points, a V of another dimension, or too few replicates. */
static es_status check(const es_regimes_opts *opts, const es_view *V, es_error *err)
{
    if (opts->points)
        return es_fail(err, ES_E_ARGUMENT, "regimes.points", "give a law of keys",
                       "keys are points, not a law");
    ES_TRY(es_keys_check(opts->keys, err));
    if (V && V->cols != opts->keys->dim)
        return es_fail(err, ES_E_SHAPE, "regimes.values", "V is (dv, dim)",
                       "V has %lld columns, keys have %lld", (long long)V->cols,
                       (long long)opts->keys->dim);
    if (opts->replicates < 2 || opts->replicates > 10000000)
        return es_fail(err, ES_E_RANGE, "regimes.replicates", "from 2 to 10^7", "%lld replicates",
                       (long long)opts->replicates);
    return ES_OK;
}

es_status es_regimes_outputs(const es_regimes_opts *opts, int64_t n, double beta, const es_view *V,
                             const double *directions, es_output_row *out, es_error *err)
{
    ES_TRY(check(opts, V, err));
    es_mem_limit *budget = opts->exec ? opts->exec->budget : NULL;
    es_regimes_opts all = *opts;
    outputs o = {.count = opts->replicates, .dim = opts->keys->dim, .V = V};
    o.dv = V ? V->rows : o.dim;
    ES_TRY(ES_MEM_NEW(budget, o.draws, o.count, "replicates", err));
    es_status status = ES_MEM_NEW_2D(budget, o.x, o.count + 1, o.dim + 1, "outputs", err);
    if (status == ES_OK) {
        o.column = o.x + o.count * o.dim;
        o.mean = o.column + o.count;
        all.method = ES_REGIMES_BRUTE;
        all.outputs = o.x;
        status = es_regimes_sample(&all, n, beta, o.draws, err);
    }
    if (status == ES_OK)
        sum_up(&o, (double)n, directions, out);
    es_mem_free(budget, o.x);
    es_mem_free(budget, o.draws);
    return status;
}
