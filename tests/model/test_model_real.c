/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_real.c : MiniLM and a classifier made from it, where they are present, against hidden
 * states and entropies that another program computed, and against labels of sentences. */
#include "golden.h"
#include "model/model.h"
#include "real.h"

#include <esscher/model.h>
#include <esscher/tokenizer.h>

static es_model *open_real(const char *name)
{
    char path[REAL_PATH];
    es_model *m;
    real_model(name, path);
    assert_ok(es_model_open(path, NULL, &m, &err));
    return m;
}

static float *read_floats(const char *path, int64_t count)
{
    FILE *file = fopen(path, "rb");
    float *out = malloc((size_t)count * sizeof *out);
    assert_true(file && out);
    assert_int_equal(fread(out, sizeof *out, (size_t)count, file), count);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    return out;
}

static void compare_stats(const json_t *want, const char *key, const double *got, int64_t layers,
                          int64_t heads)
{
    const json_t *rows = json_object_get(want, key);
    assert_int_equal(json_array_size(rows), layers);
    for (int64_t l = 0; l < layers; l++)
        for (int64_t h = 0; h < heads; h++)
            assert_near(
                got[l * heads + h],
                json_number_value(json_array_get(json_array_get(rows, (size_t)l), (size_t)h)),
                1e-4);
}

static double compare_text(const es_model *m, const json_t *text, size_t index)
{
    const es_model_config *c = es_model_config_of(m);
    const int64_t n = json_integer_value(json_object_get(text, "n"));
    const int64_t states = (c->layers + 1) * n * c->hidden, last = n * c->hidden;
    double stats[3][128], worst = 0.0;
    int32_t ids[512];
    char name[64];
    float *hidden = malloc((size_t)states * sizeof *hidden);
    for (int64_t i = 0; i < n; i++)
        ids[i] =
            (int32_t)json_integer_value(json_array_get(json_object_get(text, "ids"), (size_t)i));
    const es_model_block block = {.ids = ids,
                                  .n = n,
                                  .hidden = hidden,
                                  .entropy = stats[0],
                                  .top_weight = stats[1],
                                  .sum_squares = stats[2]};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    /* Of short texts all states are in the repository, of longer ones the last, of the longest that
     * of every eighth token. */
    const bool all = n < 50;
    const int64_t step = n == 512 ? 8 : 1;
    snprintf(name, sizeof name, "minilm-l6-v2-f16/%zu.%s.f32", index,
             all         ? "hidden"
             : step == 1 ? "last"
                         : "last8");
    float *want = read_floats(golden_path(name), (all ? states : last) / step);
    const float *got = all ? hidden : hidden + states - last;
    for (int64_t i = 0; i < (all ? states : last) / step; i++) {
        const int64_t row = i / c->hidden, col = i % c->hidden;
        const double seen = (double)got[row * step * c->hidden + col];
        worst = fmax(worst, fabs(seen - (double)want[i]));
    }
    compare_stats(text, "entropy_nats", stats[0], c->layers, c->heads);
    compare_stats(text, "top_mass", stats[1], c->layers, c->heads);
    compare_stats(text, "inverse_ess", stats[2], c->layers, c->heads);
    free(want);
    free(hidden);
    return worst;
}

/* The references were computed in f64 on the same f16 weights and stored as f32. */
static void minilm_hidden_states_and_entropies(void **state)
{
    (void)state;
    es_model *m = open_real("minilm-l6-v2-f16"); /* skips, so nothing may be held before */
    json_t *texts = golden_file("minilm-l6-v2-f16/index.json");
    assert_int_equal(json_array_size(texts), 8);
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(texts); i++)
        worst = fmax(worst, compare_text(m, json_array_get(texts, i), i));
    print_message("largest error of a hidden state: %.2g\n", worst);
    assert_below(worst, 2e-5);
    es_model_close(m);
    json_decref(texts);
}

static void sst2_classifier_is_found(void **state)
{
    (void)state;
    es_model *m = open_real("minilm-l6-sst2-f16");
    const es_model_config *c = es_model_config_of(m);
    assert_true(c->pooler);
    assert_int_equal(c->labels, 2);
    assert_int_equal(c->layers, 6);
    assert_int_equal(c->hidden, 384);
    /* "a gorgeous, witty, seductive movie." and "a painfully dull failure" */
    static const int32_t good[] = {101, 1037, 9882, 1010, 25591, 1010, 23182, 3185, 1012, 102};
    static const int32_t bad[] = {101, 1037, 16267, 10634, 4945, 102};
    double logits[2][2];
    const es_model_block blocks[] = {{.ids = good, .n = 10, .logits = logits[0]},
                                     {.ids = bad, .n = 6, .logits = logits[1]}};
    assert_ok(es_model_forward(m, blocks, 2, NULL, &err));
    assert_above(logits[0][1], logits[0][0]);
    assert_above(logits[1][0], logits[1][1]);
    es_model_close(m);
}

/* Every sentence of SST-2's validation set through tokenizer, encoder and classifier, in batches
 * on all threads. 0.8888 is what the checkpoint reached where it was trained. */
static void sst2_accuracy(void **state)
{
    (void)state;
    enum { BATCH = 64, LONGEST = 512 };
    static int32_t ids[BATCH][LONGEST];
    static char line[BATCH][1024];
    double logits[BATCH][2];
    es_model_block blocks[BATCH];
    es_token_list list = {0};
    es_tokenizer *tokenizer;
    char sentences[REAL_PATH];
    not_in_quick_tests();
    real_path("tasks/sst2-test.tsv", NULL, sentences);
    es_model *m = open_real("minilm-l6-sst2-f16");
    FILE *file = fopen(sentences, "r");
    assert_non_null(file);
    assert_non_null(fgets(line[0], sizeof line[0], file)); /* the header */
    assert_ok(es_tokenizer_open(es_model_folder(m), NULL, &tokenizer, &err));
    assert_ok(es_model_check_tokenizer(es_model_config_of(m), es_model_folder(m), tokenizer, &err));
    int right = 0, total = 0;
    for (int count = BATCH; count == BATCH; total += count) {
        for (count = 0; count < BATCH && fgets(line[count], sizeof line[count], file); count++) {
            const size_t length = strcspn(line[count], "\t");
            assert_ok(es_tokenizer_encode(tokenizer, line[count], length, NULL, &list, &err));
            assert_at_most(list.count, LONGEST);
            for (int64_t i = 0; i < list.count; i++)
                ids[count][i] = list.tokens[i].id;
            blocks[count] =
                (es_model_block){.ids = ids[count], .n = list.count, .logits = logits[count]};
        }
        assert_ok(es_model_forward(m, blocks, count, NULL, &err));
        for (int i = 0; i < count; i++)
            right += (logits[i][1] > logits[i][0]) == (strchr(line[i], '\t')[1] == '1');
    }
    fclose(file);
    assert_int_equal(total, 872);
    print_message("SST-2 accuracy: %d of %d, %.4f\n", right, total, (double)right / total);
    assert_near((double)right / total, 0.8888, 0.002);
    es_token_list_free(&list);
    es_tokenizer_free(tokenizer);
    es_model_close(m);
}

TEST_FILE(model_real)
{
    const struct CMUnitTest tests[] = {
        optional_test(minilm_hidden_states_and_entropies),
        optional_test(sst2_classifier_is_found),
        optional_test(sst2_accuracy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
