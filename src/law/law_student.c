/* SPDX-License-Identifier: Apache-2.0 */
/* law_student.c : the multivariate t, a normal row over sqrt(chi^2/freedom), times `size`.
 *
 * Its density falls like |z|^{-freedom-d}, slower than any exponential: K(s) is infinite for every
 * s != 0, so attention over its tokens has no limit. E nu/chi^2 = nu/(nu-2) gives its covariance,
 * size^2 nu/(nu-2) BB', for nu > 2. */
#include <math.h>

#include "base/error.h"
#include "law/law_row.h"
#include "random/random.h"

/* Checks that the degrees of freedom are positive. */
static es_status check(const es_law *law, es_error *err)
{
    return es_law_positive(law->freedom, "law.freedom", "freedom", err);
}

/* Fails for degrees of freedom that the chi sampler does not cover. */
static es_status prepare(es_source *s, es_error *err)
{
    if (s->law.freedom >= 0.125 && s->law.freedom <= 2e9)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "tokens.freedom", "use 0.125 to 2e9", "freedom is %g",
                   s->law.freedom);
}

/* Computes the factor size sqrt(nu)/chi_nu that turns a normal vector into Student's t. */
static es_status radius(const es_law *law, const es_address *first, int64_t count, double *out,
                        es_error *err)
{
    ES_TRY(es_chi_rows(first, count, 1, law->freedom, out, err));
    const double root = law->size * sqrt(law->freedom);
    for (int64_t i = 0; i < count; i++)
        out[i] = root / out[i];
    return ES_OK;
}

/* Draws normal rows and divides each by its own chi variable. */
static es_status rows(const es_source *s, const es_address *first, int64_t count,
                      const es_law_scratch *stage, double *z, es_error *err)
{
    (void)stage;
    ES_TRY(es_normal_rows(first, count, s->law.dim, z, err));
    return es_source_radii(s, radius, first, count, z, err);
}

/* Fails: Student's t has no exponential moments. */
static es_status tilt(const es_law *law, const double *s, double *work, es_mem_limit *budget,
                      es_tilt *out, es_error *err)
{
    (void)law, (void)s, (void)work, (void)budget, (void)out;
    return es_fail(err, ES_E_RANGE, "limit.student", "use a law with lighter tails",
                   "Student's t has no exponential moments: attention over its tokens has no "
                   "limit");
}

/* Computes mean and covariance nu/(nu - 2) size^2 BB', where they exist. */
static es_status moments(const es_law *law, double *mean, double *cov, es_error *err)
{
    const int64_t d = law->dim;
    const double nu = law->freedom, *B = law->factor;
    if (!(nu > (cov ? 2.0 : 1.0)))
        return es_fail(err, ES_E_RANGE, "limit.freedom", "raise the degrees of freedom",
                       "Student's t with %g degrees of freedom has no %s", nu,
                       nu > 1.0 ? "covariance" : "mean");
    for (int64_t i = 0; mean && i < d; i++)
        mean[i] = law->mean ? law->mean[i] : 0.0;
    for (int64_t i = 0; cov && i < d; i++) {
        for (int64_t j = 0; j < d; j++) {
            double sum = i == j && !B ? 1.0 : 0.0;
            for (int64_t k = 0; B && k < d; k++)
                sum += B[i * d + k] * B[j * d + k];
            cov[i * d + j] = law->size * law->size * nu / (nu - 2.0) * sum;
        }
    }
    return ES_OK;
}

const es_law_row es_law_row_student = {.kind = ES_LAW_STUDENT,
                                       .name = "student",
                                       .title = "Student's t",
                                       .uses = ES_LAW_USES_SIZE | ES_LAW_USES_FREEDOM,
                                       .traits = ES_LAW_BASE | ES_LAW_ROUND,
                                       .check = check,
                                       .prepare = prepare,
                                       .rows = rows,
                                       .tilt = tilt,
                                       .moments = moments};
