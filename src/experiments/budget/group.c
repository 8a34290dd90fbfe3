/* SPDX-License-Identifier: Apache-2.0 */
/* group.c : the risk of heads that keep the same keys.
 *
 * Such heads miss the same values, and their errors e_g add up: the group's risk is E|sum Wo_g
 * e_g|^2, not the sum of the heads' risks. It is computed as that sum times the ratio of the two to
 * first order, which is exact for policies without random choices (THEORY 14). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiments/budget/inside.h"
#include "linalg/dense.h"

/* Allocates numbers of heads that share their keys. */
static es_status take(es_arena *arena, int64_t a, int64_t b, double **out, es_error *err)
{
    return ES_ARENA_NEW_2D(arena, *out, a, b, "heads that share keys", err);
}

es_status es_group_new(const es_model_config *c, es_arena *arena, es_group *out, es_error *err)
{
    const int64_t size = c->heads / c->kv_heads, dk = c->head_dim, H = c->hidden;
    *out = (es_group){.size = size, .dk = dk, .hidden = H};
    ES_TRY(take(arena, size * H, dk, &out->wo, err));
    ES_TRY(take(arena, size, 1, &out->mass, err));
    ES_TRY(take(arena, size, dk, &out->mean, err));
    ES_TRY(take(arena, size, dk, &out->bias, err));
    ES_TRY(take(arena, size * ES_GROUP_CHUNK, dk, &out->x, err));
    ES_TRY(take(arena, ES_GROUP_CHUNK, H, &out->each, err));
    ES_TRY(take(arena, ES_GROUP_CHUNK, H, &out->sum, err));
    ES_TRY(take(arena, ES_GROUP_CHUNK, 2, &out->together, err));
    out->apart = out->together + ES_GROUP_CHUNK;
    return ES_OK;
}

double es_group_bytes(const es_model_config *c)
{
    const double size = (double)(c->heads / c->kv_heads), k = (double)c->head_dim;
    return 8.0 * (double)c->hidden * (size * k + 2.0 * ES_GROUP_CHUNK) +
           8.0 * (size * (k * (ES_GROUP_CHUNK + 2.0) + 1.0) + 2.0 * ES_GROUP_CHUNK);
}

/* Returns |x|^2, summed in lanes: additions to a single sum would wait for each other. */
static double square_of(const double *x, int64_t n)
{
    double lane[4] = {0}, rest = 0.0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int64_t l = 0; l < 4; l++)
            lane[l] += x[i + l] * x[i + l];
    for (; i < n; i++)
        rest += x[i] * x[i];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]) + rest;
}

void es_group_apply(es_group *group, int64_t rows)
{
    const int64_t H = group->hidden, dk = group->dk;
    memset(group->sum, 0, (size_t)(rows * H) * sizeof(double));
    memset(group->apart, 0, (size_t)rows * sizeof(double));
    for (int64_t g = 0; g < group->size; g++) {
        memset(group->each, 0, (size_t)(rows * H) * sizeof(double));
        es_blas_enter();
        es_gemm_add(ES_F64, rows, H, dk, group->x + g * ES_GROUP_CHUNK * dk, group->wo + g * H * dk,
                    group->each);
        es_blas_leave();
        for (int64_t i = 0; i < rows * H; i++)
            group->sum[i] += group->each[i];
        for (int64_t r = 0; r < rows; r++)
            group->apart[r] += square_of(group->each + r * H, H);
    }
    for (int64_t r = 0; r < rows; r++)
        group->together[r] = square_of(group->sum + r * H, H);
}

void es_group_put(es_group *group, int64_t g, int64_t r, int64_t key, double times,
                  const double *off)
{
    const int64_t dk = group->dk;
    const double *v = group->values + key * dk, *y = group->mean + g * dk;
    double *x = group->x + (g * ES_GROUP_CHUNK + r) * dk;
    for (int64_t d = 0; d < dk; d++)
        x[d] = times * (v[d] - y[d] - (off ? off[d] : 0.0));
}

void es_group_begin(es_group *group, const double *values, const es_risk_query *query)
{
    const int64_t dk = group->dk;
    group->values = values;
    group->query = query;
    memset(group->mean, 0, (size_t)(group->size * dk) * sizeof(double));
    for (int64_t g = 0; g < group->size; g++)
        for (int64_t j = 0; j < group->query[g].n - group->query[g].sink; j++)
            for (int64_t d = 0; d < dk; d++)
                group->mean[g * dk + d] += group->query[g].weights[j] * values[j * dk + d];
}

/* Returns the probability that key i of the rest is kept; factor_of() the factor on its weight. */
static double kept_of(const es_choice *choice, int64_t i)
{
    return choice->chance == ES_CHANCE_EACH ? choice->kept[i]
                                            : (double)choice->draws / (double)choice->rest_count;
}

/* Returns the factor of key i in a choice: its own where keys are kept independently, otherwise the
 * common one. */
static double factor_of(const es_choice *choice, int64_t i)
{
    return choice->chance == ES_CHANCE_EACH ? choice->factors[i] : choice->factor;
}

/* Adds a sink, which every outcome keeps, to N (dk), and returns its weight: its value is 0, so
 * that it is off by -y (THEORY 13). */
static double add_sink(const es_group *group, int64_t g, double *n)
{
    const es_risk_query *query = &group->query[g];
    const double w = query->sink ? query->weights[query->n - 1] : 0.0;
    for (int64_t d = 0; d < group->dk && query->sink; d++)
        n[d] -= w * group->mean[g * group->dk + d];
    return w;
}

/* Sets bias (dk) to mean of N over mean of Z, and returns the mean of Z (THEORY 13). */
static double find_bias(es_group *group, const es_choice *choice, int64_t g)
{
    const int64_t dk = group->dk;
    const double *weights = group->query[g].weights;
    double *bias = group->bias + g * dk, *x = group->x + g * ES_GROUP_CHUNK * dk;
    memset(bias, 0, (size_t)dk * sizeof(double));
    double mass = add_sink(group, g, bias);
    for (int64_t i = 0; i < choice->sure_count + choice->rest_count; i++) {
        const int64_t r = i - choice->sure_count, j = r < 0 ? choice->sure[i] : choice->rest[r];
        const double times = r < 0 ? 1.0 : kept_of(choice, r) * factor_of(choice, r);
        mass += times * weights[j];
        es_group_put(group, g, 0, j, times * weights[j], NULL);
        for (int64_t d = 0; d < dk; d++)
            bias[d] += x[d];
    }
    for (int64_t d = 0; d < dk; d++)
        bias[d] /= mass > 0.0 ? mass : 1.0;
    return mass;
}

double es_group_ratio(es_group *group, const es_choice *choice)
{
    const int64_t dk = group->dk;
    double together = 0.0, apart = 0.0;
    for (int64_t g = 0; g < group->size; g++) {
        group->mass[g] = find_bias(group, choice, g);
        if (!(group->mass[g] > 0.0))
            return 1.0; /* weights underflow: the ratio is unknown */
        memcpy(group->x + g * ES_GROUP_CHUNK * dk, group->bias + g * dk,
               (size_t)dk * sizeof(double));
    }
    es_group_apply(group, 1);
    together = group->together[0];
    apart = group->apart[0];
    for (int64_t first = 0; first < choice->rest_count; first += ES_GROUP_CHUNK) {
        const int64_t left = choice->rest_count - first,
                      rows = left < ES_GROUP_CHUNK ? left : ES_GROUP_CHUNK;
        for (int64_t g = 0; g < group->size; g++)
            for (int64_t r = 0; r < rows; r++) {
                const int64_t j = choice->rest[first + r];
                const double weight = group->query[g].weights[j] / group->mass[g];
                es_group_put(group, g, r, j, weight * factor_of(choice, first + r),
                             group->bias + g * dk);
            }
        es_group_apply(group, rows);
        for (int64_t r = 0; r < rows; r++) {
            const double p = kept_of(choice, first + r);
            const double spread = choice->chance == ES_CHANCE_WITH ? p : p * (1.0 - p);
            together += spread * group->together[r];
            apart += spread * group->apart[r];
        }
    }
    return apart > 0.0 ? together / apart : 1.0;
}
