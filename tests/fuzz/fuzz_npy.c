/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c : any bytes at all, read as an .npy file. What is accepted must hold together. */
#include <stdint.h>
#include <stdlib.h>

#include "store/npy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    es_error err = {0};
    es_npy_layout layout;
    size_t extent = 0;
    es_status status = es_npy_extent(data, size < ES_NPY_PREFIX ? size : ES_NPY_PREFIX, size,
                                     "fuzz", &extent, &err);
    if (status == ES_OK) {
        require(extent <= size);
        /* both ways of reading what is no floating-point number, one or the other by the size */
        const es_npy_raw raw = size % 2 ? ES_NPY_RAW_WHOLE : ES_NPY_RAW_BF16;
        status = es_npy_parse(data, extent, size, "fuzz", raw, &layout, &err);
    }
    if (status != ES_OK) { /* every refusal says which rule, where, in the file */
        require(status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(err.offset >= 0 && err.offset <= (int64_t)size);
        return 0;
    }

    const es_npy_info *info = &layout.info;
    require(info->rank >= 1 && info->rank <= ES_ARRAY_RANK);
    int64_t count = 1;
    for (int i = 0; i < ES_ARRAY_RANK; i++)
        count *= info->shape[i];
    require(count == layout.count && layout.data_offset + (uint64_t)count * layout.item == size);
    require(info->bytes == count * (int64_t)es_dtype_size(info->dtype));

    void *numbers = malloc(info->bytes ? (size_t)info->bytes : 1);
    require(numbers != NULL);
    es_npy_decode(&layout, data + layout.data_offset, (size_t)count, numbers);
    free(numbers);
    return 0;
}
