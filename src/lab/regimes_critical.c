/* regimes_critical.c : ordered weights of the critical limit, from a Poisson process in order:
 * s_k = b' (E_1 + ... + E_k)^{1/alpha}. */
#include "lab/regimes.h"

#include <math.h>

#include "base/error.h"
#include "base/threads.h"
#include "stats/special.h"

enum { CHUNK = 64, MOST = 4096, UNIT = 64 };

typedef struct job {
    uint64_t seed;
    double alpha, scaled, mean;
    int64_t replicates;
    es_regimes_draw *draws;
} job;

/* Points beyond s: their sum of e^-(x - s_1) is Gaussian around its mean, the sum of squares takes
 * its mean. Both are Campbell's: integrals of the intensity. */
static es_status add_rest(const job *j, es_address at, double s, es_softsum *sum, es_error *err)
{
    double g[2];
    at.lane = MOST;
    ES_TRY(es_normal_rows(&at, 1, 2, g, err));
    const double first = sum->z;
    const double mean = exp(first) * j->mean * es_gamma_tail(j->alpha, s);
    const double squares =
        exp(2.0 * first) * j->mean * exp2(-j->alpha) * es_gamma_tail(j->alpha, 2.0 * s);
    sum->sum += fmax(mean + sqrt(squares) * g[0], 0.0);
    sum->squares += squares;
    return ES_OK;
}

static es_status draw_one(const job *j, int64_t replicate, es_regimes_draw *out, es_error *err)
{
    es_address at = {
        .seed = j->seed, .experiment = ES_REGIMES_CRITICAL, .token = (uint64_t)replicate};
    double spacing[CHUNK], m = 0.0, s = 0.0;
    es_softsum sum = {0};
    bool over = false;
    for (int64_t k = 0; k < MOST && !over; k++) {
        if (k % CHUNK == 0) {
            at.lane = (uint32_t)(k / 2);
            ES_TRY(es_exponential_rows(&at, 1, CHUNK, spacing, err));
        }
        m += spacing[k % CHUNK];
        s = j->scaled * pow(m, 1.0 / j->alpha);
        if (k == 0)
            sum.z = s;
        const double e = exp(sum.z - s);
        sum.sum += e;
        sum.squares += e * e;
        if (k < ES_REGIMES_TOP)
            sum.top[k] = e;
        /* Beyond, the mean sum is at most e^-(s-s_1) times twice the intensity, from 2 alpha on. */
        over = k + 1 >= ES_REGIMES_TOP && s > 2.0 * j->alpha &&
               s - sum.z > 38.0 + fmax(log(2.0 * j->alpha * m / s), 0.0);
    }
    if (!over)
        ES_TRY(add_rest(j, at, s, &sum, err));
    es_softsum_finish(&sum, 1.0, out);
    out->entropy = out->deficit = out->tangential = out->one = out->bulk = out->normality =
        (double)NAN;
    return ES_OK;
}

static es_status draw_unit(void *user, int64_t unit, int thread, es_error *err)
{
    (void)thread;
    const job *j = user;
    for (int64_t r = unit * UNIT; r < (unit + 1) * UNIT && r < j->replicates; r++)
        ES_TRY(draw_one(j, r, &j->draws[r], err));
    return ES_OK;
}

es_status es_critical_sample(uint64_t seed, double alpha, double scaled, int64_t replicates,
                             const es_exec *exec, es_regimes_draw *draws, es_error *err)
{
    if (!draws || replicates < 1)
        return es_fail(err, ES_E_ARGUMENT, "regimes.null", "", "no place for draws");
    if (!(alpha >= 0.0625 && alpha <= 4096.0 && scaled >= 1e-12 && scaled <= 1e12 &&
          es_critical_mean(alpha, scaled) <= 1e15))
        return es_fail(err, ES_E_RANGE, "weights.scaled",
                       "alpha from 1/16 to 4096, b' from 1e-12 to 1e12, 10^15 keys within reach",
                       "alpha is %g, b' is %g", alpha, scaled);
    job j = {.seed = seed,
             .alpha = alpha,
             .scaled = scaled,
             .mean = es_critical_mean(alpha, scaled),
             .replicates = replicates,
             .draws = draws};
    return es_parallel_run(exec, (replicates + UNIT - 1) / UNIT, draw_unit, &j, err);
}
