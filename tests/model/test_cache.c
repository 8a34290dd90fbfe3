/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache.c : decoders whose cache drops and rounds keys, against an independent f64 program
 * (NumPy; tests/golden/cache), and what holds for every cache. */
#include "cache_cases.h"
#include "folder.h"

#include <esscher/cache.h>

/* Largest difference of logits at places >= prompt, over the root mean square of the expected. */
static double difference(const decoder *d, const void *logits, const double *want)
{
    const int64_t vocab = d->config->vocab, count = (d->n - d->prompt) * vocab;
    const int64_t first = d->prompt * vocab;
    double most = 0.0, square = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double got = es_model_precision(d->model) == ES_F32
                               ? (double)((const float *)logits)[first + i]
                               : ((const double *)logits)[first + i];
        most = fmax(most, fabs(got - want[i]));
        square += want[i] * want[i];
    }
    return most / sqrt(square / (double)count);
}

/* Every case of one kind. f64 has the same sums in another order: 1e-9 is the distance at which a
 * golden gap of 7e-5 cannot turn a choice. In f32 a rounded number may fall on the other side of a
 * step, so that types are compared in f64 alone, and sets where the gap is above 1e-4. */
static void compare_cases(es_dtype precision, const char *cases, const char *file,
                          es_evict_mode mode, void (*look)(const decoder *d, const json_t *one))
{
    const double tolerance = precision == ES_F32 ? 2e-5 : 1e-9;
    for (int m = 0; m < NAMES; m++) {
        decoder d = open_decoder(names[m], precision);
        es_array want = load(&d, file);
        const json_t *all = json_object_get(d.expected, cases);
        const int64_t each = (d.n - d.prompt) * d.config->vocab;
        assert_int_equal(json_array_size(all), want.shape[0]);
        for (size_t i = 0; i < json_array_size(all); i++) {
            const json_t *one = json_array_get(all, i), *gap = json_object_get(one, "gap");
            const bool rounded = json_object_get(one, "ktype") != NULL;
            if (precision == ES_F32 &&
                (rounded || (json_is_number(gap) && json_number_value(gap) < 1e-4)))
                continue;
            set_units(&d, one);
            const es_cache cache = {.mode = mode,
                                    .prompt = d.prompt,
                                    .units = d.unit,
                                    .oracle = d.late,
                                    .last = d.last};
            void *logits = run(&d, &cache, 1 + (int)(i % 2));
            if (look)
                look(&d, one);
            const double found =
                difference(&d, logits, (const double *)want.data + i * (size_t)each);
            if (found > tolerance)
                print_message("%s, %s %zu (%s)\n", d.name, cases, i,
                              json_string_value(json_object_get(one, "case")));
            assert_below(found, tolerance);
            free(logits);
        }
        es_array_free(&want);
        close_decoder(&d);
    }
}

static void prompt_in_f64(void **state)
{
    (void)state;
    compare_cases(ES_F64, "prompt_cases", "prompt", ES_EVICT_PROMPT, same_kept);
}
static void prompt_in_f32(void **state)
{
    (void)state;
    compare_cases(ES_F32, "prompt_cases", "prompt", ES_EVICT_PROMPT, same_kept);
}
static void decode_in_f64(void **state)
{
    (void)state;
    compare_cases(ES_F64, "stream_cases", "stream", ES_EVICT_DECODE, same_evicted);
}
static void decode_in_f32(void **state)
{
    (void)state;
    compare_cases(ES_F32, "stream_cases", "stream", ES_EVICT_DECODE, same_evicted);
}
static void types_in_f64(void **state)
{
    (void)state;
    compare_cases(ES_F64, "type_cases", "types", ES_EVICT_NOTHING, NULL);
}

/* What es_cache_save() writes has the sets of a case; of decode mode, which key goes after every
 * token, the last one included. */
static void compare_saved(const decoder *d, const char *evict, const json_t *one)
{
    const char *const sets = strcmp(evict, "decode") == 0 ? "evicted" : "kept";
    char policy[200];
    es_cache *cache;
    write_policy(one, policy, sizeof policy);
    const es_cache_opts opts = {.evict = evict,
                                .prompt = d->prompt,
                                .policy = policy,
                                .keys = json_integer_value(json_object_get(one, "keys"))};
    assert_ok(es_cache_new(d->config, &opts, d->n, NULL, &cache, &err));
    assert_ok(es_cache_look_ahead(cache, d->model, d->ids, &(es_exec){.threads = 1}, &err));
    free(run(d, cache, 1));
    assert_ok(es_cache_save(cache, in_folder("kept.json"), true, &err));
    json_t *saved = json_load_file(in_folder("kept.json"), 0, NULL);
    if (!json_equal(json_object_get(saved, sets), json_object_get(one, sets)))
        fail_msg("%s, %s %s: other sets", d->name, evict, policy);
    json_decref(saved);
    es_cache_free(cache);
}

static void saved_sets_are_golden(void **state)
{
    static const char *const cases[] = {"prompt_cases", "stream_cases"};
    static const char *const evict[] = {"prompt", "decode"};
    int compared[2] = {0, 0};
    (void)state;
    for (int m = 0; m < NAMES; m++) {
        decoder d = open_decoder(names[m], ES_F64);
        for (int kind = 0; kind < 2; kind++) {
            const json_t *all = json_object_get(d.expected, cases[kind]);
            for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *one = json_array_get(all, i);
                if (!json_is_integer(json_object_get(one, "keys")) || json_object_get(one, "ktype"))
                    continue; /* units of their own, or of rounded rows: as plans */
                compare_saved(&d, evict[kind], one);
                compared[kind]++;
            }
        }
        close_decoder(&d);
    }
    assert_at_least(compared[0], 30);
    assert_at_least(compared[1], 12);
}

/* ---- what holds for every cache ---- */

/* Decoders with windows, sinks, caps, learned positions, experts. */
static const char *const kinds[] = {
    "decoders/mistral-window", "decoders/gpt2",    "decoders/neox", "decoders2/gpt_oss",
    "decoders2/gemma2",        "decoders2/gemma3", "decoders2/phi3"};

enum { TOKENS = 48 };

/* Logits of a block of TOKENS tokens; the caller frees them. */
static double *logits_of(const es_model *m, const es_mask *mask, const es_cache *cache, int threads)
{
    const es_model_config *c = es_model_config_of(m);
    double *logits = malloc((size_t)(TOKENS * c->vocab) * sizeof *logits);
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((7 * i + 3) % c->vocab);
    const es_model_block block = {
        .ids = ids, .n = TOKENS, .token_logits = logits, .mask = mask, .cache = cache};
    assert_ok(es_model_forward(m, &block, 1, &(es_exec){.threads = threads}, &err));
    return logits;
}

/* Largest difference of two arrays of logits over the largest number. */
static double apart(const es_model *m, double *a, double *b)
{
    const int64_t count = TOKENS * es_model_config_of(m)->vocab;
    double most = 0.0, largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    free(a);
    free(b);
    return most / largest;
}

/* Units that all have the same policy; the caller frees them. */
static es_cache_unit *same_units(const es_model *m, const char *policy, int64_t keys)
{
    const es_model_config *c = es_model_config_of(m);
    es_cache_unit *units = calloc((size_t)(c->layers * c->kv_heads), sizeof *units);
    for (int64_t u = 0; u < c->layers * c->kv_heads; u++) {
        assert_ok(es_evict_parse(policy, &units[u].evict, &err));
        units[u].evict.keys = keys;
    }
    return units;
}

/* A cache that has place for every key changes nothing but the order of sums: 1e-13 is a thousand
 * roundings of f64. */
static void space_for_all_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        es_model *m;
        assert_ok(
            es_model_open(golden_path(kinds[i]), &(es_model_opts){.precision = ES_F64}, &m, &err));
        es_cache_unit *units = same_units(m, "h2o", TOKENS);
        for (int mode = ES_EVICT_NOTHING; mode <= ES_EVICT_DECODE; mode++) {
            const es_cache cache = {.mode = (es_evict_mode)mode, .prompt = 20, .units = units};
            const double found =
                apart(m, logits_of(m, NULL, &cache, 1), logits_of(m, NULL, NULL, 1));
            assert_below(found, 1e-13);
        }
        free(units);
        es_model_close(m);
    }
}

/* Decode mode by age alone, with k keys and no sinks, is a window of k + 1 keys. */
static void oldest_first_is_a_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        es_model *m;
        assert_ok(
            es_model_open(golden_path(kinds[i]), &(es_model_opts){.precision = ES_F64}, &m, &err));
        es_cache_unit *units = same_units(m, "stream:sinks=0", 10);
        const es_cache cache = {.mode = ES_EVICT_DECODE, .units = units};
        const es_mask mask = {.causal = true, .window = 11};
        assert_below(apart(m, logits_of(m, NULL, &cache, 1), logits_of(m, &mask, NULL, 1)), 1e-13);
        free(units);
        es_model_close(m);
    }
}

/* Bits do not depend on threads. */
static void threads_give_the_same_bits(void **state)
{
    static const char *const policies[] = {"h2o", "tova", "stream"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        es_model *m;
        assert_ok(es_model_open(golden_path("decoders/llama"),
                                &(es_model_opts){.precision = ES_F64}, &m, &err));
        es_cache_unit *units = same_units(m, policies[i % 3], 9);
        const es_cache cache = {
            .mode = i < 3 ? ES_EVICT_PROMPT : ES_EVICT_DECODE, .prompt = 24, .units = units};
        assert_true(apart(m, logits_of(m, NULL, &cache, 1), logits_of(m, NULL, &cache, 3)) == 0.0);
        free(units);
        es_model_close(m);
    }
}

/* Runs a block with a cache and returns the most memory that was allocated at a time. */
static size_t peak_of(const es_model *m, const es_cache_opts *opts, const int32_t *ids, int64_t n,
                      int threads)
{
    es_mem_limit budget = {0};
    es_cache *cache;
    const es_exec exec = {.threads = threads, .budget = &budget};
    assert_ok(es_cache_new(es_model_config_of(m), opts, n, &budget, &cache, &err));
    assert_ok(es_cache_look_ahead(cache, m, ids, &exec, &err));
    assert_ok(
        es_model_forward(m, &(es_model_block){.ids = ids, .n = n, .cache = cache}, 1, &exec, &err));
    es_cache_free(cache);
    return budget.peak;
}

/* No run allocates more than the bounds of model and cache together, and some allocate more than
 * that of the model alone. */
static void memory_stays_within_its_bound(void **state)
{
    static const es_cache_opts settings[] = {
        {.evict = "prompt", .prompt = 256, .policy = "snapkv", .keys = 64},
        {.evict = "prompt", .prompt = 256, .policy = "expected:future=2048", .keys = 64},
        {.evict = "prompt", .prompt = 256, .policy = "oracle", .keys = 64, .k_type = "q4_0"},
        {.evict = "prompt", .prompt = 256, .policy = "tova", .keys = 64},
        {.evict = "decode", .policy = "h2o", .keys = 128, .v_type = "q8_0"},
        {.evict = "decode", .policy = "tova", .keys = 500},
        {.k_type = "kivi2", .v_type = "kivi2+hadamard"}};
    enum { N = 512 };
    int32_t ids[N];
    int needed = 0;
    es_model *m;
    (void)state;
    for (int i = 0; i < N; i++)
        ids[i] = 7 + i * 977 % 4000;
    assert_ok(es_model_open(ES_TESTS_DIR "/../models/pebble", NULL, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int threads = 1; threads < 4; threads++) {
            double cache;
            const double plain = es_model_cost_of(c, ES_F32, N, threads, false).bytes;
            assert_ok(es_cache_memory(c, &settings[i], N, ES_F32, threads, &cache, &err));
            const double peak = (double)peak_of(m, &settings[i], ids, N, threads);
            assert_below(peak, plain + cache);
            needed += peak > plain;
        }
    assert_true(needed > 0);
    es_model_close(m);
}

/* What cannot be run is refused by its rule. */
static void refusals(void **state)
{
    static const struct {
        const char *text, *rule;
    } wrong[] = {{"snapkw", "evict.policy"},
                 {"snapkv:window", "evict.option"},
                 {"snapkv:recent=3", "evict.option"},
                 {"snapkv:kernel=4", "evict.option"},
                 {"snapkv:window=1.5", "evict.option"},
                 {"h2o:recent=-1", "evict.option"},
                 {"tova:scope=head", "evict.option"},
                 {"h2o:alpha=2", "evict.option"},
                 {"", "evict.policy"},
                 {"h2o:", "evict.option"}};
    es_evict_spec spec;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(es_evict_parse(wrong[i].text, &spec, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, wrong[i].rule);
    }
    assert_ok(es_evict_parse("snapkv", &spec, &err));
    assert_int_equal(es_evict_check(&spec, ES_EVICT_PROMPT, &err), ES_E_RANGE);
    spec.keys = 4;
    assert_ok(es_evict_check(&spec, ES_EVICT_PROMPT, &err));
    assert_int_equal(es_evict_check(&spec, ES_EVICT_DECODE, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "evict.mode");
}

/* Copies golden/decoders/qwen3 into the test's folder, with 1e9 as the first weight of layer 1's
 * values. */
static void write_large_values(void)
{
    static const char *const name = "\"model.layers.1.self_attn.v_proj.weight\"";
    static char bytes[1 << 20];
    FILE *file = fopen(golden_path("decoders/qwen3/config.json"), "rb");
    const size_t config = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    write_file("config.json", bytes, config);
    file = fopen(golden_path("decoders/qwen3/model.safetensors"), "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    const char *offsets = strstr(strstr(bytes + 8, name), "data_offsets") + strlen("data_offsets");
    const float large = 1e9f;
    memcpy(bytes + 8 + header + strtol(offsets + strcspn(offsets, "0123456789"), NULL, 10), &large,
           sizeof large);
    write_file("model.safetensors", bytes, size);
}

/* Numbers that a type cannot hold are named. A value of 1e9 x is above 127 times 65504, the most
 * that q8_0 holds, where |x| > .0084. */
static void KV02_numbers_out_of_range(void **state)
{
    static const int32_t ids[] = {3, 1, 4, 15};
    es_model *m;
    (void)state;
    write_large_values();
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F32}, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    float *logits = malloc(4 * (size_t)c->vocab * sizeof *logits);
    const char *const types[] = {"bf16", "f16", "q8_0", "kivi4"};
    for (int i = 0; i < 4; i++) {
        const es_cache_opts opts = {.k_type = types[i], .v_type = types[i]};
        es_cache *cache;
        assert_ok(es_cache_new(c, &opts, 4, NULL, &cache, &err));
        const es_model_block block = {.ids = ids, .n = 4, .token_logits = logits, .cache = cache};
        const es_status status = es_model_forward(m, &block, 1, &(es_exec){.threads = 1}, &err);
        es_cache_free(cache);
        if (i == 0) {
            assert_ok(status);
            continue;
        }
        assert_int_equal(status, ES_E_NONFINITE);
        assert_string_equal(err.rule, "cache.range");
        assert_int_equal(err.row, 0);
        assert_non_null(strstr(err.message, "layer 1, key-value head 0"));
        assert_non_null(strstr(err.message, types[i]));
    }
    free(logits);
    es_model_close(m);
}

/* Text of a policy is read as what it was written from. */
static void policies_as_text(void **state)
{
    static const char *const texts[] = {"stream",
                                        "snapkv:sinks=4:window=8:kernel=7:pooling=max",
                                        "tova:protect=0:scope=kv",
                                        "expected:eps=0.02",
                                        "expected:eps=0.30000000000000004",
                                        "random:seed=7",
                                        "h2o:alpha=0.2:beta=20"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        es_evict_spec spec, again;
        char text[200];
        assert_ok(es_evict_parse(texts[i], &spec, &err));
        es_evict_write(&spec, text, sizeof text);
        assert_ok(es_evict_parse(text, &again, &err));
        assert_true(es_evict_same(&spec, &again));
        assert_string_equal(text, texts[i]); /* and not alpha=0.20000000000000001 */
    }
    assert_ptr_equal(es_eviction_find("streamingllm"), es_eviction_find("stream"));
}

/* Appends a name to a list for help. */
static void append(char *list, size_t size, const char *name)
{
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

/* The names that help lists are those of the rows, and those of decode mode have one. */
static void help_lists_the_rows(void **state)
{
    char all[512] = "", decode[512] = "";
    (void)state;
    for (int64_t i = 0; es_eviction_at(i); i++) {
        append(all, sizeof all, es_eviction_name(es_eviction_at(i)));
        if (es_eviction_decodes(es_eviction_at(i)))
            append(decode, sizeof decode, es_eviction_name(es_eviction_at(i)));
    }
    assert_string_equal(ES_EVICTION_LIST, all);
    assert_string_equal(ES_EVICTION_DECODE_LIST, decode);
}

/* PyramidKV's numbers: by hand for 8 layers, 64 keys, beta 20, window 8, a prompt of 512: low 3.2
 * is below the window, so that all layers keep 64; with beta 4: 112 to 16 in steps of 96/7. */
static void pyramid_by_hand(void **state)
{
    static const int64_t want[] = {112, 98, 85, 71, 57, 43, 30, 16};
    (void)state;
    for (int64_t l = 0; l < 8; l++) {
        assert_int_equal(es_pyramid_keys(64, 20.0, 8, 512, l, 8), 64);
        assert_int_equal(es_pyramid_keys(64, 4.0, 8, 512, l, 8), want[l]);
    }
}

/* docs/CACHE.md has a row for every policy, and names every type. */
static void the_page_lists_everything(void **state)
{
    char path[4096], row[64];
    static char text[1 << 16];
    (void)state;
    snprintf(path, sizeof path, "%s/../docs/CACHE.md", ES_TESTS_DIR);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (int64_t i = 0; es_eviction_at(i); i++) {
        snprintf(row, sizeof row, "\n| %s |", es_eviction_name(es_eviction_at(i)));
        if (!strstr(text, row))
            fail_msg("docs/CACHE.md has no row of policy %s", es_eviction_name(es_eviction_at(i)));
    }
    for (int64_t i = 0; es_kv_type_at(i); i++)
        if (!strstr(text, es_kv_type_at(i)->name))
            fail_msg("docs/CACHE.md does not name %s", es_kv_type_at(i)->name);
}

TEST_FILE(cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_in_f64),
        cmocka_unit_test(prompt_in_f32),
        cmocka_unit_test(decode_in_f64),
        cmocka_unit_test(decode_in_f32),
        cmocka_unit_test(types_in_f64),
        cmocka_unit_test_setup_teardown(saved_sets_are_golden, make_folder, remove_folder),
        cmocka_unit_test(space_for_all_changes_nothing),
        cmocka_unit_test(oldest_first_is_a_window),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(memory_stays_within_its_bound),
        cmocka_unit_test(refusals),
        cmocka_unit_test_setup_teardown(KV02_numbers_out_of_range, make_folder, remove_folder),
        cmocka_unit_test(policies_as_text),
        cmocka_unit_test(help_lists_the_rows),
        cmocka_unit_test(pyramid_by_hand),
        cmocka_unit_test(the_page_lists_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
