/* SPDX-License-Identifier: Apache-2.0 */
/* test_answers.c : what every study's answer promises to files: each column of a CSV has a name of
 * its own, what JSON says of a row stands in the CSV too, and the key columns tell rows apart. */
#include "testing.h"

#include <jansson.h>
#include <math.h>

#include <esscher/npy.h>
#include <esscher/study.h>

#include "table/table.h"
#include "tiny_model.h"

/* ---- every study, small ---- */

enum { MOST_GIVEN = 16 };
#define PEBBLE ES_TESTS_DIR "/../models/pebble"

/* Options and their values; a value that begins with @ is a file of the folder. */
typedef struct asked {
    const char *study;
    const char *given[MOST_GIVEN];
} asked;

static const asked all[] = {
    {"claims", {"list", NULL}},
    {"claims", {"only", "hardmax-law"}},
    {"converge",
     {"dim", "2", "scales", "0.5,1", "n", "50,100", "replicates", "4", "predict", NULL}},
    {"converge",
     {"law", "laplace", "dim", "3", "scales", "3", "n", "50,100,200", "replicates", "4"}},
    {"converge", {"law", "sphere", "dim", "3", "n", "50,100", "replicates", "4"}},
    {"ball", {"n", "50,100,200", "replicates", "4", "dim", "2"}},
    {"hardmax", {"n", "100,1000", "replicates", "20"}},
    {"regimes", {"dim", "3", "n", "100,1000", "b", "0.1,1", "replicates", "20"}},
    {"heat", {"n", "200", "beta", "10,20", "replicates", "2", "particles", "30", "steps", "3"}},
    {"collapse", {"phase", NULL, "curves", NULL, "n", "100", "replicates", "2"}},
    {"sink", {"n", "100,1000", "spread", "1,2", "replicates", "20"}},
    {"exponent", {"keys", "@keys.npy", "beta", "5", "n", "100,1000"}},
    {"context-fit", {"file", "@loss.csv", "at", "1e5"}},
    {"rope", {"base", "1e4,5e5", "scale", "1,2", "distance", "1,10,100"}},
    {"limit", {"law", "gaussian", "cov", "@eye.npy", "x", "@keys.npy", "moments", NULL}},
    {"theory", {"cov", "@eye.npy", "A", "@eye.npy", "n", "100"}},
    {"theory", {"scores", "@scores.npy", "values", "@keys.npy", "n", "4,16"}},
    {"probe",
     {"model", "@.", "text", "@text", "n", "20,50,100", "replicates", "4", "query-count", "8"}},
    {"probe",
     {"model", "@.", "domain", "a=@text", "domain", "b=@text", "n", "20,50", "replicates", "4",
      "query-count", "8"}},
    {"probe",
     {"model", "@.", "text", "@text", "n", "20,50", "replicates", "4", "query-count", "8", "draw",
      "contiguous"}},
    {"tails", {"model", "@.", "text", "@text"}},
    {"picture", {"n", "20,50", "dim", "3", "query-count", "20", "perplexity", "9", "steps", "20"}},
    {"picture",
     {"model", "@.", "text", "@text", "layer", "1", "n", "20,50", "query-count", "20", "method",
      "pca"}},
    {"depth", {"model", "@.", "text", "@text", "keys", "4", "blocks", "3", "length", "16"}},
    {"depth",
     {"synthetic", NULL, "n", "20,40,80", "replicates", "4", "depth", "2", "reference", "64"}},
    {"downstream",
     {"model", "@.", "tasks", "@tasks.tsv", "policy", "top,random", "keep", "0.5,0.25", "strata",
      NULL, "ablate", NULL}},
    {"downstream",
     {"model", "@.", "text", "@paragraphs", "least", "3", "policy", "top,window", "keys", "2,4"}},
    {"loss", {"model", PEBBLE, "text", "@text", "block", "32", "blocks", "4"}},
    {"loss",
     {"model", PEBBLE, "text", "@text", "block", "32", "blocks", "4", "window", "2,4,8,16", "sinks",
      "0,2", "score-scale", "none,log"}},
    {"loss",
     {"model", PEBBLE, "text", "@text", "block", "32", "blocks", "4", "policy", "top,random",
      "keys", "2,4"}},
    {"budget",
     {"model", PEBBLE, "text", "@text", "context", "32", "ratio", "0.25", "verify", "@text",
      "rivals", NULL}},
    {"budget",
     {"model", "@.", "text", "@text", "context", "16", "ratio", "0.5", "verify-tasks", "@tasks.tsv",
      "policy", "stream,random"}},
    {"measure",
     {"q", "@keys.npy", "k", "@keys.npy", "v", "@keys.npy", "moments", NULL, "error-bar", "4"}},
    {"sparse",
     {"q", "@keys.npy", "k", "@keys.npy", "v", "@keys.npy", "keys", "4,8", "simulations", "4",
      "per-query", NULL}},
    {"sparse",
     {"model", "@.", "text", "@text", "contexts", "2", "query-count", "3", "simulations", "4",
      "policy", "top,random,bigbird+inverse,bigbird"}},
    {"sparse", {"preset", "paper", "contexts", "1", "query-count", "4", "replicates", "4"}},
    {"compare", {"runs", "@0.run", "runs", "@1.run"}},
    {"selfcheck", {"only", "mean.4", "trials", "4"}},
};

static void save(const char *name, int64_t rows, int64_t cols, double (*value)(int64_t, int64_t))
{
    double numbers[64 * 4];
    const int64_t shape[] = {rows, cols};
    for (int64_t i = 0; i < rows * cols; i++)
        numbers[i] = value(i / cols, i % cols);
    assert_ok(es_npy_save(in_folder(name), ES_F64, 2, shape, numbers, true, &err));
}

static double turning(int64_t i, int64_t j) { return sin(1.0 + 2.7 * (double)i + 1.3 * (double)j); }
static double identity(int64_t i, int64_t j) { return i == j; }

static int make_inputs(void **state)
{
    tiny t = tiny_default();
    if (make_folder(state))
        return -1;
    t.labels = 2;
    tiny_draw(&t);
    tiny_write(&t);
    tiny_write_vocab(&t);
    tiny_free(&t);
    save("keys.npy", 64, 3, turning);
    save("scores.npy", 2, 64, turning);
    save("eye.npy", 3, 3, identity);
    FILE *f = fopen(in_folder("loss.csv"), "w");
    fputs("context,loss\n1,5.72\n4,3.46\n16,2.41\n64,1.88\n256,1.6\n1024,1.474\n4096,1.405\n", f);
    fclose(f);
    f = fopen(in_folder("tasks.tsv"), "w");
    for (int i = 0; i < 12; i++)
        fprintf(f, "the cat sat on word%d word%d\t%d\n", 16 + i, 16 + i * i % 7, i % 2);
    fclose(f);
    f = fopen(in_folder("paragraphs"), "w");
    for (int i = 0; i < 12; i++)
        fprintf(f, "the cat sat on\nword%d word%d\n\n", 16 + i, 16 + i * i % 7);
    fclose(f);
    f = fopen(in_folder("text"), "w");
    for (int i = 0; i < 400; i++)
        fprintf(f, "the cat sat on the mat, word%d word%d unaffable.\n", 16 + i % 11, 16 + i % 7);
    return fclose(f);
}

/* "a=@text" and "@text" with the folder in place of the sign. */
static void give(es_params *p, const char *name, const char *value)
{
    char text[600];
    const char *at = value ? strchr(value, '@') : NULL;
    if (at)
        snprintf(text, sizeof text, "%.*s%s/%s", (int)(at - value), value, folder, at + 1);
    assert_ok(es_params_set(p, name, at ? text : value, &err));
}

static es_answer *answer_of(const asked *a, uint64_t seed, const char *out)
{
    const es_study *study = es_study_find(a->study);
    es_params *p;
    es_answer *answer;
    assert_non_null(study);
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (int i = 0; i < MOST_GIVEN && a->given[i]; i += 2)
        give(p, a->given[i], i + 1 < MOST_GIVEN ? a->given[i + 1] : NULL);
    const es_study_opts opts = {.seed = seed, .exec = {.threads = 2}, .out = out, .force = true};
    assert_ok(es_study_run(study, p, &opts, &answer, &err));
    es_params_free(p);
    return answer;
}

/* ---- views as texts ---- */

static char view[1 << 22];
static size_t used;

static bool gather(void *user, const char *bytes, size_t count)
{
    (void)user;
    assert_below(used + count, sizeof view);
    memcpy(view + used, bytes, count);
    used += count;
    view[used] = '\0';
    return true;
}

static void write_view(const es_answer *a, es_answer_form form, const char *table)
{
    used = 0;
    view[0] = '\0';
    assert_ok(es_answer_write(a, form, &(es_answer_opts){.table = table}, gather, NULL, &err));
}

/* ---- the promises ---- */

enum { MOST_NAMES = 1024 };

/* Names of the CSV in `view`, cut apart; none of them is quoted. */
static int header(char *names[MOST_NAMES])
{
    int count = 0;
    view[strcspn(view, "\n")] = '\0';
    for (char *name = strtok(view, ","); name; name = strtok(NULL, ",")) {
        assert_below(count, MOST_NAMES);
        assert_true(name[0] != '"');
        names[count++] = name;
    }
    return count;
}

static bool is_among(const char *name, char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* A CSV name of what JSON calls `key`: that of the column, or the key itself for a list. */
static const char *csv_name(const es_table *t, const char *key)
{
    es_table_column c;
    return es_table_find(t, key, &c) ? c.name : key;
}

/* Is `key` the name under which rows of another table stand inside rows of this one? */
static bool is_nested(const es_answer *a, const es_table *t, const char *key)
{
    const es_table *other;
    for (int64_t i = 0; (other = es_answer_at(a, i)); i++) {
        const es_table_spec *s = es_table_about(other);
        if (s->inside && strcmp(s->inside, es_table_about(t)->key) == 0 &&
            strcmp(s->nested ? s->nested : s->key, key) == 0)
            return true;
    }
    return false;
}

/* Every number and text of a row, however deep. */
static void look_up(const es_answer *a, const es_table *t, const char *path, const json_t *value,
                    char *const *names, int count)
{
    char below[256];
    const char *key;
    json_t *member;
    const bool there = *path && is_among(csv_name(t, path), names, count);
    if (json_is_object(value)) {
        json_object_foreach((json_t *)(uintptr_t)value, key, member)
        {
            snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", key);
            if (!is_nested(a, t, below))
                look_up(a, t, below, member, names, count);
        }
    } else if (json_is_array(value) && !there) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            snprintf(below, sizeof below, "%s.%zu", path, i);
            look_up(a, t, below, json_array_get(value, i), names, count);
        }
    } else if (!there) {
        fail_msg("JSON has %s of table %s, its CSV has not", path, es_table_about(t)->key);
    }
}

static void check_names(const es_answer *a, const es_table *t, const json_t *json)
{
    char *names[MOST_NAMES];
    const es_table_spec *spec = es_table_about(t);
    write_view(a, ES_ANSWER_CSV, spec->key);
    const int count = header(names);
    for (int i = 1; i < count; i++)
        if (is_among(names[i], names, i))
            fail_msg("two columns of table %s are called %s", spec->key, names[i]);
    const json_t *rows = json_object_get(json, spec->key);
    if (json_is_object(rows))
        look_up(a, t, "", rows, names, count);
    for (size_t i = 0; i < json_array_size(rows); i++)
        look_up(a, t, "", json_array_get(rows, i), names, count);
}

static bool is_key(const es_table_spec *spec, const char *key)
{
    const char *at = spec->keys;
    for (size_t length; at && *at; at += length + (at[length] == ' ')) {
        length = strcspn(at, " ");
        if (strlen(key) == length && strncmp(at, key, length) == 0)
            return true;
    }
    return false;
}

static const char *text_at(const es_table_column *c, int64_t row)
{
    const char *text = es_column_text(c, row);
    return text ? text : "";
}

static bool rows_agree(const es_table *t, int64_t i, int64_t j)
{
    es_table_column c;
    for (int64_t k = 0; es_table_column_at(t, k, &c); k++)
        if (is_key(es_table_about(t), c.key) &&
            (c.format == ES_FORMAT_TEXT
                 ? strcmp(text_at(&c, i), text_at(&c, j)) != 0
                 : es_column_real(&c, i) != es_column_real(&c, j) &&
                       !(isnan(es_column_real(&c, i)) && isnan(es_column_real(&c, j)))))
            return false;
    return true;
}

static void check_keys(const es_table *t)
{
    const es_table_spec *spec = es_table_about(t);
    for (int64_t i = 0; spec->keys && i < es_table_rows(t); i++)
        for (int64_t j = 0; j < i; j++)
            if (rows_agree(t, i, j))
                fail_msg("rows %d and %d of table %s have the same keys (%s)", (int)j, (int)i,
                         spec->key, spec->keys);
}

/* Two runs for what takes runs. */
static void make_runs(void)
{
    const asked sink = {"sink", {"n", "100,1000", "replicates", "20"}};
    es_answer_free(answer_of(&sink, 1, in_folder("0.run")));
    es_answer_free(answer_of(&sink, 2, in_folder("1.run")));
}

static void files_leave_nothing_out(void **state)
{
    (void)state;
    make_runs();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        es_answer *a = answer_of(&all[i], 3, NULL);
        const es_table *t;
        json_error_t why;
        write_view(a, ES_ANSWER_JSON, NULL);
        json_t *json = json_loads(view, JSON_REJECT_DUPLICATES, &why);
        if (!json)
            fail_msg("%s: %s", all[i].study, why.text);
        for (int64_t k = 0; (t = es_answer_at(a, k)); k++) {
            check_names(a, t, json);
            check_keys(t);
        }
        json_decref(json);
        es_answer_free(a);
    }
}

/* A study that is not in the list would not be looked at. */
static void no_study_is_forgotten(void **state)
{
    (void)state;
    for (int64_t i = 0; es_study_at(i); i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            found = found || strcmp(all[k].study, es_study_at(i)->name) == 0;
        if (!found)
            fail_msg("%s is not among those that are tested", es_study_at(i)->name);
    }
}

static int remove_inputs(void **state)
{
    count_files(true);
    return remove_folder(state);
}

TEST_FILE(answers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_study_is_forgotten),
        cmocka_unit_test(files_leave_nothing_out),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
