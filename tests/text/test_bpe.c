/* SPDX-License-Identifier: Apache-2.0 */
/* test_bpe.c : text becomes tokens by byte pairs. BP04, BP06 and BP07 of the list of bad inputs;
 * ids against Hugging Face's JavaScript (tests/golden/bpe) and a plain loop. */
#include "golden_bpe.h"
#include "numbers.h"
#include "steps.h"

#include <pthread.h>

/* ---- merges, against the definition ---- */

enum { PIECES_MOST = 64, WORD_MOST = 200 };

/* Pieces of the letters a, b and c; merges of random pairs, whose rank is their number. */
typedef struct random_model {
    char pieces[PIECES_MOST][64];
    int left[PIECES_MOST], right[PIECES_MOST], both[PIECES_MOST];
    int count, merges;
} random_model;

static int find_piece(const random_model *m, const char *text)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->pieces[i], text) == 0)
            return i;
    return -1;
}

static int find_rank(const random_model *m, int left, int right)
{
    for (int i = 0; i < m->merges; i++)
        if (m->left[i] == left && m->right[i] == right)
            return i;
    return -1;
}

static void draw_model(random_model *m, int merges)
{
    memset(m, 0, sizeof *m);
    for (m->count = 0; m->count < 3; m->count++)
        m->pieces[m->count][0] = (char)('a' + m->count);
    for (int tries = 0; m->merges < merges && tries < 1000; tries++) {
        char text[130];
        const int left = (int)between(0, m->count - 1), right = (int)between(0, m->count - 1);
        snprintf(text, sizeof text, "%s%s", m->pieces[left], m->pieces[right]);
        if (strlen(text) > 12 || find_rank(m, left, right) >= 0)
            continue;
        if (find_piece(m, text) < 0)
            strcpy(m->pieces[m->count++], text);
        m->left[m->merges] = left;
        m->right[m->merges] = right;
        m->both[m->merges++] = find_piece(m, text);
    }
}

static es_tokenizer *open_model(const random_model *m)
{
    char *json = malloc(65536), *end = json;
    assert_non_null(json);
    end += sprintf(end, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < m->count; i++)
        end += sprintf(end, "%s\"%s\":%d", i ? "," : "", m->pieces[i], i);
    end += sprintf(end, ",\"<unk>\":%d},\"unk_token\":\"<unk>\",\"merges\":[", m->count);
    for (int i = 0; i < m->merges; i++)
        end += sprintf(end, "%s\"%s %s\"", i ? "," : "", m->pieces[m->left[i]],
                       m->pieces[m->right[i]]);
    strcpy(end, "]}}");
    es_tokenizer *t = open_json(json);
    free(json);
    return t;
}

/* Of all neighbours the pair of the lowest rank, the leftmost of them, becomes one, until none is
 * left. */
static int merge_plainly(const random_model *m, const char *word, int *ids)
{
    int count = 0;
    for (; word[count]; count++)
        ids[count] = word[count] - 'a';
    for (;;) {
        int best = -1, at = 0;
        for (int i = 0; i + 1 < count; i++) {
            const int rank = find_rank(m, ids[i], ids[i + 1]);
            if (rank >= 0 && (best < 0 || rank < best))
                best = rank, at = i;
        }
        if (best < 0)
            return count;
        ids[at] = m->both[best];
        memmove(ids + at + 1, ids + at + 2, (size_t)(count - at - 2) * sizeof *ids);
        count--;
    }
}

/* Where merges are few, words are cut where none can join, which must not show. */
static void merges_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    random_model m;
    char word[WORD_MOST + 1];
    int want[WORD_MOST];
    state_of_rng = 16;
    for (int model = 0; model < 60; model++) {
        draw_model(&m, 1 + model % 40);
        es_tokenizer *t = open_model(&m);
        for (int i = 0; i < 40; i++) {
            const int64_t length = between(1, i < 30 ? 20 : WORD_MOST), letters = between(0, 2);
            for (int64_t k = 0; k < length; k++)
                word[k] = (char)('a' + between(0, letters));
            word[length] = '\0';
            check_ids(t, word, (size_t)length, want, merge_plainly(&m, word, want));
        }
        es_tokenizer_free(t);
    }
}

static void unknown_characters(void **state)
{
    (void)state;
    assert_bpe(BPE(ABC, ABC_MERGES, "\"unk_token\":\"<unk>\",", ""), "abxxc", 5, 7, 7, 2);
    assert_bpe(BPE(ABC, ABC_MERGES, "\"unk_token\":\"<unk>\",\"fuse_unk\":true,", ""), "abxxc", 5,
               7, 2);
    assert_bpe(BPE(ABC, ABC_MERGES, "", ""), "xabxxc", 6); /* left out, and neighbours meet */
    assert_bpe(BPE(ABC, ABC_MERGES, "\"unk_token\":\"<unk>\",\"byte_fallback\":true,", ""), "adx",
               0, 8, 7); /* <0x64> is there, <0x78> is not */
    assert_bpe(BPE(ABC, ABC_MERGES, "\"unk_token\":\"<unk>\",\"byte_fallback\":true,", ""),
               "d\xc3\xa4", 8, 7);
}

static void whole_words_before_merges(void **state)
{
    (void)state;
#define WHOLE "\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5"
    assert_bpe(BPE(WHOLE, "\"b c\",\"a b\"", "", ""), "abc", 0, 4);
    assert_bpe(BPE(WHOLE, "\"b c\",\"a b\"", "\"ignore_merges\":true,", ""), "abc", 5);
    assert_bpe(BPE(WHOLE, "\"b c\",\"a b\"", "\"ignore_merges\":true,", ""), "abca", 0, 4, 0);
}

/* ---- added tokens ---- */

#define ADDED(content, id, flags)                                                                  \
    "{\"content\":\"" content "\",\"id\":" #id "," flags "\"special\":true}"
#define TOKENS(list) "\"added_tokens\":[" list "],"

static void BP07_added_tokens_that_overlap(void **state)
{
    (void)state;
    /* the leftmost, and of those that begin there the longest */
    assert_bpe(BPE(ABC, ABC_MERGES, "",
                   TOKENS(ADDED("<a", 10, "") "," ADDED("<ab>", 11, "") "," ADDED("ab>c", 12, ""))),
               "<ab>c<ab<a-ab>c", 11, 2, 10, 1, 10, 3, 12);
    /* a single word is not touched by letters or digits; the match is then passed over whole */
    static const char alone[] =
        BPE(ABC, ABC_MERGES, "", TOKENS(ADDED("b", 1, "\"single_word\":true,")));
    assert_bpe(alone, "b ab b-b", 1, 4, 5, 4, 1, 3, 1);
    assert_bpe(alone, "b", 1);
    assert_bpe(BPE(ABC, ABC_MERGES, "", TOKENS(ADDED("-b", 9, "\"single_word\":true,"))),
               "-b \xc3\xa9-b a-b -bc", 9, 4, 3, 1, 4, 0, 3, 1, 4, 3, 1, 2);
}

static void BP07_white_space_beside_added_tokens(void **state)
{
    (void)state;
    static const char left[] =
        BPE(ABC, ABC_MERGES, "", TOKENS(ADDED("<l>", 9, "\"lstrip\":true,")));
    static const char right[] =
        BPE(ABC, ABC_MERGES, "", TOKENS(ADDED("<r>", 9, "\"rstrip\":true,")));
    assert_bpe(left, "a  \xe3\x80\x80 <l> b", 0, 9, 4, 1);
    assert_bpe(left, "  <l>  <l>", 9, 9);
    assert_bpe(right, "a <r> \t\xc2\xa0 b", 0, 4, 9, 1);
    assert_bpe(right, "<r>  <r>  ", 9, 9);
    es_tokenizer *t = open_json(left);
    es_token_list list = {0};
    char text[70000]; /* spaces that reach from one piece of the stream to the next */
    memset(text, ' ', sizeof text);
    memcpy(text + sizeof text - 3, "<l>", 3);
    text[0] = 'a';
    assert_ok(es_tokenizer_encode(t, text, sizeof text, NULL, &list, &err));
    assert_int_equal(list.count, 2);
    assert_equals(list.tokens[1].begin, 1);
    assert_equals(list.tokens[1].end, (int64_t)sizeof text);
    check_stream(t, text, sizeof text, 4999, &list);
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

/* One that is normalized is looked for in what the normalizer has made, itself normalized. */
static void BP07_normalized_tokens(void **state)
{
    (void)state;
#define X_TO_B                                                                                     \
    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"b\"},"
    assert_bpe(BPE(ABC, ABC_MERGES, "", X_TO_B TOKENS(ADDED("-x", 9, "\"normalized\":true,"))),
               "a-xc-b", 0, 9, 2, 9);
    assert_bpe(BPE(ABC, ABC_MERGES, "",
                   X_TO_B TOKENS(ADDED("-x", 9, "\"normalized\":true,\"lstrip\":true,"))),
               "a  -x  -bc-", 0, 9, 9, 2, 3);
    assert_bpe(BPE(ABC, ABC_MERGES, "", X_TO_B TOKENS(ADDED("-x", 9, ""))), "a-xc-b", 0, 9, 2, 3,
               1);
}

/* ---- places ---- */

static void places_are_bytes_of_the_text(void **state)
{
    (void)state;
    static const char text[] = "e\xcc\x81t \xff\xe2\x96\x81<tool> \xf0\x9f\x98\x80 zz";
    for (int i = 0; i < SMALL; i++) {
        es_tokenizer *t = open_golden(names[i]);
        es_token_list list = {0};
        const es_encode_opts opts = {.no_specials = true};
        assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, &opts, &list, &err));
        int64_t covered = 0;
        for (int64_t k = 0; k < list.count; k++) { /* no byte is left out, and order is kept */
            const es_token *token = &list.tokens[k];
            assert_at_most(token->begin, covered);
            assert_at_least(token->end, covered);
            assert_at_most(token->begin, token->end);
            assert_at_most(token->end, (int64_t)sizeof text - 1);
            covered = token->end;
        }
        assert_int_equal(covered, sizeof text - 1);
        es_token_list_free(&list);
        es_tokenizer_free(t);
    }
    es_tokenizer *t = open_json(BPE(ABC, ABC_MERGES, "", ""));
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, "abc-xxab", 8, NULL, &list, &err));
    assert_int_equal(list.count, 3);
    assert_equals(list.tokens[0].begin, 0);
    assert_equals(list.tokens[0].end, 3);
    assert_equals(list.tokens[1].begin, 3);
    assert_equals(list.tokens[2].end, 8);
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

static void BP06_bytes_that_are_no_utf8(void **state)
{
    (void)state;
    const es_encode_opts strict = {.invalid = ES_TEXT_ERROR};
    es_token_list list = {0};
    es_tokenizer *t = open_json(BPE("\"a\":0,\"\\ufffd\":1,\"\\u2581\":2", "", "", ""));
    static const int want[] = {0, 1, 0, 1, 1, 2};
    check_ids(t,
              "a\xff"
              "a\xc3\xed\xa0\x80\xe2\x96\x81",
              10, (int[]){0, 1, 0, 1, 1, 1, 1, 2}, 8);
    check_ids(t,
              "a\xe2\x96"
              "a\xf0\x9f\x98\xff\xe2\x96\x81",
              11, want, 6);
    assert_int_equal(es_tokenizer_encode(t, "aa\xff", 3, &strict, &list, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "text.utf8");
    assert_int_equal(err.offset, 2);
    es_tokenizer_free(t);
}

static es_status refuse(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    (void)tokens, (void)count, (void)e;
    return ++*(int *)user == 3 ? ES_E_INTERRUPTED : ES_OK;
}

static void a_refusal_ends_the_text_and_the_next_begins_anew(void **state)
{
    (void)state;
    es_tokenizer *t = open_json(BPE(ABC, ABC_MERGES, "", SPLIT("-", "Isolated")));
    es_token_stream *s;
    int calls = 0;
    assert_ok(es_token_stream_open(t, NULL, refuse, &calls, &s, &err));
    assert_ok(es_token_stream_write(s, "a-b-c", 5, &err));
    assert_int_equal(es_token_stream_finish(s, &err), ES_E_INTERRUPTED);
    assert_int_equal(calls, 3);
    assert_ok(es_token_stream_write(s, "a-", 2, &err));
    assert_ok(es_token_stream_finish(s, &err));
    assert_int_equal(calls, 5);
    es_token_stream_close(s);
    es_tokenizer_free(t);
}

/* ---- size ---- */

/* Encodes a text. Returns the steps that this takes (steps.h). */
static uint64_t steps_for(const es_tokenizer *t, const char *text, size_t bytes,
                          es_mem_limit *budget)
{
    const es_encode_opts opts = {.budget = budget};
    es_token_list list = {0};
    const uint64_t before = steps_so_far();
    assert_ok(es_tokenizer_encode(t, text, bytes, &opts, &list, &err));
    const uint64_t steps = steps_so_far() - before;
    assert_at_least(steps, bytes); /* the sources are counted */
    assert_above(list.count, 0);
    assert_equals(list.tokens[list.count - 1].end, (int64_t)bytes);
    es_token_list_free(&list);
    return steps;
}

/* A queue of n pairs takes n log n steps, 12 times as many for 10^6 letters as for 10^5; looking
 * through all pairs for each merge would take 100 times as many. A line of words is linear. */
static void BP04_a_word_of_a_million_letters_a_line_of_ten_million(void **state)
{
    (void)state;
    const size_t word = 1000000, line = 10000000;
    char *text = malloc(line);
    assert_non_null(text);
    static const char *const models[] = {"pebble", "sentencepiece", "qwen-like"};
    for (int i = 0; i < 3; i++) {
        es_mem_limit budget = {0};
        es_tokenizer *t = open_golden(models[i]);
        memset(text, 'e', word);
        const uint64_t tenth = steps_for(t, text, word / 10, NULL);
        const uint64_t whole = steps_for(t, text, word, &budget);
        assert_below(whole, 15 * tenth);
        if (budget.peak > 200 * word) /* with the list, of which old and new are there at once */
            fail_msg("%s: %.1f MB for a word of 1 MB", models[i], (double)budget.peak * 1e-6);
        for (size_t k = 0; k < line; k++)
            text[k] = "of the river,  "[k % 15];
        const uint64_t part = steps_for(t, text, line / 10, NULL);
        assert_below(steps_for(t, text, line, NULL), 11 * part);
        es_tokenizer_free(t);
    }
    free(text);
}

static es_status drop(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    (void)tokens, (void)e;
    *(int64_t *)user += count;
    return ES_OK;
}

/* Text of many words goes through in memory that does not depend on it. */
static void a_stream_keeps_no_more_than_a_word(void **state)
{
    (void)state;
    static const char piece[] = "It is a truth \xc3\xa9  universally 42 acknowledged,\n";
    for (int i = 0; i < SMALL; i++) {
        es_mem_limit budget = {0};
        const es_encode_opts opts = {.budget = &budget};
        es_tokenizer *t = open_golden(names[i]);
        es_token_stream *s;
        int64_t count = 0;
        assert_ok(es_token_stream_open(t, &opts, drop, &count, &s, &err));
        for (int k = 0; k < 20000; k++)
            assert_ok(es_token_stream_write(s, piece, sizeof piece - 1, &err));
        assert_ok(es_token_stream_finish(s, &err));
        es_token_stream_close(s);
        assert_above(count, 20000 * 8);
        if (budget.peak > 3 << 20)
            fail_msg("%s: %llu bytes for a text of %zu", names[i], (unsigned long long)budget.peak,
                     20000 * (sizeof piece - 1));
        assert_int_equal(budget.used, 0);
        es_tokenizer_free(t);
    }
}

/* A letter and its mark become one, wherever the text is cut while it is read: `k` letters before
 * them move the cuts. */
static void letters_meet_their_marks_across_cuts(void **state)
{
    (void)state;
    enum { PAIRS = 20000 };
    char *apart = malloc(4 * PAIRS + 8), *composed = malloc(3 * PAIRS + 8);
    const es_encode_opts opts = {.no_specials = true};
    es_token_list got = {0}, want = {0};
    es_tokenizer *t = open_golden("qwen-like");
    assert_true(apart && composed);
    for (size_t k = 0; k < 4; k++) {
        memset(apart, 'x', k);
        memset(composed, 'x', k);
        for (size_t i = 0; i < PAIRS; i++) {
            memcpy(apart + k + 4 * i, "e\xcc\x81,", 4);
            memcpy(composed + k + 3 * i, "\xc3\xa9,", 3);
        }
        assert_ok(es_tokenizer_encode(t, apart, k + 4 * PAIRS, &opts, &got, &err));
        assert_ok(es_tokenizer_encode(t, composed, k + 3 * PAIRS, &opts, &want, &err));
        assert_int_equal(got.count, want.count);
        for (int64_t i = 0; i < got.count; i++)
            assert_int_equal(got.tokens[i].id, want.tokens[i].id);
    }
    es_token_list_free(&got);
    es_token_list_free(&want);
    es_tokenizer_free(t);
    free(apart);
    free(composed);
}

/* Sorting 10^6 marks of two classes in turn one by one would take 100 times the steps of 10^5
 * marks. */
static void TK10_a_storm_of_marks_is_composed_in_order_n_log_n(void **state)
{
    (void)state;
    const size_t marks = 1000000;
    char *text = malloc(1 + 2 * marks);
    es_tokenizer *t = open_golden("qwen-like");
    assert_non_null(text);
    text[0] = 'a';
    for (size_t i = 0; i < marks; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\xcc\x81" : "\xcc\x96", 2);
    const uint64_t tenth = steps_for(t, text, 1 + marks / 5, NULL);
    assert_below(steps_for(t, text, 1 + 2 * marks, NULL), 15 * tenth);
    es_tokenizer_free(t);
    free(text);
}

typedef struct shared_job {
    const es_tokenizer *tokenizer;
    es_token_list list;
    es_status status;
} shared_job;

static void *encode_shared(void *user)
{
    static const char text[] =
        "The cafe\xcc\x81 of 1865, isn't <tool> it? \xe4\xb8\xad\xe6\x96\x87 ";
    enum { REPEATS = 2000 };
    shared_job *job = user;
    es_error e;
    char *much = malloc(REPEATS * (sizeof text - 1));
    for (size_t i = 0; much && i < REPEATS; i++)
        memcpy(much + i * (sizeof text - 1), text, sizeof text - 1);
    job->status = es_tokenizer_encode(job->tokenizer, much, REPEATS * (sizeof text - 1), NULL,
                                      &job->list, &e);
    free(much);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    es_tokenizer *t = open_golden("qwen-like");
    shared_job jobs[THREADS] = {{0}};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i].tokenizer = t;
        assert_int_equal(pthread_create(&threads[i], NULL, encode_shared, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].status, ES_OK);
        assert_int_equal(jobs[i].list.count, jobs[0].list.count);
        for (int64_t k = 0; k < jobs[0].list.count; k++)
            assert_int_equal(jobs[i].list.tokens[k].id, jobs[0].list.tokens[k].id);
    }
    for (int i = 0; i < THREADS; i++)
        es_token_list_free(&jobs[i].list);
    es_tokenizer_free(t);
}

static void the_budget_is_kept(void **state)
{
    (void)state;
    es_tokenizer *t = open_golden("pebble");
    es_token_list list = {0};
    char text[40000];
    memset(text, 'e', sizeof text);
    for (uint64_t limit = 1 << 12; limit < 1 << 24; limit *= 2) {
        es_mem_limit budget = {.limit = limit};
        const es_encode_opts opts = {.budget = &budget};
        const es_status status = es_tokenizer_encode(t, text, sizeof text, &opts, &list, &err);
        if (status != ES_E_LIMIT)
            assert_int_equal(status, ES_OK);
        assert_at_most(budget.peak, limit);
        es_token_list_free(&list);
        assert_int_equal(budget.used, 0);
    }
    es_tokenizer_free(t);
    for (uint64_t limit = 1 << 16; limit < 1 << 24; limit *= 2) {
        es_mem_limit budget = {.limit = limit};
        const es_status status = es_tokenizer_open(golden_model("qwen-like"), &budget, &t, &err);
        if (status != ES_E_LIMIT)
            assert_int_equal(status, ES_OK);
        es_tokenizer_free(t);
        assert_int_equal(budget.used, 0);
    }
}

TEST_FILE(bpe)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_of_a_plain_loop),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(whole_words_before_merges),
        cmocka_unit_test(BP07_added_tokens_that_overlap),
        cmocka_unit_test(BP07_white_space_beside_added_tokens),
        cmocka_unit_test(BP07_normalized_tokens),
        cmocka_unit_test(places_are_bytes_of_the_text),
        cmocka_unit_test(BP06_bytes_that_are_no_utf8),
        cmocka_unit_test(a_refusal_ends_the_text_and_the_next_begins_anew),
        cmocka_unit_test(BP04_a_word_of_a_million_letters_a_line_of_ten_million),
        cmocka_unit_test(a_stream_keeps_no_more_than_a_word),
        cmocka_unit_test(letters_meet_their_marks_across_cuts),
        cmocka_unit_test(TK10_a_storm_of_marks_is_composed_in_order_n_log_n),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(the_budget_is_kept),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
