/* rows.c : rows with the laws beside what was measured, regimes and findings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/regimes/question.h"
#include "theory/freezing.h"

#define NEAR_ENOUGH 0.05 /* share by which the limit may be off before the program says so */

/* ---- tables ---- */

/* What was measured, and its expectation. */
#define MEASURED(key, title, unit, definition, exact)                                              \
    {key, title, unit, ES_FORMAT_REAL, definition, .error = key "_se"},                            \
        {key "_law", "exact", unit, ES_FORMAT_REAL, exact, .standing = ES_STANDING_PROVED},        \
        {key "_law_error", title " exact error", unit, ES_FORMAT_SHORT,                            \
         "bound on the error of the quadrature"},                                                  \
    {                                                                                              \
        key "_z", title " z", "", ES_FORMAT_SHORT,                                                 \
            "measured minus exact, in standard errors of what was measured"                        \
    }

static const es_column columns[] = {
    {"dim", "dim", "", ES_FORMAT_COUNT},
    {"n", "n", "keys", ES_FORMAT_COUNT},
    {"b", "b", "", ES_FORMAT_SHORT, "inverse temperature over the critical scale n^(1/alpha)"},
    {"beta", "beta", "", ES_FORMAT_SHORT, "inverse temperature"},
    {"alpha", "alpha", "", ES_FORMAT_SHORT, "local exponent of the keys at the query"},
    MEASURED("top_weight", "largest weight", "",
             "mean over replicates; of planted keys, the largest one is the planted one",
             "its expectation for n keys, by quadrature"),
    {"top_weight_limit", "limit", "", ES_FORMAT_REAL,
     "its expectation in the critical limit, n to infinity at this b",
     .standing = ES_STANDING_PROVED},
    {"top_weight_asymptotic", "asymptotic largest weight", "", ES_FORMAT_REAL,
     "leading term far above the critical scale", .standing = ES_STANDING_PROVED},
    MEASURED("inverse_ess", "sum of squares", "",
             "of the weights: 1 over the effective number of keys", "its expectation"),
    {"inverse_ess_limit", "limit", "", ES_FORMAT_REAL, "its expectation in the critical limit",
     .standing = ES_STANDING_PROVED},
    {"inverse_ess_asymptotic", "asymptotic sum of squares", "", ES_FORMAT_REAL,
     "leading term far from the critical scale", .standing = ES_STANDING_PROVED},
    {"ks", "distance from limit law", "", ES_FORMAT_SHORT,
     "Kolmogorov and Smirnov's, of the largest weights from a sample of the critical limit"},
    {"ks_p", "p of limit law", "", ES_FORMAT_SHORT,
     "Kolmogorov-Smirnov test: the chance of a larger difference between the largest weights and a "
     "sample of the critical limit, if that is their law"},
    MEASURED("entropy", "entropy", "nats", "-sum w ln w", NULL),
    MEASURED("deficit", "1 - <out,q>", "", "how far the output stays behind the query", NULL),
    {"deficit_average", "average", "", ES_FORMAT_REAL,
     "its subcritical limit, 1 - I_{d/2}(beta)/I_{d/2-1}(beta)"},
    {"deficit_limit", "deficit in the limit", "", ES_FORMAT_REAL, "in the critical limit",
     .standing = ES_STANDING_PROVED},
    {"bias_series", "bias series", "", ES_FORMAT_REAL,
     "the subcritical output along the query minus 1, to third order in 1/beta",
     .standing = ES_STANDING_PROVED},
    MEASURED("tangential", "|tangential|^2", "",
             "mean square of the output's part orthogonal to the query", NULL),
    {"tangential_limit", "tangential in the limit", "", ES_FORMAT_REAL, "in the critical limit",
     .standing = ES_STANDING_PROVED},
    {"radial_variance_average", "radial variance", "", ES_FORMAT_REAL,
     "of the output along the query, subcritical", .standing = ES_STANDING_PROVED},
    {"tangential_variance_average", "tangential variance", "", ES_FORMAT_REAL,
     "of one coordinate orthogonal to it, subcritical", .standing = ES_STANDING_PROVED},
    {"normal_p", "p of normality", "", ES_FORMAT_SHORT,
     "of both tests below together: 1 - (1 - p)^2 of the smaller p, which is uniform if both "
     "are Gaussian; only where all keys that count were drawn"},
    {"normal_radial_p", "p of normality, radial", "", ES_FORMAT_SHORT,
     "Kolmogorov-Smirnov test that the output's part along the query is Gaussian with mean and "
     "variance of the subcritical limit; its bias is about 1/sqrt(n) of the spread and is found "
     "from several n replicates on"},
    {"normal_tangential_p", "p of normality, tangential", "", ES_FORMAT_SHORT},
    {"ordered", "weight", "", ES_FORMAT_REAL, "the k-th largest, mean over replicates",
     .error = "ordered_se", .each = true},
    {"ordered_limit", "limit of weight", "", ES_FORMAT_REAL,
     "the same over a sample of the critical limit", .error = "ordered_limit_se", .each = true,
     .standing = ES_STANDING_PROVED},
    {"ordered_ks", "distance of weight", "", ES_FORMAT_SHORT, "Kolmogorov and Smirnov's",
     .each = true},
    {"ordered_ks_p", "p of weight", "", ES_FORMAT_SHORT, .each = true},
    {"scaled_b", "b'", "", ES_FORMAT_SHORT, "beta (n c)^(-1/alpha)"},
    {"keys_within_reach", "keys within reach", "keys", ES_FORMAT_SHORT,
     "expected sum of exp(-beta (1 - <q, k>)) in the critical limit",
     .standing = ES_STANDING_PROVED},
    {"averaging_beta", "averaging below", "beta", ES_FORMAT_SHORT,
     "the beta up to which 100 keys or more share the weight, 1/(E sum w^2) >= 100 (two thirds of "
     "the keys where those are fewer): solved on the exact E sum w^2 of n keys",
     .standing = ES_STANDING_PROVED},
    {"freezing_beta", "single-key from", "beta", ES_FORMAT_SHORT,
     "the beta from which on fewer than 2 keys share the weight, E sum w^2 > 1/2, and the nearest "
     "has more than half of it on average: solved in the same way",
     .standing = ES_STANDING_PROVED},
    {"law_identity", "defect of identity", "", ES_FORMAT_SHORT,
     "relative defect of an identity that ties the exact expectations"},
    {"bulk_share", "Gaussian share", "", ES_FORMAT_SHORT,
     "largest share of the weight that was drawn as a Gaussian sum"},
    {"bulk_normality", "bound on its error", "", ES_FORMAT_SHORT,
     "Berry and Esseen's, in probability"},
    {"regime", "regime", "", ES_FORMAT_TEXT,
     "averaging, selective or single-key: by the exact E sum w^2 (of a file, the measured one), "
     "with the cut-offs of the two columns before; a convention"},
    {"reason", "because", "", ES_FORMAT_TEXT},
    {"limit_note", "critical limit", "", ES_FORMAT_TEXT},
    {"limit_off", "limit off", "", ES_FORMAT_SHORT,
     "sum of squares in the critical limit over its exact expectation, minus 1"},
    {"limit_needs_n", "limit needs n", "keys", ES_FORMAT_SHORT,
     "from where on the limit is within 5 % at this b"},
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
static const es_table_spec rows_table = {"rows", columns, views, .keys = "dim n b"};

/* ---- one row ---- */

/* A row under way. */
typedef struct line {
    es_table *t;
    int64_t row;
    regimes_cell cell;
    es_regimes_row measured;
    es_scales scales; /* of these keys: the same at every beta */
} line;

/* key, key_se; the law beside it as key_law, key_law_error, and the distance as key_z. */
static void put_measured(const line *l, const char *key, es_estimate measured, es_num law)
{
    es_put_under(l->t, l->row, key, {"", measured.mean}, {"_se", measured.se}, {"_law", law.val},
                 {"_law_error", law.err}, {"_z", (measured.mean - law.val) / measured.se});
}

static const char *const order_labels[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
_Static_assert(sizeof order_labels / sizeof *order_labels == ES_REGIMES_TOP, "one for each");

static void put_tests(const line *l)
{
    const es_regimes_row *r = &l->measured;
    for (int k = 0; k < ES_REGIMES_TOP; k++) {
        es_put_at(l->t, l->row, "ordered", k, r->top[k].mean);
        es_put_at(l->t, l->row, "ordered_se", k, r->top[k].se);
        es_put_at(l->t, l->row, "ordered_limit", k, r->limit[k].mean);
        es_put_at(l->t, l->row, "ordered_limit_se", k, r->limit[k].se);
        es_put_at(l->t, l->row, "ordered_ks", k, r->law[k].distance);
        es_put_at(l->t, l->row, "ordered_ks_p", k, r->law[k].p);
    }
    es_put(l->t, l->row, {"ks", r->law[0].distance}, {"ks_p", r->law[0].p},
           {"normal_radial_p", r->normal[0].p}, {"normal_tangential_p", r->normal[1].p},
           {"normal_p", es_regimes_normal_p(r)}, {"bulk_share", r->bulk},
           {"bulk_normality", r->normality});
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
static void put_limit_note(const line *l, const es_weights *law, const es_weights *limit,
                           double reach)
{
    const regimes_cell *c = &l->cell;
    char note[200], when[80];
    const double off = limit->squares.val / law->squares.val - 1.0;
    const double needs = es_critical_needs(&c->keys, (double)c->n, c->beta, NEAR_ENOUGH);
    es_put(l->t, l->row, {"limit_off", off}, {"limit_needs_n", needs});
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
    es_table_text(l->t, l->row, "limit_note", note);
}

/* THEORY 6: leading terms on either side of the critical scale, and for uniform keys bias and
 * variances of the subcritical average, which are those of a tilted sphere over n. */
static void put_asymptotic(const line *l, double scaled, const es_weights *law)
{
    const regimes_cell *c = &l->cell;
    double top = (double)NAN, squares = (double)NAN;
    es_average a;
    const bool uniform = c->keys.n_parts == 0 && c->keys.vanish == 0.0 && !c->keys.planted;
    const bool average = uniform && es_average_at(c->keys.dim, c->beta, &a, NULL) == ES_OK;
    if (law->top.val > 0.9 && !c->keys.planted) /* where a first term means something */
        es_weights_supercritical(c->cap.alpha, scaled, &top, &squares);
    else if (law->squares.val <= es_averages_squares((double)c->n) && average)
        squares = a.spread.val / (double)c->n;
    es_put(
        l->t, l->row, {"top_weight_asymptotic", top}, {"inverse_ess_asymptotic", squares},
        {"deficit_average", average ? 1.0 - a.mean.val : (double)NAN},
        {"bias_series", average ? a.series - 1.0 : (double)NAN},
        {"radial_variance_average", average ? a.radial.val / (double)c->n : (double)NAN},
        {"tangential_variance_average", average ? a.tangential.val / (double)c->n : (double)NAN});
}

static void put_regime(const line *l, double top, double squares)
{
    es_regime_finding found;
    es_regime_of((double)l->cell.n, top, squares, &found);
    es_table_text(l->t, l->row, "regime", es_regime_name(found.regime));
    es_table_text(l->t, l->row, "reason", found.reason);
    es_put(l->t, l->row, {"averaging_beta", l->scales.averages},
           {"freezing_beta", l->scales.frozen});
}

static const es_num unknown = {.val = NAN, .err = NAN};

static void put_all_measured(const line *l, const es_weights *law)
{
    const es_regimes_row *r = &l->measured;
    put_measured(l, "top_weight", r->top[0], law->top);
    put_measured(l, "inverse_ess", r->squares, law->squares);
    put_measured(l, "entropy", r->entropy, law->entropy);
    put_measured(l, "deficit", r->deficit, law->deficit);
    put_measured(l, "tangential", r->tangential,
                 isnan(r->tangential.mean) ? unknown : law->tangential);
}

/* Keys of a file have no law: what was measured names the regime. */
static void put_file_cell(const line *l)
{
    const es_weights none = {unknown, unknown, unknown, unknown, unknown, (double)NAN};
    put_all_measured(l, &none);
    put_regime(l, l->measured.top[0].mean, l->measured.squares.mean);
    es_table_text(l->t, l->row, "limit_note", "no law is known of keys in a file");
}

/* THEORY 6: with T = 1 - <q, k> and P(T <= t) ~ c t^alpha, the points beta T_i become a Poisson
 * process of intensity d(s/b')^alpha, b' = beta (n c)^(-1/alpha), and weights are softmax(-s).
 * es_weights_exact() integrates the same for n keys; it decides which regime this is, because in
 * high dimension the limit is reached at no n that exists. */
static es_status put_law_cell(const line *l, es_mem_limit *budget, es_error *err)
{
    const regimes_cell *c = &l->cell;
    const double scaled = es_critical_scale(&c->cap, (double)c->n, c->beta);
    const double reach = es_critical_mean(c->cap.alpha, scaled);
    es_weights law, limit = {unknown, unknown, unknown, unknown, unknown, (double)NAN};
    ES_TRY(es_weights_exact(&c->keys, c->n, c->beta, budget, &law, err));
    if (!c->keys.planted) /* outside its range there is no limit to show */
        es_weights_critical(c->cap.alpha, scaled, budget, &limit, NULL);
    put_all_measured(l, &law);
    put_regime(l, law.top.val, law.squares.val);
    es_put(l->t, l->row, {"top_weight_limit", limit.top.val},
           {"inverse_ess_limit", limit.squares.val}, {"deficit_limit", limit.deficit.val / c->beta},
           {"tangential_limit", limit.tangential.val / c->beta}, {"scaled_b", scaled},
           {"keys_within_reach", reach}, {"law_identity", law.identity});
    put_asymptotic(l, scaled, &law);
    put_limit_note(l, &law, &limit, reach);
    return ES_OK;
}

/* Where the regimes of this cell's keys end: as in the cell before, unless dim or n changed. */
static es_status find_scales(const regimes_cell *c, const regimes_cell *before,
                             es_mem_limit *budget, es_scales *scales, es_error *err)
{
    if (before->n == c->n && before->dim == c->dim)
        return ES_OK;
    *scales = (es_scales){(double)NAN, (double)NAN};
    return c->n > 1 ? es_scales_of(&c->keys, c->n, budget, scales, err) : ES_OK;
}

static es_status put_cell(es_job *job, int64_t i, line *before, es_table *t, es_error *err)
{
    const regimes_params *p = job->params;
    line l = {.t = t, .scales = before->scales};
    ES_TRY(regimes_cell_of(job, i, &l.cell, err));
    if (p->law != REGIMES_FILE)
        ES_TRY(find_scales(&l.cell, &before->cell, job->exec.budget, &l.scales, err));
    regimes_unpack(es_job_numbers(job, 0, i), &l.measured);
    l.row = es_table_row(t);
    es_put(t, l.row, {"dim", (double)l.cell.dim}, {"n", (double)l.cell.n});
    es_put(l.t, l.row, {"b", l.cell.b}, {"beta", l.cell.beta}, {"alpha", l.cell.cap.alpha});
    if (p->law == REGIMES_FILE)
        put_file_cell(&l);
    else
        ES_TRY(put_law_cell(&l, job->exec.budget, err));
    put_tests(&l);
    *before = l;
    return ES_OK;
}

/* ---- findings ---- */

/* "At dim 3, n = 100 and beta = 50 attention is selective: ...; the largest weight is ..." */
static void tell_row(es_answer *a, const es_table *t, int64_t row)
{
    char weight[ES_FORMAT_ROOM], exact[64] = "", from[64] = "";
    const double law = es_table_get(t, row, "top_weight_law");
    const double frozen = es_table_get(t, row, "freezing_beta");
    es_format_number(ES_FORMAT_REAL, es_table_get(t, row, "top_weight"),
                     es_table_get(t, row, "top_weight_se"), weight, sizeof weight);
    if (isfinite(law))
        snprintf(exact, sizeof exact, ", exactly %.6g", law);
    if (isfinite(frozen))
        snprintf(from, sizeof from, "; single-key from beta = %.4g on", frozen);
    es_answer_add_finding(
        a,
        "At dim %.0f, n = %.8g and beta = %.4g attention is %s: %s; the largest weight is %s%s%s.",
        es_table_get(t, row, "dim"), es_table_get(t, row, "n"), es_table_get(t, row, "beta"),
        es_table_get_text(t, row, "regime"), es_table_get_text(t, row, "reason"), weight, exact,
        from);
}

/* The setting that says most: of the selective ones, which lie between averaging and single-key,
 * the one with most keys; the last, if there is none. */
static int64_t telling_row(const es_table *t)
{
    int64_t best = es_table_rows(t) - 1;
    double most = 0.0;
    for (int64_t i = 0; i < es_table_rows(t); i++)
        if (es_table_get(t, i, "n") > most &&
            strcmp(es_table_get_text(t, i, "regime"), es_regime_name(ES_REGIME_SELECTIVE)) == 0) {
            most = es_table_get(t, i, "n");
            best = i;
        }
    return best;
}

/* How many settings there are of each regime. */
static void tell_counts(es_answer *a, const es_table *t)
{
    long long counts[ES_REGIMES] = {0};
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int r = ES_REGIME_AVERAGING; r <= ES_REGIME_SINGLE_KEY; r++)
            counts[r] +=
                strcmp(es_table_get_text(t, i, "regime"), es_regime_name((es_regime)r)) == 0;
    es_answer_add_finding(
        a,
        "Of %lld settings %lld are averaging (100 keys or more, or two thirds of them, share the "
        "weight), %lld selective and %lld single-key (fewer than 2 share it).",
        (long long)es_table_rows(t), counts[ES_REGIME_AVERAGING], counts[ES_REGIME_SELECTIVE],
        counts[ES_REGIME_SINGLE_KEY]);
}

/* Of many distances in standard errors the largest is to be expected at some 3. */
static void tell_agreement(es_answer *a, const es_table *t)
{
    static const char *const keys[] = {"top_weight_z", "inverse_ess_z", "entropy_z", "deficit_z",
                                       "tangential_z"};
    double most = 0.0;
    int count = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++)
        for (int k = 0; k < 5; k++) {
            const double z = fabs(es_table_get(t, i, keys[k]));
            most = isfinite(z) ? fmax(most, z) : most;
            count += isfinite(z);
        }
    if (count)
        es_answer_add_finding(
            a,
            "Of %d means the one that is farthest from its exact expectation is %.2g "
            "standard errors away.",
            count, most);
}

es_status regimes_summarise(es_job *job, es_answer *answer, es_error *err)
{
    static const char *const each[] = {"ordered", "ordered_limit", "ordered_ks", "ordered_ks_p"};
    const int64_t cells = job->stages[0].cells;
    es_table *t = es_answer_table(answer, &rows_table);
    es_job_phase(job, "computing exact laws", (double)cells * regimes_law_flops);
    for (size_t k = 0; k < sizeof each / sizeof *each; k++)
        es_table_each(t, each[k], order_labels, ES_REGIMES_TOP);
    line last = {.scales = {(double)NAN, (double)NAN}};
    for (int64_t i = 0; i < cells; i++) {
        ES_TRY(put_cell(job, i, &last, t, err));
        ES_TRY(es_job_tick(job, i + 1, cells));
    }
    if (cells > 1)
        tell_counts(answer, t);
    tell_row(answer, t, telling_row(t));
    tell_agreement(answer, t);
    return regimes_put_outputs(job, answer, err);
}
