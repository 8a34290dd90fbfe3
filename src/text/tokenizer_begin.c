/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_begin.c : the token that begins texts where a template puts nothing before them.
 *
 * A decoder whose template is empty was trained all the same on texts that begin with a token,
 * which other files of its folder name; and the first token of a text can only be predicted from
 * something. The tokenizer's own file goes first, for checkpoints that never see such a token have
 * an id for it in config.json, too. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "store/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* Stores the id of the token that begins a text. An id outside of the vocabulary only gives a
 * warning: the tokenizer can encode text without it. */
static void begin_with(es_tokenizer *t, int64_t id, const char *key, const char *path)
{
    if (id >= 0 && es_tokenizer_token(t, id))
        t->info.begin = (int32_t)id;
    else
        es_log(ES_LOG_WARN, "%s: \"%s\" is not in the vocabulary: texts begin without it", path,
               key);
}

/* Reads "bos_token": "<s>", or an object with its content, or null, which means that there is
 * none. */
static es_status read_begin_token(es_tokenizer *t, const es_settings *s, const char *key,
                                  bool *known, es_error *err)
{
    const json_t *value = json_object_get(s->root, key);
    const char *token = NULL;
    ES_TRY(json_is_object(value) ? es_settings_text(s, value, "content", &token, err)
                                 : es_settings_text(s, s->root, key, &token, err));
    *known = value != NULL;
    if (token)
        begin_with(t, es_tokenizer_find(t, token), key, s->path);
    return ES_OK;
}

/* Reads the id of the token that begins a text. */
static es_status read_begin_id(es_tokenizer *t, const es_settings *s, const char *key, bool *known,
                               es_error *err)
{
    const json_t *value = json_object_get(s->root, key);
    int64_t id = -1;
    ES_TRY(es_settings_int(s, s->root, key, &id, err));
    *known = value != NULL;
    if (value && !json_is_null(value))
        begin_with(t, id, key, s->path);
    return ES_OK;
}

static const struct begin_source {
    const char *file, *key;
    es_status (*read)(es_tokenizer *t, const es_settings *s, const char *key, bool *known,
                      es_error *err);
} begin_sources[] = {{"tokenizer_config.json", "bos_token", read_begin_token},
                     {"config.json", "bos_token_id", read_begin_id}};

enum {
    PATH_MOST = 4096,
    CONFIG_MOST = 1 << 24 /* bytes; tokenizer_config.json may list a thousand added tokens */
};

/* Reads one file that may state the token; a missing file is no error. */
static es_status read_begin_file(es_tokenizer *t, const struct begin_source *source,
                                 const char *json, bool *known, es_error *err)
{
    const char *slash = strrchr(json, '/');
    const size_t folder = slash ? (size_t)(slash - json) + 1 : 0;
    char path[PATH_MOST];
    void *data = NULL;
    size_t bytes = 0;
    struct stat st;
    es_settings settings = {0};
    if (folder + strlen(source->file) >= PATH_MOST)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.path", "use a shorter path",
                       "a path of %zu bytes is too long", folder);
    snprintf(path, sizeof path, "%.*s%s", (int)folder, json, source->file);
    if (stat(path, &st) != 0)
        return ES_OK;
    es_status status = es_file_load(path, CONFIG_MOST, t->budget, &data, &bytes, err);
    if (status == ES_OK)
        status = es_settings_pick(&settings, data, bytes, path,
                                  (const char *const[]){source->key, NULL}, t->budget, err);
    if (status == ES_OK)
        status = source->read(t, &settings, source->key, known, err);
    es_settings_close(&settings);
    es_mem_free(t->budget, data);
    return status;
}

es_status es_tokenizer_find_begin(es_tokenizer *t, const char *json, es_error *err)
{
    bool known = t->kind != &es_kind_bpe || t->info.prefix_count > 0;
    for (size_t i = 0; i < sizeof begin_sources / sizeof begin_sources[0] && !known; i++)
        ES_TRY(read_begin_file(t, &begin_sources[i], json, &known, err));
    return ES_OK;
}
