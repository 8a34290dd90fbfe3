/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cache_text.c : any text as an eviction policy and as a number type. What is accepted can be
 * written and read again; what is refused says which rule. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void try_policy(const char *text)
{
    es_evict_spec spec, again;
    es_error err = {0};
    char written[512];
    if (es_evict_parse(text, &spec, &err) != ES_OK) {
        require(err.rule[0] != '\0');
        return;
    }
    es_evict_write(&spec, written, sizeof written);
    require(es_evict_parse(written, &again, &err) == ES_OK && es_evict_same(&spec, &again));
    spec.keys = 7;
    const es_evict_spec full = es_evict_resolve(&spec, ES_EVICT_PROMPT);
    require(full.sinks >= 0 && full.recent >= 0 && full.window >= 0);
}

static void try_type(const char *text)
{
    es_kv_format format, again;
    es_error err = {0};
    char written[ES_KV_NAME];
    if (es_kv_format_parse(text, &format, &err) != ES_OK) {
        require(err.rule[0] != '\0');
        return;
    }
    es_kv_format_name(&format, written, sizeof written);
    require(es_kv_format_parse(written, &again, &err) == ES_OK);
    require(again.type == format.type && again.hadamard == format.hadamard &&
            again.group == format.group && again.residual == format.residual);
    require(es_kv_format_bits(&format, ES_KV_KEYS, 80) > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    try_policy(text);
    try_type(text);
    free(text);
    return 0;
}
