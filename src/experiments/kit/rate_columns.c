/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/rate_columns.h"

#include <math.h>

#include "experiments/kit/answer_kit.h"
#include "table/table.h"

void es_rate_cells_fill(es_rate_cells *cells, const es_series *series, es_table *table)
{
    if (series->status != ES_OK) {
        cells->rate.value = (double)NAN;
        cells->reason = es_table_format(table, "%s", series->reason);
        return;
    }
    cells->rate = (es_measured){series->rate.mean.rate, series->rate.se};
    cells->low = series->rate.low;
    cells->high = series->rate.high;
    cells->p = series->rate.power_p;
}

void es_put_rate(es_table *table, int64_t row, const char *name, const es_series *series)
{
    char key[ES_KEY_ROOM];
    if (series->status != ES_OK) {
        es_table_real(table, row, name, (double)NAN);
        es_table_text(table, row, es_key(key, name, "_reason"), series->reason);
        return;
    }
    es_put_under(table, row, name, {"", series->rate.mean.rate}, {"_se", series->rate.se},
                 {"_ci.0", series->rate.low}, {"_ci.1", series->rate.high},
                 {"_p", series->rate.power_p});
}
