/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.c : a GGUF as the checkpoint that it was made from: its configuration, and its tensors
 * under the names, and with the rows, that a Hugging Face checkpoint has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/gguf_arch.h"
#include "model/gguf_model.h"
#include "checkpoint/safetensors_inside.h"

enum { NAME_MOST = 96, RATES_MOST = 2048 };

static const char converted[] = "convert the model anew, or use the checkpoint it was made from";

/* ---- names ---- */

static const char rates_name[] = "rope_freqs.weight";

/* Writes the name of a tensor: "blk.3.attn_q.weight" for "blk.*.attn_q", layer 3 and ".weight". */
static void write_name(const char *pattern, int64_t layer, const char *end, char out[NAME_MOST])
{
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(out, NAME_MOST, "%.*s%lld%s%s", (int)(star - pattern), pattern, (long long)layer,
                 star + 1, end);
    else
        snprintf(out, NAME_MOST, "%s%s", pattern, end);
}

/* Returns whether `name` is `pattern` with the number of a layer, which goes to *layer, and
 * ".weight" or ".bias". The name is written and compared, so that other spellings of a number do
 * not pass. */
static bool matches(const char *name, const char *pattern, int64_t *layer, bool *bias)
{
    char wanted[NAME_MOST];
    const char *dot = strrchr(name, '.'), *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : 0;
    *bias = dot && strcmp(dot, ".bias") == 0;
    if (strncmp(name, pattern, before) != 0)
        return false;
    *layer = star ? strtoll(name + before, NULL, 10) : 0;
    write_name(pattern, *layer, *bias ? ".bias" : ".weight", wanted);
    return strcmp(wanted, name) == 0;
}

/* Returns what a tensor is, by its name in the file or, if `known`, in a checkpoint; NULL if the
 * architecture does not have it. */
static const es_gguf_tensor *find_part(const es_gguf_arch *arch, const char *name, bool known,
                                       int64_t *layer, bool *bias)
{
    for (int i = 0; i < ES_GGUF_LISTS && arch->tensors[i]; i++)
        for (const es_gguf_tensor *p = arch->tensors[i]; p->name; p++)
            if (matches(name, known ? p->known_as : p->name, layer, bias))
                return p;
    return NULL;
}

/* Compares a name with that of a tensor, for bsearch(). */
static int name_against(const void *name, const void *tensor)
{
    return strcmp(name, ((const es_st_tensor *)tensor)->name);
}

/* Returns a tensor by its name, NULL if it is missing. */
static const es_st_tensor *find_tensor(const es_gguf *g, const char *name)
{
    return bsearch(name, g->header.tensors, (size_t)g->header.count, sizeof *g->header.tensors,
                   name_against);
}

/* ---- values of an architecture ---- */

typedef struct reading {
    const es_gguf *g;
    const es_gguf_arch *arch;
    es_model_config *config;
    es_error *err;
} reading;

/* Writes the key of a value of the architecture, such as "llama.block_count". */
static const char *key_of(const reading *r, const char *rest, char out[NAME_MOST])
{
    snprintf(out, NAME_MOST, "%s.%s", r->arch->name, rest);
    return out;
}

/* Reads an integer of the architecture from 1 to `most`. */
static es_status take_whole(const reading *r, const char *rest, double most, bool required,
                            int64_t *out)
{
    char key[NAME_MOST];
    return es_gguf_whole(&r->g->header, key_of(r, rest, key), (es_gguf_range){1, most, required},
                         out, r->err);
}

/* Returns the shortest decimal number that rounds to this f32: a file with 1e-5 in f32 was made
 * from one with 1e-5, and the two should not differ in the tenth digit. Powers of ten up to 1e22
 * are exact in f64. */
static double shortest(double value)
{
    if (!(value > 1e-12 && value < 1e12))
        return value;
    const int place = (int)floor(log10(value));
    for (int digits = 1; digits <= 9; digits++) {
        const int shift = digits - 1 - place;
        const double power = pow(10.0, abs(shift));
        const double near =
            shift >= 0 ? round(value * power) / power : round(value / power) * power;
        if ((double)(float)near == value)
            return near;
    }
    return value;
}

/* Reads a real number of the architecture. Numbers stored as f32 become the shortest decimal
 * that rounds to them, so that 1e-5 is 1e-5 as in config.json. */
static es_status take_real(const reading *r, const char *rest, double min, double max,
                           bool required, double *out)
{
    char key[NAME_MOST];
    const es_gguf_header *h = &r->g->header;
    ES_TRY(es_gguf_real(h, key_of(r, rest, key), (es_gguf_range){min, max, required}, out, r->err));
    const es_gguf_value *v = es_gguf_find(h, key);
    if (v && v->type == ES_GGUF_F32)
        *out = shortest(*out);
    return ES_OK;
}

/* Fails because of a key that is not supported. */
static es_status refuse_key(const reading *r, const char *key, const char *hint)
{
    return es_fail_file(r->err, ES_E_UNSUPPORTED, r->g->path, -1, "gguf.function", hint,
                        "'%.100s' requires a feature that is not supported", key);
}

/* Reads a number for all layers, or a list with one for each layer, which must all be equal. */
static es_status take_per_layer(const reading *r, const char *rest, double most, bool required,
                                int64_t *out)
{
    const es_gguf_header *h = &r->g->header;
    char key[NAME_MOST];
    const es_gguf_value *v = es_gguf_find(h, key_of(r, rest, key));
    if (!v || v->type != ES_GGUF_ARRAY)
        return take_whole(r, rest, most, required, out);
    ES_TRY(es_gguf_array(h, key, true, ES_GGUF_I32, ES_GGUF_U32, &v, r->err));
    if (v->count != r->config->layers)
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, (int64_t)v->at, "gguf.value",
                            converted, "'%s' has %lld numbers for %lld layers", key,
                            (long long)v->count, (long long)r->config->layers);
    const double first = es_gguf_number(h, v, 0);
    for (int64_t i = 1; i < v->count; i++)
        if (es_gguf_number(h, v, i) != first)
            return refuse_key(r, key,
                              "only models with the same number in all layers are supported");
    if (!(first >= 1 && first <= most))
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, (int64_t)v->at, "gguf.value",
                            converted, "'%s' is not a whole number from 1 to %g", key, most);
    *out = (int64_t)first;
    return ES_OK;
}

/* ---- what would change the function ---- */

/* Fails for a key of the architecture that is not known: it may change what the model computes.
 * Some known keys are supported only with the value 0. */
static es_status check_known(const reading *r, const es_gguf_value *v)
{
    const size_t prefix = strlen(r->arch->name) + 1;
    char key[NAME_MOST];
    snprintf(key, sizeof key, "%.*s", v->key.size < NAME_MOST ? (int)v->key.size : NAME_MOST - 1,
             v->key.at);
    for (int i = 0; i < ES_GGUF_LISTS && r->arch->keys[i]; i++)
        for (const es_gguf_key *k = r->arch->keys[i]; k->key; k++) {
            int64_t value = 0;
            if (strcmp(key + prefix, k->key) != 0)
                continue;
            if (k->use == ES_GGUF_USE_ZERO)
                ES_TRY(es_gguf_whole(&r->g->header, key, (es_gguf_range){0, 1e9, true}, &value,
                                     r->err));
            return value ? refuse_key(r, key, "only 0 is supported") : ES_OK;
        }
    return refuse_key(r, key, "this key is not known and may change the result");
}

/* Fails for a value of the architecture that is not known, and for values by which the file is no
 * whole model. */
static es_status check_values(const reading *r)
{
    const es_gguf_header *h = &r->g->header;
    const char *arch = r->arch->name;
    const size_t prefix = strlen(arch);
    bool causal = true;
    char key[NAME_MOST];
    es_gguf_text type = {"model", 5}, layout = {0};
    for (int64_t i = 0; i < h->values_count; i++) {
        const es_gguf_text k = h->values[i].key;
        if (k.size > prefix + 1 && memcmp(k.at, arch, prefix) == 0 && k.at[prefix] == '.')
            ES_TRY(check_known(r, &h->values[i]));
    }
    ES_TRY(es_gguf_string(h, "general.type", false, &type, r->err));
    if (!es_gguf_text_is(type, "model"))
        return refuse_key(r, "general.type", "only a whole model is supported");
    ES_TRY(es_gguf_string(h, key_of(r, "tensor_data_layout", key), false, &layout, r->err));
    if (layout.size && !es_gguf_text_is(layout, "Meta AI original pth"))
        return refuse_key(r, key, "only the layout that llama.cpp writes is supported");
    ES_TRY(es_gguf_flag(h, key_of(r, "attention.causal", key), &causal, r->err));
    return causal ? ES_OK : refuse_key(r, key, "only causal models are supported");
}

/* Names all unsupported types at once, so that the user learns what the file contains. */
static es_status check_types(const reading *r)
{
    const es_gguf_header *h = &r->g->header;
    const es_st_tensor *first = NULL;
    char found[160] = "";
    for (int64_t i = 0; i < h->count; i++) {
        const es_st_tensor *t = &h->tensors[i];
        const size_t used = strlen(found);
        char word[16];
        if (es_gguf_type_of(t->dtype)->decode)
            continue;
        first = first ? first : t;
        snprintf(word, sizeof word, " %s,", t->dtype);
        if (!strstr(found, word))
            snprintf(found + used, sizeof found - used, "%s", word);
    }
    if (!first)
        return ES_OK;
    found[strlen(found) - 1] = '\0';
    char hint[ES_GGUF_HINT];
    return es_fail_file(
        r->err, ES_E_UNSUPPORTED, r->g->path, (int64_t)first->offset, "gguf.kind",
        es_gguf_types_hint(hint),
        "tensor '%.100s' has type %s, which is not supported; such types in the file:%s",
        first->name, first->dtype, found);
}

/* ---- rotary positions ---- */

/* Fails unless a number has one of two values. */
static es_status check_only(const reading *r, const char *rest, double only, double other)
{
    char key[NAME_MOST], hint[64];
    double value = only;
    ES_TRY(take_real(r, rest, -1e6, 1e6, false, &value));
    snprintf(hint, sizeof hint, only == other ? "only %g is supported" : "only %g and %g are", only,
             other);
    return value == only || value == other ? ES_OK : refuse_key(r, key_of(r, rest, key), hint);
}

/* Reads the settings of YaRN beside its factor. The sharpness must be 1, times what the factor
 * makes it; the mixture of frequencies must be -1 (the default of the type), or that default: 1
 * for YaRN, else 0. */
static es_status take_yarn(const reading *r, bool yarn)
{
    es_rotary *rotary = &r->config->rotary;
    ES_TRY(check_only(r, "rope.scaling.attn_factor", 1, 1));
    ES_TRY(check_only(r, "rope.scaling.yarn_attn_factor", 1, 1));
    ES_TRY(check_only(r, "rope.scaling.yarn_log_multiplier", 0, 0));
    ES_TRY(check_only(r, "rope.scaling.yarn_ext_factor", yarn ? 1 : 0, -1));
    ES_TRY(take_real(r, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, false, &rotary->fast));
    return take_real(r, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, false, &rotary->slow);
}

/* Reads how rotary positions are stretched: none, linear or YaRN, with the original context
 * length. */
static es_status take_scaling(const reading *r)
{
    const es_gguf_header *h = &r->g->header;
    es_rotary *rotary = &r->config->rotary;
    char key[NAME_MOST];
    es_gguf_text type = {"none", 4};
    double factor = 0;
    int64_t original = 0;
    ES_TRY(take_real(r, "rope.scale_linear", 1, 1e6, false, &factor));
    if (factor > 0)
        type = (es_gguf_text){"linear", 6};
    ES_TRY(take_real(r, "rope.scaling.factor", 0, 1e6, false, &factor));
    ES_TRY(take_whole(r, "rope.scaling.original_context_length", 1 << 24, false, &original));
    ES_TRY(es_gguf_string(h, key_of(r, "rope.scaling.type", key), false, &type, r->err));
    const bool yarn = es_gguf_text_is(type, "yarn");
    ES_TRY(take_yarn(r, yarn));
    if (es_gguf_text_is(type, "none") || (es_gguf_text_is(type, "linear") && factor <= 1))
        return ES_OK;
    if (!yarn && !es_gguf_text_is(type, "linear"))
        return refuse_key(r, key, "none, linear and yarn are supported");
    snprintf(rotary->type, sizeof rotary->type, "%s", yarn ? "yarn" : "linear");
    rotary->factor = factor;
    if (!yarn)
        return ES_OK;
    /* config.json says the factor by the positions, before and after. */
    rotary->original = (double)(original ? original : r->config->positions);
    r->config->positions = (int64_t)fmin(rotary->original * factor, 1 << 24);
    return ES_OK;
}

/* Returns the divisor of a frequency by Llama 3's rule: `factor` if fewer than one wavelength fits
 * into the original positions, 1 from four on. */
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

/* Recovers Llama 3's rule from its result, which llama.cpp stores: one divisor for each channel.
 * The largest is the factor; the original positions are a power of two, found by trying. */
static es_status take_rates(const reading *r)
{
    const es_st_tensor *t = find_tensor(r->g, rates_name);
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
                        converted, "tensor '%s' has frequencies that are not those of Llama 3",
                        rates_name);
}

/* ---- the configuration ---- */

/* Fails because one number is no multiple of another. */
static es_status uneven(const reading *r, const char *of, int64_t a, const char *by, int64_t b)
{
    return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.heads", converted,
                        "'%s.%s' %lld is not a multiple of '%s.%s' %lld", r->arch->name, of,
                        (long long)a, r->arch->name, by, (long long)b);
}

/* Completes the numbers and widths of heads. Fails for models whose values have another width than
 * keys, or that turn only a part of each head. */
static es_status take_heads(const reading *r)
{
    es_model_config *c = r->config;
    int64_t value_width, turning;
    char key[NAME_MOST];
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (c->heads % c->kv_heads)
        return uneven(r, "attention.head_count", c->heads, "attention.head_count_kv", c->kv_heads);
    if (!c->head_dim && c->hidden % c->heads)
        return uneven(r, "embedding_length", c->hidden, "attention.head_count", c->heads);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    value_width = turning = c->head_dim;
    ES_TRY(take_whole(r, "attention.value_length", 4096, false, &value_width));
    ES_TRY(take_whole(r, "rope.dimension_count", 4096, false, &turning));
    if (value_width != c->head_dim)
        return refuse_key(r, key_of(r, "attention.value_length", key),
                          "keys and values must have the same width");
    if (turning != c->head_dim)
        return refuse_key(r, key_of(r, "rope.dimension_count", key),
                          "rotary positions must cover the whole head");
    if (c->head_dim % 2)
        return es_fail_file(
            r->err, ES_E_FORMAT, r->g->path, -1, "gguf.heads", converted,
            "heads of %lld channels cannot have rotary positions: the number must be even",
            (long long)c->head_dim);
    return ES_OK;
}

/* Reads the value of a key into its member of the configuration. */
static es_status take_key(const reading *r, const es_gguf_key *k)
{
    void *at = (char *)r->config + k->at;
    switch (k->use) {
    case ES_GGUF_USE_WHOLE:
        return take_whole(r, k->key, k->max, k->required, at);
    case ES_GGUF_USE_PER_LAYER:
        return take_per_layer(r, k->key, k->max, k->required, at);
    case ES_GGUF_USE_REAL:
        return take_real(r, k->key, k->min, k->max, k->required, at);
    default:
        return ES_OK;
    }
}

/* Reads the sizes of the model. The vocabulary is not stated; it is the number of rows of the
 * embedding. Without a key of their own, heads share the width evenly, also where config.json has
 * another rule. */
static es_status take_sizes(const reading *r)
{
    es_model_config *c = r->config;
    const es_st_tensor *words = find_tensor(r->g, "token_embd.weight");
    c->head_dim = 0;
    for (int i = 0; i < ES_GGUF_LISTS && r->arch->keys[i]; i++)
        for (const es_gguf_key *k = r->arch->keys[i]; k->key; k++)
            ES_TRY(take_key(r, k));
    ES_TRY(take_heads(r));
    if (!words || words->rank != 2 || words->shape[0] > 1 << 24)
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.tensor", converted,
                            "missing matrix 'token_embd.weight' of up to %d rows", 1 << 24);
    c->vocab = words->shape[0];
    c->tied = !find_tensor(r->g, "output.weight");
    if (r->arch->biases == ES_GGUF_BIASES_MAYBE)
        c->attention_bias = find_tensor(r->g, "blk.0.attn_q.bias") != NULL;
    c->mlp_bias = find_tensor(r->g, "blk.0.ffn_up.bias") != NULL;
    return ES_OK;
}

/* Finds the architecture by its name in the file. */
static es_status find_arch(const es_gguf *g, const es_gguf_arch **out, es_error *err)
{
    es_gguf_text name;
    char hint[200];
    size_t used = (size_t)snprintf(hint, sizeof hint, "supported in GGUF:");
    ES_TRY(es_gguf_string(&g->header, "general.architecture", true, &name, err));
    for (*out = es_gguf_archs; (*out)->name; ++*out) {
        if (es_gguf_text_is(name, (*out)->name))
            return ES_OK;
        if (used < sizeof hint)
            used += (size_t)snprintf(hint + used, sizeof hint - used, " %s", (*out)->name);
    }
    if (used < sizeof hint)
        snprintf(hint + used, sizeof hint - used, "; in safetensors there are more");
    return es_fail_file(err, ES_E_UNSUPPORTED, g->path, -1, "gguf.architecture", hint,
                        "general.architecture is '%.*s'", name.size < 64 ? (int)name.size : 64,
                        name.at);
}

es_status es_gguf_config(const es_gguf *g, es_model_config *out, es_error *err)
{
    reading r = {.g = g, .err = err};
    *out = (es_model_config){0};
    ES_TRY(find_arch(g, &r.arch, err));
    const es_arch *arch = es_arch_find(r.arch->model_type, "");
    es_config_draft draft;
    es_config_begin(arch, &draft);
    r.config = &draft.config;
    ES_TRY(check_values(&r));
    ES_TRY(check_types(&r));
    ES_TRY(take_sizes(&r));
    ES_TRY(take_scaling(&r));
    ES_TRY(take_rates(&r));
    if (r.arch->derive)
        r.arch->derive(&draft);
    snprintf(draft.config.model_type, sizeof draft.config.model_type, "%s", arch->model_type);
    snprintf(draft.config.architecture, sizeof draft.config.architecture, "GGUF");
    ES_TRY(es_config_complete(arch, g->path, &draft, err));
    *out = draft.config;
    return ES_OK;
}

/* ---- the tensors ---- */

/* Fails unless a tensor has the shape that the configuration requires. */
static es_status check_tensor(const es_gguf *g, const es_model_config *c, const es_st_tensor *t,
                              const es_gguf_tensor *p, bool bias, es_error *err)
{
    const bool vector = bias || p->cols == ES_GGUF_VECTOR;
    const int64_t rows = es_config_size(c, p->rows);
    const int64_t cols = vector ? 1 : es_config_size(c, (size_t)p->cols);
    if (t->rank == (vector ? 1 : 2) && t->shape[0] == rows && t->shape[1] == cols)
        return ES_OK;
    return es_fail_file(
        err, ES_E_FORMAT, g->path, (int64_t)t->offset, "gguf.tensor", converted,
        "tensor '%.100s' has %lld x %lld numbers in %d dimensions, the header requires %lld x %lld",
        t->name, (long long)t->shape[0], (long long)t->shape[1], t->rank, (long long)rows,
        (long long)cols);
}

/* Fails unless a tensor is in the file. */
static es_status check_there(const es_gguf *g, const char *pattern, int64_t layer, const char *end,
                             es_error *err)
{
    char name[NAME_MOST];
    write_name(pattern, layer, end, name);
    return find_tensor(g, name) ? ES_OK
                                : es_fail_file(err, ES_E_FORMAT, g->path, -1, "gguf.tensor",
                                               converted, "missing tensor '%s'", name);
}

/* Fails if a weight of a layer is missing, or a bias of an architecture that has biases. */
static es_status check_layer(const es_gguf *g, const es_gguf_arch *arch, int64_t layer,
                             es_error *err)
{
    for (int i = 0; i < ES_GGUF_LISTS && arch->tensors[i]; i++)
        for (const es_gguf_tensor *p = arch->tensors[i]; p->name; p++) {
            if (p->presence != ES_GGUF_UNTIED)
                ES_TRY(check_there(g, p->name, layer, ".weight", err));
            if (p->presence == ES_GGUF_BIASED && arch->biases == ES_GGUF_BIASES_ALWAYS)
                ES_TRY(check_there(g, p->name, layer, ".bias", err));
        }
    return ES_OK;
}

/* Gives one tensor the name of a checkpoint, which goes to `room`. */
static es_status rename_tensor(const es_gguf *g, const es_gguf_arch *arch, const es_model_config *c,
                               es_st_tensor *t, char room[NAME_MOST], es_error *err)
{
    int64_t layer;
    bool bias;
    const es_gguf_tensor *p = find_part(arch, t->name, false, &layer, &bias);
    if (!p || layer < 0 || layer >= c->layers)
        return es_fail_file(err, ES_E_UNSUPPORTED, g->path, (int64_t)t->offset, "gguf.tensor",
                            "it may change the result",
                            "tensor '%.100s' is not part of a %s of %lld layers", t->name,
                            c->model_type, (long long)c->layers);
    ES_TRY(check_tensor(g, c, t, p, bias, err));
    write_name(p->known_as, layer, bias ? ".bias" : ".weight", room);
    t->name = room;
    return ES_OK;
}

/* Notes of each tensor whose rows turn, and lie as pairs, how many heads they are of. */
static es_status note_heads(es_gguf *g, const es_gguf_arch *arch, const es_model_config *c,
                            es_error *err)
{
    const es_gguf_header *h = &g->header;
    ES_TRY(ES_MEM_NEW(g->budget, g->heads, h->count, "a list of heads", err));
    for (int64_t i = 0; i < h->count && arch->pairs; i++) {
        int64_t layer;
        bool bias;
        const es_gguf_tensor *p = find_part(arch, h->tensors[i].name, true, &layer, &bias);
        g->heads[i] = p && p->heads ? es_config_size(c, p->heads) : 0;
    }
    return ES_OK;
}

es_status es_gguf_adopt(es_gguf *g, const es_model_config *config, es_error *err)
{
    es_gguf_header *h = &g->header;
    const es_gguf_arch *arch;
    char *names;
    ES_TRY(find_arch(g, &arch, err));
    for (int64_t layer = 0; layer < config->layers; layer++)
        ES_TRY(check_layer(g, arch, layer, err));
    ES_TRY(ES_MEM_NEW_2D(g->budget, names, h->count, NAME_MOST, "names of tensors", err));
    es_status status = ES_OK;
    int64_t count = 0;
    for (int64_t i = 0; i < h->count && status == ES_OK; i++) {
        es_st_tensor t = h->tensors[i];
        if (strcmp(t.name, rates_name) == 0)
            continue; /* it is part of the configuration */
        status = rename_tensor(g, arch, config, &t, names + count * NAME_MOST, err);
        h->tensors[count++] = t;
    }
    es_mem_free(g->budget, h->names);
    h->names = names;
    h->count = status == ES_OK ? count : 0; /* half of them have other names: none is fit for use */
    ES_TRY(status);
    qsort(h->tensors, (size_t)h->count, sizeof *h->tensors, es_st_by_name);
    return note_heads(g, arch, config, err);
}
