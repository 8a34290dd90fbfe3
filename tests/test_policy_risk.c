/* test_policy_risk.c : exact risks of choices, against other programs' values, all outcomes one by
 * one, closed forms, and outcomes drawn. */
#include "testing.h"

#include <esscher/draw_risk.h>
#include <esscher/npy.h>
#include <esscher/policy_risk.h>

#include "golden.h"
#include "numbers.h"

/* ---- helpers ---- */

static es_choice choice;

static es_policy_spec spec_of(const char *name, int64_t keys)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    spec.keys = keys;
    return spec;
}

/* Weights and u of the last query_of(), if it is small, with more digits than the library has: sums
 * over kept keys lose what sums over the others keep. */
enum { FEW = 16 };
static long double true_w[FEW], true_u[FEW][4];

static void remember(const double *scores, const double *values, int64_t n, int64_t dv)
{
    long double total = 0.0L, y[4] = {0.0L};
    double top = scores[0];
    for (int64_t j = 0; j < n; j++)
        top = fmax(top, scores[j]);
    for (int64_t j = 0; j < n; j++)
        total += true_w[j] = expl((long double)scores[j] - top);
    for (int64_t j = 0; j < n; j++) {
        true_w[j] /= total;
        for (int64_t l = 0; l < dv; l++)
            y[l] += true_w[j] * values[j * dv + l];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < dv; l++)
            true_u[j][l] = values[j * dv + l] - y[l];
}

static es_risk_query query_of(const double *scores, const double *values, int64_t n, int64_t dv)
{
    if (n <= FEW && dv <= 4)
        remember(scores, values, n, dv);
    const es_view view = es_view_f64(values, n, dv);
    es_risk_query q;
    assert_ok(es_risk_query_new(scores, n, &view, NULL, &q, &err));
    return q;
}

static es_policy_risk risk_of(const es_risk_query *q, const es_choice *c)
{
    es_policy_risk risk;
    assert_ok(es_policy_risk_of(q, c, NULL, &risk, &err));
    assert_true(risk.square.err >= 0.0 && isfinite(risk.square.val));
    assert_near(risk.bias2 + risk.variance, risk.square.val, 1e-15 * risk.square.val);
    assert_true(risk.variance >= 0.0);
    return risk;
}

/* |risk - expected| within what it claims, and a claim that is worth something. */
static void assert_claim(const es_num *risk, double expected, double relative)
{
    assert_near(risk->val, expected, risk->err + 1e-13 * fabs(expected));
    assert_near(risk->val, expected, relative * fabs(expected) + 1e-300);
}

/* ---- golden/sparse ---- */

typedef struct golden_set {
    es_array q, k, v;
    es_view Q, K, V;
    json_t *all;
    double *scores;
} golden_set;

static golden_set open_golden(void)
{
    golden_set g;
    g.all = golden_file("sparse/expected.json");
    assert_ok(es_npy_load(golden_path("sparse/q.npy"), NULL, &g.q, &err));
    assert_ok(es_npy_load(golden_path("sparse/k.npy"), NULL, &g.k, &err));
    assert_ok(es_npy_load(golden_path("sparse/v.npy"), NULL, &g.v, &err));
    assert_ok(es_array_view(&g.q, 0, &g.Q, &err));
    assert_ok(es_array_view(&g.k, 0, &g.K, &err));
    assert_ok(es_array_view(&g.v, 0, &g.V, &err));
    g.scores = malloc((size_t)g.K.rows * sizeof *g.scores);
    return g;
}

static void close_golden(golden_set *g)
{
    es_array_free(&g->q);
    es_array_free(&g->k);
    es_array_free(&g->v);
    json_decref(g->all);
    free(g->scores);
}

static es_risk_query golden_query(golden_set *g, int64_t query, double scale, int64_t n)
{
    es_risk_query q;
    for (int64_t j = 0; j < n; j++) {
        g->scores[j] = 0.0;
        for (int64_t l = 0; l < g->K.cols; l++)
            g->scores[j] += scale * es_view_get(&g->Q, query, l) * es_view_get(&g->K, j, l);
    }
    const es_view values = es_view_rows(&g->V, 0, n);
    assert_ok(es_risk_query_new(g->scores, n, &values, NULL, &q, &err));
    return q;
}

static double named(const json_t *row, const char *form, int64_t m)
{
    char name[64];
    snprintf(name, sizeof name, form, (int)m);
    return golden_real(row, name);
}

/* The integrals of another program, of 4000 nodes. */
static void golden_integrals(void **state)
{
    (void)state;
    golden_set g = open_golden();
    const json_t *exact = json_object_get(g.all, "exact");
    int with = 0, alone = 0;
    for (size_t i = 0; i < json_array_size(exact); i++) {
        const json_t *row = json_array_get(exact, i);
        const bool window = !json_is_null(json_object_get(row, "position"));
        es_policy_query q = {.n = g.K.rows, .position = -1};
        es_policy_spec spec = spec_of("random", ES_POLICY_UNSET);
        es_risk_query query = golden_query(&g, (int64_t)golden_real(row, "query"),
                                           golden_real(row, "scale"), g.K.rows);
        if (window) {
            q.position = (int64_t)golden_real(row, "position");
            spec.sinks = (int64_t)golden_real(row, "sinks");
            spec.window = (int64_t)golden_real(row, "window");
        }
        spec.random = (int64_t)golden_real(row, "random");
        spec.with_replacement = true;
        spec.correction =
            golden_real(row, "correction") == 1.0 ? ES_CORRECTION_NONE : ES_CORRECTION_INVERSE;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        assert_near(choice.factor, golden_real(row, "correction"), 1e-12);
        assert_close(risk_of(&query, &choice).square.val, golden_real(row, "with_replacement"),
                     1e-9);
        with++;
        if (json_object_get(row, "bernoulli")) {
            spec.policy = es_policy_find("retention");
            spec.with_replacement = false;
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            assert_close(risk_of(&query, &choice).square.val, golden_real(row, "bernoulli"), 1e-9);
            alone++;
        }
        es_risk_query_free(&query, NULL);
    }
    assert_int_equal(with, 72);
    assert_int_equal(alone, 48);
    close_golden(&g);
}

/* Deterministic policies, first-order forms, the limit; one query, full or causal. */
static void check_golden_row(const json_t *row, const es_risk_query *query, es_policy_query *q)
{
    static const int64_t sizes[] = {8, 32, 96};
    const int64_t n = q->n;
    double limit;
    assert_close(query->spread2, golden_real(row, "spread2"), 1e-9);
    for (int64_t l = 0; l < query->dv; l++)
        assert_near(query->output[l],
                    json_number_value(json_array_get(json_object_get(row, "output"), (size_t)l)),
                    1e-9);
    assert_ok(es_policy_limit(query, 0.5, NULL, &limit, NULL, &err)); /* no key is sure */
    double squares = 0.0;
    for (int64_t j = 0; j < n; j++)
        squares += query->weights[j] * query->weights[j] * query->reach[j] * query->reach[j];
    assert_close(0.5 * (limit + squares), golden_real(row, "optimal"), 1e-9);
    for (int i = 0; i < 3; i++) {
        const int64_t m = sizes[i];
        es_policy_spec spec = spec_of("top", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        const es_policy_risk top = risk_of(query, &choice);
        assert_close(top.square.val, named(row, "top_%d", m), 1e-9);
        assert_close(top.mass, named(row, "top_%d_mass", m), 1e-9);
        assert_true(isnan(top.first_order) && top.bias2 == top.square.val);
        spec = spec_of("stream", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_int_equal(choice.sure_count, (int64_t)named(row, "window_%d_kept", m));
        assert_close(risk_of(query, &choice).square.val, named(row, "window_%d", m), 1e-9);
        spec = spec_of("top-random", m);
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_close(risk_of(query, &choice).first_order, named(row, "top_random_%d", m), 1e-9);
        spec = spec_of("random", m);
        spec.with_replacement = true;
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_close(risk_of(query, &choice).first_order * (double)m, golden_real(row, "sampling"),
                     1e-9);
        assert_true(risk_of(query, &choice).keys == (double)m);
    }
}

/* BigBird without replacement, of which the other program drew; z is summed up by the caller. */
static void check_golden_bigbird(const json_t *row, const es_risk_query *query,
                                 const es_policy_query *q, int64_t m, double *z2, int *count)
{
    es_policy_spec spec = spec_of("bigbird", ES_POLICY_UNSET);
    spec.window = q->causal ? m - 4 : (m - 4) / 2;
    spec.random = m;
    for (int corrected = 0; corrected < 2; corrected++) {
        char name[64];
        snprintf(name, sizeof name, "bigbird_%d_%ssimulated", (int)m,
                 corrected ? "corrected_" : "");
        const json_t *drawn = json_object_get(row, name);
        const double mean = json_number_value(json_array_get(drawn, 0));
        const double se = json_number_value(json_array_get(drawn, 1));
        spec.correction = corrected ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
        assert_ok(es_policy_choose(&spec, q, NULL, &choice, &err));
        assert_int_equal(choice.chance, ES_CHANCE_WITHOUT);
        const es_policy_risk risk = risk_of(query, &choice);
        assert_near(risk.square.val, mean, 4.0 * se);
        *z2 += (risk.square.val - mean) * (risk.square.val - mean) / (se * se);
        ++*count;
        if (corrected) {
            assert_close(risk.first_order, named(row, "bigbird_%d_corrected", m), 1e-9);
            continue;
        }
        /* E N and E Z: the first-order bias */
        double z = 0.0, mean2 = 0.0, off = named(row, "bigbird_%d_bias2", m);
        for (int64_t j = 0; j < choice.sure_count; j++)
            z += query->weights[choice.sure[j]];
        const double f = (double)m / (double)choice.rest_count;
        for (int64_t l = 0; l < query->dv; l++) {
            double sum = 0.0;
            for (int64_t j = 0; j < choice.sure_count; j++)
                sum += query->weights[choice.sure[j]] * query->off[choice.sure[j] * query->dv + l] *
                       (1.0 - f);
            mean2 += sum * sum;
        }
        assert_close(mean2 / ((z + f * (1.0 - z)) * (z + f * (1.0 - z))), off, 1e-9);
    }
}

static void golden_policies_full_and_causal(void **state)
{
    (void)state;
    golden_set g = open_golden();
    const json_t *positions = json_object_get(g.all, "positions");
    const double scale = golden_real(g.all, "scale");
    double z2 = 0.0;
    int count = 0;
    for (size_t i = 0; i < json_array_size(positions); i++) {
        const int64_t at = (int64_t)json_integer_value(json_array_get(positions, i));
        for (int causal = 0; causal < 2; causal++) {
            const int64_t n = causal ? at + 1 : g.K.rows;
            const json_t *rows = json_object_get(g.all, causal ? "causal" : "full");
            const json_t *row = json_array_get(rows, i);
            es_risk_query query = golden_query(&g, (int64_t)i, scale, n);
            es_policy_query q = {
                .n = n, .position = at, .causal = causal, .scores = g.scores, .reach = query.reach};
            check_golden_row(row, &query, &q);
            check_golden_bigbird(row, &query, &q, 8, &z2, &count);
            check_golden_bigbird(row, &query, &q, 32, &z2, &count);
            check_golden_bigbird(row, &query, &q, 96, &z2, &count);
            es_risk_query_free(&query, NULL);
        }
    }
    assert_int_equal(count, 240);
    /* All together: the mean square of 240 deviations, in standard errors. Its own error is
     * sqrt(2/240) = .09 were they independent; outcomes of one query are shared by some. */
    print_message("BigBird: %d simulations, mean square deviation %.3f se^2\n", count,
                  z2 / (double)count);
    assert_true(z2 / (double)count < 1.5);
    close_golden(&g);
}

/* ---- all outcomes, one by one ---- */

typedef struct sums {
    double probability, square, mean[4], mass;
} sums; /* of the query that was made last */

/* One outcome: count[i] times key i of R. */
static void add_outcome(const es_risk_query *q, const es_choice *c, const int *count,
                        double probability, sums *s)
{
    long double z = 0.0L, n[4] = {0.0L}, mass = 0.0L;
    for (int64_t i = 0; i < c->sure_count + c->rest_count; i++) {
        const bool sure = i < c->sure_count;
        const int64_t r = i - c->sure_count, j = sure ? c->sure[i] : c->rest[r];
        const double each = !sure && c->chance == ES_CHANCE_EACH ? c->factors[r] : c->factor;
        const long double w = true_w[j] * (sure ? 1.0L : (long double)count[r] * each);
        z += w;
        mass += w > 0.0L ? true_w[j] : 0.0L;
        for (int64_t l = 0; l < q->dv; l++)
            n[l] += w * true_u[j][l];
    }
    s->mass += probability * (double)mass;
    if (!(z > 0.0L))
        return;
    s->probability += probability;
    for (int64_t l = 0; l < q->dv; l++) {
        s->square += probability * (double)(n[l] / z * (n[l] / z));
        s->mean[l] += probability * (double)(n[l] / z);
    }
}

static double choose_of(int n, int m)
{
    double c = 1.0;
    for (int i = 0; i < m; i++)
        c = c * (n - i) / (i + 1);
    return c;
}

/* Sets of keys of R: those of m, all alike, or each key with its own probability. */
static sums all_sets(const es_risk_query *q, const es_choice *c)
{
    sums s = {0};
    const int M = (int)c->rest_count;
    for (int set = 0; set < 1 << M; set++) {
        int count[16];
        double p = 1.0;
        for (int i = 0; i < M; i++) {
            count[i] = set >> i & 1;
            if (c->chance == ES_CHANCE_EACH)
                p *= count[i] ? c->kept[i] : 1.0 - c->kept[i];
        }
        if (c->chance == ES_CHANCE_WITHOUT)
            p = __builtin_popcount((unsigned)set) == c->draws ? 1.0 / choose_of(M, (int)c->draws)
                                                              : 0.0;
        if (p > 0.0)
            add_outcome(q, c, count, p, &s);
    }
    return s;
}

/* Sequences of draws with replacement. */
static sums all_draws(const es_risk_query *q, const es_choice *c)
{
    sums s = {0};
    const int M = (int)c->rest_count;
    int64_t outcomes = 1;
    for (int64_t i = 0; i < c->draws; i++)
        outcomes *= M;
    for (int64_t o = 0; o < outcomes; o++) {
        int count[16] = {0};
        for (int64_t i = 0, left = o; i < c->draws; i++, left /= M)
            count[left % M]++;
        add_outcome(q, c, count, 1.0 / (double)outcomes, &s);
    }
    return s;
}

static void check_all_outcomes(const es_risk_query *q, const es_choice *c, double relative)
{
    const sums s = c->chance == ES_CHANCE_WITH ? all_draws(q, c) : all_sets(q, c);
    const es_policy_risk risk = risk_of(q, c);
    const double square = s.square / s.probability;
    double bias2 = 0.0;
    for (int64_t l = 0; l < q->dv; l++)
        bias2 += s.mean[l] * s.mean[l] / (s.probability * s.probability);
    assert_claim(&risk.square, square, relative);
    assert_near(risk.bias2, bias2, 1e-9 * square);
    assert_near(risk.mass, s.mass, 1e-12);
    assert_near(risk.empty, 1.0 - s.probability, 1e-12);
    assert_near(risk.keys, es_choice_keys(c), 0.0);
}

/* Weights of normal scores times `scale`; all kinds of chance, corrected or not, sure keys or none.
 */
static void check_kinds(const double *scores, const double *values, int64_t n, double relative)
{
    es_risk_query query = query_of(scores, values, n, 4);
    for (int64_t sinks = 0; sinks < 4; sinks += 3) {
        for (int64_t m = 1; m <= n - sinks; m += 1 + (m > 2)) {
            for (int corrected = 0; corrected < 2; corrected++) {
                es_policy_spec spec = spec_of("random", ES_POLICY_UNSET);
                const es_policy_query q = {.n = n, .position = -1};
                spec.sinks = sinks;
                spec.random = m;
                spec.correction = corrected ? ES_CORRECTION_INVERSE : ES_CORRECTION_NONE;
                assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
                if (choice.chance != ES_CHANCE_NONE)
                    check_all_outcomes(&query, &choice, relative);
                spec.with_replacement = true;
                assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
                if (m <= 4)
                    check_all_outcomes(&query, &choice, relative);
                spec.policy = es_policy_find("retention");
                spec.with_replacement = false;
                assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
                if (choice.chance != ES_CHANCE_NONE)
                    check_all_outcomes(&query, &choice, relative);
            }
        }
    }
    es_risk_query_free(&query, NULL);
}

static void every_outcome_of_few_keys_is_counted(void **state)
{
    (void)state;
    state_of_rng = 131;
    for (int64_t n = 2; n <= 12; n += 5) {
        for (int hot = 0; hot < 3; hot++) { /* nearly equal weights to nearly all on one key */
            double *scores = normals(n), *values = normals(4 * n);
            for (int64_t j = 0; j < n; j++)
                scores[j] *= hot == 0 ? 0.1 : hot == 1 ? 2.0 : 12.0;
            check_kinds(scores, values, n, 1e-10);
            free(scores);
            free(values);
        }
    }
}

static void weights_of_every_size(void **state)
{
    (void)state;
    /* 1e-300 and less beside 1; none at all; two keys that share everything */
    static const double all[][9] = {
        {0, -690, -690.5, -691, -600, -1, -300, -691.2, -400},
        {0, -690, -690, -690, -690, -690, -690, -690, -690},
        {0, 0, -700, -(double)INFINITY, -(double)INFINITY, -20, -(double)INFINITY, -40, -60},
        {-690, -690, -690, -690, -690, -690, -690, -690, 0},
        {0, 0, 0, 0, 0, 0, 0, 0, 0}};
    state_of_rng = 77;
    double *values = normals(4 * 9);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_kinds(all[i], values, 9, 1e-9);
    free(values);
}

static void values_of_every_size(void **state)
{
    (void)state;
    static const double sizes[] = {1e-200, 1e-3, 1e140};
    state_of_rng = 5;
    double *scores = normals(9), *values = normals(4 * 9), *scaled = normals(4 * 9);
    const es_policy_query q = {.n = 9, .position = -1};
    es_policy_spec spec = spec_of("bigbird", ES_POLICY_UNSET);
    spec.random = 3;
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    es_risk_query query = query_of(scores, values, 9, 4);
    const es_policy_risk risk = risk_of(&query, &choice);
    es_risk_query_free(&query, NULL);
    for (int i = 0; i < 3; i++) {
        for (int64_t j = 0; j < 4 * 9; j++)
            scaled[j] = sizes[i] * values[j];
        query = query_of(scores, scaled, 9, 4);
        const double other = risk_of(&query, &choice).square.val;
        if (sizes[i] > 1e-100) /* the square of 1e-200 is no number */
            assert_close(other / sizes[i] / sizes[i], risk.square.val, 1e-12);
        es_risk_query_free(&query, NULL);
    }
    free(scores);
    free(values);
    free(scaled);
}

/* p_j and c_j of its own for every key, factors from 1e-250 to 1e250. */
static void factors_of_every_size(void **state)
{
    (void)state;
    enum { N = 10 };
    int64_t sure[1] = {0}, rest[N - 1];
    double kept[N - 1], factors[N - 1];
    state_of_rng = 9;
    double *scores = normals(N), *values = normals(4 * N);
    for (int64_t i = 0; i < N - 1; i++) {
        rest[i] = i + 1;
        kept[i] = i == 3 ? 1.0 : uniform();
        factors[i] = i == 0 ? 1e250 : i == 1 ? 1e-250 : 4.0 * uniform();
    }
    es_risk_query query = query_of(scores, values, N, 4);
    es_choice c = {.n = N,
                   .sure_count = 1,
                   .rest_count = N - 1,
                   .sure = sure,
                   .rest = rest,
                   .chance = ES_CHANCE_EACH,
                   .factor = 1.0,
                   .kept = kept,
                   .factors = factors};
    check_all_outcomes(&query, &c, 1e-9);
    c.sure_count = 0;
    check_all_outcomes(&query, &c, 1e-9);
    kept[3] = 1e-12;
    check_all_outcomes(&query, &c, 1e-9);
    c.sure_count = 1;
    c.draws = 4;
    for (c.chance = ES_CHANCE_WITH; c.chance <= ES_CHANCE_WITHOUT; c.chance++) {
        for (c.factor = 1e-200; c.factor < 1e300; c.factor *= 1e100)
            check_all_outcomes(&query, &c, 1e-9);
        c.factor = 1.0;
    }
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
}

/* ---- closed forms ---- */

/* Equal weights: a mean of m of n values, whose variance everybody knows. */
static void equal_weights_are_a_mean(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{2000, 1}, {2000, 40}, {2000, 1000}, {2000, 1999}, {50, 25}};
    state_of_rng = 3;
    for (int i = 0; i < 5; i++) {
        const int64_t n = sizes[i][0], m = sizes[i][1];
        double *scores = calloc((size_t)n, sizeof *scores), *values = normals(4 * n);
        es_risk_query query = query_of(scores, values, n, 4);
        es_policy_spec spec = spec_of("random", m);
        const es_policy_query q = {.n = n, .position = -1};
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        const es_policy_risk risk = risk_of(&query, &choice);
        const double exact = query.spread2 / (double)m * (double)(n - m) / (double)(n - 1);
        assert_claim(&risk.square, exact, 1e-10);
        assert_close(risk.first_order, exact, 1e-11);
        assert_true(risk.bias2 < 1e-20 * exact);
        spec.with_replacement = true;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        const es_policy_risk with = risk_of(&query, &choice);
        assert_claim(&with.square, query.spread2 / (double)m, 1e-10);
        es_risk_query_free(&query, NULL);
        free(scores);
        free(values);
    }
}

/* Two kinds of keys: the number of one kind among m without replacement is hypergeometric. */
static void two_kinds_are_hypergeometric(void **state)
{
    (void)state;
    enum { N = 3000, KIND = 400, DRAWS = 300 };
    static double scores[N], values[N];
    for (int64_t j = 0; j < N; j++) {
        scores[j] = j < KIND ? 3.0 : 0.0;
        values[j] = j < KIND ? 1.0 : 0.0;
    }
    es_risk_query query = query_of(scores, values, N, 1);
    es_policy_spec spec = spec_of("random", DRAWS);
    const es_policy_query q = {.n = N, .position = -1};
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    const es_policy_risk risk = risk_of(&query, &choice);
    const double w = exp(3.0), y = KIND * w / (KIND * w + (N - KIND));
    double square = 0.0, mean = 0.0;
    for (int k = 0; k <= DRAWS; k++) {
        const double log_p = lgamma(KIND + 1.0) - lgamma(k + 1.0) - lgamma(KIND - k + 1.0) +
                             lgamma(N - KIND + 1.0) - lgamma(DRAWS - k + 1.0) -
                             lgamma(N - KIND - DRAWS + k + 1.0) - lgamma(N + 1.0) +
                             lgamma(DRAWS + 1.0) + lgamma(N - DRAWS + 1.0);
        const double off = k * w / (k * w + (DRAWS - k)) - y;
        square += exp(log_p) * off * off;
        mean += exp(log_p) * off;
    }
    assert_claim(&risk.square, square, 1e-10); /* lgamma's own rounding is 1e-11 here */
    assert_close(risk.bias2, mean * mean, 1e-7);
    es_risk_query_free(&query, NULL);
}

/* Nothing sure and c = 1, with replacement: what draw_risk.h integrates by other means. */
static void draws_agree_with_draw_risk(void **state)
{
    (void)state;
    enum { N = 700 };
    state_of_rng = 41;
    double *scores = normals(N), *values = normals(4 * N);
    for (int64_t j = 0; j < N; j++)
        scores[j] *= 3.0;
    const es_view s = es_view_f64(scores, 1, N), v = es_view_f64(values, N, 4);
    es_risk_query query = query_of(scores, values, N, 4);
    for (int64_t m = 1; m < 3000; m *= 7) {
        es_draw_risk other;
        es_policy_spec spec = spec_of("random", ES_POLICY_UNSET);
        const es_policy_query q = {.n = N, .position = -1};
        spec.random = m;
        spec.with_replacement = true;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        assert_ok(es_draw_risks(&s, ES_DRAW_SCORES, &v, &m, 1, NULL, &other, NULL, &err));
        const es_policy_risk risk = risk_of(&query, &choice);
        assert_near(risk.square.val, other.square.val, risk.square.err + other.square.err);
        assert_near(sqrt(risk.bias2), other.bias, 1e-9 * sqrt(risk.square.val));
    }
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
}

/* A key that has all of the weight, kept: what others do moves the output by 1e-40 of a value. */
static void a_hair_is_not_rounding(void **state)
{
    (void)state;
    static const double scores[4] = {0.0, -92.0, -93.0, -94.0}; /* e^-92 = 1.1e-40 */
    static const double values[4] = {1.0, 2.0, 4.0, -1.0};
    es_risk_query query = query_of(scores, values, 4, 1);
    es_policy_spec spec = spec_of("top", 2);
    es_policy_query q = {.n = 4, .position = -1, .scores = scores};
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    const double lost = exp(-93.0) * 3.0 - exp(-94.0) * 2.0;
    assert_close(risk_of(&query, &choice).square.val, lost * lost, 1e-12);
    spec = spec_of("bigbird", ES_POLICY_UNSET); /* and one of the three at random */
    spec.sinks = 1;
    spec.random = 1;
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    const double all = exp(-92.0) + lost, w[3] = {exp(-92.0), 3.0 * exp(-93.0), -2.0 * exp(-94.0)};
    double square = 0.0;
    for (int i = 0; i < 3; i++)
        square += (all - w[i]) * (all - w[i]) / 3.0;
    assert_close(risk_of(&query, &choice).square.val, square, 1e-9);
    es_risk_query_free(&query, NULL);
}

static void all_keys_have_no_risk(void **state)
{
    (void)state;
    state_of_rng = 8;
    double *scores = normals(30), *values = normals(120);
    es_risk_query query = query_of(scores, values, 30, 4);
    for (int64_t which = 0; es_policy_at(which); which++) {
        const es_policy_query q = {.n = 30,
                                   .position = 3,
                                   .scores = scores,
                                   .reach = query.reach,
                                   .history = query.weights,
                                   .observed = query.weights};
        es_policy_spec spec = spec_of(es_policy_name(es_policy_at(which)), 30);
        double limit = 1.0;
        if (es_policy_needs(spec.policy) & ES_POLICY_MEASURED)
            continue;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        const es_policy_risk risk = risk_of(&query, &choice);
        assert_true(risk.square.val == 0.0 && risk.bias2 == 0.0);
        assert_near(risk.mass, 1.0, 1e-15);
        assert_ok(es_policy_limit(&query, 30.0, NULL, &limit, NULL, &err));
        assert_true(limit == 0.0);
    }
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
}

/* ---- the limit ---- */

/* Its own policy has this risk to first order, and no other probabilities have less. */
static void the_limit_is_the_least_to_first_order(void **state)
{
    (void)state;
    enum { N = 200 };
    state_of_rng = 21;
    double *scores = normals(N), *values = normals(4 * N);
    for (int64_t j = 0; j < N; j++)
        scores[j] *= 2.0;
    es_risk_query query = query_of(scores, values, N, 4);
    const es_policy_query q = {.n = N, .position = -1, .scores = scores, .reach = query.reach};
    for (int64_t m = 3; m < N; m += 28) {
        es_policy_spec spec = spec_of("limit", m);
        double limit, least = (double)INFINITY;
        int64_t sure;
        assert_ok(es_policy_limit(&query, (double)m, NULL, &limit, &sure, &err));
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        assert_int_equal(choice.sure_count, sure);
        assert_close(risk_of(&query, &choice).first_order, limit, 1e-9);
        for (int trial = 0; trial < 200; trial++) { /* move some probability from key to key */
            double other = 0.0;
            const int64_t from = between(0, choice.rest_count - 1);
            const int64_t to = between(0, choice.rest_count - 1);
            const double move = 0.5 * uniform() * fmin(choice.kept[from], 1.0 - choice.kept[to]);
            for (int64_t i = 0; i < choice.rest_count; i++) {
                const int64_t j = choice.rest[i];
                const double a = query.weights[j] * query.reach[j];
                const double p = choice.kept[i] + (i == to ? move : 0.0) - (i == from ? move : 0.0);
                other += a * a * (1.0 / p - 1.0);
            }
            least = fmin(least, other);
        }
        assert_true(least >= limit * (1.0 - 1e-12));
    }
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
}

/* Biased rules may be below it, as top keys are on real weights; so may rules whose keys depend on
 * each other: of values +1 and -1 of equal weight, as many of each have no error at all. */
static void what_the_limit_does_not_say(void **state)
{
    (void)state;
    enum { N = 100 };
    static double scores[N], values[N];
    double limit;
    for (int64_t j = 0; j < N; j++) { /* equal weights, values +1 and -1 */
        scores[j] = 0.0;
        values[j] = j % 2 ? 1.0 : -1.0;
    }
    es_risk_query query = query_of(scores, values, N, 1);
    const es_policy_query q = {.n = N, .position = 50, .scores = scores};
    assert_ok(es_policy_limit(&query, 10.0, NULL, &limit, NULL, &err));
    assert_close(limit, 1.0 / 10.0 - 1.0 / N, 1e-12);
    es_policy_spec spec = spec_of("top", 10); /* the first ten: five of each */
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    assert_near(risk_of(&query, &choice).square.val, 0.0, 1e-30);
    es_risk_query_free(&query, NULL);
    golden_set g = open_golden();
    int below = 0;
    for (int64_t i = 0; i < 20; i++) {
        query = golden_query(&g, i, 0.35, g.K.rows);
        const json_t *row = json_array_get(json_object_get(g.all, "full"), (size_t)i);
        assert_ok(es_policy_limit(&query, 8.0, NULL, &limit, NULL, &err));
        below += named(row, "top_%d", 8) < limit;
        es_risk_query_free(&query, NULL);
    }
    print_message("top keys are below the limit for %d of 20 queries\n", below);
    assert_true(below > 0);
    close_golden(&g);
}

/* ---- draws ---- */

/* Outcomes of es_choice_draw() have this risk, bias and mass. */
static void check_drawn(const es_risk_query *query, const es_choice *c, uint64_t cell)
{
    enum { OUTCOMES = 4000 };
    es_kept kept = {0};
    double square = 0.0, square2 = 0.0, out[4];
    for (uint64_t o = 0; o < OUTCOMES; o++) {
        const es_address at = {.seed = 6, .experiment = 77, .cell = cell * OUTCOMES + o};
        double off = 0.0;
        assert_ok(es_choice_draw(c, &at, &kept, &err));
        assert_ok(es_kept_output(query, &kept, out, &err));
        for (int64_t l = 0; l < query->dv; l++)
            off += (out[l] - query->output[l]) * (out[l] - query->output[l]);
        square += off / OUTCOMES;
        square2 += off * off / OUTCOMES;
    }
    const double se = sqrt((square2 - square * square) / (OUTCOMES - 1));
    assert_near(risk_of(query, c).square.val, square, 4.0 * se);
    es_kept_free(&kept);
}

static void outcomes_have_this_error(void **state)
{
    (void)state;
    enum { N = 300 };
    static const char *const names[] = {"random", "bigbird", "top-random", "retention", "limit"};
    state_of_rng = 60;
    double *scores = normals(N), *values = normals(4 * N);
    for (int64_t j = 0; j < N; j++)
        scores[j] *= 2.0;
    es_risk_query query = query_of(scores, values, N, 4);
    const es_policy_query q = {.n = N, .position = 70, .scores = scores, .reach = query.reach};
    for (uint64_t i = 0; i < 5; i++) {
        es_policy_spec spec = spec_of(names[i], 40);
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        check_drawn(&query, &choice, i);
    }
    es_policy_spec spec = spec_of("top-random", 40);
    spec.with_replacement = true;
    assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
    check_drawn(&query, &choice, 5);
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
}

/* Keys on their own stand in for draws without replacement: a few per cent more (THEORY 13). */
static void retention_is_a_little_worse(void **state)
{
    (void)state;
    golden_set g = open_golden();
    double least = 1.0, most = 0.0;
    for (int64_t i = 0; i < 6; i++) {
        es_risk_query query = golden_query(&g, i, 0.35, g.K.rows);
        const es_policy_query q = {.n = g.K.rows, .position = -1};
        for (int64_t m = 16; m <= 64; m += 48) {
            es_policy_spec spec = spec_of("random", m);
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            const double without = risk_of(&query, &choice).square.val;
            spec.policy = es_policy_find("retention");
            assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
            const double ratio = risk_of(&query, &choice).square.val / without - 1.0;
            least = fmin(least, ratio);
            most = fmax(most, ratio);
        }
        es_risk_query_free(&query, NULL);
    }
    print_message("retention above draws without replacement: %.4f to %.4f\n", least, most);
    assert_true(least > 0.0 && most < 0.08);
    close_golden(&g);
}

/* ---- refusals ---- */

static void nonsense_is_refused(void **state)
{
    (void)state;
    double scores[3] = {0.0, 1.0, -(double)INFINITY}, values[3] = {1.0, 2.0, 3.0}, out;
    es_view view = es_view_f64(values, 3, 1);
    es_risk_query query;
    es_policy_risk risk;
    assert_int_equal(es_risk_query_new(scores, 2, &view, NULL, &query, &err), ES_E_SHAPE);
    assert_int_equal(es_risk_query_new(NULL, 3, &view, NULL, &query, &err), ES_E_ARGUMENT);
    scores[1] = (double)NAN;
    assert_int_equal(es_risk_query_new(scores, 3, &view, NULL, &query, &err), ES_E_NONFINITE);
    scores[0] = scores[1] = scores[2];
    assert_int_equal(es_risk_query_new(scores, 3, &view, NULL, &query, &err), ES_E_EMPTY);
    scores[0] = 0.0;
    values[1] = 1e160;
    assert_int_equal(es_risk_query_new(scores, 3, &view, NULL, &query, &err), ES_E_RANGE);
    values[1] = 2.0;
    query = query_of(scores, values, 3, 1);
    int64_t keys[2] = {1, 2};
    es_choice c = {.n = 3, .sure_count = 2, .sure = keys, .factor = 1.0};
    assert_int_equal(es_policy_risk_of(&query, &c, NULL, &risk, &err), ES_E_EMPTY);
    assert_string_equal(err.rule, "risk.empty");
    c = (es_choice){.n = 3, .rest_count = 2, .rest = keys, .factor = 1.0, .draws = 1};
    for (c.chance = ES_CHANCE_WITH; c.chance <= ES_CHANCE_WITHOUT; c.chance++)
        assert_int_equal(es_policy_risk_of(&query, &c, NULL, &risk, &err), ES_E_EMPTY);
    c.n = 4;
    assert_int_equal(es_policy_risk_of(&query, &c, NULL, &risk, &err), ES_E_SHAPE);
    c.n = 3;
    c.chance = ES_CHANCE_WITHOUT;
    c.draws = 3;
    assert_int_equal(es_policy_risk_of(&query, &c, NULL, &risk, &err), ES_E_ARGUMENT);
    keys[0] = 7;
    assert_int_equal(es_policy_risk_of(&query, &c, NULL, &risk, &err), ES_E_ARGUMENT);
    assert_int_equal(es_policy_limit(&query, 0.0, NULL, &out, NULL, &err), ES_E_RANGE);
    es_kept nothing = {0};
    assert_int_equal(es_kept_output(&query, &nothing, &out, &err), ES_E_EMPTY);
    es_budget small = {.limit = 64};
    keys[0] = 0;
    c.draws = 1;
    assert_int_equal(es_policy_risk_of(&query, &c, &small, &risk, &err), ES_E_LIMIT);
    assert_int_equal(small.used, 0);
    es_risk_query_free(&query, NULL);
}

static int free_choice(void **state)
{
    (void)state;
    es_choice_free(&choice);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_integrals),
        cmocka_unit_test(golden_policies_full_and_causal),
        cmocka_unit_test(every_outcome_of_few_keys_is_counted),
        cmocka_unit_test(weights_of_every_size),
        cmocka_unit_test(values_of_every_size),
        cmocka_unit_test(factors_of_every_size),
        cmocka_unit_test(equal_weights_are_a_mean),
        cmocka_unit_test(two_kinds_are_hypergeometric),
        cmocka_unit_test(draws_agree_with_draw_risk),
        cmocka_unit_test(a_hair_is_not_rounding),
        cmocka_unit_test(all_keys_have_no_risk),
        cmocka_unit_test(the_limit_is_the_least_to_first_order),
        cmocka_unit_test(what_the_limit_does_not_say),
        cmocka_unit_test(outcomes_have_this_error),
        cmocka_unit_test(retention_is_a_little_worse),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_choice);
}
