/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : the worst query of a ball, against the bound that holds for all of them at once:
 * parameters, a replicate, and what theory predicts (THEORY 3). rows.c makes the answer. */
#include <math.h>

#include "base/error.h"
#include "experiments/ball/ball.h"

#define FIELD(member) .field = offsetof(ball_params, member)
static const es_param params[] = {
    ES_LAW_PARAMS(ball_params, law, "gaussian"),
    {"n", 'n', ES_PARAM_COUNTS, "GRID", "numbers of tokens", FIELD(sizes), .min = 1, .max = 0x1p30,
     .increasing = true, .default_value = "500..8000*5", .unit = "tokens"},
    {"radii", 0, ES_PARAM_REALS, "GRID", "radii R of the balls", FIELD(radii), .min = 1e-100,
     .max = 1e100, .increasing = true, .default_value = "0.5,0.75,1,1.25,1.5,2"},
    {"replicates", 'r', ES_PARAM_WHOLE, "R", "independent draws of the tokens", FIELD(replicates),
     .min = 1, .max = 262144, .default_value = "32"},
    {"starts", 0, ES_PARAM_WHOLE, "M",
     "random starts of the search, beside those that the head and the longest tokens suggest",
     FIELD(starts), .min = 1, .max = 1e6, .default_value = "4"},
    ES_HEAD_PARAMS(ball_params, head, "identity", "the identity"),
    {0}};

/* ---- replicates ---- */

static const es_cell_field cell_fields[] = {
    ES_FIELD_AS(es_ball_cell, sup, "sup_error"), ES_FIELD(es_ball_cell, radius), {0}};

/* Draws the tokens once and searches at every n, a prefix of them, and every R. */
static es_status run_replicate(es_job *job, int64_t cell, const es_exec *exec, void *out,
                               es_error *err)
{
    const ball_state *s = job->state;
    (void)exec; /* the ball has s->alone */
    return es_ball_replicates(s->ball, cell, 1, out, err);
}

/* A search is one thread's work and replicates run side by side, so the ball is made once with
 * an exec of one silent thread: progress counts replicates, not steps of a search. */
static es_status open_study(es_job *job, es_error *err)
{
    ball_params *p = job->params;
    ball_state *s = job->state;
    int64_t dim;
    ES_TRY(es_head_dim(&p->head, &dim, err));
    if (dim == 0 && !es_law_params_speak(&p->law))
        p->law.dim = 2;
    ES_TRY(es_law_make(job, &p->law, dim, &s->law, err));
    ES_TRY(es_head_make(job, &p->head, s->law.law.dim, ES_HEAD_IDENTITY, false, &s->head, err));
    s->alone = job->exec;
    s->alone.threads = 1;
    s->alone.progress = NULL;
    s->spec = (es_ball_spec){&s->law.law,
                             .head = &s->head.head,
                             .sizes = p->sizes.counts,
                             .n_sizes = p->sizes.count,
                             .radii = p->radii.reals,
                             .n_radii = p->radii.count,
                             .starts = p->starts,
                             .seed = job->seed,
                             .exec = &s->alone};
    ES_TRY(es_ball_new(&s->spec, &s->ball, err));
    return es_job_stage(
        job,
        &(es_stage){"replicate", .phase = "searching for the worst queries", .noun = "replicates",
                    .cells = p->replicates, .rows = p->sizes.count * p->radii.count,
                    ES_RECORD(es_ball_cell, cell_fields), .one_thread_per_cell = true,
                    .flops = es_ball_cost_of(s->ball).flops, .run = run_replicate},
        err);
}

/* Returns the cost: searches, and samples of the limiting Gaussian field in one and two
 * dimensions. */
static es_status cost(es_job *job, es_cost *out, es_error *err)
{
    const ball_params *p = job->params;
    const ball_state *s = job->state;
    const es_ball_cost one = es_ball_cost_of(s->ball);
    const double d = (double)s->spec.law->dim;
    const double cells = (double)(p->replicates * s->spec.n_sizes * s->spec.n_radii);
    /* where the limit field is sampled: two covariances of up to 260 points, and draws */
    const double dv = s->spec.head->V ? (double)s->spec.head->V->rows : d;
    const double field = d <= 2.0 ? 8.0 * 260.0 * dv * (3.0 * 260.0 * dv + 512.0) : 0.0;
    (void)err;
    *out = (es_cost){.flops = (double)p->replicates * one.flops,
                     .output_bytes = cells * (double)sizeof(es_ball_cell),
                     /* some (d, d) matrices of the limit and the head */
                     .work_bytes = 16.0 * 8.0 * d * d + 65536.0 + 16.0 * cells + field,
                     .thread_bytes = (double)one.bytes + 4.0 * 8.0 * d * d};
    return ES_OK;
}

/* ---- what theory says (THEORY 3) ---- */

/* Computes the constants of one query and the expected supremum of the limiting field, for each
 * R. */
static es_status begin(es_job *job, es_error *err)
{
    ball_state *s = job->state;
    const int64_t d = s->spec.law->dim, radii = s->spec.n_radii;
    double *A, *values, *vectors;
    ES_TRY(ES_JOB_NEW_2D(job, A, d, d, err));
    ES_TRY(ES_JOB_NEW(job, values, d, err));
    ES_TRY(ES_JOB_NEW_2D(job, vectors, d, d, err));
    ES_TRY(ES_JOB_NEW(job, s->constants, radii, err));
    ES_TRY(ES_JOB_NEW(job, s->sups, radii, err));
    ES_TRY(es_head_write(s->spec.head, d, A, NULL, err));
    ES_TRY(es_ball_directions(s->spec.law, A, job->exec.budget, values, vectors, err));
    s->h1 = values[0];
    ES_TRY(es_ball_predict(s->spec.law, s->spec.head, s->spec.radii, radii, job->exec.budget,
                           s->constants, err));
    for (int64_t r = 0; r < radii; r++)
        /* where the field is too wild to be sampled there is nothing to compare with */
        if (d > 2 || es_ball_sup(s->spec.law, s->spec.head, s->spec.radii[r], job->seed,
                                 job->exec.budget, &s->sups[r], NULL) != ES_OK)
            s->sups[r] = (es_num){(double)NAN, (double)NAN};
    return ES_OK;
}

/* Frees the ball. */
static void close_study(es_job *job)
{
    ball_state *s = job->state;
    es_ball_free(s->ball);
}

/* ---- the study ---- */

static const char *const examples[] = {
    "esscher ball", "esscher ball --law sphere --dim 3 --radii 1,4,16,64",
    "esscher ball --dim 1 --radii 0.5,1,1.5 --n 1000..64000*4 --replicates 200",
    "esscher ball --A A.npy --Wv V.npy --cov S.npy --n 1e4,1e5 --out ball.run", NULL};

const es_study es_study_ball = {
    "ball",
    .summary = "the largest error over all queries with |x| <= R: uniform convergence",
    .group = ES_GROUP_LAB,
    .main_options = "law dim n radii replicates head A",
    .usage = "[options]",
    .about =
        "Draws tokens from a law and searches the ball |x| <= R for the query at which attention "
        "over the first n tokens is farthest from its limit, for every n and R. The papers bound "
        "that distance by C(R)/sqrt(n). Let H1 = |S^1/2 A|, with S the covariance of the tokens "
        "and "
        "A the score matrix; then C(R) grows like exp(R^2 H1^2) [cited]. The tables compare it "
        "with the constant that follows from the law [proved] and "
        "give the rate in n and the growth in R^2. For Gaussian tokens C(R) grows with "
        "half the exponent of that bound, for bounded tokens like a power or not at all.\n\n"
        "If R is too large for n, a sample hardly contains the rare tokens that dominate the "
        "variance (Gaussian tokens: exp(2 R^2 H1^2) > 0.05 n), and the distance stops growing. "
        "Such points are flagged as saturated and left out of the fits. The search climbs from "
        "many starts; in high dimension its result is a lower bound.\n\n"
        "Grids are numbers, lists 0.5,1,2 or LOW..HIGH*POINTS, geometric: 1e3..3e4*12.",
    .examples = examples,
    .params = params,
    .size = sizeof(ball_params),
    .takes = ES_TAKES_SEED | ES_TAKES_THREADS,
    .csv = "rows",
    .state = sizeof(ball_state),
    .open = open_study,
    .cost = cost,
    .begin = begin,
    .summarise = ball_summarise,
    .close = close_study};
