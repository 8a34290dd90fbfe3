/* SPDX-License-Identifier: Apache-2.0 */
/* test_gap_heads.c : the bounds of THEORY 21 on every head of real models: pebble, and MiniLM if it
 * is there. The largest weight is the model's own, in f32. */
#include "real.h"

#include <esscher/model.h>
#include <esscher/tokenizer.h>

#include "base/view.h"
#include "theory/gap_count.h"

enum { LONGEST = 512 };

/* Rows that were checked, and those whose group bounds say something. */
typedef struct tally {
    int64_t rows, above, below;
} tally;

/* Fills scores with those of query i, without its cap, and returns their number. */
static int64_t scores_of(const es_model_seen *s, bool causal, int64_t i, double *scores)
{
    double q[LONGEST], k[LONGEST];
    const int64_t keys = causal ? i + 1 : s->k.rows;
    es_view_read_row(&s->q, i, q);
    for (int64_t j = 0; j < keys; j++) {
        es_view_read_row(&s->k, j, k);
        scores[j] = 0.0;
        for (int64_t c = 0; c < s->q.cols; c++)
            scores[j] += s->scale * q[c] * k[c];
    }
    return keys;
}

typedef struct visitor {
    bool causal;
    tally found;
} visitor;

/* Kernels in f32 are good to 1e-5 of a weight. */
static es_status check_head(void *context, const es_model_seen *s, es_error *e)
{
    visitor *v = context;
    double scores[LONGEST];
    (void)e;
    assert_true(s->cap == 0.0 && (!s->sink || isinf(*s->sink)) && !s->window);
    for (int64_t i = 0; i < s->q.rows; i++) {
        const int64_t keys = scores_of(s, v->causal, i, scores);
        for (int64_t m = 2; m <= ES_GAP_GROUP && keys >= m; m += ES_GAP_GROUP - 2) {
            const es_gap_count row = es_gap_count_of(scores, keys, m);
            assert_at_least(s->top_weight[i], es_gap_top_least(&row, 1.0) * (1.0 - 1e-5));
            assert_at_most(s->top_weight[i], es_gap_top_most(&row, 1.0) * (1.0 + 1e-5));
            v->found.rows += m == 2;
            v->found.above += m == 8 && row.critical > 1.0;
            v->found.below += m == 8 && row.critical < 1.0;
        }
    }
    return ES_OK;
}

/* Runs the first tokens of a text through a model and checks every head. */
static tally check_model(const char *folder, const char *text)
{
    es_model *model;
    es_tokenizer *tokenizer;
    es_token_list list = {0};
    int32_t ids[LONGEST];
    static char bytes[8192];
    FILE *file = fopen(text, "rb");
    assert_non_null(file);
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = 0;
    fclose(file);
    assert_ok(es_model_open(folder, NULL, &model, &err));
    assert_ok(es_tokenizer_open(folder, NULL, &tokenizer, &err));
    size_t length = strlen(bytes); /* no character may be cut in two */
    while (length && (bytes[length - 1] & 0x80))
        length--;
    assert_ok(es_tokenizer_encode(tokenizer, bytes, length, NULL, &list, &err));
    int64_t n = es_model_config_of(model)->positions;
    n = n < LONGEST ? n : LONGEST;
    n = list.count < n ? list.count : n;
    for (int64_t i = 0; i < n; i++)
        ids[i] = list.tokens[i].id;
    visitor v = {.causal = es_model_config_of(model)->causal};
    const es_model_visit visit = {.head = check_head, .context = &v, .statistics = true};
    const es_model_block block = {.ids = ids, .n = n, .visit = &visit};
    assert_ok(es_model_forward(model, &block, 1, NULL, &err));
    es_token_list_free(&list);
    es_tokenizer_free(tokenizer);
    es_model_close(model);
    print_message("%lld rows of up to %lld keys, L_8 above 1 in %lld and below in %lld\n",
                  (long long)v.found.rows, (long long)n, (long long)v.found.above,
                  (long long)v.found.below);
    return v.found;
}

/* 4 layers of 6 heads of 512 queries, of which the first sees one key. */
static void no_head_of_pebble_breaks_the_bounds(void **state)
{
    (void)state;
    const tally t =
        check_model(ES_TESTS_DIR "/../models/pebble", ES_TESTS_DIR "/../CONTRIBUTING.md");
    assert_int_equal(t.rows, 24 * 511);
    assert_true(t.above > 100 && t.below > 100); /* both bounds are tried */
}

/* 6 layers of 12 heads of 512 queries. */
static void no_head_of_minilm_breaks_the_bounds(void **state)
{
    (void)state;
    char model[REAL_PATH], text[REAL_PATH];
    real_model("minilm-l6-v2-f16", model);
    real_path("text/alice.txt", "demo/alice.txt", text);
    const tally t = check_model(model, text);
    assert_int_equal(t.rows, 72 * 512);
    assert_true(t.above > 100 && t.below > 100);
}

TEST_FILE(gap_heads)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_head_of_pebble_breaks_the_bounds),
        optional_test(no_head_of_minilm_breaks_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
