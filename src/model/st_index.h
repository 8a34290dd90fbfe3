/* st_index.h : model.safetensors.index.json, which says which shard holds which tensor. */
#ifndef ES_MODEL_ST_INDEX_H
#define ES_MODEL_ST_INDEX_H

#include <stddef.h>

#include <esscher/exec.h>
#include <esscher/status.h>

typedef struct es_st_place {
    const char *tensor, *shard; /* in the text of the index */
} es_st_place;

/*! es_st_index_parse() : the places of the index, by shard and then by tensor, as new memory of
 *  `budget`. `bytes` (size of them) is changed: names are decoded and terminated in place. A shard
 *  is a plain file name and a tensor has one place. */
es_status es_st_index_parse(unsigned char *bytes, size_t size, const char *file, es_budget *budget,
                            es_st_place **places, int64_t *count, es_error *err);

#endif
