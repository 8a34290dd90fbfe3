/* heat.h : the parts of esscher heat.
 *
 *     heat.c              options, keys, drift, run file
 *     heat_particles.c    tokens that move by their own attention
 */
#ifndef CLI_HEAT_H
#define CLI_HEAT_H

#include <esscher/heat.h>

#include "command.h"
#include "grid.h"
#include "input.h"
#include "run_file.h"

typedef struct heat_options {
    int keys;
    const char *modes;
    int64_t dim, n, queries, replicates, particles, steps, bins;
    double kappa, step_beta;
    cli_grid beta;
    cli_run_options run;
} heat_options;

/* A density on the sphere; the law points into its own members. */
typedef struct heat_law {
    es_law law;
    es_law *parts;
    double *weights;
    cli_input modes;
} heat_law;

enum { HEAT_KEYS = 40, HEAT_QUERIES = 41, HEAT_PARTICLES = 42 }; /* experiments of addresses */

/* Move particles of this law and put "particles", "steps" and "profile" into the answer. */
es_status heat_particles(cli_session *session, const heat_options *o, const es_law *law,
                         es_error *err);

extern const cli_table heat_steps_table, heat_profile_table, heat_particles_table;

#endif
