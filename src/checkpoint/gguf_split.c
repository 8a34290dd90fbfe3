/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.c : models that llama.cpp has split into several GGUF files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/gguf_inside.h"
#include "checkpoint/safetensors_inside.h"

enum { FILES_MOST = 65535 }; /* the format counts them in 16 bits */

static const char again[] = "download all files of the model again";

es_status es_gguf_split_of(const es_gguf_header *h, es_gguf_split *out, es_error *err)
{
    const es_gguf_range files = {0, FILES_MOST, false};
    *out = (es_gguf_split){.number = 0, .count = 1, .tensors = -1};
    ES_TRY(es_gguf_whole(h, "split.count", files, &out->count, err));
    ES_TRY(es_gguf_whole(h, "split.no", files, &out->number, err));
    const bool first = out->count > 1 && out->number == 0;
    ES_TRY(es_gguf_whole(h, "split.tensors.count", (es_gguf_range){0, INT32_MAX, first},
                         &out->tensors, err));
    if (out->count <= 1 && out->number == 0)
        out->count = 1; /* a split into one file */
    else if (out->number >= out->count)
        return es_fail_file(err, ES_E_FORMAT, h->file, 0, "gguf.split", again,
                            "split.no is %lld, split.count is %lld", (long long)out->number,
                            (long long)out->count);
    return ES_OK;
}

es_status es_gguf_split_path(const char *path, const es_gguf_split *split, int64_t number,
                             char *out, size_t size, es_error *err)
{
    char own[40], other[40], hint[200];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int count = (int)split->count;
    snprintf(own, sizeof own, "-%05d-of-%05d.gguf", (int)split->number + 1, count);
    snprintf(other, sizeof other, "-%05d-of-%05d.gguf", (int)number + 1, count);
    const size_t end = strlen(own), length = strlen(name);
    const bool named = length > end && strcmp(name + length - end, own) == 0;
    const int prefix = named ? (int)(length - end) : 4;
    snprintf(hint, sizeof hint, "use %.*s-00001-of-%05d.gguf", prefix < 100 ? prefix : 100,
             named ? name : "NAME", count);
    if (split->number != 0)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "gguf.split", hint,
                            "the file is part %lld of %lld of a split model, not the first",
                            (long long)split->number + 1, (long long)split->count);
    if (!named)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "gguf.split",
                            "give all files the names that they were written under",
                            "the file is the first of %lld of a split model, but its name does not "
                            "end in %s",
                            (long long)split->count, own);
    const size_t folder = strlen(path) - end;
    if (folder + strlen(other) >= size)
        return es_fail_file(err, ES_E_FORMAT, path, 0, "gguf.split", "move it to a shorter path",
                            "the path of the file is too long");
    memcpy(out, path, folder);
    memcpy(out + folder, other, strlen(other) + 1);
    return ES_OK;
}

/* Copies the tensors of one part behind those that are there, with names in *names, which moves
 * on. */
static void append(es_gguf_header *h, const es_gguf_header *part, int file, char **names)
{
    for (int64_t i = 0; i < part->count; i++) {
        es_st_tensor *t = &h->tensors[h->count++];
        const size_t size = strlen(part->tensors[i].name) + 1;
        *t = part->tensors[i];
        t->file = file;
        t->name = memcpy(*names, t->name, size);
        *names += size;
    }
}

/* Fails if two parts have a tensor of the same name, or if tensors are missing. */
static es_status check_joined(const es_gguf *g, int64_t tensors, es_error *err)
{
    const es_gguf_header *h = &g->header;
    for (int64_t i = 1; i < h->count; i++)
        if (strcmp(h->tensors[i - 1].name, h->tensors[i].name) == 0)
            return es_fail_file(
                err, ES_E_FORMAT, g->parts[h->tensors[i].file].path, 0, "gguf.duplicate", again,
                "tensor '%.100s' is also in another file of the model", h->tensors[i].name);
    if (h->count == tensors)
        return ES_OK;
    return es_fail_file(err, ES_E_FORMAT, g->path, 0, "gguf.split", again,
                        "the files have %lld tensors, split.tensors.count is %lld",
                        (long long)h->count, (long long)tensors);
}

/* Moves the values of the first part to the header of the model; they stay in its bytes. */
static void move_values(es_gguf_header *h, es_gguf_header *first)
{
    h->values = first->values;
    h->values_count = first->values_count;
    first->values = NULL;
    first->values_count = 0;
}

es_status es_gguf_join(es_gguf *g, int64_t tensors, es_error *err)
{
    es_gguf_header *h = &g->header, *first = &g->parts[0].header;
    int64_t total = 0;
    size_t bytes = 0;
    for (int64_t p = 0; p < g->n_parts; p++) {
        const es_gguf_header *part = &g->parts[p].header;
        total += part->count;
        for (int64_t i = 0; i < part->count; i++)
            bytes += strlen(part->tensors[i].name) + 1;
    }
    *h = (es_gguf_header){first->bytes, first->file, .end = first->end, .data = first->data};
    h->budget = g->budget;
    ES_TRY(ES_MEM_NEW(h->budget, h->tensors, total, "the list of tensors", err));
    ES_TRY(ES_MEM_BYTES(h->budget, h->names, bytes, "names of tensors", err));
    char *names = h->names;
    for (int64_t p = 0; p < g->n_parts; p++)
        append(h, &g->parts[p].header, (int)p, &names);
    qsort(h->tensors, (size_t)h->count, sizeof *h->tensors, es_st_by_name);
    ES_TRY(check_joined(g, tensors, err));
    move_values(h, first);
    for (int64_t p = 0; p < g->n_parts; p++) {
        es_gguf_header_free(&g->parts[p].header);
        if (p > 0) {
            es_mem_free(g->budget, g->parts[p].bytes);
            g->parts[p].bytes = NULL;
        }
    }
    return ES_OK;
}
