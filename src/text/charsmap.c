/* SPDX-License-Identifier: Apache-2.0 */
#include "text/charsmap.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"

/* Fails because the table is not one that SentencePiece wrote. */
static es_status fail_map(const char *path, const char *what, es_error *err)
{
    return es_fail_file(err, ES_E_FORMAT, path, -1, "tokenizer.charsmap",
                        "write or download the file again", "precompiled_charsmap %s", what);
}

/* ---- base64 ---- */

/* Returns the six bits that a letter of base64 stands for, -1: it is none. */
static int bits_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes `length` letters, a multiple of four, into at most 3/4 as many bytes. Returns how many,
 * or SIZE_MAX if the text is not base64. */
static size_t decode(const char *text, size_t length, unsigned char *out)
{
    size_t used = 0;
    for (size_t at = 0; at < length; at += 4) {
        const bool last = at + 4 == length;
        const int padding = last ? (text[at + 3] == '=') + (text[at + 2] == '=') : 0;
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            const int six = i < 4 - padding ? bits_of(text[at + (size_t)i]) : 0;
            if (six < 0)
                return SIZE_MAX;
            bits = bits << 6 | (uint32_t)six;
        }
        for (int i = 0; i < 3 - padding; i++)
            out[used++] = (unsigned char)(bits >> (16 - 8 * i));
    }
    return used;
}

/* ---- units ---- */

/* Returns whether a string of the table ends at a unit. */
static bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
/* Returns the value of a leaf: where the replacement begins. */
static uint32_t value_of(uint32_t unit) { return unit & 0x7fffffff; }

/* Returns the byte that leads to a unit; of a leaf a number that no byte has. */
static uint32_t label_of(uint32_t unit) { return unit & 0x800000ff; }

/* Returns where the block of a unit's children begins, which is XORed with the byte of a child. */
static size_t children_of(size_t at, uint32_t unit)
{
    return at ^ (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

/* Checks the block of a unit's children and the replacement of its own string. */
static es_status check_unit(const es_charsmap *map, size_t at, const char *path, es_error *err)
{
    const size_t block = children_of(at, map->units[at]);
    if ((block | 0xff) >= map->count)
        return fail_map(path, "has a unit whose children are out of range", err);
    if (at == 0 || !has_leaf(map->units[at]))
        return ES_OK;
    const uint32_t value = value_of(map->units[block]);
    if (value > map->bytes || ((unsigned char)map->texts[value] & 0xc0) == 0x80)
        return fail_map(path, "has a replacement out of range", err);
    return ES_OK;
}

/* What is known of a unit while the trie is walked. */
enum { UNSEEN, OPEN, DONE };

typedef struct place {
    uint32_t unit;
    uint32_t next; /* byte to look at */
} place;

/* Walks all strings of the trie. Strings may share their ends, so a unit may be met again when all
 * below it is done; while it is open, that is a loop. */
static es_status walk(const es_charsmap *map, place *stack, unsigned char *seen, const char *path,
                      es_error *err)
{
    size_t depth = 1;
    stack[0] = (place){0, 1};
    seen[0] = OPEN;
    ES_TRY(check_unit(map, 0, path, err));
    while (depth) {
        place *here = &stack[depth - 1];
        if (here->next > 0xff) {
            seen[here->unit] = DONE;
            depth--;
            continue;
        }
        const uint32_t byte = here->next++;
        const size_t child = children_of(here->unit, map->units[here->unit]) ^ byte;
        if (label_of(map->units[child]) != byte || seen[child] == DONE)
            continue;
        if (seen[child] == OPEN)
            return fail_map(path, "has a loop", err);
        ES_TRY(check_unit(map, child, path, err));
        seen[child] = OPEN;
        stack[depth++] = (place){(uint32_t)child, 1};
    }
    return ES_OK;
}

/* Checks every unit that a lookup can come to. */
static es_status check_units(const es_charsmap *map, const char *path, es_error *err)
{
    place *stack = NULL;
    unsigned char *seen = NULL;
    es_status status = ES_MEM_NEW(map->budget, stack, (int64_t)map->count, "charsmap", err);
    if (status == ES_OK)
        status = ES_MEM_NEW(map->budget, seen, (int64_t)map->count, "charsmap", err);
    if (status == ES_OK)
        status = walk(map, stack, seen, path, err);
    es_mem_free(map->budget, stack);
    es_mem_free(map->budget, seen);
    return status;
}

/* ---- the table ---- */

/* Reads a little-endian integer of 32 bits. */
static uint32_t read_u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Takes a table apart: bytes of the trie (32 bits), the trie, the replacements. */
static es_status parse(es_charsmap *map, const unsigned char *p, size_t bytes, const char *path,
                       es_error *err)
{
    const size_t trie = bytes >= 4 ? read_u32(p) : 0;
    if (trie == 0 || trie % 4 || trie > bytes - 4)
        return fail_map(path, "is cut off", err);
    map->count = trie / 4;
    map->bytes = bytes - 4 - trie;
    ES_TRY(ES_MEM_NEW(map->budget, map->units, (int64_t)map->count, "charsmap", err));
    ES_TRY(ES_MEM_BYTES(map->budget, map->texts, map->bytes + 1, "charsmap", err));
    for (size_t i = 0; i < map->count; i++)
        map->units[i] = read_u32(p + 4 + 4 * i);
    memcpy(map->texts, p + 4 + trie, map->bytes);
    map->texts[map->bytes] = '\0';
    if (es_utf8_invalid(map->texts, map->bytes) >= 0)
        return fail_map(path, "has replacements that are not UTF-8", err);
    return check_units(map, path, err);
}

es_status es_charsmap_open(es_charsmap *map, const char *base64, const char *path,
                           es_mem_limit *budget, es_error *err)
{
    const size_t length = strlen(base64);
    unsigned char *bytes;
    *map = (es_charsmap){.budget = budget};
    if (length > ES_CHARSMAP_MOST_BYTES)
        return es_fail_file(err, ES_E_LIMIT, path, -1, "tokenizer.charsmap",
                            "SentencePiece's own tables have about 300 kB",
                            "precompiled_charsmap has %zu bytes; %d are possible", length,
                            ES_CHARSMAP_MOST_BYTES);
    if (length % 4)
        return fail_map(path, "is not base64", err);
    ES_TRY(ES_MEM_BYTES(budget, bytes, length + 1, "charsmap", err));
    const size_t count = decode(base64, length, bytes);
    const es_status status = count == SIZE_MAX ? fail_map(path, "is not base64", err)
                                               : parse(map, bytes, count, path, err);
    es_mem_free(budget, bytes);
    return status;
}

void es_charsmap_close(es_charsmap *map)
{
    es_mem_free(map->budget, map->units);
    es_mem_free(map->budget, map->texts);
    *map = (es_charsmap){0};
}

const char *es_charsmap_find(const es_charsmap *map, const unsigned char *text, size_t bytes)
{
    size_t at = children_of(0, map->units[0]);
    for (size_t i = 0; i < bytes && text[i]; i++) {
        at ^= text[i];
        const uint32_t unit = map->units[at];
        if (label_of(unit) != text[i])
            return NULL;
        at = children_of(at, unit);
        if (has_leaf(unit))
            return map->texts + value_of(map->units[at]);
    }
    return NULL;
}
