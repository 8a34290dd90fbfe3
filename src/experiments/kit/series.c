/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/series.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"

es_status es_series_new(es_arena *arena, int64_t replicates, int64_t points, es_series *out,
                        es_error *err)
{
    es_fit_summary *summary;
    unsigned *flags;
    double *errors, *at;
    ES_TRY(ES_ARENA_NEW_2D(arena, errors, replicates, points, "errors", err));
    ES_TRY(ES_ARENA_NEW(arena, at, points, "points", err));
    ES_TRY(ES_ARENA_NEW(arena, flags, points, "flags", err));
    ES_TRY(ES_ARENA_NEW(arena, summary, points, "means", err));
    *out = (es_series){.replicates = replicates,
                       .points = points,
                       .errors = errors,
                       .at = at,
                       .flags = flags,
                       .summary = summary};
    return ES_OK;
}

/* Returns true for failures that end a run. Any other failure of a fit concerns its points and is
 * reported in their row: one bad series must not waste a run of hours. */
static bool stops(es_status status) { return status == ES_E_LIMIT || status == ES_E_MEMORY; }

es_status es_series_means(es_series *s, es_error *err)
{
    es_rate ignored;
    const es_status status = es_fit_replicates(s->errors, s->replicates, s->points, s->at, NULL,
                                               NULL, s->summary, &ignored, err);
    return stops(status) ? status : ES_OK;
}

es_status es_series_fit(es_series *s, es_error *err)
{
    es_error why = {0};
    s->status = es_fit_replicates(s->errors, s->replicates, s->points, s->at, s->flags, NULL,
                                  s->summary, &s->rate, &why);
    snprintf(s->reason, sizeof s->reason, "%s", s->status == ES_OK ? "" : why.message);
    if (stops(s->status) && err)
        *err = why;
    return stops(s->status) ? s->status : ES_OK;
}

/* Predictions have no errors of their own to weigh them by. With the weights of what was
 * measured, the fit of a prediction and the fit of the measurement see the same points alike,
 * and their rates can be compared; without that, curvature alone would make them differ. */
double es_series_rate_with(const es_series *s, const double *numbers, const double *se)
{
    es_fit line;
    es_fit_point *points;
    if (ES_MEM_NEW(NULL, points, s->points, "points", NULL) != ES_OK)
        return (double)NAN;
    for (int64_t i = 0; i < s->points; i++)
        points[i] =
            (es_fit_point){.n = s->at[i], .error = numbers[i], .se = se[i], .flags = s->flags[i]};
    const es_status status = es_fit_power(points, s->points, &line, NULL);
    es_mem_free(NULL, points);
    return status == ES_OK ? line.rate : (double)NAN;
}

double es_series_rate_even(const es_series *s, const double *numbers, double relative)
{
    double *se;
    if (ES_MEM_NEW(NULL, se, s->points, "points", NULL) != ES_OK)
        return (double)NAN;
    for (int64_t i = 0; i < s->points; i++) {
        const es_fit_summary *m = &s->summary[i];
        const double own = isfinite(m->se) && m->mean > 0.0 ? m->se / m->mean : 1.0;
        se[i] = numbers[i] * (isnan(relative) ? own : relative);
    }
    const double rate = es_series_rate_with(s, numbers, se);
    es_mem_free(NULL, se);
    return rate;
}

double es_series_rate(const es_series *s, const double *numbers)
{
    return es_series_rate_even(s, numbers, (double)NAN);
}
