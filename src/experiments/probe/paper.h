/* SPDX-License-Identifier: Apache-2.0 */
/* paper.h : the protocol of experiment 2 of *Token Sample Complexity of Attention* (arXiv
 * 2512.10656), as its public code has it, for comparison with probe.h.
 *
 * There the law of tokens is one passage, all that the model reads at a time: a block of the pool
 * (512 tokens of BERT, [CLS] and [SEP] among them). n of its tokens are drawn independently, with
 * replacement, and attend over each other: the queries are the sample. The outputs of all heads of
 * a layer, side by side, are vectors y_1 .. y_n of the model's width, and
 *
 *     mean error |m_n - m|,  m_n = sum y_i / n,      covariance error |C_n - C|_F,  divided by n,
 *
 * where m and C are those of the whole passage attending over itself. Every n of every draw has
 * tokens of its own. (In probe.h queries are fixed, the limit is a whole pool, sizes are prefixes
 * of one draw, and every head stands for itself.)
 *
 * Differences from the public code: a passage has no padding (there a text that is too short is
 * filled with [PAD], which count as tokens); kernels are f32 and moments f64 (there f16 and f32).
 * Biases of keys and values are left out, because they change neither error.
 *
 *     es_probe_paper_open(&spec, layer, block, &paper, &err);
 *     es_probe_paper_draw(paper, r, cells, &err);                  (sizes)
 *
 * Only model, pool, sizes, seed and exec of an es_probe_spec are used. A draw is a pure function of
 * (seed, layer, block, its number); a paper may be used by several threads. */
#ifndef ES_EXPERIMENTS_PROBE_PAPER_H
#define ES_EXPERIMENTS_PROBE_PAPER_H

#include "experiments/kit/probe.h"

typedef struct es_probe_paper es_probe_paper;

/* One n of one draw. */
typedef struct es_probe_paper_cell {
    double mean_error, cov_error;
} es_probe_paper_cell;

/* What is known about a passage. */
typedef struct es_probe_passage {
    int64_t tokens; /* of the block */
    double horizon; /* |S^1/2 A S^1/2| as the public code has it: S of the passage, all heads as one
                       matrix A = Wk'Wq, no 1/sqrt(k); without its 1e-6 on the diagonal of S */
} es_probe_passage;

/*! es_probe_paper_open() : a block of the pool and its own m and C. O(tokens hidden (hidden +
 *  tokens)). Release with es_probe_paper_close().
 *  @return : ES_OK; as es_probe_measure(); ES_E_RANGE (pool.block, probe.block: the first 2^20). */
es_status es_probe_paper_open(const es_probe_spec *spec, int64_t layer, int64_t block,
                              es_probe_paper **out, es_error *err);
void es_probe_paper_close(es_probe_paper *paper); /* NULL is fine */

/*! es_probe_paper_about() : O(hidden^3). @return : ES_OK; as es_horizons_of(). */
es_status es_probe_paper_about(const es_probe_paper *paper, es_probe_passage *out, es_error *err);

/*! es_probe_paper_draw() : errors at every n, cells (sizes). Progress counts sizes. @return :
 * ES_OK; ES_E_RANGE unless 0 <= draw < 2^16; ES_E_LIMIT, ES_E_MEMORY, ES_E_INTERRUPTED; as
 * es_attend(). */
es_status es_probe_paper_draw(const es_probe_paper *paper, int64_t draw, es_probe_paper_cell *cells,
                              es_error *err);

/*! es_probe_paper_price() : of one draw, and in *open of es_probe_paper_open(), for blocks of up to
 *  `length` tokens; spec->pool is not read. */
es_probe_price es_probe_paper_price(const es_probe_spec *spec, int64_t length,
                                    es_probe_price *open);

#endif
