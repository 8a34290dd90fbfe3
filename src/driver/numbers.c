/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c : numbers and grids of numbers, out of text. */
#include "driver/numbers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <esscher/format.h>

/* ---- one number ---- */

static const char expected_real[] = "expected a number such as 0.125, 1e-3, 1/8 or 12.5%";
static const char expected_whole[] = "expected a whole number such as 4096, 1e6 or 2^20";
static const char too_large[] = "the number is too large";

/* Returns the first character that is not a decimal digit. */
static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Skips one sign, if there is one. */
static const char *skip_sign(const char *p) { return *p == '+' || *p == '-' ? p + 1 : p; }

/* strtod reads nan, infinity, hexadecimal and leading white space too, so what it is given is
 * checked first. */
static bool is_decimal(const char *text)
{
    const char *p = skip_sign(text);
    const char *whole = p;
    p = skip_digits(p);
    bool digits = p > whole;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p);
        digits = digits || p > fraction;
    }
    if (digits && (*p == 'e' || *p == 'E')) {
        const char *power = skip_sign(p + 1);
        p = skip_digits(power);
        digits = p > power;
    }
    return digits && *p == '\0';
}

/* Returns true for a non-empty string of digits. */
static bool is_digits(const char *text) { return *text && *skip_digits(text) == '\0'; }

/* BASE^EXPONENT, both short strings of digits: 2^20. */
static bool is_power(const char *text)
{
    const char *hat = skip_digits(text);
    return hat > text && hat - text <= 9 && *hat == '^' && is_digits(hat + 1) &&
           strlen(hat + 1) <= 4;
}

enum { NUMBER = 64 }; /* longest text of one number */

/* Reads a decimal number or a power. */
static const char *read_plain(const char *text, double *out)
{
    double value;
    if (is_power(text))
        value = pow(strtod(text, NULL), strtod(strchr(text, '^') + 1, NULL));
    else if (is_decimal(text))
        value = strtod(text, NULL);
    else
        return expected_real;
    if (!isfinite(value))
        return too_large;
    /* 0^20 is 0, whatever digits its exponent has */
    if (value == 0.0 && !is_power(text) && strpbrk(text, "123456789") &&
        strcspn(text, "123456789") < strcspn(text, "eE"))
        return "the number is too small to tell from 0";
    *out = value;
    return NULL;
}

/* Reads "25%", text[length] being the sign. The exponent e-2 instead of a division by 100 gives the
 * double nearest to the decimal number, so that 0.7% is 0.007 to the last bit. */
static const char *read_percent(const char *text, size_t length, double *out)
{
    char number[NUMBER];
    if (length + sizeof "e-2" > sizeof number || text[length + 1] || strpbrk(text, "eE^"))
        return expected_real;
    snprintf(number, sizeof number, "%.*se-2", (int)length, text);
    return read_plain(number, out);
}

/* Reads "1/4", text[length] being the slash. */
static const char *read_fraction(const char *text, size_t length, double *out)
{
    char above[NUMBER];
    double numerator, denominator = 0.0;
    if (length >= sizeof above)
        return expected_real;
    snprintf(above, sizeof above, "%.*s", (int)length, text);
    const char *why = read_plain(above, &numerator);
    if (!why)
        why = read_plain(text + length + 1, &denominator);
    if (why)
        return why;
    if (denominator == 0.0 || !isfinite(numerator / denominator))
        return "the fraction is not a finite number";
    *out = numerator / denominator;
    return NULL;
}

const char *es_number_real(const char *text, double *out)
{
    const size_t length = strcspn(text, "/%");
    return text[length] == '%'   ? read_percent(text, length, out)
           : text[length] == '/' ? read_fraction(text, length, out)
                                 : read_plain(text, out);
}

/* value = base value + more, unless that passes 2^63 - 1. */
static bool extend(int64_t *value, int64_t base, int64_t more)
{
    if (base > 0 && *value > (INT64_MAX - more) / base)
        return false;
    *value = base * *value + more;
    return true;
}

/* Computes BASE^EXPONENT exactly, or fails if it exceeds 2^63 - 1. */
static const char *whole_power(const char *text, int64_t *out)
{
    const int64_t base = strtoll(text, NULL, 10), power = strtoll(strchr(text, '^') + 1, NULL, 10);
    int64_t value = 1;
    for (int64_t i = 0; i < power; i++)
        if (!extend(&value, base, 0))
            return too_large;
    *out = value;
    return NULL;
}

/* Digits of a decimal number that stand before the point once its exponent has moved it; negative
 * when zeros would have to be put in front. */
static int64_t digits_before_point(const char *text)
{
    const int64_t longest = 1000000000; /* longer than any text, far from the end of int64_t */
    const char *first = skip_sign(text), *exponent = strpbrk(first, "eE");
    long long moved = exponent ? strtoll(exponent + 1, NULL, 10) : 0; /* ends where it is full */
    if (moved > longest || moved < -longest)
        moved = moved > 0 ? longest : -longest;
    return skip_digits(first) - first + moved;
}

/* No double in between: its digits are exact up to 2^53 only. */
static const char *whole_decimal(const char *text, int64_t *out)
{
    int64_t value = 0, before = digits_before_point(text);
    for (const char *p = skip_sign(text); *p && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.')
            continue;
        if (before-- > 0) {
            if (!extend(&value, 10, *p - '0'))
                return too_large;
        } else if (*p != '0') {
            return expected_whole;
        }
    }
    for (; value > 0 && before > 0; before--)
        if (!extend(&value, 10, 0))
            return too_large;
    *out = *text == '-' ? -value : value;
    return NULL;
}

const char *es_number_whole(const char *text, int64_t *out)
{
    if (is_power(text))
        return whole_power(text, out);
    return is_decimal(text) ? whole_decimal(text, out) : expected_whole;
}

const char *es_number_seed(const char *text, uint64_t *out)
{
    if (!is_digits(text))
        return "expected a whole number from 0 to 9223372036854775807";
    errno = 0;
    const unsigned long long value = strtoull(text, NULL, 10);
    if (errno == ERANGE || value > INT64_MAX)
        return too_large;
    *out = value;
    return NULL;
}

const char *es_number_bytes(const char *text, int64_t *out)
{
    static const char expected[] = "expected bytes such as 500M, 1.5G or 65536";
    static const char suffixes[] = "KMGT";
    char number[64];
    const size_t length = strcspn(text, suffixes);
    if (length == 0 || length >= sizeof number)
        return expected;
    memcpy(number, text, length);
    number[length] = '\0';
    const char *suffix = text + length;
    double unit = 1.0;
    if (*suffix) {
        unit = ldexp(1.0, 10 * (int)(strchr(suffixes, *suffix) - suffixes + 1));
        suffix++;
        if (strcmp(suffix, "") != 0 && strcmp(suffix, "B") != 0 && strcmp(suffix, "iB") != 0)
            return expected;
    }
    double value;
    const char *why = read_plain(number, &value);
    if (why)
        return why == too_large ? why : expected;
    if (value < 0.0)
        return expected;
    if (value * unit >= 0x1p62)
        return too_large;
    *out = (int64_t)floor(value * unit);
    return NULL;
}

/* ---- several ---- */

static const char no_memory[] = "out of memory";

/* Where a refusal is written. */
typedef struct reason {
    char *text;
    int size;
} reason;

/* Writes the reason for a refusal, with the number in question, and returns false. */
static bool refuse(const reason *why, const char *number, const char *text)
{
    char shown[2 * NUMBER];
    snprintf(why->text, (size_t)why->size, "\"%s\": %s", es_escape(number, shown, sizeof shown),
             text);
    return false;
}

/* One number out of text[0..length). */
static bool read_number(const char *text, size_t length, bool whole, const es_grid_rule *rule,
                        double *out, const reason *why)
{
    char number[NUMBER], bounds[96];
    snprintf(number, sizeof number, "%.*s", (int)(length < NUMBER ? length : NUMBER), text);
    if (length >= NUMBER)
        return refuse(why, number, "the number is too long");
    int64_t count = 0;
    const char *problem = whole ? es_number_whole(number, &count) : es_number_real(number, out);
    if (problem)
        return refuse(why, number, problem);
    if (whole)
        *out = (double)count;
    if (*out < rule->min || *out > rule->max) {
        snprintf(bounds, sizeof bounds, ES_GRID_RANGE "%.6g to %.6g", rule->min, rule->max);
        return refuse(why, number, bounds);
    }
    if (whole && (*out >= 0x1p63 || (int64_t)*out != count)) /* a grid is made of doubles */
        return refuse(why, number, "above 2^53 a list takes round numbers such as 1e18 or 2^60");
    return true;
}

/* Reads numbers with commas between them. */
static bool read_list(const char *text, bool whole, const es_grid_rule *rule, es_grid *grid,
                      const reason *why)
{
    int64_t count = 1;
    for (const char *p = text; *p; p++)
        count += *p == ',';
    if (count > ES_GRID_MOST)
        return refuse(why, "list", "more than 10000 numbers");
    grid->reals = calloc((size_t)count, sizeof(double));
    if (!grid->reals)
        return refuse(why, "list", no_memory);
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
                       const es_grid_rule *rule, es_grid *grid, const reason *why)
{
    const es_grid_rule some = {.min = 1, .max = ES_GRID_MOST};
    double low, high, points;
    if (!read_number(text, (size_t)(dots - text), whole, rule, &low, why) ||
        !read_number(dots + 2, (size_t)(star - dots - 2), whole, rule, &high, why) ||
        !read_number(star + 1, strlen(star + 1), true, &some, &points, why))
        return false;
    if (!(low > 0.0))
        return refuse(why, text, "a geometric grid starts above 0");
    if (low > high)
        return refuse(why, text, "the grid ends below its start");
    if (!isfinite(high / low))
        return refuse(why, text, "the ends of the grid are too far apart");
    if ((points > 1.0) != (high > low))
        return refuse(why, text, "one point needs equal ends, several need different ones");
    grid->reals = calloc((size_t)points, sizeof(double));
    if (!grid->reals)
        return refuse(why, text, no_memory);
    grid->count = (int64_t)points;
    grid->reals[0] = low; /* the ends are exact, the rest within rounding */
    for (int64_t i = 1; i < grid->count; i++)
        grid->reals[i] = fmin(high, low * pow(high / low, (double)i / (points - 1)));
    grid->reals[grid->count - 1] = high;
    return true;
}

/* Whole numbers of a range, each once. */
static void round_range(es_grid *grid)
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

bool es_grid_parse(const char *text, bool whole, const es_grid_rule *rule, es_grid *out, char *why,
                   int size)
{
    const reason refusal = {why, size};
    *out = (es_grid){0};
    const char *dots = strstr(text, "..");
    const char *star = dots ? strchr(dots, '*') : NULL;
    bool good;
    if (dots && !star)
        good = refuse(&refusal, text, "say how many points: LOW..HIGH*POINTS");
    else if (dots)
        good = read_range(text, dots, star, whole, rule, out, &refusal);
    else
        good = read_list(text, whole, rule, out, &refusal);
    if (good && whole) {
        if (dots)
            round_range(out);
        out->counts = calloc((size_t)out->count, sizeof(int64_t));
        good = out->counts || refuse(&refusal, text, no_memory);
        for (int64_t i = 0; good && i < out->count; i++)
            out->counts[i] = (int64_t)out->reals[i];
    }
    if (!good)
        es_grid_free(out);
    return good;
}

void es_grid_free(es_grid *grid)
{
    free(grid->reals);
    free(grid->counts);
    *grid = (es_grid){0};
}
