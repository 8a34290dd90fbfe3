/* SPDX-License-Identifier: Apache-2.0 */
/* integral.c : the integral of THEORY 13 over t = ln l, whatever its nodes are of. */
#include "risk/integral.h"

#include <math.h>

#include "risk/damping.h"

static const double ENDS = 1e-12; /* that each end may leave */

es_risk_accuracy es_risk_accuracy_of(double tolerance)
{
    es_risk_accuracy a = {.step = ES_DAMPING_STEP, .rule = ES_DAMPING_RULE, .ends = ENDS};
    if (!(tolerance > ES_RISK_FINEST))
        return a;
    while (es_damping_rule(a.step + 1.0 / 64.0) <= 0.5 * tolerance)
        a.step += 1.0 / 64.0;
    a.rule = es_damping_rule(a.step);
    a.ends = 0.125 * tolerance;
    return a;
}

/* Node k, of those that are made together, which begin or end with it. */
static const es_risk_node *node_at(es_risk_integral *in, int64_t k, bool rightwards)
{
    if (in->count == 0 || k < in->first || k >= in->first + in->count) {
        in->count = in->together;
        in->first = rightwards ? k : k - in->count + 1;
        in->nodes_at(in->user, in->a.step * (double)in->first, in->a.step, in->node);
    }
    return &in->node[k - in->first];
}

/* Adds node k of the integral: e^(-l Z_F) prod D_j times the square and the mean of N (THEORY
 * 13). `end` bounds what is left beyond this node. */
static void add_node(es_risk_integral *in, int64_t k, bool rightwards)
{
    const double sure = exp(in->a.step * (double)k + in->log_sure);
    const es_risk_node *n = node_at(in, k, rightwards);
    const double times = exp(n->log_mean - sure);
    in->end = 0.0;
    if (!(times > 0.0))
        return;
    in->square += times * n->square;
    for (int64_t l = 0; l < in->width; l++)
        in->bias[l] += times * n->mean[l];
    const double some = sure > 0.0 ? 1.0 + sure : n->some;
    in->end = in->reach * in->reach * times * (some + n->once);
}

/* Sums over all nodes below k, were e^{-lZ} 1: of l^2 and of l, in the moments' unit. */
static double below2(const es_risk_integral *in, int64_t k)
{
    return exp(2.0 * (in->a.step * (double)k + in->m.log_unit)) / expm1(2.0 * in->a.step);
}

/* Returns the part of the integral left of its first node, a geometric series. */
static double below1(const es_risk_integral *in, int64_t k)
{
    return exp(in->a.step * (double)k + in->m.log_unit) / expm1(in->a.step);
}

/* Returns whether the nodes left of k still matter. What is left of them is at most E|N|^2
 * times a geometric series, and for the mean E|N| times one. */
static bool more_on_the_left(const es_risk_integral *in, int64_t k)
{
    const es_risk_moments *m = &in->m;
    const double l = exp(in->a.step * (double)k + m->log_unit), two = below2(in, k);
    const double rest = fmin(1.0, l * m->most_z), square = in->square;
    return m->square * two * rest > in->a.ends * square ||
           in->a.step * two * sqrt(m->square * m->most_z * m->z) >
               10.0 * in->a.ends * sqrt(in->a.step * square);
}

/* Marks that the next nodes are far from the last. */
static void begin(const es_risk_integral *in)
{
    if (in->begin)
        in->begin(in->user);
}

/* From where l E Z = 1 to the right, then to the left. Both ends come: doubly exponentially on the
 * right, where x_F or the smallest sum of m x's passes 745 and a node is zero, like e^{3t} on the
 * left. */
void es_risk_integrate(es_risk_integral *in)
{
    const es_risk_moments *m = &in->m;
    const int64_t middle = (int64_t)floor(-(m->log_unit + log(m->z)) / in->a.step);
    int64_t k = middle;
    begin(in);
    do
        add_node(in, k, true);
    while (k++, in->end > in->a.ends * in->a.step * in->square);
    begin(in); /* the last node is far away */
    for (k = middle; more_on_the_left(in, k);)
        add_node(in, --k, false);
    in->square += m->square * below2(in, k);
    for (int64_t l = 0; l < in->width; l++)
        in->bias[l] += m->mean[l] * below1(in, k);
}
