/* SPDX-License-Identifier: Apache-2.0 */
/* test_depth.c : errors through the layers. A model whose layers are norms and nothing else, where
 * gains are projections that one can write down; a stack of scalars, whose covariances are a
 * recursion of numbers; sets of tokens against the closed form; the study, stopped and on threads.
 */
#include "tiny_pool.h"

#include <esscher/study.h>

#include "experiments/depth/depth.h"
#include "random/experiment.h"

enum { H = 12, LAYERS = 3, N = 32, STATE = N * H };

static int32_t ids[N];
static es_model *norms; /* layers 1 and 2 are LayerNorm(LayerNorm(x)), no more */

static double *values_of(tiny *t, const char *name, int64_t *count)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->tensors[i].name, name) == 0) {
            *count = t->tensors[i].rows * (t->tensors[i].cols ? t->tensors[i].cols : 1);
            return t->tensors[i].values;
        }
    fail_msg("no tensor %s", name);
    return NULL;
}

static void fill(tiny *t, const char *name, double value)
{
    int64_t count = 0;
    double *values = values_of(t, name, &count);
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
}

static int set_up(void **state)
{
    if (make_model_folder(state) != 0)
        return -1;
    tiny t = tiny_default();
    tiny_draw(&t);
    for (int i = 0; i < t.count; i++)
        if (strstr(t.tensors[i].name, "LayerNorm"))
            fill(&t, t.tensors[i].name, strstr(t.tensors[i].name, "weight") ? 1.0 : 0.0);
    for (int l = 1; l < LAYERS; l++)
        for (int p = 0; p < 4; p++) {
            static const char *const parts[] = {"attention.output.dense.weight",
                                                "attention.output.dense.bias",
                                                "output.dense.weight", "output.dense.bias"};
            char name[128];
            snprintf(name, sizeof name, "encoder.layer.%d.%s", l, parts[p]);
            fill(&t, name, 0.0);
        }
    tiny_write(&t);
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F64}, &norms, &err));
    tiny_write(&tiny_of_pool); /* the study reads the plain one */
    tiny_free(&t);
    for (int i = 0; i < N; i++)
        ids[i] = (7 * i * i + i) % 31;
    return 0;
}

static int tear_down(void **state)
{
    es_model_close(norms);
    return remove_model_folder(state);
}

static es_policy_spec policy_of(const char *name, int64_t keys)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.keys = keys;
    return spec;
}

/* ---- a model ---- */

/* Everything is kept: what is left is rounding, 1e-13 of states of order 1, squared. */
static void full_has_no_error(void **state)
{
    (void)state;
    es_depth_state s[LAYERS + 1];
    const es_policy_spec full = policy_of("full", ES_POLICY_UNSET);
    const es_depth_spec spec = {.model = norms, .policy = &full, .layer = -1, .seed = 3};
    assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
    for (int l = 0; l <= LAYERS; l++) {
        assert_at_most(s[l].error2, 1e-24);
        assert_at_most(s[l].own2, 1e-24);
        assert_between(s[l].spread2, 1.0, (double)H);
        assert_near(s[l].kept, l ? N : 0, 1e-9);
    }
}

/* States 1 of both models, by the model alone, at the addresses that depth.h promises to be a
 * function of seed and block. */
static void first_states(const es_policy_spec *policy, uint64_t seed, double *x, double *off)
{
    static double hidden[2][2 * STATE];
    es_policy_spec heads[LAYERS * 3];
    for (int i = 0; i < LAYERS * 3; i++)
        heads[i] = *policy;
    const es_model_sparse sparse = {.heads = heads,
                                    .at = {.seed = seed, .experiment = ES_EXPERIMENT_DEPTH}};
    es_model_block b[2] = {
        {.ids = ids, .n = N, .states = 2, .hidden = hidden[0]},
        {.ids = ids, .n = N, .states = 2, .hidden = hidden[1], .sparse = &sparse}};
    assert_ok(es_model_forward(norms, b, 2, NULL, &err));
    for (int i = 0; i < STATE; i++) {
        x[i] = hidden[0][STATE + i];
        off[i] = hidden[1][STATE + i] - x[i];
    }
}

/* After layer 0 hidden states have mean 0 and variance 1, and the norms of the layers that follow
 * give them back: the error stays as it is. A small change d of x becomes what is left of it
 * orthogonal to x (and to 1, where errors are not): |d|^2 less <x, d>^2/H. */
static void gains_of_norms_are_projections(void **state)
{
    (void)state;
    static double x[STATE], off[STATE];
    static const char *const names[] = {"top", "random"};
    for (int p = 0; p < 2; p++) {
        const es_policy_spec policy = policy_of(names[p], 5);
        const es_depth_spec spec = {.model = norms,
                                    .policy = &policy,
                                    .layer = -1,
                                    .directions = 64,
                                    .size = 1e-4,
                                    .seed = 3};
        es_depth_state s[LAYERS + 1];
        assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
        first_states(&policy, 3, x, off);
        double error2 = 0.0, lost = 0.0, lost_noise = 0.0;
        for (int i = 0; i < N; i++) {
            double own = 0.0;
            for (int j = 0; j < H; j++) {
                own += x[i * H + j] * off[i * H + j];
                error2 += off[i * H + j] * off[i * H + j] / N;
            }
            lost += own * own / H / N;
            for (int k = 0; k < N; k++) { /* noise at token i is a mixture of all tokens' errors */
                double other = 0.0;
                for (int j = 0; j < H; j++)
                    other += x[i * H + j] * off[k * H + j];
                lost_noise += other * other / H / N / N;
            }
        }
        assert_close(s[1].error2, error2, 1e-12);
        assert_nan(s[1].gain2); /* there was no error before */
        assert_equals(s[1].fresh2, s[1].error2);
        for (int l = 2; l <= LAYERS; l++) {
            assert_close(s[l].error2, error2, 1e-9); /* the norms' eps is 1e-12 */
            assert_below(s[l].own2, 1e-24);
            assert_below(s[l].fresh2, 1e-24);
            assert_close(s[l].far2, 1.0, 1e-9);
            /* to first order in the size, and the second cancels between +d and -d: not here */
            assert_close(s[l].along2, 1.0 - lost / error2, 1e-3);
            /* 64 directions of 32 tokens in up to 11 dimensions: 2048 squares or more, 3 % each
             * sqrt(2/2048), and only the part that is lost is random: 4 sigma are below 0.02 */
            assert_near(s[l].gain2, 1.0 - lost_noise / error2, 0.02);
        }
        if (p == 0)
            assert_close(s[1].own2, s[1].error2, 1e-12); /* nothing is left to chance */
        else {
            assert_differs(s[1].own2, s[1].error2);
            assert_above(s[1].own2, 0.3 * s[1].error2);
        }
    }
}

/* Of a decoder the second half of a block counts, i >= n/2, as in budget. Under a window of 16 the
 * first 16 tokens have no error, so that means over all 32 would be half of these. The states are
 * the model's own, in f64 on both sides: 1e-9. */
static void decoders_count_the_second_half(void **state)
{
    (void)state;
    enum { TOKENS = 32 };
    es_model *m;
    assert_ok(es_model_open(ES_TESTS_DIR "/../models/pebble", &(es_model_opts){.precision = ES_F64},
                            &m, &err));
    const es_model_config *c = es_model_config_of(m);
    const es_policy_spec window = policy_of("window", 16);
    const int64_t width = c->hidden, states = c->layers + 1;
    es_policy_spec *heads = malloc((size_t)(c->layers * c->heads) * sizeof *heads);
    double *x = malloc((size_t)(2 * states * TOKENS * width) * sizeof *x);
    double *y = x + states * TOKENS * width;
    es_depth_state *s = malloc((size_t)states * sizeof *s);
    int32_t words[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        words[i] = 300 + 37 * i % 211;
    for (int64_t i = 0; i < c->layers * c->heads; i++)
        heads[i] = window;
    for (int64_t n = TOKENS; n >= TOKENS - 1; n--) {
        const es_model_sparse sparse = {.heads = heads};
        es_model_block b[2] = {{.ids = words, .n = n, .hidden = x},
                               {.ids = words, .n = n, .hidden = y, .sparse = &sparse}};
        const es_depth_spec spec = {.model = m, .policy = &window, .layer = -1, .seed = 1};
        assert_ok(es_model_forward(m, b, 2, NULL, &err));
        assert_ok(es_depth_block(&spec, words, n, 0, NULL, s, &err));
        for (int64_t l = 0; l < states; l++) {
            const double *full = x + l * n * width, *sparse_state = y + l * n * width;
            const double late = (double)(n - n / 2);
            double error2 = 0.0, early = 0.0, spread2 = 0.0;
            for (int64_t j = 0; j < width; j++) {
                double mean = 0.0;
                for (int64_t i = n / 2; i < n; i++)
                    mean += full[i * width + j] / late;
                for (int64_t i = 0; i < n; i++) {
                    const double off = sparse_state[i * width + j] - full[i * width + j];
                    const double apart = full[i * width + j] - mean;
                    *(i < n / 2 ? &early : &error2) += off * off / late;
                    spread2 += i < n / 2 ? 0.0 : apart * apart / late;
                }
            }
            assert_below(early, 1e-20);
            assert_near(s[l].error2, error2, 1e-9 * error2);
            assert_close(s[l].spread2, spread2, 1e-9);
            assert_true(l == 0 || (error2 > 0.0 && s[l].own2 > 0.0));
        }
    }
    free(s);
    free(x);
    free(heads);
    es_model_close(m);
}

/* One layer alone: nothing before it, its own error in it, what becomes of that after it. */
static void one_layer_alone(void **state)
{
    (void)state;
    es_depth_state s[LAYERS + 1];
    const es_policy_spec policy = policy_of("top", 4);
    es_depth_spec spec = {.model = model, .policy = &policy, .layer = 1, .seed = 3};
    assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
    assert_equals(s[1].error2, 0.0);
    assert_equals(s[1].own2, 0.0);
    assert_close(s[1].kept, (double)N, 1e-12);
    assert_above(s[2].error2, 0.0);
    assert_close(s[2].own2, s[2].error2, 1e-5); /* f32 */
    assert_equals(s[3].own2, 0.0);
    assert_above(s[3].gain2, 0.0);
    assert_close(s[3].far2 * s[2].error2, s[3].error2, 1e-4); /* it is full: nothing is added */
    /* noise of half the size, and of the same direction: gains are those of small noise already */
    const double gain2 = s[3].gain2;
    spec.size = 0.005;
    assert_ok(es_depth_block(&spec, ids, N, 0, NULL, s, &err));
    assert_close(s[3].gain2, gain2, 1e-2);
    spec.layer = LAYERS;
    assert_int_equal(es_depth_block(&spec, ids, N, 0, NULL, s, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "depth.layer");
    spec.layer = 1;
    assert_int_equal(es_depth_block(&spec, ids, 41, 0, NULL, s, &err), ES_E_RANGE);
}

/* ---- a synthetic stack ---- */

enum { D = 3, DEPTH = 3, REPLICATES = 12 };

/* A = a I and V = v I in every layer. */
static es_stack scalars(double a, double v)
{
    static double A[DEPTH * D * D], V[DEPTH * D * D];
    for (int l = 0; l < DEPTH; l++)
        for (int i = 0; i < D * D; i++) {
            A[l * D * D + i] = i % (D + 1) == 0 ? a : 0.0;
            V[l * D * D + i] = i % (D + 1) == 0 ? v : 0.0;
        }
    return (es_stack){.dim = D, .depth = DEPTH, .A = A, .V = V, .seed = 11};
}

static double mean_of(const double *x, int count, double *se)
{
    double mean = 0.0, squares = 0.0;
    for (int i = 0; i < count; i++)
        mean += x[i] / count;
    for (int i = 0; i < count; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    *se = sqrt(squares / count / (count - 1));
    return mean;
}

/* S' = (1 + v S a)^2 S, and the tokens' covariance is that: on average within 4 standard errors
 * (3 layers: once in 5000 seeds), but for the bias of 1/n times a few, at n = 2000. */
static void covariances_are_the_recursion(void **state)
{
    (void)state;
    const double a = 0.3, v = 0.5;
    const es_stack stack = scalars(a, v);
    es_stack_limit *limit;
    es_stack_state s[REPLICATES][DEPTH + 1];
    double S = 1.0, column[REPLICATES], se;
    assert_ok(es_stack_limit_new(&stack, 0, 0, NULL, &limit, &err));
    for (int r = 0; r < REPLICATES; r++)
        assert_ok(es_stack_measure(&stack, limit, 2000, r, NULL, s[r], &err));
    for (int l = 0; l <= DEPTH; l++) {
        const double *cov = es_stack_limit_cov(limit, l);
        double horizon;
        for (int i = 0; i < D * D; i++)
            assert_near(cov[i], i % (D + 1) == 0 ? S : 0.0, 1e-12 * S);
        assert_ok(es_stack_horizon(cov, stack.A, D, NULL, &horizon, &err));
        assert_close(horizon, a * S, 1e-9);
        for (int r = 0; r < REPLICATES; r++)
            column[r] = s[r][l].agreement;
        assert_near(mean_of(column, REPLICATES, &se), 1.0, 4.0 * se + 5.0 / 2000.0);
        for (int r = 0; r < REPLICATES; r++)
            column[r] = s[r][l].spread2;
        assert_near(mean_of(column, REPLICATES, &se), D * S, 4.0 * se + 5.0 / 2000.0 * D * S);
        if (l == 0)
            assert_equals(s[0][0].error2, 0.0);
        else
            assert_above(s[0][l].error2, 0.0);
        S *= (1.0 + v * a * S) * (1.0 + v * a * S);
    }
    es_stack_limit_free(limit);
}

/* After one layer tokens are off by V (Gamma_n - Gamma), whose mean square is known to leading
 * order (THEORY 9): e^{q^2} (tr S + q^2)/n for a query of q = |A x|, S = I; averaged over x ~ N(0,
 * I): with a^2 = h, (1 - 2h)^{-d/2} (d + d h/(1 - 2h))/n. A query is its own key, which adds
 * (v/n)^2 |x -
 * ...|^2: of second order. */
static void the_first_error_is_the_theorem(void **state)
{
    (void)state;
    enum { n = 4000 };
    const double a = 0.2, v = 0.5, h = a * a;
    const es_stack stack = scalars(a, v);
    es_stack_limit *limit;
    double column[REPLICATES], se;
    assert_ok(es_stack_limit_new(&stack, 0, 0, NULL, &limit, &err));
    for (int r = 0; r < REPLICATES; r++) {
        es_stack_state s[DEPTH + 1];
        assert_ok(es_stack_measure(&stack, limit, n, r, NULL, s, &err));
        column[r] = s[1].error2;
    }
    const double want =
        v * v * pow(1.0 - 2.0 * h, -0.5 * D) * (D + D * h / (1.0 - 2.0 * h)) / (double)n;
    assert_near(mean_of(column, REPLICATES, &se), want, 4.0 * se + 0.01 * want);
    es_stack_limit_free(limit);
}

/* Sets of tokens in place of the closed form: their own error, twice that of the tokens in squares,
 * averages out of products of two. Each seed has its own sets, so that the scatter between seeds is
 * all there is; a square of differences to the mean of the sets would be off by half of the error.
 */
static void sets_stand_for_the_limit(void **state)
{
    (void)state;
    enum { n = 400, SETS = 4, TOKENS = 200, SEEDS = 24 };
    double off[SEEDS], error[SEEDS], own[SEEDS], se;
    for (int seed = 0; seed < SEEDS; seed++) {
        es_stack stack = scalars(0.3, 0.5);
        es_stack_limit *closed, *sets;
        es_stack_state one[DEPTH + 1], other[DEPTH + 1];
        stack.seed = (uint64_t)seed;
        assert_ok(es_stack_limit_new(&stack, 0, 0, NULL, &closed, &err));
        assert_ok(es_stack_limit_new(&stack, SETS, TOKENS, NULL, &sets, &err));
        assert_ok(es_stack_measure(&stack, closed, n, 0, NULL, one, &err));
        assert_ok(es_stack_measure(&stack, sets, n, 0, NULL, other, &err));
        assert_equals(one[2].limit_error2, 0.0);
        error[seed] = one[2].error2;
        off[seed] = other[2].error2 - one[2].error2;
        own[seed] = other[2].limit_error2;
        es_stack_limit_free(closed);
        es_stack_limit_free(sets);
    }
    const double exact = mean_of(error, SEEDS, &se), theirs = mean_of(own, SEEDS, &se);
    /* half as many tokens: twice the error; some 9 degrees of freedom in 96 sets: 5 %, and what is
     * beyond first order at 200 tokens */
    assert_close(theirs, 2.0 * exact, 0.4);
    const double bias = mean_of(off, SEEDS, &se);
    assert_below(se, 0.12 * exact); /* or the next line could not tell */
    assert_near(bias, 0.0, 4.0 * se);
}

/* With a norm tokens have length sqrt(d), so that the horizon is d - 1 times the first at most; and
 * scalars, which have no direction of their own, leave it where it is. */
static void a_norm_keeps_the_length(void **state)
{
    (void)state;
    es_stack stack = scalars(0.3, 0.5);
    es_stack_limit *limit;
    es_stack_state s[DEPTH + 1];
    double horizon[DEPTH + 1];
    stack.norm = ES_STACK_LAYER;
    assert_int_equal(es_stack_limit_new(&stack, 0, 0, NULL, &limit, &err), ES_E_ARGUMENT);
    assert_ok(es_stack_limit_new(&stack, 4, 2000, NULL, &limit, &err));
    assert_ok(es_stack_measure(&stack, limit, 500, 0, NULL, s, &err));
    for (int l = 0; l <= DEPTH; l++) {
        const double *cov = es_stack_limit_cov(limit, l);
        double trace = 0.0;
        for (int i = 0; i < D; i++)
            trace += cov[i * D + i];
        /* |x|^2 = d, less the mean's, which is chance: d/8000 or so */
        assert_near(trace, (double)D, 0.01 * D);
        assert_ok(es_stack_horizon(cov, stack.A, D, NULL, &horizon[l], &err));
        assert_at_most(horizon[l], (D - 1) * 0.3 * D / (D - 1.0) * (1.0 + 1e-3));
        /* isotropic on the circle of 1.5 times P: sample covariances of 8000 are off by 1 or 2 % */
        assert_close(horizon[l], 0.3 * D / (D - 1.0), 0.1);
        assert_near(s[l].spread2, (double)D, 0.05 * D);
    }
    es_stack_limit_free(limit);
}

/* Without a norm tokens may grow beyond all measure: no number then, and no failure. */
static void growth_beyond_measure_has_no_numbers(void **state)
{
    (void)state;
    const es_stack stack = scalars(1.0, 1e5); /* 1e5 times as large after every layer */
    es_stack_limit *limit;
    es_stack_state s[DEPTH + 1];
    assert_ok(es_stack_limit_new(&stack, 0, 0, NULL, &limit, &err));
    assert_ok(es_stack_measure(&stack, limit, 50, 0, NULL, s, &err));
    assert_finite(s[1].error2);
    assert_finite(s[1].horizon);
    for (int l = 2; l <= DEPTH; l++) {
        assert_nan(s[l].error2);
        assert_nan(s[l].horizon);
    }
    es_stack_limit_free(limit);
}

/* ---- the study ---- */

static es_answer *run_study(const char *const *settings, es_study_opts opts, es_status want)
{
    const es_study *study = es_study_find("depth");
    es_params *p;
    es_answer *a = NULL;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; settings[0]; settings += 2)
        assert_ok(es_params_set(p, settings[0], settings[1], &err));
    assert_int_equal(es_study_run(study, p, &opts, &a, &err), want);
    es_params_free(p);
    return a;
}

static void compare_tables(const es_answer *a, const es_answer *b, const char *name)
{
    const es_table *x = es_answer_find(a, name), *y = es_answer_find(b, name);
    es_table_column c, d;
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(es_table_rows(x), es_table_rows(y));
    for (int64_t i = 0; es_table_column_at(x, i, &c); i++) {
        assert_true(es_table_column_at(y, i, &d));
        for (int64_t row = 0; c.format != ES_FORMAT_TEXT && row < es_table_rows(x); row++) {
            const double left = es_column_real(&c, row), right = es_column_real(&d, row);
            assert_memory_equal(&left, &right, sizeof left); /* the same bits */
        }
    }
}

static const char *text_path(void)
{
    static int32_t words[2000];
    static char path[512];
    snprintf(path, sizeof path, "%s", write_words("text.txt", 5, 2000, words));
    return path;
}

/* Rows obey the recursion that their columns state, and what is measured starts as it is predicted
 * where nothing is left to chance. */
static void rows_are_the_recursion(void **state)
{
    (void)state;
    const char *const settings[] = {"model",      folder, "text", text_path(), "policy",
                                    "top,random", "keys", "4,12", "blocks",    "5",
                                    "length",     "24",   NULL};
    es_answer *a = run_study(settings, (es_study_opts){.seed = 2}, ES_OK);
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), 4 * LAYERS);
    for (int64_t r = 0; r < 4 * LAYERS; r++) {
        const double own = es_table_get(t, r, "own"), predicted = es_table_get(t, r, "predicted");
        const double gain = es_table_get(t, r, "gain"), error = es_table_get(t, r, "error");
        const int64_t layer = r % LAYERS;
        assert_near(es_table_get(t, r, "layer"), (double)layer, 0.0);
        assert_above(error, 0.0);
        assert_above(es_table_get(t, r, "error_se"), 0.0);
        const double before = layer ? es_table_get(t, r - 1, "predicted") : 0.0;
        assert_close(predicted * predicted,
                     (layer ? gain * gain * before * before : 0.0) + own * own, 1e-9);
        assert_close(es_table_get(t, r, "ratio"), predicted / error, 1e-9);
        if (!layer && r < 2 * LAYERS)
            assert_close(predicted, error, 1e-5); /* top: f32 */
        if (layer) {
            const double came = es_table_get(t, r, "gain_far") * es_table_get(t, r - 1, "error");
            const double fresh = es_table_get(t, r, "fresh");
            assert_close(error * error,
                         came * came + fresh * fresh +
                             2.0 * came * fresh * es_table_get(t, r, "correlation"),
                         1e-9);
        }
    }
    assert_non_null(es_answer_finding(a, 0));
    es_answer_free(a);
}

/* Findings hold numbers alone, also of a single layer, where nothing is added after it. */
static void findings_are_numbers(void **state)
{
    (void)state;
    const char *const settings[] = {"model",           folder, "text",  text_path(), "policy",
                                    "top,full,random", "keys", "2",     "blocks",    "3",
                                    "length",          "24",   "layer", "0",         NULL};
    es_answer *a = run_study(settings, (es_study_opts){.seed = 2}, ES_OK);
    int64_t count = 0;
    for (const char *text; (text = es_answer_finding(a, count)); count++)
        assert_null(strstr(text, "nan"));
    assert_int_equal(count, 3);
    es_answer_free(a);
}

static bool row_fails(const es_table *t, int64_t row)
{
    const double off = fabs(es_table_get(t, row, "ratio") - 1.0);
    return off > 0.1 && !(off < 2.0 * es_table_get(t, row, "ratio_se"));
}

/* What is said of where the prediction fails is what the rows say; of many policies the best and
 * the worst are named. */
static void findings_are_those_of_the_rows(void **state)
{
    (void)state;
    const char *const settings[] = {"model",  folder,
                                    "text",   text_path(),
                                    "policy", "top,window,stream,random,bigbird",
                                    "keys",   "2,3,4,6,8,12,16",
                                    "blocks", "2",
                                    "length", "24",
                                    NULL};
    es_answer *a = run_study(settings, (es_study_opts){.seed = 2}, ES_OK);
    const es_table *t = es_answer_find(a, "rows");
    const int64_t all = es_table_rows(t);
    int64_t failing = 0, first = all, best = LAYERS - 1, worst = LAYERS - 1;
    char want[160], name[2][64];
    for (int64_t i = all; i-- > 0;)
        if (row_fails(t, i)) {
            failing++;
            first = i;
        }
    for (int64_t i = LAYERS - 1; i < all; i += LAYERS) {
        best = es_table_get(t, i, "error") < es_table_get(t, best, "error") ? i : best;
        worst = es_table_get(t, i, "error") > es_table_get(t, worst, "error") ? i : worst;
    }
    for (int k = 0; k < 2; k++) {
        const int64_t row = k ? worst : best;
        snprintf(name[k], sizeof name[k], "(%s, %.0f keys)", es_table_get_text(t, row, "policy"),
                 es_table_get(t, row, "keys"));
        assert_non_null(strstr(es_answer_finding(a, 0), name[k]));
    }
    assert_above(failing, 0); /* or the test has not seen what it is for */
    snprintf(want, sizeof want,
             "off by more than 10 %% in %d of %d pairs of a layer and a setting, first in layer %d "
             "(%s, ",
             (int)failing, (int)all, (int)(first % LAYERS), es_table_get_text(t, first, "policy"));
    assert_non_null(strstr(es_answer_finding(a, 1), want));
    es_answer_free(a);
}

/* Policies that differ in what stands after the + are told apart, in rows as in sentences. */
static void variants_have_names(void **state)
{
    (void)state;
    const char *const settings[] = {
        "model", folder, "text",   text_path(), "policy", "random,random+with,bigbird+inverse",
        "keys",  "4",    "blocks", "2",         "length", "24",
        NULL};
    const char *const names[] = {"random", "random+with", "bigbird+inverse"};
    es_answer *a = run_study(settings, (es_study_opts){.seed = 2}, ES_OK);
    const es_table *rows = es_answer_find(a, "rows");
    const int64_t layers = es_table_rows(rows) / 3;
    for (int64_t i = 0; i < 3; i++) {
        char named[64];
        snprintf(named, sizeof named, "(%s, 4 keys)", names[i]);
        assert_string_equal(es_table_get_text(rows, i * layers, "policy"), names[i]);
        assert_non_null(strstr(es_answer_finding(a, 0), named));
    }
    es_answer_free(a);
}

/* In two dimensions a norm lets no horizon grow, and stops a growth only where there is one: always
 * with A and V the identity, and with random ones of this seed not. */
static void a_norm_stops_what_grows(void **state)
{
    (void)state;
    const char *const heads[] = {"identity", "random"};
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {"synthetic", "yes",     "dim",       "2",          "n",
                                        "64,128",    "horizon", "0.1",       "replicates", "2",
                                        "depth",     "2",       "reference", "64",         "head",
                                        heads[i],    NULL};
        es_answer *a = run_study(settings, (es_study_opts){.seed = 0}, ES_OK);
        const es_table *t = es_answer_find(a, "growth");
        const char *said = es_answer_finding(a, 0);
        const double last = es_table_get(t, 2, "horizon_exact");
        if (i)
            assert_below(last, 0.1);
        else
            assert_above(last, 0.105);
        assert_non_null(strstr(said, i ? "norm has no growth" : "norm stops the growth"));
        es_answer_free(a);
    }
}

static bool stop_soon(void *user, const es_progress *now)
{
    (void)user;
    return now->share > 0.5;
}

static void same_answer_on_threads_and_after_a_stop(void **state)
{
    (void)state;
    const char *const of_model[] = {"model",          folder, "text", text_path(), "policy",
                                    "random,bigbird", "keys", "8",    "blocks",    "4",
                                    "length",         "30",   NULL};
    const char *const of_stack[] = {"synthetic", "yes",   "n",    "50,100,200", "replicates",
                                    "4",         "depth", "2",    "horizon",    "0.3,0.6",
                                    "reference", "256",   "norm", "both",       NULL};
    const char *const *settings[] = {of_model, of_stack};
    static const char *const tables[][2] = {{"rows", "rows"}, {"growth", "stack"}};
    for (int i = 0; i < 2; i++) {
        es_study_opts opts = {.seed = 9, .exec = {.threads = 1}};
        es_answer *one = run_study(settings[i], opts, ES_OK);
        opts.exec.threads = 3;
        es_answer *three = run_study(settings[i], opts, ES_OK);
        opts.out = in_folder("depth.run");
        opts.progress = stop_soon;
        opts.force = true;
        run_study(settings[i], opts, ES_E_INTERRUPTED);
        opts.progress = NULL;
        opts.force = false;
        opts.resume = true;
        es_answer *resumed = run_study(settings[i], opts, ES_OK);
        for (int t = 0; t < 2; t++) {
            compare_tables(one, three, tables[i][t]);
            compare_tables(one, resumed, tables[i][t]);
        }
        es_answer_free(one);
        es_answer_free(three);
        es_answer_free(resumed);
    }
    count_files(false);
    remove(in_folder("depth.run"));
}

/* A stack without a norm whose horizon grows beyond the largest number is reported up to the last
 * layer at which it is finite: no sentence says nan. */
static void a_stack_that_overflows_is_reported_to_its_last_finite_layer(void **state)
{
    (void)state;
    const char *const settings[] = {"synthetic", "yes", "head",       "rotation", "horizon",
                                    "0.6",       "dim", "8",          "norm",     "none",
                                    "depth",     "8",   "replicates", "2",        "reference",
                                    "64",        "n",   "100,200",    NULL};
    es_answer *a = run_study(settings, (es_study_opts){.seed = 0}, ES_OK);
    const es_table *t = es_answer_find(a, "growth");
    char layers[32];
    int64_t last = 8;
    assert_true(isnan(es_table_get(t, last, "horizon_exact")));
    while (isnan(es_table_get(t, last, "horizon_exact")))
        last--;
    snprintf(layers, sizeof layers, " in %d layers", (int)last);
    assert_non_null(strstr(es_answer_finding(a, 0), layers));
    assert_null(strstr(es_answer_finding(a, 0), "nan"));
    es_answer_free(a);
}

/* The memory that a dry run foresees is enough. */
static void the_memory_foreseen_is_enough(void **state)
{
    (void)state;
    const char *const of_model[] = {"model",        folder, "text", text_path(), "policy",
                                    "random,heavy", "keys", "8",    "blocks",    "4",
                                    "length",       "40",   NULL};
    const char *const of_stack[] = {"synthetic", "yes",   "n",    "50,100,800", "replicates",
                                    "4",         "depth", "2",    "horizon",    "0.3",
                                    "reference", "512",   "norm", "both",       NULL};
    const char *const *settings[] = {of_model, of_stack};
    for (int i = 0; i < 2; i++) {
        es_mem_limit budget = {0};
        es_study_opts opts = {.seed = 9, .exec = {.threads = 2, .budget = &budget}};
        opts.dry_run = true;
        es_answer *a = run_study(settings[i], opts, ES_OK);
        const double bound = es_table_get(es_answer_find(a, "cost"), 0, "memory_bytes");
        es_answer_free(a);
        budget = (es_mem_limit){0};
        opts.dry_run = false;
        opts.max_memory = (size_t)bound;
        es_answer_free(run_study(settings[i], opts, ES_OK));
        assert_int_equal(budget.used, 0);
        assert_at_most((double)budget.peak, bound);
    }
}

static void refuse(const char *const *settings, const char *rule)
{
    run_study(settings, (es_study_opts){.seed = 1}, ES_E_ARGUMENT);
    assert_string_equal(err.rule, rule);
}

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    const char *text = text_path();
    refuse((const char *const[]){NULL}, "depth.options");
    refuse((const char *const[]){"model", folder, NULL}, "depth.options");
    refuse((const char *const[]){"synthetic", "yes", "keys", "3", NULL}, "depth.options");
    refuse((const char *const[]){"model", folder, "text", text, "n", "100", NULL}, "depth.options");
    refuse((const char *const[]){"model", folder, "text", text, "policy", "topp", NULL},
           "policy.name");
    refuse((const char *const[]){"model", folder, "text", text, "policy", "top,top", NULL},
           "policy.repeated");
    refuse(
        (const char *const[]){"model", folder, "text", text, "policy", "top", "window", "3", NULL},
        "policy.part");
    refuse((const char *const[]){"model", folder, "text", text, "layer", "3", NULL}, "depth.layer");
    refuse((const char *const[]){"model", folder, "text", text, "length", "41", NULL},
           "depth.length");
    refuse((const char *const[]){"model", folder, "text", text, "length", "7", NULL},
           "policy.keys"); /* an eighth of which is none */
}

TEST_FILE(depth)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_has_no_error),
        cmocka_unit_test(gains_of_norms_are_projections),
        cmocka_unit_test(decoders_count_the_second_half),
        cmocka_unit_test(one_layer_alone),
        cmocka_unit_test(covariances_are_the_recursion),
        cmocka_unit_test(the_first_error_is_the_theorem),
        cmocka_unit_test(sets_stand_for_the_limit),
        cmocka_unit_test(a_norm_keeps_the_length),
        cmocka_unit_test(growth_beyond_measure_has_no_numbers),
        cmocka_unit_test(rows_are_the_recursion),
        cmocka_unit_test(findings_are_numbers),
        cmocka_unit_test(findings_are_those_of_the_rows),
        cmocka_unit_test(variants_have_names),
        cmocka_unit_test(a_norm_stops_what_grows),
        cmocka_unit_test(same_answer_on_threads_and_after_a_stop),
        cmocka_unit_test(a_stack_that_overflows_is_reported_to_its_last_finite_layer),
        cmocka_unit_test(the_memory_foreseen_is_enough),
        cmocka_unit_test(what_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
