/* SPDX-License-Identifier: Apache-2.0 */
#include "experiments/kit/run_pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "experiments/kit/answer_kit.h"
#include "table/sheet.h"
#include "table/table.h"

enum { PLACE = 160 }; /* bytes of a place as text */

/* ---- columns ---- */

/* A table of both runs; keys are columns of the same key and kind in both. */
typedef struct matched {
    const es_table *a, *b;
    int64_t rows_a, rows_b;
    es_table_column *keys_a, *keys_b; /* (keys) */
    int64_t keys;
    struct place *places; /* (rows of b) */
} matched;

/* Returns true for a column of texts. */
static bool is_text(const es_table_column *c) { return c->format == ES_FORMAT_TEXT; }

/* A text of a column; "" if the row has none. */
static const char *text_of(const es_table_column *c, int64_t row)
{
    const char *text = es_column_text(c, row);
    return text ? text : "";
}

/* Finds the key columns that both tables have, by which rows are matched. */
static es_status match_keys(es_job *job, matched *m, es_error *err)
{
    const char *keys = es_table_about(m->a)->keys;
    es_table_column a, b;
    const int64_t cols = es_table_columns(m->a);
    ES_TRY(ES_JOB_NEW(job, m->keys_a, cols, err));
    ES_TRY(ES_JOB_NEW(job, m->keys_b, cols, err));
    for (int64_t j = 0; keys && es_table_column_at(m->a, j, &a); j++)
        if (!a.is_error && es_words_at(keys, a.spec->key) >= 0 && es_table_find(m->b, a.key, &b) &&
            is_text(&a) == is_text(&b)) {
            m->keys_a[m->keys] = a;
            m->keys_b[m->keys++] = b;
        }
    return ES_OK;
}

/* A number of a key column. Equal keys have equal bits: -0 is 0, and all NaN, which rows without
 * this key have, are one. */
static uint64_t bits_of(const es_table_column *c, int64_t row)
{
    const double value = es_column_real(c, row), real = isnan(value) ? (double)NAN : value + 0.0;
    uint64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

/* Returns true if two rows have the same keys. */
static bool agree(const matched *m, int64_t i, int64_t k)
{
    for (int64_t j = 0; j < m->keys; j++) {
        const es_table_column *a = &m->keys_a[j], *b = &m->keys_b[j];
        if (is_text(a) ? strcmp(text_of(a, i), text_of(b, k)) != 0 : bits_of(a, i) != bits_of(b, k))
            return false;
    }
    return true;
}

/* Rows of b in order of a number made of their keys: equal keys have equal numbers. */
typedef struct place {
    uint64_t number;
    int64_t row;
} place;

/* Returns a hash (FNV-1a) of a row's keys. */
static uint64_t number_of(const es_table_column *keys, int64_t count, int64_t row)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t j = 0; j < count; j++) {
        const char *text = is_text(&keys[j]) ? text_of(&keys[j], row) : NULL;
        const uint64_t bits = text ? 0 : bits_of(&keys[j], row);
        const unsigned char *bytes = text ? (const void *)text : (const void *)&bits;
        const size_t size = text ? strlen(text) : sizeof bits;
        for (size_t k = 0; k <= size; k++)
            h = (h ^ (k < size ? bytes[k] : 0xffu)) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* Compares two rows by hash, then by number, for qsort(). */
static int by_number(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->row > y->row) - (x->row < y->row);
}

/* Sorts the rows of the second run by hash, so that matching n rows takes O(n log n). */
static es_status sort_places(es_job *job, matched *m, es_error *err)
{
    ES_TRY(ES_JOB_NEW(job, m->places, m->rows_b, err));
    for (int64_t k = 0; k < m->rows_b; k++)
        m->places[k] = (place){number_of(m->keys_b, m->keys, k), k};
    if (m->rows_b)
        qsort(m->places, (size_t)m->rows_b, sizeof *m->places, by_number);
    return ES_OK;
}

/* The row of b that is about the same as row i of a, -1 if there is none; without keys that of the
 * same number. */
static int64_t partner(const matched *m, int64_t i)
{
    const uint64_t number = number_of(m->keys_a, m->keys, i);
    int64_t low = 0, high = m->rows_b;
    if (m->keys == 0)
        return i < m->rows_b ? i : -1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (m->places[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < m->rows_b && m->places[low].number == number; low++)
        if (agree(m, i, m->places[low].row))
            return m->places[low].row;
    return -1;
}

/* A copy of a text, the job's. */
static es_status keep(es_job *job, const char *text, const char **out, es_error *err)
{
    *out = es_arena_text(&job->arena, text);
    return *out ? ES_OK : es_fail(err, ES_E_MEMORY, "memory.system", "", "no memory for a name");
}

/* "layer=0 head=3" */
static es_status place_of(es_job *job, const matched *m, int64_t row, const char **out,
                          es_error *err)
{
    char text[PLACE] = "", number[ES_FORMAT_SIZE];
    size_t used = 0;
    for (int64_t j = 0; j < m->keys && used < PLACE; j++) {
        const es_table_column *c = &m->keys_a[j];
        used += (size_t)snprintf(text + used, PLACE - used, "%s%s=", j ? " " : "", c->key);
        if (used < PLACE && is_text(c))
            used += (size_t)snprintf(text + used, PLACE - used, "%s", text_of(c, row));
        else if (used < PLACE)
            used += (size_t)snprintf(text + used, PLACE - used, "%s",
                                     es_format_number(ES_FORMAT_COUNT, es_column_real(c, row),
                                                      (double)NAN, number, sizeof number));
    }
    return keep(job, text, out, err);
}

/* ---- figures ---- */

/* Appends a pair of numbers; the array doubles when it is full. */
static es_status add_pair(es_job *job, const es_figure_pair *one, es_error *err)
{
    compare_state *s = job->state;
    if (s->count == s->capacity) {
        es_figure_pair *more;
        const int64_t capacity = s->capacity ? 2 * s->capacity : 256;
        ES_TRY(ES_JOB_NEW(job, more, capacity, err));
        if (s->count)
            memcpy(more, s->pairs, (size_t)s->count * sizeof *more);
        s->pairs = more;
        s->capacity = capacity;
    }
    s->pairs[s->count] = *one;
    s->pairs[s->count].found = s->count;
    s->count++;
    return ES_OK;
}

/* A standard error of unknown freedom is taken for exact: t is then normal. */
static es_grouped figure(const es_table_column *value, const es_table_column *error, int64_t row,
                         double freedom)
{
    return (es_grouped){es_column_real(value, row), es_column_real(error, row),
                        isnan(freedom) ? 1e9 : freedom};
}

/* A column of numbers that has a standard error in both tables. */
typedef struct measured {
    es_table_column a, b, error_a, error_b;
} measured;

/* Column j of a; false if it is not such a one. *end: it is behind the last. */
static bool find_measured(const matched *m, int64_t j, measured *out, bool *end)
{
    *end = !es_table_column_at(m->a, j, &out->a);
    return !*end && es_sheet_error(m->a, &out->a, &out->error_a) &&
           es_table_find(m->b, out->a.key, &out->b) &&
           es_table_find(m->b, out->error_a.key, &out->error_b) && !is_text(&out->a) &&
           !is_text(&out->b) && !is_text(&out->error_a) && !is_text(&out->error_b);
}

/* Every column of row i of a and row k of b that has an error in both. */
static es_status compare_figures(es_job *job, const matched *m, const char *table, int64_t i,
                                 int64_t k, es_error *err)
{
    const compare_state *s = job->state;
    const char *at = NULL;
    bool end = false;
    for (int64_t j = 0; !end; j++) {
        measured c;
        if (!find_measured(m, j, &c, &end))
            continue;
        es_figure_pair one = {.table = table,
                              .first = figure(&c.a, &c.error_a, i, s->sides[0].freedom),
                              .second = figure(&c.b, &c.error_b, k, s->sides[1].freedom)};
        one.test = es_welch(one.second, one.first);
        if (!isfinite(one.test.t))
            continue;
        if (!at)
            ES_TRY(place_of(job, m, i, &at, err));
        one.at = at;
        ES_TRY(keep(job, c.a.key, &one.quantity, err));
        ES_TRY(add_pair(job, &one, err));
    }
    return ES_OK;
}

/* Compares all rows of one table that have a partner in the other run. */
static es_status compare_table(es_job *job, const es_table *a, const es_table *b, es_error *err)
{
    compare_state *s = job->state;
    matched m = {.a = a, .b = b, .rows_a = es_table_rows(a), .rows_b = es_table_rows(b)};
    const char *name;
    ES_TRY(match_keys(job, &m, err));
    ES_TRY(sort_places(job, &m, err));
    ES_TRY(keep(job, es_table_about(a)->key, &name, err));
    for (int64_t i = 0; i < m.rows_a; i++) {
        const int64_t k = partner(&m, i);
        s->alone += k < 0;
        ES_TRY(es_job_tick(job, i, m.rows_a));
        if (k >= 0)
            ES_TRY(compare_figures(job, &m, name, i, k, err));
    }
    return ES_OK;
}

/* A table that only one run has is not compared. */
static es_status compare_named(es_job *job, const char *name, es_error *err)
{
    compare_state *s = job->state;
    es_answer *a, *b;
    ES_TRY(es_run_answer(s->sides[0].run, name, job->exec.budget, &a, err));
    es_status status = es_run_answer(s->sides[1].run, name, job->exec.budget, &b, err);
    if (status == ES_OK) {
        status = compare_table(job, es_answer_at(a, 0), es_answer_at(b, 0), err);
        es_answer_free(b);
    } else if (status == ES_E_EMPTY) {
        status = ES_OK;
    }
    es_answer_free(a);
    return status;
}

/* Compares all tables of the first run except internal ones, whose names begin with _. */
static es_status compare_all(es_job *job, es_error *err)
{
    const compare_state *s = job->state;
    int64_t tables;
    ES_TRY(es_run_tables_count(s->sides[0].run, &tables, err));
    for (int64_t i = 0; i < tables; i++) {
        char name[256];
        ES_TRY(es_run_table_name(s->sides[0].run, i, name, err));
        if (name[0] != '_')
            ES_TRY(compare_named(job, name, err));
    }
    return ES_OK;
}

/* Compares two pairs by falling |t|, for qsort(). */
static int by_t(const void *a, const void *b)
{
    const es_figure_pair *first = a, *second = b;
    const double x = fabs(first->test.t), y = fabs(second->test.t);
    return x != y ? (x < y) - (x > y)
                  : (first->found > second->found) - (first->found < second->found);
}

/* Compares two pairs by place and quantity, so that repeated ones are neighbours. */
static int by_place(const void *a, const void *b)
{
    const es_figure_pair *first = a, *second = b;
    const int where = strcmp(first->at, second->at),
              quantity = strcmp(first->quantity, second->quantity);
    return where      ? where
           : quantity ? quantity
                      : (first->found > second->found) - (first->found < second->found);
}

/* A table may repeat rows of another, such as those that matter most: one figure is looked at, and
 * counted, once. */
static bool is_repeated(const es_figure_pair *one, const es_figure_pair *before)
{
    return strcmp(one->at, before->at) == 0 && strcmp(one->quantity, before->quantity) == 0 &&
           one->first.value == before->first.value && one->first.se == before->first.se &&
           one->second.value == before->second.value && one->second.se == before->second.se;
}

/* Drops numbers that appear in several tables: counting them twice would weaken Holm's
 * correction. */
static void drop_repeated(compare_state *s)
{
    int64_t kept = 0;
    if (s->count)
        qsort(s->pairs, (size_t)s->count, sizeof *s->pairs, by_place);
    for (int64_t i = 0; i < s->count; i++)
        if (kept == 0 || !is_repeated(&s->pairs[i], &s->pairs[kept - 1]))
            s->pairs[kept++] = s->pairs[i];
    s->count = kept;
}

/* Holm for all; then the largest t first. */
static es_status correct(es_job *job, es_error *err)
{
    compare_state *s = job->state;
    drop_repeated(s);
    ES_TRY(ES_JOB_NEW(job, s->p, s->count, err));
    for (int64_t i = 0; i < s->count; i++)
        s->p[i] = s->pairs[i].test.p;
    ES_TRY(es_holm(s->p, s->count, s->p, err));
    for (int64_t i = 0; i < s->count; i++)
        s->pairs[i].p = s->p[i];
    if (s->count)
        qsort(s->pairs, (size_t)s->count, sizeof *s->pairs, by_t);
    return ES_OK;
}

es_status es_run_pairs(es_job *job, es_error *err)
{
    ES_TRY(compare_all(job, err));
    return correct(job, err);
}
