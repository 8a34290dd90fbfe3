/* SPDX-License-Identifier: Apache-2.0 */
/* test_picture.c : outputs of a head over n tokens and in the limit, against attention written out;
 * the study that puts them into a plane. */
#include "probe_truth.h"

#include <esscher/attend.h>
#include <esscher/study.h>

#include "experiments/picture/embed.h"
#include "experiments/picture/picture.h"
#include "tokens/tokens.h"

enum { DIM = 3, ASKED = 12 };

/* ---- tokens of a law ---- */

static es_law gaussian(void) { return (es_law){.kind = ES_LAW_GAUSSIAN, .dim = DIM, .size = 0.7}; }

/* softmax(b q'k) v over n tokens for every query, as the definition has it. */
static void plain_attention(const double *q, const double *k, const double *v, int64_t n, double b,
                            double *out)
{
    for (int i = 0; i < ASKED; i++) {
        double sum = 0.0, most = -HUGE_VAL;
        for (int64_t j = 0; j < n; j++) {
            double score = 0.0;
            for (int c = 0; c < DIM; c++)
                score += b * q[i * DIM + c] * k[j * DIM + c];
            most = fmax(most, score);
        }
        memset(out + i * DIM, 0, DIM * sizeof *out);
        for (int64_t j = 0; j < n; j++) {
            double score = 0.0;
            for (int c = 0; c < DIM; c++)
                score += b * q[i * DIM + c] * k[j * DIM + c];
            const double w = exp(score - most);
            sum += w;
            for (int c = 0; c < DIM; c++)
                out[i * DIM + c] += w * v[j * DIM + c];
        }
        for (int c = 0; c < DIM; c++)
            out[i * DIM + c] /= sum;
    }
}

static void times(const double *x, int64_t rows, const double *w, double *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int o = 0; o < DIM; o++) {
            out[i * DIM + o] = 0.0;
            for (int c = 0; c < DIM; c++)
                out[i * DIM + o] += w[o * DIM + c] * x[i * DIM + c];
        }
}

/* n below and above a tile of 8192 tokens, all of one draw. */
static void outputs_are_attention_over_the_first_n_tokens(void **state)
{
    (void)state;
    enum { MOST = 9000 };
    static double x[MOST * DIM], k[MOST * DIM], v[MOST * DIM];
    static const int64_t n[] = {1, 17, 8192, MOST};
    double asking[ASKED * DIM], q[ASKED * DIM], got[ASKED * DIM], want[ASKED * DIM];
    const es_law law = gaussian();
    const es_address at = {.seed = 5, .experiment = ES_EXPERIMENT_HEAD};
    const es_address tokens_at = {.seed = 9, .experiment = ES_EXPERIMENT_PICTURE};
    const es_address queries_at = {.seed = 9, .experiment = ES_EXPERIMENT_PICTURE + 1};
    es_head_data head = {0};
    assert_ok(es_head_draw(ES_HEAD_RANDOM, &at, DIM, NULL, &head, &err));
    const es_picture_spec spec = {
        .law = &law, .head = &head.head, .scale = 2.5, .queries = ASKED, .seed = 9};
    assert_int_equal(es_picture_channels(&spec), DIM);
    assert_ok(es_tokens_fill(&law, &tokens_at, MOST, NULL, x, &err));
    assert_ok(es_tokens_fill(&law, &queries_at, ASKED, NULL, asking, &err));
    times(asking, ASKED, head.numbers[ES_HEAD_WQ], q);
    times(x, MOST, head.numbers[ES_HEAD_WK], k);
    times(x, MOST, head.numbers[ES_HEAD_WV], v);
    for (int i = 0; i < 4; i++) {
        plain_attention(q, k, v, n[i], 2.5 / sqrt(DIM), want);
        assert_ok(es_picture_outputs(&spec, n[i], got, &err));
        for (int j = 0; j < ASKED * DIM; j++)
            assert_near(got[j], want[j], 1e-12);
    }
    es_head_data_free(&head);
}

/* Gamma(x) = V S A x of Gaussian tokens (THEORY 2): S = 0.49 I, A twice the identity, V the
 * identity. Its outputs over many tokens come near. */
static void the_limit_of_a_law_is_its_own(void **state)
{
    (void)state;
    enum { MANY = 400000 };
    double identity[DIM * DIM] = {0}, asking[ASKED * DIM], limit[ASKED * DIM], y[ASKED * DIM];
    double error[ASKED];
    const es_law law = gaussian();
    for (int i = 0; i < DIM; i++)
        identity[i * (DIM + 1)] = 1.0;
    const es_view A = es_view_f64(identity, DIM, DIM);
    const es_head head = {.A = &A};
    const es_picture_spec spec = {
        .law = &law, .head = &head, .scale = 2.0, .queries = ASKED, .seed = 9};
    const es_address at = {.seed = 9, .experiment = ES_EXPERIMENT_PICTURE + 1};
    assert_ok(es_tokens_fill(&law, &at, ASKED, NULL, asking, &err));
    assert_ok(es_picture_limit(&spec, limit, error, &err));
    assert_ok(es_picture_outputs(&spec, MANY, y, &err));
    for (int i = 0; i < ASKED; i++) {
        double reach = 0.0; /* t'St at t = 2x */
        for (int c = 0; c < DIM; c++)
            reach += 0.49 * pow(2.0 * asking[i * DIM + c], 2.0);
        assert_below(error[i], 1e-12);
        for (int c = 0; c < DIM; c++) {
            const double want = 2.0 * 0.49 * asking[i * DIM + c];
            assert_near(limit[i * DIM + c], want, 1e-12);
            /* n times the variance is E w^2 (y - Gamma)^2 = e^{t'St} (S + (St)^2) for large n */
            assert_near(y[i * DIM + c], want, 4.0 * sqrt(exp(reach) * (0.49 + want * want) / MANY));
        }
    }
}

/* ---- a head of a model ---- */

static es_picture_spec head_of_model(int64_t layer, int64_t head)
{
    return (es_picture_spec){.model = model,
                             .pool = pool,
                             .layer = layer,
                             .number = head,
                             .queries = QUERIES,
                             .seed = 11};
}

/* Against loops over the pool's tokens: those of the draw, all, and those of either half. */
static void outputs_of_a_model_are_those_of_its_weights(void **state)
{
    (void)state;
    truth t;
    int64_t *rows = malloc((size_t)tokens * sizeof *rows), *halves[2], count[2] = {0, 0};
    double want[QUERIES * H], even[QUERIES * H], odd[QUERIES * H], got[QUERIES * K], error[QUERIES];
    const es_probe_spec probe = spec_of(NULL);
    for (int half = 0; half < 2; half++)
        halves[half] = malloc((size_t)tokens * sizeof *rows);
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t half = i / ((tokens + 15) / 16) % 2;
        halves[half][count[half]++] = i;
    }
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        const es_picture_spec spec = head_of_model(layer, layer % HEADS);
        const int64_t at = spec.number * K;
        truth_open(layer, &t);
        assert_ok(es_probe_draw_rows(&probe, tokens, layer, 0, rows, &err));
        attend(&t, rows, sizes[1], want);
        assert_ok(es_picture_outputs(&spec, sizes[1], got, &err));
        for (int i = 0; i < QUERIES * K; i++)
            assert_near(got[i], want[i / K * H + at + i % K], tolerance_of[layer]);
        attend(&t, halves[0], count[0], even);
        attend(&t, halves[1], count[1], odd);
        assert_ok(es_picture_limit(&spec, got, error, &err));
        for (int i = 0; i < QUERIES; i++) {
            double square = 0.0;
            for (int c = 0; c < K; c++) {
                assert_near(got[i * K + c], t.limit[i * H + at + c], tolerance_of[layer]);
                square += pow(even[i * H + at + c] - odd[i * H + at + c], 2.0);
            }
            assert_near(error[i], 0.5 * sqrt(square), tolerance_of[layer]);
        }
        free(t.x);
    }
    for (int half = 0; half < 2; half++)
        free(halves[half]);
    free(rows);
}

/* A picture shows the draw that `probe` measures first: the same error. */
static void the_draw_is_the_first_of_probe(void **state)
{
    (void)state;
    const es_probe_spec spec = spec_of(NULL);
    double *numbers = new_numbers(&spec), y[QUERIES * K], limit[QUERIES * K], error[QUERIES];
    es_probe_cell cells[HEADS * SIZES];
    es_probe_joint joint[SIZES];
    es_probe *probe = probe_of(&spec, 1, numbers);
    assert_ok(es_probe_replicate(probe, 0, cells, joint, &err));
    for (int64_t h = 0; h < HEADS; h++) {
        const es_picture_spec picture = head_of_model(1, h);
        assert_ok(es_picture_limit(&picture, limit, error, &err));
        for (int s = 0; s < SIZES; s++) {
            double squares = 0.0;
            assert_ok(es_picture_outputs(&picture, sizes[s], y, &err));
            for (int i = 0; i < QUERIES * K; i++)
                squares += (y[i] - limit[i]) * (y[i] - limit[i]);
            assert_near(sqrt(squares / QUERIES), cells[h * SIZES + s].map_error, tolerance_of[1]);
        }
    }
    es_probe_close(probe);
    free(numbers);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    double y[QUERIES * K];
    es_picture_spec spec = head_of_model(0, HEADS);
    assert_int_equal(es_picture_outputs(&spec, 10, y, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "picture.head");
    spec = head_of_model(LAYERS, 0);
    assert_int_equal(es_picture_outputs(&spec, 10, y, &err), ES_E_RANGE);
    spec = head_of_model(0, 0);
    spec.queries = tokens + 1;
    assert_int_equal(es_picture_outputs(&spec, 10, y, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "picture.queries");
    spec = head_of_model(0, 0);
    assert_int_equal(es_picture_outputs(&spec, 0, y, &err), ES_E_RANGE);
}

/* ---- the study ---- */

/* words: names and values, NULL-ended. */
static es_status run_with(const char *const *words, const es_study_opts *opts, es_answer **out)
{
    const es_study *study = es_study_find("picture");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; *words; words += 2)
        assert_ok(es_params_set(p, words[0], words[1], &err));
    const es_status status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

static const char *const small[] = {"dim",        "3",           "scale", "2",    "n",
                                    "10,40,300",  "query-count", "12",    "head", "rotation",
                                    "perplexity", "8",           "steps", "60",   NULL};
enum { SETS = 4, POINTS = SETS * 12 };

static double at_point(const es_table *t, int set, int query, const char *key)
{
    return es_table_get(t, set * 12 + query, key);
}

/* Rows say what the points and the outputs' distances do, by loops; limits have no n. */
static void rows_are_made_of_the_points(void **state)
{
    (void)state;
    es_answer *a;
    assert_ok(run_with(small, &(es_study_opts){.seed = 4}, &a));
    const es_table *points = es_answer_find(a, "points"), *rows = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(points), POINTS);
    assert_int_equal(es_table_rows(rows), SETS - 1);
    for (int s = 0; s < SETS - 1; s++) {
        double mean = 0.0, square = 0.0, plane = 0.0;
        int own = 0;
        for (int i = 0; i < 12; i++) {
            const double distance = at_point(points, s, i, "distance");
            double least = HUGE_VAL, mine = 0.0;
            for (int j = 0; j < 12; j++) {
                const double d =
                    hypot(at_point(points, s, i, "x") - at_point(points, SETS - 1, j, "x"),
                          at_point(points, s, i, "y") - at_point(points, SETS - 1, j, "y"));
                least = fmin(least, d);
                mine = i == j ? d : mine;
            }
            mean += distance / 12.0;
            square += distance * distance / 12.0;
            plane += mine / 12.0;
            own += mine == least;
            assert_equals(at_point(points, s, i, "n"), es_table_get(rows, s, "n"));
            assert_equals(at_point(points, s, i, "query"), i);
        }
        assert_close(es_table_get(rows, s, "distance"), mean, 1e-12);
        assert_close(es_table_get(rows, s, "map_error"), sqrt(square), 1e-12);
        assert_close(es_table_get(rows, s, "distance_plane"), plane, 1e-12);
        assert_near(es_table_get(rows, s, "own_plane"), own / 12.0, 1e-12);
    }
    for (int i = 0; i < 12; i++) {
        assert_nan(at_point(points, SETS - 1, i, "n"));
        assert_string_equal(es_table_get_text(points, (SETS - 1) * 12 + i, "set"), "limit");
        assert_equals(at_point(points, SETS - 1, i, "distance"), 0.0);
    }
    assert_string_equal(es_table_get_text(points, 0, "set"), "10");
    assert_non_null(strstr(es_answer_finding(a, 0), "Over 10 tokens"));
    assert_non_null(strstr(es_answer_finding(a, 1), "Caution: t-SNE keeps neighbours"));
    es_answer_free(a);
}

static void same_answers(const es_answer *a, const es_answer *b)
{
    static const char *const names[] = {"rows", "points"};
    static const char *const keys[2][5] = {
        {"map_error", "own", "distance_plane", "relative_plane", "own_plane"},
        {"x", "y", "distance", "query", "distance"}};
    for (int t = 0; t < 2; t++) {
        const es_table *x = es_answer_find(a, names[t]), *y = es_answer_find(b, names[t]);
        assert_int_equal(es_table_rows(x), es_table_rows(y));
        for (int64_t i = 0; i < es_table_rows(x); i++)
            for (int k = 0; k < 5; k++)
                assert_equals(es_table_get(x, i, keys[t][k]), es_table_get(y, i, keys[t][k]));
    }
}

typedef struct patience {
    int calls, most;
} patience;

static bool lose_patience(void *user, const es_progress *now)
{
    patience *p = user;
    (void)now;
    return ++p->calls >= p->most;
}

/* Threads change no bit, and neither does stopping in the middle of outputs or of the descent. */
static void threads_and_interruptions_change_nothing(void **state)
{
    (void)state;
    es_answer *whole, *other;
    int stopped = 0;
    assert_ok(run_with(small, &(es_study_opts){.seed = 4, .exec = {.threads = 1}}, &whole));
    assert_ok(run_with(small, &(es_study_opts){.seed = 4, .exec = {.threads = 3}}, &other));
    same_answers(whole, other);
    es_answer_free(other);
    for (int most = 1; most < 80; most += 13) {
        patience p = {0, most};
        es_study_opts opts = {.seed = 4,
                              .progress = lose_patience,
                              .user = &p,
                              .out = in_folder("p.run"),
                              .force = true};
        const es_status status = run_with(small, &opts, &other);
        if (status == ES_OK) {
            es_answer_free(other);
            continue;
        }
        stopped++;
        assert_int_equal(status, ES_E_INTERRUPTED);
        opts.progress = NULL;
        opts.force = false;
        opts.resume = true;
        assert_ok(run_with(small, &opts, &other));
        same_answers(whole, other);
        es_answer_free(other);
    }
    assert_above(stopped, 1);
    es_answer_free(whole);
    remove(in_folder("p.run"));
    remove(in_folder("p.run.lock"));
}

/* Principal components keep distances within the plane at or below the true ones. */
static void the_plain_plane_shortens_distances(void **state)
{
    (void)state;
    static const char *const words[] = {"method", "pca", "n", "10,100", "query-count", "40", NULL};
    es_answer *a;
    assert_ok(run_with(words, &(es_study_opts){.seed = 4}, &a));
    const es_table *rows = es_answer_find(a, "rows");
    for (int64_t i = 0; i < 2; i++) {
        assert_below(es_table_get(rows, i, "distance_plane"), es_table_get(rows, i, "distance"));
        assert_above(es_table_get(rows, i, "distance_plane"),
                     0.1 * es_table_get(rows, i, "distance"));
    }
    assert_non_null(strstr(es_answer_finding(a, 1), "variance"));
    es_answer_free(a);
}

/* Signs on two axes at a huge scale: queries of one quadrant have equal outputs. */
static void equal_outputs_are_said_to_be_equal(void **state)
{
    (void)state;
    static const char *const words[] = {"law",         "rademacher", "dim",      "2",  "scale",
                                        "1e6",         "head",       "identity", "n",  "50,100",
                                        "query-count", "60",         "steps",    "20", NULL};
    es_answer *a;
    assert_ok(run_with(words, &(es_study_opts){.seed = 4}, &a));
    bool said = false;
    for (int64_t i = 0; es_answer_finding(a, i); i++)
        said = said || strstr(es_answer_finding(a, i), "lie on each other");
    assert_true(said);
    es_answer_free(a);
}

/* Scores that are all 0: every query has the same output and the same limit, which is nobody's own,
 * and in units of whose spread nothing can be said. */
static void limits_in_one_place_are_nobodys_own(void **state)
{
    (void)state;
    static const char *const words[] = {"scale", "0",      "n",   "10,100", "query-count",
                                        "20",    "method", "pca", NULL};
    es_answer *a;
    assert_ok(run_with(words, &(es_study_opts){.seed = 4}, &a));
    const es_table *rows = es_answer_find(a, "rows");
    for (int64_t i = 0; i < 2; i++) {
        assert_equals(es_table_get(rows, i, "own"), 0.0);
        assert_nan(es_table_get(rows, i, "relative"));
        assert_nan(es_table_get(rows, i, "relative_plane"));
    }
    es_answer_free(a);
}

static void a_model_and_its_pool(void **state)
{
    (void)state;
    char text[600], pools[600];
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(pools, sizeof pools, "%s/pool", folder);
    const char *const words[] = {
        "model",       folder, "text", text,     "pool-dir", pools, "layer",      "1",  "head", "2",
        "query-count", "24",   "n",    "40,600", "steps",    "30",  "perplexity", "10", NULL};
    double y[QUERIES * K], limit[QUERIES * K], error[QUERIES];
    es_answer *a;
    assert_ok(run_with(words, &(es_study_opts){.seed = 11}, &a));
    const es_picture_spec spec = head_of_model(1, 2);
    assert_ok(es_picture_limit(&spec, limit, error, &err));
    for (int s = 0; s < SIZES; s++) {
        double squares = 0.0;
        assert_ok(es_picture_outputs(&spec, sizes[s], y, &err));
        for (int i = 0; i < QUERIES * K; i++)
            squares += (y[i] - limit[i]) * (y[i] - limit[i]);
        assert_close(es_table_get(es_answer_find(a, "rows"), s, "map_error"),
                     sqrt(squares / QUERIES), 1e-12);
    }
    es_answer_free(a);
}

static void refused(const char *const *words, const char *rule)
{
    es_answer *a;
    assert_int_equal(run_with(words, &(es_study_opts){.seed = 1}, &a), ES_E_ARGUMENT);
    assert_null(a);
    assert_string_equal(err.rule, rule);
}

static void pictures_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refused((const char *const[]){"query-count", "600", "n", "10,20,30,40,50", NULL},
            "picture.points");
    refused((const char *const[]){"query-count", "8", "n", "10", "perplexity", "15", NULL},
            "picture.perplexity");
    refused((const char *const[]){"law", "laplace", "dim", "2", NULL}, "picture.limit");
    refused((const char *const[]){"head", "3", NULL}, "picture.head");
    refused((const char *const[]){"layer", "3", NULL}, "picture.options");
    refused((const char *const[]){"model", folder, "text", "x", "law", "sphere", NULL},
            "picture.options");
}

TEST_FILE(picture)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_attention_over_the_first_n_tokens),
        cmocka_unit_test(the_limit_of_a_law_is_its_own),
        cmocka_unit_test(outputs_of_a_model_are_those_of_its_weights),
        cmocka_unit_test(the_draw_is_the_first_of_probe),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(rows_are_made_of_the_points),
        cmocka_unit_test(threads_and_interruptions_change_nothing),
        cmocka_unit_test(the_plain_plane_shortens_distances),
        cmocka_unit_test(equal_outputs_are_said_to_be_equal),
        cmocka_unit_test(limits_in_one_place_are_nobodys_own),
        cmocka_unit_test(a_model_and_its_pool),
        cmocka_unit_test(pictures_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
