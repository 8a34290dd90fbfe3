/* SPDX-License-Identifier: Apache-2.0 */
/* test_decoders2.c : every folder of tests/golden/decoders2, one for each family of models and
 * variant of its configuration, against an independent f64 program (tests/golden/README.md). */
#include "golden.h"

#include <dirent.h>
#include <unistd.h>

#include <esscher/model.h>
#include <esscher/npy.h>

#include "base/view.h"
#include "model/model.h"

/* A family's folder while it is compared. */
typedef struct family {
    const char *name;
    es_model *model;
    const es_model_config *config;
    es_dtype precision;
    es_array ids, rows, q, k, out; /* tokens, those that the arrays have, and of layer 1 */
    int64_t n;
    double tolerance; /* relative to the root mean square of what is expected */
    int64_t seen;     /* heads of layer 1 */
} family;

static const char *path_of(const char *name, const char *file)
{
    char rest[512];
    snprintf(rest, sizeof rest, "decoders2/%s/%s", name, file);
    return golden_path(rest);
}

static es_array load(const char *name, const char *file)
{
    es_array a;
    assert_ok(es_npy_load_as(path_of(name, file), ES_NPY_RAW_WHOLE, NULL, &a, &err));
    assert_int_equal(a.dtype, ES_F64);
    return a;
}

static double number(const void *x, es_dtype dtype, int64_t i)
{
    return dtype == ES_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/* Returns which token of the block row i of the arrays is. */
static int64_t token_of(const family *f, int64_t i) { return (int64_t)((double *)f->rows.data)[i]; }

static double root_mean_square(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)count);
}

/* Fails unless got (n, width) has, at the tokens of the arrays, the rows want (rows, width). */
static void compare_rows(const family *f, const char *what, int64_t which, const void *got,
                         es_dtype dtype, const double *want, int64_t width)
{
    const int64_t rows = f->rows.shape[0];
    const double scale = root_mean_square(want, rows * width);
    double most = 0.0;
    for (int64_t i = 0; i < rows * width; i++) {
        const int64_t at = token_of(f, i / width) * width + i % width;
        most = fmax(most, fabs(number(got, dtype, at) - want[i]));
    }
    if (!(most <= f->tolerance * scale))
        fail_msg("%s in %s: %s %lld is off by %.3g of its scale", f->name,
                 dtype == ES_F32 ? "f32" : "f64", what, (long long)which, most / scale);
}

/* ---- heads of layer 1 ---- */

/* Fails unless a view (n, width) has these rows. */
static void compare_view(const family *f, const char *what, int64_t head, const es_view *got,
                         const es_array *want, int64_t which)
{
    const int64_t width = got->cols;
    double *rows = malloc((size_t)(got->rows * width) * sizeof *rows);
    for (int64_t i = 0; i < got->rows; i++)
        es_view_read_row(got, i, rows + i * width);
    compare_rows(f, what, head, rows, ES_F64,
                 (double *)want->data + which * f->rows.shape[0] * width, width);
    free(rows);
}

static es_status compare_head(void *context, const es_model_seen *seen, es_error *e)
{
    family *f = context;
    const es_model_config *c = f->config;
    (void)e;
    if (seen->layer != 1)
        return ES_OK;
    f->seen++;
    assert_int_equal(seen->window, es_model_layer(c, 1)->window);
    compare_view(f, "queries of head", seen->head, &seen->q, &f->q, seen->head);
    compare_view(f, "keys of head", seen->head, &seen->k, &f->k,
                 seen->head / (c->heads / c->kv_heads));
    const es_view out = es_view_f64(seen->output, f->n, c->head_dim);
    compare_view(f, "output of head", seen->head, &out, &f->out, seen->head);
    return ES_OK;
}

/* Queries and keys of one head from what attention is given: another path than the forward pass,
 * in f64, from inputs in the model's precision. */
static void compare_alone(const family *f, const void *inputs)
{
    const es_model_config *c = f->config;
    const size_t item = es_dtype_size(f->precision), layer = (size_t)(f->n * c->hidden) * item;
    const char *own = (const char *)inputs + layer; /* layer 1 */
    const es_view x = {(void *)(uintptr_t)own,    f->precision, f->n, c->hidden,
                       c->hidden * (int64_t)item, (int64_t)item};
    double *q = malloc((size_t)(3 * f->n * c->head_dim) * sizeof *q);
    double *k = q + f->n * c->head_dim, *v = k + f->n * c->head_dim;
    for (int64_t head = 0; head < c->heads; head++) {
        assert_ok(es_model_head_rows(f->model, 1, head, &x, NULL, q, k, v, &err));
        const es_view queries = es_view_f64(q, f->n, c->head_dim);
        const es_view keys = es_view_f64(k, f->n, c->head_dim);
        compare_view(f, "queries alone of head", head, &queries, &f->q, head);
        compare_view(f, "keys alone of head", head, &keys, &f->k, head / (c->heads / c->kv_heads));
    }
    free(q);
}

/* ---- a folder ---- */

/* Fails unless a vector that the model has is that of the file; returns without one. */
static void compare_vector(const family *f, const char *file, const double *got, int64_t count)
{
    if (!got)
        return;
    es_array want = load(f->name, file);
    const double scale = root_mean_square(want.data, count);
    assert_int_equal(want.shape[want.rank - 1], count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - ((double *)want.data)[i]) <= f->tolerance * scale))
            fail_msg("%s: number %lld of %s is %.17g, not %.17g", f->name, (long long)i, file,
                     got[i], ((double *)want.data)[i]);
    es_array_free(&want);
}

/* Whether a folder has this file. */
static bool has_file(const family *f, const char *file)
{
    return access(path_of(f->name, file), R_OK) == 0;
}

/* What a text as a whole becomes: the last state after its norm, where an encoder has one, the
 * pooler's and the classifier's output. What the file has the model must have. */
static void compare_ends(const family *f, const int32_t *ids)
{
    const es_model_config *c = f->config;
    const bool final = has_file(f, "final.npy") && !c->causal;
    void *last = malloc((size_t)(f->n * c->hidden) * es_dtype_size(f->precision));
    double *pooled = has_file(f, "pooled.npy") ? malloc((size_t)c->hidden * sizeof *pooled) : NULL;
    double *classes =
        has_file(f, "classes.npy") ? malloc((size_t)c->labels * sizeof *classes) : NULL;
    const es_model_block block = {
        .ids = ids, .n = f->n, .last = last, .pooled = pooled, .logits = classes};
    assert_ok(es_model_forward(f->model, &block, 1, NULL, &err));
    if (final) {
        es_array want = load(f->name, "final.npy");
        compare_rows(f, "last state", 0, last, f->precision, want.data, c->hidden);
        es_array_free(&want);
    }
    compare_vector(f, "pooled.npy", pooled, c->hidden);
    compare_vector(f, "classes.npy", classes, c->labels);
    free(classes);
    free(pooled);
    free(last);
}

/* Hidden states of every layer, heads of layer 1 and logits. */
static void compare_block(family *f)
{
    const es_model_config *c = f->config;
    const int64_t width = c->hidden, states = c->layers + 1;
    const size_t item = es_dtype_size(f->precision), state = (size_t)(f->n * width) * item;
    const es_model_visit visit = {compare_head, f, .statistics = true};
    int32_t *ids = malloc((size_t)f->n * sizeof *ids);
    char *hidden = malloc((size_t)states * state), *inputs = malloc((size_t)c->layers * state);
    void *logits = c->predicts ? malloc((size_t)(f->n * c->vocab) * item) : NULL;
    es_array want = load(f->name, "hidden.npy");
    for (int64_t i = 0; i < f->n; i++)
        ids[i] = (int32_t)((double *)f->ids.data)[i];
    const es_model_block block = {.ids = ids,
                                  .n = f->n,
                                  .hidden = hidden,
                                  .inputs = inputs,
                                  .token_logits = logits,
                                  .visit = &visit};
    assert_ok(es_model_forward(f->model, &block, 1, NULL, &err));
    assert_int_equal(want.shape[0], states);
    for (int64_t l = 0; l < states; l++)
        compare_rows(f, "hidden state", l, hidden + (size_t)l * state, f->precision,
                     (double *)want.data + l * f->rows.shape[0] * width, width);
    es_array_free(&want);
    assert_int_equal(f->seen, c->heads);
    compare_alone(f, inputs);
    compare_ends(f, ids);
    if (logits) {
        want = load(f->name, "logits.npy");
        compare_rows(f, "logits", 0, logits, f->precision, want.data, c->vocab);
        es_array_free(&want);
    }
    free(logits);
    free(inputs);
    free(hidden);
    free(ids);
}

static void check_family(const char *name, es_dtype precision, double tolerance)
{
    family f = {.name = name, .precision = precision, .tolerance = tolerance};
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path_of(name, ""));
    if (es_model_open(folder, &(es_model_opts){.precision = precision}, &f.model, &err) != ES_OK)
        fail_msg("%s: %s", name, err.message);
    f.config = es_model_config_of(f.model);
    es_array *const arrays[] = {&f.ids, &f.rows, &f.q, &f.k, &f.out};
    static const char *const files[] = {"ids.npy", "rows.npy", "q0.npy", "k0.npy", "out0.npy"};
    for (int i = 0; i < 5; i++)
        *arrays[i] = load(name, files[i]);
    f.n = f.ids.shape[0];
    compare_block(&f);
    for (int i = 0; i < 5; i++)
        es_array_free(arrays[i]);
    es_model_close(f.model);
}

/* Every folder that there is, so that one which is added is tested. */
static void check_all(es_dtype precision, double tolerance, int64_t least)
{
    char folder[4096];
    int64_t count = 0;
    snprintf(folder, sizeof folder, "%s", golden_path("decoders2"));
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all));) {
        if (strchr(entry->d_name, '.'))
            continue;
        check_family(entry->d_name, precision, tolerance);
        count++;
    }
    closedir(all);
    assert_at_least(count, least);
}

enum { FOLDERS = 34 };

/* A few hundred roundings of 6e-8 in each of six layers; the worst that is seen is 1.1e-5. */
static void every_family_in_f32(void **state)
{
    (void)state;
    check_all(ES_F32, 2e-5, FOLDERS);
}

/* Likewise of 1e-16; the worst that is seen is 3e-14. */
static void every_family_in_f64(void **state)
{
    (void)state;
    check_all(ES_F64, 1e-10, FOLDERS);
}

/* Blocks that BigBird would compute block-sparse are refused with that reason, and longer ones
 * because the table of positions ends: (5 + 2 * 0) * 10 = 50 tokens, and 64 rows. */
static void block_sparse_attention_is_refused(void **state)
{
    (void)state;
    char folder[4096];
    es_model *m;
    int32_t ids[65] = {0};
    snprintf(folder, sizeof folder, "%s", path_of("big_bird-classes", ""));
    assert_ok(es_model_open(folder, NULL, &m, &err));
    es_model_block block = {.ids = ids, .n = 50};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    block.n = 51;
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "forward.block_sparse");
    block.n = 65;
    assert_int_equal(es_model_forward(m, &block, 1, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "forward.length");
    es_model_close(m);
}

TEST_FILE(decoders2)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_in_f32),
        cmocka_unit_test(every_family_in_f64),
        cmocka_unit_test(block_sparse_attention_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
