/* SPDX-License-Identifier: Apache-2.0 */
/* probe_inside.h : the parts of the probe of real models. A layer's matrices and the rows of
 * queries and draws are in kit/pool_layer.h.
 *
 *     kit/probe_cells.c      cost; a layer that is ready
 *     kit/probe_rows.c       rows of the pool that are keys, windows, queries of sections
 *     kit/probe_limit.c      the walk through the pool, in parts
 *     kit/probe_local.c      how many keys lie near a query
 *     kit/probe_slices.c     the error of n independent tokens, exactly, for some queries
 *     kit/probe_exact.c      what that says about a head
 *     kit/probe_policies.c   which keys a head should keep: exact errors of three policies
 *     kit/probe_head.c       scores of Gaussian tokens: freezing, prediction; a head and its sinks
 *     kit/probe_replicate.c  n tokens against the limit; the same with Gaussian tokens
 *     kit/probe_sections.c   a head's numbers without one section of the text after the other
 *     probe/paper.c          tokens that attend over each other: the protocol of a paper
 */
#ifndef ES_EXPERIMENTS_KIT_PROBE_INSIDE_H
#define ES_EXPERIMENTS_KIT_PROBE_INSIDE_H

#include "random/experiment.h"
#include <esscher/random.h>

#include "experiments/kit/cell_kit.h"
#include "experiments/kit/probe.h"

/* Covariances of a head's keys Wk x and values Wv x, (k, k) each. */
typedef struct es_probe_gram {
    const double *kk, *vk, *vv; /* Wk S Wk', Wv S Wk', Wv S Wv' */
} es_probe_gram;

/* Exact expectations for n Gaussian scores of standard deviation q, on a grid of q. */
enum { ES_PROBE_GRID = 222 };
/* Moments of the random energy model at one n, on a grid of score deviations. */
typedef struct es_probe_table {
    double log_p[ES_PROBE_GRID]; /* ln E sum w^2 */
    double log_v[ES_PROBE_GRID]; /* ln E (G - q)^2 */
} es_probe_table;

struct es_probe {
    es_probe_spec spec;
    es_exec exec;
    es_pool_info pool;
    int64_t layer, queries;
    es_probe_weights weights;
    float *q;               /* (queries, Q) queries of all heads, bias included */
    double *numbers;        /* as es_probe_measure() makes them */
    const double *mean;     /* (H) into numbers, */
    const double *cov;      /* (H, H), */
    const double *limit;    /* (queries, Q) outputs over the whole pool, */
    const double *about;    /* (heads, ES_PROBE_ABOUT): error of the limit, sampling, focus */
    const double *sampling; /* (heads, queries) */
    double *grams;          /* (heads, 3, k, k), see es_probe_gram_of() */
    es_probe_table *tables; /* (sizes) */
};

/*! es_probe_layout_of() : where the parts are in `numbers`. */
typedef struct es_probe_layout {
    int64_t mean, cov, limit, about, sampling, count;
} es_probe_layout;
es_probe_layout es_probe_layout_of(const es_probe_spec *spec);

/* Numbers of a head beside its outputs: mean, covariance and map error of the limit; sampling, its
 * error, thin; focus. */
enum { ES_PROBE_ABOUT = 10 };

/* With fewer tokens than this, one that was not drawn into the pool might be missed. */
#define ES_PROBE_THIN 100.0

/* Exact errors are of all of the pool and of its halves, at the sizes that were asked and at powers
 * of two up to 2^22, between which the curve is a line in logarithms (to 0.1 % in n) and beyond
 * which it falls like 1/n. */
enum { ES_PROBE_SETS = 3, ES_PROBE_POWERS = 23 };

/* Exact errors of query i of a head of a layer: (ES_PROBE_SETS, sizes). */
static inline int64_t es_probe_exact_sizes(const es_probe_spec *spec)
{
    return spec->n_sizes + ES_PROBE_POWERS;
}

static inline int64_t es_probe_exact_at(const es_probe_spec *spec, int64_t few, int64_t head,
                                        int64_t i)
{
    return (head * few + i) * ES_PROBE_SETS * es_probe_exact_sizes(spec);
}

/* Keys among which the neighbours of a query are sought, and blocks whose sinks are measured, at
 * most; queries of a section of the text. */
enum { ES_PROBE_KEYS = 16384, ES_PROBE_SINKS = 16, ES_PROBE_SECTION_ASKED = 32 };

/* Queries whose error is computed. */
static inline int64_t es_probe_exact_of(const es_probe_spec *spec, int64_t queries)
{
    const int64_t wanted = spec->exact ? spec->exact : 64;
    return wanted < queries ? wanted : queries;
}

/*! es_probe_parts_among() : es_probe_parts() of a pool of `tokens`. */
int64_t es_probe_parts_among(const es_probe_spec *spec, int64_t tokens);

/*! es_probe_focus_of() : from sum w^2 and the largest weight of every query, which are sorted. */
es_probe_focus es_probe_focus_of(double *squares, double *top, int64_t queries);

/* Values (count, k) of a head, rows `stride` apart, and their squared lengths beside them, into out
 * (count, k + 1). */
static inline void es_probe_lengthen(const float *values, int64_t stride, int64_t count, int64_t k,
                                     float *out)
{
    for (int64_t i = 0; i < count; i++) {
        double square = 0.0;
        for (int64_t j = 0; j < k; j++) {
            const float v = values[i * stride + j];
            out[i * (k + 1) + j] = v;
            square += (double)v * (double)v;
        }
        out[i * (k + 1) + k] = (float)square;
    }
}

/* sum w^2 |v - output|^2 of one query, from outputs (k + 1) of values so lengthened and ln sum
 * exp(score), for scores as they are and doubled (THEORY 9). */
static inline double es_probe_sampling_at(const double *output, const double *doubled, double lse,
                                          double lse_doubled, int64_t k)
{
    double apart = doubled[k];
    for (int64_t j = 0; j < k; j++)
        apart += output[j] * (output[j] - 2.0 * doubled[j]);
    return exp(lse_doubled - 2.0 * lse) * fmax(apart, 0.0);
}

/*! es_probe_grams_fill() : probe->grams. O(hidden^3). */
es_status es_probe_grams_fill(es_probe *probe, es_error *err);
es_probe_gram es_probe_gram_of(const es_probe *probe, int64_t head);

/*! es_probe_gathering() : the share of gathering tokens in the time of exact curves, for progress.
 */
double es_probe_gathering(double tokens);

/*! es_probe_tables_fill() : probe->tables, as far as the scores of its queries reach: some 2 ms for
 *  each size and point of the grid, on exec->threads threads. */
es_status es_probe_tables_fill(es_probe *probe, es_error *err);

/* ---- kit/probe_rows.c: rows of a pool of `tokens` ---- */

/*! es_probe_key_rows() : the first `n` keys among which neighbours are sought.
 *  es_probe_section_rows() : queries of all sections, (ES_PROBE_SECTIONS, each). */
es_status es_probe_key_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer, int64_t n,
                            int64_t *rows, es_error *err);
es_status es_probe_section_rows(const es_probe_spec *spec, int64_t tokens, int64_t layer,
                                int64_t *rows, es_error *err);

/*! es_probe_section_each() : queries of one section; es_probe_section_first() : its first row. */
int64_t es_probe_section_each(const es_probe_spec *spec, int64_t tokens);
int64_t es_probe_section_first(int64_t tokens, int64_t section);

/*! es_probe_window_rows() : the rows (n) of a window, n the largest size. */
es_status es_probe_window_rows(const es_probe_spec *spec, const es_pool_info *pool,
                               int64_t replicate, int64_t windows, int64_t *rows, es_error *err);

/*! es_probe_policy_bytes() : memory that comparing policies takes for one query of `width`
 * channels.
 */
double es_probe_policy_bytes(int64_t width);

/*! es_probe_errors() : one head's outputs `a` against `b`, rows of `a` being (k) apart by
 *  a_stride numbers and of `b` by b_stride: mean, covariance and map error. */
es_status es_probe_errors(es_mem_limit *budget, const double *a, int64_t a_stride, const double *b,
                          int64_t b_stride, int64_t queries, int64_t width, es_probe_cell *out,
                          es_error *err);

#endif
