/* Speed of a model's forward pass, against its matrix products alone. Each repetition times both,
 * one after the other: the clock of a shared machine moves, the ratio hardly does. */
#include <stdlib.h>

#include <esscher/model.h>

#include "bench.h"
#include "talk.h"

static const cli_column columns[] = {
    {"n", "tokens", "per block", .format = CLI_COUNT},
    {"blocks", "blocks", "", .format = CLI_COUNT},
    {"threads", "threads", "", .format = CLI_COUNT},
    {"seconds", "time", "s", .format = CLI_SHORT, .definition = "median of the repetitions"},
    {"tokens_per_second", "speed", "tokens/s", .format = CLI_SHORT},
    {"products_seconds", "products", "s", .format = CLI_SHORT,
     .definition = "the products of the same blocks with the layers' matrices and nothing else, "
                   "without attention"},
    {"percent_of_products", "of products", "%", .format = CLI_SHORT,
     .definition = "median over repetitions of products / time"},
    {"percent_of_products_min", "least", "%", .format = CLI_SHORT},
    {"percent_of_products_max", "most", "%", .format = CLI_SHORT},
    {0}};

const cli_table bench_model_table = {
    .rows = "model", .title = "Forward pass of the model, f32", .columns = columns};

enum { BLOCKS_PER_THREAD = 4 };

/* Times of one number of threads; ids do not matter to the speed. */
typedef struct timing {
    const es_model *model;
    es_model_block *blocks;
    int64_t n, count;
    es_exec exec;
    double *forward, *products, *ratio; /* (repeat) */
} timing;

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

static json_t *row_of(timing *t, int64_t repeat)
{
    const bench_spread forward = bench_spread_of(t->forward, repeat);
    const bench_spread products = bench_spread_of(t->products, repeat);
    const bench_spread ratio = bench_spread_of(t->ratio, repeat);
    json_t *row = json_object();
    json_object_set_new(row, "n", json_integer(t->n));
    json_object_set_new(row, "blocks", json_integer(t->count));
    json_object_set_new(row, "threads", json_integer(t->exec.threads));
    json_object_set_new(row, "seconds", cli_real(forward.median));
    json_object_set_new(row, "tokens_per_second",
                        cli_real((double)(t->n * t->count) / forward.median));
    json_object_set_new(row, "products_seconds", cli_real(products.median));
    json_object_set_new(row, "percent_of_products", cli_real(ratio.median));
    json_object_set_new(row, "percent_of_products_min", cli_real(ratio.min));
    json_object_set_new(row, "percent_of_products_max", cli_real(ratio.max));
    return row;
}

static es_status time_threads(cli_session *session, const bench_options *o, const es_model *model,
                              int threads, json_t *rows, es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    timing t = {.model = model,
                .n = c->positions < 512 ? c->positions : 512,
                .count = BLOCKS_PER_THREAD * threads,
                .exec = session->exec};
    t.exec.threads = threads;
    t.exec.progress = NULL;
    int32_t *ids = cli_alloc_array((size_t)t.n, sizeof *ids);
    t.blocks = cli_alloc_array((size_t)t.count, sizeof *t.blocks);
    t.forward = cli_alloc_array((size_t)(3 * o->repeat), sizeof *t.forward);
    t.products = t.forward + o->repeat;
    t.ratio = t.products + o->repeat;
    for (int64_t i = 0; i < t.n; i++)
        ids[i] = (int32_t)(i * 7919 % c->vocab);
    for (int64_t i = 0; i < t.count; i++)
        t.blocks[i] = (es_model_block){.ids = ids, .n = t.n};
    es_status status = time_once(&t, 0, err); /* pages and caches get warm */
    for (int64_t i = 0; i < o->repeat && status == ES_OK; i++)
        status = time_once(&t, i, err);
    if (status == ES_OK)
        json_array_append_new(rows, row_of(&t, o->repeat));
    free(t.forward);
    free(t.blocks);
    free(ids);
    return status;
}

es_status bench_model(cli_session *session, const bench_options *o, es_error *err)
{
    const es_model_opts opts = {.budget = &session->budget};
    es_model *model;
    json_t *rows = json_array();
    json_object_set_new(session->answer, "model", rows);
    session->budget.limit = (size_t)session->common.max_memory;
    es_status status = es_model_open(o->model, &opts, &model, err);
    for (int64_t i = 0; i < o->threads.count && status == ES_OK; i++)
        status = time_threads(session, o, model, (int)o->threads.counts[i], rows, err);
    es_model_close(model);
    return status;
}
