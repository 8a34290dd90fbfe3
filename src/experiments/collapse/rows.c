/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : tables "rows" and "phase": the closed form beside the random model, at every n, gamma
 * and rho (THEORY 7).
 *
 * Tokens of mutual cosine rho attend to each other with scores beta cos, beta = gamma ln n. A token
 * gives itself the weight p and each other one s,
 *
 *     p = 1/(1 + (n-1) e^{-beta (1-rho)}),    s = e^{-beta (1-rho)} p,
 *
 * which is exact for every n; (1-p)/(n-1) would lose digits where p is near 1. Below
 * gamma_c = 1/(1-rho) outputs merge (angle ratio 0), above it each token keeps its direction
 * (1). At finite n the change takes a window of width about 1/ln n in gamma/gamma_c. Random tokens
 * have a mean cosine of their own, so they are compared with 1/(1 - rho_realised). */
#include <math.h>

#include "base/error.h"
#include "experiments/collapse/collapse.h"
#include "experiments/kit/answer_kit.h"

/* ---- rows ---- */

/* A row of the main table: one n, rho and gamma, with the phase that theory gives and what was
 * measured. */
typedef struct table_row {
    int64_t n;
    double rho, times, gamma, beta;
    const char *phase;
    double self_weight, self_weight_dim;
    es_measured self_weight_measured;
    double angle_ratio, rho_realised, angle_ratio_realised;
    es_measured angle_ratio_measured;
    double cosine;
    es_measured cosine_measured;
    double ess;
    es_measured ess_measured;
    double entropy, gradient, gradient_exact;
    es_measured gradient_measured;
} table_row;

static const es_column columns[] = {
    ES_COL(table_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(table_row, rho, ES_FORMAT_SHORT, "rho", "", "cosine between any two tokens"),
    ES_COL(table_row, times, ES_FORMAT_SHORT, "times", "gamma_c",
           "score scale `beta` = times `gamma_c ln n`"),
    ES_COL(table_row, gamma, ES_FORMAT_SHORT, "gamma", "", "`beta/ln n`"),
    ES_COL(table_row, beta, ES_FORMAT_SHORT, "beta", "", "score scale"),
    ES_COL(table_row, phase, ES_FORMAT_TEXT, "phase", "",
           "merged: the weight of a token on itself is below 0.1; apart: above 0.9; window: "
           "between"),
    ES_COL(table_row, self_weight, ES_FORMAT_SHORT, "p", "",
           "weight of a token on itself, exactly equal angles", .standing = ES_STANDING_PROVED),
    ES_COL(table_row, self_weight_dim, ES_FORMAT_SHORT, "p at d", "",
           "p if cosines scatter as in d dimensions (empty where it does not apply)",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(table_row, self_weight_measured, ES_FORMAT_REAL, "measured", "",
           "p of the random model"),
    ES_COL(table_row, angle_ratio, ES_FORMAT_SHORT, "angle ratio", "",
           "angle between outputs over angle between tokens: 0 collapse, 1 identity",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, rho_realised, ES_FORMAT_REAL, "rho^", "",
           "mean cosine of the random model, over replicates"),
    ES_COL(table_row, angle_ratio_realised, ES_FORMAT_SHORT, "at rho^", "",
           "angle ratio at the mean cosine that the random model realised",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(table_row, angle_ratio_measured, ES_FORMAT_REAL, "measured", "",
           "angle ratio of the random model"),
    ES_COL(table_row, cosine, ES_FORMAT_REAL, "cos'", "", "cosine between two outputs",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, cosine_measured, ES_FORMAT_REAL, "cos' measured", ""),
    ES_COL(table_row, ess, ES_FORMAT_SHORT, "ESS", "keys",
           "1/sum of squared weights: number of tokens that share the weight",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, ess_measured, ES_FORMAT_REAL, "measured", "keys", "ESS of the random model"),
    ES_COL(table_row, entropy, ES_FORMAT_REAL, "entropy", "nats", "of the weights of one token",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, gradient, ES_FORMAT_SHORT, "eta", "",
           "`|dX'/dX|^2/(n d)`, the part of a gradient that passes through, for d to infinity",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, gradient_exact, ES_FORMAT_SHORT, "eta at d", "",
           "eta for d dimensions, exactly; n tokens have equal angles only if `d >= n`",
           .standing = ES_STANDING_PROVED),
    ES_COL(table_row, gradient_measured, ES_FORMAT_REAL, "measured", "",
           "`eta` of the random model"),
    {0}};
static const es_table_spec rows_table = {
    "rows", columns,
    ES_VIEW("Tokens at equal angles",
            "n rho times gamma phase self_weight self_weight_dim self_weight_measured angle_ratio "
            "angle_ratio_realised angle_ratio_measured ess ess_measured gradient gradient_exact "
            "gradient_measured",
            "measured: random model. Its cosines scatter like 1/sqrt(d): tokens that happen to be "
            "close weigh more (p at d), and the outputs of merged tokens differ by a further "
            "beta (1-rho)/d. Differences from the closed form that shrink with d have this cause."),
    ES_ROW(table_row), .keys = "n rho gamma"};

const es_collapse_row *collapse_measured(const summary_ctx *m, int64_t pair, int64_t g)
{
    return pair < m->s->pairs ? m->measured + pair * m->s->gammas + g : NULL;
}

es_status collapse_exact(const collapse_params *p, int64_t n, double rho, double gamma,
                         es_collapse *out, es_error *err)
{
    const es_equiangular t = {n,
                              .rho = rho,
                              .beta = gamma * log((double)n),
                              .alpha = p->alpha,
                              .square = p->square,
                              .dim = p->dim};
    return es_collapse_exact(&t, out, err);
}

/* Fills what exactly equal angles give at this n, rho and gamma. */
static es_status fill_exact(const collapse_params *p, table_row *r, es_error *err)
{
    es_collapse c;
    ES_TRY(collapse_exact(p, r->n, r->rho, r->gamma, &c, err));
    r->times = r->gamma * (1.0 - r->rho);
    r->beta = r->gamma * log((double)r->n);
    r->phase = es_collapse_phase_name(c.phase);
    r->self_weight = c.self_weight;
    r->self_weight_dim = es_collapse_self_weight(r->n, r->rho, r->beta, p->dim);
    r->angle_ratio = c.angle_ratio;
    r->cosine = c.cosine;
    r->ess = c.ess;
    r->entropy = c.entropy;
    r->gradient = c.gradient_limit;
    r->gradient_exact = c.gradient;
    return ES_OK;
}

/* Fills what the random model gave. Its angle ratio is compared with the closed form at rho and at
 * the mean cosine that these tokens realised, which is the one that decides. */
static es_status fill_measured(const collapse_params *p, const es_collapse_row *x, table_row *r,
                               es_error *err)
{
    es_collapse realised;
    /* A realised cosine near 0 may be negative by chance; the closed form needs rho >= 0. */
    ES_TRY(collapse_exact(p, r->n, fmax(x->mean.rho, 0.0), r->gamma, &realised, err));
    r->rho_realised = x->mean.rho;
    r->angle_ratio_realised = realised.angle_ratio;
    r->angle_ratio_measured = (es_measured){x->mean.angle_ratio, x->se.angle_ratio};
    r->self_weight_measured = (es_measured){x->mean.self_weight, x->se.self_weight};
    r->cosine_measured = (es_measured){x->mean.cosine, x->se.cosine};
    r->ess_measured = (es_measured){x->mean.ess, x->se.ess};
    r->gradient_measured = (es_measured){x->mean.gradient, x->se.gradient};
    return ES_OK;
}

/* Rows are in the order (n, gamma, rho), which collapse_fill_phase() relies on. */
es_status collapse_fill_rows(summary_ctx *m, es_error *err)
{
    const collapse_params *p = m->p;
    const int64_t rhos = p->rho.count, gammas = m->s->gammas;
    m->rows = es_answer_table(m->answer, &rows_table);
    for (int64_t i = 0; i < p->n.count * gammas * rhos; i++) {
        const int64_t rho = i % rhos, g = i / rhos % gammas, n = i / rhos / gammas;
        const es_collapse_row *measured = collapse_measured(m, n * rhos + rho, g);
        table_row *r = es_rows_add(m->rows, table_row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->n = p->n.counts[n];
        r->rho = p->rho.reals[rho];
        r->gamma = collapse_gamma(p, r->rho, g);
        ES_TRY(fill_exact(p, r, err));
        if (measured)
            ES_TRY(fill_measured(p, measured, r, err));
    }
    return ES_OK;
}

/* ---- phase diagram ---- */

/* A row of the phase diagram: angle ratios at one n and gamma. */
typedef struct phase_row {
    int64_t n;
    double gamma, *angle_ratio; /* one for each rho */
} phase_row;

static const es_column phase_columns[] = {
    ES_COL(phase_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(phase_row, gamma, ES_FORMAT_SHORT, "gamma", ""),
    ES_COL(phase_row, angle_ratio, ES_FORMAT_SHORT, "rho =", "", .standing = ES_STANDING_PROVED),
    {0}};
static const es_table_spec phase_table = {
    "phase", phase_columns,
    ES_VIEW("Angle ratio: 0 collapse, 1 identity", NULL,
            "The boundary is gamma_c = 1/(1-rho). --csv and --json have one row for each gamma and "
            "rho, for a heat map."),
    ES_ROW(phase_row), .keys = "n gamma"};

es_status collapse_fill_phase(const summary_ctx *m, es_error *err)
{
    const collapse_params *p = m->p;
    const int64_t rhos = p->rho.count;
    const table_row *from = es_rows(m->rows, table_row);
    es_table *t = es_answer_table(m->answer, &phase_table);
    ES_TRY(es_label_columns(m->job, t, "angle_ratio", p->rho.reals, rhos, err));
    es_table_show(m->rows, NULL); /* files keep these tables; people see the diagram */
    es_table_show(m->thresholds, NULL);
    for (int64_t i = 0; i < p->n.count * m->s->gammas; i++, from += rhos) {
        phase_row *r = es_rows_add(t, phase_row);
        if (!r)
            return es_answer_status(m->answer, err);
        r->n = from->n;
        r->gamma = from->gamma; /* --phase refuses --times: the same for every rho */
        for (int64_t k = 0; k < rhos; k++)
            r->angle_ratio[k] = from[k].angle_ratio;
    }
    return ES_OK;
}
