/* SPDX-License-Identifier: Apache-2.0 */
/* test_driver.c : the one loop over cells, on a study small enough to know every number of. */
#include "testing.h"

#include <math.h>
#include <stdlib.h>

#include <esscher/run.h>
#include <esscher/study.h>

#include "base/executor.h"
#include "driver/job.h"
#include "folder.h"
#include "policy/policy.h"

/* ---- a study: cell i of `squares` is i^2 + seed, of `sums` the sum of the squares up to i ---- */

typedef struct small_params {
    int64_t cells, fail_at;
    double factor;
    es_grid grid;
    int colour;
    bool loud, alone;
    const char *file;
    es_texts words;
} small_params;

static const char *const colours[] = {"red", "green", NULL};
static const es_param params[] = {
    {"cells", 'c', ES_PARAM_WHOLE, "N", "how many", .field = offsetof(small_params, cells),
     .default_value = "6", .min = 0, .max = 100},
    {"fail-at", 0, ES_PARAM_WHOLE, "N", "cell that fails", .field = offsetof(small_params, fail_at),
     .default_value = "-1", .min = -1, .max = 100, .not_in_fingerprint = true},
    {"factor", 0, ES_PARAM_NUMBER, "X", "factor", .field = offsetof(small_params, factor), .min = 0,
     .max = 10, .alias = "f", .renamed_from = "times"},
    {"grid", 0, ES_PARAM_COUNTS, "GRID", "a grid", .field = offsetof(small_params, grid),
     .default_value = "1..100*3", .min = 1, .max = 1000, .increasing = true},
    {"colour", 0, ES_PARAM_CHOICE, "C", "a colour", .field = offsetof(small_params, colour),
     .choices = colours},
    {"loud", 0, ES_PARAM_FLAG, NULL, "loud", .field = offsetof(small_params, loud)},
    {"alone", 0, ES_PARAM_FLAG, NULL, "side by side", .field = offsetof(small_params, alone),
     .not_in_fingerprint = true},
    {"file", 0, ES_PARAM_FILE, "FILE", "a file", .field = offsetof(small_params, file)},
    {"words", 0, ES_PARAM_TEXTS, "W", "words", .field = offsetof(small_params, words)},
    {0}};

static int computed; /* cells that were computed, over all runs of a test */

static es_status square(es_job *job, int64_t cell, const es_exec *exec, void *record, es_error *e)
{
    double *out = record;
    const small_params *p = job->params;
    (void)exec;
    if (cell == p->fail_at) {
        if (e)
            *e = (es_error){.code = ES_E_NUMERIC, .message = "as asked"};
        return ES_E_NUMERIC;
    }
    __atomic_add_fetch(&computed, 1, __ATOMIC_RELAXED);
    out[0] = (double)(cell * cell) + (double)job->seed;
    out[1] = (double)cell;
    return ES_OK;
}

static es_status sum(es_job *job, int64_t cell, const es_exec *exec, void *record, es_error *e)
{
    double *out = record;
    (void)exec;
    (void)e;
    __atomic_add_fetch(&computed, 1, __ATOMIC_RELAXED);
    out[0] = 0.0;
    for (int64_t i = 0; i <= cell; i++) /* of a stage that is finished */
        out[0] += es_job_numbers(job, 0, i)[0];
    return ES_OK;
}

static const char *const square_columns[] = {"square", "number"}, *const sum_columns[] = {"sum"};

static es_status open_small(es_job *job, es_error *e)
{
    const small_params *p = job->params;
    const es_stage squares = {.name = "squares",
                              .phase = "squaring",
                              .noun = "squares",
                              .cells = p->cells,
                              .rows = 1,
                              .cols = 2,
                              .columns = square_columns,
                              .one_thread_per_cell = p->alone,
                              .flops = 3.0,
                              .run = square};
    const es_stage sums = {.name = "sums",
                           .phase = "summing",
                           .noun = "sums",
                           .cells = p->cells,
                           .rows = 1,
                           .cols = 1,
                           .columns = sum_columns,
                           .flops = 1.0,
                           .run = sum};
    const es_status status = es_job_stage(job, &squares, e);
    return status == ES_OK ? es_job_stage(job, &sums, e) : status;
}

static es_status cost_small(es_job *job, es_cost *out, es_error *e)
{
    const small_params *p = job->params;
    (void)e;
    *out = (es_cost){.flops = 4.0 * (double)p->cells,
                     .work_bytes = 1 << 20,
                     .thread_bytes = 1 << 16,
                     .output_bytes = 100};
    return ES_OK;
}

static const es_column columns[] = {
    {"cell", "cell", "", ES_FORMAT_COUNT}, {"sum", "sum", "", ES_FORMAT_REAL, "of squares"}, {0}};
static const es_table_view views[] = {{"Sums"}, {0}};
static const es_table_spec table = {"rows", columns, views};

static es_status summarise(es_job *job, es_answer *a, es_error *e)
{
    const small_params *p = job->params;
    (void)e;
    es_table *t = es_answer_table(a, &table);
    for (int64_t i = 0; i < p->cells; i++) {
        es_table_count(t, es_table_row(t), "cell", i);
        es_table_real(t, i, "sum", es_job_numbers(job, 1, i)[0]);
    }
    es_answer_add_finding(a, "%lld cells.", (long long)p->cells);
    return ES_OK;
}

static const es_study small = {.name = "small",
                               .params = params,
                               .size = sizeof(small_params),
                               .takes = ES_TAKES_SEED,
                               .open = open_small,
                               .cost = cost_small,
                               .summarise = summarise};

/* ---- running it ---- */

typedef struct watcher {
    int calls, stop_at; /* calls of progress; the one that asks to stop, 0: none */
    double last;        /* share: never falls */
    bool fell, beyond;
    char phases[256]; /* names, each once, in order */
} watcher;

static bool watch(void *user, const es_progress *now)
{
    watcher *w = user;
    w->fell = w->fell || now->share < w->last - 1e-12;
    w->beyond = w->beyond || now->share > 1.0 || now->phase_share > 1.0;
    w->last = now->share;
    if (!strstr(w->phases, now->phase))
        snprintf(w->phases + strlen(w->phases), sizeof w->phases - strlen(w->phases), "%s;",
                 now->phase);
    return ++w->calls == w->stop_at;
}

static es_status run_with(const char *const *settings, es_study_opts opts, es_answer **answer)
{
    es_params *p;
    assert_ok(es_params_new(params, sizeof(small_params), &p, &err));
    for (; settings && *settings; settings += 2)
        assert_ok(es_params_set(p, settings[0], settings[1], &err));
    const es_status status = es_study_run(&small, p, &opts, answer, &err);
    es_params_free(p);
    return status;
}

static void check_sums(const es_answer *a, int64_t cells, double seed)
{
    double expected = 0.0;
    const es_table *t = es_answer_find(a, "rows");
    assert_int_equal(es_table_rows(t), cells);
    for (int64_t i = 0; i < cells; i++) {
        expected += (double)(i * i) + seed;
        assert_equals(es_table_get(t, i, "sum"), expected);
    }
}

static void stages_follow_one_another(void **state)
{
    (void)state;
    es_answer *a;
    watcher w = {0};
    const es_study_opts opts = {.seed = 5, .progress = watch, .user = &w};
    computed = 0;
    assert_ok(run_with(NULL, opts, &a));
    check_sums(a, 6, 5.0);
    assert_int_equal(computed, 12);
    assert_string_equal(w.phases, "reading inputs;preparing;squaring;summing;summing up;");
    assert_false(w.fell);
    assert_false(w.beyond);
    assert_equals(w.last, 1.0);
    assert_string_equal(es_answer_finding(a, 0), "6 cells.");
    es_answer_free(a);
    static const char *const none[] = {"cells", "0", NULL};
    assert_ok(run_with(none, opts, &a));
    assert_int_equal(es_table_rows(es_answer_find(a, "rows")), 0);
    es_answer_free(a);
}

/* ---- shares of work that was foreseen, or not ---- */

static double third_is_long(const es_job *job, int64_t cell)
{
    (void)job;
    return cell == 2 ? 7.0 : 1.0;
}

/* Says after the fact that preparing takes ten times as much as all that was foreseen. */
static es_status begin_long(es_job *job, es_error *e)
{
    (void)e;
    job->stages[1].weight = third_is_long;
    es_job_phase(job, "preparing a lot", 240.0);
    for (int i = 1; i <= 4; i++)
        if (job->exec.progress(job->exec.progress_user, i, 4.0))
            return ES_E_INTERRUPTED;
    return ES_OK;
}

/* Shares at which a phase begins, and those of "summing" after each cell. */
typedef struct ledger {
    watcher w;
    double begins[4], sums[8];
    int begun, summed;
    double kept;
} ledger;

static bool note(void *user, const es_progress *now)
{
    ledger *l = user;
    const bool fresh = !strstr(l->w.phases, now->phase);
    watch(&l->w, now);
    if (fresh && l->w.calls > 2)
        l->begins[l->begun++ % 4] = now->share;
    if (!strcmp(now->phase, "summing"))
        l->sums[l->summed++ % 8] = now->share;
    l->kept = now->kept;
    return false;
}

static void shares_never_fall_and_count_work(void **state)
{
    (void)state;
    es_study late = small;
    es_params *p;
    es_answer *a;
    ledger l = {0};
    char run[512];
    snprintf(run, sizeof run, "%s", in_folder("shares.run"));
    late.begin = begin_long;
    assert_ok(es_params_new(params, sizeof(small_params), &p, &err));
    es_study_opts opts = {.progress = note, .user = &l, .out = run};
    assert_ok(es_study_run(&late, p, &opts, &a, &err));
    es_answer_free(a);
    assert_false(l.w.fell);
    assert_false(l.w.beyond);
    assert_equals(l.w.last, 1.0);
    assert_equals(l.kept, 0.0);
    /* 18 operations are squares, 6 are sums; a hundredth is left for the summary, and 240 come as a
     * surprise; sums weigh 1, 1, 7, 1, 1, 1 */
    assert_near(l.begins[1], 240.0 / 264.24, 1e-12);
    assert_near(l.begins[2], 258.0 / 264.24, 1e-12);
    assert_near(l.sums[3], (258.0 + 9.0 / 12.0 * 6.0) / 264.24, 1e-12);
    assert_near(l.sums[6], 264.0 / 264.24, 1e-12);
    assert_string_equal(l.w.phases,
                        "reading inputs;preparing;preparing a lot;squaring;summing;summing up;");
    /* the same without a surprise: squares end at 18/24 of 100/101 */
    ledger plain = {0};
    opts = (es_study_opts){.progress = note, .user = &plain};
    assert_ok(es_study_run(&small, p, &opts, &a, &err));
    es_answer_free(a);
    assert_near(plain.sums[0], 18.0 / 24.24, 1e-12);
    assert_near(plain.sums[6], 24.0 / 24.24, 1e-12);
    /* all of it is there: nothing took time, and all of it is said to be kept */
    ledger again = {0};
    opts = (es_study_opts){.progress = note, .user = &again, .out = run, .resume = true};
    assert_ok(es_study_run(&small, p, &opts, &a, &err));
    es_answer_free(a);
    assert_near(again.kept, 24.0 / 24.24, 1e-12);
    es_params_free(p);
}

/* Stopped at every possible moment, with cells one after the other and side by side: what was
 * finished is not computed again, and the end is the same. */
static void an_interrupted_run_goes_on(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++)
        for (int stop = 1;; stop++) {
            const char *const settings[] = {"alone", side ? "yes" : "no", NULL};
            es_answer *a;
            watcher w = {.stop_at = stop};
            es_study_opts opts = {.seed = 1,
                                  .progress = watch,
                                  .user = &w,
                                  .exec = {.threads = 2},
                                  .out = in_folder("x.run"),
                                  .force = true};
            computed = 0;
            const es_status status = run_with(settings, opts, &a);
            if (status == ES_OK) {
                es_answer_free(a);
                assert_above(stop, 12);
                break;
            }
            assert_int_equal(status, ES_E_INTERRUPTED);
            assert_string_equal(err.rule, "run.interrupted");
            assert_string_equal(err.hint, "repeat the command with --resume to continue");
            opts.progress = NULL;
            opts.force = false;
            opts.resume = true;
            assert_ok(run_with(settings, opts, &a));
            check_sums(a, 6, 1.0);
            assert_int_equal(computed, 12); /* each cell once, over both starts */
            es_answer_free(a);
        }
}

static void a_failing_cell_ends_the_run_and_the_rest_is_kept(void **state)
{
    (void)state;
    static const char *const fails[] = {"fail-at", "4", NULL};
    es_answer *a;
    es_study_opts opts = {.out = in_folder("fail.run")};
    computed = 0;
    assert_int_equal(run_with(fails, opts, &a), ES_E_NUMERIC);
    assert_null(a);
    assert_int_equal(computed, 4);
    opts.resume = true;
    assert_ok(run_with(NULL, opts, &a)); /* fail-at is aside: the same run */
    check_sums(a, 6, 0.0);
    assert_int_equal(computed, 12);
    es_answer_free(a);
}

static void other_parameters_are_another_run(void **state)
{
    (void)state;
    static const char *const seven[] = {"cells", "7", NULL};
    const char *with_file[3] = {"file", NULL, NULL};
    es_answer *a;
    char other[512];
    snprintf(other, sizeof other, "%s", in_folder("other.run"));
    es_study_opts opts = {.out = other};
    assert_ok(run_with(NULL, opts, &a));
    es_answer_free(a);
    opts.resume = true;
    assert_int_equal(run_with(seven, opts, &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "run.parameters");
    opts.seed = 3;
    assert_int_equal(run_with(NULL, opts, &a), ES_E_ARGUMENT);
    /* a file counts by its contents, not by its name */
    char first[512], second[512];
    snprintf(first, sizeof first, "%s", write_file("one.txt", "abc", 3));
    snprintf(second, sizeof second, "%s", write_file("two.txt", "abc", 3));
    char run[512];
    snprintf(run, sizeof run, "%s", in_folder("file.run"));
    opts = (es_study_opts){.out = run};
    with_file[1] = first;
    assert_ok(run_with(with_file, opts, &a));
    es_answer_free(a);
    opts.resume = true;
    with_file[1] = second;
    assert_ok(run_with(with_file, opts, &a));
    es_answer_free(a);
    write_file("two.txt", "abd", 3);
    assert_int_equal(run_with(with_file, opts, &a), ES_E_ARGUMENT);
}

static int admitted;
static void on_admitted(void *user, const es_cost *cost)
{
    (void)user;
    admitted += cost->work_bytes > 1 << 20;
}

static void cost_is_told_and_refused_before_work(void **state)
{
    (void)state;
    es_answer *a;
    es_mem_limit budget = {0};
    es_study_opts opts = {.dry_run = true, .exec = {.budget = &budget, .threads = 2}};
    computed = 0;
    assert_ok(run_with(NULL, opts, &a));
    /* stated; two threads; cells of 2 and of 1 number, each with its place in a list; and what the
     * driver itself has allocated by then, some KiB */
    const double least = 1048576.0 + 100.0 + 2 * 65536.0 + 6 * 8.0 * (3.0 + 2.0);
    const double bound = es_table_get(es_answer_find(a, "cost"), 0, "memory_bytes");
    assert_between(bound, least, least + 16384.0);
    assert_null(es_answer_find(a, "rows"));
    es_answer_free(a);
    opts =
        (es_study_opts){.max_memory = 1000, .admitted = on_admitted, .exec = {.budget = &budget}};
    assert_int_equal(run_with(NULL, opts, &a), ES_E_LIMIT);
    assert_string_equal(err.rule, "memory.limit");
    assert_int_equal(computed, 0);
    opts.max_memory = 4 << 20;
    assert_ok(run_with(NULL, opts, &a));
    es_answer_free(a);
    assert_int_equal(admitted, 2);
    assert_int_equal(budget.used, 0);
}

/* Somebody else computes: cells in any order, values in memory of its own, as from another machine.
 */
static es_status backwards(const es_executor *self, const es_work *w, const es_exec *exec,
                           es_error *e)
{
    (void)self;
    for (int64_t i = w->count - 1; i >= 0; i--) {
        double values[2];
        es_status status = w->compute(w->user, w->pieces[i], exec, values, e);
        if (status == ES_OK)
            status = w->done(w->user, w->pieces[i], values, e);
        if (status != ES_OK)
            return status;
    }
    return ES_OK;
}

static void who_computes_does_not_matter(void **state)
{
    (void)state;
    es_executor other = es_executor_threads;
    other.run = backwards;
    es_answer *a;
    assert_ok(run_with(NULL, (es_study_opts){.exec.executor = &other}, &a));
    check_sums(a, 6, 0.0);
    es_answer_free(a);
}

/* ---- parameters ---- */

static es_status set_one(const char *name, const char *text)
{
    es_params *p;
    assert_ok(es_params_new(params, sizeof(small_params), &p, &err));
    const es_status status = es_params_set(p, name, text, &err);
    es_params_free(p);
    return status;
}

static void parameters_are_read_by_their_descriptions(void **state)
{
    (void)state;
    es_params *p;
    assert_ok(es_params_new(params, sizeof(small_params), &p, &err));
    const small_params *v = es_params_values(p);
    assert_int_equal(v->cells, 6);
    assert_nan(v->factor);
    assert_int_equal(v->colour, -1);
    assert_int_equal(v->grid.count, 3);
    assert_int_equal(v->grid.counts[1], 10);
    assert_ok(es_params_set(p, "f", "2.5", &err));
    assert_ok(es_params_set(p, "grid", "3,9", &err));
    assert_ok(es_params_set(p, "loud", NULL, &err));
    assert_ok(es_params_set(p, "words", "a", &err));
    assert_ok(es_params_set(p, "words", "b", &err));
    assert_ok(es_params_set(p, "colour", "green", &err));
    assert_equals(v->factor, 2.5);
    assert_true(v->loud);
    assert_equals(v->colour, 1);
    assert_equals(v->grid.counts[1], 9);
    assert_string_equal(v->words.at[1], "b");
    assert_true(es_params_given(p, "factor") && !es_params_given(p, "cells"));
    assert_int_equal(es_params_set(p, "factor", "1", &err), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "option.repeated");
    es_params_free(p);
    assert_int_equal(set_one("times", "2"), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "option.renamed");
    assert_string_equal(err.message, "--times is now --factor");
    assert_int_equal(set_one("celsl", "2"), ES_E_ARGUMENT);
    assert_string_equal(err.hint, "did you mean --cells?");
    assert_int_equal(set_one("cells", "101"), ES_E_ARGUMENT);
    assert_int_equal(set_one("factor", "0x10"), ES_E_ARGUMENT);
    assert_int_equal(set_one("grid", "9,3"), ES_E_ARGUMENT);
    assert_int_equal(set_one("colour", "blue"), ES_E_ARGUMENT);
    assert_int_equal(set_one("loud", "perhaps"), ES_E_ARGUMENT);
}

/* Checks that every word of main_options names a parameter of the study. */
static void assert_main_options_exist(const es_study *s)
{
    char names[256], *rest = names;
    snprintf(names, sizeof names, "%s", s->main_options ? s->main_options : "");
    for (const char *name; (name = strtok_r(rest, " ", &rest));)
        if (!es_param_find(s->params, name))
            fail_msg("%s: main_options names --%s, which does not exist", s->name, name);
}

/* Help of --policy is a text; the registry decides which names it must hold. */
static void help_names_every_policy(void **state)
{
    (void)state;
    const char *help = es_param_find(es_study_find("sparse")->params, "policy")->help;
    const es_policy *policy;
    for (int64_t i = 0; (policy = es_policy_at(i)); i++)
        if (!strstr(help, es_policy_name(policy)) ||
            (es_policy_alias(policy) && !strstr(help, es_policy_alias(policy))))
            fail_msg("--policy: help does not name %s", es_policy_name(policy));
}

/* Every study of the library: its defaults obey its own rules, names mean one thing, and every
 * parameter says what it does. */
static void descriptions_are_sound(void **state)
{
    (void)state;
    const es_study *s;
    for (int64_t i = 0; (s = es_study_at(i)); i++) {
        es_params *p;
        assert_ptr_equal(es_study_find(s->name), s);
        assert_ok(es_params_new(s->params, s->size, &p, &err));
        es_params_free(p);
        assert_true(s->summary && s->usage && s->about && s->examples && s->open && s->summarise);
        assert_main_options_exist(s);
        for (const es_param *a = s->params; a->name; a++) {
            assert_true(a->help && a->kind && (a->argument || a->kind == ES_PARAM_FLAG));
            /* these choose rows of tables that have layers and heads */
            if (s->takes & ES_TAKES_HEADS)
                assert_true(strcmp(a->name, "layer") != 0 && strcmp(a->name, "head") != 0);
            for (const es_param *b = s->params; b < a; b++) {
                assert_string_not_equal(a->name, b->name);
                assert_false(a->letter && a->letter == b->letter);
            }
        }
    }
    assert_non_null(es_study_at(0));
}

/* Numbers, one or several; files, one or several; anything else is its own sort. */
static int sort_of(es_param_kind kind)
{
    if (kind == ES_PARAM_NUMBER || kind == ES_PARAM_REALS || kind == ES_PARAM_COUNTS)
        return ES_PARAM_WHOLE;
    return kind == ES_PARAM_FILES ? ES_PARAM_FILE : (int)kind;
}

/* Names of two sorts, because users of both expect them. --head: a kind of head where tokens have a
 * law, numbers of heads where they have a model, as in `probe --head 5`. --keys: a file of them in
 * `exponent`, and how many a policy keeps. --context: a column of `context-fit`, a number of tokens
 * elsewhere. --reference: tokens that stand for a limit, or the word exact where there is one.
 * --per-query: a file of `measure`, more of the answer of `sparse`. --loss: a column of
 * `context-fit`, nats that a budget may cost. --verify: held-out text of `budget`; `probe` verifies
 * forecasts on its own text. */
static bool of_two_sorts(const es_param *a, const es_param *b)
{
    static const char *const known[] = {"head",      "keys", "context", "reference",
                                        "per-query", "loss", "verify"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(a->name, known[i]) == 0)
            return false;
    return sort_of(a->kind) != sort_of(b->kind);
}

/* A name, and a letter, means one thing in every study: the same sort of value, and never what an
 * older spelling of another meant. */
static void names_mean_one_thing_everywhere(void **state)
{
    (void)state;
    const es_study *s, *t;
    for (int64_t i = 0; (s = es_study_at(i)); i++)
        for (int64_t j = 0; j < i && (t = es_study_at(j)); j++)
            for (const es_param *a = s->params; a->name; a++)
                for (const es_param *b = t->params; b->name; b++) {
                    const bool same = strcmp(a->name, b->name) == 0;
                    if (same && of_two_sorts(a, b))
                        fail_msg("--%s of %s and of %s are of two sorts", a->name, s->name,
                                 t->name);
                    if (!same && a->letter && a->letter == b->letter)
                        fail_msg("-%c is --%s of %s and --%s of %s", a->letter, a->name, s->name,
                                 b->name, t->name);
                    if (a->alias && strcmp(a->alias, b->name) == 0)
                        fail_msg("--%s is another name in %s and itself in %s", b->name, s->name,
                                 t->name);
                }
}

TEST_FILE(driver)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_follow_one_another),
        cmocka_unit_test(shares_never_fall_and_count_work),
        cmocka_unit_test(an_interrupted_run_goes_on),
        cmocka_unit_test(a_failing_cell_ends_the_run_and_the_rest_is_kept),
        cmocka_unit_test(other_parameters_are_another_run),
        cmocka_unit_test(cost_is_told_and_refused_before_work),
        cmocka_unit_test(who_computes_does_not_matter),
        cmocka_unit_test(parameters_are_read_by_their_descriptions),
        cmocka_unit_test(descriptions_are_sound),
        cmocka_unit_test(help_names_every_policy),
        cmocka_unit_test(names_mean_one_thing_everywhere),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
