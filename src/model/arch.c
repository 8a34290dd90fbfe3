/* SPDX-License-Identifier: Apache-2.0 */
/* arch.c : the architectures that are known, their parts, and what follows from what a
 * configuration states. config_json.c reads it. */
#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model_inside.h"

/* ---- the architectures ---- */

/* One line each here, and nothing about any of them anywhere else. */
extern const es_arch es_arch_bert, es_arch_distilbert, es_arch_llama, es_arch_mistral,
    es_arch_qwen2, es_arch_qwen3, es_arch_gpt2, es_arch_gpt_neox, es_arch_smollm3, es_arch_olmo2,
    es_arch_olmo3, es_arch_gemma3, es_arch_gemma2, es_arch_gemma, es_arch_phi3, es_arch_granite,
    es_arch_ministral3, es_arch_starcoder2, es_arch_stablelm, es_arch_cohere2, es_arch_cohere,
    es_arch_exaone4, es_arch_roberta, es_arch_xlm_roberta, es_arch_modernbert, es_arch_big_bird,
    es_arch_nomic_bert, es_arch_mixtral, es_arch_qwen3_moe, es_arch_gpt_oss;
static const es_arch *const known[] = {
    &es_arch_bert,       &es_arch_distilbert, &es_arch_llama,      &es_arch_mistral,
    &es_arch_qwen2,      &es_arch_qwen3,      &es_arch_gpt2,       &es_arch_gpt_neox,
    &es_arch_smollm3,    &es_arch_olmo2,      &es_arch_olmo3,      &es_arch_gemma3,
    &es_arch_gemma2,     &es_arch_gemma,      &es_arch_phi3,       &es_arch_granite,
    &es_arch_ministral3, &es_arch_starcoder2, &es_arch_stablelm,   &es_arch_cohere2,
    &es_arch_cohere,     &es_arch_exaone4,    &es_arch_roberta,    &es_arch_xlm_roberta,
    &es_arch_modernbert, &es_arch_big_bird,   &es_arch_nomic_bert, &es_arch_mixtral,
    &es_arch_qwen3_moe,  &es_arch_gpt_oss};
enum { KNOWN = sizeof known / sizeof known[0] };

/* Old checkpoints state no model_type; the class that wrote them is then all there is. A stated
 * type is not second-guessed: "roberta" with a Bert class computes something else than "bert". */
const es_arch *es_arch_find(const char *model_type, const char *architecture)
{
    for (int i = 0; i < KNOWN; i++) {
        const char *classes = known[i]->classes;
        if (*model_type ? strcmp(model_type, known[i]->model_type) == 0
                        : strncmp(architecture, classes, strlen(classes)) == 0)
            return known[i];
    }
    return NULL;
}

/* Builds the list of supported models from the table, so that it is never out of date, as far as it
 * fits. For any other model the hint says what can still be done with it. */
es_status es_arch_unknown(const char *file, const es_model_config *c, es_error *err)
{
    static const char end[] = "; for others dump q, k, v of a layer as .npy, then: esscher measure "
                              "--q Q.npy --k K.npy --v V.npy";
    enum { REST = 32 }; /* " and 20 more (docs/MODELS.md)" */
    char hint[sizeof err->hint] = "supported model_type:";
    size_t used = strlen(hint);
    int i = 0;
    for (; i < KNOWN && used + strlen(known[i]->model_type) + 2 + REST + sizeof end <= sizeof hint;
         i++)
        used += (size_t)snprintf(hint + used, sizeof hint - used, "%s %s", i ? "," : "",
                                 known[i]->model_type);
    if (i < KNOWN)
        used += (size_t)snprintf(hint + used, sizeof hint - used, " and %d more (docs/MODELS.md)",
                                 KNOWN - i);
    snprintf(hint + used, sizeof hint - used, "%s", end);
    return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.model", hint,
                        "model_type is '%s', architecture '%s': not supported yet", c->model_type,
                        c->architecture);
}

/* ---- their parts ---- */

/* A part is of a layer if its name has the layer's number in it: nothing else has to say so. */
bool es_part_in_layer(const es_arch_part *part) { return strchr(part->name, '*') != NULL; }

bool es_part_exists(const es_model_config *config, const es_arch_part *part)
{
    const char *base = (const char *)config;
    return (!part->when || *(const bool *)(base + part->when)) &&
           !(part->unless && *(const bool *)(base + part->unless));
}

/* Returns whether a layer has the part; layer -1 stands for what is in none. */
static bool layer_has(const es_model_config *config, const es_arch_part *part, int64_t layer)
{
    if (es_part_in_layer(part) != (layer >= 0) || !es_part_exists(config, part) ||
        (layer >= 0 && layer < part->first))
        return false;
    return part->in == ES_LAYERS_ALL ||
           es_model_layer(config, layer)->experts == (part->in == ES_LAYERS_EXPERTS);
}

bool es_part_stack_next(const es_arch *arch, const es_model_config *config, int64_t layer,
                        es_part_stack *stack)
{
    const es_arch_part *p = stack->part ? stack->part + stack->count : arch->parts;
    while (p->name && (p->role != ES_ROLE_BODY || !layer_has(config, p, layer)))
        p++;
    *stack = (es_part_stack){.part = p};
    if (!p->name)
        return false;
    stack->cols = es_part_is_vector(p) ? 1 : es_config_size(config, p->cols);
    for (; p->name && p->at == stack->part->at && layer_has(config, p, layer); p++) {
        stack->rows +=
            es_config_size(config, p->rows) * (es_part_is_expert(p) ? config->experts : 1);
        stack->count++;
    }
    return true;
}

/* Returns the key of config.json that this architecture has for a member. */
static const char *key_of(const es_arch *arch, size_t member)
{
    const es_config_field *f = arch->fields;
    while (f->key && !(f->kind == ES_FIELD_WHOLE && f->at == member))
        f++;
    return f->key ? f->key : "a size";
}

/* Fails because one number of the file is no multiple of another; the message has their keys. */
static es_status uneven(const es_arch *arch, const char *file, const es_model_config *c, size_t of,
                        size_t part, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, file, -1, "config.heads",
                        "check that this config.json came with the weights",
                        "%s %lld is not a multiple of %s %lld", key_of(arch, of),
                        (long long)es_config_size(c, of), key_of(arch, part),
                        (long long)es_config_size(c, part));
}

/* ---- kinds of layers ---- */

const es_layer_kind *es_model_layer(const es_model_config *config, int64_t layer)
{
    return &config->kind[config->layer_kind[layer]];
}

/* Returns whether queries and keys of a layer turn, as far as that does not depend on its window.
 */
static bool turns(const es_layers_stated *s, int64_t layer)
{
    if (s->turns)
        return s->turning[layer];
    return !s->still_period || (layer + 1) % s->still_period != 0;
}

/* Returns whether a layer has the window. */
static bool slides(const es_layers_stated *s, int64_t layer)
{
    if (s->types)
        return s->sliding[layer];
    return s->window > 0 && (s->used || !s->asks) && layer >= s->first &&
           !(s->period && (layer + s->phase) % s->period == 0) &&
           !(s->only_still && turns(s, layer));
}

/* Returns whether what follows attention in a layer are experts. */
static bool has_experts(const es_config_draft *d, int64_t layer)
{
    const int64_t step = d->layers.expert_step;
    return d->config.experts && !d->layers.dense[layer] && (!step || (layer + 1) % step == 0);
}

/* Returns the kind of a layer. A window of a layer that sees what follows, too, is stated with both
 * sides. */
static es_layer_kind kind_of(const es_config_draft *d, int64_t layer)
{
    const es_layers_stated *s = &d->layers;
    const es_model_config *c = &d->config;
    const bool sliding = slides(s, layer), full_turns = !s->still_full || s->window <= 0;
    const bool turning =
        c->rotary.width && turns(s, layer) && (sliding ? !s->still_sliding : full_turns);
    return (es_layer_kind){.window = !sliding    ? 0
                                     : c->causal ? s->window
                                                 : s->window / 2,
                           .experts = has_experts(d, layer),
                           .rotary = !turning                           ? -1
                                     : sliding && c->rotary_local.width ? 1
                                                                        : 0};
}

/* Gives each layer its kind: the number of one that an earlier layer had, or the next one. */
static void number_kinds(es_config_draft *d)
{
    es_model_config *c = &d->config;
    c->kinds = 0;
    for (int64_t l = 0; l < c->layers; l++) {
        const es_layer_kind kind = kind_of(d, l);
        int64_t at = 0;
        while (at < c->kinds &&
               (c->kind[at].window != kind.window || c->kind[at].rotary != kind.rotary ||
                c->kind[at].experts != kind.experts))
            at++;
        c->kind[at] = kind; /* a window or none, turning or not, experts or not: eight at most */
        c->kinds = at == c->kinds ? at + 1 : c->kinds;
        c->layer_kind[l] = (uint8_t)at;
    }
}

/* Fails if lists of layers are too short, or name layers that are not supported. */
static es_status check_lists(const es_config_draft *d, const char *file, es_error *err)
{
    const es_layers_stated *s = &d->layers;
    const int64_t layers = d->config.layers;
    const int64_t least = s->types && (!s->turns || s->types < s->turns) ? s->types : s->turns;
    bool sliding = false;
    for (int64_t l = 0; l < layers && l < s->types; l++)
        sliding = sliding || s->sliding[l];
    if (*s->other || (sliding && (s->window <= 0 || (s->asks && !s->used))))
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.window",
                            "supported are full_attention and, where there is a sliding_window, "
                            "sliding_attention",
                            "layer_types is '%s'", *s->other ? s->other : "sliding_attention");
    if (least && least < layers)
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.layers",
                            "check that this config.json came with the weights",
                            "%s has %lld entries for %lld layers",
                            least == s->types ? "layer_types" : "no_rope_layers", (long long)least,
                            (long long)layers);
    if (!d->config.causal && s->window == 1)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.window",
                            "a window of at least 2 tokens",
                            "a window of 1 leaves a token nothing but itself");
    return ES_OK;
}

/* ---- what follows from what is stated ---- */

/* Completes the rotation of layers with the window. A rotation of their own is not stretched
 * unless the file states it: only their theta is theirs, or that of the other layers. */
static void complete_local(es_config_draft *d)
{
    es_rotary *local = &d->config.rotary_local;
    const es_rotary *r = &d->config.rotary;
    if (!d->layers.local)
        *local = (es_rotary){0};
    else if (!(local->share > 0.0))
        *local = (es_rotary){.theta = local->theta > 0.0 ? local->theta : r->theta,
                             .share = r->share,
                             .pairs = r->pairs};
}

/* Sets factors that no key states, and widths that follow from others. */
static void complete_numbers(const es_arch *arch, es_model_config *c)
{
    double *const factors[] = {&c->embed_factor, &c->branch_factor, &c->logit_factor};
    for (int i = 0; i < 3; i++)
        *factors[i] = *factors[i] != 0.0 ? *factors[i] : 1.0;
    if (!(c->score_divisor > 0.0))
        c->score_divisor = sqrt((double)c->head_dim);
    c->up_width = (arch->gated ? 2 : 1) * c->intermediate;
    if (c->experts && !c->expert_width)
        c->expert_width = c->intermediate;
    c->expert_up = (arch->gated ? 2 : 1) * c->expert_width;
    c->query_width = c->heads * c->head_dim;
    c->kv_width = c->kv_heads * c->head_dim;
    c->qkv_width = c->query_width + 2 * c->kv_width;
}

void es_config_begin(const es_arch *arch, es_config_draft *draft)
{
    *draft = (es_config_draft){.config = arch->defaults, .layers = arch->layers};
}

/* What the file leaves out has the value that it has in the library that wrote it: heads share the
 * hidden width evenly and have keys of their own, and what follows them is four times as wide. */
es_status es_config_complete(const es_arch *arch, const char *file, es_config_draft *draft,
                             es_error *err)
{
    es_model_config *c = &draft->config;
    if (!c->head_dim && c->hidden % c->heads != 0)
        return uneven(arch, file, c, ES_CONFIG(hidden), ES_CONFIG(heads), err);
    if (!c->head_dim)
        c->head_dim = c->hidden / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (c->heads % c->kv_heads != 0)
        return uneven(arch, file, c, ES_CONFIG(heads), ES_CONFIG(kv_heads), err);
    if (!c->intermediate)
        c->intermediate = 4 * c->hidden;
    c->position_rows = c->positions;
    if (arch->derive)
        arch->derive(draft);
    if (c->positions < 1)
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.positions",
                            "check that this config.json came with the weights",
                            "%lld positions, of which tokens use those from %lld on",
                            (long long)c->position_rows, (long long)c->first_position);
    if (c->rotary.query_beta != 0.0 && !arch->query_beta)
        return es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "config.rotary",
                            "only models without it are supported", "llama_4_scaling_beta is %g",
                            c->rotary.query_beta);
    if (c->experts_used > c->experts && c->experts)
        return es_fail_file(err, ES_E_FORMAT, file, -1, "config.experts",
                            "check that this config.json came with the weights",
                            "a token uses %lld experts of %lld", (long long)c->experts_used,
                            (long long)c->experts);
    complete_numbers(arch, c);
    complete_local(draft);
    ES_TRY(check_lists(draft, file, err));
    ES_TRY(es_rotary_complete(c, file, err));
    number_kinds(draft);
    return ES_OK;
}
