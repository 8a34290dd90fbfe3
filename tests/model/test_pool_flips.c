/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool_flips.c : one bit of a pool's files is turned, and the pool is refused. */
#include "testing.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "store/checksum.h"
#include "tiny_pool.h"
#include <esscher/run.h>

enum { WORDS = 1500, LAYERS = 3, HIDDEN = 12, HEADS = 3 };

static uint64_t dice_state = 1;

/* Seeded, so that a failure can be repeated: a number of [0, n). */
static uint64_t dice(uint64_t n)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (dice_state >> 33) % n;
}

/* ---- the checksum ---- */

static void every_single_bit_changes_the_sum(void **state)
{
    (void)state;
    unsigned char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)dice(256);
    for (size_t size = 1; size <= sizeof bytes; size++) {
        const uint64_t whole = es_sum(bytes, size);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_int_not_equal(es_sum(bytes, size), whole);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
    /* so does the number of zeros, and the order of words */
    const unsigned char zeros[64] = {0};
    for (size_t size = 0; size < sizeof zeros; size++)
        assert_int_not_equal(es_sum(zeros, size), es_sum(zeros, size + 1));
    const uint64_t a[] = {1, 2, 3, 4, 5}, b[] = {2, 1, 3, 4, 5}, c[] = {5, 2, 3, 4, 1};
    assert_int_not_equal(es_sum(a, sizeof a), es_sum(b, sizeof b));
    assert_int_not_equal(es_sum(a, sizeof a), es_sum(c, sizeof c));
}

/* The sign of a float is the top bit of half a word: of two that change neither may undo the other,
 * nor may any two bits of a row. */
static void two_bits_change_the_sum(void **state)
{
    (void)state;
    enum { ROW = 384, PAIRS = 200000 };
    static float row[ROW];
    for (int i = 0; i < ROW; i++)
        row[i] = (float)dice(2000001) / 1e6f - 1.0f;
    const uint64_t whole = es_sum(row, sizeof row);
    for (int j = 0; j < ROW; j++)
        for (int k = j + 1; k < ROW; k++) {
            row[j] = -row[j], row[k] = -row[k];
            if (es_sum(row, sizeof row) == whole)
                fail_msg("the signs of %d and %d", j, k);
            row[j] = -row[j], row[k] = -row[k];
        }
    unsigned char *bytes = (unsigned char *)row;
    for (int i = 0; i < PAIRS; i++) {
        const size_t a = (size_t)dice(32 * ROW), b = (size_t)dice(32 * ROW);
        bytes[a / 8] ^= (unsigned char)(1 << a % 8), bytes[b / 8] ^= (unsigned char)(1 << b % 8);
        if (a != b && es_sum(row, sizeof row) == whole)
            fail_msg("bits %d and %d", (int)a, (int)b);
        bytes[a / 8] ^= (unsigned char)(1 << a % 8), bytes[b / 8] ^= (unsigned char)(1 << b % 8);
    }
}

/* A bit of a word becomes about half the bits of the step's result, never so few that bits which
 * happen to turn in the next word could undo it. A binomial number of 64 bits, which would be
 * ideal, has the mean 32 +- 4; the top bits reach 57 of them. */
static void a_step_spreads_every_bit(void **state)
{
    (void)state;
    enum { TRIALS = 4096 };
    for (int bit = 0; bit < 64; bit++) {
        int sum = 0, least = 64;
        for (int t = 0; t < TRIALS; t++) {
            const uint64_t h = dice(1u << 31) << 33 ^ dice(1u << 31) << 11 ^ dice(1u << 31);
            const uint64_t word = dice(1u << 31) << 32 ^ dice(1u << 31);
            uint64_t d = es_sum_step(h, word) ^ es_sum_step(h, word ^ UINT64_C(1) << bit);
            int turned = 0;
            for (; d; d &= d - 1)
                turned++;
            sum += turned;
            least = turned < least ? turned : least;
        }
        assert_in_range(sum / TRIALS, 28, 36);
        assert_in_range(least, 10, 64);
    }
}

/* ---- reading everything ---- */

typedef struct contents {
    es_pool_info info;
    es_pool_context context[LAYERS * HEADS];
    int64_t ends[64];
    float *rows; /* (layers, tokens, hidden) */
} contents;

/* Whatever a reader can ask of the pool `folder`, or the first error. */
static es_status read_all(const char *path, contents *out)
{
    es_pool *pool;
    es_status status = es_pool_open(path, &pool, &err);
    if (status != ES_OK)
        return status;
    memset(out, 0, sizeof *out);
    out->info = es_pool_about(pool);
    const int64_t n = out->info.tokens, most = 63;
    out->rows = malloc((size_t)(LAYERS * n * HIDDEN) * sizeof(float));
    assert_non_null(out->rows);
    for (int64_t i = 0; i < LAYERS * HEADS; i++)
        assert_ok(es_pool_context_of(pool, i / HEADS, i % HEADS, &out->context[i], &err));
    for (int64_t b = 0, count; b < out->info.blocks && b < most; b++)
        assert_ok(es_pool_block(pool, b, &out->ends[b], &count, &err));
    for (int64_t l = 0; l < LAYERS && status == ES_OK; l++)
        status = es_pool_rows(pool, l, 0, n, out->rows + l * n * HIDDEN, &err);
    es_pool_close(pool);
    if (status != ES_OK)
        free(out->rows);
    return status;
}

static bool same(const contents *a, const contents *b)
{
    const es_pool_info *x = &a->info, *y = &b->info;
    const size_t rows = (size_t)(LAYERS * x->tokens * HIDDEN) * sizeof(float);
    return x->tokens == y->tokens && x->hidden == y->hidden && x->layers == y->layers &&
           x->heads == y->heads && x->blocks == y->blocks && x->length == y->length &&
           x->specials == y->specials && x->store == y->store && x->repeats == y->repeats &&
           memcmp(a->context, b->context, sizeof a->context) == 0 &&
           memcmp(a->ends, b->ends, sizeof a->ends) == 0 && memcmp(a->rows, b->rows, rows) == 0;
}

/* ---- turning bits ---- */

static int64_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (int64_t)st.st_size;
}

static void flip(const char *path, int64_t bit)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_not_equal(byte, EOF);
    assert_int_equal(fseek(file, (long)(bit / 8), SEEK_SET), 0);
    fputc(byte ^ 1 << bit % 8, file);
    assert_int_equal(fclose(file), 0);
}

static void build(es_pool_spec *spec, es_pool_store store, contents *out)
{
    static int32_t ids[WORDS];
    write_words("text", 3, WORDS, ids);
    *spec = pool_spec_of("text", "pool");
    spec->store = store;
    assert_ok(es_pool_build(spec, NULL, &err));
    assert_ok(read_all(spec->folder, out));
}

/* The row that holds the byte is refused, by name of its file and with the byte where it begins;
 * another row of the file is not. */
static void check_row(const es_pool_spec *spec, const char *path, int64_t layer, int64_t byte,
                      const contents *sound)
{
    const int64_t width = HIDDEN * (spec->store == ES_POOL_F16 ? 2 : 4), header = 128;
    const int64_t row = (byte - header) / width, n = sound->info.tokens;
    float got[HIDDEN];
    es_pool *pool;
    assert_string_equal(err.rule, "pool.checksum");
    assert_string_equal(err.file, path);
    assert_int_equal(err.offset, header + row * width);
    assert_true(err.message[0] && err.hint[0]);
    assert_ok(es_pool_open(spec->folder, &pool, &err));
    assert_int_equal(es_pool_gather(pool, layer, &row, 1, got, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.checksum");
    const int64_t other = (row + 1) % n;
    assert_ok(es_pool_gather(pool, layer, &other, 1, got, &err));
    assert_memory_equal(got, sound->rows + (layer * n + other) * HIDDEN, sizeof got);
    es_pool_close(pool);
}

static void a_turned_bit_of_a_layer_is_refused(void **state)
{
    (void)state;
    for (int store = ES_POOL_F32; store <= ES_POOL_F16; store++) {
        es_pool_spec spec;
        contents sound, again;
        char path[512];
        build(&spec, (es_pool_store)store, &sound);
        for (int64_t l = 0; l < LAYERS; l++) {
            snprintf(path, sizeof path, "%s/layer-%d.npy", spec.folder, (int)l);
            const int64_t bits = 8 * size_of(path), header = 8 * 128;
            for (int i = 0; i < 120; i++) {
                const int64_t bit = i == 0   ? header
                                    : i == 1 ? bits - 1
                                    : i < 40 ? (int64_t)dice((uint64_t)header)
                                             : (int64_t)dice((uint64_t)bits);
                flip(path, bit);
                const es_status status = read_all(spec.folder, &again);
                if (status != ES_E_FORMAT && status != ES_E_UNSUPPORTED)
                    fail_msg("layer %d, bit %lld: %s", (int)l, (long long)bit,
                             es_status_name(status));
                if (bit >= header)
                    check_row(&spec, path, l, bit / 8, &sound);
                flip(path, bit);
            }
        }
        assert_ok(read_all(spec.folder, &again));
        assert_true(same(&sound, &again));
        free(again.rows);
        free(sound.rows);
        remove_pool("pool");
    }
}

/* Rows that have changed places are not noticed by their numbers, but by where they are. */
static void rows_that_change_places_are_refused(void **state)
{
    (void)state;
    es_pool_spec spec;
    contents sound, again;
    char path[512];
    float rows[2][HIDDEN];
    build(&spec, ES_POOL_F32, &sound);
    snprintf(path, sizeof path, "%s/layer-1.npy", spec.folder);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 128, SEEK_SET), 0);
    assert_int_equal(fread(rows, sizeof rows, 1, file), 1);
    assert_int_equal(fseek(file, 128, SEEK_SET), 0);
    fwrite(rows[1], sizeof rows[1], 1, file);
    fwrite(rows[0], sizeof rows[0], 1, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(read_all(spec.folder, &again), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.checksum");
    free(sound.rows);
    remove_pool("pool");
}

/* An SQLite file has bytes that mean nothing: what is not refused must read as before. */
static void a_turned_bit_of_the_run_file_is_refused_or_means_nothing(void **state)
{
    (void)state;
    es_pool_spec spec;
    contents sound, again;
    char path[512];
    int refused = 0;
    build(&spec, ES_POOL_F32, &sound);
    snprintf(path, sizeof path, "%s/pool.run", spec.folder);
    for (int i = 0; i < 300; i++) {
        const int64_t bit = (int64_t)dice((uint64_t)(8 * size_of(path)));
        flip(path, bit);
        const es_status status = read_all(spec.folder, &again);
        if (status == ES_OK) {
            if (!same(&sound, &again))
                fail_msg("bit %lld of pool.run makes another pool", (long long)bit);
            free(again.rows);
        } else {
            assert_true(err.rule[0] && err.message[0] && err.hint[0]);
            refused++;
        }
        flip(path, bit);
    }
    assert_in_range(refused, 100, 300);
    free(sound.rows);
    remove_pool("pool");
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_above(sqlite3_changes(db), 0);
    sqlite3_close(db);
}

/* A pool that lost the checksums of a batch is mended by building it again: the batch is. */
static void a_pool_without_checksums_is_built_again(void **state)
{
    (void)state;
    es_pool_spec spec;
    contents sound, again;
    char path[512];
    build(&spec, ES_POOL_F32, &sound);
    snprintf(path, sizeof path, "%s/pool.run", spec.folder);
    change(path, "DELETE FROM cell WHERE stage = 1 AND idx = 0");
    assert_int_equal(read_all(spec.folder, &again), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.shape");
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(read_all(spec.folder, &again));
    assert_true(same(&sound, &again));
    free(again.rows);
    free(sound.rows);
    remove_pool("pool");
}

/* A pool.run of the same parameters but for the format: `format` if it is stated at all. */
static void write_version(const es_pool_spec *spec, const char *format)
{
    char path[512];
    es_run *run;
    es_run_pair params[16];
    snprintf(path, sizeof path, "%s/pool.run", spec->folder);
    assert_ok(es_run_open(path, &run, &err));
    const es_run_about about = es_run_info(run);
    int64_t count = 0;
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, "format") != 0)
            params[count++] = about.params[i];
    assert_int_equal(count, about.params_count - 1);
    if (format)
        params[count++] = (es_run_pair){"format", format};
    const es_run_spec other = {.command = "pool", .params = params, .params_count = count};
    es_run *written;
    char beside[512];
    snprintf(beside, sizeof beside, "%s/other.run", folder);
    assert_ok(es_run_create(beside, &other, true, &written, &err));
    assert_ok(es_run_close(written, &err));
    assert_ok(es_run_close(run, &err));
    assert_int_equal(rename(beside, path), 0);
}

/* Neither read nor continued: what its numbers mean is not what they mean here. */
static void a_pool_of_another_version_is_refused(void **state)
{
    (void)state;
    static const char *const formats[] = {NULL, "1", "999"};
    for (int i = 0; i < 3; i++) {
        es_pool_spec spec;
        contents sound, again;
        build(&spec, ES_POOL_F32, &sound);
        write_version(&spec, formats[i]);
        for (int building = 0; building < 2; building++) {
            assert_int_equal(building ? es_pool_build(&spec, NULL, &err)
                                      : read_all(spec.folder, &again),
                             ES_E_UNSUPPORTED);
            assert_string_equal(err.rule, "pool.version");
            assert_non_null(strstr(err.message, "built by another version"));
            assert_non_null(strstr(err.hint, "remove the pool's folder"));
        }
        free(sound.rows);
        remove_pool("pool");
    }
}

TEST_FILE(pool_flips)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_single_bit_changes_the_sum),
        cmocka_unit_test(two_bits_change_the_sum),
        cmocka_unit_test(a_step_spreads_every_bit),
        cmocka_unit_test(a_turned_bit_of_a_layer_is_refused),
        cmocka_unit_test(rows_that_change_places_are_refused),
        cmocka_unit_test(a_turned_bit_of_the_run_file_is_refused_or_means_nothing),
        cmocka_unit_test(a_pool_without_checksums_is_built_again),
        cmocka_unit_test(a_pool_of_another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
