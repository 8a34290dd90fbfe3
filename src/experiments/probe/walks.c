/* SPDX-License-Identifier: Apache-2.0 */
/* walks.c : the stages of `probe` that walk through all of a pool: limits of layers and exact
 * errors of heads.
 *
 * Where the pool is on disk, one layer or one slice of heads is walked through at a time. Where it
 * is streamed, the model reads the text for every walk: as many as memory allows go together. The
 * numbers are the same. */
#include <math.h>

#include "base/error.h"
#include "base/executor.h"
#include "base/memory.h"
#include "experiments/probe/question.h"

/* ---- grouping ---- */

/* Memory of all states of a walk; rows of a strip, at most. */
#define WALK_BYTES 0x1p30
enum { STRIP_MOST = 4096 };

/* Returns the size of groups, as equal as possible, of the `all` cells of a domain. A walk cannot
 * be divided, so that no group is larger than a shard's share. */
static int64_t together(const es_job *job, int64_t all, double bytes)
{
    const probe_state *s = job->state;
    const int64_t shards = job->shards ? job->shards : 1;
    const int64_t each = (s->pools.n_domains * all + shards - 1) / shards;
    if (!s->pools.asked->stream)
        return 1;
    all = each < all ? each : all;
    const double fit = WALK_BYTES / fmax(bytes, 1.0);
    const int64_t most = fit < 1.0 ? 1 : fit < (double)all ? (int64_t)fit : all;
    const int64_t walks = (all + most - 1) / most;
    return (all + walks - 1) / walks;
}

int64_t probe_layers_together(const es_job *job, double bytes)
{
    const probe_state *s = job->state;
    return together(job, s->layers, bytes);
}

/* Returns how many layers one walk measures at a time, as memory allows. */
static int64_t limit_group(const es_job *job)
{
    const probe_state *s = job->state;
    return probe_layers_together(job, s->cost.state_bytes);
}

/* Returns the number of slices of a layer. */
static int64_t slices_of(const probe_state *s) { return es_probe_slices(&s->spec); }

/* Returns the same number on each rank. Grouping does not change cells. */
static int64_t exact_group(const es_job *job, const probe_state *s)
{
    const int64_t all = s->layers * slices_of(s), ranks = es_executor_of(&job->exec)->ranks;
    const int64_t each = (all + ranks - 1) / ranks, most = together(job, all, s->cost.slice_bytes);
    return each < most ? each : most;
}

/* ---- cost ---- */

/* Returns how many runs of the whole model the walks take if `per` cells of a layer are done
 * `group` at a time: each run ends after the last of its layers. 0 where the pool is on disk. */
double probe_forwards(const probe_state *s, int64_t per, int64_t group)
{
    double layers = 0.0;
    for (int64_t at = 0; at < s->layers * per && s->pools.asked->stream; at += group) {
        const int64_t end = at + group < s->layers * per ? at + group : s->layers * per;
        layers += (double)((end - 1) / per);
    }
    return layers / (double)s->layers;
}

/* Returns the memory of states that wait at rank 0 to be folded: one of the three that state_bytes
 * counts for a layer is of this size. A single rank has none. */
static double waiting_bytes(const es_job *job, const probe_state *s)
{
    const int64_t window = es_job_window(job), others = s->cost.parts - 1;
    const double most = (double)(window < others ? window : others);
    return es_executor_of(&job->exec)->ranks > 1
               ? most * (double)limit_group(job) * s->cost.state_bytes / 3.0
               : 0.0;
}

es_probe_price probe_walks_price(const es_job *job, const probe_state *s)
{
    const int64_t limits = limit_group(job), slices = exact_group(job, s);
    const double exact = (double)slices * s->cost.slice_bytes;
    const double limit = (double)limits * s->cost.state_bytes + waiting_bytes(job, s);
    const es_pool_range range = {.layers = s->layers, .strip = STRIP_MOST};
    const double forwards = probe_forwards(s, 1, limits) + probe_forwards(s, slices_of(s), slices);
    return (es_probe_price){
        .flops = s->pools.cost.flops * forwards,
        .bytes = (size_t)(fmax(exact, limit) - fmax(s->cost.slice_bytes, s->cost.state_bytes) +
                          es_pool_walk_bytes(s->pools.config, s->pools.asked->block, &range,
                                             s->pools.asked->stream, job->exec.threads))};
}

/* ---- limits ---- */

/* Cells of a group. They may continue into the next domain; a walk may not. */
typedef struct stretch {
    int64_t at, end; /* cells */
    int64_t per;     /* of a domain */
} stretch;

/* Returns the cells of a group that remain, `per` of them in a domain. */
static stretch stretch_of(const es_stage *stage, int64_t group, int64_t per)
{
    const int64_t at = group * stage->group, end = at + stage->group;
    return (stretch){at, end < stage->cells ? end : stage->cells, per};
}

/* Number of the remaining cells that are of one domain. */
static int64_t step(const stretch *r)
{
    const int64_t next = (r->at / r->per + 1) * r->per;
    return (next < r->end ? next : r->end) - r->at;
}

/* Measures one part of the pool for a group of layers. */
static es_status run_limits(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                            double *state, es_error *err)
{
    const probe_state *s = job->state;
    stretch r = stretch_of(&job->stages[PROBE_LIMIT], group, s->layers);
    for (int64_t count; r.at < r.end; r.at += count) {
        const es_probe_spec spec = probe_spec_at(s, r.at, exec);
        count = step(&r);
        ES_TRY(es_probe_part(&spec, r.at % s->layers, count, part, state, err));
        state += count * es_probe_part_numbers(&spec);
    }
    return ES_OK;
}

/* Folds the state of one part into another, layer by layer. */
static es_status fold_limits(es_job *job, int64_t group, double *into, const double *state,
                             es_error *err)
{
    const probe_state *s = job->state;
    stretch r = stretch_of(&job->stages[PROBE_LIMIT], group, s->layers);
    for (; r.at < r.end; r.at++) {
        const es_probe_spec spec = probe_spec_at(s, r.at, &job->exec);
        const int64_t size = es_probe_part_numbers(&spec);
        ES_TRY(es_probe_fold(&spec, into, state, err));
        into += size;
        state += size;
    }
    return ES_OK;
}

/* Turns the folded states of a group into its cells. */
static es_status finish_limits(es_job *job, int64_t group, const double *state, void *record,
                               es_error *err)
{
    double *out = record;
    const probe_state *s = job->state;
    stretch r = stretch_of(&job->stages[PROBE_LIMIT], group, s->layers);
    for (; r.at < r.end; r.at++) {
        const es_probe_spec spec = probe_spec_at(s, r.at, &job->exec);
        ES_TRY(es_probe_finish(&spec, state, out, err));
        state += es_probe_part_numbers(&spec);
        out += es_probe_numbers(&spec);
    }
    return ES_OK;
}

static const char *const number[] = {"number"};

/* Operations of a cell, its share of running the model included. */
static double with_forwards(const probe_state *s, double flops, int64_t per, int64_t group)
{
    const double forwards = s->pools.cost.flops * probe_forwards(s, per, group);
    return flops / (double)per + forwards / (double)(probe_places(s) * per);
}

es_status probe_add_limit(es_job *job, es_error *err)
{
    const probe_state *s = job->state;
    int64_t parts = 1; /* of the largest pool; the others have empty ones */
    for (int64_t d = 0; d < s->pools.n_domains; d++) {
        const es_probe_spec spec = probe_spec_at(s, d * s->layers, &job->exec);
        parts = es_probe_parts(&spec) > parts ? es_probe_parts(&spec) : parts;
    }
    const es_probe_spec spec = probe_spec_at(s, 0, &job->exec);
    const int64_t group = limit_group(job);
    const es_stage stage = {"limit",
                            .phase = "attending over the pool",
                            .noun = "layers",
                            .cells = probe_places(s),
                            .rows = es_probe_numbers(&spec),
                            .cols = 1,
                            .columns = number,
                            .reports_progress = true,
                            .shared = true,
                            .on_disk = true,
                            .flops = with_forwards(s, s->cost.limit_flops, 1, group),
                            .group = group,
                            .parts = parts,
                            .part_numbers = group * es_probe_part_numbers(&spec),
                            .run_part = run_limits,
                            .fold = fold_limits,
                            .finish = finish_limits};
    return es_job_stage(job, &stage, err);
}

/* ---- exact errors ---- */

int64_t probe_exact_cell(const probe_state *s, int64_t place) { return place * slices_of(s); }

/* Computes slices [at, at + count) of a domain; what they need of the limits of their layers is
 * read from earlier cells. */
static es_status run_stretch(const es_job *job, const es_probe_spec *spec, int64_t at,
                             int64_t count, double *out, es_error *err)
{
    const probe_state *s = job->state;
    const int64_t per = slices_of(s), place = at / per;
    const int64_t layers = (at + count - 1) / per + 1 - place;
    int64_t each;
    const int64_t from = es_probe_centers(spec, &each);
    double *centers;
    ES_TRY(ES_MEM_NEW_2D(spec->exec->budget, centers, layers, each, "outputs of limits", err));
    es_status status = ES_OK;
    for (int64_t l = 0; l < layers && status == ES_OK; l++)
        status = es_job_read(job, PROBE_LIMIT, place + l, from, each, spec->exec,
                             centers + l * each, err);
    if (status == ES_OK)
        status = es_probe_exact_slices(spec, at % (s->layers * per), count, centers, out, err);
    es_mem_free(spec->exec->budget, centers);
    return status;
}

/* Computes a group of slices. */
static es_status run_slices(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                            double *out, es_error *err)
{
    const probe_state *s = job->state;
    const int64_t per = slices_of(s);
    stretch r = stretch_of(&job->stages[PROBE_EXACT], group, s->layers * per);
    (void)part;
    for (int64_t count; r.at < r.end; r.at += count) {
        const es_probe_spec spec = probe_spec_at(s, r.at / per, exec);
        count = step(&r);
        ES_TRY(run_stretch(job, &spec, r.at, count, out, err));
        out += count * es_probe_slice_numbers(&spec);
    }
    return ES_OK;
}

es_status probe_add_exact(es_job *job, es_error *err)
{
    const probe_state *s = job->state;
    const es_probe_spec spec = probe_spec_at(s, 0, &job->exec);
    const int64_t group = exact_group(job, s), per = slices_of(s);
    const es_stage stage = {"exact-slices",
                            .phase = "integrating over draws",
                            .noun = "groups of heads",
                            .cells = probe_places(s) * per,
                            .rows = es_probe_slice_numbers(&spec),
                            .cols = 1,
                            .columns = number,
                            .reports_progress = true,
                            .flops = with_forwards(s, s->cost.exact_flops, per, group),
                            .group = group,
                            .part_numbers = group * es_probe_slice_numbers(&spec),
                            .run_part = run_slices};
    return es_job_stage(job, &stage, err);
}
