/* SPDX-License-Identifier: Apache-2.0 */
/* csv_text.h : the text of a CSV file as a table. */
#ifndef ES_STORE_CSV_TEXT_H
#define ES_STORE_CSV_TEXT_H

#include "store/csv.h"

/*! es_csv_parse() : text[0..size), which need not end in NUL, under the rules of csv.h. `file` is
 *  for messages. On failure *out is empty. */
es_status es_csv_parse(const char *text, size_t size, const char *file, es_mem_limit *budget,
                       es_csv *out, es_error *err);

#endif
