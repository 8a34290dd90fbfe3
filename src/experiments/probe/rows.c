/* rows.c : from errors of draws to what is said about heads, layers and domains. */
#include <math.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/classes.h"
#include "experiments/probe/question.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "table/table.h"

/* Tokens of the text, and Gaussian ones of the same covariance. */
enum { TEXT, GAUSSIAN, KINDS };

static const struct {
    const char *error, *rate;
} names[KINDS][PROBE_ERRORS] = {
    {{"mean_error", "rate_mean"}, {"cov_error", "rate_cov"}, {"map_error", "rate_map"}},
    {{"mean_error_gaussian", "rate_mean_gaussian"},
     {"cov_error_gaussian", "rate_cov_gaussian"},
     {"map_error_gaussian", "rate_map_gaussian"}}};

/* What is being made; the head under way and everything known of it. */
typedef struct summary_ctx {
    es_job *job;
    const probe_params *p;
    probe_state *s;
    es_table *layers, *heads, *rows;
    es_exec exec; /* the job's, whose progress counts layers */
    int64_t place, head;
    int64_t tokens; /* of the pool */
    es_series of[KINDS][PROBE_ERRORS];
    es_probe_head about;
    es_probe_local *local;       /* (heads) */
    es_probe_policies *policies; /* (heads) */
    double *predicted;           /* (sizes) */
    es_probe_point *exact;       /* (sizes) */
} summary_ctx;

/* Work on a layer reports shares of itself; most of it is that of opening it. */
static bool tell_place(void *user, double done, double total)
{
    const summary_ctx *m = user;
    return m->job->exec.progress(m->job->exec.progress_user, (double)m->place + 0.9 * done / total,
                                 (double)(m->s->pools.n_domains * m->s->layers));
}

/* The number of a head among those of all places: its row. */
static int64_t number_of(const summary_ctx *m) { return m->place * m->s->heads + m->head; }

static int64_t row_of(const summary_ctx *m, int64_t i)
{
    return number_of(m) * m->s->spec.n_sizes + i;
}

static void name_row(const summary_ctx *m, es_table *t, int64_t row)
{
    es_pools_name(&m->s->pools, m->place / m->s->layers, t, row);
    es_table_count(t, row, "layer", m->place % m->s->layers);
}

/* ---- errors and rates ---- */

static double limit_error(const es_probe_cell *limit, int which)
{
    return which == PROBE_MEAN  ? limit->mean_error
           : which == PROBE_COV ? limit->cov_error
                                : limit->map_error;
}

/* Draws of one place follow one another, place by place; a row of a cell is a head at a size. */
static void gather(const summary_ctx *m, int kind, int which, es_series *to)
{
    const int stage = kind == TEXT ? PROBE_DRAW : PROBE_CONTROL;
    const int64_t cols = m->job->stages[stage].cols, sizes = to->points, R = to->replicates;
    for (int64_t i = 0; i < sizes; i++)
        to->at[i] = (double)m->s->spec.sizes[i];
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < sizes; i++)
            to->errors[r * sizes + i] = es_job_numbers(
                m->job, stage, m->place * R + r)[(m->head * sizes + i) * cols + which];
}

/* Tokens are drawn from the pool, so attention over the whole pool is the limit of theirs, exactly:
 * the pool's own error does not enter a rate. Rounding does, and so does a draw without replacement
 * that takes a good part of the pool. */
static void flag_points(const summary_ctx *m, int kind, es_series *s)
{
    const double floor = 5e-7 * m->about.output_rms; /* rounding of the f32 kernels */
    for (int64_t i = 0; i < s->points; i++) {
        s->flags[i] = es_fit_flags_of(s->summary[i].mean, floor, 0.0);
        if (kind == TEXT && m->s->spec.without_replacement && m->s->spec.sizes[i] > m->tokens / 10)
            s->flags[i] |= ES_FIT_REFERENCE;
    }
}

/* What to think of a point: "floor" and "reference" are left out of the fit; "pool" is not, but
 * says more about this pool than about its text. */
static const char *flag_name(unsigned flags, double error, double own)
{
    return flags & ES_FIT_FLOOR       ? "floor"
           : flags & ES_FIT_REFERENCE ? "reference"
           : own > 0.1 * error        ? "pool"
                                      : "";
}

static void put_errors(const summary_ctx *m, int kind, int which, const es_series *s)
{
    const char *name = names[kind][which].error;
    const double own = limit_error(&m->about.limit, which);
    char key[ES_KEY_ROOM];
    for (int64_t i = 0; i < s->points; i++) {
        const int64_t row = row_of(m, i);
        es_put_under(m->rows, row, name, {"", s->summary[i].mean}, {"_se", s->summary[i].se});
        if (kind == TEXT)
            es_table_text(m->rows, row, es_key(key, name, "_flag"),
                          flag_name(s->flags[i], s->summary[i].mean, own));
    }
}

void probe_put_rate(es_table *table, int64_t row, const char *name, const es_series *s)
{
    char key[ES_KEY_ROOM];
    if (s->status != ES_OK) {
        es_table_real(table, row, name, (double)NAN);
        es_table_text(table, row, es_key(key, name, "_reason"), s->reason);
        return;
    }
    es_put_under(table, row, name, {"", s->rate.mean.rate}, {"_se", s->rate.se},
                 {"_ci.0", s->rate.low}, {"_ci.1", s->rate.high}, {"_p", s->rate.power_p});
}

static es_status sum_up(summary_ctx *m, int kind, int which, es_error *err)
{
    es_series *s = &m->of[kind][which];
    gather(m, kind, which, s);
    ES_TRY(es_series_means(s, err)); /* flags need the means first */
    flag_points(m, kind, s);
    ES_TRY(es_series_fit(s, err));
    put_errors(m, kind, which, s);
    probe_put_rate(m->heads, number_of(m), names[kind][which].rate, s);
    return ES_OK;
}

/* ---- what weights and pool say ---- */

/* What Gaussian tokens of the same covariance would give (THEORY 4.2), and the rate that would show
 * where the map error was measured. */
static es_status put_prediction(summary_ctx *m, es_error *err)
{
    ES_TRY(es_probe_predict(m->s->probe, m->head, m->predicted, err));
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++)
        es_table_real(m->rows, row_of(m, i), "map_error_predicted", m->predicted[i]);
    es_table_real(m->heads, number_of(m), "rate_map_predicted",
                  es_series_rate_even(&m->of[TEXT][PROBE_MAP], m->predicted, 0.01));
    return ES_OK;
}

static const double *exact_of(const summary_ctx *m)
{
    return es_job_numbers(m->job, PROBE_EXACT, probe_exact_cell(m->s, m->place));
}

/* A draw of n of the pool's N tokens without replacement has (N - n)/(N - 1) of the variance of
 * independent ones (THEORY 9). */
static double left_at(const summary_ctx *m, int64_t i)
{
    const double N = (double)m->tokens, n = (double)m->s->spec.sizes[i];
    return m->s->spec.without_replacement ? (N - n) / (N - 1.0) : 1.0;
}

/* From how many tokens on the map error is a tenth of the outputs' spread. Fewer than one token is
 * no number of tokens: outputs that hardly differ, where any will do. */
static es_status put_need(const summary_ctx *m, es_error *err)
{
    es_probe_need need = {0};
    const double none = (double)NAN;
    if (m->about.output_rms > 0.0)
        ES_TRY(es_probe_tokens_required(m->s->probe, m->head, exact_of(m),
                                        0.1 * m->about.output_rms, &need, err));
    const bool any = need.tokens < 1.0;
    if (any)
        need = (es_probe_need){none, none, none};
    es_put(m->heads, number_of(m), {"tokens_for_tenth", need.tokens},
           {"tokens_for_tenth_queries", need.queries_se},
           {"tokens_for_tenth_pool", need.pool_error},
           {"tokens_for_tenth_error", hypot(need.queries_se, need.pool_error)});
    es_table_text(m->heads, number_of(m), "tokens_for_tenth_sign",
                  any                          ? "any"
                  : m->about.thin > PROBE_THIN ? ">"
                                               : "");
    return ES_OK;
}

/* What draws of column `column` say at size i: mean and standard error over replicates. */
static es_measured drawn(const summary_ctx *m, int64_t i, int column, bool squared)
{
    const int64_t R = m->p->replicates, sizes = m->s->spec.n_sizes;
    const int64_t stride = (m->s->heads + 1) * sizes * PROBE_COLUMNS;
    const double *first = es_job_numbers(m->job, PROBE_DRAW, m->place * R) +
                          (m->head * sizes + i) * PROBE_COLUMNS + column;
    if (squared)
        return es_measured_rms(first, R, stride);
    const es_spread x = es_spread_of(first, R, stride);
    return (es_measured){x.mean, sqrt(x.squares / ((double)R * (double)(R - 1)))};
}

/* The exact curve, beside what was measured: expectations are of squares, so measured are root mean
 * squares here, of the same queries. */
static es_status put_exact(const summary_ctx *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes;
    ES_TRY(es_probe_curve(m->s->probe, m->head, exact_of(m), m->exact, err));
    for (int64_t i = 0; i < sizes; i++) {
        const es_probe_point *e = &m->exact[i];
        const double left = sqrt(left_at(m, i)), few = e->few * left;
        const es_measured got = drawn(m, i, PROBE_FEW, true);
        const es_measured ess = drawn(m, i, PROBE_ESS, false), top = drawn(m, i, PROBE_TOP, false);
        m->predicted[i] = e->map_error * left;
        es_put(m->rows, row_of(m, i), {"map_error_exact", e->map_error * left},
               {"map_error_exact_se", e->map_error_se * left},
               {"map_error_exact_pool", e->map_error_pool * left}, {"exact_ratio", got.value / few},
               {"exact_ratio_se", got.se / few}, {"ess", ess.value}, {"ess_se", ess.se},
               {"top_weight", top.value}, {"top_weight_se", top.se});
    }
    es_table_real(m->heads, number_of(m), "rate_map_exact",
                  es_series_rate_even(&m->of[TEXT][PROBE_MAP], m->predicted, 0.01));
    return put_need(m, err);
}

/* How many tokens count: over the pool, and over the n of a draw. */
static void put_focus(const summary_ctx *m)
{
    static const struct {
        const char *key;
        int column;
    } of_draws[] = {{"ess_n", PROBE_ESS},
                    {"ess_n_low", PROBE_ESS_LOW},
                    {"top_n", PROBE_TOP},
                    {"top_n_high", PROBE_TOP_HIGH}};
    const es_probe_focus *f = &m->about.focus;
    es_put(m->heads, number_of(m), {"ess_pool", f->ess}, {"ess_pool_low", f->ess_low},
           {"top_pool", f->top}, {"top_pool_high", f->top_high});
    for (size_t i = 0; i < sizeof of_draws / sizeof *of_draws; i++) {
        const es_measured x = drawn(m, m->s->spec.n_sizes - 1, of_draws[i].column, false);
        es_put_under(m->heads, number_of(m), of_draws[i].key, {"", x.value}, {"_se", x.se});
    }
}

static es_status put_weights(const summary_ctx *m, es_error *err)
{
    const es_probe_head *a = &m->about;
    const es_horizons *h = &a->horizons;
    es_exponents e;
    ES_TRY(es_exponents_at(h->horizon.val, &e, err));
    const es_probe_local *local = &m->local[m->head];
    es_put(m->heads, number_of(m), {"horizon", h->horizon.val}, {"horizon_error", h->horizon.err},
           {"horizon_one_sided", h->one_sided.val}, {"horizon_unscaled", h->unscaled.val},
           {"coupling", h->coupling.val}, {"frobenius", h->frobenius.val},
           {"rate_horizon", h->rate_horizon}, {"rate_worst_case", h->rate_worst_case},
           {"rate_coupling", h->rate_coupling}, {"exponent_map", e.query_rms},
           {"exponent_mean", e.mean_abs}, {"score_sd", a->score_sd},
           {"score_sd_se", a->score_sd_se}, {"freezing", a->freezing},
           {"gaussian_frozen", a->gaussian_frozen}, {"gaussian_frozen_se", a->gaussian_frozen_se},
           {"output_rms", a->output_rms}, {"sampling", a->sampling},
           {"sampling_error", a->sampling_error}, {"thin", a->thin},
           {"local_exponent", local->exponent}, {"local_exponent_se", local->exponent_se},
           {"beta", local->beta}, {"beta_frozen", local->beta_frozen},
           {"sink_first", a->sink_first}, {"sink_first_se", a->sink_first_se},
           {"sink_last", a->sink_last}, {"sink_last_se", a->sink_last_se});
    for (int which = 0; which < PROBE_ERRORS; which++)
        es_put_under(m->heads, number_of(m), names[TEXT][which].error,
                     {"_limit", limit_error(&a->limit, which)});
    return ES_OK;
}

static es_status put_context(const summary_ctx *m, es_error *err)
{
    const int64_t row = number_of(m);
    es_pool_context c;
    ES_TRY(es_pool_context_of(m->s->pools.domains[m->place / m->s->layers].pool,
                              m->place % m->s->layers, m->head, &c, err));
    es_put(m->heads, row, {"entropy", c.entropy}, {"entropy_se", c.entropy_se},
           {"top_mass", c.top_weight}, {"top_mass_se", c.top_weight_se}, {"ess", c.ess},
           {"ess_se", c.ess_se}, {"inverse_ess", c.sum_squares},
           {"inverse_ess_se", c.sum_squares_se});
    return ES_OK;
}

/* What the pool's own weights say draws of it will show once n is large, and errors relative to the
 * spread of the head's outputs, which are comparable between heads. */
static void put_scaled(const summary_ctx *m)
{
    const es_fit_summary *map = m->of[TEXT][PROBE_MAP].summary;
    const double spread = m->about.output_rms;
    const int64_t last = m->s->spec.n_sizes - 1, head = number_of(m);
    for (int64_t i = 0; i <= last; i++) {
        const double n = (double)m->s->spec.sizes[i];
        const double left = left_at(m, i);
        const int64_t row = row_of(m, i);
        es_put(m->rows, row, {"map_error_sampling", sqrt(m->about.sampling * left / n)},
               {"relative_error", map[i].mean / spread}, {"relative_error_se", map[i].se / spread});
    }
    es_put(m->heads, head, {"relative_error", map[last].mean / spread},
           {"relative_error_se", map[last].se / spread});
}

static es_status sum_up_head(summary_ctx *m, es_error *err)
{
    ES_TRY(es_probe_head_of(m->s->probe, m->head, &m->about, err));
    name_row(m, m->heads, es_table_row(m->heads));
    es_table_count(m->heads, number_of(m), "head", m->head);
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++) {
        const int64_t row = es_table_row(m->rows);
        name_row(m, m->rows, row);
        es_put(m->rows, row, {"head", (double)m->head}, {"n", (double)m->s->spec.sizes[i]});
    }
    ES_TRY(put_weights(m, err));
    for (int which = 0; which < PROBE_ERRORS; which++)
        ES_TRY(sum_up(m, TEXT, which, err));
    ES_TRY(put_prediction(m, err));
    ES_TRY(put_exact(m, err));
    put_focus(m);
    for (int which = 0; which < PROBE_ERRORS && m->p->control; which++)
        ES_TRY(sum_up(m, GAUSSIAN, which, err));
    ES_TRY(put_context(m, err));
    put_scaled(m);
    return ES_OK;
}

/* ---- one layer ---- */

/* Mean and standard error over replicates, at the largest n, of a column of all heads together. */
static void put_joint(const summary_ctx *m, const char *name, int column)
{
    const int64_t R = m->p->replicates, row = (m->s->heads + 1) * m->s->spec.n_sizes - 1;
    const double *first = es_job_numbers(m->job, PROBE_DRAW, m->place * R);
    const es_spread x = es_spread_of(first + row * PROBE_COLUMNS + column, R,
                                     (m->s->heads + 1) * m->s->spec.n_sizes * PROBE_COLUMNS);
    es_put_under(m->layers, m->place, name, {"", x.mean},
                 {"_se", sqrt(x.squares / ((double)R * (double)(R - 1)))});
}

/* How far the head's error at the largest n moves what the layer adds to its inputs, over their
 * spread: comparable between heads of all layers. */
static void put_moves(const summary_ctx *m, double spread)
{
    const es_measured x = drawn(m, m->s->spec.n_sizes - 1, PROBE_AFTER_WO, false);
    es_put_under(m->heads, number_of(m), "moves", {"", x.value / spread}, {"_se", x.se / spread});
}

static es_status sum_up_layer(summary_ctx *m, es_error *err)
{
    es_probe_layer about;
    double most = 0.0, frozen = 0.0, top = 0.0;
    ES_TRY(probe_open_layer(m->job, m->place, false, &m->exec, err));
    ES_TRY(es_probe_layer_of(m->s->probe, &about, err));
    ES_TRY(es_probe_local_of(m->s->probe, m->local, err));
    if (m->policies)
        ES_TRY(es_probe_policies_of(m->s->probe, m->policies, err));
    m->tokens = es_pool_about(m->s->pools.domains[m->place / m->s->layers].pool).tokens;
    name_row(m, m->layers, es_table_row(m->layers));
    es_put(m->layers, m->place, {"reach", about.reach.val}, {"reach_error", about.reach.err},
           {"trace", about.trace}, {"participation", about.participation},
           {"horizon_unscaled_all_heads", about.horizon_unscaled_all_heads});
    put_joint(m, "coherence", PROBE_COHERENCE);
    put_joint(m, "layer_error", PROBE_MAP);
    for (m->head = 0; m->head < m->s->heads; m->head++) {
        ES_TRY(sum_up_head(m, err));
        put_moves(m, sqrt(about.trace));
        probe_put_class(m->heads, number_of(m), (double)m->s->spec.sizes[m->s->spec.n_sizes - 1],
                        m->p->replicates);
        if (m->policies)
            probe_put_policies(m->heads, number_of(m), &m->policies[m->head]);
        ES_TRY(es_job_tick(m->job, m->place, m->s->pools.n_domains * m->s->layers));
        most = fmax(most, m->about.horizons.horizon.val);
        frozen += m->about.gaussian_frozen / (double)m->s->heads;
        top += drawn(m, m->s->spec.n_sizes - 1, PROBE_TOP_HIGH, false).value / (double)m->s->heads;
    }
    es_put(m->layers, m->place, {"horizon", most}, {"gaussian_frozen", frozen}, {"top_high", top});
    return ES_OK;
}

/* ---- all layers ---- */

static es_status prepare(summary_ctx *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes, heads = m->s->heads;
    for (int which = 0; which < PROBE_ERRORS; which++) {
        ES_TRY(es_series_new(&m->job->arena, m->p->replicates, sizes, &m->of[TEXT][which], err));
        ES_TRY(es_series_new(&m->job->arena, m->p->control, sizes, &m->of[GAUSSIAN][which], err));
    }
    ES_TRY(ES_JOB_NEW(m->job, m->local, heads, err));
    /* which keys a causal head should keep depends on their places, which the pool does not have */
    if (!m->s->pools.config->causal)
        ES_TRY(ES_JOB_NEW(m->job, m->policies, heads, err));
    ES_TRY(ES_JOB_NEW(m->job, m->predicted, sizes, err));
    return ES_JOB_NEW(m->job, m->exact, sizes, err);
}

es_status probe_summarise(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .p = job->params, .s = job->state, .exec = job->exec};
    const int64_t domains = m.s->pools.n_domains, places = domains * m.s->layers;
    m.exec.progress = tell_place;
    m.exec.progress_user = &m;
    es_table *classes = es_answer_table(answer, &probe_classes_table); /* first: what is shown */
    es_table *matter = es_answer_table(answer, &probe_matter_table);
    m.layers = es_answer_table(answer, &probe_layers_table);
    m.heads = es_answer_table(answer, &probe_heads_table);
    es_table *differences = domains > 1 ? es_answer_table(answer, &probe_differences_table) : NULL;
    m.rows = es_answer_table(answer, &probe_rows_table);
    ES_TRY(prepare(&m, err));
    es_job_phase(job, "describing heads", (double)places * m.s->cost.open_flops);
    for (m.place = 0; m.place < places; m.place++)
        ES_TRY(sum_up_layer(&m, err));
    ES_TRY(probe_sum_up_classes(job, m.heads, (double)m.s->spec.sizes[m.s->spec.n_sizes - 1],
                                classes, matter, err));
    ES_TRY(probe_tell_heads(job, m.heads, classes, answer, err));
    if (differences)
        ES_TRY(probe_compare_domains(job, differences, answer, err));
    if (m.s->window_stage >= 0)
        ES_TRY(probe_put_contexts(job, m.heads, answer, err));
    ES_TRY(probe_sum_up_paper(job, answer, err));
    return probe_caution(job, m.heads, answer, err);
}
