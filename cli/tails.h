/* tails.h : the parts of `esscher tails`. */
#ifndef CLI_TAILS_H
#define CLI_TAILS_H

#include <esscher/tails.h>

#include "command.h"

/* Add the directions of one layer of one domain to the answer's "rows", and what they have in
 * common, kind by kind, to "kinds". domain NULL: there is only one; layer -1: there are none. */
void tails_answer_layer(cli_session *session, const es_tails_spec *spec, const char *domain,
                        int64_t layer, const es_tails_row *rows);

/* How many directions have which verdict, over all layers, as "verdicts". */
void tails_answer_verdicts(cli_session *session);

extern const cli_table tails_rows_table, tails_kinds_table, tails_verdicts_table;

#endif
