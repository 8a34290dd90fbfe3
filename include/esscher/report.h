/* SPDX-License-Identifier: Apache-2.0 */
/* report.h : run files as one page to look at.
 *
 * The page is a single HTML file that needs nothing else: it opens from a disk without a network,
 * makes no request, and runs no code but the one it was built with (a Content-Security-Policy says
 * so to the browser). It begins with what was found: model, text, date and seed, then the findings
 * of every run. Each run has a section with its findings and one figure; further figures, tables,
 * definitions, parameters and provenance are folded under it. All but the figures can be read
 * without JavaScript; figures are drawn by the page from the tables, and every table can be saved
 * as CSV.
 *
 *     const char *runs[] = {"claims.run", "converge.run"};
 *     status = es_report_write(runs, 2, "report.html", &(es_report_opts){0}, NULL, &err);
 *
 * Sections stand in this order: comparisons, runs of real models and of attention that was
 * measured, experiments on synthetic tokens, claims, selfcheck; among one kind, as the runs were
 * given.
 *
 * The page carries every row and column of its tables, with seven digits. Only where that would be
 * beyond reason (more than some 100000 numbers in a table) whole series are left out, and each
 * figure says which. People are shown the first 150 rows of a table and a summary of all. Nothing
 * depends on the clock: the same runs give the same bytes.
 */
#ifndef ESSCHER_REPORT_H
#define ESSCHER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ES_REPORT_RUNS = 256 }; /* most that one page takes */

typedef struct es_report_opts {
    const char *title;    /* NULL: model and text of the first run that has them, or the commands */
    bool overwrite;       /* replace a file of that name */
    bool tables_only;     /* leave figures out; the only way in a library built without them */
    es_mem_limit *budget; /* NULL: no ceiling. One run's tables are held at a time */
} es_report_opts;

typedef struct es_report_size {
    int64_t runs, tables;
    int64_t rows; /* of all tables */
    int64_t bytes;
} es_report_size;

/*! es_report_write() : the page of `count` run files at `path`: either whole or not
 *  there. `size`, when not NULL, says what went into it. O(files); memory: the tables of one run.
 *  Runs may be written to meanwhile; each is read as it stands.
 *  @return : ES_OK; ES_E_ARGUMENT without runs or with too many (report.runs), or if the page is
 *  one of them (report.out); ES_E_UNSUPPORTED (report.figures) if figures are wanted and the
 * library was built without npm; ES_E_EXISTS; whatever es_run_open() and es_run_get_table() return,
 * naming the run (a newer schema: run.schema); ES_E_LIMIT; ES_E_MEMORY; ES_E_IO. */
ES_API es_status es_report_write(const char *const *runs, int64_t count, const char *path,
                                 const es_report_opts *opts, es_report_size *size, es_error *err);

/* ---- figures as files ---- */

/* A file that was written. */
typedef struct es_report_file {
    const char *path;
    const char *figure; /* converge-rates-against-the-horizon: its name without the ending */
    const char *kind;   /* "svg", "pdf", "vl.json", "csv" */
    const char *title;
    int64_t rows; /* of the CSV: marks of the figure */
    int64_t bytes;
    int64_t unknown; /* characters of a PDF that its fonts have not: question marks there */
} es_report_file;

typedef struct es_figures_opts {
    bool overwrite;          /* replace files of those names */
    es_mem_limit *budget;    /* NULL: no ceiling. All files are held before the first is written */
    es_progress_fn progress; /* NULL, or asked every 20 ms whether to stop */
    void *progress_user;
    void (*wrote)(void *user, const es_report_file *file); /* called after each file; may be NULL */
    void *wrote_user;
} es_figures_opts;

/*! es_report_figures() : every figure that a page of these runs would have, in the colours of its
 *  light form, in `folder`, which is made if it is not there: RUN-FIGURE.svg, .pdf (text in
 *  Helvetica and Symbol), .vl.json (Vega-Lite, with its data) and .csv; RUN is the name of the run
 * file without its ending; a name is cut to some 150 characters, and no two are the same. Where the
 * reader of a page chooses one of several, all of them.
 *
 *  This is the one function of the library that starts another program: `node`, which is looked for
 *  on PATH and must be 18 or later. It runs a script of this library, without a shell; it is given
 *  the tables and gives back files, and opens none itself. It has ended when the function returns,
 *  whatever the function returns. Nothing is written before all figures are drawn.
 *  @return : ES_OK; ES_E_ARGUMENT (report.runs, file.path); ES_E_LIMIT (file.path) if the name of
 * the folder is too long; ES_E_UNSUPPORTED: report.figures if the library was built without npm,
 * report.node if there is no node or it failed; ES_E_EXISTS before anything is written;
 * ES_E_INTERRUPTED; else as es_report_write(). Thread-safe where waitpid() is: no other thread may
 * wait for any child. */
ES_API es_status es_report_figures(const char *const *runs, int64_t count, const char *folder,
                                   const es_figures_opts *opts, es_error *err);

/*! es_report_missing() : why this library draws no figures; "" if it does. */
ES_API const char *es_report_missing(void);

#ifdef __cplusplus
}
#endif
#endif
