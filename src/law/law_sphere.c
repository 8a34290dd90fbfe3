/* SPDX-License-Identifier: Apache-2.0 */
/* law_sphere.c : uniform on the sphere of radius `size`, and in the ball.
 *
 * <s, Z> = size |s| U_1 with U_1 one coordinate of the unit sphere in R^d, so K(s) = K_d(size |s|)
 * (THEORY 1, 1.1). The ball in R^d is the shadow of the sphere in R^{d+2} (Archimedes): the same
 * with d + 2. */
#include <float.h>

#include "base/error.h"
#include "law/law_row.h"
#include "random/elementary.h"
#include "random/random.h"

/* Draws rows uniformly on the sphere of radius `size`. */
static es_status sphere_rows(const es_source *s, const es_address *first, int64_t count,
                             const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_sphere_rows(first, count, s->law.dim, z, err));
    for (int64_t i = 0; s->law.size != 1.0 && i < count * s->law.dim; i++)
        z[i] *= s->law.size;
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

/* Draws rows uniformly in the ball: a direction times a radius. */
static es_status ball_rows(const es_source *s, const es_address *first, int64_t count,
                           const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_sphere_rows(first, count, s->law.dim, z, err));
    return es_source_radii(s, ball_radius, first, count, z, err);
}

/* v = size s, the argument of K_q. */
static es_status tilt(const es_law *law, const double *s, double *v, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)budget, (void)err;
    const int64_t d = law->dim;
    for (int64_t i = 0; i < d; i++)
        v[i] = law->size * s[i] + 0.0; /* a zero gets no sign */
    const double v_err = DBL_EPSILON * (law->size * es_tilt_norm(s, d));
    es_tilt_radial(d + es_law_row_of(law->kind)->above, law->size, v, d, v_err, out);
    return ES_OK;
}

const es_law_row es_law_row_sphere = {.kind = ES_LAW_SPHERE,
                                      .name = "sphere",
                                      .title = "sphere",
                                      .uses = ES_LAW_USES_SIZE,
                                      .traits = ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_ROUND |
                                                ES_LAW_SHADOW | ES_LAW_ON_SPHERE,
                                      .rows = sphere_rows,
                                      .tilt = tilt};

const es_law_row es_law_row_ball = {.kind = ES_LAW_BALL,
                                    .name = "ball",
                                    .title = "ball",
                                    .uses = ES_LAW_USES_SIZE,
                                    .traits =
                                        ES_LAW_BASE | ES_LAW_ENTIRE | ES_LAW_ROUND | ES_LAW_SHADOW,
                                    .above = 2,
                                    .rows = ball_rows,
                                    .tilt = tilt,
                                    .reach = 1.0};
