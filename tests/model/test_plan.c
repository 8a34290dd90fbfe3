/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c : plans of which keys heads keep: written, read, refused (PL01 to PL04), counted and
 * run by. */
#include "folder.h"

#include <stdbool.h>

#include "model/head_plan.h"
#include "model/plan.h"
#include "policy/policy.h"

/* Two layers of four heads that share two heads of keys and values, causal. */
static const es_model_config small = {.hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 8,
                                      .vocab = 100,
                                      .positions = 256,
                                      .causal = true,
                                      .model_type = "llama"};

/* A plan of version 1 as text, written by hand: layer 0 keeps 24 of 64 keys by sinks and a window,
 * layer 1 everything in its first group and 8 random keys in its second. */
#define MODEL                                                                                      \
    "\"model\":{\"model_type\":\"llama\",\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":8,"  \
    "\"hidden\":32,\"vocab\":100,\"window\":0,\"causal\":true}"
#define STREAM(h, g)                                                                               \
    "{\"head\":" h ",\"group\":" g ",\"policy\":\"stream\",\"keys\":24,\"sinks\":4,"               \
    "\"window\":20,\"correction\":\"none\",\"risk\":0.125}"
#define FULL(h)                                                                                    \
    "{\"head\":" h ",\"group\":0,\"policy\":\"full\",\"keys\":64,\"correction\":\"none\","         \
    "\"risk\":0}"
#define RANDOM(h)                                                                                  \
    "{\"head\":" h ",\"group\":1,\"policy\":\"random\",\"keys\":8,\"correction\":\"inverse\","     \
    "\"with_replacement\":true,\"risk\":null}"
#define LAYER_0 STREAM("0", "0") "," STREAM("1", "0") "," STREAM("2", "1") "," STREAM("3", "1")
#define LAYER_1 FULL("0") "," FULL("1") "," RANDOM("2") "," RANDOM("3")
static const char written[] =
    "{\"schema\":\"esscher-plan/1\"," MODEL ",\"context\":64,\"text\":\"a \\u00e9 text\","
    "\"keys_kept\":120,\"keys_all\":256,\"layers\":["
    "{\"layer\":0,\"heads\":[" LAYER_0 "]},{\"layer\":1,\"heads\":[" LAYER_1 "]}]}";

static es_status parse(const char *text, es_plan **out)
{
    return es_plan_parse(text, strlen(text), "p.json", NULL, out, &err);
}

/* The plan's text with its `which`-th `old` (from 0; -1: all) replaced. */
static const char *with(const char *old, const char *new, int which)
{
    static char text[8192];
    char *to = text;
    int seen = 0, done = 0;
    for (const char *at = written; *at;) {
        if (strncmp(at, old, strlen(old)) == 0 && (seen++ == which || which < 0)) {
            to = stpcpy(to, new);
            at += strlen(old);
            done++;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
    assert_above(done, 0);
    return text;
}

static void refuse(const char *text, es_status status, const char *rule, const char *says)
{
    es_plan *plan;
    const es_status got = parse(text, &plan);
    if (got != status || strcmp(err.rule, rule) != 0 || !strstr(err.message, says))
        fail_msg("%s\n%s %s (%s), expected %s %s (%s)", text, es_status_name(got), err.rule,
                 err.message, es_status_name(status), rule, says);
    assert_string_equal(err.file, "p.json");
    assert_true(err.hint[0]);
    assert_null(plan);
}

/* ---- reading and writing ---- */

static void a_plan_is_understood(void **state)
{
    (void)state;
    es_plan *p;
    assert_ok(parse(written, &p));
    assert_ok(es_plan_check(p, &small, &err));
    assert_equals(p->layers, 2);
    assert_equals(p->heads, 4);
    assert_equals(p->kv_heads, 2);
    assert_equals(p->head_dim, 8);
    assert_int_equal(p->context, 64);
    assert_true(p->causal);
    assert_int_equal(p->hidden, 32);
    assert_int_equal(p->vocab, 100);
    assert_string_equal(p->text, "a \xc3\xa9 text");
    assert_ptr_equal(p->head[3].spec.policy, es_policy_find("stream"));
    assert_equals(p->head[3].spec.keys, 24);
    assert_equals(p->head[3].spec.sinks, 4);
    assert_equals(p->head[3].spec.window, 20);
    assert_equals(p->head[3].spec.random, ES_POLICY_UNSET);
    assert_near(p->head[3].risk, 0.125, 0.0);
    assert_null(p->head[4].spec.policy);
    assert_equals(p->head[7].spec.correction, ES_CORRECTION_INVERSE);
    assert_true(p->head[7].spec.with_replacement);
    assert_nan(p->head[7].risk);
    assert_near(p->keys_kept, 2 * 24 + 64 + 8, 0.0); /* one head of each group counts */
    assert_near(p->keys_all, 2 * 2 * 64, 0.0);
    es_plan_free(p);
}

/* ---- plans say everything ---- */

/* Two layers of four heads by one policy, at 40 of 64 keys. */
#define ONE(h, g, policy, more)                                                                    \
    "{\"head\":" h ",\"group\":" g ",\"policy\":\"" policy "\",\"keys\":40,"                       \
    "\"correction\":\"none\"" more "}"
#define FOUR(policy, more)                                                                         \
    ONE("0", "0", policy, more)                                                                    \
    "," ONE("1", "0", policy, more) "," ONE("2", "1", policy, more) "," ONE("3", "1", policy, more)
#define ALIKE(version, policy, more)                                                               \
    "{\"schema\":\"esscher-plan/" version "\"," MODEL ",\"context\":64,\"keys_kept\":160,"         \
    "\"keys_all\":256,\"layers\":[{\"layer\":0,\"heads\":[" FOUR(                                  \
        policy, more) "]},{\"layer\":1,\"heads\":[" FOUR(policy, more) "]}]}"

/* What version 1 meant by a part that it left out. These numbers belong to the format: they stay
 * what they are where the defaults of policies change. */
static void version_1_has_its_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t sinks, window, random, span, pool;
    } cases[] = {{ALIKE("1", "stream", ""), 4, 36, -1, -1, -1},
                 {ALIKE("1", "stream", ",\"sinks\":2"), 2, 38, -1, -1, -1},
                 {ALIKE("1", "longformer", ""), 1, 39, -1, -1, -1},
                 {ALIKE("1", "window", ""), -1, 40, -1, -1, -1},
                 {ALIKE("1", "heavy", ""), -1, 20, -1, -1, -1},
                 {ALIKE("1", "observe", ""), -1, 32, -1, 32, 3},
                 {ALIKE("1", "observe", ",\"span\":48"), -1, 40, -1, 48, 3},
                 {ALIKE("1", "bigbird", ""), 4, 18, -1, -1, -1},
                 {ALIKE("1", "random", ""), 0, -1, -1, -1, -1},
                 {ALIKE("1", "top-random", ""), -1, -1, 20, -1, -1},
                 {ALIKE("1", "local", ""), -1, -1, -1, 40, -1},
                 {ALIKE("1", "top", ""), -1, -1, -1, -1, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        es_plan *p;
        assert_ok(parse(cases[i].text, &p));
        const es_policy_spec *spec = &p->head[7].spec;
        assert_equals(spec->sinks, cases[i].sinks);
        assert_equals(spec->window, cases[i].window);
        assert_equals(spec->random, cases[i].random);
        assert_equals(spec->span, cases[i].span);
        assert_int_equal(spec->pool, cases[i].pool);
        assert_int_not_equal(spec->correction, ES_CORRECTION_INVERSE);
        assert_ok(es_plan_check(p, &small, &err));
        es_plan_free(p);
    }
}

/* Version 2 leaves nothing to whoever reads it, and what it says is what is run. */
static void version_2_leaves_nothing_out(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } without[] = {{ALIKE("2", "stream", ",\"sinks\":4"), "missing window of policy stream"},
                   {ALIKE("2", "stream", ",\"window\":36"), "missing sinks of"},
                   {ALIKE("2", "heavy", ""), "missing window of policy heavy"},
                   {ALIKE("2", "observe", ",\"window\":32,\"pool\":3"), "missing span of"},
                   {ALIKE("2", "observe", ",\"window\":32,\"span\":32"), "missing pool of"},
                   {ALIKE("2", "top-random", ""), "missing random of"}};
    es_plan *p;
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        refuse(without[i].text, ES_E_FORMAT, "plan.missing", without[i].says);
    assert_ok(parse(ALIKE("2", "observe", ",\"window\":9,\"span\":7,\"pool\":1"), &p));
    es_policy_spec specs[8];
    es_plan_specs(p, 64, specs);
    assert_equals(specs[7].window, 9);
    assert_equals(specs[7].span, 7);
    assert_equals(specs[7].pool, 1);
    es_plan_specs(p, 200, specs);
    assert_equals(specs[7].window, 9);
    assert_equals(specs[7].span, 7);
    assert_equals(specs[7].pool, 1);
    es_plan_free(p);
    refuse(ALIKE("2", "observe", ",\"window\":32,\"span\":32,\"pool\":65"), ES_E_FORMAT,
           "plan.keys", "pool is too large");
    refuse(ALIKE("2", "heavy", ",\"window\":20,\"pool\":3"), ES_E_FORMAT, "policy.part",
           "policy heavy has no pool");
}

static void assert_same_plan(const es_plan *a, const es_plan *b)
{
    assert_string_equal(a->model_type, b->model_type);
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->note, b->note);
    assert_equals(a->layers, b->layers);
    assert_equals(a->heads, b->heads);
    assert_equals(a->kv_heads, b->kv_heads);
    assert_equals(a->context, b->context);
    assert_equals(a->causal, b->causal);
    assert_equals(a->window, b->window);
    assert_equals(a->keys_kept, b->keys_kept);
    assert_equals(a->keys_all, b->keys_all);
    for (int64_t i = 0; i < a->layers * a->heads; i++) {
        const es_policy_spec *x = &a->head[i].spec, *y = &b->head[i].spec;
        assert_ptr_equal(x->policy, y->policy);
        assert_equals(x->keys, y->keys);
        assert_equals(x->window, y->window);
        assert_equals(x->sinks, y->sinks);
        assert_equals(x->random, y->random);
        assert_equals(x->span, y->span);
        assert_equals(x->pool, y->pool);
        assert_equals(x->correction, y->correction);
        assert_equals(x->with_replacement, y->with_replacement);
        if (isnan(a->head[i].risk))
            assert_nan(b->head[i].risk);
        else
            assert_equals(a->head[i].risk, b->head[i].risk);
    }
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    es_mem_limit budget = {0};
    es_plan *p, *q;
    assert_ok(es_plan_new(&small, 200, &budget, &p, &err));
    assert_near(p->keys_kept, p->keys_all, 0.0);
    for (int64_t i = 0; i < 4; i++) {
        es_policy_spec_init(&p->head[4 + i].spec, es_policy_find(i < 2 ? "bigbird" : "heavy"));
        p->head[4 + i].spec.keys = 40;
        p->head[4 + i].risk = 1.25e-7 * (double)i;
    }
    p->head[4].spec.correction = p->head[5].spec.correction = ES_CORRECTION_NONE;
    snprintf(p->text, sizeof p->text, "a \"quoted\" path\\with\nlines and \xff bytes");
    snprintf(p->note, sizeof p->note, "what to know");
    es_plan_count(p);
    const char *path = in_folder("plan.json");
    assert_ok(es_plan_save(p, path, false, &err));
    assert_int_equal(es_plan_save(p, path, false, &err), ES_E_EXISTS);
    assert_ok(es_plan_save(p, path, true, &err));
    assert_int_equal(count_files(false), 1); /* no draft is left */
    assert_ok(es_plan_load(path, &budget, &q, &err));
    snprintf(p->text, sizeof p->text, "a \"quoted\" path\\with\nlines and \xef\xbf\xbd bytes");
    for (int64_t i = 0; i < p->layers * p->heads; i++) /* the file says what was left open */
        es_policy_spec_fit(&p->head[i].spec, p->causal);
    assert_same_plan(p, q);
    es_plan_free(p);
    es_plan_free(q);
    assert_int_equal(budget.used, 0);
}

/* The examples that others read are what we write, byte for byte. */
static void the_examples_are_what_is_written(void **state)
{
    (void)state;
    static char example[16384], saved[16384];
    char copy[512];
    static const char *const paths[] = {ES_TESTS_DIR "/../examples/plan/pebble.ideal.json",
                                        ES_TESTS_DIR "/../examples/plan/pebble.plan.json"};
    es_plan *p;
    snprintf(copy, sizeof copy, "%s", in_folder("copy.json"));
    for (int i = 0; i < 2; i++) {
        assert_ok(es_plan_load(paths[i], NULL, &p, &err));
        assert_ok(es_plan_save(p, copy, true, &err));
        es_plan_free(p);
        FILE *a = fopen(paths[i], "rb"), *b = fopen(copy, "rb");
        const size_t size = fread(example, 1, sizeof example, a);
        assert_int_equal(fread(saved, 1, sizeof saved, b), size);
        assert_between(size, 1000, sizeof example);
        assert_memory_equal(example, saved, size);
        fclose(a);
        fclose(b);
    }
}

/* What would not be loaded is not written. */
static void nonsense_is_not_saved(void **state)
{
    (void)state;
    es_plan *p;
    assert_ok(es_plan_new(&small, 64, NULL, &p, &err));
    es_policy_spec_init(&p->head[0].spec, es_policy_find("stream"));
    p->head[0].spec.keys = 8;
    assert_int_equal(es_plan_save(p, in_folder("n.json"), false, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.group"); /* its neighbour keeps everything */
    p->head[1].spec = p->head[0].spec;
    p->head[0].spec.keys = p->head[1].spec.keys = 65;
    assert_int_equal(es_plan_save(p, in_folder("n.json"), false, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.keys");
    p->head[0].spec.keys = p->head[1].spec.keys = 64;
    p->head[5].risk = INFINITY;
    assert_int_equal(es_plan_save(p, in_folder("n.json"), false, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.range");
    assert_non_null(strstr(err.message, "layer 1, head 1"));
    assert_int_equal(count_files(false), 0);
    es_plan_free(p);
    es_model_config short_one = small;
    short_one.positions = 32;
    assert_int_equal(es_plan_new(&short_one, 64, NULL, &p, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "plan.context");
    assert_null(p);
}

/* ---- PL01: of another model ---- */

static void refuse_model(const es_plan *p, const es_model_config *c, const char *rule,
                         const char *says)
{
    const es_status got = es_plan_check(p, c, &err);
    if (got != ES_E_SHAPE || strcmp(err.rule, rule) != 0 || !strstr(err.message, says))
        fail_msg("%s %s (%s), expected %s (%s)", es_status_name(got), err.rule, err.message, rule,
                 says);
}

static void PL01_a_plan_of_another_model_is_refused_by_name(void **state)
{
    (void)state;
    es_plan *p;
    es_model_config c = small;
    assert_ok(parse(written, &p));
    strcpy(c.model_type, "mistral");
    refuse_model(p, &c, "plan.model", "type 'llama'; this one is 'mistral'");
    c = small;
    c.layers = 3;
    refuse_model(p, &c, "plan.layers", "2 layers; this one has 3");
    c = small;
    c.heads = 8;
    refuse_model(p, &c, "plan.heads", "4 heads in each layer; this one has 8");
    c = small;
    c.kv_heads = 4;
    refuse_model(p, &c, "plan.heads", "2 heads of keys and values; this one has 4");
    c = small;
    c.head_dim = 16;
    refuse_model(p, &c, "plan.heads", "8 channels in each head; this one has 16");
    c = small;
    c.hidden = 64;
    refuse_model(p, &c, "plan.model", "32 channels");
    c = small;
    c.vocab = 101;
    refuse_model(p, &c, "plan.model", "100 tokens");
    c = small;
    c.kinds = 1;
    c.kind[0].window = 16;
    refuse_model(p, &c, "plan.model", "window");
    c = small;
    c.causal = false;
    refuse_model(p, &c, "plan.model", "causal");
    c = small;
    c.positions = 63;
    refuse_model(p, &c, "plan.context", "64 tokens; the model has 63");
    es_plan_free(p);
}

/* A file whose own layers and heads are not what it says its model has. */
static void PL01_layers_and_heads_that_are_not_there(void **state)
{
    (void)state;
    const es_status bad = ES_E_FORMAT;
    refuse(with("\"layers\":2", "\"layers\":3", 0), bad, "plan.layers", "3 layers, but 2");
    refuse(with("\"heads\":4", "\"heads\":6", 0), bad, "plan.heads", "6 heads");
    refuse(with("\"layer\":1", "\"layer\":2", 0), bad, "plan.layers", "found layer 2 instead of");
    refuse(with("\"head\":2", "\"head\":3", 0), bad, "plan.heads",
           "found head 3 instead of head 2");
    refuse(with("," STREAM("3", "1"), "", 0), bad, "plan.heads", "layer 1 has 4 heads, layer 0 3");
    refuse(with("\"group\":1", "\"group\":0", 0), bad, "plan.group", "layer 0, head 2: group is 0");
    refuse(with("\"kv_heads\":2", "\"kv_heads\":3", 0), bad, "plan.group", "4 heads share");
    refuse(with("\"kv_heads\":2", "\"kv_heads\":1", 0), bad, "plan.group", "group is 1");
    refuse(with("\"context\":64", "\"context\":0", 0), bad, "plan.context", "context is 0");
    refuse(with("\"context\":64", "\"context\":1e9", 0), bad, "plan.context", "too large");
    refuse(with("esscher-plan/1", "esscher-plan/9", 0), bad, "plan.schema", "esscher-plan/9");
}

/* ---- PL02: keys and policies ---- */

static void PL02_keys_that_cannot_be(void **state)
{
    (void)state;
    const es_status bad = ES_E_FORMAT;
    refuse(with("\"keys\":8", "\"keys\":0", 0), bad, "plan.keys", "layer 1, head 2: keys is 0");
    refuse(with("\"keys\":8", "\"keys\":-8", 0), bad, "plan.keys", "keys is negative");
    refuse(with("\"keys\":8", "\"keys\":8.5", 0), bad, "plan.keys", "keys is not whole");
    refuse(with("\"keys\":8", "\"keys\":65", -1), bad, "plan.keys",
           "layer 1, head 2: 65 keys of the 64");
    refuse(with("\"keys\":8", "\"keys\":1e15", 0), bad, "plan.keys", "too large");
    refuse(with("\"keys\":64", "\"keys\":63", 0), bad, "plan.keys", "full keeps 64 keys");
    refuse(with("\"random\"", "\"rondom\"", 0), bad, "plan.policy", "no policy \"rondom\"");
    assert_non_null(strstr(err.hint, "random"));
    refuse(with("\"inverse\"", "\"invers\"", 0), bad, "plan.correction", "\"invers\"");
    refuse(with("\"keys\":8", "\"keys\":9", 0), bad, "plan.group", "shares keys and values with");
    refuse(with("\"random\"", "\"linformer\"", -1), bad, "policy.part", "head 2");
}

/* ---- PL03: numbers that are none, unknown keys, totals ---- */

static void PL03_what_is_no_plan(void **state)
{
    (void)state;
    const es_status bad = ES_E_FORMAT;
    refuse("", bad, "plan.json", "");
    refuse("[]", bad, "plan.json", "not a plan file");
    refuse("{}", bad, "plan.missing", "missing schema");
    refuse(with("\"risk\":0.125", "\"risk\":NaN", 0), bad, "plan.range", "risk is no number");
    refuse(with("\"risk\":0.125", "\"risk\":\"0\"", 0), bad, "plan.range", "risk is text");
    refuse(with("\"risk\":0.125", "\"risk\":-1", 0), bad, "plan.range", "risk is negative");
    refuse(with("\"risk\":0.125", "\"risk\":1e301", 0), bad, "plan.range", "too large");
    refuse(with("\"layers\":2", "\"layers\":null", 0), bad, "plan.range", "layers is null");
    refuse(with("\"head_dim\":8", "\"head_dim\":0", 0), bad, "plan.range", "head_dim is 0");
    refuse(with("\"causal\":true", "\"causal\":1", 0), bad, "plan.json", "");
    refuse(with("\"sinks\"", "\"sink\"", 0), bad, "plan.unknown", "layer 0, head 0");
    refuse(with("\"text\"", "\"tect\"", 0), bad, "plan.unknown", "\"tect\"");
    refuse(with("\"sinks\":4", "\"sinks\":4,\"sinks\":4", 0), bad, "plan.duplicate", "sinks");
    refuse(with(",\"correction\":\"none\"", "", 0), bad, "plan.missing", "missing correction");
    refuse(with("\"keys_kept\":120,", "", 0), bad, "plan.missing", "keys_kept");
    refuse(with("]}]}", "]}]} x", 0), bad, "plan.json", "");
    refuse(with("a \\u00e9 text", "\xff", 0), bad, "plan.utf8", "");
}

static void PL03_totals_that_do_not_add_up(void **state)
{
    (void)state;
    const es_status bad = ES_E_FORMAT;
    refuse(with("\"keys_kept\":120", "\"keys_kept\":100", 0), bad, "plan.total",
           "keys_kept is 100, but the heads add up to 120");
    refuse(with("\"keys_all\":256", "\"keys_all\":255", 0), bad, "plan.total", "keys_all is 255");
    refuse(with("\"keys\":8", "\"keys\":9", -1), bad, "plan.total", "the heads add up to 121");
    /* parts that hold more, or fewer, keys than the head is said to keep */
    refuse(with("\"window\":20", "\"window\":60", 0), bad, "plan.group", "head 1");
    refuse(with("\"window\":20", "\"window\":60", -1), bad, "plan.parts",
           "layer 0, head 0: stream with these parts keeps 64 of 64 keys, but keys is 24");
    refuse(with("\"window\":20", "\"window\":2", -1), bad, "plan.parts", "keeps 6 of 64 keys");
    refuse(with("\"sinks\":4", "\"sinks\":3", -1), bad, "plan.parts", "keeps 23 of 64 keys");
    refuse(with("\"sinks\":4", "\"random\":4", -1), bad, "policy.part", "no random");
}

/* Around a query that sees both sides a window of 9 has 19 keys, one of 10 has 21: with 4 sinks 24
 * keys may be 23, not 25, since caches are as long as `keys` says. */
static void PL03_windows_of_both_sides_hold_no_more(void **state)
{
    (void)state;
    es_model_config both = small;
    es_plan *p;
    both.causal = false;
    assert_ok(es_plan_new(&both, 64, NULL, &p, &err));
    for (int64_t window = 7; window < 12; window++) {
        for (int64_t i = 0; i < p->layers * p->heads; i++) {
            es_policy_spec_init(&p->head[i].spec, es_policy_find("stream"));
            p->head[i].spec.keys = 24;
            p->head[i].spec.sinks = 4;
            p->head[i].spec.window = window;
        }
        const es_status status = es_plan_check(p, &both, &err);
        assert_int_equal(status, window == 9 ? ES_OK : ES_E_FORMAT);
        if (status != ES_OK)
            assert_string_equal(err.rule, "plan.parts");
    }
    es_plan_free(p);
}

/* Every byte of a file flipped, and every beginning of it: refused, or a plan that holds together;
 * never a crash, and nothing left behind. */
static void PL03_any_flip_is_refused_or_holds_together(void **state)
{
    (void)state;
    static char text[sizeof written];
    for (size_t at = 0; at < sizeof written - 1; at++)
        for (int bit = 0; bit < 9; bit++) {
            es_mem_limit budget = {0};
            es_plan *p;
            memcpy(text, written, sizeof written);
            if (bit < 8)
                text[at] ^= (char)(1 << bit);
            const size_t size = bit < 8 ? sizeof written - 1 : at;
            if (es_plan_parse(text, size, "p.json", &budget, &p, &err) == ES_OK) {
                const double kept = p->keys_kept;
                es_plan_count(p);
                assert_equals(kept, p->keys_kept);
                assert_at_most(kept, p->keys_all);
                es_plan_free(p);
            } else {
                assert_true(err.rule[0] && err.message[0] && !p);
            }
            assert_int_equal(budget.used, 0);
        }
}

/* ---- PL04: the future ---- */

static void PL04_the_future_of_a_causal_model(void **state)
{
    (void)state;
    es_plan *p;
    const char *text =
        with("\"correction\":\"inverse\",\"with_replacement\":true", "\"correction\":\"none\"", -1);
    char copy[8192];
    strcpy(copy, text);
    for (char *at; (at = strstr(copy, "random"));) { /* linformer is longer by three */
        memmove(at + 9, at + 6, strlen(at + 6) + 1);
        memcpy(at, "linformer", 9);
    }
    refuse(copy, ES_E_UNSUPPORTED, "policy.causal", "layer 1, head 2: policy linformer");
    memcpy(strstr(copy, "\"causal\":true"), "\"causal\":null", 13);
    refuse(copy, ES_E_FORMAT, "plan.json", "");
    /* of a model that sees both sides it is refused all the same: it keeps no set of keys */
    assert_ok(es_plan_new(&small, 64, NULL, &p, &err));
    p->causal = false;
    for (int i = 0; i < 2; i++) {
        es_policy_spec_init(&p->head[i].spec, es_policy_find("linformer"));
        p->head[i].spec.keys = 8;
    }
    assert_int_equal(es_plan_save(p, in_folder("l.json"), false, &err), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "plan.policy");
    es_plan_free(p);
}

/* ---- running by it ---- */

static char remark[512];
static void hear(void *user, es_log_level level, const char *text)
{
    (void)user;
    if (level <= ES_LOG_WARN)
        snprintf(remark, sizeof remark, "%s", text);
}

static void contexts_are_remarked_or_refused(void **state)
{
    (void)state;
    es_plan *p;
    assert_ok(parse(written, &p));
    es_log_set(hear, NULL, ES_LOG_WARN);
    remark[0] = '\0';
    assert_ok(es_plan_check_context(p, 64, &err));
    assert_string_equal(remark, "");
    assert_ok(es_plan_check_context(p, 128, &err));
    assert_non_null(strstr(remark, "made for 64 tokens and runs on 128"));
    assert_ok(es_plan_check_context(p, 9, &err));
    assert_non_null(strstr(remark, "runs on 9"));
    assert_int_equal(es_plan_check_context(p, 8, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.context");
    es_log_set(NULL, NULL, ES_LOG_WARN);
    es_plan_free(p);
    /* one that drops nothing at all says so itself */
    assert_ok(es_plan_new(&small, 64, NULL, &p, &err));
    assert_ok(es_plan_check_context(p, 1, &err));
    es_plan_free(p);
}

static void specs_are_those_of_a_block(void **state)
{
    (void)state;
    es_plan *p;
    es_policy_spec specs[8];
    assert_ok(parse(written, &p));
    es_plan_specs(p, 128, specs);
    assert_equals(specs[0].keys, 24);
    assert_equals(specs[0].window, 20);
    assert_null(specs[4].policy);
    assert_equals(specs[7].keys, 8);
    es_plan_specs(p, 24, specs); /* keeps all of 24: by the engine */
    assert_null(specs[0].policy);
    assert_equals(specs[7].keys, 8);
    es_plan_specs(p, 6, specs); /* n draws are not all n keys */
    assert_ptr_equal(specs[7].policy, es_policy_find("random"));
    assert_equals(specs[7].keys, 6);
    for (int64_t i = 0; i < 8; i++)
        assert_ok(es_policy_spec_check(&specs[i], true, &err));
    assert_int_equal(es_plan_keys(p, 0, 0, 100), 24);
    assert_int_equal(es_plan_keys(p, 1, 0, 100), 100);
    assert_int_equal(es_plan_keys(p, 1, 2, 6), 6);
    es_plan_free(p);
}

/* A model whose queries see a window has no more than that to keep. */
static void windows_of_the_model_bound_what_is_kept(void **state)
{
    (void)state;
    es_plan *p;
    es_model_config c = small;
    c.kinds = 1;
    c.kind[0].window = 16;
    assert_ok(es_plan_new(&c, 200, NULL, &p, &err));
    assert_near(p->keys_all, 2 * 2 * 16, 0.0);
    assert_near(p->keys_kept, 2 * 2 * 16, 0.0);
    assert_ok(es_plan_check(p, &c, &err));
    for (int i = 0; i < 2; i++) {
        es_policy_spec_init(&p->head[i].spec, es_policy_find("window"));
        p->head[i].spec.keys = 17;
    }
    assert_int_equal(es_plan_check(p, &c, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.keys");
    es_plan_free(p);
}

/* Layers of different windows: each keeps at most what it sees, the file says where a window is not
 * the model's, and a model whose layers see other numbers of keys is another. */
static void layers_have_windows_of_their_own(void **state)
{
    (void)state;
    es_plan *p, *q;
    es_model_config c = small;
    c.kinds = 2;
    c.kind[0].window = 16;
    c.layer_kind[1] = 1;
    assert_ok(es_plan_new(&c, 64, NULL, &p, &err));
    assert_equals(p->window, 0);
    assert_equals(es_plan_sees(p, 0, 64), 16);
    assert_equals(es_plan_sees(p, 1, 64), 64);
    assert_near(p->keys_all, 2 * 16 + 2 * 64, 0.0);
    for (int i = 0; i < 8; i++) {
        es_policy_spec_init(&p->head[i].spec, es_policy_find("window"));
        p->head[i].spec.keys = i < 4 ? 10 : 20;
        es_policy_spec_fit(&p->head[i].spec, true);
    }
    es_plan_count(p);
    assert_near(p->keys_kept, 2 * 10 + 2 * 20, 0.0);
    assert_ok(es_plan_save(p, in_folder("w.json"), false, &err));
    assert_ok(es_plan_load(in_folder("w.json"), NULL, &q, &err));
    assert_same_plan(p, q);
    assert_equals(q->windows[0], 16);
    assert_equals(q->windows[1], 0);
    assert_ok(es_plan_check(q, &c, &err));
    c.kind[0].window = 15;
    assert_int_equal(es_plan_check(q, &c, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.model");
    es_plan_free(q);
    p->head[0].spec.keys = p->head[1].spec.keys = 17; /* of the 16 that layer 0 sees */
    assert_int_equal(es_plan_save(p, in_folder("v.json"), false, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.keys");
    es_plan_free(p);
}

/* Every policy there is, with keys alone and with parts of its own, is accepted at every number of
 * keys: what is refused is nonsense, not arithmetic at the edges. */
static void every_policy_can_be_planned(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int64_t k = 1; es_policy_at(k); k++)
            for (int64_t keys = 1; keys <= 64; keys++) {
                es_plan *p;
                es_model_config c = small;
                c.causal = causal;
                if (es_policy_inputs(es_policy_at(k)) & ES_POLICY_MEASURED)
                    continue;
                const unsigned parts = es_policy_parts(es_policy_at(k));
                assert_ok(es_plan_new(&c, 64, NULL, &p, &err));
                for (int i = 0; i < 8; i++) {
                    es_policy_spec *spec = &p->head[i].spec;
                    es_policy_spec_init(spec, es_policy_at(k));
                    spec->keys = keys;
                    if (i >= 4 && keys > 4 && parts & ES_PART_SINKS)
                        spec->sinks = 4;
                    if (i >= 4 && keys > 4 && parts & ES_PART_WINDOW &&
                        !(parts & (ES_PART_RANDOM | ES_PART_SPAN)))
                        spec->window = causal
                                           ? keys - (spec->sinks > 0 ? spec->sinks : 0)
                                           : (keys - 1 - (spec->sinks > 0 ? spec->sinks : 0)) / 2;
                }
                if (es_plan_check(p, &c, &err) != ES_OK)
                    fail_msg("%s, %lld keys, causal %d: %s", es_policy_name(es_policy_at(k)),
                             (long long)keys, causal, err.message);
                es_plan_free(p);
            }
}

TEST_FILE(plan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_understood),
        cmocka_unit_test(version_1_has_its_numbers),
        cmocka_unit_test(version_2_leaves_nothing_out),
        cmocka_unit_test_setup_teardown(what_is_saved_is_loaded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_examples_are_what_is_written, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(nonsense_is_not_saved, make_folder, remove_folder),
        cmocka_unit_test(PL01_a_plan_of_another_model_is_refused_by_name),
        cmocka_unit_test(PL01_layers_and_heads_that_are_not_there),
        cmocka_unit_test(PL02_keys_that_cannot_be),
        cmocka_unit_test(PL03_what_is_no_plan),
        cmocka_unit_test(PL03_totals_that_do_not_add_up),
        cmocka_unit_test(PL03_windows_of_both_sides_hold_no_more),
        cmocka_unit_test(PL03_any_flip_is_refused_or_holds_together),
        cmocka_unit_test_setup_teardown(PL04_the_future_of_a_causal_model, make_folder,
                                        remove_folder),
        cmocka_unit_test(contexts_are_remarked_or_refused),
        cmocka_unit_test(specs_are_those_of_a_block),
        cmocka_unit_test(windows_of_the_model_bound_what_is_kept),
        cmocka_unit_test_setup_teardown(layers_have_windows_of_their_own, make_folder,
                                        remove_folder),
        cmocka_unit_test(every_policy_can_be_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
