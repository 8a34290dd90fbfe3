/* SPDX-License-Identifier: Apache-2.0 */
/* table.h : what the library alone needs beside <esscher/table.h>. */
#ifndef ES_TABLE_TABLE_H
#define ES_TABLE_TABLE_H

#include <esscher/table.h>

/*! es_answer_scalar() : number `at` of the results that stand alone, those with one value: its key,
 *  and its value as text with all digits: in *text, which may be `buffer` (size). Lists are passed
 *  over. @return : false beyond the last. */
bool es_answer_scalar(const es_answer *answer, int64_t at, const char **key, char *buffer,
                      size_t size, const char **text);

/*! es_answer_matrix(), es_answer_texts() : a single result that is a matrix (rows, cols) or a list
 *  of texts, by key. Copied; NaN is null in JSON. */
void es_answer_matrix(es_answer *answer, const char *key, const double *values, int64_t rows,
                      int64_t cols);
void es_answer_texts(es_answer *answer, const char *key, const char *const *texts, int64_t n);

/*! es_answer_provenance_real(), es_answer_provenance_flag() : a number or a truth value under
 *  "provenance". es_answer_input() : a file that was read, with its shape and dtype. */
void es_answer_provenance_real(es_answer *answer, const char *key, double value);
void es_answer_provenance_flag(es_answer *answer, const char *key, bool value);
void es_answer_input(es_answer *answer, const char *role, const char *path, int rank,
                     const int64_t *shape, const char *dtype);

/*! es_answer_plain() : returns a text without the backquotes around its formulas, for a cell or a
 *  finding; a page made of the answer, or of its run file, sets the formulas wherever the text
 *  stands. The result belongs to the answer; NULL after a failure. */
const char *es_answer_plain(es_answer *answer, const char *text);

/*! es_unset_real() : what a member of type double holds that was never assigned: a NaN of its own.
 *  es_is_unset() : returns whether it is that NaN. */
double es_unset_real(void);
bool es_is_unset(double value);

/*! es_answer_qualify() : findings from now on begin with these words, and with "Caution: " before
 *  them if they are cautions. NULL: no longer. The words are copied. */
void es_answer_qualify(es_answer *answer, const char *words);

/* Findings before the first table. The others and the cautions are shown below it, so that a reader
 * meets the answer and its table first. JSON and run files hold all of them in order. */
enum { ES_FINDINGS_FIRST = 3 };

/*! es_answer_leads() : returns true if finding `at` stands before the first table: it is one of the
 *  first ES_FINDINGS_FIRST that are no cautions ("Caution: ..."). A caution that was added first
 *  counts as a finding, because it questions all that follows. */
bool es_answer_leads(const es_answer *answer, int64_t at);

/*! es_key() : `a` followed by `b`, in `out`: "mean_error", "_se". Returns out. */
enum { ES_KEY_SIZE = 96 };
const char *es_key(char out[ES_KEY_SIZE], const char *a, const char *b);

#endif
