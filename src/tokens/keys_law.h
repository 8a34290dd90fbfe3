/* SPDX-License-Identifier: Apache-2.0 */
/* keys_law.h : keys of keys.h as vectors: a law of tokens. */
#ifndef ES_TOKENS_KEYS_LAW_H
#define ES_TOKENS_KEYS_LAW_H

#include <esscher/exec.h>

#include "law/law.h"
#include "tokens/keys.h"

/*! es_keys_law() : the law of keys that were checked, vanish and planted left aside. The query is
 * the first basis vector, the directions of parts lie in the plane of the first two, the second
 * coordinate not negative. *parts gets what the law points to, NULL for uniform keys; give it to
 * es_mem_free(). */
es_status es_keys_law(const es_keys *keys, es_mem_limit *budget, es_law *law, es_law **parts,
                      es_error *err);

#endif
