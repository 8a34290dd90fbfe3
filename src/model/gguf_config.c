/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_config.c : what config.json would say, from the values of a GGUF. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/gguf_model.h"
#include "model/gguf_reading.h"

/* ---- numbers ---- */

const char *es_gguf_key_of(const es_gguf_reading *r, const char *rest, char out[ES_GGUF_KEY])
{
    snprintf(out, ES_GGUF_KEY, "%s.%s", r->arch->name, rest);
    return out;
}

es_status es_gguf_take_whole(const es_gguf_reading *r, const char *rest, es_gguf_range range,
                             int64_t *out)
{
    char key[ES_GGUF_KEY];
    return es_gguf_whole(&r->g->header, es_gguf_key_of(r, rest, key), range, out, r->err);
}

/* A file that says 1e-5 in f32 was made from one that
 * says 1e-5, and the two should not differ in the tenth digit. Powers
 * of ten up to 1e22 are f64. */
double es_gguf_shortest(double value)
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

es_status es_gguf_take_real(const es_gguf_reading *r, const char *rest, es_gguf_range range,
                            double *out)
{
    char key[ES_GGUF_KEY];
    const es_gguf_header *h = &r->g->header;
    ES_TRY(es_gguf_real(h, es_gguf_key_of(r, rest, key), range, out, r->err));
    const es_gguf_value *v = es_gguf_find(h, key);
    if (v && v->type == ES_GGUF_F32)
        *out = es_gguf_shortest(*out);
    return ES_OK;
}

es_status es_gguf_refuse(const es_gguf_reading *r, const char *key, const char *hint)
{
    return es_fail_file(r->err, ES_E_UNSUPPORTED, r->g->path, -1, "gguf.function", hint,
                        "'%.100s' requires a feature that is not supported", key);
}

/* Finds the list of a key that may have one item for each layer instead of a single value; *out is
 * NULL if it is a single value or missing. */
static es_status find_list(const es_gguf_reading *r, const char *key, es_gguf_value_type item,
                           es_gguf_value_type other, const es_gguf_value **out)
{
    const es_gguf_header *h = &r->g->header;
    const es_gguf_value *v = es_gguf_find(h, key);
    *out = NULL;
    if (!v || v->type != ES_GGUF_ARRAY)
        return ES_OK;
    ES_TRY(es_gguf_array(h, key, true, item, other, out, r->err));
    if (v->count == r->config->layers)
        return ES_OK;
    return es_fail_file(r->err, ES_E_FORMAT, r->g->path, (int64_t)v->at, "gguf.value",
                        ES_GGUF_CONVERT, "'%s' has %lld numbers for %lld layers", key,
                        (long long)v->count, (long long)r->config->layers);
}

/* Reads a number for all layers, or a list of one for each layer, which must all be the same. */
static es_status take_per_layer(const es_gguf_reading *r, const es_gguf_key *k, int64_t *out)
{
    const es_gguf_header *h = &r->g->header;
    char key[ES_GGUF_KEY];
    const es_gguf_value *v;
    ES_TRY(find_list(r, es_gguf_key_of(r, k->key, key), ES_GGUF_I32, ES_GGUF_U32, &v));
    if (!v)
        return es_gguf_take_whole(r, k->key, (es_gguf_range){k->min, k->max, k->required}, out);
    const double first = es_gguf_number(h, v, 0);
    for (int64_t i = 1; i < v->count; i++)
        if (es_gguf_number(h, v, i) != first)
            return es_gguf_refuse(r, key,
                                  "only models with the same number in all layers are supported");
    if (!(first >= k->min && first <= k->max))
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, (int64_t)v->at, "gguf.value",
                            ES_GGUF_CONVERT, "'%s' is not a whole number from %g to %g", key,
                            k->min, k->max);
    *out = (int64_t)first;
    return ES_OK;
}

/* Reads which layers have the window: a list of flags, or the period of layers that have none. */
static es_status take_windows(const es_gguf_reading *r, const char *rest)
{
    es_layers_stated *s = &r->draft->layers;
    char key[ES_GGUF_KEY];
    const es_gguf_value *v;
    ES_TRY(find_list(r, es_gguf_key_of(r, rest, key), ES_GGUF_BOOL, ES_GGUF_U32, &v));
    if (!v)
        return es_gguf_take_whole(r, rest, (es_gguf_range){1, 1 << 20, false}, &s->period);
    s->types = v->count;
    for (int64_t l = 0; l < v->count; l++)
        s->sliding[l] = s->window > 0 && es_gguf_number(&r->g->header, v, l) != 0.0;
    return ES_OK;
}

/* ---- what would change the function ---- */

/* Fails for a key of the architecture that is not known: it may change what the model computes.
 * Some known keys are supported only with the value 0. */
static es_status check_known(const es_gguf_reading *r, const es_gguf_value *v)
{
    const size_t prefix = strlen(r->arch->name) + 1;
    char key[ES_GGUF_KEY];
    snprintf(key, sizeof key, "%.*s",
             v->key.size < ES_GGUF_KEY ? (int)v->key.size : ES_GGUF_KEY - 1, v->key.at);
    for (int i = 0; i < ES_GGUF_LISTS && r->arch->keys[i]; i++)
        for (const es_gguf_key *k = r->arch->keys[i]; k->key; k++) {
            int64_t value = 0;
            if (strcmp(key + prefix, k->key) != 0)
                continue;
            if (k->use == ES_GGUF_USE_ZERO)
                ES_TRY(es_gguf_whole(&r->g->header, key, (es_gguf_range){0, 1e9, true}, &value,
                                     r->err));
            return value ? es_gguf_refuse(r, key, "only 0 is supported") : ES_OK;
        }
    return es_gguf_refuse(r, key, "this key is not known and may change the result");
}

/* Every value of the architecture is one that we know. Of the rest some say that this is no whole
 * model. */
static es_status check_values(const es_gguf_reading *r)
{
    const es_gguf_header *h = &r->g->header;
    const char *arch = r->arch->name;
    const size_t prefix = strlen(arch);
    bool causal = !r->arch->encoder;
    char key[ES_GGUF_KEY];
    es_gguf_text type = {"model", 5}, layout = {0};
    for (int64_t i = 0; i < h->values_count; i++) {
        const es_gguf_text k = h->values[i].key;
        if (k.size > prefix + 1 && memcmp(k.at, arch, prefix) == 0 && k.at[prefix] == '.')
            ES_TRY(check_known(r, &h->values[i]));
    }
    ES_TRY(es_gguf_string(h, "general.type", false, &type, r->err));
    if (!es_gguf_text_is(type, "model"))
        return es_gguf_refuse(r, "general.type", "only a whole model is supported");
    ES_TRY(es_gguf_string(h, es_gguf_key_of(r, "tensor_data_layout", key), false, &layout, r->err));
    if (layout.size && !es_gguf_text_is(layout, "Meta AI original pth"))
        return es_gguf_refuse(r, key, "only the layout that llama.cpp writes is supported");
    ES_TRY(es_gguf_flag(h, es_gguf_key_of(r, "attention.causal", key), &causal, r->err));
    return causal != r->arch->encoder ? ES_OK
                                      : es_gguf_refuse(r, key,
                                                       causal ? "only encoders are supported"
                                                              : "only causal models are supported");
}

/* Names all unsupported types at once, so that the user learns what the file contains. */
static es_status check_types(const es_gguf_reading *r)
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

/* ---- heads ---- */

static es_status uneven(const es_gguf_reading *r, const char *of, int64_t a, const char *by,
                        int64_t b)
{
    return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.heads", ES_GGUF_CONVERT,
                        "'%s.%s' %lld is not a multiple of '%s.%s' %lld", r->arch->name, of,
                        (long long)a, r->arch->name, by, (long long)b);
}

/* Sets which channels of a head turn. Fails if the architecture turns all of them, and the file
 * says otherwise. */
static es_status take_turning(const es_gguf_reading *r)
{
    es_model_config *c = r->config;
    int64_t turning = c->head_dim;
    char key[ES_GGUF_KEY];
    if (!(c->rotary.theta > 0.0))
        return ES_OK;
    const es_gguf_range range = {1, 4096, r->arch->partial};
    ES_TRY(es_gguf_take_whole(r, "rope.dimension_count", range, &turning));
    if (turning > c->head_dim || (turning != c->head_dim && !r->arch->partial))
        return es_gguf_refuse(r, es_gguf_key_of(r, "rope.dimension_count", key),
                              "rotary positions must cover the whole head");
    c->rotary.share = (double)turning / (double)c->head_dim;
    while ((int64_t)((double)c->head_dim * c->rotary.share) < turning) /* it is rounded down */
        c->rotary.share = nextafter(c->rotary.share, 2.0);
    if (turning % 2)
        return es_fail_file(
            r->err, ES_E_FORMAT, r->g->path, -1, "gguf.heads", ES_GGUF_CONVERT,
            "heads of %lld channels cannot have rotary positions: the number must be even",
            (long long)turning);
    return ES_OK;
}

/* Completes the numbers and widths of heads. Fails for models whose values have another width than
 * keys. */
static es_status take_heads(const es_gguf_reading *r)
{
    es_model_config *c = r->config;
    char key[ES_GGUF_KEY];
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (c->heads % c->kv_heads)
        return uneven(r, "attention.head_count", c->heads, "attention.head_count_kv", c->kv_heads);
    if (!c->head_dim && c->hidden % c->heads)
        return uneven(r, "embedding_length", c->hidden, "attention.head_count", c->heads);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    int64_t value_width = c->head_dim;
    ES_TRY(es_gguf_take_whole(r, "attention.value_length", (es_gguf_range){1, 4096, false},
                              &value_width));
    if (value_width != c->head_dim)
        return es_gguf_refuse(r, es_gguf_key_of(r, "attention.value_length", key),
                              "keys and values must have the same width");
    return take_turning(r);
}

/* ---- all of it ---- */

/* Reads the value of a key into its member of the draft. */
static es_status take_key(const es_gguf_reading *r, const es_gguf_key *k)
{
    const es_gguf_range range = {k->min, k->max, k->required};
    void *at = (char *)r->draft + k->at;
    char key[ES_GGUF_KEY];
    switch (k->use) {
    case ES_GGUF_USE_WHOLE:
        return es_gguf_take_whole(r, k->key, range, at);
    case ES_GGUF_USE_PER_LAYER:
        return take_per_layer(r, k, at);
    case ES_GGUF_USE_REAL:
        return es_gguf_take_real(r, k->key, range, at);
    case ES_GGUF_USE_FLAG:
        return es_gguf_flag(&r->g->header, es_gguf_key_of(r, k->key, key), at, r->err);
    case ES_GGUF_USE_WINDOWS:
        return take_windows(r, k->key);
    default:
        return ES_OK;
    }
}

/* Sets what the presence of tensors says: the size of the vocabulary, which no key states, a head
 * that is tied to the embeddings, biases, norms of heads, layers without experts. */
static es_status take_tensors(const es_gguf_reading *r)
{
    es_model_config *c = r->config;
    const es_st_tensor *words = es_gguf_find_tensor(r->g, "token_embd.weight");
    if (!words || words->rank != 2 || words->shape[0] > 1 << 24)
        return es_fail_file(r->err, ES_E_FORMAT, r->g->path, -1, "gguf.tensor", ES_GGUF_CONVERT,
                            "missing matrix 'token_embd.weight' of up to %d rows", 1 << 24);
    c->vocab = words->shape[0];
    if (!r->arch->encoder)
        c->tied = !es_gguf_find_tensor(r->g, "output.weight");
    if (r->arch->biases == ES_GGUF_BIASES_MAYBE)
        c->attention_bias = es_gguf_find_tensor(r->g, "blk.0.attn_q.bias") != NULL;
    c->mlp_bias = c->mlp_bias || es_gguf_find_tensor(r->g, "blk.0.ffn_up.bias");
    c->head_norms = c->head_norms || es_gguf_find_tensor(r->g, "blk.0.attn_q_norm.weight");
    for (int64_t l = 0; l < c->layers && r->arch->mixed; l++) {
        char name[ES_GGUF_KEY];
        snprintf(name, sizeof name, "blk.%lld.ffn_gate_inp.weight", (long long)l);
        r->draft->layers.dense[l] = !es_gguf_find_tensor(r->g, name);
    }
    return ES_OK;
}

/* Reads the sizes of the model. The number of layers comes first, because other values may be
 * lists of one for each layer. Without a key of their own, heads share the width evenly, also where
 * config.json has another rule, and no layer has a window. */
static es_status take_sizes(const es_gguf_reading *r)
{
    es_model_config *c = r->config;
    c->head_dim = c->kv_heads = 0;
    c->shares_sum = c->shares_sum || r->arch->sums;
    r->draft->layers.window = 0;
    r->draft->layers.rotary_stated = true;
    ES_TRY(es_gguf_take_whole(r, "block_count", (es_gguf_range){1, ES_MODEL_LAYERS, true},
                              &c->layers));
    for (int i = 0; i < ES_GGUF_LISTS && r->arch->keys[i]; i++)
        for (const es_gguf_key *k = r->arch->keys[i]; k->key; k++)
            ES_TRY(take_key(r, k));
    ES_TRY(take_heads(r));
    return take_tensors(r);
}

es_status es_gguf_config(const es_gguf *g, es_model_config *out, es_error *err)
{
    es_config_draft draft;
    es_gguf_reading r = {.g = g, .draft = &draft, .config = &draft.config, .err = err};
    *out = (es_model_config){0};
    ES_TRY(es_gguf_arch_find(g, &r.arch, err));
    const es_arch *arch = es_arch_find(r.arch->model_type, "");
    es_config_begin(arch, &draft);
    ES_TRY(check_values(&r));
    ES_TRY(check_types(&r));
    ES_TRY(take_sizes(&r));
    if (draft.config.rotary.theta > 0.0)
        ES_TRY(es_gguf_take_rotary(&r));
    if (r.arch->derive)
        r.arch->derive(&draft);
    snprintf(draft.config.model_type, sizeof draft.config.model_type, "%s", arch->model_type);
    snprintf(draft.config.architecture, sizeof draft.config.architecture, "GGUF");
    ES_TRY(es_config_complete(arch, g->path, &draft, err));
    *out = draft.config;
    return ES_OK;
}
