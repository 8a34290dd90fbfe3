/* SPDX-License-Identifier: Apache-2.0 */
/* test_key_average.c : outputs below the critical scale, for keys with parts and values V, against
 * a grid over the sphere and against keys that are drawn. */
#include "golden.h"
#include "experiments/regimes/regimes.h"
#include "testing.h"

static const es_keys_part mixed[] = {{1.0, 0.0, 1.0}, {2.0, 6.0, 0.3}, {1.0, 3.0, -0.5}};

/* ---- a grid over the sphere in three dimensions ---- */

/* Density at (u, phi), relative to uniform: sum of weights e^{kappa <mu, k>} kappa/sinh kappa. */
static double density(const es_keys *keys, double u, double phi)
{
    double sum = 0.0, all = 0.0;
    for (int64_t j = 0; j < keys->n_parts; j++) {
        const es_keys_part *p = &keys->parts[j];
        const double along =
            p->cosine * u + sqrt(1.0 - p->cosine * p->cosine) * sqrt(1.0 - u * u) * cos(phi);
        sum +=
            p->weight * (p->kappa > 0.0 ? p->kappa / sinh(p->kappa) : 1.0) * exp(p->kappa * along);
        all += p->weight;
    }
    return keys->n_parts ? sum / all : 1.0;
}

typedef struct sums {
    double z1, z2, m1[3], m2[3], c2[9]; /* of e^{beta u} and e^{2 beta u} */
} sums;

/* Midpoints in u and phi: of e^{a u} the error is (a step)^2/24 of the integral, 1e-4 at a = 30. */
static sums on_grid(const es_keys *keys, double beta)
{
    enum { U = 1200, PHI = 64 };
    sums s = {0};
    for (int i = 0; i < U; i++)
        for (int k = 0; k < PHI; k++) {
            const double u = -1.0 + 2.0 * (i + 0.5) / U;
            const double phi = 6.283185307179586 * (k + 0.5) / PHI, r = sqrt(1.0 - u * u);
            const double x[3] = {u, r * cos(phi), r * sin(phi)};
            const double f = density(keys, u, phi), e = exp(beta * (u - 1.0));
            s.z1 += f * e / (U * PHI);
            s.z2 += f * e * e / (U * PHI);
            for (int a = 0; a < 3; a++) {
                s.m1[a] += f * e * x[a] / (U * PHI);
                s.m2[a] += f * e * e * x[a] / (U * PHI);
                for (int b = 0; b < 3; b++)
                    s.c2[3 * a + b] += f * e * e * x[a] * x[b] / (U * PHI);
            }
        }
    return s;
}

/* E[e^{2 beta u} (k - m)(k - m)']/z1^2 and -E[e^{2 beta u} (k - m)]/z1^2, straight. */
static void compare_with_grid(const es_keys *keys, double beta)
{
    double limit[3], mean[3], cov[9];
    es_output_law law = {.limit = limit, .mean = mean, .cov = cov};
    const sums s = on_grid(keys, beta);
    assert_ok(es_average_of(keys, 100.0, beta, NULL, NULL, &law, &err));
    assert_close(law.spread, s.z2 / (s.z1 * s.z1), 2e-4);
    for (int a = 0; a < 3; a++) {
        const double m = s.m1[a] / s.z1;
        assert_near(limit[a], m, 1e-5);
        assert_near(100.0 * (mean[a] - limit[a]), -(s.m2[a] - m * s.z2) / (s.z1 * s.z1),
                    2e-4 * law.spread);
        for (int b = 0; b < 3; b++) {
            const double w = s.m1[b] / s.z1;
            const double c = s.c2[3 * a + b] - m * s.m2[b] - w * s.m2[a] + m * w * s.z2;
            assert_near(cov[3 * a + b], c / (s.z1 * s.z1), 2e-4 * law.spread);
        }
    }
}

static void tilted_keys_agree_with_a_grid(void **state)
{
    (void)state;
    const es_keys_part one = {1.0, 5.0, 0.2};
    compare_with_grid(&(es_keys){.dim = 3}, 3.0);
    compare_with_grid(&(es_keys){.dim = 3, .parts = &one, .n_parts = 1}, 2.0);
    compare_with_grid(&(es_keys){.dim = 3, .parts = &one, .n_parts = 1}, 15.0);
    compare_with_grid(&(es_keys){.dim = 3, .parts = mixed, .n_parts = 3}, 4.0);
}

/* Uniform keys, any dimension: D, and variances along and across, of theory.json. */
static void uniform_keys_agree_with_theory_json(void **state)
{
    (void)state;
    json_t *known = golden("sphere_fluct"), *row;
    size_t i;
    int seen = 0;
    json_array_foreach(json_object_get(known, "items"), i, row)
    {
        const int64_t d = (int64_t)golden_real(row, "d");
        if (d > 64)
            continue;
        double *scratch = calloc((size_t)(d * (d + 2)), sizeof *scratch);
        es_output_law law = {.limit = scratch, .mean = scratch + d, .cov = scratch + 2 * d};
        assert_ok(es_average_of(&(es_keys){.dim = d}, 1e6, golden_real(row, "beta"), NULL, NULL,
                                &law, &err));
        assert_close(law.spread, golden_real(row, "D"), 1e-10);
        assert_close(law.cov[0], golden_real(row, "radial"), 1e-9);
        assert_close(law.cov[d + 1], golden_real(row, "tang"), 1e-9);
        assert_near(law.cov[1], 0.0, 1e-12 * law.spread);
        free(scratch);
        seen++;
    }
    assert_above(seen, 3);
    json_decref(known);
}

/* ---- values ---- */

static void values_are_linear(void **state)
{
    (void)state;
    const es_keys keys = {.dim = 4, .parts = mixed, .n_parts = 3};
    const double v[] = {1.0, -2.0, 0.5, 0.0, 3.0, 1.0, 0.0, -1.0};
    const es_view V = es_view_f64(v, 2, 4);
    double plain[4 + 4 + 16], through[2 + 2 + 4];
    es_output_law a = {.limit = plain, .mean = plain + 4, .cov = plain + 8};
    es_output_law b = {.limit = through, .mean = through + 2, .cov = through + 4};
    assert_ok(es_average_of(&keys, 500.0, 3.0, NULL, NULL, &a, &err));
    assert_ok(es_average_of(&keys, 500.0, 3.0, &V, NULL, &b, &err));
    for (int i = 0; i < 2; i++) {
        double limit = 0.0, mean = 0.0;
        for (int j = 0; j < 4; j++) {
            limit += v[4 * i + j] * a.limit[j];
            mean += v[4 * i + j] * a.mean[j];
        }
        assert_near(b.limit[i], limit, 1e-14);
        assert_near(b.mean[i], mean, 1e-14);
        for (int k = 0; k < 2; k++) {
            double cov = 0.0;
            for (int j = 0; j < 16; j++)
                cov += v[4 * i + j / 4] * a.cov[j] * v[4 * k + j % 4];
            assert_near(b.cov[2 * i + k], cov, 1e-13);
        }
    }
}

/* ---- keys that are drawn ---- */

/* Means within four standard errors; variances within four of theirs for Gaussian outputs,
 * sqrt(2/R) of each, and 5/ESS for what is left out after the leading order. */
static void drawn_outputs_fluctuate_as_predicted(void **state)
{
    (void)state;
    enum { N = 500, R = 1000 };
    const es_keys keys = {.dim = 4, .parts = mixed, .n_parts = 3};
    const double v[] = {1.0, -2.0, 0.5, 0.0, 3.0, 1.0, 0.0, -1.0}, beta = 2.5;
    const double directions[] = {1.0, 0.0, 0.0, 1.0, 0.6, 0.8};
    const es_view V = es_view_f64(v, 2, 4);
    double scratch[2 + 2 + 4];
    es_output_law law = {.limit = scratch, .mean = scratch + 2, .cov = scratch + 4};
    es_output_row row, again;
    assert_ok(es_average_of(&keys, N, beta, &V, NULL, &law, &err));
    es_exec two = {.threads = 2};
    es_regimes_opts opts = {.seed = 11, .keys = &keys, .replicates = R, .exec = &two};
    assert_ok(es_regimes_outputs(&opts, N, beta, &V, directions, &row, &err));
    const double rest = 5.0 * law.spread / N;
    for (int k = 0; k < ES_OUTPUT_DIRECTIONS; k++) {
        const double *f = directions + 2 * k;
        const double mean = f[0] * law.mean[0] + f[1] * law.mean[1];
        const double var =
            f[0] * f[0] * law.cov[0] + 2.0 * f[0] * f[1] * law.cov[1] + f[1] * f[1] * law.cov[3];
        print_message("direction %d: mean %.5f +- %.5f for %.5f, n Var %.4f +- %.4f for %.4f\n", k,
                      row.mean[k].value, row.mean[k].se, mean, row.variance[k].value,
                      row.variance[k].se, var);
        assert_near(row.mean[k].value, mean, 4.0 * row.mean[k].se);
        assert_near(row.variance[k].value, var, (4.0 * sqrt(2.0 / R) + rest) * var);
        assert_close(row.variance[k].se, sqrt(2.0 / R) * var, 0.3); /* its own error is right */
    }
    assert_near(row.trace.value, law.cov[0] + law.cov[3],
                (4.0 * sqrt(2.0 / R) + rest) * (law.cov[0] + law.cov[3]));
    opts.replicates = 20;
    assert_ok(es_regimes_outputs(&opts, N, beta, &V, directions, &row, &err));
    two.threads = 1;
    assert_ok(es_regimes_outputs(&opts, N, beta, &V, directions, &again, &err));
    assert_memory_equal(&row, &again, sizeof row);
}

static void bad_questions(void **state)
{
    (void)state;
    double scratch[8 + 16] = {0}, directions[12] = {0};
    es_output_law law = {.limit = scratch, .mean = scratch + 4, .cov = scratch + 8};
    es_output_row row;
    const es_keys keys = {.dim = 4};
    const es_view wide = es_view_f64(scratch, 2, 5);
    assert_int_equal(
        es_average_of(&(es_keys){.dim = 4, .planted = true}, 9.0, 1.0, NULL, NULL, &law, &err),
        ES_E_UNSUPPORTED);
    assert_int_equal(
        es_average_of(&(es_keys){.dim = 4, .vanish = 1.0}, 9.0, 1.0, NULL, NULL, &law, &err),
        ES_E_UNSUPPORTED);
    assert_int_equal(es_average_of(&(es_keys){.dim = 513}, 9.0, 1.0, NULL, NULL, &law, &err),
                     ES_E_RANGE);
    assert_int_equal(es_average_of(&keys, 9.0, NAN, NULL, NULL, &law, &err), ES_E_RANGE);
    assert_int_equal(es_average_of(&keys, 9.0, 1.0, &wide, NULL, &law, &err), ES_E_SHAPE);
    es_mem_limit little = {.limit = 10};
    assert_int_equal(es_average_of(&keys, 9.0, 1.0, NULL, &little, &law, &err), ES_E_LIMIT);
    assert_equals(little.used, 0);
    es_regimes_opts opts = {.keys = &keys, .replicates = 1};
    assert_int_equal(es_regimes_outputs(&opts, 9, 1.0, NULL, directions, &row, &err), ES_E_RANGE);
    opts.replicates = 2;
    assert_int_equal(es_regimes_outputs(&opts, 9, 1.0, &wide, directions, &row, &err), ES_E_SHAPE);
    assert_ok(es_regimes_outputs(&opts, 9, 1.0, NULL, directions, &row, &err));
    assert_equals(row.mean[0].value, 0.0);
    assert_above(row.trace.value, 0.0); /* a direction that is none */
}

TEST_FILE(key_average)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tilted_keys_agree_with_a_grid),
        cmocka_unit_test(uniform_keys_agree_with_theory_json),
        cmocka_unit_test(values_are_linear),
        cmocka_unit_test(drawn_outputs_fluctuate_as_predicted),
        cmocka_unit_test(bad_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
