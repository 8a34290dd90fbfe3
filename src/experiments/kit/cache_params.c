/* SPDX-License-Identifier: Apache-2.0 */
/* cache_params.c : options about key-value caches become settings of a cache. */
#include "experiments/kit/cache_params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/forward_cache.h"
#include "model/plan.h"

const char *const es_cache_modes[] = {"prompt", "decode", "ideal", NULL};

enum { MOST_POLICIES = 64 };

bool es_cache_asked(const es_cache_params *asked)
{
    return asked->evict == ES_CACHE_PROMPT || asked->evict == ES_CACHE_DECODE ||
           asked->kv_types.count > 0;
}

/* Returns whether keys are dropped for good. */
static bool evicts(const es_cache_params *asked)
{
    return asked->evict == ES_CACHE_PROMPT || asked->evict == ES_CACHE_DECODE;
}

const char *es_cache_mode_name(es_evict_mode mode)
{
    return mode == ES_EVICT_PROMPT ? "prompt" : mode == ES_EVICT_DECODE ? "decode" : "none";
}

/* ---- options that exclude each other ---- */

/* Fails for an option of sparse attention that a cache has no use for. */
static es_status check_parts(const es_job *job, es_error *err)
{
    static const char *const others[] = {"window",     "random",           "span",
                                         "correction", "with-replacement", "plan"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (es_params_given(job->given, others[i]))
            return es_refuse(err, "cache.options",
                             strcmp(others[i], "plan") == 0
                                 ? "leave one of them out"
                                 : "write options of a policy after its name, as in "
                                   "snapkv:window=16, or use --evict ideal",
                             "--%s and a cache (--evict prompt, --evict decode, --kv-type) exclude "
                             "each other",
                             others[i]);
    return ES_OK;
}

/* Fails for a name in --policy that needs a mode. Without one, policies are those of sparse
 * attention. */
static es_status check_ideal(const es_policy_params *policy, es_error *err)
{
    char name[ES_POLICY_SIZE];
    for (const char *at = policy->names; at && *at;) {
        const size_t length = strcspn(at, ","), word = strcspn(at, ":,+");
        snprintf(name, sizeof name, "%.*s", (int)(word < sizeof name ? word : 0), at);
        if (es_eviction_find(name) && (at[word] == ':' || !es_policy_find(name)))
            return es_refuse(err, "cache.options", "--evict prompt, or --evict decode",
                             "policy %.*s needs a mode: --evict", (int)length, at);
        at += length + (at[length] == ',');
    }
    return ES_OK;
}

es_policy_params es_cache_policies(const es_job *job, const es_cache_params *asked,
                                   const es_policy_params *policy)
{
    es_policy_params out = *policy;
    if (es_cache_asked(asked) && !es_params_given(job->given, "policy"))
        out.names = NULL;
    return out;
}

es_status es_cache_params_check(const es_job *job, const es_cache_params *asked,
                                const es_policy_params *policy, es_error *err)
{
    const bool evict = evicts(asked);
    if (asked->prompt.count > 1)
        return es_refuse(err, "cache.options", "one number, or several runs",
                         "--prompt has %lld numbers", (long long)asked->prompt.count);
    const bool planned = es_params_given(job->given, "plan");
    if (evict && planned)
        return es_refuse(err, "plan.options", "leave it out",
                         "--plan says when keys are dropped, and --evict would say it again");
    if (!evict && asked->ratio.count && !planned)
        return es_refuse(err, "cache.options", "--evict prompt --ratio 0.25",
                         "--ratio needs --evict prompt or --evict decode");
    if (asked->evict == ES_CACHE_IDEAL && asked->kv_types.count)
        return es_refuse(err, "cache.options", "--evict prompt, --evict decode, or no --policy",
                         "--kv-type and --evict ideal exclude each other");
    if (!evict && asked->kv_types.count && policy->names)
        return es_refuse(err, "cache.options", "--evict prompt, --evict decode, or no --policy",
                         "--kv-type with --policy needs a mode: --evict");
    if (evict && !policy->names)
        return es_refuse(err, "cache.options", "--policy h2o --ratio 0.25",
                         "--evict %s needs --policy", es_cache_modes[asked->evict]);
    if (evict && !policy->keys.count == !asked->ratio.count)
        return es_refuse(err, "cache.options", "--keys 128, or --ratio 0.25",
                         asked->ratio.count ? "--keys and --ratio exclude each other"
                                            : "say how many keys to keep: --keys or --ratio");
    if (!evict && policy->names)
        ES_TRY(check_ideal(policy, err));
    return es_cache_asked(asked) ? check_parts(job, err) : ES_OK;
}

/* ---- policies ---- */

/* The policies of --policy. */
typedef struct policies {
    es_evict_spec at[MOST_POLICIES];
    int64_t count;
} policies;

/* Reads one policy; --sinks is for policies that do not name their own number. */
static es_status read_policy(const es_job *job, const es_policy_params *policy, const char *text,
                             size_t length, policies *out, es_error *err)
{
    char word[ES_CACHE_SIZE];
    es_evict_spec *new = &out->at[out->count];
    if (out->count == MOST_POLICIES || length >= sizeof word)
        return es_refuse(err, "cache.repeated", "use fewer or shorter ones",
                         "too many policies, or one is too long");
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    ES_TRY(es_evict_parse(word, new, err));
    if (new->sinks == ES_EVICT_UNSET && es_params_given(job->given, "sinks"))
        new->sinks = policy->sinks;
    for (int64_t i = 0; i < out->count; i++)
        if (es_evict_same(&out->at[i], new))
            return es_refuse(err, "cache.repeated", "name each once", "policy %s is there twice",
                             word);
    out->count++;
    return ES_OK;
}

/* Reads the list of --policy. */
static es_status read_policies(const es_job *job, const es_policy_params *policy, policies *out,
                               es_error *err)
{
    out->count = 0;
    for (const char *at = policy->names; *at;) {
        const size_t length = strcspn(at, ",");
        ES_TRY(read_policy(job, policy, at, length, out, err));
        at += length + (at[length] == ',');
    }
    return out->count ? ES_OK
                      : es_refuse(err, "cache.options", "--policy h2o", "--policy is empty");
}

/* ---- types ---- */

/* Reads "K" or "K,V" into a setting. */
static es_status read_types(const char *text, es_cache_setting *out, es_error *err)
{
    char key[ES_CACHE_SIZE];
    const size_t length = strcspn(text, ",");
    snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1), text);
    ES_TRY(es_kv_format_parse(key, &out->unit.k, err));
    return es_kv_format_parse(text[length] ? text + length + 1 : key, &out->unit.v, err);
}

/* ---- settings ---- */

/* Returns how many tokens the prompt has; fails if none of a block's n is after it. */
static es_status find_prompt(int64_t asked, int64_t n, int64_t *out, es_error *err)
{
    *out = asked ? asked : n / 2;
    if (*out >= 1 && *out < n - 1)
        return ES_OK;
    return es_refuse(err, "cache.prompt", "a shorter --prompt, or longer blocks",
                     "a prompt of %lld tokens leaves nothing to predict in blocks of %lld",
                     (long long)*out, (long long)n);
}

/* Returns number i of the numbers of keys, of `all`. */
static int64_t keys_at(const es_cache_params *asked, const es_policy_params *policy, int64_t all,
                       int64_t i)
{
    if (policy->keys.count)
        return policy->keys.counts[i];
    return (int64_t)fmax(1.0, rint(asked->ratio.reals[i] * (double)all));
}

/* Fails for more keys than there are. */
static es_status check_keys(int64_t keys, int64_t all, bool decode, es_error *err)
{
    if (keys <= all)
        return ES_OK;
    return es_refuse(err, "cache.keys", "fewer keys, or --ratio 0.25",
                     "--keys %lld: %s only %lld tokens", (long long)keys,
                     decode ? "a block has" : "the prompt has", (long long)all);
}

/* Adds a setting for each policy and number of keys to what `types` rounds. */
static es_status add_evictions(const es_cache_params *asked, const es_policy_params *policy,
                               const policies *list, const es_cache_setting *types, int64_t n,
                               es_cache_settings *out, es_error *err)
{
    const int64_t grid = policy->keys.count ? policy->keys.count : asked->ratio.count;
    const bool decode = types->mode == ES_EVICT_DECODE;
    const int64_t all = decode ? n : out->prompt;
    for (int64_t i = 0; i < list->count; i++)
        for (int64_t k = 0; k < grid; k++) {
            es_cache_setting *new = &out->at[out->count++];
            *new = *types;
            new->unit.evict = list->at[i];
            new->unit.evict.keys = keys_at(asked, policy, all, k);
            ES_TRY(check_keys(new->unit.evict.keys, all, decode, err));
            ES_TRY(es_evict_check(&new->unit.evict, new->mode, err));
        }
    return ES_OK;
}

/* Fails for a setting that the forward pass does not define. */
static es_status check_setting(const es_cache_setting *s, es_error *err)
{
    const bool aged = es_kv_format_by_query(&s->unit.k) || es_kv_format_by_query(&s->unit.v);
    if (!aged || s->mode == ES_EVICT_NOTHING)
        return ES_OK;
    return es_refuse(err, "cache.together", "use another type, or kivi without --evict",
                     "kivi types and --evict %s at the same time are not defined",
                     es_cache_mode_name(s->mode));
}

es_status es_cache_settings_make(es_job *job, const es_cache_params *asked,
                                 const es_policy_params *policy, int64_t n, es_cache_settings *out,
                                 es_error *err)
{
    const int64_t types = asked->kv_types.count ? asked->kv_types.count : 1;
    const int64_t grid = policy->keys.count ? policy->keys.count : asked->ratio.count;
    policies *list;
    *out = (es_cache_settings){0};
    ES_TRY(find_prompt(es_cache_prompt(asked), n, &out->prompt, err));
    ES_TRY(ES_JOB_NEW(job, list, 1, err));
    if (evicts(asked))
        ES_TRY(read_policies(job, policy, list, err));
    ES_TRY(ES_JOB_NEW_2D(job, out->at, types, evicts(asked) ? list->count * grid : 1, err));
    for (int64_t t = 0; t < types; t++) {
        es_cache_setting base = {.mode = asked->evict == ES_CACHE_PROMPT   ? ES_EVICT_PROMPT
                                         : asked->evict == ES_CACHE_DECODE ? ES_EVICT_DECODE
                                                                           : ES_EVICT_NOTHING,
                                 .prompt = out->prompt};
        if (asked->kv_types.count)
            ES_TRY(read_types(asked->kv_types.at[t], &base, err));
        ES_TRY(check_setting(&base, err));
        if (evicts(asked))
            ES_TRY(add_evictions(asked, policy, list, &base, n, out, err));
        else
            out->at[out->count++] = base;
    }
    return ES_OK;
}

es_status es_cache_plan_setting(es_job *job, const es_cache_params *asked, const es_plan *plan,
                                int64_t n, es_cache_settings *out, es_error *err)
{
    es_cache_unit *units;
    *out = (es_cache_settings){.count = 1};
    if (asked->evict >= 0 || (plan->prompt && asked->prompt.count))
        return es_refuse(err, "plan.options", "leave it out",
                         "--plan says when keys are dropped, and --%s would say it again",
                         asked->evict >= 0 ? "evict" : "prompt");
    ES_TRY(find_prompt(plan->prompt ? plan->prompt : es_cache_prompt(asked), n, &out->prompt, err));
    ES_TRY(ES_JOB_NEW(job, out->at, 1, err));
    ES_TRY(ES_JOB_NEW_2D(job, units, plan->layers, plan->kv_heads, err));
    ES_TRY(es_plan_units(plan, units, err));
    *out->at =
        (es_cache_setting){.mode = es_plan_evicts(plan->mode),
                           .prompt = out->prompt,
                           .unit = units[0],
                           .units = units,
                           .keys = plan->keys_kept / (double)(plan->layers * plan->kv_heads)};
    return ES_OK;
}

void es_cache_setting_units(const es_cache_setting *setting, const es_model_config *c,
                            es_cache_unit *out)
{
    if (setting->units)
        memcpy(out, setting->units, (size_t)(c->layers * c->kv_heads) * sizeof *out);
    else
        es_cache_fill(&setting->unit, setting->prompt, c->layers, c->kv_heads, out);
}

/* ---- a block ---- */

es_status es_cache_check_model(const es_job *job, const es_cache_params *asked,
                               const es_model_config *config, es_error *err)
{
    const char *option = asked->kv_types.count ? "--kv-type"
                         : evicts(asked)       ? "--evict"
                                               : "--prompt";
    if (config->causal || (!es_cache_asked(asked) && !es_params_given(job->given, "prompt")))
        return ES_OK;
    return es_refuse(err, "cache.causal", "use a decoder, or --policy and --keys without --evict",
                     "%s: this model is an encoder, which has no key-value cache", option);
}

/* Notes the weights that late queries of the full model give to the keys of the prompt. */
static es_status look_ahead(const es_model *model, const int32_t *ids, int64_t n,
                            const es_exec *exec, es_arena *arena, es_cache *cache, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    es_cache_unit *units;
    double *late;
    ES_TRY(ES_ARENA_NEW_2D(arena, units, c->layers, c->kv_heads, "units of a cache", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, late, c->layers * c->kv_heads, cache->prompt,
                           "weights of late queries", err));
    const es_cache full = {.prompt = cache->prompt, .units = units, .late = late};
    const es_model_block block = {.ids = ids, .n = n, .cache = &full};
    cache->oracle = late;
    return es_model_forward(model, &block, 1, exec, err);
}

es_status es_cache_build(const es_cache_setting *setting, const es_model *model, int64_t layer,
                         const int32_t *ids, int64_t n, const es_exec *exec, es_arena *arena,
                         es_cache *out, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    const bool whole =
        setting->mode == ES_EVICT_PROMPT && (setting->prompt < 1 || setting->prompt >= n);
    es_cache_unit *units;
    ES_TRY(ES_ARENA_NEW_2D(arena, units, c->layers, c->kv_heads, "units of a cache", err));
    es_cache_setting_units(setting, c, units);
    for (int64_t u = 0; u < c->layers * c->kv_heads; u++) {
        if (whole)
            es_evict_init(&units[u].evict, NULL);
        if (layer >= 0 && u / c->kv_heads != layer)
            units[u] = (es_cache_unit){0};
    }
    *out = (es_cache){.mode = whole ? ES_EVICT_NOTHING : setting->mode,
                      .prompt = setting->prompt,
                      .units = units};
    return !whole && es_eviction_full(setting->unit.evict.policy)
               ? look_ahead(model, ids, n, exec, arena, out, err)
               : ES_OK;
}

/* ---- memory ---- */

double es_cache_bytes(const es_cache_setting *setting, const es_model_config *c, es_dtype precision,
                      int64_t n, int threads)
{
    double most = 0.0;
    for (int64_t u = 0; u < (setting->units ? c->layers * c->kv_heads : 1); u++)
        most = fmax(most,
                    es_model_cache_bytes(setting->units ? &setting->units[u] : &setting->unit,
                                         setting->mode, setting->prompt, c, precision, n, threads));
    return most;
}

/* ---- saying it ---- */

const char *es_cache_policy(const es_cache_setting *setting, char out[ES_CACHE_SIZE])
{
    es_evict_write(&setting->unit.evict, out, ES_CACHE_SIZE);
    return out;
}

const char *es_cache_types(const es_cache_setting *setting, char out[ES_CACHE_SIZE])
{
    char value[ES_KV_NAME];
    es_kv_format_name(&setting->unit.k, out, ES_KV_NAME);
    es_kv_format_name(&setting->unit.v, value, sizeof value);
    const size_t used = strlen(out);
    if (strcmp(out, value) != 0)
        snprintf(out + used, ES_CACHE_SIZE - used, ",%s", value);
    return out;
}

const char *es_cache_say(const es_cache_setting *setting, char out[ES_CACHE_SIZE])
{
    char types[ES_CACHE_SIZE];
    size_t used = 0;
    *out = '\0';
    if (setting->unit.evict.policy) {
        es_cache_policy(setting, out);
        used = strlen(out);
        snprintf(out + used, ES_CACHE_SIZE - used, ", %lld keys",
                 (long long)setting->unit.evict.keys);
        used = strlen(out);
    }
    if (setting->unit.k.type || setting->unit.v.type)
        snprintf(out + used, ES_CACHE_SIZE - used, "%s%.128s", used ? ", " : "",
                 es_cache_types(setting, types));
    else if (!used)
        snprintf(out, ES_CACHE_SIZE, "full");
    return out;
}

bool es_cache_caution(const es_cache_setting *setting, int64_t n, es_answer *answer)
{
    static const char *const what[] = {"", "keys", "values", "keys and values"};
    const es_kv_format *formats[] = {&setting->unit.k, &setting->unit.v}, *idle = NULL;
    char name[ES_KV_NAME];
    int sides = 0;
    for (int i = 1; i >= 0 && !setting->units; i--)
        if (es_kv_format_by_query(formats[i]) &&
            es_kv_coarse_places(formats[i], (es_kv_side)i, n - 1) == 0) {
            idle = formats[i];
            sides |= 1 << i;
        }
    if (!sides)
        return false;
    es_answer_add_finding(answer,
                          "Caution: %s rounds no %s in blocks of %lld tokens, because the newest "
                          "%lld stay in f16. Use longer blocks, or a smaller residual: "
                          "kivi2:residual=32.",
                          es_kv_format_name(idle, name, sizeof name), what[sides], (long long)n,
                          (long long)idle->residual);
    return true;
}

void es_cache_cells_fill(es_cache_cells *cells, const es_cache_setting *setting, es_table *table)
{
    char word[ES_KV_NAME];
    cells->evict = setting ? es_cache_mode_name(setting->mode) : "ideal";
    if (!setting || setting->units) /* types of a plan differ by head */
        return;
    cells->k_type =
        es_table_format(table, "%s", es_kv_format_name(&setting->unit.k, word, sizeof word));
    cells->v_type =
        es_table_format(table, "%s", es_kv_format_name(&setting->unit.v, word, sizeof word));
}
