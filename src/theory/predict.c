/* predict.c : checks, slopes and the step from root mean square to mean. */
#include "theory/predict.h"

#include <math.h>

#include "base/error.h"
#include "base/limits.h"

es_status es_predict_check(int64_t d, double n, es_error *err)
{
    if (d < 1 || d > ES_MAX_DIM)
        return es_fail(err, ES_E_RANGE, "theory.predict.dim", "use 1 to 4096 dimensions",
                       "%lld dimensions", (long long)d);
    if (!(n >= 3.0 && n <= 1e12 && n == floor(n)))
        return es_fail(err, ES_E_RANGE, "theory.predict.n", "use a whole number from 3 to 1e12",
                       "a prediction for %g tokens", n);
    return ES_OK;
}

void es_predict_shrink(es_prediction *small, const es_prediction *larger, double ratio)
{
    const double square = ratio * ratio;
    small->population.cov_bias = square * larger->population.cov_bias;
    small->population.cov_rms = square * larger->population.cov_rms;
    small->self.cov_bias = square * larger->self.cov_bias;
    small->self.cov_rms = square * larger->self.cov_rms;
}

double es_norm_ratio(int64_t d)
{
    const double half = 0.5 * (double)d;
    return exp(lgamma(half + 0.5) - lgamma(half) - 0.5 * log(half));
}

double es_predict_next(double n) { return ceil(1.02 * n); }

static double slope_of(double here, double next, double distance)
{
    return log(fabs(here) / fabs(next)) / distance;
}

static void slopes_of(const es_predicted *here, const es_predicted *next, double distance,
                      es_predicted *out)
{
    out->query_rms = slope_of(here->query_rms, next->query_rms, distance);
    out->mean_rms = slope_of(here->mean_rms, next->mean_rms, distance);
    out->mean_abs = slope_of(here->mean_abs, next->mean_abs, distance);
    out->cov_bias = slope_of(here->cov_bias, next->cov_bias, distance);
    out->cov_rms = slope_of(here->cov_rms, next->cov_rms, distance);
}

void es_predict_slope(const es_prediction *here, const es_prediction *next, double distance,
                      es_prediction *out)
{
    slopes_of(&here->population, &next->population, distance, &out->population);
    slopes_of(&here->self, &next->self, distance, &out->self);
    out->sampling = here->sampling;
}
