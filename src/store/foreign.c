#include "store/foreign.h"

#include <string.h>

#define SAVE "save arrays one by one with np.save, weights with safetensors.torch.save_file"

/* A string of first bytes, which may hold zeros, and how many they are. */
#define BYTES(text) (text), sizeof(text) - 1

static const struct {
    char bytes[ES_FOREIGN_PREFIX]; /* a compiler refuses longer ones */
    size_t size;
    es_foreign file;
} known[] = {
    {BYTES("PK\x03\x04"), {"a zip archive, perhaps an .npz, or a .bin or .pt of PyTorch", SAVE}},
    {BYTES("PK\x05\x06"), {"an empty zip archive", SAVE}},
    {BYTES("\x89HDF\r\n\x1a\n"), {"an HDF5 file, perhaps of Keras", SAVE}},
    {BYTES("GGUF"), {"a GGUF model file", "use the checkpoint it was made from, in safetensors"}},
    {BYTES("GGML"), {"a GGML model file", "use the checkpoint it was made from, in safetensors"}},
    {BYTES("\x93NUMPY"), {"an .npy file", "weights come as safetensors"}},
    {BYTES("\x1f\x8b"), {"gzip data", "unpack it with gunzip first"}},
    {BYTES("\x28\xb5\x2f\xfd"), {"zstd data", "unpack it with unzstd first"}},
    {BYTES("version https://git-lfs"), {"a Git LFS pointer", "git lfs pull"}},
    {BYTES("<!DOCTYPE html"), {"a web page", "download the file itself"}},
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
