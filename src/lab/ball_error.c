/* ball_error.c : how far attention over n tokens is from its limit, and where it gets farther.
 *
 * With s = Ax, weights w = softmax(<s, y_i>) and z = V'(Gamma_n - Gamma),
 *     g(x) = |Gamma_n - Gamma|^2 / 2,   grad g = A' (Cov_n(s) - K''(s)) z,
 *     Cov_n(s) z = sum w_i <y_i - mean, z> y_i.
 * Both are one pass over the tokens for all lanes; the weights of the first are kept for the
 * second. */
#include "lab/ball.h"

#include <math.h>

#include <esscher/limit.h>

#include "base/error.h"
#include "base/memory.h"

enum { L = ES_BALL_LANES, BLOCK = 4 };

/* ---- memory ---- */

static int64_t fixed_doubles(const es_ball *b)
{
    return 3 * b->d * L + 2 * b->d * L + b->dv * L + 2 * b->d + b->d * b->d;
}

/* Tokens there is room for: whole blocks. */
static int64_t room(const es_ball *b)
{
    return (b->spec.sizes[b->spec.n_sizes - 1] + BLOCK - 1) / BLOCK * BLOCK;
}

int64_t es_ball_sample_doubles(const es_ball *b) { return room(b) * (b->d + L) + fixed_doubles(b); }

void es_ball_sample_free(es_ball_sample *s)
{
    es_budget *budget = s->ball->budget;
    es_mem_free(budget, s->tokens);
    es_mem_free(budget, s->weights);
    es_mem_free(budget, s->memory);
}

es_status es_ball_sample_new(const es_ball *b, es_ball_sample *s, es_error *err)
{
    const int64_t d = b->d;
    void *tokens = NULL, *weights = NULL, *memory = NULL;
    *s = (es_ball_sample){.ball = b};
    es_status status = es_mem_array(b->budget, room(b), d, sizeof(double), "tokens", &tokens, err);
    if (status == ES_OK)
        status = es_mem_array(b->budget, room(b), L, sizeof(double), "weights", &weights, err);
    if (status == ES_OK)
        status =
            es_mem_array(b->budget, fixed_doubles(b), 1, sizeof(double), "queries", &memory, err);
    s->tokens = tokens;
    s->weights = weights;
    s->memory = memory;
    if (status != ES_OK) {
        es_ball_sample_free(s);
        return status;
    }
    s->lanes = s->memory;
    s->tilts = s->lanes + 3 * d * L;
    s->mean = s->tilts + d * L;
    s->off = s->mean + d * L;
    s->vector = s->off + b->dv * L;
    s->hess = s->vector + 2 * d;
    return ES_OK;
}

/* ---- passes over the tokens, all lanes at once ----
 * A block of four tokens meets four queries: what is loaded of either is used four times. The last
 * block may reach beyond n, into tokens that are not in use or zeros; they get no weight. */

typedef double lanes __attribute__((vector_size(L * sizeof(double)), may_alias));

/* t[b] (L) += y_b[j] m[j] over j, for the block's tokens b and m (d, L). */
static inline void project(const double *y, int64_t d, const lanes *m, lanes t[BLOCK])
{
    for (int64_t j = 0; j < d; j++)
        for (int b = 0; b < BLOCK; b++)
            t[b] += y[b * d + j] * m[j];
}

/* sums[j] (L) += y_b[j] u[b] over b. */
static inline void gather(const double *y, int64_t d, const lanes u[BLOCK], lanes *sums)
{
    for (int64_t j = 0; j < d; j++) {
        lanes sum = sums[j];
        for (int b = 0; b < BLOCK; b++)
            sum += y[b * d + j] * u[b];
        sums[j] = sum;
    }
}

/* scores (n, L) = tokens (n, d) tilts (d, L), and their maxima (L). */
static void score(const double *y, int64_t n, int64_t d, const lanes *tilts, double *scores,
                  double most[L])
{
    for (int l = 0; l < L; l++)
        most[l] = -INFINITY;
    for (int64_t i = 0; i < n; i += BLOCK) {
        lanes t[BLOCK] = {{0}};
        project(y + i * d, d, tilts, t);
        for (int64_t b = 0; b < BLOCK; b++)
            for (int l = 0; l < L; l++) {
                scores[(i + b) * L + l] = t[b][l];
                if (i + b < n && t[b][l] > most[l])
                    most[l] = t[b][l];
            }
    }
}

/* Scores become weights e^{score - most}, and sums (d, L) those of weight times token. Lanes from
 * `count` on weigh nothing. */
static void tilt(const double *y, int64_t n, int64_t d, int64_t count, const double most[L],
                 double *w, double total[L], lanes *sums)
{
    lanes all = {0};
    for (int64_t j = 0; j < d; j++)
        sums[j] = all;
    for (int64_t i = 0; i < n; i += BLOCK) {
        lanes u[BLOCK] = {{0}};
        for (int64_t b = 0; b < BLOCK && i + b < n; b++)
            for (int64_t l = 0; l < count; l++)
                u[b][l] = exp(w[(i + b) * L + l] - most[l]);
        for (int64_t b = 0; b < BLOCK; b++) {
            *(lanes *)(w + (i + b) * L) = u[b];
            all += u[b];
        }
        gather(y + i * d, d, u, sums);
    }
    for (int l = 0; l < L; l++)
        total[l] = all[l];
}

/* sums (d, L) of w_i (<y_i, z> - centre) y_i, z (d, L). */
static void second_moment(const double *y, int64_t n, int64_t d, const double *w, const lanes *z,
                          const double centre[L], lanes *sums)
{
    lanes zero = {0}, middle;
    for (int l = 0; l < L; l++)
        middle[l] = centre[l];
    for (int64_t j = 0; j < d; j++)
        sums[j] = zero;
    for (int64_t i = 0; i < n; i += BLOCK) {
        lanes u[BLOCK] = {{0}};
        project(y + i * d, d, z, u);
        for (int64_t b = 0; b < BLOCK; b++)
            u[b] = *(const lanes *)(w + (i + b) * L) * (u[b] - middle);
        gather(y + i * d, d, u, sums);
    }
}

/* ---- error ---- */

static double dot(const double *a, const double *b, int64_t d)
{
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

es_status es_ball_errors(es_ball_sample *s, const double *x, int64_t count, double *size,
                         es_error *err)
{
    const es_ball *b = s->ball;
    const int64_t d = b->d;
    double *tilts = s->lanes, *sums = s->lanes + d * L, most[L];
    for (int64_t l = 0; l < L; l++)
        for (int64_t i = 0; i < d; i++) {
            const double t = l < count ? dot(b->A + i * d, x + l * d, d) : 0.0;
            s->tilts[l * d + i] = tilts[i * L + l] = t;
        }
    score(s->tokens, s->n, d, (const lanes *)tilts, s->weights, most);
    tilt(s->tokens, s->n, d, count, most, s->weights, s->total, (lanes *)sums);
    for (int64_t l = 0; l < count; l++) {
        double *limit = s->vector, *difference = s->vector + d, *mean = s->mean + l * d;
        es_log_mgf K = {.grad = limit};
        ES_TRY(es_limit_log_mgf(b->spec.law, s->tilts + l * d, b->budget, &K, err));
        for (int64_t i = 0; i < d; i++) {
            mean[i] = sums[i * L + l] / s->total[l];
            difference[i] = mean[i] - limit[i];
        }
        double *off = s->off + l * b->dv;
        for (int64_t c = 0; c < b->dv; c++)
            off[c] = dot(b->V + c * d, difference, d);
        size[l] = sqrt(dot(off, off, b->dv));
    }
    return ES_OK;
}

/* ---- gradient ---- */

/* out (d) = m' v for m (rows, d). */
static void apply_transpose(const double *m, int64_t rows, int64_t d, const double *v, double *out)
{
    for (int64_t j = 0; j < d; j++)
        out[j] = 0.0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d; j++)
            out[j] += m[i * d + j] * v[i];
}

es_status es_ball_gradients(es_ball_sample *s, int64_t count, double *grad, es_error *err)
{
    const es_ball *b = s->ball;
    const int64_t d = b->d;
    double *z = s->lanes, *sums = s->lanes + 2 * d * L, *one = s->vector, *inner = s->vector + d;
    double centre[L] = {0};
    for (int64_t i = 0; i < d * L; i++)
        z[i] = 0.0;
    for (int64_t l = 0; l < count; l++) {
        apply_transpose(b->V, b->dv, d, s->off + l * b->dv, one);
        centre[l] = dot(one, s->mean + l * d, d);
        for (int64_t i = 0; i < d; i++)
            z[i * L + l] = one[i];
    }
    second_moment(s->tokens, s->n, d, s->weights, (const lanes *)z, centre, (lanes *)sums);
    for (int64_t l = 0; l < count; l++) {
        es_log_mgf K = {.grad = inner, .hess = s->hess};
        ES_TRY(es_limit_log_mgf(b->spec.law, s->tilts + l * d, b->budget, &K, err));
        for (int64_t i = 0; i < d; i++)
            one[i] = z[i * L + l];
        for (int64_t i = 0; i < d; i++)
            inner[i] = sums[i * L + l] / s->total[l] - dot(s->hess + i * d, one, d);
        apply_transpose(b->A, d, d, inner, grad + l * d);
    }
    return ES_OK;
}
