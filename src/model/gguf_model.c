/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.c : the tensors of a GGUF under the names, and with the rows, that a Hugging Face
 * checkpoint has. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/gguf_model.h"
#include "model/gguf_reading.h"
#include "checkpoint/safetensors_inside.h"

/* ---- names ---- */

/* The ending of a tensor's name, which says what it is of its part. */
typedef enum ending { WEIGHT, BIAS, SCALE, INPUT_SCALE, ENDINGS } ending;
static const char *const endings[ENDINGS] = {".weight", ".bias", ".scale", ".input_scale"};

/* A tensor of the architecture, by its name in the file. */
typedef struct named {
    const es_gguf_tensor *part;
    int64_t numbers[2]; /* of the layer, and of the expert */
    ending end;
} named;

/* Writes "blk.3.attn_q" and ".weight", for "blk.*.attn_q" and layer 3. */
static void write_name(const char *pattern, const int64_t numbers[2], const char *end,
                       char out[ES_GGUF_KEY])
{
    size_t used = 0;
    for (; *pattern && used < ES_GGUF_KEY - 1; pattern++)
        if (*pattern == '*')
            used += (size_t)snprintf(out + used, ES_GGUF_KEY - used, "%lld", (long long)*numbers++);
        else
            out[used++] = *pattern;
    if (used < ES_GGUF_KEY)
        snprintf(out + used, ES_GGUF_KEY - used, "%s", end);
}

/* Returns what follows `pattern` at the beginning of a name, and its numbers; NULL if the name does
 * not begin so. Numbers have no zeros in front, so that each has one spelling. */
static const char *skip_pattern(const char *name, const char *pattern, int64_t numbers[2])
{
    enum { DIGITS = 9 };
    numbers[0] = numbers[1] = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*name++ != *pattern)
                return NULL;
            continue;
        }
        const size_t digits = strspn(name, "0123456789");
        if (digits == 0 || digits > DIGITS || (digits > 1 && *name == '0'))
            return NULL;
        *numbers++ = strtoll(name, NULL, 10);
        name += digits;
    }
    return name;
}

/* Finds what a tensor is; false if the architecture does not have it. */
static bool find_named(const es_gguf_arch *arch, const char *name, named *out)
{
    for (int i = 0; i < ES_GGUF_LISTS && arch->tensors[i]; i++)
        for (const es_gguf_tensor *p = arch->tensors[i]; p->name; p++) {
            const char *rest = skip_pattern(name, p->name, out->numbers);
            out->part = p;
            for (int end = 0; rest && end < ENDINGS; end++) {
                out->end = (ending)end;
                if (strcmp(rest, endings[end]) == 0)
                    return true;
            }
        }
    return false;
}

static int name_against(const void *name, const void *tensor)
{
    return strcmp(name, ((const es_st_tensor *)tensor)->name);
}

const es_st_tensor *es_gguf_find_tensor(const es_gguf *g, const char *name)
{
    return bsearch(name, g->header.tensors, (size_t)g->header.count, sizeof *g->header.tensors,
                   name_against);
}

/* ---- what must be there ---- */

static es_status check_there(const es_gguf *g, const char *pattern, int64_t layer, const char *end,
                             es_error *err)
{
    char name[ES_GGUF_KEY];
    write_name(pattern, (int64_t[2]){layer, 0}, end, name);
    return es_gguf_find_tensor(g, name)
               ? ES_OK
               : es_fail_file(err, ES_E_FORMAT, g->path, -1, "gguf.tensor", ES_GGUF_CONVERT,
                              "missing tensor '%s'", name);
}

/* Returns whether a layer has this tensor in every file. */
static bool is_required(const es_model_config *c, const es_gguf_tensor *p, int64_t layer)
{
    const bool experts = es_model_layer(c, layer)->experts;
    return p->presence == ES_GGUF_ALWAYS || p->presence == ES_GGUF_BIASED ||
           p->presence == (experts ? ES_GGUF_EXPERTS : ES_GGUF_DENSE);
}

/* Fails if a weight of a layer is missing, or a bias of an architecture that has biases. */
static es_status check_layer(const es_gguf *g, const es_gguf_arch *arch, const es_model_config *c,
                             int64_t layer, es_error *err)
{
    for (int i = 0; i < ES_GGUF_LISTS && arch->tensors[i]; i++)
        for (const es_gguf_tensor *p = arch->tensors[i]; p->name; p++) {
            if (is_required(c, p, layer))
                ES_TRY(check_there(g, p->name, layer, ".weight", err));
            if (p->presence == ES_GGUF_BIASED && arch->biases == ES_GGUF_BIASES_ALWAYS)
                ES_TRY(check_there(g, p->name, layer, ".bias", err));
        }
    return ES_OK;
}

/* ---- tensors as a checkpoint has them ---- */

/* A tensor and how it lies in the file; the tensor comes first, for es_st_by_name(). */
typedef struct adopted {
    es_st_tensor tensor;
    es_gguf_layout layout;
} adopted;

/* The tensors of a checkpoint while they are made from those of the file. */
typedef struct adoption {
    const es_gguf *g;
    const es_gguf_arch *arch;
    const es_model_config *config;
    adopted *all;
    char *names; /* (capacity, ES_GGUF_KEY) */
    int64_t count, capacity;
    es_error *err;
} adoption;

static es_status refuse_tensor(const adoption *a, const es_st_tensor *t)
{
    return es_fail_file(a->err, ES_E_UNSUPPORTED, a->g->path, (int64_t)t->offset, "gguf.tensor",
                        "it may change the result",
                        "tensor '%.100s' is not part of a %s of %lld layers", t->name,
                        a->config->model_type, (long long)a->config->layers);
}

/* Returns whether each of its items, by the first dimension, is a tensor of the checkpoint. */
static bool is_sliced(const es_gguf_tensor *p)
{
    const char *star = p->known_as ? strrchr(p->known_as, '*') : NULL;
    return p->times && star && strchr(p->known_as, '*') != star;
}

/* Fails unless a tensor has the shape that the configuration requires. */
static es_status check_tensor(const adoption *a, const es_st_tensor *t, const named *n)
{
    const es_gguf_tensor *p = n->part;
    const es_model_config *c = a->config;
    int64_t want[3] = {1, 1, 1};
    int rank = 0;
    if (p->times)
        want[rank++] = es_config_size(c, p->times);
    want[rank++] = es_config_size(c, p->rows);
    if (n->end != BIAS && p->cols != ES_GGUF_VECTOR)
        want[rank++] = es_config_size(c, (size_t)p->cols);
    if (t->rank == rank && memcmp(t->shape, want, (size_t)rank * sizeof *want) == 0)
        return ES_OK;
    return es_fail_file(
        a->err, ES_E_FORMAT, a->g->path, (int64_t)t->offset, "gguf.tensor", ES_GGUF_CONVERT,
        "tensor '%.100s' has %lld x %lld x %lld numbers in %d dimensions, the header requires "
        "%lld x %lld x %lld in %d",
        t->name, (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2], t->rank,
        (long long)want[0], (long long)want[1], (long long)want[2], rank);
}

/* Sets how the rows of a weight or bias lie in the file. Rows of a bias are single numbers, which
 * can only move if they are no blocks. */
static es_status set_layout(const adoption *a, const es_st_tensor *t, const named *n,
                            es_gguf_layout *out)
{
    const es_gguf_tensor *p = n->part;
    char name[ES_GGUF_KEY];
    *out = (es_gguf_layout){.row = t->rank > 1 && n->end == WEIGHT ? t->shape[t->rank - 1] : 1};
    if (a->arch->pairs && p->heads)
        out->heads = es_config_size(a->config, p->heads);
    if (p->in_turn) {
        write_name(p->in_turn, n->numbers, endings[n->end], name);
        const es_st_tensor *other = es_gguf_find_tensor(a->g, name);
        if (!other || other->rank != t->rank ||
            memcmp(other->shape, t->shape, sizeof t->shape) != 0)
            return es_fail_file(a->err, ES_E_FORMAT, a->g->path, (int64_t)t->offset, "gguf.tensor",
                                ES_GGUF_CONVERT, "missing tensor '%s' of the shape of '%.100s'",
                                name, t->name);
        out->in_turn = true;
        out->other = *other;
    }
    const bool blocks = es_gguf_type_of(t->dtype)->numbers > 1 ||
                        (out->in_turn && es_gguf_type_of(out->other.dtype)->numbers > 1);
    if (out->row == 1 && blocks && (out->heads || out->in_turn))
        return es_fail_file(a->err, ES_E_UNSUPPORTED, a->g->path, (int64_t)t->offset, "gguf.tensor",
                            "biases must be F32, F16 or BF16", "bias '%.100s' has type %s", t->name,
                            t->dtype);
    return ES_OK;
}

/* Adds one tensor of the checkpoint. */
static void add_tensor(adoption *a, es_st_tensor t, const es_gguf_layout *layout, const named *n)
{
    static const char *const bare[ENDINGS] = {"", "_bias", "", ""};
    char *name = a->names + a->count * ES_GGUF_KEY;
    write_name(n->part->known_as, n->numbers, (n->part->bare ? bare : endings)[n->end], name);
    t.name = name;
    adopted *to = &a->all[a->count++];
    *to = (adopted){.tensor = t, .layout = *layout};
    to->layout.other.name = name;
}

/* Reads the factors of a weight, one for each of `count` slices, into `out`; 0 if it has none. */
static es_status read_scales(const adoption *a, const named *n, int64_t count, double *out)
{
    char name[ES_GGUF_KEY];
    write_name(n->part->name, n->numbers, endings[SCALE], name);
    const es_st_tensor *t = n->end == WEIGHT ? es_gguf_find_tensor(a->g, name) : NULL;
    memset(out, 0, (size_t)count * sizeof *out);
    if (!t)
        return ES_OK;
    if (t->count != count || t->rank > 1)
        return es_fail_file(a->err, ES_E_FORMAT, a->g->path, (int64_t)t->offset, "gguf.tensor",
                            ES_GGUF_CONVERT, "'%s' has %lld numbers, expected %lld", name,
                            (long long)t->count, (long long)count);
    ES_TRY(es_gguf_read(a->g, t, ES_F64, out, NULL, a->err));
    for (int64_t i = 0; i < count; i++)
        if (!(out[i] > 0.0 && out[i] < 1e30))
            return es_fail_file(a->err, ES_E_NONFINITE, a->g->path, (int64_t)t->offset,
                                "model.finite", "download it again",
                                "'%s' has the factor %g; it must be above 0 and finite", name,
                                out[i]);
    return ES_OK;
}

/* Adds a tensor of the file, or its slices, as tensors of the checkpoint. */
static es_status adopt_weight(adoption *a, const es_st_tensor *t, named n)
{
    const int64_t slices = is_sliced(n.part) ? t->shape[0] : 1;
    const bool second = strchr(n.part->name, '*') != strrchr(n.part->name, '*');
    es_gguf_layout layout;
    double *scales;
    ES_TRY(set_layout(a, t, &n, &layout));
    ES_TRY(ES_MEM_NEW(a->g->budget, scales, slices, "factors of matrices", a->err));
    const es_status status = read_scales(a, &n, slices, scales);
    es_st_tensor one = *t;
    if (slices > 1 || is_sliced(n.part)) {
        one.rank--;
        memmove(one.shape, one.shape + 1, sizeof one.shape - sizeof *one.shape);
        one.shape[ES_ST_RANK - 1] = 1;
        one.count /= slices;
        one.bytes /= (uint64_t)slices;
    } else if (layout.in_turn) {
        one.shape[1] *= 2;
        one.count *= 2;
    }
    for (int64_t i = 0; i < slices && status == ES_OK; i++) {
        one.offset = t->offset + (uint64_t)i * one.bytes;
        n.numbers[1] = second ? n.numbers[1] : i;
        layout.scale = scales[i];
        add_tensor(a, one, &layout, &n);
    }
    es_mem_free(a->g->budget, scales);
    return status;
}

/* Adopts a tensor of the file: renames it, or leaves it out. */
static es_status adopt_tensor(adoption *a, const es_st_tensor *t)
{
    named n;
    const int64_t experts = a->config->experts;
    if (es_gguf_is_rotary(t->name))
        return ES_OK; /* it is part of the configuration */
    if (!find_named(a->arch, t->name, &n) || n.numbers[0] >= a->config->layers ||
        (n.numbers[1] && n.numbers[1] >= experts))
        return refuse_tensor(a, t);
    const es_gguf_tensor *p = n.part;
    if (!p->known_as && !p->rows) /* a head that is not read */
        return ES_OK;
    if (n.end == SCALE || n.end == INPUT_SCALE) /* read with its matrix, or of no matter */
        return p->cols == ES_GGUF_VECTOR || p->bare || !p->known_as ||
                       strcmp(p->name, "token_embd") == 0
                   ? refuse_tensor(a, t)
                   : ES_OK;
    ES_TRY(check_tensor(a, t, &n));
    return p->known_as ? adopt_weight(a, t, n) : ES_OK; /* else read with another */
}

/* Returns the most tensors that a checkpoint of this file can have. */
static int64_t count_adopted(const es_gguf *g, const es_gguf_arch *arch)
{
    int64_t count = 0;
    for (int64_t i = 0; i < g->header.count; i++) {
        const es_st_tensor *t = &g->header.tensors[i];
        named n;
        const bool sliced = find_named(arch, t->name, &n) && is_sliced(n.part);
        count += sliced && t->shape[0] > 1 ? t->shape[0] : 1;
    }
    return count;
}

/* Makes the adopted tensors those of the file. */
static es_status take_over(es_gguf *g, adoption *a)
{
    es_gguf_header *h = &g->header;
    es_st_tensor *tensors;
    es_status status = ES_MEM_NEW(g->budget, g->layouts, a->count, "the layout of tensors", a->err);
    ES_TRY(status);
    ES_TRY(ES_MEM_NEW(g->budget, tensors, a->count, "a list of tensors", a->err));
    qsort(a->all, (size_t)a->count, sizeof *a->all, es_st_by_name);
    for (int64_t i = 0; i < a->count; i++) {
        tensors[i] = a->all[i].tensor;
        g->layouts[i] = a->all[i].layout;
    }
    es_mem_free(g->budget, h->tensors);
    es_mem_free(g->budget, h->names);
    h->tensors = tensors;
    h->names = a->names;
    h->count = a->count;
    a->names = NULL;
    return ES_OK;
}

/* Fails if two tensors of the file are the same one of the checkpoint, as experts in one tensor and
 * in many. */
static es_status check_unique(const adoption *a)
{
    for (int64_t i = 1; i < a->g->header.count; i++)
        if (strcmp(a->g->header.tensors[i - 1].name, a->g->header.tensors[i].name) == 0)
            return es_fail_file(a->err, ES_E_FORMAT, a->g->path,
                                (int64_t)a->g->header.tensors[i].offset, "gguf.duplicate",
                                ES_GGUF_CONVERT, "two tensors of the file are '%.100s'",
                                a->g->header.tensors[i].name);
    return ES_OK;
}

es_status es_gguf_adopt(es_gguf *g, const es_model_config *config, es_error *err)
{
    adoption a = {.g = g, .config = config, .err = err};
    ES_TRY(es_gguf_arch_find(g, &a.arch, err));
    for (int64_t layer = 0; layer < config->layers; layer++)
        ES_TRY(check_layer(g, a.arch, config, layer, err));
    a.capacity = count_adopted(g, a.arch);
    es_status status = ES_MEM_NEW(g->budget, a.all, a.capacity, "a list of tensors", err);
    if (status == ES_OK)
        status =
            ES_MEM_NEW_2D(g->budget, a.names, a.capacity, ES_GGUF_KEY, "names of tensors", err);
    for (int64_t i = 0; i < g->header.count && status == ES_OK; i++)
        status = adopt_tensor(&a, &g->header.tensors[i]);
    if (status == ES_OK)
        status = take_over(g, &a);
    if (status == ES_OK)
        status = check_unique(&a);
    es_mem_free(g->budget, a.names);
    es_mem_free(g->budget, a.all);
    return status;
}
