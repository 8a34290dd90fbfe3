#include "theory/quadrature.h"

enum { HALF = 8 };

/* Gauss-Legendre, 16 points on [-1,1]: the positive nodes and their weights. */
static const double nodes[HALF] = {
    0.095012509837637440185, 0.28160355077925891323, 0.45801677765722738634, 0.61787624440264374845,
    0.7554044083550030339,   0.86563120238783174388, 0.94457502307323257608, 0.9894009349916499326};
static const double weights[HALF] = {0.18945061045506849629,  0.18260341504492358887,
                                     0.16915651939500253819,  0.14959598881657673208,
                                     0.12462897125553387205,  0.09515851168249278481,
                                     0.062253523938647892863, 0.027152459411754094852};

double es_integrate(es_integrand f, const void *context, double low, double high, int panels)
{
    const double half = 0.5 * (high - low) / panels;
    double sum = 0.0;
    for (int p = 0; p < panels; p++) {
        const double centre = low + half * (2 * p + 1);
        double panel = 0.0;
        for (int i = 0; i < HALF; i++)
            panel += weights[i] *
                     (f(context, centre - half * nodes[i]) + f(context, centre + half * nodes[i]));
        sum += panel;
    }
    return half * sum;
}
