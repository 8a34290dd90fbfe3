/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c : x <- x + V Gamma_n(x), layer by layer, beside what infinitely many tokens do
 * (THEORY 9, 15).
 *
 * Without a norm the limit is closed: Gamma(x) = S A x for Gaussian tokens, a layer is the matrix G
 * = I + V S A, and tokens stay Gaussian with S' = G S G'. With a norm the law after a layer has no
 * name; sets of many tokens stand for it. The error of n tokens against such a set a holds the
 * set's own, |x - x_a|^2 = |x - x_oo|^2 + |x_a - x_oo|^2 on average, so the product of differences
 * to two independent sets is taken, in which their errors average out. */
#include "experiments/depth/depth.h"

#include <math.h>
#include <string.h>

#include <esscher/attend.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "linalg/dense.h"
#include "linalg/linalg.h"
#include "random/experiment.h"
#include "theory/theory.h"

/* Addresses of random numbers; cell: replicate, or set. */
enum { TOKENS = ES_EXPERIMENT_DEPTH + 3, SETS = ES_EXPERIMENT_DEPTH + 4 };

/* Tokens larger than this, which only stacks without a norm reach, are not followed: scores are
 * products of two of them. */
#define LARGEST 1e8

struct es_stack_limit {
    es_stack stack;
    int64_t samples, tokens;
    double *cov;    /* (depth + 1, d, d) */
    double *map;    /* (depth + 1, d, d) M_l of the closed form; NULL: samples */
    double *states; /* (samples, depth + 1, tokens, d) */
    es_mem_limit *budget;
    es_arena arena;
};

/* Allocates tokens of a stack. */
static es_status take(es_arena *arena, int64_t rows, int64_t cols, double **out, es_error *err)
{
    return ES_ARENA_NEW_2D(arena, *out, rows, cols, "tokens of a stack", err);
}

/* ---- a layer ---- */

/* N(x): mean 0 and variance 1 over the dimensions of each row. */
static void normalise(double *x, int64_t rows, int64_t d)
{
    for (int64_t i = 0; i < rows; i++, x += d) {
        double mean = 0.0, square = 0.0;
        for (int64_t j = 0; j < d; j++)
            mean += x[j] / (double)d;
        for (int64_t j = 0; j < d; j++)
            square += (x[j] - mean) * (x[j] - mean) / (double)d;
        for (int64_t j = 0; j < d; j++)
            x[j] = (x[j] - mean) / sqrt(square + 1e-12);
    }
}

/* y (rows, d) = x B', B (d, d). */
static void multiply_rows(const double *x, const double *B, int64_t rows, int64_t d, double *y)
{
    memset(y, 0, (size_t)(rows * d) * sizeof(double));
    es_blas_enter();
    es_gemm_add(ES_F64, rows, d, d, x, B, y);
    es_blas_leave();
}

/* x (m, d) becomes what the layer makes of it, tokens (n, d) being its keys and values; they may be
 * x itself. */
static es_status apply_layer(const es_stack *s, int64_t layer, const double *tokens, int64_t n,
                             const es_exec *exec, double *x, int64_t m, es_error *err)
{
    const int64_t d = s->dim;
    const double one = 1.0;
    es_arena arena = {.budget = exec ? exec->budget : NULL};
    double *q, *v, *out;
    es_status status = take(&arena, m, d, &q, err);
    if (status == ES_OK)
        status = take(&arena, n, d, &v, err);
    if (status == ES_OK)
        status = take(&arena, m, d, &out, err);
    if (status == ES_OK) {
        const es_view views[3] = {es_view_f64(q, m, d), es_view_f64(tokens, n, d),
                                  es_view_f64(v, n, d)};
        const es_attend_opts opts = {.precision = s->precision ? s->precision : ES_F64,
                                     .scales = &one,
                                     .n_scales = 1,
                                     .exec = exec};
        multiply_rows(x, s->A + layer * d * d, m, d, q);
        multiply_rows(tokens, s->V + layer * d * d, n, d, v);
        status =
            es_attend(&views[0], &views[1], &views[2], &opts, &(es_attend_out){.output = out}, err);
    }
    for (int64_t i = 0; status == ES_OK && i < m * d; i++)
        x[i] += out[i];
    if (status == ES_OK && s->norm == ES_STACK_LAYER)
        normalise(x, m, d);
    es_arena_free(&arena);
    return status;
}

/* Tokens before the first layer: rows first .. first + n of this set. */
static es_status draw_tokens(const es_stack *s, uint16_t experiment, int64_t set, int64_t n,
                             double *x, es_error *err)
{
    const es_address at = {.seed = s->seed, .experiment = experiment, .cell = (uint64_t)set};
    ES_TRY(es_normal_rows(&at, n, s->dim, x, err));
    if (s->norm == ES_STACK_LAYER)
        normalise(x, n, s->dim);
    return ES_OK;
}

/* ---- the limit ---- */

/* out = a b, or a b' ; (d, d) each. */
static void multiply(const double *a, const double *b, bool transposed, int64_t d, double *out)
{
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < d; k++)
                sum += a[i * d + k] * (transposed ? b[j * d + k] : b[k * d + j]);
            out[i * d + j] = sum;
        }
}

/* THEORY 9: G = I + V S A, S' = G S G', M' = G M. */
static es_status close_limit(es_stack_limit *l, es_error *err)
{
    const es_stack *s = &l->stack;
    const int64_t d = s->dim, size = d * d;
    double *G, *T;
    ES_TRY(take(&l->arena, s->depth + 1, size, &l->map, err));
    ES_TRY(take(&l->arena, 1, size, &G, err));
    ES_TRY(take(&l->arena, 1, size, &T, err));
    for (int64_t i = 0; i < d; i++)
        l->cov[i * d + i] = l->map[i * d + i] = 1.0;
    for (int64_t layer = 0; layer < s->depth; layer++) {
        double *S = l->cov + layer * size, *M = l->map + layer * size;
        multiply(s->V + layer * size, S, false, d, T);
        multiply(T, s->A + layer * size, false, d, G);
        for (int64_t i = 0; i < d; i++)
            G[i * d + i] += 1.0;
        multiply(G, S, false, d, T);
        multiply(T, G, true, d, S + size);
        multiply(G, M, false, d, M + size);
    }
    return ES_OK;
}

/* Returns the stored tokens of a sample at a layer. */
static double *state_of(const es_stack_limit *l, int64_t sample, int64_t layer)
{
    return l->states + ((sample * (l->stack.depth + 1) + layer) * l->tokens) * l->stack.dim;
}

/* One set of tokens through all layers, by its own attention. */
static es_status run_sample(es_stack_limit *l, int64_t sample, const es_exec *exec, es_error *err)
{
    const es_stack *s = &l->stack;
    const size_t bytes = (size_t)(l->tokens * s->dim) * sizeof(double);
    ES_TRY(draw_tokens(s, SETS, sample, l->tokens, state_of(l, sample, 0), err));
    for (int64_t layer = 0; layer < s->depth; layer++) {
        double *x = state_of(l, sample, layer + 1);
        memcpy(x, state_of(l, sample, layer), bytes);
        ES_TRY(
            apply_layer(s, layer, state_of(l, sample, layer), l->tokens, exec, x, l->tokens, err));
    }
    return ES_OK;
}

/* The mean of the sets' covariances. */
static es_status pool_covariances(es_stack_limit *l, const es_exec *exec, es_error *err)
{
    const int64_t d = l->stack.dim, size = d * d;
    double *one;
    ES_TRY(take(&l->arena, 1, size, &one, err));
    for (int64_t layer = 0; layer <= l->stack.depth; layer++)
        for (int64_t sample = 0; sample < l->samples; sample++) {
            const es_view x = es_view_f64(state_of(l, sample, layer), l->tokens, d);
            ES_TRY(es_cov_estimate(&x, true, exec, NULL, one, err));
            for (int64_t i = 0; i < size; i++)
                l->cov[layer * size + i] += one[i] / (double)l->samples;
        }
    return ES_OK;
}

/* Draws samples of many tokens that stand for infinitely many, layer by layer, and pools their
 * covariances. */
static es_status sample_limit(es_stack_limit *l, const es_exec *exec, es_error *err)
{
    ES_TRY(take(&l->arena, l->samples * (l->stack.depth + 1), l->tokens * l->stack.dim, &l->states,
                err));
    for (int64_t sample = 0; sample < l->samples; sample++)
        ES_TRY(run_sample(l, sample, exec, err));
    return pool_covariances(l, exec, err);
}

es_status es_stack_limit_new(const es_stack *stack, int64_t samples, int64_t tokens,
                             const es_exec *exec, es_stack_limit **out, es_error *err)
{
    es_mem_limit *budget = exec ? exec->budget : NULL;
    const bool closed = samples == 0;
    *out = NULL;
    if (closed ? stack->norm != ES_STACK_NONE : samples < 2 || tokens < 2)
        return es_fail(err, ES_E_ARGUMENT, "stack.limit",
                       "two sets of two tokens, or none of a stack without a norm",
                       "%lld sets of %lld tokens are no limit", (long long)samples,
                       (long long)tokens);
    if (stack->dim < 1 || stack->depth < 1)
        return es_fail(err, ES_E_SHAPE, "stack.shape", "a dimension and a layer",
                       "%lld dimensions, %lld layers", (long long)stack->dim,
                       (long long)stack->depth);
    ES_TRY(es_blas_scratch(err));
    es_stack_limit *l;
    ES_TRY(ES_MEM_NEW(budget, l, 1, "a limit", err));
    *l = (es_stack_limit){.stack = *stack,
                          .samples = samples,
                          .tokens = tokens,
                          .budget = budget,
                          .arena = {.budget = budget}};
    es_status status = take(&l->arena, stack->depth + 1, stack->dim * stack->dim, &l->cov, err);
    if (status == ES_OK)
        status = closed ? close_limit(l, err) : sample_limit(l, exec, err);
    if (status == ES_OK)
        *out = l;
    else
        es_stack_limit_free(l);
    return status;
}

void es_stack_limit_free(es_stack_limit *limit)
{
    if (!limit)
        return;
    es_arena_free(&limit->arena);
    es_mem_free(limit->budget, limit);
}

const double *es_stack_limit_cov(const es_stack_limit *limit, int64_t layer)
{
    return limit->cov + layer * limit->stack.dim * limit->stack.dim;
}

es_status es_stack_horizon(const double *cov, const double *A, int64_t dim, es_mem_limit *budget,
                           double *out, es_error *err)
{
    const es_view S = es_view_f64(cov, dim, dim), view = es_view_f64(A, dim, dim);
    const es_head head = {.A = &view};
    es_horizons found;
    ES_TRY(es_horizons_of(&S, 0.0, &head, budget, &found, err));
    *out = found.horizon.val;
    return ES_OK;
}

/* ---- a replicate ---- */

/* One sample of n tokens on its way through a stack. */
typedef struct replicate {
    const es_stack *stack;
    const es_stack_limit *limit;
    const es_exec *exec;
    int64_t n, m;   /* tokens; those that are compared with the limit */
    double *x;      /* (n, d) */
    double *first;  /* (m, d) the tokens compared, before the first layer */
    double *theirs; /* (samples, m, d), or (m, d) of the closed form: where the limit takes them */
    double *cov;    /* (d, d) */
    es_arena arena;
} replicate;

/* Allocates a replicate and draws its tokens. The first tokens are copied: they are followed
 * through the limit, too. */
static es_status replicate_new(replicate *r, int64_t number, es_error *err)
{
    const int64_t d = r->stack->dim, sets = r->limit->samples ? r->limit->samples : 1;
    ES_TRY(take(&r->arena, r->n, d, &r->x, err));
    ES_TRY(take(&r->arena, r->m, d, &r->first, err));
    ES_TRY(take(&r->arena, sets * r->m, d, &r->theirs, err));
    ES_TRY(take(&r->arena, d, d, &r->cov, err));
    ES_TRY(draw_tokens(r->stack, TOKENS, number, r->n, r->x, err));
    const size_t bytes = (size_t)(r->m * d) * sizeof(double);
    memcpy(r->first, r->x, bytes);
    for (int64_t set = 0; set < sets; set++)
        memcpy(r->theirs + set * r->m * d, r->x, bytes);
    return ES_OK;
}

/* Of K sets the mean of <x - x_a, x - x_b> over pairs a != b, (|sum|^2 - sum of squares)/(K(K-1)),
 * and what a single one has more: its own error. */
static void measure_error(const replicate *r, es_stack_state *out)
{
    const int64_t d = r->stack->dim, K = r->limit->samples ? r->limit->samples : 1;
    double together = 0.0, squares = 0.0;
    for (int64_t i = 0; i < r->m * d; i++) {
        double sum = 0.0;
        for (int64_t a = 0; a < K; a++) {
            const double off = r->x[i] - r->theirs[a * r->m * d + i];
            sum += off;
            squares += off * off;
        }
        together += sum * sum;
    }
    const double m = (double)r->m, k = (double)K;
    out->error2 = K > 1 ? (together - squares) / (k * (k - 1.0) * m) : squares / m;
    out->limit_error2 = K > 1 ? squares / (k * m) - out->error2 : 0.0;
}

/* Measures the tokens of a layer: error against the limit, horizon, and distance of the covariance
 * from the limit's. */
static es_status measure_tokens(const replicate *r, int64_t layer, es_stack_state *out,
                                es_error *err)
{
    const es_stack *s = r->stack;
    const int64_t d = s->dim, last = layer < s->depth ? layer : s->depth - 1;
    const double *S = es_stack_limit_cov(r->limit, layer);
    const es_view x = es_view_f64(r->x, r->n, d);
    double both = 0.0, theirs = 0.0, off = 0.0;
    measure_error(r, out);
    ES_TRY(es_cov_estimate(&x, true, r->exec, NULL, r->cov, err));
    ES_TRY(es_stack_horizon(r->cov, s->A + last * d * d, d, r->exec ? r->exec->budget : NULL,
                            &out->horizon, err));
    for (int64_t i = 0; i < d; i++)
        out->spread2 += r->cov[i * d + i];
    for (int64_t i = 0; i < d * d; i++) {
        both += r->cov[i] * S[i];
        theirs += S[i] * S[i];
        off += (r->cov[i] - S[i]) * (r->cov[i] - S[i]);
    }
    out->agreement = both / theirs;
    out->cov_error = sqrt(off / theirs);
    return ES_OK;
}

/* One layer further: the tokens by their own attention, those that are compared by the limit's. */
static es_status step(replicate *r, int64_t layer, es_error *err)
{
    const es_stack *s = r->stack;
    const es_stack_limit *l = r->limit;
    const int64_t d = s->dim;
    ES_TRY(apply_layer(s, layer, r->x, r->n, r->exec, r->x, r->n, err));
    if (l->map)
        multiply_rows(r->first, l->map + (layer + 1) * d * d, r->m, d, r->theirs);
    for (int64_t a = 0; a < l->samples; a++)
        ES_TRY(apply_layer(s, layer, state_of(l, a, layer), l->tokens, r->exec,
                           r->theirs + a * r->m * d, r->m, err));
    return ES_OK;
}

/* Returns false once a token has grown beyond LARGEST; later layers are then missing. */
static bool followed(const replicate *r)
{
    for (int64_t i = 0; i < r->n * r->stack->dim; i++)
        if (!(fabs(r->x[i]) < LARGEST))
            return false;
    return true;
}

/* Follows the tokens through all layers. */
static es_status run_layers(replicate *r, es_stack_state *out, es_error *err)
{
    bool on = true;
    for (int64_t layer = 0; layer <= r->stack->depth; layer++) {
        const double none = (double)NAN;
        on = on && followed(r);
        out[layer] = (es_stack_state){0};
        if (!on) {
            out[layer] = (es_stack_state){none, none, none, none, none, none};
            continue;
        }
        ES_TRY(measure_tokens(r, layer, &out[layer], err));
        if (layer < r->stack->depth)
            ES_TRY(step(r, layer, err));
    }
    return ES_OK;
}

es_status es_stack_measure(const es_stack *stack, const es_stack_limit *limit, int64_t n,
                           int64_t number, const es_exec *exec, es_stack_state *out, es_error *err)
{
    replicate r = {.stack = stack,
                   .limit = limit,
                   .exec = exec,
                   .n = n,
                   .m = n < ES_STACK_QUERIES ? n : ES_STACK_QUERIES,
                   .arena = {.budget = exec ? exec->budget : NULL}};
    if (n < 2)
        return es_fail(err, ES_E_SHAPE, "stack.tokens", "two tokens at least", "%lld tokens",
                       (long long)n);
    es_status status = es_blas_scratch(err);
    if (status == ES_OK)
        status = replicate_new(&r, number, err);
    if (status == ES_OK)
        status = run_layers(&r, out, err);
    es_arena_free(&r.arena);
    return status;
}
