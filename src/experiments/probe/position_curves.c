/* SPDX-License-Identifier: Apache-2.0 */
/* position_curves.c : the tables positions, context_windows and distances: what each head of a
 * causal model does at every n, with every window, and by distance. */
#include <math.h>

#include "experiments/kit/answer_kit.h"
#include "experiments/probe/position_question.h"

/* ---- positions ---- */

/* Queries of a head that see from `from` to `to` keys. */
typedef struct place_row {
    const char *domain;
    int64_t layer, head, from, to;
    double n;
    probe_query_stats query;
    es_measured ess, effective_context;
} place_row;

static const es_column place_columns[] = {
    ES_COL(place_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(place_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(place_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(place_row, from, ES_FORMAT_COUNT, "from", "keys", "fewest keys that these queries see"),
    ES_COL(place_row, to, ES_FORMAT_COUNT, "to", "keys", "most keys that they see"),
    ES_COL(place_row, n, ES_FORMAT_SHORT, "n", "keys", "geometric mean number of keys"),
    ES_COL_KEY(place_row, query.entropy, "entropy", ES_FORMAT_REAL, "entropy", "nats",
               "of a query's weights; all of these are means over queries, with standard errors "
               "over blocks"),
    ES_COL(place_row, ess, ES_FORMAT_REAL, "ESS", "keys", "effective number of keys, `1/sum w^2`"),
    ES_COL_KEY(place_row, query.ess_typical, "ess_typical", ES_FORMAT_REAL, "typical ESS", "keys",
               "exp of the mean of its logarithm"),
    ES_COL_KEY(place_row, query.single_key, "single_key", ES_FORMAT_REAL, "single key", "share",
               "of queries with ESS < 2 whose heaviest key is none of the first 4"),
    ES_COL_KEY(place_row, query.rests_on_sink, "rests_on_sink", ES_FORMAT_REAL, "on a sink",
               "share", "the same with one of the first 4"),
    ES_COL_KEY(place_row, query.top_weight, "top_weight", ES_FORMAT_REAL, "top weight", "share",
               "largest weight"),
    ES_COL_KEY(place_row, query.sink_mass, "sink_mass", ES_FORMAT_REAL, "sink mass", "share",
               "weight on the first 4 keys"),
    ES_COL_KEY(place_row, query.local_mass, "local_mass", ES_FORMAT_REAL, "local", "share",
               "weight on the last 64 keys"),
    ES_COL(
        place_row, effective_context, ES_FORMAT_REAL, "context", "keys",
        "the smallest window that, with the first 4 keys, gives outputs within the relative error "
        "(root mean square over the queries, over that of outputs around their mean); a line in "
        "`ln w` between powers of `sqrt 2`. Standard error by the jackknife over blocks"),
    ES_COL_KEY(place_row, query.score_sd, "score_sd", ES_FORMAT_REAL, "score sd", "nats",
               "standard deviation of a query's scores over the keys it sees"),
    ES_COL_KEY(place_row, query.freezing, "freezing", ES_FORMAT_REAL, "u", "",
               "that over `sqrt(2 ln n)`", .standing = ES_STANDING_HEURISTIC),
    ES_COL_KEY(place_row, query.gaussian_frozen, "gaussian_frozen", ES_FORMAT_REAL, "u > 1",
               "share", "of queries"),
    ES_COL_KEY(place_row, query.critical_scale, "critical_scale", ES_FORMAT_REAL, "critical scale",
               "", PROBE_CRITICAL "; median over 16 queries", .standing = ES_STANDING_PROVED),
    ES_COL_KEY(place_row, query.critical_rest, "critical_rest", ES_FORMAT_REAL,
               "without first 4 keys", "", "the same"),
    {0}};
const es_table_spec probe_places_table = {
    "positions", place_columns,
    ES_VIEW("Heads as their context grows",
            "domain layer head to entropy ess_typical single_key rests_on_sink top_weight "
            "sink_mass local_mass effective_context freezing",
            .only_with_full = true),
    ES_ROW(place_row), .keys = "domain layer head to"};

/* Adds the head's rows of table positions, one for each bin of n. */
static bool add_places(const probe_position_summary *m, const probe_position_head_row *head)
{
    const es_positions_grid *g = m->track.grid;
    for (int64_t bin = 0; bin < g->bins; bin++) {
        place_row *r = es_rows_add(m->places, place_row);
        if (!r)
            return false;
        r->domain = head->domain;
        r->layer = head->layer;
        r->head = head->head;
        r->from = bin ? g->to[bin - 1] + 1 : 1;
        r->to = g->to[bin];
        r->n = exp(probe_track_mean(&m->track, bin, ES_POSITIONS_PLACES).value);
        r->query = probe_query_stats_of(&m->track, bin);
        r->ess = probe_track_mean(&m->track, bin, ES_POSITIONS_ESS);
        r->effective_context = probe_exp(probe_track_context(&m->track, bin, m->p->error));
    }
    return true;
}

/* ---- windows ---- */

/* A window of a head at the longest n. */
typedef struct window_row {
    const char *domain;
    int64_t layer, head, window;
    es_measured error, mass;
} window_row;

static const es_column window_columns[] = {
    ES_COL(window_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(window_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(window_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(window_row, window, ES_FORMAT_COUNT, "window", "keys",
           "number of last keys; the first 4 are added unless the model's own window is shorter "
           "than the "
           "block"),
    ES_COL(window_row, error, ES_FORMAT_REAL, "rel. error", "",
           "root mean square of `|y_w - y|` over that of outputs around their mean, of the queries "
           "with the longest contexts; standard error by the jackknife over blocks"),
    ES_COL(window_row, mass, ES_FORMAT_REAL, "mass", "share",
           "of the weight, that these keys have"),
    {0}};
const es_table_spec probe_windows_table = {
    "context_windows", window_columns,
    ES_VIEW("What a window leaves out, at the longest n", .only_with_full = true),
    ES_ROW(window_row), .keys = "domain layer head window"};

/* Adds the head's rows of table context_windows, one for each window. */
static bool add_windows(const probe_position_summary *m, const probe_position_head_row *head)
{
    const es_positions_grid *g = m->track.grid;
    for (int64_t c = 0; c < g->windows; c++) {
        window_row *r = es_rows_add(m->windows, window_row);
        if (!r)
            return false;
        r->domain = head->domain;
        r->layer = head->layer;
        r->head = head->head;
        r->window = g->window[c];
        r->error = probe_track_error(&m->track, g->bins - 1, c);
        r->mass = probe_track_mass(&m->track, g->bins - 1, c);
    }
    return true;
}

/* ---- distances ---- */

/* Pairs of a query and a key at some distances. */
typedef struct distance_row {
    const char *domain;
    int64_t layer, head;
    const char *keys;
    int64_t from, to;
    es_measured mass, weight, score, score_plain, score_rotary;
} distance_row;

static const es_column distance_columns[] = {
    ES_COL(distance_row, domain, ES_FORMAT_TEXT, "domain", ""),
    ES_COL(distance_row, layer, ES_FORMAT_COUNT, "layer", ""),
    ES_COL(distance_row, head, ES_FORMAT_COUNT, "head", ""),
    ES_COL(distance_row, keys, ES_FORMAT_TEXT, "keys", "",
           "sinks: the first 4 keys, at any distance; rest: all others"),
    ES_COL(distance_row, from, ES_FORMAT_COUNT, "from", "keys",
           "smallest distance i - j from query to key; 0: its own key"),
    ES_COL(distance_row, to, ES_FORMAT_COUNT, "to", "keys", "largest distance"),
    ES_COL(distance_row, mass, ES_FORMAT_REAL, "mass", "share",
           "weight on them, of the queries with the longest contexts, mean over these; standard "
           "errors "
           "over blocks"),
    ES_COL(distance_row, weight, ES_FORMAT_REAL, "weight", "",
           "that over the number of such keys: of one of them"),
    ES_COL(distance_row, score, ES_FORMAT_REAL, "score", "nats",
           "mean over all pairs at this distance"),
    ES_COL(distance_row, score_plain, ES_FORMAT_REAL, "content", "nats",
           "the same of queries and keys before their rotation"),
    ES_COL(distance_row, score_rotary, ES_FORMAT_REAL, "rotation", "nats",
           "the difference: what the rotation does to the mean score"),
    {0}};
const es_table_spec probe_distances_table = {
    "distances", distance_columns,
    ES_VIEW("Weights and scores by distance",
            "domain layer head keys from to mass weight score score_plain score_rotary",
            .only_with_full = true),
    ES_ROW(distance_row), .keys = "domain layer head keys from"};

/* Keys that a query of the last bin has at distances [from, to), without the sinks, on average. */
static double keys_at(const probe_position_summary *m, int64_t from, int64_t to)
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

/* Weight between two windows, block by block, so that the error is that of the difference. */
static es_measured mass_between(const probe_position_summary *m, int64_t distance)
{
    const probe_track *t = &m->track;
    const int64_t last = t->grid->bins - 1;
    for (int64_t b = 0; b < t->blocks; b++) {
        const probe_track one = probe_track_block(t, b);
        const double below = probe_track_mass(&one, last, distance - 1).value;
        t->scratch[b] = probe_track_mass(&one, last, distance).value - below;
    }
    return es_average_column(t->scratch, t->blocks, 1);
}

/* Adds a row of `keys` keys of distance bin `distance`, which have the weight `mass`. */
static distance_row *add_distance(const probe_position_summary *m,
                                  const probe_position_head_row *head, int64_t distance,
                                  double keys, es_measured mass)
{
    distance_row *r = es_rows_add(m->distances, distance_row);
    if (!r)
        return NULL;
    r->domain = head->domain;
    r->layer = head->layer;
    r->head = head->head;
    r->mass = mass;
    r->weight = (es_measured){mass.value / keys, mass.se / keys};
    r->score = probe_track_score(&m->track, distance, ES_POSITIONS_REAL);
    r->score_plain = probe_track_score(&m->track, distance, ES_POSITIONS_PLAIN);
    r->score_rotary = probe_track_score(&m->track, distance, ES_POSITIONS_SCORES);
    return r;
}

/* Adds the row of a distance bin: keys other than the sinks. */
static bool add_rest(const probe_position_summary *m, const probe_position_head_row *head,
                     int64_t distance)
{
    const es_positions_grid *g = m->track.grid;
    const int64_t from = distance ? g->window[distance - 1] : 0;
    const int64_t to = distance < g->windows ? g->window[distance] : m->p->spec.length;
    distance_row *r =
        add_distance(m, head, distance, keys_at(m, from, to), mass_between(m, distance));
    if (!r)
        return false;
    r->keys = "rest";
    r->from = from;
    r->to = to - 1;
    return true;
}

/* Adds the row of the first 4 keys, which are at any distance. */
static bool add_sinks(const probe_position_summary *m, const probe_position_head_row *head)
{
    const es_positions_grid *g = m->track.grid;
    const es_measured mass = probe_track_mean(&m->track, g->bins - 1, ES_POSITIONS_SINK);
    distance_row *r = add_distance(m, head, g->windows + 1, ES_POSITIONS_SINKS, mass);
    if (!r)
        return false;
    r->keys = "sinks";
    r->from = 0;
    r->to = m->p->spec.length - 1;
    return true;
}

bool probe_position_add_curves(const probe_position_summary *m, const probe_position_head_row *head)
{
    bool added = add_places(m, head) && add_windows(m, head);
    for (int64_t distance = 0; distance <= m->track.grid->windows && added; distance++)
        added = add_rest(m, head, distance);
    return added && add_sinks(m, head);
}
