/* tokenizer.c : finding a tokenizer's files; what it answers about itself. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tokenizer_inside.h"
#include "store/file.h"

/* ---- files ---- */

/* A whole file as new memory of file.size bytes, refused before it is read if it is too large. */
static es_status read_whole(const char *path, es_budget *budget, char **out, size_t *bytes,
                            es_error *err)
{
    es_file file;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    if (file.size > ES_TOKENIZER_MOST_BYTES)
        status = es_fail_file(err, ES_E_LIMIT, path, -1, "tokenizer.size",
                              "check that this is a tokenizer's file",
                              "%llu bytes are more than the %d a tokenizer may have",
                              (unsigned long long)file.size, ES_TOKENIZER_MOST_BYTES);
    if (status == ES_OK)
        status = es_mem_new(budget, (size_t)file.size, "tokenizer file", (void **)out, err);
    if (status == ES_OK)
        status = es_file_read(&file, 0, *out, (size_t)file.size, err);
    *bytes = (size_t)file.size;
    es_file_close(&file);
    return status;
}

static es_status open_json(const char *path, es_budget *budget, es_tokenizer **out, es_error *err)
{
    char *data = NULL;
    size_t bytes = 0;
    es_status status = read_whole(path, budget, &data, &bytes, err);
    if (status == ES_OK)
        status = es_tokenizer_read_json(data, bytes, path, budget, out, err);
    es_mem_free(budget, data);
    return status;
}

static es_status open_vocab(const char *path, const char *config_path, es_budget *budget,
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

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

enum { PATH_MOST = 4096 };

/* folder/name, or the name alone in the folder we are in. */
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

static es_status open_folder(const char *path, es_budget *budget, es_tokenizer **out, es_error *err)
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
    return es_fail_file(err, ES_E_IO, path, -1, "tokenizer.missing",
                        "name a model's folder, a tokenizer.json or a vocab.txt",
                        "there is no tokenizer.json and no vocab.txt in this folder");
}

es_status es_tokenizer_open(const char *path, es_budget *budget, es_tokenizer **out, es_error *err)
{
    char config[PATH_MOST];
    struct stat st;
    if (out)
        *out = NULL;
    if (!path || !*path || !out)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.path",
                       "name a model's folder, a tokenizer.json or a vocab.txt",
                       "no path, or nowhere to put the tokenizer");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_folder(path, budget, out, err);
    if (ends_with(path, ".json"))
        return open_json(path, budget, out, err);
    const char *slash = strrchr(path, '/');
    ES_TRY(
        join(config, path, slash ? (size_t)(slash - path) + 1 : 0, "tokenizer_config.json", err));
    return open_vocab(path, config, budget, out, err);
}

/* ---- answers ---- */

void es_tokenizer_free(es_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    es_budget *budget = tokenizer->budget;
    es_trie_close(&tokenizer->pieces);
    es_trie_close(&tokenizer->added);
    es_mem_free(budget, tokenizer->text);
    es_mem_free(budget, tokenizer->start);
    es_mem_free(budget, tokenizer);
}

es_tokenizer_info es_tokenizer_describe(const es_tokenizer *tokenizer) { return tokenizer->info; }

const char *es_tokenizer_token(const es_tokenizer *tokenizer, int64_t id)
{
    if (id < 0 || id >= tokenizer->info.size || tokenizer->start[id] == UINT64_MAX)
        return NULL;
    return tokenizer->text + tokenizer->start[id];
}

int32_t es_tokenizer_find(const es_tokenizer *tokenizer, const char *token)
{
    const uint32_t node = es_trie_walk(&tokenizer->pieces, ES_TRIE_ROOT, token, strlen(token));
    return node == ES_TRIE_NOWHERE ? -1 : tokenizer->pieces.ids[node];
}
