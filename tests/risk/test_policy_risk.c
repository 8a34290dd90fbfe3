/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy_risk.c : exact risks of choices, against all outcomes one by one, closed forms, and
 * outcomes drawn. test_policy_risk_golden.c has other programs' values. */
#include "risk_checks.h"

#include "numbers.h"
#include "risk/draw_risk.h"
#include "risk/policy_risk.h"

/* ---- helpers ---- */

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

/* |risk - expected| within what it claims, and a claim that is worth something. */
static void assert_claim(const es_num *risk, double expected, double relative)
{
    assert_near(risk->val, expected, risk->err + 1e-13 * fabs(expected));
    assert_near(risk->val, expected, relative * fabs(expected) + 1e-300);
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
        assert_below(risk.bias2, 1e-20 * exact);
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

/* Kept keys whose weights among all keys are no numbers (e^-2000) have weights among each other; an
 * output over them is what attention gives that sees no others. */
static void sure_keys_may_be_light(void **state)
{
    (void)state;
    static const double scores[4] = {0.0, -2000.0, -2001.0, -(double)INFINITY};
    static const double values[4] = {1.0, 2.0, 4.0, 9.0};
    es_risk_query query = query_of(scores, values, 4, 1);
    int64_t keys[3] = {1, 2, 3};
    const es_choice c = {.n = 4, .sure_count = 3, .sure = keys, .factor = 1.0};
    const es_policy_risk risk = risk_of(&query, &c);
    const double w = 1.0 / (1.0 + exp(-1.0)), off = w * 2.0 + (1.0 - w) * 4.0 - 1.0;
    assert_claim(&risk.square, off * off, 1e-14);
    assert_equals(risk.mass, 0.0);
    assert_equals(risk.empty, 0.0);
    assert_equals(risk.variance, 0.0);
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
        if (es_policy_inputs(spec.policy) & ES_POLICY_MEASURED)
            continue;
        assert_ok(es_policy_choose(&spec, &q, NULL, &choice, &err));
        const es_policy_risk risk = risk_of(&query, &choice);
        assert_equals(risk.square.val, 0.0);
        assert_equals(risk.bias2, 0.0);
        assert_near(risk.mass, 1.0, 1e-15);
        assert_ok(es_policy_limit(&query, 30.0, NULL, &limit, NULL, &err));
        assert_equals(limit, 0.0);
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
        assert_at_least(least, limit * (1.0 - 1e-12));
    }
    es_risk_query_free(&query, NULL);
    free(scores);
    free(values);
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
    es_mem_limit small = {.limit = 64};
    keys[0] = 0;
    c.draws = 1;
    assert_int_equal(es_policy_risk_of(&query, &c, &small, &risk, &err), ES_E_LIMIT);
    assert_int_equal(small.used, 0);
    es_risk_query_free(&query, NULL);
}

TEST_FILE(policy_risk)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_of_few_keys_is_counted),
        cmocka_unit_test(weights_of_every_size),
        cmocka_unit_test(values_of_every_size),
        cmocka_unit_test(factors_of_every_size),
        cmocka_unit_test(equal_weights_are_a_mean),
        cmocka_unit_test(two_kinds_are_hypergeometric),
        cmocka_unit_test(draws_agree_with_draw_risk),
        cmocka_unit_test(a_hair_is_not_rounding),
        cmocka_unit_test(sure_keys_may_be_light),
        cmocka_unit_test(all_keys_have_no_risk),
        cmocka_unit_test(the_limit_is_the_least_to_first_order),
        cmocka_unit_test(outcomes_have_this_error),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_choice);
}
