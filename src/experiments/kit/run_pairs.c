#include "experiments/kit/run_pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "experiments/kit/answer_kit.h"

enum { PLACE = 160 }; /* bytes of a place as text */

/* ---- columns ---- */

/* A table of both runs; keys are columns of the same name and kind in both. */
typedef struct matched {
    const es_run_table *a, *b;
    const es_run_column **keys_a, **keys_b; /* (keys) */
    int64_t keys;
    struct place *places; /* (rows of b) */
} matched;

static es_status match_keys(es_job *job, const es_run_side *s, matched *m, es_error *err)
{
    ES_TRY(ES_JOB_NEW(job, m->keys_a, m->a->cols, err));
    ES_TRY(ES_JOB_NEW(job, m->keys_b, m->a->cols, err));
    for (int64_t j = 0; j < m->a->cols; j++) {
        const es_run_column *a = &m->a->columns[j], *b = es_run_column_of(m->b, a->name);
        if (b && b->kind == a->kind &&
            strcmp(es_run_said(&s->said, m->a->name, a->name, "role"), "key") == 0) {
            m->keys_a[m->keys] = a;
            m->keys_b[m->keys++] = b;
        }
    }
    return ES_OK;
}

static bool agree(const matched *m, int64_t i, int64_t k)
{
    for (int64_t j = 0; j < m->keys; j++) {
        const es_run_column *a = m->keys_a[j], *b = m->keys_b[j];
        if (a->kind == ES_RUN_TEXT ? strcmp(a->texts[i], b->texts[k]) != 0
                                   : a->reals[i] != b->reals[k])
            return false;
    }
    return true;
}

/* Rows of b in order of a number made of their keys: equal keys have equal numbers. */
typedef struct place {
    uint64_t number;
    int64_t row;
} place;

static uint64_t number_of(const es_run_column *const *keys, int64_t count, int64_t row)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t j = 0; j < count; j++) {
        const char *text = keys[j]->kind == ES_RUN_TEXT ? keys[j]->texts[row] : NULL;
        const double real = text ? 0.0 : keys[j]->reals[row] + 0.0; /* -0 is 0 */
        const unsigned char *bytes = text ? (const void *)text : (const void *)&real;
        const size_t size = text ? strlen(text) : sizeof real;
        for (size_t k = 0; k <= size; k++)
            h = (h ^ (k < size ? bytes[k] : 0xffu)) * UINT64_C(0x100000001b3);
    }
    return h;
}

static int by_number(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->row > y->row) - (x->row < y->row);
}

static es_status sort_places(es_job *job, matched *m, es_error *err)
{
    ES_TRY(ES_JOB_NEW(job, m->places, m->b->rows, err));
    for (int64_t k = 0; k < m->b->rows; k++)
        m->places[k] = (place){number_of(m->keys_b, m->keys, k), k};
    if (m->b->rows)
        qsort(m->places, (size_t)m->b->rows, sizeof *m->places, by_number);
    return ES_OK;
}

/* The row of b that is about the same as row i of a, -1 if there is none; without keys that of the
 * same number. */
static int64_t partner(const matched *m, int64_t i)
{
    const uint64_t number = number_of(m->keys_a, m->keys, i);
    int64_t low = 0, high = m->b->rows;
    if (m->keys == 0)
        return i < m->b->rows ? i : -1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (m->places[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < m->b->rows && m->places[low].number == number; low++)
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
    char text[PLACE] = "", number[ES_FORMAT_ROOM];
    size_t used = 0;
    for (int64_t j = 0; j < m->keys && used < PLACE; j++) {
        const es_run_column *c = m->keys_a[j];
        used += (size_t)snprintf(text + used, PLACE - used, "%s%s=", j ? " " : "", c->name);
        if (used < PLACE && c->kind == ES_RUN_TEXT)
            used += (size_t)snprintf(text + used, PLACE - used, "%s", c->texts[row]);
        else if (used < PLACE)
            used += (size_t)snprintf(text + used, PLACE - used, "%s",
                                     es_format_number(ES_FORMAT_COUNT, c->reals[row], (double)NAN,
                                                      number, sizeof number));
    }
    return keep(job, text, out, err);
}

/* ---- figures ---- */

static es_status add_pair(es_job *job, const es_figure_pair *one, es_error *err)
{
    compare_state *s = job->state;
    if (s->count == s->room) {
        es_figure_pair *more;
        const int64_t room = s->room ? 2 * s->room : 256;
        ES_TRY(ES_JOB_NEW(job, more, room, err));
        if (s->count)
            memcpy(more, s->pairs, (size_t)s->count * sizeof *more);
        s->pairs = more;
        s->room = room;
    }
    s->pairs[s->count] = *one;
    s->pairs[s->count].found = s->count;
    s->count++;
    return ES_OK;
}

/* A standard error of unknown freedom is taken for exact: t is then normal. */
static es_grouped figure(const es_run_column *value, const es_run_column *error, int64_t row,
                         double freedom)
{
    return (es_grouped){value->reals[row], error->reals[row], isnan(freedom) ? 1e9 : freedom};
}

static bool is_real(const es_run_column *c) { return c && c->kind == ES_RUN_REAL; }

/* Every column of row i of a and row k of b that has an error in both. */
static es_status compare_figures(es_job *job, const matched *m, const char *table, int64_t i,
                                 int64_t k, es_error *err)
{
    const compare_state *s = job->state;
    const char *at = NULL;
    for (int64_t j = 0; j < m->a->cols; j++) {
        const es_run_column *a = &m->a->columns[j], *b = es_run_column_of(m->b, a->name);
        const char *error = es_run_said(&s->sides[0].said, m->a->name, a->name, "error");
        const es_run_column *ea = es_run_column_of(m->a, error),
                            *eb = es_run_column_of(m->b, error);
        if (!is_real(a) || !is_real(b) || !is_real(ea) || !is_real(eb))
            continue;
        es_figure_pair one = {.table = table,
                              .first = figure(a, ea, i, s->sides[0].freedom),
                              .second = figure(b, eb, k, s->sides[1].freedom)};
        one.test = es_welch(one.second, one.first);
        if (!isfinite(one.test.t))
            continue;
        if (!at)
            ES_TRY(place_of(job, m, i, &at, err));
        one.at = at;
        ES_TRY(keep(job, a->name, &one.quantity, err));
        ES_TRY(add_pair(job, &one, err));
    }
    return ES_OK;
}

static es_status compare_table(es_job *job, const es_run_table *a, const es_run_table *b,
                               es_error *err)
{
    compare_state *s = job->state;
    matched m = {.a = a, .b = b};
    const char *name;
    ES_TRY(match_keys(job, &s->sides[0], &m, err));
    ES_TRY(sort_places(job, &m, err));
    ES_TRY(keep(job, a->name, &name, err));
    for (int64_t i = 0; i < a->rows; i++) {
        const int64_t k = partner(&m, i);
        s->alone += k < 0;
        ES_TRY(es_job_tick(job, i, a->rows));
        if (k >= 0)
            ES_TRY(compare_figures(job, &m, name, i, k, err));
    }
    return ES_OK;
}

/* A table that only one run has is not compared. */
static es_status compare_named(es_job *job, const char *name, es_error *err)
{
    compare_state *s = job->state;
    es_run_table a, b;
    ES_TRY(es_run_get_table(s->sides[0].run, name, job->exec.budget, &a, err));
    es_status status = es_run_get_table(s->sides[1].run, name, job->exec.budget, &b, err);
    if (status == ES_OK) {
        status = compare_table(job, &a, &b, err);
        es_run_table_free(&b);
    } else if (status == ES_E_EMPTY) {
        status = ES_OK;
    }
    es_run_table_free(&a);
    return status;
}

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

static int by_t(const void *a, const void *b)
{
    const es_figure_pair *first = a, *second = b;
    const double x = fabs(first->test.t), y = fabs(second->test.t);
    return x != y ? (x < y) - (x > y)
                  : (first->found > second->found) - (first->found < second->found);
}

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
