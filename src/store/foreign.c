#include "store/foreign.h"

#include <string.h>

#define SAVE "save arrays one by one with np.save, weights with safetensors.torch.save_file"

static const struct {
    const char *bytes;
    size_t size;
    es_foreign file;
} known[] = {
    {"PK\x03\x04", 4, {"a zip archive, perhaps an .npz, or a .bin or .pt of PyTorch", SAVE}},
    {"PK\x05\x06", 4, {"an empty zip archive", SAVE}},
    {"\x89HDF\r\n\x1a\n", 8, {"an HDF5 file, perhaps of Keras", SAVE}},
    {"GGUF", 4, {"a GGUF model file", "use the checkpoint it was made from, in safetensors"}},
    {"GGML", 4, {"a GGML model file", "use the checkpoint it was made from, in safetensors"}},
    {"\x93NUMPY", 6, {"an .npy file", "weights come as safetensors"}},
    {"\x1f\x8b", 2, {"gzip data", "unpack it with gunzip first"}},
    {"\x28\xb5\x2f\xfd", 4, {"zstd data", "unpack it with unzstd first"}},
    {"version https://g", 16, {"a Git LFS pointer", "git lfs pull"}},
    {"<!DOCTYPE html", 14, {"a web page", "download the file itself"}},
};

es_foreign es_foreign_of(const unsigned char *bytes, size_t have)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (have >= known[i].size && memcmp(bytes, known[i].bytes, known[i].size) == 0)
            return known[i].file;
    if (have >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5)
        return (es_foreign){"a Python pickle, perhaps a .bin or .pt of old",
                            "a pickle runs code when it is read; " SAVE};
    return (es_foreign){NULL, ""};
}
