/* SPDX-License-Identifier: Apache-2.0 */
/* draws.c : cells of the question about limits that draw tokens: from the pool, as windows of the
 * text, or Gaussian ones. */
#include <math.h>

#include "base/error.h"
#include "experiments/probe/question.h"
#include "stats/average.h"

/* ---- records ---- */

static const es_cell_field draw_fields[] = {
    ES_FIELD(es_probe_cell, mean_error),
    ES_FIELD(es_probe_cell, cov_error),
    ES_FIELD(es_probe_cell, map_error),
    ES_FIELD(es_probe_cell, coherence),
    ES_FIELD_AS(es_probe_cell, few, "map_error_exact_few"),
    ES_FIELD_AS(es_probe_cell, focus.ess, "ess_median"),
    ES_FIELD_AS(es_probe_cell, focus.ess_low, "ess_below_two"),
    ES_FIELD_AS(es_probe_cell, focus.top, "top_median"),
    ES_FIELD_AS(es_probe_cell, focus.top_high, "top_above_half"),
    ES_FIELD_AS(es_probe_cell, after_wo, "map_error_after_wo"),
    {0}};

static const es_cell_field control_fields[] = {ES_FIELD(probe_control_cell, mean_error),
                                               ES_FIELD(probe_control_cell, cov_error),
                                               ES_FIELD(probe_control_cell, map_error),
                                               {0}};

const es_probe_cell *probe_draw_at(const es_job *job, int stage, int64_t place, int64_t r,
                                   int64_t head, int64_t i)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_probe_cell *cell = es_job_cell(job, stage, place * p->replicates + r);
    return &cell[head * s->spec.n_sizes + i];
}

/* Returns the stride from a member of one replicate to that of the next. */
static int64_t stride_of(const es_job *job)
{
    return job->stages[PROBE_DRAW].rows * (int64_t)(sizeof(es_probe_cell) / sizeof(double));
}

es_measured probe_drawn(const es_job *job, const double *first)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const es_spread x = es_spread_of(first, R, stride_of(job));
    return (es_measured){x.mean, sqrt(x.squares / ((double)R * (double)(R - 1)))};
}

es_measured probe_drawn_rms(const es_job *job, const double *first)
{
    return es_measured_rms(first, ((const probe_params *)job->params)->replicates, stride_of(job));
}

double probe_error(const es_probe_cell *cell, int which)
{
    return which == PROBE_MEAN  ? cell->mean_error
           : which == PROBE_COV ? cell->cov_error
                                : cell->map_error;
}

/* ---- cells ---- */

/* Completes a draw's records: single heads have no coherence, all heads together only that and the
 * map error. */
static void finish_draw(const probe_state *s, es_probe_cell *out)
{
    const double none = (double)NAN;
    const int64_t points = s->heads * s->spec.n_sizes;
    for (int64_t i = 0; i < points; i++)
        out[i].coherence = none;
    for (int64_t i = 0; i < s->spec.n_sizes; i++)
        out[points + i] = (es_probe_cell){.mean_error = none,
                                          .cov_error = none,
                                          .map_error = s->joint[i].map_error,
                                          .coherence = s->joint[i].coherence,
                                          .few = none,
                                          .focus = {none, none, none, none},
                                          .after_wo = none};
}

/* Cell: replicate r of a place, tokens drawn from its pool. */
static es_status run_draw(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_replicate(s->probe, cell % R, out, s->joint, err));
    finish_draw(s, out);
    return ES_OK;
}

/* Cell: window r of R of the text of a place. */
static es_status run_window(es_job *job, int64_t cell, const es_exec *exec, void *out,
                            es_error *err)
{
    const int64_t R = ((const probe_params *)job->params)->replicates;
    const probe_state *s = job->state;
    ES_TRY(probe_open_layer(job, cell / R, true, exec, err));
    ES_TRY(es_probe_window(s->probe, cell % R, R, out, s->joint, err));
    finish_draw(s, out);
    return ES_OK;
}

/* Cell: replicate r of a place, Gaussian tokens of the layer's covariance. */
static es_status run_control(es_job *job, int64_t cell, const es_exec *exec, void *out,
                             es_error *err)
{
    const int64_t C = ((const probe_params *)job->params)->control;
    const probe_state *s = job->state;
    probe_control_cell *to = out;
    ES_TRY(probe_open_layer(job, cell / C, true, exec, err));
    ES_TRY(es_probe_control(s->probe, cell % C, s->cells, err));
    for (int64_t i = 0; i < s->heads * s->spec.n_sizes; i++) {
        const es_probe_cell *from = &s->cells[i];
        to[i] = (probe_control_cell){from->mean_error, from->cov_error, from->map_error};
    }
    return ES_OK;
}

/* ---- stages ---- */

es_status probe_add_draws(es_job *job, bool windows, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_stage stage = {.name = windows ? "window" : "draw",
                            .phase =
                                windows ? "attending over windows of the text" : "drawing tokens",
                            .noun = windows ? "windows" : "draws",
                            .cells = probe_places(s) * p->replicates,
                            .rows = (s->heads + 1) * s->spec.n_sizes,
                            ES_RECORD(es_probe_cell, draw_fields),
                            .reports_progress = true,
                            .flops = s->cost.replicate_flops,
                            .run = windows ? run_window : run_draw};
    return es_job_stage(job, &stage, err);
}

es_status probe_add_control(es_job *job, es_error *err)
{
    const probe_params *p = job->params;
    const probe_state *s = job->state;
    const es_stage stage = {.name = "control",
                            .phase = "drawing Gaussian tokens",
                            .noun = "draws of Gaussian tokens",
                            .cells = probe_places(s) * p->control,
                            .rows = s->heads * s->spec.n_sizes,
                            ES_RECORD(probe_control_cell, control_fields),
                            .reports_progress = true,
                            .flops = s->cost.control_flops,
                            .run = run_control};
    return es_job_stage(job, &stage, err);
}
