/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_bound.c : the error that attention may have in a number format: THEORY 17. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "experiments/measure/oracle.h"

static const compare_format formats[] = {{"bf16", 0x1p-8, 0x1p-134, 0x1p-24, true},
                                         {"f16", 0x1p-11, 0x1p-25, 0x1p-24, true},
                                         {"f32", 0x1p-24, 0x1p-150, 0x1p-24, false},
                                         {"f64", 0x1p-53, 0.0, 0x1p-53, false}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

/* Formats of 8 bits, in which only inputs are stored. */
static const compare_format eights[] = {{"fp8 e4m3", 0x1p-4, 0x1p-10, 0x1p-24, true},
                                        {"fp8 e5m2", 0x1p-3, 0x1p-17, 0x1p-24, true}};

const compare_format *compare_format_of_eight(int64_t at) { return &eights[at]; }

const compare_format *compare_format_named(const char *name)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

/* Returns the nearest number whose last bit is 2u of its first, or 2 `least` if it is subnormal;
 * of two the even one. */
static double round_bits(const compare_format *f, double value)
{
    int exponent;
    frexp(value, &exponent);
    const double step = fmax(ldexp(f->unit, exponent), 2.0 * f->least);
    return rint(value / step) * step;
}

/* Rounds by way of f32, whose rounding is too fine to decide a tie of 16 bits but once in 2^13. */
double compare_round(const compare_format *f, double value)
{
    const float narrow = (float)value;
    if (f->unit > 0x1p-8)
        return round_bits(f, value);
    if (f->unit == 0x1p-8)
        return (double)es_bf16_to_float(es_bf16_from_float(narrow));
    if (f->unit == 0x1p-11)
        return (double)es_half_to_float(es_half_from_float(narrow));
    return f->unit == 0x1p-24 ? (double)narrow : value;
}

double compare_focus(double entropy, int64_t keys)
{
    return keys > 1 ? fmin(1.0, fmax(0.0, 1.0 - entropy / log((double)keys))) : 0.0;
}

double compare_quantile(int64_t rows) { return sqrt(2.0 * log(2.0 * (double)rows)); }

/* Returns the expected error of the whole row, as a length. */
static double length_of(const compare_format *f, const compare_row *r, double z)
{
    const double o = r->length, n = (double)r->keys;
    double error = f->unit * o + f->least * sqrt((double)r->cols); /* (C1) */
    if (f->weights)                                                /* (C2) */
        error += (f->unit + n * f->least) * (o + z / sqrt(3.0) * (r->spread + r->share * o));
    error += f->sums * (2.0 * o + z * (1.0 + 0.5 * r->reach) * r->spread); /* (C3) */
    error += z / sqrt(3.0) * expm1(2.0 * f->unit * r->stored) * r->spread; /* (C6) */
    return error +
           f->sums * (z * sqrt(n / 3.0) * (o + r->spread) + n / 16.0 * r->focus * o); /* (C4) */
}

double compare_expected(const compare_format *f, const compare_row *row, double z)
{
    const compare_format *ours = &formats[FORMATS - 1];
    return (length_of(f, row, z) + length_of(ours, row, z)) / sqrt((double)row->cols);
}

/* ---- which format ---- */

/* Returns whether the format represents all finite numbers exactly, and adds the count of those
 * that are not 0 to *evidence. */
static bool holds(const compare_format *f, const es_view *v, int64_t *evidence)
{
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j < v->cols; j++) {
            const double value = es_view_get(v, i, j);
            if (!isfinite(value) || value == 0.0)
                continue;
            if (compare_round(f, value) != value)
                return false;
            ++*evidence;
        }
    return true;
}

/* Finds the format from the numbers, not from the file: NumPy has no bfloat16, so such outputs are
 * stored wider. At least ENOUGH numbers must agree, because a few round ones fit any format. */
const compare_format *compare_format_of(const measure_state *s)
{
    enum { ENOUGH = 16 };
    const es_array_layout *l = &s->at[MEASURE_Y];
    const compare_format *file = compare_format_named(measure_ulps_of(s));
    if (s->p->compare_dtype >= 0)
        return compare_format_named(measure_dtypes[s->p->compare_dtype]);
    if (file->weights) /* of 16 bits: nothing is narrower */
        return file;
    for (const compare_format *f = formats; f < file; f++) {
        int64_t evidence = 0;
        bool all = true;
        for (int64_t h = 0; all && h < l->heads; h++) {
            const es_view v = es_array_head(&s->arrays[MEASURE_Y], l, h);
            all = holds(f, &v, &evidence);
        }
        if (all && evidence >= ENOUGH)
            return f;
    }
    return file;
}
