/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.h : for callers in another language.
 *
 * A caller from an interpreter has two problems that a program in C does not have. It describes the
 * structs of this library a second time, and a description that is wrong by one field corrupts
 * memory: es_field_at() gives the place of every field, so that a binding can compare it before the
 * first call. And the interpreter's code must not run in the library's threads: a monitor takes
 * progress instead, and another thread reads it and asks the call to stop.
 *
 *     es_monitor *monitor;
 *     es_monitor_new(&monitor, &err);
 *     opts.progress = es_monitor_progress, opts.user = monitor;      in a thread: es_study_run()
 *     es_monitor_read(monitor, &now);                                meanwhile, in another
 *     es_monitor_stop(monitor);
 */
#ifndef ESSCHER_FOREIGN_H
#define ESSCHER_FOREIGN_H

#include <esscher/study.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The place of a field in its struct. This struct never changes. */
typedef struct es_field {
    const char *type; /* es_attend_opts */
    const char *name; /* of the field; "" stands for the struct itself: offset 0, and its size */
    int64_t offset, size;
} es_field;

/*! es_field_at() : returns number `at` of the fields of all public structs, struct by struct; NULL
 *  beyond the last. The list is made from the headers when the library is built. */
ES_API const es_field *es_field_at(int64_t at);

/* Progress that one thread reports and another reads. */
typedef struct es_monitor es_monitor;

typedef struct es_monitor_view {
    double share, phase_share, kept; /* as in es_progress; -1 before the first report */
    char phase[96];                  /* cut if it is longer; "" where there are no phases */
} es_monitor_view;

/*! es_monitor_new() : makes a monitor without a report. Release it with es_monitor_free() after the
 *  call that it was given to. @return : ES_OK; ES_E_MEMORY. */
ES_API es_status es_monitor_new(es_monitor **out, es_error *err);
ES_API void es_monitor_free(es_monitor *monitor);

/*! es_monitor_work() : es_exec.progress, with a monitor as its user. es_monitor_progress() : the
 *  same for es_study_opts. Both return true, which stops the call, after es_monitor_stop(). */
ES_API bool es_monitor_work(void *monitor, double done, double total);
ES_API bool es_monitor_progress(void *monitor, const es_progress *now);

/*! es_monitor_read() : copies the last report. es_monitor_stop() : asks the call to stop. Any
 *  thread may call them. */
ES_API void es_monitor_read(es_monitor *monitor, es_monitor_view *out);
ES_API void es_monitor_stop(es_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif
