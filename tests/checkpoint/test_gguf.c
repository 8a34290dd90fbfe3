/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf.c : headers of GGUF files and the numbers of their tensors. GG01 .. GG08 of the list of
 * bad inputs, as far as they are the format's. */
#include "testing.h"

#include "gguf_writer.h"

#include "base/half.h"
#include "base/memory.h"

static gguf_draft g;

/* Values of every type, two tensors: "a" (3, 2) f32 and "b" (64) Q8_0. */
static void write_good(gguf_draft *d)
{
    static const char *const words[] = {"", "b", "\xc3\xa9"};
    static const float numbers[] = {1, -2, 0.5f, 4, 5, 6};
    put_begin(d, 3, 2, 8);
    put_string(d, "general.architecture", "llama");
    put_u32(d, "general.alignment", 64);
    put_f32(d, "eps", 0.25f);
    put_flag(d, "yes", true);
    put_strings(d, "words", words, 3);
    put_array(d, "small", ES_GGUF_I8, 2);
    put_number(d, 0xff, 1);
    put_number(d, 5, 1);
    put_key(d, "wide", ES_GGUF_I64);
    put_number(d, (uint64_t)-7, 8);
    put_key(d, "real", ES_GGUF_F64);
    put_number(d, UINT64_C(0x3ff8000000000000), 8);
    put_tensor(d, "b", 64, 0, 8, 64);
    put_tensor(d, "a", 2, 3, 0, 0);
    put_padding(d, 64);
    put_bytes(d, numbers, sizeof numbers);
    put_padding(d, 64);
    for (int block = 0; block < 2; block++) {
        put_number(d, block ? 0xb800 : 0x0001, 2); /* -0.5; 2^-24, the least half */
        for (int i = 0; i < 32; i++)
            put_number(d, (uint64_t)(i - 16) * 8 & 0xff, 1);
    }
}

/* ---- what is read ---- */

static void values_are_found_by_their_keys(void **state)
{
    (void)state;
    write_good(&g);
    es_gguf *file = open_gguf(&g);
    const es_gguf_header *h = &file->header;
    const es_gguf_range any = {-100, 100, true};
    const es_gguf_value *array;
    es_gguf_text text = {0};
    int64_t whole = 0;
    double real = 0;
    bool flag = false;
    assert_int_equal(h->values_count, 8);
    assert_ok(es_gguf_string(h, "general.architecture", true, &text, &err));
    assert_true(es_gguf_text_is(text, "llama") && !es_gguf_text_is(text, "llam"));
    assert_ok(es_gguf_whole(h, "wide", any, &whole, &err));
    assert_int_equal(whole, -7);
    assert_ok(es_gguf_real(h, "eps", any, &real, &err));
    assert_near(real, 0.25, 0);
    assert_ok(es_gguf_real(h, "real", any, &real, &err));
    assert_near(real, 1.5, 0);
    assert_ok(es_gguf_real(h, "wide", any, &real, &err));
    assert_near(real, -7, 0);
    assert_ok(es_gguf_flag(h, "yes", &flag, &err));
    assert_true(flag);
    assert_ok(es_gguf_array(h, "small", true, ES_GGUF_I8, ES_GGUF_I8, &array, &err));
    assert_int_equal(array->count, 2);
    assert_near(es_gguf_number(h, array, 0), -1, 0);
    assert_near(es_gguf_number(h, array, 1), 5, 0);
    assert_ok(es_gguf_array(h, "words", true, ES_GGUF_STRING, ES_GGUF_STRING, &array, &err));
    size_t at = array->at;
    assert_true(es_gguf_text_is(es_gguf_next(h, &at), ""));
    assert_true(es_gguf_text_is(es_gguf_next(h, &at), "b"));
    assert_true(es_gguf_text_is(es_gguf_next(h, &at), "\xc3\xa9"));
    es_gguf_close(file);
}

static void tensors_are_in_c_order(void **state)
{
    (void)state;
    static const double want[] = {1, -2, 0.5, 4, 5, 6};
    write_good(&g);
    es_gguf *file = open_gguf(&g);
    const es_st_tensor *a = &file->header.tensors[0], *b = &file->header.tensors[1];
    double numbers[64];
    float singles[64];
    es_st_seen seen;
    assert_int_equal(file->header.count, 2);
    assert_string_equal(a->name, "a");
    assert_equals(a->rank, 2);
    assert_equals(a->shape[0], 3);
    assert_equals(a->shape[1], 2);
    assert_equals(a->count, 6);
    assert_ok(es_gguf_read(file, a, ES_F64, numbers, &seen, &err));
    for (int i = 0; i < 6; i++)
        assert_near(numbers[i], want[i], 0);
    assert_string_equal(b->dtype, "Q8_0");
    assert_ok(es_gguf_read(file, b, ES_F64, numbers, &seen, &err));
    assert_ok(es_gguf_read(file, b, ES_F32, singles, &seen, &err));
    assert_int_equal(seen.first, -1);
    for (int i = 0; i < 64; i++) {
        assert_near(numbers[i], (i < 32 ? 0x1p-24 : -0.5) * (i % 32 - 16) * 8, 0);
        assert_near((double)singles[i], numbers[i], 0);
    }
    es_gguf_close(file);
}

/* Every f16 scale and every 8-bit number: the product is an f32, so that none of them is rounded;
 * NaN and Inf are counted. */
static void q8_is_exact(void **state)
{
    (void)state;
    const es_gguf_type *type = es_gguf_type_of("Q8_0");
    for (unsigned half = 0; half < 65536; half++) {
        unsigned char raw[34] = {(unsigned char)half, (unsigned char)(half >> 8)};
        double scale = (double)es_half_to_float((uint16_t)half);
        float got[32];
        es_st_seen seen = {.first = -1};
        for (int i = 0; i < 32; i++)
            raw[2 + i] = (unsigned char)(half * 7 + (unsigned)i * 8 + (unsigned)i / 31);
        es_gguf_decode(type, raw, 100, 32, ES_F32, got, &seen);
        for (int i = 0; i < 32; i++) {
            const double want = scale * (double)(int8_t)raw[2 + i];
            if (isfinite(scale) ? (double)got[i] != want : isfinite(got[i]))
                fail_msg("scale %04x, %d: %g, expected %g", half, (int8_t)raw[2 + i],
                         (double)got[i], want);
        }
        assert_int_equal(seen.first, isfinite(scale) ? -1 : 100);
    }
}

/* Headers longer than what is read at first, and strings that lie across its end. */
static void long_headers_are_read_on(void **state)
{
    (void)state;
    enum { WORDS = 30000 };
    const char *path = in_folder("long.gguf");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    put_begin(&g, 2, 0, 1);
    put_array(&g, "words", ES_GGUF_STRING, WORDS);
    fwrite(g.bytes, 1, g.size, f);
    for (int i = 0; i < WORDS; i++) {
        char text[16];
        g.size = 0;
        snprintf(text, sizeof text, "w%d", i);
        put_text(&g, text);
        fwrite(g.bytes, 1, g.size, f);
    }
    assert_int_equal(fclose(f), 0);
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    const es_gguf_value *array;
    es_gguf *file;
    assert_ok(es_gguf_open(path, &opts, &file, &err));
    assert_ok(
        es_gguf_array(&file->header, "words", true, ES_GGUF_STRING, ES_GGUF_STRING, &array, &err));
    assert_int_equal(array->count, WORDS);
    size_t at = array->at;
    es_gguf_text text = {0};
    for (int i = 0; i < WORDS; i++)
        text = es_gguf_next(&file->header, &at);
    assert_true(es_gguf_text_is(text, "w29999"));
    assert_below(budget.used, 2 * file->parts[0].file.size);
    es_gguf_close(file);
    assert_int_equal(budget.used, 0);
}

/* ---- what is refused ---- */

static void GG01_other_files_and_versions(void **state)
{
    (void)state;
    write_good(&g);
    g.bytes[3] = 'X';
    refuse_gguf(&g, ES_E_FORMAT, "gguf.magic", 0);
    static const struct {
        uint32_t version;
        const char *rule, *word;
    } versions[] = {{1, "gguf.version", "version 1"},
                    {4, "gguf.version", "version 4"},
                    {0, "gguf.version", "version 0"},
                    {0x03000000, "gguf.endian", "big-endian"},
                    {0x02000000, "gguf.endian", "big-endian"}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        put_begin(&g, versions[i].version, 0, 0);
        refuse_gguf(&g, ES_E_UNSUPPORTED, versions[i].rule, 4);
        assert_non_null(strstr(err.message, versions[i].word));
    }
    g.size = 0;
    refuse_gguf(&g, ES_E_FORMAT, "gguf.magic", 0);
    assert_true(es_gguf_is(path_of_file)); /* by its name, so that opening it says what is wrong */
    assert_false(es_gguf_is(write_file("model.bin", "GGU", 3)));
    assert_true(es_gguf_is(write_file("model.bin", "GGUF", 4)));
    assert_false(es_gguf_is(in_folder("gone.gguf")));
    put_begin(&g, 2, 0, 0); /* nothing in it: fine, and so is version 2 */
    es_gguf_close(open_gguf(&g));
}

/* A limit of a few KB on memory: what is refused is refused before memory is asked for. */
static void GG02_absurd_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {UINT64_C(1) << 60, UINT64_MAX, UINT64_C(1) << 63, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int which = 0; which < 4; which++) {
            es_mem_limit budget = {.limit = 8192};
            const es_st_opts opts = {.budget = &budget};
            es_gguf *file;
            put_begin(&g, 3, which == 0 ? counts[i] : 0, which == 1 ? counts[i] : which > 1);
            if (which > 1)
                put_array(&g, "x", which == 2 ? ES_GGUF_STRING : ES_GGUF_U64, counts[i]);
            g.size += 64; /* zeros, or what was there */
            const es_status status = es_gguf_open(save_gguf(&g), &opts, &file, &err);
            assert_int_equal(status, ES_E_FORMAT);
            assert_string_equal(err.rule, which > 1 ? "gguf.array" : "gguf.counts");
            assert_int_equal(budget.used, 0);
        }
}

static void GG03_strings_and_arrays(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_C(1) << 63, 1000, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        put_begin(&g, 3, 0, 1); /* a key that is too long */
        put_number(&g, lengths[i], 8);
        put_bytes(&g, "abcdefghijklmnop", 16);
        refuse_gguf(&g, ES_E_FORMAT, "gguf.string", 24);
        put_begin(&g, 3, 0, 1); /* a value */
        put_key(&g, "k", ES_GGUF_STRING);
        put_number(&g, lengths[i], 8);
        refuse_gguf(&g, ES_E_FORMAT, "gguf.string", 37);
    }
    put_begin(&g, 3, 0, 1);
    put_array(&g, "k", ES_GGUF_ARRAY, 1);
    refuse_gguf(&g, ES_E_UNSUPPORTED, "gguf.nested", 37);
    put_begin(&g, 3, 0, 1);
    put_array(&g, "k", ES_GGUF_TYPES, 1);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.type", 37);
    put_begin(&g, 3, 0, 1);
    put_key(&g, "k", 99);
    put_number(&g, 0, 8);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.type", 33);
    put_begin(&g, 3, 0, 1);
    put_key(&g, "k", ES_GGUF_BOOL);
    put_number(&g, 2, 1);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.flag", 37);
    put_begin(&g, 3, 0, 1);
    put_string(&g, "", "x");
    refuse_gguf(&g, ES_E_FORMAT, "gguf.name", 24);
    put_begin(&g, 3, 0, 1);
    put_number(&g, 2, 8);
    put_bytes(&g, "a\0", 2);
    put_number(&g, ES_GGUF_U8, 5);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.string", 24);
}

/* Two tensors of 8 f32, at these offsets, in a file of that many bytes of data. */
static void write_two(uint64_t first, uint64_t second, size_t data)
{
    put_begin(&g, 3, 2, 0);
    put_tensor(&g, "a", 8, 0, 0, first);
    put_tensor(&g, "b", 8, 0, 0, second);
    put_padding(&g, 32);
    for (size_t i = 0; i < data; i++)
        put_number(&g, 0, 1);
}

static void GG04_places_of_tensors(void **state)
{
    (void)state;
    const es_st_opts lax = {.allow_trailing = true};
    es_gguf *file;
    write_two(0, 32, 64);
    es_gguf_close(open_gguf(&g));
    write_two(32, 0, 64); /* in any order */
    es_gguf_close(open_gguf(&g));
    write_two(0, 33, 96);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.offset", -2);
    write_two(0, 0, 64);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.overlap", -2);
    write_two(0, 32, 63);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.range", -2);
    write_two(0, UINT64_MAX - 31, 64);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.range", -2);
    write_two(0, UINT64_C(1) << 63, 64);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.range", -2);
    write_two(0, 96, 128);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.hole", -2);
    write_two(0, 32, 96);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.trailing", -2);
    assert_ok(es_gguf_open(path_of_file, &lax, &file, &err));
    es_gguf_close(file);
    static const uint32_t alignments[] = {0, 3, 48, 0xffffffff};
    for (int i = 0; i < 4; i++) {
        put_begin(&g, 3, 0, 1);
        put_u32(&g, "general.alignment", alignments[i]);
        refuse_gguf(&g, ES_E_FORMAT, i < 3 ? "gguf.alignment" : "gguf.value", 53);
    }
    put_begin(&g, 3, 0, 1);
    put_string(&g, "general.alignment", "32");
    refuse_gguf(&g, ES_E_FORMAT, "gguf.value", 53);
}

/* A tensor with these dimensions and this type; what follows is not looked at. */
static void write_shape(int rank, const uint64_t *shape, uint32_t type)
{
    put_begin(&g, 3, 1, 0);
    put_text(&g, "t");
    put_number(&g, (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++)
        put_number(&g, shape[i], 8);
    put_number(&g, type, 4);
    put_number(&g, 0, 8);
    g.size += 64;
}

static void GG05_shapes(void **state)
{
    (void)state;
    const uint64_t five[] = {1, 1, 1, 1, 1}, zero[] = {4, 0},
                   huge[] = {1u << 31, 1u << 31, 1u << 31}, wide[] = {UINT64_MAX},
                   large[] = {UINT64_C(1) << 62}, odd[] = {48, 2}, whole[] = {320, 16};
    write_shape(0, five, 0);
    g.size += 64;
    refuse_gguf(&g, ES_E_FORMAT, "gguf.dimensions", 33);
    write_shape(5, five, 0);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.dimensions", 33);
    write_shape(2, zero, 0);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.dimensions", -2);
    write_shape(3, huge, 0);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.overflow", -2);
    write_shape(1, wide, 0);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.overflow", -2);
    write_shape(1, large, 0); /* so many numbers could be counted, but not their bytes */
    refuse_gguf(&g, ES_E_FORMAT, "gguf.overflow", -2);
    write_shape(2, odd, 8);
    refuse_gguf(&g, ES_E_FORMAT, "gguf.block", -2);
    assert_non_null(strstr(err.message, "blocks of 32"));
    write_shape(2, whole, 12); /* the tensor has 20 whole blocks, its rows have not */
    refuse_gguf(&g, ES_E_FORMAT, "gguf.block", -2);
}

/* Such a file can be opened and its tensors listed; only reading one is an error. */
static void GG06_types_that_are_not_read(void **state)
{
    (void)state;
    double numbers[256];
    put_begin(&g, 3, 1, 0);
    put_tensor(&g, "blk.0.attn_q.weight", 256, 0, 26, 0);
    put_padding(&g, 32);
    for (int i = 0; i < 256; i++)
        put_number(&g, 0, 4);
    es_gguf *file = open_gguf(&g);
    assert_string_equal(file->header.tensors[0].dtype, "I32");
    assert_int_equal(es_gguf_read(file, &file->header.tensors[0], ES_F64, numbers, NULL, &err),
                     ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "gguf.kind");
    assert_non_null(strstr(err.message, "I32"));
    assert_non_null(strstr(err.hint, "Q4_K"));
    assert_non_null(strstr(err.message, "blk.0.attn_q.weight"));
    es_gguf_close(file);
    static const uint32_t unknown[] = {4, 5, 9, 15, 31, 33, 36, 38, 43, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        put_begin(&g, 3, 1, 0);
        put_tensor(&g, "t", 32, 0, unknown[i], 0);
        refuse_gguf(&g, ES_E_UNSUPPORTED, "gguf.kind", -2);
        assert_non_null(strstr(err.message, "'t'"));
    }
}

static void GG07_keys_and_names_twice_missing_or_of_another_type(void **state)
{
    (void)state;
    put_begin(&g, 3, 0, 3);
    put_u32(&g, "k", 1);
    put_u32(&g, "ka", 1);
    put_string(&g, "k", "1");
    refuse_gguf(&g, ES_E_FORMAT, "gguf.duplicate", 24 + 17 + 18 + 8);
    put_begin(&g, 3, 2, 0);
    put_tensor(&g, "t", 8, 0, 0, 0);
    put_tensor(&g, "t", 8, 0, 0, 32);
    put_padding(&g, 32);
    g.size += 64;
    refuse_gguf(&g, ES_E_FORMAT, "gguf.duplicate", -2);
    write_good(&g);
    es_gguf *file = open_gguf(&g);
    const es_gguf_header *h = &file->header;
    const es_gguf_range narrow = {0, 10, true}, free_ = {0, 10, false};
    const es_gguf_value *array;
    es_gguf_text text;
    int64_t whole = 3;
    double real = 3;
    bool flag = true;
    static const char *const wrong[] = {"eps", "yes", "words", "general.architecture", "wide"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(es_gguf_whole(h, wrong[i], narrow, &whole, &err), ES_E_FORMAT);
        assert_string_equal(err.rule, "gguf.value");
        assert_non_null(strstr(err.message, wrong[i]));
    }
    assert_int_equal(es_gguf_whole(h, "gone", narrow, &whole, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "gguf.missing");
    assert_non_null(strstr(err.message, "gone"));
    assert_ok(es_gguf_whole(h, "gone", free_, &whole, &err));
    assert_ok(es_gguf_real(h, "gone", free_, &real, &err));
    assert_ok(es_gguf_flag(h, "gone", &flag, &err));
    assert_int_equal(whole, 3);
    assert_equals(real, 3);
    assert_true(flag);
    assert_int_equal(es_gguf_real(h, "yes", narrow, &real, &err), ES_E_FORMAT);
    assert_int_equal(es_gguf_flag(h, "wide", &flag, &err), ES_E_FORMAT);
    assert_int_equal(es_gguf_string(h, "eps", false, &text, &err), ES_E_FORMAT);
    assert_int_equal(es_gguf_string(h, "gone", true, &text, &err), ES_E_FORMAT);
    assert_int_equal(es_gguf_array(h, "words", true, ES_GGUF_I32, ES_GGUF_U32, &array, &err),
                     ES_E_FORMAT);
    assert_int_equal(es_gguf_array(h, "gone", true, ES_GGUF_I32, ES_GGUF_U32, &array, &err),
                     ES_E_FORMAT);
    es_gguf_close(file);
}

/* Numbers twice as a hundred thousand keys: sorted, not compared each with each. */
static void GG07_many_keys_take_little_time(void **state)
{
    (void)state;
    enum { KEYS = 100000, SIZE = 24 + KEYS * 22 };
    unsigned char *bytes = malloc(SIZE), *p = bytes + 24;
    assert_non_null(bytes);
    put_begin(&g, 3, 0, KEYS);
    memcpy(bytes, g.bytes, 24);
    for (int i = 0; i < KEYS; i++, p += 22) {
        char key[10];
        g.size = 0;
        snprintf(key, sizeof key, "k%08d", i == KEYS - 1 ? 17 : i);
        put_text(&g, key);
        put_number(&g, ES_GGUF_U8, 4);
        put_number(&g, 0, 1);
        memcpy(p, g.bytes, 22);
    }
    es_gguf_header header;
    uint64_t want;
    const es_st_opts opts = {0};
    assert_int_equal(es_gguf_parse(bytes, SIZE, SIZE, "x", &opts, &header, &want, &err),
                     ES_E_FORMAT);
    assert_string_equal(err.rule, "gguf.duplicate");
    assert_int_equal(err.offset, SIZE - 22 + 8);
    es_gguf_header_free(&header);
    free(bytes);
}

/* ---- cut and flipped ---- */

/* Open from memory, and read all there is. What is refused has a record. */
static bool survive(const unsigned char *bytes, size_t size)
{
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    es_gguf_header header;
    uint64_t want;
    unsigned char *copy = malloc(size ? size : 1); /* exactly so large, for AddressSanitizer */
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    err = (es_error){0};
    const es_status status = es_gguf_parse(copy, size, size, "x", &opts, &header, &want, &err);
    assert_int_equal(want, 0);
    if (status != ES_OK) {
        assert_int_equal(err.code, status);
        assert_true(err.rule[0] && err.message[0] && err.hint[0]);
    }
    for (int64_t i = 0; status == ES_OK && i < header.count; i++) {
        const es_st_tensor *t = &header.tensors[i];
        const es_gguf_type *type = es_gguf_type_of(t->dtype);
        es_st_seen seen = {.first = -1};
        assert_at_most(t->offset + t->bytes, size);
        double *numbers = malloc((size_t)t->count * sizeof *numbers);
        assert_non_null(numbers);
        if (type->decode)
            es_gguf_decode(type, copy + t->offset, 0, t->count, ES_F64, numbers, &seen);
        free(numbers);
    }
    es_gguf_header_free(&header);
    free(copy);
    assert_int_equal(budget.used, 0);
    return status == ES_OK;
}

static void GG08_cut_at_every_byte(void **state)
{
    (void)state;
    write_good(&g);
    assert_true(survive(g.bytes, g.size));
    for (size_t size = 0; size < g.size; size++)
        if (survive(g.bytes, size))
            fail_msg("cut to %zu of %zu bytes it is read all the same", size, g.size);
}

static void GG08_every_bit_flipped(void **state)
{
    (void)state;
    write_good(&g);
    int read = 0;
    for (size_t bit = 0; bit < 8 * g.size && bit < 8 * 4096; bit++) {
        g.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        read += survive(g.bytes, g.size);
        g.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_between(read, 0, (int)(8 * g.size)); /* data and texts may be anything */
}

/* What is here is a beginning: either it is said how much is needed, or what the whole would give.
 */
static void a_part_of_a_header_says_what_it_needs(void **state)
{
    (void)state;
    const es_st_opts opts = {0};
    es_gguf_header header;
    uint64_t want, end;
    write_good(&g);
    assert_ok(es_gguf_parse(g.bytes, g.size, g.size, "x", &opts, &header, &want, &err));
    end = header.end;
    es_gguf_header_free(&header);
    for (size_t have = 0; have < end; have++) {
        es_gguf_parse(g.bytes, have, g.size, "x", &opts, &header, &want, &err);
        assert_above(want, have);
        assert_at_most(want, end);
        es_gguf_header_free(&header);
    }
    assert_ok(es_gguf_parse(g.bytes, end, g.size, "x", &opts, &header, &want, &err));
    es_gguf_header_free(&header);
}

TEST_FILE(gguf)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_their_keys),
        cmocka_unit_test(tensors_are_in_c_order),
        cmocka_unit_test(q8_is_exact),
        cmocka_unit_test(long_headers_are_read_on),
        cmocka_unit_test(GG01_other_files_and_versions),
        cmocka_unit_test(GG02_absurd_counts),
        cmocka_unit_test(GG03_strings_and_arrays),
        cmocka_unit_test(GG04_places_of_tensors),
        cmocka_unit_test(GG05_shapes),
        cmocka_unit_test(GG06_types_that_are_not_read),
        cmocka_unit_test(GG07_keys_and_names_twice_missing_or_of_another_type),
        cmocka_unit_test(GG07_many_keys_take_little_time),
        cmocka_unit_test(GG08_cut_at_every_byte),
        cmocka_unit_test(GG08_every_bit_flipped),
        cmocka_unit_test(a_part_of_a_header_says_what_it_needs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
