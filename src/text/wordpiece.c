/* SPDX-License-Identifier: Apache-2.0 */
/* wordpiece.c : the kind of tokenizer that BERT has; bytes of a text in, tokens out, in one pass
 * and with bounded memory.
 *
 * take() reads characters and added tokens, normalize() and its helpers turn a character into
 * those of a word, divide() knows where words end, end_word() hands the pieces on. What has to be
 * looked ahead at is bounded: a character, or an added token. So is what must be kept: a word up
 * to max_chars, and combining marks that wait for their order.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/tokenizer.h"
#include "text/tokenizer_inside.h"

/* ---- a word that is being spelt, and the pieces it is cut into ---- */

/* Up to max_chars characters; of a longer word only the place is kept. */
typedef struct word {
    const es_tokenizer *tokenizer;
    unsigned char *bytes; /* in UTF-8, normalized */
    int64_t *begin, *end; /* of each byte: the bytes of the text its character was made from */
    es_token *pieces;
    size_t used;
    int64_t chars, from, to; /* of the text, over the whole word */
} word;

/* Allocates a word of the greatest length that is not unknown. Its pieces fit, because each has at
 * least one character. */
static es_status word_open(word *w, const es_tokenizer *tokenizer, es_arena *arena, es_error *err)
{
    const int64_t chars = tokenizer->info.max_chars;
    *w = (word){.tokenizer = tokenizer};
    ES_TRY(ES_ARENA_NEW_2D(arena, w->bytes, chars, ES_UTF8_MOST, "word", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->begin, chars, ES_UTF8_MOST, "word", err));
    ES_TRY(ES_ARENA_NEW_2D(arena, w->end, chars, ES_UTF8_MOST, "word", err));
    return ES_ARENA_NEW(arena, w->pieces, chars, "word", err);
}

/* Appends a character made from bytes [begin, end) of the text. Marks in canonical order may
 * differ from the order of the text, so the word covers the smallest range that contains all its
 * characters. */
static void word_put(word *w, int32_t c, int64_t begin, int64_t end)
{
    if (w->chars == 0 || begin < w->from)
        w->from = begin;
    if (w->chars == 0 || end > w->to)
        w->to = end;
    if (w->chars++ >= w->tokenizer->info.max_chars)
        return; /* it is unknown already; only its end is of interest */
    const size_t length = es_utf8_put(c, w->bytes + w->used);
    for (size_t i = w->used; i < w->used + length; i++)
        w->begin[i] = begin, w->end[i] = end;
    w->used += length;
}

/* Returns bytes [at, at + length) of the word as a token, with the smallest range of the text that
 * contains it. */
static es_token place_piece(const word *w, int32_t id, size_t at, size_t length)
{
    es_token piece = {id, w->begin[at], w->end[at]};
    for (size_t i = at + 1; i < at + length; i++) {
        piece.begin = w->begin[i] < piece.begin ? w->begin[i] : piece.begin;
        piece.end = w->end[i] > piece.end ? w->end[i] : piece.end;
    }
    return piece;
}

/* Cuts a word into pieces, the longest first, as WordPiece is defined; a greedy cut may fail where
 * another would not. Returns the number of pieces, -1 if none fits somewhere. */
static int64_t cut_greedily(word *w)
{
    const es_tokenizer *t = w->tokenizer;
    int64_t count = 0;
    uint32_t node = ES_TRIE_ROOT;
    for (size_t at = 0; at < w->used; node = t->wordpiece.continuing) {
        int32_t id = 0;
        const size_t length =
            es_trie_longest(&t->wordpiece.pieces, node, w->bytes + at, w->used - at, &id);
        if (length == 0)
            return -1;
        w->pieces[count++] = place_piece(w, id, at, length);
        at += length;
    }
    return count;
}

/* Cuts the word into w->pieces and empties it. Returns the number of pieces, 0 for an empty word.
 */
static int64_t word_cut(word *w)
{
    if (w->chars == 0)
        return 0;
    int64_t count = w->chars > w->tokenizer->info.max_chars ? -1 : cut_greedily(w);
    if (count < 0) {
        w->pieces[0] = (es_token){w->tokenizer->info.unknown, w->from, w->to};
        count = 1;
    }
    w->used = 0;
    w->chars = 0;
    return count;
}

/* ---- the stream ---- */

/* A mark that is kept when accents are stripped (there are a few, Hangul tones for example), and
 * its canonical combining class. */
typedef struct mark {
    int32_t c;
    int class;
    int64_t begin, end;
} mark;

/* What a stream of this kind keeps between pieces of a text. */
typedef struct wordpiece {
    es_token_stream *stream;
    const es_tokenizer *tokenizer;
    es_arena arena; /* holds everything that is allocated */
    word word;
    mark *marks; /* (max_chars) waiting for a starter, in canonical order */
    int64_t marks_count;
    unsigned char *carry; /* (2 ahead) bytes that could not be decided on yet */
    size_t carried, ahead;
    int64_t at; /* offset of the next byte to be taken */
} wordpiece;

/* Ends the current word and sends its pieces. */
static void end_word(wordpiece *s)
{
    const int64_t count = word_cut(&s->word);
    es_stream_put(s->stream, s->word.pieces, count);
}

/* ---- words ---- */

/* Divides text into words as BertPreTokenizer: white space separates words, punctuation is a word
 * by itself. */
static void divide(wordpiece *s, int32_t c, int64_t begin, int64_t end)
{
    if (es_char_space(c)) {
        end_word(s);
    } else if (es_char_punctuation(c)) {
        end_word(s);
        word_put(&s->word, c, begin, end);
        end_word(s);
    } else {
        word_put(&s->word, c, begin, end);
    }
}

/* Changes a character to lower case, after accents are removed, and divides the text. */
static void lower_and_divide(wordpiece *s, int32_t c, int64_t begin, int64_t end)
{
    int32_t lower[ES_LOWER_MOST] = {c};
    const int count = s->tokenizer->info.lowercase ? es_char_lower(c, lower) : 1;
    for (int i = 0; i < count; i++)
        divide(s, lower[i], begin, end);
}

/* ---- marks in canonical order ---- */

/* Ends a run of marks at a starter, which fixes their order. */
static void release_marks(wordpiece *s)
{
    for (int64_t i = 0; i < s->marks_count; i++)
        lower_and_divide(s, s->marks[i].c, s->marks[i].begin, s->marks[i].end);
    s->marks_count = 0;
}

/* Marks are sorted by class, those of one class stay in order. When there are more than a word can
 * have characters the word is unknown whatever their order, so they need not wait. */
static void hold_mark(wordpiece *s, mark m)
{
    if (s->marks_count == s->tokenizer->info.max_chars)
        release_marks(s);
    int64_t i = s->marks_count++;
    for (; i > 0 && s->marks[i - 1].class > m.class; i--)
        s->marks[i] = s->marks[i - 1];
    s->marks[i] = m;
}

/* Decomposes a character (NFD) and drops accents. Dropping them before ordering the marks gives
 * the same result. */
static void strip_accents(wordpiece *s, int32_t c, int64_t begin, int64_t end)
{
    int32_t parts[ES_DECOMPOSE_MOST];
    const int count = es_char_decompose(c, parts);
    for (int i = 0; i < count; i++) {
        if (es_char_accent(parts[i]))
            continue;
        const int class = es_char_combining(parts[i]);
        if (class) {
            hold_mark(s, (mark){parts[i], class, begin, end});
        } else {
            release_marks(s);
            lower_and_divide(s, parts[i], begin, end);
        }
    }
}

/* ---- characters ---- */

/* Normalizes a character in the order of BertNormalizer: clean, separate ideographs, strip
 * accents, lower case. The space around an ideograph is the end of a word here. */
static void normalize(wordpiece *s, int32_t c, int64_t begin, int64_t end)
{
    const es_tokenizer_info *rules = &s->tokenizer->info;
    if (rules->clean_text && (c == 0 || c == 0xfffd || es_char_control(c)))
        return;
    const bool apart = rules->split_chinese && es_char_chinese(c);
    if (apart) {
        release_marks(s);
        end_word(s);
    }
    if (rules->strip_accents)
        strip_accents(s, c, begin, end);
    else
        lower_and_divide(s, c, begin, end);
    if (apart)
        end_word(s);
}

/* Normalizes an ASCII character by table. */
static void normalize_ascii(wordpiece *s, unsigned char c, int64_t at)
{
    const es_wordpiece_rules *t = &s->tokenizer->wordpiece;
    const es_ascii_class class = (es_ascii_class)t->ascii_class[c];
    if (class == ES_ASCII_DROP)
        return;
    if (s->marks_count)
        release_marks(s);
    if (class != ES_ASCII_LETTER)
        end_word(s);
    if (class != ES_ASCII_SPACE)
        word_put(&s->word, t->ascii_lower[c], at, at + 1);
    if (class == ES_ASCII_SIGN)
        end_word(s);
}

/* Sends an added token, which is a word by itself whatever surrounds it. */
static void take_added(wordpiece *s, int32_t id, size_t length)
{
    const es_token token = {id, s->at, s->at + (int64_t)length};
    release_marks(s);
    end_word(s);
    es_stream_put(s->stream, &token, 1);
}

/* Reads one character; returns its bytes. */
static size_t take_character(wordpiece *s, const unsigned char *p, size_t bytes)
{
    int32_t c;
    const size_t length = es_utf8_next(p, bytes, &c);
    if (c >= 0 || es_stream_replace(s->stream, s->at, p[0]))
        normalize(s, c < 0 ? 0xfffd : c, s->at, s->at + (int64_t)length);
    return length;
}

/* Reads bytes while all tokens that may begin there are visible: `ahead` bytes, or the end of the
 * text. Returns how many it has read. */
static size_t take(wordpiece *s, const unsigned char *p, size_t bytes, bool last)
{
    const es_tokenizer *t = s->tokenizer;
    const size_t need = last ? 1 : s->ahead;
    size_t done = 0;
    while (done + need <= bytes && s->stream->status == ES_OK) {
        const unsigned char first = p[done];
        int32_t id;
        size_t length = 1;
        if (t->added.first[first] && (length = es_trie_longest(&t->added.trie, ES_TRIE_ROOT,
                                                               p + done, bytes - done, &id)) > 0)
            take_added(s, id, length);
        else if (first < 0x80)
            normalize_ascii(s, first, s->at), length = 1;
        else
            length = take_character(s, p + done, bytes - done);
        done += length;
        s->at += (int64_t)length;
    }
    return done;
}

/* ---- the kind ---- */

/* Allocates all memory of a stream: writing to it never fails for lack of memory. */
static es_status allocate(wordpiece *s, es_error *err)
{
    const size_t longest = s->tokenizer->added.longest;
    s->ahead = longest > ES_UTF8_MOST ? longest : ES_UTF8_MOST;
    ES_TRY(word_open(&s->word, s->tokenizer, &s->arena, err));
    ES_TRY(ES_ARENA_NEW(&s->arena, s->marks, s->tokenizer->info.max_chars, "marks", err));
    return ES_ARENA_NEW(&s->arena, s->carry, 2 * (int64_t)s->ahead, "token stream", err);
}

/* Opens the state of a stream. */
static es_status wordpiece_open(es_token_stream *stream, es_error *err)
{
    wordpiece *s;
    ES_TRY(ES_MEM_NEW(stream->budget, s, 1, "token stream", err));
    *s = (wordpiece){
        .stream = stream, .tokenizer = stream->tokenizer, .arena.budget = stream->budget};
    stream->state = s;
    return allocate(s, err);
}

/* Frees the state of a stream. */
static void wordpiece_close(es_token_stream *stream)
{
    wordpiece *s = stream->state;
    if (!s)
        return;
    es_arena_free(&s->arena);
    es_mem_free(stream->budget, s);
}

/* Tokenizes bytes. Those that could not be decided last time are joined with the new ones in a
 * small buffer; after that the new bytes are read in place. */
static void wordpiece_write(es_token_stream *stream, const unsigned char *p, size_t bytes)
{
    wordpiece *s = stream->state;
    while (s->carried && bytes && stream->status == ES_OK) {
        /* Enough of the new bytes beside the carried ones that all of these can be taken. */
        const size_t capacity = 2 * s->ahead - s->carried,
                     more = bytes < capacity ? bytes : capacity;
        memcpy(s->carry + s->carried, p, more);
        const size_t taken = take(s, s->carry, s->carried + more, false);
        if (taken >= s->carried) { /* go on where the bytes came from */
            p += taken - s->carried;
            bytes -= taken - s->carried;
            s->carried = 0;
        } else { /* so little came that it all waits */
            s->carried += more - taken;
            memmove(s->carry, s->carry + taken, s->carried);
            p += more;
            bytes -= more;
        }
    }
    if (bytes && stream->status == ES_OK) {
        const size_t taken = take(s, p, bytes, false);
        if (stream->status == ES_OK) {
            s->carried = bytes - taken;
            memcpy(s->carry, p + taken, s->carried);
        }
    }
}

/* Tokenizes the waiting bytes at the end of the text, and resets the stream. */
static void wordpiece_finish(es_token_stream *stream)
{
    wordpiece *s = stream->state;
    take(s, s->carry, s->carried, true);
    release_marks(s);
    end_word(s);
    s->carried = 0;
    s->marks_count = 0;
    s->at = 0;
}

/* Tabulates normalizer and pre-tokenizer for ASCII. */
static void classify_ascii(es_wordpiece_rules *out, const es_tokenizer_info *rules)
{
    for (int c = 0; c < 128; c++) {
        const bool drop = rules->clean_text && (c == 0 || es_char_control(c));
        out->ascii_class[c] = drop                     ? ES_ASCII_DROP
                              : es_char_space(c)       ? ES_ASCII_SPACE
                              : es_char_punctuation(c) ? ES_ASCII_SIGN
                                                       : ES_ASCII_LETTER;
        out->ascii_lower[c] =
            (unsigned char)(rules->lowercase && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
}

/* Cuts words from the front by the longest token that fits, which a trie finds. Of tokens with
 * the same text the last one counts. */
static es_status make_trie(es_tokenizer *t, es_error *err)
{
    es_trie *trie = &t->wordpiece.pieces;
    int32_t before;
    ES_TRY(es_trie_open(trie, t->budget, err));
    for (int64_t id = 0; id < t->info.size; id++) {
        const char *text = es_tokenizer_token(t, id);
        if (text && es_tokenizer_find(t, text) == id)
            ES_TRY(es_trie_put(trie, text, strlen(text), (int32_t)id, &before, err));
    }
    return ES_OK;
}

/* Builds the tables of a tokenizer. */
static es_status wordpiece_prepare(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    if (list->rules.max_chars < 1 || list->rules.max_chars > ES_WORD_MOST_CHARS)
        return es_fail_file(err, ES_E_UNSUPPORTED, list->path, -1, "tokenizer.word",
                            "BERT uses 100", "max_input_chars_per_word %lld is outside [1, %d]",
                            (long long)list->rules.max_chars, ES_WORD_MOST_CHARS);
    if (t->info.unknown < 0)
        return es_fail_file(
            err, ES_E_FORMAT, list->path, -1, "tokenizer.special",
            "add it to the vocabulary: words that cannot be split become this token",
            "the vocabulary has no token %.64s", list->unknown);
    ES_TRY(make_trie(t, err));
    t->wordpiece.continuing = es_trie_walk(&t->wordpiece.pieces, ES_TRIE_ROOT, list->continuing,
                                           strlen(list->continuing));
    classify_ascii(&t->wordpiece, &t->info);
    return ES_OK;
}

/* Frees the tables of a tokenizer. */
static void wordpiece_free(es_tokenizer *t) { es_trie_close(&t->wordpiece.pieces); }

const es_token_kind es_kind_wordpiece = {
    .type = "WordPiece",
    .sign = "max_input_chars_per_word",
    .read = es_wordpiece_read,
    .prepare = wordpiece_prepare,
    .free = wordpiece_free,
    .open = wordpiece_open,
    .write = wordpiece_write,
    .finish = wordpiece_finish,
    .close = wordpiece_close,
};
