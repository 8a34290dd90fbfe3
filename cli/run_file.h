/* run_file.h : --out, --resume and --force, the same in every command that runs an experiment.
 *
 *     typedef struct my_options { ...; cli_run_options run; } my_options;
 *     static const cli_option options[] = {..., CLI_RUN_OPTIONS(my_options, run), {0}};
 *
 *     cli_run_file file = {0};
 *     status = cli_run_open(session, options, &options->run, &file, err);
 *     status = cli_run_stage(&file, "replicate", rows, cols, columns, &stage, err);
 *     for each cell: cli_run_find(); if not done, compute and cli_run_keep()
 *     ... the answer ...
 *     return cli_run_close(&file, session, status, err);       writes the tables, closes the file
 *
 * What determines the numbers is every option of the command that is not marked `aside`, as it
 * stands when the file is opened: complete the defaults first. Files count by their contents.
 * The tables of a run file are those that the command shows people, with all their columns, and
 * what is said about them: "_columns" holds titles, units and definitions, "_answer" the results
 * that stand alone. Report and export read nothing else.
 *
 * Without --out every function does nothing and says ES_OK.
 */
#ifndef CLI_RUN_FILE_H
#define CLI_RUN_FILE_H

#include <esscher/run.h>

#include "command.h"

typedef struct cli_run_options {
    const char *out;
    bool resume, force;
} cli_run_options;

/* Rows of an option table for member `run` of struct `type`. */
#define CLI_RUN_OPTIONS(type, run)                                                                 \
    {"out",                                                                                        \
     'o',                                                                                          \
     CLI_STRING,                                                                                   \
     "RUN",                                                                                        \
     "run file: everything that is finished is kept at once",                                      \
     .field = offsetof(type, run.out),                                                             \
     .aside = true},                                                                               \
        {"resume",                                                                                 \
         0,                                                                                        \
         CLI_FLAG,                                                                                 \
         NULL,                                                                                     \
         "go on with the run file of --out, or begin it if there is none",                         \
         .field = offsetof(type, run.resume),                                                      \
         .aside = true},                                                                           \
    {                                                                                              \
        "force", 0, CLI_FLAG, NULL, "overwrite the run file of --out",                             \
            .field = offsetof(type, run.force), .aside = true                                      \
    }

typedef struct cli_run_file {
    es_run *run; /* NULL: no run file */
} cli_run_file;

/* Create or resume the run file, if one is named; one that is not there yet is begun, with a
 * remark, also by --resume. `options` is the command's struct, completed.
 * @return : ES_OK; ES_E_ARGUMENT for --resume without --out, or other parameters than those of the
 * file; and as es_run_create() and es_run_resume(). */
es_status cli_run_open(cli_session *session, const void *options, const cli_run_options *run,
                       cli_run_file *file, es_error *err);

/* A kind of cell, (rows, cols) numbers each. */
es_status cli_run_stage(cli_run_file *file, const char *name, int64_t rows, int64_t cols,
                        const char *const *columns, int64_t *stage, es_error *err);

/* A cell that is there already, into `out`; *done says whether. */
es_status cli_run_find(const cli_run_file *file, int64_t stage, int64_t cell, double *out,
                       bool *done, es_error *err);
es_status cli_run_keep(const cli_run_file *file, int64_t stage, int64_t cell, const double *values,
                       es_error *err);

/* ES_E_INTERRUPTED, with what is kept and how to go on; `what` is the plural of a cell. */
es_status cli_run_interrupted(const cli_run_file *file, int64_t done, int64_t total,
                              const char *what, es_error *err);

/* Write the answer's tables if `status` is ES_OK, and close. @return : `status`, or what failed. */
es_status cli_run_close(cli_run_file *file, const cli_session *session, es_status status,
                        es_error *err);

#endif
