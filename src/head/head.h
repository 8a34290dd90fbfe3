/* SPDX-License-Identifier: Apache-2.0 */
/* head.h : an attention head: what it scores with, what it answers with.
 *
 * A head of tokens in R^d is a score matrix A and a value matrix V: query x gives token y the score
 * <Ax, y>, and the answer is V times the softmax average of the tokens. Models bring A as a
 * product, A = Wk' Wq / sqrt(k); an es_head may be given either way, as views that stay the
 * caller's:
 *
 *     es_view wq = ..., wk = ...;
 *     es_head head = {.Wq = &wq, .Wk = &wk};
 *     es_head_write(&head, d, A, NULL, &err);            A (d, d), its 1/sqrt(k) included
 *
 * Without matrices, draw some, or scale those of another head, into an es_head_data, which owns its
 * numbers:
 *
 *     es_address at = {.seed = 7, .experiment = ES_EXPERIMENT_HEAD};
 *     es_head_data drawn;
 *     es_head_draw(ES_HEAD_RANDOM, &at, d, NULL, &drawn, &err);    drawn.head
 *     es_head_data_free(&drawn);
 *
 * All functions are thread-safe.
 */
#ifndef ES_HEAD_HEAD_H
#define ES_HEAD_HEAD_H

#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/random.h>
#include <esscher/status.h>
#include <esscher/view.h>

/* Either the score matrix A (d, d), or Wq and Wk (k, d), from which A = Wk' Wq / sqrt(k). V (dv, d)
 * is what happens to values; NULL: the identity. Horizons do not look at V. */
typedef struct es_head {
    const es_view *A;
    const es_view *Wq, *Wk;
    const es_view *V;
} es_head;

/*! es_head_check() : fails unless this is a head of tokens in R^d. Looks at every number.
 *  @return : ES_OK; ES_E_ARGUMENT (theory.head) if A, Wq, Wk do not make one head; ES_E_SHAPE
 *  (theory.shape), ES_E_EMPTY (theory.empty), ES_E_NONFINITE. */
es_status es_head_check(const es_head *head, int64_t d, es_error *err);

/*! es_head_write() : the head's matrices, checked and written out: A (d, d) with its scale, and V
 *  (dv, d), the identity if the head has none; dv is head->V->rows, or d. Either may be NULL.
 *  O(d^2 (k + dv)).
 *  @return : as es_head_check(); ES_E_SHAPE unless 1 <= d <= 4096. */
es_status es_head_write(const es_head *head, int64_t d, double *A, double *V, es_error *err);

/*! es_head_key_dim() : k, in which queries and keys meet: the rows of Wq, or d.
 *  es_head_channels() : dv, of an answer: the rows of V, or d.
 *  es_head_unit() : what scores are multiplied with, 1/sqrt(k) for projections, else 1. Of a
 * checked head. */
int64_t es_head_key_dim(const es_head *head, int64_t d);
int64_t es_head_channels(const es_head *head, int64_t d);
double es_head_unit(const es_head *head);

/*! es_head_project() : multiplies rows x (rows, dim) by a matrix of a head: out (rows, w->rows) =
 *  x w'. Without a matrix (NULL) copies x. @return : ES_OK; as es_mat_multiply(). */
es_status es_head_project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                          es_mem_limit *budget, double *out, es_error *err);

/* ---- a head that owns its matrices ---- */

/* The matrices that describe a head. */
typedef enum es_head_matrix {
    ES_HEAD_WQ = 0,
    ES_HEAD_WK = 1,
    ES_HEAD_WV = 2,
    ES_HEAD_A = 3,
    ES_HEAD_MATRICES = 4
} es_head_matrix;

/* Zero it before use. `head` shows views of this very struct: it must not be moved or copied. */
typedef struct es_head_data {
    es_head head;
    es_view view[ES_HEAD_MATRICES];
    double *numbers[ES_HEAD_MATRICES]; /* row-major; NULL: none, or another's */
    es_mem_limit *budget;              /* that they count against, may be NULL */
} es_head_data;

/*! es_head_data_add() : a matrix (rows, cols) of zeros for the caller to fill; data->head has it
 *  from now on. One that was there is released.
 *  @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY, ES_E_OVERFLOW. */
es_status es_head_data_add(es_head_data *data, es_head_matrix which, int64_t rows, int64_t cols,
                           double **numbers, es_error *err);

/*! es_head_data_free() : give the memory back and empty it; fine on an empty one. */
void es_head_data_free(es_head_data *data);

/* Heads that can be drawn. */
typedef enum es_head_kind {
    ES_HEAD_RANDOM = 0,   /* Wq, Wk, Wv (d, d) with entries N(0, 1/d): the papers' random head */
    ES_HEAD_ROTATION = 1, /* A uniform on the orthogonal matrices (d = 1: a sign), V the identity */
    ES_HEAD_IDENTITY = 2  /* A and V are the identity */
} es_head_kind;

/*! es_head_kind_name() : "random", "rotation", "identity"; "?" otherwise. */
const char *es_head_kind_name(es_head_kind kind);

/*! es_head_fill_random(), es_head_fill_rotation() : one matrix (d, d) of that kind into out, from
 *  the normals of tokens 0 .. d-1 at this address. The rotation comes from LAPACK: O(d^3), and its
 *  last bits depend on the CPU. */
es_status es_head_fill_random(const es_address *at, int64_t d, double *out, es_error *err);
es_status es_head_fill_rotation(const es_address *at, int64_t d, es_mem_limit *budget, double *out,
                                es_error *err);

/*! es_head_draw() : a head of this kind into *out. Matrix Wq stands at the cell of `at`, Wk and Wv
 *  at the two after it; a rotation at that of `at`. Free with es_head_data_free() in any case.
 *  @return : ES_OK; ES_E_ARGUMENT (head.kind); ES_E_SHAPE; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_head_draw(es_head_kind kind, const es_address *at, int64_t d, es_mem_limit *budget,
                       es_head_data *out, es_error *err);

/*! es_head_scaled() : the same head with scores times `times`/`over`: that goes into the elements
 *  of A, or of Wq or Wk as `into` says, each multiplied first. Only that matrix is new; the others
 *  stay those of `head`, which must outlive *out. Free with es_head_data_free() in any case. */
es_status es_head_scaled(const es_head *head, es_head_matrix into, double times, double over,
                         es_mem_limit *budget, es_head_data *out, es_error *err);

#endif
