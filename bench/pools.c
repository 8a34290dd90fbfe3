/* SPDX-License-Identifier: Apache-2.0 */
/* pools.c : what a pool of a model's tokens says about every head, without a draw: the exact error
 * of n independent tokens, and that of Gaussian tokens of the same covariance, as CSV.
 *
 *     bench_pools MODEL POOL QUERIES EXACT N... >pool.csv
 *
 * MODEL is a checkpoint, POOL a folder that `esscher probe --pool-dir` has made; QUERIES tokens are
 * asked, EXACT of them exactly. Layers of a small pool and of a large one are compared by
 * bench/pools.py, whose tables docs/TRUST.md quotes. */
#include <stdio.h>
#include <stdlib.h>

#include "experiments/kit/probe.h"

enum { MOST_SIZES = 16 };

static es_error err;

static void must(es_status status)
{
    if (status == ES_OK)
        return;
    fprintf(stderr, "pools: %s (%s)\n", err.message, err.hint);
    exit(1);
}

static double *numbers_of(int64_t count)
{
    double *numbers = malloc((size_t)count * sizeof *numbers);
    if (!numbers)
        exit(1);
    return numbers;
}

static void print_head(const es_probe_spec *spec, es_probe *probe, int64_t layer, int64_t head,
                       const double *exact)
{
    es_probe_point point[MOST_SIZES];
    double gaussian[MOST_SIZES];
    es_probe_head about;
    es_probe_need need;
    must(es_probe_head_of(probe, head, &about, &err));
    must(es_probe_curve(probe, head, exact, point, &err));
    must(es_probe_predict(probe, head, gaussian, &err));
    must(es_probe_tokens_required(probe, head, exact, 0.1 * about.output_rms, &need, &err));
    for (int64_t i = 0; i < spec->n_sizes; i++)
        printf("%lld,%lld,%lld,%lld,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n",
               (long long)es_pool_about(spec->pool).tokens, (long long)layer, (long long)head,
               (long long)spec->sizes[i], point[i].map_error, point[i].map_error_se,
               point[i].map_error_pool, gaussian[i], about.sampling, about.output_rms,
               about.focus.ess, about.thin, need.tokens, need.queries_se, need.pool_error);
}

static void print_layer(es_probe_spec *spec, int64_t layer)
{
    double *numbers = numbers_of(es_probe_numbers(spec));
    double *exact = numbers_of(es_probe_exact_numbers(spec));
    es_probe *probe;
    must(es_probe_measure(spec, layer, numbers, &err));
    must(es_probe_exact(spec, layer, numbers, exact, &err));
    must(es_probe_open(spec, layer, numbers, &probe, &err));
    for (int64_t h = 0; h < es_pool_about(spec->pool).heads; h++)
        print_head(spec, probe, layer, h, exact);
    fflush(stdout);
    es_probe_close(probe);
    free(exact);
    free(numbers);
}

int main(int argc, char **argv)
{
    int64_t sizes[MOST_SIZES], count = argc - 5;
    es_model *model;
    es_pool *pool;
    if (count < 1 || count > MOST_SIZES) {
        fprintf(stderr, "usage: bench_pools MODEL POOL QUERIES EXACT N... (up to 16)\n");
        return 2;
    }
    for (int64_t i = 0; i < count; i++)
        sizes[i] = (int64_t)strtod(argv[5 + i], NULL);
    must(es_model_open(argv[1], NULL, &model, &err));
    must(es_pool_open(argv[2], &pool, &err));
    es_probe_spec spec = {.model = model,
                          .pool = pool,
                          .sizes = sizes,
                          .n_sizes = count,
                          .queries = strtoll(argv[3], NULL, 10),
                          .exact = strtoll(argv[4], NULL, 10)};
    puts("tokens,layer,head,n,exact,exact_se,exact_pool,gaussian,sampling,spread,ess,thin,needed,"
         "needed_queries,needed_pool");
    for (int64_t layer = 0; layer < es_pool_about(pool).layers; layer++)
        print_layer(&spec, layer);
    es_pool_close(pool);
    es_model_close(model);
    return 0;
}
