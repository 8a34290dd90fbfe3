/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `downstream`: parameters, settings, stages of cells, and their cost. */
#include "experiments/downstream/downstream.h"

#include <string.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "model/model.h"
#include "model/plan.h"

/* ---- parameters ---- */

#define FIELD(member) .field = offsetof(downstream_params, member)
static const es_param params[] = {
    {"model", 'm', ES_PARAM_MODEL, "MODEL",
     "folder of a model (config.json, model.safetensors, tokenizer), or org/name in the "
     "cache of the Hugging Face hub; with a classifier for --tasks",
     FIELD(model)},
    {"tasks", 0, ES_PARAM_FILE, "T.tsv",
     "labelled texts, a line each: sentence, tab, label (a number, or a name of id2label); the "
     "first line may name the columns",
     FIELD(tasks)},
    {"text", 0, ES_PARAM_FILE, "T.txt",
     "instead of --tasks, text without labels: compares the embeddings of its paragraphs, which "
     "blank lines separate",
     FIELD(text)},
    {"concat", 0, ES_PARAM_WHOLE, "K",
     "concatenate K texts of --tasks with the same label, shuffled by the seed, cut at the "
     "model's positions",
     FIELD(concat), .min = 2, .max = 1e6, .default_note = "each text by itself"},
    {"most", 0, ES_PARAM_WHOLE, "N", "use at most the first N texts or documents", FIELD(most),
     .min = 2, .max = 1e7, .default_note = "all of --tasks, 500 of --text"},
    {"least", 0, ES_PARAM_WHOLE, "N", "leave out paragraphs of fewer than N tokens", FIELD(least),
     .min = 1, .max = 1e6, .default_value = "32", .unit = "tokens"},
    ES_POLICY_PARAMS_WITH(downstream_params, policy, "random,window,stream,bigbird,top",
                          "what --keep says, or what --window, --sinks and --random add up to"),
    ES_PLAN_PARAM(downstream_params, plan),
    ES_CACHE_PARAMS(downstream_params, cache),
    {"keep", 0, ES_PARAM_REALS, "GRID",
     "keys that a query keeps, as shares of its text's tokens, specials included; at least 1 key",
     FIELD(keep), .min = 1e-9, .max = 1.0,
     .default_note = "0.5,0.25,0.125,0.0625,0.03125, unless --keys or parts of a policy say"},
    {"layer", 0, ES_PARAM_WHOLE, "L", "drop keys only in the heads of this layer, counted from 0",
     FIELD(layer), .min = 0, .max = 1e6, .default_note = "all layers"},
    {"strata", 0, ES_PARAM_FLAG, NULL,
     "also drop keys in each third of the heads alone: smallest, middle and largest horizons H, "
     "which measure how sharp attention is",
     FIELD(strata)},
    {"text-strata", 0, ES_PARAM_FLAG, NULL,
     "also divide the texts into thirds: smallest, middle and largest horizon H of a text's own "
     "tokens, all heads of a layer as one, as in the public code of Token Sample Complexity",
     FIELD(text_strata)},
    {"strata-layer", 0, ES_PARAM_WHOLE, "L", "layer whose input --text-strata measures",
     FIELD(strata_layer), .min = 0, .max = 1e6, .default_value = "0"},
    {"ablate", 0, ES_PARAM_FLAG, NULL, "also drop keys in one head at a time", FIELD(ablate)},
    {"replicates", 'r', ES_PARAM_WHOLE, "R",
     "draw the keys of random policies R times for each text; intervals are over texts",
     FIELD(draws), .min = 1, .max = 1000, .default_value = "1"},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL,
     "accept extra bytes at the end of a weight file (with a warning)", FIELD(allow_trailing),
     .not_in_fingerprint = true},
    {0}};

/* ---- inputs ---- */

/* Fails because options do not fit together. */
static es_status refuse(const char *hint, const char *message, es_error *err)
{
    return es_refuse(err, "downstream.options", hint, "%s", message);
}

/* Fails for options that do not go with a cache. `hint` says how to do without one. */
static es_status check_cache(const downstream_params *p, const char *hint, es_error *err)
{
    if (p->draws > 1)
        return refuse("leave --replicates out",
                      "--replicates is for ideal policies, not for a cache", err);
    if (p->strata || p->ablate)
        return refuse(
            hint,
            "--strata and --ablate drop keys in single heads; a cache belongs to a key-value head",
            err);
    return ES_OK;
}

/* Fails for missing options and options that exclude each other. */
static es_status check_options(const es_job *job, const downstream_params *p, es_error *err)
{
    if (!p->model)
        return refuse("--model MODEL", "missing --model", err);
    if (!p->tasks == !p->text)
        return refuse(
            "--tasks T.tsv for a classifier, --text FILE for embeddings",
            p->tasks ? "--tasks and --text exclude each other" : "missing --tasks or --text", err);
    if (p->concat && !p->tasks)
        return refuse("leave it out", "--concat is for --tasks: it needs labels", err);
    if (p->tasks && es_params_given(job->given, "least"))
        return refuse("leave it out", "--least is for paragraphs of --text", err);
    if (es_cache_asked(&p->cache) && p->keep.count)
        return refuse("--ratio 0.25", "--keep is for ideal policies; a cache takes --ratio", err);
    if (es_params_given(job->given, "strata-layer") && !p->text_strata)
        return refuse("--text-strata", "--strata-layer needs --text-strata", err);
    if (es_cache_asked(&p->cache))
        ES_TRY(check_cache(p, "leave --evict and --kv-type out", err));
    const es_policy_params asked = es_cache_policies(job, &p->cache, &p->policy);
    return es_cache_params_check(job, &p->cache, &asked, err);
}

/* Opens the model; --tasks needs a classifier with at least two labels. */
static es_status open_model(es_job *job, const downstream_params *p, downstream_state *s,
                            es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .budget = job->exec.budget,
                                .allow_trailing = p->allow_trailing};
    ES_TRY(es_job_model(job, p->model, &opts, &s->model, err));
    s->config = es_model_config_of(s->model);
    if (p->tasks && s->config->labels < 2)
        return es_refuse(err, "downstream.classifier", "--text FILE compares embeddings instead",
                         s->config->labels
                             ? "the model's classifier has one output and gives no labels"
                             : "the model has no classifier to label texts with");
    if (es_params_given(job->given, "layer") && p->layer >= s->config->layers)
        return es_refuse(err, "downstream.layer", "count from 0",
                         "--layer %lld: the model has layers 0 to %lld", (long long)p->layer,
                         (long long)s->config->layers - 1);
    if (p->strata_layer >= s->config->layers)
        return es_refuse(err, "downstream.layer", "count from 0",
                         "--strata-layer %lld: the model has layers 0 to %lld",
                         (long long)p->strata_layer, (long long)s->config->layers - 1);
    ES_TRY(es_tokenizer_open(es_model_folder(s->model), job->exec.budget, &s->tokenizer, err));
    return es_model_check_tokenizer(s->config, es_model_folder(s->model), s->tokenizer, err);
}

/* Reads labelled texts or paragraphs, by default at most 500 paragraphs. */
static es_status open_texts(es_job *job, const downstream_params *p, downstream_state *s,
                            es_error *err)
{
    es_mem_limit *budget = job->exec.budget;
    const char *path = p->tasks ? p->tasks : p->text;
    const es_task_spec spec = {.tokenizer = s->tokenizer,
                               .positions = s->config->positions,
                               .vocab = s->config->vocab,
                               .least = p->tasks ? 1 : p->least,
                               .most = p->most    ? p->most
                                       : p->tasks ? 0
                                                  : 500,
                               .concat = p->concat,
                               .seed = job->seed};
    ES_TRY(p->tasks ? es_tasks_load(path, s->config, budget, &s->tasks, err)
                    : es_tasks_paragraphs(path, budget, &s->tasks, err));
    const es_status status = es_tasks_encode(&s->tasks, &spec, budget, &s->texts, err);
    if (status != ES_OK)
        return es_blame_file(status, path, err);
    s->count = s->texts.blocks.count;
    return s->count > 1
               ? ES_OK
               : es_fail_file(err, ES_E_EMPTY, path, -1, "downstream.texts", "use more texts",
                              "only one text; an interval needs at least two");
}

/* ---- settings ---- */

/* Returns whether the head may be thinned. */
static bool in_scope(const downstream_state *s, int64_t head)
{
    return s->only < 0 || head / s->config->heads == s->only;
}

/* Adds the rows of one policy: each share, then each number; or one by its parts, if no amount was
 * asked for. */
static void add_rows(const downstream_params *p, const es_grid *keep, const es_policy_spec *own,
                     bool by_parts, downstream_state *s)
{
    es_thinning row = {.spec = *own};
    row.spec.keys = ES_POLICY_UNSET;
    if (by_parts)
        s->rows[s->n_rows++] = row;
    for (int64_t i = 0; !by_parts && i < keep->count; i++) {
        row.share = keep->reals[i];
        s->rows[s->n_rows++] = row;
    }
    row.share = 0.0;
    for (int64_t i = 0; !by_parts && i < p->policy.keys.count; i++) {
        row.spec.keys = p->policy.keys.counts[i];
        s->rows[s->n_rows++] = row;
    }
}

/* Opens the plan. An ideal one is the only row; that of a cache is made when texts are known. */
static es_status open_plan(es_job *job, const downstream_params *p, downstream_state *s,
                           es_error *err)
{
    ES_TRY(es_plan_open_any(job, p->plan, s->config, &s->plan, err));
    s->plan_path = p->plan;
    if (s->plan->mode != ES_PLAN_IDEAL)
        return check_cache(p, "use an ideal plan: budget --evict ideal", err);
    ES_TRY(ES_JOB_NEW(job, s->rows, 1, err));
    s->rows[s->n_rows] = (es_thinning){.plan = s->plan};
    es_policy_spec_init(&s->rows[s->n_rows++].spec, NULL);
    return ES_OK;
}

/* Makes the rows of all policies at all amounts. `full` is skipped: the others are compared with it
 * anyway. */
static es_status make_rows(es_job *job, downstream_params *p, downstream_state *s, es_error *err)
{
    es_policy_params asked = p->policy;
    es_policies policies;
    asked.keys = (es_grid){0};
    const bool amounts = p->keep.count || p->policy.keys.count;
    if (!amounts)
        ES_TRY(es_params_set(job->given, "keep", "0.5,0.25,0.125,0.0625,0.03125", err));
    ES_TRY(es_policies_make(job, &asked, false, 8, &policies, err));
    const int64_t most = p->keep.count + p->policy.keys.count;
    ES_TRY(ES_JOB_NEW_2D(job, s->rows, policies.count, most, err));
    for (int64_t i = 0; i < policies.count; i++) {
        const es_policy_spec *spec = &policies.specs[i];
        if (spec->policy == es_policy_find("full"))
            continue;
        if (es_policy_inputs(spec->policy) & ES_POLICY_MEASURED)
            return es_fail(err, ES_E_UNSUPPORTED, "policy.measured", "leave it out",
                           "policy %s keeps no set of keys", es_policy_name(spec->policy));
        add_rows(p, &p->keep, spec, !amounts && spec->keys == ES_POLICY_UNSET, s);
    }
    for (int64_t i = 0; i < s->n_rows; i++) {
        es_policy_spec trial = s->rows[i].spec;
        trial.keys = s->rows[i].share > 0.0 ? 1 : trial.keys;
        ES_TRY(es_policy_spec_check(&trial, false, err));
    }
    return ES_OK;
}

/* Makes the rows of all caches. Prompt and number of keys of each text follow from its length;
 * those of a plan are the plan's. */
static es_status cache_rows(es_job *job, const downstream_params *p, downstream_state *s,
                            es_error *err)
{
    const es_policy_params asked = es_cache_policies(job, &p->cache, &p->policy);
    const int64_t longest = s->texts.longest;
    es_cache_settings caches;
    ES_TRY(s->plan ? es_cache_plan_setting(job, &p->cache, s->plan, longest, &caches, err)
                   : es_cache_settings_make(job, &p->cache, &asked, longest, &caches, err));
    ES_TRY(ES_JOB_NEW(job, s->rows, caches.count, err));
    for (int64_t i = 0; i < caches.count; i++) {
        es_thinning *row = &s->rows[s->n_rows++];
        *row = (es_thinning){
            .cache = &caches.at[i], .half = !s->plan && !p->cache.prompt.count, .layer = s->only};
        es_policy_spec_init(&row->spec, NULL);
        if (p->cache.ratio.count)
            row->share = p->cache.ratio.reals[i % p->cache.ratio.count];
        else if (!s->plan && caches.at[i].unit.evict.policy)
            row->spec.keys = caches.at[i].unit.evict.keys;
    }
    return ES_OK;
}

/* Adds a setting; where keys are kept by chance, with all draws. A plan may have any policy. */
static void add_setting(int64_t draws, int64_t row, int64_t stratum, int64_t head,
                        downstream_state *s)
{
    const es_thinning *t = row < 0 ? NULL : &s->rows[row];
    const bool chance = t && (t->plan || es_policy_inputs(t->spec.policy) & ES_POLICY_CHANCE);
    s->settings[s->n_settings++] =
        (downstream_setting){row, stratum, head, chance ? draws : 1, s->n_draws};
    s->n_draws += chance ? draws : 1;
}

/* Lists what is run: full attention, each policy, and, for --strata and --ablate, subsets of
 * heads. */
static es_status make_settings(es_job *job, const downstream_params *p, downstream_state *s,
                               es_error *err)
{
    const int64_t per = 1 + (p->strata ? DOWNSTREAM_STRATA : 0) + (p->ablate ? s->in_scope : 0);
    if (p->strata && s->in_scope < DOWNSTREAM_STRATA)
        return es_refuse(err, "downstream.strata", "leave it out",
                         "--strata needs at least 3 heads; there are %lld", (long long)s->in_scope);
    ES_TRY(ES_JOB_NEW(job, s->settings, 1 + s->n_rows * per, err));
    add_setting(1, -1, -1, -1, s);
    for (int64_t r = 0; r < s->n_rows; r++)
        add_setting(p->draws, r, -1, -1, s);
    for (int64_t r = 0; p->strata && r < s->n_rows; r++)
        for (int64_t t = 0; t < DOWNSTREAM_STRATA; t++)
            add_setting(p->draws, r, t, -1, s);
    for (int64_t r = 0; p->ablate && r < s->n_rows; r++)
        for (int64_t h = 0; h < s->heads; h++)
            if (in_scope(s, h))
                add_setting(p->draws, r, -1, h, s);
    return ES_OK;
}

/* ---- cells ---- */

/* Ranks heads by counting those before each: quadratic, but heads are few. */
void downstream_stratum(const downstream_state *s, const double *horizons, int *strata)
{
    for (int64_t h = 0; h < s->heads; h++) {
        int64_t before = 0;
        strata[h] = -1;
        if (!in_scope(s, h))
            continue;
        for (int64_t g = 0; g < s->heads; g++)
            before += in_scope(s, g) &&
                      (horizons[g] < horizons[h] || (horizons[g] == horizons[h] && g < h));
        strata[h] = (int)(before * DOWNSTREAM_STRATA / s->in_scope);
    }
}

/* Sets heads (heads) to 1 for those that a setting thins. */
static es_status choose_heads(es_job *job, const downstream_setting *setting, const es_exec *exec,
                              unsigned char *heads, int *strata, es_error *err)
{
    const downstream_state *s = job->state;
    const double *horizons;
    if (setting->stratum >= 0) {
        ES_TRY(es_job_fetch(job, DOWNSTREAM_HORIZONS, 0, exec, &horizons, err));
        downstream_stratum(s, horizons, strata);
    }
    for (int64_t h = 0; h < s->heads; h++)
        heads[h] = in_scope(s, h) && (setting->stratum < 0 || strata[h] == setting->stratum) &&
                   (setting->head < 0 || h == setting->head);
    return ES_OK;
}

/* Settings are in the order of their draws. */
const downstream_setting *downstream_of_cell(const downstream_state *s, int64_t cell)
{
    const int64_t draw = cell / s->slices;
    int64_t low = 0, high = s->n_settings - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (s->settings[middle].before <= draw)
            low = middle;
        else
            high = middle - 1;
    }
    return &s->settings[low];
}

/* Returns the first text of a cell's slice, and in *count how many there are. */
static int64_t slice_of(const downstream_state *s, int64_t cell, int64_t *count)
{
    const int64_t first = cell % s->slices * s->slice;
    *count = s->count - first < s->slice ? s->count - first : s->slice;
    return first;
}

/* Runs a slice of texts in one draw of a setting. */
static es_status run_slice(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const downstream_state *s = job->state;
    const downstream_setting *setting = downstream_of_cell(s, cell);
    int64_t count;
    const int64_t first = slice_of(s, cell, &count);
    es_arena arena = {.budget = exec->budget};
    unsigned char *heads;
    int *strata;
    if (setting->row < 0)
        return es_downstream_run(&s->lab, NULL, first, count, exec, out, err);
    es_status status = ES_ARENA_NEW(&arena, heads, s->heads, "heads", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&arena, strata, s->heads, "heads", err);
    if (status == ES_OK)
        status = choose_heads(job, setting, exec, heads, strata, err);
    if (status == ES_OK) {
        es_thinning thinning = s->rows[setting->row];
        thinning.heads = heads;
        thinning.draw = cell / s->slices - setting->before;
        status = es_downstream_run(&s->lab, &thinning, first, count, exec, out, err);
    }
    es_arena_free(&arena);
    return status;
}

/* Computes the horizons of all heads, by which strata are formed. */
static es_status run_horizons(es_job *job, int64_t cell, const es_exec *exec, void *record,
                              es_error *err)
{
    double *out = record;
    const downstream_state *s = job->state;
    (void)cell;
    return es_downstream_horizons(&s->lab, exec, out, err);
}

/* Computes the horizons of a slice of the texts. */
static es_status run_text_horizons(es_job *job, int64_t cell, const es_exec *exec, void *record,
                                   es_error *err)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    int64_t count;
    const int64_t first = slice_of(s, cell, &count);
    return es_downstream_text_horizons(&s->lab, p->strata_layer, first, count, exec, record, err);
}

const double *downstream_answer(const es_job *job, int64_t setting, int64_t draw, int64_t text)
{
    const downstream_state *s = job->state;
    const int64_t cell = (s->settings[setting].before + draw) * s->slices + text / s->slice;
    const double *numbers = es_job_numbers(job, DOWNSTREAM_ANSWERS, cell);
    return numbers + text % s->slice * (s->outputs + 1);
}

/* ---- all together ---- */

/* Adds the stages: horizons of heads first, because strata of them need those. */
static es_status add_stages(es_job *job, es_error *err)
{
    const downstream_params *p = job->params;
    const downstream_state *s = job->state;
    const char **columns;
    const int64_t cols = s->heads > s->outputs + 1 ? s->heads : s->outputs + 1;
    ES_TRY(ES_JOB_NEW(job, columns, cols, err));
    for (int64_t i = 0; i < cols; i++)
        columns[i] = "number";
    ES_TRY(es_job_stage(job,
                        &(es_stage){"horizon", .phase = "taking covariances", .noun = "horizons",
                                    .cells = p->strata || p->ablate, .rows = 1, .cols = s->heads,
                                    .columns = columns, .reports_progress = true, .shared = true,
                                    .flops = s->work.forward, .run = run_horizons},
                        err));
    ES_TRY(es_job_stage(job,
                        &(es_stage){"answers", .phase = "asking the model",
                                    .noun = "slices of texts", .cells = s->n_draws * s->slices,
                                    .rows = s->slice, .cols = s->outputs + 1, .columns = columns,
                                    .weight = downstream_slice_weight,
                                    .flops = downstream_flops(s) / (double)(s->n_draws * s->slices),
                                    .run = run_slice},
                        err));
    return es_job_stage(
        job,
        &(es_stage){"text_horizon", .phase = "measuring texts", .noun = "slices of texts",
                    .cells = p->text_strata ? s->slices : 0, .rows = s->slice, .cols = 1,
                    .columns = columns, .flops = s->work.forward / (double)s->slices,
                    .run = run_text_horizons},
        err);
}

/* Opens the study: options, model, policies or plan, settings, texts, then the stages. */
static es_status open_study(es_job *job, es_error *err)
{
    downstream_params *p = job->params;
    downstream_state *s = job->state;
    ES_TRY(check_options(job, p, err));
    ES_TRY(open_model(job, p, s, err));
    ES_TRY(es_cache_check_model(job, &p->cache, s->config, err));
    s->only = es_params_given(job->given, "layer") ? p->layer : -1;
    s->heads = s->config->layers * s->config->heads;
    s->in_scope = s->only < 0 ? s->heads : s->config->heads;
    const bool cache = es_cache_asked(&p->cache);
    if (!cache)
        ES_TRY(p->plan ? open_plan(job, p, s, err) : make_rows(job, p, s, err));
    ES_TRY(open_texts(job, p, s, err));
    if (cache || (s->plan && s->plan->mode != ES_PLAN_IDEAL))
        ES_TRY(cache_rows(job, p, s, err));
    ES_TRY(make_settings(job, p, s, err));
    if (p->text_strata && s->count < DOWNSTREAM_STRATA)
        return es_refuse(err, "downstream.strata", "use more texts",
                         "--text-strata needs at least 3 texts; there are %lld",
                         (long long)s->count);
    if (s->plan)
        ES_TRY(es_plan_fits(s->plan, p->plan, s->texts.longest, err));
    s->lab = (es_downstream){
        .model = s->model, .texts = &s->texts.blocks, .embed = !p->tasks, .seed = job->seed};
    s->outputs = es_downstream_outputs(&s->lab);
    s->work = downstream_work_of(s);
    /* about 8192 tokens: enough work for all threads, and a killed run loses only seconds */
    const int64_t mean = s->texts.ids / s->count;
    s->slice = 8192 / mean < 4 ? 4 : 8192 / mean > 128 ? 128 : 8192 / mean;
    s->slice = s->slice < s->count ? s->slice : s->count;
    s->slices = (s->count + s->slice - 1) / s->slice;
    return add_stages(job, err);
}

/* Checks that the weights, which are read by now, are those that the plan was made for. */
static es_status begin_study(es_job *job, es_error *err)
{
    const downstream_state *s = job->state;
    return s->plan ? es_blame_file(es_plan_check_weights(s->plan, s->model, &job->exec, err),
                                   s->plan_path, err)
                   : ES_OK;
}

/* Frees plan, texts, tokenizer and model. */
static void close_study(es_job *job)
{
    downstream_state *s = job->state;
    es_plan_free(s->plan);
    es_task_blocks_free(&s->texts);
    es_tasks_free(&s->tasks);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
}

static const char *const examples[] = {
    "esscher downstream --model minilm-sst2 --tasks sst2.tsv",
    "esscher downstream --model minilm-sst2 --tasks sst2.tsv --concat 16 --policy random,top",
    "esscher downstream --model minilm-sst2 --tasks sst2.tsv --policy top --keep 0.125 --strata",
    "esscher downstream --model minilm-sst2 --tasks sst2.tsv --policy random --keys 4..64*5 "
    "--replicates 20 --text-strata",
    "esscher downstream --model minilm-sst2 --tasks sst2.tsv --plan sst2.plan.json",
    "esscher downstream --model minilm --text wiki.txt --keep 0.5,0.125",
    "esscher downstream --model models/pebble --text book.txt --evict prompt --policy h2o,stream "
    "--ratio 1/4",
    NULL};

const es_study es_study_downstream = {
    .name = "downstream",
    .summary = "what dropping keys costs in accuracy, agreement and KL divergence",
    .group = ES_GROUP_MODEL,
    .main_options = "model tasks text policy keys plan keep evict ratio kv-type layer ablate",
    .usage = "--model MODEL (--tasks T.tsv | --text FILE) [options]",
    .about =
        "Runs a classifier on labelled texts while its heads keep some of their keys, chosen by a "
        "policy, and compares with the full model: accuracy, how often both give the same label, "
        "and the KL divergence of their distributions over labels, each with its interval over "
        "texts. "
        "Keys are counted as shares of each text's own tokens (--keep), or as numbers (--keys); a "
        "plan (--plan) has a policy and a number of keys for every head, and runs in the mode that "
        "it was made for."
        "\n\n"
        "--strata drops keys in one third of the heads at a time, by their horizon H, which "
        "measures how "
        "sharp attention is. --ablate drops keys in one head at a time "
        "and tests whether heads with large horizons cost more (Spearman). "
        "--text-strata divides the texts, not the heads, by the horizon of their own tokens. "
        "--replicates averages random policies over several draws of each text. --concat "
        "joins short texts into long documents."
        "\n\n"
        "A model without a classifier embeds the paragraphs of a text (--text): the answer has "
        "their cosine with the full model's embeddings, and how often a paragraph keeps its "
        "nearest neighbour."
        "\n\n"
        "--evict prompt, --evict decode and --kv-type run a decoder with a key-value cache that "
        "drops keys for good and rounds those it keeps, as in loss (docs/CACHE.md). The prompt is "
        "the first half of each text unless --prompt gives its tokens. Without them policies are "
        "ideal: each query chooses from all keys, which saves no memory and is a bound. An encoder "
        "has no cache.",
    .examples = examples,
    .params = params,
    .size = sizeof(downstream_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .state = sizeof(downstream_state),
    .open = open_study,
    .begin = begin_study,
    .cost = downstream_cost_of,
    .summarise = downstream_summarise,
    .close = close_study,
};
