/* ball.h : the parts of `esscher ball`. */
#ifndef CLI_BALL_H
#define CLI_BALL_H

#include <esscher/ball.h>

#include "command.h"

/* What was asked, what theory says and what has been measured. */
typedef struct ball_job {
    cli_session *session;
    es_ball_spec spec;
    int64_t replicates;
    double h1;                   /* H1 = |S^{1/2} A| */
    es_ball_constant *constants; /* (radii) of the worst single query */
    es_num *sups;                /* (radii) of the supremum, in at most 2 dimensions; else NaN */
    es_ball_cell *cells;         /* (replicates, sizes, radii) */
} ball_job;

/* Put "rows", "fits" and "growth" into the answer. */
es_status ball_answer(const ball_job *job, es_error *err);

extern const cli_table ball_rows_table, ball_fits_table, ball_growth_table;

#endif
