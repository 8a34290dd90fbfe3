/* SPDX-License-Identifier: Apache-2.0 */
/* weights_inside.h : where the tensors of a model are, and how one of them is read.
 *
 * A tensor is read in chunks of rows, each by one thread, so that a layer is decoded by all threads
 * of a call and a tensor never needs a second copy of itself. */
#ifndef ES_MODEL_WEIGHTS_INSIDE_H
#define ES_MODEL_WEIGHTS_INSIDE_H

#include "model/model_inside.h"

/* The files of a model, what names in them begin with, and how many numbers they hold. */
typedef struct es_weight_source {
    es_st *st;
    char prefix[64];  /* of tensors of the body, or "" */
    char outside[64]; /* of tensors outside of the body, or "" */
    bool allow_nonfinite;
    bool plain;     /* rows lie in the file as in memory, whatever the description says: a GGUF */
    bool dense;     /* a classifier has a part of its own in place of the pooler */
    int threads;    /* that read the weights; 0: all */
    int64_t widest; /* outputs of a part without bias, at most: zeros stand for it */
    int64_t all;    /* numbers of all parts, the zeros included */
    int64_t small;  /* of the parts that streamed models hold, too, the zeros included */
    int64_t slot;   /* of the matrices of one layer, of its experts one, or of a panel of the
                       language head */
    int64_t turned; /* of a chunk of a tensor whose rows lie otherwise in the file, at most */
    int64_t chunk;  /* of a chunk of any tensor, at most */
    size_t charged; /* to the memory limit */
} es_weight_source;

/* Either the weight or the bias of a part, in a layer. */
typedef struct es_tensor_ref {
    const es_arch_part *part;
    int64_t layer;
    bool bias;
    int64_t head; /* of a part with a tensor for each head, or the expert */
    bool alone;   /* of a tensor that has all experts, the matrix of expert `head` alone */
} es_tensor_ref;

enum { ES_TENSOR_NAME = 256 };

/*! es_weights_find() : returns the tensor of a part; NULL if there is none. `name` becomes the name
 *  that was looked for, for messages. */
const es_st_tensor *es_weights_find(const es_weight_source *source, es_tensor_ref ref,
                                    char name[ES_TENSOR_NAME]);

/*! es_part_has_plain_name() : returns whether nothing follows the name of a part in that of its
 *  tensor. */
static inline bool es_part_has_plain_name(const es_arch_part *part)
{
    return part->kind == ES_PART_VALUES || part->kind == ES_PART_FUSED;
}

/*! es_weights_survey() : looks at the names of all tensors. Sets the prefixes of the source, and of
 *  the configuration what depends on which tensors there are: form of experts, pooler, labels,
 *  language head. @return : ES_OK; ES_E_FORMAT (model.prefix, model.layers), ES_E_UNSUPPORTED
 *  (model.unknown). */
es_status es_weights_survey(es_model *model, es_weight_source *source, es_error *err);

/* A matrix of all experts in blocks of MXFP4 (packed.h). */
typedef struct es_packed_tensors {
    const es_st_tensor *blocks, *scales;
} es_packed_tensors;

/*! es_weights_packed() : returns whether the weights of a part are in blocks of MXFP4, and then in
 *  *out the tensors; `names` become those that were looked for. */
bool es_weights_packed(const es_model *model, es_tensor_ref ref, es_packed_tensors *out,
                       char names[2][ES_TENSOR_NAME]);

/*! es_part_is_streamed() : returns whether a streamed model leaves the weights of a part in the
 *  file: matrices of layers, word embeddings and the language head. */
bool es_part_is_streamed(const es_arch_part *part);

/* Threads that read tensors, and what each needs meanwhile. */
typedef struct es_read_scratch {
    es_exec exec;
    size_t each;      /* bytes of a thread's chunk */
    char *memory;     /* (threads, each) */
    es_st_seen *seen; /* (threads) */
} es_read_scratch;

/*! es_read_scratch_new() : allocates memory for chunks of `numbers` numbers of `precision` for each
 *  thread of `exec`. Release with es_read_scratch_free(). @return : ES_OK; ES_E_LIMIT, ES_E_MEMORY.
 */
es_status es_read_scratch_new(const es_exec *exec, int64_t numbers, es_dtype precision,
                              es_read_scratch *out, es_error *err);
void es_read_scratch_free(es_read_scratch *scratch);

/*! es_tensor_lies_otherwise() : returns whether rows of the tensor are in another order in the file
 *  than in memory. es_tensor_chunk() : returns the most numbers of one of its chunks. */
bool es_tensor_lies_otherwise(const es_weight_source *source, es_tensor_ref ref);
int64_t es_tensor_chunk(const es_st_tensor *tensor);

/*! es_tensor_numbers() : returns how many numbers the tensor of `ref` has, those of the other
 * experts left out if ref.alone. */
int64_t es_tensor_numbers(const es_model_config *config, es_tensor_ref ref,
                          const es_st_tensor *tensor);

/*! es_tensor_read() : reads a tensor into `at`, rows in the order of memory; at NULL: only looks at
 *  its numbers. *seen (may be NULL) says what is odd about them. O(bytes). @return : as
 *  es_st_read(). */
es_status es_tensor_read(const es_model *model, es_tensor_ref ref, const es_st_tensor *tensor,
                         const es_read_scratch *scratch, void *at, es_st_seen *seen, es_error *err);

enum { ES_PACKED_CHUNK = 1 << 15 }; /* numbers in blocks of MXFP4 that a thread reads at a time */

/*! es_packed_read() : as es_tensor_read(), of a matrix in blocks of MXFP4. *bad (may be NULL) is
 * the first group that has numbers which are not finite; -1: none has. Looking takes chunks of
 *  ES_PACKED_CHUNK numbers of `scratch`. */
es_status es_packed_read(const es_model *model, es_tensor_ref ref, const es_packed_tensors *tensors,
                         const es_read_scratch *scratch, void *at, int64_t *bad, es_error *err);

#endif
