/* SPDX-License-Identifier: Apache-2.0 */
/* model.c : a model whose heads keep some of their keys, layer by layer, beside the linear
 * prediction (THEORY 15).
 *
 * A cell is a block of text and a policy. Its numbers are means over the block's tokens; blocks are
 * averaged, made relative to the spread of hidden states, and left out in turn for standard errors:
 * the jackknife works for any function of the averages. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "experiments/depth/depth.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/default_size.h"
#include "model/model.h"
#include "stats/multiple.h"
#include "text/text_even.h"

/* What is computed for a layer of a policy, from all blocks or all but one. */
typedef struct layer_numbers {
    double error;       /* e, of its output, in spreads */
    double absolute;    /* the same, root mean square */
    double spread;      /* of its output, root mean square */
    double own;         /* s, in spreads */
    double gain;        /* g: change of the output over change of the input, each in its spreads */
    double gain_along;  /* of the error itself, made small */
    double gain_far;    /* of the error as it is */
    double predicted;   /* e by the recursion from the first layer on */
    double step;        /* e from the measured error of its input */
    double ratio;       /* predicted / error */
    double fresh;       /* what the layer adds to the sparse model's state, in spreads */
    double correlation; /* of that with what became of the error that came */
    double kept, empty;
} layer_numbers;

enum { NUMBERS = sizeof(layer_numbers) / sizeof(double) };

/* ---- cells ---- */

static const es_cell_field cell_fields[] = {
    ES_FIELD(es_depth_state, spread2), ES_FIELD(es_depth_state, error2),
    ES_FIELD(es_depth_state, own2),    ES_FIELD(es_depth_state, gain2),
    ES_FIELD(es_depth_state, along2),  ES_FIELD(es_depth_state, far2),
    ES_FIELD(es_depth_state, fresh2),  ES_FIELD(es_depth_state, kept),
    ES_FIELD(es_depth_state, empty),   {0}};

/* Runs one setting on one block of text. */
static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const int64_t number = cell / s->count, block = s->chosen[number];
    const int64_t first = s->text.start[block], n = s->text.start[block + 1] - first;
    const depth_setting *setting = &s->settings[cell % s->count];
    const es_depth_spec spec = {.model = s->model,
                                .policy = &setting->policy,
                                .cache = setting->cache,
                                .from = s->from,
                                .layer = p->layer,
                                .directions = p->directions,
                                .seed = job->seed};
    return es_depth_block(&spec, s->text.ids + first, n, number, exec, record, err);
}

/* Chooses full blocks, evenly from all of the text: its beginning is not like the rest of it. */
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
        return es_fail_file(err, ES_E_EMPTY, p->texts.count == 1 ? p->texts.at[0] : NULL, -1,
                            "depth.text", "give more text, or a smaller --length",
                            "no block of %lld tokens: the text has %lld", (long long)length,
                            (long long)s->text.start[s->text.count]);
    s->blocks = count < p->blocks ? count : p->blocks;
    ES_TRY(ES_JOB_NEW(job, s->chosen, s->blocks, err));
    for (int64_t b = 0; b < s->blocks; b++)
        s->chosen[b] = whole[es_even_block(b, s->blocks, count)];
    return ES_OK;
}

enum { LENGTH, BLOCKS, SIZES };

/* Returns the operations of a run with blocks of such a length and number. */
static double work_of(const void *user, const int64_t *values)
{
    const es_job *job = user;
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    return (double)(values[BLOCKS] * s->count) *
           es_depth_flops(s->model, values[LENGTH], p->directions);
}

/* Chooses the length of blocks and their number, unless given, so that the run takes no longer than
 * a default run should. `spec` reads the text. */
static es_status choose_sizes(es_job *job, const es_blocks_spec *spec, es_error *err)
{
    static const es_size_step steps[] = {{LENGTH, ES_SIZE_CONTEXT},
                                         {BLOCKS, ES_SIZE_BLOCKS / 2},
                                         {LENGTH, ES_SIZE_SHORT},
                                         {BLOCKS, ES_SIZE_FEWEST}};
    depth_params *p = job->params;
    depth_state *s = job->state;
    const int64_t positions = es_model_config_of(s->model)->positions;
    int64_t tokens = 0, usual = p->length ? p->length : positions;
    if (!p->length && positions > ES_SIZE_CONTEXT) {
        ES_TRY(es_count_tokens(spec, job->exec.budget, &tokens, err));
        usual = es_default_length(positions, tokens, p->blocks);
    }
    es_size sizes[SIZES] = {[LENGTH] = {"length", .usual = usual, .fixed = p->length,
                                        .halves = true, .longest = positions},
                            [BLOCKS] = {"blocks", .usual = p->blocks,
                                        .fixed = es_params_given(job->given, "blocks"),
                                        .averaged = true}};
    const es_sizing sizing = {sizes, SIZES, steps, sizeof steps / sizeof *steps, work_of, job};
    ES_TRY(depth_make_settings(job, usual, err));
    es_sizes_fit(&sizing);
    es_sizes_add_finding(&sizing, job->answer);
    p->length = sizes[LENGTH].value;
    p->blocks = sizes[BLOCKS].value;
    return ES_OK;
}

/* Reads the text in blocks of --length tokens and checks them against the model's positions. */
static es_status read_text(es_job *job, es_error *err)
{
    depth_params *p = job->params;
    depth_state *s = job->state;
    const es_model_config *c = es_model_config_of(s->model);
    if (p->length > c->positions)
        return es_refuse(err, "depth.length", "leave --length out",
                         "pieces of %lld tokens; the model has %lld positions",
                         (long long)p->length, (long long)c->positions);
    ES_TRY(es_tokenizer_open(es_model_folder(s->model), job->exec.budget, &s->tokenizer, err));
    ES_TRY(es_model_check_tokenizer(c, es_model_folder(s->model), s->tokenizer, err));
    es_blocks_spec spec = {.tokenizer = s->tokenizer,
                           .texts = p->texts.at,
                           .n_texts = p->texts.count,
                           .length = ES_SIZE_CONTEXT,
                           .vocab = c->vocab,
                           .invalid = (es_text_invalid)p->invalid,
                           .progress = job->exec.progress,
                           .progress_user = job->exec.progress_user};
    ES_TRY(choose_sizes(job, &spec, err));
    spec.length = p->length;
    ES_TRY(es_blocks_read(&spec, job->exec.budget, &s->text, err));
    return choose_blocks(job, p->length, err);
}

/* Opens the model and checks the layer; without --layer the policy applies to all layers. */
static es_status open_model(es_job *job, es_error *err)
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
        return es_refuse(err, "depth.layer", "leave it out for all layers",
                         "--layer %lld: the model has layers 0 to %lld", (long long)p->layer,
                         (long long)c->layers - 1);
    ES_TRY(depth_check_settings(job, err));
    ES_TRY(read_text(job, err));
    ES_TRY(depth_make_settings(job, p->length, err));
    es_answer_text(job->answer, "model", es_model_folder(s->model));
    es_answer_count(job->answer, "blocks", s->blocks);
    es_answer_count(job->answer, "length", p->length);
    if (p->layer >= 0)
        es_answer_count(job->answer, "layer", p->layer);
    return es_job_stage(job,
                        &(es_stage){.name = "block",
                                    .phase = "running the model",
                                    .noun = "blocks and settings",
                                    .cells = s->blocks * s->count,
                                    .rows = c->layers + 1,
                                    ES_RECORD(es_depth_state, cell_fields),
                                    .one_thread_per_cell = !es_model_shares_block(c, p->length),
                                    .flops = es_depth_flops(s->model, p->length, p->directions),
                                    .run = run_cell},
                        err);
}

/* Returns the memory of a setting beyond es_depth_bytes(): random draws, or a cache. */
static double setting_bytes(const es_job *job, const depth_setting *setting, int threads)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    return setting->cache ? es_cache_bytes(setting->cache, es_model_config_of(s->model),
                                           job->precision, p->length, threads)
                          : es_policy_draw_bytes(&setting->policy);
}

/* Model, tokenizer and ids are in memory already, and counted. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    (void)err;
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const double rows = (double)(job->stages[0].rows * s->count);
    const double cells = (double)job->stages[0].cells, blocks = (double)s->blocks;
    const bool alone = job->stages[0].one_thread_per_cell;
    const int threads = alone ? 1 : es_parallel_threads(&job->exec, INT64_MAX);
    const double block = es_depth_bytes(s->model, p->length, p->policy.span, threads);
    double drawn = 0.0;
    for (int64_t i = 0; i < s->count; i++)
        drawn = fmax(drawn, setting_bytes(job, &s->settings[i], threads));
    *out = (es_cost){.flops = cells * job->stages[0].flops,
                     .output_bytes = 1024.0 * rows,
                     .work_bytes = 8.0 * rows * blocks * NUMBERS + 8.0 * blocks * 4.0 + 65536.0 +
                                   (alone ? 0.0 : block + drawn),
                     .thread_bytes = alone ? block + drawn : 0.0};
    return ES_OK;
}

/* ---- averages over blocks ---- */

/* Returns the stored state of a layer for one policy and block. */
static const es_depth_state *state_of(const es_job *job, int64_t block, int64_t policy,
                                      int64_t layer)
{
    const depth_state *s = job->state;
    const es_depth_state *cell = es_job_cell(job, 0, block * s->count + policy);
    return cell + layer;
}

/* Sums over blocks, except one, of what was measured at a layer. Gains are weighted by the errors
 * they are applied to, so that their product is the sum of what blocks would predict. */
typedef struct sums {
    double spread_in, spread, error_in, error, own, gain, along, far, fresh, kept, empty;
    double blocks;
} sums;

/* Sums squares over all blocks but one (-1: none left out), for the jackknife. */
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

/* Averages all layers of a policy, without block `skip` (-1: with all). In spreads the recursion of
 * THEORY 15 reads e'^2 = g^2 e^2 + s^2 with g^2 times the ratio of the spreads squared. */
static void average(const es_job *job, int64_t policy, int64_t skip, int64_t layers,
                    layer_numbers *out)
{
    double before = 0.0, predicted = 0.0; /* of the layer before, squared */
    for (int64_t l = 0; l < layers; l++) {
        const sums t = sum_blocks(job, policy, l, skip);
        layer_numbers *v = &out[l];
        const double unit = t.spread_in / t.spread; /* of squares of gains, in spreads */
        const double error = t.error / t.spread, own = t.own / t.spread;
        const double gain = t.error_in > 0.0 ? t.gain / t.error_in * unit : (double)NAN;
        predicted = (predicted > 0.0 ? gain * predicted : 0.0) + own;
        v->error = sqrt(error);
        v->absolute = sqrt(t.error / t.blocks);
        v->spread = sqrt(t.spread / t.blocks);
        v->own = sqrt(own);
        v->gain = sqrt(gain);
        v->gain_along = sqrt(t.along / t.error_in * unit);
        v->gain_far = sqrt(t.far / t.error_in * unit);
        v->predicted = sqrt(predicted);
        v->step = sqrt((before > 0.0 ? gain * before : 0.0) + own);
        v->ratio = error > 0.0 ? sqrt(predicted / error) : (double)NAN;
        v->fresh = sqrt(t.fresh / t.spread);
        v->correlation = (t.error - t.far - t.fresh) / (2.0 * sqrt(t.far * t.fresh));
        v->kept = t.kept / t.blocks;
        v->empty = t.empty;
        before = error;
    }
}

/* Averages of the layers of a policy, of all blocks and without each of them in turn. */
typedef struct averages {
    int64_t layers, blocks;
    layer_numbers *all;     /* (layers) */
    layer_numbers *without; /* (blocks, layers) */
    double *scratch;        /* (blocks) */
} averages;

/* Allocates averages of all layers, and the same without each block. */
static es_status averages_new(es_job *job, averages *w, es_error *err)
{
    const depth_state *s = job->state;
    *w = (averages){.layers = job->stages[0].rows - 1, .blocks = s->blocks};
    ES_TRY(ES_JOB_NEW(job, w->all, w->layers, err));
    ES_TRY(ES_JOB_NEW_2D(job, w->without, w->blocks, w->layers, err));
    return ES_JOB_NEW(job, w->scratch, w->blocks, err);
}

/* Averages a policy over all blocks and over all but each one. */
static void average_policy(const es_job *job, int64_t policy, averages *w)
{
    average(job, policy, -1, w->layers, w->all);
    for (int64_t b = 0; b < w->blocks && w->blocks > 1; b++)
        average(job, policy, b, w->layers, w->without + b * w->layers);
}

#define MEMBER(member) offsetof(layer_numbers, member)

/* Returns one number of a layer. */
static double number_of(const layer_numbers *x, size_t member)
{
    return *(const double *)(const void *)((const char *)x + member);
}

/* Returns a number of a layer with the jackknife's standard error over blocks: NaN for one block.
 */
static es_measured over_blocks(const averages *w, int64_t layer, size_t member)
{
    const double all = number_of(&w->all[layer], member);
    for (int64_t b = 0; b < w->blocks; b++)
        w->scratch[b] = number_of(&w->without[b * w->layers + layer], member);
    return (es_measured){all, es_jackknife(all, w->scratch, w->blocks).se};
}

/* ---- rows ---- */

/* A row of the table of layers: error after the layer, and the recursion error^2 = gain^2 error^2 +
 * own^2 that predicts it. */
typedef struct layer_row {
    const char *setting;
    int64_t layer;
    es_policy_cells policy;
    es_cache_cells cache;
    es_measured error, predicted, ratio, gain, own, gain_along, gain_far, fresh, correlation;
    double step;
    es_measured absolute;
    double spread, kept;
    int64_t empty;
} layer_row;

static const es_column row_columns[] = {
    ES_COL(layer_row, setting, ES_FORMAT_TEXT, "setting", "",
           "policy, number of keys and number types of the cache"),
    ES_COL(layer_row, layer, ES_FORMAT_COUNT, "layer", "",
           "from 0 on; errors are those of its output"),
    ES_POLICY_CELL_COLUMNS(layer_row, policy),
    ES_CACHE_CELL_COLUMNS(layer_row, cache),
    ES_COL(layer_row, error, ES_FORMAT_REAL, "error", "spreads",
           "root mean square distance of hidden states from the full model's, over that of the "
           "full model's from their mean in the block; of a decoder after the prompt, or over the "
           "block's second half"),
    ES_COL(layer_row, predicted, ES_FORMAT_REAL, "predicted", "spreads",
           "by the recursion `error^2 = gain^2 error^2 + own^2` from the first layer on",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, ratio, ES_FORMAT_REAL, "predicted/error", ""),
    ES_COL(layer_row, gain, ES_FORMAT_REAL, "gain", "",
           "change of the layer's output over that of its input, each in spreads, for small noise "
           "on every token with the covariance of the measured error"),
    ES_COL(layer_row, own, ES_FORMAT_REAL, "own", "spreads",
           "error of the layer when it is given the full model's state, with new random keys"),
    ES_COL(layer_row, gain_along, ES_FORMAT_REAL, "of the error, small", "",
           "gain of the measured error itself, made small"),
    ES_COL(layer_row, gain_far, ES_FORMAT_REAL, "of the error", "",
           "gain of the measured error as it is"),
    ES_COL(layer_row, fresh, ES_FORMAT_REAL, "added", "spreads",
           "error that the layer adds to the state that it gets in the sparse model"),
    ES_COL(
        layer_row, correlation, ES_FORMAT_SHORT, "correlation", "",
        "of the added error with what the layer makes of the error of its input: `error^2 = a^2 + "
        "added^2 + 2 correlation a added`, a the last layer's error times the gain of the error"),
    ES_COL(layer_row, step, ES_FORMAT_REAL, "from the last", "spreads",
           "predicted from the measured error of the layer's input",
           .standing = ES_STANDING_HEURISTIC),
    ES_COL(layer_row, absolute, ES_FORMAT_REAL, "absolute", "",
           "the error, not divided by the spread"),
    ES_COL(layer_row, spread, ES_FORMAT_SHORT, "spread", "", "of the layer's output"),
    ES_COL(layer_row, kept, ES_FORMAT_SHORT, "kept", "keys",
           "keys of a query, repeated draws included; mean over heads and all queries of a block"),
    ES_COL(layer_row, empty, ES_FORMAT_COUNT, "empty", "queries",
           "queries for which no key was drawn, of all heads and blocks: they attend to "
           "themselves"),
    {0}};
static const es_table_view row_views[] = {
    {"Error by layer", "evict setting layer error predicted ratio gain own",
     "Errors are in spreads: 1 is the distance of another token's state from the mean."},
    {"Where linearity ends",
     "evict setting layer error gain gain_along gain_far own fresh correlation "
     "step absolute spread "
     "kept empty",
     .only_with_full = true},
    {0}};
static const es_table_spec rows_table = {"rows", row_columns, row_views, ES_ROW(layer_row),
                                         .keys =
                                             "evict policy keys correction k_type v_type layer"};

/* Fills what is done to the model: a policy, and in a decoder what the cache does. */
static void fill_setting(const es_job *job, const depth_setting *setting, es_table *t, layer_row *r)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const es_model_config *c = es_model_config_of(s->model);
    const es_cache_setting *cache = setting->cache;
    char word[ES_CACHE_SIZE];
    r->setting = es_table_format(t, "%s", depth_say(setting, word));
    if (!cache)
        es_policy_cells_fill(&r->policy, &setting->policy, t);
    if (c->causal) {
        es_cache_cells_fill(&r->cache, cache, t);
        r->cache.prompt = s->from ? s->from : es_late_begin(c, p->length);
    }
    if (cache && cache->unit.evict.policy) {
        r->policy.policy = es_table_format(t, "%s", es_cache_policy(cache, word));
        r->policy.keys = cache->unit.evict.keys;
    }
}

/* Adds the row of a layer: its error, the prediction by gains, and their ratio. */
static void add_layer(const es_job *job, const depth_setting *setting, const averages *w,
                      int64_t layer, es_table *t)
{
    const layer_numbers *all = &w->all[layer];
    layer_row *r = es_rows_add(t, layer_row);
    if (!r)
        return;
    r->layer = layer;
    fill_setting(job, setting, t, r);
    r->error = over_blocks(w, layer, MEMBER(error));
    r->predicted = over_blocks(w, layer, MEMBER(predicted));
    r->ratio = over_blocks(w, layer, MEMBER(ratio));
    r->gain = over_blocks(w, layer, MEMBER(gain));
    r->own = over_blocks(w, layer, MEMBER(own));
    r->gain_along = over_blocks(w, layer, MEMBER(gain_along));
    r->gain_far = over_blocks(w, layer, MEMBER(gain_far));
    r->fresh = over_blocks(w, layer, MEMBER(fresh));
    r->correlation = over_blocks(w, layer, MEMBER(correlation));
    r->step = all->step;
    r->absolute = over_blocks(w, layer, MEMBER(absolute));
    r->spread = all->spread;
    r->kept = all->kept;
    r->empty = (int64_t)all->empty;
}

/* ---- findings ---- */

#define FAILS    0.1  /* a prediction that is off by more than this, and by two standard errors */
#define ROUNDING 1e-5 /* spreads: an error below is f32 rounding, which is not predicted */

/* Returns true if prediction and measurement differ by more than FAILS and by two standard
 * errors. */
static bool fails(const layer_row *r)
{
    const double off = fabs(r->ratio.value - 1.0);
    return r->error.value > ROUNDING && off > FAILS && !(off < 2.0 * r->ratio.se);
}

/* Reports the error of the last state: of up to three policies each, of more the best and worst. */
static void report_errors(const depth_state *s, const layer_row *rows, int64_t layers, es_answer *a)
{
    enum { ALL = 3 };
    const layer_row *last = rows + layers - 1;
    int64_t shown[ALL] = {0, 1, 2}, count = s->count;
    char text[ALL * (ES_SAY_SIZE + ES_CACHE_SIZE + 16)] = "";
    if (count > ALL) {
        shown[0] = shown[1] = 0;
        for (int64_t i = 1; i < count; i++) {
            if (last[i * layers].error.value < last[shown[0] * layers].error.value)
                shown[0] = i;
            if (last[i * layers].error.value > last[shown[1] * layers].error.value)
                shown[1] = i;
        }
    }
    for (int64_t k = 0; k < (count > ALL ? 2 : count); k++) {
        const layer_row *r = &last[shown[k] * layers];
        const size_t used = strlen(text);
        char name[ES_CACHE_SIZE], error[ES_SAY_SIZE];
        snprintf(text + used, sizeof text - used, "%s%s%s (%s)",
                 k == 0        ? ""
                 : count > ALL ? " to "
                               : ", ",
                 es_say_number(r->error.value, r->error.se, error), k == 0 ? " of its spread" : "",
                 depth_say(&s->settings[shown[k]], name));
    }
    es_answer_add_finding(a, "The last hidden state is off by %s.", text);
}

/* Reports how often the recursion fails, and where first. */
static void report_prediction(const depth_state *s, const layer_row *rows, int64_t layers,
                              es_answer *a)
{
    const int64_t all = s->count * layers;
    int64_t failing = 0, first = -1;
    char name[ES_CACHE_SIZE];
    for (int64_t i = 0; i < all; i++)
        if (fails(&rows[i])) {
            failing++;
            first = first < 0 ? i : first;
        }
    if (failing)
        es_answer_add_finding(
            a,
            "The prediction from the layers' gains and own errors is off by more than %.0f %% in "
            "%lld of %lld pairs of a layer and a setting, first in layer %lld (%s).",
            100.0 * FAILS, (long long)failing, (long long)all, (long long)(first % layers),
            depth_say(&s->settings[first / layers], name));
    else
        es_answer_add_finding(
            a,
            "The layers' gains and own errors predict every error within %.0f %% or two standard "
            "errors.",
            100.0 * FAILS);
}

/* Returns what the settings do to keys of a model, for a finding. */
static const char *say_mode(const es_job *job)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    bool ideal = false;
    for (int64_t i = 0; i < s->count && !s->settings[i].cache; i++)
        ideal = ideal || !es_policy_rolls(&s->settings[i].policy);
    if (ideal)
        return " Every query chooses from all keys, which saves no memory; a cache loses more.";
    return p->cache.evict == ES_CACHE_PROMPT   ? " Keys are dropped once, when the prompt ends."
           : p->cache.evict == ES_CACHE_DECODE ? " A key that is dropped never returns."
                                               : "";
}

/* Reports where keys are dropped, and what the errors do not show. */
static void report_setting(const es_job *job, es_answer *a)
{
    const depth_params *p = job->params;
    const depth_state *s = job->state;
    const bool causal = es_model_config_of(s->model)->causal;
    char where[ES_SAY_SIZE] = "all layers", late[ES_SAY_SIZE] = "";
    if (p->layer >= 0)
        snprintf(where, sizeof where, "layer %lld alone", (long long)p->layer);
    if (s->from)
        snprintf(late, sizeof late, ", errors over tokens after the first %lld of each",
                 (long long)s->from);
    else if (causal)
        snprintf(late, sizeof late, ", errors over the second half of each, as in budget");
    es_answer_add_finding(
        a,
        "Keys are %s in %s; %lld blocks of %lld tokens%s.%s esscher loss and downstream measure "
        "what that does to the model's answers.",
        p->cache.evict < 0 && p->cache.kv_types.count ? "rounded" : "dropped", where,
        (long long)s->blocks, (long long)p->length, late, say_mode(job));
}

/* Fills the table of layers for each setting and adds the findings. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const depth_state *s = job->state;
    es_table *t = es_answer_table(answer, &rows_table);
    averages w;
    ES_TRY(averages_new(job, &w, err));
    for (int64_t i = 0; i < s->count; i++) {
        average_policy(job, i, &w);
        for (int64_t l = 0; l < w.layers; l++)
            add_layer(job, &s->settings[i], &w, l, t);
    }
    ES_TRY(es_answer_status(answer, err));
    const layer_row *rows = es_rows(t, layer_row);
    report_errors(s, rows, w.layers, answer);
    report_prediction(s, rows, w.layers, answer);
    report_setting(job, answer);
    for (int64_t i = 0; i < s->count; i++)
        if (s->settings[i].cache &&
            es_cache_caution(s->settings[i].cache, ((const depth_params *)job->params)->length,
                             answer))
            break;
    return ES_OK;
}

const depth_question depth_model = {.open = open_model, .cost = cost, .summarise = summarise};
