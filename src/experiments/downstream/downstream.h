/* downstream.h : what a model says about texts while some of its heads keep some of their keys, and
 * how far apart two such answers are. */
#ifndef ES_EXPERIMENTS_DOWNSTREAM_DOWNSTREAM_H
#define ES_EXPERIMENTS_DOWNSTREAM_DOWNSTREAM_H

#include <stdbool.h>

#include <esscher/model.h>
#include <esscher/plan.h>

#include "model/logits.h"
#include "model/pool.h"

typedef struct es_downstream {
    const es_model *model;
    const es_blocks *texts;
    bool embed; /* answers are embeddings, the mean of a text's last hidden states; else logits */
    uint64_t seed; /* of keys that are kept by chance */
} es_downstream;

/* What is taken from the model: heads that keep some of their keys. */
typedef struct es_thinning {
    es_policy_spec spec;        /* keys: of every text, unless `share` says otherwise */
    double share;               /* of each text's own number of tokens; 0: not by share */
    const es_plan *plan;        /* what each head keeps, instead of both; NULL: none */
    const unsigned char *heads; /* (L, h) not 0: thinned; NULL: all are */
} es_thinning;

/*! es_thinning_keys() : keys that a query of a text of n tokens is to keep: the share of them
 *  rounded to the nearest whole number, 1 at least; n at most. ES_POLICY_UNSET: the policy's parts
 *  say. */
int64_t es_thinning_keys(const es_thinning *thinning, int64_t n);

/*! es_downstream_outputs() : numbers of one text's answer: labels, or H. */
int64_t es_downstream_outputs(const es_downstream *d);

/*! es_downstream_run() : texts first .. first + count - 1, one by thread. out (count, outputs + 1):
 *  the answer, and keys that a query of a thinned head kept, mean over these heads; tokens of the
 *  text with `thinning` NULL, the model as it is. Text t has the cells from t
 *  es_model_sparse_cells() on of ES_EXPERIMENT_DOWNSTREAM whatever is thinned: two thinnings are
 *  compared on equal chance. @return : as es_model_forward(). */
es_status es_downstream_run(const es_downstream *d, const es_thinning *thinning, int64_t first,
                            int64_t count, const es_exec *exec, double *out, es_error *err);

/*! es_downstream_horizons() : out (L, h) the horizon of each head, |S^1/2 A S^1/2| (THEORY 2), with
 *  S the covariance of its layer's input over all tokens of the texts. One walk through the texts;
 *  L H^2 numbers of memory beside it. @return : as es_model_forward() and es_horizons_of(). */
es_status es_downstream_horizons(const es_downstream *d, const es_exec *exec, double *out,
                                 es_error *err);

/* ---- one answer beside another ---- */

/*! es_cosine() : of a and b (count); NaN if one is zero. */
double es_cosine(const double *a, const double *b, int64_t count);

/*! es_nearest_rows() : nearest (count): for row i, which other row of `among` has the largest
 * cosine with it: the first where several have, -1 where none has one. rows, among (count) point to
 *  `width` numbers each. Rows are handed out to threads; O(count^2 width), 16 count bytes.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY; ES_E_INTERRUPTED. */
es_status es_nearest_rows(const double *const *rows, const double *const *among, int64_t count,
                          int64_t width, const es_exec *exec, int64_t *nearest, es_error *err);

#endif
