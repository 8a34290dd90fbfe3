/* st_writer.h : safetensors files for tests, well formed and otherwise. */
#ifndef ES_TESTS_ST_WRITER_H
#define ES_TESTS_ST_WRITER_H

#include "folder.h"

/* A file of the given header length, header text and `size` bytes of data (NULL: zeros). */
static inline const char *write_st_raw(const char *name, uint64_t length, const void *header,
                                       size_t header_size, const void *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> (8 * i) & 255), file);
    assert_int_equal(fwrite(header, 1, header_size, file), header_size);
    for (size_t i = 0; i < size; i++)
        fputc(data ? ((const unsigned char *)data)[i] : 0, file);
    assert_int_equal(fclose(file), 0);
    return path_of_file;
}

static inline const char *write_st(const char *header, const void *data, size_t size)
{
    return write_st_raw("x.safetensors", strlen(header), header, strlen(header), data, size);
}

#endif
