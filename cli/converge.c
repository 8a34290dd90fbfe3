/* esscher converge : how fast attention on n tokens finds its infinite-token limit. */
#include "converge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/limit.h>
#include <esscher/random.h>

#include "answer.h"
#include "grid.h"
#include "law_options.h"
#include "run_file.h"
#include "talk.h"

enum { WQ, WK, WV, HEAD_FILES };

typedef struct converge_options {
    cli_law_options law;
    cli_grid sizes, scales;
    int64_t replicates;
    const char *head[HEAD_FILES];
    int queries, preset; /* indices into the choices below; -1: not given */
    bool predict;
    cli_run_options run;
} converge_options;

static const char *const query_choices[] = {"self", "population", NULL};
static const char *const preset_choices[] = {"quick", "paper", NULL};
enum { SELF = 0, POPULATION = 1, QUICK = 0, PAPER = 1 };

static const converge_options defaults = {.law = CLI_LAW_DEFAULTS, .queries = -1, .preset = -1};

static const cli_option options[] = {
    CLI_LAW_OPTIONS(converge_options, law),
    {"n", 0, CLI_COUNTS, "GRID", "numbers of tokens (default: 250..4000*5)",
     .field = offsetof(converge_options, sizes), .min = 2, .max = 0x1p30, .increasing = true},
    {"scales", 0, CLI_REALS, "GRID", "factors on A = Wk'Wq/sqrt(k) (default: 1)",
     .field = offsetof(converge_options, scales), .min = 0.0, .max = 1e8},
    {"replicates", 0, CLI_WHOLE, "R", "independent draws of the tokens (default: 32)",
     .field = offsetof(converge_options, replicates), .min = 1, .max = 262144},
    {"Wq", 0, CLI_STRING, "FILE", "query matrix, .npy (k, d) (default: N(0, 1/d) from the seed)",
     .field = offsetof(converge_options, head[WQ])},
    {"Wk", 0, CLI_STRING, "FILE", "key matrix, .npy (k, d) (default: likewise)",
     .field = offsetof(converge_options, head[WK])},
    {"Wv", 0, CLI_STRING, "FILE", "value matrix, .npy (dv, d) (default: likewise)",
     .field = offsetof(converge_options, head[WV])},
    {"queries", 0, CLI_CHOICE, "WHO",
     "self: the tokens are the queries; population: fresh queries, compared with what the limit "
     "does to the same (default: self)",
     .field = offsetof(converge_options, queries), .choices = query_choices},
    {"preset", 0, CLI_CHOICE, "NAME",
     "quick, or paper: Gaussian, d = 50, rho = 0.1, n = 1e3..3e4*12, 200 replicates, scales "
     "0.05..50*12; other options win",
     .field = offsetof(converge_options, preset), .choices = preset_choices, .aside = true},
    {"predict", 0, CLI_FLAG, NULL,
     "also the errors that theory expects at every scale and n, without fitted constants; Gaussian "
     "tokens around 0, some 0.2 s each",
     .field = offsetof(converge_options, predict), .aside = true},
    CLI_RUN_OPTIONS(converge_options, run),
    {0}};

static const cli_table *const views[] = {&cli_cost_table, &converge_rows_table,
                                         &converge_fits_table, &converge_predictions_table, NULL};

/* ---- what was asked ---- */

static void default_grid(cli_grid *grid, const char *text, bool whole)
{
    const cli_grid_rule rule = {.min = 0.0, .max = 1e30};
    char why[128];
    if (grid->count == 0)
        cli_grid_parse(text, whole, &rule, grid, why, (int)sizeof why);
}

static void complete(converge_options *o)
{
    const bool paper = o->preset == PAPER;
    if (o->law.kind < 0)
        o->law.kind = ES_LAW_GAUSSIAN - 1;
    if (paper && o->law.dim == 0 && !o->law.cov) {
        o->law.dim = 50;
        o->law.rho = 0.1;
    }
    default_grid(&o->sizes, paper ? "1e3..3e4*12" : "250..4000*5", true);
    default_grid(&o->scales, paper ? "0.05..50*12" : "1", false);
    if (o->replicates == 0)
        o->replicates = paper ? 200 : 32;
    if (o->queries < 0)
        o->queries = SELF;
}

/* The three matrices of a head, from files or from the seed, and the views the library reads. */
typedef struct head_data {
    cli_input matrix[HEAD_FILES];
    es_view view[HEAD_FILES];
    es_head head;
} head_data;

static void head_free(head_data *h)
{
    for (int i = 0; i < HEAD_FILES; i++)
        cli_input_free(&h->matrix[i]);
}

/* Entries N(0, 1/d), the papers' random head. */
static es_status random_matrix(const cli_session *session, int which, int64_t dim, cli_input *out,
                               es_error *err)
{
    const es_address at = {.seed = session->common.seed, .experiment = 10, .cell = (uint64_t)which};
    *out = (cli_input){
        .data = cli_alloc_array((size_t)(dim * dim), sizeof(double)), .rows = dim, .cols = dim};
    const es_status status = es_normal_rows(&at, dim, dim, out->data, err);
    for (int64_t i = 0; i < dim * dim; i++)
        out->data[i] /= sqrt((double)dim);
    return status;
}

static es_status head_make(cli_session *session, const converge_options *o, int64_t dim,
                           head_data *h, es_error *err)
{
    static const char *const roles[HEAD_FILES] = {"Wq", "Wk", "Wv"};
    if (!o->head[WQ] != !o->head[WK])
        return cli_fail(err, ES_E_ARGUMENT, NULL, "converge.options",
                        "give both, or neither for a random head", "--Wq and --Wk belong together");
    for (int i = 0; i < HEAD_FILES; i++) {
        const es_status status =
            o->head[i] ? cli_input_read(session, roles[i], o->head[i], -1, dim, &h->matrix[i], err)
                       : random_matrix(session, i, dim, &h->matrix[i], err);
        if (status != ES_OK)
            return status;
        h->view[i] = es_view_f64(h->matrix[i].data, h->matrix[i].rows, h->matrix[i].cols);
    }
    h->head = (es_head){.Wq = &h->view[WQ], .Wk = &h->view[WK], .V = &h->view[WV]};
    return ES_OK;
}

/* Dimension that the head's files speak of, 0: none. */
static es_status head_dim(const converge_options *o, int64_t *dim, es_error *err)
{
    *dim = 0;
    for (int i = 0; i < HEAD_FILES && *dim == 0; i++)
        if (o->head[i]) {
            const es_status status = cli_input_cols(o->head[i], dim, err);
            if (status != ES_OK)
                return status;
        }
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

static bool only_interrupts(void *user, double done, double total)
{
    (void)user;
    (void)done;
    (void)total;
    return cli_interrupted();
}

static es_status measure(converge_job *job, const cli_run_file *file, int64_t stage, es_error *err)
{
    cli_progress *progress = &job->session->progress;
    const int64_t cells = job->spec.n_scales * job->spec.n_sizes;
    es_exec exec = job->session->exec;
    exec.progress = only_interrupts; /* a replicate is several passes: progress counts replicates */
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

/* The whole run: replicates and the points of a sampled limit. */
static es_status cost_of(const converge_job *job, cli_cost *cost, es_error *err)
{
    es_converge_cost one;
    const es_status status = es_converge_cost_of(&job->spec, &one, err);
    const double cells = (double)(job->replicates * job->spec.n_scales * job->spec.n_sizes);
    *cost =
        (cli_cost){.flops = (double)job->replicates * one.flops,
                   .output_bytes = cells * (double)sizeof(es_converge_cell),
                   .work_bytes = (double)one.bytes + 65536.0 * 8.0 * (double)job->spec.law->dim};
    return status;
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    converge_options *o = opts;
    cli_law law = {0};
    head_data head = {0};
    int64_t dim;
    complete(o);
    es_status status = head_dim(o, &dim, err);
    if (status == ES_OK && dim == 0 && o->law.dim == 0 && !o->law.cov && !o->law.mean &&
        !o->law.points && !o->law.means)
        o->law.dim = 10;
    if (status == ES_OK)
        status = cli_law_make(session, &o->law, dim, &law, err);
    if (status == ES_OK && o->predict)
        status = converge_predictable(&law.law, err);
    if (status == ES_OK)
        status = head_make(session, o, law.law.dim, &head, err);
    converge_job job = {.session = session,
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
                                 .exec = &session->exec}};
    cli_cost cost;
    if (status == ES_OK)
        status = horizons(&job, err);
    if (status == ES_OK)
        status = cost_of(&job, &cost, err);
    if (status == ES_OK && session->common.dry_run)
        status = cli_cost_answer(session, &cost, err);
    else if (status == ES_OK && (status = cli_cost_admit(session, &cost, err)) == ES_OK)
        status = compute(&job, o, err);
    head_free(&head);
    cli_law_free(&law);
    return status;
}

static const char *const examples[] = {
    "esscher converge", "esscher converge --law sphere --dim 3 --scales 1,4,16 --n 100..3000*6",
    "esscher converge --preset paper --out paper.run",
    "esscher converge --preset paper --out paper.run --resume", NULL};

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
             "Grids are numbers, lists 64,128,256 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_COMPUTE | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(converge_options),
    .views = views,
    .run = run,
};
