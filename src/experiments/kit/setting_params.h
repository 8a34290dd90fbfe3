/* SPDX-License-Identifier: Apache-2.0 */
/* setting_params.h : a token law and an attention head as parameters, the same in every study that
 * takes one. A list of parameters has the rows of ES_LAW_PARAMS and ES_HEAD_PARAMS; open() makes
 * law and head of what they were given. */
#ifndef ES_EXPERIMENTS_KIT_SETTING_PARAMS_H
#define ES_EXPERIMENTS_KIT_SETTING_PARAMS_H

#include "head/head.h"

#include "driver/job.h"
#include "law/law.h"

/* ---- the law ---- */

/* The options that describe a law. */
typedef struct es_law_params {
    int kind;    /* index into es_law_names, -1: not given */
    int64_t dim; /* 0: as the files say */
    double radius, rho, kappa, freedom;
    const char *mean, *cov, *direction, *weights, *means, *points;
} es_law_params;

/* clang-format off */
/* Rows that a study has which asks for a covariance alone (es_law_cov). */
#define ES_LAW_DIM_PARAM(type, law)                                                                \
    {"dim", 'd', ES_PARAM_WHOLE, "D", "dimension of a token",                                      \
     .field = offsetof(type, law.dim), .min = 1, .max = 4096, .alias = "d",                        \
     .default_note = "what the files say"}
#define ES_LAW_RHO_PARAM(type, law)                                                                \
    {"rho", 0, ES_PARAM_NUMBER, "RHO", "the same as --cov with RHO times the identity",            \
     .field = offsetof(type, law.rho), .min = 1e-150, .max = 1e150, .default_value = "1"}

/* Rows of a parameter list for member `law` of struct `type`; `standard` is the default law. */
#define ES_LAW_PARAMS(type, law, standard_law)                                                     \
    {"law", 0, ES_PARAM_CHOICE, "LAW",                                                             \
     "law of the tokens: " ES_LAW_LIST "where rademacher has random signs, mixture is one of "     \
     "Gaussians and empirical draws from --points",                                                \
     .field = offsetof(type, law.kind), .choices = es_law_names, .default_value = standard_law},        \
    ES_LAW_DIM_PARAM(type, law),                                                                   \
    {"radius", 0, ES_PARAM_NUMBER, "R",                                                            \
     "radius of sphere, ball and vmf, half width of the cube, size of the signs, standard "        \
     "deviation of gaussian, scale of the rest",                                                   \
     .field = offsetof(type, law.radius), .min = 1e-150, .max = 1e150, .default_value = "1"},           \
    {"mean", 0, ES_PARAM_FILE, "FILE", "centre of the law, .npy (d)",                              \
     .field = offsetof(type, law.mean), .default_note = "0"},                                         \
    {"cov", 0, ES_PARAM_FILE, "FILE",                                                              \
     "covariance of the Gaussian, .npy (d, d); any other law is multiplied by its Cholesky "       \
     "factor",                                                                                     \
     .field = offsetof(type, law.cov)},                                                            \
    ES_LAW_RHO_PARAM(type, law),                                                                   \
    {"kappa", 0, ES_PARAM_NUMBER, "K", "concentration of vmf",                                     \
     .field = offsetof(type, law.kappa), .min = 0, .max = 1e12, .default_value = "0"},                  \
    {"direction", 0, ES_PARAM_FILE, "FILE", "mean direction of vmf, .npy (d)",                     \
     .field = offsetof(type, law.direction)},                                                      \
    {"freedom", 0, ES_PARAM_NUMBER, "NU", "degrees of freedom of student",                         \
     .field = offsetof(type, law.freedom), .min = 1e-6, .max = 1e12},                              \
    {"means", 0, ES_PARAM_FILE, "FILE",                                                            \
     "centres of the parts of a mixture, .npy (parts, d); --cov is the covariance of each",        \
     .field = offsetof(type, law.means)},                                                          \
    {"weights", 0, ES_PARAM_FILE, "FILE", "weights of the parts, .npy (parts)",                    \
     .field = offsetof(type, law.weights), .default_note = "equal"},                                  \
    {"points", 0, ES_PARAM_FILE, "FILE", "points of an empirical law, .npy (n, d)",                \
     .field = offsetof(type, law.points)}
/* clang-format on */

/* A law and everything it points to; memory is the job's. */
typedef struct es_law_data {
    es_law law;
    es_law *parts;
    es_matrix mean, cov, direction, weights, means, points;
    double *factor;
} es_law_data;

/*! es_law_params_speak() : returns whether a parameter determines the dimension. */
bool es_law_params_speak(const es_law_params *p);

/*! es_law_make() : read the files and make the law. `dim` is what other inputs say about the
 *  dimension, 0: nothing. A jitter that the Cholesky factor of --cov needed is remarked on and in
 *  the answer. @return : ES_E_ARGUMENT for parameters that make no sense together; what reading and
 *  es_law_check() return; ES_E_NUMERIC for an indefinite covariance. */
es_status es_law_make(es_job *job, const es_law_params *p, int64_t dim, es_law_data *out,
                      es_error *err);

/*! es_law_cov() : the covariance of a token as --cov, or --dim with --rho, says, singular or not.
 *  @return : ES_E_ARGUMENT if nothing says it, or both; what reading returns. */
es_status es_law_cov(es_job *job, const es_law_params *p, es_matrix *out, es_error *err);

/* ---- the head ---- */

/* What a head without parameters is, instead of one of es_head_kind. */
enum { ES_HEAD_NONE = -1 /* no matrix: scores <x, y> */, ES_HEAD_REQUIRED = -2 /* an error */ };
/* The options that describe a head. */
typedef struct es_head_params {
    const char *file[ES_HEAD_MATRICES];
    int kind; /* ES_HEAD_RANDOM, ...; -1: not given, or from files */
} es_head_params;

extern const char *const es_head_kinds[]; /* names of the kinds, NULL-ended */

/* clang-format off */
/* Rows of a parameter list for member `head` of struct `type`: a head that is drawn, or from files;
 * `without` is the default head, `values` the default of --Wv. */
#define ES_HEAD_PARAMS(type, head, without, values)                                                \
    {"head", 0, ES_PARAM_CHOICE, "KIND",                                                           \
     "random: Wq and Wk with entries N(0, 1/d); rotation: A is a random rotation; identity: A = I",\
     .field = offsetof(type, head.kind), .choices = es_head_kinds, .default_note = without},          \
    ES_HEAD_FILE_PARAMS(type, head, values)

/* Of a study in which chance has no part: files alone; `values` is V if nothing is said. */
#define ES_HEAD_FILE_PARAMS(type, head, values)                                                    \
    {"Wq", 0, ES_PARAM_FILE, "FILE", "query matrix, .npy (k, d)",                                  \
     .field = offsetof(type, head.file[ES_HEAD_WQ])},                                              \
    {"Wk", 0, ES_PARAM_FILE, "FILE", "key matrix, .npy (k, d), with --Wq; A = Wk'Wq/sqrt(k)",      \
     .field = offsetof(type, head.file[ES_HEAD_WK])},                                              \
    {"Wv", 0, ES_PARAM_FILE, "FILE", "value matrix, .npy (dv, d)",                                 \
     .field = offsetof(type, head.file[ES_HEAD_WV]), .alias = "V", .default_note = values},           \
    {"A", 0, ES_PARAM_FILE, "FILE",                                                                \
     "score matrix itself, .npy (d, d), the score scale included, instead of --Wq and --Wk",       \
     .field = offsetof(type, head.file[ES_HEAD_A])}
/* clang-format on */

/*! es_head_dim() : the dimension that the files speak of, 0: none. */
es_status es_head_dim(const es_head_params *p, int64_t *dim, es_error *err);

/*! es_head_make() : read the files, draw the rest from the seed. Memory is the job's: *out needs
 *  no freeing, and must not be moved. `kind` is the head without
 *  parameters; sets p->kind where scores do not come from files. With `draws_values` a head of
 *  --Wq and --Wk has random values, too, unless --Wv is given. @return : what reading returns;
 *  ES_E_ARGUMENT (head.options) for parameters that say nothing or too much. */
es_status es_head_make(es_job *job, es_head_params *p, int64_t dim, int kind, bool draws_values,
                       es_head_data *out, es_error *err);

#endif
