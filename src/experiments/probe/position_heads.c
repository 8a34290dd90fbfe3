/* SPDX-License-Identifier: Apache-2.0 */
/* position_heads.c : the tables position_heads and position_classes: where each head of a causal
 * model needs to look, how concentrated it is, and how its effective context grows. */
#include <math.h>
#include <string.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/probe/position_question.h"

#define LAST "over the queries with the longest contexts, the last row of the table by n"

#define ERROR_64                                                                                   \
    "error of the outputs if a query sees only the last 64 keys and the first 4, over the "        \
    "standard deviation of the head's outputs in the whole block"

#define PLACES                                                                                     \
    "near: window error below 0.1; between: 0.1 or more and below 0.5; far: 0.5 or more; "         \
    "undecided: its 95 % interval over blocks contains 0.1 or 0.5"

#define CONCENTRATIONS                                                                             \
    "averaging: 95 % interval of ESS at or above 100 (two thirds of n, if that is less); "         \
    "single-key: below 2; selective: between; undecided: it contains a cut-off"

/* ---- columns ---- */

static const es_column head_columns[] = {
    ES_COL(probe_position_head_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(probe_position_head_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(probe_position_head_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(probe_position_head_row, place, ES_FORMAT_TEXT, "place", "", PLACES),
    ES_COL(probe_position_head_row, window_error, ES_FORMAT_REAL, "window error", "",
           ERROR_64 "; " LAST ". Standard error by the jackknife over blocks"),
    ES_COL(probe_position_head_row, concentration, ES_FORMAT_TEXT, "concentration", "",
           CONCENTRATIONS "; ESS of the typical query"),
    ES_COL_LIST(probe_position_head_row, effective_context, ES_FORMAT_REAL, "w at n =", "keys",
                "effective context: the smallest window that, with the first 4 keys, gives outputs "
                "within the relative error; queries with `n/sqrt 2` to n keys. Standard error by "
                "the jackknife over blocks"),
    ES_COL(
        probe_position_head_row, window_share, ES_FORMAT_REAL, "w/n", "share",
        "effective context at the longest n over n: the share of the text that a window must have"),
    ES_COL(probe_position_head_row, growth, ES_FORMAT_REAL, "d ln w/d ln n", "",
           "how the effective context w grows where n is largest: slope over the last two octaves; "
           "1: in "
           "proportion, 0: not at all. Standard error by the jackknife over blocks"),
    ES_COL(probe_position_head_row, grows, ES_FORMAT_TEXT, "w", "",
           "grows: the 95 % interval of `d ln w / d ln n` is above 0.2; saturates: below; "
           "undecided: it contains 0.2"),
    ES_COL(
        probe_position_head_row, sensitivity, ES_FORMAT_SHORT, "w by error", "",
        "effective context at the longest n for 0.8 of --error over that for 1.25 of it: 1.6 where "
        "errors fall like 1/w, much more where the error hardly depends on w"),
    ES_COL_KEY(probe_position_head_row, query.sink_mass, "sink_mass", ES_FORMAT_REAL, "sink mass",
               "share", "weight on the first 4 keys, " LAST),
    ES_COL_KEY(probe_position_head_row, query.local_mass, "local_mass", ES_FORMAT_REAL, "local",
               "share", "weight on the last 64 keys, likewise"),
    ES_COL_KEY(
        probe_position_head_row, query.ess_typical, "ess_typical", ES_FORMAT_REAL, "ESS", "keys",
        "effective number of keys, `1/sum w^2`, of the typical query: exp of the mean logarithm"),
    ES_COL_KEY(probe_position_head_row, query.single_key, "single_key", ES_FORMAT_REAL,
               "single key", "share",
               "of queries with ESS < 2 whose heaviest key is none of the first 4"),
    ES_COL_KEY(probe_position_head_row, query.rests_on_sink, "rests_on_sink", ES_FORMAT_REAL,
               "on a sink", "share",
               "of queries with ESS < 2 whose heaviest key is one of the first 4"),
    ES_COL_KEY(probe_position_head_row, query.top_weight, "top_weight", ES_FORMAT_REAL,
               "top weight", "share", "largest weight of a query, mean"),
    ES_COL_KEY(probe_position_head_row, query.entropy, "entropy", ES_FORMAT_REAL, "entropy", "nats",
               "of a query's weights, mean"),
    ES_COL_KEY(probe_position_head_row, query.score_sd, "score_sd", ES_FORMAT_REAL, "score sd",
               "nats", "standard deviation of a query's scores over the keys it sees, mean"),
    ES_COL_KEY(probe_position_head_row, query.freezing, "freezing", ES_FORMAT_REAL, "u", "",
               "that over `sqrt(2 ln n)`: above 1 Gaussian scores would freeze",
               .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(probe_position_head_row, query.gaussian_frozen, "gaussian_frozen", ES_FORMAT_REAL,
               "u > 1", "share", "of queries"),
    ES_COL(probe_position_head_row, horizon_rotary, ES_FORMAT_REAL, "H, positions", "",
           "horizon of queries and keys as they are, from their covariances in a block, rotated "
           "where the model rotates: `sqrt(lmax(Cq Ck))` times the scale; mean over blocks"),
    ES_COL(probe_position_head_row, horizon_plain, ES_FORMAT_REAL, "H, content", "",
           "the same before the rotation"),
    ES_COL(probe_position_head_row, decay, ES_FORMAT_REAL, "decay", "nats",
           "mean score of keys next to the query less that of the farthest half, sinks apart"),
    ES_COL(probe_position_head_row, decay_plain, ES_FORMAT_REAL, "of content", "nats",
           "of that, what there is without the rotation: near tokens are alike"),
    ES_COL_KEY(probe_position_head_row, query.critical_scale, "critical_scale", ES_FORMAT_REAL,
               "critical scale", "",
               PROBE_CRITICAL "; median over 16 queries of a block, mean over blocks",
               .standing = ES_STANDING_PROVED),
    ES_COL_KEY(probe_position_head_row, query.critical_rest, "critical_rest", ES_FORMAT_REAL,
               "without first 4 keys", "", "the same"),
    ES_COL(probe_position_head_row, critical_power, ES_FORMAT_REAL, "power of ln n", "",
           "by which the critical scale grows from n/16 to n, mean over blocks; exponential tails: "
           "about 0"),
    ES_COL(probe_position_head_row, normal_power, ES_FORMAT_SHORT, "normal scores", "",
           "the power that typical normal scores would show over these n; 1/2 in the limit",
           .standing = ES_STANDING_HEURISTIC),
    {0}};
static const es_table_view head_views[] = {
    {"Heads by position",
     "domain layer head place window_error sink_mass concentration ess_typical"},
    {"Heads by position: single keys",
     "domain layer head single_key rests_on_sink top_weight local_mass", .only_with_full = true},
    {"Heads by position: effective context",
     "domain layer head effective_context window_share grows growth sensitivity",
     .only_with_full = true},
    {"Heads by position: scores",
     "domain layer head entropy score_sd freezing gaussian_frozen horizon_rotary "
     "horizon_plain decay decay_plain",
     .only_with_full = true},
    {"Heads by position: critical score scales",
     "domain layer head critical_scale critical_rest critical_power normal_power",
     "Scales are multiples of the present one.", .only_with_full = true},
    {0}};
const es_table_spec probe_position_heads_table = {"position_heads", head_columns, head_views,
                                                  ES_ROW(probe_position_head_row),
                                                  .keys = "domain layer head"};

/* One class of heads, by where they need to look. */
typedef struct class_row {
    const char *place;
    int64_t heads;
    double window_error, sink_mass, single_key, rests_on_sink, window_share;
    int64_t averaging_heads, selective_heads, single_key_heads;
    const char *meaning;
} class_row;

static const es_column class_columns[] = {
    ES_COL(class_row, place, ES_FORMAT_TEXT, "place", ""),
    ES_COL(class_row, heads, ES_FORMAT_COUNT, "heads", "",
           "number of heads, counted once for each domain"),
    ES_COL(class_row, window_error, ES_FORMAT_SHORT, "window error", "",
           ERROR_64 "; median over the heads"),
    ES_COL(class_row, sink_mass, ES_FORMAT_SHORT, "sink mass", "share",
           "weight on the first 4 keys, median"),
    ES_COL(class_row, single_key, ES_FORMAT_SHORT, "single key", "share",
           "of queries with ESS < 2 by a key other than the first 4, median"),
    ES_COL(class_row, rests_on_sink, ES_FORMAT_SHORT, "on a sink", "share",
           "of queries with ESS < 2 by one of the first 4, median"),
    ES_COL(class_row, window_share, ES_FORMAT_SHORT, "w/n", "share",
           "of n, that a window must have for --error, median"),
    ES_COL(class_row, averaging_heads, ES_FORMAT_COUNT, "averaging heads", "",
           "of them, those whose 95 % interval of ESS lies at or above 100 (two thirds of n, if "
           "that is "
           "less)"),
    ES_COL(class_row, selective_heads, ES_FORMAT_COUNT, "selective heads", "",
           "those where it lies between 2 and that"),
    ES_COL(
        class_row, single_key_heads, ES_FORMAT_COUNT, "single-key heads", "",
        "those where it lies below 2; heads where it contains a cut-off are in none of the three"),
    ES_COL(class_row, meaning, ES_FORMAT_TEXT, "which means", ""),
    {0}};
const es_table_spec probe_position_classes_table = {
    "position_classes", class_columns,
    ES_VIEW("Where the heads need to look",
            "place heads window_error sink_mass window_share averaging_heads selective_heads "
            "single_key_heads meaning",
            "at the longest n. " PLACES),
    ES_ROW(class_row), .keys = "place"};

/* ---- heads ---- */

/* Keys that a query with the longest context sees. */
static double most_keys(const es_positions_grid *g)
{
    return (double)(g->seen < g->to[g->bins - 1] ? g->seen : g->to[g->bins - 1]);
}

/* Effective context at the length, half of it, and so on. */
static void fill_octaves(const probe_position_summary *m, probe_position_head_row *r)
{
    for (int64_t i = 0; i < PROBE_OCTAVES; i++) {
        const int64_t bin = probe_octave_bin(m->track.grid, PROBE_OCTAVES - 1 - i);
        if (bin >= 0)
            r->effective_context[i] = probe_exp(probe_track_context(&m->track, bin, m->p->error));
    }
}

/* Mean score next to the query less that of far keys, at distance bin `far`. */
static es_measured decay_of(const probe_track *t, int64_t far, es_positions_score score)
{
    for (int64_t b = 0; b < t->blocks; b++) {
        const probe_track one = probe_track_block(t, b);
        const double near = probe_track_score(&one, 1, score).value;
        t->scratch[b] = near - probe_track_score(&one, far, score).value;
    }
    return es_average_column(t->scratch, t->blocks, 1);
}

/* Far keys are at half the length or more. */
static void fill_decay(const probe_position_summary *m, probe_position_head_row *r)
{
    const probe_track *t = &m->track;
    int64_t far = 0;
    while (far < t->grid->windows && 2 * t->grid->window[far] < m->p->spec.length)
        far++;
    if (far <= 1)
        return;
    r->decay = decay_of(t, far, ES_POSITIONS_REAL);
    r->decay_plain = decay_of(t, far, ES_POSITIONS_PLAIN);
}

/* Place and concentration. */
static void fill_classes(const probe_position_summary *m, int64_t last, probe_position_head_row *r)
{
    const es_measured log_ess = probe_track_mean(&m->track, last, ES_POSITIONS_LOG_ESS);
    const double n = most_keys(m->track.grid);
    const int64_t blocks = m->track.blocks;
    r->window_error = probe_track_window_error(&m->track);
    r->place = probe_place_name(probe_place_of(r->window_error, blocks));
    r->concentration = es_regime_name(probe_concentration_of(log_ess, n, blocks));
}

/* The effective context at the longest n over n, and the same without each block. */
static void fill_share(const probe_position_summary *m, int64_t last, double *shares,
                       probe_position_head_row *r)
{
    const double n = most_keys(m->track.grid);
    const es_measured w = probe_exp(probe_track_context(&m->track, last, m->p->error));
    r->window_share = (es_measured){w.value / n, w.se / n};
    shares[0] = w.value / n;
    for (int64_t b = 0; b < m->track.blocks; b++)
        shares[1 + b] = exp(m->track.scratch[b]) / n;
}

void probe_position_describe_head(const probe_position_summary *m, probe_position_head_row *r)
{
    const int64_t last = m->track.grid->bins - 1;
    double *shares = m->shares + (es_table_rows(m->heads) - 1) * (1 + m->track.blocks);
    fill_classes(m, last, r);
    fill_share(m, last, shares, r);
    fill_octaves(m, r);
    r->growth = probe_track_growth(&m->track, m->p->error);
    r->grows = probe_growth_name(probe_growth_of(r->growth, m->track.blocks));
    r->sensitivity = exp(probe_track_context(&m->track, last, 0.8 * m->p->error).value -
                         probe_track_context(&m->track, last, 1.25 * m->p->error).value);
    r->query = probe_query_stats_of(&m->track, last);
    r->horizon_rotary = probe_track_horizon(&m->track, false);
    r->horizon_plain = probe_track_horizon(&m->track, true);
    fill_decay(m, r);
    r->critical_power = probe_track_critical_power(&m->track);
    r->normal_power = probe_normal_power(m->track.grid);
}

/* ---- classes ---- */

static const char *const meanings[PROBE_HEAD_PLACES] = {
    "64 + 4 keys suffice", "other keys matter somewhat", "other keys matter",
    "more text is needed (--pool)"};

/* Median of a double of the row over the heads of a place. */
static double median_in(const es_table *heads, const char *place, size_t offset, double *scratch)
{
    const probe_position_head_row *rows = es_rows(heads, probe_position_head_row);
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++)
        if (strcmp(rows[i].place, place) == 0) {
            memcpy(&scratch[count], (const char *)&rows[i] + offset, sizeof(double));
            count += isfinite(scratch[count]) ? 1 : 0;
        }
    es_sort_reals(scratch, count);
    return es_median_of(scratch, count);
}

#define HEAD(member) offsetof(probe_position_head_row, member)

/* Fills a row of classes: its heads, and how many of them average, select or use a single key. */
static void fill_class(const es_table *heads, probe_head_place place, double *scratch, class_row *r)
{
    const probe_position_head_row *rows = es_rows(heads, probe_position_head_row);
    r->place = probe_place_name(place);
    r->heads = r->averaging_heads = r->selective_heads = r->single_key_heads = 0;
    for (int64_t i = 0; i < es_table_rows(heads); i++) {
        if (strcmp(rows[i].place, r->place) != 0)
            continue;
        const char *concentration = rows[i].concentration;
        r->heads++;
        r->averaging_heads += strcmp(concentration, es_regime_name(ES_REGIME_AVERAGING)) == 0;
        r->selective_heads += strcmp(concentration, es_regime_name(ES_REGIME_SELECTIVE)) == 0;
        r->single_key_heads += strcmp(concentration, es_regime_name(ES_REGIME_SINGLE_KEY)) == 0;
    }
    r->window_error = median_in(heads, r->place, HEAD(window_error.value), scratch);
    r->sink_mass = median_in(heads, r->place, HEAD(query.sink_mass.value), scratch);
    r->single_key = median_in(heads, r->place, HEAD(query.single_key.value), scratch);
    r->rests_on_sink = median_in(heads, r->place, HEAD(query.rests_on_sink.value), scratch);
    r->window_share = median_in(heads, r->place, HEAD(window_share.value), scratch);
    r->meaning = meanings[place];
}

bool probe_position_classify(const es_table *heads, es_table *classes, double *scratch)
{
    for (int place = 0; place < PROBE_HEAD_PLACES; place++) {
        class_row *r = es_rows_add(classes, class_row);
        if (!r)
            return false;
        fill_class(heads, (probe_head_place)place, scratch, r);
    }
    return true;
}

int64_t probe_position_count(const es_table *classes, probe_head_place place)
{
    return es_rows(classes, class_row)[place].heads;
}
