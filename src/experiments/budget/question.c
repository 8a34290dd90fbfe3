/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : how many keys each head may drop: parameters, checks, help and the study. */
#include "experiments/budget/question.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "store/file.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "model/sparse_head.h"

/* ---- parameters ---- */

const char *const budget_dtypes[] = {"f16", "bf16", "f32", "f64", "int8", "int4", NULL};

int64_t budget_dtype_bits(int dtype)
{
    static const int64_t bits[] = {16, 16, 32, 64, 8, 4};
    return bits[dtype];
}

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
    {"ratio", 0, ES_PARAM_NUMBER, "R", "share of all keys to keep: 0.25, 1/4 or 25%", FIELD(ratio),
     .min = 1e-6, .max = 1.0},
    {"keys", 0, ES_PARAM_WHOLE, "K",
     "keep this many keys in all, summed over layers and key-value heads", FIELD(keys), .min = 1,
     .max = 1e15, .unit = "keys"},
    {"error", 0, ES_PARAM_NUMBER, "E",
     "keep as few keys as possible while each layer's attention output changes by at most E, as a "
     "share of its spread over tokens",
     FIELD(error), .min = 1e-9, .max = 100.0},
    {"loss", 0, ES_PARAM_NUMBER, "D",
     "keep as few keys as possible while the loss on the text grows by at most D nats per token (a "
     "classifier: KL of its labels)",
     FIELD(loss), .min = 1e-9, .max = 100.0, .unit = "nats"},
    {"policy", 0, ES_PARAM_TEXT, "LIST",
     "policies to choose from, separated by commas, as in `sparse`", FIELD(policy),
     .default_value = "stream,heavy,observe,random,top"},
    {"no-query-scores", 0, ES_PARAM_FLAG, NULL,
     "use only policies that choose without the scores of the current query, which are known only "
     "after every key was read",
     FIELD(no_query_scores), .renamed_from = "deployable"},
    {"blocks", 0, ES_PARAM_WHOLE, "B",
     "blocks of the text to calibrate on, spaced evenly over the text; by default fewer if they "
     "take more than five minutes on two cores",
     FIELD(blocks), .min = 1, .max = 100000, .default_value = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "queries per block whose risks are computed",
     FIELD(queries), .min = 1, .max = 100000, .default_value = "8"},
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
     "also test other allocations of as many keys: uniform, falling with depth, and by mass",
     FIELD(rivals)},
    {"frontier", 0, ES_PARAM_REALS, "GRID", "shares of the keys to predict errors for",
     FIELD(frontier), .min = 1e-6, .max = 1.0, .default_value = "0.0625,0.125,0.25,0.5",
     .increasing = true},
    {"verify-frontier", 0, ES_PARAM_FLAG, NULL,
     "test the plans of --frontier on the held-out text too", FIELD(everywhere)},
    {"cache-dtype", 0, ES_PARAM_CHOICE, "DTYPE", "number format of the cache, to count its bytes",
     FIELD(cache), .choices = budget_dtypes, .default_value = "f16"},
    {"out-plan", 0, ES_PARAM_OUTPUT, "P.json",
     "write the plan to a file, for `loss`, `downstream`, `sparse` and other programs",
     FIELD(out_plan)},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(allow_trailing),
     .not_in_fingerprint = true},
    ES_INVALID_PARAM(budget_params, invalid),
    {0}};

/* ---- checks ---- */

/* Fails for missing options and options that exclude each other. Exactly one of --ratio, --keys,
 * --error and --loss says how much to keep. */
static es_status check_options(const es_job *job, const budget_params *p, es_error *err)
{
    const int asked = !isnan(p->ratio) + (p->keys > 0) + !isnan(p->error) + !isnan(p->loss);
    if (!p->model || !p->texts.count)
        return es_refuse(err, "budget.options", "--model MODEL --text FILE", "missing --%s",
                         p->model ? "text" : "model");
    if (asked != 1)
        return es_refuse(err, "budget.options", "--ratio 0.25, or --keys, --error or --loss",
                         asked ? "--ratio, --keys, --error and --loss exclude each other"
                               : "say how much to keep: --ratio, --keys, --error or --loss");
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

/* ---- candidates ---- */

/* Reads --policy and drops what cannot be planned: policies without exact risk, and full
 * attention. */
static es_status read_policies(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const es_policy_params asked = {.names = p->policy, .correction = -1};
    es_policy_asked *words;
    int64_t count;
    ES_TRY(es_policies_read(job, &asked, &words, &count, err));
    ES_TRY(ES_JOB_NEW(job, s->policies, count, err));
    for (int64_t i = 0; i < count; i++) {
        es_policy_spec spec = words[i].spec;
        if (p->no_query_scores && !es_policy_deployable(spec.policy))
            continue;
        if (es_policy_inputs(spec.policy) & ES_POLICY_MEASURED ||
            spec.policy == es_policy_find("full"))
            return es_fail(err, ES_E_UNSUPPORTED, "policy.measured", "leave it out",
                           "policy %s has no number of keys to choose",
                           es_policy_name(spec.policy));
        spec.keys = 1;
        ES_TRY(es_policy_spec_check(&spec, s->config->causal, err));
        s->policies[s->P++] = spec;
    }
    if (!s->P)
        return es_refuse(err, "budget.policy", "--policy stream,heavy,observe,random",
                         "--no-query-scores leaves none of the policies");
    return ES_OK;
}

/* Risks are computed at BUDGET_POINTS numbers of keys, from 1/64 of the keys that a query sees,
 * each about 1.5 times the previous one, and at all keys, where drawing with replacement still has
 * a risk. A unit may have one of five times as many numbers. */
enum { BETWEEN = 5, LEAST = 64 };

/* Lists the numbers of keys at which risks of a layer are computed, a geometric grid: out
 * (BUDGET_POINTS + 1), all that is left of it `sees`. Returns how many differ. */
static int64_t list_keys(int64_t sees, int64_t *out)
{
    const double n = (double)sees, low = fmax(1.0, n / LEAST);
    const double step = pow(0.66 * n / low, 1.0 / (BUDGET_POINTS - 1));
    int64_t count = 0;
    for (int i = 0; i < BUDGET_POINTS; i++) {
        const int64_t keys = (int64_t)floor(low * pow(step, i) + 0.5);
        if (!count || keys > out[count - 1])
            out[count++] = keys;
    }
    const int64_t different = count + (out[count - 1] < sees);
    while (count < BUDGET_POINTS + 1)
        out[count++] = sees;
    return different;
}

/* Lists the numbers of keys that a unit may have, between which risks are interpolated: out
 * (BUDGET_POINTS BETWEEN + 2). Returns how many they are. */
static int64_t list_options(int64_t sees, int64_t *out)
{
    const double n = (double)sees, low = fmax(1.0, n / LEAST);
    int64_t count = 0;
    for (int i = 0; i < BUDGET_POINTS * BETWEEN; i++) {
        const int64_t keys =
            (int64_t)floor(low * pow(n / low, (double)i / (BUDGET_POINTS * BETWEEN)) + 0.5);
        if (!count || keys > out[count - 1])
            out[count++] = keys;
    }
    if (out[count - 1] < sees)
        out[count++] = sees;
    return count;
}

/* Makes the numbers of keys of all layers. Layers that see fewer keys than others may have fewer
 * numbers, and repeat the last. */
static es_status make_grids(es_job *job, budget_state *s, es_error *err)
{
    const int64_t L = s->config->layers;
    int64_t *keys, *options;
    ES_TRY(ES_JOB_NEW(job, s->grids, L, err));
    ES_TRY(ES_JOB_NEW_2D(job, keys, L, BUDGET_POINTS + 1, err));
    ES_TRY(ES_JOB_NEW_2D(job, options, L, BUDGET_POINTS * BETWEEN + 2, err));
    for (int64_t l = 0; l < L; l++) {
        budget_grid *grid = &s->grids[l];
        grid->sees = es_past_most(es_past_of(s->config, l), s->n);
        grid->options = options + l * (BUDGET_POINTS * BETWEEN + 2);
        grid->n_options = list_options(grid->sees, grid->options);
        const int64_t K = list_keys(grid->sees, keys + l * (BUDGET_POINTS + 1));
        s->K = K > s->K ? K : s->K;
        s->n_options = grid->n_options > s->n_options ? grid->n_options : s->n_options;
    }
    ES_TRY(ES_JOB_NEW_2D(job, s->keys, L, s->K, err));
    for (int64_t l = 0; l < L; l++) {
        memcpy(s->keys + l * s->K, keys + l * (BUDGET_POINTS + 1), (size_t)s->K * sizeof *keys);
        s->grids[l].keys = s->keys + l * s->K;
    }
    return ES_OK;
}

/* Gives every layer its policies. In one whose window is shorter than the context they have no
 * sinks: late queries do not see the first keys, and the oldest keys of the window are no sinks. */
static es_status make_layer_policies(es_job *job, budget_state *s, es_error *err)
{
    const es_policy_spec *asked = s->policies;
    ES_TRY(ES_JOB_NEW_2D(job, s->policies, s->config->layers, s->P, err));
    for (int64_t i = 0; i < s->config->layers * s->P; i++) {
        s->policies[i] = asked[i % s->P];
        if (s->grids[i / s->P].sees < s->n &&
            es_policy_parts(s->policies[i].policy) & ES_PART_SINKS)
            s->policies[i].sinks = 0;
    }
    return ES_OK;
}

/* Fails if --ratio or --keys is outside what units can keep. */
static es_status check_amount(const budget_params *p, const budget_state *s, es_error *err)
{
    const double all = budget_all_keys(s), least = budget_least_keys(s);
    const double total = p->keys ? (double)p->keys : p->ratio * all;
    if (isnan(total) || (total >= least && total <= all))
        return ES_OK;
    return es_refuse(
        err, "budget.amount", "a share of the keys from 1/64 to 1",
        "%.15g keys in all: a plan keeps %.0f to %.0f (%lld key-value heads, up to %lld "
        "keys each)",
        total, least, all, (long long)s->units, (long long)budget_most_seen(s));
}

/* Adds one allocation at one ratio to what is verified (0: the plan's own). */
static void add_setting(budget_state *s, budget_allocation allocation, double ratio)
{
    s->settings[s->n_settings++] = (budget_setting){allocation, ratio};
}

/* Lists what is verified: the plan, its rivals, and the same at each ratio of --frontier. */
static es_status make_settings(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const int64_t ways = p->rivals ? BUDGET_ALLOCATIONS : 1;
    const int64_t most = s->verify.count > s->text.count ? s->verify.count : s->text.count;
    ES_TRY(ES_JOB_NEW_2D(job, s->scratch, 2, most, err));
    s->steps = isnan(p->error) && isnan(p->loss) ? 0 : BUDGET_STEPS;
    if (!p->verify.count && !p->tasks)
        return ES_OK;
    ES_TRY(ES_JOB_NEW_2D(job, s->settings, ways, 1 + p->frontier.count, err));
    for (int w = 0; w < ways; w++)
        add_setting(s, (budget_allocation)w, 0.0);
    for (int64_t i = 0; i < p->frontier.count && p->everywhere; i++)
        for (int w = 0; w < ways; w++)
            if (p->frontier.reals[i] != p->ratio && budget_is_reachable(s, p->frontier.reals[i]))
                add_setting(s, (budget_allocation)w, p->frontier.reals[i]);
    return ES_OK;
}

/* ---- study ---- */

/* Opens the study: options, model, policies, texts, grid, settings, then the stages. */
static es_status open_study(es_job *job, es_error *err)
{
    const budget_params *p = job->params;
    budget_state *s = job->state;
    s->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    ES_TRY(check_options(job, p, err));
    ES_TRY(open_model(job, p, s, err));
    s->units = s->config->layers * s->config->kv_heads;
    ES_TRY(read_policies(job, p, s, err));
    ES_TRY(budget_read_texts(job, err));
    ES_TRY(make_grids(job, s, err));
    ES_TRY(make_layer_policies(job, s, err));
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
    "esscher budget --model models/pebble --text a.txt --error 0.2 --no-query-scores --verify "
    "b.txt",
    "esscher budget --model models/pebble --text a.txt --loss 0.02 --context 1024",
    "esscher budget --model minilm-sst2 --text a.txt --ratio 0.25 --verify-tasks sst2.tsv "
    "--concat 16",
    NULL};

const es_study es_study_budget = {
    .name = "budget",
    .summary = "how many cached keys each head needs: a KV-cache plan, tested on the model",
    .group = ES_GROUP_MODEL,
    .main_options = "model text context ratio keys error loss policy verify rivals out-plan",
    .usage = "--model MODEL --text FILE (--ratio R | --keys K | --error E | --loss D) [options]",
    .about =
        "Computes for every head of a model, on a text, the exact risk of keeping m keys under "
        "each "
        "policy, in the units of the layer's output. Measures how later layers pass on the error "
        "of each layer. Then divides a number of keys among heads and layers so that the error of "
        "the last hidden state is least (THEORY 13 to 15); errors of heads and layers are assumed "
        "to be small and independent [heuristic]. Heads that share keys and values get one policy "
        "and keep one set of keys, chosen by the sum of their weights. The answer is a plan: "
        "policy and keys of each head, the predicted cost, and the bytes of the cache before and "
        "after."
        "\n\n"
        "The plan is rehearsed first: each block of the text runs through the model under the plan "
        "made from the other blocks. What sums of risks miss becomes a factor of the predictions. "
        "--error and --loss are met in the same way: two trial plans run through the model before "
        "the final one."
        "\n\n"
        "--verify runs the plan through the model on held-out text. It measures the error of each "
        "layer's attention and of each hidden state, extra loss, KL and agreement of the next "
        "token, beside the predictions. If the result exceeds --error or --loss beyond its 95 % "
        "interval, the exit code is 1. --rivals tests the same number of keys divided evenly, "
        "falling with depth (PyramidKV), and by mass (Ada-KV)."
        "\n\n"
        "Averages over a block of a causal model are over its second half, where the cache is at "
        "least half full; those of an encoder are over all positions. Errors are shares of the "
        "spread, the root mean square distance from the mean over tokens. A plan is valid for one "
        "context and for texts like the one it was made from. Its numbers are about the next "
        "token, not about retrieval."
        "\n\n"
        "Eviction is not simulated: heavy and observe choose keys anew for each query, so that a "
        "dropped key may come back. For prompt compression, a plan for such a rolling cache was "
        "worse than uniform. docs/BUDGET.md has the numbers and further limits.",
    .examples = examples,
    .params = params,
    .size = sizeof(budget_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION | ES_TAKES_HEADS,
    .csv = "heads",
    .state = sizeof(budget_state),
    .open = open_study,
    .cost = budget_cost,
    .summarise = budget_summarise,
    .close = close_study};
