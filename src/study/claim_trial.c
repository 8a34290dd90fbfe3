#include "study/claim_trial.h"

#include <math.h>
#include <string.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"

static es_budget *budget_of(const es_trial *t)
{
    return t->opts.exec ? t->opts.exec->budget : NULL;
}

/* ---- the experiment ---- */

/* Normals at the head's addresses, (count, d, d). */
static es_status draw(es_trial *t, int64_t count, es_error *err)
{
    const int64_t d = t->spec.dim;
    es_address at = {.seed = t->opts.seed,
                     .experiment =
                         ES_EXPERIMENT_HEAD}; /* the same head as `esscher converge` has */
    ES_TRY(es_mem_array(budget_of(t), count * d, d, sizeof(double), "matrices of a claim",
                        (void **)&t->numbers, err));
    for (int64_t i = 0; i < count; i++) {
        at.cell = (uint64_t)i;
        ES_TRY(es_normal_rows(&at, d, d, t->numbers + i * d * d, err));
    }
    return ES_OK;
}

static es_status make_head(es_trial *t, es_error *err)
{
    const int64_t d = t->spec.dim;
    const bool rotation = t->spec.head == ES_TRIAL_ROTATION;
    const int64_t count = rotation ? 2 : 3;
    ES_TRY(draw(t, count, err));
    double *second = t->numbers + d * d;
    for (int64_t i = 0; i < count; i++)
        t->view[i] = es_view_f64(t->numbers + i * d * d, d, d);
    if (rotation) {
        ES_TRY(es_haar_make(t->numbers, d, budget_of(t), second, err));
        t->matrices = (es_head){.A = &t->view[1]};
        return ES_OK;
    }
    for (int64_t i = 0; i < count * d * d; i++)
        t->numbers[i] /= sqrt((double)d);
    t->matrices = (es_head){.Wq = &t->view[0], .Wk = &t->view[1], .V = &t->view[2]};
    return ES_OK;
}

es_status es_trial_run(const es_claim_opts *opts, const es_trial_spec *spec, es_trial *out,
                       es_error *err)
{
    *out = (es_trial){
        .spec = *spec,
        .opts = *opts,
        .law = {.kind = ES_LAW_GAUSSIAN, .dim = spec->dim, .size = sqrt(spec->variance)}};
    const int64_t cells = spec->n_scales * spec->n_sizes;
    ES_TRY(make_head(out, err));
    ES_TRY(es_mem_array(budget_of(out), spec->replicates, cells, sizeof(es_converge_cell),
                        "cells of a claim", (void **)&out->cells, err));
    const es_converge_spec converge = {.law = &out->law,
                                       .head = &out->matrices,
                                       .scales = spec->scales,
                                       .n_scales = spec->n_scales,
                                       .sizes = spec->sizes,
                                       .n_sizes = spec->n_sizes,
                                       .seed = opts->seed,
                                       .population = spec->population,
                                       .reference = spec->reference,
                                       .exec = opts->exec};
    es_converge_limit *limit;
    ES_TRY(es_converge_limit_new(&converge, &limit, err));
    es_status status = ES_OK;
    for (int64_t r = 0; r < spec->replicates && status == ES_OK; r++)
        status = es_converge_replicate(&converge, limit, r, out->cells + r * cells, err);
    es_converge_limit_free(limit);
    return status;
}

void es_trial_free(es_trial *trial)
{
    es_mem_free(budget_of(trial), trial->numbers);
    es_mem_free(budget_of(trial), trial->cells);
    *trial = (es_trial){0};
}

/* ---- what it showed ---- */

static double error_of(const es_trial *t, int64_t r, int64_t s, int64_t i, es_trial_error which)
{
    const es_converge_cell *c = &t->cells[(r * t->spec.n_scales + s) * t->spec.n_sizes + i];
    return which == ES_TRIAL_MEAN  ? c->mean_error
           : which == ES_TRIAL_COV ? c->cov_frobenius
                                   : c->map_error;
}

/* Errors (replicates, sizes) and the sizes, as the fit wants them. */
static es_status gather(const es_trial *t, int64_t s, es_trial_error which, double **errors,
                        double **n, es_error *err)
{
    const int64_t sizes = t->spec.n_sizes;
    *n = NULL;
    ES_TRY(es_mem_array(budget_of(t), t->spec.replicates + 1, sizes, sizeof(double),
                        "errors of a claim", (void **)errors, err));
    *n = *errors + t->spec.replicates * sizes;
    for (int64_t i = 0; i < sizes; i++) {
        (*n)[i] = (double)t->spec.sizes[i];
        for (int64_t r = 0; r < t->spec.replicates; r++)
            (*errors)[r * sizes + i] = error_of(t, r, s, i, which);
    }
    return ES_OK;
}

/* The address of the bootstrap: one per scale and error. */
static es_rate_opts bootstrap_of(const es_trial *t, int64_t s, es_trial_error which)
{
    return (es_rate_opts){.seed = t->opts.seed,
                          .experiment = ES_EXPERIMENT_FIT,
                          .cell = (uint64_t)(s * 4 + (int64_t)which),
                          .exec = t->opts.exec};
}

es_status es_trial_rate(const es_trial *trial, int64_t s, es_trial_error which, es_measured *out,
                        es_error *err)
{
    double *errors, *n;
    es_rate rate;
    const es_rate_opts opts = bootstrap_of(trial, s, which);
    ES_TRY(gather(trial, s, which, &errors, &n, err));
    const es_status status = es_fit_replicates(errors, trial->spec.replicates, trial->spec.n_sizes,
                                               n, NULL, &opts, NULL, &rate, err);
    es_mem_free(budget_of(trial), errors);
    if (status == ES_OK)
        *out = (es_measured){rate.mean.rate, (rate.high - rate.low) / (2.0 * 1.959963984540054)};
    return status;
}

es_measured es_trial_rms(const es_trial *trial, int64_t s, int64_t i, es_trial_error which)
{
    const int64_t R = trial->spec.replicates;
    double mean = 0.0, spread = 0.0;
    for (int64_t r = 0; r < R; r++) {
        const double e = error_of(trial, r, s, i, which);
        mean += e * e / (double)R;
    }
    for (int64_t r = 0; r < R; r++) {
        const double e = error_of(trial, r, s, i, which);
        spread += (e * e - mean) * (e * e - mean) / ((double)R * (double)(R - 1));
    }
    const double rms = sqrt(mean);
    return (es_measured){rms, sqrt(spread) / (2.0 * rms)}; /* d sqrt(x) = dx / (2 sqrt(x)) */
}

/* ---- what theory says ---- */

/* Covariance of the tokens and the head at scale s: the scale goes into Wk, or A. */
typedef struct scaled {
    double *numbers; /* (2, d, d) */
    es_view cov, matrix;
    es_head head;
} scaled;

static es_status scale_head(const es_trial *t, int64_t s, scaled *out, es_error *err)
{
    const int64_t d = t->spec.dim;
    ES_TRY(es_mem_array(budget_of(t), 2 * d, d, sizeof(double), "a scaled head",
                        (void **)&out->numbers, err));
    double *matrix = out->numbers + d * d;
    const es_view *from = t->matrices.A ? t->matrices.A : t->matrices.Wk;
    for (int64_t i = 0; i < d * d; i++)
        matrix[i] = t->spec.scales[s] * es_view_get(from, i / d, i % d);
    for (int64_t i = 0; i < d; i++)
        out->numbers[i * d + i] = t->spec.variance;
    out->cov = es_view_f64(out->numbers, d, d);
    out->matrix = es_view_f64(matrix, d, d);
    out->head = t->matrices;
    if (t->matrices.A)
        out->head.A = &out->matrix;
    else
        out->head.Wk = &out->matrix;
    return ES_OK;
}

es_status es_trial_horizons(const es_trial *trial, int64_t s, es_horizons *out, es_error *err)
{
    scaled at;
    ES_TRY(scale_head(trial, s, &at, err));
    const es_status status = es_horizons_of(&at.cov, 0.0, &at.head, budget_of(trial), out, err);
    es_mem_free(budget_of(trial), at.numbers);
    return status;
}

es_status es_trial_predict(const es_trial *trial, int64_t s, int64_t i, double out[3],
                           es_error *err)
{
    es_prediction p;
    const double n = (double)trial->spec.sizes[i];
    if (trial->spec.head == ES_TRIAL_ROTATION && trial->spec.variance == 1.0) {
        const es_rotation rotation = trial->spec.dim == 1 ? ES_ROTATION_NONE : ES_ROTATION_HAAR;
        ES_TRY(es_predict_isotropic(trial->spec.dim, trial->spec.scales[s], rotation, n,
                                    budget_of(trial), &p, NULL, err));
    } else {
        scaled at;
        ES_TRY(scale_head(trial, s, &at, err));
        const es_status status =
            es_predict_general(&at.cov, 0.0, &at.head, n, NULL, budget_of(trial), &p, NULL, err);
        es_mem_free(budget_of(trial), at.numbers);
        ES_TRY(status);
    }
    const es_predicted *mode = trial->spec.population ? &p.population : &p.self;
    out[ES_TRIAL_MEAN] = mode->mean_rms;
    out[ES_TRIAL_COV] = mode->cov_rms;
    out[ES_TRIAL_MAP] = mode->query_rms;
    return ES_OK;
}

es_status es_trial_predicted_rates(const es_trial *trial, int64_t s, double out[3], es_error *err)
{
    enum { MOST = 32 };
    es_fit_point points[3][MOST];
    const int64_t sizes = trial->spec.n_sizes < MOST ? trial->spec.n_sizes : MOST;
    for (int64_t i = 0; i < sizes; i++) {
        double predicted[3];
        ES_TRY(es_trial_predict(trial, s, i, predicted, err));
        for (int m = 0; m < 3; m++) {
            const es_measured seen = es_trial_rms(trial, s, i, (es_trial_error)m);
            points[m][i] = (es_fit_point){.n = (double)trial->spec.sizes[i],
                                          .error = predicted[m],
                                          .se = predicted[m] * seen.se / seen.value};
        }
    }
    for (int m = 0; m < 3; m++) {
        es_fit fit;
        ES_TRY(es_fit_power(points[m], sizes, &fit, err));
        out[m] = fit.rate;
    }
    return ES_OK;
}
