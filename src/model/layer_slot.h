/* SPDX-License-Identifier: Apache-2.0 */
/* layer_slot.h : the weights of one layer at a time.
 *
 * The slot of a resident model is empty and points at the weights in memory. That of a streamed one
 * holds the matrices of one layer, of its experts one, or a panel of rows of the word embeddings or
 * of the language head, which it reads from the file when it is asked for them. Products then have
 * the same operands in both, and so the same bits. Files are read with pread(), not mapped: the
 * page cache holds them, and a file that is cut short meanwhile is an error.
 *
 * A slot belongs to one caller. Any number of slots may read one model. */
#ifndef ES_MODEL_LAYER_SLOT_H
#define ES_MODEL_LAYER_SLOT_H

#include "model/weights_inside.h"

enum { ES_PANEL = 4096 }; /* rows of a panel */

typedef struct es_layer_slot {
    const es_model *model;
    es_layer layer; /* matrices in `memory`, norms and biases in the model */
    char *memory;
    char *rest; /* of `memory`, behind the layer: an expert */
    es_read_scratch scratch;
} es_layer_slot;

/*! es_slot_new() : allocates a slot that decodes with the threads of `exec` (NULL: all), counted
 *  against exec->budget. Release with es_slot_free(). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY. */
es_status es_slot_new(const es_model *model, const es_exec *exec, es_layer_slot *out,
                      es_error *err);
void es_slot_free(es_layer_slot *slot);

/*! es_slot_bytes() : returns a bound for the memory of a slot of a streamed model.
 *  es_slot_attention_bytes() : the same of es_slot_attention(). */
double es_slot_bytes(const es_model_config *config, es_dtype precision, int threads);
double es_slot_attention_bytes(const es_model_config *config, es_dtype precision, int threads);

/*! es_slot_layer() : the weights of layer 0 <= layer < L, valid until the slot is asked for another
 *  layer or a panel. Experts of a streamed model are not among them. @return : ES_OK; as
 *  es_st_read(). */
es_status es_slot_layer(es_layer_slot *slot, int64_t layer, const es_layer **out, es_error *err);

/*! es_slot_attention() : allocates a slot for the matrices qkv and out of one layer alone, and
 * reads them: out->layer has them, of a resident model, too. Release with es_slot_free().
 *  @return : as es_slot_new() and es_slot_layer(). */
es_status es_slot_attention(const es_model *model, int64_t layer, const es_exec *exec,
                            es_layer_slot *out, es_error *err);

/*! es_slot_expert() : reads an expert of the layer that the slot has: w of experts_up and
 *  experts_down of a streamed layer are its matrices afterwards (es_linear_expert()). Resident
 *  layers have all experts. @return : as es_slot_layer(). */
es_status es_slot_expert(es_layer_slot *slot, int64_t layer, int64_t expert, es_error *err);

/*! es_linear_expert() : returns an expert's own map: of those of all, (experts, outputs, inputs),
 * or the one that the slot of a streamed model has. */
static inline es_linear es_linear_expert(const es_model *m, const es_linear *all, int64_t expert,
                                         int64_t outputs, int64_t inputs)
{
    const int64_t item = (int64_t)es_dtype_size(m->precision);
    const int64_t before = m->config.weights == ES_WEIGHTS_STREAMED ? 0 : expert;
    return (es_linear){(char *)all->w + before * outputs * inputs * item,
                       (char *)all->b + expert * outputs * item};
}

/*! es_slot_panel() : rows first ... first + rows - 1 of the language head, or of the word
 *  embeddings; rows <= ES_PANEL. Valid and @return : as es_slot_layer(). */
es_status es_slot_panel(es_layer_slot *slot, bool head, int64_t first, int64_t rows,
                        const void **out, es_error *err);

/*! es_slot_words() : word embeddings of ids (n) into out (n, H), of a streamed model.
 *  @return : as es_st_read(). */
es_status es_slot_words(const es_layer_slot *slot, const int32_t *ids, int64_t n, void *out,
                        es_error *err);

#endif
