#include "stats/order.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void es_sort_reals(double *values, int64_t count)
{
    if (count > 1) /* there may be no values at all */
        qsort(values, (size_t)count, sizeof *values, ascending);
}

double es_median_of(const double *sorted, int64_t count)
{
    return count > 0 ? 0.5 * (sorted[count / 2] + sorted[(count - 1) / 2]) : (double)NAN;
}
