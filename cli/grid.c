#include "grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "talk.h"

enum { NUMBER = 64 }; /* longest text of one number */

/* Where a refusal is written. */
typedef struct reason {
    char *text;
    int size;
} reason;

static bool refuse(const reason *why, const char *number, const char *text)
{
    char shown[2 * NUMBER];
    snprintf(why->text, (size_t)why->size, "\"%s\": %s", cli_escape(number, shown, sizeof shown),
             text);
    return false;
}

/* One number out of text[0..length). */
static bool read_number(const char *text, size_t length, bool whole, const cli_grid_rule *rule,
                        double *out, const reason *why)
{
    char number[NUMBER], bounds[96];
    snprintf(number, sizeof number, "%.*s", (int)(length < NUMBER ? length : NUMBER), text);
    if (length >= NUMBER)
        return refuse(why, number, "the number is too long");
    int64_t count = 0;
    const char *problem = whole ? cli_number_whole(number, &count) : cli_number_real(number, out);
    if (problem)
        return refuse(why, number, problem);
    if (whole)
        *out = (double)count;
    if (*out < rule->min || *out > rule->max) {
        snprintf(bounds, sizeof bounds, "expected a number from %.6g to %.6g", rule->min,
                 rule->max);
        return refuse(why, number, bounds);
    }
    if (whole && (*out >= 0x1p63 || (int64_t)*out != count)) /* a grid is made of doubles */
        return refuse(why, number, "above 2^53 a list takes round numbers such as 1e18 or 2^60");
    return true;
}

static bool read_list(const char *text, bool whole, const cli_grid_rule *rule, cli_grid *grid,
                      const reason *why)
{
    int64_t count = 1;
    for (const char *p = text; *p; p++)
        count += *p == ',';
    if (count > CLI_GRID_MOST)
        return refuse(why, "list", "more than 10000 numbers");
    grid->reals = cli_alloc_array((size_t)count, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        const size_t length = strcspn(text, ",");
        if (!read_number(text, length, whole, rule, &grid->reals[i], why))
            return false;
        if (rule->increasing && i > 0 && !(grid->reals[i] > grid->reals[i - 1]))
            return refuse(why, text, "each number of the list must be larger than the one before");
        text += length + 1;
    }
    grid->count = count;
    return true;
}

/* LOW..HIGH*POINTS, `dots` and `star` pointing at its separators. */
static bool read_range(const char *text, const char *dots, const char *star, bool whole,
                       const cli_grid_rule *rule, cli_grid *grid, const reason *why)
{
    const cli_grid_rule some = {.min = 1, .max = CLI_GRID_MOST};
    double low, high, points;
    if (!read_number(text, (size_t)(dots - text), whole, rule, &low, why) ||
        !read_number(dots + 2, (size_t)(star - dots - 2), whole, rule, &high, why) ||
        !read_number(star + 1, strlen(star + 1), true, &some, &points, why))
        return false;
    if (!(low > 0.0))
        return refuse(why, text, "a geometric grid starts above 0");
    if (low > high)
        return refuse(why, text, "the grid ends below its start");
    if ((points > 1.0) != (high > low))
        return refuse(why, text, "one point needs equal ends, several need different ones");
    grid->reals = cli_alloc_array((size_t)points, sizeof(double));
    grid->count = (int64_t)points;
    for (int64_t i = 0; i < grid->count; i++) /* the ends are exact, the rest within rounding */
        grid->reals[i] = i == 0                 ? low
                         : i == grid->count - 1 ? high
                                                : low * pow(high / low, (double)i / (points - 1));
    return true;
}

/* Whole numbers of a range, each once. */
static void round_range(cli_grid *grid)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < grid->count; i++) {
        const double value = floor(grid->reals[i] + 0.5);
        if (kept == 0 || value > grid->reals[kept - 1])
            grid->reals[kept++] = value;
    }
    grid->merged = grid->count - kept;
    grid->count = kept;
}

bool cli_grid_parse(const char *text, bool whole, const cli_grid_rule *rule, cli_grid *out,
                    char *why, int size)
{
    const reason told = {why, size};
    *out = (cli_grid){0};
    const char *dots = strstr(text, "..");
    const char *star = dots ? strchr(dots, '*') : NULL;
    bool good;
    if (dots && !star)
        good = refuse(&told, text, "say how many points: LOW..HIGH*POINTS");
    else if (dots)
        good = read_range(text, dots, star, whole, rule, out, &told);
    else
        good = read_list(text, whole, rule, out, &told);
    if (good && whole) {
        if (dots)
            round_range(out);
        out->counts = cli_alloc_array((size_t)out->count, sizeof(int64_t));
        for (int64_t i = 0; i < out->count; i++)
            out->counts[i] = (int64_t)out->reals[i];
    }
    if (!good)
        cli_grid_free(out);
    return good;
}

void cli_grid_free(cli_grid *grid)
{
    free(grid->reals);
    free(grid->counts);
    *grid = (cli_grid){0};
}
