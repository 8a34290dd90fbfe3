#include "converge_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include <stdlib.h>
#include <string.h>

#include <esscher/machine.h>

#include "answer.h"
#include "talk.h"

/* ---- parameters: everything that determines the numbers ---- */

enum { PARAMS = 24, TEXT = 4096 };

typedef struct params {
    es_run_pair pair[PARAMS];
    char text[PARAMS][TEXT];
    int64_t count;
} params;

static void add(params *p, const char *key, const char *fmt, ...) ES_PRINTF(3, 4);

static void add(params *p, const char *key, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->text[p->count], TEXT, fmt, args);
    va_end(args);
    p->pair[p->count] = (es_run_pair){.key = key, .text = p->text[p->count]};
    p->count++;
}

/* FNV-1a of the bytes of some numbers: two matrices that differ are told apart, nothing more is
 * asked of it. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; at && i < bytes; i++)
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t hash_view(const es_view *v)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; v && i < v->rows; i++)
        for (int64_t j = 0; j < v->cols; j++) {
            const double x = es_view_get(v, i, j);
            h = hash(h, &x, sizeof x);
        }
    return h;
}

static uint64_t hash_law(const es_law *law)
{
    const size_t d = (size_t)law->dim;
    uint64_t h = hash_view(law->points);
    h = hash(h, law->mean, d * sizeof(double));
    h = hash(h, law->direction, d * sizeof(double));
    h = hash(h, law->factor, d * d * sizeof(double));
    h = hash(h, law->weights, (size_t)law->n_parts * sizeof(double));
    for (int64_t i = 0; i < law->n_parts; i++) {
        const uint64_t part = hash_law(&law->parts[i]);
        h = hash(h, &part, sizeof part);
    }
    return h;
}

static void describe(params *p, const converge_job *job)
{
    const es_converge_spec *spec = &job->spec;
    char list[TEXT];
    es_isa isa = ES_ISA_PORTABLE;
    es_isa_resolve(job->session->exec.isa, &isa, NULL);
    add(p, "seed", "%llu", (unsigned long long)spec->seed);
    add(p, "law", "%s", es_law_name(spec->law->kind));
    add(p, "dim", "%lld", (long long)spec->law->dim);
    add(p, "size", "%.17g", spec->law->size);
    add(p, "freedom", "%.17g", spec->law->freedom);
    add(p, "concentration", "%.17g", spec->law->concentration);
    add(p, "law_numbers", "%016llx", (unsigned long long)hash_law(spec->law));
    add(p, "Wq", "%016llx", (unsigned long long)hash_view(spec->head->Wq));
    add(p, "Wk", "%016llx", (unsigned long long)hash_view(spec->head->Wk));
    add(p, "Wv", "%016llx", (unsigned long long)hash_view(spec->head->V));
    size_t used = 0;
    list[0] = '\0';
    for (int64_t i = 0; i < spec->n_sizes && used < sizeof list - 32; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", i ? "," : "",
                                 (long long)spec->sizes[i]);
    add(p, "n", "%s", list);
    used = 0;
    for (int64_t i = 0; i < spec->n_scales && used < sizeof list - 32; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.17g", i ? "," : "",
                                 spec->scales[i]);
    add(p, "scales", "%s", list);
    add(p, "replicates", "%lld", (long long)job->replicates);
    add(p, "queries", "%s", spec->population ? "population" : "self");
    add(p, "precision", "%s", es_dtype_name(spec->precision));
    add(p, "kernels", "%s", es_isa_name(isa));
}

/* ---- the file ---- */

es_status converge_run_open(converge_run *r, const converge_job *job, const char *path, bool resume,
                            bool force, es_error *err)
{
    static const char *const columns[] = {"mean_error", "cov_frobenius", "cov_spectral",
                                          "map_error"};
    if (!path)
        return ES_OK;
    const es_build build = es_build_info();
    const es_run_pair facts[] = {{"version", build.version},
                                 {"compiler", build.compiler},
                                 {"cpu", es_cpu_name()},
                                 {"blas", build.blas}};
    params *p = cli_alloc(sizeof *p);
    p->count = 0;
    describe(p, job);
    const es_run_spec spec = {.command = "converge",
                              .params = p->pair,
                              .params_count = p->count,
                              .facts = facts,
                              .facts_count = sizeof facts / sizeof facts[0]};
    es_status status = resume ? es_run_resume(path, &spec, &r->run, err)
                              : es_run_create(path, &spec, force, &r->run, err);
    free(p);
    if (status == ES_OK)
        status = es_run_add_stage(r->run, "replicate", job->spec.n_scales * job->spec.n_sizes, 4,
                                  columns, &r->stage, err);
    return status;
}

es_status converge_run_find(const converge_run *r, int64_t replicate, es_converge_cell *out,
                            bool *done, es_error *err)
{
    *done = false;
    if (!r->run)
        return ES_OK;
    const es_status status = es_run_has_cell(r->run, r->stage, replicate, done, err);
    return status == ES_OK && *done
               ? es_run_get_cell(r->run, r->stage, replicate, (double *)out, err)
               : status;
}

es_status converge_run_keep(const converge_run *r, int64_t replicate, const es_converge_cell *cells,
                            es_error *err)
{
    return r->run ? es_run_put_cell(r->run, r->stage, replicate, (const double *)cells, err)
                  : ES_OK;
}

es_status converge_run_close(converge_run *r, es_error *err)
{
    const es_status status = es_run_close(r->run, err);
    r->run = NULL;
    return status;
}

/* ---- tables ---- */

/* A column for every key of the first row whose value is a number or a text; numbers that are null
 * are NaN. */
static es_status put_table(es_run *run, const char *name, const json_t *rows, es_error *err)
{
    const json_t *first = json_array_get(rows, 0), *value;
    const size_t count = json_array_size(rows), most = json_object_size(first);
    es_run_column *columns = cli_alloc_array(most + 1, sizeof *columns);
    double *reals = cli_alloc_array(most * count + 1, sizeof *reals);
    const char **texts = cli_alloc_array(most * count + 1, sizeof *texts);
    const char *key;
    int64_t cols = 0;
    json_object_foreach((json_t *)(uintptr_t)first, key, value)
    {
        if (json_is_array(value) || json_is_object(value))
            continue;
        double *real = reals + (size_t)cols * count;
        const char **text = texts + (size_t)cols * count;
        for (size_t i = 0; i < count; i++) {
            const json_t *cell = json_object_get(json_array_get(rows, i), key);
            real[i] = json_is_number(cell) ? json_number_value(cell) : (double)NAN;
            text[i] = json_is_string(cell) ? json_string_value(cell) : "";
        }
        columns[cols++] = (es_run_column){.name = key,
                                          .kind = json_is_string(value) ? ES_RUN_TEXT : ES_RUN_REAL,
                                          .reals = real,
                                          .texts = text};
    }
    const es_run_table table = {
        .name = name, .rows = (int64_t)count, .cols = cols, .columns = columns};
    const es_status status = es_run_put_table(run, &table, err);
    free(columns);
    free(reals);
    free(texts);
    return status;
}

es_status converge_run_tables(const converge_run *r, const json_t *answer, es_error *err)
{
    if (!r->run)
        return ES_OK;
    const es_status status = put_table(r->run, "rows", json_object_get(answer, "rows"), err);
    return status == ES_OK ? put_table(r->run, "fits", json_object_get(answer, "fits"), err)
                           : status;
}
