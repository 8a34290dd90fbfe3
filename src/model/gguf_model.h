/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_model.h : a GGUF as the checkpoint that it was made from. */
#ifndef ES_MODEL_GGUF_MODEL_H
#define ES_MODEL_GGUF_MODEL_H

#include <esscher/model.h>

#include "checkpoint/gguf_inside.h"

/*! es_gguf_find_tensor() : returns a tensor by its name in the file; NULL if there is none.
 *  O(log tensors). */
const es_st_tensor *es_gguf_find_tensor(const es_gguf *g, const char *name);

/*! es_gguf_config() : what config.json would say, from the values of a file and the shape of its
 *  embeddings. es_gguf_archs lists the architectures. A value of the architecture that is not known
 *  here is refused by its key: it may change what is computed.
 *  @return : ES_OK; ES_E_FORMAT: gguf.missing, gguf.value, gguf.heads, gguf.tensor;
 *  ES_E_UNSUPPORTED: gguf.architecture, gguf.function, gguf.kind (tensors of types that
 *  are not read, with their names); as es_config_complete(). */
es_status es_gguf_config(const es_gguf *g, es_model_config *out, es_error *err);

/*! es_gguf_adopt() : the tensors of a file whose configuration this is, as those of a Hugging Face
 *  checkpoint: g's own names, order and rows change to that. Every tensor must be one that the
 *  architecture has, in its shape.
 *  @return : ES_OK; ES_E_FORMAT (gguf.tensor: missing, or of another shape); ES_E_UNSUPPORTED
 *  (gguf.tensor: one that is not known); ES_E_LIMIT, ES_E_MEMORY. */
es_status es_gguf_adopt(es_gguf *g, const es_model_config *config, es_error *err);

#endif
