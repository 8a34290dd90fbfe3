/* SPDX-License-Identifier: Apache-2.0 */
/* token_sampler.c : tokens of a law: a few rows of Z at a time, then their image mean + B z; on one
 * thread or many. */
#include "tokens/tokens.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/threads.h"
#include "law/law_row.h"
#include "random/random.h"

/* A stage holds STAGE numbers, which stay in the second cache beside a panel of B, but at least
 * FEW rows, over which the trip of a large B through memory is shared. */
enum { STAGE = 1 << 14, FEW = 16 };

struct es_sampler {
    es_source source;
};

_Static_assert((int)ES_TOKENS_LANES == (int)ES_LANE_END, "lanes that one token owns");

/* ---- preparing ---- */

void es_sampler_free(es_sampler *sampler)
{
    if (!sampler)
        return;
    es_mem_limit *budget = sampler->source.budget;
    es_source_release(&sampler->source);
    es_mem_free(budget, sampler);
}

es_status es_sampler_new(const es_law *law, es_mem_limit *budget, es_sampler **out, es_error *err)
{
    *out = NULL;
    ES_TRY(es_law_check(law, err));
    es_sampler *s;
    ES_TRY(ES_MEM_NEW(budget, s, 1, "a sampler", err));
    s->source.budget = budget;
    const es_status status = es_source_prepare(&s->source, law, budget, err);
    if (status == ES_OK)
        *out = s;
    else
        es_sampler_free(s);
    return status;
}

/* ---- the stage ---- */

/* Returns how many rows are drawn at a time: enough to fill the cache, at least FEW. */
static int64_t stage_rows(int64_t dim, int64_t count)
{
    const int64_t rows = STAGE / dim > FEW ? STAGE / dim : FEW;
    return count < rows ? count : rows;
}

/* Frees the buffers of stage_new(). */
static void stage_free(const es_source *s, es_law_scratch *stage)
{
    es_mem_free(s->budget, stage->base);
    es_mem_free(s->budget, stage->gather);
}

/* Allocates the buffers that a law needs between base draws and finished rows. */
static es_status stage_new(const es_source *s, int64_t count, es_law_scratch *stage, es_error *err)
{
    *stage = (es_law_scratch){.rows = stage_rows(s->law.dim, count)};
    const bool wanted[] = {s->law.factor != NULL, s->parts != NULL};
    double **const places[] = {&stage->base, &stage->gather};
    for (int i = 0; i < 2; i++) {
        const es_status status = wanted[i] ? ES_MEM_NEW_2D(s->budget, *places[i], stage->rows,
                                                           s->law.dim, "rows of tokens", err)
                                           : ES_OK;
        if (status != ES_OK) {
            stage_free(s, stage);
            return status;
        }
    }
    return ES_OK;
}

/* ---- drawing ---- */

/* Draws `count` rows: the base law, then mean and factor. */
static es_status draw(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *out, es_error *err)
{
    double *z = stage->base ? stage->base : out;
    ES_TRY(s->row->rows(s, first, count, stage, z, err));
    es_affine_rows(&s->affine, z, count, NULL, out);
    return ES_OK;
}

/* Fails unless these rows can be drawn, for any reason but a lack of memory. */
static es_status check(const es_sampler *sampler, const es_address *first, int64_t count,
                       es_error *err)
{
    const es_source *s = &sampler->source;
    size_t bytes;
    if (!es_size_of_array(count, s->law.dim, 1, sizeof(double), &bytes))
        return es_fail(err, ES_E_SHAPE, "tokens.count", "count >= 0",
                       "%lld tokens of dimension %lld", (long long)count, (long long)s->law.dim);
    es_address last = *first;
    ES_TRY(es_address_check(&last, err));
    last.token += count > 0 ? (uint64_t)count - 1 : 0;
    last.lane += ES_TOKENS_LANES - 1;
    ES_TRY(es_address_check(&last, err));
    const int64_t most = s->row->most ? s->row->most(&s->law) : INT64_MAX;
    if (count > 0 && last.token >= (uint64_t)most)
        return es_fail(err, ES_E_RANGE, "tokens.points",
                       "give more points, or draw with replacement",
                       "token %llu does not exist: %lld points, drawn without replacement",
                       (unsigned long long)last.token, (long long)most);
    return ES_OK;
}

es_status es_sampler_rows(const es_sampler *sampler, const es_address *first, int64_t count,
                          double *out, es_error *err)
{
    const es_source *s = &sampler->source;
    es_law_scratch stage;
    ES_TRY(check(sampler, first, count, err));
    ES_TRY(stage_new(s, count, &stage, err));
    es_status status = ES_OK;
    for (int64_t i = 0, n; status == ES_OK && i < count; i += n) {
        n = count - i < stage.rows ? count - i : stage.rows;
        const es_address at = es_token_at(first, i, 0);
        status = draw(s, &at, n, &stage, out + i * s->law.dim, err);
    }
    stage_free(s, &stage);
    return status;
}

/* ---- in one call ---- */

es_status es_tokens_rows(const es_law *law, const es_address *first, int64_t count, double *out,
                         es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, NULL, &sampler, err));
    const es_status status = es_sampler_rows(sampler, first, count, out, err);
    es_sampler_free(sampler);
    return status;
}

/* ---- on many threads ---- */

/* Rows that threads draw. */
typedef struct job {
    const es_sampler *sampler;
    const es_address *first;
    int64_t count, dim;
    double *out;
} job;

/* Draws one unit of tokens. Units have fixed sizes and addresses, so that the numbers do not
 * depend on the threads. */
static es_status fill_unit(void *context, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    const job *w = context;
    const int64_t begin = unit * ES_TOKENS_UNIT, left = w->count - begin;
    const int64_t count = left < ES_TOKENS_UNIT ? left : ES_TOKENS_UNIT;
    es_address at = *w->first;
    at.token += (uint64_t)begin;
    return es_sampler_rows(w->sampler, &at, count, w->out + begin * w->dim, err);
}

es_status es_tokens_fill(const es_law *law, const es_address *first, int64_t count,
                         const es_exec *exec, double *out, es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, exec ? exec->budget : NULL, &sampler, err));
    const int64_t units = count / ES_TOKENS_UNIT + (count % ES_TOKENS_UNIT != 0);
    job w = {.sampler = sampler, .first = first, .count = count, .dim = law->dim, .out = out};
    es_status status = check(sampler, first, count, err);
    if (status == ES_OK)
        status = es_parallel_run(exec, units, fill_unit, &w, err);
    es_sampler_free(sampler);
    return status;
}
