/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/unicode.h"

/* ---- failures ---- */

/* Rules are named after what is being read: the same mistake is safetensors.json in one file
 * and config.json in another. */
static es_status fail_at(const es_json *j, size_t at, const char *what, const char *message)
{
    char rule[40];
    snprintf(rule, sizeof rule, "%s.%s", j->rule, what);
    return es_fail_file(j->err, ES_E_FORMAT, j->file, (int64_t)at, rule,
                        "write or download the file again", "%s", message);
}

/* Fails with "expected X", naming the byte that is there instead. */
static es_status fail_expected(const es_json *j, const char *expected)
{
    char message[96];
    if (j->at >= j->end)
        snprintf(message, sizeof message, "the text ends where %s should be", expected);
    else
        snprintf(message, sizeof message, "byte 0x%02x where %s should be", j->bytes[j->at],
                 expected);
    return fail_at(j, j->at, "json", message);
}

/* ---- bytes ---- */

/* Skips the four characters that RFC 8259 calls white space; form feed and no-break space are
 * none. */
static void skip_space(es_json *j)
{
    while (j->at < j->end && memchr(" \t\r\n", j->bytes[j->at], 4))
        j->at++;
}

/* Returns the kind of the next value by its first byte, so that a value of the wrong kind is
 * refused without being read. */
unsigned char es_json_kind(es_json *j)
{
    skip_space(j);
    return j->at < j->end ? j->bytes[j->at] : 0;
}

/* Skips one byte if it is `byte`; returns whether it was. */
static bool take(es_json *j, unsigned char byte)
{
    if (j->at >= j->end || j->bytes[j->at] != byte)
        return false;
    j->at++;
    return true;
}

/* Takes `word` if it comes next. */
static bool take_word(es_json *j, const char *word)
{
    const size_t size = strlen(word);
    if (j->end - j->at < size || memcmp(j->bytes + j->at, word, size) != 0)
        return false;
    j->at += size;
    return true;
}

/* ---- objects and arrays ---- */

/* Depth is counted here and bounded, since es_json_skip() recurses: a megabyte of brackets must
 * not become a megabyte of stack frames. */
es_status es_json_begin(es_json *j, unsigned char open, es_json_list *list)
{
    *list = (es_json_list){.close = open == '{' ? '}' : ']'};
    skip_space(j);
    if (!take(j, open))
        return fail_expected(j, open == '{' ? "an object" : "an array");
    if (++j->depth > ES_JSON_DEPTH)
        return fail_at(j, j->at - 1, "depth", "objects and arrays are nested more than 64 deep");
    return ES_OK;
}

/* The comma belongs to the member after it: "[1,]" is then a missing value, and "{,}" a missing
 * key. */
es_status es_json_next(es_json *j, es_json_list *list, es_json_text *key)
{
    skip_space(j);
    if (take(j, list->close)) {
        j->depth--;
        list->done = true;
        return ES_OK;
    }
    if (list->any) {
        if (!take(j, ','))
            return fail_expected(j, list->close == '}' ? "a comma or '}'" : "a comma or ']'");
        skip_space(j);
    }
    list->any = true;
    if (list->close == ']')
        return ES_OK; /* a ']' after the comma is no value, and reading one will say so */
    if (j->at >= j->end || j->bytes[j->at] != '"')
        return fail_expected(j, "a quoted key");
    ES_TRY(es_json_string(j, key));
    skip_space(j);
    return take(j, ':') ? ES_OK : fail_expected(j, "a colon");
}

/* ---- strings ---- */

/* Returns the value of a hexadecimal digit, -1 if it is none. */
static int hex_value(unsigned char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the value of four hexadecimal digits at p, -1 if they are none. */
static int32_t hex4(const unsigned char *p, const unsigned char *end)
{
    int32_t value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Decodes the escape at p, after the backslash; returns its length, or 0 if it is invalid. Half of
 * a surrogate pair is invalid: RFC 8259 leaves this open, UTF-8 cannot encode it, and names that
 * differ only in such halves would become equal. */
static size_t read_escape(const unsigned char *p, const unsigned char *end, uint32_t *character)
{
    static const char letters[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    if (p >= end || !*p)
        return 0;
    const char *letter = strchr(letters, *p);
    if (letter) {
        *character = (unsigned char)meaning[letter - letters];
        return 1;
    }
    const int32_t first = *p == 'u' ? hex4(p + 1, end) : -1;
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff))
        return 0;
    *character = (uint32_t)first;
    if (first < 0xd800 || first > 0xdbff)
        return 5;
    const int32_t second = end - p >= 7 && p[5] == '\\' && p[6] == 'u' ? hex4(p + 7, end) : -1;
    if (second < 0xdc00 || second > 0xdfff)
        return 0;
    *character = 0x10000 + (((uint32_t)first & 0x3ff) << 10) + ((uint32_t)second & 0x3ff);
    return 11;
}

/* Returns the length of the UTF-8 character at p < end, 0 if it is invalid. */
static size_t utf8_length(const unsigned char *p, const unsigned char *end)
{
    int32_t c;
    const size_t length = es_utf8_next(p, (size_t)(end - p), &c);
    return c < 0 ? 0 : length;
}

/* Checked as a whole before anybody sees it: what decodes and copies below relies on it. */
es_status es_json_string(es_json *j, es_json_text *out)
{
    skip_space(j);
    if (!take(j, '"'))
        return fail_expected(j, "a string");
    const unsigned char *const end = j->bytes + j->end;
    const size_t start = j->at;
    for (;;) {
        const unsigned char *p = j->bytes + j->at;
        uint32_t character;
        if (p >= end)
            return fail_at(j, start - 1, "json", "a string without its closing quote");
        if (*p == '"')
            break;
        if (*p < 0x20)
            return fail_at(j, j->at, "json", "a control character in a string");
        const size_t step = *p == '\\' ? read_escape(p + 1, end, &character) : utf8_length(p, end);
        if (step == 0)
            return fail_at(j, j->at, *p == '\\' ? "json" : "utf8",
                           *p == '\\' ? "an invalid escape in a string" : "invalid UTF-8");
        j->at += step + (*p == '\\');
    }
    *out = (es_json_text){start, j->at - start, j->bytes};
    j->at++;
    return ES_OK;
}

size_t es_json_decode(const es_json_text *text, char *out)
{
    const unsigned char *p = text->bytes + text->at, *const end = p + text->size;
    size_t used = 0;
    while (p < end) {   /* what is written never passes what is read: an escape only shrinks */
        uint32_t c = 0; /* is set: es_json_string() has seen every escape */
        if (*p == '\\') {
            p += 1 + read_escape(p + 1, end, &c);
            used += es_utf8_put((int32_t)c, (unsigned char *)out + used);
        } else {
            out[used++] = (char)*p++;
        }
    }
    return used;
}

/* Keys may be spelt with escapes, "siz\u0065"; a reader that compares bytes would see another
 * key there and another reader the same: two files in one. */
bool es_json_same(const es_json_text *text, const char *word)
{
    char decoded[192];
    const size_t size = strlen(word);
    if (text->size > sizeof decoded) /* longer than our longest key, each letter escaped */
        return false;
    return es_json_decode(text, decoded) == size && memcmp(decoded, word, size) == 0;
}

/* For messages and for words that are compared afterwards, so it may be cut, but never inside a
 * character. */
void es_json_copy(const es_json_text *text, char *out, size_t size)
{
    const unsigned char *p = text->bytes + text->at, *const end = p + text->size;
    size_t used = 0;
    while (p < end) {
        unsigned char character[ES_UTF8_MOST];
        uint32_t c;
        const size_t step = *p == '\\' ? 1 + read_escape(p + 1, end, &c) : utf8_length(p, end);
        const size_t length = *p == '\\' ? es_utf8_put((int32_t)c, character) : step;
        if (used + length >= size)
            break;
        memcpy(out + used, *p == '\\' ? character : p, length);
        used += length;
        p += step;
    }
    out[used] = '\0';
}

/* ---- numbers ---- */

/* Returns whether the next byte is a decimal digit. */
static bool is_digit(const es_json *j)
{
    return j->at < j->end && j->bytes[j->at] >= '0' && j->bytes[j->at] <= '9';
}

/* For sizes and offsets. 1e3 is a number but no way to write an offset, and as a double it
 * would lose digits above 2^53. */
es_status es_json_whole(es_json *j, uint64_t *out)
{
    static const char expected[] = "a whole number below 2^63, digits only,";
    skip_space(j);
    const size_t start = j->at;
    uint64_t value = 0;
    for (; is_digit(j); j->at++) {
        const uint64_t digit = (uint64_t)(j->bytes[j->at] - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10) {
            j->at = start;
            return fail_expected(j, expected);
        }
        value = value * 10 + digit;
    }
    const size_t digits = j->at - start;
    const bool more = j->at < j->end && memchr(".eE+-", j->bytes[j->at], 5);
    if (digits == 0 || more || (digits > 1 && j->bytes[start] == '0')) {
        j->at = start;
        return fail_expected(j, expected);
    }
    *out = value;
    return ES_OK;
}

/* Digits into a mantissa of at most 19, which fits 64 bits; what is dropped moves the exponent. */
static void take_digits(es_json *j, uint64_t *mantissa, int *exponent, int each)
{
    for (; is_digit(j); j->at++) {
        if (*mantissa < UINT64_C(1000000000000000000)) {
            *mantissa = *mantissa * 10 + (uint64_t)(j->bytes[j->at] - '0');
            *exponent -= each;
        } else if (!each) {
            ++*exponent;
        }
    }
}

/* Reads one of the three words of Python's json: NaN, Infinity, -Infinity. -NaN is not one of
 * them. */
static bool take_nonfinite(es_json *j, bool negative, double *out)
{
    if (!j->nonfinite)
        return false;
    if (take_word(j, "Infinity"))
        *out = negative ? -INFINITY : INFINITY;
    else if (!negative && take_word(j, "NaN"))
        *out = NAN;
    else
        return false;
    return true;
}

/* Not strtod(), which reads 1.5 as 1 where the host program's locale has decimal commas. Up to 15
 * digits and powers up to 22 both factors are exact, and so one rounding happens. */
es_status es_json_number(es_json *j, double *out)
{
    uint64_t mantissa = 0;
    int exponent = 0, power = 0;
    skip_space(j);
    const bool negative = take(j, '-');
    const size_t start = j->at;
    if (take_nonfinite(j, negative, out))
        return ES_OK;
    if (!is_digit(j))
        return fail_expected(j, "a number");
    take_digits(j, &mantissa, &exponent, 0);
    if (j->at - start > 1 && j->bytes[start] == '0') {
        j->at = start + 1;
        return fail_expected(j, "the end of a number that begins with 0");
    }
    if (take(j, '.')) {
        if (!is_digit(j))
            return fail_expected(j, "a digit");
        take_digits(j, &mantissa, &exponent, 1);
    }
    if (take(j, 'e') || take(j, 'E')) {
        const bool minus = take(j, '-');
        if (!minus)
            take(j, '+');
        if (!is_digit(j))
            return fail_expected(j, "a digit");
        for (; is_digit(j); j->at++)
            power = power < 100000 ? power * 10 + (j->bytes[j->at] - '0') : power;
        power = minus ? -power : power;
    }
    exponent += power;
    const double digits = (double)mantissa;
    *out = exponent < 0 ? digits / pow(10.0, -exponent) : digits * pow(10.0, exponent);
    if (mantissa == 0)
        *out = 0.0;
    *out = negative ? -*out : *out;
    return ES_OK;
}

/* ---- the rest ---- */

/* No 0, 1 or "true": a file that has those was not written by the program it claims. */
es_status es_json_boolean(es_json *j, bool *out)
{
    skip_space(j);
    *out = take_word(j, "true");
    return *out || take_word(j, "false") ? ES_OK : fail_expected(j, "true or false");
}

es_status es_json_skip(es_json *j) /* recursion ends at ES_JSON_DEPTH */
{
    const unsigned char kind = es_json_kind(j);
    if (kind == '"') {
        es_json_text text;
        return es_json_string(j, &text);
    }
    if (kind == '-' || (kind >= '0' && kind <= '9') ||
        (j->nonfinite && (kind == 'N' || kind == 'I'))) {
        double number;
        return es_json_number(j, &number);
    }
    if (kind != '{' && kind != '[')
        return take_word(j, "null") || take_word(j, "true") || take_word(j, "false")
                   ? ES_OK
                   : fail_expected(j, "a value");
    es_json_list list;
    es_json_text key;
    ES_TRY(es_json_begin(j, kind, &list));
    for (;;) {
        ES_TRY(es_json_next(j, &list, &key));
        if (list.done)
            return ES_OK;
        ES_TRY(es_json_skip(j));
    }
}

/* Fails for text after the value: it would be ignored, and may be half of another file. */
es_status es_json_end(es_json *j)
{
    skip_space(j);
    return j->at == j->end ? ES_OK : fail_expected(j, "the end");
}
