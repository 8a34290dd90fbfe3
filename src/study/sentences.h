/* sentences.h : numbers as findings say them. */
#ifndef ES_STUDY_SENTENCES_H
#define ES_STUDY_SENTENCES_H

#include <esscher/table.h>

enum { ES_SAY_ROOM = 96 }; /* bytes that hold any of these */

/*! es_say_number() : "0.512 ± 0.031"; without an error (NaN) three digits. Returns out. */
const char *es_say_number(double value, double error, char out[ES_SAY_ROOM]);

/*! es_say_size() : a number of tokens, which may have many digits: "4096", "3.2e8". Returns out. */
const char *es_say_size(double n, char out[ES_SAY_ROOM]);

/*! es_say_power() : "n^-0.512 (± 0.031)", or that there is none if `rate` is NaN. Returns out. */
const char *es_say_power(double rate, double error, char out[ES_SAY_ROOM]);

#endif
