/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c : the progress line on a terminal, and the signals that end a run in order. */
#include "progress.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

static volatile sig_atomic_t interrupted; /* by this signal; 0: not yet */

/* Remembers the signal; everything else happens outside the handler. */
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
    return interrupted == SIGINT   ? CLI_INTERRUPTED
           : interrupted == SIGHUP ? CLI_HUNG_UP
                                   : CLI_STOPPED; /* or it was another rank that was stopped */
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
    *p =
        (cli_progress){.what = what, .terminal = terminal, .left = -1.0, .span = 1.0, .parts = 1.0};
    p->shown = when == CLI_PROGRESS_ALWAYS || (when != CLI_PROGRESS_NEVER && terminal && !quiet);
    p->started = p->reported = p->last = cli_seconds();
}

void cli_progress_within(cli_progress *p, const cli_progress *of, double from, double to)
{
    p->within = of->what;
    p->started = of->started;
    p->share = p->from = from;
    p->span = to - from;
}

/* ---- the time left ---- */

/* Estimates the remaining time from the pace so far, smoothed over a fifth of the elapsed time, so
 * that the figure does not jump. */
static void estimate(cli_progress *p, double now, double share, double kept)
{
    const double step = now - p->reported, elapsed = now - p->started, made = share - kept;
    p->share = share;
    p->reported = now;
    if (elapsed < 2.0 || made < 0.01)
        return;
    const double left = elapsed * (1.0 - share) / made;
    p->left = p->left < 0.0 ? left : fmax(0.0, p->left - step);
    p->left += (left - p->left) * step / (step + 0.2 * elapsed);
}

/* ", about 3 min left", with no more digits than are known; nothing while it is not. */
static const char *left_text(double seconds, char out[48])
{
    out[0] = '\0';
    if (seconds >= 5400.0)
        snprintf(out, 48, ", about %.1f h left", seconds / 3600.0);
    else if (seconds >= 90.0)
        snprintf(out, 48, ", about %.0f min left", seconds / 60.0);
    else if (seconds >= 10.0)
        snprintf(out, 48, ", about %.0f s left", 10.0 * ceil(seconds / 10.0));
    else if (seconds >= 0.0)
        snprintf(out, 48, ", a few seconds left");
    return out;
}

/* ---- the line ---- */

/* Draws the progress line over the old one. */
static void draw(cli_progress *p, double now)
{
    char left[48];
    const int seconds = (int)(now - p->started);
    fprintf(stderr, "%sesscher %s%s%s: %s%s%.0f %%, %d:%02d%s%s", p->terminal ? "\r" : "",
            p->within ? p->within : "", p->within ? ": " : "", p->what, p->phase ? p->phase : "",
            p->phase ? ", " : "", floor(100.0 * p->share), seconds / 60, seconds % 60,
            left_text(p->left, left), p->terminal ? "\033[K" : "\n");
    fflush(stderr);
    p->drawn = p->terminal;
    p->last = now;
}

bool cli_progress_phase(cli_progress *p, const char *phase, double share, double kept)
{
    const double now = cli_seconds();
    const bool fresh = phase && (!p->phase || strcmp(phase, p->phase) != 0);
    estimate(p, now, fmax(p->share, p->from + p->span * share), p->span * kept);
    if (p->shown && (p->terminal ? fresh || now - p->last > 0.2
                                 : now - p->started > 1.0 && (fresh || now - p->last > 0.2))) {
        p->phase = phase;
        draw(p, now);
    }
    return cli_interrupted();
}

bool cli_progress_report(void *progress, double done, double total)
{
    cli_progress *p = progress;
    return cli_progress_phase(p, p->phase, total > 0.0 ? (p->part + done / total) / p->parts : 0.0,
                              0.0);
}

void cli_progress_wipe(cli_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}
