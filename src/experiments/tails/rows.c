/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : the tables of tails: directions, kinds of directions, verdicts; and their findings.
 *
 * The theory needs sub-Gaussian tokens: K(l) - l m <= l^2 s^2/2. In each direction three statistics
 * measure how far that holds (THEORY 9): the variance proxy sup 2 (K_n(l) - l m)/l^2 over tilts
 * that leave an effective sample of 30, the psi_2 norm, and Hill's index of the largest n^{2/3}
 * values. All three grow with n for Gaussian samples as well, so each is compared with Gaussian
 * samples of as many tokens, and its p-value is corrected for all directions of the run.
 * Consecutive tokens are dependent: the design effect says how many are worth one. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/tails/tails.h"
#include "stats/average.h"
#include "stats/fit.h"
#include "stats/multiple.h"

/* ---- columns: directions ---- */

static const char rule[] =
    "Verdict. Heavier: proxy or psi2 is at least 10 % above the control's mean, and p heavier, "
    "corrected by Holm for all directions of this answer, both ways, is at most 0.01. Lighter: not "
    "heavier, and psi2 or Hill is as far below it. Gaussian-like: neither. z counts tokens as "
    "independent; p does not: distances are divided by the root of the design effect.";

/* One direction of a layer. */
typedef struct direction_row {
    const char *domain;
    int64_t layer;
    const char *kind;
    int64_t head, index, n;
    double variance, kurtosis;
    es_measured kurtosis_control; /* mean and standard deviation over samples, as all controls */
    double kurtosis_z, proxy;
    es_measured proxy_control;
    double proxy_z, tilt, psi2;
    es_measured psi2_control;
    double psi2_z;
    es_measured hill, hill_control;
    double hill_z, hill_low, hill_high;
    int64_t hill_k;
    double hill_half, hill_twice;
    const char *plateau;
    double design, p_heavier, p_heavier_corrected, p_lighter, p_lighter_corrected;
    const char *verdict;
} direction_row;

/* The control of a number, and the distance from it in standard deviations of the control. */
#define CONTROL_COLUMNS(member, unit, definition)                                                  \
    ES_COL(direction_row, member##_control, ES_FORMAT_REAL, "control", unit, definition,           \
           .error = #member "_control_sd"),                                                        \
        ES_COL(direction_row, member##_z, ES_FORMAT_SHORT, "z", "sd")

static const es_column row_columns[] = {
    ES_COL(direction_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(direction_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(direction_row, kind, ES_FORMAT_TEXT, "kind", "",
           "principal: leading principal components; random: directions uniform on the sphere; "
           "norm: `|x - mean|`, whose control are norms of Gaussian vectors of the same "
           "covariance; key: of a head, the tilt of the queries that change its scores most; "
           "score: scores of a token's query over all tokens"),
    ES_COL(direction_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(direction_row, index, ES_FORMAT_COUNT, "index", ""),
    ES_COL(direction_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(direction_row, variance, ES_FORMAT_SHORT, "variance", ""),
    ES_COL(direction_row, kurtosis, ES_FORMAT_SHORT, "kurtosis", "", "3 for a Gaussian"),
    CONTROL_COLUMNS(kurtosis, "", NULL),
    ES_COL(direction_row, proxy, ES_FORMAT_SHORT, "proxy", "variances",
           "sub-Gaussian variance proxy, sup `2 (K_n(l) - l m) / l^2` over tilts that leave an "
           "effective sample of 30; at least 1, which is a Gaussian's"),
    CONTROL_COLUMNS(
        proxy, "variances",
        "mean +- standard deviation of the number before in Gaussian samples of the same size"),
    ES_COL(direction_row, tilt, ES_FORMAT_SHORT, "tilt", "1/sd",
           "where that supremum is; 0: in its limit"),
    ES_COL(direction_row, psi2, ES_FORMAT_SHORT, "psi2", "sd",
           "least s with mean `exp(x^2/s^2) <= 2`; 1.633 for a Gaussian"),
    CONTROL_COLUMNS(psi2, "sd", NULL),
    ES_COL(direction_row, hill, ES_FORMAT_REAL, "Hill", "",
           "1/index of the tail of `|x - mean|`, or of norms, from its `n^(2/3)` largest"),
    CONTROL_COLUMNS(hill, "", NULL),
    ES_COL_KEY(direction_row, hill_low, "hill_ci.0", ES_FORMAT_REAL, "Hill from", "",
               "95 % interval"),
    ES_COL_KEY(direction_row, hill_high, "hill_ci.1", ES_FORMAT_REAL, "Hill to", ""),
    ES_COL(direction_row, hill_k, ES_FORMAT_COUNT, "Hill's k", "",
           "number of largest values it is computed from"),
    ES_COL(direction_row, hill_half, ES_FORMAT_REAL, "Hill, k/2", "", "from half as many"),
    ES_COL(direction_row, hill_twice, ES_FORMAT_REAL, "Hill, 2k", "", "from twice as many"),
    ES_COL(
        direction_row, plateau, ES_FORMAT_TEXT, "plateau", "",
        "yes: Hill stays within its interval with half and twice as many, as a power tail would"),
    ES_COL(direction_row, design, ES_FORMAT_SHORT, "design effect", "",
           "of `exp(3 x^2/8)`, x standardised, over up to 64 blocks of consecutive tokens, at "
           "least 1: the number of dependent tokens that are worth one"),
    ES_COL(direction_row, p_heavier, ES_FORMAT_SHORT, "p heavier", "",
           "probability that Gaussian tokens look as heavy by proxy or psi2: twice the smaller p "
           "of the "
           "two, from the control's order statistics, its tails continued exponentially"),
    ES_COL(direction_row, p_heavier_corrected, ES_FORMAT_SHORT, "corrected", "",
           "for the number of directions tried, in both ways, by Holm"),
    ES_COL(direction_row, p_lighter, ES_FORMAT_SHORT, "p lighter", "",
           "the same of psi2 or Hill below the control"),
    ES_COL(direction_row, p_lighter_corrected, ES_FORMAT_SHORT, "corrected", ""),
    ES_COL(direction_row, verdict, ES_FORMAT_TEXT, "verdict", ""),
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW("Tails, direction by direction",
            "domain layer kind head index verdict kurtosis proxy proxy_z p_heavier_corrected "
            "p_lighter_corrected proxy_control variance psi2 psi2_z hill hill_z design p_heavier "
            "p_lighter",
            rule, .only_with_full = true),
    ES_ROW(direction_row), .keys = "domain layer kind head index"};

/* ---- columns: kinds and verdicts ---- */

/* The directions of one kind of a layer. */
typedef struct kind_row {
    const char *domain;
    int64_t layer;
    const char *kind;
    int64_t directions;
    double proxy_median, proxy_largest, proxy_control;
    double psi2_median, psi2_control, hill_median, hill_control;
    int64_t lighter, gaussian, heavier;
} kind_row;

static const es_column kind_columns[] = {
    ES_COL(kind_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(kind_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(kind_row, kind, ES_FORMAT_TEXT, "kind", ""),
    ES_COL(kind_row, directions, ES_FORMAT_COUNT, "directions", ""),
    ES_COL(
        kind_row, proxy_median, ES_FORMAT_SHORT, "proxy", "variances",
        "variance of a Gaussian law that bounds the tokens' exponential moments, over their own: "
        "median over directions"),
    ES_COL(kind_row, proxy_largest, ES_FORMAT_SHORT, "largest", "variances"),
    ES_COL(kind_row, proxy_control, ES_FORMAT_SHORT, "control", "variances",
           "the same of Gaussian samples of this size"),
    ES_COL(kind_row, psi2_median, ES_FORMAT_SHORT, "psi2", "sd",
           "least s with mean `exp(x^2/s^2) <= 2`, median; 1.633 for a Gaussian"),
    ES_COL(kind_row, psi2_control, ES_FORMAT_SHORT, "control", "sd"),
    ES_COL(kind_row, hill_median, ES_FORMAT_SHORT, "Hill", "",
           "1/index of the tail, from the `n^(2/3)` largest values, median"),
    ES_COL(kind_row, hill_control, ES_FORMAT_SHORT, "control", ""),
    ES_COL(kind_row, lighter, ES_FORMAT_COUNT, "lighter", "", "directions with that verdict"),
    ES_COL(kind_row, gaussian, ES_FORMAT_COUNT, "Gaussian", ""),
    ES_COL(kind_row, heavier, ES_FORMAT_COUNT, "heavier", ""),
    {0}};
static const es_table_spec kinds_table = {"kinds", kind_columns, ES_VIEW("Kinds of directions"),
                                          ES_ROW(kind_row), .keys = "domain layer kind"};

typedef struct verdict_row {
    const char *verdict;
    int64_t directions;
} verdict_row;

static const es_column verdict_columns[] = {
    ES_COL(verdict_row, verdict, ES_FORMAT_TEXT, "verdict", ""),
    ES_COL(verdict_row, directions, ES_FORMAT_COUNT, "directions", ""),
    {0}};
static const es_table_spec verdicts_table = {
    "verdicts", verdict_columns, ES_VIEW("Is it sub-Gaussian, with its variance as proxy?"),
    ES_ROW(verdict_row), .keys = "verdict"};

/* ---- directions ---- */

typedef struct summary_ctx {
    const es_job *job;
    const tails_state *s;
    es_table *rows, *kinds;
    int64_t cell;
    double *proxy, *psi2, *hill; /* (width) of a kind */
    es_tails_p *corrected;       /* (cells, width) */
    int64_t width;               /* directions of a layer */
    int64_t verdicts[ES_TAILS_CONSTANT + 1], directions;
} summary_ctx;

/* Direction i of the layer. */
static const tails_cell *direction_at(const summary_ctx *m, int64_t i)
{
    const tails_cell *cell = es_job_cell(m->job, 0, m->cell);
    return &cell[i];
}

/* Returns the verdict about a direction, by p-values that are corrected for all directions. */
static es_tails_verdict verdict_of(const summary_ctx *m, int64_t i)
{
    const es_tails_row r = tails_row_of(direction_at(m, i));
    return es_tails_decide(&r.sample, &r.control, m->corrected[m->cell * m->width + i]);
}

/* A power tail gives the same index for k/2, k and 2k; the variance of xi is xi^2/k. */
static bool has_plateau(const tails_cell *c)
{
    const double most = ES_SIGMAS_95 * c->hill.se;
    return fabs(c->hill_half - c->hill.value) < sqrt(2.0) * most &&
           fabs(c->hill_twice - c->hill.value) < most;
}

/* Name of the layer; tokens of a file have no layer. */
static void name_layer(const summary_ctx *m, es_table *t, const char **domain, int64_t *layer)
{
    *domain = es_pools_domain(&m->s->pools, m->cell / m->s->layers, t);
    if (!m->s->tokens.data)
        *layer = m->cell % m->s->layers;
}

/* Fills the row of one direction: its statistics, those of the Gaussian control, and the
 * verdict. */
static void fill_direction(const summary_ctx *m, const es_tails_direction *direction, int64_t i,
                           direction_row *r)
{
    const tails_cell *c = direction_at(m, i);
    const es_tails_p corrected = m->corrected[m->cell * m->width + i];
    const es_tails_row compared = tails_row_of(c);
    es_tails_z z; /* p is the cell's: run files have no order statistics */
    es_tails_compare(&compared.sample, &compared.control, &z);
    name_layer(m, m->rows, &r->domain, &r->layer);
    r->kind = es_tails_kind_name(direction->kind);
    if (direction->head >= 0)
        r->head = direction->head;
    r->index = direction->index;
    r->n = (int64_t)c->count;
    r->variance = c->variance;
    r->kurtosis = c->kurtosis;
    r->kurtosis_control = (es_measured){c->kurtosis_control, c->kurtosis_sd};
    r->kurtosis_z = z.kurtosis;
    r->proxy = c->proxy;
    r->proxy_control = (es_measured){c->proxy_control, c->proxy_sd};
    r->proxy_z = z.proxy;
    r->tilt = c->tilt;
    r->psi2 = c->psi2;
    r->psi2_control = (es_measured){c->psi2_control, c->psi2_sd};
    r->psi2_z = z.psi2;
    r->hill = c->hill;
    r->hill_control = (es_measured){c->hill_control, c->hill_sd};
    r->hill_z = z.hill;
    r->hill_low = c->hill.value - ES_SIGMAS_95 * c->hill.se;
    r->hill_high = c->hill.value + ES_SIGMAS_95 * c->hill.se;
    r->hill_k = es_tails_hill_count(r->n);
    r->hill_half = c->hill_half;
    r->hill_twice = c->hill_twice;
    r->plateau = has_plateau(c) ? "yes" : "no";
    r->design = c->design;
    r->p_heavier = c->p_heavier;
    r->p_heavier_corrected = corrected.heavier;
    r->p_lighter = c->p_lighter;
    r->p_lighter_corrected = corrected.lighter;
    r->verdict = es_tails_verdict_name(verdict_of(m, i));
}

/* ---- kinds ---- */

/* Directions [first, last) of the layer are of one kind. Constant ones have no numbers. */
static void fill_kind(const summary_ctx *m, es_tails_kind kind, int64_t first, int64_t last,
                      kind_row *r)
{
    int64_t verdicts[ES_TAILS_CONSTANT + 1] = {0}, vary = 0;
    for (int64_t i = first; i < last; i++) {
        const tails_cell *c = direction_at(m, i);
        const es_tails_verdict v = verdict_of(m, i);
        verdicts[v]++;
        if (v == ES_TAILS_CONSTANT)
            continue;
        m->proxy[vary] = c->proxy;
        m->psi2[vary] = c->psi2;
        m->hill[vary++] = c->hill.value;
    }
    es_sort_reals(m->proxy, vary);
    es_sort_reals(m->psi2, vary);
    es_sort_reals(m->hill, vary);
    const tails_cell *control = direction_at(m, first);
    name_layer(m, m->kinds, &r->domain, &r->layer);
    r->kind = es_tails_kind_name(kind);
    r->directions = last - first;
    r->proxy_median = es_median_of(m->proxy, vary);
    r->proxy_largest = vary ? m->proxy[vary - 1] : (double)NAN;
    r->proxy_control = control->proxy_control;
    r->psi2_median = es_median_of(m->psi2, vary);
    r->psi2_control = control->psi2_control;
    r->hill_median = es_median_of(m->hill, vary);
    r->hill_control = control->hill_control;
    r->lighter = verdicts[ES_TAILS_LIGHTER];
    r->gaussian = verdicts[ES_TAILS_GAUSSIAN];
    r->heavier = verdicts[ES_TAILS_HEAVIER];
}

/* Directions of a kind follow one another: a kind ends where the next one begins. */
static bool add_layer(summary_ctx *m)
{
    const es_tails_spec spec = tails_spec_at(m->s, m->cell);
    int64_t first = 0; /* of the kind */
    for (int64_t i = 0; i < m->width; i++) {
        const es_tails_direction here = es_tails_direction_of(&spec, i);
        direction_row *r = es_rows_add(m->rows, direction_row);
        if (!r)
            return false;
        fill_direction(m, &here, i, r);
        m->verdicts[verdict_of(m, i)]++;
        m->directions++;
        if (i + 1 < m->width && es_tails_direction_of(&spec, i + 1).kind == here.kind)
            continue;
        kind_row *kind = es_rows_add(m->kinds, kind_row);
        if (!kind)
            return false;
        fill_kind(m, here.kind, first, i + 1, kind);
        first = i + 1;
    }
    return true;
}

/* ---- verdicts ---- */

/* Adds the table of verdicts; "constant" only where there is one. */
static bool add_verdicts(const summary_ctx *m, es_answer *answer)
{
    es_table *t = es_answer_table(answer, &verdicts_table);
    for (int v = ES_TAILS_GAUSSIAN; v <= ES_TAILS_CONSTANT; v++) {
        if (v == ES_TAILS_CONSTANT && m->verdicts[v] == 0)
            continue;
        verdict_row *r = es_rows_add(t, verdict_row);
        if (!r)
            return false;
        r->verdict = es_tails_verdict_name((es_tails_verdict)v);
        r->directions = m->verdicts[v];
    }
    return true;
}

/* The largest proxy is given with its own control: norms have another than directions. */
static void put_findings(const summary_ctx *m, es_answer *answer)
{
    const direction_row *rows = es_rows(m->rows, direction_row), *largest = NULL;
    for (int64_t i = 0; i < es_table_rows(m->rows); i++)
        if (rows[i].proxy > (largest ? largest->proxy : 0.0))
            largest = &rows[i];
    es_answer_add_finding(
        answer,
        "Of %lld directions, %lld have heavier tails than Gaussian tokens and %lld lighter ones "
        "(%lld tests, corrected: under 1 %% chance of any false verdict). More samples (--control) "
        "show smaller differences.",
        (long long)m->directions, (long long)m->verdicts[ES_TAILS_HEAVIER],
        (long long)m->verdicts[ES_TAILS_LIGHTER],
        (long long)(2 * (m->directions - m->verdicts[ES_TAILS_CONSTANT])));
    if (largest)
        es_answer_add_finding(answer,
                              "In the direction with the heaviest tails, a Gaussian that bounds "
                              "the tokens, as the theory does, needs %.3g times their variance "
                              "(variance proxy); Gaussian samples of the same size need %.3g ± "
                              "%.2g.",
                              largest->proxy, largest->proxy_control.value,
                              largest->proxy_control.se);
}

/* ---- all together ---- */

/* Corrects all p of this answer, heavier and lighter ones together (Holm). */
static es_status correct(es_job *job, summary_ctx *m, es_error *err)
{
    const int64_t cells = m->s->layers * m->s->n_domains, count = 2 * cells * m->width;
    double *p;
    ES_TRY(ES_JOB_NEW_2D(job, m->corrected, cells, m->width, err));
    ES_TRY(ES_JOB_NEW(job, p, count, err));
    for (m->cell = 0; m->cell < cells; m->cell++)
        for (int64_t i = 0; i < m->width; i++) {
            const tails_cell *here = direction_at(m, i);
            p[2 * (m->cell * m->width + i)] = here->p_heavier;
            p[2 * (m->cell * m->width + i) + 1] = here->p_lighter;
        }
    ES_TRY(es_holm(p, count, p, err));
    for (int64_t i = 0; i < count / 2; i++)
        m->corrected[i] = (es_tails_p){.heavier = p[2 * i], .lighter = p[2 * i + 1]};
    return ES_OK;
}

es_status tails_summarise(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .s = job->state};
    const es_tails_spec spec = tails_spec_at(m.s, 0);
    m.width = es_tails_rows(&spec);
    ES_TRY(ES_JOB_NEW_2D(job, m.proxy, 3, m.width, err));
    m.psi2 = m.proxy + m.width;
    m.hill = m.psi2 + m.width;
    ES_TRY(correct(job, &m, err));
    m.rows = es_answer_table(answer, &rows_table);
    m.kinds = es_answer_table(answer, &kinds_table);
    bool added = true;
    for (m.cell = 0; m.cell < m.s->layers * m.s->n_domains && added; m.cell++)
        added = add_layer(&m);
    if (!added || !add_verdicts(&m, answer))
        return es_answer_status(answer, err);
    es_pools_unreadable(&m.s->pools, answer);
    put_findings(&m, answer);
    if (m.s->pools.config)
        es_caution_scores(m.s->pools.config, "directions of heads (key, score) are", answer);
    es_pools_caution(&m.s->pools, answer);
    return ES_OK;
}
