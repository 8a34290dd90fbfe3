/* test_probe.c : the probe of real models on a small random one (tiny_model.h), against plain f64
 * loops over all tokens of a pool: limit, halves, errors of a draw, coherence, horizons, freezing,
 * sinks, prediction. Layer 0 has small scores, layer 1 such that they matter, layer 2 is frozen. */
#include "testing.h"

#include <jansson.h>

#include "lab/probe.h"
#include "tiny_pool.h"
#include <esscher/linalg.h>

enum { H = 12, K = 4, HEADS = 3, LAYERS = 3, QUERIES = 24, WORDS = 7900, SIZES = 2 };
static const int64_t sizes[SIZES] = {40, 600};
static es_pool *pool;
static int64_t tokens;

static es_probe_spec spec_of(const es_exec *exec)
{
    return (es_probe_spec){.model = model,
                           .pool = pool,
                           .sizes = sizes,
                           .n_sizes = SIZES,
                           .queries = QUERIES,
                           .seed = 11,
                           .exec = exec};
}

static int set_up(void **state)
{
    static int32_t ids[WORDS];
    static const double factor[LAYERS] = {1.0, 16.0, 128.0}; /* exact in f32 */
    if (make_folder(state) != 0)
        return -1;
    tiny_of_pool = tiny_default();
    tiny_draw(&tiny_of_pool);
    for (int l = 0; l < LAYERS; l++)
        for (int part = 0; part < 2; part++) {
            char name[96];
            snprintf(name, sizeof name, "encoder.layer.%d.attention.self.query.%s", l,
                     part ? "bias" : "weight");
            double *w = (double *)(uintptr_t)tiny_find(&tiny_of_pool, "", name);
            for (int i = 0; i < (part ? H : H * H); i++)
                w[i] *= factor[l];
        }
    open_model_of(&tiny_of_pool);
    write_words("text", 5, WORDS, ids);
    const es_pool_spec spec = pool_spec_of("text", "pool");
    if (es_pool_build(&spec, NULL, &err) != ES_OK ||
        es_pool_open(spec.folder, &pool, &err) != ES_OK)
        return -1;
    tokens = es_pool_about(pool).tokens;
    return 0;
}

static int tear_down(void **state)
{
    es_pool_close(pool);
    remove_pool("pool");
    return remove_model_folder(state);
}

/* ---- the loops ---- */

/* One layer in f64: inputs, moments, queries, and keys and values of every head side by side. */
typedef struct truth {
    double *x, *keys, *values; /* (tokens, H) */
    double mean[H], cov[H * H];
    double q[QUERIES * H];
    double wq[H * H], wk[H * H], wv[H * H], wo[H * H], bq[H]; /* rows: output channels */
    double limit[QUERIES * H];
} truth;

static void product(const double *x, int64_t n, const double *w, const double *bias, double *out)
{
    for (int64_t i = 0; i < n; i++)
        for (int o = 0; o < H; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (int c = 0; c < H; c++)
                sum += w[o * H + c] * x[i * H + c];
            out[i * H + o] = sum;
        }
}

/* Attention of every query over tokens rows[0 .. n), all heads, into out (QUERIES, H). */
static void attend(const truth *t, const int64_t *rows, int64_t n, double *out)
{
    double *w = malloc((size_t)n * sizeof *w);
    for (int i = 0; i < QUERIES; i++)
        for (int h = 0; h < HEADS; h++) {
            double most = -INFINITY, sum = 0.0;
            for (int64_t j = 0; j < n; j++) {
                w[j] = 0.0;
                for (int c = h * K; c < (h + 1) * K; c++)
                    w[j] += t->q[i * H + c] * t->keys[rows[j] * H + c] / sqrt((double)K);
                most = fmax(most, w[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += w[j] = exp(w[j] - most);
            for (int c = h * K; c < (h + 1) * K; c++) {
                double y = 0.0;
                for (int64_t j = 0; j < n; j++)
                    y += w[j] * t->values[rows[j] * H + c];
                out[i * H + c] = y / sum;
            }
        }
    free(w);
}

static void copy_weights(int64_t layer, truth *t)
{
    static const char *const names[] = {
        "attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight",
        "attention.output.dense.weight", "attention.self.query.bias"};
    double *to[] = {t->wq, t->wk, t->wv, t->wo, t->bq};
    char name[96];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "encoder.layer.%d.%s", (int)layer, names[i]);
        memcpy(to[i], tiny_find(&tiny_of_pool, "", name), (i < 4 ? H * H : H) * sizeof(double));
    }
}

static void moments_of(truth *t)
{
    memset(t->mean, 0, sizeof t->mean);
    memset(t->cov, 0, sizeof t->cov);
    for (int64_t i = 0; i < tokens * H; i++)
        t->mean[i % H] += t->x[i] / (double)tokens;
    for (int64_t i = 0; i < tokens; i++)
        for (int a = 0; a < H; a++)
            for (int b = 0; b < H; b++)
                t->cov[a * H + b] += (t->x[i * H + a] - t->mean[a]) *
                                     (t->x[i * H + b] - t->mean[b]) / (double)tokens;
}

static void truth_open(int64_t layer, truth *t)
{
    float *x = malloc((size_t)(tokens * H) * sizeof *x);
    int64_t *all = malloc((size_t)tokens * sizeof *all);
    double picked[QUERIES * H];
    const es_address at = {.seed = 11, .experiment = ES_PROBE_QUERIES, .cell = (uint64_t)layer};
    es_permutation shuffle;
    t->x = malloc((size_t)(3 * tokens * H) * sizeof *t->x);
    t->keys = t->x + tokens * H;
    t->values = t->keys + tokens * H;
    assert_ok(es_pool_rows(pool, layer, 0, tokens, x, &err));
    for (int64_t i = 0; i < tokens * H; i++)
        t->x[i] = (double)x[i];
    copy_weights(layer, t);
    moments_of(t);
    product(t->x, tokens, t->wk, NULL, t->keys);
    product(t->x, tokens, t->wv, NULL, t->values);
    assert_ok(es_permutation_init(&at, tokens, &shuffle, &err));
    for (int i = 0; i < QUERIES; i++)
        memcpy(picked + i * H, t->x + es_permutation_at(&shuffle, i) * H, H * sizeof *picked);
    product(picked, QUERIES, t->wq, t->bq, t->q);
    for (int64_t i = 0; i < tokens; i++)
        all[i] = i;
    attend(t, all, tokens, t->limit);
    free(all);
    free(x);
}

/* Mean, covariance and map error of one head's outputs a against b. */
static es_probe_cell errors_of(const double *a, const double *b, int h)
{
    es_probe_cell e = {0};
    double mean[2][K] = {{0}}, cov[2][K * K] = {{0}};
    const double *both[2] = {a, b};
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < QUERIES * K; i++)
            mean[s][i % K] += both[s][i / K * H + h * K + i % K] / QUERIES;
        for (int i = 0; i < QUERIES; i++)
            for (int c = 0; c < K * K; c++)
                cov[s][c] += (both[s][i * H + h * K + c / K] - mean[s][c / K]) *
                             (both[s][i * H + h * K + c % K] - mean[s][c % K]) / QUERIES;
    }
    for (int c = 0; c < K; c++)
        e.mean_error += pow(mean[0][c] - mean[1][c], 2);
    for (int c = 0; c < K * K; c++)
        e.cov_error += pow(cov[0][c] - cov[1][c], 2);
    for (int i = 0; i < QUERIES * K; i++)
        e.map_error += pow(a[i / K * H + h * K + i % K] - b[i / K * H + h * K + i % K], 2);
    return (es_probe_cell){sqrt(e.mean_error), sqrt(e.cov_error), sqrt(e.map_error / QUERIES)};
}

static void same_errors(es_probe_cell got, es_probe_cell want, double tolerance)
{
    assert_near(got.mean_error, want.mean_error, tolerance);
    assert_near(got.cov_error, want.cov_error, tolerance);
    assert_near(got.map_error, want.map_error, tolerance);
}

/* The kernels are f32: a score of up to s, 64 times larger in layer 2 than in 1, is rounded to
 * s 2^-24, and outputs of order 1 follow. Scores reach about 2, 30 and 250. */
static const double tolerance_of[LAYERS] = {2e-6, 1e-5, 1e-4};

static es_probe *probe_of(const es_probe_spec *spec, int64_t layer, double *numbers)
{
    es_probe *probe;
    assert_ok(es_probe_measure(spec, layer, numbers, &err));
    assert_ok(es_probe_open(spec, layer, numbers, &probe, &err));
    return probe;
}

static double *new_numbers(const es_probe_spec *spec)
{
    double *numbers = malloc((size_t)es_probe_numbers(spec) * sizeof *numbers);
    assert_non_null(numbers);
    return numbers;
}

/* ---- limit and halves ---- */

static void limit_and_moments_are_those_of_the_whole_pool(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    const es_probe_layout at = es_probe_layout_of(&spec);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_measure(&spec, layer, numbers, &err));
        for (int i = 0; i < H; i++)
            assert_near(numbers[at.mean + i], t.mean[i], 1e-12);
        for (int i = 0; i < H * H; i++)
            assert_near(numbers[at.cov + i], t.cov[i], 1e-12);
        for (int i = 0; i < QUERIES * H; i++)
            assert_near(numbers[at.limit + i], t.limit[i], tolerance_of[layer]);
        free(t.x);
    }
    free(numbers);
}

/* Strips of at most 4096 tokens, an even number of them, alternate between the halves. */
static void own_error_is_half_the_distance_of_the_halves(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    const es_probe_layout at = es_probe_layout_of(&spec);
    double *numbers = new_numbers(&spec), out[2][QUERIES * H];
    int64_t *rows[2], count[2] = {0, 0}, strips = 2;
    while (strips * 4096 < tokens)
        strips += 2;
    assert_true(strips == 4); /* so that "alternate" is tested */
    for (int s = 0; s < 2; s++)
        rows[s] = malloc((size_t)tokens * sizeof **rows);
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t s = i / ((tokens + strips - 1) / strips) % 2;
        rows[s][count[s]++] = i;
    }
    assert_true(llabs(count[0] - count[1]) < strips);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        assert_ok(es_probe_measure(&spec, layer, numbers, &err));
        for (int s = 0; s < 2; s++)
            attend(&t, rows[s], count[s], out[s]);
        for (int h = 0; h < HEADS; h++) {
            const double *halves = numbers + at.halves + 3 * h;
            es_probe_cell want = errors_of(out[0], out[1], h);
            want.mean_error /= 2, want.cov_error /= 2, want.map_error /= 2;
            same_errors((es_probe_cell){halves[0], halves[1], halves[2]}, want,
                        tolerance_of[layer]);
        }
        free(t.x);
    }
    free(rows[0]);
    free(rows[1]);
    free(numbers);
}

/* ---- a draw ---- */

/* Errors of every head and of all together against loops over the drawn rows. */
static void check_draw(const es_probe *probe, const truth *t, const int64_t *rows, int64_t r,
                       double tolerance)
{
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    double out[QUERIES * H];
    assert_ok(es_probe_replicate(probe, r, cells, joint, &err));
    for (int s = 0; s < SIZES; s++) {
        double together = 0.0, alone = 0.0;
        attend(t, rows, sizes[s], out);
        for (int h = 0; h < HEADS; h++)
            same_errors(cells[h * SIZES + s], errors_of(out, t->limit, h), tolerance);
        for (int i = 0; i < QUERIES; i++)
            for (int o = 0; o < H; o++) { /* channel o of Wo e, of each head and of all */
                double sum = 0.0;
                for (int h = 0; h < HEADS; h++) {
                    double one = 0.0;
                    for (int c = h * K; c < (h + 1) * K; c++)
                        one += t->wo[o * H + c] * (out[i * H + c] - t->limit[i * H + c]);
                    alone += one * one;
                    sum += one;
                }
                together += sum * sum;
            }
        assert_near(joint[s].map_error, sqrt(together / QUERIES), tolerance);
        assert_near(joint[s].coherence, together / alone, 1e-3);
    }
}

static void errors_of_a_draw_are_what_the_loops_say(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    int64_t rows[600];
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int64_t r = 0; r < 3; r += 2) {
            const es_address at = {.seed = 11,
                                   .experiment = ES_PROBE_TOKENS,
                                   .cell = (uint64_t)layer << 32 | (uint64_t)r};
            assert_ok(es_integer_rows(&at, 600, 1, tokens, rows, &err));
            check_draw(probe, &t, rows, r, tolerance_of[layer]);
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* Distinct tokens; and all of them are the limit, whatever their order. */
static void without_replacement(void **state)
{
    (void)state;
    const int64_t whole[SIZES] = {600, tokens};
    es_probe_spec spec = spec_of(NULL);
    spec.without_replacement = true;
    spec.sizes = whole;
    double *numbers = new_numbers(&spec);
    es_probe *probe = probe_of(&spec, 1, numbers);
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    assert_ok(es_probe_replicate(probe, 0, cells, joint, &err));
    for (int h = 0; h < HEADS; h++) {
        assert_true(cells[h * SIZES].map_error > 1e-3);
        assert_true(cells[h * SIZES + 1].map_error < 1e-5);
    }
    assert_true(joint[0].map_error > 1e-3 && joint[1].map_error < 1e-5);
    es_probe_close(probe);
    const int64_t more[SIZES] = {600, tokens + 1};
    spec.sizes = more;
    assert_int_equal(es_probe_measure(&spec, 1, numbers, &err), ES_E_RANGE);
    free(numbers);
}

/* ---- what covariance and weights say ---- */

/* Standard deviation of the scores of query i of head h over tokens of the pool's covariance, and
 * the squared length of V S t / q. */
static void score_of(const truth *t, int i, int h, double *sd, double *along)
{
    double key[H] = {0}, cov_key[H] = {0}, variance = 0.0, length = 0.0;
    for (int a = 0; a < H; a++)
        for (int c = h * K; c < (h + 1) * K; c++)
            key[a] += t->q[i * H + c] * t->wk[c * H + a] / sqrt((double)K);
    for (int a = 0; a < H * H; a++)
        cov_key[a / H] += t->cov[a] * key[a % H];
    for (int a = 0; a < H; a++)
        variance += key[a] * cov_key[a];
    for (int c = h * K; c < (h + 1) * K; c++) {
        double value = 0.0;
        for (int a = 0; a < H; a++)
            value += t->wv[c * H + a] * cov_key[a];
        length += value * value;
    }
    *sd = sqrt(variance);
    *along = length / variance;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_scores(const truth *t, int h, const es_probe_head *about)
{
    double q[QUERIES], along, squares = 0.0;
    const double edge = sqrt(2.0 * log((double)sizes[SIZES - 1]));
    int frozen = 0;
    for (int i = 0; i < QUERIES; i++) {
        score_of(t, i, h, &q[i], &along);
        squares += q[i] * q[i] / QUERIES;
        frozen += q[i] > edge;
    }
    qsort(q, QUERIES, sizeof *q, ascending);
    assert_close(about->score_sd, sqrt(squares), 1e-5); /* queries are rounded to f32 */
    assert_close(about->freezing, 0.5 * (q[QUERIES / 2 - 1] + q[QUERIES / 2]) / edge, 1e-5);
    assert_near(about->frozen, (double)frozen / QUERIES, 0.0);
}

/* Weights that the tokens of the first 16 blocks give to the first and the last of theirs. */
static void check_sinks(const truth *t, int h, const es_probe_head *about, double tolerance)
{
    double sink[2] = {0, 0};
    for (int64_t b = 0; b < 16; b++) {
        int64_t first, n;
        assert_ok(es_pool_block(pool, b, &first, &n, &err));
        for (int64_t i = 0; i < n; i++) {
            double q[H], score[64], most = -INFINITY, sum = 0.0;
            product(t->x + (first + i) * H, 1, t->wq, t->bq, q);
            for (int64_t j = 0; j < n; j++) {
                score[j] = 0.0;
                for (int c = h * K; c < (h + 1) * K; c++)
                    score[j] += q[c] * t->keys[(first + j) * H + c] / sqrt((double)K);
                most = fmax(most, score[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += exp(score[j] - most);
            sink[0] += exp(score[0] - most) / sum / (double)n / 16.0;
            sink[1] += exp(score[n - 1] - most) / sum / (double)n / 16.0;
        }
    }
    assert_near(about->sink_first, sink[0], tolerance);
    assert_near(about->sink_last, sink[1], tolerance);
}

static void heads_are_described_as_their_covariance_says(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        const es_view cov = es_view_f64(t.cov, H, H);
        for (int h = 0; h < HEADS; h++) {
            es_probe_head about;
            es_horizons want;
            const es_view wq = es_view_f64(t.wq + h * K * H, K, H);
            const es_view wk = es_view_f64(t.wk + h * K * H, K, H);
            assert_ok(es_probe_head_of(probe, h, &about, &err));
            assert_ok(
                es_horizons_of(&cov, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, NULL, &want, &err));
            assert_close(about.horizons.horizon.val, want.horizon.val, 1e-9);
            assert_close(about.horizons.one_sided.val, want.one_sided.val, 1e-9);
            assert_close(about.horizons.coupling.val, want.coupling.val, 1e-9);
            assert_close(about.horizons.frobenius.val, want.frobenius.val, 1e-9);
            check_scores(&t, h, &about);
            check_sinks(&t, h, &about, tolerance_of[layer]);
        }
        es_probe_layer about;
        double trace = 0.0, squares = 0.0;
        assert_ok(es_probe_layer_of(probe, &about, &err));
        for (int i = 0; i < H * H; i++) {
            trace += i / H == i % H ? t.cov[i] : 0.0;
            squares += t.cov[i] * t.cov[i];
        }
        assert_close(about.trace, trace, 1e-12);
        assert_close(about.participation, trace * trace / squares, 1e-11);
        assert_true(about.reach.val < trace && about.reach.val > trace / H);
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* Every query by itself, without tables: q from 0.1 to 100 over the layers. */
static void prediction_is_the_average_of_exact_ones(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec);
    truth t;
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        truth_open(layer, &t);
        es_probe *probe = probe_of(&spec, layer, numbers);
        for (int h = 0; h < HEADS; h++) {
            double total = 0.0, got[SIZES];
            for (int c = h * K; c < (h + 1) * K; c++)
                for (int a = 0; a < H * H; a++)
                    total += t.wv[c * H + a / H] * t.cov[a] * t.wv[c * H + a % H];
            assert_ok(es_probe_predict(probe, h, got, &err));
            for (int s = 0; s < SIZES; s++) {
                double sum = 0.0;
                for (int i = 0; i < QUERIES; i++) {
                    double q, along;
                    es_rem r;
                    score_of(&t, i, h, &q, &along);
                    assert_ok(es_rem_moments((double)sizes[s], q, NULL, &r, &err));
                    sum += along * r.error + (total - along) * r.participation;
                }
                assert_close(got[s], sqrt(sum / QUERIES), 1e-4);
            }
        }
        es_probe_close(probe);
        free(t.x);
    }
    free(numbers);
}

/* ---- the machine ---- */

static void same_bits_for_any_threads_within_the_stated_memory(void **state)
{
    (void)state;
    double *numbers[2];
    es_probe_cell cells[2][HEADS * SIZES];
    es_probe_joint joint[2][SIZES];
    for (int i = 0; i < 2; i++) {
        es_budget budget = {0};
        const es_exec exec = {.threads = i ? 3 : 1, .budget = &budget};
        const es_probe_spec spec = spec_of(&exec);
        es_probe_cost cost;
        numbers[i] = new_numbers(&spec);
        assert_ok(es_probe_cost_of(&spec, &cost, &err));
        es_probe *probe = probe_of(&spec, 1, numbers[i]);
        assert_ok(es_probe_replicate(probe, 1, cells[i], joint[i], &err));
        es_probe_close(probe);
        assert_int_equal(budget.used, 0);
        assert_true(budget.peak <= cost.bytes);
        budget.limit = 20000;
        assert_int_equal(es_probe_measure(&spec, 1, numbers[i], &err), ES_E_LIMIT);
        assert_int_equal(es_probe_open(&spec, 1, numbers[i], &probe, &err), ES_E_LIMIT);
        assert_null(probe);
        assert_int_equal(budget.used, 0);
    }
    const es_probe_spec spec = spec_of(NULL);
    assert_memory_equal(numbers[0], numbers[1],
                        (size_t)es_probe_numbers(&spec) * sizeof *numbers[0]);
    assert_memory_equal(cells[0], cells[1], sizeof cells[0]);
    assert_memory_equal(joint[0], joint[1], sizeof joint[0]);
    free(numbers[0]);
    free(numbers[1]);
}

static bool stop(void *user, double done, double total)
{
    (void)done;
    (void)total;
    return *(bool *)user;
}

static void interrupted(void **state)
{
    (void)state;
    bool now = false;
    const es_exec exec = {.progress = stop, .progress_user = &now};
    const es_probe_spec spec = spec_of(&exec);
    double *numbers = new_numbers(&spec);
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    es_probe *probe = probe_of(&spec, 0, numbers);
    now = true;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_INTERRUPTED);
    assert_int_equal(es_probe_replicate(probe, 0, cells, joint, &err), ES_E_INTERRUPTED);
    es_probe_close(probe);
    free(numbers);
}

static void questions_that_make_no_sense(void **state)
{
    (void)state;
    const es_probe_spec good = spec_of(NULL);
    double *numbers = new_numbers(&good), predicted[SIZES];
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    es_probe_head about;
    es_probe *probe = probe_of(&good, 0, numbers), *none;
    assert_int_equal(es_probe_measure(&good, 3, numbers, &err), ES_E_RANGE);
    assert_int_equal(es_probe_measure(&good, -1, numbers, &err), ES_E_RANGE);
    assert_int_equal(es_probe_head_of(probe, 3, &about, &err), ES_E_RANGE);
    assert_int_equal(es_probe_predict(probe, -1, predicted, &err), ES_E_RANGE);
    assert_int_equal(es_probe_replicate(probe, -1, cells, joint, &err), ES_E_RANGE);
    assert_int_equal(es_probe_replicate(probe, INT64_C(1) << 32, cells, joint, &err), ES_E_RANGE);
    es_probe_close(probe);
    es_probe_close(NULL);
    static const int64_t bad[][SIZES] = {{1, 9}, {9, 9}, {9, 8}, {-5, 9}, {9, INT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        es_probe_spec spec = good;
        spec.sizes = bad[i];
        assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "probe.sizes");
    }
    es_probe_spec spec = good;
    spec.queries = -1;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_RANGE);
    spec = good;
    spec.n_sizes = 0;
    assert_int_equal(es_probe_measure(&spec, 0, numbers, &err), ES_E_ARGUMENT);
    numbers[3] = NAN;
    assert_int_equal(es_probe_open(&good, 0, numbers, &none, &err), ES_E_NONFINITE);
    assert_null(none);
    free(numbers);
    /* more queries than tokens: as many as there are */
    spec = good;
    spec.queries = tokens + 5;
    assert_int_equal(es_probe_numbers(&spec), H + H * H + tokens * H + 3 * HEADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_and_moments_are_those_of_the_whole_pool),
        cmocka_unit_test(own_error_is_half_the_distance_of_the_halves),
        cmocka_unit_test(errors_of_a_draw_are_what_the_loops_say),
        cmocka_unit_test(without_replacement),
        cmocka_unit_test(heads_are_described_as_their_covariance_says),
        cmocka_unit_test(prediction_is_the_average_of_exact_ones),
        cmocka_unit_test(same_bits_for_any_threads_within_the_stated_memory),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(questions_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
