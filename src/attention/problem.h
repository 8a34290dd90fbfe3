/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h : one attention problem, checked, with every default made explicit. */
#ifndef ES_ATTENTION_PROBLEM_H
#define ES_ATTENTION_PROBLEM_H

#include <esscher/attend.h>

/* A checked call of attention: shapes, mask, scales and precision. */
typedef struct es_problem {
    const es_view *q, *k, *v; /* NULL while only shapes are known */
    int64_t m, n, d, dv;
    es_dtype precision;
    const double *scales; /* (n_scales) */
    int64_t n_scales;
    double largest_scale; /* queries are packed with log2(e) times this; a scale is then a factor <=
                             1 */
    const int64_t *prefixes; /* (n_prefixes) */
    int64_t n_prefixes;
    double cap;  /* of scores, in units of log 2; 0: none */
    double sink; /* its logit, in units of log 2; -inf: none */
    bool self, exclude_self;
    const es_mask *mask;  /* NULL: every query sees every key */
    const int64_t *top_k; /* (n_top_k) */
    int64_t n_top_k;
    bool spread;          /* sum w^2 |v - output|^2 is wanted */
    int64_t block;        /* keys per block, 0: no blocks */
    const double *centre; /* (dv) near the values, in f32: spreads are summed around it */
    double pairs;         /* of a query and a key that it sees, at the last prefix */
    int64_t kept;         /* scores kept per query: the largest top_k */
    const es_exec *exec;  /* may be NULL */
    es_mem_limit *budget; /* exec's, may be NULL */

    double default_scale;   /* what scales points at when the caller gave none */
    int64_t default_prefix; /* likewise */
} es_problem;

/*! es_problem_shape() : check options and shapes, fill in defaults. *p refers to opts' arrays and
 * to itself, so it must not be copied. */
es_status es_problem_shape(es_problem *p, int64_t m, int64_t n, int64_t d, int64_t dv,
                           const es_attend_opts *opts, es_error *err);

/*! es_problem_views() : the same for actual matrices, whose elements are not looked at yet. */
es_status es_problem_views(es_problem *p, const es_view *q, const es_view *k, const es_view *v,
                           const es_attend_opts *opts, es_error *err);

/*! es_problem_data() : es_problem_views(), and checks every element: finite, and neither scores nor
 *  outputs can overflow. */
es_status es_problem_data(es_problem *p, const es_view *q, const es_view *k, const es_view *v,
                          const es_attend_opts *opts, es_error *err);

/*! es_problem_scan_bounds() : the same check of elements for matrices whose sums of squares are
 * known up to a percent, or are not finite because an element is not or nothing is known. Where
 * these bounds prove nothing it checks every element. */
es_status es_problem_scan_bounds(const es_problem *p, double queries2, double keys2, double values2,
                                 es_error *err);

/*! es_problem_relative_scale() : returns scale s as a fraction of the largest, which is already
 * part of the packed queries. If all scales are zero the fraction is 1: the packed queries are
 * zero, and scores are only the factors that are added to them. */
static inline double es_problem_relative_scale(const es_problem *p, int64_t s)
{
    return p->largest_scale > 0.0 ? p->scales[s] / p->largest_scale : 1.0;
}

/*! es_problem_scales_apart() : returns whether scales must be computed one after the other. A
 * factor is added after the scale, so that the largest of the corrected scores is another key's at
 * each; and a capped score is no multiple of another scale's. */
bool es_problem_scales_apart(const es_problem *p);

/*! es_problem_rescale() : returns a score at a fraction of the largest scale, rounded as the tilt
 *  kernel rounds it: the fraction, then the product, each to the precision. (The product of two f32
 *  is exact in f64, so it is rounded once.) Comparing a score with an offset needs exactly these
 *  bits: neighbouring f32 scores near 2^40 differ by 2^16, and a difference between two roundings
 *  would become an exponent. */
static inline double es_problem_rescale(const es_problem *p, double relative_scale, double score)
{
    return p->precision == ES_F32 ? (double)(float)((double)(float)relative_scale * score)
                                  : relative_scale * score;
}

/*! es_problem_queries_at() : how many queries exist at prefix `prefix`. */
static inline int64_t es_problem_queries_at(const es_problem *p, int64_t prefix)
{
    return p->self ? p->prefixes[prefix] : p->m;
}

/*! es_problem_wants() : fails unless the problem computes what *out asks for. */
es_status es_problem_wants(const es_problem *p, const es_attend_out *out, es_error *err);

/*! es_attend_out_blank() : NaN (index -1) wherever a query does not exist at a prefix. */
void es_attend_out_blank(const es_problem *p, const es_attend_out *out);

#endif
