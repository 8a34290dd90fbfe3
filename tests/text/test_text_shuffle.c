/* SPDX-License-Identifier: Apache-2.0 */
/* test_text_shuffle.c : words, sentences and blocks of a text in another order: what is preserved,
 * what is not, and that a pool knows what it is made of. */
#include "testing.h"

#include "text/tokenizer.h"
#include "tiny_pool.h"

enum { LENGTH = 40, WORDS = 1000 };

static es_blocks read_text(const char *const *paths, int64_t n_paths, es_text_shuffle how,
                           uint64_t seed, int64_t tokens)
{
    const es_blocks_spec spec = {.tokenizer = tokenizer,
                                 .texts = paths,
                                 .n_texts = n_paths,
                                 .length = LENGTH,
                                 .tokens = tokens,
                                 .shuffle = how,
                                 .seed = seed};
    es_blocks b;
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    return b;
}

/* The tokens between specials, in order, into out; specials must be where they belong. */
static int64_t inner_of(const es_blocks *b, int32_t *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < b->count; i++) {
        assert_int_equal(b->ids[b->start[i]], TINY_CLS);
        assert_int_equal(b->ids[b->start[i + 1] - 1], TINY_SEP);
        for (int64_t j = b->start[i] + 1; j + 1 < b->start[i + 1]; j++)
            out[count++] = b->ids[j];
    }
    return count;
}

/* ---- units as strings, compared as multisets ---- */

typedef struct units {
    char text[4096][64];
    int64_t count;
} units;

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void same_multiset(units *a, units *b)
{
    assert_int_equal(a->count, b->count);
    qsort(a->text, (size_t)a->count, sizeof a->text[0], by_text);
    qsort(b->text, (size_t)b->count, sizeof b->text[0], by_text);
    for (int64_t i = 0; i < a->count; i++)
        assert_string_equal(a->text[i], b->text[i]);
}

static int64_t id_of(const char *token)
{
    const int32_t id = es_tokenizer_find(tokenizer, token);
    assert_at_least(id, 0);
    return id;
}

/* Ids of a unit as text, a unit ending before id `first` if that is not negative ("##" goes on a
 * word), or after id `last`. */
static void cut(const int32_t *ids, int64_t count, bool words, units *out)
{
    const int64_t dot = id_of(".");
    bool begin = true;
    out->count = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool goes_on = strncmp(es_tokenizer_token(tokenizer, ids[i]), "##", 2) == 0;
        if (words ? !goes_on : begin)
            out->text[out->count++][0] = '\0';
        char *to = out->text[out->count - 1];
        snprintf(to + strlen(to), 64 - strlen(to), "%d ", (int)ids[i]);
        begin = ids[i] == dot;
    }
}

/* Sentences of different lengths, words of one and of three tokens, marks of UTF-8. */
static const char *write_sentences(const char *name, int sentences)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int i = 0; i < sentences; i++) {
        for (int j = 0; j < 1 + i % 5; j++)
            fprintf(file, "%s word%d%s", j == 2 ? " unaffable" : "", 15 + (i * 7 + j * 3) % 20,
                    j == 3 ? "," : "");
        fprintf(file, ".%s", i % 4 == 3 ? "\n" : " ");
    }
    assert_int_equal(fclose(file), 0);
    return path_of_file;
}

static void check_units(es_text_shuffle how, bool words)
{
    static units before, after;
    static int32_t ids[2][4096];
    char path[512];
    const char *const paths[] = {strcpy(path, write_sentences("text", 300))};
    es_blocks plain = read_text(paths, 1, ES_SHUFFLE_NONE, 1, 0);
    es_blocks mixed = read_text(paths, 1, how, 1, 0), again = read_text(paths, 1, how, 1, 0);
    es_blocks other = read_text(paths, 1, how, 2, 0);
    const int64_t total = plain.start[plain.count];
    /* as many blocks, each as long */
    assert_int_equal(mixed.count, plain.count);
    assert_memory_equal(mixed.start, plain.start, (size_t)(plain.count + 1) * sizeof(int64_t));
    const int64_t count = inner_of(&plain, ids[0]);
    assert_int_equal(inner_of(&mixed, ids[1]), count);
    cut(ids[0], count, words, &before);
    cut(ids[1], count, words, &after);
    assert_at_least(before.count, 300);
    /* how many units are where they were: one on average in a random order, 8 once in 10^6 */
    int64_t still = 0;
    for (int64_t i = 0; i < before.count; i++)
        still += strcmp(before.text[i], after.text[i]) == 0;
    assert_below(still, before.count / 4); /* equal units there are: 20 words, 20 sentences */
    same_multiset(&before, &after);
    assert_memory_equal(mixed.ids, again.ids, (size_t)total * sizeof(int32_t));
    assert_memory_not_equal(mixed.ids, other.ids, (size_t)total * sizeof(int32_t));
    es_blocks_free(&plain), es_blocks_free(&mixed), es_blocks_free(&again), es_blocks_free(&other);
    remove(path);
}

static void words_change_places(void **state)
{
    (void)state;
    check_units(ES_SHUFFLE_WORD, true);
}

static void sentences_change_places(void **state)
{
    (void)state;
    check_units(ES_SHUFFLE_SENTENCE, false);
}

static void blocks_change_places(void **state)
{
    (void)state;
    static int32_t ids[WORDS];
    static bool met[WORDS];
    char path[512];
    const char *const paths[] = {strcpy(path, write_words("text", 4, WORDS, ids))};
    es_blocks plain = read_text(paths, 1, ES_SHUFFLE_NONE, 1, 0);
    es_blocks mixed = read_text(paths, 1, ES_SHUFFLE_BLOCK, 1, 0);
    int64_t still = 0;
    assert_int_equal(mixed.count, plain.count);
    assert_int_equal(mixed.start[mixed.count], plain.start[plain.count]);
    memset(met, 0, sizeof met);
    for (int64_t i = 0; i < mixed.count; i++) {
        const int64_t size = mixed.start[i + 1] - mixed.start[i];
        bool found = false;
        for (int64_t j = 0; j < plain.count && !found; j++)
            if (!met[j] && plain.start[j + 1] - plain.start[j] == size &&
                memcmp(plain.ids + plain.start[j], mixed.ids + mixed.start[i],
                       (size_t)size * sizeof(int32_t)) == 0) {
                met[j] = found = true;
                still += i == j;
            }
        assert_true(found);
    }
    assert_equals(plain.count, 27);
    assert_below(still, 8); /* 1 on average */
    es_blocks_free(&plain), es_blocks_free(&mixed);
    remove(path);
}

/* How many sentences a text is, by shuffling it: each begins with another word, and one of three is
 * missed as the first of 60 orders with a probability of 3 (2/3)^60. */
static int sentences_of(const char *text, size_t bytes)
{
    char path[512];
    const char *const paths[] = {strcpy(path, write_file("t", text, bytes))};
    int32_t first[4];
    int seen = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        es_blocks b = read_text(paths, 1, ES_SHUFFLE_SENTENCE, seed, 0);
        int i = 0;
        while (i < seen && first[i] != b.ids[1])
            i++;
        assert_below(i, 4);
        first[i] = b.ids[1];
        seen += i == seen;
        es_blocks_free(&b);
    }
    remove(path);
    return seen;
}

static void where_sentences_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int sentences;
    } cases[] = {{"cat sat. mat on. word20", 3},
                 {"cat 3.14 sat word20.word21 mat", 1}, /* no white space: not an end */
                 {"cat sat word20\n \t\nmat on\n\n\nword21", 3},
                 {"cat sat\nmat on\nword20", 1},      /* lines are wrapped */
                 {"cat sat.\" mat on.') word20", 1}}; /* the vocabulary has neither: [UNK] */
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        assert_int_equal(sentences_of(cases[c].text, strlen(cases[c].text)), cases[c].sentences);
    /* files are read in pieces: blank lines in the first, across its end, and in the second */
    static char text[65600];
    memset(text, ' ', sizeof text);
    memcpy(text, "cat\n\nsat", 8);
    memcpy(text + 65535, "\n\n", 2);
    memcpy(text + 65550, "mat \n\n on", 9);
    assert_int_equal(sentences_of(text, sizeof text), 4);
}

/* Several texts are one; the tokens that are wanted are those that would have been read. */
static void what_is_read_is_shuffled_and_nothing_else(void **state)
{
    (void)state;
    static units before, after;
    static int32_t ids[2][4096], words[200];
    char path[2][512];
    const char *const paths[] = {path[0], path[1]};
    strcpy(path[0], write_sentences("a", 50));
    strcpy(path[1], write_words("b", 4, 200, words));
    es_blocks plain = read_text(paths, 2, ES_SHUFFLE_NONE, 1, 333);
    es_blocks mixed = read_text(paths, 2, ES_SHUFFLE_WORD, 1, 333);
    assert_memory_equal(mixed.start, plain.start, (size_t)(plain.count + 1) * sizeof(int64_t));
    const int64_t count = inner_of(&plain, ids[0]);
    assert_int_equal(inner_of(&mixed, ids[1]), count);
    cut(ids[0], count, true, &before);
    cut(ids[1], count, true, &after);
    same_multiset(&before, &after);
    es_blocks_free(&plain), es_blocks_free(&mixed);
    remove(path[0]);
    remove(path[1]);
}

/* ---- pools ---- */

static void a_pool_of_another_order_is_refused(void **state)
{
    (void)state;
    static int32_t ids[200];
    float row[12], other[12];
    es_pool *pool;
    write_words("text", 4, 200, ids);
    es_pool_spec spec = pool_spec_of("text", "pool");
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_open(spec.folder, &pool, &err));
    assert_ok(es_pool_rows(pool, 0, 1, 1, row, &err));
    es_pool_close(pool);
    spec.shuffle = ES_SHUFFLE_WORD;
    spec.seed = 7;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    remove_pool("pool");
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_build(&spec, NULL, &err)); /* taken as it is */
    assert_ok(es_pool_open(spec.folder, &pool, &err));
    assert_ok(es_pool_rows(pool, 0, 1, 1, other, &err));
    assert_memory_not_equal(row, other, sizeof row); /* another word comes first */
    es_pool_close(pool);
    spec.seed = 8;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    assert_non_null(strstr(err.message, "seed 7"));
    spec.seed = 7;
    spec.shuffle = ES_SHUFFLE_BLOCK;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    spec.shuffle = ES_SHUFFLE_NONE;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    remove_pool("pool");
    remove(in_folder("text"));
}

TEST_FILE(text_shuffle)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_change_places),
        cmocka_unit_test(sentences_change_places),
        cmocka_unit_test(blocks_change_places),
        cmocka_unit_test(where_sentences_end),
        cmocka_unit_test(what_is_read_is_shuffled_and_nothing_else),
        cmocka_unit_test(a_pool_of_another_order_is_refused),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
