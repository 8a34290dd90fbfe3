/* converge_study.c : how fast attention on n tokens finds its infinite-token limit. */
#include "study/converge_study.h"

#include <stdio.h>
#include <string.h>

#include <esscher/limit.h>

#include "base/error.h"
#include "driver/numbers.h"

const char *const converge_queries[] = {"self", "population", NULL};
static const char *const presets[] = {"quick", "paper", NULL};
enum { QUICK = 0, PAPER = 1 };

#define FIELD(member) .field = offsetof(converge_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(converge_params, law, "gaussian"),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 2, .max = 0x1p30,
     .increasing = true, .otherwise = "250..4000*5", .unit = "tokens"},
    {"scales", 0, ES_PARAM_REALS, "GRID", "factors on A = Wk'Wq/sqrt(k)", FIELD(scales), .min = 0.0,
     .max = 1e12, .otherwise = "1"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws of the tokens", FIELD(replicates),
     .min = 1, .max = 262144, .otherwise = "32"},
    ES_HEAD_PARAMS(converge_params, head, "random"),
    {"queries", 0, ES_PARAM_CHOICE, "WHO",
     "self: the tokens are the queries; population: fresh queries, compared with what the limit "
     "does to the same",
     FIELD(queries), .choices = converge_queries, .standard = "self"},
    {"reference", 0, ES_PARAM_TEXT, "exact|N",
     "what is compared with: the limit, or, as the papers' code does, the moments of one sample of "
     "N tokens. Its own distance from the limit is printed, and rows it spoils are left out of the "
     "rates",
     FIELD(reference), .standard = "exact"},
    {"independent", 0, ES_PARAM_FLAG, NULL,
     "tokens of its own for every n, not prefixes of one sample: rows of one scale are then "
     "independent, as the tests of a straight line assume. Costs the sum of all n^2 instead of the "
     "largest",
     FIELD(independent)},
    {"preset", 0, ES_PARAM_CHOICE, "NAME",
     "quick, or paper: Gaussian, d = 50, rho = 0.1, n = 1e3..3e4*12, 200 replicates, scales "
     "0.05..50*12; with --law sphere d = 50, n = 1e4..1e5*12, 200 replicates, scales "
     "5e3..5e11*12, f64. Other options win",
     FIELD(preset), .choices = presets, .standard = "quick", .aside = true},
    {"predict", 0, ES_PARAM_FLAG, NULL,
     "also the errors that theory expects at every scale and n, from the law and the head alone; "
     "Gaussian tokens around 0, some 0.2 s each",
     FIELD(predict), .aside = true},
    {0}};

/* ---- what was asked ---- */

/* The papers' parameters. Their code puts the scale s of a sphere's head on Wq and on Wk, whose
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

/* --reference as a number of tokens, 0: exact; and as text that is the same for 1e5 and 100000. */
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
    if (p->queries == CONVERGE_POPULATION)
        return es_refuse(err, "converge.reference",
                         "leave one of the two out: fresh queries are compared with what the limit "
                         "does to the same queries",
                         "--reference %s with --queries population", p->reference);
    char *text;
    enum { ROOM = 24 };
    ES_TRY(es_job_array(job, ROOM, 1, 1, &text, err));
    snprintf(text, ROOM, "%lld", (long long)*tokens);
    p->reference = text;
    return ES_OK;
}

static es_status make_horizons(es_job *job, converge_state *s, es_error *err)
{
    const int64_t d = s->law.law.dim;
    double *cov;
    ES_TRY(es_job_array(job, d, d, sizeof *cov, &cov, err));
    const es_view view = es_view_f64(cov, d, d);
    ES_TRY(es_limit_token_moments(&s->law.law, job->exec.budget, NULL, cov, err));
    return es_horizons_of(&view, 0.0, &s->head.head, job->exec.budget, &s->horizons, err);
}

static void put_question(const converge_params *p, es_answer *a)
{
    es_answer_text(a, "head", p->head.kind < 0 ? "file" : es_head_kinds[p->head.kind]);
    es_answer_text(a, "queries", converge_queries[p->queries]);
    es_answer_text(a, "reference", p->reference);
    es_answer_flag(a, "independent", p->independent);
    es_answer_count(a, "replicates", p->replicates);
}

/* ---- replicates ---- */

static const char *const cell_columns[] = {"mean_error", "cov_frobenius", "cov_spectral",
                                           "map_error"};

/* One draw of the tokens: all scales and sizes of it, in one pass. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, double *out,
                               es_error *err)
{
    const converge_state *s = job->state;
    es_converge_spec spec = s->spec;
    spec.exec = exec;
    return es_converge_replicate(&spec, s->limit, cell, (es_converge_cell *)(void *)out, err);
}
_Static_assert(sizeof(es_converge_cell) == CONVERGE_ERRORS * sizeof(double),
               "a cell is its four errors");

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
    s->spec = (es_converge_spec){.law = &s->law.law,
                                 .head = &s->head.head,
                                 .scales = p->scales.reals,
                                 .n_scales = p->scales.count,
                                 .sizes = p->sizes.counts,
                                 .n_sizes = p->sizes.count,
                                 .seed = job->seed,
                                 .precision = job->precision,
                                 .population = p->queries == CONVERGE_POPULATION,
                                 .independent = p->independent,
                                 .reference = reference,
                                 .exec = &job->exec};
    ES_TRY(make_horizons(job, s, err));
    put_question(p, job->answer);
    es_converge_cost one;
    ES_TRY(es_converge_cost_of(&s->spec, &one, err));
    return es_job_stage(job,
                        &(es_stage){.name = "replicate",
                                    .phase = "drawing tokens",
                                    .noun = "replicates",
                                    .cells = p->replicates,
                                    .rows = p->scales.count * p->sizes.count,
                                    .cols = CONVERGE_ERRORS,
                                    .columns = cell_columns,
                                    .flops = one.flops,
                                    .run = run_replicate},
                        err);
}

static es_status begin(es_job *job, es_error *err)
{
    converge_state *s = job->state;
    return es_converge_limit_new(&s->spec, &s->limit, err);
}

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
    "esscher converge --preset paper --out paper.run",
    "esscher converge --preset paper --out paper.run --resume",
    NULL};

const es_study es_study_converge = {
    .name = "converge",
    .summary = "how fast attention on n random tokens finds its limit",
    .usage = "[options]",
    .about = "Draws tokens from a law, lets a head attend over the first n of them for every n of "
             "the grid and every score scale in one pass, and measures how far the outputs are "
             "from those over infinitely many tokens: their mean, their covariance, and query by "
             "query. The limit is a closed form or a quadrature where one exists. Rates come with "
             "standard errors, a test of the power law, and the exponents that the theory predicts "
             "from the weights alone.\n\n"
             "With --head rotation or identity and standard normal tokens the horizon H is the "
             "scale itself. With --reference N one sees what becomes of rates that are measured "
             "against a sample.\n\n"
             "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(converge_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS | ES_TAKES_ISA | ES_TAKES_PRECISION,
    .csv = "rows",
    .state = sizeof(converge_state),
    .open = open_study,
    .cost = converge_cost,
    .begin = begin,
    .summarise = converge_summarise,
    .close = close_study,
};
