/* SPDX-License-Identifier: Apache-2.0 */
/* What measure says of heads: medians, words for what they do, the scale that is meant. */
#include "planted.h"

enum { N = 32, D = 4, QUERIES = 3 };

/* Key 0 is e_1, the others are 0. Queries of head 0 are 0: its weights are equal, 1/N. Those of
 * head 1 are 4000 e_1, whose score is beyond exp's reach even at the scale 1/4: it sees key 0. */
static problem equal_and_single(void)
{
    problem p = make(2, 1, QUERIES, N, D, D, AS_F32);
    memset(p.q, 0, sizeof *p.q * 2 * QUERIES * D);
    memset(p.k, 0, sizeof *p.k * N * D);
    p.k[0] = 1.0;
    for (int64_t i = 0; i < QUERIES; i++)
        p.q[(QUERIES + i) * D] = 4000.0;
    return p;
}

static void expect_said(const es_answer *a, int64_t at, const char *words)
{
    if (!strstr(es_answer_finding(a, at), words))
        fail_msg("\"%s\" is not in \"%s\"", words, es_answer_finding(a, at));
}

/* ESS N and 1: the median is (N + 1) / 2. */
static void the_median_of_two_is_their_mean(void **state)
{
    (void)state;
    problem p = equal_and_single();
    es_answer *a = ask_of(&p, NULL, NULL);
    expect_said(a, 0, "In the median head a query uses 16.5 of 32 keys (ESS; 1 to 32 over heads).");
    es_answer_free(a);
    drop(&p);
}

/* Of 32 keys two thirds are enough to be averaging, not 100. */
static void two_thirds_of_few_keys_are_enough(void **state)
{
    (void)state;
    problem p = equal_and_single();
    es_answer *a = ask_of(&p, NULL, NULL);
    expect_said(a, 1, "1 of 2 heads is averaging, 0 selective, 1 single-key (by ESS;");
    es_answer_free(a);
    drop(&p);
}

static void the_scale_is_named(void **state)
{
    (void)state;
    problem p = equal_and_single();
    es_answer *a = ask_of(&p, NULL, (const char *[]){"scales", "0.25,2", NULL});
    expect_said(a, 0, "In the median head a query, at scale 0.25, uses");
    expect_said(a, 1, "1 of 2 heads, at scale 0.25, is averaging");
    es_answer_free(a);
    drop(&p);
}

/* Queries that are the same differ by rounding at most, which no sentence calls an error. */
static void rounding_is_no_error(void **state)
{
    (void)state;
    problem p = equal_and_single();
    p.heads = 1;
    es_answer *a = ask_of(&p, NULL, NULL);
    expect_said(
        a, 0, "A query uses 32 of 32 keys (effective number, ESS); its largest weight is 0.03125.");
    es_answer_free(a);
    p.q[1 * D] = 4.0; /* another query */
    a = ask_of(&p, NULL, NULL);
    expect_said(a, 0, " ± ");
    es_answer_free(a);
    drop(&p);
}

TEST_FILE(measure_findings)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_of_two_is_their_mean),
        cmocka_unit_test(two_thirds_of_few_keys_are_enough),
        cmocka_unit_test(the_scale_is_named),
        cmocka_unit_test(rounding_is_no_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
