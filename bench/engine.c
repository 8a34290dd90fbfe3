/* engine.c : Esscher's side of bench/run.
 *
 *     engine make M N D FOLDER                         random Q.npy (M,D), K.npy, V.npy (N,D), f32
 *     engine run FOLDER THREADS REPS f32|f64 Y.npy     attention; one line of JSON with the times
 *     engine compare A.npy B.npy                       |A - B| / |B|, the relative L2 distance
 *
 * Peers read the same files, so that everybody does the same work on the same numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <esscher/attend.h>
#include <esscher/peak.h>
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

    must(es_peak_measure(&exec, precision, 0.2, &before, &err));
    must(es_attend(&q, &k, &v, &opts, &out, &err)); /* warm up: pages, clock, threads */
    for (int r = 0; r < reps; r++) {
        const double start = now();
        must(es_attend(&q, &k, &v, &opts, &out, &err));
        seconds[r] = now() - start;
    }
    must(es_peak_measure(&exec, precision, 0.2, &after, &err));
    const int64_t shape[2] = {q.rows, v.cols};
    must(es_npy_save(arg[4], ES_F64, 2, shape, y, true, &err));

    qsort(seconds, (size_t)reps, sizeof *seconds, by_value);
    const double median = seconds[reps / 2];
    const double gflops =
        2.0 * (double)q.rows * (double)k.rows * (double)(q.cols + v.cols) / median * 1e-9;
    printf("{\"contender\":\"engine\",\"version\":\"%s\",\"seconds\":%.6g,\"gflops\":%.4g,"
           "\"percent_of_peak\":%.3g}\n",
           es_version(), median, gflops, 100.0 * gflops / fmax(before, after));
    es_array_free(&qa);
    es_array_free(&ka);
    es_array_free(&va);
    free(y);
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
    fprintf(stderr, "engine: see the comment in bench/engine.c\n");
    return 2;
}
