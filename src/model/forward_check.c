/* SPDX-License-Identifier: Apache-2.0 */
/* forward_check.c : refuses blocks that the forward pass cannot run, before the first block runs.
 */
#include <esscher/model.h>

#include "base/error.h"
#include "model/forward_cache.h"
#include "model/forward_inside.h"
#include "model/model.h"
#include "random/random.h"

/* Fails unless a block that starts at a later hidden state brings that state and leaves
 * something to compute. */
static es_status check_start(const es_model_config *c, const es_model_block *b, es_error *err)
{
    const int64_t states = b->states ? b->states : c->layers + 1;
    if (b->start && !b->input)
        return es_fail(err, ES_E_ARGUMENT, "forward.start", "pass the state as input",
                       "starting at hidden state %lld requires that state as input",
                       (long long)b->start);
    if (b->start < 0 || b->start >= states)
        return es_fail(err, ES_E_RANGE, "forward.states", "states counts from state 0",
                       "starting at hidden state %lld leaves none of %lld to compute",
                       (long long)b->start, (long long)states);
    return ES_OK;
}

/* Fails if results about the next token are asked for without a model that predicts it, ids, or the
 * last state. */
static es_status check_predict(const es_model_config *c, const es_model_block *b, es_error *err)
{
    if (!es_block_wants_logits(b))
        return ES_OK;
    if (!c->predicts)
        return es_fail(err, ES_E_ARGUMENT, "forward.predict",
                       "use a decoder with its language head",
                       "the model does not predict the next token");
    if (b->nll && !b->ids)
        return es_fail(err, ES_E_ARGUMENT, "forward.predict", "pass the ids with the state",
                       "the loss of tokens requires their ids");
    if (b->states && b->states <= c->layers)
        return es_fail(err, ES_E_ARGUMENT, "forward.states", "use 0 for all states",
                       "predicting the next token requires all states; %lld of %lld are computed",
                       (long long)b->states, (long long)c->layers + 1);
    return ES_OK;
}

int64_t es_model_sparse_cells(const es_model *model)
{
    const es_model_config *c = &model->config;
    return c->layers * c->heads * c->positions;
}

/* Fails unless every head's policy is valid and has the inputs that it takes. */
static es_status check_sparse(const es_model *m, const es_model_sparse *sparse, es_error *err)
{
    if (!sparse)
        return ES_OK;
    if (!sparse->heads)
        return es_fail(err, ES_E_ARGUMENT, "forward.sparse", "one spec for each layer and head",
                       "sparse heads without a policy");
    ES_TRY(es_address_check(&sparse->at, err));
    const int64_t heads = m->config.layers * m->config.heads;
    es_address last = sparse->at;
    last.cell += (uint64_t)es_model_sparse_cells(m);
    ES_TRY(es_address_check(&last, err));
    for (int64_t i = 0; i < heads; i++) {
        const es_policy_spec *spec = &sparse->heads[i];
        if (spec->policy)
            ES_TRY(es_policy_spec_check(spec, m->config.causal, err));
        if (es_policy_inputs(spec->policy) & ES_POLICY_MEASURED && spec->keys < 1)
            return es_fail(err, ES_E_RANGE, "policy.keys", "set the number of mixtures",
                           "%s has no number of keys", es_policy_name(spec->policy));
    }
    return ES_OK;
}

es_status es_block_check(const es_model *m, const es_model_block *b, int64_t index, es_error *err)
{
    const es_model_config *c = &m->config;
    if ((!b->ids && !b->input) || b->n <= 0)
        return es_fail_at(err, ES_E_EMPTY, index, -1, "forward.empty", "give at least one token",
                          "block %lld has no tokens", (long long)index);
    if (b->n > c->positions && b->n <= c->position_rows - c->first_position)
        return es_fail_at(err, ES_E_UNSUPPORTED, index, -1, "forward.block_sparse",
                          "cut the text into shorter blocks; --policy bigbird has the pattern",
                          "block %lld has %lld tokens; beyond %lld attention of this model is "
                          "block_sparse, which is not supported",
                          (long long)index, (long long)b->n, (long long)c->positions);
    if (b->rotary && (!c->rotary.width || !es_rotary_fits(&c->rotary, &b->rotary[0]) ||
                      !es_rotary_fits(&c->rotary_local, &b->rotary[1])))
        return es_fail_at(err, ES_E_ARGUMENT, index, -1, "forward.rotary",
                          "change a copy of the model's own rotary and rotary_local",
                          "rotary positions of block %lld do not fit the model", (long long)index);
    if (b->n > c->positions && (!b->rotary || b->sparse))
        return es_fail_at(err, ES_E_RANGE, index, -1, "forward.length", "cut the text into blocks",
                          "block %lld has %lld tokens; the model has %lld positions",
                          (long long)index, (long long)b->n, (long long)c->positions);
    if ((b->logits && !c->labels) || (b->pooled && !c->pooler))
        return es_fail(err, ES_E_ARGUMENT, "forward.logits", "use a model fine-tuned for a task",
                       "the model has no %s", c->pooler ? "classifier" : "pooler");
    if (b->states < 0 || b->states > c->layers + 1)
        return es_fail(err, ES_E_RANGE, "forward.states", "use 0 for all states",
                       "%lld hidden states of %lld", (long long)b->states,
                       (long long)c->layers + 1);
    if (b->states && b->states <= c->layers && (b->last || b->pooled || b->logits))
        return es_fail(err, ES_E_ARGUMENT, "forward.states", "use 0 for all states",
                       "the last state requires all states; %lld of %lld are computed",
                       (long long)b->states, (long long)c->layers + 1);
    ES_TRY(check_start(c, b, err));
    ES_TRY(check_predict(c, b, err));
    ES_TRY(check_sparse(m, b->sparse, err));
    ES_TRY(es_cache_check(m, b, err));
    for (int64_t i = 0; b->ids && i < b->n; i++) {
        if (b->ids[i] < 0 || b->ids[i] >= c->vocab)
            return es_fail_at(err, ES_E_RANGE, index, i, "forward.id",
                              "use the tokenizer that came with the model",
                              "token %lld of block %lld has id %ld; ids go from 0 to %lld",
                              (long long)i, (long long)index, (long)b->ids[i],
                              (long long)c->vocab - 1);
    }
    return ES_OK;
}
