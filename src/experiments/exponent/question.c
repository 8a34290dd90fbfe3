/* question.c : how near keys come to a query, and when one of them has the weight. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/attend.h>

#include "base/error.h"
#include "base/format.h"
#include "base/view.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "stats/average.h"
#include "stats/special.h"
#include "theory/freezing.h"

typedef struct exponent_params {
    const char *keys, *query;
    int64_t k, sample;
    es_grid n;
    double beta, scale;
} exponent_params;

typedef struct exponent_state {
    es_matrix keys, queries; /* no queries: the first keys */
    int64_t count;           /* of queries */
    bool self;
} exponent_state;

#define FIELD(member) .field = offsetof(exponent_params, member)
static const es_param params[] = {
    {"keys", 0, ES_PARAM_FILE, "FILE", "keys, .npy (n, d); of their lengths only --scale makes use",
     FIELD(keys)},
    {"query", 0, ES_PARAM_FILE, "FILE", "queries, .npy (d) or (m, d)", FIELD(query),
     .default_note = "keys are the queries, each without itself", .renamed_from = "queries"},
    {"sample", 0, ES_PARAM_WHOLE, "M", "without queries: the first M keys are taken", FIELD(sample),
     .min = 1, .max = 1e9, .default_value = "256"},
    {"nearest", 0, ES_PARAM_WHOLE, "K", "nearest keys that an estimate uses", FIELD(k), .min = 3,
     .max = 1e9, .default_note = "sqrt(n)", .renamed_from = "k"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "contexts to predict for", FIELD(n), .min = 1, .max = 1e15,
     .increasing = true, .default_note = "n of the keys, and 10 and 100 times that",
     .unit = "tokens"},
    {"beta", 0, ES_PARAM_NUMBER, "B", "inverse temperature the head runs at: score = B cosine",
     FIELD(beta), .min = 1e-9, .max = 1e12},
    {"scale", 0, ES_PARAM_NUMBER, "S",
     "score scale the head runs at: score = S q.k of the vectors as they are; beta is then S "
     "mean|q| mean|k|",
     FIELD(scale), .min = 1e-12, .max = 1e12},
    {0}};

/* ---- tables ---- */

static const es_column estimate_columns[] = {
    {"method", "method", "", ES_FORMAT_TEXT},
    {"alpha", "alpha", "", ES_FORMAT_REAL, "P(1 - cosine <= t) ~ c t^alpha for small t",
     .error = "alpha_se"},
    {"dimension", "dimension", "", ES_FORMAT_REAL,
     "2 alpha: of the surface that the keys near a query fill", .error = "dimension_se"},
    {0}};
static const es_table_spec estimate_table = {
    "estimates", estimate_columns,
    ES_VIEW("Local exponent", NULL,
            "corrected: maximum likelihood on a great sphere, where Hill's estimate (Levina and "
            "Bickel's dimension) takes the curvature for a lower dimension. two nearest: TwoNN, "
            "from many queries. With several queries errors come from the scatter between them."),
    .keys = "method"};

static const es_column freezing_columns[] = {
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"source", "from", "", ES_FORMAT_TEXT,
     "these keys: measured over them, mean over queries. law: exact expectation for n keys that "
     "are uniform on a sphere of 2 alpha dimensions and as dense near a query as these; proved "
     "for such keys, a model of others"},
    {"averages", "averaging below", "beta", ES_FORMAT_REAL,
     "the beta up to which 100 keys or more share the weight: 1/(mean sum w^2) >= 100, or two "
     "thirds of n keys where those are fewer",
     .error = "averages_se"},
    {"frozen", "single-key from", "beta", ES_FORMAT_REAL,
     "the freezing scale: from this beta on fewer than 2 keys share the weight, mean sum w^2 > "
     "1/2, and the nearest has more than half of it on average",
     .error = "frozen_se"},
    {"ess", "ESS as it runs", "keys", ES_FORMAT_REAL,
     "1/(mean sum w^2) at --beta or --scale: keys that share the weight", .error = "ess_se"},
    {"top_weight", "largest weight", "", ES_FORMAT_SHORT, "mean, at --beta or --scale"},
    {"verdict", "as it runs", "", ES_FORMAT_TEXT,
     "averaging, selective or single-key: by this ESS, with the cut-offs 100 and 2"},
    {0}};
static const es_table_spec freezing_table = {
    "freezing", freezing_columns,
    ES_VIEW(
        "Averaging, selective, single-key", NULL,
        "Errors: of these keys from the scatter between queries, of the law from those of alpha "
        "and of the density. The law's numbers are left out where, for as many keys as there "
        "are, they are off by more than a quarter and four errors from what these keys show: "
        "the keys are then not like a sphere as far out as the weight reaches."),
    .keys = "n source"};

static const es_column run_columns[] = {
    {"beta", "beta", "", ES_FORMAT_REAL},
    {"top_weight", "largest weight", "", ES_FORMAT_REAL,
     "of a query over these keys, mean over queries", .error = "top_weight_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL, "1/(mean over queries of the sum of squared weights)",
     .error = "ess_se"},
    {"tokens", "single-key up to", "tokens", ES_FORMAT_SHORT,
     "over so many tokens of the law attention is single-key at this beta, over more it is not; 0: "
     "none "
     "from 3 on"},
    {"statement", "in words", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec run_table = {
    "runs", run_columns, ES_VIEW("As it runs", .only_with_full = true), .record = true};

static const es_column scan_columns[] = {
    {"k", "k", "keys", ES_FORMAT_COUNT},
    {"hill", "Hill", "", ES_FORMAT_REAL, .error = "hill_se"},
    {"alpha", "corrected", "", ES_FORMAT_REAL, .error = "alpha_se"},
    {0}};
static const es_table_spec scan_table = {
    "scan", scan_columns,
    ES_VIEW("Does it depend on k?", NULL,
            "An exponent that keeps changing with k is not one: the keys have structure at every "
            "distance.",
            .only_with_full = true),
    .keys = "k"};

/* ---- what is asked ---- */

static es_status open_study(es_job *job, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    if (!p->keys)
        return es_refuse(err, "exponent.options", "name a .npy file (n, d)", "--keys is missing");
    if (!isnan(p->beta) && !isnan(p->scale))
        return es_refuse(err, "exponent.options", "leave one of them out",
                         "--beta and --scale are both given");
    ES_TRY(es_job_matrix(job, "keys", p->keys, -1, -1, &s->keys, err));
    ES_TRY(es_job_matrix(job, "query", p->query, -1, s->keys.cols, &s->queries, err));
    s->self = !p->query;
    s->count = p->query ? s->queries.rows : p->sample < s->keys.rows ? p->sample : s->keys.rows;
    return ES_OK;
}

/* ---- estimates, THEORY 6 ----
 * Given T_(k+1), the k nearest gaps T = 1 - cosine are independent with P(T <= t) ~ t^alpha, so
 * ln(T_(k+1)/T_(i)) are exponential with rate alpha: Hill's (k-1)/sum ln(T_(k+1)/T_(i)). On a great
 * sphere the density is (x(1-x))^(alpha-1) in x = T/2, and the corrected estimate maximises that.
 */

/* All queries with k nearest keys: the pool, and as one estimate. One query has its own errors. */
static es_status estimate(es_job *job, int64_t k, es_exponent_pool *pool, es_exponent *one,
                          es_error *err)
{
    const exponent_state *s = job->state;
    const es_exponent_opts opts = {.k = k, .self = s->self, .count = s->count, .exec = &job->exec};
    es_exponent *each;
    ES_TRY(ES_JOB_NEW(job, each, s->count, err));
    ES_TRY(es_exponent_queries(&s->keys.view, s->self ? NULL : &s->queries.view, &opts, each, pool,
                               err));
    int64_t first = 0; /* there is one: a pool without any is refused */
    while (isnan(each[first].alpha))
        first++;
    *one = each[first];
    if (pool->queries > 1) {
        one->alpha = pool->alpha;
        one->alpha_se = pool->alpha_se;
        one->hill = pool->hill;
        one->hill_se = pool->hill_se;
        one->log_c = pool->log_c;
        one->log_c_se = pool->log_c_se;
        one->reach = pool->reach;
    }
    return ES_OK;
}

static void put_estimate(es_table *t, const char *method, double alpha, double se)
{
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "method", method);
    es_put(t, row, {"alpha", alpha}, {"alpha_se", se}, {"dimension", 2.0 * alpha},
           {"dimension_se", 2.0 * se});
}

static void put_estimates(const exponent_state *s, const es_exponent_pool *pool,
                          const es_exponent *e, es_answer *a)
{
    es_table *t = es_answer_table(a, &estimate_table);
    put_estimate(t, "corrected", e->alpha, e->alpha_se);
    put_estimate(t, "Hill", e->hill, e->hill_se);
    if (!isnan(pool->two_nn))
        put_estimate(t, "two nearest", 0.5 * pool->two_nn, 0.5 * pool->two_nn_se);
    es_answer_count(a, "keys", s->keys.rows);
    es_answer_count(a, "dim", s->keys.cols);
    es_answer_count(a, "queries", pool->queries);
    es_answer_count(a, "refused", pool->refused);
    es_answer_count(a, "k", e->k);
    es_answer_count(a, "copies", e->copies);
    es_answer_real(a, "log_c", e->log_c);
}

/* The same with fewer and more neighbours. */
static es_status put_scan(es_job *job, const es_exponent *at, es_table *t, es_error *err)
{
    const exponent_state *s = job->state;
    const int64_t most = s->keys.rows - 2 - at->copies;
    for (int64_t step = -2; step <= 2; step++) {
        const int64_t k = step < 0 ? at->k >> -step : at->k << step;
        es_exponent_pool pool;
        es_exponent e;
        if (k < 3 || k > most)
            continue;
        const es_status status = estimate(job, k, &pool, &e, err);
        if (status == ES_E_RANGE || status == ES_E_NUMERIC)
            break; /* a k too many */
        ES_TRY(status);
        const int64_t row = es_table_row(t);
        es_put(t, row, {"k", (double)k}, {"hill", e.hill}, {"hill_se", e.hill_se},
               {"alpha", e.alpha}, {"alpha_se", e.alpha_se});
    }
    return ES_OK;
}

/* ---- what it means, THEORY 6 ----
 * How many keys share the weight names the regime (key_weights.h). Over the keys at hand that is
 * measured, at any beta, and the beta at which it passes a cut-off is solved on the measurement;
 * for another n it is the exact expectation for keys of this alpha and density (freezing.h). */

/* Returns the mean length of the rows; `unit`: and makes unit vectors of them. No row is zero by
 * now. The largest entry is divided out first, so that no square overflows. */
static double mean_length(es_matrix *x, bool unit)
{
    double mean = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double *row = x->data + i * x->cols, most = 0.0, sum = 0.0;
        for (int64_t c = 0; c < x->cols; c++)
            most = fmax(most, fabs(row[c]));
        for (int64_t c = 0; c < x->cols; c++)
            sum += row[c] / most * (row[c] / most);
        mean += most * sqrt(sum) / (double)x->rows;
        for (int64_t c = 0; c < x->cols && unit; c++)
            row[c] = row[c] / most / sqrt(sum);
    }
    return mean;
}

/* Attention of the queries over these very keys: with --scale over the vectors as they are, so that
 * long keys weigh more; otherwise over unit vectors. */
typedef struct heard {
    es_job *job;
    double lengths;        /* mean|q| mean|k| of the vectors: a score is beta q.k / lengths */
    double *top, *squares; /* (count) of each query */
    double log_target;
    es_status status;
    es_error *err;
} heard;

/* What is measured at one beta: means over queries, and their standard errors. */
typedef struct weights_there {
    es_measured top, squares;
} weights_there;

static es_status listen(const heard *h, double beta, weights_there *out)
{
    const exponent_state *s = h->job->state;
    const es_view all = s->self ? es_view_rows(&s->keys.view, 0, s->count) : s->queries.view;
    es_view values = s->keys.view; /* outputs are not asked for: the narrowest there are */
    values.cols = 1;
    const double scale = beta / h->lengths;
    const es_attend_opts opts = {ES_F64, .scales = &scale, .n_scales = 1, .exclude_self = s->self,
                                 .exec = &h->job->exec};
    const es_attend_out found = {.top_weight = h->top, .sum_squares = h->squares};
    ES_TRY(es_attend(&all, &s->keys.view, &values, &opts, &found, h->err));
    out->top = es_average_column(h->top, s->count, 1);
    out->squares = es_average_column(h->squares, s->count, 1);
    return ES_OK;
}

static double over_target(const void *context, double log_beta)
{
    heard *h = *(heard *const *)context;
    weights_there w;
    if (h->status == ES_OK)
        h->status = listen(h, exp(log_beta), &w);
    return h->status == ES_OK ? log(w.squares.value) - h->log_target : (double)NAN;
}

/* The beta at which the mean sum w^2 of these queries is `target`, looked for from `guess` on: it
 * grows with beta for every query. NaN beyond 1e15, as where two nearest keys are copies. */
static es_measured solve(heard *h, double target, double guess)
{
    const double within = 1e-4, wide = 0.05;
    heard *const context = h;
    h->log_target = log(target);
    double at = log(guess), f = over_target(&context, at), last = at, step = 0.25;
    for (const bool below = f < 0.0; (f < 0.0) == below && fabs(at) < 34.5; step *= 1.5) {
        last = at;
        at += below ? step : -step;
        f = over_target(&context, at);
    }
    const double root = es_root(over_target, &context, fmin(at, last), fmax(at, last), within);
    weights_there w = {0};
    if (isnan(root))
        return (es_measured){(double)NAN, (double)NAN};
    const double slope =
        (over_target(&context, root + wide) - over_target(&context, root - wide)) / (2.0 * wide);
    if (h->status == ES_OK)
        h->status = listen(h, exp(root), &w);
    const double beta = exp(root);
    return (es_measured){.value = beta, .se = beta * w.squares.se / w.squares.value / slope};
}

/* At this n and beta: ESS, the largest weight, the word. */
static void put_weights(es_table *t, int64_t row, double n, double top, es_measured squares)
{
    es_regime_finding found;
    const double ess = 1.0 / squares.value;
    if (!(ess < 1.01 * n)) /* a law that has more keys near a query than there are */
        return;
    es_put(t, row, {"ess", ess}, {"ess_se", ess * squares.se / squares.value}, {"top_weight", top});
    es_regime_of(n, top, squares.value, &found);
    es_table_text(t, row, "verdict", es_regime_name(found.regime));
}

/* What these keys show; and whether the law, for as many keys, says the same. */
typedef struct shown {
    es_measured averages, frozen, squares;
    bool says_averages, says_frozen, says_weights;
} shown;

static es_status put_measured(heard *h, double beta, const es_scales *law, es_table *t, shown *out)
{
    const exponent_state *s = h->job->state;
    const double n = (double)(s->keys.rows - s->self);
    const int64_t row = es_table_row(t);
    out->frozen = solve(h, es_frozen_squares(n), isfinite(law->frozen) ? law->frozen : 10.0);
    out->averages = solve(h, es_averages_squares(n), isfinite(law->averages) ? law->averages : 1.0);
    es_table_text(t, row, "source", "these keys");
    es_put(t, row, {"n", (double)s->keys.rows}, {"averages", out->averages.value},
           {"averages_se", out->averages.se}, {"frozen", out->frozen.value},
           {"frozen_se", out->frozen.se});
    ES_TRY(h->status);
    if (isnan(beta))
        return ES_OK;
    weights_there w;
    ES_TRY(listen(h, beta, &w));
    out->squares = w.squares;
    put_weights(t, row, n, w.top.value, w.squares);
    return ES_OK;
}

/* Within a quarter, and what four standard errors add. One query has none, and decides nothing;
 * keys that never freeze, being copies of one another, have no law that does. */
static bool agrees(es_measured measured, double law, int64_t queries)
{
    const double room = log(1.25) + 4.0 * measured.se / measured.value;
    return queries == 1 || fabs(log(law / measured.value)) <= room;
}

static es_status compare_law(es_job *job, const es_exponent *e, double n, double beta,
                             const es_scales *law, shown *found, es_error *err)
{
    const int64_t queries = ((const exponent_state *)job->state)->count;
    es_local_weights w;
    found->says_averages = agrees(found->averages, law->averages, queries);
    found->says_frozen = agrees(found->frozen, law->frozen, queries);
    if (isnan(beta))
        return ES_OK;
    ES_TRY(es_exponent_weights(e, n, beta, job->exec.budget, &w, err));
    found->says_weights = agrees(found->squares, w.squares, queries);
    return ES_OK;
}

static es_status put_law(es_job *job, const es_exponent *e, double n, double beta,
                         const shown *found, es_table *t, es_error *err)
{
    es_scales at, log_se;
    es_local_weights w;
    ES_TRY(es_exponent_scales(e, n, job->exec.budget, &at, &log_se, err));
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "source", "law");
    es_put(t, row, {"n", (double)((int64_t)n)});
    if (found->says_averages)
        es_put(t, row, {"averages", at.averages}, {"averages_se", at.averages * log_se.averages});
    if (found->says_frozen)
        es_put(t, row, {"frozen", at.frozen}, {"frozen_se", at.frozen * log_se.frozen});
    if (isnan(beta) || !found->says_weights)
        return ES_OK;
    ES_TRY(es_exponent_weights(e, n, beta, job->exec.budget, &w, err));
    put_weights(t, row, n, w.top, (es_measured){.value = w.squares, .se = w.squares * w.log_se});
    return ES_OK;
}

/* These keys as they are; then the law, for as many, ten and a hundred times as many, or --n. */
static es_status put_freezing(heard *h, const es_exponent *e, double beta, es_table *t,
                              shown *found)
{
    es_job *job = h->job;
    const es_grid *grid = &((const exponent_params *)job->params)->n;
    const double keys = (double)((const exponent_state *)job->state)->keys.rows;
    es_scales law;
    ES_TRY(es_exponent_scales(e, keys, job->exec.budget, &law, NULL, h->err));
    ES_TRY(put_measured(h, beta, &law, t, found));
    ES_TRY(compare_law(job, e, keys, beta, &law, found, h->err));
    for (int64_t i = 0; i < (grid->count ? grid->count : 3); i++)
        ES_TRY(put_law(job, e, grid->count ? grid->reals[i] : keys * pow(10.0, (int)i), beta, found,
                       t, h->err));
    return ES_OK;
}

static es_status put_run(heard *h, const es_exponent *e, double beta, bool law,
                         const char *statement, es_answer *a)
{
    weights_there w;
    double tokens = (double)NAN;
    ES_TRY(listen(h, beta, &w));
    if (law)
        ES_TRY(es_exponent_tokens(e, beta, h->job->exec.budget, &tokens, h->err));
    const double ess = 1.0 / w.squares.value;
    es_table *t = es_answer_table(a, &run_table);
    es_table_row(t);
    es_put(t, 0, {"beta", beta}, {"top_weight", w.top.value}, {"top_weight_se", w.top.se},
           {"ess", ess}, {"ess_se", ess * w.squares.se / w.squares.value}, {"tokens", tokens});
    es_table_text(t, 0, "statement", statement);
    return ES_OK;
}

/* Says what the exponent is, unless methods differ by more than a factor of 2: there is then no
 * power law for them to agree on. */
static void tell_exponent(es_answer *a, const es_exponent *e, const es_exponent_pool *pool)
{
    const double two = isnan(pool->two_nn) ? e->hill : 0.5 * pool->two_nn;
    const double least = fmin(fmin(e->alpha, e->hill), two);
    const double most = fmax(fmax(e->alpha, e->hill), two);
    const long long queries = pool->queries;
    char alpha[ES_FORMAT_ROOM], dimension[ES_FORMAT_ROOM];
    if (most > 2.0 * least) {
        es_answer_add_finding(
            a,
            "These keys have no local exponent: estimates of alpha from the same keys "
            "run from %.3g to %.3g, more than a factor of 2 apart.",
            least, most);
        return;
    }
    es_format_number(ES_FORMAT_REAL, e->alpha, e->alpha_se, alpha, sizeof alpha);
    es_format_number(ES_FORMAT_REAL, 2.0 * e->alpha, 2.0 * e->alpha_se, dimension,
                     sizeof dimension);
    es_answer_add_finding(
        a,
        "The local exponent is alpha = %s: near a query the keys lie as on a surface of "
        "dimension %s (%lld nearest keys, %lld %s).",
        alpha, dimension, (long long)e->k, queries, queries == 1 ? "query" : "queries");
}

/* ---- all of it ---- */

/* A refusal of the library is about the file it was given. */
static es_status blame(const es_job *job, es_status status, es_error *err)
{
    if (status != ES_OK && strcmp(err->rule, "exponent.k") == 0) {
        snprintf(err->hint, sizeof err->hint, "--nearest: from 3 to one less than there are keys");
        return err->code = ES_E_ARGUMENT;
    }
    return es_blame_file(status, ((const exponent_params *)job->params)->keys, err);
}

/* "beta = 57.1 on, give or take 4 %". */
static void say_frozen(const es_measured *frozen, char *out, size_t size)
{
    if (isnan(frozen->value))
        snprintf(out, size, "no beta on, the nearest keys being copies of one another");
    else if (isnan(frozen->se))
        snprintf(out, size, "beta = %.3g on", frozen->value);
    else
        snprintf(out, size, "beta = %.3g on, give or take %.2g %%", frozen->value,
                 100.0 * frozen->se / frozen->value);
}

/* "75.7 keys share", "1 key has". */
static const char *sharing(double ess, char out[ES_SAY_ROOM])
{
    char size[ES_SAY_ROOM];
    es_say_size(ess < 1.005 ? 1.0 : ess, size);
    snprintf(out, ES_SAY_ROOM, "%.40s key%s", size, ess < 1.005 ? " has" : "s share");
    return out;
}

/* The law's rows take the exponent at its word nearer to a query than any key was seen. */
static void caution_far(const es_grid *n, double keys, es_answer *a)
{
    const double most = n->count ? n->reals[n->count - 1] : keys;
    if (most > 100.0 * keys)
        es_answer_add_finding(
            a,
            "Caution: n up to %.8g is more than 100 times the %.0f keys: rows of the law "
            "there extrapolate to distances from a query at which there was no key.",
            most, keys);
}

/* Says what the exponent means for a head: after the estimates, which are made of the vectors as
 * they came, because unit vectors are rounded. */
static es_status sum_up_head(es_job *job, const es_exponent *e, es_answer *a, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    const bool unit = isnan(p->scale);
    const double of_keys = mean_length(&s->keys, unit), of_queries = mean_length(&s->queries, unit);
    const double lengths = of_keys * (s->self ? of_keys : of_queries);
    const double beta = unit ? p->beta : p->scale * lengths;
    heard h = {.job = job, .lengths = unit ? 1.0 : lengths, .err = err};
    es_table *t = es_answer_table(a, &freezing_table);
    shown found = {0};
    char from[80], statement[400], runs[ES_SAY_ROOM], keys[ES_SAY_ROOM];
    ES_TRY(ES_JOB_NEW(job, h.top, s->count, err));
    ES_TRY(ES_JOB_NEW(job, h.squares, s->count, err));
    ES_TRY(put_freezing(&h, e, beta, t, &found));
    say_frozen(&found.frozen, from, sizeof from);
    if (isnan(beta)) {
        es_answer_add_finding(
            a,
            "Attention over these %lld keys is averaging (100 keys or more share the "
            "weight) below beta = %.3g and single-key (fewer than 2 do) from %s.",
            (long long)s->keys.rows, found.averages.value, from);
        caution_far(&p->n, (double)s->keys.rows, a);
        return ES_OK;
    }
    snprintf(statement, sizeof statement,
             "at beta = %s, %s the weight of these %lld keys, and the largest weight is %.3g; "
             "attention is single-key from %s",
             es_say_size(beta, runs), sharing(es_table_get(t, 0, "ess"), keys),
             (long long)s->keys.rows, es_table_get(t, 0, "top_weight"), from);
    es_answer_add_finding(
        a, "A%s.%s", statement + 1,
        unit ? " All vectors count as equally long here; --scale takes the real scores." : "");
    caution_far(&p->n, (double)s->keys.rows, a);
    return put_run(&h, e, beta, found.says_frozen, statement, a);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const exponent_params *p = job->params;
    const exponent_state *s = job->state;
    es_exponent_pool pool;
    es_exponent pooled; /* all queries as one */
    const es_table_spec *const order[] = {&estimate_table, &freezing_table, &run_table,
                                          &scan_table}; /* as people read them */
    for (int i = 0; i < 4; i++)
        es_answer_table(answer, order[i]);
    ES_TRY(blame(job, estimate(job, p->k, &pool, &pooled, err), err));
    put_estimates(s, &pool, &pooled, answer);
    tell_exponent(answer, &pooled, &pool);
    ES_TRY(blame(job, put_scan(job, &pooled, es_answer_table(answer, &scan_table), err), err));
    return sum_up_head(job, &pooled, answer, err);
}

static const char *const examples[] = {
    "esscher exponent --keys K.npy --query q.npy",
    "esscher exponent --keys K.npy --query Q.npy --scale 0.125 --n 4096,131072,1048576",
    "esscher exponent --keys K.npy --beta 20 --json",
    "esscher exponent --keys K.npy --beta 20 --out exponent.run", NULL};

const es_study es_study_exponent = {
    "exponent",
    .summary = "how close keys come to a query, and at which beta one key takes the weight",
    .group = ES_GROUP_LAB,
    .usage = "--keys K.npy [--query Q.npy] [options]",
    .about =
        "Estimates the local exponent alpha of keys that you bring, from the nearest ones: the "
        "probability that a key has 1 - cosine below t is c t^alpha. And says at which inverse "
        "temperature beta attention over them stops averaging: it is averaging while 100 keys "
        "or more share the weight, single-key once fewer than 2 do (1/(mean sum w^2); from there "
        "on the nearest has more than half of it), and selective between; the cut-offs are a "
        "convention. For the keys at hand both inverse temperatures are solved on attention over "
        "them, for other n on its exact expectation for keys with this alpha and c (proved for "
        "keys uniform on a sphere, a model of others). With --beta also what the head does there "
        "if all vectors are equally long; with --scale what it does as it runs: scores are those "
        "of the vectors with their lengths, and these keys are measured with them throughout. "
        "Positions and the order of a text are no part of this: for a head of a decoder in its "
        "text see probe.",
    .examples = examples,
    .params = params,
    .size = sizeof(exponent_params),
    .takes = ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "estimates",
    .state = sizeof(exponent_state),
    .open = open_study,
    .summarise = summarise};
