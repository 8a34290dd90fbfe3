/* token_stream.c : bytes of a text in, tokens out, in one pass and with bounded memory.
 *
 * take() reads characters and added tokens, normalize() and its helpers turn a character into
 * those of a word, divide() knows where words end, end_word() hands the pieces on. What has to be
 * looked ahead at is bounded: a character, or an added token. So is what must be kept: a word up
 * to max_chars, and combining marks that wait for their order.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "model/tokenizer_inside.h"
#include "model/unicode.h"

/* ---- a word that is being spelt, and the pieces it is cut into ---- */

/* Up to max_chars characters; of a longer word only the place is kept. */
typedef struct word {
    const es_tokenizer *tokenizer;
    unsigned char *bytes; /* in UTF-8, normalized */
    int64_t *begin, *end; /* of each byte: the bytes of the text its character was made from */
    es_token *pieces;
    size_t used;
    int64_t chars, from, to; /* of the text, over the whole word */
    es_budget *budget;
} word;

/* Sized for the longest word that is not unknown; a piece has at least one character, so they fit.
 */
static es_status word_open(word *w, const es_tokenizer *tokenizer, es_budget *budget, es_error *err)
{
    const int64_t chars = tokenizer->info.max_chars;
    *w = (word){.tokenizer = tokenizer, .budget = budget};
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, 1, "word", (void **)&w->bytes, err));
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *w->begin, "word", (void **)&w->begin,
                        err));
    ES_TRY(
        es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *w->end, "word", (void **)&w->end, err));
    return es_mem_array(budget, chars, 1, sizeof *w->pieces, "word", (void **)&w->pieces, err);
}

static void word_close(word *w)
{
    es_mem_free(w->budget, w->bytes);
    es_mem_free(w->budget, w->begin);
    es_mem_free(w->budget, w->end);
    es_mem_free(w->budget, w->pieces);
    *w = (word){0};
}

/* One more character, made from bytes [begin, end) of the text. Marks in canonical order need not
 * come in the order of the text, so a word's place is the least range that holds all of it. */
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

/* Bytes [at, at + length) of the word as a piece, with the least range of the text that holds it.
 */
static es_token place_piece(const word *w, int32_t id, size_t at, size_t length)
{
    es_token piece = {id, w->begin[at], w->end[at]};
    for (size_t i = at + 1; i < at + length; i++) {
        piece.begin = w->begin[i] < piece.begin ? w->begin[i] : piece.begin;
        piece.end = w->end[i] > piece.end ? w->end[i] : piece.end;
    }
    return piece;
}

/* The longest piece first, then the longest of those that continue a word, as WordPiece is defined:
 * a greedy cut may fail where another would not, and the word is then unknown. As many pieces as
 * there are, or -1 if at some place none fits. */
static int64_t cut_greedily(word *w)
{
    const es_tokenizer *t = w->tokenizer;
    int64_t count = 0;
    uint32_t node = ES_TRIE_ROOT;
    for (size_t at = 0; at < w->used; node = t->continuing) {
        int32_t id = 0;
        const size_t length = es_trie_longest(&t->pieces, node, w->bytes + at, w->used - at, &id);
        if (length == 0)
            return -1;
        w->pieces[count++] = place_piece(w, id, at, length);
        at += length;
    }
    return count;
}

/* The pieces of the word, in w->pieces; how many, 0 of no word. The word is then empty. */
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

struct es_token_stream {
    const es_tokenizer *tokenizer;
    es_encode_opts opts;
    es_token_sink sink;
    void *user;
    es_budget *budget;
    word word;
    mark *marks; /* (max_chars) waiting for a starter, in canonical order */
    int64_t marks_count;
    unsigned char *carry; /* (2 ahead) bytes that could not be decided on yet */
    size_t carried, ahead;
    int64_t at;    /* offset of the next byte to be taken */
    int64_t texts; /* finished */
    struct {
        int64_t count, text, at; /* of the first */
    } replaced;
    bool begun;
    es_status status; /* of the text; a failure sticks until it is finished */
    es_error failure;
};

/* A failure of the sink sticks: nothing more is handed on until the text is finished. */
static void end_word(es_token_stream *s)
{
    const int64_t count = word_cut(&s->word);
    if (count && s->status == ES_OK)
        s->status = s->sink(s->user, s->word.pieces, count, &s->failure);
}

/* ---- words ---- */

/* White space divides words, punctuation is a word by itself: BertPreTokenizer. */
static void divide(es_token_stream *s, int32_t c, int64_t begin, int64_t end)
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

/* Lower case comes after accents are gone: of a capital with an accent, its letter is what is
 * lowered. */
static void lower_and_divide(es_token_stream *s, int32_t c, int64_t begin, int64_t end)
{
    int32_t lower[ES_LOWER_MOST] = {c};
    const int count = s->tokenizer->info.lowercase ? es_char_lower(c, lower) : 1;
    for (int i = 0; i < count; i++)
        divide(s, lower[i], begin, end);
}

/* ---- marks in canonical order ---- */

/* A starter ends the run of marks before it: their order is now known. */
static void release_marks(es_token_stream *s)
{
    for (int64_t i = 0; i < s->marks_count; i++)
        lower_and_divide(s, s->marks[i].c, s->marks[i].begin, s->marks[i].end);
    s->marks_count = 0;
}

/* Marks are sorted by class, those of one class stay in order. When there are more than a word can
 * have characters the word is unknown whatever their order, so they need not wait. */
static void hold_mark(es_token_stream *s, mark m)
{
    if (s->marks_count == s->tokenizer->info.max_chars)
        release_marks(s);
    int64_t i = s->marks_count++;
    for (; i > 0 && s->marks[i - 1].class > m.class; i--)
        s->marks[i] = s->marks[i - 1];
    s->marks[i] = m;
}

/* NFD without accents. Leaving accents out first and ordering the rest is the same. */
static void strip_accents(es_token_stream *s, int32_t c, int64_t begin, int64_t end)
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

/* The normalizer, in the order of BertNormalizer: clean, set ideographs apart, strip accents,
 * lower case. Space that it would put around an ideograph is the end of a word here. */
static void normalize(es_token_stream *s, int32_t c, int64_t begin, int64_t end)
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

/* The same for the characters most text is made of. */
static void normalize_ascii(es_token_stream *s, unsigned char c, int64_t at)
{
    const es_tokenizer *t = s->tokenizer;
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

/* An added token is a word of its own whatever surrounds it. */
static void take_added(es_token_stream *s, int32_t id, size_t length)
{
    const es_token token = {id, s->at, s->at + (int64_t)length};
    release_marks(s);
    end_word(s);
    if (s->status == ES_OK)
        s->status = s->sink(s->user, &token, 1, &s->failure);
}

/* The first byte that is no UTF-8 is remembered, for one remark after all text has been read. */
static size_t take_character(es_token_stream *s, const unsigned char *p, size_t bytes)
{
    int32_t c;
    const size_t length = es_utf8_next(p, bytes, &c);
    if (c < 0 && s->replaced.count++ == 0)
        s->replaced.text = s->texts, s->replaced.at = s->at;
    if (c < 0 && s->opts.invalid == ES_TEXT_ERROR)
        s->status = es_fail_file(&s->failure, ES_E_FORMAT, NULL, s->at, "text.utf8",
                                 "convert the text to UTF-8, or ask for replacement",
                                 "byte %lld (0x%02x) is not UTF-8", (long long)s->at, p[0]);
    else
        normalize(s, c < 0 ? 0xfffd : c, s->at, s->at + (int64_t)length);
    return length;
}

/* Take bytes as long as everything that may begin there is in sight: `ahead` bytes, or the end of
 * the text. Returns how many were taken. */
static size_t take(es_token_stream *s, const unsigned char *p, size_t bytes, bool last)
{
    const es_tokenizer *t = s->tokenizer;
    const size_t need = last ? 1 : s->ahead;
    size_t done = 0;
    while (done + need <= bytes && s->status == ES_OK) {
        const unsigned char first = p[done];
        int32_t id;
        size_t length = 1;
        if (t->added_first[first] &&
            (length = es_trie_longest(&t->added, ES_TRIE_ROOT, p + done, bytes - done, &id)) > 0)
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

/* ---- the public face ---- */

/* All memory of a stream is taken here: writing to it never fails for want of any. */
static es_status allocate(es_token_stream *s, es_error *err)
{
    const size_t longest = s->tokenizer->added_longest;
    s->ahead = longest > ES_UTF8_MOST ? longest : ES_UTF8_MOST;
    ES_TRY(word_open(&s->word, s->tokenizer, s->budget, err));
    ES_TRY(es_mem_array(s->budget, s->tokenizer->info.max_chars, 1, sizeof *s->marks, "marks",
                        (void **)&s->marks, err));
    return es_mem_new(s->budget, 2 * s->ahead, "token stream", (void **)&s->carry, err);
}

es_status es_token_stream_open(const es_tokenizer *tokenizer, const es_encode_opts *opts,
                               es_token_sink sink, void *user, es_token_stream **out, es_error *err)
{
    es_budget *budget = opts ? opts->budget : NULL;
    es_token_stream *s;
    if (out)
        *out = NULL;
    if (!tokenizer || !sink || !out)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.stream", "pass a tokenizer and a sink",
                       "no tokenizer, no sink or nowhere to put the stream");
    ES_TRY(es_mem_new(budget, sizeof *s, "token stream", (void **)&s, err));
    *s = (es_token_stream){.tokenizer = tokenizer, .sink = sink, .user = user, .budget = budget};
    if (opts)
        s->opts = *opts;
    const es_status status = allocate(s, err);
    if (status != ES_OK) {
        es_token_stream_close(s);
        return status;
    }
    *out = s;
    return ES_OK;
}

int64_t es_token_stream_replaced(const es_token_stream *s, int64_t *text, int64_t *at)
{
    if (text)
        *text = s->replaced.text;
    if (at)
        *at = s->replaced.at;
    return s->replaced.count;
}

void es_token_stream_close(es_token_stream *stream)
{
    if (!stream)
        return;
    es_budget *budget = stream->budget;
    word_close(&stream->word);
    es_mem_free(budget, stream->marks);
    es_mem_free(budget, stream->carry);
    es_mem_free(budget, stream);
}

static void put_specials(es_token_stream *s, const int32_t *ids, int count)
{
    es_token tokens[ES_TOKENIZER_SPECIALS] = {0};
    for (int i = 0; i < count; i++)
        tokens[i].id = ids[i];
    if (count && !s->opts.no_specials && s->status == ES_OK)
        s->status = s->sink(s->user, tokens, count, &s->failure);
}

/* At the first byte, or at the end of a text without any: specials stand around nothing, too. */
static void begin_text(es_token_stream *s)
{
    const es_tokenizer_info *info = &s->tokenizer->info;
    if (!s->begun)
        put_specials(s, info->prefix, info->prefix_count);
    s->begun = true;
}

static es_status report(const es_token_stream *s, es_error *err)
{
    if (s->status != ES_OK && err)
        *err = s->failure;
    return s->status;
}

/* Bytes that could not be decided on last time are put before the new ones in a small buffer;
 * as soon as these are used up, the new ones are read where they lie. */
es_status es_token_stream_write(es_token_stream *s, const void *data, size_t bytes, es_error *err)
{
    const unsigned char *p = data;
    begin_text(s);
    while (s->carried && bytes && s->status == ES_OK) {
        /* Enough of the new bytes beside the carried ones that all of these can be taken. */
        const size_t room = 2 * s->ahead - s->carried, more = bytes < room ? bytes : room;
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
    if (bytes && s->status == ES_OK) {
        const size_t taken = take(s, p, bytes, false);
        if (s->status == ES_OK) {
            s->carried = bytes - taken;
            memcpy(s->carry, p + taken, s->carried);
        }
    }
    return report(s, err);
}

/* Now that the text is over, everything that waited is decided. The stream is then as new. */
es_status es_token_stream_finish(es_token_stream *s, es_error *err)
{
    const es_tokenizer_info *info = &s->tokenizer->info;
    begin_text(s);
    take(s, s->carry, s->carried, true);
    release_marks(s);
    end_word(s);
    put_specials(s, info->suffix, info->suffix_count);
    const es_status status = report(s, err);
    s->carried = 0;
    s->marks_count = 0;
    s->at = 0;
    s->texts++;
    s->begun = false;
    s->status = ES_OK;
    return status;
}
