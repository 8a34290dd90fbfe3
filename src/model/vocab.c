/* vocab.c : a list of tokens becomes a tokenizer's tables. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/tokenizer_inside.h"
#include "model/unicode.h"

es_status es_vocab_list_add(es_vocab_list *list, es_vocab_entry entry, es_error *err)
{
    if (list->count == list->capacity) {
        const int64_t capacity = list->capacity ? 2 * list->capacity : 1024;
        es_vocab_entry *entries;
        ES_TRY(es_mem_array(list->budget, capacity, 1, sizeof *entries, "vocabulary",
                            (void **)&entries, err));
        if (list->count)
            memcpy(entries, list->entries, (size_t)list->count * sizeof *entries);
        es_mem_free(list->budget, list->entries);
        list->entries = entries;
        list->capacity = capacity;
    }
    list->entries[list->count++] = entry;
    return ES_OK;
}

void es_vocab_list_free(es_vocab_list *list)
{
    es_mem_free(list->budget, list->entries);
    list->entries = NULL;
    list->count = list->capacity = 0;
}

/* ---- checks ---- */

static int shown(size_t bytes) { return bytes < 64 ? (int)bytes : 64; }

/* Ids index tables of the model and of ours, so that their size may not run away from the number
 * of tokens; a few unused ids are common. Sets the size. */
static es_status check_ids(const es_vocab_list *list, int64_t *size, es_error *err)
{
    const int64_t most = 2 * list->count + 1024;
    *size = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const es_vocab_entry *e = &list->entries[i];
        if (e->id < 0 || e->id >= most)
            return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.id.range",
                                "number the tokens from 0 without large gaps",
                                "id %lld of token \"%.*s\" is outside [0, %lld)", (long long)e->id,
                                shown(e->bytes), e->text, (long long)most);
        *size = e->id >= *size ? e->id + 1 : *size;
    }
    return ES_OK;
}

static es_status fail_clash(const es_vocab_list *list, const es_vocab_entry *e, const char *other,
                            es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.id.clash",
                        "give each token an id of its own",
                        "id %lld belongs to both \"%.64s\" and \"%.*s\"", (long long)e->id, other,
                        shown(e->bytes), e->text);
}

/* ---- tables ---- */

static es_status allocate_texts(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < list->count; i++)
        bytes += list->entries[i].bytes + 1;
    ES_TRY(es_mem_new(t->budget, bytes, "vocabulary", (void **)&t->text, err));
    ES_TRY(es_mem_array(t->budget, t->info.size, 1, sizeof *t->start, "vocabulary",
                        (void **)&t->start, err));
    memset(t->start, 0xff, (size_t)t->info.size * sizeof *t->start);
    return ES_OK;
}

/* An added token may repeat one of the vocabulary; any other id twice is a contradiction. A text
 * twice keeps the later id, as in the readers of others, and the former can no longer be made. */
static es_status put_token(es_tokenizer *t, const es_vocab_list *list, const es_vocab_entry *e,
                           size_t *used, es_error *err)
{
    int32_t before;
    const char *owner = es_tokenizer_token(t, e->id);
    const bool same = owner && strlen(owner) == e->bytes && memcmp(owner, e->text, e->bytes) == 0;
    if (owner && !(same && e->added))
        return fail_clash(list, e, owner, err);
    ES_TRY(es_trie_put(&t->pieces, e->text, e->bytes, (int32_t)e->id, &before, err));
    if (before >= 0 && before != e->id) {
        if (e->added)
            return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.id.clash",
                                "give the added token the id it has in the vocabulary",
                                "added token \"%.*s\" has id %lld, but %d in the vocabulary",
                                shown(e->bytes), e->text, (long long)e->id, before);
        es_log(ES_LOG_WARN, "%s: token \"%.*s\" has ids %d and %lld; the latter is used",
               list->path, shown(e->bytes), e->text, before, (long long)e->id);
    }
    if (!owner) {
        memcpy(t->text + *used, e->text, e->bytes);
        t->start[e->id] = *used;
        *used += e->bytes + 1;
    }
    return ES_OK;
}

static es_status put_added(es_tokenizer *t, const es_vocab_list *list, const es_vocab_entry *e,
                           es_error *err)
{
    int32_t before;
    if (e->bytes == 0 || e->bytes > ES_ADDED_MOST_BYTES)
        return es_fail_file(
            err, ES_E_UNSUPPORTED, list->path, -1, "tokenizer.added", "shorten or remove it",
            "an added token of %zu bytes; 1 to %d are possible", e->bytes, ES_ADDED_MOST_BYTES);
    t->added_first[(unsigned char)e->text[0]] = true;
    t->added_longest = e->bytes > t->added_longest ? e->bytes : t->added_longest;
    return es_trie_put(&t->added, e->text, e->bytes, (int32_t)e->id, &before, err);
}

/* The normalizer and the pre-tokenizer, tabulated where most text is. */
static void classify_ascii(es_tokenizer *t)
{
    const es_tokenizer_info *rules = &t->info;
    for (int c = 0; c < 128; c++) {
        const bool drop = rules->clean_text && (c == 0 || es_char_control(c));
        t->ascii_class[c] = drop                     ? ES_ASCII_DROP
                            : es_char_space(c)       ? ES_ASCII_SPACE
                            : es_char_punctuation(c) ? ES_ASCII_SIGN
                                                     : ES_ASCII_LETTER;
        t->ascii_lower[c] =
            (unsigned char)(rules->lowercase && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
}

static es_status find_specials(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    t->continuing =
        es_trie_walk(&t->pieces, ES_TRIE_ROOT, list->continuing, strlen(list->continuing));
    t->info.unknown = es_tokenizer_find(t, list->unknown);
    if (t->info.unknown < 0)
        return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.special",
                            "a word that cannot be cut up needs it; add it to the vocabulary",
                            "the vocabulary has no token %.64s", list->unknown);
    const es_tokenizer_info *r = &t->info;
    for (int i = 0; i < r->prefix_count + r->suffix_count; i++) {
        const int32_t id = i < r->prefix_count ? r->prefix[i] : r->suffix[i - r->prefix_count];
        if (!es_tokenizer_token(t, id))
            return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.id.range",
                                "use ids of the vocabulary around a text",
                                "the special token %d has no entry in the vocabulary", id);
    }
    return ES_OK;
}

static es_status fill_tables(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    size_t used = 0;
    int64_t tokens = 0;
    ES_TRY(check_ids(list, &t->info.size, err));
    ES_TRY(allocate_texts(t, list, err));
    ES_TRY(es_trie_open(&t->pieces, t->budget, err));
    ES_TRY(es_trie_open(&t->added, t->budget, err));
    for (int64_t i = 0; i < list->count; i++) {
        ES_TRY(put_token(t, list, &list->entries[i], &used, err));
        if (list->entries[i].added)
            ES_TRY(put_added(t, list, &list->entries[i], err));
    }
    for (int64_t id = 0; id < t->info.size; id++)
        tokens += t->start[id] != UINT64_MAX;
    if (tokens < t->info.size)
        es_log(ES_LOG_WARN, "%s: %lld ids below %lld have no token", list->path,
               (long long)(t->info.size - tokens), (long long)t->info.size);
    classify_ascii(t);
    return find_specials(t, list, err);
}

es_status es_tokenizer_build(const es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    es_tokenizer *t;
    if (list->rules.max_chars < 1 || list->rules.max_chars > ES_WORD_MOST_CHARS)
        return es_fail_file(err, ES_E_UNSUPPORTED, list->path, -1, "tokenizer.word", "BERT has 100",
                            "max_input_chars_per_word %lld is outside [1, %d]",
                            (long long)list->rules.max_chars, ES_WORD_MOST_CHARS);
    ES_TRY(es_mem_new(list->budget, sizeof *t, "tokenizer", (void **)&t, err));
    t->budget = list->budget;
    t->info = list->rules;
    const es_status status = fill_tables(t, list, err);
    if (status != ES_OK) {
        es_tokenizer_free(t);
        return status;
    }
    *out = t;
    return ES_OK;
}
