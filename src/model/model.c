/* SPDX-License-Identifier: Apache-2.0 */
/* model.c : a model on disk: where it lies, what is there, and how it is opened. */
#include <esscher/model.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/view.h"
#include "checkpoint/safetensors_inside.h"
#include "model/gguf_model.h"
#include "model/model.h"
#include "model/model_inside.h"
#include "store/file.h"

enum { PATH_MOST = 4096, FILE_MOST = 64, NAME_MOST = 256 };

/* ---- opening ---- */

/* Writes folder/file; returns false if it is too long. */
static bool join(const char *folder, const char *file, char out[PATH_MOST + FILE_MOST])
{
    struct stat st;
    snprintf(out, PATH_MOST + FILE_MOST, "%s/%s", folder, file);
    return lstat(out, &st) == 0; /* a link that leads nowhere is there, and opening it says so */
}

/* Fails because a folder has no weights that are supported, and names those it has. */
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
                                "missing model.safetensors; found only %s, %s", others[i][0],
                                others[i][1]);
    }
    return es_fail_file(err, ES_E_IO, folder, -1, "model.weights",
                        "name the folder that holds config.json and model.safetensors",
                        "missing model.safetensors");
}

/* Opens the weights of a folder. One file comes before an index, as in the library that writes
 * them. */
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

/* Opens a GGUF, which holds configuration and weights; the configuration is checked before the
 * tensors. */
static es_status open_gguf(es_model *model, const es_model_opts *opts, es_st **out, es_error *err)
{
    const es_st_opts st_opts = {.budget = opts->budget, .allow_trailing = opts->allow_trailing};
    es_gguf *g;
    ES_TRY(es_gguf_open(model->folder, &st_opts, &g, err));
    es_status status = es_gguf_config(g, &model->config, err);
    if (status == ES_OK)
        status = es_gguf_adopt(g, &model->config, err);
    if (status == ES_OK)
        return es_st_of_gguf(g, out, err);
    es_gguf_close(g);
    return status;
}

/* Opens configuration and weights. config.json comes first: it is small and selects the
 * description by which the rest is read, and an unsupported model is refused before gigabytes are
 * read. */
static es_status open_both(es_model *model, const es_model_opts *opts, es_st **out, es_error *err)
{
    char path[PATH_MOST + FILE_MOST];
    if (es_gguf_is(model->folder))
        return open_gguf(model, opts, out, err);
    if (join(model->folder, "adapter_config.json", path))
        es_log(ES_LOG_WARN,
               "%s: the adapter (LoRA) beside the model is not applied; to use it, save the merged "
               "model: model.merge_and_unload()",
               path);
    ES_TRY(es_model_config_load(model->folder, &model->config, err));
    return open_weights(model->folder, opts, out, err);
}

/* Opens configuration and weights, and checks the headers of the weights. */
static es_status check(es_model *model, const es_model_opts *opts, es_error *err)
{
    es_st *st;
    ES_TRY(open_both(model, opts, &st, err));
    model->arch = es_arch_find(model->config.model_type, "");
    model->activation = es_activation_find(model->config.activation);
    const es_model_config *c = &model->config;
    if (c->position_rows - c->first_position > c->positions)
        es_log(ES_LOG_WARN,
               "attention_type is block_sparse: blocks have up to %lld tokens, in which attention "
               "is full; longer ones are not supported (the policy bigbird has the pattern)",
               (long long)c->positions);
    return es_weights_check(model, st, opts, err);
}

/* Every failure ends in es_model_close(), which takes a model at any stage. */
es_status es_model_open_headers(const char *name, const es_model_opts *opts, es_model **out,
                                es_error *err)
{
    static const es_model_opts defaults = {0};
    const es_model_opts *o = opts ? opts : &defaults;
    char folder[PATH_MOST];
    *out = NULL;
    if (o->precision && !es_dtype_size(o->precision))
        return es_fail(err, ES_E_ARGUMENT, "model.precision", "use ES_F32 or ES_F64",
                       "unknown precision %d", (int)o->precision);
    ES_TRY(es_model_locate(name, folder, sizeof folder, err));
    es_model *model;
    ES_TRY(ES_MEM_NEW(o->budget, model, 1, "a model", err));
    model->precision = o->precision ? o->precision : ES_F32;
    model->budget = o->budget;
    es_status status = es_mem_text(o->budget, folder, "a file name", &model->folder, err);
    if (status == ES_OK)
        status = check(model, o, err);
    if (status != ES_OK)
        es_model_close(model);
    else
        *out = model;
    return status;
}

es_status es_model_load(es_model *model, es_error *err) { return es_weights_read(model, err); }

es_status es_model_open(const char *name, const es_model_opts *opts, es_model **out, es_error *err)
{
    ES_TRY(es_model_open_headers(name, opts, out, err));
    const es_status status = es_model_load(*out, err);
    if (status != ES_OK) {
        es_model_close(*out);
        *out = NULL;
    }
    return status;
}

/* All weights in memory are one block, so there is nothing to walk through. */
void es_model_close(es_model *model)
{
    if (!model)
        return;
    es_weights_forget(model);
    es_mem_free(model->budget, model->weights);
    es_mem_free(model->budget, model->layers);
    es_mem_free(model->budget, model->folder);
    es_mem_free(model->budget, model);
}

/* ---- what was opened ---- */

const es_model_config *es_model_config_of(const es_model *model) { return &model->config; }

const char *es_model_folder(const es_model *model) { return model->folder; }

es_dtype es_model_precision(const es_model *model) { return model->precision; }

/* Returns the largest id that surrounds every text, -1 if there is none. */
static int32_t largest_special(const es_tokenizer_info *info)
{
    int32_t largest = -1;
    for (int i = 0; i < info->prefix_count; i++)
        largest = info->prefix[i] > largest ? info->prefix[i] : largest;
    for (int i = 0; i < info->suffix_count; i++)
        largest = info->suffix[i] > largest ? info->suffix[i] : largest;
    return largest;
}

es_status es_model_check_tokenizer(const es_model_config *config, const char *folder,
                                   const es_tokenizer *tokenizer, es_error *err)
{
    const es_tokenizer_info info = es_tokenizer_frame(tokenizer);
    const long long has = config->vocab, wants = info.size;
    const es_arch *arch = es_arch_find(config->model_type, "");
    char hint[80];
    snprintf(hint, sizeof hint, "use the %s tokenizer that came with the model",
             arch ? arch->tokenizer : "other");
    if (info.own_size > has || largest_special(&info) >= has)
        return es_fail_file(err, ES_E_FORMAT, folder, -1, "model.vocab", hint,
                            "the tokenizer has %lld tokens, vocab_size is %lld", wants, has);
    if (wants > has)
        es_log(ES_LOG_WARN,
               "the tokenizer has %lld tokens, vocab_size is %lld: a text with one of the added "
               "tokens from id %lld on will be refused",
               wants, has, has);
    if (wants < has)
        es_log(ES_LOG_WARN, "the tokenizer has %lld tokens, vocab_size is %lld", wants, has);
    return ES_OK;
}

/* Returns a view of rows x cols numbers from element `first` of a matrix whose rows are
 * `stride` elements apart. A head is a band of rows of the stacked matrices, so that no copy is
 * necessary. */
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

es_model_head es_layer_head(const es_model *model, const es_layer *l, int64_t head)
{
    const es_model_config *c = &model->config;
    const int64_t H = c->hidden, k = c->head_dim, Q = c->query_width;
    const int64_t group = head / (c->heads / c->kv_heads);
    es_model_head out;
    es_view *const weights[] = {&out.wq, &out.wk, &out.wv};
    es_view *const biases[] = {&out.bq, &out.bk, &out.bv};
    const int64_t first[] = {head * k, Q + group * k, Q + c->kv_width + group * k};
    for (int i = 0; i < 3; i++) {
        const int64_t row = first[i];
        *weights[i] = part(model, l->qkv.w, row * H, k, H, H);
        *biases[i] = part(model, l->qkv.b, row, 1, k, k);
    }
    out.wo = part(model, l->out.w, head * k, H, k, Q);
    return out;
}

es_status es_model_head_of(const es_model *model, int64_t layer, int64_t head, es_model_head *out,
                           es_error *err)
{
    const es_model_config *c = &model->config;
    if (layer < 0 || layer >= c->layers || head < 0 || head >= c->heads)
        return es_fail(err, ES_E_RANGE, "model.head", "count from 0",
                       "head %lld of layer %lld in a model of %lld layers with %lld heads",
                       (long long)head, (long long)layer, (long long)c->layers,
                       (long long)c->heads);
    if (model->config.weights == ES_WEIGHTS_STREAMED)
        return es_fail(err, ES_E_ARGUMENT, "model.streamed", "open it with ES_WEIGHTS_RESIDENT",
                       "weights of a head require a model whose weights are in memory");
    *out = es_layer_head(model, &model->layers[layer], head);
    return ES_OK;
}

/* Returns whether layers have a norm after Wo; known before weights are read. */
static bool has_norm_after_wo(const es_model *model)
{
    for (const es_arch_part *p = model->arch->parts; p->name; p++)
        if (es_part_in_layer(p) && p->at == ES_IN_LAYER(after1))
            return true;
    return false;
}

bool es_model_branch(const es_model *model, int64_t layer, double *scale, double *factor)
{
    const int64_t H = model->config.hidden;
    const bool has_norm = has_norm_after_wo(model);
    if (factor)
        *factor = model->config.branch_factor;
    if (has_norm && scale) {
        const es_view row = part(model, model->layers[layer].after1.w, 0, 1, H, H);
        es_view_read_row(&row, 0, scale);
    }
    return has_norm;
}

double es_model_sink(const es_model *model, int64_t layer, int64_t head)
{
    return es_layer_sink(&model->layers[layer], model->precision, head);
}

/* ---- where it lies ----
 *
 * A folder, a GGUF file, or a name in the cache of the Hugging Face hub:
 *
 *     $CACHE/models--org--name/refs/main          holds a commit
 *     $CACHE/models--org--name/snapshots/COMMIT/  holds config.json, model.safetensors, ...
 */

/* Follows links, of which caches are full. */
static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- the name ---- */

typedef struct hub_name {
    char repository[NAME_MOST]; /* "models--org--name" */
    char revision[NAME_MOST];
} hub_name;

/* Letters, digits, '.', '_' and '-', with a letter or digit first: nothing that leads elsewhere. */
static bool is_plain(const char *text, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return size > 0 && size < NAME_MOST / 3 && strspn(text, letters) >= size &&
           !strchr("._-", *text);
}

/* Splits "org/name@revision". @return : false if it cannot be the name of a repository. */
static bool parse_name(const char *name, hub_name *out)
{
    const char *at = strchr(name, '@'), *end = at ? at : name + strlen(name);
    const char *slash = memchr(name, '/', (size_t)(end - name));
    const char *last = slash ? slash + 1 : name;
    if (!is_plain(last, (size_t)(end - last)) || (slash && !is_plain(name, (size_t)(slash - name))))
        return false;
    if (at && !is_plain(at + 1, strlen(at + 1)))
        return false;
    snprintf(out->repository, sizeof out->repository, "models--%.*s%s%.*s",
             slash ? (int)(slash - name) : 0, name, slash ? "--" : "", (int)(end - last), last);
    snprintf(out->revision, sizeof out->revision, "%s", at ? at + 1 : "main");
    return true;
}

/* ---- the cache ---- */

/* Finds the cache of the Hugging Face hub, in the order of the hub's own library: the first
 * variable that is set decides, also if its folder does not exist. */
static bool find_cache(char *out, size_t size)
{
    static const struct {
        const char *variable, *rest;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value)
            return (size_t)snprintf(out, size, "%s%s", value, places[i].rest) < size;
    }
    return false;
}

/* Reads the commit that refs/REVISION names; "" if there is no such file. */
static es_status read_ref(const char *repository, const char *revision, char commit[NAME_MOST],
                          es_error *err)
{
    char path[PATH_MOST + NAME_MOST + 16];
    void *text;
    size_t size;
    struct stat st;
    commit[0] = '\0';
    snprintf(path, sizeof path, "%s/refs/%s", repository, revision);
    if (stat(path, &st) != 0)
        return ES_OK;
    ES_TRY(es_file_load(path, NAME_MOST, NULL, &text, &size, err));
    const size_t length = strcspn(text, "\r\n");
    const bool plain = strlen(text) == size && is_plain(text, length) &&
                       strspn((char *)text + length, "\r\n") == size - length;
    if (plain)
        snprintf(commit, NAME_MOST, "%.*s", (int)length, (char *)text);
    es_mem_free(NULL, text);
    return plain ? ES_OK
                 : es_fail_file(err, ES_E_FORMAT, path, 0, "hub.ref", "download the model again",
                                "the file does not hold a commit");
}

/* Finds the only snapshot, for caches that were copied without refs; returns false if there is
 * none or more than one. */
static bool only_snapshot(const char *repository, char commit[NAME_MOST])
{
    char path[PATH_MOST + NAME_MOST + 16];
    int count = 0;
    snprintf(path, sizeof path, "%s/snapshots", repository);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || !is_plain(entry->d_name, strlen(entry->d_name)))
            continue;
        snprintf(commit, NAME_MOST, "%s", entry->d_name);
        count++;
    }
    if (folder)
        closedir(folder);
    return count == 1;
}

/* Finds the snapshot of a revision, which is a ref that names a commit, or a commit. Without refs,
 * as after copying a cache by hand, a single snapshot is taken. */
static es_status find_snapshot(const char *repository, const hub_name *name, char *out, size_t size,
                               es_error *err)
{
    char commit[NAME_MOST];
    ES_TRY(read_ref(repository, name->revision, commit, err));
    if (!commit[0] && strcmp(name->revision, "main") != 0) /* not a branch: a commit itself? */
        snprintf(commit, sizeof commit, "%s", name->revision);
    if (!commit[0] && !only_snapshot(repository, commit))
        return es_fail_file(err, ES_E_IO, repository, -1, "model.locate",
                            "name a commit: org/name@COMMIT, or download the model again",
                            "the cache has no ref 'main' and not exactly one snapshot");
    if ((size_t)snprintf(out, size, "%s/snapshots/%s", repository, commit) >= size ||
        !is_folder(out))
        return es_fail_file(err, ES_E_IO, repository, -1, "model.locate",
                            "download that revision, or name another",
                            "the cache has no snapshot '%s'", commit);
    return ES_OK;
}

/* A folder on disk goes before the cache, so that what a user sees is what is used; and the
 * message says where else was looked. */
es_status es_model_locate(const char *name, char *out, size_t size, es_error *err)
{
    char cache[PATH_MOST], repository[PATH_MOST];
    hub_name hub;
    struct stat st;
    if (!name || !*name || !out || size == 0)
        return es_fail(err, ES_E_ARGUMENT, "model.name", "name a folder or a model",
                       "missing model name");
    out[0] = '\0';
    if (is_folder(name) || es_gguf_is(name)) {
        if ((size_t)snprintf(out, size, "%s", name) < size)
            return ES_OK;
        return es_fail(err, ES_E_ARGUMENT, "model.name", "use a shorter path",
                       "the path is too long");
    }
    if (stat(name, &st) == 0)
        return es_fail_file(err, ES_E_FORMAT, name, -1, "model.locate",
                            "name the folder that holds config.json and model.safetensors",
                            "this file is not a GGUF; a model is a folder or a GGUF file");
    if (!parse_name(name, &hub))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "name a folder, or a model as org/name", "no such folder");
    if (!find_cache(cache, sizeof cache))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "set HF_HUB_CACHE, or name a folder",
                            "no such folder, and no cache to search: HOME is not set");
    if ((size_t)snprintf(repository, sizeof repository, "%s/%s", cache, hub.repository) >=
            sizeof repository ||
        !is_folder(repository))
        return es_fail_file(err, ES_E_IO, name, -1, "model.locate",
                            "check the path, or download the model: hf download NAME",
                            "no such folder, and the cache %.150s does not have it", cache);
    return find_snapshot(repository, &hub, out, size, err);
}
