/* esscher ball : the worst query of a ball, against the bound that holds for all of them at once.
 */
#include "ball.h"

#include <math.h>
#include <stdlib.h>

#include "answer.h"
#include "grid.h"
#include "law_options.h"
#include "run_file.h"
#include "talk.h"

enum { HEAD_A, HEAD_WQ, HEAD_WK, HEAD_WV, HEAD_FILES };

typedef struct ball_options {
    cli_law_options law;
    cli_grid sizes, radii;
    int64_t replicates, starts;
    const char *head[HEAD_FILES];
    cli_run_options run;
} ball_options;

static const ball_options defaults = {.law = CLI_LAW_DEFAULTS, .replicates = 32, .starts = 4};

static const cli_option options[] = {
    CLI_LAW_OPTIONS(ball_options, law),
    {"n", 0, CLI_COUNTS, "GRID", "numbers of tokens (default: 500..8000*5)",
     .field = offsetof(ball_options, sizes), .min = 1, .max = 0x1p30, .increasing = true},
    {"radii", 0, CLI_REALS, "GRID", "radii R of the balls (default: 0.5,0.75,1,1.25,1.5,2)",
     .field = offsetof(ball_options, radii), .min = 1e-100, .max = 1e100, .increasing = true},
    {"replicates", 0, CLI_WHOLE, "R", "independent draws of the tokens (default: 32)",
     .field = offsetof(ball_options, replicates), .min = 1, .max = 262144},
    {"starts", 0, CLI_WHOLE, "M",
     "random starts of the search, beside those that the head and the longest tokens suggest "
     "(default: 4)",
     .field = offsetof(ball_options, starts), .min = 1, .max = 1e6},
    {"A", 0, CLI_STRING, "FILE",
     "score matrix, .npy (d, d), the score scale included: tokens y have score x'A'y (default: "
     "identity)",
     .field = offsetof(ball_options, head[HEAD_A])},
    {"Wq", 0, CLI_STRING, "FILE", "with --Wk, instead of --A: query matrix, .npy (k, d)",
     .field = offsetof(ball_options, head[HEAD_WQ])},
    {"Wk", 0, CLI_STRING, "FILE", "key matrix, .npy (k, d); A = Wk'Wq/sqrt(k)",
     .field = offsetof(ball_options, head[HEAD_WK])},
    {"Wv", 0, CLI_STRING, "FILE", "value matrix, .npy (dv, d) (default: identity)",
     .field = offsetof(ball_options, head[HEAD_WV])},
    CLI_RUN_OPTIONS(ball_options, run),
    {0}};

static const cli_table *const views[] = {&cli_cost_table, &ball_rows_table, &ball_fits_table,
                                         &ball_growth_table, NULL};

/* ---- what was asked ---- */

static void default_grid(cli_grid *grid, const char *text, bool whole)
{
    const cli_grid_rule rule = {.min = 0.0, .max = 1e30};
    char why[128];
    if (grid->count == 0)
        cli_grid_parse(text, whole, &rule, grid, why, (int)sizeof why);
}

/* The dimension that the head's files speak of; 2 if nothing speaks of one. */
static es_status complete(ball_options *o, int64_t *dim, es_error *err)
{
    if (o->law.kind < 0)
        o->law.kind = ES_LAW_GAUSSIAN - 1;
    default_grid(&o->sizes, "500..8000*5", true);
    default_grid(&o->radii, "0.5,0.75,1,1.25,1.5,2", false);
    *dim = 0;
    if (!o->head[HEAD_WQ] != !o->head[HEAD_WK] || (o->head[HEAD_A] && o->head[HEAD_WQ]))
        return cli_fail(err, ES_E_ARGUMENT, NULL, "ball.options", "",
                        "scores come from --A, or from --Wq and --Wk together");
    for (int i = 0; i < HEAD_FILES && *dim == 0; i++)
        if (o->head[i]) {
            const es_status status = cli_input_cols(o->head[i], dim, err);
            if (status != ES_OK)
                return status;
        }
    const cli_law_options *l = &o->law;
    if (*dim == 0 && l->dim == 0 && !l->cov && !l->mean && !l->points && !l->means && !l->direction)
        o->law.dim = 2;
    return ES_OK;
}

/* The matrices of a head, from files or the identity, and the views the library reads. */
typedef struct head_data {
    cli_input matrix[HEAD_FILES];
    es_view view[HEAD_FILES];
    es_head head;
} head_data;

static es_status head_make(cli_session *session, const ball_options *o, int64_t dim, head_data *h,
                           es_error *err)
{
    static const char *const roles[HEAD_FILES] = {"A", "Wq", "Wk", "Wv"};
    for (int i = 0; i < HEAD_FILES; i++) {
        const int64_t rows = i == HEAD_A ? dim : -1;
        const es_status status = o->head[i] ? cli_input_read(session, roles[i], o->head[i], rows,
                                                             dim, &h->matrix[i], err)
                                            : ES_OK;
        if (status != ES_OK)
            return status;
    }
    if (!o->head[HEAD_A] && !o->head[HEAD_WQ]) {
        cli_input *A = &h->matrix[HEAD_A];
        *A = (cli_input){cli_alloc_array((size_t)(dim * dim), sizeof(double)), dim, dim};
        for (int64_t i = 0; i < dim * dim; i++)
            A->data[i] = i % (dim + 1) == 0 ? 1.0 : 0.0;
    }
    const es_view *views_of[HEAD_FILES] = {0};
    for (int i = 0; i < HEAD_FILES; i++)
        if (h->matrix[i].data) {
            h->view[i] = es_view_f64(h->matrix[i].data, h->matrix[i].rows, h->matrix[i].cols);
            views_of[i] = &h->view[i];
        }
    h->head = (es_head){.A = views_of[HEAD_A],
                        .Wq = views_of[HEAD_WQ],
                        .Wk = views_of[HEAD_WK],
                        .V = views_of[HEAD_WV]};
    return ES_OK;
}

static void head_free(head_data *h)
{
    for (int i = 0; i < HEAD_FILES; i++)
        cli_input_free(&h->matrix[i]);
}

/* ---- all replicates ---- */

/* A few replicates at a time, so that a run file never lacks more than those. */
static es_status measure(ball_job *job, const es_ball *ball, const cli_run_file *file,
                         int64_t stage, es_error *err)
{
    cli_progress *progress = &job->session->progress;
    const int64_t cells = job->spec.n_sizes * job->spec.n_radii, all = job->replicates;
    const int64_t most = file->run ? job->session->exec.threads : all;
    for (int64_t r = 0, next; r < all; r = next) {
        es_status status = ES_OK;
        bool done = false;
        for (next = r; next < all && next - r < most && !done && status == ES_OK; next += !done)
            status =
                cli_run_find(file, stage, next, (double *)(job->cells + next * cells), &done, err);
        progress->parts = (double)all / (double)(next > r ? next - r : 1);
        progress->part = (double)r / (double)(next > r ? next - r : 1);
        if (status == ES_OK)
            status = es_ball_replicates(ball, r, next - r, job->cells + r * cells, err);
        for (int64_t i = r; i < next && status == ES_OK; i++)
            status = cli_run_keep(file, stage, i, (const double *)(job->cells + i * cells), err);
        if (status == ES_OK && cli_interrupted())
            status = ES_E_INTERRUPTED;
        if (status == ES_E_INTERRUPTED)
            return cli_run_interrupted(file, r, all, "replicates", err);
        if (status != ES_OK)
            return status;
        next += done;
    }
    return ES_OK;
}

static es_status predict(ball_job *job, const es_ball_spec *spec, es_error *err)
{
    es_budget *budget = &job->session->budget;
    const int64_t d = spec->law->dim;
    double *A = cli_alloc_array((size_t)(d * d), sizeof *A);
    double *values = cli_alloc_array((size_t)d, sizeof *values);
    double *vectors = cli_alloc_array((size_t)(d * d), sizeof *vectors);
    es_status status = es_head_write(spec->head, d, A, NULL, err);
    if (status == ES_OK)
        status = es_ball_directions(spec->law, A, budget, values, vectors, err);
    if (status == ES_OK)
        status = es_ball_predict(spec->law, spec->head, spec->radii, spec->n_radii, budget,
                                 job->constants, err);
    for (int64_t r = 0; r < spec->n_radii && status == ES_OK; r++) {
        /* where the field is too wild to be sampled there is nothing to compare with, that is all
         */
        if (d > 2 || es_ball_sup(spec->law, spec->head, spec->radii[r], spec->seed, budget,
                                 &job->sups[r], NULL) != ES_OK)
            job->sups[r] = (es_num){NAN, NAN};
    }
    job->h1 = values[0];
    free(A);
    free(values);
    free(vectors);
    return status;
}

static es_status compute(ball_job *job, const ball_options *o, const es_ball *ball, es_error *err)
{
    static const char *const columns[] = {"sup_error", "radius"};
    cli_run_file file;
    int64_t stage;
    const int64_t cells = job->spec.n_sizes * job->spec.n_radii;
    job->cells = cli_alloc_array((size_t)(job->replicates * cells), sizeof *job->cells);
    job->constants = cli_alloc_array((size_t)job->spec.n_radii, sizeof *job->constants);
    job->sups = cli_alloc_array((size_t)job->spec.n_radii, sizeof *job->sups);
    es_status status = cli_run_open(job->session, o, &o->run, &file, err);
    if (status == ES_OK)
        status = cli_run_stage(&file, "replicate", cells, 2, columns, &stage, err);
    if (status == ES_OK)
        status = predict(job, &job->spec, err);
    if (status == ES_OK)
        status = measure(job, ball, &file, stage, err);
    if (status == ES_OK)
        status = ball_answer(job, err);
    status = cli_run_close(&file, job->session, status, err);
    free(job->cells);
    free(job->constants);
    free(job->sups);
    return status;
}

static cli_cost cost_of(const ball_job *job, const es_ball *ball)
{
    const es_ball_cost one = es_ball_cost_of(ball);
    const double d = (double)job->spec.law->dim;
    const double cells = (double)(job->replicates * job->spec.n_sizes * job->spec.n_radii);
    /* where the limit field is sampled: two covariances of up to 260 points, and draws */
    const double dv = job->spec.head->V ? (double)job->spec.head->V->rows : d;
    const double field =
        job->spec.law->dim <= 2 ? 8.0 * 260.0 * dv * (3.0 * 260.0 * dv + 512.0) : 0.0;
    return (cli_cost){.flops = (double)job->replicates * one.flops,
                      .output_bytes = cells * (double)sizeof(es_ball_cell),
                      /* the threads', and some (d, d) matrices of the limit and the head */
                      .work_bytes = (double)job->session->exec.threads * (double)one.bytes +
                                    (16.0 + 4.0 * job->session->exec.threads) * 8.0 * d * d +
                                    65536.0 + 16.0 * cells + field};
}

static es_status run(cli_session *session, void *opts, es_error *err)
{
    ball_options *o = opts;
    cli_law law = {0};
    head_data head = {0};
    es_ball *ball = NULL;
    int64_t dim;
    es_status status = complete(o, &dim, err);
    if (status == ES_OK)
        status = cli_law_make(session, &o->law, dim, &law, err);
    if (status == ES_OK)
        status = head_make(session, o, law.law.dim, &head, err);
    ball_job job = {.session = session,
                    .replicates = o->replicates,
                    .spec = {.law = &law.law,
                             .head = &head.head,
                             .sizes = o->sizes.counts,
                             .n_sizes = o->sizes.count,
                             .radii = o->radii.reals,
                             .n_radii = o->radii.count,
                             .starts = o->starts,
                             .seed = session->common.seed,
                             .exec = &session->exec}};
    if (status == ES_OK)
        status = es_ball_new(&job.spec, &ball, err);
    if (status == ES_OK) {
        const cli_cost cost = cost_of(&job, ball);
        if (session->common.dry_run)
            status = cli_cost_answer(session, &cost, err);
        else if ((status = cli_cost_admit(session, &cost, err)) == ES_OK)
            status = compute(&job, o, ball, err);
    }
    es_ball_free(ball);
    head_free(&head);
    cli_law_free(&law);
    return status;
}

static const char *const examples[] = {
    "esscher ball", "esscher ball --law sphere --dim 3 --radii 1,4,16,64",
    "esscher ball --dim 1 --radii 0.5,1,1.5 --n 1000..64000*4 --replicates 200",
    "esscher ball --A A.npy --Wv V.npy --cov S.npy --n 1e4,1e5 --out ball.run", NULL};

const cli_command cli_ball = {
    .name = "ball",
    .summary = "the worst query of a ball: uniform convergence in |x| <= R",
    .usage = "[options]",
    .about =
        "Draws tokens from a law and looks for the query in the ball |x| <= R at which attention "
        "over the first n of them is farthest from its limit, for every n and R. The papers bound "
        "that distance by C(R)/sqrt(n), with C(R) growing like exp(R^2 H1^2), H1 = |S^1/2 A|. "
        "Beside what is measured stand the constant that follows from the law (for Gaussian tokens "
        "it grows with half that exponent, for bounded ones like a power or not at all), the rate "
        "in n, and the growth in R^2.\n\n"
        "Where R is so large that n tokens hardly hold one of those that make the variance "
        "(Gaussian tokens: exp(2 R^2 H1^2) > 0.05 n), the distance stops growing; such points are "
        "flagged as saturated and left out of the fits. "
        "The search is an ascent from many starts: in high dimension what it finds is a lower "
        "bound.\n\n"
        "Grids are numbers, lists 0.5,1,2 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .options = options,
    .common = CLI_TAKES_FORMAT | CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_DRY_RUN |
              CLI_TAKES_PROGRESS | CLI_TAKES_SEED,
    .defaults = &defaults,
    .size = sizeof(ball_options),
    .views = views,
    .run = run,
};
