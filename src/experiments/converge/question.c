/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the study `converge`: parameters, help, and the choice between its two questions:
 * how fast attention approaches its limit (rows.c), or how it grows without one (growth.c). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "driver/numbers.h"
#include "experiments/converge/converge.h"

static const char *const query_kinds[] = {"self", "population", NULL};
enum { SELF = 0, POPULATION = 1 };
static const char *const presets[] = {"quick", "paper", NULL};
enum { QUICK = 0, PAPER = 1 };

#define FIELD(member) .field = offsetof(converge_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(converge_params, law, "gaussian"),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 2, .max = 0x1p30,
     .increasing = true, .default_note = "250..4000*5", .unit = "tokens"},
    {"scales", 0, ES_PARAM_REALS, "GRID", "score scales: factors on A = Wk'Wq/sqrt(k)",
     FIELD(scales), .min = 0.0, .max = 1e12, .default_note = "1"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws of the tokens", FIELD(replicates),
     .min = 1, .max = 262144, .default_note = "32"},
    ES_HEAD_PARAMS(converge_params, head, "random",
                   "N(0, 1/d) for a random head or with --Wq, else the identity"),
    {"queries", 0, ES_PARAM_CHOICE, "WHO",
     "self: the tokens are the queries; population: fresh queries, compared with the limit at the "
     "same queries",
     FIELD(queries), .choices = query_kinds, .default_value = "self"},
    {"reference", 0, ES_PARAM_TEXT, "exact|N",
     "compare with the exact limit, or, as the papers' code does, with the moments of one sample "
     "of "
     "N tokens. Rates leave out rows in which the sample's own error is large",
     FIELD(reference), .default_value = "exact"},
    {"independent", 0, ES_PARAM_FLAG, NULL,
     "draw new tokens for every n instead of prefixes of one sample: rows of one scale are then "
     "independent, as tests of a straight line assume. Costs the sum of all n^2 instead of the "
     "largest",
     FIELD(independent)},
    {"preset", 0, ES_PARAM_CHOICE, "NAME",
     "quick, or paper: Gaussian, d = 50, rho = 0.1, n = 1e3..3e4*12, 200 replicates, scales "
     "0.05..50*12; with --law sphere d = 50, n = 1e4..1e5*12, 200 replicates, scales 5e3..5e11*12, "
     "f64. Other options override it",
     FIELD(preset), .choices = presets, .default_value = "quick", .not_in_fingerprint = true},
    {"predict", 0, ES_PARAM_FLAG, NULL,
     "also predict the errors at every scale and n from the law and the head alone; needs Gaussian "
     "tokens with mean 0, takes about 0.2 s each",
     FIELD(predict), .not_in_fingerprint = true},
    {0}};

/* ---- parameters ---- */

/* Parameters of the papers. Their code puts the scale s of a sphere's head on Wq and on Wk, whose
 * entries are N(0, 1): s^2 d on our A, and s = 10..1e5 becomes 5e3..5e11 (THEORY 11). */
typedef struct preset {
    int64_t dim;
    double rho;
    const char *sizes, *scales;
    int64_t replicates;
} preset;

static const preset quick = {.rho = 1.0, .sizes = "250..4000*5", .scales = "1", .replicates = 32},
                    paper_gaussian = {50, 0.1, "1e3..3e4*12", "0.05..50*12", 200},
                    paper_sphere = {50, 1.0, "1e4..1e5*12", "5e3..5e11*12", 200};

/* Fills options that were not given from the preset, so that a preset can be varied one option at
 * a time. */
static es_status complete(es_job *job, converge_params *p, es_error *err)
{
    const bool sphere = p->law.kind == ES_LAW_SPHERE - 1;
    const preset *of = p->preset != PAPER ? &quick : sphere ? &paper_sphere : &paper_gaussian;
    if (of->dim && p->law.dim == 0 && !p->law.cov) {
        p->law.dim = of->dim;
        p->law.rho = p->law.rho == 1.0 ? of->rho : p->law.rho;
    }
    if (of == &paper_sphere && !job->precision_given)
        job->precision = ES_F64; /* scores are up to 1e12 */
    if (!p->sizes.count)
        ES_TRY(es_params_set(job->given, "n", of->sizes, err));
    if (!p->scales.count)
        ES_TRY(es_params_set(job->given, "scales", of->scales, err));
    if (p->replicates == 0)
        p->replicates = of->replicates;
    return ES_OK;
}

/* Reads --reference as a number of tokens, 0 for exact, and rewrites its text so that 1e5 and
 * 100000 are the same run. */
static es_status read_reference(es_job *job, converge_params *p, int64_t *tokens, es_error *err)
{
    const bool exact = strcmp(p->reference, "exact") == 0;
    *tokens = 0;
    const char *why = exact ? NULL : es_number_whole(p->reference, tokens);
    if (why || (!exact && *tokens < 2) || *tokens > INT64_C(1) << 30)
        return es_refuse(err, "converge.reference", "exact, or a number of tokens from 2 to 2^30",
                         "--reference %s", p->reference);
    if (exact)
        return ES_OK;
    if (p->queries == POPULATION)
        return es_refuse(
            err, "converge.reference",
            "leave one of the two out: fresh queries are compared with the limit at the "
            "same queries",
            "--reference %s with --queries population", p->reference);
    char *text;
    enum { SIZE = 24 };
    ES_TRY(ES_JOB_NEW(job, text, SIZE, err));
    snprintf(text, SIZE, "%lld", (long long)*tokens);
    p->reference = text;
    return ES_OK;
}

/* Stores the options as results of the answer. */
static void put_options(const converge_params *p, es_answer *a)
{
    es_answer_text(a, "head", p->head.kind < 0 ? "file" : es_head_kinds[p->head.kind]);
    es_answer_text(a, "queries", query_kinds[p->queries]);
    es_answer_text(a, "reference", p->reference);
    es_answer_flag(a, "independent", p->independent);
    es_answer_count(a, "replicates", p->replicates);
}

/* ---- the study ---- */

/* Opens the study: head, law, reference, then the question that fits the law. */
static es_status open_study(es_job *job, es_error *err)
{
    converge_params *p = job->params;
    converge_state *s = job->state;
    int64_t dim, reference;
    ES_TRY(complete(job, p, err));
    ES_TRY(read_reference(job, p, &reference, err));
    ES_TRY(es_head_dim(&p->head, &dim, err));
    if (dim == 0 && !es_law_params_speak(&p->law))
        p->law.dim = 10;
    ES_TRY(es_law_make(job, &p->law, dim, &s->law, err));
    if (p->predict)
        ES_TRY(converge_predictable(&s->law.law, err));
    ES_TRY(es_head_make(job, &p->head, s->law.law.dim, ES_HEAD_RANDOM, true, &s->head, err));
    s->spec = (es_converge_spec){&s->law.law,
                                 .head = &s->head.head,
                                 .scales = p->scales.reals,
                                 .n_scales = p->scales.count,
                                 .sizes = p->sizes.counts,
                                 .n_sizes = p->sizes.count,
                                 .seed = job->seed,
                                 .precision = job->precision,
                                 .population = p->queries == POPULATION,
                                 .independent = p->independent,
                                 .reference = reference,
                                 .exec = &job->exec};
    put_options(p, job->answer);
    s->question = es_converge_fails(&s->law.law) ? &converge_growth : &converge_to_limit;
    return s->question->open(job, err);
}

/* Returns the cost of the chosen question. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const converge_state *s = job->state;
    return s->question->cost(job, out, err);
}

/* Prepares the chosen question. */
static es_status begin(es_job *job, es_error *err)
{
    const converge_state *s = job->state;
    return s->question->begin ? s->question->begin(job, err) : ES_OK;
}

/* Summarises the chosen question. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    const converge_state *s = job->state;
    return s->question->summarise(job, answer, err);
}

/* Frees the limit. */
static void close_study(es_job *job)
{
    converge_state *s = job->state;
    es_converge_limit_free(s->limit);
}

static const char *const examples[] = {
    "esscher converge",
    "esscher converge --law sphere --dim 3 --scales 1,4,16 --n 100..3000*6",
    "esscher converge --dim 10 --head rotation --scales 0.05,0.2,0.5,1,2,5 --predict",
    "esscher converge --scales 1,4 --reference 16000",
    "esscher converge --law student --freedom 3 --dim 2 --n 100..1e5*7",
    "esscher converge --preset paper --out paper.run",
    "esscher converge --preset paper --out paper.run --resume",
    NULL};

const es_study es_study_converge = {
    .name = "converge",
    .summary = "how fast attention over n random tokens approaches its limit",
    .group = ES_GROUP_LAB,
    .main_options = "law dim cov n scales replicates head Wq Wk A predict",
    .usage = "[options]",
    .about =
        "Draws tokens from a law, computes attention over the first n of them for every n of the "
        "grid and every score scale in one pass, and measures how far the outputs are from those "
        "over infinitely many tokens: their mean, their covariance, and query by query. The limit "
        "is a closed form or a quadrature where one exists. Rates come with standard errors, a "
        "test of the power law, and the exponents that theory predicts from the weights alone: "
        "bounds [cited], and large-n exponents for Gaussian tokens [heuristic]. --predict adds "
        "the errors at these n: of one output [proved], of mean and covariance to first order in "
        "one token [heuristic].\n\n"
        "The horizon H measures how sharp attention is: spectral norm of S^1/2 A S^1/2 with the "
        "tokens' covariance S. With --head rotation or identity and standard normal tokens it is "
        "the scale itself. --reference N shows how rates change when they are measured against a "
        "sample.\n\n"
        "Tokens of student, laplace and logistic have exponential moments nowhere, or only up to "
        "an edge beyond which some queries lie: attention has no limit there. Such runs measure, "
        "over the queries without a limit, how outputs grow with n and how few tokens carry the "
        "weight, beside extreme-value theory [heuristic].\n\n"
        "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(converge_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "rows",
    .state = sizeof(converge_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = summarise,
    .close = close_study};
