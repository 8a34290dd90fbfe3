#include "model/model_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

/* Every tensor is visited twice: first checked and counted, so that no memory is taken for weights
 * that are not there; then read into its place. */
typedef struct loader {
    es_model *model;
    const es_st *st;
    const es_model_opts *opts;
    const char *prefix; /* "" or "bert." */
    bool reading;       /* second visit */
    int64_t used;       /* numbers counted or read so far */
    es_error *err;
} loader;

/* ---- one tensor ---- */

/* "[30522, 384]" */
static const char *shape_text(const es_st_tensor *t, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < t->rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld",
                                 (long long)t->shape[i]);
    if (used < size)
        snprintf(out + used, size - used, "]");
    return out;
}

/* The tensor of a slot, under its name or, for a LayerNorm, the one that TensorFlow's checkpoints
 * gave it: gamma for weight, beta for bias. */
static const es_st_tensor *find(const loader *l, const char *prefix, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const es_st_tensor *t = es_st_find(l->st, full);
    char *last = strrchr(full, '.');
    if (t || !last || !strstr(full, "LayerNorm."))
        return t;
    snprintf(last, sizeof full - (size_t)(last - full), "%s",
             strcmp(last, ".weight") == 0 ? ".gamma" : ".beta");
    return es_st_find(l->st, full);
}

/* cols 0: a vector. */
static es_status check(const loader *l, const es_st_tensor *t, const char *name, int64_t rows,
                       int64_t cols)
{
    char has[128], wants[64];
    if (!t)
        return es_fail_file(l->err, ES_E_FORMAT, l->model->folder, -1, "model.tensor",
                            "is config.json that of these weights?", "there is no tensor %s%s",
                            l->prefix, name);
    if (t->rank == (cols ? 2 : 1) && t->shape[0] == rows && t->shape[1] == (cols ? cols : 1))
        return ES_OK;
    snprintf(wants, sizeof wants, cols ? "[%lld, %lld]" : "[%lld]", (long long)rows,
             (long long)cols);
    return es_fail_file(l->err, ES_E_FORMAT, es_st_file(l->st, t), (int64_t)t->offset,
                        "model.shape", "is config.json that of these weights?",
                        "tensor %s has shape %s, config.json asks for %s", t->name,
                        shape_text(t, has, sizeof has), wants);
}

static es_status read(const loader *l, const es_st_tensor *t, void *at)
{
    es_st_seen seen;
    ES_TRY(es_st_read(l->st, t, l->model->precision, at, &seen, l->err));
    if (seen.subnormals)
        es_log(ES_LOG_DEBUG, "tensor %.100s: %lld subnormal %s numbers", t->name,
               (long long)seen.subnormals, t->dtype);
    if (seen.first < 0)
        return ES_OK;
    if (!l->opts->allow_nonfinite)
        return es_fail_file(l->err, ES_E_NONFINITE, es_st_file(l->st, t), (int64_t)t->offset,
                            "model.finite", "download it anew; or allow non-finite weights",
                            "tensor %.100s holds %lld NaN and %lld infinite numbers, the first at "
                            "index %lld",
                            t->name, (long long)seen.nans, (long long)seen.infinities,
                            (long long)seen.first);
    l->model->nonfinite = true;
    es_log(ES_LOG_WARN, "tensor %.100s holds %lld NaN and %lld infinite numbers", t->name,
           (long long)seen.nans, (long long)seen.infinities);
    return ES_OK;
}

static es_status visit_as(loader *l, const char *prefix, const char *name, int64_t rows,
                          int64_t cols, void **at)
{
    const es_st_tensor *t = find(l, prefix, name);
    if (!l->reading) {
        ES_TRY(check(l, t, name, rows, cols)); /* so t->count is what a file on disk holds */
    } else {
        void *place =
            (char *)l->model->weights + (size_t)l->used * es_dtype_size(l->model->precision);
        ES_TRY(read(l, t, place));
        if (at)
            *at = place;
    }
    l->used += t->count;
    return ES_OK;
}

static es_status visit(loader *l, const char *name, int64_t rows, int64_t cols, void **at)
{
    return visit_as(l, l->prefix, name, rows, cols, at);
}

/* ---- all of them ---- */

/* A weight (rows, cols) and its bias (rows), or for cols 0 a LayerNorm's scale and shift. */
static es_status visit_linear(loader *l, const char *name, int64_t rows, int64_t cols,
                              es_linear *at)
{
    char full[192];
    snprintf(full, sizeof full, "%s.weight", name);
    ES_TRY(visit(l, full, rows, cols, &at->w));
    snprintf(full, sizeof full, "%s.bias", name);
    return visit(l, full, rows, 0, &at->b);
}

/* Weights of query, key and value follow each other in memory, then their biases do. */
static es_status visit_qkv(loader *l, int64_t layer, es_linear *at)
{
    static const char *const which[] = {"query", "key", "value"};
    const int64_t H = l->model->config.hidden;
    char name[192];
    for (int bias = 0; bias < 2; bias++) {
        for (int i = 0; i < 3; i++) {
            void **first = i ? NULL : bias ? &at->b : &at->w;
            snprintf(name, sizeof name, "encoder.layer.%lld.attention.self.%s.%s", (long long)layer,
                     which[i], bias ? "bias" : "weight");
            ES_TRY(visit(l, name, H, bias ? 0 : H, first));
        }
    }
    return ES_OK;
}

static es_status visit_layer(loader *l, int64_t layer, es_layer *at)
{
    const int64_t H = l->model->config.hidden, I = l->model->config.intermediate;
    const struct {
        const char *name;
        int64_t rows, cols;
        es_linear *at;
    } parts[] = {{"attention.output.dense", H, H, &at->out},
                 {"attention.output.LayerNorm", H, 0, &at->norm1},
                 {"intermediate.dense", I, H, &at->up},
                 {"output.dense", H, I, &at->down},
                 {"output.LayerNorm", H, 0, &at->norm2}};
    char name[128];
    ES_TRY(visit_qkv(l, layer, &at->qkv));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(name, sizeof name, "encoder.layer.%lld.%s", (long long)layer, parts[i].name);
        ES_TRY(visit_linear(l, name, parts[i].rows, parts[i].cols, parts[i].at));
    }
    return ES_OK;
}

static es_status visit_all(loader *l)
{
    es_model *m = l->model;
    const es_model_config *c = &m->config;
    l->used = 0;
    ES_TRY(visit(l, "embeddings.word_embeddings.weight", c->vocab, c->hidden, &m->word));
    ES_TRY(
        visit(l, "embeddings.position_embeddings.weight", c->positions, c->hidden, &m->position));
    ES_TRY(visit(l, "embeddings.token_type_embeddings.weight", c->types, c->hidden, &m->type));
    ES_TRY(visit_linear(l, "embeddings.LayerNorm", c->hidden, 0, &m->norm0));
    for (int64_t i = 0; i < c->layers; i++)
        ES_TRY(visit_layer(l, i, &m->layers[i]));
    if (c->pooler)
        ES_TRY(visit_linear(l, "pooler.dense", c->hidden, c->hidden, &m->pooler));
    if (c->labels) { /* the head is never inside "bert." */
        ES_TRY(visit_as(l, "", "classifier.weight", c->labels, c->hidden, &m->classifier.w));
        ES_TRY(visit_as(l, "", "classifier.bias", c->labels, 0, &m->classifier.b));
    }
    return ES_OK;
}

/* ---- what the names say ---- */

static bool starts_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The prefix of the encoder's tensors, and how many layers they have. */
static es_status survey(loader *l, int64_t *layers)
{
    bool with = false, without = false;
    *layers = 0;
    for (int64_t i = 0; i < es_st_count(l->st); i++) {
        const char *name = es_st_at(l->st, i)->name;
        const bool bert = starts_with(name, "bert.");
        const char *rest = bert ? name + 5 : name;
        if (!starts_with(rest, "embeddings.") && !starts_with(rest, "encoder."))
            continue;
        *(bert ? &with : &without) = true;
        if (starts_with(rest, "encoder.layer.")) {
            const long long layer = strtoll(rest + 14, NULL, 10);
            *layers = layer >= *layers && layer < 1 << 20 ? layer + 1 : *layers;
        }
    }
    l->prefix = with ? "bert." : "";
    if (!with && !without)
        return es_fail_file(
            l->err, ES_E_FORMAT, l->model->folder, -1, "model.prefix",
            "tensors of a BERT are named encoder.layer.0..., or with \"bert.\" "
            "before it; rename them when you save the model",
            "no tensor is named as in a BERT: there are %lld, the first is '%.100s'",
            (long long)es_st_count(l->st), es_st_count(l->st) ? es_st_at(l->st, 0)->name : "");
    if (with && without)
        return es_fail_file(
            l->err, ES_E_FORMAT, l->model->folder, -1, "model.prefix",
            "keep one of the two encoders",
            "tensors are named with and without \"bert.\": which encoder is meant?");
    return ES_OK;
}

/* Pooler and classifier are there or not; a config's labels count only with a classifier. */
static es_status find_heads(const loader *l)
{
    es_model_config *c = &l->model->config;
    const es_st_tensor *classifier = es_st_find(l->st, "classifier.weight");
    const bool sequence = strcmp(c->architecture, "BertForSequenceClassification") == 0;
    c->pooler = find(l, l->prefix, "pooler.dense.weight") != NULL;
    if (!sequence || !classifier || !c->pooler)
        c->labels = 0;
    else if (!c->labels)
        c->labels =
            classifier->shape[0]; /* config.json leaves out id2label when it is LABEL_0, ... */
    return ES_OK;
}

static es_status check_layers(const loader *l, int64_t layers)
{
    const int64_t wanted = l->model->config.layers;
    if (layers < wanted)
        return es_fail_file(l->err, ES_E_FORMAT, l->model->folder, -1, "model.layers",
                            "is config.json that of these weights?",
                            "config.json says %lld layers, the weights have %lld",
                            (long long)wanted, (long long)layers);
    if (layers > wanted)
        es_log(ES_LOG_WARN,
               "the weights have %lld layers, config.json says %lld: the rest is unused",
               (long long)layers, (long long)wanted);
    return ES_OK;
}

es_status es_weights_load(es_model *model, const es_st *st, const es_model_opts *opts,
                          es_error *err)
{
    loader l = {.model = model, .st = st, .opts = opts, .err = err};
    int64_t layers;
    void *memory;
    ES_TRY(survey(&l, &layers));
    ES_TRY(check_layers(&l, layers));
    ES_TRY(find_heads(&l));
    ES_TRY(es_mem_array(model->budget, model->config.layers, 1, sizeof *model->layers,
                        "a list of layers", &memory, err));
    model->layers = memory;
    ES_TRY(visit_all(&l));
    ES_TRY(es_mem_array(model->budget, l.used, 1, es_dtype_size(model->precision), "the weights",
                        &model->weights, err));
    l.reading = true;
    return visit_all(&l);
}
