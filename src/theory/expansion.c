/* expansion.c : Hermite coefficients of a token's influence (THEORY 4.5).
 *
 * f(t) = sum f_k h_k(t), f_k = E f(t) h_k(t) under the normal law of t. Two queries at an angle see
 * t and t' with correlation rho, and E h_j(t) h_k(t') = rho^k for j = k, else 0 (Mehler): averages
 * over a token of products become power series in rho. */
#include "theory/expansion.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

#define SPACE 0.15 /* of nodes in log q: cubic interpolation is then good to 1e-4 */

/* Project the functions of one table on h_0 .. h_ES_HERMITE under the normal law of t. */
static void expand(const es_influence_table *table, es_expansion *out)
{
    for (int64_t i = 0; i < table->count; i++) {
        const double t = (double)(i - table->half) * ES_INFLUENCE_STEP;
        const double f = 0.3989422804014327 * ES_INFLUENCE_STEP * exp(-0.5 * t * t);
        const es_influence x = table->at[i];
        const double a1 = x.weight * t + x.along;
        const double b2 = x.weight_squared * t + x.cross;
        const double a2 = b2 * t + x.cross * t + x.square;
        double h = f, before = 0.0;
        for (int k = 0; k <= ES_HERMITE; k++) {
            out->A1[k] += h * a1;
            out->W[k] += h * x.weight;
            out->A2[k] += h * a2;
            out->C2[k] += h * (x.part + x.weight_squared);
            out->B2[k] += h * b2;
            out->W2[k] += h * x.weight_squared;
            const double next = (t * h - sqrt((double)k) * before) / sqrt((double)(k + 1));
            before = h;
            h = next;
        }
    }
}

static es_status make_node(es_expansions *s, int64_t i, double n, int64_t half, es_error *err)
{
    es_influence_table *table = &s->tables[i];
    void *memory;
    *table = (es_influence_table){.half = half, .count = 2 * half + 1};
    ES_TRY(
        es_mem_array(s->budget, table->count, 1, sizeof(es_influence), "influence", &memory, err));
    table->at = memory;
    const double q = exp(s->low + (double)i * s->space);
    es_rem moments;
    ES_TRY(es_influence_add(n, q, 1.0, s->budget, table, &moments, err));
    s->at[i].moments = moments;
    s->at[i].q = q;
    expand(table, &s->at[i]);
    return ES_OK;
}

es_status es_expansion_beside(double n, double q, double r, es_budget *budget,
                              es_influence_table *table, es_expansion *out, es_error *err)
{
    *out = (es_expansion){.q = q};
    ES_TRY(es_influence_add_beside(n, q, r, 1.0, budget, table, err));
    expand(table, out);
    return ES_OK;
}

es_status es_expansions_make(double n, double low, double high, double widest, es_budget *budget,
                             es_expansions *out, es_error *err)
{
    const double span = log(high / low);
    const int64_t nodes = (int64_t)fmax(4.0, ceil(span / SPACE) + 1.0);
    *out = (es_expansions){.nodes = nodes, .n = n, .low = log(low), .budget = budget};
    out->space = fmax(span, 1e-3) / (double)(nodes - 1);
    void *at, *tables;
    ES_TRY(es_mem_array(budget, nodes, 1, sizeof(es_expansion), "influence", &at, err));
    out->at = at;
    es_status status =
        es_mem_array(budget, nodes, 1, sizeof(es_influence_table), "influence", &tables, err);
    if (status == ES_OK)
        out->tables = tables;
    const int64_t half = (int64_t)ceil(widest / ES_INFLUENCE_STEP) + 2;
    for (int64_t i = 0; i < nodes && status == ES_OK; i++)
        status = make_node(out, i, n, half, err);
    if (status != ES_OK)
        es_expansions_free(out);
    return status;
}

void es_expansions_free(es_expansions *s)
{
    for (int64_t i = 0; s->tables && i < s->nodes; i++)
        es_mem_free(s->budget, s->tables[i].at);
    es_mem_free(s->budget, s->tables);
    es_mem_free(s->budget, s->at);
    *s = (es_expansions){0};
}

/* The four nodes around log q, and their weights in cubic interpolation. */
static int64_t around(const es_expansions *s, double q, double weights[4])
{
    const double x = (log(q) - s->low) / s->space;
    int64_t i = (int64_t)floor(x);
    i = i < 1 ? 1 : i > s->nodes - 3 ? s->nodes - 3 : i;
    const double u = x - (double)i;
    weights[0] = -u * (u - 1) * (u - 2) / 6;
    weights[1] = (u + 1) * (u - 1) * (u - 2) / 2;
    weights[2] = -(u + 1) * u * (u - 2) / 2;
    weights[3] = (u + 1) * u * (u - 1) / 6;
    return i - 1;
}

/* All members of both structs are doubles. */
static void blend(const double *from, double weight, size_t count, double *to)
{
    for (size_t k = 0; k < count; k++)
        to[k] += weight * from[k];
}

void es_expansions_at(const es_expansions *s, double q, es_expansion *out)
{
    double weights[4];
    const int64_t first = around(s, q, weights);
    memset(out, 0, sizeof *out);
    for (int j = 0; j < 4; j++)
        blend((const double *)&s->at[first + j], weights[j], sizeof *out / sizeof(double),
              (double *)out);
    out->q = q;
}

void es_expansions_moments(const es_expansions *s, double q, es_rem *out)
{
    double weights[4];
    const int64_t first = around(s, q, weights);
    memset(out, 0, sizeof *out);
    for (int j = 0; j < 4; j++)
        blend((const double *)&s->at[first + j].moments, weights[j], sizeof *out / sizeof(double),
              (double *)out);
}

es_influence es_expansions_influence(const es_expansions *s, double q, double t)
{
    double weights[4];
    const int64_t first = around(s, q, weights);
    es_influence out = {0};
    for (int j = 0; j < 4; j++) {
        const es_influence here = es_influence_at(&s->tables[first + j], t);
        blend((const double *)&here, weights[j], ES_INFLUENCES, (double *)&out);
    }
    return out;
}
