#include "collapse.h"

#include <math.h>

#include "answer.h"

/* ---- views ---- */

static const cli_column columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"rho", "rho", "", .format = CLI_SHORT},
    {"times", "times", "gamma_c", .format = CLI_SHORT,
     .definition = "score scale beta = times gamma_c ln n"},
    {"gamma", "gamma", "", .format = CLI_SHORT, .definition = "beta/ln n"},
    {"beta", "beta", "", .format = CLI_SHORT, .hidden = true},
    {"phase", "phase", "", .format = CLI_TEXT,
     .definition = "merged: a token's weight on itself is below 0.1; apart: above 0.9; window: "
                   "between"},
    {"self_weight", "p", "", .format = CLI_SHORT,
     .definition = "weight of a token on itself, exactly equal angles"},
    {"self_weight_dim", "p at d", "", .format = CLI_SHORT,
     .definition = "the same where cosines spread as in d dimensions (a heuristic; empty where it "
                   "does not apply)"},
    {"self_weight_measured", "measured", "", .format = CLI_REAL,
     .error = "self_weight_measured_se"},
    {"self_weight_measured_se", "error of p", "", .format = CLI_SHORT, .hidden = true},
    {"angle_ratio", "angle ratio", "", .format = CLI_SHORT,
     .definition = "angle between outputs over angle between tokens: 0 collapse, 1 identity"},
    {"angle_ratio_realised", "at rho^", "", .format = CLI_SHORT,
     .definition = "the same at the mean cosine that the random model realised"},
    {"angle_ratio_measured", "measured", "", .format = CLI_REAL,
     .error = "angle_ratio_measured_se"},
    {"angle_ratio_measured_se", "error of ratio", "", .format = CLI_SHORT, .hidden = true},
    {"cosine", "cos'", "", .format = CLI_REAL, .hidden = true},
    {"cosine_measured", "cos' measured", "", .format = CLI_REAL, .hidden = true},
    {"cosine_measured_se", "error of cos'", "", .format = CLI_SHORT, .hidden = true},
    {"ess", "ESS", "keys", .format = CLI_SHORT,
     .definition = "1/sum of squared weights: how many tokens one sees"},
    {"ess_measured", "measured", "keys", .format = CLI_REAL, .error = "ess_measured_se"},
    {"ess_measured_se", "error of ESS", "", .format = CLI_SHORT, .hidden = true},
    {"entropy", "entropy", "nats", .format = CLI_REAL, .hidden = true},
    {"gradient", "eta", "", .format = CLI_SHORT,
     .definition = "|dX'/dX|^2/(n d), how much of a gradient comes through, for d to infinity"},
    {"gradient_measured", "measured", "", .format = CLI_REAL, .error = "gradient_measured_se"},
    {"gradient_measured_se", "error of eta", "", .format = CLI_SHORT, .hidden = true},
    {0}};

static const cli_table rows_table = {
    .rows = "rows",
    .title = "Tokens at equal angles",
    .columns = columns,
    .note =
        "measured: random model. Its cosines spread like 1/sqrt(d): neighbours that happen to "
        "be near weigh more (p at d), and where tokens merge their outputs stay apart by a "
        "further beta (1-rho)/d. Differences from the closed form that shrink with d are that."};

static const cli_column threshold_columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"rho", "rho", "", .format = CLI_SHORT},
    {"gamma_c", "gamma_c", "", .format = CLI_REAL, .definition = "1/(1-rho)"},
    {"gamma_low", "p = 0.1", "gamma", .format = CLI_SHORT, .definition = "where the window begins"},
    {"gamma_high", "p = 0.9", "gamma", .format = CLI_SHORT, .definition = "and where it ends"},
    {"gamma_c_dim", "at d", "gamma", .format = CLI_SHORT,
     .definition = "p = 0.5 for tokens of d dimensions (a heuristic)"},
    {"rho_realised", "rho^", "", .format = CLI_REAL, .error = "rho_realised_se",
     .definition = "mean cosine of the random model, over replicates"},
    {"rho_realised_se", "error of rho^", "", .format = CLI_SHORT, .hidden = true},
    {"note", "", "", .format = CLI_TEXT},
    {0}};

static const cli_table thresholds_table = {
    .rows = "thresholds", .title = "Where it happens", .columns = threshold_columns};

static const cli_column phase_columns[] = {
    {"n", "n", "tokens", .format = CLI_COUNT},
    {"gamma", "gamma", "", .format = CLI_SHORT},
    {"angle_ratio", "rho =", "", .format = CLI_SHORT, .each = "rho"},
    {0}};

static const cli_table phase_table = {
    .rows = "phase",
    .title = "Angle ratio: 0 collapse, 1 identity",
    .columns = phase_columns,
    .note = "The boundary is gamma_c = 1/(1-rho). --csv and --json have one row for each gamma "
            "and rho, for a heat map."};

static const cli_column curve_columns[] = {
    {"n", "context", "tokens", .format = CLI_COUNT},
    {"gamma_plain", "gamma", "plain", .format = CLI_SHORT,
     .definition = "plain: scores stay as they were in training, gamma = beta/ln n falls"},
    {"angle_ratio_plain", "angle ratio", "plain", .format = CLI_SHORT,
     .definition = "of equiangular tokens at the first rho"},
    {"gamma_yarn", "gamma", "yarn", .format = CLI_SHORT,
     .definition = "yarn: scores times (C ln(n/N) + 1)^2 beyond N"},
    {"angle_ratio_yarn", "angle ratio", "yarn", .format = CLI_SHORT},
    {"gamma_logn", "gamma", "log n", .format = CLI_SHORT,
     .definition = "log n: scores times ln n/ln N beyond N, which keeps gamma"},
    {"angle_ratio_logn", "angle ratio", "log n", .format = CLI_SHORT},
    {"gamma_c", "gamma_c", "", .format = CLI_SHORT, .hidden = true,
     .definition = "1/(1-rho) at the first rho"},
    {"gamma_low", "p = 0.1", "gamma", .format = CLI_SHORT, .hidden = true},
    {"gamma_high", "p = 0.9", "gamma", .format = CLI_SHORT, .hidden = true},
    {0}};

static const cli_table curves_table = {
    .rows = "curves", .title = "Score scalings in use", .columns = curve_columns};

const cli_table *const collapse_views[] = {&rows_table, &thresholds_table, &phase_table,
                                           &curves_table, NULL};
const cli_table *const collapse_phase_views[] = {&phase_table, &curves_table, NULL};

/* ---- rows ---- */

static es_status exact_at(const collapse_options *o, int64_t n, double rho, double gamma,
                          es_collapse *out, es_error *err)
{
    const es_equiangular t = {
        .n = n, .rho = rho, .beta = gamma * log((double)n), .alpha = o->alpha, .square = o->square};
    return es_collapse_exact(&t, out, err);
}

static void put_measured(json_t *row, const char *name, double mean, double se)
{
    char key[64];
    snprintf(key, sizeof key, "%s_measured", name);
    json_object_set_new(row, key, cli_real(mean));
    snprintf(key, sizeof key, "%s_measured_se", name);
    json_object_set_new(row, key, cli_real(se));
}

static es_status put_model(const collapse_job *job, int64_t n, double gamma,
                           const es_collapse_row *m, json_t *row, es_error *err)
{
    es_collapse realised;
    /* By chance a realised cosine near 0 may be negative, which the closed form does not have. */
    const es_status status = exact_at(job->o, n, fmax(m->mean.rho, 0.0), gamma, &realised, err);
    if (status != ES_OK)
        return status;
    json_object_set_new(row, "rho_realised", cli_real(m->mean.rho));
    json_object_set_new(row, "angle_ratio_realised", cli_real(realised.angle_ratio));
    put_measured(row, "angle_ratio", m->mean.angle_ratio, m->se.angle_ratio);
    put_measured(row, "self_weight", m->mean.self_weight, m->se.self_weight);
    put_measured(row, "cosine", m->mean.cosine, m->se.cosine);
    put_measured(row, "ess", m->mean.ess, m->se.ess);
    put_measured(row, "gradient", m->mean.gradient, m->se.gradient);
    return ES_OK;
}

static es_status put_row(const collapse_job *job, json_t *list, int64_t n, double rho, double gamma,
                         const es_collapse_row *measured, double *angle_ratio, es_error *err)
{
    es_collapse c;
    es_status status = exact_at(job->o, n, rho, gamma, &c, err);
    if (status != ES_OK)
        return status;
    const double beta = gamma * log((double)n);
    json_t *row = json_object();
    json_object_set_new(row, "n", json_integer(n));
    json_object_set_new(row, "rho", cli_real(rho));
    json_object_set_new(row, "gamma", cli_real(gamma));
    json_object_set_new(row, "times", cli_real(gamma * (1.0 - rho)));
    json_object_set_new(row, "beta", cli_real(beta));
    json_object_set_new(row, "phase", json_string(es_collapse_phase_name(c.phase)));
    json_object_set_new(row, "self_weight", cli_real(c.self_weight));
    json_object_set_new(row, "angle_ratio", cli_real(c.angle_ratio));
    json_object_set_new(row, "cosine", cli_real(c.cosine));
    json_object_set_new(row, "ess", cli_real(c.ess));
    json_object_set_new(row, "entropy", cli_real(c.entropy));
    json_object_set_new(row, "gradient", cli_real(c.gradient_limit));
    json_object_set_new(row, "self_weight_dim",
                        cli_real(es_collapse_self_weight(n, rho, beta, job->o->dim)));
    if (measured)
        status = put_model(job, n, gamma, measured, row, err);
    json_array_append_new(list, row);
    *angle_ratio = c.angle_ratio;
    return status;
}

/* ---- thresholds ---- */

/* The gamma at which equiangular tokens have weight p on themselves. */
static double gamma_of(int64_t n, double rho, double p)
{
    return log((double)(n - 1) * p / (1.0 - p)) / (log((double)n) * (1.0 - rho));
}

static void put_window(json_t *row, int64_t n, double rho)
{
    json_object_set_new(row, "gamma_c", cli_real(1.0 / (1.0 - rho)));
    json_object_set_new(row, "gamma_low", cli_real(fmax(0.0, gamma_of(n, rho, 0.1))));
    json_object_set_new(row, "gamma_high", cli_real(gamma_of(n, rho, 0.9)));
}

static json_t *threshold_of(const collapse_job *job, int64_t n, double rho,
                            const es_collapse_row *measured)
{
    const double at_dim = es_collapse_threshold(n, rho, job->o->dim);
    json_t *row = json_object();
    json_object_set_new(row, "n", json_integer(n));
    json_object_set_new(row, "rho", cli_real(rho));
    put_window(row, n, rho);
    json_object_set_new(row, "gamma_c_dim", cli_real(at_dim));
    if (isnan(at_dim))
        json_object_set_new(row, "note",
                            json_string("d too small: tokens freeze onto neighbours before they "
                                        "see themselves alone"));
    if (measured) {
        json_object_set_new(row, "rho_realised", cli_real(measured->mean.rho));
        json_object_set_new(row, "rho_realised_se", cli_real(measured->se.rho));
    }
    return row;
}

/* ---- everything at one n ---- */

static es_status put_size(const collapse_job *job, int64_t size, json_t *rows, json_t *thresholds,
                          json_t *phase, es_error *err)
{
    const collapse_options *o = job->o;
    const int64_t n = o->n.counts[size], rhos = o->rho.count;
    es_status status = ES_OK;
    for (int64_t g = 0; g < job->gammas; g++) {
        json_t *line = json_object(), *ratios = json_array();
        for (int64_t r = 0; r < rhos && status == ES_OK; r++) {
            const double rho = o->rho.reals[r];
            const es_collapse_row *measured = job->rows && n <= COLLAPSE_MOST_DRAWN
                                                  ? &job->rows[(size * rhos + r) * job->gammas + g]
                                                  : NULL;
            double ratio = (double)NAN;
            status = put_row(job, rows, n, rho, collapse_gamma(job, rho, g), measured, &ratio, err);
            json_array_append_new(ratios, cli_real(ratio));
            if (g == 0)
                json_array_append_new(thresholds, threshold_of(job, n, rho, measured));
        }
        json_object_set_new(line, "n", json_integer(n));
        json_object_set_new(line, "gamma", cli_real(collapse_gamma(job, 0.0, g)));
        json_object_set_new(line, "angle_ratio", ratios);
        json_array_append_new(phase, line);
    }
    return status;
}

/* ---- scalings in use ---- */

static es_status put_curves(const collapse_job *job, json_t *list, es_error *err)
{
    const collapse_options *o = job->o;
    const double train = (double)o->train, rho = o->rho.reals[0];
    es_status status = ES_OK;
    for (int64_t i = 0; i < o->contexts.count && status == ES_OK; i++) {
        const double n = o->contexts.reals[i];
        const double plain = o->train_gamma * log(train) / log(n);
        const struct {
            const char *name;
            double gamma;
        } curves[] = {{"plain", plain},
                      {"yarn", plain * es_scaling_yarn(n, train, o->yarn)},
                      {"logn", plain * es_scaling_logn(n, train)}};
        json_t *row = json_object();
        json_object_set_new(row, "n", json_integer(o->contexts.counts[i]));
        put_window(row, o->contexts.counts[i], rho);
        for (int c = 0; c < 3 && status == ES_OK; c++) {
            char key[64];
            es_collapse at;
            status = exact_at(o, o->contexts.counts[i], rho, curves[c].gamma, &at, err);
            if (status != ES_OK)
                break;
            snprintf(key, sizeof key, "gamma_%s", curves[c].name);
            json_object_set_new(row, key, cli_real(curves[c].gamma));
            snprintf(key, sizeof key, "angle_ratio_%s", curves[c].name);
            json_object_set_new(row, key, cli_real(at.angle_ratio));
            snprintf(key, sizeof key, "self_weight_%s", curves[c].name);
            json_object_set_new(row, key, cli_real(at.self_weight));
        }
        json_array_append_new(list, row);
    }
    return status;
}

/* ---- all of it ---- */

es_status collapse_answer(const collapse_job *job, es_error *err)
{
    const collapse_options *o = job->o;
    json_t *answer = job->session->answer;
    json_t *rows = json_array(), *thresholds = json_array(), *phase = json_array();
    es_status status = ES_OK;
    json_object_set_new(answer, "dim", json_integer(o->dim));
    json_object_set_new(answer, "alpha", cli_real(o->alpha));
    json_object_set_new(answer, "square", cli_real(o->square));
    json_object_set_new(answer, "replicates", json_integer(o->replicates));
    json_object_set_new(answer, "rho", cli_reals(o->rho.reals, o->rho.count));
    for (int64_t i = 0; i < o->n.count && status == ES_OK; i++)
        status = put_size(job, i, rows, thresholds, phase, err);
    json_object_set_new(answer, "rows", rows);
    json_object_set_new(answer, "thresholds", thresholds);
    if (o->phase)
        json_object_set(answer, "phase", phase);
    json_decref(phase);
    if (status == ES_OK && o->curves) {
        json_t *curves = json_array();
        json_object_set_new(answer, "train", json_integer(o->train));
        json_object_set_new(answer, "train_gamma", cli_real(o->train_gamma));
        json_object_set_new(answer, "yarn", cli_real(o->yarn));
        json_object_set_new(answer, "curves", curves);
        status = put_curves(job, curves, err);
    }
    return status;
}
