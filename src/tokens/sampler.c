#include "tokens/sampler.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"

/* A stage holds STAGE numbers, which stay in the second cache beside a panel of B, but at least
 * FEW rows, over which the trip of a large B through memory is shared. */
enum { STAGE = 1 << 14, FEW = 16 };

static es_base_fn *const bases[] = {[ES_LAW_GAUSSIAN] = es_base_gaussian,
                                    [ES_LAW_SPHERE] = es_base_sphere,
                                    [ES_LAW_BALL] = es_base_ball,
                                    [ES_LAW_CUBE] = es_base_cube,
                                    [ES_LAW_RADEMACHER] = es_base_rademacher,
                                    [ES_LAW_LAPLACE] = es_base_laplace,
                                    [ES_LAW_STUDENT] = es_base_student,
                                    [ES_LAW_VMF] = es_base_vmf,
                                    [ES_LAW_MIXTURE] = es_base_mixture,
                                    [ES_LAW_EMPIRICAL] = es_base_empirical};

/* ---- preparing ---- */

es_status es_sampler_prepare(es_sampler *s, const es_law *law, es_budget *budget, es_error *err)
{
    s->law = *law;
    s->budget = budget;
    s->base = bases[law->kind];
    ES_TRY(es_affine_new(law->dim, law->mean, law->factor, budget, &s->affine, err));
    if (law->kind == ES_LAW_STUDENT && !(law->freedom >= 0.125 && law->freedom <= 2e9))
        return es_fail(err, ES_E_RANGE, "tokens.freedom", "use 0.125 to 2e9", "freedom is %g",
                       law->freedom);
    if (law->kind == ES_LAW_VMF)
        return es_vmf_prepare(s, err);
    return law->kind == ES_LAW_MIXTURE ? es_mixture_prepare(s, err) : ES_OK;
}

static void release(es_sampler *s)
{
    for (int64_t i = 0; s->parts && i < s->law.n_parts; i++)
        release(&s->parts[i]);
    es_affine_free(&s->affine, s->budget);
    es_mem_free(s->budget, s->reflection);
    es_mem_free(s->budget, s->cumulative);
    es_mem_free(s->budget, s->parts);
}

void es_sampler_free(es_sampler *sampler)
{
    if (!sampler)
        return;
    release(sampler);
    es_mem_free(sampler->budget, sampler);
}

es_status es_sampler_new(const es_law *law, es_budget *budget, es_sampler **out, es_error *err)
{
    void *memory;
    *out = NULL;
    ES_TRY(es_law_check(law, err));
    ES_TRY(es_mem_new(budget, sizeof(es_sampler), "a sampler", &memory, err));
    const es_status status = es_sampler_prepare(memory, law, budget, err);
    if (status == ES_OK)
        *out = memory;
    else
        es_sampler_free(memory);
    return status;
}

/* ---- the stage ---- */

static int64_t stage_rows(int64_t dim, int64_t count)
{
    const int64_t rows = STAGE / dim > FEW ? STAGE / dim : FEW;
    return count < rows ? count : rows;
}

static void stage_free(const es_sampler *s, es_stage *stage)
{
    es_mem_free(s->budget, stage->base);
    es_mem_free(s->budget, stage->image);
    es_mem_free(s->budget, stage->gather);
}

static es_status stage_new(const es_sampler *s, int64_t count, bool image, es_stage *stage,
                           es_error *err)
{
    *stage = (es_stage){.rows = stage_rows(s->law.dim, count)};
    const bool wanted[] = {s->law.factor != NULL, image, s->law.kind == ES_LAW_MIXTURE};
    double **const places[] = {&stage->base, &stage->image, &stage->gather};
    for (int i = 0; i < 3; i++) {
        void *memory = NULL;
        const es_status status = wanted[i]
                                     ? es_mem_array(s->budget, stage->rows, s->law.dim,
                                                    sizeof(double), "rows of tokens", &memory, err)
                                     : ES_OK;
        *places[i] = memory;
        if (status != ES_OK) {
            stage_free(s, stage);
            return status;
        }
    }
    return ES_OK;
}

/* ---- how much memory ---- */

enum { BESIDE = 2 * ES_ALIGN }; /* what an allocation takes beside its bytes, at most */

/* What a law of at most ES_MAX_DIM dimensions takes without its parts: panels and spans, a
 * direction, its place among parts and weights. */
static size_t law_bytes(const es_law *law)
{
    const size_t dim = (size_t)law->dim, panels = (dim + ES_PANEL - 1) / ES_PANEL;
    const size_t factor = law->factor ? panels * (ES_PANEL * dim + 2) * sizeof(double) : 0;
    return factor + (dim + 1) * sizeof(double) + sizeof(es_sampler) + 6 * BESIDE;
}

size_t es_tokens_bytes(const es_law *law, int threads)
{
    const int64_t parts = law->kind == ES_LAW_MIXTURE && law->parts ? law->n_parts : 0;
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

static es_status draw(const es_sampler *s, const es_address *first, int64_t count,
                      const es_stage *stage, double *out, es_error *err)
{
    double *z = stage->base ? stage->base : out;
    ES_TRY(s->base(s, first, count, stage, z, err));
    es_affine_rows(&s->affine, z, count, NULL, out);
    return ES_OK;
}

es_status es_sampler_check(const es_sampler *s, const es_address *first, int64_t count,
                           const void *out, es_error *err)
{
    if (!s || !first || !out)
        return es_fail(err, ES_E_ARGUMENT, "tokens.null", "give all three",
                       "no sampler, no address or no place for the rows");
    size_t bytes;
    if (!es_size_of_array(count, s->law.dim, 1, sizeof(double), &bytes))
        return es_fail(err, ES_E_SHAPE, "tokens.count", "count >= 0",
                       "%lld tokens of dimension %lld", (long long)count, (long long)s->law.dim);
    es_address last = *first;
    ES_TRY(es_address_check(&last, err));
    last.token += count > 0 ? (uint64_t)count - 1 : 0;
    last.lane += ES_TOKENS_LANES - 1;
    ES_TRY(es_address_check(&last, err));
    if (count > 0 && s->law.kind == ES_LAW_EMPIRICAL && s->law.without_replacement &&
        last.token >= (uint64_t)s->law.points->rows)
        return es_fail(err, ES_E_RANGE, "tokens.points",
                       "bring more points, or draw with replacement",
                       "token %llu of %lld points without replacement",
                       (unsigned long long)last.token, (long long)s->law.points->rows);
    return ES_OK;
}

/* One of out64 and out32 is NULL. */
static es_status draw_all(const es_sampler *s, const es_address *first, int64_t count,
                          double *out64, float *out32, es_error *err)
{
    const int64_t dim = s->law.dim;
    es_stage stage;
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
    ES_TRY(es_sampler_check(sampler, first, count, out, err));
    return draw_all(sampler, first, count, out, NULL, err);
}

es_status es_sampler_rows_f32(const es_sampler *sampler, const es_address *first, int64_t count,
                              float *out, es_error *err)
{
    ES_TRY(es_sampler_check(sampler, first, count, out, err));
    return draw_all(sampler, first, count, NULL, out, err);
}
