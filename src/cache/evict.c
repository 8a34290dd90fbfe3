/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c : eviction policies as text, with their options and defaults. */
#include "cache/evict.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/error.h"
#include "cache/evict_row.h"

/* ---- options ---- */

/* An option of es_evict_spec, by name. */
typedef struct option {
    const char *name;
    unsigned takes;      /* ES_TAKES_; 0: every policy takes it */
    size_t at;           /* of its member */
    bool real;           /* a double; else an int64_t */
    double min, max;     /* of its value */
    const char *word[2]; /* of values 0 and 1, where they have names */
} option;

#define AT(member) offsetof(es_evict_spec, member)
#define MOST       1e15

static const option options[] = {
    {"sinks", 0, AT(sinks), .max = MOST},
    {"recent", ES_TAKES_RECENT, AT(recent), .max = MOST},
    {"protect", ES_TAKES_PROTECT, AT(protect), .max = MOST},
    {"window", ES_TAKES_WINDOW, AT(window), .min = 1, .max = MOST},
    {"kernel", ES_TAKES_KERNEL, AT(kernel), .min = 1, .max = 1e6 + 1},
    {"pooling", ES_TAKES_POOLING, AT(pooling), .max = 1, .word = {"avg", "max"}},
    {"scope", ES_TAKES_SCOPE, AT(scope), .max = 1, .word = {"layer", "kv"}},
    {"future", ES_TAKES_FUTURE, AT(future), .min = 1, .max = 1e6},
    {"covariance", ES_TAKES_COVARIANCE, AT(covariance), .max = 1, .word = {"no", "yes"}},
    {"vnorm", ES_TAKES_VNORM, AT(vnorm), .max = 1, .word = {"no", "yes"}},
    {"seed", ES_TAKES_SEED, AT(seed), .max = MOST},
    {"eps", ES_TAKES_EPS, AT(eps), .real = true, .max = 1e6},
    {"alpha", 0, AT(alpha), .real = true, .max = 1},
    {"beta", 0, AT(beta), .real = true, .min = 1, .max = 1e6},
};
enum { OPTIONS = sizeof options / sizeof *options };

static double value_of(const es_evict_spec *spec, const option *o)
{
    const char *at = (const char *)spec + o->at;
    return o->real ? *(const double *)(const void *)at : (double)*(const int64_t *)(const void *)at;
}

static void set_value(es_evict_spec *spec, const option *o, double value)
{
    char *at = (char *)spec + o->at;
    if (o->real)
        *(double *)(void *)at = value;
    else
        *(int64_t *)(void *)at = (int64_t)value;
}

static bool takes(const es_eviction *policy, const option *o)
{
    return !o->takes || (policy->takes & o->takes);
}

void es_evict_init(es_evict_spec *spec, const es_eviction *policy)
{
    *spec = (es_evict_spec){.policy = policy};
    for (int i = 0; i < OPTIONS; i++)
        set_value(spec, &options[i], ES_EVICT_UNSET);
}

/* ---- text ---- */

/* Writes the names of all policies, or of all options of one, with commas between them. */
static const char *list_names(const es_eviction *policy, char *out, size_t size)
{
    size_t used = 0;
    *out = '\0';
    for (int64_t i = 0; used < size; i++) {
        const es_eviction *row = policy ? NULL : es_eviction_at(i);
        if (policy ? i == OPTIONS : !row)
            break;
        if (policy && !takes(policy, &options[i]))
            continue;
        const int more = snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                  policy ? options[i].name : row->name);
        used += (size_t)more;
    }
    return out;
}

/* Reads a value: a word, or a number in the option's range. */
static bool read_value(const option *o, const char *text, double *value)
{
    for (int i = 0; i < 2; i++)
        if (o->word[i] && strcmp(text, o->word[i]) == 0) {
            *value = i;
            return true;
        }
    return !o->word[0] && es_decimal_read(text, value) && *value >= o->min && *value <= o->max &&
           (o->real || *value == floor(*value));
}

/* Sets an option from "NAME=VALUE", whose '=' is at `equals`. */
static es_status read_option(char *text, char *equals, es_evict_spec *out, es_error *err)
{
    char names[200];
    const option *o = options;
    double value;
    *equals = '\0';
    while (o < options + OPTIONS && strcmp(o->name, text) != 0)
        o++;
    if (o == options + OPTIONS || !takes(out->policy, o))
        return es_fail(err, ES_E_ARGUMENT, "evict.option",
                       list_names(out->policy, names, sizeof names),
                       "policy %s has no option \"%.40s\"", out->policy->name, text);
    if (!read_value(o, equals + 1, &value))
        return es_fail(err, ES_E_ARGUMENT, "evict.option",
                       o->word[0] ? "use one of its two words" : "use a number of its range",
                       "option %s of policy %s cannot be \"%.40s\"", o->name, out->policy->name,
                       equals + 1);
    set_value(out, o, value);
    return ES_OK;
}

es_status es_evict_parse(const char *text, es_evict_spec *out, es_error *err)
{
    char names[200], copy[256];
    if (strlen(text) >= sizeof copy)
        return es_fail(err, ES_E_ARGUMENT, "evict.policy", "write it shorter",
                       "a policy of more than %zu characters", sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    char *at = copy + strcspn(copy, ":");
    const bool more = *at == ':';
    *at = '\0';
    es_evict_init(out, es_eviction_find(copy));
    if (!out->policy)
        return es_fail(err, ES_E_ARGUMENT, "evict.policy", list_names(NULL, names, sizeof names),
                       "unknown eviction policy \"%.40s\"", copy);
    for (bool next = more; next;) {
        char *word = at + 1, *equals;
        at = word + strcspn(word, ":");
        next = *at == ':';
        *at = '\0';
        equals = strchr(word, '=');
        if (!equals)
            return es_fail(err, ES_E_ARGUMENT, "evict.option",
                           "write policies as NAME:option=value", "\"%.40s\" is no option=value",
                           word);
        ES_TRY(read_option(word, equals, out, err));
    }
    if (out->kernel != ES_EVICT_UNSET && out->kernel % 2 == 0)
        return es_fail(err, ES_E_ARGUMENT, "evict.option", "use an odd number",
                       "option kernel is %lld, but pooling is centred", (long long)out->kernel);
    return ES_OK;
}

void es_evict_write(const es_evict_spec *spec, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s", es_eviction_name(spec->policy));
    for (int i = 0; i < OPTIONS && spec->policy && used < size; i++) {
        const option *o = &options[i];
        const double value = value_of(spec, o);
        if (!takes(spec->policy, o) || value == ES_EVICT_UNSET)
            continue;
        char number[ES_DECIMAL_SIZE];
        const int more =
            snprintf(out + used, size - used, ":%s=%s", o->name,
                     o->word[0] ? o->word[value > 0.0] : es_decimal_write(value, number));
        used += (size_t)more;
    }
}

/* ---- defaults ---- */

/* Returns whether an option may stay unset: then it does nothing. */
static bool may_stay_unset(const option *o) { return o->at == AT(alpha) || o->at == AT(beta); }

const char *es_evict_missing(const es_evict_spec *spec)
{
    for (int i = 0; i < OPTIONS && spec->policy; i++)
        if (takes(spec->policy, &options[i]) && !may_stay_unset(&options[i]) &&
            value_of(spec, &options[i]) == ES_EVICT_UNSET)
            return options[i].name;
    return NULL;
}

es_evict_spec es_evict_resolve(const es_evict_spec *spec, es_evict_mode mode)
{
    es_evict_spec out = *spec;
    if (!spec->policy)
        return out;
    if (spec->policy->resolve)
        spec->policy->resolve(&out, mode);
    for (int i = 0; i < OPTIONS; i++)
        if (!may_stay_unset(&options[i]) && value_of(&out, &options[i]) == ES_EVICT_UNSET)
            set_value(&out, &options[i], value_of(&spec->policy->own, &options[i]));
    return out;
}

es_status es_evict_check(const es_evict_spec *spec, es_evict_mode mode, es_error *err)
{
    if (!spec->policy)
        return ES_OK;
    if (spec->keys < 1)
        return es_fail(err, ES_E_RANGE, "evict.keys", "keep at least one key",
                       "policy %s is to keep %lld keys", spec->policy->name, (long long)spec->keys);
    if (mode == ES_EVICT_DECODE && !es_eviction_decodes(spec->policy))
        return es_fail(
            err, ES_E_ARGUMENT, "evict.mode", "use --evict prompt, or stream, h2o or tova",
            "policy %s chooses from a whole prompt and has no decode mode", spec->policy->name);
    if (mode == ES_EVICT_DECODE && spec->alpha != ES_EVICT_UNSET)
        return es_fail(err, ES_E_ARGUMENT, "evict.mode", "use --evict prompt",
                       "heads share keys (alpha) when a prompt ends; decode mode has no such time");
    return ES_OK;
}

bool es_evict_one_set(const es_evict_spec *spec)
{
    return spec->policy && (spec->policy->takes & ES_TAKES_SCOPE) && spec->scope == 0;
}

bool es_evict_together(const es_evict_spec *spec, es_evict_mode mode)
{
    return spec->policy &&
           (spec->alpha != ES_EVICT_UNSET || (mode == ES_EVICT_DECODE && es_evict_one_set(spec)));
}

bool es_evict_same(const es_evict_spec *a, const es_evict_spec *b)
{
    bool same = a->policy == b->policy && (!a->policy || a->keys == b->keys);
    for (int i = 0; i < OPTIONS && same && a->policy; i++)
        same = value_of(a, &options[i]) == value_of(b, &options[i]);
    return same;
}

int64_t es_pyramid_keys(int64_t keys, double beta, int64_t window, int64_t prompt, int64_t layer,
                        int64_t layers)
{
    const double k = (double)keys, most = (double)(prompt - window);
    double low = k / beta, high = 2.0 * k - low;
    if (high >= most) {
        high = most;
        low = 2.0 * k - high;
    }
    if (layers < 2 || !((double)prompt >= high && high >= low && low >= (double)window))
        return keys;
    return (int64_t)rint(high - (double)layer * (high - low) / (double)(layers - 1));
}
