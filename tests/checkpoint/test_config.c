/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c : config.json (CF01, CF02, CF05, CF07, CF20) and where a model lies. The cases that
 * need weights are in test_model.c. */
#include "testing.h"

#include <sys/stat.h>

#include "folder.h"
#include "model/arch.h"

/* A config.json of BERT in which one field has another text; NULL: is left out. */
static const char *config_with(const char *field, const char *value)
{
    static const char *const fields[][2] = {
        {"architectures", "[\"BertModel\"]"},
        {"model_type", "\"bert\""},
        {"hidden_act", "\"gelu\""},
        {"hidden_size", "384"},
        {"intermediate_size", "1536"},
        {"layer_norm_eps", "1e-12"},
        {"max_position_embeddings", "512"},
        {"num_attention_heads", "12"},
        {"num_hidden_layers", "6"},
        {"type_vocab_size", "2"},
        {"vocab_size", "30522"},
    };
    static char text[2048];
    size_t used = (size_t)sprintf(text, "{\"transformers_version\": \"4.8.2\", \"x\": [1, {}]");
    bool replaced = !field;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const bool this = field && strcmp(fields[i][0], field) == 0;
        replaced = replaced || this;
        if (!this || value)
            used += (size_t)sprintf(text + used, ",\n  \"%s\": %s", fields[i][0],
                                    this ? value : fields[i][1]);
    }
    if (!replaced)
        used += (size_t)sprintf(text + used, ",\n  \"%s\": %s", field, value);
    sprintf(text + used, "}");
    return text;
}

static es_status parse(const char *text, es_model_config *c)
{
    return es_config_parse((const unsigned char *)text, strlen(text), "config.json", c, &err);
}

static void refuse(const char *text, es_status status, const char *rule)
{
    es_model_config c;
    const es_status got = parse(text, &c);
    if (got != status || strcmp(err.rule, rule) != 0)
        fail_msg("%s\n%s %s (%s), expected %s %s", text, es_status_name(got), err.rule, err.message,
                 es_status_name(status), rule);
    assert_string_equal(err.file, "config.json");
}

static void bert_is_understood(void **state)
{
    (void)state;
    es_model_config c;
    assert_ok(parse(config_with(NULL, NULL), &c));
    assert_equals(c.hidden, 384);
    assert_equals(c.layers, 6);
    assert_equals(c.heads, 12);
    assert_equals(c.intermediate, 1536);
    assert_equals(c.vocab, 30522);
    assert_equals(c.positions, 512);
    assert_equals(c.types, 2);
    assert_equals(c.labels, 0);
    assert_equals(c.layer_norm_eps, 1e-12);
    assert_string_equal(c.architecture, "BertModel");
    assert_ok(parse(config_with("id2label", "{\"0\": \"NEG\", \"1\": \"POS\"}"), &c));
    assert_string_equal(c.label[0], "NEG");
    assert_string_equal(c.label[1], "POS");
    assert_int_equal(c.labels, 2);
    /* names in any order; what has no place is counted: odd keys, numbers beyond the capacity, no
     * text
     */
    assert_ok(parse(config_with("id2label", "{\"15\": \"last\", \"x\": \"a\", \"16\": \"b\", "
                                            "\"-1\": \"c\", \"\": \"d\", \"3\": 7, \"99999\": "
                                            "\"e\", \"2\": \"two\"}"),
                    &c));
    assert_int_equal(c.labels, 8);
    for (int i = 0; i < ES_MODEL_LABELS; i++)
        assert_string_equal(c.label[i], i == 15 ? "last" : i == 2 ? "two" : "");
    assert_ok(parse(config_with("layer_norm_eps", "0.00001"), &c));
    assert_equals(c.layer_norm_eps, 0.00001);
    assert_ok(parse(config_with("position_embedding_type", "\"absolute\""), &c));
    assert_ok(parse(config_with("is_decoder", "false"), &c));
    assert_ok(parse(config_with("model_type", NULL), &c)); /* the architecture says it */
    assert_ok(parse(config_with("architectures", NULL), &c));
    assert_ok(parse(config_with("architectures", "null"), &c));
}

static void CF01_missing_file_or_field(void **state)
{
    (void)state;
    static const char *const required[] = {
        "hidden_size",       "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "vocab_size",        "max_position_embeddings",
        "type_vocab_size",   "layer_norm_eps",    "hidden_act"};
    es_model_config c;
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        refuse(config_with(required[i], NULL), ES_E_FORMAT, "config.missing");
        assert_non_null(strstr(err.message, required[i]));
    }
    refuse(config_with("hidden_act", "null"), ES_E_FORMAT, "config.missing");
    assert_int_equal(es_model_config_load(in_folder("config.json"), &c, &err), ES_E_IO);
    assert_string_equal(err.rule, "file.open");
    write_file("config.json", config_with(NULL, NULL), strlen(config_with(NULL, NULL)));
    assert_ok(es_model_config_load(in_folder("config.json"), &c, &err));
    assert_int_equal(c.hidden, 384);
    assert_int_equal(truncate(in_folder("config.json"), 2 << 20), 0);
    assert_int_equal(es_model_config_load(in_folder("config.json"), &c, &err), ES_E_LIMIT);
    remove(in_folder("config.json"));
    refuse("", ES_E_FORMAT, "config.json");
    refuse("[]", ES_E_FORMAT, "config.json");
    refuse("{\"a\":1,}", ES_E_FORMAT, "config.json");
}

static void CF02_numbers_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const values[] = {"0",     "-384", "2147483648", "\"384\"", "null",
                                         "384.5", "1e30", "true",       "[384]",   "-0"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        refuse(config_with("hidden_size", values[i]), ES_E_FORMAT, "config.range");
        assert_non_null(strstr(err.message, "hidden_size"));
        refuse(config_with("num_attention_heads", values[i]), ES_E_FORMAT, "config.range");
        refuse(config_with("vocab_size", values[i]), ES_E_FORMAT, "config.range");
    }
    refuse(config_with("num_attention_heads", "7"), ES_E_FORMAT, "config.heads");
    assert_true(strstr(err.message, "384") && strstr(err.message, "7"));
    refuse(config_with("num_attention_heads", "768"), ES_E_FORMAT, "config.heads");
    refuse("{\"hidden_size\": 384, \"hidden_siz\\u0065\": 384, \"model_type\": \"bert\"}",
           ES_E_FORMAT, "config.duplicate");
    refuse(config_with("model_typ\\u0065", "\"bert\""), ES_E_FORMAT, "config.duplicate");
}

/* What Python's json writes and RFC 8259 does not have, or editors of Windows put first. */
static void CF20_json_as_other_programs_write_it(void **state)
{
    (void)state;
    static const char *const harmless[] = {
        "1000000000000000019884624838656",     "-99999999999999999999", "NaN",
        "[0.0, Infinity, {\"a\": -Infinity}]", "{\"a\": 1, \"a\": 2}",  "1e400"};
    es_model_config c;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_ok(parse(config_with("model_max_length", harmless[i]), &c));
    char marked[2048];
    sprintf(marked, "\xef\xbb\xbf%s", config_with(NULL, NULL));
    assert_ok(parse(marked, &c));
    assert_int_equal(c.hidden, 384);
    /* where it would count it is refused by the key's name */
    static const char *const bad[] = {"NaN", "Infinity", "-Infinity",
                                      "1000000000000000019884624838656"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse(config_with("hidden_size", bad[i]), ES_E_FORMAT, "config.range");
        assert_non_null(strstr(err.message, "hidden_size"));
        refuse(config_with("layer_norm_eps", bad[i]), ES_E_FORMAT, "config.range");
        assert_non_null(strstr(err.message, "layer_norm_eps"));
    }
    refuse(config_with("x", "nan"), ES_E_FORMAT, "config.json");
    refuse(config_with("x", "-NaN"), ES_E_FORMAT, "config.json");
    refuse(config_with("x", "Inf"), ES_E_FORMAT, "config.json");
    refuse("\xef\xbb\xbf\xef\xbb\xbf{}", ES_E_FORMAT, "config.json");
}

static void CF05_what_is_not_bert(void **state)
{
    (void)state;
    static const char *const types[] = {"\"RoBERTa\"", "\"DistilBERT\"", "\"modernbert-decoder\"",
                                        "\"new\"",     "\"longformer\"", "\"falcon\"",
                                        "\"BERT\"",    "\"xlm_roberta\""};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        refuse(config_with("model_type", types[i]), ES_E_UNSUPPORTED, "config.model");
        assert_non_null(strstr(err.hint, "model_type: bert, distilbert, llama, "));
        assert_non_null(strstr(err.hint, "--v V.npy")); /* to its end */
    }
    refuse("{\"architectures\":[\"FalconForCausalLM\"]}", ES_E_UNSUPPORTED, "config.model");
    refuse("{}", ES_E_UNSUPPORTED, "config.model");
    static const char *const positions[] = {"\"relative_key\"", "\"rope\"", "\"alibi\""};
    for (size_t i = 0; i < 3; i++) {
        refuse(config_with("position_embedding_type", positions[i]), ES_E_UNSUPPORTED,
               "config.positions");
        assert_non_null(strstr(err.hint, "absolute"));
    }
    static const char *const activations[] = {"\"gelu_new\"", "\"relu\"", "\"swish\""};
    for (size_t i = 0; i < 3; i++) {
        refuse(config_with("hidden_act", activations[i]), ES_E_UNSUPPORTED, "config.activation");
        assert_non_null(strstr(err.hint, "gelu"));
    }
    refuse(config_with("is_decoder", "true"), ES_E_UNSUPPORTED, "config.decoder");
}

/* RoBERTa's positions begin after that of padding; BigBird's attention is full in short blocks. */
static void positions_of_relatives_of_bert(void **state)
{
    (void)state;
    es_model_config c;
    assert_ok(parse(config_with("model_type", "\"roberta\""), &c)); /* pad_token_id is 1 */
    assert_int_equal(c.positions, 510);
    assert_int_equal(c.first_position, 2);
    assert_int_equal(c.position_rows, 512);
    assert_ok(parse(config_with("model_type", "\"xlm-roberta\", \"pad_token_id\": 0"), &c));
    assert_int_equal(c.positions, 511);
    refuse(config_with("model_type", "\"roberta\", \"pad_token_id\": 511"), ES_E_FORMAT,
           "config.positions");
    assert_ok(parse(config_with("model_type", "\"big_bird\", \"block_size\": 16"), &c));
    assert_int_equal(c.positions, (5 + 2 * 3) * 16);
    assert_int_equal(c.position_rows, 512);
    assert_ok(parse(
        config_with("model_type", "\"big_bird\", \"num_random_blocks\": 0, \"block_size\": 32"),
        &c));
    assert_int_equal(c.positions, 160);
    assert_ok(
        parse(config_with("model_type", "\"big_bird\", \"block_size\": 16, \"attention_type\": "
                                        "\"original_full\""),
              &c));
    assert_int_equal(c.positions, 512);
    refuse(config_with("model_type", "\"big_bird\", \"attention_type\": \"sparse\""),
           ES_E_UNSUPPORTED, "config.function");
}

/* What every description promises, whoever wrote it: arch.c relies on it. */
static void descriptions_are_sound(void **state)
{
    (void)state;
    static const char *const types[] = {
        "bert",     "distilbert", "llama",    "mistral",     "qwen2",      "qwen3",     "gpt2",
        "gpt_neox", "roberta",    "big_bird", "xlm-roberta", "modernbert", "nomic_bert"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const es_arch *a = es_arch_find(types[i], "");
        int fields = 0, layers = 0, roles[ES_ROLES] = {0};
        assert_non_null(a);
        assert_string_equal(a->model_type, types[i]);
        assert_ptr_equal(es_arch_find("", a->classes), a);
        for (const es_config_field *f = a->fields; f->key; f++, fields++) {
            assert_true(f->kind != ES_FIELD_WORD || (f->only && f->rule && f->hint));
            for (const es_config_field *g = a->fields; g < f; g++)
                assert_string_not_equal(f->key, g->key);
        }
        assert_at_most(fields, ES_ARCH_FIELDS);
        for (const es_arch_part *p = a->parts; p->name; p++) {
            layers += es_part_in_layer(p);
            roles[p->role]++;
        }
        assert_above(layers, 0);
        assert_at_most(roles[ES_ROLE_POOLER], 1);
        assert_at_most(roles[ES_ROLE_CLASSIFIER], 1);
        assert_equals(roles[ES_ROLE_PREDICTOR], a->defaults.causal);
        assert_equals(roles[ES_ROLE_CLASSIFIER], a->classifier != NULL);
        assert_equals(roles[ES_ROLE_POOLER], a->pooled != NULL);
        assert_true(!a->classifier || roles[ES_ROLE_POOLER] || roles[ES_ROLE_DENSE]);
        assert_true(!a->defaults.causal || !a->classifier);
        assert_below(a->norm, ES_NORMS);
        assert_below(a->order, ES_ORDERS);
        assert_true(a->title && a->tokenizer);
    }
    assert_null(es_arch_find("", "FalconForCausalLM"));
    assert_null(es_arch_find("RoBERTa", "BertModel"));
    assert_string_equal(es_arch_find("roberta", "BertModel")->model_type, "roberta");
}

static void CF07_layer_norm_eps(void **state)
{
    (void)state;
    static const char *const values[] = {"0", "-1e-12", "1e-40", "0.0", "1", "\"1e-12\"", "1e400"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        refuse(config_with("layer_norm_eps", values[i]), ES_E_FORMAT, "config.range");
        assert_non_null(strstr(err.message, "layer_norm_eps"));
    }
}

/* ---- where a model lies ---- */

static void make(const char *path) { assert_int_equal(mkdir(in_folder(path), 0700), 0); }

static void expect_location(const char *name, const char *inside)
{
    char out[1024];
    assert_ok(es_model_locate(name, out, sizeof out, &err));
    assert_string_equal(out, in_folder(inside));
}

static void refuse_location(const char *name, const char *rule)
{
    char out[1024];
    assert_int_not_equal(es_model_locate(name, out, sizeof out, &err), ES_OK);
    assert_string_equal(err.rule, rule);
}

static void names_are_found_in_the_hub_cache(void **state)
{
    (void)state;
    static const char inside[] = "home/hub/models--org--a-model.v2/snapshots/0123abcd";
    char whole[600];
    make("home");
    make("home/hub");
    make("home/hub/models--org--a-model.v2");
    make("home/hub/models--org--a-model.v2/snapshots");
    make("home/hub/models--org--a-model.v2/snapshots/0123abcd");
    assert_int_equal(setenv("HF_HOME", in_folder("home"), 1), 0);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HUGGINGFACE_HUB_CACHE");
    expect_location("org/a-model.v2", inside); /* no refs, one snapshot */
    expect_location("org/a-model.v2@0123abcd", inside);
    make("home/hub/models--org--a-model.v2/snapshots/9999");
    refuse_location("org/a-model.v2", "model.locate"); /* which one? */
    make("home/hub/models--org--a-model.v2/refs");
    write_file("home/hub/models--org--a-model.v2/refs/main", "9999\n", 5);
    expect_location("org/a-model.v2", "home/hub/models--org--a-model.v2/snapshots/9999");
    write_file("home/hub/models--org--a-model.v2/refs/main", "0123abcd", 8);
    expect_location("org/a-model.v2@main", inside);
    refuse_location("org/a-model.v2@other", "model.locate");
    write_file("home/hub/models--org--a-model.v2/refs/main", "../../..", 8);
    refuse_location("org/a-model.v2", "hub.ref");
    write_file("home/hub/models--org--a-model.v2/refs/main", "", 0);
    refuse_location("org/a-model.v2", "hub.ref");
    refuse_location("org/none", "model.locate");
    /* HF_HUB_CACHE goes first; a folder on disk goes before all. */
    assert_int_equal(setenv("HF_HUB_CACHE", in_folder("home"), 1), 0);
    refuse_location("org/a-model.v2@0123abcd", "model.locate");
    assert_int_equal(setenv("HF_HUB_CACHE", in_folder("home/hub"), 1), 0);
    unsetenv("HF_HOME");
    expect_location("org/a-model.v2@0123abcd", inside);
    snprintf(whole, sizeof whole, "%s", in_folder("home"));
    char out[1024], small[4];
    assert_ok(es_model_locate(whole, out, sizeof out, &err));
    assert_string_equal(out, whole);
    assert_int_equal(es_model_locate(whole, small, sizeof small, &err), ES_E_ARGUMENT);
    static const char *const bad[] = {"../x/y", "a/b/c",  "/none/here", "org/",
                                      "a b",    "org/..", "x@../y"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse_location(bad[i], "model.locate");
    refuse_location("", "model.name");
    refuse_location(NULL, "model.name");
    write_file("weights", "", 0);
    snprintf(whole, sizeof whole, "%s", in_folder("weights"));
    refuse_location(whole, "model.locate"); /* a file, not a folder */
    assert_int_equal(err.code, ES_E_FORMAT);
    static const char *const made[] = {"home/hub/models--org--a-model.v2/refs/main",
                                       "home/hub/models--org--a-model.v2/refs",
                                       "home/hub/models--org--a-model.v2/snapshots/9999",
                                       "home/hub/models--org--a-model.v2/snapshots/0123abcd",
                                       "home/hub/models--org--a-model.v2/snapshots",
                                       "home/hub/models--org--a-model.v2",
                                       "home/hub"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++)
        assert_int_equal(remove(in_folder(made[i])), 0);
}

TEST_FILE(config)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bert_is_understood),
        cmocka_unit_test(CF01_missing_file_or_field),
        cmocka_unit_test(CF02_numbers_that_make_no_sense),
        cmocka_unit_test(CF20_json_as_other_programs_write_it),
        cmocka_unit_test(CF05_what_is_not_bert),
        cmocka_unit_test(positions_of_relatives_of_bert),
        cmocka_unit_test(descriptions_are_sound),
        cmocka_unit_test(CF07_layer_norm_eps),
        cmocka_unit_test(names_are_found_in_the_hub_cache),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
