/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_types.c : decoded blocks of every GGUF type against those of llama.cpp
 * (tests/golden/gguf/blocks and tables; tests/golden/README.md says how they were made). */
#include "golden.h"

#include "checkpoint/gguf_types.h"

enum { BLOCKS_MOST = 48, IDS_MOST = 64 };

/* Reads the last `size` bytes of a file below tests/golden/gguf, or of a .npy file all its
 * numbers. */
static void read_end(const char *folder, const char *name, const char *end, void *out, size_t size)
{
    char rest[64];
    snprintf(rest, sizeof rest, "gguf/%s/%s%s", folder, name, end);
    FILE *f = fopen(golden_path(rest), "rb");
    if (!f)
        fail_msg("%s is missing: a type needs golden blocks", golden_path(rest));
    assert_int_equal(fseek(f, -(long)size, SEEK_END), 0);
    assert_int_equal(fread(out, 1, size, f), size);
    fclose(f);
}

/* ---- values ---- */

static unsigned char raw[BLOCKS_MOST * ES_GGUF_BLOCK];
static float want[BLOCKS_MOST * ES_GGUF_BLOCK], got[BLOCKS_MOST * ES_GGUF_BLOCK];
static double wide[BLOCKS_MOST * ES_GGUF_BLOCK];

static void check_bits(const es_gguf_type *type, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t a, b;
        memcpy(&a, &want[i], sizeof a);
        memcpy(&b, &got[i], sizeof b);
        if (a != b)
            fail_msg("%s: number %d of block %d is %.9g (%08x), expected %.9g (%08x)", type->name,
                     (int)(i % type->numbers), (int)(i / type->numbers), (double)got[i], b,
                     (double)want[i], a);
    }
}

/* Blocks of random bits: a quarter of the scales is subnormal, half of them are negative. The bits
 * are equal, those of zeros included. A type without golden blocks fails. */
static void blocks_of_every_type_are_those_of_llama_cpp(void **state)
{
    (void)state;
    int types = 0;
    for (uint64_t id = 0; id < IDS_MOST; id++) {
        const es_gguf_type *type = es_gguf_type_at(id);
        if (!type || type->numbers == 1)
            continue;
        const int64_t blocks = type->numbers == 256 ? 16 : 48, count = blocks * type->numbers;
        es_st_seen seen = {.first = -1};
        read_end("blocks", type->name, ".bin", raw, (size_t)(blocks * type->bytes));
        read_end("blocks", type->name, ".npy", want, (size_t)count * sizeof *want);
        type->decode(raw, blocks, got);
        check_bits(type, count);
        memset(got, 0, sizeof got);
        es_gguf_decode(type, raw, 0, count, ES_F32, got, &seen);
        check_bits(type, count);
        assert_int_equal(seen.first, -1);
        es_gguf_decode(type, raw, 0, count, ES_F64, wide, &seen);
        for (int64_t i = 0; i < count; i++)
            assert_equals(wide[i], (double)want[i]);
        types++;
    }
    assert_int_equal(types, 25);
}

/* Blocks reach only some entries of the grids: here are all of them. */
static void grids_are_those_of_llama_cpp(void **state)
{
    (void)state;
    static const signed char one[] = {-1, 0, 1}, two[] = {8, 25, 43},
                             three[] = {4, 12, 20, 28, 36, 44, 52, 62},
                             odd[] = {1, 3, 5, 7, 9, 11, 13, 15};
    static const struct {
        const char *name;
        const uint16_t *grid;
        int entries, width; /* numbers of an entry */
        const signed char *values;
    } grids[] = {{"iq1", es_gguf_grid_iq1, 2048, 8, one},
                 {"iq2xxs", es_gguf_grid_iq2xxs, 256, 8, two},
                 {"iq2xs", es_gguf_grid_iq2xs, 512, 8, two},
                 {"iq2s", es_gguf_grid_iq2s, 1024, 8, two},
                 {"iq3xxs", es_gguf_grid_iq3xxs, 256, 4, three},
                 {"iq3s", es_gguf_grid_iq3s, 512, 4, odd}};
    static signed char numbers[2048 * 8];
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        const int width = grids[g].width, bits = width == 8 ? 2 : 3;
        read_end("tables", grids[g].name, ".npy", numbers, (size_t)(grids[g].entries * width));
        for (int i = 0; i < grids[g].entries * width; i++) {
            const int code = grids[g].grid[i / width] >> bits * (i % width) & ((1 << bits) - 1);
            if (bits == 2)
                assert_below(code, 3);
            if (grids[g].values[code] != numbers[i])
                fail_msg("%s: number %d of entry %d is %d, expected %d", grids[g].name, i % width,
                         i / width, grids[g].values[code], numbers[i]);
        }
        assert_int_equal(grids[g].grid[grids[g].entries - 1] >> bits * width, 0);
    }
}

/* All numbers of 16 bits, NaN and Inf included, against base/half.h. */
static void f16_and_bf16_are_exact(void **state)
{
    (void)state;
    static uint16_t halves[65536];
    static float numbers[65536];
    for (int i = 0; i < 65536; i++)
        halves[i] = (uint16_t)i;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        es_st_seen seen = {.first = -1};
        es_gguf_decode(es_gguf_type_of(bf16 ? "BF16" : "F16"), (const unsigned char *)halves, 7,
                       65536, ES_F32, numbers, &seen);
        for (int i = 0; i < 65536; i++) {
            const float expected = bf16 ? es_bf16_to_float(halves[i]) : es_half_to_float(halves[i]);
            if (memcmp(&expected, &numbers[i], sizeof expected) != 0)
                fail_msg("%04x is %g, expected %g", i, (double)numbers[i], (double)expected);
        }
        assert_int_equal(seen.infinities, 2);
        assert_int_equal(seen.nans, bf16 ? 2 * 127 : 2 * 1023);
        assert_int_equal(seen.subnormals, bf16 ? 2 * 127 : 2 * 1023);
        assert_int_equal(seen.first, 7 + (bf16 ? 0x7f80 : 0x7c00));
    }
}

/* ---- what is not finite ---- */

/* The bytes that make the scale of a block NaN, in each type that has an f16 or f8 scale. */
static void GG10_scales_that_are_not_finite(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int at; /* of the scale in its block */
    } scales[] = {{"Q4_0", 0},   {"Q4_1", 0},    {"Q4_1", 2},   {"Q5_0", 0},   {"Q5_1", 0},
                  {"Q5_1", 2},   {"Q8_0", 0},    {"IQ4_NL", 0}, {"Q1_0", 0},   {"Q2_0", 0},
                  {"Q2_K", 80},  {"Q2_K", 82},   {"Q3_K", 108}, {"Q4_K", 0},   {"Q4_K", 2},
                  {"Q5_K", 0},   {"Q5_K", 2},    {"Q6_K", 208}, {"IQ4_XS", 0}, {"TQ1_0", 52},
                  {"TQ2_0", 64}, {"IQ2_XXS", 0}, {"IQ2_XS", 0}, {"IQ2_S", 0},  {"IQ3_XXS", 0},
                  {"IQ3_S", 0},  {"IQ1_S", 0}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        for (int infinite = 0; infinite < 2; infinite++) {
            const es_gguf_type *type = es_gguf_type_of(scales[i].type);
            unsigned char *scale = raw + type->bytes + scales[i].at;
            es_st_seen seen = {.first = -1};
            read_end("blocks", type->name, ".bin", raw, (size_t)(3 * type->bytes));
            scale[0] = 0;
            scale[1] = infinite ? 0x7c : 0x7e;
            es_gguf_decode(type, raw, 1000, 3 * type->numbers, ES_F64, wide, &seen);
            assert_int_equal(seen.nans + seen.infinities, type->numbers);
            assert_int_equal(seen.first, 1000 + type->numbers);
        }
}

/* IQ1_M has its scale in pieces. Of MXFP4 the exponent 255 is NaN, and 0 is no flush to zero. */
static void GG10_other_scales_that_are_not_finite(void **state)
{
    (void)state;
    es_st_seen seen = {.first = -1};
    memset(raw, 0, sizeof raw);
    raw[55] = 0x70;
    raw[53] = 0xe0; /* bits 0x7e00 */
    es_gguf_decode(es_gguf_type_of("IQ1_M"), raw, 0, 256, ES_F32, got, &seen);
    assert_int_equal(seen.nans, 256);
    seen = (es_st_seen){.first = -1};
    memset(raw, 0x77, sizeof raw);
    raw[0] = 0;
    raw[17] = 255;
    es_gguf_decode(es_gguf_type_of("MXFP4"), raw, 0, 64, ES_F32, got, &seen);
    assert_int_equal(seen.nans, 32);
    assert_int_equal(seen.first, 32);
    assert_equals(got[0], 12 * 0x1p-128f);
    assert_above(got[0], 0);
    assert_int_equal(seen.subnormals, 0);
    raw[1] = 0x11; /* 1 * 2^-128 */
    es_gguf_decode(es_gguf_type_of("MXFP4"), raw, 0, 32, ES_F32, got, &seen);
    assert_int_equal(seen.subnormals, 2);
}

/* ---- the list ---- */

static void ids_that_are_not_in_use_have_no_type(void **state)
{
    (void)state;
    static const uint64_t unused[] = {4, 5, 9, 15, 31, 32, 33, 36, 37, 38, 43, 99, UINT32_MAX};
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
        assert_null(es_gguf_type_at(unused[i]));
    assert_null(es_gguf_type_of("Q8_K"));
    assert_null(es_gguf_type_of(""));
}

static void the_hint_names_every_type_that_is_read(void **state)
{
    (void)state;
    char hint[ES_GGUF_HINT], word[16];
    es_gguf_types_hint(hint);
    for (uint64_t id = 0; id < IDS_MOST; id++) {
        const es_gguf_type *type = es_gguf_type_at(id);
        if (!type)
            continue;
        assert_ptr_equal(es_gguf_type_of(type->name), type);
        snprintf(word, sizeof word, " %s", type->name);
        const char *found = strstr(hint, word);
        assert_true(!type->decode == !found);
        assert_true(!found || found[strlen(word)] == ' ' || !found[strlen(word)]);
    }
    assert_below(strlen(hint), sizeof err.hint);
}

/* docs/MODELS.md names every type that is read. */
static void the_document_names_every_type_that_is_read(void **state)
{
    (void)state;
    static char text[1 << 17], word[16];
    FILE *f = fopen(ES_TESTS_DIR "/../docs/MODELS.md", "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_true(feof(f));
    fclose(f);
    static const char begin[] = "| types of tensors |";
    const char *row = strstr(text, begin);
    assert_non_null(row);
    row += strlen(begin);
    *strchr(row, '|') = '\0'; /* the end of what is read */
    for (uint64_t id = 0; id < IDS_MOST; id++) {
        const es_gguf_type *type = es_gguf_type_at(id);
        snprintf(word, sizeof word, " %s", type ? type->name : "");
        const char *found = type ? strstr(row, word) : NULL;
        if (type && type->decode && !(found && strchr(",; ", found[strlen(word)])))
            fail_msg("docs/MODELS.md does not name %s", type->name);
    }
}

TEST_FILE(gguf_types)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_every_type_are_those_of_llama_cpp),
        cmocka_unit_test(grids_are_those_of_llama_cpp),
        cmocka_unit_test(f16_and_bf16_are_exact),
        cmocka_unit_test(GG10_scales_that_are_not_finite),
        cmocka_unit_test(GG10_other_scales_that_are_not_finite),
        cmocka_unit_test(ids_that_are_not_in_use_have_no_type),
        cmocka_unit_test(the_hint_names_every_type_that_is_read),
        cmocka_unit_test(the_document_names_every_type_that_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
