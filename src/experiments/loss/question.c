/* question.c : the loss of a causal model: what is asked, settings, blocks of text as cells, and
 * what it takes. */
#include "experiments/loss/question.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/pool_params.h"
#include "model/model.h"
#include "store/file.h"

/* ---- parameters ---- */

#define FIELD(member) .field = offsetof(loss_params, member)
static const es_param params[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "a causal model: folder of a checkpoint (config.json, model.safetensors, tokenizer.json), or "
     "org/name in the cache of the Hugging Face hub",
     FIELD(model)},
    {"text", 0, ES_PARAM_FILES, "FILE", "text to predict, UTF-8; each file begins a new block",
     FIELD(texts), .several = true},
    {"ids", 0, ES_PARAM_FILE, "I.npy",
     "instead of text, token ids (n) or (blocks, n), taken as they are: nothing is put before them",
     FIELD(ids)},
    {"block", 0, ES_PARAM_WHOLE, "N", "ids of a block, with the one that begins it", FIELD(block),
     .min = 2, .max = 1e9, .unit = "tokens", .default_note = "the model's positions"},
    {"blocks", 0, ES_PARAM_WHOLE, "COUNT", "blocks of the text, taken evenly from all of it",
     FIELD(blocks), .min = 1, .max = 1e9, .default_note = "all there are"},
    ES_BLOCKS_FROM_PARAM(loss_params, from),
    {"start", 0, ES_PARAM_TEXT, "ID", "the id that begins each block, or none", FIELD(start),
     .default_note = "what the tokenizer puts before a text, else its bos_token"},
    {"window", 0, ES_PARAM_COUNTS, "GRID",
     "a query sees the last W keys, its own included; each of the numbers in turn. With --policy, "
     "one number: the part of that name",
     FIELD(window), .min = 1, .max = 1e12, .unit = "keys", .increasing = true},
    {"sinks", 0, ES_PARAM_COUNTS, "GRID",
     "and the first G keys of a block; each of the numbers in turn with every window, and always 0 "
     "and one number above: what a window costs is context only if the first keys stay",
     FIELD(sinks), .min = 0, .max = 1e12, .unit = "keys", .increasing = true,
     .default_note = "0,4; with --policy what it is published with"},
    ES_POLICY_LIST_PARAMS(loss_params, policy, NULL, "what the parts below say, or an eighth"),
    ES_POLICY_PART_PARAMS(loss_params, policy),
    ES_PLAN_PARAM(loss_params, plan),
    {"score-scale", 0, ES_PARAM_TEXT, "LIST",
     "factors on the scores of the query at place i, counted from 1, with commas between them: "
     "none; log, ln i / ln R, softer before place R and sharper after it; logn, the same, but 1 up "
     "to R; yarn, (1 + 0.1 ln(N/R))^2 of a block "
     "of N; or a number",
     FIELD(score_scale), .default_note = "none"},
    {"reference", 0, ES_PARAM_WHOLE, "R", "context R of --score-scale", FIELD(reference), .min = 2,
     .max = 1e12, .unit = "tokens",
     .default_note =
         "what the model was trained on for log, an eighth of the block for logn and yarn"},
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

static es_status check_options(const es_job *job, const loss_params *p, es_error *err)
{
    if (!p->model)
        return es_refuse(err, "loss.options", "--model MODEL", "missing --model");
    if (!p->texts.count == !p->ids)
        return es_refuse(err, "loss.options", "--text FILE, or --ids I.npy",
                         p->ids ? "--text and --ids exclude each other" : "missing --text");
    if (p->ids && p->start)
        return es_refuse(err, "loss.options", "leave it out",
                         "--start is for text: ids are taken as they are");
    if (!p->policy.names && !p->plan && es_params_given(job->given, "keys"))
        return es_refuse(err, "loss.options", "--policy top --keys 64, or --window 64",
                         "--keys is for --policy");
    if (!p->policy.names && !p->plan && p->sinks.count && !p->window.count)
        return es_refuse(err, "loss.options", "--window 256 --sinks 4",
                         "--sinks stand beside --window or --policy");
    if (p->policy.names && (p->window.count > 1 || p->sinks.count > 1))
        return es_refuse(err, "loss.options", "one number, or no --policy",
                         "with --policy, --window and --sinks are parts of it, one number each");
    return p->per_token ? es_file_may_create(p->per_token, job->force, err) : ES_OK;
}

/* An encoder's tokens see what comes after them: there is nothing left to predict. */
static es_status open_model(es_job *job, const loss_params *p, loss_state *s, es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .budget = job->exec.budget,
                                .allow_trailing = p->allow_trailing};
    ES_TRY(es_job_model(job, p->model, &opts, &s->model, err));
    s->config = es_model_config_of(s->model);
    if (!s->config->causal)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_model_folder(s->model), -1, "loss.causal",
                            "bring a decoder (llama, mistral, qwen2, qwen3, gpt2, gpt_neox); what "
                            "an encoder loses with its keys: esscher downstream",
                            "a %s model is an encoder: its tokens see those after them, and it "
                            "predicts no next one",
                            s->config->model_type);
    if (!s->config->predicts)
        return es_fail_file(err, ES_E_UNSUPPORTED, es_model_folder(s->model), -1, "loss.head",
                            "bring the checkpoint with its lm_head",
                            "the checkpoint has no output embeddings, so it predicts no token");
    return ES_OK;
}

/* ---- settings ---- */

enum { MOST_SCALES = 64 };

typedef struct scales {
    es_loss_setting at[MOST_SCALES];
    char names[MOST_SCALES][LOSS_ROOM];
    int64_t count;
} scales;

/* Positions that the model was trained on: those before rotary positions were stretched. */
static double trained_context(const es_model_config *c)
{
    const es_rotary *r = &c->rotary;
    const bool stretched = r->width && *r->type && strcmp(r->type, "default") != 0;
    return stretched && r->original > 1.0 ? r->original : (double)c->positions;
}

static es_status read_scale(const es_job *job, const char *word, es_loss_setting *out,
                            es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const double n = (double)s->longest;
    char *end;
    *out = (es_loss_setting){.reference =
                                 p->reference ? (double)p->reference : trained_context(s->config)};
    if (strcmp(word, "none") == 0)
        return ES_OK;
    if (strcmp(word, "log") == 0) {
        out->scale = ES_SCALE_LOG;
        return ES_OK;
    }
    if (strcmp(word, "yarn") == 0 || strcmp(word, "logn") == 0) {
        out->scale = *word == 'y' ? ES_SCALE_YARN : ES_SCALE_LOGN;
        if (!p->reference)
            out->reference = fmax(2.0, n / 8.0);
        return ES_OK;
    }
    out->scale = ES_SCALE_FACTOR;
    out->factor = strtod(word, &end);
    if (*end || end == word || !(out->factor > 0.0 && out->factor <= 1e6))
        return es_refuse(err, "loss.scale", "none, log, logn, yarn, or a factor above 0",
                         "there is no score scale \"%s\"", word);
    return ES_OK;
}

static es_status read_scales(const es_job *job, scales *out, es_error *err)
{
    const loss_params *p = job->params;
    const char *at = p->score_scale ? p->score_scale : "none";
    for (out->count = 0; *at; out->count++) {
        const size_t length = strcspn(at, ",");
        if (out->count == MOST_SCALES || length >= LOSS_ROOM / 2)
            return es_refuse(err, "loss.scale", "ask for fewer", "too many score scales, or words");
        char *name = out->names[out->count];
        snprintf(name, LOSS_ROOM, "%.*s", (int)length, at);
        ES_TRY(read_scale(job, name, &out->at[out->count], err));
        at += length + (at[length] == ',');
    }
    return out->count ? ES_OK
                      : es_refuse(err, "loss.scale", "--score-scale log", "there is no scale");
}

/* "window 256 + 4 sinks", "top, 64 keys", "plan p.json", "full". */
static void name_keys(const es_loss_setting *lab, const char *plan, char out[LOSS_ROOM])
{
    char word[ES_POLICY_ROOM];
    if (lab->plan)
        snprintf(out, LOSS_ROOM, "%s", es_plan_word(plan, word));
    else if (lab->policy.policy)
        snprintf(out, LOSS_ROOM, "%s", es_policy_say(&lab->policy, word));
    else if (lab->window && lab->sinks)
        snprintf(out, LOSS_ROOM, "window %lld + %lld sink%s", (long long)lab->window,
                 (long long)lab->sinks, lab->sinks == 1 ? "" : "s");
    else if (lab->window)
        snprintf(out, LOSS_ROOM, "window %lld", (long long)lab->window);
    else
        snprintf(out, LOSS_ROOM, "full");
}

/* Everything that is seen, at each scale; what nothing is done to is there already. */
static void add_settings(es_job *job, const es_loss_setting *keys, const scales *list)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    for (int64_t i = 0; i < list->count; i++) {
        loss_setting *new = &s->settings[s->count];
        const es_loss_setting *scale = &list->at[i];
        if (!keys->window && !keys->policy.policy && !keys->plan && !scale->scale && s->count)
            continue;
        new->lab = *keys;
        new->lab.scale = scale->scale;
        new->lab.factor = scale->factor;
        new->lab.reference = scale->reference;
        name_keys(&new->lab, p->plan, new->name);
        snprintf(new->scale, LOSS_ROOM, "%s", list->names[i]);
        if (scale->scale) {
            const size_t used = strlen(new->name);
            snprintf(new->name + used, LOSS_ROOM - used, ", scores times %.60s", list->names[i]);
        }
        s->count++;
    }
}

enum { USUAL_SINKS = 4 };

/* Does the model itself see the first keys from the end of the longest block? */
static bool sees_sinks(const loss_state *s)
{
    return !s->config->window || s->config->window >= s->longest;
}

/* Numbers of sinks to run windows with: those asked for, and always 0 and one above, if the model
 * sees sinks: what the first keys are worth is the difference. out has room for two more than were
 * asked for. */
static int64_t list_sinks(const loss_params *p, const loss_state *s, int64_t *out)
{
    int64_t count = 0;
    out[count++] = 0;
    for (int64_t i = 0; i < p->sinks.count; i++)
        if (p->sinks.counts[i] > 0)
            out[count++] = p->sinks.counts[i];
    if (count == 1 && sees_sinks(s))
        out[count++] = USUAL_SINKS;
    return count;
}

/* One that is wider than what the model itself looks back would be another model. */
static es_status check_window(const loss_state *s, int64_t window, int64_t sinks, es_error *err)
{
    if (s->config->window && window > s->config->window)
        return es_refuse(err, "loss.window", "smaller windows",
                         "--window %lld: the model itself sees the last %lld keys",
                         (long long)window, (long long)s->config->window);
    if (sinks && !sees_sinks(s))
        return es_refuse(err, "loss.window", "--sinks 0, or shorter blocks",
                         "--sinks %lld: of blocks of %lld tokens the model itself sees the "
                         "last %lld only, and no first keys",
                         (long long)sinks, (long long)s->longest, (long long)s->config->window);
    return ES_OK;
}

/* Windows with each number of sinks; below half a block, where it is no whole block, also as fresh
 * texts, if it is known how a text begins. */
static es_status add_windows(es_job *job, const int64_t *sinks, int64_t n_sinks, const scales *list,
                             es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    for (int64_t g = 0; g < n_sinks; g++)
        for (int64_t w = 0; w < p->window.count; w++) {
            const es_loss_setting keys = {.window = p->window.counts[w], .sinks = sinks[g]};
            ES_TRY(check_window(s, keys.window, keys.sinks, err));
            add_settings(job, &keys, list);
        }
    ES_TRY(ES_JOB_NEW(job, s->fresh, p->window.count, err));
    for (int64_t w = 0; w < p->window.count; w++)
        if (2 * p->window.counts[w] < s->longest && (!p->ids || s->n_start))
            s->fresh[s->n_fresh++] = p->window.counts[w];
    return ES_OK;
}

/* The only setting that was asked for: of one window, with the sinks that were asked for or 4. */
static int64_t find_asked(const loss_params *p, const loss_state *s, int64_t n_scales)
{
    if (p->policy.names || s->plan || !p->window.count)
        return s->count == 2 ? 1 : 0;
    const bool none = p->sinks.count && p->sinks.counts[0] == 0;
    return p->window.count == 1 && p->sinks.count <= 1 && n_scales == 1 ? none ? 1 : s->count - 1
                                                                        : 0;
}

static es_status add_policies(es_job *job, const es_policies *policies, const scales *list,
                              es_error *err)
{
    for (int64_t i = 0; i < policies->count; i++) {
        const es_loss_setting keys = {.policy = policies->specs[i]};
        if (es_policy_inputs(keys.policy.policy) & ES_POLICY_MEASURED)
            return es_fail(err, ES_E_UNSUPPORTED, "policy.measured", "leave it out",
                           "policy %s keeps no set of keys", es_policy_name(keys.policy.policy));
        if (keys.policy.policy != es_policy_find("full")) /* which is there anyway */
            add_settings(job, &keys, list);
    }
    return ES_OK;
}

static es_status make_settings(es_job *job, loss_params *p, loss_state *s, es_error *err)
{
    static const es_loss_setting full = {0};
    const scales none = {.names = {"none"}, .count = 1};
    es_policies policies = {0};
    scales *asked;
    ES_TRY(ES_JOB_NEW(job, asked, 1, err));
    ES_TRY(read_scales(job, asked, err));
    if (p->policy.names) {
        p->policy.window = p->window.count ? p->window.counts[0] : 0;
        p->policy.sinks = p->sinks.count ? p->sinks.counts[0] : 0;
        ES_TRY(es_policies_make(job, &p->policy, true, s->longest, &policies, err));
    }
    int64_t *sinks;
    ES_TRY(ES_JOB_NEW(job, sinks, p->sinks.count + 2, err));
    const int64_t n_sinks = list_sinks(p, s, sinks), windows = p->window.count * n_sinks;
    ES_TRY(ES_JOB_NEW_2D(job, s->settings, 2 + windows + policies.count, asked->count, err));
    add_settings(job, &full, &none);
    if (s->plan)
        add_settings(job, &(es_loss_setting){.plan = s->plan}, asked);
    else if (p->policy.names)
        ES_TRY(add_policies(job, &policies, asked, err));
    else if (p->window.count)
        ES_TRY(add_windows(job, sinks, n_sinks, asked, err));
    else
        add_settings(job, &full, asked);
    s->asked = find_asked(p, s, asked->count);
    return ES_OK;
}

/* ---- cells ---- */

int64_t loss_length(const loss_state *s, int64_t block)
{
    return s->text.start[block + 1] - s->text.start[block];
}

int64_t loss_late(const loss_state *s) { return s->longest / 2; }

/* A cell: losses of as many tokens as the longest block has, zeros after those of a shorter one;
 * entropies of the layers; keys. */
static int64_t cell_rows(const loss_state *s) { return s->longest - 1 + s->config->layers + 1; }

const double *loss_tokens(const es_job *job, int64_t setting, int64_t block)
{
    const loss_state *s = job->state;
    return es_job_numbers(job, LOSS_BLOCKS, setting * s->text.count + block);
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

const double *loss_fresh(const es_job *job, int64_t fresh, int64_t block)
{
    const loss_state *s = job->state;
    return es_job_numbers(job, LOSS_FRESH, fresh * s->text.count + block);
}

static es_loss_block block_of(const es_job *job, int64_t block)
{
    const loss_state *s = job->state;
    return (es_loss_block){.model = s->model,
                           .ids = s->text.ids + s->text.start[block],
                           .n = loss_length(s, block),
                           .number = block,
                           .seed = job->seed};
}

static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const loss_state *s = job->state;
    const int64_t block = cell % s->text.count;
    const es_loss_block b = block_of(job, block);
    double *entropy = out + s->longest - 1;
    memset(out, 0, (size_t)cell_rows(s) * sizeof *out);
    if (b.n < 2)
        return ES_OK;
    return es_loss_run(&b, &s->settings[cell / s->text.count].lab, exec, out, entropy,
                       entropy + s->config->layers, err);
}

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

/* What a model does in the time is slower than products alone; to choose, draw and weigh takes a
 * policy 2 microseconds for each query and 40 ns for each of its keys, as downstream has timed,
 * while the model does 25 operations in a nanosecond. */
#define SLOWNESS 1.5

static double block_flops(const loss_state *s, const es_loss_setting *lab, int64_t n)
{
    static const es_loss_setting full = {0};
    const es_model_cost cost =
        es_model_cost_of(s->config, es_model_precision(s->model), n, 1, true);
    const double keys = es_window_keys(lab, n) / es_window_keys(&full, n), N = (double)n;
    const double heads = (double)(s->config->layers * s->config->heads);
    const double policy =
        lab->policy.policy || lab->plan ? heads * (N * N / 2.0 * 1000.0 + N * 50000.0) : 0.0;
    return SLOWNESS * (cost.products + keys * cost.attention) + policy;
}

static double setting_flops(const loss_state *s, int64_t setting)
{
    double flops = 0.0;
    for (int64_t b = 0; b < s->text.count; b++)
        flops += block_flops(s, &s->settings[setting].lab, loss_length(s, b));
    return flops;
}

/* A block of late tokens in texts of 2 W. */
static double fresh_flops(const loss_state *s, int64_t fresh)
{
    static const es_loss_setting full = {0};
    const int64_t W = s->fresh[fresh], late = s->longest - loss_late(s);
    return ceil((double)late / (double)W) * block_flops(s, &full, 2 * W);
}

static double cell_weight(const es_job *job, int64_t cell)
{
    const loss_state *s = job->state;
    const double n = (double)s->text.count;
    return block_flops(s, &s->settings[cell / s->text.count].lab,
                       loss_length(s, cell % s->text.count)) /
           (setting_flops(s, 0) / n);
}

/* Cells work side by side where there are many of them; else all threads share a block. */
static bool side_by_side(const loss_state *s) { return s->count * s->text.count >= 16; }

/* Threads that work on one block take what one takes, or less. A policy's head has scores, weights
 * and choices of its queries besides. */
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
    return fmax(all.bytes, sides * one.bytes) + sides * policy + 1e6;
}

static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const loss_state *s = job->state;
    double flops = 0.0;
    (void)err;
    for (int64_t i = 0; i < s->count; i++)
        flops += setting_flops(s, i);
    for (int64_t i = 0; i < s->n_fresh; i++)
        flops += (double)s->text.count * fresh_flops(s, i);
    *out = (es_cost){.flops = flops,
                     .output_bytes = 8.0 * (double)s->tokens + 4096.0 * (double)s->count,
                     .work_bytes = work_bytes(job) + 8.0 * (double)s->tokens};
    return ES_OK;
}

/* ---- all together ---- */

static const char *const cell_columns[] = {"number"};

static es_status open_study(es_job *job, es_error *err)
{
    loss_params *p = job->params;
    loss_state *s = job->state;
    ES_TRY(check_options(job, p, err));
    ES_TRY(open_model(job, p, s, err));
    if (p->plan)
        ES_TRY(es_plan_open(job, p->plan, s->config, &s->plan, err));
    ES_TRY(loss_read_text(job, err));
    if (s->plan)
        ES_TRY(es_plan_fits(s->plan, p->plan, s->longest, err));
    ES_TRY(make_settings(job, p, s, err));
    ES_TRY(ES_JOB_NEW(job, s->sums, s->text.count, err));
    ES_TRY(es_job_stage(
        job,
        &(es_stage){"blocks", .phase = "predicting text", .noun = "blocks and settings",
                    .cells = s->count * s->text.count, .rows = cell_rows(s), .cols = 1,
                    .columns = cell_columns, .one_thread_per_cell = side_by_side(s),
                    .flops = setting_flops(s, 0) / (double)s->text.count,
                    .weight = side_by_side(s) ? NULL : cell_weight, .run = run_block},
        err));
    return es_job_stage(
        job,
        &(es_stage){"fresh", .phase = "predicting fresh texts", .noun = "blocks and windows",
                    .cells = s->n_fresh * s->text.count, .rows = s->longest - loss_late(s),
                    .cols = 1, .columns = cell_columns, .one_thread_per_cell = side_by_side(s),
                    .flops = s->n_fresh ? fresh_flops(s, 0) : 0.0, .run = run_fresh},
        err);
}

static void close_study(es_job *job)
{
    loss_state *s = job->state;
    es_plan_free(s->plan);
    es_blocks_free(&s->text);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
}

static const char *const examples[] = {
    "esscher loss --model models/pebble --text book.txt",
    "esscher loss --model models/pebble --text book.txt --window 16,64,256,1024 --blocks 8",
    "esscher loss --model models/pebble --text book.txt --policy top,heavy --keys 32,128 --blocks "
    "4",
    "esscher loss --model models/pebble --text book.txt --plan pebble.plan.json",
    "esscher loss --model models/pebble --text book.txt --score-scale log,yarn",
    "esscher loss --model models/pebble --ids ids.npy --per-token nll.npy --json",
    NULL};

const es_study es_study_loss = {
    .name = "loss",
    .summary = "how much more context lowers a decoder's loss, by position and window",
    .group = ES_GROUP_MODEL,
    .main_options = "model text ids block blocks window policy keys plan reference enough",
    .usage = "--model MODEL (--text FILE ... | --ids I.npy) [options]",
    .about =
        "Cuts text into blocks, lets a causal model predict every token of a block from those "
        "before it, and gives the mean of -ln p in nats per token, in bits per byte of text, and "
        "by the token's place in its block. Blocks are taken evenly from the text, and standard "
        "errors are over blocks; how neighbours correlate is given: errors of blocks that were not "
        "taken evenly are too small where they do. Two settings are compared on the same tokens."
        "\n\n"
        "--window lets every query see its last W keys alone. Each window runs with the first 4 "
        "keys kept and without them (--sinks for another number): only the cost with them is what "
        "the context beyond W is worth, the rest is that of a lost sink. Beside both stands a "
        "fresh text, of which the model reads only the last W to 2 W - 1 tokens. All of it is "
        "about the next token of this text, not about retrieval: probe --look positions shows "
        "which heads read further back. Any other policy "
        "of sparse attention goes by --policy and --keys, as in `sparse`, and a plan that says for "
        "every head which keys it keeps by --plan. Where losses determine "
        "it, L(c) = A c^-beta + gamma is fitted [numerical], as in context-fit; else the reason "
        "is given why not."
        "\n\n"
        "--score-scale multiplies scores by a factor that may grow with the number of keys, and "
        "shows entropy and loss beside the model as it is: is a scale like log n what it wants?",
    .examples = examples,
    .params = params,
    .size = sizeof(loss_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "rows",
    .state = sizeof(loss_state),
    .open = open_study,
    .cost = cost_of,
    .summarise = loss_summarise,
    .close = close_study};
