/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_grid.c : any text as a grid of the command line, and as each kind of number. What is
 * accepted keeps its rule; what is refused says why and leaves nothing behind. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/numbers.h"
#include "talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void try_grid(const char *text, bool whole)
{
    const es_grid_rule rule = {.min = whole ? 1 : 0, .max = 0x1p40, .increasing = whole};
    char why[64] = "";
    es_grid grid;
    if (!es_grid_parse(text, whole, &rule, &grid, why, (int)sizeof why)) {
        require(why[0] && !grid.count && !grid.reals && !grid.counts);
        return;
    }
    require(grid.count >= 1 && grid.count + grid.merged <= ES_GRID_MOST);
    for (int64_t i = 0; i < grid.count; i++) {
        require(grid.reals[i] >= rule.min && grid.reals[i] <= rule.max);
        require(!whole || (grid.counts[i] >= 1 && (double)grid.counts[i] == grid.reals[i]));
        require(!whole || i == 0 || grid.counts[i] > grid.counts[i - 1]);
    }
    es_grid_free(&grid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    double real;
    int64_t count, bytes;
    uint64_t seed;
    require(es_number_real(text, &real) || isfinite(real));
    require(es_number_bytes(text, &bytes) || bytes >= 0);
    require(es_number_seed(text, &seed) || seed <= INT64_MAX);
    if (!es_number_whole(text, &count)) /* a whole number is a real one, to rounding */
        require(!es_number_real(text, &real) && fabs(real - (double)count) <= 0x1p-52 * fabs(real));
    try_grid(text, true);
    try_grid(text, false);
    char *shown = cli_escape_new(text);
    require(strlen(shown) >= strlen(text) && !strpbrk(shown, "\n\033\177"));
    free(shown);
    free(text);
    return 0;
}
