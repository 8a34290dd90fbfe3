/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c : checkpoints opened and run. A small random one, written here, against plain f64
 * loops (tiny_model.h), and its broken versions (CF03, CF04, CF06, CF08, CF09, ST33). Real ones are
 * in test_model_real.c. */
#include "testing.h"

#include "model/model.h"
#include "model/model_inside.h"
#include "tiny_model.h"
#include <esscher/model.h>
#include <esscher/tokenizer.h>

/* ---- the small one ---- */

static void forget_model(void)
{
    remove(in_folder("config.json"));
    remove(in_folder("model.safetensors"));
}

static es_model *open_model(es_dtype precision)
{
    const es_model_opts opts = {.precision = precision};
    es_model *m;
    assert_ok(es_model_open(folder, &opts, &m, &err));
    return m;
}

static double number_at(es_dtype dtype, const void *x, int64_t i)
{
    return dtype == ES_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

enum { MOST = 4096 };
static const int32_t some_ids[] = {1, 5, 30, 0, 7, 7, 12, 29, 3, 14, 15, 9, 26, 5, 3, 5, 8, 9, 7};
enum { IDS = sizeof some_ids / sizeof some_ids[0] };

/* The model in the folder must do what the loops do, to the given absolute error: states and
 * logits are of order 1. */
static void compare_with_loops(const tiny *t, es_dtype precision, int64_t n, double tolerance)
{
    static double want[MOST], stats[64], logits[8], got_stats[4][64], got_logits[8];
    static double pooled[64], got_pooled[64];
    static double hidden[MOST], last[MOST];
    const int64_t states = (t->layers + 1) * n * t->hidden;
    assert_at_most(states, MOST);
    es_model *m = open_model(precision);
    tiny_forward(t, some_ids, n, want, stats, pooled, logits);
    const es_model_block block = {.ids = some_ids,
                                  .n = n,
                                  .hidden = hidden,
                                  .last = last,
                                  .entropy = got_stats[0],
                                  .top_weight = got_stats[1],
                                  .sum_squares = got_stats[2],
                                  .ess = got_stats[3],
                                  .pooled = t->pooler ? got_pooled : NULL,
                                  .logits = t->labels ? got_logits : NULL};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    for (int64_t i = 0; i < states; i++)
        assert_near(number_at(precision, hidden, i), want[i], tolerance);
    for (int64_t i = 0; i < n * t->hidden; i++)
        assert_equals(number_at(precision, last, i),
                      number_at(precision, hidden, t->layers * n * t->hidden + i));
    for (int64_t i = 0; i < t->layers * t->heads; i++)
        for (int s = 0; s < 4; s++) /* effective keys: up to n of them */
            assert_near(got_stats[s][i], stats[4 * i + s], tolerance * (s == 3 ? (double)n : 1.0));
    for (int64_t i = 0; t->pooler && i < t->hidden; i++)
        assert_near(got_pooled[i], pooled[i], tolerance);
    for (int64_t i = 0; i < t->labels; i++)
        assert_near(got_logits[i], logits[i], tolerance);
    es_model_close(m);
}

/* f64: a few hundred roundings of 2^-53 per layer, amplified by LayerNorm; f32 likewise. */
#define CLOSE_F64 1e-13
#define CLOSE_F32 1e-5

static void forward_is_what_the_loops_do(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    for (int i = 0; i < 3; i++) {
        tiny t = tiny_default();
        t.dtype = dtypes[i];
        t.labels = i; /* without and with a classifier */
        t.prefix = i ? "bert." : "";
        tiny_draw(&t);
        tiny_write(&t);
        compare_with_loops(&t, ES_F64, IDS, CLOSE_F64);
        compare_with_loops(&t, ES_F32, IDS, CLOSE_F32);
        compare_with_loops(&t, ES_F64, 1, CLOSE_F64);
        tiny_free(&t);
    }
    forget_model();
}

static void without_a_pooler(void **state)
{
    (void)state;
    tiny t = tiny_default();
    t.pooler = false;
    tiny_draw(&t);
    tiny_write(&t);
    compare_with_loops(&t, ES_F64, IDS, CLOSE_F64);
    es_model *m = open_model(ES_F32);
    double logits;
    const es_model_block block = {.ids = some_ids, .n = 2, .logits = &logits};
    assert_false(es_model_config_of(m)->pooler);
    assert_string_equal(es_model_folder(m), folder);
    assert_int_equal(es_model_precision(m), ES_F32);
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "forward.logits");
    es_model_close(m);
    tiny_free(&t);
    forget_model();
}

static void shards_make_the_same_model(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write_config(&t);
    tiny_write_part(&t, "a.safetensors", 0, 11);
    tiny_write_part(&t, "b.safetensors", 11, t.count);
    static char index[16384];
    size_t used = (size_t)sprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < t.count; i++)
        used += (size_t)snprintf(index + used, sizeof index - used, "%s\"%s\":\"%c.safetensors\"",
                                 i ? "," : "", t.tensors[i].name, i < 11 ? 'a' : 'b');
    used += (size_t)snprintf(index + used, sizeof index - used, "}}");
    write_file("model.safetensors.index.json", index, used);
    compare_with_loops(&t, ES_F64, IDS, CLOSE_F64);
    tiny_free(&t);
    forget_model();
    count_files(true);
}

static void heads_are_views_of_the_right_rows(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    es_model *m = open_model(ES_F32);
    const int64_t H = t.hidden, k = H / t.heads;
    es_model_head head;
    assert_ok(es_model_head_of(m, 1, 2, &head, &err));
    const struct {
        const es_view *view;
        const char *name;
        int64_t rows, cols, first, stride;
    } parts[] = {
        {&head.wq, "encoder.layer.1.attention.self.query.weight", k, H, 2 * k * H, H},
        {&head.wk, "encoder.layer.1.attention.self.key.weight", k, H, 2 * k * H, H},
        {&head.wv, "encoder.layer.1.attention.self.value.weight", k, H, 2 * k * H, H},
        {&head.bq, "encoder.layer.1.attention.self.query.bias", 1, k, 2 * k, k},
        {&head.bk, "encoder.layer.1.attention.self.key.bias", 1, k, 2 * k, k},
        {&head.bv, "encoder.layer.1.attention.self.value.bias", 1, k, 2 * k, k},
        {&head.wo, "encoder.layer.1.attention.output.dense.weight", H, k, 2 * k, H},
    };
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        const double *want = tiny_find(&t, "", parts[p].name);
        assert_equals(parts[p].view->rows, parts[p].rows);
        assert_equals(parts[p].view->cols, parts[p].cols);
        for (int64_t i = 0; i < parts[p].rows; i++)
            for (int64_t j = 0; j < parts[p].cols; j++)
                assert_equals(es_view_get(parts[p].view, i, j),
                              want[parts[p].first + i * parts[p].stride + j]);
    }
    assert_int_equal(es_model_head_of(m, 3, 0, &head, &err), ES_E_RANGE);
    assert_int_equal(es_model_head_of(m, 0, 3, &head, &err), ES_E_RANGE);
    assert_int_equal(es_model_head_of(m, -1, 0, &head, &err), ES_E_RANGE);
    es_model_close(m);
    tiny_free(&t);
    forget_model();
}

/* Blocks of all lengths, alone and together, on any number of threads: the same bits. */
static void same_bits_for_any_threads_and_company(void **state)
{
    (void)state;
    enum { BLOCKS = 9, H = 12 };
    static float alone[BLOCKS][IDS * H], together[BLOCKS][IDS * H];
    double entropy[2][BLOCKS][9];
    es_model_block blocks[BLOCKS];
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    es_model *m = open_model(ES_F32);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (es_model_block){
            .ids = some_ids + i, .n = IDS - 2 * i, .last = alone[i], .entropy = entropy[0][i]};
        assert_ok(es_model_forward(m, &blocks[i], 1, &(es_exec){.threads = 1}, &err));
        blocks[i].last = together[i];
        blocks[i].entropy = entropy[1][i];
    }
    for (int threads = 1; threads <= 4; threads++) {
        es_mem_limit budget = {0};
        const es_exec exec = {.threads = threads, .budget = &budget};
        memset(together, 0, sizeof together);
        assert_ok(es_model_forward(m, blocks, BLOCKS, &exec, &err));
        assert_memory_equal(alone, together, sizeof alone);
        assert_memory_equal(entropy[0], entropy[1], sizeof entropy[0]);
        assert_int_equal(budget.used, 0);
        assert_above(budget.peak, 0);
    }
    es_model_close(m);
    tiny_free(&t);
    forget_model();
}

static bool stop(void *user, double done, double total)
{
    (void)user;
    (void)total;
    return done >= 1;
}

static void TX02_blocks_that_make_no_sense(void **state)
{
    (void)state;
    int32_t ids[41] = {0};
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    es_model *m = open_model(ES_F32);
    es_model_block blocks[3] = {{.ids = ids, .n = 40}, {.ids = ids, .n = 41}, {.ids = ids, .n = 3}};
    assert_int_equal(es_model_forward(m, blocks, 2, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "forward.length");
    assert_int_equal(err.row, 1);
    blocks[1].n = 0;
    assert_int_equal(es_model_forward(m, blocks, 2, NULL, &err), ES_E_EMPTY);
    blocks[1].n = 3;
    ids[2] = 31;
    assert_int_equal(es_model_forward(m, blocks + 1, 1, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "forward.id");
    assert_int_equal(err.col, 2);
    ids[2] = -1;
    assert_int_equal(es_model_forward(m, blocks + 1, 1, NULL, &err), ES_E_RANGE);
    ids[2] = 30;
    assert_ok(es_model_forward(m, blocks, 3, NULL, &err));
    assert_ok(es_model_forward(m, blocks, 0, NULL, &err)); /* nothing to do is done */
    es_mem_limit budget = {.limit = 1000};
    assert_int_equal(es_model_forward(m, blocks, 3, &(es_exec){.budget = &budget}, &err),
                     ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    assert_int_equal(
        es_model_forward(m, blocks, 3, &(es_exec){.threads = 1, .progress = stop}, &err),
        ES_E_INTERRUPTED);
    assert_ok(es_model_products(m, 40, 3, NULL, &err));
    assert_int_equal(es_model_products(m, 41, 3, NULL, &err), ES_E_RANGE);
    assert_int_equal(es_model_products(m, 0, 3, NULL, &err), ES_E_RANGE);
    es_model_close(m);
    es_model_close(NULL);
    tiny_free(&t);
    forget_model();
}

/* ---- checkpoints that are not what they say ---- */

static void refuse_model(es_status status, const char *rule, const char *named)
{
    es_mem_limit budget = {0};
    const es_model_opts opts = {.budget = &budget};
    es_model *m;
    const es_status got = es_model_open(folder, &opts, &m, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || !strstr(err.message, named))
        fail_msg("%s %s (%s), expected %s %s (%s)", es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule, named);
    assert_null(m);
    assert_int_equal(budget.used, 0);
}

/* Headers alone count what the weights will take: a budget that is too small refuses them unread,
 * and what is charged is what reading takes, but for the headers that are then given back. */
static void CL03_headers_say_what_weights_take(void **state)
{
    (void)state;
    tiny t = tiny_default();
    es_mem_limit budget = {0};
    es_model_opts opts = {.budget = &budget};
    es_model *m;
    tiny_draw(&t);
    tiny_write(&t);
    assert_ok(es_model_open_headers(folder, &opts, &m, &err));
    const size_t charged = budget.used;
    size_t numbers = 0;
    for (int i = 0; i < t.count; i++)
        numbers += (size_t)(t.tensors[i].rows * (t.tensors[i].cols ? t.tensors[i].cols : 1));
    assert_above(charged, 4 * numbers);
    assert_ok(es_model_load(m, &err));
    assert_between(budget.used, 4 * numbers, charged);
    es_model_close(m);
    assert_int_equal(budget.used, 0);
    assert_ok(es_model_open_headers(folder, &opts, &m, &err));
    es_model_close(m); /* unread */
    assert_int_equal(budget.used, 0);
    budget.limit = 4 * numbers;
    assert_int_equal(es_model_open_headers(folder, &opts, &m, &err), ES_E_LIMIT);
    assert_null(m);
    assert_int_equal(budget.used, 0);
    tiny_free(&t);
}

static void CF03_config_and_shapes_disagree(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    const int64_t vocab = t.vocab;
    t.vocab = 32;
    tiny_write_config(&t);
    refuse_model(
        ES_E_FORMAT, "model.shape",
        "embeddings.word_embeddings.weight has shape [31, 12]; config.json requires [32, 12]");
    t.vocab = vocab;
    t.intermediate = 24;
    tiny_write_config(&t);
    refuse_model(ES_E_FORMAT, "model.shape", "[20, 12]; config.json requires [24, 12]");
    t.intermediate = 20;
    t.positions = INT64_C(1) << 24; /* no memory is taken for what the file does not hold */
    tiny_write_config(&t);
    refuse_model(ES_E_FORMAT, "model.shape", "position_embeddings");
    tiny_free(&t);
    forget_model();
}

static void CF04_more_layers_than_tensors(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    t.layers = 5;
    tiny_write_config(&t);
    refuse_model(ES_E_FORMAT, "model.layers", "config.json says 5 layers, the weights have 3");
    t.layers = 2; /* fewer is a remark: the model of its first layers */
    tiny_write_config(&t);
    compare_with_loops(&t, ES_F64, IDS, CLOSE_F64);
    t.layers = 3;
    tiny_write_config(&t);
    tiny_write_part(&t, "model.safetensors", 0, t.count - 3); /* no bias of the last LayerNorm */
    refuse_model(ES_E_FORMAT, "model.tensor", "encoder.layer.2.output.LayerNorm.bias");
    tiny_write_part(&t, "model.safetensors", 0, 0);
    refuse_model(ES_E_FORMAT, "model.prefix", "of 0 tensors");
    tiny_free(&t);
    forget_model();
}

/* A tokenizer of so many tokens, from a vocab.txt. */
static es_tokenizer *tokenizer_of(int count)
{
    char text[4096] = "[UNK]\n[CLS]\n[SEP]\n";
    es_tokenizer *t;
    for (int i = 3; i < count; i++)
        sprintf(text + strlen(text), "t%d\n", i);
    write_file("vocab.txt", text, strlen(text));
    assert_ok(es_tokenizer_open(in_folder("vocab.txt"), NULL, &t, &err));
    remove(in_folder("vocab.txt"));
    return t;
}

static es_status check_tokenizer(const es_model *m, int count)
{
    es_tokenizer *t = tokenizer_of(count);
    const es_status status =
        es_model_check_tokenizer(es_model_config_of(m), es_model_folder(m), t, &err);
    es_tokenizer_free(t);
    return status;
}

static void CF06_tokenizer_and_vocabulary_disagree(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_write(&t);
    es_model *m = open_model(ES_F32);
    assert_ok(check_tokenizer(m, 31));
    assert_ok(check_tokenizer(m, 30)); /* padded embeddings: a remark */
    assert_int_equal(check_tokenizer(m, 32), ES_E_FORMAT);
    assert_true(strstr(err.message, "32") && strstr(err.message, "31"));
    es_model_close(m);
    tiny_free(&t);
    forget_model();
}

static void CF08_old_names(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny t = tiny_default();
        t.legacy = true;
        t.prefix = i ? "bert." : "";
        tiny_draw(&t);
        tiny_write(&t);
        compare_with_loops(&t, ES_F64, IDS, CLOSE_F64);
        tiny_free(&t);
    }
    forget_model();
}

static void CF09_both_prefixes(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_draw(&t);
    tiny_add(&t, "bert.", "embeddings.word_embeddings.weight", t.vocab, t.hidden);
    tiny_write(&t);
    refuse_model(ES_E_FORMAT, "model.prefix", "with and without");
    tiny_free(&t);
    forget_model();
}

static void CF08_a_prefix_nobody_knows(void **state)
{
    (void)state;
    tiny t = tiny_default();
    t.prefix = "model.";
    tiny_draw(&t);
    tiny_write(&t);
    refuse_model(ES_E_FORMAT, "model.prefix", "no tensor name matches a BERT");
    tiny_free(&t);
    forget_model();
}

static void ST33_weights_that_are_no_numbers(void **state)
{
    (void)state;
    tiny t = tiny_default();
    t.dtype = "F16";
    tiny_draw(&t);
    t.tensors[0].values[12 * 29 + 3] = (double)NAN; /* of the word with id 29 */
    tiny_write(&t);
    refuse_model(ES_E_NONFINITE, "model.finite",
                 "embeddings.word_embeddings.weight holds 1 NaN and 0 infinite numbers, the first "
                 "at index 351");
    const es_model_opts lenient = {.allow_nonfinite = true};
    es_model *m;
    float last[3 * 12];
    assert_ok(es_model_open(folder, &lenient, &m, &err));
    const es_model_block without = {.ids = some_ids, .n = 3, .last = last};
    const es_model_block with = {.ids = some_ids + 6, .n = 3, .last = last};
    assert_ok(es_model_forward(m, &without, 1, NULL, &err));
    for (int i = 0; i < 3 * 12; i++)
        assert_finite(last[i]);
    assert_ok(es_model_forward(m, &with, 1, NULL, &err)); /* as a key the word reaches them all */
    for (int i = 0; i < 3 * 12; i++)
        assert_nan(last[i]);
    es_model_close(m);
    tiny_free(&t);
    forget_model();
}

static void ST36_weights_of_another_format(void **state)
{
    (void)state;
    tiny t = tiny_default();
    tiny_write_config(&t);
    refuse_model(ES_E_IO, "model.weights", "missing model.safetensors");
    write_file("pytorch_model.bin", "\x80\x02", 2);
    refuse_model(ES_E_UNSUPPORTED, "model.weights", "pickle");
    count_files(true);
    refuse_model(ES_E_IO, "model.config", "no config.json");
}

/* ---- the table of gelu ---- */

static void gelu_is_exact_to_f32(void **state)
{
    (void)state;
    static es_gelu_table table;
    es_gelu_prepare(&table);
    double worst = 0.0;
    for (int i = -80000; i <= 80000; i++) {
        float x = (float)(i * 1e-4);
        const double exact = 0.5 * (double)x * erfc(-(double)x / sqrt(2.0));
        es_gelu.f32(&table, &x, 1);
        /* half an ulp of the result, one of an intermediate of size 1/2, and the remainder */
        const double allowed = 0x1p-24 * fabs(exact) + 0x1p-25 + 7e-9;
        worst = fmax(worst, fabs((double)x - exact) / allowed);
    }
    assert_below(worst, 2.0);
    float odd[4] = {NAN, INFINITY, -1e30f, 1e30f};
    es_gelu.f32(&table, odd, 4);
    assert_nan(odd[0]);
    assert_infinite(odd[1]);
    assert_equals(odd[2], 0.0f);
    assert_equals(odd[3], 1e30f);
}

TEST_FILE(model)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_what_the_loops_do),
        cmocka_unit_test(without_a_pooler),
        cmocka_unit_test(shards_make_the_same_model),
        cmocka_unit_test(heads_are_views_of_the_right_rows),
        cmocka_unit_test(same_bits_for_any_threads_and_company),
        cmocka_unit_test(TX02_blocks_that_make_no_sense),
        cmocka_unit_test(CL03_headers_say_what_weights_take),
        cmocka_unit_test(CF03_config_and_shapes_disagree),
        cmocka_unit_test(CF04_more_layers_than_tensors),
        cmocka_unit_test(CF06_tokenizer_and_vocabulary_disagree),
        cmocka_unit_test(CF08_old_names),
        cmocka_unit_test(CF09_both_prefixes),
        cmocka_unit_test(CF08_a_prefix_nobody_knows),
        cmocka_unit_test(ST33_weights_that_are_no_numbers),
        cmocka_unit_test(ST36_weights_of_another_format),
        cmocka_unit_test(gelu_is_exact_to_f32),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
