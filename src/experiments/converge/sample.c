/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c : one sample of tokens: its queries, keys and values for a head. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "experiments/converge/converge.h"
#include "random/experiment.h"
#include "tokens/tokens.h"

/* ---- memory ---- */

enum { SAMPLE_PARTS = 6 };

/* Stores the number of doubles of each part of a sample and returns their sum. */
static int64_t count_sample(const es_converge_spec *spec, int64_t count[SAMPLE_PARTS])
{
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    const int64_t counts[SAMPLE_PARTS] = {n * d,
                                          spec->population ? m * d : 0,
                                          m * key_dim_of(spec),
                                          n * key_dim_of(spec),
                                          n * channels_of(spec),
                                          spec->n_scales};
    int64_t total = 0;
    for (int i = 0; i < SAMPLE_PARTS; i++)
        total += counts[i];
    memcpy(count, counts, sizeof counts);
    return total;
}

double es_converge_sample_bytes(const es_converge_spec *spec)
{
    int64_t count[SAMPLE_PARTS];
    return 8.0 * (double)count_sample(spec, count) + ES_ALIGN;
}

void es_converge_sample_free(es_converge_sample *sample)
{
    es_mem_free(sample->budget, sample->memory);
    *sample = (es_converge_sample){0};
}

/* Allocates all parts of a sample in one block and sets its views. */
static es_status allocate(const es_converge_spec *spec, es_converge_sample *s, es_error *err)
{
    int64_t count[SAMPLE_PARTS];
    const int64_t total = count_sample(spec, count);
    double *memory;
    *s = (es_converge_sample){.budget = budget_of(spec)};
    ES_TRY(ES_MEM_NEW(s->budget, memory, total, "a replicate", err));
    double *next = memory,
           **parts[SAMPLE_PARTS] = {&s->tokens, &s->asking, &s->q, &s->k, &s->v, &s->scales};
    for (int i = 0; i < SAMPLE_PARTS; i++) {
        *parts[i] = next;
        next += count[i];
    }
    s->memory = memory;
    if (!spec->population)
        s->asking = s->tokens;
    s->q_view = es_view_f64(s->q, queries_of(spec), key_dim_of(spec));
    s->k_view = es_view_f64(s->k, largest_size(spec), key_dim_of(spec));
    s->v_view = es_view_f64(s->v, largest_size(spec), channels_of(spec));
    return ES_OK;
}

/* ---- numbers ---- */

/* Draws tokens and fresh queries at the address `at` and projects them. */
static es_status fill(const es_converge_spec *spec, es_address at, es_converge_sample *s,
                      es_error *err)
{
    const es_head *h = spec->head;
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    ES_TRY(es_tokens_fill(spec->law, &at, n, spec->exec, s->tokens, err));
    if (spec->population) {
        at.experiment = ES_EXPERIMENT_CONVERGE_QUERIES;
        ES_TRY(es_tokens_fill(spec->law, &at, m, spec->exec, s->asking, err));
    }
    for (int64_t i = 0; i < spec->n_scales; i++)
        s->scales[i] = spec->scales[i] * es_head_unit(h); /* of Wq x . Wk y, or Ax . y */
    ES_TRY(es_head_project(s->asking, m, d, h->Wq ? h->Wq : h->A, s->budget, s->q, err));
    ES_TRY(es_head_project(s->tokens, n, d, h->Wk, s->budget, s->k, err));
    return es_head_project(s->tokens, n, d, h->V, s->budget, s->v, err);
}

/* Returns the largest norm of a row. */
static double longest_row(const es_view *x)
{
    double longest = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < x->cols; j++) {
            const double value = es_view_get(x, i, j);
            sum += value * value;
        }
        longest = fmax(longest, sum);
    }
    return sqrt(longest);
}

/* Refuses scores that f32 kernels cannot resolve. f32 rounds a score of 2^20 by about 1/16, which
 * changes its weight by the same fraction: larger scores would measure rounding, not convergence.
 */
static es_status check_scores(const es_converge_spec *spec, const es_converge_sample *x,
                              es_error *err)
{
    if (spec->precision == ES_F64)
        return ES_OK;
    double scale = 0.0;
    for (int64_t s = 0; s < spec->n_scales; s++)
        scale = fmax(scale, x->scales[s]);
    const double largest = scale * longest_row(&x->q_view) * longest_row(&x->k_view);
    if (largest <= 0x1p20)
        return ES_OK;
    return es_fail(err, ES_E_RANGE, "converge.scores", "use precision f64, or smaller scales",
                   "scores up to %.3g are too large for f32", largest);
}

es_status es_converge_sample_draw(const es_converge_spec *spec, uint16_t experiment, uint64_t cell,
                                  es_converge_sample *out, es_error *err)
{
    const es_address at = {.seed = spec->seed, .experiment = experiment, .cell = cell};
    ES_TRY(allocate(spec, out, err));
    es_status status = fill(spec, at, out, err);
    if (status == ES_OK)
        status = check_scores(spec, out, err);
    if (status != ES_OK)
        es_converge_sample_free(out);
    return status;
}

es_attend_opts es_converge_attend_opts(const es_converge_spec *spec, const double *scales)
{
    return (es_attend_opts){.precision = spec->precision,
                            .scales = scales,
                            .n_scales = spec->n_scales,
                            .prefixes = spec->sizes,
                            .n_prefixes = spec->n_sizes,
                            .exec = spec->exec};
}
