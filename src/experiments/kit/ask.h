/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h : runs a study from within another one, and reads columns of its answer.
 *
 * `selfcheck` and `claims` are lists of rows: a study, its parameters, and columns whose true or
 * predicted value is known. Both run their rows here, the way a user would run them, through
 * es_study_run().
 *
 *     const es_ask_spec ask = {"hardmax", "n=1e3,1e6 replicates=400|4000", .seed = 7};
 *     es_answer *answer;
 *     es_ask_run(&ask, &answer, err);
 */
#ifndef ES_EXPERIMENTS_KIT_ASK_H
#define ES_EXPERIMENTS_KIT_ASK_H

#include <esscher/random.h>
#include <esscher/study.h>

/* Writes the files that a study reads to `folder`, with numbers that depend on `seed` alone. Names
 * of files are a.npy, b.npy, c.npy, a.csv, a.txt or b.txt. */
typedef es_status (*es_ask_input)(const void *user, const char *folder, uint64_t seed,
                                  es_error *err);

typedef struct es_ask_spec {
    const char *study;
    /* "name=value ..."; a flag has no value; @ at the start of a value stands for the folder of the
     * input, % for the model; of "quick|paper" the value number `effort` is taken. */
    const char *given;
    int effort;
    const char *model;
    es_ask_input input; /* NULL: none */
    const void *user;   /* of input() */
    uint64_t seed;
    const es_exec *exec; /* threads, kernels and memory of the run; a stop request passes through */
} es_ask_spec;

/*! es_ask_write() : for inputs: writes data of a shape (rank dimensions) to the file `name` of the
 *  folder. es_ask_write_rows() : the same for (rows, cols) random numbers by `draw`, such as
 *  es_normal_rows(), from the address `at` on. */
typedef es_status (*es_ask_draw)(const es_address *at, int64_t rows, int64_t cols, double *out,
                                 es_error *err);
es_status es_ask_write(const char *folder, const char *name, int rank, const int64_t *shape,
                       const double *data, es_error *err);
es_status es_ask_write_rows(const char *folder, const char *name, es_ask_draw draw,
                            const es_address *at, int64_t rows, int64_t cols, es_mem_limit *budget,
                            es_error *err);

/*! es_ask_run() : runs the study. The caller releases *answer with es_answer_free().
 *  @return : what es_study_run() and the input return; ES_E_IO (ask.folder). */
es_status es_ask_run(const es_ask_spec *ask, es_answer **answer, es_error *err);

/*! es_ask_value() : the value of a number among the parameters of `ask`, as text in `out`; "" if it
 *  is not given. Returns out. */
enum { ES_ASK_SIZE = 128 };
const char *es_ask_value(const es_ask_spec *ask, const char *name, char out[ES_ASK_SIZE]);

/*! es_ask_table() : the table of an answer that has the column `key`.
 *  @return : ES_OK; ES_E_ARGUMENT (ask.column) if there is none: a list of rows is wrong. */
es_status es_ask_table(const es_answer *answer, const char *table, const char *key,
                       const es_table **out, es_error *err);

/*! es_ask_number() : the value of a column in a row, with its standard error; NaN without one. */
es_measured es_ask_number(const es_table *table, int64_t row, const char *key);

#endif
