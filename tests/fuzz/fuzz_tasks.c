/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tasks.c : any bytes at all as a file of labelled texts. What is accepted holds together;
 * what is refused says which rule, where, and leaves nothing behind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const es_model_config config = {.labels = 3, .label = {"bad", "good", ""}};
    const char *text = (const char *)data;
    es_error err = {0};
    es_mem_limit budget = {0};
    es_tasks tasks;
    const es_status status = es_tasks_parse(text, size, "fuzz", &config, &budget, &tasks, &err);
    if (status != ES_OK) {
        require(status == err.code && err.rule[0] && err.message[0]);
        require(err.offset >= 0 && err.offset <= (int64_t)size && err.row >= 1);
        require(!tasks.at && !tasks.count);
    } else {
        require(tasks.count >= 1);
        for (int64_t i = 0; i < tasks.count; i++) {
            const es_task *t = &tasks.at[i];
            require(t->text >= text && t->bytes > 0 && t->text + t->bytes < text + size);
            require(t->text[t->bytes] == '\t' && !memchr(t->text, '\n', t->bytes));
            require(t->label >= 0 && t->label < 3);
            require(i == 0 || t->line == tasks.at[i - 1].line + 1);
        }
        es_tasks_free(&tasks);
    }
    require(budget.used == 0);
    return 0;
}
