/* converge_sample.h : tokens of one sample, and what the head makes of them. */
#ifndef ES_LAB_CONVERGE_SAMPLE_H
#define ES_LAB_CONVERGE_SAMPLE_H

#include <esscher/attend.h>
#include <esscher/random.h>

#include "lab/converge_spec.h"

typedef struct es_converge_sample {
    double *memory;
    double *tokens;    /* (n, dim) */
    double *asking;    /* (m, dim) queries before Wq: the tokens themselves in self mode */
    double *q, *k, *v; /* (m, key_dim), (n, key_dim), (n, channels) */
    double *scales;    /* (n_scales) score scales: factor / sqrt(k) */
    es_view q_view, k_view, v_view;
    es_budget *budget;
} es_converge_sample;

/*! es_converge_sample_draw() : the largest size of the spec, tokens at (experiment, cell); fresh
 * queries, in population mode, at the same cell of their own experiment.
 *  @return : ES_E_RANGE if f32 kernels cannot tell the scores apart (converge.scores). */
es_status es_converge_sample_draw(const es_converge_spec *spec, uint16_t experiment, uint64_t cell,
                                  es_converge_sample *out, es_error *err);
void es_converge_sample_free(es_converge_sample *sample);

/*! es_converge_sample_bytes() : memory that one takes. */
double es_converge_sample_bytes(const es_converge_spec *spec);

/*! es_converge_attend_opts() : every scale and size of the spec in one pass; scales (n_scales). */
es_attend_opts es_converge_attend_opts(const es_converge_spec *spec, const double *scales);

#endif
