/* SPDX-License-Identifier: Apache-2.0 */
/* run_answer.c : an answer read back from its run file.
 *
 * The driver writes an answer (driver/keep.c) as its own tables and six that describe them:
 *
 *     _tables    one row for each table: what it is in JSON
 *     _columns   one row for each column of each view, and for each column in no view
 *     _answer    single results, as JSON
 *     _findings  sentences
 *     _formulas  texts of cells and findings that have formulas, which are marked here alone
 *     _about     whether a check failed, and the provenance, as JSON
 *
 * None of the six is required: version 0.1 wrote fewer of them, and other programs none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"
#include "table/run_reader.h"
#include "table/table.h"

/* ---- results and provenance, which the file has as JSON ---- */

/* Returns true for a number or null, which stands for NaN. */
static bool is_number(const json_t *j) { return json_is_number(j) || json_is_null(j); }

/* null stands for a number that is not there */
static double number_of(const json_t *j)
{
    return json_is_null(j) ? (double)NAN : json_number_value(j);
}

/* Reads a matrix of numbers; rows must have equal lengths. */
static es_status put_matrix(const es_run_reader *r, const char *key, const json_t *list,
                            es_error *err)
{
    const size_t rows = json_array_size(list), cols = json_array_size(json_array_get(list, 0));
    double *values;
    ES_TRY(ES_READER_NEW(r, values, (int64_t)(rows * cols), err));
    for (size_t i = 0; i < rows; i++) {
        const json_t *row = json_array_get(list, i);
        if (!json_is_array(row) || json_array_size(row) != cols)
            return es_reader_fail(err, "result", key);
        for (size_t j = 0; j < cols; j++) {
            if (!is_number(json_array_get(row, j)))
                return es_reader_fail(err, "result", key);
            values[i * cols + j] = number_of(json_array_get(row, j));
        }
    }
    es_answer_matrix(r->answer, key, values, (int64_t)rows, (int64_t)cols);
    return ES_OK;
}

/* The texts of a list; they belong to the JSON. */
static es_status take_texts(const es_run_reader *r, const char *key, const json_t *list,
                            const char *const **out, es_error *err)
{
    const size_t count = json_array_size(list);
    const char **texts;
    ES_TRY(ES_READER_NEW(r, texts, (int64_t)count, err));
    for (size_t i = 0; i < count; i++) {
        texts[i] = json_string_value(json_array_get(list, i));
        if (!texts[i])
            return es_reader_fail(err, "list", key);
    }
    *out = texts;
    return ES_OK;
}

/* Reads a list of numbers, of texts, or of lists. */
static es_status put_list(const es_run_reader *r, const char *key, const json_t *list,
                          es_error *err)
{
    const int64_t count = (int64_t)json_array_size(list);
    const json_t *first = json_array_get(list, 0);
    if (json_is_array(first))
        return put_matrix(r, key, list, err);
    if (json_is_string(first)) {
        const char *const *texts = NULL;
        ES_TRY(take_texts(r, key, list, &texts, err));
        es_answer_texts(r->answer, key, texts, count);
        return ES_OK;
    }
    double *values;
    int64_t *counts;
    ES_TRY(ES_READER_NEW(r, values, count, err));
    ES_TRY(ES_READER_NEW(r, counts, count, err));
    bool are_counts = true;
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!is_number(value))
            return es_reader_fail(err, "result", key);
        values[i] = number_of(value);
        counts[i] = json_integer_value(value);
        are_counts = are_counts && json_is_integer(value);
    }
    if (are_counts)
        es_answer_counts(r->answer, key, counts, count);
    else
        es_answer_reals(r->answer, key, values, count);
    return ES_OK;
}

/* Reads one result of the answer by its JSON type. */
static es_status put_result(const es_run_reader *r, const char *key, const json_t *value,
                            es_error *err)
{
    if (json_is_array(value))
        return put_list(r, key, value, err);
    if (json_is_string(value))
        es_answer_text(r->answer, key, json_string_value(value));
    else if (json_is_boolean(value))
        es_answer_flag(r->answer, key, json_is_true(value));
    else if (json_is_integer(value))
        es_answer_count(r->answer, key, json_integer_value(value));
    else if (is_number(value))
        es_answer_real(r->answer, key, number_of(value));
    else
        return es_reader_fail(err, "result", key);
    return ES_OK;
}

/* A result of version 0.1, which kept its text alone. */
static void put_plain_result(const es_run_reader *r, const char *key, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    const bool number = end > text && !*end && isfinite(value);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        es_answer_flag(r->answer, key, *text == 't');
    else if (number && !strpbrk(text, ".eExX") && fabs(value) < 0x1p62)
        es_answer_count(r->answer, key, (int64_t)value);
    else if (number)
        es_answer_real(r->answer, key, value);
    else
        es_answer_text(r->answer, key, text);
}

/* Parses the JSON text of one result. */
static es_status parse(const char *text, const char *key, json_t **out, es_error *err)
{
    *out = json_loads(text, JSON_DECODE_ANY, NULL);
    return *out ? ES_OK : es_reader_fail(err, "the JSON", key);
}

/* Puts the results that stand behind `after` tables; those behind the last, too, if it is that. */
static es_status put_results(const es_run_reader *r, const es_run_table *t, int64_t after,
                             bool last, es_error *err)
{
    const char *const *keys = es_reader_texts(t, "key"),
                      *const *values = es_reader_texts(t, "value"),
                      *const *jsons = es_reader_texts(t, "json");
    const double *places = es_reader_reals(t, "after");
    for (int64_t i = 0; keys && (jsons || values) && i < t->rows; i++) {
        const double place = places && places[i] > 0.0 ? places[i] : 0.0;
        json_t *value;
        if (last ? place < (double)after : place != (double)after)
            continue;
        if (!jsons) {
            put_plain_result(r, keys[i], values[i]);
            continue;
        }
        ES_TRY(parse(jsons[i], keys[i], &value, err));
        const es_status status = put_result(r, keys[i], value, err);
        json_decref(value);
        ES_TRY(status);
    }
    return es_answer_status(r->answer, err);
}

/* Reads an input file: its role, path, shape and type. */
static es_status put_input(const es_run_reader *r, const json_t *value, es_error *err)
{
    const char *role = json_string_value(json_object_get(value, "role")),
               *path = json_string_value(json_object_get(value, "path")),
               *dtype = json_string_value(json_object_get(value, "dtype"));
    const json_t *shape = json_object_get(value, "shape");
    int64_t sizes[4] = {0};
    const int rank = (int)json_array_size(shape);
    if (!role || !path || !dtype || !json_is_array(shape) || rank > 4)
        return es_reader_fail(err, "an input", "the provenance");
    for (int i = 0; i < rank; i++) {
        const double size = json_number_value(json_array_get(shape, (size_t)i));
        sizes[i] = fabs(size) < 0x1p62 ? (int64_t)size : 0;
    }
    es_answer_input(r->answer, role, path, rank, sizes, dtype);
    return ES_OK;
}

/* Reads one entry of the provenance. */
static es_status put_fact(const es_run_reader *r, const char *key, const json_t *value,
                          es_error *err)
{
    const char *const *texts = NULL;
    if (json_is_array(value)) {
        ES_TRY(take_texts(r, key, value, &texts, err));
        es_answer_provenance_list(r->answer, key, texts, (int64_t)json_array_size(value));
    } else if (json_is_string(value)) {
        es_answer_provenance(r->answer, key, json_string_value(value));
    } else if (json_is_boolean(value)) {
        es_answer_provenance_flag(r->answer, key, json_is_true(value));
    } else if (json_is_integer(value)) {
        es_answer_provenance_count(r->answer, key, json_integer_value(value));
    } else if (is_number(value)) {
        es_answer_provenance_real(r->answer, key, number_of(value));
    } else {
        return es_reader_fail(err, "fact", key);
    }
    return ES_OK;
}

bool es_command_word(const char **at, char *out, size_t size)
{
    size_t used = 0;
    bool quoted = false;
    *at += strspn(*at, " ");
    if (!**at)
        return false;
    for (; **at && (quoted || **at != ' '); ++*at) {
        const bool escaped = !quoted && **at == '\\' && (*at)[1];
        if (**at == '\'' && !escaped) {
            quoted = !quoted;
            continue;
        }
        *at += escaped;
        if (used + 1 < size)
            out[used++] = **at;
    }
    out[used] = '\0';
    return true;
}

/* The words of the last command line: the caller adds them to an answer after it was written. */
static es_status put_command(const es_run_reader *r, es_error *err)
{
    const es_run_about about = es_run_info(r->run);
    const char *line = "";
    for (int64_t i = 0; i < about.facts_count; i++)
        if (about.facts[i].session == about.facts[about.facts_count - 1].session &&
            strcmp(about.facts[i].key, "command") == 0)
            line = about.facts[i].text;
    const size_t size = strlen(line) + 1;
    char *words;
    const char **texts;
    int64_t count = 0;
    ES_TRY(ES_READER_NEW(r, words, 2 * (int64_t)size, err)); /* with their ends */
    ES_TRY(ES_READER_NEW(r, texts, (int64_t)size, err));
    for (char *at = words; es_command_word(&line, at, size); at += strlen(at) + 1)
        texts[count++] = at;
    const bool named = count && strcmp(texts[0], "esscher") == 0;
    es_answer_provenance_list(r->answer, "argv", texts + named, count - named);
    return ES_OK;
}

/* Reads the provenance, inputs last. */
static es_status put_provenance(const es_run_reader *r, json_t *facts, es_error *err)
{
    const char *key;
    json_t *value, *inputs = json_object_get(facts, "inputs");
    if (!json_is_object(facts) || (inputs && !json_is_array(inputs)))
        return es_reader_fail(err, "the JSON", "the provenance");
    if (json_object_size(facts) == 0)
        return ES_OK;
    json_object_foreach(facts, key, value)
    {
        if (value != inputs)
            ES_TRY(put_fact(r, key, value, err));
    }
    for (size_t i = 0; i < json_array_size(inputs); i++)
        ES_TRY(put_input(r, json_array_get(inputs, i), err));
    return put_command(r, err);
}

/* Reads what the run file stores about the answer: provenance, and whether a check failed. */
static es_status put_about(const es_run_reader *r, const es_run_table *t, es_error *err)
{
    const char *const *keys = es_reader_texts(t, "key"), *const *jsons = es_reader_texts(t, "json");
    for (int64_t i = 0; keys && jsons && i < t->rows; i++) {
        json_t *value;
        ES_TRY(parse(jsons[i], keys[i], &value, err));
        es_status status = ES_OK;
        if (strcmp(keys[i], "refuted") == 0 && json_is_true(value))
            es_answer_fail_check(r->answer);
        else if (strcmp(keys[i], "provenance") == 0)
            status = put_provenance(r, value, err);
        json_decref(value);
        ES_TRY(status);
    }
    return es_answer_status(r->answer, err);
}

/* ---- all of it ---- */

/* Sets command and seed of the answer from the parameters. */
static void name_answer(const es_run_reader *r)
{
    const es_run_about about = es_run_info(r->run);
    long long seed = -1;
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, "seed") == 0 && *about.params[i].text) {
            char *end;
            seed = strtoll(about.params[i].text, &end, 10);
            seed = *end ? -1 : seed;
        }
    es_answer_name(r->answer, about.command, seed);
}

/* Tables, and the results that stand between them. */
static es_status read_tables(const es_run_reader *r, const es_run_table *results, es_error *err)
{
    char(*names)[256];
    int64_t count;
    ES_TRY(es_reader_list(r, &names, &count, err));
    for (int64_t i = 0; i <= count; i++) {
        ES_TRY(put_results(r, results, i, i == count, err));
        if (i < count)
            ES_TRY(es_reader_table(r, names[i], err));
    }
    return ES_OK;
}

/* Reads the findings. */
static void put_findings(const es_run_reader *r, const es_run_table *t)
{
    const char *const *sentences = es_reader_texts(t, "sentence");
    for (int64_t i = 0; sentences && i < t->rows; i++)
        es_answer_add_finding(r->answer, "%s", sentences[i]);
}

/* Reads the texts that have marked formulas, so that pages can set them. */
static void put_formulas(const es_run_reader *r, const es_run_table *t)
{
    const char *const *texts = es_reader_texts(t, "text");
    for (int64_t i = 0; texts && i < t->rows; i++)
        (void)es_answer_plain(r->answer, texts[i]);
}

/* Everything, or everything but the tables. */
static es_status read_answer(const es_run_reader *r, bool tables, es_error *err)
{
    es_run_table about = {0}, results = {0}, findings = {0}, formulas = {0};
    es_status status = es_reader_optional(r, "_about", &about, err);
    if (status == ES_OK)
        status = es_reader_optional(r, "_answer", &results, err);
    if (status == ES_OK)
        status = es_reader_optional(r, "_findings", &findings, err);
    if (status == ES_OK)
        status = es_reader_optional(r, "_formulas", &formulas, err);
    if (status == ES_OK)
        status = put_about(r, &about, err);
    if (status == ES_OK)
        status = tables ? read_tables(r, &results, err) : put_results(r, &results, 0, true, err);
    if (status == ES_OK)
        put_findings(r, &findings);
    if (status == ES_OK)
        put_formulas(r, &formulas);
    es_run_table_free(&about);
    es_run_table_free(&results);
    es_run_table_free(&findings);
    es_run_table_free(&formulas);
    return status;
}

/* Reads the whole answer, or one table. */
static es_status read_described(es_run_reader *r, es_error *err)
{
    const bool tables = !r->only || *r->only;
    name_answer(r);
    if (tables)
        ES_TRY(es_reader_describe(r, err));
    ES_TRY(r->only && *r->only ? es_reader_table(r, r->only, err) : read_answer(r, tables, err));
    return es_answer_status(r->answer, err);
}

es_status es_run_answer(es_run *run, const char *table, es_mem_limit *budget,
                        struct es_answer **out, es_error *err)
{
    es_run_reader r = {.run = run, .budget = budget, .only = table};
    *out = NULL;
    ES_TRY(es_answer_new(budget, &r.answer, err));
    const es_status status = read_described(&r, err);
    es_run_table_free(&r.columns);
    es_run_table_free(&r.tables);
    if (status == ES_OK)
        *out = r.answer;
    else
        es_answer_free(r.answer);
    return status;
}
