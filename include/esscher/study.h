/* SPDX-License-Identifier: Apache-2.0 */
/* study.h : an experiment as a value, and the one way to run it.
 *
 * A *study* is a description: its parameters, what it costs, the stages of cells it is made of, and
 * the summary that turns cells into tables. A *cell* is a pure function of the parameters, the seed
 * and its number: any thread, any machine, any order, the same bits.
 *
 *     const es_study *study = es_study_find("converge");
 *     es_params *params;
 *     es_answer *answer;
 *     es_params_new(study->params, study->size, &params, &err);
 *     es_params_set(params, "scales", "0.5,1,2", &err);
 *     es_study_run(study, params, &(es_study_opts){.seed = 7, .out = "x.run"}, &answer, &err);
 *     es_answer_write(answer, ES_ANSWER_JSON, NULL, write_to, stdout, &err);
 *
 * es_study_run() is the only place that loops over cells. In order: the study completes its
 * parameters and reads its inputs (`open`); its cost is known (`cost`), a dry run ends here, and a
 * run over the memory limit is refused; the run file is created or resumed; what all cells need is
 * made (`begin`); cells missing from the file are computed, stage by stage, and stored as they
 * arrive; tables are made of all of them (`summarise`) and written. A killed run loses the cells in
 * flight.
 *
 * An es_executor (executor.h) computes the cells: by default the threads of this process. Where
 * several processes share a run, each of them calls es_study_run() with the same parameters; rank 0
 * has run file, progress and answer. Where they cannot see each other, each is a shard
 * (es_study_opts.shard), and es_run_join() joins their run files. */
#ifndef ESSCHER_STUDY_H
#define ESSCHER_STUDY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/executor.h>
#include <esscher/table.h>
#include <esscher/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---- */

/* How a value is read, and the C type of the field it goes to. A field that was neither given nor
 * has a default is false, NULL, 0, NaN for a number, -1 for a choice, an empty grid or list. */
typedef enum es_param_kind {
    ES_PARAM_FLAG = 1, /* bool, no value */
    ES_PARAM_TEXT,     /* const char * */
    ES_PARAM_WHOLE,    /* int64_t in [min, max] */
    ES_PARAM_NUMBER,   /* double in [min, max] */
    ES_PARAM_SEED,     /* uint64_t */
    ES_PARAM_BYTES,    /* int64_t, with suffix K, M, G or T */
    ES_PARAM_CHOICE,   /* int, the index of the word in `choices` */
    ES_PARAM_REALS,    /* es_grid of real numbers in [min, max] */
    ES_PARAM_COUNTS,   /* es_grid of whole numbers in [min, max] */
    ES_PARAM_TEXTS,    /* es_texts, one more for each time it is given */
    ES_PARAM_FILE,     /* const char *, a file that is read: a run knows it by its contents */
    ES_PARAM_FILES,    /* es_texts of such */
    ES_PARAM_NAMED,    /* es_texts NAME=FILE, likewise */
    ES_PARAM_MODEL,    /* const char *, a model: by the contents of its folder */
    ES_PARAM_OUTPUT    /* const char *, a file or folder that is written: changes no number */
} es_param_kind;

/* Several numbers: 4096, 64,128,256 or LOW..HIGH*POINTS, geometric, ends included. */
typedef struct es_grid {
    int64_t count;   /* 0: not given */
    double *reals;   /* (count) */
    int64_t *counts; /* (count), NULL in a grid of reals */
    int64_t merged;  /* points that coincided with another after rounding */
} es_grid;

enum { ES_MOST_TEXTS = 256 };
typedef struct es_texts {
    int64_t count;
    const char *at[ES_MOST_TEXTS];
} es_texts;

typedef struct es_param {
    const char *name; /* NULL ends a list */
    char letter;      /* for -x on a command line; 0: none */
    es_param_kind kind;
    const char *argument;      /* how help calls the value: FILE, N, GRID; NULL of a flag */
    const char *help;          /* what it does; without the default, which is added */
    size_t field;              /* offsetof() into the struct the list belongs to */
    const char *default_value; /* the default, as one would write it; NULL: none */
    const char *default_note;  /* in words, where the default depends on other parameters */
    const char *unit;
    double min, max;
    bool increasing;            /* of a grid: must increase */
    const char *const *choices; /* of a choice, NULL-ended */
    bool not_in_fingerprint;    /* changes no number: not part of what a run file is about */
    const char *alias;          /* another spelling */
    const char *renamed_from;   /* a spelling that is gone: refused, naming this one */
    bool several; /* of a list: on a command line more values may follow, up to the next option */
} es_param;

typedef struct es_params es_params;

/*! es_params_new() : the struct of `size` bytes that a list describes, holding the defaults.
 *  @return : ES_OK; ES_E_MEMORY; ES_E_ARGUMENT for a list whose defaults break its own rules. */
ES_API es_status es_params_new(const es_param *list, size_t size, es_params **out, es_error *err);
ES_API void es_params_free(es_params *params);

/*! es_params_set() : one value, as text; a flag is set by NULL or "yes", cleared by "no". Texts are
 *  copied. @return : ES_OK; ES_E_ARGUMENT: option.unknown, option.renamed (naming the new
 * spelling), option.value, option.grid, option.repeated. */
ES_API es_status es_params_set(es_params *params, const char *name, const char *text,
                               es_error *err);

/*! es_params_values() : the struct itself. es_params_given() : returns whether this one was set. */
ES_API void *es_params_values(es_params *params);
ES_API bool es_params_given(const es_params *params, const char *name);

/*! es_param_find() : the parameter of a name or alias; NULL if there is none. */
ES_API const es_param *es_param_find(const es_param *list, const char *name);

/*! es_nearest() : the name among `count` that `text` was probably meant to be, or NULL. */
ES_API const char *es_nearest(const char *text, const char *const *names, int count);

/* ---- a study ---- */

/*! es_answer_machine() : library, compiler, processor, kernels and threads, as facts of an answer.
 *  es_study_run() does it by itself. */
ES_API void es_answer_machine(es_answer *answer, const es_exec *exec);

/* What a run takes. Work is in operations of attention, or what attention would do in the time.
 *
 * A study states only the memory that the driver cannot know. es_study_run() adds the memory that
 * is in use when the run is admitted (weights of a model, arrays that open() has read, the state),
 * the cells of all stages, and thread_bytes for each thread. */
typedef struct es_cost {
    double flops;
    double seconds; /* where that was tried; 0: as long as operations take at a share of the peak */
    double disk_bytes;   /* written along the way, in no memory */
    double input_bytes;  /* files that are read after open() */
    double output_bytes; /* tables of the answer */
    double work_bytes;   /* scratch memory that exists once */
    double thread_bytes; /* scratch memory of one thread; es_cost_admit() counts work_bytes alone */
    double begin_flops;  /* of flops, those before the first cell: for progress */
} es_cost;

/*! es_cost_admit() : fails unless the memory bound is within `max_memory` (0: no limit). The rest
 *  of it becomes the limit of `budget` (may be NULL). es_study_run() does it by itself.
 *  @return : ES_OK; ES_E_LIMIT (memory.limit), naming both. */
ES_API es_status es_cost_admit(const es_cost *cost, size_t max_memory, es_mem_limit *budget,
                               es_error *err);

/*! es_cost_report() : the cost as table "cost" of an answer, with the time that this machine would
 *  take, whose peak is measured now. */
ES_API es_status es_cost_report(const es_cost *cost, const es_exec *exec, es_dtype precision,
                                es_answer *answer, es_error *err);

typedef struct es_job es_job;

/* A member of a cell's record: numbers in memory, a column each in run files. */
typedef struct es_cell_field {
    const char *name; /* NULL ends a list */
    size_t offset, size;
    bool measured; /* es_measured: the second number is NAME_se */
} es_cell_field;

#define ES_IS_MEASURED_(pointer) _Generic((pointer), double * : false, es_measured * : true)

/* ES_FIELD(record, member) : a member that is a double or an es_measured; ES_FIELD_AS() gives it
 * another name in run files. ES_FIELD_LIST() : an array of those; its columns are NAME_1, NAME_2,
 * ... */
#define ES_FIELD(record, member) ES_FIELD_AS(record, member, #member)
#define ES_FIELD_AS(record, member, name_)                                                         \
    {                                                                                              \
        .name = name_, .offset = offsetof(record, member), .size = sizeof((record *)0)->member,    \
        .measured = ES_IS_MEASURED_(&((record *)0)->member)                                        \
    }
#define ES_FIELD_LIST(record, member)                                                              \
    {                                                                                              \
        .name = #member, .offset = offsetof(record, member), .size = sizeof((record *)0)->member,  \
        .measured = ES_IS_MEASURED_(&((record *)0)->member[0])                                     \
    }

/* The record of a stage's cells: ES_RECORD(sink_cell, sink_fields). */
#define ES_RECORD(type, list) .record = sizeof(type), .fields = (list)

/* A kind of cell. Each holds `rows` records: structs whose members are double or es_measured, all
 * of them listed in `fields`. Where the number of columns depends on the parameters, a cell is
 * (rows, cols) numbers with names instead. */
typedef struct es_stage {
    const char *name;  /* in run files */
    const char *phase; /* what is going on, for progress: "drawing tokens" */
    const char *noun;  /* plural of the cells, for people: "replicates" */
    int64_t cells, rows;
    size_t record;               /* bytes of a record, ES_RECORD(); 0: plain numbers */
    const es_cell_field *fields; /* of a record; ends with a name that is NULL */
    int64_t cols;                /* numbers of a row; es_job_stage() sets it for a record */
    const char *const *columns;  /* (cols) names; likewise */
    bool one_thread_per_cell;    /* cells run side by side, one thread each; otherwise all threads
                                    work on one cell */
    bool reports_progress;       /* a cell reports its own progress from 0 to the end once */
    bool shared;                 /* cells of later stages read these: all ranks have them */
    bool on_disk;                /* cells are large: they are in a temporary file, es_job_read();
                                    with run_part only */
    double flops;                /* of a cell */
    /* Work of a cell relative to the others, where it differs much: for progress, and to divide
     * cells among shards, which must all compute the same. Not with one_thread_per_cell. */
    double (*weight)(const es_job *job, int64_t cell);
    /* Computes a cell: out (rows) records, or (rows, cols) numbers. */
    es_status (*run)(es_job *job, int64_t cell, const es_exec *exec, void *out, es_error *err);

    /* Or, instead of run(): `group` consecutive cells (0: 1) are computed together, the last group
     * being what is left, in `parts` (0: 1) that any rank may do. A part makes part_numbers numbers
     * of a group, its state; states are folded in the order of the parts, on rank 0, and
     * finish() makes the group's cells, out (cells of the group, rows, cols), of all of them. NULL:
     * the state is the cells. Cells are not `one_thread_per_cell`. */
    int64_t group, parts, part_numbers;
    es_status (*run_part)(es_job *job, int64_t group, int64_t part, const es_exec *exec,
                          double *state, es_error *err);
    es_status (*fold)(es_job *job, int64_t group, double *into, const double *state, es_error *err);
    es_status (*finish)(es_job *job, int64_t group, const double *state, void *out, es_error *err);
} es_stage;

/* Which common parameters a study has. */
enum {
    ES_TAKES_SEED = 1,
    ES_TAKES_THREADS = 2,
    ES_TAKES_ISA = 4,       /* kernels may be chosen; a run file says which were */
    ES_TAKES_PRECISION = 8, /* f32 or f64 kernels */
    ES_TAKES_HEADS = 16     /* tables have a row for each layer or head, which may be chosen */
};

/* The heading under which help, man pages and completion list a study. */
typedef enum es_study_group {
    ES_GROUP_MORE = 0, /* everything else */
    ES_GROUP_MODEL,    /* needs the user's model and text */
    ES_GROUP_ARRAYS,   /* needs the user's arrays or kernels */
    ES_GROUP_LAB,      /* random tokens and formulas: needs no input */
    ES_GROUP_RESULTS   /* reads run files */
} es_study_group;

typedef struct es_study {
    const char *name;
    const char *summary;         /* the question it answers: one line, no full stop */
    const char *usage;           /* what stands after the name on a command line */
    const char *about;           /* paragraphs for help */
    const char *const *examples; /* NULL-ended */
    const es_param *params;
    size_t size;         /* of the struct they go to */
    unsigned takes;      /* ES_TAKES_... */
    const char *operand; /* the parameter that a word without dashes is for; NULL: none */
    const char *csv;     /* tables, by blanks: the first that is there is the CSV; NULL: any */
    bool keeps_nothing;  /* too quick for a run file: `out` is refused */
    size_t state;        /* bytes of the study's own, zeroed, in job->state */
    es_status (*open)(es_job *job, es_error *err);
    es_status (*cost)(es_job *job, es_cost *out, es_error *err); /* NULL: negligible */
    es_status (*begin)(es_job *job, es_error *err);              /* NULL: nothing to make */
    es_status (*summarise)(es_job *job, es_answer *answer, es_error *err);
    void (*close)(
        es_job *job); /* whatever happened after `open` was called; NULL: arena is enough */
    es_study_group group;
    const char *main_options; /* those that short help shows, with spaces between the names; NULL:
                                 the first ones of `params` */
} es_study;

/*! es_study_at() : the studies of the library in a fixed order; NULL beyond the last.
 *  es_study_find() : by name; NULL if there is none. */
ES_API const es_study *es_study_at(int64_t at);
ES_API const es_study *es_study_find(const char *name);

/*! es_claim_id_at() : the id of a claim that the study `claims` checks, for shell completion; NULL
 *  beyond the last. */
ES_API const char *es_claim_id_at(int64_t at);

/* ---- a run of it ---- */

typedef struct es_progress {
    const char *phase;  /* what is going on */
    double phase_share; /* of this phase, 0 to 1 */
    double share;       /* of the whole run, by the work that is foreseen: never falls */
    double kept;        /* of that share, what a run file held already: it took no time */
} es_progress;

typedef struct es_study_opts {
    uint64_t seed;
    es_dtype precision; /* of attention kernels; 0: the study's choice */
    es_exec exec;       /* threads, kernels, memory limit, executor; its progress is not used */
    size_t max_memory;  /* bytes; 0: no limit */
    bool dry_run;       /* the answer is the cost */
    const char *out;    /* run file; NULL: none */
    bool resume, force; /* go on with it; overwrite it */
    /* Of `shards` processes that know nothing of each other, this is number `shard`, from 1: it
     * computes its share of the cells into a run file of its own, and its answer says so, without
     * tables; es_run_join() makes one run of all of them. 0: the whole run. */
    int64_t shard, shards;
    const char *line; /* how the run was asked for, for the run file; NULL: unknown */
    /* Called now and then, never from two threads at once; true asks to stop. NULL: silent. */
    bool (*progress)(void *user, const es_progress *now);
    void (*admitted)(void *user, const es_cost *cost); /* called before work begins; may be NULL */
    void *user;
} es_study_opts;

/*! es_study_run() : all of it. `params` is completed along the way. *answer is the caller's; it is
 *  NULL where status is not ES_OK, and on ranks other than 0.
 *  @return : ES_OK; ES_E_LIMIT (memory.limit) before any work; ES_E_ARGUMENT for parameters that
 *  contradict each other (run.options, run.shard); what run.h says of run files; ES_E_INTERRUPTED
 * (run.interrupted), saying how far it came; and what the study's own functions return. */
ES_API es_status es_study_run(const es_study *study, es_params *params, const es_study_opts *opts,
                              es_answer **answer, es_error *err);

#ifdef __cplusplus
}
#endif
#endif
