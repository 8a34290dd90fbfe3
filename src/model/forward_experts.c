/* SPDX-License-Identifier: Apache-2.0 */
/* forward_experts.c : what follows attention in a layer with experts, for one strip of rows.
 *
 * With x (n, H), E experts and k of them for each token:
 *   1  r (n, E) = x Wr' + br                          the router's logits
 *   2  the k experts of each token, and their shares  softmax of r over those k, or over all E
 *   3  for each expert, in order: its tokens' rows of x are gathered, m of them;
 *      m (m, F) = gate(x W1e' + b1e),  y += share (m W2e' + b2e), back in the tokens' rows
 * Only experts that some token uses are computed. The order of sums is that of the experts, so that
 * the bits of a row depend on its strip alone, whether all experts of a strip come first
 * (forward_layer.c) or all strips of an expert, which is then decoded once. */
#include <string.h>

#include "linalg/dense.h"
#include "model/forward_inside.h"

int64_t es_experts_numbers(const es_model_config *c)
{
    return c->experts ? c->experts + 2 * (c->experts_used + 1 + c->hidden) : 0;
}

void es_experts_place(const es_model *m, int64_t rows, char *memory, es_expert_scratch *scratch)
{
    const es_model_config *c = &m->config;
    const int64_t item = (int64_t)es_dtype_size(m->precision), k = c->experts_used;
    scratch->logits = memory;
    scratch->share = scratch->logits + rows * c->experts * item;
    scratch->factor = scratch->share + rows * k * item;
    scratch->gathered = scratch->factor + rows * item;
    scratch->found = scratch->gathered + rows * c->hidden * item;
    scratch->chosen = (int32_t *)(void *)(scratch->found + rows * c->hidden * item);
    scratch->which = scratch->chosen + rows * k; /* each has places of `item` bytes, 4 or 8 */
}

/* Lists the tokens that use an expert, with their shares. @return : how many they are. */
static int64_t list_tokens(const es_forward *f, const es_expert_scratch *scratch, int64_t expert,
                           int64_t n)
{
    const int64_t k = f->model->config.experts_used;
    const size_t item = es_dtype_size(f->model->precision);
    int64_t count = 0;
    for (int64_t at = 0; at < n * k; at++) {
        if (scratch->chosen[at] != expert)
            continue;
        memcpy(scratch->factor + (size_t)count * item, scratch->share + (size_t)at * item, item);
        scratch->which[count++] = (int32_t)(at / k);
    }
    return count;
}

bool es_experts_use(const es_forward *f, const es_strip_scratch *strip, int64_t expert, int64_t n)
{
    for (int64_t at = 0; at < n * f->model->config.experts_used; at++)
        if (strip->experts.chosen[at] == expert)
            return true;
    return false;
}

void es_experts_add(const es_forward *f, const es_layer *layer, const es_strip_scratch *strip,
                    int64_t expert, int64_t n, const void *x, void *y)
{
    const es_model *m = f->model;
    const es_model_config *c = &m->config;
    const es_expert_scratch *scratch = &strip->experts;
    const int64_t H = c->hidden, F = c->expert_width, count = list_tokens(f, scratch, expert, n);
    if (!count)
        return;
    const es_linear up = es_linear_expert(m, &layer->experts_up, expert, c->expert_up, H);
    const es_linear down = es_linear_expert(m, &layer->experts_down, expert, H, F);
    f->rows->gather(x, scratch->which, count, H, scratch->gathered);
    es_linear_apply(f, &up, scratch->gathered, NULL, count, H, c->expert_up, strip->middle);
    f->rows->gate[m->arch->gate](f->activate, &f->gelu, count, F, strip->middle);
    es_linear_apply(f, &down, strip->middle, NULL, count, F, H, scratch->found);
    f->rows->scatter(scratch->found, scratch->which, scratch->factor, count, H, y);
}

void es_experts_route(const es_forward *f, const es_layer *layer, const es_strip_scratch *strip,
                      int64_t n, const void *x, const void *residual, void *y)
{
    const es_model_config *c = &f->model->config;
    const es_expert_scratch *scratch = &strip->experts;
    const size_t bytes = (size_t)(n * c->hidden) * es_dtype_size(f->model->precision);
    if (!residual)
        memset(y, 0, bytes);
    else if (residual != y)
        memcpy(y, residual, bytes);
    es_linear_apply(f, &layer->router, x, NULL, n, c->hidden, c->experts, scratch->logits);
    f->rows->route(c, scratch->logits, n, scratch->chosen, scratch->share);
}
