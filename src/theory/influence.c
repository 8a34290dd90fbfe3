/* SPDX-License-Identifier: Apache-2.0 */
/* influence.c : what one token does to the output of a query (THEORY 4.5): tables on the lattice of
 * rem.h, their Hermite coefficients, and products of two queries' averaged over the token. */
#include "theory/influence.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/rem.h"

#define FAR 36.0 /* e^-FAR is nothing */

/* Expectations given the score of a token: its weight w and w^2, the others' sum of w_i^2, and of
 * S = sum over the others of w_i (g_i - q): S, w S, S^2. */
typedef struct given {
    double weight, weight_squared, part, others, cross, others_squared;
} given;

/* Gamma = w eta + (S + q (1 - w)) e + what is across; `mean` is E S before eta was given. */
static es_influence influence(const given *x, double q, double mean)
{
    const double W = x->weight, W2 = x->weight_squared;
    return (es_influence){.weight = W,
                          .along = x->others - mean - q * W,
                          .weight_squared = W2,
                          .cross = x->cross + q * (W - W2),
                          .square = x->others_squared + 2.0 * q * (x->others - x->cross) +
                                    q * q * (1.0 - 2.0 * W + W2),
                          .part = x->part};
}

es_influence es_influence_of(const es_rem_extra *x, double q, double participation)
{
    const given g = {x->weight, x->weight_squared, x->participation,
                     x->others, -q * x->cross,     x->others_squared};
    return influence(&g, q, -q * participation);
}

/* ---- densities of the others ---- */

/* In l, to be met by the kernel of a token: of everything, of sum w_i^2, of S and S^2; and their
 * sums from above, which is what remains where the kernel is 1. */
typedef struct density {
    const double *all, *part, *first, *two;
    double *part_above, *first_above, *two_above;
    double *memory;
} density;

/* Writes partial sums, from the largest on. */
static void sum_from_top(const double *from, int64_t count, double *to)
{
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++)
        to[j] = sum += from[j];
}

/* A token r e joins the others, with score a = q r and g = r: each density f becomes that of f with
 * its weight w_a added, which has the kernel e^{k(a-l)} e^{-e^{a-l}} for w_a^k. */
static void join(const es_scores *s, const es_rem_density *f, double r, double *first)
{
    const double q = s->q, more = r - q;
    double l = s->top;
    for (int64_t j = 0; j < s->count; j++, l -= s->step) {
        const double e = exp(q * r - l), k0 = exp(-e), all = f->all[j], part = f->one[j];
        const double k1 = k0 > 0.0 ? e * k0 : 0.0, k2 = k0 > 0.0 ? e * k1 : 0.0;
        first[j] = more * k1 * all - q * k0 * part;
        f->two[j] = k0 * f->two[j] + more * more * k2 * all - 2.0 * q * more * k1 * part;
        f->one[j] *= k0;
        f->all[j] *= k0;
    }
}

/* Of s->n others, and of a token at r e unless r is NaN. */
static es_status density_make(es_scores *s, double r, density *out, es_error *err)
{
    double *first;
    ES_TRY(ES_MEM_NEW_2D(s->budget, first, s->count, 4, "influence", err));
    es_rem_density f;
    es_rem_others(s, &f);
    if (isnan(r))
        for (int64_t j = 0; j < s->count; j++)
            first[j] = -s->q * f.one[j];
    else
        join(s, &f, r, first);
    *out = (density){.all = f.all, .part = f.one, .first = first, .two = f.two, .memory = first};
    out->part_above = first + s->count;
    out->first_above = out->part_above + s->count;
    out->two_above = out->first_above + s->count;
    sum_from_top(out->part, s->count, out->part_above);
    sum_from_top(out->first, s->count, out->first_above);
    sum_from_top(out->two, s->count, out->two_above);
    return ES_OK;
}

/* ---- tables ---- */

/* Expectations given a token of score index * delta. Kernels come from the tables of rem.h. */
static given with_lattice(const es_scores *s, const density *f, int64_t index)
{
    const int64_t far = (int64_t)(FAR / s->delta);
    int64_t j = (s->top_index - index - far + s->stride - 1) / s->stride;
    j = j < 0 ? 0 : j > s->count ? s->count : j;
    given g = {0};
    if (j > 0) {
        g.part = f->part_above[j - 1];
        g.others = f->first_above[j - 1];
        g.others_squared = f->two_above[j - 1];
    }
    for (; j < s->count; j++) {
        const int64_t x = index - s->top_index + j * s->stride;
        if (x > s->kernel_high)
            break;
        const double k0 = 1.0 - s->kernel[0][x - s->kernel_low];
        const double k1 = s->kernel[1][x - s->kernel_low];
        g.weight += k1 * f->all[j];
        g.weight_squared += s->kernel[2][x - s->kernel_low] * f->all[j];
        g.part += k0 * f->part[j];
        g.others += k0 * f->first[j];
        g.cross += k1 * f->first[j];
        g.others_squared += k0 * f->two[j];
    }
    double *all[] = {&g.weight, &g.weight_squared, &g.part, &g.others, &g.cross, &g.others_squared};
    for (int i = 0; i < ES_INFLUENCES; i++)
        *all[i] *= s->step;
    return g;
}

/* table += factor * influence among `others`, and a token at r e unless r is NaN; `mean` as in
 * influence(). */
static es_status add(double others, double q, double r, double mean, double factor,
                     es_mem_limit *budget, es_influence_table *table, es_error *err)
{
    const double widest = (double)table->half * ES_INFLUENCE_STEP;
    const es_scores_grid grid = {.extra_most = q * fmax(widest, isnan(r) ? 0.0 : r),
                                 .extra_space = ES_INFLUENCE_STEP};
    es_scores s;
    density f;
    ES_TRY(es_scores_make(others, q, &grid, budget, &s, err));
    const es_status status = density_make(&s, r, &f, err);
    const int64_t space = (int64_t)round(q * ES_INFLUENCE_STEP / s.delta);
    for (int64_t i = 0; i < table->count && status == ES_OK; i++) {
        const given g = with_lattice(&s, &f, (i - table->half) * space);
        const es_influence here = influence(&g, q, mean);
        const double *from = (const double *)&here;
        double *to = (double *)&table->at[i];
        for (int k = 0; k < ES_INFLUENCES; k++)
            to[k] += factor * from[k];
    }
    if (status == ES_OK)
        es_mem_free(budget, f.memory);
    es_scores_free(&s);
    return status;
}

es_status es_influence_add(double n, double q, double factor, es_mem_limit *budget,
                           es_influence_table *table, es_rem *moments, es_error *err)
{
    ES_TRY(es_rem_moments(n, q, budget, moments, err));
    return add(n - 1.0, q, NAN, -q * moments->participation, factor, budget, table, err);
}

es_status es_influence_add_beside(double n, double q, double r, double factor, es_mem_limit *budget,
                                  es_influence_table *table, es_error *err)
{
    const double a = q * r;
    es_rem_extra x;
    ES_TRY(es_rem_extra_at(n - 1.0, q, &a, 1, budget, &x, err));
    const double mean = x.others + (r - q) * x.weight;
    return add(n - 2.0, q, r, mean, factor, budget, table, err);
}

/* Interpolates all functions at t by the cubic through the four nearest points. */
es_influence es_influence_at(const es_influence_table *table, double t)
{
    const double x = t / ES_INFLUENCE_STEP + (double)table->half;
    int64_t i = (int64_t)floor(x);
    i = i < 1 ? 1 : i > table->count - 3 ? table->count - 3 : i;
    const double u = x - (double)i;
    const double weights[4] = {-u * (u - 1) * (u - 2) / 6, (u + 1) * (u - 1) * (u - 2) / 2,
                               -(u + 1) * u * (u - 2) / 2, (u + 1) * u * (u - 1) / 6};
    es_influence out = {0};
    double *to = (double *)&out;
    for (int j = 0; j < 4; j++) {
        const double *from = (const double *)&table->at[i - 1 + j];
        for (int k = 0; k < ES_INFLUENCES; k++)
            to[k] += weights[j] * from[k];
    }
    return out;
}

/* ==== expansions ====
 * f(t) = sum f_k h_k(t), f_k = E f(t) h_k(t) under the normal law of t. Two queries at an angle see
 * t and t' with correlation rho, and E h_j(t) h_k(t') = rho^k for j = k, else 0 (Mehler): averages
 * over a token of products become power series in rho. */

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

/* Fills the table and the expansion of one node of log q. */
static es_status make_node(es_expansions *s, int64_t i, double n, int64_t half, es_error *err)
{
    es_influence_table *table = &s->tables[i];
    *table = (es_influence_table){.half = half, .count = 2 * half + 1};
    ES_TRY(ES_ARENA_NEW(&s->arena, table->at, table->count, "influence", err));
    const double q = exp(s->low + (double)i * s->space);
    es_rem moments;
    ES_TRY(es_influence_add(n, q, 1.0, s->arena.budget, table, &moments, err));
    s->at[i].moments = moments;
    s->at[i].q = q;
    expand(table, &s->at[i]);
    return ES_OK;
}

es_status es_expansion_beside(double n, double q, double r, es_mem_limit *budget,
                              es_influence_table *table, es_expansion *out, es_error *err)
{
    *out = (es_expansion){.q = q};
    ES_TRY(es_influence_add_beside(n, q, r, 1.0, budget, table, err));
    expand(table, out);
    return ES_OK;
}

es_status es_expansions_make(double n, double low, double high, double widest, es_mem_limit *budget,
                             es_expansions *out, es_error *err)
{
    const double span = log(high / low);
    const int64_t nodes = (int64_t)fmax(4.0, ceil(span / SPACE) + 1.0);
    *out = (es_expansions){.nodes = nodes, .n = n, .low = log(low), .arena.budget = budget};
    out->space = fmax(span, 1e-3) / (double)(nodes - 1);
    es_status status = ES_ARENA_NEW(&out->arena, out->at, nodes, "influence", err);
    if (status == ES_OK)
        status = ES_ARENA_NEW(&out->arena, out->tables, nodes, "influence", err);
    const int64_t half = (int64_t)ceil(widest / ES_INFLUENCE_STEP) + 2;
    for (int64_t i = 0; i < nodes && status == ES_OK; i++)
        status = make_node(out, i, n, half, err);
    if (status != ES_OK)
        es_expansions_free(out);
    return status;
}

void es_expansions_free(es_expansions *s)
{
    es_arena_free(&s->arena);
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

/* Interpolates the influence functions in log q, over the tables of four nodes. */
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

/* ==== pairs ====
 * g = e - rho f and h = f - rho e are what is left of one direction across the other. */

double es_direction_pair_mean(const es_direction_pair *x, const es_expansion *a,
                              const es_expansion *b)
{
    const double rho = x->rho, square = rho * rho;
    const double gQe = x->ee - rho * x->ef, hQf = x->ff - rho * x->ef;
    const double hQg = (1.0 + square) * x->ef - rho * (x->ee + x->ff);
    const double across = x->trace - x->ee - x->ff + rho * x->ef; /* tr Q P'P */
    double sum = 0.0, power = 1.0, lower = 0.0;                   /* rho^{k-1}, rho^{k-2} */
    for (int k = 1; k <= ES_HERMITE; k += 2) {
        const double root = sqrt((double)k), W = a->W[k - 1], W_ = b->W[k - 1];
        sum += power * rho * a->A1[k] * b->A1[k] * x->ef;
        sum += power * root * (a->A1[k] * W_ * gQe + b->A1[k] * W * hQf);
        sum += W * W_ * (power * across + (k - 1) * lower * hQg);
        lower = power * rho;
        power *= square;
    }
    return sum;
}

/* The parts of es_direction_pair_cov() that do not depend on the order. */
typedef struct contraction {
    double rho, gQe, hQf, hQg, across;
    double mixed; /* e'Q P'P Q f */
    double Z, Z_; /* g'Q PP' Q e, h'Q P'P Q f */
    double Y;     /* h'Q P'P Q g */
    double loop;  /* tr PP'Q PP'Q */
    double g2g, h2h, g2f, h2e;
} contraction;

/* Computes the contractions of Q and Q^2 with the directions g = e - rho f and h = f - rho e,
 * which order_of() combines with Hermite coefficients. Written out once, because both queries
 * use all of them. */
static contraction contract(const es_direction_pair *x)
{
    const double rho = x->rho, p = x->ee, r = x->ff, s = x->ef;
    const double gQf = s - rho * r, hQe = s - rho * p;
    contraction c = {.rho = rho, .gQe = p - rho * s, .hQf = r - rho * s};
    c.hQg = (1.0 + rho * rho) * s - rho * (p + r);
    c.across = x->trace - p - r + rho * s;
    c.mixed = x->ef2 - s * r - p * s + rho * s * s;
    c.g2f = x->ef2 - rho * x->ff2;
    c.h2e = x->ef2 - rho * x->ee2;
    c.g2g = x->ee2 - 2.0 * rho * x->ef2 + rho * rho * x->ff2;
    c.h2h = x->ff2 - 2.0 * rho * x->ef2 + rho * rho * x->ee2;
    c.Z = x->ee2 - rho * x->ef2 - gQf * s - c.gQe * (p - rho * s);
    c.Z_ = x->ff2 - rho * x->ef2 - hQe * s - c.hQf * (r - rho * s);
    c.Y = x->ef2 * (1.0 + rho * rho) - rho * (x->ee2 + x->ff2) - c.hQf * gQf - hQe * c.gQe +
          rho * c.hQf * c.gQe;
    c.loop = x->trace2 - 2.0 * (x->ee2 + x->ff2 - rho * x->ef2) + p * p + r * r +
             s * s * (2.0 + rho * rho) - 2.0 * rho * s * (p + r);
    return c;
}

/* Order k of one query: scalar parts A2, C2 of order k, B2 of k-1, W2 of k-2. */
typedef struct order {
    double A, C, B, W;
} order;

/* Contribution of order k; power[j] = rho^{k-4+j}, 0 for negative exponents. */
static double order_of(const es_direction_pair *x, const contraction *c, int k,
                       const double power[5], order a, order b)
{
    const double s = x->ef, s2 = s * s, root = sqrt((double)k), less = sqrt((double)(k - 1));
    double sum =
        power[4] * (a.A * b.A * s2 + a.A * b.C * (x->ee2 - s2) + a.C * b.A * (x->ff2 - s2) +
                    a.C * b.C * (x->trace2 - x->ee2 - x->ff2 + s2));
    sum += 2.0 * root * power[3] *
           (b.B * (a.C * c->g2f + (a.A - a.C) * s * c->gQe) +
            a.B * (b.C * c->h2e + (b.A - b.C) * s * c->hQf));
    sum += root * less * power[2] *
           (b.W * (a.C * c->g2g + (a.A - a.C) * c->gQe * c->gQe) +
            a.W * (b.C * c->h2h + (b.A - b.C) * c->hQf * c->hQf));
    sum += 2.0 * a.B * b.B *
           (power[3] * (c->mixed + s * c->across) +
            (k - 1) * power[2] * (c->gQe * c->hQf + s * c->hQg));
    sum += 2.0 * less *
           (a.B * b.W *
                ((k - 2) * power[1] * c->gQe * c->hQg + power[2] * (c->gQe * c->across + c->Z)) +
            b.B * a.W *
                ((k - 2) * power[1] * c->hQf * c->hQg + power[2] * (c->hQf * c->across + c->Z_)));
    sum += a.W * b.W *
           (power[2] * (c->loop + c->across * c->across) +
            2.0 * (k - 2) * power[1] * (c->Y + c->across * c->hQg) +
            (double)((k - 2) * (k - 3)) * power[0] * c->hQg * c->hQg);
    return sum;
}

/* Returns E_eta of the product of two queries' conditional second moments, as a series in rho = <e,
 * f> over even orders of the Hermite coefficients (THEORY 4.5). */
double es_direction_pair_cov(const es_direction_pair *x, const es_expansion *a,
                             const es_expansion *b)
{
    const contraction c = contract(x);
    const double rho = x->rho;
    double power[5] = {0.0, 0.0, 1.0, rho, rho * rho}, sum = 0.0;
    for (int k = 2; k <= ES_HERMITE; k += 2) {
        const order one = {a->A2[k], a->C2[k], a->B2[k - 1], a->W2[k - 2]};
        const order two = {b->A2[k], b->C2[k], b->B2[k - 1], b->W2[k - 2]};
        sum += order_of(x, &c, k, power, one, two);
        power[0] = power[2], power[1] = power[3], power[2] = power[4];
        power[3] = power[2] * rho, power[4] = power[3] * rho;
    }
    return sum;
}
