/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c : time of a block with a key-value cache over that of a full pass.
 *
 *     cache MODEL TOKENS THREADS ROUNDS [cpu|wall] [NAME]
 *
 * Runs a block of TOKENS ids to its last hidden state, in every setting below once per round, so
 * that a busy moment of the machine hits all of them. The prompt is half of the block; prompt mode
 * keeps a quarter of it, decode mode a quarter of the block. A round's ratio is taken within the
 * round. Printed: the median of the ratios, the smallest and the largest. Processor time (cpu, the
 * default) hardly depends on other processes, but on several threads it includes the time in which
 * OpenMP's threads spin while they wait for each other, unless OMP_WAIT_POLICY=passive. With NAME
 * only settings whose names contain it are run. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <esscher/cache.h>
#include <esscher/model.h>

enum { MOST_ROUNDS = 1001 };

static es_error err;

/* What is run; the first is the full model. */
static const struct setting {
    const char *name, *evict, *policy, *type;
} settings[] = {
    {"full", NULL, NULL, NULL},
    {"prompt stream", "prompt", "stream", NULL},
    {"prompt snapkv", "prompt", "snapkv", NULL},
    {"prompt h2o", "prompt", "h2o", NULL},
    {"prompt expected", "prompt", "expected", NULL},
    {"decode stream", "decode", "stream", NULL},
    {"decode h2o", "decode", "h2o", NULL},
    {"decode tova", "decode", "tova", NULL},
    {"q4_0", NULL, NULL, "q4_0"},
    {"kivi2", NULL, NULL, "kivi2"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* Ends the program with the error's message unless `status` is ES_OK. */
static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "cache: %s: %s (%s)\n", err.file, err.message, err.hint);
    exit(1);
}

/* Returns the time by a clock, in seconds. */
static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs the block in one setting and returns the time. */
static double run(const es_model *m, const es_model_block *plain, const struct setting *s,
                  const es_exec *exec, clockid_t clock)
{
    const es_model_config *c = es_model_config_of(m);
    const int64_t prompt = plain->n / 2;
    const es_cache_opts opts = {.evict = s->evict,
                                .prompt = prompt,
                                .policy = s->policy,
                                .keys = s->evict && !strcmp(s->evict, "decode") ? plain->n / 4
                                                                                : prompt / 4,
                                .k_type = s->type,
                                .v_type = s->type};
    es_model_block block = *plain;
    es_cache *cache = NULL;
    const double start = now(clock);
    if (s->evict || s->type)
        must(es_cache_new(c, &opts, plain->n, NULL, &cache, &err));
    block.cache = cache;
    must(es_model_forward(m, &block, 1, exec, &err));
    const double taken = now(clock) - start;
    es_cache_free(cache);
    return taken;
}

/* Compares two numbers, for qsort(). */
static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns whether a setting is run: the full model always is. */
static bool is_asked(int s, const char *name) { return s == 0 || strstr(settings[s].name, name); }

int main(int argc, char **argv)
{
    static double ratio[SETTINGS][MOST_ROUNDS], full[MOST_ROUNDS];
    if (argc < 5 || atoi(argv[4]) < 1 || atoi(argv[4]) > MOST_ROUNDS || atoll(argv[2]) < 16)
        return 2;
    const int64_t n = atoll(argv[2]);
    const int rounds = atoi(argv[4]);
    const es_exec exec = {.threads = atoi(argv[3])};
    const clockid_t clock =
        argc > 5 && !strcmp(argv[5], "wall") ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    const char *asked = argc > 6 ? argv[6] : "";
    es_model *m;
    must(es_model_open(argv[1], &(es_model_opts){.threads = exec.threads}, &m, &err));
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    if (!ids)
        return 1;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(7919 * i % es_model_config_of(m)->vocab);
    const es_model_block block = {.ids = ids, .n = n};
    run(m, &block, &settings[0], &exec, clock);
    for (int r = 0; r < rounds; r++)
        for (int s = 0; s < SETTINGS; s++) {
            if (!is_asked(s, asked))
                continue;
            const double taken = run(m, &block, &settings[s], &exec, clock);
            full[r] = s == 0 ? taken : full[r];
            ratio[s][r] = taken / full[r];
        }
    qsort(full, (size_t)rounds, sizeof *full, by_size);
    printf("%lld tokens, %d threads, full pass %.3g s\n", (long long)n, exec.threads,
           full[rounds / 2]);
    for (int s = 1; s < SETTINGS; s++) {
        if (!is_asked(s, asked))
            continue;
        qsort(ratio[s], (size_t)rounds, sizeof **ratio, by_size);
        printf("%-16s %.2f (%.2f to %.2f)\n", settings[s].name, ratio[s][rounds / 2], ratio[s][0],
               ratio[s][rounds - 1]);
    }
    free(ids);
    es_model_close(m);
    return 0;
}
