/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c : the question, checked; what is computed once; replicates, and what they cost. */
#include "experiments/ball/ball.h"

#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "law/law_row.h"
#include "limit/limit.h"
#include "linalg/linalg.h"

/* ---- the question, checked ---- */

/* Fails unless the n are positive and increase: samples are prefixes of the largest. */
static es_status check_sizes(const es_ball_spec *spec, es_error *err)
{
    for (int64_t i = 0; i < spec->n_sizes; i++) {
        if (spec->sizes[i] < 1 || spec->sizes[i] > ES_MAX_ROWS)
            return es_fail(err, ES_E_RANGE, "ball.sizes", "at least one token", "n is %lld",
                           (long long)spec->sizes[i]);
        if (i > 0 && spec->sizes[i] <= spec->sizes[i - 1])
            return es_fail(err, ES_E_ARGUMENT, "ball.sizes", "sort the n",
                           "n[%lld] is not above the one before", (long long)i);
    }
    return ES_OK;
}

/* Fails unless the radii are positive and increase: the maximiser of one starts the search in the
 * next. */
static es_status check_radii(const es_ball_spec *spec, es_error *err)
{
    for (int64_t i = 0; i < spec->n_radii; i++) {
        if (!(spec->radii[i] > 0.0 && isfinite(spec->radii[i])))
            return es_fail(err, ES_E_RANGE, "ball.radii", "a positive number", "R is %g",
                           spec->radii[i]);
        if (i > 0 && spec->radii[i] <= spec->radii[i - 1])
            return es_fail(err, ES_E_ARGUMENT, "ball.radii", "sort the radii",
                           "radius %lld is not above the one before", (long long)i);
    }
    return ES_OK;
}

/* Fails for an invalid law, empty grids, or a head that does not fit. */
static es_status check(const es_ball_spec *spec, es_error *err)
{
    ES_TRY(es_law_check(spec->law, err));
    if (spec->n_sizes < 1 || spec->n_radii < 1)
        return es_fail(err, ES_E_EMPTY, "ball.grid", "give at least one n and one radius",
                       "an empty grid");
    if (spec->starts < 0 || spec->starts > 1000000)
        return es_fail(err, ES_E_RANGE, "ball.starts", "0 .. 1e6", "starts is %lld",
                       (long long)spec->starts);
    ES_TRY(check_sizes(spec, err));
    ES_TRY(check_radii(spec, err));
    return es_head_write(spec->head, spec->law->dim, NULL, NULL, err);
}

/* Fails unless K is finite for tilts Mx, |x| <= R. Laws with an edge, Laplace's for one, need size
 * |(B'Mx)_i| below it, and the largest value on the ball is R times the norm of row i. */
static es_status check_reach(const es_law *law, const double *M, double R, es_mem_limit *budget,
                             es_error *err)
{
    const es_law_row *row = es_law_row_of(law->kind);
    const int64_t d = law->dim;
    double *turned = NULL;
    const double *here = M;
    es_status status = ES_OK;
    if (law->factor) {
        const es_view B = es_view_f64(law->factor, d, d), m = es_view_f64(M, d, d);
        const es_view Bt = es_view_transpose(&B);
        ES_TRY(ES_MEM_NEW_2D(budget, turned, d, d, "reach of a ball", err));
        here = turned;
        status = es_mat_multiply(&Bt, &m, budget, turned, err);
    }
    const bool mixed = row->uses & ES_LAW_USES_PARTS;
    for (int64_t p = 0; mixed && p < law->n_parts && status == ES_OK; p++)
        status = check_reach(&law->parts[p], here, R, budget, err);
    for (int64_t i = 0; row->edge > 0.0 && i < d && status == ES_OK; i++) {
        double squares = 0.0;
        for (int64_t j = 0; j < d; j++)
            squares += here[i * d + j] * here[i * d + j];
        const double edge = row->edge / (law->size * sqrt(squares));
        if (!(R < edge))
            status = es_fail(err, ES_E_RANGE, "ball.reach", "choose smaller radii, or scale A",
                             "for %s tokens the limit ends at |x| = %g along coordinate %lld; "
                             "R is %g",
                             row->title, edge, (long long)i, R);
    }
    es_mem_free(budget, turned);
    return status;
}

/* ---- what is computed once ---- */

void es_ball_free(es_ball *ball)
{
    if (!ball)
        return;
    es_mem_limit *budget = ball->budget;
    es_sampler_free(ball->sampler);
    es_mem_free(budget, ball->A);
    es_mem_free(budget, ball->V);
    es_mem_free(budget, ball->values);
    es_mem_free(budget, ball->directions);
    es_mem_free(budget, ball);
}

/* Allocates the matrices of the head and checks that the law has a limit. */
static es_status fill(es_ball *b, es_error *err)
{
    const es_ball_spec *spec = &b->spec;
    const int64_t d = b->d;
    double **const arrays[] = {&b->A, &b->V, &b->values, &b->directions};
    const int64_t rows[] = {d, b->dv, 1, d};
    for (int i = 0; i < 4; i++) {
        ES_TRY(ES_MEM_NEW_2D(b->budget, *arrays[i], rows[i], d, "matrices of a head", err));
    }
    ES_TRY(es_head_write(spec->head, d, b->A, b->V, err));
    /* at tilt 0, the values array being zero: Student's t has no limit anywhere */
    es_log_mgf zero = {.grad = NULL};
    ES_TRY(es_limit_log_mgf(spec->law, b->values, b->budget, &zero, err));
    ES_TRY(check_reach(spec->law, b->A, spec->radii[spec->n_radii - 1], b->budget, err));
    ES_TRY(es_ball_directions(spec->law, b->A, b->budget, b->values, b->directions, err));
    return es_sampler_new(spec->law, b->budget, &b->sampler, err);
}

es_status es_ball_new(const es_ball_spec *spec, es_ball **out, es_error *err)
{
    *out = NULL;
    ES_TRY(check(spec, err));
    es_mem_limit *budget = spec->exec ? spec->exec->budget : NULL;
    es_ball *b;
    ES_TRY(ES_MEM_NEW(budget, b, 1, "a ball", err));
    const int64_t d = spec->law->dim, pairs = d < ES_BALL_PAIRS ? d : ES_BALL_PAIRS;
    *b = (es_ball){.spec = *spec, .d = d, .budget = budget};
    b->dv = es_head_channels(spec->head, d);
    b->starts = 2 * pairs + ES_BALL_LONGEST + (spec->starts ? spec->starts : ES_BALL_RANDOM);
    const es_status status = fill(b, err);
    if (status != ES_OK) {
        es_ball_free(b);
        return status;
    }
    *out = b;
    return ES_OK;
}

/* ---- replicates ---- */

/* Replicates that threads share; each thread has its own sample and search. */
typedef struct job {
    const es_ball *ball;
    int64_t first;
    es_ball_cell *out;
    es_ball_sample *samples; /* (threads) */
    es_ball_climb *climbs;   /* (threads) */
} job;

/* Draws one replicate and finds the largest error over the ball for each n and R. */
static es_status replicate(void *user, int64_t unit, int thread, es_error *err)
{
    const job *j = user;
    const es_ball_spec *spec = &j->ball->spec;
    es_ball_climb *climb = &j->climbs[thread];
    const es_address at = {
        .seed = spec->seed, .experiment = ES_BALL_TOKENS, .cell = (uint64_t)(j->first + unit)};
    ES_TRY(es_sampler_rows(j->ball->sampler, &at, spec->sizes[spec->n_sizes - 1],
                           j->samples[thread].tokens, err));
    for (int64_t p = 0; p < spec->n_sizes; p++) {
        es_ball_cell *row = j->out + (unit * spec->n_sizes + p) * spec->n_radii;
        es_ball_climb_prefix(climb, spec->sizes[p]);
        for (int64_t r = 0; r < spec->n_radii; r++)
            ES_TRY(es_ball_climb_to(climb, j->first + unit, spec->radii[r], &row[r], err));
    }
    return ES_OK;
}

es_status es_ball_replicates(const es_ball *ball, int64_t first, int64_t count, es_ball_cell *out,
                             es_error *err)
{
    if (first < 0 || count < 0)
        return es_fail(err, ES_E_RANGE, "ball.replicates", "count from 0", "a negative number");
    const es_exec *exec = ball->spec.exec;
    const int threads = count > 0 ? es_parallel_threads(exec, count) : 0;
    job j = {.ball = ball, .first = first, .out = out};
    int ready = 0;
    es_status status = ES_MEM_NEW(ball->budget, j.samples, threads, "samples", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(ball->budget, j.climbs, threads, "climbs", err);
    for (; ready < threads && status == ES_OK; ready += status == ES_OK) {
        status = es_ball_sample_new(ball, &j.samples[ready], err);
        if (status == ES_OK) {
            status = es_ball_climb_new(&j.samples[ready], &j.climbs[ready], err);
            if (status != ES_OK)
                es_ball_sample_free(&j.samples[ready]);
        }
    }
    if (status == ES_OK && count > 0)
        status = es_parallel_run(exec, count, replicate, &j, err);
    while (ready-- > 0) {
        es_ball_climb_free(&j.climbs[ready]);
        es_ball_sample_free(&j.samples[ready]);
    }
    es_mem_free(ball->budget, j.samples);
    es_mem_free(ball->budget, j.climbs);
    return status;
}

/* ---- cost ---- */

es_ball_cost es_ball_cost_of(const es_ball *ball)
{
    const es_ball_spec *spec = &ball->spec;
    /* looks at all starts, then at the halves that thinning leaves: some nine looks a start. Our
     * loops reach half the speed of the attention kernels, by which times are estimated, so they
     * count twice; an exponential counts as forty. */
    const double looks = 2.0 * 9.0 * (double)ball->starts, d = (double)ball->d;
    double tokens = 0.0;
    for (int64_t p = 0; p < spec->n_sizes; p++)
        tokens += (double)spec->sizes[p];
    const int64_t doubles = es_ball_sample_doubles(ball) + es_ball_climb_doubles(ball);
    return (es_ball_cost){.flops = (double)spec->n_radii * looks * tokens * (8.0 * d + 40.0),
                          .bytes = (size_t)doubles * sizeof(double) + 4096 +
                                   (size_t)ball->starts * sizeof(es_ball_climber)};
}
