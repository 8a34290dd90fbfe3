/* synthetic.c : Gaussian tokens through layers x + V Gamma(x) of n tokens, without and with a
 * norm: horizons, covariances and rates layer by layer (THEORY 9, 15).
 *
 * A cell is a stack, a number of tokens and a replicate. Limits are made before the first cell:
 * closed without a norm; with one, sets of tokens that every process draws for itself. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/depth/question.h"
#include "experiments/kit/answer_kit.h"
#include "head/head.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "stats/fit.h"

enum { MATRICES = ES_EXPERIMENT_DEPTH + 5 }; /* cell: 3 layer + 0, 1, 2: Wq, Wk, Wv */
enum { SETS = 4 };                           /* that stand for a limit */
enum { BOTH = 2 };                           /* of --norm */

static const char *const cell_columns[] = {"error2",  "limit_error2", "spread2",
                                           "horizon", "agreement",    "cov_error"};
enum { CELL_NUMBERS = sizeof cell_columns / sizeof cell_columns[0] };
_Static_assert(sizeof(es_stack_state) == CELL_NUMBERS * sizeof(double), "a state is its numbers");

/* ---- matrices ---- */

/* The covariance of tokens before the first layer: I, or that of the uniform law on the sphere of
 * radius sqrt(d) in the d - 1 dimensions orthogonal to (1, ..., 1), where a norm puts Gaussian
 * tokens. */
static void first_covariance(es_stack_norm norm, int64_t d, double *S)
{
    const double scale = norm == ES_STACK_NONE ? 1.0 : (double)d / (double)(d - 1);
    const double mean = norm == ES_STACK_NONE ? 0.0 : scale / (double)d;
    for (int64_t i = 0; i < d * d; i++)
        S[i] = (i / d == i % d ? scale : 0.0) - mean;
}

/* A and V of a head of this kind, times what makes the horizon over S and the norm of V as asked.
 */
static es_status draw_layer(es_job *job, int64_t layer, const double *S, double asked, double *A,
                            double *V, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t d = p->dim;
    const es_address at = {
        .seed = job->seed, .experiment = MATRICES, .cell = (uint64_t)(3 * layer)};
    const es_view view = es_view_f64(V, d, d);
    es_head_data drawn = {0};
    double horizon;
    es_num norm;
    es_status status = es_head_draw((es_head_kind)p->head, &at, d, job->exec.budget, &drawn, err);
    if (status == ES_OK)
        status = es_head_write(&drawn.head, d, A, V, err);
    es_head_data_free(&drawn);
    ES_TRY(status);
    ES_TRY(es_stack_horizon(S, A, d, job->exec.budget, &horizon, err));
    ES_TRY(es_norm_spectral(&view, job->exec.budget, &norm, err));
    for (int64_t i = 0; i < d * d; i++) {
        A[i] *= asked / horizon;
        V[i] *= p->value / norm.val;
    }
    return ES_OK;
}

static es_status make_stack(es_job *job, es_stack_norm norm, double asked, depth_stack *out,
                            es_error *err)
{
    const depth_params *p = job->params;
    const int64_t d = p->dim, size = d * d;
    double *S;
    ES_TRY(ES_JOB_NEW(job, S, size, err));
    ES_TRY(ES_JOB_NEW_2D(job, out->A, p->depth, size, err));
    ES_TRY(ES_JOB_NEW_2D(job, out->V, p->depth, size, err));
    ES_TRY(ES_JOB_NEW(job, out->horizon, p->depth + 1, err));
    first_covariance(norm, d, S);
    for (int64_t layer = 0; layer < p->depth; layer++) {
        ES_TRY(draw_layer(job, p->fresh ? layer : 0, S, asked, out->A + layer * size,
                          out->V + layer * size, err));
    }
    out->asked = asked;
    out->stack = (es_stack){.dim = d,
                            .depth = p->depth,
                            .A = out->A,
                            .V = out->V,
                            .norm = norm,
                            .precision = job->precision,
                            .seed = job->seed};
    return ES_OK;
}

/* ---- cells ---- */

static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    double *out = record;
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const int64_t stack = cell / (p->n.count * p->replicates),
                  of = cell % (p->n.count * p->replicates);
    const depth_stack *t = &s->stacks[stack];
    return es_stack_measure(&t->stack, t->limit, p->n.counts[of / p->replicates],
                            of % p->replicates, exec, (es_stack_state *)(void *)out, err);
}

/* Scores, weights and values of all pairs; a weight takes as long as 20 operations. */
static double pair_flops(const depth_params *p) { return 4.0 * (double)p->dim + 20.0; }

/* Of one replicate with n tokens; with a norm some queries meet the sets, too. */
static double measure_flops(const depth_params *p, es_stack_norm norm, double n)
{
    const double sets = norm == ES_STACK_NONE ? 0.0 : SETS * (double)p->reference;
    return (double)p->depth * pair_flops(p) * (n * n + ES_STACK_QUERIES * sets);
}

es_status depth_stack_open(es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    const int64_t kinds = p->norm == BOTH ? 2 : 1, H = p->horizon.count;
    double flops = 0.0;
    if (!job->precision_given)
        job->precision = ES_F64;
    ES_TRY(ES_JOB_NEW_2D(job, s->stacks, kinds, H, err));
    for (int64_t i = 0; i < kinds * H; i++) {
        const es_stack_norm norm = (es_stack_norm)(p->norm == BOTH ? i / H : p->norm);
        ES_TRY(make_stack(job, norm, p->horizon.reals[i % H], &s->stacks[i], err));
        s->n_stacks++;
        for (int64_t k = 0; k < p->n.count; k++)
            flops += measure_flops(p, norm, p->n.reals[k]) / (double)(kinds * H * p->n.count);
    }
    es_answer_count(job->answer, "dim", p->dim);
    es_answer_count(job->answer, "depth", p->depth);
    es_answer_real(job->answer, "value", p->value);
    return es_job_stage(job,
                        &(es_stage){.name = "stack",
                                    .phase = "running stacks",
                                    .noun = "stacks, sizes and replicates",
                                    .cells = s->n_stacks * p->n.count * p->replicates,
                                    .rows = p->depth + 1,
                                    .cols = CELL_NUMBERS,
                                    .columns = cell_columns,
                                    .one_thread_per_cell = true,
                                    .flops = flops,
                                    .run = run_cell},
                        err);
}

/* ---- limits ---- */

static double limit_flops(const depth_params *p, const depth_stack *t)
{
    const double N = (double)p->reference;
    return t->stack.norm == ES_STACK_NONE ? 0.0 : SETS * (double)p->depth * pair_flops(p) * N * N;
}

void depth_stack_cost(const es_job *job, es_cost *out)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const double most = p->n.reals[p->n.count - 1], d = (double)p->dim;
    double begin = 0.0, held = 0.0;
    for (int64_t i = 0; i < s->n_stacks; i++) {
        begin += limit_flops(p, &s->stacks[i]);
        if (s->stacks[i].stack.norm != ES_STACK_NONE)
            held += 8.0 * SETS * (double)((p->depth + 1) * p->reference) * d;
    }
    const double rows = (double)(s->n_stacks * (p->depth + 1));
    const double cells = (double)job->stages[0].cells;
    const double tokens = fmax(most, (double)p->reference);
    *out =
        (es_cost){.flops = cells * job->stages[0].flops + begin,
                  .begin_flops = begin,
                  .output_bytes = 512.0 * rows * (double)(p->n.count + 1),
                  .thread_bytes = 64.0 * tokens * d + 8e6,
                  .work_bytes = held + 8.0 * (double)p->depth * d * d * 4.0 * (double)s->n_stacks +
                                8.0 * (double)p->n.count * (double)(p->replicates + 16) + 65536.0};
}

/* Horizons that tokens of the limit meet: layer l's A over the covariance before it, and, after the
 * last layer, what its A would meet once more. NaN where the covariance is beyond all measure. */
static es_status limit_horizons(es_job *job, depth_stack *t, es_error *err)
{
    const int64_t d = t->stack.dim, depth = t->stack.depth;
    for (int64_t l = 0; l <= depth; l++) {
        const double *S = es_stack_limit_cov(t->limit, l);
        const double *A = t->A + (l < depth ? l : depth - 1) * d * d;
        bool sound = true;
        for (int64_t i = 0; i < d * d; i++)
            sound = sound && fabs(S[i]) < 1e100;
        t->horizon[l] = (double)NAN;
        if (sound)
            ES_TRY(es_stack_horizon(S, A, d, job->exec.budget, &t->horizon[l], err));
    }
    return ES_OK;
}

es_status depth_stack_begin(es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    es_exec exec = job->exec;
    double flops = 0.0;
    exec.progress = NULL;
    for (int64_t i = 0; i < s->n_stacks; i++)
        flops += limit_flops(p, &s->stacks[i]);
    es_job_phase(job, "drawing tokens that stand for infinitely many", flops);
    for (int64_t i = 0; i < s->n_stacks; i++) {
        depth_stack *t = &s->stacks[i];
        const int64_t sets = t->stack.norm == ES_STACK_NONE ? 0 : SETS;
        ES_TRY(es_stack_limit_new(&t->stack, sets, p->reference, &exec, &t->limit, err));
        ES_TRY(limit_horizons(job, t, err));
        ES_TRY(es_job_tick(job, i + 1, s->n_stacks));
    }
    return ES_OK;
}

/* ---- averages over replicates ---- */

static const es_stack_state *state_of(const es_job *job, int64_t stack, int64_t size,
                                      int64_t replicate, int64_t layer)
{
    const depth_params *p = job->params;
    const double *cell =
        es_job_numbers(job, 0, (stack * p->n.count + size) * p->replicates + replicate);
    return (const es_stack_state *)(const void *)cell + layer;
}

/* Errors at one layer for all replicates and sizes, their line, and what sets leave open. */
typedef struct layer_fit {
    double *errors;          /* (replicates, sizes) */
    es_fit_summary *summary; /* (sizes) */
    double *open;            /* (sizes) of the mean error: one standard deviation by the sets */
    unsigned *flags;         /* (sizes) */
    es_rate rate;
    bool good;
} layer_fit;

static es_status fit_new(es_job *job, layer_fit *f, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t P = p->n.count;
    ES_TRY(ES_JOB_NEW_2D(job, f->errors, p->replicates, P, err));
    ES_TRY(ES_JOB_NEW(job, f->summary, P, err));
    ES_TRY(ES_JOB_NEW(job, f->open, P, err));
    return ES_JOB_NEW(job, f->flags, P, err);
}

/* Products of the errors of two sets average out; were all tokens off in the same way, each of the
 * K(K-1)/2 pairs would leave as much as a set's error squared. So at most that, over the root of
 * their number, is open in the square of the error. */
static double left_open(double error, double limit_error2)
{
    const double pairs = 0.5 * SETS * (SETS - 1);
    return error > 0.0 ? fmax(limit_error2, 0.0) / sqrt(pairs) / (2.0 * error) : 0.0;
}

static es_status fit_layer(es_job *job, int64_t stack, int64_t layer, layer_fit *f, es_error *err)
{
    const depth_params *p = job->params;
    const int64_t P = p->n.count, R = p->replicates;
    es_error why;
    for (int64_t k = 0; k < P; k++) {
        double theirs = 0.0, mean = 0.0;
        for (int64_t r = 0; r < R; r++) {
            const es_stack_state *x = state_of(job, stack, k, r, layer);
            f->errors[r * P + k] = sqrt(isnan(x->error2) ? x->error2 : fmax(x->error2, 0.0));
            mean += f->errors[r * P + k] / (double)R;
            theirs += x->limit_error2 / (double)R;
        }
        f->open[k] = left_open(mean, theirs);
        f->flags[k] = es_fit_flags_of(mean, 0.0, f->open[k]);
    }
    const es_status status =
        es_fit_replicates(f->errors, R, P, p->n.reals, f->flags,
                          &(es_rate_opts){.budget = job->exec.budget}, f->summary, &f->rate, &why);
    f->good = status == ES_OK;
    if (status == ES_E_MEMORY || status == ES_E_LIMIT || status == ES_E_INTERRUPTED) {
        *err = why;
        return status;
    }
    return ES_OK;
}

/* ---- tables ---- */

static const char *const norm_names[] = {"none", "layer"};

static const es_column growth_columns[] = {
    {"norm", "norm", "", ES_FORMAT_TEXT},
    {"start", "H at first", "", ES_FORMAT_SHORT, "horizon before the first layer"},
    {"layer", "layers", "", ES_FORMAT_COUNT, "that tokens have been through"},
    {"horizon", "H measured", "", ES_FORMAT_REAL,
     "|C^1/2 A C^1/2|, C the covariance of the largest number of tokens, A of the next layer",
     .error = "horizon_se"},
    {"horizon_exact", "exact", "", ES_FORMAT_REAL,
     "of infinitely many tokens without a norm, by S' = (I + V S A) S (I + V S A)'",
     .standing = ES_STANDING_PROVED},
    {"horizon_sets", "of the sets", "", ES_FORMAT_REAL,
     "with a norm: of the sets of tokens that stand for the limit"},
    {"agreement", "C on S", "", ES_FORMAT_REAL,
     "<C, S>/<S, S>, S the covariance of the limit: 1 if they agree on average",
     .error = "agreement_se"},
    {"rate", "rate", "", ES_FORMAT_REAL, "of the error of tokens: it falls like n^-rate",
     .error = "rate_se"},
    {"rate_ci.0", "rate from", "", ES_FORMAT_REAL, "95 % interval, Student's t over replicates"},
    {"rate_ci.1", "rate to", "", ES_FORMAT_REAL},
    {"power_p", "power law p", "", ES_FORMAT_SHORT,
     "probability of errors that bend more, were they a power law"},
    {0}};
static const es_table_view growth_views[] = {
    {"Horizon and rate by layer",
     "norm start layer horizon horizon_exact horizon_sets rate rate_ci.0 rate_ci.1 agreement"},
    {0}};
static const es_table_spec growth_table = {"growth", growth_columns, growth_views,
                                           .keys = "norm start layer"};

static const es_column stack_columns[] = {
    {"norm", "norm", "", ES_FORMAT_TEXT},
    {"start", "H at first", "", ES_FORMAT_SHORT, "horizon before the first layer"},
    {"layer", "layers", "", ES_FORMAT_COUNT, "that tokens have been through"},
    {"n", "n", "tokens", ES_FORMAT_COUNT},
    {"error", "error", "", ES_FORMAT_REAL,
     "root mean square distance of tokens from where the limit takes them, mean over replicates",
     .error = "error_se"},
    {"open", "left open", "", ES_FORMAT_SHORT,
     "by the sets that stand for the limit, one standard deviation at most"},
    {"spread", "spread", "", ES_FORMAT_SHORT, "root of the trace of the tokens' covariance"},
    {"cov_error", "covariance off by", "", ES_FORMAT_SHORT,
     "|C - S|/|S|, Frobenius, mean over replicates"},
    {"used", "used", "", ES_FORMAT_FLAG, "for the rate"},
    {0}};
static const es_table_spec stack_table = {"stack", stack_columns,
                                          ES_VIEW("Error by layer and n", .only_with_full = true),
                                          .keys = "norm start layer n"};

/* Mean over replicates of one number of a layer. */
static es_measured mean_of(const es_job *job, int64_t stack, int64_t size, int64_t layer,
                           int64_t number)
{
    const depth_params *p = job->params;
    const double *first = (const double *)(const void *)state_of(job, stack, size, 0, layer);
    return es_average_column(first + number, p->replicates, (p->depth + 1) * CELL_NUMBERS);
}

enum { SPREAD2 = 2, HORIZON = 3, AGREEMENT = 4, COV_ERROR = 5 }; /* in a cell */

static void put_head(const depth_stack *t, int64_t layer, es_table *table, int64_t row)
{
    es_table_text(table, row, "norm", norm_names[t->stack.norm]);
    es_table_real(table, row, "start", t->asked);
    es_table_count(table, row, "layer", layer);
}

static void put_growth(const es_job *job, int64_t stack, int64_t layer, const layer_fit *f,
                       es_table *t)
{
    const depth_params *p = job->params;
    const depth_stack *of = &((const depth_state *)job->state)->stacks[stack];
    const es_measured H = mean_of(job, stack, p->n.count - 1, layer, HORIZON);
    const es_measured C = mean_of(job, stack, p->n.count - 1, layer, AGREEMENT);
    const int64_t row = es_table_row(t);
    put_head(of, layer, t, row);
    es_put(t, row, {"horizon", H.value}, {"horizon_se", H.se}, {"agreement", C.value},
           {"agreement_se", C.se});
    es_table_real(t, row, of->stack.norm == ES_STACK_NONE ? "horizon_exact" : "horizon_sets",
                  of->horizon[layer]);
    if (layer && f->good)
        es_put(t, row, {"rate", f->rate.mean.rate}, {"rate_se", f->rate.se},
               {"rate_ci.0", f->rate.low}, {"rate_ci.1", f->rate.high},
               {"power_p", f->rate.power_p});
}

static void put_sizes(const es_job *job, int64_t stack, int64_t layer, const layer_fit *f,
                      es_table *t)
{
    const depth_params *p = job->params;
    const depth_stack *of = &((const depth_state *)job->state)->stacks[stack];
    for (int64_t k = 0; k < p->n.count; k++) {
        const int64_t row = es_table_row(t);
        put_head(of, layer, t, row);
        es_table_count(t, row, "n", p->n.counts[k]);
        es_put(t, row, {"error", f->summary[k].mean}, {"error_se", f->summary[k].se},
               {"open", f->open[k]}, {"spread", sqrt(mean_of(job, stack, k, layer, SPREAD2).value)},
               {"cov_error", mean_of(job, stack, k, layer, COV_ERROR).value},
               {"used", !f->flags[k]});
    }
}

/* ---- findings ---- */

/* What became of one stack: horizons before the first layer and after the last whose limit is
 * known, and rates of the first and of that. */
static void tell_stack(const es_job *job, int64_t stack, const double *rates, const double *se,
                       es_answer *a)
{
    const depth_params *p = job->params;
    const depth_stack *t = &((const depth_state *)job->state)->stacks[stack];
    int64_t last = p->depth;
    char first_rate[ES_SAY_ROOM], last_rate[ES_SAY_ROOM], measured[ES_SAY_ROOM];
    while (last > 1 && !isfinite(mean_of(job, stack, p->n.count - 1, last, HORIZON).value))
        last--;
    const es_measured H = mean_of(job, stack, p->n.count - 1, last, HORIZON);
    es_answer_add_finding(
        a,
        "%s: the horizon goes from %.3g to %.3g in %lld layers (with %lld tokens: %s); "
        "errors fall like %s after the first layer, like %s after layer %lld.",
        t->stack.norm == ES_STACK_NONE ? "Without a norm" : "With layer norm", t->horizon[0],
        t->horizon[last], (long long)last, (long long)p->n.counts[p->n.count - 1],
        es_say_number(H.value, H.se, measured), es_say_power(rates[1], se[1], first_rate),
        es_say_power(rates[last], se[last], last_rate), (long long)last);
}

static double largest_horizon(const depth_stack *t)
{
    double most = 0.0;
    for (int64_t l = 0; l <= t->stack.depth; l++)
        most = isfinite(t->horizon[l]) ? fmax(most, t->horizon[l]) : (double)INFINITY;
    return most;
}

/* What the norm does to the growth, where there is one without: a twentieth more is none. */
static const char *what_norm_does(const depth_stack *none, const depth_stack *layer)
{
    const double with = largest_horizon(layer), without = largest_horizon(none), none_yet = 1.05;
    if (with <= none_yet * layer->horizon[0])
        return without <= none_yet * none->horizon[0] ? "has nothing to stop in" : "stops";
    if (!isfinite(without))
        return "bounds";
    return with < without ? "slows" : "does not slow";
}

/* Does the norm stop the growth? For the largest horizon asked for. Its tokens have |x|^2 = d, so
 * |S| <= tr S <= d, where it was d/(d-1) at first: H grows d - 1 times at most. */
static void tell_norm(const es_job *job, es_answer *a)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    if (p->norm != BOTH)
        return;
    const depth_stack *none = &s->stacks[p->horizon.count - 1];
    const depth_stack *layer = &s->stacks[s->n_stacks - 1];
    const double with = largest_horizon(layer), without = largest_horizon(none);
    char other[ES_SAY_ROOM] = "beyond all measure";
    if (isfinite(without))
        snprintf(other, sizeof other, "up to %.3g", without);
    es_answer_add_finding(
        a,
        "Layer norm %s the growth of the horizon here: in %lld layers it goes from %.3g "
        "up to %.3g with it and from %.3g %s without. With it tokens keep their length, "
        "and the horizon can never be more than d - 1 = %lld times what it was [proved].",
        what_norm_does(none, layer), (long long)p->depth, layer->horizon[0], with, none->horizon[0],
        other, (long long)p->dim - 1);
}

/* ---- all of it ---- */

es_status depth_stack_answer(es_job *job, es_answer *answer, es_error *err)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    es_table *growth = es_answer_table(answer, &growth_table);
    es_table *sizes = es_answer_table(answer, &stack_table);
    layer_fit fit;
    double *rates, *se;
    ES_TRY(fit_new(job, &fit, err));
    ES_TRY(ES_JOB_NEW(job, rates, p->depth + 1, err));
    ES_TRY(ES_JOB_NEW(job, se, p->depth + 1, err));
    tell_norm(job, answer);
    for (int64_t i = 0; i < s->n_stacks; i++) {
        for (int64_t l = 0; l <= p->depth; l++) {
            ES_TRY(fit_layer(job, i, l, &fit, err));
            rates[l] = fit.good ? fit.rate.mean.rate : (double)NAN;
            se[l] = fit.good ? fit.rate.se : (double)NAN;
            put_growth(job, i, l, &fit, growth);
            if (l)
                put_sizes(job, i, l, &fit, sizes);
        }
        tell_stack(job, i, rates, se, answer);
    }
    return ES_OK;
}
