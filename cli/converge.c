/* esscher converge : how fast attention on n tokens finds its infinite-token limit. */
#include "converge.h"

#include <stdlib.h>
#include <string.h>

#include <esscher/limit.h>

#include "answer.h"
#include "grid.h"
#include "law_options.h"
#include "number.h"
#include "run_file.h"
#include "talk.h"

typedef struct converge_options {
    cli_law_options law;
    cli_grid sizes, scales;
    int64_t replicates;
    converge_head_options head;
    int queries, preset; /* indices into the choices below; -1: not given */
    const char *reference;
    char reference_text[24]; /* the same, as run files know it */
    bool independent, predict;
    cli_run_options run;
} converge_options;

static const char *const query_choices[] = {"self", "population", NULL};
static const char *const preset_choices[] = {"quick", "paper", NULL};
enum { SELF = 0, POPULATION = 1, QUICK = 0, PAPER = 1 };

static const converge_options defaults = {
    .law = CLI_LAW_DEFAULTS, .head = {.kind = -1}, .queries = -1, .preset = -1};

static const cli_option options[] = {
    CLI_LAW_OPTIONS(converge_options, law),
    {"n", 0, CLI_COUNTS, "GRID", "numbers of tokens (default: 250..4000*5)",
     .field = offsetof(converge_options, sizes), .min = 2, .max = 0x1p30, .increasing = true},
    {"scales", 0, CLI_REALS, "GRID", "factors on A = Wk'Wq/sqrt(k) (default: 1)",
     .field = offsetof(converge_options, scales), .min = 0.0, .max = 1e12},
    {"replicates", 0, CLI_WHOLE, "R", "independent draws of the tokens (default: 32)",
     .field = offsetof(converge_options, replicates), .min = 1, .max = 262144},
    {"head", 0, CLI_CHOICE, "KIND",
     "random: Wq, Wk, Wv with entries N(0, 1/d) (default); rotation: A a random rotation, values "
     "the tokens; identity: A = I, likewise. All from the seed",
     .field = offsetof(converge_options, head.kind), .choices = converge_head_names},
    {"Wq", 0, CLI_STRING, "FILE", "query matrix, .npy (k, d), instead of --head",
     .field = offsetof(converge_options, head.file[HEAD_WQ])},
    {"Wk", 0, CLI_STRING, "FILE", "key matrix, .npy (k, d), with --Wq",
     .field = offsetof(converge_options, head.file[HEAD_WK])},
    {"Wv", 0, CLI_STRING, "FILE",
     "value matrix, .npy (dv, d) (default: N(0, 1/d) for a random head and for --Wq, else the "
     "identity)",
     .field = offsetof(converge_options, head.file[HEAD_WV])},
    {"A", 0, CLI_STRING, "FILE", "score matrix itself, .npy (d, d), instead of --Wq and --Wk",
     .field = offsetof(converge_options, head.file[HEAD_A])},
    {"queries", 0, CLI_CHOICE, "WHO",
     "self: the tokens are the queries; population: fresh queries, compared with what the limit "
     "does to the same (default: self)",
     .field = offsetof(converge_options, queries), .choices = query_choices},
    {"reference", 0, CLI_STRING, "exact|N",
     "what is compared with: the limit, or, as the papers' code does, the moments of one sample of "
     "N tokens. Its own distance from the limit is printed, and rows it spoils are left out of the "
     "rates (default: exact)",
     .field = offsetof(converge_options, reference)},
    {"independent", 0, CLI_FLAG, NULL,
     "tokens of its own for every n, not prefixes of one sample: rows of one scale are then "
     "independent, as the tests of a straight line assume. Costs the sum of all n^2 instead of the "
     "largest",
     .field = offsetof(converge_options, independent)},
    {"preset", 0, CLI_CHOICE, "NAME",
     "quick, or paper: Gaussian, d = 50, rho = 0.1, n = 1e3..3e4*12, 200 replicates, scales "
     "0.05..50*12; with --law sphere d = 50, n = 1e4..1e5*12, 200 replicates, scales "
     "5e3..5e11*12, f64. Other options win",
     .field = offsetof(converge_options, preset), .choices = preset_choices, .aside = true},
    {"predict", 0, CLI_FLAG, NULL,
     "also the errors that theory expects at every scale and n, without fitted constants; Gaussian "
     "tokens around 0, some 0.2 s each",
     .field = offsetof(converge_options, predict), .aside = true},
    CLI_RUN_OPTIONS(converge_options, run),
    {0}};

static const cli_table *const views[] = {&cli_cost_table,
                                         &converge_rows_table,
                                         &converge_fits_table,
                                         &converge_references_table,
                                         &converge_predictions_table,
                                         NULL};

/* ---- what was asked ---- */

static void default_grid(cli_grid *grid, const char *text, bool whole)
{
    const cli_grid_rule rule = {.min = 0.0, .max = 1e30};
    char why[128];
    if (grid->count == 0)
        cli_grid_parse(text, whole, &rule, grid, why, (int)sizeof why);
}

/* The papers' parameters. Their code puts the scale s of a sphere's head on Wq and on Wk, whose
 * entries are N(0, 1): s^2 d on our A, and s = 10..1e5 becomes 5e3..5e11. */
typedef struct preset {
    int64_t dim;
    double rho;
    const char *sizes, *scales;
    int64_t replicates;
} preset;

static const preset quick = {.rho = 1.0, .sizes = "250..4000*5", .scales = "1", .replicates = 32},
                    paper_gaussian = {50, 0.1, "1e3..3e4*12", "0.05..50*12", 200},
                    paper_sphere = {50, 1.0, "1e4..1e5*12", "5e3..5e11*12", 200};

static void set_f64(cli_session *session)
{
    json_t *provenance = json_object_get(session->answer, "provenance");
    session->common.precision = 1;
    json_object_set_new(provenance, "precision",
                        json_string(es_dtype_name(cli_precision(session))));
}

static void complete(cli_session *session, converge_options *o)
{
    if (o->law.kind < 0)
        o->law.kind = ES_LAW_GAUSSIAN - 1;
    const preset *p = o->preset != PAPER                 ? &quick
                      : o->law.kind == ES_LAW_SPHERE - 1 ? &paper_sphere
                                                         : &paper_gaussian;
    if (p->dim && o->law.dim == 0 && !o->law.cov) {
        o->law.dim = p->dim;
        o->law.rho = o->law.rho == 1.0 ? p->rho : o->law.rho;
    }
    if (p == &paper_sphere && session->common.precision < 0)
        set_f64(session); /* scores are up to 1e12 */
    default_grid(&o->sizes, p->sizes, true);
    default_grid(&o->scales, p->scales, false);
    if (o->replicates == 0)
        o->replicates = p->replicates;
    if (o->queries < 0)
        o->queries = SELF;
}

/* --reference as a number of tokens, 0: exact; and as text that is the same for 1e5 and 100000. */
static es_status read_reference(converge_options *o, int64_t *tokens, es_error *err)
{
    const char *why = NULL;
    *tokens = 0;
    if (o->reference && strcmp(o->reference, "exact") != 0)
        why = cli_number_whole(o->reference, tokens);
    if (why || (o->reference && *tokens == 0 && strcmp(o->reference, "exact") != 0) ||
        *tokens < 0 || *tokens == 1 || *tokens > INT64_C(1) << 30)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.reference",
                        "exact, or a number of tokens from 2 to 2^30", "--reference %s",
                        o->reference);
    if (*tokens && o->queries == POPULATION)
        return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.reference",
                        "leave one of the two out: fresh queries are compared with what the limit "
                        "does to the same queries",
                        "--reference %s with --queries population", o->reference);
    if (*tokens)
        snprintf(o->reference_text, sizeof o->reference_text, "%lld", (long long)*tokens);
    else
        snprintf(o->reference_text, sizeof o->reference_text, "exact");
    o->reference = o->reference_text;
    return ES_OK;
}

static es_status horizons(converge_job *job, es_error *err)
{
    const es_law *law = job->spec.law;
    double *cov = cli_alloc_array((size_t)(law->dim * law->dim), sizeof *cov);
    const es_view view = es_view_f64(cov, law->dim, law->dim);
    es_status status = es_limit_token_moments(law, &job->session->budget, NULL, cov, err);
    if (status == ES_OK)
        status =
            es_horizons_of(&view, 0.0, job->spec.head, &job->session->budget, &job->horizons, err);
    free(cov);
    return status;
}

/* ---- all replicates ---- */

static es_status measure(converge_job *job, const cli_run_file *file, int64_t stage, es_error *err)
{
    cli_progress *progress = &job->session->progress;
    const int64_t cells = job->spec.n_scales * job->spec.n_sizes;
    es_exec exec = job->session->exec;
    exec.progress =
        cli_progress_silent; /* a replicate is several passes: progress counts replicates */
    es_converge_spec spec = job->spec;
    spec.exec = &exec;
    progress->parts = (double)job->replicates;
    for (int64_t r = 0; r < job->replicates; r++) {
        es_converge_cell *out = job->cells + r * cells;
        bool done = false;
        es_status status = cli_run_find(file, stage, r, (double *)out, &done, err);
        if (status == ES_OK && !done) {
            status = es_converge_replicate(&spec, job->limit, r, out, err);
            if (status == ES_OK)
                status = cli_run_keep(file, stage, r, (const double *)out, err);
        }
        if (status == ES_OK) {
            progress->part = (double)(r + 1);
            status = cli_progress_tell(progress, 0.0, 1.0) ? ES_E_INTERRUPTED : ES_OK;
        }
        if (status == ES_E_INTERRUPTED)
            return cli_run_interrupted(file, (int64_t)progress->part, job->replicates, "replicates",
                                       err);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

static es_status compute(converge_job *job, const converge_options *o, es_error *err)
{
    static const char *const columns[] = {"mean_error", "cov_frobenius", "cov_spectral",
                                          "map_error"};
    cli_run_file file;
    int64_t stage;
    const int64_t cells = job->spec.n_scales * job->spec.n_sizes;
    es_status status = cli_run_open(job->session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = cli_run_stage(&file, "replicate", cells, 4, columns, &stage, err);
    if (status == ES_OK)
        status = es_converge_limit_new(&job->spec, &job->limit, err);
    job->cells = cli_alloc_array((size_t)(job->replicates * cells), sizeof *job->cells);
    if (status == ES_OK)
        status = measure(job, &file, stage, err);
    if (status == ES_OK)
        status = converge_answer(job, err);
    if (status == ES_OK && o->predict)
        status = converge_predict(job, err);
    status = cli_run_close(&file, job->session, status, err);
    es_converge_limit_free(job->limit);
    free(job->cells);
    return status;
}

static void put_question(const converge_job *job, const converge_options *o)
{
    json_t *answer = job->session->answer;
    json_object_set_new(
        answer, "head",
        json_string(job->head_kind < 0 ? "file" : converge_head_names[job->head_kind]));
    json_object_set_new(answer, "queries", json_string(query_choices[o->queries]));
    json_object_set_new(answer, "reference", json_string(o->reference));
    json_object_set_new(answer, "independent", json_boolean(o->independent));
    json_object_set_new(answer, "replicates", json_integer(o->replicates));
}

/* Law and head, from options and files. */
static es_status make_inputs(cli_session *session, converge_options *o, cli_law *law,
                             converge_head *head, es_error *err)
{
    int64_t dim;
    es_status status = converge_head_dim(&o->head, &dim, err);
    if (status == ES_OK && dim == 0 && o->law.dim == 0 && !o->law.cov && !o->law.mean &&
        !o->law.points && !o->law.means)
        o->law.dim = 10;
    if (status == ES_OK)
        status = cli_law_make(session, &o->law, dim, law, err);
    if (status == ES_OK && o->predict)
        status = converge_predictable(&law->law, err);
    return status == ES_OK ? converge_head_make(session, &o->head, law->law.dim, head, err)
                           : status;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    converge_options *o = opts;
    cli_law law = {0};
    converge_head head = {0};
    int64_t reference;
    cli_cost cost;
    complete(session, o);
    es_status status = read_reference(o, &reference, err);
    if (status == ES_OK)
        status = make_inputs(session, o, &law, &head, err);
    converge_job job = {.session = session,
                        .head_kind = o->head.kind,
                        .replicates = o->replicates,
                        .spec = {.law = &law.law,
                                 .head = &head.head,
                                 .scales = o->scales.reals,
                                 .n_scales = o->scales.count,
                                 .sizes = o->sizes.counts,
                                 .n_sizes = o->sizes.count,
                                 .seed = session->common.seed,
                                 .precision = cli_precision(session),
                                 .population = o->queries == POPULATION,
                                 .independent = o->independent,
                                 .reference = reference,
                                 .exec = &session->exec}};
    if (status == ES_OK)
        status = horizons(&job, err);
    if (status == ES_OK)
        status = converge_cost(&job, o->predict, &cost, err);
    if (status == ES_OK)
        put_question(&job, o);
    if (status == ES_OK && session->common.dry_run)
        status = cli_cost_answer(session, &cost, err);
    else if (status == ES_OK && (status = cli_cost_admit(session, &cost, err)) == ES_OK)
        status = compute(&job, o, err);
    converge_head_free(&head);
    cli_law_free(&law);
    return status;
}

static const char *const examples[] = {
    "esscher converge",
    "esscher converge --law sphere --dim 3 --scales 1,4,16 --n 100..3000*6",
    "esscher converge --dim 10 --head rotation --scales 0.05,0.2,0.5,1,2,5 --predict",
    "esscher converge --scales 1,4 --reference 16000",
    "esscher converge --preset paper --out paper.run",
    "esscher converge --preset paper --out paper.run --resume",
    NULL};

const cli_command cli_converge = {
    .name = "converge",
    .summary = "how fast attention on n random tokens finds its limit",
    .usage = "[options]",
    .about = "Draws tokens from a law, lets a head attend over the first n of them for every n of "
             "the grid and every "
             "score scale in one pass, and measures how far the outputs are from those over "
             "infinitely many tokens: "
             "their mean, their covariance, and query by query. The limit is a closed form or a "
             "quadrature where one "
             "exists. Rates come with standard errors, a test of the power law, and the exponents "
             "that the theory "
             "predicts from the weights alone.\n\n"
             "With --head rotation or identity and standard normal tokens the horizon H is the "
             "scale itself. With --reference N one sees what becomes of rates that are measured "
             "against a sample.\n\n"
             "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_COMPUTE | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(converge_options),
    .views = views,
    .run = run,
};
