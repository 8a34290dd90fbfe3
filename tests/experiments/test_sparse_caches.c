/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse_caches.c : the study `sparse` with caches: errors of the first layer against the
 * forward pass with the same cache, the price of bits in keys against simulation of random loss,
 * and what holds for every run. */
#include "golden.h"

#include <esscher/model.h>
#include <esscher/study.h>

#include "base/view.h"
#include "cache/cache.h"
#include "experiments/sparse/sparse.h"
#include "model/model.h"
#include "random/random.h"
#include "table/table.h"

static const char pebble[] = ES_TESTS_DIR "/../models/pebble";
static const char book[] = ES_TESTS_DIR "/../models/pebble/alice.txt";

enum { CONTEXT = 96, CONTEXTS = 3, QUERIES = 12 };

/* ---- asking ---- */

enum { WORDS = 40 };

/* Options of a run as pairs of texts. */
typedef struct request {
    const char *text[WORDS];
    int count;
} request;

static void add(request *r, const char *const *words)
{
    for (; words[0]; words += 2) {
        assert_true(r->count + 2 <= WORDS);
        r->text[r->count++] = words[0];
        r->text[r->count++] = words[1];
    }
}

#define ADD(r, ...) add(r, (const char *const[]){__VA_ARGS__, NULL, NULL})

static es_status ask_status(const es_study_opts *opts, const request *r, es_answer **out)
{
    const es_study *study = es_study_find("sparse");
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

/* A small run on pebble. */
static request small(void)
{
    request r = {.count = 0};
    ADD(&r, "model", pebble, "text", book, "context", "96", "contexts", "3", "query-count", "12");
    return r;
}

static es_answer *ask(const request *r)
{
    es_answer *a;
    assert_ok(ask_status(&(es_study_opts){.exec.threads = 2}, r, &a));
    return a;
}

/* ---- the forward pass ---- */

/* What one context has in its first layer: matrices of a head, and outputs by a cache. */
typedef struct seen_layer {
    int64_t head, d;
    double scale;
    double *q, *k, *v, *output; /* (CONTEXT, d) */
} seen_layer;

static es_status note(void *context, const es_model_seen *seen, es_error *error)
{
    seen_layer *l = context;
    (void)error;
    if (seen->layer > 0 || seen->head != l->head)
        return ES_OK;
    l->scale = seen->scale;
    for (int64_t i = 0; i < CONTEXT; i++) {
        es_view_read_row(&seen->q, i, l->q + i * l->d);
        es_view_read_row(&seen->k, i, l->k + i * l->d);
        es_view_read_row(&seen->v, i, l->v + i * l->d);
    }
    memcpy(l->output, seen->output, (size_t)(CONTEXT * l->d) * sizeof(double));
    return ES_OK;
}

/* The blocks of text that the study reads. */
typedef struct inputs {
    es_model *model;
    const es_model_config *c;
    es_tokenizer *tokenizer;
    es_blocks text;
} inputs;

static void open_inputs(inputs *in)
{
    const char *texts[] = {book};
    assert_ok(es_model_open(pebble, &(es_model_opts){.precision = ES_F32}, &in->model, &err));
    in->c = es_model_config_of(in->model);
    assert_ok(es_tokenizer_open(pebble, NULL, &in->tokenizer, &err));
    const es_tokenizer_info info = es_tokenizer_frame(in->tokenizer);
    const es_blocks_spec spec = {.tokenizer = in->tokenizer,
                                 .texts = texts,
                                 .n_texts = 1,
                                 .length = CONTEXT,
                                 .vocab = in->c->vocab,
                                 .running = true,
                                 .start = info.prefix,
                                 .n_start = info.prefix_count,
                                 .most = CONTEXTS,
                                 .from = ES_BLOCKS_EVEN};
    assert_ok(es_blocks_read(&spec, NULL, &in->text, &err));
    assert_true(in->text.count >= CONTEXTS);
}

static void close_inputs(inputs *in)
{
    es_blocks_free(&in->text);
    es_tokenizer_free(in->tokenizer);
    es_model_close(in->model);
}

/* Runs the first layer of a context by a cache; NULL: of the full model. */
static void run_layer(const inputs *in, int64_t context, const es_cache *cache, seen_layer *l)
{
    const es_model_visit visit = {.head = note, .context = l};
    const es_model_block block = {.ids = in->text.ids + in->text.start[context],
                                  .n = CONTEXT,
                                  .states = 2,
                                  .visit = &visit,
                                  .cache = cache};
    assert_ok(es_model_forward(in->model, &block, 1, &(es_exec){.threads = 1}, &err));
}

static seen_layer layer_new(const inputs *in, int64_t head)
{
    const size_t bytes = (size_t)(CONTEXT * in->c->head_dim) * sizeof(double);
    return (seen_layer){head,          in->c->head_dim, 0.0,          malloc(bytes),
                        malloc(bytes), malloc(bytes),   malloc(bytes)};
}

static void layer_free(seen_layer *l)
{
    free(l->q);
    free(l->k);
    free(l->v);
    free(l->output);
}

/* Mean over all late places of |y_S - y|^2. The study samples 12 of 48 of them, so that runs below
 * ask for all. */
static double mean_square(const inputs *in, int64_t head, const es_cache *cache)
{
    seen_layer full = layer_new(in, head), other = layer_new(in, head);
    double sum = 0.0;
    for (int64_t c = 0; c < CONTEXTS; c++) {
        run_layer(in, c, NULL, &full);
        run_layer(in, c, cache, &other);
        for (int64_t i = CONTEXT / 2 * full.d; i < CONTEXT * full.d; i++)
            sum += (full.output[i] - other.output[i]) * (full.output[i] - other.output[i]);
    }
    layer_free(&full);
    layer_free(&other);
    return sum / (double)(CONTEXTS * CONTEXT / 2);
}

/* Rows of the first layer are what the forward pass does, in f32: attention is within 1e-5 of its
 * output, and errors are 1e-2 of it or more where they are compared to 1e-3. */
static void errors_are_those_of_the_forward_pass(void **state)
{
    static const char *const policies[] = {"h2o", "snapkv:window=8", "expected:sinks=2"};
    inputs in;
    request r = small();
    (void)state;
    r.text[9] = "48"; /* every late query */
    ADD(&r, "layer", "0", "evict", "prompt", "policy", "h2o,snapkv:window=8,expected:sinks=2",
        "keys", "6,12", "kv-type", "f32", "kv-type", "q4_0,q8_0");
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "rows");
    open_inputs(&in);
    const int64_t heads = in.c->heads, units = in.c->layers * in.c->kv_heads;
    assert_int_equal(es_table_rows(t), heads * 12);
    es_cache_unit *unit = calloc((size_t)units, sizeof *unit), like = {0};
    for (int64_t i = 0; i < heads * 12; i++) {
        const int64_t setting = i % 12, keys = setting % 2 ? 12 : 6;
        if (i / 12 % 5) /* a few heads will do */
            continue;
        assert_ok(es_evict_parse(policies[setting / 2 % 3], &like.evict, &err));
        assert_ok(es_kv_format_parse(setting < 6 ? "f32" : "q4_0", &like.k, &err));
        assert_ok(es_kv_format_parse(setting < 6 ? "f32" : "q8_0", &like.v, &err));
        like.evict.keys = keys;
        es_cache_fill(&like, CONTEXT / 2, in.c->layers, in.c->kv_heads, unit);
        const es_cache cache = {.mode = ES_EVICT_PROMPT, .prompt = CONTEXT / 2, .units = unit};
        const double want = mean_square(&in, i / 12, &cache);
        assert_near(es_table_get(t, i, "mse") / want, 1.0, 1e-3);
        assert_near(es_table_get(t, i, "head"), (double)(i / 12), 0.0);
        assert_near(es_table_get(t, i, "keys"), (double)keys, 0.0);
    }
    free(unit);
    close_inputs(&in);
    es_answer_free(a);
}

/* ---- the price in keys ---- */

/* Mean over queries and draws of |y_S - y|^2, every key dropped with probability `share`, and the
 * standard error of the draws. */
static es_measured drop_keys(const seen_layer *l, double share, int64_t draws, uint64_t context)
{
    double sum = 0.0, squares = 0.0, count = 0.0, w[CONTEXT], y[64], z[64];
    for (int64_t i = CONTEXT / 2; i < CONTEXT; i++) {
        double total = 0.0, most = -(double)INFINITY;
        for (int64_t j = 0; j <= i; j++) {
            w[j] = l->scale * es_dot(l->q + i * l->d, l->k + j * l->d, l->d);
            most = fmax(most, w[j]);
        }
        memset(y, 0, sizeof y);
        for (int64_t j = 0; j <= i; j++) {
            w[j] = exp(w[j] - most);
            total += w[j];
            for (int64_t c = 0; c < l->d; c++)
                y[c] += w[j] * l->v[j * l->d + c];
        }
        for (int64_t r = 0; r < draws; r++) {
            double kept = 0.0;
            memset(z, 0, sizeof z);
            for (int64_t j = 0; j <= i; j++) {
                const es_address at = {.seed = 5,
                                       .experiment = 1,
                                       .cell = context * 1000000 + (uint64_t)(i * draws + r),
                                       .token = (uint64_t)j};
                if (es_uniform_at(&at) < share)
                    continue;
                kept += w[j];
                for (int64_t c = 0; c < l->d; c++)
                    z[c] += w[j] * l->v[j * l->d + c];
            }
            double off = 0.0;
            for (int64_t c = 0; c < l->d && kept > 0.0; c++)
                off += (z[c] / kept - y[c] / total) * (z[c] / kept - y[c] / total);
            sum += off;
            squares += off * off;
            count += kept > 0.0;
        }
    }
    return (es_measured){sum / count, sqrt((squares - sum * sum / count) / count / count)};
}

/* Dropping the reported share of keys at random costs what rounding does: within four standard
 * errors of the draws, and 2 % for the line between two shares whose risk is known. Weights over
 * their probability are left out, because a softmax without a sink does not see a common factor. */
static void random_loss_costs_as_much(void **state)
{
    inputs in;
    request r = small();
    (void)state;
    r.text[9] = "48";
    ADD(&r, "layer", "0", "kv-type", "q4_0", "kv-type", "q8_0");
    es_answer *a = ask(&r);
    const es_table *t = es_answer_find(a, "precision");
    open_inputs(&in);
    assert_false(in.c->sinks);
    assert_int_equal(es_table_rows(t), in.c->heads * 2);
    for (int64_t h = 0; h < in.c->heads; h++) {
        const double share = es_table_get(t, 2 * h, "dropped");
        const double square = es_table_get(t, 2 * h, "mse");
        seen_layer l = layer_new(&in, h);
        double sum = 0.0, variance = 0.0;
        for (int64_t c = 0; c < CONTEXTS; c++) {
            run_layer(&in, c, NULL, &l);
            const es_measured found = drop_keys(&l, share, 200, (uint64_t)c);
            sum += found.value / CONTEXTS;
            variance += found.se * found.se / (CONTEXTS * CONTEXTS);
        }
        assert_below(sqrt(variance), 0.15 * square); /* or it would show nothing */
        assert_near(sum, square, 4.0 * sqrt(variance) + 0.02 * square);
        assert_true(es_table_get(t, 2 * h + 1, "dropped") < share / 50.0); /* 4 bits more: 256 */
        assert_near(es_table_get(t, 2 * h, "ratio"), square / es_table_get(t, 2 * h, "first_order"),
                    1e-9);
        const double noise = es_table_get(t, 2 * h, "noise");
        assert_near(es_table_get(t, 2 * h, "dropped_by_noise"), 1.0 - 1.0 / (1.0 + noise * noise),
                    1e-12);
        layer_free(&l);
    }
    close_inputs(&in);
    es_answer_free(a);
}

/* ---- what holds for every run ---- */

/* Nothing is dropped or rounded: no error. More keys: less of it. */
static void everything_kept_is_no_error(void **state)
{
    (void)state;
    for (int decode = 0; decode < 2; decode++) {
        request r = small();
        ADD(&r, "evict", decode ? "decode" : "prompt", "policy", "h2o,tova,stream", "keys",
            decode ? "4,16,96" : "4,16,48");
        es_answer *a = ask(&r);
        const es_table *t = es_answer_find(a, "settings");
        assert_int_equal(es_table_rows(t), 9);
        for (int64_t i = 0; i < 9; i += 3) {
            assert_true(es_table_get(t, i, "relative_error") >
                        es_table_get(t, i + 1, "relative_error"));
            /* rows are f32, sums over them f64; decode mode sums in f32 */
            assert_true(es_table_get(t, i + 2, "relative_error") < (decode ? 1e-5 : 1e-12));
            assert_near(es_table_get(t, i + 2, "mass"), 1.0, 1e-12);
            assert_true(es_table_get(t, i, "mass") < es_table_get(t, i + 1, "mass"));
        }
        es_answer_free(a);
    }
}

/* A policy that looks ahead is no winner. */
static void a_bound_is_no_winner(void **state)
{
    request r = small();
    (void)state;
    ADD(&r, "evict", "prompt", "policy", "oracle,random", "keys", "12");
    es_answer *a = ask(&r);
    assert_non_null(strstr(es_answer_finding(a, 0), "under random."));
    es_answer_free(a);
}

/* The finding has the types, and says of two policies that differ by their seed alone that the
 * difference may be chance; not of one that chooses at random. */
static void a_difference_may_be_chance(void **state)
{
    static const char *const policies[] = {"random:seed=1,random:seed=2", "h2o,random"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        request r = {.count = 0};
        ADD(&r, "model", pebble, "text", book, "context", "96", "contexts", "3", "query-count",
            "6");
        ADD(&r, "layer", "0,2", "evict", "prompt", "policy", policies[i], "keys", "8");
        if (!i)
            ADD(&r, "kv-type", "q8_0");
        es_answer *a = ask(&r);
        const char *said = es_answer_finding(a, 0);
        assert_non_null(strstr(said, i ? "With 8 of the 48 keys of a prompt, "
                                       : "With 8 of the 48 keys of a prompt in q8_0, "));
        assert_int_equal(strstr(said, "; the difference may be chance.") != NULL, !i);
        es_answer_free(a);
    }
}

static double bound;

static void note_bound(void *user, const es_cost *cost)
{
    (void)user;
    bound = cost->input_bytes + cost->output_bytes + cost->work_bytes;
}

/* What is announced before a run is enough for it. */
static void runs_stay_within_their_bound(void **state)
{
    static const char *const settings[][6] = {
        {"evict", "prompt", "policy", "snapkv,expected,oracle,tova", "ratio", "0.25"},
        {"evict", "decode", "policy", "h2o,tova,stream", "ratio", "0.25"},
        {"kv-type", "q4_0+hadamard", "kv-type", "kivi2", "kv-type", "fp8:tensor"}};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++) {
            request r = small();
            es_answer *a;
            for (int k = 0; k < 6; k += 2)
                ADD(&r, settings[i][k], settings[i][k + 1]);
            es_study_opts opts = {.exec.threads = threads, .admitted = note_bound};
            assert_ok(ask_status(&opts, &r, &a));
            es_answer_free(a);
            opts.max_memory = (size_t)bound + 1;
            assert_ok(ask_status(&opts, &r, &a));
            es_answer_free(a);
        }
}

/* ---- refusals ---- */

static void refuse(const char *rule, const char *says, const char *const *given)
{
    request r = small();
    es_answer *a;
    add(&r, given);
    const es_status status = ask_status(&(es_study_opts){.exec.threads = 1}, &r, &a);
    assert_true(status == ES_E_ARGUMENT || status == ES_E_RANGE || status == ES_E_UNSUPPORTED);
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
    REFUSE("cache.options", "--policy", "evict", "prompt", "keys", "8");
    REFUSE("cache.options", "--ratio", "evict", "prompt", "policy", "h2o");
    REFUSE("cache.options", "--evict", "policy", "top", "keys", "8", "kv-type", "q8_0");
    REFUSE("cache.options", "--plan", "kv-type", "q8_0", "plan", "p.json");
    REFUSE("cache.options", "ideal", "kv-type", "q8_0", "evict", "ideal");
    REFUSE("cache.keys", "8 keys", "evict", "prompt", "policy", "h2o", "ratio", "0.16,0.17");
    REFUSE("cache.together", "kivi", "evict", "prompt", "policy", "h2o", "keys", "8", "kv-type",
           "kivi2");
    REFUSE("late.together", "alpha", "evict", "prompt", "policy", "h2o:alpha=0.2", "keys", "8");
    REFUSE("cache.prompt", "96", "kv-type", "q8_0", "prompt", "95");
    REFUSE("sparse.options", "--per-query", "kv-type", "q8_0", "per-query", "");
    REFUSE("sparse.options", "--preset", "kv-type", "q8_0", "preset", "paper");
    REFUSE("sparse.options", "--q", "kv-type", "q8_0", "q", "q.npy");
    REFUSE("kv_type.name", "q9_0", "kv-type", "q9_0");
}

TEST_FILE(sparse_caches)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_forward_pass),
        cmocka_unit_test(random_loss_costs_as_much),
        cmocka_unit_test(everything_kept_is_no_error),
        cmocka_unit_test(a_bound_is_no_winner),
        cmocka_unit_test(a_difference_may_be_chance),
        cmocka_unit_test(runs_stay_within_their_bound),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
