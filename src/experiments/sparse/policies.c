/* SPDX-License-Identifier: Apache-2.0 */
/* policies.c : the question of `sparse` about eviction policies: its cells, and the order of tables
 * and findings. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "experiments/sparse/sparse.h"
#include "stats/average.h"

/* ---- cells ---- */

static const es_cell_field cell_fields[] = {ES_FIELD(es_sparse_cell, mse),
                                            ES_FIELD(es_sparse_cell, mse_var),
                                            ES_FIELD(es_sparse_cell, exact),
                                            ES_FIELD(es_sparse_cell, bias2),
                                            ES_FIELD(es_sparse_cell, variance),
                                            ES_FIELD(es_sparse_cell, first_order),
                                            ES_FIELD(es_sparse_cell, limit),
                                            ES_FIELD(es_sparse_cell, mass),
                                            ES_FIELD(es_sparse_cell, kept),
                                            ES_FIELD(es_sparse_cell, empty),
                                            ES_FIELD(es_sparse_cell, corrected),
                                            ES_FIELD(es_sparse_cell, spread2),
                                            ES_FIELD(es_sparse_cell, ess),
                                            ES_FIELD(es_sparse_cell, n),
                                            {0}};

/* Computes a cell: a few queries of a head over a context. */
static es_status run_cell(es_job *job, int64_t cell, const es_exec *exec, void *record,
                          es_error *err)
{
    const sparse_state *s = job->state;
    const int64_t part = cell % s->groups, unit = cell / s->groups;
    const int64_t context = unit % s->contexts, first = part * s->group;
    const int64_t left = s->queries - first, count = left < s->group ? left : s->group;
    const es_sparse_spec spec = {sparse_spec_of(s, unit / s->contexts, 0), .n_plans = s->n_plans,
                                 .draws = s->p->draws, .seed = job->seed, .exec = exec};
    es_arena arena = {.budget = exec->budget};
    es_sparse_head head;
    es_status status = sparse_head_of(job, unit / s->contexts, context, &arena, &head, err);
    if (status == ES_OK)
        status = es_sparse_measure(&spec, &head, s->which + context * s->queries + first, count,
                                   unit * s->queries + first, record, err);
    es_arena_free(&arena);
    return status;
}

/* Returns the operations that attention does in the time that one plan takes for one query of n
 * keys. An integral has some hundred nodes; each visits every key, and some tens of points of a
 * circle where draws are without replacement. These plain f64 loops run at a few per cent of the
 * speed of attention. The factors are measured on heads of 32 and 64 dimensions and 512 to 2048
 * keys. */
static double plan_flops(const sparse_state *s, const es_policy_spec *spec, double n)
{
    const unsigned needs = es_policy_inputs(spec->policy);
    const double look = n * (double)(s->d + 2 * s->dv + 64);
    const double draws = (double)s->p->draws * n * (double)s->dv;
    const bool turns =
        es_policy_parts(spec->policy) & ES_PART_REPLACEMENT && !spec->with_replacement;
    if (needs & ES_POLICY_MEASURED)
        return draws * (double)spec->keys;
    return look + (needs & ES_POLICY_CHANCE ? draws + look * (turns ? 6400.0 : 900.0) : 0.0);
}

/* Returns the operations of a cell of `queries` queries over n keys: their policies, past attention
 * where a policy needs it, and the head. */
static double cell_flops(const sparse_state *s, int64_t n, int64_t queries)
{
    const int64_t specs = s->file ? s->n_places : s->n_plans, m = s->m == s->n ? n : s->m;
    double flops = 0.0;
    for (int64_t i = 0; i < specs; i++)
        flops += plan_flops(s, &s->specs[i], (double)n) * (double)queries;
    if (s->file)
        flops /= (double)s->n_places; /* a cell has one head */
    if (sparse_looks_back(s))
        flops += 4.0 * (double)m * (double)n * (double)s->d;
    return flops + sparse_head_flops(s, n);
}

/* Returns the operations of one head in a context of n tokens under all policies, s->specs. */
static double context_work(const sparse_state *s, int64_t n, int64_t queries)
{
    const int64_t group = sparse_group(s, queries), groups = (queries + group - 1) / group;
    return (double)groups * cell_flops(s, n, group);
}

/* Fails if --per-query has too many rows: JSON finds the queries of a row by scanning those of all
 * rows, which would take longer than the run. */
static es_status check_per_query(const sparse_state *s, es_error *err)
{
    const double rows = (double)s->n_places * (double)s->n_plans;
    const double looks = rows * rows * (double)s->contexts * (double)s->queries, most = 2e8;
    if (!s->p->per_query || looks <= most)
        return ES_OK;
    return es_refuse(err, "sparse.options", "ask for less: --layer, --head, --policy, --keys",
                     "--per-query of %.0f rows of %lld queries is too much for one answer", rows,
                     (long long)(s->contexts * s->queries));
}

/* Reads the policies and checks that those of a plan can be run query by query. */
static es_status read_plans(es_job *job, es_error *err)
{
    ES_TRY(sparse_plans_read(job, err));
    return check_per_query(job->state, err);
}

/* Adds the stage whose cell computes all policies on a group of queries of one head in one
 * context. */
static es_status add_stage(es_job *job, es_error *err)
{
    const sparse_state *s = job->state;
    es_answer_count(job->answer, "draws", s->p->draws);
    const es_stage stage = {"queries",
                            .phase = "keeping some of the keys",
                            .noun = "groups of queries",
                            .cells = s->n_places * s->contexts * s->groups,
                            .rows = s->group * s->n_plans,
                            ES_RECORD(es_sparse_cell, cell_fields),
                            .one_thread_per_cell = true,
                            .flops = cell_flops(s, s->n, s->group),
                            .run = run_cell};
    return es_job_stage(job, &stage, err);
}

/* ---- findings ---- */

/* Warns that policies with a window keep fewer keys than asked, because queries without positions
 * have no window; names the worst. */
static void caution_positions(const sparse_state *s, const sparse_row *rows, es_answer *answer)
{
    int64_t worst = -1;
    double least = 0.9; /* of what was asked for; chance may be a little short */
    if (s->p->positions || s->m == s->n)
        return;
    for (int64_t k = 0; k < s->n_plans; k++)
        if (s->plans[k].keys > 0 && rows[k].kept < least * (double)s->plans[k].keys) {
            least = rows[k].kept / (double)s->plans[k].keys;
            worst = k;
        }
    if (worst >= 0)
        es_answer_add_finding(
            answer,
            "Caution: queries have no positions, so there is no window: %s keeps %.3g of %lld "
            "keys; see --positions.",
            s->plans[worst].word, rows[worst].kept, (long long)s->plans[worst].keys);
}

/* Returns the medians over heads of a plan's error and of its standard error; NaN if no head has a
 * spread. */
static es_measured median_of(const sparse_state *s, const sparse_row *rows, int64_t plan,
                             double *scratch)
{
    es_measured out;
    double *const to[2] = {&out.value, &out.se};
    for (int which = 0; which < 2; which++) {
        int64_t count = 0;
        for (int64_t i = 0; i < s->n_places; i++) {
            const sparse_row *r = &rows[i * s->n_plans + plan];
            if (sparse_has_spread(r))
                scratch[count++] =
                    which ? r->relative_error.se : sqrt(sparse_error2(r) / r->spread2);
        }
        es_sort_reals(scratch, count);
        *to[which] = es_median_of(scratch, count);
    }
    return out;
}

const char *sparse_say_seen(const sparse_state *s, double kept, char out[ES_SAY_SIZE])
{
    char keys[64];
    const double percent = 100.0 * kept / s->mean_seen;
    if (s->seen[0] == s->seen[1])
        snprintf(keys, sizeof keys, "%lld keys", (long long)s->seen[0]);
    else
        snprintf(keys, sizeof keys, "the %lld to %lld keys that a query sees",
                 (long long)s->seen[0], (long long)s->seen[1]);
    snprintf(out, ES_SAY_SIZE, "%s (%.3g %%)", keys, percent);
    return out;
}

/* Reports the error of the policy whose parts say how many keys it keeps; the best of several. */
static void report_fixed(const sparse_state *s, const sparse_row *rows, double *scratch,
                         es_answer *answer)
{
    char seen[ES_SAY_SIZE], error[ES_SAY_SIZE];
    int64_t best = -1, count = 0;
    es_measured least = {(double)NAN, (double)NAN};
    for (int64_t k = 0; k < s->n_plans; k++) {
        const es_measured off = median_of(s, rows, k, scratch);
        if (s->plans[k].keys || isnan(off.value))
            continue;
        count++;
        if (best < 0 || off.value < least.value) {
            best = k;
            least = off;
        }
    }
    if (best < 0)
        return;
    double kept = 0.0;
    bool ideal = false;
    for (int64_t i = 0; i < s->n_places; i++) {
        kept += rows[i * s->n_plans + best].kept / (double)s->n_places;
        ideal = ideal || !es_policy_rolls(sparse_spec_of(s, i, best));
    }
    es_answer_add_finding(answer,
                          "%s keeps %.3g of %s%s; %s output is off by %s of the spread of its "
                          "values.%s",
                          s->plans[best].word, kept, sparse_say_seen(s, kept, seen),
                          count > 1 ? ", best of the policies with a fixed size" : "",
                          s->n_places > 1 ? "the median head's" : "the head's",
                          es_say_number(least.value, least.se, error),
                          ideal ? " Ideal: keys are chosen anew for every query." : "");
}

/* Fills the tables of heads, rows and queries and adds the findings. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const sparse_state *s = job->state;
    sparse_row *rows;
    double *scratch;
    ES_TRY(sparse_rows_make(job, &rows, err));
    ES_TRY(ES_JOB_NEW(job, scratch, s->n_places, err));
    ES_TRY(sparse_put_heads(job, rows, answer, err));
    report_fixed(s, rows, scratch, answer);
    es_answer_add_finding(answer,
                          "The error of a head's output is not the error of the model: depth, loss "
                          "and downstream measure that.");
    ES_TRY(sparse_put_rows(job, rows, answer, err));
    sparse_put_agreement(s, rows, scratch, answer);
    caution_positions(s, rows, answer);
    if (s->file)
        es_plan_caution(s->file, s->n, "contexts have", answer);
    return ES_OK;
}

const sparse_question sparse_policies = {.of_model = &sparse_model,
                                         .plan = read_plans,
                                         .add_stage = add_stage,
                                         .work = context_work,
                                         .summarise = summarise};
