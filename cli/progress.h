/* progress.h : how far a run is, on stderr; and Ctrl-C, which stops it. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

typedef struct cli_progress {
    bool shown;         /* may be shown at all */
    bool terminal;      /* stderr is one: the line is drawn over itself */
    bool drawn;         /* a line stands on the terminal and must be wiped */
    const char *what;   /* command, for the line */
    double started;     /* seconds on the monotonic clock */
    double last;        /* when the line was last drawn */
    double parts, part; /* the work in equal parts, and the one under way */
} cli_progress;

enum { CLI_PROGRESS_AUTO, CLI_PROGRESS_ALWAYS, CLI_PROGRESS_NEVER };

double cli_seconds(void);

/* Begin; `when` is one of the above, `quiet` turns AUTO off. */
void cli_progress_start(cli_progress *p, const char *what, int when, bool quiet);

/* The callback of es_exec: draws at most five times a second and only after the first second;
 * returns true once the user has pressed Ctrl-C. */
bool cli_progress_tell(void *progress, double done, double total);

void cli_progress_wipe(cli_progress *p);

/* From now on the first Ctrl-C sets a flag that cli_progress_tell() returns; the second kills. */
void cli_interrupt_install(void);
bool cli_interrupted(void);

/* An es_progress_fn that tells nothing and only hears Ctrl-C: for the passes of what is told as one
 * part. */
bool cli_progress_silent(void *user, double done, double total);

#endif
