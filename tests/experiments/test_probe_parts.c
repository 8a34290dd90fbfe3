/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe_parts.c : the limit of a probe in parts, against plain loops; pools that keep some
 * rows, and walks that make the others again. */
#include "probe_truth.h"
#include "base/executor.h"

#include <fcntl.h>
#include <unistd.h>

#include <esscher/study.h>

/* ---- parts ---- */

static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    static const int64_t many[] = {1, 2, 7};
    for (int m = 0; m < 3; m++) {
        es_probe_spec spec = spec_of(NULL);
        const es_probe_layout at = es_probe_layout_of(&spec);
        double *numbers = new_numbers(&spec);
        truth t;
        spec.part_tokens = (tokens + many[m] - 1) / many[m];
        assert_int_equal(es_probe_parts(&spec), many[m]);
        for (int64_t layer = 0; layer < LAYERS; layer++) {
            truth_open(layer, &t);
            assert_ok(es_probe_measure(&spec, layer, numbers, &err));
            /* as in test_probe.c: f64 sums of f32 numbers; f32 scores */
            for (int i = 0; i < H; i++)
                assert_near(numbers[at.mean + i], t.mean[i], 1e-12);
            for (int i = 0; i < H * H; i++)
                assert_near(numbers[at.cov + i], t.cov[i], 1e-12);
            for (int i = 0; i < QUERIES * H; i++)
                assert_near(numbers[at.limit + i], t.limit[i], tolerance_of[layer]);
            free(t.x);
        }
        free(numbers);
    }
}

/* Whoever did the parts, of one layer or of several at once: the same bits; and a part that is not
 * there changes nothing. */
static void parts_of_several_layers_are_those_of_one(void **state)
{
    (void)state;
    es_probe_spec spec = spec_of(NULL);
    spec.part_tokens = tokens / 3;
    const int64_t parts = es_probe_parts(&spec), size = es_probe_part_numbers(&spec);
    double *all = calloc((size_t)(2 * LAYERS * size), sizeof *all), *state_of = all + LAYERS * size;
    double *one = new_numbers(&spec), *two = new_numbers(&spec);
    for (int64_t part = 0; part <= parts; part++) {
        double *to = part ? state_of : all;
        assert_ok(es_probe_part(&spec, 0, LAYERS, part, to, &err));
        for (int l = 0; part && l < LAYERS; l++)
            assert_ok(es_probe_fold(&spec, all + l * size, state_of + l * size, &err));
    }
    for (int64_t l = 0; l < LAYERS; l++) {
        assert_ok(es_probe_finish(&spec, all + l * size, one, &err));
        assert_ok(es_probe_measure(&spec, l, two, &err));
        assert_memory_equal(one, two, (size_t)es_probe_numbers(&spec) * sizeof *one);
    }
    free(one);
    free(two);
    free(all);
}

/* Exact errors of all layers in one walk, and those of each alone. */
static void slices_together_are_slices_alone(void **state)
{
    (void)state;
    es_probe_spec spec = spec_of(NULL);
    spec.exact = 2;
    const int64_t per = es_probe_slices(&spec), size = es_probe_slice_numbers(&spec);
    const int64_t all = LAYERS * per, of_layer = es_probe_exact_numbers(&spec);
    assert_at_least(per * size, of_layer);
    double *numbers[LAYERS], *together = malloc((size_t)(all * size) * sizeof *together);
    double *alone = malloc((size_t)of_layer * sizeof *alone);
    int64_t each;
    const int64_t from = es_probe_centers(&spec, &each);
    double *centers = malloc((size_t)(LAYERS * each) * sizeof *centers);
    for (int64_t l = 0; l < LAYERS; l++) {
        numbers[l] = new_numbers(&spec);
        assert_ok(es_probe_measure(&spec, l, numbers[l], &err));
        memcpy(centers + l * each, numbers[l] + from, (size_t)each * sizeof *centers);
    }
    assert_ok(es_probe_exact_slices(&spec, 0, all, centers, together, &err));
    for (int64_t l = 0; l < LAYERS; l++) {
        assert_ok(es_probe_exact(&spec, l, numbers[l], alone, &err));
        assert_memory_equal(alone, together + l * per * size, (size_t)of_layer * sizeof *alone);
        free(numbers[l]);
    }
    assert_int_equal(es_probe_exact_slices(&spec, 1, all, NULL, together, &err), ES_E_RANGE);
    free(alone);
    free(together);
    free(centers);
}

/* ---- some rows ---- */

/* Every seventh row from `layer` on, backwards, the first twice; and a stretch. */
static es_status keep_some(void *user, const es_pool_info *about, const int64_t *starts,
                           int64_t layer, int64_t *rows, int64_t *count, es_error *e)
{
    (void)user, (void)e;
    assert_equals(starts[0], 0);
    assert_equals(starts[about->blocks], about->tokens);
    int64_t n = 0;
    for (int64_t i = about->tokens - 1; i >= layer; i--)
        if ((i - layer) % 7 == 0 || (i >= 100 && i < 150) || i == about->tokens) {
            if (rows)
                rows[n] = i;
            n++;
        }
    if (rows)
        rows[n] = layer;
    *count = n + 1;
    return ES_OK;
}

typedef struct look {
    float *rows; /* (LAYERS, tokens, H) as they came by */
    int64_t tokens, seen;
} look;

static es_status take(void *user, int64_t layer, int64_t first, int64_t count, const float *x,
                      es_error *e)
{
    look *l = user;
    (void)e;
    memcpy(l->rows + (layer * l->tokens + first) * H, x, (size_t)(count * H) * sizeof *x);
    l->seen += count;
    return ES_OK;
}

static es_pool *open_pool(es_pool_spec *spec, es_pool_keep_fn keep)
{
    es_pool *p;
    spec->keep = keep;
    assert_ok(es_pool_build(spec, NULL, &err));
    assert_ok(es_pool_open(spec->folder, &p, &err));
    return p;
}

/* A model of the same shape and of one other weight, in the last layer. */
static void check_another_model(es_pool *of, es_pool_spec spec)
{
    es_model *other;
    double *bias =
        (double *)(uintptr_t)tiny_find(&tiny_of_pool, "", "encoder.layer.2.output.dense.bias");
    const double before = bias[3];
    bias[3] += 1.0;
    tiny_write(&tiny_of_pool);
    assert_ok(es_model_open(folder, NULL, &other, &err));
    bias[3] = before;
    tiny_write(&tiny_of_pool);
    spec.model = other;
    assert_int_equal(es_pool_stream(of, &spec, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "pool.stream");
    assert_string_equal(err.message, "the pool was built with another model");
    es_model_close(other);
    assert_ok(es_model_open(folder, NULL, &other, &err)); /* the same weights, read again */
    spec.model = other;
    assert_ok(es_pool_stream(of, &spec, &err));
    es_model_close(other);
}

static void rows_that_are_kept_and_rows_that_are_made_again(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        es_pool_spec spec = pool_spec_of("text", "full");
        spec.store = half ? ES_POOL_F16 : ES_POOL_F32;
        spec.drop_specials = half == 1;
        es_pool *full = open_pool(&spec, NULL);
        spec = pool_spec_of("text", "some");
        spec.store = half ? ES_POOL_F16 : ES_POOL_F32;
        spec.drop_specials = half == 1;
        es_pool *some = open_pool(&spec, keep_some);
        const es_pool_info about = es_pool_about(some);
        assert_true(about.sparse && !es_pool_about(full).sparse);
        assert_int_equal(about.tokens, es_pool_about(full).tokens);
        float a[50 * H], b[50 * H];
        for (int64_t l = 0; l < LAYERS; l++) {
            const int64_t rows[] = {l + 7 * 5, 120, l + 7 * 300, l};
            assert_ok(es_pool_gather(full, l, rows, 4, a, &err));
            assert_ok(es_pool_gather(some, l, rows, 4, b, &err));
            assert_memory_equal(a, b, 4 * H * sizeof *a);
            assert_ok(es_pool_rows(full, l, 100, 50, a, &err));
            assert_ok(es_pool_rows(some, l, 100, 50, b, &err));
            assert_memory_equal(a, b, sizeof a);
            assert_int_equal(es_pool_rows(some, l, 101, 50, b, &err), ES_E_RANGE);
            assert_string_equal(err.rule, "pool.dropped");
            assert_int_equal(es_pool_rows(some, l, l + 701, 1, b, &err), ES_E_RANGE);
            assert_int_equal(es_pool_rows(some, l, about.tokens, 1, b, &err), ES_E_RANGE);
            es_pool_context x, y;
            assert_ok(es_pool_context_of(full, l, 1, &x, &err));
            assert_ok(es_pool_context_of(some, l, 1, &y, &err));
            assert_memory_equal(&x, &y, sizeof x);
        }
        /* from the middle of a block to the middle of another, two layers */
        const es_pool_range range = {
            .layer = 1, .layers = 2, .first = 57, .last = about.tokens - 3, .strip = 333};
        const size_t bytes = (size_t)(LAYERS * about.tokens * H) * sizeof(float);
        look one = {calloc(1, bytes), about.tokens, 0}, two = {calloc(1, bytes), about.tokens, 0};
        assert_int_equal(es_pool_walk(some, &range, NULL, take, &two, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "pool.dropped");
        es_pool_spec other = spec;
        other.tokens = 1000;
        assert_int_equal(es_pool_stream(some, &other, &err), ES_E_ARGUMENT);
        check_another_model(some, spec);
        assert_ok(es_pool_stream(some, &spec, &err));
        assert_ok(es_pool_walk(full, &range, NULL, take, &one, &err));
        assert_ok(es_pool_walk(some, &range, NULL, take, &two, &err));
        assert_int_equal(one.seen, 2 * (about.tokens - 60));
        assert_int_equal(two.seen, one.seen);
        assert_memory_equal(one.rows, two.rows, bytes);
        free(one.rows);
        free(two.rows);
        es_pool_close(full);
        es_pool_close(some);
        remove_pool("full");
        remove_pool("some");
    }
}

static void a_bit_that_turned_is_found_when_it_is_opened(void **state)
{
    (void)state;
    es_pool_spec spec = pool_spec_of("text", "some");
    es_pool_close(open_pool(&spec, keep_some));
    const int fd = open(in_folder("some/layer-1.npy"), O_RDWR);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, 5000), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    close(fd);
    es_pool *p;
    assert_int_equal(es_pool_open(spec.folder, &p, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "pool.checksum");
    /* other rows are another pool */
    spec.keep = NULL;
    assert_int_equal(es_pool_build(&spec, NULL, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    remove_pool("some");
}

/* ---- states of a model that stop early ---- */

/* ---- what it takes ---- */

static void note_cost(void *user, const es_cost *cost) { *(double *)user = cost->work_bytes; }

/* Working memory that a probe of 600000 tokens and 5000 queries asks for, before it is refused. */
static double bytes_on(int ranks)
{
    const es_study *probe = es_study_find("probe");
    char text[512];
    snprintf(text, sizeof text, "%s", in_folder("few.txt"));
    const char *const words[][2] = {
        {"model", folder},       {"text", text},    {"pool", "600000"},     {"repeat", NULL},
        {"query-count", "5000"}, {"n", "10..40*3"}, {"exact-queries", "2"}, {"replicates", "2"}};
    es_executor several = es_executor_threads;
    es_answer *a;
    es_params *p;
    double bytes = 0.0;
    several.ranks = ranks;
    assert_ok(es_params_new(probe->params, probe->size, &p, &err));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_ok(es_params_set(p, words[i][0], words[i][1], &err));
    const es_study_opts opts = {
        .exec.executor = &several, .max_memory = 1, .admitted = note_cost, .user = &bytes};
    assert_int_equal(es_study_run(probe, p, &opts, &a, &err), ES_E_LIMIT);
    assert_string_equal(err.rule, "memory.limit");
    es_params_free(p);
    return bytes;
}

/* 600000 tokens are three parts of 262144 at most: behind the first two may wait. */
static void parts_that_wait_are_priced(void **state)
{
    (void)state;
    int32_t ids[3000];
    es_probe_spec spec = spec_of(NULL);
    spec.queries = 5000;
    write_words("few.txt", 3, 3000, ids);
    const double each = (double)es_probe_part_numbers(&spec);
    const double alone = bytes_on(1), together = bytes_on(3);
    assert_at_least(together, alone + 2.0 * 8.0 * each);
    assert_at_most(together, alone + 4.0 * 8.0 * each);
}

static void states_that_are_not_wanted_are_not_run(void **state)
{
    (void)state;
    static const int32_t ids[5] = {TINY_CLS, 9, 12, 9, TINY_SEP};
    float all[(LAYERS + 1) * 5 * H], some[2 * 5 * H];
    es_model_block block = {.ids = ids, .n = 5, .hidden = all};
    assert_ok(es_model_forward(model, &block, 1, NULL, &err));
    block.hidden = some;
    block.states = 2;
    assert_ok(es_model_forward(model, &block, 1, NULL, &err));
    assert_memory_equal(all, some, sizeof some);
    block.last = all;
    assert_int_equal(es_model_forward(model, &block, 1, NULL, &err), ES_E_ARGUMENT);
    block.states = LAYERS + 2;
    assert_int_equal(es_model_forward(model, &block, 1, NULL, &err), ES_E_RANGE);
}

TEST_FILE(probe_parts)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(parts_of_several_layers_are_those_of_one),
        cmocka_unit_test(slices_together_are_slices_alone),
        cmocka_unit_test(rows_that_are_kept_and_rows_that_are_made_again),
        cmocka_unit_test(a_bit_that_turned_is_found_when_it_is_opened),
        cmocka_unit_test(states_that_are_not_wanted_are_not_run),
        cmocka_unit_test(parts_that_wait_are_priced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
