/* SPDX-License-Identifier: Apache-2.0 */
/* positions.c : the question about positions: blocks of text through a causal model, their stage
 * and cost, and the summary over all heads. */
#include "experiments/probe/position_question.h"

#include <math.h>

#include "base/error.h"
#include "base/threads.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "model/model.h"
#include "stats/multiple.h"

/* ---- blocks ---- */

/* Returns the number of tokens of a block. */
static int64_t length_of(const es_blocks *b, int64_t block)
{
    return b->start[block + 1] - b->start[block];
}

/* Length of the longest block. */
static int64_t longest_of(const es_blocks *b)
{
    int64_t most = 0;
    for (int64_t i = 0; i < b->count; i++)
        most = length_of(b, i) > most ? length_of(b, i) : most;
    return most;
}

const int32_t *probe_block_ids(const es_blocks *b, int64_t length, int64_t wanted)
{
    for (int64_t i = 0; i < b->count; i++)
        if (length_of(b, i) == length && wanted-- == 0)
            return b->ids + b->start[i];
    return NULL;
}

int64_t probe_count_full(const es_blocks *b, int64_t length)
{
    int64_t count = 0;
    for (int64_t i = 0; i < b->count; i++)
        count += length_of(b, i) == length;
    return count;
}

/* Positions are compared over blocks of one length: the longest that every domain has. */
static es_status measure_blocks(const es_pools *pools, probe_positions *p, es_error *err)
{
    int64_t length = INT64_MAX;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const int64_t longest = longest_of(&p->texts[d]);
        length = longest < length ? longest : length;
    }
    p->blocks = INT64_MAX;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const int64_t full = probe_count_full(&p->texts[d], length);
        p->blocks = full < p->blocks ? full : p->blocks;
    }
    if (length < 2 || p->blocks < 1)
        return es_fail(err, ES_E_EMPTY, "probe.blocks", "more text, or --look limit",
                       "there is no block of %lld tokens in every domain", (long long)length);
    p->spec = (es_positions_spec){pools->model, length, es_model_widest(pools->config)};
    return ES_OK;
}

/* Reads the texts and chooses blocks, bins and windows. */
static es_status open_positions(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    const es_pools *pools = &s->pools;
    probe_positions *p = &s->positions;
    p->error = ((const probe_params *)job->params)->error;
    ES_TRY(ES_JOB_NEW(job, p->texts, pools->n_domains, err));
    for (int64_t d = 0; d < pools->n_domains; d++, p->n_domains++)
        ES_TRY(es_pools_blocks(pools, d, job->exec.budget, &p->texts[d], err));
    ES_TRY(measure_blocks(pools, p, err));
    ES_TRY(es_positions_grid_of(&p->spec, &p->grid, err));
    ES_TRY(ES_JOB_NEW(job, p->scratch, p->blocks, err));
    return es_positions_cost_of(&p->spec, &p->cost, err);
}

void probe_positions_close(probe_positions *p)
{
    for (int64_t d = 0; d < p->n_domains; d++)
        es_blocks_free(&p->texts[d]);
}

/* ---- the stage ---- */

/* Returns the number of cells: blocks of all domains. */
static int64_t cells_of(const probe_positions *p) { return p->n_domains * p->blocks; }

/* Returns the number of heads of all layers that are looked at. */
static int64_t heads_of(const probe_state *s) { return s->layers * s->heads; }

/* Operations of one block, running the model over it included. */
static double block_flops(const probe_state *s)
{
    const probe_positions *p = &s->positions;
    int64_t tokens = 0;
    for (int64_t d = 0; d < p->n_domains; d++)
        tokens += p->texts[d].start[p->texts[d].count];
    return p->cost.flops + s->pools.cost.flops * (double)p->spec.length / (double)tokens;
}

/* Returns the operations of all blocks of such a length, without running the model over them. */
static double work_of(const es_job *job, const es_pools *pools, int64_t tokens, int64_t block)
{
    const es_positions_spec spec = {pools->model, block, es_model_widest(pools->config)};
    es_positions_cost cost;
    (void)job;
    if (es_positions_cost_of(&spec, &cost, NULL) != ES_OK)
        return 0.0;
    return (double)(pools->n_domains * (tokens / block)) * cost.flops;
}

/* Memory: the blocks under way, and all cells, which the driver does not know before begin(). */
static void price_positions(const es_job *job, es_cost *out)
{
    const probe_state *s = job->state;
    const probe_positions *p = &s->positions;
    const double threads = job->exec.threads ? job->exec.threads : es_threads_available();
    const double numbers = (double)heads_of(s) * (double)(p->grid.numbers + 1); /* and a share */
    const double cells = (double)cells_of(p);
    *out = (es_cost){.flops = cells * block_flops(s),
                     .work_bytes = fmin(threads, cells) * (double)p->cost.bytes +
                                   8.0 * numbers * (cells + threads)};
}

/* Cell: one block of text, all heads of all layers. */
static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err)
{
    const probe_positions *p = &((const probe_state *)job->state)->positions;
    const es_blocks *text = &p->texts[cell / p->blocks];
    return es_positions_block(&p->spec, probe_block_ids(text, p->spec.length, cell % p->blocks),
                              exec, out, err);
}

/* Adds the stage whose cell runs the model on one block and measures all heads. */
static es_status begin_positions(es_job *job, es_error *err)
{
    static const char *const number[] = {"number"};
    probe_state *s = job->state;
    probe_positions *p = &s->positions;
    const es_stage stage = {"positions",
                            .phase = "reading blocks of text, place by place",
                            .noun = "blocks of text",
                            .cells = cells_of(p),
                            .rows = heads_of(s) * p->grid.numbers,
                            .cols = 1,
                            .columns = number,
                            .one_thread_per_cell = true,
                            .flops = block_flops(s),
                            .run = run_block};
    p->stage = job->n_stages;
    return es_job_stage(job, &stage, err);
}

/* ---- summary ---- */

/* Shares of the last bin's queries or weights that are averaged over all heads. */
enum { SINK_MASS, SINGLE_KEY, RESTS_ON_SINK, AVERAGED };

/* A head in every domain. */
static int64_t rows_of(const probe_state *s) { return s->pools.n_domains * heads_of(s); }

/* Adds a head to averages (AVERAGED, blocks) over all heads. */
static void add_to_averages(const probe_state *s, const probe_track *t, double *averages)
{
    static const es_positions_stat of[AVERAGED] = {ES_POSITIONS_SINK, ES_POSITIONS_SINGLE,
                                                   ES_POSITIONS_ON_SINK};
    for (int i = 0; i < AVERAGED; i++)
        for (int64_t b = 0; b < t->blocks; b++) {
            const probe_track one = probe_track_block(t, b);
            averages[i * t->blocks + b] +=
                probe_track_mean(&one, t->grid->bins - 1, of[i]).value / (double)rows_of(s);
        }
}

/* Head number `at` of a domain. */
static es_status sum_up_head(probe_position_summary *m, int64_t domain, int64_t at,
                             double *averages, es_error *err)
{
    const probe_state *s = m->job->state;
    const probe_positions *p = m->p;
    const double *first = es_job_numbers(m->job, p->stage, domain * p->blocks);
    m->track = (probe_track){&p->grid, first + at * p->grid.numbers, heads_of(s) * p->grid.numbers,
                             p->blocks, p->scratch};
    probe_position_head_row *r = es_rows_add(m->heads, probe_position_head_row);
    if (!r)
        return es_answer_status(m->job->answer, err);
    r->domain = es_pools_domain(&s->pools, domain, m->heads);
    r->layer = at / s->heads;
    r->head = at % s->heads;
    probe_position_describe_head(m, r);
    add_to_averages(s, &m->track, averages);
    return probe_position_add_curves(m, r) ? ES_OK : es_answer_status(m->job->answer, err);
}

/* Returns the median over heads of the share of n that a window needs; `without` -1: by all blocks.
 */
static double median_share(const probe_position_summary *m, int64_t without, double *scratch)
{
    const int64_t rows = es_table_rows(m->heads);
    for (int64_t i = 0; i < rows; i++)
        scratch[i] = m->shares[i * (1 + m->p->blocks) + 1 + without];
    es_sort_reals(scratch, rows);
    return es_median_of(scratch, rows);
}

/* Returns that median with its error, by the jackknife over blocks. */
static es_measured jackknife_share(const probe_position_summary *m, double *scratch)
{
    for (int64_t b = 0; b < m->p->blocks; b++)
        m->p->scratch[b] = median_share(m, b, scratch);
    const es_grouped x = es_jackknife(median_share(m, -1, scratch), m->p->scratch, m->p->blocks);
    return (es_measured){x.value, x.se};
}

/* Adds a number and its error to the answer. */
static void put_scalar(es_answer *answer, const char *key, const char *error, es_measured x)
{
    es_answer_real(answer, key, x.value);
    es_answer_real(answer, error, x.se);
}

/* Adds the numbers of the whole model to the answer. */
static void put_scalars(const probe_positions *p, const probe_position_facts *f, es_answer *answer)
{
    es_answer_count(answer, "position_blocks", p->blocks);
    es_answer_count(answer, "position_length", p->spec.length);
    es_answer_real(answer, "position_error", p->error);
    put_scalar(answer, "position_sink_mass", "position_sink_mass_se", f->sink_mass);
    put_scalar(answer, "position_single_key", "position_single_key_se", f->single_key);
    put_scalar(answer, "position_rests_on_sink", "position_rests_on_sink_se", f->rests_on_sink);
    put_scalar(answer, "position_window_share", "position_window_share_se", f->window_share);
}

/* Labels of the columns effective_context: n at the length, half of it, ... */
static es_status label_octaves(const probe_position_summary *m, es_error *err)
{
    double n[PROBE_OCTAVES];
    for (int64_t i = 0; i < PROBE_OCTAVES; i++) {
        const int64_t bin = probe_octave_bin(&m->p->grid, PROBE_OCTAVES - 1 - i);
        n[i] = bin < 0 ? 0.0 : (double)m->p->grid.to[bin];
    }
    return es_label_columns(m->job, m->heads, "effective_context", n, PROBE_OCTAVES, err);
}

/* Fills the tables by position and adds their findings. */
static es_status summarise_positions(es_job *job, es_answer *answer, es_error *err)
{
    const probe_state *s = job->state;
    const int64_t blocks = s->positions.blocks;
    probe_position_summary m = {.job = job, .p = &s->positions};
    double *scratch, *averages;
    es_table *classes = es_answer_table(answer, &probe_position_classes_table);
    m.heads = es_answer_table(answer, &probe_position_heads_table);
    m.places = es_answer_table(answer, &probe_places_table);
    m.windows = es_answer_table(answer, &probe_windows_table);
    m.distances = es_answer_table(answer, &probe_distances_table);
    ES_TRY(ES_JOB_NEW_2D(job, averages, AVERAGED, blocks, err));
    ES_TRY(ES_JOB_NEW_2D(job, m.shares, rows_of(s), 1 + blocks, err));
    ES_TRY(ES_JOB_NEW(job, scratch, rows_of(s), err));
    ES_TRY(label_octaves(&m, err));
    for (int64_t d = 0; d < s->pools.n_domains; d++)
        for (int64_t h = 0; h < heads_of(s); h++)
            ES_TRY(sum_up_head(&m, d, h, averages, err));
    if (!probe_position_classify(m.heads, classes, scratch))
        return es_answer_status(answer, err);
    const probe_position_facts facts = {
        .classes = classes,
        .heads = m.heads,
        .sink_mass = es_average_column(averages + SINK_MASS * blocks, blocks, 1),
        .single_key = es_average_column(averages + SINGLE_KEY * blocks, blocks, 1),
        .rests_on_sink = es_average_column(averages + RESTS_ON_SINK * blocks, blocks, 1),
        .window_share = jackknife_share(&m, scratch)};
    put_scalars(m.p, &facts, answer);
    probe_positions_add_findings(job, &facts, answer);
    return ES_OK;
}

const probe_question probe_positions_question = {open_positions, price_positions, begin_positions,
                                                 summarise_positions, work_of};
