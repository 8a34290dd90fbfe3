/* grid.h : several numbers in one argument.
 *
 *     64,128,256        a list
 *     1e3..3e4*12       12 points from 1e3 to 3e4, each the same factor above the one before
 *     4096              one number
 *
 * Grids of counts are rounded to whole numbers; points of a geometric grid that coincide after
 * rounding are merged, and how many is remembered so that the program can say so.
 */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include <esscher/study.h>

enum { CLI_GRID_MOST = 10000 }; /* points: more is a slip of the finger */

typedef es_grid cli_grid;

/* What the numbers of a grid must satisfy. */
typedef struct cli_grid_rule {
    double min, max; /* each number lies in [min, max] */
    bool increasing; /* each is larger than the one before */
} cli_grid_rule;

/* Parse `text`; `whole` asks for counts. Returns true with *out owned by the caller
 * (cli_grid_free), or false with the reason in why[0..size). */
bool cli_grid_parse(const char *text, bool whole, const cli_grid_rule *rule, cli_grid *out,
                    char *why, int size);

void cli_grid_free(cli_grid *grid);

#endif
