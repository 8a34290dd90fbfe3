/* regimes_answer.c : a cell as a row of the answer, with the laws beside what was measured. */
#include "regimes.h"

#include <math.h>
#include <stdio.h>

#include "answer.h"

#define NEAR_ENOUGH 0.05 /* share by which the limit may be off before the program says so */

/* ---- tables ---- */

static const cli_column columns[] = {
    {"dim", "dim", "", .format = CLI_COUNT},
    {"n", "n", "keys", .format = CLI_COUNT},
    {"b", "b", "", .format = CLI_SHORT,
     .definition = "inverse temperature over the critical scale n^(1/alpha)"},
    {"beta", "beta", "", .format = CLI_SHORT, .definition = "inverse temperature"},
    {"top_weight", "largest weight", "", .format = CLI_REAL, .error = "top_weight_se",
     .definition = "mean over replicates, +- one standard error; of planted keys, the largest one "
                   "is the planted one"},
    {"top_weight_law", "exact", "", .format = CLI_REAL,
     .definition = "its expectation for n keys, by quadrature"},
    {"top_weight_limit", "limit", "", .format = CLI_REAL,
     .definition = "its expectation in the critical limit, n to infinity at this b"},
    {"inverse_ess", "sum of squares", "", .format = CLI_REAL, .error = "inverse_ess_se",
     .definition = "of the weights: 1 over the effective number of keys"},
    {"inverse_ess_law", "exact", "", .format = CLI_REAL, .definition = "its expectation"},
    {"inverse_ess_limit", "limit", "", .format = CLI_REAL,
     .definition = "its expectation in the critical limit"},
    {"ks_p", "p of limit law", "", .format = CLI_SHORT,
     .definition = "Kolmogorov-Smirnov test: the chance of a larger difference between the largest "
                   "weights and a sample of the critical limit, if that is their law"},
    {0}};

static const cli_column reasons[] = {
    {"dim", "dim", "", .format = CLI_COUNT},
    {"n", "n", "keys", .format = CLI_COUNT},
    {"beta", "beta", "", .format = CLI_SHORT},
    {"freezing_beta", "freezing beta", "", .format = CLI_SHORT,
     .definition = "where n keys freeze, 2 alpha n^(1/alpha) sqrt(1 - n^(-1/alpha)): a heuristic"},
    {"regime", "regime", "", .format = CLI_TEXT},
    {"reason", "because", "", .format = CLI_TEXT},
    {"limit_note", "critical limit", "", .format = CLI_TEXT},
    {0}};

static const cli_column outputs[] = {
    {"dim", "dim", "", .format = CLI_COUNT},
    {"n", "n", "keys", .format = CLI_COUNT},
    {"beta", "beta", "", .format = CLI_SHORT},
    {"entropy", "entropy", "nats", .format = CLI_REAL, .error = "entropy_se"},
    {"entropy_law", "exact", "nats", .format = CLI_REAL},
    {"deficit", "1 - <out,q>", "", .format = CLI_REAL, .error = "deficit_se",
     .definition = "how far the output stays behind the query"},
    {"deficit_law", "exact", "", .format = CLI_REAL},
    {"deficit_average", "average", "", .format = CLI_REAL,
     .definition = "its subcritical limit, 1 - I_{d/2}(beta)/I_{d/2-1}(beta)"},
    {"tangential", "|tangential|^2", "", .format = CLI_REAL, .error = "tangential_se",
     .definition = "mean square of the output's part orthogonal to the query"},
    {"tangential_law", "exact", "", .format = CLI_REAL},
    {"normal_p", "p of normality", "", .format = CLI_SHORT,
     .definition = "the smaller p-value of two Kolmogorov-Smirnov tests that the output's radial "
                   "and tangential fluctuations are Gaussian with the subcritical variances; only "
                   "where all keys that count were drawn"},
    {0}};

static const cli_table table = {
    .rows = "rows", .title = "Weights of keys on the sphere", .columns = columns};
static const cli_table output_table = {
    .rows = "rows", .title = "Entropy and output", .columns = outputs};
static const cli_table reason_table = {
    .rows = "rows", .title = "Which regime, and why", .columns = reasons};
const cli_table *const regimes_views[] = {&table, &output_table, &reason_table, NULL};

/* ---- one row ---- */

static void put(json_t *row, const char *key, double value)
{
    json_object_set_new(row, key, cli_real(value));
}

/* key, key_se; the law beside it as key_law, key_law_error, and the distance as key_z. */
static void put_measured(json_t *row, const char *key, es_estimate measured, es_num law)
{
    char name[64];
    put(row, key, measured.mean);
    snprintf(name, sizeof name, "%s_se", key);
    put(row, name, measured.se);
    snprintf(name, sizeof name, "%s_law", key);
    put(row, name, law.val);
    snprintf(name, sizeof name, "%s_law_error", key);
    put(row, name, law.err);
    snprintf(name, sizeof name, "%s_z", key);
    put(row, name, (measured.mean - law.val) / measured.se);
}

static void put_ordered(json_t *row, const es_regimes_row *r)
{
    double mean[ES_REGIMES_TOP], se[ES_REGIMES_TOP], distance[ES_REGIMES_TOP], p[ES_REGIMES_TOP];
    double limit[ES_REGIMES_TOP], limit_se[ES_REGIMES_TOP];
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        mean[k] = r->top[k].mean;
        se[k] = r->top[k].se;
        limit[k] = r->limit[k].mean;
        limit_se[k] = r->limit[k].se;
        distance[k] = r->law[k].distance;
        p[k] = r->law[k].p;
    }
    json_object_set_new(row, "ordered", cli_reals(mean, ES_REGIMES_TOP));
    json_object_set_new(row, "ordered_se", cli_reals(se, ES_REGIMES_TOP));
    put(row, "ks", distance[0]);
    put(row, "ks_p", p[0]);
    json_object_set_new(row, "ordered_limit", cli_reals(limit, ES_REGIMES_TOP));
    json_object_set_new(row, "ordered_limit_se", cli_reals(limit_se, ES_REGIMES_TOP));
    json_object_set_new(row, "ordered_ks", cli_reals(distance, ES_REGIMES_TOP));
    json_object_set_new(row, "ordered_ks_p", cli_reals(p, ES_REGIMES_TOP));
}

/* From which n on the limit would hold, in words. */
static void say_needs(double needs, char *out, size_t size)
{
    if (isnan(needs))
        out[0] = '\0';
    else if (isinf(needs))
        snprintf(out, size, "; at this b at no n that fits a number");
    else
        snprintf(out, size, "; at this b within 5 %% from about n = %.0e on", needs);
}

/* What the critical limit is worth at this n. */
static void put_limit_note(json_t *row, const regimes_cell *c, const es_weights *law,
                           const es_weights *limit, double reach)
{
    char note[200], when[80];
    const double off = limit->squares.val / law->squares.val - 1.0;
    const double needs = es_critical_needs(&c->keys, (double)c->n, c->beta, NEAR_ENOUGH);
    put(row, "limit_off", off);
    put(row, "limit_needs_n", needs);
    say_needs(needs, when, sizeof when);
    if (c->keys.planted)
        snprintf(note, sizeof note, "none: the planted key is at distance 0 for every n");
    else if (isnan(limit->squares.val))
        snprintf(note, sizeof note, "not reached: it has %.1e keys within reach%s", reach, when);
    else if (fabs(off) <= NEAR_ENOUGH)
        snprintf(note, sizeof note, "holds within %.2g %%", fmax(100.0 * fabs(off), 0.01));
    else
        snprintf(note, sizeof note, "not reached: off by %.3g %%%s", 100.0 * off,
                 needs > (double)c->n ? when : "; too few keys");
    json_object_set_new(row, "limit_note", json_string(note));
}

static void put_asymptotic(json_t *row, const regimes_cell *c, double scaled, es_regime regime)
{
    double top = NAN, squares = NAN;
    es_average a;
    const bool uniform = c->keys.n_parts == 0 && c->keys.vanish == 0.0 && !c->keys.planted;
    const bool average = uniform && es_average_at(c->keys.dim, c->beta, &a, NULL) == ES_OK;
    if (regime == ES_REGIME_SUPERCRITICAL && !c->keys.planted)
        es_weights_supercritical(c->cap.alpha, scaled, &top, &squares);
    else if (regime == ES_REGIME_SUBCRITICAL && average)
        squares = a.spread.val / (double)c->n;
    put(row, "top_weight_asymptotic", top);
    put(row, "inverse_ess_asymptotic", squares);
    put(row, "deficit_average", average ? 1.0 - a.mean.val : (double)NAN);
    put(row, "bias_series", average ? a.series - 1.0 : (double)NAN);
    put(row, "radial_variance_average", average ? a.radial.val / (double)c->n : (double)NAN);
    put(row, "tangential_variance_average",
        average ? a.tangential.val / (double)c->n : (double)NAN);
}

static void put_tests(json_t *row, const es_regimes_row *r)
{
    put_ordered(row, r);
    put(row, "normal_radial_p", r->normal[0].p);
    put(row, "normal_tangential_p", r->normal[1].p);
    put(row, "normal_p", fmin(r->normal[0].p, r->normal[1].p));
    put(row, "bulk_share", r->bulk);
    put(row, "bulk_normality", r->normality);
}

static const es_num unknown = {.val = NAN, .err = NAN};

/* Keys of a file have no law: what was measured names the regime. */
static void put_file_cell(const regimes_cell *c, json_t *row)
{
    const es_regimes_row *r = &c->row;
    es_regime_finding found;
    put_measured(row, "top_weight", r->top[0], unknown);
    put_measured(row, "inverse_ess", r->squares, unknown);
    put_measured(row, "entropy", r->entropy, unknown);
    put_measured(row, "deficit", r->deficit, unknown);
    put_measured(row, "tangential", r->tangential, unknown);
    es_regime_of((double)c->n, r->top[0].mean, r->squares.mean, &found);
    json_object_set_new(row, "regime", json_string(es_regime_name(found.regime)));
    json_object_set_new(row, "reason", json_string(found.reason));
    json_object_set_new(row, "limit_note", json_string("no law is known of keys in a file"));
    put(row, "freezing_beta",
        isnan(c->cap.alpha) ? (double)NAN : es_freezing_scale(c->cap.alpha, (double)c->n));
}

static es_status put_law_cell(cli_session *session, const regimes_cell *c, json_t *row,
                              es_error *err)
{
    const es_regimes_row *r = &c->row;
    const double scaled = es_critical_scale(&c->cap, (double)c->n, c->beta);
    const double reach = es_critical_mean(c->cap.alpha, scaled);
    es_weights law, limit = {unknown, unknown, unknown, unknown, unknown, NAN};
    es_regime_finding found;
    const es_status status = es_weights_exact(&c->keys, c->n, c->beta, &session->budget, &law, err);
    if (status != ES_OK)
        return status;
    if (!c->keys.planted) /* outside its range there is no limit to show */
        es_weights_critical(c->cap.alpha, scaled, &session->budget, &limit, NULL);
    es_regime_of((double)c->n, law.top.val, law.squares.val, &found);
    json_object_set_new(row, "regime", json_string(es_regime_name(found.regime)));
    json_object_set_new(row, "reason", json_string(found.reason));
    put_measured(row, "top_weight", r->top[0], law.top);
    put_measured(row, "inverse_ess", r->squares, law.squares);
    put_measured(row, "entropy", r->entropy, law.entropy);
    put_measured(row, "deficit", r->deficit, law.deficit);
    put_measured(row, "tangential", r->tangential,
                 isnan(r->tangential.mean) ? unknown : law.tangential);
    put(row, "top_weight_limit", limit.top.val);
    put(row, "inverse_ess_limit", limit.squares.val);
    put(row, "deficit_limit", limit.deficit.val / c->beta);
    put(row, "tangential_limit", limit.tangential.val / c->beta);
    put(row, "scaled_b", scaled);
    put(row, "keys_within_reach", reach);
    put(row, "freezing_beta", es_freezing_scale(c->cap.alpha, (double)c->n));
    put(row, "law_identity", law.identity);
    put_asymptotic(row, c, scaled, found.regime);
    put_limit_note(row, c, &law, &limit, reach);
    return ES_OK;
}

es_status regimes_put_cell(cli_session *session, const regimes_options *o, const regimes_cell *cell,
                           json_t *rows, es_error *err)
{
    json_t *row = json_object();
    es_status status = ES_OK;
    json_array_append_new(rows, row);
    json_object_set_new(row, "dim", json_integer(cell->dim));
    json_object_set_new(row, "n", json_integer(cell->n));
    put(row, "b", cell->b);
    put(row, "beta", cell->beta);
    put(row, "alpha", cell->cap.alpha);
    if (o->keys == KEYS_FILE)
        put_file_cell(cell, row);
    else
        status = put_law_cell(session, cell, row, err);
    put_tests(row, &cell->row);
    return status;
}
