/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c : any bytes at all, read as a safetensors file. What is accepted must hold
 * together. */
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

/* Every refusal says which rule, where, in the file. */
static void check_refusal(es_status status, const es_error *err, size_t size)
{
    require(status == err->code && err->rule[0] && err->message[0] && err->hint[0]);
    require(err->offset >= 0 && err->offset <= (int64_t)size);
}

static void check_tensors(const es_st_tensor *tensors, int64_t count, const uint8_t *data,
                          size_t extent, size_t size)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        const es_st_tensor *t = &tensors[i];
        const es_st_kind *kind = es_st_kind_of(t->dtype);
        require(i == 0 || strcmp(tensors[i - 1].name, t->name) < 0);
        require(t->offset >= extent && t->offset + t->bytes <= size && t->rank <= ES_ST_RANK);
        total += t->bytes;
        if (!kind || kind->what)
            continue;
        require((uint64_t)t->count * (uint64_t)kind->bits / 8 == t->bytes);
        double *numbers = malloc((size_t)t->count * sizeof *numbers + 1);
        es_st_seen seen = {.first = -1};
        require(numbers != NULL);
        es_st_decode(t->dtype, data + t->offset, 0, t->count, ES_F64, numbers, &seen);
        require((seen.first >= 0) == (seen.nans + seen.infinities > 0));
        free(numbers);
    }
    require(extent + total == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const es_st_opts opts = {0};
    es_error err = {0};
    uint64_t extent = 0;
    es_st_tensor *tensors;
    int64_t count;
    es_status status = es_st_extent(data, size < ES_ST_PREFIX ? size : ES_ST_PREFIX, size, "fuzz",
                                    &opts, &extent, &err);
    if (status != ES_OK) {
        check_refusal(status, &err, size);
        return 0;
    }
    require(extent <= size);
    unsigned char *header = malloc(extent);
    require(header != NULL);
    memcpy(header, data, extent);
    status = es_st_parse(header, extent, size, "fuzz", &opts, &tensors, &count, &err);
    if (status != ES_OK)
        check_refusal(status, &err, size);
    else
        check_tensors(tensors, count, data, extent, size);
    es_mem_free(NULL, tensors);
    free(header);
    return 0;
}
