/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c : runs a study from within another one. */
#include "experiments/kit/ask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <esscher/npy.h>

#include "base/error.h"
#include "base/memory.h"

enum { GIVEN_SIZE = 512, VALUE_SIZE = 4200 };

/* ---- parameters ---- */

/* Returns the value number `effort` of "quick|paper", cut off in place; one value serves both. */
static const char *choose(char *value, int effort)
{
    char *bar = strchr(value, '|');
    if (!bar)
        return value;
    *bar = '\0';
    return effort ? bar + 1 : value;
}

/* Sets the parameters of `given` one by one. */
static es_status set_params(const es_ask_spec *ask, const char *folder, es_params *to,
                            es_error *err)
{
    char words[GIVEN_SIZE], value[VALUE_SIZE], *rest = words;
    snprintf(words, sizeof words, "%s", ask->given);
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals) {
            ES_TRY(es_params_set(to, word, NULL, err));
            continue;
        }
        *equals = '\0';
        const char *text = choose(equals + 1, ask->effort);
        const char *stands = text[0] == '@' ? folder : text[0] == '%' ? ask->model : NULL;
        snprintf(value, sizeof value, "%s%s", stands ? stands : "", text + (stands != NULL));
        ES_TRY(es_params_set(to, word, value, err));
    }
    return ES_OK;
}

const char *es_ask_value(const es_ask_spec *ask, const char *name, char out[ES_ASK_SIZE])
{
    const size_t length = strlen(name);
    char words[GIVEN_SIZE], *rest = words;
    snprintf(words, sizeof words, "%s", ask->given);
    out[0] = '\0';
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (strncmp(word, name, length) == 0 && word[length] == '=')
            snprintf(out, ES_ASK_SIZE, "%s", choose(word + length + 1, ask->effort));
    return out;
}

/* ---- inputs ---- */

es_status es_ask_write(const char *folder, const char *name, int rank, const int64_t *shape,
                       const double *data, es_error *err)
{
    char path[VALUE_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return es_npy_save(path, ES_F64, rank, shape, data, false, err);
}

es_status es_ask_write_rows(const char *folder, const char *name, es_ask_draw draw,
                            const es_address *at, int64_t rows, int64_t cols, es_mem_limit *budget,
                            es_error *err)
{
    double *x;
    ES_TRY(ES_MEM_NEW_2D(budget, x, rows, cols, name, err));
    es_status status = draw(at, rows, cols, x, err);
    if (status == ES_OK)
        status = es_ask_write(folder, name, 2, (int64_t[]){rows, cols}, x, err);
    es_mem_free(budget, x);
    return status;
}

/* ---- the run ---- */

/* Passes a request to stop from the caller's progress function to the study. */
static bool ask_to_stop(void *user, const es_progress *now)
{
    const es_exec *exec = user;
    return exec->progress && exec->progress(exec->progress_user, now->share, 1.0);
}

/* Runs the study with its parameters set. */
static es_status run(const es_ask_spec *ask, const char *folder, es_answer **answer, es_error *err)
{
    const es_study *study = es_study_find(ask->study);
    es_exec exec = ask->exec ? *ask->exec : (es_exec){0};
    const es_study_opts opts = {
        .seed = ask->seed,
        .exec = {.threads = exec.threads, .isa = exec.isa, .budget = exec.budget},
        .progress = ask_to_stop,
        .user = &exec};
    es_params *params = NULL;
    ES_TRY(es_params_new(study->params, study->size, &params, err));
    es_status status = set_params(ask, folder, params, err);
    if (status == ES_OK)
        status = es_study_run(study, params, &opts, answer, err);
    es_params_free(params);
    return status;
}

/* Removes the folder and the files that inputs may have written to it. */
static void remove_folder(const char *folder)
{
    static const char *const names[] = {"a.npy", "b.npy", "c.npy", "a.csv", "a.txt", "b.txt"};
    char path[VALUE_SIZE];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

es_status es_ask_run(const es_ask_spec *ask, es_answer **answer, es_error *err)
{
    const char *wanted = getenv("TMPDIR"), *base = wanted && *wanted ? wanted : "/tmp";
    char folder[4100] = "";
    *answer = NULL;
    if (!ask->input)
        return run(ask, folder, answer, err);
    snprintf(folder, sizeof folder, "%s/esscher-ask-XXXXXX", base);
    if (!mkdtemp(folder))
        return es_fail(err, ES_E_IO, "ask.folder", "set TMPDIR",
                       "no temporary folder can be made in %s", base);
    es_status status = ask->input(ask->user, folder, ask->seed, err);
    if (status == ES_OK)
        status = run(ask, folder, answer, err);
    remove_folder(folder);
    return status;
}

/* ---- the answer ---- */

es_status es_ask_table(const es_answer *answer, const char *table, const char *key,
                       const es_table **out, es_error *err)
{
    es_table_column column;
    *out = es_answer_find(answer, table);
    if (*out && es_table_find(*out, key, &column))
        return ES_OK;
    return es_fail(err, ES_E_ARGUMENT, "ask.column", "the list of rows is wrong",
                   "the answer has no column %s of %s", key, table);
}

es_measured es_ask_number(const es_table *table, int64_t row, const char *key)
{
    es_table_column column;
    if (!es_table_find(table, key, &column))
        return (es_measured){(double)NAN, (double)NAN};
    return (es_measured){es_table_get(table, row, key),
                         column.error ? es_table_get(table, row, column.error) : (double)NAN};
}
