/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c : what a unit may keep: policies, number types and numbers of keys, and what each of
 * them costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/question.h"
#include "model/sparse_head.h"
#include "policy/policy.h"

const char *const budget_modes[] = {"prompt", "decode", "ideal", "none", NULL};
const char *const budget_granularities[] = {"head", "layer", "model", NULL};
const char *const budget_dtypes[] = {"f16", "bf16", "f32", "f64", "int8", "int4", NULL};

/* Returns the bits of a number of --cache-dtype. */
static int64_t dtype_bits(int dtype)
{
    static const int64_t bits[] = {16, 16, 32, 64, 8, 4};
    return bits[dtype];
}

es_evict_mode budget_evict_mode(const budget_state *s)
{
    return s->mode == BUDGET_PROMPT   ? ES_EVICT_PROMPT
           : s->mode == BUDGET_DECODE ? ES_EVICT_DECODE
                                      : ES_EVICT_NOTHING;
}

/* ---- ideal mode ---- */

/* Reads --policy for ideal mode and drops what cannot be planned: policies without exact risk, and
 * full attention. */
static es_status read_ideal(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    const es_policy_params asked = {
        .names = p->policy ? p->policy : "stream,heavy,observe,random,top", .correction = -1};
    es_policy_asked *words;
    int64_t count;
    ES_TRY(es_policies_read(job, &asked, &words, &count, err));
    ES_TRY(ES_JOB_NEW(job, s->policies, count, err));
    ES_TRY(ES_JOB_NEW(job, s->candidates, count, err));
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
        s->candidates[s->P] = s->full;
        s->policies[s->P++] = spec;
    }
    s->types = 1;
    return s->P ? ES_OK
                : es_refuse(err, "budget.policy", "--policy stream,heavy,observe,random",
                            "--no-query-scores leaves none of the policies");
}

/* ---- caches ---- */

enum { MOST = 64 }; /* policies, and number types */

/* The lists of --policy and --kv-type. */
typedef struct lists {
    es_evict_spec policies[MOST];
    es_kv_format types[MOST];
    int64_t n_policies, n_types;
} lists;

/* First tokens that every policy of a plan keeps, unless its options say otherwise: losing them
 * breaks models with sinks (THEORY 19). */
enum { PLAN_SINKS = 4 };

/* Copies the next word of a list, up to a comma, and moves *at past it. Returns false at the end.
 */
static es_status next_word(const char **at, char word[BUDGET_SIZE], bool *found, es_error *err)
{
    const size_t length = strcspn(*at, ",");
    *found = **at != '\0';
    if (length >= BUDGET_SIZE)
        return es_refuse(err, "budget.policy", "write it shorter",
                         "a policy or number type of more than %d characters", BUDGET_SIZE - 1);
    snprintf(word, BUDGET_SIZE, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    return ES_OK;
}

/* Fails for a policy that cannot be planned for each head on its own. */
static es_status check_policy(const budget_state *s, const es_evict_spec *spec, es_error *err)
{
    const es_evict_spec all = es_evict_resolve(spec, budget_evict_mode(s));
    ES_TRY(es_evict_check(&all, budget_evict_mode(s), err));
    if (es_eviction_full(spec->policy))
        return es_refuse(err, "budget.policy", "leave it out",
                         "policy %s looks at later tokens, which no cache can do",
                         es_eviction_name(spec->policy));
    if (spec->alpha != ES_EVICT_UNSET || spec->beta != ES_EVICT_UNSET)
        return es_refuse(err, "budget.policy", "leave it out; --rivals tests these rules",
                         "options alpha and beta divide keys among heads, as the plan does");
    if (s->mode == BUDGET_DECODE && s->granularity == BUDGET_BY_HEAD && es_evict_one_set(&all))
        return es_refuse(err, "budget.policy", "tova:scope=kv, or --granularity layer",
                         "policy %s keeps one set of keys for all heads of a layer",
                         es_eviction_name(spec->policy));
    return ES_OK;
}

/* Reads the eviction policies. */
static es_status read_policies(const budget_params *p, const budget_state *s, lists *out,
                               es_error *err)
{
    const char *at = p->policy                  ? p->policy
                     : s->mode == BUDGET_DECODE ? "stream,h2o,tova:scope=kv"
                                                : "stream,snapkv,observed,h2o,tova:scope=kv";
    char word[BUDGET_SIZE];
    bool found;
    for (;;) {
        es_evict_spec *new = &out->policies[out->n_policies];
        ES_TRY(next_word(&at, word, &found, err));
        if (!found)
            break;
        if (out->n_policies == MOST)
            return es_refuse(err, "budget.policy", "use fewer", "more than %d policies", MOST);
        ES_TRY(es_evict_parse(word, new, err));
        new->keys = 1;
        if (new->sinks == ES_EVICT_UNSET)
            new->sinks = PLAN_SINKS;
        ES_TRY(check_policy(s, new, err));
        for (int64_t i = 0; i < out->n_policies; i++)
            if (es_evict_same(&out->policies[i], new))
                return es_refuse(err, "budget.policy", "name each once", "policy %s is there twice",
                                 word);
        out->n_policies++;
    }
    return out->n_policies ? ES_OK
                           : es_refuse(err, "budget.policy", "--policy h2o", "--policy is empty");
}

/* Adds a number type. */
static es_status add_type(const char *word, const budget_state *s, lists *out, es_error *err)
{
    char name[ES_KV_NAME], other[ES_KV_NAME];
    es_kv_format new;
    if (out->n_types == MOST)
        return es_refuse(err, "budget.types", "use fewer", "more than %d number types", MOST);
    ES_TRY(es_kv_format_parse(word, &new, err));
    if (es_kv_format_by_query(&new) && s->mode != BUDGET_NONE)
        return es_refuse(err, "cache.together", "use another type, or --evict none",
                         "type %s and --evict %s at the same time are not defined", word,
                         budget_modes[s->mode]);
    es_kv_format_name(&new, name, sizeof name);
    for (int64_t i = 0; i < out->n_types; i++)
        if (strcmp(name, es_kv_format_name(&out->types[i], other, sizeof other)) == 0)
            return es_refuse(err, "budget.types", "name each once", "number type %s is there twice",
                             word);
    out->types[out->n_types++] = new;
    return ES_OK;
}

/* Reads number types, each text one or several of them with commas. */
static es_status read_types(const budget_params *p, const budget_state *s, lists *out,
                            es_error *err)
{
    const es_texts standard = {1, {"f16,q8_0,q4_0"}};
    const es_texts *asked = p->kv_types.count ? &p->kv_types : &standard;
    char word[BUDGET_SIZE];
    for (int64_t i = 0; i < asked->count; i++) {
        const char *at = asked->at[i];
        while (*at) {
            bool found;
            ES_TRY(next_word(&at, word, &found, err));
            ES_TRY(add_type(word, s, out, err));
        }
    }
    return out->n_types ? ES_OK
                        : es_refuse(err, "budget.types", "--kv-type q8_0", "--kv-type is empty");
}

/* Adds every policy with every pair of types. */
static es_status make_candidates(es_job *job, const lists *list, budget_state *s, es_error *err)
{
    const int64_t policies = s->mode == BUDGET_NONE ? 1 : list->n_policies, T = list->n_types;
    es_late_types *pairs;
    s->types = T * T;
    s->P = policies * s->types;
    ES_TRY(ES_JOB_NEW(job, s->candidates, s->P, err));
    ES_TRY(ES_JOB_NEW(job, pairs, s->types, err));
    s->cache_curves.late = (es_late_spec){.mode = budget_evict_mode(s),
                                          .types = pairs,
                                          .n_types = s->types,
                                          .policies = list->policies,
                                          .n_policies = list->n_policies};
    for (int64_t t = 0; t < s->types; t++)
        pairs[t] = (es_late_types){list->types[t / T], list->types[t % T]};
    for (int64_t p = 0; p < s->P; p++) {
        es_cache_unit *unit = &s->candidates[p].unit;
        es_evict_init(&unit->evict, NULL);
        if (s->mode != BUDGET_NONE)
            unit->evict = list->policies[p / s->types];
        unit->k = pairs[p % s->types].k;
        unit->v = pairs[p % s->types].v;
    }
    return ES_OK;
}

/* Reads policies and types of a cache. */
static es_status read_cache(es_job *job, const budget_params *p, budget_state *s, es_error *err)
{
    lists *list;
    ES_TRY(ES_JOB_NEW(job, list, 1, err));
    if (s->mode != BUDGET_NONE)
        ES_TRY(read_policies(p, s, list, err));
    ES_TRY(read_types(p, s, list, err));
    return make_candidates(job, list, s, err);
}

/* ---- options that need a mode ---- */

/* Fails for options that the mode has no use for. */
static es_status check_mode(const es_job *job, const budget_params *p, const budget_state *s,
                            es_error *err)
{
    const char *mode = budget_modes[s->mode];
    if (s->mode != BUDGET_IDEAL && !s->config->causal)
        return es_refuse(err, "cache.causal", "--evict ideal",
                         "--evict %s: an encoder has no cache of keys and values", mode);
    if (s->mode == BUDGET_IDEAL && (p->kv_types.count || p->prompt.count || p->granularity))
        return es_refuse(err, "budget.options", "--evict prompt, or leave it out",
                         "--%s and --evict ideal exclude each other",
                         p->kv_types.count ? "kv-type"
                         : p->prompt.count ? "prompt"
                                           : "granularity");
    if (s->mode == BUDGET_NONE && p->policy)
        return es_refuse(err, "budget.options", "--evict prompt, or leave it out",
                         "--policy and --evict none exclude each other");
    if (s->mode != BUDGET_IDEAL && p->no_query_scores)
        return es_refuse(err, "budget.options", "--evict ideal, or leave it out",
                         "--no-query-scores and --evict %s exclude each other: no cache chooses by "
                         "scores of later queries",
                         mode);
    if (p->granularity == BUDGET_BY_MODEL && !isnan(p->error))
        return es_refuse(err, "budget.options", "--granularity layer, or --ratio",
                         "--error is a tolerance for each layer, and --granularity model has one "
                         "setting for all");
    if (p->prompt.count > 1)
        return es_refuse(err, "budget.options", "one number, or several runs",
                         "--prompt has %lld numbers", (long long)p->prompt.count);
    (void)job;
    return ES_OK;
}

es_status budget_read_candidates(es_job *job, es_error *err)
{
    budget_params *p = job->params;
    budget_state *s = job->state;
    const double bits = (double)dtype_bits(p->cache);
    s->mode = p->evict >= 0         ? (budget_mode)p->evict
              : s->config->predicts ? BUDGET_PROMPT
                                    : BUDGET_IDEAL;
    s->granularity = (budget_granularity)p->granularity;
    s->round = p->round;
    if (!p->queries) /* one costs little where nothing is random */
        p->queries = s->mode == BUDGET_IDEAL ? 8 : 32;
    s->full.bytes = 2.0 * (double)s->config->head_dim * bits / 8.0;
    s->full.cost = p->keys ? 1.0 : s->full.bytes;
    ES_TRY(check_mode(job, p, s, err));
    return s->mode == BUDGET_IDEAL ? read_ideal(job, p, s, err) : read_cache(job, p, s, err);
}

/* ---- numbers of keys ---- */

/* Risks are computed at BUDGET_POINTS numbers of keys, from 1/64 of the keys that a query sees,
 * each about 1.5 times the previous one, and at all keys, where drawing with replacement and
 * rounding still have a risk. A unit may have one of five times as many numbers. */
enum { BETWEEN = 5, LEAST = 64 };

/* Lists the numbers of keys at which risks of a layer are computed, a geometric grid up to the
 * share `top`: out (BUDGET_POINTS + 1), all that is left of it `sees`. Returns how many differ. */
static int64_t list_keys(int64_t sees, double top, int64_t *out)
{
    const double n = (double)sees, low = fmax(1.0, n / LEAST);
    const double step = pow(top * n / low, 1.0 / (BUDGET_POINTS - 1));
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

/* Lists the numbers of keys of a layer: keys (BUDGET_POINTS + 1) where risks are computed, and
 * those that a unit may have. Without eviction that is one. Returns how many of `keys` differ. */
static int64_t fill_grid(const budget_state *s, int64_t layer, int64_t *keys, budget_grid *grid)
{
    grid->sees =
        es_past_most(es_past_of(s->config, layer), s->mode == BUDGET_PROMPT ? s->prompt : s->n);
    if (s->mode == BUDGET_NONE) {
        keys[0] = grid->options[0] = grid->sees;
        grid->n_options = 1;
        return 1;
    }
    grid->n_options = list_options(grid->sees, grid->options);
    return list_keys(grid->sees, s->mode == BUDGET_IDEAL ? 0.66 : 0.85, keys);
}

/* Sets the cost of all candidates. KIVI holds the newest places in f16: they are counted as the
 * last query of the context, at place n - 1, finds them. */
static void set_costs(const budget_params *p, budget_state *s)
{
    const int64_t d = s->config->head_dim, n = budget_most_seen(s);
    for (int64_t i = 0; i < s->P && s->mode != BUDGET_IDEAL; i++) {
        budget_candidate *c = &s->candidates[i];
        const es_kv_format *formats[] = {&c->unit.k, &c->unit.v};
        double bits = 0.0;
        for (int side = 0; side < 2; side++) {
            const double coarse = es_kv_format_bits(formats[side], (es_kv_side)side, d);
            const double old =
                es_kv_format_by_query(formats[side])
                    ? (double)es_kv_coarse_places(formats[side], (es_kv_side)side, n - 1) /
                          (double)n
                    : 1.0;
            bits += fmax(old, 0.0) * coarse + (1.0 - fmax(old, 0.0)) * 16.0;
        }
        c->bytes = (double)d * bits / 8.0;
        c->cost = p->keys ? 1.0 : c->bytes;
    }
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

/* Makes the numbers of keys of all layers. Layers that see fewer keys than others may have fewer
 * numbers, and repeat the last. */
es_status budget_make_grids(es_job *job, es_error *err)
{
    budget_state *s = job->state;
    const int64_t L = s->config->layers;
    int64_t *keys, *options;
    ES_TRY(ES_JOB_NEW(job, s->grids, L, err));
    ES_TRY(ES_JOB_NEW_2D(job, keys, L, BUDGET_POINTS + 1, err));
    ES_TRY(ES_JOB_NEW_2D(job, options, L, BUDGET_POINTS * BETWEEN + 2, err));
    for (int64_t l = 0; l < L; l++) {
        budget_grid *grid = &s->grids[l];
        grid->options = options + l * (BUDGET_POINTS * BETWEEN + 2);
        const int64_t K = fill_grid(s, l, keys + l * (BUDGET_POINTS + 1), grid);
        s->K = K > s->K ? K : s->K;
        s->n_options = grid->n_options > s->n_options ? grid->n_options : s->n_options;
    }
    ES_TRY(ES_JOB_NEW_2D(job, s->keys, L, s->K, err));
    for (int64_t l = 0; l < L; l++) {
        memcpy(s->keys + l * s->K, keys + l * (BUDGET_POINTS + 1), (size_t)s->K * sizeof *keys);
        s->grids[l].keys = s->keys + l * s->K;
    }
    const budget_params *p = job->params;
    const int64_t late = s->n - s->prompt;
    s->cache_curves.late.prompt = s->prompt;
    s->cache_curves.keys = s->keys;
    s->cache_curves.n_keys = s->K;
    s->cache_curves.queries = p->queries < late ? p->queries : late;
    set_costs(p, s);
    return s->mode == BUDGET_IDEAL ? make_layer_policies(job, s, err) : ES_OK;
}

/* ---- names ---- */

const char *budget_candidate_policy(const budget_state *s, int64_t candidate, char out[BUDGET_SIZE])
{
    if (s->mode == BUDGET_IDEAL) {
        char word[ES_POLICY_SIZE];
        snprintf(out, BUDGET_SIZE, "%s", es_policy_word(&s->policies[candidate], word));
    } else if (s->candidates[candidate].unit.evict.policy) {
        es_evict_write(&s->candidates[candidate].unit.evict, out, BUDGET_SIZE);
    } else {
        snprintf(out, BUDGET_SIZE, "full");
    }
    return out;
}

const char *budget_candidate_types(const budget_state *s, int64_t candidate, char out[BUDGET_SIZE])
{
    char value[ES_KV_NAME];
    const es_cache_unit *unit = &s->candidates[candidate].unit;
    es_kv_format_name(&unit->k, out, ES_KV_NAME);
    const size_t used = strlen(out);
    snprintf(out + used, BUDGET_SIZE - used, ",%s",
             es_kv_format_name(&unit->v, value, sizeof value));
    return out;
}
