/* st_dtype.c : dtypes of safetensors, and their numbers as f32 or f64. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "model/st_header.h"

/* ---- dtypes ---- */

static const es_st_kind kinds[] = {
    {"F32", 32, NULL},
    {"F16", 16, NULL},
    {"BF16", 16, NULL},
    {"F64", 64, NULL},
    {"BOOL", 8, "booleans"},
    {"U8", 8, "integers"},
    {"I8", 8, "integers"},
    {"U16", 16, "integers"},
    {"I16", 16, "integers"},
    {"U32", 32, "integers"},
    {"I32", 32, "integers"},
    {"U64", 64, "integers"},
    {"I64", 64, "integers"},
    {"C64", 64, "complex numbers"},
    {"F8_E4M3", 8, "8-bit floats"},
    {"F8_E5M2", 8, "8-bit floats"},
    {"F8_E8M0", 8, "8-bit floats"},
    {"F6_E2M3", 6, "6-bit floats"},
    {"F6_E3M2", 6, "6-bit floats"},
    {"F4", 4, "4-bit floats"},
};

const es_st_kind *es_st_kind_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, dtype) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* ---- numbers ---- */

/* A bfloat16 is the upper half of a float. */
static float bfloat_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Note what is odd about the number with this index; `least` is the smallest normal number of the
 * dtype it has in the file. */
static void look(double value, double least, int64_t index, es_st_seen *seen)
{
    if (isfinite(value)) {
        seen->subnormals += value != 0.0 && fabs(value) < least;
        return;
    }
    if (isnan(value))
        seen->nans++;
    else
        seen->infinities++;
    if (seen->first < 0)
        seen->first = index;
}

static void put(es_dtype dtype, void *out, int64_t i, double value)
{
    if (dtype == ES_F32)
        ((float *)out)[i] = (float)value; /* exact: only F64 has more digits, and it is refused */
    else
        ((double *)out)[i] = value;
}

/* memcpy: the data of a safetensors file may begin at any byte. */
void es_st_decode(const char *from, const unsigned char *raw, int64_t first, int64_t count,
                  es_dtype dtype, void *out, es_st_seen *seen)
{
    const bool half = strcmp(from, "F16") == 0, bfloat = strcmp(from, "BF16") == 0;
    const double least = half ? 0x1p-14 : strcmp(from, "F64") == 0 ? 0x1p-1022 : 0x1p-126;
    for (int64_t i = 0; i < count; i++) {
        double value;
        if (half || bfloat) {
            uint16_t bits;
            memcpy(&bits, raw + 2 * i, sizeof bits);
            value = (double)(half ? es_half_to_float(bits) : bfloat_to_float(bits));
        } else if (least > 0x1p-1000) {
            float bits;
            memcpy(&bits, raw + 4 * i, sizeof bits);
            value = (double)bits;
        } else {
            memcpy(&value, raw + 8 * i, sizeof value);
        }
        look(value, least, first + i, seen);
        put(dtype, out, i, value);
    }
}
