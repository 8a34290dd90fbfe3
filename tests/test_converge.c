/* test_converge.c : measured convergence against closed forms, and against itself on other threads.
 */
#include "testing.h"

#include <esscher/converge.h>

/* d = 1, standard normal tokens, A = H, V = 1: the two-sided horizon is H. */
static const double one = 1.0;

static es_converge_cell *measure(const es_converge_spec *spec, int64_t replicates)
{
    es_converge_limit *limit;
    const int64_t cells = spec->n_scales * spec->n_sizes;
    es_converge_cell *out = calloc((size_t)(replicates * cells), sizeof *out);
    assert_ok(es_converge_limit_new(spec, &limit, &err));
    for (int64_t r = 0; r < replicates; r++)
        assert_ok(es_converge_replicate(spec, limit, r, out + r * cells, &err));
    es_converge_limit_free(limit);
    return out;
}

/* Mean over replicates of n * mean_error^2, with its standard error. */
static void scaled_mean_square(const es_converge_cell *cells, int64_t replicates, double n,
                               double *mean, double *se)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < replicates; r++) {
        const double x = n * cells[r].mean_error * cells[r].mean_error;
        sum += x;
        squares += x * x;
    }
    *mean = sum / (double)replicates;
    *se = sqrt((squares / (double)replicates - *mean * *mean) / (double)replicates);
}

static void mean_error_has_the_constant_of_its_clt(void **state)
{
    (void)state;
    /* n E|m_n|^2 -> (1 - H^4)^(-3/2) for population queries, and 2H + H^2 more in self mode
     * (THEORY 4.4). At H = 1/2 and n = 1000 what is left of order 1/n is below 1 %; 2000 replicates
     * have a standard error of 3 %. */
    const double h = 0.5, population = pow(1.0 - h * h * h * h, -1.5);
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 1, .size = 1.0};
    const es_view unit = es_view_f64(&one, 1, 1);
    const es_head head = {.A = &unit};
    const int64_t n = 1000, replicates = 2000;
    const es_exec exec = {.threads = 1};
    for (int self = 0; self <= 1; self++) {
        const es_converge_spec spec = {.law = &law,
                                       .head = &head,
                                       .scales = &h,
                                       .n_scales = 1,
                                       .sizes = &n,
                                       .n_sizes = 1,
                                       .seed = 5,
                                       .population = !self,
                                       .queries = 1000,
                                       .map_queries = 4,
                                       .exec = &exec};
        es_converge_cell *cells = measure(&spec, replicates);
        double mean, se;
        scaled_mean_square(cells, replicates, (double)n, &mean, &se);
        const double expected = population + (self ? 2.0 * h + h * h : 0.0);
        print_message("%s: n E|m_n|^2 = %.4f +- %.4f, expected %.4f\n",
                      self ? "self" : "population", mean, se, expected);
        assert_near(mean, expected, 4.0 * se + 0.01 * expected);
        free(cells);
    }
}

static void small_scale_is_a_plain_mean(void **state)
{
    (void)state;
    /* At scale 0 every output is the mean of the tokens: covariance exactly 0, mean error |x-bar|,
     * map error the same. */
    const double zero = 0.0;
    const es_law law = {.kind = ES_LAW_SPHERE, .dim = 3, .size = 2.0};
    const double eye[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const es_view w = es_view_f64(eye, 3, 3);
    const es_head head = {.Wq = &w, .Wk = &w, .V = &w};
    const int64_t sizes[2] = {50, 400};
    const es_converge_spec spec = {.law = &law,
                                   .head = &head,
                                   .scales = &zero,
                                   .n_scales = 1,
                                   .sizes = sizes,
                                   .n_sizes = 2,
                                   .seed = 9,
                                   .precision = ES_F64};
    es_converge_cell *cells = measure(&spec, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(cells[i].mean_error > 0.0 &&
                    cells[i].mean_error < 5.0 * 2.0 / sqrt((double)sizes[i]));
        assert_near(cells[i].map_error, cells[i].mean_error, 1e-14);
        assert_near(cells[i].cov_frobenius, 0.0, 1e-15);
    }
    free(cells);
}

static void threads_and_order_do_not_matter(void **state)
{
    (void)state;
    const double eye[4] = {1, 0.3, -0.2, 0.7}, scales[2] = {0.5, 2.0};
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1.0};
    const es_view w = es_view_f64(eye, 2, 2);
    const es_head head = {.Wq = &w, .Wk = &w, .V = &w};
    const int64_t sizes[3] = {100, 300, 1000};
    es_exec exec = {.threads = 1};
    const es_converge_spec spec = {.law = &law,
                                   .head = &head,
                                   .scales = scales,
                                   .n_scales = 2,
                                   .sizes = sizes,
                                   .n_sizes = 3,
                                   .seed = 1,
                                   .exec = &exec};
    es_converge_cell *serial = measure(&spec, 3), again[6];
    es_converge_limit *limit;
    exec.threads = 3;
    assert_ok(es_converge_limit_new(&spec, &limit, &err));
    for (int64_t r = 2; r >= 0; r--) {
        assert_ok(es_converge_replicate(&spec, limit, r, again, &err));
        assert_memory_equal(again, serial + 6 * r, sizeof again);
    }
    es_converge_limit_free(limit);
    free(serial);
}

static void memory_stays_within_the_cost(void **state)
{
    (void)state;
    const double eye[4] = {1, 0, 0, 1}, scale = 0.5;
    const es_law law = {.kind = ES_LAW_GAUSSIAN, .dim = 2, .size = 1.0};
    const es_view w = es_view_f64(eye, 2, 2);
    const es_head head = {.Wq = &w, .Wk = &w, .V = &w};
    const int64_t sizes[2] = {1000, 5000};
    es_budget budget = {0};
    const es_exec exec = {.threads = 2, .budget = &budget};
    const es_converge_spec spec = {.law = &law,
                                   .head = &head,
                                   .scales = &scale,
                                   .n_scales = 1,
                                   .sizes = sizes,
                                   .n_sizes = 2,
                                   .exec = &exec};
    es_converge_cost cost;
    assert_ok(es_converge_cost_of(&spec, &cost, &err));
    free(measure(&spec, 1));
    assert_true(budget.peak <= cost.bytes);
    assert_int_equal(budget.used, 0);
}

static void specs_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const double numbers[4] = {1, 0, 0, NAN}, scale = 0.5;
    es_law law = {.kind = ES_LAW_STUDENT, .dim = 2, .size = 1.0, .freedom = 5.0};
    const es_view w = es_view_f64(numbers, 1, 2), nan = es_view_f64(numbers, 2, 2),
                  narrow = es_view_f64(numbers, 2, 1);
    es_head head = {.Wq = &w, .Wk = &w};
    int64_t sizes[2] = {100, 200};
    es_converge_spec spec = {
        .law = &law, .head = &head, .scales = &scale, .n_scales = 1, .sizes = sizes, .n_sizes = 2};
    es_converge_limit *limit;
    assert_int_equal(es_converge_limit_new(&spec, &limit, &err),
                     ES_E_RANGE); /* no exponential moments */
    assert_null(limit);
    law.kind = ES_LAW_GAUSSIAN;
    head.V = &nan;
    assert_int_equal(es_converge_limit_new(&spec, &limit, &err), ES_E_NONFINITE);
    head.V = &narrow;
    assert_int_equal(es_converge_limit_new(&spec, &limit, &err), ES_E_SHAPE);
    head.V = NULL;
    head.A = &nan; /* two ways to say what the scores are */
    assert_int_equal(es_converge_limit_new(&spec, &limit, &err), ES_E_ARGUMENT);
    head.A = NULL;
    sizes[0] = 1;
    assert_int_equal(es_converge_limit_new(&spec, &limit, &err), ES_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_error_has_the_constant_of_its_clt),
        cmocka_unit_test(small_scale_is_a_plain_mean),
        cmocka_unit_test(threads_and_order_do_not_matter),
        cmocka_unit_test(memory_stays_within_the_cost),
        cmocka_unit_test(specs_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests_name("converge", tests, NULL, NULL);
}
