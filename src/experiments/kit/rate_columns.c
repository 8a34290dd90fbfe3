/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/rate_columns.h"

#include <math.h>

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
