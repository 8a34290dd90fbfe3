/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c : table "outputs": the output as a vector below the critical scale, for keys with parts
 * and values V: predicted, and measured where all keys can be drawn (THEORY 6). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/vectors.h"
#include "base/view_at.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/regimes/regimes.h"
#include "linalg/linalg.h"

#define MOST_KEYS 1e5 /* largest n that is measured */
#define ALL_KEYS  2e6 /* keys of all replicates of a cell, about */
enum { FEWEST = 40 }; /* replicates of a cell at least, if --replicates allows */

/* ---- prediction ---- */

/* The law of the output of a cell, and the directions along which it is compared. */
typedef struct prediction {
    int64_t dv;
    es_output_law law;
    double *directions; /* (3, dv) along, across, of the largest variance */
    double variance[ES_OUTPUT_DIRECTIONS], trace;
    double *memory;
} prediction;

/* Scales x (n) to length 1, or sets it to 0 if its length is at most `least`: rounding is all that
 * remains of a difference of nearly equal vectors. */
static void normalise(double *x, int64_t n, double least)
{
    const double norm = sqrt(es_dot(x, x, n));
    for (int64_t i = 0; i < n; i++)
        x[i] = norm > least ? x[i] / norm : 0.0;
}

/* Sets the first two directions: along V q, and orthogonal to it towards V p, p the second basis
 * vector. */
static void set_directions(const es_view *V, prediction *p)
{
    double *along = p->directions, *across = along + p->dv;
    for (int64_t i = 0; i < p->dv; i++) {
        along[i] = V ? es_view_at(V, i, 0) : i == 0;
        across[i] = V ? es_view_at(V, i, 1) : i == 1;
    }
    const double size = sqrt(es_dot(across, across, p->dv));
    normalise(along, p->dv, 0.0);
    const double shared = es_dot(along, across, p->dv);
    for (int64_t i = 0; i < p->dv; i++)
        across[i] -= shared * along[i];
    normalise(across, p->dv, 1e-12 * size);
}

/* Computes the variances along the directions; the third is the eigenvector of the largest one. */
static es_status set_variances(prediction *p, double *values, double *vectors, es_mem_limit *budget,
                               es_error *err)
{
    const int64_t dv = p->dv;
    const es_view cov = es_view_f64(p->law.cov, dv, dv);
    ES_TRY(es_sym_eigen(&cov, budget, values, vectors, err));
    memcpy(p->directions + ES_OUTPUT_LARGEST * dv, vectors + (dv - 1) * dv,
           (size_t)dv * sizeof(double));
    p->trace = 0.0;
    for (int64_t i = 0; i < dv; i++)
        p->trace += p->law.cov[i * dv + i];
    for (int k = 0; k < ES_OUTPUT_DIRECTIONS; k++) {
        const double *f = p->directions + k * dv;
        p->variance[k] = 0.0;
        for (int64_t i = 0; i < dv; i++)
            p->variance[k] += f[i] * es_dot(p->law.cov + i * dv, f, dv);
    }
    return ES_OK;
}

/* Returns the values V; NULL stands for the identity. */
static const es_view *values_of(const es_job *job)
{
    const regimes_state *s = job->state;
    return s->V.data ? &s->V.view : NULL;
}

/* Predicts the output of a cell. *averages is false, and the prediction undefined, if D overflows
 * or beta is out of range: too few keys share the weight. The caller frees p->memory. */
static es_status predict(const es_job *job, const regimes_cell *c, prediction *p, bool *averages,
                         es_error *err)
{
    const es_view *V = values_of(job);
    es_mem_limit *budget = job->exec.budget;
    const int64_t dv = V ? V->rows : c->keys.dim;
    *p = (prediction){.dv = dv};
    ES_TRY(ES_MEM_NEW_2D(budget, p->memory, 2 * dv + 3 + ES_OUTPUT_DIRECTIONS, dv, "outputs", err));
    p->law.limit = p->memory;
    p->law.mean = p->law.limit + dv;
    p->directions = p->law.mean + dv;
    p->law.cov = p->directions + ES_OUTPUT_DIRECTIONS * dv;
    double *values = p->law.cov + dv * dv;
    const es_status status =
        es_average_of(&c->keys, (double)c->n, c->beta, V, budget, &p->law, err);
    *averages = status == ES_OK;
    if (status != ES_OK)
        return status == ES_E_OVERFLOW || status == ES_E_RANGE ? ES_OK : status;
    set_directions(V, p);
    return set_variances(p, values, values + dv, budget, err);
}

/* ---- cells ---- */

#define FIELD(name, member)                                                                        \
    {                                                                                              \
        name, offsetof(es_output_row, member), sizeof((es_output_row *)0)->member, true            \
    }
static const es_cell_field cell_fields[] = {FIELD("along", mean[ES_OUTPUT_ALONG]),
                                            FIELD("across", mean[ES_OUTPUT_ACROSS]),
                                            FIELD("largest", mean[ES_OUTPUT_LARGEST]),
                                            FIELD("along_var", variance[ES_OUTPUT_ALONG]),
                                            FIELD("across_var", variance[ES_OUTPUT_ACROSS]),
                                            FIELD("largest_var", variance[ES_OUTPUT_LARGEST]),
                                            FIELD("trace", trace),
                                            {0}};

bool regimes_has_outputs(const es_job *job)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    const bool parts = p->law == REGIMES_VMF || p->law == REGIMES_MIXTURE;
    return parts || (p->law == REGIMES_UNIFORM && s->V.data);
}

/* Returns the replicates of a cell: fewer for many keys. */
static int64_t replicates_of(const regimes_params *p, double n)
{
    const int64_t few = (int64_t)fmax(FEWEST, ALL_KEYS / n);
    return p->replicates < few ? p->replicates : few;
}

/* Measures the output of a cell; NaN where too many keys would have to be drawn. */
static es_status run_output(es_job *job, int64_t i, const es_exec *exec, void *record,
                            es_error *err)
{
    const regimes_params *p = job->params;
    es_output_row *out = record;
    regimes_cell cell;
    prediction law;
    bool averages;
    const es_measured none = {(double)NAN, (double)NAN};
    *out = (es_output_row){{none, none, none}, {none, none, none}, none};
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    if ((double)cell.n > MOST_KEYS || p->replicates < 2)
        return ES_OK;
    const es_regimes_opts opts = {job->seed, .keys = &cell.keys,
                                  .replicates = replicates_of(p, (double)cell.n), .exec = exec};
    es_status status = predict(job, &cell, &law, &averages, err);
    if (status == ES_OK && averages)
        status =
            es_regimes_outputs(&opts, cell.n, cell.beta, values_of(job), law.directions, out, err);
    es_mem_free(job->exec.budget, law.memory);
    return status;
}

/* Returns the operations of a cell, mean over n. Measured: a key takes 1.7 microseconds for any
 * number of coordinates from 4 to 16, at 110 operations per nanosecond. */
static double output_flops(const es_job *job)
{
    const regimes_params *p = job->params;
    double keys = 0.0;
    for (int64_t i = 0; i < p->n.count; i++)
        if (p->n.reals[i] <= MOST_KEYS)
            keys += p->n.reals[i] * (double)replicates_of(p, p->n.reals[i]);
    return 190e3 * keys / (double)p->n.count;
}

es_status regimes_add_outputs(es_job *job, es_error *err)
{
    const bool any = regimes_has_outputs(job);
    return es_job_stage(job,
                        &(es_stage){"output", .phase = "drawing outputs", .noun = "cells",
                                    .cells = any ? job->stages[0].cells : 0, .rows = 1,
                                    ES_RECORD(es_output_row, cell_fields),
                                    .flops = any ? output_flops(job) : 0.0, .run = run_output},
                        err);
}

/* ---- rows ---- */

/* A measured number beside its prediction. */
typedef struct predicted {
    es_measured measured;
    double law;
} predicted;

/* A row of the table of outputs: mean and n times the variance along and across the query, measured
 * and predicted. */
typedef struct table_row {
    int64_t dim, n;
    double beta;
    int64_t replicates;
    double ess_law, along_limit, across_limit;
    predicted along, across, along_variance, across_variance, largest_variance, trace;
} table_row;

#define PREDICTED(member, title, definition, law_)                                                 \
    ES_COL_KEY(table_row, member.measured, #member, ES_FORMAT_REAL, title, "", definition),        \
        ES_COL_KEY(table_row, member.law, #member "_law", ES_FORMAT_REAL, "predicted", "", law_,   \
                   .standing = ES_STANDING_PROVED)
#define FIRST_ORDER                                                                                \
    "mean of the tilted keys, with the first correction in 1/n (law of large numbers and "         \
    "delta method; good while averaging)"
#define LEADING "to leading order in 1/n (delta method; good while averaging)"

static const es_column columns[] = {
    ES_COL(table_row, dim, ES_FORMAT_COUNT, "dim", ""),
    ES_COL(table_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL(table_row, beta, ES_FORMAT_SHORT, "beta", "", "inverse temperature"),
    ES_COL(table_row, replicates, ES_FORMAT_COUNT, "replicates", "",
           "in which all n keys were drawn; 0 above 1e5 keys"),
    ES_COL(table_row, ess_law, ES_FORMAT_SHORT, "ESS", "keys",
           "`n exp(2 K(beta q) - K(2 beta q))`: leading order", .standing = ES_STANDING_PROVED),
    PREDICTED(along, "drift along",
              "mean of the output along V q, q the query (without --Wv along q itself)",
              FIRST_ORDER),
    ES_COL(table_row, along_limit, ES_FORMAT_REAL, "limit", "",
           "for infinitely many keys: V times the mean of keys of natural parameter kappa mu + "
           "beta q",
           .standing = ES_STANDING_PROVED),
    PREDICTED(across, "drift across",
              "mean of the output orthogonal to that, towards V p, p orthogonal to q in the plane "
              "of the query and the directions of the parts",
              FIRST_ORDER),
    ES_COL(table_row, across_limit, ES_FORMAT_REAL, "limit", "", "for infinitely many keys",
           .standing = ES_STANDING_PROVED),
    PREDICTED(along_variance, "n Var along", "n times the variance of the output along V q",
              LEADING),
    PREDICTED(across_variance, "n Var across", "n times the variance across", LEADING),
    PREDICTED(largest_variance, "n Var largest",
              "n times the variance along the direction in which it is predicted to be largest",
              LEADING),
    PREDICTED(trace, "n trace", "n times the sum of the variances of all coordinates", LEADING),
    {0}};
static const es_table_view views[] = {
    {"The output, while many keys share the weight",
     "dim n beta replicates ess_law along along_law "
     "along_limit across across_law across_limit"},
    {"Its fluctuations, times n",
     "dim n beta along_variance along_variance_law across_variance across_variance_law "
     "largest_variance largest_variance_law trace trace_law",
     "Keys of a part vMF(kappa, mu) tilted by beta q are vMF again. Predictions assume that many "
     "keys share the weight (regime: averaging); elsewhere they deviate, as the table shows."},
    {0}};
static const es_table_spec outputs_table = {"outputs", columns, views, ES_ROW(table_row),
                                            .keys = "dim n beta"};

/* Fills a setting; what was not measured is NaN, with 0 replicates. */
static void fill_row(const es_job *job, const regimes_cell *c, const prediction *p,
                     const es_output_row *m, table_row *r)
{
    const double *along = p->directions, *across = along + p->dv;
    const double *var = p->variance;
    const bool drawn = isfinite(m->trace.value);
    r->dim = c->dim;
    r->n = c->n;
    r->beta = c->beta;
    r->replicates = drawn ? replicates_of(job->params, (double)c->n) : 0;
    r->ess_law = (double)c->n / p->law.spread;
    r->along_limit = es_dot(along, p->law.limit, p->dv);
    r->across_limit = es_dot(across, p->law.limit, p->dv);
    r->along = (predicted){m->mean[ES_OUTPUT_ALONG], es_dot(along, p->law.mean, p->dv)};
    r->across = (predicted){m->mean[ES_OUTPUT_ACROSS], es_dot(across, p->law.mean, p->dv)};
    r->along_variance = (predicted){m->variance[ES_OUTPUT_ALONG], var[ES_OUTPUT_ALONG]};
    r->across_variance = (predicted){m->variance[ES_OUTPUT_ACROSS], var[ES_OUTPUT_ACROSS]};
    r->largest_variance = (predicted){m->variance[ES_OUTPUT_LARGEST], var[ES_OUTPUT_LARGEST]};
    r->trace = (predicted){m->trace, p->trace};
}

/* Adds the row of cell i, if its keys average. */
static es_status add_row(const es_job *job, int64_t i, es_table *t, es_error *err)
{
    regimes_cell cell;
    prediction p;
    bool averages;
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    const es_status status = predict(job, &cell, &p, &averages, err);
    table_row *r = status == ES_OK && averages ? es_rows_add(t, table_row) : NULL;
    if (r)
        fill_row(job, &cell, &p, es_job_cell(job, 1, i), r);
    es_mem_free(job->exec.budget, p.memory);
    return status;
}

/* Settings that do not average are left out: there the predictions do not claim to hold. */
static void add_distances(const table_row *r, regimes_distances *out)
{
    const predicted *all[] = {&r->along,           &r->across,           &r->along_variance,
                              &r->across_variance, &r->largest_variance, &r->trace};
    for (size_t k = 0; k < sizeof all / sizeof *all && r->ess_law >= ES_AVERAGES_KEYS; k++)
        regimes_add_distance(out, all[k]->measured, all[k]->law);
}

es_status regimes_fill_outputs(es_job *job, es_answer *answer, regimes_distances *out,
                               es_error *err)
{
    es_table *t = es_answer_table(answer, &outputs_table);
    for (int64_t i = 0; i < job->stages[1].cells; i++)
        ES_TRY(add_row(job, i, t, err));
    const table_row *rows = es_rows(t, table_row);
    for (int64_t i = 0; i < es_table_rows(t); i++)
        add_distances(&rows[i], out);
    return ES_OK;
}
