/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_theirs.c : another program's output of a head against the f64 engine's, and against the
 * error to be expected. */
#include <math.h>
#include <string.h>

#include "experiments/measure/oracle.h"

/* Significant bits and smallest exponent of a number format. */
typedef struct ulp_format {
    const char *name;
    int bits, least;
} ulp_format;

/* Returns the number format of a file. */
static ulp_format format_of(const char *descr)
{
    static const struct spelling {
        const char *descr; /* NumPy's without its byte order, or that of safetensors */
        ulp_format format;
    } known[] = {{"f2", {"f16", 11, -14}},    {"f4", {"f32", 24, -126}}, {"f8", {"f64", 53, -1022}},
                 {"BF16", {"bf16", 8, -126}}, {"F16", {"f16", 11, -14}}, {"F32", {"f32", 24, -126}},
                 {"F64", {"f64", 53, -1022}}};
    enum { KNOWN = sizeof known / sizeof known[0] };
    int i = 0;
    while (i < KNOWN - 1 && !strstr(descr, known[i].descr))
        i++;
    return known[i].format;
}

/* Returns the unit in the last place of a value. */
static double ulp_of(const ulp_format *f, double value)
{
    int exponent = f->least;
    if (value != 0.0)
        exponent = ilogb(value) > f->least ? ilogb(value) : f->least;
    return ldexp(1.0, exponent - f->bits + 1);
}

/* Adds a row of theirs to the numbers of the head. */
static void add_row(measure_their *t, const ulp_format *f, const es_view *theirs,
                    const double *ours, int64_t row, double expected)
{
    const double before = t->nonfinite;
    double error = 0.0, total = 0.0;
    for (int64_t c = 0; c < theirs->cols; c++) {
        const double value = es_view_get(theirs, row, c), off = fabs(value - ours[c]);
        if (!isfinite(value)) {
            if (t->nonfinite++ == 0.0) {
                t->nonfinite_row = (double)row;
                t->nonfinite_col = (double)c;
            }
            continue;
        }
        error += off * off;
        total += ours[c] * ours[c];
        t->max_abs = fmax(t->max_abs, off);
        t->max_ulps = fmax(t->max_ulps, off / ulp_of(f, ours[c]));
    }
    t->error += error;
    t->allowed += expected * expected * (double)theirs->cols;
    t->total += total;
    const double relative = error > 0.0 ? sqrt(error / total) : 0.0;
    if (relative > t->worst || row == 0) {
        t->worst = relative;
        t->worst_row = (double)row;
    }
    const double off = sqrt(error / (double)theirs->cols);
    const double ratio = t->nonfinite > before ? (double)INFINITY
                         : off > 0.0           ? off / expected
                                               : 0.0;
    t->largest = fmax(t->largest, off);
    t->beyond += ratio > 1.0;
    if (ratio > t->ratio || row == 0) {
        t->ratio = ratio;
        t->expected = expected;
        t->expected_row = (double)row;
    }
}

const char *measure_ulps_of(const measure_state *s)
{
    return format_of(s->info[MEASURE_Y].descr).name;
}

/* Returns the sum of squares. */
static double squares_of(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Returns the length of a row. */
static double row_length(const es_view *v, int64_t row)
{
    double sum = 0.0;
    for (int64_t j = 0; j < v->cols; j++)
        sum += es_view_get(v, row, j) * es_view_get(v, row, j);
    return sqrt(sum);
}

measure_their compare_head(const measure_state *s, int64_t head, const es_attend_out *out)
{
    const int64_t queries = measure_queries(s, 0);
    const es_view theirs = es_array_head(&s->arrays[MEASURE_Y], &s->at[MEASURE_Y], head);
    const ulp_format f = format_of(s->info[MEASURE_Y].descr);
    const double z = compare_quantile(s->heads * queries);
    double longest = 0.0;
    measure_their t = {0};
    es_view views[3];
    measure_views(s, head, views);
    for (int64_t j = 0; j < s->opts.prefixes[0]; j++)
        longest = fmax(longest, row_length(&views[MEASURE_K], j));
    for (int64_t i = 0; i < queries; i++) {
        const double *ours = out->output + i * s->dv;
        const int64_t keys = measure_seen(s, i, 0);
        const compare_row row = {.length = sqrt(squares_of(ours, s->dv)),
                                 .spread = sqrt(fmax(out->spread2[i], 0.0)),
                                 .share = sqrt(out->sum_squares[i]),
                                 .reach =
                                     s->opts.scales[0] * row_length(&views[MEASURE_Q], i) * longest,
                                 .focus = compare_focus(out->entropy[i], keys),
                                 .keys = keys,
                                 .cols = s->dv};
        add_row(&t, &f, &theirs, ours, i, compare_expected(s->their_format, &row, z));
    }
    return t;
}
