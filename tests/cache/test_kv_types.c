/* SPDX-License-Identifier: Apache-2.0 */
/* test_kv_types.c : number types of a KV cache: rows that come back against golden rows
 * (tests/golden/cache/rows), against plain code written from the definitions, and for numbers that
 * no model should make; formats from text and back. */
#include "golden.h"
#include "numbers.h"

#include <float.h>

#include <esscher/npy.h>

#include "base/half.h"
#include "cache/kv_type.h"

/* ---- golden rows ---- */

typedef struct golden_rows {
    es_array rows, held; /* (heads, places, d) in f32; (types, heads, places, d) */
    es_kv_side side;
    int64_t group, residual;
} golden_rows;

static int64_t compared; /* numbers, over all golden rows */

/* Loads a file of tests/golden/cache/rows. */
static void load_rows(const json_t *entry, const char *key, es_array *out)
{
    char rest[64];
    snprintf(rest, sizeof rest, "cache/rows/%s", json_string_value(json_object_get(entry, key)));
    assert_ok(es_npy_load(golden_path(rest), NULL, out, &err));
}

/* Returns number i of an array as f64. */
static double number_at(const es_array *a, int64_t i)
{
    return a->dtype == ES_F32 ? (double)((const float *)a->data)[i] : ((const double *)a->data)[i];
}

/* Rounds copies of all heads as `dtype`; returns them as f64. */
static double *round_copy(const golden_rows *g, const es_kv_format *format, es_dtype dtype)
{
    const int64_t heads = g->rows.shape[0], n = g->rows.shape[1], d = g->rows.shape[2];
    double *out = malloc((size_t)(heads * n * d) * sizeof *out);
    float *narrow = malloc((size_t)(heads * n * d) * sizeof *narrow);
    for (int64_t i = 0; i < heads * n * d; i++)
        out[i] = (double)(narrow[i] = ((const float *)g->rows.data)[i]);
    double peak = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t h = 0; h < heads; h++) {
            const es_view rows = dtype == ES_F32 ? es_view_f32(narrow + h * n * d, n, d)
                                                 : es_view_f64(out + h * n * d, n, d);
            if (pass == 0)
                peak = fmax(peak, es_kv_peak(format, &rows));
            else
                es_kv_round(format, g->side, peak, &rows);
        }
    for (int64_t i = 0; dtype == ES_F32 && i < heads * n * d; i++)
        out[i] = (double)narrow[i];
    free(narrow);
    return out;
}

/* Compares the rows that come back of one type with the golden ones. They are equal bit for bit,
 * the sign of zeros included. Exception: rotations whose 1/sqrt(m) is irrational (m = 8); there
 * sums in another order move numbers by a few units in the last place of the row's largest one. */
static void check_type(const golden_rows *g, const char *name, int64_t at, es_dtype dtype)
{
    es_kv_format format;
    assert_ok(es_kv_format_parse(name, &format, &err));
    if (es_kv_format_by_query(&format)) {
        format.group = g->group;
        format.residual = g->residual;
    }
    const int64_t d = g->rows.shape[2], all = g->rows.shape[0] * g->rows.shape[1] * d;
    const double unit = dtype == ES_F32 ? FLT_EPSILON : 4.0 * DBL_EPSILON;
    double *got = round_copy(g, &format, dtype);
    for (int64_t i = 0; i < all; i++, compared++) {
        double want = number_at(&g->held, at * all + i), largest = 0.0;
        if (format.hadamard && dtype == ES_F32)
            want = (double)(float)want;
        if (format.hadamard ? want == got[i] : memcmp(&want, &got[i], sizeof want) == 0)
            continue;
        for (int64_t k = i - i % d; k < i - i % d + d; k++)
            largest = fmax(largest, fabs(got[k]));
        if (!format.hadamard || d != 8 || !(fabs(want - got[i]) <= unit * largest))
            fail_msg("%s in %s, d = %d: number %d is %.17g, expected %.17g", name,
                     es_dtype_name(dtype), (int)d, (int)i, got[i], want);
    }
    free(got);
}

static void rows_of_every_type_are_the_golden_ones(void **state)
{
    (void)state;
    json_t *list = golden_file("cache/rows/rows.json");
    size_t e, t;
    json_t *entry, *name;
    compared = 0;
    json_array_foreach(list, e, entry)
    {
        golden_rows g = {.group = (int64_t)golden_real(entry, "group"),
                         .residual = (int64_t)golden_real(entry, "residual")};
        const bool keys = *json_string_value(json_object_get(entry, "what")) == 'k';
        load_rows(entry, "rows", &g.rows);
        load_rows(entry, "held", &g.held);
        json_array_foreach(json_object_get(entry, "types"), t, name)
        {
            const char *text = json_string_value(name);
            for (int side = 0; side < 2; side++) {
                g.side = side ? ES_KV_VALUES : ES_KV_KEYS;
                if (strstr(text, "kivi") && keys != (g.side == ES_KV_KEYS))
                    continue; /* other types treat K and V alike */
                check_type(&g, text, (int64_t)t, ES_F32);
                check_type(&g, text, (int64_t)t, ES_F64);
            }
        }
        es_array_free(&g.rows);
        es_array_free(&g.held);
    }
    json_decref(list);
    /* rotated or not, 2 dtypes, 12 types of keys and of values; 2 heads of 24 places */
    assert_int_equal(compared, 2 * 2 * 24 * 2 * 24 * (64 + 80 + 8));
}

/* Every type of the registry has golden rows. */
static void every_type_has_golden_rows(void **state)
{
    (void)state;
    json_t *list = golden_file("cache/rows/rows.json");
    const json_t *names = json_object_get(json_array_get(list, 0), "types");
    for (int64_t i = 0; es_kv_type_at(i); i++) {
        bool found = false;
        for (size_t k = 0; k < json_array_size(names); k++)
            found = found || strcmp(json_string_value(json_array_get(names, k)),
                                    es_kv_type_at(i)->name) == 0;
        if (!found)
            fail_msg("%s has no golden rows", es_kv_type_at(i)->name);
    }
    json_decref(list);
}

/* ---- plain code ---- */

/* Returns x rounded to f16 by base/half.h. */
static float half(float x) { return es_half_to_float(es_half_from_float(x)); }

/* Returns random bits as a number, NaN and Inf included; one in 64 is all ones but the sign. */
static float random_bits(void)
{
    uint32_t bits = (uint32_t)(uniform() * 4294967296.0);
    if (between(0, 63) == 0)
        bits |= UINT32_C(0x7fffffff);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounds `n` numbers in place by the format `name`, as one row of values. */
static void round_row(const char *name, float *x, int64_t n)
{
    es_kv_format format;
    const es_view row = es_view_f32(x, 1, n);
    assert_ok(es_kv_format_parse(name, &format, &err));
    es_kv_round(&format, ES_KV_VALUES, es_kv_peak(&format, &row), &row);
}

/* Fails unless both are NaN or both have the same bits. */
static void assert_same(const char *name, float from, float got, float want)
{
    if (!(isnan(got) && isnan(want)) && memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s of %.9g is %.9g, expected %.9g", name, (double)from, (double)got,
                 (double)want);
}

/* All halves, numbers halfway between them and their neighbours, and random bits, against
 * base/half.h. */
static void f16_and_bf16_are_those_of_base(void **state)
{
    (void)state;
    state_of_rng = 5;
    for (int i = 0; i < 300000; i++) {
        float x = random_bits();
        if (i < 65536 * 3) {
            const float a = es_half_to_float((uint16_t)(i / 3));
            const float b = es_half_to_float((uint16_t)(i / 3 + 1));
            const float middle = 0.5f * (a + b);
            x = i % 3 == 0 ? a : nextafterf(middle, i % 3 == 1 ? middle : b);
        }
        float y = x, z = x;
        round_row("f16", &y, 1);
        round_row("bf16", &z, 1);
        assert_same("f16", x, y, half(x));
        assert_same("bf16", x, z, es_bf16_to_float(es_bf16_from_float(x)));
    }
}

/* Returns the e4m3fn nearest to |y| of the list of all 127 of them; of two the even one. */
static float plain_fp8(float y)
{
    float best = 0.0f;
    for (int code = 0; code < 127; code++) {
        const int exponent = code >> 3, fraction = code & 7;
        const float value =
            exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
        const float a = fabsf(fabsf(y) - value), b = fabsf(fabsf(y) - best);
        if (a < b || (a == b && code % 2 == 0))
            best = value;
    }
    return copysignf(best, y);
}

static void fp8_is_the_nearest_of_its_127_magnitudes(void **state)
{
    (void)state;
    state_of_rng = 6;
    for (int i = 0; i < 40000; i++) {
        /* many ties: 5 significant bits */
        const float x = i % 2 ? (float)ldexp(normal(), (int)between(-14, 10))
                              : ldexpf((float)between(-63, 63), (int)between(-14, 4));
        float y = x, z = x;
        round_row("fp8", &y, 1);
        round_row("fp8:0.3", &z, 1);
        assert_same("fp8", x, y, plain_fp8(x));
        assert_same("fp8:0.3", x, z, plain_fp8(x / 0.3f) * 0.3f);
    }
}

/* Rounds a block by the definitions of llama.cpp's types, one number after the other. */
static void plain_block(const char *name, const float *x, int n, float *out)
{
    float low = x[0], high = x[0], m = x[0];
    for (int i = 1; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    }
    const bool q8 = strcmp(name, "q8_0") == 0, minimum = name[3] == '1';
    const float t = name[1] == '5' ? (minimum ? 31.0f : 16.0f) : (minimum ? 15.0f : 8.0f);
    const float d = q8 ? fabsf(m) / 127.0f : minimum ? (high - low) / t : m / -t;
    const float id = d == 0.0f ? 0.0f : 1.0f / d;
    for (int i = 0; i < n; i++) {
        const float scaled = (minimum ? x[i] - low : x[i]) * id;
        if (q8)
            out[i] = roundf(scaled) * half(d);
        else if (minimum)
            out[i] = fminf(t, truncf(scaled + 0.5f)) * half(d) + half(low);
        else
            out[i] = (fminf(2.0f * t - 1.0f, truncf(scaled + (t + 0.5f))) - t) * half(d);
    }
}

/* Blocks of many sizes, with ties, zeros, subnormal and overflowing scales, in every length. */
static void ggml_types_are_those_of_plain_code(void **state)
{
    (void)state;
    static const char *const names[] = {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0"};
    state_of_rng = 7;
    for (int trial = 0; trial < 60000; trial++) {
        float x[32] = {0}, want[32], got[32];
        const int n = trial % 4 ? 32 : (int)between(1, 32), power = (int)between(-100, 30);
        for (int i = 0; i < n; i++)
            x[i] = trial % 3 ? (float)ldexp(normal(), power)
                             : ldexpf((float)between(-16, 16), power); /* ties, equal extremes */
        const char *name = names[trial % 5];
        plain_block(name, x, n, want);
        memcpy(got, x, sizeof got);
        round_row(name, got, n);
        for (int i = 0; i < n; i++)
            assert_same(name, x[i], got[i], want[i]);
    }
}

/* A code is off by at most half a step, 1/2 in units of the scale, plus what f16 does to the scale:
 * 127 of them, 2^-11 each. */
static void errors_of_q8_0_are_below_half_a_step(void **state)
{
    (void)state;
    state_of_rng = 8;
    for (int trial = 0; trial < 2000; trial++) {
        float x[32], y[32], most = 0.0f;
        for (int i = 0; i < 32; i++) {
            y[i] = x[i] = (float)normal();
            most = fmaxf(most, fabsf(x[i]));
        }
        round_row("q8_0", y, 32);
        for (int i = 0; i < 32; i++)
            assert_at_most(fabs((double)y[i] - (double)x[i]),
                           (double)most / 127.0 * (0.5 + 127.0 * 0x1p-11 + 1e-4));
    }
}

/* Rounds a block of iq4_nl by its definition, with distances in f64. */
static void plain_iq4_nl(const float *x, int n, float *out)
{
    static const float level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
    float m = x[0], code[32], above = 0.0f, below = 0.0f;
    for (int i = 1; i < n; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    const float d = m / -127.0f, id = d == 0.0f ? 0.0f : 1.0f / d;
    for (int i = 0; i < n; i++) {
        const double v = (double)(x[i] * id);
        code[i] = level[0];
        for (int k = 1; k < 16; k++)
            if (fabs(v - (double)level[k]) <= fabs(v - (double)code[i]))
                code[i] = level[k];
        above += x[i] * x[i] * code[i] * x[i];
        below += x[i] * x[i] * code[i] * code[i];
    }
    const float scale = fabsf(m) < 1e-15f ? 0.0f : half(above / below);
    for (int i = 0; i < n; i++)
        out[i] = code[i] * scale;
}

/* Half of the blocks are multiples of 1/2 with 127 among them, which are often halfway between two
 * levels. */
static void iq4_nl_is_that_of_plain_code(void **state)
{
    (void)state;
    state_of_rng = 13;
    for (int trial = 0; trial < 20000; trial++) {
        float x[32] = {0}, want[32], got[32];
        const int n = trial % 4 ? 32 : (int)between(1, 32), power = (int)between(-90, 20);
        for (int i = 0; i < n; i++)
            x[i] = trial % 2 ? (float)ldexp(normal(), power)
                             : ldexpf((float)between(-254, 254), trial % 4 ? power : -1);
        if (trial % 2 == 0)
            x[n - 1] = ldexpf(trial % 8 ? -254.0f : 254.0f, trial % 4 ? power : -1);
        plain_iq4_nl(x, n, want);
        memcpy(got, x, sizeof got);
        round_row("iq4_nl", got, n);
        for (int i = 0; i < n; i++)
            assert_same("iq4_nl", x[i], got[i], want[i]);
    }
}

/* A rotation and its inverse are the same matrix, and lengths stay. */
static void rotations_keep_rows(void **state)
{
    (void)state;
    state_of_rng = 9;
    for (int64_t d = 1; d <= 256; d = d < 100 ? d + 1 : d + 31) {
        es_kv_format format;
        double *x = normals(d), *y = malloc((size_t)d * sizeof *y);
        memcpy(y, x, (size_t)d * sizeof *y);
        const es_view row = es_view_f64(y, 1, d);
        assert_ok(es_kv_format_parse("fp8:1e-30+h", &format, &err));
        const double before = es_kv_peak(&format, &row);
        assert_at_most(before, 4.0 * sqrt((double)d));
        assert_ok(es_kv_format_parse("f16+h", &format, &err));
        es_kv_round(&format, ES_KV_KEYS, 0.0, &row);
        double error = 0.0, length = 0.0;
        for (int64_t i = 0; i < d; i++) {
            error += (x[i] - y[i]) * (x[i] - y[i]);
            length += x[i] * x[i];
        }
        assert_at_most(sqrt(error / length), 0x1p-11); /* the relative error of f16 */
        free(x);
        free(y);
    }
}

/* ---- KIVI ---- */

/* Keys of an incomplete last group are fine, those before it are coarse. */
static void kivi_holds_an_incomplete_group_fine(void **state)
{
    (void)state;
    es_kv_format format;
    float x[7][3], fine[7][3], coarse[4][3];
    state_of_rng = 10;
    for (int i = 0; i < 21; i++)
        (&x[0][0])[i] = (float)normal();
    memcpy(fine, x, sizeof x);
    memcpy(coarse, x, sizeof coarse);
    assert_ok(es_kv_format_parse("kivi2:group=4:residual=8", &format, &err));
    const es_view all = es_view_f32(&x[0][0], 7, 3), first = es_view_f32(&coarse[0][0], 4, 3);
    const es_view fine_rows = es_view_f32(&fine[0][0], 7, 3);
    es_kv_round(&format, ES_KV_KEYS, 0.0, &all);
    es_kv_round(&format, ES_KV_KEYS, 0.0, &first);
    es_kv_round_fine(&format, &fine_rows);
    assert_memory_equal(x, coarse, sizeof coarse);
    assert_memory_equal(x[4], fine[4], 3 * sizeof x[4]);
    for (int c = 0; c < 3; c++) { /* 2 bits: not all of them are the fine ones */
        int differ = 0;
        for (int i = 0; i < 4; i++)
            differ += x[i][c] != fine[i][c];
        assert_true(differ > 0);
    }
}

static void kivi_says_which_places_are_coarse(void **state)
{
    (void)state;
    es_kv_format format;
    assert_ok(es_kv_format_parse("kivi4:group=4:residual=8", &format, &err));
    assert_true(es_kv_format_by_query(&format));
    const int64_t query[] = {0, 7, 8, 9, 15, 16, 40}, keys[] = {0, 0, 8, 8, 8, 16, 40},
                  values[] = {0, 0, 0, 1, 7, 8, 32};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(es_kv_coarse_places(&format, ES_KV_KEYS, query[i]), keys[i]);
        assert_int_equal(es_kv_coarse_places(&format, ES_KV_VALUES, query[i]), values[i]);
    }
}

/* ---- any numbers ---- */

/* Returns whether NaN or Inf of `x` is where its scale is shared with number i of row r. */
static bool shares_with_odd(const es_kv_format *f, es_kv_side side, const float *x, int64_t n,
                            int64_t d, int64_t r, int64_t i)
{
    const bool places = side == ES_KV_KEYS && f->type->round_keys;
    const int64_t b = i - i % ES_KV_BLOCK, g = places ? r - r % f->group : r;
    if (places && g + f->group > n)
        return !isfinite(x[r * d + i]);
    for (int64_t k = 0; k < (places ? f->group : ES_KV_BLOCK); k++) {
        const int64_t at = places ? (g + k) * d + i : r * d + b + k;
        if ((places || b + k < d) && !isfinite(x[at]))
            return true;
    }
    return false;
}

/* Random bits in every type: nothing traps (the sanitizers watch conversions), NaN never becomes
 * finite, Inf only in fp8, which saturates, and only a NaN or Inf makes NaN of numbers below 1e4.
 */
static void KV02_any_bits_can_be_rounded(void **state)
{
    (void)state;
    enum { N = 6, D = 70 };
    static float x[N * D], y[N * D];
    static double wide[N * D];
    state_of_rng = 11;
    for (int64_t t = 0; es_kv_type_at(t); t++)
        for (int trial = 0; trial < 400; trial++) {
            es_kv_format f = {.type = es_kv_type_at(t), .scale = 1.0, .group = 4, .residual = 4};
            const es_kv_side side = trial % 2 ? ES_KV_KEYS : ES_KV_VALUES;
            const bool all_odd = trial % 4 < 2;
            for (int i = 0; i < N * D; i++) {
                x[i] = !all_odd && between(0, 99) ? (float)(1e3 * normal()) : random_bits();
                y[i] = x[i];
                wide[i] = (double)x[i];
            }
            const es_view rows = es_view_f32(y, N, D), wide_rows = es_view_f64(wide, N, D);
            f.scale_of_tensor = f.type->largest > 0.0f && trial % 8 == 5;
            es_kv_round(&f, side, es_kv_peak(&f, &rows), &rows);
            f.hadamard = true;
            es_kv_round(&f, side, es_kv_peak(&f, &wide_rows), &wide_rows);
            for (int64_t i = 0; i < N * D && !f.scale_of_tensor; i++) {
                const bool blocks = f.type->scale_bits > 0;
                if (isnan(x[i]) || (blocks && shares_with_odd(&f, side, x, N, D, i / D, i % D)))
                    assert_true(isfinite(y[i]) == 0);
                else if (isinf(x[i]) && f.type->largest == 0.0f)
                    assert_true(isfinite(y[i]) == 0);
                else if (!blocks && fabsf(x[i]) < 6e4f)
                    assert_finite(y[i]);
            }
        }
}

/* Rows of 0 come back as 0 in every format. */
static void KV02_zeros_come_back(void **state)
{
    (void)state;
    for (int64_t t = 0; es_kv_type_at(t); t++)
        for (int choice = 0; choice < 8; choice++) {
            double x[5 * 40] = {0};
            const es_view rows = es_view_f64(x, 5, 40);
            const es_kv_format f = {.type = es_kv_type_at(t),
                                    .scale = 1.0,
                                    .scale_of_tensor =
                                        choice & 1 && es_kv_type_at(t)->largest > 0.0f,
                                    .hadamard = choice & 2,
                                    .group = 4,
                                    .residual = 4};
            es_kv_round(&f, choice & 4 ? ES_KV_KEYS : ES_KV_VALUES, 0.0, &rows);
            for (int i = 0; i < 5 * 40; i++)
                assert_equals(x[i], 0.0);
        }
}

/* Rows of a head inside rows of several heads: neighbours stay as they are. "f32" changes nothing.
 */
static void rows_may_be_apart(void **state)
{
    (void)state;
    enum { N = 9, D = 40, WIDE = 130, AT = 50 };
    state_of_rng = 12;
    for (int64_t t = -1; t < 0 || es_kv_type_at(t); t++) {
        const es_kv_format f = {
            .type = t < 0 ? NULL : es_kv_type_at(t), .scale = 1.0, .group = 4, .residual = 4};
        double *x = normals(N * WIDE), *y = malloc(N * WIDE * sizeof *y), head[N * D];
        memcpy(y, x, N * WIDE * sizeof *y);
        for (int i = 0; i < N * D; i++)
            head[i] = x[i / D * WIDE + AT + i % D];
        const es_view alone = es_view_f64(head, N, D);
        es_view inside = alone;
        inside.data = y + AT;
        inside.row_stride = WIDE * (int64_t)sizeof *y;
        es_kv_round(&f, ES_KV_KEYS, 0.0, &alone);
        es_kv_round(&f, ES_KV_KEYS, 0.0, &inside);
        int changed = 0;
        for (int i = 0; i < N * WIDE; i++) {
            const int c = i % WIDE - AT;
            const bool in = c >= 0 && c < D;
            assert_true(y[i] == (in ? head[i / WIDE * D + c] : x[i]));
            changed += y[i] != x[i];
        }
        assert_true(t < 0 ? changed == 0 : changed > N * D / 2);
        free(x);
        free(y);
    }
}

/* ---- formats ---- */

static void formats_are_read_and_written(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"f32", "f32"},
        {"f16", "f16"},
        {"q4_0+h", "q4_0+hadamard"},
        {"q4_0+hadamard", "q4_0+hadamard"},
        {"fp8", "fp8"},
        {"fp8:1", "fp8"},
        {"fp8:tensor", "fp8:tensor"},
        {"fp8:tensor+h", "fp8:tensor+hadamard"},
        {"fp8:0.5", "fp8:0.5"},
        {"fp8:0.1+h", "fp8:0.1+hadamard"},
        {"fp8:1e+30+h", "fp8:1e+30+hadamard"},
        {"fp8:0.30000000000000004", "fp8:0.30000000000000004"},
        {"kivi2", "kivi2"},
        {"kivi2:group=32:residual=128", "kivi2"},
        {"kivi4:residual=64:group=16+h", "kivi4:group=16:residual=64+hadamard"},
        {"kivi2:group=64", "kivi2:group=64"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        es_kv_format a, b;
        char name[ES_KV_NAME];
        assert_ok(es_kv_format_parse(texts[i][0], &a, &err));
        assert_string_equal(es_kv_format_name(&a, name, sizeof name), texts[i][1]);
        assert_ok(es_kv_format_parse(name, &b, &err));
        assert_true(a.type == b.type && a.hadamard == b.hadamard && a.scale == b.scale &&
                    a.scale_of_tensor == b.scale_of_tensor && a.group == b.group &&
                    a.residual == b.residual);
    }
    for (int64_t i = 0; es_kv_type_at(i); i++) {
        es_kv_format f;
        assert_ok(es_kv_format_parse(es_kv_type_at(i)->name, &f, &err));
        assert_ptr_equal(f.type, es_kv_type_at(i));
        assert_true(strlen(f.type->about) > 0 && f.type->round != NULL);
    }
}

static void formats_that_are_refused(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"", "kv_type.name"},
                                           {"q4", "kv_type.name"},
                                           {"Q4_0", "kv_type.name"},
                                           {"q4_0+", "kv_type.name"},
                                           {"q4_0+x", "kv_type.name"},
                                           {"q4_0+h+h", "kv_type.name"},
                                           {"+h", "kv_type.name"},
                                           {"q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_"
                                            "0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0q4_0",
                                            "kv_type.name"},
                                           {"q4_0:tensor", "kv_type.option"},
                                           {"f32:1", "kv_type.option"},
                                           {"fp8:", "kv_type.option"},
                                           {"fp8:auto", "kv_type.option"},
                                           {"fp8:nan", "kv_type.option"},
                                           {"fp8:0x10", "kv_type.option"},
                                           {"fp8:1.5.2", "kv_type.option"},
                                           {"fp8:0", "kv_type.scale"},
                                           {"fp8:-1", "kv_type.scale"},
                                           {"fp8:1e39", "kv_type.scale"},
                                           {"fp8:1e-39", "kv_type.scale"},
                                           {"fp8:1e999", "kv_type.scale"},
                                           {"kivi2:32", "kv_type.option"},
                                           {"kivi2:group=0", "kv_type.group"},
                                           {"kivi2:group=", "kv_type.group"},
                                           {"kivi2:group=-32", "kv_type.group"},
                                           {"kivi2:group=1e3", "kv_type.group"},
                                           {"kivi2:group=99999999999999999999", "kv_type.group"},
                                           {"kivi2:residual=0", "kv_type.residual"},
                                           {"kivi2:residual=100", "kv_type.residual"},
                                           {"kivi2:group=48", "kv_type.residual"},
                                           {"f32+h", "kv_type.rotation"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        es_kv_format f = {.group = 77};
        if (es_kv_format_parse(texts[i][0], &f, &err) != ES_E_ARGUMENT)
            fail_msg("\"%s\" is not refused", texts[i][0]);
        assert_string_equal(err.rule, texts[i][1]);
        assert_true(*err.hint && f.group == 77);
        assert_int_equal(es_kv_format_parse(texts[i][0], &f, NULL), ES_E_ARGUMENT);
    }
    assert_int_equal(es_kv_format_parse("q3", &(es_kv_format){0}, &err), ES_E_ARGUMENT);
    for (int64_t i = 0; es_kv_type_at(i); i++) /* the hint lists every name, and is not cut */
        assert_non_null(strstr(err.hint, es_kv_type_at(i)->name));
    assert_true(strlen(err.hint) < sizeof err.hint - 1);
}

/* Bits by the golden README; shorter last blocks have whole scales. */
static void bits_count_scales(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t dim;
        double keys, values;
    } rows[] = {{"f32", 64, 32, 32},      {"f16", 80, 16, 16},    {"bf16", 8, 16, 16},
                {"fp8:tensor", 64, 8, 8}, {"q8_0", 64, 8.5, 8.5}, {"q5_1", 128, 6, 6},
                {"q5_0", 64, 5.5, 5.5},   {"q4_1", 64, 5, 5},     {"q4_0+h", 64, 4.5, 4.5},
                {"iq4_nl", 32, 4.5, 4.5}, {"q4_0", 80, 4.6, 4.6}, {"q8_0", 8, 10, 10},
                {"kivi4", 64, 5, 5},      {"kivi2", 128, 3, 3},   {"kivi2:group=64", 64, 2.5, 3},
                {"kivi2", 80, 3, 3.2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        es_kv_format f;
        assert_ok(es_kv_format_parse(rows[i].name, &f, &err));
        assert_close(es_kv_format_bits(&f, ES_KV_KEYS, rows[i].dim), rows[i].keys, 1e-15);
        assert_close(es_kv_format_bits(&f, ES_KV_VALUES, rows[i].dim), rows[i].values, 1e-15);
    }
}

/* The names that help lists are those of the rows, and grouped ones share scales over places. */
static void help_lists_the_rows(void **state)
{
    char all[256] = "", plain[256] = "", grouped[256] = "";
    (void)state;
    for (int64_t i = 0; es_kv_type_at(i); i++) {
        const es_kv_type *type = es_kv_type_at(i);
        char *list = type->round_keys ? grouped : plain;
        snprintf(all + strlen(all), sizeof all - strlen(all), ", %s", type->name);
        snprintf(list + strlen(list), sizeof plain - strlen(list), ", %s", type->name);
    }
    assert_string_equal(ES_KV_LIST, all);
    assert_string_equal(ES_KV_PLAIN_LIST, plain);
    assert_string_equal(ES_KV_GROUPED_LIST, grouped);
}

TEST_FILE(kv_types)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_every_type_are_the_golden_ones),
                                       cmocka_unit_test(every_type_has_golden_rows),
                                       cmocka_unit_test(help_lists_the_rows),
                                       cmocka_unit_test(f16_and_bf16_are_those_of_base),
                                       cmocka_unit_test(fp8_is_the_nearest_of_its_127_magnitudes),
                                       cmocka_unit_test(ggml_types_are_those_of_plain_code),
                                       cmocka_unit_test(errors_of_q8_0_are_below_half_a_step),
                                       cmocka_unit_test(iq4_nl_is_that_of_plain_code),
                                       cmocka_unit_test(rotations_keep_rows),
                                       cmocka_unit_test(kivi_holds_an_incomplete_group_fine),
                                       cmocka_unit_test(kivi_says_which_places_are_coarse),
                                       cmocka_unit_test(KV02_any_bits_can_be_rounded),
                                       cmocka_unit_test(KV02_zeros_come_back),
                                       cmocka_unit_test(rows_may_be_apart),
                                       cmocka_unit_test(formats_are_read_and_written),
                                       cmocka_unit_test(formats_that_are_refused),
                                       cmocka_unit_test(bits_count_scales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
