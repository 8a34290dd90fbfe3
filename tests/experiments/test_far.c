/* SPDX-License-Identifier: Apache-2.0 */
/* test_far.c : far fields of tiny decoders of every positional scheme: recomputed weights against
 * those of the forward pass; texts of one token, whose far keys are all alike, so that draws and
 * forecasts are what running the model gives; and the exact error of queries, keys and values of
 * models/pebble against simulation. */
#include "golden.h"

#include "base/view.h"
#include "experiments/probe/far.h"
#include "model/model_inside.h"
#include "numbers.h"
#include "risk/far_risk.h"
#include "stats/average.h"
#include "stats/multiple.h"

enum { LENGTH = 64, TWICE = 128, SINKS = 4, NEAR = 8, QUERIES = 8, MOST_HEADS = 64 };

static const char *const models[] = {
    "decoders/llama",          "decoders/llama-yarn",  "decoders/llama-linear",
    "decoders/llama3-rope",    "decoders/neox",        "decoders/gpt2",
    "decoders/mistral-window", "decoders2/cohere",     "decoders2/gemma2",
    "decoders2/gpt_oss",       "decoders2/ministral3", "decoders2/smollm3",
    "decoders2/phi3-longrope"};
enum { MODELS = sizeof models / sizeof *models };

static es_model *model;
static const es_model_config *config;

static void open_model(const char *name)
{
    assert_ok(es_model_open(golden_path(name), NULL, &model, &err));
    config = es_model_config_of(model);
    assert_at_most(config->layers * config->heads, MOST_HEADS);
}

static es_far_spec spec_of(void)
{
    return (es_far_spec){.model = model,
                         .length = LENGTH,
                         .sinks = SINKS,
                         .near = NEAR,
                         .queries = QUERIES,
                         .atoms = 8,
                         .sizes = 1,
                         .size = {LENGTH},
                         .seed = 3};
}

/* ---- the forward pass ---- */

/* Statistics of every query of every head. */
typedef struct record {
    double entropy[MOST_HEADS][TWICE], ess[MOST_HEADS][TWICE], top[MOST_HEADS][TWICE];
    int64_t n;
} record;

static es_status keep(void *user, const es_model_seen *seen, es_error *e)
{
    record *r = user;
    const int64_t head = seen->layer * config->heads + seen->head;
    (void)e;
    for (int64_t i = 0; i < r->n; i++) {
        r->entropy[head][i] = seen->entropy[i];
        r->ess[head][i] = 1.0 / seen->sum_squares[i];
        r->top[head][i] = seen->top_weight[i];
    }
    return ES_OK;
}

static record run(const int32_t *ids, int64_t n)
{
    record r = {.n = n};
    const es_model_visit visit = {.head = keep, .context = &r, .statistics = true};
    const es_model_block block = {.ids = ids, .n = n, .visit = &visit};
    assert_ok(es_model_forward(model, &block, 1, NULL, &err));
    return r;
}

static es_far_pool pool_of(const int32_t *a, const int32_t *b)
{
    const int32_t *const ids[] = {a, b};
    const int64_t source[] = {0, 1};
    const es_far_build build = {.model = model,
                                .ids = ids,
                                .source = source,
                                .blocks = 2,
                                .rows = LENGTH - SINKS,
                                .length = LENGTH,
                                .sinks = SINKS};
    es_far_pool pool;
    assert_ok(es_far_pool_build(&build, NULL, &pool, &err));
    return pool;
}

/* ---- weights ---- */

/* Scores are sums of floats here and there: 1e-6 of |q||k|, which are below 100. */
static void weights_of_real_keys_are_those_of_the_model(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        int32_t ids[LENGTH], other[LENGTH];
        open_model(models[m]);
        for (int64_t i = 0; i < LENGTH; i++) {
            ids[i] = (int32_t)((7 * i * i + 3 * i + 5) % 96);
            other[i] = (int32_t)((11 * i * i + i + 1) % 96);
        }
        const record truth = run(ids, LENGTH);
        es_far_pool pool = pool_of(ids, other);
        const es_far_spec spec = spec_of();
        const es_far_text text = {.ids = ids, .number = 0, .pool = &pool};
        es_far_cell *cells = calloc((size_t)(MOST_HEADS * es_far_rows(&spec)), sizeof *cells);
        assert_ok(es_far_block(&spec, &text, NULL, cells, &err));
        for (int64_t h = 0; h < config->layers * config->heads; h++) {
            const es_far_cell *c = cells + h * es_far_rows(&spec);
            double entropy = 0.0, ess = 0.0, top = 0.0; /* queries are the last eighth: 8 of them */
            for (int64_t i = LENGTH - QUERIES; i < LENGTH; i++) {
                entropy += truth.entropy[h][i] / QUERIES;
                ess += truth.ess[h][i] / QUERIES;
                top += truth.top[h][i] / QUERIES;
            }
            assert_near(c->real[ES_FAR_ENTROPY], entropy, 1e-4);
            assert_near(c->real[ES_FAR_ESS], ess, 1e-4 * ess);
            assert_near(c->real[ES_FAR_TOP], top, 1e-4);
            const double sum = c->real[ES_FAR_FAR] + c->real[ES_FAR_SINK] + c->real[ES_FAR_NEAR];
            if (config->sinks) /* a learned sink has the rest */
                assert_at_most(sum, 1.0);
            else
                assert_near(sum, 1.0, 1e-12);
            assert_at_least(c->exact, c->exact_bias);
            for (int p = 0; p < ES_FAR_PAIRS; p++)
                assert_finite(c->apart[p]);
        }
        free(cells);
        es_far_pool_free(&pool);
        es_model_close(model);
    }
}

/* ---- windows ---- */

/* Squared errors of windows over the last queries of every head, by plain loops over the queries
 * and keys that the model used. */
typedef struct window_record {
    double square[MOST_HEADS][ES_FAR_WINDOWS];
} window_record;

/* Output of a query over keys 0 .. SINKS - 1 and its last w: y (cols of v). */
static void windowed(const es_model_seen *s, int64_t i, int64_t w, double *y)
{
    double q[256], k[256], v[256], z = 0.0;
    es_view_read_row(&s->q, i, q);
    for (int64_t c = 0; c < s->v.cols; c++)
        y[c] = 0.0;
    if (s->sink)
        z = exp(*s->sink);
    for (int64_t j = 0; j <= i; j++) {
        if ((j >= SINKS && i - j >= w) || (s->window && i - j >= s->window))
            continue;
        double score = 0.0;
        es_view_read_row(&s->k, j, k);
        es_view_read_row(&s->v, j, v);
        for (int64_t c = 0; c < s->q.cols; c++)
            score += q[c] * k[c];
        score *= s->scale;
        const double e = exp(s->cap > 0.0 ? s->cap * tanh(score / s->cap) : score);
        z += e;
        for (int64_t c = 0; c < s->v.cols; c++)
            y[c] += e * v[c];
    }
    for (int64_t c = 0; c < s->v.cols; c++)
        y[c] = z > 0.0 ? y[c] / z : 0.0;
}

static es_status add_windows(void *user, const es_model_seen *s, es_error *e)
{
    window_record *r = user;
    double *to = r->square[s->layer * config->heads + s->head];
    (void)e;
    for (int64_t i = LENGTH - QUERIES; i < LENGTH; i++) {
        double whole[256], part[256];
        windowed(s, i, LENGTH, whole);
        for (int c = 0; c < ES_FAR_WINDOWS && es_far_window(c) < LENGTH; c++) {
            windowed(s, i, es_far_window(c), part);
            for (int64_t l = 0; l < s->v.cols; l++)
                to[c] += pow(part[l] - whole[l], 2.0) / QUERIES;
        }
    }
    return ES_OK;
}

/* Outputs are sums of floats there; they are below 10. */
static void windows_of_real_keys_are_those_of_the_model(void **state)
{
    (void)state;
    assert_int_equal(es_far_window(0), 1);
    assert_int_equal(es_far_window(4), 6);
    assert_int_equal(es_far_window(ES_FAR_WINDOWS - 1), 1 << 20);
    for (int m = 0; m < MODELS; m++) {
        int32_t ids[LENGTH];
        open_model(models[m]);
        for (int64_t i = 0; i < LENGTH; i++)
            ids[i] = (int32_t)((7 * i * i + 3 * i + 5) % 96);
        window_record truth = {{{0}}};
        const es_model_visit visit = {.head = add_windows, .context = &truth};
        const es_model_block block = {.ids = ids, .n = LENGTH, .visit = &visit};
        assert_ok(es_model_forward(model, &block, 1, NULL, &err));
        es_far_pool pool = pool_of(ids, ids);
        const es_far_spec spec = spec_of();
        const es_far_text text = {.ids = ids, .number = 0, .pool = &pool};
        es_far_cell *cells = calloc((size_t)(MOST_HEADS * es_far_rows(&spec)), sizeof *cells);
        assert_ok(es_far_block(&spec, &text, NULL, cells, &err));
        for (int64_t h = 0; h < config->layers * config->heads; h++)
            for (int c = 0; c < ES_FAR_WINDOWS; c++)
                assert_near(cells[h * es_far_rows(&spec)].real_window[c], truth.square[h][c],
                            1e-4 * (1e-3 + truth.square[h][c]));
        free(cells);
        es_far_pool_free(&pool);
        es_model_close(model);
    }
}

/* ---- texts of one token ---- */

static void bounds(const double *x, int64_t from, int64_t to, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (int64_t i = from; i < to; i++) {
        *low = fmin(*low, x[i]);
        *high = fmax(*high, x[i]);
    }
}

/* Keys of the first layer differ by their distance alone, so that far keys may be exchanged and
 * queries moved. Where keys know their place, those of the same place are alike in all layers. */
static void one_token_is_what_it_is_at_any_place(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        int32_t ids[TWICE];
        open_model(models[m]);
        for (int64_t i = 0; i < TWICE; i++)
            ids[i] = 42;
        const bool by_place = model->position.w != NULL;
        const record once = run(ids, LENGTH), twice = run(ids, TWICE);
        es_far_pool pool = pool_of(ids, ids);
        es_far_spec spec = spec_of();
        spec.targets = 1;
        spec.target[0] = TWICE;
        const es_far_text text = {.ids = ids, .number = 0, .pool = &pool};
        es_far_cell *cells = calloc((size_t)(MOST_HEADS * es_far_rows(&spec)), sizeof *cells);
        assert_ok(es_far_block(&spec, &text, NULL, cells, &err));
        for (int64_t h = 0; h < (by_place ? config->layers : 1) * config->heads; h++) {
            const es_far_cell *c = cells + h * es_far_rows(&spec);
            double low, high;
            for (int p = 0; p < ES_FAR_PARTS; p++) /* parts have other queries */
                assert_between(c->drawn[p * ES_FAR_STATS + ES_FAR_TOP], 0.0, 1.0);
            for (int s = 0; s < ES_FAR_STATS; s++) {
                double mean = 0.0;
                for (int p = 0; p < ES_FAR_PARTS; p++)
                    mean += c->drawn[p * ES_FAR_STATS + s] / ES_FAR_PARTS;
                assert_near(mean, c->real[s], 1e-5 * (1.0 + fabs(c->real[s])));
            }
            if (by_place)
                continue;       /* positions of longer blocks are not those of shorter ones */
            if (!config->sinks) /* all values are alike; that of a learned sink is 0 */
                assert_near(c->exact, 0.0, 1e-9);
            for (int p = 0; p < ES_FAR_PAIRS; p++)
                assert_near(c->apart[p], 0.0, 1e-9);
            assert_near(c->pool_error, 0.0, 1e-9);
            const double *forecast = c[1].drawn, *half = c[2].drawn, *quarter = c[3].drawn;
            bounds(twice.entropy[h], TWICE - TWICE / 8 - 2, TWICE, &low, &high);
            assert_between(forecast[ES_FAR_ENTROPY], low - 1e-4, high + 1e-4);
            bounds(once.entropy[h], LENGTH - LENGTH / 8 - 2, LENGTH, &low, &high);
            assert_between(half[ES_FAR_ENTROPY], low - 1e-4, high + 1e-4);
            bounds(once.entropy[h], LENGTH - LENGTH / 8 - 4, LENGTH, &low, &high);
            assert_between(quarter[ES_FAR_ENTROPY], low - 1e-4, high + 1e-4);
            bounds(once.entropy[h], LENGTH / 2 - LENGTH / 16 - 2, LENGTH / 2, &low, &high);
            assert_between(c[4].drawn[ES_FAR_ENTROPY], low - 1e-4, high + 1e-4);
            assert_nan(c[1].real[ES_FAR_ENTROPY]);
            if (!config->sinks)
                assert_near(c[1].exact, 0.0, 1e-9);
        }
        free(cells);
        es_far_pool_free(&pool);
        es_model_close(model);
    }
}

/* ---- the exact error of real queries, keys and values ---- */

enum { REAL = 256, REAL_NEAR = 32, POOL = 48, DRAWS = 1000, HEADS = 20, WIDTH = 32 };
enum { FAR = REAL - SINKS - REAL_NEAR };

/* Scores and values of one query over a pool at every far distance. */
typedef struct field {
    double sure[SINKS + REAL_NEAR], sure_values[(SINKS + REAL_NEAR) * WIDTH];
    double scores[FAR * POOL], values[POOL * WIDTH];
    int64_t done;
} field;

static double score(const es_model_seen *s, const double *cosines, const double *sines, int64_t j,
                    int64_t distance)
{
    double q[WIDTH], k[WIDTH], sum = 0.0;
    es_view_read_row(&s->plain_q, REAL - 1, q);
    es_view_read_row(&s->plain_k, j, k);
    for (int64_t c = 0; c < WIDTH / 2; c++) {
        const double x = q[c], y = q[c + WIDTH / 2];
        const double co = cosines[distance * (WIDTH / 2) + c],
                     si = sines[distance * (WIDTH / 2) + c];
        sum += (x * co - y * si) * k[c] + (y * co + x * si) * k[c + WIDTH / 2];
    }
    return s->scale * sum;
}

/* |y - limit|^2 of a far field that is drawn: one key of the pool at each distance. */
static double drawn_error(const field *f, const double *limit)
{
    double n[WIDTH] = {0}, z = 0.0, square = 0.0;
    for (int64_t j = 0; j < SINKS + REAL_NEAR + FAR; j++) {
        const int64_t d = j - SINKS - REAL_NEAR, pick = between(0, POOL - 1);
        const double w = exp(d < 0 ? f->sure[j] : f->scores[d * POOL + pick]);
        const double *v = d < 0 ? f->sure_values + j * WIDTH : f->values + pick * WIDTH;
        z += w;
        for (int64_t c = 0; c < WIDTH; c++)
            n[c] += w * v[c];
    }
    for (int64_t c = 0; c < WIDTH; c++)
        square += pow(n[c] / z - limit[c], 2.0);
    return square;
}

/* (F2) with a stratum for each distance, and DRAWS draws: they agree within 4 standard errors. */
static void check_field(const field *f)
{
    static es_far_stratum strata[FAR];
    double limit[WIDTH], sum = 0.0, squares = 0.0;
    es_far_risk risk;
    for (int64_t d = 0; d < FAR; d++)
        strata[d] = (es_far_stratum){.draws = 1.0, .keys = {POOL, f->scores + d * POOL, f->values}};
    const es_far_query q = {WIDTH, {SINKS + REAL_NEAR, f->sure, f->sure_values}, strata, FAR};
    assert_ok(es_far_risk_of(&q, 1e-4, NULL, limit, &risk, &err));
    for (int i = 0; i < DRAWS; i++) {
        const double e = drawn_error(f, limit);
        sum += e, squares += e * e;
    }
    const double mean = sum / DRAWS, se = sqrt((squares / DRAWS - mean * mean) / DRAWS);
    assert_near(risk.square.val, mean, 4.0 * se);
}

/* Keys and values of the block are the pool; the query is the last. */
static es_status meet(void *user, const es_model_seen *s, es_error *e)
{
    field *f = user;
    static double cosines[REAL * WIDTH / 2], sines[REAL * WIDTH / 2];
    (void)e;
    if (f->done++ >= HEADS)
        return ES_OK;
    es_rotary_angles(&config->rotary, REAL, cosines, sines);
    for (int64_t i = 0; i < SINKS + REAL_NEAR; i++) {
        const int64_t j = i < SINKS ? i : REAL - 1 - (i - SINKS);
        f->sure[i] = score(s, cosines, sines, j, REAL - 1 - j);
        es_view_read_row(&s->v, j, f->sure_values + i * WIDTH);
    }
    for (int64_t p = 0; p < POOL; p++) {
        const int64_t j = SINKS + 5 * p;
        es_view_read_row(&s->v, j, f->values + p * WIDTH);
        for (int64_t d = 0; d < FAR; d++)
            f->scores[d * POOL + p] = score(s, cosines, sines, j, REAL_NEAR + d);
    }
    check_field(f);
    return ES_OK;
}

static void drawn_far_fields_of_pebble_have_the_exact_error(void **state)
{
    (void)state;
    int32_t ids[REAL];
    field *f = calloc(1, sizeof *f);
    const es_model_visit visit = {.head = meet, .context = f, .plain = true};
    const es_model_block block = {.ids = ids, .n = REAL, .visit = &visit};
    state_of_rng = 21;
    assert_ok(es_model_open(ES_TESTS_DIR "/../models/pebble", NULL, &model, &err));
    config = es_model_config_of(model);
    assert_int_equal(config->head_dim, WIDTH);
    for (int64_t i = 0; i < REAL; i++) /* tokens as frequent as words are: the first most often */
        ids[i] = (int32_t)exp(log(4095.0) * uniform());
    assert_ok(es_model_forward(model, &block, 1, &(es_exec){.threads = 1}, &err));
    assert_at_least(f->done, HEADS);
    es_model_close(model);
    free(f);
}

/* ---- few keys of a stratum ---- */

enum { FEW = 64, REPEATS = 64, TINY = 8, PARTS_ATOMS = FEW / ES_FAR_PARTS, MOST_ATOMS = 8192 };

/* Queries, keys before rotation and values of all heads. */
typedef struct rows {
    double q[MOST_HEADS][LENGTH][TINY], k[MOST_HEADS][LENGTH][TINY], v[MOST_HEADS][LENGTH][TINY];
} rows;

static es_status collect(void *user, const es_model_seen *seen, es_error *e)
{
    rows *r = user;
    const int64_t head = seen->layer * config->heads + seen->head;
    (void)e;
    assert_int_equal(seen->q.cols, TINY);
    for (int64_t i = 0; i < LENGTH; i++) {
        es_view_read_row(&seen->plain_q, i, r->q[head][i]);
        es_view_read_row(&seen->plain_k, i, r->k[head][i]);
        es_view_read_row(&seen->v, i, r->v[head][i]);
    }
    return ES_OK;
}

static rows *rows_of(const int32_t *ids)
{
    rows *r = calloc(1, sizeof *r);
    const es_model_visit visit = {.head = collect, .context = r, .plain = true};
    const es_model_block block = {.ids = ids, .n = LENGTH, .visit = &visit};
    assert_ok(es_model_forward(model, &block, 1, NULL, &err));
    return r;
}

/* The score of a query and a key at a distance: the key turned back by it. */
static double score_at(const double *q, const double *k, int64_t distance)
{
    double sum = 0.0;
    for (int c = 0; c < TINY / 2; c++) {
        const double angle = (double)distance * pow(10000.0, -2.0 * c / TINY);
        const double x = k[c] * cos(angle) + k[c + TINY / 2] * sin(angle);
        const double y = k[c + TINY / 2] * cos(angle) - k[c] * sin(angle);
        sum += q[c] * x + q[c + TINY / 2] * y;
    }
    return sum / sqrt(TINY);
}

/* Keys of a stratum: those of the pool, all places but the sinks, at the distances that FEW keys
 * have. */
static es_far_stratum stratum_of(const rows *text, const rows *pool, int64_t head, int64_t i,
                                 int64_t from, int64_t to, double *scores, double *values)
{
    int64_t count = 0;
    for (int64_t a = 0; a < PARTS_ATOMS; a++) {
        const double part = ((double)a + 0.5) / PARTS_ATOMS;
        const int64_t distance = from + (int64_t)(part * (double)(to - from));
        for (int64_t j = SINKS; j < LENGTH; j++, count++) {
            scores[count] = score_at(text->q[head][i], pool->k[head][j], distance);
            memcpy(values + count * TINY, pool->v[head][j], sizeof pool->v[head][j]);
        }
    }
    return (es_far_stratum){.draws = (double)(to - from), .keys = {count, scores, values}};
}

/* (F2) of the query at place i with all keys of the pool, in half octaves of distances. */
static double all_keys_error(const rows *text, const rows *pool, int64_t head, int64_t i)
{
    static double scores[MOST_ATOMS], values[MOST_ATOMS * TINY];
    double sure[SINKS + NEAR], sure_values[(SINKS + NEAR) * TINY], limit[TINY];
    es_far_stratum strata[16];
    es_far_risk risk;
    int64_t count = 0, used = 0;
    for (int64_t s = 0; s < SINKS + NEAR; s++) {
        const int64_t j = s < SINKS ? s : i - (s - SINKS);
        sure[s] = score_at(text->q[head][i], text->k[head][j], i - j);
        memcpy(sure_values + s * TINY, text->v[head][j], sizeof text->v[head][j]);
    }
    for (int64_t from = NEAR, to; from < i + 1 - SINKS; from = to) {
        to = llround(sqrt(2.0) * (double)from);
        to = to < i + 1 - SINKS ? to : i + 1 - SINKS;
        strata[count] =
            stratum_of(text, pool, head, i, from, to, scores + used, values + used * TINY);
        used += strata[count++].keys.count;
        assert_at_most(used, MOST_ATOMS);
    }
    const es_far_query q = {TINY, {SINKS + NEAR, sure, sure_values}, strata, count};
    assert_ok(es_far_risk_of(&q, 1e-6, NULL, limit, &risk, &err));
    return risk.square.val;
}

/* A pool of four equal blocks: every part of it has the same law. */
static es_far_pool equal_parts(const int32_t *ids)
{
    const int32_t *const texts[ES_FAR_PARTS] = {ids, ids, ids, ids};
    const int64_t source[ES_FAR_PARTS] = {1, 2, 3, 4};
    const es_far_build build = {.model = model,
                                .ids = texts,
                                .source = source,
                                .blocks = ES_FAR_PARTS,
                                .rows = LENGTH - SINKS,
                                .length = LENGTH,
                                .sinks = SINKS};
    es_far_pool pool;
    assert_ok(es_far_pool_build(&build, NULL, &pool, &err));
    return pool;
}

/* Means over heads of exact errors by `atoms` keys of a stratum over true ones, by seed. */
static void measure_seeds(const es_far_text *text, int64_t atoms, const double *truth, double *out)
{
    es_far_spec spec = spec_of();
    const int64_t heads = config->layers * config->heads;
    es_far_cell *cells = calloc((size_t)(heads * es_far_rows(&spec)), sizeof *cells);
    spec.atoms = atoms;
    for (int64_t r = 0; r < REPEATS; r++) {
        spec.seed = (uint64_t)(r + 1);
        assert_ok(es_far_block(&spec, text, NULL, cells, &err));
        out[r] = 0.0;
        for (int64_t h = 0; h < heads; h++)
            out[r] += cells[h * es_far_rows(&spec)].exact / truth[h] / (double)heads;
    }
    free(cells);
}

/* The exact error by 64 keys of a stratum is that by all keys of the pool, within 4 standard errors
 * over the seeds 1 to 64: as many keys as first order, (F3), is enough for in these heads. */
static void few_keys_of_a_stratum_give_the_error_of_many(void **state)
{
    (void)state;
    int32_t ids[LENGTH], other[LENGTH];
    double truth[MOST_HEADS] = {0}, ratio[REPEATS];
    open_model("decoders/llama");
    for (int64_t i = 0; i < LENGTH; i++) {
        ids[i] = (int32_t)((7 * i * i + 3 * i + 5) % 96);
        other[i] = (int32_t)((11 * i * i + i + 1) % 96);
    }
    rows *text_rows = rows_of(ids), *pool_rows = rows_of(other);
    for (int64_t h = 0; h < config->layers * config->heads; h++)
        for (int64_t m = 0; m < QUERIES; m += 2) /* every other one has its exact error */
            truth[h] += all_keys_error(text_rows, pool_rows, h, LENGTH - 1 - m) / (QUERIES / 2.0);
    es_far_pool pool = equal_parts(other);
    const es_far_text text = {.ids = ids, .number = 0, .pool = &pool};
    measure_seeds(&text, FEW, truth, ratio);
    const es_measured mean = es_average_column(ratio, REPEATS, 1);
    assert_at_most(mean.se, 0.01);
    assert_near(mean.value, 1.0, 4.0 * mean.se);
    es_far_pool_free(&pool);
    es_model_close(model);
    free(text_rows), free(pool_rows);
}

/* ---- equal weights ---- */

/* Sets all queries to 0: scores are 0 and every key has the same weight, so that an output is the
 * mean of its keys' values. */
static void forget_queries(void)
{
    const size_t number = model->precision == ES_F32 ? sizeof(float) : sizeof(double);
    const size_t row = (size_t)config->hidden * number, width = (size_t)(config->heads * TINY);
    for (int64_t l = 0; l < config->layers; l++) {
        memset(model->layers[l].qkv.w, 0, width * row);
        if (model->layers[l].qkv.b)
            memset(model->layers[l].qkv.b, 0, width * number);
    }
}

/* Writes the mean of the values of a head over places from .. to - 1; returns the mean square of
 * what they differ from it. */
static double mean_value(const rows *r, int64_t head, int64_t from, int64_t to, double *mean)
{
    double squares = 0.0, count = (double)(to - from);
    for (int c = 0; c < TINY; c++) {
        mean[c] = 0.0;
        for (int64_t j = from; j < to; j++)
            mean[c] += r->v[head][j][c] / count;
        for (int64_t j = from; j < to; j++)
            squares += pow(r->v[head][j][c] - mean[c], 2.0) / count;
    }
    return squares;
}

/* With equal weights (F2) of F far keys among n is F V / n^2, V the variance of values in the pool.
 * K keys of a stratum have the variance (1 - 1/K) V on average, and the jackknife of a variance is
 * exact: 4 (1 - 1/K) - 3 (1 - 4/(3 K)) = 1. So with K = 4 the error has no bias, and without (F3)
 * a quarter of it is missing, which is 12 of the largest standard error that is let pass. */
static void a_quarter_of_the_error_by_four_keys_is_corrected(void **state)
{
    (void)state;
    int32_t ids[LENGTH], other[LENGTH];
    double truth[MOST_HEADS] = {0}, ratio[REPEATS], mean[TINY];
    open_model("decoders/llama");
    forget_queries();
    for (int64_t i = 0; i < LENGTH; i++) {
        ids[i] = (int32_t)((7 * i * i + 3 * i + 5) % 96);
        other[i] = (int32_t)((11 * i * i + i + 1) % 96);
    }
    rows *r = rows_of(other);
    for (int64_t h = 0; h < config->layers * config->heads; h++)
        for (int64_t m = 0; m < QUERIES; m += 2) { /* every other one has its exact error */
            const double n = (double)(LENGTH - m);
            truth[h] += (n - SINKS - NEAR) / (n * n) * mean_value(r, h, SINKS, LENGTH, mean) /
                        (QUERIES / 2.0);
        }
    es_far_pool pool = equal_parts(other);
    const es_far_text text = {.ids = ids, .number = 0, .pool = &pool};
    measure_seeds(&text, ES_FAR_PARTS, truth, ratio);
    const es_measured found = es_average_column(ratio, REPEATS, 1);
    assert_at_most(found.se, 0.25 / 12.0);
    assert_near(found.value, 1.0, 4.0 * found.se);
    es_far_pool_free(&pool);
    es_model_close(model);
    free(r);
}

/* (F4) by hand: sure keys as they are and F times the mean value of a part, all over n. */
static double limit_error(const rows *text, rows *const *parts, int64_t head)
{
    const double far = LENGTH - SINKS - NEAR;
    double sinks[TINY], near[TINY], y[ES_FAR_PARTS][TINY], sum = 0.0;
    mean_value(text, head, 0, SINKS, sinks);
    mean_value(text, head, LENGTH - NEAR, LENGTH, near);
    for (int p = 0; p < ES_FAR_PARTS; p++) {
        mean_value(parts[p], head, SINKS, LENGTH, y[p]);
        for (int c = 0; c < TINY; c++)
            y[p][c] = (SINKS * sinks[c] + NEAR * near[c] + far * y[p][c]) / LENGTH;
    }
    for (int c = 0; c < TINY; c++) {
        const double mean = (y[0][c] + y[1][c] + y[2][c] + y[3][c]) / ES_FAR_PARTS;
        for (int p = 0; p < ES_FAR_PARTS; p++)
            sum += pow(y[p][c] - mean, 2.0);
    }
    return sum / (ES_FAR_PARTS * (ES_FAR_PARTS - 1));
}

/* Values are floats there: 1e-5 of an error that is not small against them. */
static void parts_of_a_pool_give_the_error_of_the_limit(void **state)
{
    (void)state;
    int32_t ids[1 + ES_FAR_PARTS][LENGTH];
    const int32_t *texts[ES_FAR_PARTS];
    const int64_t source[ES_FAR_PARTS] = {1, 2, 3, 4};
    rows *all[1 + ES_FAR_PARTS];
    es_far_pool pool;
    open_model("decoders/llama");
    forget_queries();
    for (int b = 0; b <= ES_FAR_PARTS; b++) {
        for (int64_t i = 0; i < LENGTH; i++)
            ids[b][i] = (int32_t)(((7 + 4 * b) * i * i + 3 * i + b) % 96);
        all[b] = rows_of(ids[b]);
        if (b)
            texts[b - 1] = ids[b];
    }
    const es_far_build build = {.model = model,
                                .ids = texts,
                                .source = source,
                                .blocks = ES_FAR_PARTS,
                                .rows = LENGTH - SINKS,
                                .length = LENGTH,
                                .sinks = SINKS};
    assert_ok(es_far_pool_build(&build, NULL, &pool, &err));
    const es_far_spec spec = spec_of();
    const es_far_text text = {.ids = ids[0], .number = 0, .pool = &pool};
    es_far_cell *cells = calloc((size_t)(MOST_HEADS * es_far_rows(&spec)), sizeof *cells);
    assert_ok(es_far_block(&spec, &text, NULL, cells, &err));
    for (int64_t h = 0; h < config->layers * config->heads; h++) {
        const double truth = limit_error(all[0], all + 1, h);
        assert_near(cells[h * es_far_rows(&spec)].pool_error, truth, 1e-5 * truth);
    }
    for (int b = 0; b <= ES_FAR_PARTS; b++)
        free(all[b]);
    free(cells);
    es_far_pool_free(&pool);
    es_model_close(model);
}

/* ---- keys that are independent ---- */

enum { TEXTS = 12, TEXT = 512, SIZES = 3, LAYER_HEADS = 6, ROWS = 256 };
enum { ATOMS = 64, CELL_ROWS = SIZES + ES_FAR_BACKTESTS };

/* Ratio of measured to exact mean squares of all heads of layer 0, over the spread of each, without
 * one text (-1: of all). */
static double ratio_of(const es_far_cell *cells, int64_t size, int64_t without, int pair)
{
    double measured = 0.0, exact = 0.0;
    for (int64_t h = 0; h < LAYER_HEADS; h++) {
        double m = 0.0, e = 0.0, spread = 0.0;
        for (int64_t t = 0; t < TEXTS; t++) {
            const es_far_cell *c =
                cells + (t * config->layers * config->heads + h) * CELL_ROWS + size;
            if (t == without)
                continue;
            for (int p = 0; p < ES_FAR_PAIRS; p++)
                m += pair < 0 ? c->apart[p] / ES_FAR_PAIRS : p == pair ? c->apart[p] : 0.0;
            m += c->exact_bias;
            e += c->exact;
            spread += c->spread;
            assert_at_least(c->pool_error, 0.0);
        }
        measured += m / spread;
        exact += e / spread;
    }
    return measured / exact;
}

/* Texts of random tokens, as frequent as words are, and a pool of them all. */
static int32_t random_ids[TEXTS][TEXT];

static es_far_pool random_pool(void)
{
    const int32_t *texts[TEXTS];
    int64_t source[TEXTS];
    es_far_pool pool;
    for (int64_t t = 0; t < TEXTS; t++) {
        for (int64_t i = 0; i < TEXT; i++)
            random_ids[t][i] = (int32_t)exp(log(4095.0) * uniform());
        texts[t] = random_ids[t];
        source[t] = t;
    }
    const es_far_build build = {.model = model,
                                .ids = texts,
                                .source = source,
                                .blocks = TEXTS,
                                .rows = ROWS,
                                .length = TEXT,
                                .sinks = SINKS,
                                .seed = 3};
    assert_ok(es_far_pool_build(&build, NULL, &pool, &err));
    return pool;
}

/* Cells of all texts. The error of drawing ATOMS keys of a stratum is not in the standard errors
 * below: with 4 keys it is larger than they are. */
static es_far_cell *random_cells(const es_far_pool *pool)
{
    es_far_spec spec = spec_of();
    spec.length = TEXT;
    spec.atoms = ATOMS;
    spec.sizes = SIZES;
    for (int64_t s = 0; s < SIZES; s++)
        spec.size[s] = TEXT >> (SIZES - 1 - s);
    const int64_t all = config->layers * config->heads * es_far_rows(&spec);
    es_far_cell *cells = calloc((size_t)(TEXTS * all), sizeof *cells);
    for (int64_t t = 0; t < TEXTS; t++) {
        const es_far_text text = {.ids = random_ids[t], .number = t, .pool = pool};
        assert_ok(es_far_block(&spec, &text, &(es_exec){.threads = 1}, cells + t * all, &err));
    }
    return cells;
}

/* Sum over heads and texts of the exact error, by the pseudo-value of one part of the pool. */
static double exact_by_part(const es_far_cell *cells, int64_t size, int part)
{
    double sum = 0.0;
    for (int64_t h = 0; h < LAYER_HEADS; h++) {
        double exact = 0.0, spread = 0.0;
        for (int64_t t = 0; t < TEXTS; t++) {
            const es_far_cell *c =
                cells + (t * config->layers * config->heads + h) * CELL_ROWS + size;
            exact += c->exact_part[part];
            spread += c->spread;
        }
        sum += exact / spread;
    }
    return sum;
}

/* Keys of layer 0 are functions of their token: those of random tokens are independent. So the
 * ratio is 1 at every n: by Student's t at the level of 3 standard deviations of a normal law. Its
 * errors are those over texts, over pairs of parts of the pool, and over parts. */
static void check_ratios(const es_far_cell *cells)
{
    for (int64_t s = 0; s < SIZES; s++) {
        double without[TEXTS], pairs[ES_FAR_PAIRS], parts[ES_FAR_PARTS];
        for (int64_t t = 0; t < TEXTS; t++)
            without[t] = ratio_of(cells, s, t, -1);
        for (int p = 0; p < ES_FAR_PAIRS; p++)
            pairs[p] = ratio_of(cells, s, -1, p);
        for (int p = 0; p < ES_FAR_PARTS; p++)
            parts[p] = exact_by_part(cells, s, p);
        const es_grouped ratio = es_jackknife(ratio_of(cells, s, -1, -1), without, TEXTS);
        const es_measured exact = es_average_column(parts, ES_FAR_PARTS, 1);
        const double pool = hypot(es_average_column(pairs, ES_FAR_PAIRS, 1).se,
                                  ratio.value * exact.se / exact.value);
        assert_at_most(hypot(ratio.se, pool), 0.25);
        assert_at_least(es_welch(ratio, (es_grouped){1.0, pool, ES_FAR_PARTS - 1.0}).p, 0.0027);
    }
}

static void independent_keys_have_the_exact_error(void **state)
{
    (void)state;
    state_of_rng = 5;
    assert_ok(es_model_open(ES_TESTS_DIR "/../models/pebble", NULL, &model, &err));
    config = es_model_config_of(model);
    assert_int_equal(config->heads, LAYER_HEADS);
    es_far_pool pool = random_pool();
    es_far_cell *cells = random_cells(&pool);
    check_ratios(cells);
    free(cells);
    es_far_pool_free(&pool);
    es_model_close(model);
}

TEST_FILE(far)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_real_keys_are_those_of_the_model),
        cmocka_unit_test(windows_of_real_keys_are_those_of_the_model),
        cmocka_unit_test(one_token_is_what_it_is_at_any_place),
        cmocka_unit_test(drawn_far_fields_of_pebble_have_the_exact_error),
        cmocka_unit_test(few_keys_of_a_stratum_give_the_error_of_many),
        cmocka_unit_test(a_quarter_of_the_error_by_four_keys_is_corrected),
        cmocka_unit_test(parts_of_a_pool_give_the_error_of_the_limit),
        cmocka_unit_test(independent_keys_have_the_exact_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
