/* SPDX-License-Identifier: Apache-2.0 */
/* token_laws.h : one law of every kind and some corners, for properties that all laws share. */
#ifndef ES_TESTS_TOKEN_LAWS_H
#define ES_TESTS_TOKEN_LAWS_H

#include "testing.h"

#include "tokens/tokens.h"

enum { DIM = 5, POINTS = 5000 };

static const double mean_of_laws[DIM] = {1, -2, 0.5, 0, 3};
static const double direction_of_laws[DIM] = {-1, 2, 0, 0.5, 1};
/* Full, and lower triangular. */
static const double full_factor[DIM * DIM] = {1,   0.5, 0, -1, 2, 0.3, 1, 0, 0.25, 0, -1, 2,  1,
                                              0.1, 0,   0, 0,  3, 1,   1, 1, 1,    1, -1, 0.5};
static const double lower_factor[DIM * DIM] = {1, 0, 0, 0,   0, 2,   -1, 0, 0, 0, 0.5, 0, 0.25,
                                               0, 0, 1, 0.3, 1, 0.7, 0,  0, 1, 0, 2,   -3};

static const es_law parts_of_laws[] = {
    {.kind = ES_LAW_GAUSSIAN, .dim = DIM, .size = 0.5, .mean = mean_of_laws},
    {.kind = ES_LAW_STUDENT, .dim = DIM, .size = 1, .freedom = 20, .factor = full_factor},
    {.kind = ES_LAW_VMF,
     .dim = DIM,
     .size = 2,
     .concentration = 3,
     .direction = direction_of_laws,
     .factor = lower_factor,
     .mean = mean_of_laws},
    {.kind = ES_LAW_BALL, .dim = DIM, .size = 1}};
static const double weights_of_laws[] = {0.2, 1.0, 0.5, 0.3};

static double numbers_of_points[POINTS * DIM];
static const es_view points_of_laws = {.data = numbers_of_points,
                                       .dtype = ES_F64,
                                       .rows = POINTS,
                                       .cols = DIM,
                                       .row_stride = DIM * 8,
                                       .col_stride = 8};

static const es_law all_laws[] = {
    {.kind = ES_LAW_GAUSSIAN, .dim = DIM, .size = 1},
    {.kind = ES_LAW_GAUSSIAN, .dim = DIM, .size = 1.5, .factor = full_factor, .mean = mean_of_laws},
    {.kind = ES_LAW_GAUSSIAN, .dim = DIM, .size = 1, .factor = lower_factor},
    {.kind = ES_LAW_SPHERE, .dim = DIM, .size = 2},
    {.kind = ES_LAW_BALL, .dim = DIM, .size = 2, .mean = mean_of_laws},
    {.kind = ES_LAW_CUBE, .dim = DIM, .size = 2, .factor = full_factor},
    {.kind = ES_LAW_RADEMACHER, .dim = DIM, .size = 0.5},
    {.kind = ES_LAW_LAPLACE, .dim = DIM, .size = 0.7},
    {.kind = ES_LAW_STUDENT, .dim = DIM, .size = 1.2, .freedom = 20},
    {.kind = ES_LAW_VMF, .dim = DIM, .size = 2, .concentration = 3, .direction = direction_of_laws},
    {.kind = ES_LAW_VMF,
     .dim = DIM,
     .size = 1,
     .concentration = 1e6,
     .direction = direction_of_laws,
     .factor = full_factor},
    {.kind = ES_LAW_VMF, .dim = DIM, .size = 1, .concentration = 0, .direction = direction_of_laws},
    {.kind = ES_LAW_VMF, .dim = 1, .size = 3, .concentration = 1, .direction = direction_of_laws},
    {.kind = ES_LAW_MIXTURE,
     .dim = DIM,
     .parts = parts_of_laws,
     .weights = weights_of_laws,
     .n_parts = 4},
    {.kind = ES_LAW_MIXTURE,
     .dim = DIM,
     .parts = parts_of_laws,
     .weights = weights_of_laws,
     .n_parts = 4,
     .factor = full_factor,
     .mean = mean_of_laws},
    {.kind = ES_LAW_EMPIRICAL, .dim = DIM, .points = &points_of_laws},
    {.kind = ES_LAW_EMPIRICAL, .dim = DIM, .points = &points_of_laws, .without_replacement = true},
    {.kind = ES_LAW_EMPIRICAL,
     .dim = DIM,
     .points = &points_of_laws,
     .without_replacement = true,
     .factor = lower_factor,
     .mean = mean_of_laws},
    {.kind = ES_LAW_LOGISTIC, .dim = DIM, .size = 0.7, .factor = lower_factor}};
enum { ALL_LAWS = sizeof all_laws / sizeof all_laws[0] };

/* Points that tell their own number. */
static inline int make_points(void **state)
{
    (void)state;
    for (int i = 0; i < POINTS * DIM; i++)
        numbers_of_points[i] = (double)(i / DIM) + 0.125 * (double)(i % DIM);
    return 0;
}

#endif
