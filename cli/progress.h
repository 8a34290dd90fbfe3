/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h : progress of a run on stderr; signals that stop it. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

typedef struct cli_progress {
    bool shown;            /* may be shown at all */
    bool terminal;         /* stderr is one: the line is drawn over itself */
    bool drawn;            /* a line is on the terminal and must be erased */
    const char *what;      /* command, for the line */
    const char *within;    /* the tour that it is a step of; NULL: none */
    const char *phase;     /* that was drawn last */
    double started;        /* seconds on the monotonic clock */
    double reported, last; /* times of the last report and of the last drawing */
    double share;          /* fraction of the whole run at the last report */
    double left;           /* seconds, smoothed; below 0: not known yet */
    double from, span;     /* this run's part of the whole */
    double parts, part;    /* the work in equal parts, and the one under way */
} cli_progress;

enum { CLI_PROGRESS_AUTO, CLI_PROGRESS_ALWAYS, CLI_PROGRESS_NEVER };

double cli_seconds(void);

/* Begin; `when` is one of the above, `quiet` turns AUTO off. */
void cli_progress_start(cli_progress *p, const char *what, int when, bool quiet);

/* Makes this run a step of the tour `of`, from one share of it to another. */
void cli_progress_within(cli_progress *p, const cli_progress *of, double from, double to);

/* The callback of es_exec: draws at most five times a second; returns true once the run is to
 * stop. */
bool cli_progress_report(void *progress, double done, double total);

/* The same for a study: the phase it is in, its share of the whole run, and of that, what took no
 * time. A terminal sees a phase when it begins; elsewhere, lines begin after a second. */
bool cli_progress_phase(cli_progress *p, const char *phase, double share, double kept);

void cli_progress_wipe(cli_progress *p);

/* From now on SIGINT (Ctrl-C), SIGTERM (kill, a scheduler's time limit) and SIGHUP (closed
 * terminal) set a flag that cli_progress_report() returns, so that the run ends in order. A second
 * SIGINT or SIGTERM kills. */
void cli_interrupt_install(void);
bool cli_interrupted(void);

/* Returns the exit code for the signal that stopped the run: CLI_INTERRUPTED, CLI_STOPPED for
 * SIGTERM, or CLI_HUNG_UP. */
int cli_interrupt_exit(void);

#endif
