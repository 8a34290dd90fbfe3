/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c : decimal numbers as text. strtod() and printf() take the decimal mark of the host
 * program's locale, which may be a comma. */
#include "base/decimal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 95 };

/* Returns the first character that is not a decimal digit. */
static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Returns whether the text is [+-]digits[.digits][e[+-]digits], with a digit before the exponent.
 */
static bool is_decimal(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-');
    const char *whole = p;
    p = skip_digits(p);
    bool some = p > whole;
    if (*p == '.') {
        const char *fraction = p + 1;
        p = skip_digits(fraction);
        some = some || p > fraction;
    }
    if (some && (*p == 'e' || *p == 'E')) {
        const char *power = p + 1 + (p[1] == '+' || p[1] == '-');
        p = skip_digits(power);
        some = p > power;
    }
    return some && *p == '\0';
}

bool es_decimal_read(const char *text, double *out)
{
    char copy[LONGEST + 1];
    if (!is_decimal(text) || strlen(text) > LONGEST)
        return false;
    snprintf(copy, sizeof copy, "%s", text);
    char *point = strchr(copy, '.');
    if (point)
        *point = *localeconv()->decimal_point;
    *out = strtod(copy, NULL);
    return true;
}

const char *es_decimal_write(double value, char out[ES_DECIMAL_SIZE])
{
    double again;
    for (int digits = 15; digits <= 17; digits += 2) {
        snprintf(out, ES_DECIMAL_SIZE, "%.*g", digits, value);
        char *mark = strchr(out, *localeconv()->decimal_point);
        if (mark)
            *mark = '.';
        if (es_decimal_read(out, &again) && again == value)
            break;
    }
    return out;
}
