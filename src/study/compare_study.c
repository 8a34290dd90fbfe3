/* compare_study.c : two runs of one command side by side: which of their figures differ by more
 * than their errors, where so many are looked at.
 *
 * Tables are matched by name, rows by the columns that tell them apart, and every column that has a
 * standard error in both runs is compared by Welch's t; Holm's correction is for all of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <esscher/multiple.h>
#include <esscher/run.h>

#include "base/error.h"
#include "driver/job.h"
#include "stats/average.h"
#include "study/answer_kit.h"

typedef struct compare_params {
    es_texts runs;
    double significance;
} compare_params;

static const es_param params[] = {
    {"runs", 0, ES_PARAM_FILES, "RUN", "run files of one command: two of them",
     .field = offsetof(compare_params, runs)},
    {"significance", 0, ES_PARAM_NUMBER, "P", "a figure differs if its corrected p is at most this",
     .field = offsetof(compare_params, significance), .standard = "0.05", .min = 1e-12, .max = 0.5},
    {0}};

/* ---- what is said ---- */

static const es_column parameter_columns[] = {{"parameter", "parameter", "", ES_FORMAT_TEXT},
                                              {"first", "first", "", ES_FORMAT_TEXT},
                                              {"second", "second", "", ES_FORMAT_TEXT},
                                              {0}};
static const es_table_spec parameter_table = {
    "parameters", parameter_columns, ES_VIEW("What was asked differently"), .keys = "parameter"};

static const es_column quantity_columns[] = {
    {"table", "table", "", ES_FORMAT_TEXT},
    {"quantity", "quantity", "", ES_FORMAT_TEXT},
    {"figures", "figures", "", ES_FORMAT_COUNT, "rows that both runs have, with errors"},
    {"differ", "differ", "", ES_FORMAT_COUNT,
     "of them, at --significance for all figures together"},
    {"ratio", "ratio", "", ES_FORMAT_SHORT, "second over first, median over the rows"},
    {"t_largest", "largest t", "", ES_FORMAT_SHORT, "in magnitude"},
    {"at", "where", "", ES_FORMAT_TEXT},
    {0}};
static const es_table_spec quantity_table = {"quantities", quantity_columns,
                                             ES_VIEW("What differs"), .keys = "table quantity"};

static const es_column difference_columns[] = {
    {"table", "table", "", ES_FORMAT_TEXT},
    {"at", "where", "", ES_FORMAT_TEXT},
    {"quantity", "quantity", "", ES_FORMAT_TEXT},
    {"first", "first", "", ES_FORMAT_REAL, .error = "first_se"},
    {"second", "second", "", ES_FORMAT_REAL, .error = "second_se"},
    {"difference", "difference", "", ES_FORMAT_REAL, "second - first", .error = "difference_se"},
    {"t", "t", "", ES_FORMAT_SHORT, "difference over its standard error"},
    {"freedom", "freedom", "", ES_FORMAT_SHORT,
     "of t, by Welch and Satterthwaite from the replicates of either run; empty: none are known, "
     "and t is taken for normal"},
    {"p_alone", "p alone", "", ES_FORMAT_SHORT, "of a difference as large, if there is none"},
    {"p", "p", "", ES_FORMAT_SHORT, "corrected by Holm for all figures"},
    {"differs", "differs", "", ES_FORMAT_FLAG},
    {0}};
static const es_table_spec difference_table = {
    "differences", difference_columns,
    ES_VIEW("Figure by figure, the largest t first",
            "table at quantity difference t p differs first second",
            "Errors are taken for those of independent runs. Where two runs draw the same numbers "
            "(one seed, one text) they are not, and a difference may be surer than said.",
            .more = true),
    .keys = "table at quantity"};

/* ---- two runs ---- */

typedef struct side {
    es_run *run;
    es_run_table said; /* "_columns" */
    double freedom;    /* of a standard error; NaN: unknown */
} side;

enum { PLACE = 160 };

/* One figure of both. */
typedef struct pair {
    const char *table, *at, *quantity; /* the job's */
    es_grouped first, second;
    es_welch_test test;
    double p;      /* corrected */
    int64_t found; /* in this order: that of equal t */
} pair;

typedef struct compare_state {
    side sides[2];
    pair *pairs;
    double *p;
    int64_t count, room;
    int64_t alone; /* rows without a partner */
} compare_state;

static const char *param_of(const es_run *run, const char *key)
{
    const es_run_about about = es_run_info(run);
    for (int64_t i = 0; i < about.params_count; i++)
        if (strcmp(about.params[i].key, key) == 0)
            return about.params[i].text;
    return NULL;
}

static es_status open_side(const char *path, es_budget *budget, side *out, es_error *err)
{
    ES_TRY(es_run_open(path, &out->run, err));
    const char *replicates = param_of(out->run, "replicates");
    out->freedom = replicates ? strtod(replicates, NULL) - 1.0 : (double)NAN;
    const es_status status = es_run_get_table(out->run, "_columns", budget, &out->said, err);
    if (status != ES_E_EMPTY)
        return status;
    out->said = (es_run_table){0};
    return es_fail_file(err, ES_E_EMPTY, path, -1, "compare.unfinished",
                        "finish it with --resume, or compute it again with this version",
                        "the run has no tables that say which columns tell rows apart");
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static es_status open_study(es_job *job, es_error *err)
{
    const compare_params *p = job->params;
    compare_state *s = job->state;
    if (p->runs.count != 2)
        return es_refuse(err, "compare.runs", "esscher compare A.run B.run",
                         "two run files are compared, and %lld are named",
                         (long long)p->runs.count);
    for (int i = 0; i < 2; i++) {
        if (job->out && same_file(job->out, p->runs.at[i]))
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

static void close_study(es_job *job)
{
    compare_state *s = job->state;
    for (int i = 0; i < 2; i++) {
        es_run_table_free(&s->sides[i].said);
        es_run_close(s->sides[i].run, NULL);
    }
}

/* ---- columns ---- */

/* A table of both runs; keys are columns of the same name and kind in both. */
typedef struct matched {
    const es_run_table *a, *b;
    const es_run_column **keys_a, **keys_b; /* (keys) */
    int64_t keys;
    struct place *places; /* (rows of b) */
} matched;

static es_status match_keys(es_job *job, const side *s, matched *m, es_error *err)
{
    ES_TRY(es_job_array(job, m->a->cols, 1, sizeof *m->keys_a, &m->keys_a, err));
    ES_TRY(es_job_array(job, m->a->cols, 1, sizeof *m->keys_b, &m->keys_b, err));
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
    ES_TRY(es_job_array(job, m->b->rows, 1, sizeof *m->places, &m->places, err));
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
    char text[PLACE] = "";
    size_t used = 0;
    for (int64_t j = 0; j < m->keys && used < PLACE; j++) {
        const es_run_column *c = m->keys_a[j];
        used += (size_t)snprintf(text + used, PLACE - used, "%s%s=", j ? " " : "", c->name);
        if (used < PLACE && c->kind == ES_RUN_TEXT)
            used += (size_t)snprintf(text + used, PLACE - used, "%s", c->texts[row]);
        else if (used < PLACE)
            used += (size_t)snprintf(text + used, PLACE - used, "%.6g", c->reals[row]);
    }
    return keep(job, text, out, err);
}

/* ---- figures ---- */

static es_status add_pair(es_job *job, const pair *one, es_error *err)
{
    compare_state *s = job->state;
    if (s->count == s->room) {
        pair *more;
        const int64_t room = s->room ? 2 * s->room : 256;
        ES_TRY(es_job_array(job, room, 1, sizeof *more, &more, err));
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
        pair one = {.table = table,
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
    const pair *first = a, *second = b;
    const double x = fabs(first->test.t), y = fabs(second->test.t);
    return x != y ? (x < y) - (x > y)
                  : (first->found > second->found) - (first->found < second->found);
}

/* Holm for all; then the largest t first. */
static es_status correct(es_job *job, es_error *err)
{
    compare_state *s = job->state;
    ES_TRY(es_job_array(job, s->count, 1, sizeof *s->p, &s->p, err));
    for (int64_t i = 0; i < s->count; i++)
        s->p[i] = s->pairs[i].test.p;
    ES_TRY(es_holm(s->p, s->count, s->p, err));
    for (int64_t i = 0; i < s->count; i++)
        s->pairs[i].p = s->p[i];
    if (s->count)
        qsort(s->pairs, (size_t)s->count, sizeof *s->pairs, by_t);
    return ES_OK;
}

/* ---- the answer ---- */

static int64_t put_parameters(const es_job *job, es_answer *answer)
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
            const int64_t row = es_table_row(t);
            es_table_text(t, row, "parameter", of->params[i].key);
            es_table_text(t, row, "first", first);
            es_table_text(t, row, "second", second);
        }
    }
    return es_table_rows(t);
}

static void put_differences(const es_job *job, es_answer *answer)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    es_table *t = es_answer_table(answer, &difference_table);
    for (int64_t i = 0; i < s->count; i++) {
        const pair *one = &s->pairs[i];
        const int64_t row = es_table_row(t);
        const double freedom = one->test.freedom;
        es_table_text(t, row, "table", one->table);
        es_table_text(t, row, "at", one->at);
        es_table_text(t, row, "quantity", one->quantity);
        es_put(t, row, {"first", one->first.value}, {"first_se", one->first.se},
               {"second", one->second.value}, {"second_se", one->second.se},
               {"difference", one->second.value - one->first.value},
               {"difference_se", hypot(one->first.se, one->second.se)}, {"t", one->test.t},
               {"freedom", freedom < 1e8 ? freedom : (double)NAN}, {"p_alone", one->test.p},
               {"p", one->p}, {"differs", one->p <= p->significance});
    }
}

static bool same_quantity(const pair *a, const pair *b)
{
    return strcmp(a->table, b->table) == 0 && strcmp(a->quantity, b->quantity) == 0;
}

/* Pairs stand with the largest t first, so a quantity's first pair is its largest. */
static void put_quantity(const es_job *job, int64_t first, es_table *t)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    const pair *of = &s->pairs[first];
    int64_t figures = 0, differ = 0, ratios = 0;
    for (int64_t i = first; i < s->count; i++) {
        const pair *one = &s->pairs[i];
        if (!same_quantity(one, of))
            continue;
        figures++;
        differ += one->p <= p->significance;
        if (one->first.value != 0.0)
            s->p[ratios++] = one->second.value / one->first.value; /* p is not needed any more */
    }
    es_sort_reals(s->p, ratios);
    const int64_t row = es_table_row(t);
    es_table_text(t, row, "table", of->table);
    es_table_text(t, row, "quantity", of->quantity);
    es_put(t, row, {"figures", (double)figures}, {"differ", (double)differ},
           {"ratio", ratios ? es_median_of(s->p, ratios) : (double)NAN}, {"t_largest", of->test.t});
    es_table_text(t, row, "at", of->at);
}

static void put_quantities(const es_job *job, es_answer *answer)
{
    const compare_state *s = job->state;
    es_table *t = es_answer_table(answer, &quantity_table);
    for (int64_t i = 0; i < s->count; i++) {
        bool met = false;
        for (int64_t k = 0; k < i && !met; k++)
            met = same_quantity(&s->pairs[k], &s->pairs[i]);
        if (!met)
            put_quantity(job, i, t);
    }
}

static void tell_differences(const es_job *job, es_answer *answer)
{
    const compare_params *p = job->params;
    const compare_state *s = job->state;
    char a[ES_SAY_ROOM], b[ES_SAY_ROOM];
    int64_t differ = 0;
    for (int64_t i = 0; i < s->count; i++)
        differ += s->pairs[i].p <= p->significance;
    if (s->count == 0) {
        es_answer_tell(answer,
                       "The runs have no figure with an error in common: %lld rows of the "
                       "first have no partner in the second.",
                       (long long)s->alone);
        return;
    }
    const pair *most = &s->pairs[0];
    es_answer_tell(answer,
                   "Of %lld figures that both runs have with errors %lld differ, at a level of %g "
                   "for all together.",
                   (long long)s->count, (long long)differ, p->significance);
    es_answer_tell(answer,
                   "The largest difference is %.1f standard errors: %s%s%s is %s in the first run "
                   "and %s in the second.",
                   fabs(most->test.t), most->quantity, *most->at ? " at " : "", most->at,
                   es_say_number(most->first.value, most->first.se, a),
                   es_say_number(most->second.value, most->second.se, b));
    if (s->alone)
        es_answer_tell(answer, "%lld rows of the first run have no partner in the second.",
                       (long long)s->alone);
}

static void tell_parameters(const es_job *job, int64_t different, es_answer *answer)
{
    const compare_state *s = job->state;
    const char *a = param_of(s->sides[0].run, "seed"), *b = param_of(s->sides[1].run, "seed");
    if (different == 0)
        es_answer_tell(answer, "Both runs were asked for the same: they are one experiment, and "
                               "differences are those of machine or version.");
    else if (a && b && strcmp(a, b) == 0)
        es_answer_tell(answer,
                       "Caution: both runs have seed %s. Where they draw the same numbers "
                       "their errors are dependent, and a difference may be surer than "
                       "said.",
                       a);
}

static es_status summarise(es_job *job, es_answer *answer, es_error *err)
{
    ES_TRY(compare_all(job, err));
    ES_TRY(correct(job, err));
    tell_differences(job, answer);
    const int64_t different = put_parameters(job, answer);
    tell_parameters(job, different, answer);
    put_quantities(job, answer);
    put_differences(job, answer);
    return ES_OK;
}

static const char *const examples[] = {"esscher compare alice.run moby-dick.run",
                                       "esscher compare seed0.run seed1.run --csv",
                                       "esscher report a.run b.run --compare -o both.html", NULL};

const es_study es_study_compare = {
    "compare",
    .summary = "two runs side by side: which figures differ by more than their errors",
    .usage = "A.run B.run [options]",
    .about = "Takes two runs of one command, of two models, texts, seeds or versions, and sets "
             "every figure that has a standard error in both beside its partner: the row of the "
             "same table with the same layer, head, n or whatever tells its rows apart. A "
             "difference is called one by Welch's t, corrected by Holm for all figures that are "
             "looked at: where nothing differs, 19 of 20 comparisons find nothing at all. "
             "(Another seed may also draw another head or another sample of queries: errors over "
             "replicates do not cover that, and such runs do differ.)",
    .examples = examples,
    .params = params,
    .size = sizeof(compare_params),
    .operand = "runs",
    .csv = "differences",
    .state = sizeof(compare_state),
    .open = open_study,
    .summarise = summarise,
    .close = close_study};
