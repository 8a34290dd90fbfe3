/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_rotary.c : how a GGUF stretches rotary positions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/gguf_model.h"
#include "model/gguf_reading.h"

enum { RATES_MOST = 2048 };

static const char rates_name[] = "rope_freqs.weight";
static const char long_name[] = "rope_factors_long.weight";
static const char short_name[] = "rope_factors_short.weight";

bool es_gguf_is_rotary(const char *tensor)
{
    return strcmp(tensor, rates_name) == 0 || strcmp(tensor, long_name) == 0 ||
           strcmp(tensor, short_name) == 0;
}

/* ---- keys ---- */

/* A number that may have one value, or another: any else is refused by name. */
static es_status check_only(const es_gguf_reading *r, const char *rest, double only, double other)
{
    char key[ES_GGUF_KEY], hint[64];
    double value = only;
    ES_TRY(es_gguf_take_real(r, rest, (es_gguf_range){-1e6, 1e6, false}, &value));
    snprintf(hint, sizeof hint, only == other ? "only %g is supported" : "only %g and %g are", only,
             other);
    return value == only || value == other ? ES_OK
                                           : es_gguf_refuse(r, es_gguf_key_of(r, rest, key), hint);
}

/* Reads a factor on queries and keys. 1 leaves it to the rule of the type, and so does the number
 * that the rule gives, rounded to f32; *out is then 0. */
static es_status take_sharpness(const es_gguf_reading *r, const char *rest, double by_rule,
                                double *out)
{
    double stated = 1.0;
    ES_TRY(es_gguf_take_real(r, rest, (es_gguf_range){1e-6, 1e6, false}, &stated));
    *out = stated == 1.0 || fabs(stated - by_rule) <= 1e-6 * by_rule ? 0.0 : stated;
    return ES_OK;
}

/* Reads what YaRN has beside its factor. yarn_ext_factor -1 leaves the mixture of frequencies to
 * the type: 1 for YaRN and 0 otherwise. A multiplier of the logarithm is the mscale_all_dim of
 * config.json, beside an mscale of 1. */
static es_status take_yarn(const es_gguf_reading *r, bool yarn, double factor)
{
    es_rotary *rotary = &r->config->rotary;
    const es_gguf_range edge = {1e-6, 1e6, false}, any = {0, 1e3, false};
    ES_TRY(check_only(r, "rope.scaling.attn_factor", 1, 1));
    ES_TRY(check_only(r, "rope.scaling.yarn_ext_factor", yarn ? 1 : 0, -1));
    ES_TRY(es_gguf_take_real(r, "rope.scaling.yarn_beta_fast", edge, &rotary->fast));
    ES_TRY(es_gguf_take_real(r, "rope.scaling.yarn_beta_slow", edge, &rotary->slow));
    if (!yarn) {
        ES_TRY(check_only(r, "rope.scaling.yarn_attn_factor", 1, 1));
        return check_only(r, "rope.scaling.yarn_log_multiplier", 0, 0);
    }
    const double by_rule = factor > 1.0 ? 0.1 * log(factor) + 1.0 : 1.0;
    ES_TRY(take_sharpness(r, "rope.scaling.yarn_attn_factor", by_rule, &rotary->attention));
    ES_TRY(es_gguf_take_real(r, "rope.scaling.yarn_log_multiplier", any, &rotary->mscale_all));
    rotary->mscale = rotary->mscale_all > 0.0 ? 1.0 : 0.0;
    return ES_OK;
}

/* Reads how rotary positions are stretched by keys: none, linear or YaRN, with the original context
 * length. */
static es_status take_scaling(const es_gguf_reading *r)
{
    es_rotary *rotary = &r->config->rotary;
    char key[ES_GGUF_KEY];
    es_gguf_text type = {"none", 4};
    double factor = 0;
    int64_t original = 0;
    ES_TRY(es_gguf_take_real(r, "rope.scale_linear", (es_gguf_range){1, 1e6, false}, &factor));
    if (factor > 0)
        type = (es_gguf_text){"linear", 6};
    ES_TRY(es_gguf_take_real(r, "rope.scaling.factor", (es_gguf_range){0, 1e6, false}, &factor));
    ES_TRY(es_gguf_take_whole(r, "rope.scaling.original_context_length",
                              (es_gguf_range){1, 1 << 24, false}, &original));
    ES_TRY(es_gguf_string(&r->g->header, es_gguf_key_of(r, "rope.scaling.type", key), false, &type,
                          r->err));
    const bool yarn = es_gguf_text_is(type, "yarn");
    ES_TRY(take_yarn(r, yarn, factor));
    if (yarn || r->config->rotary.query_beta > 0.0)
        rotary->original = (double)(original ? original : r->config->positions);
    if (es_gguf_text_is(type, "none") || (es_gguf_text_is(type, "linear") && factor <= 1))
        return ES_OK;
    if (!yarn && !es_gguf_text_is(type, "linear"))
        return es_gguf_refuse(r, key, "none, linear, yarn, and tensors with factors are supported");
    snprintf(rotary->type, sizeof rotary->type, "%s", yarn ? "yarn" : "linear");
    rotary->factor = factor;
    if (yarn) /* config.json says the factor by the positions, before and after */
        r->config->positions = (int64_t)fmin(rotary->original * factor, 1 << 24);
    return ES_OK;
}

/* ---- factors of longrope ---- */

/* Reads the factors of one tensor. */
static es_status take_factors(const es_gguf_reading *r, const char *name, double *out,
                              int64_t *count)
{
    const es_st_tensor *t = es_gguf_find_tensor(r->g, name);
    if (!t || t->rank != 1 || t->count > ES_ROTARY_FACTORS)
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, t ? (int64_t)t->offset : -1,
                            "gguf.tensor", ES_GGUF_CONVERT,
                            "missing vector '%s' of up to %d numbers", name, ES_ROTARY_FACTORS);
    ES_TRY(es_gguf_read(r->g, t, ES_F64, out, NULL, r->err));
    *count = t->count;
    for (int64_t i = 0; i < t->count; i++) {
        if (!(out[i] > 0.0 && out[i] < 1e6))
            return es_fail_file(r->err, ES_E_FORMAT, r->g->path, (int64_t)t->offset, "gguf.tensor",
                                ES_GGUF_CONVERT, "'%s' has the factor %g", name, out[i]);
        out[i] = es_gguf_shortest(out[i]);
    }
    return ES_OK;
}

/* Reads longrope: a number for each frequency, in blocks up to the original context length and in
 * longer ones. */
static es_status take_longrope(const es_gguf_reading *r)
{
    es_rotary *rotary = &r->config->rotary;
    es_gguf_text type = {"longrope", 8};
    int64_t original = 0;
    char key[ES_GGUF_KEY];
    ES_TRY(es_gguf_string(&r->g->header, es_gguf_key_of(r, "rope.scaling.type", key), false, &type,
                          r->err));
    if (!es_gguf_text_is(type, "longrope") && !es_gguf_text_is(type, "none"))
        return es_gguf_refuse(r, key, "tensors with factors require the type longrope");
    ES_TRY(take_factors(r, long_name, rotary->long_factor, &rotary->long_count));
    ES_TRY(take_factors(r, short_name, rotary->short_factor, &rotary->short_count));
    ES_TRY(es_gguf_take_whole(r, "rope.scaling.original_context_length",
                              (es_gguf_range){2, 1 << 24, true}, &original));
    memcpy(rotary->type, "longrope", sizeof "longrope");
    rotary->original = r->draft->layers.original = (double)original;
    const double ratio = (double)r->config->positions / (double)original;
    const double by_rule = ratio > 1.0 ? sqrt(1.0 + log(ratio) / log((double)original)) : 1.0;
    return take_sharpness(r, "rope.scaling.attn_factor", by_rule, &rotary->attention);
}

/* ---- frequencies of Llama 3 ---- */

/* Llama 3's stretching: by `factor` where fewer than one wavelength fits into the original
 * positions, not at all from four on. What a frequency is divided by: */
static double llama3_rate(double frequency, double original, double factor)
{
    const double waves = original * frequency / 6.28318530717958647693;
    const double smooth = fmin(fmax((waves - 1) / 3, 0), 1);
    return 1 / ((1 - smooth) / factor + smooth);
}

/* Returns whether stored rotary frequencies are those of Llama 3's rule with this factor.
 * Converters write the numbers instead of the rule, in f32. */
static bool rates_are(const double *rates, const es_model_config *c, double original, double factor)
{
    const int64_t half = c->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        const double f = pow(c->rotary.theta, -2.0 * (double)i / (double)c->head_dim);
        const double want = llama3_rate(f, original, factor);
        if (!(fabs(rates[i] - want) <= 1e-5 * want)) /* they were made in f32 */
            return false;
    }
    return true;
}

/* llama.cpp keeps the result of Llama 3's rule, one number for each channel, and not the rule. The
 * largest is the factor; the original positions are a power of two, tried one after the other. */
static es_status take_rates(const es_gguf_reading *r)
{
    const es_st_tensor *t = es_gguf_find_tensor(r->g, rates_name);
    es_rotary *rotary = &r->config->rotary;
    double rates[RATES_MOST], factor = 1;
    if (!t)
        return ES_OK;
    if (t->rank == 1 && t->count <= RATES_MOST && 2 * t->count == r->config->head_dim &&
        !*rotary->type) {
        ES_TRY(es_gguf_read(r->g, t, ES_F64, rates, NULL, r->err));
        for (int64_t i = 0; i < t->count; i++)
            factor = rates[i] > factor ? rates[i] : factor;
        for (int power = 4; power <= 24; power++) {
            if (!rates_are(rates, r->config, ldexp(1, power), factor))
                continue;
            if (factor > 1) {
                memcpy(rotary->type, "llama3", sizeof "llama3");
                rotary->factor = factor;
                rotary->original = ldexp(1, power);
                rotary->low = 1;
                rotary->high = 4;
            }
            return ES_OK;
        }
    }
    return es_fail_file(r->err, ES_E_UNSUPPORTED, r->g->path, (int64_t)t->offset, "gguf.function",
                        ES_GGUF_CONVERT,
                        "tensor '%s' has frequencies that are not those of Llama 3", rates_name);
}

es_status es_gguf_take_rotary(const es_gguf_reading *r)
{
    if (es_gguf_find_tensor(r->g, long_name) || es_gguf_find_tensor(r->g, short_name))
        return take_longrope(r);
    ES_TRY(take_scaling(r));
    return take_rates(r);
}
