/* second.c : Hermite coefficients of one token's kernel at every l, multiplied in pairs. */
#include "theory/second.h"

#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "theory/scores.h"

#define WIDEST 8.5     /* t is a standard normal */
#define SPACE  0.125   /* h_16 has waves of length 1.6 */
enum { POINTS = 137 }; /* from -WIDEST to WIDEST */

/* h_k(t), k <= ES_SECOND_ORDERS, times the normal density, at every t, as letters of a token: t h_k
 * along, h_{k-1} across. */
typedef struct alphabet {
    double at[POINTS][ES_LETTERS];
} alphabet;

static void fill_alphabet(alphabet *x)
{
    for (int i = 0; i < POINTS; i++) {
        const double t = -WIDEST + SPACE * i;
        double h = 0.3989422804014327 * SPACE * exp(-0.5 * t * t), before = 0.0;
        for (int k = 1; k <= ES_SECOND_ORDERS; k++) {
            x->at[i][2 * (k - 1) + 1] = h;
            const double next = (t * h - sqrt((double)(k - 1)) * before) / sqrt((double)k);
            before = h;
            h = next;
            x->at[i][2 * (k - 1)] = h * t;
        }
    }
}

/* Hermite coefficients of g at one l. */
static void letters_at(const alphabet *x, double q, double l, double *row)
{
    for (int a = 0; a < ES_LETTERS; a++)
        row[a] = 0.0;
    for (int i = 0; i < POINTS; i++) {
        const double score = q * (-WIDEST + SPACE * i) - l;
        if (score < -40.0 || score > 4.5) /* s e^-s is nothing */
            continue;
        const double kernel = exp(score - exp(score));
        for (int a = 0; a < ES_LETTERS; a++)
            row[a] += kernel * x->at[i][a];
    }
}

es_status es_second_add(double n, double q, double r, double factor, es_budget *budget,
                        es_second *out, es_error *err)
{
    const double others = n - (isnan(r) ? 2.0 : 3.0);
    const es_scores_grid grid = {.extra_most = q * (isnan(r) ? WIDEST : fmax(r, WIDEST))};
    es_scores s;
    alphabet x;
    fill_alphabet(&x);
    ES_TRY(es_scores_make(fmax(others, 1.0), q, &grid, budget, &s, err));
    for (int64_t j = 0; j < s.count; j++) {
        const double l = s.top - (double)j * s.step;
        double density = factor * s.step * es_scores_power(s.tail[j], others);
        if (!isnan(r))
            density *= exp(-exp(q * r - l));
        if (density < 1e-300)
            continue;
        double row[ES_LETTERS];
        letters_at(&x, q, l, row);
        for (int a = 0; a < ES_LETTERS; a++)
            for (int b = 0; b < ES_LETTERS; b++)
                out->at[a][b] += density * row[a] * row[b];
    }
    es_scores_free(&s);
    return ES_OK;
}

/* tr E_y g g'' = sum over k and over letters a of g, b of g'' of factor[k][a][b] a_k b_k. */
static void trace_factors(double rho, double d, double factor[ES_SECOND_ORDERS][2][2])
{
    const double across = 1.0 - rho * rho;
    double power = 1.0; /* rho^{k-1} */
    for (int k = 1; k <= ES_SECOND_ORDERS; k++, power *= rho) {
        factor[k - 1][0][0] = power * rho * rho;
        factor[k - 1][0][1] = factor[k - 1][1][0] = sqrt((double)k) * power * across;
        factor[k - 1][1][1] = power * (d - 1.0 - k * across);
    }
}

/* E (tr E_y g g'')^2 over l and both q, at one rho. */
static double square_at(const es_second *s, double rho, double d)
{
    double f[ES_SECOND_ORDERS][2][2], sum = 0.0;
    trace_factors(rho, d, f);
    for (int k = 0; k < ES_SECOND_ORDERS; k++)
        for (int m = k % 2; m < ES_SECOND_ORDERS; m += 2)
            for (int i = 0; i < 16; i++) {
                const int a = i & 1, b = i >> 1 & 1, c = i >> 2 & 1, e = i >> 3;
                sum += f[k][a][b] * f[m][c][e] * s->at[2 * k + a][2 * m + c] *
                       s->at[2 * k + b][2 * m + e];
            }
    return sum;
}

double es_second_variance(const es_second *s, int64_t d, double n, double w)
{
    enum { ANGLES = 64 };
    const double D = (double)d;
    double square = 0.0, total = 0.0;
    for (int i = 0; i < ANGLES; i++) {
        const double angle = 1.5707963267948966 * (i + 0.5) / ANGLES;
        const double p = d == 1 ? 1.0 : pow(sin(angle), D - 2.0);
        total += p;
        square += p * square_at(s, d == 1 ? 1.0 : cos(angle), D);
    }
    square /= total;
    /* against y z' it is one trace alone: along, and d - 1 times across */
    const double one =
        s->at[0][0] + 2.0 * (D - 1.0) * s->at[0][1] + (D - 1.0) * (D - 1.0) * s->at[1][1];
    /* Of leading order in 1/d, so that a factor 1 + O(1/d) is open. The traces alone suggest 1 +
     * 1/d; 1 - 1/d was chosen by comparison with simulation, where one dimension needs no
     * correction (docs/PREDICTION.md). */
    return n * n * (1.0 - 1.0 / D) * fmax(square - 2.0 * w * w * one + w * w * w * w * D * D, 0.0);
}
