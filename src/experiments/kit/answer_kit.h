/* SPDX-License-Identifier: Apache-2.0 */
/* answer_kit.h : what every study does with its answer: numbers into rows, labels for columns, and
 * numbers as findings say them. */
#ifndef ES_EXPERIMENTS_KIT_ANSWER_KIT_H
#define ES_EXPERIMENTS_KIT_ANSWER_KIT_H

#include <esscher/table.h>

#include "driver/job.h"

/* ---- tables ---- */

/* The views of a table that has one: title, columns (all without), note (none without). */
#define ES_VIEW(...)                                                                               \
    (const es_table_view[])                                                                        \
    {                                                                                              \
        {__VA_ARGS__}, { 0 }                                                                       \
    }

/* ---- rows ---- */

/*! es_label_columns() : columns of `key`, one for each of the values (count), which are its labels.
 */
es_status es_label_columns(es_job *job, es_table *table, const char *key, const double *values,
                           int64_t count, es_error *err);

/* ---- sentences ---- */

enum { ES_SAY_SIZE = 96 }; /* bytes that hold any of these */

/*! es_say_step() : from one row to the next that gets a sentence, of `rows`: the first and the last
 *  do, the table has the rest. */
static inline int64_t es_say_step(int64_t rows) { return rows > 2 ? rows - 1 : 1; }

/*! es_say_number() : "0.512 ± 0.031"; without an error (NaN) three digits. Returns out. */
const char *es_say_number(double value, double error, char out[ES_SAY_SIZE]);

/*! es_say_size() : how many tokens or keys: es_format_size(). Returns out. */
const char *es_say_size(double n, char out[ES_SAY_SIZE]);

/*! es_say_power() : "n^-0.512 (± 0.031)", or that there is none if `rate` is NaN. Returns out. */
const char *es_say_power(double rate, double error, char out[ES_SAY_SIZE]);

/* ---- progress ---- */

/*! es_job_tick() : `done` of `total` of what begin() or summarise() is doing. @return : ES_OK;
 *  ES_E_INTERRUPTED. */
es_status es_job_tick(const es_job *job, int64_t done, int64_t total);

#endif
