/* SPDX-License-Identifier: Apache-2.0 */
/* test_decoder_config.c : configurations and weights of decoders, each broken in one place (CF01 to
 * CF09, CF21), and texts too long for them (TX02). They are the ten of tests/golden/decoders, which
 * work as they are: test_decoders.c. */
#include "golden.h"
#include "st_writer.h"

#include <esscher/model.h>

#include "model/arch.h"
#include "model/model.h"

static const char *const names[] = {"llama",          "llama-linear", "llama-yarn", "llama3-rope",
                                    "mistral-window", "qwen2",        "qwen3",      "gpt2",
                                    "neox",           "neox-serial"};
enum { NAMES = sizeof names / sizeof names[0] };

/* ---- config.json with one thing changed ---- */

static json_t *config_of(const char *name)
{
    char rest[64];
    snprintf(rest, sizeof rest, "decoders/%s/config.json", name);
    return golden_file(rest);
}

/* `key` has another value, a JSON text; NULL: it is left out. A key "a/b" is b of the object a.
 * With rope_parameters there is no rope_theta outside, as in newer files. */
static char *config_with(const char *name, const char *key, const char *value)
{
    json_t *config = config_of(name), *at = config;
    const char *slash = strchr(key, '/');
    if (slash) {
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(slash - key), key);
        at = json_object_get(config, outer);
        assert_non_null(at);
        key = slash + 1;
    }
    if (strcmp(key, "rope_parameters") == 0)
        json_object_del(at, "rope_theta");
    if (value) {
        json_t *now = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(now);
        json_object_set_new(at, key, now);
    } else {
        assert_int_equal(json_object_del(at, key), 0); /* it was there */
    }
    char *text = json_dumps(config, 0);
    assert_non_null(text);
    json_decref(config);
    return text;
}

static es_status parse(const char *text, es_model_config *c)
{
    return es_config_parse((const unsigned char *)text, strlen(text), "config.json", c, &err);
}

/* A refusal names the rule, and in its message or its hint the field. */
static void refuse_with_value(const char *name, const char *key, const char *value,
                              es_status status, const char *rule, const char *named)
{
    es_model_config c;
    char *text = config_with(name, key, value);
    const es_status got = parse(text, &c);
    if (got != status || strcmp(err.rule, rule) != 0)
        fail_msg("%s: %s = %s: %s %s (%s), expected %s %s", name, key, value ? value : "nothing",
                 es_status_name(got), err.rule, err.message, es_status_name(status), rule);
    if (!strstr(err.message, named) && !strstr(err.hint, named))
        fail_msg("%s: %s = %s: \"%s\" names no %s", name, key, value, err.message, named);
    assert_string_equal(err.file, "config.json");
    assert_true(err.hint[0]);
    free(text);
}

static void accept_value(const char *name, const char *key, const char *value, es_model_config *c)
{
    char *text = config_with(name, key, value);
    if (parse(text, c) != ES_OK)
        fail_msg("%s: %s = %s: %s", name, key, value ? value : "nothing", err.message);
    free(text);
}

static bool is_gpt2(const char *name) { return strcmp(name, "gpt2") == 0; }
static bool is_neox(const char *name) { return strncmp(name, "neox", 4) == 0; }

/* Those that are made like Llama. */
static bool is_llama(const char *name) { return !is_gpt2(name) && !is_neox(name); }

static void what_is_there_is_understood(void **state)
{
    (void)state;
    es_model_config c;
    for (int i = 0; i < NAMES; i++) {
        json_t *config = config_of(names[i]);
        char *text = json_dumps(config, 0);
        assert_ok(parse(text, &c));
        assert_true(c.causal);
        assert_int_equal(c.hidden, 48);
        assert_int_equal(c.layers, 3);
        assert_int_equal(c.vocab, 96);
        assert_int_equal(c.query_width, c.heads * c.head_dim);
        assert_int_equal(c.kv_width, c.kv_heads * c.head_dim);
        assert_int_equal(c.kv_heads, is_llama(names[i]) ? 2 : c.heads);
        assert_string_equal(c.model_type, json_string_value(json_object_get(config, "model_type")));
        free(text);
        json_decref(config);
    }
    accept_value("mistral-window", "head_dim", "16", &c);
    assert_equals(es_model_layer(&c, 0)->window, 24);
    assert_equals(c.head_dim, 16);
    assert_equals(c.query_width, 96);
    accept_value("mistral-window", "sliding_window", "null", &c);
    assert_int_equal(es_model_layer(&c, 0)->window, 0);
    accept_value("llama", "num_key_value_heads", NULL, &c); /* before groups there were none */
    assert_int_equal(c.kv_heads, 6);
    accept_value("llama", "head_dim", "null", &c);
    assert_int_equal(c.head_dim, 8);
    accept_value("llama", "rope_scaling", "null", &c);
    accept_value("llama", "model_type", NULL, &c); /* the architecture says it */
    assert_string_equal(c.model_type, "llama");
    accept_value("qwen2", "sliding_window", "131072", &c); /* not used, as every Qwen has it */
    assert_int_equal(es_model_layer(&c, 0)->window, 0);
}

static void CF01_missing_fields_of_decoders(void **state)
{
    (void)state;
    static const char *const of_llama[] = {"hidden_size",         "num_hidden_layers",
                                           "num_attention_heads", "intermediate_size",
                                           "vocab_size",          "max_position_embeddings"};
    static const char *const of_gpt2[] = {"n_embd", "n_layer", "n_head", "n_positions",
                                          "vocab_size"};
    for (int i = 0; i < NAMES; i++) {
        const char *const *keys = is_gpt2(names[i]) ? of_gpt2 : of_llama;
        for (int k = 0; k < (is_gpt2(names[i]) ? 5 : 6); k++)
            refuse_with_value(names[i], keys[k], NULL, ES_E_FORMAT, "config.missing", keys[k]);
    }
}

static void CF02_numbers_of_decoders_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const values[] = {"0",   "-6",   "2147483648", "\"6\"",
                                         "6.5", "1e30", "true",       "[6]"};
    static const char *const of_llama[] = {
        "hidden_size",       "num_hidden_layers",       "num_attention_heads", "vocab_size",
        "intermediate_size", "max_position_embeddings", "num_key_value_heads", "head_dim"};
    static const char *const of_gpt2[] = {"n_embd", "n_layer", "n_head", "n_positions", "n_inner"};
    for (int i = 0; i < NAMES; i++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            const char *const *keys = is_gpt2(names[i]) ? of_gpt2 : of_llama;
            for (int k = 0; k < (is_gpt2(names[i]) ? 5 : is_neox(names[i]) ? 6 : 8); k++)
                refuse_with_value(names[i], keys[k], values[v], ES_E_FORMAT, "config.range",
                                  keys[k]);
        }
    /* heads that do not share evenly */
    refuse_with_value("llama", "num_attention_heads", "7", ES_E_FORMAT, "config.heads",
                      "num_attention_heads 7");
    refuse_with_value("llama", "num_key_value_heads", "4", ES_E_FORMAT, "config.heads",
                      "num_key_value_heads 4");
    refuse_with_value("llama", "num_key_value_heads", "12", ES_E_FORMAT, "config.heads",
                      "num_attention_heads 6");
    refuse_with_value("gpt2", "n_head", "7", ES_E_FORMAT, "config.heads", "n_head 7");
    refuse_with_value("neox", "num_attention_heads", "5", ES_E_FORMAT, "config.heads",
                      "hidden_size 48");
    refuse_with_value("mistral-window", "num_key_value_heads", "5", ES_E_FORMAT, "config.heads",
                      "num_key_value_heads 5");
    /* windows */
    refuse_with_value("mistral-window", "sliding_window", "-2", ES_E_FORMAT, "config.range",
                      "sliding_window");
    refuse_with_value("mistral-window", "sliding_window", "\"24\"", ES_E_FORMAT, "config.range",
                      "sliding_window");
}

static void CF05_decoders_that_are_others(void **state)
{
    (void)state;
    static const char *const types[] = {
        "\"gemma4\"", "\"dbrx\"", "\"phi\"",    "\"qwen2_moe\"",  "\"falcon\"", "\"bloom\"",
        "\"mpt\"",    "\"t5\"",   "\"llama4\"", "\"qwen3_next\"", "\"Llama\"",  "\"gptj\""};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        refuse_with_value("llama", "model_type", types[i], ES_E_UNSUPPORTED, "config.model",
                          "llama");
    static const char *const activations[] = {"\"gelu_quick\"", "\"tanh\"", "\"sigmoid\"",
                                              "\"SiLU\""};
    for (int i = 0; i < NAMES; i++)
        for (size_t a = 0; a < sizeof activations / sizeof *activations; a++)
            refuse_with_value(names[i], is_gpt2(names[i]) ? "activation_function" : "hidden_act",
                              activations[a], ES_E_UNSUPPORTED, "config.activation",
                              is_gpt2(names[i]) ? "activation_function" : "hidden_act");
    refuse_with_value("llama", "hidden_act", "\"gelu\"", ES_E_UNSUPPORTED, "config.activation",
                      "silu");
}

static void CF05_what_would_change_the_function(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *rule;
    } all[] = {{"quantization_config", "{\"quant_method\":\"awq\",\"bits\":4}", "config.quantised"},
               {"num_experts", "8", "config.function"},
               {"num_local_experts", "8", "config.function"},
               {"n_routed_experts", "64", "config.function"},
               {"alibi", "true", "config.function"},
               {"final_logit_softcapping", "30.0", "config.function"},
               {"attn_logit_softcapping", "50.0", "config.function"},
               {"logit_scale", "0.0625", "config.function"},
               {"residual_multiplier", "0.22", "config.function"},
               {"embedding_multiplier", "12", "config.function"},
               {"attention_multiplier", "0.0078125", "config.function"},
               {"add_cross_attention", "true", "config.function"},
               {"is_encoder_decoder", "true", "config.function"},
               {"is_causal", "false", "config.function"},
               {"use_bidirectional_attention", "true", "config.function"},
               {"use_qk_norm", "true", "config.function"},
               {"clip_qkv", "8.0", "config.function"},
               {"use_logn_attn", "true", "config.function"},
               {"layer_types", "[\"linear_attention\"]", "config.window"}};
    static const char *const nothing[] = {"null", "false", "0", "[]", "{}", "\"\"", "0.0"};
    es_model_config c;
    for (int i = 0; i < NAMES; i++) {
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            refuse_with_value(names[i], all[k].key, all[k].value, ES_E_UNSUPPORTED, all[k].rule,
                              all[k].key);
        for (size_t n = 0; n < sizeof nothing / sizeof *nothing; n++)
            accept_value(names[i], "num_experts", nothing[n], &c);
    }
    refuse_with_value("llama", "sliding_window", "4096", ES_E_UNSUPPORTED, "config.window",
                      "sliding_window");
    refuse_with_value("gpt2", "scale_attn_weights", "false", ES_E_UNSUPPORTED, "config.function",
                      "scale_attn_weights");
    refuse_with_value("gpt2", "scale_attn_by_inverse_layer_idx", "true", ES_E_UNSUPPORTED,
                      "config.function", "scale_attn_by_inverse_layer_idx");
    accept_value("gpt2", "scale_attn_weights", "true", &c);
}

/* Layers decide whether there is a window, sliding_window how wide it is; 0 and -1 are none. */
static void CF21_windows_and_layers(void **state)
{
    (void)state;
#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""
    es_model_config c;
    static const char *const none[] = {"0", "-1", "null", "0.0"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        accept_value("mistral-window", "sliding_window", none[i], &c);
        assert_int_equal(es_model_layer(&c, 0)->window, 0);
        accept_value("llama", "sliding_window", none[i], &c);
        assert_int_equal(es_model_layer(&c, 0)->window, 0);
    }
    refuse_with_value("llama", "sliding_window", "-2", ES_E_UNSUPPORTED, "config.window",
                      "sliding_window");
    accept_value("mistral-window", "layer_types", "[" FULL "," FULL "," FULL "]", &c);
    assert_int_equal(es_model_layer(&c, 0)->window, 0);
    accept_value("mistral-window", "layer_types", "[" SLIDING "," SLIDING "," SLIDING "]", &c);
    assert_int_equal(es_model_layer(&c, 0)->window, 24);
    accept_value("mistral-window", "layer_types", "[]", &c);
    assert_int_equal(es_model_layer(&c, 0)->window, 24);
    accept_value("mistral-window", "layer_types", "[" SLIDING "," FULL "," SLIDING "]", &c);
    assert_int_equal(es_model_layer(&c, 0)->window, 24);
    assert_int_equal(es_model_layer(&c, 1)->window, 0);
    assert_int_equal(es_model_layer(&c, 2)->window, 24);
    refuse_with_value("mistral-window", "layer_types", "[" SLIDING "," FULL "]", ES_E_FORMAT,
                      "config.layers", "2 entries for 3 layers");
    refuse_with_value("mistral-window", "layer_types", "[\"chunked_attention\"]", ES_E_UNSUPPORTED,
                      "config.window", "chunked_attention");
    refuse_with_value("mistral-window", "layer_types", "[null]", ES_E_UNSUPPORTED, "config.window",
                      "layer_types");
    /* a window that nobody states */
    refuse_with_value("llama", "layer_types", "[" SLIDING "," SLIDING "," SLIDING "]",
                      ES_E_UNSUPPORTED, "config.window", "sliding_attention");
    /* Qwen's counts if use_sliding_window says so, from layer max_window_layers on, which is 28 */
    accept_value("qwen2", "use_sliding_window", "true", &c);
    assert_int_equal(es_model_layer(&c, 2)->window, 0);
}

/* Newer files state rotary positions for each type of layers, and every key of them counts. */
static void CF21_rotary_positions_by_layer_type(void **state)
{
    (void)state;
#define YARN(theta)                                                                                \
    "{\"rope_type\":\"yarn\",\"factor\":4.0,\"rope_theta\":" theta                                 \
    ",\"original_max_position_embeddings\":64}"
    es_model_config c;
    accept_value("llama", "rope_parameters", "{" FULL ":{\"rope_theta\":500000.0}}", &c);
    assert_near(c.rotary.theta, 500000.0, 0.0);
    accept_value("llama", "rope_parameters",
                 "{" FULL ":" YARN("7e5") "," SLIDING ":" YARN("7e5") "}", &c);
    assert_near(c.rotary.theta, 7e5, 0.0);
    assert_near(c.rotary.factor, 4.0, 0.0);
    assert_string_equal(c.rotary.type, "yarn");
    accept_value("llama", "rope_parameters", "{" FULL ":" YARN("7e5") "," SLIDING ":null}", &c);
    assert_near(c.rotary.theta, 7e5, 0.0);
    assert_int_equal(es_model_layer(&c, 0)->rotary, 0);
    accept_value("llama", "rope_parameters",
                 "{" FULL ":" YARN("7e5") "," SLIDING ":" YARN("1e4") "}", &c);
    assert_near(c.rotary.theta, 7e5, 0.0);
    assert_near(c.rotary_local.theta, 1e4, 0.0);
    refuse_with_value("llama", "rope_parameters",
                      "{" FULL ":{\"rope_theta\":5e5},\"rope_theta\":5e5}", ES_E_UNSUPPORTED,
                      "config.rotary", "full_attention");
    refuse_with_value("llama", "rope_parameters", "{" FULL ":{" FULL ":{\"rope_theta\":5e5}}}",
                      ES_E_UNSUPPORTED, "config.rotary", "full_attention");
    refuse_with_value("llama", "rope_parameters", "{\"linear_attention\":{\"rope_theta\":5e5}}",
                      ES_E_UNSUPPORTED, "config.rotary", "linear_attention");
    /* theta in two places: the same, or refused */
    accept_value("llama", "rope_scaling", "{\"rope_theta\":10000.0}", &c);
    refuse_with_value("llama", "rope_scaling", "{\"rope_theta\":5e5}", ES_E_FORMAT, "config.rotary",
                      "500000");
    /* keys that are not known */
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        refuse_with_value("llama", objects[i],
                          "{\"rope_type\":\"default\",\"llama_4_scaling_beta\":0.1}",
                          ES_E_UNSUPPORTED, "config.rotary", "llama_4_scaling_beta");
        refuse_with_value("llama", objects[i], "{" FULL ":{\"short_factor\":[1.0,2.0]}}",
                          ES_E_UNSUPPORTED, "config.rotary", "short_factor");
        refuse_with_value("llama", objects[i], "{\"attn_factor\":2.0}", ES_E_UNSUPPORTED,
                          "config.rotary", "attn_factor");
        accept_value("llama", objects[i],
                     "{\"rope_type\":\"default\",\"short_factor\":null,\"finetuned\":true,"
                     "\"attn_factor\":1.0,\"low_freq_factor\":null}",
                     &c);
        assert_string_equal(c.rotary.type, "default");
    }
}

/* What files leave open, or say twice. 256 positions, 64 of them original. */
static void rotary_positions_by_rule(void **state)
{
    (void)state;
    es_model_config c;
    accept_value("llama-yarn", "rope_scaling/factor", NULL, &c);
    assert_near(c.rotary.factor, 4.0, 0.0);
    accept_value("llama-yarn", "rope_scaling/factor", "null", &c);
    assert_near(c.rotary.factor, 4.0, 0.0);
    /* A stated factor counts, as for checkpoints that state 40960 positions, 32768 original ones
     * and a factor of 4. */
    accept_value("llama-yarn", "max_position_embeddings", "80", &c);
    assert_near(c.rotary.factor, 4.0, 0.0);
    assert_int_equal(c.positions, 256);
    accept_value("llama-linear", "rope_scaling/factor", "4.0", &c);
    assert_int_equal(c.positions, 1024);
    /* dynamic's base is what max_position_embeddings says */
    accept_value("llama-yarn", "rope_scaling/rope_type", "\"dynamic\"", &c);
    assert_near(c.rotary.original, 256.0, 0.0);
    assert_int_equal(c.positions, 1024);
    /* the newer name of the type wins, whichever comes last */
    accept_value("llama-yarn", "rope_scaling/type", "\"linear\"", &c);
    assert_string_equal(c.rotary.type, "yarn");
}

static void CF05_rotary_positions(void **state)
{
    (void)state;
    static const char *const types[] = {"\"su\"", "\"YARN\"", "\"mrope\"", "\"ntk\""};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        refuse_with_value("llama-yarn", "rope_scaling/rope_type", types[i], ES_E_UNSUPPORTED,
                          "config.rotary", "yarn");
        refuse_with_value("llama-linear", "rope_scaling/type", types[i], ES_E_UNSUPPORTED,
                          "config.rotary", "linear");
    }
    /* without what the type needs */
    refuse_with_value("llama-linear", "rope_scaling/factor", NULL, ES_E_FORMAT, "config.rotary",
                      "factor");
    refuse_with_value("llama", "rope_scaling", "{\"factor\":8}", ES_E_FORMAT, "config.rotary",
                      "no type");
    refuse_with_value("llama", "rope_scaling", "{\"rope_type\":\"yarn\"}", ES_E_FORMAT,
                      "config.rotary", "factor");
    refuse_with_value("llama3-rope", "rope_scaling/low_freq_factor", NULL, ES_E_FORMAT,
                      "config.rotary", "low_freq_factor");
    refuse_with_value("llama3-rope", "rope_scaling/high_freq_factor", "1.0", ES_E_FORMAT,
                      "config.rotary", "high_freq_factor");
    refuse_with_value("llama3-rope", "rope_scaling/original_max_position_embeddings", NULL,
                      ES_E_FORMAT, "config.rotary", "original_max_position_embeddings");
    /* numbers that are none */
    static const char *const factors[] = {"0", "-4", "\"4\"", "1e30", "[4]"};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        refuse_with_value("llama-linear", "rope_scaling/factor", factors[i], ES_E_FORMAT,
                          "config.range", "factor");
    static const char *const thetas[] = {"0", "1", "-10000", "\"10000\"", "1e400"};
    for (size_t i = 0; i < sizeof thetas / sizeof *thetas; i++) {
        if (strcmp(thetas[i], "1e400") != 0) /* jansson does not read it */
            refuse_with_value("llama", "rope_theta", thetas[i], ES_E_FORMAT, "config.range",
                              "rope_theta");
    }
    /* channels that do not come in pairs */
    refuse_with_value("llama", "head_dim", "7", ES_E_FORMAT, "config.rotary", "even");
    refuse_with_value("neox", "rotary_pct", "0.1", ES_E_FORMAT, "config.rotary", "even");
    refuse_with_value("neox", "rotary_pct", "1.5", ES_E_FORMAT, "config.range", "rotary_pct");
    refuse_with_value("neox", "rotary_pct", "0", ES_E_FORMAT, "config.range", "rotary_pct");
}

static void CF07_norms_of_decoders(void **state)
{
    (void)state;
    static const char *const values[] = {"0", "-1e-5", "1e-40", "1", "\"1e-5\"", "null"};
    for (int i = 0; i < NAMES; i++) {
        const char *key = is_gpt2(names[i])   ? "layer_norm_epsilon"
                          : is_neox(names[i]) ? "layer_norm_eps"
                                              : "rms_norm_eps";
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            refuse_with_value(names[i], key, values[v], ES_E_FORMAT, "config.range", key);
    }
}

/* ---- weights ---- */

/* Name of one more tensor, of one number, at the end of the file; NULL: none. */
static const char *extra;

/* The tensors of a golden checkpoint in the test's folder, under other names: `rename` is given
 * each and returns new memory, or NULL to leave it out. */
static void write_weights(const char *name, char *(*rename)(const char *tensor))
{
    char rest[64];
    unsigned char length[8];
    uint64_t size = 0;
    snprintf(rest, sizeof rest, "decoders/%s/model.safetensors", name);
    FILE *file = fopen(golden_path(rest), "rb");
    assert_non_null(file);
    assert_int_equal(fread(length, 1, 8, file), 8);
    for (int i = 8; i-- > 0;)
        size = size << 8 | length[i];
    char *header = calloc(1, (size_t)size + 1);
    assert_non_null(header);
    assert_int_equal(fread(header, 1, (size_t)size, file), size);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(file) - 8 - (size_t)size;
    unsigned char *data = calloc(1, bytes + sizeof(float));
    assert_non_null(data);
    assert_int_equal(fseek(file, (long)(8 + size), SEEK_SET), 0);
    assert_int_equal(fread(data, 1, bytes, file), bytes);
    fclose(file);
    json_t *all = json_loads(header, 0, NULL), *now = json_object();
    const char *key;
    json_t *value;
    assert_non_null(all);
    json_object_foreach(all, key, value)
    {
        char *other = rename(key);
        if (other)
            json_object_set(now, other, value);
        free(other);
    }
    if (extra) {
        json_object_set_new(now, extra,
                            json_pack("{s:s,s:[i],s:[I,I]}", "dtype", "F32", "shape", 1,
                                      "data_offsets", (json_int_t)bytes,
                                      (json_int_t)(bytes + sizeof(float))));
        bytes += sizeof(float);
    }
    char *text = json_dumps(now, JSON_COMPACT);
    write_st_raw("model.safetensors", strlen(text), text, strlen(text), data, bytes);
    free(text);
    json_decref(now);
    json_decref(all);
    free(header);
    free(data);
}

static char *same(const char *tensor) { return strdup(tensor); }

static char *joined(const char *a, const char *b)
{
    char *out = malloc(strlen(a) + strlen(b) + 1);
    assert_non_null(out);
    return strcat(strcpy(out, a), b);
}

static char *with_transformer(const char *tensor) { return joined("transformer.", tensor); }

static char *with_some_transformer(const char *tensor)
{
    return strncmp(tensor, "h.1.", 4) == 0 ? with_transformer(tensor) : same(tensor);
}

static char *without_model(const char *tensor)
{
    return strncmp(tensor, "model.", 6) == 0 ? same(tensor + 6) : same(tensor);
}

static char *without_head(const char *tensor)
{
    return strcmp(tensor, "lm_head.weight") == 0 ? joined("other.", tensor) : same(tensor);
}

static char *with_bias(const char *tensor)
{
    return strcmp(tensor, "model.layers.1.input_layernorm.weight") == 0
               ? same("model.layers.1.self_attn.q_proj.bias")
               : same(tensor);
}

/* A checkpoint of the test's folder: weights, and a configuration with one thing changed. */
static es_status open_with(const char *name, char *(*rename)(const char *tensor), const char *key,
                           const char *value, es_model **out)
{
    char *text = key ? config_with(name, key, value) : config_with(name, "dropout", "0");
    count_files(true);
    write_weights(name, rename);
    write_file("config.json", text, strlen(text));
    free(text);
    return es_model_open(folder, NULL, out, &err);
}

static void refuse_model(const char *name, char *(*rename)(const char *tensor), const char *key,
                         const char *value, const char *rule, const char *part)
{
    es_model *m = NULL;
    const es_status status = open_with(name, rename, key, value, &m);
    if (status != ES_E_FORMAT || strcmp(err.rule, rule) != 0 || !strstr(err.message, part))
        fail_msg("%s: %s = %s: %s %s (%s), expected %s and %s", name, key ? key : "",
                 value ? value : "", es_status_name(status), err.rule, err.message, rule, part);
    assert_null(m);
}

static void CF03_shapes_of_decoders_disagree(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        refuse_model(names[i], same, "vocab_size", "97", "model.shape",
                     "[96, 48]; config.json requires [97, 48]");
    refuse_model("llama", same, "num_key_value_heads", "3", "model.shape",
                 "[16, 48]; config.json requires [24, 48]");
    refuse_model("llama", same, "head_dim", "10", "model.shape",
                 "[48, 48]; config.json requires [60, 48]");
    refuse_model("qwen3", same, "head_dim", "18", "model.shape", "config.json requires");
    refuse_model("qwen2", same, "intermediate_size", "88", "model.shape", "[88, 48]");
    refuse_model("gpt2", same, "n_positions", "64", "model.shape", "[128, 48]");
    refuse_model("gpt2", same, "n_inner", "100", "model.shape", "[48, 100]"); /* transposed */
    refuse_model("neox", same, "intermediate_size", "90", "model.shape", "[90, 48]");
    /* a bias that is there, or is not, against what the configuration says */
    refuse_model("llama", same, "attention_bias", "true", "model.tensor", "bias");
    refuse_model("neox", same, "attention_bias", "false", "model.tensor", "bias");
    refuse_model("llama", with_bias, NULL, NULL, "model.tensor", "layers.1.");
}

static char *with_norm(const char *tensor)
{
    char *copy = same(tensor);
    char *at = strstr(copy, "2.mlp.up_proj");
    if (at)
        memcpy(at, "2.mlp.up_norm", strlen("2.mlp.up_norm"));
    return copy;
}

/* A tensor that its type does not have would change what is computed; buffers would not. */
static void CF03_tensors_that_no_decoder_of_the_type_has(void **state)
{
    (void)state;
    es_model *m = NULL;
    assert_int_equal(open_with("llama", with_norm, NULL, NULL, &m), ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "model.unknown");
    assert_non_null(strstr(err.message, "layers.2.mlp.up_norm.weight"));
    assert_null(m);
}

/* Biases that its type does not have, wherever they are. */
static void CF03_biases_that_no_decoder_of_the_type_has(void **state)
{
    (void)state;
    static const struct {
        const char *name, *tensor;
    } all[] = {{"llama", "model.norm.bias"},
               {"llama", "model.layers.1.input_layernorm.bias"},
               {"llama", "model.layers.2.post_attention_layernorm.beta"},
               {"llama", "model.embed_tokens.bias"},
               {"llama", "lm_head.bias"}, /* tied */
               {"llama3-rope", "lm_head.bias"},
               {"qwen3", "model.layers.0.self_attn.q_norm.bias"},
               {"gpt2", "wte.bias"},
               {"gpt2", "lm_head.bias"},
               {"neox", "embed_out.bias"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        extra = all[i].tensor;
        refuse_model(all[i].name, same, NULL, NULL, "model.tensor", all[i].tensor);
    }
    extra = NULL;
}

static int remarks; /* that have this word */

static void hear(void *user, es_log_level level, const char *message)
{
    (void)level;
    remarks += strstr(message, user) != NULL;
}

/* An adapter beside a model is not applied, which is said. */
static void CF03_an_adapter_is_not_applied(void **state)
{
    (void)state;
    es_model *m;
    assert_ok(open_with("llama", same, NULL, NULL, &m));
    es_model_close(m);
    write_file("adapter_config.json", "{}", 2);
    remarks = 0;
    es_log_set(hear, "adapter", ES_LOG_WARN);
    assert_ok(es_model_open(folder, NULL, &m, &err));
    es_log_set(NULL, NULL, ES_LOG_ERROR);
    assert_int_equal(remarks, 1);
    es_model_close(m);
}

/* Scales for a cache of keys and values in FP8 change nothing here, which is said once. */
static void CF03_scales_of_a_cache_are_no_matter(void **state)
{
    (void)state;
    static const char *const scales[] = {"model.layers.0.self_attn.k_scale",
                                         "model.layers.2.self_attn.v_scale"};
    for (int i = 0; i < 2; i++) {
        es_model *m;
        remarks = 0;
        extra = scales[i];
        es_log_set(hear, "k_scale", ES_LOG_WARN);
        assert_ok(open_with("llama", same, NULL, NULL, &m));
        es_log_set(NULL, NULL, ES_LOG_ERROR);
        assert_int_equal(remarks, 1);
        es_model_close(m);
    }
    extra = "model.layers.0.self_attn.k_proj.weight_scale"; /* but of weights they do */
    es_model *m;
    assert_int_equal(open_with("llama", same, NULL, NULL, &m), ES_E_UNSUPPORTED);
    extra = NULL;
}

static void CF04_more_layers_than_a_decoder_has(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        const char *key = is_gpt2(names[i]) ? "n_layer" : "num_hidden_layers";
        refuse_model(names[i], same, key, "5", "model.layers", "says 5 layers, the weights have 3");
    }
}

/* A tokenizer of so many tokens, from a vocab.txt. */
static es_tokenizer *tokenizer_of(int count)
{
    char text[4096] = "[UNK]\n[CLS]\n[SEP]\n";
    es_tokenizer *t;
    for (int i = 3; i < count; i++)
        sprintf(text + strlen(text), "t%d\n", i);
    write_file("vocab.txt", text, strlen(text));
    assert_ok(es_tokenizer_open(in_folder("vocab.txt"), NULL, &t, &err));
    remove(in_folder("vocab.txt"));
    return t;
}

static es_status check_tokenizer(const es_model *m, int count)
{
    es_tokenizer *t = tokenizer_of(count);
    const es_status status =
        es_model_check_tokenizer(es_model_config_of(m), es_model_folder(m), t, &err);
    es_tokenizer_free(t);
    return status;
}

static void CF06_tokenizer_of_another_decoder(void **state)
{
    (void)state;
    es_model *m;
    assert_ok(open_with("llama", same, NULL, NULL, &m));
    assert_ok(check_tokenizer(m, 96));
    assert_ok(check_tokenizer(m, 90)); /* rows to make up a multiple: a remark */
    assert_int_not_equal(check_tokenizer(m, 97), ES_OK);
    assert_true(strstr(err.message, "97") && strstr(err.message, "96"));
    es_model_close(m);
}

static void CF08_names_with_and_without_a_prefix(void **state)
{
    (void)state;
    es_model *m;
    assert_ok(open_with("gpt2", with_transformer, NULL, NULL, &m));
    assert_true(es_model_config_of(m)->predicts);
    es_model_close(m);
    assert_ok(open_with("llama3-rope", without_model, NULL, NULL, &m));
    assert_true(es_model_config_of(m)->predicts);
    es_model_close(m);
    /* a body alone is a model that predicts nothing */
    assert_ok(open_with("llama3-rope", without_head, NULL, NULL, &m));
    assert_false(es_model_config_of(m)->predicts);
    es_model_close(m);
}

static void CF09_both_prefixes_of_a_decoder(void **state)
{
    (void)state;
    refuse_model("gpt2", with_some_transformer, NULL, NULL, "model.prefix", "with and without");
}

/* ---- blocks ---- */

static void TX02_blocks_longer_than_a_decoder_has_places(void **state)
{
    (void)state;
    enum { MOST = 4096 };
    static int32_t ids[MOST];
    static double nll[MOST];
    for (int i = 0; i < NAMES; i++) {
        char rest[64];
        es_model *m;
        snprintf(rest, sizeof rest, "decoders/%s", names[i]);
        assert_ok(es_model_open(golden_path(rest), NULL, &m, &err));
        const int64_t positions = es_model_config_of(m)->positions;
        assert_below(positions, MOST);
        es_model_block b = {.ids = ids, .n = positions, .nll = nll};
        assert_ok(es_model_forward(m, &b, 1, NULL, &err));
        b.n = positions + 1;
        assert_int_equal(es_model_forward(m, &b, 1, NULL, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "forward.length");
        b.n = 5;
        ids[3] = 96;
        assert_int_equal(es_model_forward(m, &b, 1, NULL, &err), ES_E_RANGE);
        assert_string_equal(err.rule, "forward.id");
        assert_equals(err.row, 0);
        assert_equals(err.col, 3);
        ids[3] = 0;
        es_model_close(m);
    }
}

TEST_FILE(decoder_config)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_understood),
        cmocka_unit_test(CF01_missing_fields_of_decoders),
        cmocka_unit_test(CF02_numbers_of_decoders_that_make_no_sense),
        cmocka_unit_test(CF05_decoders_that_are_others),
        cmocka_unit_test(CF05_what_would_change_the_function),
        cmocka_unit_test(CF21_windows_and_layers),
        cmocka_unit_test(CF21_rotary_positions_by_layer_type),
        cmocka_unit_test(rotary_positions_by_rule),
        cmocka_unit_test(CF05_rotary_positions),
        cmocka_unit_test(CF07_norms_of_decoders),
        cmocka_unit_test(CF03_shapes_of_decoders_disagree),
        cmocka_unit_test(CF03_tensors_that_no_decoder_of_the_type_has),
        cmocka_unit_test(CF03_biases_that_no_decoder_of_the_type_has),
        cmocka_unit_test(CF03_an_adapter_is_not_applied),
        cmocka_unit_test(CF03_scales_of_a_cache_are_no_matter),
        cmocka_unit_test(CF04_more_layers_than_a_decoder_has),
        cmocka_unit_test(CF06_tokenizer_of_another_decoder),
        cmocka_unit_test(CF08_names_with_and_without_a_prefix),
        cmocka_unit_test(CF09_both_prefixes_of_a_decoder),
        cmocka_unit_test(TX02_blocks_longer_than_a_decoder_has_places),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
