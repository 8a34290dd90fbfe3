/* test_pool_flips.c : one bit of a pool's files is turned, and the pool is refused. */
#include "testing.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "store/checksum.h"
#include "tiny_pool.h"

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
            assert_true(es_sum(bytes, size) != whole);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
    /* so does the number of zeros, and the order of words */
    const unsigned char zeros[64] = {0};
    for (size_t size = 0; size < sizeof zeros; size++)
        assert_true(es_sum(zeros, size) != es_sum(zeros, size + 1));
    const uint64_t a[] = {1, 2, 3, 4, 5}, b[] = {2, 1, 3, 4, 5}, c[] = {5, 2, 3, 4, 1};
    assert_true(es_sum(a, sizeof a) != es_sum(b, sizeof b));
    assert_true(es_sum(a, sizeof a) != es_sum(c, sizeof c));
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
    assert_true(byte != EOF);
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

static void remove_cells(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "DELETE FROM cell WHERE stage = 1 AND idx = 0", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
}

/* A pool whose checksums are gone, as one of an older version, is mended by building it again. */
static void a_pool_without_checksums_is_built_again(void **state)
{
    (void)state;
    es_pool_spec spec;
    contents sound, again;
    char path[512];
    build(&spec, ES_POOL_F32, &sound);
    snprintf(path, sizeof path, "%s/pool.run", spec.folder);
    remove_cells(path);
    assert_int_equal(read_all(spec.folder, &again), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.shape");
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(read_all(spec.folder, &again));
    assert_true(same(&sound, &again));
    free(again.rows);
    free(sound.rows);
    remove_pool("pool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_single_bit_changes_the_sum),
        cmocka_unit_test(a_turned_bit_of_a_layer_is_refused),
        cmocka_unit_test(rows_that_change_places_are_refused),
        cmocka_unit_test(a_turned_bit_of_the_run_file_is_refused_or_means_nothing),
        cmocka_unit_test(a_pool_without_checksums_is_built_again),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
