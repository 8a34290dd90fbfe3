/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c : finding a tokenizer's files; what it answers about itself; a text in memory becomes
 * a list of tokens; files that are no text. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/tokenizer.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* ---- files ---- */

/* Reads a whole file into new memory; a file that is too large is refused before. */
static es_status read_whole(const char *path, es_mem_limit *budget, char **out, size_t *bytes,
                            es_error *err)
{
    es_file file;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    if (file.size > ES_TOKENIZER_MOST_BYTES)
        status = es_fail_file(err, ES_E_LIMIT, path, -1, "tokenizer.size",
                              "check that this is a tokenizer's file",
                              "the file has %llu bytes; a tokenizer may have %d",
                              (unsigned long long)file.size, ES_TOKENIZER_MOST_BYTES);
    if (status == ES_OK)
        status = ES_MEM_BYTES(budget, *out, (size_t)file.size, "tokenizer file", err);
    if (status == ES_OK)
        status = es_file_read(&file, 0, *out, (size_t)file.size, err);
    *bytes = (size_t)file.size;
    es_file_close(&file);
    return status;
}

/* Opens a tokenizer.json. Its bytes are needed only while the tables are built. */
static es_status open_json(const char *path, es_mem_limit *budget, es_tokenizer **out,
                           es_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    es_status status = read_whole(path, budget, &data, &bytes, err);
    if (status == ES_OK)
        status = es_tokenizer_read_json(data, bytes, path, budget, out, err);
    es_mem_free(budget, data);
    if (status == ES_OK)
        status = es_tokenizer_find_begin(*out, path, err);
    if (status != ES_OK) {
        es_tokenizer_free(*out);
        *out = NULL;
    }
    return status;
}

/* Opens a vocab.txt. The configuration beside it states whether case matters; without one the
 * rules of BERT apply. */
static es_status open_vocab(const char *path, const char *config_path, es_mem_limit *budget,
                            es_tokenizer **out, es_error *err)
{
    char *data = NULL, *config = NULL;
    size_t bytes = 0, config_bytes = 0;
    struct stat st;
    es_status status = read_whole(path, budget, &data, &bytes, err);
    if (status == ES_OK && stat(config_path, &st) == 0)
        status = read_whole(config_path, budget, &config, &config_bytes, err);
    if (status == ES_OK)
        status = es_tokenizer_read_vocab(data, bytes, path, config, config_bytes, budget, out, err);
    es_mem_free(budget, data);
    es_mem_free(budget, config);
    return status;
}

/* Opens the tokenizer of a GGUF. Only the header is read, which contains the vocabulary. */
static es_status open_gguf(const char *path, es_mem_limit *budget, es_tokenizer **out,
                           es_error *err)
{
    const es_st_opts opts = {.allow_trailing = true, .budget = budget};
    es_gguf *file;
    ES_TRY(es_gguf_open(path, &opts, &file, err));
    const es_status status = es_gguf_tokenizer(&file->header, budget, out, err);
    es_gguf_close(file);
    return status;
}

/* Returns whether a text ends with `end`. */
static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

enum { PATH_MOST = 4096 };

/* Writes folder/name, or the name alone for the current folder. */
static es_status join(char out[PATH_MOST], const char *folder, size_t length, const char *name,
                      es_error *err)
{
    const char *slash = length && folder[length - 1] != '/' ? "/" : "";
    if (length + strlen(name) + 2 > PATH_MOST)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.path", "use a shorter path",
                       "a path of %zu bytes is too long", length);
    snprintf(out, PATH_MOST, "%.*s%s%s", (int)length, folder, slash, name);
    return ES_OK;
}

/* Fails because a folder has no tokenizer that is supported, and names the one it has. */
static es_status no_tokenizer(const char *folder, es_error *err)
{
    static const char *const others[][2] = {
        {"tokenizer.model", "tokenizer.model, a file of SentencePiece or tiktoken"},
        {"spiece.model", "spiece.model, a file of SentencePiece"},
        {"vocab.json", "vocab.json, of older byte pairs"},
        {"tekken.json", "tekken.json, of Mistral's own library"}};
    char file[PATH_MOST];
    struct stat st;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ES_TRY(join(file, folder, strlen(folder), others[i][0], err));
        if (stat(file, &st) == 0)
            return es_fail_file(err, ES_E_UNSUPPORTED, folder, -1, "tokenizer.missing",
                                "make a tokenizer.json, in Python: transformers.AutoTokenizer."
                                "from_pretrained(FOLDER).save_pretrained(FOLDER)",
                                "missing tokenizer.json; found only %s", others[i][1]);
    }
    return es_fail_file(err, ES_E_IO, folder, -1, "tokenizer.missing",
                        "name a model's folder, a tokenizer.json or a vocab.txt",
                        "this folder has neither tokenizer.json nor vocab.txt");
}

/* Opens the tokenizer of a folder. tokenizer.json comes first, because it states every rule; a
 * vocab.txt leaves some to convention. */
static es_status open_folder(const char *path, es_mem_limit *budget, es_tokenizer **out,
                             es_error *err)
{
    char file[PATH_MOST], config[PATH_MOST];
    struct stat st;
    ES_TRY(join(file, path, strlen(path), "tokenizer.json", err));
    if (stat(file, &st) == 0)
        return open_json(file, budget, out, err);
    ES_TRY(join(file, path, strlen(path), "vocab.txt", err));
    ES_TRY(join(config, path, strlen(path), "tokenizer_config.json", err));
    if (stat(file, &st) == 0)
        return open_vocab(file, config, budget, out, err);
    return no_tokenizer(path, err);
}

es_status es_tokenizer_open(const char *path, es_mem_limit *budget, es_tokenizer **out,
                            es_error *err)
{
    char config[PATH_MOST];
    struct stat st;
    if (out)
        *out = NULL;
    if (!path || !*path || !out)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.path",
                       "name a model's folder, a tokenizer.json or a vocab.txt",
                       "missing path, or no place for the tokenizer");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_folder(path, budget, out, err);
    if (es_gguf_is(path))
        return open_gguf(path, budget, out, err);
    if (ends_with(path, ".json"))
        return open_json(path, budget, out, err);
    const char *slash = strrchr(path, '/');
    ES_TRY(
        join(config, path, slash ? (size_t)(slash - path) + 1 : 0, "tokenizer_config.json", err));
    return open_vocab(path, config, budget, out, err);
}

/* ---- how much they take ---- */

/* Reading tokenizer.json takes up to 48 times its size, for a moment, and tables of fixed size. */
enum { JSON_TIMES = 56, JSON_ANYWAY = 1 << 20 };

/* Bounds the memory of a vocab.txt: every line is a token, and all of them go into the trie. */
static size_t memory_of_vocab(const char *path)
{
    char *data = NULL;
    size_t bytes = 0, most = 0;
    es_error ignored;
    if (read_whole(path, NULL, &data, &bytes, &ignored) == ES_OK) {
        es_tokenizer_size size = {.tokens = 1, .text = bytes, .added = bytes};
        for (size_t i = 0; i < bytes; i++)
            size.tokens += data[i] == '\n';
        most = bytes + es_tokenizer_most(&size);
    }
    es_mem_free(NULL, data);
    return most;
}

/* Estimates the memory of a GGUF's tokenizer from the size of its header. */
static size_t memory_of_gguf(const char *path)
{
    const es_st_opts opts = {.allow_trailing = true};
    es_error ignored;
    es_gguf *file;
    if (es_gguf_open(path, &opts, &file, &ignored) != ES_OK)
        return 0;
    /* the header is read into memory that doubles, and its values are listed */
    const size_t header = (size_t)file->header.data;
    const size_t most = es_gguf_tokenizer_memory(&file->header);
    es_gguf_close(file);
    return most ? 4 * header + most : 0;
}

size_t es_tokenizer_memory(const char *path)
{
    char json[PATH_MOST], vocab[PATH_MOST];
    struct stat st;
    es_error ignored;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (join(json, path, strlen(path), "tokenizer.json", &ignored) != ES_OK ||
            join(vocab, path, strlen(path), "vocab.txt", &ignored) != ES_OK)
            return 0;
        path = stat(json, &st) == 0 ? json : vocab;
    }
    if (es_gguf_is(path))
        return memory_of_gguf(path);
    if (!ends_with(path, ".json"))
        return memory_of_vocab(path);
    return stat(path, &st) == 0 && st.st_size <= ES_TOKENIZER_MOST_BYTES
               ? JSON_ANYWAY + JSON_TIMES * (size_t)st.st_size
               : 0;
}

/* ---- answers ---- */

void es_tokenizer_free(es_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    es_mem_limit *budget = tokenizer->budget;
    tokenizer->kind->free(tokenizer);
    es_mem_free(budget, tokenizer->names.slots);
    es_mem_free(budget, tokenizer->names.hashes);
    es_mem_free(budget, tokenizer->names.bytes);
    es_trie_close(&tokenizer->added.trie);
    es_mem_free(budget, tokenizer->text);
    es_mem_free(budget, tokenizer->start);
    es_mem_free(budget, tokenizer);
}

es_tokenizer_info es_tokenizer_describe(const es_tokenizer *tokenizer) { return tokenizer->info; }

es_tokenizer_info es_tokenizer_frame(const es_tokenizer *tokenizer)
{
    es_tokenizer_info info = tokenizer->info;
    if (info.begin >= 0)
        info.prefix[info.prefix_count++] = info.begin;
    return info;
}

const char *es_tokenizer_token(const es_tokenizer *tokenizer, int64_t id)
{
    if (id < 0 || id >= tokenizer->info.size || tokenizer->start[id] == UINT64_MAX)
        return NULL;
    return tokenizer->text + tokenizer->start[id];
}

int32_t es_tokenizer_find(const es_tokenizer *tokenizer, const char *token)
{
    return es_tokenizer_id(tokenizer, token, strlen(token));
}

/* ---- lists ---- */

/* Appends tokens of a stream to a list. */
static es_status append(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    es_token_list *list = user;
    ES_TRY(ES_MEM_GROW(list->budget, list->tokens, &list->capacity, list->count + count, "tokens",
                       err));
    memcpy(list->tokens + list->count, tokens, (size_t)count * sizeof *tokens);
    list->count += count;
    return ES_OK;
}

void es_token_list_free(es_token_list *list)
{
    es_mem_free(list->budget, list->tokens);
    *list = (es_token_list){0};
}

/* A stream of one text, so that a text in memory and one in pieces cannot differ. */
es_status es_tokenizer_encode(const es_tokenizer *tokenizer, const char *text, size_t bytes,
                              const es_encode_opts *opts, es_token_list *list, es_error *err)
{
    es_token_stream *stream;
    if (!tokenizer || !list || (!text && bytes))
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.encode", "pass a tokenizer, text and a list",
                       "missing tokenizer, text or list");
    es_mem_limit *budget = opts ? opts->budget : NULL;
    if (list->budget != budget) { /* memory is given back where it was counted */
        es_token_list_free(list);
        list->budget = budget;
    }
    list->count = 0;
    es_status status = es_token_stream_open(tokenizer, opts, append, list, &stream, err);
    if (status == ES_OK) {
        status = es_token_stream_write(stream, text, bytes, err);
        if (status == ES_OK)
            status = es_token_stream_finish(stream, err);
        es_token_stream_close(stream);
    }
    if (status != ES_OK)
        es_token_list_free(list);
    return status;
}

/* ---- what is no text ---- */

typedef struct signature {
    const char *bytes;
    size_t count;
    const char *name, *hint;
} signature;

/* First bytes of files that are often passed as text. "BZh" also begins words, so more bytes of
 * it are compared. */
static const signature compressed[] = {
    {"\x1f\x8b", 2, "gzip", "unpack it first: gunzip -c FILE | esscher ..."},
    {"PK\x03\x04", 4, "zip", "unpack it first"},
    {"\xfd\x37zXZ", 5, "xz", "unpack it first: xz -dc FILE | esscher ..."},
    {"BZh", 3, "bzip2", "unpack it first: bzip2 -dc FILE | esscher ..."},
    {"\x28\xb5\x2f\xfd", 4, "zstd", "unpack it first: zstd -dc FILE | esscher ..."},
};

/* Recognises UTF-16 and UTF-32 by their NULs: text has none, Latin letters have one in two, or
 * three in four bytes. */
static const char *wide_encoding(const unsigned char *p, size_t bytes)
{
    size_t nul[2] = {0, 0};
    if (bytes >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
        return bytes >= 4 && p[0] == 0xff && p[2] == 0 && p[3] == 0 ? "UTF-32" : "UTF-16";
    if (bytes >= 4 && memcmp(p, "\0\0\xfe\xff", 4) == 0)
        return "UTF-32";
    for (size_t i = 0; i < bytes; i++)
        nul[i & 1] += p[i] == 0;
    if (bytes < 8 || nul[0] + nul[1] < bytes / 4)
        return NULL;
    if (nul[0] && nul[1])
        return nul[0] + nul[1] > bytes / 2 ? "UTF-32" : NULL;
    return "UTF-16";
}

/* Any bytes give tokens, so this is the only check that they are text. */
es_status es_text_check(const void *data, size_t bytes, const char *path, es_error *err)
{
    if (bytes == 0)
        return ES_OK;
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++) {
        const signature *s = &compressed[i];
        if (bytes >= s->count && memcmp(data, s->bytes, s->count) == 0 &&
            (strcmp(s->name, "bzip2") != 0 ||
             (bytes > 9 && memcmp((const char *)data + 4, "1AY&SY", 6) == 0)))
            return es_fail_file(err, ES_E_UNSUPPORTED, path, 0, "text.compressed", s->hint,
                                "this is a %s file, not text", s->name);
    }
    const char *wide = wide_encoding(data, bytes);
    if (wide)
        return es_fail_file(err, ES_E_UNSUPPORTED, path, 0, "text.encoding",
                            "convert it: iconv -f UTF-16 -t UTF-8 FILE (or UTF-32)",
                            "the text is in %s; UTF-8 is required", wide);
    return ES_OK;
}

/* Latin-1 in most languages has an accent in every thirty letters; a text with a few bad bytes does
 * not become another by them. */
es_status es_text_check_replaced(int64_t replaced, int64_t bytes, es_text_invalid invalid,
                                 const char *path, int64_t first, es_error *err)
{
    if (invalid == ES_TEXT_REPLACE_ALL || 100 * (double)replaced <= (double)bytes)
        return ES_OK;
    return es_fail_file(err, ES_E_FORMAT, path, first, "text.utf8",
                        "convert it, e.g.: iconv -f LATIN1 -t UTF-8 FILE; or --invalid replace-all",
                        "%.1f %% of the text is not UTF-8 (%lld in %lld bytes)",
                        100 * (double)replaced / (double)bytes, (long long)replaced,
                        (long long)bytes);
}
