#include "study/answer_kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void es_put_pairs(es_table *table, int64_t row, const char *prefix, const es_pair *pairs,
                  size_t count)
{
    char key[ES_KEY_ROOM];
    for (size_t i = 0; i < count; i++)
        es_table_real(table, row, es_key(key, prefix, pairs[i].key), pairs[i].value);
}

void es_put_at(es_table *table, int64_t row, const char *key, int64_t at, double value)
{
    char name[ES_KEY_ROOM];
    snprintf(name, sizeof name, "%s.%lld", key, (long long)at);
    es_table_real(table, row, name, value);
}

/* Labels are kept with the job: the table points at them until it is written. */
es_status es_put_each(es_job *job, es_table *table, const char *key, const double *values,
                      int64_t count, es_error *err)
{
    enum { ROOM = 24 };
    const char **labels;
    char *texts;
    ES_TRY(es_job_array(job, count, sizeof *labels, 1, &labels, err));
    ES_TRY(es_job_array(job, count, ROOM, 1, &texts, err));
    for (int64_t i = 0; i < count; i++) {
        labels[i] = texts + i * ROOM;
        snprintf(texts + i * ROOM, ROOM, "%.6g", values[i]);
    }
    es_table_each(table, key, labels, count);
    return ES_OK;
}

es_status es_job_tick(const es_job *job, int64_t done, int64_t total)
{
    return job->exec.progress(job->exec.progress_user, (double)done, (double)total)
               ? ES_E_INTERRUPTED
               : ES_OK;
}

const char *es_say_number(double value, double error, char out[ES_SAY_ROOM])
{
    return es_format_number(isfinite(error) ? ES_FORMAT_REAL : ES_FORMAT_SHORT, value, error, out,
                            ES_SAY_ROOM);
}

/* "3.2e8": three digits and the power of ten. The small term keeps log10 of an exact power from
 * falling just below it; what rounds up to ten is the next power. */
static void say_large(double n, char out[ES_SAY_ROOM])
{
    double power = floor(log10(n) + 1e-9);
    if (n / pow(10.0, power) >= 9.995)
        power += 1.0;
    snprintf(out, ES_SAY_ROOM, "%.3ge%.0f", n / pow(10.0, power), power);
}

/* Seven digits are still read at a glance; beyond them people count zeros. */
const char *es_say_size(double n, char out[ES_SAY_ROOM])
{
    const bool whole = n == floor(n);
    if (isfinite(n) && n >= (whole ? 1e7 : 9.995e6))
        say_large(n, out);
    else if (whole)
        snprintf(out, ES_SAY_ROOM, "%.0f", n);
    else if (n >= 99.95) {
        const double unit = pow(10.0, floor(log10(n)) - 2.0);
        snprintf(out, ES_SAY_ROOM, "%.0f", unit * round(n / unit));
    } else
        snprintf(out, ES_SAY_ROOM, "%.3g", n);
    return out;
}

const char *es_say_power(double rate, double error, char out[ES_SAY_ROOM])
{
    char text[ES_FORMAT_ROOM];
    if (!isfinite(rate)) {
        snprintf(out, ES_SAY_ROOM, "no power that could be fitted");
        return out;
    }
    es_format_number(ES_FORMAT_REAL, fabs(rate), error, text, sizeof text);
    char *after = strstr(text, " ±");
    if (after)
        *after++ = '\0';
    snprintf(out, ES_SAY_ROOM, "n^%s%s%s%s%s", rate < 0.0 ? "" : "-", text, after ? " (" : "",
             after ? after : "", after ? ")" : "");
    return out;
}
