/* law_source.c : a law ready to be drawn from. */
#include "base/error.h"
#include "base/memory.h"
#include "law/law_row.h"

es_status es_source_prepare(es_source *s, const es_law *law, es_budget *budget, es_error *err)
{
    s->law = *law;
    s->row = es_law_row_of(law->kind);
    s->budget = budget;
    ES_TRY(es_affine_new(law->dim, law->mean, law->factor, budget, &s->affine, err));
    return s->row->prepare ? s->row->prepare(s, err) : ES_OK;
}

void es_source_release(es_source *s)
{
    for (int64_t i = 0; s->parts && i < s->law.n_parts; i++)
        es_source_release(&s->parts[i]);
    es_affine_free(&s->affine, s->budget);
    es_mem_free(s->budget, s->own);
    es_mem_free(s->budget, s->parts);
}

/* Radii stand in lanes of their own, so a ball's direction is a sphere's at the same address. */
es_status es_source_radii(const es_source *s, es_radius_fn *radius, const es_address *first,
                          int64_t count, double *z, es_error *err)
{
    enum { RADII = 256 }; /* made at a time */
    const int64_t dim = s->law.dim;
    double radii[RADII];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < RADII ? count - i : RADII;
        const es_address at = es_token_at(first, i, ES_LANE_RADIUS);
        ES_TRY(radius(&s->law, &at, n, radii, err));
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; j < dim; j++)
                z[(i + r) * dim + j] *= radii[r];
    }
    return ES_OK;
}
