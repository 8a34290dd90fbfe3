/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse_kinds.c : errors of heads with learned sinks, score caps and windows, against another
 * program (tests/golden/kinds). */
#include "golden.h"

#include <esscher/npy.h>

#include "experiments/sparse/sparse.h"
#include "model/model.h"

enum { MOST = 64, WIDEST = 64, DIM = 16, PLANS = 3 };

/* A model of tests/golden/decoders2 with what its layers' attention is given. */
typedef struct golden_model {
    es_model *model;
    const es_model_config *c;
    int64_t n;
    double inputs[8 * MOST * WIDEST];
} golden_model;

static golden_model golden_;

/* Opens a model in f64 and runs its tokens. */
static void open_golden(const char *name)
{
    golden_model *g = &golden_;
    es_array ids;
    int32_t tokens[MOST];
    char rest[128];
    snprintf(rest, sizeof rest, "decoders2/%s", name);
    assert_ok(
        es_model_open(golden_path(rest), &(es_model_opts){.precision = ES_F64}, &g->model, &err));
    g->c = es_model_config_of(g->model);
    snprintf(rest, sizeof rest, "decoders2/%s/ids.npy", name);
    assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &ids, &err));
    g->n = ids.shape[0];
    assert_true(g->n <= MOST && g->c->hidden <= WIDEST && g->c->layers <= 8 &&
                g->c->head_dim <= DIM);
    for (int64_t i = 0; i < g->n; i++)
        tokens[i] = (int32_t)((double *)ids.data)[i];
    es_array_free(&ids);
    const es_model_block block = {.ids = tokens, .n = g->n, .inputs = g->inputs};
    assert_ok(es_model_forward(g->model, &block, 1, &(es_exec){.threads = 1}, &err));
}

/* The policies of kinds.json: sinks and a window, the largest weights, keys at random. */
static void make_plans(const json_t *all, es_policy_spec plans[PLANS])
{
    es_policy_spec_init(&plans[0], es_policy_find("stream"));
    plans[0].sinks = (int64_t)golden_real(all, "stream_sinks");
    plans[0].window = (int64_t)golden_real(all, "stream_window");
    es_policy_spec_init(&plans[1], es_policy_find("top"));
    plans[1].keys = (int64_t)golden_real(all, "top_keys");
    es_policy_spec_init(&plans[2], es_policy_find("bigbird"));
    plans[2].sinks = 1;
    plans[2].window = golden_.c->causal ? 1 : 0; /* its own key */
    plans[2].random = (int64_t)golden_real(all, "draws");
    plans[2].correction = ES_CORRECTION_NONE;
}

/* Both programs have rounding errors only: 1e-11 of what errors are made of, the spread. Sums over
 * sets and integrals agree within 1e-9. */
static void compare(const json_t *row, const es_sparse_cell *cell)
{
    static const char *const names[PLANS] = {"stream", "top", "random"};
    const double spread2 = golden_real(row, "spread2");
    assert_int_equal(cell->n, golden_real(row, "seen"));
    assert_close(cell->spread2, spread2, 1e-11);
    assert_close(cell->ess, golden_real(row, "ess"), 1e-11);
    for (int p = 0; p < 2; p++) {
        char mass[32];
        snprintf(mass, sizeof mass, "%s_mass", names[p]);
        assert_near(cell[p].mse, golden_real(row, names[p]), 1e-11 * spread2);
        assert_near(cell[p].exact, golden_real(row, names[p]), 1e-11 * spread2);
        assert_near(cell[p].mass, golden_real(row, mass), 1e-11);
    }
    if (!json_object_get(row, "random"))
        return;
    assert_close(cell[2].exact, golden_real(row, "random"), 1e-9);
    assert_near(cell[2].mse, cell[2].exact, 5.0 * sqrt(cell[2].mse_var)); /* simulated */
}

static void run_row(const json_t *all, const json_t *row)
{
    const int64_t layer = (int64_t)golden_real(row, "layer"),
                  head = (int64_t)golden_real(row, "head");
    const int64_t query = (int64_t)golden_real(row, "query"), n = golden_.n,
                  d = golden_.c->head_dim;
    const es_view x =
        es_view_f64(golden_.inputs + layer * n * golden_.c->hidden, n, golden_.c->hidden);
    double q[MOST * DIM], k[MOST * DIM], v[MOST * DIM];
    const double sink = es_model_sink(golden_.model, layer, head);
    es_sparse_head one = {.queries = es_view_f64(q, n, d),
                          .keys = es_view_f64(k, n, d),
                          .values = es_view_f64(v, n, d),
                          .scale = 1.0 / golden_.c->score_divisor,
                          .cap = golden_.c->score_cap,
                          .sink = &sink,
                          .window = es_model_layer(golden_.c, layer)->window,
                          .causal = golden_.c->causal};
    es_policy_spec plans[PLANS];
    es_sparse_cell cells[PLANS];
    const es_sparse_spec spec = {plans, .n_plans = PLANS, .draws = 2000, .seed = 4};
    make_plans(all, plans);
    assert_ok(es_model_head_rows(golden_.model, layer, head, &x, NULL, q, k, v, &err));
    assert_ok(es_sparse_measure(&spec, &one, &query, 1, 0, cells, &err));
    compare(row, cells);
}

static void errors_with_sinks_caps_and_windows_are_numpys(void **state)
{
    (void)state;
    json_t *all = golden_file("kinds/kinds.json");
    const json_t *cases = json_object_get(all, "cases");
    int64_t rows = 0;
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c), *list = json_object_get(one, "rows");
        open_golden(json_string_value(json_object_get(one, "model")));
        for (size_t i = 0; i < json_array_size(list); i++, rows++)
            run_row(all, json_array_get(list, i));
        es_model_close(golden_.model);
    }
    assert_int_equal(rows, 36);
    json_decref(all);
}

TEST_FILE(sparse_kinds)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_with_sinks_caps_and_windows_are_numpys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
