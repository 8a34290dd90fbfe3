/* SPDX-License-Identifier: Apache-2.0 */
/* sentence.c : numbers as sentences have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/answer.h"

/* Returns true for 0 to 9. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Part of a name or of a number. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '/';
}

/* "e+03", as printf ends a number: its length and the power; 0 if there is none at `text`. */
static size_t end_at(const char *text, int *power)
{
    if (text[0] != 'e' || (text[1] != '+' && text[1] != '-') || !is_digit(text[2]) ||
        !is_digit(text[3]))
        return 0;
    char *end;
    *power = (int)strtol(text + 1, &end, 10);
    return (size_t)(end - text);
}

/* "1.5e+03": likewise, and how many decimals it has. */
static size_t power_at(const char *text, int *power, int *decimals)
{
    const size_t whole = strspn(text, "0123456789");
    size_t at = whole;
    if (whole && text[at] == '.')
        at += 1 + strspn(text + at + 1, "0123456789");
    *decimals = at > whole ? (int)(at - whole - 1) : 0;
    const size_t end = whole ? end_at(text + at, power) : 0;
    return end ? at + end : 0;
}

/* Below 10^7 all digits are written; beyond, and far below 1, a power of ten without trailing
 * zeros. */
static int write_power(const char *text, int power, int decimals, char *out, size_t capacity)
{
    const int digits = (int)strcspn(text, "e");
    if (power > 0 && power < 7)
        return snprintf(out, capacity, "%.*f", decimals > power ? decimals - power : 0,
                        strtod(text, NULL));
    return snprintf(out, capacity, "%.*se%d", digits, text, power);
}

/* Returns whether a number may begin at text[at]: not inside a name, "x1e+03" or "lr-1e-05.npy". */
static bool may_begin(const char *text, size_t at)
{
    const char before = at ? text[at - 1] : ' ';
    return !is_word(before) && !(before == '-' && at > 1 && is_word(text[at - 2]));
}

/* A number with its power at `text`, or the power of one in brackets, "(1.2 ± 0.1)e+09". */
static int rewrite(const char *text, size_t at, size_t *length, char *out, size_t capacity)
{
    int power = 0, decimals = 0;
    *length = at && text[at - 1] == ')' ? end_at(text + at, &power) : 0;
    if (*length)
        return snprintf(out, capacity, "e%d", power);
    *length = may_begin(text, at) ? power_at(text + at, &power, &decimals) : 0;
    const char *after = text + at + *length; /* "1e-05.npy" is a name, too */
    if (*length && (after[0] == '.' ? is_word(after[1]) : is_word(after[0])))
        *length = 0;
    return *length ? write_power(text + at, power, decimals, out, capacity) : 0;
}

void es_sentence(const char *text, char *out, size_t capacity)
{
    size_t used = 0;
    for (size_t at = 0; text[at] && used + 1 < capacity;) {
        size_t length = 0;
        char number[64];
        const int size = rewrite(text, at, &length, number, sizeof number);
        if (length && size > 0 && (size_t)size < sizeof number && used + (size_t)size < capacity) {
            memcpy(out + used, number, (size_t)size);
            used += (size_t)size;
            at += length;
        } else
            out[used++] = text[at++];
    }
    out[used] = '\0';
}
