/* SPDX-License-Identifier: Apache-2.0 */
/* curves.c : table "curves": gamma = beta/ln n beyond the training context, with score scalings in
 * use (THEORY 7). */
#include <math.h>

#include "base/error.h"
#include "experiments/collapse/collapse.h"
#include "experiments/kit/answer_kit.h"

/* One scaling at one context. */
typedef struct curve {
    double gamma, angle_ratio, self_weight;
} curve;

/* A row of the table of score scales by context: as trained, YaRN, and proportional to ln n. */
typedef struct curve_row {
    int64_t n;
    double rho;
    curve plain, yarn, logn;
    double gamma_c, gamma_low, gamma_high;
} curve_row;

#define CURVE(member, title, of_gamma, of_angle)                                                   \
    ES_COL_KEY(curve_row, member.gamma, "gamma_" #member, ES_FORMAT_SHORT, "gamma", title,         \
               of_gamma),                                                                          \
        ES_COL_KEY(curve_row, member.angle_ratio, "angle_ratio_" #member, ES_FORMAT_SHORT,         \
                   "angle ratio", title, of_angle),                                                \
        ES_COL_KEY(curve_row, member.self_weight, "self_weight_" #member, ES_FORMAT_SHORT, "p",    \
                   title, "weight of a token on itself")

static const es_column columns[] = {
    ES_COL(curve_row, n, ES_FORMAT_COUNT, "context", "tokens"),
    ES_COL(curve_row, rho, ES_FORMAT_SHORT, "rho", "", "the first `rho`"),
    CURVE(plain, "plain", "plain: scores stay as in training, so gamma = beta/ln n falls",
          "of equiangular tokens at the first rho"),
    CURVE(yarn, "yarn", "yarn: scores times (C ln(n/N) + 1)^2 beyond N", NULL),
    CURVE(logn, "log n", "log n: scores times ln n/ln N beyond N, which keeps gamma", NULL),
    ES_COL(curve_row, gamma_c, ES_FORMAT_SHORT, "gamma_c", "", "`1/(1-rho)` at the first `rho`",
           .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, gamma_low, ES_FORMAT_SHORT, "p = 0.1", "gamma", "start of the window",
           .standing = ES_STANDING_PROVED),
    ES_COL(curve_row, gamma_high, ES_FORMAT_SHORT, "p = 0.9", "gamma", "end of the window",
           .standing = ES_STANDING_PROVED),
    {0}};
static const es_table_spec curves_table = {
    "curves", columns,
    ES_VIEW(
        "Score scalings in use",
        "n gamma_plain angle_ratio_plain gamma_yarn angle_ratio_yarn gamma_logn angle_ratio_logn"),
    ES_ROW(curve_row), .keys = "n"};

/* Computes angle ratio and self weight of equiangular tokens at one gamma. */
static es_status fill_curve(const collapse_params *p, const curve_row *r, double gamma, curve *out,
                            es_error *err)
{
    es_collapse at;
    ES_TRY(collapse_exact(p, r->n, r->rho, gamma, &at, err));
    *out = (curve){gamma, at.angle_ratio, at.self_weight};
    return ES_OK;
}

/* Fills one context. Scores unchanged from training give gamma = G ln N/ln n; a scaling
 * multiplies it. */
static es_status fill_row(const collapse_params *p, int64_t i, curve_row *r, es_error *err)
{
    const double n = p->contexts.reals[i], train = (double)p->train;
    const double plain = p->train_gamma * log(train) / log(n);
    r->n = p->contexts.counts[i];
    r->rho = p->rho.reals[0];
    const collapse_window w = collapse_window_at(r->n, r->rho);
    r->gamma_c = w.gamma_c;
    r->gamma_low = w.low;
    r->gamma_high = w.high;
    ES_TRY(fill_curve(p, r, plain, &r->plain, err));
    ES_TRY(fill_curve(p, r, plain * es_scaling_yarn(n, train, p->yarn), &r->yarn, err));
    return fill_curve(p, r, plain * es_scaling_logn(n, train), &r->logn, err);
}

/* With unchanged scores gamma = G ln N/ln n, which equals gamma_c at n = N^(G/gamma_c). */
static void report_curves(es_answer *a, const collapse_params *p)
{
    const double critical = 1.0 / (1.0 - p->rho.reals[0]);
    if (p->train_gamma > critical)
        es_answer_add_finding(a,
                              "If its scores stay unchanged, a head trained on %lld tokens at "
                              "gamma = %.3g falls to gamma_c = %.3g at n = %.3g, where a token "
                              "gives itself half of its weight.",
                              (long long)p->train, p->train_gamma, critical,
                              pow((double)p->train, p->train_gamma / critical));
    else
        es_answer_add_finding(a,
                              "A head trained on %lld tokens at gamma = %.3g is below gamma_c = "
                              "%.3g already in training.",
                              (long long)p->train, p->train_gamma, critical);
}

es_status collapse_fill_curves(const summary_ctx *m, es_error *err)
{
    const collapse_params *p = m->p;
    es_answer_count(m->answer, "train", p->train);
    es_answer_real(m->answer, "train_gamma", p->train_gamma);
    es_answer_real(m->answer, "yarn", p->yarn);
    es_table *t = es_answer_table(m->answer, &curves_table);
    for (int64_t i = 0; i < p->contexts.count; i++) {
        curve_row *r = es_rows_add(t, curve_row);
        if (!r)
            return es_answer_status(m->answer, err);
        ES_TRY(fill_row(p, i, r, err));
    }
    report_curves(m->answer, p);
    return ES_OK;
}
