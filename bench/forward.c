/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c : Esscher's side of bench/prompt.py.
 *
 *     forward MODEL TOKENS BLOCKS THREADS REPS resident|streamed|auto [L.f32]
 *
 * Runs BLOCKS blocks of TOKENS ids to their last hidden state, REPS times after 512 ids, and
 * prints one line of JSON with the times. L.f32 gets the logits after the last token of a block.
 * Ids are 7919 i mod the vocabulary, as in llama.mjs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/model.h>

static es_error err;

/* Ends the program with the error's message unless `status` is ES_OK. */
static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "forward: %s: %s (%s)\n", err.file, err.message, err.hint);
    exit(1);
}

/* Returns zeroed memory, or ends the program. */
static void *memory(int64_t count, size_t size)
{
    void *p = calloc((size_t)count, size);
    if (!p) {
        fprintf(stderr, "forward: out of memory\n");
        exit(1);
    }
    return p;
}

/* Returns the time in seconds. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the processor time of this process, in seconds. */
static double own_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the time that all processors worked for anything, or were taken away, in seconds: all
 * columns of /proc/stat but idle and iowait. 0 where there is no such file. */
static double all_time(void)
{
    double x[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    if (!f)
        return 0.0;
    if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", x, x + 1, x + 2, x + 3, x + 4, x + 5,
               x + 6, x + 7) != 8)
        x[0] = x[1] = x[2] = x[5] = x[6] = x[7] = 0.0;
    fclose(f);
    return (x[0] + x[1] + x[2] + x[5] + x[6] + x[7]) / (double)sysconf(_SC_CLK_TCK);
}

/* A repetition: its time, its processor time, and the share of a core that other processes had
 * meanwhile. */
typedef struct timed {
    double seconds, cpu, busy;
} timed;

/* Runs the blocks and returns the times. */
static timed run(const es_model *m, const es_model_block *blocks, int64_t count,
                 const es_exec *exec)
{
    const double all = all_time(), own = own_time(), start = now();
    must(es_model_forward(m, blocks, count, exec, &err));
    const double seconds = now() - start, cpu = own_time() - own;
    return (timed){seconds, cpu, (all_time() - all - cpu) / seconds};
}

/* Prints one member of every time as a list in JSON. */
static void print_list(const char *name, const double *first, int64_t reps)
{
    printf("\"%s\":[", name);
    for (int64_t i = 0; i < reps; i++)
        printf("%s%.6g", i ? "," : "", first[i * (int64_t)(sizeof(timed) / sizeof *first)]);
    printf("],");
}

/* Returns how weights are held, by its name. */
static es_weights_mode mode_of(const char *name)
{
    return !strcmp(name, "resident")   ? ES_WEIGHTS_RESIDENT
           : !strcmp(name, "streamed") ? ES_WEIGHTS_STREAMED
                                       : ES_WEIGHTS_AUTO;
}

/* Writes the logits after the last token of a block. */
static void write_logits(const es_model *m, es_model_block block, const es_exec *exec,
                         const char *path)
{
    const int64_t vocab = es_model_config_of(m)->vocab;
    float *logits = memory(block.n * vocab, sizeof *logits);
    block.token_logits = logits;
    must(es_model_forward(m, &block, 1, exec, &err));
    FILE *f = fopen(path, "wb");
    const float *last = logits + (block.n - 1) * vocab;
    if (!f || fwrite(last, sizeof *last, (size_t)vocab, f) != (size_t)vocab || fclose(f)) {
        fprintf(stderr, "forward: cannot write %s\n", path);
        exit(1);
    }
    free(logits);
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 2;
    const int64_t n = atoll(argv[2]), count = atoll(argv[3]), reps = atoll(argv[5]);
    const es_exec exec = {.threads = atoi(argv[4])};
    const es_model_opts opts = {.weights = mode_of(argv[6]), .threads = exec.threads};
    es_model *m;
    must(es_model_open(argv[1], &opts, &m, &err));
    int32_t *ids = memory(n, sizeof *ids);
    es_model_block *blocks = memory(count, sizeof *blocks);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(7919 * i % es_model_config_of(m)->vocab);
    for (int64_t i = 0; i < count; i++)
        blocks[i] = (es_model_block){.ids = ids, .n = n};
    const es_model_block warm = {.ids = ids, .n = n < 512 ? n : 512};
    run(m, &warm, 1, &exec);
    timed *times = memory(reps + 1, sizeof *times);
    for (int64_t i = 0; i < reps; i++)
        times[i] = run(m, blocks, count, &exec);
    printf("{");
    print_list("seconds", &times->seconds, reps);
    print_list("cpu", &times->cpu, reps);
    print_list("busy", &times->busy, reps);
    const bool streamed = es_model_config_of(m)->weights == ES_WEIGHTS_STREAMED;
    printf("\"weights\":\"%s\"}\n", streamed ? "streamed" : "resident");
    if (argc > 7)
        write_logits(m, blocks[0], &exec, argv[7]);
    es_model_close(m);
    free(times);
    free(blocks);
    free(ids);
    return 0;
}
