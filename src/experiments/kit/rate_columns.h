/* SPDX-License-Identifier: Apache-2.0 */
/* rate_columns.h : a fitted rate as columns of a row: value with its error, interval, test of the
 * power law, and the reason where there is no rate.
 *
 *     typedef struct my_row { es_rate_cells rate_map; } my_row;
 *     static const es_column columns[] = {ES_RATE_COLUMNS(my_row, rate_map, "map rate", NULL),
 * {0}}; es_rate_cells_fill(&row->rate_map, &series, table);
 */
#ifndef ES_EXPERIMENTS_KIT_RATE_COLUMNS_H
#define ES_EXPERIMENTS_KIT_RATE_COLUMNS_H

#include <esscher/table.h>

#include "experiments/kit/series.h"

/* The columns of a fitted rate. */
typedef struct es_rate_cells {
    es_measured rate;   /* the error falls like n^-rate */
    double low, high;   /* 95 % interval */
    double p;           /* of an exact power law */
    const char *reason; /* why there is no rate; NULL where there is one */
} es_rate_cells;

#define ES_RATE_INTERVAL "95 % interval, Student's t over replicates"
#define ES_RATE_P                                                                                  \
    "probability that an exact power law bends more than this on this range; none with fewer "     \
    "than 4 draws"
#define ES_RATE_REASON "why there is no rate"

/* Columns of the member `member` of a row: MEMBER, MEMBER_se, MEMBER_ci.0, MEMBER_ci.1, MEMBER_p,
 * MEMBER_reason. */
#define ES_RATE_COLUMNS(row, member, title_, definition_)                                          \
    ES_COL_KEY(row, member.rate, #member, ES_FORMAT_REAL, title_, "", definition_),                \
        ES_COL_KEY(row, member.low, #member "_ci.0", ES_FORMAT_REAL, title_ " from", "",           \
                   ES_RATE_INTERVAL),                                                              \
        ES_COL_KEY(row, member.high, #member "_ci.1", ES_FORMAT_REAL, title_ " to", ""),           \
        ES_COL_KEY(row, member.p, #member "_p", ES_FORMAT_SHORT, title_ " p", "", ES_RATE_P),      \
        ES_COL_KEY(row, member.reason, #member "_reason", ES_FORMAT_TEXT, title_ " reason", "",    \
                   ES_RATE_REASON)

/*! es_rate_cells_fill() : fills the cells from a fitted series. Without a rate, `rate` is NaN,
 *  `reason` says why, and the rest stays unset. `table` is that of the row. */
void es_rate_cells_fill(es_rate_cells *cells, const es_series *series, es_table *table);

#endif
