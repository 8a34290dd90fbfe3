/* hardmax.h : the parts of the hardmax experiment.
 *
 *     hardmax.c        options, units of work, averages
 *     extremes.c       one dimension: the extremes of n tokens without the tokens
 *     coins.c          how many of n tokens are positive
 *     hardmax_hull.c   several dimensions: tokens met by directions
 */
#ifndef ES_LAB_HARDMAX_H
#define ES_LAB_HARDMAX_H

#include <esscher/hardmax.h>
#include <esscher/random.h>

/*! es_extremes_draw() : Gbar of `count` replicates from number `first` on, standard normal tokens,
 * n of them; at.cell is set already, token is the replicate. */
es_status es_extremes_draw(es_address at, es_hardmax_queries queries, int64_t n, int64_t first,
                           int64_t count, double *out, es_error *err);

/*! es_coins_draw() : how many of n fair coins show heads, 1 <= n <= 10^18, exact up to the rounding
 * of the logarithm of a probability. Uses up to 64 lanes from at.lane on. */
es_status es_coins_draw(es_address at, int64_t n, int64_t *heads, es_error *err);

/*! es_hull_scratch() : doubles that one call of es_hull_draw() works in. */
int64_t es_hull_scratch(int64_t dim, int64_t directions);

/*! es_hull_draw() : one replicate, at n[0] < n[1] < ..., for standard normal tokens. */
es_status es_hull_draw(es_address at, int64_t replicate, int64_t dim, int64_t directions,
                       const int64_t *n, int64_t count, double *scratch, es_hardmax_draw *out,
                       es_error *err);

#endif
