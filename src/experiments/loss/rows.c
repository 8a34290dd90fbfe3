/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c : tables "settings", "rows", "positions", "layers" and "text": mean losses by setting and
 * by position, with their errors over blocks. */
#include <math.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"
#include "model/model.h"
#include "stats/average.h"

/* ---- entropy and keys ---- */

/* Returns the entropy of a setting: mean over blocks, weighted by their queries; layer -1: mean
 * over layers, too. */
static es_measured entropy_of(const es_job *job, int64_t setting, int64_t layer)
{
    const loss_state *s = job->state;
    const int64_t L = s->config->layers, from = layer < 0 ? 0 : layer,
                  to = layer < 0 ? L : from + 1;
    double sum = 0.0, weight = 0.0, scatter = 0.0, mean = NAN;
    for (int pass = 0; pass < 2; pass++, mean = sum / weight)
        for (int64_t b = 0; b < s->text.count; b++) {
            const double n = (double)loss_length(s, b), *x = loss_entropy(job, setting, b);
            double own = 0.0;
            for (int64_t l = from; l < to; l++)
                own += x[l] / (double)(to - from);
            if (pass) {
                scatter += pow(n * (own - mean), 2.0);
                continue;
            }
            sum += n * own;
            weight += n;
        }
    return (es_measured){sum / weight, es_block_se(scatter, weight, s->text.count)};
}

/* Returns the keys of a query, mean over the queries of all blocks. */
static double keys_of(const es_job *job, int64_t setting)
{
    const loss_state *s = job->state;
    double sum = 0.0, weight = 0.0;
    for (int64_t b = 0; b < s->text.count; b++) {
        sum += (double)loss_length(s, b) * loss_keys(job, setting, b);
        weight += (double)loss_length(s, b);
    }
    return sum / weight;
}

/* ---- settings ---- */

static const es_column setting_columns[] = {
    ES_COL(loss_setting_row, setting, ES_FORMAT_TEXT, "setting", "",
           "what is changed in the model; full: nothing"),
    ES_COL(loss_setting_row, window, ES_FORMAT_COUNT, "window", "keys",
           "the last keys that a query sees, its own included"),
    ES_COL(loss_setting_row, sinks, ES_FORMAT_COUNT, "sinks", "keys",
           "the first keys, which the query sees too"),
    ES_COL(
        loss_setting_row, evict, ES_FORMAT_TEXT, "evict", "",
        "when the cache drops keys for good: prompt, decode, or none; ideal: queries choose from "
        "all keys"),
    ES_COL(loss_setting_row, prompt, ES_FORMAT_COUNT, "prompt", "tokens",
           "tokens before the first one whose prediction is compared"),
    ES_COL(loss_setting_row, policy, ES_FORMAT_TEXT, "policy", "", "which keys a query keeps"),
    ES_COL(loss_setting_row, keys_asked, ES_FORMAT_COUNT, "keys asked", "keys",
           "number that the policy was asked to keep"),
    ES_COL(loss_setting_row, k_type, ES_FORMAT_TEXT, "K type", "", "number type of cached keys"),
    ES_COL(loss_setting_row, v_type, ES_FORMAT_TEXT, "V type", "", "number type of cached values"),
    ES_COL(loss_setting_row, scale, ES_FORMAT_TEXT, "scale", "", "factor on scores"),
    ES_COL(loss_setting_row, nll, ES_FORMAT_REAL, "loss", "nats",
           "per token; mean, error over blocks"),
    ES_COL_KEY(loss_setting_row, nll_low, "nll_ci.0", ES_FORMAT_REAL, "loss from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(loss_setting_row, nll_high, "nll_ci.1", ES_FORMAT_REAL, "loss to", "nats"),
    ES_COL(loss_setting_row, bits_per_byte, ES_FORMAT_REAL, "bits/byte", "bits",
           "of the text that was predicted"),
    ES_COL(loss_setting_row, cost, ES_FORMAT_REAL, "cost", "nats",
           "loss less that of the full model, over all predicted tokens; with a cache or --against "
           "over those after the prompt; error over blocks"),
    ES_COL_KEY(loss_setting_row, cost_low, "cost_ci.0", ES_FORMAT_REAL, "cost from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(loss_setting_row, cost_high, "cost_ci.1", ES_FORMAT_REAL, "cost to", "nats"),
    ES_COL_KEY(loss_setting_row, loss, "loss", ES_FORMAT_REAL, "loss", "nats",
               "per token that is predicted after the prompt; mean, error over blocks"),
    ES_COL(loss_setting_row, kl, ES_FORMAT_REAL, "KL", "nats",
           "KL(full ‖ setting) of the next token, mean over places after the prompt (all, if there "
           "is no --prompt, cache or plan of one); error over blocks"),
    ES_COL_KEY(loss_setting_row, kl_low, "kl_ci.0", ES_FORMAT_REAL, "KL from", "nats",
               "95 % interval, Student's t over blocks"),
    ES_COL_KEY(loss_setting_row, kl_high, "kl_ci.1", ES_FORMAT_REAL, "KL to", "nats"),
    ES_COL(loss_setting_row, agreement, ES_FORMAT_REAL, "agreement", "",
           "share of places whose most likely next token is that of the full model"),
    ES_COL(loss_setting_row, late, ES_FORMAT_REAL, "late cost", "nats",
           "cost over the tokens in the second half of their block; every window up to half a "
           "block takes something from each of them"),
    ES_COL(loss_setting_row, keys, ES_FORMAT_SHORT, "keys", "keys",
           "of a query, mean; with --evict the number that each key-value head keeps"),
    ES_COL(loss_setting_row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "of attention weights, mean over heads and queries; error over blocks"),
    {0}};
static const es_table_view setting_views[] = {
    {"Loss by setting", "setting evict nll loss cost late kl agreement entropy bits_per_byte keys"},
    {"Intervals", "setting nll nll_ci.0 nll_ci.1 cost cost_ci.0 cost_ci.1 kl kl_ci.0 kl_ci.1",
     .only_with_full = true},
    {0}};
static const es_table_spec settings_table = {"settings", setting_columns, setting_views,
                                             ES_ROW(loss_setting_row), .keys = "setting"};

/* Returns a mean over blocks with its standard error. */
static es_measured measured(const es_block_mean *m) { return (es_measured){m->value, m->se}; }

double loss_bits_per_byte(const loss_state *s, const es_block_mean *m)
{
    return m->value * (double)m->tokens / log(2.0) / (double)s->bytes;
}

/* Fills what a setting changes: window, sinks, scale, policy. */
static void fill_asked(const loss_setting *setting, es_table *t, loss_setting_row *r)
{
    const es_loss_setting *lab = &setting->lab;
    char word[ES_POLICY_SIZE];
    r->setting = es_table_format(t, "%s", setting->name);
    r->scale = es_table_format(t, "%s", setting->scale);
    if (lab->window) {
        r->window = lab->window;
        r->sinks = lab->sinks;
    }
    if (lab->plan)
        r->policy = "plan";
    if (lab->policy.policy)
        r->policy = es_table_format(t, "%s", es_policy_word(&lab->policy, word));
    if (lab->policy.policy && lab->policy.keys >= 0)
        r->keys_asked = lab->policy.keys;
}

/* Fills what the cache does in a setting. */
static void fill_cache(const es_cache_setting *cache, es_table *t, loss_setting_row *r)
{
    char word[ES_CACHE_SIZE];
    r->evict = es_cache_mode_name(cache->mode);
    if (cache->units) { /* which differ by head */
        r->policy = "plan";
        r->keys = cache->keys;
        return;
    }
    r->k_type = es_table_format(t, "%s", es_kv_format_name(&cache->unit.k, word, sizeof word));
    r->v_type = es_table_format(t, "%s", es_kv_format_name(&cache->unit.v, word, sizeof word));
    if (!cache->unit.evict.policy)
        return;
    r->policy = es_table_format(t, "%s", es_cache_policy(cache, word));
    r->keys_asked = cache->unit.evict.keys;
    r->keys = (double)cache->unit.evict.keys;
}

/* Fills how far distributions are from those of the full model. */
static void fill_change(const es_job *job, int64_t setting, loss_setting_row *r)
{
    const loss_state *s = job->state;
    const es_block_mean kl = loss_kl(job, setting, -1, s->from, s->longest);
    const es_block_mean agree = loss_agree(job, setting, s->from, s->longest);
    r->kl = measured(&kl);
    r->kl_low = kl.low;
    r->kl_high = kl.high;
    r->agreement = measured(&agree);
}

/* Fills a setting of a cache or another model: only what is predicted after the prompt counts. */
static void fill_compared(const es_job *job, int64_t setting, loss_setting_row *r)
{
    const loss_state *s = job->state;
    const es_block_mean m = loss_over(job, setting, s->from + 1, s->longest);
    const es_block_mean cost = loss_cost(job, setting, s->from + 1, s->longest);
    r->prompt = s->from;
    r->loss = measured(&m);
    if (!setting)
        return;
    r->cost = measured(&cost);
    r->cost_low = cost.low;
    r->cost_high = cost.high;
}

/* Fills what a setting costs against full attention, over all tokens and over late ones. */
static void fill_cost(const es_job *job, int64_t setting, loss_setting_row *r)
{
    const loss_state *s = job->state;
    const es_block_mean cost = loss_cost(job, setting, 1, s->longest);
    const es_block_mean late = loss_less(job, setting, 0);
    r->cost = measured(&cost);
    r->cost_low = cost.low;
    r->cost_high = cost.high;
    r->late = measured(&late);
}

/* Fills loss and cost of a setting over all tokens. */
static void fill_loss(const es_job *job, int64_t setting, loss_setting_row *r)
{
    const loss_state *s = job->state;
    const es_block_mean m = loss_over(job, setting, 1, s->longest);
    r->nll = measured(&m);
    r->nll_low = m.low;
    r->nll_high = m.high;
    if (s->bytes)
        r->bits_per_byte = loss_bits_per_byte(s, &m);
    if (setting)
        fill_cost(job, setting, r);
}

/* Adds the row of one setting. */
static void add_setting(const es_job *job, int64_t setting, es_table *t)
{
    const loss_state *s = job->state;
    const es_loss_setting *lab = &s->settings[setting].lab;
    loss_setting_row *r = es_rows_add(t, loss_setting_row);
    if (!r)
        return;
    fill_asked(&s->settings[setting], t, r);
    r->keys = keys_of(job, setting);
    if (lab->policy.policy || lab->plan)
        r->evict = es_cache_modes[ES_CACHE_IDEAL];
    if (lab->cache)
        fill_cache(lab->cache, t, r);
    if (s->caches.count || s->other)
        fill_compared(job, setting, r);
    else
        fill_loss(job, setting, r);
    if (!lab->other || es_model_config_of(s->other)->layers == s->config->layers)
        r->entropy = entropy_of(job, setting, -1);
    if (setting && s->compares)
        fill_change(job, setting, r);
}

/* ---- rows, positions ---- */

#define POSITION_COLUMNS                                                                           \
    ES_COL(loss_position_row, from, ES_FORMAT_COUNT, "from", "",                                   \
           "places [from, to) of the predicted tokens in their block, counted from 0"),            \
        ES_COL(loss_position_row, to, ES_FORMAT_COUNT, "to", ""),                                  \
        ES_COL(loss_position_row, count, ES_FORMAT_COUNT, "tokens", "tokens",                      \
               "predicted tokens in all blocks"),                                                  \
        ES_COL(loss_position_row, nll, ES_FORMAT_REAL, "loss", "nats",                             \
               "`-ln p` of the token; mean, error over blocks"),                                   \
        ES_COL(loss_position_row, cost, ES_FORMAT_REAL, "cost", "nats",                            \
               "loss less that of the full model, on the same tokens"),                            \
        ES_COL(loss_position_row, kl, ES_FORMAT_REAL, "KL", "nats",                                \
               "KL(full ‖ setting) of the token, mean"),                                           \
        ES_COL(loss_position_row, agreement, ES_FORMAT_REAL, "agreement", "",                      \
               "share of tokens whose most likely value is that of the full model")

static const es_column row_columns[] = {POSITION_COLUMNS, {0}};
static const es_table_spec rows_table = {"rows", row_columns, ES_VIEW("Loss by position"),
                                         ES_ROW(loss_position_row), .keys = "from"};

static const es_column position_columns[] = {
    ES_COL(loss_position_row, setting, ES_FORMAT_TEXT, "setting", ""), POSITION_COLUMNS, {0}};
static const es_table_spec positions_table = {
    "positions", position_columns,
    ES_VIEW("Loss by position in every setting", .only_with_full = true), ES_ROW(loss_position_row),
    .keys = "setting from"};

static const es_table_spec stretched_table = {"positions", position_columns,
                                              ES_VIEW("Loss by position in every setting"),
                                              ES_ROW(loss_position_row), .keys = "setting from"};

/* Divides the places of a block: by --context, or in octaves with a cut where places begin to be
 * compared or the trained context ends. Returns the number of bins. */
static int make_bins(const es_job *job, loss_bin bins[LOSS_BINS])
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const double trained = s->trained < (double)s->longest ? s->trained : 0.0;
    int count = 0;
    if (!p->context.count)
        return loss_bins(s->longest, s->from || !p->rope ? s->from : (int64_t)trained, bins);
    for (int64_t i = 0, from = 1; i < p->context.count && from < s->longest; i++) {
        const int64_t to = p->context.counts[i];
        bins[count++] = (loss_bin){from, to < s->longest ? to : s->longest};
        from = to;
    }
    return count;
}

/* Adds a row for each bin of places in a setting. */
static void add_positions(const es_job *job, int64_t setting, es_table *t)
{
    const loss_state *s = job->state;
    loss_bin bins[LOSS_BINS];
    const int count = make_bins(job, bins);
    const char *name = es_table_format(t, "%s", s->settings[setting].name);
    for (int i = 0; i < count; i++) {
        const es_block_mean m = loss_over(job, setting, bins[i].from, bins[i].to);
        loss_position_row *r = es_rows_add(t, loss_position_row);
        if (!r)
            return;
        r->setting = name;
        r->from = bins[i].from;
        r->to = bins[i].to;
        r->count = m.tokens;
        r->nll = measured(&m);
        if (setting) {
            const es_block_mean cost = loss_cost(job, setting, bins[i].from, bins[i].to);
            r->cost = measured(&cost);
        }
        if (setting && s->compares && bins[i].to - 1 > s->from) {
            const es_block_mean kl = loss_kl(job, setting, -1, bins[i].from - 1, bins[i].to - 1);
            const es_block_mean agree = loss_agree(job, setting, bins[i].from - 1, bins[i].to - 1);
            r->kl = measured(&kl);
            r->agreement = measured(&agree);
        }
    }
}

/* ---- layers ---- */

/* A row of the table of layers: entropy of attention under one setting. */
typedef struct layer_row {
    const char *setting;
    int64_t layer;
    es_measured entropy;
} layer_row;

static const es_column layer_columns[] = {
    ES_COL(layer_row, setting, ES_FORMAT_TEXT, "setting", ""),
    ES_COL(layer_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(layer_row, entropy, ES_FORMAT_REAL, "entropy", "nats",
           "of attention weights, mean over heads and queries; error over blocks"),
    {0}};
static const es_table_spec layers_table = {"layers", layer_columns,
                                           ES_VIEW("Entropy by layer", .only_with_full = true),
                                           ES_ROW(layer_row), .keys = "setting layer"};

/* Adds the entropy of attention by layer. */
static void add_layers(const es_job *job, es_table *t)
{
    const loss_state *s = job->state;
    for (int64_t k = 0; k < s->count; k++) {
        const char *name = es_table_format(t, "%s", s->settings[k].name);
        for (int64_t l = 0; l < s->config->layers; l++) {
            layer_row *r = es_rows_add(t, layer_row);
            if (!r)
                return;
            r->setting = name;
            r->layer = l;
            r->entropy = entropy_of(job, k, l);
        }
    }
}

/* ---- text ---- */

/* The row about the text. */
typedef struct text_row {
    int64_t blocks, longest, tokens, bytes, of, apart;
    es_measured neighbours;
} text_row;

static const es_column text_columns[] = {
    ES_COL(text_row, blocks, ES_FORMAT_COUNT, "blocks", ""),
    ES_COL(text_row, longest, ES_FORMAT_COUNT, "longest", "tokens",
           "tokens of a block, the start token included"),
    ES_COL(text_row, tokens, ES_FORMAT_COUNT, "predicted", "tokens"),
    ES_COL(text_row, bytes, ES_FORMAT_COUNT, "bytes", "bytes", "of the text of these tokens"),
    ES_COL(text_row, of, ES_FORMAT_COUNT, "whole blocks of the text", "",
           "from which the blocks were taken evenly"),
    ES_COL(text_row, apart, ES_FORMAT_COUNT, "start to start", "tokens",
           "from a block to the next one taken, mean"),
    ES_COL(text_row, neighbours, ES_FORMAT_REAL, "correlation of neighbours", "",
           "lag-1 correlation of the mean losses of blocks; the error is its standard deviation "
           "for independent blocks, around 0. If it is clearly above 0 and blocks were not taken "
           "evenly, the errors of this answer are too small"),
    {0}};
static const es_table_spec text_table = {"text", text_columns, ES_VIEW("Text"), ES_ROW(text_row),
                                         .record = true};

/* Adds the row about the text: blocks, tokens, and how far neighbouring blocks correlate. */
static void add_text(const es_job *job, es_table *t)
{
    const loss_state *s = job->state;
    const loss_neighbours near = loss_neighbours_of(job, s->asked);
    text_row *r = es_rows_add(t, text_row);
    if (!r)
        return;
    r->blocks = s->text.count;
    r->longest = s->longest;
    r->tokens = s->tokens;
    if (s->bytes)
        r->bytes = s->bytes;
    if (s->text.of)
        r->of = s->text.of;
    if (s->text.count > 1)
        r->apart = (int64_t)near.apart;
    if (!isnan(near.correlation))
        r->neighbours = (es_measured){near.correlation, near.chance};
}

/* ---- single results ---- */

/* Puts the loss of the setting that was asked for, for programs. */
static void put_scalars(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const es_block_mean m = loss_over(job, s->asked, 1, s->longest);
    es_answer_text(a, "model", es_model_folder(s->model));
    es_answer_text(a, "setting", s->settings[s->asked].name);
    es_answer_count(a, "tokens", m.tokens);
    es_answer_real(a, "nll", m.value);
    es_answer_real(a, "nll_se", m.se);
    if (s->bytes)
        es_answer_real(a, "bits_per_byte", loss_bits_per_byte(s, &m));
    if (!s->compares || !s->asked)
        return;
    const es_block_mean kl = loss_kl(job, s->asked, -1, s->from, s->longest);
    es_answer_real(a, "kl", kl.value);
    es_answer_real(a, "kl_se", kl.se);
    es_answer_real(a, "agreement", loss_agree(job, s->asked, s->from, s->longest).value);
}

/* ---- the loss of every token ---- */

/* Writes the file of --per-token. */
static es_status write_tokens(const es_job *job, es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    double *all;
    int64_t at = 0;
    ES_TRY(ES_MEM_NEW(job->exec.budget, all, s->tokens, "losses", err));
    for (int64_t b = 0; b < s->text.count; b++) {
        const int64_t n = loss_length(s, b) - 1;
        memcpy(all + at, loss_tokens(job, s->asked, b), (size_t)n * sizeof *all);
        at += n;
    }
    const es_status status = es_npy_save(p->per_token, ES_F64, 1, &s->tokens, all, job->force, err);
    es_mem_free(job->exec.budget, all);
    return status;
}

/* ---- all of it ---- */

es_status loss_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    put_scalars(job, answer);
    ES_TRY(loss_put_stretch(job, answer, err));
    ES_TRY(loss_put_windows(job, answer, err));
    es_table *settings = s->count > 1 ? es_answer_table(answer, &settings_table) : NULL;
    for (int64_t k = 0; settings && k < s->count; k++)
        add_setting(job, k, settings);
    es_table *rows = es_answer_table(answer, &rows_table);
    add_positions(job, s->asked, rows);
    es_table *positions =
        s->count > 1 ? es_answer_table(answer, p->rope ? &stretched_table : &positions_table)
                     : NULL;
    for (int64_t k = 0; positions && k < s->count; k++)
        add_positions(job, k, positions);
    ES_TRY(loss_put_fits(job, answer, err));
    add_layers(job, es_answer_table(answer, &layers_table));
    add_text(job, es_answer_table(answer, &text_table));
    ES_TRY(es_answer_status(answer, err));
    loss_add_findings(job, settings ? es_rows(settings, loss_setting_row) : NULL,
                      es_rows(rows, loss_position_row), es_table_rows(rows), answer);
    return p->per_token ? write_tokens(job, err) : ES_OK;
}
