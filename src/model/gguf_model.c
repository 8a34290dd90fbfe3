/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.c : a GGUF as the checkpoint that it was made from: its configuration, and its tensors
 * under the names, and with the rows, that a Hugging Face checkpoint has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/arch.h"
#include "model/gguf_model.h"
#include "checkpoint/safetensors_inside.h"

enum { NAME_MOST = 96, RATES_MOST = 2048 };

static const char converted[] = "convert the model anew, or use the checkpoint it was made from";

/* ---- names ---- */

typedef enum presence { ALWAYS, BIASED, IF_UNTIED } presence; /* BIASED: with a bias in qwen2 */

/* What a tensor is called here and there, '*' being the number of a layer, and its shape. */
typedef struct part {
    const char *name, *known_as;
    size_t rows, cols; /* members of the configuration; cols may be VECTOR */
    presence presence;
    bool turns; /* rows of a head are rotary pairs, side by side in files of "llama" */
} part;

#define HERE(member) ES_CONFIG(member)
#define VECTOR       SIZE_MAX

static const part parts[] = {
    {"token_embd", "model.embed_tokens", HERE(vocab), HERE(hidden), ALWAYS, false},
    {"output_norm", "model.norm", HERE(hidden), VECTOR, ALWAYS, false},
    {"output", "lm_head", HERE(vocab), HERE(hidden), IF_UNTIED, false},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", HERE(hidden), VECTOR, ALWAYS, false},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", HERE(query_width), HERE(hidden), BIASED,
     true},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", HERE(kv_width), HERE(hidden), BIASED, true},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", HERE(kv_width), HERE(hidden), BIASED,
     false},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", HERE(hidden), HERE(query_width),
     ALWAYS, false},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", HERE(hidden), VECTOR, ALWAYS,
     false},
    {"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj", HERE(intermediate), HERE(hidden), ALWAYS,
     false},
    {"blk.*.ffn_up", "model.layers.*.mlp.up_proj", HERE(intermediate), HERE(hidden), ALWAYS, false},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", HERE(hidden), HERE(intermediate), ALWAYS,
     false},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static const char rates_name[] = "rope_freqs.weight";

/* "blk.3.attn_q" and ".weight", for "blk.*.attn_q" and layer 3. */
static void write_name(const char *pattern, int64_t layer, const char *end, char out[NAME_MOST])
{
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(out, NAME_MOST, "%.*s%lld%s%s", (int)(star - pattern), pattern, (long long)layer,
                 star + 1, end);
    else
        snprintf(out, NAME_MOST, "%s%s", pattern, end);
}

/* What a name is, by writing what it should be then: other spellings of a number do not pass. */
static const part *find_part(const char *name, int64_t *layer, bool *bias)
{
    char wanted[NAME_MOST];
    const char *dot = strrchr(name, '.');
    *layer = strncmp(name, "blk.", 4) == 0 ? strtoll(name + 4, NULL, 10) : 0;
    *bias = dot && strcmp(dot, ".bias") == 0;
    for (int i = 0; i < PARTS; i++) {
        write_name(parts[i].name, *layer, *bias ? ".bias" : ".weight", wanted);
        if (strcmp(wanted, name) == 0)
            return &parts[i];
    }
    return NULL;
}

static int name_against(const void *name, const void *tensor)
{
    return strcmp(name, ((const es_st_tensor *)tensor)->name);
}

static const es_st_tensor *find_tensor(const es_gguf *g, const char *name)
{
    return bsearch(name, g->header.tensors, (size_t)g->header.count, sizeof *g->header.tensors,
                   name_against);
}

/* ---- values of an architecture ---- */

typedef struct reading {
    const es_gguf *g;
    const char *arch;
    es_model_config *config;
    es_error *err;
} reading;

static const char *key_of(const reading *r, const char *rest, char out[NAME_MOST])
{
    snprintf(out, NAME_MOST, "%s.%s", r->arch, rest);
    return out;
}

static es_status take_whole(const reading *r, const char *rest, double most, bool required,
                            int64_t *out)
{
    char key[NAME_MOST];
    return es_gguf_whole(&r->g->header, key_of(r, rest, key), (es_gguf_range){1, most, required},
                         out, r->err);
}

/* The shortest decimal number that is this f32: a file that says 1e-5 in f32 was made from one that
 * says 1e-5, and the two should not differ in the tenth digit. Powers of ten up to 1e22 are f64. */
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

static es_status refuse_key(const reading *r, const char *key, const char *hint)
{
    return es_fail_file(r->err, ES_E_UNSUPPORTED, r->g->path, -1, "gguf.function", hint,
                        "'%.100s' requires a feature that is not supported", key);
}

/* A number for all layers, or a list of one for each layer, which must all be the same. */
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

/* Values that may be there; `only` those that may have but one: 0, or for a flag as stated. */
static const struct {
    const char *rest;
    bool only;
} known[] = {
    {"vocab_size", false},
    {"context_length", false},
    {"embedding_length", false},
    {"block_count", false},
    {"feed_forward_length", false},
    {"attention.head_count", false},
    {"attention.head_count_kv", false},
    {"attention.key_length", false},
    {"attention.value_length", false},
    {"attention.layer_norm_rms_epsilon", false},
    {"attention.causal", false},
    {"rope.dimension_count", false},
    {"rope.freq_base", false},
    {"rope.scale_linear", false},
    {"rope.scaling.type", false},
    {"rope.scaling.factor", false},
    {"rope.scaling.original_context_length", false},
    {"rope.scaling.finetuned", false},
    {"rope.scaling.attn_factor", false},
    {"rope.scaling.yarn_attn_factor", false},
    {"rope.scaling.yarn_ext_factor", false},
    {"rope.scaling.yarn_beta_fast", false},
    {"rope.scaling.yarn_beta_slow", false},
    {"rope.scaling.yarn_log_multiplier", false},
    {"tensor_data_layout", false},
    {"expert_count", true},
    {"expert_used_count", true},
    {"attention.sliding_window", true},
    {"pooling_type", true},
};

/* Fails for a key of the architecture that is not known: it may change what the model computes.
 * Some known keys are supported only with the value 0. */
static es_status check_known(const reading *r, const es_gguf_value *v)
{
    const size_t prefix = strlen(r->arch) + 1;
    char key[NAME_MOST];
    snprintf(key, sizeof key, "%.*s", v->key.size < NAME_MOST ? (int)v->key.size : NAME_MOST - 1,
             v->key.at);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        int64_t value = 0;
        if (strcmp(key + prefix, known[i].rest) != 0)
            continue;
        if (known[i].only)
            ES_TRY(
                es_gguf_whole(&r->g->header, key, (es_gguf_range){0, 1e9, true}, &value, r->err));
        return value ? refuse_key(r, key, "only 0 is supported") : ES_OK;
    }
    return refuse_key(r, key, "this key is not known and may change the result");
}

/* Every value of the architecture is one that we know. Of the rest some say that this is no whole
 * model. */
static es_status check_values(const reading *r)
{
    const es_gguf_header *h = &r->g->header;
    const size_t prefix = strlen(r->arch);
    bool causal = true;
    char key[NAME_MOST];
    es_gguf_text type = {"model", 5}, layout = {0};
    for (int64_t i = 0; i < h->values_count; i++) {
        const es_gguf_text k = h->values[i].key;
        if (k.size > prefix + 1 && memcmp(k.at, r->arch, prefix) == 0 && k.at[prefix] == '.')
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

/* A number that may have one value, or another: any else is refused by name. */
static es_status check_only(const reading *r, const char *rest, double only, double other)
{
    char key[NAME_MOST], hint[64];
    double value = only;
    ES_TRY(take_real(r, rest, -1e6, 1e6, false, &value));
    snprintf(hint, sizeof hint, only == other ? "only %g is supported" : "only %g and %g are", only,
             other);
    return value == only || value == other ? ES_OK : refuse_key(r, key_of(r, rest, key), hint);
}

/* What YaRN has beside its factor. A sharpness is 1 times what the factor makes it; -1 leaves the
 * mixture of frequencies to the type, which it is 1 for YaRN and 0 else. */
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

static es_status uneven(const reading *r, const char *of, int64_t a, const char *by, int64_t b)
{
    return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.heads", converted,
                        "'%s.%s' %lld is not a multiple of '%s.%s' %lld", r->arch, of, (long long)a,
                        r->arch, by, (long long)b);
}

/* Reads the numbers and widths of heads. Fails for models whose values have another width than
 * keys, or that turn only a part of each head. */
static es_status take_heads(const reading *r)
{
    es_model_config *c = r->config;
    int64_t value_width, turning;
    ES_TRY(take_per_layer(r, "attention.head_count", 65536, true, &c->heads));
    c->kv_heads = c->heads;
    ES_TRY(take_per_layer(r, "attention.head_count_kv", 65536, false, &c->kv_heads));
    if (c->heads % c->kv_heads)
        return uneven(r, "attention.head_count", c->heads, "attention.head_count_kv", c->kv_heads);
    ES_TRY(take_whole(r, "attention.key_length", 4096, false, &c->head_dim));
    if (!c->head_dim && c->hidden % c->heads)
        return uneven(r, "embedding_length", c->hidden, "attention.head_count", c->heads);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    value_width = turning = c->head_dim;
    ES_TRY(take_whole(r, "attention.value_length", 4096, false, &value_width));
    ES_TRY(take_whole(r, "rope.dimension_count", 4096, false, &turning));
    char key[NAME_MOST];
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

/* Reads the sizes of the model. The vocabulary is not stated; it is the number of rows of the
 * embedding. */
static es_status take_sizes(const reading *r)
{
    es_model_config *c = r->config;
    const es_st_tensor *words = find_tensor(r->g, "token_embd.weight");
    ES_TRY(take_whole(r, "embedding_length", 65536, true, &c->hidden));
    ES_TRY(take_whole(r, "block_count", 4096, true, &c->layers));
    ES_TRY(take_per_layer(r, "feed_forward_length", 1 << 20, true, &c->intermediate));
    ES_TRY(take_whole(r, "context_length", 1 << 24, true, &c->positions));
    ES_TRY(take_real(r, "attention.layer_norm_rms_epsilon", 1e-20, 1e-2, true, &c->layer_norm_eps));
    ES_TRY(take_real(r, "rope.freq_base", 1.0001, 1e15, false, &c->rotary.theta));
    ES_TRY(take_heads(r));
    if (!words || words->rank != 2 || words->shape[0] > 1 << 24)
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.tensor", converted,
                            "missing matrix 'token_embd.weight' of up to %d rows", 1 << 24);
    c->vocab = words->shape[0];
    c->tied = !find_tensor(r->g, "output.weight");
    if (strcmp(r->arch, "llama") == 0) /* qwen2 has them always */
        c->attention_bias = find_tensor(r->g, "blk.0.attn_q.bias") != NULL;
    c->mlp_bias = find_tensor(r->g, "blk.0.ffn_up.bias") != NULL;
    return ES_OK;
}

static const char *const architectures[] = {"llama", "qwen2"};

/* Finds the architecture by its name. */
static es_status find_arch(const es_gguf *g, const char **out, es_error *err)
{
    es_gguf_text name;
    ES_TRY(es_gguf_string(&g->header, "general.architecture", true, &name, err));
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (es_gguf_text_is(name, architectures[i])) {
            *out = architectures[i];
            return ES_OK;
        }
    return es_fail_file(err, ES_E_UNSUPPORTED, g->path, -1, "gguf.architecture",
                        "supported in GGUF: llama and qwen2; in safetensors there are more",
                        "general.architecture is '%.*s'", name.size < 64 ? (int)name.size : 64,
                        name.at);
}

es_status es_gguf_config(const es_gguf *g, es_model_config *out, es_error *err)
{
    reading r = {.g = g, .config = out, .err = err};
    *out = (es_model_config){0};
    ES_TRY(find_arch(g, &r.arch, err));
    const es_arch *arch = es_arch_find(r.arch, "");
    *out = arch->defaults;
    ES_TRY(check_values(&r));
    ES_TRY(check_types(&r));
    ES_TRY(take_sizes(&r));
    ES_TRY(take_scaling(&r));
    ES_TRY(take_rates(&r));
    snprintf(out->model_type, sizeof out->model_type, "%s", arch->model_type);
    snprintf(out->architecture, sizeof out->architecture, "GGUF");
    return es_config_complete(arch, g->path, out, err);
}

/* ---- the tensors ---- */

/* Fails unless a tensor has the shape that the configuration requires. */
static es_status check_tensor(const es_gguf *g, const es_model_config *c, const es_st_tensor *t,
                              const part *p, bool bias, es_error *err)
{
    const bool vector = bias || p->cols == VECTOR;
    const int64_t rows = es_config_size(c, p->rows), cols = vector ? 1 : es_config_size(c, p->cols);
    if (t->rank == (vector ? 1 : 2) && t->shape[0] == rows && t->shape[1] == cols)
        return ES_OK;
    return es_fail_file(
        err, ES_E_FORMAT, g->path, (int64_t)t->offset, "gguf.tensor", converted,
        "tensor '%.100s' has %lld x %lld numbers in %d dimensions, the header requires %lld x %lld",
        t->name, (long long)t->shape[0], (long long)t->shape[1], t->rank, (long long)rows,
        (long long)cols);
}

static es_status check_there(const es_gguf *g, const char *pattern, int64_t layer, const char *end,
                             es_error *err)
{
    char name[NAME_MOST];
    write_name(pattern, layer, end, name);
    return find_tensor(g, name) ? ES_OK
                                : es_fail_file(err, ES_E_FORMAT, g->path, -1, "gguf.tensor",
                                               converted, "missing tensor '%s'", name);
}

/* Fails if a weight of any layer is missing, or a bias of an architecture that has biases. */
static es_status check_all_there(const es_gguf *g, const es_model_config *c, es_error *err)
{
    const bool biased = strcmp(c->model_type, "qwen2") == 0;
    for (int64_t layer = 0; layer < c->layers; layer++)
        for (int i = 0; i < PARTS; i++) {
            if (parts[i].presence != IF_UNTIED)
                ES_TRY(check_there(g, parts[i].name, layer, ".weight", err));
            if (parts[i].presence == BIASED && biased)
                ES_TRY(check_there(g, parts[i].name, layer, ".bias", err));
        }
    return ES_OK;
}

/* One tensor under its other name, which goes to `room`. */
static es_status rename_tensor(const es_gguf *g, const es_model_config *c, es_st_tensor *t,
                               char room[NAME_MOST], es_error *err)
{
    int64_t layer;
    bool bias;
    const part *p = find_part(t->name, &layer, &bias);
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

/* The heads that a tensor's rows are of, if they turn and lie as pairs. */
static int64_t heads_of(const es_model_config *c, const es_st_tensor *t)
{
    if (strcmp(c->model_type, "llama") != 0)
        return 0;
    return strstr(t->name, ".q_proj.") ? c->heads : strstr(t->name, ".k_proj.") ? c->kv_heads : 0;
}

es_status es_gguf_adopt(es_gguf *g, const es_model_config *config, es_error *err)
{
    es_gguf_header *h = &g->header;
    char *names;
    ES_TRY(check_all_there(g, config, err));
    ES_TRY(ES_MEM_NEW_2D(g->budget, names, h->count, NAME_MOST, "names of tensors", err));
    es_status status = ES_OK;
    int64_t count = 0;
    for (int64_t i = 0; i < h->count && status == ES_OK; i++) {
        es_st_tensor t = h->tensors[i];
        if (strcmp(t.name, rates_name) == 0)
            continue; /* it is part of the configuration */
        status = rename_tensor(g, config, &t, names + count * NAME_MOST, err);
        h->tensors[count++] = t;
    }
    es_mem_free(g->budget, h->names);
    h->names = names;
    h->count = status == ES_OK ? count : 0; /* half of them have other names: none is fit for use */
    ES_TRY(status);
    qsort(h->tensors, (size_t)h->count, sizeof *h->tensors, es_st_by_name);
    ES_TRY(ES_MEM_NEW(g->budget, g->heads, h->count, "a list of heads", err));
    for (int64_t i = 0; i < h->count; i++)
        g->heads[i] = heads_of(config, &h->tensors[i]);
    return ES_OK;
}
