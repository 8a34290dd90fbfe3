#include <esscher/model.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/weights.h"

enum { PATH_MOST = 4096, FILE_MOST = 64 };

/* ---- opening ---- */

static bool join(const char *folder, const char *file, char out[PATH_MOST + FILE_MOST])
{
    struct stat st;
    snprintf(out, PATH_MOST + FILE_MOST, "%s/%s", folder, file);
    return lstat(out, &st) == 0; /* a link that leads nowhere is there, and opening it says so */
}

/* There are no weights we read: what is there instead? */
static es_status no_weights(const char *folder, es_error *err)
{
    static const char *const others[][2] = {
        {"pytorch_model.bin", "a pickle of PyTorch"},
        {"pytorch_model.bin.index.json", "pickles of PyTorch"},
        {"tf_model.h5", "weights of TensorFlow"},
        {"flax_model.msgpack", "weights of Flax"},
        {"model.onnx", "an ONNX graph"},
    };
    char path[PATH_MOST + FILE_MOST];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (join(folder, others[i][0], path))
            return es_fail_file(err, ES_E_UNSUPPORTED, folder, -1, "model.weights",
                                "save the model with safetensors: model.save_pretrained(folder)",
                                "there is no model.safetensors, only %s, %s", others[i][0],
                                others[i][1]);
    }
    return es_fail_file(err, ES_E_IO, folder, -1, "model.weights",
                        "name the folder that holds config.json and model.safetensors",
                        "there is no model.safetensors");
}

static es_status open_weights(const char *folder, const es_model_opts *opts, es_st **out,
                              es_error *err)
{
    const es_st_opts st_opts = {.budget = opts->budget, .allow_trailing = opts->allow_trailing};
    char path[PATH_MOST + FILE_MOST];
    if (join(folder, "model.safetensors", path))
        return es_st_open(path, &st_opts, out, err);
    if (join(folder, "model.safetensors.index.json", path))
        return es_st_open_index(path, &st_opts, out, err);
    *out = NULL;
    return no_weights(folder, err);
}

static es_status load(es_model *model, const es_model_opts *opts, es_error *err)
{
    char path[PATH_MOST + FILE_MOST];
    es_st *st;
    join(model->folder, "config.json", path);
    ES_TRY(es_model_config_load(path, &model->config, err));
    ES_TRY(open_weights(model->folder, opts, &st, err));
    const es_status status = es_weights_load(model, st, opts, err);
    es_st_close(st);
    return status;
}

es_status es_model_open(const char *name, const es_model_opts *opts, es_model **out, es_error *err)
{
    static const es_model_opts defaults = {0};
    const es_model_opts *o = opts ? opts : &defaults;
    char folder[PATH_MOST];
    void *memory;
    *out = NULL;
    if (o->precision && !es_dtype_size(o->precision))
        return es_fail(err, ES_E_ARGUMENT, "model.precision", "use ES_F32 or ES_F64",
                       "unknown precision %d", (int)o->precision);
    ES_TRY(es_model_locate(name, folder, sizeof folder, err));
    ES_TRY(es_mem_new(o->budget, sizeof **out, "a model", &memory, err));
    es_model *model = memory;
    model->precision = o->precision ? o->precision : ES_F32;
    model->budget = o->budget;
    es_status status = es_mem_new(o->budget, strlen(folder) + 1, "a file name", &memory, err);
    if (status == ES_OK) {
        model->folder = memcpy(memory, folder, strlen(folder) + 1);
        status = load(model, o, err);
    }
    if (status != ES_OK)
        es_model_close(model);
    else
        *out = model;
    return status;
}

void es_model_close(es_model *model)
{
    if (!model)
        return;
    es_mem_free(model->budget, model->weights);
    es_mem_free(model->budget, model->layers);
    es_mem_free(model->budget, model->folder);
    es_mem_free(model->budget, model);
}

/* ---- what was opened ---- */

const es_model_config *es_model_config_of(const es_model *model) { return &model->config; }

const char *es_model_folder(const es_model *model) { return model->folder; }

es_dtype es_model_precision(const es_model *model) { return model->precision; }

es_status es_model_check_vocab(const es_model *model, int64_t size, es_error *err)
{
    const long long has = model->config.vocab, wants = size;
    if (wants > has)
        return es_fail_file(err, ES_E_FORMAT, model->folder, -1, "model.vocab",
                            "use the tokenizer that came with the model",
                            "the tokenizer has %lld tokens, vocab_size is %lld", wants, has);
    if (wants < has)
        es_log(ES_LOG_WARN, "the tokenizer has %lld tokens, vocab_size is %lld", wants, has);
    return ES_OK;
}

/* rows x cols numbers from element `first` of a matrix whose rows are `stride` elements apart. */
static es_view part(const es_model *m, const void *matrix, int64_t first, int64_t rows,
                    int64_t cols, int64_t stride)
{
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    return (es_view){.data = (char *)matrix + first * item,
                     .dtype = m->precision,
                     .rows = rows,
                     .cols = cols,
                     .row_stride = stride * item,
                     .col_stride = item};
}

es_status es_model_head_of(const es_model *model, int64_t layer, int64_t head, es_model_head *out,
                           es_error *err)
{
    const es_model_config *c = &model->config;
    const int64_t H = c->hidden, k = H / c->heads;
    if (layer < 0 || layer >= c->layers || head < 0 || head >= c->heads)
        return es_fail(err, ES_E_RANGE, "model.head", "count from 0",
                       "head %lld of layer %lld in a model of %lld layers with %lld heads",
                       (long long)head, (long long)layer, (long long)c->layers,
                       (long long)c->heads);
    const es_layer *l = &model->layers[layer];
    es_view *const weights[] = {&out->wq, &out->wk, &out->wv};
    es_view *const biases[] = {&out->bq, &out->bk, &out->bv};
    for (int i = 0; i < 3; i++) {
        const int64_t row = i * H + head * k;
        *weights[i] = part(model, l->qkv.w, row * H, k, H, H);
        *biases[i] = part(model, l->qkv.b, row, 1, k, k);
    }
    out->wo = part(model, l->out.w, head * k, H, k, H);
    return ES_OK;
}
