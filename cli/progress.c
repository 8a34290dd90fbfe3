#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

static volatile sig_atomic_t interrupted; /* by this signal; 0: not yet */

static void on_interrupt(int signal) { interrupted = signal; }

/* What the caller has chosen to ignore stays ignored, as nohup asks. */
static void hear(int signal, int flags)
{
    struct sigaction before, action = {.sa_handler = on_interrupt, .sa_flags = flags};
    if (sigaction(signal, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal, &action, NULL);
}

void cli_interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    action.sa_flags = (int)SA_RESETHAND; /* the second one finds the default: kill */
    sigaction(SIGINT, &action, NULL);    /* even where a shell ignores it, for what runs behind */
    hear(SIGTERM, action.sa_flags);
    hear(SIGHUP, 0); /* of one terminal that closes, several may arrive */
}

bool cli_interrupted(void) { return interrupted != 0; }

int cli_interrupt_exit(void)
{
    return interrupted == SIGTERM  ? CLI_STOPPED
           : interrupted == SIGHUP ? CLI_HUNG_UP
                                   : CLI_INTERRUPTED;
}

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_start(cli_progress *p, const char *what, int when, bool quiet)
{
    const char *term = getenv("TERM");
    const bool terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    *p = (cli_progress){.what = what, .terminal = terminal, .parts = 1.0};
    p->shown = when == CLI_PROGRESS_ALWAYS || (when != CLI_PROGRESS_NEVER && terminal && !quiet);
    p->started = p->last = cli_seconds();
}

bool cli_progress_phase(cli_progress *p, const char *phase, double share)
{
    const double now = cli_seconds(), elapsed = now - p->started;
    if (p->shown && elapsed > 1.0 && now - p->last > 0.2) {
        const double left = share > 0.0 ? elapsed / share - elapsed : 0.0;
        fprintf(stderr, "%sesscher %s: %s, %3.0f %%, %.0f s, %.0f s left%s",
                p->terminal ? "\r" : "", p->what, phase, 100.0 * share, elapsed, left,
                p->terminal ? "\033[K" : "\n");
        fflush(stderr);
        p->drawn = p->terminal;
        p->last = now;
    }
    return cli_interrupted();
}

bool cli_progress_tell(void *progress, double done, double total)
{
    cli_progress *p = progress;
    const double now = cli_seconds(), elapsed = now - p->started;
    if (p->shown && elapsed > 1.0 && now - p->last > 0.2 && total > 0.0) {
        const double share = (p->part + done / total) / p->parts;
        const double left = share > 0.0 ? elapsed / share - elapsed : 0.0;
        fprintf(stderr, "%sesscher %s: %3.0f %%, %.0f s, %.0f s left%s", p->terminal ? "\r" : "",
                p->what, 100.0 * share, elapsed, left, p->terminal ? "   " : "\n");
        fflush(stderr);
        p->drawn = p->terminal;
        p->last = now;
    }
    return cli_interrupted();
}

void cli_progress_wipe(cli_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

bool cli_progress_silent(void *user, double done, double total)
{
    (void)user;
    (void)done;
    (void)total;
    return cli_interrupted();
}
