/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : table "rows": measured weights beside the laws, and the regime of every setting
 * (THEORY 6).
 *
 * With T = 1 - <q, k>, P(T <= t) ~ c t^alpha near 0, the scale beta = b n^{1/alpha} is critical:
 * beta T_i tend to a Poisson process, and the ordered weights to e^{-s_k} / sum e^{-s_j},
 * s_k = b' (E_1 + ... + E_k)^{1/alpha}. Below it weights average, above it the nearest key takes
 * all. Three laws stand beside each measurement: the exact expectation for n keys (an integral),
 * the critical limit, and the sub- or supercritical asymptotics. The regime's name follows from the
 * exact ESS = 1/E sum w^2 alone: averaging from 100 keys on, single-key below 2. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/regimes/regimes.h"
#include "theory/freezing.h"

#define NEAR_ENOUGH 0.05 /* largest relative error at which the limit counts as reached */

/* ---- columns ---- */

/* A mean over replicates beside its expectation for n keys. */
typedef struct compared {
    es_measured mean;
    double law, law_error, z;
} compared;

/* A row of the main table: weights of n keys at one beta, measured, exact, and in the limits below,
 * at and above the critical scale. */
typedef struct table_row {
    double dim, n, b, beta, alpha;
    compared top_weight, inverse_ess, entropy, deficit, tangential;
    es_measured radial;
    double top_weight_limit, top_weight_asymptotic, inverse_ess_limit, inverse_ess_asymptotic;
    double ks, ks_p, deficit_average, deficit_limit, bias_series, tangential_limit;
    double radial_variance_average, tangential_variance_average;
    double normal_p, normal_radial_p, normal_tangential_p;
    es_measured ordered[ES_REGIMES_TOP], ordered_limit[ES_REGIMES_TOP];
    double ordered_ks[ES_REGIMES_TOP], ordered_ks_p[ES_REGIMES_TOP];
    double scaled_b, keys_within_reach, averaging_beta, freezing_beta, law_identity;
    double bulk_share, bulk_normality;
    const char *regime, *reason, *limit_note;
    double limit_off, limit_needs_n;
    es_regime regime_id; /* no column: the regime as a number */
} table_row;

#define COMPARED(member, title, unit, definition, exact)                                           \
    ES_COL_KEY(table_row, member.mean, #member, ES_FORMAT_REAL, title, unit, definition),          \
        ES_COL_KEY(table_row, member.law, #member "_law", ES_FORMAT_REAL, "exact", unit, exact,    \
                   .standing = ES_STANDING_PROVED),                                                \
        ES_COL_KEY(table_row, member.law_error, #member "_law_error", ES_FORMAT_SHORT,             \
                   title " exact error", unit, "bound on the error of the quadrature"),            \
        ES_COL_KEY(table_row, member.z, #member "_z", ES_FORMAT_SHORT, title " z", "",             \
                   "measured minus exact, in standard errors of the measurement")

static const es_column columns[] = {
    ES_COL(table_row, dim, ES_FORMAT_COUNT, "dim", ""),
    ES_COL(table_row, n, ES_FORMAT_COUNT, "n", "keys"),
    ES_COL(table_row, b, ES_FORMAT_SHORT, "b", "",
           "inverse temperature over the critical scale `n^(1/alpha)`"),
    ES_COL(table_row, beta, ES_FORMAT_SHORT, "beta", "", "inverse temperature"),
    ES_COL(table_row, alpha, ES_FORMAT_SHORT, "alpha", "",
           "local exponent of the keys at the query"),
    COMPARED(top_weight, "largest weight", "",
             "mean over replicates; with --key-law planted, the weight of the planted key",
             "its expectation for n keys, by quadrature"),
    ES_COL(table_row, top_weight_limit, ES_FORMAT_REAL, "limit", "",
           "its expectation in the critical limit, n to infinity at this b",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, top_weight_asymptotic, ES_FORMAT_REAL, "asymptotic largest weight", "",
           "leading term far above the critical scale", .standing = ES_STANDING_PROVED),
    COMPARED(inverse_ess, "sum of squares", "",
             "of the weights: 1 over the effective number of keys", "its expectation"),
    ES_COL(table_row, inverse_ess_limit, ES_FORMAT_REAL, "limit", "",
           "its expectation in the critical limit", .standing = ES_STANDING_PROVED),
    ES_COL(table_row, inverse_ess_asymptotic, ES_FORMAT_REAL, "asymptotic sum of squares", "",
           "leading term far from the critical scale", .standing = ES_STANDING_PROVED),
    ES_COL(table_row, ks, ES_FORMAT_SHORT, "distance from limit law", "",
           "Kolmogorov-Smirnov distance of the largest weights from a sample of the critical "
           "limit"),
    ES_COL(table_row, ks_p, ES_FORMAT_SHORT, "p of limit law", "",
           "Kolmogorov-Smirnov test: probability of a larger distance between the largest weights "
           "and a sample of the critical limit, if that is their law"),
    COMPARED(entropy, "entropy", "nats", "-sum w ln w", NULL),
    COMPARED(deficit, "1 - <out,q>", "", "distance of the output from the query along the query",
             NULL),
    ES_COL(table_row, deficit_average, ES_FORMAT_REAL, "average", "",
           "its subcritical limit, `1 - I_{d/2}(beta)/I_{d/2-1}(beta)`"),
    ES_COL(table_row, deficit_limit, ES_FORMAT_REAL, "deficit in the limit", "",
           "in the critical limit", .standing = ES_STANDING_PROVED),
    ES_COL(table_row, bias_series, ES_FORMAT_REAL, "bias series", "",
           "the subcritical output along the query minus 1, to third order in `1/beta`",
           .standing = ES_STANDING_PROVED),
    COMPARED(tangential, "|tangential|^2", "",
             "mean square of the output's part orthogonal to the query", NULL),
    ES_COL(table_row, tangential_limit, ES_FORMAT_REAL, "tangential in the limit", "",
           "in the critical limit", .standing = ES_STANDING_PROVED),
    ES_COL(
        table_row, radial, ES_FORMAT_REAL, "radial identity", "",
        "`beta (1 - <out,q> - |tangential|^2/2)`, mean over replicates; `(d-1)/2` at the critical "
        "scale"),
    ES_COL(table_row, radial_variance_average, ES_FORMAT_REAL, "radial variance", "",
           "of the output along the query, subcritical", .standing = ES_STANDING_PROVED),
    ES_COL(table_row, tangential_variance_average, ES_FORMAT_REAL, "tangential variance", "",
           "of one coordinate orthogonal to the query, subcritical",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, normal_p, ES_FORMAT_SHORT, "p of normality", "",
           "of both tests below together: `1 - (1 - p)^2` of the smaller p, which is uniform if "
           "both are Gaussian; only if all keys that matter were drawn"),
    ES_COL(table_row, normal_radial_p, ES_FORMAT_SHORT, "p of normality, radial", "",
           "Kolmogorov-Smirnov test that the output along the query is Gaussian with mean and "
           "variance of the subcritical limit; its bias, about `1/sqrt(n)` of the standard "
           "deviation, is detected with several n replicates"),
    ES_COL(table_row, normal_tangential_p, ES_FORMAT_SHORT, "p of normality, tangential", ""),
    ES_COL_LIST(table_row, ordered, ES_FORMAT_REAL, "weight", "",
                "the k-th largest, mean over replicates"),
    ES_COL_LIST(table_row, ordered_limit, ES_FORMAT_REAL, "limit of weight", "",
                "the k-th largest over a sample of the critical limit",
                .standing = ES_STANDING_PROVED),
    ES_COL_LIST(table_row, ordered_ks, ES_FORMAT_SHORT, "distance of weight", "",
                "Kolmogorov-Smirnov distance of the two"),
    ES_COL_LIST(table_row, ordered_ks_p, ES_FORMAT_SHORT, "p of weight", ""),
    ES_COL(table_row, scaled_b, ES_FORMAT_SHORT, "b'", "", "`beta (n c)^(-1/alpha)`"),
    ES_COL(table_row, keys_within_reach, ES_FORMAT_SHORT, "keys within reach", "keys",
           "expected sum of `exp(-beta (1 - <q, k>))` in the critical limit",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, averaging_beta, ES_FORMAT_SHORT, "averaging below", "beta",
           "largest beta at which 100 keys or more share the weight, `1/(E sum w^2) >= 100` (two "
           "thirds of the keys if that is fewer): solved on the exact `E sum w^2` of n keys",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, freezing_beta, ES_FORMAT_SHORT, "single-key from", "beta",
           "beta from which on fewer than 2 keys share the weight, `E sum w^2 > 1/2`, and the "
           "nearest has more than half of it on average: solved in the same way",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, law_identity, ES_FORMAT_SHORT, "defect of identity", "",
           "relative defect of an identity between the exact expectations"),
    ES_COL(table_row, bulk_share, ES_FORMAT_SHORT, "Gaussian share", "",
           "largest share of the weight that was drawn as a Gaussian sum"),
    ES_COL(table_row, bulk_normality, ES_FORMAT_SHORT, "bound on its error", "",
           "Berry-Esseen bound, in probability"),
    ES_COL(table_row, regime, ES_FORMAT_TEXT, "regime", "",
           "averaging, selective or single-key: by the exact `E sum w^2` (for keys of a file the "
           "measured one), with the cut-offs of the two columns before; a convention"),
    ES_COL(table_row, reason, ES_FORMAT_TEXT, "because", ""),
    ES_COL(table_row, limit_note, ES_FORMAT_TEXT, "critical limit", ""),
    ES_COL(table_row, limit_off, ES_FORMAT_SHORT, "limit off", "",
           "sum of squares in the critical limit over its exact expectation, minus 1"),
    ES_COL(table_row, limit_needs_n, ES_FORMAT_SHORT, "limit needs n", "keys",
           "n from which on the limit is within 5 % at this b"),
    {0}};

static const es_table_view views[] = {
    {"Weights of keys on the sphere", "dim n b beta top_weight top_weight_law top_weight_limit "
                                      "inverse_ess inverse_ess_law inverse_ess_limit ks_p"},
    {"Entropy and output",
     "dim n beta entropy entropy_law deficit deficit_law deficit_average "
     "tangential tangential_law normal_p",
     .only_with_full = true},
    {"Which regime, and why", "dim n beta averaging_beta freezing_beta regime reason limit_note"},
    {0}};
static const es_table_spec rows_table = {"rows", columns, views, ES_ROW(table_row),
                                         .keys = "dim n b"};

/* ---- one row ---- */

/* A row in progress. */
typedef struct row_ctx {
    es_table *t;
    table_row *r;
    regimes_cell cell;
    const es_regimes_row *measured;
    es_scales scales; /* of these keys: the same at every beta */
} row_ctx;

static const es_num unknown = {.val = NAN, .err = NAN};

/* Returns a measured mean beside its law, and their distance in standard errors. */
static compared compare(es_measured mean, es_num law)
{
    return (compared){mean, law.val, law.err, (mean.value - law.val) / mean.se};
}

/* Fills the means. The tangential part of turned keys is unknown, and so is its law. */
static void fill_compared(const row_ctx *c, const es_weights *law)
{
    const es_regimes_row *m = c->measured;
    c->r->top_weight = compare(m->top[0], law->top);
    c->r->inverse_ess = compare(m->squares, law->squares);
    c->r->entropy = compare(m->entropy, law->entropy);
    c->r->deficit = compare(m->deficit, law->deficit);
    c->r->tangential =
        compare(m->tangential, isnan(m->tangential.value) ? unknown : law->tangential);
    c->r->radial = (es_measured){c->cell.beta * m->radial.value, c->cell.beta * m->radial.se};
}

/* Fills the tests of ordered weights against the Poisson limit and of outputs against the normal
 * law. */
static void fill_tests(table_row *r, const es_regimes_row *m)
{
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        r->ordered[k] = m->top[k];
        r->ordered_limit[k] = m->limit[k];
        r->ordered_ks[k] = m->law[k].distance;
        r->ordered_ks_p[k] = m->law[k].p;
    }
    r->ks = m->law[0].distance;
    r->ks_p = m->law[0].p;
    r->normal_radial_p = m->normal[0].p;
    r->normal_tangential_p = m->normal[1].p;
    r->normal_p = es_regimes_normal_p(m);
    r->bulk_share = m->bulk;
    r->bulk_normality = m->normality;
}

/* Fills the regime of a setting from its largest weight and sum of squares, with the reason. */
static void fill_regime(const row_ctx *c, double top, double squares)
{
    es_regime_finding found;
    es_regime_of((double)c->cell.n, top, squares, &found);
    c->r->regime_id = found.regime;
    c->r->regime = es_regime_name(found.regime);
    c->r->reason = es_table_format(c->t, "%s", found.reason);
    c->r->averaging_beta = c->scales.averages;
    c->r->freezing_beta = c->scales.frozen;
}

/* Writes from which n on the limit holds. */
static void say_needs(double needs, char *out, size_t size)
{
    if (isnan(needs))
        out[0] = '\0';
    else if (isinf(needs))
        snprintf(out, size, "; at this b at no n that fits a number");
    else
        snprintf(out, size, "; at this b within 5 %% from about n = %.0e on", needs);
}

/* Fills how close the critical limit is at this n. */
static void fill_limit_note(const row_ctx *c, const es_weights *law, const es_weights *limit)
{
    char when[80];
    const double off = limit->squares.val / law->squares.val - 1.0, n = (double)c->cell.n;
    const double needs = es_critical_needs(&c->cell.keys, n, c->cell.beta, NEAR_ENOUGH);
    c->r->limit_off = off;
    c->r->limit_needs_n = needs;
    say_needs(needs, when, sizeof when);
    if (c->cell.keys.planted)
        c->r->limit_note = "none: the planted key is at distance 0 for every n";
    else if (isnan(limit->squares.val))
        c->r->limit_note = es_table_format(c->t, "not reached: it has %.1e keys within reach%s",
                                           c->r->keys_within_reach, when);
    else if (fabs(off) <= NEAR_ENOUGH)
        c->r->limit_note =
            es_table_format(c->t, "holds within %.2g %%", fmax(100.0 * fabs(off), 0.01));
    else
        c->r->limit_note = es_table_format(c->t, "not reached: off by %.3g %%%s", 100.0 * off,
                                           needs > n ? when : "; too few keys");
}

/* Fills the leading terms on either side of the critical scale, and for uniform keys bias and
 * variances of the subcritical average, which are those of a tilted sphere over n (THEORY 6). */
static void fill_asymptotic(const row_ctx *c, const es_weights *law)
{
    const es_keys *keys = &c->cell.keys;
    const double n = (double)c->cell.n;
    table_row *r = c->r;
    es_average a;
    const bool uniform = keys->n_parts == 0 && keys->vanish == 0.0 && !keys->planted;
    const bool average = uniform && es_average_at(keys->dim, c->cell.beta, &a, NULL) == ES_OK;
    r->top_weight_asymptotic = r->inverse_ess_asymptotic = (double)NAN;
    if (law->top.val > 0.9 && !keys->planted) /* where a leading term is meaningful */
        es_weights_supercritical(c->cell.cap.alpha, r->scaled_b, &r->top_weight_asymptotic,
                                 &r->inverse_ess_asymptotic);
    else if (law->squares.val <= es_averages_squares(n) && average)
        r->inverse_ess_asymptotic = a.spread.val / n;
    r->deficit_average = average ? 1.0 - a.mean.val : (double)NAN;
    r->bias_series = average ? a.series - 1.0 : (double)NAN;
    r->radial_variance_average = average ? a.radial.val / n : (double)NAN;
    r->tangential_variance_average = average ? a.tangential.val / n : (double)NAN;
}

/* Keys of a file have no law: the measurement decides the regime. */
static void fill_file_row(const row_ctx *c)
{
    const es_weights none = {unknown, unknown, unknown, unknown, unknown, (double)NAN};
    fill_compared(c, &none);
    fill_regime(c, c->measured->top[0].value, c->measured->squares.value);
    c->r->limit_note = "no law is known of keys in a file";
}

/* With T = 1 - <q, k> and P(T <= t) ~ c t^alpha, the points beta T_i become a Poisson process of
 * intensity d(s/b')^alpha, b' = beta (n c)^(-1/alpha), and weights are softmax(-s) (THEORY 6).
 * es_weights_exact() integrates the same for n keys. The exact value decides the regime, because in
 * high dimension the limit is reached at no realistic n. */
static es_status fill_law_row(const row_ctx *c, es_mem_limit *budget, es_error *err)
{
    const regimes_cell *cell = &c->cell;
    const double scaled = es_critical_scale(&cell->cap, (double)cell->n, cell->beta);
    es_weights law, limit = {unknown, unknown, unknown, unknown, unknown, (double)NAN};
    ES_TRY(es_weights_exact(&cell->keys, cell->n, cell->beta, budget, &law, err));
    if (!cell->keys.planted) /* outside its range the limit stays unknown */
        es_weights_critical(cell->cap.alpha, scaled, budget, &limit, NULL);
    fill_compared(c, &law);
    fill_regime(c, law.top.val, law.squares.val);
    c->r->top_weight_limit = limit.top.val;
    c->r->inverse_ess_limit = limit.squares.val;
    c->r->deficit_limit = limit.deficit.val / cell->beta;
    c->r->tangential_limit = limit.tangential.val / cell->beta;
    c->r->scaled_b = scaled;
    c->r->keys_within_reach = es_critical_mean(cell->cap.alpha, scaled);
    c->r->law_identity = law.identity;
    fill_asymptotic(c, &law);
    fill_limit_note(c, &law, &limit);
    return ES_OK;
}

/* Finds where the regimes of these keys end: as for the previous cell, unless dim or n changed. */
static es_status find_scales(const regimes_cell *c, const regimes_cell *before,
                             es_mem_limit *budget, es_scales *scales, es_error *err)
{
    if (before->n == c->n && before->dim == c->dim)
        return ES_OK;
    *scales = (es_scales){(double)NAN, (double)NAN};
    return c->n > 1 ? es_scales_of(&c->keys, c->n, budget, scales, err) : ES_OK;
}

/* Adds the row of cell i; *c holds the previous row. */
static es_status add_row(es_job *job, int64_t i, row_ctx *c, es_error *err)
{
    const bool file = ((const regimes_params *)job->params)->law == REGIMES_FILE;
    const regimes_cell before = c->cell;
    ES_TRY(regimes_cell_of(job, i, &c->cell, err));
    if (!file)
        ES_TRY(find_scales(&c->cell, &before, job->exec.budget, &c->scales, err));
    c->measured = es_job_cell(job, 0, i);
    c->r = es_rows_add(c->t, table_row);
    if (!c->r)
        return es_answer_status(job->answer, err);
    c->r->dim = (double)c->cell.dim;
    c->r->n = (double)c->cell.n;
    c->r->b = c->cell.b;
    c->r->beta = c->cell.beta;
    c->r->alpha = c->cell.cap.alpha;
    fill_tests(c->r, c->measured);
    if (!file)
        return fill_law_row(c, job->exec.budget, err);
    fill_file_row(c);
    return ES_OK;
}

/* ---- findings ---- */

/* Reports how many settings each regime has. */
static void report_counts(es_answer *a, const table_row *rows, int64_t count)
{
    long long counts[ES_REGIMES] = {0};
    for (int64_t i = 0; i < count; i++)
        counts[rows[i].regime_id]++;
    es_answer_add_finding(a,
                          "Of %lld settings, %lld are averaging, %lld selective (a few keys share "
                          "the weight) and %lld "
                          "single-key.",
                          (long long)count, counts[ES_REGIME_AVERAGING],
                          counts[ES_REGIME_SELECTIVE], counts[ES_REGIME_SINGLE_KEY]);
}

/* Returns the most informative setting: of the selective ones, which lie between the extremes, the
 * one with most keys; without any, the last. */
static const table_row *choose_row(const table_row *rows, int64_t count)
{
    const table_row *best = &rows[count - 1];
    double most = 0.0;
    for (const table_row *r = rows; r < rows + count; r++)
        if (r->regime_id == ES_REGIME_SELECTIVE && r->n > most) {
            most = r->n;
            best = r;
        }
    return best;
}

/* Reports where attention stops averaging for the keys of one setting; for keys without a law, the
 * regime of that setting and its largest weight. */
static void report_row(es_answer *a, const table_row *r)
{
    char weight[ES_SAY_SIZE], keys[ES_SAY_SIZE];
    if (r->averaging_beta > 0.0 && isfinite(r->freezing_beta)) {
        es_answer_add_finding(a,
                              "%s keys in dimension %.0f: attention averages (%.3g keys or more "
                              "share its weight) below beta = %.3g, and fewer than 2 share it from "
                              "beta = %.3g on.",
                              es_say_size(r->n, keys), r->dim, 1.0 / es_averages_squares(r->n),
                              r->averaging_beta, r->freezing_beta);
        return;
    }
    es_answer_add_finding(a,
                          "At dim %.0f, n = %.8g and score scale beta = %.4g attention is %s: %s; "
                          "the largest weight is %s.",
                          r->dim, r->n, r->beta, r->regime, r->reason,
                          es_say_number(r->top_weight.mean.value, r->top_weight.mean.se, weight));
}

/* Adds the distances of the five means from their exact expectations. */
static void add_distances(const table_row *r, regimes_distances *out)
{
    const compared *all[] = {&r->top_weight, &r->inverse_ess, &r->entropy, &r->deficit,
                             &r->tangential};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        regimes_add_distance(out, all[k]->mean, all[k]->law);
}

es_status regimes_fill_rows(es_job *job, es_answer *answer, regimes_distances *out, es_error *err)
{
    static const char *const each[] = {"ordered", "ordered_limit", "ordered_ks", "ordered_ks_p"};
    static const char *const labels[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    _Static_assert(sizeof labels / sizeof *labels == ES_REGIMES_TOP, "one for each weight");
    const int64_t cells = job->stages[0].cells;
    row_ctx c = {.t = es_answer_table(answer, &rows_table), .scales = {(double)NAN, (double)NAN}};
    es_job_phase(job, "computing exact laws", (double)cells * regimes_law_flops);
    for (size_t k = 0; k < sizeof each / sizeof *each; k++)
        es_table_each(c.t, each[k], labels, ES_REGIMES_TOP);
    for (int64_t i = 0; i < cells; i++) {
        ES_TRY(add_row(job, i, &c, err));
        add_distances(c.r, out);
        ES_TRY(es_job_tick(job, i + 1, cells));
    }
    const table_row *rows = es_rows(c.t, table_row);
    const table_row *best = choose_row(rows, cells);
    report_row(answer, best);
    if (cells > 1)
        report_counts(answer, rows, cells);
    ES_TRY(regimes_cell_of(job, best - rows, &c.cell, err));
    return isfinite(best->top_weight.law)
               ? regimes_fill_curve(job, answer, &c.cell, best->averaging_beta, best->freezing_beta,
                                    err)
               : ES_OK;
}
