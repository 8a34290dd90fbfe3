/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c : what sharing work over ranks costs; one line of JSON from rank 0.
 *
 *     mpirun -n R ranks PIECES SECONDS NUMBERS [FILE.run]
 *
 * Pieces that take SECONDS, asleep, so that more ranks than processors can be tried, and make
 * NUMBERS numbers, which are kept in a run file if one is named. Rank 0 works, too.
 * docs/dev/SCALE.md compares the times with its model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks/ranks_inside.h"
#include "store/run.h"

static es_error err;

static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "ranks: %s (%s)\n", err.message, err.hint);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench {
    double seconds;
    int64_t numbers, kept;
    es_run *run;
    int64_t stage;
} bench;

static es_status compute(void *user, int64_t piece, const es_exec *exec, double *out, es_error *e)
{
    const bench *b = user;
    const double whole = (double)(int64_t)b->seconds;
    const struct timespec nap = {(time_t)whole, (long)(1e9 * (b->seconds - whole))};
    (void)exec, (void)e;
    if (b->seconds > 0.0)
        nanosleep(&nap, NULL);
    for (int64_t i = 0; i < b->numbers; i++)
        out[i] = (double)(piece + i);
    return ES_OK;
}

static es_status keep(void *user, int64_t piece, const double *numbers, es_error *e)
{
    bench *b = user;
    b->kept++;
    return b->run ? es_run_put_cell(b->run, b->stage, piece, numbers, e) : ES_OK;
}

static void open_run(bench *b, const char *path)
{
    static const char *const columns[] = {"number"};
    const es_run_spec spec = {.command = "bench"};
    must(es_run_create(path, &spec, true, &b->run, &err));
    must(es_run_add_stage(b->run, "piece", b->numbers, 1, columns, &b->stage, &err));
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: mpirun -n R ranks PIECES SECONDS NUMBERS [FILE.run]\n");
        return 2;
    }
    const int64_t pieces = atoll(argv[1]);
    bench b = {.seconds = atof(argv[2]), .numbers = atoll(argv[3])};
    es_fabric *fabric;
    es_executor *executor;
    int64_t *list = calloc((size_t)pieces + 1, sizeof *list);
    for (int64_t i = 0; list && i < pieces; i++)
        list[i] = i;
    must(es_fabric_load(NULL, &fabric, &err));
    must(es_ranks_new(fabric, &executor, &err));
    const int rank = fabric->rank, ranks = fabric->ranks;
    if (rank == 0 && argc == 5)
        open_run(&b, argv[4]);
    const es_exec exec = {.threads = 1, .executor = executor};
    const es_work work = {.noun = "pieces",
                          .pieces = list,
                          .count = rank ? 0 : pieces,
                          .numbers = b.numbers,
                          .user = &b,
                          .compute = compute,
                          .done = keep};
    must(es_work_agree(&exec, ES_OK, "", &err));
    const double since = now();
    must(es_work_run(&work, &exec, &err));
    if (b.run)
        must(es_run_close(b.run, &err));
    const double took = now() - since;
    const es_ranks_tally t = es_ranks_tally_of(executor);
    if (rank == 0)
        printf("{\"ranks\": %d, \"pieces\": %lld, \"piece_seconds\": %g, \"numbers\": %lld, "
               "\"kept\": %s, \"seconds\": %.4f, \"of_others\": %lld, \"serve_seconds\": %.4f, "
               "\"wait_seconds\": %.4f}\n",
               ranks, (long long)b.kept, b.seconds, (long long)b.numbers,
               argc == 5 ? "true" : "false", took, (long long)t.pieces, t.serve_seconds,
               t.wait_seconds);
    fflush(stdout);
    es_ranks_free(executor);
    fabric->close(fabric, true);
    free(list);
    return 0;
}
