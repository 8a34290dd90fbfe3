/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c : how far a picture keeps neighbours: ranks of points among their neighbours, in
 * space and in the plane. Ranks are counted, never sorted: k of them are needed of each point. */
#include "experiments/picture/embed.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"

/* Points whose neighbours threads compare, in space and in the plane. */
typedef struct trust_job {
    const double *x, *y; /* (n, d), (n, 2) */
    int64_t n, d, k;
    double *distances; /* (threads, 2, n): from one point, in space and in the plane */
    int64_t *nearest;  /* (threads, k) */
    int64_t *lost;     /* (2, n) what point i adds to both sums */
} trust_job;

/* Computes the squared distances of all points from point i. */
static void distances_from(const double *x, int64_t n, int64_t d, int64_t i, double *out)
{
    for (int64_t j = 0; j < n; j++) {
        out[j] = 0.0;
        for (int64_t c = 0; c < d; c++)
            out[j] += (x[i * d + c] - x[j * d + c]) * (x[i * d + c] - x[j * d + c]);
    }
}

/* Orders points by distance and, for equal distances, by number. */
static bool nearer(const double *distance, int64_t a, int64_t b)
{
    return distance[a] < distance[b] || (distance[a] == distance[b] && a < b);
}

/* The k nearest of i, in order, by insertion: most points are farther than the last of them. */
static void find_nearest(const double *distance, int64_t n, int64_t i, int64_t k, int64_t *out)
{
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        if (j == i || (count == k && !nearer(distance, j, out[k - 1])))
            continue;
        int64_t at = count < k ? count++ : k - 1;
        for (; at > 0 && nearer(distance, j, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = j;
    }
}

/* sum of r(i, j) - k over neighbours j by `shown` that are none by `true_one`. */
static int64_t lost_of(const double *shown, const double *true_one, const trust_job *job, int64_t i,
                       int64_t *nearest)
{
    int64_t sum = 0;
    find_nearest(shown, job->n, i, job->k, nearest);
    for (int64_t a = 0; a < job->k; a++) {
        int64_t rank = 1;
        for (int64_t j = 0; j < job->n; j++)
            rank += j != i && nearer(true_one, j, nearest[a]);
        sum += rank > job->k ? rank - job->k : 0;
    }
    return sum;
}

/* Adds up how far the neighbours of point i in the plane are from being neighbours in space, and
 * the other way round (trustworthiness and continuity). */
static es_status judge_point(void *user, int64_t i, int thread, es_error *err)
{
    const trust_job *job = user;
    double *space = job->distances + 2 * thread * job->n, *plane = space + job->n;
    int64_t *nearest = job->nearest + thread * job->k;
    (void)err;
    distances_from(job->x, job->n, job->d, i, space);
    distances_from(job->y, job->n, 2, i, plane);
    job->lost[2 * i] = lost_of(plane, space, job, i, nearest);
    job->lost[2 * i + 1] = lost_of(space, plane, job, i, nearest);
    return ES_OK;
}

/* Runs judge_point() for all points; each thread has its own buffers. */
static es_status judge_all(trust_job *job, const es_view *x, const es_exec *exec, es_arena *arena,
                           es_error *err)
{
    const int threads = es_parallel_threads(exec, job->n);
    double *copy;
    ES_TRY(ES_ARENA_NEW_2D(arena, copy, job->n, job->d, "points", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, job->distances, 2 * threads, job->n, "distances", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, job->nearest, threads, job->k, "neighbours", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, job->lost, 2, job->n, "ranks", err));
    for (int64_t i = 0; i < job->n; i++)
        es_view_read_row(x, i, copy + i * job->d);
    job->x = copy;
    return es_parallel_run(exec, job->n, judge_point, job, err);
}

es_status es_embed_trust(const es_view *x, const double *y, int64_t k, const es_exec *exec,
                         es_trust *out, es_error *err)
{
    es_scan scan;
    ES_TRY(es_view_check(x, "points", err));
    ES_TRY(es_view_scan(x, "points", &scan, err));
    if (k < 1 || 2 * k >= x->rows)
        return es_fail(err, ES_E_RANGE, "trust.neighbours", "1 or more, below half of the points",
                       "%lld neighbours of %lld points", (long long)k, (long long)x->rows);
    trust_job job = {.y = y, .n = x->rows, .d = x->cols, .k = k};
    es_arena arena = {.budget = exec ? exec->budget : NULL};
    const es_exec quiet = exec ? *exec : (es_exec){0};
    const es_status status = judge_all(&job, x, &quiet, &arena, err);
    double lost[2] = {0.0, 0.0};
    for (int64_t i = 0; i < 2 * job.n && status == ES_OK; i++)
        lost[i % 2] += (double)job.lost[i]; /* whole numbers: exact in any order */
    const double n = (double)job.n, K = (double)k, unit = 2.0 / (n * K * (2.0 * n - 3.0 * K - 1.0));
    *out = (es_trust){1.0 - unit * lost[0], 1.0 - unit * lost[1]};
    es_arena_free(&arena);
    return status;
}
