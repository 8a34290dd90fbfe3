/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.h : decimal numbers as text, with a point in every locale of the host program. */
#ifndef ES_BASE_DECIMAL_H
#define ES_BASE_DECIMAL_H

#include <stdbool.h>

enum { ES_DECIMAL_SIZE = 32 };

/*! es_decimal_read() : reads a number such as -1.5 or 2e-3; 1e999 is infinite. Returns false, and
 *  leaves *out as it is, if the text is anything else or longer than 95 characters. */
bool es_decimal_read(const char *text, double *out);

/*! es_decimal_write() : writes a finite number in 15 digits, or in 17 if 15 give another one.
 *  Returns out. */
const char *es_decimal_write(double value, char out[ES_DECIMAL_SIZE]);

#endif
