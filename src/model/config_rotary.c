/* SPDX-License-Identifier: Apache-2.0 */
/* config_rotary.c : reads the rotary positions of config.json: one rotation for all layers, or one
 * for each type of layers. */
#include <string.h>

#include "base/error.h"
#include "model/config_fields.h"

/* Fails because of one key of the object `name`. */
static es_status refuse_rotary(const es_json *j, const char *name, const char *key,
                               const char *what, const char *hint)
{
    return es_fail_file(j->err, ES_E_UNSUPPORTED, j->file, -1, "config.rotary", hint, "%s: %s %s",
                        name, key, what);
}

/* Refuses a key that is not in the table, unless it cannot change the result: null, `finetuned`,
 * max_position_embeddings (stated outside), and two factors of YaRN's first program if they are 1.
 */
static es_status take_rotary_key(es_config_reading *r, const es_json_text *key)
{
    char name[ES_CONFIG_WORD];
    double number = 0.0;
    const unsigned char kind = es_json_kind(r->j);
    es_json_copy(key, name, sizeof name);
    if (kind == 'n' || es_word_among(name, "finetuned|max_position_embeddings"))
        return es_json_skip(r->j);
    if (es_word_among(name, "attn_factor|extrapolation_factor") && kind >= '0' && kind <= '9')
        ES_TRY(es_json_number(r->j, &number));
    return number == 1.0 ? ES_OK
                         : refuse_rotary(r->j, r->name, name, "is not a known key",
                                         "it may change the result");
}

/* Reads the keys of one rotation. */
static es_status take_rotary_keys(es_config_reading *r)
{
    enum { OLD_TYPE = 1 }; /* its place in the table */
    static const es_config_field fields[] = {
        {"rope_type", ES_FIELD_WORD, .at = ES_CONFIG(rotary.type)},
        {"type", ES_FIELD_WORD, .only = "default|linear|dynamic|yarn|llama3|longrope|su",
         .rule = "config.rotary",
         .hint = "supported: default, linear, dynamic, yarn, llama3, longrope"},
        {"rope_theta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.theta), .min = 1.0001, .max = 1e15,
         .nullable = true},
        {"factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.factor), .min = 1e-3, .max = 1e6,
         .nullable = true},
        {"original_max_position_embeddings", ES_FIELD_REAL, .at = ES_CONFIG(rotary.original),
         .min = 1, .max = 1 << 24, .nullable = true},
        {"low_freq_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.low), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"high_freq_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.high), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"attention_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.attention), .min = 1e-6,
         .max = 1e6, .nullable = true},
        {"beta_fast", ES_FIELD_REAL, .at = ES_CONFIG(rotary.fast), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"beta_slow", ES_FIELD_REAL, .at = ES_CONFIG(rotary.slow), .min = 1e-6, .max = 1e6,
         .nullable = true},
        {"mscale", ES_FIELD_REAL, .at = ES_CONFIG(rotary.mscale), .min = 0, .max = 1e6,
         .nullable = true},
        {"mscale_all_dim", ES_FIELD_REAL, .at = ES_CONFIG(rotary.mscale_all), .min = 0, .max = 1e6,
         .nullable = true},
        {"truncate", ES_FIELD_BOOL, .at = ES_CONFIG(rotary.rounded)},
        {"partial_rotary_factor", ES_FIELD_REAL, .at = ES_CONFIG(rotary.share), .min = 1e-3,
         .max = 1, .nullable = true},
        {"short_factor", ES_FIELD_SHORT},
        {"long_factor", ES_FIELD_LONG},
        {"llama_4_scaling_beta", ES_FIELD_REAL, .at = ES_CONFIG(rotary.query_beta), .min = 0,
         .max = 1e6, .nullable = true},
        {"mrope_section", ES_FIELD_NONE, .rule = "config.rotary",
         .hint = "supported are models of text alone"},
        {0}};
    es_rotary *rotary = &r->draft->config.rotary;
    r->fields = fields;
    ES_TRY(es_config_take_fields(r));
    ES_TRY(es_config_check_values(r));
    if (!*rotary->type) /* the older name of the key counts where the newer one is missing */
        memcpy(rotary->type, r->word[OLD_TYPE], ES_CONFIG_WORD);
    return ES_OK;
}

/* Reads the rotation that begins at `at` into *rotary; keys that are missing leave it as it is. */
static es_status take_rotation(es_json at, const char *name, es_rotary *rotary)
{
    es_config_draft draft = {.config = {.rotary = *rotary}};
    es_config_reading r = {.j = &at, .draft = &draft, .take_other = take_rotary_key, .name = name};
    ES_TRY(take_rotary_keys(&r));
    *rotary = draft.config.rotary;
    return ES_OK;
}

/* Rotations of the two types of layers. */
typedef struct rotations {
    es_json at[2];    /* full, sliding; bytes NULL: null or missing */
    bool named[2];    /* the key is there */
    int other, count; /* keys that are no types of layers; all keys */
} rotations;

/* Looks for one object for each type of layers: {"full_attention": {...}, ...}. It is there if all
 * keys are names of types of layers. */
static es_status find_rotations(es_json at, rotations *out)
{
    static const char *const types[] = {"full_attention", "sliding_attention"};
    es_json_list list;
    es_json_text key;
    *out = (rotations){0};
    ES_TRY(es_json_begin(&at, '{', &list));
    for (;; out->count++) {
        ES_TRY(es_json_next(&at, &list, &key));
        if (list.done)
            return ES_OK;
        const int type = es_json_same(&key, types[0]) ? 0 : es_json_same(&key, types[1]) ? 1 : -1;
        if (type < 0)
            out->other++;
        else if (out->named[type])
            return es_fail_file(at.err, ES_E_FORMAT, at.file, (int64_t)key.at, "config.duplicate",
                                "keep one of them", "duplicate key %s", types[type]);
        else if (es_json_kind(&at) != 'n')
            out->at[type] = at;
        if (type >= 0)
            out->named[type] = true;
        ES_TRY(es_json_skip(&at));
    }
}

/* Returns whether two sets of rotary parameters are equal. */
static bool same_rotary(const es_rotary *a, const es_rotary *b)
{
    return a->share == b->share && a->theta == b->theta && strcmp(a->type, b->type) == 0 &&
           a->factor == b->factor && a->original == b->original && a->low == b->low &&
           a->high == b->high && a->fast == b->fast && a->slow == b->slow &&
           a->attention == b->attention && a->mscale == b->mscale &&
           a->mscale_all == b->mscale_all && a->rounded == b->rounded &&
           a->query_beta == b->query_beta && a->short_count == b->short_count &&
           a->long_count == b->long_count &&
           memcmp(a->short_factor, b->short_factor, sizeof a->short_factor) == 0 &&
           memcmp(a->long_factor, b->long_factor, sizeof a->long_factor) == 0;
}

/* Reads rotations by type of layer: full layers have config.rotary, sliding ones
 * config.rotary_local where it differs. A type whose rotation is null does not turn. */
static es_status take_sections(const rotations *found, const char *name, es_config_draft *d)
{
    es_model_config *c = &d->config;
    es_layers_stated *s = &d->layers;
    es_rotary local = c->rotary;
    if (c->rotary_local.theta > 0.0)
        local.theta = c->rotary_local.theta;
    const bool full = found->at[0].bytes != NULL, sliding = found->at[1].bytes != NULL;
    if (full)
        ES_TRY(take_rotation(found->at[0], name, &c->rotary));
    if (sliding)
        ES_TRY(take_rotation(found->at[1], name, &local));
    s->still_full = s->still_full || (found->named[0] && !full);
    s->still_sliding = found->named[1] && !sliding;
    s->local = full && sliding && !same_rotary(&local, &c->rotary);
    c->rotary_local = s->local ? local : (es_rotary){0};
    if (!full)
        c->rotary = sliding ? local : (es_rotary){0};
    return ES_OK;
}

/* Reads the object "rope_scaling", or "rope_parameters" of newer files, which holds theta, too.
 * Every key of it may change the result, so an unknown key is refused. which -1: no object. */
static es_status take_rotary(es_config_reading *r, int which)
{
    es_config_draft *d = r->draft;
    es_model_config *c = &d->config;
    rotations found = {0};
    const char *name = which >= 0 ? r->fields[which].key : "";
    if (which >= 0)
        ES_TRY(find_rotations(r->object[which], &found));
    if (found.count && !found.other)
        return take_sections(&found, name, d);
    if (found.named[0] || found.named[1])
        return refuse_rotary(r->j, name, found.named[0] ? "full_attention" : "sliding_attention",
                             "stands beside other keys",
                             "state rotary positions once, or once for each type of layers");
    const double before = c->rotary.theta;
    c->rotary.theta = 0.0;
    if (which >= 0)
        ES_TRY(take_rotation(r->object[which], name, &c->rotary));
    if (c->rotary.theta != 0.0 && r->theta != 0.0 && c->rotary.theta != r->theta)
        return es_fail_file(r->j->err, ES_E_FORMAT, r->j->file, -1, "config.rotary",
                            "keep one of them", "rope_theta is %g, but %g in %s", r->theta,
                            c->rotary.theta, name);
    c->rotary.theta = c->rotary.theta != 0.0 ? c->rotary.theta : before;
    return ES_OK;
}

es_status es_config_take_rotaries(es_config_reading *r)
{
    int which = -1;
    for (int i = 0; r->fields[i].key; i++) {
        const bool there = r->fields[i].kind == ES_FIELD_OBJECT && r->object[i].bytes;
        if (there && (which < 0 || strcmp(r->fields[i].key, "rope_scaling") == 0))
            which = i;
    }
    r->draft->layers.rotary_stated = which >= 0 || r->theta != 0.0;
    return take_rotary(r, which);
}
