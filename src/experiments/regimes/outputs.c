/* outputs.c : the output as a vector, below the critical scale, for keys with parts and
 * values V: predicted, and measured where all keys can be drawn. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view_at.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/regimes/question.h"
#include "linalg/linalg.h"

#define MOST_KEYS 1e5 /* of a replicate that is measured */
#define ALL_KEYS  2e6 /* about as many in all replicates of a cell */
enum { FEWEST = 40 };

/* ---- what is predicted: THEORY 6 ---- */

/* The law of the output of a cell and the directions it is looked at in. */
typedef struct prediction {
    int64_t dv;
    es_output_law law;
    double *directions; /* (3, dv) along, across, of the largest variance */
    double variance[ES_OUTPUT_DIRECTIONS], trace;
    double *memory;
} prediction;

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* x (n) to length 1; 0 stays 0, as does what is left of a difference of nearly equals. */
static void normalise(double *x, int64_t n, double least)
{
    const double norm = sqrt(dot(x, x, n));
    for (int64_t i = 0; i < n; i++)
        x[i] = norm > least ? x[i] / norm : 0.0;
}

/* Along V q, across from it towards V p, p being the second basis vector. */
static void aim(const es_view *V, prediction *p)
{
    double *along = p->directions, *across = along + p->dv;
    for (int64_t i = 0; i < p->dv; i++) {
        along[i] = V ? es_view_at(V, i, 0) : i == 0;
        across[i] = V ? es_view_at(V, i, 1) : i == 1;
    }
    const double size = sqrt(dot(across, across, p->dv));
    normalise(along, p->dv, 0.0);
    const double shared = dot(along, across, p->dv);
    for (int64_t i = 0; i < p->dv; i++)
        across[i] -= shared * along[i];
    normalise(across, p->dv, 1e-12 * size);
}

/* What the law says of these directions; the last is the eigenvector of the largest variance. */
static es_status look(prediction *p, double *values, double *vectors, es_mem_limit *budget,
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
            p->variance[k] += f[i] * dot(p->law.cov + i * dv, f, dv);
    }
    return ES_OK;
}

static const es_view *values_of(const es_job *job)
{
    const regimes_state *s = job->state;
    return s->V.data ? &s->V.view : NULL;
}

/* Release p->memory. *averages is false, and the rest undefined, where D overflows or beta is out
 * of range: there is nothing that averages. */
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
    aim(V, p);
    return look(p, values, values + dv, budget, err);
}

/* ---- what is measured ---- */

static const char *const columns_of_cell[] = {
    "along",       "along_se",       "across",       "across_se",  "largest",
    "largest_se",  "along_var",      "along_var_se", "across_var", "across_var_se",
    "largest_var", "largest_var_se", "trace",        "trace_se"};
enum { COLUMNS = sizeof columns_of_cell / sizeof *columns_of_cell };
_Static_assert(COLUMNS * sizeof(double) == sizeof(es_output_row), "every member is a column");

bool regimes_has_outputs(const es_job *job)
{
    const regimes_params *p = job->params;
    const regimes_state *s = job->state;
    const bool parts = p->law == REGIMES_VMF || p->law == REGIMES_MIXTURE;
    return parts || (p->law == REGIMES_UNIFORM && s->V.data);
}

/* Replicates of a cell: fewer where there are many keys. */
static int64_t replicates_of(const regimes_params *p, double n)
{
    const int64_t few = (int64_t)fmax(FEWEST, ALL_KEYS / n);
    return p->replicates < few ? p->replicates : few;
}

static es_status measure(const es_job *job, const regimes_cell *c, const prediction *law,
                         const es_exec *exec, double *out, es_error *err)
{
    es_output_row row;
    const es_regimes_opts opts = {job->seed, .keys = &c->keys,
                                  .replicates = replicates_of(job->params, (double)c->n),
                                  .exec = exec};
    ES_TRY(es_regimes_outputs(&opts, c->n, c->beta, values_of(job), law->directions, &row, err));
    memcpy(out, &row, sizeof row);
    return ES_OK;
}

static es_status run_output(es_job *job, int64_t i, const es_exec *exec, void *record,
                            es_error *err)
{
    double *out = record;
    const regimes_params *p = job->params;
    regimes_cell cell;
    prediction law;
    bool averages;
    for (int k = 0; k < COLUMNS; k++)
        out[k] = (double)NAN;
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    if ((double)cell.n > MOST_KEYS || p->replicates < 2)
        return ES_OK;
    es_status status = predict(job, &cell, &law, &averages, err);
    if (status == ES_OK && averages)
        status = measure(job, &cell, &law, exec, out, err);
    es_mem_free(job->exec.budget, law.memory);
    return status;
}

static double output_flops(const es_job *job)
{
    const regimes_params *p = job->params;
    double keys = 0.0;
    for (int64_t i = 0; i < p->n.count; i++)
        if (p->n.reals[i] <= MOST_KEYS)
            keys += p->n.reals[i] * (double)replicates_of(p, p->n.reals[i]);
    return 60.0 * p->dim.reals[p->dim.count - 1] * keys / (double)p->n.count;
}

es_status regimes_add_outputs(es_job *job, es_error *err)
{
    const bool any = regimes_has_outputs(job);
    return es_job_stage(job,
                        &(es_stage){"output", .phase = "drawing outputs", .noun = "cells",
                                    .cells = any ? job->stages[0].cells : 0, .rows = 1,
                                    .cols = COLUMNS, .columns = columns_of_cell,
                                    .flops = any ? output_flops(job) : 0.0, .run = run_output},
                        err);
}

/* ---- the table ---- */

#define MEASURED(key, title, definition, law)                                                      \
    {key, title, "", ES_FORMAT_REAL, definition, .error = key "_se"},                              \
    {                                                                                              \
        key "_law", "predicted", "", ES_FORMAT_REAL, law, .standing = ES_STANDING_PROVED           \
    }
#define FIRST_ORDER                                                                                \
    "mean of the tilted keys, with the first correction in 1/n (law of large numbers and "         \
    "delta method; good while averaging)"
#define LEADING "the same to leading order in 1/n (delta method; good while averaging)"

static const es_column columns[] = {
    {"dim", "dim", "", ES_FORMAT_COUNT},
    {"n", "n", "keys", ES_FORMAT_COUNT},
    {"beta", "beta", "", ES_FORMAT_SHORT, "inverse temperature"},
    {"replicates", "replicates", "", ES_FORMAT_COUNT,
     "in which all n keys were drawn; 0 above 1e5 keys"},
    {"ess_law", "ESS", "keys", ES_FORMAT_SHORT, "n exp(2 K(beta q) - K(2 beta q)): leading order",
     .standing = ES_STANDING_PROVED},
    MEASURED("along", "drift along",
             "mean of the output along V q, q the query (without --V along q itself)", FIRST_ORDER),
    {"along_limit", "limit", "", ES_FORMAT_REAL,
     "of infinitely many keys: V times the mean of keys of natural parameter kappa mu + beta q",
     .standing = ES_STANDING_PROVED},
    MEASURED("across", "drift across",
             "mean of the output beside that, towards V p, p orthogonal to q in the plane of the "
             "query and the parts' directions",
             FIRST_ORDER),
    {"across_limit", "limit", "", ES_FORMAT_REAL, "of infinitely many keys",
     .standing = ES_STANDING_PROVED},
    MEASURED("along_variance", "n Var along", "n times the variance of the output along V q",
             LEADING),
    MEASURED("across_variance", "n Var across", "n times that across", LEADING),
    MEASURED("largest_variance", "n Var largest",
             "n times that along the direction in which it is predicted to be largest", LEADING),
    MEASURED("trace", "n trace", "n times the sum of the variances of all coordinates", LEADING),
    {0}};
static const es_table_view views[] = {
    {"The output, while many keys share the weight",
     "dim n beta replicates ess_law along along_law "
     "along_limit across across_law across_limit"},
    {"Its fluctuations, times n",
     "dim n beta along_variance along_variance_law across_variance across_variance_law "
     "largest_variance largest_variance_law trace trace_law",
     "Keys of a part vMF(kappa, mu) tilted by beta q are vMF again. Predictions assume that many "
     "keys share the weight (regime: averaging); elsewhere they are off, and by how much is seen."},
    {0}};
static const es_table_spec outputs_table = {"outputs", columns, views, .keys = "dim n beta"};

static void put_pair(es_table *t, int64_t row, const char *key, es_estimate measured, double law)
{
    es_put_under(t, row, key, {"", measured.mean}, {"_se", measured.se}, {"_law", law});
}

static void put_row(const es_job *job, const regimes_cell *c, const prediction *p,
                    const es_output_row *m, es_table *t)
{
    const double *along = p->directions, *across = along + p->dv;
    const int64_t row = es_table_row(t);
    const bool drawn = isfinite(m->trace.mean);
    es_put(t, row, {"dim", (double)c->dim}, {"n", (double)c->n}, {"beta", c->beta},
           {"replicates", drawn ? (double)replicates_of(job->params, (double)c->n) : 0.0},
           {"ess_law", (double)c->n / p->law.spread},
           {"along_limit", dot(along, p->law.limit, p->dv)},
           {"across_limit", dot(across, p->law.limit, p->dv)});
    put_pair(t, row, "along", m->mean[ES_OUTPUT_ALONG], dot(along, p->law.mean, p->dv));
    put_pair(t, row, "across", m->mean[ES_OUTPUT_ACROSS], dot(across, p->law.mean, p->dv));
    put_pair(t, row, "along_variance", m->variance[ES_OUTPUT_ALONG], p->variance[ES_OUTPUT_ALONG]);
    put_pair(t, row, "across_variance", m->variance[ES_OUTPUT_ACROSS],
             p->variance[ES_OUTPUT_ACROSS]);
    put_pair(t, row, "largest_variance", m->variance[ES_OUTPUT_LARGEST],
             p->variance[ES_OUTPUT_LARGEST]);
    put_pair(t, row, "trace", m->trace, p->trace);
}

static es_status put_output(const es_job *job, int64_t i, es_table *t, es_error *err)
{
    regimes_cell cell;
    prediction p;
    es_output_row m;
    bool averages;
    ES_TRY(regimes_cell_of(job, i, &cell, err));
    memcpy(&m, es_job_numbers(job, 1, i), sizeof m);
    const es_status status = predict(job, &cell, &p, &averages, err);
    if (status == ES_OK && averages)
        put_row(job, &cell, &p, &m, t);
    es_mem_free(job->exec.budget, p.memory);
    return status;
}

/* Over the cells that average: elsewhere predictions do not claim to hold. */
static void tell_outputs(es_answer *a, const es_table *t)
{
    static const char *const keys[] = {"along",           "across",           "along_variance",
                                       "across_variance", "largest_variance", "trace"};
    double most = 0.0;
    int count = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int k = 0; k < 6 && es_table_get(t, i, "ess_law") >= ES_AVERAGES_KEYS; k++) {
            char se[40], law[40];
            snprintf(se, sizeof se, "%s_se", keys[k]);
            snprintf(law, sizeof law, "%s_law", keys[k]);
            const double z = fabs(es_table_get(t, i, keys[k]) - es_table_get(t, i, law)) /
                             es_table_get(t, i, se);
            most = isfinite(z) ? fmax(most, z) : most;
            count += isfinite(z);
        }
    if (count)
        es_answer_add_finding(
            a,
            "Of %d drifts and variances of the output, where 100 keys or more share the "
            "weight, the one that is farthest from its prediction is %.2g standard "
            "errors away.",
            count, most);
}

es_status regimes_put_outputs(es_job *job, es_answer *answer, es_error *err)
{
    if (!regimes_has_outputs(job))
        return ES_OK;
    es_table *t = es_answer_table(answer, &outputs_table);
    for (int64_t i = 0; i < job->stages[1].cells; i++)
        ES_TRY(put_output(job, i, t, err));
    tell_outputs(answer, t);
    return ES_OK;
}
