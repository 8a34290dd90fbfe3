/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : the list of claims, and trials, which many claims are made of. */
#include <math.h>

#include "base/error.h"
#include "experiments/claims/claim_kit.h"
#include "experiments/claims/claims.h"
#include "experiments/converge/converge.h"
#include "linalg/linalg.h"
#include "random/experiment.h"

static const es_claim_entry *const tables[] = {
    es_claims_gaussian, es_claims_exponents, es_claims_ball,    es_claims_hardmax,
    es_claims_sphere,   es_claims_regimes,   es_claims_average, es_claims_collapse,
    es_claims_rope,     es_claims_sparse,    es_claims_habits};

const char es_paper_a[] = "Token Sample Complexity of Attention";
const char es_paper_b[] = "Scaling Limits of Long-Context Transformers";
const char es_paper_c[] = "Critical attention scaling in long-context transformers";
const char es_paper_d[] = "Effective Long-Context Scaling of Foundation Models";

/* Which text of each paper was available. */
static const es_claim_paper papers[] = {
    {es_paper_a, "2512.10656",
     "abstract, first page, public summaries and public code; not the full text"},
    {es_paper_b, "2605.08505", "abstract only; not the theorems"},
    {es_paper_c, "2510.05554", "detailed reading notes; not the full text"},
    {es_paper_d, "2309.16039", "notes on each section; not the full text"}};

const es_claim_paper *es_claim_papers(int64_t *count)
{
    *count = COUNT(papers);
    return papers;
}

/* A table is about one subject; groups come one after the other. */
static const es_claim_entry *entry_at(int64_t index)
{
    for (int group = 0; group < ES_CLAIM_GROUPS; group++)
        for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
            for (const es_claim_entry *e = tables[t]; e->claim.id; e++)
                if ((int)e->claim.group == group && index-- == 0)
                    return e;
    return NULL;
}

int64_t es_claims_count(void)
{
    int64_t count = 0;
    while (entry_at(count))
        count++;
    return count;
}

const char *es_claim_id_at(int64_t at)
{
    const es_claim *claim = es_claim_at(at);
    return claim ? claim->id : NULL;
}

const es_claim *es_claim_at(int64_t index)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    return e ? &e->claim : NULL;
}

es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    if (!e)
        return es_fail(err, ES_E_RANGE, "claims.index", "see es_claims_count()",
                       "there is no claim %lld", (long long)index);
    *out = (es_finding){0};
    ES_TRY(e->check(opts, out, err));
    es_finding_conclude(out, e->claim.group);
    return ES_OK;
}

static es_status array(es_trial *t, int64_t rows, int64_t cols, double **out, es_error *err)
{
    return ES_ARENA_NEW_2D(&t->arena, *out, rows, cols, "numbers of a claim", err);
}

/* ---- trials: the experiment ---- */

es_status es_trial_run(const es_claim_opts *opts, const es_trial_spec *spec, es_trial *out,
                       es_error *err)
{
    const int64_t cells = spec->n_scales * spec->n_sizes;
    es_converge_limit *limit;
    *out =
        (es_trial){.spec = *spec,
                   .opts = *opts,
                   .law = {.kind = ES_LAW_GAUSSIAN, .dim = spec->dim, .size = sqrt(spec->variance)},
                   .arena = {.budget = es_claim_budget(opts)}};
    out->converge = (es_converge_spec){&out->law,
                                       .head = &out->drawn.head,
                                       .scales = spec->scales,
                                       .n_scales = spec->n_scales,
                                       .sizes = spec->sizes,
                                       .n_sizes = spec->n_sizes,
                                       .seed = opts->seed,
                                       .population = spec->population,
                                       .reference = spec->reference,
                                       .exec = opts->exec};
    const es_address at = {.seed = opts->seed, .experiment = ES_EXPERIMENT_HEAD};
    ES_TRY(es_head_draw(spec->head, &at, spec->dim, out->arena.budget, &out->drawn, err));
    ES_TRY(ES_ARENA_NEW_2D(&out->arena, out->cells, spec->replicates, cells, "cells", err));
    ES_TRY(es_converge_limit_new(&out->converge, &limit, err));
    es_status status = ES_OK;
    for (int64_t r = 0; r < spec->replicates && status == ES_OK; r++)
        status = es_converge_replicate(&out->converge, limit, r, out->cells + r * cells, err);
    es_converge_limit_free(limit);
    return status;
}

void es_trial_free(es_trial *trial)
{
    es_head_data_free(&trial->drawn);
    es_arena_free(&trial->arena);
}

es_status es_trial_with(const es_claim_opts *opts, const es_trial_spec *spec, es_trial_fn gather,
                        es_finding *out, es_error *err)
{
    es_trial trial;
    es_status status = es_trial_run(opts, spec, &trial, err);
    if (status == ES_OK)
        status = gather(&trial, out, err);
    es_trial_free(&trial);
    return status;
}

/* ---- trials: what they showed ---- */

/* An error at scale s, not yet fitted; memory is the trial's. */
static es_status gather(es_trial *t, int64_t s, es_trial_error which, es_series *out, es_error *err)
{
    static const int errors[] = {CONVERGE_MEAN, CONVERGE_COV, CONVERGE_MAP};
    ES_TRY(es_series_new(&t->arena, t->spec.replicates, t->spec.n_sizes, out, err));
    es_converge_gather(&t->converge, t->cells, s, errors[which], out);
    return ES_OK;
}

es_status es_trial_rate(es_trial *t, int64_t s, es_trial_error which, es_measured *out,
                        es_error *err)
{
    es_series series;
    ES_TRY(gather(t, s, which, &series, err));
    ES_TRY(es_series_fit(&series, err));
    if (series.status != ES_OK)
        return es_fail(err, series.status, "claims.rate", "", "%s", series.reason);
    *out = (es_measured){series.rate.mean.rate, series.rate.se};
    return ES_OK;
}

es_status es_trial_rms(es_trial *trial, int64_t s, int64_t i, es_trial_error which,
                       es_measured *out, es_error *err)
{
    es_series series;
    ES_TRY(gather(trial, s, which, &series, err));
    *out = es_measured_rms(series.errors + i, series.replicates, series.points);
    return ES_OK;
}

/* ---- trials: what theory says ---- */

/* Covariance of the tokens and the head at scale s: the scale goes into Wk, or A. */
typedef struct scaled {
    es_view cov, matrix;
    es_head head;
} scaled;

static es_status scale_head(es_trial *t, int64_t s, scaled *out, es_error *err)
{
    const int64_t d = t->spec.dim;
    const es_view *from = t->drawn.head.A ? t->drawn.head.A : t->drawn.head.Wk;
    double *cov, *matrix;
    ES_TRY(array(t, d, d, &cov, err));
    ES_TRY(array(t, d, d, &matrix, err));
    for (int64_t i = 0; i < d * d; i++)
        matrix[i] = t->spec.scales[s] * es_view_get(from, i / d, i % d);
    for (int64_t i = 0; i < d; i++)
        cov[i * d + i] = t->spec.variance;
    *out = (scaled){
        .cov = es_view_f64(cov, d, d), .matrix = es_view_f64(matrix, d, d), .head = t->drawn.head};
    if (t->drawn.head.A)
        out->head.A = &out->matrix;
    else
        out->head.Wk = &out->matrix;
    return ES_OK;
}

es_status es_trial_horizons(es_trial *trial, int64_t s, es_horizons *out, es_error *err)
{
    scaled at;
    ES_TRY(scale_head(trial, s, &at, err));
    return es_horizons_of(&at.cov, 0.0, &at.head, trial->arena.budget, out, err);
}

es_status es_trial_predict(es_trial *t, int64_t s, int64_t i, double out[3], es_error *err)
{
    es_prediction p;
    const double n = (double)t->spec.sizes[i];
    if (t->spec.head == ES_HEAD_ROTATION && t->spec.variance == 1.0) {
        const es_rotation rotation = t->spec.dim == 1 ? ES_ROTATION_NONE : ES_ROTATION_HAAR;
        ES_TRY(es_predict_isotropic(t->spec.dim, t->spec.scales[s], rotation, n, t->arena.budget,
                                    &p, NULL, err));
    } else {
        scaled at;
        ES_TRY(scale_head(t, s, &at, err));
        ES_TRY(es_predict_general(&at.cov, 0.0, &at.head, n, NULL, t->arena.budget, &p, NULL, err));
    }
    const es_predicted *mode = t->spec.population ? &p.population : &p.self;
    out[ES_TRIAL_MEAN] = mode->mean_rms;
    out[ES_TRIAL_COV] = mode->cov_rms;
    out[ES_TRIAL_MAP] = mode->query_rms;
    return ES_OK;
}

/* Each prediction is given the relative error of the root mean square that was measured there. */
es_status es_trial_predicted_rates(es_trial *trial, int64_t s, double out[3], es_error *err)
{
    const int64_t sizes = trial->spec.n_sizes;
    double *all, *se;
    ES_TRY(array(trial, 3, sizes, &all, err));
    ES_TRY(array(trial, sizes, 1, &se, err));
    for (int64_t i = 0; i < sizes; i++) {
        double predicted[3];
        ES_TRY(es_trial_predict(trial, s, i, predicted, err));
        for (int m = 0; m < 3; m++)
            all[m * sizes + i] = predicted[m];
    }
    for (int m = 0; m < 3; m++) {
        es_series series;
        ES_TRY(gather(trial, s, (es_trial_error)m, &series, err));
        for (int64_t i = 0; i < sizes; i++) {
            const es_measured seen = es_measured_rms(series.errors + i, series.replicates, sizes);
            se[i] = all[m * sizes + i] * seen.se / seen.value;
        }
        out[m] = es_series_rate_with(&series, all + m * sizes, se);
    }
    return ES_OK;
}
