/* pairs.c : the contractions. g = e - rho f and h = f - rho e are what is left of one direction
 * across the other. */
#include "theory/pairs.h"

#include <math.h>

double es_pair_mean(const es_pair *x, const es_expansion *a, const es_expansion *b)
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

/* The parts of es_pair_cov() that do not depend on the order. */
typedef struct contraction {
    double rho, gQe, hQf, hQg, across;
    double mixed; /* e'Q P'P Q f */
    double Z, Z_; /* g'Q PP' Q e, h'Q P'P Q f */
    double Y;     /* h'Q P'P Q g */
    double loop;  /* tr PP'Q PP'Q */
    double g2g, h2h, g2f, h2e;
} contraction;

static contraction contract(const es_pair *x)
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
static double order_of(const es_pair *x, const contraction *c, int k, const double power[5],
                       order a, order b)
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

double es_pair_cov(const es_pair *x, const es_expansion *a, const es_expansion *b)
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
