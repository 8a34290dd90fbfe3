/* SPDX-License-Identifier: Apache-2.0 */
/* bessel.c : one coordinate of the sphere under a tilt, for every d and r (THEORY.md 1.1).
 *
 * Library Bessel functions underflow long before d = 768; the ratio, its slope and the logarithm do
 * not, so they are computed as such. */
#include "law/bessel.h"

#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/limits.h"
#include "law/law_row.h"

/* Claimed errors. Against 50 digits, d = 1..4098 and r up to 1e12, the worst were 1.3 ulp of A, 1.9
 * ulp of K, and of A' 4 ulp, or 200 ulp (d = 2) where it comes down from LARGE_S: a step leaves an
 * error of an ulp of 2m/r^2, and A' itself may be as small as (d-1)/(2r^2). */
#define RATIO_ULPS 6.0
#define SLOPE_ULPS 16.0
#define LOG_ULPS   12.0

#define LN_2 0.69314718055994530942
#define PI   3.14159265358979323846

/* From here on the expansions in 1/S are exact to rounding. */
#define LARGE_S 96.0

/* ---- coefficients of the uniform expansions ---- */

/* Row k holds the polynomial of S^-k, constant term first. They follow from the Riccati equation
 * A' = 1 - A^2 - (d-1) A/r by comparing powers of 1/S (THEORY.md 1.1), with p = h/S, h = (d-1)/2:
 *
 *     f_0 = 1 - p,  f_k = (1-p^2)/2 [(k-1) f_{k-1} + p f_{k-1}'] + (p^2/2) f_{k-1}
 *                         - (1/2) sum_{i=1}^{k-1} f_i f_{k-i}
 *     e_k = f_k / (1-p),   p q_k = (1+p) (-k f_k - p f_k') - p^2 e_k
 *
 * and from the recurrence of Debye's polynomials, u_0 = 1,
 *
 *     u_{k+1}(p) = p^2 (1-p^2)/2 u_k'(p) + (1/8) int_0^p (1 - 5 s^2) u_k(s) ds,
 *     u_k(p) = p^k U_k(p^2).
 *
 * Computed with exact fractions, then rounded to double.
 */
enum { TERMS = 11 };

/* e_k(p) of A_d. */
static const double ratio_terms[TERMS][21] = {
    {1.0},
    {0.0, -0.5},
    {0.0, -0.5, 0.125, 0.625},
    {0.0, -0.75, 0.25, 2.5625, -0.3125, -1.875},
    {0.0, -1.5, 0.5, 9.75, -1.6015625, -16.8515625, 1.1328125, 8.6328125},
    {0.0, -3.75, 1.125, 39.21875, -6.65625, -117.18359375, 11.00390625, 134.66796875, -5.48828125,
     -52.96875},
    {0.0, -11.25, 2.90625, 171.65625, -27.4375, -773.25, 78.0791015625, 1476.3916015625,
     -87.177734375, -1267.958984375, 33.6376953125, 404.4189453125},
    {0.0, -39.375, 8.625, 822.234375, -119.203125, -5158.322265625, 511.552734375,
     14395.65673828125, -948.86669921875, -20090.5712890625, 799.3896484375, 13759.43603515625,
     -251.50146484375, -3689.0625},
    {0.0, -157.5, 29.25, 4303.3125, -558.39453125, -35681.08203125, 3347.54296875, 135302.13671875,
     -9087.816314697266, -270983.47256469727, 12450.222137451172, 297327.4096374512,
     -8414.674530029297, -169235.2995300293, 2233.8722229003906, 39124.49722290039},
    {0.0, -708.75, 112.5, 24507.2578125, -2842.7109375, -258722.0234375, 22623.6484375,
     1270843.4655761719, -83630.73754882812, -3405595.4247283936, 164616.84480285645,
     5297550.088516235, -178374.98960876465, -4783159.526138306, 100578.91136169434,
     2328300.0969696045, -23083.467483520508, -473015.185546875},
    {0.0,
     -3543.75,
     486.5625,
     151138.6875,
     -15743.4375,
     -1975232.53125,
     160300.42260742188,
     12148122.766357422,
     -769478.8681640625,
     -41621116.62207031,
     2029449.3722343445,
     85719762.2980156,
     -3120373.8513946533,
     -108777583.38264465,
     2792630.1431655884,
     83383452.40879059,
     -1350041.8558502197,
     -35446968.799209595,
     272771.51288986206,
     6421968.924999237},
};

/* q_k(p) of A_d'. */
static const double slope_terms[TERMS][21] = {
    {1.0},
    {1.0, -0.5, -1.0},
    {1.5, -1.0, -4.5, 1.125, 3.125},
    {3.0, -2.0, -18.125, 6.0, 30.0625, -4.0625, -15.0},
    {7.5, -4.5, -75.25, 25.5625, 218.3125, -40.9921875, -245.4921875, 19.9609375, 94.9609375},
    {22.5, -11.625, -335.125, 107.0, 1478.9296875, -298.1328125, -2776.84765625, 327.05859375,
     2352.08984375, -124.31640625, -741.5625},
    {78.75, -34.5, -1620.75, 469.28125, 10023.21875, -1984.57421875, -27620.76171875,
     3633.8291015625, 38125.2978515625, -3026.650390625, -25860.869140625, 942.6220703125,
     6875.1220703125},
    {315.0, -117.0, -8528.71875, 2211.09375, 70003.0078125, -13119.7421875, -262927.5087890625,
     35278.8427734375, 522039.46826171875, -47913.19580078125, -568319.599609375, 32127.587890625,
     321199.59716796875, -8467.59033203125, -73781.25},
    {1417.5, -450.0, -48724.6875, 11296.546875, 510632.109375, -89247.41796875, -2490038.57421875,
     327572.79931640625, 6627163.268066406, -640492.5320739746, -10243489.594573975,
     689724.8987121582, 9194747.398712158, -386673.9790344238, -4451570.854034424,
     88269.68612670898, 899863.436126709},
    {7087.5, -1946.25, -301062.09375, 62700.0, 3913352.7109375, -635031.9921875, -23932980.12890625,
     3031920.73046875, 81550582.356781, -7955038.014312744, -167087102.57063293, 12171144.921554565,
     211002136.35575867, -10842349.269241333, -161008132.99095154, 5218701.745376587,
     68154513.68400574, -1050101.8726348877, -12298394.82421875},
    {38981.25,
     -9382.5,
     -2003297.625,
     377385.5625,
     31577547.46875,
     -4760447.41796875,
     -235986274.57421875,
     28563549.155029297,
     996549823.979248,
     -96060723.69371033,
     -2588886774.705429,
     194956974.47338486,
     4298879052.20776,
     -244448931.54930115,
     -4583678097.877426,
     185507664.09687042,
     3040304425.9425735,
     -78185659.41223145,
     -1143032484.890747,
     14059571.285915375,
     186237098.82497787},
};

/* U_k(p^2) of ln I_nu. */
static const double debye_terms[TERMS][11] = {
    {1.0},
    {0.125, -0.20833333333333334},
    {0.0703125, -0.4010416666666667, 0.3342013888888889},
    {0.0732421875, -0.8912109375, 1.8464626736111112, -1.0258125964506173},
    {0.112152099609375, -2.3640869140625, 8.78912353515625, -11.207002616222994, 4.669584423426247},
    {0.22710800170898438, -7.368794359479632, 42.53499874538846, -91.81824154324002,
     84.63621767460073, -28.212072558200244},
    {0.5725014209747314, -26.491430486951554, 218.1905117442116, -699.5796273761325,
     1059.9904525279999, -765.2524681411817, 212.57013003921713},
    {1.7277275025844574, -108.09091978839466, 1200.9029132163525, -5305.646978613403,
     11655.393336864534, -13586.550006434138, 8061.722181737309, -1919.457662318407},
    {6.074042001273483, -493.915304773088, 7109.514302489364, -41192.65496889755,
     122200.46498301746, -203400.17728041555, 192547.00123253153, -96980.59838863752,
     20204.29133096615},
    {24.380529699556064, -2499.8304818112097, 45218.76898136273, -331645.1724845636,
     1268365.2733216248, -2813563.226586534, 3763271.297656404, -2998015.9185381066,
     1311763.6146629772, -242919.18790055133},
    {110.01714026924674, -13886.08975371704, 308186.4046126624, -2785618.1280864547,
     13288767.166421818, -37567176.66076335, 66344512.27472903, -74105148.21153265,
     50952602.49266464, -19706819.118432228, 3284469.853072038},
};

/* ---- ratio and slope ---- */

/* Evaluates c[0] + c[1] x + ... + c[degree] x^degree by Horner's rule. */
static double polynomial(const double *c, int degree, double x)
{
    double sum = c[degree];
    for (int i = degree - 1; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* A_d and A_d' for S >= LARGE_S:
 *     A = r/(S+h) sum e_k(p) S^-k,    A' = p/(S+h) sum q_k(p) S^-k. */
static void expand(double h, double r, double *ratio, double *slope)
{
    const double S = hypot(h, r), p = h / S;
    double e = 0.0, q = 0.0;
    for (int k = TERMS - 1; k >= 0; k--) {
        e = e / S + polynomial(ratio_terms[k], 2 * k, p);
        q = q / S + polynomial(slope_terms[k], 2 * k, p);
    }
    *ratio = r / (S + h) * e;
    *slope = p / (S + h) * q;
}

/* Where S is small, expand at a higher order and come down: rho_m = I_{m+1}/I_m obeys
 *     rho_{m-1} = 1/(2m/r + rho_m),    rho_{m-1}' = rho_{m-1}^2 (2m/r^2 - rho_m').
 * Terms of the first are positive, and in the second an error shrinks by rho^2 a step. */
static void come_down(double d, double r, double *ratio, double *slope)
{
    const double h = 0.5 * (d - 1.0);
    const double steps = fmax(0.0, ceil(sqrt(fmax(0.0, LARGE_S * LARGE_S - r * r)) - h));
    expand(h + steps, r, ratio, slope);
    for (double m = 0.5 * d - 1.0 + steps; m >= 0.5 * d; m -= 1.0) {
        const double rho = 1.0 / (2.0 * m / r + *ratio);
        *slope = rho * rho * (2.0 * m / (r * r) - *slope);
        *ratio = rho;
    }
}

void es_bessel_ratio_slope(int64_t dim, double r, es_num *ratio, es_num *slope)
{
    const double d = (double)dim;
    if (dim == 1) {
        const double c = exp(-r), cosh2 = 1.0 + c * c;
        ratio->val = tanh(r);
        slope->val = 4.0 * (c / cosh2) * (c / cosh2);
    } else if (r < 1e-4 * sqrt(d)) {
        const double x = r * r / (d * (d + 2.0)), y = r * r / (d * (d + 4.0));
        ratio->val = r / d * (1.0 - x + 2.0 * x * y);
        slope->val = (1.0 - 3.0 * x + 10.0 * x * y) / d;
    } else {
        come_down(d, r, &ratio->val, &slope->val);
    }
    ratio->err = RATIO_ULPS * DBL_EPSILON * ratio->val;
    const double descent = dim > 1 && r < LARGE_S ? 8.0 * LARGE_S / (d - 1.0) : 0.0;
    /* the smallest normal number bounds what underflow may hide */
    slope->err = (SLOPE_ULPS + descent) * DBL_EPSILON * slope->val + DBL_MIN;
}

/* ---- logarithm ---- */

/* Returns ln cosh r without overflow, with full relative precision near 0, where ln cosh r ~
 * r^2/2. */
static double log_cosh(double r)
{
    if (r > 20.0)
        return r - LN_2 + log1p(exp(-2.0 * r));
    const double s = sinh(0.5 * r);
    return log1p(2.0 * s * s);
}

/* ln Gamma(nu+1) - nu ln nu + nu - ln(2 pi nu)/2 */
static double stirling(double nu)
{
    static const double c[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
    return polynomial(c, 4, 1.0 / (nu * nu)) / nu;
}

/* Debye: ln I_nu with S = sqrt(nu^2+r^2). With ln Gamma(nu+1) replaced by Stirling's series the
 * large parts cancel on paper instead of in arithmetic: S - nu = r^2/(S+nu). */
static double log_debye(double nu, double r)
{
    const double S = hypot(nu, r), p = nu / S;
    double u = 0.0;
    for (int k = TERMS - 1; k >= 1; k--)
        u = (u + polynomial(debye_terms[k], k, p * p)) / S;
    if (nu < 20.0)
        return S - nu * log(0.5 * (nu + S)) + log(tgamma(nu + 1.0)) - 0.5 * log(2.0 * PI * S) +
               log1p(u);
    const double gap = r / (S + nu) * r;
    return gap - nu * log1p(0.5 * gap / nu) + 0.5 * log(p) + stirling(nu) + log1p(u);
}

/* log1p of sum_{k>=1} (r^2/4)^k / (k! (nu+1)_k): all terms positive. */
static double log_series(double nu, double r)
{
    const double x = 0.25 * r * r;
    double term = x / (nu + 1.0), sum = term;
    for (double k = 2.0; term > 0.25 * DBL_EPSILON * sum; k += 1.0) {
        term *= x / (k * (nu + k));
        sum += term;
    }
    return log1p(sum);
}

/* ln of Gamma(d/2) (2/r)^nu I_nu(r), nu = d/2 - 1: the log-MGF of the unit sphere. The power
 * series where r is small against nu, an asymptotic expansion elsewhere. */
es_num es_bessel_log(int64_t dim, double r)
{
    const double nu = 0.5 * (double)dim - 1.0;
    double val;
    if (dim == 1)
        val = log_cosh(r);
    else if (r < 60.0 || r * r < 40.0 * (nu + 1.0))
        val = log_series(nu, r);
    else
        val = log_debye(nu, r);
    return (es_num){val, LOG_ULPS * DBL_EPSILON * val + DBL_MIN};
}

/* ---- public ---- */

/* Checks that dimension and argument are in the range for which the expansions were tested. */
static es_status check(int64_t d, double r, es_error *err)
{
    if (d < 1 || d > ES_MAX_DIM + 2)
        return es_fail(err, ES_E_RANGE, "bessel.dim", "1 <= d <= 4098", "dimension %lld",
                       (long long)d);
    if (!(r >= 0.0) || !isfinite(r))
        return es_fail(err, ES_E_RANGE, "bessel.argument", "r is finite and not negative",
                       "r is %g", r);
    return ES_OK;
}

es_status es_bessel_ratio(int64_t d, double r, es_num *out, es_error *err)
{
    es_num slope;
    ES_TRY(check(d, r, err));
    es_bessel_ratio_slope(d, r, out, &slope);
    return ES_OK;
}

es_status es_bessel_slope(int64_t d, double r, es_num *out, es_error *err)
{
    es_num ratio;
    ES_TRY(check(d, r, err));
    es_bessel_ratio_slope(d, r, &ratio, out);
    return ES_OK;
}

es_status es_bessel_log_mgf(int64_t d, double r, es_num *out, es_error *err)
{
    ES_TRY(check(d, r, err));
    *out = es_bessel_log(d, r);
    return ES_OK;
}
