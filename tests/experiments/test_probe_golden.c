/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_golden.c : a real model on a novel, against what another program computed in f64
 * (tests/golden/probe-minilm-alice.json). Some 10 s of forward pass; left out of quick tests. */
#include "folder.h"
#include "experiments/kit/probe.h"
#include "golden.h"
#include "real.h"

/* Layer inputs of an f32 forward pass are within 3e-6 of the f64 reference (test_model.c), and
 * covariances and what follows from them as close. */
static const double TOLERANCE = 1e-5;

static void close_to(double got, const json_t *row, const char *key)
{
    const json_t *want = json_object_get(row, key);
    if (!json_is_number(want))
        fail_msg("golden value %s is missing", key);
    assert_close(got, json_number_value(want), TOLERANCE);
}

static void check_head(const es_probe *probe, int64_t head, const json_t *want)
{
    es_probe_head about;
    assert_ok(es_probe_head_of(probe, head, &about, &err));
    close_to(about.horizons.horizon.val, want, "horizon");
    close_to(about.horizons.one_sided.val, want, "horizon_one_sided");
    close_to(about.horizons.coupling.val, want, "coupling");
    close_to(about.horizons.frobenius.val, want, "frobenius");
    close_to(about.horizons.rate_horizon, want, "rate_horizon");
    close_to(about.horizons.rate_worst_case, want, "rate_worst_case");
}

static void check_layer(const es_probe_spec *spec, int64_t layer, const json_t *want)
{
    double *numbers = malloc((size_t)es_probe_numbers(spec) * sizeof *numbers);
    es_probe *probe;
    es_probe_layer about;
    assert_ok(es_probe_measure(spec, layer, numbers, &err));
    assert_ok(es_probe_open(spec, layer, numbers, &probe, &err));
    assert_ok(es_probe_layer_of(probe, &about, &err));
    close_to(about.reach.val, want, "reach");
    close_to(about.trace, want, "trace");
    close_to(about.horizon_unscaled_all_heads, want, "horizon_unscaled_all_heads");
    const json_t *heads = json_object_get(want, "heads");
    assert_int_equal(json_array_size(heads), 12);
    for (size_t h = 0; h < 12; h++)
        check_head(probe, (int64_t)h, json_array_get(heads, h));
    es_probe_close(probe);
    free(numbers);
}

static void remove_pool_folder(void)
{
    static const char *const names[] = {"pool.run",    "pool.run.lock", "layer-0.npy",
                                        "layer-1.npy", "layer-2.npy",   "layer-3.npy",
                                        "layer-4.npy", "layer-5.npy"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/pool/%s", folder, names[i]);
        remove(path);
    }
    assert_int_equal(rmdir(in_folder("pool")), 0);
}

static void minilm_on_a_novel(void **state)
{
    (void)state;
    char model_path[REAL_PATH], text[REAL_PATH];
    not_in_quick_tests();
    real_model("minilm-l6-v2-f16", model_path);
    real_path("text/alice.txt", "demo/alice.txt", text);
    json_t *want = golden_file("probe-minilm-alice.json");
    es_model *model;
    es_tokenizer *tokenizer;
    es_pool *pool;
    assert_ok(es_model_open(model_path, NULL, &model, &err));
    assert_ok(es_tokenizer_open(model_path, NULL, &tokenizer, &err));
    const char *texts[] = {text};
    const es_pool_spec made = {.model = model,
                               .tokenizer = tokenizer,
                               .texts = texts,
                               .n_texts = 1,
                               .tokens = json_integer_value(json_object_get(want, "tokens")),
                               .from = ES_BLOCKS_START,
                               .folder = in_folder("pool")};
    assert_ok(es_pool_build(&made, NULL, &err));
    assert_ok(es_pool_open(made.folder, &pool, &err));
    assert_int_equal(es_pool_about(pool).blocks,
                     json_integer_value(json_object_get(want, "blocks")));
    const int64_t size = 100;
    const es_probe_spec spec = {
        .model = model, .pool = pool, .sizes = &size, .n_sizes = 1, .queries = 4};
    const json_t *layers = json_object_get(want, "layers");
    assert_int_equal(json_array_size(layers), 6);
    for (size_t l = 0; l < 6; l++)
        check_layer(&spec, (int64_t)l, json_array_get(layers, l));
    es_pool_close(pool);
    remove_pool_folder();
    es_tokenizer_free(tokenizer);
    es_model_close(model);
    json_decref(want);
}

TEST_FILE(probe_golden)
{
    const struct CMUnitTest tests[] = {
        optional_test(minilm_on_a_novel),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
