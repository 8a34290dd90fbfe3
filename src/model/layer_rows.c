/* SPDX-License-Identifier: Apache-2.0 */
/* layer_rows.c : what happens to rows of hidden states between two products; activations. */
#include <math.h>
#include <string.h>

#include "model/model_inside.h"

/* Returns e^x in f32. */
static float power_f32(float x) { return expf(x); }
/* Returns e^x in f64. */
static double power_f64(double x) { return exp(x); }

/* ---- rows, in both precisions ---- */

#define REAL       float
#define NAME(name) name##_f32
#include "model/layer_rows_template.h"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) name##_f64
#include "model/layer_rows_template.h"

/* ---- gelu ---- */

#define MOST  6.0  /* the table covers [-MOST, MOST] */
#define CELLS 32.0 /* per unit */

#define SQRT_HALF         0.70710678118654752440 /* 1/sqrt(2) */
#define ONE_BY_SQRT_TWOPI 0.39894228040143267794

/* Computes gelu by erfc instead of 1 + erf: exact relative to the result, which decays doubly
 * exponentially. */
static void gelu_f64(const es_gelu_table *table, void *x_, int64_t count)
{
    double *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = 0.5 * x[i] * erfc(-x[i] * SQRT_HALF);
}

/* With G = x Phi, density phi:  G' = Phi + x phi,  G'' = (2 - x^2) phi,  G''' = (x^3 - 4x) phi. */
void es_gelu_prepare(es_gelu_table *table)
{
    for (int i = 0; i < ES_GELU_CELLS; i++) {
        const double x = (i + 0.5) / CELLS - MOST;
        const double Phi = 0.5 * erfc(-x * SQRT_HALF);
        const double phi = ONE_BY_SQRT_TWOPI * exp(-0.5 * x * x);
        table->cell[i][0] = (float)(x * Phi);
        table->cell[i][1] = (float)(Phi + x * phi);
        table->cell[i][2] = (float)((2.0 - x * x) * phi / 2.0);
        table->cell[i][3] = (float)((x * x * x - 4.0 * x) * phi / 6.0);
    }
}

/* The table is applied to up to PIECE numbers in two loops: the first is arithmetic that a compiler
 * vectorises, the second looks up. */
enum { PIECE = 64 };

/* Applies GELU to up to PIECE numbers by cubic interpolation in a table. Cells are found first
 * and evaluated then, so that both loops vectorise. */
static void gelu_piece(const es_gelu_table *table, float *x, int64_t count)
{
    const float last = (float)ES_GELU_CELLS - 0.5f;
    int32_t cell[PIECE];
    float d[PIECE];
    for (int64_t i = 0; i < count; i++) {
        const float at = (x[i] + (float)MOST) * (float)CELLS;
        const float above = at > 0.0f ? at : 0.0f; /* NaN: 0 */
        cell[i] = (int32_t)(above < last ? above : last);
        d[i] = x[i] - (((float)cell[i] + 0.5f) * (float)(1.0 / CELLS) - (float)MOST); /* exact */
    }
    for (int64_t i = 0; i < count; i++) {
        const float *c = table->cell[cell[i]];
        const float inside = c[0] + d[i] * (c[1] + d[i] * (c[2] + d[i] * c[3]));
        x[i] = x[i] >= (float)MOST ? x[i] : x[i] > -(float)MOST ? inside : 0.0f * x[i];
    }
}

/* Computes gelu by the table. */
static void gelu_f32(const es_gelu_table *table, void *x_, int64_t count)
{
    float *x = x_;
    for (int64_t i = 0; i < count; i += PIECE)
        gelu_piece(table, x + i, count - i < PIECE ? count - i : PIECE);
}

/* ---- others ---- */

#define SQRT_TWO_BY_PI 0.79788456080286535588

/* Computes relu; NaN stays NaN, because a comparison with it is false. */
static void relu_f32(const es_gelu_table *table, void *x_, int64_t count)
{
    float *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

/* Computes relu in f64. */
static void relu_f64(const es_gelu_table *table, void *x_, int64_t count)
{
    double *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] < 0.0 ? 0.0 : x[i];
}

/* Computes x / (1 + e^-x): where e^-x overflows it is -0, as it should be. */
static void silu_f32(const es_gelu_table *table, void *x_, int64_t count)
{
    float *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] / (1.0f + expf(-x[i]));
}

/* Computes silu in f64. */
static void silu_f64(const es_gelu_table *table, void *x_, int64_t count)
{
    double *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] / (1.0 + exp(-x[i]));
}

/* Computes GPT-2's gelu: x (1 + tanh(sqrt(2/pi) (x + .044715 x^3))) / 2 = x / (1 + e^-2z). */
static void gelu_tanh_f32(const es_gelu_table *table, void *x_, int64_t count)
{
    float *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++) {
        const float z = (float)SQRT_TWO_BY_PI * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        x[i] = x[i] / (1.0f + expf(-2.0f * z));
    }
}

/* Applies the tanh form of GELU: x/(1 + e^(-2z)), z = sqrt(2/pi) (x + 0.044715 x^3), which is x
 * (1 + tanh z)/2 without its cancellation. */
static void gelu_tanh_f64(const es_gelu_table *table, void *x_, int64_t count)
{
    double *x = x_;
    (void)table;
    for (int64_t i = 0; i < count; i++) {
        const double z = SQRT_TWO_BY_PI * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
        x[i] = x[i] / (1.0 + exp(-2.0 * z));
    }
}

const es_activation es_gelu = {"gelu", gelu_f32, gelu_f64};
const es_activation es_relu = {"relu", relu_f32, relu_f64};
const es_activation es_tanh = {"tanh", tanh_f32, tanh_f64};
static const es_activation gelu_tanh = {"gelu_new|gelu_fast|gelu_pytorch_tanh", gelu_tanh_f32,
                                        gelu_tanh_f64};
static const es_activation silu = {"silu|swish", silu_f32, silu_f64};

const es_activation *es_activation_find(const char *name)
{
    static const es_activation *const known[] = {&es_gelu, &gelu_tanh, &silu, &es_relu};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (es_word_among(name, known[i]->names))
            return known[i];
    return NULL;
}
