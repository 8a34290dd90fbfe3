/* collapse.h : the parts of esscher collapse.
 *
 *     collapse.c           options, measurement, run file
 *     collapse_answer.c    rows, thresholds, phase diagram, scalings in use
 */
#ifndef CLI_COLLAPSE_H
#define CLI_COLLAPSE_H

#include <esscher/collapse.h>

#include "command.h"
#include "grid.h"
#include "run_file.h"

enum { COLLAPSE_MOST_DRAWN = 1000000 }; /* tokens of the random model */

typedef struct collapse_options {
    cli_grid n, rho, gamma, times, contexts;
    int64_t dim, replicates, tokens, train;
    double alpha, square, train_gamma, yarn;
    bool phase, curves;
    cli_run_options run;
} collapse_options;

typedef struct collapse_job {
    cli_session *session;
    const collapse_options *o;
    int64_t gammas; /* of each (n, rho) */
    es_collapse_row
        *rows; /* (n, rho, gammas) of the n that are drawn; NULL: nothing was measured */
} collapse_job;

/* Number g of the grid of score scales at this rho. */
double collapse_gamma(const collapse_job *job, double rho, int64_t g);

/* All of the answer. */
es_status collapse_answer(const collapse_job *job, es_error *err);

extern const cli_table *const collapse_views[];       /* of a plain run */
extern const cli_table *const collapse_phase_views[]; /* for people, of --phase */

#endif
