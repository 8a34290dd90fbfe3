/* command.h : a command of the program, described as data.
 *
 * Parsing, help, hints for misspelt options, man pages and tables are all made from these
 * descriptions. Adding a command is one file with a `const cli_command` in it, one line in
 * commands.c, and one declaration below.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <esscher/exec.h>
#include <esscher/view.h>

#include "progress.h"
#include "table.h"

/* ---- options ---- */

/* How an argument is read, and the C type of the field it goes to. */
typedef enum cli_kind {
    CLI_FLAG,   /* bool, no argument */
    CLI_STRING, /* const char *, the text itself */
    CLI_WHOLE,  /* int64_t in [min, max] */
    CLI_NUMBER, /* double in [min, max] */
    CLI_SEED,   /* uint64_t */
    CLI_BYTES,  /* int64_t, with suffix K, M, G or T */
    CLI_CHOICE, /* int, the index of the word in `choices` */
    CLI_REALS,  /* cli_grid of real numbers in [min, max] */
    CLI_COUNTS, /* cli_grid of whole numbers in [min, max] */
    CLI_STRINGS /* cli_strings, one more for each time it is given */
} cli_kind;

enum { CLI_MOST_STRINGS = 256 };

typedef struct cli_strings {
    int64_t count;
    const char *at[CLI_MOST_STRINGS]; /* the texts themselves */
} cli_strings;

typedef struct cli_option {
    const char *name; /* without its dashes; NULL ends a table */
    char letter;      /* for -x; 0: none */
    cli_kind kind;
    const char *argument; /* how help calls it: FILE, N, GRID; NULL for a flag */
    const char *help;     /* what it does, its unit, its default */
    size_t field;         /* offsetof() into the struct the table belongs to */
    double min, max;
    bool increasing;            /* of a grid: must increase */
    const char *const *choices; /* of CLI_CHOICE, NULL-ended */
    bool aside;                 /* changes no number: not a parameter of the run file */
} cli_option;

/* Options that mean the same in every command. A choice that was not given is -1. */
typedef struct cli_common {
    int64_t threads; /* 0: all */
    bool json, csv, dry_run, quiet, verbose;
    int precision; /* cli_precision() gives the dtype */
    int isa;
    int progress;
    int64_t max_memory; /* bytes; 0: no limit */
    uint64_t seed;
} cli_common;

/* Which of them a command takes, for cli_command.common. */
enum {
    CLI_TAKES_FORMAT = 1,    /* --json, --csv, --quiet, --verbose */
    CLI_TAKES_THREADS = 2,   /* --threads */
    CLI_TAKES_ISA = 4,       /* --isa */
    CLI_TAKES_PRECISION = 8, /* --precision */
    CLI_TAKES_MEMORY = 16,   /* --max-memory */
    CLI_TAKES_DRY_RUN = 32,  /* --dry-run */
    CLI_TAKES_PROGRESS = 64, /* --progress */
    CLI_TAKES_SEED = 128,    /* --seed */
    CLI_TAKES_COMPUTE = 2 | 4 | 8 | 16 | 32 | 64
};

/* ---- a command and one run of it ---- */

typedef struct cli_session cli_session;

typedef struct cli_command {
    const char *name;
    const char *summary;           /* one line, no full stop */
    const char *usage;             /* what stands after the name */
    const char *about;             /* paragraphs for help and man page */
    const char *const *examples;   /* NULL-ended */
    const cli_option *options;     /* its own; may be NULL */
    const cli_option *operand;     /* what arguments without dashes are; NULL: there are none */
    unsigned common;               /* CLI_TAKES_... */
    const void *defaults;          /* of the struct its options go to */
    size_t size;                   /* of that struct */
    const cli_table *const *views; /* of the answer, NULL-ended, the first present one is the CSV */
    const cli_table *csv;          /* the CSV where that is another; may be NULL */
    /* Compute and put results into session->answer. The options are the command's to complete. */
    es_status (*run)(cli_session *session, void *options, es_error *err);
} cli_command;

struct cli_session {
    const cli_command *command;
    int argc;
    char **argv;
    cli_common common;
    es_budget budget;
    es_exec exec; /* threads, kernels, budget, progress: ready to pass on */
    cli_progress progress;
    json_t *answer;                /* the one result object; tables and CSV are views of it */
    const cli_table *const *views; /* where the run decides which; NULL: the command's */
    bool check_failed;             /* a check the user asked for failed: exit code 1 */
};

/* ---- the table of commands ---- */

extern const cli_command *const cli_commands[]; /* NULL-ended */
extern const cli_command cli_demo, cli_claims, cli_converge, cli_ball, cli_hardmax, cli_regimes,
    cli_heat, cli_collapse, cli_exponent, cli_context_fit, cli_rope, cli_limit, cli_theory,
    cli_probe, cli_tails, cli_measure, cli_tokenize, cli_encode, cli_report, cli_export, cli_info,
    cli_bench;

const cli_command *cli_command_find(const char *name);

#endif
