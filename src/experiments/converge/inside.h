/* inside.h : what the parts of the convergence experiment share.
 *
 *     converge/cells.c             the question, checked; limits, or a sample in their place
 *     converge/replicate.c   one sample; one replicate: attention, errors; cost
 *     converge/failing.c     one replicate where there is no limit
 */
#ifndef ES_EXPERIMENTS_CONVERGE_INSIDE_H
#define ES_EXPERIMENTS_CONVERGE_INSIDE_H

#include <esscher/attend.h>

#include "experiments/converge/converge.h"

struct es_converge_limit {
    int64_t scales, channels;
    double *a;     /* (dim, dim) A at scale factor 1 */
    double *v;     /* (channels, dim) V, written out */
    double *mean;  /* (scales, channels), of the limit or of the sample that stands for it */
    double *cov;   /* (scales, channels, channels), likewise */
    double *error; /* (scales, 2): of mean and covariance, against the limit */
    es_mem_limit *budget;
};

/*! es_converge_check() : a spec that can be measured? Looks at every matrix. */
es_status es_converge_check(const es_converge_spec *spec, es_error *err);

/*! es_converge_scale_a() : A at scale s, written out into `scaled` (dim, dim). */
void es_converge_scale_a(const es_converge_spec *spec, const es_converge_limit *limit, int64_t s,
                         double *scaled);

/*! es_converge_limit_cost() : what es_converge_limit_new() takes, of `out` its limit_... part. */
es_status es_converge_limit_cost(const es_converge_spec *spec, es_converge_cost *out,
                                 es_error *err);

static inline es_mem_limit *budget_of(const es_converge_spec *spec)
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

/* ---- one sample: tokens, and what the head makes of them ---- */

typedef struct es_converge_sample {
    double *memory;
    double *tokens;    /* (n, dim) */
    double *asking;    /* (m, dim) queries before Wq: the tokens themselves in self mode */
    double *q, *k, *v; /* (m, key_dim), (n, key_dim), (n, channels) */
    double *scales;    /* (n_scales) score scales: factor / sqrt(k) */
    es_view q_view, k_view, v_view;
    es_mem_limit *budget;
} es_converge_sample;

/*! es_converge_sample_draw() : the largest size of the spec, tokens at (experiment, cell); fresh
 * queries, in population mode, at the same cell of their own experiment.
 *  @return : ES_E_RANGE if f32 kernels cannot tell the scores apart (converge.scores). */
es_status es_converge_sample_draw(const es_converge_spec *spec, uint16_t experiment, uint64_t cell,
                                  es_converge_sample *out, es_error *err);
void es_converge_sample_free(es_converge_sample *sample);

/*! es_converge_project() : out (rows, w->rows) = x w', or x (rows, dim) itself where the head has
 * no such matrix. */
es_status es_converge_project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                              es_mem_limit *budget, double *out, es_error *err);

/*! es_converge_sample_bytes() : memory that one takes. */
double es_converge_sample_bytes(const es_converge_spec *spec);

/*! es_converge_attend_opts() : every scale and size of the spec in one pass; scales (n_scales). */
es_attend_opts es_converge_attend_opts(const es_converge_spec *spec, const double *scales);

#endif
