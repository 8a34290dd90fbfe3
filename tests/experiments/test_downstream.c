/* SPDX-License-Identifier: Apache-2.0 */
/* test_downstream.c : the study `downstream` on a tiny classifier, against plain loops: accuracy,
 * agreement and KL with all keys and with the largest few; horizons; embeddings and their
 * neighbours; refusals; the same answer on any number of threads and after a stop. */
#include "tiny_model.h"

#include <esscher/study.h>

#include "experiments/downstream/downstream.h"
#include "random/experiment.h"
#include "real.h"
#include "stats/special.h"
#include "theory/theory.h"

enum { TEXTS = 24, LABELS = 3, MOST = 12, HIDDEN = 12, LAYERS = 3, HEADS = 3 };

static tiny model;
static char tasks[512], paragraphs[512];
static int32_t ids[TEXTS][MOST + 2];
static int64_t lengths[TEXTS], labels[TEXTS];

/* Texts of 3 to 12 words that are one token each, so that ids are known without a tokenizer. */
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
    snprintf(paragraphs, sizeof paragraphs, "%s", in_folder("paragraphs"));
    FILE *f = fopen(tasks, "w"), *g = fopen(paragraphs, "w");
    fputs("sentence\tlabel\n", f);
    for (int i = 0; i < TEXTS; i++) {
        const int words = 3 + i * 7 % 10;
        lengths[i] = words + 2;
        labels[i] = i * i % LABELS;
        ids[i][0] = TINY_CLS;
        for (int w = 0; w < words; w++) {
            ids[i][1 + w] = TINY_FIRST_WORD + (i * 5 + w * w * 3) % 16;
            fprintf(f, "word%d ", ids[i][1 + w]);
            fprintf(g, "word%d%s", ids[i][1 + w], w % 4 == 3 ? "\n" : " ");
        }
        ids[i][1 + words] = TINY_SEP;
        fprintf(f, "\t%d\n", (int)labels[i]);
        fprintf(g, "\n\n");
    }
    return fclose(f) || fclose(g) ? -1 : 0;
}

static int remove_inputs(void **state)
{
    tiny_free(&model);
    return remove_folder(state);
}

/* ---- plain loops ---- */

static double hidden_of[(LAYERS + 1) * (MOST + 2) * HIDDEN];

static void plain(int text, double *logits)
{
    double stats[LAYERS * HEADS * 4], pooled[HIDDEN];
    tiny_forward(&model, ids[text], lengths[text], hidden_of, stats, pooled, logits);
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

/* The k largest of a query's scores: those with fewer than k before them. A quarter of the text,
 * rounded; in one layer or all; in some heads or all. */
static int64_t only_layer = -1, only_head = -1;

static double top_quarter(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                          int64_t j)
{
    int64_t before = 0, keys = (int64_t)(0.25 * (double)n + 0.5);
    (void)i;
    if ((only_layer >= 0 && layer != only_layer) || (only_head >= 0 && head != only_head))
        return 1.0;
    for (int64_t g = 0; g < n; g++)
        before += scores[g] > scores[j] || (scores[g] == scores[j] && g < j);
    return before < (keys < 1 ? 1 : keys);
}

/* ---- the study ---- */

static es_status ask_opts(const es_study_opts *opts, const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find("downstream");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_status status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

#define GIVEN(...) ((const char *const[]){"model", folder, __VA_ARGS__, NULL, NULL})
#define ASK(...)   ask(GIVEN(__VA_ARGS__))

static es_answer *ask(const char *const *given)
{
    es_answer *a;
    assert_ok(ask_opts(&(es_study_opts){.seed = 3, .exec = {.threads = 2}}, given, &a));
    return a;
}

/* ---- tests ---- */

static void all_keys_are_the_model(void **state)
{
    (void)state;
    es_answer *a =
        ASK("tasks", tasks, "policy", "top,random,window,bigbird,stream,retention", "keep", "1");
    const es_table *t = es_answer_find(a, "rows");
    double logits[LABELS], right = 0.0, tokens = 0.0;
    for (int i = 0; i < TEXTS; i++) {
        plain(i, logits);
        right += best_of(logits) == labels[i];
        tokens += (double)lengths[i];
    }
    assert_int_equal(es_table_rows(t), 7);
    for (int64_t i = 0; i < 7; i++) {
        assert_near(es_table_get(t, i, "accuracy"), right / TEXTS, 1e-12);
        assert_near(es_table_get(t, i, "agreement"), 1.0, 0.0);
        assert_near(es_table_get(t, i, "lost"), 0.0, 0.0);
        assert_near(es_table_get(t, i, "keys"), tokens / TEXTS, 1e-12);
        /* the engine's f32 weights beside f64 ones: logits differ by 1e-6, KL by their square */
        assert_at_least(es_table_get(t, i, "kl"), 0.0);
        assert_below(es_table_get(t, i, "kl"), 1e-10);
    }
    assert_string_equal(es_table_get_text(t, 0, "policy"), "full");
    es_answer_free(a);
}

/* Accuracy, agreement, KL and its error of one setting, from plain loops. */
static void check_row(const es_table *t, int64_t row)
{
    double right = 0.0, same = 0.0, kl[TEXTS], mean = 0.0, square = 0.0;
    for (int i = 0; i < TEXTS; i++) {
        double full[LABELS], now[LABELS];
        model.factor = NULL;
        plain(i, full);
        model.factor = top_quarter;
        plain(i, now);
        right += best_of(now) == labels[i];
        same += best_of(now) == best_of(full);
        mean += (kl[i] = plain_kl(full, now)) / TEXTS;
    }
    model.factor = NULL;
    for (int i = 0; i < TEXTS; i++)
        square += (kl[i] - mean) * (kl[i] - mean);
    assert_above(mean, 1e-9); /* it does something */
    assert_near(es_table_get(t, row, "accuracy"), right / TEXTS, 1e-12);
    assert_near(es_table_get(t, row, "agreement"), same / TEXTS, 1e-12);
    assert_close(es_table_get(t, row, "kl"), mean, 2e-3); /* f32 logits, of which KL is a square */
    assert_close(es_table_get(t, row, "kl_se"), sqrt(square / TEXTS / (TEXTS - 1)), 2e-3);
}

static void the_largest_quarter_is_the_plain_loop(void **state)
{
    (void)state;
    es_answer *a = ASK("tasks", tasks, "policy", "top", "keep", "0.25");
    check_row(es_answer_find(a, "rows"), 1);
    es_answer_free(a);
    only_layer = 1;
    a = ASK("tasks", tasks, "policy", "top", "keep", "0.25", "layer", "1");
    check_row(es_answer_find(a, "rows"), 1);
    es_answer_free(a);
    only_layer = -1;
}

static void keys_are_shares_of_each_text_or_numbers(void **state)
{
    (void)state;
    es_thinning t = {.share = 0.125};
    assert_int_equal(es_thinning_keys(&t, 3), 1); /* one at least */
    assert_int_equal(es_thinning_keys(&t, 12), 2);
    assert_int_equal(es_thinning_keys(&t, 100), 13);
    t = (es_thinning){.share = 1.0};
    assert_int_equal(es_thinning_keys(&t, 77), 77);
    t = (es_thinning){.spec.keys = 9};
    assert_int_equal(es_thinning_keys(&t, 5), 5);
    assert_int_equal(es_thinning_keys(&t, 50), 9);
    es_answer *a = ASK("tasks", tasks, "policy", "top,full", "keys", "2,1000");
    const es_table *rows = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(rows), 3);
    assert_near(es_table_get(rows, 1, "keys"), 2.0, 1e-12);
    assert_near(es_table_get(rows, 1, "keys_asked"), 2.0, 0.0);
    assert_near(es_table_get(rows, 2, "keys"), es_table_get(rows, 0, "keys"), 1e-12);
    es_answer_free(a);
    /* parts alone say how many: the query and one on each side */
    a = ASK("tasks", tasks, "policy", "window", "window", "1");
    rows = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(rows), 2);
    assert_between(es_table_get(rows, 1, "keys"), 2.0, 3.0);
    es_answer_free(a);
}

/* The covariance of all tokens at each layer's input, and the horizon of a head from it. */
static void heads_have_their_horizons_and_one_by_one_their_costs(void **state)
{
    (void)state;
    es_answer *a = ASK("tasks", tasks, "policy", "top", "keep", "0.25", "ablate", NULL);
    const es_table *t = es_answer_find(a, "heads"), *ranks = es_answer_find(a, "ranks");
    double horizon[LAYERS * HEADS], cost[LAYERS * HEADS], d2 = 0.0;
    assert_int_equal(es_table_rows(t), LAYERS * HEADS);
    for (int l = 0; l < LAYERS; l++) {
        double cov[HIDDEN * HIDDEN] = {0}, mean[HIDDEN] = {0}, n = 0.0, logits[LABELS];
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < TEXTS; i++) {
                plain(i, logits);
                const double *x = hidden_of + l * lengths[i] * HIDDEN;
                for (int64_t k = 0; k < lengths[i]; k++, x += HIDDEN, n += pass == 0)
                    for (int r = 0; r < HIDDEN; r++) {
                        mean[r] += pass == 0 ? x[r] : 0.0;
                        for (int c = 0; pass == 1 && c < HIDDEN; c++)
                            cov[r * HIDDEN + c] += (x[r] - mean[r] / n) * (x[c] - mean[c] / n) / n;
                    }
            }
        const es_view S = es_view_f64(cov, HIDDEN, HIDDEN);
        for (int h = 0; h < HEADS; h++) {
            char name[96];
            es_horizons want;
            snprintf(name, sizeof name, "encoder.layer.%d.attention.self.query.weight", l);
            double *q = (double *)tiny_find(&model, "", name) + h * HIDDEN / HEADS * HIDDEN;
            snprintf(name, sizeof name, "encoder.layer.%d.attention.self.key.weight", l);
            double *k = (double *)tiny_find(&model, "", name) + h * HIDDEN / HEADS * HIDDEN;
            const es_view wq = es_view_f64(q, HIDDEN / HEADS, HIDDEN);
            const es_view wk = es_view_f64(k, HIDDEN / HEADS, HIDDEN);
            assert_ok(es_horizons_of(&S, 0.0, &(es_head){.Wq = &wq, .Wk = &wk}, NULL, &want, &err));
            assert_near(es_table_get(t, l * HEADS + h, "layer"), l, 0.0);
            assert_near(es_table_get(t, l * HEADS + h, "head"), h, 0.0);
            assert_close(es_table_get(t, l * HEADS + h, "horizon"), want.horizon.val, 1e-5);
            only_layer = l, only_head = h;
            check_row(t, l * HEADS + h);
            horizon[l * HEADS + h] = want.horizon.val;
            cost[l * HEADS + h] = es_table_get(t, l * HEADS + h, "kl");
        }
    }
    only_layer = only_head = -1;
    for (int i = 0; i < LAYERS * HEADS; i++) { /* 1 - 6 sum d^2 / (n (n^2 - 1)), n = 9, no ties */
        double d = 0.0;
        for (int j = 0; j < LAYERS * HEADS; j++)
            d += (horizon[j] < horizon[i]) - (cost[j] < cost[i]);
        d2 += d * d;
    }
    assert_near(es_table_get(ranks, 0, "spearman"), 1.0 - 6.0 * d2 / 720.0, 1e-12);
    es_answer_free(a);
}

/* Strata hold a third of the heads each, in the order of their horizons, and the excess is that of
 * the means. */
static void strata_are_thirds_of_the_heads(void **state)
{
    (void)state;
    es_answer *a =
        ASK("tasks", tasks, "policy", "top", "keep", "0.25", "strata", NULL, "ablate", NULL);
    const es_table *t = es_answer_find(a, "strata"), *heads = es_answer_find(a, "heads");
    assert_int_equal(es_table_rows(t), 3);
    int inside = 0;
    for (int64_t k = 0; k < 3; k++) {
        const double low = es_table_get(t, k, "horizon_low"),
                     high = es_table_get(t, k, "horizon_high");
        assert_near(es_table_get(t, k, "heads"), 3.0, 0.0);
        for (int64_t h = 0; h < LAYERS * HEADS; h++)
            inside += es_table_get(heads, h, "horizon") >= low &&
                      es_table_get(heads, h, "horizon") <= high;
        if (k != 0)
            assert_above(low, es_table_get(t, k - 1, "horizon_high"));
        if (k)
            assert_near(es_table_get(t, k, "excess"),
                        es_table_get(t, k, "kl") - es_table_get(t, 0, "kl"), 1e-15);
    }
    assert_int_equal(inside, LAYERS * HEADS);
    es_answer_free(a);
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* p (count) of tests that were carried out, corrected by hand: of the i-th smallest the largest of
 * (count - j) p_(j), j <= i. A column has them, in any order. */
static void check_holm(const es_table *t, const char *column, double *p, int64_t count)
{
    double *got = calloc((size_t)count, sizeof *got), most = 0.0;
    int64_t found = 0;
    qsort(p, (size_t)count, sizeof *p, rising);
    for (int64_t i = 0; i < es_table_rows(t); i++)
        if (!isnan(es_table_get(t, i, column)) &&
            strcmp(es_table_get_text(t, i, "policy"), "full") != 0) {
            assert_below(found, count);
            got[found++] = es_table_get(t, i, column);
        }
    assert_int_equal(found, count);
    qsort(got, (size_t)count, sizeof *got, rising);
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fmin(1.0, (double)(count - i) * p[i]));
        assert_near(got[i], most, 1e-12);
    }
    free(got);
}

/* Of several rows some have a small p by chance: those of a table hold for all of them together,
 * and sentences say the same. Each policy asked for alone has the p of its row, with nothing to
 * correct for but the middle stratum. */
static void p_values_are_for_all_rows_together(void **state)
{
    (void)state;
    static const char *const policies[] = {"random", "top", "window"};
    es_answer *a =
        ASK("tasks", tasks, "policy", "random,top,window", "keep", "0.25", "strata", NULL);
    const es_table *t = es_answer_find(a, "strata");
    double alone[9], excess[6];
    for (int i = 0; i < 3; i++) {
        es_answer *one = ASK("tasks", tasks, "policy", policies[i], "keep", "0.25", "strata", NULL);
        const es_table *u = es_answer_find(one, "strata");
        for (int k = 1; k < 3; k++) { /* Student's t from the row itself */
            const double se = es_table_get(u, k, "excess_se");
            excess[2 * i + k - 1] =
                2.0 * es_student_tail(TEXTS - 1.0, fabs(es_table_get(u, k, "excess")) / se);
        }
        assert_near(es_table_get(es_answer_find(one, "rows"), 0, "lost_p"), 1.0, 0.0);
        alone[i] = es_table_get(es_answer_find(one, "rows"), 1, "lost_p");
        es_answer_free(one);
    }
    check_holm(t, "excess_p", excess, 6);
    check_holm(es_answer_find(a, "rows"), "lost_p", alone, 3);
    char said[64];
    snprintf(said, sizeof said, "p = %.2g)", es_table_get(t, 2, "excess_p"));
    int64_t told = 0;
    while (es_answer_finding(a, told) && !strstr(es_answer_finding(a, told), "With random at"))
        told++;
    assert_non_null(es_answer_finding(a, told));
    assert_non_null(strstr(es_answer_finding(a, told), said));
    es_answer_free(a);
}

/* Mean of the last states; nearest other text by cosine. */
static void embeddings_and_neighbours_are_plain_loops(void **state)
{
    (void)state;
    es_answer *a = ASK("text", paragraphs, "least", "3", "policy", "top", "keep", "1,0.25");
    const es_table *t = es_answer_find(a, "rows");
    static double e[2][TEXTS][HIDDEN];
    double cosine = 0.0, kept = 0.0, of_queries = 0.0, logits[LABELS];
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < TEXTS; i++) {
            model.factor = s ? top_quarter : NULL;
            plain(i, logits);
            for (int64_t k = 0; k < lengths[i] * HIDDEN; k++)
                e[s][i][k % HIDDEN] +=
                    hidden_of[LAYERS * lengths[i] * HIDDEN + k] / (double)lengths[i];
        }
    model.factor = NULL;
    for (int i = 0; i < TEXTS; i++) {
        int near[3] = {-1, -1, -1}; /* full; all thinned; thinned among full */
        double most[3] = {-2.0, -2.0, -2.0};
        for (int j = 0; j < TEXTS; j++)
            for (int k = 0; k < 3 && j != i; k++) {
                const double c = es_cosine(e[k > 0][i], e[k == 1][j], HIDDEN);
                if (c > most[k])
                    most[k] = c, near[k] = j;
            }
        cosine += es_cosine(e[0][i], e[1][i], HIDDEN) / TEXTS;
        kept += near[1] == near[0];
        of_queries += near[2] == near[0];
    }
    assert_int_equal(es_table_rows(t), 3);
    const char *kept_said = strstr(es_answer_finding(a, 0), "same nearest neighbour: ");
    assert_non_null(kept_said);
    assert_non_null(strstr(kept_said, "\u00b1")); /* with its standard error */
    assert_near(es_table_get(t, 0, "cosine"), 1.0, 1e-12);
    assert_near(es_table_get(t, 1, "recall"), 1.0, 0.0);
    assert_near(es_table_get(t, 2, "cosine"), cosine, 1e-5);
    assert_near(es_table_get(t, 2, "recall"), kept / TEXTS, 1e-12);
    assert_near(es_table_get(t, 2, "recall_query"), of_queries / TEXTS, 1e-12);
    es_answer_free(a);
}

static void divergences_of_close_logits_keep_their_digits(void **state)
{
    (void)state;
    const double a[] = {0.3, -1.2, 2.0}, b[] = {0.1, -0.2, 1.0}, far[] = {-800.0, 900.0, 0.0};
    assert_close(es_logits_kl(a, b, 3), plain_kl(a, b), 1e-13);
    assert_near(es_logits_kl(a, a, 3), 0.0, 0.0);
    /* to second order the variance of the difference under p, over 2 */
    const double c[] = {0.3 + 1e-7, -1.2, 2.0};
    double z = exp(0.3) + exp(-1.2) + exp(2.0), p = exp(0.3) / z;
    assert_close(es_logits_kl(a, c, 3), 0.5e-14 * p * (1.0 - p), 1e-6);
    assert_finite(es_logits_kl(a, far, 3));
    assert_above(es_logits_kl(a, far, 3), 100.0);
    assert_int_equal(es_logits_best((const double[]){1.0, 3.0, 3.0}, 3), 1);
}

static void what_cannot_be_asked_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *given[9];
    } cases[] = {
        {"downstream.options", {"policy", "top"}},
        {"downstream.options", {"tasks", "@tasks.tsv", "text", "@paragraphs"}},
        {"downstream.options", {"text", "@paragraphs", "concat", "2"}},
        {"downstream.options", {"tasks", "@tasks.tsv", "least", "2"}},
        {"downstream.layer", {"tasks", "@tasks.tsv", "layer", "3"}},
        {"policy.name", {"tasks", "@tasks.tsv", "policy", "topp"}},
        {"policy.measured", {"tasks", "@tasks.tsv", "policy", "linformer"}},
        {"policy.part", {"tasks", "@tasks.tsv", "policy", "top", "window", "3"}},
        {"file.open", {"tasks", "@none"}},
        {"tasks.fields", {"tasks", "@paragraphs"}},
        {"tasks.tokens", {"tasks", "@tasks.tsv", "concat", "20"}},
        {"tasks.tokens", {"text", "@paragraphs", "least", "30"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *given[12] = {"model", folder};
        char paths[4][512];
        int n = 2;
        for (int k = 0; cases[i].given[k]; k++, n++) {
            const char *word = cases[i].given[k];
            snprintf(paths[k % 4], sizeof paths[0], "%s/%s", folder, word + 1);
            given[n] = *word == '@' ? paths[k % 4] : word;
        }
        es_answer *a;
        assert_int_not_equal(ask_opts(&(es_study_opts){.seed = 1}, given, &a), ES_OK);
        if (strcmp(err.rule, cases[i].rule) != 0)
            fail_msg("case %d: %s instead of %s: %s", (int)i, err.rule, cases[i].rule, err.message);
    }
}

static void a_model_without_a_classifier_is_refused(void **state)
{
    (void)state;
    tiny plain_model = tiny_default();
    es_answer *a;
    tiny_draw(&plain_model);
    tiny_write(&plain_model);
    assert_int_equal(ask_opts(&(es_study_opts){0}, GIVEN("tasks", tasks), &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "downstream.classifier");
    tiny_free(&plain_model);
    tiny_write(&model); /* as it was */
}

/* ---- the same answer ---- */

typedef struct text_of {
    char *bytes;
    size_t used;
} text_of;

static bool gather(void *user, const char *bytes, size_t count)
{
    text_of *t = user;
    t->bytes = realloc(t->bytes, t->used + count + 1);
    memcpy(t->bytes + t->used, bytes, count);
    t->used += count;
    t->bytes[t->used] = '\0';
    return true;
}

/* All rows of all tables; not who computed them. */
static char *tables_of(const es_answer *a)
{
    static const char *const tables[] = {"rows", "strata", "text_strata", "ranks", "heads"};
    text_of t = {0};
    for (int i = 0; i < 5; i++)
        assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = tables[i]}, gather,
                                  &t, &err));
    return t.bytes;
}

static bool stop_at_half(void *user, const es_progress *now)
{
    (void)user;
    return now->share > 0.5;
}

static void threads_and_stops_change_no_bit(void **state)
{
    (void)state;
    const char *const *given =
        GIVEN("tasks", tasks, "policy", "random,bigbird", "keep", "0.5,0.25", "strata", NULL,
              "ablate", NULL, "text-strata", NULL, "replicates", "2");
    char run[512];
    es_answer *a;
    es_study_opts opts = {.seed = 9, .exec = {.threads = 1}};
    assert_ok(ask_opts(&opts, given, &a));
    char *one = tables_of(a), *other;
    es_answer_free(a);
    opts.exec.threads = 3;
    assert_ok(ask_opts(&opts, given, &a));
    assert_string_equal(other = tables_of(a), one);
    free(other);
    es_answer_free(a);
    snprintf(run, sizeof run, "%s", in_folder("stop.run"));
    opts.out = run;
    opts.progress = stop_at_half;
    assert_int_equal(ask_opts(&opts, given, &a), ES_E_INTERRUPTED);
    opts.progress = NULL;
    opts.resume = true;
    assert_ok(ask_opts(&opts, given, &a));
    assert_string_equal(other = tables_of(a), one);
    free(other);
    es_answer_free(a);
    opts = (es_study_opts){.seed = 10, .exec = {.threads = 1}};
    assert_ok(ask_opts(&opts, given, &a));
    assert_string_not_equal(other = tables_of(a), one); /* chance has its say */
    free(other);
    free(one);
    es_answer_free(a);
}

static double told;

static void note_cost(void *user, const es_cost *cost)
{
    (void)user;
    told = cost->input_bytes + cost->output_bytes + cost->work_bytes;
}

/* What is said before the run is enough for it. */
static void memory_stays_within_what_is_told(void **state)
{
    (void)state;
    const char *const *const given[] = {
        GIVEN("tasks", tasks, "policy", "random,observe,limit", "strata", NULL, "ablate", NULL),
        GIVEN("tasks", tasks, "policy", "top", "concat", "2"),
        GIVEN("tasks", tasks, "policy", "random", "text-strata", NULL, "strata-layer", "2",
              "replicates", "3"),
        GIVEN("text", paragraphs, "least", "3", "policy", "heavy"),
        GIVEN("tasks", tasks, "policy", "random", "random", "100000", "with-replacement", NULL,
              "layer", "0", "most", "2")}; /* draws: 16 bytes each, on each thread */
    for (int i = 0; i < 5; i++) {
        es_mem_limit budget = {0};
        es_answer *a;
        es_study_opts opts = {
            .seed = 1, .exec = {.threads = 2, .budget = &budget}, .admitted = note_cost};
        assert_ok(ask_opts(&opts, given[i], &a));
        es_answer_free(a);
        budget = (es_mem_limit){0};
        opts.max_memory = (size_t)told + 1;
        assert_ok(ask_opts(&opts, given[i], &a));
        es_answer_free(a);
        assert_int_equal(budget.used, 0);
    }
}

/* A setting more takes its cells, and the answer a number for each text: its cost. */
static void the_answer_is_told_of_too(void **state)
{
    (void)state;
    enum { MANY = 4000, MORE = 2 * LAYERS * HEADS };
    double bound[2];
    FILE *f = fopen(in_folder("many.tsv"), "w");
    for (int i = 0; i < MANY; i++)
        fprintf(f, "word%d\t%d\n", TINY_FIRST_WORD, i % 2);
    assert_int_equal(fclose(f), 0);
    for (int ablate = 0; ablate < 2; ablate++) {
        const es_study_opts opts = {.seed = 1, .dry_run = true};
        es_answer *a;
        assert_ok(ask_opts(&opts,
                           GIVEN("tasks", in_folder("many.tsv"), "policy", "top,window", "keep",
                                 "0.5", ablate ? "ablate" : NULL, NULL),
                           &a));
        bound[ablate] = es_table_get(es_answer_find(a, "cost"), 0, "memory_bytes");
        es_answer_free(a);
    }
    assert_at_least(bound[1] - bound[0], MANY * MORE * (LABELS + 1 + 1) * 8.0);
}

/* ---- a real classifier ---- */

/* 0.8888 is what the checkpoint reached where it was trained, over all 872 sentences. */
static void sst2_accuracy_with_all_keys(void **state)
{
    (void)state;
    char folder_of[REAL_PATH], sentences[REAL_PATH];
    es_answer *a;
    not_in_quick_tests();
    real_model("minilm-l6-sst2-f16", folder_of);
    real_path("tasks/sst2-test.tsv", NULL, sentences);
    const char *const given[] = {"model",  folder_of, "tasks", sentences,
                                 "policy", "full",    NULL,    NULL};
    assert_ok(ask_opts(&(es_study_opts){.seed = 1}, given, &a));
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), 1);
    assert_near(es_table_get(t, 0, "texts"), 872.0, 0.0);
    assert_near(es_table_get(t, 0, "accuracy"), 0.8888, 0.0005);
    es_answer_free(a);
}

TEST_FILE(downstream)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys_are_the_model),
        cmocka_unit_test(the_largest_quarter_is_the_plain_loop),
        cmocka_unit_test(keys_are_shares_of_each_text_or_numbers),
        cmocka_unit_test(heads_have_their_horizons_and_one_by_one_their_costs),
        cmocka_unit_test(strata_are_thirds_of_the_heads),
        cmocka_unit_test(p_values_are_for_all_rows_together),
        cmocka_unit_test(embeddings_and_neighbours_are_plain_loops),
        cmocka_unit_test(divergences_of_close_logits_keep_their_digits),
        cmocka_unit_test(what_cannot_be_asked_is_refused_by_name),
        cmocka_unit_test(a_model_without_a_classifier_is_refused),
        cmocka_unit_test(threads_and_stops_change_no_bit),
        cmocka_unit_test(memory_stays_within_what_is_told),
        cmocka_unit_test(the_answer_is_told_of_too),
        optional_test(sst2_accuracy_with_all_keys),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
