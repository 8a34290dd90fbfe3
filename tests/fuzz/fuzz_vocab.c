/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_vocab.c : any bytes at all, read as a vocab.txt; what follows a line "====" is its
 * tokenizer_config.json. An accepted vocabulary must answer for every id. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "\n====\n";
    const char *text = (const char *)data, *config = NULL;
    size_t bytes = size, config_bytes = 0;
    for (size_t i = 0; i + sizeof mark - 1 <= size && !config; i++) {
        if (memcmp(text + i, mark, sizeof mark - 1) == 0) {
            bytes = i + 1;
            config = text + i + sizeof mark - 1;
            config_bytes = size - i - (sizeof mark - 1);
        }
    }
    es_error err = {0};
    es_mem_limit budget = {.limit = (size_t)1 << 30};
    es_tokenizer *tokenizer = NULL;
    const es_status status = es_tokenizer_read_vocab(text, bytes, "fuzz", config, config_bytes,
                                                     &budget, &tokenizer, &err);
    if (status != ES_OK) {
        require(!tokenizer && status == err.code && err.rule[0] && err.message[0] && err.hint[0]);
        require(err.offset <= (int64_t)size && budget.used == 0);
        return 0;
    }
    const es_tokenizer_info info = es_tokenizer_describe(tokenizer);
    require(info.prefix_count == 1 && info.suffix_count == 1 && info.unknown < info.size);
    for (int64_t id = 0; id < info.size; id++) { /* lines are numbered without gaps */
        const char *token = es_tokenizer_token(tokenizer, id);
        require(token != NULL);
        require(!*token || es_tokenizer_find(tokenizer, token) >= id); /* the later of two wins */
    }
    es_tokenizer_free(tokenizer);
    require(budget.used == 0);
    return 0;
}
