/* budget_study.c : how many keys each head may drop: what is asked, cells, and what they take. */
#include "study/budget_study.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "store/file.h"
#include "study/answer_kit.h"

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
     .otherwise = "as many as the model has positions"},
    {"ratio", 0, ES_PARAM_NUMBER, "R", "keep this share of all keys", FIELD(ratio), .min = 1e-6,
     .max = 1.0},
    {"keys", 0, ES_PARAM_WHOLE, "K",
     "keep so many keys in all, summed over layers and key-value heads", FIELD(keys), .min = 1,
     .max = 1e15, .unit = "keys"},
    {"error", 0, ES_PARAM_NUMBER, "E",
     "keep as few keys as leave each layer's attention output within E of what it was, in its "
     "spread over tokens",
     FIELD(error), .min = 1e-9, .max = 100.0},
    {"loss", 0, ES_PARAM_NUMBER, "D",
     "keep as few keys as are predicted to cost D nats per token (a classifier: KL of its labels)",
     FIELD(loss), .min = 1e-9, .max = 100.0, .unit = "nats"},
    {"policy", 0, ES_PARAM_TEXT, "LIST",
     "policies to choose from, with commas between them, as in `sparse`", FIELD(policy),
     .standard = "stream,heavy,observe,random,top"},
    {"deployable", 0, ES_PARAM_FLAG, NULL,
     "of these, only policies that a serving system can run: no future query, no score of the "
     "present one",
     FIELD(deployable)},
    {"blocks", 0, ES_PARAM_WHOLE, "B",
     "pieces of the text to calibrate on, taken evenly from all of it", FIELD(blocks), .min = 1,
     .max = 100000, .standard = "8"},
    {"query-count", 0, ES_PARAM_WHOLE, "M", "queries of a piece whose risks are computed",
     FIELD(queries), .min = 1, .max = 100000, .standard = "8"},
    {"verify", 0, ES_PARAM_FILES, "FILE",
     "other text: run the plan through the model on it, and set what was predicted beside what is",
     FIELD(verify)},
    {"verify-tasks", 0, ES_PARAM_FILE, "T.tsv",
     "instead, for a classifier: labelled texts, sentence TAB label; accuracy", FIELD(tasks)},
    {"concat", 0, ES_PARAM_WHOLE, "C", "with --verify-tasks: so many texts of a label are one",
     FIELD(concat), .min = 2, .max = 1e6},
    {"verify-context", 0, ES_PARAM_WHOLE, "N", "tokens of a piece of that text",
     FIELD(verify_context), .min = 16, .max = 1e9, .unit = "tokens", .otherwise = "--context"},
    {"verify-blocks", 0, ES_PARAM_WHOLE, "B", "pieces of that text, or labelled texts, at most",
     FIELD(verify_blocks), .min = 1, .max = 1e6, .standard = "8"},
    {"rivals", 0, ES_PARAM_FLAG, NULL,
     "also verify the same number of keys shared out evenly, falling with depth, and by mass",
     FIELD(rivals)},
    {"frontier", 0, ES_PARAM_REALS, "GRID", "shares of the keys for which predictions are shown",
     FIELD(frontier), .min = 1e-6, .max = 1.0, .standard = "0.0625,0.125,0.25,0.5",
     .increasing = true},
    {"verify-frontier", 0, ES_PARAM_FLAG, NULL, "and verify those as well", FIELD(everywhere)},
    {"cache-dtype", 0, ES_PARAM_CHOICE, "DTYPE", "of the cache whose bytes are counted",
     FIELD(cache), .choices = budget_dtypes, .standard = "f16"},
    {"out-plan", 0, ES_PARAM_OUTPUT, "P.json",
     "write the plan, for `loss`, `downstream` and `sparse --plan`, and for other programs",
     FIELD(out_plan)},
    {"allow-trailing", 0, ES_PARAM_FLAG, NULL, "bytes after the last tensor of a file are a remark",
     FIELD(allow_trailing), .aside = true},
    {0}};

/* ---- what is asked ---- */

static es_status check_options(const es_job *job, const budget_params *p, es_error *err)
{
    const int asked = !isnan(p->ratio) + (p->keys > 0) + !isnan(p->error) + !isnan(p->loss);
    if (!p->model || !p->texts.count)
        return es_refuse(err, "budget.options", "--model MODEL --text FILE", "there is no %s",
                         p->model ? "text" : "model");
    if (asked != 1)
        return es_refuse(err, "budget.options", "--ratio 0.25, or --keys, --error or --loss",
                         asked ? "--ratio, --keys, --error and --loss exclude each other"
                               : "how much is to be kept is open");
    if (p->verify.count && p->tasks)
        return es_refuse(err, "budget.options", "leave one out",
                         "--verify and --verify-tasks exclude each other");
    if (!p->verify.count && !p->tasks && (p->rivals || p->everywhere))
        return es_refuse(err, "budget.options", "--verify FILE",
                         "--rivals and --verify-frontier are for --verify");
    if (p->concat && !p->tasks)
        return es_refuse(err, "budget.options", "leave it out", "--concat is for --verify-tasks");
    return p->out_plan ? es_file_may_create(p->out_plan, job->force, err) : ES_OK;
}

static es_status open_model(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const es_model_opts opts = {.precision = job->precision,
                                .budget = job->exec.budget,
                                .allow_trailing = p->allow_trailing};
    ES_TRY(es_model_open(p->model, &opts, &s->model, err));
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

static es_status read_policies(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const es_policy_params asked = {.names = p->policy, .correction = -1};
    es_policy_asked *words;
    int64_t count;
    ES_TRY(es_policies_read(job, &asked, &words, &count, err));
    ES_TRY(es_job_array(job, count, 1, sizeof *s->policies, &s->policies, err));
    for (int64_t i = 0; i < count; i++) {
        es_policy_spec spec = words[i].spec;
        if (p->deployable && !es_policy_deployable(spec.policy))
            continue;
        if (es_policy_needs(spec.policy) & ES_POLICY_MEASURED ||
            spec.policy == es_policy_find("full"))
            return es_fail(err, ES_E_UNSUPPORTED, "policy.measured", "leave it out",
                           "policy %s keeps no number of keys that could be chosen",
                           es_policy_name(spec.policy));
        spec.keys = 1;
        ES_TRY(es_policy_spec_check(&spec, s->config->causal, err));
        s->policies[s->P++] = spec;
    }
    if (!s->P)
        return es_refuse(err, "budget.policy", "--policy stream,heavy,observe,random",
                         "none of the policies is deployable");
    return ES_OK;
}

/* Where risks are computed: ten numbers of keys, from a 64th of the context on, each 1.5 times the
 * one before. What a unit may have: five times as many, and all keys. */
enum { POINTS = 10, BETWEEN = 5, LEAST = 64 };

static es_status make_grid(es_job *job, budget_state *s, es_error *err)
{
    const double n = (double)s->n, low = fmax(1.0, n / LEAST);
    const double step = pow(0.66 * n / low, 1.0 / (POINTS - 1));
    ES_TRY(es_job_array(job, POINTS, 1, sizeof *s->keys, &s->keys, err));
    ES_TRY(es_job_array(job, POINTS * BETWEEN + 2, 1, sizeof *s->options, &s->options, err));
    for (int i = 0; i < POINTS; i++) {
        const int64_t keys = (int64_t)floor(low * pow(step, i) + 0.5);
        if (!s->K || keys > s->keys[s->K - 1])
            s->keys[s->K++] = keys;
    }
    for (int i = 0; i < POINTS * BETWEEN; i++) {
        const int64_t keys =
            (int64_t)floor(low * pow(n / low, (double)i / (POINTS * BETWEEN)) + 0.5);
        if (!s->n_options || keys > s->options[s->n_options - 1])
            s->options[s->n_options++] = keys;
    }
    if (s->options[s->n_options - 1] < s->n)
        s->options[s->n_options++] = s->n;
    return ES_OK;
}

static es_status check_amount(const budget_params *p, const budget_state *s, es_error *err)
{
    const double all = (double)(s->units * s->n), least = (double)(s->units * s->options[0]);
    const double total = p->keys ? (double)p->keys : p->ratio * all;
    if (isnan(total) || (total >= least && total <= all))
        return ES_OK;
    return es_refuse(err, "budget.amount", "a share of the keys from 1/64 to 1",
                     "%.15g keys in all: %lld key-value heads with %lld each have %.0f, and a plan "
                     "leaves them %.0f at least",
                     total, (long long)s->units, (long long)s->n, all, least);
}

static void add_setting(budget_state *s, budget_way way, double ratio)
{
    s->settings[s->n_settings++] = (budget_setting){way, ratio};
}

static es_status make_settings(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const int64_t ways = p->rivals ? BUDGET_WAYS : 1;
    if (!p->verify.count && !p->tasks)
        return ES_OK;
    ES_TRY(es_job_array(job, 2, s->verify.count, sizeof *s->room, &s->room, err));
    ES_TRY(es_job_array(job, ways, 1 + p->frontier.count, sizeof *s->settings, &s->settings, err));
    for (int w = 0; w < ways; w++)
        add_setting(s, (budget_way)w, 0.0);
    for (int64_t i = 0; i < p->frontier.count && p->everywhere; i++)
        for (int w = 0; w < ways; w++)
            if (p->frontier.reals[i] != p->ratio &&
                p->frontier.reals[i] * (double)s->n >= (double)s->options[0])
                add_setting(s, (budget_way)w, p->frontier.reals[i]);
    return ES_OK;
}

/* ---- cells ---- */

int64_t budget_curves_rows(const budget_state *s)
{
    const es_model_config *c = s->config;
    return c->layers * c->heads * (s->P * s->K + s->K + ES_FACTS) + c->layers;
}

es_curves budget_curves_at(const budget_state *s, const double *cell)
{
    const int64_t heads = s->config->layers * s->config->heads;
    double *at = (double *)(uintptr_t)cell;
    es_curves c = {.risk = at};
    c.limit = c.risk + heads * s->P * s->K;
    c.facts = c.limit + heads * s->K;
    c.spread2 = c.facts + heads * ES_FACTS;
    return c;
}

int64_t budget_gains_rows(const budget_state *s)
{
    const int64_t L = s->config->layers;
    return (L + 1) * (L + 1) + 2 * L;
}

/* Rows: spread2 (L + 1); of each layer error2 (L + 1), own2 and loss. */
void budget_gains_at(const budget_state *s, const double *cell, es_gain *gains, double **spread2)
{
    const int64_t L = s->config->layers;
    double *at = (double *)(uintptr_t)cell;
    *spread2 = at;
    for (int64_t l = 0; l < L; l++) {
        double *own = at + (L + 1) + l * (L + 3);
        gains[l] = (es_gain){.own2 = own[L + 1], .loss = own[L + 2], .error2 = own};
    }
}

int64_t budget_trial_rows(const budget_state *s)
{
    const es_model_config *c = s->config;
    return 2 * (c->layers + 1) + 2 * c->layers + c->layers * c->heads + ES_ENDS + 2 * c->labels;
}

es_trial budget_trial_at(const budget_state *s, const double *cell)
{
    const es_model_config *c = s->config;
    es_trial t = {.error2 = (double *)(uintptr_t)cell};
    t.spread2 = t.error2 + c->layers + 1;
    t.own2 = t.spread2 + c->layers + 1;
    t.out2 = t.own2 + c->layers;
    t.kept = t.out2 + c->layers;
    t.ends = t.kept + c->layers * c->heads;
    t.logits = t.ends + ES_ENDS;
    return t;
}

static es_status run_curves(es_job *job, int64_t cell, const es_exec *exec, double *out,
                            es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const es_budget_block block = budget_block(job, &s->text, cell);
    const int64_t late = s->n - es_late_begin(s->config, s->n);
    const es_curves_spec spec = {.policies = s->policies,
                                 .n_policies = s->P,
                                 .keys = s->keys,
                                 .n_keys = s->K,
                                 .queries = p->queries < late ? p->queries : late};
    const es_curves to = budget_curves_at(s, out);
    return es_curves_block(&spec, &block, exec, &to, err);
}

/* Specs of picks; memory is the arena's. */
static es_status specs_of(const budget_state *s, const budget_pick *picks, es_arena *arena,
                          es_policy_spec **out, es_error *err)
{
    void *m;
    ES_TRY(
        es_arena_array(arena, s->config->layers, s->config->heads, sizeof **out, "specs", &m, err));
    *out = m;
    budget_specs(s, picks, *out);
    return ES_OK;
}

/* Gains are looked at near what is asked for: an even share of the keys, a quarter if not known. */
static es_status gain_specs(const es_job *job, const es_exec *exec, es_arena *arena,
                            es_policy_spec **out, es_error *err)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double all = (double)(s->units * s->n);
    const double asked = p->keys ? (double)p->keys : isnan(p->ratio) ? all / 4.0 : p->ratio * all;
    const double total = fmin(asked, all / 2.0);
    budget_means means;
    void *picks;
    ES_TRY(es_arena_array(arena, s->units, 1, sizeof(budget_pick), "picks", &picks, err));
    ES_TRY(budget_average(job, budget_all(s), false, exec, arena, &means, err));
    ES_TRY(budget_share(s, &means, BUDGET_UNIFORM, total, NULL, arena, picks, err));
    return specs_of(s, picks, arena, out, err);
}

static es_status gain_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                           double *out, es_error *err)
{
    const budget_state *s = job->state;
    const es_budget_block block = budget_block(job, &s->text, cell);
    const int64_t L = s->config->layers;
    es_policy_spec *specs;
    double *spread2;
    void *gains;
    ES_TRY(gain_specs(job, exec, arena, &specs, err));
    ES_TRY(es_arena_array(arena, L, 1, sizeof(es_gain), "gains", &gains, err));
    es_gain *g = gains;
    budget_gains_at(s, out, g, &spread2);
    ES_TRY(es_gains_block(&block, specs, exec, g, spread2, err));
    for (int64_t l = 0; l < L; l++) {
        double *own = out + (L + 1) + l * (L + 3);
        own[L + 1] = g[l].own2;
        own[L + 2] = g[l].loss;
    }
    return ES_OK;
}

static es_status run_gains(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = gain_cell(job, cell, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* What a setting gives each unit. */
static es_status setting_picks(const es_job *job, const budget_setting *setting,
                               const es_exec *exec, es_arena *arena, budget_pick *picks,
                               es_error *err)
{
    const budget_state *s = job->state;
    budget_means means;
    ES_TRY(budget_average(job, budget_all(s), true, exec, arena, &means, err));
    double total = setting->ratio * (double)(s->units * s->n);
    if (setting->ratio == 0.0) {
        ES_TRY(budget_make(job, &means, arena, picks, err));
        total = budget_total(s, picks);
        if (setting->way == BUDGET_OURS)
            return ES_OK;
    }
    return budget_share(s, &means, setting->way, total, NULL, arena, picks, err);
}

static es_status trial_cell(es_job *job, int64_t cell, const es_exec *exec, es_arena *arena,
                            double *out, es_error *err)
{
    const budget_state *s = job->state;
    const budget_setting *setting = &s->settings[cell / s->verify.count];
    const es_budget_block block = budget_block(job, &s->verify, cell % s->verify.count);
    es_trial to = budget_trial_at(s, out);
    es_policy_spec *specs;
    void *picks;
    ES_TRY(es_arena_array(arena, s->units, 1, sizeof(budget_pick), "picks", &picks, err));
    ES_TRY(setting_picks(job, setting, exec, arena, picks, err));
    ES_TRY(specs_of(s, picks, arena, &specs, err));
    memset(out, 0, (size_t)budget_trial_rows(s) * sizeof *out);
    if (setting->way != BUDGET_OURS)
        to.own2 = NULL; /* what is predicted of single layers is checked with ours */
    return es_trial_block(&block, specs, exec, &to, err);
}

static es_status run_trial(es_job *job, int64_t cell, const es_exec *exec, double *out,
                           es_error *err)
{
    es_arena arena = {.budget = exec->budget};
    const es_status status = trial_cell(job, cell, exec, &arena, out, err);
    es_arena_free(&arena);
    return status;
}

/* ---- what it takes ---- */

/* Timed, as downstream has it: a thinned head takes 2 microseconds for each query and 40 ns for
 * each of its keys, an integral 60 nodes of 4 operations for each number of the values at a tenth
 * of the speed of products; the model does 25 operations in a nanosecond. */
typedef struct work {
    double curves, gains, trial;
} work;

static double pass_flops(const budget_state *s, int64_t n)
{
    const es_model_cost c = es_model_cost_of(s->config, ES_F32, n, 1, s->config->predicts);
    return 1.5 * (c.products + c.attention);
}

static double thin_flops(const budget_state *s, int64_t n)
{
    const double N = (double)n;
    return (s->config->causal ? 0.5 : 1.0) * N * N * 1000.0 + N * 50000.0;
}

static work work_of(const es_job *job)
{
    const budget_params *p = job->params;
    const budget_state *s = job->state;
    const double heads = (double)(s->config->layers * s->config->heads), n = (double)s->n;
    const double k = (double)s->config->head_dim, Q = (double)p->queries;
    double query = 0.0;
    for (int64_t i = 0; i < s->P; i++)
        query += es_policy_needs(s->policies[i].policy) & ES_POLICY_CHANCE
                     ? 0.5 * (double)s->K * n * k * 60.0 * 40.0
                     : (double)s->K * n * (k * 40.0 + 1000.0);
    return (work){.curves = pass_flops(s, s->n) + heads * (Q * query + n * n * (4.0 * k + 200.0)),
                  .gains = (0.5 * (double)s->config->layers + 2.0) * pass_flops(s, s->n) +
                           heads * thin_flops(s, s->n),
                  .trial = 3.0 * pass_flops(s, s->verify.length) +
                           2.0 * heads * thin_flops(s, s->verify.length)};
}

static es_status cost_of(es_job *job, es_cost *out, es_error *err)
{
    const budget_state *s = job->state;
    const work w = work_of(job);
    const double threads = (double)job->exec.threads;
    const double blocks = (double)s->text.count, trials = (double)(s->n_settings * s->verify.count);
    const double cells = 8.0 * (blocks * (double)(budget_curves_rows(s) + budget_gains_rows(s)) +
                                trials * (double)budget_trial_rows(s));
    const int64_t longest = s->verify.length > s->n ? s->verify.length : s->n;
    const double curves = es_curves_bytes(s->config, s->n) +
                          es_model_cost_of(s->config, job->precision, s->n, 1, false).bytes;
    const double means = 16.0 * (double)(s->units * (s->P + 2) * (s->K + s->n_options));
    (void)err;
    *out = (es_cost){.flops = blocks * (w.curves + w.gains) + trials * w.trial,
                     .input_bytes = job->exec.budget ? (double)job->exec.budget->used : 0.0,
                     .output_bytes = 4096.0 * (double)(s->config->layers * s->config->heads),
                     .work_bytes =
                         1.1 * cells +
                         threads * (fmax(curves, es_trial_bytes(s->model, longest)) + 4.0 * means) +
                         40.0 * means + 4e6};
    return ES_OK;
}

/* ---- all together ---- */

static const char *const cell_columns[] = {"number"};

static es_status add_stages(es_job *job, es_error *err)
{
    const budget_state *s = job->state;
    const work w = work_of(job);
    ES_TRY(es_job_stage(job,
                        &(es_stage){"curves", .phase = "computing risks", .noun = "blocks",
                                    .cells = s->text.count, .rows = budget_curves_rows(s),
                                    .cols = 1, .columns = cell_columns, .alone = true,
                                    .shared = true, .flops = w.curves, .run = run_curves},
                        err));
    ES_TRY(
        es_job_stage(job,
                     &(es_stage){"gains", .phase = "following errors through the layers",
                                 .noun = "blocks", .cells = s->text.count,
                                 .rows = budget_gains_rows(s), .cols = 1, .columns = cell_columns,
                                 .alone = true, .shared = true, .flops = w.gains, .run = run_gains},
                     err));
    return es_job_stage(job,
                        &(es_stage){"trials", .phase = "verifying", .noun = "blocks and plans",
                                    .cells = s->n_settings * s->verify.count,
                                    .rows = budget_trial_rows(s), .cols = 1,
                                    .columns = cell_columns, .alone = true, .flops = w.trial,
                                    .run = run_trial},
                        err);
}

static es_status open_study(es_job *job, es_error *err)
{
    const budget_params *p = job->params;
    budget_state *s = job->state;
    ES_TRY(check_options(job, p, err));
    ES_TRY(open_model(job, p, s, err));
    s->units = s->config->layers * s->config->kv_heads;
    ES_TRY(read_policies(job, p, s, err));
    ES_TRY(budget_read_texts(job, err));
    ES_TRY(make_grid(job, s, err));
    ES_TRY(check_amount(p, s, err));
    ES_TRY(make_settings(job, p, s, err));
    return add_stages(job, err);
}

static void close_study(es_job *job)
{
    budget_state *s = job->state;
    es_blocks_free(&s->text.blocks);
    es_blocks_free(&s->verify.blocks);
    es_task_blocks_free(&s->verify.tasks);
    es_tasks_free(&s->tasks);
    es_tokenizer_free(s->tokenizer);
    es_model_close(s->model);
}

static const char *const examples[] = {
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --out-plan pebble.plan.json",
    "esscher budget --model models/pebble --text a.txt --ratio 0.25 --verify b.txt --rivals",
    "esscher budget --model models/pebble --text a.txt --error 0.2 --deployable --verify b.txt",
    "esscher budget --model models/pebble --text a.txt --loss 0.02 --context 1024",
    "esscher budget --model minilm-sst2 --text a.txt --ratio 0.25 --verify-tasks sst2.tsv "
    "--concat 16",
    NULL};

const es_study es_study_budget = {
    .name = "budget",
    .summary = "how many keys each head may drop, by which policy; verified through the model",
    .usage = "--model MODEL --text FILE (--ratio R | --keys K | --error E | --loss D) [options]",
    .about =
        "Computes for every head of a model, on a text, the exact risk of keeping m keys under "
        "each policy, in the units of the layer's output; follows each layer's error through the "
        "layers after it; and shares a number of keys out among heads and layers so that the "
        "error of the last hidden state is least (THEORY 13 to 15): errors of heads and of layers "
        "are "
        "taken to be small and independent [heuristic]. Heads that share keys and "
        "values have one policy and one number of keys, by the sum of their risks. The answer is a "
        "plan: policy and keys of each head, what it will cost, and the bytes of the cache before "
        "and after."
        "\n\n"
        "--verify runs the plan through the model on other text: the error of each layer's "
        "attention and of each hidden state, extra loss, divergence and agreement of what it says "
        "next, beside what was predicted. If --error or --loss is broken there beyond the 95 % "
        "interval, the program ends with 1. --rivals does the same for the same number of keys "
        "shared out evenly, falling with depth (PyramidKV), and by mass (Ada-KV)."
        "\n\n"
        "What is averaged over a block of a causal model is averaged over its second half, where "
        "the cache is full or nearly so; an encoder's over all of it. Errors are in spreads, the "
        "root mean square distance from the mean over tokens. A plan is for one context and texts "
        "like the one it was made from: docs/BUDGET.md says what is not promised.",
    .examples = examples,
    .params = params,
    .size = sizeof(budget_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION | ES_TAKES_HEADS,
    .csv = "heads",
    .state = sizeof(budget_state),
    .open = open_study,
    .cost = cost_of,
    .summarise = budget_summarise,
    .close = close_study};
