#include <esscher/format.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

/* "3.142 ± 0.012": the error with two digits, the value to the same decimal. */
static void with_error(double value, double error, char *out, size_t size)
{
    const int decimals = error > 0.0 ? 1 - (int)floor(log10(error)) : 6;
    if (decimals > 12 || fabs(value) >= 1e7)
        snprintf(out, size, "%.4g ± %.2g", value, error);
    else
        snprintf(out, size, "%.*f ± %.*f", decimals > 0 ? decimals : 0, value,
                 decimals > 0 ? decimals : 0, error);
}

static void with_prefix(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int i = 0;
    for (; bytes >= 1024.0 && i < 5; i++)
        bytes /= 1024.0;
    snprintf(out, size, "%.*f %s", i ? 1 : 0, bytes, units[i]);
}

static void as_duration(double seconds, char *out, size_t size)
{
    if (seconds < 600.0)
        snprintf(out, size, "%.3g s", seconds);
    else if (seconds < 36000.0)
        snprintf(out, size, "%.1f min", seconds / 60.0);
    else
        snprintf(out, size, "%.1f h", seconds / 3600.0);
}

char *es_format_number(es_format format, double value, double error, char *out, size_t size)
{
    switch (format) {
    case ES_FORMAT_BYTES:
        with_prefix(value, out, size);
        return out;
    case ES_FORMAT_DURATION:
        as_duration(value, out, size);
        return out;
    case ES_FORMAT_SHORT:
        snprintf(out, size, "%.3g", value);
        return out;
    case ES_FORMAT_COUNT:
        if (value == floor(value) && fabs(value) < 1e19) {
            snprintf(out, size, "%.0f", value);
            return out;
        }
        break;
    case ES_FORMAT_FLAG:
        snprintf(out, size, "%s", value != 0.0 ? "yes" : "no");
        return out;
    case ES_FORMAT_TEXT:
    case ES_FORMAT_REAL:
        break;
    }
    if (isfinite(error))
        with_error(value, error, out, size);
    else
        snprintf(out, size, "%.6g", value);
    return out;
}

/* ---- text that somebody else wrote ---- */

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
