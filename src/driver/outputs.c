/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c : what a run writes is none of the files that it reads: with force it would replace
 * them. */
#include <string.h>

#include "base/error.h"
#include "driver/driver.h"
#include "store/file.h"

/* `path` may be FILE.safetensors:TENSOR. */
static es_status check_one(es_job *job, const char *output, const es_param *p, const char *path,
                           es_error *err)
{
    static const char ending[] = ".safetensors:";
    char *file = path ? es_arena_text(&job->arena, path) : NULL;
    char *tensor = file ? strstr(file, ending) : NULL;
    if (tensor)
        tensor[strlen(ending) - 1] = '\0';
    if (!file || !es_file_same(file, output))
        return ES_OK;
    return es_fail_file(err, ES_E_ARGUMENT, output, -1, "file.input", "write to another file",
                        "this would overwrite the input of --%s", p->name);
}

/* Fails if an output file is one of the files that a parameter reads. */
static es_status check_param(es_job *job, const char *output, const es_param *p, es_error *err)
{
    const void *field = (const char *)job->params + p->field;
    if (p->kind == ES_PARAM_FILE || p->kind == ES_PARAM_MODEL)
        return check_one(job, output, p, *(const char *const *)field, err);
    if (p->kind != ES_PARAM_FILES && p->kind != ES_PARAM_NAMED)
        return ES_OK;
    const es_texts *files = field;
    for (int64_t i = 0; i < files->count; i++) {
        const char *sign = p->kind == ES_PARAM_NAMED ? strchr(files->at[i], '=') : NULL;
        ES_TRY(check_one(job, output, p, sign ? sign + 1 : files->at[i], err));
    }
    return ES_OK;
}

/* Checks an output file against all inputs of the study. */
static es_status check_output(es_job *job, const char *output, es_error *err)
{
    for (const es_param *p = job->study->params; output && p && p->name; p++)
        ES_TRY(check_param(job, output, p, err));
    return ES_OK;
}

es_status es_outputs_check(es_job *job, es_error *err)
{
    ES_TRY(check_output(job, job->out, err));
    for (const es_param *p = job->study->params; p && p->name; p++)
        if (p->kind == ES_PARAM_OUTPUT)
            ES_TRY(check_output(
                job, *(const char *const *)(const void *)((const char *)job->params + p->field),
                err));
    return ES_OK;
}
