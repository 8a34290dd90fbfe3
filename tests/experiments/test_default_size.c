/* SPDX-License-Identifier: Apache-2.0 */
/* test_default_size.c : default numbers of blocks that suit the size of a model: the rule by
 * itself, and studies that are asked for their cost. A model of 1.1 B parameters is a header and a
 * file of zeros, of which a dry run reads nothing. */
#include "folder.h"

#include <esscher/study.h>

#include "experiments/budget/question.h"
#include "experiments/kit/default_size.h"
#include "experiments/loss/loss.h"
#include "experiments/probe/question.h"
#include "experiments/sparse/sparse.h"

/* ---- the rule ---- */

enum { LENGTH, BLOCKS, SIZES };

/* Operations of a token, whatever the length of blocks: `user`. */
static double by_tokens(const void *user, const int64_t *values)
{
    return *(const double *)user * (double)values[LENGTH] * (double)values[BLOCKS];
}

/* Fits a text of `tokens` in blocks of up to 8192, of which `tokens_that_fit` fit. */
static bool fit(int64_t tokens, double tokens_that_fit, bool fixed, es_size *sizes)
{
    static const es_size_step steps[] = {{BLOCKS, 8}, {LENGTH, 512}, {BLOCKS, 2}};
    const double each = ES_DEFAULT_WORK / tokens_that_fit;
    sizes[LENGTH] = (es_size){"block", .usual = 8192, .halves = true, .fixed = fixed};
    sizes[BLOCKS] = (es_size){"blocks", .usual = tokens, .of = 1 + LENGTH, .averaged = true};
    return es_sizes_fit(&(es_sizing){sizes, SIZES, steps, 3, by_tokens, &each});
}

static void work_that_fits_changes_nothing(void **state)
{
    es_size s[SIZES];
    (void)state;
    assert_false(fit(100000, 1e6, false, s));
    assert_int_equal(s[LENGTH].value, 8192);
    assert_int_equal(s[BLOCKS].value, 12); /* 100000 / 8192 */
    assert_false(fit(100000, 12.01 * 8192.0, false, s));
}

static void blocks_are_fewer_before_they_are_shorter(void **state)
{
    es_size s[SIZES];
    (void)state;
    assert_true(fit(100000, 11.5 * 8192.0, false, s)); /* 11 of 12 */
    assert_int_equal(s[LENGTH].value, 8192);
    assert_int_equal(s[BLOCKS].value, 11);
    assert_true(fit(1000000, 52500.0, false, s)); /* 6.4 blocks of 8192, but 12.8 of 4096 */
    assert_int_equal(s[LENGTH].value, 4096);
    assert_int_equal(s[BLOCKS].value, 12);
    assert_true(fit(1000000, 4100.0, false, s)); /* 8.007 of 512 */
    assert_int_equal(s[LENGTH].value, 512);
    assert_int_equal(s[BLOCKS].value, 8);
}

static void too_much_work_ends_at_the_least(void **state)
{
    es_size s[SIZES];
    (void)state;
    assert_true(fit(1000000, 1600.0, false, s));
    assert_int_equal(s[LENGTH].value, 512);
    assert_int_equal(s[BLOCKS].value, 3);
    assert_true(fit(1000000, 1.0, false, s));
    assert_int_equal(s[LENGTH].value, 512);
    assert_int_equal(s[BLOCKS].value, 2);
}

static void what_was_given_stays(void **state)
{
    es_size s[SIZES];
    (void)state;
    assert_true(fit(1000000, 52500.0, true, s));
    assert_int_equal(s[LENGTH].value, 8192);
    assert_int_equal(s[BLOCKS].value, 6);
}

static void a_length_leaves_eight_blocks_of_the_text(void **state)
{
    (void)state;
    assert_int_equal(es_default_length(2048, 5000, 0), 2048);
    assert_int_equal(es_default_length(512, 5000, 0), 512);
    assert_int_equal(es_default_length(32768, 300000, 0), 32768);
    assert_int_equal(es_default_length(32768, 52000, 0), 4096);  /* 12 blocks; 6 of 8192 */
    assert_int_equal(es_default_length(32768, 52000, 2), 16384); /* two were asked for */
    assert_int_equal(es_default_length(40960, 20000, 0), 2048);
    assert_int_equal(es_default_length(32768, 3000, 0), 32768); /* one block either way */
}

/* ---- studies ---- */

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static const char text[] = ES_TESTS_DIR "/../models/pebble/alice.txt";

/* Appends one tensor to the header of a safetensors file; returns where the next one begins. */
static int64_t add_tensor(FILE *f, int64_t at, const char *name, int64_t rows, int64_t cols)
{
    const int64_t end = at + 2 * rows * (cols ? cols : 1);
    char shape[64];
    snprintf(shape, sizeof shape, cols ? "%d,%d" : "%d", (int)rows, (int)cols);
    fprintf(f, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
            at ? "," : "", name, shape, (long long)at, (long long)end);
    return end;
}

/* Appends the tensors of a layer of the shape of TinyLlama. */
static int64_t add_layer(FILE *f, int64_t at, int layer)
{
    static const struct {
        const char *name;
        int64_t rows, cols;
    } parts[] = {{"input_layernorm", 2048, 0},     {"post_attention_layernorm", 2048, 0},
                 {"self_attn.q_proj", 2048, 2048}, {"self_attn.k_proj", 256, 2048},
                 {"self_attn.v_proj", 256, 2048},  {"self_attn.o_proj", 2048, 2048},
                 {"mlp.gate_proj", 5632, 2048},    {"mlp.up_proj", 5632, 2048},
                 {"mlp.down_proj", 2048, 5632}};
    char name[128];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i].name);
        at = add_tensor(f, at, name, parts[i].rows, parts[i].cols);
    }
    return at;
}

/* Writes a model of 1.1 B parameters with 8192 positions: all zeros, in a file with holes. */
static int make_large_model(void **state)
{
    static const char config[] =
        "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":2048,"
        "\"num_hidden_layers\":22,\"num_attention_heads\":32,\"num_key_value_heads\":4,"
        "\"intermediate_size\":5632,\"vocab_size\":32000,\"max_position_embeddings\":8192,"
        "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"hidden_act\":\"silu\","
        "\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\"}";
    if (make_folder(state) != 0)
        return -1;
    write_file("config.json", config, strlen(config));
    if (symlink(ES_TESTS_DIR "/../models/pebble/tokenizer.json", in_folder("tokenizer.json")) != 0)
        return -1;
    FILE *f = fopen(in_folder("model.safetensors"), "wb");
    int64_t at = 0;
    uint64_t header = 0;
    fwrite(&header, sizeof header, 1, f);
    fputc('{', f);
    at = add_tensor(f, at, "model.embed_tokens.weight", 32000, 2048);
    for (int layer = 0; layer < 22; layer++)
        at = add_layer(f, at, layer);
    at = add_tensor(f, at, "model.norm.weight", 2048, 0);
    at = add_tensor(f, at, "lm_head.weight", 32000, 2048);
    fputc('}', f);
    header = (uint64_t)ftell(f) - sizeof header;
    rewind(f);
    fwrite(&header, sizeof header, 1, f);
    fflush(f);
    const int status = ftruncate(fileno(f), (off_t)(sizeof header + header) + (off_t)at);
    return fclose(f) != 0 || status != 0 ? -1 : 0;
}

/* Asks a study what it costs, and returns its completed parameters; *told gets the finding about
 * default sizes, "" without one. */
static es_params *price(const char *name, const char *const *given, char told[512])
{
    const es_study *study = es_study_find(name);
    const es_study_opts opts = {.dry_run = true, .exec = {.threads = 1}};
    es_params *p;
    es_answer *answer;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    assert_ok(es_study_run(study, p, &opts, &answer, &err));
    const char *first = es_answer_finding(answer, 0);
    snprintf(told, 512, "%s", first && strncmp(first, "Default", 7) == 0 ? first : "");
    es_answer_free(answer);
    return p;
}

#define PEBBLE(...) ((const char *const[]){"model", pebble, "text", text, __VA_ARGS__ NULL, NULL})
#define LARGE(...)  ((const char *const[]){"model", folder, "text", text, __VA_ARGS__ NULL, NULL})

static void a_small_model_has_the_usual_defaults(void **state)
{
    char told[512];
    (void)state;
    es_params *p = price("loss", PEBBLE(), told);
    const loss_params *loss = es_params_values(p);
    assert_int_equal(loss->block, 0);  /* all positions */
    assert_int_equal(loss->blocks, 0); /* all blocks */
    assert_string_equal(told, "");
    es_params_free(p);
    p = price("probe", PEBBLE(), told);
    const probe_params *probe = es_params_values(p);
    assert_int_equal(probe->pool.tokens, 0); /* all of the text */
    assert_int_equal(probe->pool.block, 2048);
    assert_string_equal(told, "");
    es_params_free(p);
    p = price("budget", PEBBLE("ratio", "0.25", ), told);
    const budget_params *budget = es_params_values(p);
    assert_int_equal(budget->context, 0);
    assert_int_equal(budget->blocks, 8);
    assert_string_equal(told, "");
    es_params_free(p);
    p = price("sparse", PEBBLE("layer", "0", ), told);
    const sparse_params *sparse = es_params_values(p);
    assert_int_equal(sparse->context, 0);
    assert_int_equal(sparse->contexts, 4);
    assert_int_equal(sparse->queries, 0);
    assert_string_equal(told, "");
    es_params_free(p);
}

/* A token of the large model takes 2 (22 * 44.0e6 + 65.5e6) = 2.069e9 operations of products, and
 * in a block of 2048 4 * 1024.5 * 2048 * 22 = 1.85e8 of attention; 1.25 times that for 2048 tokens
 * is 5.77e12, and 9 blocks are 5.19e13 of the 5.25e13 that fit. Blocks of 4096 take 1.25e13: 4 fit.
 */
static void a_large_model_reads_few_blocks(void **state)
{
    char told[512];
    (void)state;
    es_params *p = price("loss", LARGE(), told);
    const loss_params *loss = es_params_values(p);
    assert_int_equal(loss->block, 2048);
    assert_int_equal(loss->blocks, 9);
    assert_non_null(strstr(told, "--block 2048 (of 8192), --blocks 9 (of "));
    assert_non_null(strstr(told, "about 4.9 min on two cores. --blocks "));
    es_params_free(p);
    p = price("loss", LARGE("block", "4096", ), told);
    loss = es_params_values(p);
    assert_int_equal(loss->block, 4096);
    assert_int_equal(loss->blocks, 4);
    es_params_free(p);
    p = price("loss", LARGE("blocks", "16", ), told);
    loss = es_params_values(p);
    assert_int_equal(loss->block, 1024);
    assert_int_equal(loss->blocks, 16);
    es_params_free(p);
    p = price("loss", LARGE("blocks", "20", "block", "2048", ), told);
    assert_string_equal(told, "");
    es_params_free(p);
}

static void other_studies_of_a_large_model_are_short(void **state)
{
    char told[512];
    (void)state;
    es_params *p = price("probe", LARGE(), told);
    const probe_params *probe = es_params_values(p);
    assert_true(probe->pool.block >= 512 && probe->pool.block <= 2048);
    assert_true(probe->pool.tokens >= 8 * probe->pool.block && probe->pool.tokens <= 24 * 1024);
    assert_non_null(strstr(told, "--pool "));
    es_params_free(p);
    p = price("budget", LARGE("ratio", "0.25", ), told);
    const budget_params *budget = es_params_values(p);
    assert_int_equal(budget->context, 512);
    assert_in_range(budget->blocks, 2, 4);
    assert_int_equal(budget->verify_blocks, 8); /* nothing is verified */
    assert_non_null(strstr(told, "--context 512 (of 8192), --blocks "));
    es_params_free(p);
    p = price("sparse", LARGE(), told);
    const sparse_params *sparse = es_params_values(p);
    assert_int_equal(sparse->context, 512);
    assert_int_equal(sparse->contexts, 2);
    assert_in_range(sparse->queries, 2, 4);
    assert_non_null(strstr(told, "--contexts 2 (of 4)"));
    es_params_free(p);
}

TEST_FILE(default_size)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_fits_changes_nothing),
        cmocka_unit_test(blocks_are_fewer_before_they_are_shorter),
        cmocka_unit_test(too_much_work_ends_at_the_least),
        cmocka_unit_test(what_was_given_stays),
        cmocka_unit_test(a_length_leaves_eight_blocks_of_the_text),
        cmocka_unit_test(a_small_model_has_the_usual_defaults),
        cmocka_unit_test(a_large_model_reads_few_blocks),
        cmocka_unit_test(other_studies_of_a_large_model_are_short),
    };
    return cmocka_run_group_tests(tests, make_large_model, remove_folder);
}
