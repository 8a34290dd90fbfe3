/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c : the tensors of a checkpoint become a model in memory, as its description says. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/layer_slot.h"
#include "model/model.h"
#include "model/packed.h"
#include "model/weights_inside.h"

/* Every tensor is visited twice: first checked and counted, so that no memory is taken for weights
 * that are not there; then read into its place, or, if it stays in the file, read and looked at. */
typedef struct loader {
    es_model *model;
    es_weight_source *from;
    bool reading;            /* second visit */
    int64_t used;            /* numbers read so far */
    int64_t of_layer;        /* numbers of matrices of the present layer */
    es_read_scratch scratch; /* of the second visit */
    es_error *err;
} loader;

/* ---- one tensor ---- */

/* "[30522, 384]" */
static const char *shape_text(const es_st_tensor *t, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld",
                                 (long long)t->shape[i]);
    if (used < size)
        snprintf(out + used, size - used, "]");
    return out;
}

/* Returns whether a part has a tensor for each head, of one row of it. */
static bool is_by_head(const es_arch_part *part)
{
    const char *star = strchr(part->name, '*');
    return star && strchr(star + 1, '*') && part->kind == ES_PART_SCALES;
}

/* "encoder.layer.3.output.dense" for the part named "encoder.layer.*.output.dense"; a second '*' is
 * the number of a head or expert. `name` is that of the part, or the one that it may have instead.
 */
static void full_name(const es_weight_source *from, es_tensor_ref ref, const char *name,
                      const char *ending, char out[ES_TENSOR_NAME])
{
    const int64_t numbers[] = {ref.layer, ref.head};
    int used =
        snprintf(out, ES_TENSOR_NAME, "%s", ref.part->outside ? from->outside : from->prefix);
    for (int i = 0; i < 2; i++) {
        const char *star = strchr(name, '*');
        if (!star)
            break;
        used += snprintf(out + used, (size_t)(ES_TENSOR_NAME - used), "%.*s%lld",
                         (int)(star - name), name, (long long)numbers[i]);
        name = star + 1;
    }
    snprintf(out + used, (size_t)(ES_TENSOR_NAME - used), "%s%s", name, ending);
}

/* Returns what follows the name of a part in those of its weight, or bias. */
static const char *ending_of(es_tensor_ref ref)
{
    if (es_part_has_plain_name(ref.part))
        return ref.bias ? "_bias" : "";
    return ref.bias ? ".bias" : ".weight";
}

/* The tensor with this ending, under the name of its part or the one that it may have instead.
 * `name` is left as the first of them, for messages. */
static const es_st_tensor *find_ending(const es_weight_source *from, es_tensor_ref ref,
                                       const char *ending, char name[ES_TENSOR_NAME])
{
    char other[ES_TENSOR_NAME];
    full_name(from, ref, ref.part->name, ending, name);
    const es_st_tensor *t = es_st_find(from->st, name);
    if (t || !ref.part->instead)
        return t;
    full_name(from, ref, ref.part->instead, ending, other);
    return es_st_find(from->st, other);
}

/* The tensor, under its name or, for a norm, the one that TensorFlow's checkpoints gave it: gamma
 * for weight, beta for bias. */
const es_st_tensor *es_weights_find(const es_weight_source *from, es_tensor_ref ref,
                                    char name[ES_TENSOR_NAME])
{
    char old[ES_TENSOR_NAME];
    const es_st_tensor *t = find_ending(from, ref, ending_of(ref), name);
    if (t || ref.part->kind != ES_PART_NORM)
        return t;
    return find_ending(from, ref, ref.bias ? ".beta" : ".gamma", old);
}

/* Fails unless the tensor is there in this shape (rank). */
static es_status check_shape(const loader *l, const es_st_tensor *t, const char *name, int rank,
                             const int64_t *shape)
{
    es_st_tensor wanted = {.rank = rank};
    char has[128], wants[128];
    if (!t)
        return es_fail_file(l->err, ES_E_FORMAT, l->model->folder, -1, "model.tensor",
                            "check that config.json belongs to these weights", "missing tensor %s",
                            name);
    memcpy(wanted.shape, shape, (size_t)rank * sizeof *shape);
    if (t->rank == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return ES_OK;
    return es_fail_file(l->err, ES_E_FORMAT, es_st_file(l->from->st, t), (int64_t)t->offset,
                        "model.shape", "check that config.json belongs to these weights",
                        "tensor %s has shape %s; config.json requires %s", t->name,
                        shape_text(t, has, sizeof has), shape_text(&wanted, wants, sizeof wants));
}

/* A tensor that is NULL is missing. */
static es_status check(const loader *l, const es_st_tensor *t, const char *name, es_tensor_ref ref)
{
    const es_model_config *c = &l->model->config;
    const bool vector = ref.bias || es_part_is_vector(ref.part) || is_by_head(ref.part);
    const bool turned = !vector && !l->from->plain && ref.part->order == ES_ROWS_TRANSPOSED;
    const int64_t outputs =
        es_config_size(c, is_by_head(ref.part) ? ref.part->cols : ref.part->rows);
    const int64_t inputs = vector ? 1 : es_config_size(c, ref.part->cols);
    const int64_t rows = turned ? inputs : outputs, cols = turned ? outputs : inputs;
    const int fused = ref.part->kind == ES_PART_FUSED, rank = fused + (vector ? 1 : 2);
    const int64_t shape[] = {c->experts, rows, cols};
    return check_shape(l, t, name, rank, shape + !fused);
}

/* A NaN among the weights spreads to every hidden state of a block, far from its cause; so it is
 * looked for here, where the tensor has a name. Subnormal numbers are common in f16 and harmless.
 */
static es_status read(const loader *l, es_tensor_ref ref, const es_st_tensor *t, void *at)
{
    es_st_seen seen;
    ES_TRY(es_tensor_read(l->model, ref, t, &l->scratch, at, &seen, l->err));
    if (seen.subnormals)
        es_log(ES_LOG_DEBUG, "tensor %.100s: %lld subnormal %s numbers", t->name,
               (long long)seen.subnormals, t->dtype);
    if (seen.first < 0)
        return ES_OK;
    if (!l->from->allow_nonfinite)
        return es_fail_file(l->err, ES_E_NONFINITE, es_st_file(l->from->st, t), (int64_t)t->offset,
                            "model.finite", "download it again, or allow non-finite weights",
                            "tensor %.100s holds %lld NaN and %lld infinite numbers, the first at "
                            "index %lld",
                            t->name, (long long)seen.nans, (long long)seen.infinities,
                            (long long)seen.first);
    l->model->nonfinite = true;
    es_log(ES_LOG_WARN, "tensor %.100s holds %lld NaN and %lld infinite numbers", t->name,
           (long long)seen.nans, (long long)seen.infinities);
    return ES_OK;
}

/* Adds 1 to each number of a norm's scale, in the model's precision. */
static void add_one(const es_model *m, void *at, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (m->precision == ES_F32)
            ((float *)at)[i] += 1.0f;
        else
            ((double *)at)[i] += 1.0;
}

bool es_part_is_streamed(const es_arch_part *part)
{
    return !es_part_is_norm(part) && !es_part_is_vector(part) &&
           (es_part_in_layer(part) || part->at == ES_IN_MODEL(word) ||
            part->role == ES_ROLE_PREDICTOR);
}

/* Counts the numbers that a slot has of a tensor: of experts, those of one. */
static void count_slot(loader *l, es_tensor_ref ref, const es_st_tensor *t)
{
    const bool other = ref.part->kind == ES_PART_EXPERTS && ref.head;
    ref.alone = true;
    if (!ref.bias && !other && es_part_is_streamed(ref.part) && es_part_in_layer(ref.part))
        l->of_layer += es_tensor_numbers(&l->model->config, ref, t);
}

/* Checks a tensor and counts its numbers. */
static es_status count(loader *l, es_tensor_ref ref, const es_st_tensor *t, const char *name)
{
    es_weight_source *from = l->from;
    ES_TRY(check(l, t, name, ref)); /* so t->count is what a file on disk holds */
    const bool streamed = !ref.bias && es_part_is_streamed(ref.part);
    const int64_t chunk = es_tensor_chunk(t);
    from->all += t->count;
    from->small += streamed ? 0 : t->count;
    count_slot(l, ref, t);
    from->chunk = chunk > from->chunk ? chunk : from->chunk;
    if (es_tensor_lies_otherwise(from, ref) && chunk > from->turned)
        from->turned = chunk;
    return ES_OK;
}

/* Fails unless a tensor has bytes, and a group of numbers does not end in another row. */
static es_status check_packed(const loader *l, const es_st_tensor *t)
{
    const es_model_config *c = &l->model->config;
    if (strcmp(t->dtype, "U8") == 0 && c->hidden % ES_PACKED_GROUP == 0 &&
        c->expert_width % ES_PACKED_GROUP == 0)
        return ES_OK;
    return es_fail_file(l->err, ES_E_FORMAT, es_st_file(l->from->st, t), (int64_t)t->offset,
                        "model.shape", "check that config.json belongs to these weights",
                        "tensor %s of type %s is no matrix in MXFP4: rows of %lld and %lld numbers "
                        "in groups of 32",
                        t->name, t->dtype, (long long)c->hidden, (long long)c->expert_width);
}

bool es_weights_packed(const es_model *m, es_tensor_ref ref, es_packed_tensors *out,
                       char names[2][ES_TENSOR_NAME])
{
    if (ref.part->kind != ES_PART_FUSED || !m->config.experts_packed || ref.bias)
        return false;
    out->blocks = find_ending(m->source, ref, "_blocks", names[0]);
    out->scales = find_ending(m->source, ref, "_scales", names[1]);
    return true;
}

/* Reads a matrix in blocks of MXFP4 to `at`, or looks at its numbers (NULL). */
static es_status read_packed(const loader *l, es_tensor_ref ref, const es_packed_tensors *t,
                             void *at)
{
    const es_st_tensor *scales = t->scales;
    int64_t bad;
    unsigned char exponent;
    ES_TRY(es_packed_read(l->model, ref, t, &l->scratch, at, &bad, l->err));
    if (bad < 0)
        return ES_OK;
    ES_TRY(es_st_read_bytes(l->from->st, scales, bad, 1, &exponent, l->err));
    if (!l->from->allow_nonfinite)
        return es_fail_file(
            l->err, ES_E_NONFINITE, es_st_file(l->from->st, scales), (int64_t)scales->offset,
            "model.finite", "download it again, or allow non-finite weights",
            "tensor %.100s: scale %d at index %lld makes numbers that are not finite", scales->name,
            exponent, (long long)bad);
    l->model->nonfinite = true;
    es_log(ES_LOG_WARN, "tensor %.100s makes numbers that are not finite", scales->name);
    return ES_OK;
}

/* Checks a matrix in blocks of MXFP4 and counts it as the numbers that it holds. */
static es_status count_packed(loader *l, es_tensor_ref ref, const es_packed_tensors *t,
                              char names[2][ES_TENSOR_NAME])
{
    const es_model_config *c = &l->model->config;
    const int64_t rows = es_config_size(c, ref.part->rows),
                  cols = es_config_size(c, ref.part->cols);
    const int64_t shape[] = {c->experts, rows, cols / ES_PACKED_GROUP, ES_PACKED_GROUP / 2};
    ES_TRY(check_shape(l, t->blocks, names[0], 4, shape));
    ES_TRY(check_shape(l, t->scales, names[1], 3, shape));
    ES_TRY(check_packed(l, t->blocks));
    ES_TRY(check_packed(l, t->scales));
    l->from->all += c->experts * rows * cols;
    l->of_layer += rows * cols;
    l->from->chunk = l->from->chunk > ES_PACKED_CHUNK ? l->from->chunk : ES_PACKED_CHUNK;
    return ES_OK;
}

/* Returns where the numbers of a weight or bias go, `count` of them: NULL if it stays in the file.
 */
static void *place_numbers(loader *l, es_tensor_ref ref, int64_t count)
{
    const es_model *m = l->model;
    if (m->config.weights == ES_WEIGHTS_STREAMED && !ref.bias && es_part_is_streamed(ref.part))
        return NULL;
    void *at = (char *)m->weights + (size_t)l->used * es_dtype_size(m->precision);
    l->used += count;
    return at;
}

/* Checks and counts a tensor, or reads it; *place (if not NULL) is then where, NULL if it stays in
 * the file. */
static es_status visit(loader *l, es_tensor_ref ref, void **place)
{
    es_model *m = l->model;
    char name[ES_TENSOR_NAME], names[2][ES_TENSOR_NAME];
    es_packed_tensors packed;
    const bool is_packed = es_weights_packed(m, ref, &packed, names);
    const es_st_tensor *t = is_packed ? packed.blocks : es_weights_find(l->from, ref, name);
    if (!l->reading)
        return is_packed ? count_packed(l, ref, &packed, names) : count(l, ref, t, name);
    void *at = place_numbers(l, ref, is_packed ? 2 * t->count : t->count); /* a byte has two */
    if (place)
        *place = at;
    if (is_packed)
        return read_packed(l, ref, &packed, at);
    ES_TRY(read(l, ref, t, at));
    if (at && m->config.norm_from_one && es_part_is_norm(ref.part) && !ref.bias)
        add_one(m, at, t->count);
    return ES_OK;
}

/* ---- all of them ---- */

static bool has_bias(const es_model_config *c, const es_arch_part *part)
{
    if (part->kind == ES_PART_MATRIX || part->kind == ES_PART_SCALE || es_part_is_expert(part))
        return part->biased && *(const bool *)((const char *)c + part->biased);
    return part->kind == ES_PART_LINEAR || part->kind == ES_PART_NORM;
}

/* A bias that the configuration does not know of would change what is computed: one of a matrix, of
 * an expert, of a norm, of embeddings, or of an output that is tied to them. */
static es_status check_no_bias(const loader *l, const es_arch_part *part, int64_t layer)
{
    static const char *const endings[] = {".bias", ".beta", "_bias"};
    const int64_t experts = part->kind == ES_PART_EXPERTS ? l->model->config.experts : 1;
    char name[ES_TENSOR_NAME];
    for (int64_t e = 0; e < experts; e++)
        for (int i = 0; i < 3; i++)
            if (find_ending(l->from, (es_tensor_ref){part, layer, false, e}, endings[i], name))
                return es_fail_file(
                    l->err, ES_E_FORMAT, l->model->folder, -1, "model.tensor",
                    "check that config.json belongs to these weights",
                    "unexpected tensor %s: a %s of this configuration has no such bias", name,
                    l->model->arch->title);
    return ES_OK;
}

/* Visits the weights of `count` parts that share a place: one tensor of each, or one for each head;
 * of experts, those of the first expert come first. */
static es_status visit_weights(loader *l, const es_arch_part *first, int count, int64_t layer,
                               void **place)
{
    const es_model_config *c = &l->model->config;
    const int64_t experts = first->kind == ES_PART_EXPERTS ? c->experts : 1;
    for (int64_t e = 0; e < experts; e++)
        for (int i = 0; i < count; i++) {
            const int64_t heads = is_by_head(first + i) ? es_config_size(c, first[i].rows) : 1;
            for (int64_t head = 0; head < heads; head++, place = NULL)
                ES_TRY(visit(l, (es_tensor_ref){first + i, layer, false, e + head}, place));
        }
    return ES_OK;
}

/* Weights of parts that share a place follow each other in memory, then their biases do; so each is
 * one matrix, or one vector. Where there is no bias, zeros that all such parts share stand for it:
 * they are the first numbers of the block. */
static es_status visit_stack(loader *l, const es_arch_part *first, int count, int64_t layer)
{
    es_linear *place = es_model_place(l->model, first, layer);
    const int64_t times = es_part_is_expert(first) ? l->model->config.experts : 1;
    int64_t rows = 0;
    ES_TRY(visit_weights(l, first, count, layer, &place->w));
    for (int i = 0; i < count; i++)
        rows += times * es_config_size(&l->model->config, first[i].rows);
    if (first->kind == ES_PART_SCALES) /* its shift is of one head */
        rows = es_config_size(&l->model->config, first->cols);
    for (int i = 0; i < count && has_bias(&l->model->config, first); i++)
        ES_TRY(visit(l, (es_tensor_ref){first + i, layer, true, 0}, i ? NULL : &place->b));
    if (has_bias(&l->model->config, first))
        return ES_OK;
    for (int i = 0; i < count; i++)
        ES_TRY(check_no_bias(l, first + i, layer));
    if (first->kind == ES_PART_TABLE || first->kind == ES_PART_VALUES)
        return ES_OK;
    l->from->widest = rows > l->from->widest ? rows : l->from->widest;
    place->b = l->reading ? l->model->weights : NULL;
    return ES_OK;
}

/* The body's parts in the order of the description: those of no layer, then layer by layer. */
static es_status visit_body(loader *l)
{
    es_model *m = l->model;
    for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, -1, &s);)
        ES_TRY(visit_stack(l, s.part, s.count, -1));
    for (int64_t layer = 0; layer < m->config.layers; layer++) {
        l->of_layer = 0;
        for (es_part_stack s = {0}; es_part_stack_next(m->arch, &m->config, layer, &s);)
            ES_TRY(visit_stack(l, s.part, s.count, layer));
        l->from->slot = l->of_layer > l->from->slot ? l->of_layer : l->from->slot;
    }
    return ES_OK;
}

/* Returns whether a part outside of the body counts in this checkpoint. */
static bool has_role(const loader *l, es_part_role role)
{
    const es_model_config *c = &l->model->config;
    switch (role) {
    case ES_ROLE_POOLER:
        return c->pooler && !l->from->dense;
    case ES_ROLE_DENSE:
        return l->from->dense;
    case ES_ROLE_CLASSIFIER:
        return c->labels > 0;
    case ES_ROLE_PREDICTOR:
        return c->predicts && !c->tied;
    default:
        return false;
    }
}

/* Both visits go through here, so that what is counted is what is read. */
static es_status visit_all(loader *l)
{
    es_model *m = l->model;
    l->used = l->from->widest; /* after the zeros */
    ES_TRY(visit_body(l));
    for (const es_arch_part *p = m->arch->parts; p->name; p++)
        if (has_role(l, p->role))
            ES_TRY(visit_stack(l, p, 1, -1));
        else if (p->role == ES_ROLE_PREDICTOR)
            ES_TRY(check_no_bias(l, p, -1));
    if (m->config.tied)
        m->predictor = m->word;
    return ES_OK;
}

/* ---- the two visits ---- */

/* The first visit. */
static es_status count_weights(loader *l)
{
    es_model *model = l->model;
    es_weight_source *from = l->from;
    const es_model_config *c = &model->config;
    ES_TRY(es_weights_survey(model, from, l->err));
    ES_TRY(ES_MEM_NEW(model->budget, model->layers, c->layers, "a list of layers", l->err));
    ES_TRY(visit_all(l));
    const int64_t panel = (c->vocab < ES_PANEL ? c->vocab : ES_PANEL) * c->hidden;
    from->slot = from->slot > panel ? from->slot : panel;
    from->all += from->widest;
    from->small += from->widest;
    return ES_OK;
}

/* Returns the numbers that stay in memory, and in *chunk those of a chunk while they are read. */
static int64_t held_numbers(const es_model *model, int64_t *chunk)
{
    const es_weight_source *from = model->source;
    const bool streamed = model->config.weights == ES_WEIGHTS_STREAMED;
    *chunk = streamed ? from->chunk : from->turned;
    return streamed ? from->small : from->all;
}

es_status es_weights_check(es_model *model, es_st *st, const es_model_opts *opts, es_error *err)
{
    es_weight_source *from;
    es_status status = ES_MEM_NEW(model->budget, from, 1, "a model", err);
    if (status != ES_OK) {
        es_st_close(st);
        return status;
    }
    model->source = from;
    from->st = st;
    from->plain = es_st_is_gguf(st);
    from->allow_nonfinite = opts->allow_nonfinite;
    from->threads = opts->threads;
    ES_TRY(count_weights(&(loader){.model = model, .from = from, .err = err}));
    model->config.weights = opts->weights;
    model->config.weights = es_model_weights_mode(&model->config, model->precision);
    int64_t chunk;
    const int64_t numbers = held_numbers(model, &chunk);
    const int threads = es_parallel_threads(&(es_exec){.threads = from->threads}, INT64_MAX);
    /* every number is in a file on disk, so that the sum is far from overflow */
    const size_t bytes = (size_t)(numbers + threads * chunk) * es_dtype_size(model->precision);
    ES_TRY(es_mem_limit_charge(model->budget, bytes, "the weights", err));
    from->charged = bytes;
    return ES_OK;
}

void es_weights_forget(es_model *model)
{
    es_weight_source *from = model->source;
    if (!from)
        return;
    es_mem_limit_release(model->budget, from->charged);
    es_st_close(from->st);
    es_mem_free(model->budget, from);
    model->source = NULL;
}

/* The second visit. All weights become one block of memory: one allocation to account for, and
 * neighbours in a layer are neighbours in memory. */
static es_status read_weights(loader *l)
{
    es_model *model = l->model;
    const es_exec exec = {.threads = l->from->threads, .budget = model->budget};
    int64_t chunk;
    const int64_t numbers = held_numbers(model, &chunk);
    ES_TRY(es_mem_array(model->budget, numbers, 1, es_dtype_size(model->precision), "the weights",
                        &model->weights, l->err));
    ES_TRY(es_read_scratch_new(&exec, chunk, model->precision, &l->scratch, l->err));
    const es_status status = visit_all(l);
    es_read_scratch_free(&l->scratch);
    return status;
}

/* The charge reserves space for the memory itself. A streamed model keeps its files open. */
es_status es_weights_read(es_model *model, es_error *err)
{
    es_weight_source *from = model->source;
    es_mem_limit_release(model->budget, from->charged);
    from->charged = 0;
    const es_status status =
        read_weights(&(loader){.model = model, .from = from, .reading = true, .err = err});
    if (status != ES_OK || model->config.weights == ES_WEIGHTS_RESIDENT)
        es_weights_forget(model);
    return status;
}
