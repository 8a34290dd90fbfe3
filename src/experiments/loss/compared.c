/* SPDX-License-Identifier: Apache-2.0 */
/* compared.c : what a cache or another model changes: means of divergences with errors over blocks,
 * and sentences about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/loss/loss.h"

/* ---- means ---- */

/* Sums numbers x (from place s->from on) of a block over places [from, to), less y (NULL: nothing).
 */
static es_block_sum sum_places(const loss_state *s, int64_t block, const double *x, const double *y,
                               int64_t from, int64_t to)
{
    const int64_t n = loss_length(s, block), end = to < n ? to : n;
    es_block_sum t = {0};
    for (int64_t i = from < s->from ? s->from : from; i < end; i++) {
        t.sum += x[i - s->from] - (y ? y[i - s->from] : 0.0);
        t.count += 1.0;
    }
    return t;
}

es_block_mean loss_kl(const es_job *job, int64_t setting, int64_t base, int64_t from, int64_t to)
{
    const loss_state *s = job->state;
    for (int64_t b = 0; b < s->text.count; b++)
        s->sums[b] = sum_places(s, b, loss_change(job, setting, b),
                                base >= 0 ? loss_change(job, base, b) : NULL, from, to);
    return es_block_mean_of(s->sums, s->text.count);
}

es_block_mean loss_agree(const es_job *job, int64_t setting, int64_t from, int64_t to)
{
    const loss_state *s = job->state;
    for (int64_t b = 0; b < s->text.count; b++)
        s->sums[b] = sum_places(s, b, loss_agreement(job, setting, b), NULL, from, to);
    return es_block_mean_of(s->sums, s->text.count);
}

/* ---- sentences ---- */

/* Writes "0.0123 ± 0.002 nats of loss per token (KL 0.0107 ± 0.0008 nats; 96 % of the most likely
 * tokens stay)". */
static void say_change(const es_job *job, int64_t setting, char out[LOSS_SIZE])
{
    const loss_state *s = job->state;
    const es_block_mean cost = loss_cost(job, setting, s->from + 1, s->longest);
    const es_block_mean kl = loss_kl(job, setting, -1, s->from, s->longest);
    const es_block_mean agree = loss_agree(job, setting, s->from, s->longest);
    char nats[ES_SAY_SIZE], far[ES_SAY_SIZE];
    snprintf(out, LOSS_SIZE,
             "%s nats of loss per token (KL %s nats; %.3g %% of the most likely tokens stay)",
             es_say_number(cost.value, cost.se, nats), es_say_number(kl.value, kl.se, far),
             100.0 * agree.value);
}

/* Returns whether no cache could choose keys like this setting: it looks at later tokens. */
static bool is_bound(const es_loss_setting *lab)
{
    return es_eviction_full(lab->cache->unit.evict.policy);
}

/* Returns whether two settings differ in their policy alone. */
static bool same_size(const es_loss_setting *a, const es_loss_setting *b)
{
    char x[ES_CACHE_SIZE], y[ES_CACHE_SIZE];
    return a->cache && b->cache && a->scale == b->scale && a->factor == b->factor &&
           a->cache->unit.evict.keys == b->cache->unit.evict.keys &&
           strcmp(es_cache_types(a->cache, x), es_cache_types(b->cache, y)) == 0;
}

/* Two settings; -1: there is none. */
typedef struct leaders {
    int64_t first, second;
} leaders;

/* Returns whether a policy has keys to choose: sinks and window may take all of few. */
static bool has_choice(const es_cache_setting *cache)
{
    if (cache->mode != ES_EVICT_PROMPT || cache->units || !cache->unit.evict.policy)
        return true;
    const es_evict_spec spec = es_evict_resolve(&cache->unit.evict, cache->mode);
    return es_evict_chooses(&spec);
}

/* Returns the two settings of lowest divergence among those of the size of `like`. A policy that
 * looks at later tokens is a bound and no candidate, unless `like` is one; nor is one without keys
 * to choose, if choosing. */
static leaders find_leaders(const es_job *job, int64_t like, bool choosing)
{
    const loss_state *s = job->state;
    const es_loss_setting *size = &s->settings[like].lab;
    leaders out = {-1, -1};
    double least[2] = {INFINITY, INFINITY};
    for (int64_t k = 1; k < s->count; k++) {
        const es_loss_setting *x = &s->settings[k].lab;
        if (!same_size(x, size) || (is_bound(x) && !is_bound(size)) ||
            (choosing && !has_choice(x->cache)))
            continue;
        const double kl = loss_kl(job, k, -1, s->from, s->longest).value;
        if (kl < least[0]) {
            out.second = out.first;
            least[1] = least[0];
            out.first = k;
            least[0] = kl;
        } else if (kl < least[1]) {
            out.second = k;
            least[1] = kl;
        }
    }
    return out;
}

/* Writes "snapkv with 32 of 128 prompt keys in q4_0". */
static void say_setting(const loss_state *s, const es_cache_setting *cache, char out[LOSS_SIZE])
{
    const bool prompt = cache->mode == ES_EVICT_PROMPT,
               typed = cache->unit.k.type || cache->unit.v.type;
    char policy[ES_CACHE_SIZE], types[ES_CACHE_SIZE];
    snprintf(out, LOSS_SIZE, "%.128s with %lld of %lld %s%s%.96s", es_cache_policy(cache, policy),
             (long long)cache->unit.evict.keys, (long long)(prompt ? cache->prompt : s->longest),
             prompt ? "prompt keys" : "keys", typed ? " in " : "",
             typed ? es_cache_types(cache, types) : "");
}

/* Says which policy has the lowest divergence at the number of keys of setting `like`, and how far
 * the next one is. Ranks no policies without keys to choose. */
static void report_winner(const es_job *job, int64_t like, es_answer *a)
{
    const loss_state *s = job->state;
    leaders lead = find_leaders(job, like, true);
    char name[LOSS_SIZE], change[LOSS_SIZE], rest[2 * LOSS_SIZE] = "", more[ES_SAY_SIZE],
                                                      next[ES_CACHE_SIZE];
    if (lead.first < 0)
        lead = (leaders){find_leaders(job, like, false).first, -1};
    if (lead.first < 0)
        return;
    say_setting(s, s->settings[lead.first].lab.cache, name);
    say_change(job, lead.first, change);
    if (lead.second >= 0) {
        const es_block_mean m = loss_kl(job, lead.second, lead.first, s->from, s->longest);
        snprintf(rest, sizeof rest, " The next by KL, %s, has %s nats more KL%s.",
                 es_cache_policy(s->settings[lead.second].lab.cache, next),
                 es_say_number(m.value, m.se, more),
                 m.blocks > 1 && m.low <= 0.0 ? ", which may be chance" : "");
    }
    es_answer_add_finding(a, *rest ? "By KL, %s is best: it costs %s.%s" : "%s costs %s.%s", name,
                          change, rest);
}

/* Says what a plan of a cache costs. */
static void report_plan(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    char change[LOSS_SIZE], plan[ES_PLAN_SIZE];
    for (int64_t k = 1; k < s->count; k++)
        if (s->settings[k].lab.cache && !s->settings[k].lab.scale) {
            say_change(job, k, change);
            es_answer_add_finding(a, "Plan %s, costs %s.", es_plan_say(s->plan, p->plan, plan),
                                  change);
        }
}

/* Says what number types cost: the list of all that drop no key. */
static void report_types(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    char list[1536] = "", kl[ES_SAY_SIZE];
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t k = 1; k < s->count; k++) {
        const es_loss_setting *x = &s->settings[k].lab;
        const size_t used = strlen(list);
        if (!x->cache || x->cache->unit.evict.policy || used + 300 > sizeof list)
            continue;
        const es_block_mean m = loss_kl(job, k, -1, s->from, s->longest);
        snprintf(list + used, sizeof list - used, "%s%s %s", used ? ", " : "", s->settings[k].name,
                 es_say_number(m.value, m.se, kl));
        if (m.value < least) {
            least = m.value;
            best = k;
        }
    }
    if (best < 0)
        return;
    char change[LOSS_SIZE], types[ES_CACHE_SIZE];
    say_change(job, best, change);
    es_cache_types(s->settings[best].lab.cache, types);
    char *values = strchr(types, ',');
    if (values)
        *values++ = '\0';
    es_answer_add_finding(a, "A cache with keys%s in %s%s%s costs %s.", values ? "" : " and values",
                          types, values ? " and values in " : "", values ? values : "", change);
    if (strchr(list, ','))
        es_answer_add_finding(a, "KL of the next token in nats, by number type: %s.", list);
}

/* Says what another model costs. */
static void report_other(const es_job *job, es_answer *a)
{
    const loss_state *s = job->state;
    const loss_params *p = job->params;
    char change[LOSS_SIZE];
    for (int64_t k = 1; k < s->count; k++)
        if (s->settings[k].lab.other && !s->settings[k].lab.scale) {
            say_change(job, k, change);
            es_answer_add_finding(a, "%s instead of %s costs %s.", p->against, p->model, change);
        }
}

/* Returns whether the first setting has fewer keys (sign 1) or more (sign -1) than the second.
 * Policies that a cache could run come before bounds. */
static bool comes_first(const es_loss_setting *x, const es_loss_setting *y, int sign)
{
    if (is_bound(x) != is_bound(y))
        return is_bound(y);
    return sign * x->cache->unit.evict.keys < sign * y->cache->unit.evict.keys;
}

/* Returns the setting with the fewest keys (sign 1) or the most (sign -1); -1: none drops keys. */
static int64_t find_size(const loss_state *s, int sign)
{
    int64_t found = -1;
    for (int64_t k = 1; k < s->count; k++) {
        const es_loss_setting *x = &s->settings[k].lab;
        if (x->cache && x->cache->unit.evict.policy && !x->scale &&
            (found < 0 || comes_first(x, &s->settings[found].lab, sign)))
            found = k;
    }
    return found;
}

void loss_add_cache_findings(const es_job *job, es_answer *answer)
{
    const loss_state *s = job->state;
    report_other(job, answer);
    if (s->plan && s->caches.count) {
        report_plan(job, answer);
        return;
    }
    const int64_t few = find_size(s, 1), many = find_size(s, -1);
    report_types(job, answer);
    if (many >= 0)
        report_winner(job, many, answer);
    if (few >= 0 && !same_size(&s->settings[few].lab, &s->settings[many].lab))
        report_winner(job, few, answer);
}
