/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>

#include <esscher/foreign.h>

#include "base/memory.h"

struct es_monitor {
    es_monitor_view now;
    bool stop;
    char lock; /* guards now */
};

static void lock_monitor(es_monitor *m)
{
    while (__atomic_test_and_set(&m->lock, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock_monitor(es_monitor *m) { __atomic_clear(&m->lock, __ATOMIC_RELEASE); }

es_status es_monitor_new(es_monitor **out, es_error *err)
{
    void *memory;
    const es_status status = es_mem_new(NULL, sizeof **out, "a monitor", &memory, err);
    *out = memory;
    if (status == ES_OK)
        (*out)->now = (es_monitor_view){.share = -1, .phase_share = -1, .kept = -1};
    return status;
}

void es_monitor_free(es_monitor *monitor) { es_mem_free(NULL, monitor); }

bool es_monitor_progress(void *monitor, const es_progress *now)
{
    es_monitor *m = monitor;
    lock_monitor(m);
    m->now.share = now->share;
    m->now.phase_share = now->phase_share;
    m->now.kept = now->kept;
    snprintf(m->now.phase, sizeof m->now.phase, "%s", now->phase ? now->phase : "");
    unlock_monitor(m);
    return __atomic_load_n(&m->stop, __ATOMIC_RELAXED);
}

bool es_monitor_work(void *monitor, double done, double total)
{
    const double share = total > 0 ? done / total : 1;
    return es_monitor_progress(monitor, &(es_progress){.share = share, .phase_share = share});
}

void es_monitor_read(es_monitor *monitor, es_monitor_view *out)
{
    lock_monitor(monitor);
    *out = monitor->now;
    unlock_monitor(monitor);
}

void es_monitor_stop(es_monitor *monitor)
{
    __atomic_store_n(&monitor->stop, true, __ATOMIC_RELAXED);
}
