/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_model.h : a small random BERT, written as a checkpoint and run in plain f64 loops.
 *
 * Weights are small multiples of a power of two, so that F32, F16 and BF16 hold them alike and the
 * loops below see the numbers that the file holds. */
#ifndef ES_TESTS_TINY_MODEL_H
#define ES_TESTS_TINY_MODEL_H

#include "folder.h"

#include <sys/stat.h>

enum { TINY_TENSORS = 96 };

typedef struct tiny_tensor {
    char name[192];
    int64_t rows, cols; /* cols 0: a vector */
    double *values;
} tiny_tensor;

typedef struct tiny {
    /* the question; set before tiny_draw() */
    int64_t hidden, layers, heads, intermediate, vocab, positions, types, labels;
    const char *prefix;  /* "" or "bert." */
    bool pooler, legacy; /* legacy: gamma and beta */
    const char *dtype;   /* F32, F16 or BF16 */
    /* multiplies the weight of key j for query i of a head, whose n scores are given; NULL: 1 */
    double (*factor)(int64_t layer, int64_t head, const double *scores, int64_t n, int64_t i,
                     int64_t j);
    /* the answer */
    tiny_tensor tensors[TINY_TENSORS];
    int count;
    uint64_t state; /* of the generator */
} tiny;

static inline tiny tiny_default(void)
{
    return (tiny){.hidden = 12,
                  .layers = 3,
                  .heads = 3,
                  .intermediate = 20,
                  .vocab = 31,
                  .positions = 40,
                  .types = 2,
                  .prefix = "",
                  .pooler = true,
                  .dtype = "F32"};
}

/* ---- weights ---- */

static inline double tiny_random(tiny *t) /* -127/512 .. 127/512 */
{
    t->state = t->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)((int64_t)(t->state >> 40) % 128 - (int64_t)(t->state >> 52) % 128) / 512.0;
}

static inline void tiny_add(tiny *t, const char *prefix, const char *name, int64_t rows,
                            int64_t cols)
{
    assert_below(t->count, TINY_TENSORS);
    tiny_tensor *x = &t->tensors[t->count++];
    const int64_t count = rows * (cols ? cols : 1);
    const bool scale = strstr(name, "LayerNorm.weight") != NULL;
    snprintf(x->name, sizeof x->name, "%s%s", prefix, name);
    x->rows = rows, x->cols = cols;
    x->values = malloc((size_t)count * sizeof *x->values);
    assert_non_null(x->values);
    for (int64_t i = 0; i < count; i++)
        x->values[i] = scale ? 1.0 + floor(128.0 * tiny_random(t)) / 128.0 : tiny_random(t);
}

static inline void tiny_add_linear(tiny *t, const char *prefix, const char *name, int64_t rows,
                                   int64_t cols)
{
    char full[160];
    snprintf(full, sizeof full, "%s.weight", name);
    tiny_add(t, prefix, full, rows, cols);
    snprintf(full, sizeof full, "%s.bias", name);
    tiny_add(t, prefix, full, rows, 0);
}

static inline void tiny_draw(tiny *t)
{
    static const char *const self[] = {"query", "key", "value"};
    char name[128];
    t->state = 7, t->count = 0;
    tiny_add(t, t->prefix, "embeddings.word_embeddings.weight", t->vocab, t->hidden);
    tiny_add(t, t->prefix, "embeddings.position_embeddings.weight", t->positions, t->hidden);
    tiny_add(t, t->prefix, "embeddings.token_type_embeddings.weight", t->types, t->hidden);
    tiny_add_linear(t, t->prefix, "embeddings.LayerNorm", t->hidden, 0);
    for (int64_t l = 0; l < t->layers; l++) {
        const struct {
            const char *name;
            int64_t rows, cols;
        } parts[] = {{"attention.output.dense", t->hidden, t->hidden},
                     {"attention.output.LayerNorm", t->hidden, 0},
                     {"intermediate.dense", t->intermediate, t->hidden},
                     {"output.dense", t->hidden, t->intermediate},
                     {"output.LayerNorm", t->hidden, 0}};
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "encoder.layer.%d.attention.self.%s", (int)l, self[i]);
            tiny_add_linear(t, t->prefix, name, t->hidden, t->hidden);
        }
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof name, "encoder.layer.%d.%s", (int)l, parts[i].name);
            tiny_add_linear(t, t->prefix, name, parts[i].rows, parts[i].cols);
        }
    }
    if (t->pooler)
        tiny_add_linear(t, t->prefix, "pooler.dense", t->hidden, t->hidden);
    if (t->labels)
        tiny_add_linear(t, "", "classifier", t->labels, t->hidden);
    if (t->legacy) {
        for (int i = 0; i < t->count; i++) {
            char *last = strrchr(t->tensors[i].name, '.');
            if (strstr(t->tensors[i].name, "LayerNorm."))
                strcpy(last, strcmp(last, ".weight") == 0 ? ".gamma" : ".beta");
        }
    }
}

static inline void tiny_free(tiny *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->tensors[i].values);
    t->count = 0;
}

static inline const double *tiny_find(const tiny *t, const char *prefix, const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (int i = 0; i < t->count; i++) {
        if (strcmp(t->tensors[i].name, full) == 0)
            return t->tensors[i].values;
    }
    fail_msg("no tensor %s", full);
    return NULL;
}

/* ---- the checkpoint ---- */

/* The upper 16 bits of a float, or the half of a number that is one exactly. */
static inline void tiny_put(FILE *file, const char *dtype, double value)
{
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    int size = 4;
    if (strcmp(dtype, "BF16") == 0) {
        bits >>= 16, size = 2;
    } else if (strcmp(dtype, "F16") == 0) {
        const uint32_t sign = bits >> 16 & 0x8000u, exponent = bits >> 23 & 255u;
        bits = bits << 1 ? sign | (exponent - 112) << 10 | (bits >> 13 & 1023u) : sign;
        if (isnan(value) || isinf(value))
            bits = 0x7c00u | (isnan(value) ? 1u : 0u);
        size = 2;
    }
    for (int i = 0; i < size; i++)
        fputc((int)(bits >> (8 * i) & 255u), file);
}

/* Tensors first .. last - 1 as FOLDER/name. */
static inline void tiny_write_part(const tiny *t, const char *name, int first, int last)
{
    static char header[32768];
    size_t used = 1, at = 0;
    const size_t item = strcmp(t->dtype, "F32") == 0 ? 4 : 2;
    header[0] = '{';
    for (int i = first; i < last; i++) {
        const tiny_tensor *x = &t->tensors[i];
        const size_t bytes = (size_t)(x->rows * (x->cols ? x->cols : 1)) * item;
        char shape[64];
        snprintf(shape, sizeof shape, x->cols ? "[%d,%d]" : "[%d]", (int)x->rows, (int)x->cols);
        used +=
            (size_t)snprintf(header + used, sizeof header - used,
                             "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                             i > first ? "," : "", x->name, t->dtype, shape, at, at + bytes);
        at += bytes;
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}%s", used % 2 ? "" : " ");
    assert_below(used, sizeof header);
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(used >> (8 * i) & 255), file);
    fwrite(header, 1, used, file);
    for (int i = first; i < last; i++) {
        const tiny_tensor *x = &t->tensors[i];
        for (int64_t k = 0; k < x->rows * (x->cols ? x->cols : 1); k++)
            tiny_put(file, t->dtype, x->values[k]);
    }
    assert_int_equal(fclose(file), 0);
}

static inline void tiny_write_config(const tiny *t)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"architectures\":[\"%s\"],\"model_type\":\"bert\",\"hidden_act\":\"gelu\","
             "\"hidden_size\":%d,\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
             "\"intermediate_size\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,"
             "\"type_vocab_size\":%d,\"layer_norm_eps\":1e-12}",
             t->labels ? "BertForSequenceClassification" : "BertModel", (int)t->hidden,
             (int)t->layers, (int)t->heads, (int)t->intermediate, (int)t->vocab, (int)t->positions,
             (int)t->types);
    write_file("config.json", text, strlen(text));
}

static inline void tiny_write(const tiny *t)
{
    tiny_write_config(t);
    tiny_write_part(t, "model.safetensors", 0, t->count);
}

/* Specials; and from TINY_FIRST_WORD on, "word15" has id 15, and so on. */
enum { TINY_CLS = 2, TINY_SEP = 3, TINY_FIRST_WORD = 15 };

static inline void tiny_write_vocab(const tiny *t)
{
    static const char *const words[TINY_FIRST_WORD] = {
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the",   "cat",   "sat",
        "on",    "mat",   ".",     ",",     "un",     "##aff", "##able"};
    FILE *file = fopen(in_folder("vocab.txt"), "w");
    assert_non_null(file);
    for (int64_t i = 0; i < t->vocab; i++) {
        if (i < TINY_FIRST_WORD)
            fprintf(file, "%s\n", words[i]);
        else
            fprintf(file, "word%d\n", (int)i);
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- the forward pass, as one would write it down ---- */

static inline void tiny_linear(const tiny *t, const char *prefix, const char *name, const double *x,
                               int64_t n, int64_t inputs, int64_t outputs, double *y)
{
    char full[160];
    snprintf(full, sizeof full, "%s.weight", name);
    const double *w = tiny_find(t, prefix, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *b = tiny_find(t, prefix, full);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t o = 0; o < outputs; o++) {
            double sum = b[o];
            for (int64_t k = 0; k < inputs; k++)
                sum += w[o * inputs + k] * x[i * inputs + k];
            y[i * outputs + o] = sum;
        }
    }
}

static inline void tiny_norm(const tiny *t, const char *name, int64_t n, double *x)
{
    char full[160];
    const int64_t H = t->hidden;
    snprintf(full, sizeof full, "%s.%s", name, t->legacy ? "gamma" : "weight");
    const double *w = tiny_find(t, t->prefix, full);
    snprintf(full, sizeof full, "%s.%s", name, t->legacy ? "beta" : "bias");
    const double *b = tiny_find(t, t->prefix, full);
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, variance = 0;
        for (int64_t k = 0; k < H; k++)
            mean += x[i * H + k] / (double)H;
        for (int64_t k = 0; k < H; k++)
            variance += (x[i * H + k] - mean) * (x[i * H + k] - mean) / (double)H;
        for (int64_t k = 0; k < H; k++)
            x[i * H + k] = (x[i * H + k] - mean) / sqrt(variance + 1e-12) * w[k] + b[k];
    }
}

/* Attention of one head over q, k, v (n, H), d columns each; stats[4] are means over queries of
 * entropy, largest weight, sum of squares and its inverse. */
static inline void tiny_attend(const tiny *t, int64_t layer, int64_t head, const double *q,
                               const double *k, const double *v, int64_t n, double *out,
                               double stats[4])
{
    const int64_t H = t->hidden, d = H / t->heads, at = head * d;
    double *w = malloc((size_t)n * 2 * sizeof *w), *scores = w + n;
    stats[0] = stats[1] = stats[2] = stats[3] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double most = -INFINITY, sum = 0, entropy = 0, squares = 0, largest = 0;
        for (int64_t j = 0; j < n; j++) {
            scores[j] = 0;
            for (int64_t c = at; c < at + d; c++)
                scores[j] += q[i * H + c] * k[j * H + c] / sqrt((double)d);
            most = fmax(most, scores[j]);
        }
        for (int64_t j = 0; j < n; j++)
            sum += w[j] =
                exp(scores[j] - most) * (t->factor ? t->factor(layer, head, scores, n, i, j) : 1.0);
        for (int64_t c = at; c < at + d; c++)
            out[i * H + c] = 0;
        for (int64_t j = 0; j < n; j++) {
            w[j] /= sum;
            entropy -= w[j] > 0 ? w[j] * log(w[j]) : 0;
            squares += w[j] * w[j];
            largest = fmax(largest, w[j]);
            for (int64_t c = at; c < at + d; c++)
                out[i * H + c] += w[j] * v[j * H + c];
        }
        stats[0] += entropy / (double)n;
        stats[1] += largest / (double)n;
        stats[2] += squares / (double)n;
        stats[3] += 1.0 / squares / (double)n;
    }
    free(w);
}

/* hidden (L + 1, n, H), stats (L, heads, 4), pooled (H), logits (labels). */
static inline void tiny_forward(const tiny *t, const int32_t *ids, int64_t n, double *hidden,
                                double *stats, double *pooled, double *logits)
{
    const int64_t H = t->hidden, I = t->intermediate;
    double *q = malloc((size_t)(n * (5 * H + I)) * sizeof *q), *k = q + n * H, *v = k + n * H;
    double *heads = v + n * H, *a = heads + n * H, *m = a + n * H;
    const double *word = tiny_find(t, t->prefix, "embeddings.word_embeddings.weight");
    const double *position = tiny_find(t, t->prefix, "embeddings.position_embeddings.weight");
    const double *type = tiny_find(t, t->prefix, "embeddings.token_type_embeddings.weight");
    char name[128];
    for (int64_t i = 0; i < n * H; i++)
        hidden[i] = word[ids[i / H] * H + i % H] + position[i] + type[i % H];
    tiny_norm(t, "embeddings.LayerNorm", n, hidden);
    for (int64_t l = 0; l < t->layers; l++) {
        const double *x = hidden + l * n * H;
        double *y = hidden + (l + 1) * n * H;
#define LAYER(part) (snprintf(name, sizeof name, "encoder.layer.%d." part, (int)l), name)
        tiny_linear(t, t->prefix, LAYER("attention.self.query"), x, n, H, H, q);
        tiny_linear(t, t->prefix, LAYER("attention.self.key"), x, n, H, H, k);
        tiny_linear(t, t->prefix, LAYER("attention.self.value"), x, n, H, H, v);
        for (int64_t h = 0; h < t->heads; h++)
            tiny_attend(t, l, h, q, k, v, n, heads, stats + (l * t->heads + h) * 4);
        tiny_linear(t, t->prefix, LAYER("attention.output.dense"), heads, n, H, H, a);
        for (int64_t i = 0; i < n * H; i++)
            a[i] += x[i];
        tiny_norm(t, LAYER("attention.output.LayerNorm"), n, a);
        tiny_linear(t, t->prefix, LAYER("intermediate.dense"), a, n, H, I, m);
        for (int64_t i = 0; i < n * I; i++)
            m[i] *= 0.5 * (1.0 + erf(m[i] / sqrt(2.0)));
        tiny_linear(t, t->prefix, LAYER("output.dense"), m, n, I, H, y);
        for (int64_t i = 0; i < n * H; i++)
            y[i] += a[i];
        tiny_norm(t, LAYER("output.LayerNorm"), n, y);
#undef LAYER
    }
    if (t->pooler) {
        tiny_linear(t, t->prefix, "pooler.dense", hidden + t->layers * n * H, 1, H, H, pooled);
        for (int64_t i = 0; i < H; i++)
            pooled[i] = tanh(pooled[i]);
    }
    if (t->labels)
        tiny_linear(t, "", "classifier", pooled, 1, H, t->labels, logits);
    free(q);
}

#endif
