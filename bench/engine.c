/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c : Esscher's side of bench/run.
 *
 *     engine make M N D FOLDER                         random Q.npy (M,D), K.npy, V.npy (N,D), f32
 *     engine run FOLDER THREADS REPS f32|f64 Y.npy     attention; one line of JSON with the times
 *     engine compare A.npy B.npy                       |A - B| / |B|, the relative L2 distance
 *     engine masks N D W THREADS ROUNDS                attention of N tokens under masks with
 * windows of W beside attention without: a line each
 *
 * Peers read the same files, so that everybody does the same work on the same numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <esscher/attend.h>
#include <esscher/machine.h>
#include <esscher/npy.h>
#include <esscher/random.h>

static es_error err;

static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "engine: %s: %s (%s)\n", err.file, err.message, err.hint);
    exit(1);
}

static void *memory(int64_t count, size_t size)
{
    void *p = calloc((size_t)count, size);
    if (!p) {
        fprintf(stderr, "engine: no memory\n");
        exit(1);
    }
    return p;
}

static const char *in(const char *folder, const char *name)
{
    static char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        exit(1);
    return path;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int make(char **arg)
{
    const int64_t m = atoll(arg[0]), n = atoll(arg[1]), d = atoll(arg[2]);
    if (m < 1 || n < 1 || d < 1)
        return 2;
    const char *const names[3] = {"Q.npy", "K.npy", "V.npy"};
    for (uint64_t i = 0; i < 3; i++) {
        const es_address at = {.seed = 1, .cell = i};
        const int64_t shape[2] = {i == 0 ? m : n, d};
        float *x = memory(shape[0] * d, sizeof *x);
        must(es_normal_rows_f32(&at, shape[0], d, x, &err));
        must(es_npy_save(in(arg[3], names[i]), ES_F32, 2, shape, x, true, &err));
        free(x);
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Gigabytes per second at which keys and values can be read: what few queries are measured by. */
static double memory_speed(const es_exec *exec, const es_view *k, const es_view *v)
{
    const size_t bytes_k = (size_t)(k->rows * k->row_stride),
                 bytes_v = (size_t)(v->rows * v->row_stride);
    double speed_k, speed_v;
    must(es_bandwidth_measure(exec, k->data, bytes_k, 0.1, &speed_k, &err));
    must(es_bandwidth_measure(exec, v->data, bytes_v, 0.1, &speed_v, &err));
    return (double)(bytes_k + bytes_v) / ((double)bytes_k / speed_k + (double)bytes_v / speed_v);
}

static int run(char **arg)
{
    es_exec exec = {.threads = atoi(arg[1])};
    const int reps = atoi(arg[2]);
    const es_dtype precision = strcmp(arg[3], "f64") == 0 ? ES_F64 : ES_F32;
    if (exec.threads < 1 || reps < 1 || reps > 1000)
        return 2;
    es_array qa, ka, va;
    es_view q, k, v;
    must(es_npy_load(in(arg[0], "Q.npy"), NULL, &qa, &err));
    must(es_npy_load(in(arg[0], "K.npy"), NULL, &ka, &err));
    must(es_npy_load(in(arg[0], "V.npy"), NULL, &va, &err));
    must(es_array_view(&qa, 0, &q, &err));
    must(es_array_view(&ka, 0, &k, &err));
    must(es_array_view(&va, 0, &v, &err));
    double *y = memory(q.rows * v.cols, sizeof *y), seconds[1000], before, after;
    const es_attend_opts opts = {.precision = precision, .exec = &exec};
    const es_attend_out out = {.output = y};

    double reading = memory_speed(&exec, &k, &v);
    must(es_peak_measure(&exec, precision, 0.2, &before, &err));
    must(es_attend(&q, &k, &v, &opts, &out, &err)); /* warm up: pages, clock, threads */
    for (int r = 0; r < reps; r++) {
        const double start = now();
        must(es_attend(&q, &k, &v, &opts, &out, &err));
        seconds[r] = now() - start;
    }
    must(es_peak_measure(&exec, precision, 0.2, &after, &err));
    reading = fmax(reading, memory_speed(&exec, &k, &v));
    const int64_t shape[2] = {q.rows, v.cols};
    must(es_npy_save(arg[4], ES_F64, 2, shape, y, true, &err));

    qsort(seconds, (size_t)reps, sizeof *seconds, by_value);
    const double median = seconds[reps / 2];
    const double gflops =
        2.0 * (double)q.rows * (double)k.rows * (double)(q.cols + v.cols) / median * 1e-9;
    const double gigabytes =
        1e-9 * (double)(k.rows * k.row_stride + v.rows * v.row_stride) / median;
    printf("{\"contender\":\"engine\",\"version\":\"%s\",\"seconds\":%.6g,\"gflops\":%.4g,"
           "\"percent_of_peak\":%.3g,\"gigabytes\":%.4g,\"percent_of_memory\":%.3g}\n",
           es_version(), median, gflops, 100.0 * gflops / fmax(before, after), gigabytes,
           100.0 * gigabytes / reading);
    es_array_free(&qa);
    es_array_free(&ka);
    es_array_free(&va);
    free(y);
    return 0;
}

/* ---- masks ---- */

enum { MASKS = 7, LIST_QUERIES = 64, LISTED = 192 };

/* Lists of LISTED keys drawn from n for every LIST_QUERIES queries: one key of each of LISTED equal
 * parts, so that they increase. */
static void draw_lists(int64_t n, es_mask *mask)
{
    const int64_t lists = (n + LIST_QUERIES - 1) / LIST_QUERIES;
    const es_address at = {.seed = 2};
    int64_t *offsets = memory(lists + 1, sizeof *offsets);
    int64_t *keys = memory(lists * LISTED, sizeof *keys);
    double *u = memory(LISTED, sizeof *u);
    for (int64_t l = 0; l < lists; l++) {
        es_address here = at;
        here.cell = (uint64_t)l;
        must(es_uniform_rows(&here, 1, LISTED, u, &err));
        for (int64_t i = 0; i < LISTED; i++) {
            const int64_t first = i * n / LISTED, last = (i + 1) * n / LISTED;
            keys[l * LISTED + i] = first + (int64_t)(u[i] * (double)(last - first));
        }
        offsets[l + 1] = (l + 1) * LISTED;
    }
    free(u);
    mask->list_queries = LIST_QUERIES;
    mask->list_offsets = offsets;
    mask->list_keys = keys;
}

/* Every round computes each of them once, so that all meet the same weather; ratios are taken
 * within a round. */
static int masks(char **arg)
{
    const int64_t n = atoll(arg[0]), d = atoll(arg[1]), window = atoll(arg[2]);
    const es_exec exec = {.threads = atoi(arg[3])};
    const int rounds = atoi(arg[4]);
    if (n < LISTED || d < 1 || window < 1 || exec.threads < 1 || rounds < 1 || rounds > 100)
        return 2;
    const char *const names[MASKS] = {"full",          "causal", "window",      "causal window",
                                      "causal stream", "local",  "window, list"};
    es_mask all[MASKS] = {{0},
                          {.causal = true},
                          {.window = window},
                          {.causal = true, .window = window},
                          {.causal = true, .window = window, .sinks = 4},
                          {.local = window},
                          {.window = LISTED / 2, .sinks = 2}};
    draw_lists(n, &all[MASKS - 1]);
    float *x[3];
    for (uint64_t i = 0; i < 3; i++) {
        const es_address at = {.seed = 1, .cell = i};
        x[i] = memory(n * d, sizeof *x[i]);
        must(es_normal_rows_f32(&at, n, d, x[i], &err));
    }
    const es_view q = es_view_f32(x[0], n, d), k = es_view_f32(x[1], n, d),
                  v = es_view_f32(x[2], n, d);
    double *y = memory(n * d, sizeof *y), seconds[MASKS][100], faster[MASKS][100];
    const es_attend_out out = {.output = y};
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < MASKS; i++) {
            const es_attend_opts opts = {.mask = &all[i], .exec = &exec};
            const double start = now();
            must(es_attend(&q, &k, &v, &opts, &out, &err));
            seconds[i][r] = now() - start;
            faster[i][r] = seconds[0][r] / seconds[i][r];
        }
    for (int i = 0; i < MASKS; i++) {
        const es_attend_opts opts = {.mask = &all[i], .exec = &exec};
        es_attend_plan plan;
        must(es_attend_plan_for(n, n, d, d, &opts, false, &plan, &err));
        qsort(seconds[i], (size_t)rounds, sizeof(double), by_value);
        qsort(faster[i], (size_t)rounds, sizeof(double), by_value);
        printf("{\"mask\":\"%s\",\"seconds\":%.4g,\"times_as_fast\":%.4g,\"pairs_less\":%.4g,"
               "\"gflops\":%.4g}\n",
               names[i], seconds[i][rounds / 2], faster[i][rounds / 2],
               4.0 * (double)d * (double)n * (double)n / plan.flops,
               plan.flops / seconds[i][rounds / 2] * 1e-9);
    }
    for (int i = 0; i < 3; i++)
        free(x[i]);
    free(y);
    free((void *)(uintptr_t)all[MASKS - 1].list_offsets);
    free((void *)(uintptr_t)all[MASKS - 1].list_keys);
    return 0;
}

static int compare(char **arg)
{
    es_array aa, ba;
    es_view a, b;
    must(es_npy_load(arg[0], NULL, &aa, &err));
    must(es_npy_load(arg[1], NULL, &ba, &err));
    must(es_array_view(&aa, 0, &a, &err));
    must(es_array_view(&ba, 0, &b, &err));
    if (a.rows != b.rows || a.cols != b.cols) {
        fprintf(stderr, "engine: %s and %s differ in shape\n", arg[0], arg[1]);
        return 1;
    }
    double difference = 0.0, size = 0.0;
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.cols; j++) {
            const double x = es_view_get(&a, i, j), y = es_view_get(&b, i, j);
            difference += (x - y) * (x - y);
            size += y * y;
        }
    }
    printf("%.3g\n", sqrt(difference / size));
    es_array_free(&aa);
    es_array_free(&ba);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "make") == 0)
        return make(argv + 2);
    if (argc == 7 && strcmp(argv[1], "run") == 0)
        return run(argv + 2);
    if (argc == 4 && strcmp(argv[1], "compare") == 0)
        return compare(argv + 2);
    if (argc == 7 && strcmp(argv[1], "masks") == 0)
        return masks(argv + 2);
    fprintf(stderr, "engine: see the comment in bench/engine.c\n");
    return 2;
}
