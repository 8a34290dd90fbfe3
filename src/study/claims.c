/* claims.c : the list of claims, and trials, which many claims are made of. */
#include <math.h>

#include <esscher/claims.h>
#include <esscher/experiment.h>
#include <esscher/linalg.h>

#include "base/error.h"
#include "study/claim_kit.h"
#include "study/converge_study.h"

static const es_claim_entry *const tables[] = {
    es_claims_gaussian, es_claims_exponents, es_claims_ball,    es_claims_hardmax,
    es_claims_sphere,   es_claims_regimes,   es_claims_average, es_claims_collapse,
    es_claims_rope,     es_claims_sparse,    es_claims_pitfalls};

static const es_claim_entry *entry_at(int64_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const es_claim_entry *e = tables[t]; e->claim.id; e++)
            if (index-- == 0)
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

const es_claim *es_claim_at(int64_t index)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    return e ? &e->claim : NULL;
}

es_status es_claim_check(int64_t index, const es_claim_opts *opts, es_finding *out, es_error *err)
{
    const es_claim_entry *e = index < 0 ? NULL : entry_at(index);
    if (!opts || !out)
        return es_fail(err, ES_E_ARGUMENT, "claims.null", "", "a pointer is NULL");
    if (!e)
        return es_fail(err, ES_E_RANGE, "claims.index", "see es_claims_count()",
                       "there is no claim %lld", (long long)index);
    *out = (es_finding){0};
    ES_TRY(e->check(opts, out, err));
    es_finding_conclude(out, e->claim.expected);
    return ES_OK;
}

static es_status array(es_trial *t, int64_t rows, int64_t cols, double **out, es_error *err)
{
    return es_arena_array(&t->arena, rows, cols, sizeof(double), "numbers of a claim", (void **)out,
                          err);
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
    ES_TRY(array(out, spec->replicates, cells * CONVERGE_ERRORS, &out->cells, err));
    ES_TRY(es_converge_limit_new(&out->converge, &limit, err));
    es_status status = ES_OK;
    for (int64_t r = 0; r < spec->replicates && status == ES_OK; r++) {
        void *cell = out->cells + r * cells * CONVERGE_ERRORS;
        status = es_converge_replicate(&out->converge, limit, r, cell, err);
    }
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
    converge_gather(&t->converge, t->cells, s, errors[which], out);
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

/* To first order the relative variance of a ratio of two means is that of the mean difference of
 * the numbers, each over its own mean. */
es_status es_trial_above(es_trial *trial, int64_t s, es_trial_error which, double exponent,
                         es_measured *out, es_error *err)
{
    es_series x;
    ES_TRY(gather(trial, s, which, &x, err));
    const int64_t R = x.replicates, P = x.points, last = P - 1;
    const double first_mean = es_spread_of(x.errors, R, P).mean;
    const double last_mean = es_spread_of(x.errors + last, R, P).mean;
    const double ratio = last_mean / first_mean * pow(x.at[last] / x.at[0], exponent);
    for (int64_t r = 0; r < R; r++) /* into the first column, which is not needed any more */
        x.errors[r * P] = x.errors[r * P + last] / last_mean - x.errors[r * P] / first_mean;
    *out = (es_measured){ratio, ratio * es_average_column(x.errors, R, P).se};
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
