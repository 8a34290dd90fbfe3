/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_distilbert.h : a small random DistilBERT, written as a checkpoint, and run in plain f64
 * loops that know nothing of descriptions: one function per line of the model, tensors asked for by
 * name. */
#ifndef ES_TESTS_TINY_DISTILBERT_H
#define ES_TESTS_TINY_DISTILBERT_H

#include "tiny_model.h"

/* The question in the words of `tiny`: layers 2, dim 24, heads 3, hidden_dim 40. */
static inline tiny distil_default(void)
{
    return (tiny){.hidden = 24,
                  .layers = 2,
                  .heads = 3,
                  .intermediate = 40,
                  .vocab = 31,
                  .positions = 40,
                  .prefix = "distilbert.",
                  .dtype = "F32"};
}

/* ---- weights ---- */

/* A norm's scale is around 1, where real ones are. */
static inline void distil_add_norm(tiny *t, const char *name)
{
    tiny_add_linear(t, t->prefix, name, t->hidden, 0);
    for (int64_t i = 0; i < t->hidden; i++)
        t->tensors[t->count - 2].values[i] = 1.0 + floor(128.0 * tiny_random(t)) / 128.0;
}

static inline void distil_draw(tiny *t)
{
    static const char *const linear[] = {"q_lin", "k_lin", "v_lin", "out_lin"};
    char name[128];
    t->state = 11, t->count = 0;
    tiny_add(t, t->prefix, "embeddings.word_embeddings.weight", t->vocab, t->hidden);
    tiny_add(t, t->prefix, "embeddings.position_embeddings.weight", t->positions, t->hidden);
    distil_add_norm(t, "embeddings.LayerNorm");
    for (int l = 0; l < (int)t->layers; l++) {
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "transformer.layer.%d.attention.%s", l, linear[i]);
            tiny_add_linear(t, t->prefix, name, t->hidden, t->hidden);
        }
        snprintf(name, sizeof name, "transformer.layer.%d.sa_layer_norm", l);
        distil_add_norm(t, name);
        snprintf(name, sizeof name, "transformer.layer.%d.ffn.lin1", l);
        tiny_add_linear(t, t->prefix, name, t->intermediate, t->hidden);
        snprintf(name, sizeof name, "transformer.layer.%d.ffn.lin2", l);
        tiny_add_linear(t, t->prefix, name, t->hidden, t->intermediate);
        snprintf(name, sizeof name, "transformer.layer.%d.output_layer_norm", l);
        distil_add_norm(t, name);
    }
    if (t->labels) {
        tiny_add_linear(t, "", "pre_classifier", t->hidden, t->hidden);
        tiny_add_linear(t, "", "classifier", t->labels, t->hidden);
    }
}

static inline void distil_write(const tiny *t, bool sinusoidal)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"activation\":\"gelu\",\"architectures\":[\"%s\"],\"attention_dropout\":0.1,"
             "\"dim\":%d,\"dropout\":0.1,\"hidden_dim\":%d,\"initializer_range\":0.02,"
             "\"max_position_embeddings\":%d,\"model_type\":\"distilbert\",\"n_heads\":%d,"
             "\"n_layers\":%d,\"pad_token_id\":0,\"sinusoidal_pos_embds\":%s,"
             "\"tie_weights_\":true,\"vocab_size\":%d}",
             t->labels ? "DistilBertForSequenceClassification" : "DistilBertModel", (int)t->hidden,
             (int)t->intermediate, (int)t->positions, (int)t->heads, (int)t->layers,
             sinusoidal ? "true" : "false", (int)t->vocab);
    write_file("config.json", text, strlen(text));
    tiny_write_part(t, "model.safetensors", 0, t->count);
}

/* ---- the forward pass ---- */

static inline void distil_affine(const tiny *t, const char *prefix, const char *name,
                                 const double *x, int64_t inputs, int64_t outputs, double *y)
{
    char full[160];
    snprintf(full, sizeof full, "%s.weight", name);
    const double *w = tiny_find(t, prefix, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *b = tiny_find(t, prefix, full);
    for (int64_t o = 0; o < outputs; o++) {
        y[o] = b[o];
        for (int64_t i = 0; i < inputs; i++)
            y[o] += w[o * inputs + i] * x[i];
    }
}

/* x = (x - mean) / sqrt(var + 1e-12) scale + shift, of one token */
static inline void distil_norm(const tiny *t, const char *name, double *x)
{
    char full[160];
    const double H = (double)t->hidden;
    double sum = 0, squares = 0;
    snprintf(full, sizeof full, "%s.weight", name);
    const double *scale = tiny_find(t, t->prefix, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *shift = tiny_find(t, t->prefix, full);
    for (int64_t i = 0; i < t->hidden; i++)
        sum += x[i];
    for (int64_t i = 0; i < t->hidden; i++)
        squares += pow(x[i] - sum / H, 2.0);
    for (int64_t i = 0; i < t->hidden; i++)
        x[i] = (x[i] - sum / H) / sqrt(squares / H + 1e-12) * scale[i] + shift[i];
}

/* One token's attention over all: q (H), k and v (n, H), out (H). Queries are divided by sqrt(d)
 * before the product, as DistilBERT does. */
static inline void distil_attend(const tiny *t, const double *q, const double *k, const double *v,
                                 int64_t n, double *out)
{
    const int64_t H = t->hidden, d = H / t->heads;
    for (int64_t h = 0; h < t->heads; h++) {
        double total = 0, w[64];
        assert_at_most(n, 64);
        for (int64_t j = 0; j < n; j++) {
            double score = 0;
            for (int64_t c = h * d; c < (h + 1) * d; c++)
                score += q[c] / sqrt((double)d) * k[j * H + c];
            total += w[j] = exp(score); /* scores are small numbers here */
        }
        for (int64_t c = h * d; c < (h + 1) * d; c++) {
            out[c] = 0;
            for (int64_t j = 0; j < n; j++)
                out[c] += w[j] / total * v[j * H + c];
        }
    }
}

/* hidden (layers + 1, n, dim); logits (labels) if there are any. */
static inline void distil_forward(const tiny *t, const int32_t *ids, int64_t n, double *hidden,
                                  double *pooled, double *logits)
{
    enum { MOST_WIDTH = 64, MOST_TOKENS = 64 };
    static double k[MOST_TOKENS * MOST_WIDTH], v[MOST_TOKENS * MOST_WIDTH];
    const int64_t H = t->hidden, I = t->intermediate;
    const double *word = tiny_find(t, t->prefix, "embeddings.word_embeddings.weight");
    const double *place = tiny_find(t, t->prefix, "embeddings.position_embeddings.weight");
    double q[MOST_WIDTH], heads[MOST_WIDTH], a[MOST_WIDTH], m[MOST_WIDTH];
    char name[128];
    assert_at_most(H, MOST_WIDTH);
    assert_at_most(I, MOST_WIDTH);
    assert_at_most(n, MOST_TOKENS);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < H; c++)
            hidden[i * H + c] = word[ids[i] * H + c] + place[i * H + c];
        distil_norm(t, "embeddings.LayerNorm", hidden + i * H);
    }
#define IN_LAYER(part) (snprintf(name, sizeof name, "transformer.layer.%d." part, (int)l), name)
    for (int64_t l = 0; l < t->layers; l++) {
        const double *x = hidden + l * n * H;
        for (int64_t i = 0; i < n; i++) {
            distil_affine(t, t->prefix, IN_LAYER("attention.k_lin"), x + i * H, H, H, k + i * H);
            distil_affine(t, t->prefix, IN_LAYER("attention.v_lin"), x + i * H, H, H, v + i * H);
        }
        for (int64_t i = 0; i < n; i++) {
            double *y = hidden + (l + 1) * n * H + i * H;
            distil_affine(t, t->prefix, IN_LAYER("attention.q_lin"), x + i * H, H, H, q);
            distil_attend(t, q, k, v, n, heads);
            distil_affine(t, t->prefix, IN_LAYER("attention.out_lin"), heads, H, H, a);
            for (int64_t c = 0; c < H; c++)
                a[c] += x[i * H + c];
            distil_norm(t, IN_LAYER("sa_layer_norm"), a);
            distil_affine(t, t->prefix, IN_LAYER("ffn.lin1"), a, H, I, m);
            for (int64_t c = 0; c < I; c++)
                m[c] = m[c] / 2.0 * erfc(-m[c] / sqrt(2.0));
            distil_affine(t, t->prefix, IN_LAYER("ffn.lin2"), m, I, H, y);
            for (int64_t c = 0; c < H; c++)
                y[c] += a[c];
            distil_norm(t, IN_LAYER("output_layer_norm"), y);
        }
    }
#undef IN_LAYER
    if (t->labels) {
        distil_affine(t, "", "pre_classifier", hidden + t->layers * n * H, H, H, pooled);
        for (int64_t c = 0; c < H; c++)
            pooled[c] = fmax(pooled[c], 0.0);
        distil_affine(t, "", "classifier", pooled, H, t->labels, logits);
    }
}

#endif
