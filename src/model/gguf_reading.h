/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_reading.h : values of a GGUF while they become a configuration. */
#ifndef ES_MODEL_GGUF_READING_H
#define ES_MODEL_GGUF_READING_H

#include "model/gguf_arch.h"

enum { ES_GGUF_KEY = 96 }; /* bytes of the longest key or name that is written */

typedef struct es_gguf_reading {
    const es_gguf *g;
    const es_gguf_arch *arch;
    es_config_draft *draft;
    es_model_config *config; /* of the draft */
    es_error *err;
} es_gguf_reading;

/* The hint for a file that contradicts itself. */
#define ES_GGUF_CONVERT "convert the model anew, or use the checkpoint it was made from"

/*! es_gguf_key_of() : writes and returns "ARCHITECTURE.rest". */
const char *es_gguf_key_of(const es_gguf_reading *r, const char *rest, char out[ES_GGUF_KEY]);

/*! es_gguf_take_whole(), es_gguf_take_real() : read a number of the architecture, in [min, max], as
 *  es_gguf_whole(). Numbers stored as f32 become the shortest decimal that rounds to them, so that
 *  1e-5 is 1e-5 as in config.json. */
es_status es_gguf_take_whole(const es_gguf_reading *r, const char *rest, es_gguf_range range,
                             int64_t *out);
es_status es_gguf_take_real(const es_gguf_reading *r, const char *rest, es_gguf_range range,
                            double *out);

/*! es_gguf_shortest() : returns the shortest decimal number that is this f32. */
double es_gguf_shortest(double value);

/*! es_gguf_refuse() : fails because of a key. @return : ES_E_UNSUPPORTED (gguf.function). */
es_status es_gguf_refuse(const es_gguf_reading *r, const char *key, const char *hint);

/*! es_gguf_take_rotary() : reads how rotary positions are stretched: by keys, or by the tensors
 *  that es_gguf_is_rotary() knows, which are part of the configuration.
 *  @return : ES_OK; ES_E_FORMAT: gguf.value, gguf.tensor; ES_E_UNSUPPORTED: gguf.function. */
es_status es_gguf_take_rotary(const es_gguf_reading *r);
bool es_gguf_is_rotary(const char *tensor);

#endif
