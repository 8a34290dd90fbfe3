/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `exponent`: parameters, help, and the order of the summary. */
#include "experiments/exponent/exponent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define FIELD(member) .field = offsetof(exponent_params, member)
static const es_param params[] = {
    {"keys", 0, ES_PARAM_FILE, "FILE", "keys, .npy (n, d); only --scale uses their lengths",
     FIELD(keys)},
    {"query", 0, ES_PARAM_FILE, "FILE", "queries, .npy (d) or (m, d)", FIELD(query),
     .default_note = "the keys, each without itself", .renamed_from = "queries"},
    {"sample", 0, ES_PARAM_WHOLE, "M", "without --query: the first M keys are the queries",
     FIELD(sample), .min = 1, .max = 1e9, .default_value = "256"},
    {"nearest", 0, ES_PARAM_WHOLE, "K", "number of nearest keys for an estimate", FIELD(k),
     .min = 3, .max = 1e9, .default_note = "sqrt(n)", .renamed_from = "k"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of keys to predict for", FIELD(n), .min = 1,
     .max = 1e15, .increasing = true, .default_note = "n of the keys, and 10 and 100 times that",
     .unit = "tokens"},
    {"beta", 0, ES_PARAM_NUMBER, "B",
     "inverse temperature of your head: its scores are B times the cosine of query and key",
     FIELD(beta), .min = 1e-9, .max = 1e12},
    {"scale", 0, ES_PARAM_NUMBER, "S",
     "instead of --beta, score scale of your head: its scores are S q.k, with the lengths of the "
     "vectors; beta is then S mean|q| mean|k|",
     FIELD(scale), .min = 1e-12, .max = 1e12},
    {0}};

/* Opens the study: keys, queries (or a sample of the keys themselves), and the score scale. */
static es_status open_study(es_job *job, es_error *err)
{
    const exponent_params *p = job->params;
    exponent_state *s = job->state;
    if (!p->keys)
        return es_refuse(err, "exponent.options", "name a .npy file (n, d)", "missing --keys");
    if (!isnan(p->beta) && !isnan(p->scale))
        return es_refuse(err, "exponent.options", "leave one of them out",
                         "--beta and --scale are both given");
    ES_TRY(es_job_matrix(job, "keys", p->keys, -1, -1, &s->keys, err));
    ES_TRY(es_job_matrix(job, "query", p->query, -1, s->keys.cols, &s->queries, err));
    s->self = !p->query;
    s->count = p->query ? s->queries.rows : p->sample < s->keys.rows ? p->sample : s->keys.rows;
    return ES_OK;
}

/* Names the file of keys in errors of the library, and --nearest where it was the cause. */
static es_status blame(const es_job *job, es_status status, es_error *err)
{
    if (status != ES_OK && strcmp(err->rule, "exponent.k") == 0) {
        snprintf(err->hint, sizeof err->hint, "--nearest: from 3 to the number of keys minus 1");
        return err->code = ES_E_ARGUMENT;
    }
    return es_blame_file(status, ((const exponent_params *)job->params)->keys, err);
}

/* Fills the tables in their order of display. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    es_exponent pooled; /* all queries as one */
    const es_table_spec *const order[] = {&exponent_estimates_table, &exponent_freezing_table,
                                          &exponent_run_table,
                                          &exponent_scan_table}; /* order of display */
    for (int i = 0; i < 4; i++)
        es_answer_table(answer, order[i]);
    ES_TRY(blame(job, exponent_fill_estimates(job, answer, &pooled, err), err));
    ES_TRY(blame(job, exponent_fill_scan(job, &pooled, answer, err), err));
    return exponent_fill_freezing(job, &pooled, answer, err);
}

static const char *const examples[] = {
    "esscher exponent --keys K.npy --query q.npy",
    "esscher exponent --keys K.npy --query Q.npy --scale 0.125 --n 4096,131072,1048576",
    "esscher exponent --keys K.npy --beta 20 --json",
    "esscher exponent --keys K.npy --beta 20 --out exponent.run", NULL};

const es_study es_study_exponent = {
    "exponent",
    .summary = "how close keys come to a query, and at which score scale one takes the weight",
    .group = ES_GROUP_LAB,
    .usage = "--keys K.npy [--query Q.npy] [options]",
    .about =
        "Estimates the local exponent alpha of your keys from those nearest to each query: the "
        "probability that a key has 1 - cosine below t is c t^alpha.\n\n"
        "Then finds the inverse temperatures beta at which attention over these keys changes its "
        "regime: averaging while 100 keys or more share the weight (1/(mean sum w^2)), single-key "
        "once fewer than 2 do, selective between. The cut-offs are a convention. For your keys "
        "they are solved on the measured weights; for other n on the exact expectation for keys "
        "with this alpha and c (proved for keys uniform on a sphere, a model of others).\n\n"
        "--beta shows what the head does at that beta if all vectors have the same length. --scale "
        "uses the vectors with their lengths throughout. Positions and the order of a text are "
        "not part of this: for a decoder's head in its text see probe.",
    .examples = examples,
    .params = params,
    .size = sizeof(exponent_params),
    .takes = ES_TAKES_THREADS | ES_TAKES_ISA,
    .csv = "estimates",
    .state = sizeof(exponent_state),
    .open = open_study,
    .summarise = summarise};
