/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how much attention a sink takes from n keys.
 *
 * n keys have scores q g_i, g_i standard normal; one more key, the sink, has score s whatever the
 * query. Its weight is w = e^s / (e^s + Z), Z = sum e^{q g_i}. With Z at its mean n e^{q^2/2} it is
 * one half at s = ln n + q^2/2: the absorbing threshold of THEORY 9. Z is at its mean only while
 * q^2 << 2 ln n: wider scores have a typical Z far below it, and a sink takes more than that form
 * says. Exactly (THEORY 4.2, with one deterministic extra token): 1/(c + Z) = int e^{-l(c+Z)} dl
 * turns the mean of the ratio into one integral over powers of a single-key average.
 *
 * If the keys' values are the keys, the output along the query is sum w_i g_i, whose limit for
 * n -> infinity without a sink is q. By Gaussian integration by parts (THEORY 4.2, I1) its mean is
 * q (1 - W - P): short by the sink's weight W and by the expected sum of squared weights P. */
#include <math.h>

#include <esscher/random.h>

#include "base/error.h"
#include "driver/job.h"
#include "experiments/kit/answer_kit.h"
#include "random/experiment.h"
#include "stats/average.h"
#include "theory/theory.h"

/* The options. */
typedef struct sink_params {
    es_grid n, spread, offset;
    int64_t replicates;
} sink_params;

static const es_param params[] = {
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "keys beside the sink", .field = offsetof(sink_params, n),
     .default_value = "100,10000", .unit = "tokens", .min = 1, .max = 1e7, .increasing = true},
    {"spread", 0, ES_PARAM_REALS, "GRID", "standard deviations q of the keys' scores",
     .field = offsetof(sink_params, spread), .default_value = "0.5,2,4", .unit = "nats", .min = 0.0,
     .max = 30.0, .increasing = true},
    {"offset", 0, ES_PARAM_REALS, "GRID",
     "scores of the sink, counted from the threshold ln n + q^2/2",
     .field = offsetof(sink_params, offset), .default_value = "-8,-4,-2,0,2", .unit = "nats",
     .min = -300.0, .max = 300.0, .increasing = true},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent sets of keys",
     .field = offsetof(sink_params, replicates), .default_value = "400", .min = 2, .max = 1e6},
    {0}};

/* ---- rows ---- */

/* One n, q and offset. */
typedef struct sink_row {
    double n, spread, offset, score;
    es_measured weight;
    double weight_exact, weight_leading, z;
    es_measured output;
    double output_exact;
} sink_row;

static const es_column columns[] = {
    ES_COL(sink_row, n, ES_FORMAT_COUNT, "n", "tokens"),
    ES_COL(sink_row, spread, ES_FORMAT_SHORT, "q", "nats",
           "standard deviation of the keys' scores"),
    ES_COL(sink_row, offset, ES_FORMAT_SHORT, "offset", "nats",
           "the sink's score minus the threshold `ln n + q^2/2`"),
    ES_COL(sink_row, score, ES_FORMAT_SHORT, "score", "nats", "score of the sink"),
    ES_COL(sink_row, weight, ES_FORMAT_REAL, "weight", "",
           "weight of the sink, mean over replicates"),
    ES_COL(sink_row, weight_exact, ES_FORMAT_REAL, "exact", "", "its expectation, by quadrature",
           .standing = ES_STANDING_PROVED),
    ES_COL(sink_row, weight_leading, ES_FORMAT_SHORT, "leading", "",
           "`1/(1 + e^-offset)`: the sum of the keys at its mean, for `q^2` far below `2 ln n`",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(sink_row, z, ES_FORMAT_SHORT, "z", "errors", "weight minus exact, in standard errors"),
    ES_COL(sink_row, output, ES_FORMAT_REAL, "output", "",
           "output along the query over its limit for many keys without a sink: `sum w_i g_i / q`, "
           "mean over replicates"),
    ES_COL(sink_row, output_exact, ES_FORMAT_REAL, "exact output", "",
           "its expectation, `1 - W - P`: weight of the sink, and expected sum of squared weights "
           "of the keys; q from 0.001 on",
           .standing = ES_STANDING_PROVED),
    {0}};
static const es_table_view views[] = {
    {"Weight of a sink among n keys", "n spread offset score weight weight_exact weight_leading z"},
    {"Output of the n keys beside a sink", "n spread offset output output_exact",
     .only_with_full = true},
    {0}};
static const es_table_spec rows_table = {"rows", columns, views, ES_ROW(sink_row),
                                         .keys = "n spread offset"};

/* A cell is one (n, q), with a record for each offset. */
typedef struct sink_cell {
    es_measured weight, output;
} sink_cell;

static const es_cell_field cell_fields[] = {
    ES_FIELD(sink_cell, weight), ES_FIELD(sink_cell, output), {0}};

/* Returns the sink's score, at `offset` from the threshold ln n + q^2/2. */
static double score_of(double n, double q, double offset) { return log(n) + 0.5 * q * q + offset; }

/* ---- measured ---- */

/* Writes ln Z of one set of n keys, and their mean sum w_i g_i without a sink. Scores are counted
 * from the largest there can be, 8.58 q (random.h), so that no term overflows however wide they
 * spread; what is lost below e^-700 is nothing in the sum. */
static es_status draw_keys(const es_address *first, int64_t n, double q, double *log_sum,
                           double *mean, es_error *err)
{
    enum { CHUNK = 1024 };
    double g[CHUNK], top = 8.6 * q, sum = 0.0, moment = 0.0;
    es_address at = *first;
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t count = n - done < CHUNK ? n - done : CHUNK;
        at.token = (uint64_t)done;
        ES_TRY(es_normal_rows(&at, count, 1, g, err));
        for (int64_t i = 0; i < count; i++) {
            const double e = exp(q * g[i] - top);
            sum += e;
            moment += e * g[i];
        }
    }
    *log_sum = top + log(sum);
    *mean = moment / sum;
    return ES_OK;
}

/* Measures weights and outputs at all offsets for one (n, q), from the same keys. The output is NaN
 * where q is 0, as is its limit. */
static es_status run_pair(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const sink_params *p = job->params;
    const int64_t n = p->n.counts[cell / p->spread.count], R = p->replicates;
    const double q = p->spread.reals[cell % p->spread.count];
    sink_cell *found = out;
    es_arena arena = {.budget = exec->budget};
    double *numbers;
    es_status status = ES_ARENA_NEW(&arena, numbers, 4 * R, "weights and outputs", err);
    double *const sums = numbers, *const means = sums + R, *const w = means + R, *const y = w + R;
    for (int64_t r = 0; r < R && status == ES_OK; r++) {
        const es_address at = {
            .seed = job->seed, .experiment = ES_EXPERIMENT_SINK, .cell = (uint64_t)(cell * R + r)};
        status = draw_keys(&at, n, q, &sums[r], &means[r], err);
    }
    for (int64_t k = 0; k < p->offset.count && status == ES_OK; k++) {
        for (int64_t r = 0; r < R; r++) {
            w[r] = 1.0 / (1.0 + exp(sums[r] - score_of((double)n, q, p->offset.reals[k])));
            y[r] = (1.0 - w[r]) * means[r] / q;
        }
        found[k] = (sink_cell){es_average_column(w, R, 1), es_average_column(y, R, 1)};
    }
    es_arena_free(&arena);
    return status;
}

/* ---- exact ---- */

/* 1 - E exp(-e^{q g - l}), g standard normal: no cancellation where it is small. Trapezoid; the
 * integrand is smooth on the scale 1/q. */
static double one_less_phi(double q, double l)
{
    const double step = fmin(0.04, 0.25 / fmax(q, 1e-3)), end = 9.0 + q;
    double sum = 0.0;
    for (double g = -9.0; g <= end; g += step)
        sum += exp(-0.5 * g * g) * -expm1(-exp(fmin(q * g - l, 700.0)));
    return fmin(1.0, sum * step * 0.3989422804014327);
}

/* E w = int e^{s-l} exp(-e^{s-l}) phi(l)^n dl: doubly exponential decay to the left of s, e^{s-l}
 * to the right, so that [s-4, s+40] and the trapezoid hold 1e-12. */
static double exact_weight(double n, double q, double s)
{
    const double step = 0.05;
    double sum = 0.0;
    for (double x = -4.0; x <= 40.0; x += step)
        sum += exp(-x - exp(-x) + n * log1p(-one_less_phi(q, s + x)));
    return sum * step;
}

/* Returns the expected output over its limit, 1 - W - P (THEORY 4.2); NaN where it is not
 * computed. */
static double exact_output(double n, double q, double s)
{
    es_rem_extra r;
    if (es_rem_extra_at(n, q, &s, 1, NULL, &r, NULL) != ES_OK)
        return (double)NAN;
    return 1.0 - r.weight - r.participation;
}

/* ---- the study ---- */

/* Adds the stage: a cell draws keys for one pair (n, q) and all offsets. */
static es_status open_study(es_job *job, es_error *err)
{
    const sink_params *p = job->params;
    double keys = 0.0;
    for (int64_t i = 0; i < p->n.count; i++)
        keys += p->n.reals[i] / (double)p->n.count;
    return es_job_stage(job,
                        &(es_stage){.name = "pairs",
                                    .phase = "drawing keys",
                                    .noun = "pairs (n, q)",
                                    .cells = p->n.count * p->spread.count,
                                    .rows = p->offset.count,
                                    ES_RECORD(sink_cell, cell_fields),
                                    .one_thread_per_cell = true,
                                    .flops = 60.0 * keys * (double)p->replicates,
                                    .run = run_pair},
                        err);
}

/* Returns the cost: keys of all pairs, and an integral for each exact weight. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const sink_params *p = job->params;
    const double rows = (double)(p->n.count * p->spread.count * p->offset.count);
    (void)err;
    *out = (es_cost){.flops = (double)job->stages[0].cells * job->stages[0].flops + 2e7 * rows,
                     .output_bytes = 256.0 * rows,
                     .work_bytes = 16384.0,
                     .thread_bytes = 16384.0 + 32.0 * (double)p->replicates};
    return ES_OK;
}

/* ---- findings ---- */

/* Adds the finding what a sink at the threshold takes, and when one half is right. */
static void report_threshold(es_answer *answer, const sink_row *r)
{
    char weight[ES_SAY_SIZE];
    es_answer_add_finding(answer,
                          "A sink with a score of ln n + q^2/2 = %.3g nats takes %s of the "
                          "weight among %.0f keys (exactly %.3g). The rule of thumb is one half; "
                          "it holds only if the variance q^2 of the keys' scores, here %.3g, is "
                          "far below 2 ln n = %.3g.",
                          r->score, es_say_number(r->weight.value, r->weight.se, weight), r->n,
                          r->weight_exact, r->spread * r->spread, 2.0 * log(r->n));
}

/* Fills the rows and adds the finding about the threshold. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sink_params *p = job->params;
    const int64_t pairs = p->n.count * p->spread.count;
    es_table *t = es_answer_table(answer, &rows_table);
    for (int64_t i = 0; i < pairs * p->offset.count; i++) {
        const int64_t pair = i / p->offset.count, k = i % p->offset.count;
        const sink_cell *found = es_job_cell(job, 0, pair);
        sink_row *r = es_rows_add(t, sink_row);
        if (!r)
            return es_answer_status(answer, err);
        r->n = p->n.reals[pair / p->spread.count];
        r->spread = p->spread.reals[pair % p->spread.count];
        r->offset = p->offset.reals[k];
        r->score = score_of(r->n, r->spread, r->offset);
        r->weight = found[k].weight;
        r->weight_exact = exact_weight(r->n, r->spread, r->score);
        r->weight_leading = 1.0 / (1.0 + exp(-r->offset));
        r->output = found[k].output;
        r->output_exact = exact_output(r->n, r->spread, r->score);
        r->z = (r->weight.value - r->weight_exact) / r->weight.se;
        if (r->offset == 0.0 && pair + 1 == pairs)
            report_threshold(answer, r);
    }
    return ES_OK;
}

static const char *const examples[] = {"esscher sink", "esscher sink --n 1e3..1e6*4 --spread 1,3",
                                       "esscher sink --offset -6,-3,0 --json", NULL};

const es_study es_study_sink = {
    .name = "sink",
    .summary = "how much attention a sink token absorbs",
    .group = ES_GROUP_LAB,
    .usage = "[options]",
    .about = "A sink is a key whose score does not depend on the query, such as the first token of "
             "many models. It competes with n keys of random scores. Measures its attention "
             "weight, and compares it with the exact expectation [proved] and with a leading form "
             "[heuristic]: the sink takes half of the attention at a score of ln n + q^2/2 nats, "
             "where q is the standard deviation of the keys' scores. If q^2 is near 2 ln n or "
             "above, it takes more. --full, CSV and JSON also have what is left of the output over "
             "the keys.",
    .examples = examples,
    .params = params,
    .size = sizeof(sink_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .open = open_study,
    .cost = cost,
    .summarise = summarise,
};
