/* SPDX-License-Identifier: Apache-2.0 */
/* layer_heads.h : the attention matrices of one layer, head by head.
 *
 *     es_layer_heads *heads;
 *     es_layer_heads_open(model, layer, exec, &heads, err);
 *     es_layer_heads_at(heads, head, &matrices);
 *     es_layer_heads_close(heads);
 *
 * Those of a resident model are views of its weights. Those of a streamed model are read from the
 * file when a layer is opened, attention alone, and have the same bits. */
#ifndef ES_MODEL_LAYER_HEADS_H
#define ES_MODEL_LAYER_HEADS_H

#include "model/model.h"

typedef struct es_layer_heads es_layer_heads;

/*! es_layer_heads_open() : the matrices of layer 0 <= layer < L. A streamed model is read with the
 *  threads of `exec` (NULL: all), and memory counts against exec->budget. Release with
 *  es_layer_heads_close(). O(bytes of the matrices) if it is streamed.
 *  @return : ES_OK; ES_E_RANGE (model.head); ES_E_LIMIT, ES_E_MEMORY; as es_st_read(). */
es_status es_layer_heads_open(const es_model *model, int64_t layer, const es_exec *exec,
                              es_layer_heads **out, es_error *err);
void es_layer_heads_close(es_layer_heads *heads);

/*! es_layer_heads_at() : head 0 <= head < h, valid until es_layer_heads_close(). Any thread. */
es_model_head es_layer_heads_at(const es_layer_heads *heads, int64_t head);

/*! es_layer_heads_bytes() : returns a bound for the memory of one layer that is open; a few bytes
 *  for a resident model. `exec` may be NULL. */
double es_layer_heads_bytes(const es_model_config *config, es_dtype precision, const es_exec *exec);

#endif
