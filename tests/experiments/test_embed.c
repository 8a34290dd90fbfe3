/* SPDX-License-Identifier: Apache-2.0 */
/* Points in the plane: principal components, t-SNE and how far it can be trusted, each against its
 * definition in plain loops. */
#include "testing.h"

#include <esscher/random.h>

#include "experiments/picture/embed.h"
#include "experiments/picture/tsne.h"
#include "linalg/linalg.h"

enum { GROUPS = 6, EACH = 25, N = GROUPS * EACH, D = 7 };

/* Groups of points around centres 10 apart from 0, each with standard deviation 1 in D dimensions:
 * between two there are at least 10 standard deviations of a coordinate. */
static void draw_groups(double *x)
{
    const es_address at = {.seed = 11, .cell = 3};
    assert_ok(es_normal_rows(&at, N, D, x, &err));
    for (int i = 0; i < N; i++)
        x[i * D + i % GROUPS] += 10.0;
}

static void draw_cloud(int64_t n, int64_t d, uint64_t cell, double *x)
{
    const es_address at = {.seed = 12, .cell = cell};
    assert_ok(es_normal_rows(&at, n, d, x, &err));
}

static void start_of(const es_view *x, double *start)
{
    es_principal p = {.scores = start};
    assert_ok(es_principal_find(x, 2, NULL, &p, &err));
}

/* ---- principal components ---- */

/* Axes are unit eigenvectors of the covariance, scores the rows along them, variances those of the
 * scores, all by plain sums. */
static void principal_components_are_eigenvectors_of_the_covariance(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    static double x[N * D], cov[D * D], mean[D];
    double axes[COUNT * D], variances[COUNT], scores[N * COUNT];
    es_principal p = {axes, variances, scores, 0.0};
    draw_groups(x);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            x[i * D + j] *= 1.0 + j; /* variances that differ */
    const es_view view = es_view_f64(x, N, D);
    assert_ok(es_principal_find(&view, COUNT, NULL, &p, &err));
    for (int j = 0; j < D; j++)
        for (int i = 0; i < N; i++)
            mean[j] += x[i * D + j] / N;
    double trace = 0.0;
    for (int j = 0; j < D; j++)
        for (int l = 0; l < D; l++)
            for (int i = 0; i < N; i++)
                cov[j * D + l] += (x[i * D + j] - mean[j]) * (x[i * D + l] - mean[l]) / N;
    for (int j = 0; j < D; j++)
        trace += cov[j * (D + 1)];
    assert_close(p.total, trace, 1e-12);
    for (int a = 0; a < COUNT; a++) {
        double most = 0.0;
        for (int j = 0; j < D; j++) {
            double image = 0.0;
            for (int l = 0; l < D; l++)
                image += cov[j * D + l] * axes[a * D + l];
            assert_near(image, variances[a] * axes[a * D + j], 1e-12 * trace);
            if (fabs(axes[a * D + j]) > fabs(most))
                most = axes[a * D + j];
        }
        assert_above(most, 0.0);
        if (a != 0)
            assert_at_most(variances[a], variances[a - 1]);
        for (int b = 0; b < COUNT; b++) {
            double product = 0.0, both = 0.0;
            for (int j = 0; j < D; j++)
                product += axes[a * D + j] * axes[b * D + j];
            for (int i = 0; i < N; i++)
                both += scores[i * COUNT + a] * scores[i * COUNT + b] / N;
            assert_near(product, a == b, 1e-12);
            assert_near(both, a == b ? variances[a] : 0.0, 1e-11 * trace);
        }
    }
}

/* Points on a line, in a space of more dimensions: one component has everything. */
static void points_on_a_line_have_one_component(void **state)
{
    (void)state;
    static double x[N * D], scores[2 * N];
    double axes[2 * D], variances[2];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            x[i * D + j] =
                3.0 - (i - 20.0) * (j + 1.0); /* along -(1, 2, ...): the last is largest */
    const es_view view = es_view_f64(x, N, D);
    es_principal p = {axes, variances, scores, 0.0};
    assert_ok(es_principal_find(&view, 2, NULL, &p, &err));
    const double length = sqrt(D * (D + 1.0) * (2.0 * D + 1.0) / 6.0);
    for (int j = 0; j < D; j++)
        assert_near(axes[j], (j + 1.0) / length, 1e-12);
    for (int i = 0; i < N; i++) {
        assert_near(scores[2 * i], -(i - 0.5 * (N - 1)) * length, 1e-9);
        assert_near(scores[2 * i + 1], 0.0, 1e-9);
    }
    assert_close(variances[0], p.total, 1e-12);
    assert_at_least(variances[1], 0.0);
    assert_below(variances[1], 1e-12 * p.total);
    assert_int_equal(es_principal_find(&view, D + 1, NULL, &p, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "principal.count");
}

/* ---- laws of neighbours ---- */

/* p from its definition for one pair of rows, b by a finer bisection of our own. */
static void plain_law(const double *x, int64_t n, int64_t d, int64_t i, double perplexity,
                      double *p)
{
    double low = 1e-12, high = 1e12;
    for (int step = 0; step < 300; step++) {
        const double b = sqrt(low * high);
        double sum = 0.0, entropy = 0.0;
        for (int64_t j = 0; j < n; j++) {
            double distance = 0.0;
            for (int64_t c = 0; c < d; c++)
                distance += pow(x[i * d + c] - x[j * d + c], 2.0);
            p[j] = j == i ? 0.0 : exp(-b * distance);
            sum += p[j];
        }
        for (int64_t j = 0; j < n; j++) {
            p[j] = sum > 0.0 ? p[j] / sum : 0.0;
            entropy -= p[j] > 0.0 ? p[j] * log(p[j]) : 0.0;
        }
        *(entropy > log(perplexity) ? &low : &high) = b;
    }
}

static void affinities_have_the_perplexity_that_was_asked_for(void **state)
{
    (void)state;
    static double x[N * D], law[N * N];
    static const double perplexities[] = {2.0, 12.5, 30.0, 140.0};
    draw_groups(x);
    const es_view view = es_view_f64(x, N, D);
    for (int k = 0; k < 4; k++) {
        es_tsne t;
        es_tsne_facts facts;
        double sum = 0.0;
        assert_ok(es_tsne_new(N, NULL, &t, &err));
        assert_ok(es_tsne_affinities(&t, &view, perplexities[k], &facts, &err));
        assert_below(facts.perplexity_off, 1e-8);
        assert_int_equal(facts.tied, 0);
        for (int i = 0; i < N; i++)
            plain_law(x, N, D, i, perplexities[k], law + i * N);
        for (int i = 0; i < N; i++) {
            double entropy = 0.0;
            for (int j = 0; j < N; j++) {
                const double p = (law[i * N + j] + law[j * N + i]) / (2.0 * N);
                /* where the law is nearly uniform its entropy, known to 1e-9, says little about b
                 */
                assert_near(t.p[i * t.stride + j], p, 1e-5 * p + 1e-15);
                sum += t.p[i * t.stride + j];
                entropy -= law[i * N + j] > 0.0 ? law[i * N + j] * log(law[i * N + j]) : 0.0;
            }
            assert_close(exp(entropy), perplexities[k], 1e-5);
        }
        assert_near(sum, 1.0, 1e-12);
        es_tsne_free(&t);
    }
}

/* Points with `most` or more nearest neighbours at one distance, by comparing rows. */
static int64_t tied_points(const double *x, int most)
{
    int64_t count = 0;
    for (int i = 0; i < N; i++) {
        double least = HUGE_VAL;
        int ties = 0;
        for (int j = 0; j < N; j++) {
            double d = 0.0;
            for (int c = 0; c < D; c++)
                d += (x[i * D + c] - x[j * D + c]) * (x[i * D + c] - x[j * D + c]);
            ties = i == j || d > least ? ties : d < least ? 1 : ties + 1;
            least = i == j ? least : fmin(least, d);
        }
        count += ties >= most;
    }
    return count;
}

/* Forty points in one place cannot have a perplexity of 5: their law is uniform over each other;
 * and so is that of those few to whom this place is nearest. */
static void points_in_one_place_are_counted_and_stay_together(void **state)
{
    (void)state;
    enum { SAME = 40 };
    static double x[N * D], start[2 * N], y[2 * N];
    es_tsne_facts facts;
    draw_cloud(N, D, 1, x);
    for (int i = 1; i < SAME; i++)
        memcpy(x + i * D, x, D * sizeof *x);
    const es_view view = es_view_f64(x, N, D);
    start_of(&view, start);
    const es_tsne_opts opts = {.perplexity = 5.0, .steps = 100};
    assert_ok(es_tsne_embed(&view, start, &opts, NULL, y, &facts, &err));
    assert_at_least(facts.tied, SAME);
    assert_below(facts.tied, SAME + 10);
    assert_int_equal(facts.tied, tied_points(x, 5));
    assert_below(facts.perplexity_off, 1e-8);
    for (int i = 1; i < SAME; i++) /* rows differ in the order of their sums alone */
        assert_near(hypot(y[2 * i] - y[0], y[2 * i + 1] - y[1]), 0.0, 1e-9);
    assert_finite(facts.divergence);
    memset(x, 0, sizeof x); /* all of them: nothing to show, and no failure */
    start_of(&view, start);
    assert_ok(es_tsne_embed(&view, start, &opts, NULL, y, &facts, &err));
    assert_int_equal(facts.tied, N);
    for (int i = 0; i < 2 * N; i++)
        assert_equals(y[i], 0.0);
}

/* Numbers of any size have the same picture: laws of neighbours have no unit. */
static void the_unit_of_length_does_not_matter(void **state)
{
    (void)state;
    static double x[N * D], start[2 * N], y[2][2 * N];
    es_tsne_facts facts;
    const es_tsne_opts opts = {.perplexity = 20.0, .steps = 60};
    draw_groups(x);
    for (int turn = 0; turn < 2; turn++) {
        const es_view view = es_view_f64(x, N, D);
        if (turn == 0)
            start_of(&view, start);
        assert_ok(es_tsne_embed(&view, start, &opts, NULL, y[turn], &facts, &err));
        for (int i = 0; i < N * D; i++)
            x[i] *= 0x1p520; /* its square is no number; a power of two loses no bit */
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* ---- the gradient ---- */

static double divergence_at(es_tsne *t)
{
    double out;
    assert_ok(es_tsne_divergence(t, &out, &err));
    return out;
}

/* KL(p|q) from its definition, in plain loops over all pairs. */
static double plain_divergence(const es_tsne *t)
{
    double z = 0.0, sum = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < t->n; i++)
            for (int64_t j = 0; j < t->n; j++) {
                const double w =
                    1.0 / (1.0 + pow(t->x[i] - t->x[j], 2.0) + pow(t->y[i] - t->y[j], 2.0));
                const double p = t->p[i * t->stride + j];
                if (i != j && pass == 0)
                    z += w;
                if (i != j && pass == 1 && p > 0.0)
                    sum += p * log(p * z / w);
            }
    return sum;
}

static void the_gradient_is_that_of_the_divergence(void **state)
{
    (void)state;
    static double x[N * D], plane[2 * N];
    es_tsne_facts facts;
    es_tsne t;
    double z;
    draw_groups(x);
    draw_cloud(N, 2, 2, plane);
    const es_view view = es_view_f64(x, N - 1, D); /* no multiple of the lanes */
    assert_ok(es_tsne_new(N - 1, NULL, &t, &err));
    assert_ok(es_tsne_affinities(&t, &view, 20.0, &facts, &err));
    for (int i = 0; i < N - 1; i++) {
        t.x[i] = 3.0 * plane[2 * i];
        t.y[i] = 3.0 * plane[2 * i + 1];
    }
    assert_close(divergence_at(&t), plain_divergence(&t), 1e-12);
    for (int i = 0; i < N - 1; i += 7)
        for (int axis = 0; axis < 2; axis++) {
            double *place = axis ? &t.y[i] : &t.x[i], at = *place, h = 1e-4;
            assert_ok(es_tsne_forces(&t, &z, &err));
            const double slope = 4.0 * (t.pull[2 * i + axis] - t.push[2 * i + axis] / z);
            *place = at + h;
            const double above = divergence_at(&t);
            *place = at - h;
            const double below = divergence_at(&t);
            *place = at;
            /* a difference errs by h^2/6 of the third derivative, below 1 for such points, and by
             * the rounding of both values over 2h */
            assert_near(slope, (above - below) / (2.0 * h), 1e-8);
        }
    es_tsne_free(&t);
}

/* ---- the picture ---- */

/* Share of points whose nearest neighbour in the plane is of their own group. */
static double purity(const double *y)
{
    int own = 0;
    for (int i = 0; i < N; i++) {
        int best = -1;
        double least = HUGE_VAL;
        for (int j = 0; j < N; j++) {
            const double d = hypot(y[2 * i] - y[2 * j], y[2 * i + 1] - y[2 * j + 1]);
            if (j != i && d < least) {
                least = d;
                best = j;
            }
        }
        own += best % GROUPS == i % GROUPS;
    }
    return (double)own / N;
}

static void groups_far_apart_are_apart_in_the_plane(void **state)
{
    (void)state;
    static double x[N * D], start[2 * N], y[2 * N];
    es_tsne_facts facts;
    es_trust trust;
    const es_tsne_opts opts = {.perplexity = 15.0, .steps = 400};
    draw_groups(x);
    const es_view view = es_view_f64(x, N, D);
    start_of(&view, start);
    assert_ok(es_tsne_embed(&view, start, &opts, NULL, y, &facts, &err));
    assert_equals(purity(y), 1.0);
    /* six groups in two components overlap: the picture does better than its start */
    assert_below(purity(start), 1.0);
    assert_ok(es_embed_trust(&view, y, 10, NULL, &trust, &err));
    assert_above(trust.trustworthiness, 0.95);
    assert_between(facts.divergence, 0.0, 1.0);
}

/* Descent has ended: from there another thousand steps gain little, and the slope is small beside
 * that of the start. */
static void more_steps_find_no_lower_place(void **state)
{
    (void)state;
    static double x[N * D], start[2 * N], y[2 * N];
    es_tsne_facts first, once, twice;
    draw_groups(x);
    const es_view view = es_view_f64(x, N, D);
    start_of(&view, start);
    assert_ok(es_tsne_embed(&view, start, &(es_tsne_opts){20.0, 1}, NULL, y, &first, &err));
    assert_ok(es_tsne_embed(&view, start, &(es_tsne_opts){20.0, 1000}, NULL, y, &once, &err));
    assert_ok(es_tsne_embed(&view, start, &(es_tsne_opts){20.0, 2000}, NULL, y, &twice, &err));
    assert_below(once.divergence, first.divergence);
    assert_near(once.divergence, twice.divergence, 0.02);
    assert_below(once.slope, 0.01);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static double x[N * D], start[2 * N], y[2][2 * N];
    es_trust trust[2];
    es_tsne_facts facts[2] = {0};
    const es_tsne_opts opts = {.perplexity = 20.0, .steps = 120};
    draw_groups(x);
    const es_view view = es_view_f64(x, N, D);
    start_of(&view, start);
    for (int turn = 0; turn < 2; turn++) {
        const es_exec exec = {.threads = turn ? 5 : 1};
        assert_ok(es_tsne_embed(&view, start, &opts, &exec, y[turn], &facts[turn], &err));
        assert_ok(es_embed_trust(&view, y[turn], 7, &exec, &trust[turn], &err));
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(&facts[0], &facts[1], sizeof facts[0]);
    assert_memory_equal(&trust[0], &trust[1], sizeof trust[0]);
}

/* ---- trust ---- */

static int rank_of(const double *x, int n, int d, int i, int j)
{
    int rank = 1;
    double to_j = 0.0;
    for (int c = 0; c < d; c++)
        to_j += (x[i * d + c] - x[j * d + c]) * (x[i * d + c] - x[j * d + c]);
    for (int l = 0; l < n; l++) {
        double to_l = 0.0;
        for (int c = 0; c < d; c++)
            to_l += (x[i * d + c] - x[l * d + c]) * (x[i * d + c] - x[l * d + c]);
        rank += l != i && (to_l < to_j || (to_l == to_j && l < j));
    }
    return rank;
}

static double plain_trust(const double *x, int d, const double *y, int e, int n, int k)
{
    double lost = 0.0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (j != i && rank_of(y, n, e, i, j) <= k && rank_of(x, n, d, i, j) > k)
                lost += rank_of(x, n, d, i, j) - k;
    return 1.0 - 2.0 * lost / ((double)n * k * (2.0 * n - 3.0 * k - 1.0));
}

static void trust_is_what_it_is_defined_as(void **state)
{
    (void)state;
    enum { FEW = 60 };
    static double x[FEW * D], y[2 * FEW];
    static const int neighbours[] = {1, 5, 12, 29};
    es_trust trust;
    draw_cloud(FEW, D, 4, x);
    for (int i = 0; i < FEW; i++)
        for (int c = 0; c < 2; c++)
            y[2 * i + c] = round(4.0 * x[i * D + c]); /* many equal distances */
    const es_view view = es_view_f64(x, FEW, D), plane = es_view_f64(y, FEW, 2);
    for (int k = 0; k < 4; k++) {
        assert_ok(es_embed_trust(&view, y, neighbours[k], NULL, &trust, &err));
        assert_near(trust.trustworthiness, plain_trust(x, D, y, 2, FEW, neighbours[k]), 1e-12);
        assert_near(trust.continuity, plain_trust(y, 2, x, D, FEW, neighbours[k]), 1e-12);
    }
    assert_ok(es_embed_trust(&plane, y, 12, NULL, &trust, &err));
    assert_equals(trust.trustworthiness, 1.0);
    assert_equals(trust.continuity, 1.0);
    assert_int_equal(es_embed_trust(&view, y, FEW / 2, NULL, &trust, &err), ES_E_RANGE);
}

/* ---- refusals, memory, interruption ---- */

static bool stop_soon(void *user, double done, double total)
{
    int *calls = user;
    assert_at_most(done, total);
    return ++*calls == 3;
}

static void what_cannot_be_shown_is_refused(void **state)
{
    (void)state;
    static double x[N * D], start[2 * N], y[2 * N];
    es_tsne_facts facts;
    int calls = 0;
    draw_groups(x);
    es_view view = es_view_f64(x, N, D);
    const es_tsne_opts wide = {.perplexity = N - 1};
    assert_int_equal(es_tsne_embed(&view, start, &wide, NULL, y, &facts, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "tsne.perplexity");
    assert_int_equal(
        es_tsne_embed(&view, start, &(es_tsne_opts){.steps = -1}, NULL, y, &facts, &err),
        ES_E_RANGE);
    view.rows = ES_TSNE_MOST + 1; /* refused before it is looked at */
    assert_int_equal(es_tsne_embed(&view, start, NULL, NULL, y, &facts, &err), ES_E_SHAPE);
    view.rows = N;
    es_mem_limit budget = {.limit = 8 * N * N};
    const es_exec poor = {.budget = &budget};
    assert_int_equal(es_tsne_embed(&view, start, NULL, &poor, y, &facts, &err), ES_E_LIMIT);
    assert_int_equal(budget.used, 0);
    budget = (es_mem_limit){.limit = (size_t)es_tsne_bytes(N, D)}; /* what it says is enough */
    assert_ok(es_tsne_embed(&view, start, &(es_tsne_opts){.steps = 4}, &poor, y, &facts, &err));
    assert_int_equal(budget.used, 0);
    const es_exec impatient = {.progress = stop_soon, .progress_user = &calls};
    assert_int_equal(es_tsne_embed(&view, start, NULL, &impatient, y, &facts, &err),
                     ES_E_INTERRUPTED);
    assert_int_equal(calls, 3);
    x[17] = (double)NAN;
    assert_int_equal(es_tsne_embed(&view, start, NULL, NULL, y, &facts, &err), ES_E_NONFINITE);
}

TEST_FILE(embed)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(principal_components_are_eigenvectors_of_the_covariance),
        cmocka_unit_test(points_on_a_line_have_one_component),
        cmocka_unit_test(affinities_have_the_perplexity_that_was_asked_for),
        cmocka_unit_test(points_in_one_place_are_counted_and_stay_together),
        cmocka_unit_test(the_unit_of_length_does_not_matter),
        cmocka_unit_test(the_gradient_is_that_of_the_divergence),
        cmocka_unit_test(groups_far_apart_are_apart_in_the_plane),
        cmocka_unit_test(more_steps_find_no_lower_place),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(trust_is_what_it_is_defined_as),
        cmocka_unit_test(what_cannot_be_shown_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
