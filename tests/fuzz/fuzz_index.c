/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index.c : any text as the index of a sharded checkpoint. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/safetensors_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    es_error err = {0};
    es_st_place *places;
    int64_t count;
    unsigned char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    const es_status status = es_st_index_parse(text, size, "fuzz", NULL, &places, &count, &err);
    if (status != ES_OK) {
        require(status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(err.offset <= (int64_t)size && !places);
    } else {
        require(count >= 1);
        for (int64_t i = 0; i < count; i++) {
            require(!strchr(places[i].shard, '/') && places[i].shard[0] != '.');
            require(i == 0 || strcmp(places[i - 1].shard, places[i].shard) < 0 ||
                    strcmp(places[i - 1].tensor, places[i].tensor) < 0);
        }
    }
    es_mem_free(NULL, places);
    free(text);
    return 0;
}
