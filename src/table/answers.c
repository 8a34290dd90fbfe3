/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c : the parts of an answer outside its tables, and the choice of a view. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "table/lines.h"
#include "table/sheet.h"
#include "table/table.h"

es_status es_answer_new(es_mem_limit *budget, es_answer **out, es_error *err)
{
    ES_TRY(ES_MEM_NEW(budget, *out, 1, "an answer", err));
    **out = (es_answer){.arena = {.budget = budget}, .command = "", .seed = -1};
    (*out)->nowhere.answer = *out;
    return ES_OK;
}

void es_answer_free(es_answer *answer)
{
    if (!answer)
        return;
    es_mem_limit *budget = answer->arena.budget;
    es_arena_free(&answer->arena);
    es_mem_free(budget, answer);
}

es_status es_answer_status(const es_answer *answer, es_error *err)
{
    if (answer->status != ES_OK && err)
        *err = answer->err;
    return answer->status;
}

bool es_answer_grow(es_answer *a, void *list, int64_t count, int64_t *capacity, size_t element)
{
    if (a->status != ES_OK)
        return false;
    if (count < *capacity)
        return true;
    void *memory, *old;
    const int64_t more = *capacity ? 2 * *capacity : 8;
    a->status = es_arena_array(&a->arena, more, 1, element, "an answer", &memory, &a->err);
    if (a->status != ES_OK)
        return false;
    memcpy(&old, list, sizeof old); /* `list` is a pointer to a pointer of any type */
    if (count)
        memcpy(memory, old, (size_t)count * element);
    memcpy(list, &memory, sizeof memory);
    *capacity = more;
    return true;
}

const char *es_answer_keep(es_answer *a, const char *text)
{
    char *copy = a->status == ES_OK ? es_arena_text(&a->arena, text) : NULL;
    if (!copy && a->status == ES_OK)
        a->status = es_fail(&a->err, ES_E_MEMORY, "memory.system", "ask for less",
                            "out of memory for the answer");
    return copy;
}

/* ---- results that stand alone, and facts ---- */

/* The entry of a key: the one that is there, or a new one at the end. NULL after a failure. */
static lone *entry(es_answer *a, lone_list *list, const char *key)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i].key, key) == 0)
            return &list->at[i];
    if (!es_answer_grow(a, &list->at, list->count, &list->capacity, sizeof(lone)))
        return NULL;
    lone *l = &list->at[list->count++];
    *l = (lone){.key = es_answer_keep(a, key), .after = a->tables_count};
    return a->status == ES_OK ? l : NULL;
}

/* Numbers of any shape; counts and truth values are doubles, too. */
static void fill_numbers(es_answer *a, lone *l, lone_kind kind, int rank, const double *values,
                         int64_t rows, int64_t cols)
{
    a->status = ES_ARENA_NEW_2D(&a->arena, l->reals, rows, cols, "a result", &a->err);
    if (a->status != ES_OK)
        return;
    l->kind = kind;
    l->rank = rank;
    l->rows = rows;
    l->cols = cols;
    if (values)
        memcpy(l->reals, values, (size_t)(rows * cols) * sizeof(double));
}

/* Stores numbers outside the tables under a key. */
static void put_numbers(es_answer *a, lone_list *list, const char *key, lone_kind kind, int rank,
                        const double *values, int64_t rows, int64_t cols)
{
    lone *l = entry(a, list, key);
    if (l)
        fill_numbers(a, l, kind, rank, values, rows, cols);
}

/* Stores a text outside the tables under a key. */
static void put_text(es_answer *a, lone_list *list, const char *key, const char *text)
{
    lone *l = entry(a, list, key);
    if (l) {
        l->kind = LONE_TEXT;
        l->text = es_answer_keep(a, text);
    }
}

/* Stores a list of texts outside the tables under a key. */
static void put_texts(es_answer *a, lone_list *list, const char *key, const char *const *texts,
                      int64_t n)
{
    lone *l = entry(a, list, key);
    if (l)
        a->status = ES_ARENA_NEW(&a->arena, l->texts, n, "a list", &a->err);
    if (!l || a->status != ES_OK)
        return;
    l->kind = LONE_TEXTS;
    l->rank = 1;
    l->rows = n;
    for (int64_t i = 0; i < n; i++)
        l->texts[i] = es_answer_keep(a, texts[i]);
}

void es_answer_real(es_answer *answer, const char *key, double value)
{
    put_numbers(answer, &answer->results, key, LONE_REAL, 0, &value, 1, 1);
}

void es_answer_count(es_answer *answer, const char *key, int64_t value)
{
    put_numbers(answer, &answer->results, key, LONE_COUNT, 0, &(double){(double)value}, 1, 1);
}

void es_answer_flag(es_answer *answer, const char *key, bool value)
{
    put_numbers(answer, &answer->results, key, LONE_FLAG, 0, &(double){value}, 1, 1);
}

void es_answer_text(es_answer *answer, const char *key, const char *text)
{
    put_text(answer, &answer->results, key, text);
}

void es_answer_reals(es_answer *answer, const char *key, const double *values, int64_t n)
{
    put_numbers(answer, &answer->results, key, LONE_REAL, 1, values, n, 1);
}

void es_answer_counts(es_answer *answer, const char *key, const int64_t *values, int64_t n)
{
    put_numbers(answer, &answer->results, key, LONE_COUNT, 1, NULL, n, 1);
    lone *l = entry(answer, &answer->results, key);
    for (int64_t i = 0; l && answer->status == ES_OK && i < n; i++)
        l->reals[i] = (double)values[i];
}

void es_answer_matrix(es_answer *answer, const char *key, const double *values, int64_t rows,
                      int64_t cols)
{
    put_numbers(answer, &answer->results, key, LONE_REAL, 2, values, rows, cols);
}

void es_answer_texts(es_answer *answer, const char *key, const char *const *texts, int64_t n)
{
    put_texts(answer, &answer->results, key, texts, n);
}

const char *es_lone_text(const lone *l, char *buffer, size_t size)
{
    if (l->kind == LONE_TEXT)
        return l->text;
    if (isnan(l->reals[0]))
        return "";
    snprintf(buffer, size, "%.17g", l->reals[0]);
    return buffer;
}

bool es_answer_scalar(const es_answer *answer, int64_t at, const char **key, char *buffer,
                      size_t size, const char **text)
{
    for (int64_t i = 0; i < answer->results.count; i++) {
        const lone *l = &answer->results.at[i];
        if (l->rank > 0 || at-- > 0)
            continue;
        *key = l->key;
        *text = es_lone_text(l, buffer, size);
        return true;
    }
    return false;
}

void es_answer_provenance(es_answer *answer, const char *key, const char *text)
{
    put_text(answer, &answer->facts, key, text);
}

void es_answer_provenance_real(es_answer *answer, const char *key, double value)
{
    put_numbers(answer, &answer->facts, key, LONE_REAL, 0, &value, 1, 1);
}

void es_answer_provenance_count(es_answer *answer, const char *key, int64_t value)
{
    put_numbers(answer, &answer->facts, key, LONE_COUNT, 0, &(double){(double)value}, 1, 1);
}

void es_answer_provenance_flag(es_answer *answer, const char *key, bool value)
{
    put_numbers(answer, &answer->facts, key, LONE_FLAG, 0, &(double){value}, 1, 1);
}

void es_answer_provenance_list(es_answer *answer, const char *key, const char *const *texts,
                               int64_t n)
{
    put_texts(answer, &answer->facts, key, texts, n);
}

void es_answer_input(es_answer *answer, const char *role, const char *path, int rank,
                     const int64_t *shape, const char *dtype)
{
    if (!es_answer_grow(answer, &answer->inputs, answer->inputs_count, &answer->inputs_capacity,
                        sizeof(input)))
        return;
    input *in = &answer->inputs[answer->inputs_count++];
    *in = (input){.role = es_answer_keep(answer, role),
                  .path = es_answer_keep(answer, path),
                  .dtype = es_answer_keep(answer, dtype),
                  .rank = rank < 4 ? rank : 4};
    for (int i = 0; i < in->rank; i++)
        in->shape[i] = shape[i];
}

/* Returns the sentence with its numbers written out, however long it is: it may have paths of
 * files. 1e+06, the number that grows most, becomes 1000000. */
static const char *write_sentence(es_answer *a, const char *fmt, va_list args)
{
    va_list again;
    char *raw = NULL, *tidy = NULL;
    va_copy(again, args);
    const int size = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    const int64_t capacity = (size < 0 ? 0 : size) + (int64_t)1;
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW(&a->arena, raw, capacity, "a sentence", &a->err);
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW(&a->arena, tidy, 2 * capacity, "a sentence", &a->err);
    if (a->status != ES_OK)
        return NULL;
    *raw = '\0';
    vsnprintf(raw, (size_t)capacity, fmt, args);
    es_sentence(raw, tidy, 2 * (size_t)capacity);
    return tidy;
}

void es_answer_qualify(es_answer *answer, const char *words)
{
    answer->qualifier = words ? es_answer_keep(answer, words) : NULL;
}

/* Returns the length of "Caution: " if the finding begins with it, otherwise 0. */
static size_t caution_length(const char *finding)
{
    static const char caution[] = "Caution: ";
    return strncmp(finding, caution, strlen(caution)) == 0 ? strlen(caution) : 0;
}

/* Returns the finding with the qualifier at its beginning, after "Caution: ". */
static const char *qualify(es_answer *a, const char *finding)
{
    const size_t skip = caution_length(finding);
    const int64_t size = (int64_t)(strlen(finding) + strlen(a->qualifier) + 1);
    char *text = NULL;
    if (a->status == ES_OK)
        a->status = ES_ARENA_NEW(&a->arena, text, size, "a sentence", &a->err);
    if (a->status != ES_OK)
        return NULL;
    snprintf(text, (size_t)size, "%.*s%s%s", (int)skip, finding, a->qualifier, finding + skip);
    return text;
}

void es_answer_add_finding(es_answer *answer, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *finding = write_sentence(answer, fmt, args);
    va_end(args);
    if (finding && answer->qualifier)
        finding = qualify(answer, finding);
    if (finding && es_answer_grow(answer, &answer->findings, answer->findings_count,
                                  &answer->findings_capacity, sizeof(char *)))
        answer->findings[answer->findings_count++] = finding;
}

const char *es_answer_finding(const es_answer *answer, int64_t at)
{
    return at >= 0 && at < answer->findings_count ? answer->findings[at] : NULL;
}

bool es_answer_leads(const es_answer *answer, int64_t at)
{
    int64_t before = 0;
    for (int64_t i = 0; i < at; i++)
        before += i == 0 || caution_length(answer->findings[i]) == 0;
    return at == 0 || (before < ES_FINDINGS_FIRST && caution_length(answer->findings[at]) == 0);
}

const char *es_answer_plain(es_answer *answer, const char *text)
{
    const char *marked = es_answer_keep(answer, text);
    char *plain = answer->status == ES_OK ? es_arena_text(&answer->arena, text) : NULL;
    if (!plain || !marked)
        return marked; /* a failure that is kept, or the marks stay */
    es_lines_unmarked(plain);
    if (strcmp(plain, marked) != 0 && es_answer_marked(answer, plain) == plain &&
        es_answer_grow(answer, &answer->marked, answer->marked_count, &answer->marked_capacity,
                       sizeof(marked_text)))
        answer->marked[answer->marked_count++] = (marked_text){plain, marked};
    return plain;
}

const char *es_answer_marked(const es_answer *a, const char *text)
{
    for (int64_t i = 0; i < a->marked_count; i++)
        if (strcmp(a->marked[i].plain, text) == 0)
            return a->marked[i].marked;
    return text;
}

void es_answer_name(es_answer *answer, const char *command, int64_t seed)
{
    answer->command = es_answer_keep(answer, command);
    answer->seed = seed;
}

void es_answer_fail_check(es_answer *answer) { answer->refuted = true; }

bool es_answer_check_failed(const es_answer *answer) { return answer->refuted; }

/* ---- views ---- */

void es_writer_flush(es_writer *writer)
{
    if (!writer->failed && writer->used > 0)
        writer->failed = !writer->write(writer->user, writer->buffer, writer->used);
    writer->used = 0;
}

void es_writer_put(es_writer *writer, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        const size_t capacity = sizeof writer->buffer - writer->used,
                     part = left < capacity ? left : capacity;
        memcpy(writer->buffer + writer->used, text, part);
        writer->used += part;
        text += part;
        left -= part;
        if (writer->used == sizeof writer->buffer)
            es_writer_flush(writer);
    }
}

void es_writer_char(es_writer *writer, char c) { es_writer_put(writer, (const char[2]){c, '\0'}); }

void es_writer_format(es_writer *writer, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    es_writer_put(writer, text);
}

/* Without asking for everything. */
static bool people_see(const es_table *t)
{
    for (const es_table_view *v = t->spec->views; v && v->title; v++)
        if (!v->only_with_full)
            return t->rows > 0;
    return false;
}

/* Returns the table for CSV: the one that is named, else the first visible one with rows, else the
 * first. */
static const es_table *csv_table(const es_answer *a, const char *name)
{
    if (name)
        return es_answer_find(a, name);
    for (int64_t i = 0; i < a->tables_count; i++)
        if (people_see(a->tables[i]))
            return a->tables[i];
    return es_answer_at(a, 0);
}

es_status es_answer_write(const es_answer *answer, es_answer_form form, const es_answer_opts *opts,
                          es_write_fn write, void *user, es_error *err)
{
    const es_answer_opts plain = {0};
    es_writer writer = {.write = write, .user = user};
    opts = opts ? opts : &plain;
    ES_TRY(es_answer_status(answer, err));
    es_status status = ES_OK;
    if (form == ES_ANSWER_JSON) {
        es_answer_json_view(answer, &writer);
    } else if (form == ES_ANSWER_CSV) {
        const es_table *t = csv_table(answer, opts->table);
        if (!t)
            return es_fail(err, ES_E_ARGUMENT, "answer.table", "", "there is no table %s",
                           opts->table ? opts->table : "to print");
        ES_TRY(es_choice_check(answer, t, opts, err));
        status = es_answer_csv_view(t, opts, &writer, err);
    } else if (form == ES_ANSWER_LATEX) {
        ES_TRY(es_choice_check(answer, NULL, opts, err));
        status = es_answer_latex_view(answer, opts, &writer, err);
    } else {
        ES_TRY(es_choice_check(answer, NULL, opts, err));
        status = es_answer_text_view(answer, form == ES_ANSWER_MARKDOWN, opts, &writer, err);
    }
    es_writer_flush(&writer);
    if (status == ES_OK && writer.failed)
        return es_fail(err, ES_E_IO, "answer.write", "", "cannot write the output");
    return status;
}
