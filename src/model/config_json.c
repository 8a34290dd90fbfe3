/* SPDX-License-Identifier: Apache-2.0 */
/* config_json.c : config.json read by the descriptions of architectures. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "model/config_fields.h"
#include "model/gguf_model.h"
#include "model/model_inside.h"
#include "store/file.h"

enum { CONFIG_MOST = 1 << 20 }; /* bytes; real files have one or two thousand */

/* Keys that mean the same in every config.json. */
static const es_config_field identity[] = {
    {"model_type", ES_FIELD_WORD, .at = ES_CONFIG(model_type)},
    {"architectures", ES_FIELD_FIRST, .at = ES_CONFIG(architecture)},
    {"id2label", ES_FIELD_LABELS, .at = ES_CONFIG(labels)},
    {"text_config", ES_FIELD_OBJECT},
    {0}};

/* Keys outside of `text_config` that count for the model of text, in models of pictures and text.
 */
static const es_config_field beside[] = {
    {"tie_word_embeddings", ES_FIELD_BOOL, .at = ES_CONFIG(tied)}, ES_FIELDS_REFUSED, {0}};

/* Models of pictures and text, which have the model of text in `text_config`. */
static const struct {
    const char *model_type, *text_type; /* the model of text, if text_config does not name it */
} wrappers[] = {{"gemma3", "gemma3_text"}, {"mistral3", "mistral"}};

/* Returns the model_type of the text model of a wrapper that does not name it; NULL: no wrapper. */
static const char *wrapped_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
        if (strcmp(model_type, wrappers[i].model_type) == 0)
            return wrappers[i].text_type;
    return NULL;
}

/* Reads model_type, class and labels. Of a wrapper the model_type is that of its text, and
 * *text is where that begins. */
static es_status identify(es_json *j, es_config_draft *about, es_json *text)
{
    enum { TEXT = 3 }; /* its place in the table */
    es_config_reading outer = {.j = j, .fields = identity, .draft = about};
    ES_TRY(es_config_take_fields(&outer));
    const char *usual = wrapped_type(about->config.model_type);
    *text = outer.object[TEXT];
    if (!usual || !text->bytes) {
        text->bytes = NULL;
        return ES_OK;
    }
    es_config_draft inside = {0};
    es_json at = *text;
    es_config_reading inner = {.j = &at, .fields = identity, .draft = &inside};
    ES_TRY(es_config_take_fields(&inner));
    const char *type = *inside.config.model_type ? inside.config.model_type : usual;
    snprintf(about->config.model_type, sizeof about->config.model_type, "%s", type);
    return ES_OK;
}

/* Reads the keys of one description. */
static es_status take_config(const es_arch *arch, es_json *j, es_config_draft *draft)
{
    es_config_reading r = {.j = j, .fields = arch->fields, .draft = draft};
    ES_TRY(es_config_take_fields(&r));
    ES_TRY(es_config_check_values(&r));
    ES_TRY(es_config_check_complete(&r));
    return es_config_take_rotaries(&r);
}

/* Walks through the text twice, because model_type, which may come last, decides which keys
 * count. A model_type that is not supported is reported before missing keys: in a file for
 * another kind of model everything may be missing. */
es_status es_config_parse(const unsigned char *bytes, size_t size, const char *file,
                          es_model_config *out, es_error *err)
{
    es_json j = {bytes, es_utf8_mark(bytes, size), size, file, "config", err, 0, true};
    es_json again = j, text;
    es_config_draft draft = {0}, about = {0};
    *out = draft.config;
    ES_TRY(identify(&j, &about, &text));
    ES_TRY(es_json_end(&j));
    const es_arch *arch = es_arch_find(about.config.model_type, about.config.architecture);
    if (!arch)
        return es_arch_unknown(file, &about.config, err);
    es_config_begin(arch, &draft);
    if (text.bytes) {
        es_config_reading outer = {.j = &again, .fields = beside, .draft = &draft};
        ES_TRY(es_config_take_fields(&outer));
        ES_TRY(es_config_check_values(&outer));
    }
    ES_TRY(take_config(arch, text.bytes ? &text : &again, &draft));
    ES_TRY(es_config_complete(arch, file, &draft, err));
    es_model_config *c = &draft.config;
    c->labels = about.config.labels;
    memcpy(c->label, about.config.label, sizeof c->label);
    snprintf(c->model_type, sizeof c->model_type, "%s", arch->model_type);
    memcpy(c->architecture, about.config.architecture, sizeof c->architecture);
    *out = *c;
    return ES_OK;
}

/* Reads a config.json of at most a megabyte: a larger file is something else under its name. */
static es_status load_json(const char *path, es_model_config *out, es_error *err)
{
    void *text;
    size_t size;
    ES_TRY(es_file_load(path, CONFIG_MOST, NULL, &text, &size, err));
    const es_status status = es_config_parse(text, size, path, out, err);
    es_mem_free(NULL, text);
    return status;
}

/* Reads the configuration from the header of a GGUF. Trailing bytes do not matter here, because
 * no weight is read. */
static es_status load_gguf(const char *path, es_model_config *out, es_error *err)
{
    const es_st_opts opts = {.allow_trailing = true};
    es_gguf *g;
    ES_TRY(es_gguf_open(path, &opts, &g, err));
    const es_status status = es_gguf_config(g, out, err);
    es_gguf_close(g);
    return status;
}

es_status es_model_config_load(const char *path, es_model_config *out, es_error *err)
{
    char file[4096];
    struct stat st;
    *out = (es_model_config){0};
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return es_gguf_is(path) ? load_gguf(path, out, err) : load_json(path, out, err);
    if ((size_t)snprintf(file, sizeof file, "%s/config.json", path) >= sizeof file)
        return es_fail(err, ES_E_ARGUMENT, "config.path", "use a shorter path",
                       "the path is too long");
    if (lstat(file, &st) != 0 && errno == ENOENT)
        return es_fail_file(err, ES_E_IO, path, -1, "model.config",
                            "name the folder that holds config.json and model.safetensors",
                            "this is not a model folder: it has no config.json");
    return load_json(file, out, err);
}
