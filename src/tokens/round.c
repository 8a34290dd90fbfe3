/* round.c : laws that no rotation changes: a direction or a normal row, times a radius of its own.
 */
#include <math.h>

#include "base/error.h"
#include "random/elementary.h"
#include "tokens/sampler.h"

enum { RADII = 256 }; /* made at a time */

/* A factor for each of count <= RADII rows. */
typedef es_status radius_fn(const es_law *law, const es_address *first, int64_t count, double *out,
                            es_error *err);

static es_status scale_rows(const es_law *law, radius_fn *radius, const es_address *first,
                            int64_t count, double *rows, es_error *err)
{
    double radii[RADII];
    for (int64_t i = 0, n; i < count; i += n) {
        n = count - i < RADII ? count - i : RADII;
        const es_address at = es_token_at(first, i, ES_LANE_RADIUS);
        ES_TRY(radius(law, &at, n, radii, err));
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; j < law->dim; j++)
                rows[(i + r) * law->dim + j] *= radii[r];
    }
    return ES_OK;
}

es_status es_base_sphere(const es_sampler *s, const es_address *first, int64_t count,
                         const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_sphere_rows(first, count, s->law.dim, out, err));
    for (int64_t i = 0; s->law.size != 1.0 && i < count * s->law.dim; i++)
        out[i] *= s->law.size;
    return ES_OK;
}

/* U^(1/d) = exp(-E/d) with E exponential. */
static es_status ball_radius(const es_law *law, const es_address *first, int64_t count, double *out,
                             es_error *err)
{
    ES_TRY(es_exponential_rows(first, count, 1, out, err));
    for (int64_t i = 0; i < count; i++)
        out[i] = law->size * es_exp(-out[i] / (double)law->dim);
    return ES_OK;
}

es_status es_base_ball(const es_sampler *s, const es_address *first, int64_t count,
                       const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_sphere_rows(first, count, s->law.dim, out, err));
    return scale_rows(&s->law, ball_radius, first, count, out, err);
}

static es_status student_radius(const es_law *law, const es_address *first, int64_t count,
                                double *out, es_error *err)
{
    ES_TRY(es_chi_rows(first, count, 1, law->freedom, out, err));
    const double root = law->size * sqrt(law->freedom);
    for (int64_t i = 0; i < count; i++)
        out[i] = root / out[i];
    return ES_OK;
}

es_status es_base_student(const es_sampler *s, const es_address *first, int64_t count,
                          const es_stage *stage, double *out, es_error *err)
{
    (void)stage;
    ES_TRY(es_normal_rows(first, count, s->law.dim, out, err));
    return scale_rows(&s->law, student_radius, first, count, out, err);
}
