/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of a model's forward pass, against its matrix products alone. Each repetition times both,
 * one after the other: the clock of a shared machine moves, the ratio hardly does. */
#include <stdlib.h>

#include <esscher/model.h>

#include "bench.h"
#include "talk.h"

static const es_column columns[] = {
    {"n", "tokens", "per block", ES_FORMAT_COUNT},
    {"blocks", "blocks", "", ES_FORMAT_COUNT},
    {"threads", "threads", "", ES_FORMAT_COUNT},
    {"seconds", "time", "s", ES_FORMAT_SHORT, "median of the repetitions"},
    {"tokens_per_second", "speed", "tokens/s", ES_FORMAT_SHORT},
    {"products_seconds", "products", "s", ES_FORMAT_SHORT,
     "the products of the same blocks with the layers' matrices and nothing else, "
     "without attention"},
    {"percent_of_products", "of products", "%", ES_FORMAT_SHORT,
     "median over repetitions of products / time"},
    {"percent_of_products_min", "least", "%", ES_FORMAT_SHORT},
    {"percent_of_products_max", "most", "%", ES_FORMAT_SHORT},
    {"percent_of_all", "of all", "%", ES_FORMAT_SHORT,
     "the same with attention's own products added, as if they ran at the speed of the others: no "
     "forward pass of these blocks could be above 100 %"},
    {"attention_share", "attention", "%", ES_FORMAT_SHORT,
     "operations of attention over those of the matrices"},
    {"bytes_stated", "memory stated", "B", ES_FORMAT_SHORT, "bound before the run, weights apart"},
    {"bytes_used", "used", "B", ES_FORMAT_SHORT, "most at one time"},
    {0}};

static const es_table_view views[] = {{"Forward pass of the model, f32"}, {0}};
static const es_table_spec table = {"model", columns, views};

enum { BLOCKS_PER_THREAD = 4, TOKENS = 512 };

/* Times of one number of threads; ids do not matter to the speed. */
typedef struct timing {
    const es_model *model;
    es_model_block *blocks;
    int64_t n, count;
    es_exec exec;
    es_mem_limit memory;
    double *forward, *products, *ratio; /* (repeat) */
} timing;

/* Times the matrix products of the model, then its forward pass. */
static es_status time_once(const timing *t, int64_t i, es_error *err)
{
    const double start = cli_seconds();
    es_status status = es_model_products(t->model, t->n, t->count, &t->exec, err);
    const double middle = cli_seconds();
    if (status == ES_OK)
        status = es_model_forward(t->model, t->blocks, t->count, &t->exec, err);
    t->forward[i] = cli_seconds() - middle;
    t->products[i] = middle - start;
    t->ratio[i] = 100.0 * t->products[i] / t->forward[i];
    return status == ES_OK && cli_interrupted() ? ES_E_INTERRUPTED : status;
}

/* Adds a row: both times and their ratio. */
static void put_row(es_table *to, timing *t, int64_t repeat)
{
    const bench_spread forward = bench_spread_of(t->forward, repeat);
    const bench_spread products = bench_spread_of(t->products, repeat);
    const bench_spread ratio = bench_spread_of(t->ratio, repeat);
    const int64_t at = es_table_row(to);
    es_table_count(to, at, "n", (t->n));
    es_table_count(to, at, "blocks", (t->count));
    es_table_count(to, at, "threads", (t->exec.threads));
    es_table_real(to, at, "seconds", (forward.median));
    es_table_real(to, at, "tokens_per_second", ((double)(t->n * t->count) / forward.median));
    es_table_real(to, at, "products_seconds", (products.median));
    es_table_real(to, at, "percent_of_products", (ratio.median));
    es_table_real(to, at, "percent_of_products_min", (ratio.min));
    es_table_real(to, at, "percent_of_products_max", (ratio.max));
    const es_model_cost cost =
        es_model_cost_of(es_model_config_of(t->model), ES_F32, t->n, t->exec.threads, false);
    const double share = cost.attention / cost.products;
    es_table_real(to, at, "percent_of_all", ratio.median * (1.0 + share));
    es_table_real(to, at, "attention_share", 100.0 * share);
    es_table_real(to, at, "bytes_stated", cost.bytes);
    es_table_real(to, at, "bytes_used", (double)t->memory.peak);
}

/* Repeats the measurement for one number of threads. */
static es_status time_threads(cli_session *session, const bench_options *o, const es_model *model,
                              int threads, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    const int64_t n = o->n ? o->n : TOKENS;
    timing t = {.model = model,
                .n = c->positions < n ? c->positions : n,
                .count =
                    n > TOKENS ? 1 : BLOCKS_PER_THREAD * threads, /* threads share a long one */
                .exec = session->exec};
    t.exec.threads = threads;
    t.exec.progress = NULL;
    t.exec.budget = &t.memory;
    t.memory.limit = session->budget.limit;
    int32_t *ids = cli_alloc_array((size_t)t.n, sizeof *ids);
    t.blocks = cli_alloc_array((size_t)t.count, sizeof *t.blocks);
    t.forward = cli_alloc_array((size_t)(3 * o->repetitions), sizeof *t.forward);
    t.products = t.forward + o->repetitions;
    t.ratio = t.products + o->repetitions;
    for (int64_t i = 0; i < t.n; i++)
        ids[i] = (int32_t)(i * 7919 % c->vocab);
    for (int64_t i = 0; i < t.count; i++)
        t.blocks[i] = (es_model_block){.ids = ids, .n = t.n};
    es_status status = time_once(&t, 0, err); /* pages and caches get warm */
    for (int64_t i = 0; i < o->repetitions && status == ES_OK; i++)
        status = time_once(&t, i, err);
    if (status == ES_OK)
        put_row(es_answer_table(cli_result(session), &table), &t, o->repetitions);
    free(t.forward);
    free(t.blocks);
    free(ids);
    return status;
}

es_status bench_model(cli_session *session, const bench_options *o, es_error *err)
{
    const es_model_opts opts = {.budget = &session->budget};
    es_model *model;
    session->budget.limit = (size_t)session->common.max_memory;
    es_status status = es_model_open(o->model, &opts, &model, err);
    for (int64_t i = 0; i < o->threads.count && status == ES_OK; i++)
        status = time_threads(session, o, model, (int)o->threads.counts[i], err);
    es_model_close(model);
    return status;
}
