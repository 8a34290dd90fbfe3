/* SPDX-License-Identifier: Apache-2.0 */
/* forward_transform.c : steps 4 to 6 of a layer (forward_layer.c), from what heads found to the
 * next hidden state, strip by strip. Experts that are streamed are decoded one by one, and each is
 * used for all strips before the next. */
#include "base/error.h"
#include "base/threads.h"
#include "linalg/dense.h"
#include "model/forward_inside.h"

/* Rows of one strip on their way through what follows attention, f: y = residual + f(x). */
typedef struct f_rows {
    const void *x, *residual;
    void *y;
} f_rows;

/* y (n, H) = residual + W2 f(x), x (n, H) what f is given. */
static void transform_rows(const es_layer_pass *p, const es_strip_scratch *strip, int64_t n,
                           const f_rows *r)
{
    const es_forward *f = p->f;
    const es_model_config *c = &f->model->config;
    const int64_t H = c->hidden, I = c->intermediate;
    if (es_model_layer(c, p->layer)->experts) {
        es_experts_route(f, p->l, strip, n, r->x, r->residual, r->y);
        for (int64_t expert = 0; expert < c->experts; expert++)
            es_experts_add(f, p->l, strip, expert, n, r->x, r->y);
        return;
    }
    es_linear_apply(f, &p->l->up, r->x, NULL, n, H, c->up_width, strip->middle);
    if (f->model->arch->gated)
        f->rows->gate[f->model->arch->gate](f->activate, &f->gelu, n, I, strip->middle);
    else
        f->activate(&f->gelu, strip->middle, n * I);
    es_linear_apply(f, &p->l->down, strip->middle, r->residual, n, I, H, r->y);
}

/* Returns rows of the hidden state, and of what heads found. */
static char *state_rows(const es_layer_pass *p, es_strip s)
{
    return es_row_at(p->f, p->scratch->x, s.first, p->f->model->config.hidden);
}
static char *found_rows(const es_layer_pass *p, es_strip s)
{
    return es_row_at(p->f, p->scratch->heads, s.first, p->f->model->config.query_width);
}

/* Norms after the sums: what the second sum is added to is the first one's norm. */
static es_status begin_post(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip,
                            es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    char *a = strip->normed;
    es_linear_apply(p->f, &p->l->out, found_rows(p, s), state_rows(p, s), s.n, c->query_width,
                    c->hidden, a);
    return es_pass_norm(p, &p->l->norm1, s.n, a, a, err);
}

/* Norms before: the state itself is only ever added to. In parallel, the second norm is of the
 * state that attention was given. */
static es_status begin_pre(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip,
                           es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    char *x = state_rows(p, s), *y = strip->normed;
    if (c->parallel)
        ES_TRY(es_pass_norm(p, p->l->norm2.w ? &p->l->norm2 : &p->l->norm1, s.n, x, y, err));
    es_linear_apply(p->f, &p->l->out, found_rows(p, s), x, s.n, c->query_width, c->hidden, x);
    return c->parallel ? ES_OK : es_pass_norm(p, &p->l->norm2, s.n, x, y, err);
}

bool es_branches_apart(const es_arch *arch, const es_model_config *config)
{
    return arch->order == ES_ORDER_BOTH || arch->order == ES_ORDER_AFTER ||
           config->branch_factor != 1.0;
}

/* x += branch_factor norm(branch), where `after` may be no norm. */
static es_status add_branch(const es_layer_pass *p, const es_linear *after, int64_t n, void *branch,
                            void *x, es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    if (after->w)
        ES_TRY(es_pass_norm(p, after, n, branch, branch, err));
    p->f->rows->add(branch, c->branch_factor, n * c->hidden, x);
    return ES_OK;
}

/* Returns the norm of what f is given where branches are apart; its w may be NULL. */
static const es_linear *branch_norm(const es_layer_pass *p)
{
    return p->l->norm2.w || !p->f->model->config.parallel ? &p->l->norm2 : &p->l->norm1;
}

/* Begins the branches apart from the state, because they are normed or scaled before they are
 * added. */
static es_status begin_branches(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip,
                                es_error *err)
{
    const es_model_config *c = &p->f->model->config;
    const es_linear *norm = branch_norm(p);
    char *x = state_rows(p, s);
    if (c->parallel && norm->w)
        ES_TRY(es_pass_norm(p, norm, s.n, x, strip->normed, err));
    es_linear_apply(p->f, &p->l->out, found_rows(p, s), NULL, s.n, c->query_width, c->hidden,
                    strip->branch);
    ES_TRY(add_branch(p, &p->l->after1, s.n, strip->branch, x, err));
    return c->parallel || !norm->w ? ES_OK : es_pass_norm(p, norm, s.n, x, strip->normed, err);
}

/* Step 4 of a strip, up to what f is given. */
static es_status begin_rows(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip,
                            es_error *err)
{
    const es_model *m = p->f->model;
    if (es_branches_apart(m->arch, &m->config))
        return begin_branches(p, s, strip, err);
    return m->arch->order == ES_ORDER_POST ? begin_post(p, s, strip, err)
                                           : begin_pre(p, s, strip, err);
}

/* Returns where begin_rows() leaves what f is given, and where its results go. */
static f_rows rows_of(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip)
{
    const es_model *m = p->f->model;
    char *x = state_rows(p, s);
    if (es_branches_apart(m->arch, &m->config))
        return (f_rows){branch_norm(p)->w ? strip->normed : x, NULL, strip->branch};
    return (f_rows){strip->normed, m->arch->order == ES_ORDER_POST ? strip->normed : x, x};
}

/* Makes the state of what f gave. */
static es_status end_rows(const es_layer_pass *p, es_strip s, const es_strip_scratch *strip,
                          es_error *err)
{
    const es_model *m = p->f->model;
    char *x = state_rows(p, s);
    if (es_branches_apart(m->arch, &m->config))
        return add_branch(p, &p->l->after2, s.n, strip->branch, x, err);
    return m->arch->order == ES_ORDER_POST ? es_pass_norm(p, &p->l->norm2, s.n, x, x, err) : ES_OK;
}

/* Steps 4 to 6 of a strip. */
es_status es_strip_transform(void *pass_, int64_t unit, int thread, es_error *err)
{
    const es_layer_pass *p = pass_;
    const es_strip s = es_strip_at(p->b->n, unit);
    const es_strip_scratch *strip = &p->scratch->strip[thread];
    ES_TRY(begin_rows(p, s, strip, err));
    const f_rows r = rows_of(p, s, strip);
    transform_rows(p, strip, s.n, &r);
    return end_rows(p, s, strip, err);
}

/* ---- the same with experts that are decoded one by one ---- */

/* Returns the scratch memory of a thread for a strip, with what strips keep until all experts have
 * run. */
static es_strip_scratch kept_strip(const es_layer_pass *p, es_strip s,
                                   const es_strip_scratch *of_thread)
{
    const es_model_config *c = &p->f->model->config;
    es_strip_scratch strip = *of_thread;
    strip.normed = es_row_at(p->f, p->scratch->normed, s.first, c->hidden);
    strip.branch = es_row_at(p->f, p->scratch->branch, s.first, c->hidden);
    strip.experts.share = es_row_at(p->f, p->scratch->share, s.first, c->experts_used);
    strip.experts.chosen = p->scratch->chosen + s.first * c->experts_used;
    return strip;
}

/* Step 4 of a strip, and which experts its rows use. */
es_status es_strip_route(void *pass_, int64_t unit, int thread, es_error *err)
{
    const es_layer_pass *p = pass_;
    const es_strip s = es_strip_at(p->b->n, unit);
    const es_strip_scratch strip = kept_strip(p, s, &p->scratch->strip[thread]);
    ES_TRY(begin_rows(p, s, &strip, err));
    const f_rows r = rows_of(p, s, &strip);
    es_experts_route(p->f, p->l, &strip, s.n, r.x, r.residual, r.y);
    return ES_OK;
}

/* An expert of a layer, or the end of the layer, for all blocks that run together. */
typedef struct expert_job {
    const es_forward *f;
    const es_layer *weights;
    int64_t layer, expert, strips; /* strips of the longest block */
} expert_job;

/* Returns the block of a unit; p->b is NULL if that does not have the layer, or as many strips. */
static es_layer_pass pass_of(const expert_job *j, int64_t unit)
{
    const es_forward *f = j->f;
    const int64_t at = unit / j->strips, block = f->first + at;
    const es_model_block *b = &f->blocks[block];
    const bool runs = j->layer >= b->start && j->layer < es_layers_end(f, b) &&
                      unit % j->strips < es_strips(b->n);
    return (es_layer_pass){f, &f->scratch[at], runs ? b : NULL, j->weights, block, j->layer};
}

/* Adds what the expert does to the rows of a strip. */
static es_status add_expert(void *job, int64_t unit, int thread, es_error *err)
{
    const expert_job *j = job;
    const es_layer_pass p = pass_of(j, unit);
    (void)err;
    if (!p.b)
        return ES_OK;
    const es_strip s = es_strip_at(p.b->n, unit % j->strips);
    const es_strip_scratch strip = kept_strip(&p, s, &j->f->strips[thread]);
    const f_rows r = rows_of(&p, s, &strip);
    es_experts_add(j->f, j->weights, &strip, j->expert, s.n, r.x, r.y);
    return ES_OK;
}

/* Ends the layer for a strip. */
static es_status end_strip(void *job, int64_t unit, int thread, es_error *err)
{
    const expert_job *j = job;
    const es_layer_pass p = pass_of(j, unit);
    if (!p.b)
        return ES_OK;
    const es_strip s = es_strip_at(p.b->n, unit % j->strips);
    const es_strip_scratch strip = kept_strip(&p, s, &j->f->strips[thread]);
    return end_rows(&p, s, &strip, err);
}

/* Returns whether a row of some block uses the expert. */
static bool is_used(const expert_job *j, int64_t units)
{
    for (int64_t unit = 0; unit < units; unit++) {
        const es_layer_pass p = pass_of(j, unit);
        if (!p.b)
            continue;
        const es_strip s = es_strip_at(p.b->n, unit % j->strips);
        const es_strip_scratch strip = kept_strip(&p, s, j->f->strips);
        if (es_experts_use(j->f, &strip, j->expert, s.n))
            return true;
    }
    return false;
}

es_status es_layer_experts(const es_forward *f, int64_t layer, const es_layer *weights,
                           es_error *err)
{
    const es_exec all = {.threads = f->team.threads};
    expert_job j = {.f = f, .weights = weights, .layer = layer};
    for (int64_t i = 0; i < f->together; i++) {
        const int64_t strips = es_strips(f->blocks[f->first + i].n);
        j.strips = strips > j.strips ? strips : j.strips;
    }
    const int64_t units = f->together * j.strips;
    for (; j.expert < f->model->config.experts; j.expert++) {
        if (!is_used(&j, units))
            continue;
        ES_TRY(es_slot_expert(f->slot, layer, j.expert, err));
        ES_TRY(es_parallel_run(&all, units, add_expert, &j, err));
    }
    return es_parallel_run(&all, units, end_strip, &j, err);
}
