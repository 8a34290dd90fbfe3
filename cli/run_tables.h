/* run_tables.h : the answer of a command, as the tables of its run file. */
#ifndef CLI_RUN_TABLES_H
#define CLI_RUN_TABLES_H

#include <esscher/run.h>

#include "command.h"

/* A table for every view of the command whose rows the answer has, whatever is shown to people,
 * under the name of its rows, with all keys of a row: members of what is nested as
 * "predicted.rate", elements of arrays as "rate_ci.0". Beside them "_columns", what the views say
 * about their columns, and "_answer", the results at the top level that are no table. */
es_status cli_run_tables(es_run *run, const cli_session *session, es_error *err);

#endif
