/* SPDX-License-Identifier: Apache-2.0 */
/* test_cache_plan.c : plans of caches (version 3): written, read, refused by rule (PL01 to PL04,
 * KV01), counted, and run: golden cases through a file keep the golden sets. */
#include "cache_cases.h"
#include "folder.h"

#include "model/head_plan.h"
#include "model/plan.h"

/* Two layers of four heads that share two heads of keys and values. */
static const es_model_config small = {.hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 8,
                                      .vocab = 100,
                                      .positions = 256,
                                      .causal = true,
                                      .model_type = "llama"};

/* A plan by hand. Rows have 8 numbers: 16 bytes in f16, 10 in q8_0 (8 and a scale of 2), 6 in q4_0.
 * Kept: 8 keys of q8_0 and q4_0, 12 of f16 and f16, 32 of f32 and q8_0, 5 of q4_0 and q4_0. */
#define UNIT(g, policy, keys, k, v)                                                                \
    "{\"kv_head\":" g ",\"policy\":\"" policy "\",\"keys\":" keys ",\"k_type\":\"" k               \
    "\",\"v_type\":\"" v "\",\"risk\":0.125}"
#define FIRST UNIT("0", "snapkv:sinks=4:window=3:kernel=5:pooling=avg", "8", "q8_0", "q4_0")
static const char written[] =
    "{\"schema\":\"esscher-plan/3\",\"mode\":\"prompt\","
    "\"model\":{\"model_type\":\"llama\",\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":8,"
    "\"hidden\":32,\"vocab\":100,\"window\":0,\"causal\":true},"
    "\"fingerprint\":\"0123456789abcdef\",\"context\":64,\"prompt\":32,\"cache\":\"f16\","
    "\"text\":\"t\",\"keys_kept\":57,\"keys_all\":128,\"bytes_before\":4096,\"bytes_after\":1916,"
    "\"layers\":[{\"layer\":0,\"kv_heads\":[" FIRST
    "," UNIT("1", "h2o:sinks=0:recent=6", "12", "f16",
             "f16") "]},"
                    "{\"layer\":1,\"kv_heads\":[" UNIT("0", "full", "32", "f32", "q8_0") "," UNIT(
                        "1", "tova:sinks=1:protect=1:scope=kv", "5", "q4_0", "q4_0") "]}]}";

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

static void refuse(const char *old, const char *new, es_status status, const char *rule,
                   const char *says)
{
    es_plan *plan;
    const char *text = with(old, new, -1);
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
    es_cache_unit units[4];
    assert_ok(parse(written, &p));
    assert_ok(es_plan_check(p, &small, &err));
    assert_int_equal(p->mode, ES_PLAN_PROMPT);
    assert_int_equal(p->prompt, 32);
    assert_int_equal(p->context, 64);
    assert_true(p->fingerprint == 0x0123456789abcdef);
    assert_null(p->head);
    assert_near(p->keys_kept, 57.0, 0.0);
    assert_near(p->bytes_before, 2 * 2 * 32 * 2 * 16, 0.0);
    assert_near(p->bytes_after, 8 * 16 + 12 * 32 + 32 * (32 + 10) + 5 * 12, 0.0);
    assert_near(p->unit[3].risk, 0.125, 0.0);
    assert_ok(es_plan_units(p, units, &err));
    assert_ptr_equal(units[0].evict.policy, es_eviction_find("snapkv"));
    assert_int_equal(units[0].evict.keys, 8);
    assert_int_equal(units[0].evict.window, 3);
    assert_int_equal(units[1].evict.recent, 6);
    assert_null(units[2].evict.policy);
    assert_null(units[2].k.type);
    assert_ptr_equal(units[3].v.type, es_kv_type_find("q4_0"));
    es_plan_free(p);
}

static void same_plan(const es_plan *a, const es_plan *b)
{
    assert_int_equal(a->mode, b->mode);
    assert_int_equal(a->prompt, b->prompt);
    assert_int_equal(a->context, b->context);
    assert_true(a->fingerprint == b->fingerprint);
    assert_string_equal(a->cache, b->cache);
    assert_near(a->keys_kept, b->keys_kept, 0.0);
    assert_near(a->keys_all, b->keys_all, 0.0);
    assert_near(a->bytes_before, b->bytes_before, 0.0);
    assert_near(a->bytes_after, b->bytes_after, 0.0);
    for (int64_t i = 0; i < a->layers * a->kv_heads; i++) {
        assert_string_equal(a->unit[i].policy, b->unit[i].policy);
        assert_int_equal(a->unit[i].keys, b->unit[i].keys);
        assert_string_equal(a->unit[i].k_type, b->unit[i].k_type);
        assert_string_equal(a->unit[i].v_type, b->unit[i].v_type);
        if (isnan(a->unit[i].risk))
            assert_nan(b->unit[i].risk);
        else
            assert_near(a->unit[i].risk, b->unit[i].risk, 0.0);
    }
}

/* What is saved is loaded, in every mode, and options that were left open are stated. */
static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    for (int mode = ES_PLAN_PROMPT; mode <= ES_PLAN_NONE; mode++) {
        es_mem_limit budget = {0};
        es_plan *p, *q;
        const char *path = in_folder("plan.json");
        assert_ok(es_plan_new_cache(&small, (es_plan_mode)mode, mode == ES_PLAN_PROMPT ? 100 : 0,
                                    200, &budget, &p, &err));
        assert_near(p->keys_kept, p->keys_all, 0.0);
        assert_near(p->bytes_after, p->bytes_before, 0.0);
        p->fingerprint = 7;
        strcpy(p->cache, "bf16");
        strcpy(p->unit[1].k_type, "fp8:0.5");
        strcpy(p->unit[1].v_type,
               mode == ES_PLAN_NONE ? "kivi2:group=96:residual=96" : "q4_0+hadamard");
        if (mode != ES_PLAN_NONE) {
            strcpy(p->unit[2].policy, "h2o");
            p->unit[2].keys = 30;
            p->unit[2].risk = 0.1;
        }
        es_plan_count(p);
        assert_ok(es_plan_save(p, path, true, &err));
        assert_int_equal(es_plan_save(p, path, false, &err), ES_E_EXISTS);
        assert_ok(es_plan_load(path, &budget, &q, &err));
        if (mode != ES_PLAN_NONE) {
            assert_string_equal(q->unit[2].policy, "h2o:sinks=0:recent=15");
            strcpy(p->unit[2].policy, q->unit[2].policy);
        }
        same_plan(p, q);
        es_plan_free(p);
        es_plan_free(q);
        assert_int_equal(budget.used, 0);
    }
}

/* ---- what cannot be made ---- */

static void plans_that_cannot_be_made(void **state)
{
    (void)state;
    es_plan *p;
    es_model_config encoder = small;
    encoder.causal = false;
    assert_int_equal(es_plan_new_cache(&small, ES_PLAN_IDEAL, 0, 64, NULL, &p, &err),
                     ES_E_ARGUMENT);
    assert_string_equal(err.rule, "plan.mode");
    assert_int_equal(es_plan_new_cache(&small, ES_PLAN_PROMPT, 64, 64, NULL, &p, &err),
                     ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.prompt");
    assert_null(p);
    assert_int_equal(es_plan_new_cache(&small, ES_PLAN_DECODE, 8, 64, NULL, &p, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.prompt");
    assert_int_equal(es_plan_new_cache(&encoder, ES_PLAN_NONE, 0, 64, NULL, &p, &err),
                     ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "plan.causal");
    assert_int_equal(es_plan_new_cache(&small, ES_PLAN_NONE, 0, 257, NULL, &p, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "plan.context");
}

/* Every part of a file that is wrong, by its rule. Replacements are of every place where the text
 * stands. */
static void KV01_what_is_wrong_is_refused(void **state)
{
    (void)state;
    const es_status bad = ES_E_FORMAT, never = ES_E_UNSUPPORTED;
    /* the whole */
    refuse("esscher-plan/3", "esscher-plan/4", bad, "plan.schema", "esscher-plan/4");
    refuse("esscher-plan/3", "esscher-plan/2", bad, "plan.unknown", "\"mode\"");
    refuse("\"mode\":\"prompt\",", "", bad, "plan.missing", "missing mode");
    refuse("\"mode\":\"prompt\"", "\"mode\":\"ideal\"", bad, "plan.mode", "\"ideal\"");
    refuse("\"mode\":\"prompt\"", "\"mode\":\"decode\"", bad, "plan.prompt", "mode decode");
    refuse(",\"prompt\":32", "", bad, "plan.prompt", "a prompt of 0");
    refuse("\"prompt\":32", "\"prompt\":64", bad, "plan.prompt", "64 of 64 tokens");
    refuse("0123456789abcdef", "0123456789ABCDEF", bad, "plan.fingerprint", "ABCDEF");
    refuse("0123456789abcdef", "0123", bad, "plan.fingerprint", "\"0123\"");
    refuse("\"cache\":\"f16\"", "\"cache\":\"f17\"", bad, "plan.types", "cache: unknown");
    refuse("\"causal\":true", "\"causal\":false", never, "plan.causal", "no cache");
    refuse("\"text\"", "\"texts\"", bad, "plan.unknown", "\"texts\"");
    refuse("\"text\":\"t\"", "\"text\":\"t\",\"text\":\"t\"", bad, "plan.duplicate", "text");
    /* layers and heads */
    refuse("\"layers\":2", "\"layers\":3", bad, "plan.layers", "3 layers, but 2");
    refuse("\"kv_heads\":2,", "\"kv_heads\":4,", bad, "plan.heads", "4 key-value heads");
    refuse("\"kv_head\":1", "\"kv_head\":0", bad, "plan.heads", "layer 0: found key-value head 0");
    refuse("\"layer\":1", "\"layer\":0", bad, "plan.layers", "found layer 0 instead of layer 1");
    /* keys */
    refuse("\"keys\":8", "\"keys\":0", bad, "plan.keys", "layer 0, key-value head 0: keys is 0");
    refuse("\"keys\":8", "\"keys\":33", bad, "plan.keys", "33 keys of the 32 of the prompt");
    refuse("\"keys\":32", "\"keys\":31", bad, "plan.keys", "full keeps 32 keys, but keys is 31");
    /* policies */
    refuse("snapkv", "snapkw", bad, "plan.policy", "layer 0, key-value head 0: unknown eviction");
    refuse("recent=6", "recend=6", bad, "plan.policy", "has no option \"recend\"");
    refuse(":recent=6", "", bad, "plan.missing", "missing option recent of policy h2o");
    refuse("kernel=5", "kernel=4", bad, "plan.policy", "kernel is 4");
    refuse("pooling=avg", "pooling=avg:beta=20", bad, "plan.policy", "beta");
    refuse("h2o:sinks=0:recent=6", "oracle:sinks=0", never, "plan.policy", "no cache can");
    refuse("h2o:sinks=0:recent=6", "h2o:sinks=0:recent=6:alpha=0.2", bad, "plan.group",
           "choose their keys together");
    refuse("pooling=avg", "pooling=avg:alpha=0.2", bad, "plan.group", "together by snapkv");
    /* types */
    refuse("\"k_type\":\"q8_0\"", "\"k_type\":\"q9_0\"", bad, "plan.types", "unknown cache type");
    refuse("\"v_type\":\"q8_0\"", "\"v_type\":\"kivi2\"", never, "plan.types", "not defined");
    /* numbers */
    refuse("\"risk\":0.125", "\"risk\":-1", bad, "plan.range", "risk is negative");
    refuse("\"risk\":0.125", "\"risk\":NaN", bad, "plan.range", "risk is no number");
    refuse("\"keys_kept\":57", "\"keys_kept\":58", bad, "plan.total", "add up to 57");
    refuse("\"keys_all\":128", "\"keys_all\":127", bad, "plan.total", "add up to 128");
    refuse("\"bytes_after\":1916", "\"bytes_after\":1917", bad, "plan.total", "add up to 1916");
    refuse("\"bytes_before\":4096", "\"bytes_before\":4095", bad, "plan.total", "add up to 4096");
}

/* Units of a layer that choose together have one setting; policies without a decode mode have none
 * there; a plan that only rounds drops nothing. */
static void modes_have_their_policies(void **state)
{
    (void)state;
    es_plan *p;
    assert_ok(es_plan_new_cache(&small, ES_PLAN_DECODE, 0, 64, NULL, &p, &err));
    strcpy(p->unit[0].policy, "snapkv");
    p->unit[0].keys = 8;
    assert_int_equal(es_plan_check(p, &small, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.policy");
    strcpy(p->unit[0].policy, "tova:scope=kv");
    assert_ok(es_plan_check(p, &small, &err));
    strcpy(p->unit[0].policy, "tova");
    assert_int_equal(es_plan_check(p, &small, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.group");
    strcpy(p->unit[1].policy, "tova");
    p->unit[1].keys = 8;
    assert_ok(es_plan_check(p, &small, &err));
    p->mode = ES_PLAN_NONE;
    assert_int_equal(es_plan_check(p, &small, &err), ES_E_FORMAT);
    assert_string_equal(err.rule, "plan.mode");
    es_plan_free(p);
}

/* Every byte of a file flipped, and every beginning of it: refused, or a plan that holds together;
 * never a crash, and nothing left behind. */
static void PL03_any_flip_is_refused_or_holds_together(void **state)
{
    (void)state;
    static char text[sizeof written];
    es_cache_unit units[4];
    for (size_t at = 0; at < sizeof written - 1; at++)
        for (int bit = 0; bit < 9; bit++) {
            es_mem_limit budget = {0};
            es_plan *p;
            memcpy(text, written, sizeof written);
            if (bit < 8)
                text[at] ^= (char)(1 << bit);
            const size_t size = bit < 8 ? sizeof written - 1 : at;
            if (es_plan_parse(text, size, "p.json", &budget, &p, &err) == ES_OK) {
                assert_at_most(p->keys_kept, p->keys_all);
                assert_ok(es_plan_units(p, units, &err));
                es_plan_free(p);
            } else {
                assert_true(err.rule[0] && err.message[0] && !p);
            }
            assert_int_equal(budget.used, 0);
        }
}

/* ---- running by it ---- */

/* A plan whose units are all the same takes the memory of that cache, and one unit that takes more
 * is enough for more. */
static void a_plan_takes_the_memory_of_its_units(void **state)
{
    static const char policy[] = "expected:sinks=4:recent=0:future=512";
    const es_cache_opts plain = {.evict = "prompt", .prompt = 100, .policy = "stream", .keys = 8};
    const es_cache_opts more = {.evict = "prompt", .prompt = 100, .policy = policy, .keys = 8};
    es_plan *p;
    double bytes, want;
    (void)state;
    assert_ok(es_plan_new_cache(&small, ES_PLAN_PROMPT, 100, 200, NULL, &p, &err));
    assert_ok(es_cache_memory(&small, &plain, 200, ES_F32, 2, &want, &err));
    assert_ok(es_plan_memory(p, &small, 200, ES_F32, 2, &bytes, &err));
    assert_near(bytes, want, 0.0);
    snprintf(p->unit[1].policy, sizeof p->unit[1].policy, "%s", policy);
    p->unit[1].keys = 8;
    assert_ok(es_cache_memory(&small, &more, 200, ES_F32, 2, &want, &err));
    assert_ok(es_plan_memory(p, &small, 200, ES_F32, 2, &bytes, &err));
    assert_near(bytes, want, 0.0);
    es_plan_free(p);
}

static char remark[512];
static void hear(void *user, es_log_level level, const char *text)
{
    (void)user;
    if (level <= ES_LOG_WARN)
        snprintf(remark, sizeof remark, "%s", text);
}

static void KV01_contexts_are_remarked_or_refused(void **state)
{
    (void)state;
    es_plan *p;
    assert_ok(parse(written, &p));
    es_log_set(hear, NULL, ES_LOG_WARN);
    remark[0] = '\0';
    assert_ok(es_plan_check_context(p, 64, &err));
    assert_string_equal(remark, "");
    assert_ok(es_plan_check_context(p, 33, &err));
    assert_non_null(strstr(remark, "made for 64 tokens and runs on 33"));
    es_log_set(NULL, NULL, ES_LOG_WARN);
    assert_int_equal(es_plan_check_context(p, 32, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.context");
    es_plan_free(p);
}

/* A plan of the units that a case sets, through a file. */
static es_plan *plan_of(const decoder *d, es_plan_mode mode)
{
    es_plan *p, *q;
    const int64_t units = d->config->kv_heads;
    assert_ok(es_plan_new_cache(d->config, mode, mode == ES_PLAN_PROMPT ? d->prompt : 0, d->n, NULL,
                                &p, &err));
    for (int64_t u = 0; u < d->units; u++)
        es_plan_set_unit(p, u / units, u % units, &d->unit[u], (double)NAN);
    assert_ok(es_model_fingerprint(d->model, NULL, &p->fingerprint, &err));
    assert_ok(es_plan_save(p, in_folder("case.json"), true, &err));
    assert_ok(es_plan_load(in_folder("case.json"), NULL, &q, &err));
    es_plan_free(p);
    return q;
}

/* Runs the block of a decoder by the plan, and notes what is kept in d->last. */
static void run_plan(const decoder *d, const es_plan *plan)
{
    es_cache *cache;
    assert_ok(es_plan_cache(plan, d->model, d->n, NULL, &cache, &err));
    free(run(d, cache, 2));
    memcpy(d->last, es_cache_last(cache), (size_t)(d->units * d->n) * sizeof *d->last);
    es_cache_free(cache);
}

/* All golden cases but those that look ahead: written as a plan and read again, they keep the sets
 * of the independent program. */
static void golden_cases_through_files(void **state)
{
    (void)state;
    int ran = 0;
    for (int m = 0; m < NAMES; m++) {
        decoder d = open_decoder(names[m], ES_F64);
        for (int mode = ES_PLAN_PROMPT; mode <= ES_PLAN_DECODE; mode++) {
            const bool prompt = mode == ES_PLAN_PROMPT;
            const json_t *all =
                json_object_get(d.expected, prompt ? "prompt_cases" : "stream_cases");
            for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *one = json_array_get(all, i);
                if (strcmp(json_string_value(json_object_get(one, "policy")), "oracle") == 0)
                    continue;
                set_units(&d, one);
                es_plan *plan = plan_of(&d, (es_plan_mode)mode);
                run_plan(&d, plan);
                (prompt ? same_kept : same_evicted)(&d, one);
                es_plan_free(plan);
                ran++;
            }
        }
        close_decoder(&d);
    }
    assert_above(ran, 3 * 40);
}

/* A plan knows its checkpoint, whatever the precision, and refuses another one of the same shape.
 */
static void KV01_another_checkpoint_is_refused(void **state)
{
    (void)state;
    decoder d = open_decoder("llama", ES_F64), f = open_decoder("llama", ES_F32),
            other = open_decoder("qwen3", ES_F64);
    es_cache *cache;
    uint64_t in_f64, in_f32, of_other;
    assert_ok(es_model_fingerprint(d.model, NULL, &in_f64, &err));
    assert_ok(es_model_fingerprint(f.model, NULL, &in_f32, &err));
    assert_ok(es_model_fingerprint(other.model, NULL, &of_other, &err));
    assert_true(in_f64 == in_f32 && in_f64 != of_other && in_f64 != 0);
    set_units(&d, json_array_get(json_object_get(d.expected, "prompt_cases"), 0));
    es_plan *plan = plan_of(&d, ES_PLAN_PROMPT);
    assert_int_equal(es_plan_cache(plan, other.model, d.n, NULL, &cache, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.model");
    plan->fingerprint++;
    assert_int_equal(es_plan_cache(plan, d.model, d.n, NULL, &cache, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.fingerprint");
    assert_null(cache);
    plan->fingerprint = 0; /* any checkpoint of the shape */
    assert_ok(es_plan_cache(plan, d.model, d.n, NULL, &cache, &err));
    es_cache_free(cache);
    es_plan_free(plan);
    assert_ok(es_plan_new(d.config, d.n, NULL, &plan, &err));
    assert_int_equal(es_plan_cache(plan, d.model, d.n, NULL, &cache, &err), ES_E_SHAPE);
    assert_string_equal(err.rule, "plan.mode");
    es_plan_free(plan);
    close_decoder(&d);
    close_decoder(&f);
    close_decoder(&other);
}

/* Fingerprints are the same however weights are held, and differ between all decoders. */
static void fingerprints_do_not_depend_on_how_weights_are_held(void **state)
{
    static const char *const folders[] = {
        "decoders/llama",    "decoders/qwen3",   "decoders/gpt2",     "decoders/neox",
        "decoders2/gpt_oss", "decoders2/gemma3", "decoders2/mixtral", "decoders2/phi3"};
    enum { COUNT = sizeof folders / sizeof *folders };
    uint64_t found[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        for (int way = 0; way < 3; way++) {
            const es_model_opts opts = {.precision = way ? ES_F32 : ES_F64,
                                        .weights =
                                            way == 2 ? ES_WEIGHTS_STREAMED : ES_WEIGHTS_RESIDENT};
            es_model *m;
            uint64_t one;
            assert_ok(es_model_open(golden_path(folders[i]), &opts, &m, &err));
            assert_ok(es_model_fingerprint(m, &(es_exec){.threads = 1 + way}, &one, &err));
            assert_true(way == 0 || one == found[i]);
            found[i] = one;
            es_model_close(m);
        }
        for (int j = 0; j < i; j++)
            assert_true(found[i] != found[j]);
    }
}

TEST_FILE(cache_plan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_understood),
        cmocka_unit_test_setup_teardown(what_is_saved_is_loaded, make_folder, remove_folder),
        cmocka_unit_test(plans_that_cannot_be_made),
        cmocka_unit_test(KV01_what_is_wrong_is_refused),
        cmocka_unit_test(modes_have_their_policies),
        cmocka_unit_test(a_plan_takes_the_memory_of_its_units),
        cmocka_unit_test(PL03_any_flip_is_refused_or_holds_together),
        cmocka_unit_test(KV01_contexts_are_remarked_or_refused),
        cmocka_unit_test_setup_teardown(golden_cases_through_files, make_folder, remove_folder),
        cmocka_unit_test(fingerprints_do_not_depend_on_how_weights_are_held),
        cmocka_unit_test_setup_teardown(KV01_another_checkpoint_is_refused, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
