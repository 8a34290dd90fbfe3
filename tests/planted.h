/* SPDX-License-Identifier: Apache-2.0 */
/* planted.h : attention in plain f64 loops with a mistake planted in it, and what measure --compare
 * says to it. */
#ifndef ES_TESTS_PLANTED_H
#define ES_TESTS_PLANTED_H

#include "testing.h"

#include <esscher/npy.h>
#include <esscher/random.h>
#include <esscher/study.h>

#include "base/half.h"
#include "folder.h"
#include "store/npy_header.h"

typedef enum store { AS_F64, AS_F32, AS_F16, AS_BF16 } store;
static const char *const store_names[] = {"f64", "f32", "f16", "bf16"};

static inline double stored(store s, double x)
{
    const float f = (float)x;
    return s == AS_F64   ? x
           : s == AS_F32 ? (double)f
           : s == AS_F16 ? (double)es_half_to_float(es_half_from_float(f))
                         : (double)es_bf16_to_float(es_bf16_from_float(f));
}

/* ---- a problem ---- */

typedef struct problem {
    int64_t heads, kv, m, n, d, dv;
    double *q, *k, *v, *y; /* (heads, m, d), (kv, n, d), (kv, n, dv), (heads, m, dv) */
} problem;

static inline double *normals(uint64_t seed, int64_t rows, int64_t cols, store s)
{
    double *x = malloc((size_t)(rows * cols) * sizeof *x);
    const es_address at = {.seed = seed};
    assert_non_null(x);
    assert_ok(es_normal_rows(&at, rows, cols, x, &err));
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = stored(s, x[i]);
    return x;
}

/* Inputs are numbers of the format, as those of a kernel in it are. */
static inline problem make(int64_t heads, int64_t kv, int64_t m, int64_t n, int64_t d, int64_t dv,
                           store s)
{
    return (problem){.heads = heads,
                     .kv = kv,
                     .m = m,
                     .n = n,
                     .d = d,
                     .dv = dv,
                     .q = normals(11, heads * m, d, s),
                     .k = normals(12, kv * n, d, s),
                     .v = normals(13, kv * n, dv, s),
                     .y = calloc((size_t)(heads * m * dv), sizeof(double))};
}

static inline void drop(problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->y);
}

static inline void save(const char *name, int64_t a, int64_t b, int64_t c, const double *x)
{
    const int64_t shape[] = {a, b, c};
    char header[ES_NPY_WRITTEN_MOST];
    const size_t size = es_npy_header_write(sizeof *x, 3, shape, header);
    FILE *f = fopen(in_folder(name), "wb"); /* es_npy_save() would wait for the disk */
    assert_non_null(f);
    assert_int_equal(fwrite(header, 1, size, f), size);
    assert_int_equal(fwrite(x, sizeof *x, (size_t)(a * b * c), f), a * b * c);
    assert_int_equal(fclose(f), 0);
}

/* The answer of measure --compare THEIRS, or without where that is NULL; NULL-ended pairs of
 * further options. */
static inline es_answer *ask_of(const problem *p, const char *theirs, const char *const *more)
{
    const es_study *study = es_study_find("measure");
    es_params *params;
    es_answer *answer;
    save("q.npy", p->heads, p->m, p->d, p->q);
    save("k.npy", p->kv, p->n, p->d, p->k);
    save("v.npy", p->kv, p->n, p->dv, p->v);
    assert_ok(es_params_new(study->params, study->size, &params, &err));
    const char *const names[] = {"q", "k", "v"};
    const char *const files[] = {"q.npy", "k.npy", "v.npy"};
    for (int i = 0; i < 3; i++)
        assert_ok(es_params_set(params, names[i], in_folder(files[i]), &err));
    if (theirs)
        assert_ok(es_params_set(params, "compare", theirs, &err));
    for (; more && *more; more += 2)
        assert_ok(es_params_set(params, more[0], more[1], &err));
    assert_ok(es_study_run(study, params, &(es_study_opts){.exec = {.threads = 1}}, &answer, &err));
    es_params_free(params);
    return answer;
}

static inline es_answer *ask(const problem *p, const char *const *more)
{
    char theirs[sizeof path_of_file];
    save("y.npy", p->heads, p->m, p->dv, p->y);
    snprintf(theirs, sizeof theirs, "%s", in_folder("y.npy"));
    return ask_of(p, theirs, more);
}

static inline double number(const es_answer *a, const char *key)
{
    return es_table_get(es_answer_find(a, "compare"), 0, key);
}

static inline const char *text(const es_answer *a, const char *key)
{
    return es_table_get_text(es_answer_find(a, "compare"), 0, key);
}

/* ---- attention in plain loops, with something planted ---- */

typedef struct planted {
    double scale, sink, cap, factor;
    const double *sinks;              /* (heads) logits of learned sinks; NULL: none */
    int causal;                       /* 1: j <= i; 2: j <= i + n - m; 3: j < i */
    int64_t window, band, last, skip; /* keys: `last` at the end, `skip` first ones are hidden */
    bool exclude_self, tiled, no_division, no_division_max;
} planted;

static inline bool hidden(const problem *p, const planted *t, int64_t i, int64_t j)
{
    const int64_t at = t->causal == 2 || t->window || t->band ? i + p->n - p->m : i;
    return (t->causal && t->causal < 3 && j > at) || (t->causal == 3 && j >= i) ||
           (t->window && (j > at || j <= at - t->window)) ||
           (t->band && (j > at + t->band || j < at - t->band)) || (t->exclude_self && j == i) ||
           (t->last && j >= p->n - t->last) || j < t->skip;
}

static inline double score_of(const problem *p, const planted *t, int64_t h, int64_t kv, int64_t i,
                              int64_t j)
{
    double s = 0.0;
    for (int64_t c = 0; c < p->d; c++)
        s += p->q[(h * p->m + i) * p->d + c] * p->k[(kv * p->n + j) * p->d + c];
    s *= t->scale;
    return t->cap > 0.0 ? t->cap * tanh(s / t->cap) : s;
}

static inline void plant(problem *p, const planted *t, store s)
{
    double *w = malloc((size_t)p->n * sizeof *w);
    assert_non_null(w);
    for (int64_t r = 0; r < p->heads * p->m; r++) {
        const int64_t h = r / p->m, i = r % p->m;
        const int64_t kv = t->tiled ? h % p->kv : h / (p->heads / p->kv);
        double total = t->sink + (t->sinks ? exp(t->sinks[h]) : 0.0), most = -INFINITY;
        for (int64_t j = 0; j < p->n; j++) {
            const double x = hidden(p, t, i, j) ? -INFINITY : score_of(p, t, h, kv, i, j);
            most = fmax(most, x);
            w[j] = exp(x);
            total += w[j];
        }
        const double by = t->no_division ? 1.0 : t->no_division_max ? exp(most) : total;
        for (int64_t c = 0; c < p->dv; c++) {
            double o = 0.0;
            for (int64_t j = 0; j < p->n; j++)
                o += w[j] / by * p->v[(kv * p->n + j) * p->dv + c];
            p->y[r * p->dv + c] = stored(s, (t->factor != 0.0 ? t->factor : 1.0) * o);
        }
    }
    free(w);
}

/* Head 1 stands first, then 2, 0. */
static inline void swap_heads(problem *p)
{
    const size_t each = (size_t)(p->m * p->dv);
    double *first = malloc(each * sizeof *first);
    assert_non_null(first);
    memcpy(first, p->y, each * sizeof *first);
    memmove(p->y, p->y + each, 2 * each * sizeof *first);
    memcpy(p->y + 2 * each, first, each * sizeof *first);
    free(first);
}

#endif
