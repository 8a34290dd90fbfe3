/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/policy_params.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "policy/policy.h"

const char *const es_policy_corrections[] = {"none", "inverse", NULL};

enum { MOST_POLICIES = 64 };

/* ---- names ---- */

/* Fails for an unknown policy, with the nearest name as a hint. */
static es_status refuse_name(const char *name, es_error *err)
{
    const char *known[MOST_POLICIES];
    int count = 0;
    char hint[ES_POLICY_SIZE];
    const es_policy *p;
    for (int64_t i = 0; count < MOST_POLICIES - 1 && (p = es_policy_at(i)); i++) {
        known[count++] = es_policy_name(p);
        if (es_policy_alias(p))
            known[count++] = es_policy_alias(p);
    }
    const char *near = es_nearest(name, known, count);
    snprintf(hint, sizeof hint, "%s%s%s",
             near ? "did you mean " : "esscher help sparse lists the policies", near ? near : "",
             near ? "?" : "");
    return es_refuse(err, "policy.name", hint, "unknown policy \"%s\"", name);
}

/* What stands after a +: bigbird+inverse, random+with. */
static es_status read_suffix(const char *word, const char *suffix, es_policy_spec *spec,
                             es_error *err)
{
    if (strcmp(suffix, "inverse") == 0)
        spec->correction = ES_CORRECTION_INVERSE;
    else if (strcmp(suffix, "none") == 0)
        spec->correction = ES_CORRECTION_NONE;
    else if (strcmp(suffix, "with") == 0)
        spec->with_replacement = true;
    else
        return es_refuse(err, "policy.name", "NAME+inverse, NAME+none or NAME+with",
                         "there is no +%s in %s", suffix, word);
    return ES_OK;
}

/* Reads a policy "NAME+PART+PART". */
static es_status read_word(const char *word, es_policy_spec *spec, es_error *err)
{
    char name[ES_POLICY_SIZE];
    snprintf(name, sizeof name, "%s", word);
    char *plus = strchr(name, '+');
    if (plus)
        *plus++ = '\0';
    const es_policy *policy = es_policy_find(name);
    if (!policy)
        return refuse_name(name, err);
    es_policy_spec_init(spec, policy);
    while (plus) {
        char *next = strchr(plus, '+');
        if (next)
            *next++ = '\0';
        ES_TRY(read_suffix(word, plus, spec, err));
        plus = next;
    }
    return ES_OK;
}

bool es_policy_same(const es_policy_spec *a, const es_policy_spec *b)
{
    return a->policy == b->policy && a->correction == b->correction &&
           a->with_replacement == b->with_replacement;
}

/* The policies of a list, in its order, out (MOST_POLICIES). */
static es_status read_names(const char *names, es_policy_asked *out, int64_t *count, es_error *err)
{
    *count = 0;
    for (const char *at = names; at && *at;) {
        const size_t length = strcspn(at, ",");
        if (*count == MOST_POLICIES)
            return es_refuse(err, "policy.name", "ask for fewer", "there are too many policies");
        es_policy_asked *one = &out[*count];
        snprintf(one->word, sizeof one->word, "%.*s", (int)(length < sizeof one->word ? length : 0),
                 at);
        ES_TRY(read_word(one->word, &one->spec, err));
        for (int64_t i = 0; i < *count; i++)
            if (es_policy_same(&out[i].spec, &one->spec))
                return es_refuse(err, "policy.repeated", "name each once", "%s is there twice",
                                 one->word);
        ++*count;
        at += length + (at[length] == ',');
    }
    return *count
               ? ES_OK
               : es_refuse(err, "policy.name", "--policy random,top", "--policy names no policy");
}

/* ---- parts ---- */

/* What may be asked of a policy, and the option that asks for it. */
static const struct {
    unsigned part;
    const char *option;
} parts[] = {{ES_PART_WINDOW, "window"},         {ES_PART_SINKS, "sinks"},
             {ES_PART_RANDOM, "random"},         {ES_PART_SPAN, "span"},
             {ES_PART_CORRECTION, "correction"}, {ES_PART_REPLACEMENT, "with-replacement"}};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Sets one part of a policy from its option. */
static void set_part(const es_policy_params *asked, unsigned part, es_policy_spec *spec)
{
    switch (part) {
    case ES_PART_WINDOW:
        spec->window = asked->window;
        break;
    case ES_PART_SINKS:
        spec->sinks = asked->sinks;
        break;
    case ES_PART_RANDOM:
        spec->random = asked->random;
        break;
    case ES_PART_SPAN:
        spec->span = asked->span;
        break;
    case ES_PART_CORRECTION:
        if (spec->correction == ES_CORRECTION_OWN) /* else its word says */
            spec->correction = asked->correction ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
        break;
    default:
        spec->with_replacement |= asked->with_replacement;
    }
}

/* Passes the given parts (--sinks, --window, ...) to the policies that have them; fails for a part
 * that no policy has. */
static es_status share_parts(es_job *job, const es_policy_params *asked, es_policy_asked *words,
                             int64_t count, es_error *err)
{
    for (int p = 0; p < PARTS; p++) {
        bool taken = false;
        if (!es_params_given(job->given, parts[p].option))
            continue;
        for (int64_t i = 0; i < count; i++)
            if (es_policy_parts(words[i].spec.policy) & parts[p].part) {
                set_part(asked, parts[p].part, &words[i].spec);
                taken = true;
            }
        if (!taken)
            return es_refuse(err, "policy.part", "leave it out, or name a policy that has it",
                             "--%s: none of these policies has such a part", parts[p].option);
    }
    return ES_OK;
}

/* ---- all of it ---- */

/* Returns whether the policy's parameters give its number of keys. */
static bool has_amount(const es_policy_spec *spec, bool causal)
{
    es_error why;
    return es_policy_spec_check(spec, causal, &why) == ES_OK ||
           strcmp(why.rule, "policy.keys") != 0;
}

/* Rows of one policy: one for each number of keys, or the one that its parts say. */
static es_status add_policy(const es_policy_params *asked, const es_policy_spec *own, bool causal,
                            int64_t n, es_policies *out, es_error *err)
{
    const bool full = own->policy == es_policy_find("full");
    const bool measured = es_policy_inputs(own->policy) & ES_POLICY_MEASURED;
    const int64_t grid = full ? 0 : asked->keys.count;
    for (int64_t k = 0; k < (grid ? grid : 1); k++) {
        es_policy_spec *spec = &out->specs[out->count++];
        *spec = *own;
        if (grid)
            spec->keys = asked->keys.counts[k];
        else if (!full && (measured || !has_amount(spec, causal)))
            spec->keys = n >= 8 ? n / 8 : ES_POLICY_UNSET;
        if (spec->keys < 1 && (measured || !has_amount(spec, causal)))
            return es_refuse(err, "policy.keys", "--keys 64,128",
                             "say how many keys %s keeps: --keys", es_policy_name(spec->policy));
        ES_TRY(es_policy_spec_check(spec, causal, err));
    }
    return ES_OK;
}

es_status es_policies_read(es_job *job, const es_policy_params *asked, es_policy_asked **out,
                           int64_t *count, es_error *err)
{
    ES_TRY(ES_JOB_NEW(job, *out, MOST_POLICIES, err));
    ES_TRY(read_names(asked->names, *out, count, err));
    return share_parts(job, asked, *out, *count, err);
}

es_status es_policies_make(es_job *job, const es_policy_params *asked, bool causal, int64_t n,
                           es_policies *out, es_error *err)
{
    es_policy_asked *words;
    int64_t count;
    *out = (es_policies){0};
    ES_TRY(es_policies_read(job, asked, &words, &count, err));
    const int64_t grid = asked->keys.count ? asked->keys.count : 1;
    ES_TRY(ES_JOB_NEW_2D(job, out->specs, count, grid, err));
    for (int64_t i = 0; i < count; i++)
        ES_TRY(add_policy(asked, &words[i].spec, causal, n, out, err));
    return ES_OK;
}

/* A key and its factor: 16 bytes (es_kept of policy.h). */
double es_policy_draw_bytes(const es_policy_spec *spec)
{
    const int64_t draws = spec->random != ES_POLICY_UNSET ? spec->random : spec->keys;
    return spec->with_replacement && draws > 0 ? 16.0 * (double)draws : 0.0;
}

/* ---- saying it ---- */

const char *es_policy_word(const es_policy_spec *spec, char out[ES_POLICY_SIZE])
{
    static const char *const factors[] = {"", "+none", "+inverse"};
    snprintf(out, ES_POLICY_SIZE, "%s%s%s", es_policy_name(spec->policy), factors[spec->correction],
             spec->with_replacement ? "+with" : "");
    return out;
}

const char *es_policy_say(const es_policy_spec *spec, char out[ES_POLICY_SIZE])
{
    es_policy_word(spec, out);
    const size_t used = strlen(out);
    if (spec->keys >= 0)
        snprintf(out + used, ES_POLICY_SIZE - used, ", %lld keys", (long long)spec->keys);
    return out;
}

bool es_policy_rolls(const es_policy_spec *spec)
{
    const unsigned has = es_policy_parts(spec->policy);
    const unsigned others = has & ~(unsigned)(ES_PART_WINDOW | ES_PART_SINKS);
    return es_policy_inputs(spec->policy) == 0 && (others == 0 || has == ES_PART_SPAN);
}

void es_policy_cells_fill(es_policy_cells *cells, const es_policy_spec *spec, es_table *table)
{
    char word[ES_POLICY_SIZE];
    cells->policy = es_table_format(table, "%s", es_policy_word(spec, word));
    if (spec->keys >= 0)
        cells->keys = spec->keys;
    if (es_policy_inputs(spec->policy) & ES_POLICY_CHANCE)
        cells->correction = es_policy_corrects(spec) ? "inverse" : "none";
}
