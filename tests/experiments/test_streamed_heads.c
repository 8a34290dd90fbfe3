/* SPDX-License-Identifier: Apache-2.0 */
/* test_streamed_heads.c : `probe --look content`, `picture`, `tails` and horizons of `downstream`
 * with a model whose weights stay in the file. Resident weights are the reference: numbers must
 * have their bits. */
#include "tiny_pool.h"

#include "experiments/downstream/downstream.h"
#include "experiments/kit/probe.h"
#include "experiments/picture/picture.h"
#include "experiments/tails/tails.h"

enum { TEXT = 900, MOST = 1 << 15, LAYER = 1 };

/* A pool that both kinds of model use, and numbers of one of them. */
typedef struct lab {
    const es_model *model;
    const es_pool *pool;
    es_blocks texts;
    es_exec exec;
    double numbers[MOST];
    int64_t used;
} lab;

/* Returns `count` numbers of the lab. */
static double *take(lab *x, int64_t count)
{
    double *at = x->numbers + x->used;
    x->used += count;
    assert_true(x->used <= MOST);
    return at;
}

static void run_probe(lab *x)
{
    static const int64_t sizes[] = {20, 60};
    const es_probe_spec spec = {x->model,      x->pool,    .sizes = sizes, .n_sizes = 2,
                                .queries = 24, .exact = 4, .seed = 3,      .exec = &x->exec};
    const int64_t heads = es_model_config_of(x->model)->heads;
    double *numbers = take(x, es_probe_numbers(&spec));
    es_probe *probe;
    assert_ok(es_probe_measure(&spec, LAYER, numbers, &err));
    assert_ok(es_probe_exact(&spec, LAYER, numbers, take(x, es_probe_exact_numbers(&spec)), &err));
    assert_ok(es_probe_open(&spec, LAYER, numbers, &probe, &err));
    es_probe_cell *cells = (void *)take(x, 2 * heads * (int64_t)(sizeof *cells / sizeof(double)));
    es_probe_joint joint[2];
    assert_ok(es_probe_replicate(probe, 0, cells, joint, &err));
    take(x, 1)[0] = joint[1].map_error; /* after Wo */
    es_probe_close(probe);
}

static void run_picture(lab *x)
{
    const es_picture_spec spec = {.model = x->model,
                                  .pool = x->pool,
                                  .layer = LAYER,
                                  .number = 1,
                                  .queries = 16,
                                  .seed = 3,
                                  .exec = &x->exec};
    double *out = take(x, 16 * es_picture_channels(&spec));
    assert_ok(es_picture_limit(&spec, out, take(x, 16), &err));
}

static void run_tails(lab *x)
{
    const es_tails_spec spec = {
        .model = x->model, .pool = x->pool, .draws = 2, .seed = 3, .exec = &x->exec};
    es_tails_row *rows = calloc((size_t)es_tails_rows(&spec), sizeof *rows);
    assert_ok(es_tails_measure(&spec, LAYER, rows, &err));
    for (int64_t i = 0; i < es_tails_rows(&spec); i++) {
        double *at = take(x, 2);
        at[0] = rows[i].sample.variance;
        at[1] = rows[i].p.heavier;
    }
    free(rows);
}

static void run_horizons(lab *x)
{
    const es_downstream spec = {.model = x->model, .texts = &x->texts, .embed = true};
    const es_model_config *c = es_model_config_of(x->model);
    assert_ok(es_downstream_horizons(&spec, &x->exec, take(x, c->layers * c->heads), &err));
}

static void run_all(const es_model *m, const es_pool *pool, int threads, lab *x)
{
    static int32_t ids[40];
    static int64_t start[] = {0, 20, 40};
    es_mem_limit call = {0};
    *x = (lab){.model = m,
               .pool = pool,
               .texts = {.ids = ids, .start = start, .count = 2},
               .exec = {.threads = threads, .budget = &call}};
    for (int i = 0; i < 40; i++)
        ids[i] = (int32_t)((int64_t)i * 7919 % es_model_config_of(m)->vocab);
    run_probe(x);
    run_picture(x);
    run_tails(x);
    run_horizons(x);
    assert_int_equal(call.used, 0);
}

static void studies_of_heads_have_the_bits_of_resident_weights(void **state)
{
    (void)state;
    static lab want, got;
    static int32_t ids[TEXT];
    es_model *streamed;
    es_pool *pool;
    write_words("text", 5, TEXT, ids);
    es_pool_spec spec = pool_spec_of("text", "pool");
    spec.tokens = 600;
    assert_ok(es_pool_build(&spec, NULL, &err));
    assert_ok(es_pool_open(spec.folder, &pool, &err));
    const es_model_opts opts = {.weights = ES_WEIGHTS_STREAMED};
    assert_ok(es_model_open(folder, &opts, &streamed, &err));
    run_all(model, pool, 1, &want);
    for (int threads = 1; threads <= 2; threads++) {
        run_all(streamed, pool, threads, &got);
        assert_int_equal(got.used, want.used);
        assert_memory_equal(got.numbers, want.numbers, (size_t)want.used * sizeof(double));
    }
    es_model_close(streamed);
    es_pool_close(pool);
    remove_pool("pool");
}

TEST_FILE(streamed_heads)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(studies_of_heads_have_the_bits_of_resident_weights),
    };
    return cmocka_run_group_tests(tests, make_model_folder, remove_model_folder);
}
