/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse.c : the study `sparse` against values of another program; where its heads come from;
 * what it refuses. Its cells are looked at in test_sparse_cells.c. */
#include "golden.h"
#include "experiments/sparse/sparse.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "tiny_pool.h"

#include <esscher/npy.h>
#include <esscher/study.h>

/* ---- asking ---- */

/* Options as NAME=VALUE; NAME alone is a flag. */
static es_params *params_of(const char *const *options)
{
    const es_study *study = es_study_find("sparse");
    es_params *p;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; *options; options++) {
        char name[64];
        const char *equals = strchr(*options, '=');
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*options, "="), *options);
        assert_ok(es_params_set(p, name, equals ? equals + 1 : NULL, &err));
    }
    return p;
}

static es_status ask(const char *const *options, const es_study_opts *opts, es_answer **out)
{
    es_params *p = params_of(options);
    const es_status status = es_study_run(es_study_find("sparse"), p, opts, out, &err);
    es_params_free(p);
    return status;
}

enum { MOST = 24 };

/* q, k, v and positions as options. */
static char text[4][4200];

static void name_golden(void)
{
    snprintf(text[0], sizeof text[0], "q=%s", golden_path("sparse/q.npy"));
    snprintf(text[1], sizeof text[1], "k=%s", golden_path("sparse/k.npy"));
    snprintf(text[2], sizeof text[2], "v=%s", golden_path("sparse/v.npy"));
    snprintf(text[3], sizeof text[3], "positions=%s", in_folder("p.npy"));
}

/* The golden arrays with what else is asked, per query. */
static es_answer *ask_golden(const char *scale, bool causal, const char *const *more)
{
    const char *options[MOST] = {text[0], text[1], text[2], text[3], scale, "per-query"};
    int count = 6;
    es_answer *a;
    name_golden();
    if (causal)
        options[count++] = "causal";
    for (; *more; more++)
        options[count++] = *more;
    assert_below(count, MOST);
    assert_ok(ask(options, &(es_study_opts){.seed = 11}, &a));
    return a;
}

/* Positions as the golden file has them. */
static void write_positions(const json_t *all)
{
    const json_t *list = json_object_get(all, "positions");
    double p[64];
    const int64_t count = (int64_t)json_array_size(list);
    for (int64_t i = 0; i < count; i++)
        p[i] = json_number_value(json_array_get(list, (size_t)i));
    assert_ok(es_npy_save(in_folder("p.npy"), ES_F64, 1, &count, p, true, &err));
}

/* ---- golden values ---- */

/* Every query of every row against expected[mode][query][format % keys]. */
static void compare_deterministic(const json_t *all, const char *mode, const char *format,
                                  const char *const *policy)
{
    es_answer *a = ask_golden("scale=0.35", strcmp(mode, "causal") == 0, policy);
    const es_table *q = es_answer_find(a, "per_query"), *rows = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(q), 60);
    assert_int_equal(es_table_rows(rows), 3);
    for (int64_t i = 0; i < 60; i++) {
        char key[64];
        const int keys = (int)es_table_get(q, i, "keys");
        snprintf(key, sizeof key, format, keys);
        const json_t *row =
            json_array_get(json_object_get(all, mode), (size_t)es_table_get(q, i, "query"));
        /* two programs, f64 throughout */
        assert_close(es_table_get(q, i, "mse_exact"), golden_real(row, key), 1e-6);
        assert_close(es_table_get(q, i, "mse"), golden_real(row, key), 1e-6);
        assert_close(es_table_get(q, i, "spread2"), golden_real(row, "spread2"), 1e-6);
    }
    for (int64_t i = 0; i < 3; i++) {
        assert_equals(es_table_get(rows, i, "mse_se"), 0.0);
        assert_close(es_table_get(rows, i, "relative_error"),
                     sqrt(es_table_get(rows, i, "mse") / es_table_get(rows, i, "spread2")), 1e-12);
    }
    es_answer_free(a);
}

static void golden_deterministic_policies(void **state)
{
    (void)state;
    json_t *all = golden_file("sparse/expected.json");
    write_positions(all);
    static const char *const modes[] = {"full", "causal"};
    for (int i = 0; i < 2; i++) {
        compare_deterministic(all, modes[i], "top_%d",
                              (const char *const[]){"policy=top", "keys=8,32,96", NULL});
        compare_deterministic(
            all, modes[i], "window_%d",
            (const char *const[]){"policy=stream", "sinks=4", "keys=8,32,96", NULL});
    }
    json_decref(all);
}

/* Two simulations, each with its standard error. 480 comparisons of numbers near normal: the
 * largest is below 4 but once in 33 seeds, so 4.5, once in 300. */
static void golden_bigbird_simulated(void **state)
{
    (void)state;
    json_t *all = golden_file("sparse/expected.json");
    write_positions(all);
    for (int at = 0; at < 12; at++) {
        const bool causal = at >= 6, corrected = at % 2;
        const int m = (int[]){8, 32, 96}[at / 2 % 3], window = causal ? m - 4 : (m - 4) / 2;
        char w[32], r[32], key[64];
        snprintf(w, sizeof w, "window=%d", window);
        snprintf(r, sizeof r, "random=%d", m);
        snprintf(key, sizeof key, "bigbird_%d%s_simulated", m, corrected ? "_corrected" : "");
        const char *const more[] = {"policy=bigbird",
                                    "sinks=4",
                                    w,
                                    r,
                                    corrected ? "correction=inverse" : "correction=none",
                                    "simulations=200",
                                    NULL};
        es_answer *a = ask_golden("scale=0.35", causal, more);
        const es_table *q = es_answer_find(a, "per_query"), *rows = es_answer_find(a, "rows");
        assert_int_equal(es_table_rows(q), 20);
        assert_string_equal(es_table_get_text(rows, 0, "correction"),
                            corrected ? "inverse" : "none");
        /* the row's own: mean of 20 simulations against the mean of 20 integrals */
        assert_below(fabs(es_table_get(rows, 0, "z")), 4.5);
        for (int64_t i = 0; i < 20; i++) {
            const json_t *row = json_array_get(json_object_get(all, causal ? "causal" : "full"),
                                               (size_t)es_table_get(q, i, "query"));
            const json_t *theirs = json_object_get(row, key);
            const double mean = json_number_value(json_array_get(theirs, 0));
            const double se = json_number_value(json_array_get(theirs, 1));
            assert_near(es_table_get(q, i, "mse"), mean,
                        4.5 * hypot(se, es_table_get(q, i, "mse_se")));
            /* and what was computed against their draws alone */
            assert_near(es_table_get(q, i, "mse_exact"), mean, 4.5 * se);
        }
        es_answer_free(a);
    }
    json_decref(all);
}

static int compared; /* values of the file */

/* Do two entries ask for the same of different queries? */
static bool asks_the_same(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"scale", "sinks", "window", "random", "correction"};
    for (int i = 0; i < 5; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

/* One "exact" entry of the file, asked for in both forms that it has, with all like it in `list`.
 */
static void compare_exact(const json_t *list, const json_t *e)
{
    char scale[48], w[32], g[32], r[32];
    const bool placed = json_is_number(json_object_get(e, "position"));
    const bool corrected = golden_real(e, "correction") != 1.0;
    const char *correction = corrected ? "correction=inverse" : "correction=none";
    snprintf(scale, sizeof scale, "scale=%.17g", golden_real(e, "scale"));
    snprintf(r, sizeof r, "random=%d", (int)golden_real(e, "random"));
    snprintf(w, sizeof w, "window=%d", placed ? (int)golden_real(e, "window") : 0);
    snprintf(g, sizeof g, "sinks=%d", placed ? (int)golden_real(e, "sinks") : 0);
    const char *const draws[] = {placed ? "policy=bigbird" : "policy=random+with",
                                 r,
                                 "simulations=2",
                                 placed ? "with-replacement" : NULL,
                                 w,
                                 g,
                                 correction,
                                 NULL};
    const char *const each[] = {"policy=retention", w, g, r, "simulations=2", correction, NULL};
    const struct {
        const char *const *more;
        const char *key;
    } forms[] = {{draws, "with_replacement"}, {each, "bernoulli"}};
    for (int k = 0; k < (placed ? 2 : 1); k++) {
        es_answer *a = ask_golden(scale, false, forms[k].more);
        const es_table *q = es_answer_find(a, "per_query");
        for (size_t n = 0; n < json_array_size(list); n++) {
            const json_t *one = json_array_get(list, n);
            const int64_t row = (int64_t)golden_real(one, "query"); /* all 20 were asked about */
            if (!asks_the_same(one, e))
                continue;
            assert_int_equal((int64_t)es_table_get(q, row, "query"), row);
            assert_close(es_table_get(q, row, "mse_exact"), golden_real(one, forms[k].key), 1e-6);
            compared++;
        }
        es_answer_free(a);
    }
}

static void golden_exact_integrals(void **state)
{
    (void)state;
    json_t *all = golden_file("sparse/expected.json");
    const json_t *list = json_object_get(all, "exact");
    write_positions(all);
    assert_int_equal(json_array_size(list), 72);
    for (size_t i = 0; i < 72; i++) {
        size_t first = 0;
        while (!asks_the_same(json_array_get(list, first), json_array_get(list, i)))
            first++;
        if (first == i)
            compare_exact(list, json_array_get(list, i));
    }
    assert_int_equal(compared, 72 + 48); /* two forms, where something is sure */
    json_decref(all);
}

/* ---- a model ---- */

/* A head of a model is its hidden states and its matrices, at real positions: the same numbers as a
 * head that this test makes from the model's own forward pass. */
static void heads_of_a_model_are_its_matrices(void **state)
{
    (void)state;
    enum { LENGTH = 40, HEAD = 1, LAYER = 2 };
    static int32_t ids[400];
    char model_option[600], text_option[600];
    es_answer *a;
    snprintf(text_option, sizeof text_option, "text=%s", write_words("words.txt", 4, 200, ids));
    snprintf(model_option, sizeof model_option, "model=%s", folder);
    const char *const options[] = {
        model_option,    text_option, "layer=2", "head=1",    "contexts=3", "query-count=40",
        "policy=stream", "sinks=2",   "keys=9",  "per-query", NULL};
    assert_ok(ask(options, &(es_study_opts){.seed = 2}, &a));
    const es_table *q = es_answer_find(a, "per_query");
    assert_int_equal(es_table_rows(q), 3 * LENGTH);
    /* blocks of [CLS], 38 words, [SEP] */
    int32_t block[LENGTH];
    double hidden[4 * LENGTH * 12], stats[3 * 3 * 4], pooled[12];
    const es_tokenizer_info info = es_tokenizer_describe(tokenizer);
    assert_int_equal(info.prefix_count + info.suffix_count, 2);
    block[0] = info.prefix[0];
    block[LENGTH - 1] = info.suffix[0];
    /* three evenly of the five whole ones are 0, 2 and 4: the second of them */
    memcpy(block + 1, ids + 2 * (LENGTH - 2), (LENGTH - 2) * sizeof *ids);
    tiny_forward(&tiny_of_pool, block, LENGTH, hidden, stats, pooled, NULL);
    es_model_head h;
    assert_ok(es_model_head_of(model, LAYER, HEAD, &h, &err));
    double p[3][LENGTH * 4];
    const es_view *const w[] = {&h.wq, &h.wk, &h.wv}, *const b[] = {&h.bq, &h.bk, &h.bv};
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < LENGTH; i++)
            for (int j = 0; j < 4; j++) {
                double sum = es_view_get(b[s], 0, j);
                for (int c = 0; c < 12; c++)
                    sum += hidden[(LAYER * LENGTH + i) * 12 + c] * es_view_get(w[s], j, c);
                p[s][i * 4 + j] = sum;
            }
    const es_sparse_head head = {.queries = es_view_f64(p[0], LENGTH, 4),
                                 .keys = es_view_f64(p[1], LENGTH, 4),
                                 .values = es_view_f64(p[2], LENGTH, 4),
                                 .scale = 0.5};
    es_policy_spec plan;
    es_policy_spec_init(&plan, es_policy_find("stream"));
    plan.keys = 9;
    plan.sinks = 2;
    const es_sparse_spec spec = {&plan, .n_plans = 1, .draws = 2};
    for (int64_t i = 0; i < LENGTH; i++) {
        es_sparse_cell cell;
        const int64_t row = LENGTH + i;
        assert_ok(es_sparse_measure(&spec, &head, &i, 1, 0, &cell, &err));
        assert_int_equal((int64_t)es_table_get(q, row, "query"), i);
        assert_int_equal((int64_t)es_table_get(q, row, "context"), 1);
        /* hidden states in f32: 1e-7 of numbers near 1, through a difference of outputs */
        assert_near(es_table_get(q, row, "mse_exact"), cell.exact, 1e-4 * cell.exact + 1e-12);
    }
    es_answer_free(a);
}

/* ---- the study ---- */

static bool append(void *user, const char *bytes, size_t count)
{
    return fwrite(bytes, 1, count, user) == count;
}

static void same_bytes_for_any_number_of_threads(void **state)
{
    (void)state;
    const char *const options[] = {
        text[0],      text[1],         text[2], "policy=random,bigbird+inverse,heavy",
        "keys=16,64", "simulations=8", NULL};
    name_golden();
    char *bytes[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        es_answer *a;
        FILE *file = open_memstream(&bytes[i], &size[i]);
        assert_ok(ask(options, &(es_study_opts){.seed = 2, .exec = {.threads = 1 + 2 * i}}, &a));
        assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = "rows"}, append,
                                  file, &err));
        es_answer_free(a);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* A head whose values are all the same has no spread: nothing is said of it, and what is said of
 * the others are numbers. */
static void heads_without_spread_are_left_out(void **state)
{
    (void)state;
    enum { HEADS = 2, ROWS = 24, COLS = 4 };
    const int64_t shape[3] = {HEADS, ROWS, COLS};
    double x[HEADS * ROWS * COLS], v[HEADS * ROWS * COLS];
    char q[4200], k[4200], values[4200];
    for (int i = 0; i < HEADS * ROWS * COLS; i++) {
        x[i] = sin(1.0 + 3.0 * i);
        v[i] = i < ROWS * COLS ? 0.5 : cos(7.0 * i);
    }
    assert_ok(es_npy_save(in_folder("x.npy"), ES_F64, 3, shape, x, true, &err));
    assert_ok(es_npy_save(in_folder("v.npy"), ES_F64, 3, shape, v, true, &err));
    snprintf(q, sizeof q, "q=%s", in_folder("x.npy"));
    snprintf(k, sizeof k, "k=%s", in_folder("x.npy"));
    snprintf(values, sizeof values, "v=%s", in_folder("v.npy"));
    const char *const asked[][6] = {{q, k, values, "policy=random,top", "simulations=2"},
                                    {q, k, values, "policy=stream", "window=2"}};
    for (int i = 0; i < 2; i++) {
        es_answer *a;
        int64_t count = 0;
        assert_ok(ask(asked[i], &(es_study_opts){.seed = 1}, &a));
        for (const char *said; (said = es_answer_finding(a, count)); count++)
            assert_null(strstr(said, "nan"));
        assert_at_least(count, 2);
        const es_table *heads = es_answer_find(a, "heads");
        for (int64_t row = 0; heads && row < es_table_rows(heads); row++)
            assert_equals(es_table_get(heads, row, "head"), 1.0);
        assert_equals(!heads, (i == 1));
        es_answer_free(a);
    }
}

/* Draws have their address by query, not by what else is asked: the same errors in any company. */
static void other_policies_change_nothing(void **state)
{
    (void)state;
    json_t *all = golden_file("sparse/expected.json");
    write_positions(all);
    json_decref(all);
    es_answer *one =
        ask_golden("scale=0.35", false, (const char *const[]){"policy=random", "keys=32", NULL});
    es_answer *many = ask_golden(
        "scale=0.35", false, (const char *const[]){"policy=observe,top,random", "keys=8,32", NULL});
    const es_table *a = es_answer_find(one, "rows"), *b = es_answer_find(many, "rows");
    bool found = false;
    for (int64_t i = 0; i < es_table_rows(b); i++)
        if (strcmp(es_table_get_text(b, i, "policy"), "random") == 0 &&
            es_table_get(b, i, "keys") == 32.0) {
            assert_equals(es_table_get(b, i, "mse"), es_table_get(a, 0, "mse"));
            found = true;
        }
    assert_true(found);
    es_answer_free(one);
    es_answer_free(many);
}

/* Counts rows of the table of heads at so many keys that have a word in a column. */
static int64_t heads_with(const es_table *t, double keys, const char *column, const char *word)
{
    int64_t count = 0;
    for (int64_t i = 0; i < es_table_rows(t); i++)
        count += es_table_get(t, i, "keys") == keys &&
                 strcmp(es_table_get_text(t, i, column), word) == 0;
    return count;
}

/* What is said of policies is what the table of heads has, at the number of keys that is said:
 * 3 keys are an eighth of 24. Every query of an encoder sees all keys. */
static void policies_are_told_as_their_table_has_them(void **state)
{
    (void)state;
    static const char *const policies[] = {"top", "random", "bigbird"};
    static const char *const columns[] = {"best", "best_deployable"};
    static int32_t ids[400];
    char model_option[600], words[600], want[128];
    snprintf(model_option, sizeof model_option, "model=%s", folder);
    snprintf(words, sizeof words, "text=%s", write_words("words.txt", 4, 200, ids));
    const char *const options[] = {model_option,
                                   words,
                                   "context=24",
                                   "contexts=2",
                                   "query-count=4",
                                   "keys=3,12",
                                   "policy=top,random,bigbird",
                                   NULL};
    es_answer *a;
    assert_ok(ask(options, &(es_study_opts){.seed = 3}, &a));
    const es_table *t = es_answer_find(a, "heads");
    const char *said = es_answer_finding(a, 1);
    assert_memory_equal(es_answer_finding(a, 0), "With 3 of 24 keys (12.5 %), ", 28);
    assert_non_null(strstr(es_answer_finding(a, 0), "Ideal: keys are chosen anew for every query"));
    for (int c = 0; c < 2; c++) {
        const char *part = strstr(
            said, c ? "Of policies that do not need the scores of this query: " : "Best policy: ");
        assert_non_null(part);
        for (int i = 0; i < 3; i++) {
            const int64_t heads = heads_with(t, 3.0, columns[c], policies[i]);
            snprintf(want, sizeof want, "%s in %lld", policies[i], (long long)heads);
            assert_true((strstr(part, want) != NULL) == (heads > 0));
        }
    }
    assert_null(es_answer_finding(a, 4)); /* three, and a caution about so short a text */
    es_answer_free(a);
}

/* Early queries of a decoder see fewer keys than a policy keeps: its queries are those of the
 * second half of each context, and what is said of how many keys they see is what they see. */
static void queries_of_decoders_are_late(void **state)
{
    (void)state;
    enum { CONTEXT = 64, CONTEXTS = 2, QUERIES = 8 };
    const char *const asked[] = {"policy=stream,top", "policy=stream"};
    for (int rolls = 0; rolls < 2; rolls++) {
        const char *const options[] = {"model=" ES_TESTS_DIR "/../models/pebble",
                                       "text=" ES_TESTS_DIR "/golden/pebble/alice-line.txt",
                                       "repeat",
                                       "context=64",
                                       "contexts=2",
                                       "query-count=8",
                                       "layer=1",
                                       "head=0,1",
                                       "keys=16",
                                       "per-query",
                                       asked[rolls],
                                       NULL};
        es_answer *a;
        char want[128];
        double least = CONTEXT, most = 0.0, mean = 0.0;
        assert_ok(ask(options, &(es_study_opts){.seed = 3}, &a));
        const es_table *q = es_answer_find(a, "per_query"), *rows = es_answer_find(a, "rows");
        const int64_t count = CONTEXTS * QUERIES; /* the first row's */
        for (int64_t i = 0; i < count; i++) {
            const double seen = es_table_get(q, i, "query") + 1.0;
            least = fmin(least, seen);
            most = fmax(most, seen);
            mean += seen / (double)count;
        }
        assert_above(least, CONTEXT / 2);
        snprintf(want, sizeof want,
                 "With 16 of the %.0f to %.0f keys that a query sees (%.3g %%), ", least, most,
                 100.0 * 16.0 / mean);
        assert_memory_equal(es_answer_finding(a, 0), want, strlen(want));
        /* a sliding window is what a cache can hold; the largest weights are not */
        assert_true((strstr(es_answer_finding(a, 0), "Ideal: keys are chosen anew") != NULL) ==
                    !rolls);
        for (int64_t i = 0; i < es_table_rows(rows); i++) {
            assert_close(es_table_get(rows, i, "seen"), mean, 1e-12);
            assert_close(es_table_get(rows, i, "share"), 16.0 / mean, 1e-12);
        }
        es_answer_free(a);
    }
}

/* Without positions there is no window: stream is then its 4 sinks, and the answer says so. */
/* One head is not "1 of 1 heads"; and draws with replacement, of which there may be more than keys,
 * are in the memory that is foreseen. */
static void one_head_and_many_draws(void **state)
{
    (void)state;
    const char *const few[] = {text[0],
                               text[1],
                               text[2],
                               text[3],
                               "query-count=2",
                               "simulations=2",
                               "policy=random,top",
                               "keys=16,64",
                               NULL};
    const char *const options[] = {text[0],
                                   text[1],
                                   text[2],
                                   text[3],
                                   "query-count=2",
                                   "simulations=2",
                                   "policy=random",
                                   "random=600000",
                                   "with-replacement",
                                   NULL};
    es_mem_limit budget = {0};
    es_study_opts opts = {.dry_run = true, .exec = {.threads = 1, .budget = &budget}};
    es_answer *a;
    assert_ok(ask(few, &(es_study_opts){.seed = 1}, &a));
    for (int64_t i = 0; es_answer_finding(a, i); i++) {
        assert_null(strstr(es_answer_finding(a, i), "1 of 1"));
        assert_null(strstr(es_answer_finding(a, i), "of 1 heads"));
    }
    assert_non_null(strstr(es_answer_finding(a, 0), "the head's output is off by "));
    es_answer_free(a);
    assert_ok(ask(options, &opts, &a));
    const double bound = es_table_get(es_answer_find(a, "cost"), 0, "memory_bytes");
    es_answer_free(a);
    budget = (es_mem_limit){0};
    opts = (es_study_opts){.max_memory = (size_t)bound, .exec = {.threads = 1, .budget = &budget}};
    assert_ok(ask(options, &opts, &a));
    es_answer_free(a);
}

static void queries_without_a_place_are_a_caution(void **state)
{
    (void)state;
    name_golden();
    const char *const options[] = {text[0],      text[1], text[2], "policy=stream,top",
                                   "keys=16,64", NULL,    NULL};
    const char *placed[7];
    memcpy(placed, options, sizeof placed);
    placed[5] = text[3];
    for (int with = 0; with < 2; with++) {
        es_answer *a;
        int64_t cautions = 0;
        assert_ok(ask(with ? placed : options, &(es_study_opts){.seed = 3}, &a));
        for (int64_t i = 0; es_answer_finding(a, i); i++)
            cautions += strstr(es_answer_finding(a, i), "stream keeps 4 of 64 keys") != NULL;
        assert_int_equal(cautions, with ? 0 : 1);
        es_answer_free(a);
    }
}

/* The sizes of the papers' window experiment: 12 half-widths, geometric from 500 to 1500, and 50
 * random tokens; i.i.d. tokens 1000 to 3000 likewise. Rounded down, as the public code does. */
static void the_papers_protocol_has_its_sizes(void **state)
{
    (void)state;
    const char *const options[] = {"preset=paper", "contexts=1", "query-count=4", "replicates=2",
                                   NULL};
    es_answer *a;
    assert_ok(ask(options, &(es_study_opts){.seed = 3}, &a));
    const es_table *t = es_answer_find(a, "paper_rows");
    assert_int_equal(es_table_rows(t), 24);
    for (int64_t i = 0; i < 24; i++) {
        const bool window = i < 12;
        const double step = pow(3.0, (double)(i % 12) / 11.0), keys = es_table_get(t, i, "keys");
        const double size = window ? es_table_get(t, i, "half_width") : keys;
        assert_string_equal(es_table_get_text(t, i, "scheme"), window ? "window+random" : "iid");
        assert_equals(size, floor((window ? 500.0 : 1000.0) * step + 1e-9));
        if (window)
            assert_equals(keys, 2.0 * size + 1.0 + 50.0);
        assert_above(es_table_get(t, i, "mse"), 0.0);
        assert_above(es_table_get(t, i, "mean_error"), 0.0);
    }
    es_answer_free(a);
}

static void PL02_mistakes_are_refused_by_name(void **state)
{
    (void)state;
    name_golden();
    char far[600], v_for_k[4200];
    snprintf(v_for_k, sizeof v_for_k, "k=%s", golden_path("sparse/v.npy"));
    const double beyond[20] = {[3] = 400.0};
    assert_ok(
        es_npy_save(in_folder("far.npy"), ES_F64, 1, (const int64_t[]){20}, beyond, true, &err));
    snprintf(far, sizeof far, "positions=%s", in_folder("far.npy"));
    const struct {
        const char *more[5];
        es_status status;
        const char *rule, *says;
    } cases[] = {
        {{"policy=tpo"}, ES_E_ARGUMENT, "policy.name", "top"},
        {{"policy=top", "keys=401"}, ES_E_ARGUMENT, "sparse.keys", "401"},
        {{"policy=top+inverse"}, ES_E_ARGUMENT, "policy.part", "top"},
        {{"policy=top+often"}, ES_E_ARGUMENT, "policy.name", "often"},
        {{"policy=top,top"}, ES_E_ARGUMENT, "policy.repeated", "twice"},
        {{"policy=top", "window=4"}, ES_E_ARGUMENT, "policy.part", "window"},
        {{"policy=top", "causal"}, ES_E_ARGUMENT, "sparse.positions", "causal"},
        {{far}, ES_E_FORMAT, "sparse.positions", "400"},
        {{far, "policy=linformer", "keys=4", "causal"}, ES_E_FORMAT, "sparse.positions", "query 3"},
        {{"policy=window", "keys=9"}, ES_E_EMPTY, "sparse.empty", "give --positions"},
        {{"model=x"}, ES_E_ARGUMENT, "sparse.options", "model"},
        {{"head=1"}, ES_E_ARGUMENT, "sparse.heads", "--head 1"},
        {{"preset=paper", "policy=top"}, ES_E_ARGUMENT, "sparse.options", "policy"},
        {{"preset=paper"}, ES_E_ARGUMENT, "sparse.options", "as many queries as keys"},
        {{"preset=paper", text[3]}, ES_E_ARGUMENT, "sparse.options", "positions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *options[MOST] = {text[0], text[1], text[2]};
        es_answer *a = NULL;
        for (int k = 0; cases[i].more[k]; k++)
            options[3 + k] = cases[i].more[k];
        const es_status status = ask(options, &(es_study_opts){0}, &a);
        if (status != cases[i].status || strcmp(err.rule, cases[i].rule) != 0 ||
            (!strstr(err.message, cases[i].says) && !strstr(err.hint, cases[i].says)))
            fail_msg("case %zu: %s %s: %s (%s)", i, es_status_name(status), err.rule, err.message,
                     err.hint);
    }
    /* keys that do not fit the queries; nothing at all; no model's text */
    es_answer *a = NULL;
    assert_int_equal(
        ask((const char *const[]){text[0], v_for_k, text[2], NULL}, &(es_study_opts){0}, &a),
        ES_E_SHAPE);
    assert_string_equal(err.rule, "sparse.shape");
    assert_int_equal(ask((const char *const[]){text[0], NULL}, &(es_study_opts){0}, &a),
                     ES_E_ARGUMENT);
    assert_int_equal(ask((const char *const[]){NULL}, &(es_study_opts){0}, &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "sparse.options");
}

/* A policy that uses keys after the query has no causal form (PL04). */
static void PL04_causal_models_see_no_future(void **state)
{
    (void)state;
    json_t *all = golden_file("sparse/expected.json");
    write_positions(all);
    json_decref(all);
    es_answer *a = NULL;
    name_golden();
    const char *const options[] = {
        text[0], text[1], text[2], text[3], "causal", "policy=linformer", "keys=8", NULL};
    assert_int_equal(ask(options, &(es_study_opts){0}, &a), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "policy.causal");
}

TEST_FILE(sparse)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_deterministic_policies),
        cmocka_unit_test(golden_bigbird_simulated),
        cmocka_unit_test(golden_exact_integrals),
        cmocka_unit_test(heads_of_a_model_are_its_matrices),
        cmocka_unit_test(same_bytes_for_any_number_of_threads),
        cmocka_unit_test(heads_without_spread_are_left_out),
        cmocka_unit_test(other_policies_change_nothing),
        cmocka_unit_test(policies_are_told_as_their_table_has_them),
        cmocka_unit_test(queries_of_decoders_are_late),
        cmocka_unit_test(one_head_and_many_draws),
        cmocka_unit_test(queries_without_a_place_are_a_caution),
        cmocka_unit_test(the_papers_protocol_has_its_sizes),
        cmocka_unit_test(PL02_mistakes_are_refused_by_name),
        cmocka_unit_test(PL04_causal_models_see_no_future),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
