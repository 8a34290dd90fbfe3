/* beta.c : Euler's beta function and its incomplete form, by logarithms. */
#include "stats/special.h"

#include <math.h>

static const double half_log_2pi = 0.91893853320467274178;

/* ln Beta(a, b) less a ln(a/(a+b)) + b ln(b/(a+b)), its large part: what Stirling's formula leaves
 * of the three gamma functions. */
static double beta_rest(double a, double b)
{
    return es_stirling_error(a) + es_stirling_error(b) - es_stirling_error(a + b) + half_log_2pi +
           0.5 * log((a + b) / a / b);
}

double es_log_beta(double a, double b)
{
    return beta_rest(a, b) + a * log(a / (a + b)) + b * log(b / (a + b));
}

/* I_x(a,b) = x^a (1-x)^b / (a Beta(a,b)) * 1/(1 + d_1/(1 + d_2/(1 + ...))), Lentz; it converges
 * fast for x below the mean of the law. */
static double lower_fraction(double a, double b, double x)
{
    double c = 1.0, d = 1.0 / (1.0 - (a + b) * x / (a + 1.0)), h = d;
    for (double m = 1.0; m < 1e5; m += 1.0) {
        double term = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        h *= c * d;
        term = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / (1.0 + term * d);
        c = 1.0 + term / c;
        h *= c * d;
        if (fabs(c * d - 1.0) < 1e-16)
            break;
    }
    return h;
}

double es_log_beta_lower(double a, double b, double x, double rest)
{
    if (x > (a + 1.0) / (a + b + 2.0))
        return rest > 0.0 ? log1p(-exp(es_log_beta_lower(b, a, rest, x))) : 0.0;
    const double log_factor =
        a * log(x * (a + b) / a) + b * log(rest * (a + b) / b) - beta_rest(a, b);
    return log_factor + log(lower_fraction(a, b, x) / a);
}
