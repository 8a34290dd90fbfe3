/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `loss`: parameters, stages of cells, and their cost. */
#include "experiments/loss/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "model/model.h"
#include "model/plan.h"
#include "store/file.h"

/* ---- parameters ---- */

#define FIELD(member) .field = offsetof(loss_params, member)
static const es_param params[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "a causal model: folder of a checkpoint, or org/name in the cache of the Hugging Face hub; "
     "the "
     "folder has config.json, model.safetensors and tokenizer.json",
     FIELD(model)},
    {"text", 0, ES_PARAM_FILES, "FILE", "text to predict, UTF-8; each file begins a new block",
     FIELD(texts), .several = true},
    {"ids", 0, ES_PARAM_FILE, "I.npy",
     "instead of text, token ids (n) or (blocks, n); nothing is put before them", FIELD(ids)},
    {"block", 0, ES_PARAM_WHOLE, "N", "tokens of a block, the start token included", FIELD(block),
     .min = 2, .max = 1e9, .unit = "tokens",
     .default_note = "the model's positions; above 2048, as many as leave 8 blocks of the text"},
    {"context", 0, ES_PARAM_COUNTS, "GRID",
     "with --rope, instead of --block: places that divide a block in tables of the loss; the last "
     "one is the length of a block",
     FIELD(context), .min = 2, .max = 1e9, .unit = "tokens", .increasing = true},
    {"blocks", 0, ES_PARAM_WHOLE, "COUNT", "blocks of the text, taken evenly from all of it",
     FIELD(blocks), .min = 1, .max = 1e9,
     .default_note = "all there are, or what takes about five minutes on two cores"},
    ES_BLOCKS_FROM_PARAM(loss_params, from),
    {"start", 0, ES_PARAM_TEXT, "ID", "the id that begins each block, or none", FIELD(start),
     .default_note = "what the tokenizer puts before a text, else its bos_token"},
    {"window", 0, ES_PARAM_COUNTS, "GRID",
     "each query sees the last W keys, its own included; runs every number given. With --policy, "
     "one number: the policy's window",
     FIELD(window), .min = 1, .max = 1e12, .unit = "keys", .increasing = true},
    {"sinks", 0, ES_PARAM_COUNTS, "GRID",
     "with --window: also the first G keys of a block; runs every number given. 0 and a larger "
     "number always run, to separate the cost of lost context from that of lost sinks",
     FIELD(sinks), .min = 0, .max = 1e12, .unit = "keys", .increasing = true,
     .default_note = "0,4; with --policy its published value"},
    ES_POLICY_LIST_PARAMS(loss_params, policy, NULL,
                          "what --window, --sinks and --random add up to, or an eighth"),
    ES_POLICY_PART_PARAMS(loss_params, policy),
    ES_PLAN_PARAM(loss_params, plan),
    ES_CACHE_PARAMS(loss_params, cache),
    {"kl", 0, ES_PARAM_FLAG, NULL,
     "also measure KL(full || setting) of the next token and the share of tokens whose most likely "
     "successor stays the same; always on with a cache and with --against",
     FIELD(kl)},
    {"against", 0, ES_PARAM_MODEL, "MODEL",
     "another checkpoint with the same vocabulary, for example a quantised copy: what it costs",
     FIELD(against)},
    {"rope", 0, ES_PARAM_TEXT, "LIST",
     "stretch rotary positions, which allows blocks longer than the model's positions; separated "
     "by "
     "commas, each with each of --score-scale. none: as the checkpoint has them, always run; "
     "linear:F: positions divided by F; ntk:F: base theta times F^(w/(w-2)), w channels that turn; "
     "yarn:F: YaRN by the factor F; base:X: theta is X",
     FIELD(rope)},
    {"score-scale", 0, ES_PARAM_TEXT, "LIST",
     "factors on the scores of the query at position i, counted from 1, separated by commas. none: "
     "1; log: ln i / ln R, softer before position R and sharper after it; logn: like log, but 1 up "
     "to R; yarn: (1 + 0.1 ln(N/R))^2 in a block of N; llama4: 1 + B ln(1 + floor((i-1)/M)), B 0.1 "
     "and M 8192 unless given by llama4:beta=B:n0=M; or a number",
     FIELD(score_scale), .default_note = "none"},
    {"reference", 0, ES_PARAM_WHOLE, "R",
     "context R that the model was trained on, of --score-scale and --rope", FIELD(reference),
     .min = 2, .max = 1e12, .unit = "tokens",
     .default_note =
         "what the checkpoint states; for logn and yarn an eighth of the block, if that "
         "is not longer"},
    {"enough", 0, ES_PARAM_NUMBER, "NATS",
     "a window is enough if it costs less than this, in nats per token", FIELD(enough), .min = 1e-9,
     .max = 100.0, .default_value = "0.01"},
    {"per-token", 0, ES_PARAM_OUTPUT, "FILE.npy",
     "also write the loss of every token (tokens), block after block, in nats", FIELD(per_token)},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(allow_trailing),
     .not_in_fingerprint = true},
    ES_INVALID_PARAM(loss_params, invalid),
    {0}};

/* ---- model ---- */

/* Fails for options that do not go with --rope, and for --context without it. */
static es_status check_rope(const loss_params *p, es_error *err)
{
    const char *other = p->policy.names             ? "--policy"
                        : p->plan                   ? "--plan"
                        : es_cache_asked(&p->cache) ? "a cache"
                        : p->against                ? "--against"
                                                    : NULL;
    if (p->context.count && (!p->rope || p->block))
        return es_refuse(err, "loss.context",
                         p->block ? "leave --block out: the last number of --context is the block"
                                  : "--rope ntk:4 --context 2048,8192",
                         p->block ? "--context and --block exclude each other"
                                  : "--context needs --rope");
    if (p->context.count >= LOSS_BINS)
        return es_refuse(err, "loss.context", "use fewer", "--context has %lld numbers, above %d",
                         (long long)p->context.count, LOSS_BINS - 1);
    if (p->rope && other)
        return es_refuse(err, "loss.rope", "--rope goes with --window, --score-scale and --kl",
                         "--rope and %s exclude each other", other);
    if (p->rope && !p->context.count && !p->block)
        return es_refuse(err, "loss.rope", "--context 2048,8192, or --block 8192",
                         "--rope needs --context or --block: how far to stretch");
    return ES_OK;
}

/* Fails for missing options and options that exclude each other. */
static es_status check_options(const es_job *job, const loss_params *p, es_error *err)
{
    if (!p->model)
        return es_refuse(err, "loss.options", "--model MODEL: a folder, or org/name",
                         "missing --model");
    if (!p->texts.count == !p->ids)
        return es_refuse(err, "loss.options", "--text FILE, or --ids I.npy",
                         p->ids ? "--text and --ids exclude each other" : "missing --text");
    if (p->ids && p->start)
        return es_refuse(err, "loss.options", "leave it out",
                         "--start is for text: ids are taken as they are");
    ES_TRY(es_cache_params_check(job, &p->cache, &p->policy, err));
    if (!p->policy.names && !p->plan && es_params_given(job->given, "keys"))
        return es_refuse(err, "loss.options", "--policy top --keys 64, or --window 64",
                         "--keys is for --policy");
    if (!p->policy.names && !p->plan && p->sinks.count && !p->window.count)
        return es_refuse(err, "loss.options", "--window 256 --sinks 4",
                         "--sinks stand beside --window or --policy");
    if (p->policy.names && (p->window.count > 1 || p->sinks.count > 1))
        return es_refuse(err, "loss.options", "one number, or no --policy",
                         "with --policy, --window and --sinks are parts of it, one number each");
    ES_TRY(check_rope(p, err));
    return p->per_token ? es_file_may_create(p->per_token, job->force, err) : ES_OK;
}

/* Opens the model. Refuses encoders, whose tokens see the tokens after them, and checkpoints
 * without output embeddings. */
static es_status open_model(es_job *job, const loss_params *p, loss_state *s, es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .budget = job->exec.budget,
                                .allow_trailing = p->allow_trailing};
    ES_TRY(es_job_model(job, p->model, &opts, &s->model, err));
    s->config = es_model_config_of(s->model);
    if (p->against)
        ES_TRY(es_job_model(job, p->against, &opts, &s->other, err));
    if (!s->config->causal)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_model_folder(s->model), -1, "loss.causal",
                            "use a decoder (llama, qwen3, gemma3, ...; docs/MODELS.md); for an "
                            "encoder: esscher downstream",
                            "a %s model is an encoder: its tokens see those after them, and it "
                            "predicts no next one",
                            s->config->model_type);
    if (!s->config->predicts)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_model_folder(s->model), -1, "loss.head",
                            "use a checkpoint with its lm_head",
                            "the checkpoint has no output embeddings, so it predicts no token");
    return ES_OK;
}

/* Fails unless both tokenizers have the same token for every id. */
static es_status check_tokens(const es_job *job, es_error *err)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    es_tokenizer *both[2] = {NULL, NULL};
    es_mem_limit *budget = job->exec.budget;
    es_status status = es_tokenizer_open(es_model_folder(s->model), budget, &both[0], err);
    if (status == ES_OK)
        status = es_tokenizer_open(es_model_folder(s->other), budget, &both[1], err);
    for (int64_t id = 0; id < s->config->vocab && status == ES_OK; id++) {
        const char *own = es_tokenizer_token(both[0], id), *its = es_tokenizer_token(both[1], id);
        if (!own != !its || (own && strcmp(own, its) != 0))
            status = es_refuse(err, "loss.against", "name a copy of the same model",
                               "--against %s has another tokenizer: token %lld is \"%.40s\", not "
                               "\"%.40s\"",
                               p->against, (long long)id, its ? its : "", own ? own : "");
    }
    es_tokenizer_free(both[0]);
    es_tokenizer_free(both[1]);
    return status;
}

/* Fails unless the model of --against predicts the same tokens. Vocabularies are compared by their
 * sizes and, if both models have a tokenizer, token by token. */
static es_status check_other(const es_job *job, es_error *err)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    const es_model_config *c = es_model_config_of(s->other);
    if (!c->predicts)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_model_folder(s->other), -1, "loss.head",
                            "use a decoder with its lm_head", "--against predicts no token");
    if (c->vocab != s->config->vocab)
        return es_refuse(err, "loss.against", "name a copy of the same model",
                         "--against %s has %lld tokens, --model %s has %lld", p->against,
                         (long long)c->vocab, p->model, (long long)s->config->vocab);
    if (c->positions < s->longest)
        return es_refuse(err, "loss.against", "a smaller --block",
                         "blocks of %lld ids; --against %s has %lld positions",
                         (long long)s->longest, p->against, (long long)c->positions);
    return es_tokenizer_memory(es_model_folder(s->other)) &&
                   es_tokenizer_memory(es_model_folder(s->model))
               ? check_tokens(job, err)
               : ES_OK;
}

/* ---- cells ---- */

int64_t loss_length(const loss_state *s, int64_t block)
{
    return s->text.start[block + 1] - s->text.start[block];
}

int64_t loss_late(const loss_state *s) { return s->longest / 2; }

/* Returns the places of the longest block that are compared. */
static int64_t compared(const loss_state *s) { return s->compares ? s->longest - s->from : 0; }

/* Returns the rows of a cell: the losses of a block's tokens, padded with zeros to the longest
 * block; the entropies of the layers; the keys of a query; divergences and agreements. */
static int64_t cell_rows(const loss_state *s)
{
    return s->longest - 1 + s->config->layers + 1 + 2 * compared(s);
}

const double *loss_tokens(const es_job *job, int64_t setting, int64_t block)
{
    const loss_state *s = job->state;
    return es_job_numbers(job, LOSS_SETTINGS, block * s->count + setting);
}

const double *loss_entropy(const es_job *job, int64_t setting, int64_t block)
{
    const loss_state *s = job->state;
    return loss_tokens(job, setting, block) + s->longest - 1;
}

double loss_keys(const es_job *job, int64_t setting, int64_t block)
{
    const loss_state *s = job->state;
    return loss_entropy(job, setting, block)[s->config->layers];
}

const double *loss_change(const es_job *job, int64_t setting, int64_t block)
{
    const loss_state *s = job->state;
    return loss_entropy(job, setting, block) + s->config->layers + 1;
}

const double *loss_agreement(const es_job *job, int64_t setting, int64_t block)
{
    return loss_change(job, setting, block) + compared(job->state);
}

const double *loss_fresh(const es_job *job, int64_t fresh, int64_t block)
{
    const loss_state *s = job->state;
    return es_job_numbers(job, LOSS_FRESH, fresh * s->text.count + block);
}

/* Returns a block of text for the model. */
static es_loss_block block_of(const es_job *job, int64_t block)
{
    const loss_state *s = job->state;
    return (es_loss_block){.model = s->model,
                           .ids = s->text.ids + s->text.start[block],
                           .n = loss_length(s, block),
                           .number = block,
                           .seed = job->seed,
                           .rotary = s->settings[0].lab.rotary};
}

/* Runs one setting on one block: loss of each token, entropy by layer, keys, divergences. A block
 * that ends before the prompt does has nothing to compare, and prompt mode drops nothing of it. */
static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    const loss_state *s = job->state;
    const int64_t setting = cell % s->count;
    const es_loss_block b = block_of(job, cell / s->count);
    const es_loss_setting *lab = &s->settings[setting].lab;
    loss_cell out = {.nll = record};
    out.entropy = out.nll + s->longest - 1;
    out.keys = out.entropy + s->config->layers;
    out.kl = out.keys + 1;
    out.agree = out.kl + compared(s);
    memset(record, 0, (size_t)cell_rows(s) * sizeof *out.nll);
    if (b.n < 2)
        return ES_OK;
    if (s->compares && b.n > s->from)
        return setting ? loss_run_beside(s, &b, lab, exec, &out, err)
                       : loss_copy_full(s, &b, exec, &out, err);
    const bool whole = lab->cache && lab->cache->mode == ES_EVICT_PROMPT;
    return es_loss_run(&b, whole ? &s->settings[0].lab : lab, exec, out.nll, out.entropy, out.keys,
                       err);
}

/* Runs the last tokens of a block as texts of their own, which shows what a window loses by
 * forgetting, not by position. */
static es_status run_fresh(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const loss_state *s = job->state;
    const es_loss_block b = block_of(job, cell % s->text.count);
    const es_fresh_text fresh = {.window = s->fresh[cell / s->text.count],
                                 .from = loss_late(s),
                                 .start = s->start,
                                 .n_start = s->n_start};
    memset(out, 0, (size_t)(s->longest - loss_late(s)) * sizeof *out);
    return es_loss_fresh(&b, &fresh, exec, out, err);
}

/* ---- what it takes ---- */

/* Returns the operations of a block; two heads make the logits that are compared. At 25 operations
 * per nanosecond a policy takes 2 microseconds per query and 40 ns per pair of query and key
 * (measured with downstream). */
static double block_flops(const loss_state *s, const es_loss_setting *lab, int64_t n)
{
    static const es_loss_setting full = {0};
    const es_model_cost cost =
        es_model_cost_of(s->config, es_model_precision(s->model), n, 1, true);
    const double keys = es_window_keys(lab, n) / es_window_keys(&full, n), N = (double)n;
    const double heads = (double)(s->config->layers * s->config->heads);
    const double policy =
        lab->policy.policy || lab->plan ? heads * (N * N / 2.0 * 1000.0 + N * 50000.0) : 0.0;
    const bool decode = lab->cache && lab->cache->mode == ES_EVICT_DECODE;
    const double attention = decode ? 3.0 : keys, late = fmax((double)(n - s->from), 0.0);
    const double logits =
        s->compares ? 4.0 * late * (double)(s->config->hidden * s->config->vocab) : 0.0;
    return ES_FORWARD_SLOWNESS * (cost.products + attention * cost.attention + logits) + policy;
}

/* Returns the operations of one setting over all blocks. */
static double setting_flops(const loss_state *s, int64_t setting)
{
    double flops = 0.0;
    for (int64_t b = 0; b < s->text.count; b++)
        flops += block_flops(s, &s->settings[setting].lab, loss_length(s, b));
    return flops;
}

/* Returns the work of a block's late tokens in fresh texts of 2 W tokens; the block has n. */
static double fresh_flops(const loss_state *s, int64_t fresh, int64_t n)
{
    static const es_loss_setting full = {0};
    const int64_t W = s->fresh[fresh], late = n - n / 2;
    return ceil((double)late / (double)W) * block_flops(s, &full, 2 * W);
}

double loss_block_work(const loss_state *s, int64_t n)
{
    double flops = 0.0;
    for (int64_t i = 0; i < s->count; i++)
        flops += block_flops(s, &s->settings[i].lab, n);
    for (int64_t i = 0; i < s->n_fresh; i++)
        flops += fresh_flops(s, i, n);
    return flops;
}

/* Returns the cost of a cell in units of the mean block with full attention. */
static double cell_weight(const es_job *job, int64_t cell)
{
    const loss_state *s = job->state;
    const double n = (double)s->text.count;
    return block_flops(s, &s->settings[cell % s->count].lab, loss_length(s, cell / s->count)) /
           (setting_flops(s, 0) / n);
}

/* Runs cells side by side if there are many of them; otherwise all threads share a block, and the
 * layers that a streamed model decodes for it. */
static bool side_by_side(const loss_state *s)
{
    return s->count * s->text.count >= 16 && s->config->weights != ES_WEIGHTS_STREAMED;
}

/* Returns what a pass of the model of --against takes. */
static double other_bytes(const es_job *job, int threads)
{
    const loss_state *s = job->state;
    return s->other ? es_model_cost_of(es_model_config_of(s->other), job->precision, s->longest,
                                       threads, true)
                          .bytes
                    : 0.0;
}

/* Returns the memory of a comparison: states of both, a strip of logits, the cache. The full
 * model's pass, which cells share, counts once for each thread that computes cells. */
static double compared_bytes(const es_job *job)
{
    const loss_state *s = job->state;
    const int threads = side_by_side(s) ? 1 : job->exec.threads;
    const double item = (double)es_dtype_size(job->precision), n = (double)s->longest;
    double cache = 0.0, states = (double)s->config->hidden, strips = 0.0;
    if (!s->compares)
        return 0.0;
    for (int64_t i = 0; i < s->caches.count; i++)
        cache = fmax(cache, es_cache_bytes(&s->caches.at[i], s->config, job->precision, s->longest,
                                           threads));
    states += (double)(s->other ? es_model_config_of(s->other) : s->config)->hidden;
    strips = es_divergence_bytes(s->config, job->precision, s->longest - s->from, threads);
    if (s->other)
        strips = fmax(strips, es_divergence_bytes(es_model_config_of(s->other), job->precision,
                                                  s->longest - s->from, threads));
    return n * (states * item + 8.0) + strips + cache + other_bytes(job, threads);
}

/* Returns the scratch memory. Threads that share a block need no more than one thread; a policy
 * adds scores, weights and choices of a head's queries. */
static double work_bytes(const es_job *job)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const double sides = side_by_side(s) ? (double)job->exec.threads : 1.0;
    const es_model_cost one = es_model_cost_of(s->config, job->precision, s->longest, 1, true);
    const es_model_cost all =
        es_model_cost_of(s->config, job->precision, s->longest, job->exec.threads, true);
    const double policy =
        es_model_sparse_bytes(s->config, s->longest, es_plan_span(&p->policy, s->plan));
    return fmax(all.bytes, sides * one.bytes) + sides * (policy + compared_bytes(job)) + 1e6;
}

/* Returns the cost of all settings and of texts of their own. */
static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const loss_state *s = job->state;
    double flops = 0.0;
    (void)err;
    for (int64_t i = 0; i < s->count; i++)
        flops += setting_flops(s, i);
    for (int64_t i = 0; i < s->n_fresh; i++)
        flops += (double)s->text.count * fresh_flops(s, i, s->longest);
    *out = (es_cost){.flops = flops,
                     .output_bytes = 8.0 * (double)s->tokens + 4096.0 * (double)s->count,
                     .work_bytes = work_bytes(job) + 8.0 * (double)s->tokens};
    return ES_OK;
}

/* ---- all together ---- */

static const char *const cell_columns[] = {"number"};

/* Reads the text in blocks and makes the settings for their length. */
static es_status prepare(es_job *job, es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    ES_TRY(loss_read_text(job, err));
    if (s->plan)
        ES_TRY(es_plan_fits(s->plan, p->plan, s->longest, err));
    if (s->other)
        ES_TRY(check_other(job, err));
    return loss_make_settings(job, err);
}

/* Opens the study: options, model, plan, text, settings, then the stages. If the usual blocks are
 * too much work, text and settings are made again of those that were chosen. */
static es_status open_study(es_job *job, es_error *err)
{
    loss_params *p = job->params;
    loss_state *s = job->state;
    ES_TRY(check_options(job, p, err));
    if (p->context.count)
        p->block = p->context.counts[p->context.count - 1];
    ES_TRY(open_model(job, p, s, err));
    ES_TRY(loss_read_ropes(job, err));
    if (p->plan)
        ES_TRY(es_plan_open_any(job, p->plan, s->config, &s->plan, err));
    ES_TRY(prepare(job, err));
    if (loss_choose_sizes(job))
        ES_TRY(prepare(job, err));
    if (!p->ids && s->n_start)
        es_answer_count(job->answer, "start_id", s->start[0]);
    ES_TRY(ES_JOB_NEW(job, s->sums, s->text.count, err));
    ES_TRY(es_job_stage(
        job,
        &(es_stage){"settings", .phase = "predicting text", .noun = "blocks and settings",
                    .cells = s->count * s->text.count, .rows = cell_rows(s), .cols = 1,
                    .columns = cell_columns, .one_thread_per_cell = side_by_side(s),
                    .flops = setting_flops(s, 0) / (double)s->text.count,
                    .weight = side_by_side(s) ? NULL : cell_weight, .run = run_cell},
        err));
    return es_job_stage(
        job,
        &(es_stage){"fresh", .phase = "predicting fresh texts", .noun = "blocks and windows",
                    .cells = s->n_fresh * s->text.count, .rows = s->longest - loss_late(s),
                    .cols = 1, .columns = cell_columns, .one_thread_per_cell = side_by_side(s),
                    .flops = s->n_fresh ? fresh_flops(s, 0, s->longest) : 0.0, .run = run_fresh},
        err);
}

/* Prepares for the full model's passes. Checks that the weights, which are read by now, are those
 * that the plan was made for. */
static es_status begin_study(es_job *job, es_error *err)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    if (s->compares)
        ES_TRY(loss_fulls_new(job, side_by_side(s) ? job->exec.threads : 1, err));
    return s->plan ? es_blame_file(es_plan_check_weights(s->plan, s->model, &job->exec, err),
                                   p->plan, err)
                   : ES_OK;
}

/* Frees plan, text, tokenizer and model. */
static void close_study(es_job *job)
{
    loss_state *s = job->state;
    loss_fulls_free(s->fulls);
    es_plan_free(s->plan);
    es_blocks_free(&s->text);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
    es_model_close(s->other);
}

static const char *const examples[] = {
    "esscher loss --model models/pebble --text book.txt",
    "esscher loss --model models/pebble --text book.txt --window 16,64,256,1024 --blocks 8",
    "esscher loss --model models/pebble --text book.txt --policy top,heavy --keys 32,128 --blocks "
    "4",
    "esscher loss --model models/pebble --text book.txt --plan pebble.plan.json",
    "esscher loss --model models/pebble --text book.txt --block 1024 --evict prompt --policy "
    "h2o,snapkv,stream --ratio 1/8,1/4 --blocks 8",
    "esscher loss --model models/pebble --text book.txt --kv-type q8_0 q4_0 q4_0,q8_0 --blocks 8",
    "esscher loss --model models/pebble --text book.txt --score-scale log,yarn",
    "esscher loss --model models/pebble --text book.txt --rope none,linear:4,ntk:4,yarn:4 "
    "--context "
    "2048,8192 --blocks 8",
    "esscher loss --model models/pebble --ids ids.npy --per-token nll.npy --json",
    NULL};

const es_study es_study_loss = {
    .name = "loss",
    .summary = "a decoder's loss with less context, evicted keys or a quantised KV cache",
    .group = ES_GROUP_MODEL,
    .main_options =
        "model text ids block blocks window policy keys plan evict ratio kv-type against "
        "rope context reference enough",
    .usage = "--model MODEL (--text FILE ... | --ids I.npy) [options]",
    .about =
        "Cuts text into blocks, lets a causal model predict every token of a block from those "
        "before it, and reports the mean of -ln p in nats per token, in bits per byte of text, and "
        "by position in the block. With --window, --evict, --kv-type, --rope or --against it also "
        "measures what a change of the model costs, on the same tokens. Blocks are taken evenly "
        "from the text; standard errors are over blocks."
        "\n\n"
        "--window restricts every query to its last W keys. Each window runs with and without the "
        "first 4 keys (--sinks for another number). The cost with them is what the context beyond "
        "W is worth. What a window costs more without them is the price of a lost sink. For "
        "comparison, the "
        "model also reads only the last W to 2 W - 1 tokens as a fresh text. All costs are those "
        "of the next token of this text, not of retrieval: probe --look positions shows which "
        "heads read further back. Other policies of sparse attention: --policy and --keys, as in "
        "`sparse`, or --plan, which sets the keys of every head. L(c) = A c^-beta + gamma is "
        "fitted [numerical], as in context-fit; if the losses do not determine it, the answer "
        "gives the reason."
        "\n\n"
        "--evict and --kv-type run the model with a key-value cache that drops keys for good and "
        "rounds those it keeps (docs/CACHE.md). Each setting runs beside the full model on the "
        "same blocks. Only predictions after the prompt are compared: loss, KL(full || setting) of "
        "the next token, and the share of tokens whose most likely successor stays the same. "
        "Memory does not grow with context times vocabulary. --against compares another "
        "checkpoint, for example a quantised copy, in the same way."
        "\n\n"
        "--score-scale multiplies scores by a factor that may grow with the number of keys, and "
        "compares entropy and loss with those of the full model: does a scale like log n help?"
        "\n\n"
        "--rope stretches rotary positions to contexts that the model was not trained on: which "
        "stretching predicts best beyond the trained context, by how much, and how sure is that? "
        "Blocks may then be longer than the model's positions. Differences are taken block by "
        "block; p-values hold for all pairs of settings together (Holm).",
    .examples = examples,
    .params = params,
    .size = sizeof(loss_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "rows",
    .state = sizeof(loss_state),
    .open = open_study,
    .cost = cost_of,
    .begin = begin_study,
    .summarise = loss_summarise,
    .close = close_study};
