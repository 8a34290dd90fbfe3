/* SPDX-License-Identifier: Apache-2.0 */
/* ropes.c : the list of --rope: stretchings of rotary positions, and the context that the model was
 * trained on, from which they stretch. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/numbers.h"
#include "experiments/loss/loss.h"

enum { MOST_ROPES = 64 };

static const struct {
    const char *word;
    es_stretch_kind kind;
} kinds[] = {{"linear:", ES_STRETCH_LINEAR},
             {"ntk:", ES_STRETCH_NTK},
             {"yarn:", ES_STRETCH_YARN},
             {"base:", ES_STRETCH_BASE}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

es_status loss_rope_parse(const char *word, es_stretch *out, es_error *err)
{
    *out = (es_stretch){0};
    if (strcmp(word, "none") == 0)
        return ES_OK;
    for (int i = 0; i < KINDS; i++) {
        const size_t length = strlen(kinds[i].word);
        if (strncmp(word, kinds[i].word, length) != 0)
            continue;
        out->kind = kinds[i].kind;
        const char *why = es_number_real(word + length, &out->by);
        return why ? es_refuse(err, "loss.rope", "--rope ntk:4", "--rope %s: %s", word, why)
                   : ES_OK;
    }
    return es_refuse(err, "loss.rope", "none, linear:F, ntk:F, yarn:F or base:X",
                     "unknown stretching \"%s\"", word);
}

/* Returns the positions that the model was trained on, before rotary positions were stretched. */
static double trained_context(const es_model_config *c)
{
    const es_rotary *r = &c->rotary;
    const bool stretched = r->width && *r->type && strcmp(r->type, "default") != 0;
    return stretched && r->original > 1.0 ? r->original : (double)c->positions;
}

/* Reads one stretching and turns the model by it. The same one twice would be two equal rows. */
static es_status read_rope(const es_job *job, int64_t at, es_error *err)
{
    const loss_state *s = job->state;
    loss_rope *r = &s->ropes[at];
    ES_TRY(loss_rope_parse(r->name, &r->stretch, err));
    r->stretch.trained = s->trained;
    for (int64_t i = 1; i < at; i++)
        if (s->ropes[i].stretch.kind == r->stretch.kind && s->ropes[i].stretch.by == r->stretch.by)
            return es_refuse(err, "loss.rope", "leave one of them out", "--rope: %s and %s",
                             s->ropes[i].name, r->name);
    return es_model_stretch(s->config, &r->stretch, r->rotary, err);
}

es_status loss_read_ropes(es_job *job, es_error *err)
{
    const loss_params *p = job->params;
    loss_state *s = job->state;
    const char *at = p->rope;
    s->trained = p->reference ? (double)p->reference : trained_context(s->config);
    ES_TRY(ES_JOB_NEW(job, s->ropes, 2 + MOST_ROPES, err));
    for (int i = 0; i < 2; i++)
        snprintf(s->ropes[i].name, LOSS_ROPE_NAME, "none");
    s->n_ropes = 1;
    if (!p->rope)
        return ES_OK;
    ES_TRY(read_rope(job, 0, err));
    for (s->n_ropes = 0; *at; s->n_ropes++) {
        const size_t length = strcspn(at, ",");
        if (s->n_ropes == MOST_ROPES || length >= LOSS_ROPE_NAME)
            return es_refuse(err, "loss.rope", "use fewer or shorter ones",
                             "--rope: more than %d stretchings, or one of more than %d letters",
                             MOST_ROPES, LOSS_ROPE_NAME - 1);
        snprintf(s->ropes[1 + s->n_ropes].name, LOSS_ROPE_NAME, "%.*s", (int)length, at);
        ES_TRY(read_rope(job, 1 + s->n_ropes, err));
        at += length + (at[length] == ',');
    }
    return s->n_ropes ? ES_OK : es_refuse(err, "loss.rope", "--rope ntk:4", "--rope is empty");
}
