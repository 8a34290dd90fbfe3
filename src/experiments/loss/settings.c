/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c : the settings that the parameters ask for: windows with and without sinks, policies
 * or a plan, each at every score scale. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "driver/numbers.h"
#include "experiments/loss/loss.h"
#include "model/model.h"

/* ---- score scales ---- */

enum { MOST_SCALES = 64 };

/* The score scales of --score-scale. */
typedef struct scales {
    es_loss_setting at[MOST_SCALES];
    char names[MOST_SCALES][LOSS_SIZE];
    int64_t count;
} scales;

/* Reads the parts of "llama4:beta=B:n0=M" after the word; returns whether they are as they should
 * be. */
static bool read_llama4(const char *at, es_loss_setting *out)
{
    *out = (es_loss_setting){.scale = ES_SCALE_LLAMA4, .factor = 0.1, .reference = 8192.0};
    while (*at) {
        char text[LOSS_ROPE_NAME];
        const bool beta = strncmp(at, ":beta=", 6) == 0, n0 = strncmp(at, ":n0=", 4) == 0;
        double *to = beta ? &out->factor : &out->reference;
        if (!beta && !n0)
            return false;
        at += beta ? 6 : 4;
        const size_t length = strcspn(at, ":");
        if (length >= sizeof text)
            return false;
        snprintf(text, sizeof text, "%.*s", (int)length, at);
        if (es_number_real(text, to) || !(*to <= (beta ? 1e3 : 1e12)) || !(*to >= !beta))
            return false;
        at += length;
    }
    return true;
}

/* Reads one score scale: none, log, or a number; its reference is the context that the model was
 * trained on. */
static es_status read_scale(const es_job *job, const char *word, es_loss_setting *out,
                            es_error *err)
{
    const loss_params *p = job->params;
    const loss_state *s = job->state;
    const double n = (double)s->longest;
    char *end;
    *out = (es_loss_setting){.reference = s->trained};
    if (strcmp(word, "none") == 0)
        return ES_OK;
    if (strcmp(word, "log") == 0) {
        out->scale = ES_SCALE_LOG;
        return ES_OK;
    }
    if (strcmp(word, "yarn") == 0 || strcmp(word, "logn") == 0) {
        out->scale = *word == 'y' ? ES_SCALE_YARN : ES_SCALE_LOGN;
        if (!p->reference && n <= s->trained)
            out->reference = fmax(2.0, n / 8.0);
        return ES_OK;
    }
    if (strncmp(word, "llama4", 6) == 0 && read_llama4(word + 6, out))
        return ES_OK;
    out->scale = ES_SCALE_FACTOR;
    out->factor = strtod(word, &end);
    if (*end || end == word || !(out->factor > 0.0 && out->factor <= 1e6))
        return es_refuse(err, "loss.scale",
                         "none, log, logn, yarn, llama4[:beta=B][:n0=M], or a factor above 0",
                         "unknown score scale \"%s\"", word);
    return ES_OK;
}

/* Reads the list of score scales. */
static es_status read_scales(const es_job *job, scales *out, es_error *err)
{
    const loss_params *p = job->params;
    const char *at = p->score_scale ? p->score_scale : "none";
    for (out->count = 0; *at; out->count++) {
        const size_t length = strcspn(at, ",");
        if (out->count == MOST_SCALES || length >= LOSS_SIZE / 2)
            return es_refuse(err, "loss.scale", "use fewer or shorter ones",
                             "too many score scales, or one is too long");
        char *name = out->names[out->count];
        snprintf(name, LOSS_SIZE, "%.*s", (int)length, at);
        ES_TRY(read_scale(job, name, &out->at[out->count], err));
        at += length + (at[length] == ',');
    }
    return out->count ? ES_OK
                      : es_refuse(err, "loss.scale", "--score-scale log", "--score-scale is empty");
}

/* ---- keys ---- */

/* Writes "window 256 + 4 sinks", "top, 64 keys", "plan p.json", "full". */
static void name_keys(const es_loss_setting *lab, const char *plan, char out[LOSS_SIZE])
{
    char word[ES_POLICY_SIZE], cache[ES_CACHE_SIZE];
    if (lab->cache && !lab->cache->units)
        snprintf(out, LOSS_SIZE, "%s", es_cache_say(lab->cache, cache));
    else if (lab->other)
        snprintf(out, LOSS_SIZE, "against %.200s", es_model_folder(lab->other));
    else if (lab->plan || lab->cache)
        snprintf(out, LOSS_SIZE, "%s", es_plan_word(plan, word));
    else if (lab->policy.policy)
        snprintf(out, LOSS_SIZE, "%s", es_policy_say(&lab->policy, word));
    else if (lab->window && lab->sinks)
        snprintf(out, LOSS_SIZE, "window %lld + %lld sink%s", (long long)lab->window,
                 (long long)lab->sinks, lab->sinks == 1 ? "" : "s");
    else if (lab->window)
        snprintf(out, LOSS_SIZE, "window %lld", (long long)lab->window);
    else
        snprintf(out, LOSS_SIZE, "full");
}

/* Returns whether a setting leaves all keys as they are. */
static bool is_full(const es_loss_setting *lab)
{
    return !lab->window && !lab->policy.policy && !lab->plan && !lab->cache && !lab->other;
}

/* Adds a setting of `keys` with a stretching and a score scale. */
static void add_setting(es_job *job, const es_loss_setting *keys, const loss_rope *rope,
                        const scales *list, int64_t i)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    loss_setting *new = &s->settings[s->count++];
    const es_loss_setting *scale = &list->at[i];
    new->lab = *keys;
    new->lab.rotary = p->rope ? rope->rotary : NULL;
    new->lab.scale = scale->scale;
    new->lab.factor = scale->factor;
    new->lab.reference = scale->reference;
    new->rope = rope->stretch.kind ? rope->name : NULL;
    snprintf(new->scale, LOSS_SIZE, "%s", list->names[i]);
    if (!is_full(keys) || !rope->stretch.kind)
        name_keys(&new->lab, p->plan, new->name);
    size_t used = strlen(new->name);
    if (rope->stretch.kind)
        snprintf(new->name + used, LOSS_SIZE - used, "%s%s", used ? ", " : "", rope->name);
    used = strlen(new->name);
    if (scale->scale)
        snprintf(new->name + used, LOSS_SIZE - used, ", scores times %.60s", list->names[i]);
}

/* Adds the settings of `keys` with each stretching and scale, except a second full model. */
static void add_settings(es_job *job, const es_loss_setting *keys, const scales *list)
{
    const loss_state *s = job->state;
    for (const loss_rope *r = s->ropes + 1; r <= s->ropes + s->n_ropes; r++)
        for (int64_t i = 0; i < list->count; i++)
            if (!is_full(keys) || list->at[i].scale || r->stretch.kind)
                add_setting(job, keys, r, list, i);
}

enum { USUAL_SINKS = 4 };

/* Returns whether the model itself sees the first keys from the end of the longest block. */
static bool sees_sinks(const loss_state *s)
{
    const int64_t window = es_model_widest(s->config);
    return !window || window >= s->longest;
}

/* Lists the numbers of sinks to run windows with, and returns how many: those asked for, and always
 * 0 and one above 0 if the model sees sinks, because the difference is what the first keys are
 * worth. out (p->sinks.count + 2). */
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

/* Refuses windows wider than the model's own, and sinks that the model itself does not see. */
static es_status check_window(const loss_state *s, int64_t window, int64_t sinks, es_error *err)
{
    const int64_t own = es_model_widest(s->config);
    if (own && window > own)
        return es_refuse(err, "loss.window", "smaller windows",
                         "--window %lld: the model itself sees the last %lld keys",
                         (long long)window, (long long)own);
    if (sinks && !sees_sinks(s))
        return es_refuse(err, "loss.window", "--sinks 0, or shorter blocks",
                         "--sinks %lld: in blocks of %lld tokens the model itself sees only the "
                         "last %lld keys, not the first",
                         (long long)sinks, (long long)s->longest, (long long)own);
    return ES_OK;
}

/* Adds every window with each number of sinks. Windows below half a block also run as fresh texts,
 * if it is known how a text begins. */
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

/* Returns the setting that the answer is about: the only one asked for, or else the full model. One
 * window counts as one setting, with the sinks asked for or 4. */
static int64_t find_asked(const loss_params *p, const loss_state *s, int64_t n_scales)
{
    if (p->policy.names || s->plan || !p->window.count)
        return s->count == 2 ? 1 : 0;
    const bool none = p->sinks.count && p->sinks.counts[0] == 0;
    return p->window.count == 1 && p->sinks.count <= 1 && n_scales == 1 ? none ? 1 : s->count - 1
                                                                        : 0;
}

/* Adds a setting for each policy and score scale; policies that choose no set of keys are an
 * error. */
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

/* Makes the caches that are asked for, and says from which place on settings are compared. */
static es_status make_caches(es_job *job, es_error *err)
{
    loss_params *p = job->params;
    loss_state *s = job->state;
    const bool planned = s->plan && s->plan->mode != ES_PLAN_IDEAL;
    s->compares = p->kl || p->against || es_cache_asked(&p->cache) || planned;
    s->from = es_cache_prompt(&p->cache);
    if (s->from && !s->compares)
        return es_refuse(err, "loss.options", "--evict prompt --prompt 512",
                         "--prompt needs --evict, --kv-type, --kl, --against or a plan of a cache");
    if (s->from >= s->longest - 1)
        return es_refuse(err, "cache.prompt", "a shorter --prompt, or a longer --block",
                         "--prompt %lld leaves nothing to predict in blocks of %lld",
                         (long long)s->from, (long long)s->longest);
    if (planned) {
        ES_TRY(es_cache_plan_setting(job, &p->cache, s->plan, s->longest, &s->caches, err));
        s->from = s->caches.prompt;
    }
    if (!es_cache_asked(&p->cache))
        return ES_OK;
    p->policy.sinks = p->sinks.count ? p->sinks.counts[0] : 0;
    ES_TRY(es_cache_settings_make(job, &p->cache, &p->policy, s->longest, &s->caches, err));
    s->from = s->caches.prompt;
    return ES_OK;
}

es_status loss_make_settings(es_job *job, es_error *err)
{
    loss_params *p = job->params;
    loss_state *s = job->state;
    static const es_loss_setting full = {0};
    const scales none = {.names = {"none"}, .count = 1};
    es_policies policies = {0};
    scales *asked;
    ES_TRY(ES_JOB_NEW(job, asked, 1, err));
    ES_TRY(read_scales(job, asked, err));
    if (p->policy.names && !es_cache_asked(&p->cache)) {
        p->policy.window = p->window.count ? p->window.counts[0] : 0;
        p->policy.sinks = p->sinks.count ? p->sinks.counts[0] : 0;
        ES_TRY(es_policies_make(job, &p->policy, true, s->longest, &policies, err));
    }
    int64_t *sinks;
    ES_TRY(ES_JOB_NEW(job, sinks, p->sinks.count + 2, err));
    const int64_t n_sinks = list_sinks(p, s, sinks), windows = p->window.count * n_sinks;
    ES_TRY(make_caches(job, err));
    ES_TRY(ES_JOB_NEW_2D(job, s->settings, 3 + windows + policies.count + s->caches.count,
                         s->n_ropes * asked->count, err));
    add_setting(job, &full, s->ropes, &none, 0);
    if (s->other)
        add_settings(job, &(es_loss_setting){.other = s->other}, asked);
    if (s->caches.count)
        for (int64_t i = 0; i < s->caches.count; i++)
            add_settings(job, &(es_loss_setting){.cache = &s->caches.at[i]}, asked);
    else if (s->plan)
        add_settings(job, &(es_loss_setting){.plan = s->plan}, asked);
    else if (p->policy.names)
        ES_TRY(add_policies(job, &policies, asked, err));
    else if (p->window.count)
        ES_TRY(add_windows(job, sinks, n_sinks, asked, err));
    else if (!s->other)
        add_settings(job, &full, asked);
    s->asked = find_asked(p, s, s->n_ropes * asked->count);
    if (s->compares && s->count == 1)
        return es_refuse(err, "loss.options", "--evict, --kv-type, --window, --policy or --against",
                         "--kl compares settings with the full model, and there is none");
    return ES_OK;
}
