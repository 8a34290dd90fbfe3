/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c : texts cut into blocks, and the hidden states of a small random model (tiny_model.h)
 * on disk: what the rows are, what a killed build leaves, what is refused (TX01, TX02, TX03). */
#include "testing.h"

#include "base/half.h"
#include "store/run.h"
#include "tiny_pool.h"
#include <esscher/exec.h>
#include <esscher/npy.h>

enum { LENGTH = 40, INNER = LENGTH - 2 }; /* of the small model */

/* ---- blocks ---- */

/* Blocks must be [CLS], as many of the words as fit or are left, [SEP]: `words` from `at` on. */
static void check_block(const es_blocks *b, int64_t block, const int32_t *words, int64_t count)
{
    const int32_t *ids = b->ids + b->start[block];
    assert_int_equal(b->start[block + 1] - b->start[block], count + 2);
    assert_int_equal(ids[0], TINY_CLS);
    assert_memory_equal(ids + 1, words, (size_t)count * sizeof *ids);
    assert_int_equal(ids[count + 1], TINY_SEP);
}

static es_status read_blocks(const char *const *texts, int64_t n_texts, int64_t tokens, bool repeat,
                             es_blocks *out)
{
    const es_blocks_spec spec = {.tokenizer = tokenizer,
                                 .texts = texts,
                                 .n_texts = n_texts,
                                 .length = LENGTH,
                                 .tokens = tokens,
                                 .repeat = repeat,
                                 .from = ES_BLOCKS_START};
    return es_blocks_read(&spec, NULL, out, &err);
}

static void TX03_blocks_hold_words_and_specials_and_no_padding(void **state)
{
    (void)state;
    int32_t words[2][100];
    char paths[2][512];
    const char *const texts[] = {paths[0], paths[1]};
    strcpy(paths[0], write_words("a", 1, 100, words[0]));
    strcpy(paths[1], write_words("b", 2, 38, words[1]));
    es_blocks b;
    assert_ok(read_blocks(texts, 2, 0, false, &b));
    assert_int_equal(b.count, 4);
    check_block(&b, 0, words[0], INNER);
    check_block(&b, 1, words[0] + INNER, INNER);
    check_block(&b, 2, words[0] + 2 * INNER, 100 - 2 * INNER);
    check_block(&b, 3, words[1], 38); /* a text begins a new block */
    assert_int_equal(b.repeats, 0);
    es_blocks_free(&b);
    /* tokens asked -> tokens of the last block: a rest of specials alone is left out */
    static const int64_t asked[][3] = {{40, 1, 40}, {41, 1, 40}, {42, 1, 40},
                                       {43, 2, 3},  {50, 2, 10}, {3, 1, 3}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        assert_ok(read_blocks(texts, 2, asked[i][0], false, &b));
        assert_int_equal(b.count, asked[i][1]);
        check_block(&b, b.count - 1, words[0] + (b.count - 1) * INNER, asked[i][2] - 2);
        es_blocks_free(&b);
    }
    remove(paths[0]);
    remove(paths[1]);
}

/* Of 5 whole blocks and a rest in one text and 2 and a rest in another, B at the middle of equal
 * parts; rests are in none of them, and what was taken from the start is what it was. */
static void blocks_are_taken_evenly_from_all_of_the_text(void **state)
{
    (void)state;
    enum { MANY = 5 * INNER + 7, FEW = 2 * INNER + 3 };
    static int32_t words[2][MANY];
    static const int64_t chosen[][8] = {{3},
                                        {1, 5},
                                        {1, 3, 5},
                                        {0, 2, 4, 6},
                                        {0, 2, 3, 4, 6},
                                        {0, 1, 2, 4, 5, 6},
                                        {0, 1, 2, 3, 4, 5, 6}};
    char paths[2][512];
    const char *const texts[] = {paths[0], paths[1]};
    strcpy(paths[0], write_words("a", 1, MANY, words[0]));
    strcpy(paths[1], write_words("b", 2, FEW, words[1]));
    es_blocks_spec spec = {.tokenizer = tokenizer, .texts = texts, .n_texts = 2, .length = LENGTH};
    es_blocks b;
    for (int64_t B = 1; B <= 7; B++)
        for (int by_tokens = 0; by_tokens < 2; by_tokens++) {
            spec.most = by_tokens ? 0 : B;
            spec.tokens = by_tokens ? B * LENGTH - 11 : 0; /* the last is cut short */
            assert_ok(es_blocks_read(&spec, NULL, &b, &err));
            assert_int_equal(b.count, B);
            assert_int_equal(b.of, 7);
            for (int64_t j = 0; j < B; j++) {
                const int64_t at = chosen[B - 1][j];
                check_block(&b, j, at < 5 ? words[0] + at * INNER : words[1] + (at - 5) * INNER,
                            INNER - (by_tokens && j == B - 1 ? 11 : 0));
            }
            es_blocks_free(&b);
        }
    spec.tokens = 0;
    spec.most = 8; /* more than there are whole ones: rests, too, as they come */
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    assert_int_equal(b.count, 8);
    assert_int_equal(b.of, 0);
    check_block(&b, 5, words[0] + 5 * INNER, 7);
    es_blocks_free(&b);
    spec.most = 2;
    spec.from = ES_BLOCKS_START;
    assert_ok(es_blocks_read(&spec, NULL, &b, &err));
    check_block(&b, 1, words[0] + INNER, INNER);
    es_blocks_free(&b);
    remove(paths[0]);
    remove(paths[1]);
}

static void TX01_a_short_text_is_refused_or_repeated_and_recorded(void **state)
{
    (void)state;
    int32_t words[100];
    const char *const path = write_words("a", 1, 100, words);
    char text[512];
    const char *const texts[] = {strcpy(text, path)};
    es_blocks b;
    assert_int_equal(read_blocks(texts, 1, 1000, false, &b), ES_E_EMPTY);
    assert_string_equal(err.rule, "pool.short");
    assert_non_null(strstr(err.message, "106 tokens"));
    assert_ok(read_blocks(texts, 1, 1000, true, &b)); /* 106 at a time: begun again 9 times */
    assert_int_equal(b.repeats, 9);
    assert_int_equal(b.start[b.count], 1000);
    for (int64_t i = 0; i + 1 < b.count; i++)
        check_block(&b, i, words + i % 3 * INNER, i % 3 < 2 ? INNER : 100 - 2 * INNER);
    check_block(&b, b.count - 1, words + (b.count - 1) % 3 * INNER,
                b.start[b.count] - b.start[b.count - 1] - 2);
    es_blocks_free(&b);
    assert_ok(read_blocks(texts, 1, 106, true, &b)); /* just enough */
    assert_int_equal(b.repeats, 0);
    es_blocks_free(&b);
    remove(text);
}

static void texts_that_are_none(void **state)
{
    (void)state;
    char text[512];
    const char *const texts[] = {text};
    es_blocks b;
    strcpy(text, write_file("t", " \n\n ", 4));
    assert_int_equal(read_blocks(texts, 1, 100, true, &b), ES_E_EMPTY); /* and ends */
    assert_string_equal(err.rule, "pool.empty");
    assert_int_equal(read_blocks(texts, 0, 0, false, &b), ES_E_EMPTY);
    write_file("t", "\037\213\010\0", 4);
    assert_int_equal(read_blocks(texts, 1, 0, false, &b), ES_E_UNSUPPORTED);
    write_file("t", "word20 \377", 8);
    const es_blocks_spec strict = {.tokenizer = tokenizer,
                                   .texts = texts,
                                   .n_texts = 1,
                                   .length = LENGTH,
                                   .invalid = ES_TEXT_ERROR};
    assert_int_not_equal(es_blocks_read(&strict, NULL, &b, &err), ES_OK);
    assert_string_equal(err.file, text);
    const es_blocks_spec narrow = {
        .tokenizer = tokenizer, .texts = texts, .n_texts = 1, .length = 2};
    assert_int_equal(es_blocks_read(&narrow, NULL, &b, &err), ES_E_RANGE);
    remove(text);
    assert_int_equal(read_blocks(texts, 1, 0, false, &b), ES_E_IO);
    assert_null(b.ids);
}

typedef struct remarks {
    int count;
    char last[512];
} remarks;

static void hear(void *user, es_log_level level, const char *message)
{
    remarks *r = user;
    (void)level;
    r->count++;
    snprintf(r->last, sizeof r->last, "%s", message);
}

/* However often the text is counted, and however much of it is. */
static void TK09_bytes_that_are_no_utf8_are_told_once(void **state)
{
    (void)state;
    remarks r = {0};
    char text[400] = "";
    for (int i = 0; i < 20; i++)
        strcat(text, "word20 \377 word21 ");
    write_file("t", text, strlen(text));
    es_pool_spec spec = pool_spec_of("t", "pool");
    es_pool_cost cost;
    spec.invalid = ES_TEXT_REPLACE_ALL;
    es_log_set(hear, &r, ES_LOG_WARN);
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    spec.tokens = 20;
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    assert_int_equal(r.count, 0);
    assert_ok(es_pool_build(&spec, NULL, &err));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(r.count, 1);
    assert_non_null(strstr(r.last, "byte 7: not UTF-8"));
    assert_non_null(strstr(r.last, "Convert the text to UTF-8"));
    remove_pool("pool");
    remove(in_folder("t"));
}

static bool stop_at_once(void *user, double done, double total)
{
    (void)done;
    (void)total;
    ++*(int *)user;
    return true;
}

/* Between pieces of 64 KiB somebody may say that it is enough. */
static void reading_a_text_can_be_stopped(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    int asked = 0;
    assert_non_null(text);
    for (int i = 0; i < BYTES; i++)
        text[i] = i % 5 ? 'a' : ' ';
    write_file("t", text, BYTES);
    const es_pool_spec spec = pool_spec_of("t", "pool");
    const es_exec exec = {.progress = stop_at_once, .progress_user = &asked};
    es_pool_cost cost;
    assert_int_equal(es_pool_cost_of(&spec, &exec, &cost, &err), ES_E_INTERRUPTED);
    assert_int_equal(asked, 1);
    free(text);
    remove(in_folder("t"));
}

/* More than one in a hundred bytes is another encoding, or no text: each file by itself, and only
 * as far as it is read. */
static void TX20_text_that_is_hardly_utf8_is_refused(void **state)
{
    (void)state;
    static char text[1000], other[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = other[i] = i % 5 ? 'a' : ' ';
    memset(text + 500, 0xe9, 10); /* ten of a thousand are allowed */
    write_file("t", text, sizeof text);
    write_file("u", other, sizeof other);
    char first[512], second[512];
    snprintf(first, sizeof first, "%s", in_folder("u"));
    snprintf(second, sizeof second, "%s", in_folder("t"));
    const char *const texts[] = {first, second};
    es_pool_spec spec = pool_spec_of("t", "pool");
    spec.texts = texts;
    spec.n_texts = 2;
    spec.tokens = 0;
    es_pool_cost cost;
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    text[600] = (char)0xe9;
    write_file("t", text, sizeof text);
    assert_int_equal(es_pool_cost_of(&spec, NULL, &cost, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "text.utf8");
    assert_string_equal(err.file, second);
    assert_int_equal(err.offset, 500);
    assert_true(strstr(err.message, "1.1 %") && strstr(err.hint, "iconv"));
    spec.invalid = ES_TEXT_REPLACE_ALL;
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    remove(in_folder("t"));
    remove(in_folder("u"));
}

/* .9 % of a text, all in its first half: a block from its middle is read without the second half,
 * of which the share is 1.8 %. */
static void TX20_the_share_is_that_of_the_whole_text(void **state)
{
    (void)state;
    enum { SIZE = 1 << 18, BAD = SIZE / 1000 * 9 };
    char *text = malloc(SIZE), path[512];
    assert_non_null(text);
    for (size_t i = 0; i < SIZE; i++)
        text[i] = i % 5 ? 'a' : ' ';
    for (size_t i = 0; i < BAD; i++)
        text[i * (SIZE / 2 / BAD)] = (char)0xe9;
    write_file("t", text, SIZE);
    free(text);
    snprintf(path, sizeof path, "%s", in_folder("t"));
    const char *const texts[] = {path};
    es_pool_spec spec = pool_spec_of("t", "pool");
    spec.texts = texts;
    spec.n_texts = 1;
    spec.tokens = LENGTH;
    es_pool_cost cost;
    assert_ok(es_pool_cost_of(&spec, NULL, &cost, &err));
    remove(in_folder("t"));
}

/* ---- a pool ---- */

enum { WORDS = 2900, BLOCKS = 77, TOKENS = WORDS + 2 * BLOCKS, BATCHES = 3 };
static int32_t words[WORDS];

/* Block `block` of the words above, as the model is given it. */
static int64_t block_ids(int64_t block, int32_t ids[LENGTH])
{
    const int64_t left = WORDS - block * INNER, count = left < INNER ? left : INNER;
    ids[0] = TINY_CLS;
    memcpy(ids + 1, words + block * INNER, (size_t)count * sizeof *ids);
    ids[count + 1] = TINY_SEP;
    return count + 2;
}

/* Every row must be the model's, to the bit, or to the nearest half. */
static void check_rows(const es_pool *pool, bool specials, bool half)
{
    const int64_t H = tiny_of_pool.hidden, L = tiny_of_pool.layers;
    static float hidden[4 * LENGTH * 12], rows[LENGTH * 12];
    int32_t ids[LENGTH];
    int64_t at = 0;
    for (int64_t b = 0; b < BLOCKS; b++) {
        const int64_t n = block_ids(b, ids), skip = specials ? 0 : 1;
        const es_model_block block = {.ids = ids, .n = n, .hidden = hidden};
        int64_t first, count;
        assert_ok(es_model_forward(model, &block, 1, NULL, &err));
        assert_ok(es_pool_block(pool, b, &first, &count, &err));
        assert_equals(first, at);
        assert_equals(count, n - 2 * skip);
        for (int64_t l = 0; l < L; l++) {
            float *want = hidden + (l * n + skip) * H;
            assert_ok(es_pool_rows(pool, l, first, count, rows, &err));
            for (int64_t i = 0; half && i < count * H; i++)
                want[i] = es_half_to_float(es_half_from_float(want[i]));
            assert_memory_equal(rows, want, (size_t)(count * H) * sizeof *rows);
        }
        at += count;
    }
    assert_int_equal(es_pool_about(pool).tokens, at);
}

/* The file is its cells and what SQLite needs for them: pages that are not full, tables. */
static void check_run_bytes(double bytes)
{
    struct stat st;
    assert_int_equal(stat(in_folder("pool/pool.run"), &st), 0);
    assert_between((double)st.st_size, bytes, 1.1 * bytes + 100e3);
}

static void TX02_rows_are_the_hidden_states_of_blocks_no_longer_than_the_model(void **state)
{
    (void)state;
    write_words("text", 3, WORDS, words);
    for (int kind = 0; kind < 4; kind++) {
        const bool half = kind % 2, specials = kind / 2;
        es_pool_spec spec = pool_spec_of("text", "pool");
        spec.store = half ? ES_POOL_F16 : ES_POOL_F32;
        spec.drop_specials = !specials;
        es_pool *pool;
        es_mem_limit budget = {0};
        es_pool_cost cost;
        const es_exec exec = {.budget = &budget};
        assert_ok(es_pool_cost_of(&spec, &exec, &cost, &err));
        assert_ok(es_pool_build(&spec, &exec, &err));
        assert_int_equal(budget.used, 0);
        assert_at_most(budget.peak, cost.bytes);
        assert_ok(es_pool_open(spec.folder, &pool, &err));
        const es_pool_info info = es_pool_about(pool);
        assert_equals(info.tokens, (specials ? TOKENS : WORDS));
        assert_equals(info.tokens, cost.tokens);
        assert_equals(info.blocks, BLOCKS);
        assert_equals(info.length, LENGTH);
        assert_equals(info.specials, specials);
        assert_int_equal(info.layers, 3);
        assert_int_equal(info.heads, 3);
        assert_int_equal(info.hidden, 12);
        assert_int_equal(info.repeats, 0);
        assert_equals(info.store, spec.store);
        const double layers = (double)(info.tokens * 3 * 12 * (half ? 2 : 4));
        assert_near(cost.disk_bytes - cost.run_bytes, layers, 0.0);
        check_run_bytes(cost.run_bytes);
        check_rows(pool, specials, half);
        es_pool_close(pool);
        remove_pool("pool");
    }
}

/* A pool without the first 4 tokens of every block has the other rows of a full one, in their
 * order; a block of 4 tokens and one of 3 give none. With --special drop the last go, too. */
static void first_tokens_are_left_out(void **state)
{
    (void)state;
    int32_t few[2][2];
    char paths[3][512];
    const char *const texts[] = {paths[0], paths[1], paths[2]};
    strcpy(paths[0], write_words("one", 5, 2, few[0])); /* [CLS] and [SEP] with them: 4 tokens */
    strcpy(paths[1], write_words("text", 3, WORDS, words));
    strcpy(paths[2], write_words("two", 6, 1, few[1]));
    es_pool_spec spec = pool_spec_of("text", "pool");
    es_pool *full, *pool;
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_open(spec.folder, &full, &err));
    spec = pool_spec_of("text", "skipped");
    spec.texts = texts;
    spec.n_texts = 3;
    spec.skip = 4;
    for (int drop = 0; drop < 2; drop++) {
        spec.drop_specials = drop;
        assert_ok(es_pool_build(&spec, NULL, &err));
        assert_ok(es_pool_open(spec.folder, &pool, &err));
        const es_pool_info info = es_pool_about(pool);
        assert_int_equal(info.blocks, BLOCKS);
        assert_int_equal(info.tokens, TOKENS - (4 + drop) * BLOCKS);
        assert_false(info.specials);
        for (int64_t b = 0; b < BLOCKS; b++) {
            int64_t from, rows, first, count;
            float want[LENGTH * 12], got[LENGTH * 12];
            assert_ok(es_pool_block(full, b, &from, &rows, &err));
            assert_ok(es_pool_block(pool, b, &first, &count, &err));
            assert_int_equal(count, rows - 4 - drop);
            assert_ok(es_pool_rows(full, 1, from + 4, count, want, &err));
            assert_ok(es_pool_rows(pool, 1, first, count, got, &err));
            assert_memory_equal(got, want, (size_t)(count * 12) * sizeof *got);
        }
        es_pool_close(pool);
        remove_pool("skipped");
    }
    spec.texts = &texts[2];
    spec.n_texts = 1;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_EMPTY);
    assert_string_equal(err.rule, "pool.short");
    es_pool_close(full);
    remove_pool("pool");
}

/* Means over queries and standard errors over blocks of what plain f64 loops give. f32 is good for
 * 1e-6 of an entropy of 4; the spread over blocks, 1e-3 and more, loses what the mean has. */
static void check_context(bool drop_specials)
{
    static double seen[BLOCKS][36], rows[BLOCKS], hidden[4 * LENGTH * 12], pooled[12];
    double all = 0;
    int32_t ids[LENGTH];
    es_pool_spec spec = pool_spec_of("text", "pool");
    es_pool *pool;
    spec.drop_specials = drop_specials;
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_open(spec.folder, &pool, &err));
    for (int64_t b = 0; b < BLOCKS; b++) {
        const int64_t n = block_ids(b, ids);
        tiny_forward(&tiny_of_pool, ids, n, hidden, seen[b], pooled, NULL);
        rows[b] = (double)n;
        all += rows[b];
    }
    assert_below(rows[BLOCKS - 1], rows[0]); /* a short one, so that weights matter */
    for (int h = 0; h < 9; h++) {
        es_pool_context c;
        assert_ok(es_pool_context_of(pool, h / 3, h % 3, &c, &err));
        const double got[4][2] = {{c.entropy, c.entropy_se},
                                  {c.top_weight, c.top_weight_se},
                                  {c.sum_squares, c.sum_squares_se},
                                  {c.ess, c.ess_se}};
        for (int s = 0; s < 4; s++) {
            double mean = 0, squares = 0;
            for (int b = 0; b < BLOCKS; b++)
                mean += rows[b] * seen[b][4 * h + s] / all;
            for (int b = 0; b < BLOCKS; b++)
                squares += pow(rows[b] * (seen[b][4 * h + s] - mean), 2);
            const double tolerance = s == 3 ? 1e-5 * LENGTH : 1e-5; /* up to LENGTH keys */
            assert_near(got[s][0], mean, tolerance);
            assert_near(got[s][1], sqrt(squares * BLOCKS / (BLOCKS - 1)) / all, tolerance);
        }
    }
    es_pool_close(pool);
    remove_pool("pool");
}

/* The queries are the same whether the rows of [CLS] and [SEP] are kept or not. */
static void context_is_that_of_the_blocks(void **state)
{
    (void)state;
    check_context(false);
    check_context(true);
}

/* ---- interrupted ---- */

/* Stops when more than `until` batches are done; notes that progress never goes back. */
typedef struct stopper {
    double until, last;
    int calls;
} stopper;

static bool stop_at(void *user, double done, double total)
{
    stopper *s = user;
    assert_at_least(done, s->last);
    assert_at_most(done, total);
    assert_equals(total, BATCHES);
    s->last = done;
    s->calls++;
    return done > s->until;
}

static void same_files(const char *a, const char *b)
{
    static char x[1 << 20], y[1 << 20];
    char path[512];
    for (int l = 0; l < 3; l++) {
        size_t size[2];
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/%s/layer-%d.npy", folder, i ? b : a, l);
            FILE *file = fopen(path, "rb");
            assert_non_null(file);
            size[i] = fread(i ? y : x, 1, sizeof x, file);
            fclose(file);
        }
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(x, y, size[0]);
    }
}

static void interrupted_and_resumed_gives_the_same_bytes(void **state)
{
    (void)state;
    es_pool *pool;
    es_pool_spec spec = pool_spec_of("text", "whole");
    const es_exec alone = {.threads = 1};
    assert_ok(es_pool_build(&spec, &alone, &err));
    spec = pool_spec_of("text", "parts");
    /* inside the first batch; after it; inside the second */
    static const double until[] = {0.3, 0.995, 1.4};
    static const char *const finished[] = {"after 0 of 3", "after 1 of 3", "after 1 of 3"};
    for (int i = 0; i < 3; i++) {
        stopper s = {.until = until[i]};
        const es_exec exec = {.threads = 3, .progress = stop_at, .progress_user = &s};
        assert_int_equal(es_pool_build(&spec, &exec, &err), ES_E_INTERRUPTED);
        assert_string_equal(err.rule, "pool.interrupted");
        if (!strstr(err.message, finished[i]))
            fail_msg("%s", err.message);
        assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_EMPTY);
        assert_string_equal(err.rule, "pool.unfinished");
    }
    stopper s = {.until = BATCHES};
    const es_exec exec = {.threads = 3, .progress = stop_at, .progress_user = &s};
    assert_ok(es_pool_build(&spec, &exec, &err));
    assert_near(s.last, BATCHES, 0.0);
    same_files("whole", "parts");
    /* finished: nothing is computed, three batches are counted */
    s = (stopper){.until = BATCHES};
    assert_ok(es_pool_build(&spec, &exec, &err));
    assert_int_equal(s.calls, 1);
    assert_near(s.last, BATCHES, 0.0);
    same_files("whole", "parts");
    remove_pool("whole");
}

/* ---- refused ---- */

static void other_parameters_are_refused(void **state)
{
    (void)state;
    const es_pool_spec spec = pool_spec_of("text", "parts");
    es_pool_spec other = spec;
    other.store = ES_POOL_F16;
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    assert_non_null(strstr(err.message, "f32"));
    other = spec;
    other.drop_specials = true;
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_ARGUMENT);
    other = spec;
    other.tokens = 1000;
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_ARGUMENT);
    /* another checkpoint that differs in a single bias, far from any head */
    tiny t = tiny_of_pool;
    double *bias =
        (double *)(uintptr_t)tiny_find(&t, t.prefix, "encoder.layer.0.output.dense.bias");
    bias[5] += 0.25;
    close_model();
    open_model_of(&t);
    other = pool_spec_of("text", "parts");
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    bias[5] -= 0.25;
    close_model();
    open_model_of(&t);
    other = pool_spec_of("text", "parts");
    assert_ok(es_pool_build(&other, NULL, &err));
    /* an f64 model, a folder without its parent, too little memory */
    es_model *wide;
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F64}, &wide, &err));
    other.model = wide;
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "pool.precision");
    es_model_close(wide);
    other = pool_spec_of("text", "no/pool");
    assert_int_equal(es_pool_build(&other, NULL, &err), ES_E_IO);
    es_mem_limit budget = {.limit = 100000};
    other = pool_spec_of("text", "small");
    assert_int_equal(es_pool_build(&other, &(es_exec){.budget = &budget}, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    assert_int_equal(access(in_folder("small"), F_OK), -1); /* nothing was begun */
}

static void questions_out_of_range(void **state)
{
    (void)state;
    float row[12];
    int64_t first, count;
    es_pool_context context;
    es_pool *pool;
    const es_pool_spec spec = pool_spec_of("text", "parts");
    assert_ok(es_pool_open(spec.folder, &pool, &err));
    assert_int_equal(es_pool_rows(pool, 3, 0, 1, row, &err), ES_E_RANGE);
    assert_int_equal(es_pool_rows(pool, -1, 0, 1, row, &err), ES_E_RANGE);
    assert_int_equal(es_pool_rows(pool, 0, TOKENS, 1, row, &err), ES_E_RANGE);
    const int64_t rows[] = {TOKENS};
    assert_int_equal(es_pool_gather(pool, 0, rows, 1, row, &err), ES_E_RANGE);
    assert_int_equal(es_pool_block(pool, BLOCKS, &first, &count, &err), ES_E_RANGE);
    assert_int_equal(es_pool_block(pool, -1, &first, &count, &err), ES_E_RANGE);
    assert_int_equal(es_pool_context_of(pool, 0, 3, &context, &err), ES_E_RANGE);
    assert_int_equal(es_pool_context_of(pool, 3, 0, &context, &err), ES_E_RANGE);
    /* in any order, repeated */
    const int64_t some[] = {7, 2, 7, TOKENS - 1};
    float gathered[4 * 12];
    assert_ok(es_pool_gather(pool, 1, some, 4, gathered, &err));
    for (int i = 0; i < 4; i++) {
        assert_ok(es_pool_rows(pool, 1, some[i], 1, row, &err));
        assert_memory_equal(row, gathered + 12 * i, sizeof row);
    }
    es_pool_close(pool);
    es_pool_close(NULL);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    es_pool *pool;
    char layer[512];
    const es_pool_spec spec = pool_spec_of("text", "parts");
    snprintf(layer, sizeof layer, "%s/parts/layer-1.npy", folder);
    /* gone: a new file would be zeros that pool.run calls finished */
    assert_int_equal(rename(layer, in_folder("kept")), 0);
    assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_IO);
    assert_null(pool);
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.damaged");
    assert_int_equal(access(layer, F_OK), -1);
    /* of another shape */
    const int64_t shape[] = {TOKENS - 1, 12};
    static const float zeros[TOKENS * 12];
    assert_ok(es_npy_save(layer, ES_F32, 2, shape, zeros, true, &err));
    assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.shape");
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_FORMAT);
    /* cut short */
    assert_int_equal(rename(in_folder("kept"), layer), 0);
    assert_int_equal(truncate(layer, 1000), 0);
    assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "npy.data.short");
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_FORMAT);
    remove_pool("parts");
    assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_IO);
}

/* A run file that claims to be a pool of 60 tokens in `blocks` blocks of up to 40. */
static void forge(const double *starts, int64_t blocks, double length)
{
    static const char *const names[] = {"tokens", "hidden",   "layers",  "heads",  "blocks",
                                        "length", "specials", "dropped", "repeats"};
    const double values[] = {60, 2, 1, 1, (double)blocks, length, 1, 0, 0};
    const es_run_pair format = {"format", "2"};
    static const char *const seen[] = {"entropy", "top_weight", "sum_squares", "ess"};
    const es_run_spec spec = {.command = "pool", .params = &format, .params_count = 1};
    es_run_column columns[9];
    es_run *run;
    int64_t stage;
    for (int i = 0; i < 9; i++)
        columns[i] = (es_run_column){names[i], ES_RUN_REAL, &values[i], NULL};
    const es_run_column column = {"first_row", ES_RUN_REAL, starts, NULL};
    const es_run_table pool = {.name = "pool", .rows = 1, .cols = 9, .columns = columns};
    const es_run_table table = {
        .name = "blocks", .rows = blocks + 1, .cols = 1, .columns = &column};
    assert_ok(es_run_create(in_folder("forged/pool.run"), &spec, true, &run, &err));
    assert_ok(es_run_add_stage(run, "batch", ES_POOL_BATCH, 4, seen, &stage, &err));
    assert_ok(es_run_put_table(run, &table, &err));
    assert_ok(es_run_put_table(run, &pool, &err));
    assert_ok(es_run_close(run, &err));
}

/* Readers reserves space for blocks of the length that is stated: it must be true. */
static void forged_blocks_are_refused(void **state)
{
    (void)state;
    static const struct {
        double starts[3], length;
    } bad[] = {{{0, 50, 60}, 40}, {{1, 30, 60}, 40},  {{0, 30, 59}, 40},    {{0, 30.5, 60}, 40},
               {{0, 40, 40}, 40}, {{0, NAN, 60}, 40}, {{0, 1e300, 60}, 40}, {{0, 30, 60}, 0},
               {{0, 30, 60}, 29}, {{0, 30, 60}, NAN}, {{0, -30, 60}, 40}};
    es_pool *pool;
    assert_int_equal(mkdir(in_folder("forged"), 0777), 0);
    const es_pool_spec spec = pool_spec_of("text", "forged");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        forge(bad[i].starts, 2, bad[i].length);
        assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_FORMAT);
        assert_string_equal(err.rule, "pool.shape");
    }
    /* and one whose blocks are sound, but whose statistics are missing */
    static const double good[] = {0, 30, 60};
    const int64_t shape[] = {60, 2};
    static const float zeros[120];
    forge(good, 2, 40);
    assert_ok(es_npy_save(in_folder("forged/layer-0.npy"), ES_F32, 2, shape, zeros, true, &err));
    assert_int_equal(es_pool_open(spec.folder, &pool, &err), ES_E_FORMAT);
    assert_non_null(strstr(err.message, "0 blocks of 2"));
    remove_pool("forged");
}

TEST_FILE(pool)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TX03_blocks_hold_words_and_specials_and_no_padding),
        cmocka_unit_test(blocks_are_taken_evenly_from_all_of_the_text),
        cmocka_unit_test(TX01_a_short_text_is_refused_or_repeated_and_recorded),
        cmocka_unit_test(texts_that_are_none),
        cmocka_unit_test(TK09_bytes_that_are_no_utf8_are_told_once),
        cmocka_unit_test(reading_a_text_can_be_stopped),
        cmocka_unit_test(TX20_text_that_is_hardly_utf8_is_refused),
        cmocka_unit_test(TX20_the_share_is_that_of_the_whole_text),
        cmocka_unit_test(TX02_rows_are_the_hidden_states_of_blocks_no_longer_than_the_model),
        cmocka_unit_test(first_tokens_are_left_out),
        cmocka_unit_test(context_is_that_of_the_blocks),
        cmocka_unit_test(interrupted_and_resumed_gives_the_same_bytes),
        cmocka_unit_test(other_parameters_are_refused),
        cmocka_unit_test(questions_out_of_range),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(forged_blocks_are_refused),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
