/* model.c : a model whose heads keep some of their keys, layer by layer, beside the linear
 * prediction (THEORY 15).
 *
 * A cell is a block of text and a policy. Its numbers are means over the block's tokens; blocks are
 * averaged, made relative to the spread of hidden states, and left out in turn for standard errors:
 * whatever a number is a function of, the jackknife knows its error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/depth/question.h"
#include "experiments/kit/answer_kit.h"
#include "model/model.h"
#include "stats/multiple.h"
#include "text/text_even.h"

static const char *const cell_columns[] = {"spread2", "error2", "own2", "gain2", "along2",
                                           "far2",    "fresh2", "kept", "empty"};
enum { CELL_NUMBERS = sizeof cell_columns / sizeof cell_columns[0] };
_Static_assert(sizeof(es_depth_state) == CELL_NUMBERS * sizeof(double), "a state is its numbers");

/* What is said of a layer of a policy. */
enum {
    ERROR,     /* e, of its output, in spreads */
    ABSOLUTE,  /* the same, root mean square */
    SPREAD,    /* of its output, root mean square */
    OWN,       /* s, in spreads */
    GAIN,      /* g: change of the output over change of the input, each in its spreads */
    ALONG,     /* of the error itself, made small */
    FAR,       /* of the error as it is */
    PREDICTED, /* e by the recursion from the first layer on */
    STEP,      /* e from the measured error of its input */
    RATIO,     /* PREDICTED / ERROR */
    FRESH,     /* what the layer adds to the sparse model's state, in spreads */
    TOGETHER,  /* correlation of that with what became of the error that came */
    KEPT,
    EMPTY,
    NUMBERS
};

/* ---- cells ---- */

static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    double *out = record;
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const int64_t number = cell / s->policies.count, block = s->chosen[number];
    const int64_t first = s->text.start[block], n = s->text.start[block + 1] - first;
    const es_depth_spec spec = {.model = s->model,
                                .policy = &s->policies.specs[cell % s->policies.count],
                                .layer = p->layer,
                                .directions = p->directions,
                                .seed = job->seed};
    return es_depth_block(&spec, s->text.ids + first, n, number, exec,
                          (es_depth_state *)(void *)out, err);
}

/* Full blocks, evenly from all of the text: its beginning is not like the rest of it. */
static es_status choose_blocks(es_job *job, int64_t length, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    int64_t *whole, count = 0;
    ES_TRY(ES_JOB_NEW(job, whole, s->text.count, err));
    for (int64_t b = 0; b < s->text.count; b++)
        if (s->text.start[b + 1] - s->text.start[b] == length)
            whole[count++] = b;
    if (!count)
        return es_refuse(err, "depth.text", "bring more text, or a smaller --length",
                         "the text has no piece of %lld tokens", (long long)length);
    s->blocks = count < p->blocks ? count : p->blocks;
    ES_TRY(ES_JOB_NEW(job, s->chosen, s->blocks, err));
    for (int64_t b = 0; b < s->blocks; b++)
        s->chosen[b] = whole[es_even_block(b, s->blocks, count)];
    return ES_OK;
}

static es_status read_text(es_job *job, es_error *err)
{
    depth_params *p = job->params;
    depth_state *s = job->state;
    const es_model_config *c = es_model_config_of(s->model);
    if (!p->length)
        p->length = c->positions;
    if (p->length > c->positions)
        return es_refuse(err, "depth.length", "leave --length out",
                         "pieces of %lld tokens; the model has %lld positions",
                         (long long)p->length, (long long)c->positions);
    ES_TRY(es_tokenizer_open(es_model_folder(s->model), job->exec.budget, &s->tokenizer, err));
    ES_TRY(es_model_check_tokenizer(c, es_model_folder(s->model), s->tokenizer, err));
    const es_blocks_spec spec = {.tokenizer = s->tokenizer,
                                 .texts = p->texts.at,
                                 .n_texts = p->texts.count,
                                 .length = p->length,
                                 .vocab = c->vocab,
                                 .invalid = (es_text_invalid)p->invalid,
                                 .progress = job->exec.progress,
                                 .progress_user = job->exec.progress_user};
    ES_TRY(es_blocks_read(&spec, job->exec.budget, &s->text, err));
    return choose_blocks(job, p->length, err);
}

es_status depth_model_open(es_job *job, es_error *err)
{
    depth_params *p = job->params;
    depth_state *s = job->state;
    const es_model_opts opts = {.budget = job->exec.budget, .precision = job->precision};
    if (!p->model || !p->texts.count)
        return es_refuse(err, "depth.options", "--model MODEL --text FILE, or --synthetic",
                         "missing --%s", p->model ? "text" : "model");
    ES_TRY(es_job_model(job, p->model, &opts, &s->model, err));
    const es_model_config *c = es_model_config_of(s->model);
    if (!es_params_given(job->given, "layer"))
        p->layer = -1;
    if (p->layer >= c->layers)
        return es_refuse(err, "depth.layer", "layers count from 0", "layer %lld of %lld",
                         (long long)p->layer, (long long)c->layers);
    ES_TRY(read_text(job, err));
    ES_TRY(es_policies_make(job, &p->policy, false, p->length, &s->policies, err));
    es_answer_text(job->answer, "model", es_model_folder(s->model));
    es_answer_count(job->answer, "blocks", s->blocks);
    es_answer_count(job->answer, "length", p->length);
    if (p->layer >= 0)
        es_answer_count(job->answer, "layer", p->layer);
    return es_job_stage(job,
                        &(es_stage){.name = "block",
                                    .phase = "running the model",
                                    .noun = "blocks and policies",
                                    .cells = s->blocks * s->policies.count,
                                    .rows = c->layers + 1,
                                    .cols = CELL_NUMBERS,
                                    .columns = cell_columns,
                                    .one_thread_per_cell = true,
                                    .flops = es_depth_flops(s->model, p->length, p->directions),
                                    .run = run_cell},
                        err);
}

/* Model, tokenizer and ids are there already, and counted. */
void depth_model_cost(const es_job *job, es_cost *out)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const double rows = (double)(job->stages[0].rows * s->policies.count);
    const double cells = (double)job->stages[0].cells, blocks = (double)s->blocks;
    const double block = es_depth_bytes(s->model, p->length, p->policy.span);
    double drawn = 0.0;
    for (int64_t i = 0; i < s->policies.count; i++)
        drawn = fmax(drawn, es_policy_draw_bytes(&s->policies.specs[i]));
    *out = (es_cost){.flops = cells * job->stages[0].flops,
                     .output_bytes = 1024.0 * rows,
                     .work_bytes = 8.0 * rows * blocks * NUMBERS + 8.0 * blocks * 4.0 + 65536.0,
                     .thread_bytes = block + drawn};
}

/* ---- averages over blocks ---- */

typedef struct layer_row {
    double value[NUMBERS], se[NUMBERS];
} layer_row;

static const es_depth_state *state_of(const es_job *job, int64_t block, int64_t policy,
                                      int64_t layer)
{
    const depth_state *s = job->state;
    const double *cell = es_job_numbers(job, 0, block * s->policies.count + policy);
    return (const es_depth_state *)(const void *)cell + layer;
}

/* Sums over blocks, but for one, of what layer `layer` says. Gains are weighted by the errors they
 * are applied to, so that their product is the sum of what blocks would predict. */
typedef struct sums {
    double spread_in, spread, error_in, error, own, gain, along, far, fresh, kept, empty;
    double blocks;
} sums;

static sums sum_blocks(const es_job *job, int64_t policy, int64_t layer, int64_t skip)
{
    const depth_state *s = job->state;
    sums t = {0};
    for (int64_t b = 0; b < s->blocks; b++) {
        if (b == skip)
            continue;
        const es_depth_state *in = state_of(job, b, policy, layer), *out = in + 1;
        const bool moved = in->error2 > 0.0;
        t.blocks += 1.0;
        t.spread_in += in->spread2;
        t.spread += out->spread2;
        t.error_in += in->error2;
        t.error += out->error2;
        t.own += out->own2;
        t.gain += moved ? out->gain2 * in->error2 : 0.0;
        t.along += moved ? out->along2 * in->error2 : 0.0;
        t.far += moved ? out->far2 * in->error2 : 0.0;
        t.fresh += out->fresh2;
        t.kept += out->kept;
        t.empty += out->empty;
    }
    return t;
}

/* All layers of a policy, without block `skip` (-1: with all). In spreads the recursion of THEORY
 * 15 reads e'^2 = g^2 e^2 + s^2 with g^2 times the ratio of the spreads squared. */
static void average(const es_job *job, int64_t policy, int64_t skip, int64_t layers,
                    double (*out)[NUMBERS])
{
    double before = 0.0, predicted = 0.0; /* of the layer before, squared */
    for (int64_t l = 0; l < layers; l++) {
        const sums t = sum_blocks(job, policy, l, skip);
        double *v = out[l];
        const double unit = t.spread_in / t.spread; /* of squares of gains, in spreads */
        const double error = t.error / t.spread, own = t.own / t.spread;
        const double gain = t.error_in > 0.0 ? t.gain / t.error_in * unit : (double)NAN;
        predicted = (predicted > 0.0 ? gain * predicted : 0.0) + own;
        v[ERROR] = sqrt(error);
        v[ABSOLUTE] = sqrt(t.error / t.blocks);
        v[SPREAD] = sqrt(t.spread / t.blocks);
        v[OWN] = sqrt(own);
        v[GAIN] = sqrt(gain);
        v[ALONG] = sqrt(t.along / t.error_in * unit);
        v[FAR] = sqrt(t.far / t.error_in * unit);
        v[PREDICTED] = sqrt(predicted);
        v[STEP] = sqrt((before > 0.0 ? gain * before : 0.0) + own);
        v[RATIO] = error > 0.0 ? sqrt(predicted / error) : (double)NAN;
        v[FRESH] = sqrt(t.fresh / t.spread);
        v[TOGETHER] = (t.error - t.far - t.fresh) / (2.0 * sqrt(t.far * t.fresh));
        v[KEPT] = t.kept / t.blocks;
        v[EMPTY] = t.empty;
        before = error;
    }
}

/* Values, and the jackknife's standard errors over blocks: NaN of one. */
static es_status average_policy(es_job *job, int64_t policy, double *room, layer_row *rows,
                                es_error *err)
{
    const depth_state *s = job->state;
    const int64_t layers = job->stages[0].rows - 1, B = s->blocks;
    double(*all)[NUMBERS], (*without)[NUMBERS];
    ES_TRY(ES_JOB_NEW(job, all, layers, err));
    ES_TRY(ES_JOB_NEW(job, without, B * layers, err));
    average(job, policy, -1, layers, all);
    for (int64_t b = 0; b < B && B > 1; b++)
        average(job, policy, b, layers, without + b * layers);
    for (int64_t l = 0; l < layers; l++)
        for (int i = 0; i < NUMBERS; i++) {
            for (int64_t b = 0; b < B; b++)
                room[b] = without[b * layers + l][i];
            rows[l].value[i] = all[l][i];
            rows[l].se[i] = es_jackknife(all[l][i], room, B).se;
        }
    return ES_OK;
}

/* ---- tables ---- */

static const es_column row_columns[] = {
    {"layer", "layer", "", ES_FORMAT_COUNT, "from 0 on; errors are those of its output"},
    ES_POLICY_COLUMNS,
    {"error", "error", "spreads", ES_FORMAT_REAL,
     "root mean square distance of hidden states from the full model's, over that of the full "
     "model's from their mean in the block; of a decoder over the block's second half",
     .error = "error_se"},
    {"predicted", "predicted", "spreads", ES_FORMAT_REAL,
     "by the recursion error^2 = gain^2 error^2 + own^2 from the first layer on",
     .error = "predicted_se", .standing = ES_STANDING_HEURISTIC},
    {"ratio", "predicted/error", "", ES_FORMAT_REAL, .error = "ratio_se"},
    {"gain", "gain", "", ES_FORMAT_REAL,
     "change of the layer's output over that of its input, each in spreads, for small noise on "
     "every token with the covariance of the measured error",
     .error = "gain_se"},
    {"own", "own", "spreads", ES_FORMAT_REAL,
     "error of the layer when it is given the full model's state, chance decided anew",
     .error = "own_se"},
    {"gain_along", "of the error, small", "", ES_FORMAT_REAL,
     "gain of the measured error itself, made small", .error = "gain_along_se"},
    {"gain_far", "of the error", "", ES_FORMAT_REAL, "gain of the measured error as it is",
     .error = "gain_far_se"},
    {"fresh", "added", "spreads", ES_FORMAT_REAL,
     "what the layer adds of its own to the state that it really gets", .error = "fresh_se"},
    {"correlation", "correlation", "", ES_FORMAT_SHORT,
     "of what the layer adds with what it makes of the error that came: error^2 = a^2 + added^2 + "
     "2 "
     "correlation a added, a the last layer's error times the gain of the error",
     .error = "correlation_se"},
    {"step", "from the last", "spreads", ES_FORMAT_REAL,
     "predicted from the measured error of the layer's input", .standing = ES_STANDING_HEURISTIC},
    {"absolute", "absolute", "", ES_FORMAT_REAL, "the error, not divided by the spread",
     .error = "absolute_se"},
    {"spread", "spread", "", ES_FORMAT_SHORT, "of the layer's output"},
    {"kept", "kept", "keys", ES_FORMAT_SHORT,
     "keys of a query, as often as they are drawn; mean over heads and all queries of a block"},
    {"empty", "empty", "queries", ES_FORMAT_COUNT,
     "queries for which chance kept no key, of all heads and blocks: they attend to themselves"},
    {0}};
static const es_table_view row_views[] = {
    {"Error by layer", "policy keys layer error predicted ratio gain own",
     "Errors are in spreads: 1 is as far as another token's state is from the mean."},
    {"Where linearity ends",
     "policy keys layer error gain gain_along gain_far own fresh correlation step absolute spread "
     "kept empty",
     .only_with_full = true},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views,
                                         .keys = "policy keys correction layer"};

static void put_layer(const es_policy_spec *spec, int64_t layer, const layer_row *r, es_table *t)
{
    const double *v = r->value, *se = r->se;
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "layer", layer);
    es_policy_put(spec, t, row);
    es_put(t, row, {"error", v[ERROR]}, {"error_se", se[ERROR]}, {"predicted", v[PREDICTED]},
           {"predicted_se", se[PREDICTED]}, {"ratio", v[RATIO]}, {"ratio_se", se[RATIO]},
           {"gain", v[GAIN]}, {"gain_se", se[GAIN]}, {"own", v[OWN]}, {"own_se", se[OWN]},
           {"gain_along", v[ALONG]}, {"gain_along_se", se[ALONG]}, {"gain_far", v[FAR]},
           {"gain_far_se", se[FAR]}, {"fresh", v[FRESH]}, {"fresh_se", se[FRESH]},
           {"correlation", v[TOGETHER]}, {"correlation_se", se[TOGETHER]}, {"step", v[STEP]},
           {"absolute", v[ABSOLUTE]}, {"absolute_se", se[ABSOLUTE]}, {"spread", v[SPREAD]},
           {"kept", v[KEPT]});
    es_table_count(t, row, "empty", (int64_t)v[EMPTY]);
}

/* ---- findings ---- */

#define FAILS    0.1  /* a prediction that is off by more than this, and by two standard errors */
#define ROUNDING 1e-5 /* spreads: an error below is f32's, and nothing is predicted of it */

static bool fails(const layer_row *r)
{
    const double off = fabs(r->value[RATIO] - 1.0), se = r->se[RATIO];
    return r->value[ERROR] > ROUNDING && off > FAILS && !(off < 2.0 * se);
}

/* Says how far the last state is off: of up to three policies each, of more the best and worst. */
static void tell_errors(const es_policies *policies, const layer_row *rows, int64_t layers,
                        es_answer *a)
{
    enum { ALL = 3 };
    const layer_row *last = rows + layers - 1;
    int64_t shown[ALL] = {0, 1, 2}, count = policies->count;
    char text[ALL * (ES_SAY_ROOM + ES_POLICY_ROOM + 16)] = "";
    if (count > ALL) {
        shown[0] = shown[1] = 0;
        for (int64_t i = 1; i < count; i++) {
            if (last[i * layers].value[ERROR] < last[shown[0] * layers].value[ERROR])
                shown[0] = i;
            if (last[i * layers].value[ERROR] > last[shown[1] * layers].value[ERROR])
                shown[1] = i;
        }
    }
    for (int64_t k = 0; k < (count > ALL ? 2 : count); k++) {
        const layer_row *r = &last[shown[k] * layers];
        const size_t used = strlen(text);
        char name[ES_POLICY_ROOM], error[ES_SAY_ROOM];
        snprintf(text + used, sizeof text - used, "%s%s%s (%s)",
                 k == 0        ? ""
                 : count > ALL ? " to "
                               : ", ",
                 es_say_number(r->value[ERROR], r->se[ERROR], error),
                 k == 0 ? " of its spread" : "", es_policy_say(&policies->specs[shown[k]], name));
    }
    es_answer_add_finding(a, "The last hidden state is off by %s.", text);
}

/* Says how often the recursion fails, and where it does first. */
static void tell_prediction(const es_policies *policies, const layer_row *rows, int64_t layers,
                            es_answer *a)
{
    const int64_t all = policies->count * layers;
    int64_t failing = 0, first = -1;
    char name[ES_POLICY_ROOM];
    for (int64_t i = 0; i < all; i++)
        if (fails(&rows[i])) {
            failing++;
            first = first < 0 ? i : first;
        }
    if (failing)
        es_answer_add_finding(
            a,
            "What gains and own errors of the layers predict is off by more than %.0f "
            "%% in %lld of %lld pairs of a layer and a policy, first in layer %lld (%s).",
            100.0 * FAILS, (long long)failing, (long long)all, (long long)(first % layers),
            es_policy_say(&policies->specs[first / layers], name));
    else
        es_answer_add_finding(
            a,
            "Gains and own errors of the layers predict every error within %.0f %% or "
            "two standard errors.",
            100.0 * FAILS);
}

/* ---- all of it ---- */

static void tell_setting(const es_job *job, es_answer *a)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const bool causal = es_model_config_of(s->model)->causal;
    char where[ES_SAY_ROOM] = "all layers";
    bool ideal = false;
    if (p->layer >= 0)
        snprintf(where, sizeof where, "layer %lld alone", (long long)p->layer);
    for (int64_t i = 0; i < s->policies.count; i++)
        ideal = ideal || !es_policy_rolls(&s->policies.specs[i]);
    es_answer_add_finding(
        a,
        "Keys are dropped in %s; %lld blocks of %lld tokens%s.%s What the model then "
        "answers: see loss and downstream.",
        where, (long long)s->blocks, (long long)p->length,
        causal ? ", errors over the second half of each, as in budget" : "",
        ideal ? " Ideal: keys are chosen anew for every query." : "");
}

es_status depth_model_answer(es_job *job, es_answer *answer, es_error *err)
{
    const depth_state *s = job->state;
    const int64_t layers = job->stages[0].rows - 1, policies = s->policies.count;
    es_table *t = es_answer_table(answer, &rows_table);
    layer_row *rows;
    double *room;
    ES_TRY(ES_JOB_NEW_2D(job, rows, policies, layers, err));
    ES_TRY(ES_JOB_NEW(job, room, s->blocks, err));
    for (int64_t i = 0; i < policies; i++) {
        const es_policy_spec *spec = &s->policies.specs[i];
        layer_row *own = rows + i * layers;
        ES_TRY(average_policy(job, i, room, own, err));
        for (int64_t l = 0; l < layers; l++)
            put_layer(spec, l, &own[l], t);
    }
    tell_errors(&s->policies, rows, layers, answer);
    tell_prediction(&s->policies, rows, layers, answer);
    tell_setting(job, answer);
    return ES_OK;
}
