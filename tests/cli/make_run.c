/* SPDX-License-Identifier: Apache-2.0 */
/* make_run FILE SEED [CELLS [twins]] : a run file for the tests of the program: a stage with CELLS
 * cells, and the tables "fits" and "rows" unless there are fewer than three; with `twins` also
 * tables and columns whose names SQL does not tell apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/run.h"

static es_error err;

static es_status put_tables(es_run *run)
{
    static const double n[3] = {1000, 2000, 4000}, error[3] = {0.1, NAN, 1.0 / 3.0};
    static const char *const laws[3] = {"gaussian", "a,\"b\"\nc", "\xff"};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"mean_error", ES_RUN_REAL, error, NULL},
                                     {"law", ES_RUN_TEXT, NULL, laws}};
    const es_run_table rows = {.name = "rows", .rows = 3, .cols = 3, .columns = columns};
    const es_run_table fits = {.name = "fits", .rows = 0, .cols = 2, .columns = columns};
    const es_status status = es_run_put_table(run, &rows, &err);
    return status == ES_OK ? es_run_put_table(run, &fits, &err) : status;
}

static es_status put_twins(es_run *run)
{
    static const double n[2] = {1, 2};
    const es_run_column columns[] = {{"n", ES_RUN_REAL, n, NULL},
                                     {"n_2", ES_RUN_REAL, n, NULL},
                                     {"N", ES_RUN_REAL, n, NULL},
                                     {"N_2", ES_RUN_REAL, n, NULL}};
    static const char *const names[] = {"Rows", "_run", "ROWS"};
    es_status status = ES_OK;
    for (int i = 0; i < 3 && status == ES_OK; i++) {
        const es_run_table twins = {.name = names[i], .rows = 2, .cols = 4, .columns = columns};
        status = es_run_put_table(run, &twins, &err);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const char *const columns[] = {"mean", "se"};
    const es_run_pair params[] = {{"seed", argc > 2 ? argv[2] : "0"}, {"n", "1000,2000,4000"}};
    const es_run_pair facts[] = {{"version", es_version()}, {"cpu", "some \"CPU\""}};
    const es_run_spec spec = {"converge", params, 2, facts, 2};
    const int64_t cells = argc > 3 ? strtoll(argv[3], NULL, 10) : 3;
    es_run *run = NULL;
    int64_t stage;
    if (argc < 3)
        return 2;
    es_status status = es_run_create(argv[1], &spec, true, &run, &err);
    if (status == ES_OK)
        status = es_run_add_stage(run, "error", 1, 2, columns, &stage, &err);
    for (int64_t i = 0; status == ES_OK && i < cells; i++)
        status = es_run_put_cell(run, stage, i, (double[]){1.0, 2.0}, &err);
    if (status == ES_OK && cells >= 3)
        status = put_tables(run);
    if (status == ES_OK && argc > 4 && strcmp(argv[4], "twins") == 0)
        status = put_twins(run);
    if (es_run_close(run, NULL) != ES_OK || status != ES_OK) {
        fprintf(stderr, "make_run: %s\n", err.message);
        return 1;
    }
    return 0;
}
