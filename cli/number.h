/* number.h : numbers as people write them on a command line, read strictly.
 *
 * Decimal digits with an optional point and exponent (the C locale's: the program never calls
 * setlocale), or a power such as 2^20. Nothing else is a number here: no nan, inf, hexadecimal,
 * white space, thousands separators or trailing text. Each parser returns NULL, or a static text
 * that says what was expected.
 */
#ifndef CLI_NUMBER_H
#define CLI_NUMBER_H

#include <stdint.h>

/* A finite real number. */
const char *cli_number_real(const char *text, double *out);

/* A whole number up to 2^63-1 in size, exactly, however it is written: 1e18, 2.5e3, 1000e-3 and
 * 2^20 are whole numbers, 0.5 is not, 1e30 is too large. */
const char *cli_number_whole(const char *text, int64_t *out);

/* Digits only, 0 .. 2^63-1: what the integers of JSON readers hold. */
const char *cli_number_seed(const char *text, uint64_t *out);

/* Bytes: a number and one of the suffixes K, M, G, T (powers of 1024), also as KB or KiB. */
const char *cli_number_bytes(const char *text, int64_t *out);

#endif
