/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy.c : reading .npy files. NP01, NP02: each bad file with its status, rule and byte. */
#include "testing.h"

#include <sys/stat.h>

#include "folder.h"
#include "store/npy.h"
#include <esscher/npy.h>

/* An .npy file of any version around the given header text and data. */
static const char *write_npy(int version, const char *header, const void *data, size_t size)
{
    char bytes[4096];
    const size_t text = strlen(header), start = version == 1 ? 10 : 12;
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (char)version, bytes[7] = 0;
    bytes[8] = (char)(text & 255), bytes[9] = (char)(text >> 8);
    bytes[10] = bytes[11] = 0;
    memcpy(bytes + start, header, text);
    assert_at_most(start + text + size, sizeof bytes);
    if (size)
        memcpy(bytes + start + text, data, size);
    return write_file("x.npy", bytes, start + text + size);
}

/* Loading must fail as said; offset -2: any. The failure leaves no memory behind. */
static void expect_refusal(const char *path, es_status status, const char *rule, int64_t offset)
{
    es_mem_limit budget = {0};
    es_array array;
    es_npy_info info;
    const es_status got = es_npy_load(path, &budget, &array, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || (offset != -2 && err.offset != offset))
        fail_msg("%s %s at %lld (%s), expected %s %s at %lld", es_status_name(got), err.rule,
                 (long long)err.offset, err.message, es_status_name(status), rule,
                 (long long)offset);
    assert_true(strncmp(err.file, path, sizeof err.file - 1) == 0 && err.message[0]);
    assert_null(array.data);
    assert_int_equal(budget.used, 0);
    es_array_free(&array);
    assert_int_equal(es_npy_inspect(path, &info, &err), status);
}

/* ---- what is read ---- */

#define HEADER(descr, shape)                                                                       \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }\n"

static void all_versions_and_spellings_are_read(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const char *const headers[] = {
        HEADER("<f4", "(2, 3)"),
        HEADER("=f4", "(2, 3)"),
        HEADER("|f4", "(2,3,)"),
        HEADER("<f4", "(2L, 3L)"),
        "{\"shape\": (2, 3), \"descr\": \"<f4\", \"fortran_order\": False}",
        " {'fortran_order':False,'shape' :( 2 , 3 ),'descr':'<f4'}   \n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        for (int version = 1; version <= 3; version++) {
            es_array a;
            assert_ok(es_npy_load(write_npy(version, headers[i], x, sizeof x), NULL, &a, &err));
            assert_int_equal(a.shape[0] * 10 + a.shape[1], 23);
            assert_memory_equal(a.data, x, sizeof x);
            es_array_free(&a);
        }
    }
}

static void NP01_big_endian_is_converted(void **state)
{
    (void)state;
    static const unsigned char f4[8] = {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
    static const unsigned char f8[8] = {0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18};
    static const unsigned char f2[4] = {0x3c, 0x00, 0xc1, 0x00};
    es_array a;
    assert_ok(es_npy_load(write_npy(1, HEADER(">f4", "(2,)"), f4, 8), NULL, &a, &err));
    assert_equals(((float *)a.data)[0], 1.0f);
    assert_equals(((float *)a.data)[1], -2.5f);
    es_array_free(&a);
    assert_ok(es_npy_load(write_npy(1, HEADER(">f8", "(1,)"), f8, 8), NULL, &a, &err));
    assert_equals(((double *)a.data)[0], 3.14159265358979311600);
    es_array_free(&a);
    assert_ok(es_npy_load(write_npy(1, HEADER(">f2", "(2,)"), f2, 4), NULL, &a, &err));
    assert_equals(((float *)a.data)[0], 1.0f);
    assert_equals(((float *)a.data)[1], -2.5f);
    es_array_free(&a);
}

/* The definition of binary16, in arithmetic instead of in bits. */
static double half_by_definition(unsigned h)
{
    const int exponent = (h >> 10) & 31;
    const double fraction = (h & 1023) / 1024.0, sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1.0 + fraction, exponent - 15) : ldexp(fraction, -14));
}

static void every_half_becomes_its_float(void **state) /* ST34 has the same conversion */
{
    (void)state;
    static unsigned char bytes[65536 * 2 + 128];
    static const char header[] = "{'descr':'<f2','fortran_order':False,'shape':(256, 256)}";
    const size_t start = 10 + sizeof header - 1;
    memcpy(bytes, "\x93NUMPY\x01", 8);
    bytes[8] = sizeof header - 1;
    memcpy(bytes + 10, header, sizeof header - 1);
    for (unsigned h = 0; h < 65536; h++)
        bytes[start + 2 * h] = (unsigned char)h, bytes[start + 2 * h + 1] = (unsigned char)(h >> 8);
    es_array a;
    es_npy_info info;
    const char *path = write_file("half.npy", bytes, start + 65536 * 2);
    assert_ok(es_npy_inspect(path, &info, &err));
    assert_string_equal(info.descr, "<f2");
    assert_int_equal(info.bytes, 65536 * 4);
    assert_ok(es_npy_load(path, NULL, &a, &err));
    for (unsigned h = 0; h < 65536; h++) {
        const float got = ((float *)a.data)[h];
        const double want = half_by_definition(h);
        if (isnan(want) ? !isnan(got) : (double)got != want)
            fail_msg("half 0x%04x became %g, expected %g", h, (double)got, want);
        assert_int_equal(!!signbit(got), h >> 15);
    }
    es_array_free(&a);
}

static void dimensions_of_zero_are_accepted(void **state)
{
    (void)state;
    es_array a;
    es_view v;
    assert_ok(es_npy_load(write_npy(1, HEADER("<f8", "(0, 7)"), NULL, 0), NULL, &a, &err));
    assert_non_null(a.data);
    assert_ok(es_array_view(&a, 0, &v, &err));
    assert_int_equal(v.rows, 0);
    assert_int_equal(v.cols, 7);
    es_array_free(&a);
    assert_ok(
        es_npy_save(in_folder("none.npy"), ES_F32, 3, (int64_t[]){0, 2, 3}, NULL, true, &err));
    assert_ok(es_npy_load(in_folder("none.npy"), NULL, &a, &err));
    assert_int_equal(es_array_slices(&a), 0);
    assert_int_equal(es_array_view(&a, 0, &v, &err), ES_E_RANGE);
    es_array_free(&a);
}

static void views_are_the_last_two_dimensions(void **state)
{
    (void)state;
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    es_array a = {.dtype = ES_F32, .rank = 4, .shape = {2, 2, 2, 3}, .data = x};
    es_view v;
    assert_int_equal(es_array_slices(&a), 4);
    assert_ok(es_array_view(&a, 3, &v, &err));
    assert_equals(v.rows, 2);
    assert_equals(v.cols, 3);
    assert_equals(es_view_get(&v, 1, 2), 23.0);
    a = (es_array){.dtype = ES_F32, .rank = 3, .shape = {4, 2, 3, 1}, .data = x};
    assert_ok(es_array_view(&a, 1, &v, &err));
    assert_equals(es_view_get(&v, 0, 0), 6.0);
    assert_int_equal(es_array_view(&a, 4, &v, &err), ES_E_RANGE);
    assert_int_equal(es_array_view(&a, -1, &v, &err), ES_E_RANGE);
    a = (es_array){.dtype = ES_F32, .rank = 1, .shape = {24, 1, 1, 1}, .data = x};
    assert_ok(es_array_view(&a, 0, &v, &err));
    assert_equals(v.rows, 1);
    assert_equals(v.cols, 24);
    assert_equals(es_view_get(&v, 0, 23), 23.0);
    a = (es_array){0};
    assert_int_equal(es_array_view(&a, 0, &v, &err), ES_E_ARGUMENT);
}

/* ---- NP01: what is refused ---- */

static void NP01_magic_version_and_header_size(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        es_status status;
        const char *rule;
        int64_t offset;
    } cases[] = {
        {"", 0, ES_E_FORMAT, "npy.magic", 0},
        {"\x93NUMP", 5, ES_E_FORMAT, "npy.magic", 0},
        {"1.0,2.0\n3.0,4.0\n", 16, ES_E_FORMAT, "npy.magic", 0},
        {"\x93NUMPY", 6, ES_E_FORMAT, "npy.truncated", 6},
        {"\x93NUMPY\x01\x00\x00", 9, ES_E_FORMAT, "npy.truncated", 9},
        {"\x93NUMPY\x02\x00\x00\x00\x00", 11, ES_E_FORMAT, "npy.truncated", 11},
        {"\x93NUMPY\x00\x01\x00\x00{}", 12, ES_E_UNSUPPORTED, "npy.version", 6},
        {"\x93NUMPY\x01\x01\x02\x00{}", 12, ES_E_UNSUPPORTED, "npy.version", 6},
        {"\x93NUMPY\x04\x00\x02\x00\x00\x00{}", 14, ES_E_UNSUPPORTED, "npy.version", 6},
        {"\x93NUMPY\x01\x00\x03\x00{}", 12, ES_E_FORMAT, "npy.header.size", 8},
        {"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, ES_E_FORMAT, "npy.header.size", 8}, /* 4 GiB */
        {"\x93NUMPY\x01\x00\x00\x00", 10, ES_E_FORMAT, "npy.header.dict", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(write_file("x.npy", cases[i].bytes, cases[i].size), cases[i].status,
                       cases[i].rule, cases[i].offset);
}

static void NP01_huge_header_of_a_huge_file(void **state)
{
    (void)state;
    /* A sparse file of 1 TB whose header claims 2 GiB of it: the file size alone does not help. */
    write_file("x.npy", "\x93NUMPY\x02\x00\x00\x00\x00\x80", 12);
    if (truncate(path_of_file, INT64_C(1) << 40) != 0)
        skip_test("no sparse files of a terabyte here");
    expect_refusal(path_of_file, ES_E_FORMAT, "npy.header.size", 8);
}

static void NP01_header_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *rule;
        int64_t offset; /* of the first byte that is wrong; headers begin at 10 */
    } cases[] = {
        {"[1, 2]", "npy.header.dict", 10},
        {"   ", "npy.header.dict", 13},
        {"{", "npy.header.key", 11},
        {"{}", "npy.header.missing", 11},
        {"{descr: '<f4'}", "npy.header.key", 11},
        {"{'descr' '<f4'}", "npy.header.dict", 19},
        {"{'descr': '<f4' 'shape': (6,)}", "npy.header.dict", 26},
        {"{'descr': <f4}", "npy.header.descr", 20},
        {"{'descr': '<f4}", "npy.header.descr", 25},
        {"{'descr': '<\\x664'}", "npy.header.descr", 22},
        {"{'descr': '<f4444444444444444444444444444444444'}", "npy.header.descr", 52},
        {"{'descr': '<f4', 'descr': '<f4'}", "npy.header.duplicate", 28},
        {"{'descr': '<f4', 'Shape': (6,)}", "npy.header.key", 28},
        {"{'descr': '<f4', 'fortran_order': 0}", "npy.header.fortran_order", 44},
        {"{'descr': '<f4', 'fortran_order': false}", "npy.header.fortran_order", 44},
        {"{'descr': '<f4', 'shape': (6,)}", "npy.header.missing", 40},
        {HEADER("<f4", "[6]"), "npy.header.shape", 60},
        {HEADER("<f4", "6"), "npy.header.shape", 60},
        {HEADER("<f4", "(6)"), "npy.header.shape", 62},
        {HEADER("<f4", "(-6,)"), "npy.header.shape", 61},
        {HEADER("<f4", "(+6,)"), "npy.header.shape", 61},
        {HEADER("<f4", "(06,)"), "npy.header.shape", 62},
        {HEADER("<f4", "(6.0,)"), "npy.header.shape", 62},
        {HEADER("<f4", "(6 6)"), "npy.header.shape", 63},
        {HEADER("<f4", "(,)"), "npy.header.shape", 61},
        {HEADER("<f4", "(6,,)"), "npy.header.shape", 63},
        {HEADER("<f4", "(0x6,)"), "npy.header.shape", 62},
        {HEADER("<f4", "(1099511627777,)"), "npy.header.shape", 73},
        {HEADER("<f4", "(18446744073709551622,)"), "npy.header.shape", 73}, /* 2^64 + 6 */
        {HEADER("<f4", "(6,)") "x", "npy.header.end", 68},
        {HEADER("<f4", "(6,)") "{}", "npy.header.end", 68},
    };
    static const float x[6];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(write_npy(1, cases[i].header, x, sizeof x), ES_E_FORMAT, cases[i].rule,
                       cases[i].offset);
}

static void NP01_dtypes_that_are_no_floats(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"<i8", "<i4", "|u1", "|b1", "<c8", "|S3",
                                         "<U5", "<M8", "|V2", "<f1", "<f3", "<g8",
                                         "f4",  "",    "<",   "<f",  "<f44"};
    char header[128];
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (0,)}",
                 dtypes[i]);
        expect_refusal(write_npy(1, header, NULL, 0), ES_E_UNSUPPORTED, "npy.dtype", 21);
    }
    es_array a;
    es_npy_load(write_npy(1, HEADER("<i8", "(0,)"), NULL, 0), NULL, &a, &err);
    assert_string_equal(err.message,
                        "dtype '<i8' (signed integers) is not read; f2, f4 and f8 are");
    assert_non_null(strstr(err.hint, "x.astype('float32')"));
    expect_refusal(write_npy(1, "{'descr': [('x', '<f4')], 'fortran_order': False}", NULL, 0),
                   ES_E_UNSUPPORTED, "npy.dtype", 20);
}

/* Where the caller says that they count something; extremes of every kind, both byte orders. */
static void integers_are_read_where_they_are_counts(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        unsigned char bytes[16];
        size_t size;
        double expected[2];
    } cases[] = {
        {HEADER("|i1", "(2,)"), {0x80, 0x7f}, 2, {-128, 127}},
        {HEADER("|u1", "(2,)"), {0x80, 0xff}, 2, {128, 255}},
        {HEADER("<i2", "(2,)"), {0xff, 0xff, 0x01, 0x02}, 4, {-1, 513}},
        {HEADER(">i2", "(2,)"), {0xff, 0xfe, 0x01, 0x02}, 4, {-2, 258}},
        {HEADER("<i4", "(2,)"), {0, 0, 0, 0x80, 0x2a}, 8, {-2147483648.0, 42}},
        {HEADER("<u4", "(2,)"), {0, 0, 0, 0x80, 0x2a}, 8, {2147483648.0, 42}},
        {HEADER("<i8", "(2,)"),
         {0xc9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80},
         16,
         {201, -0x1p63}},
        {HEADER("<u8", "(2,)"),
         {0xc9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80},
         16,
         {201, 0x1p63}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = write_npy(1, cases[i].header, cases[i].bytes, cases[i].size);
        es_array array;
        assert_int_equal(es_npy_load_as(path, ES_NPY_RAW_WHOLE, NULL, &array, &err), ES_OK);
        assert_int_equal(array.dtype, ES_F64);
        for (int k = 0; k < 2; k++)
            assert_equals(((double *)array.data)[k], cases[i].expected[k]);
        es_array_free(&array);
        expect_refusal(path, ES_E_UNSUPPORTED, "npy.dtype", -2);
    }
    const char *path = write_npy(1, HEADER("<i3", "(1,)"), "abc", 3);
    es_array array;
    assert_int_equal(es_npy_load_as(path, ES_NPY_RAW_WHOLE, NULL, &array, &err), ES_E_UNSUPPORTED);
}

static void NP01_python_objects_are_never_unpickled(void **state)
{
    (void)state;
    expect_refusal(write_npy(1, HEADER("|O", "(1,)"), "\x80\x04N.", 4), ES_E_UNSUPPORTED,
                   "npy.pickle", 21);
    assert_non_null(strstr(err.hint, "runs code"));
}

static void NP01_fortran_order(void **state)
{
    (void)state;
    static const float x[6];
    expect_refusal(
        write_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", x, 24),
        ES_E_UNSUPPORTED, "npy.fortran", 44);
    assert_non_null(strstr(err.hint, "np.ascontiguousarray"));
}

static void NP01_shapes_and_sizes(void **state)
{
    (void)state;
    static const char zeros[64];
    static const struct {
        const char *header;
        size_t data;
        es_status status;
        const char *rule;
        int64_t offset;
    } cases[] = {
        {HEADER("<f4", "()"), 4, ES_E_UNSUPPORTED, "npy.rank", 60},
        {HEADER("<f4", "(1, 1, 1, 1, 1)"), 4, ES_E_UNSUPPORTED, "npy.rank", 60},
        {HEADER("<f8", "(1099511627776, 1099511627776)"), 8, ES_E_FORMAT, "npy.shape.overflow", 60},
        {HEADER("<f8", "(0, 1099511627776, 1099511627776)"), 0, ES_E_FORMAT, "npy.shape.overflow",
         60},
        {HEADER("<f8", "(1099511627776, 4)"), 8, ES_E_FORMAT, "npy.data.short", 90},
        {HEADER("<f4", "(6,)"), 23, ES_E_FORMAT, "npy.data.short", 91},
        {HEADER("<f4", "(6,)"), 0, ES_E_FORMAT, "npy.data.short", 68},
        {HEADER("<f4", "(6,)"), 25, ES_E_FORMAT, "npy.data.trailing", 92},
        {HEADER("<f2", "(6,)"), 24, ES_E_FORMAT, "npy.data.trailing", 80},
        {HEADER("<f4", "(0,)"), 1, ES_E_FORMAT, "npy.data.trailing", 68},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refusal(write_npy(1, cases[i].header, zeros, cases[i].data), cases[i].status,
                       cases[i].rule, cases[i].offset);
}

static void NP02_other_files_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *name;
    } cases[] = {
        {"PK\x03\x04\x14\0\0\0\0\0", 10, ".npz"},
        {"PK\x05\x06\0\0\0\0\0\0", 10, "zip"},
        {"\x80\x02}q\x00.", 6, "pickle"},
        {"\x40\0\0\0\0\0\0\0{\"a\"", 12, "safetensors"},
        {"GGUF\x03\0\0\0", 8, "GGUF"},
        {"\x89HDF\r\n\x1a\n\0", 9, "HDF5"},
        {"\x1f\x8b\x08", 3, "gzip"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS"},
        {"<!DOCTYPE html>\n<html>\n", 23, "web page"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refusal(write_file("x.npy", cases[i].bytes, cases[i].size), ES_E_UNSUPPORTED,
                       "npy.magic.other", 0);
        assert_non_null(strstr(err.message, cases[i].name));
        assert_true(err.hint[0]);
    }
    /* An address is no Git LFS pointer yet. */
    static const char text[] = "version https://example.org/spec/v1\n";
    expect_refusal(write_file("x.npy", text, sizeof text - 1), ES_E_FORMAT, "npy.magic", 0);
}

static void things_that_are_no_files_are_refused_at_once(void **state)
{
    (void)state;
    es_array a;
    expect_refusal(in_folder("absent.npy"), ES_E_IO, "file.open", -1);
    assert_non_null(strstr(err.message, "No such file"));
    expect_refusal(folder, ES_E_IO, "file.regular", -1);
    expect_refusal("/dev/zero", ES_E_IO, "file.regular", -1);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    expect_refusal(in_folder("fifo"), ES_E_IO, "file.regular", -1); /* and does not wait */
    assert_int_equal(es_npy_load(NULL, NULL, &a, &err), ES_E_ARGUMENT);
    write_file("secret.npy", "", 0);
    assert_int_equal(chmod(path_of_file, 0), 0);
    drop_rights();
    expect_refusal(in_folder("secret.npy"), ES_E_IO, "file.open", -1);
    regain_rights();
    assert_non_null(strstr(err.message, "Permission denied"));
    count_files(true);
}

static void budget_is_respected(void **state)
{
    (void)state;
    static const float x[64];
    es_mem_limit budget = {.limit = 128};
    es_array a;
    const char *path = in_folder("x.npy");
    assert_ok(es_npy_save(path, ES_F32, 2, (int64_t[]){8, 8}, x, true, &err));
    assert_int_equal(es_npy_load(path, &budget, &a, &err), ES_E_LIMIT);
    assert_null(a.data);
    assert_int_equal(budget.used, 0);
}

/* ---- others' files ---- */

static void corpus_files_are_what_their_names_say(void **state)
{
    (void)state;
    const char *corpus = ES_TESTS_DIR "/fuzz/corpus_npy";
    DIR *dir = opendir(corpus);
    int good = 0, bad = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        es_array a;
        snprintf(path, sizeof path, "%s/%s", corpus, entry->d_name);
        if (strncmp(entry->d_name, "good_", 5) == 0) {
            good++;
            assert_ok(es_npy_load(path, NULL, &a, &err));
            es_array_free(&a);
        } else if (strncmp(entry->d_name, "bad_", 4) == 0) {
            bad++;
            if (es_npy_load(path, NULL, &a, &err) == ES_OK)
                fail_msg("%s was accepted", entry->d_name);
        }
    }
    closedir(dir);
    assert_at_least(good, 10);
    assert_at_least(bad, 20);
}

/* Run a line of Python in the test folder. @return : did it end well? */
static bool python(const char *interpreter, const char *line)
{
    char command[2048];
    snprintf(command, sizeof command, "cd '%s' && '%s' -c \"%s\" 2>/dev/null", folder, interpreter,
             line);
    return system(command) == 0;
}

static void numpy_agrees_in_both_directions(void **state)
{
    (void)state;
    const char *named = getenv("ESSCHER_PYTHON"), *found = NULL;
    const char *candidates[] = {named ? named : "python3", "python3", "/usr/bin/python3"};
    for (int i = 0; i < 3 && !found; i++)
        found = python(candidates[i], "import numpy") ? candidates[i] : NULL;
    if (!found)
        skip_test("no Python with NumPy here (ESSCHER_PYTHON names one)");
    assert_true(python(found, "import numpy as np; x = np.arange(24) / 7 - 1;"
                              "[np.save('%s%d' % (t, r), x.reshape(s).astype(t)) "
                              "for t in ('f2', 'f4', 'f8', '>f4', '>f8') "
                              "for r, s in enumerate([24, (6, 4), (2, 3, 4), (1, 2, 3, 4)])];"
                              "np.save('t.npy', x.reshape(6, 4).T); np.save('i.npy', np.arange(3));"
                              "np.savez('z.npy', x=x); np.save('o.npy', np.array([{}, 1]))"));
    static const char *const types[] = {"f2", "f4", "f8", ">f4", ">f8"};
    for (int t = 0; t < 5; t++) {
        for (int r = 0; r < 4; r++) {
            char name[32];
            es_array a;
            snprintf(name, sizeof name, "%s%d.npy", types[t], r);
            assert_ok(es_npy_load(in_folder(name), NULL, &a, &err));
            assert_int_equal(a.rank, r + 1);
            const es_view v =
                a.dtype == ES_F32 ? es_view_f32(a.data, 1, 24) : es_view_f64(a.data, 1, 24);
            const double eps = t == 0 ? 1e-3 : a.dtype == ES_F32 ? 6e-8 : 1e-16;
            for (int i = 0; i < 24; i++)
                assert_near(es_view_get(&v, 0, i), i / 7.0 - 1.0, eps * 3);
            es_array_free(&a);
        }
    }
    expect_refusal(in_folder("t.npy"), ES_E_UNSUPPORTED, "npy.fortran", -2);
    expect_refusal(in_folder("i.npy"), ES_E_UNSUPPORTED, "npy.dtype", -2);
    expect_refusal(in_folder("o.npy"), ES_E_UNSUPPORTED, "npy.pickle", -2);
    expect_refusal(in_folder("z.npy.npz"), ES_E_UNSUPPORTED, "npy.magic.other", 0);

    const double x[6] = {0.5, -1, 1.0 / 3, 1e300, 0, 7};
    assert_ok(es_npy_save(in_folder("ours.npy"), ES_F64, 2, (int64_t[]){3, 2}, x, true, &err));
    assert_ok(es_npy_save(in_folder("one.npy"), ES_F64, 1, (int64_t[]){6}, x, true, &err));
    assert_true(python(found, "import numpy as np; x = np.load('ours.npy'); o = np.load('one.npy');"
                              "assert x.shape == (3, 2) and o.shape == (6,) and (x.ravel() == o)"
                              ".all() and (o == [0.5, -1, 1 / 3, 1e300, 0, 7]).all()"));
    count_files(true);
}

TEST_FILE(npy)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_versions_and_spellings_are_read),
        cmocka_unit_test(NP01_big_endian_is_converted),
        cmocka_unit_test(every_half_becomes_its_float),
        cmocka_unit_test(dimensions_of_zero_are_accepted),
        cmocka_unit_test(views_are_the_last_two_dimensions),
        cmocka_unit_test(NP01_magic_version_and_header_size),
        optional_test(NP01_huge_header_of_a_huge_file),
        cmocka_unit_test(NP01_header_grammar),
        cmocka_unit_test(NP01_dtypes_that_are_no_floats),
        cmocka_unit_test(integers_are_read_where_they_are_counts),
        cmocka_unit_test(NP01_python_objects_are_never_unpickled),
        cmocka_unit_test(NP01_fortran_order),
        cmocka_unit_test(NP01_shapes_and_sizes),
        cmocka_unit_test(NP02_other_files_are_recognised),
        cmocka_unit_test(things_that_are_no_files_are_refused_at_once),
        cmocka_unit_test(budget_is_respected),
        cmocka_unit_test(corpus_files_are_what_their_names_say),
        optional_test(numpy_agrees_in_both_directions),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
