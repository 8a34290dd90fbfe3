/* pool_hash.c : what a pool is made of, as numbers that tell one model and one text from another.
 */
#include <string.h>

#include "base/error.h"
#include "model/pool_files.h"
#include "model/weights.h"
#include "store/file.h"

static es_status hash_file(const char *path, uint64_t *crc, es_error *err)
{
    unsigned char bytes[65536];
    es_file file;
    ES_TRY(es_file_open(path, &file, err));
    es_status status = ES_OK;
    for (uint64_t at = 0; at < file.size && status == ES_OK;) {
        const uint64_t left = file.size - at;
        const size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
        status = es_file_read(&file, at, bytes, size, err);
        if (status == ES_OK)
            *crc = es_crc(*crc, bytes, size);
        at += size;
    }
    es_file_close(&file);
    return status;
}

es_status es_pool_hash_texts(const char *const *texts, int64_t count, uint64_t *out, es_error *err)
{
    *out = 0;
    for (int64_t i = 0; i < count; i++)
        ES_TRY(hash_file(texts[i], out, err));
    return ES_OK;
}

/* One multiplication per number, since there are many: weights that differ are told apart, nothing
 * more is asked. */
static uint64_t mix(uint64_t h, const float *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        h = (h ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return h;
}

static uint64_t mix_linear(uint64_t h, const es_linear *part, int64_t outputs, int64_t inputs)
{
    return mix(mix(h, part->w, outputs * inputs), part->b, outputs);
}

/* As the weights were loaded: how the checkpoint was cut into files does not matter. */
uint64_t es_pool_hash_model(const es_model *m)
{
    const es_model_config *c = es_model_config_of(m);
    const int64_t H = c->hidden, I = c->intermediate;
    const double about[] = {(double)c->heads, c->layer_norm_eps};
    uint64_t h = es_crc(0, about, sizeof about);
    h = mix(h, m->word, c->vocab * H);
    h = mix(h, m->position, c->positions * H);
    h = mix(h, m->type, H); /* type 0 is the one used */
    h = mix_linear(h, &m->norm0, H, 1);
    for (int64_t l = 0; l < c->layers; l++) {
        const es_layer *layer = &m->layers[l];
        h = mix_linear(h, &layer->qkv, 3 * H, H);
        h = mix_linear(h, &layer->out, H, H);
        h = mix_linear(h, &layer->norm1, H, 1);
        h = mix_linear(h, &layer->up, I, H);
        h = mix_linear(h, &layer->down, H, I);
        h = mix_linear(h, &layer->norm2, H, 1);
    }
    return h;
}
