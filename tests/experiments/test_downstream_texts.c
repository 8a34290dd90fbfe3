/* SPDX-License-Identifier: Apache-2.0 */
/* test_downstream_texts.c : `downstream --text-strata` and `--replicates` on a tiny classifier:
 * horizons of texts from covariances, thirds and what they cost by plain loops, draws as texts of a
 * longer file, means over draws by hand, refusals. */
#include "tiny_model.h"

#include <esscher/study.h>

#include "experiments/downstream/downstream.h"
#include "linalg/linalg.h"
#include "stats/special.h"
#include "theory/theory.h"

enum { TEXTS = 24, LABELS = 3, MOST = 22, HIDDEN = 12, LAYERS = 3, HEADS = 3, DRAWS = 3 };

static tiny model;
static char tasks[512], repeated[512];
static int32_t ids[TEXTS][MOST + 2];
static int64_t lengths[TEXTS], labels[TEXTS];

static void write_text(FILE *f, int i)
{
    for (int64_t w = 1; w < lengths[i] - 1; w++)
        fprintf(f, "word%d ", (int)ids[i][w]);
    fprintf(f, "\t%d\n", (int)labels[i]);
}

/* Texts of 3 to 22 words: fewer tokens than H = 12, and more. A second file has all of them DRAWS
 * times. */
static int make_inputs(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    model = tiny_default();
    model.labels = LABELS;
    tiny_draw(&model);
    tiny_write(&model);
    tiny_write_vocab(&model);
    snprintf(tasks, sizeof tasks, "%s", in_folder("tasks.tsv"));
    snprintf(repeated, sizeof repeated, "%s", in_folder("repeated.tsv"));
    FILE *f = fopen(tasks, "w"), *g = fopen(repeated, "w");
    for (int i = 0; i < TEXTS; i++) {
        const int words = 3 + i * 7 % 20;
        lengths[i] = words + 2;
        labels[i] = i * i % LABELS;
        ids[i][0] = TINY_CLS;
        for (int w = 0; w < words; w++)
            ids[i][1 + w] = TINY_FIRST_WORD + (i * 5 + w * w * 3) % 16;
        ids[i][1 + words] = TINY_SEP;
        write_text(f, i);
    }
    for (int i = 0; i < DRAWS * TEXTS; i++)
        write_text(g, i % TEXTS);
    return fclose(f) || fclose(g) ? -1 : 0;
}

static int remove_inputs(void **state)
{
    tiny_free(&model);
    return remove_folder(state);
}

static es_status ask_status(const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find("downstream");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_study_opts opts = {.seed = 3, .exec = {.threads = 2}};
    const es_status status = es_study_run(study, p, &opts, out, &err);
    es_params_free(p);
    return status;
}

#define GIVEN(...) ((const char *const[]){"model", folder, __VA_ARGS__, NULL, NULL})
#define ASK(...)   ask(GIVEN(__VA_ARGS__))

static es_answer *ask(const char *const *given)
{
    es_answer *a;
    assert_ok(ask_status(given, &a));
    return a;
}

/* ---- plain loops ---- */

static double hidden_of[(LAYERS + 1) * (MOST + 2) * HIDDEN];

static void plain(int text, double *logits)
{
    double stats[LAYERS * HEADS * 4], pooled[HIDDEN];
    tiny_forward(&model, ids[text], lengths[text], hidden_of, stats, pooled, logits);
}

/* The two largest scores of a query. */
static double top_two(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                      int64_t j)
{
    int64_t before = 0;
    (void)layer;
    (void)head;
    (void)i;
    for (int64_t g = 0; g < n; g++)
        before += scores[g] > scores[j] || (scores[g] == scores[j] && g < j);
    return before < 2;
}

/* |S^1/2 A S^1/2| of one text: S from its tokens at the input of a layer, A = Wq'Wk of all heads.
 */
static double plain_horizon(int text, int layer)
{
    double cov[HIDDEN * HIDDEN] = {0}, mean[HIDDEN] = {0}, logits[LABELS];
    char name[96];
    es_horizons found;
    plain(text, logits);
    const double *x = hidden_of + layer * lengths[text] * HIDDEN, n = (double)lengths[text];
    for (int64_t i = 0; i < lengths[text] * HIDDEN; i++)
        mean[i % HIDDEN] += x[i] / n;
    for (int64_t i = 0; i < lengths[text]; i++)
        for (int r = 0; r < HIDDEN; r++)
            for (int c = 0; c < HIDDEN; c++)
                cov[r * HIDDEN + c] +=
                    (x[i * HIDDEN + r] - mean[r]) * (x[i * HIDDEN + c] - mean[c]) / n;
    snprintf(name, sizeof name, "encoder.layer.%d.attention.self.query.weight", layer);
    const es_view wq = es_view_f64(tiny_find(&model, "", name), HIDDEN, HIDDEN);
    snprintf(name, sizeof name, "encoder.layer.%d.attention.self.key.weight", layer);
    const es_view wk = es_view_f64(tiny_find(&model, "", name), HIDDEN, HIDDEN);
    const es_view S = es_view_f64(cov, HIDDEN, HIDDEN);
    assert_ok(es_horizons_of(&S, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, NULL, &found, &err));
    return found.unscaled.val;
}

/* Thirds of the texts by counting: texts of a third in the order of the file. */
static int third_of(const double *horizons, int text)
{
    int before = 0;
    for (int j = 0; j < TEXTS; j++)
        before += horizons[j] < horizons[text];
    return before * 3 / TEXTS;
}

/* ---- tests ---- */

static void horizons_are_those_of_covariances(void **state)
{
    (void)state;
    for (int layer = 0; layer < LAYERS; layer += 2) {
        es_answer *a = ASK("tasks", tasks, "policy", "top", "keys", "2", "text-strata", NULL,
                           "strata-layer", layer ? "2" : "0");
        const es_table *t = es_answer_find(a, "text_strata");
        double horizons[TEXTS], low[3] = {1e9, 1e9, 1e9}, high[3] = {0.0};
        int64_t tokens[3] = {0};
        for (int i = 0; i < TEXTS; i++)
            horizons[i] = plain_horizon(i, layer);
        for (int i = 0; i < TEXTS; i++) {
            const int k = third_of(horizons, i);
            low[k] = fmin(low[k], horizons[i]);
            high[k] = fmax(high[k], horizons[i]);
            tokens[k] += lengths[i];
        }
        assert_int_equal(es_table_rows(t), 6); /* full, top */
        for (int k = 0; k < 6; k++) {
            /* hidden states of the engine are f32 */
            assert_close(es_table_get(t, k, "unscaled_low"), low[k % 3], 1e-5);
            assert_close(es_table_get(t, k, "unscaled_high"), high[k % 3], 1e-5);
            assert_close(es_table_get(t, k, "horizon_low"), low[k % 3] / sqrt(HIDDEN / HEADS),
                         1e-5);
            assert_close(es_table_get(t, k, "horizon_high"), high[k % 3] / sqrt(HIDDEN / HEADS),
                         1e-5);
            assert_near(es_table_get(t, k, "tokens"), (double)tokens[k % 3] / (TEXTS / 3.0), 1e-12);
            assert_near(es_table_get(t, k, "texts"), TEXTS / 3.0, 0.0);
        }
        es_answer_free(a);
    }
}

static int best_of(const double *x)
{
    return x[1] > x[0] ? (x[2] > x[1] ? 2 : 1) : (x[2] > x[0] ? 2 : 0);
}

static double plain_kl(const double *a, const double *b)
{
    double za = 0.0, zb = 0.0, sum = 0.0;
    for (int i = 0; i < LABELS; i++) {
        za += exp(a[i]);
        zb += exp(b[i]);
    }
    for (int i = 0; i < LABELS; i++)
        sum += exp(a[i]) / za * log(exp(a[i]) / za / (exp(b[i]) / zb));
    return sum;
}

/* Sums over the texts of one third. */
typedef struct third {
    double count, right, same, was, kl, squares;
} third;

static void sum_thirds(const double *horizons, third out[3])
{
    memset(out, 0, 3 * sizeof *out);
    for (int i = 0; i < TEXTS; i++) {
        double full[LABELS], now[LABELS];
        third *t = &out[third_of(horizons, i)];
        model.factor = NULL;
        plain(i, full);
        model.factor = top_two;
        plain(i, now);
        model.factor = NULL;
        const double kl = plain_kl(full, now);
        t->count += 1.0;
        t->right += best_of(now) == labels[i];
        t->was += best_of(full) == labels[i];
        t->same += best_of(now) == best_of(full);
        t->kl += kl;
        t->squares += kl * kl;
    }
}

static double variance_of(const third *t)
{
    const double mean = t->kl / t->count;
    return (t->squares / t->count - mean * mean) / (t->count - 1.0);
}

static void thirds_cost_what_their_texts_cost(void **state)
{
    (void)state;
    es_answer *a = ASK("tasks", tasks, "policy", "top", "keys", "2", "text-strata", NULL);
    const es_table *t = es_answer_find(a, "text_strata");
    double horizons[TEXTS], p[3];
    third want[3];
    for (int i = 0; i < TEXTS; i++)
        horizons[i] = plain_horizon(i, 0);
    sum_thirds(horizons, want);
    for (int k = 0; k < 3; k++) {
        const third *w = &want[k];
        assert_near(es_table_get(t, k, "accuracy"), w->was / w->count, 1e-12);
        assert_near(es_table_get(t, k, "kl"), 0.0, 0.0);
        assert_near(es_table_get(t, 3 + k, "accuracy"), w->right / w->count, 1e-12);
        assert_near(es_table_get(t, 3 + k, "lost"), (w->was - w->right) / w->count, 1e-12);
        assert_near(es_table_get(t, 3 + k, "agreement"), w->same / w->count, 1e-12);
        assert_above(w->kl, 1e-6); /* it does something */
        /* f32 logits, of which KL is a square: as in test_downstream */
        assert_close(es_table_get(t, 3 + k, "kl"), w->kl / w->count, 2e-3);
        assert_close(es_table_get(t, 3 + k, "kl_se"), sqrt(variance_of(w)), 2e-3);
    }
    for (int k = 1; k < 3; k++) { /* Welch's t from the columns of the rows themselves */
        const double u = es_table_get(t, 3, "kl_se"), v = es_table_get(t, 3 + k, "kl_se");
        const double se = sqrt(u * u + v * v), n = TEXTS / 3.0 - 1.0;
        const double freedom = n * se * se * se * se / (u * u * u * u + v * v * v * v);
        const double gap = es_table_get(t, 3 + k, "kl") - es_table_get(t, 3, "kl");
        assert_near(es_table_get(t, 3 + k, "excess"), gap, 1e-15);
        assert_close(es_table_get(t, 3 + k, "excess_se"), se, 1e-12);
        p[k] = 2.0 * es_student_tail(freedom, fabs(gap) / se);
    }
    const int least = p[1] <= p[2] ? 1 : 2; /* Holm: of two tests the smaller counts twice */
    const double first = fmin(1.0, 2.0 * p[least]);
    assert_close(es_table_get(t, 3 + least, "excess_p"), first, 1e-9);
    assert_close(es_table_get(t, 6 - least, "excess_p"), fmax(first, p[3 - least]), 1e-9);
    es_answer_free(a);
}

/* Draw d of text i has the random numbers of text d TEXTS + i, so a file that has all texts DRAWS
 * times gives the same means with one draw. */
static void draws_are_texts_of_a_longer_file(void **state)
{
    (void)state;
    es_answer *a = ASK("tasks", tasks, "policy", "random,top", "keys", "2", "replicates", "3"),
              *b = ASK("tasks", repeated, "policy", "random,top", "keys", "2"),
              *one = ASK("tasks", tasks, "policy", "random,top", "keys", "2");
    const es_table *t = es_answer_find(a, "rows"), *u = es_answer_find(b, "rows");
    static const char *const means[] = {"accuracy", "lost", "agreement", "kl", "keys"};
    for (int64_t r = 0; r < 3; r++)
        for (int k = 0; k < 5; k++)
            assert_near(es_table_get(t, r, means[k]), es_table_get(u, r, means[k]), 1e-12);
    assert_near(es_table_get(t, 1, "texts"), TEXTS, 0.0);
    /* nothing is drawn for the largest: one draw, and intervals of proportions */
    assert_near(es_table_get(t, 2, "lost_ci.0"),
                es_table_get(es_answer_find(one, "rows"), 2, "lost_ci.0"), 0.0);
    es_answer_free(a);
    es_answer_free(b);
    es_answer_free(one);
}

/* Four texts, shares .5, 1, 0, .75 of their draws right, by hand; t_3(.025) = 3.18245. */
static void several_draws_have_students_intervals(void **state)
{
    (void)state;
    const downstream_text texts[] = {{true, 0.5, 0.5, 0.2, 0.0, 0.0},
                                     {true, 1.0, 1.0, 0.1, 0.0, 0.0},
                                     {false, 0.0, 1.0, 0.4, 0.0, 0.0},
                                     {true, 0.75, 0.75, 0.1, 0.0, 0.0}};
    downstream_state s = {0};
    const es_job job = {.state = &s};
    downstream_cost c;
    double x[4];
    downstream_sum_up(&job, 4, texts, 4, x, &c);
    assert_near(c.accuracy.value, 0.5625, 1e-15);
    assert_near(c.accuracy.se, sqrt(0.546875 / 12.0), 1e-15); /* sum of squares about the mean */
    assert_near(c.accuracy_low, 0.0, 0.0);                    /* -0.117 */
    assert_near(c.accuracy_high, 1.0, 0.0);                   /* 1.24 */
    assert_near(c.lost.value, 0.1875, 1e-15);
    assert_near(c.lost.se, sqrt(0.171875 / 12.0), 1e-15);
    assert_near(c.lost_high - c.lost.value, 3.18245 * c.lost.se, 1e-5);
    assert_near(c.lost.value - c.lost_low, 3.18245 * c.lost.se, 1e-5);
    assert_near(c.lost_p, 2.0 * es_student_tail(3.0, c.lost.value / c.lost.se), 1e-15);
    assert_near(c.agreement.value, 0.8125, 1e-15);
    assert_near(c.kl.value, 0.2, 1e-15);
    /* of one draw they are those of shares: Wilson's upper end of 4 of 4 is 1 */
    const downstream_text all[] = {{.was = true, .right = 1.0, .same = 1.0},
                                   {.was = true, .right = 1.0, .same = 1.0},
                                   {.was = true, .right = 1.0, .same = 1.0},
                                   {.was = true, .right = 1.0, .same = 1.0}};
    downstream_sum_up(&job, 1, all, 4, x, &c);
    assert_near(c.accuracy.value, 1.0, 0.0);
    assert_near(c.accuracy_high, 1.0, 0.0);
    /* 1/(1 + z^2/n) with z = 1.959964 */
    assert_near(c.accuracy_low, 1.0 / (1.0 + 1.959964 * 1.959964 / 4.0), 1e-6);
    assert_near(c.lost_p, 1.0, 0.0);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    es_answer *a;
    assert_int_not_equal(ask_status(GIVEN("tasks", tasks, "strata-layer", "1"), &a), ES_OK);
    assert_string_equal(err.rule, "downstream.options");
    assert_int_not_equal(
        ask_status(GIVEN("tasks", tasks, "text-strata", NULL, "strata-layer", "3"), &a), ES_OK);
    assert_string_equal(err.rule, "downstream.layer");
    assert_int_not_equal(ask_status(GIVEN("tasks", tasks, "text-strata", NULL, "most", "2"), &a),
                         ES_OK);
    assert_string_equal(err.rule, "downstream.strata");
    assert_int_not_equal(
        ask_status(GIVEN("tasks", tasks, "replicates", "2", "evict", "prompt"), &a), ES_OK);
    assert_string_equal(err.rule, "downstream.options");
}

TEST_FILE(downstream_texts)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(horizons_are_those_of_covariances),
        cmocka_unit_test(thirds_cost_what_their_texts_cost),
        cmocka_unit_test(draws_are_texts_of_a_longer_file),
        cmocka_unit_test(several_draws_have_students_intervals),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
