/* ball_field.c : the supremum of the limit field, in one and two dimensions (section 3).
 *
 * The field is Gaussian with, for s = Ax and t = Ax',
 *     cov(x, x') = e^{K(s+t) - K(s) - K(t)} V [K''(s+t) + (K'(s+t)-K'(s)) (K'(s+t)-K'(t))'] V'.
 * On a grid of points of the ball that is one matrix; its Cholesky factor times normals is the
 * field, drawn. */
#include <esscher/ball_field.h>

#include <math.h>
#include <string.h>

#include <esscher/experiment.h>
#include <esscher/limit.h>
#include <esscher/linalg.h>
#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    EXPERIMENT = ES_EXPERIMENT_BALL + 4,
    DRAWS = 4096,
    BATCH = 256,    /* draws that are multiplied at once */
    LINE = 65,      /* points of [-R, R] */
    SHELLS = 4,     /* circles of radius R k/SHELLS */
    LEAST_ARC = 32, /* points of the outermost circle */
    MOST_ARC = 96
};

typedef struct grid {
    const es_law *law;
    es_budget *budget;
    int64_t d, dv, m;               /* m points */
    double *A, *V;                  /* (d, d), (dv, d) */
    double *x, *s, *grad, *K;       /* (m, d), (m, d), (m, d), (m) */
    double *cov, *factor;           /* (m dv, m dv) */
    double *normals, *draws;        /* (BATCH, m dv) */
    double sum[2], mid[2], hess[4]; /* of one pair: s + t, K' and K'' there */
} grid;

/* Points on the circle of shell k; arcs are the same on all shells. */
static int64_t arc_of(int64_t outermost, int64_t k)
{
    return (outermost * k + SHELLS - 1) / SHELLS;
}

static void place(grid *g, double R, int64_t outermost)
{
    double *x = g->x;
    if (g->d == 1) {
        for (int64_t i = 0; i < LINE; i++)
            x[i] = R * (2.0 * (double)i / (LINE - 1) - 1.0);
        return;
    }
    x[0] = x[1] = 0.0;
    for (int64_t k = 1; k <= SHELLS; k++)
        for (int64_t i = 0; i < arc_of(outermost, k); i++) {
            const double angle = 6.283185307179586 * (double)i / (double)arc_of(outermost, k);
            x += 2;
            x[0] = R * (double)k / SHELLS * cos(angle);
            x[1] = R * (double)k / SHELLS * sin(angle);
        }
}

static es_status new_grid(const es_head *head, double R, grid *g, es_error *err)
{
    const int64_t d = g->d;
    int64_t outermost = 0;
    double values[2], vectors[4], A[4];
    ES_TRY(es_head_write(head, d, A, NULL, err));
    ES_TRY(es_ball_directions(g->law, A, g->budget, values, vectors, err));
    outermost = (int64_t)fmin(MOST_ARC, LEAST_ARC * fmax(1.0, R * values[0]));
    g->dv = es_head_channels(head, d);
    g->m = d == 1 ? LINE : 1;
    for (int64_t k = 1; d == 2 && k <= SHELLS; k++)
        g->m += arc_of(outermost, k);
    const int64_t wide = g->m * g->dv;
    double **const arrays[] = {&g->A, &g->V,   &g->x,      &g->s,       &g->grad,
                               &g->K, &g->cov, &g->factor, &g->normals, &g->draws};
    const int64_t sizes[][2] = {{d, d},        {g->dv, d},   {g->m, d},    {g->m, d},
                                {g->m, d},     {g->m, 1},    {wide, wide}, {wide, wide},
                                {BATCH, wide}, {BATCH, wide}};
    for (int i = 0; i < 10; i++) {
        void *memory;
        ES_TRY(es_mem_array(g->budget, sizes[i][0], sizes[i][1], sizeof(double), "limit field",
                            &memory, err));
        *arrays[i] = memory;
    }
    place(g, R, outermost);
    return es_head_write(head, d, g->A, g->V, err);
}

static void free_grid(grid *g)
{
    double *const arrays[] = {g->A, g->V,   g->x,      g->s,       g->grad,
                              g->K, g->cov, g->factor, g->normals, g->draws};
    for (int i = 0; i < 10; i++)
        es_mem_free(g->budget, arrays[i]);
}

/* The (dv, dv) block of points i and j, and its mirror image. */
static es_status put_pair(grid *g, int64_t i, int64_t j, es_error *err)
{
    const int64_t d = g->d, dv = g->dv, wide = g->m * dv;
    es_log_mgf at = {.grad = g->mid, .hess = g->hess};
    for (int64_t k = 0; k < d; k++)
        g->sum[k] = g->s[i * d + k] + g->s[j * d + k];
    ES_TRY(es_limit_log_mgf(g->law, g->sum, g->budget, &at, err));
    const double scale = exp(at.val.val - g->K[i] - g->K[j]);
    for (int64_t k = 0; k < d; k++)
        for (int64_t l = 0; l < d; l++)
            g->hess[k * d + l] +=
                (g->mid[k] - g->grad[i * d + k]) * (g->mid[l] - g->grad[j * d + l]);
    for (int64_t a = 0; a < dv; a++)
        for (int64_t b = 0; b < dv; b++) {
            double sum = 0.0;
            for (int64_t k = 0; k < d; k++)
                for (int64_t l = 0; l < d; l++)
                    sum += g->V[a * d + k] * g->hess[k * d + l] * g->V[b * d + l];
            g->cov[(i * dv + a) * wide + j * dv + b] = scale * sum;
            g->cov[(j * dv + b) * wide + i * dv + a] = scale * sum;
        }
    return ES_OK;
}

static es_status fill_cov(grid *g, es_error *err)
{
    const int64_t d = g->d;
    for (int64_t i = 0; i < g->m; i++) {
        es_log_mgf at = {.grad = g->grad + i * d};
        for (int64_t k = 0; k < d; k++) {
            g->s[i * d + k] = 0.0;
            for (int64_t l = 0; l < d; l++)
                g->s[i * d + k] += g->A[k * d + l] * g->x[i * d + l];
        }
        ES_TRY(es_limit_log_mgf(g->law, g->s + i * d, g->budget, &at, err));
        g->K[i] = at.val.val;
    }
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j <= i; j++)
            ES_TRY(put_pair(g, i, j, err));
    return ES_OK;
}

/* max over the grid of |field|, for one draw (m, dv). */
static double largest(const grid *g, const double *draw)
{
    double most = 0.0;
    for (int64_t i = 0; i < g->m; i++) {
        double square = 0.0;
        for (int64_t c = 0; c < g->dv; c++)
            square += draw[i * g->dv + c] * draw[i * g->dv + c];
        most = fmax(most, square);
    }
    return sqrt(most);
}

static es_status sample(grid *g, uint64_t seed, es_num *out, es_error *err)
{
    const int64_t wide = g->m * g->dv;
    const es_view cov = es_view_f64(g->cov, wide, wide),
                  factor = es_view_f64(g->factor, wide, wide);
    const es_view transposed = es_view_transpose(&factor);
    const es_view normals = es_view_f64(g->normals, BATCH, wide);
    double sum = 0.0, squares = 0.0;
    /* neighbours are nearly the same number: the smallest eigenvalues are rounding, of 1e-9 */
    ES_TRY(es_chol_factor(&cov, 1e-8, g->budget, g->factor, NULL, err));
    for (int64_t first = 0; first < DRAWS; first += BATCH) {
        const es_address at = {.seed = seed, .experiment = EXPERIMENT, .token = (uint64_t)first};
        ES_TRY(es_normal_rows(&at, BATCH, wide, g->normals, err));
        ES_TRY(es_mat_multiply(&normals, &transposed, g->budget, g->draws, err));
        for (int64_t i = 0; i < BATCH; i++) {
            const double sup = largest(g, g->draws + i * wide);
            sum += sup;
            squares += sup * sup;
        }
    }
    const double mean = sum / DRAWS;
    *out = (es_num){mean, sqrt(fmax(0.0, squares / DRAWS - mean * mean) / DRAWS)};
    return ES_OK;
}

es_status es_ball_sup(const es_law *law, const es_head *head, double R, uint64_t seed,
                      es_budget *budget, es_num *out, es_error *err)
{
    if (!law || !head || !out)
        return es_fail(err, ES_E_ARGUMENT, "ball.null", "", "law, head or out is NULL");
    ES_TRY(es_law_check(law, err));
    if (!(R > 0.0 && isfinite(R)))
        return es_fail(err, ES_E_RANGE, "ball.radii", "a positive number", "R is %g", R);
    if (law->dim > 2)
        return es_fail(err, ES_E_UNSUPPORTED, "ball.dim", "es_ball_predict() has a lower bound",
                       "the field's supremum is sampled in at most 2 dimensions, not %lld",
                       (long long)law->dim);
    grid g = {.law = law, .budget = budget, .d = law->dim};
    es_status status = new_grid(head, R, &g, err);
    if (status == ES_OK)
        status = fill_cov(&g, err);
    if (status == ES_OK)
        status = sample(&g, seed, out, err);
    free_grid(&g);
    return status;
}
