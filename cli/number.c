#include "number.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char expected_real[] = "expected a decimal number such as 0.125, 3 or 1e-3";
static const char expected_whole[] = "expected a whole number such as 4096, 1e6 or 2^20";
static const char too_large[] = "the number is too large";

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

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

static bool is_digits(const char *text) { return *text && *skip_digits(text) == '\0'; }

/* BASE^EXPONENT, both short strings of digits: 2^20. */
static bool is_power(const char *text)
{
    const char *hat = skip_digits(text);
    return hat > text && hat - text <= 9 && *hat == '^' && is_digits(hat + 1) &&
           strlen(hat + 1) <= 4;
}

const char *cli_number_real(const char *text, double *out)
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
    if (value == 0.0 && strpbrk(text, "123456789") &&
        strcspn(text, "123456789") < strcspn(text, "eE"))
        return "the number is too small to tell from 0";
    *out = value;
    return NULL;
}

/* value = base value + more, unless that passes 2^63 - 1. */
static bool extend(int64_t *value, int64_t base, int64_t more)
{
    if (base > 0 && *value > (INT64_MAX - more) / base)
        return false;
    *value = base * *value + more;
    return true;
}

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

const char *cli_number_whole(const char *text, int64_t *out)
{
    if (is_power(text))
        return whole_power(text, out);
    return is_decimal(text) ? whole_decimal(text, out) : expected_whole;
}

const char *cli_number_seed(const char *text, uint64_t *out)
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

const char *cli_number_bytes(const char *text, int64_t *out)
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
    const char *why = cli_number_real(number, &value);
    if (why)
        return why == too_large ? why : expected;
    if (value < 0.0)
        return expected;
    if (value * unit >= 0x1p62)
        return too_large;
    *out = (int64_t)floor(value * unit);
    return NULL;
}
