/* converge_spec.h : what the parts of the convergence experiment share: the question, read.
 *
 *     converge.c             the question, checked; limits
 *     converge_reference.c   a sample in the place of the limit
 *     converge_sample.c      tokens, and what the head makes of them
 *     converge_replicate.c   one replicate: attention, errors
 */
#ifndef ES_LAB_CONVERGE_SPEC_H
#define ES_LAB_CONVERGE_SPEC_H

#include <esscher/converge.h>

struct es_converge_limit {
    int64_t scales, channels;
    double *a;     /* (dim, dim) A at scale factor 1 */
    double *v;     /* (channels, dim) V, written out */
    double *mean;  /* (scales, channels), of the limit or of the sample that stands for it */
    double *cov;   /* (scales, channels, channels), likewise */
    double *error; /* (scales, 2): of mean and covariance, against the limit */
    es_budget *budget;
};

/*! es_converge_check() : a spec that can be measured? Looks at every matrix. */
es_status es_converge_check(const es_converge_spec *spec, es_error *err);

/*! es_converge_scale_a() : A at scale s, written out into `scaled` (dim, dim). */
void es_converge_scale_a(const es_converge_spec *spec, const es_converge_limit *limit, int64_t s,
                         double *scaled);

/*! es_converge_refer() : put the moments of the reference sample in the place of the limit's, and
 * the distance between the two into the errors. es_converge_refer_cost() : what that takes. */
es_status es_converge_refer(const es_converge_spec *spec, es_converge_limit *limit, es_error *err);
es_status es_converge_refer_cost(const es_converge_spec *spec, double *flops, double *bytes,
                                 es_error *err);

/*! es_converge_limit_cost() : what es_converge_limit_new() takes, of `out` its limit_... part. */
es_status es_converge_limit_cost(const es_converge_spec *spec, es_converge_cost *out,
                                 es_error *err);

static inline es_budget *budget_of(const es_converge_spec *spec)
{
    return spec->exec ? spec->exec->budget : NULL;
}

static inline int64_t largest_size(const es_converge_spec *spec)
{
    return spec->sizes[spec->n_sizes - 1];
}

static inline int64_t queries_of(const es_converge_spec *spec)
{
    return spec->population ? (spec->queries ? spec->queries : 4096) : largest_size(spec);
}

static inline int64_t map_queries_of(const es_converge_spec *spec)
{
    const int64_t wanted = spec->map_queries ? spec->map_queries : 256;
    const int64_t most = spec->population ? queries_of(spec) : spec->sizes[0];
    return wanted < most ? wanted : most;
}

static inline int64_t channels_of(const es_converge_spec *spec)
{
    return es_head_channels(spec->head, spec->law->dim);
}

static inline int64_t key_dim_of(const es_converge_spec *spec)
{
    return es_head_key_dim(spec->head, spec->law->dim);
}

#endif
