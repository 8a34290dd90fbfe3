/* SPDX-License-Identifier: Apache-2.0 */
/* attend.h : what the library alone needs beside <esscher/attend.h>. */
#ifndef ES_ATTENTION_ATTEND_H
#define ES_ATTENTION_ATTEND_H

#include <esscher/attend.h>

/* What m queries know about the keys they have met so far. Merging the states of disjoint sets of
 * keys gives the state of their union: exactly, up to the rounding of one addition, because offsets
 * are powers of two. */
typedef struct es_partial es_partial;

/*! es_partial_new() : m queries that have met no key. Uses scales, score_cap, sink, top_k,
 * precision and exec of opts; prefixes, self, exclude_self, spread and block must be unset. scales
 * must be given. A mask may be causal and have a window, sinks and local blocks, but neither lists
 * nor classes; its places (which must be given unless it has only sinks) and numbers of keys count
 * from the first of all keys, and the state keeps a copy. Release with es_partial_free(). */
es_status es_partial_new(int64_t m, int64_t dv, const es_attend_opts *opts, es_partial **out,
                         es_error *err);
void es_partial_free(es_partial *p);

/*! es_partial_attend() : the queries meet keys k with values v. `first_key` is the index of k's
 * first row among all keys, for top_index and the mask. Errors as es_attend(), but a query may see
 * none of these keys. */
es_status es_partial_attend(es_partial *p, const es_view *q, const es_view *k, const es_view *v,
                            int64_t first_key, es_error *err);

/*! es_partial_merge() : what `from` has met is added to `into`. Same shapes and options, else
 * ES_E_SHAPE. For equal largest scores the index of `into` wins, so merge in key order. */
es_status es_partial_merge(es_partial *into, const es_partial *from, es_error *err);

/*! es_partial_finish() : results of the keys met so far, as es_attend() gives them with P = 1. The
 * state can go on.
 *  @return : ES_OK; ES_E_EMPTY if some query has met no key and there is no sink. */
es_status es_partial_finish(const es_partial *p, const es_attend_out *out, es_error *err);

/*! es_partial_numbers() : returns the length of the array that stores a state; arguments as for
 *  es_partial_new(). es_partial_save() : stores the state in out, of that length.
 *  es_partial_load() : replaces the state of p, made with the same shapes and options, by the
 *  stored one, bit for bit. @return : ES_OK; ES_E_FORMAT (partial.numbers) if the array does not
 *  hold a state. */
int64_t es_partial_numbers(int64_t m, int64_t dv, const es_attend_opts *opts);
void es_partial_save(const es_partial *p, double *out);
es_status es_partial_load(es_partial *p, const double *numbers, es_error *err);

#endif
