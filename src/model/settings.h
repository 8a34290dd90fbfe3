/* settings.h : values of a configuration file, with a refusal that names the key. */
#ifndef ES_MODEL_SETTINGS_H
#define ES_MODEL_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <esscher/exec.h>

/* A parsed file and what messages need. Its memory is charged to the budget by a bound. */
typedef struct es_settings {
    json_t *root; /* an object */
    const char *path;
    es_budget *budget;
    size_t charged;
} es_settings;

/*! es_settings_open() : parse `bytes` bytes that hold one JSON object; a key twice is refused.
 *  @return : ES_OK; ES_E_FORMAT (tokenizer.json) with the byte; ES_E_LIMIT. */
es_status es_settings_open(es_settings *s, const char *data, size_t bytes, const char *path,
                           es_budget *budget, es_error *err);
void es_settings_close(es_settings *s);

/* Values of a key; where the key is missing or null *out stays as it is. Another type is
 * ES_E_FORMAT (tokenizer.key). */
es_status es_settings_bool(const es_settings *s, const json_t *object, const char *key, bool *out,
                           es_error *err);
es_status es_settings_int(const es_settings *s, const json_t *object, const char *key, int64_t *out,
                          es_error *err);
es_status es_settings_text(const es_settings *s, const json_t *object, const char *key,
                           const char **out, es_error *err);

es_status es_settings_fail(const es_settings *s, const char *key, const char *wanted,
                           es_error *err);

#endif
