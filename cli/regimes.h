/* regimes.h : what the two halves of `esscher regimes` share: the question, and one cell of it. */
#ifndef CLI_REGIMES_H
#define CLI_REGIMES_H

#include <esscher/regimes.h>

#include "grid.h"
#include "input.h"
#include "run_file.h"

typedef enum regimes_keys {
    KEYS_UNIFORM,
    KEYS_VMF,
    KEYS_MIXTURE,
    KEYS_SUBSPHERE,
    KEYS_VANISHING,
    KEYS_PLANTED,
    KEYS_FILE
} regimes_keys;

typedef struct regimes_options {
    cli_grid dim, n, b, beta, kappa, cosine, weight;
    int keys;
    int64_t replicates, nearest, manifold;
    double power, alpha;
    const char *points, *query;
    bool brute;
    cli_run_options run;
} regimes_options;

/* One dim, n and beta, and what is known about it. */
typedef struct regimes_cell {
    es_keys keys; /* not of a file */
    int64_t dim, n;
    double b, beta;      /* b is NaN where it means nothing */
    es_cap_exponent cap; /* of a file: --alpha, and NaN */
    es_regimes_row row;
} regimes_cell;

extern const char *const regimes_keys_names[];
extern const cli_table *const regimes_views[];

/* The row of the answer: measured values, and laws beside them. */
es_status regimes_put_cell(cli_session *session, const regimes_options *o, const regimes_cell *cell,
                           json_t *rows, es_error *err);

#endif
