/* rows.c : the closed form beside what was drawn, thresholds, the phase diagram, score
 * scalings in use, findings (THEORY 7). */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/format.h"
#include "experiments/collapse/question.h"
#include "experiments/kit/answer_kit.h"
#include "table/table.h"

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"rho", "rho", "", ES_FORMAT_SHORT, "cosine between any two tokens"},
    {"times", "times", "gamma_c", ES_FORMAT_SHORT, "score scale beta = times gamma_c ln n"},
    {"gamma", "gamma", "", ES_FORMAT_SHORT, "beta/ln n"},
    {"beta", "beta", "", ES_FORMAT_SHORT, "score scale"},
    {"phase", "phase", "", ES_FORMAT_TEXT,
     "merged: a token's weight on itself is below 0.1; apart: above 0.9; window: between"},
    {"self_weight", "p", "", ES_FORMAT_SHORT, "weight of a token on itself, exactly equal angles",
     .standing = ES_STANDING_PROVED},
    {"self_weight_dim", "p at d", "", ES_FORMAT_SHORT,
     "the same where cosines spread as in d dimensions (empty where it does not apply)",
     .standing = ES_STANDING_HEURISTIC},
    {"self_weight_measured", "measured", "", ES_FORMAT_REAL, "p of the random model",
     .error = "self_weight_measured_se"},
    {"angle_ratio", "angle ratio", "", ES_FORMAT_SHORT,
     "angle between outputs over angle between tokens: 0 collapse, 1 identity",
     .standing = ES_STANDING_PROVED},
    {"rho_realised", "rho^", "", ES_FORMAT_REAL,
     "mean cosine of the random model, over replicates"},
    {"angle_ratio_realised", "at rho^", "", ES_FORMAT_SHORT,
     "the same at the mean cosine that the random model realised",
     .standing = ES_STANDING_HEURISTIC},
    {"angle_ratio_measured", "measured", "", ES_FORMAT_REAL, "angle ratio of the random model",
     .error = "angle_ratio_measured_se"},
    {"cosine", "cos'", "", ES_FORMAT_REAL, "cosine between two outputs",
     .standing = ES_STANDING_PROVED},
    {"cosine_measured", "cos' measured", "", ES_FORMAT_REAL, .error = "cosine_measured_se"},
    {"ess", "ESS", "keys", ES_FORMAT_SHORT, "1/sum of squared weights: how many tokens one sees",
     .standing = ES_STANDING_PROVED},
    {"ess_measured", "measured", "keys", ES_FORMAT_REAL, "ESS of the random model",
     .error = "ess_measured_se"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL, "of the weights of one token",
     .standing = ES_STANDING_PROVED},
    {"gradient", "eta", "", ES_FORMAT_SHORT,
     "|dX'/dX|^2/(n d), how much of a gradient comes through, for d to infinity",
     .standing = ES_STANDING_PROVED},
    {"gradient_exact", "eta at d", "", ES_FORMAT_SHORT,
     "the same for d dimensions, exactly; n tokens have equal angles only where d >= n",
     .standing = ES_STANDING_PROVED},
    {"gradient_measured", "measured", "", ES_FORMAT_REAL, "eta of the random model",
     .error = "gradient_measured_se"},
    {0}};
static const es_table_spec rows_table = {
    "rows", row_columns,
    ES_VIEW(
        "Tokens at equal angles",
        "n rho times gamma phase self_weight self_weight_dim self_weight_measured angle_ratio "
        "angle_ratio_realised angle_ratio_measured ess ess_measured gradient gradient_exact "
        "gradient_measured",
        "measured: random model. Its cosines spread like 1/sqrt(d): neighbours that happen to be "
        "near weigh more (p at d), and where tokens merge their outputs stay apart by a further "
        "beta (1-rho)/d. Differences from the closed form that shrink with d are that."),
    .keys = "n rho gamma"};

static const es_column threshold_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"rho", "rho", "", ES_FORMAT_SHORT},
    {"gamma_c", "gamma_c", "", ES_FORMAT_REAL, "1/(1-rho)", .standing = ES_STANDING_PROVED},
    {"gamma_low", "p = 0.1", "gamma", ES_FORMAT_SHORT, "where the window begins",
     .standing = ES_STANDING_PROVED},
    {"gamma_high", "p = 0.9", "gamma", ES_FORMAT_SHORT, "and where it ends",
     .standing = ES_STANDING_PROVED},
    {"gamma_c_dim", "at d", "gamma", ES_FORMAT_SHORT, "p = 0.5 for tokens of d dimensions",
     .standing = ES_STANDING_HEURISTIC},
    {"gamma_half_measured", "measured", "gamma", ES_FORMAT_REAL,
     "p = 0.5 of the random model, between the two score scales on either side",
     .error = "gamma_half_measured_se"},
    {"rho_realised", "rho^", "", ES_FORMAT_REAL, "mean cosine of the random model, over replicates",
     .error = "rho_realised_se"},
    {"note", "", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec thresholds_table = {"thresholds", threshold_columns,
                                               ES_VIEW("Where it happens"), .keys = "n rho"};

static const es_column phase_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"gamma", "gamma", "", ES_FORMAT_SHORT},
    {"angle_ratio", "rho =", "", ES_FORMAT_SHORT, .each = true, .standing = ES_STANDING_PROVED},
    {0}};
static const es_table_spec phase_table = {
    "phase", phase_columns,
    ES_VIEW("Angle ratio: 0 collapse, 1 identity", NULL,
            "The boundary is gamma_c = 1/(1-rho). --csv and --json have one row for each gamma and "
            "rho, for a heat map."),
    .keys = "n gamma"};

#define CURVE_COLUMNS(key, title, of_gamma, of_angle)                                              \
    {"gamma_" key, "gamma", title, ES_FORMAT_SHORT, of_gamma},                                     \
        {"angle_ratio_" key, "angle ratio", title, ES_FORMAT_SHORT, of_angle},                     \
    {                                                                                              \
        "self_weight_" key, "p", title, ES_FORMAT_SHORT, "weight of a token on itself"             \
    }

static const es_column curve_columns[] = {
    {"n", "context", "tokens", ES_FORMAT_COUNT},
    {"rho", "rho", "", ES_FORMAT_SHORT, "the first rho"},
    CURVE_COLUMNS("plain", "plain",
                  "plain: scores stay as they were in training, gamma = beta/ln n falls",
                  "of equiangular tokens at the first rho"),
    CURVE_COLUMNS("yarn", "yarn", "yarn: scores times (C ln(n/N) + 1)^2 beyond N", NULL),
    CURVE_COLUMNS("logn", "log n", "log n: scores times ln n/ln N beyond N, which keeps gamma",
                  NULL),
    {"gamma_c", "gamma_c", "", ES_FORMAT_SHORT, "1/(1-rho) at the first rho",
     .standing = ES_STANDING_PROVED},
    {"gamma_low", "p = 0.1", "gamma", ES_FORMAT_SHORT, "where the window begins",
     .standing = ES_STANDING_PROVED},
    {"gamma_high", "p = 0.9", "gamma", ES_FORMAT_SHORT, "and where it ends",
     .standing = ES_STANDING_PROVED},
    {0}};
static const es_table_spec curves_table = {
    "curves", curve_columns,
    ES_VIEW(
        "Score scalings in use",
        "n gamma_plain angle_ratio_plain gamma_yarn angle_ratio_yarn gamma_logn angle_ratio_logn"),
    .keys = "n"};

/* ---- rows ---- */

/* What is being made. */
typedef struct summary_ctx {
    const collapse_params *p;
    const collapse_state *s;
    es_table *rows, *thresholds, *phase; /* phase: NULL if it was not asked for */
    const es_collapse_row *measured;     /* (pairs, gammas) */
} summary_ctx;

/* Means over replicates at number g of (n, rho); NULL if the pair was not drawn. */
static const es_collapse_row *measured_at(const summary_ctx *m, int64_t pair, int64_t g)
{
    return pair < m->s->pairs ? m->measured + pair * m->s->gammas + g : NULL;
}

/* The closed form at beta = gamma ln n (THEORY 7). */
static es_status exact_at(const collapse_params *p, int64_t n, double rho, double gamma,
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

static void put_measured(es_table *t, int64_t row, const char *name, double mean, double se)
{
    es_put_under(t, row, name, {"_measured", mean}, {"_measured_se", se});
}

/* Angles of the random model are compared twice: with the rho that was asked for, and with the
 * mean cosine that these tokens realised, which is the one that decides. */
static es_status put_model(const summary_ctx *m, int64_t row, int64_t n, double gamma,
                           const es_collapse_row *x, es_error *err)
{
    es_collapse realised;
    /* By chance a realised cosine near 0 may be negative, which the closed form does not have. */
    ES_TRY(exact_at(m->p, n, fmax(x->mean.rho, 0.0), gamma, &realised, err));
    es_put(m->rows, row, {"rho_realised", x->mean.rho},
           {"angle_ratio_realised", realised.angle_ratio});
    put_measured(m->rows, row, "angle_ratio", x->mean.angle_ratio, x->se.angle_ratio);
    put_measured(m->rows, row, "self_weight", x->mean.self_weight, x->se.self_weight);
    put_measured(m->rows, row, "cosine", x->mean.cosine, x->se.cosine);
    put_measured(m->rows, row, "ess", x->mean.ess, x->se.ess);
    put_measured(m->rows, row, "gradient", x->mean.gradient, x->se.gradient);
    return ES_OK;
}

static es_status put_row(const summary_ctx *m, int64_t n, double rho, double gamma,
                         const es_collapse_row *measured, double *angle_ratio, es_error *err)
{
    es_collapse c;
    ES_TRY(exact_at(m->p, n, rho, gamma, &c, err));
    const double beta = gamma * log((double)n);
    es_table *t = m->rows;
    const int64_t row = es_table_row(t);
    es_put(t, row, {"n", (double)n}, {"rho", rho}, {"times", gamma * (1.0 - rho)}, {"gamma", gamma},
           {"beta", beta});
    es_table_text(t, row, "phase", es_collapse_phase_name(c.phase));
    es_put(t, row, {"self_weight", c.self_weight},
           {"self_weight_dim", es_collapse_self_weight(n, rho, beta, m->p->dim)},
           {"angle_ratio", c.angle_ratio}, {"cosine", c.cosine}, {"ess", c.ess},
           {"entropy", c.entropy}, {"gradient", c.gradient_limit}, {"gradient_exact", c.gradient});
    *angle_ratio = c.angle_ratio;
    return measured ? put_model(m, row, n, gamma, measured, err) : ES_OK;
}

/* ---- thresholds ---- */

/* The gamma at which equiangular tokens have weight p on themselves: the closed form of THEORY 7,
 * p = 1/(1 + (n-1) exp(-gamma ln n (1-rho))), solved for gamma. */
static double gamma_of(int64_t n, double rho, double p)
{
    return log((double)(n - 1) * p / (1.0 - p)) / (log((double)n) * (1.0 - rho));
}

static void put_window(es_table *t, int64_t row, int64_t n, double rho)
{
    es_put(t, row, {"gamma_c", 1.0 / (1.0 - rho)}, {"gamma_low", fmax(0.0, gamma_of(n, rho, 0.1))},
           {"gamma_high", gamma_of(n, rho, 0.9)});
}

/* Where the measured p passes 1/2. ln(p/(1-p)) is linear in gamma for equal angles, so a line
 * between the two score scales on either side will do: with z0 < 0 <= z1 at gamma0, gamma1 it is
 * gamma0 + (gamma1-gamma0) f, f = -z0/(z1-z0). The replicates of both ends are the same tokens;
 * their errors are added as if they were the same number. NaN: nothing crosses. */
static double half_measured(const summary_ctx *m, int64_t pair, double rho, double *se)
{
    for (int64_t g = 0; pair < m->s->pairs && g + 1 < m->s->gammas; g++) {
        double z[2], error[2];
        for (int i = 0; i < 2; i++) {
            const es_collapse_row *x = measured_at(m, pair, g + i);
            const double p = x->mean.self_weight;
            z[i] = log(p / (1.0 - p));
            error[i] = x->se.self_weight / (p * (1.0 - p));
        }
        if (!(z[0] < 0.0 && z[1] >= 0.0) || !isfinite(z[0]) || !isfinite(z[1]))
            continue;
        const double low = collapse_gamma(m->p, rho, g), high = collapse_gamma(m->p, rho, g + 1);
        const double wide = z[1] - z[0];
        *se = (high - low) * (z[1] * error[0] - z[0] * error[1]) / (wide * wide);
        return low + (high - low) * -z[0] / wide;
    }
    *se = (double)NAN;
    return (double)NAN;
}

static void put_threshold(const summary_ctx *m, int64_t pair)
{
    const int64_t n = m->p->n.counts[pair / m->p->rho.count];
    const double rho = m->p->rho.reals[pair % m->p->rho.count];
    const double at_dim = es_collapse_threshold(n, rho, m->p->dim);
    const es_collapse_row *measured = measured_at(m, pair, 0);
    double se;
    es_table *t = m->thresholds;
    const int64_t row = es_table_row(t);
    es_put(t, row, {"n", (double)n}, {"rho", rho});
    put_window(t, row, n, rho);
    es_table_real(t, row, "gamma_c_dim", at_dim);
    if (isnan(at_dim))
        es_table_text(
            t, row, "note",
            "d too small: tokens freeze onto neighbours before they see themselves alone");
    if (!measured)
        return;
    const double half = half_measured(m, pair, rho, &se);
    es_put(t, row, {"gamma_half_measured", half}, {"gamma_half_measured_se", se},
           {"rho_realised", measured->mean.rho}, {"rho_realised_se", measured->se.rho});
}

/* ---- everything at one n ---- */

static es_status put_size(const summary_ctx *m, int64_t size, es_error *err)
{
    const collapse_params *p = m->p;
    const int64_t n = p->n.counts[size], rhos = p->rho.count;
    for (int64_t r = 0; r < rhos; r++)
        put_threshold(m, size * rhos + r);
    for (int64_t g = 0; g < m->s->gammas; g++) {
        const int64_t line = m->phase ? es_table_row(m->phase) : 0;
        if (m->phase) {
            es_put(m->phase, line, {"n", (double)n}, {"gamma", collapse_gamma(p, 0.0, g)});
        }
        for (int64_t r = 0; r < rhos; r++) {
            const double rho = p->rho.reals[r];
            double ratio;
            ES_TRY(put_row(m, n, rho, collapse_gamma(p, rho, g), measured_at(m, size * rhos + r, g),
                           &ratio, err));
            if (m->phase)
                es_put_at(m->phase, line, "angle_ratio", r, ratio);
        }
    }
    return ES_OK;
}

/* ---- scalings in use ---- */

static es_status put_curves(const collapse_params *p, es_table *t, es_error *err)
{
    static const char *const names[] = {"plain", "yarn", "logn"};
    const double train = (double)p->train, rho = p->rho.reals[0];
    for (int64_t i = 0; i < p->contexts.count; i++) {
        const double n = p->contexts.reals[i], plain = p->train_gamma * log(train) / log(n);
        const double gammas[] = {plain, plain * es_scaling_yarn(n, train, p->yarn),
                                 plain * es_scaling_logn(n, train)};
        const int64_t row = es_table_row(t);
        es_put(t, row, {"n", (double)p->contexts.counts[i]}, {"rho", rho});
        put_window(t, row, p->contexts.counts[i], rho);
        for (int c = 0; c < 3; c++) {
            char key[ES_KEY_ROOM];
            es_collapse at;
            ES_TRY(exact_at(p, p->contexts.counts[i], rho, gammas[c], &at, err));
            es_table_real(t, row, es_key(key, "gamma_", names[c]), gammas[c]);
            es_table_real(t, row, es_key(key, "angle_ratio_", names[c]), at.angle_ratio);
            es_table_real(t, row, es_key(key, "self_weight_", names[c]), at.self_weight);
        }
    }
    return ES_OK;
}

/* ---- findings ---- */

/* Where the window lies. */
static void tell_window(es_answer *a, const es_table *t, int64_t row)
{
    const double n = es_table_get(t, row, "n"), rho = es_table_get(t, row, "rho");
    const double high = es_table_get(t, row, "gamma_high");
    if (n < 10.0) /* even weights are more than 0.1: there is nothing below which they merge */
        es_answer_add_finding(
            a,
            "n = %.0f tokens at cosine %.3g have an own weight of %.3g at gamma = 0, and "
            "stay apart above gamma = %.3g (it is 0.9 there); gamma_c = 1/(1-rho) = %.3g "
            "is for many tokens.",
            n, rho, 1.0 / n, high, es_table_get(t, row, "gamma_c"));
    else
        es_answer_add_finding(
            a,
            "n = %.8g tokens at cosine %.3g merge below gamma = %.3g and stay apart "
            "above %.3g (their own weight is 0.1 and 0.9 there); gamma_c = 1/(1-rho) is "
            "%.3g.",
            n, rho, es_table_get(t, row, "gamma_low"), high, es_table_get(t, row, "gamma_c"));
}

/* What the random model says about its middle. */
static void tell_middle(es_answer *a, const collapse_params *p, const es_table *t, int64_t row)
{
    char half[ES_FORMAT_ROOM], heuristic[64] = "";
    const double at_dim = es_table_get(t, row, "gamma_c_dim");
    const double middle = es_table_get(t, row, "gamma_half_measured");
    const double n = es_table_get(t, row, "n"), rho = es_table_get(t, row, "rho");
    if (isnan(middle))
        return;
    if (!isnan(at_dim))
        snprintf(heuristic, sizeof heuristic, ", the heuristic for d dimensions %.4g", at_dim);
    es_format_number(ES_FORMAT_REAL, middle, es_table_get(t, row, "gamma_half_measured_se"), half,
                     sizeof half);
    es_answer_add_finding(
        a,
        "Random tokens of %lld dimensions, n = %.8g at cosine %.3g, have own weight 0.5 "
        "at gamma = %s; equal angles say %.4g%s.",
        (long long)p->dim, n, rho, half, gamma_of((int64_t)n, rho, 0.5), heuristic);
}

/* Plain scores have gamma = G ln N/ln n, which is gamma_c at n = N^(G/gamma_c). */
static void tell_curves(es_answer *a, const collapse_params *p, const es_table *t)
{
    const int64_t last = es_table_rows(t) - 1;
    const double critical = es_table_get(t, last, "gamma_c");
    if (p->train_gamma > critical)
        es_answer_add_finding(
            a,
            "A head trained with %lld tokens at gamma = %.3g falls below gamma_c = %.3g "
            "beyond n = %.3g if its scores stay as they are; at n = %.8g it has gamma = "
            "%.3g, with YaRN's factor %.3g, with log n scaling %.3g.",
            (long long)p->train, p->train_gamma, critical,
            pow((double)p->train, p->train_gamma / critical), es_table_get(t, last, "n"),
            es_table_get(t, last, "gamma_plain"), es_table_get(t, last, "gamma_yarn"),
            es_table_get(t, last, "gamma_logn"));
    else
        es_answer_add_finding(
            a,
            "A head trained with %lld tokens at gamma = %.3g is below gamma_c = %.3g "
            "from the start.",
            (long long)p->train, p->train_gamma, critical);
}

/* ---- all of it ---- */

static es_status average(es_job *job, summary_ctx *m, es_error *err)
{
    es_collapse_row *rows;
    ES_TRY(ES_JOB_NEW_2D(job, rows, m->s->pairs, m->s->gammas, err));
    for (int64_t i = 0; i < m->s->pairs; i++)
        es_collapse_average((const es_collapse_draw *)(const void *)es_job_numbers(job, 0, i),
                            m->p->replicates, m->s->gammas, rows + i * m->s->gammas);
    m->measured = rows;
    return ES_OK;
}

es_status collapse_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const collapse_params *p = job->params;
    summary_ctx m = {.p = p, .s = job->state};
    ES_TRY(average(job, &m, err));
    m.rows = es_answer_table(answer, &rows_table);
    m.thresholds = es_answer_table(answer, &thresholds_table);
    if (p->phase) { /* the diagram is what people asked for; files have the rest, too */
        m.phase = es_answer_table(answer, &phase_table);
        ES_TRY(es_put_each(job, m.phase, "angle_ratio", p->rho.reals, p->rho.count, err));
        es_table_show(m.rows, NULL);
        es_table_show(m.thresholds, NULL);
    }
    for (int64_t i = 0; i < p->n.count; i++)
        ES_TRY(put_size(&m, i, err));
    const int64_t last = es_table_rows(m.thresholds) - 1;
    tell_window(answer, m.thresholds, 0);
    if (last > 0)
        tell_window(answer, m.thresholds, last);
    tell_middle(answer, p, m.thresholds, last);
    if (!p->curves)
        return ES_OK;
    es_answer_count(answer, "train", p->train);
    es_answer_real(answer, "train_gamma", p->train_gamma);
    es_answer_real(answer, "yarn", p->yarn);
    es_table *curves = es_answer_table(answer, &curves_table);
    ES_TRY(put_curves(p, curves, err));
    tell_curves(answer, p, curves);
    return ES_OK;
}
