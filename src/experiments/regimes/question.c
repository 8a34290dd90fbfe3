/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `regimes`: parameters, help and cost. */
#include "experiments/regimes/regimes.h"

#include <stdio.h>

#include "base/error.h"

static const char *const regimes_laws[] = {"uniform",   "vmf",     "mixture", "subsphere",
                                           "vanishing", "planted", "file",    NULL};

static const es_param params[] = {
    {"dim", 'd', ES_PARAM_COUNTS, "GRID", "dimension: keys lie on the unit sphere of R^D",
     .field = offsetof(regimes_params, dim), .min = 2, .max = 4096, .increasing = true,
     .default_note = "5", .alias = "d"},
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "number of keys, up to 1e18; 1e9 if all are drawn",
     .field = offsetof(regimes_params, n), .min = 1, .max = 1e18, .increasing = true,
     .default_note = "1e2,1e4,1e6,1e12; 100,1000 if all are drawn", .unit = "keys"},
    {"b", 0, ES_PARAM_REALS, "GRID",
     "inverse temperatures in units of the critical scale: beta = b n^(1/alpha), alpha = (D-1)/2 "
     "for uniform keys",
     .field = offsetof(regimes_params, b), .min = 1e-9, .max = 1e9, .increasing = true,
     .default_note = "0.1,1,10"},
    {"beta", 0, ES_PARAM_REALS, "GRID", "inverse temperatures, instead of --b",
     .field = offsetof(regimes_params, beta), .min = 1e-9, .max = 1e50, .increasing = true},
    {"key-law", 0, ES_PARAM_CHOICE, "LAW",
     "uniform; vmf: concentrated around a direction; mixture of several vmf; subsphere: only on a "
     "sphere "
     "S^m through the query; vanishing: density like distance^p near the query; planted: uniform, "
     "but one key is the query; file: drawn from --points",
     .field = offsetof(regimes_params, law), .choices = regimes_laws, .default_value = "uniform",
     .renamed_from = "keys"},
    {"kappa", 0, ES_PARAM_REALS, "LIST", "concentrations of vmf, or of the parts of a mixture",
     .field = offsetof(regimes_params, kappa), .min = 0, .max = 1e4,
     .default_note = "10 of vmf, 0,20 of a mixture"},
    {"cosine", 0, ES_PARAM_REALS, "LIST", "cosines between the parts' directions and the query",
     .field = offsetof(regimes_params, cosine), .min = -1, .max = 1, .default_note = "1 for each"},
    {"part-weights", 0, ES_PARAM_REALS, "LIST", "weights of the parts",
     .field = offsetof(regimes_params, weights), .min = 1e-12, .max = 1e12, .default_note = "equal",
     .renamed_from = "weight"},
    {"manifold", 0, ES_PARAM_WHOLE, "M", "dimension m of the subsphere, below D",
     .field = offsetof(regimes_params, manifold), .min = 1, .max = 4095, .default_note = "2, or 1"},
    {"power", 0, ES_PARAM_NUMBER, "P", "exponent p of the vanishing density",
     .field = offsetof(regimes_params, power), .min = 0, .max = 1000, .default_value = "2"},
    {"points", 0, ES_PARAM_FILE, "FILE",
     "keys to choose from without replacement, .npy (N, d), scaled to norm 1",
     .field = offsetof(regimes_params, points)},
    {"query", 0, ES_PARAM_FILE, "FILE", "query for --points, .npy (d)",
     .field = offsetof(regimes_params, query),
     .default_note = "in each replicate a point that is not among its keys"},
    {"alpha", 0, ES_PARAM_NUMBER, "ALPHA", "local exponent of --points, needed for --b",
     .field = offsetof(regimes_params, alpha), .min = 0.0625, .max = 4096},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent samples",
     .field = offsetof(regimes_params, replicates), .min = 1, .max = 1e7, .default_value = "1000"},
    {"nearest", 0, ES_PARAM_WHOLE, "K",
     "number of nearest keys that are drawn one by one; the sum over the others, where it matters, "
     "is a Gaussian vector with the exact mean and covariance",
     .field = offsetof(regimes_params, nearest), .min = 64, .max = 1e6, .default_value = "2048"},
    {"Wv", 0, ES_PARAM_FILE, "FILE",
     "values V, .npy (dv, d), for uniform keys, vmf and mixture: the output is V sum w k; the "
     "query "
     "is the first basis vector, and the directions of the parts lie in the plane of the first two",
     .field = offsetof(regimes_params, V), .default_note = "the identity", .alias = "V"},
    {"brute", 0, ES_PARAM_FLAG, NULL, "draw all n keys as vectors: a slow check",
     .field = offsetof(regimes_params, brute)},
    {0}};

/* ---- checks and defaults ---- */

/* Fails because options do not fit together. */
static es_status refuse(es_error *err, const char *hint, const char *text)
{
    return es_refuse(err, "regimes.options", hint, "%s", text);
}

/* Refuses parameters of another law of keys. */
static es_status check_law(const regimes_params *p, es_error *err)
{
    const bool parts = p->law == REGIMES_VMF || p->law == REGIMES_MIXTURE;
    if (p->b.count && p->beta.count)
        return refuse(err, "leave one of them out",
                      "--b and --beta both set the inverse temperature");
    if (!parts && (p->kappa.count || p->cosine.count || p->weights.count))
        return refuse(err, "add --key-law vmf or --key-law mixture",
                      "--kappa, --cosine and --part-weights need --key-law vmf or mixture");
    if (p->manifold && p->law != REGIMES_SUBSPHERE)
        return refuse(err, "add --key-law subsphere", "--manifold needs --key-law subsphere");
    if ((p->points || p->query || !isnan(p->alpha)) && p->law != REGIMES_FILE)
        return refuse(err, "add --key-law file",
                      "--points, --query and --alpha need --key-law file");
    if (p->law != REGIMES_FILE)
        return ES_OK;
    if (!p->points)
        return refuse(err, "name a .npy file of shape (N, d)",
                      "missing --points for --key-law file");
    if (p->dim.count)
        return refuse(err, "leave --dim out",
                      "--key-law file does not take --dim: the points have a dimension");
    if (isnan(p->alpha) && !p->beta.count)
        return refuse(err, "give --beta, or --alpha and --b",
                      "the critical scale of keys in a file is not known");
    return ES_OK;
}

/* Makes the parts of a mixture from the three lists. */
static es_status make_parts(es_job *job, regimes_params *p, es_error *err)
{
    regimes_state *s = job->state;
    const bool mixture = p->law == REGIMES_MIXTURE;
    if (p->law != REGIMES_VMF && !mixture)
        return ES_OK;
    if (!p->kappa.count)
        ES_TRY(es_params_set(job->given, "kappa", mixture ? "0,20" : "10", err));
    if (!mixture && p->kappa.count != 1)
        return refuse(err, "give one --kappa, or --key-law mixture",
                      "--key-law vmf takes one --kappa");
    if ((p->cosine.count && p->cosine.count != p->kappa.count) ||
        (p->weights.count && p->weights.count != p->kappa.count))
        return refuse(err, "give one value for each --kappa, in the same order",
                      "--kappa, --cosine and --part-weights have different lengths");
    ES_TRY(ES_JOB_NEW(job, s->parts, p->kappa.count, err));
    for (int64_t i = 0; i < p->kappa.count; i++)
        s->parts[i] = (es_keys_part){.weight = p->weights.count ? p->weights.reals[i] : 1.0,
                                     .kappa = p->kappa.reals[i],
                                     .cosine = p->cosine.count ? p->cosine.reals[i] : 1.0};
    return ES_OK;
}

/* Fills in the defaults. If all keys are drawn time grows with n, so the default n is small;
 * otherwise 1e12 keys cost as much as 1e4, and show the limit. */
static es_status complete(es_job *job, regimes_params *p, es_error *err)
{
    if (p->law == REGIMES_FILE)
        p->brute = true;
    else if (!p->dim.count)
        ES_TRY(es_params_set(job->given, "dim", "5", err));
    if (!p->n.count)
        ES_TRY(es_params_set(job->given, "n", p->brute ? "100,1000" : "1e2,1e4,1e6,1e12", err));
    if (!p->beta.count && !p->b.count)
        ES_TRY(es_params_set(job->given, "b", "0.1,1,10", err));
    if (p->law == REGIMES_SUBSPHERE && !p->manifold)
        p->manifold = p->dim.counts[0] > 2 ? 2 : 1;
    return ES_OK;
}

/* Refuses a subsphere, --n or a file of points that do not fit together. */
static es_status check_sizes(const regimes_params *p, const es_matrix *points, es_error *err)
{
    const int64_t largest = p->n.counts[p->n.count - 1];
    if (p->law == REGIMES_SUBSPHERE && p->manifold >= p->dim.counts[0])
        return refuse(err, "the sphere of R^D has dimension D - 1",
                      "--manifold must be below every --dim");
    if (p->brute && largest > ES_REGIMES_MOST_KEYS)
        return refuse(err, "use --n up to 1e9, or leave --brute out",
                      "--brute draws at most 1e9 keys");
    if (points->data && largest > points->rows - (p->query ? 0 : 1))
        return es_fail_file(err, ES_E_ARGUMENT, p->points, -1, "regimes.points",
                            "ask for fewer keys with --n", "--n %lld: the file has %lld points%s",
                            (long long)largest, (long long)points->rows,
                            p->query ? "" : ", one of which is the query");
    return ES_OK;
}

/* Reads the values. They have one number of columns, so the keys must have one dimension. */
static es_status open_values(es_job *job, const regimes_params *p, es_error *err)
{
    regimes_state *s = job->state;
    if (!p->V)
        return ES_OK;
    if (p->law != REGIMES_UNIFORM && p->law != REGIMES_VMF && p->law != REGIMES_MIXTURE)
        return refuse(err, "use --key-law uniform, vmf or mixture", "--Wv is not for these keys");
    if (p->dim.count > 1 || p->dim.counts[0] > ES_AVERAGE_MOST_DIM)
        return refuse(err, "give one --dim, up to 512", "--Wv takes one --dim");
    return es_job_matrix(job, "Wv", p->V, -1, p->dim.counts[0], &s->V, err);
}

/* Opens the study: keys, values, sizes, then the stages. */
static es_status open_study(es_job *job, es_error *err)
{
    regimes_params *p = job->params;
    regimes_state *s = job->state;
    ES_TRY(check_law(p, err));
    ES_TRY(es_job_matrix(job, "points", p->points, -1, -1, &s->points, err));
    ES_TRY(es_job_matrix(job, "query", p->query, 1, s->points.cols, &s->query, err));
    ES_TRY(make_parts(job, p, err));
    ES_TRY(complete(job, p, err));
    ES_TRY(check_sizes(p, &s->points, err));
    ES_TRY(open_values(job, p, err));
    es_answer_text(job->answer, "keys", regimes_laws[p->law]);
    es_answer_text(job->answer, "method", p->brute ? "brute" : "nearest");
    es_answer_count(job->answer, "replicates", p->replicates);
    ES_TRY(regimes_stage(job, err));
    return regimes_add_outputs(job, err);
}

/* Returns the cost: the law and draws of each cell, and the outputs where they are asked for. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const regimes_params *p = job->params;
    const double cells = (double)job->stages[0].cells, draws = (double)p->replicates;
    (void)err;
    const double outputs = (double)job->stages[1].cells * job->stages[1].flops;
    *out = (es_cost){.flops = cells * (regimes_law_flops + job->stages[0].flops) +
                              REGIMES_CURVE_LAWS * regimes_law_flops + outputs,
                     .output_bytes = 4096.0 * cells,
                     .work_bytes = draws * (32.0 * 16.0 + 8.0 * (regimes_largest_dim(job) + 1.0)) +
                                   6e7 + 64.0 * regimes_largest_dim(job) * regimes_largest_dim(job),
                     .thread_bytes = 8.0 * 140.0 * regimes_largest_dim(job)};
    return ES_OK;
}

/* ---- summary ---- */

/* Reports how far the measurements are from theory. Among many distances the largest is about 3. */
static void report_distances(es_answer *a, const regimes_distances *weights,
                             const regimes_distances *outputs)
{
    char also[120] = "";
    if (outputs->count)
        snprintf(also, sizeof also, " (%.2g for %d drifts and variances of the output)",
                 outputs->most, outputs->count);
    if (weights->count)
        es_answer_add_finding(
            a,
            "The largest deviation of %d measured means from their exact values is %.2g standard "
            "errors%s; up to about 3 happens by chance.",
            weights->count, weights->most, also);
}

/* Fills the tables and adds findings about the distances between measured and predicted weights and
 * outputs. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    regimes_distances weights = {0}, outputs = {0};
    ES_TRY(regimes_fill_rows(job, answer, &weights, err));
    if (regimes_has_outputs(job))
        ES_TRY(regimes_fill_outputs(job, answer, &outputs, err));
    report_distances(answer, &weights, &outputs);
    return es_answer_status(answer, err);
}

static const char *const examples[] = {
    "esscher regimes",
    "esscher regimes --dim 2,3,5,10,50 --n 1e4 --b 1",
    "esscher regimes --dim 3 --n 1e3..1e15*5 --b 0.5",
    "esscher regimes --dim 50 --n 1e6 --beta 5,20,80",
    "esscher regimes --key-law vanishing --power 3 --n 1e6",
    "esscher regimes --key-law vmf --kappa 5 --cosine 0.3 --dim 8 --n 1e3,1e4 --beta 2,4",
    "esscher regimes --key-law file --points K.npy --n 1000 --beta 8 --json",
    NULL};

const es_study es_study_regimes = {
    "regimes",
    .summary = "when many, a few or one of the keys on a sphere share the attention weight",
    .group = ES_GROUP_LAB,
    .main_options = "dim n b beta key-law kappa points query replicates Wv",
    .usage = "[options]",
    .about =
        "A query and n keys on the unit sphere, weights softmax(beta <q, k>). As n grows, beta "
        "decides. Far below the critical scale n^(2/(D-1)) many keys share the weight and the "
        "output is an average. At that scale a few keys share it, and which ones stays random. Far "
        "above, the nearest key takes all [proved].\n\n"
        "For each n and beta this simulates the weights and shows beside them the exact "
        "expectation for n keys, the limit law for infinitely many, and asymptotic forms. It "
        "tests the ordered weights against the limit law, and gives the regime with its reason: "
        "averaging if 100 keys or more share the weight (two thirds of n if n < 150; counted "
        "as 1/(E sum w^2), exact for n keys), single-key if fewer than 2 do, selective between. "
        "The cut-offs "
        "are a convention; the inverse temperatures at which they are passed are solved on the "
        "exact expectation.\n\n"
        "For vmf, mixture and --Wv also the output as a vector, while many keys share the weight: "
        "its drift along and across the query and the covariance of its fluctuations, predicted "
        "from the tilted law and measured over keys that are all drawn (up to 1e5).\n\n"
        "Keys are drawn in order, the nearest first, and only as many as matter, so n = 1e12 costs "
        "as much as n = 1e4. --brute draws all of them as vectors, as a check.",
    .examples = examples,
    .params = params,
    .size = sizeof(regimes_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .csv = "rows",
    .state = sizeof(regimes_state),
    .open = open_study,
    .cost = cost,
    .summarise = summarise};
