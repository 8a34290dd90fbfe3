/* SPDX-License-Identifier: Apache-2.0 */
/* esscher encode : hidden states of one block of text or of token ids, and a decoder's logits. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/attend.h>
#include <esscher/model.h>
#include <esscher/npy.h>

#include "draft.h"
#include "encode.h"
#include "talk.h"

static const char *const invalid_names[] = {"replace", "error", "replace-all", NULL};

static const cli_option options[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "directory with config.json, model.safetensors and tokenizer, a GGUF file, or org/name in the "
     "Hugging Face cache",
     .field = offsetof(encode_options, model)},
    {"text", 0, ES_PARAM_FILE, "FILE", "a text in UTF-8, taken as one string",
     .field = offsetof(encode_options, text)},
    {"ids", 0, ES_PARAM_FILE, "I.npy",
     "token ids instead of a text: whole numbers, (n) or (1, n); no special tokens are added, and "
     "no tokenizer is needed",
     .field = offsetof(encode_options, ids)},
    {"out", 'o', ES_PARAM_OUTPUT, "H.npy", "output file for the hidden states",
     .field = offsetof(encode_options, out)},
    {"logits", 0, ES_PARAM_OUTPUT, "L.npy",
     "output file for the logits of the next token, (n, vocabulary), of a decoder",
     .field = offsetof(encode_options, logits)},
    {"layer", 0, CLI_STRING, "L",
     "which hidden state: 0 (embeddings) to the number of layers (last), or all: (layers + 1, n, "
     "hidden)",
     .field = offsetof(encode_options, layer), .default_value = "all"},
    {"block", 0, CLI_WHOLE, "B",
     "which block of a longer text, from 0 (default: 0); a block has as many tokens as the model "
     "has positions, special tokens included",
     .field = offsetof(encode_options, block), .min = 0, .max = 1e15},
    {"invalid", 0, CLI_CHOICE, "WHAT",
     "what to do with bytes that are not UTF-8; replace: use U+FFFD, but refuse a text with more "
     "than 1 % of them; error: refuse the text; replace-all: use U+FFFD for any number of them",
     .field = offsetof(encode_options, invalid), .choices = invalid_names,
     .default_value = "replace"},
    {"evict", 0, CLI_CHOICE, "MODE",
     "when the cache drops keys for good; prompt: once, every key-value head keeps --keys of the "
     "first --prompt keys; decode: after each token, to hold at most --keys",
     .field = offsetof(encode_options, evict), .choices = encode_evict_names},
    {"policy", 0, CLI_STRING, "NAME:OPTION=VALUE",
     "which keys to drop: stream, snapkv, observed, h2o, tova, knorm, keydiff, expected, random or "
     "oracle (decode: stream, h2o or tova); docs/CACHE.md lists their options",
     .field = offsetof(encode_options, policy)},
    {"keys", 0, CLI_WHOLE, "K", "keys that a key-value head keeps",
     .field = offsetof(encode_options, keys), .min = 1, .max = 1e12},
    {"prompt", 0, CLI_WHOLE, "P", "tokens of the prompt, with --evict prompt",
     .field = offsetof(encode_options, prompt), .min = 1, .max = 1e12},
    {"kv-type", 0, CLI_STRING, "K[,V]",
     "what cached keys and values are rounded to, for instance q8_0 or q4_0+hadamard,q8_0",
     .field = offsetof(encode_options, kv_type)},
    {"plan", 0, ES_PARAM_FILE, "P.json",
     "instead of --evict, --policy, --keys, --prompt and --kv-type: a plan of a cache, which says "
     "for every key-value head what it keeps (docs/FILES.md)",
     .field = offsetof(encode_options, plan)},
    {"kept", 0, ES_PARAM_OUTPUT, "FILE.json", "output file for the keys that were kept or evicted",
     .field = offsetof(encode_options, kept)},
    {"force", 0, CLI_FLAG, NULL, "overwrite an existing file",
     .field = offsetof(encode_options, force)},
    {"allow-nonfinite", 0, CLI_FLAG, NULL, "accept NaN and Inf among the weights (with a warning)",
     .field = offsetof(encode_options, allow_nonfinite)},
    {"allow-trailing", 0, CLI_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)",
     .field = offsetof(encode_options, allow_trailing)},
    {0}};

#define STATISTICS                                                                                 \
    {"entropy", "entropy", "nats", ES_FORMAT_REAL, "of the weights, mean over heads and queries"}, \
        {"top_weight", "top weight", "", ES_FORMAT_REAL, "largest weight, mean"},                  \
    {                                                                                              \
        "sum_squares", "sum w^2", "", ES_FORMAT_REAL,                                              \
            "sum of squared weights, mean; its inverse is an effective number of keys"             \
    }

static const es_column layer_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT}, STATISTICS, {0}};
static const es_table_view layer_views[] = {{"Attention in each layer"}, {0}};
static const es_table_spec layers_table = {"layers", layer_columns, layer_views};

static const es_column head_columns[] = {{"layer", "layer", "", ES_FORMAT_COUNT},
                                         {"head", "head", "", ES_FORMAT_COUNT},
                                         STATISTICS,
                                         {0}};
static const es_table_spec heads_table = {
    "heads", head_columns, NULL, .inside = "layers", .link = "layer", .only_inside = true};

static const es_column label_columns[] = {
    {"label", "label", "", ES_FORMAT_TEXT, "of config.json; LABEL_0 and so on where it names none"},
    {"logit", "logit", "", ES_FORMAT_REAL, "what the classifier gives it"},
    {"probability", "probability", "", ES_FORMAT_REAL,
     "softmax over the logits; not of a single one, which is a number, not a choice"},
    {0}};
static const es_table_view label_views[] = {{"What the classifier says"}, {0}};
static const es_table_spec labels_table = {"labels", label_columns, label_views};

/* ---- one run ---- */

/* --layer N, digits alone. Returns why not, or NULL. */
static const char *read_whole(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end || end == text || errno ? "no whole number" : NULL;
}

/* Fails because of options that do not fit together. */
static es_status refuse_options(const char *hint, const char *message, es_error *err)
{
    return cli_fail(err, ES_E_ARGUMENT, NULL, "encode.options", hint, "%s", message);
}

/* Options that contradict each other. */
static es_status check_together(const encode_options *o, es_error *err)
{
    static const char usage[] = "esscher encode --model MODEL --text FILE --out H.npy";
    if (!o->model || (!o->text && !o->ids))
        return refuse_options(usage, o->model ? "missing --text" : "missing --model", err);
    if (o->text && o->ids)
        return refuse_options("name one of them", "--text and --ids exclude each other", err);
    if (o->ids && o->block)
        return refuse_options("remove --block", "--block needs --text: --ids hold a single block",
                              err);
    if (o->out && o->logits && strcmp(o->out, o->logits) == 0)
        return refuse_options("give two names", "--out and --logits name the same file", err);
    return encode_cache_check(o, err);
}

/* ---- options ---- */

/* Checks options and output files before the model is read. */
static es_status check_options(encode_job *job, es_error *err)
{
    const encode_options *o = job->o;
    es_status status = check_together(o, err);
    job->precision = cli_kernels(job->session);
    if (status == ES_OK && o->out)
        status = cli_target_check(o->out, o->force, err);
    if (status == ES_OK && o->logits)
        status = cli_target_check(o->logits, o->force, err);
    if (status == ES_OK)
        status = es_model_locate(o->model, job->folder, sizeof job->folder, err);
    if (status != ES_OK)
        return status;
    status = es_model_config_load(job->folder, &job->config, err);
    job->layer = -1;
    if (status == ES_OK)
        status = encode_ids_most(job, err);
    if (status != ES_OK || strcmp(o->layer, "all") == 0)
        return status;
    const char *wrong = read_whole(o->layer, &job->layer);
    if (wrong || job->layer < 0 || job->layer > job->config.layers)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "encode.layer", "0 is the embeddings",
                        "--layer %.40s: this model has hidden states 0 to %lld, or all", o->layer,
                        (long long)job->config.layers);
    return ES_OK;
}

/* Estimates time and memory of the forward pass; `cache` is the memory of the cache. */
static es_cost estimate(const encode_job *job, double cache)
{
    const es_model_config *c = &job->config;
    const double n = (double)job->most, item = (double)es_dtype_size(job->precision);
    const double states = job->o->out ? (double)(c->layers + 1) * (double)c->hidden : 0.0;
    const double logits = job->o->logits ? (double)c->vocab : 0.0;
    const es_model_cost run = es_model_cost_of(c, job->precision, job->most,
                                               job->session->exec.threads, job->o->logits != NULL);
    return (es_cost){
        .flops = run.products + run.attention,
        .input_bytes = run.weights * item +
                       (job->o->text ? (double)es_tokenizer_memory(job->folder) : 8.0 * n),
        .output_bytes = n * (states + logits) * item + 24.0 * (double)(c->layers * c->heads),
        .work_bytes = run.bytes + cache + 4.0 * (double)c->positions + 1e6};
}

/* ---- the answer ---- */

/* Returns the mean of x (count). */
static double mean_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

/* Adds the attention statistics of every layer and head to the answer. */
static void put_layers(const encode_job *job)
{
    static const char *const names[] = {"entropy", "top_weight", "sum_squares"};
    const int64_t heads = job->config.heads;
    es_table *layers = es_answer_table(cli_result(job->session), &layers_table);
    es_table *all = es_answer_table(cli_result(job->session), &heads_table);
    for (int64_t l = 0; l < job->config.layers; l++) {
        es_table_count(layers, es_table_row(layers), "layer", l);
        for (int s = 0; s < 3; s++)
            es_table_real(layers, l, names[s], mean_of(job->stats[s] + l * heads, heads));
        for (int64_t h = 0; h < heads; h++) {
            const int64_t row = es_table_row(all);
            es_table_count(all, row, "layer", l);
            es_table_count(all, row, "head", h);
            for (int s = 0; s < 3; s++)
                es_table_real(all, row, names[s], job->stats[s][l * heads + h]);
        }
    }
}

/* Returns the name of a label, or LABEL_i if config.json has none. */
static const char *label_of(const encode_job *job, int64_t at, char buffer[64])
{
    if (at < ES_MODEL_LABELS && job->config.label[at][0])
        return job->config.label[at];
    snprintf(buffer, 64, "LABEL_%lld", (long long)at);
    return buffer;
}

/* Adds logits and probabilities of a classifier's labels. */
static void put_labels(const encode_job *job)
{
    char buffer[64];
    int64_t best = 0;
    double sum = 0.0;
    if (!job->logits)
        return;
    for (int64_t i = 0; i < job->labels; i++)
        best = job->logits[i] > job->logits[best] ? i : best;
    for (int64_t i = 0; i < job->labels; i++)
        sum += exp(job->logits[i] - job->logits[best]);
    es_table *t = es_answer_table(cli_result(job->session), &labels_table);
    for (int64_t i = 0; i < job->labels; i++) {
        es_table_text(t, es_table_row(t), "label", label_of(job, i, buffer));
        es_table_real(t, i, "logit", job->logits[i]);
        if (job->labels > 1)
            es_table_real(t, i, "probability", exp(job->logits[i] - job->logits[best]) / sum);
    }
    if (job->labels > 1)
        es_answer_add_finding(cli_result(job->session),
                              "The classifier says %s, with probability %.4g.",
                              label_of(job, best, buffer), 1.0 / sum);
}

/* Adds model, text and token ids to the answer. */
static void put_question(const encode_job *job)
{
    es_answer *a = cli_result(job->session);
    const block_ids *b = &job->block;
    int64_t *ids = cli_alloc_array((size_t)b->n, sizeof *ids);
    for (int64_t i = 0; i < b->n; i++)
        ids[i] = b->ids[i];
    es_answer_provenance(a, "precision", es_dtype_name(job->precision));
    es_answer_text(a, "model", job->o->model);
    if (job->o->text) {
        es_answer_text(a, "text", job->o->text);
        es_answer_count(a, "text_tokens", b->total);
        es_answer_count(a, "blocks", (b->total + job->capacity - 1) / job->capacity);
        es_answer_count(a, "block", job->o->block);
    } else {
        es_answer_text(a, "ids_file", job->o->ids);
    }
    es_answer_counts(a, "ids", ids, b->n);
    free(ids);
}

/* Writes the hidden states as .npy. */
static es_status save(const encode_job *job, es_error *err)
{
    const int64_t n = job->block.n, H = job->config.hidden, all = job->layer < 0;
    const int64_t shape[3] = {job->config.layers + 1, n, H};
    const char *from = job->hidden;
    es_answer_counts(cli_result(job->session), "shape", all ? shape : shape + 1, all ? 3 : 2);
    if (job->o->logits) {
        const int64_t each[2] = {n, job->config.vocab};
        es_answer_text(cli_result(job->session), "logits_file", job->o->logits);
        const es_status status = es_npy_save(job->o->logits, job->precision, 2, each,
                                             job->token_logits, job->o->force, err);
        if (status != ES_OK)
            return status;
    }
    if (!job->o->out)
        return ES_OK;
    es_answer_text(cli_result(job->session), "out", job->o->out);
    if (!all)
        from += (size_t)(job->layer * n * H) * es_dtype_size(job->precision);
    return es_npy_save(job->o->out, job->precision, all ? 3 : 2, all ? shape : shape + 1, from,
                       job->o->force, err);
}

/* ---- the command ---- */

/* Fails if the model predicts no next token. Only its weights show that. */
static es_status check_predicts(const encode_job *job, const es_model *model, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    if (!job->o->logits || c->predicts)
        return ES_OK;
    return cli_fail(err, ES_E_ARGUMENT, job->folder, "encode.logits", "leave --logits out",
                    "the model predicts no next token: %s",
                    c->causal ? "its checkpoint has no matrix for it, and its embeddings are not "
                                "tied"
                              : "it is an encoder");
}

/* Runs the model on the block, with buffers for everything that was asked for. */
static es_status forward(encode_job *job, const es_model *model, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    const size_t heads = (size_t)(c->layers * c->heads), item = es_dtype_size(job->precision);
    const size_t n = (size_t)job->block.n;
    if (job->o->out)
        job->hidden = cli_alloc_array((size_t)(c->layers + 1) * n * (size_t)c->hidden, item);
    if (job->o->logits)
        job->token_logits = cli_alloc_array(n * (size_t)c->vocab, item);
    for (int s = 0; s < 3; s++)
        job->stats[s] = cli_alloc_array(heads, sizeof(double));
    job->labels = c->labels;
    if (c->labels)
        job->logits = cli_alloc_array((size_t)c->labels, sizeof(double));
    const es_model_block block = {.ids = job->block.ids,
                                  .n = job->block.n,
                                  .hidden = job->hidden,
                                  .entropy = job->stats[0],
                                  .top_weight = job->stats[1],
                                  .sum_squares = job->stats[2],
                                  .logits = job->logits,
                                  .token_logits = job->token_logits,
                                  .cache = job->cache};
    es_status status = es_model_forward(model, &block, 1, &job->session->exec, err);
    if (status == ES_OK && job->logits)
        es_answer_reals(cli_result(job->session), "logits", job->logits, c->labels);
    return status;
}

/* Opens the model, runs it and writes the results. */
static es_status encode(encode_job *job, es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .allow_nonfinite = job->o->allow_nonfinite,
                                .allow_trailing = job->o->allow_trailing,
                                .threads = job->session->exec.threads,
                                .budget = &job->session->budget};
    es_model *model = NULL;
    es_status status = encode_ids_find(job, err);
    if (status == ES_OK)
        status = es_model_open(job->folder, &opts, &model, err);
    if (status == ES_OK)
        status = check_predicts(job, model, err);
    if (status == ES_OK)
        status = encode_cache_open(job, model, err);
    if (status == ES_OK) {
        put_question(job);
        status = forward(job, model, err);
    }
    es_model_close(model);
    if (status == ES_OK) {
        put_layers(job);
        put_labels(job);
        status = save(job, err);
    }
    if (status == ES_OK)
        status = encode_cache_report(job, err);
    es_cache_free(job->cache);
    return status;
}

/* Reads the block of ids, checks the cost and runs the model. */
static es_status run(cli_session *session, void *given, es_error *err)
{
    encode_job job = {.session = session, .o = given};
    double cache = 0.0;
    es_status status = check_options(&job, err);
    if (status == ES_OK)
        status = encode_cache_memory(&job, &cache, err);
    if (status != ES_OK)
        return status;
    bool done;
    const es_cost cost = estimate(&job, cache);
    status = cli_admit(session, &cost, &done, err);
    if (done)
        return status;
    if (status == ES_OK)
        status = encode(&job, err);
    free(job.block.ids);
    free(job.hidden);
    free(job.token_logits);
    for (int s = 0; s < 3; s++)
        free(job.stats[s]);
    free(job.logits);
    return status;
}

static const char *const examples[] = {
    "esscher encode --model models/minilm --text page.txt --out H.npy",
    "esscher encode --model sentence-transformers/all-MiniLM-L6-v2 --text book.txt --block 3 "
    "--layer 6 --out last.npy",
    "esscher encode --model models/pebble --ids ids.npy --out H.npy --logits L.npy --precision f64",
    "esscher encode --model models/pebble --ids ids.npy --logits L.npy --evict prompt --prompt 32 "
    "--policy snapkv:window=8:sinks=4 --keys 16 --kv-type q8_0 --kept kept.json",
    "esscher encode --model models/pebble --text page.txt --logits L.npy --plan cache.plan.json",
    NULL};

const cli_command cli_encode = {
    .name = "encode",
    .summary = "a model's hidden states, or a decoder's logits, for a text",
    .usage = "--model MODEL (--text FILE | --ids I.npy) [--out H.npy] [--logits L.npy] [options]",
    .main_options = "model text ids out logits layer evict policy keys prompt kv-type kept",
    .about =
        "Runs one block of text through a model on disk. Known models are BERT and its derivatives "
        "(MiniLM, gte, bge, e5 and classifiers), RoBERTa, ModernBERT and other encoders, and "
        "decoders (docs/MODELS.md). The tokenizer adds its special tokens ([CLS] and [SEP], or a "
        "start "
        "token) around the block; there is no padding. --ids are used as they are, so that hidden "
        "states and logits can be compared with another program: see docs/MODELS.md.\n\nH.npy "
        "holds all hidden states, (layers + 1, n, hidden), embeddings first, or one of them, (n, "
        "hidden); those of a decoder are taken before its last norm. L.npy holds the logits of the "
        "next token, (n, vocabulary). The answer lists the token ids and, for every layer and "
        "head, entropy, largest weight and sum of squared weights, averaged over the queries of "
        "the block. For a classifier it adds logits and probabilities of its labels.\n\nWith "
        "--evict, --kv-type or --plan a decoder runs as with a cache that drops or rounds keys, so "
        "that any setting can be compared with another program.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_COMPUTE,
    .size = sizeof(encode_options),
    .run = run,
};
