/* ks.h : Kolmogorov and Smirnov's tests: is a sample of a given law, are two of the same one? */
#ifndef ES_STATS_KS_H
#define ES_STATS_KS_H

#include <stdint.h>

typedef struct es_ks {
    double distance; /* largest difference of the distribution functions */
    double p;        /* probability of a larger one; that of infinite samples, with Stephens' (1970)
                        correction for finite ones, good to 0.01 from 20 on. Ties make it too
                        large */
} es_ks;

/*! es_ks_tail() : P(sup of a Brownian bridge > z), to 1e-12. 1 for z <= 0. */
double es_ks_tail(double z);

/*! es_ks_two() : two samples (m), (n), both >= 1, which are sorted. O((m+n) log(m+n)). */
es_ks es_ks_two(double *x, int64_t m, double *y, int64_t n);

/*! es_ks_normal() : one sample (n), which is sorted, against the standard normal law. */
es_ks es_ks_normal(double *x, int64_t n);

#endif
