/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h : what the library alone needs beside <esscher/policy.h>. */
#ifndef ES_POLICY_POLICY_H
#define ES_POLICY_POLICY_H

#include <esscher/policy.h>

/* Every policy once: the end of its row's name, and its name in help, with the name in the
 * literature in parentheses. The first one, which keeps all keys, is marked. */
#define ES_POLICIES(FULL, POLICY)                                                                  \
    FULL(full, "full")                                                                             \
    POLICY(random, "random")                                                                       \
    POLICY(retention, "retention")                                                                 \
    POLICY(window, "window")                                                                       \
    POLICY(stream, "stream (streamingllm)")                                                        \
    POLICY(bigbird, "bigbird")                                                                     \
    POLICY(longformer, "longformer")                                                               \
    POLICY(top, "top")                                                                             \
    POLICY(top_random, "top-random")                                                               \
    POLICY(heavy, "heavy (h2o)")                                                                   \
    POLICY(observe, "observe (snapkv)")                                                            \
    POLICY(strided, "strided")                                                                     \
    POLICY(local, "local")                                                                         \
    POLICY(linformer, "linformer")                                                                 \
    POLICY(limit, "limit")

/* The names of all policies, for help, with commas between them. */
#define ES_POLICY_FIRST_(row, name)  name
#define ES_POLICY_LISTED_(row, name) ", " name
#define ES_POLICY_LIST               ES_POLICIES(ES_POLICY_FIRST_, ES_POLICY_LISTED_)

/*! es_policy_alias() : its name in the literature; NULL if that is the same. */
const char *es_policy_alias(const es_policy *policy);

/*! es_policy_deployable() : returns whether it chooses without future queries and the present one's
 * scores. That is no promise that a cache can run it: policies that look at earlier weights see
 * those of all keys, and may bring back a key that was dropped. */
bool es_policy_deployable(const es_policy *policy);

/*! es_policy_spec_fit() : writes into the spec every number that the policy would otherwise take
 *  from its defaults at spec.keys keys, and whether keys kept by chance are corrected. Parts that
 *  were given stay. The spec then asks for the same keys whatever the defaults are, and no query
 *  keeps more than spec.keys. Nothing happens where spec.keys is unset.
 *  What depends on the query stays unset: random keys that fill up `keys` (random, retention,
 *  bigbird), and the stride and window of strided, which are made from `keys` and n.
 *  Windows of queries that see both sides have an odd number of keys; the one that this leaves over
 *  is one more sink, where there are sinks. Near an end of the context, and where it meets the
 *  sinks, a window has fewer. */
void es_policy_spec_fit(es_policy_spec *spec, bool causal);

/*! es_policy_corrects() : returns whether it corrects keys that are kept by chance, as the spec
 *  says or as its policy is published. */
bool es_policy_corrects(const es_policy_spec *spec);

/*! es_policy_spec_same() : returns whether both ask for the same keys. Whatever keeps everything is
 * the same. */
bool es_policy_spec_same(const es_policy_spec *a, const es_policy_spec *b);

/*! es_linformer_project() : out (rows, d) = E x for x (n, d), E (rows, n) of independent entries
 *  N(0, 1/n) at this address (token: row of x; lane: from 0 on). Keys and values projected at one
 *  address have the same E; attention over them is Linformer's (THEORY 9). O(n rows d).
 *  @return : ES_OK; as es_view_check(); ES_E_SHAPE (policy.shape); ES_E_RANGE for the address;
 *  ES_E_LIMIT, ES_E_MEMORY. */
es_status es_linformer_project(const es_view *x, int64_t rows, const es_address *at,
                               es_mem_limit *budget, double *out, es_error *err);

#endif
