/* SPDX-License-Identifier: Apache-2.0 */
/* question.c : compares two runs of one command: which numbers differ by more than their errors,
 * after correction for the number of comparisons.
 *
 * Tables are matched by name, rows by their key columns, and every column that has a
 * standard error in both runs is compared by Welch's t; Holm's correction is for all of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "driver/job.h"
#include "stats/average.h"
#include "store/file.h"
#include "experiments/kit/answer_kit.h"
#include "experiments/kit/run_pairs.h"

/* The options. */
typedef struct compare_params {
    es_texts runs;
    double significance;
} compare_params;

static const es_param params[] = {
    {"runs", 0, ES_PARAM_FILES, "RUN", "the two run files, of the same command",
     .field = offsetof(compare_params, runs)},
    {"significance", 0, ES_PARAM_NUMBER, "P", "a number differs if its corrected p is at most this",
     .field = offsetof(compare_params, significance), .default_value = "0.05", .min = 1e-12,
     .max = 0.5},
    {0}};

/* ---- what is said ---- */

/* A parameter that differs; texts belong to the run files, which are closed before the answer. */
typedef struct parameter_row {
    const char *parameter, *first, *second;
} parameter_row;

static const es_column parameter_columns[] = {
    ES_COL(parameter_row, parameter, ES_FORMAT_TEXT, "parameter", ""),
    ES_COL(parameter_row, first, ES_FORMAT_TEXT, "first", ""),
    ES_COL(parameter_row, second, ES_FORMAT_TEXT, "second", ""),
    {0}};
static const es_table_spec parameter_table = {"parameters", parameter_columns,
                                              ES_VIEW("What was asked differently"),
                                              ES_ROW(parameter_row), .keys = "parameter"};

/* A row of the table of columns: how many of its numbers differ, and by how much. */
typedef struct quantity_row {
    const char *table, *quantity;
    int64_t figures, differ;
    double ratio, t_largest;
    const char *at;
} quantity_row;

static const es_column quantity_columns[] = {
    ES_COL(quantity_row, table, ES_FORMAT_TEXT, "table", ""),
    ES_COL(quantity_row, quantity, ES_FORMAT_TEXT, "quantity", ""),
    ES_COL(quantity_row, figures, ES_FORMAT_COUNT, "figures", "",
           "number of rows with a standard error in both runs"),
    ES_COL(quantity_row, differ, ES_FORMAT_COUNT, "differ", "",
           "how many of them differ, at --significance for all numbers together"),
    ES_COL(quantity_row, ratio, ES_FORMAT_SHORT, "ratio", "",
           "second over first, median over the rows"),
    ES_COL(quantity_row, t_largest, ES_FORMAT_SHORT, "largest t", "", "in magnitude"),
    ES_COL(quantity_row, at, ES_FORMAT_TEXT, "where", ""),
    {0}};
static const es_table_spec quantity_table = {"quantities", quantity_columns,
                                             ES_VIEW("What differs"), ES_ROW(quantity_row),
                                             .keys = "table quantity"};

/* A row of the table of differences: one number in both runs, with Welch's t. */
typedef struct difference_row {
    const char *table, *at, *quantity;
    es_measured first, second, difference;
    double t, freedom, p_alone, p;
    bool differs;
} difference_row;

static const es_column difference_columns[] = {
    ES_COL(difference_row, table, ES_FORMAT_TEXT, "table", ""),
    ES_COL(difference_row, at, ES_FORMAT_TEXT, "where", ""),
    ES_COL(difference_row, quantity, ES_FORMAT_TEXT, "quantity", ""),
    ES_COL(difference_row, first, ES_FORMAT_REAL, "first", ""),
    ES_COL(difference_row, second, ES_FORMAT_REAL, "second", ""),
    ES_COL(difference_row, difference, ES_FORMAT_REAL, "difference", "", "second - first"),
    ES_COL(difference_row, t, ES_FORMAT_SHORT, "t", "", "difference over its standard error"),
    ES_COL(difference_row, freedom, ES_FORMAT_SHORT, "freedom", "",
           "of t, by Welch and Satterthwaite from the replicates of either run; empty: none are "
           "known, and t is taken for normal"),
    ES_COL(difference_row, p_alone, ES_FORMAT_SHORT, "p alone", "",
           "of a difference as large, if there is none"),
    ES_COL(difference_row, p, ES_FORMAT_SHORT, "p", "", "corrected by Holm for all numbers"),
    ES_COL(difference_row, differs, ES_FORMAT_FLAG, "differs", ""),
    {0}};
static const es_table_spec difference_table = {
    "differences", difference_columns,
    ES_VIEW("Number by number, the largest t first",
            "table at quantity difference t p differs first second",
            "Errors are taken for those of independent runs. Where two runs draw the same numbers "
            "(one seed, one text) they are not, and a difference may be more significant than "
            "reported.",
            .only_with_full = true),
    ES_ROW(difference_row), .keys = "table at quantity"};

/* ---- two runs ---- */

/* Returns a parameter of a run; NULL if it has none of that name. */
static const char *param_of(const es_run *run, const char *key)
{
    const es_run_about about = es_run_info(run);
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, key) == 0)
            return about.params[i].text;
    return NULL;
}

/* Opens one run and reads its degrees of freedom. A run without stored descriptions of columns
 * cannot be matched. */
static es_status open_side(const char *path, es_mem_limit *budget, es_run_side *out, es_error *err)
{
    ES_TRY(es_run_open(path, &out->run, err));
    const char *replicates = param_of(out->run, "replicates");
    out->freedom = replicates ? strtod(replicates, NULL) - 1.0 : (double)NAN;
    es_answer *described;
    const es_status status = es_run_answer(out->run, "_columns", budget, &described, err);
    if (status == ES_OK)
        es_answer_free(described);
    if (status != ES_E_EMPTY)
        return status;
    return es_fail_file(err, ES_E_EMPTY, path, -1, "compare.unfinished",
                        "finish it with --resume, or compute it again with this version",
                        "the run has no tables that say which columns tell rows apart");
}

/* Opens both runs; the output must not be one of them. */
static es_status open_study(es_job *job, es_error *err)
{
    const compare_params *p = job->params;
    compare_state *s = job->state;
    if (p->runs.count != 2)
        return es_refuse(err, "compare.runs", "esscher compare A.run B.run",
                         "compare takes two run files; %lld given", (long long)p->runs.count);
    for (int i = 0; i < 2; i++) {
        if (job->out && es_file_same(job->out, p->runs.at[i]))
            return es_fail_file(err, ES_E_ARGUMENT, job->out, -1, "compare.out",
                                "give the comparison a name of its own",
                                "it would overwrite a run that is compared");
        ES_TRY(open_side(p->runs.at[i], job->exec.budget, &s->sides[i], err));
    }
    const char *a = es_run_info(s->sides[0].run).command, *b = es_run_info(s->sides[1].run).command;
    if (strcmp(a, b) != 0)
        return es_refuse(err, "compare.command", "compare runs of one command",
                         "the first run is of %s, the second of %s", a, b);
    es_answer_text(job->answer, "compared", a);
    es_answer_text(job->answer, "first", p->runs.at[0]);
    es_answer_text(job->answer, "second", p->runs.at[1]);
    return ES_OK;
}

/* Closes both runs. */
static void close_study(es_job *job)
{
    compare_state *s = job->state;
    for (int i = 0; i < 2; i++)
        es_run_close(s->sides[i].run, NULL);
}

/* ---- the answer ---- */

/* Lists the parameters that differ. Returns how many there are. */
static int64_t add_parameters(const es_job *job, es_answer *answer)
{
    const compare_state *s = job->state;
    const es_run_about a = es_run_info(s->sides[0].run), b = es_run_info(s->sides[1].run);
    es_table *t = es_answer_table(answer, &parameter_table);
    for (int which = 0; which < 2; which++) {
        const es_run_about *of = which ? &b : &a;
        for (int64_t i = 0; i < of->params_count; i++) {
            const char *first = param_of(s->sides[0].run, of->params[i].key),
                       *second = param_of(s->sides[1].run, of->params[i].key);
            if ((which && first) || (first && second && strcmp(first, second) == 0))
                continue;
            parameter_row *r = es_rows_add(t, parameter_row);
            if (!r)
                return 0;
            r->parameter = es_table_format(t, "%s", of->params[i].key);
            r->first = first ? es_table_format(t, "%s", first) : NULL;
            r->second = second ? es_table_format(t, "%s", second) : NULL;
        }
    }
    return es_table_rows(t);
}

/* Adds a row for each pair of numbers, by falling |t|. */
static es_status add_differences(const es_job *job, es_answer *answer, es_error *err)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    es_table *t = es_answer_table(answer, &difference_table);
    for (int64_t i = 0; i < s->count; i++) {
        const es_figure_pair *one = &s->pairs[i];
        difference_row *r = es_rows_add(t, difference_row);
        if (!r)
            return es_answer_status(answer, err);
        r->table = es_table_format(t, "%s", one->table);
        r->at = es_table_format(t, "%s", one->at);
        r->quantity = es_table_format(t, "%s", one->quantity);
        r->first = (es_measured){one->first.value, one->first.se};
        r->second = (es_measured){one->second.value, one->second.se};
        r->difference = (es_measured){one->second.value - one->first.value,
                                      hypot(one->first.se, one->second.se)};
        r->t = one->test.t;
        r->freedom = one->test.freedom < 1e8 ? one->test.freedom : (double)NAN;
        r->p_alone = one->test.p;
        r->p = one->p;
        r->differs = one->p <= p->significance;
    }
    return ES_OK;
}

/* Returns true for two pairs of the same column. */
static bool same_quantity(const es_figure_pair *a, const es_figure_pair *b)
{
    return strcmp(a->table, b->table) == 0 && strcmp(a->quantity, b->quantity) == 0;
}

/* Pairs stand with the largest t first, so a quantity's first pair is its largest. */
static es_status add_quantity(const es_job *job, int64_t first, es_table *t, es_error *err)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    const es_figure_pair *of = &s->pairs[first];
    int64_t figures = 0, differ = 0, ratios = 0;
    for (int64_t i = first; i < s->count; i++) {
        const es_figure_pair *one = &s->pairs[i];
        if (!same_quantity(one, of))
            continue;
        figures++;
        differ += one->p <= p->significance;
        if (one->first.value != 0.0)
            s->p[ratios++] = one->second.value / one->first.value; /* p is not needed any more */
    }
    es_sort_reals(s->p, ratios);
    quantity_row *r = es_rows_add(t, quantity_row);
    if (!r)
        return es_answer_status(job->answer, err);
    r->table = es_table_format(t, "%s", of->table);
    r->quantity = es_table_format(t, "%s", of->quantity);
    r->figures = figures;
    r->differ = differ;
    r->ratio = ratios ? es_median_of(s->p, ratios) : (double)NAN;
    r->t_largest = of->test.t;
    r->at = es_table_format(t, "%s", of->at);
    return ES_OK;
}

/* Adds a row for each column: how many of its numbers differ. */
static es_status add_quantities(const es_job *job, es_answer *answer, es_error *err)
{
    const compare_state *s = job->state;
    es_table *t = es_answer_table(answer, &quantity_table);
    for (int64_t i = 0; i < s->count; i++) {
        bool met = false;
        for (int64_t k = 0; k < i && !met; k++)
            met = same_quantity(&s->pairs[k], &s->pairs[i]);
        if (!met)
            ES_TRY(add_quantity(job, i, t, err));
    }
    return ES_OK;
}

/* Adds the findings how many numbers differ, and which differs most. */
static void report_differences(const es_job *job, es_answer *answer)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    char a[ES_SAY_SIZE], b[ES_SAY_SIZE];
    int64_t differ = 0;
    for (int64_t i = 0; i < s->count; i++)
        differ += s->pairs[i].p <= p->significance;
    if (s->count == 0) {
        char rows[80] = "";
        if (s->alone)
            snprintf(rows, sizeof rows, "; %lld rows of the first have no partner in the second",
                     (long long)s->alone);
        es_answer_add_finding(answer, "The runs have no number with an error in common%s.", rows);
        return;
    }
    const es_figure_pair *most = &s->pairs[0];
    es_answer_add_finding(answer,
                          "%lld of %lld numbers with a standard error in both runs differ (p <= "
                          "%g, corrected for all "
                          "of them).",
                          (long long)differ, (long long)s->count, p->significance);
    es_answer_add_finding(
        answer,
        "The largest difference is %.1f standard errors: %s%s%s is %s in the first run "
        "and %s in the second.",
        fabs(most->test.t), most->quantity, *most->at ? " at " : "", most->at,
        es_say_number(most->first.value, most->first.se, a),
        es_say_number(most->second.value, most->second.se, b));
    if (s->alone)
        es_answer_add_finding(answer, "%lld row%s of the first run %s no partner in the second.",
                              (long long)s->alone, s->alone == 1 ? "" : "s",
                              s->alone == 1 ? "has" : "have");
}

/* Returns true if both runs have the same value of a parameter. */
static bool asked_alike(const compare_state *s, const char *key)
{
    const char *a = param_of(s->sides[0].run, key), *b = param_of(s->sides[1].run, key);
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What the errors do not cover. */
static void report_parameters(const es_job *job, int64_t different, es_answer *answer)
{
    const compare_state *s = job->state;
    const char *seed = param_of(s->sides[0].run, "seed");
    if (different == 0)
        es_answer_add_finding(
            answer, "Both runs have the same parameters: differences are those of machine "
                    "or version.");
    else if (seed && asked_alike(s, "seed"))
        es_answer_add_finding(
            answer,
            "Caution: both runs have seed %s. Where they draw the same random numbers, their "
            "errors "
            "are dependent, and a difference may be more significant than reported.",
            seed);
    else if (seed)
        es_answer_add_finding(answer,
                              "Caution: the seeds differ. What a seed draws once for a whole run, "
                              "such as a head or the queries, is in no standard error: numbers "
                              "may differ because of it.");
    if (different && !asked_alike(s, "n"))
        es_answer_add_finding(answer,
                              "Caution: the sizes n differ. Rows at one n are compared with each "
                              "other, but findings about the largest n are about different n.");
}

/* Matches rows, tests all pairs and fills the tables. */
static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    ES_TRY(es_run_pairs(job, err));
    report_differences(job, answer);
    const int64_t different = add_parameters(job, answer);
    report_parameters(job, different, answer);
    ES_TRY(add_quantities(job, answer, err));
    ES_TRY(add_differences(job, answer, err));
    return ES_OK;
}

static const char *const examples[] = {"esscher compare alice.run moby-dick.run",
                                       "esscher compare seed0.run seed1.run --csv",
                                       "esscher report a.run b.run --compare -o both.html", NULL};

const es_study es_study_compare = {
    "compare",
    .summary = "which numbers of two runs differ by more than their errors",
    .group = ES_GROUP_RESULTS,
    .usage = "A.run B.run [options]",
    .about = "Compares two runs of one command that differ in model, text, seed or version. Every "
             "number that has a standard error in both runs is compared with its partner: the row "
             "of the same table with the same keys, such as layer, head and n. Welch's t test "
             "decides, corrected by Holm for all numbers compared: if nothing differs, 19 of 20 "
             "pairs of runs show no difference at all.\n\n"
             "Another seed may also draw another head or another sample of queries. Standard "
             "errors over replicates do not cover that, so such runs do differ.",
    .examples = examples,
    .params = params,
    .size = sizeof(compare_params),
    .operand = "runs",
    .csv = "differences",
    .state = sizeof(compare_state),
    .open = open_study,
    .summarise = summarise,
    .close = close_study};
