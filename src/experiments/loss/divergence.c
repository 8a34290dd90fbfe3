/* SPDX-License-Identifier: Apache-2.0 */
/* divergence.c : next-token distributions of two runs of a block, compared strip by strip.
 *
 * Both runs leave their last hidden states, (n, hidden). Logits of some rows at a time follow from
 * these by the model's own last norm and head: a forward pass that begins at the last state. So
 * memory is O(strip vocab) whatever the context is, not O(context vocab). */
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/view.h"
#include "experiments/kit/cell_kit.h"
#include "experiments/loss/loss.h"
#include "model/logits.h"
#include "model/model.h"

/* Most numbers of a strip of logits, and the same where the head is decoded for each strip. */
enum { STRIP_NUMBERS = 1 << 22, STREAMED_NUMBERS = 1 << 25 };

int64_t es_divergence_rows(const es_model_config *c, int64_t n)
{
    const int64_t most =
        (c->weights == ES_WEIGHTS_STREAMED ? STREAMED_NUMBERS : STRIP_NUMBERS) / c->vocab;
    return most < 1 ? 1 : most < n ? most : n;
}

/* One strip under way. */
typedef struct strip {
    const es_divergence *pair;
    int64_t first, rows; /* places of the strip */
    es_view logits[2];   /* (rows, vocab) of each run */
    double *row;         /* (threads, 2, vocab) */
    double *kl, *agree;  /* of place `first` */
} strip;

/* Compares the distributions of one place. */
static es_status compare_row(void *strip_, int64_t i, int thread, es_error *err)
{
    const strip *s = strip_;
    const int64_t V = s->logits[0].cols;
    double *p = s->row + 2 * thread * V, *q = p + V;
    (void)err;
    es_view_read_row(&s->logits[0], i, p);
    es_view_read_row(&s->logits[1], i, q);
    s->kl[i] = es_logits_kl(p, q, V);
    s->agree[i] = es_logits_best(p, V) == es_logits_best(q, V) ? 1.0 : 0.0;
    return ES_OK;
}

es_status es_divergence_logits(const es_model *model, const es_rotary *rotary, const char *state,
                               int64_t first, int64_t rows, const es_exec *exec, void *out,
                               es_error *err)
{
    const es_model_config *c = es_model_config_of(model);
    const int64_t item = (int64_t)es_dtype_size(es_model_precision(model));
    const es_model_block block = {.n = rows,
                                  .start = c->layers,
                                  .rotary = rotary,
                                  .input = state + first * c->hidden * item,
                                  .token_logits = out};
    return es_model_forward(model, &block, 1, exec, err);
}

/* Makes the logits of a strip that are not there yet, and compares both runs. */
static es_status run_strip(strip *s, const es_exec *exec, es_error *err)
{
    const es_divergence *pair = s->pair;
    for (int m = pair->logits ? 1 : 0; m < 2; m++)
        ES_TRY(es_divergence_logits(pair->model[m], pair->rotary, pair->state[m], s->first, s->rows,
                                    exec, s->logits[m].data, err));
    return es_parallel_run(exec, s->rows, compare_row, s, err);
}

es_status es_divergence_run(const es_divergence *pair, const es_exec *exec, double *kl,
                            double *agree, es_error *err)
{
    const es_exec inner = es_exec_quiet(exec);
    const es_model_config *c = es_model_config_of(pair->model[0]);
    const int64_t V = c->vocab, most = es_divergence_rows(c, pair->n - pair->from);
    es_arena arena = {.budget = inner.budget};
    strip s = {.pair = pair};
    es_status status =
        ES_ARENA_NEW(&arena, s.row, 2 * V * es_parallel_threads(&inner, most), "logits", err);
    for (int m = 0; m < 2 && status == ES_OK; m++) {
        const es_dtype dtype = es_model_precision(pair->model[m]);
        const int64_t item = (int64_t)es_dtype_size(dtype);
        char *data = m ? NULL : pair->logits;
        if (!data)
            status = ES_ARENA_NEW(&arena, data, most * V * item, "logits", err);
        s.logits[m] = (es_view){data, dtype, most, V, V * item, item};
    }
    for (s.first = pair->from; s.first < pair->n && status == ES_OK; s.first += most) {
        s.rows = pair->n - s.first < most ? pair->n - s.first : most;
        s.kl = kl + s.first - pair->from;
        s.agree = agree + s.first - pair->from;
        status = run_strip(&s, &inner, err);
    }
    es_arena_free(&arena);
    return status;
}

double es_divergence_bytes(const es_model_config *c, es_dtype precision, int64_t n, int threads)
{
    const int64_t rows = es_divergence_rows(c, n);
    const double item = (double)es_dtype_size(precision), V = (double)c->vocab;
    return 2.0 * (double)rows * V * item + 16.0 * V * (double)threads +
           es_model_cost_of(c, precision, rows, threads, true).bytes;
}
