/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/array_source.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/safetensors.h"

/* What a name of an array consists of. */
typedef struct source {
    char *path;         /* of the safetensors file; NULL: `name` is a .npy file */
    const char *tensor; /* in `name`; "" if there is none */
} source;

/* Splits "FILE.safetensors:TENSOR" into file and tensor; other names are files of one array. */
static es_status source_of(const char *name, source *out, es_error *err)
{
    static const char suffix[] = ".safetensors";
    const char *end = NULL;
    for (const char *at = name; (at = strstr(at, suffix)); at++) {
        const char next = at[sizeof suffix - 1];
        if (next == ':' || next == '\0') {
            end = at + sizeof suffix - 1;
            break;
        }
    }
    *out = (source){NULL, ""};
    if (!end)
        return ES_OK;
    const size_t length = (size_t)(end - name);
    ES_TRY(ES_MEM_NEW(NULL, out->path, (int64_t)length + 1, "a file name", err));
    memcpy(out->path, name, length);
    out->tensor = *end ? end + 1 : end;
    return ES_OK;
}

/* Names of the first tensors, for the message. */
static es_status fail_tensor(const es_st *st, const source *s, es_error *err)
{
    char names[256] = "";
    const int64_t count = es_st_count(st);
    size_t used = 0;
    for (int64_t i = 0; i < count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 es_st_at(st, i)->name);
    if (used >= sizeof names)
        memcpy(names + sizeof names - 4, "...", 4);
    return es_fail_file(err, ES_E_ARGUMENT, s->path, -1, "input.tensor",
                        "name one of them: FILE.safetensors:TENSOR", "%s%s; the file has %lld: %s",
                        *s->tensor ? "there is no tensor " : "no tensor is named", s->tensor,
                        (long long)count, names);
}

/* Finds the named tensor, or the only one of the file. */
static es_status find_tensor(const source *s, es_st **st, const es_st_tensor **tensor,
                             es_error *err)
{
    ES_TRY(es_st_open(s->path, NULL, st, err));
    *tensor = *s->tensor              ? es_st_find(*st, s->tensor)
              : es_st_count(*st) == 1 ? es_st_at(*st, 0)
                                      : NULL;
    return *tensor ? ES_OK : fail_tensor(*st, s, err);
}

/* Shape and dtype into *info, or all of it into *array. */
static es_status read_tensor(const source *s, es_mem_limit *budget, es_npy_info *info,
                             es_array *array, es_error *err)
{
    es_st *st = NULL;
    const es_st_tensor *tensor;
    es_status status = find_tensor(s, &st, &tensor, err);
    if (status == ES_OK)
        status = info ? es_st_inspect(st, tensor, info, err)
                      : es_st_load(st, tensor, budget, array, err);
    es_st_close(st);
    return status;
}

es_status es_source_inspect(const char *name, bool bf16, es_npy_info *out, es_error *err)
{
    source s;
    ES_TRY(source_of(name, &s, err));
    const es_status status =
        s.path ? read_tensor(&s, NULL, out, NULL, err)
               : es_npy_inspect_as(name, bf16 ? ES_NPY_RAW_BF16 : ES_NPY_RAW_REFUSED, out, err);
    es_mem_free(NULL, s.path);
    return status;
}

es_status es_source_load(const char *name, bool bf16, es_mem_limit *budget, es_array *out,
                         es_error *err)
{
    source s;
    *out = (es_array){0};
    ES_TRY(source_of(name, &s, err));
    const es_status status =
        s.path
            ? read_tensor(&s, budget, NULL, out, err)
            : es_npy_load_as(name, bf16 ? ES_NPY_RAW_BF16 : ES_NPY_RAW_REFUSED, budget, out, err);
    es_mem_free(NULL, s.path);
    return status;
}
