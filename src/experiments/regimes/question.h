/* question.h : the study `regimes`: what it asks and measures is in regimes/question.c, what it
 * makes of it in regimes/rows.c; the output as a vector, both, in regimes/outputs.c. */
#ifndef ES_EXPERIMENTS_REGIMES_QUESTION_H
#define ES_EXPERIMENTS_REGIMES_QUESTION_H

#include "experiments/regimes/regimes.h"

#include "driver/job.h"

/* In the order of regimes_laws. */
enum {
    REGIMES_UNIFORM,
    REGIMES_VMF,
    REGIMES_MIXTURE,
    REGIMES_SUBSPHERE,
    REGIMES_VANISHING,
    REGIMES_PLANTED,
    REGIMES_FILE
};
extern const char *const regimes_laws[];

typedef struct regimes_params {
    es_grid dim, n, b, beta, kappa, cosine, weights;
    int law;
    int64_t replicates, nearest, manifold;
    double power, alpha;
    const char *points, *query, *V;
    bool brute;
} regimes_params;

typedef struct regimes_state {
    es_keys_part *parts; /* (kappa.count) of a mixture */
    es_matrix points, query, V;
} regimes_state;

/* One dim, n and beta, and what is known about it before anything is drawn. */
typedef struct regimes_cell {
    es_keys keys; /* not of a file */
    int64_t dim, n;
    double b, beta;      /* b is NaN where it means nothing */
    es_cap_exponent cap; /* of a file: --alpha, and NaN */
} regimes_cell;

/*! regimes_cell_of() : cell i of (dim, n, b or beta), the last running fastest. */
es_status regimes_cell_of(const es_job *job, int64_t i, regimes_cell *cell, es_error *err);

/*! regimes_unpack() : what was measured, from the columns of a finished cell. */
void regimes_unpack(const double *columns, es_regimes_row *row);

/* What the laws of a row cost, in operations of attention: 20 to 50 ms. */
static const double regimes_law_flops = 3e8;

/*! regimes_has_outputs() : vMF keys and mixtures, uniform keys with --V. */
bool regimes_has_outputs(const es_job *job);

/*! regimes_add_outputs() : the stage in which outputs are drawn, after that of the weights.
 *  regimes_put_outputs() : their table. */
es_status regimes_add_outputs(es_job *job, es_error *err);
es_status regimes_put_outputs(es_job *job, es_answer *answer, es_error *err);

es_status regimes_summarise(es_job *job, es_answer *answer, es_error *err);

#endif
