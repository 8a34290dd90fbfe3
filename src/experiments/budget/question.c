/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how many keys each head may drop: parameters, checks, help and the study. */
#include "experiments/budget/question.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/file.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "model/sparse_head.h"

/* ---- parameters ---- */

#define FIELD(member) .field = offsetof(budget_params, member)
static const es_param params[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "folder of a checkpoint (config.json, model.safetensors, tokenizer), or org/name in the cache "
     "of the Hugging Face hub: a decoder, a classifier, or a bare encoder",
     FIELD(model)},
    {"text", 0, ES_PARAM_FILES, "FILE", "text to calibrate on, UTF-8; may be given several times",
     FIELD(texts)},
    {"context", 0, ES_PARAM_WHOLE, "N", "tokens of the context that the plan is for",
     FIELD(context), .min = 16, .max = 1e9, .unit = "tokens",
     .default_note = "the model's positions; above 2048, as many as leave 8 blocks of the text; "
                     "fewer if 8 blocks take more than five minutes on two cores"},
    {"evict", 0, ES_PARAM_CHOICE, "MODE",
     "when the cache drops keys: prompt, decode, none or ideal. prompt: once, for good, when a "
     "prompt has been read; decode: one key after each token, for good; none: never, numbers are "
     "only rounded; ideal: never, each query chooses from all keys, which saves no memory and is a "
     "bound",
     FIELD(evict), .choices = budget_modes,
     .default_note = "prompt; ideal for models that predict no tokens"},
    {"prompt", 0, ES_PARAM_COUNTS, "P",
     "tokens of the prompt. The plan divides its cache, and errors are means over what "
     "follows it",
     FIELD(prompt), .min = 1, .max = 1e12, .unit = "tokens", .default_note = "half of the context"},
    {"ratio", 0, ES_PARAM_NUMBER, "R",
     "share of the cache's bytes to keep: 0.25, 1/4 or 25%. The whole cache is that of the prompt "
     "(with decode and ideal, of the context) in --cache-dtype",
     FIELD(ratio), .min = 1e-6, .max = 1.0},
    {"bytes", 0, ES_PARAM_BYTES, "B", "keep this many bytes: 65536, 500K or 1.5M", FIELD(bytes),
     .unit = "bytes"},
    {"keys", 0, ES_PARAM_WHOLE, "K",
     "keep this many keys in all, summed over layers and key-value heads, whatever their types",
     FIELD(keys), .min = 1, .max = 1e15, .unit = "keys"},
    {"error", 0, ES_PARAM_NUMBER, "E",
     "keep as little as possible while each layer's attention output changes by at most E, as a "
     "share of its spread over tokens",
     FIELD(error), .min = 1e-9, .max = 100.0},
    {"loss", 0, ES_PARAM_NUMBER, "D",
     "keep as little as possible while the loss on the text grows by at most D nats per token (a "
     "classifier: KL of its labels)",
     FIELD(loss), .min = 1e-9, .max = 100.0, .unit = "nats"},
    {"policy", 0, ES_PARAM_TEXT, "LIST",
     "policies to choose from, separated by commas, with options after their names: "
     "h2o,snapkv:window=16. They keep the first 4 tokens unless option sinks says otherwise. "
     "--evict ideal: policies of `sparse`",
     FIELD(policy),
     .default_note = "prompt: stream,snapkv,observed,h2o,tova:scope=kv; decode: "
                     "stream,h2o,tova:scope=kv; ideal: stream,heavy,observe,random,top"},
    {"kv-type", 0, ES_PARAM_TEXTS, "LIST",
     "number types to choose from, separated by commas or blanks, for keys and values of each "
     "head: f32" ES_KV_PLAIN_LIST ", also with +hadamard; with --evict none" ES_KV_GROUPED_LIST
     ", too",
     FIELD(kv_types), .several = true, .default_note = "f16,q8_0,q4_0"},
    {"granularity", 0, ES_PARAM_CHOICE, "UNIT",
     "what has a setting of its own: each key-value head, each layer, or the model",
     FIELD(granularity), .choices = budget_granularities, .default_value = "head"},
    {"round", 0, ES_PARAM_WHOLE, "M",
     "numbers of keys are multiples of M, as engines with pages of M tokens need", FIELD(round),
     .min = 1, .max = 65536, .default_value = "1", .unit = "keys"},
    {"no-query-scores", 0, ES_PARAM_FLAG, NULL,
     "ideal: use only policies that choose without the scores of the current query, which are "
     "known "
     "only after every key was read",
     FIELD(no_query_scores), .renamed_from = "deployable"},
    {"blocks", 0, ES_PARAM_WHOLE, "B",
     "blocks of the text to calibrate on, spaced evenly over the text; by default fewer if they "
     "take more than five minutes on two cores",
     FIELD(blocks), .min = 1, .max = 100000, .default_value = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "queries per block whose risks are computed",
     FIELD(queries), .min = 1, .max = 100000, .default_note = "32; 8 with --evict ideal"},
    {"other-text", 0, ES_PARAM_FILES, "FILE",
     "another kind of text: compare its plan with the plan of --text, on both texts",
     FIELD(others)},
    {"verify", 0, ES_PARAM_FILES, "FILE", "held-out text to test the plan on", FIELD(verify)},
    {"verify-tasks", 0, ES_PARAM_FILE, "T.tsv",
     "for a classifier, instead of --verify: labelled texts (sentence TAB label) to measure "
     "accuracy",
     FIELD(tasks)},
    {"concat", 0, ES_PARAM_WHOLE, "C",
     "with --verify-tasks: concatenate C texts with the same label", FIELD(concat), .min = 2,
     .max = 1e6},
    {"verify-context", 0, ES_PARAM_WHOLE, "N", "tokens per block of the held-out text",
     FIELD(verify_context), .min = 16, .max = 1e9, .unit = "tokens", .default_note = "--context"},
    {"verify-blocks", 0, ES_PARAM_WHOLE, "B",
     "blocks of the held-out text, or labelled texts, at most; by default fewer as for --blocks",
     FIELD(verify_blocks), .min = 1, .max = BUDGET_MOST_BLOCKS, .default_value = "8"},
    {"rivals", 0, ES_PARAM_FLAG, NULL,
     "also test other ways to spend as much: the best single setting, PyramidKV, Ada-KV, LU-KV, "
     "one type for all; ideal: uniform, falling with depth, and by mass",
     FIELD(rivals)},
    {"frontier", 0, ES_PARAM_REALS, "GRID", "shares, as of --ratio, to predict errors for",
     FIELD(frontier), .min = 1e-6, .max = 1.0, .default_value = "0.0625,0.125,0.25,0.5",
     .increasing = true},
    {"verify-frontier", 0, ES_PARAM_FLAG, NULL,
     "test the plans of --frontier on the held-out text too", FIELD(everywhere)},
    {"cache-dtype", 0, ES_PARAM_CHOICE, "DTYPE",
     "number format of the cache that the plan replaces, to count its bytes", FIELD(cache),
     .choices = budget_dtypes, .default_value = "f16"},
    {"out-plan", 0, ES_PARAM_OUTPUT, "P.json",
     "write the plan to a file, for `loss`, `downstream`, `encode`, `plan export` and other "
     "programs; `sparse` runs ideal plans",
     FIELD(out_plan)},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(allow_trailing),
     .not_in_fingerprint = true},
    ES_INVALID_PARAM(budget_params, invalid),
    {0}};

/* ---- checks ---- */

/* Fails for missing options and options that exclude each other. Exactly one of --ratio, --bytes,
 * --keys, --error and --loss says how much to keep. */
static es_status check_options(const es_job *job, const budget_params *p, es_error *err)
{
    const int asked =
        !isnan(p->ratio) + (p->bytes > 0) + (p->keys > 0) + !isnan(p->error) + !isnan(p->loss);
    if (!p->model || !p->texts.count)
        return es_refuse(err, "budget.options", "--model MODEL --text FILE", "missing --%s",
                         p->model ? "text" : "model");
    if (asked != 1)
        return es_refuse(
            err, "budget.options", "--ratio 0.25, or --bytes, --keys, --error or --loss",
            asked ? "--ratio, --bytes, --keys, --error and --loss exclude each other"
                  : "say how much to keep: --ratio, --bytes, --keys, --error or --loss");
    if (p->verify.count && p->tasks)
        return es_refuse(err, "budget.options", "leave one out",
                         "--verify and --verify-tasks exclude each other");
    if (!p->verify.count && !p->tasks && (p->rivals || p->everywhere))
        return es_refuse(err, "budget.options", "--verify FILE",
                         "--rivals and --verify-frontier need --verify or --verify-tasks");
    if (p->concat && !p->tasks)
        return es_refuse(err, "budget.options", "leave it out", "--concat needs --verify-tasks");
    return p->out_plan ? es_file_may_create(p->out_plan, job->force, err) : ES_OK;
}

/* Opens the model; --loss and --verify-tasks need one that predicts something. */
static es_status open_model(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .budget = job->exec.budget,
                                .allow_trailing = p->allow_trailing};
    ES_TRY(es_job_model(job, p->model, &opts, &s->model, err));
    s->config = es_model_config_of(s->model);
    if (p->tasks && s->config->labels < 2)
        return es_refuse(err, "budget.classifier", "--verify FILE",
                         "--verify-tasks: the model has no classifier to label texts with");
    if (!isnan(p->loss) && !s->config->predicts && s->config->labels < 2)
        return es_refuse(err, "budget.loss", "--error E, or --ratio R",
                         "--loss: the model predicts no token and no label");
    return ES_OK;
}

/* ---- settings ---- */

/* Returns smaller types that a plan of the share `asked` of all can have, where these need the
 * share `least`; NULL: none are known. The newest places of KIVI, which stay in f16, are few in
 * long contexts only. */
static const char *smaller_types(const budget_state *s, double asked, double least)
{
    const double q4_0 = 4.5 / 8.0 * 2.0 * (double)s->config->head_dim; /* bytes of key and value */
    double bytes = (double)INFINITY;
    for (int64_t i = 0; i < s->P && s->mode != BUDGET_IDEAL; i++)
        bytes = fmin(bytes, s->candidates[i].bytes);
    if (s->mode != BUDGET_IDEAL && bytes > q4_0 && asked >= least * q4_0 / bytes)
        return "q8_0,q4_0";
    return s->mode == BUDGET_NONE && asked >= 0.25 && budget_most_seen(s) >= 512
               ? "q8_0,q4_0,kivi2:residual=32"
               : NULL;
}

/* Writes how to keep `least` at least: the option that was given, rounded up, or smaller types. */
static void say_least(const budget_params *p, const budget_state *s, double least, char out[128])
{
    const double all = budget_all_cost(s);
    const char *types = p->keys ? NULL : smaller_types(s, budget_asked(p, s) / all, least / all);
    char more[64] = "";
    if (types)
        snprintf(more, sizeof more, ", or smaller types: --kv-type %s", types);
    if (p->keys)
        snprintf(out, 128, "--keys %.0f", ceil(least));
    else if (p->bytes)
        snprintf(out, 128, "--bytes %.0f%s", ceil(least), more);
    else
        snprintf(out, 128, "--ratio %.4g%s", ceil(1000.0 * least / all) / 1000.0, more);
}

/* Fails if what is asked for is outside what units can keep. */
static es_status check_amount(const budget_params *p, const budget_state *s, es_error *err)
{
    const budget_strategy any = {.round = s->round};
    const double all = budget_all_cost(s), least = budget_least_cost(s, &any),
                 total = budget_asked(p, s);
    char hint[128];
    if (isnan(total) || (total >= least && total <= all))
        return ES_OK;
    say_least(p, s, least, hint);
    return es_refuse(err, "budget.amount", total > all ? "keep at most all" : hint,
                     "%.15g %s in all: a plan keeps %.0f to %.0f, or %.3g to 1 of them (%lld "
                     "key-value heads, up to %lld keys each)",
                     total, p->keys ? "keys" : "bytes", least, all, least / all,
                     (long long)s->units, (long long)budget_most_seen(s));
}

/* Lists the allocations that a mode compares. */
static void list_ways(budget_state *s)
{
    static const struct {
        budget_allocation way;
        bool ideal, prompt, decode, none;
    } ways[] = {
        {BUDGET_OURS, true, true, true, true},      {BUDGET_UNIFORM, true, true, true, true},
        {BUDGET_PYRAMID, true, true, false, false}, {BUDGET_MASS, true, false, false, false},
        {BUDGET_ADA, false, true, false, false},    {BUDGET_LUKV, false, true, true, true},
        {BUDGET_ONE_TYPE, false, true, true, false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const bool applies = s->mode == BUDGET_IDEAL    ? ways[i].ideal
                             : s->mode == BUDGET_PROMPT ? ways[i].prompt
                             : s->mode == BUDGET_DECODE ? ways[i].decode
                                                        : ways[i].none;
        if (applies && (ways[i].way != BUDGET_ONE_TYPE || s->types > 1))
            s->ways[s->n_ways++] = ways[i].way;
    }
}

/* Adds the first `count` allocations at one ratio to what is verified (0: the plan's own). */
static void add_settings(budget_state *s, int64_t count, double ratio)
{
    for (int64_t w = 0; w < count; w++)
        s->settings[s->n_settings++] = (budget_setting){s->ways[w], ratio};
}

/* Lists what is verified: the plan, its rivals, and the same at each ratio of --frontier. A cache's
 * best single setting is always beside the plan. */
static es_status make_settings(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const int64_t most = s->verify.count > s->text.count ? s->verify.count : s->text.count;
    ES_TRY(ES_JOB_NEW_2D(job, s->scratch, 2, most, err));
    s->steps = isnan(p->error) && isnan(p->loss) ? 0 : BUDGET_STEPS;
    if (!p->verify.count && !p->tasks)
        return ES_OK;
    ES_TRY(ES_JOB_NEW_2D(job, s->settings, BUDGET_ALLOCATIONS, 1 + p->frontier.count, err));
    add_settings(s, budget_ways(p, s), 0.0);
    for (int64_t i = 0; i < p->frontier.count && p->everywhere; i++)
        if (p->frontier.reals[i] != p->ratio && budget_is_reachable(s, p->frontier.reals[i]))
            add_settings(s, p->rivals ? s->n_ways : 1, p->frontier.reals[i]);
    return ES_OK;
}

int64_t budget_ways(const budget_params *p, const budget_state *s)
{
    return p->rivals ? s->n_ways : s->mode == BUDGET_IDEAL ? 1 : 2;
}

double budget_asked(const budget_params *p, const budget_state *s)
{
    return p->keys ? (double)p->keys : p->bytes ? (double)p->bytes : p->ratio * budget_all_cost(s);
}

/* ---- study ---- */

/* Opens the study: options, model, candidates, texts, grids, settings, then the stages. */
static es_status open_study(es_job *job, es_error *err)
{
    const budget_params *p = job->params;
    budget_state *s = job->state;
    s->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    ES_TRY(check_options(job, p, err));
    ES_TRY(open_model(job, p, s, err));
    s->units = s->config->layers * s->config->kv_heads;
    ES_TRY(budget_read_candidates(job, err));
    list_ways(s);
    ES_TRY(budget_read_texts(job, err));
    ES_TRY(budget_make_grids(job, err));
    ES_TRY(check_amount(p, s, err));
    ES_TRY(make_settings(job, p, s, err));
    return budget_stages(job, err);
}

/* Frees texts, tokenizer, model and the memory shared by cells. */
static void close_study(es_job *job)
{
    budget_state *s = job->state;
    es_arena_free(&s->memory);
    pthread_mutex_destroy(&s->lock);
    es_blocks_free(&s->text.blocks);
    es_blocks_free(&s->verify.blocks);
    es_blocks_free(&s->others.blocks);
    es_task_blocks_free(&s->verify.tasks);
    es_tasks_free(&s->tasks);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
}

static const char *const examples[] = {
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --out-plan pebble.plan.json",
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --verify b.txt --rivals",
    "esscher budget --model models/pebble --text a.txt --ratio 0.3 --evict none --verify b.txt",
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --granularity layer --round 16",
    "esscher budget --model models/pebble --text a.txt --loss 0.02 --context 1024",
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --evict ideal --verify b.txt",
    "esscher budget --model minilm-sst2 --text a.txt --ratio 0.25 --verify-tasks sst2.tsv "
    "--concat 16",
    NULL};

const es_study es_study_budget = {
    .name = "budget",
    .summary = "what each head's KV cache must keep, in keys and bits: a plan, tested on the model",
    .group = ES_GROUP_MODEL,
    .main_options = "model text context evict prompt ratio bytes keys error loss policy kv-type "
                    "verify rivals out-plan",
    .usage = "--model MODEL --text FILE (--ratio R | --bytes B | --keys K | --error E | --loss D) "
             "[options]",
    .about =
        "Divides the bytes of a KV cache among the key-value heads of a decoder: each gets an "
        "eviction policy, a number of keys, and number types of keys and values. The error of "
        "every head is measured on a text under each of them, in the mode that will run (--evict): "
        "keys that are dropped when a prompt ends stay dropped, and later queries read rounded "
        "keys and values. Then gives bytes to the heads where they lower the error of the last "
        "hidden "
        "state most, counting how later layers pass on the error of each layer. Errors of heads "
        "and layers are assumed to be small and independent [heuristic]. The answer is a plan, the "
        "predicted cost, and the bytes before and after."
        "\n\n"
        "The plan is rehearsed first: each block of the text runs through the model under the plan "
        "made from the other blocks. The ratio of the measured to the summed errors then corrects "
        "the predictions. "
        "--error and --loss are met in the same way: two trial plans run through the model before "
        "the final one."
        "\n\n"
        "--verify runs the plan, and the best single setting of all heads, through the model on "
        "held-out text. It measures KL and agreement of the next token, extra loss, and the error "
        "of each layer's attention and of each hidden state, beside the predictions. If the result "
        "exceeds --error or --loss beyond its 95 % interval, the exit code is 1. --rivals tests "
        "other ways to spend as many bytes."
        "\n\n"
        "--evict ideal lets each query choose from all keys, with policies of `sparse` and their "
        "exact errors. No cache can do that: it is a bound, and the only mode of encoders and "
        "classifiers."
        "\n\n"
        "Averages over a block are over what follows the prompt; in ideal mode over its second "
        "half, those of an encoder over all positions. Errors are shares of the spread, the root "
        "mean square distance from the mean over tokens. A plan is valid for one prompt, context "
        "and mode, and for texts like the one it was made from. Its numbers are about the next "
        "token, not about retrieval. docs/CACHE.md is the guide; docs/CACHE-RESULTS.md has "
        "measurements.",
    .examples = examples,
    .params = params,
    .size = sizeof(budget_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION | ES_TAKES_HEADS,
    .csv = "heads kv_heads",
    .state = sizeof(budget_state),
    .open = open_study,
    .cost = budget_cost,
    .summarise = budget_summarise,
    .close = close_study};
