/* rows.c : the errors of all replicates, beside those that theory expects without
 * having measured anything, as rows, rates and findings. */
#include "experiments/converge/question.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "limit/limit.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "table/table.h"

/* Tokens N(0, s^2 I), A a multiple of a rotation O, V = I: quadrature without sampling. With the
 * tokens as queries the trace of O matters, which for a random one is averaged over there. */
static es_rotation rotation_of(const converge_params *p, const converge_state *s)
{
    if (s->law.law.factor || s->head.head.V || p->head.kind < ES_HEAD_ROTATION)
        return (es_rotation)0;
    if (p->head.kind == ES_HEAD_IDENTITY || s->law.law.dim == 1)
        return ES_ROTATION_NONE;
    return s->spec.population ? ES_ROTATION_HAAR : (es_rotation)0;
}

es_status converge_predictable(const es_law *law, es_error *err)
{
    if ((es_law_traits(law->kind) & ES_LAW_QUADRATIC) && !law->mean)
        return ES_OK;
    return es_refuse(err, "converge.predict", "leave --predict out",
                     "predictions are for Gaussian tokens around 0");
}

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err)
{
    const converge_state *s = job->state;
    const int64_t d = s->law.law.dim;
    *out = (converge_theory){.rotation = rotation_of(job->params, s)};
    ES_TRY(ES_JOB_NEW_2D(job, out->cov, d, d, err));
    out->cov_view = es_view_f64(out->cov, d, d);
    return es_limit_token_moments(&s->law.law, job->exec.budget, NULL, out->cov, err);
}

/* From tokens N(0, I) to N(0, s^2 I): errors scale like tokens, covariances like their squares. */
static void stretch(es_predicted *p, double s)
{
    p->query_rms *= s;
    p->mean_rms *= s;
    p->mean_abs *= s;
    p->cov_bias *= s * s;
    p->cov_rms *= s * s;
}

/* The head with the scale in its Wq or A, any covariance: queries are sampled. */
static es_status predict_general(const es_job *job, const converge_theory *t, double scale,
                                 int64_t n, es_prediction *out, es_error *err)
{
    const converge_state *s = job->state;
    const es_predict_opts opts = {.samples = 256, .seed = job->seed};
    es_head_data scaled = {0};
    es_status status =
        es_head_scaled(&s->head.head, ES_HEAD_WQ, scale, 1.0, job->exec.budget, &scaled, err);
    if (status == ES_OK)
        status = es_predict_general(&t->cov_view, 0.0, &scaled.head, (double)n, &opts,
                                    job->exec.budget, out, NULL, err);
    es_head_data_free(&scaled);
    return status;
}

es_status converge_predict(const es_job *job, const converge_theory *t, double scale, int64_t n,
                           es_predicted *out, double *sampling, es_error *err)
{
    const converge_state *s = job->state;
    const double size = s->law.law.size, horizon = scale * size * size;
    es_prediction p;
    if (t->rotation && horizon >= 1e-4 && horizon <= 1e3) {
        ES_TRY(es_predict_isotropic(s->law.law.dim, horizon, t->rotation, (double)n,
                                    job->exec.budget, &p, NULL, err));
        stretch(&p.population, size);
        stretch(&p.self, size);
    } else {
        ES_TRY(predict_general(job, t, scale, n, &p, err));
    }
    *out = s->spec.population ? p.population : p.self;
    *sampling = p.sampling;
    return ES_OK;
}

/* ---- tables ---- */

/* An error and what is said about it, in the table of rows. */
#define ERROR_COLUMNS(key, title, definition)                                                      \
    {key, title, "", ES_FORMAT_REAL, definition, .error = key "_se"},                              \
        {key "_median", title " median", "", ES_FORMAT_REAL},                                      \
        {key "_rms",                                                                               \
         title " rms",                                                                             \
         "",                                                                                       \
         ES_FORMAT_REAL,                                                                           \
         "root mean square over replicates",                                                       \
         .error = key "_rms_se"},                                                                  \
    {                                                                                              \
        key "_flag", title " flag", "", ES_FORMAT_TEXT, "why it is left out of the fit"            \
    }

static const es_column row_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL, "factor on A = Wk'Wq/sqrt(k)"},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    ERROR_COLUMNS("mean_error", "mean error", "|m_n - m|, mean over replicates"),
    ERROR_COLUMNS("cov_error", "cov error", "|C_n - C| in Frobenius norm"),
    ERROR_COLUMNS("cov_spectral_error", "spectral", "the same in spectral norm"),
    ERROR_COLUMNS("map_error", "map error",
                  "root mean square over queries of |Gamma_n(x) - Gamma(x)|"),
    {"flag", "flag", "", ES_FORMAT_TEXT,
     "errors that are left out of the fits: floor, they are rounding; reference, more than a tenth "
     "of them is that of what is compared with"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Distance from the infinite-token limit",
            "scale n mean_error cov_error map_error flag cov_spectral_error",
            "Standard errors are over replicates. Sizes of one replicate are nested, so rows are "
            "dependent, unless --independent."),
    .keys = "scale n"};

/* A rate and what is said about it, in the table of fits. */
#define RATE_COLUMNS(key, title, definition)                                                       \
    {key, title, "", ES_FORMAT_REAL, definition, .error = key "_se"},                              \
        {key "_ci.0", title " from", "", ES_FORMAT_REAL,                                           \
         "95 % interval, Student's t over replicates"},                                            \
        {key "_ci.1", title " to", "", ES_FORMAT_REAL},                                            \
        {key "_se_known", title " se known", "", ES_FORMAT_SHORT,                                  \
         "standard error if rows were independent"},                                               \
        {key "_median", title " of medians", "", ES_FORMAT_REAL},                                  \
        {key "_intercept", title " intercept", "", ES_FORMAT_REAL,                                 \
         "of the fit: ln error = intercept - rate ln n"},                                          \
    {                                                                                              \
        key "_reason", title " reason", "", ES_FORMAT_TEXT, "why there is no rate"                 \
    }

static const char p_definition[] =
    "of a power law on this range: how often replicates of one would bend more (Hotelling's test "
    "over replicates). None with fewer than 4 replicates, which cannot tell";

static const es_column fit_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL},
    {"horizon", "H", "", ES_FORMAT_SHORT, "two-sided horizon |S^1/2 A S^1/2|"},
    {"horizon_unscaled", "H unscaled", "", ES_FORMAT_SHORT,
     "without the 1/sqrt(k) in A, as the papers' code reports it"},
    {"frobenius", "F", "", ES_FORMAT_SHORT,
     "Frobenius norm of the same matrix: what decides at finite n"},
    {"predicted.rate_worst_case", "1/(2(1+32 Psi))", "", ES_FORMAT_SHORT,
     "the exponent of the paper's first version", .standing = ES_STANDING_CITED},
    {"predicted.rate_coupling", "1/(2(1+Psi))", "", ES_FORMAT_SHORT,
     "between its neighbours, since H^2 <= Psi", .standing = ES_STANDING_PROVED},
    {"predicted.rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT, "the paper's exponent, a bound",
     .standing = ES_STANDING_CITED},
    {"predicted.exponent_mean", "mean exponent", "", ES_FORMAT_SHORT,
     "of the mean for n to infinity", .standing = ES_STANDING_HEURISTIC},
    {"predicted.exponent_map", "map exponent", "", ES_FORMAT_SHORT,
     "of one output for n to infinity", .standing = ES_STANDING_HEURISTIC},
    RATE_COLUMNS("rate_mean", "mean rate",
                 "error ~ n^-rate, weighted fit; the error is that of the jackknife over "
                 "replicates"),
    {"predicted.rate_mean", "predicted", "", ES_FORMAT_SHORT,
     "the same fit, with the same weights, through the predicted errors",
     .standing = ES_STANDING_HEURISTIC},
    {"rate_mean_p", "p", "", ES_FORMAT_SHORT, p_definition},
    RATE_COLUMNS("rate_cov", "cov rate", NULL),
    {"predicted.rate_cov", "predicted", "", ES_FORMAT_SHORT, .standing = ES_STANDING_HEURISTIC},
    {"rate_cov_p", "p", "", ES_FORMAT_SHORT},
    RATE_COLUMNS("rate_cov_spectral", "spectral rate", NULL),
    {"rate_cov_spectral_p", "p", "", ES_FORMAT_SHORT},
    RATE_COLUMNS("rate_map", "map rate", NULL),
    {"predicted.rate_map", "predicted", "", ES_FORMAT_SHORT, .standing = ES_STANDING_PROVED},
    {"rate_map_p", "p", "", ES_FORMAT_SHORT},
    {"rate_horizon", "1/(2(1+H^2))", "", ES_FORMAT_SHORT,
     "the paper's exponent, a bound for n to infinity", .standing = ES_STANDING_CITED},
    {"limit_mean_error", "limit mean error", "", ES_FORMAT_SHORT,
     "bound on the error of what means are compared with"},
    {"limit_cov_error", "limit cov error", "", ES_FORMAT_SHORT, "the same for covariances"},
    {0}};
static const es_table_spec fits_table = {
    "fits", fit_columns,
    ES_VIEW("Rates",
            "scale horizon rate_mean rate_mean_p predicted.rate_mean rate_cov rate_cov_p "
            "predicted.rate_cov rate_map rate_map_p predicted.rate_map rate_horizon frobenius"),
    .keys = "scale"};

static const es_column reference_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL},
    {"tokens", "tokens", "", ES_FORMAT_COUNT,
     "of the one sample whose moments stand for the limit's"},
    {"limit_mean_error", "mean off by", "", ES_FORMAT_SHORT,
     "its own distance from the limit, which is known"},
    {"limit_cov_error", "cov off by", "", ES_FORMAT_SHORT},
    {"rate_mean", "mean rate", "", ES_FORMAT_REAL,
     "what a fit through all rows says that takes the sample for the limit: not a rate of "
     "convergence",
     .error = "rate_mean_se"},
    {"rate_cov", "cov rate", "", ES_FORMAT_REAL, .error = "rate_cov_se"},
    {"rate_cov_spectral", "spectral rate", "", ES_FORMAT_REAL, .error = "rate_cov_spectral_se"},
    {0}};
static const es_table_spec references_table = {"references", reference_columns,
                                               ES_VIEW("The reference sample"), .keys = "scale"};

/* Both sides are root mean squares over replicates: what theory has is compared with its like. */
static const es_column prediction_columns[] = {
    {"scale", "scale", "", ES_FORMAT_REAL},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"mean_error", "mean of mean errors", "", ES_FORMAT_REAL},
    {"mean_error_rms", "mean error", "", ES_FORMAT_REAL,
     "root mean square over replicates, as predictions are; rare replicates decide it where H is "
     "above 0.7",
     .error = "mean_error_rms_se"},
    {"predicted_mean_error_rms", "predicted", "", ES_FORMAT_SHORT,
     "from the law and the head, nothing measured (THEORY 4.5)", .standing = ES_STANDING_HEURISTIC},
    {"predicted_mean_error", "predicted mean", "", ES_FORMAT_SHORT,
     "the same for the mean over replicates", .standing = ES_STANDING_HEURISTIC},
    {"cov_error", "mean of cov errors", "", ES_FORMAT_REAL},
    {"cov_error_rms", "cov error", "", ES_FORMAT_REAL, .error = "cov_error_rms_se"},
    {"predicted_cov_error", "predicted", "", ES_FORMAT_SHORT, .standing = ES_STANDING_HEURISTIC},
    {"map_error", "mean of map errors", "", ES_FORMAT_REAL},
    {"map_error_rms", "map error", "", ES_FORMAT_REAL, .error = "map_error_rms_se"},
    {"predicted_map_error", "predicted", "", ES_FORMAT_SHORT, .standing = ES_STANDING_PROVED},
    {"sampling", "sampling", "", ES_FORMAT_SHORT,
     "relative standard error that sampling of queries leaves in the predictions"},
    {0}};
static const es_table_spec predictions_table = {
    "predictions", prediction_columns,
    ES_VIEW("Measured beside predicted",
            "scale n mean_error_rms predicted_mean_error_rms cov_error_rms predicted_cov_error "
            "map_error_rms predicted_map_error sampling"),
    .keys = "scale n"};

/* ---- one error at one scale ---- */

static const struct {
    const char *error, *rate;
} names[CONVERGE_ERRORS] = {[CONVERGE_MEAN] = {"mean_error", "rate_mean"},
                            [CONVERGE_COV] = {"cov_error", "rate_cov"},
                            [CONVERGE_SPECTRAL] = {"cov_spectral_error", "rate_cov_spectral"},
                            [CONVERGE_MAP] = {"map_error", "rate_map"}};

/* What is being made. */
typedef struct summary_ctx {
    es_job *job;
    const converge_params *p;
    const converge_state *s;
    es_table *rows, *fits, *references; /* references: NULL without a reference sample */
    es_series of[CONVERGE_ERRORS];      /* of the scale under way */
} summary_ctx;

void converge_gather(const es_converge_spec *spec, const double *cells, int64_t scale, int which,
                     es_series *to)
{
    const int64_t sizes = spec->n_sizes, all = spec->n_scales * sizes;
    for (int64_t i = 0; i < sizes; i++) {
        to->at[i] = (double)spec->sizes[i];
        for (int64_t r = 0; r < to->replicates; r++)
            to->errors[r * sizes + i] =
                cells[(r * all + scale * sizes + i) * CONVERGE_ERRORS + which];
    }
}

/* A point is left out of a fit where rounding of the kernels or the error of the limit is what was
 * measured. Rounding is relative to the size of an output, which at small n is mostly error; in a
 * covariance one factor of two is the spread. Population queries are compared with the limit at the
 * very same queries, which has no error to speak of. */
static void flag_points(const summary_ctx *m, int64_t scale, int which, es_series *series)
{
    const double rounding = m->s->spec.precision == ES_F64 ? 1e-14 : 5e-7;
    double mean, cov, rms, spread, largest = 0.0;
    es_converge_limit_error(m->s->limit, scale, &mean, &cov);
    es_converge_limit_size(m->s->limit, scale, &rms, &spread);
    for (int64_t i = 0; i < series->points; i++)
        largest = fmax(largest, series->summary[i].mean);
    const bool is_cov = which == CONVERGE_COV || which == CONVERGE_SPECTRAL;
    const double floor = rounding * (is_cov ? rms * spread : rms + largest);
    const double reference = m->s->spec.population || which == CONVERGE_MAP ? 0.0
                             : is_cov                                       ? cov
                                                                            : mean;
    for (int64_t i = 0; i < series->points; i++)
        series->flags[i] = es_fit_flags_of(series->summary[i].mean, floor, reference);
}

static const char *flag_name(unsigned flags)
{
    return flags & ES_FIT_REFERENCE ? "reference" : flags & ES_FIT_FLOOR ? "floor" : "";
}

/* Means, medians and root mean squares side by side: theory speaks of the last, the papers plot
 * the first, and where they part, rare replicates decide. */
static void put_errors(const summary_ctx *m, int64_t scale, int which)
{
    const es_series *s = &m->of[which];
    char key[ES_KEY_ROOM];
    for (int64_t i = 0; i < s->points; i++) {
        const int64_t row = scale * s->points + i;
        const es_fit_summary *x = &s->summary[i];
        es_put_under(m->rows, row, names[which].error, {"", x->mean}, {"_se", x->se},
                     {"_median", x->median}, {"_rms", x->rms}, {"_rms_se", x->rms_se});
        es_table_text(m->rows, row, es_key(key, names[which].error, "_flag"),
                      flag_name(s->flags[i]));
    }
}

/* The standard error is that of whole replicates, because the fit's own takes nested sizes for
 * independent. */
static void put_rate(const summary_ctx *m, int64_t row, int which)
{
    const es_series *s = &m->of[which];
    const char *rate = names[which].rate;
    char key[ES_KEY_ROOM];
    if (s->status != ES_OK) {
        es_table_text(m->fits, row, es_key(key, rate, "_reason"), s->reason);
        return;
    }
    const es_fit *line = &s->rate.mean;
    es_put_under(m->fits, row, rate, {"", line->rate}, {"_ci.0", s->rate.low},
                 {"_ci.1", s->rate.high}, {"_se", s->rate.se}, {"_se_known", line->rate_se_known},
                 {"_p", s->rate.power_p}, {"_intercept", line->intercept},
                 {"_median", s->rate.median.rate});
}

/* The rate that one would report who trusts the reference: through all points. */
static es_status put_trusting(const summary_ctx *m, es_series *s, int64_t row, int which,
                              es_error *err)
{
    ES_TRY(es_series_fit(s, err));
    if (s->status == ES_OK && which != CONVERGE_MAP)
        es_put_under(m->references, row, names[which].rate, {"", s->rate.mean.rate},
                     {"_se", s->rate.se});
    return ES_OK;
}

/* One error at one scale: its columns in the rows, its rate in the fits. */
static es_status sum_up(summary_ctx *m, int64_t scale, int which, es_error *err)
{
    es_series *s = &m->of[which];
    converge_gather(&m->s->spec, es_job_numbers(m->job, 0, 0), scale, which, s);
    for (int64_t i = 0; i < s->points; i++)
        s->flags[i] = 0;
    if (m->references)
        ES_TRY(put_trusting(m, s, scale, which, err));
    else
        ES_TRY(es_series_means(s, err));
    flag_points(m, scale, which, s); /* flags need the means first */
    ES_TRY(es_series_fit(s, err));
    put_errors(m, scale, which);
    put_rate(m, scale, which);
    return ES_OK;
}

/* ---- what the papers and the asymptotic theory say, from the weights alone ---- */

/* Exponents are of n to infinity (THEORY 2 and 4.4). They stand beside fitted rates for
 * comparison, not as what those should be at the n of this run. */
static es_status put_exponents(const summary_ctx *m, int64_t scale, es_error *err)
{
    const double c = m->s->spec.scales[scale], h = c * m->s->horizons.horizon.val;
    const double coupling = c * c * m->s->horizons.coupling.val;
    double mean, cov;
    es_exponents e;
    ES_TRY(es_exponents_at(h, &e, err));
    es_converge_limit_error(m->s->limit, scale, &mean, &cov);
    es_put(m->fits, scale, {"scale", c}, {"horizon", h},
           {"horizon_unscaled", c * m->s->horizons.unscaled.val},
           {"frobenius", c * m->s->horizons.frobenius.val});
    es_table_real(m->fits, scale, "predicted.rate_worst_case",
                  1.0 / (2.0 * (1.0 + 32.0 * coupling))); /* THEORY 2, [S:A1] */
    es_put(m->fits, scale, {"predicted.rate_coupling", 0.5 / (1.0 + coupling)},
           {"predicted.rate_horizon", e.paper}, {"predicted.exponent_mean", e.mean_abs},
           {"predicted.exponent_map", e.query_rms}, {"rate_horizon", e.paper},
           {"limit_mean_error", mean}, {"limit_cov_error", cov});
    if (m->references) {
        es_put(m->references, scale, {"scale", c}, {"tokens", (double)m->s->spec.reference},
               {"limit_mean_error", mean}, {"limit_cov_error", cov});
    }
    return ES_OK;
}

/* ---- predictions ---- */

static void put_prediction(const summary_ctx *m, es_table *t, int64_t row, int64_t i,
                           const es_predicted *p, double sampling)
{
    static const int which[] = {CONVERGE_MEAN, CONVERGE_COV, CONVERGE_MAP};
    es_put(t, row, {"scale", es_table_get(m->rows, row, "scale")},
           {"n", (double)m->s->spec.sizes[i]});
    for (int k = 0; k < 3; k++) {
        const es_fit_summary *x = &m->of[which[k]].summary[i];
        const char *name = names[which[k]].error;
        es_put_under(t, row, name, {"", x->mean}, {"_rms", x->rms}, {"_rms_se", x->rms_se});
    }
    es_put(t, row, {"predicted_mean_error", p->mean_abs}, {"predicted_mean_error_rms", p->mean_rms},
           {"predicted_cov_error", p->cov_rms}, {"predicted_map_error", p->query_rms},
           {"sampling", sampling});
}

/* All sizes of one scale, and the rates that those predictions would show. Of the mean E|.| is
 * fitted, as the measured fit is of; of covariance and map theory has root mean squares. */
static es_status predict_scale(const summary_ctx *m, const converge_theory *theory, int64_t scale,
                               es_table *t, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes;
    double *errors;
    ES_TRY(ES_JOB_NEW_2D(m->job, errors, 3, sizes, err));
    for (int64_t i = 0; i < sizes; i++) {
        es_predicted p;
        double sampling;
        ES_TRY(converge_predict(m->job, theory, m->s->spec.scales[scale], m->s->spec.sizes[i], &p,
                                &sampling, err));
        put_prediction(m, t, es_table_row(t), i, &p, sampling);
        errors[i] = p.mean_abs;
        errors[sizes + i] = p.cov_rms;
        errors[2 * sizes + i] = p.query_rms;
        ES_TRY(es_job_tick(m->job, scale * sizes + i + 1, sizes * m->s->spec.n_scales));
    }
    es_put(m->fits, scale, {"predicted.rate_mean", es_series_rate(&m->of[CONVERGE_MEAN], errors)},
           {"predicted.rate_cov", es_series_rate(&m->of[CONVERGE_COV], errors + sizes)},
           {"predicted.rate_map", es_series_rate(&m->of[CONVERGE_MAP], errors + 2 * sizes)});
    return ES_OK;
}

/* ---- findings ---- */

/* The rate of a kind of error at one scale, as a power. */
static const char *power(const es_table *fits, int64_t row, int which, char out[ES_SAY_ROOM])
{
    char key[ES_KEY_ROOM];
    return es_say_power(es_table_get(fits, row, names[which].rate),
                        es_table_get(fits, row, es_key(key, names[which].rate, "_se")), out);
}

static void tell_rates(es_answer *a, const es_table *fits)
{
    const int64_t rows = es_table_rows(fits), step = es_say_step(rows);
    char mean[ES_SAY_ROOM], cov[ES_SAY_ROOM], map[ES_SAY_ROOM];
    for (int64_t i = 0; i < rows; i += step)
        es_answer_add_finding(
            a,
            "At scale %.3g (H = %.3g) the mean error falls like %s, the covariance error like %s "
            "and the error of a single output like %s; the paper's exponent, for n to infinity, is "
            "%.3g.",
            es_table_get(fits, i, "scale"), es_table_get(fits, i, "horizon"),
            power(fits, i, CONVERGE_MEAN, mean), power(fits, i, CONVERGE_COV, cov),
            power(fits, i, CONVERGE_MAP, map), es_table_get(fits, i, "rate_horizon"));
}

/* Relative distances between what was measured and what was predicted, three kinds of error, root
 * mean squares on both sides. */
static es_status tell_agreement(es_job *job, es_answer *a, const es_table *t, es_error *err)
{
    static const char *const pairs[][2] = {{"mean_error_rms", "predicted_mean_error_rms"},
                                           {"cov_error_rms", "predicted_cov_error"},
                                           {"map_error_rms", "predicted_map_error"}};
    double *off;
    size_t count = 0;
    ES_TRY(ES_JOB_NEW_2D(job, off, 3, es_table_rows(t), err));
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int k = 0; k < 3; k++) {
            const double measured = es_table_get(t, i, pairs[k][0]);
            const double distance = fabs(es_table_get(t, i, pairs[k][1]) / measured - 1.0);
            if (isfinite(distance))
                off[count++] = 100.0 * distance;
        }
    es_sort_reals(off, (int64_t)count);
    if (count)
        es_answer_add_finding(
            a,
            "From the law and the head alone, theory gives the root mean square errors "
            "within %.2g %% in the median and %.2g %% at worst, over %zu of them.",
            off[count / 2], off[count - 1], count);
    return ES_OK;
}

/* ---- all scales ---- */

/* "mean, cov: reference": which errors of a row are in no fit, for people. */
static void put_flag(es_table *rows, int64_t row)
{
    static const int shown[] = {CONVERGE_MEAN, CONVERGE_COV, CONVERGE_MAP};
    char text[128] = "", key[ES_KEY_ROOM];
    const char *last = "";
    size_t used = 0;
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
        const char *flag =
            es_table_get_text(rows, row, es_key(key, names[shown[k]].error, "_flag"));
        if (!*flag)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                 names[shown[k]].rate + strlen("rate_"));
        last = flag;
    }
    if (used)
        snprintf(text + used, sizeof text - used, ": %s", last);
    es_table_text(rows, row, "flag", text);
}

static es_status sum_up_scale(summary_ctx *m, int64_t scale, es_error *err)
{
    es_table_row(m->fits);
    if (m->references)
        es_table_row(m->references);
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++) {
        const int64_t row = es_table_row(m->rows);
        es_put(m->rows, row, {"scale", m->s->spec.scales[scale]},
               {"n", (double)m->s->spec.sizes[i]});
    }
    ES_TRY(put_exponents(m, scale, err));
    for (int which = 0; which < CONVERGE_ERRORS; which++)
        ES_TRY(sum_up(m, scale, which, err));
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++)
        put_flag(m->rows, scale * m->s->spec.n_sizes + i);
    return ES_OK;
}

es_status converge_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const converge_state *s = job->state;
    if (es_converge_fails(s->spec.law))
        return converge_growth_summarise(job, answer, err);
    summary_ctx m = {.job = job, .p = job->params, .s = s};
    converge_theory theory;
    m.rows = es_answer_table(answer, &rows_table);
    m.fits = es_answer_table(answer, &fits_table);
    m.references = s->spec.reference ? es_answer_table(answer, &references_table) : NULL;
    es_table *predictions = m.p->predict ? es_answer_table(answer, &predictions_table) : NULL;
    if (predictions)
        ES_TRY(converge_theory_new(job, &theory, err));
    for (int which = 0; which < CONVERGE_ERRORS; which++)
        ES_TRY(es_series_new(&job->arena, m.p->replicates, s->spec.n_sizes, &m.of[which], err));
    for (int64_t scale = 0; scale < s->spec.n_scales; scale++) {
        ES_TRY(sum_up_scale(&m, scale, err));
        if (predictions)
            ES_TRY(predict_scale(&m, &theory, scale, predictions, err));
    }
    tell_rates(answer, m.fits);
    return predictions ? tell_agreement(job, answer, predictions, err) : ES_OK;
}
