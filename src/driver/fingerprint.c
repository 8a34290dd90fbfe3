/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.c : what determines the numbers of a run, as text: parameters by their values, files
 * by their contents. A run is resumed only by one with the same. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/machine.h>
#include <esscher/model.h>

#include "base/error.h"
#include "driver/driver.h"

enum { MOST = 128, TEXT = 8192, FILE_TEXT = 64, NAME = 256 };

/* Pairs under way; the first failure is kept. */
typedef struct list {
    es_arena *arena;
    es_run_pair pair[MOST];
    int64_t count;
    bool full;
} list;

/* Adds a pair to the list; after a failure the list is marked full and stays as it is. */
static void add(list *l, const char *key, const char *text)
{
    char *copy = es_arena_text(l->arena, text);
    l->full = l->full || !copy || l->count == MOST;
    if (!l->full)
        l->pair[l->count++] = (es_run_pair){.key = key, .text = copy};
}

/* Continues the FNV-1a hash h over more bytes. */
static uint64_t fnv1a(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

static const uint64_t fnv1a_start = UINT64_C(0xcbf29ce484222325);

/* A list that is too long for a line is known by its hash. */
static void add_long(list *l, const char *key, const char *text, int64_t count, const char *what)
{
    char line[128];
    const size_t size = strlen(text);
    if (size < TEXT) {
        add(l, key, text);
        return;
    }
    snprintf(line, sizeof line, "%lld %s, %016llx", (long long)count, what,
             (unsigned long long)fnv1a(fnv1a_start, text, size));
    add(l, key, line);
}

/* ---- files ---- */

/* Describes a file by size and hash. The hash only has to distinguish files. A file that cannot be
 * read is reported by the code that needs it. */
static void describe_file(const char *path, char out[FILE_TEXT])
{
    unsigned char bytes[65536];
    uint64_t h = fnv1a_start, size = 0;
    size_t got;
    FILE *f = fopen(path, "rb");
    if (f)
        rewind(f); /* /dev/stdin of some systems shares its offset with descriptor 0 */
    while (f && ((got = fread(bytes, 1, sizeof bytes, f)) > 0 || (ferror(f) && errno == EINTR))) {
        clearerr(f); /* a signal is no end: half a file would be another one */
        h = fnv1a(h, bytes, got);
        size += got;
    }
    if (f)
        fclose(f);
    snprintf(out, FILE_TEXT, "%llu bytes, %016llx", (unsigned long long)size,
             (unsigned long long)h);
}

/* "FILE", or of FILE.safetensors:TENSOR the tensor's name and the file. What is no file, such as
 * numbers where a parameter takes either, is its own description. */
static void add_file(list *l, const char *key, const char *path)
{
    char text[FILE_TEXT] = "", line[FILE_TEXT + NAME];
    const char *tensor = path ? strstr(path, ".safetensors:") : NULL;
    if (!path || (!tensor && access(path, F_OK) != 0)) {
        add(l, key, path ? path : "");
        return;
    }
    if (!tensor) {
        describe_file(path, text);
        add(l, key, text);
        return;
    }
    char *file = es_arena_text(l->arena, path);
    if (file) {
        file[tensor - path + (ptrdiff_t)strlen(".safetensors")] = '\0';
        describe_file(file, text);
    }
    snprintf(line, sizeof line, "%s of %s", tensor + strlen(".safetensors:"), text);
    add(l, key, line);
}

/* Several files, or NAME=FILE if `named`: each by its contents, after its name if it has one. */
static void add_files(list *l, const char *key, const es_texts *files, bool named)
{
    char text[FILE_TEXT];
    size_t capacity = 1, used = 0;
    for (int64_t i = 0; i < files->count; i++)
        capacity += strlen(files->at[i]) + FILE_TEXT + 2;
    char *all = calloc(1, capacity);
    l->full = l->full || !all;
    for (int64_t i = 0; all && i < files->count; i++) {
        const char *equals = named ? strchr(files->at[i], '=') : NULL;
        describe_file(equals ? equals + 1 : files->at[i], text);
        used += (size_t)snprintf(all + used, capacity - used, "%s%.*s%s", i ? "; " : "",
                                 equals ? (int)(equals - files->at[i] + 1) : 0, files->at[i], text);
    }
    if (all)
        add_long(l, key, all, files->count, "files");
    free(all);
}

/* What a model's numbers may depend on. */
static int is_model_file(const struct dirent *entry)
{
    static const char *const names[] = {"config.json", "vocab.txt", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors.index.json"};
    const char *dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(entry->d_name, names[i]) == 0)
            return 1;
    return dot && strcmp(dot, ".safetensors") == 0;
}

/* A model by the contents of its folder: settings, tokenizer, weights and all their shards. */
static void add_model(list *l, const char *key, const char *name)
{
    char folder[4096] = "", path[4096 + NAME + 1], text[FILE_TEXT];
    struct dirent **entries = NULL;
    size_t used = 0;
    if (name && es_model_locate(name, folder, sizeof folder, NULL) != ES_OK)
        folder[0] = '\0'; /* the code that opens the model reports the failure */
    const int count = folder[0] ? scandir(folder, &entries, is_model_file, alphasort) : 0;
    if (count < 0) {
        add_file(l, key, folder); /* it is one */
        return;
    }
    const size_t capacity = (size_t)(count > 0 ? count : 0) * (NAME + FILE_TEXT + 4) + 1;
    char *all = calloc(1, capacity);
    l->full = l->full || !all;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        describe_file(path, text);
        if (all)
            used += (size_t)snprintf(all + used, capacity - used, "%s%s %s", i ? "; " : "",
                                     entries[i]->d_name, text);
        free(entries[i]);
    }
    free(entries);
    if (all)
        add_long(l, key, all, count, "files");
    free(all);
}

/* ---- values ---- */

/* Adds a grid as its numbers, with all digits; a long one as count and hash. */
static void add_grid(list *l, const char *key, const es_grid *grid)
{
    char text[TEXT], line[96];
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < grid->count && used < sizeof text - 32; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 grid->counts ? "%s%.0f" : "%s%.17g", i ? "," : "", grid->reals[i]);
    if (used < sizeof text - 32) {
        add(l, key, text);
        return;
    }
    snprintf(line, sizeof line, "%lld numbers, %016llx", (long long)grid->count,
             (unsigned long long)fnv1a(fnv1a_start, grid->reals,
                                       (size_t)grid->count * sizeof *grid->reals));
    add(l, key, line);
}

/* Adds a list of texts, with semicolons between them. */
static void add_texts(list *l, const char *key, const es_texts *texts)
{
    char all[TEXT] = "";
    size_t used = 0;
    for (int64_t i = 0; i < texts->count && used < sizeof all; i++)
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? "; " : "", texts->at[i]);
    add(l, key, all);
}

/* Adds the value of one parameter: files and models by their contents, everything else as text. */
static void add_param(list *l, const es_param *p, const void *values)
{
    const void *field = (const char *)values + p->field;
    const char *text = NULL;
    char number[64];
    switch (p->kind) {
    case ES_PARAM_FLAG:
        add(l, p->name, *(const bool *)field ? "yes" : "no");
        break;
    case ES_PARAM_TEXT:
        text = *(const char *const *)field;
        add(l, p->name, text ? text : "");
        break;
    case ES_PARAM_WHOLE:
    case ES_PARAM_BYTES:
        snprintf(number, sizeof number, "%lld", (long long)*(const int64_t *)field);
        add(l, p->name, number);
        break;
    case ES_PARAM_NUMBER:
        snprintf(number, sizeof number, "%.17g", *(const double *)field);
        add(l, p->name, number);
        break;
    case ES_PARAM_SEED:
        snprintf(number, sizeof number, "%llu", (unsigned long long)*(const uint64_t *)field);
        add(l, p->name, number);
        break;
    case ES_PARAM_CHOICE:
        add(l, p->name, *(const int *)field < 0 ? "" : p->choices[*(const int *)field]);
        break;
    case ES_PARAM_REALS:
    case ES_PARAM_COUNTS:
        add_grid(l, p->name, field);
        break;
    case ES_PARAM_TEXTS:
        add_texts(l, p->name, field);
        break;
    case ES_PARAM_FILE:
        add_file(l, p->name, *(const char *const *)field);
        break;
    case ES_PARAM_FILES:
    case ES_PARAM_NAMED:
        add_files(l, p->name, field, p->kind == ES_PARAM_NAMED);
        break;
    case ES_PARAM_MODEL:
        add_model(l, p->name, *(const char *const *)field);
        break;
    case ES_PARAM_OUTPUT:
        break;
    }
}

es_status es_fingerprint_make(const es_job *job, const es_isa *isa, es_arena *arena,
                              es_fingerprint *out, es_error *err)
{
    char seed[24];
    list *l;
    ES_TRY(ES_ARENA_NEW(arena, l, 1, "parameters", err));
    l->arena = arena;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)job->seed);
    if (job->study->takes & ES_TAKES_SEED)
        add(l, "seed", seed);
    for (const es_param *p = job->study->params; p && p->name; p++)
        if (!p->not_in_fingerprint && p->kind != ES_PARAM_OUTPUT)
            add_param(l, p, job->params);
    if (job->study->takes & ES_TAKES_PRECISION)
        add(l, "precision", es_dtype_name(job->precision));
    if (job->study->takes & ES_TAKES_ISA)
        add(l, "kernels", es_isa_name(*isa));
    if (l->full)
        return es_fail(err, ES_E_MEMORY, "run.parameters", "",
                       "out of memory for the parameters of the run");
    *out = (es_fingerprint){.pairs = l->pair, .count = l->count};
    return ES_OK;
}

/* ---- for other ranks ---- */

es_status es_fingerprint_text(es_job *job, const char **out, es_error *err)
{
    const es_build build = es_build_info();
    es_fingerprint print;
    ES_TRY(es_fingerprint_make(job, &job->exec.isa, &job->arena, &print, err));
    const es_run_pair program[] = {{"program", build.id},
                                   {"version", build.version},
                                   {"blas", build.blas},
                                   {"study", job->study->name},
                                   {"kernels", es_isa_name(job->exec.isa)},
                                   {"precision", es_dtype_name(job->precision)}};
    enum { OWN = sizeof program / sizeof program[0] };
    size_t capacity = 1, used = 0;
    char *text;
    for (int64_t i = 0; i < OWN + print.count; i++) {
        const es_run_pair *p = i < OWN ? &program[i] : &print.pairs[i - OWN];
        capacity += strlen(p->key) + strlen(p->text) + 3;
    }
    ES_TRY(ES_JOB_NEW(job, text, (int64_t)capacity, err));
    for (int64_t i = 0; i < OWN + print.count; i++) {
        const es_run_pair *p = i < OWN ? &program[i] : &print.pairs[i - OWN];
        used += (size_t)snprintf(text + used, capacity - used, "%s: %s\n", p->key, p->text);
    }
    *out = text;
    return ES_OK;
}
