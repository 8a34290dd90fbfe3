/* SPDX-License-Identifier: Apache-2.0 */
/* key_weights_inside.h : the integrals of key_weights.h for a law of distances that is at hand. */
#ifndef ES_THEORY_KEY_WEIGHTS_INSIDE_H
#define ES_THEORY_KEY_WEIGHTS_INSIDE_H

#include "theory/key_weights.h"

#include "tokens/cap.h"

/*! es_weights_of_cap() : as es_weights_exact(), for n in [1, 10^18], whole or not, n with the
 * planted key. 20 to 50 ms. */
es_status es_weights_of_cap(const es_cap *cap, double n, double beta, bool planted,
                            es_mem_limit *budget, es_weights *out, es_error *err);

#endif
