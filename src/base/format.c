/* SPDX-License-Identifier: Apache-2.0 */
/* format.c : numbers as text. A value is cut where its error ends; the numbers of a column share
 * one form. */
#include <esscher/format.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"

static const char *const names[] = {"text", "count", "real", "short", "bytes", "duration", "flag"};

const char *es_format_name(es_format format)
{
    return (unsigned)format < sizeof names / sizeof names[0] ? names[format] : "text";
}

bool es_format_parse(const char *name, es_format *out)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (es_format)i;
            return true;
        }
    return false;
}

/* ---- numbers ---- */

enum { LOWEST = -4, HIGHEST = 5, ALL_DIGITS = 17 };

/* Significant digits of a number without an error. */
static int digits_of(es_format format) { return format == ES_FORMAT_SHORT ? 3 : 6; }

/* Returns true for formats in which a number can carry an error. */
static bool takes_error(es_format format)
{
    return format == ES_FORMAT_REAL || format == ES_FORMAT_TEXT || format == ES_FORMAT_COUNT;
}

/* Returns true if the value is cut where its error ends. An error of 0, or far below the digits
 * that are shown, gives no such place. */
static bool ends_with(es_format format, double value, double error)
{
    return takes_error(format) && isfinite(error) && error > 1e-9 * fabs(value);
}

/* Power of ten of the first digit of x != 0 once it is rounded to `digits`; *last is the power of
 * its last digit that is not 0. printf rounds, so that 9.996 begins with a ten wherever it does. */
static int exponent_of(double x, int digits, int *last)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, fabs(x));
    const char *e = strchr(text, 'e'), *end = e;
    while (end[-1] == '0')
        end--;
    const int exponent = atoi(e + 1);
    *last = exponent - (end > text + 1 ? (int)(end - text) - 2 : 0);
    return exponent;
}

/* What the numbers of a column span, as powers of ten: of those that are not 0, the least and the
 * greatest first digit and the least last one. */
typedef struct span {
    int least, greatest, last;
    int mantissa; /* most digits behind the first */
    bool any, whole;
} span;

/* Widens the range of exponents and digits of a column by one number. */
static void widen(span *s, double x, int digits, bool error)
{
    int last;
    const int exponent = exponent_of(x, digits, &last);
    s->least = !s->any || exponent < s->least ? exponent : s->least;
    s->greatest = !s->any || exponent > s->greatest ? exponent : s->greatest;
    s->whole = s->whole && !error && x == floor(x) && x < 1e7;
    s->any = true;
    if (error) /* its decimals say nothing of the others' */
        return;
    s->last = last < s->last ? last : s->last;
    s->mantissa = exponent - last > s->mantissa ? exponent - last : s->mantissa;
}

/* Finds the range of exponents and digits of a column; one form is chosen for all its numbers. */
static span span_of(es_format format, const double *values, const double *errors, int64_t rows)
{
    span s = {.whole = true};
    for (int64_t i = 0; i < rows; i++) {
        const bool error = errors && ends_with(format, values[i], errors[i]);
        const double x = error ? fmax(fabs(values[i]), errors[i]) : fabs(values[i]);
        if (isfinite(values[i]) && x > 0.0)
            widen(&s, x, digits_of(format), error);
    }
    return s;
}

/* Returns true if a column holds only whole numbers. */
static bool all_whole(const double *values, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        if (isfinite(values[i]) && (values[i] != floor(values[i]) || fabs(values[i]) >= 1e19))
            return false;
    return true;
}

es_format_form es_format_choose(es_format format, const double *values, const double *errors,
                                int64_t rows)
{
    const int digits = digits_of(format);
    es_format_form form = {.format = format, .digits = ALL_DIGITS};
    if (format == ES_FORMAT_COUNT && all_whole(values, rows))
        return form;
    const span s = span_of(format, values, errors, rows);
    if (s.whole)
        return form;
    form.scientific = s.least < LOWEST || s.greatest > HIGHEST;
    if (form.scientific) {
        form.decimals = s.mantissa > 2 ? s.mantissa : 2;
        return form;
    }
    /* no more decimals than the numbers need; and the same for all if that leaves none of them with
     * a digit less than three (short) or more than six (real) */
    const bool close = s.greatest - s.least <= 1;
    const int most = format == ES_FORMAT_SHORT ? 2 - s.least : 5 - s.greatest;
    form.digits = close ? ALL_DIGITS : digits;
    form.decimals = close && most < -s.last ? most : -s.last;
    if (!close && format == ES_FORMAT_SHORT && form.decimals >= digits)
        form.decimals = ALL_DIGITS; /* three digits each: a last 0 among them is one */
    form.decimals = form.decimals > 0 ? form.decimals : 0;
    return form;
}

/* Writes a number that has no error, in the form of its column. */
static void without_error(es_format_form form, double value, char *out, size_t size)
{
    int last;
    if (value == 0.0)
        snprintf(out, size, "0");
    else if (form.scientific)
        snprintf(out, size, "%.*e", form.decimals, value);
    else {
        const int own = form.digits - 1 - exponent_of(value, form.digits, &last);
        const int decimals = own < form.decimals ? own : form.decimals;
        snprintf(out, size, "%.*f", decimals > 0 ? decimals : 0, value);
    }
}

/* "3.142 ± 0.012": the error with two digits, the value to the same decimal. */
static void with_error(es_format_form form, double value, double error, char *out, size_t size)
{
    int last, power = form.scientific ? exponent_of(fmax(fabs(value), error), 2, &last) : 0;
    power = power < -300 ? -300 : power; /* 10^power is not 0 */
    int decimals = power + 1 - exponent_of(error, 2, &last);
    decimals = decimals < 0 ? 0 : decimals > 20 ? 20 : decimals;
    const double unit = pow(10.0, power);
    if (form.scientific)
        snprintf(out, size, "(%.*f ± %.*f)e%+03d", decimals, value / unit, decimals, error / unit,
                 power);
    else
        snprintf(out, size, "%.*f ± %.*f", decimals, value, decimals, error);
}

/* An error that is too small to cut the value is written on its own. */
static void beside_error(es_format_form form, double value, double error, char *out, size_t size)
{
    char alone[ES_FORMAT_SIZE];
    without_error(form, value, alone, sizeof alone);
    if (!takes_error(form.format) || !isfinite(error) || error < 0.0)
        snprintf(out, size, "%s", alone);
    else
        snprintf(out, size, error > 0.0 ? "%s ± %.1e" : "%s ± 0", alone, error);
}

/* Above this, bytes and hours are written in scientific form: there might be 300 digits. */
static const double MOST = 1e9;

/* Writes a number of bytes with a binary prefix. */
static void with_prefix(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int i = 0;
    for (; fabs(bytes) >= 1024.0 && i < 5; i++)
        bytes /= 1024.0;
    if (fabs(bytes) < MOST)
        snprintf(out, size, "%.*f %s", i ? 1 : 0, bytes, units[i]);
    else
        snprintf(out, size, "%.1e %s", bytes, units[i]);
}

/* Writes seconds, minutes or hours, whichever is readable. */
static void as_duration(double seconds, char *out, size_t size)
{
    if (seconds < 600.0)
        snprintf(out, size, "%.3g s", seconds);
    else if (seconds < 36000.0)
        snprintf(out, size, "%.1f min", seconds / 60.0);
    else
        snprintf(out, size, seconds < 3600.0 * MOST ? "%.1f h" : "%.1e h", seconds / 3600.0);
}

/* A form with a point writes every digit before it: not of what the form was not chosen for, nor of
 * an error of a whole number. */
static es_format_form that_holds(es_format_form form, double value, double error)
{
    if (fabs(value) >= 1e19 || (isfinite(error) && error >= 1e19)) {
        form.decimals = form.scientific ? form.decimals : 2;
        form.scientific = true;
    }
    return form;
}

char *es_format_put(es_format_form form, double value, double error, char *out, size_t size)
{
    form = that_holds(form, value, error);
    if (!isfinite(value))
        snprintf(out, size, "-");
    else if (form.format == ES_FORMAT_BYTES)
        with_prefix(value, out, size);
    else if (form.format == ES_FORMAT_DURATION)
        as_duration(value, out, size);
    else if (form.format == ES_FORMAT_FLAG)
        snprintf(out, size, "%s", value != 0.0 ? "yes" : "no");
    else if (ends_with(form.format, value, error))
        with_error(form, value, error, out, size);
    else
        beside_error(form, value, error, out, size);
    return out;
}

char *es_format_number(es_format format, double value, double error, char *out, size_t size)
{
    const es_format_form form = es_format_choose(format, &value, &error, 1);
    return es_format_put(form, value, error, out, size);
}

char *es_format_bytes(double bytes, char out[ES_FORMAT_SIZE])
{
    return es_format_number(ES_FORMAT_BYTES, bytes, (double)NAN, out, ES_FORMAT_SIZE);
}

/* "3.2e8": three digits and the power of ten. The small term keeps log10 of an exact power from
 * falling just below it; what rounds up to ten is the next power. */
static void large_size(double n, char *out, size_t size)
{
    double power = floor(log10(n) + 1e-9);
    if (n / pow(10.0, power) >= 9.995)
        power += 1.0;
    snprintf(out, size, "%.3ge%.0f", n / pow(10.0, power), power);
}

/* Writes up to seven digits in full; larger numbers get a power of ten. */
char *es_format_size(double n, char *out, size_t size)
{
    const bool whole = n == floor(n);
    if (isfinite(n) && n >= (whole ? 1e7 : 9.995e6))
        large_size(n, out, size);
    else if (whole)
        snprintf(out, size, "%.0f", n);
    else if (n >= 99.95) {
        const double unit = pow(10.0, floor(log10(n)) - 2.0);
        snprintf(out, size, "%.0f", unit * round(n / unit));
    } else
        snprintf(out, size, "%.3g", n);
    return out;
}

/* ---- untrusted text ---- */

/* Length of the UTF-8 sequence at p, and the character; 0 if there is none. */
static size_t sequence(const unsigned char *p, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    const size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t code = p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    *out = code;
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0
                                                                                         : length;
}

/* The same, 0 for characters that are not harmless to show: they control the terminal, end lines or
 * turn the direction of writing. */
static size_t showable(const unsigned char *p)
{
    uint32_t code = 0;
    const size_t length = sequence(p, &code);
    const bool control =
        code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
    const bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return control || direction ? 0 : length;
}

bool es_utf8(const char *text)
{
    uint32_t code;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const size_t length = sequence(p, &code);
        if (length == 0)
            return false;
        p += length;
    }
    return true;
}

char *es_escape(const char *text, char *out, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)text;
    size_t used = 0;
    while (*p) {
        const size_t length = showable(p);
        if (used + (length ? length : 4) >= size)
            break;
        if (length) {
            memcpy(out + used, p, length);
            used += length;
            p += length;
        } else {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = hex[*p >> 4];
            out[used++] = hex[*p++ & 15];
        }
    }
    out[used] = '\0';
    return out;
}

char *es_json_quote(const char *text, char *out, size_t size)
{
    const bool valid = es_utf8(text);
    const char *p = text;
    size_t used = 0;
    out[used++] = '"';
    while (*p && used + 8 < size) {
        const unsigned char c = (unsigned char)*p;
        uint32_t code;
        if (!valid && sequence((const unsigned char *)p, &code) == 0)
            used += (size_t)snprintf(out + used, size - used, "\\\\x%02x", c);
        else if (c < 0x20 && !valid)
            used += (size_t)snprintf(out + used, size - used, "\\\\x%02x", c);
        else if (c < 0x20)
            used += (size_t)snprintf(out + used, size - used, c == '\n' ? "\\n" : "\\u%04x", c);
        else if (c == '"' || c == '\\')
            used += (size_t)snprintf(out + used, size - used, "\\%c", c);
        else
            out[used++] = *p;
        p++;
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}
