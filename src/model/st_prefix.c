/* st_prefix.c : the first bytes of a safetensors file: is it one, and how long is its header? */
#include "base/error.h"
#include "model/st_header.h"

static const char anew[] = "write or download the file anew";

/* Called for files that cannot be safetensors. */
static es_status check_magic(const unsigned char *bytes, size_t have, const char *file,
                             es_error *err)
{
    const es_foreign other = es_foreign_of(bytes, have);
    return other.name ? es_fail_file(err, ES_E_UNSUPPORTED, file, 0, "safetensors.other",
                                     other.hint, "this is %s, not a safetensors file", other.name)
                      : ES_OK;
}

es_status es_st_host(bool little_endian, const char *file, es_error *err)
{
    return little_endian ? ES_OK
                         : es_fail_file(err, ES_E_UNSUPPORTED, file, -1, "safetensors.host",
                                        "use a little-endian machine",
                                        "safetensors are little-endian, this machine is not");
}

es_status es_st_extent(const unsigned char *bytes, size_t have, uint64_t file_size,
                       const char *file, const es_st_opts *opts, uint64_t *extent, es_error *err)
{
    const uint64_t most = opts->header_most ? opts->header_most : 100000000;
    uint64_t size = 0;
    if (have < 9 || bytes[8] != '{')
        ES_TRY(check_magic(bytes, have, file, err));
    if (file_size < 8)
        return es_fail_file(err, ES_E_FORMAT, file, (int64_t)file_size, "safetensors.short", anew,
                            "the file has %d bytes; the length of its header takes 8",
                            (int)file_size);
    for (int i = 7; i >= 0; i--)
        size = size << 8 | bytes[i];
    if (size > file_size - 8) {
        ES_TRY(check_magic(bytes, have, file, err)); /* e.g. GGUF with 123 tensors: '{' is 123 */
        return es_fail_file(err, ES_E_FORMAT, file, 0, "safetensors.header.size", anew,
                            "the header claims %llu bytes, the file has %llu after its length",
                            (unsigned long long)size, (unsigned long long)(file_size - 8));
    }
    if (size > most)
        return es_fail_file(err, ES_E_FORMAT, file, 0, "safetensors.header.limit",
                            "raise the limit if you trust the file",
                            "the header has %llu bytes; the most accepted is %llu",
                            (unsigned long long)size, (unsigned long long)most);
    if (size < 2 || bytes[8] != '{')
        return es_fail_file(err, ES_E_FORMAT, file, 8, "safetensors.header.begin", anew,
                            size < 2 ? "the header has %d bytes; the shortest is {}"
                                     : "the header begins with byte 0x%02x, not with '{'",
                            size < 2 ? (int)size : bytes[8]);
    *extent = 8 + size;
    return ES_OK;
}
