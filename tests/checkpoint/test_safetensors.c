/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c : tensors, files and shards of safetensors. ST28 .. ST36; what headers may
 * hold is in test_safetensors_header.c. */
#include "testing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "checkpoint/safetensors_inside.h"
#include "st_writer.h"

/* ---- what is read ---- */

static void tensors_are_listed_by_name_and_read(void **state)
{
    (void)state;
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    es_st *st = open_ok(
        write_st("{\"__metadata__\":{\"format\":\"pt\"},\"b\":" ENTRY(
                     "F32", "[2, 2]", "[0,16]") ",\n \"a\" : " ENTRY("F32", "[2]", "[16,24]") "}  ",
                 data, sizeof data));
    assert_int_equal(es_st_count(st), 2);
    assert_string_equal(es_st_at(st, 0)->name, "a");
    assert_null(es_st_at(st, 2));
    assert_null(es_st_at(st, -1));
    assert_null(es_st_find(st, "c"));
    const es_st_tensor *b = es_st_find(st, "b");
    assert_non_null(b);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[2], 1);
    assert_int_equal(b->count, 4);
    assert_string_equal(es_st_file(st, b), in_folder("x.safetensors"));
    float f[4];
    double d[2];
    es_st_seen seen;
    assert_ok(es_st_read(st, b, ES_F32, f, &seen, &err));
    assert_memory_equal(f, data, sizeof f);
    assert_equals(seen.nans, 0);
    assert_equals(seen.infinities, 0);
    assert_equals(seen.subnormals, 0);
    assert_equals(seen.first, -1);
    assert_ok(es_st_read(st, es_st_find(st, "a"), ES_F64, d, NULL, &err));
    assert_equals(d[0], 5.0);
    assert_equals(d[1], 6.0);
    assert_int_equal(es_st_read(st, b, (es_dtype)7, f, NULL, &err), ES_E_ARGUMENT);
    es_st_close(st);
    es_st_close(NULL);
}

static void f64_is_read_as_f64_only(void **state)
{
    (void)state;
    static const double data[2] = {3.14159265358979311600, 0x1p-1074};
    double d[2];
    float f[2];
    es_st_seen seen;
    es_st *st = open_ok(write_st(ONE("F64", "[2]", "[0,16]"), data, sizeof data));
    assert_ok(es_st_read(st, es_st_at(st, 0), ES_F64, d, &seen, &err));
    assert_memory_equal(d, data, sizeof d);
    assert_int_equal(seen.subnormals, 1);
    assert_int_equal(es_st_read(st, es_st_at(st, 0), ES_F32, f, NULL, &err), ES_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "F64"));
    es_st_close(st);
}

/* bf16 1.0 and 3.0, and f16 1.0 and 2.0, become f32; f64 stays; the rest is refused before memory
 * is taken. */
static void tensors_become_arrays(void **state)
{
    (void)state;
    static const unsigned char halves[] = {0x80, 0x3f, 0x40, 0x40, 0x00, 0x3c, 0x00, 0x40};
    es_mem_limit budget = {0};
    es_npy_info info;
    es_array a;
    es_st *st = open_ok(write_st(
        "{\"b\":" ENTRY("BF16", "[2, 1]", "[0,4]") ",\"h\":" ENTRY("F16", "[2]", "[4,8]") "}",
        halves, sizeof halves));
    assert_ok(es_st_inspect(st, es_st_find(st, "b"), &info, &err));
    assert_equals(info.dtype, ES_F32);
    assert_equals(info.rank, 2);
    assert_equals(info.bytes, 8);
    assert_equals(info.shape[0], 2);
    assert_string_equal(info.descr, "BF16");
    assert_ok(es_st_load(st, es_st_find(st, "b"), &budget, &a, &err));
    assert_equals(a.dtype, ES_F32);
    assert_equals(a.rank, 2);
    assert_equals(a.shape[0], 2);
    assert_equals(a.shape[1], 1);
    assert_equals(((float *)a.data)[0], 1.0f);
    assert_equals(((float *)a.data)[1], 3.0f);
    assert_int_equal(budget.used >= 8, 1);
    es_array_free(&a);
    assert_int_equal(budget.used, 0);
    assert_ok(es_st_load(st, es_st_find(st, "h"), NULL, &a, &err));
    assert_equals(((float *)a.data)[0], 1.0f);
    assert_equals(((float *)a.data)[1], 2.0f);
    es_array_free(&a);
    budget.limit = 4;
    assert_int_equal(es_st_load(st, es_st_find(st, "b"), &budget, &a, &err), ES_E_LIMIT);
    assert_null(a.data);
    es_st_close(st);
    static const double wide[2] = {3.25, -1e300};
    st = open_ok(write_st(ONE("F64", "[1,1,1,2]", "[0,16]"), wide, sizeof wide));
    assert_ok(es_st_load(st, es_st_at(st, 0), NULL, &a, &err));
    assert_equals(a.dtype, ES_F64);
    assert_equals(a.rank, 4);
    assert_equals(a.shape[3], 2);
    assert_memory_equal(a.data, wide, sizeof wide);
    es_array_free(&a);
    es_st_close(st);
    static const struct {
        const char *header, *rule;
    } bad[] = {{ONE("F64", "[1,1,1,1,2]", "[0,16]"), "safetensors.array"},
               {ONE("I64", "[2]", "[0,16]"), "safetensors.dtype"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        st = open_ok(write_st(bad[i].header, wide, sizeof wide));
        assert_int_equal(es_st_load(st, es_st_at(st, 0), NULL, &a, &err), ES_E_UNSUPPORTED);
        assert_string_equal(err.rule, bad[i].rule);
        assert_null(a.data);
        es_st_close(st);
    }
}

/* ---- the file ---- */

static void ST28_file_cut_short_after_opening(void **state)
{
    (void)state;
    static float data[8192];
    es_st *st = open_ok(write_st(ONE("F32", "[8192]", "[0,32768]"), data, sizeof data));
    assert_int_equal(truncate(in_folder("x.safetensors"), 20000), 0);
    assert_int_equal(es_st_read(st, es_st_at(st, 0), ES_F32, data, NULL, &err), ES_E_IO);
    assert_string_equal(err.rule, "file.changed");
    es_st_close(st);
}

static void ST29_what_is_no_file(void **state)
{
    (void)state;
    refuse(folder, ES_E_FORMAT, "file.regular", -1);
    refuse("/dev/zero", ES_E_FORMAT, "file.regular", -1);
    refuse(in_folder("missing"), ES_E_IO, "file.open", -1);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    refuse(in_folder("fifo"), ES_E_FORMAT, "file.regular", -1);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    refuse(in_folder("loop"), ES_E_FORMAT, "file.open", -1);
    write_st("{}", NULL, 0);
    assert_int_equal(chmod(path_of_file, 0), 0);
    drop_rights();
    refuse(in_folder("x.safetensors"), ES_E_FORMAT, "file.open", -1);
    regain_rights();
    assert_non_null(strstr(err.message, "Permission denied"));
    remove(path_of_file);
    es_st *st;
    assert_int_equal(es_st_open(NULL, NULL, &st, &err), ES_E_ARGUMENT);
}

static void ST30_only_the_header_of_a_terabyte_is_read(void **state)
{
    (void)state;
    const char *header =
        "{\"a\":" ENTRY("F32", "[274877906944]", "[0,1099511627776]") ",\"b\":" ENTRY(
            "F32", "[1]", "[1099511627776,1099511627780]") "}";
    const char *path = write_st(header, NULL, 0);
    if (truncate(path, 8 + (off_t)strlen(header) + 1099511627780) != 0) {
        remove(path);
        skip_test("no sparse files of a terabyte here");
    }
    es_mem_limit budget = {.limit = 4096};
    const es_st_opts opts = {.budget = &budget};
    es_st *st;
    float f = 1.0f;
    assert_ok(es_st_open(path, &opts, &st, &err));
    assert_ok(es_st_read(st, es_st_find(st, "b"), ES_F32, &f, NULL, &err));
    assert_equals(f, 0.0f);
    es_st_close(st);
    remove(path);
}

static void ST31_data_at_any_byte(void **state)
{
    (void)state;
    static const double data[3] = {1.5, -2.25, 1e300};
    for (int spaces = 0; spaces < 8; spaces++) {
        char header[128];
        double d[3];
        snprintf(header, sizeof header, "%s%.*s", ONE("F64", "[3]", "[0,24]"), spaces, "        ");
        es_st *st = open_ok(write_st(header, data, sizeof data));
        assert_ok(es_st_read(st, es_st_at(st, 0), ES_F64, d, NULL, &err));
        assert_memory_equal(d, data, sizeof data);
        es_st_close(st);
    }
}

static void ST32_big_endian_host_is_refused(void **state)
{
    (void)state;
    assert_ok(es_st_host(true, "x", &err));
    assert_int_equal(es_st_host(false, "x", &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "safetensors.host");
}

static void ST33_odd_numbers_are_counted(void **state)
{
    (void)state;
    static const uint32_t bits[7] = {0x3f800000, 0x7fc00000, 0x7f800000, 0xff800000,
                                     0x00000001, 0x80400000, 0x80000000};
    static const uint16_t halves[5] = {0x0001, 0x83ff, 0x7c00, 0xfe00, 0x0400};
    float f[7];
    es_st_seen seen;
    es_st *st = open_ok(write_st(ONE("F32", "[7]", "[0,28]"), bits, sizeof bits));
    assert_ok(es_st_read(st, es_st_at(st, 0), ES_F32, f, &seen, &err));
    assert_memory_equal(f, bits, sizeof bits);
    assert_equals(seen.nans, 1);
    assert_equals(seen.infinities, 2);
    assert_equals(seen.subnormals, 2);
    assert_equals(seen.first, 1);
    es_st_close(st);
    st = open_ok(write_st(ONE("F16", "[5]", "[0,10]"), halves, sizeof halves));
    assert_ok(es_st_read(st, es_st_at(st, 0), ES_F32, f, &seen, &err));
    assert_equals(seen.nans, 1);
    assert_equals(seen.infinities, 1);
    assert_equals(seen.subnormals, 2);
    assert_equals(seen.first, 2);
    es_st_close(st);
}

/* The definitions of binary16 and bfloat16, in arithmetic instead of in bits. */
static double by_definition(unsigned bits, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction = ldexp((double)(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1.0 + fraction, exponent - bias) : ldexp(fraction, 1 - bias));
}

static void ST34_every_half_and_bfloat_converts_exactly(void **state)
{
    (void)state;
    static uint16_t bits[65536];
    static double out[65536];
    static float out32[65536];
    for (unsigned i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    for (int bfloat = 0; bfloat < 2; bfloat++) {
        es_st *st = open_ok(write_st(bfloat ? ONE("BF16", "[256,256]", "[0,131072]")
                                            : ONE("F16", "[256,256]", "[0,131072]"),
                                     bits, sizeof bits));
        assert_ok(es_st_read(st, es_st_at(st, 0), ES_F64, out, NULL, &err));
        assert_ok(es_st_read(st, es_st_at(st, 0), ES_F32, out32, NULL, &err));
        es_st_close(st);
        for (unsigned i = 0; i < 65536; i++) {
            const double want = by_definition(i, bfloat ? 8 : 5);
            if (isnan(want) ? !isnan(out[i]) || !isnan(out32[i])
                            : out[i] != want || (double)out32[i] != want)
                fail_msg("0x%04x became %g and %g, expected %g", i, out[i], (double)out32[i], want);
            assert_int_equal(!!signbit(out[i]), i >> 15);
        }
    }
}

/* ---- shards ---- */

static const char *write_index(const char *text)
{
    return write_file("model.safetensors.index.json", text, strlen(text));
}

static void write_shards(void)
{
    static const float a = 1.0f, b[2] = {2.0f, 3.0f};
    write_st_raw("s1.safetensors", strlen(ONE("F32", "[1]", "[0,4]")), ONE("F32", "[1]", "[0,4]"),
                 strlen(ONE("F32", "[1]", "[0,4]")), &a, 4);
    static const char two[] = "{\"b\":" ENTRY("F32", "[2]", "[0,8]") "}";
    write_st_raw("s2.safetensors", sizeof two - 1, two, sizeof two - 1, b, 8);
}

static void shards_are_read_as_one_file(void **state)
{
    (void)state;
    write_shards();
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    es_st *st;
    float f[2];
    assert_ok(es_st_open_index(write_index("{\"metadata\":{\"total_size\":12},\"weight_map\":{"
                                           "\"b\":\"s2.safetensors\",\"a\":\"s1.safetensors\"}}"),
                               &opts, &st, &err));
    assert_int_equal(es_st_count(st), 2);
    assert_string_equal(es_st_file(st, es_st_find(st, "b")), in_folder("s2.safetensors"));
    assert_ok(es_st_read(st, es_st_find(st, "a"), ES_F32, f, NULL, &err));
    assert_equals(f[0], 1.0f);
    assert_ok(es_st_read(st, es_st_find(st, "b"), ES_F32, f, NULL, &err));
    assert_equals(f[0], 2.0f);
    assert_equals(f[1], 3.0f);
    es_st_close(st);
    assert_int_equal(budget.used, 0);
}

static void ST35_bad_indexes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        es_status status;
        const char *rule;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s9.safetensors\"}}", ES_E_FORMAT,
         "index.file"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s1.safetensors\"}}", ES_E_FORMAT,
         "index.missing"},
        {"{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}}", ES_E_FORMAT,
         "index.missing"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s3.safetensors\"}}", ES_E_FORMAT,
         "index.twice"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"\\u0061\":\"s1.safetensors\"}}", ES_E_FORMAT,
         "index.duplicate"},
        {"{\"weight_map\":{\"a\":\"../s1.safetensors\"}}", ES_E_FORMAT, "index.shard"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", ES_E_FORMAT, "index.shard"},
        {"{\"weight_map\":{\"a\":\"..\"}}", ES_E_FORMAT, "index.shard"},
        {"{\"weight_map\":{\"a\":\"x\\\\s1.safetensors\"}}", ES_E_FORMAT, "index.shard"},
        {"{\"weight_map\":{\"a\":\"\"}}", ES_E_FORMAT, "index.shard"},
        {"{\"weight_map\":{\"a\":1}}", ES_E_FORMAT, "index.json"},
        {"{\"weight_map\":{}}", ES_E_FORMAT, "index.map"},
        {"{\"metadata\":{}}", ES_E_FORMAT, "index.map"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\\u0000\"}}", ES_E_FORMAT, "index.map"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\"},\"weight_map\":{}}", ES_E_FORMAT,
         "index.duplicate"},
        {"[]", ES_E_FORMAT, "index.json"},
        {"", ES_E_FORMAT, "index.json"},
        {"{\"weight_map\":{\"a\":\"s1.safetensors\"}} x", ES_E_FORMAT, "index.json"},
    };
    es_mem_limit budget = {0};
    const es_st_opts opts = {.budget = &budget};
    write_shards();
    static const char both[] =
        "{\"a\":" ENTRY("F32", "[0]", "[0,0]") ",\"b\":" ENTRY("F32", "[0]", "[0,0]") "}";
    write_st_raw("s3.safetensors", sizeof both - 1, both, sizeof both - 1, NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_st *st;
        const es_status got = es_st_open_index(write_index(cases[i].text), &opts, &st, &err);
        if (got != cases[i].status || strcmp(err.rule, cases[i].rule) != 0)
            fail_msg("%s: %s %s (%s)", cases[i].text, es_status_name(got), err.rule, err.message);
        assert_null(st);
        assert_int_equal(budget.used, 0);
    }
}

static void ST36_other_files_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *named;
    } cases[] = {
        {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 15, "pickle"},
        {"\x80\x04\x95\x05", 4, "pickle"},
        {"PK\x03\x04\0\0\0\0\0\0\0\0", 12, "zip"},
        {"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0", 16, "GGUF"},
        {"GGUF\x03\0\0\0{\0\0\0\0\0\0\0", 16, "GGUF"}, /* 123 tensors look like '{' */
        {"\x89HDF\r\n\x1a\n........", 16, "HDF5"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS"},
        {"<!DOCTYPE html>\n<html>\n", 23, "web page"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\3", 10, "gzip"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuse(write_file("x.safetensors", cases[i].bytes, cases[i].size), ES_E_UNSUPPORTED,
               "safetensors.other", 0);
        assert_non_null(strstr(err.message, cases[i].named));
    }
    /* An address is no Git LFS pointer yet, nor is the beginning of one. */
    static const char *const texts[] = {"version https://example.org/spec/v1\n",
                                        "version https://gitlab.com/a/b\n", "version https://git"};
    for (int i = 0; i < 3; i++)
        refuse(write_file("x.safetensors", texts[i], strlen(texts[i])), ES_E_FORMAT,
               "safetensors.header.size", 0);
    /* A header whose length happens to begin like gzip or a pickle is one all the same. */
    static const uint64_t lengths[] = {0x8b1f, 0x0280, 0x4b50};
    char *header = malloc(0x8b20);
    assert_non_null(header);
    memset(header, ' ', 0x8b20);
    memcpy(header, "{}", 2);
    for (int i = 0; i < 3; i++)
        es_st_close(
            open_ok(write_st_raw("x.safetensors", lengths[i], header, lengths[i], NULL, 0)));
    free(header);
}

TEST_FILE(safetensors)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_listed_by_name_and_read),
        cmocka_unit_test(f64_is_read_as_f64_only),
        cmocka_unit_test(tensors_become_arrays),
        cmocka_unit_test(ST28_file_cut_short_after_opening),
        cmocka_unit_test(ST29_what_is_no_file),
        optional_test(ST30_only_the_header_of_a_terabyte_is_read),
        cmocka_unit_test(ST31_data_at_any_byte),
        cmocka_unit_test(ST32_big_endian_host_is_refused),
        cmocka_unit_test(ST33_odd_numbers_are_counted),
        cmocka_unit_test(ST34_every_half_and_bfloat_converts_exactly),
        cmocka_unit_test(shards_are_read_as_one_file),
        cmocka_unit_test(ST35_bad_indexes),
        cmocka_unit_test(ST36_other_files_are_recognised),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
