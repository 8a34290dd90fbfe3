/* SPDX-License-Identifier: Apache-2.0 */
/* test_random.c : the contract of random.h: addresses, bits, accuracy. The laws themselves are
 * tested in test_random_laws.c. */
#include "testing.h"

#include <Random123/philox.h>

#include "base/threads.h"
#include "random/blocks.h"
#include "random/elementary.h"
#include "random/random.h"
#include <esscher/random.h>

/* ---- known answers ---- */

static void philox_gives_the_published_vectors(void **state)
{
    (void)state;
    /* The three vectors for philox4x32-10 that Random123 ships in kat_vectors. */
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t *c = known[i].counter, *k = known[i].key, *b = known[i].block;
        const uint64_t seed = (uint64_t)k[1] << 32 | k[0];
        const uint64_t low = (uint64_t)c[1] << 32 | c[0], high = (uint64_t)c[3] << 32 | c[2];
        const uint64_t expected[2] = {(uint64_t)b[1] << 32 | b[0], (uint64_t)b[3] << 32 | b[2]};
        uint64_t words[2], at[ES_TILE], tile[2 * ES_TILE];
        es_block_words(seed, high, low, words);
        assert_memory_equal(words, expected, sizeof words);
        for (int j = 0; j < ES_TILE; j++)
            at[j] = low;
        es_blocks_best()->words(seed, high, at, ES_TILE, tile);
        for (int j = 0; j < ES_TILE; j++)
            assert_memory_equal(tile + 2 * j, expected, sizeof expected);
    }
}

static void counter_layout_is_as_documented(void **state)
{
    (void)state;
    const es_address a = {.seed = 0x0123456789abcdef,
                          .experiment = 0xbeef,
                          .cell = 0xa1a2a3a4a5a6,
                          .token = 0xb1b2b3b4b5,
                          .lane = 0xc1c2c3};
    const philox4x32_ctr_t counter = {{0xb5c1c2c3, 0xb1b2b3b4, 0xa3a4a5a6, 0xbeefa1a2}};
    const philox4x32_key_t key = {{0x89abcdef, 0x01234567}};
    const philox4x32_ctr_t block = philox4x32(counter, key);
    const uint64_t word = (uint64_t)block.v[1] << 32 | block.v[0];
    assert_equals(es_uniform_at(&a), ((double)(word >> 12) + 0.5) * 0x1p-52);
}

/* A fingerprint (FNV-1a) of many bytes. */
static uint64_t fingerprint(const void *data, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const unsigned char *p = data; size > 0; size--)
        hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
    return hash;
}

static void bits_never_change(void **state)
{
    (void)state;
    /* Recorded once. Any compiler, instruction set or optimisation level must reproduce them; a
     * change here changes every published number that was computed with this library. */
    const es_address a = {.seed = 20260101, .experiment = 3, .cell = 17, .token = 5, .lane = 2};
    enum { ROWS = 501, DIM = 5, N = ROWS * DIM };
    static double x[N];
    static float f[N];
    static int64_t n[N];
    assert_ok(es_uniform_rows(&a, ROWS, DIM, x, &err));
    assert_int_equal(fingerprint(x, sizeof x), UINT64_C(0xfecd0801751e8ee9));
    assert_ok(es_exponential_rows(&a, ROWS, DIM, x, &err));
    assert_int_equal(fingerprint(x, sizeof x), UINT64_C(0xb9fd9126ef26b922));
    assert_ok(es_normal_rows(&a, ROWS, DIM, x, &err));
    assert_int_equal(fingerprint(x, sizeof x), UINT64_C(0x56159c116e25f1da));
    assert_ok(es_sphere_rows(&a, ROWS, DIM, x, &err));
    for (int i = 0; i < N; i++)
        f[i] = (float)x[i];
    assert_int_equal(fingerprint(f, sizeof f), UINT64_C(0x8583a853b5317c09));
    assert_ok(es_gamma_rows(&a, ROWS, DIM, 0.7, x, &err));
    assert_int_equal(fingerprint(x, sizeof x), UINT64_C(0xaf174e718ecd276d));
    assert_ok(es_beta_rows(&a, ROWS, DIM, 0.3, 2.5, x, &err));
    assert_int_equal(fingerprint(x, sizeof x), UINT64_C(0xc550de5ad49d58f2));
    assert_ok(es_integer_rows(&a, ROWS, DIM, 1000003, n, &err));
    assert_int_equal(fingerprint(n, sizeof n), UINT64_C(0x57e31d9e175ea1e1));
    es_permutation p;
    assert_ok(es_permutation_init(&a, N, &p, &err));
    for (int64_t i = 0; i < N; i++)
        n[i] = es_permutation_at(&p, i);
    assert_int_equal(fingerprint(n, sizeof n), UINT64_C(0x694154b85281af4e));
}

/* ---- one definition, many ways to get there ---- */

static void rows_equal_the_scalar_definition(void **state)
{
    (void)state;
    enum { ROWS = 37, MOST = 65 };
    static const int64_t dims[] = {1, 2, 3, 7, 16, 33, 64, MOST};
    static double u[ROWS * MOST], e[ROWS * MOST], z[ROWS * MOST];
    static float f[ROWS * MOST];
    es_address first = {.seed = 99, .experiment = 1, .cell = 4, .token = 1000, .lane = 12};
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
        const int64_t dim = dims[d];
        assert_ok(es_uniform_rows(&first, ROWS, dim, u, &err));
        assert_ok(es_exponential_rows(&first, ROWS, dim, e, &err));
        assert_ok(es_normal_rows(&first, ROWS, dim, z, &err));
        assert_ok(es_normal_rows_f32(&first, ROWS, dim, f, &err));
        for (int64_t i = 0; i < ROWS; i++) {
            for (int64_t j = 0; j < dim; j++) {
                es_address at = first;
                at.token += (uint64_t)i;
                at.lane += (uint32_t)(j / 2);
                uint64_t words[2];
                double pair[2];
                es_block_words(at.seed, es_address_high(&at), es_address_low(&at), words);
                es_block_normals(words, pair);
                const double uniform = es_open_unit(words[j % 2]);
                assert_equals(u[i * dim + j], uniform);
                assert_equals(e[i * dim + j], es_negative_log(uniform));
                assert_equals(z[i * dim + j], pair[j % 2]);
                assert_equals(f[i * dim + j], (float)pair[j % 2]);
                if (j % 2 == 0)
                    assert_equals(es_uniform_at(&at), uniform);
            }
        }
    }
}

static void both_instruction_sets_give_the_same_bits(void **state)
{
    (void)state;
    if (!es_blocks_avx2.words || !es_isa_available(ES_ISA_AVX2))
        skip_test("this CPU has no AVX2");
    enum { COUNT = 20000 - 20000 % ES_TILE };
    static uint64_t at[COUNT], w[2][2 * COUNT];
    static double x[2][2 * COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        at[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    const es_block_kernels *k[2] = {&es_blocks_portable, &es_blocks_avx2};
    for (int i = 0; i < 2; i++)
        k[i]->words(5, 6, at, COUNT, w[i]);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    for (int i = 0; i < 2; i++)
        k[i]->uniforms(5, 6, at, COUNT, x[i]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    for (int i = 0; i < 2; i++)
        k[i]->exponentials(5, 6, at, COUNT, x[i]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    for (int i = 0; i < 2; i++)
        k[i]->normals(5, 6, at, COUNT, x[i]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
}

/* The laws in one shape, so that a property can be tested for all of them. */
typedef es_status fill_fn(const es_address *first, int64_t tokens, int64_t dim, double *out);

static es_status fill_uniform(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_uniform_rows(a, n, d, out, &err);
}
static es_status fill_exponential(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_exponential_rows(a, n, d, out, &err);
}
static es_status fill_normal(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_normal_rows(a, n, d, out, &err);
}
static es_status fill_gamma(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_gamma_rows(a, n, d, 0.4, out, &err);
}
static es_status fill_chi(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_chi_rows(a, n, d, 3.0, out, &err);
}
static es_status fill_beta(const es_address *a, int64_t n, int64_t d, double *out)
{
    return es_beta_rows(a, n, d, 1.5, 0.5, out, &err);
}
static es_status fill_integer(const es_address *a, int64_t n, int64_t d, double *out)
{
    /* A count that rejects a quarter of the words, to test that a rejection stays private. */
    return es_integer_rows(a, n, d, INT64_C(3) << 61, (int64_t *)(void *)out, &err);
}

static fill_fn *const fills[] = {fill_uniform, fill_exponential, fill_normal, fill_gamma,
                                 fill_chi,     fill_beta,        fill_integer};
enum { FILLS = sizeof fills / sizeof fills[0] };

static void a_prefix_is_the_same_numbers(void **state)
{
    (void)state;
    enum { ROWS = 300, DIM = 11 };
    static double all[ROWS * DIM], some[ROWS * DIM];
    const es_address first = {.seed = 1, .cell = 2, .token = 3};
    for (int f = 0; f < FILLS; f++) {
        assert_ok(fills[f](&first, ROWS, DIM, all));
        for (int64_t dim = 1; dim <= DIM; dim++) { /* fewer elements, fewer tokens */
            const int64_t rows = ROWS - 20 * dim;
            assert_ok(fills[f](&first, rows, dim, some));
            for (int64_t i = 0; i < rows; i++)
                assert_memory_equal(some + i * dim, all + i * DIM, (size_t)dim * sizeof *all);
        }
        for (int64_t i = 0; i < ROWS; i += 41) { /* starting elsewhere */
            es_address at = first;
            at.token += (uint64_t)i;
            assert_ok(fills[f](&at, ROWS - i, DIM, some));
            assert_memory_equal(some, all + i * DIM, (size_t)((ROWS - i) * DIM) * sizeof *all);
        }
    }
}

static void long_rows_are_the_same_in_f32(void **state)
{
    (void)state;
    enum { DIM = 5003 }; /* longer than any stage inside, and odd */
    static double x[2 * DIM];
    static float f[2 * DIM];
    const es_address first = {.seed = 8};
    assert_ok(es_normal_rows(&first, 2, DIM, x, &err));
    assert_ok(es_normal_rows_f32(&first, 2, DIM, f, &err));
    for (int i = 0; i < 2 * DIM; i++)
        assert_equals(f[i], (float)x[i]);
}

typedef struct slices {
    double *out;
    int64_t rows, dim;
} slices;

static es_status fill_slice(void *job, int64_t unit, int thread, es_error *error)
{
    const slices *s = job;
    (void)thread;
    int64_t begin, end;
    es_part(s->rows, 64, unit, &begin, &end);
    const es_address first = {.seed = 11, .token = (uint64_t)begin};
    return es_normal_rows(&first, end - begin, s->dim, s->out + begin * s->dim, error);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    enum { ROWS = 10007, DIM = 9 };
    static double one[ROWS * DIM], four[ROWS * DIM];
    slices a = {one, ROWS, DIM}, b = {four, ROWS, DIM};
    assert_ok(es_parallel_run(&(es_exec){.threads = 1}, 64, fill_slice, &a, &err));
    assert_ok(es_parallel_run(&(es_exec){.threads = 4}, 64, fill_slice, &b, &err));
    assert_memory_equal(one, four, sizeof one);
}

/* ---- addresses ---- */

static void every_bit_of_the_address_matters(void **state)
{
    (void)state;
    enum { BITS = 64 + 16 + 48 + 40 + 24 };
    const es_address base = {.seed = 3, .experiment = 1, .cell = 4, .token = 1, .lane = 5};
    uint64_t words[BITS + 1][2];
    for (int bit = 0; bit <= BITS; bit++) { /* the last one flips nothing */
        es_address a = base;
        if (bit < 64)
            a.seed ^= UINT64_C(1) << bit;
        else if (bit < 80)
            a.experiment = (uint16_t)(a.experiment ^ 1u << (bit - 64));
        else if (bit < 128)
            a.cell ^= UINT64_C(1) << (bit - 80);
        else if (bit < 168)
            a.token ^= UINT64_C(1) << (bit - 128);
        else if (bit < 192)
            a.lane ^= UINT32_C(1) << (bit - 168);
        es_block_words(a.seed, es_address_high(&a), es_address_low(&a), words[bit]);
    }
    /* Any two of the 193 blocks differ in about half of 128 bits: standard deviation 5.7, and 18528
     * pairs reach 4.3 of them; 7 would be a defect. */
    for (int i = 0; i <= BITS; i++) {
        for (int j = 0; j < i; j++) {
            const int distance = __builtin_popcountll(words[i][0] ^ words[j][0]) +
                                 __builtin_popcountll(words[i][1] ^ words[j][1]);
            assert_in_range(distance, 24, 104);
        }
    }
}

static void addresses_out_of_range_are_refused(void **state)
{
    (void)state;
    double x[8] = {-1.0};
    const es_address good = {.seed = UINT64_MAX,
                             .experiment = UINT16_MAX,
                             .cell = (UINT64_C(1) << 48) - 1,
                             .token = (UINT64_C(1) << 40) - 2,
                             .lane = (1u << 24) - 2};
    assert_ok(es_normal_rows(&good, 2, 4, x, &err)); /* the last token, the last lane */
    x[0] = -1.0;
    assert_int_equal(es_normal_rows(&good, 3, 2, x, &err), ES_E_RANGE);
    assert_int_equal(es_normal_rows(&good, 1, 5, x, &err), ES_E_RANGE);
    assert_string_equal(err.message, "last lane 16777216 does not fit 24 bits");
    assert_int_equal(es_normal_rows(&good, 1, INT64_C(1) << 40, x, &err), ES_E_RANGE);
    assert_int_equal(es_gamma_rows(&good, 1, 1, 1.0, x, &err), ES_E_RANGE); /* wants 64 lanes */
    es_address bad[3] = {good, good, good};
    bad[0].cell++, bad[1].token += 2, bad[2].lane += 2;
    for (int i = 0; i < 3; i++) {
        es_permutation p;
        assert_int_equal(es_address_check(&bad[i], &err), ES_E_RANGE);
        for (int f = 0; f < FILLS; f++)
            assert_int_equal(fills[f](&bad[i], 1, 1, x), ES_E_RANGE);
        assert_int_equal(es_permutation_init(&bad[i], 3, &p, &err), ES_E_RANGE);
        assert_nan(es_uniform_at(&bad[i]));
    }
    assert_equals(x[0], -1.0); /* nothing was written */
}

static void senseless_calls_are_refused(void **state)
{
    (void)state;
    const es_address a = {.seed = 1};
    double x[4];
    int64_t n[4];
    es_permutation p;
    for (int f = 0; f < FILLS; f++) {
        assert_int_equal(fills[f](NULL, 1, 1, x), ES_E_ARGUMENT);
        assert_int_equal(fills[f](&a, 1, 1, NULL), ES_E_ARGUMENT);
        assert_int_equal(fills[f](&a, -1, 1, x), ES_E_SHAPE);
        assert_int_equal(fills[f](&a, 1, 0, x), ES_E_SHAPE);
        assert_int_equal(fills[f](&a, INT64_MAX, 2, x), ES_E_SHAPE);
        assert_ok(fills[f](&a, 0, 1, x));
    }
    const double odd[] = {0.0, -1.0, NAN, INFINITY, 1e-10, 1e10};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_int_equal(es_gamma_rows(&a, 1, 1, odd[i], x, &err), ES_E_RANGE);
        assert_int_equal(es_chi_rows(&a, 1, 1, odd[i], x, &err), ES_E_RANGE);
        assert_int_equal(es_beta_rows(&a, 1, 1, odd[i], 1.0, x, &err), ES_E_RANGE);
        assert_int_equal(es_beta_rows(&a, 1, 1, 1.0, odd[i], x, &err), ES_E_RANGE);
    }
    assert_int_equal(es_integer_rows(&a, 1, 1, 0, n, &err), ES_E_RANGE);
    assert_int_equal(es_permutation_init(&a, 0, &p, &err), ES_E_RANGE);
    assert_int_equal(es_permutation_init(&a, (INT64_C(1) << 40) + 1, &p, &err), ES_E_RANGE);
    assert_ok(es_permutation_init(&a, 3, &p, &err));
    assert_int_equal(es_permutation_at(&p, 3), -1);
    assert_int_equal(es_permutation_at(&p, -1), -1);
}

/* ---- accuracy of the elementary functions ---- */

/* |actual - exact| in units in the last place of exact, as a double. */
static double ulps(double actual, long double exact)
{
    int exponent;
    frexpl(exact, &exponent);
    return (double)(fabsl((long double)actual - exact) / ldexpl(1.0L, exponent - 53));
}

static double larger(double a, double b) { return a > b ? a : b; }

static void uniforms_stay_inside(void **state)
{
    (void)state;
    assert_equals(es_open_unit(0), 0x1p-53);
    assert_equals(es_open_unit(UINT64_MAX), 1.0 - 0x1p-53);
    assert_equals(es_open_unit(UINT64_C(1) << 63), 0.5 + 0x1p-53);
    assert_equals(es_open_unit((UINT64_C(1) << 63) - 1), 0.5 - 0x1p-53);
    /* The extreme words give finite normals, none of them 0. */
    const uint64_t extreme[] = {0,
                                UINT64_MAX,
                                UINT64_C(1) << 62,
                                (UINT64_C(1) << 62) - 1,
                                UINT64_C(1) << 63,
                                UINT64_C(3) << 62};
    enum { COUNT = sizeof extreme / sizeof extreme[0] };
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            double z[2];
            es_block_normals((uint64_t[2]){extreme[i], extreme[j]}, z);
            for (int k = 0; k < 2; k++) {
                assert_differs(z[k], 0.0);
                assert_below(fabs(z[k]), 8.58);
            }
        }
    }
}

enum { SAMPLES = 200000 };

static void log_is_accurate(void **state)
{
    (void)state;
    static double u[SAMPLES];
    const es_address a = {.seed = 21};
    double worst = 0.0;
    assert_ok(es_uniform_rows(&a, SAMPLES / 2, 2, u, &err));
    for (int i = 0; i < SAMPLES; i++) {
        const double near_one = 1.0 - (2.0 * floor(u[i] * 1e6) + 1.0) * 0x1p-53;
        const double far = ldexp(u[i], i % 2000 - 1000), tail = ldexp(u[i], -(i % 52));
        worst = larger(worst, ulps(es_negative_log(u[i]), -logl((long double)u[i])));
        worst = larger(worst, ulps(es_negative_log(tail), -logl((long double)tail)));
        worst = larger(worst, ulps(es_negative_log(near_one), -logl((long double)near_one)));
        worst = larger(worst, ulps(es_negative_log(far), -logl((long double)far)));
    }
    print_message("-log: %.3f ulp\n", worst);
    assert_at_most(worst, 1.0);
    assert_equals(es_negative_log(1.0), 0.0);
}

static void turn_is_accurate(void **state)
{
    (void)state;
    static double u[SAMPLES];
    const es_address a = {.seed = 22};
    const long double two_pi = 6.283185307179586476925286766559006L;
    double worst_cos = 0.0, worst_sin = 0.0;
    assert_ok(es_uniform_rows(&a, SAMPLES / 2, 2, u, &err));
    for (int i = 0; i < SAMPLES; i++) {
        /* Every third argument next to a multiple of an eighth, where the pieces meet. */
        const double at = i % 3 ? u[i] : (double)(i % 7 + 1) / 8.0 + ldexp(u[i] - 0.5, -(i % 48));
        const double v = floor(at * 0x1p52) * 0x1p-52 + 0x1p-53;
        const int q = (int)rint(4.0 * v);
        const long double r = (long double)v - (long double)q / 4.0L;
        const long double s = sinl(two_pi * r), c = cosl(two_pi * r);
        const long double sines[4] = {s, c, -s, -c};
        double cosine, sine;
        es_turn(v, &cosine, &sine);
        worst_sin = larger(worst_sin, ulps(sine, sines[q & 3]));
        worst_cos = larger(worst_cos, ulps(cosine, sines[(q + 1) & 3]));
    }
    print_message("cos: %.3f ulp, sin: %.3f ulp\n", worst_cos, worst_sin);
    assert_at_most(worst_cos, 1.7);
    assert_at_most(worst_sin, 1.7);
}

static void exp_is_accurate(void **state)
{
    (void)state;
    static double u[SAMPLES];
    const es_address a = {.seed = 23};
    double worst = 0.0;
    assert_ok(es_uniform_rows(&a, SAMPLES / 2, 2, u, &err));
    for (int i = 0; i < SAMPLES; i++) {
        const double x = i % 2 ? 1416.0 * u[i] - 708.0 : 2.0 * u[i] - 1.0;
        worst = larger(worst, ulps(es_exp(x), expl((long double)x)));
        assert_equals(es_exp_normal(x), es_exp(x));
    }
    print_message("exp: %.3f ulp\n", worst);
    assert_at_most(worst, 1.1);
    assert_equals(es_exp(0.0), 1.0);
    assert_equals(es_exp(-1e300), 0.0);
    assert_equals(es_exp(-800.0), 0.0);
    assert_near(es_exp(-740.0), exp(-740.0), 0x1p-1074); /* subnormal: to the last bit there is */
    assert_equals(es_exp(1e300), es_exp(709.0));
    assert_finite(es_exp(709.0));
}

static void normals_are_accurate(void **state)
{
    (void)state;
    enum { N = 100000 };
    static double z[2 * N], u[2 * N];
    const es_address a = {.seed = 24};
    const long double two_pi = 6.283185307179586476925286766559006L;
    double worst = 0.0;
    assert_ok(es_normal_rows(&a, N, 2, z, &err));
    assert_ok(es_uniform_rows(&a, N, 2, u, &err));
    for (int i = 0; i < N; i++) {
        const long double radius = sqrtl(-2.0L * logl((long double)u[2 * i]));
        const long double angle = two_pi * (long double)u[2 * i + 1];
        /* sinl of an unreduced angle errs by 2^-64 of a turn: keep away from its zeros. */
        if (fabsl(sinl(2.0L * angle)) < 0.01L)
            continue;
        worst = larger(worst, ulps(z[2 * i], radius * cosl(angle)));
        worst = larger(worst, ulps(z[2 * i + 1], radius * sinl(angle)));
    }
    print_message("normal: %.3f ulp\n", worst);
    assert_at_most(worst, 3.5);
}

TEST_FILE(random)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(counter_layout_is_as_documented),
        cmocka_unit_test(bits_never_change),
        cmocka_unit_test(rows_equal_the_scalar_definition),
        optional_test(both_instruction_sets_give_the_same_bits),
        cmocka_unit_test(a_prefix_is_the_same_numbers),
        cmocka_unit_test(long_rows_are_the_same_in_f32),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(every_bit_of_the_address_matters),
        cmocka_unit_test(addresses_out_of_range_are_refused),
        cmocka_unit_test(senseless_calls_are_refused),
        cmocka_unit_test(uniforms_stay_inside),
        cmocka_unit_test(log_is_accurate),
        cmocka_unit_test(turn_is_accurate),
        cmocka_unit_test(exp_is_accurate),
        cmocka_unit_test(normals_are_accurate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
