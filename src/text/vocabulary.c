/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c : strings with ids as a trie; a list of tokens becomes a tokenizer's tables;
 * vocab.txt is such a list. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* ---- a trie ---- */

enum { FIRST_SLOTS = 1024, MOST_NODES = 1 << 27 };

es_status es_trie_open(es_trie *trie, es_mem_limit *budget, es_error *err)
{
    *trie = (es_trie){.slots = FIRST_SLOTS,
                      .nodes = ES_TRIE_ROOT + 1,
                      .capacity = FIRST_SLOTS / 2,
                      .budget = budget};
    ES_TRY(ES_MEM_NEW(budget, trie->edges, FIRST_SLOTS, "trie", err));
    ES_TRY(ES_MEM_NEW(budget, trie->ids, trie->capacity, "trie", err));
    memset(trie->ids, 0xff, trie->capacity * sizeof(int32_t));
    return ES_OK;
}

void es_trie_close(es_trie *trie)
{
    es_mem_free(trie->budget, trie->edges);
    es_mem_free(trie->budget, trie->ids);
    *trie = (es_trie){0};
}

/* Adds an edge by open addressing: at most half of the slots are used, so that a search looks at
 * two slots on average. */
static void add_edge(es_trie *trie, uint64_t edge)
{
    uint64_t slot = ((edge >> 28) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    while (trie->edges[slot & (trie->slots - 1)])
        slot++;
    trie->edges[slot & (trie->slots - 1)] = edge;
}

/* Doubles the tables; at most half of the slots are ever used. */
static es_status grow(es_trie *trie, es_error *err)
{
    if (trie->nodes >= MOST_NODES)
        return es_fail(err, ES_E_LIMIT, "tokenizer.size", "use a smaller vocabulary",
                       "the vocabulary has more than %d distinct prefixes", MOST_NODES);
    es_trie next = {.slots = trie->slots * 2,
                    .nodes = trie->nodes,
                    .capacity = trie->slots,
                    .budget = trie->budget};
    ES_TRY(ES_MEM_NEW(trie->budget, next.edges, next.slots, "trie", err));
    const es_status status = ES_MEM_NEW(trie->budget, next.ids, next.capacity, "trie", err);
    if (status != ES_OK) {
        es_trie_close(&next);
        return status;
    }
    memset(next.ids, 0xff, next.capacity * sizeof(int32_t));
    memcpy(next.ids, trie->ids, trie->nodes * sizeof(int32_t));
    for (uint32_t i = 0; i < trie->slots; i++)
        if (trie->edges[i])
            add_edge(&next, trie->edges[i]);
    es_trie_close(trie);
    *trie = next;
    return ES_OK;
}

/* A node for each prefix that is new; slots and nodes grow together, so that one test does for
 * both. */
es_status es_trie_put(es_trie *trie, const char *text, size_t bytes, int32_t id, int32_t *before,
                      es_error *err)
{
    uint32_t node = ES_TRIE_ROOT;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t next = es_trie_step(trie, node, byte);
        if (next == ES_TRIE_NOWHERE) {
            if (trie->nodes == trie->capacity)
                ES_TRY(grow(trie, err));
            next = trie->nodes++;
            add_edge(trie, ((uint64_t)node << 8 | byte) << 28 | next);
        }
        node = next;
    }
    *before = trie->ids[node];
    trie->ids[node] = id;
    return ES_OK;
}

uint32_t es_trie_walk(const es_trie *trie, uint32_t node, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && node != ES_TRIE_NOWHERE; i++)
        node = es_trie_step(trie, node, (unsigned char)text[i]);
    return node;
}

/* Goes on past a string that fits, for a longer one may; the last that did is the answer. */
size_t es_trie_longest(const es_trie *trie, uint32_t node, const unsigned char *text, size_t bytes,
                       int32_t *id)
{
    size_t longest = 0;
    for (size_t i = 0; i < bytes && node != ES_TRIE_NOWHERE;) {
        node = es_trie_step(trie, node, text[i++]);
        if (node != ES_TRIE_NOWHERE && trie->ids[node] >= 0) {
            longest = i;
            *id = trie->ids[node];
        }
    }
    return longest;
}

/* ---- tokens by their text ---- */

#define FACTOR UINT64_C(0x9e3779b97f4a7c15) /* of the polynomial; modulo 2^64 */

/* Allocates the table that finds ids by text. */
static es_status names_open(es_tokenizer *t, int64_t tokens, es_error *err)
{
    es_names *n = &t->names;
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)tokens)
        slots *= 2;
    n->mask = slots - 1;
    ES_TRY(ES_MEM_NEW(t->budget, n->slots, (int64_t)slots, "vocabulary", err));
    memset(n->slots, 0xff, (size_t)slots * sizeof *n->slots);
    ES_TRY(ES_MEM_NEW(t->budget, n->hashes, t->info.size, "vocabulary", err));
    return ES_MEM_NEW(t->budget, n->bytes, t->info.size, "vocabulary", err);
}

/* Continues with the bytes of a text; no byte counts as 0, or leading ones would not count. */
static uint64_t hash_on(uint64_t hash, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = hash * FACTOR + (unsigned char)text[i] + 1;
    return hash;
}

/* Returns FACTOR^bytes, by which a hash is multiplied when `bytes` more bytes follow. */
static uint64_t shift_of(uint32_t bytes)
{
    uint64_t shift = 1;
    for (uint64_t square = FACTOR; bytes; bytes >>= 1, square *= square)
        shift *= bytes & 1 ? square : 1;
    return shift;
}

/* Returns the first slot of a hash. */
static uint64_t slot_of(uint64_t hash) { return ((hash ^ hash >> 32) * FACTOR) >> 24; }

/* Returns the slot of a text in two parts, or the empty slot where it would be. */
static int32_t *find_name(const es_tokenizer *t, uint64_t hash, const char *left, size_t left_bytes,
                          const char *right, size_t right_bytes)
{
    const es_names *n = &t->names;
    for (uint64_t slot = slot_of(hash);; slot++) {
        int32_t *id = &n->slots[slot & n->mask];
        if (*id < 0)
            return id;
        const char *text = t->text + t->start[*id];
        if (n->hashes[*id] == hash && n->bytes[*id] == left_bytes + right_bytes &&
            memcmp(text, left, left_bytes) == 0 &&
            memcmp(text + left_bytes, right, right_bytes) == 0)
            return id;
    }
}

int32_t es_tokenizer_id(const es_tokenizer *t, const char *text, size_t bytes)
{
    return *find_name(t, hash_on(0, text, bytes), text, bytes, "", 0);
}

int32_t es_tokenizer_joined(const es_tokenizer *t, int32_t left, int32_t right)
{
    const es_names *n = &t->names;
    const uint64_t hash = n->hashes[left] * shift_of(n->bytes[right]) + n->hashes[right];
    return *find_name(t, hash, t->text + t->start[left], n->bytes[left], t->text + t->start[right],
                      n->bytes[right]);
}

/* ---- lists of tokens ---- */

es_status es_vocab_list_add(es_vocab_list *list, es_vocab_entry entry, es_error *err)
{
    ES_TRY(ES_MEM_GROW(list->budget, list->entries, &list->capacity, list->count + 1, "vocabulary",
                       err));
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

/* Returns how many bytes of a token a message shows: tokens of a broken vocabulary may be as long
 * as the file. */
static int shown(size_t bytes) { return bytes < 64 ? (int)bytes : 64; }

/* Checks that ids are not much larger than the number of tokens, because they index tables; a few
 * unused ids are common. Sets the size. */
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

/* Fails for two texts with the same id: the model's meaning would be ambiguous. */
static es_status fail_clash(const es_vocab_list *list, const es_vocab_entry *e, const char *other,
                            es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.id.clash",
                        "give each token an id of its own",
                        "id %lld belongs to both \"%.64s\" and \"%.*s\"", (long long)e->id, other,
                        shown(e->bytes), e->text);
}

/* ---- tables ---- */

/* Allocates exactly the bytes of all tokens, each with a NUL: texts are returned as C strings. */
static es_status allocate_texts(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < list->count; i++)
        bytes += list->entries[i].bytes + 1;
    ES_TRY(ES_MEM_BYTES(t->budget, t->text, bytes, "vocabulary", err));
    ES_TRY(ES_MEM_NEW(t->budget, t->start, t->info.size, "vocabulary", err));
    memset(t->start, 0xff, (size_t)t->info.size * sizeof *t->start);
    return ES_OK;
}

/* Stores one token. An added token may repeat one of the vocabulary; any other id that occurs
 * twice is an error. Of two equal texts the later id is used, as in other readers. */
static es_status put_token(es_tokenizer *t, const es_vocab_list *list, const es_vocab_entry *e,
                           size_t *used, es_error *err)
{
    const char *owner = es_tokenizer_token(t, e->id);
    const bool same = owner && strlen(owner) == e->bytes && memcmp(owner, e->text, e->bytes) == 0;
    if (owner && !(same && e->added))
        return fail_clash(list, e, owner, err);
    const uint64_t hash = hash_on(0, e->text, e->bytes);
    int32_t *name = find_name(t, hash, e->text, e->bytes, "", 0);
    const int32_t before = *name;
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
        t->names.hashes[e->id] = hash;
        t->names.bytes[e->id] = (uint32_t)e->bytes;
        t->names.longest = e->bytes > t->names.longest ? e->bytes : t->names.longest;
        *used += e->bytes + 1;
    }
    *name = (int32_t)e->id;
    return ES_OK;
}

es_status es_added_put(es_added *added, const char *text, size_t bytes, int32_t id,
                       const char *path, es_error *err)
{
    int32_t before;
    if (bytes == 0 || bytes > ES_ADDED_MOST_BYTES)
        return es_fail_file(
            err, ES_E_UNSUPPORTED, path, -1, "tokenizer.added", "shorten or remove it",
            "an added token of %zu bytes; 1 to %d are possible", bytes, ES_ADDED_MOST_BYTES);
    added->first[(unsigned char)text[0]] = true;
    added->longest = bytes > added->longest ? bytes : added->longest;
    return es_trie_put(&added->trie, text, bytes, id, &before, err);
}

/* Checks the special tokens, which readers know by text or by id, against the complete vocabulary.
 */
static es_status find_specials(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    t->info.unknown = list->unknown ? es_tokenizer_find(t, list->unknown) : -1;
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

/* Sets the number of ids without those of added tokens, which may repeat one of the vocabulary. */
static es_status find_own_size(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    bool *added;
    ES_TRY(ES_MEM_NEW(t->budget, added, t->info.size, "vocabulary", err));
    for (int64_t i = 0; i < list->count; i++)
        added[list->entries[i].id] |= list->entries[i].added;
    t->info.own_size = t->info.size;
    while (t->info.own_size > 0 &&
           (added[t->info.own_size - 1] || !es_tokenizer_token(t, t->info.own_size - 1)))
        t->info.own_size--;
    es_mem_free(t->budget, added);
    return ES_OK;
}

/* Fills all tables: first the ids, which give the sizes. Added tokens come last in a list, so that
 * they can be compared with the vocabulary. */
static es_status fill_tables(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    size_t used = 0;
    int64_t tokens = 0;
    ES_TRY(check_ids(list, &t->info.size, err));
    ES_TRY(allocate_texts(t, list, err));
    ES_TRY(names_open(t, list->count, err));
    ES_TRY(es_trie_open(&t->added.trie, t->budget, err));
    for (int64_t i = 0; i < list->count; i++) {
        ES_TRY(put_token(t, list, &list->entries[i], &used, err));
        const es_vocab_entry *e = &list->entries[i];
        if (e->added && !(e->flags & ES_ADDED_NORMALIZED))
            ES_TRY(es_added_put(&t->added, e->text, e->bytes, (int32_t)e->id, list->path, err));
    }
    for (int64_t id = 0; id < t->info.size; id++)
        tokens += t->start[id] != UINT64_MAX;
    if (tokens < t->info.size)
        es_log(ES_LOG_WARN, "%s: %lld ids below %lld have no token", list->path,
               (long long)(t->info.size - tokens), (long long)t->info.size);
    ES_TRY(find_own_size(t, list, err));
    ES_TRY(find_specials(t, list, err));
    return t->kind->prepare(t, list, err);
}

/* Of a token: its entry in a list that doubles, while a half is copied; offset, hash, length,
 * slots, rank and its place among scores, flags. Of a merge: four slots at most of 16 bytes. Of a
 * prefix in a trie: 16 to 32 bytes of edges, 8 of ids, and half as much while it grows. */
enum {
    PER_TOKEN = 3 * sizeof(es_vocab_entry) + 64,
    PER_MERGE = 64,
    PER_PREFIX = 64,
    ANYWAY = 1 << 20
};

size_t es_tokenizer_most(const es_tokenizer_size *size)
{
    return ANYWAY + (size_t)size->tokens * PER_TOKEN + (size_t)size->merges * PER_MERGE +
           size->text + size->added * PER_PREFIX;
}

es_status es_tokenizer_build(const es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    es_tokenizer *t;
    ES_TRY(ES_MEM_NEW(list->budget, t, 1, "tokenizer", err));
    t->kind = list->kind;
    t->budget = list->budget;
    t->info = list->rules;
    t->info.model = list->kind->type;
    t->info.begin = -1;
    const es_status status = fill_tables(t, list, err);
    if (status != ES_OK) {
        es_tokenizer_free(t);
        return status;
    }
    *out = t;
    return ES_OK;
}

/* ---- vocab.txt, a token per line, and the tokenizer_config.json beside it ---- */

/* The special tokens of a BERT, by the key of the configuration that may rename them. */
enum { UNKNOWN, BEFORE, AFTER, PADDING, MASK, ROLES };
static const char *const role_keys[ROLES] = {"unk_token", "cls_token", "sep_token", "pad_token",
                                             "mask_token"};
static const char *const role_defaults[ROLES] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};

/* ---- the configuration ---- */

/* All keys of it that are used. */
static const char *const config_keys[] = {
    "do_lower_case", "strip_accents", "tokenize_chinese_chars",
    "unk_token",     "cls_token",     "sep_token",
    "pad_token",     "mask_token",    NULL};

/* Reads a token that is written as a string, or as an object with its content. */
static es_status read_role(const es_settings *config, int role, const char **out, es_error *err)
{
    const json_t *value = json_object_get(config->root, role_keys[role]);
    if (json_is_object(value))
        return es_settings_text(config, value, "content", out, err);
    return es_settings_text(config, config->root, role_keys[role], out, err);
}

/* Reads the rules and the special tokens of a tokenizer_config.json. */
static es_status read_config(const es_settings *config, es_tokenizer_info *rules,
                             const char *roles[ROLES], es_error *err)
{
    ES_TRY(es_settings_bool(config, config->root, "do_lower_case", &rules->lowercase, err));
    rules->strip_accents = rules->lowercase; /* unless said otherwise */
    ES_TRY(es_settings_bool(config, config->root, "strip_accents", &rules->strip_accents, err));
    ES_TRY(es_settings_bool(config, config->root, "tokenize_chinese_chars", &rules->split_chinese,
                            err));
    for (int role = 0; role < ROLES; role++)
        ES_TRY(read_role(config, role, &roles[role], err));
    return ES_OK;
}

/* ---- the vocabulary ---- */

/* Fails because of a byte that is not allowed. */
static es_status fail_byte(const es_vocab_list *list, int64_t offset, bool nul, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, list->path, offset, nul ? "vocab.nul" : "vocab.utf8",
                        "check that this is a vocab.txt in UTF-8", "a byte that is %s",
                        nul ? "NUL" : "no UTF-8");
}

/* Lists the tokens of a vocab.txt: the number of a line is the id, blank lines included. A byte
 * order mark and carriage returns are no part of a token. */
static es_status read_lines(const char *data, size_t bytes, es_vocab_list *list, es_error *err)
{
    size_t at = es_utf8_mark(data, bytes);
    const int64_t invalid = es_utf8_invalid(data, bytes);
    const char *nul = bytes ? memchr(data, 0, bytes) : NULL;
    int64_t blank = 0;
    if (nul)
        return fail_byte(list, nul - data, true, err);
    if (invalid >= 0)
        return fail_byte(list, invalid, false, err);
    while (at < bytes) {
        const char *end = memchr(data + at, '\n', bytes - at);
        const size_t next = end ? (size_t)(end - data) + 1 : bytes;
        size_t length = (end ? next - 1 : next) - at;
        if (length && data[at + length - 1] == '\r')
            length--;
        blank += length == 0;
        const es_vocab_entry line = {.text = data + at, .bytes = length, .id = list->count};
        ES_TRY(es_vocab_list_add(list, line, err));
        at = next;
    }
    if (list->count == 0)
        return es_fail_file(err, ES_E_FORMAT, list->path, 0, "vocab.empty",
                            "expected a token per line", "the vocabulary is empty");
    if (blank)
        es_log(ES_LOG_WARN, "%s: %lld blank lines, which take an id each", list->path,
               (long long)blank);
    return ES_OK;
}

/* Returns the last line that has a token, the one that es_tokenizer_build() uses; -1: none. */
static int64_t find_line(const es_vocab_list *list, const char *token)
{
    const size_t bytes = strlen(token);
    for (int64_t i = list->count; i-- > 0;)
        if (list->entries[i].bytes == bytes && memcmp(list->entries[i].text, token, bytes) == 0)
            return i;
    return -1;
}

/* Specials are recognised in text, and two of them stand around it. Padding and mask are not
 * needed to read text, so they may be missing. Names come from the configuration, ids from the
 * lines they stand on. */
static es_status mark_specials(es_vocab_list *list, const char *const roles[ROLES], es_error *err)
{
    for (int role = 0; role < ROLES; role++) {
        const int64_t id = find_line(list, roles[role]);
        if (id < 0 && role <= AFTER)
            return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.special",
                                "add it, or name another in tokenizer_config.json",
                                "the vocabulary has no token %.64s (%s)", roles[role],
                                role_keys[role]);
        if (id >= 0 && list->entries[id].bytes)
            list->entries[id].added = true;
        if (role == BEFORE)
            list->rules.prefix[0] = (int32_t)id;
        if (role == AFTER)
            list->rules.suffix[0] = (int32_t)id;
    }
    list->rules.prefix_count = list->rules.suffix_count = 1;
    return ES_OK;
}

/* Builds a tokenizer from the bytes of a vocab.txt. */
static es_status read_all(const char *data, size_t bytes, const es_settings *config,
                          es_vocab_list *list, es_tokenizer **out, es_error *err)
{
    const char *roles[ROLES];
    memcpy(roles, role_defaults, sizeof roles);
    if (config->root)
        ES_TRY(read_config(config, &list->rules, roles, err));
    list->unknown = roles[UNKNOWN];
    ES_TRY(read_lines(data, bytes, list, err));
    ES_TRY(mark_specials(list, roles, err));
    return es_tokenizer_build(list, out, err);
}

es_status es_tokenizer_read_vocab(const char *data, size_t bytes, const char *path,
                                  const char *config_data, size_t config_bytes,
                                  es_mem_limit *budget, es_tokenizer **out, es_error *err)
{
    es_vocab_list list = {
        .path = path, .kind = &es_kind_wordpiece, .continuing = "##", .budget = budget};
    es_settings config = {0};
    list.rules = (es_tokenizer_info){.max_chars = 100,
                                     .clean_text = true,
                                     .split_chinese = true,
                                     .strip_accents = true,
                                     .lowercase = true};
    es_status status = ES_OK;
    if (config_data) {
        char name[320];
        const char *slash = strrchr(path, '/');
        snprintf(name, sizeof name, "%.*stokenizer_config.json",
                 slash ? (int)(slash - path) + 1 : 0, path);
        status =
            es_settings_pick(&config, config_data, config_bytes, name, config_keys, budget, err);
        if (status == ES_OK)
            status = read_all(data, bytes, &config, &list, out, err);
    } else {
        status = read_all(data, bytes, &config, &list, out, err);
    }
    es_vocab_list_free(&list);
    es_settings_close(&config);
    return status;
}
