/* executor.c : cells computed by the threads of this process. */
#include "base/error.h"
#include "base/threads.h"
#include "driver/driver.h"

typedef struct team {
    const es_work *work;
    es_exec one; /* one thread, silent: what a cell that works alone is given */
} team;

static es_status one_cell(const es_work *w, int64_t cell, const es_exec *exec, es_error *err)
{
    double *values = w->room(w->driver, cell);
    ES_TRY(w->compute(w->driver, cell, exec, values, err));
    return w->done(w->driver, cell, values, err);
}

static es_status unit(void *job, int64_t at, int thread, es_error *err)
{
    const team *t = job;
    (void)thread;
    return one_cell(t->work, t->work->cells[at], &t->one, err);
}

/* Cells that work alone run side by side; a cell that takes all threads comes after the other. */
static es_status run_threads(const es_executor *self, const es_work *work, const es_exec *exec,
                             es_error *err)
{
    (void)self;
    if (work->stage->alone) {
        team t = {.work = work, .one = *exec};
        t.one.threads = 1;
        t.one.progress = NULL;
        return es_parallel_run(exec, work->count, unit, &t, err);
    }
    for (int64_t i = 0; i < work->count; i++)
        ES_TRY(one_cell(work, work->cells[i], exec, err));
    return ES_OK;
}

const es_executor es_executor_threads = {.name = "threads", .run = run_threads};
