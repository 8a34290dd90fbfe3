/* SPDX-License-Identifier: Apache-2.0 */
/* command.h : a command of the program, described as data.
 *
 * Parsing, help, hints for misspelt options, man pages and tables are all made from these
 * descriptions. A study of the library is a command by its name in
 * commands.c; any other command is one file with a `const cli_command` in it, that line, and a
 * declaration below.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/executor.h>
#include <esscher/study.h>
#include <esscher/view.h>

#include "progress.h"

/* ---- options ---- */

/* Options are parameters of the library; the names below are those of commands that are no studies.
 */
typedef es_param cli_option;
typedef es_texts cli_strings;
#define CLI_FLAG         ES_PARAM_FLAG
#define CLI_STRING       ES_PARAM_TEXT
#define CLI_WHOLE        ES_PARAM_WHOLE
#define CLI_NUMBER       ES_PARAM_NUMBER
#define CLI_SEED         ES_PARAM_SEED
#define CLI_BYTES        ES_PARAM_BYTES
#define CLI_CHOICE       ES_PARAM_CHOICE
#define CLI_REALS        ES_PARAM_REALS
#define CLI_COUNTS       ES_PARAM_COUNTS
#define CLI_STRINGS      ES_PARAM_TEXTS
#define CLI_MOST_STRINGS ES_MOST_TEXTS

/* Options that mean the same in every command. A choice that was not given is -1. */
typedef struct cli_common {
    int64_t threads; /* 0: all */
    bool json, csv, markdown,
        latex; /* --format says the same; cli_options_parse() leaves these set */
    int format;
    bool full, dry_run, quiet, verbose;
    es_grid layers, heads; /* rows that are shown */
    const char *sort;
    int64_t top;   /* 0: all */
    int precision; /* cli_precision() gives the dtype */
    int isa;
    int progress;
    int64_t max_memory; /* bytes; 0: no limit */
    uint64_t seed;
    const char *out; /* run file of a study */
    bool resume, force;
    const char *shard; /* I/K */
    bool mpi, no_mpi;
    int64_t expect_ranks; /* 0: any number */
    double rank_timeout;  /* seconds; 0: for ever */
} cli_common;

/* Which of them a command takes, for cli_command.common. */
enum {
    CLI_TAKES_FORMAT = 1,    /* --format and its short forms, --full, --quiet, --verbose */
    CLI_TAKES_THREADS = 2,   /* --threads */
    CLI_TAKES_ISA = 4,       /* --isa */
    CLI_TAKES_PRECISION = 8, /* --precision */
    CLI_TAKES_MEMORY = 16,   /* --max-memory */
    CLI_TAKES_DRY_RUN = 32,  /* --dry-run */
    CLI_TAKES_PROGRESS = 64, /* --progress */
    CLI_TAKES_SEED = 128,    /* --seed */
    CLI_TAKES_RUN = 256,     /* --out, --resume, --force, --shard: a study that keeps its cells */
    CLI_TAKES_ROWS = 512,    /* --sort, --top: tables that are long */
    CLI_TAKES_HEADS = 1024,  /* --layer, --head: tables with a row for each */
    CLI_TAKES_RANKS = 2048,  /* --mpi, --no-mpi, --expect-ranks, --rank-timeout: a study */
    CLI_TAKES_COMPUTE = 2 | 4 | 8 | 16 | 32 | 64,
    CLI_TAKES_ALL = 4095
};

/* ---- a command and one run of it ---- */

typedef struct cli_session cli_session;

typedef struct cli_command {
    const char *name;
    const char *summary;         /* the question it answers: one line, no full stop */
    const char *usage;           /* what follows the name on a command line */
    const char *about;           /* paragraphs for help and man page */
    const char *const *examples; /* NULL-ended */
    const cli_option *options;   /* its own; may be NULL */
    const cli_option *operand;   /* what arguments without dashes are; NULL: there are none */
    unsigned common;             /* CLI_TAKES_...; 0: it computes nothing */
    const void *defaults;        /* of the struct its options go to */
    size_t size;                 /* of that struct */
    /* Compute and put results into cli_result(). The options are the command's to complete. */
    es_status (*run)(cli_session *session, void *options, es_error *err);
    const es_study *study;    /* of the library: then run is not used */
    es_study_group group;     /* under which help lists it */
    const char *main_options; /* as in es_study */
} cli_command;

/* A group of commands in help, in the order in which help prints them; ends with a NULL title. */
typedef struct cli_group {
    es_study_group group;
    const char *title;
} cli_group;
extern const cli_group cli_groups[];

struct cli_session {
    const cli_command *command;
    int argc;
    char **argv;
    cli_common common;
    es_mem_limit budget;
    es_exec exec; /* threads, kernels, budget, progress: ready to pass on */
    cli_progress progress;
    es_fabric *fabric;     /* the ranks of a study; NULL: this process is alone */
    es_executor *executor; /* over them */
    bool silent;           /* another rank prints */
    es_answer *result;     /* the answer; text, CSV and JSON are views of it */
    bool printed;          /* the command has printed its answer while computing it */
    bool print_failed;     /* it was printed, but not as asked: exit code 2 */
    bool check_failed;     /* a check the user asked for failed: exit code 1 */
    int code;              /* of a command that ran another: what that one ended with */
    char stdin_facts[64];  /* size and hash of standard input, if an option read it; else "" */
};

/* Handles the cost of a command that is not a study. A dry run prints the cost and sets *done;
 * otherwise the cost goes to stderr, and a run over the memory limit fails. */
es_status cli_admit(cli_session *session, const es_cost *cost, bool *done, es_error *err);

/* The dtype that --precision asks for. */
es_dtype cli_kernels(const cli_session *session);

/* Print the answer now, in the form that was asked for, and give it back: for a command whose
 * tables are described by what it is about to free. */
void cli_print(cli_session *session);

/* Columns of the paper: the environment's COLUMNS, or the terminal's, or 100. */
int cli_paper_width(void);

/* The answer of a command that is no study: empty at first, with its provenance. */
es_answer *cli_result(cli_session *session);

/* ---- the table of commands ---- */

/* Returns the commands in the order in which help lists them, group by group; NULL beyond the
 * last. */
const cli_command *cli_command_at(int at);
extern const cli_command cli_demo, cli_tokenize, cli_encode, cli_report, cli_export, cli_merge,
    cli_plan, cli_info, cli_bench, cli_paper, cli_help;

const cli_command *cli_command_find(const char *name);

#endif
