/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv.c : any bytes at all as a table. What is accepted holds together; what is refused says
 * which rule, where, and leaves nothing behind. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/csv_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    es_error err = {0};
    es_mem_limit budget = {0};
    es_csv table;
    const es_status status = es_csv_parse((const char *)data, size, "fuzz", &budget, &table, &err);
    if (status != ES_OK) {
        require(status == err.code && err.rule[0] && err.message[0]);
        require(err.offset >= 0 && err.offset <= (int64_t)size && err.row >= 1 && err.col >= 1);
        require(!table.data && !table.rows && !table.cols);
    } else {
        require(table.rows >= 1 && table.cols >= 1 && table.cols <= ES_CSV_COLUMNS);
        for (int64_t i = 0; i < table.rows * table.cols; i++)
            require(isfinite(table.data[i]));
        for (int64_t c = 0; c < table.cols; c++)
            require(table.names[c][0] && es_csv_column(&table, table.names[c]) == c);
        es_csv_free(&table);
    }
    require(budget.used == 0);
    return 0;
}
