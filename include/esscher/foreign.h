/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.h : for callers in another language.
 *
 * Who calls this library from an interpreter has two troubles that a program in C has not. Structs
 * are described a second time, by hand, and a description that is wrong by one field corrupts
 * memory: es_field_at() says where every field lies, so that it can be compared before the first
 * call. Code of the interpreter must not run in threads that it did not start: a monitor stores
 * progress instead, and another thread reads it and can stop the run.
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

/* Where a field lies. This struct never changes. */
typedef struct es_field {
    const char *type; /* es_attend_opts */
    const char *name; /* of the field; "" stands for the struct itself: offset 0, and its size */
    int64_t offset, size;
} es_field;

/*! es_field_at() : number `at` of the fields of the structs that bindings describe again, struct by
 *  struct; NULL beyond the last. */
ES_API const es_field *es_field_at(int64_t at);

/* Progress that one thread writes and another reads. */
typedef struct es_monitor es_monitor;

typedef struct es_monitor_view {
    double share, phase_share, kept; /* as in es_progress; -1 before the first report */
    char phase[96];                  /* cut if it is longer; "" where there are no phases */
} es_monitor_view;

/*! es_monitor_new() : makes a monitor without progress. Release it with es_monitor_free(), after
 *  the call that uses it. @return : ES_OK; ES_E_MEMORY. */
ES_API es_status es_monitor_new(es_monitor **out, es_error *err);
ES_API void es_monitor_free(es_monitor *monitor);

/*! es_monitor_work() : es_exec.progress, with a monitor as its user. es_monitor_progress() : the
 *  same for es_study_opts. Both stop the run after es_monitor_stop(). */
ES_API bool es_monitor_work(void *monitor, double done, double total);
ES_API bool es_monitor_progress(void *monitor, const es_progress *now);

/*! es_monitor_read() : returns the last progress. es_monitor_stop() : stops the run. Any thread. */
ES_API void es_monitor_read(es_monitor *monitor, es_monitor_view *out);
ES_API void es_monitor_stop(es_monitor *monitor);

#ifdef __cplusplus
}
#endif
#endif
