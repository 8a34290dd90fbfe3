/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h : reads numbers from text, the same way for every option.
 *
 * Decimal only, whatever the locale: no hexadecimal, no nan, no blanks. Whole numbers may be
 * written 4096, 1e6 or 2^20; real numbers also as a fraction 1/4 or a percentage 25%. Each function
 * returns NULL and stores the number, or returns the reason why it cannot.
 */
#ifndef ES_DRIVER_NUMBERS_H
#define ES_DRIVER_NUMBERS_H

#include <esscher/study.h>

const char *es_number_real(const char *text, double *out);
const char *es_number_whole(const char *text, int64_t *out);
const char *es_number_seed(const char *text, uint64_t *out); /* 0 to 2^63-1, digits only */
const char *es_number_bytes(const char *text, int64_t *out); /* 65536, 500M, 1.5G, 2GiB */

enum { ES_GRID_MOST = 10000 }; /* points: more is probably a typing error */

/* In the reason of es_grid_parse() if the grid is well formed but a number is out of range. */
#define ES_GRID_RANGE "expected a number from "

/* What the numbers of a grid must satisfy. */
typedef struct es_grid_rule {
    double min, max; /* each number lies in [min, max] */
    bool increasing; /* each is larger than the one before */
} es_grid_rule;

/* Parse `text`; `whole` asks for counts. Returns true with *out owned by the caller (es_grid_free),
 * or false with the reason in why[0..size). Points of a geometric grid of counts that coincide
 * after rounding are merged, and how many is remembered so that a program can say so. */
bool es_grid_parse(const char *text, bool whole, const es_grid_rule *rule, es_grid *out, char *why,
                   int size);

void es_grid_free(es_grid *grid);

#endif
