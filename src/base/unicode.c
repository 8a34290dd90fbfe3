/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unicode.h"

#include <string.h>

#include <utf8proc.h>

/* ---- UTF-8 ---- */

/* The second byte decides whether a sequence is overlong, a surrogate or too large. */
static bool second_byte_fits(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return second >= 0x80 && second <= 0xbf;
    }
}

/* Overlong forms, surrogates and what is above U+10FFFF are no characters (RFC 3629): one
 * spelling for each, so that tokens and names cannot be smuggled past a comparison. */
size_t es_utf8_next(const unsigned char *p, size_t bytes, int32_t *out)
{
    const unsigned char first = p[0];
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xc2 && first < 0xe0 ? 2
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xf0 && first < 0xf5 ? 4
                                                          : 0;
    *out = -1;
    if (length == 0)
        return 1;
    int32_t c = length == 1 ? first : first & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if (i >= bytes || (i == 1 ? !second_byte_fits(first, p[1]) : (p[i] & 0xc0) != 0x80))
            return i;
        c = c << 6 | (p[i] & 0x3f);
    }
    *out = c;
    return length;
}

size_t es_utf8_put(int32_t c, unsigned char out[ES_UTF8_MOST])
{
    return (size_t)utf8proc_encode_char(c, out);
}

size_t es_utf8_mark(const void *data, size_t bytes)
{
    return bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int64_t es_utf8_invalid(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    int32_t c;
    for (size_t at = 0; at < bytes;) {
        const size_t length = es_utf8_next(p + at, bytes - at, &c);
        if (c < 0)
            return (int64_t)at;
        at += length;
    }
    return -1;
}

/* ---- categories ---- */

/* A range of code points, both ends included. */
typedef struct range {
    int32_t first, last;
} range;

/* What Unicode 15.1 to 17 added to Mn and P. The utf8proc at hand may be older, and ids must not
 * depend on the machine. (U+1171E went from Mn to Mc in 16.) */
static const range newer_accents[] = {{0x897, 0x897},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},
                                      {0x10d69, 0x10d6d}, {0x10efa, 0x10efc}, {0x113bb, 0x113c0},
                                      {0x113ce, 0x113ce}, {0x113d0, 0x113d0}, {0x113d2, 0x113d2},
                                      {0x113e1, 0x113e2}, {0x11b60, 0x11b60}, {0x11b62, 0x11b64},
                                      {0x11b66, 0x11b66}, {0x11f5a, 0x11f5a}, {0x1611e, 0x16129},
                                      {0x1612d, 0x1612f}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6e3},
                                      {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5}};
static const range newer_punctuation[] = {
    {0x1b4e, 0x1b4f},   {0x1b7f, 0x1b7f},   {0x10d6e, 0x10d6e},
    {0x10ed0, 0x10ed0}, {0x113d4, 0x113d5}, {0x113d7, 0x113d8},
    {0x11be1, 0x11be1}, {0x16d6d, 0x16d6f}, {0x1e5ff, 0x1e5ff}};

/* Ranges are in order; the lists are short and the characters rare. */
static bool within(int32_t c, const range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (c <= ranges[i].last)
            return c >= ranges[i].first;
    return false;
}

#define WITHIN(c, ranges) within(c, ranges, sizeof(ranges) / sizeof(ranges)[0])

/* A list rather than a category: White_Space is a property of its own, and ASCII comes first
 * because most text is. */
bool es_char_space(int32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool es_char_control(int32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS;
}

/* BERT counts every ASCII sign as punctuation, "$" and "^" as well, which are not P in Unicode. */
bool es_char_punctuation(int32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    const utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_CN)
        return WITHIN(c, newer_punctuation);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool es_char_accent(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    if (category == UTF8PROC_CATEGORY_CN)
        return WITHIN(c, newer_accents);
    return category == UTF8PROC_CATEGORY_MN && c != 0x1171e;
}

bool es_char_chinese(int32_t c)
{
    static const range blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                   {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    return c >= 0x3400 && WITHIN(c, blocks);
}

/* Alphabetic, M, Nd, Pc and joiners; of symbols that are letters in circles and squares the
 * blocks. */
bool es_char_word(int32_t c)
{
    static const range lettered[] = {
        {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
    const utf8proc_category_t category = utf8proc_category(c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || WITHIN(c, lettered);
}

int es_char_combining(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* ---- mappings ---- */

/* utf8proc decomposes fully and knows Hangul; of what it does not know, the character itself
 * remains. */
int es_char_decompose(int32_t c, int32_t out[ES_DECOMPOSE_MOST])
{
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(c, out, ES_DECOMPOSE_MOST, UTF8PROC_DECOMPOSE, &boundary);
    if (count >= 1 && count <= ES_DECOMPOSE_MOST)
        return (int)count;
    out[0] = c;
    return 1;
}

int es_char_compatible(int32_t c, int32_t out[ES_COMPATIBLE_MOST])
{
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, out, ES_COMPATIBLE_MOST, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, &boundary);
    if (count >= 1 && count <= ES_COMPATIBLE_MOST)
        return (int)count;
    out[0] = c;
    return 1;
}

int es_char_lower(int32_t c, int32_t out[ES_LOWER_MOST])
{
    if (c == 0x130) { /* the one character whose lower case is two */
        out[0] = 'i', out[1] = 0x307;
        return 2;
    }
    out[0] = utf8proc_tolower(c);
    return 1;
}

/* ---- grapheme clusters ---- */

size_t es_grapheme_next(const unsigned char *p, size_t bytes)
{
    int32_t left, right, state = 0;
    size_t end = es_utf8_next(p, bytes, &left);
    if (left < 0x80 && left != '\r' && end < bytes && p[end] < 0x80)
        return end; /* most text */
    while (end < bytes) {
        const size_t length = es_utf8_next(p + end, bytes - end, &right);
        if (utf8proc_grapheme_break_stateful(left, right, &state))
            break;
        left = right;
        end += length;
    }
    return end;
}

bool es_grapheme_apart(int32_t left, int32_t right)
{
    const unsigned before = utf8proc_get_property(left)->boundclass;
    const unsigned after = utf8proc_get_property(right)->boundclass;
    return before == UTF8PROC_BOUNDCLASS_OTHER && after != UTF8PROC_BOUNDCLASS_EXTEND &&
           after != UTF8PROC_BOUNDCLASS_ZWJ && after != UTF8PROC_BOUNDCLASS_SPACINGMARK;
}

/* ---- composition ---- */

bool es_char_composed(int32_t c)
{
    static const range plain[] = {
        {0, 0x2ff}, {0x388, 0x482}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xac00, 0xd7a3}};
    return WITHIN(c, plain);
}

bool es_char_boundary(int32_t c)
{
    static const range starters[] = {{0, 0x2ff},       {0x370, 0x482},     {0x2000, 0x20cf},
                                     {0x3001, 0x3029}, {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
                                     {0xac00, 0xd7a3}, {0x1f000, 0x1faff}, {0x20000, 0x2a6df}};
    return WITHIN(c, starters);
}

/* Sorts marks between two starters by their class and keeps the order within a class. Long runs
 * are sorted by counting: a million marks are not text but an attempt to make the program slow. */
static void order_marks(int32_t *marks, int64_t count, int32_t *scratch)
{
    int64_t place[257] = {0};
    if (count <= 16) {
        for (int64_t i = 1; i < count; i++) {
            const int32_t c = marks[i];
            int64_t at = i;
            for (; at > 0 && es_char_combining(marks[at - 1]) > es_char_combining(c); at--)
                marks[at] = marks[at - 1];
            marks[at] = c;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        place[(es_char_combining(marks[i]) & 0xff) + 1]++;
    for (int class = 0; class < 256; class ++)
        place[class + 1] += place[class];
    for (int64_t i = 0; i < count; i++)
        scratch[place[es_char_combining(marks[i]) & 0xff]++] = marks[i];
    for (int64_t i = 0; i < count; i++)
        marks[i] = scratch[i];
}

int64_t es_text_compose(int32_t *text, int64_t count, int32_t *scratch)
{
    for (int64_t at = 0; at < count;) {
        int64_t end = at;
        while (end < count && es_char_combining(text[end]))
            end++;
        order_marks(text + at, end - at, scratch);
        at = end + 1;
    }
    const utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(text, (utf8proc_ssize_t)count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return composed >= 0 ? (int64_t)composed : count;
}
