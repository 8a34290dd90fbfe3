/* encode.c : a text in memory becomes a list of tokens; files that are no text. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include <esscher/tokenizer.h>

/* ---- lists ---- */

static es_status reserve(es_token_list *list, int64_t count, es_error *err)
{
    if (list->count + count <= list->capacity)
        return ES_OK;
    int64_t capacity = list->capacity ? 2 * list->capacity : 256;
    while (capacity < list->count + count)
        capacity *= 2;
    es_token *tokens;
    ES_TRY(
        es_mem_array(list->budget, capacity, 1, sizeof *tokens, "tokens", (void **)&tokens, err));
    if (list->count)
        memcpy(tokens, list->tokens, (size_t)list->count * sizeof *tokens);
    es_mem_free(list->budget, list->tokens);
    list->tokens = tokens;
    list->capacity = capacity;
    return ES_OK;
}

static es_status append(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    es_token_list *list = user;
    ES_TRY(reserve(list, count, err));
    memcpy(list->tokens + list->count, tokens, (size_t)count * sizeof *tokens);
    list->count += count;
    return ES_OK;
}

void es_token_list_free(es_token_list *list)
{
    es_mem_free(list->budget, list->tokens);
    *list = (es_token_list){0};
}

es_status es_tokenizer_encode(const es_tokenizer *tokenizer, const char *text, size_t bytes,
                              const es_encode_opts *opts, es_token_list *list, es_error *err)
{
    es_token_stream *stream;
    if (!tokenizer || !list || (!text && bytes))
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.encode", "pass a tokenizer, text and a list",
                       "no tokenizer, no text or no list");
    es_budget *budget = opts ? opts->budget : NULL;
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

static const signature compressed[] = {
    {"\x1f\x8b", 2, "gzip", "unpack it first: gunzip -c FILE | esscher ..."},
    {"PK\x03\x04", 4, "zip", "unpack it first"},
    {"\xfd\x37zXZ", 5, "xz", "unpack it first: xz -dc FILE | esscher ..."},
    {"BZh", 3, "bzip2", "unpack it first: bzip2 -dc FILE | esscher ..."},
    {"\x28\xb5\x2f\xfd", 4, "zstd", "unpack it first: zstd -dc FILE | esscher ..."},
};

/* NUL is in no text, but half of UTF-16 and three quarters of UTF-32 in Latin letters. */
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
                                "this is no text but a %s file", s->name);
    }
    const char *wide = wide_encoding(data, bytes);
    if (wide)
        return es_fail_file(err, ES_E_UNSUPPORTED, path, 0, "text.encoding",
                            "convert it: iconv -f UTF-16 -t UTF-8 FILE (or UTF-32)",
                            "the text is in %s, UTF-8 is needed", wide);
    return ES_OK;
}
