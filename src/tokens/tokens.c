/* tokens.c : a law to rows in one call, and on many threads. */
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/threads.h"
#include "tokens/sampler.h"

/* ---- on this thread ---- */

es_status es_tokens_rows(const es_law *law, const es_address *first, int64_t count, double *out,
                         es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, NULL, &sampler, err));
    const es_status status = es_sampler_rows(sampler, first, count, out, err);
    es_sampler_free(sampler);
    return status;
}

es_status es_tokens_rows_f32(const es_law *law, const es_address *first, int64_t count, float *out,
                             es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, NULL, &sampler, err));
    const es_status status = es_sampler_rows_f32(sampler, first, count, out, err);
    es_sampler_free(sampler);
    return status;
}

/* ---- on many ---- */

typedef struct job {
    const es_sampler *sampler;
    const es_address *first;
    int64_t count, dim;
    double *out64; /* one of the two is NULL */
    float *out32;
} job;

static es_status fill_unit(void *context, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    const job *w = context;
    const int64_t begin = unit * ES_TOKENS_UNIT, left = w->count - begin;
    const int64_t count = left < ES_TOKENS_UNIT ? left : ES_TOKENS_UNIT;
    es_address at = *w->first;
    at.token += (uint64_t)begin;
    if (w->out32)
        return es_sampler_rows_f32(w->sampler, &at, count, w->out32 + begin * w->dim, err);
    return es_sampler_rows(w->sampler, &at, count, w->out64 + begin * w->dim, err);
}

static es_status fill(const es_law *law, job *w, const es_exec *exec, es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, exec ? exec->budget : NULL, &sampler, err));
    const void *out = w->out32 ? (const void *)w->out32 : w->out64;
    const int64_t units = w->count / ES_TOKENS_UNIT + (w->count % ES_TOKENS_UNIT != 0);
    w->sampler = sampler;
    w->dim = law->dim;
    es_status status = es_sampler_check(sampler, w->first, w->count, out, err);
    if (status == ES_OK)
        status = es_parallel_run(exec, units, fill_unit, w, err);
    es_sampler_free(sampler);
    return status;
}

es_status es_tokens_fill(const es_law *law, const es_address *first, int64_t count,
                         const es_exec *exec, double *out, es_error *err)
{
    job w = {.first = first, .count = count, .out64 = out};
    return fill(law, &w, exec, err);
}

es_status es_tokens_fill_f32(const es_law *law, const es_address *first, int64_t count,
                             const es_exec *exec, float *out, es_error *err)
{
    job w = {.first = first, .count = count, .out32 = out};
    return fill(law, &w, exec, err);
}
