/* SPDX-License-Identifier: Apache-2.0 */
/* test_distilbert.c : a DistilBERT of random weights against plain f64 loops (tiny_distilbert.h),
 * and what its checkpoints get wrong. */
#include "testing.h"

#include "tiny_distilbert.h"
#include <esscher/model.h>

/* States are of order 1. Roundings of a sum of k products are like a walk of sqrt(k) steps of u; a
 * layer has sums of 24, 24, 24 and 40 terms, 21 u, and each of its two norms may double what comes
 * in (rows have a standard deviation above 1/2 before they are normalised): 2 layers of 4 x 21 u.
 */
#define CLOSE(u) (2 * 4 * 21 * (u))

static const int32_t some_ids[] = {2, 5, 30, 0, 7, 7, 12, 29, 3, 14, 15, 9, 26, 5, 1, 5, 8, 9, 3};
enum { IDS = sizeof some_ids / sizeof some_ids[0], STATES = 3 * IDS * 24 };

static double number_at(es_dtype dtype, const void *x, int64_t i)
{
    return dtype == ES_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void compare(const tiny *t, es_dtype precision, double u)
{
    static double want[STATES], got[STATES];
    double pooled[24], logits[4], got_pooled[24], got_logits[4], worst = 0.0;
    const es_model_opts opts = {.precision = precision};
    es_model *m;
    assert_ok(es_model_open(folder, &opts, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    assert_equals(c->types, 0);
    assert_equals(c->layer_norm_eps, 1e-12);
    assert_equals(c->labels, t->labels);
    assert_equals(c->pooler, (t->labels > 0));
    assert_string_equal(c->model_type, "distilbert");
    const es_model_block block = {.ids = some_ids,
                                  .n = IDS,
                                  .hidden = got,
                                  .pooled = t->labels ? got_pooled : NULL,
                                  .logits = t->labels ? got_logits : NULL};
    assert_ok(es_model_forward(m, &block, 1, NULL, &err));
    distil_forward(t, some_ids, IDS, want, pooled, logits);
    for (int64_t i = 0; i < STATES; i++)
        worst = fmax(worst, fabs(number_at(precision, got, i) - want[i]));
    for (int64_t i = 0; t->labels && i < t->hidden; i++)
        worst = fmax(worst, fabs(got_pooled[i] - pooled[i]));
    for (int64_t i = 0; i < t->labels; i++)
        worst = fmax(worst, fabs(got_logits[i] - logits[i]));
    print_message("%s, %s: worst error %.2g of %.2g allowed\n", es_dtype_name(precision), t->dtype,
                  worst, CLOSE(u));
    assert_at_most(worst, CLOSE(u));
    es_model_close(m);
}

/* With the prefix and without, with a classifier and without; positions that were made by sines are
 * read from the checkpoint like any other. */
static void forward_is_what_the_loops_do(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    for (int i = 0; i < 3; i++) {
        tiny t = distil_default();
        t.dtype = dtypes[i];
        t.labels = i;
        t.prefix = i ? "distilbert." : "";
        distil_draw(&t);
        distil_write(&t, i == 1);
        compare(&t, ES_F64, 0x1p-53);
        compare(&t, ES_F32, 0x1p-24);
        tiny_free(&t);
    }
    count_files(true);
}

static void refuse_model(es_status status, const char *rule, const char *named)
{
    es_model *m;
    const es_status got = es_model_open(folder, NULL, &m, &err);
    if (got != status || strcmp(err.rule, rule) != 0 || !strstr(err.message, named))
        fail_msg("%s %s (%s), expected %s %s (%s)", es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule, named);
    assert_null(m);
}

static void mistakes_are_named_in_its_own_words(void **state)
{
    (void)state;
    tiny t = distil_default();
    distil_draw(&t);
    t.heads = 5;
    distil_write(&t, false);
    refuse_model(ES_E_FORMAT, "config.heads", "dim 24 is not a multiple of n_heads 5");
    t.heads = 3;
    t.layers = 3;
    distil_write(&t, false);
    refuse_model(ES_E_FORMAT, "model.layers", "config.json says 3 layers, the weights have 2");
    t.layers = 2;
    t.intermediate = 44;
    distil_write(&t, false);
    refuse_model(ES_E_FORMAT, "model.shape", "ffn.lin1.weight has shape [40, 24]");
    t.intermediate = 40;
    t.count -= 1;
    distil_write(&t, false);
    refuse_model(ES_E_FORMAT, "model.tensor", "transformer.layer.1.output_layer_norm.bias");
    t.count += 1;
    tiny_add(&t, "", "embeddings.word_embeddings.weight", t.vocab, t.hidden);
    distil_write(&t, false);
    refuse_model(ES_E_FORMAT, "model.prefix", "with and without \"distilbert.\"");
    tiny_free(&t);
    static const char no_layers[] = "{\"model_type\":\"distilbert\",\"dim\":24}";
    static const char relu[] = "{\"model_type\":\"distilbert\",\"activation\":\"relu\"}";
    write_file("config.json", no_layers, sizeof no_layers - 1);
    refuse_model(ES_E_FORMAT, "config.missing", "n_layers");
    write_file("config.json", relu, sizeof relu - 1);
    refuse_model(ES_E_UNSUPPORTED, "config.activation", "activation is 'relu'");
    count_files(true);
}

TEST_FILE(distilbert)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_what_the_loops_do),
        cmocka_unit_test(mistakes_are_named_in_its_own_words),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
