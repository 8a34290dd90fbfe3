/* SPDX-License-Identifier: Apache-2.0 */
/* rotary.c : by how much queries and keys turn with their place (THEORY 16.2).
 *
 * Channel c of width/2 turns by f_c = theta^(-2c/width) for each step. Models that were stretched
 * to longer texts change f_c, each kind by its own rule; rules are those of the libraries the
 * checkpoints come from, which is where they are defined. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "model/model_inside.h"

#define TWO_PI 6.28318530717958647693

/* ---- the kinds ---- */

/* Frequencies f (half) of a block of n tokens, in place. */
typedef void (*stretch)(const es_rotary *r, int64_t n, int64_t half, double *f);

/* Computes the frequencies theta^(-2 c / width): THEORY 16.2 (R1). */
static void plain(const es_rotary *r, double theta, int64_t half, double *f)
{
    for (int64_t c = 0; c < half; c++)
        f[c] = pow(theta, -2.0 * (double)c / (double)r->width);
}

/* Computes the frequencies without stretching. */
static void stretch_none(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    (void)n;
    plain(r, r->theta, half, f);
}

/* Positions are divided by the factor: THEORY 16.2 (R2). */
static void stretch_linear(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    stretch_none(r, n, half, f);
    for (int64_t i = 0; i < half; i++)
        f[i] /= r->factor;
}

/* Increases theta with the block, once that is longer than the text the model was trained on:
 * THEORY 16.2 (R3). */
static void stretch_dynamic(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    const double width = (double)r->width, length = fmax((double)n, r->original);
    const double grown = r->factor * length / r->original - (r->factor - 1.0);
    plain(r, r->theta * pow(grown, width / (width - 2.0)), half, f);
}

/* Returns the channel that makes `turns` turns within the original positions; not rounded. */
static double channel_of(const es_rotary *r, double turns)
{
    return (double)r->width * log(r->original / (turns * TWO_PI)) / (2.0 * log(r->theta));
}

/* Divides the frequencies of slow channels by the factor, leaves those of fast ones, and
 * interpolates linearly between them: THEORY 16.2 (R4). */
static void stretch_yarn(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    double low = channel_of(r, r->fast), high = channel_of(r, r->slow);
    stretch_none(r, n, half, f);
    if (r->rounded) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, (double)r->width - 1.0);
    high += high == low ? 0.001 : 0.0;
    for (int64_t i = 0; i < half; i++) {
        const double ramp = fmin(fmax(((double)i - low) / (high - low), 0.0), 1.0);
        f[i] *= ramp / r->factor + (1.0 - ramp);
    }
}

/* Does the same by wavelengths: stretching begins where `high` of them fit into the original
 * positions, and is complete where `low` do: THEORY 16.2 (R5). */
static void stretch_llama3(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    stretch_none(r, n, half, f);
    for (int64_t i = 0; i < half; i++) {
        const double waves = r->original * f[i] / TWO_PI;
        const double smooth = fmin(fmax((waves - r->low) / (r->high - r->low), 0.0), 1.0);
        f[i] *= (1.0 - smooth) / r->factor + smooth;
    }
}

/* Divides the frequency of each channel by its own factor; blocks that are longer than the
 * original positions have another set of factors: THEORY 16.2 (R6). */
static void stretch_long(const es_rotary *r, int64_t n, int64_t half, double *f)
{
    const double *factor = (double)n > r->original ? r->long_factor : r->short_factor;
    stretch_none(r, n, half, f);
    for (int64_t i = 0; i < half; i++)
        f[i] /= factor[i];
}

static const struct {
    const char *type;
    stretch stretch;
    bool stretched; /* it has a factor */
    bool waves;     /* it has low and high */
} kinds[] = {{"default", stretch_none, false, false},   {"linear", stretch_linear, true, false},
             {"dynamic", stretch_dynamic, true, false}, {"yarn", stretch_yarn, true, false},
             {"llama3", stretch_llama3, true, true},    {"longrope", stretch_long, false, false}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Returns the index of the type of stretching, -1 if it is not known. */
static int kind_of(const es_rotary *r)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(r->type, kinds[i].type) == 0)
            return i;
    return -1;
}

/* ---- what config.json leaves to rules ---- */

/* Returns YaRN's factor on queries and on keys: 1 + 0.1 mscale ln(factor). */
static double sharpness(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* Returns YaRN's factor on scores: stated, from the ratio of two mscales, or 0.1 ln(factor) + 1. */
static double yarn_attention(const es_rotary *r)
{
    if (r->attention > 0.0)
        return r->attention;
    if (r->mscale > 0.0 && r->mscale_all > 0.0)
        return sharpness(r->factor, r->mscale) / sharpness(r->factor, r->mscale_all);
    return sharpness(r->factor, 1.0);
}

/* Sets the original and the extended number of positions. If the file does not state the original
 * number, max_position_embeddings is the original (always for dynamic scaling; for linear scaling
 * many files state the extended number, and no other key shows which it is). A YaRN factor that is
 * not stated is the ratio of the two numbers. A stated factor is used as it is, as serving systems
 * do: some releases of the library that writes the files used the ratio instead, which turned YaRN
 * off for checkpoints that state both numbers alike. */
static void complete_positions(es_model_config *c, es_rotary *r)
{
    const double stated = (double)c->positions;
    if (strcmp(r->type, "llama3") == 0) /* states all of it */
        return;
    if (strcmp(r->type, "longrope") == 0) { /* max_position_embeddings are stretched ones */
        r->original = r->original > 0.0 ? r->original : stated;
        r->factor = r->factor > 0.0 ? r->factor : stated / r->original;
        return;
    }
    if (r->original > 0.0 && !(r->factor > 0.0) && strcmp(r->type, "yarn") == 0)
        r->factor = stated / r->original;
    if (!(r->original > 0.0) || strcmp(r->type, "dynamic") == 0)
        r->original = stated;
    const double ratio = stated / r->original, most = r->original * fmax(r->factor, 1.0);
    if (ratio > 1.0 && fabs(ratio - r->factor) > 1e-6 * r->factor)
        es_log(ES_LOG_WARN,
               "rotary positions are stretched %g times, as stated, not %g times, as "
               "max_position_embeddings implies",
               r->factor, ratio);
    c->positions = (int64_t)fmin(fmax(stated, most), (double)(1 << 24));
}

/* Returns longrope's factor on queries and on keys, unless it is stated: THEORY 16.2 (R6). */
static double longrope_attention(const es_rotary *r)
{
    if (r->attention > 0.0)
        return r->attention;
    return r->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(r->factor) / log(r->original));
}

/* Fails unless longrope has a number for each frequency, twice. */
static es_status check_factors(const es_rotary *r, const char *file, es_error *err)
{
    const int64_t half = r->width / 2;
    if (strcmp(r->type, "longrope") != 0)
        return r->short_count || r->long_count
                   ? es_fail_file(
                         err, ES_E_UNSUPPORTED, file, -1, "config.rotary", "only longrope has them",
                         "short_factor and long_factor of rotary positions of type '%s'", r->type)
                   : ES_OK;
    if (half > ES_ROTARY_FACTORS)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.rotary",
                            "heads of up to 256 rotary channels are supported",
                            "rotary positions of type 'longrope' for %lld frequencies",
                            (long long)half);
    if (r->short_count == half && r->long_count == half && r->original > 1.0)
        return ES_OK;
    return es_fail_file(err, ES_E_FORMAT, file, -1, "config.rotary",
                        "check that this config.json came with the weights",
                        "rotary positions of type 'longrope' need %lld numbers in short_factor and "
                        "in long_factor; they have %lld and %lld",
                        (long long)half, (long long)r->short_count, (long long)r->long_count);
}

/* Fills in one rotation, and checks it. */
static es_status complete(es_model_config *c, es_rotary *r, const char *file, es_error *err)
{
    if (!(r->theta > 0.0)) /* no rotary positions */
        return ES_OK;
    if (!*r->type && r->factor > 0.0)
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.rotary",
                            "check that this config.json came with the weights",
                            "rotary positions have a factor but no type");
    if (!*r->type)
        memcpy(r->type, "default", sizeof "default");
    const int kind = kind_of(r);
    r->width = (int64_t)((double)c->head_dim * r->share);
    if (kind < 0)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.rotary",
                            "supported: default, linear, dynamic, yarn, llama3, longrope",
                            "rotary positions of type '%s'", r->type);
    if (r->width < 2 || r->width % 2 || (r->width == 2 && strcmp(r->type, "dynamic") == 0))
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.rotary",
                            "check that this config.json came with the weights",
                            "%lld channels of a head of %lld are rotary; the number must be even",
                            (long long)r->width, (long long)c->head_dim);
    complete_positions(c, r);
    if (kinds[kind].stretched && !(r->factor >= 1.0))
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.rotary",
                            "check that this config.json came with the weights",
                            "rotary positions of type '%s' need a factor of at least 1", r->type);
    if (kinds[kind].waves && !(r->high > r->low && r->low > 0.0 && r->original > 0.0))
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.rotary",
                            "check that this config.json came with the weights",
                            "rotary positions of type '%s' need low_freq_factor below "
                            "high_freq_factor, and original_max_position_embeddings",
                            r->type);
    ES_TRY(check_factors(r, file, err));
    r->attention = strcmp(r->type, "yarn") == 0       ? yarn_attention(r)
                   : strcmp(r->type, "longrope") == 0 ? longrope_attention(r)
                                                      : 1.0;
    return ES_OK;
}

es_status es_rotary_complete(es_model_config *c, const char *file, es_error *err)
{
    ES_TRY(complete(c, &c->rotary, file, err));
    return complete(c, &c->rotary_local, file, err);
}

/* ---- stretching by choice ---- */

/* Fails unless the number of a stretching is one that config.json could state. */
static es_status check_stretch(const es_stretch *s, es_error *err)
{
    const bool base = s->kind == ES_STRETCH_BASE;
    if ((base ? s->by >= 1.0001 && s->by <= 1e15 : s->by >= 1.0 && s->by <= 1e6) &&
        (s->kind != ES_STRETCH_YARN || s->trained >= 1.0))
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "rope.range",
                   base ? "a base is 1.0001 to 1e15" : "a factor is 1 to 1e6",
                   "rotary positions cannot be stretched by %g", s->by);
}

/* Fails for a stretching that would replace the checkpoint's own. */
static es_status check_own(const es_rotary *r, const es_stretch *s, es_error *err)
{
    const bool plain = strcmp(r->type, "default") == 0,
               again = s->kind == ES_STRETCH_LINEAR && strcmp(r->type, "linear") == 0;
    if (plain || again || s->kind == ES_STRETCH_NTK || s->kind == ES_STRETCH_BASE)
        return ES_OK;
    return es_fail(
        err, ES_E_UNSUPPORTED, "rope.twice",
        "ntk:F and base:X, which change theta alone, go with it",
        "the checkpoint stretches its rotary positions itself, by '%s': %s would replace "
        "that",
        r->type, s->kind == ES_STRETCH_LINEAR ? "linear" : "yarn");
}

/* Changes a rotation to YaRN's, with the numbers that config.json leaves to the rule. */
static void make_yarn(const es_stretch *s, es_rotary *r)
{
    memcpy(r->type, "yarn", sizeof "yarn");
    r->factor = s->by;
    r->original = s->trained;
    r->fast = 32.0;
    r->slow = 1.0;
    r->rounded = true;
    r->attention = sharpness(s->by, 1.0);
}

es_status es_model_stretch(const es_model_config *c, const es_stretch *s, es_rotary out[2],
                           es_error *err)
{
    es_rotary *r = &out[0];
    out[0] = c->rotary;
    out[1] = c->rotary_local;
    if (!r->width)
        return es_fail(err, ES_E_UNSUPPORTED, "rope.none",
                       "use a decoder with rotary positions (llama, qwen3, ...; docs/MODELS.md)",
                       "a %s model without rotary positions cannot be stretched", c->model_type);
    if (s->kind == ES_STRETCH_NONE)
        return ES_OK;
    ES_TRY(check_stretch(s, err));
    ES_TRY(check_own(r, s, err));
    const double width = (double)r->width;
    if (s->kind == ES_STRETCH_NTK && r->width == 2)
        return es_fail(err, ES_E_UNSUPPORTED, "rope.width", "use linear:F",
                       "ntk changes no frequency of heads with two rotary channels");
    if (s->kind == ES_STRETCH_LINEAR) {
        r->factor = s->by * (strcmp(r->type, "linear") == 0 ? r->factor : 1.0);
        memcpy(r->type, "linear", sizeof "linear");
    } else if (s->kind == ES_STRETCH_YARN) {
        make_yarn(s, r);
    } else {
        r->theta =
            s->kind == ES_STRETCH_BASE ? s->by : r->theta * pow(s->by, width / (width - 2.0));
    }
    return ES_OK;
}

/* The numbers that kinds divide by or take logarithms of are positive. */
bool es_rotary_fits(const es_rotary *own, const es_rotary *r)
{
    const int kind = r->width ? kind_of(r) : 0;
    if (r->width != own->width || kind < 0)
        return false;
    const bool factor = !kinds[kind].stretched || (r->factor >= 1.0 && isfinite(r->factor));
    const bool waves = !kinds[kind].waves || (r->high > r->low && r->low > 0.0);
    const bool original = kind < 2 || r->original >= 1.0;
    const bool longrope = kinds[kind].stretch != stretch_long || r->width / 2 <= ES_ROTARY_FACTORS;
    return !r->width || (factor && waves && original && longrope && r->theta > 1.0 &&
                         isfinite(r->theta) && r->attention > 0.0 && isfinite(r->attention));
}

/* ---- the angles ---- */

void es_rotary_angles(const es_rotary *r, int64_t n, double *cosines, double *sines)
{
    const int64_t half = r->width / 2;
    double *const f = sines + (n - 1) * half; /* the last row is overwritten last */
    kinds[kind_of(r)].stretch(r, n, half, f);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < half; c++) {
            const double angle = (double)i * f[c];
            cosines[i * half + c] = r->attention * cos(angle);
            sines[i * half + c] = r->attention * sin(angle);
        }
    }
}

/* THEORY 16.2 (R7). */
void es_rotary_query_factors(const es_rotary *r, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = 1.0 + r->query_beta * log(1.0 + floor((double)i / r->original));
}
