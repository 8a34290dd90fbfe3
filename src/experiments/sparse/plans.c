/* SPDX-License-Identifier: Apache-2.0 */
/* plans.c : combines the policies that were asked for (policy_params.h) with numbers of keys into
 * plans, or reads a plan file. */

#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "model/plan.h"
#include "policy/policy.h"

/* ---- numbers of keys ---- */

/* Makes the grid: --keys, or powers of two from a 32nd of the context to half of it. */
static es_status make_grid(es_job *job, es_error *err)
{
    const sparse_params *p = job->params;
    sparse_state *s = job->state;
    const int64_t most = p->policy.keys.count > 5 ? p->policy.keys.count : 5;
    ES_TRY(ES_JOB_NEW(job, s->grid, most, err));
    for (int64_t i = 0; i < p->policy.keys.count; i++) {
        if (p->policy.keys.counts[i] > s->n)
            return es_refuse(err, "sparse.keys", "keep at most the whole context",
                             "--keys %lld of a context of %lld",
                             (long long)p->policy.keys.counts[i], (long long)s->n);
        s->grid[s->n_grid++] = p->policy.keys.counts[i];
    }
    for (int shift = 5; shift > 0 && !p->policy.keys.count; shift--) {
        const int64_t keys = s->n >> shift;
        if (keys > 0 && (s->n_grid == 0 || keys > s->grid[s->n_grid - 1]))
            s->grid[s->n_grid++] = keys;
    }
    if (s->n_grid == 0)
        return es_refuse(err, "sparse.keys", "--keys 1", "%lld keys are too few to leave some out",
                         (long long)s->n);
    return ES_OK;
}

/* Returns whether parts alone say how many keys a policy keeps, so that --keys has no effect. */
static bool is_fixed(const es_policy_spec *spec, bool keys_given)
{
    const unsigned parts = es_policy_parts(spec->policy);
    const bool open = (parts & ES_PART_WINDOW && spec->window == ES_POLICY_UNSET) ||
                      (parts & ES_PART_RANDOM && spec->random == ES_POLICY_UNSET);
    es_error ignored;
    return es_policy_spec_check(spec, false, &ignored) == ES_OK &&
           (!keys_given || !open || spec->policy == es_policy_at(0));
}

/* Adds a policy at a number of keys (0: policies with a number of their own). */
static void add_plan(sparse_state *s, const es_policy_asked *a, int64_t word, int64_t keys)
{
    es_policy_spec *spec = &s->specs[s->n_plans];
    sparse_plan *plan = &s->plans[s->n_plans++];
    *spec = a->spec;
    *plan = (sparse_plan){a->word, word, keys, es_policy_deployable(a->spec.policy)};
    if (keys)
        spec->keys = keys;
}

/* Makes a plan of each policy of the list at each number of keys. */
static es_status read_list(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    const sparse_params *p = job->params;
    es_policy_asked *words;
    int64_t count;
    ES_TRY(es_policies_read(job, &p->policy, &words, &count, err));
    ES_TRY(make_grid(job, err));
    ES_TRY(ES_JOB_NEW(job, s->specs, count * s->n_grid, err));
    ES_TRY(ES_JOB_NEW(job, s->plans, count * s->n_grid, err));
    s->n_words = count;
    for (int64_t i = 0; i < count; i++) {
        const bool fixed = is_fixed(&words[i].spec, p->policy.keys.count > 0);
        for (int64_t k = 0; k < (fixed ? 1 : s->n_grid); k++)
            add_plan(s, &words[i], i, fixed ? 0 : s->grid[k]);
    }
    for (int64_t i = 0; i < s->n_plans; i++)
        ES_TRY(es_policy_spec_check(&s->specs[i], s->causal, err));
    return ES_OK;
}

/* ---- a plan file ---- */

/* Makes one plan, under which every head has a policy of its own. There is no number of keys that
 * all share, so heads are not compared at any: the grid is empty. */
static es_status read_file(es_job *job, es_error *err)
{
    sparse_state *s = job->state;
    const char *path = s->p->plan;
    es_policy_spec *all;
    char *word;
    if (s->source != &sparse_model)
        return es_refuse(err, "sparse.options", "--model MODEL --text FILE",
                         "--plan needs --model: arrays from files have no layer and head numbers");
    ES_TRY(es_plan_open(job, path, s->pools.config, &s->file, err));
    ES_TRY(es_plan_fits(s->file, path, s->n, err));
    ES_TRY(ES_JOB_NEW_2D(job, all, s->file->layers, s->file->heads, err));
    ES_TRY(ES_JOB_NEW(job, s->specs, s->n_places, err));
    ES_TRY(ES_JOB_NEW(job, s->plans, 1, err));
    ES_TRY(ES_JOB_NEW(job, s->grid, 1, err));
    ES_TRY(ES_JOB_NEW(job, word, ES_POLICY_SIZE, err));
    es_plan_specs(s->file, s->n, all);
    for (int64_t i = 0; i < s->n_places; i++)
        s->specs[i] = all[s->places[i].layer * s->file->heads + s->places[i].head];
    s->plans[0] = (sparse_plan){.word = es_plan_word(path, word)};
    s->grid[0] = -1; /* no plan has this number */
    s->n_plans = s->n_words = 1;
    return ES_OK;
}

/* ---- both ---- */

es_status sparse_plans_read(es_job *job, es_error *err)
{
    const sparse_state *s = job->state;
    return s->p->plan ? read_file(job, err) : read_list(job, err);
}

const es_policy_spec *sparse_spec_of(const sparse_state *s, int64_t place, int64_t plan)
{
    return &s->specs[s->file ? place : plan];
}

const char *sparse_asked(const sparse_state *s, int64_t place, int64_t plan,
                         char out[ES_POLICY_SIZE])
{
    return s->file ? es_policy_word(sparse_spec_of(s, place, plan), out) : s->plans[plan].word;
}

int64_t sparse_keys(const sparse_state *s, int64_t place, int64_t plan)
{
    return s->file ? es_plan_keys(s->file, s->places[place].layer, s->places[place].head, s->n)
                   : s->plans[plan].keys;
}

bool sparse_looks_back(const sparse_state *s)
{
    const int64_t specs = s->file ? s->n_places : s->n_plans;
    for (int64_t i = 0; i < specs; i++)
        if (es_policy_inputs(s->specs[i].policy) & (ES_POLICY_HISTORY | ES_POLICY_OBSERVED))
            return true;
    return false;
}
