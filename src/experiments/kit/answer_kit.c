/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/answer_kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "table/table.h"

es_status es_label_columns(es_job *job, es_table *table, const char *key, const double *values,
                           int64_t count, es_error *err)
{
    enum { SIZE = 24 };
    const char **labels;
    char *texts;
    ES_TRY(ES_JOB_NEW(job, labels, count, err));
    ES_TRY(ES_JOB_NEW_2D(job, texts, count, SIZE, err));
    for (int64_t i = 0; i < count; i++) {
        labels[i] = texts + i * SIZE;
        snprintf(texts + i * SIZE, SIZE, "%.6g", values[i]);
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

const char *es_say_number(double value, double error, char out[ES_SAY_SIZE])
{
    return es_format_number(isfinite(error) ? ES_FORMAT_REAL : ES_FORMAT_SHORT, value, error, out,
                            ES_SAY_SIZE);
}

const char *es_say_size(double n, char out[ES_SAY_SIZE])
{
    return es_format_size(n, out, ES_SAY_SIZE);
}

const char *es_say_power(double rate, double error, char out[ES_SAY_SIZE])
{
    char text[ES_FORMAT_SIZE];
    if (!isfinite(rate)) {
        snprintf(out, ES_SAY_SIZE, "no power that could be fitted");
        return out;
    }
    es_format_number(ES_FORMAT_REAL, fabs(rate), error, text, sizeof text);
    char *after = strstr(text, " ±");
    if (after)
        *after++ = '\0';
    snprintf(out, ES_SAY_SIZE, "n^%s%s%s%s%s", rate < 0.0 ? "" : "-", text, after ? " (" : "",
             after ? after : "", after ? ")" : "");
    return out;
}
