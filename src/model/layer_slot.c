/* SPDX-License-Identifier: Apache-2.0 */
/* layer_slot.c : decodes the weights of one layer, or a panel of rows, when they are needed. */
#include "model/layer_slot.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"

/* ---- memory ---- */

static bool is_streamed(const es_model *m) { return m->config.weights == ES_WEIGHTS_STREAMED; }

/* Allocates a slot of `numbers` numbers for a streamed model, an empty one for a resident model. */
static es_status new_slot(const es_model *model, const es_exec *exec, int64_t numbers,
                          es_layer_slot *out, es_error *err)
{
    static const es_exec defaults = {0};
    const es_exec *e = exec ? exec : &defaults;
    *out = (es_layer_slot){.model = model};
    if (!is_streamed(model))
        return ES_OK;
    ES_TRY(es_read_scratch_new(e, model->source->turned, model->precision, &out->scratch, err));
    const es_status status = es_mem_array(e->budget, numbers, 1, es_dtype_size(model->precision),
                                          "a layer of weights", &out->memory, err);
    if (status != ES_OK)
        es_slot_free(out);
    return status;
}

es_status es_slot_new(const es_model *model, const es_exec *exec, es_layer_slot *out, es_error *err)
{
    return new_slot(model, exec, is_streamed(model) ? model->source->slot : 0, out, err);
}

void es_slot_free(es_layer_slot *slot)
{
    es_mem_free(slot->scratch.exec.budget, slot->memory);
    es_read_scratch_free(&slot->scratch);
    *slot = (es_layer_slot){0};
}

/* Returns the numbers of what follows attention in a layer, of its experts one. */
static int64_t rest_numbers(const es_model_config *c, int64_t layer)
{
    if (!es_model_layer(c, layer)->experts)
        return c->hidden * (c->up_width + c->intermediate);
    return c->hidden * (c->experts + c->expert_up + c->expert_width);
}

/* Returns the numbers of the matrices of attention. */
static int64_t attention_numbers(const es_model_config *c)
{
    return c->hidden * (c->qkv_width + c->query_width);
}

/* Returns the bytes of a slot of `numbers` numbers and of the chunks that threads read. A chunk has
 * 2^16 numbers, or a row of a transposed matrix. */
static double with_chunks(const es_model_config *c, int64_t numbers, es_dtype precision,
                          int threads)
{
    const int64_t chunk = threads * ((1 << 16) + c->up_width + c->expert_up + c->qkv_width);
    return (double)(numbers + chunk) * (double)es_dtype_size(precision);
}

double es_slot_bytes(const es_model_config *c, es_dtype precision, int threads)
{
    int64_t rest = 0;
    for (int64_t l = 0; l < c->layers; l++)
        rest = rest_numbers(c, l) > rest ? rest_numbers(c, l) : rest;
    const int64_t layer = attention_numbers(c) + rest;
    const int64_t panel = c->hidden * (c->vocab < ES_PANEL ? c->vocab : ES_PANEL);
    return with_chunks(c, layer > panel ? layer : panel, precision, threads);
}

double es_slot_attention_bytes(const es_model_config *c, es_dtype precision, int threads)
{
    return with_chunks(c, attention_numbers(c), precision, threads);
}

/* ---- a layer ---- */

/* Reads one matrix to *at, and moves *at behind it. */
static es_status read_matrix(const es_layer_slot *slot, es_tensor_ref ref, char **at, es_error *err)
{
    const es_model *m = slot->model;
    char names[2][ES_TENSOR_NAME];
    es_packed_tensors packed;
    int64_t numbers;
    if (es_weights_packed(m, ref, &packed, names)) {
        numbers = 2 * es_tensor_numbers(&m->config, ref, packed.blocks); /* a byte has two */
        ES_TRY(es_packed_read(m, ref, &packed, &slot->scratch, *at, NULL, err));
    } else {
        const es_st_tensor *t = es_weights_find(m->source, ref, names[0]);
        numbers = es_tensor_numbers(&m->config, ref, t);
        ES_TRY(es_tensor_read(m, ref, t, &slot->scratch, *at, NULL, err));
    }
    *at += (size_t)numbers * es_dtype_size(m->precision);
    return ES_OK;
}

/* Reads the matrices of a stack of parts, one below the other, to *at, and moves *at behind them;
 * of experts, those of one. */
static es_status read_stack(es_layer_slot *slot, const es_part_stack *s, int64_t layer,
                            int64_t expert, char **at, es_error *err)
{
    ((es_linear *)((char *)&slot->layer + s->part->at))->w = *at;
    for (int i = 0; i < s->count; i++) {
        const es_tensor_ref ref = {s->part + i, layer, .head = expert, .alone = true};
        ES_TRY(read_matrix(slot, ref, at, err));
    }
    return ES_OK;
}

es_status es_slot_layer(es_layer_slot *slot, int64_t layer, const es_layer **out, es_error *err)
{
    const es_model *m = slot->model;
    *out = &m->layers[layer];
    if (!is_streamed(m))
        return ES_OK;
    slot->rest = slot->memory;
    slot->layer = m->layers[layer];
    *out = &slot->layer;
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, layer, &s);)
        if (es_part_is_streamed(s.part) && !es_part_is_expert(s.part))
            ES_TRY(read_stack(slot, &s, layer, 0, &slot->rest, err));
    return ES_OK;
}

/* Reads the matrices of attention of a layer into an empty slot. */
static es_status read_attention(es_layer_slot *slot, int64_t layer, es_error *err)
{
    const es_model *m = slot->model;
    char *at = slot->memory;
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, layer, &s);)
        if (es_part_is_streamed(s.part) && !es_part_is_expert(s.part) &&
            (s.part->at == ES_IN_LAYER(qkv) || s.part->at == ES_IN_LAYER(out)))
            ES_TRY(read_stack(slot, &s, layer, 0, &at, err));
    return ES_OK;
}

es_status es_slot_attention(const es_model *model, int64_t layer, const es_exec *exec,
                            es_layer_slot *out, es_error *err)
{
    ES_TRY(new_slot(model, exec, attention_numbers(&model->config), out, err));
    out->layer = model->layers[layer];
    const es_status status = is_streamed(model) ? read_attention(out, layer, err) : ES_OK;
    if (status != ES_OK)
        es_slot_free(out);
    return status;
}

es_status es_slot_expert(es_layer_slot *slot, int64_t layer, int64_t expert, es_error *err)
{
    const es_model *m = slot->model;
    char *at = slot->rest;
    for (es_part_stack s = {0};
         is_streamed(m) && es_part_stack_next(m->arch, &m->config, layer, &s);)
        if (es_part_is_expert(s.part))
            ES_TRY(read_stack(slot, &s, layer, expert, &at, err));
    return ES_OK;
}

/* ---- rows of the vocabulary ---- */

/* Returns the tensor of word embeddings, or of the language head, which may be the same. */
static const es_st_tensor *vocabulary(const es_model *m, bool head)
{
    const bool own = head && !m->config.tied;
    const es_arch_part *p = m->arch->parts;
    char name[ES_TENSOR_NAME];
    while (own ? p->role != ES_ROLE_PREDICTOR
               : es_part_in_layer(p) || p->at != ES_IN_MODEL(word) || p->role != ES_ROLE_BODY)
        p++;
    return es_weights_find(m->source, (es_tensor_ref){.part = p}, name);
}

/* Rows of a tensor: those of ids, or all from `first` on. */
typedef struct row_job {
    const es_model *model;
    const es_st_tensor *tensor;
    const int32_t *ids;
    int64_t first, n;
    char *out;
} row_job;

enum { ROWS = 32 }; /* of a unit of work */

/* Reads the rows of unit `unit`. */
static es_status read_rows(void *job, int64_t unit, int thread, es_error *err)
{
    const row_job *j = job;
    const es_model *m = j->model;
    const int64_t begin = unit * ROWS, end = begin + ROWS < j->n ? begin + ROWS : j->n;
    const size_t row = (size_t)m->config.hidden * es_dtype_size(m->precision);
    (void)thread;
    if (!j->ids)
        return es_st_read_rows(m->source->st, j->tensor, j->first + begin, end - begin,
                               m->precision, j->out + (size_t)begin * row, NULL, err);
    for (int64_t i = begin; i < end; i++)
        ES_TRY(es_st_read_rows(m->source->st, j->tensor, j->ids[i], 1, m->precision,
                               j->out + (size_t)i * row, NULL, err));
    return ES_OK;
}

es_status es_slot_words(const es_layer_slot *slot, const int32_t *ids, int64_t n, void *out,
                        es_error *err)
{
    const es_model *m = slot->model;
    row_job j = {.model = m, .tensor = vocabulary(m, false), .ids = ids, .n = n, .out = out};
    return es_parallel_run(&slot->scratch.exec, (n + ROWS - 1) / ROWS, read_rows, &j, err);
}

es_status es_slot_panel(es_layer_slot *slot, bool head, int64_t first, int64_t rows,
                        const void **out, es_error *err)
{
    const es_model *m = slot->model;
    const char *whole = head ? m->predictor.w : m->word.w;
    *out = slot->memory;
    if (!is_streamed(m)) {
        *out = whole + (size_t)(first * m->config.hidden) * es_dtype_size(m->precision);
        return ES_OK;
    }
    row_job j = {m, vocabulary(m, head), NULL, first, rows, slot->memory};
    return es_parallel_run(&slot->scratch.exec, (rows + ROWS - 1) / ROWS, read_rows, &j, err);
}
