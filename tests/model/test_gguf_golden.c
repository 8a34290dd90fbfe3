/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_golden.c : whole models in quantised GGUF files that llama.cpp wrote
 * (tests/golden/README.md): rows of their matrices, and logits of 24 tokens. */
#include "golden.h"
#include "folder.h"

#include <esscher/model.h>
#include <esscher/npy.h>

#include "model/gguf_model.h"

enum { N = 24, VOCAB = 320, ROW_MOST = 1024 };

static const int32_t usual_ids[N] = {0,   214, 257, 8,  258, 150, 165, 202, 92,  313, 18,  89,
                                     123, 183, 131, 42, 15,  1,   16,  48,  319, 61,  209, 240};

static const int32_t gemma3_ids[N] = {2,   272, 274, 282, 273, 310, 269, 306, 301, 303, 266, 280,
                                      292, 285, 294, 295, 294, 263, 309, 288, 306, 274, 278, 305};

/* Returns the path of a file of tests/golden/gguf. Valid until the next call. */
static const char *file_of(const char *model, const char *end)
{
    char rest[64];
    snprintf(rest, sizeof rest, "gguf/%s%s", model, end);
    return golden_path(rest);
}

/* ---- logits ---- */

static double logits[N * VOCAB];

/* Runs a model on the 24 tokens; leaves the logits as f64. */
static void run_model(const char *model, es_dtype precision)
{
    static float singles[N * VOCAB];
    const es_model_opts opts = {.precision = precision};
    es_model *m;
    assert_ok(es_model_open(file_of(model, ".gguf"), &opts, &m, &err));
    assert_int_equal(es_model_config_of(m)->vocab, VOCAB);
    const bool gemma3 = strncmp(model, "gemma3/", 7) == 0;
    es_model_block block = {.ids = gemma3 ? gemma3_ids : usual_ids, .n = N};
    block.token_logits = precision == ES_F64 ? (void *)logits : (void *)singles;
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    for (int i = 0; precision == ES_F32 && i < N * VOCAB; i++)
        logits[i] = (double)singles[i];
    es_model_close(m);
}

/* Returns the largest difference from the reference, over the largest number of the reference. */
static double difference(const es_array *want)
{
    const float *w = want->data;
    double scale = 0, most = 0;
    for (int i = 0; i < N * VOCAB; i++) {
        scale = fmax(scale, fabs((double)w[i]));
        most = fmax(most, fabs(logits[i] - (double)w[i]));
    }
    return most / scale;
}

/* The reference is a forward pass in f64 on the decoded numbers, rounded to f32: 6e-8 of the
 * largest, so f64 is held to 1e-6 (measured: 5e-8). f32 adds the errors of the sums in a layer
 * (measured: 2e-6). */
static void check_logits(const char *model)
{
    es_array want;
    assert_ok(es_npy_load(file_of(model, ".logits.npy"), NULL, &want, &err));
    assert_int_equal(want.shape[0] * want.shape[1], N * VOCAB);
    run_model(model, ES_F64);
    assert_below(difference(&want), 1e-6);
    run_model(model, ES_F32);
    assert_below(difference(&want), 2e-5);
    es_array_free(&want);
}

static void logits_of_every_file_are_those_of_the_reference(void **state)
{
    (void)state;
    static const char *const models[] = {
        "narrow/Q4_0",  "narrow/Q4_1",     "narrow/Q5_0", "narrow/Q5_1", "narrow/IQ4_NL",
        "narrow/MXFP4", "narrow/NVFP4",    "wide/Q4_K_M", "wide/IQ1_S",  "wide/IQ2_XXS",
        "wide/TQ1_0",   "wide/qwen3-Q4_K", "gemma3/F32"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_logits(models[i]);
}

/* ---- rows ---- */

static const es_st_tensor *find(const es_gguf *g, const char *name)
{
    for (int64_t i = 0; i < g->header.count; i++)
        if (strcmp(g->header.tensors[i].name, name) == 0)
            return &g->header.tensors[i];
    fail_msg("there is no tensor %s", name);
    return NULL;
}

static void check_row(const es_gguf *g, const es_st_tensor *t, int64_t row, const float *want,
                      int64_t count)
{
    float got[ROW_MOST];
    es_st_seen seen = {.first = -1};
    assert_int_equal(t->shape[1], count);
    assert_ok(es_gguf_read_rows(g, t, row, 1, ES_F32, got, &seen, &err));
    if (memcmp(got, want, (size_t)count * sizeof *got) != 0)
        fail_msg("row %d of %s (%s) differs", (int)row, t->name, t->dtype);
}

/* Compares rows as they lie in the file, and those of queries and keys where a checkpoint has them
 * ("hf_row"), bit for bit. */
static void check_rows(const char *model)
{
    es_array want;
    es_gguf *g, *adopted;
    es_model_config config;
    char name[64];
    snprintf(name, sizeof name, "gguf/%s.json", model);
    json_t *all = golden_file(name), *rows = json_object_get(all, "rows"), *row;
    size_t i;
    assert_ok(es_npy_load(file_of(model, ".rows.npy"), NULL, &want, &err));
    assert_ok(es_gguf_open(file_of(model, ".gguf"), NULL, &g, &err));
    assert_ok(es_gguf_open(file_of(model, ".gguf"), NULL, &adopted, &err));
    assert_ok(es_gguf_config(adopted, &config, &err));
    assert_ok(es_gguf_adopt(adopted, &config, &err));
    assert_at_least(json_array_size(rows), 20);
    json_array_foreach(rows, i, row)
    {
        const char *tensor = json_string_value(json_object_get(row, "tensor"));
        const float *numbers = (const float *)want.data + (int64_t)golden_real(row, "at");
        const int64_t count = (int64_t)golden_real(row, "count");
        const es_st_tensor *t = find(g, tensor);
        assert_string_equal(t->dtype, json_string_value(json_object_get(row, "type")));
        check_row(g, t, (int64_t)golden_real(row, "row"), numbers, count);
        const char *dot = strrchr(tensor, '_');
        if (dot && (strcmp(dot, "_q.weight") == 0 || strcmp(dot, "_k.weight") == 0)) {
            snprintf(name, sizeof name, "model.layers.%ld.self_attn.%c_proj.weight",
                     strtol(tensor + 4, NULL, 10), dot[1]);
            check_row(adopted, find(adopted, name), (int64_t)golden_real(row, "hf_row"), numbers,
                      count);
        }
    }
    es_gguf_close(adopted);
    es_gguf_close(g);
    es_array_free(&want);
    json_decref(all);
}

static void rows_of_matrices_are_those_of_llama_cpp(void **state)
{
    (void)state;
    check_rows("narrow/Q4_0");
    check_rows("wide/Q4_K_M");
    check_rows("wide/qwen3-Q4_K");
}

/* ---- numbers that are not finite ---- */

static void GG10_scales_that_are_not_finite_refuse_the_model(void **state)
{
    (void)state;
    static unsigned char bytes[1 << 19];
    es_model *m;
    FILE *f = fopen(file_of("wide/Q4_K_M", ".gguf"), "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_below(size, sizeof bytes);
    es_gguf *g;
    assert_ok(es_gguf_open(file_of("wide/Q4_K_M", ".gguf"), NULL, &g, &err));
    const uint64_t at = find(g, "blk.0.ffn_up.weight")->offset;
    es_gguf_close(g);
    bytes[at + 2] = 0; /* the minimum of the first block */
    bytes[at + 3] = 0x7c;
    assert_int_equal(es_model_open(write_file("x.gguf", bytes, size), NULL, &m, &err),
                     ES_E_NONFINITE);
    assert_string_equal(err.rule, "model.finite");
    assert_non_null(strstr(err.message, "256 infinite"));
}

/* ---- files that must be refused ---- */

typedef struct file_bytes {
    unsigned char bytes[1 << 17];
    size_t size;
} file_bytes;

static void read_bytes(const char *model, file_bytes *out)
{
    FILE *f = fopen(file_of(model, ".gguf"), "rb");
    assert_non_null(f);
    out->size = fread(out->bytes, 1, sizeof out->bytes, f);
    assert_below(out->size, sizeof out->bytes);
    fclose(f);
}

/* Puts bytes that are written in hex at `at`; returns how many. */
static size_t put_hex(unsigned char *at, const char *hex)
{
    for (size_t i = 0; hex[2 * i]; i++) {
        const char two[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        at[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    return strlen(hex) / 2;
}

/* Opening must fail with this rule. */
static void refuse_bytes(const file_bytes *file, const char *name, const char *rule)
{
    es_model *m;
    es_mem_limit budget = {0};
    const es_model_opts opts = {.budget = &budget};
    const es_status got =
        es_model_open(write_file("x.gguf", file->bytes, file->size), &opts, &m, &err);
    if (got == ES_OK || strcmp(err.rule, rule) != 0)
        fail_msg("%s: %s %s, expected %s", name, es_status_name(got), err.rule, rule);
    assert_true(err.hint[0] && err.message[0]);
    assert_int_equal(budget.used, 0);
}

/* A file is the front of a base, some bytes, and the back of the base. */
static void GG11_hostile_files_are_refused_by_their_rules(void **state)
{
    (void)state;
    static file_bytes base, file;
    json_t *list = golden_file("gguf/bad/list.json"), *row;
    size_t i;
    assert_int_equal(json_array_size(list), 55);
    json_array_foreach(list, i, row)
    {
        char model[16];
        const size_t front = (size_t)golden_real(row, "front"),
                     back = (size_t)golden_real(row, "back");
        snprintf(model, sizeof model, "bad/base%d", (int)golden_real(row, "base"));
        read_bytes(model, &base);
        memcpy(file.bytes, base.bytes, front);
        file.size =
            front + put_hex(file.bytes + front, json_string_value(json_object_get(row, "put")));
        memcpy(file.bytes + file.size, base.bytes + base.size - back, back);
        file.size += back;
        refuse_bytes(&file, json_string_value(json_object_get(row, "name")),
                     json_string_value(json_object_get(row, "rule")));
    }
    json_decref(list);
}

/* Scales of the first block of a matrix that are infinite, and the exponent 255 of MXFP4. */
static void GG10_scales_of_single_blocks_that_are_not_finite(void **state)
{
    (void)state;
    static const struct {
        const char *model, *put;
        size_t at;
    } patches[] = {{"narrow/Q4_0", "007c", 52000},
                   {"narrow/Q4_1", "00fc", 56866},
                   {"narrow/MXFP4", "ff", 49568}};
    static file_bytes file;
    for (size_t i = 0; i < 3; i++) {
        read_bytes(patches[i].model, &file);
        put_hex(file.bytes + patches[i].at, patches[i].put);
        refuse_bytes(&file, patches[i].model, "model.finite");
    }
}

TEST_FILE(gguf_golden)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_every_file_are_those_of_the_reference),
        cmocka_unit_test(rows_of_matrices_are_those_of_llama_cpp),
        cmocka_unit_test(GG10_scales_that_are_not_finite_refuse_the_model),
        cmocka_unit_test(GG10_scales_of_single_blocks_that_are_not_finite),
        cmocka_unit_test(GG11_hostile_files_are_refused_by_their_rules),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
