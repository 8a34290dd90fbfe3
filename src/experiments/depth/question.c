/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `depth`: parameters and help. A run asks about a model's layers (model.c)
 * or a synthetic stack's (synthetic.c) (THEORY 15). */
#include "experiments/depth/depth.h"

#include "base/error.h"
#include "experiments/kit/pool_params.h"
#include "experiments/kit/setting_params.h"

static const char *const norms[] = {"none", "layer", "both", NULL};

#define FIELD(member) .field = offsetof(depth_params, member)
static const es_param params[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "folder of a model (config.json, model.safetensors, tokenizer), or org/name in the "
     "cache of the Hugging Face hub",
     FIELD(model)},
    {"text", 0, ES_PARAM_FILES, "FILE", "text, UTF-8; may be given several times", FIELD(texts)},
    ES_INVALID_PARAM(depth_params, invalid),
    {"blocks", 'b', ES_PARAM_WHOLE, "B",
     "blocks of text that the model reads, taken evenly from all of it; by default fewer if they "
     "take more than five minutes on two cores",
     FIELD(blocks), .min = 1, .max = 100000, .default_value = "8"},
    {"length", 0, ES_PARAM_WHOLE, "N", "tokens of a block, special tokens included", FIELD(length),
     .min = 3, .max = 1e6, .unit = "tokens",
     .default_note = "the model's positions; above 2048, as many as leave 8 blocks of the text; "
                     "fewer if these take more than five minutes on two cores"},
    ES_POLICY_PARAMS(depth_params, policy, "random,bigbird,top"),
    ES_CACHE_PARAMS(depth_params, cache),
    {"layer", 0, ES_PARAM_WHOLE, "L", "drop keys in this layer only", FIELD(layer), .min = 0,
     .max = 4096, .default_note = "in all layers"},
    {"directions", 0, ES_PARAM_WHOLE, "K",
     "noise samples per block that measure the gain of each layer", FIELD(directions), .min = 1,
     .max = 4096, .default_value = "4"},
    {"synthetic", 0, ES_PARAM_FLAG, NULL,
     "instead of a model: Gaussian tokens and layers x + V Gamma(x), with Gamma attention over n "
     "tokens",
     FIELD(synthetic)},
    {"dim", 'd', ES_PARAM_WHOLE, "D", "synthetic: dimension of a token", FIELD(dim), .min = 2,
     .max = 256, .default_value = "4", .alias = "d"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "synthetic: numbers of tokens", FIELD(n), .min = 8,
     .max = 1e6, .default_value = "250..2500*4", .unit = "tokens", .increasing = true},
    {"depth", 0, ES_PARAM_WHOLE, "L", "synthetic: number of layers", FIELD(depth), .min = 1,
     .max = 1000, .default_value = "4"},
    {"horizon", 0, ES_PARAM_REALS, "GRID",
     "synthetic: horizons H of the head on the first layer's input", FIELD(horizon), .min = 1e-6,
     .max = 100.0, .default_value = "0.1,0.3,0.6", .increasing = true},
    {"value", 0, ES_PARAM_NUMBER, "V", "synthetic: spectral norm of V", FIELD(value), .min = 1e-6,
     .max = 1e3, .default_value = "0.5"},
    {"norm", 0, ES_PARAM_CHOICE, "WHAT",
     "synthetic: none; layer: mean 0 and variance 1 over the dimensions of every token, after each "
     "layer and before the first; both, one after the other",
     FIELD(norm), .choices = norms, .default_value = "both"},
    {"head", 0, ES_PARAM_CHOICE, "KIND",
     "synthetic: random: Wq, Wk, V with entries N(0, 1/d); rotation: A a random rotation, V the "
     "identity; identity: both. Scaled to --horizon and --value",
     FIELD(head), .choices = es_head_kinds, .default_value = "random"},
    {"fresh", 0, ES_PARAM_FLAG, NULL, "synthetic: each layer has matrices of its own",
     FIELD(fresh)},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "synthetic: independent sets of tokens",
     FIELD(replicates), .min = 2, .max = 1e5, .default_value = "16"},
    {"reference", 0, ES_PARAM_WHOLE, "N",
     "synthetic: tokens of each of the four sets that approximate the limit with a norm",
     FIELD(reference), .min = 16, .max = 1e6, .default_value = "8192", .unit = "tokens"},
    {0}};

/* ---- which question a run asks ---- */

/* Fails if a parameter of the other question is given: it would be ignored. */
static es_status refuse_others(const es_job *job, es_error *err)
{
    static const char *const models[] = {
        "model", "text",   "blocks", "length",  "policy",     "keys",       "window",
        "sinks", "random", "span",   "layer",   "correction", "directions", "with-replacement",
        "evict", "prompt", "ratio",  "kv-type", NULL};
    static const char *const stacks[] = {"dim",        "n",         "depth", "horizon",
                                         "value",      "norm",      "head",  "fresh",
                                         "replicates", "reference", NULL};
    const bool synthetic = ((const depth_params *)job->params)->synthetic;
    for (const char *const *other = synthetic ? models : stacks; *other; other++)
        if (es_params_given(job->given, *other))
            return es_refuse(
                err, "depth.options",
                synthetic ? "leave one of them out" : "leave the option out, or add --synthetic",
                synthetic ? "--%s is for a model, not for --synthetic" : "--%s is for --synthetic",
                *other);
    return ES_OK;
}

/* Chooses the question: a model's layers, or a synthetic stack. */
static es_status open_study(es_job *job, es_error *err)
{
    const depth_params *p = job->params;
    depth_state *s = job->state;
    ES_TRY(refuse_others(job, err));
    s->question = p->synthetic ? &depth_synthetic : &depth_model;
    return s->question->open(job, err);
}

/* Returns the cost of the chosen question. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const depth_state *s = job->state;
    return s->question->cost(job, out, err);
}

/* Prepares the chosen question. */
static es_status begin(es_job *job, es_error *err)
{
    const depth_state *s = job->state;
    return s->question->begin ? s->question->begin(job, err) : ES_OK;
}

/* Summarises the chosen question. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const depth_state *s = job->state;
    return s->question->summarise(job, answer, err);
}

/* Frees stacks, text, tokenizer and model. */
static void close_study(es_job *job)
{
    depth_state *s = job->state;
    for (int64_t i = 0; i < s->n_stacks; i++)
        es_stack_limit_free(s->stacks[i].limit);
    es_blocks_free(&s->text);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher depth --model all-MiniLM-L6-v2 --text alice.txt --keys 32,128",
    "esscher depth --model all-MiniLM-L6-v2 --text alice.txt --policy random --with-replacement "
    "--keys 16..512*6 --out depth.run",
    "esscher depth --model all-MiniLM-L6-v2 --text alice.txt --policy top --keys 64 --layer 0",
    "esscher depth --model models/pebble --text book.txt --length 1024 --evict prompt --policy "
    "h2o,stream --ratio 1/8,1/4",
    "esscher depth --synthetic",
    "esscher depth --synthetic --depth 12 --norm layer --dim 16",
    NULL};

const es_study es_study_depth = {
    .name = "depth",
    .summary = "how an attention error grows or shrinks on its way through the layers",
    .group = ES_GROUP_MODEL,
    .main_options =
        "model text policy keys evict ratio kv-type layer synthetic dim n depth horizon",
    .usage = "--model MODEL --text FILE [options] | --synthetic [options]",
    .about =
        "Drops keys by a policy in all layers of a model, or in one (--layer), and measures how "
        "far its hidden states are from the full model's after each layer. The tables "
        "give, for each layer: its gain, the factor by which it scales a small error; its own "
        "error; and a prediction from both. Predicted: error^2 = gain^2 error_before^2 + own^2, "
        "for small independent errors [heuristic]. The gain "
        "of the actual error, compared with that of the same error made small, shows where "
        "linearity ends.\n\n"
        "Errors are in spreads, the root mean square distance of a block's hidden states from "
        "their mean; standard errors are over blocks. Means over a block of a decoder are over its "
        "second half, as in budget: early queries see fewer keys than policies keep.\n\n"
        "--evict prompt, --evict decode and --kv-type run a decoder with a key-value cache that "
        "drops keys for good and rounds those it keeps, as in loss (docs/CACHE.md). Errors are "
        "then over the tokens after the prompt. Without them policies are ideal: each query "
        "chooses from all keys, which saves no memory and bounds what a cache can do. An encoder "
        "has no cache.\n\n"
        "--synthetic follows Gaussian tokens through layers x + V Gamma(x) of n tokens, without "
        "and with a norm. Without, the covariance after each layer is known, S' = (I + V S A) S (I "
        "+ V S A)' [proved], and with it the horizon H = |S^1/2 A S^1/2|, which decides how fast n "
        "tokens approach their limit; with a norm, four large sets of tokens approximate the "
        "limit.",
    .examples = examples,
    .params = params,
    .size = sizeof(depth_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .state = sizeof(depth_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = summarise,
    .close = close_study,
};
