/* test_tokenizer.c : WordPiece. TK01 to TK12 and TX04 of the list of bad inputs; ids against a
 * second implementation (tests/wordpiece) and Hugging Face's own (tests/golden/wordpiece.jsonl). */
#include "folder.h"
#include "golden.h"
#include "real.h"

#include <esscher/tokenizer.h>

static const char small[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nhello\n,\n"
                            "world\n!\na\n##a\ne\n\xc3\xa9\nE\n\xe4\xb8\xad\n\xc3\x89\n##b\n";
enum {
    PAD,
    UNK,
    CLS,
    SEP,
    MASK,
    UN,
    AFF,
    ABLE,
    HELLO,
    COMMA,
    WORLD,
    BANG,
    A,
    CONT_A,
    E,
    E_ACUTE,
    CAPITAL_E,
    CHINESE,
    CAPITAL_E_ACUTE,
    CONT_B
};

/* ---- making tokenizers ---- */

static es_tokenizer *open_bytes(const char *name, const void *data, size_t size)
{
    es_tokenizer *t = NULL;
    count_files(true);
    write_file(name, data, size);
    assert_ok(es_tokenizer_open(folder, NULL, &t, &err));
    return t;
}

static es_tokenizer *open_small(const char *config)
{
    es_tokenizer *t = NULL;
    count_files(true);
    write_file("vocab.txt", small, sizeof small - 1);
    if (config)
        write_file("tokenizer_config.json", config, strlen(config));
    assert_ok(es_tokenizer_open(folder, NULL, &t, &err));
    return t;
}

/* A refusal names its rule and the file, and leaves no memory behind. */
static void expect_refusal(const char *name, const void *data, size_t size, es_status status,
                           const char *rule)
{
    es_budget budget = {0};
    es_tokenizer *t;
    count_files(true);
    write_file(name, data, size);
    const es_status got = es_tokenizer_open(folder, &budget, &t, &err);
    if (got != status || strcmp(err.rule, rule) != 0)
        fail_msg("%s %s (%s), expected %s %s", es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule);
    assert_null(t);
    assert_true(err.file[0] && err.message[0] && err.hint[0]);
    assert_int_equal(budget.used, 0);
}

static void refuse_json(const char *text, es_status status, const char *rule)
{
    expect_refusal("tokenizer.json", text, strlen(text), status, rule);
}

/* A tokenizer.json with the parts that a test changes. */
#define JSON(vocab, added, normalizer)                                                             \
    "{\"added_tokens\":[" added "],\"normalizer\":" normalizer ","                                 \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"                                           \
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}" \
    ",\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,"           \
    "\"[CLS]\":1,\"[SEP]\":2" vocab "}}}"
#define BERT "{\"type\":\"BertNormalizer\"}"

static es_tokenizer *open_json(const char *text)
{
    return open_bytes("tokenizer.json", text, strlen(text));
}

/* ---- comparing ids ---- */

static void check_ids(const es_tokenizer *t, const char *text, size_t bytes, const int *want,
                      int64_t count)
{
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, bytes, NULL, &list, &err));
    for (int64_t i = 0; i < list.count && i < count; i++)
        if (list.tokens[i].id != want[i])
            fail_msg("\"%s\": token %lld is %d, expected %d", text, (long long)i, list.tokens[i].id,
                     want[i]);
    assert_int_equal(list.count, count);
    es_token_list_free(&list);
}

#define assert_ids(t, text, ...)                                                                   \
    do {                                                                                           \
        static const int want_[] = {__VA_ARGS__};                                                  \
        check_ids(t, text, sizeof(text) - 1, want_, sizeof want_ / sizeof want_[0]);               \
    } while (0)

/* ---- vocab.txt ---- */

static void TK01_vocab_line_ends_and_mark(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        "[UNK]\n[CLS]\n[SEP]\na\n", "[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n", "[UNK]\n[CLS]\n[SEP]\na",
        "\xef\xbb\xbf[UNK]\n[CLS]\n[SEP]\na\n", "\xef\xbb\xbf[UNK]\r\n[CLS]\r\n[SEP]\r\na"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        es_tokenizer *t = open_bytes("vocab.txt", spellings[i], strlen(spellings[i]));
        assert_int_equal(es_tokenizer_describe(t).size, 4);
        assert_string_equal(es_tokenizer_token(t, 3), "a");
        assert_ids(t, "a b", 1, 3, 0, 2);
        es_tokenizer_free(t);
    }
}

static int remarks;

static void count_remark(void *user, es_log_level level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
    remarks++;
}

static void TK01_blank_and_duplicate_lines_keep_their_numbers(void **state)
{
    (void)state;
    static const char vocab[] = "[UNK]\n[CLS]\n\n[SEP]\na\nb\na\n";
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    es_tokenizer *t = open_bytes("vocab.txt", vocab, sizeof vocab - 1);
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 2);
    assert_int_equal(es_tokenizer_describe(t).size, 7);
    assert_string_equal(es_tokenizer_token(t, 2), "");
    assert_ids(t, "a b", 1, 6, 5, 3); /* the later of two, as in the readers of others */
    es_tokenizer_free(t);
}

static void TK01_what_is_no_vocabulary(void **state)
{
    (void)state;
    expect_refusal("vocab.txt", "", 0, ES_E_FORMAT, "vocab.empty");
    expect_refusal("vocab.txt", "[UNK]\n[C\0S]\n", 12, ES_E_FORMAT, "vocab.nul");
    assert_int_equal(err.offset, 8);
    expect_refusal("vocab.txt", "[UNK]\n\xc3\x28\n", 9, ES_E_FORMAT, "vocab.utf8");
    assert_int_equal(err.offset, 6);
}

static void TK02_missing_specials(void **state)
{
    (void)state;
    expect_refusal("vocab.txt", "[CLS]\n[SEP]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    expect_refusal("vocab.txt", "[UNK]\n[SEP]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    expect_refusal("vocab.txt", "[UNK]\n[CLS]\na\n", 14, ES_E_FORMAT, "tokenizer.special");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}},"
                "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
                ES_E_FORMAT, "tokenizer.special");
    /* Padding and mask are not needed to read text. */
    es_tokenizer *t = open_bytes("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n", 18);
    assert_int_equal(es_tokenizer_find(t, "[PAD]"), -1);
    assert_ids(t, "x", 1, 0, 2);
    es_tokenizer_free(t);
    /* Nor need they have these names. */
    count_files(true);
    static const char names[] =
        "{\"unk_token\":\"<u>\",\"cls_token\":{\"content\":\"<s>\"},\"sep_token\":\"</s>\"}";
    write_file("vocab.txt", "<u>\n<s>\n</s>\na\n", 15);
    write_file("tokenizer_config.json", names, sizeof names - 1);
    assert_ok(es_tokenizer_open(in_folder("vocab.txt"), NULL, &t, &err));
    assert_ids(t, "a b </s>", 1, 3, 0, 2, 2);
    es_tokenizer_free(t);
}

/* ---- tokenizer.json ---- */

static void TK03_other_models_are_refused(void **state)
{
    (void)state;
    refuse_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", ES_E_UNSUPPORTED,
                "tokenizer.model");
    assert_non_null(strstr(err.message, "BPE"));
    refuse_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", ES_E_UNSUPPORTED,
                "tokenizer.model");
    refuse_json("{\"model\":{\"vocab\":{},\"merges\":[]}}", ES_E_UNSUPPORTED, "tokenizer.model");
    refuse_json(JSON("", "", "{\"type\":\"NFC\"}"), ES_E_UNSUPPORTED, "tokenizer.normalizer");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}},"
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
                ES_E_UNSUPPORTED, "tokenizer.pretokenizer");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}},"
                "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                "\"post_processor\":{\"type\":\"RobertaProcessing\"}}",
                ES_E_UNSUPPORTED, "tokenizer.postprocessor");
    refuse_json("{\"model\":{\"type\":\"WordPiece\",\"max_input_chars_per_word\":1000000000,"
                "\"vocab\":{\"[UNK]\":0}},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
                ES_E_UNSUPPORTED, "tokenizer.word");
}

static void broken_json_is_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"",
                                         "{",
                                         "[]",
                                         "{\"model\":{},\"model\":{}}",
                                         "{} x",
                                         "{\"a\":\"\\ud800\"}",
                                         "{\"a\":NaN}",
                                         "{'a':1}"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        refuse_json(broken[i], ES_E_FORMAT, "tokenizer.json");
    char *deep = malloc(1000001);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    deep[1000000] = 0;
    refuse_json(deep, ES_E_FORMAT, "tokenizer.json");
    free(deep);
    refuse_json("{}", ES_E_FORMAT, "tokenizer.key");
    refuse_json("{\"model\":{\"type\":\"WordPiece\"}}", ES_E_FORMAT, "tokenizer.key");
    refuse_json(JSON(",\"a\":1.5", "", BERT), ES_E_FORMAT, "tokenizer.key");
    refuse_json(JSON("", "", "{\"type\":\"BertNormalizer\",\"lowercase\":1}"), ES_E_FORMAT,
                "tokenizer.key");
    expect_refusal("nothing", "", 0, ES_E_IO, "tokenizer.missing");
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
    (void)state;
    es_tokenizer *t;
    es_budget budget = {0};
    count_files(true);
    write_file("tokenizer.json", "{", 1);
    assert_int_equal(truncate(in_folder("tokenizer.json"), (off_t)1 << 40), 0); /* sparse */
    assert_int_equal(es_tokenizer_open(folder, &budget, &t, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "tokenizer.size");
    assert_int_equal(budget.peak, 0);
    budget.limit = 4096; /* and a small one not beyond the budget */
    count_files(true);
    write_file("vocab.txt", small, sizeof small - 1);
    assert_int_equal(es_tokenizer_open(folder, &budget, &t, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
}

static void TK04_normalizer_options(void **state)
{
    (void)state;
#define TEXT                                                                                       \
    "\xc3\x89 E \xe4\xb8\xad"                                                                      \
    "a" /* E-acute, E, an ideograph */
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, TEXT, CLS, E, E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":null,\"do_lower_case\":false}"); /* follows lower case */
    assert_ids(t, TEXT, CLS, CAPITAL_E_ACUTE, CAPITAL_E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":false}");
    assert_ids(t, TEXT, CLS, E_ACUTE, E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"strip_accents\":true,\"do_lower_case\":false}");
    assert_ids(t, TEXT, CLS, CAPITAL_E, CAPITAL_E, CHINESE, A, SEP);
    es_tokenizer_free(t);
    t = open_small("{\"tokenize_chinese_chars\":false}");
    assert_ids(t, TEXT, CLS, E, E, CHINESE, CONT_A, SEP);
    es_tokenizer_free(t);

    t = open_json(JSON(",\"a\":3,\"##\\u200db\":4,\"##b\":5", "", BERT));
    assert_ids(t,
               "A\xe2\x80\x8d"
               "b",
               1, 3, 5, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\":3,\"##\\u200db\":4,\"##b\":5", "",
                       "{\"type\":\"BertNormalizer\",\"clean_text\":false}"));
    assert_ids(t,
               "A\xe2\x80\x8d"
               "b",
               1, 3, 4, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"E\":3,\"\\u00c9\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":null,\"lowercase\":false}"));
    assert_ids(t, "E \xc3\x89", 1, 3, 4, 2);
    es_tokenizer_free(t);
    /* U+0130 is the one character whose lower case is two; its dot is an accent. */
    t = open_json(JSON(",\"i\":3,\"i\\u0307\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":false}"));
    assert_ids(t, "I \xc4\xb0", 1, 3, 4, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"i\":3,\"i\\u0307\":4", "", BERT));
    assert_ids(t, "I \xc4\xb0", 1, 3, 3, 2);
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\":3,\"A\":4", "", "null")); /* no normalizer at all */
    assert_ids(t, "a A", 1, 3, 4, 2);
    es_tokenizer_free(t);
}

#define ADDED(id, text) "{\"id\":" id ",\"content\":\"" text "\",\"special\":true}"

static void TK05_added_tokens(void **state)
{
    (void)state;
    refuse_json(JSON("", ADDED("-1", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON("", ADDED("99999999999", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON("", ADDED("1", "[X]"), BERT), ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", "[CLS]"), BERT), ES_E_FORMAT, "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", "x") "," ADDED("3", "y"), BERT), ES_E_FORMAT,
                "tokenizer.id.clash");
    refuse_json(JSON("", ADDED("3", ""), BERT), ES_E_UNSUPPORTED, "tokenizer.added");
    refuse_json(JSON("", "{\"id\":3,\"content\":\"x\",\"normalized\":true}", BERT),
                ES_E_UNSUPPORTED, "tokenizer.added");
    refuse_json(JSON("", "{\"id\":3}", BERT), ES_E_FORMAT, "tokenizer.key");
    es_tokenizer *t = open_json(
        JSON(",\"a\":3", ADDED("1", "[CLS]") "," ADDED("4", "<a>") "," ADDED("5", "<a>b"), BERT));
    assert_ids(t, "a<a>a", 1, 3, 4, 3, 2);            /* inside words, too */
    assert_ids(t, "<a>b<a><A>", 1, 5, 4, 0, 3, 0, 2); /* the longest; as it stands, not lowered */
    assert_ids(t, "[CLS][cls]", 1, 1, 0, 0, 0, 2);
    es_tokenizer_free(t);
}

static void TK06_ids_with_gaps(void **state)
{
    (void)state;
    remarks = 0;
    es_log_set(count_remark, NULL, ES_LOG_WARN);
    es_tokenizer *t = open_json(JSON(",\"a\":9", "", BERT));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 1);
    assert_int_equal(es_tokenizer_describe(t).size, 10);
    assert_null(es_tokenizer_token(t, 5));
    assert_null(es_tokenizer_token(t, 10));
    assert_null(es_tokenizer_token(t, -1));
    assert_ids(t, "a", 1, 9, 2);
    es_tokenizer_free(t);
    /* Nothing is allocated because a file says so. */
    refuse_json(JSON(",\"a\":2000000000", "", BERT), ES_E_FORMAT, "tokenizer.id.range");
    refuse_json(JSON(",\"a\":1", "", BERT), ES_E_FORMAT, "tokenizer.id.clash");
}

/* ---- words ---- */

static void words_are_cut_greedily(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "Hello, world!", CLS, HELLO, COMMA, WORLD, BANG, SEP);
    assert_ids(t, "unaffable", CLS, UN, AFF, ABLE, SEP);
    assert_ids(t, "unaffables", CLS, UNK, SEP); /* one piece fails, the whole word is unknown */
    assert_ids(t, "un##aff", CLS, UN, UNK, UNK, UNK, SEP); /* the sign # is not in it */
    assert_string_equal(es_tokenizer_token(t, ABLE), "##able");
    assert_int_equal(es_tokenizer_find(t, "##able"), ABLE);
    assert_int_equal(es_tokenizer_find(t, "##abl"), -1);
    es_tokenizer_free(t);
}

static void TK07_words_of_more_than_100_characters(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    char text[512];
    int want[128] = {CLS, A};
    for (int accent = 0; accent < 2; accent++) { /* characters are counted, not bytes */
        for (int chars = 99; chars <= 102; chars++) {
            size_t used = 0;
            for (int i = 0; i < chars; i++) {
                memcpy(text + used, accent ? "\xc3\xa1" : "a", accent ? 2 : 1);
                used += accent ? 2 : 1;
            }
            for (int i = 2; i <= chars; i++)
                want[i] = CONT_A;
            want[chars + 1] = SEP;
            if (chars <= 100)
                check_ids(t, text, used, want, chars + 2);
            else
                check_ids(t, text, used, (int[]){CLS, UNK, SEP}, 3);
        }
    }
    es_tokenizer_free(t);
}

typedef struct tally {
    int64_t count, last_end;
    int32_t last;
} tally;

static es_status add_up(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    tally *sum = user;
    (void)e;
    sum->count += count;
    sum->last = tokens[count - 1].id;
    sum->last_end = tokens[count - 1].end;
    return ES_OK;
}

/* `unit` over and over, up to so many bytes; the stream's memory must not depend on them. */
static void stream_much(const es_tokenizer *t, const char *unit, int64_t bytes, tally *sum)
{
    static char block[1 << 16];
    const size_t length = strlen(unit), full = sizeof block / length * length;
    es_budget budget = {0};
    const es_encode_opts opts = {.no_specials = true, .budget = &budget};
    es_token_stream *s;
    for (size_t i = 0; i < full; i++)
        block[i] = unit[i % length];
    *sum = (tally){0};
    assert_ok(es_token_stream_open(t, &opts, add_up, sum, &s, &err));
    for (int64_t done = 0; done < bytes; done += (int64_t)full)
        assert_ok(es_token_stream_write(s, block, full, &err));
    assert_ok(es_token_stream_finish(s, &err));
    es_token_stream_close(s);
    assert_true(budget.peak < 32768);
    assert_int_equal(budget.used, 0);
}

static void TK08_a_gigabyte_without_white_space(void **state)
{
    (void)state;
    const int64_t bytes = getenv("ESSCHER_QUICK_TESTS") ? 1 << 23 : 1 << 30;
    es_tokenizer *t = open_small(NULL);
    tally sum;
    stream_much(t, "a", bytes, &sum); /* one word */
    assert_true(sum.count == 1 && sum.last == UNK && sum.last_end >= bytes);
    stream_much(t, "a,", bytes / 64, &sum); /* as many words as bytes */
    assert_true(sum.count == sum.last_end && sum.last == COMMA);
    stream_much(t, "\xe4\xb8\xad", bytes / 64, &sum);
    assert_true(sum.count * 3 == sum.last_end && sum.last == CHINESE);
    stream_much(t, "[MAS", bytes / 64, &sum); /* nearly an added token */
    assert_true(sum.last == UNK);
    es_tokenizer_free(t);
}

/* ---- bytes ---- */

static void TK09_invalid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        int64_t offset, ends; /* where it is refused; ends of all a's in the text */
    } cases[] = {{"a\xff"
                  "a",
                  3, 1, 3},
                 {"a \xc3", 3, 2, 1},
                 {"\xed\xa0\x80"
                  "a",
                  4, 0, 4},
                 {"a\xe4\xb8"
                  "a",
                  4, 1, 4},
                 {"a\xc0\xaf"
                  "a",
                  4, 1, 4},
                 {"\xf4\x90\x80\x80"
                  "a",
                  5, 0, 5},
                 {"a\xf0\x9f\x98"
                  "a",
                  5, 1, 5},
                 {"\x80", 1, 0, 0}};
    es_tokenizer *t = open_small(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_token_list list = {0};
        es_encode_opts opts = {.invalid = ES_TEXT_ERROR, .no_specials = true};
        assert_int_equal(es_tokenizer_encode(t, cases[i].text, cases[i].bytes, &opts, &list, &err),
                         ES_E_FORMAT);
        assert_string_equal(err.rule, "text.utf8");
        assert_int_equal(err.offset, cases[i].offset);
        assert_int_equal(list.count, 0);
        opts.invalid = ES_TEXT_REPLACE; /* U+FFFD, which cleaning drops: "aa" is one word */
        assert_ok(es_tokenizer_encode(t, cases[i].text, cases[i].bytes, &opts, &list, &err));
        assert_int_equal(list.count ? list.tokens[list.count - 1].end : 0, cases[i].ends);
        es_token_list_free(&list);
    }
    es_tokenizer_free(t);
    /* Each maximal part of a broken character is one U+FFFD, as Python and browsers have it. */
    t = open_json(JSON(",\"\\ufffd\":3,\"##\\ufffd\":4", "",
                       "{\"type\":\"BertNormalizer\",\"clean_text\":false}"));
    assert_ids(t, "\xe4\xb8", 1, 3, 2);
    assert_ids(t, "\xed\xa0\x80", 1, 3, 4, 4, 2);
    assert_ids(t, "\xf0\x9f\x98\xff", 1, 3, 4, 2);
    assert_ids(t, "\xc0\xaf", 1, 3, 4, 2);
    es_tokenizer_free(t);
}

static void TK10_odd_characters(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "a\0a", CLS, A, CONT_A, SEP); /* NUL is cleaned away */
    assert_ids(t,
               "a\xef\xbf\xbe"
               "a",
               CLS, UNK, SEP); /* U+FFFE, no character */
    assert_ids(t,
               "a\xcd\xb8"
               "a",
               CLS, UNK, SEP); /* U+0378, unassigned */
    assert_ids(t,
               "a\xe2\x80\x8d"
               "a",
               CLS, A, CONT_A, SEP); /* a joiner */
    assert_ids(t,
               "\xe2\x80\xae"
               "a\xe2\x80\xac",
               CLS, A, SEP); /* right to left */
    assert_ids(t,
               "\xef\xbb\xbf"
               "a",
               CLS, A, SEP); /* a byte order mark */
    assert_ids(t,
               "a\xee\x80\x80"
               "a",
               CLS, A, CONT_A, SEP); /* private use */
    tally sum;
    stream_much(t, "e\xcc\x81", 90, &sum);     /* accents are stripped */
    stream_much(t, "\xcc\x81", 2000000, &sum); /* a storm of a million */
    assert_int_equal(sum.count, 0);
    stream_much(t, "\xe3\x80\xae\xf0\x9d\x85\xa5", 2000000, &sum); /* of marks that stay */
    assert_true(sum.count == 1 && sum.last == UNK);
    es_tokenizer_free(t);
}

/* Marks that are no accents are put in canonical order: 216 (U+1D165) before 224 (U+302E). */
static void TK10_marks_in_canonical_order(void **state)
{
    (void)state;
    es_tokenizer *t =
        open_json(JSON(",\"a\\ud834\\udd65\\u302eb\":3,\"a\\u302e\\ud834\\udd65b\":4", "", BERT));
    assert_ids(t,
               "a\xe3\x80\xae\xf0\x9d\x85\xa5"
               "b",
               1, 3, 2);
    assert_ids(t,
               "a\xf0\x9d\x85\xa5\xe3\x80\xae"
               "b",
               1, 3, 2);
    assert_ids(t,
               "a\xe3\x80\xae\xcc\x81\xf0\x9d\x85\xa5"
               "b",
               1, 3, 2); /* around an accent */
    es_tokenizer_free(t);
    t = open_json(JSON(",\"a\\ud834\\udd65\\u302eb\":3,\"a\\u302e\\ud834\\udd65b\":4", "",
                       "{\"type\":\"BertNormalizer\",\"strip_accents\":false}"));
    assert_ids(t,
               "a\xe3\x80\xae\xf0\x9d\x85\xa5"
               "b",
               1, 4, 2); /* nothing is decomposed */
    es_tokenizer_free(t);
}

static void TK11_text_without_words(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    assert_ids(t, "", CLS, SEP);
    assert_ids(t, " \t\r\n\xc2\xa0\xe3\x80\x80", CLS, SEP);
    assert_ids(t, "\x01\x02\xe2\x80\x8b\xc2\x85", CLS, SEP);
    es_token_list list = {0};
    const es_encode_opts opts = {.no_specials = true};
    assert_ok(es_tokenizer_encode(t, NULL, 0, &opts, &list, &err));
    assert_int_equal(list.count, 0);
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

/* ---- offsets and streams ---- */

static void offsets_are_bytes_of_the_text(void **state)
{
    (void)state;
    static const char text[] = "  H\xc3\xa9llo unAffa\xcc\x81"
                               "ble\xe4\xb8\xad[MASK]";
    static const es_token want[] = {{CLS, 0, 0},    {HELLO, 2, 8},  {UN, 9, 11},
                                    {AFF, 11, 14},  {ABLE, 14, 20}, {CHINESE, 20, 23},
                                    {MASK, 23, 29}, {SEP, 0, 0}};
    es_tokenizer *t = open_small(NULL);
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, NULL, &list, &err));
    assert_int_equal(list.count, sizeof want / sizeof want[0]);
    for (int64_t i = 0; i < list.count; i++) {
        assert_int_equal(list.tokens[i].id, want[i].id);
        assert_int_equal(list.tokens[i].begin, want[i].begin);
        assert_int_equal(list.tokens[i].end, want[i].end);
    }
    es_token_list_free(&list);
    es_tokenizer_free(t);
}

typedef struct sequence {
    es_token tokens[64];
    int64_t count;
} sequence;

static es_status keep(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    sequence *kept = user;
    (void)e;
    memcpy(kept->tokens + kept->count, tokens, (size_t)count * sizeof *tokens);
    kept->count += count;
    return ES_OK;
}

static void a_stream_may_be_cut_anywhere(void **state)
{
    (void)state;
    static const char text[] = "un[MASK]aff\xc3\xa9 \xe4\xb8\xad[MAS][SEP]a\xe4\xb8 hello,[CLS";
    es_tokenizer *t = open_small(NULL);
    es_token_list whole = {0};
    es_token_stream *s;
    sequence kept;
    assert_ok(es_tokenizer_encode(t, text, sizeof text - 1, NULL, &whole, &err));
    assert_int_equal(whole.count, 15); /* counted by hand */
    assert_ok(es_token_stream_open(t, NULL, keep, &kept, &s, &err));
    for (size_t step = 1; step < sizeof text; step++) {
        kept.count = 0;
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            const size_t left = sizeof text - 1 - at;
            assert_ok(es_token_stream_write(s, text + at, left < step ? left : step, &err));
        }
        assert_ok(es_token_stream_finish(s, &err));
        assert_int_equal(kept.count, whole.count);
        for (int64_t i = 0; i < kept.count; i++)
            assert_true(kept.tokens[i].id == whole.tokens[i].id &&
                        kept.tokens[i].begin == whole.tokens[i].begin &&
                        kept.tokens[i].end == whole.tokens[i].end);
    }
    es_token_stream_close(s);
    es_token_list_free(&whole);
    es_tokenizer_free(t);
}

static es_status refuse(void *user, const es_token *tokens, int64_t count, es_error *e)
{
    (void)user;
    (void)count;
    *e = (es_error){.code = ES_E_INTERRUPTED, .message = "enough"};
    return tokens[0].id == WORLD ? ES_E_INTERRUPTED : ES_OK;
}

static void a_stream_hands_on_a_refusal_and_begins_anew(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    es_token_stream *s;
    assert_ok(es_token_stream_open(t, NULL, refuse, NULL, &s, &err));
    assert_int_equal(es_token_stream_write(s, "hello world hello hello", 23, &err),
                     ES_E_INTERRUPTED);
    assert_string_equal(err.message, "enough");
    assert_int_equal(es_token_stream_write(s, "hello", 5, &err), ES_E_INTERRUPTED);
    assert_int_equal(es_token_stream_finish(s, &err), ES_E_INTERRUPTED);
    assert_ok(es_token_stream_write(s, "hello", 5, &err));
    assert_ok(es_token_stream_finish(s, &err));
    es_token_stream_close(s);
    assert_int_equal(es_token_stream_open(t, NULL, NULL, NULL, &s, &err), ES_E_ARGUMENT);
    es_tokenizer_free(t);
    assert_int_equal(es_tokenizer_open(NULL, NULL, &t, &err), ES_E_ARGUMENT);
    assert_null(t);
}

static es_status ignore(void *user, const es_token *tokens, int64_t count, es_error *error)
{
    (void)user, (void)tokens, (void)count, (void)error;
    return ES_OK;
}

static void TK09_a_stream_counts_what_it_replaces(void **state)
{
    (void)state;
    es_tokenizer *t = open_small(NULL);
    es_token_stream *s;
    int64_t text = -1, at = -1;
    assert_ok(es_token_stream_open(t, NULL, ignore, NULL, &s, &err));
    assert_ok(es_token_stream_write(s, "h\xc3\xa9llo", 6, &err));
    assert_ok(es_token_stream_finish(s, &err));
    assert_int_equal(es_token_stream_replaced(s, NULL, NULL), 0);
    assert_ok(es_token_stream_write(s, "hello \xc3", 7, &err)); /* whole, were a byte to follow */
    assert_ok(es_token_stream_write(s, "\xff world \xff", 9, &err));
    assert_ok(es_token_stream_finish(s, &err));
    assert_int_equal(es_token_stream_replaced(s, &text, &at), 3);
    assert_int_equal(text, 1);
    assert_int_equal(at, 6);
    es_token_stream_close(s);
    es_tokenizer_free(t);
}

static void TX04_files_that_are_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *rule;
    } cases[] = {{"\x1f\x8b\x08\0\0\0\0\0", 8, "text.compressed"},
                 {"PK\x03\x04", 4, "text.compressed"},
                 {"\xfd"
                  "7zXZ\0",
                  6, "text.compressed"},
                 {"\x28\xb5\x2f\xfd", 4, "text.compressed"},
                 {"BZh91AY&SY", 10, "text.compressed"},
                 {"\xff\xfe"
                  "a\0",
                  4, "text.encoding"},
                 {"\xfe\xff\0a", 4, "text.encoding"},
                 {"\0\0\xfe\xff\0\0\0a", 8, "text.encoding"},
                 {"h\0e\0l\0l\0o\0", 10, "text.encoding"},
                 {"\0h\0e\0l\0l\0o", 10, "text.encoding"},
                 {"h\0\0\0e\0\0\0l\0\0\0", 12, "text.encoding"},
                 {"", 0, NULL},
                 {"BZh is how", 10, NULL},
                 {"\xef\xbb\xbfhello", 8, NULL},
                 {"a NUL \0 in it", 13, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const es_status got = es_text_check(cases[i].data, cases[i].bytes, "x", &err);
        assert_int_equal(got, cases[i].rule ? ES_E_UNSUPPORTED : ES_OK);
        if (cases[i].rule)
            assert_string_equal(err.rule, cases[i].rule);
    }
}

/* ---- parity ---- */

/* Every line {"text", "ids", ...} of a file; `t` NULL: the line's options choose the tokenizer. */
static int64_t compare_lines(FILE *file, const es_tokenizer *t, es_tokenizer *const by_options[8])
{
    char *line = NULL;
    size_t room = 0;
    int64_t count = 0, wrong = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        const json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
        const int options = 4 * json_is_true(json_object_get(row, "lower")) +
                            2 * json_is_true(json_object_get(row, "strip")) +
                            json_is_true(json_object_get(row, "cjk"));
        es_token_list list = {0};
        assert_ok(es_tokenizer_encode(t ? t : by_options[options], json_string_value(text),
                                      json_string_length(text), NULL, &list, &err));
        bool same = (size_t)list.count == json_array_size(ids);
        for (int64_t i = 0; i < list.count && same; i++)
            same = json_integer_value(json_array_get(ids, (size_t)i)) == list.tokens[i].id;
        if (!same)
            print_message("differs: %s", line);
        wrong += !same;
        count++;
        es_token_list_free(&list);
        json_decref(row);
    }
    free(line);
    assert_int_equal(wrong, 0);
    return count;
}

static void TK12_parity_with_a_second_implementation(void **state)
{
    (void)state;
    es_tokenizer *by_options[8] = {NULL};
    FILE *vocab = fopen(ES_TESTS_DIR "/wordpiece/vocab.txt", "rb");
    FILE *rows = fopen(ES_TESTS_DIR "/wordpiece/parity.jsonl", "rb");
    static char bytes[65536];
    assert_true(vocab && rows);
    const size_t size = fread(bytes, 1, sizeof bytes, vocab);
    fclose(vocab);
    assert_true(size < sizeof bytes);
    count_files(true);
    write_file("vocab.txt", bytes, size);
    for (int i = 0; i < 8; i++) {
        static const char *const flag[] = {"false", "true"};
        char config[160];
        snprintf(config, sizeof config,
                 "{\"do_lower_case\":%s,\"strip_accents\":%s,\"tokenize_chinese_chars\":%s}",
                 flag[i >> 2], flag[i >> 1 & 1], flag[i & 1]);
        write_file("tokenizer_config.json", config, strlen(config));
        assert_ok(es_tokenizer_open(folder, NULL, &by_options[i], &err));
    }
    assert_int_equal(compare_lines(rows, NULL, by_options), 775);
    fclose(rows);
    for (int i = 0; i < 8; i++)
        es_tokenizer_free(by_options[i]);
}

static void compare_with_hugging_face(const char *path)
{
    es_tokenizer *t;
    FILE *rows = fopen(golden_path("wordpiece.jsonl"), "rb");
    assert_non_null(rows);
    assert_ok(es_tokenizer_open(path, NULL, &t, &err));
    assert_int_equal(compare_lines(rows, t, NULL), 926);
    es_tokenizer_free(t);
    fclose(rows);
}

static void TK12_parity_with_hugging_face(void **state)
{
    (void)state;
    char vocab[REAL_PATH];
    snprintf(vocab, sizeof vocab, "%s", golden_path("bert-uncased/vocab.txt"));
    compare_with_hugging_face(vocab);
}

/* The other way to the same ids; such a file is too large for the repository. */
static void TK12_parity_with_hugging_face_by_tokenizer_json(void **state)
{
    (void)state;
    char model[REAL_PATH];
    real_model("minilm-l6-v2-f16", model); /* has no vocab.txt */
    compare_with_hugging_face(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TK01_vocab_line_ends_and_mark),
        cmocka_unit_test(TK01_blank_and_duplicate_lines_keep_their_numbers),
        cmocka_unit_test(TK01_what_is_no_vocabulary),
        cmocka_unit_test(TK02_missing_specials),
        cmocka_unit_test(TK03_other_models_are_refused),
        cmocka_unit_test(broken_json_is_refused),
        cmocka_unit_test(a_file_that_is_too_large_is_not_read),
        cmocka_unit_test(TK04_normalizer_options),
        cmocka_unit_test(TK05_added_tokens),
        cmocka_unit_test(TK06_ids_with_gaps),
        cmocka_unit_test(words_are_cut_greedily),
        cmocka_unit_test(TK07_words_of_more_than_100_characters),
        cmocka_unit_test(TK08_a_gigabyte_without_white_space),
        cmocka_unit_test(TK09_invalid_utf8),
        cmocka_unit_test(TK10_odd_characters),
        cmocka_unit_test(TK10_marks_in_canonical_order),
        cmocka_unit_test(TK11_text_without_words),
        cmocka_unit_test(offsets_are_bytes_of_the_text),
        cmocka_unit_test(a_stream_may_be_cut_anywhere),
        cmocka_unit_test(a_stream_hands_on_a_refusal_and_begins_anew),
        cmocka_unit_test(TK09_a_stream_counts_what_it_replaces),
        cmocka_unit_test(TX04_files_that_are_no_text),
        cmocka_unit_test(TK12_parity_with_a_second_implementation),
        cmocka_unit_test(TK12_parity_with_hugging_face),
        needy_test(TK12_parity_with_hugging_face_by_tokenizer_json),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
