/* SPDX-License-Identifier: Apache-2.0 */
/* evict_stream.c : the first keys and the last ones (StreamingLLM).
 *
 * Positions are those of the text: kept keys are not moved together, as StreamingLLM does where a
 * text is longer than the model's positions. */
#include "cache/evict_row.h"

/* Returns all keys that the sinks leave. */
static int64_t last(const es_evict_spec *spec) { return spec->keys; }

const es_eviction es_eviction_row_stream = {.name = "stream",
                                            .alias = "streamingllm",
                                            .about = "the first keys and the last ones",
                                            .source = "StreamingLLM (arXiv 2309.17453)",
                                            .own = {.sinks = 4},
                                            .decode = ES_DECODE_BY_PLACE,
                                            .last = last};
