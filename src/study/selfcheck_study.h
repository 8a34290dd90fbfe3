/* selfcheck_study.h : what is checked about the program's own intervals, p-values and verdicts. The
 * list is in selfcheck_settings.c; how often they are right is counted in selfcheck_study.c.
 *
 * A *setting* is a study with parameters, run as anybody would run it, for many seeds. *Figures*
 * are columns of its answer for which the truth is known. */
#ifndef ES_STUDY_SELFCHECK_STUDY_H
#define ES_STUDY_SELFCHECK_STUDY_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/status.h>

typedef enum es_figure_kind {
    ES_FIGURE_NONE,
    ES_FIGURE_INTERVAL, /* key_ci.0 .. key_ci.1 should hold the truth 95 times of 100 */
    ES_FIGURE_ERROR,    /* value +- t key_se likewise, t of `freedom` degrees */
    ES_FIGURE_P,        /* should be below .05 5 times of 100: what it tests is true here */
    ES_FIGURE_VERDICT   /* text `wrong` anywhere in the column: at most 5 times of 100 */
} es_figure_kind;

enum { ES_FIGURES = 6, ES_FIGURE_ROWS = 16 }; /* of a setting, of a figure, at most */

typedef struct es_figure {
    es_figure_kind kind;
    const char *table, *key;
    const char *name;       /* for people; NULL: key */
    int64_t row;            /* the only row that is looked at, from 1; 0: all */
    const char *se;         /* column of the standard error; NULL: key_se */
    const char *low, *high; /* columns of the interval; NULL: key_ci.0 and .1 */
    const char *exact;      /* column of the truth; NULL: */
    double truth;           /*   this number; NaN: */
    const char *like; /*   the mean over seeds of the same figure in the setting of this name */
    double freedom;   /* of the standard error; 0: infinite */
    const char *wrong;
} es_figure;

/* Files that a study reads: written to `folder`, numbers from `seed`. */
typedef es_status (*es_setting_input)(const char *folder, uint64_t seed, es_error *err);

typedef struct es_setting {
    const char *name;  /* "converge.4" */
    const char *about; /* in words */
    const char *study;
    const char *given; /* "name=value ..."; @ stands for the folder of its input */
    es_setting_input input;
    es_figure figures[ES_FIGURES];
    bool needs_model; /* runs only with --model */
} es_setting;

/*! es_figure_outcome() : of an answer (value, low, high), value being counted from the truth that
 * the answer itself has: 1 if the interval holds `truth`, if p is below .05, if the verdict is
 * wrong; 0 if not; NaN if nothing was said. */
double es_figure_outcome(const es_figure *figure, const double answer[3], double truth);

/*! es_figure_off() : is a share that was found, with its standard error, off from what it should be
 *  by more than four of them and two points of a hundred? Verdicts may be wrong less often. Nothing
 *  found (NaN) is off: what is never said cannot be relied on. */
bool es_figure_off(es_figure_kind kind, double nominal, double found, double se);

extern const es_setting es_settings[];
extern const int64_t es_settings_count;

#endif
