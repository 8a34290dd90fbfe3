#include "array_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/safetensors.h>

#include "talk.h"

/* What a name of an array consists of. */
typedef struct source {
    char *path;         /* of the safetensors file; NULL: `name` is a .npy file */
    const char *tensor; /* in `name`; "" if there is none */
} source;

static source source_of(const char *name)
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
    source s = {NULL, ""};
    if (!end)
        return s;
    const size_t length = (size_t)(end - name);
    s.path = cli_alloc(length + 1);
    memcpy(s.path, name, length);
    s.path[length] = '\0';
    s.tensor = *end ? end + 1 : end;
    return s;
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
    return cli_fail(err, ES_E_ARGUMENT, s->path, "input.tensor",
                    "name one of them: FILE.safetensors:TENSOR", "%s%s; the file has %lld: %s",
                    *s->tensor ? "there is no tensor " : "no tensor is named", s->tensor,
                    (long long)count, names);
}

static es_status find(const source *s, es_st **st, const es_st_tensor **tensor, es_error *err)
{
    const es_status status = es_st_open(s->path, NULL, st, err);
    if (status != ES_OK)
        return status;
    *tensor = *s->tensor              ? es_st_find(*st, s->tensor)
              : es_st_count(*st) == 1 ? es_st_at(*st, 0)
                                      : NULL;
    return *tensor ? ES_OK : fail_tensor(*st, s, err);
}

es_status cli_array_inspect(const char *name, es_npy_info *out, es_error *err)
{
    const source s = source_of(name);
    if (!s.path)
        return es_npy_inspect(name, out, err);
    es_st *st = NULL;
    const es_st_tensor *tensor;
    es_status status = find(&s, &st, &tensor, err);
    if (status == ES_OK)
        status = es_st_inspect(st, tensor, out, err);
    es_st_close(st);
    free(s.path);
    return status;
}

es_status cli_array_load(const char *name, es_budget *budget, es_array *out, es_error *err)
{
    const source s = source_of(name);
    if (!s.path)
        return es_npy_load(name, budget, out, err);
    es_st *st = NULL;
    const es_st_tensor *tensor;
    *out = (es_array){0};
    es_status status = find(&s, &st, &tensor, err);
    if (status == ES_OK)
        status = es_st_load(st, tensor, budget, out, err);
    es_st_close(st);
    free(s.path);
    return status;
}
