/* SPDX-License-Identifier: Apache-2.0 */
/* weights_names.c : what the names of a checkpoint's tensors say about the model: the prefix of its
 * body, its layers, the form of its experts, and whether it has a pooler, a classifier or a
 * language head. No weight is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "model/weights_inside.h"

/* A look at all names. */
typedef struct survey {
    es_model *model;
    es_weight_source *from;
    bool kv_scales; /* there are scales for a cache in FP8 */
    es_error *err;
} survey;

static bool starts_with(const char *text, const char *beginning, size_t length)
{
    return strncmp(text, beginning, length) == 0;
}

/* Returns whether the name begins with the first word of a part's name, like a tensor of the body.
 * *layer is the number of its layer, -1 if it belongs to none. */
static bool in_body(const es_arch *arch, const char *name, int64_t *layer)
{
    bool any = false;
    *layer = -1;
    for (const es_arch_part *p = arch->parts; p->name; p++) {
        const char *star = strchr(p->name, '*');
        if (p->role != ES_ROLE_BODY || !starts_with(name, p->name, strcspn(p->name, ".") + 1))
            continue;
        any = true;
        if (star && starts_with(name, p->name, (size_t)(star - p->name)))
            *layer = strtoll(name + (star - p->name), NULL, 10);
    }
    return any;
}

/* Returns whether `name` ends with one of a NULL-terminated list of endings. */
static bool ends_with_any(const char *name, const char *const *endings)
{
    const size_t length = strlen(name);
    for (; *endings; endings++) {
        const size_t size = strlen(*endings);
        if (length >= size && strcmp(name + length - size, *endings) == 0)
            return true;
    }
    return false;
}

/* Tensors of a decoder's layer that are not used: buffers in old checkpoints. */
static bool is_buffer(const char *name)
{
    static const char *const endings[] = {
        ".inv_freq", "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias",
        NULL};
    return ends_with_any(name, endings);
}

/* Scales by which a server may keep keys and values in FP8; weights and function are as without. */
static bool is_kv_scale(const char *name)
{
    static const char *const endings[] = {".k_scale", ".v_scale", NULL};
    return ends_with_any(name, endings);
}

/* Returns whether `rest`, which follows the number of a layer, is this name of a tensor of the
 * part.
 */
static bool is_named(const es_arch_part *part, const char *name, const char *rest)
{
    static const char *const usual[] = {".weight", ".bias", ".gamma", ".beta"};
    static const char *const plain[] = {"", "_bias", "_blocks", "_scales"};
    const char *const *endings = es_part_has_plain_name(part) ? plain : usual;
    const char *star = name ? strchr(name, '*') : NULL, *own = star ? star + 1 : "";
    const size_t size = strcspn(own, "*"); /* up to the number of a head or expert */
    if (!star || !starts_with(rest, own, size))
        return false;
    const char *end = rest + size;
    if (own[size]) {
        end += strspn(end, "0123456789");
        own += size + 1;
        if (!starts_with(end, own, strlen(own)))
            return false;
        end += strlen(own);
    }
    for (int i = 0; i < 4; i++)
        if (strcmp(end, endings[i]) == 0)
            return true;
    return false;
}

/* Returns whether `rest`, which follows the number of a layer, is a weight or bias of the model. */
static bool is_part(const es_model *m, const char *rest)
{
    for (const es_arch_part *p = m->arch->parts; p->name; p++)
        if (es_part_exists(&m->config, p) &&
            (is_named(p, p->name, rest) || is_named(p, p->instead, rest)))
            return true;
    return false;
}

/* A tensor of a decoder's layer that its description does not have (norms of queries in a Llama,
 * adapters, cross-attention) changes what is computed, whatever config.json says. */
static es_status check_known(survey *s, const char *name)
{
    const es_arch *arch = s->model->arch;
    const es_arch_part *p = arch->parts;
    while (p->name && !es_part_in_layer(p))
        p++;
    const size_t before = strcspn(p->name, "*");
    if (!arch->defaults.causal || !starts_with(name, p->name, before) || is_buffer(name))
        return ES_OK;
    const char *number = name + before, *rest = number + strspn(number, "0123456789");
    if (rest == number || strtoll(number, NULL, 10) >= s->model->config.layers ||
        is_part(s->model, rest))
        return ES_OK;
    if (is_kv_scale(name)) {
        s->kv_scales = true;
        return ES_OK;
    }
    return es_fail_file(s->err, ES_E_UNSUPPORTED, s->model->folder, -1, "model.unknown",
                        "only checkpoints that match their model_type exactly are supported",
                        "tensor %.100s is not part of a %s", name, arch->title);
}

/* Renamed tensors are the most common mistake when a model is saved by hand; the hint says how they
 * should be called, from the description. */
static es_status no_body(const survey *s)
{
    const es_arch *arch = s->model->arch;
    const es_arch_part *p = arch->parts;
    char hint[sizeof s->err->hint];
    while (p->name && !es_part_in_layer(p))
        p++;
    snprintf(hint, sizeof hint,
             "tensors of a %s are named %.*s0..., or with \"%s\" before it; rename them when you "
             "save the model",
             arch->title, p->name ? (int)strcspn(p->name, "*") : 0, p->name ? p->name : "",
             arch->prefix);
    return es_fail_file(s->err, ES_E_FORMAT, s->model->folder, -1, "model.prefix", hint,
                        "no tensor name matches a %s; of %lld tensors the first is '%.100s'",
                        arch->title, (long long)es_st_count(s->from->st),
                        es_st_count(s->from->st) ? es_st_at(s->from->st, 0)->name : "");
}

/* Names of a body may begin with its prefix or with nothing; the text model of a wrapper has
 * "language_model." before that, or after it. */
enum { PREFIXES = 4 };

static void list_prefixes(const es_arch *arch, char out[PREFIXES][64])
{
    out[0][0] = '\0';
    snprintf(out[1], sizeof out[1], "%s", arch->prefix);
    snprintf(out[2], sizeof out[2], "language_model.%s", arch->prefix);
    snprintf(out[3], sizeof out[3], "%slanguage_model.", arch->prefix);
}

/* Returns which prefix a name of the body has, the longest that fits; -1: it is none of the body.
 * *layer is then its layer, or -1. */
static int prefix_of(const es_arch *arch, char prefixes[PREFIXES][64], const char *name,
                     int64_t *layer)
{
    for (int i = PREFIXES - 1; i >= 0; i--) {
        const size_t length = strlen(prefixes[i]);
        if (starts_with(name, prefixes[i], length) && in_body(arch, name + length, layer))
            return i;
    }
    return -1;
}

/* Sets the prefixes of names that `found` says there are. Fails unless there is one. */
static es_status choose_prefix(survey *s, char prefixes[PREFIXES][64], const bool *found)
{
    int count = 0, which = 0;
    for (int i = 0; i < PREFIXES; i++) {
        count += found[i];
        which = found[i] ? i : which;
    }
    if (!count)
        return no_body(s);
    if (count > 1)
        return es_fail_file(s->err, ES_E_FORMAT, s->model->folder, -1, "model.prefix",
                            "keep one of the two encoders",
                            "tensors are named with and without \"%s\": these are two encoders",
                            prefixes[which]);
    memcpy(s->from->prefix, prefixes[which], sizeof s->from->prefix);
    return ES_OK;
}

/* Sets how the file has its experts: a tensor for each, one for all, or that in blocks. Names of
 * layers begin somehow, and so the end of a name decides. */
static void find_experts(const survey *s)
{
    es_model_config *c = &s->model->config;
    for (const es_arch_part *p = s->model->arch->parts; p->name; p++) {
        char blocks[ES_TENSOR_NAME];
        if (p->kind != ES_PART_FUSED)
            continue;
        const char *const end = strrchr(p->name, '*') + 1;
        const char *const plain[] = {end, p->instead ? strrchr(p->instead, '*') + 1 : NULL, NULL};
        const char *const packed[] = {blocks, NULL};
        snprintf(blocks, sizeof blocks, "%s_blocks", end);
        for (int64_t i = 0; i < es_st_count(s->from->st); i++) {
            const char *name = es_st_at(s->from->st, i)->name;
            c->experts_fused = c->experts_fused || ends_with_any(name, plain);
            c->experts_packed = c->experts_packed || ends_with_any(name, packed);
        }
    }
}

/* The prefix of the body's tensors, and how many layers they have. */
static es_status find_body(survey *s, int64_t *layers)
{
    const es_arch *arch = s->model->arch;
    char prefixes[PREFIXES][64];
    bool found[PREFIXES] = {false};
    list_prefixes(arch, prefixes);
    *layers = 0;
    for (int64_t i = 0; i < es_st_count(s->from->st); i++) {
        const char *name = es_st_at(s->from->st, i)->name;
        int64_t layer;
        const int which = prefix_of(arch, prefixes, name, &layer);
        if (which < 0)
            continue;
        ES_TRY(check_known(s, name + strlen(prefixes[which])));
        found[which] = true;
        *layers = layer >= *layers && layer < 1 << 20 ? layer + 1 : *layers;
    }
    if (s->kv_scales)
        es_log(ES_LOG_WARN,
               "%s: k_scale and v_scale are not used: keys and values are not rounded to FP8 here",
               s->model->folder);
    return choose_prefix(s, prefixes, found);
}

/* The weight decides whether the part exists; its bias is checked with all others. */
static const es_st_tensor *find_role(const survey *s, es_part_role role)
{
    char name[ES_TENSOR_NAME];
    for (const es_arch_part *p = s->model->arch->parts; p->name; p++)
        if (p->role == role)
            return es_weights_find(s->from, (es_tensor_ref){.part = p}, name);
    return NULL;
}

/* Tensors outside of the body of a wrapper's text model may be named as part of it. */
static void find_outside(survey *s)
{
    if (strstr(s->from->prefix, "language_model.") != s->from->prefix ||
        find_role(s, ES_ROLE_PREDICTOR))
        return;
    snprintf(s->from->outside, sizeof s->from->outside, "language_model.");
}

/* Pooler and classifier are there or not; a config's labels count only with a classifier of blocks
 * (one of tokens or of pairs has the same name). */
static void find_heads(survey *s)
{
    es_model *m = s->model;
    es_model_config *c = &m->config;
    const es_st_tensor *classifier = find_role(s, ES_ROLE_CLASSIFIER);
    const char *wanted = m->arch->classifier;
    const bool of_blocks = wanted && strcmp(c->architecture, wanted) == 0;
    s->from->dense = of_blocks && classifier && find_role(s, ES_ROLE_DENSE);
    c->pooler = s->from->dense || find_role(s, ES_ROLE_POOLER);
    if (c->pooler)
        m->pooled = !s->from->dense  ? m->arch->pooled
                    : m->arch->dense ? m->arch->dense
                                     : m->activation;
    c->predicts = c->causal && (c->tied || find_role(s, ES_ROLE_PREDICTOR) != NULL);
    if (!of_blocks || !classifier || !c->pooler)
        c->labels = 0;
    else if (!c->labels) /* config.json leaves out id2label when it is LABEL_0, ... */
        c->labels = classifier->shape[0];
}

/* Fewer layers than stated are an error, more are a remark: a model of the first layers of
 * another is a common way to make a small one. */
static es_status check_layers(const survey *s, int64_t layers)
{
    const int64_t wanted = s->model->config.layers;
    if (layers < wanted)
        return es_fail_file(s->err, ES_E_FORMAT, s->model->folder, -1, "model.layers",
                            "check that config.json belongs to these weights",
                            "config.json says %lld layers, the weights have %lld",
                            (long long)wanted, (long long)layers);
    if (layers > wanted)
        es_log(ES_LOG_WARN,
               "the weights have %lld layers, config.json says %lld: the rest is unused",
               (long long)layers, (long long)wanted);
    return ES_OK;
}

es_status es_weights_survey(es_model *model, es_weight_source *source, es_error *err)
{
    survey s = {.model = model, .from = source, .err = err};
    int64_t layers;
    find_experts(&s);
    ES_TRY(find_body(&s, &layers));
    ES_TRY(check_layers(&s, layers));
    find_outside(&s);
    find_heads(&s);
    return ES_OK;
}
