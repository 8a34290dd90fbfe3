/* SPDX-License-Identifier: Apache-2.0 */
/* test_late_outputs.c : outputs of late queries under many caches at once, against the forward pass
 * with each of these caches (its first layer, whose rows no cache has changed), and against plain
 * loops that decode token by token and round key by key. */
#include "golden.h"
#include "numbers.h"

#include <esscher/model.h>

#include "base/view.h"
#include "experiments/kit/late_outputs.h"
#include "model/model.h"

/* Decoders with rotary and learned positions, windows, sinks, caps, norms of heads. */
static const char *const kinds[] = {
    "decoders/llama",          "decoders/qwen3",    "decoders/neox-serial", "decoders/gpt2",
    "decoders/mistral-window", "decoders2/gpt_oss", "decoders2/gemma2"};
enum { KINDS = sizeof kinds / sizeof *kinds };

enum { TOKENS = 48, PROMPT = 24, QUERIES = 20, MOST = 16 };
static const int64_t keys[] = {1, 3, 6, 11, 24};
enum { KEYS = sizeof keys / sizeof *keys };

static const char *const prompt_policies[] = {"stream",
                                              "stream:sinks=0",
                                              "snapkv:window=4:kernel=3",
                                              "snapkv:window=8:sinks=2:pooling=max",
                                              "observed",
                                              "h2o",
                                              "h2o:sinks=4",
                                              "tova",
                                              "tova:scope=kv:protect=0",
                                              "knorm",
                                              "keydiff",
                                              "expected:sinks=2:future=8",
                                              "expected:vnorm=no:recent=2",
                                              "random:seed=3",
                                              "oracle"};
static const char *const decode_policies[] = {"stream:sinks=2", "h2o", "h2o:recent=1:sinks=1",
                                              "tova", "tova:scope=kv"};
static const char *const types[][2] = {
    {"f32", "f32"}, {"q4_0", "q4_0"}, {"q4_0", "q8_0+hadamard"}, {"fp8:tensor", "bf16"}};
static const char *const aged_types[][2] = {
    {"f32", "f32"},
    {"kivi2:group=4:residual=8", "kivi2:group=4:residual=8"},
    {"kivi4:group=4:residual=8", "q4_0"},
    {"q8_0", "kivi2:group=4:residual=12"}};
enum { TYPES = 4 };

/* One model on one block, and everything that es_late_run() finds in its first layer. */
typedef struct bench {
    es_model *model;
    const es_model_config *c;
    int64_t each, d;
    int32_t ids[TOKENS];
    int64_t queries[QUERIES];
    es_late_types types[TYPES];
    es_evict_spec policies[MOST];
    es_late_spec spec;
    es_arena arena;
    es_late_layer layer;
    es_late_out *units; /* (kv_heads) */
    double *q, *k, *v;  /* (heads, n, d), (kv_heads, n, d) of the full model */
} bench;

static double *numbers(bench *b, int64_t count)
{
    double *x;
    assert_ok(ES_ARENA_NEW(&b->arena, x, count, "numbers", &err));
    return x;
}

/* Copies what the layer has, and runs every unit within the memory that is promised. */
static es_status see(void *context, const es_model_seen *seen, es_error *error)
{
    bench *b = context;
    if (seen->layer > 0)
        return ES_OK;
    es_late_see(&b->layer, seen);
    for (int64_t i = 0; i < TOKENS; i++) {
        es_view_read_row(&seen->q, i, b->q + (seen->head * TOKENS + i) * b->d);
        es_view_read_row(&seen->k, i, b->k + (seen->head / b->each * TOKENS + i) * b->d);
        es_view_read_row(&seen->v, i, b->v + (seen->head / b->each * TOKENS + i) * b->d);
    }
    for (int64_t u = 0; u < b->c->kv_heads && seen->head == b->c->heads - 1; u++) {
        es_mem_limit limit = {.limit = (size_t)es_late_bytes(b->c, ES_F64, TOKENS, &b->spec)};
        const es_status status = es_late_run(&b->layer, u, &b->spec, &limit, &b->units[u], error);
        if (status != ES_OK)
            return status;
        assert_int_equal(limit.used, 0);
    }
    return ES_OK;
}

static void open_bench(bench *b, const char *name, es_evict_mode mode,
                       const char *const (*words)[2], const char *const *policies, int64_t count)
{
    *b = (bench){0};
    assert_ok(
        es_model_open(golden_path(name), &(es_model_opts){.precision = ES_F64}, &b->model, &err));
    b->c = es_model_config_of(b->model);
    b->each = b->c->heads / b->c->kv_heads;
    b->d = b->c->head_dim;
    for (int i = 0; i < TOKENS; i++)
        b->ids[i] = (int32_t)((7 * i + 3) % b->c->vocab);
    for (int i = 0; i < QUERIES; i++) /* more than a chunk, the first and the last among them */
        b->queries[i] = PROMPT + i + (i > 3) + (i > 9) + (i > 15) + (i == QUERIES - 1);
    assert_int_equal(b->queries[QUERIES - 1], TOKENS - 1);
    for (int i = 0; i < TYPES; i++) {
        assert_ok(es_kv_format_parse(words[i][0], &b->types[i].k, &err));
        assert_ok(es_kv_format_parse(words[i][1], &b->types[i].v, &err));
    }
    for (int64_t i = 0; i < count; i++)
        assert_ok(es_evict_parse(policies[i], &b->policies[i], &err));
    b->spec = (es_late_spec){.mode = mode,
                             .prompt = mode == ES_EVICT_PROMPT ? PROMPT : 0,
                             .queries = b->queries,
                             .n_queries = QUERIES,
                             .types = b->types,
                             .n_types = TYPES,
                             .policies = b->policies,
                             .n_policies = count,
                             .keys = keys,
                             .n_keys = count ? KEYS : 0};
    assert_ok(es_late_check(&b->spec, TOKENS, &err));
    assert_ok(es_late_layer_new(b->c, &b->arena, &b->layer, &err));
    assert_ok(ES_ARENA_NEW(&b->arena, b->units, b->c->kv_heads, "units", &err));
    for (int64_t u = 0; u < b->c->kv_heads; u++) {
        const int64_t rows = QUERIES * b->each, settings = TYPES * count * KEYS;
        es_late_out *o = &b->units[u];
        o->full = numbers(b, rows * b->d);
        o->full_lse = numbers(b, rows);
        o->rounded = numbers(b, TYPES * rows * b->d);
        o->outputs = numbers(b, settings * rows * b->d);
        o->mass = numbers(b, settings * rows);
        assert_ok(ES_ARENA_NEW(&b->arena, o->rounding, TYPES * rows, "rounding", &err));
    }
    b->q = numbers(b, b->c->heads * TOKENS * b->d);
    b->k = numbers(b, b->c->kv_heads * TOKENS * b->d);
    b->v = numbers(b, b->c->kv_heads * TOKENS * b->d);
    const es_model_visit visit = {.head = see, .context = b, .plain = es_late_plain(&b->spec)};
    const es_model_block block = {.ids = b->ids, .n = TOKENS, .states = 2, .visit = &visit};
    assert_ok(es_model_forward(b->model, &block, 1, &(es_exec){.threads = 1}, &err));
}

static void close_bench(bench *b)
{
    es_arena_free(&b->arena);
    es_model_close(b->model);
}

/* ---- the forward pass ---- */

/* Outputs of a layer (heads, TOKENS, d). */
typedef struct outputs {
    double *at;
    int64_t d;
} outputs;

static es_status keep_output(void *context, const es_model_seen *seen, es_error *error)
{
    const outputs *o = context;
    (void)error;
    if (seen->layer == 0)
        memcpy(o->at + seen->head * TOKENS * o->d, seen->output,
               (size_t)(TOKENS * o->d) * sizeof(double));
    return ES_OK;
}

/* Runs the first layer by a cache that is the same for all units. */
static void run_cache(bench *b, es_evict_mode mode, const es_cache_unit *like, const double *oracle,
                      double *late, double *out)
{
    const int64_t all = b->c->layers * b->c->kv_heads;
    es_cache_unit *units = calloc((size_t)all, sizeof *units);
    es_cache_fill(like, PROMPT, b->c->layers, b->c->kv_heads, units);
    const es_cache cache = {
        .mode = mode, .prompt = PROMPT, .units = units, .oracle = oracle, .late = late};
    outputs o = {out, b->d};
    const es_model_visit visit = {.head = keep_output, .context = &o};
    const es_model_block block = {
        .ids = b->ids, .n = TOKENS, .states = 2, .visit = &visit, .cache = &cache};
    assert_ok(es_model_forward(b->model, &block, 1, &(es_exec){.threads = 1}, &err));
    free(units);
}

/* Largest distance of rows (QUERIES, each, d) of every unit from a layer's outputs, over the
 * largest number of these. `at` is the number of the setting. */
static double apart(const bench *b, const double *want, int64_t setting, bool rounded)
{
    double most = 0.0, largest = 0.0;
    for (int64_t h = 0; h < b->c->heads; h++) {
        const es_late_out *o = &b->units[h / b->each];
        const double *got = rounded ? o->rounded : o->outputs;
        for (int64_t i = 0; i < QUERIES; i++)
            for (int64_t c = 0; c < b->d; c++) {
                const int64_t row = (setting * QUERIES + i) * b->each + h % b->each;
                const double x = want[(h * TOKENS + b->queries[i]) * b->d + c];
                const double distance = fabs(got[row * b->d + c] - x);
                most = distance <= most ? most : distance; /* NaN counts */
                largest = fmax(largest, fabs(x));
            }
    }
    return most / largest;
}

/* Outputs are those of the forward pass with the same cache: sums of at most 48 numbers in another
 * order, 1e-10 as promised. */
static void prompt_mode_is_the_forward_pass(void **state)
{
    enum { POLICIES = sizeof prompt_policies / sizeof *prompt_policies };
    (void)state;
    for (int m = 0; m < KINDS; m++) {
        bench b;
        open_bench(&b, kinds[m], ES_EVICT_PROMPT, types, prompt_policies, POLICIES);
        double *out = numbers(&b, b.c->heads * TOKENS * b.d);
        double *late = numbers(&b, b.c->layers * b.c->kv_heads * PROMPT);
        run_cache(&b, ES_EVICT_NOTHING, &(es_cache_unit){0}, NULL, late, out);
        for (int64_t s = 0; s < TYPES * POLICIES * KEYS; s++) {
            es_cache_unit like = {.evict = b.policies[s / KEYS % POLICIES],
                                  .k = b.types[s / KEYS / POLICIES].k,
                                  .v = b.types[s / KEYS / POLICIES].v};
            like.evict.keys = keys[s % KEYS];
            run_cache(&b, ES_EVICT_PROMPT, &like, late, NULL, out);
            const double found = apart(&b, out, s, false);
            if (!(found < 1e-10))
                print_message("%s, types %lld, %s, %lld keys\n", kinds[m],
                              (long long)(s / KEYS / POLICIES),
                              prompt_policies[s / KEYS % POLICIES], (long long)keys[s % KEYS]);
            assert_below(found, 1e-10);
        }
        close_bench(&b);
    }
}

/* With every key kept and rounded, types that differ by the age of keys included. */
static void rounding_is_the_forward_pass(void **state)
{
    (void)state;
    for (int m = 0; m < 2 * KINDS; m++) {
        bench b;
        open_bench(&b, kinds[m / 2], ES_EVICT_NOTHING, m % 2 ? aged_types : types, NULL, 0);
        double *out = numbers(&b, b.c->heads * TOKENS * b.d);
        for (int64_t t = 0; t < TYPES; t++) {
            const es_cache_unit like = {.k = b.types[t].k, .v = b.types[t].v};
            run_cache(&b, ES_EVICT_NOTHING, &like, NULL, NULL, out);
            assert_below(apart(&b, out, t, true), 1e-10);
        }
        close_bench(&b);
    }
}

/* ---- plain loops ---- */

/* Rows (n, d) of unit u as the cache holds them, coarse and fine. */
typedef struct rows {
    double coarse[TOKENS][64], fine[TOKENS][64];
} rows;

static void hold(const bench *b, const es_kv_format *format, es_kv_side side, int64_t u, rows *out)
{
    const double *from = side == ES_KV_KEYS ? b->k : b->v;
    double peak = 0.0;
    assert_true(b->d <= 64);
    for (int64_t g = 0; g < b->c->kv_heads; g++) {
        const es_view all = {
            (double *)(uintptr_t)(from + g * TOKENS * b->d), ES_F64, TOKENS, b->d, b->d * 8, 8};
        peak = fmax(peak, format->scale_of_tensor ? es_kv_peak(format, &all) : 0.0);
    }
    for (int64_t i = 0; i < TOKENS; i++)
        for (int64_t c = 0; c < b->d; c++)
            out->coarse[i][c] = out->fine[i][c] = from[(u * TOKENS + i) * b->d + c];
    es_view v = {out->coarse, ES_F64, TOKENS, b->d, (int64_t)sizeof out->coarse[0], 8};
    es_kv_round(format, side, peak, &v);
    v.data = out->fine;
    if (es_kv_format_by_query(format))
        es_kv_round_fine(format, &v);
}

/* The row of place j that query i finds. */
static const double *found(const rows *r, const es_kv_format *format, es_kv_side side, int64_t i,
                           int64_t j)
{
    const bool fine = es_kv_format_by_query(format) && j >= es_kv_coarse_places(format, side, i);
    return fine ? r->fine[j] : r->coarse[j];
}

static double dot(const double *a, const double *x, int64_t d)
{
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++)
        sum += a[c] * x[c];
    return sum;
}

static double score(const bench *b, const double *q, const double *k)
{
    const double s = b->layer.scale * dot(q, k, b->d);
    return b->layer.cap > 0.0 ? b->layer.cap * tanh(s / b->layer.cap) : s;
}

static bool sees(const bench *b, int64_t i, int64_t j)
{
    return j <= i && (!b->layer.window || i - j < b->layer.window);
}

static double apart2(const double *a, const double *x, int64_t d)
{
    double sum = 0.0;
    for (int64_t c = 0; c < d; c++)
        sum += (a[c] - x[c]) * (a[c] - x[c]);
    return sum;
}

/* Softmax of query i of head h over keys k that are in: weights, and the largest score less ln of
 * the sum. */
static double weigh(const bench *b, int64_t h, int64_t i, const rows *k, const es_kv_format *format,
                    const bool *in, double *w)
{
    const double *q = b->q + (h * TOKENS + i) * b->d;
    double total = exp(b->layer.sinks[h]);
    for (int64_t j = 0; j < TOKENS; j++) {
        w[j] = in[j] && sees(b, i, j) ? exp(score(b, q, found(k, format, ES_KV_KEYS, i, j))) : 0.0;
        total += w[j];
    }
    for (int64_t j = 0; j < TOKENS; j++)
        w[j] /= total;
    return log(total);
}

/* Sums of (Q2) and what goes with them, key by key. */
static void first_order_by_hand(void **state)
{
    static rows k[2], v[2];
    (void)state;
    for (int m = 0; m < 2 * KINDS; m++) {
        const es_kv_format plain = {0};
        bool in[TOKENS];
        bench b;
        open_bench(&b, kinds[m / 2], ES_EVICT_NOTHING, m % 2 ? aged_types : types, NULL, 0);
        memset(in, 1, sizeof in);
        for (int64_t s = 0; s < TYPES * b.c->heads * QUERIES; s++) {
            const int64_t t = s / QUERIES / b.c->heads, h = s / QUERIES % b.c->heads;
            const int64_t i = b.queries[s % QUERIES], u = h / b.each;
            const int64_t row = s % QUERIES * b.each + h % b.each;
            const es_late_types *held = &b.types[t];
            const es_late_rounding *r = &b.units[u].rounding[t * QUERIES * b.each + row];
            double w[TOKENS], y[64] = {0}, sum[64] = {0}, q2 = 0.0, noise = 0.0, shift = 0.0,
                              risk = 0.0, spread2 = 0.0, squares = 0.0, sink = 1.0, values = 0.0;
            hold(&b, &plain, ES_KV_KEYS, u, &k[0]);
            hold(&b, &plain, ES_KV_VALUES, u, &v[0]);
            hold(&b, &held->k, ES_KV_KEYS, u, &k[1]);
            hold(&b, &held->v, ES_KV_VALUES, u, &v[1]);
            const double lse = weigh(&b, h, i, &k[0], &plain, in, w);
            for (int64_t j = 0; j <= i; j++)
                for (int64_t c = 0; c < b.d; c++)
                    y[c] += w[j] * v[0].coarse[j][c];
            for (int64_t j = 0; j <= i; j++) {
                const double *q = b.q + (h * TOKENS + i) * b.d;
                const double ds = score(&b, q, found(&k[1], &held->k, ES_KV_KEYS, i, j)) -
                                  score(&b, q, k[0].coarse[j]);
                const double *held_v = found(&v[1], &held->v, ES_KV_VALUES, i, j);
                const double dv = apart2(v[0].coarse[j], held_v, b.d);
                const double away = w[j] * w[j] * apart2(v[0].coarse[j], y, b.d);
                for (int64_t c = 0; c < b.d; c++)
                    sum[c] +=
                        w[j] * ((v[0].coarse[j][c] - y[c]) * ds + held_v[c] - v[0].coarse[j][c]);
                q2 += away * ds * ds + w[j] * w[j] * dv;
                noise += w[j] * ds * ds;
                shift += w[j] * ds;
                risk += away;
                values += w[j] * w[j] * dv;
                spread2 += w[j] * apart2(v[0].coarse[j], y, b.d);
                squares += w[j] * w[j];
                sink -= w[j];
            }
            spread2 += sink * dot(y, y, b.d); /* without a sink, 1e-16 of it */
            squares += sink * sink;
            /* differences of scores near 1 lose 16 - 3 of 16 digits at a noise of 1e-3 */
            assert_below(fabs(r->first_order - q2), 1e-9 * q2 + 1e-28);
            assert_below(fabs(r->linear - dot(sum, sum, b.d)), 1e-9 * q2 + 1e-26);
            assert_below(fabs(r->noise2 - noise), 1e-9 * noise + 1e-28);
            assert_below(fabs(r->shift - shift), 1e-9 * sqrt(noise) + 1e-14);
            assert_below(fabs(r->keys - risk), 1e-10 * risk);
            assert_below(fabs(r->spread2 - spread2), 1e-10 * spread2);
            assert_below(fabs(r->squares - squares), 1e-10 * squares);
            assert_below(fabs(r->values - values), 1e-9 * values + 1e-28);
            assert_below(fabs(b.units[u].full_lse[row] - lse), 1e-11);
            assert_below(apart2(b.units[u].full + row * b.d, y, b.d), 1e-20 * dot(y, y, b.d));
            const double *z = b.units[u].rounded + (t * QUERIES * b.each + row) * b.d;
            assert_below(fabs(r->square - apart2(y, z, b.d)), 1e-9 * r->square + 1e-26);
        }
        close_bench(&b);
    }
}

/* Decode mode as golden/cache B states it: units `first` .. `last` - 1 hold the same places. */
typedef struct list {
    int64_t place[TOKENS + 1], count;
    double sum[TOKENS + 1], weight[TOKENS + 1];
} list;

/* Does the key in a slot stay whatever it scores? */
static bool stays(const es_evict_spec *s, const list *held, int64_t slot, int64_t t)
{
    const int64_t first = s->sinks < s->keys ? s->sinks : s->keys, left = s->keys - first;
    const int64_t recent = s->recent < left ? s->recent : left;
    return held->place[slot] < first || held->place[slot] > t - recent;
}

/* Evicts one key: the oldest (stream), the smallest sum (h2o), the smallest weight (tova). */
static void evict(const bench *b, const es_evict_spec *s, list *held, int64_t t)
{
    const char *name = es_eviction_name(s->policy);
    int64_t goes = -1;
    double least = 0.0;
    for (int64_t i = 0; i < held->count; i++) {
        double value = *name == 's'   ? (double)held->place[i]
                       : *name == 'h' ? held->sum[i]
                                      : held->weight[i];
        if (!sees(b, t + 1, held->place[i]))
            value = -(double)INFINITY;
        else if (stays(s, held, i, t))
            continue;
        if (goes < 0 || value < least || (value == least && held->place[i] > held->place[goes])) {
            goes = i;
            least = value;
        }
    }
    held->count--;
    for (int64_t i = goes; i < held->count; i++) {
        held->place[i] = held->place[i + 1];
        held->sum[i] = held->sum[i + 1];
    }
}

/* Runs heads `first` .. `last` - 1 token by token; out (heads, TOKENS, d). */
static void decode(const bench *b, const es_evict_spec *s, const es_late_types *held_as,
                   int64_t first, int64_t last, double *out, double *mass)
{
    static rows k[8], v[8], plain_k;
    const es_kv_format plain = {0};
    list held = {.count = 0};
    assert_true(b->c->kv_heads <= 8);
    for (int64_t u = first / b->each; u < last / b->each; u++) {
        hold(b, &held_as->k, ES_KV_KEYS, u, &k[u]);
        hold(b, &held_as->v, ES_KV_VALUES, u, &v[u]);
    }
    for (int64_t t = 0; t < TOKENS; t++) {
        held.place[held.count] = t;
        held.sum[held.count++] = 0.0;
        memset(held.weight, 0, sizeof held.weight);
        for (int64_t h = first; h < last; h++) {
            const int64_t u = h / b->each;
            bool in[TOKENS] = {false}, all[TOKENS];
            double w[TOKENS], full[TOKENS], *y = out + (h * TOKENS + t) * b->d;
            memset(all, 1, sizeof all);
            for (int64_t i = 0; i < held.count; i++)
                in[held.place[i]] = true;
            weigh(b, h, t, &k[u], &held_as->k, in, w);
            hold(b, &plain, ES_KV_KEYS, u, &plain_k);
            weigh(b, h, t, &plain_k, &plain, all, full);
            memset(y, 0, (size_t)b->d * sizeof *y);
            for (int64_t i = 0; i < held.count; i++) {
                held.weight[i] += w[held.place[i]];
                for (int64_t c = 0; c < b->d; c++)
                    y[c] += w[held.place[i]] * v[u].coarse[held.place[i]][c];
            }
            mass[h * TOKENS + t] = 1.0;
            for (int64_t j = 0; j < TOKENS; j++)
                mass[h * TOKENS + t] -= in[j] ? 0.0 : full[j];
        }
        for (int64_t i = 0; i < held.count; i++)
            held.sum[i] += held.weight[i];
        if (held.count > s->keys)
            evict(b, s, &held, t);
    }
}

static void decode_mode_by_hand(void **state)
{
    enum { POLICIES = sizeof decode_policies / sizeof *decode_policies };
    (void)state;
    for (int m = 0; m < KINDS; m++) {
        bench b;
        open_bench(&b, kinds[m], ES_EVICT_DECODE, types, decode_policies, POLICIES);
        double *out = numbers(&b, b.c->heads * TOKENS * b.d);
        double *mass = numbers(&b, b.c->heads * TOKENS);
        for (int64_t s = 0; s < TYPES * POLICIES * KEYS; s++) {
            es_evict_spec spec = b.policies[s / KEYS % POLICIES];
            spec.keys = keys[s % KEYS];
            spec = es_evict_resolve(&spec, ES_EVICT_DECODE);
            const int64_t step =
                strcmp(decode_policies[s / KEYS % POLICIES], "tova") == 0 ? b.c->heads : b.each;
            for (int64_t h = 0; h < b.c->heads; h += step)
                decode(&b, &spec, &b.types[s / KEYS / POLICIES], h, h + step, out, mass);
            const double off = apart(&b, out, s, false);
            if (!(off < 1e-10))
                print_message("%s, types %lld, %s, %lld keys\n", kinds[m],
                              (long long)(s / KEYS / POLICIES),
                              decode_policies[s / KEYS % POLICIES], (long long)keys[s % KEYS]);
            assert_below(off, 1e-10);
            for (int64_t h = 0; h < b.c->heads; h++)
                for (int64_t i = 0; i < QUERIES; i++) {
                    const int64_t row = (s * QUERIES + i) * b.each + h % b.each;
                    const double want = mass[h * TOKENS + b.queries[i]];
                    assert_below(fabs(b.units[h / b.each].mass[row] - want), 1e-12);
                }
        }
        close_bench(&b);
    }
}

/* Mass in prompt mode: with keys by place alone, sums of the full model's weights. */
static void mass_of_prompt_mode(void **state)
{
    static const char *const stream[] = {"stream:sinks=2"};
    static rows k;
    (void)state;
    for (int m = 0; m < KINDS; m++) {
        const es_kv_format plain = {0};
        bench b;
        open_bench(&b, kinds[m], ES_EVICT_PROMPT, types, stream, 1);
        for (int64_t s = 0; s < TYPES * KEYS * QUERIES * b.c->heads; s++) {
            const int64_t h = s % b.c->heads, i = s / b.c->heads % QUERIES;
            const int64_t setting = s / b.c->heads / QUERIES, kept = keys[setting % KEYS];
            bool in[TOKENS];
            double w[TOKENS], want = 1.0;
            memset(in, 1, sizeof in);
            hold(&b, &plain, ES_KV_KEYS, h / b.each, &k);
            weigh(&b, h, b.queries[i], &k, &plain, in, w);
            for (int64_t j = 0; j < PROMPT; j++)
                if (!(j < 2 && j < kept) && j < PROMPT - (kept > 2 ? kept - 2 : 0))
                    want -= w[j];
            const int64_t row = (setting * QUERIES + i) * b.each + h % b.each;
            assert_below(fabs(b.units[h / b.each].mass[row] - want), 1e-12);
        }
        close_bench(&b);
    }
}

/* ---- refusals ---- */

static void refuse(const es_late_spec *spec, es_status status, const char *rule)
{
    assert_int_equal(es_late_check(spec, TOKENS, &err), status);
    assert_string_equal(err.rule, rule);
}

static void what_cannot_be_is_refused(void **state)
{
    es_late_types held[1] = {{{0}, {0}}};
    es_evict_spec policy;
    es_late_spec spec = {.mode = ES_EVICT_PROMPT,
                         .prompt = PROMPT,
                         .queries = (const int64_t[]){PROMPT, 30},
                         .n_queries = 2,
                         .types = held,
                         .n_types = 1,
                         .policies = &policy,
                         .n_policies = 1,
                         .keys = (const int64_t[]){4, 8},
                         .n_keys = 2};
    (void)state;
    assert_ok(es_evict_parse("h2o", &policy, &err));
    assert_ok(es_late_check(&spec, TOKENS, &err));
    es_late_spec wrong = spec;
    wrong.prompt = TOKENS;
    refuse(&wrong, ES_E_RANGE, "late.prompt");
    wrong = spec;
    wrong.queries = (const int64_t[]){PROMPT - 1, 30};
    refuse(&wrong, ES_E_RANGE, "late.queries");
    wrong.queries = (const int64_t[]){PROMPT, TOKENS};
    refuse(&wrong, ES_E_RANGE, "late.queries");
    wrong = spec;
    wrong.keys = (const int64_t[]){4, 4};
    refuse(&wrong, ES_E_RANGE, "late.keys");
    wrong.keys = (const int64_t[]){0, 4};
    refuse(&wrong, ES_E_RANGE, "late.keys");
    assert_ok(es_evict_parse("h2o:alpha=0.2", &policy, &err));
    refuse(&spec, ES_E_UNSUPPORTED, "late.together");
    assert_ok(es_evict_parse("h2o:beta=20", &policy, &err));
    refuse(&spec, ES_E_UNSUPPORTED, "late.together");
    assert_ok(es_evict_parse("snapkv", &policy, &err));
    wrong = spec;
    wrong.mode = ES_EVICT_DECODE;
    refuse(&wrong, ES_E_ARGUMENT, "evict.mode");
    assert_ok(es_kv_format_parse("kivi2", &held[0].v, &err));
    refuse(&spec, ES_E_UNSUPPORTED, "late.together");
    spec.n_policies = 0;
    assert_ok(es_late_check(&spec, TOKENS, &err));
}

TEST_FILE(late_outputs)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_mode_is_the_forward_pass),
        cmocka_unit_test(rounding_is_the_forward_pass),
        cmocka_unit_test(first_order_by_hand),
        cmocka_unit_test(decode_mode_by_hand),
        cmocka_unit_test(mass_of_prompt_mode),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
