/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_mix.c : texts in given proportions as one. */
#include "testing.h"

#include "tiny_pool.h"

enum { LENGTH = 40, INNER = LENGTH - 2, WORDS = 3000, PARTS = 3 }; /* of the small model */

/* Part i has words of its own, by which blocks are known: word15 + 4 i ... word18 + 4 i, in an
 * order that is `order` (WORDS). */
static char paths[PARTS][512];
static const char *texts[PARTS][1];
static int32_t order[PARTS][WORDS];

static void write_parts(const int64_t words[PARTS])
{
    uint64_t seed = 7;
    for (int i = 0; i < PARTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        FILE *file = fopen(in_folder(name), "w");
        assert_non_null(file);
        for (int64_t j = 0; j < words[i]; j++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            order[i][j] = TINY_FIRST_WORD + 4 * i + (int32_t)(seed >> 62);
            fprintf(file, "word%d ", (int)order[i][j]);
        }
        assert_int_equal(fclose(file), 0);
        strcpy(paths[i], in_folder(name));
        texts[i][0] = paths[i];
    }
}

static void remove_parts(void)
{
    for (int i = 0; i < PARTS; i++)
        remove(paths[i]);
}

static es_status mix(const double shares[PARTS], int64_t tokens, bool repeat, es_blocks *out,
                     es_text_used used[PARTS])
{
    const es_blocks_spec spec = {.tokenizer = tokenizer,
                                 .length = LENGTH,
                                 .tokens = tokens,
                                 .repeat = repeat,
                                 .from = ES_BLOCKS_START};
    es_text_part parts[PARTS];
    for (int i = 0; i < PARTS; i++)
        parts[i] = (es_text_part){texts[i], 1, shares[i]};
    return es_blocks_mix(&spec, parts, PARTS, NULL, out, used, &err);
}

static int part_of(const es_blocks *b, int64_t block)
{
    return (b->ids[b->start[block] + 1] - TINY_FIRST_WORD) / 4;
}

static void shares_are_those_of_every_stretch(void **state)
{
    (void)state;
    const int64_t words[PARTS] = {WORDS, WORDS, WORDS};
    const double shares[PARTS] = {0.5, 0.3, 0.2};
    es_blocks b;
    es_text_used used[PARTS];
    write_parts(words);
    assert_ok(mix(shares, 4000, false, &b, used));
    int64_t seen[PARTS] = {0}, met[PARTS] = {0};
    for (int64_t i = 0; i < b.count; i++) {
        const int part = part_of(&b, i);
        const int64_t length = b.start[i + 1] - b.start[i];
        /* the part's own text goes on where its last block ended */
        assert_memory_equal(b.ids + b.start[i] + 1, order[part] + met[part],
                            (size_t)(length - 2) * sizeof *b.ids);
        met[part] += length - 2;
        seen[part] += length;
        for (int k = 0; k < PARTS; k++) /* to a block, from the beginning to wherever one stops */
            assert_near((double)seen[k], shares[k] * (double)b.start[i + 1], LENGTH);
    }
    for (int k = 0; k < PARTS; k++) {
        /* a rest too short for a token between specials is left out */
        assert_near((double)seen[k], shares[k] * 4000.0, 2.0);
        assert_int_equal(used[k].tokens, seen[k]);
        assert_int_equal(used[k].repeats, 0);
    }
    assert_int_equal(used[0].blocks + used[1].blocks + used[2].blocks, b.count);
    assert_int_equal(b.repeats, 0);
    es_blocks_free(&b);
    /* all there is: the part that is used up first decides. 300 words are 8 blocks, 316 tokens */
    const int64_t uneven[PARTS] = {WORDS, WORDS, 300};
    write_parts(uneven);
    assert_ok(mix(shares, 0, false, &b, used));
    assert_int_equal(used[2].tokens, 316);
    assert_near((double)b.start[b.count], 316 / 0.2, 6.0);
    es_blocks_free(&b);
    remove_parts();
}

static void a_part_that_is_too_short_is_refused_or_repeated_and_recorded(void **state)
{
    (void)state;
    const int64_t words[PARTS] = {WORDS, 100, WORDS};
    const double shares[PARTS] = {0.5, 0.25, 0.25};
    es_blocks b;
    es_text_used used[PARTS];
    write_parts(words);
    assert_int_equal(mix(shares, 2000, false, &b, used), ES_E_EMPTY);
    assert_string_equal(err.rule, "pool.short");
    assert_string_equal(err.file, paths[1]);
    assert_null(b.ids);
    assert_ok(mix(shares, 2000, true, &b, used)); /* 500 tokens, 106 at a time */
    assert_int_equal(used[1].repeats, 4);
    assert_int_equal(used[0].repeats + used[2].repeats, 0);
    assert_int_equal(b.repeats, 4);
    es_blocks_free(&b);
    remove_parts();
}

static void shares_that_are_none(void **state)
{
    (void)state;
    const int64_t words[PARTS] = {200, 200, 200};
    static const double bad[][PARTS] = {
        {0.5, 0.5, 0.0}, {0.5, 0.6, -0.1}, {0.5, 0.2, 0.2}, {NAN, 0.5, 0.5}};
    const double thin[PARTS] = {0.5, 0.499, 0.001};
    es_blocks b;
    write_parts(words);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mix(bad[i], 200, false, &b, NULL), ES_E_RANGE);
        assert_string_equal(err.rule, "pool.mix");
    }
    assert_int_equal(mix(thin, 300, false, &b, NULL), ES_E_RANGE); /* of 0.3 tokens */
    assert_string_equal(err.rule, "pool.mix");
    remove_parts();
}

/* A pool of a mixture: its rows are those of the interleaved blocks, and another mixture of the
 * same texts is another pool. */
static void pools_know_their_mixture(void **state)
{
    (void)state;
    const int64_t words[PARTS] = {WORDS, WORDS, WORDS};
    write_parts(words);
    char where[512];
    strcpy(where, in_folder("pool"));
    es_text_part parts[2] = {{texts[0], 1, 0.75}, {texts[1], 1, 0.25}};
    es_pool_spec spec = {.model = model,
                         .tokenizer = tokenizer,
                         .parts = parts,
                         .n_parts = 2,
                         .tokens = 800,
                         .folder = where};
    es_pool_cost cost;
    es_pool *pool;
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    assert_int_equal(cost.parts[0].tokens, 600);
    assert_int_equal(cost.parts[1].tokens, 200);
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_open(where, &pool, &err));
    assert_int_equal(es_pool_about(pool).tokens, 800);
    assert_int_equal(es_pool_about(pool).blocks, 20);
    es_pool_close(pool);
    assert_ok(es_pool_build(&spec, NULL, &err)); /* it is there */
    parts[0].share = 0.5;
    parts[1].share = 0.5;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    remove_pool("pool");
    remove_parts();
}

TEST_FILE(text_mix)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_every_stretch),
        cmocka_unit_test(a_part_that_is_too_short_is_refused_or_repeated_and_recorded),
        cmocka_unit_test(shares_that_are_none),
        cmocka_unit_test(pools_know_their_mixture),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
