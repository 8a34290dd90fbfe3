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
    es_mem_free(s->budget, stage->image);
    es_mem_free(s->budget, stage->gather);
}

/* Allocates the buffers that a law needs between base draws and finished rows. */
static es_status stage_new(const es_source *s, int64_t count, bool image, es_law_scratch *stage,
                           es_error *err)
{
    *stage = (es_law_scratch){.rows = stage_rows(s->law.dim, count)};
    const bool wanted[] = {s->law.factor != NULL, image, s->parts != NULL};
    double **const places[] = {&stage->base, &stage->image, &stage->gather};
    for (int i = 0; i < 3; i++) {
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

/* ---- how much memory ---- */

enum {
    BESIDE = 2 * ES_ALIGN, /* what an allocation takes beside its bytes, at most */
    LARGEST_OWN = 64       /* what a law prepares beside an array (dim), e.g. Wood's constants */
};

/* What a law of at most ES_MAX_DIM dimensions takes without its parts: panels and spans, a
 * direction, its place among parts and weights. */
static size_t law_bytes(const es_law *law)
{
    const size_t dim = (size_t)law->dim, panels = (dim + ES_PANEL - 1) / ES_PANEL;
    const size_t factor = law->factor ? panels * (ES_PANEL * dim + 2) * sizeof(double) : 0;
    return factor + (dim + 1) * sizeof(double) + sizeof(es_source) + LARGEST_OWN + 6 * BESIDE;
}

size_t es_tokens_bytes(const es_law *law, int threads)
{
    const bool mixed = es_law_uses(law->kind) & ES_LAW_USES_PARTS;
    const int64_t parts = mixed && law->parts ? law->n_parts : 0;
    if (law->dim < 1 || law->dim > ES_MAX_DIM || threads < 1)
        return SIZE_MAX;
    const int64_t numbers = stage_rows(law->dim, INT64_MAX) * law->dim;
    size_t bytes = law_bytes(law);
    bytes += (size_t)threads * 3 * ((size_t)numbers * sizeof(double) + BESIDE);
    for (int64_t i = 0; i < parts; i++) {
        if (law->parts[i].dim != law->dim || !es_add_size(bytes, law_bytes(&law->parts[i]), &bytes))
            return SIZE_MAX;
    }
    return bytes;
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

/* May these rows be asked for? All reasons to refuse but a lack of memory. */
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

/* One of out64 and out32 is NULL. */
static es_status draw_all(const es_source *s, const es_address *first, int64_t count, double *out64,
                          float *out32, es_error *err)
{
    const int64_t dim = s->law.dim;
    es_law_scratch stage;
    es_status status = stage_new(s, count, out32 != NULL, &stage, err);
    if (status != ES_OK)
        return status;
    for (int64_t i = 0, n; status == ES_OK && i < count; i += n) {
        n = count - i < stage.rows ? count - i : stage.rows;
        const es_address at = es_token_at(first, i, 0);
        double *rows = out32 ? stage.image : out64 + i * dim;
        status = draw(s, &at, n, &stage, rows, err);
        for (int64_t j = 0; out32 && status == ES_OK && j < n * dim; j++)
            out32[i * dim + j] = (float)rows[j];
    }
    stage_free(s, &stage);
    return status;
}

es_status es_sampler_rows(const es_sampler *sampler, const es_address *first, int64_t count,
                          double *out, es_error *err)
{
    ES_TRY(check(sampler, first, count, err));
    return draw_all(&sampler->source, first, count, out, NULL, err);
}

es_status es_sampler_rows_f32(const es_sampler *sampler, const es_address *first, int64_t count,
                              float *out, es_error *err)
{
    ES_TRY(check(sampler, first, count, err));
    return draw_all(&sampler->source, first, count, NULL, out, err);
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

es_status es_tokens_rows_f32(const es_law *law, const es_address *first, int64_t count, float *out,
                             es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, NULL, &sampler, err));
    const es_status status = es_sampler_rows_f32(sampler, first, count, out, err);
    es_sampler_free(sampler);
    return status;
}

/* ---- on many threads ---- */

/* Rows that threads draw. */
typedef struct job {
    const es_sampler *sampler;
    const es_address *first;
    int64_t count, dim;
    double *out64; /* one of the two is NULL */
    float *out32;
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
    if (w->out32)
        return es_sampler_rows_f32(w->sampler, &at, count, w->out32 + begin * w->dim, err);
    return es_sampler_rows(w->sampler, &at, count, w->out64 + begin * w->dim, err);
}

/* Draws all tokens of a job with all threads. */
static es_status fill(const es_law *law, job *w, const es_exec *exec, es_error *err)
{
    es_sampler *sampler;
    ES_TRY(es_sampler_new(law, exec ? exec->budget : NULL, &sampler, err));
    const int64_t units = w->count / ES_TOKENS_UNIT + (w->count % ES_TOKENS_UNIT != 0);
    w->sampler = sampler;
    w->dim = law->dim;
    es_status status = check(sampler, w->first, w->count, err);
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
