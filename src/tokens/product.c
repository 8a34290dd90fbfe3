/* product.c : laws with independent coordinates. Two coordinates share a lane, as in random.h. */
#include "base/error.h"
#include "random/elementary.h"
#include "tokens/sampler.h"

es_status es_base_gaussian(const es_sampler *s, const es_address *first, int64_t count,
                           const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_normal_rows(first, count, s->law.dim, out, err));
    for (int64_t i = 0; s->law.size != 1.0 && i < count * s->law.dim; i++)
        out[i] *= s->law.size;
    return ES_OK;
}

es_status es_base_cube(const es_sampler *s, const es_address *first, int64_t count,
                       const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, out, err));
    for (int64_t i = 0; i < count * s->law.dim; i++)
        out[i] = s->law.size * (2.0 * out[i] - 1.0); /* the bracket is exact */
    return ES_OK;
}

es_status es_base_rademacher(const es_sampler *s, const es_address *first, int64_t count,
                             const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, out, err));
    for (int64_t i = 0; i < count * s->law.dim; i++)
        out[i] = out[i] < 0.5 ? -s->law.size : s->law.size;
    return ES_OK;
}

/* u < 1/2 gives log(2u), else -log(2(1-u)). Both arguments are exact and below 1. */
es_status es_base_laplace(const es_sampler *s, const es_address *first, int64_t count,
                          const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_uniform_rows(first, count, s->law.dim, out, err));
    for (int64_t i = 0; i < count * s->law.dim; i++) {
        const double u = out[i], tail = u < 0.5 ? 2.0 * u : 2.0 * (1.0 - u);
        const double size = u < 0.5 ? -s->law.size : s->law.size;
        out[i] = size * es_negative_log(tail);
    }
    return ES_OK;
}
