/* sentence.c : numbers as sentences have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table/answer.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Part of a name or of a number. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '/';
}

/* "1.5e+03", as printf writes it: its length and power of ten; 0 if there is none at `text`. */
static size_t power_at(const char *text, int *power, int *decimals)
{
    size_t at = 0;
    while (is_digit(text[at]))
        at++;
    const size_t whole = at;
    if (at && text[at] == '.')
        for (at++; is_digit(text[at]); at++)
            ;
    *decimals = at > whole ? (int)(at - whole - 1) : 0;
    if (whole == 0 || text[at] != 'e' || (text[at + 1] != '+' && text[at + 1] != '-') ||
        !is_digit(text[at + 2]) || !is_digit(text[at + 3]))
        return 0;
    char *end;
    *power = (int)strtol(text + at + 1, &end, 10);
    return (size_t)(end - text);
}

/* Below 10^7 people read digits; beyond, and far below 1, a power of ten without its zeros. */
static int write_power(const char *text, int power, int decimals, char *out, size_t room)
{
    const int digits = (int)strcspn(text, "e");
    if (power > 0 && power < 7)
        return snprintf(out, room, "%.*f", decimals > power ? decimals - power : 0,
                        strtod(text, NULL));
    return snprintf(out, room, "%.*se%d", digits, text, power);
}

void es_sentence(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (size_t at = 0; text[at] && used + 1 < room;) {
        int power = 0, decimals = 0;
        const size_t length =
            at && is_word(text[at - 1]) ? 0 : power_at(text + at, &power, &decimals);
        if (length && used + 32 < room) {
            used += (size_t)write_power(text + at, power, decimals, out + used, room - used);
            at += length;
        } else
            out[used++] = text[at++];
    }
    out[used] = '\0';
}
