/* SPDX-License-Identifier: Apache-2.0 */
/* ball_field.c : the Gaussian field that sqrt(n)(Gamma_n - Gamma) tends to (THEORY 3): its size at
 * a query, the largest one on a ball, and the supremum of the field drawn.
 *
 * Gamma_n is a ratio of two means over tokens. To first order its error is the mean of
 * V (y - K'(s)) e^{<s,y> - K(s)}, s = Ax, whose variance e^{-2K(s)} E e^{2<s,Y>} (..)(..)' is an
 * average over the law tilted by 2s: D = e^{K(2s)-2K(s)} V [K''(2s) + (K'(2s)-K'(s))(..)'] V'. */
#include "theory/ball_field.h"

#include <math.h>
#include <string.h>

#include <esscher/random.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/vectors.h"
#include "base/view.h"
#include "limit/limit.h"
#include "linalg/linalg.h"
#include "random/experiment.h"

/* Allocates numbers of the field. */
static es_status new_doubles(es_mem_limit *budget, int64_t rows, int64_t cols, double **out,
                             es_error *err)
{
    const es_status status = ES_MEM_NEW_2D(budget, *out, rows, cols, "field on a ball", err);
    return status;
}

/* out (rows) = m (rows, d) v. */
static void apply(const double *m, int64_t rows, int64_t d, const double *v, double *out)
{
    for (int64_t i = 0; i < rows; i++)
        out[i] = es_dot(m + i * d, v, d);
}

/* ---- one query, any law ---- */

/* tr V H V' + |V off|^2. */
static double spread(const double *V, int64_t dv, int64_t d, const double *H, const double *off)
{
    double sum = 0.0;
    for (int64_t c = 0; c < dv; c++) {
        const double *v = V + c * d, shift = es_dot(v, off, d);
        for (int64_t i = 0; i < d; i++)
            if (v[i] != 0.0)
                sum += v[i] * es_dot(H + i * d, v, d);
        sum += shift * shift;
    }
    return sum;
}

es_status es_ball_point_at(const es_law *law, const double *A, const double *V, int64_t dv,
                           const double *x, es_mem_limit *budget, es_ball_point *out, es_error *err)
{
    ES_TRY(es_law_check(law, err));
    const int64_t d = law->dim;
    double *work;
    ES_TRY(new_doubles(budget, d + 3, d, &work, err));
    double *s = work, *once = work + d, *twice = work + 2 * d, *hess = work + 3 * d;
    es_log_mgf at_s = {.grad = once}, at_2s = {.grad = twice, .hess = hess};
    apply(A, d, d, x, s);
    es_status status = es_limit_log_mgf(law, s, budget, &at_s, err);
    for (int64_t i = 0; i < d; i++)
        s[i] *= 2.0;
    if (status == ES_OK) {
        status = es_limit_log_mgf(law, s, budget, &at_2s, err);
        if (status == ES_E_RANGE) { /* weights have a mean but no variance */
            *out = (es_ball_point){INFINITY, INFINITY, INFINITY};
            es_mem_free(budget, work);
            return ES_OK;
        }
    }
    if (status == ES_OK) {
        out->entropy = es_dot(s, twice, d) - at_2s.val.val;
        for (int64_t i = 0; i < d; i++)
            twice[i] -= once[i];
        out->log_ess = at_2s.val.val - 2.0 * at_s.val.val;
        out->log_mse = out->log_ess + log(spread(V, dv, d, hess, twice));
    }
    es_mem_free(budget, work);
    return status;
}

es_status es_ball_directions(const es_law *law, const double *A, es_mem_limit *budget,
                             double *values, double *vectors, es_error *err)
{
    ES_TRY(es_law_check(law, err));
    const int64_t d = law->dim;
    double *work;
    ES_TRY(new_doubles(budget, 3 * d, d, &work, err));
    double *cov = work, *root = work + d * d, *u = work + 2 * d * d;
    const es_view S = es_view_f64(cov, d, d), r = es_view_f64(root, d, d);
    const es_view a = es_view_f64(A, d, d), product = es_view_f64(cov, d, d);
    es_status status = es_limit_token_moments(law, budget, NULL, cov, err);
    if (status == ES_OK)
        status = es_sym_sqrt(&S, 0.0, budget, root, NULL, err);
    if (status == ES_OK)
        status = es_mat_multiply(&r, &a, budget, cov, err);
    if (status == ES_OK)
        status = es_svd_factor(&product, budget, values, u, vectors, NULL, err);
    es_mem_free(budget, work);
    return status;
}

/* ---- the largest point of a ball ---- */

enum {
    DIRECTIONS = 8,  /* singular directions that are tried */
    SHELLS = 8,      /* radii R k/SHELLS on each */
    REFINE_DIM = 64, /* beyond, differences cost too much */
    EVALUATIONS = 80 /* of an ascent */
};

/* The field as a function on R^d. For Gaussian tokens S A and V S A are kept, and the gradient is a
 * formula; for other laws it is a difference. */
typedef struct field {
    const es_law *law;
    int64_t d, dv;
    es_mem_limit *budget;
    double *A, *V, *SA, *VSA;           /* (d, d), (dv, d), (d, d), (dv, d) */
    double *values, *vectors;           /* singular values (d), directions (d, d) */
    double trace;                       /* tr V S V', Gaussian tokens */
    double *x, *trial, *grad, *scratch; /* (d), (d), (d), (d + dv) */
    double *memory;
} field;

/* Returns true for laws with a quadratic log-MGF, whose field is in closed form. */
static bool is_gaussian(const field *f) { return es_law_traits(f->law->kind) & ES_LAW_QUADRATIC; }

/* Gaussian tokens: ln n MSE = q^2 + ln(tr VSV' + |VSAx|^2). */
static es_ball_point gaussian_point(field *f, const double *x, double *grad)
{
    double *t = f->scratch, *v = f->scratch + f->d, q2 = 0.0;
    apply(f->SA, f->d, f->d, x, t);
    apply(f->VSA, f->dv, f->d, x, v);
    const double size = f->trace + es_dot(v, v, f->dv);
    for (int64_t j = 0; j < f->d; j++) {
        double a = 0.0, b = 0.0; /* (A'SAx)_j, ((VSA)'VSAx)_j */
        for (int64_t i = 0; i < f->d; i++)
            a += f->A[i * f->d + j] * t[i];
        for (int64_t c = 0; c < f->dv; c++)
            b += f->VSA[c * f->d + j] * v[c];
        q2 += a * x[j];
        if (grad)
            grad[j] = 2.0 * a + 2.0 * b / size;
    }
    return (es_ball_point){.log_mse = q2 + log(size), .log_ess = q2, .entropy = 2.0 * q2};
}

/* Computes the field's variance and gradient at one query. */
static es_status point(field *f, const double *x, es_ball_point *out, es_error *err)
{
    if (!is_gaussian(f))
        return es_ball_point_at(f->law, f->A, f->V, f->dv, x, f->budget, out, err);
    *out = gaussian_point(f, x, NULL);
    return ES_OK;
}

/* Writes the gradient of the log mean square error at x into f->grad, up to a constant factor,
 * as only its direction is used. Gaussian tokens have a closed form; other laws use central
 * differences of width 1e-5 R, whose error is far below that of the climb's step. */
static es_status gradient(field *f, double *x, double R, es_error *err)
{
    const double h = 1e-5 * R;
    if (is_gaussian(f)) {
        gaussian_point(f, x, f->grad);
        return ES_OK;
    }
    for (int64_t j = 0; j < f->d; j++) {
        es_ball_point up, down;
        const double at = x[j];
        x[j] = at + h;
        es_status status = point(f, x, &up, err);
        x[j] = at - h;
        if (status == ES_OK)
            status = point(f, x, &down, err);
        x[j] = at;
        ES_TRY(status);
        f->grad[j] = up.log_mse - down.log_mse;
    }
    return ES_OK;
}

/* Keep x if it is the largest so far; the largest entropy is of interest wherever it is. */
static void meet(field *f, const double *x, const es_ball_point *p, double *most,
                 es_ball_constant *c)
{
    c->entropy = fmax(c->entropy, p->entropy);
    if (!(p->log_mse > *most))
        return;
    *most = p->log_mse;
    memmove(f->x, x, (size_t)f->d * sizeof *x);
}

/* Points on the leading directions, inside and on the sphere. */
static es_status scan(field *f, double R, double *most, es_ball_constant *c, es_error *err)
{
    const int64_t few = f->d > REFINE_DIM && !is_gaussian(f) ? 1 : DIRECTIONS;
    const int64_t directions = f->d < few ? f->d : few, shells = few == 1 ? 2 : SHELLS;
    for (int64_t k = 0; k < 2 * directions * shells; k++) {
        const double *v = f->vectors + (k / (2 * shells)) * f->d;
        const double size = R * (double)(k / 2 % shells + 1) / (double)shells;
        es_ball_point p;
        for (int64_t j = 0; j < f->d; j++)
            f->trial[j] = (k % 2 ? -size : size) * v[j];
        ES_TRY(point(f, f->trial, &p, err));
        meet(f, f->trial, &p, most, c);
    }
    return ES_OK;
}

/* Projected normalised ascent from f->x. */
static es_status refine(field *f, double R, double *most, es_ball_constant *c, es_error *err)
{
    double step = 0.125 * R;
    bool moved = true;
    for (int e = 0; e < EVALUATIONS && step > 1e-6 * R && isfinite(*most); e++) {
        es_ball_point p;
        if (moved)
            ES_TRY(gradient(f, f->x, R, err));
        const double size = sqrt(es_dot(f->grad, f->grad, f->d));
        if (!(size > 0.0 && isfinite(size)))
            return ES_OK;
        for (int64_t j = 0; j < f->d; j++)
            f->trial[j] = f->x[j] + step * f->grad[j] / size;
        const double norm = sqrt(es_dot(f->trial, f->trial, f->d));
        for (int64_t j = 0; norm > R && j < f->d; j++)
            f->trial[j] *= R / norm;
        ES_TRY(point(f, f->trial, &p, err));
        moved = p.log_mse > *most;
        meet(f, f->trial, &p, most, c);
        step *= moved ? 1.5 : 0.5;
    }
    return ES_OK;
}

/* Fills A, V and the directions of a field, and for Gaussian tokens S A, V S A and tr V S V',
 * from which point() has everything in closed form (THEORY 3). */
static es_status fill_field(field *f, const es_head *head, es_error *err)
{
    const int64_t d = f->d;
    ES_TRY(es_head_write(head, d, f->A, f->V, err));
    ES_TRY(es_ball_directions(f->law, f->A, f->budget, f->values, f->vectors, err));
    if (!is_gaussian(f))
        return ES_OK;
    double *cov;
    ES_TRY(new_doubles(f->budget, d, d, &cov, err));
    const es_view S = es_view_f64(cov, d, d), A = es_view_f64(f->A, d, d);
    const es_view V = es_view_f64(f->V, f->dv, d), SA = es_view_f64(f->SA, d, d);
    es_status status = es_limit_token_moments(f->law, f->budget, NULL, cov, err);
    if (status == ES_OK)
        status = es_mat_multiply(&S, &A, f->budget, f->SA, err);
    if (status == ES_OK)
        status = es_mat_multiply(&V, &SA, f->budget, f->VSA, err);
    memset(f->grad, 0, (size_t)d * sizeof *f->grad);
    f->trace = spread(f->V, f->dv, d, cov, f->grad);
    es_mem_free(f->budget, cov);
    return status;
}

/* Allocates a field in one block and fills it: A, S A and the directions (d, d), V and V S A
 * (dv, d), then four vectors (d). */
static es_status new_field(const es_law *law, const es_head *head, es_mem_limit *budget, field *f,
                           es_error *err)
{
    *f = (field){.law = law, .d = law->dim, .budget = budget};
    ES_TRY(es_head_write(head, law->dim, NULL, NULL, err));
    const int64_t d = f->d, dv = f->dv = es_head_channels(head, d);
    ES_TRY(new_doubles(budget, 3 * d + 2 * dv + 4, d, &f->memory, err));
    double *at = f->memory;
    double **const parts[] = {&f->A,      &f->SA, &f->vectors, &f->V,   &f->VSA,
                              &f->values, &f->x,  &f->trial,   &f->grad};
    const int64_t rows[] = {d, d, d, dv, dv, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *parts[i] = at;
        at += rows[i] * d;
    }
    ES_TRY(new_doubles(budget, d + dv, 1, &f->scratch, err));
    return fill_field(f, head, err);
}

/* Fails unless radii are positive and increase. */
static es_status check_radii(const double *radii, int64_t count, es_error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (!(radii[i] > (i ? radii[i - 1] : 0.0) && isfinite(radii[i])))
            return es_fail(err, ES_E_RANGE, "ball.radii", "positive and increasing",
                           "radius %lld is %g", (long long)i, radii[i]);
    return ES_OK;
}

es_status es_ball_predict(const es_law *law, const es_head *head, const double *radii,
                          int64_t n_radii, es_mem_limit *budget, es_ball_constant *out,
                          es_error *err)
{
    ES_TRY(es_law_check(law, err));
    ES_TRY(check_radii(radii, n_radii, err));
    field f;
    double most = -INFINITY;
    es_ball_constant c = {0};
    es_status status = new_field(law, head, budget, &f, err);
    for (int64_t i = 0; i < n_radii && status == ES_OK; i++) {
        status = scan(&f, radii[i], &most, &c, err);
        if (status == ES_OK && (is_gaussian(&f) || f.d <= REFINE_DIM))
            status = refine(&f, radii[i], &most, &c, err);
        c.rms = exp(0.5 * most);
        c.radius = sqrt(es_dot(f.x, f.x, f.d));
        out[i] = c;
    }
    es_mem_free(budget, f.scratch);
    es_mem_free(budget, f.memory);
    return status;
}

bool es_ball_saturated(const es_ball_constant *constant, double n)
{
    return !(constant->entropy <= log(0.05 * n));
}

double es_ball_line(double q, double v)
{
    return q >= 0.0 && v >= 0.0
               ? 1.1283791670955126 * sqrt(v * (1.0 + q * q)) * exp(0.5 * q * q) /* 2/sqrt(pi) */
               : (double)NAN;
}

/* ==== the supremum, in one and two dimensions ====
 * The field is Gaussian with, for s = Ax and t = Ax',
 *     cov(x, x') = e^{K(s+t) - K(s) - K(t)} V [K''(s+t) + (K'(s+t)-K'(s)) (K'(s+t)-K'(t))'] V',
 * the same average over a law tilted by s + t. On a grid of points of the ball that is one matrix;
 * its Cholesky factor times normals is the field, drawn. */

enum {
    EXPERIMENT = ES_EXPERIMENT_BALL + 4,
    DRAWS = 4096,
    BATCH = 256,    /* draws that are multiplied at once */
    LINE = 65,      /* points of [-R, R] */
    CIRCLES = 4,    /* circles of radius R k/CIRCLES */
    LEAST_ARC = 32, /* points of the outermost circle */
    MOST_ARC = 96
};

/* Points of the ball on which the limiting Gaussian field is sampled. */
typedef struct grid {
    const es_law *law;
    es_mem_limit *budget;
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
    return (outermost * k + CIRCLES - 1) / CIRCLES;
}

/* Places the grid's points in the ball of radius R: equidistant on the line, or on CIRCLES
 * circles around the origin with a number of points that grows with the radius. */
static void place(grid *g, double R, int64_t outermost)
{
    double *x = g->x;
    if (g->d == 1) {
        for (int64_t i = 0; i < LINE; i++)
            x[i] = R * (2.0 * (double)i / (LINE - 1) - 1.0);
        return;
    }
    x[0] = x[1] = 0.0;
    for (int64_t k = 1; k <= CIRCLES; k++)
        for (int64_t i = 0; i < arc_of(outermost, k); i++) {
            const double angle = 6.283185307179586 * (double)i / (double)arc_of(outermost, k);
            x += 2;
            x[0] = R * (double)k / CIRCLES * cos(angle);
            x[1] = R * (double)k / CIRCLES * sin(angle);
        }
}

/* Allocates the grid on which the limit field is sampled. The outermost circle has more points
 * where the field varies faster, R times the largest singular value of A; the covariance of all
 * points and channels is (m dv, m dv). */
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
    for (int64_t k = 1; d == 2 && k <= CIRCLES; k++)
        g->m += arc_of(outermost, k);
    const int64_t wide = g->m * g->dv;
    double **const arrays[] = {&g->A, &g->V,   &g->x,      &g->s,       &g->grad,
                               &g->K, &g->cov, &g->factor, &g->normals, &g->draws};
    const int64_t sizes[][2] = {{d, d},        {g->dv, d},   {g->m, d},    {g->m, d},
                                {g->m, d},     {g->m, 1},    {wide, wide}, {wide, wide},
                                {BATCH, wide}, {BATCH, wide}};
    for (int i = 0; i < 10; i++) {
        ES_TRY(ES_MEM_NEW_2D(g->budget, *arrays[i], sizes[i][0], sizes[i][1], "limit field", err));
    }
    place(g, R, outermost);
    return es_head_write(head, d, g->A, g->V, err);
}

/* Frees the grid on which the field is sampled. */
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

/* Fills the covariance of the limit field between all pairs of points: s = A x, K(s) and its
 * gradient at each point, then one block (dv, dv) per pair (THEORY 3). */
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

/* Estimates E sup of the field over the grid from DRAWS draws of a Gaussian vector with the
 * covariance above. The error is the standard error of the mean over draws. */
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
                      es_mem_limit *budget, es_num *out, es_error *err)
{
    ES_TRY(es_law_check(law, err));
    if (!(R > 0.0 && isfinite(R)))
        return es_fail(err, ES_E_RANGE, "ball.radii", "a positive number", "R is %g", R);
    if (law->dim > 2)
        return es_fail(err, ES_E_UNSUPPORTED, "ball.dim",
                       "use the lower bound of es_ball_predict()",
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
