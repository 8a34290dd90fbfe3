/* position_tables.c : what the columns about places of a causal model mean. */
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

/* ---- columns: classes ---- */

static const es_column class_columns[] = {
    {"place", "place", "", ES_FORMAT_TEXT},
    {"heads", "heads", "", ES_FORMAT_COUNT, "how many; where there are domains, of each"},
    {"window_error", "window error", "", ES_FORMAT_SHORT, ERROR_64 "; median over the heads"},
    {"sink_mass", "sink mass", "share", ES_FORMAT_SHORT, "weight on the first 4 keys, median"},
    {"single_key", "single key", "share", ES_FORMAT_SHORT,
     "of queries with ESS < 2 by a key other than the first 4, median"},
    {"rests_on_sink", "on a sink", "share", ES_FORMAT_SHORT,
     "of queries with ESS < 2 by one of the first 4, median"},
    {"window_share", "w/n", "share", ES_FORMAT_SHORT,
     "of n, that a window must have for --error, median"},
    {"averaging_heads", "averaging heads", "", ES_FORMAT_COUNT,
     "of them, those whose 95 % interval of ESS lies at or above 100 (two thirds of n, if that is "
     "less)"},
    {"selective_heads", "selective heads", "", ES_FORMAT_COUNT,
     "those where it lies between 2 and that"},
    {"single_key_heads", "single-key heads", "", ES_FORMAT_COUNT,
     "those where it lies below 2; heads where it contains a cut-off are in none of the three"},
    {"meaning", "which means", "", ES_FORMAT_TEXT},
    {0}};
const es_table_spec probe_head_places_table = {
    "position_classes", class_columns,
    ES_VIEW("Where the heads need to look",
            "place heads window_error sink_mass window_share averaging_heads selective_heads "
            "single_key_heads meaning",
            "at the longest n. " PLACES),
    .keys = "place"};

/* ---- columns: heads ---- */

static const es_column head_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"place", "place", "", ES_FORMAT_TEXT, PLACES},
    {"window_error", "window error", "", ES_FORMAT_REAL,
     ERROR_64 "; " LAST ". Standard error by the jackknife over blocks",
     .error = "window_error_se"},
    {"concentration", "concentration", "", ES_FORMAT_TEXT,
     CONCENTRATIONS "; ESS of the typical query"},
    {"effective_context", "w at n =", "keys", ES_FORMAT_REAL,
     "effective context: the smallest window that, with the first 4 keys, gives outputs within the "
     "relative error; queries with n/sqrt 2 to n keys. Standard error by the jackknife over blocks",
     .error = "effective_context_se", .each = true},
    {"window_share", "w/n", "share", ES_FORMAT_REAL,
     "effective context at the longest n over n: the share of the text that a window must have",
     .error = "window_share_se"},
    {"growth", "d ln w/d ln n", "", ES_FORMAT_REAL,
     "how the effective context w grows where n is largest: slope over the last two octaves; 1: in "
     "proportion, 0: not at all. Standard error by the jackknife over blocks",
     .error = "growth_se"},
    {"grows", "w", "", ES_FORMAT_TEXT,
     "grows: the 95 % interval of d ln w / d ln n is above 0.2; saturates: below; undecided: it "
     "contains 0.2"},
    {"sensitivity", "w by error", "", ES_FORMAT_SHORT,
     "effective context at the longest n for four fifths of the error over that for five fourths "
     "of it: 1.6 where errors fall like 1/w; much more on a plateau, where w hangs on the error "
     "that is asked for"},
    {"sink_mass", "sink mass", "share", ES_FORMAT_REAL, "weight on the first 4 keys, " LAST,
     .error = "sink_mass_se"},
    {"local_mass", "local", "share", ES_FORMAT_REAL, "weight on the last 64 keys, likewise",
     .error = "local_mass_se"},
    {"ess_typical", "ESS", "keys", ES_FORMAT_REAL,
     "effective number of keys, 1/sum w^2, of the typical query: exp of the mean logarithm",
     .error = "ess_typical_se"},
    {"single_key", "single key", "share", ES_FORMAT_REAL,
     "of queries with ESS < 2 whose heaviest key is none of the first 4", .error = "single_key_se"},
    {"rests_on_sink", "on a sink", "share", ES_FORMAT_REAL,
     "of queries with ESS < 2 whose heaviest key is one of the first 4",
     .error = "rests_on_sink_se"},
    {"top_weight", "top weight", "share", ES_FORMAT_REAL, "largest weight of a query, mean",
     .error = "top_weight_se"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL, "of a query's weights, mean",
     .error = "entropy_se"},
    {"score_sd", "score sd", "nats", ES_FORMAT_REAL,
     "standard deviation of a query's scores over the keys it sees, mean", .error = "score_sd_se"},
    {"freezing", "u", "", ES_FORMAT_REAL,
     "that over sqrt(2 ln n): above 1 Gaussian scores would freeze", .error = "freezing_se",
     .standing = ES_STANDING_HEURISTIC},
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_REAL, "of queries",
     .error = "gaussian_frozen_se"},
    {"horizon_rotary", "H, positions", "", ES_FORMAT_REAL,
     "horizon of queries and keys as they are, from their covariances in a block, rotated where "
     "the model rotates: sqrt(lmax(Cq Ck)) times the scale; mean over blocks",
     .error = "horizon_rotary_se"},
    {"horizon_plain", "H, content", "", ES_FORMAT_REAL, "the same before the rotation",
     .error = "horizon_plain_se"},
    {"decay", "decay", "nats", ES_FORMAT_REAL,
     "mean score of keys next to the query less that of the farthest half, sinks apart",
     .error = "decay_se"},
    {"decay_plain", "of content", "nats", ES_FORMAT_REAL,
     "of that, what there is without the rotation: near tokens are alike",
     .error = "decay_plain_se"},
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
    {0}};
const es_table_spec probe_position_heads_table = {"position_heads", head_columns, head_views,
                                                  .keys = "domain layer head"};

/* ---- columns: places ---- */

static const es_column place_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"from", "from", "keys", ES_FORMAT_COUNT, "queries that see so many keys,"},
    {"to", "to", "keys", ES_FORMAT_COUNT, "up to so many"},
    {"n", "n", "keys", ES_FORMAT_SHORT, "geometric mean of that"},
    {"entropy", "entropy", "nats", ES_FORMAT_REAL,
     "of a query's weights; all of these are means over queries, with standard errors over blocks",
     .error = "entropy_se"},
    {"ess", "ESS", "keys", ES_FORMAT_REAL, "effective number of keys, 1/sum w^2",
     .error = "ess_se"},
    {"ess_typical", "typical ESS", "keys", ES_FORMAT_REAL, "exp of the mean of its logarithm",
     .error = "ess_typical_se"},
    {"single_key", "single key", "share", ES_FORMAT_REAL,
     "of queries with ESS < 2 whose heaviest key is none of the first 4", .error = "single_key_se"},
    {"rests_on_sink", "on a sink", "share", ES_FORMAT_REAL, "the same with one of the first 4",
     .error = "rests_on_sink_se"},
    {"top_weight", "top weight", "share", ES_FORMAT_REAL, "largest weight",
     .error = "top_weight_se"},
    {"sink_mass", "sink mass", "share", ES_FORMAT_REAL, "weight on the first 4 keys",
     .error = "sink_mass_se"},
    {"local_mass", "local", "share", ES_FORMAT_REAL, "weight on the last 64 keys",
     .error = "local_mass_se"},
    {"effective_context", "context", "keys", ES_FORMAT_REAL,
     "the smallest window that, with the first 4 keys, gives outputs within the relative error "
     "(root mean square over the queries, over that of outputs around their mean); a line in ln w "
     "between powers of sqrt 2. Standard error by the jackknife over blocks",
     .error = "effective_context_se"},
    {"score_sd", "score sd", "nats", ES_FORMAT_REAL,
     "standard deviation of a query's scores over the keys it sees", .error = "score_sd_se"},
    {"freezing", "u", "", ES_FORMAT_REAL, "that over sqrt(2 ln n)", .error = "freezing_se",
     .standing = ES_STANDING_HEURISTIC},
    {"gaussian_frozen", "u > 1", "share", ES_FORMAT_REAL, "of queries",
     .error = "gaussian_frozen_se"},
    {0}};
const es_table_spec probe_places_table = {
    "positions", place_columns,
    ES_VIEW("Heads as their context grows",
            "domain layer head to entropy ess_typical single_key rests_on_sink top_weight "
            "sink_mass local_mass effective_context freezing",
            .only_with_full = true),
    .keys = "domain layer head to"};

/* ---- columns: windows ---- */

static const es_column window_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"window", "window", "keys", ES_FORMAT_COUNT,
     "the last so many keys; with them the first 4, unless the model's own window is shorter than "
     "the block"},
    {"error", "rel. error", "", ES_FORMAT_REAL,
     "root mean square of |y_w - y| over that of outputs around their mean, of the queries with "
     "the "
     "longest contexts; standard error by the jackknife over blocks",
     .error = "error_se"},
    {"mass", "mass", "share", ES_FORMAT_REAL, "of the weight, that these keys have",
     .error = "mass_se"},
    {0}};
const es_table_spec probe_windows_table = {
    "context_windows", window_columns,
    ES_VIEW("What a window leaves out, at the longest n", .only_with_full = true),
    .keys = "domain layer head window"};

/* ---- columns: distances ---- */

static const es_column distance_columns[] = {
    {"domain", "domain", "", ES_FORMAT_TEXT},
    {"layer", "layer", "", ES_FORMAT_COUNT},
    {"head", "head", "", ES_FORMAT_COUNT},
    {"keys", "keys", "", ES_FORMAT_TEXT, "sinks: the first 4 keys, at any distance; else the rest"},
    {"from", "from", "keys", ES_FORMAT_COUNT, "distance i - j from query to key, 0 its own,"},
    {"to", "to", "keys", ES_FORMAT_COUNT, "up to this"},
    {"mass", "mass", "share", ES_FORMAT_REAL,
     "weight on them, of the queries with the longest contexts, mean over these; standard errors "
     "over blocks",
     .error = "mass_se"},
    {"weight", "weight", "", ES_FORMAT_REAL, "that over the number of such keys: of one of them",
     .error = "weight_se"},
    {"score", "score", "nats", ES_FORMAT_REAL, "mean over all pairs at this distance",
     .error = "score_se"},
    {"score_plain", "content", "nats", ES_FORMAT_REAL,
     "the same of queries and keys before their rotation", .error = "score_plain_se"},
    {"score_rotary", "rotation", "nats", ES_FORMAT_REAL,
     "the difference: what the rotation does to the mean score", .error = "score_rotary_se"},
    {0}};
const es_table_spec probe_distances_table = {
    "distances", distance_columns,
    ES_VIEW("Weights and scores by distance",
            "domain layer head keys from to mass weight score score_plain score_rotary",
            .only_with_full = true),
    .keys = "domain layer head keys from"};
