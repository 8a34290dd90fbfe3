/* SPDX-License-Identifier: Apache-2.0 */
/* policy_without.c : nodes of m draws without replacement from M keys, exactly.
 *
 * Sums over all sets of m keys are coefficients of z^m (THEORY 13): with e_j = e^{-x_j},
 *
 *     sum_S prod_S e_j = [z^m] P(z),   P(z) = prod (1 + z e_j),
 *
 * and means of sums over S, under the law tilted by e^{-lZ}, are those of keys kept on their own
 * with the complex probabilities q_j(z) = z e_j/(1 + z e_j). Cauchy's formula takes the coefficient
 * on the circle |z| = rho on which the probabilities sum to m at z = rho; there they are q_j, and
 * at angle theta, with d_j = 1 - q_j + q_j e^{i theta},
 *
 *     P(z) = P(rho) prod d_j,   q_j(z) = q_j e^{i theta}/d_j:
 *
 * the characteristic function of the number of keys kept on their own. K angles count sets of m +-
 * K, m +- 2K, ... keys, too, which that number reaches with a probability that Bennett's inequality
 * bounds: K = 8 standard deviations, of which the angles beyond 8 standard deviations of a Gaussian
 * are not needed either: about 10, whatever M. The number of all sets is summed in the same way, at
 * l = 0, so that errors in common cancel. */
#include "risk/policy_terms.h"

#include <math.h>

#include "risk/damping.h"

static const double TINY = 33.0;    /* -ln of what may be left out, 5e-15 */
static const double CENTRED = 0.02; /* keys by which the circle may miss m */
static const double TURN = 6.283185307179586476925;

/* One node being computed: x (count), q and 1 - q of the circle (count), |l g|^2 (count). */
typedef struct circle {
    es_risk_terms *r;
    double *x, *q, *p, *g2;
    double share;   /* (x_F/m): g = x u + share n_F, as in policy_nodes.c */
    double spread2; /* sum q (1 - q) */
    double *sums;   /* (2 ES_RISK_BATCH, width) */
} circle;

/* ---- the circle ---- */

/* q = 1/(1 + e^{x - saddle}); how many keys too many they are. */
static double fill(circle *c, double saddle)
{
    double sum = 0.0, spread2 = 0.0;
    for (int64_t j = 0; j < c->r->count; j++) {
        const double e = exp(-fabs(saddle - c->x[j])), less = e / (1.0 + e), more = 1.0 / (1.0 + e);
        c->q[j] = c->x[j] < saddle ? more : less;
        c->p[j] = c->x[j] < saddle ? less : more;
        sum += c->q[j];
        spread2 += c->q[j] * c->p[j];
    }
    c->spread2 = spread2;
    return sum - c->r->draws;
}

/* Newton's steps for ln rho, inside what is known to hold it. */
static void find_circle(circle *c)
{
    double low = -(double)INFINITY, high = (double)INFINITY, at = c->r->saddle;
    for (int i = 0; i < 300; i++) {
        const double over = fill(c, at);
        if (fabs(over) <= CENTRED)
            break;
        if (over > 0.0)
            high = at;
        else
            low = at;
        const double most = 2.0 + 0.5 * fabs(at);
        at -= fmax(-most, fmin(over / c->spread2, most));
        if (!(at > low && at < high)) /* both are known, or a step would not leave them */
            at = 0.5 * (low + high);
    }
    c->r->saddle = at;
}

/* ln P(rho) rho^{-m}: keys below the saddle have lost it, the others are small. A long sum of like
 * terms, of which only a little is left in the end: what additions round off is added afterwards.
 */
static double log_circle(const circle *c)
{
    const double saddle = c->r->saddle;
    double below = -c->r->draws, sum = 0.0, lost = 0.0;
    for (int64_t j = 0; j < c->r->count; j++) {
        const double under = c->x[j] < saddle ? c->x[j] : 0.0;
        const double term = log1p(exp(-fabs(saddle - c->x[j]))) - under, next = sum + term;
        below += c->x[j] < saddle ? 1.0 : 0.0;
        lost += fabs(sum) >= fabs(term) ? sum - next + term : term - next + sum;
        sum = next;
    }
    return sum + (lost + below * saddle);
}

/* An odd number of angles, enough by Bennett: P(|X - m| >= K) <= 2 e^{-v h(K/v)}, v the variance,
 * h(y) = (1 + y) ln(1 + y) - y. M + 1 are always enough. */
static int64_t angles_of(const circle *c)
{
    const double v = c->spread2, needed = TINY + log(2.0 + 5.0 * sqrt(v));
    int64_t K = 1;
    for (; K <= c->r->count; K += 2) {
        const double y = ((double)K - CENTRED) / v;
        if (!(v > 0.0) || v * ((1.0 + y) * log1p(y) - y) >= needed)
            break;
    }
    return K;
}

/* ---- angles ---- */

/* Keys are met in groups by a batch of angles: a group's values are read once for all of them. */
enum { GROUP = 4 };

/* What is summed at e^{i theta} = (cosine, sine), real and imaginary parts. */
typedef struct angle {
    double cosine, sine;
    double back[2], times;    /* e^{-i m theta}; how often it counts */
    double product[2];        /* of all d_j */
    double square[2], all[2]; /* sum q (1 - q) |g|^2, then of the whole; sum q */
    double some[2], once[2];
    double *real, *imag; /* (width) sum q x u, then the mean of l N */
} angle;

/* Adds a complex number, times a factor. */
static void add(double to[2], double real, double imag, double times)
{
    to[0] += real * times;
    to[1] += imag * times;
}

/* One key: q(z) x into *real, *imag. */
static void meet_key(const circle *c, angle *a, int64_t j, double *real, double *imag)
{
    const double q = c->q[j], p = c->p[j], x = c->x[j];
    const double dr = p + q * a->cosine, di = q * a->sine, size = 1.0 / (dr * dr + di * di);
    const double product = a->product[0] * dr - a->product[1] * di;
    a->product[1] = a->product[0] * di + a->product[1] * dr;
    a->product[0] = product;
    /* q e^{i theta}/d, and 1 less that, p/d */
    const double qr = q * (a->cosine * dr + a->sine * di) * size, qi = q * p * a->sine * size;
    const double er = p * dr * size, ei = -p * di * size;
    add(a->square, qr * er - qi * ei, qr * ei + qi * er, c->g2[j]);
    add(a->all, qr, qi, 1.0);
    add(a->some, qr, qi, x > 0.0 ? 1.0 : 0.0);
    add(a->once, qr, qi, x);
    *real = qr * x;
    *imag = qi * x;
}

/* `count` keys, GROUP at most, from `first` on. */
static void meet_group(const circle *c, angle *a, int64_t first, int64_t count)
{
    const int64_t width = c->r->width;
    const double *u[GROUP];
    double real[GROUP] = {0}, imag[GROUP] = {0};
    for (int64_t i = 0; i < GROUP; i++)
        u[i] = c->r->u + (i < count ? first + i : first) * width;
    for (int64_t i = 0; i < count; i++)
        meet_key(c, a, first + i, &real[i], &imag[i]);
    for (int64_t l = 0; l < width; l++) {
        const double u0 = u[0][l], u1 = u[1][l], u2 = u[2][l], u3 = u[3][l];
        a->real[l] += (real[0] * u0 + real[1] * u1) + (real[2] * u2 + real[3] * u3);
        a->imag[l] += (imag[0] * u0 + imag[1] * u1) + (imag[2] * u2 + imag[3] * u3);
    }
}

/* Starts the product over keys at angle k of K on the circle |z| = rho. The factor z^-m is
 * taken as e^(-i m theta) with m reduced modulo K, so that large m lose no digits. */
static void begin_angle(const circle *c, int64_t k, int64_t K, angle *a)
{
    const int64_t m = (int64_t)c->r->draws % K;
    const double theta = TURN * (double)k / (double)K;
    const double back = -TURN * (double)(k * m % K) / (double)K;
    double *real = a->real, *imag = a->imag;
    for (int64_t l = 0; l < c->r->width; l++)
        real[l] = imag[l] = 0.0;
    *a = (angle){.cosine = cos(theta),
                 .sine = sin(theta),
                 .back = {cos(back), sin(back)},
                 .times = k == 0 ? 1.0 : 2.0, /* -theta is its conjugate */
                 .product = {1.0, 0.0},
                 .real = real,
                 .imag = imag};
}

/* Real parts into the node; its share of the product. */
static double end_angle(const circle *c, angle *a, es_risk_node *out)
{
    const es_risk_terms *r = c->r;
    for (int64_t l = 0; l < r->width; l++) {
        const double x = a->real[l] += a->all[0] * c->share * r->sure[l];
        const double y = a->imag[l] += a->all[1] * c->share * r->sure[l];
        add(a->square, x * x - y * y, 2.0 * x * y, 1.0); /* the square, not of a magnitude */
    }
    const double fr = a->times * (a->product[0] * a->back[0] - a->product[1] * a->back[1]);
    const double fi = a->times * (a->product[0] * a->back[1] + a->product[1] * a->back[0]);
    out->square += fr * a->square[0] - fi * a->square[1];
    out->some += fr * a->some[0] - fi * a->some[1];
    out->once += fr * a->once[0] - fi * a->once[1];
    for (int64_t l = 0; l < r->width; l++)
        out->mean[l] += fr * a->real[l] - fi * a->imag[l];
    return fr;
}

/* ---- the node ---- */

/* Angles `first` and on, as many as a batch has and K needs; how many. |prod d| <= e^{-v (1-cos)}.
 */
static int64_t go_batch(circle *c, int64_t first, int64_t K, double *product, es_risk_node *out)
{
    angle batch[ES_RISK_BATCH];
    const int64_t count = c->r->count, width = c->r->width;
    int64_t angles = 0;
    for (; angles < ES_RISK_BATCH && first + angles <= K / 2; angles++) {
        const double theta = TURN * (double)(first + angles) / (double)K;
        if (c->spread2 * (1.0 - cos(theta)) > TINY)
            break;
        batch[angles].real = c->sums + 2 * angles * width;
        batch[angles].imag = c->sums + (2 * angles + 1) * width;
        begin_angle(c, first + angles, K, &batch[angles]);
    }
    for (int64_t j = 0; j < count; j += GROUP)
        for (int64_t k = 0; k < angles; k++)
            meet_group(c, &batch[k], j, count - j < GROUP ? count - j : GROUP);
    for (int64_t k = 0; k < angles; k++)
        *product += end_angle(c, &batch[k], out);
    return angles;
}

/* Sums over all angles and divides: Cauchy's formula for the coefficient of z^m (THEORY 13
 * (W1)). Rounding may leave a negative square where every N is 0. */
static void go_round(circle *c, es_risk_node *out)
{
    const int64_t K = angles_of(c);
    double product = 0.0;
    out->square = out->some = out->once = 0.0;
    for (int64_t l = 0; l < c->r->width; l++)
        out->mean[l] = 0.0;
    for (int64_t k = 0, done = ES_RISK_BATCH; done == ES_RISK_BATCH; k += done)
        done = go_batch(c, k, K, &product, out);
    out->log_mean = log_circle(c) + log(product / (double)K);
    out->square = fmax(out->square / product, 0.0); /* rounding, where every N is 0 */
    out->some /= product;
    out->once /= product;
    for (int64_t l = 0; l < c->r->width; l++)
        out->mean[l] /= product;
}

/* Points the arrays of a circle into the scratch memory of the terms. */
static circle circle_of(es_risk_terms *r)
{
    double *scratch = r->scratch;
    const int64_t n = r->count;
    return (circle){.r = r,
                    .x = scratch,
                    .q = scratch + n,
                    .p = scratch + 2 * n,
                    .g2 = scratch + 3 * n,
                    .sums = scratch + 4 * n};
}

void es_risk_without_at(es_risk_terms *r, double t, es_risk_node *out)
{
    circle c = circle_of(r);
    c.share = exp(t + r->log_sure) / r->draws;
    for (int64_t j = 0; j < r->count; j++) {
        const double x = exp(fmin(t + r->s[j], 12.0)); /* e^12: far beyond 745 = -ln of the least */
        c.x[j] = x;
        c.g2[j] = x * (x * r->u2[j] + 2.0 * c.share * r->along[j]) + c.share * c.share * r->sure2;
    }
    find_circle(&c);
    go_round(&c, out);
    out->log_mean -= r->log_choose;
}

void es_risk_without_begin(es_risk_terms *r)
{
    circle c = circle_of(r);
    es_risk_node node = {.mean = r->scratch + 4 * r->count + 2 * ES_RISK_BATCH * r->width};
    r->saddle = log(r->draws) - log((double)r->count - r->draws);
    for (int64_t j = 0; j < r->count; j++)
        c.x[j] = c.g2[j] = 0.0;
    find_circle(&c);
    go_round(&c, &node);
    r->log_choose = node.log_mean;
}
