#include "lab/converge_sample.h"

#include <math.h>
#include <string.h>

#include <esscher/experiment.h>
#include <esscher/linalg.h>
#include <esscher/tokens.h>

#include "base/error.h"
#include "base/memory.h"

/* ---- memory ---- */

enum { PARTS = 6 };

static int64_t count_parts(const es_converge_spec *spec, int64_t count[PARTS])
{
    const int64_t n = largest_size(spec), m = queries_of(spec), d = spec->law->dim;
    const int64_t counts[PARTS] = {n * d,
                                   spec->population ? m * d : 0,
                                   m * key_dim_of(spec),
                                   n * key_dim_of(spec),
                                   n * channels_of(spec),
                                   spec->n_scales};
    int64_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += counts[i];
    memcpy(count, counts, sizeof counts);
    return total;
}

double es_converge_sample_bytes(const es_converge_spec *spec)
{
    int64_t count[PARTS];
    return 8.0 * (double)count_parts(spec, count) + ES_ALIGN;
}

void es_converge_sample_free(es_converge_sample *sample)
{
    es_mem_free(sample->budget, sample->memory);
    *sample = (es_converge_sample){0};
}

static es_status allocate(const es_converge_spec *spec, es_converge_sample *s, es_error *err)
{
    int64_t count[PARTS];
    const int64_t total = count_parts(spec, count);
    void *memory;
    *s = (es_converge_sample){.budget = budget_of(spec)};
    ES_TRY(es_mem_array(s->budget, total, 1, sizeof(double), "a replicate", &memory, err));
    double *next = memory,
           **parts[PARTS] = {&s->tokens, &s->asking, &s->q, &s->k, &s->v, &s->scales};
    for (int i = 0; i < PARTS; i++) {
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

/* out (rows, w->rows) = x w', or x itself where the head has no such matrix. */
static es_status project(const double *x, int64_t rows, int64_t dim, const es_view *w,
                         es_budget *budget, double *out, es_error *err)
{
    if (!w) {
        memcpy(out, x, (size_t)(rows * dim) * sizeof *out);
        return ES_OK;
    }
    const es_view vx = es_view_f64(x, rows, dim), transposed = es_view_transpose(w);
    return es_mat_multiply(&vx, &transposed, budget, out, err);
}

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
    ES_TRY(project(s->asking, m, d, h->Wq ? h->Wq : h->A, s->budget, s->q, err));
    ES_TRY(project(s->tokens, n, d, h->Wk, s->budget, s->k, err));
    return project(s->tokens, n, d, h->V, s->budget, s->v, err);
}

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

/* f32 rounds a score of 2^20 by some 1/16, and the weight by that share of itself: beyond, what
 * would be measured is how the kernels round, not how attention converges. */
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
                   "scores up to %.3g are more than f32 tells apart", largest);
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
