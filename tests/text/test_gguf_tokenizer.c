/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_tokenizer.c : tokenizers that GGUF files carry with them. Those of tests/golden/bpe,
 * written as GGUF, must give the ids of their tokenizer.json, which `bpe_parity` compares with
 * other programs; pieces with scores, those of a plain search. */
#include "golden_bpe.h"

#include <jansson.h>

#include "gguf_writer.h"
#include "text/tokenizer.h"

/* ---- a tokenizer.json as a GGUF ---- */

typedef struct tokens {
    char *text[32768];
    int type[32768];
    float score[32768];
    int64_t count;
} tokens;

static tokens all;

/* The vocabulary by its ids: added tokens are special, <0xNN> bytes, the rest is text. */
static json_t *read_golden(const char *name, tokens *out)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/tokenizer.json", golden_model(name));
    json_t *root = json_load_file(path, 0, NULL), *vocab = json_object_get(root, "model"), *id;
    json_t *added = json_object_get(root, "added_tokens");
    const char *text;
    size_t i;
    assert_non_null(root);
    *out = (tokens){0};
    json_object_foreach(json_object_get(vocab, "vocab"), text, id)
    {
        const int64_t at = json_integer_value(id);
        assert_below(at, 8192);
        out->text[at] = strdup(text);
        out->type[at] = strncmp(text, "<0x", 3) == 0 ? 6 : 1;
        out->score[at] = -(float)at;
        out->count = at >= out->count ? at + 1 : out->count;
    }
    json_array_foreach(added, i, id)
    {
        const int64_t at = json_integer_value(json_object_get(id, "id"));
        free(out->text[at]);
        out->text[at] = strdup(json_string_value(json_object_get(id, "content")));
        out->type[at] = 3;
        out->count = at >= out->count ? at + 1 : out->count;
    }
    return root;
}

static void free_tokens(tokens *t)
{
    for (int64_t i = 0; i < t->count; i++)
        free(t->text[i]);
}

static void write_text(FILE *f, const char *text)
{
    const uint64_t size = strlen(text);
    fwrite(&size, 8, 1, f);
    fwrite(text, 1, size, f);
}

static void write_array(FILE *f, const char *key, uint32_t item, uint64_t count)
{
    const uint32_t head[] = {ES_GGUF_ARRAY, item};
    write_text(f, key);
    fwrite(head, 4, 2, f);
    fwrite(&count, 8, 1, f);
}

static void write_word(FILE *f, const char *key, const char *word)
{
    const uint32_t type = ES_GGUF_STRING;
    write_text(f, key);
    fwrite(&type, 4, 1, f);
    write_text(f, word);
}

static void write_merges(FILE *f, const json_t *merges)
{
    const json_t *merge;
    size_t i;
    write_array(f, "tokenizer.ggml.merges", ES_GGUF_STRING, json_array_size(merges));
    json_array_foreach(merges, i, merge)
    {
        char both[512];
        const char *text = json_string_value(merge);
        if (!text)
            snprintf(both, sizeof both, "%s %s", json_string_value(json_array_get(merge, 0)),
                     json_string_value(json_array_get(merge, 1)));
        write_text(f, text ? text : both);
    }
}

/* Writes a tokenizer of kind `model`; else as write_tokenizer(). */
static const char *write_kind(const char *model, const tokens *t, const char *pre,
                              const json_t *merges, const gguf_draft *more, int count)
{
    const char *path = in_folder("t.gguf");
    const uint32_t version = 3;
    const bool named = pre && *pre;
    const uint64_t counts[] = {0, (uint64_t)(named ? 5 : 4) + (uint64_t)count};
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite("GGUF", 1, 4, f);
    fwrite(&version, 4, 1, f);
    fwrite(counts, 8, 2, f);
    write_word(f, "tokenizer.ggml.model", model);
    if (named)
        write_word(f, "tokenizer.ggml.pre", pre);
    write_array(f, "tokenizer.ggml.tokens", ES_GGUF_STRING, (uint64_t)t->count);
    for (int64_t i = 0; i < t->count; i++)
        write_text(f, t->text[i]);
    write_array(f, "tokenizer.ggml.token_type", ES_GGUF_I32, (uint64_t)t->count);
    fwrite(t->type, 4, (size_t)t->count, f);
    if (pre) {
        write_merges(f, merges);
    } else {
        write_array(f, "tokenizer.ggml.scores", ES_GGUF_F32, (uint64_t)t->count);
        fwrite(t->score, 4, (size_t)t->count, f);
    }
    if (more)
        fwrite(more->bytes, 1, more->size, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* `pre` NULL: pieces with scores; empty: the file has no such key. The values in `more` (`count` of
 * them) come last. */
static const char *write_tokenizer(const tokens *t, const char *pre, const json_t *merges,
                                   const gguf_draft *more, int count)
{
    return write_kind(pre ? "gpt2" : "llama", t, pre, merges, more, count);
}

/* ---- the same ids ---- */

static void check_same(const es_tokenizer *a, const es_tokenizer *b, const char *text)
{
    const size_t bytes = strlen(text);
    es_token_list want = {0}, got = {0};
    assert_ok(es_tokenizer_encode(a, text, bytes, NULL, &want, &err));
    assert_ok(es_tokenizer_encode(b, text, bytes, NULL, &got, &err));
    assert_int_equal(got.count, want.count);
    for (int64_t i = 0; i < got.count; i++)
        if (got.tokens[i].id != want.tokens[i].id || got.tokens[i].begin != want.tokens[i].begin ||
            got.tokens[i].end != want.tokens[i].end)
            fail_msg("\"%.60s\": token %lld is %d, expected %d", text, (long long)i,
                     got.tokens[i].id, want.tokens[i].id);
    es_token_list_free(&want);
    es_token_list_free(&got);
}

/* Each string of wordpiece.jsonl, or one of `step`, to a function. */
static void each_text(int step, void (*visit)(void *user, const char *text), void *user)
{
    char line[65536];
    FILE *rows = fopen(golden_path("wordpiece.jsonl"), "rb");
    assert_non_null(rows);
    for (int i = 0; fgets(line, sizeof line, rows); i++) {
        if (i % step)
            continue;
        json_t *row = json_loads(line, 0, NULL);
        visit(user, json_string_value(json_object_get(row, "text")));
        json_decref(row);
    }
    fclose(rows);
}

static void compare_text(void *user, const char *text)
{
    es_tokenizer *const *both = user;
    check_same(both[0], both[1], text);
}

static void compare_golden(const char *name, const char *pre, const gguf_draft *more, int count)
{
    json_t *root = read_golden(name, &all);
    es_tokenizer *both[2] = {open_golden(name), NULL};
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    es_mem_limit budget = {0};
    assert_ok(es_tokenizer_open(write_tokenizer(&all, pre, merges, more, count), &budget, &both[1],
                                &err));
    assert_int_equal(es_tokenizer_describe(both[1]).size, es_tokenizer_describe(both[0]).size);
    each_text(getenv("ESSCHER_QUICK_TESTS") ? 16 : 2, compare_text, both);
    check_same(both[0], both[1], "<|endoftext|>a<|begin|><|end|> e\xcc\x81 <s>b</s> 12345");
    es_tokenizer_free(both[0]);
    es_tokenizer_free(both[1]);
    assert_int_equal(budget.used, 0);
    free_tokens(&all);
    json_decref(root);
}

static gguf_draft more;

static void byte_pairs_give_the_ids_of_their_tokenizer_json(void **state)
{
    (void)state;
    compare_golden("pebble", "gpt-2", NULL, 0);
    compare_golden("qwen-like", "qwen2", NULL, 0);
    more.size = 0; /* Llama 3's names stand for a token at the beginning */
    put_u32(&more, "tokenizer.ggml.bos_token_id", 816);
    compare_golden("llama3-like", "llama-bpe", &more, 1);
}

/* A file without a name is split by the rule "default", which is not that of "gpt-2". */
static void a_file_without_a_name_is_split_by_default(void **state)
{
    (void)state;
    static const char *const pres[] = {"default", "", "gpt-2"};
    json_t *root = read_golden("pebble", &all);
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    es_tokenizer *t[3];
    int64_t counts[3];
    for (int i = 0; i < 3; i++) {
        es_token_list list = {0};
        assert_ok(
            es_tokenizer_open(write_tokenizer(&all, pres[i], merges, NULL, 0), NULL, &t[i], &err));
        assert_ok(es_tokenizer_encode(t[i], "said, \"I (", 10, NULL, &list, &err));
        counts[i] = list.count;
        es_token_list_free(&list);
    }
    each_text(16, compare_text, t);
    assert_int_equal(counts[0], counts[1]);
    assert_differs(counts[0], counts[2]);
    for (int i = 0; i < 3; i++)
        es_tokenizer_free(t[i]);
    free_tokens(&all);
    json_decref(root);
}

/* ---- pieces with scores ---- */

static int64_t find_piece(const tokens *t, const char *text, size_t bytes, bool byte)
{
    for (int64_t id = t->count; id-- > 0;)
        if ((t->type[id] == 6) == byte && (byte || t->type[id] == 1) &&
            strlen(t->text[id]) == bytes && memcmp(t->text[id], text, bytes) == 0)
            return id;
    return -1;
}

/* SentencePiece as its paper has it, by search: of all neighbours that together are a piece the one
 * of the best score, the first of equals, becomes one, until there is none. A symbol that is no
 * piece then is spelt in bytes. */
static int64_t plain_search(const tokens *t, const char *text, int *ids)
{
    int64_t count = 0, begin[4096];
    const int64_t bytes = (int64_t)strlen(text);
    for (int64_t i = 0; i < bytes; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            begin[count++] = i;
    begin[count] = bytes;
    for (;;) {
        int64_t best = -1, with = -1;
        for (int64_t i = 0; i + 1 < count; i++) {
            const int64_t id =
                find_piece(t, text + begin[i], (size_t)(begin[i + 2] - begin[i]), false);
            if (id >= 0 && (best < 0 || t->score[id] > t->score[with]))
                best = i, with = id;
        }
        if (best < 0)
            break;
        memmove(begin + best + 1, begin + best + 2, (size_t)(count - best - 1) * sizeof *begin);
        count--;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = find_piece(t, text + begin[i], (size_t)(begin[i + 1] - begin[i]), false);
        if (id >= 0)
            ids[n++] = (int)id;
        for (int64_t b = begin[i]; id < 0 && b < begin[i + 1]; b++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", (unsigned char)text[b]);
            ids[n++] = (int)find_piece(t, name, 6, true);
        }
    }
    return n;
}

/* What becomes of a text before: U+2581 for a space, and one in front. */
static void spell(const char *text, bool prefix, char *out)
{
    const char blank[] = "\xe2\x96\x81";
    *out = '\0';
    if (prefix && *text)
        out = strcpy(out, blank) + 3;
    for (; *text; text++)
        if (*text == ' ')
            out = strcpy(out, blank) + 3;
        else
            *out++ = *text;
    *out = '\0';
}

static bool has_prefix;

static void compare_search(void *user, const char *text)
{
    char spelt[4096];
    int want[4096];
    if (strlen(text) > 300)
        return;
    spell(text, has_prefix, spelt);
    const int64_t count = plain_search(&all, spelt, want);
    check_ids_plain(user, text, strlen(text), want, count);
}

/* Distinct scores as files have them; a few scores, so that most are equal; letters of one kind,
 * where what goes first shows. */
static void pieces_join_by_their_scores(void **state)
{
    (void)state;
    static const char *const texts[] = {"eeeeeee", "the thethe  the",   "aaa bbb", " ",
                                        "",        "\xf0\x9f\x98\x80\n"};
    json_t *root = read_golden("sentencepiece", &all);
    json_decref(root);
    for (int way = 0; way < 4; way++) {
        es_tokenizer *t;
        for (int64_t id = 0; id < all.count; id++)
            all.score[id] = way == 1 ? (float)(id * 7 % 5) : way == 2 ? 0.5f : -(float)id;
        has_prefix = way != 3;
        more.size = 0;
        put_flag(&more, "tokenizer.ggml.add_space_prefix", has_prefix);
        put_string(&more, "tokenizer.ggml.pre", "default");
        assert_ok(es_tokenizer_open(write_tokenizer(&all, NULL, NULL, &more, 2), NULL, &t, &err));
        assert_int_equal(es_tokenizer_describe(t).unknown, 0);
        assert_int_equal(es_tokenizer_describe(t).prefix_count, 1);
        assert_int_equal(es_tokenizer_describe(t).prefix[0], 1);
        for (int i = 0; i < 6; i++)
            compare_search(t, texts[i]);
        each_text(getenv("ESSCHER_QUICK_TESTS") ? 97 : 9, compare_search, t);
        es_tokenizer_free(t);
    }
    free_tokens(&all);
}

/* Appends ids of a text without user-defined tokens. */
static int64_t append_search(int *ids, int64_t count, const char *text)
{
    char spelt[256];
    spell(text, false, spelt);
    return count + plain_search(&all, spelt, ids + count);
}

/* Gemma: nothing is put before a text, and runs of spaces and newlines are tokens that its author
 * defined. They are taken out of the text as it stands, and divide it. */
static void user_defined_tokens_divide_a_text(void **state)
{
    (void)state;
    static const char *const defined[] = {"\n\n", "  ", "<start_of_turn>"};
    json_t *root = read_golden("sentencepiece", &all);
    const int first = (int)all.count;
    es_tokenizer *t;
    for (int i = 0; i < 3; i++) {
        all.text[all.count] = strdup(defined[i]);
        all.type[all.count++] = 4;
    }
    more.size = 0;
    put_flag(&more, "tokenizer.ggml.add_space_prefix", false);
    assert_ok(es_tokenizer_open(write_tokenizer(&all, NULL, NULL, &more, 1), NULL, &t, &err));
    const char text[] = "<start_of_turn>Alice\n\nwas beginning   to \xf0\x9f\x98\x80\n";
    int want[256] = {first + 2};
    int64_t count = append_search(want, 1, "Alice");
    want[count++] = first;
    count = append_search(want, count, "was beginning");
    want[count++] = first + 1;
    count = append_search(want, count, " to \xf0\x9f\x98\x80\n");
    check_ids_plain(t, text, strlen(text), want, count);
    es_tokenizer_free(t);
    free_tokens(&all);
    json_decref(root);
}

/* ---- what is refused ---- */

static char *const few_texts[] = {"<unk>", "<s>", "</s>", "a", "b", "ab"};

static void write_few(tokens *t)
{
    *t = (tokens){.count = 6};
    for (int i = 0; i < 6; i++) {
        t->text[i] = few_texts[i];
        t->type[i] = i == 0 ? 2 : i < 3 ? 3 : 1;
    }
}

static void refuse_tokenizer(const char *path, es_status status, const char *rule, const char *word)
{
    es_mem_limit budget = {0};
    es_tokenizer *t;
    const es_status got = es_tokenizer_open(path, &budget, &t, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || !strstr(err.message, word))
        fail_msg("%s %s (%s), expected %s %s with %s", es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule, word);
    assert_null(t);
    assert_true(err.hint[0] && err.file[0]);
    assert_int_equal(budget.used, 0);
}

/* ---- Unigram and WordPiece ---- */

/* Fails unless a text has these ids. */
static void check_row(const es_tokenizer *t, const char *text, const json_t *ids)
{
    es_token_list list = {0};
    assert_ok(es_tokenizer_encode(t, text, strlen(text), NULL, &list, &err));
    bool same = list.count == (int64_t)json_array_size(ids);
    for (int64_t i = 0; same && i < list.count; i++)
        same = list.tokens[i].id == json_integer_value(json_array_get(ids, (size_t)i));
    if (!same)
        fail_msg("other ids of \"%s\"", text);
    es_token_list_free(&list);
}

/* Compares the rows of a file of texts and ids that `wanted` chooses; returns how many. */
static int check_rows(const es_tokenizer *t, const char *path, bool (*wanted)(const json_t *row))
{
    static char line[1 << 16];
    int count = 0;
    FILE *rows = fopen(path, "rb");
    assert_non_null(rows);
    while (fgets(line, sizeof line, rows)) {
        json_t *row = json_loads(line, 0, NULL);
        if (wanted(row)) {
            check_row(t, json_string_value(json_object_get(row, "text")),
                      json_object_get(row, "ids"));
            count++;
        }
        json_decref(row);
    }
    fclose(rows);
    return count;
}

/* Adds the table of replacements of a tokenizer.json as bytes. */
static void put_charsmap(gguf_draft *g, const char *base64)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t length = strlen(base64), end = strcspn(base64, "=");
    put_array(g, "tokenizer.ggml.precompiled_charsmap", ES_GGUF_U8,
              length / 4 * 3 - (length - end));
    uint32_t bits = 0;
    for (size_t i = 0; i < end; i++) {
        bits = bits << 6 | (uint32_t)(strchr(letters, base64[i]) - letters);
        if (i % 4)
            put_number(g, bits >> (6 - 2 * (i % 4)) & 255, 1);
    }
}

/* Texts of the tokenizer like XLM-RoBERTa's. A file does not say that <mask> takes the space before
 * it along. */
static bool is_like_xlmr(const json_t *row)
{
    return strcmp(json_string_value(json_object_get(row, "tokenizer")), "xlmr-like") == 0 &&
           !strstr(json_string_value(json_object_get(row, "text")), "<mask>");
}

/* Ids by another program than ours, which is not llama.cpp either. */
static void unigram_gives_the_ids_of_its_tokenizer_json(void **state)
{
    (void)state;
    static gguf_draft extra;
    json_t *root = json_load_file(golden_path("unigram/xlmr-like/tokenizer.json"), 0, NULL), *pair;
    size_t i;
    assert_non_null(root);
    all = (tokens){0};
    json_array_foreach(json_object_get(json_object_get(root, "model"), "vocab"), i, pair)
    {
        const char *text = json_string_value(json_array_get(pair, 0));
        all.text[i] = strdup(text);
        all.score[i] = (float)json_number_value(json_array_get(pair, 1));
        all.type[i] = strcmp(text, "<unk>") == 0 ? 2 : i < 4 || strcmp(text, "<mask>") == 0 ? 3 : 1;
        all.count = (int64_t)i + 1;
    }
    extra.size = 0;
    put_u32(&extra, "tokenizer.ggml.unknown_token_id", 3);
    put_u32(&extra, "tokenizer.ggml.bos_token_id", 0);
    put_u32(&extra, "tokenizer.ggml.eos_token_id", 2);
    put_flag(&extra, "tokenizer.ggml.add_bos_token", true);
    put_flag(&extra, "tokenizer.ggml.add_eos_token", true);
    put_flag(&extra, "tokenizer.ggml.remove_extra_whitespaces", true);
    put_charsmap(&extra, json_string_value(json_object_get(json_object_get(root, "normalizer"),
                                                           "precompiled_charsmap")));
    es_tokenizer *t;
    assert_ok(es_tokenizer_open(write_kind("t5", &all, NULL, NULL, &extra, 7), NULL, &t, &err));
    assert_at_least(check_rows(t, golden_path("unigram/ids.jsonl"), is_like_xlmr), 100);
    es_tokenizer_free(t);
    free_tokens(&all);
    json_decref(root);
}

/* Reads tokens of a vocab.txt as a GGUF has them: a mark before those that begin a word. */
static void read_vocab(const char *path)
{
    char line[256], text[300];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (all = (tokens){0}; fgets(line, sizeof line, f); all.count++) {
        line[strcspn(line, "\r\n")] = '\0';
        const size_t length = strlen(line);
        const bool control =
            length > 2 && line[0] == '[' && line[length - 1] == ']' && !strstr(line, "unused");
        snprintf(text, sizeof text, "%s%s",
                 control || strncmp(line, "##", 2) == 0 ? "" : "\xe2\x96\x81",
                 !control && strncmp(line, "##", 2) == 0 ? line + 2 : line);
        all.text[all.count] = strdup(text);
        all.type[all.count] = control ? 3 : 1;
    }
    fclose(f);
}

static bool is_any(const json_t *row) { return row != NULL; }

static bool is_lower(const json_t *row)
{
    return json_is_true(json_object_get(row, "lower")) &&
           json_is_true(json_object_get(row, "strip")) && json_is_true(json_object_get(row, "cjk"));
}

static bool is_cased(const json_t *row)
{
    return json_is_false(json_object_get(row, "lower")) &&
           json_is_false(json_object_get(row, "strip")) &&
           json_is_true(json_object_get(row, "cjk"));
}

/* Opens the tokens that were read, with a lower-case rule stated if `lower` is not negative. */
static es_tokenizer *open_words(int lower, uint32_t unknown, uint32_t first, uint32_t last)
{
    static gguf_draft extra;
    es_tokenizer *t;
    extra.size = 0;
    put_u32(&extra, "tokenizer.ggml.unknown_token_id", unknown);
    put_u32(&extra, "tokenizer.ggml.cls_token_id", first);
    put_u32(&extra, "tokenizer.ggml.seperator_token_id", last);
    if (lower >= 0)
        put_flag(&extra, "tokenizer.ggml.normalizer.lowercase", lower);
    const char *path = write_kind("bert", &all, NULL, NULL, &extra, lower >= 0 ? 4 : 3);
    assert_ok(es_tokenizer_open(path, NULL, &t, &err));
    return t;
}

/* Ids by Hugging Face's tokenizers: all of BERT's vocabulary, which has no capital letters, and a
 * small one with both rules. */
static void word_pieces_give_the_ids_of_their_vocabulary(void **state)
{
    (void)state;
    read_vocab(golden_path("bert-uncased/vocab.txt"));
    es_tokenizer *t = open_words(-1, 100, 101, 102);
    assert_at_least(check_rows(t, golden_path("wordpiece.jsonl"), is_any), 900);
    es_tokenizer_free(t);
    free_tokens(&all);
    read_vocab(ES_TESTS_DIR "/wordpiece/vocab.txt");
    t = open_words(true, 1, 2, 3);
    assert_at_least(check_rows(t, ES_TESTS_DIR "/wordpiece/parity.jsonl", is_lower), 50);
    es_tokenizer_free(t);
    t = open_words(false, 1, 2, 3);
    assert_at_least(check_rows(t, ES_TESTS_DIR "/wordpiece/parity.jsonl", is_cased), 50);
    es_tokenizer_free(t);
    all.type[1] = 1;
    refuse_tokenizer(write_kind("bert", &all, NULL, NULL, NULL, 0), ES_E_UNSUPPORTED,
                     "gguf.tokenizer", "unknown_token_id");
    free_tokens(&all);
}

/* ---- how much it takes ---- */

/* Letters, then texts of `bytes` pseudo-random letters out of the first `letters`, or, with bytes
 * 0, every text of up to 11 letters. */
static void make_pieces(int letters, size_t bytes)
{
    uint64_t x = 1;
    all = (tokens){.count = 0};
    all.text[all.count] = strdup("<unk>");
    all.type[all.count++] = 2;
    all.text[all.count] = strdup("<s>");
    all.type[all.count++] = 3;
    for (int i = 0; i < letters; i++) {
        const char letter[] = {(char)('a' + i), '\0'};
        all.text[all.count] = strdup(letter);
        all.type[all.count++] = 1;
    }
    for (int64_t from = 2; bytes == 0 && strlen(all.text[from]) < 11; from++)
        for (int i = 0; i < letters; i++) {
            char longer[16];
            snprintf(longer, sizeof longer, "%s%c", all.text[from], 'a' + i);
            all.text[all.count] = strdup(longer);
            all.type[all.count++] = 1;
        }
    for (; bytes && all.count < 8000; all.count++) {
        char *text = calloc(1, bytes + 1);
        for (size_t i = 0; i < bytes; i++) {
            x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
            text[i] = (char)('a' + (x >> 33) % (uint64_t)letters);
        }
        all.text[all.count] = text;
        all.type[all.count] = 1;
    }
    for (int64_t id = 0; id < all.count; id++)
        all.score[id] = -(float)id;
}

/* Added tokens are in a trie, which takes more; the bound knows. */
static void GG02_the_bound_of_memory_has_the_tokenizer_in_it(void **state)
{
    (void)state;
    es_mem_limit budget = {0};
    es_tokenizer *t;
    make_pieces(26, 240);
    for (int64_t id = 100; id < all.count; id++)
        all.type[id] = 3;
    const char *path = write_tokenizer(&all, NULL, NULL, NULL, 0);
    assert_ok(es_tokenizer_open(path, &budget, &t, &err));
    assert_at_most(budget.peak, es_tokenizer_memory(path));
    es_tokenizer_free(t);
    free_tokens(&all);
    assert_equals(es_tokenizer_memory(folder), 0);
    assert_equals(es_tokenizer_memory("nowhere"), 0);
}

/* Memory of a vocabulary with scores is a few times its file, whether its pieces are long and have
 * no prefix in common (240 bytes each: a trie took 33 times) or every cut of a piece is a merge (a
 * table of all of them took 40 times). Measured: 2.3 and 5.8 times; the second has 64 KiB of joints
 * and 40 bytes for each token's entry in a file of 26 bytes for each. */
static void GG02_vocabularies_with_scores_take_a_few_times_their_size(void **state)
{
    (void)state;
    static const struct {
        int letters;
        size_t bytes;
        double most;
    } cases[] = {{26, 240, 4.0}, {2, 0, 9.0}};
    for (int i = 0; i < 2; i++) {
        es_mem_limit budget = {0};
        es_tokenizer *t;
        struct stat st;
        make_pieces(cases[i].letters, cases[i].bytes);
        const char *path = write_tokenizer(&all, NULL, NULL, NULL, 0);
        assert_int_equal(stat(path, &st), 0);
        assert_ok(es_tokenizer_open(path, &budget, &t, &err));
        assert_below((double)budget.peak, cases[i].most * (double)st.st_size);
        assert_at_most(budget.peak, es_tokenizer_memory(path));
        assert_at_most(es_tokenizer_memory(path),
                       4 * budget.peak + (2 << 20)); /* not by much more */
        es_tokenizer_free(t);
        free_tokens(&all);
        assert_int_equal(budget.used, 0);
    }
}

static void names_that_are_not_known_are_refused(void **state)
{
    (void)state;
    json_t *merges = json_pack("[s]", "a b"), *wrong = json_pack("[s]", "ab c"),
           *single = json_pack("[s]", "ab");
    write_few(&all);
    es_tokenizer *t;
    assert_ok(es_tokenizer_open(write_tokenizer(&all, "gpt-2", merges, NULL, 0), NULL, &t, &err));
    es_tokenizer_free(t);
    refuse_tokenizer(write_tokenizer(&all, "nobody", merges, NULL, 0), ES_E_UNSUPPORTED,
                     "gguf.tokenizer", "nobody");
    assert_non_null(strstr(err.hint, "deepseek-coder, deepseek-v3, default and 48 aliases"));
    assert_non_null(strstr(err.hint, "tokenizer.json"));
    refuse_tokenizer(write_tokenizer(&all, "gpt-2", wrong, NULL, 0), ES_E_FORMAT, "tokenizer.merge",
                     "merge 0");
    refuse_tokenizer(write_tokenizer(&all, "gpt-2", single, NULL, 0), ES_E_FORMAT,
                     "tokenizer.merge", "merge 0");
    refuse_tokenizer(write_tokenizer(&all, "llama-bpe", merges, NULL, 0), ES_E_FORMAT,
                     "gguf.missing", "bos_token_id");
    put_begin(&more, 3, 0, 1);
    put_string(&more, "tokenizer.ggml.model", "bert");
    refuse_tokenizer(save_gguf(&more), ES_E_FORMAT, "gguf.missing", "tokenizer.ggml.tokens");
    put_begin(&more, 3, 0, 1);
    put_string(&more, "tokenizer.ggml.model", "rwkv");
    refuse_tokenizer(save_gguf(&more), ES_E_UNSUPPORTED, "gguf.tokenizer", "rwkv");
    assert_non_null(strstr(err.hint, "t5 (Unigram), bert (WordPiece)"));
    put_begin(&more, 3, 0, 1);
    put_string(&more, "tokenizer.ggml.model", "gpt2");
    refuse_tokenizer(save_gguf(&more), ES_E_FORMAT, "gguf.missing", "tokenizer.ggml.tokens");
    put_begin(&more, 3, 0, 1);
    put_string(&more, "tokenizer.ggml.model", "t5");
    refuse_tokenizer(save_gguf(&more), ES_E_FORMAT, "gguf.missing", "tokenizer.ggml.tokens");
    put_begin(&more, 3, 0, 0);
    refuse_tokenizer(save_gguf(&more), ES_E_FORMAT, "gguf.missing", "tokenizer.ggml.model");
    json_decref(merges);
    json_decref(wrong);
    json_decref(single);
}

/* A file that names the token that begins texts means it, unless it says that it is left out. */
static void blocks_begin_with_what_the_file_names(void **state)
{
    (void)state;
    json_t *merges = json_pack("[s]", "a b");
    es_tokenizer *t;
    write_few(&all);
    for (int says = 0; says < 2; says++) {
        more.size = 0;
        put_u32(&more, "tokenizer.ggml.bos_token_id", 1);
        if (says)
            put_flag(&more, "tokenizer.ggml.add_bos_token", false);
        assert_ok(es_tokenizer_open(write_tokenizer(&all, "gpt-2", merges, &more, 1 + says), NULL,
                                    &t, &err));
        assert_int_equal(es_tokenizer_describe(t).prefix_count, 0);
        const es_tokenizer_info frame = es_tokenizer_frame(t);
        assert_int_equal(frame.prefix_count, !says);
        if (!says)
            assert_int_equal(frame.prefix[0], 1);
        es_tokenizer_free(t);
    }
    json_decref(merges);
}

static void GG07_tokenizers_that_do_not_fit_together(void **state)
{
    (void)state;
    static char broken[] = "\xff";
    write_few(&all);
    more.size = 0;
    put_u32(&more, "tokenizer.ggml.bos_token_id", 6);
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, &more, 1), ES_E_FORMAT, "gguf.value",
                     "bos_token_id");
    more.size = 0;
    put_string(&more, "tokenizer.ggml.add_bos_token", "true");
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, &more, 1), ES_E_FORMAT, "gguf.value",
                     "add_bos_token");
    more.size = 0;
    put_flag(&more, "tokenizer.ggml.remove_extra_whitespaces", true);
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, &more, 1), ES_E_UNSUPPORTED,
                     "gguf.tokenizer", "remove_extra_whitespaces");
    all.type[3] = -1;
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_FORMAT, "gguf.value",
                     "token 3 has type -1");
    all.type[3] = 7;
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_FORMAT, "gguf.value",
                     "token 3 has type 7");
    all.type[3] = 1;
    all.score[3] = NAN;
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_FORMAT, "gguf.value", "NaN");
    all.score[3] = 0;
    all.text[4] = broken;
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_FORMAT, "gguf.token",
                     "token 4");
    all.text[4] =
        few_texts[5]; /* "ab" twice is a remark, but without b it is made of what is none */
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_UNSUPPORTED, "gguf.token",
                     "token 5");
    all.count = 0;
    refuse_tokenizer(write_tokenizer(&all, NULL, NULL, NULL, 0), ES_E_FORMAT, "vocab.empty", "");
}

TEST_FILE(gguf_tokenizer)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unigram_gives_the_ids_of_its_tokenizer_json),
        cmocka_unit_test(word_pieces_give_the_ids_of_their_vocabulary),
        cmocka_unit_test(byte_pairs_give_the_ids_of_their_tokenizer_json),
        cmocka_unit_test(a_file_without_a_name_is_split_by_default),
        cmocka_unit_test(pieces_join_by_their_scores),
        cmocka_unit_test(user_defined_tokens_divide_a_text),
        cmocka_unit_test(GG02_the_bound_of_memory_has_the_tokenizer_in_it),
        cmocka_unit_test(GG02_vocabularies_with_scores_take_a_few_times_their_size),
        cmocka_unit_test(names_that_are_not_known_are_refused),
        cmocka_unit_test(blocks_begin_with_what_the_file_names),
        cmocka_unit_test(GG07_tokenizers_that_do_not_fit_together),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
