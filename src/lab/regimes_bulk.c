/* regimes_bulk.c : moments of exp(-beta (T - t)) given T > t, along the table of the law.
 *
 * Those given y > y_j come from those given y > y_{j+1} by a shift of Y and the part in between, so
 * nothing is ever a difference, and nothing underflows that is not small. */
#include "lab/regimes.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"

enum { HALF = 3 };

/* a m + b m', with Y of m' larger by `shift`. */
static es_bulk_moments join(double a, es_bulk_moments m, double b, es_bulk_moments far,
                            double shift)
{
    if (!(shift < 700.0))
        b = shift = 0.0;
    const double e = exp(-shift), e1 = b * e, e2 = e1 * e, e3 = e2 * e;
    return (es_bulk_moments){.x = a * m.x + e1 * far.x,
                             .xy = a * m.xy + e1 * (far.xy + shift * far.x),
                             .xx = a * m.xx + e2 * far.xx,
                             .xxy = a * m.xxy + e2 * (far.xxy + shift * far.xx),
                             .xxyy = a * m.xxyy +
                                     e2 * (far.xxyy + shift * (2.0 * far.xxy + shift * far.xx)),
                             .xxx = a * m.xxx + e3 * far.xxx,
                             .xxxy = a * m.xxxy + e3 * (far.xxxy + shift * far.xxx),
                             .xxxx = a * m.xxxx + e3 * e * far.xxxx,
                             .xxr = a * m.xxr + e2 * far.xxr};
}

/* Moments over y in (from, to], a step of the table or less, relative to T at `from`; *mass gets
 * the logarithm of its probability. */
static es_bulk_moments between(const es_bulk *bulk, double from, double to, double *mass)
{
    static const double x[HALF] = {0.23861918608319690863, 0.66120938646626451366,
                                   0.93246951420315202781};
    static const double w[HALF] = {0.46791393457269104739, 0.36076157304813860757,
                                   0.17132449237917034504};
    const double centre = 0.5 * (from + to), half = 0.5 * (to - from);
    const double middle = es_cap_log_density(bulk->cap, centre), t = es_cap_place_of(from).t;
    es_bulk_moments out = {0};
    double total = 0.0;
    for (int i = 0; i < 2 * HALF; i++) {
        const double y = centre + (i % 2 ? half : -half) * x[i / 2];
        const es_cap_place at = es_cap_place_of(y);
        const double p = w[i / 2] * exp(es_cap_log_density(bulk->cap, y) - middle);
        const double Y = bulk->beta * (at.t - t), X = exp(-Y);
        const es_bulk_moments one = {.x = X,
                                     .xy = X * Y,
                                     .xx = X * X,
                                     .xxy = X * X * Y,
                                     .xxyy = X * X * Y * Y,
                                     .xxx = X * X * X,
                                     .xxxy = X * X * X * Y,
                                     .xxxx = X * X * X * X,
                                     .xxr = X * X * at.t * at.rest};
        out = join(p, one, 1.0, out, 0.0);
        total += p;
    }
    *mass = middle + log(half * total);
    return join(1.0 / total, out, 0.0, out, 0.0);
}

/* Given y > from, where row j is the first of the table beyond. */
static es_bulk_moments extend(const es_bulk *bulk, double from, int64_t j)
{
    const es_cap *cap = bulk->cap;
    const double to = cap->low + cap->step * (double)j;
    double mass;
    const es_bulk_moments near = between(bulk, from, to, &mass);
    const double share = 1.0 / (1.0 + exp(cap->above[j] - mass));
    const double shift = bulk->beta * (es_cap_place_of(to).t - es_cap_place_of(from).t);
    return join(share, near, 1.0 - share, bulk->at[j], shift);
}

es_status es_bulk_make(const es_cap *cap, double beta, es_budget *budget, es_bulk *out,
                       es_error *err)
{
    *out = (es_bulk){.cap = cap, .beta = beta, .budget = budget};
    ES_TRY(
        es_mem_array(budget, cap->count, 1, sizeof *out->at, "bulk table", (void **)&out->at, err));
    /* Beyond the table T is 2 and r is 0. */
    out->at[cap->count - 1] = (es_bulk_moments){.x = 1.0, .xx = 1.0, .xxx = 1.0, .xxxx = 1.0};
    for (int64_t j = cap->count - 2; j >= 0; j--)
        out->at[j] = extend(out, cap->low + cap->step * (double)j, j + 1);
    return ES_OK;
}

void es_bulk_free(es_bulk *bulk)
{
    es_mem_free(bulk->budget, bulk->at);
    bulk->at = NULL;
}

es_bulk_moments es_bulk_beyond(const es_bulk *bulk, es_cap_place t)
{
    const es_cap *cap = bulk->cap;
    const double y = log(t.t / t.rest);
    if (y <= cap->low) /* less than 1e-13 of the sphere away from the first row */
        return bulk->at[0];
    if (y >= -cap->low)
        return bulk->at[cap->count - 1];
    const int64_t j = 1 + (int64_t)floor((y - cap->low) / cap->step);
    return extend(bulk, y, j < cap->count ? j : cap->count - 1);
}
