/* head_params.h : an attention head as parameters, the same in every study that takes one. */
#ifndef ES_STUDY_HEAD_PARAMS_H
#define ES_STUDY_HEAD_PARAMS_H

#include <esscher/head.h>

#include "driver/job.h"

/* What a head without parameters is, instead of one of es_head_kind. */
enum { ES_HEAD_NONE = -1 /* no matrix: scores <x, y> */, ES_HEAD_REQUIRED = -2 /* an error */ };
typedef struct es_head_params {
    const char *file[ES_HEAD_MATRICES];
    int kind; /* ES_HEAD_RANDOM, ...; -1: not given, or from files */
} es_head_params;

extern const char *const es_head_kinds[]; /* names of the kinds, NULL-ended */

/* clang-format off */
/* Rows of a parameter list for member `head` of struct `type`: a head that is drawn, or from files;
 * `without` is what it is if nothing is said. */
#define ES_HEAD_PARAMS(type, head, without)                                                        \
    {"head", 0, ES_PARAM_CHOICE, "KIND",                                                           \
     "random: Wq, Wk, Wv with entries N(0, 1/d); rotation: A a random rotation, values the "       \
     "tokens; identity: A = I, likewise. All from the seed",                                       \
     .field = offsetof(type, head.kind), .choices = es_head_kinds, .otherwise = without},          \
    ES_HEAD_FILE_PARAMS(type, head,                                                                \
                        "N(0, 1/d) for a random head and for --Wq in converge, else the identity")

/* Of a study in which chance has no part: files alone; `values` is V if nothing is said. */
#define ES_HEAD_FILE_PARAMS(type, head, values)                                                    \
    {"Wq", 0, ES_PARAM_FILE, "FILE", "query matrix, .npy (k, d)",                                  \
     .field = offsetof(type, head.file[ES_HEAD_WQ])},                                              \
    {"Wk", 0, ES_PARAM_FILE, "FILE", "key matrix, .npy (k, d), with --Wq; A = Wk'Wq/sqrt(k)",      \
     .field = offsetof(type, head.file[ES_HEAD_WK])},                                              \
    {"Wv", 0, ES_PARAM_FILE, "FILE", "value matrix, .npy (dv, d)",                                 \
     .field = offsetof(type, head.file[ES_HEAD_WV]), .alias = "V", .otherwise = values},           \
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
