/* SPDX-License-Identifier: Apache-2.0 */
/* test_stretch.c : stretched rotary positions in `loss`: --rope of plain weights against the
 * checkpoint whose config.json states the same, and against logits of another implementation;
 * blocks longer than the model's positions; score factors against plain loops; the table of
 * settings against sums by hand; refusals. */
#include "folder.h"
#include "golden.h"

#include <esscher/model.h>
#include <esscher/npy.h>
#include <esscher/study.h>

#include "experiments/loss/loss.h"
#include "stats/special.h"
#include "table/table.h"

enum { TOKENS = 61 };

/* ---- a checkpoint of golden weights and a configuration of our own ---- */

static void copy_weights(const char *name)
{
    char rest[128], bytes[4096];
    snprintf(rest, sizeof rest, "decoders/%s/model.safetensors", name);
    FILE *in = fopen(golden_path(rest), "rb"), *out = fopen(in_folder("model.safetensors"), "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* Writes the config.json of decoders/llama with another base, number of positions and stretching.
 */
static void write_config(double theta, int positions, const char *scaling)
{
    FILE *out = fopen(in_folder("config.json"), "w");
    assert_non_null(out);
    fprintf(out,
            "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
            "\"hidden_size\": 48, \"intermediate_size\": 80, \"num_hidden_layers\": 3, "
            "\"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"vocab_size\": 96, "
            "\"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-05, \"rope_theta\": %.17g, "
            "\"hidden_act\": \"silu\", \"tie_word_embeddings\": true%s%s}\n",
            positions, theta, scaling ? ", \"rope_scaling\": " : "", scaling ? scaling : "");
    assert_int_equal(fclose(out), 0);
}

static es_status ask(const es_study_opts *opts, const char *const *given, es_answer **out)
{
    const es_study *study = es_study_find("loss");
    es_params *p;
    assert_ok(es_params_new(study->params, study->size, &p, &err));
    for (; given[0]; given += 2)
        assert_ok(es_params_set(p, given[0], given[1], &err));
    const es_status status = es_study_run(study, p, opts, out, &err);
    es_params_free(p);
    return status;
}

static const es_study_opts exact = {.precision = ES_F64, .force = true, .exec.threads = 2};

#define GIVEN(...) ((const char *const[]){"model", folder, __VA_ARGS__, NULL, NULL})

/* The losses of the golden ids by the checkpoint in the folder, in the only setting asked for. */
#define LOSSES(out, name, ...)                                                                     \
    do {                                                                                           \
        char ids_[512], file_[512];                                                                \
        snprintf(ids_, sizeof ids_, "%s/golden/decoders/%s/ids.npy", ES_TESTS_DIR, name);          \
        snprintf(file_, sizeof file_, "%s", in_folder("nll.npy"));                                 \
        losses_of(file_, GIVEN("ids", ids_, "per-token", file_, __VA_ARGS__), out);                \
    } while (0)

static void losses_of(const char *file, const char *const *given, double out[TOKENS - 1])
{
    es_answer *a;
    es_array found;
    assert_ok(ask(&exact, given, &a));
    es_answer_free(a);
    assert_ok(es_npy_load(file, NULL, &found, &err));
    assert_int_equal(found.shape[0], TOKENS - 1);
    memcpy(out, found.data, (TOKENS - 1) * sizeof *out);
    es_array_free(&found);
}

static double furthest(const double *a, const double *b)
{
    double most = 0.0;
    for (int i = 0; i < TOKENS - 1; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* ---- the same as the checkpoint whose configuration says so ---- */

/* Both compute the same angles from the same numbers: what may differ is a rounding of the factor
 * of theta in config.json, which has all digits. Losses are of size 5; 1e-12 is 1000 roundings of
 * them. The last column says how far the plain model is at least: without --rope the test fails. */
static void a_stretching_is_that_of_config_json(void **state)
{
    (void)state;
    const double ntk = 10000.0 * pow(3.0, 8.0 / 6.0); /* heads of 8 channels */
    const struct {
        const char *rope, *reference, *scaling;
        double theta;
    } cases[] = {
        {"linear:3", "256", "{\"type\": \"linear\", \"factor\": 3.0}", 10000.0},
        {"yarn:4", "64",
         "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64}",
         10000.0},
        {"yarn:1.5", "100",
         "{\"rope_type\": \"yarn\", \"factor\": 1.5, \"original_max_position_embeddings\": 100}",
         10000.0},
        {"ntk:3", "256", NULL, ntk},
        {"base:1e6", "256", NULL, 1e6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double plain[TOKENS - 1], stretched[TOKENS - 1], stated[TOKENS - 1];
        copy_weights("llama");
        write_config(10000.0, 256, NULL);
        LOSSES(plain, "llama", "block", "61");
        LOSSES(stretched, "llama", "block", "61", "rope", cases[i].rope, "reference",
               cases[i].reference);
        write_config(cases[i].theta, 256, cases[i].scaling);
        LOSSES(stated, "llama", "block", "61");
        assert_below(furthest(stretched, stated), 1e-12);
        assert_above(furthest(stretched, plain), 1e-3);
    }
}

/* ntk and base change theta alone and go with a stretching that the checkpoint states; linear goes
 * with its own kind. */
static void stretchings_of_a_stretched_checkpoint(void **state)
{
    (void)state;
    static const char llama3[] =
        "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}";
    double a[TOKENS - 1], b[TOKENS - 1];
    copy_weights("llama");
    write_config(10000.0, 256, llama3);
    LOSSES(a, "llama", "block", "61", "rope", "base:500000");
    write_config(500000.0, 256, llama3);
    LOSSES(b, "llama", "block", "61");
    assert_below(furthest(a, b), 1e-12);
    write_config(10000.0, 256, "{\"type\": \"linear\", \"factor\": 2.0}");
    LOSSES(a, "llama", "block", "61", "rope", "linear:3");
    write_config(10000.0, 256, "{\"type\": \"linear\", \"factor\": 6.0}");
    LOSSES(b, "llama", "block", "61");
    assert_below(furthest(a, b), 1e-12);
}

/* Logits of a NumPy program for two checkpoints that state their stretching, met by the same
 * weights without it and --rope. Logits are good to 1e-10 there (test_decoders.c). */
static void logits_of_another_implementation_are_met(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"llama-linear", "linear:4", "256"},
                                           {"llama-yarn", "yarn:4", "64"}};
    for (int i = 0; i < 2; i++) {
        char rest[128];
        double found[TOKENS - 1];
        es_array logits, ids;
        copy_weights(cases[i][0]);
        write_config(10000.0, 256, NULL);
        LOSSES(found, cases[i][0], "block", "61", "rope", cases[i][1], "reference", cases[i][2]);
        snprintf(rest, sizeof rest, "decoders/%s/logits.npy", cases[i][0]);
        assert_ok(es_npy_load(golden_path(rest), NULL, &logits, &err));
        snprintf(rest, sizeof rest, "decoders/%s/ids.npy", cases[i][0]);
        assert_ok(es_npy_load_as(golden_path(rest), ES_NPY_RAW_WHOLE, NULL, &ids, &err));
        for (int t = 0; t + 1 < TOKENS; t++) {
            const double *row = (const double *)logits.data + (ptrdiff_t)t * 96;
            const int next = (int)((const double *)ids.data)[t + 1];
            double sum = 0.0;
            for (int v = 0; v < 96; v++)
                sum += exp(row[v]);
            assert_near(found[t], log(sum) - row[next], 1e-9);
        }
        es_array_free(&logits);
        es_array_free(&ids);
    }
}

/* ---- blocks longer than the model's positions ---- */

/* The same weights with 32 positions: --rope runs 61 tokens, as the model with 256 does. */
static void longer_blocks_run_when_asked_for(void **state)
{
    (void)state;
    char ids[4096];
    double shorter[TOKENS - 1], longer[TOKENS - 1];
    es_answer *a = NULL;
    snprintf(ids, sizeof ids, "%s", golden_path("decoders/llama/ids.npy"));
    copy_weights("llama");
    write_config(10000.0, 256, NULL);
    LOSSES(longer, "llama", "block", "61", "rope", "ntk:2");
    write_config(10000.0, 32, NULL);
    LOSSES(shorter, "llama", "context", "32,61", "rope", "ntk:2");
    assert_below(furthest(shorter, longer), 1e-15);
    assert_int_equal(ask(&exact, GIVEN("ids", ids, "block", "61"), &a), ES_E_ARGUMENT);
    assert_string_equal(err.rule, "loss.block");
    /* windows, fresh texts and divergences of such blocks run, too */
    assert_ok(ask(
        &exact, GIVEN("ids", ids, "block", "61", "rope", "none", "window", "30", "kl", "yes"), &a));
    assert_near(es_table_get(es_answer_find(a, "windows"), 0, "window"), 30.0, 0.0);
    es_answer_free(a);
}

/* Not without rotary positions of the block's own, nor with some that do not fit. */
static void the_forward_pass_checks_rotary_positions(void **state)
{
    (void)state;
    es_model *m;
    int32_t ids[40] = {0};
    double nll[40];
    copy_weights("llama");
    write_config(10000.0, 32, NULL);
    assert_ok(es_model_open(folder, NULL, &m, &err));
    const es_model_config *c = es_model_config_of(m);
    es_rotary own[2] = {c->rotary, c->rotary_local};
    es_model_block b = {.ids = ids, .n = 40, .nll = nll};
    assert_int_equal(es_model_forward(m, &b, 1, NULL, &err), ES_E_RANGE);
    assert_string_equal(err.rule, "forward.length");
    b.rotary = own;
    assert_ok(es_model_forward(m, &b, 1, NULL, &err));
    const es_rotary bad[] = {
        {.width = 6, .type = "default", .theta = 1e4, .attention = 1.0},
        {.width = 8, .type = "unknown", .theta = 1e4, .attention = 1.0},
        {.width = 8, .type = "default", .theta = 0.5, .attention = 1.0},
        {.width = 8, .type = "default", .theta = 1e4},
        {.width = 8, .type = "linear", .theta = 1e4, .attention = 1.0},
        {.width = 8, .type = "yarn", .theta = 1e4, .attention = 1.0, .factor = 2.0},
        {.width = 8,
         .type = "llama3",
         .theta = 1e4,
         .attention = 1.0,
         .factor = 2.0,
         .original = 32.0,
         .low = 1.0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        own[0] = bad[i];
        assert_int_equal(es_model_forward(m, &b, 1, NULL, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "forward.rotary");
    }
    es_model_close(m);
}

/* ---- which rotations are stretched ---- */

/* Layers with a window that turn by a base of their own keep it. */
static void layers_with_a_window_keep_their_rotation(void **state)
{
    (void)state;
    static const es_model_config c = {
        .model_type = "gemma3_text",
        .rotary = {.width = 16, .theta = 1e6, .type = "linear", .factor = 8.0, .attention = 1.0},
        .rotary_local = {.width = 16, .theta = 1e4, .type = "default", .attention = 1.0}};
    es_rotary out[2];
    assert_ok(es_model_stretch(&c, &(es_stretch){ES_STRETCH_NTK, .by = 2.0}, out, &err));
    assert_near(out[0].theta, 1e6 * pow(2.0, 16.0 / 14.0), 1e-6);
    assert_near(out[0].factor, 8.0, 0.0);
    assert_near(out[1].theta, 1e4, 0.0);
    assert_string_equal(out[1].type, "default");
    assert_int_equal(
        es_model_stretch(&c, &(es_stretch){ES_STRETCH_YARN, .by = 2.0, .trained = 64.0}, out, &err),
        ES_E_UNSUPPORTED);
    assert_string_equal(err.rule, "rope.twice");
}

/* ---- scores, by plain loops ---- */

/* Heads of one layer as they run. */
typedef struct heads_seen {
    double q[TOKENS * 8], k[TOKENS * 8], v[TOKENS * 8], out[TOKENS * 8];
    int64_t head;
} heads_seen;

static es_status see_head(void *context, const es_model_seen *seen, es_error *e)
{
    heads_seen *s = context;
    (void)e;
    if (seen->layer || seen->head != s->head)
        return ES_OK;
    for (int64_t i = 0; i < TOKENS * 8; i++) {
        s->q[i] = es_view_get(&seen->q, i / 8, i % 8);
        s->k[i] = es_view_get(&seen->k, i / 8, i % 8);
        s->v[i] = es_view_get(&seen->v, i / 8, i % 8);
        s->out[i] = seen->output[i];
    }
    return ES_OK;
}

/* Outputs of a head whose scores are multiplied, by loops over the queries and keys of the plain
 * model. Sums of 61 terms of size 1 in f64: 1e-12 is far above their roundings. */
static void check_scale(const es_loss_setting *scale, const double factor[TOKENS])
{
    static heads_seen plain, scaled;
    int32_t ids[TOKENS];
    double factors[TOKENS], nll[TOKENS];
    es_model *m;
    assert_ok(es_model_open(folder, &(es_model_opts){.precision = ES_F64}, &m, &err));
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = i * 37 % 96;
        factors[i] = es_score_factor(scale, i, TOKENS);
    }
    plain.head = scaled.head = 3;
    const es_model_visit see_plain = {see_head, &plain}, see_scaled = {see_head, &scaled};
    es_model_block b = {.ids = ids, .n = TOKENS, .nll = nll, .visit = &see_plain};
    assert_ok(es_model_forward(m, &b, 1, NULL, &err));
    b.visit = &see_scaled;
    b.score_factor = factors;
    assert_ok(es_model_forward(m, &b, 1, NULL, &err));
    for (int i = 0; i < TOKENS; i++) {
        double w[TOKENS], sum = 0.0;
        for (int j = 0; j <= i; j++) {
            double s = 0.0;
            for (int d = 0; d < 8; d++)
                s += plain.q[i * 8 + d] * plain.k[j * 8 + d];
            sum += w[j] = exp(factor[i] * s / sqrt(8.0));
        }
        for (int d = 0; d < 8; d++) {
            double y = 0.0;
            for (int j = 0; j <= i; j++)
                y += w[j] / sum * plain.v[j * 8 + d];
            assert_near(scaled.out[i * 8 + d], y, 1e-12);
        }
    }
    es_model_close(m);
}

static void scores_are_scaled_by_position(void **state)
{
    (void)state;
    double log_n[TOKENS], llama4[TOKENS];
    copy_weights("llama");
    write_config(10000.0, 256, NULL);
    for (int i = 0; i < TOKENS; i++) {
        log_n[i] = i + 1 > 16 ? log(i + 1.0) / log(16.0) : 1.0;
        llama4[i] = 1.0 + 0.3 * log(1.0 + (double)(i / 10));
    }
    check_scale(&(es_loss_setting){.scale = ES_SCALE_LOGN, .reference = 16.0}, log_n);
    check_scale(&(es_loss_setting){.scale = ES_SCALE_LLAMA4, .factor = 0.3, .reference = 10.0},
                llama4);
}

/* ---- the table ---- */

/* Losses of one setting by block and token, from a run of it alone. */
enum { BLOCKS = 5, LENGTH = 48, TRAINED = 20 };
typedef double block_losses[BLOCKS][LENGTH - 1];

static void run_alone(const char *ids, const char *rope, block_losses out)
{
    es_answer *a;
    es_array found;
    char file[512];
    snprintf(file, sizeof file, "%s", in_folder("one.npy"));
    assert_ok(ask(
        &exact,
        GIVEN("ids", ids, "block", "48", "per-token", file, "rope", rope, "reference", "20"), &a));
    es_answer_free(a);
    assert_ok(es_npy_load(file, NULL, &found, &err));
    memcpy(out, found.data, sizeof(block_losses));
    es_array_free(&found);
}

/* Mean difference over places [from, LENGTH), its error over blocks, and p of Student's t. */
static void difference(const block_losses x, const block_losses y, int from, double out[3])
{
    double each[BLOCKS] = {0}, mean = 0.0, square = 0.0;
    for (int b = 0; b < BLOCKS; b++) {
        for (int place = from; place < LENGTH; place++)
            each[b] += (x[b][place - 1] - y[b][place - 1]) / (LENGTH - from);
        mean += each[b] / BLOCKS;
    }
    for (int b = 0; b < BLOCKS; b++)
        square += pow(each[b] - mean, 2.0);
    out[0] = mean;
    out[1] = sqrt(square / (BLOCKS - 1) / BLOCKS);
    out[2] = 2.0 * es_student_tail(BLOCKS - 1, fabs(mean) / out[1]);
}

/* Three settings are three pairs: Holm multiplies the smallest p by 3, the next by 2. */
static void settings_are_compared_block_by_block(void **state)
{
    (void)state;
    static const char *const names[] = {"full", "linear:8", "ntk:2"};
    static block_losses x[3];
    double ids[BLOCKS * LENGTH], d[3][3], p[3];
    char file[512];
    es_answer *a;
    for (int i = 0; i < BLOCKS * LENGTH; i++)
        ids[i] = (double)((i * i * 31 + i * 7 + i / 48) % 96);
    copy_weights("llama");
    write_config(10000.0, 32, NULL);
    snprintf(file, sizeof file, "%s", in_folder("ids.npy"));
    assert_ok(es_npy_save(file, ES_F64, 2, (const int64_t[]){BLOCKS, LENGTH}, ids, true, &err));
    for (int k = 0; k < 3; k++)
        run_alone(file, k ? names[k] : "none", x[k]);
    assert_ok(ask(
        &exact,
        GIVEN("ids", file, "context", "20,30,48", "rope", "none,linear:8,ntk:2", "reference", "20"),
        &a));
    const es_table *t = es_answer_find(a, "stretch"), *at = es_answer_find(a, "positions");
    int best = 0;
    assert_int_equal(es_table_rows(t), 3);
    assert_int_equal(es_table_rows(at), 9);
    for (int k = 1; k < 3; k++) {
        difference(x[k], x[0], TRAINED, d[k]);
        assert_string_equal(es_table_get_text(t, k, "setting"), names[k]);
        assert_near(es_table_get(t, k, "cost"), d[k][0], 1e-12);
        assert_near(es_table_get(t, k, "cost_se"), d[k][1], 1e-12);
        best = d[k][0] < (best ? d[best][0] : 0.0) ? k : best;
    }
    for (int pair = 0; pair < 3; pair++) { /* (0, 1), (0, 2), (1, 2) */
        const int i = pair == 2, j = pair ? 2 : 1;
        difference(x[i], x[j], TRAINED, d[0]);
        p[pair] = d[0][2];
    }
    assert_string_equal(es_table_get_text(t, best, "verdict"), "best");
    for (int k = 0; k < 3; k++) {
        if (k == best)
            continue;
        const int own = k + best - 1; /* number of the pair */
        double holm = 0.0;
        for (int i = 0; i < 3; i++) { /* the largest of rank p, over those up to its own */
            int rank = 3;
            for (int j = 0; j < 3; j++)
                rank -= p[j] < p[i];
            if (p[i] <= p[own])
                holm = fmax(holm, rank * p[i]);
        }
        difference(x[k], x[best], TRAINED, d[0]);
        assert_near(es_table_get(t, k, "over"), d[0][0], 1e-12);
        assert_near(es_table_get(t, k, "over_se"), d[0][1], 1e-12);
        assert_near(es_table_get(t, k, "p"), fmin(1.0, holm), 1e-9);
        assert_string_equal(es_table_get_text(t, k, "verdict"),
                            holm <= 0.05 ? "worse" : "may be as good");
    }
    assert_near(es_table_get(at, 4, "from"), 20.0, 0.0); /* of linear:8, the second */
    assert_near(es_table_get(at, 4, "to"), 30.0, 0.0);
    es_answer_free(a);
}

/* ---- the same bits ---- */

static bool into_memory(void *user, const char *bytes, size_t count)
{
    char *out = user;
    memcpy(out + strlen(out), bytes, count);
    return true;
}

static void csv_of(const es_study_opts *opts, const char *const *given, char out[65536])
{
    es_answer *a;
    assert_ok(ask(opts, given, &a));
    memset(out, 0, 65536);
    assert_ok(es_answer_write(a, ES_ANSWER_CSV, &(es_answer_opts){.table = "positions"},
                              into_memory, out, &err));
    es_answer_free(a);
}

static void threads_and_run_files_change_nothing(void **state)
{
    (void)state;
    static char one[65536], other[65536];
    char run[512], ids[4096];
    snprintf(run, sizeof run, "%s", in_folder("stretch.run"));
    snprintf(ids, sizeof ids, "%s", golden_path("decoders/llama/ids.npy"));
    copy_weights("llama");
    write_config(10000.0, 32, NULL);
    const char *const *given = GIVEN("ids", ids, "context", "32,61", "rope", "none,yarn:2,ntk:2",
                                     "score-scale", "none,logn,llama4:n0=16");
    csv_of(&(es_study_opts){.exec.threads = 1}, given, one);
    csv_of(&(es_study_opts){.exec.threads = 3}, given, other);
    assert_string_equal(one, other);
    csv_of(&(es_study_opts){.exec.threads = 2, .out = run}, given, other);
    assert_string_equal(one, other);
    csv_of(&(es_study_opts){.exec.threads = 2, .out = run, .resume = true}, given, other);
    assert_string_equal(one, other);
    es_answer *a = NULL; /* another stretching is another run */
    assert_int_not_equal(ask(&(es_study_opts){.exec.threads = 2, .out = run, .resume = true},
                             GIVEN("ids", ids, "context", "32,61", "rope", "none,yarn:2,ntk:3",
                                   "score-scale", "none,logn,llama4:n0=16"),
                             &a),
                         ES_OK);
}

/* ---- refusals ---- */

static void stretchings_are_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {"",       "ntk",      "ntk:",     "ntk:x",    "ntk:2x",
                                      "ntk: 2", "ntk:nan",  "ntk:inf",  "ntk:0x10", "NTK:2",
                                      "none:2", ":2",       "linear=2", "yarn:4:4", "base:1e999",
                                      " ntk:2", "dynamic:2"};
    es_stretch out;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(loss_rope_parse(bad[i], &out, &err), ES_E_ARGUMENT);
        assert_string_equal(err.rule, "loss.rope");
    }
    assert_ok(loss_rope_parse("base:1e6", &out, &err));
    assert_int_equal(out.kind, ES_STRETCH_BASE);
    assert_near(out.by, 1e6, 0.0);
    assert_ok(loss_rope_parse("none", &out, &err));
    assert_int_equal(out.kind, ES_STRETCH_NONE);
}

static void refuse(const char *const *given, es_status status, const char *rule)
{
    es_answer *a = NULL;
    assert_int_equal(ask(&exact, given, &a), status);
    assert_string_equal(err.rule, rule);
    assert_null(a);
}

static void what_cannot_be_stretched_is_refused(void **state)
{
    (void)state;
    char ids[4096], gpt2[4096];
    snprintf(ids, sizeof ids, "%s", golden_path("decoders/gpt2/ids.npy"));
    snprintf(gpt2, sizeof gpt2, "%s", golden_path("decoders/gpt2"));
    refuse((const char *const[]){"model", gpt2, "ids", ids, "block", "61", "rope", "ntk:2", NULL,
                                 NULL},
           ES_E_UNSUPPORTED, "rope.none");
    assert_non_null(strstr(err.message, "gpt2"));
    copy_weights("llama");
    write_config(10000.0, 256, NULL);
#define REFUSED(status, rule, ...) refuse(GIVEN("ids", ids, __VA_ARGS__), status, rule)
    REFUSED(ES_E_ARGUMENT, "loss.rope", "rope", "ntk:2");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope", "ntk:2,,linear:2");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope", "ntk:2,ntk:2.0");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope",
            "ntk:2.00000000000000000000000000001");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope", "ntk:2", "policy", "top");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope", "ntk:2", "kv-type", "q8_0");
    REFUSED(ES_E_ARGUMENT, "loss.rope", "block", "61", "rope", "ntk:2", "against", folder);
    REFUSED(ES_E_ARGUMENT, "loss.context", "context", "32,61");
    REFUSED(ES_E_ARGUMENT, "loss.context", "context", "32,61", "rope", "ntk:2", "block", "61");
    REFUSED(ES_E_RANGE, "rope.range", "block", "61", "rope", "ntk:0.5");
    REFUSED(ES_E_RANGE, "rope.range", "block", "61", "rope", "base:1");
    static const char *const scales[] = {
        "llama4:",     "llama4:beta",    "llama4:beta=",
        "llama4:n0=0", "llama4:beta=-1", "llama4:x=1",
        "llama4x",     "llama4:n0=nan",  "llama4:beta=0.1:n0=99999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        REFUSED(ES_E_ARGUMENT, "loss.scale", "block", "61", "score-scale", scales[i]);
    write_config(10000.0, 256,
                 "{\"rope_type\": \"yarn\", \"factor\": 4.0, "
                 "\"original_max_position_embeddings\": 64}");
    REFUSED(ES_E_UNSUPPORTED, "rope.twice", "block", "61", "rope", "yarn:2");
    REFUSED(ES_E_UNSUPPORTED, "rope.twice", "block", "61", "rope", "linear:2");
}

TEST_FILE(stretch)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stretching_is_that_of_config_json),
        cmocka_unit_test(stretchings_of_a_stretched_checkpoint),
        cmocka_unit_test(logits_of_another_implementation_are_met),
        cmocka_unit_test(longer_blocks_run_when_asked_for),
        cmocka_unit_test(the_forward_pass_checks_rotary_positions),
        cmocka_unit_test(layers_with_a_window_keep_their_rotation),
        cmocka_unit_test(scores_are_scaled_by_position),
        cmocka_unit_test(settings_are_compared_block_by_block),
        cmocka_unit_test(threads_and_run_files_change_nothing),
        cmocka_unit_test(stretchings_are_read_strictly),
        cmocka_unit_test(what_cannot_be_stretched_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
