/* measure_compare.c : somebody else's output for the same inputs, judged by the f64 engine. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "study/measure_study.h"

/* Significant bits and smallest exponent of a number format. */
typedef struct format {
    const char *name;
    int bits, least;
} format;

static format format_of(const char *descr)
{
    static const struct spelling {
        const char *descr; /* NumPy's without its byte order, or that of safetensors */
        format format;
    } known[] = {{"f2", {"f16", 11, -14}},    {"f4", {"f32", 24, -126}}, {"f8", {"f64", 53, -1022}},
                 {"BF16", {"bf16", 8, -126}}, {"F16", {"f16", 11, -14}}, {"F32", {"f32", 24, -126}},
                 {"F64", {"f64", 53, -1022}}};
    enum { KNOWN = sizeof known / sizeof known[0] };
    int i = 0;
    while (i < KNOWN - 1 && !strstr(descr, known[i].descr))
        i++;
    return known[i].format;
}

static double ulp_of(const format *f, double value)
{
    int exponent = f->least;
    if (value != 0.0)
        exponent = ilogb(value) > f->least ? ilogb(value) : f->least;
    return ldexp(1.0, exponent - f->bits + 1);
}

/* What a head's rows add up to. */
typedef struct tally {
    double error, total; /* squared norms */
    double max_abs, max_ulps, worst;
    int64_t worst_row, nonfinite;
} tally;

static void add_row(tally *t, const format *f, const es_view *theirs, const double *ours,
                    int64_t row)
{
    double error = 0.0, total = 0.0;
    for (int64_t c = 0; c < theirs->cols; c++) {
        const double value = es_view_get(theirs, row, c), off = fabs(value - ours[c]);
        if (!isfinite(value)) {
            t->nonfinite++;
            continue;
        }
        error += off * off;
        total += ours[c] * ours[c];
        t->max_abs = fmax(t->max_abs, off);
        t->max_ulps = fmax(t->max_ulps, off / ulp_of(f, ours[c]));
    }
    t->error += error;
    t->total += total;
    const double relative = error > 0.0 ? sqrt(error / total) : 0.0;
    if (relative > t->worst || row == 0) {
        t->worst = relative;
        t->worst_row = row;
    }
}

es_status measure_compare(const measure_state *s, int64_t head, const double *ours, double *cell,
                          es_error *err)
{
    es_view theirs;
    ES_TRY(es_array_view(&s->arrays[MEASURE_Y], head, &theirs, err));
    const format f = format_of(s->info[MEASURE_Y].descr);
    tally t = {0};
    for (int64_t i = 0; i < measure_queries(s, 0); i++)
        add_row(&t, &f, &theirs, ours + i * s->dv, i);
    cell[MEASURE_THEIR_ERROR] = t.error;
    cell[MEASURE_THEIR_TOTAL] = t.total;
    cell[MEASURE_THEIR_MAX_ABS] = t.max_abs;
    cell[MEASURE_THEIR_MAX_ULPS] = t.max_ulps;
    cell[MEASURE_THEIR_WORST] = t.worst;
    cell[MEASURE_THEIR_WORST_ROW] = (double)t.worst_row;
    cell[MEASURE_THEIR_NONFINITE] = (double)t.nonfinite;
    return ES_OK;
}

const char *measure_ulps_of(const measure_state *s)
{
    return format_of(s->info[MEASURE_Y].descr).name;
}
