/* Somebody else's output for the same inputs, judged by the f64 engine. */
#include <math.h>
#include <string.h>

#include "measure.h"

static const cli_column columns[] = {
    {"head", "head", "", .format = CLI_COUNT},
    {"rows", "rows", "", .format = CLI_COUNT},
    {"relative_l2", "relative L2", "", .format = CLI_SHORT,
     .definition = "|theirs - ours| / |ours| over the whole head"},
    {"rms", "rms error", "", .format = CLI_SHORT, .definition = "root mean square over elements"},
    {"max_abs", "max error", "", .format = CLI_SHORT},
    {"max_ulps", "max error", "ulp", .format = CLI_SHORT,
     .definition = "in units in the last place of our value, in the number format of their file"},
    {"worst_row", "worst row", "", .format = CLI_COUNT,
     .definition = "the query with the largest relative error of its output row"},
    {"worst_row_relative", "its error", "", .format = CLI_SHORT},
    {"nonfinite", "NaN, Inf", "", .format = CLI_COUNT,
     .definition = "elements of theirs that are no finite number"},
    {0}};

const cli_table measure_compare_table = {
    .rows = "compare.heads", .title = "Their output against ours (f64 engine)", .columns = columns};

static const cli_column verdict_columns[] = {
    {"relative_l2", "relative L2, all heads", "", .format = CLI_SHORT},
    {"tolerance", "tolerance", "", .format = CLI_SHORT},
    {"passed", "within it", "", .format = CLI_TEXT},
    {0}};

const cli_table measure_verdict_table = {
    .rows = "compare", .title = "Verdict", .columns = verdict_columns};

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

es_status measure_compare(measure_job *job, int64_t head, json_t *heads, es_error *err)
{
    es_view theirs;
    const es_status status = es_array_view(&job->arrays[MEASURE_Y], head, &theirs, err);
    if (status != ES_OK)
        return status;
    const format f = format_of(job->info[MEASURE_Y].descr);
    const int64_t rows = measure_queries(job, 0);
    tally t = {0};
    for (int64_t i = 0; i < rows; i++)
        add_row(&t, &f, &theirs, job->out.output + i * job->dv, i);

    const double unknown = t.nonfinite ? (double)NAN : 0.0; /* no norm of what is not a number */
    const double elements = (double)rows * (double)job->dv;
    json_t *row = json_object();
    json_object_set_new(row, "head", json_integer(head));
    json_object_set_new(row, "rows", json_integer(rows));
    json_object_set_new(row, "relative_l2",
                        cli_real((t.error > 0.0 ? sqrt(t.error / t.total) : 0.0) + unknown));
    json_object_set_new(row, "rms", cli_real(sqrt(t.error / elements) + unknown));
    json_object_set_new(row, "max_abs", cli_real(t.max_abs + unknown));
    json_object_set_new(row, "max_ulps", cli_real(t.max_ulps + unknown));
    json_object_set_new(row, "worst_row", json_integer(t.worst_row));
    json_object_set_new(row, "worst_row_relative", cli_real(t.worst + unknown));
    json_object_set_new(row, "nonfinite", json_integer(t.nonfinite));
    json_array_append_new(heads, row);
    job->compare_error += t.error + unknown;
    job->compare_total += t.total;
    return ES_OK;
}

void measure_compare_answer(measure_job *job, json_t *heads)
{
    const double tolerance = job->o->tolerance;
    const double error =
        job->compare_error == 0.0 ? 0.0 : sqrt(job->compare_error / job->compare_total);
    json_t *compare = json_object();
    json_object_set_new(compare, "relative_l2", cli_real(error));
    json_object_set_new(compare, "ulp_format",
                        json_string(format_of(job->info[MEASURE_Y].descr).name));
    json_object_set_new(compare, "tolerance", cli_real(tolerance));
    const bool passed = error <= tolerance; /* false for NaN */
    json_object_set_new(compare, "passed", isnan(tolerance) ? json_null() : json_boolean(passed));
    json_object_set_new(compare, "heads", heads);
    json_object_set_new(job->session->answer, "compare", compare);
    job->session->check_failed = !isnan(tolerance) && !passed;
    if (job->session->check_failed)
        fprintf(stderr,
                "esscher measure: check failed: relative L2 error %.3g is above --tolerance %.3g\n",
                error, tolerance);
}
