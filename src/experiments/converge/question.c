/* question.c : how fast attention on n tokens finds its infinite-token limit: what is asked,
 * a replicate, and what a run will take. From errors to tables: converge/rows.c.
 *
 * Operations and memory are counted. Time is tried: a smaller attention of the same shape, one
 * limit, one prediction, each on one thread by that thread's own clock, which stands still while
 * others use the machine. */
#include "experiments/converge/question.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <esscher/attend.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/view.h"
#include "driver/numbers.h"
#include "limit/limit.h"
#include "random/experiment.h"

const char *const converge_queries[] = {"self", "population", NULL};
static const char *const presets[] = {"quick", "paper", NULL};
enum { QUICK = 0, PAPER = 1 };

#define FIELD(member) .field = offsetof(converge_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(converge_params, law, "gaussian"),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 2, .max = 0x1p30,
     .increasing = true, .default_note = "250..4000*5", .unit = "tokens"},
    {"scales", 0, ES_PARAM_REALS, "GRID", "factors on A = Wk'Wq/sqrt(k)", FIELD(scales), .min = 0.0,
     .max = 1e12, .default_note = "1"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws of the tokens", FIELD(replicates),
     .min = 1, .max = 262144, .default_note = "32"},
    ES_HEAD_PARAMS(converge_params, head, "random"),
    {"queries", 0, ES_PARAM_CHOICE, "WHO",
     "self: the tokens are the queries; population: fresh queries, compared with what the limit "
     "does to the same",
     FIELD(queries), .choices = converge_queries, .default_value = "self"},
    {"reference", 0, ES_PARAM_TEXT, "exact|N",
     "what is compared with: the limit, or, as the papers' code does, the moments of one sample of "
     "N tokens. Its own distance from the limit is printed, and rows it spoils are left out of the "
     "rates",
     FIELD(reference), .default_value = "exact"},
    {"independent", 0, ES_PARAM_FLAG, NULL,
     "tokens of its own for every n, not prefixes of one sample: rows of one scale are then "
     "independent, as the tests of a straight line assume. Costs the sum of all n^2 instead of the "
     "largest",
     FIELD(independent)},
    {"preset", 0, ES_PARAM_CHOICE, "NAME",
     "quick, or paper: Gaussian, d = 50, rho = 0.1, n = 1e3..3e4*12, 200 replicates, scales "
     "0.05..50*12; with --law sphere d = 50, n = 1e4..1e5*12, 200 replicates, scales 5e3..5e11*12, "
     "f64. Other options win",
     FIELD(preset), .choices = presets, .default_value = "quick", .not_in_fingerprint = true},
    {"predict", 0, ES_PARAM_FLAG, NULL,
     "also the errors that theory expects at every scale and n, from the law and the head alone; "
     "Gaussian tokens around 0, some 0.2 s each",
     FIELD(predict), .not_in_fingerprint = true},
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

/* What --preset says holds only where nothing else was said, so that a preset can be varied one
 * option at a time. */
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
    ES_TRY(ES_JOB_NEW(job, text, ROOM, err));
    snprintf(text, ROOM, "%lld", (long long)*tokens);
    p->reference = text;
    return ES_OK;
}

/* At scale 1: horizons are linear in the score scale, so every row has its own by a product. */
static es_status make_horizons(es_job *job, converge_state *s, es_error *err)
{
    const int64_t d = s->law.law.dim;
    double *cov;
    ES_TRY(ES_JOB_NEW_2D(job, cov, d, d, err));
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
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *record,
                               es_error *err)
{
    double *out = record;
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
    s->spec = (es_converge_spec){&s->law.law,
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
    put_question(p, job->answer);
    if (es_converge_fails(&s->law.law))
        return converge_growth_open(job, err);
    ES_TRY(make_horizons(job, s, err));
    es_converge_cost one;
    ES_TRY(es_converge_cost_of(&s->spec, &one, err));
    return es_job_stage(job,
                        &(es_stage){"replicate", .phase = "drawing tokens", .noun = "replicates",
                                    .cells = p->replicates,
                                    .rows = p->scales.count * p->sizes.count,
                                    .cols = CONVERGE_ERRORS, .columns = cell_columns,
                                    .flops = one.flops, .run = run_replicate},
                        err);
}

static es_status begin(es_job *job, es_error *err)
{
    converge_state *s = job->state;
    return es_converge_fails(&s->law.law) ? ES_OK : es_converge_limit_new(&s->spec, &s->limit, err);
}

static void close_study(es_job *job)
{
    converge_state *s = job->state;
    es_converge_limit_free(s->limit);
}

static const double trial_flops = 8e10; /* a second or two */
enum { TRIALS = 2 };                    /* the best counts: neighbours also share caches */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- attention ---- */

/* Shapes of a replicate, its sizes shrunk by `factor`; they stay different. */
typedef struct trial {
    int64_t k, dv, prefixes;
    int64_t *sizes;
    double *q, *v;
    es_exec exec;
} trial;

/* Sizes that coincide after shrinking are dropped: es_attend() wants them to increase. */
static es_status trial_new(es_job *job, double factor, trial *t, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    *t = (trial){.k = es_head_key_dim(spec->head, spec->law->dim),
                 .dv = es_head_channels(spec->head, spec->law->dim),
                 .exec = job->exec};
    ES_TRY(ES_JOB_NEW(job, t->sizes, spec->n_sizes, err));
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        const int64_t n = (int64_t)fmax(2.0, factor * (double)spec->sizes[i]);
        if (t->prefixes == 0 || n > t->sizes[t->prefixes - 1])
            t->sizes[t->prefixes++] = n;
    }
    const int64_t n = t->sizes[t->prefixes - 1];
    ES_TRY(ES_JOB_NEW_2D(job, t->q, n, t->k, err));
    ES_TRY(ES_JOB_NEW_2D(job, t->v, n, t->dv, err));
    t->exec.threads = 1;
    return ES_OK;
}

/* What one attention took, or will. */
typedef struct pace {
    double seconds, flops;
    double outputs; /* queries, summed over sizes: each ends in a row for the moments */
} pace;

static double outputs_of(const int64_t *sizes, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)sizes[i];
    return sum;
}

static es_status trial_run(es_job *job, trial *t, pace *out, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    const int64_t n = t->sizes[t->prefixes - 1], sets = spec->n_scales * t->prefixes;
    const es_address at = {.seed = spec->seed, .experiment = ES_EXPERIMENT_BENCH};
    const es_view q = es_view_f64(t->q, n, t->k), v = es_view_f64(t->v, n, t->dv);
    const es_attend_opts opts = {
        spec->precision,      .scales = spec->scales,    .n_scales = spec->n_scales,
        .prefixes = t->sizes, .n_prefixes = t->prefixes, .self = true,
        .exec = &t->exec};
    es_moments *moments;
    ES_TRY(ES_JOB_NEW(job, moments, sets, err));
    const es_attend_out results = {.moments = moments};
    es_attend_plan plan = {0};
    es_status status = es_attend_plan_for(n, n, t->k, t->dv, &opts, true, &plan, err);
    if (status == ES_OK)
        status = es_normal_rows(&at, n, t->k, t->q, err);
    if (status == ES_OK)
        status = es_normal_rows(&at, n, t->dv, t->v, err);
    const double start = cpu_seconds();
    if (status == ES_OK)
        status = es_attend(&q, &q, &v, &opts, &results, err);
    *out = (pace){.seconds = cpu_seconds() - start,
                  .flops = plan.flops,
                  .outputs = outputs_of(t->sizes, t->prefixes)};
    for (int64_t i = 0; i < sets; i++)
        es_moments_free(&moments[i]);
    return status;
}

/* The best of a few counts: whatever disturbs a trial only adds to its time. */
static es_status try_size(es_job *job, double factor, pace *best, es_error *err)
{
    trial t;
    ES_TRY(trial_new(job, factor, &t, err));
    best->seconds = (double)INFINITY;
    for (int i = 0; i < TRIALS; i++) {
        pace once;
        ES_TRY(trial_run(job, &t, &once, err));
        if (once.seconds < best->seconds)
            *best = once;
    }
    return ES_OK;
}

/* Two sizes tell apart what grows like n^2 and what grows like n. */
static es_status time_attention(es_job *job, double replicate_flops, pace *whole, es_error *err)
{
    const double factor = fmin(1.0, sqrt(trial_flops / replicate_flops));
    pace large, small;
    ES_TRY(try_size(job, factor, &large, err));
    ES_TRY(try_size(job, 0.5 * factor, &small, err));
    const double ratio = large.outputs / small.outputs;
    double per_flop = (large.seconds - ratio * small.seconds) / (large.flops - ratio * small.flops);
    double per_output = (small.seconds - per_flop * small.flops) / small.outputs;
    if (!(per_flop > 0.0) || !(per_output > 0.0)) { /* within the noise: all of it like n^2 */
        per_flop = large.seconds / large.flops;
        per_output = 0.0;
    }
    whole->seconds =
        (per_flop * whole->flops + per_output * whole->outputs) / (double)job->exec.threads;
    return ES_OK;
}

/* ---- the rest ---- */

/* Limits of all scales, from that of one. */
static es_status time_limits(const es_job *job, double *seconds, es_error *err)
{
    enum { FEW = 2048 }; /* points: the sum over all pairs of an empirical law is not for trying */
    es_converge_spec one = ((const converge_state *)job->state)->spec;
    es_law law = *one.law;
    es_exec exec = job->exec;
    es_view few;
    double factor = (double)one.n_scales / (double)exec.threads;
    exec.threads = 1;
    one.exec = &exec;
    one.scales += one.n_scales / 2;
    one.n_scales = 1;
    one.reference = 0;
    if (law.points && law.points->rows > FEW) {
        const double ratio = (double)law.points->rows / FEW;
        few = es_view_rows(law.points, 0, FEW);
        law.points = &few;
        factor *= ratio * ratio;
    }
    one.law = &law;
    es_converge_limit *limit;
    const double start = cpu_seconds();
    const es_status status = es_converge_limit_new(&one, &limit, err);
    *seconds = factor * (cpu_seconds() - start);
    es_converge_limit_free(limit);
    return status;
}

/* Predictions are made one after the other. */
static es_status time_predictions(es_job *job, double *seconds, es_error *err)
{
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    converge_theory theory;
    es_predicted p;
    double sampling;
    const double start = cpu_seconds();
    ES_TRY(converge_theory_new(job, &theory, err));
    ES_TRY(converge_predict(job, &theory, spec->scales[spec->n_scales / 2],
                            spec->sizes[spec->n_sizes - 1], &p, &sampling, err));
    *seconds = (double)(spec->n_scales * spec->n_sizes) * (cpu_seconds() - start);
    return ES_OK;
}

static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const converge_params *p = job->params;
    const es_converge_spec *spec = &((const converge_state *)job->state)->spec;
    es_converge_cost one;
    double limits = 0.0, predictions = 0.0;
    const double R = (double)p->replicates;
    if (es_converge_fails(spec->law))
        return converge_growth_cost(job, out, err);
    ES_TRY(es_converge_cost_of(spec, &one, err));
    *out = (es_cost){.flops = R * one.flops + one.limit_flops,
                     .begin_flops = one.limit_flops,
                     .output_bytes = R * (double)(spec->n_scales * spec->n_sizes) *
                                     (double)sizeof(es_converge_cell),
                     .work_bytes = (double)one.bytes + (double)one.limit_bytes};
    if (!job->dry_run)
        return ES_OK;
    pace whole = {.flops = out->flops,
                  .outputs = R * outputs_of(spec->sizes, spec->n_sizes) + (double)spec->reference};
    ES_TRY(time_attention(job, one.flops, &whole, err));
    ES_TRY(time_limits(job, &limits, err));
    if (p->predict)
        ES_TRY(time_predictions(job, &predictions, err));
    out->seconds = whole.seconds + limits + predictions;
    return ES_OK;
}

/* ---- the study ---- */

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
    "converge",
    .summary = "how fast attention over n random tokens approaches its limit",
    .group = ES_GROUP_LAB,
    .main_options = "law dim cov n scales replicates head Wq Wk A predict",
    .usage = "[options]",
    .about =
        "Draws tokens from a law, lets a head attend over the first n of them for every n of "
        "the grid and every score scale in one pass, and measures how far the outputs are from "
        "those over infinitely many tokens: their mean, their covariance, and query by query. "
        "The limit is a closed form or a quadrature where one exists. Rates come with standard "
        "errors, a test of the power law, and the exponents that the theory predicts from the "
        "weights alone: bounds [cited], and what follows for Gaussian tokens as n grows "
        "[heuristic]. --predict adds the errors at these n, of one output [proved], of mean "
        "and covariance to first order in one token [heuristic].\n\n"
        "With --head rotation or identity and standard normal tokens the horizon H is the "
        "scale itself. With --reference N one sees what becomes of rates that are measured "
        "against a sample.\n\n"
        "Tokens of student, laplace and logistic have exponential moments nowhere, or up to an "
        "edge beyond which some queries lie: attention has no limit there. Measured is then how "
        "outputs grow with n and how few tokens they are made of, over the queries that have no "
        "limit, beside extreme-value theory [heuristic].\n\n"
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
    .summarise = converge_summarise,
    .close = close_study};
