/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_stream.c : the kind of tokenizer that decoders have; bytes of a text in, tokens out.
 *
 * Text goes through three places. `raw` holds bytes as they came, until it is sure that no added
 * token begins among them; advance() moves them on. `section` holds what the normalizer made of
 * them, from one added token to the next, until words are sure; run_words() has those cut into
 * pieces. Between them, in `normal`, waits text in which added tokens are looked for once more, if
 * the tokenizer has such. What waits anywhere is what the next bytes could
 * still change: a word, mostly. Where a tokenizer's rules could change everything that is a whole
 * section, and then memory is proportional to it.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/bpe.h"
#include "text/unigram.h"
#include "base/unicode.h"

enum { CHUNK = 16384 }; /* bytes that are moved on at a time */

typedef struct bpe_state {
    es_token_stream *stream;
    const es_bpe *bpe;
    unsigned char *raw;
    size_t raw_used, raw_wait;    /* with fewer bytes than raw_wait it is not worth while to look */
    int64_t raw_capacity, raw_at; /* place of raw[0] in the text */
    int32_t previous;             /* the character before raw[0], -1: none */
    bool fresh;                   /* nothing of this section has been normalized */
    es_aligned normal; /* text before the added tokens that are looked for in it are found */
    int32_t normal_previous;
    es_aligned section; /* text without added tokens */
    size_t section_wait;
    es_matcher *matcher;
    es_normalizing normalizing;
    es_splitting splitting;
    es_cutting cutting;
    es_token *tokens; /* of a word */
    int64_t tokens_capacity;
} bpe_state;

/* ---- words ---- */

/* Sends the pieces of bytes [begin, end) of a text, with their positions, to the sink. */
static es_status put_word(bpe_state *s, const es_aligned *text, size_t begin, size_t end,
                          es_error *err)
{
    es_cutting *cut = &s->cutting;
    int64_t count = 0;
    ES_TRY(es_cutting_run(cut, text->bytes + begin, end - begin, err));
    ES_TRY(ES_MEM_GROW(s->stream->budget, s->tokens, &s->tokens_capacity, cut->pieces_count,
                       "tokens of a word", err));
    for (int64_t i = 0; i < cut->pieces_count; i++) {
        const es_piece *piece = &cut->pieces[i];
        if (piece->id >= 0)
            s->tokens[count++] =
                (es_token){piece->id, text->from[begin], text->to[begin + piece->bytes - 1]};
        begin += piece->bytes;
    }
    es_stream_put(s->stream, s->tokens, count);
    return s->stream->status;
}

/* Cuts a section without pre-tokenizer, which is one word, at positions that no merge can join:
 * between two characters that are no joint. This changes no piece. For SentencePiece it cuts
 * before every space. */
static es_status cut_words(bpe_state *s, const es_aligned *text, size_t begin, size_t end,
                           bool last, size_t *taken, es_error *err)
{
    int32_t left = -1, right;
    size_t from = begin;
    for (size_t at = begin; at < end;) {
        const size_t length = es_utf8_next(text->bytes + at, end - at, &right);
        if (left >= 0 && !es_bpe_joins(s->bpe, left, right)) {
            ES_TRY(put_word(s, text, from, at, err));
            from = at;
        }
        left = right;
        at += length;
    }
    if (last)
        ES_TRY(put_word(s, text, from, end, err));
    *taken = (last ? end : from) - begin;
    return ES_OK;
}

/* Receives a stretch of text from the splitters. Without a pattern that splits words, the
 * stretch is one word, which is complete only at the end of the text. */
static es_status take_words(void *user, const es_aligned *text, size_t begin, size_t end, bool last,
                            size_t *taken, es_error *err)
{
    bpe_state *s = user;
    *taken = 0;
    if (s->bpe->cuts)
        return cut_words(s, text, begin, end, last, taken, err);
    if (!last)
        return ES_OK;
    *taken = end - begin;
    return put_word(s, text, begin, end, err);
}

/* ---- added tokens ---- */

typedef struct hit {
    size_t begin, end;
    int32_t id;
} hit;

/* Returns where the character begins that ends at `at`. Bytes that are no UTF-8 count one by one.
 */
static size_t step_back(const unsigned char *p, size_t at, int32_t *c)
{
    for (size_t back = 1; back <= ES_UTF8_MOST && back <= at; back++)
        if (es_utf8_next(p + at - back, back, c) == back && *c >= 0)
            return at - back;
    *c = -1;
    return at - 1;
}

/* Returns whether no letter or digit is next to bytes [begin, end). */
static bool stands_alone(const unsigned char *p, size_t used, size_t begin, size_t end,
                         int32_t previous)
{
    int32_t before = previous, after = -1;
    if (begin > 0)
        step_back(p, begin, &before);
    if (end < used)
        es_utf8_next(p + end, used - end, &after);
    return !(before >= 0 && es_char_word(before)) && !(after >= 0 && es_char_word(after));
}

/* Extends a hit over the white space that its flags include, but not before `from`. */
static void strip(const unsigned char *p, size_t used, size_t from, unsigned char flags, hit *h)
{
    int32_t c;
    while ((flags & ES_ADDED_LSTRIP) && h->begin > from) {
        const size_t at = step_back(p, h->begin, &c);
        if (c < 0 || !es_char_space(c))
            break;
        h->begin = at;
    }
    while ((flags & ES_ADDED_RSTRIP) && h->end < used) {
        const size_t length = es_utf8_next(p + h->end, used - h->end, &c);
        if (c < 0 || !es_char_space(c))
            break;
        h->end += length;
    }
}

/* Returns how far text is certain if no added token begins before `at`: without an incomplete
 * character at the end, and without white space that a token might include. */
static size_t hold_back(const bpe_state *s, const unsigned char *p, size_t used, size_t from,
                        size_t at)
{
    int32_t c;
    for (int back = 0; back < 3 && at > from && at < used && (p[at] & 0xc0) == 0x80; back++)
        at--;
    while (s->bpe->lstrip && at > from) {
        const size_t before = step_back(p, at, &c);
        if (c < 0 || !es_char_space(c))
            break;
        at = before;
    }
    return at;
}

/* Finds the first added token in p[from, used), the longest of those that begin there. If there is
 * none, *clear is how far this is certain: up to where a token might begin that is not complete. */
static bool find_hit(const bpe_state *s, const es_added *set, const unsigned char *p, size_t used,
                     size_t from, int32_t previous, bool last, hit *h, size_t *clear)
{
    const unsigned char *flags = s->bpe->flags;
    const size_t need = last ? 1 : set->longest + ES_UTF8_MOST;
    size_t at = from, length;
    for (; at + need <= used; at += length ? length : 1) {
        length = 0;
        if (!set->first[p[at]])
            continue;
        length = es_trie_longest(&set->trie, ES_TRIE_ROOT, p + at, used - at, &h->id);
        if (!length || ((flags[h->id] & ES_ADDED_SINGLE_WORD) &&
                        !stands_alone(p, used, at, at + length, previous)))
            continue;
        h->begin = at;
        h->end = at + length;
        strip(p, used, from, flags[h->id], h);
        if (last || !(flags[h->id] & ES_ADDED_RSTRIP) || used - h->end >= ES_UTF8_MOST)
            return true;
        *clear = h->begin; /* more white space may follow */
        return false;
    }
    *clear = last ? used : hold_back(s, p, used, from, at);
    return false;
}

/* ---- sections ---- */

/* Sends an added token to the sink. */
static es_status put_added(bpe_state *s, int32_t id, int64_t begin, int64_t end)
{
    const es_token token = {id, begin, end};
    es_stream_put(s->stream, &token, 1);
    return s->stream->status;
}

/* Cuts the words of the section that are certain; all words at its end. */
static es_status run_words(bpe_state *s, bool last, es_error *err)
{
    size_t taken;
    if (!last && s->section.used < s->section_wait)
        return ES_OK;
    ES_TRY(es_splitting_run(&s->splitting, &s->section, last, &taken, err));
    es_aligned_drop(&s->section, taken);
    s->section_wait = taken ? 0 : 2 * s->section.used;
    return ES_OK;
}

/* Splits normalized text at the added tokens that are searched for in it, before it is split into
 * words. */
static es_status run_normal(bpe_state *s, bool last, es_error *err)
{
    es_aligned *all = &s->normal;
    size_t from = 0, clear = 0;
    hit h;
    while (find_hit(s, &s->bpe->normalized, all->bytes, all->used, from, s->normal_previous, last,
                    &h, &clear)) {
        ES_TRY(es_aligned_copy(&s->section, all, from, h.begin, err));
        ES_TRY(run_words(s, true, err));
        ES_TRY(put_added(s, h.id, all->from[h.begin], all->to[h.end - 1]));
        from = h.end;
    }
    ES_TRY(es_aligned_copy(&s->section, all, from, clear, err));
    if (clear)
        step_back(all->bytes, clear, &s->normal_previous);
    es_aligned_drop(all, clear);
    return run_words(s, last, err);
}

/* Tokenizes the text between two added tokens. Added tokens that are matched after
 * normalization need a second pass. */
static es_status run_section(bpe_state *s, bool last, es_error *err)
{
    if (s->bpe->normalized.longest == 0)
        return run_words(s, last, err);
    ES_TRY(run_normal(s, last, err));
    s->normal_previous = last ? -1 : s->normal_previous;
    return ES_OK;
}

/* Turns bytes that are text, not tokens, into characters; invalid ones become U+FFFD. */
static es_status decode(bpe_state *s, const unsigned char *p, size_t bytes, int64_t place,
                        es_aligned *out, es_error *err)
{
    size_t same = 0;
    for (size_t at = 0; at < bytes;) {
        int32_t c = 0;
        const size_t length = p[at] < 0x80 ? 1 : es_utf8_next(p + at, bytes - at, &c);
        if (c < 0) {
            const int64_t from = place + (int64_t)at;
            if (!es_stream_replace(s->stream, from, p[at]))
                return s->stream->status;
            ES_TRY(es_aligned_text(out, p + same, at - same, place + (int64_t)same, err));
            ES_TRY(es_aligned_put(out, "\xef\xbf\xbd", 3, from, from + (int64_t)length, err));
            same = at + length;
        }
        at += length;
    }
    return es_aligned_text(out, p + same, bytes - same, place + (int64_t)same, err);
}

/* Moves bytes raw[from, to) to the section. */
static es_status take_text(bpe_state *s, size_t from, size_t to, es_error *err)
{
    const es_normalizers *n = &s->bpe->normalizers;
    es_aligned *normal = s->bpe->normalized.longest ? &s->normal : &s->section;
    es_aligned *first = n->count ? &s->normalizing.first : normal;
    if (from == to)
        return ES_OK;
    ES_TRY(decode(s, s->raw + from, to - from, s->raw_at + (int64_t)from, first, err));
    if (n->count)
        ES_TRY(es_normalizers_run(n, &s->normalizing, s->fresh, normal, err));
    s->fresh = false;
    return ES_OK;
}

/* Ends the section before an added token, sends the token and begins another section. */
static es_status take_hit(bpe_state *s, size_t from, const hit *h, es_error *err)
{
    ES_TRY(take_text(s, from, h->begin, err));
    ES_TRY(run_section(s, true, err));
    s->fresh = true;
    return put_added(s, h->id, s->raw_at + (int64_t)h->begin, s->raw_at + (int64_t)h->end);
}

/* Removes `count` bytes from the start of the waiting text and remembers the character before
 * the rest, at which patterns may look. */
static void drop_raw(bpe_state *s, size_t count)
{
    if (count == 0)
        return;
    step_back(s->raw, count, &s->previous);
    s->raw_used -= count;
    memmove(s->raw, s->raw + count, s->raw_used);
    s->raw_at += (int64_t)count;
}

/* ---- the stream ---- */

/* Moves on as much of the waiting text as is certain; all of it at the end of the text. */
static es_status advance(bpe_state *s, bool last, es_error *err)
{
    size_t from = 0, clear = 0;
    hit h;
    while (find_hit(s, &s->stream->tokenizer->added, s->raw, s->raw_used, from, s->previous, last,
                    &h, &clear)) {
        ES_TRY(take_hit(s, from, &h, err));
        from = h.end;
    }
    const size_t sure =
        last ? clear - from : es_normalizers_cut(&s->bpe->normalizers, s->raw + from, clear - from);
    ES_TRY(take_text(s, from, from + sure, err));
    ES_TRY(run_section(s, last, err));
    drop_raw(s, from + sure);
    s->raw_wait = from + sure ? 0 : 2 * s->raw_used;
    return ES_OK;
}

/* Allocates the state of a stream: waiting text, normalizers, splitters, the words' cache. */
static es_status bpe_open(es_token_stream *stream, es_error *err)
{
    const es_tokenizer *t = stream->tokenizer;
    es_mem_limit *budget = stream->budget;
    bpe_state *s;
    ES_TRY(ES_MEM_NEW(budget, s, 1, "token stream", err));
    *s = (bpe_state){
        .stream = stream, .bpe = t->bpe, .previous = -1, .normal_previous = -1, .fresh = true};
    stream->state = s;
    ES_TRY(es_matcher_open(budget, &s->matcher, err));
    s->section.budget = s->normal.budget = budget;
    s->normalizing = (es_normalizing){.matcher = s->matcher,
                                      .first = {.budget = budget},
                                      .second = {.budget = budget},
                                      .budget = budget};
    s->splitting = (es_splitting){.chain = &t->bpe->splitters,
                                  .matcher = s->matcher,
                                  .sink = take_words,
                                  .user = s,
                                  .budget = budget};
    s->cutting = (es_cutting){.tokenizer = t, .budget = budget};
    return ES_OK;
}

/* Frees the state of a stream. */
static void bpe_close(es_token_stream *stream)
{
    bpe_state *s = stream->state;
    if (!s)
        return;
    es_mem_free(stream->budget, s->raw);
    es_mem_free(stream->budget, s->tokens);
    es_aligned_free(&s->normal);
    es_aligned_free(&s->section);
    es_normalizing_free(&s->normalizing);
    es_splitting_free(&s->splitting);
    es_cutting_free(&s->cutting);
    es_matcher_close(s->matcher);
    es_mem_free(stream->budget, s);
}

/* Appends text and tokenizes as far as it is certain. Text waits in chunks, so that memory does
 * not grow with the length of the text. */
static void bpe_write(es_token_stream *stream, const unsigned char *p, size_t bytes)
{
    bpe_state *s = stream->state;
    es_error *err = &stream->failure;
    while (bytes && stream->status == ES_OK) {
        const size_t more = bytes < CHUNK ? bytes : CHUNK;
        stream->status = ES_MEM_GROW(stream->budget, s->raw, &s->raw_capacity,
                                     (int64_t)(s->raw_used + more), "text that waits", err);
        if (stream->status != ES_OK)
            return;
        memcpy(s->raw + s->raw_used, p, more);
        s->raw_used += more;
        p += more;
        bytes -= more;
        if (s->raw_used >= CHUNK && s->raw_used >= s->raw_wait)
            stream->status = advance(s, false, err);
    }
}

/* Tokenizes what still waits and resets the stream for the next text. */
static void bpe_finish(es_token_stream *stream)
{
    bpe_state *s = stream->state;
    if (stream->status == ES_OK)
        stream->status = advance(s, true, &stream->failure);
    s->raw_used = s->raw_wait = 0;
    s->raw_at = 0;
    s->previous = -1;
    s->fresh = true;
    s->normal.used = s->section.used = s->section_wait = 0;
    s->normal_previous = -1;
    s->normalizing.first.used = s->normalizing.second.used = 0;
    s->splitting.begun = false;
}

/* Frees the tables of a tokenizer. */
static void bpe_free(es_tokenizer *t)
{
    es_bpe *bpe = t->bpe;
    if (!bpe)
        return;
    es_pair_table_close(&bpe->merges, t->budget);
    es_mem_free(t->budget, bpe->ranks);
    es_unigram_close(bpe->unigram);
    es_mem_free(t->budget, bpe->joints);
    es_normalizers_close(&bpe->normalizers);
    es_splitters_close(&bpe->splitters);
    es_trie_close(&bpe->normalized.trie);
    es_mem_free(t->budget, bpe->flags);
    es_mem_free(t->budget, bpe);
    t->bpe = NULL;
}

/* Allocates the tables of the tokenizer. es_bpe_read() and es_unigram_read() fill what is no list
 * of tokens. */
static es_status bpe_prepare(es_tokenizer *t, const es_vocab_list *list, es_error *err)
{
    if (list->unknown && t->info.unknown < 0)
        return es_fail_file(err, ES_E_FORMAT, list->path, -1, "tokenizer.special",
                            "add it to the vocabulary, or leave unk_token out",
                            "the vocabulary has no token %.64s", list->unknown);
    ES_TRY(ES_MEM_NEW(t->budget, t->bpe, 1, "tokenizer", err));
    ES_TRY(ES_MEM_BYTES(t->budget, t->bpe->joints, (1 << ES_JOINT_BITS) / 8, "tokenizer", err));
    return ES_MEM_BYTES(t->budget, t->bpe->flags, (size_t)t->info.size, "tokenizer", err);
}

const es_token_kind es_kind_bpe = {
    .type = "BPE",
    .sign = "merges",
    .read = es_bpe_read,
    .prepare = bpe_prepare,
    .free = bpe_free,
    .open = bpe_open,
    .write = bpe_write,
    .finish = bpe_finish,
    .close = bpe_close,
};

/* The same stream; only words are cut otherwise. */
const es_token_kind es_kind_unigram = {
    .type = "Unigram",
    .sign = "unk_id",
    .read = es_unigram_read,
    .prepare = bpe_prepare,
    .free = bpe_free,
    .open = bpe_open,
    .write = bpe_write,
    .finish = bpe_finish,
    .close = bpe_close,
};
