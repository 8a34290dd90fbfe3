/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy_rows.c : halves, and .npy matrices written and read row by row. */
#include "testing.h"

#include "base/half.h"
#include "folder.h"
#include "store/npy.h"
#include "store/npy_rows.h"

/* ---- halves ---- */

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a pattern means, from the definition of binary16. */
static double meaning(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000 ? -size : size;
}

static void every_half_comes_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t half = (uint16_t)i;
        const float value = es_half_to_float(half);
        if ((half & 0x7c00) == 0x7c00 && (half & 1023)) { /* NaN: which one is not promised */
            assert_nan(value);
            const uint16_t back = es_half_from_float(value);
            assert_equals(back & 0x7c00, 0x7c00);
            assert_differs(back & 1023, 0);
            continue;
        }
        if ((half & 0x7c00) == 0x7c00) {
            assert_infinite(value);
            assert_equals(value < 0, (half >= 0x8000));
        } else
            assert_equals((double)value, meaning(half));
        assert_int_equal(es_half_from_float(value), half);
    }
}

/* The nearest half in arithmetic that knows nothing of bits: the spacing at |x| is 2^(e - 10), and
 * 2^-24 at least; nearbyint() rounds ties to even. */
static double nearest_half(double x)
{
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    const int unit = exponent - 11 > -24 ? exponent - 11 : -24;
    const double rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return fabs(rounded) > 65504.0 ? copysign(INFINITY, x) : rounded;
}

static void floats_become_the_nearest_half(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 400000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* exponents from far below the least half to above the largest; every fourth is a tie */
        const uint32_t exponent = 100 + (uint32_t)(random >> 59) + (uint32_t)(random >> 60) % 13;
        uint32_t bits = (uint32_t)(random >> 8 & 0x807fffff) | exponent << 23;
        if (i % 4 == 0)
            bits = (bits & ~UINT32_C(0x1fff)) | 0x1000;
        const float x = float_of(bits);
        const double want = nearest_half((double)x);
        const double got = (double)es_half_to_float(es_half_from_float(x));
        if (got != want || signbit(got) != signbit((double)x))
            fail_msg("%a becomes %a, not %a", (double)x, got, want);
    }
    /* edges: 65520 is the tie that goes to infinity, 2^-25 the one that goes to 0 */
    assert_int_equal(es_half_from_float(float_of(0x477fefff)), 0x7bff);
    assert_int_equal(es_half_from_float(65520.0f), 0x7c00);
    assert_int_equal(es_half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(es_half_from_float(0x1p-25f), 0);
    assert_int_equal(es_half_from_float(-0x1.000002p-25f), 0x8001);
    assert_int_equal(es_half_from_float(-0.0f), 0x8000);
    assert_int_equal(es_half_from_float(0x1p-149f), 0);
}

/* ---- rows ---- */

enum { ROWS = 7, COLS = 5 };

static float number(int64_t row, int64_t col) { return (float)(row * 100 + col) / 16.0f; }

static void fill(float *out, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count * COLS; i++)
        out[i] = number(first + i / COLS, i % COLS);
}

/* bfloat16 has the exponents of a float and 8 significant bits. */
static void floats_become_the_nearest_bf16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const float value = es_bf16_to_float((uint16_t)i);
        const uint16_t back = es_bf16_from_float(value);
        if ((i & 0x7f80) == 0x7f80 && (i & 127)) {
            assert_nan(value);
            assert_nan(es_bf16_to_float(back));
        } else
            assert_int_equal(back, i);
    }
    uint64_t random = 7;
    for (int i = 0; i < 100000; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint32_t exponent = 2 + (uint32_t)(random >> 56) % 250;
        uint32_t bits = (uint32_t)(random >> 8 & 0x807fffff) | exponent << 23;
        if (i % 4 == 0) /* a tie */
            bits = (bits & ~UINT32_C(0xffff)) | 0x8000;
        const double x = (double)float_of(bits);
        int e;
        frexp(x, &e);
        const double want = ldexp(nearbyint(ldexp(x, 8 - e)), e - 8);
        assert_equals((double)es_bf16_to_float(es_bf16_from_float((float)x)), want);
    }
    assert_infinite(es_bf16_to_float(es_bf16_from_float(float_of(0x7f7fffff))));
}

static void rows_arrive_in_any_order(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        float x[ROWS * COLS], want[ROWS * COLS];
        es_npy_rows file;
        const char *path = in_folder("rows.npy");
        assert_ok(es_npy_rows_create(path, ROWS, COLS, half, &file, &err));
        fill(x, 4, 3);
        assert_ok(es_npy_rows_write(&file, 4, 3, x, &err));
        es_npy_rows_close(&file); /* killed, say: what is there stays, the rest is zeros */
        assert_ok(es_npy_rows_create(path, ROWS, COLS, half, &file, &err));
        assert_ok(es_npy_rows_read(&file, 0, ROWS, x, &err));
        fill(want, 0, ROWS);
        memset(want, 0, 4 * COLS * sizeof *want);
        assert_memory_equal(x, want, sizeof x);
        fill(x, 0, 1);
        assert_ok(es_npy_rows_write(&file, 0, 1, x, &err));
        fill(x, 1, 3);
        assert_ok(es_npy_rows_write(&file, 1, 3, x, &err));
        assert_ok(es_npy_rows_write(&file, ROWS, 0, x, &err));
        assert_ok(es_npy_rows_sync(&file, &err));
        es_npy_rows_close(&file);
        es_npy_rows_close(&file); /* fine */

        /* by whoever reads .npy */
        es_array a;
        es_npy_info info;
        fill(want, 0, ROWS);
        assert_ok(es_npy_inspect(path, &info, &err));
        assert_string_equal(info.descr + 1, half ? "f2" : "f4");
        assert_ok(es_npy_load(path, NULL, &a, &err));
        assert_equals(a.rank, 2);
        assert_equals(a.shape[0], ROWS);
        assert_equals(a.shape[1], COLS);
        assert_memory_equal(a.data, want, sizeof want);
        es_array_free(&a);
        /* and from the middle */
        assert_ok(es_npy_rows_open(path, &file, &err));
        assert_equals(file.rows, ROWS);
        assert_equals(file.cols, COLS);
        assert_equals(file.half, (half == 1));
        assert_ok(es_npy_rows_read(&file, 2, 3, x, &err));
        assert_memory_equal(x, want + 2 * COLS, 3 * COLS * sizeof *x);
        es_npy_rows_close(&file);
        remove(path);
    }
}

/* More numbers than are converted at a time. */
static void long_rows_of_halves(void **state)
{
    (void)state;
    enum { WIDE = 3 * 8192 + 17 };
    static float x[2 * WIDE], y[2 * WIDE];
    es_npy_rows file;
    for (int i = 0; i < 2 * WIDE; i++)
        x[i] = (float)(i % 2048) - 1000.0f; /* whole numbers below 2048 are halves */
    assert_ok(es_npy_rows_create(in_folder("wide.npy"), 3, WIDE, true, &file, &err));
    assert_ok(es_npy_rows_write(&file, 1, 2, x, &err));
    assert_ok(es_npy_rows_read(&file, 1, 2, y, &err));
    assert_memory_equal(x, y, sizeof x);
    es_npy_rows_close(&file);
    remove(in_folder("wide.npy"));
}

static void ranges_and_shapes_are_refused(void **state)
{
    (void)state;
    static const int64_t bad[][2] = {
        {-1, 1},       {0, -1},        {0, ROWS + 1},  {6, 2},
        {ROWS + 1, 0}, {INT64_MAX, 1}, {1, INT64_MAX}, {INT64_MIN, INT64_MIN}};
    float x[ROWS * COLS] = {0};
    es_npy_rows file;
    assert_ok(es_npy_rows_create(in_folder("rows.npy"), ROWS, COLS, false, &file, &err));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(es_npy_rows_read(&file, bad[i][0], bad[i][1], x, &err), ES_E_RANGE);
        assert_int_equal(es_npy_rows_write(&file, bad[i][0], bad[i][1], x, &err), ES_E_RANGE);
    }
    assert_string_equal(err.rule, "npy.rows.range");
    es_npy_rows_close(&file);
    const char *path = in_folder("rows.npy");
    assert_int_equal(es_npy_rows_create(path, ROWS + 1, COLS, false, &file, &err), ES_E_FORMAT);
    assert_int_equal(es_npy_rows_create(path, ROWS, COLS - 1, false, &file, &err), ES_E_FORMAT);
    assert_int_equal(es_npy_rows_create(path, ROWS, COLS, true, &file, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "npy.rows");
    assert_int_equal(file.fd, -1);
    assert_int_equal(es_npy_rows_create(in_folder("no/rows.npy"), 1, 1, false, &file, &err),
                     ES_E_IO);
    assert_int_equal(
        es_npy_rows_create(in_folder("huge.npy"), INT64_MAX / 2, 8, false, &file, &err),
        ES_E_OVERFLOW);
    assert_int_equal(access(in_folder("huge.npy"), F_OK), -1);
    remove(in_folder("rows.npy"));
}

static void other_files_are_refused(void **state)
{
    (void)state;
    const int64_t cube[] = {2, 2, 2};
    const double wide[8] = {0};
    const float narrow[8] = {0};
    es_npy_rows file;
    assert_ok(es_npy_save(in_folder("a.npy"), ES_F64, 2, cube, wide, true, &err));
    assert_int_equal(es_npy_rows_open(in_folder("a.npy"), &file, &err), ES_E_UNSUPPORTED);
    assert_ok(es_npy_save(in_folder("a.npy"), ES_F32, 3, cube, narrow, true, &err));
    assert_int_equal(es_npy_rows_open(in_folder("a.npy"), &file, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "npy.rows");
    assert_int_equal(es_npy_rows_open(in_folder("missing.npy"), &file, &err), ES_E_IO);
    /* cut short before it was opened, and after */
    assert_ok(es_npy_rows_create(in_folder("b.npy"), ROWS, COLS, false, &file, &err));
    const off_t whole = (off_t)file.offset + (off_t)(ROWS * COLS * sizeof(float));
    float x[ROWS * COLS];
    assert_int_equal(truncate(in_folder("b.npy"), whole - 1), 0);
    assert_int_equal(es_npy_rows_read(&file, 0, ROWS, x, &err), ES_E_IO);
    assert_string_equal(err.rule, "file.changed");
    assert_ok(es_npy_rows_read(&file, 0, ROWS - 1, x, &err));
    es_npy_rows_close(&file);
    assert_int_equal(es_npy_rows_open(in_folder("b.npy"), &file, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "npy.data.short");
    assert_int_equal(truncate(in_folder("b.npy"), 0), 0);
    assert_int_equal(es_npy_rows_open(in_folder("b.npy"), &file, &err), ES_E_FORMAT);
    remove(in_folder("a.npy"));
    remove(in_folder("b.npy"));
    assert_int_equal(count_files(false), 0); /* no drafts either */
}

TEST_FILE(npy_rows)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_comes_back),
        cmocka_unit_test(floats_become_the_nearest_half),
        cmocka_unit_test(floats_become_the_nearest_bf16),
        cmocka_unit_test(rows_arrive_in_any_order),
        cmocka_unit_test(long_rows_of_halves),
        cmocka_unit_test(ranges_and_shapes_are_refused),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
