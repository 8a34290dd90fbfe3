/* SPDX-License-Identifier: Apache-2.0 */
/* format.h : what the library alone needs beside <esscher/format.h>. */
#ifndef ES_BASE_FORMAT_H
#define ES_BASE_FORMAT_H

#include <esscher/format.h>

/*! es_format_number() : a number that stands alone: a column of one row. Returns out. */
char *es_format_number(es_format format, double value, double error, char *out, size_t size);

/*! es_format_bytes() : a number of bytes with a binary prefix: "512 B", "1.5 MiB". Returns out. */
char *es_format_bytes(double bytes, char out[ES_FORMAT_SIZE]);

/*! es_format_size() : how many, in a sentence: whole numbers below 10^7 with all their digits,
 *  "9999999"; others with three, and no power of ten from 10^-4 to 10^7: "12300", "4.56", "3.2e8",
 * "1e12", "1e-05". Returns out. */
char *es_format_size(double n, char *out, size_t size);

#endif
