#include "model/settings.h"

#include "base/error.h"
#include "base/memory.h"

/* An empty array is the most memory for its text: three bytes become some 130 in jansson 2.14. */
enum { MEMORY_PER_BYTE = 48 };

es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_budget *budget, es_error *err)
{
    json_error_t error;
    *s = (es_settings){.path = path, .budget = budget};
    ES_TRY(es_budget_charge(budget, bytes * MEMORY_PER_BYTE, "JSON", err));
    s->charged = bytes * MEMORY_PER_BYTE;
    s->root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (s->root && json_is_object(s->root))
        return ES_OK;
    const bool parsed = s->root != NULL;
    es_settings_close(s);
    if (parsed)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "tokenizer.json", "expected { ... }",
                            "the file holds JSON, but no object");
    return es_fail_file(err, ES_E_FORMAT, path, error.position, "tokenizer.json",
                        "check that the file is whole", "not JSON: line %d: %s", error.line,
                        error.text);
}

void es_settings_close(es_settings *s)
{
    json_decref(s->root);
    es_budget_release(s->budget, s->charged);
    *s = (es_settings){0};
}

es_status es_settings_fail(const es_settings *s, const char *key, const char *wanted, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, s->path, -1, "tokenizer.key",
                        "compare with a file that Hugging Face's tokenizers wrote",
                        "\"%s\" is not %s", key, wanted);
}

es_status es_settings_bool(const es_settings *s, const json_t *object, const char *key, bool *out,
                           es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_boolean(value))
        return es_settings_fail(s, key, "true or false", err);
    *out = json_is_true(value);
    return ES_OK;
}

es_status es_settings_int(const es_settings *s, const json_t *object, const char *key, int64_t *out,
                          es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_integer(value))
        return es_settings_fail(s, key, "a whole number", err);
    *out = json_integer_value(value);
    return ES_OK;
}

es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return ES_OK;
    if (!json_is_string(value))
        return es_settings_fail(s, key, "a string", err);
    *out = json_string_value(value);
    return ES_OK;
}
