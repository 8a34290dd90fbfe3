/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss_cache.c : the study `loss` with caches that drop and round keys, and against another
 * model. Divergence, extra loss and agreement are compared with golden/cache (NumPy, f64, no shared
 * code), and with the golden logits of two decoders. */
#include "folder.h"
#include "golden.h"

#include <esscher/model.h>
#include <esscher/npy.h>
#include <esscher/study.h>

#include "experiments/loss/loss.h"
#include "model/model.h"
#include "table/table.h"

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static const char *const decoders[] = {"llama", "qwen3", "neox-serial"};

/* ---- asking ---- */

enum { WORDS = 24, WORD = 4608 };

/* Options of a run as pairs of texts. */
typedef struct request {
    char text[WORDS][WORD];
    int count;
} request;

static void add(request *r, const char *name, const char *value)
{
    assert_true(r->count + 2 <= WORDS);
    snprintf(r->text[r->count++], WORD, "%s", name);
    snprintf(r->text[r->count++], WORD, "%s", value);
}

static es_status ask_status(const es_study_opts *opts, const request *r, es_answer **out)
{
    const es_study *study = es_study_find("loss");
    es_params *p;
    es_status status = ES_OK;
    *out = NULL;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (int i = 0; i < r->count && status == ES_OK; i += 2)
        status = es_params_set(p, r->text[i], *r->text[i + 1] ? r->text[i + 1] : NULL, &err);
    if (status == ES_OK)
        status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

static es_answer *ask(const request *r)
{
    es_answer *a;
    assert_ok(ask_status(&(es_study_opts){.precision = ES_F64, .exec.threads = 1}, r, &a));
    return a;
}

/* A golden decoder on the ids of its golden caches. */
static void decoder(request *r, const char *name)
{
    char rest[256];
    *r = (request){.count = 0};
    snprintf(rest, sizeof rest, "decoders/%s", name);
    add(r, "model", golden_path(rest));
    snprintf(rest, sizeof rest, "cache/%s/ids.npy", name);
    add(r, "ids", golden_path(rest));
}

#define ADD(r, ...)                                                                                \
    do {                                                                                           \
        const char *const words[] = {__VA_ARGS__};                                                 \
        for (size_t i_ = 0; i_ < sizeof words / sizeof *words; i_ += 2)                            \
            add(r, words[i_], words[i_ + 1]);                                                      \
    } while (0)

/* ---- golden caches ---- */

/* Writes a policy with the options of a case. */
static void write_policy(const json_t *row, char out[WORD])
{
    const char *key;
    json_t *value;
    snprintf(out, WORD, "%s", json_string_value(json_object_get(row, "policy")));
    json_object_foreach(json_object_get(row, "options"), key, value)
    {
        const size_t used = strlen(out);
        if (json_is_string(value))
            snprintf(out + used, WORD - used, ":%s=%s", key, json_string_value(value));
        else if (json_is_boolean(value))
            snprintf(out + used, WORD - used, ":%s=%s", key, json_is_true(value) ? "yes" : "no");
        else
            snprintf(out + used, WORD - used, ":%s=%g", key, json_number_value(value));
    }
}

/* Writes a number type as options name it: "+h" is "+hadamard", KIVI has group and residual. */
static void write_type(const json_t *row, const char *side, char out[128])
{
    const char *type = json_string_value(json_object_get(row, side));
    if (!type) {
        snprintf(out, 128, "f32");
        return;
    }
    const size_t plain = strcspn(type, "+");
    snprintf(out, 128, "%.*s", (int)plain, type);
    if (strncmp(type, "kivi", 4) == 0)
        snprintf(out + plain, 128 - plain, ":group=%g:residual=%g", golden_real(row, "group"),
                 golden_real(row, "residual"));
    if (type[plain])
        snprintf(out + strlen(out), 128 - strlen(out), "+hadamard");
}

/* Can the options of loss ask for this case? They set the same for all units. */
static bool is_uniform(const json_t *row)
{
    return !json_is_array(json_object_get(row, "keys")) &&
           !json_is_array(json_object_get(row, "ktype")) &&
           !json_is_array(json_object_get(row, "vtype"));
}

/* One case of a list: divergence, extra loss and agreement after the prompt. Both programs are f64;
 * sums over 96 tokens and layers differ by some 1e-14. */
static void check_case(const char *name, const char *mode, const char *prompt, const json_t *row)
{
    char policy[WORD], keys[32], types[2][128], both[WORD];
    request r;
    decoder(&r, name);
    add(&r, "prompt", prompt);
    if (mode) {
        write_policy(row, policy);
        snprintf(keys, sizeof keys, "%g", golden_real(row, "keys"));
        ADD(&r, "evict", mode, "policy", policy, "keys", keys);
    }
    write_type(row, "ktype", types[0]);
    write_type(row, "vtype", types[1]);
    snprintf(both, sizeof both, "%s,%s", types[0], types[1]);
    if (json_object_get(row, "ktype") || json_object_get(row, "vtype"))
        add(&r, "kv-type", both);
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings");
    assert_int_equal(es_table_rows(t), 2);
    assert_near(es_table_get(t, 1, "kl"), golden_real(row, "kl"), 1e-9);
    assert_near(es_table_get(t, 1, "cost"), golden_real(row, "extra_loss"), 1e-9);
    assert_near(es_table_get(t, 1, "agreement"), golden_real(row, "agree"), 1e-12);
    assert_string_equal(es_table_get_text(t, 1, "evict"), mode ? mode : "none");
    es_answer_free(a);
}

static void caches_cost_what_golden_caches_do(void **state)
{
    (void)state;
    static const char *const lists[][2] = {
        {"prompt_cases", "prompt"}, {"stream_cases", "decode"}, {"type_cases", NULL}};
    char rest[256], prompt[32];
    for (size_t d = 0; d < 3; d++) {
        int64_t count = 0;
        snprintf(rest, sizeof rest, "cache/%s/expected.json", decoders[d]);
        json_t *all = golden_file(rest);
        snprintf(prompt, sizeof prompt, "%g", golden_real(all, "prompt"));
        for (size_t l = 0; l < 3; l++) {
            const json_t *cases = json_object_get(all, lists[l][0]);
            for (size_t i = 0; i < json_array_size(cases); i++)
                if (is_uniform(json_array_get(cases, i))) {
                    check_case(decoders[d], lists[l][1], prompt, json_array_get(cases, i));
                    count++;
                }
        }
        assert_true(count > 60);
        json_decref(all);
    }
}

/* ---- another model ---- */

/* Two decoders of 96 tokens on the same ids, by their golden logits. */
static void another_model_costs_what_golden_logits_say(void **state)
{
    (void)state;
    enum { V = 96 };
    es_array logits[2];
    double kl = 0.0, agree = 0.0;
    request r = {.count = 0};
    assert_ok(es_npy_load(golden_path("decoders/llama/logits.npy"), NULL, &logits[0], &err));
    assert_ok(es_npy_load(golden_path("decoders/qwen3/logits.npy"), NULL, &logits[1], &err));
    const int64_t n = logits[0].shape[0];
    assert_int_equal(logits[0].shape[1], V);
    for (int64_t i = 0; i < n; i++) {
        const double *a = (double *)logits[0].data + i * V, *b = (double *)logits[1].data + i * V;
        double sums[2] = {0.0, 0.0};
        int64_t best[2] = {0, 0};
        for (int64_t t = 0; t < V; t++) {
            sums[0] += exp(a[t]);
            sums[1] += exp(b[t]);
            best[0] = a[t] > a[best[0]] ? t : best[0];
            best[1] = b[t] > b[best[1]] ? t : best[1];
        }
        for (int64_t t = 0; t < V; t++)
            kl += exp(a[t]) / sums[0] * (a[t] - log(sums[0]) - b[t] + log(sums[1])) / (double)n;
        agree += (best[0] == best[1]) / (double)n;
    }
    add(&r, "model", golden_path("decoders/llama"));
    add(&r, "against", golden_path("decoders/qwen3"));
    add(&r, "ids", golden_path("decoders/llama/ids.npy"));
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings");
    assert_near(es_table_get(t, 1, "kl"), kl, 1e-9 * kl);
    assert_near(es_table_get(t, 1, "agreement"), agree, 1e-12);
    es_answer_free(a);
    es_array_free(&logits[0]);
    es_array_free(&logits[1]);
}

static void a_model_against_itself_costs_nothing(void **state)
{
    (void)state;
    request r;
    decoder(&r, "llama");
    add(&r, "against", golden_path("decoders/llama"));
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings");
    assert_near(es_table_get(t, 1, "kl"), 0.0, 0.0);
    assert_near(es_table_get(t, 1, "cost"), 0.0, 0.0);
    assert_near(es_table_get(t, 1, "agreement"), 1.0, 0.0);
    es_answer_free(a);
}

/* ---- strips ---- */

/* Places of several strips of pebble's 4096 tokens, against logits that are made at once. Products
 * of strips and of the whole block differ in the last bits of f32; a divergence of 1e-3 is then
 * good to 1e-7. */
static void strips_are_the_whole(void **state)
{
    (void)state;
    enum { N = 1100, V = 4096, H = 192 };
    int32_t *ids = malloc(N * sizeof *ids);
    es_model *m;
    assert_ok(es_model_open(pebble, NULL, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    assert_int_equal(c->vocab, V);
    float *logits[2], *last[2];
    double *kl = malloc(N * sizeof *kl), *agree = malloc(N * sizeof *agree);
    const es_mask window = {.causal = true, .window = 64};
    for (int i = 0; i < N; i++)
        ids[i] = (int32_t)(7 + i * 977 % 4000);
    for (int i = 0; i < 2; i++) {
        logits[i] = malloc((size_t)N * V * sizeof(float));
        last[i] = malloc((size_t)(N * c->hidden) * sizeof(float));
        const es_model_block b = {.ids = ids,
                                  .n = N,
                                  .mask = i ? &window : NULL,
                                  .last = last[i],
                                  .token_logits = logits[i]};
        assert_ok(es_model_forward(m, &b, 1, NULL, &err));
    }
    const es_divergence pair = {
        .model = {m, m}, .state = {(char *)last[0], (char *)last[1]}, .from = 10, .n = N};
    assert_ok(es_divergence_run(&pair, NULL, kl, agree, &err));
    for (int64_t i = 10; i < N; i += 97) {
        double sums[2] = {0.0, 0.0}, want = 0.0;
        for (int64_t t = 0; t < V; t++) {
            sums[0] += exp((double)logits[0][i * V + t]);
            sums[1] += exp((double)logits[1][i * V + t]);
        }
        for (int64_t t = 0; t < V; t++) {
            const double a = (double)logits[0][i * V + t] - log(sums[0]);
            want += exp(a) * (a - (double)logits[1][i * V + t] + log(sums[1]));
        }
        assert_near(kl[i - 10], want, 1e-6 + 1e-4 * want);
    }
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
        free(last[i]);
    }
    free(ids);
    free(kl);
    free(agree);
    es_model_close(m);
}

/* Memory of a comparison does not grow with the context once there is more than one strip. */
static void memory_is_that_of_a_strip(void **state)
{
    (void)state;
    es_model_config c;
    assert_ok(es_model_config_load(pebble, &c, &err));
    assert_near(es_divergence_bytes(&c, ES_F32, 2048, 2), es_divergence_bytes(&c, ES_F32, 65536, 2),
                0.0);
    assert_true(es_divergence_bytes(&c, ES_F32, 65536, 1) < 4.0 * 65536.0 * (double)c.vocab / 8.0);
}

/* ---- the memory limit ---- */

static double bound;

static void note_bound(void *user, const es_cost *cost)
{
    (void)user;
    bound = cost->input_bytes + cost->output_bytes + cost->work_bytes;
}

/* What is announced before a run is enough for it, in every mode. */
static void runs_stay_within_their_bound(void **state)
{
    (void)state;
    static const char *const settings[][6] = {
        {"evict", "prompt", "policy", "snapkv,expected,oracle,tova", "ratio", "0.25"},
        {"evict", "decode", "policy", "h2o,tova,stream", "ratio", "0.25"},
        {"kv-type", "q4_0+hadamard", "kv-type", "kivi2", "kv-type", "fp8:tensor"}};
    for (size_t i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++) {
            request r = {.count = 0};
            es_answer *a;
            add(&r, "model", pebble);
            add(&r, "ids", in_folder("ids.npy"));
            for (int k = 0; k < 6; k += 2)
                add(&r, settings[i][k], settings[i][k + 1]);
            es_study_opts opts = {.exec.threads = threads, .admitted = note_bound};
            assert_ok(ask_status(&opts, &r, &a));
            es_answer_free(a);
            opts.max_memory = (size_t)bound + 1;
            assert_ok(ask_status(&opts, &r, &a));
            es_answer_free(a);
        }
}

/* ---- the full model's pass ---- */

/* A pass is made once for a block. One that was changed shows that it was not made again, and one
 * whose slot another block took is made again with the same bits. */
static void a_full_pass_is_made_once(void **state)
{
    (void)state;
    enum { N = 64, FROM = 32 };
    int32_t ids[2][N];
    es_model *m;
    const es_loss_full *full;
    loss_setting whole = {0};
    loss_state s = {.from = FROM, .settings = &whole, .count = 1};
    es_job job = {.study = es_study_find("loss"), .state = &s};
    assert_ok(es_model_open(pebble, NULL, &m, &err));
    for (int i = 0; i < 2 * N; i++)
        ids[i / N][i % N] = (int32_t)(7 + i * 977 % 4000);
    const es_loss_block blocks[] = {{.model = m, .ids = ids[0], .n = N, .number = 0},
                                    {.model = m, .ids = ids[1], .n = N, .number = 1}};
    assert_ok(loss_fulls_new(&job, 1, &err));
    assert_ok(loss_full_borrow(s.fulls, &blocks[0], NULL, &full, &err));
    const double nll = full->nll[0];
    assert_non_null(full->logits);
    assert_null(full->late);
    full->nll[0] = -1.0;
    loss_full_return(s.fulls, full);
    assert_ok(loss_full_borrow(s.fulls, &blocks[0], NULL, &full, &err));
    assert_near(full->nll[0], -1.0, 0.0);
    loss_full_return(s.fulls, full);
    assert_ok(loss_full_borrow(s.fulls, &blocks[1], NULL, &full, &err));
    loss_full_return(s.fulls, full);
    assert_ok(loss_full_borrow(s.fulls, &blocks[0], NULL, &full, &err));
    assert_near(full->nll[0], nll, 0.0);
    loss_full_return(s.fulls, full);
    loss_fulls_free(s.fulls);
    es_arena_free(&job.arena);
    es_model_close(m);
}

/* A pass that fails leaves its slot free, for the next cell that needs it. */
static void a_full_pass_that_fails_is_tried_again(void **state)
{
    (void)state;
    int32_t ids[] = {7, 8, 1 << 20, 9};
    es_model *m;
    const es_loss_full *full;
    loss_setting whole = {0};
    loss_state s = {.from = 2, .settings = &whole, .count = 1};
    es_job job = {.study = es_study_find("loss"), .state = &s};
    assert_ok(es_model_open(pebble, NULL, &m, &err));
    const es_loss_block block = {.model = m, .ids = ids, .n = 4};
    assert_ok(loss_fulls_new(&job, 1, &err));
    for (int i = 0; i < 2; i++) {
        assert_true(loss_full_borrow(s.fulls, &block, NULL, &full, &err) != ES_OK);
        assert_null(full);
    }
    ids[2] = 10;
    assert_ok(loss_full_borrow(s.fulls, &block, NULL, &full, &err));
    loss_full_return(s.fulls, full);
    loss_fulls_free(s.fulls);
    es_arena_free(&job.arena);
    es_model_close(m);
}

/* ---- the same bits ---- */

static bool into_memory(void *user, const char *bytes, size_t count)
{
    char *out = user;
    memcpy(out + strlen(out), bytes, count);
    return true;
}

static void csv_of(const es_study_opts *opts, const request *r, char out[65536])
{
    es_answer *a;
    assert_ok(ask_status(opts, r, &a));
    memset(out, 0, 65536);
    assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = "settings"}, into_memory,
                              out, &err));
    es_answer_free(a);
}

static bool stop_early(void *user, const es_progress *now)
{
    (void)user;
    return now->share > 0.3;
}

/* Compares numbers of threads, and a run that is stopped and resumed. */
static void check_threads_and_stops(const char *evict, const char *policies)
{
    static char one[65536], other[65536];
    char run[512];
    es_answer *a;
    request r = {.count = 0};
    add(&r, "model", pebble);
    add(&r, "ids", in_folder("ids.npy"));
    ADD(&r, "evict", evict, "policy", policies, "keys", "16,32", "kv-type", "f32", "kv-type",
        "q4_0,q8_0");
    snprintf(run, sizeof run, "%s", in_folder("cache.run"));
    csv_of(&(es_study_opts){.exec.threads = 1}, &r, one);
    for (int threads = 2; threads < 5; threads += 2) {
        csv_of(&(es_study_opts){.exec.threads = threads}, &r, other);
        assert_string_equal(one, other);
    }
    const es_study_opts opts = {
        .exec.threads = 1, .progress = stop_early, .out = run, .force = true};
    assert_int_equal(ask_status(&opts, &r, &a), ES_E_INTERRUPTED);
    csv_of(&(es_study_opts){.exec.threads = 2, .out = run, .resume = true}, &r, other);
    assert_string_equal(one, other);
}

static void KV03_threads_and_stops_change_nothing(void **state)
{
    (void)state;
    check_threads_and_stops("prompt", "h2o,snapkv:window=8,oracle");
    check_threads_and_stops("decode", "h2o,tova");
}

/* ---- rows ---- */

static void rows_say_what_was_asked(void **state)
{
    (void)state;
    request r = {.count = 0};
    add(&r, "model", pebble);
    add(&r, "ids", in_folder("ids.npy"));
    ADD(&r, "evict", "prompt", "policy", "h2o,stream", "ratio", "0.25,0.5", "kv-type", "q4_0,q8_0",
        "sinks", "2");
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings"), *p = es_answer_find(a, "positions");
    assert_int_equal(es_table_rows(t), 5);
    assert_near(es_table_get(t, 1, "prompt"), 64.0, 0.0);
    assert_near(es_table_get(t, 1, "keys"), 16.0, 0.0);
    assert_near(es_table_get(t, 2, "keys"), 32.0, 0.0);
    assert_string_equal(es_table_get_text(t, 1, "policy"), "h2o:sinks=2");
    assert_string_equal(es_table_get_text(t, 3, "policy"), "stream:sinks=2");
    assert_string_equal(es_table_get_text(t, 1, "evict"), "prompt");
    assert_string_equal(es_table_get_text(t, 1, "k_type"), "q4_0");
    assert_string_equal(es_table_get_text(t, 1, "v_type"), "q8_0");
    assert_true(es_table_get(t, 1, "kl") > es_table_get(t, 2, "kl"));
    assert_true(es_table_get(t, 1, "kl_se") > 0.0);
    assert_near(es_table_get(t, 1, "loss") - es_table_get(t, 0, "loss"), es_table_get(t, 1, "cost"),
                1e-9);
    /* places [1, 64), [64, 128): the first ones are not compared */
    assert_nan(es_table_get(p, 2, "kl"));
    assert_true(es_table_get(p, 3, "kl") > 0.0);
    assert_non_null(strstr(es_answer_finding(a, 0),
                           "with 32 of 64 prompt keys in q4_0,q8_0 is best: it costs"));
    es_answer_free(a);
}

/* A policy without --evict chooses from all keys for every query, and its row says so. */
/* Returns whether a finding has these words. */
static bool is_found(const es_answer *a, const char *words)
{
    for (int64_t k = 0; es_answer_finding(a, k); k++)
        if (strstr(es_answer_finding(a, k), words))
            return true;
    return false;
}

/* A policy without --evict is ideal mode, whether --evict ideal is given or not. The finding says
 * so unless a cache can keep the same keys. */
static void sparse_attention_is_ideal(void **state)
{
    static const char *const policies[] = {"heavy", "h2o", "h2o", "stream"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        request r = {.count = 0};
        add(&r, "model", pebble);
        add(&r, "ids", in_folder("ids.npy"));
        ADD(&r, "policy", policies[i], "keys", "16");
        if (i == 2)
            add(&r, "evict", "ideal");
        es_answer *a = ask(&r);
        const es_table *t = es_answer_find(a, "settings");
        assert_string_equal(es_table_get_text(t, 1, "evict"), "ideal");
        assert_int_equal(is_found(a, "Ideal: keys are chosen anew for every query"), i < 3);
        es_answer_free(a);
    }
}

/* A policy that looks at later tokens is a bound: the finding is about one that a cache can run. */
static void a_bound_is_no_winner(void **state)
{
    (void)state;
    request r = {.count = 0};
    add(&r, "model", pebble);
    add(&r, "ids", in_folder("ids.npy"));
    ADD(&r, "evict", "prompt", "policy", "oracle,random,knorm", "keys", "8,32");
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings");
    assert_true(es_table_get(t, 2, "kl") < es_table_get(t, 4, "kl")); /* oracle, random: 32 keys */
    for (int64_t i = 0; i < 2; i++) {
        assert_null(strstr(es_answer_finding(a, i), "oracle"));
        assert_non_null(strstr(es_answer_finding(a, i), i ? "with 8 of 64" : "with 32 of 64"));
    }
    es_answer_free(a);
}

/* A window of 32 keys takes all of 32, and leaves some of 33 to choose; 2 sinks leave none of 34.
 */
static void keys_without_a_choice_are_a_caution(void **state)
{
    static const char *const policies[] = {"stream,snapkv", "snapkv", "snapkv:sinks=2"};
    static const char *const keys[] = {"32", "33", "34"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        request r = {.count = 0};
        add(&r, "model", pebble);
        add(&r, "ids", in_folder("ids.npy"));
        ADD(&r, "evict", "prompt", "policy", policies[i], "keys", keys[i]);
        es_answer *a = ask(&r);
        assert_int_equal(
            is_found(a, i ? "34 keys snapkv:sinks=2 has none" : "32 keys snapkv has none"), i != 1);
        es_answer_free(a);
    }
}

/* The 128 tokens of a block stay in f16 with the residual of 128 that KIVI has. */
static void types_that_round_nothing_are_a_caution(void **state)
{
    static const char *const types[] = {"kivi2", "q8_0,kivi2", "kivi4,q8_0", "kivi2:residual=64",
                                        "q4_0"};
    static const char *const said[] = {
        "Caution: kivi2 rounds no keys and values in blocks of 128 tokens, because the newest 128 "
        "stay in f16.",
        "Caution: kivi2 rounds no values in blocks of 128 tokens",
        "Caution: kivi4 rounds no keys in blocks of 128 tokens"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        request r = {.count = 0};
        add(&r, "model", pebble);
        add(&r, "ids", in_folder("ids.npy"));
        add(&r, "kv-type", types[i]);
        es_answer *a = ask(&r);
        assert_int_equal(is_found(a, i < 3 ? said[i] : " rounds no "), i < 3);
        es_answer_free(a);
    }
}

/* A divergence beside windows: the rows that were there are as they were. */
static void kl_stands_beside_other_settings(void **state)
{
    (void)state;
    request r = {.count = 0};
    add(&r, "model", pebble);
    add(&r, "ids", in_folder("ids.npy"));
    ADD(&r, "window", "8,32");
    es_answer *plain = ask(&r);
    add(&r, "kl", "");
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "settings"), *before = es_answer_find(plain, "settings");
    for (int64_t i = 0; i < es_table_rows(before); i++) {
        assert_near(es_table_get(t, i, "nll"), es_table_get(before, i, "nll"), 0.0);
        assert_nan(es_table_get(before, i, "kl"));
    }
    assert_true(es_table_get(t, 1, "kl") > es_table_get(t, 2, "kl"));
    es_answer_free(a);
    es_answer_free(plain);
}

/* ---- refusals ---- */

static void refuse(const char *rule, const char *says, const char *const *given)
{
    request r = {.count = 0};
    es_answer *a;
    add(&r, "model", pebble);
    add(&r, "ids", in_folder("ids.npy"));
    for (; given[0]; given += 2)
        add(&r, given[0], given[1]);
    const es_status status = ask_status(&(es_study_opts){.exec.threads = 1}, &r, &a);
    assert_true(status == ES_E_ARGUMENT || status == ES_E_RANGE);
    assert_string_equal(err.rule, rule);
    if (!strstr(err.message, says))
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    assert_true(*err.hint);
}

#define REFUSE(rule, says, ...) refuse(rule, says, (const char *const[]){__VA_ARGS__, NULL, NULL})

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    REFUSE("evict.mode", "snapkv", "evict", "decode", "policy", "snapkv", "keys", "8");
    REFUSE("evict.policy", "h3o", "evict", "prompt", "policy", "h3o", "keys", "8");
    REFUSE("evict.option", "window", "evict", "prompt", "policy", "h2o:window=3", "keys", "8");
    REFUSE("cache.options", "--policy", "evict", "prompt", "keys", "8");
    REFUSE("cache.options", "--ratio", "evict", "prompt", "policy", "h2o");
    REFUSE("cache.options", "exclude", "evict", "prompt", "policy", "h2o", "keys", "8", "ratio",
           "0.5");
    REFUSE("cache.options", "needs --evict", "policy", "top", "ratio", "0.5");
    REFUSE("cache.options", "--span", "evict", "prompt", "policy", "snapkv", "keys", "8", "span",
           "4");
    REFUSE("cache.options", "--window", "kv-type", "q8_0", "window", "4");
    REFUSE("cache.options", "--evict", "policy", "knorm", "keys", "8");
    REFUSE("cache.options", "--evict", "policy", "top,snapkv:window=4", "keys", "8");
    REFUSE("cache.options", "--evict", "policy", "top", "keys", "8", "kv-type", "q8_0");
    REFUSE("cache.repeated", "twice", "evict", "prompt", "policy", "h2o,h2o", "keys", "8");
    REFUSE("cache.together", "kivi", "evict", "prompt", "policy", "h2o", "keys", "8", "kv-type",
           "kivi2");
    REFUSE("cache.prompt", "128", "evict", "prompt", "policy", "h2o", "keys", "8", "prompt", "127");
    REFUSE("cache.options", "2 numbers", "kv-type", "q8_0", "prompt", "8,16");
    REFUSE("kv_type.name", "q9_0", "kv-type", "q8_0,q9_0");
    REFUSE("loss.options", "--kl", "kl", "");
    REFUSE("loss.options", "--prompt", "prompt", "8");
    REFUSE("loss.against", "96 tokens", "against", golden_path("decoders/llama"));
}

static int make_inputs(void **state)
{
    enum { ROWS = 3, COLS = 128 };
    double ids[ROWS * COLS];
    if (make_folder(state) != 0)
        return -1;
    for (int i = 0; i < ROWS * COLS; i++)
        ids[i] = 7 + i * 977 % 4000;
    return es_npy_save(in_folder("ids.npy"), ES_F64, 2, (const int64_t[]){ROWS, COLS}, ids, false,
                       &err) == ES_OK
               ? 0
               : -1;
}

TEST_FILE(loss_cache)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_cost_what_golden_caches_do),
        cmocka_unit_test(another_model_costs_what_golden_logits_say),
        cmocka_unit_test(a_model_against_itself_costs_nothing),
        cmocka_unit_test(strips_are_the_whole),
        cmocka_unit_test(memory_is_that_of_a_strip),
        cmocka_unit_test(runs_stay_within_their_bound),
        cmocka_unit_test(a_full_pass_is_made_once),
        cmocka_unit_test(a_full_pass_that_fails_is_tried_again),
        cmocka_unit_test(KV03_threads_and_stops_change_nothing),
        cmocka_unit_test(rows_say_what_was_asked),
        cmocka_unit_test(sparse_attention_is_ideal),
        cmocka_unit_test(a_bound_is_no_winner),
        cmocka_unit_test(keys_without_a_choice_are_a_caution),
        cmocka_unit_test(types_that_round_nothing_are_a_caution),
        cmocka_unit_test(kl_stands_beside_other_settings),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_folder);
}
