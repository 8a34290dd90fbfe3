/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizer_json.c : any bytes at all, read as a tokenizer.json. An accepted one must encode
 * text into ids that it has. */
#include <stdint.h>
#include <stdlib.h>

#include "text/tokenizer_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello, [MASK] unaffable w\xc3\xb6rld! \xe4\xb8\xad##ing a\xcc\x81";
    es_error err = {0};
    es_mem_limit budget = {.limit = (size_t)1 << 30};
    es_tokenizer *tokenizer = NULL;
    const es_status status =
        es_tokenizer_read_json((const char *)data, size, "fuzz", &budget, &tokenizer, &err);
    if (status != ES_OK) {
        require(!tokenizer && status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(err.offset <= (int64_t)size && budget.used == 0);
        return 0;
    }
    const es_encode_opts opts = {.budget = &budget};
    es_token_list list = {0};
    const es_status encoded =
        es_tokenizer_encode(tokenizer, text, sizeof text - 1, &opts, &list, &err);
    require(encoded == ES_OK || encoded == ES_E_LIMIT); /* a pattern that takes too long */
    int64_t last = 0;
    for (int64_t i = 0; i < list.count; i++) {
        const es_token *t = &list.tokens[i];
        require(es_tokenizer_token(tokenizer, t->id) != NULL);
        require(t->begin == t->end || (t->begin >= last && t->end > t->begin));
        last = t->begin == t->end ? last : t->begin;
    }
    require(last < (int64_t)sizeof text);
    es_token_list_free(&list);
    es_tokenizer_free(tokenizer);
    require(budget.used == 0);
    return 0;
}
