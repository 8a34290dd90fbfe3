/* SPDX-License-Identifier: Apache-2.0 */
/* weights_read.c : reads one tensor, in chunks of rows on several threads. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "model/packed.h"
#include "model/weights_inside.h"

enum { CHUNK = 1 << 16 }; /* numbers that a thread reads at a time, unless a row has more */

/* ---- memory ---- */

es_status es_read_scratch_new(const es_exec *exec, int64_t numbers, es_dtype precision,
                              es_read_scratch *out, es_error *err)
{
    const int threads = es_parallel_threads(exec, INT64_MAX);
    es_mem_limit *budget = exec->budget;
    *out = (es_read_scratch){.exec = {.threads = threads, .budget = budget},
                             .each = (size_t)numbers * es_dtype_size(precision)};
    ES_TRY(ES_MEM_NEW(NULL, out->seen, threads, "threads", err)); /* too small to be counted */
    const es_status status =
        ES_MEM_NEW_2D(budget, out->memory, threads, (int64_t)out->each, "chunks of weights", err);
    if (status != ES_OK)
        es_read_scratch_free(out);
    return status;
}

void es_read_scratch_free(es_read_scratch *scratch)
{
    es_mem_free(scratch->exec.budget, scratch->memory);
    es_mem_free(NULL, scratch->seen);
    *scratch = (es_read_scratch){0};
}

/* ---- rows that lie otherwise in the file ---- */

bool es_tensor_lies_otherwise(const es_weight_source *source, es_tensor_ref ref)
{
    return !source->plain && (ref.part->order == ES_ROWS_BY_HEAD ||
                              (ref.part->order == ES_ROWS_TRANSPOSED && !ref.bias));
}

/* Where row `row` of the file belongs: rows of head h are its query's, its key's, its value's. */
static int64_t row_by_head(const es_model_config *c, int64_t row)
{
    const int64_t k = c->head_dim, head = row / (3 * k), what = row / k % 3;
    return what * c->query_width + head * k + row % k;
}

/* Copies numbers first ... first + count - 1 of the file to their places in a part, or in the parts
 * of all experts. */
static void rearrange(const es_model *m, es_tensor_ref ref, int64_t first, int64_t count,
                      const char *from, char *at)
{
    const es_model_config *c = &m->config;
    const int64_t rows = es_config_size(c, ref.part->rows);
    const int64_t cols = ref.bias ? 1 : es_config_size(c, ref.part->cols);
    const size_t item = es_dtype_size(m->precision);
    const bool by_head = ref.part->order == ES_ROWS_BY_HEAD;
    for (int64_t i = first; i < first + count; i++, from += item) {
        const int64_t own = i % (rows * cols); /* of the expert's part */
        const int64_t row = by_head ? row_by_head(c, own / cols) : own % rows;
        const int64_t col = by_head ? own % cols : own / rows;
        memcpy(at + (size_t)(i - own + row * cols + col) * item, from, item);
    }
}

/* ---- one tensor ---- */

/* Returns the numbers of a row in the file. A vector is read as one row. */
static int64_t row_length(const es_st_tensor *t)
{
    return t->rank > 1 ? t->shape[t->rank - 1] : t->count;
}

/* Returns the rows of a chunk. */
static int64_t chunk_rows(const es_st_tensor *t)
{
    const int64_t cols = row_length(t);
    return cols >= CHUNK ? 1 : CHUNK / cols;
}

int64_t es_tensor_chunk(const es_st_tensor *t)
{
    const int64_t most = chunk_rows(t) * row_length(t);
    return t->count < most ? t->count : most;
}

int64_t es_tensor_numbers(const es_model_config *c, es_tensor_ref ref, const es_st_tensor *t)
{
    return ref.alone && ref.part->kind == ES_PART_FUSED ? t->count / c->experts : t->count;
}

/* A tensor while it is read. */
typedef struct reading {
    const es_model *model;
    const es_st *st;
    es_tensor_ref ref;
    const es_st_tensor *tensor;
    int64_t begin, rows; /* its first row that is read, and how many are */
    const es_read_scratch *scratch;
    char *at;
    bool looks;   /* at what is odd about the numbers */
    bool through; /* the thread's own memory, and from there to their places, if they have any */
} reading;

/* Reads chunk `unit`. */
static es_status read_chunk(void *reading_, int64_t unit, int thread, es_error *err)
{
    const reading *r = reading_;
    const es_st_tensor *t = r->tensor;
    const int64_t cols = row_length(t), step = chunk_rows(t);
    const int64_t first = unit * step, rows = r->rows - first < step ? r->rows - first : step;
    char *own = r->scratch->memory + (size_t)thread * r->scratch->each;
    char *to =
        r->through ? own : r->at + (size_t)(first * cols) * es_dtype_size(r->model->precision);
    es_st_seen *seen = r->looks ? &r->scratch->seen[thread] : NULL;
    if (t->rank == 1)
        ES_TRY(es_st_read(r->st, t, r->model->precision, to, seen, err));
    else
        ES_TRY(
            es_st_read_rows(r->st, t, r->begin + first, rows, r->model->precision, to, seen, err));
    if (r->through && r->at)
        rearrange(r->model, r->ref, first * cols, rows * cols, own, r->at);
    return ES_OK;
}

/* Adds up what threads have seen. */
static es_st_seen sum_seen(const es_read_scratch *scratch)
{
    es_st_seen sum = {.first = -1};
    for (int i = 0; i < scratch->exec.threads; i++) {
        const es_st_seen *one = &scratch->seen[i];
        sum.nans += one->nans;
        sum.infinities += one->infinities;
        sum.subnormals += one->subnormals;
        if (one->first >= 0 && (sum.first < 0 || one->first < sum.first))
            sum.first = one->first;
    }
    return sum;
}

/* Forgets what threads have seen. */
static void clear_seen(const es_read_scratch *scratch)
{
    for (int i = 0; i < scratch->exec.threads; i++)
        scratch->seen[i] = (es_st_seen){.first = -1};
}

es_status es_tensor_read(const es_model *model, es_tensor_ref ref, const es_st_tensor *tensor,
                         const es_read_scratch *scratch, void *at, es_st_seen *seen, es_error *err)
{
    const int64_t rows = es_tensor_numbers(&model->config, ref, tensor) / row_length(tensor);
    const int64_t step = chunk_rows(tensor);
    reading r = {model,
                 model->source->st,
                 ref,
                 tensor,
                 .begin = rows * row_length(tensor) < tensor->count ? ref.head * rows : 0,
                 .rows = rows,
                 .scratch = scratch,
                 .at = at,
                 .looks = seen != NULL,
                 .through = !at || es_tensor_lies_otherwise(model->source, ref)};
    clear_seen(scratch);
    ES_TRY(es_parallel_run(&scratch->exec, (rows + step - 1) / step, read_chunk, &r, err));
    if (seen)
        *seen = sum_seen(scratch);
    return ES_OK;
}

/* ---- blocks of MXFP4 ---- */

/* A matrix in blocks of MXFP4 while it is read. */
typedef struct packed_reading {
    const es_model *model;
    const es_packed_tensors *tensors;
    int64_t begin, groups; /* the first group that is read, and how many are */
    const es_read_scratch *scratch;
    char *at; /* NULL: only look */
} packed_reading;

/* Reads chunk `unit`. */
static es_status read_packed_chunk(void *reading_, int64_t unit, int thread, es_error *err)
{
    enum { MOST = ES_PACKED_CHUNK / ES_PACKED_GROUP, BYTES = ES_PACKED_GROUP / 2 };
    const packed_reading *r = reading_;
    const es_st *st = r->model->source->st;
    const int64_t skip = unit * MOST, left = r->groups - skip, first = r->begin + skip;
    const int64_t groups = left < MOST ? left : MOST;
    const size_t item = es_dtype_size(r->model->precision);
    char *to = r->at ? r->at + (size_t)(skip * ES_PACKED_GROUP) * item
                     : r->scratch->memory + (size_t)thread * r->scratch->each;
    int64_t *bad = &r->scratch->seen[thread].first;
    unsigned char raw[MOST * BYTES], exponents[MOST];
    ES_TRY(es_st_read_bytes(st, r->tensors->blocks, first * BYTES, groups * BYTES, raw, err));
    ES_TRY(es_st_read_bytes(st, r->tensors->scales, first, groups, exponents, err));
    const int64_t odd = es_packed_decode(raw, exponents, groups, r->model->precision, to);
    if (odd >= 0 && (*bad < 0 || first + odd < *bad))
        *bad = first + odd;
    return ES_OK;
}

es_status es_packed_read(const es_model *model, es_tensor_ref ref, const es_packed_tensors *tensors,
                         const es_read_scratch *scratch, void *at, int64_t *bad, es_error *err)
{
    const int64_t groups = es_tensor_numbers(&model->config, ref, tensors->scales);
    const int64_t step = ES_PACKED_CHUNK / ES_PACKED_GROUP;
    packed_reading r = {model, tensors, ref.alone ? ref.head * groups : 0, groups, scratch, at};
    clear_seen(scratch);
    ES_TRY(es_parallel_run(&scratch->exec, (groups + step - 1) / step, read_packed_chunk, &r, err));
    if (bad)
        *bad = sum_seen(scratch).first;
    return ES_OK;
}
