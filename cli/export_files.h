/* SPDX-License-Identifier: Apache-2.0 */
/* export_files.h : a run file in the forms that other tools load: SQL, and CSV with one observation
 * to a row. */
#ifndef CLI_EXPORT_FILES_H
#define CLI_EXPORT_FILES_H

#include <esscher/run.h>

#include "command.h"

/* Called for each table of a run, one at a time. */
typedef void (*cli_table_fn)(void *user, const es_table *table);

/* fn() for table `name` of the run, or, without a name, for every table in order of their names. */
es_status cli_each_table(es_run *run, const char *name, es_mem_limit *budget, cli_table_fn fn,
                         void *user, es_error *err);

/* Print the tables as SQL that creates and fills them: quoted names, double precision and text,
 * NULL for NaN; what SQLite, PostgreSQL and DuckDB take alike. With no name also the run's
 * parameters and provenance. */
es_status cli_export_sql(es_run *run, const char *table, es_mem_limit *budget, es_error *err);

/* Print CSV with one number or text to a row: where it was found and what it is. With a name the
 * columns that tell the table's rows apart are columns here; without, they stand together in one,
 * "layer=0 head=3", because tables differ in them. */
es_status cli_export_tidy(es_run *run, const char *table, es_mem_limit *budget, es_error *err);

#endif
