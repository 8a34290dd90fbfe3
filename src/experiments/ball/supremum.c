/* SPDX-License-Identifier: Apache-2.0 */
/* supremum.c : how far attention over n tokens is from its limit, and where on a ball it is
 * farthest (THEORY 3): the error and its gradient, then the climb from many starts.
 *
 * With s = Ax, weights w = softmax(<s, y_i>) and z = V'(Gamma_n - Gamma),
 *     g(x) = |Gamma_n - Gamma|^2 / 2,   grad g = A' (Cov_n(s) - K''(s)) z,
 *     Cov_n(s) z = sum w_i <y_i - mean, z> y_i,
 * because the derivative of a softmax mean along s is the covariance under its weights, and that of
 * K' is K''. Both are one pass over the tokens for all lanes; the weights of the first are kept for
 * the second. */
#include "experiments/ball/ball.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "experiments/kit/cell_kit.h"
#include "limit/limit.h"
#include "random/random.h"

enum { L = ES_BALL_LANES, BLOCK = 4 };

/* ---- memory ---- */

/* Returns the doubles that a search needs whatever its number of starts. */
static int64_t fixed_doubles(const es_ball *b)
{
    return 3 * b->d * L + 2 * b->d * L + b->dv * L + 2 * b->d + b->d * b->d;
}

/* Tokens that fit: whole blocks. */
static int64_t token_capacity(const es_ball *b)
{
    return (b->spec.sizes[b->spec.n_sizes - 1] + BLOCK - 1) / BLOCK * BLOCK;
}

int64_t es_ball_sample_doubles(const es_ball *b)
{
    return token_capacity(b) * (b->d + L) + fixed_doubles(b);
}

void es_ball_sample_free(es_ball_sample *s)
{
    es_mem_limit *budget = s->ball->budget;
    es_mem_free(budget, s->tokens);
    es_mem_free(budget, s->weights);
    es_mem_free(budget, s->memory);
}

es_status es_ball_sample_new(const es_ball *b, es_ball_sample *s, es_error *err)
{
    const int64_t d = b->d;
    double *memory = NULL;
    double *tokens = NULL, *weights = NULL;
    *s = (es_ball_sample){.ball = b};
    es_status status = ES_MEM_NEW_2D(b->budget, tokens, token_capacity(b), d, "tokens", err);
    if (status == ES_OK)
        status = ES_MEM_NEW_2D(b->budget, weights, token_capacity(b), L, "weights", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(b->budget, memory, fixed_doubles(b), "queries", err);
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

es_status es_ball_errors(es_ball_sample *s, const double *x, int64_t count, double *size,
                         es_error *err)
{
    const es_ball *b = s->ball;
    const int64_t d = b->d;
    double *tilts = s->lanes, *sums = s->lanes + d * L, most[L];
    for (int64_t l = 0; l < L; l++)
        for (int64_t i = 0; i < d; i++) {
            const double t = l < count ? es_dot(b->A + i * d, x + l * d, d) : 0.0;
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
            off[c] = es_dot(b->V + c * d, difference, d);
        size[l] = sqrt(es_dot(off, off, b->dv));
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
        centre[l] = es_dot(one, s->mean + l * d, d);
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
            inner[i] = sums[i * L + l] / s->total[l] - es_dot(s->hess + i * d, one, d);
        apply_transpose(b->A, d, d, inner, grad + l * d);
    }
    return ES_OK;
}

/* ==== the climb ====
 *
 * A climber at x tries P(x + step g/|g|), P the projection onto the ball; step grows by 1.5 if that
 * is higher and halves if not. On the sphere, where the gradient usually points outwards, g is its
 * tangential part: the other would only be projected away, and with it most of the step. Every few
 * rounds climbers that have come close to a higher one, and the lower half of the others, give up:
 * a start costs little unless it leads somewhere. */

enum {
    ROUNDS = 4,       /* between two thinnings */
    SURVIVORS = 4,    /* that thinning leaves, unless they are close to each other */
    MOST_ROUNDS = 100 /* no climber needs them; a bound for strange fields */
};

static const double first_step = 0.25, last_step = 1e-3; /* of R */
static const double close = 0.02;                        /* of R: the same hill */

/* ---- memory ---- */

/* Returns the number of starting points, one of them the maximiser of the radius before. */
static int64_t climbers_of(const es_ball *b) { return b->starts + 1; }

int64_t es_ball_climb_doubles(const es_ball *b)
{
    return b->d * (2 * climbers_of(b) + 2 * L + 1) + ES_BALL_LONGEST;
}

void es_ball_climb_free(es_ball_climb *c)
{
    es_mem_limit *budget = c->sample->ball->budget;
    es_mem_free(budget, c->memory);
    es_mem_free(budget, c->longest);
    es_mem_free(budget, c->climbers);
}

es_status es_ball_climb_new(es_ball_sample *sample, es_ball_climb *c, es_error *err)
{
    const es_ball *b = sample->ball;
    int64_t *longest = NULL;
    es_ball_climber *climbers = NULL;
    double *memory = NULL;
    *c = (es_ball_climb){.sample = sample};
    es_status status = ES_MEM_NEW(b->budget, memory, es_ball_climb_doubles(b), "climbers", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(b->budget, climbers, climbers_of(b), "climbers", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(b->budget, longest, ES_BALL_LONGEST, "longest tokens", err);
    c->memory = memory;
    c->climbers = climbers;
    c->longest = longest;
    if (status != ES_OK) {
        es_ball_climb_free(c);
        return status;
    }
    double *at = c->memory;
    for (int64_t i = 0; i < climbers_of(b); i++, at += 2 * b->d)
        c->climbers[i] = (es_ball_climber){.x = at, .grad = at + b->d};
    c->x = at;
    c->grad = c->x + L * b->d;
    c->best = c->grad + L * b->d;
    return ES_OK;
}

/* ---- geometry ---- */

/* Returns the norm of a vector. */
static double norm(const double *x, int64_t d) { return sqrt(es_dot(x, x, d)); }

/* x scaled to length R; false if it has none. */
static bool to_length(double *x, int64_t d, double R)
{
    const double size = norm(x, d);
    if (!(size > 0.0))
        return false;
    for (int64_t i = 0; i < d; i++)
        x[i] *= R / size;
    return true;
}

/* ---- starts ---- */

/* Tokens of largest norm, the longest first; of equal ones the first. */
static void find_longest(es_ball_climb *c)
{
    const es_ball_sample *s = c->sample;
    const int64_t d = s->ball->d;
    double size[ES_BALL_LONGEST];
    int64_t found = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double now = norm(s->tokens + i * d, d);
        if (found == ES_BALL_LONGEST && !(now > size[found - 1]))
            continue;
        int64_t at = found < ES_BALL_LONGEST ? found++ : found - 1;
        for (; at > 0 && now > size[at - 1]; at--) {
            size[at] = size[at - 1];
            c->longest[at] = c->longest[at - 1];
        }
        size[at] = now;
        c->longest[at] = i;
    }
}

void es_ball_climb_prefix(es_ball_climb *c, int64_t n)
{
    c->sample->n = n;
    c->best_size = -1.0;
    find_longest(c);
}

/* Add x, unless it stands where another start does. */
static void add_start(es_ball_climb *c, double R)
{
    const int64_t d = c->sample->ball->d;
    for (int64_t i = 0; i < c->count; i++)
        if (es_distance(c->climbers[i].x, c->x, d) < close * R)
            return;
    memcpy(c->climbers[c->count].x, c->x, (size_t)d * sizeof(double));
    c->climbers[c->count++].step = first_step * R;
}

/* Random directions at random distances, the same for every n and R of a replicate up to scale. */
static es_status add_random(es_ball_climb *c, int64_t replicate, int64_t number, double R,
                            es_error *err)
{
    const es_ball *b = c->sample->ball;
    es_address at = {.seed = b->spec.seed,
                     .experiment = ES_BALL_STARTS,
                     .cell = (uint64_t)replicate,
                     .token = 2 * (uint64_t)number};
    ES_TRY(es_sphere_rows(&at, 1, b->d, c->x, err));
    at.token++;
    const double far = R * es_uniform_at(&at);
    for (int64_t i = 0; i < b->d; i++)
        c->x[i] *= far;
    add_start(c, R);
    return ES_OK;
}

/* Makes the starting points: the last maximiser, both ends of principal directions, the longest
 * tokens, then random ones. */
static es_status make_starts(es_ball_climb *c, int64_t replicate, double R, es_error *err)
{
    const es_ball_sample *s = c->sample;
    const es_ball *b = s->ball;
    const int64_t d = b->d, pairs = d < ES_BALL_PAIRS ? d : ES_BALL_PAIRS;
    const int64_t longest = s->n < ES_BALL_LONGEST ? s->n : ES_BALL_LONGEST;
    c->count = 0;
    if (c->best_size >= 0.0) { /* first, so that no other start stands in its place */
        memcpy(c->x, c->best, (size_t)d * sizeof(double));
        add_start(c, R);
    }
    for (int64_t k = 0; k < 2 * pairs; k++) {
        for (int64_t j = 0; j < d; j++)
            c->x[j] = (k % 2 ? -R : R) * b->directions[k / 2 * d + j];
        add_start(c, R);
    }
    for (int64_t k = 0; k < longest; k++) { /* R A'y / |A'y| */
        const double *y = s->tokens + c->longest[k] * d;
        apply_transpose(b->A, d, d, y, c->x);
        if (to_length(c->x, d, R))
            add_start(c, R);
    }
    for (int64_t k = 0; k < b->starts - 2 * pairs - ES_BALL_LONGEST; k++)
        ES_TRY(add_random(c, replicate, k, R, err));
    return ES_OK;
}

/* ---- the climb ---- */

/* Climbers first .. first+count-1 look at where they stand. */
static es_status look_around(es_ball_climb *c, int64_t first, int64_t count, es_error *err)
{
    const int64_t d = c->sample->ball->d;
    double size[L];
    for (int64_t l = 0; l < count; l++)
        memcpy(c->x + l * d, c->climbers[first + l].x, (size_t)d * sizeof(double));
    ES_TRY(es_ball_errors(c->sample, c->x, count, size, err));
    ES_TRY(es_ball_gradients(c->sample, count, c->grad, err));
    for (int64_t l = 0; l < count; l++) {
        c->climbers[first + l].size = size[l];
        memcpy(c->climbers[first + l].grad, c->grad + l * d, (size_t)d * sizeof(double));
    }
    return ES_OK;
}

/* Computes where the climber would step to. */
static void step_from(const es_ball_climber *who, int64_t d, double R, double *x)
{
    const double outward = es_dot(who->grad, who->x, d);
    const bool along = outward > 0.0 && norm(who->x, d) >= R * (1.0 - 1e-9);
    for (int64_t i = 0; i < d; i++)
        x[i] = who->grad[i] - (along ? outward / (R * R) * who->x[i] : 0.0);
    const double length = norm(x, d), pace = length > 0.0 ? who->step / length : 0.0;
    for (int64_t i = 0; i < d; i++)
        x[i] = who->x[i] + pace * x[i];
    if (norm(x, d) > R)
        to_length(x, d, R);
}

/* Tries a step from each start; computes the gradient only if one of them improved. */
static es_status try_step(es_ball_climb *c, int64_t first, int64_t count, double R, es_error *err)
{
    const int64_t d = c->sample->ball->d;
    double size[L];
    bool higher = false;
    for (int64_t l = 0; l < count; l++)
        step_from(&c->climbers[first + l], d, R, c->x + l * d);
    ES_TRY(es_ball_errors(c->sample, c->x, count, size, err));
    for (int64_t l = 0; l < count; l++)
        higher = higher || size[l] > c->climbers[first + l].size;
    if (higher)
        ES_TRY(es_ball_gradients(c->sample, count, c->grad, err));
    for (int64_t l = 0; l < count; l++) {
        es_ball_climber *who = &c->climbers[first + l];
        if (!(size[l] > who->size)) {
            who->step *= 0.5;
            continue;
        }
        who->size = size[l];
        who->step *= 1.5;
        memcpy(who->x, c->x + l * d, (size_t)d * sizeof(double));
        memcpy(who->grad, c->grad + l * d, (size_t)d * sizeof(double));
    }
    return ES_OK;
}

/* Compares two climbers by falling height, for qsort(). */
static int by_height(const void *a, const void *b)
{
    const es_ball_climber *one = a, *two = b;
    return (one->size < two->size) - (one->size > two->size);
}

/* The highest first; those close to a higher one and the lower half swap places with those who go
 * on, and are forgotten. */
static void thin(es_ball_climb *c, double R)
{
    const int64_t d = c->sample->ball->d;
    const int64_t most = c->count > 2 * SURVIVORS ? (c->count + 1) / 2 : SURVIVORS;
    int64_t kept = 0;
    qsort(c->climbers, (size_t)c->count, sizeof *c->climbers, by_height);
    for (int64_t i = 0; i < c->count && kept < most; i++) {
        bool alone = true;
        for (int64_t k = 0; k < kept && alone; k++)
            alone = es_distance(c->climbers[i].x, c->climbers[k].x, d) >= close * R;
        if (!alone)
            continue;
        const es_ball_climber swap = c->climbers[kept];
        c->climbers[kept++] = c->climbers[i];
        c->climbers[i] = swap;
    }
    c->count = kept;
}

/* The best so far is written down; those whose step has become small are at their top. */
static void retire(es_ball_climb *c, double R)
{
    int64_t going = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const es_ball_climber who = c->climbers[i];
        if (who.size > c->best_size) {
            c->best_size = who.size;
            memcpy(c->best, who.x, (size_t)c->sample->ball->d * sizeof(double));
        }
        if (who.step > last_step * R) {
            c->climbers[i] = c->climbers[going];
            c->climbers[going++] = who;
        }
    }
    c->count = going;
}

es_status es_ball_climb_to(es_ball_climb *c, int64_t replicate, double R, es_ball_cell *out,
                           es_error *err)
{
    ES_TRY(make_starts(c, replicate, R, err));
    for (int64_t i = 0; i < c->count; i += L)
        ES_TRY(look_around(c, i, c->count - i < L ? c->count - i : L, err));
    for (int round = 1; c->count > 0 && round <= MOST_ROUNDS; round++) {
        for (int64_t i = 0; i < c->count; i += L)
            ES_TRY(try_step(c, i, c->count - i < L ? c->count - i : L, R, err));
        if (round % ROUNDS == 0)
            thin(c, R);
        retire(c, R);
    }
    *out = (es_ball_cell){.sup = c->best_size, .radius = norm(c->best, c->sample->ball->d)};
    return ES_OK;
}
