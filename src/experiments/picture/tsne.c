/* SPDX-License-Identifier: Apache-2.0 */
/* tsne.c : exact t-SNE. Distances of all pairs become neighbour probabilities p, and the points of
 * the plane move until their own probabilities q are close to p.
 *
 * A unit of work is ROWS rows of the (n, n) matrix, and a row is summed by one thread in a fixed
 * order, so that the bits do not depend on the threads. Each pair is visited from both ends: half
 * of the work is redundant, but rows share nothing. The forces need one pass without knowing Z =
 * sum w, because q = w/Z enters only as a common factor of the repulsion. */
#include "experiments/picture/tsne.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"

enum { LANES = ES_TSNE_LANES, ROWS = 16 };

#define FAR_AWAY 1e150 /* its square is finite, 1 over that squared is 0 */

/* Rounds a row up to whole vectors. */
static int64_t round_up(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* ---- memory ---- */

/* Returns how many doubles t-SNE of n points needs. */
static int64_t numbers_of(int64_t n) { return n * round_up(n) + 2 * round_up(n) + 10 * n; }

double es_tsne_bytes(int64_t points, int64_t dim)
{
    return 8.0 * ((double)numbers_of(points) + (double)points * (double)round_up(dim)) + 4096.0;
}

es_status es_tsne_new(int64_t n, const es_exec *exec, es_tsne *out, es_error *err)
{
    const int64_t stride = round_up(n);
    *out = (es_tsne){.n = n, .stride = stride, .exec = exec ? *exec : (es_exec){0}};
    out->exec.progress = NULL;
    ES_TRY(ES_MEM_NEW(out->exec.budget, out->memory, numbers_of(n), "all pairs of points", err));
    out->p = out->memory;
    out->x = out->p + n * stride;
    out->y = out->x + stride;
    out->pull = out->y + stride;
    out->push = out->pull + 2 * n;
    out->speed = out->push + 2 * n;
    out->gain = out->speed + 2 * n;
    out->near = out->gain + 2 * n;
    out->entropy = out->near + n;
    for (int64_t i = n; i < stride; i++)
        out->x[i] = out->y[i] = FAR_AWAY;
    return ES_OK;
}

void es_tsne_free(es_tsne *t)
{
    es_mem_free(t->exec.budget, t->memory);
    *t = (es_tsne){0};
}

/* ---- rows, in parallel ---- */

/* Rows of a matrix that threads share. */
typedef struct rows_job {
    es_tsne *t;
    void (*row)(const struct rows_job *job, int64_t i);
    const double *points; /* (n, dim), for distances */
    int64_t dim;
    double wanted; /* entropy */
} rows_job;

/* Runs the row function of a job on ROWS rows. */
static es_status run_rows(void *user, int64_t unit, int thread, es_error *err)
{
    const rows_job *job = user;
    const int64_t first = unit * ROWS, end = first + ROWS;
    (void)thread;
    (void)err;
    for (int64_t i = first; i < end && i < job->t->n; i++)
        job->row(job, i);
    return ES_OK;
}

/* Runs a row function on all points with all threads; rows do not depend on each other. */
static es_status for_rows(rows_job *job, es_error *err)
{
    return es_parallel_run(&job->t->exec, (job->t->n + ROWS - 1) / ROWS, run_rows, job, err);
}

/* Returns the sum in a fixed order, the same for any number of threads. */
static double total(const double *values, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

/* ---- distances ---- */

/* |x_i - x_j|^2 of all j: the same bits from either end. */
static void distances_of(const rows_job *job, int64_t i)
{
    const int64_t d = job->dim;
    const double *a = job->points + i * d;
    double *out = job->t->p + i * job->t->stride;
    for (int64_t j = 0; j < job->t->n; j++) {
        const double *b = job->points + j * d;
        double sum[LANES] = {0};
        for (int64_t c = 0; c < d; c += LANES)
            for (int l = 0; l < LANES; l++)
                sum[l] += (a[c + l] - b[c + l]) * (a[c + l] - b[c + l]);
        out[j] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

/* Laws of neighbours do not know the unit of length: with the largest number at 1 no square
 * overflows. */
static es_status find_distances(es_tsne *t, const es_view *points, es_error *err)
{
    const int64_t dim = round_up(points->cols);
    es_scan scan;
    double *copy;
    ES_TRY(es_view_scan(points, "points", &scan, err));
    ES_TRY(ES_MEM_NEW_2D(t->exec.budget, copy, t->n, dim, "points", err));
    const double unit = scan.max_abs > 0.0 ? scan.max_abs : 1.0;
    for (int64_t i = 0; i < t->n; i++) {
        es_view_read_row(points, i, copy + i * dim);
        for (int64_t c = 0; c < points->cols; c++)
            copy[i * dim + c] /= unit;
    }
    rows_job job = {.t = t, .row = distances_of, .points = copy, .dim = dim};
    const es_status status = for_rows(&job, err);
    es_mem_free(t->exec.budget, copy);
    return status;
}

/* ---- laws of neighbours ---- */

/* The others of point i by distance: how near the nearest is, how many are as near, and by how much
 * the rest is farther, on average. */
typedef struct others {
    const double *d; /* (n) squared distances */
    int64_t n, i;
    double nearest, farther;
    int64_t ties;
} others;

/* Collects the distances from point i: the nearest other point, how many are as near, and the
 * mean. */
static others look_at_others(const double *d, int64_t n, int64_t i)
{
    others o = {.d = d, .n = n, .i = i, .nearest = (double)INFINITY};
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        if (j == i)
            continue;
        if (d[j] < o.nearest) {
            o.nearest = d[j];
            o.ties = 0;
        }
        o.ties += d[j] == o.nearest;
        sum += d[j];
    }
    o.farther = sum / (double)(n - 1) - o.nearest;
    return o;
}

/* Entropy of p_j proportional to e_j = exp(-b (d_j - nearest)): ln sum e + b sum e (d - nearest) /
 * sum e. It falls with b, from ln(n - 1) to ln(ties). */
static double entropy_at(const others *o, double b)
{
    double sum = 0.0, moment = 0.0;
    for (int64_t j = 0; j < o->n; j++) {
        const double off = o->d[j] - o->nearest, e = j == o->i ? 0.0 : exp(-b * off);
        sum += e;
        moment += e * off;
    }
    return log(sum) + b * moment / sum;
}

/* b with that entropy, to 1e-9 nats, which is as much of the perplexity: a bracket by factors of
 * two, then bisection of ln b. */
static double width_for(const others *o, double wanted, double *entropy)
{
    enum { STEPS = 200 };
    double b = 1.0 / o->farther, low = 0.0, high = 0.0;
    for (int step = 0; step < STEPS; step++) {
        *entropy = entropy_at(o, b);
        if (fabs(*entropy - wanted) <= 1e-9)
            break;
        *(*entropy > wanted ? &low : &high) = b; /* too wide: b must grow */
        b = high == 0.0 ? 2.0 * b : low == 0.0 ? 0.5 * b : sqrt(low * high);
    }
    return b;
}

/* Finds the width at which the conditional law p(j|i) ~ exp(-b d_ij^2) has the wanted perplexity,
 * and stores the law. If too many points are equally near, the law is uniform over these. */
static void law_of(const rows_job *job, int64_t i)
{
    es_tsne *t = job->t;
    double *p = t->p + i * t->stride, sum = 0.0;
    const others o = look_at_others(p, t->n, i);
    const bool tied = log((double)o.ties) >= job->wanted;
    const double b = tied ? 0.0 : width_for(&o, job->wanted, &t->entropy[i]);
    if (tied)
        t->entropy[i] = -1.0; /* a mark: no entropy is negative */
    for (int64_t j = 0; j < t->n; j++) {
        p[j] = j == i ? 0.0 : tied ? p[j] == o.nearest : exp(-b * (p[j] - o.nearest));
        sum += p[j];
    }
    for (int64_t j = 0; j < t->n; j++)
        p[j] /= sum;
}

/* Replaces p(j|i) by (p(j|i) + p(i|j)) / 2n. */
static void symmetrise(es_tsne *t)
{
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t j = 0; j < i; j++) {
            double *a = &t->p[i * t->stride + j], *b = &t->p[j * t->stride + i];
            *a = *b = (*a + *b) / (2.0 * (double)t->n);
        }
}

es_status es_tsne_affinities(es_tsne *t, const es_view *points, double perplexity,
                             es_tsne_facts *facts, es_error *err)
{
    rows_job job = {.t = t, .row = law_of, .wanted = log(perplexity)};
    ES_TRY(find_distances(t, points, err));
    ES_TRY(for_rows(&job, err));
    symmetrise(t);
    facts->tied = 0;
    facts->perplexity_off = 0.0;
    for (int64_t i = 0; i < t->n; i++) {
        if (t->entropy[i] < 0.0)
            facts->tied++;
        else
            facts->perplexity_off =
                fmax(facts->perplexity_off, fabs(expm1(t->entropy[i] - job.wanted)));
    }
    return ES_OK;
}

/* ---- forces ---- */

/* Adds the lanes of a vector in a fixed order. */
static double across(const double lanes[LANES])
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* The point itself is among its neighbours with w = 1 and no force, and is taken off again. */
static void forces_of(const rows_job *job, int64_t i)
{
    es_tsne *t = job->t;
    const double *p = t->p + i * t->stride, *x = t->x, *y = t->y, xi = x[i], yi = y[i];
    double near[LANES] = {0}, pull_x[LANES] = {0}, pull_y[LANES] = {0}, push_x[LANES] = {0},
           push_y[LANES] = {0};
    for (int64_t j = 0; j < t->stride; j += LANES)
        for (int l = 0; l < LANES; l++) {
            const double dx = xi - x[j + l], dy = yi - y[j + l];
            const double w = 1.0 / (1.0 + (dx * dx + dy * dy));
            const double pw = p[j + l] * w, ww = w * w;
            near[l] += w;
            pull_x[l] += pw * dx;
            pull_y[l] += pw * dy;
            push_x[l] += ww * dx;
            push_y[l] += ww * dy;
        }
    t->near[i] = across(near) - 1.0;
    t->pull[2 * i] = across(pull_x);
    t->pull[2 * i + 1] = across(pull_y);
    t->push[2 * i] = across(push_x);
    t->push[2 * i + 1] = across(push_y);
}

es_status es_tsne_forces(es_tsne *t, double *z, es_error *err)
{
    rows_job job = {.t = t, .row = forces_of};
    ES_TRY(for_rows(&job, err));
    *z = total(t->near, t->n);
    return ES_OK;
}

/* sum_j p_ij (ln p_ij - ln w_ij); with ln Z this is the row's part of the divergence. */
static void divergence_of(const rows_job *job, int64_t i)
{
    const es_tsne *t = job->t;
    const double *p = t->p + i * t->stride;
    double sum = 0.0;
    for (int64_t j = 0; j < t->n; j++) {
        const double dx = t->x[i] - t->x[j], dy = t->y[i] - t->y[j];
        if (p[j] > 0.0)
            sum += p[j] * (log(p[j]) + log1p(dx * dx + dy * dy));
    }
    t->entropy[i] = sum;
}

es_status es_tsne_divergence(es_tsne *t, double *out, es_error *err)
{
    rows_job job = {.t = t, .row = divergence_of};
    double z;
    ES_TRY(es_tsne_forces(t, &z, err));
    ES_TRY(for_rows(&job, err));
    *out = total(t->entropy, t->n) + log(z); /* the p add up to 1 */
    return ES_OK;
}

/* ---- descent ---- */

/* Subtracts the mean. */
static void centre(double *values, int64_t n)
{
    const double mean = total(values, n) / (double)n;
    for (int64_t i = 0; i < n; i++)
        values[i] -= mean;
}

/* Only the shape of the start matters. A start in one place stays there: its points are equal. */
static void begin_at(es_tsne *t, const double *start)
{
    double squares = 0.0;
    for (int64_t i = 0; i < t->n; i++) {
        t->x[i] = start[2 * i];
        t->y[i] = start[2 * i + 1];
    }
    centre(t->x, t->n);
    centre(t->y, t->n);
    for (int64_t i = 0; i < t->n; i++)
        squares += t->x[i] * t->x[i];
    const double sd = sqrt(squares / (double)t->n), scale = sd > 0.0 ? 1e-4 / sd : 1.0;
    for (int64_t i = 0; i < t->n; i++) {
        t->x[i] *= scale;
        t->y[i] *= scale;
        for (int axis = 0; axis < 2; axis++)
            t->gain[axis * t->n + i] = 1.0;
    }
}

/* Step size of the descent, by its phase. */
typedef struct pace {
    double exaggeration, momentum, rate;
} pace;

/* One coordinate of all points. A gain grows while the gradient keeps going against the last step,
 * which means downhill, and shrinks where it turns (Jacobs, 1988). */
static void move_along(es_tsne *t, int axis, double z, const pace *now)
{
    double *place = axis ? t->y : t->x;
    double *speed = t->speed + axis * t->n, *gain = t->gain + axis * t->n;
    for (int64_t i = 0; i < t->n; i++) {
        const double slope =
            4.0 * (now->exaggeration * t->pull[2 * i + axis] - t->push[2 * i + axis] / z);
        gain[i] = slope * speed[i] < 0.0 ? gain[i] + 0.2 : fmax(0.8 * gain[i], 0.01);
        speed[i] = now->momentum * speed[i] - now->rate * gain[i] * slope;
        place[i] += speed[i];
    }
    centre(place, t->n);
}

/* Runs gradient descent with momentum; attractions are exaggerated during the first quarter, so
 * that clusters form early. */
static es_status descend(es_tsne *t, int64_t steps, const es_exec *exec, es_error *err)
{
    const int64_t early = steps / 4;
    const double rate = fmax((double)t->n / 48.0, 50.0);
    for (int64_t step = 0; step < steps; step++) {
        const pace now = {step < early ? 12.0 : 1.0, step < early ? 0.5 : 0.8, rate};
        double z;
        ES_TRY(es_tsne_forces(t, &z, err));
        move_along(t, 0, z, &now);
        move_along(t, 1, z, &now);
        if (exec && exec->progress &&
            exec->progress(exec->progress_user, (double)(step + 1), (double)steps))
            return es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "interrupted");
    }
    return ES_OK;
}

/* What the end is like; forces are those of the last look. */
static es_status judge(es_tsne *t, es_tsne_facts *facts, es_error *err)
{
    double z, squares = 0.0;
    ES_TRY(es_tsne_divergence(t, &facts->divergence, err));
    z = total(t->near, t->n);
    for (int64_t i = 0; i < 2 * t->n; i++) {
        const double slope = 4.0 * (t->pull[i] - t->push[i] / z);
        squares += slope * slope;
    }
    facts->slope = sqrt(squares);
    return ES_OK;
}

/* ---- all of it ---- */

/* Checks points, start and options. */
static es_status check(const es_view *x, const double *start, const es_tsne_opts *opts,
                       es_error *err)
{
    ES_TRY(es_view_check(x, "points", err));
    if (x->rows < 4 || x->rows > ES_TSNE_MOST || x->cols < 1)
        return es_fail(err, ES_E_SHAPE, "tsne.points", "4 to 3000 points of one dimension or more",
                       "%lld points of %lld dimensions", (long long)x->rows, (long long)x->cols);
    if (!(opts->perplexity > 1.0) || !(opts->perplexity < (double)(x->rows - 1)))
        return es_fail(err, ES_E_RANGE, "tsne.perplexity", "above 1 and below the number of others",
                       "perplexity %g of %lld points", opts->perplexity, (long long)x->rows);
    if (opts->steps < 1 || opts->steps > 1000000)
        return es_fail(err, ES_E_RANGE, "tsne.steps", "1 to 10^6", "%lld steps",
                       (long long)opts->steps);
    for (int64_t i = 0; i < 2 * x->rows; i++)
        if (!(fabs(start[i]) <= 1e150))
            return es_fail_at(err, ES_E_NONFINITE, i / 2, i % 2, "tsne.start",
                              "numbers up to 1e150", "the start is not finite");
    return ES_OK;
}

es_status es_tsne_embed(const es_view *x, const double *start, const es_tsne_opts *given,
                        const es_exec *exec, double *y, es_tsne_facts *facts, es_error *err)
{
    es_tsne_opts opts = given ? *given : (es_tsne_opts){0};
    opts.perplexity = opts.perplexity == 0.0 ? 30.0 : opts.perplexity;
    opts.steps = opts.steps ? opts.steps : 1000;
    ES_TRY(check(x, start, &opts, err));
    es_tsne t;
    ES_TRY(es_tsne_new(x->rows, exec, &t, err));
    es_status status = es_tsne_affinities(&t, x, opts.perplexity, facts, err);
    if (status == ES_OK) {
        begin_at(&t, start);
        status = descend(&t, opts.steps, exec, err);
    }
    if (status == ES_OK)
        status = judge(&t, facts, err);
    for (int64_t i = 0; i < t.n && status == ES_OK; i++) {
        y[2 * i] = t.x[i];
        y[2 * i + 1] = t.y[i];
    }
    es_tsne_free(&t);
    return status;
}
