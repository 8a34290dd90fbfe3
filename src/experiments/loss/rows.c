/* rows.c : losses of tokens become means by setting and by position, with their errors over
 * blocks, and sentences about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/loss/question.h"
#include "model/model.h"
#include "stats/average.h"

/* ---- tables ---- */

#define POSITION_COLUMNS                                                                           \
    {"from", "from", "", ES_FORMAT_COUNT,                                                          \
     "places [from, to) in a block of the tokens that are predicted: so many stand before them"},  \
        {"to", "to", "", ES_FORMAT_COUNT},                                                         \
        {"count", "tokens", "tokens", ES_FORMAT_COUNT, "that are predicted, in all blocks"},       \
        {"nll",                                                                                    \
         "loss",                                                                                   \
         "nats",                                                                                   \
         ES_FORMAT_REAL,                                                                           \
         "-ln p of the token; mean, error over blocks",                                            \
         .error = "nll_se"},                                                                       \
    {                                                                                              \
        "cost", "cost", "nats", ES_FORMAT_REAL,                                                    \
            "loss less that of the model as it is, on the same tokens", .error = "cost_se"         \
    }

static const es_column row_columns[] = {POSITION_COLUMNS, {0}};
static const es_table_spec rows_table = {"rows", row_columns, ES_VIEW("Loss by position"),
                                         .keys = "from"};

static const es_column setting_columns[] = {
    {"setting", "setting", "", ES_FORMAT_TEXT, "what is done to the model; full: nothing"},
    {"window", "window", "keys", ES_FORMAT_COUNT,
     "the last keys that a query sees, its own among "
     "them"},
    {"sinks", "sinks", "keys", ES_FORMAT_COUNT, "the first keys, which it sees too"},
    {"policy", "policy", "", ES_FORMAT_TEXT, "which keys a query keeps"},
    {"keys_asked", "keys asked", "keys", ES_FORMAT_COUNT, "that the policy is to keep"},
    {"scale", "scale", "", ES_FORMAT_TEXT, "factor on scores"},
    {"nll", "loss", "nats", ES_FORMAT_REAL, "per token; mean, error over blocks",
     .error = "nll_se"},
    {"nll_ci.0", "loss from", "nats", ES_FORMAT_REAL, "95 % interval, Student's t over blocks"},
    {"nll_ci.1", "loss to", "nats", ES_FORMAT_REAL},
    {"bits_per_byte", "bits/byte", "bits", ES_FORMAT_REAL, "of the text that was predicted"},
    {"cost", "cost", "nats", ES_FORMAT_REAL,
     "loss less that of the model as it is, on the same tokens; error over blocks",
     .error = "cost_se"},
    {"cost_ci.0", "cost from", "nats", ES_FORMAT_REAL, "95 % interval, Student's t over blocks"},
    {"cost_ci.1", "cost to", "nats", ES_FORMAT_REAL},
    {"late", "late cost", "nats", ES_FORMAT_REAL,
     "the same over the tokens in the second half of their block, which all windows up to half a "
     "block take something from",
     .error = "late_se"},
    {"keys", "keys", "keys", ES_FORMAT_SHORT, "of a query, mean"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL,
     "of attention weights, mean over heads and queries; error over blocks", .error = "entropy_se"},
    {0}};
static const es_table_view setting_views[] = {
    {"What is done to the model", "setting nll cost late entropy bits_per_byte keys"},
    {"Intervals", "setting nll nll_ci.0 nll_ci.1 cost cost_ci.0 cost_ci.1", .only_with_full = true},
    {0}};
static const es_table_spec settings_table = {"settings", setting_columns, setting_views,
                                             .keys = "setting"};

static const es_column position_columns[] = {
    {"setting", "setting", "", ES_FORMAT_TEXT}, POSITION_COLUMNS, {0}};
static const es_table_spec positions_table = {
    "positions", position_columns,
    ES_VIEW("Loss by position in every setting", .only_with_full = true), .keys = "setting from"};

static const es_column layer_columns[] = {
    {"setting", "setting", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL,
     "of attention weights, mean over heads and queries; error over blocks", .error = "entropy_se"},
    {0}};
static const es_table_spec layers_table = {"layers", layer_columns,
                                           ES_VIEW("Entropy by layer", .only_with_full = true),
                                           .keys = "setting layer"};

static const es_column text_columns[] = {
    {"blocks", "blocks", "", ES_FORMAT_COUNT},
    {"longest", "longest", "tokens", ES_FORMAT_COUNT,
     "ids of a block, with the one that begins it"},
    {"tokens", "predicted", "tokens", ES_FORMAT_COUNT},
    {"bytes", "bytes", "bytes", ES_FORMAT_COUNT, "of the text that these stand for"},
    {"of", "whole blocks of the text", "", ES_FORMAT_COUNT,
     "that the blocks were taken from evenly"},
    {"apart", "start to start", "tokens", ES_FORMAT_COUNT,
     "from a block to the next that was taken, mean"},
    {"neighbours", "correlation of neighbours", "", ES_FORMAT_REAL,
     "of mean losses of blocks that follow each other here; of independent blocks it is 0, to this "
     "error. Clearly above 0 where blocks were not taken evenly: their errors are too small",
     .error = "neighbours_se"},
    {0}};
static const es_table_spec text_table = {"text", text_columns, ES_VIEW("Text"), .record = true};

/* ---- entropy ---- */

/* Mean over blocks, which weigh as many queries as they have; layer -1: over layers, too. */
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

/* ---- rows ---- */

static int64_t put_bin(const es_job *job, int64_t setting, const loss_bin *bin, es_table *t)
{
    const loss_mean m = loss_over(job, setting, bin->from, bin->to);
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "from", bin->from);
    es_table_count(t, row, "to", bin->to);
    es_table_count(t, row, "count", m.tokens);
    es_put(t, row, {"nll", m.value}, {"nll_se", m.se});
    if (setting) {
        const loss_mean cost = loss_cost(job, setting, bin->from, bin->to);
        es_put(t, row, {"cost", cost.value}, {"cost_se", cost.se});
    }
    return row;
}

static void put_positions(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    loss_bin bins[LOSS_BINS];
    const int count = loss_bins(s->longest, bins);
    es_table *rows = es_answer_table(a, &rows_table);
    for (int i = 0; i < count; i++)
        put_bin(job, s->asked, &bins[i], rows);
    if (s->count == 1)
        return;
    es_table *all = es_answer_table(a, &positions_table);
    for (int64_t k = 0; k < s->count; k++)
        for (int i = 0; i < count; i++) {
            const int64_t row = put_bin(job, k, &bins[i], all);
            es_table_text(all, row, "setting", s->settings[k].name);
        }
}

static double bits_per_byte(const loss_state *s, const loss_mean *m)
{
    return s->bytes ? m->value * (double)m->tokens / log(2.0) / (double)s->bytes : (double)NAN;
}

static void put_what(const loss_setting *setting, es_table *t, int64_t row)
{
    const es_loss_setting *lab = &setting->lab;
    char word[ES_POLICY_ROOM];
    es_table_text(t, row, "setting", setting->name);
    es_table_text(t, row, "scale", setting->scale);
    if (lab->window) {
        es_table_count(t, row, "window", lab->window);
        es_table_count(t, row, "sinks", lab->sinks);
    }
    if (lab->plan)
        es_table_text(t, row, "policy", "plan");
    if (lab->policy.policy)
        es_table_text(t, row, "policy", es_policy_word(&lab->policy, word));
    if (lab->policy.policy && lab->policy.keys >= 0)
        es_table_count(t, row, "keys_asked", lab->policy.keys);
}

static void put_setting(const es_job *job, int64_t k, es_table *t)
{
    const loss_state *s = job->state;
    const loss_mean m = loss_over(job, k, 1, s->longest);
    const es_measured entropy = entropy_of(job, k, -1);
    const int64_t row = es_table_row(t);
    put_what(&s->settings[k], t, row);
    es_put(t, row, {"nll", m.value}, {"nll_se", m.se}, {"nll_ci.0", m.low}, {"nll_ci.1", m.high},
           {"keys", keys_of(job, k)}, {"entropy", entropy.value}, {"entropy_se", entropy.se});
    if (s->bytes)
        es_table_real(t, row, "bits_per_byte", bits_per_byte(s, &m));
    if (!k)
        return;
    const loss_mean cost = loss_cost(job, k, 1, s->longest);
    const loss_mean late = loss_less(job, k, 0);
    es_put(t, row, {"cost", cost.value}, {"cost_se", cost.se}, {"cost_ci.0", cost.low},
           {"cost_ci.1", cost.high}, {"late", late.value}, {"late_se", late.se});
}

static void put_layers(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    es_table *t = es_answer_table(a, &layers_table);
    for (int64_t k = 0; k < s->count; k++)
        for (int64_t l = 0; l < s->config->layers; l++) {
            const es_measured m = entropy_of(job, k, l);
            const int64_t row = es_table_row(t);
            es_table_text(t, row, "setting", s->settings[k].name);
            es_table_count(t, row, "layer", l);
            es_put(t, row, {"entropy", m.value}, {"entropy_se", m.se});
        }
}

static void put_text(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    es_table *t = es_answer_table(a, &text_table);
    const int64_t row = es_table_row(t);
    es_table_count(t, row, "blocks", s->text.count);
    es_table_count(t, row, "longest", s->longest);
    es_table_count(t, row, "tokens", s->tokens);
    if (s->bytes)
        es_table_count(t, row, "bytes", s->bytes);
    if (s->text.of)
        es_table_count(t, row, "of", s->text.of);
    const loss_neighbours near = loss_neighbours_of(job, s->asked);
    if (s->text.count > 1)
        es_table_count(t, row, "apart", (int64_t)near.apart);
    if (!isnan(near.correlation))
        es_put(t, row, {"neighbours", near.correlation}, {"neighbours_se", near.chance});
}

/* The answer in one place, for programs: of the setting that was asked for. */
static void put_answer(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_mean m = loss_over(job, s->asked, 1, s->longest);
    es_answer_text(a, "model", es_model_folder(s->model));
    es_answer_text(a, "setting", s->settings[s->asked].name);
    es_answer_count(a, "tokens", m.tokens);
    es_answer_real(a, "nll", m.value);
    es_answer_real(a, "nll_se", m.se);
    if (s->bytes)
        es_answer_real(a, "bits_per_byte", bits_per_byte(s, &m));
}

/* ---- sentences ---- */

/* Does the 95 % interval hold 0? Of one block nothing is known. */
static bool may_be_chance(const loss_mean *m) { return m->low <= 0.0 && m->high >= 0.0; }

static void tell_loss(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_mean m = loss_over(job, s->asked, 1, s->longest);
    char loss[ES_SAY_ROOM], bits[ES_SAY_ROOM] = "", of[ES_SAY_ROOM] = "";
    if (s->bytes)
        snprintf(bits, sizeof bits, ", %.4g bits per byte", bits_per_byte(s, &m));
    if (s->text.of > s->text.count)
        snprintf(of, sizeof of, ", evenly from %lld", (long long)s->text.of);
    es_answer_add_finding(
        a, "The loss%s%s is %s nats per token%s: %lld tokens in %lld block%s of %s%lld%s.",
        s->asked ? " with " : "", s->asked ? s->settings[s->asked].name : "",
        es_say_number(m.value, m.se, loss), bits, (long long)m.tokens, (long long)s->text.count,
        s->text.count == 1 ? "" : "s",
        s->tokens == s->text.count * (s->longest - 1) ? "" : "up to ", (long long)s->longest, of);
}

/* Where in a block is the loss lowest? */
static void tell_positions(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    loss_bin bins[LOSS_BINS];
    const int count = loss_bins(s->longest, bins);
    const loss_bin *best = &bins[0], *last = &bins[count - 1];
    char low[ES_SAY_ROOM], more[ES_SAY_ROOM], rest[LOSS_ROOM] = "";
    if (count < 3)
        return;
    for (int i = 1; i < count; i++)
        if (loss_over(job, s->asked, bins[i].from, bins[i].to).value <
            loss_over(job, s->asked, best->from, best->to).value)
            best = &bins[i];
    const loss_mean m = loss_over(job, s->asked, best->from, best->to);
    if (best != last) {
        const loss_mean rise = loss_fall(job, s->asked, last->from, last->to, best->from, best->to);
        snprintf(rest, sizeof rest, "; places %lld to %lld have %s more%s", (long long)last->from,
                 (long long)last->to - 1, es_say_number(rise.value, rise.se, more),
                 may_be_chance(&rise) ? ", which may be chance" : "");
    }
    es_answer_add_finding(
        a, "The loss is lowest at places %lld to %lld of a block, %s nats per token%s.",
        (long long)best->from, (long long)best->to - 1, es_say_number(m.value, m.se, low), rest);
}

/* "ln i / ln 2048 (log), which softens attention before place 2048 and sharpens it after". */
static void say_scale(const es_job *job, const loss_setting *x, char out[2 * LOSS_ROOM])
{
    const loss_state *s = job->state;
    const bool full = !x->lab.window && !x->lab.policy.policy && !x->lab.plan;
    const char *name = full ? x->scale : x->name;
    const double R = x->lab.reference,
                 factor = es_score_factor(&x->lab, s->longest - 1, s->longest);
    const bool past = (double)s->longest > R; /* the last query stands at place `longest` */
    if (x->lab.scale == ES_SCALE_LOG)
        snprintf(out, 2 * LOSS_ROOM, "ln i / ln %.6g (%s), softer before place %.6g%s,", R, name, R,
                 past ? " and sharper after it" : "");
    else if (x->lab.scale == ES_SCALE_LOGN)
        snprintf(out, 2 * LOSS_ROOM, "ln i / ln %.6g from place %.6g on (%s), sharper there,", R, R,
                 name);
    else
        snprintf(out, 2 * LOSS_ROOM, "%.4g (%s), %s everywhere,", factor, name,
                 factor > 1.0   ? "sharper"
                 : factor < 1.0 ? "softer"
                                : "the same");
}

/* The setting with the same keys and scores as they are; -1: it was not run. */
static int64_t without_scale(const loss_state *s, int64_t setting)
{
    const es_loss_setting *x = &s->settings[setting].lab;
    for (int64_t k = 0; k < s->count; k++) {
        const es_loss_setting *y = &s->settings[k].lab;
        if (!y->scale && y->window == x->window && y->sinks == x->sinks && y->plan == x->plan &&
            es_policy_same(&y->policy, &x->policy) && y->policy.keys == x->policy.keys)
            return k;
    }
    return -1;
}

/* What a scale does to the model at the same keys, if these were run without it: entropy and loss.
 */
static void tell_scale(const es_job *job, int64_t k, es_answer *a)
{
    const loss_state *s = job->state;
    const int64_t base = without_scale(s, k);
    char what[2 * LOSS_ROOM], cost[ES_SAY_ROOM];
    if (base < 0)
        return;
    const loss_mean m = loss_without(job, -1, k, base, 1, s->longest);
    const es_measured was = entropy_of(job, base, -1), is = entropy_of(job, k, -1);
    say_scale(job, &s->settings[k], what);
    es_answer_add_finding(a,
                          "Scores times %s %s the loss by %s nats per token%s; the mean entropy of "
                          "attention goes from %.4g to %.4g nats.",
                          what, m.value > 0.0 ? "raise" : "lower",
                          es_say_number(fabs(m.value), m.se, cost),
                          may_be_chance(&m) ? ", which may be chance" : "", was.value, is.value);
}

/* All numbers of keys of the policy that setting `first` is the first of, in one sentence. */
static void tell_policy(const es_job *job, int64_t first, es_answer *a)
{
    const loss_state *s = job->state;
    const es_policy_spec *own = &s->settings[first].lab.policy;
    char list[1536] = "", word[ES_POLICY_ROOM], cost[ES_SAY_ROOM];
    for (int64_t k = 1; k < s->count; k++) {
        const es_loss_setting *x = &s->settings[k].lab;
        const size_t used = strlen(list);
        if (!x->policy.policy || x->scale || !es_policy_same(&x->policy, own))
            continue;
        if (k < first)
            return; /* said already */
        if (used + 200 > sizeof list)
            continue;
        const loss_mean m = loss_cost(job, k, 1, s->longest);
        snprintf(list + used, sizeof list - used, "%s%s with %.4g keys", used ? ", " : "",
                 es_say_number(m.value, m.se, cost), keys_of(job, k));
    }
    es_answer_add_finding(a, "%s costs, in nats per token: %s (means over queries).",
                          es_policy_word(own, word), list);
}

static void tell_plan(const es_job *job, int64_t k, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    const loss_mean m = loss_cost(job, k, 1, s->longest);
    const loss_mean late = loss_less(job, k, 0);
    char plan[ES_PLAN_ROOM], cost[ES_SAY_ROOM], rest[ES_SAY_ROOM];
    es_answer_add_finding(
        a,
        "By %s, the loss is %s nats per token %s%s; %s in the second half of a block. A "
        "query has %.4g keys on average.",
        es_plan_say(s->plan, p->plan, plan), es_say_number(fabs(m.value), m.se, cost),
        m.value > 0.0 ? "higher" : "lower", may_be_chance(&m) ? ", which may be chance" : "",
        es_say_number(late.value, late.se, rest), keys_of(job, k));
}

/* On an even grid, neighbours that correlate make errors too large, not too small: each stands for
 * the text around it. */
static void tell_cautions(const es_job *job, es_answer *a)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const loss_neighbours near = loss_neighbours_of(job, s->asked);
    if (s->text.count == 1)
        es_answer_add_finding(
            a, "Caution: there is one block, and so no error; more text, or a smaller "
               "--block, makes several.");
    else if (s->text.count < 4)
        es_answer_add_finding(
            a,
            "Caution: errors are those of %lld blocks alone; more text, or a smaller "
            "--block, makes more of them.",
            (long long)s->text.count);
    else if (near.positive && s->text.of <= s->text.count)
        es_answer_add_finding(
            a,
            "Caution: losses of neighbouring blocks correlate by %.2f (by chance: 0 ± "
            "%.2f). ± of the loss is too small, by a factor of about %.2g. %s",
            near.correlation, near.chance,
            sqrt((1.0 + near.correlation) / (1.0 - near.correlation)),
            p->from == ES_BLOCKS_EVEN ? "Take fewer blocks, far apart: --blocks."
                                      : "Take them evenly: --blocks-from even.");
}

/* ---- the loss of every token ---- */

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

/* Three findings are read; the tables have the rest. */
static bool may_tell(const es_answer *a) { return !es_answer_finding(a, 2); }

es_status loss_summarise(es_job *job, es_answer *answer, es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    put_answer(job, answer);
    ES_TRY(loss_put_context(job, answer, err));
    for (int64_t k = 1; k < s->count && may_tell(answer); k++)
        if (s->settings[k].lab.scale)
            tell_scale(job, k, answer);
        else if (s->settings[k].lab.plan)
            tell_plan(job, k, answer);
        else if (s->settings[k].lab.policy.policy)
            tell_policy(job, k, answer);
    if (may_tell(answer))
        tell_loss(job, answer);
    if (may_tell(answer))
        tell_positions(job, answer);
    es_table *t = s->count > 1 ? es_answer_table(answer, &settings_table) : NULL;
    for (int64_t k = 0; t && k < s->count; k++)
        put_setting(job, k, t);
    put_positions(job, answer);
    ES_TRY(loss_put_fits(job, answer, err));
    put_layers(job, answer);
    put_text(job, answer);
    tell_cautions(job, answer);
    return p->per_token ? write_tokens(job, err) : ES_OK;
}
