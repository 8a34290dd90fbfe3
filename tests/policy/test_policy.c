/* SPDX-License-Identifier: Apache-2.0 */
/* test_policy.c : the sets that policies keep, against their definitions, key by key. */
#include "testing.h"

#include <esscher/policy.h>

#include "numbers.h"
#include "policy/policy.h"

/* ---- helpers ---- */

enum { N = 61 };

static es_policy_spec spec_of(const char *name)
{
    es_policy_spec spec;
    es_policy_spec_init(&spec, es_policy_find(name));
    assert_non_null(spec.policy);
    return spec;
}

/* Numbers for every need, with ties, and a query over them. */
typedef struct seen {
    double scores[N], reach[N], history[N], observed[N];
    es_policy_query query;
} seen;

static const seen *see(int64_t n, int64_t position, bool causal)
{
    static seen s;
    state_of_rng = 20261115;
    for (int64_t j = 0; j < N; j++) {
        s.scores[j] = floor(4.0 * normal()) / 4.0;
        s.reach[j] = 0.5 + uniform();
        s.history[j] = floor(8.0 * uniform());
        s.observed[j] = floor(8.0 * uniform());
    }
    s.query = (es_policy_query){.n = n,
                                .position = position,
                                .causal = causal,
                                .scores = s.scores,
                                .reach = s.reach,
                                .history = s.history,
                                .observed = s.observed};
    return &s;
}

static es_choice choice; /* used again from test to test: old contents must not matter */

static const es_choice *choose(const es_policy_spec *spec, const es_policy_query *query)
{
    assert_ok(es_policy_choose(spec, query, NULL, &choice, &err));
    assert_int_equal(choice.n, query->n);
    for (int64_t i = 1; i < choice.sure_count; i++)
        assert_below(choice.sure[i - 1], choice.sure[i]);
    for (int64_t i = 1; i < choice.rest_count; i++)
        assert_below(choice.rest[i - 1], choice.rest[i]);
    return &choice;
}

static bool among(const int64_t *keys, int64_t count, int64_t key)
{
    for (int64_t i = 0; i < count; i++)
        if (keys[i] == key)
            return true;
    return false;
}

/* How many of n are better than key, or as good and before it; keys with skip[] do not count. */
static int64_t rank_of(const double *by, const bool *skip, int64_t n, int64_t key)
{
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++)
        before += !skip[j] && (by[j] > by[key] || (by[j] == by[key] && j < key));
    return before;
}

static bool in_window(const es_policy_query *q, int64_t window, int64_t key)
{
    if (q->position < 0)
        return false;
    return q->causal ? key <= q->position && key > q->position - window
                     : key >= q->position - window && key <= q->position + window;
}

/* Exactly the keys of expected[] are sure; and all others are left to chance, or none. */
static void check_sets(const es_choice *c, const bool *expected, bool chance)
{
    int64_t sure = 0;
    for (int64_t j = 0; j < c->n; j++) {
        sure += expected[j];
        if (among(c->sure, c->sure_count, j) != expected[j])
            fail_msg("key %lld: expected %d", (long long)j, (int)expected[j]);
        assert_int_equal(among(c->rest, c->rest_count, j), chance && !expected[j]);
    }
    assert_int_equal(c->sure_count, sure);
}

/* Queries at both ends and in between; n is what they may see. */
typedef struct place {
    int64_t n, position;
    bool causal;
} place;
static const place places[] = {{N, 0, false},    {N, 30, false}, {N, N - 1, false}, {N, -1, false},
                               {N, N - 1, true}, {40, 39, true}, {N, -1, true}};
enum { PLACES = sizeof places / sizeof *places };

static const es_policy_query *query_at(int i)
{
    return &see(places[i].n, places[i].position, places[i].causal)->query;
}

/* ---- the table ---- */

/* Names of the literature find the same policy, and no name means two. */
static void literature_names_are_aliases(void **state)
{
    (void)state;
    static const struct {
        const char *alias, *name;
    } known[] = {{"h2o", "heavy"}, {"snapkv", "observe"}, {"streamingllm", "stream"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_non_null(es_policy_find(known[i].name));
        assert_ptr_equal(es_policy_find(known[i].alias), es_policy_find(known[i].name));
        assert_string_equal(es_policy_alias(es_policy_find(known[i].name)), known[i].alias);
    }
    assert_null(es_policy_alias(es_policy_find("top")));
    for (int64_t i = 0; es_policy_at(i); i++) {
        assert_ptr_equal(es_policy_find(es_policy_name(es_policy_at(i))), es_policy_at(i));
        if (es_policy_alias(es_policy_at(i)))
            assert_ptr_equal(es_policy_find(es_policy_alias(es_policy_at(i))), es_policy_at(i));
    }
}

/* The names that help lists are those of the rows. */
static void help_lists_the_rows(void **state)
{
    (void)state;
    char list[512] = "";
    for (int64_t i = 0; es_policy_at(i); i++) {
        const char *alias = es_policy_alias(es_policy_at(i));
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, alias ? "%s%s (%s)" : "%s%s", i ? ", " : "",
                 es_policy_name(es_policy_at(i)), alias);
    }
    assert_string_equal(ES_POLICY_LIST, list);
}

static void every_policy_has_a_name_and_is_found_by_it(void **state)
{
    (void)state;
    static const char *const names[] = {
        "full",       "random", "retention", "window",  "stream", "bigbird",   "longformer", "top",
        "top-random", "heavy",  "observe",   "strided", "local",  "linformer", "limit"};
    for (int64_t i = 0; i < 15; i++) {
        assert_string_equal(es_policy_name(es_policy_at(i)), names[i]);
        assert_ptr_equal(es_policy_find(names[i]), es_policy_at(i));
    }
    assert_null(es_policy_at(15));
    assert_null(es_policy_at(-1));
    assert_null(es_policy_find(NULL));
    assert_false(es_policy_deployable(es_policy_find("top")));
    assert_false(es_policy_deployable(es_policy_find("limit")));
    assert_true(es_policy_deployable(es_policy_find("heavy")));
}

/* ---- sets ---- */

static void windows_and_sinks(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "stream", "longformer"};
    for (int i = 0; i < PLACES; i++) {
        for (int which = 0; which < 3; which++) {
            es_policy_spec spec = spec_of(names[which]);
            const es_policy_query *q = query_at(i);
            const int64_t sinks = which == 0 ? 0 : which == 1 ? 4 : 1;
            for (int64_t keys = 5; keys < q->n; keys += 7) { /* the convention of golden/sparse */
                bool expected[N];
                spec.keys = keys;
                const int64_t W = q->causal ? keys - sinks : (keys - sinks) / 2;
                for (int64_t j = 0; j < q->n; j++)
                    expected[j] = j < sinks || in_window(q, W, j);
                check_sets(choose(&spec, q), expected, false);
                assert_int_equal(choice.chance, ES_CHANCE_NONE);
            }
        }
    }
}

static void given_parts_are_kept_as_given(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        es_policy_spec spec = spec_of("bigbird");
        bool expected[N];
        spec.window = 6;
        spec.sinks = 3;
        spec.random = 5;
        for (int64_t j = 0; j < q->n; j++)
            expected[j] = j < 3 || in_window(q, 6, j);
        const es_choice *c = choose(&spec, q);
        check_sets(c, expected, true);
        assert_int_equal(c->chance, ES_CHANCE_WITHOUT);
        assert_int_equal(c->draws, 5);
        assert_equals(c->factor, 1.0); /* as published */
        spec.correction = ES_CORRECTION_INVERSE;
        spec.with_replacement = true;
        c = choose(&spec, q);
        assert_int_equal(c->chance, ES_CHANCE_WITH);
        assert_near(c->factor, (double)(q->n - c->sure_count) / 5.0, 0.0);
        assert_near(es_choice_keys(c), (double)c->sure_count + 5.0, 0.0);
        spec.policy = es_policy_find("random"); /* keys that are left when others are given */
        spec.random = ES_POLICY_UNSET;
        spec.keys = 30;
        c = choose(&spec, q);
        check_sets(c, expected, true);
        assert_int_equal(c->draws, 30 - c->sure_count);
    }
}

static void bigbird_keeps_as_many_as_it_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        es_policy_spec spec = spec_of("bigbird");
        for (int64_t keys = 1; keys < q->n; keys++) {
            spec.keys = keys;
            const es_choice *c = choose(&spec, q);
            const int64_t sinks = keys < 4 ? keys : 4, half = (keys - sinks) / 2;
            bool expected[N];
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = j < sinks || in_window(q, q->causal ? half : half / 2, j);
            check_sets(c, expected, c->draws > 0);
            /* a query that sees both sides always sees itself */
            assert_true(c->sure_count + c->draws == keys ||
                        (c->draws == 0 && c->sure_count <= keys + 1));
        }
    }
}

static void random_and_retention(void **state)
{
    (void)state;
    const bool none[N] = {false};
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        es_policy_spec spec = spec_of("random");
        spec.keys = 12;
        const es_choice *c = choose(&spec, q);
        check_sets(c, none, true);
        assert_int_equal(c->draws, 12);
        assert_int_equal(c->chance, ES_CHANCE_WITHOUT);
        spec = spec_of("retention");
        spec.random = 12;
        spec.sinks = 0;
        spec.correction = ES_CORRECTION_INVERSE;
        c = choose(&spec, q);
        check_sets(c, none, true);
        assert_int_equal(c->chance, ES_CHANCE_EACH);
        for (int64_t j = 0; j < c->rest_count; j++) {
            assert_near(c->kept[j], 12.0 / (double)q->n, 1e-15);
            assert_near(c->factors[j], (double)q->n / 12.0, 1e-14);
        }
        assert_near(es_choice_keys(c), 12.0, 1e-13);
    }
}

static void top_keys_and_ties(void **state)
{
    (void)state;
    const bool nobody[N] = {false};
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t keys = 1; keys < q->n; keys += 4) {
            es_policy_spec spec = spec_of("top");
            bool expected[N];
            spec.keys = keys;
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = rank_of(q->scores, nobody, q->n, j) < keys;
            check_sets(choose(&spec, q), expected, false);
            spec.policy = es_policy_find("top-random");
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = rank_of(q->scores, nobody, q->n, j) < keys / 2;
            const es_choice *c = choose(&spec, q);
            check_sets(c, expected, true);
            assert_int_equal(c->draws, keys - keys / 2);
            assert_near(c->factor, (double)c->rest_count / (double)c->draws, 0.0);
            spec.correction = ES_CORRECTION_NONE;
            assert_equals(choose(&spec, q)->factor, 1.0);
        }
    }
}

/* Scores as they come, rising, falling, sawteeth, and nearly all the same: a key is kept if fewer
 * than m are better. */
static void top_keys_of_every_order(void **state)
{
    (void)state;
    enum { MANY = 700 };
    static double scores[MANY];
    es_policy_spec spec = spec_of("top");
    state_of_rng = 17;
    for (int shape = 0; shape < 5; shape++) {
        for (int64_t n = 30; n <= MANY; n += 67) {
            for (int64_t j = 0; j < n; j++)
                scores[j] = shape == 0   ? normal()
                            : shape == 1 ? (double)j
                            : shape == 2 ? -(double)j
                            : shape == 3 ? (double)(j % 23 * (j % 2 ? 1 : -1))
                                         : floor(1.05 * uniform());
            const es_policy_query query = {.n = n, .position = -1, .scores = scores};
            for (spec.keys = 1; spec.keys < n; spec.keys += 1 + spec.keys / 2) {
                const es_choice *c = choose(&spec, &query);
                assert_int_equal(c->sure_count, spec.keys);
                for (int64_t i = 0; i < c->sure_count; i++) {
                    int64_t better = 0;
                    for (int64_t j = 0; j < n; j++)
                        better += scores[j] > scores[c->sure[i]] ||
                                  (scores[j] == scores[c->sure[i]] && j < c->sure[i]);
                    assert_below(better, spec.keys);
                }
            }
        }
    }
}

static void heavy_hitters(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t keys = 2; keys < q->n; keys += 5) {
            es_policy_spec spec = spec_of("heavy");
            bool window[N], expected[N];
            int64_t near = 0;
            spec.keys = keys;
            for (int64_t j = 0; j < q->n; j++)
                near += window[j] = in_window(q, q->causal ? keys / 2 : keys / 2 / 2, j);
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = window[j] || rank_of(q->history, window, q->n, j) < keys - near;
            check_sets(choose(&spec, q), expected, false);
        }
    }
}

/* The largest that key j or one of three neighbours on either side had, of those not in `window`.
 */
static void pool(const double *observed, const bool *window, int64_t n, double *out)
{
    for (int64_t j = 0; j < n; j++) {
        out[j] = -1.0;
        for (int64_t i = j - 3; i <= j + 3; i++)
            if (i >= 0 && i < n && !window[i])
                out[j] = fmax(out[j], observed[i]);
    }
}

static void observed_keys(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t keys = 6; keys < q->n; keys += 9) {
            es_policy_spec spec = spec_of("observe");
            bool window[N], expected[N];
            double pooled[N];
            int64_t near = 0;
            spec.keys = keys;
            spec.span = 8;
            const int64_t span = keys < 8 ? keys : 8;
            for (int64_t j = 0; j < q->n; j++)
                near += window[j] = in_window(q, q->causal ? span : span / 2, j);
            pool(q->observed, window, q->n, pooled);
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = window[j] || rank_of(pooled, window, q->n, j) < keys - near;
            check_sets(choose(&spec, q), expected, false);
        }
    }
}

static void strides_and_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t s = 1; s < 20; s++) {
            bool expected[N];
            es_policy_spec spec = spec_of("strided");
            spec.span = s;
            for (int64_t j = 0; j < q->n; j++) {
                const int64_t off = q->position < 0 ? j : llabs(q->position - j);
                expected[j] = off % s == 0 || in_window(q, q->causal ? s : s / 2, j);
            }
            check_sets(choose(&spec, q), expected, false);
            spec = spec_of("local");
            spec.span = s;
            for (int64_t j = 0; j < q->n; j++)
                expected[j] = q->position >= 0 && j / s == q->position / s;
            check_sets(choose(&spec, q), expected, false);
        }
        for (int64_t keys = 2; keys < q->n; keys++) {
            es_policy_spec spec = spec_of("strided");
            spec.keys = keys;
            const es_choice *c = choose(&spec, q);
            assert_at_most(c->sure_count, keys + 1); /* a query that sees both sides sees itself */
            if (q->position >= 0)
                assert_at_least(c->sure_count, keys / 4);
        }
    }
}

/* Probabilities proportional to w|u| below 1, 1/p as factors, and `keys` on average. */
static void the_limit_keeps_what_matters(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t keys = 1; keys < q->n; keys += 3) {
            es_policy_spec spec = spec_of("limit");
            double a[N], tau = 0.0;
            spec.keys = keys;
            const es_choice *c = choose(&spec, q);
            for (int64_t j = 0; j < q->n; j++)
                a[j] = exp(q->scores[j]) * q->reach[j];
            assert_near(es_choice_keys(c), (double)keys, 1e-12 * (double)keys);
            assert_int_equal(c->sure_count + c->rest_count, q->n);
            for (int64_t k = 0; k < c->rest_count; k++) {
                tau = k == 0 ? c->kept[0] / a[c->rest[0]] : tau;
                assert_close(c->kept[k], tau * a[c->rest[k]], 1e-12);
                assert_at_most(c->kept[k], 1.0);
                assert_above(c->kept[k], 0.0);
                assert_close(c->factors[k], 1.0 / c->kept[k], 1e-15);
            }
            for (int64_t k = 0; k < c->sure_count; k++)
                assert_at_least(tau * a[c->sure[k]], 1.0 - 1e-12);
        }
    }
}

static void the_limit_where_nothing_matters(void **state)
{
    (void)state;
    es_policy_spec spec = spec_of("limit");
    seen s = *see(N, 3, false);
    s.query.scores = s.scores;
    s.query.reach = s.reach;
    for (int64_t j = 0; j < N; j++)
        s.reach[j] = j == 7 ? 1.0 : 0.0;
    spec.keys = 5;
    const es_choice *c = choose(&spec, &s.query); /* key 7, and what has weight */
    assert_int_equal(c->chance, ES_CHANCE_NONE);
    assert_int_equal(c->sure_count, 5);
    assert_true(among(c->sure, 5, 7));
    s.scores[3] = s.scores[11] = -(double)INFINITY; /* no weight */
    for (int64_t j = 0; j < N; j++)
        s.reach[j] = 1.0;
    c = choose(&spec, &s.query);
    assert_false(among(c->rest, c->rest_count, 3));
    assert_near(es_choice_keys(c), 5.0, 1e-12);
}

/* What counts keys counts on this: with parts that fit nobody keeps more than he was given,
 * wherever the query stands; and as many, where the ends of the context are far from what is kept.
 */
static void nobody_keeps_more_than_he_was_given(void **state)
{
    (void)state;
    static const char *const fill[] = {"random", "retention", "top",   "top-random",
                                       "heavy",  "observe",   "limit", "bigbird"};
    static const char *const near[] = {"stream", "longformer"};
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t which = 1; es_policy_at(which); which++)
            for (int64_t keys = 1; keys < q->n; keys++) {
                es_policy_spec spec;
                es_policy_spec_init(&spec, es_policy_at(which));
                spec.keys = keys;
                es_policy_spec_fit(&spec, q->causal);
                if (!(es_policy_inputs(spec.policy) & ES_POLICY_MEASURED))
                    assert_at_most(es_choice_keys(choose(&spec, q)), (double)keys + 1e-9);
            }
        for (size_t which = 0; which < sizeof fill / sizeof *fill; which++)
            for (int64_t keys = 1; keys < q->n; keys++) {
                es_policy_spec spec = spec_of(fill[which]);
                spec.keys = keys;
                es_policy_spec_fit(&spec, q->causal);
                assert_near(es_choice_keys(choose(&spec, q)), (double)keys, 1e-9);
            }
    }
    for (int which = 0; which < 2; which++)
        for (int64_t keys = 1; keys < N / 2; keys++) {
            es_policy_spec spec = spec_of(near[which]);
            spec.keys = keys;
            es_policy_spec_fit(&spec, false);
            assert_int_equal(choose(&spec, &see(N, 30, false)->query)->sure_count, keys);
        }
    es_policy_spec spec = spec_of("stream"); /* what is given stays */
    spec.keys = 24;
    spec.sinks = 4;
    es_policy_spec_fit(&spec, false);
    assert_equals(spec.sinks, 4);
    assert_equals(spec.window, 9);
    spec.window = 5;
    es_policy_spec_fit(&spec, false);
    assert_int_equal(spec.window, 5);
}

/* ---- specs that say everything ---- */

/* The parts that a policy has and a spec leaves unset. */
static unsigned unset_parts(const es_policy_spec *spec)
{
    const struct {
        unsigned part;
        int64_t value;
    } parts[] = {{ES_PART_WINDOW, spec->window}, {ES_PART_SINKS, spec->sinks},
                 {ES_PART_RANDOM, spec->random}, {ES_PART_SPAN, spec->span},
                 {ES_PART_POOL, spec->pool},     {ES_PART_CORRECTION, spec->correction - 1}};
    unsigned unset = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (es_policy_parts(spec->policy) & parts[i].part && parts[i].value == -1)
            unset |= parts[i].part;
    return unset;
}

/* What depends on the query, and on no default (policy.h). */
static unsigned open_parts(const es_policy *policy)
{
    const char *name = es_policy_name(policy);
    if (strcmp(name, "random") == 0 || strcmp(name, "retention") == 0)
        return ES_PART_WINDOW | ES_PART_RANDOM;
    if (strcmp(name, "strided") == 0)
        return ES_PART_WINDOW | ES_PART_SPAN;
    return strcmp(name, "bigbird") == 0 ? ES_PART_RANDOM : 0;
}

static void assert_same_choice(const es_choice *a, const es_choice *b)
{
    assert_equals(a->sure_count, b->sure_count);
    assert_equals(a->rest_count, b->rest_count);
    assert_equals(a->chance, b->chance);
    assert_memory_equal(a->sure, b->sure, (size_t)a->sure_count * sizeof *a->sure);
    assert_memory_equal(a->rest, b->rest, (size_t)a->rest_count * sizeof *a->rest);
    if (a->chance == ES_CHANCE_WITH || a->chance == ES_CHANCE_WITHOUT) {
        assert_equals(a->draws, b->draws);
        assert_equals(a->factor, b->factor);
    }
    for (int64_t i = 0; a->chance == ES_CHANCE_EACH && i < a->rest_count; i++) {
        assert_equals(a->kept[i], b->kept[i]);
        assert_equals(a->factors[i], b->factors[i]);
    }
}

/* Of a causal query a fitted spec keeps what the policy keeps by its defaults; a second fit changes
 * nothing; and no number is left that a default could change. */
static void fitted_specs_leave_nothing_to_defaults(void **state)
{
    (void)state;
    es_choice other = {0};
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t which = 1; es_policy_at(which); which++)
            for (int64_t keys = 1; keys < q->n; keys++) {
                es_policy_spec bare, fitted, again;
                es_policy_spec_init(&bare, es_policy_at(which));
                if (es_policy_inputs(bare.policy) & ES_POLICY_MEASURED)
                    continue;
                bare.keys = keys;
                fitted = bare;
                es_policy_spec_fit(&fitted, q->causal);
                again = fitted;
                es_policy_spec_fit(&again, q->causal);
                assert_true(es_policy_spec_same(&fitted, &again));
                assert_ok(es_policy_spec_check(&fitted, q->causal, &err));
                assert_int_equal(unset_parts(&fitted), open_parts(fitted.policy));
                if (!q->causal)
                    continue; /* windows are made to fit there, on purpose */
                assert_ok(es_policy_choose(&bare, q, NULL, &other, &err));
                assert_same_choice(choose(&fitted, q), &other);
            }
    }
    es_choice_free(&other);
}

/* With pool 0 a key is judged by its own weight alone. */
static void pool_says_how_many_neighbours_count(void **state)
{
    (void)state;
    const es_policy_query *q = &see(N, N - 1, true)->query;
    for (int64_t pool = 0; pool < 5; pool++) {
        es_policy_spec spec = spec_of("observe");
        bool near[N], kept[N];
        double most[N];
        spec.keys = 20;
        spec.span = 8;
        spec.pool = pool;
        for (int64_t j = 0; j < N; j++) {
            near[j] = j >= N - 8;
            most[j] = 0.0;
            for (int64_t k = 0; k < N - 8; k++)
                if (k >= j - pool && k <= j + pool)
                    most[j] = fmax(most[j], q->observed[k]);
        }
        for (int64_t j = 0; j < N; j++)
            kept[j] = near[j] || rank_of(most, near, N, j) < 12;
        check_sets(choose(&spec, q), kept, false);
    }
    es_policy_spec spec = spec_of("observe");
    spec.keys = 20;
    spec.pool = ES_POLICY_MOST_POOL + 1;
    assert_int_equal(es_policy_spec_check(&spec, true, &err), ES_E_RANGE);
    spec = spec_of("heavy");
    spec.keys = 20;
    spec.pool = 1;
    assert_int_equal(es_policy_spec_check(&spec, true, &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "policy.part");
}

static void all_keys_are_all_keys(void **state)
{
    (void)state;
    bool all[N];
    memset(all, 1, sizeof all);
    for (int i = 0; i < PLACES; i++) {
        const es_policy_query *q = query_at(i);
        for (int64_t which = 0; es_policy_at(which); which++) {
            es_policy_spec spec;
            es_policy_spec_init(&spec, es_policy_at(which));
            if (es_policy_inputs(spec.policy) & ES_POLICY_MEASURED)
                continue;
            for (spec.keys = q->n; spec.keys < q->n + 2; spec.keys++) {
                check_sets(choose(&spec, q), all, false);
                assert_int_equal(choice.chance, ES_CHANCE_NONE);
            }
        }
    }
    es_policy_spec spec = spec_of("bigbird"); /* more draws than there are keys to draw */
    spec.random = 200;
    check_sets(choose(&spec, query_at(0)), all, false);
    spec.policy = NULL; /* full */
    spec.random = ES_POLICY_UNSET;
    check_sets(choose(&spec, query_at(0)), all, false);
}

/* n draws with replacement are n draws: they miss some keys and meet others twice. */
static void as_many_draws_as_keys_are_still_draws(void **state)
{
    (void)state;
    const es_policy_query *q = &see(N, 30, false)->query;
    es_policy_spec spec = spec_of("random");
    spec.with_replacement = true;
    for (spec.keys = N; spec.keys < 4 * N; spec.keys += N) {
        const es_choice *c = choose(&spec, q);
        assert_int_equal(c->chance, ES_CHANCE_WITH);
        assert_int_equal(c->draws, spec.keys);
        assert_int_equal(c->rest_count, N);
        assert_int_equal(c->sure_count, 0);
    }
}

static void one_key_is_enough_to_ask(void **state)
{
    (void)state;
    for (int64_t which = 0; es_policy_at(which); which++) {
        es_policy_spec spec;
        es_policy_spec_init(&spec, es_policy_at(which));
        spec.keys = 1;
        if (es_policy_inputs(spec.policy) & ES_POLICY_MEASURED)
            continue;
        assert_int_equal(choose(&spec, &see(1, 0, true)->query)->sure_count, 1);
        assert_int_equal(choose(&spec, &see(1, -1, false)->query)->sure_count, 1);
    }
}

/* ---- refusals ---- */

static void refused(const es_policy_spec *spec, bool causal, es_status code, const char *rule)
{
    es_choice c = {0};
    const es_policy_query *q = &see(N, N - 1, causal)->query;
    assert_int_equal(es_policy_spec_check(spec, causal, &err), code);
    assert_string_equal(err.rule, rule);
    assert_int_equal(es_policy_choose(spec, q, NULL, &c, &err), code);
    assert_string_equal(err.rule, rule);
    es_choice_free(&c);
}

static void PL02_numbers_of_keys_that_make_no_sense(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, -2, -7, ((int64_t)1 << 40) + 1, INT64_MAX, INT64_MIN};
    for (int64_t which = 0; es_policy_at(which); which++) {
        es_policy_spec spec;
        es_policy_spec_init(&spec, es_policy_at(which));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            spec.keys = bad[i];
            refused(&spec, false, ES_E_RANGE, "policy.keys");
        }
        spec.keys = ES_POLICY_UNSET; /* nobody says how many */
        if (which > 0)
            refused(&spec, false, ES_E_RANGE, "policy.keys");
    }
    es_policy_spec spec = spec_of("bigbird");
    spec.keys = 8;
    spec.window = -3;
    refused(&spec, false, ES_E_RANGE, "policy.keys");
    spec.window = 2;
    spec.random = INT64_MAX;
    refused(&spec, true, ES_E_RANGE, "policy.keys");
    spec = spec_of("local");
    spec.span = 0;
    refused(&spec, false, ES_E_RANGE, "policy.keys");
    assert_null(es_policy_find("bigbrid")); /* no policy of that name */
    assert_null(es_policy_find(""));
}

static void draws_with_replacement_have_a_bound(void **state)
{
    (void)state;
    es_policy_spec spec = spec_of("random");
    spec.with_replacement = true;
    spec.random = ES_POLICY_MOST_DRAWS;
    assert_ok(es_policy_spec_check(&spec, false, &err));
    spec.random++;
    refused(&spec, false, ES_E_RANGE, "policy.keys");
}

static void PL04_no_policy_sees_the_future(void **state)
{
    (void)state;
    es_policy_spec spec = spec_of("linformer");
    spec.keys = 8;
    refused(&spec, true, ES_E_UNSUPPORTED, "policy.causal");
    assert_ok(es_policy_spec_check(&spec, false, &err));
    es_choice c = {0};
    assert_int_equal(es_policy_choose(&spec, &see(N, 1, false)->query, NULL, &c, &err),
                     ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "policy.measured");
    es_policy_query ahead = see(N, N - 1, true)->query;
    ahead.position = 5; /* but could see beyond */
    spec = spec_of("window");
    spec.window = 3;
    assert_int_equal(es_policy_choose(&spec, &ahead, NULL, &c, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "policy.query");
    for (int64_t which = 0; es_policy_at(which); which++) { /* nobody keeps more than there is */
        es_policy_spec_init(&spec, es_policy_at(which));
        spec.keys = 9;
        if (es_policy_inputs(spec.policy) & ES_POLICY_FUTURE)
            continue;
        const es_choice *kept = choose(&spec, &see(40, 39, true)->query);
        if (kept->sure_count != 0)
            assert_below(kept->sure[kept->sure_count - 1], 40);
        if (kept->rest_count != 0)
            assert_below(kept->rest[kept->rest_count - 1], 40);
    }
}

static void parts_that_a_policy_does_not_have(void **state)
{
    (void)state;
    es_policy_spec spec = spec_of("top");
    spec.keys = 3;
    spec.window = 3;
    refused(&spec, false, ES_E_ARGUMENT, "policy.part");
    spec = spec_of("window");
    spec.window = 3;
    spec.sinks = 2;
    refused(&spec, false, ES_E_ARGUMENT, "policy.part");
    spec.sinks = ES_POLICY_UNSET;
    spec.correction = ES_CORRECTION_INVERSE;
    refused(&spec, false, ES_E_ARGUMENT, "policy.part");
    spec = spec_of("retention");
    spec.random = 3;
    spec.with_replacement = true;
    refused(&spec, false, ES_E_ARGUMENT, "policy.part");
    spec.with_replacement = false;
    spec.correction = (es_correction)9;
    refused(&spec, false, ES_E_ARGUMENT, "policy.part");
}

static void queries_that_lack_something(void **state)
{
    (void)state;
    static const char *const names[] = {"top", "limit", "heavy", "observe"};
    for (int i = 0; i < 4; i++) {
        es_policy_spec spec = spec_of(names[i]);
        seen s = *see(N, 3, false);
        es_policy_query bare = s.query;
        es_choice c = {0};
        spec.keys = 4;
        bare.scores = bare.reach = bare.history = bare.observed = NULL;
        assert_int_equal(es_policy_choose(&spec, &bare, NULL, &c, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "policy.needs");
        s.scores[5] = s.history[5] = s.observed[5] = (double)NAN;
        s.query.scores = s.scores;
        s.query.history = s.history;
        s.query.observed = s.observed;
        assert_int_equal(es_policy_choose(&spec, &s.query, NULL, &c, &err), ES_E_NONFINITE);
        es_choice_free(&c);
    }
    es_policy_query q = see(N, N, false)->query;
    es_policy_spec spec = spec_of("full");
    es_choice c = {0};
    assert_int_equal(es_policy_choose(&spec, &q, NULL, &c, &err), ES_E_RANGE);
    q.n = 0;
    q.position = -1;
    assert_int_equal(es_policy_choose(&spec, &q, NULL, &c, &err), ES_E_RANGE);
    assert_int_equal(es_policy_choose(&spec, NULL, NULL, &c, &err), ES_E_ARGUMENT);
}

static void memory_is_counted_and_given_back(void **state)
{
    (void)state;
    es_mem_limit budget = {.limit = 100};
    es_choice c = {0};
    es_policy_spec spec = spec_of("full");
    const es_policy_query *q = &see(N, 3, false)->query;
    assert_int_equal(es_policy_choose(&spec, q, &budget, &c, &err), ES_E_LIMIT);
    es_choice_free(&c);
    assert_int_equal(budget.used, 0);
    budget.limit = 1 << 16;
    assert_ok(es_policy_choose(&spec, q, &budget, &c, &err));
    assert_above(budget.used, 0);
    es_choice_free(&c);
    assert_int_equal(budget.used, 0);
}

static int free_choice(void **state)
{
    (void)state;
    es_choice_free(&choice);
    return 0;
}

TEST_FILE(policy)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_lists_the_rows),
        cmocka_unit_test(every_policy_has_a_name_and_is_found_by_it),
        cmocka_unit_test(literature_names_are_aliases),
        cmocka_unit_test(windows_and_sinks),
        cmocka_unit_test(given_parts_are_kept_as_given),
        cmocka_unit_test(bigbird_keeps_as_many_as_it_is_told),
        cmocka_unit_test(random_and_retention),
        cmocka_unit_test(top_keys_and_ties),
        cmocka_unit_test(top_keys_of_every_order),
        cmocka_unit_test(heavy_hitters),
        cmocka_unit_test(observed_keys),
        cmocka_unit_test(strides_and_blocks),
        cmocka_unit_test(the_limit_keeps_what_matters),
        cmocka_unit_test(the_limit_where_nothing_matters),
        cmocka_unit_test(nobody_keeps_more_than_he_was_given),
        cmocka_unit_test(fitted_specs_leave_nothing_to_defaults),
        cmocka_unit_test(pool_says_how_many_neighbours_count),
        cmocka_unit_test(all_keys_are_all_keys),
        cmocka_unit_test(as_many_draws_as_keys_are_still_draws),
        cmocka_unit_test(one_key_is_enough_to_ask),
        cmocka_unit_test(PL02_numbers_of_keys_that_make_no_sense),
        cmocka_unit_test(draws_with_replacement_have_a_bound),
        cmocka_unit_test(PL04_no_policy_sees_the_future),
        cmocka_unit_test(parts_that_a_policy_does_not_have),
        cmocka_unit_test(queries_that_lack_something),
        cmocka_unit_test(memory_is_counted_and_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, free_choice);
}
