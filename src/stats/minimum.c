#include "stats/minimum.h"

double es_minimum(es_objective f, const void *context, double low, double high, int steps)
{
    const double ratio = 0.6180339887498949;
    double a = high - ratio * (high - low), b = low + ratio * (high - low);
    double fa = f(context, a), fb = f(context, b);
    for (int i = 0; i < steps; i++) {
        if (fa <= fb) {
            high = b;
            b = a, fb = fa;
            a = high - ratio * (high - low);
            fa = f(context, a);
        } else {
            low = a;
            a = b, fa = fb;
            b = low + ratio * (high - low);
            fb = f(context, b);
        }
    }
    return fa <= fb ? a : b;
}
