/* question.h : the study `converge`: what it asks and measures is in
 * converge/question.c, what it makes of it in converge/rows.c; laws without a limit have both in
 * converge/growth.c. */
#ifndef ES_EXPERIMENTS_CONVERGE_QUESTION_H
#define ES_EXPERIMENTS_CONVERGE_QUESTION_H

#include "experiments/converge/converge.h"

#include "experiments/kit/series.h"
#include "experiments/kit/setting_params.h"
#include "theory/theory.h"

typedef struct converge_params {
    es_law_params law;
    es_grid sizes, scales;
    int64_t replicates;
    es_head_params head;
    int queries, preset;
    const char *reference;
    bool independent, predict;
} converge_params;

enum { CONVERGE_SELF = 0, CONVERGE_POPULATION = 1 };
extern const char *const converge_queries[]; /* "self", "population" */

/* The four errors of a cell; also its columns in a run file. */
enum { CONVERGE_MEAN, CONVERGE_COV, CONVERGE_SPECTRAL, CONVERGE_MAP, CONVERGE_ERRORS };

typedef struct converge_state {
    es_law_data law;
    es_head_data head;
    es_converge_spec spec; /* exec is that of the job; cells have their own */
    es_converge_limit *limit;
    es_horizons horizons; /* at scale factor 1 */
} converge_state;

/*! converge_gather() : errors `which` at a scale from cells (replicates, scales, sizes, errors). */
void converge_gather(const es_converge_spec *spec, const double *cells, int64_t scale, int which,
                     es_series *to);

es_status converge_summarise(es_job *job, es_answer *answer, es_error *err);

/* The same steps where attention has no limit (es_converge_fails()). */
es_status converge_growth_open(es_job *job, es_error *err);
es_status converge_growth_cost(const es_job *job, es_cost *out, es_error *err);
es_status converge_growth_summarise(es_job *job, es_answer *answer, es_error *err);

/* What predictions are made from, beside the head. */
typedef struct converge_theory {
    double *cov; /* of a token */
    es_view cov_view;
    es_rotation rotation; /* 0: not isotropic, or queries are the tokens of one given rotation */
} converge_theory;

/*! converge_predictable() : are there predictions for this law? ES_E_ARGUMENT if not. */
es_status converge_predictable(const es_law *law, es_error *err);

es_status converge_theory_new(es_job *job, converge_theory *out, es_error *err);

/*! converge_predict() : the errors that theory expects at a scale and n (THEORY 4.5), and the
 *  relative standard error that sampling of queries leaves in them. */
es_status converge_predict(const es_job *job, const converge_theory *t, double scale, int64_t n,
                           es_predicted *out, double *sampling, es_error *err);

#endif
