/* SPDX-License-Identifier: Apache-2.0 */
/* checksum.h : CRC-64/XZ (ECMA-182, reflected) of bytes, numbers and texts; and es_sum(), a faster
 * sum for gigabytes that are read often.
 *
 * The CRC detects every burst of up to 64 changed bits, and any other change except once in 2^64.
 * It processes 4 bits at a time: a table of 16 entries needs no initialisation and is fast enough
 * compared with the disk. To chain, start with 0 and pass the result on. Check value: "123456789"
 * gives 995dc9bbdf1939fa.
 */
#ifndef ES_STORE_CHECKSUM_H
#define ES_STORE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t es_crc(uint64_t crc, const void *data, size_t size)
{
    static const uint64_t table[16] = {
        0x0000000000000000, 0x7d9ba13851336649, 0xfb374270a266cc92, 0x86ace348f355aadb,
        0x64b62bcaebc387a1, 0x192d8af2baf0e1e8, 0x9f8169ba49a54b33, 0xe21ac88218962d7a,
        0xc96c5795d7870f42, 0xb4f7f6ad86b4690b, 0x325b15e575e1c3d0, 0x4fc0b4dd24d2a599,
        0xadda7c5f3c4488e3, 0xd041dd676d77eeaa, 0x56ed3e2f9e224471, 0x2b769f17cf112238};
    const unsigned char *p = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* One word into one lane: a bijection of h for every word, and of the word for every h.
 * Multiplications carry differences upwards, the swap in between brings the topmost byte to the
 * bottom: a bit that differs becomes some 30 bits, which ones depends on h. One multiplication
 * would not do: it leaves the top bit, a float's sign, a single bit that the next word's cancels.
 */
static inline uint64_t es_sum_step(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
    return __builtin_bswap64(h) * UINT64_C(0x94d049bb133111eb);
}

enum { ES_SUM_LANES = 8 };

static inline void es_sum_block(uint64_t lanes[ES_SUM_LANES], const void *data)
{
    uint64_t words[ES_SUM_LANES];
    memcpy(words, data, sizeof words);
    for (int i = 0; i < ES_SUM_LANES; i++)
        lanes[i] = es_sum_step(lanes[i], words[i]);
}

/* Sums 64-bit words in parallel lanes, so that multiplications overlap: about 10 GB/s. A change
 * within one aligned word always changes the sum, since every step is a bijection. If several words
 * change, a later one may cancel an earlier one of its lane; for random damage, as from a disk,
 * this happens about once in 2^64. The sum has no secret, so that deliberate collisions are
 * possible. */
static inline uint64_t es_sum(const void *data, size_t size)
{
    enum { BLOCK = ES_SUM_LANES * 8 };
    const unsigned char *p = data;
    uint64_t lanes[ES_SUM_LANES] = {1, 2, 3, 4, 5, 6, 7, 8}, h = size;
    size_t left = size;
    for (; left >= BLOCK; left -= BLOCK, p += BLOCK)
        es_sum_block(lanes, p);
    if (left > 0) { /* zeros after them; how many are not is in h */
        unsigned char rest[BLOCK] = {0};
        memcpy(rest, p, left);
        es_sum_block(lanes, rest);
    }
    for (int i = 0; i < ES_SUM_LANES; i++)
        h = es_sum_step(h, lanes[i]);
    return h;
}

/* The same bytes on every machine: least significant first. */
static inline void es_encode_u64(uint64_t value, unsigned char out[8])
{
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t es_decode_u64(const unsigned char in[8])
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

static inline uint64_t es_crc_i64(uint64_t crc, int64_t value)
{
    unsigned char bytes[8];
    es_encode_u64((uint64_t)value, bytes);
    return es_crc(crc, bytes, sizeof bytes);
}

/* With its end, so that "ab","c" and "a","bc" differ. */
static inline uint64_t es_crc_text(uint64_t crc, const char *text)
{
    return es_crc(crc, text, strlen(text) + 1);
}

#endif
