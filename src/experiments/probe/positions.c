/* positions.c : blocks of text through a causal model, place by place, and the tables made of
 * them. */
#include "experiments/probe/position_question.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/probe/question.h"
#include "stats/multiple.h"

/* ---- blocks ---- */

static int64_t length_of(const es_blocks *b, int64_t block)
{
    return b->start[block + 1] - b->start[block];
}

static int64_t longest_of(const es_blocks *b)
{
    int64_t most = 0;
    for (int64_t i = 0; i < b->count; i++)
        most = length_of(b, i) > most ? length_of(b, i) : most;
    return most;
}

/* The first id of full block number `wanted`; NULL: there are fewer. */
static const int32_t *ids_of(const es_blocks *b, int64_t length, int64_t wanted)
{
    for (int64_t i = 0; i < b->count; i++)
        if (length_of(b, i) == length && wanted-- == 0)
            return b->ids + b->start[i];
    return NULL;
}

static int64_t count_full(const es_blocks *b, int64_t length)
{
    int64_t count = 0;
    for (int64_t i = 0; i < b->count; i++)
        count += length_of(b, i) == length;
    return count;
}

/* Places are compared over blocks of one length: the longest that every domain has. */
static es_status measure_blocks(const es_pools *pools, probe_positions *p, es_error *err)
{
    int64_t length = INT64_MAX;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const int64_t longest = longest_of(&p->texts[d]);
        length = longest < length ? longest : length;
    }
    p->blocks = INT64_MAX;
    for (int64_t d = 0; d < p->n_domains; d++) {
        const int64_t full = count_full(&p->texts[d], length);
        p->blocks = full < p->blocks ? full : p->blocks;
    }
    if (length < 2 || p->blocks < 1)
        return es_fail(err, ES_E_EMPTY, "probe.blocks", "more text, or --look limit",
                       "there is no block of %lld tokens in every domain", (long long)length);
    p->spec = (es_positions_spec){pools->model, length, pools->config->window};
    return ES_OK;
}

es_status probe_positions_open(es_job *job, es_error *err)
{
    probe_state *s = job->state;
    const es_pools *pools = &s->pools;
    probe_positions *p = &s->positions;
    ES_TRY(ES_JOB_NEW(job, p->texts, pools->n_domains, err));
    for (int64_t d = 0; d < pools->n_domains; d++, p->n_domains++)
        ES_TRY(es_pools_blocks(pools, d, job->exec.budget, &p->texts[d], err));
    ES_TRY(measure_blocks(pools, p, err));
    ES_TRY(es_positions_grid_of(&p->spec, &p->grid, err));
    ES_TRY(ES_JOB_NEW(job, p->room, p->blocks, err));
    return es_positions_cost_of(&p->spec, &p->cost, err);
}

void probe_positions_close(probe_positions *p)
{
    for (int64_t d = 0; d < p->n_domains; d++)
        es_blocks_free(&p->texts[d]);
}

/* ---- the stage ---- */

static int64_t cells_of(const probe_positions *p) { return p->n_domains * p->blocks; }

static int64_t heads_of(const probe_state *s) { return s->layers * s->heads; }

/* Of one block, running the model over it included: the pool has the price of that. */
static double block_flops(const probe_state *s)
{
    const probe_positions *p = &s->positions;
    int64_t tokens = 0;
    for (int64_t d = 0; d < p->n_domains; d++)
        tokens += p->texts[d].start[p->texts[d].count];
    return p->cost.flops + s->pools.cost.flops * (double)p->spec.length / (double)tokens;
}

double probe_positions_flops(const es_job *job)
{
    const probe_state *s = job->state;
    return (double)cells_of(&s->positions) * block_flops(s);
}

double probe_positions_bytes(const es_job *job)
{
    const probe_state *s = job->state;
    const probe_positions *p = &s->positions;
    const double threads = job->exec.threads ? job->exec.threads : es_threads_available();
    const double numbers = (double)heads_of(s) * (double)(p->grid.numbers + 1); /* and a share */
    const double cells = (double)cells_of(p);
    return fmin(threads, cells) * (double)p->cost.bytes + 8.0 * numbers * threads;
}

static es_status run_block(es_job *job, int64_t cell, const es_exec *exec, void *record,
                           es_error *err)
{
    double *out = record;
    const probe_positions *p = &((const probe_state *)job->state)->positions;
    const es_blocks *text = &p->texts[cell / p->blocks];
    return es_positions_block(&p->spec, ids_of(text, p->spec.length, cell % p->blocks), exec, out,
                              err);
}

es_status probe_positions_add(es_job *job, es_error *err)
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

/* ---- tables ---- */

/* Shares of the last bin's queries or weights that are averaged over all heads. */
enum { SINK_MASS, SINGLE_KEY, RESTS_ON_SINK, AVERAGED };

typedef struct summary_ctx {
    es_job *job;
    const probe_state *s;
    const probe_positions *p;
    es_table *classes, *heads, *places, *windows, *distances;
    int64_t domain, layer, head;
    probe_track track;
    double *averages; /* (AVERAGED, blocks) over heads */
    double *shares;   /* (rows of heads, 1 + blocks) effective context over n at the longest n, by
                         all blocks and without each */
} summary_ctx;

/* A head in every domain. */
static int64_t rows_of(const summary_ctx *m) { return m->s->pools.n_domains * heads_of(m->s); }

/* Keys that a query with the longest context sees. */
static double most_keys(const es_positions_grid *g)
{
    return (double)(g->seen < g->to[g->bins - 1] ? g->seen : g->to[g->bins - 1]);
}

static void name_row(const summary_ctx *m, es_table *t, int64_t row)
{
    es_pools_name(&m->s->pools, m->domain, t, row);
    es_table_count(t, row, "layer", m->layer);
    es_table_count(t, row, "head", m->head);
}

static void put(es_table *t, int64_t row, const char *key, es_measured x)
{
    es_put_under(t, row, key, {"", x.value}, {"_se", x.se});
}

/* A number whose logarithm was averaged. */
static es_measured raised(es_measured x)
{
    return (es_measured){exp(x.value), exp(x.value) * x.se};
}

/* Numbers that stand in the rows of places and, of the last bin, in that of the head. */
static void put_shared(const summary_ctx *m, es_table *t, int64_t row, int64_t bin)
{
    static const struct {
        const char *key;
        es_positions_stat stat;
    } of[] = {{"entropy", ES_POSITIONS_ENTROPY},          {"single_key", ES_POSITIONS_SINGLE},
              {"rests_on_sink", ES_POSITIONS_ON_SINK},    {"top_weight", ES_POSITIONS_TOP},
              {"sink_mass", ES_POSITIONS_SINK},           {"local_mass", ES_POSITIONS_NEAR},
              {"score_sd", ES_POSITIONS_SCORE_SD},        {"freezing", ES_POSITIONS_FREEZING},
              {"gaussian_frozen", ES_POSITIONS_ABOVE_ONE}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        put(t, row, of[i].key, probe_track_mean(&m->track, bin, of[i].stat));
    put(t, row, "ess_typical", raised(probe_track_mean(&m->track, bin, ES_POSITIONS_LOG_ESS)));
}

static void put_places(const summary_ctx *m)
{
    const es_positions_grid *g = m->track.grid;
    for (int64_t bin = 0; bin < g->bins; bin++) {
        const int64_t row = es_table_row(m->places);
        name_row(m, m->places, row);
        es_table_count(m->places, row, "from", bin ? g->to[bin - 1] + 1 : 1);
        es_table_count(m->places, row, "to", g->to[bin]);
        es_table_real(m->places, row, "n",
                      exp(probe_track_mean(&m->track, bin, ES_POSITIONS_PLACES).value));
        put_shared(m, m->places, row, bin);
        put(m->places, row, "ess", probe_track_mean(&m->track, bin, ES_POSITIONS_ESS));
        put(m->places, row, "effective_context",
            raised(probe_track_context(&m->track, bin, m->p->error)));
    }
}

static void put_windows(const summary_ctx *m)
{
    const es_positions_grid *g = m->track.grid;
    for (int64_t c = 0; c < g->windows; c++) {
        const int64_t row = es_table_row(m->windows);
        name_row(m, m->windows, row);
        es_table_count(m->windows, row, "window", g->window[c]);
        put(m->windows, row, "error", probe_track_error(&m->track, g->bins - 1, c));
        put(m->windows, row, "mass", probe_track_mass(&m->track, g->bins - 1, c));
    }
}

/* ---- distances ---- */

/* Keys that a query of the last bin has at distances [from, to), sinks apart, on average. */
static double keys_at(const summary_ctx *m, int64_t from, int64_t to)
{
    const es_positions_grid *g = m->track.grid;
    const int64_t first = g->bins > 1 ? g->to[g->bins - 2] : 0, last = g->to[g->bins - 1];
    double sum = 0.0;
    for (int64_t i = first; i < last; i++) {
        const int64_t most = i + 1 - ES_POSITIONS_SINKS;
        sum += fmax((double)((to < most ? to : most) - from), 0.0);
    }
    return sum / (double)(last - first);
}

static void put_scores(const summary_ctx *m, int64_t row, int64_t distance)
{
    put(m->distances, row, "score", probe_track_score(&m->track, distance, ES_POSITIONS_REAL));
    put(m->distances, row, "score_plain",
        probe_track_score(&m->track, distance, ES_POSITIONS_PLAIN));
    put(m->distances, row, "score_rotary",
        probe_track_score(&m->track, distance, ES_POSITIONS_SCORES));
}

/* Weight between two windows, of each block, so that the error is that of the difference. */
static es_measured mass_between(const summary_ctx *m, int64_t distance)
{
    const es_positions_grid *g = m->track.grid;
    const probe_track *t = &m->track;
    for (int64_t b = 0; b < t->blocks; b++) {
        const probe_track one = {g, t->first + b * t->stride, t->stride, 1, t->room + b};
        const double below = probe_track_mass(&one, g->bins - 1, distance - 1).value;
        t->room[b] = probe_track_mass(&one, g->bins - 1, distance).value - below;
    }
    return es_average_column(t->room, t->blocks, 1);
}

static void put_distance(const summary_ctx *m, int64_t distance)
{
    const es_positions_grid *g = m->track.grid;
    const int64_t row = es_table_row(m->distances);
    const int64_t from = distance ? g->window[distance - 1] : 0;
    const int64_t to = distance < g->windows ? g->window[distance] : m->p->spec.length;
    const double keys = keys_at(m, from, to);
    const es_measured mass = mass_between(m, distance);
    name_row(m, m->distances, row);
    es_table_text(m->distances, row, "keys", "rest");
    es_table_count(m->distances, row, "from", from);
    es_table_count(m->distances, row, "to", to - 1);
    put(m->distances, row, "mass", mass);
    put(m->distances, row, "weight", (es_measured){mass.value / keys, mass.se / keys});
    put_scores(m, row, distance);
}

static void put_sinks(const summary_ctx *m)
{
    const es_positions_grid *g = m->track.grid;
    const int64_t row = es_table_row(m->distances);
    const es_measured mass = probe_track_mean(&m->track, g->bins - 1, ES_POSITIONS_SINK);
    name_row(m, m->distances, row);
    es_table_text(m->distances, row, "keys", "sinks");
    es_table_count(m->distances, row, "from", 0);
    es_table_count(m->distances, row, "to", m->p->spec.length - 1);
    put(m->distances, row, "mass", mass);
    put(m->distances, row, "weight",
        (es_measured){mass.value / ES_POSITIONS_SINKS, mass.se / ES_POSITIONS_SINKS});
    put_scores(m, row, g->windows + 1);
}

/* ---- heads ---- */

static void put_octaves(const summary_ctx *m, int64_t row)
{
    for (int64_t i = 0; i < PROBE_OCTAVES; i++) {
        const int64_t bin = probe_octave_bin(m->track.grid, PROBE_OCTAVES - 1 - i);
        if (bin < 0)
            continue;
        const es_measured w = raised(probe_track_context(&m->track, bin, m->p->error));
        es_put_at(m->heads, row, "effective_context", i, w.value);
        es_put_at(m->heads, row, "effective_context_se", i, w.se);
    }
}

/* The mean score next to the query less that of far keys: distances of half the length or more. */
static void put_decay(const summary_ctx *m, int64_t row)
{
    const probe_track *t = &m->track;
    const es_positions_score of[] = {ES_POSITIONS_REAL, ES_POSITIONS_PLAIN};
    static const char *const keys[] = {"decay", "decay_plain"};
    int64_t far = 0;
    while (far < t->grid->windows && 2 * t->grid->window[far] < m->p->spec.length)
        far++;
    for (int which = 0; which < 2 && far > 1; which++) {
        for (int64_t b = 0; b < t->blocks; b++) {
            const probe_track one = {t->grid, t->first + b * t->stride, t->stride, 1, t->room + b};
            const double near = probe_track_score(&one, 1, of[which]).value;
            t->room[b] = near - probe_track_score(&one, far, of[which]).value;
        }
        put(m->heads, row, keys[which], es_average_column(t->room, t->blocks, 1));
    }
}

/* Place and concentration. */
static void put_words(const summary_ctx *m, int64_t row, int64_t last)
{
    const es_measured error = probe_track_window_error(&m->track);
    const es_measured log_ess = probe_track_mean(&m->track, last, ES_POSITIONS_LOG_ESS);
    const double n = most_keys(m->track.grid);
    const int64_t blocks = m->track.blocks;
    es_table_text(m->heads, row, "place", probe_place_name(probe_place_of(error, blocks)));
    put(m->heads, row, "window_error", error);
    es_table_text(m->heads, row, "concentration",
                  es_regime_name(probe_concentration_of(log_ess, n, blocks)));
}

/* The effective context at the longest n over n. */
static void put_share(const summary_ctx *m, int64_t row, int64_t last)
{
    const double n = most_keys(m->track.grid);
    double *share = m->shares + row * (1 + m->track.blocks);
    const es_measured w = raised(probe_track_context(&m->track, last, m->p->error));
    put(m->heads, row, "window_share", (es_measured){w.value / n, w.se / n});
    share[0] = w.value / n;
    for (int64_t b = 0; b < m->track.blocks; b++)
        share[1 + b] = exp(m->track.room[b]) / n;
}

static void add_to_averages(const summary_ctx *m, int64_t last)
{
    static const es_positions_stat of[AVERAGED] = {ES_POSITIONS_SINK, ES_POSITIONS_SINGLE,
                                                   ES_POSITIONS_ON_SINK};
    const probe_track *t = &m->track;
    for (int i = 0; i < AVERAGED; i++)
        for (int64_t b = 0; b < t->blocks; b++) {
            const probe_track one = {t->grid, t->first + b * t->stride, t->stride, 1, t->room + b};
            m->averages[i * t->blocks + b] +=
                probe_track_mean(&one, last, of[i]).value / (double)rows_of(m);
        }
}

static void put_head(const summary_ctx *m)
{
    const int64_t last = m->track.grid->bins - 1, row = es_table_row(m->heads);
    const es_measured growth = probe_track_growth(&m->track, m->p->error);
    name_row(m, m->heads, row);
    put_words(m, row, last);
    put_share(m, row, last);
    put_octaves(m, row);
    put(m->heads, row, "growth", growth);
    es_table_text(m->heads, row, "grows",
                  probe_growth_name(probe_growth_of(growth, m->track.blocks)));
    es_table_real(m->heads, row, "sensitivity",
                  exp(probe_track_context(&m->track, last, 0.8 * m->p->error).value -
                      probe_track_context(&m->track, last, 1.25 * m->p->error).value));
    put_shared(m, m->heads, row, last);
    put(m->heads, row, "horizon_rotary", probe_track_horizon(&m->track, false));
    put(m->heads, row, "horizon_plain", probe_track_horizon(&m->track, true));
    put_decay(m, row);
}

static void sum_up_head(summary_ctx *m)
{
    const probe_positions *p = m->p;
    const int64_t place = m->layer * m->s->heads + m->head;
    m->track = (probe_track){
        &p->grid, es_job_numbers(m->job, p->stage, m->domain * p->blocks) + place * p->grid.numbers,
        heads_of(m->s) * p->grid.numbers, p->blocks, p->room};
    put_head(m);
    add_to_averages(m, p->grid.bins - 1);
    put_places(m);
    put_windows(m);
    for (int64_t distance = 0; distance <= p->grid.windows; distance++)
        put_distance(m, distance);
    put_sinks(m);
}

/* ---- classes ---- */

static const char *const meanings[PROBE_HEAD_PLACES] = {
    "64 + 4 keys suffice", "other keys matter somewhat", "other keys matter",
    "more text is needed (--pool)"};

static bool has_text(const es_table *t, int64_t row, const char *key, const char *text)
{
    return strcmp(es_table_get_text(t, row, key), text) == 0;
}

/* Median of a column over the heads of a place. */
static double median_in(const es_table *heads, const char *place, const char *key, double *room)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        if (has_text(heads, i, "place", place)) {
            room[count] = es_table_get(heads, i, key);
            count += isfinite(room[count]) ? 1 : 0;
        }
    es_sort_reals(room, count);
    return es_median_of(room, count);
}

static void put_class(const summary_ctx *m, probe_head_place place, double *room)
{
    static const char *const medians[] = {"window_error", "sink_mass", "single_key",
                                          "rests_on_sink", "window_share"};
    static const char *const counts[] = {"averaging_heads", "selective_heads", "single_key_heads"};
    static const es_regime of[] = {ES_REGIME_AVERAGING, ES_REGIME_SELECTIVE, ES_REGIME_SINGLE_KEY};
    const char *name = probe_place_name(place);
    const int64_t row = es_table_row(m->classes);
    int64_t heads = 0, members[3] = {0};
    for (int64_t i = 0; i < es_table_rows(m->heads); i++) {
        if (!has_text(m->heads, i, "place", name))
            continue;
        heads++;
        for (int c = 0; c < 3; c++)
            members[c] += has_text(m->heads, i, "concentration", es_regime_name(of[c]));
    }
    es_table_text(m->classes, row, "place", name);
    es_table_count(m->classes, row, "heads", heads);
    for (int c = 0; c < 3; c++)
        es_table_count(m->classes, row, counts[c], members[c]);
    for (size_t i = 0; i < sizeof medians / sizeof *medians; i++)
        es_table_real(m->classes, row, medians[i], median_in(m->heads, name, medians[i], room));
    es_table_text(m->classes, row, "meaning", meanings[place]);
}

/* ---- all heads ---- */

/* Median over heads of the share of n that a window needs; `without` -1: by all blocks. */
static double median_share(const summary_ctx *m, int64_t without, double *room)
{
    for (int64_t i = 0; i < rows_of(m); i++)
        room[i] = m->shares[i * (1 + m->p->blocks) + 1 + without];
    es_sort_reals(room, rows_of(m));
    return es_median_of(room, rows_of(m));
}

static es_measured jackknife_share(const summary_ctx *m, double *room)
{
    for (int64_t b = 0; b < m->p->blocks; b++)
        m->p->room[b] = median_share(m, b, room);
    const es_grouped x = es_jackknife(median_share(m, -1, room), m->p->room, m->p->blocks);
    return (es_measured){x.value, x.se};
}

static probe_position_facts facts_of(const summary_ctx *m, double *room)
{
    const int64_t blocks = m->p->blocks;
    return (probe_position_facts){
        m->classes,
        m->heads,
        .sink_mass = es_average_column(m->averages + SINK_MASS * blocks, blocks, 1),
        .single_key = es_average_column(m->averages + SINGLE_KEY * blocks, blocks, 1),
        .rests_on_sink = es_average_column(m->averages + RESTS_ON_SINK * blocks, blocks, 1),
        .window_share = jackknife_share(m, room)};
}

static void put_facts(const probe_position_facts *f, es_answer *answer)
{
    const struct {
        const char *key, *error;
        es_measured x;
    } of[] = {{"position_sink_mass", "position_sink_mass_se", f->sink_mass},
              {"position_single_key", "position_single_key_se", f->single_key},
              {"position_rests_on_sink", "position_rests_on_sink_se", f->rests_on_sink},
              {"position_window_share", "position_window_share_se", f->window_share}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        es_answer_real(answer, of[i].key, of[i].x.value);
        es_answer_real(answer, of[i].error, of[i].x.se);
    }
}

/* ---- all together ---- */

static es_status label_octaves(const summary_ctx *m, es_error *err)
{
    double n[PROBE_OCTAVES];
    for (int64_t i = 0; i < PROBE_OCTAVES; i++) {
        const int64_t bin = probe_octave_bin(&m->p->grid, PROBE_OCTAVES - 1 - i);
        n[i] = bin < 0 ? 0.0 : (double)m->p->grid.to[bin];
    }
    return es_put_each(m->job, m->heads, "effective_context", n, PROBE_OCTAVES, err);
}

static es_status make_tables(summary_ctx *m, es_answer *answer, es_error *err)
{
    m->classes = es_answer_table(answer, &probe_head_places_table);
    m->heads = es_answer_table(answer, &probe_position_heads_table);
    m->places = es_answer_table(answer, &probe_places_table);
    m->windows = es_answer_table(answer, &probe_windows_table);
    m->distances = es_answer_table(answer, &probe_distances_table);
    ES_TRY(ES_JOB_NEW_2D(m->job, m->averages, AVERAGED, m->p->blocks, err));
    ES_TRY(ES_JOB_NEW_2D(m->job, m->shares, rows_of(m), 1 + m->p->blocks, err));
    return label_octaves(m, err);
}

es_status probe_positions_put(es_job *job, es_answer *answer, es_error *err)
{
    summary_ctx m = {.job = job, .s = job->state};
    double *room;
    m.p = &m.s->positions;
    ES_TRY(make_tables(&m, answer, err));
    ES_TRY(ES_JOB_NEW(job, room, rows_of(&m), err));
    for (m.domain = 0; m.domain < m.s->pools.n_domains; m.domain++)
        for (m.layer = 0; m.layer < m.s->layers; m.layer++)
            for (m.head = 0; m.head < m.s->heads; m.head++)
                sum_up_head(&m);
    for (int place = 0; place < PROBE_HEAD_PLACES; place++)
        put_class(&m, (probe_head_place)place, room);
    es_answer_count(answer, "position_blocks", m.p->blocks);
    es_answer_count(answer, "position_length", m.p->spec.length);
    es_answer_real(answer, "position_error", m.p->error);
    const probe_position_facts facts = facts_of(&m, room);
    put_facts(&facts, answer);
    probe_positions_tell(job, &facts, answer);
    return ES_OK;
}
