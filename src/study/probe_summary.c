/* probe_summary.c : from errors of draws to what is said about heads, layers and domains. */
#include <math.h>

#include <esscher/experiment.h>

#include "base/error.h"
#include "stats/average.h"
#include "study/answer_kit.h"
#include "study/probe_study.h"

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
typedef struct making {
    es_job *job;
    const probe_params *p;
    probe_state *s;
    es_table *layers, *heads, *rows;
    es_exec exec; /* the job's, whose progress counts layers */
    int64_t place, head;
    int64_t tokens; /* of the pool */
    es_series of[KINDS][PROBE_ERRORS];
    es_probe_head about;
    es_probe_local *local; /* (heads) */
    double *predicted;     /* (sizes) */
    double *relative;      /* (places, heads, 2): ln of the relative map error at the largest n, and
                              its standard error, for comparing domains */
} making;

/* Work on a layer reports shares of itself; people want to know how many layers are done. */
static bool tell_place(void *user, double done, double total)
{
    const making *m = user;
    (void)done;
    (void)total;
    return m->job->exec.progress(m->job->exec.progress_user, (double)m->place,
                                 (double)(m->s->pools.n_domains * m->s->layers));
}

/* The number of a head among those of all places: its row, and the place of its bootstrap. */
static int64_t number_of(const making *m) { return m->place * m->s->heads + m->head; }

static int64_t row_of(const making *m, int64_t i) { return number_of(m) * m->s->spec.n_sizes + i; }

static void name_row(const making *m, es_table *t, int64_t row)
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
static void gather(const making *m, int kind, int which, es_series *to)
{
    const int stage = kind == TEXT ? PROBE_DRAW : PROBE_CONTROL;
    const int64_t cols = m->job->stages[stage].cols, sizes = to->points, R = to->replicates;
    for (int64_t i = 0; i < sizes; i++)
        to->at[i] = (double)m->s->spec.sizes[i];
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < sizes; i++)
            to->errors[r * sizes + i] =
                es_job_cell(m->job, stage, m->place * R + r)[(m->head * sizes + i) * cols + which];
}

/* Tokens are drawn from the pool, so attention over the whole pool is the limit of theirs, exactly:
 * the pool's own error does not enter a rate. Rounding does, and so does a draw without replacement
 * that takes a good part of the pool. */
static void flag_points(const making *m, int kind, es_series *s)
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

static void put_errors(const making *m, int kind, int which, const es_series *s)
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

static void put_rate(const making *m, const char *name, const es_series *s)
{
    const int64_t row = number_of(m);
    char key[ES_KEY_ROOM];
    if (s->status != ES_OK) {
        es_table_real(m->heads, row, name, (double)NAN);
        es_table_text(m->heads, row, es_key(key, name, "_reason"), s->reason);
        return;
    }
    es_put_under(m->heads, row, name, {"", s->rate.mean.rate}, {"_se", s->rate.se},
                 {"_ci.0", s->rate.low}, {"_ci.1", s->rate.high}, {"_p", s->rate.mean.p_value});
}

static es_status sum_up(making *m, int kind, int which, es_error *err)
{
    es_series *s = &m->of[kind][which];
    const es_rate_opts opts = {m->job->seed, .experiment = ES_EXPERIMENT_FIT,
                               .cell = (uint64_t)kind << 40 |
                                       (uint64_t)(number_of(m) * PROBE_ERRORS + which),
                               .exec = &m->exec};
    gather(m, kind, which, s);
    ES_TRY(es_series_means(s, &opts, err)); /* flags need the means first */
    flag_points(m, kind, s);
    ES_TRY(es_series_fit(s, &opts, err));
    put_errors(m, kind, which, s);
    put_rate(m, names[kind][which].rate, s);
    return ES_OK;
}

/* ---- what weights and pool say ---- */

/* What Gaussian tokens of the same covariance would give (THEORY 4.2), and the rate that would show
 * where the map error was measured. */
static es_status put_prediction(making *m, es_error *err)
{
    ES_TRY(es_probe_predict(m->s->probe, m->head, m->predicted, err));
    for (int64_t i = 0; i < m->s->spec.n_sizes; i++)
        es_table_real(m->rows, row_of(m, i), "map_error_predicted", m->predicted[i]);
    es_table_real(m->heads, number_of(m), "rate_map_predicted",
                  es_series_rate_even(&m->of[TEXT][PROBE_MAP], m->predicted, 0.01));
    return ES_OK;
}

/* From how many tokens on the map error, sqrt(sampling / n), is a tenth of the outputs' spread:
 * sampling = N sum w^2 |v - output|^2 over the pool, to first order in 1/n (THEORY 9). */
static double tokens_for_tenth(const es_probe_head *a, double sampling)
{
    return 100.0 * sampling / (a->output_rms * a->output_rms);
}

static es_status put_weights(const making *m, es_error *err)
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
           {"score_sd_se", a->score_sd_se}, {"freezing", a->freezing}, {"frozen", a->frozen},
           {"frozen_se", a->frozen_se}, {"output_rms", a->output_rms}, {"sampling", a->sampling},
           {"sampling_error", a->sampling_error}, {"thin", a->thin},
           {"tokens_for_tenth", tokens_for_tenth(a, a->sampling)},
           {"tokens_for_tenth_error", tokens_for_tenth(a, a->sampling_error)},
           {"local_exponent", local->exponent}, {"local_exponent_se", local->exponent_se},
           {"beta", local->beta}, {"beta_frozen", local->beta_frozen},
           {"sink_first", a->sink_first}, {"sink_first_se", a->sink_first_se},
           {"sink_last", a->sink_last}, {"sink_last_se", a->sink_last_se});
    for (int which = 0; which < PROBE_ERRORS; which++)
        es_put_under(m->heads, number_of(m), names[TEXT][which].error,
                     {"_limit", limit_error(&a->limit, which)});
    return ES_OK;
}

static es_status put_context(const making *m, es_error *err)
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
 * spread of the head's outputs, which are comparable between heads. A draw of n of the pool's N
 * tokens without replacement has (N - n)/(N - 1) of the variance of independent ones (THEORY 9). */
static void put_scaled(const making *m)
{
    const es_fit_summary *map = m->of[TEXT][PROBE_MAP].summary;
    const double N = (double)m->tokens, spread = m->about.output_rms;
    const int64_t last = m->s->spec.n_sizes - 1, head = number_of(m);
    for (int64_t i = 0; i <= last; i++) {
        const double n = (double)m->s->spec.sizes[i];
        const double left = m->s->spec.without_replacement ? (N - n) / (N - 1.0) : 1.0;
        const int64_t row = row_of(m, i);
        es_put(m->rows, row, {"map_error_sampling", sqrt(m->about.sampling * left / n)},
               {"relative_error", map[i].mean / spread}, {"relative_error_se", map[i].se / spread});
    }
    es_put(m->heads, head, {"relative_error", map[last].mean / spread},
           {"relative_error_se", map[last].se / spread});
    m->relative[2 * head] = log(map[last].mean / spread);
    m->relative[2 * head + 1] = map[last].se / map[last].mean;
}

static es_status sum_up_head(making *m, es_error *err)
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
    for (int which = 0; which < PROBE_ERRORS && m->p->control; which++)
        ES_TRY(sum_up(m, GAUSSIAN, which, err));
    ES_TRY(put_context(m, err));
    put_scaled(m);
    return ES_OK;
}

/* ---- one layer ---- */

/* Mean and standard error over replicates, at the largest n, of a column of all heads together. */
static void put_joint(const making *m, const char *name, int column)
{
    const int64_t R = m->p->replicates, row = (m->s->heads + 1) * m->s->spec.n_sizes - 1;
    const double *first = es_job_cell(m->job, PROBE_DRAW, m->place * R);
    const es_spread x = es_spread_of(first + row * PROBE_COLUMNS + column, R,
                                     (m->s->heads + 1) * m->s->spec.n_sizes * PROBE_COLUMNS);
    es_put_under(m->layers, m->place, name, {"", x.mean},
                 {"_se", sqrt(x.squares / ((double)R * (double)(R - 1)))});
}

static es_status sum_up_layer(making *m, es_error *err)
{
    es_probe_layer about;
    double most = 0.0, frozen = 0.0;
    ES_TRY(probe_open_layer(m->job, m->place, false, &m->exec, err));
    ES_TRY(es_probe_layer_of(m->s->probe, &about, err));
    ES_TRY(es_probe_local_of(m->s->probe, m->local, err));
    m->tokens = es_pool_about(m->s->pools.domains[m->place / m->s->layers].pool).tokens;
    name_row(m, m->layers, es_table_row(m->layers));
    es_put(m->layers, m->place, {"reach", about.reach.val}, {"reach_error", about.reach.err},
           {"trace", about.trace}, {"participation", about.participation},
           {"horizon_unscaled_all_heads", about.horizon_unscaled_all_heads});
    put_joint(m, "coherence", PROBE_COHERENCE);
    put_joint(m, "layer_error", PROBE_MAP);
    for (m->head = 0; m->head < m->s->heads; m->head++) {
        ES_TRY(sum_up_head(m, err));
        most = fmax(most, m->about.horizons.horizon.val);
        frozen += m->about.frozen / (double)m->s->heads;
    }
    es_put(m->layers, m->place, {"horizon", most}, {"frozen", frozen});
    return ES_OK;
}

/* ---- domains ---- */

/* Every head's relative error against that of the first domain: errors of draws are positive and
 * spread by their own size, so that logarithms are compared. */
static void put_differences(const making *m, es_table *t)
{
    const es_domain *domains = m->s->pools.domains;
    const int64_t heads = m->s->heads, all = m->s->layers * heads;
    const double tests = (double)(all * (m->s->pools.n_domains - 1));
    for (int64_t d = 1; d < m->s->pools.n_domains; d++)
        for (int64_t h = 0; h < all; h++) {
            const double *here = m->relative + 2 * (d * all + h), *first = m->relative + 2 * h;
            const double se = hypot(here[1], first[1]), z = (here[0] - first[0]) / se;
            /* two-sided, for as many tests as there are rows */
            const double p = fmin(1.0, tests * erfc(fabs(z) / sqrt(2.0)));
            const int64_t row = es_table_row(t);
            es_table_text(t, row, "domain", domains[d].name);
            es_table_text(t, row, "against", domains[0].name);
            es_put(t, row, {"layer", (double)(h / heads)}, {"head", (double)(h % heads)},
                   {"ratio", exp(here[0] - first[0])}, {"ratio_se", exp(here[0] - first[0]) * se},
                   {"z", z}, {"p", p});
            es_table_text(t, row, "differs", p < 0.01 ? "yes" : "no");
        }
}

/* ---- findings ---- */

/* The finite numbers of a column, in order; how many. */
/* Heads without a rate have NaN there, which no order has a place for. */
static int64_t sorted_column(const es_table *t, const char *key, double *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        out[count] = es_table_get(t, i, key);
        count += isfinite(out[count]) ? 1 : 0;
    }
    es_sort_reals(out, count);
    return count;
}

static double column_median(const es_table *t, const char *key, double *room)
{
    return es_median_of(room, sorted_column(t, key, room));
}

static const char *counted(const making *m)
{
    return m->s->pools.n_domains > 1 ? "pairs of a head and a domain" : "heads";
}

/* Do single outputs converge, and do they as averages of independent tokens, like n^-1/2? */
static void tell_rates(const making *m, es_answer *a, double *room)
{
    long long converge = 0, average = 0;
    for (int64_t i = 0; i < es_table_rows(m->heads); i++) {
        const double rate = es_table_get(m->heads, i, "rate_map");
        const double two = ES_SIGMAS_95 * es_table_get(m->heads, i, "rate_map_se");
        converge += rate > two;
        average += rate > two && fabs(rate - 0.5) <= two;
    }
    const double se = column_median(m->heads, "rate_map_se", room);
    const double predicted = column_median(m->heads, "rate_map_predicted", room);
    const double paper = column_median(m->heads, "rate_horizon", room);
    const int64_t count = sorted_column(m->heads, "rate_map", room);
    if (count == 0)
        return;
    es_answer_tell(
        a,
        "Of %lld %s %lld converge: their map rate is above 0 by more than 1.96 standard errors; "
        "%lld of these average: it is as close to 1/2. The rate is %.3g in the median and %.3g to "
        "%.3g in four fifths of them, each ± %.2g in the median; Gaussian tokens of the same "
        "covariance would give %.3g, the paper's exponent is %.3g.",
        (long long)es_table_rows(m->heads), counted(m), converge, average,
        es_median_of(room, count), room[(count - 1) / 10], room[9 * (count - 1) / 10], se,
        predicted, paper);
}

/* A number of tokens with two digits, which is what is known of it. */
static double rounded(double tokens)
{
    const double digit = tokens > 100.0 ? pow(10.0, floor(log10(tokens)) - 1.0) : 1.0;
    return digit * ceil(tokens / digit);
}

/* The head that needs most tokens, and how many need more than the pool has. */
static void tell_slowest(const making *m, es_answer *a)
{
    const int64_t tokens = m->s->pools.cost.tokens;
    int64_t slowest = -1;
    long long beyond = 0;
    double most = 0.0;
    for (int64_t i = 0; i < es_table_rows(m->heads); i++) {
        const double needed = es_table_get(m->heads, i, "tokens_for_tenth");
        beyond += needed > (double)tokens;
        if (needed > most) {
            most = needed;
            slowest = i;
        }
    }
    if (slowest < 0)
        return;
    const char *domain = es_table_get_text(m->heads, slowest, "domain");
    es_answer_tell(a,
                   "%lld of %lld %s need more than the pool's %lld tokens for outputs within a "
                   "tenth of their spread; the slowest, layer %.0f, head %.0f%s%s, needs %.0f (± "
                   "%.0f between halves of the pool)%s.",
                   beyond, (long long)es_table_rows(m->heads), counted(m), (long long)tokens,
                   es_table_get(m->heads, slowest, "layer"),
                   es_table_get(m->heads, slowest, "head"), *domain ? " on " : "", domain,
                   rounded(most),
                   rounded(es_table_get(m->heads, slowest, "tokens_for_tenth_error")),
                   es_table_get(m->heads, slowest, "thin") > 0.5 ? " or more" : "");
}

static void tell_domains(const es_table *t, es_answer *a)
{
    long long differ = 0;
    double least = INFINITY, most = 0.0;
    for (int64_t i = 0; i < es_table_rows(t); i++) {
        const double ratio = es_table_get(t, i, "ratio");
        differ += es_table_get_text(t, i, "differs")[0] == 'y';
        least = fmin(least, ratio);
        most = fmax(most, ratio);
    }
    es_answer_tell(a,
                   "Relative errors of %lld of %lld heads differ from those on the first domain (p "
                   "below 0.01 for all of them together); ratios are from %.3g to %.3g.",
                   differ, (long long)es_table_rows(t), least, most);
}

/* ---- all layers ---- */

static es_status prepare(making *m, es_error *err)
{
    const int64_t sizes = m->s->spec.n_sizes, heads = m->s->heads;
    const int64_t places = m->s->pools.n_domains * m->s->layers;
    for (int which = 0; which < PROBE_ERRORS; which++) {
        ES_TRY(es_series_new(&m->job->arena, m->p->replicates, sizes, &m->of[TEXT][which], err));
        ES_TRY(es_series_new(&m->job->arena, m->p->control, sizes, &m->of[GAUSSIAN][which], err));
    }
    ES_TRY(es_job_array(m->job, heads, 1, sizeof *m->local, &m->local, err));
    ES_TRY(es_job_array(m->job, sizes, 1, sizeof *m->predicted, &m->predicted, err));
    return es_job_array(m->job, places * heads, 2, sizeof *m->relative, &m->relative, err);
}

es_status probe_summarise(es_job *job, es_answer *answer, es_error *err)
{
    making m = {.job = job, .p = job->params, .s = job->state, .exec = job->exec};
    const int64_t domains = m.s->pools.n_domains, places = domains * m.s->layers;
    double *room;
    m.exec.progress = tell_place;
    m.exec.progress_user = &m;
    m.layers = es_answer_table(answer, &probe_layers_table);
    m.heads = es_answer_table(answer, &probe_heads_table);
    es_table *differences = domains > 1 ? es_answer_table(answer, &probe_differences_table) : NULL;
    m.rows = es_answer_table(answer, &probe_rows_table);
    ES_TRY(prepare(&m, err));
    es_job_phase(job, "describing heads", (double)places * m.s->cost.open_flops);
    for (m.place = 0; m.place < places; m.place++)
        ES_TRY(sum_up_layer(&m, err));
    if (differences)
        put_differences(&m, differences);
    ES_TRY(es_job_array(job, es_table_rows(m.heads), 1, sizeof *room, &room, err));
    tell_rates(&m, answer, room);
    tell_slowest(&m, answer);
    if (differences)
        tell_domains(differences, answer);
    return ES_OK;
}
