/* SPDX-License-Identifier: Apache-2.0 */
#include "text/normalizer.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"

/* ---- text with places ---- */

/* Makes space for `more` bytes. */
static es_status allocate(es_aligned *a, size_t more, es_error *err)
{
    const int64_t needed = (int64_t)(a->used + more);
    if (needed <= a->to_capacity) /* the last of the three to grow */
        return ES_OK;
    ES_TRY(ES_MEM_GROW(a->budget, a->bytes, &a->bytes_capacity, needed, "text", err));
    ES_TRY(ES_MEM_GROW(a->budget, a->from, &a->from_capacity, needed, "places of text", err));
    return ES_MEM_GROW(a->budget, a->to, &a->to_capacity, needed, "places of text", err);
}

es_status es_aligned_put(es_aligned *a, const void *bytes, size_t count, int64_t from, int64_t to,
                         es_error *err)
{
    if (count == 0)
        return ES_OK;
    ES_TRY(allocate(a, count, err));
    memcpy(a->bytes + a->used, bytes, count);
    for (size_t i = a->used; i < a->used + count; i++)
        a->from[i] = from, a->to[i] = to;
    a->used += count;
    return ES_OK;
}

es_status es_aligned_text(es_aligned *a, const unsigned char *bytes, size_t count, int64_t at,
                          es_error *err)
{
    if (count == 0)
        return ES_OK;
    ES_TRY(allocate(a, count, err));
    memcpy(a->bytes + a->used, bytes, count);
    int64_t *from = a->from + a->used, *to = a->to + a->used;
    for (size_t i = 0; i < count; i++)
        from[i] = at + (int64_t)i, to[i] = at + (int64_t)i + 1;
    a->used += count;
    return ES_OK;
}

es_status es_aligned_copy(es_aligned *a, const es_aligned *b, size_t begin, size_t end,
                          es_error *err)
{
    const size_t count = end - begin;
    if (count == 0)
        return ES_OK;
    ES_TRY(allocate(a, count, err));
    memcpy(a->bytes + a->used, b->bytes + begin, count);
    memcpy(a->from + a->used, b->from + begin, count * sizeof *a->from);
    memcpy(a->to + a->used, b->to + begin, count * sizeof *a->to);
    a->used += count;
    return ES_OK;
}

void es_aligned_drop(es_aligned *a, size_t count)
{
    const size_t left = a->used - count;
    if (left && count) {
        memmove(a->bytes, a->bytes + count, left);
        memmove(a->from, a->from + count, left * sizeof *a->from);
        memmove(a->to, a->to + count, left * sizeof *a->to);
    }
    a->used = left;
}

void es_aligned_free(es_aligned *a)
{
    es_mem_free(a->budget, a->bytes);
    es_mem_free(a->budget, a->from);
    es_mem_free(a->budget, a->to);
    *a = (es_aligned){0};
}

/* ---- NFC and NFKC ---- */

/* Returns whether a character stays what it is if nothing follows that composes with it. */
static bool stays(int32_t c, bool compatible)
{
    int32_t parts[ES_DECOMPOSE_MOST], more[ES_COMPATIBLE_MOST];
    if (!es_char_composed(c))
        return false;
    if (!compatible || c < 0x80)
        return true;
    const int count = es_char_decompose(c, parts);
    return es_char_compatible(c, more) == count &&
           memcmp(parts, more, (size_t)count * sizeof *parts) == 0;
}

/* Returns the end of the run that begins at `at`: the next character that never composes with
 * characters before it. *plain: the run is one character that does not change. */
static size_t find_run(const es_aligned *in, size_t at, bool compatible, bool *plain)
{
    int32_t c;
    size_t end = at + es_utf8_next(in->bytes + at, in->used - at, &c);
    const size_t first = end;
    *plain = stays(c, compatible);
    while (end < in->used) {
        const size_t length = es_utf8_next(in->bytes + end, in->used - end, &c);
        if (es_char_boundary(c))
            break;
        end += length;
    }
    *plain = *plain && end == first;
    return end;
}

/* Orders and composes the characters of a run. Each result is mapped to the whole run, because it
 * is not tracked which character became which. */
static es_status compose_run(es_normalizing *work, const es_aligned *in, size_t begin, size_t end,
                             bool compatible, es_aligned *out, es_error *err)
{
    int64_t count = 0;
    for (size_t at = begin; at < end;) {
        int32_t c;
        at += es_utf8_next(in->bytes + at, end - at, &c);
        ES_TRY(ES_MEM_GROW(work->budget, work->run, &work->run_capacity,
                           2 * (count + ES_COMPATIBLE_MOST), "characters", err));
        count += compatible ? es_char_compatible(c, work->run + count)
                            : es_char_decompose(c, work->run + count);
    }
    count = es_text_compose(work->run, count, work->run + count);
    for (int64_t i = 0; i < count; i++) {
        unsigned char bytes[ES_UTF8_MOST];
        const size_t length = es_utf8_put(work->run[i], bytes);
        ES_TRY(es_aligned_put(out, bytes, length, in->from[begin], in->to[end - 1], err));
    }
    return ES_OK;
}

/* Composes characters, after replacing compatible ones (U+FB01 by "fi") if asked to. Runs that are
 * composed already are copied as they are, which is nearly all text. */
static es_status run_composed(es_normalizing *work, const es_aligned *in, bool compatible,
                              es_aligned *out, es_error *err)
{
    size_t same = 0; /* bytes from here on are copied as they are */
    for (size_t at = 0; at < in->used;) {
        bool plain;
        const size_t end = find_run(in, at, compatible, &plain);
        if (!plain) {
            ES_TRY(es_aligned_copy(out, in, same, at, err));
            ES_TRY(compose_run(work, in, at, end, compatible, out, err));
            same = end;
        }
        at = end;
    }
    return es_aligned_copy(out, in, same, in->used, err);
}

/* Composes characters (NFC). */
static es_status run_nfc(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                         bool fresh, es_aligned *out, es_error *err)
{
    (void)step, (void)fresh;
    return run_composed(work, in, false, out, err);
}

/* Composes characters after replacing compatible ones (NFKC). */
static es_status run_nfkc(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                          bool fresh, es_aligned *out, es_error *err)
{
    (void)step, (void)fresh;
    return run_composed(work, in, true, out, err);
}

/* ---- Precompiled ---- */

/* Replaces bytes [*at, end) of a text if the table has a string that they begin with, the shortest,
 * and returns whether it has; bytes from *same on, which stay as they are, are copied first. */
static es_status replace_part(const es_charsmap *map, const es_aligned *in, size_t at, size_t end,
                              size_t *same, bool *found, es_aligned *out, es_error *err)
{
    const char *text = es_charsmap_find(map, in->bytes + at, end - at);
    *found = text != NULL;
    if (!text)
        return ES_OK;
    ES_TRY(es_aligned_copy(out, in, *same, at, err));
    *same = end;
    return es_aligned_put(out, text, strlen(text), in->from[at], in->to[end - 1], err);
}

/* Replaces what the table of SentencePiece has, in the manner of Hugging Face's library: a grapheme
 * cluster of less than six bytes as a whole, even if the table's string is only its beginning; else
 * character by character. SentencePiece itself takes the longest string at each place. */
static es_status run_precompiled(const es_normalizer *step, es_normalizing *work,
                                 const es_aligned *in, bool fresh, es_aligned *out, es_error *err)
{
    enum { WHOLE_BELOW = 6 };
    (void)work, (void)fresh;
    size_t same = 0;
    for (size_t at = 0; at < in->used;) {
        const size_t end = at + es_grapheme_next(in->bytes + at, in->used - at);
        bool found = false;
        if (end - at < WHOLE_BELOW)
            ES_TRY(replace_part(&step->map, in, at, end, &same, &found, out, err));
        while (!found && at < end) {
            int32_t c;
            bool ignored;
            const size_t length = es_utf8_next(in->bytes + at, end - at, &c);
            ES_TRY(replace_part(&step->map, in, at, at + length, &same, &ignored, out, err));
            at += length;
        }
        at = end;
    }
    return es_aligned_copy(out, in, same, in->used, err);
}

/* ---- Strip ---- */

/* Takes white space away from the beginning and the end of a text. */
static es_status run_strip(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                           bool fresh, es_aligned *out, es_error *err)
{
    (void)work, (void)fresh;
    size_t begin = 0, end = 0;
    bool inside = !step->at_begin;
    for (size_t at = 0; at < in->used;) {
        int32_t c;
        const size_t length = es_utf8_next(in->bytes + at, in->used - at, &c);
        const bool space = es_char_space(c);
        begin = inside || !space ? begin : at + length;
        inside = inside || !space;
        at += length;
        end = step->at_end && space ? end : at;
    }
    return es_aligned_copy(out, in, begin, end > begin ? end : begin, err);
}

/* ---- Prepend and Replace ---- */

/* Puts a text before the first character. */
static es_status run_prepend(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                             bool fresh, es_aligned *out, es_error *err)
{
    (void)work;
    if (fresh && in->used)
        ES_TRY(es_aligned_put(out, step->text, strlen(step->text), in->from[0], in->from[0], err));
    return es_aligned_copy(out, in, 0, in->used, err);
}

/* Replaces the matches of a pattern. After an empty match the next character is copied. */
static es_status run_replace(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                             bool fresh, es_aligned *out, es_error *err)
{
    (void)fresh;
    const size_t length = strlen(step->text);
    size_t copied = 0, from = 0, begin = 0, end = 0;
    while (from <= in->used) {
        es_found found;
        ES_TRY(es_pattern_find(step->pattern, work->matcher, in->bytes, in->used, from, true,
                               &found, &begin, &end, err));
        if (found != ES_FOUND_MATCH)
            break;
        ES_TRY(es_aligned_copy(out, in, copied, begin, err));
        const int64_t place = begin < in->used ? in->from[begin] : in->to[in->used - 1];
        ES_TRY(es_aligned_put(out, step->text, length, place, end > begin ? in->to[end - 1] : place,
                              err));
        copied = end;
        int32_t c;
        from = end > begin      ? end
               : end < in->used ? end + es_utf8_next(in->bytes + end, in->used - end, &c)
                                : in->used + 1;
    }
    return es_aligned_copy(out, in, copied, in->used, err);
}

/* ---- kinds ---- */

/* One step by the "type" it has in a tokenizer.json. */
struct es_normalizer_kind {
    const char *type;
    es_status (*read)(es_normalizers *n, const es_settings *s, const json_t *part, es_error *err);
    es_status (*run)(const es_normalizer *step, es_normalizing *work, const es_aligned *in,
                     bool fresh, es_aligned *out, es_error *err);
    bool looks_ahead; /* what a character becomes depends on the next ones */
};

/* Returns the step that is being read. */
static es_normalizer *current(es_normalizers *n) { return &n->steps[n->count - 1]; }

/* Copies a text into the current step. */
static es_status keep_text(es_normalizers *n, const char *text, es_error *err)
{
    return es_mem_text(n->budget, text, "normalizer", &current(n)->text, err);
}

/* Reads a step NFC or NFKC, which must be the first: where a text may be cut is known only for
 * characters as they are written. */
static es_status read_nfc(es_normalizers *n, const es_settings *s, const json_t *part,
                          es_error *err)
{
    (void)s, (void)part, (void)err;
    n->whole = n->whole || n->count > 1;
    return ES_OK;
}

/* Reads a table of replacements by SentencePiece. */
static es_status read_precompiled(es_normalizers *n, const es_settings *s, const json_t *part,
                                  es_error *err)
{
    const char *map = NULL;
    n->whole = n->whole || n->count > 1;
    ES_TRY(es_settings_text(s, part, "precompiled_charsmap", &map, err));
    if (!map)
        return es_settings_fail(s, "normalizer.precompiled_charsmap", "there", err);
    return es_charsmap_open(&current(n)->map, map, s->path, n->budget, err);
}

/* Reads a step that strips white space. It needs the whole text, because the end of the text must
 * be known. */
static es_status read_strip(es_normalizers *n, const es_settings *s, const json_t *part,
                            es_error *err)
{
    es_normalizer *step = current(n);
    step->at_begin = step->at_end = n->whole = true;
    ES_TRY(es_settings_bool(s, part, "strip_left", &step->at_begin, err));
    return es_settings_bool(s, part, "strip_right", &step->at_end, err);
}

/* Reads the text that a Prepend step puts before every text. */
static es_status read_prepend(es_normalizers *n, const es_settings *s, const json_t *part,
                              es_error *err)
{
    const char *text = NULL;
    ES_TRY(es_settings_text(s, part, "prepend", &text, err));
    if (!text)
        return es_settings_fail(s, "normalizer.prepend", "there", err);
    return keep_text(n, text, err);
}

/* The splitters have such a key, too. */
es_status es_settings_pattern(const es_settings *s, const json_t *part, es_mem_limit *budget,
                              es_pattern **out, bool *single, es_error *err)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *literal = NULL, *regex = NULL;
    ES_TRY(es_settings_text(s, pattern, "String", &literal, err));
    ES_TRY(es_settings_text(s, pattern, "Regex", &regex, err));
    if (!literal == !regex)
        return es_settings_fail(s, "pattern", "a String or a Regex", err);
    int32_t c;
    *single = literal && *literal &&
              es_utf8_next((const unsigned char *)literal, strlen(literal), &c) == strlen(literal);
    return es_pattern_open(literal ? literal : regex, literal != NULL, s->path, budget, out, err);
}

/* Reads pattern and content of a Replace step. A pattern longer than one character may match
 * across the end of what has been read, so that the text must then be normalized as a whole. */
static es_status read_replace(es_normalizers *n, const es_settings *s, const json_t *part,
                              es_error *err)
{
    const char *content = NULL;
    bool single = false;
    ES_TRY(es_settings_text(s, part, "content", &content, err));
    if (!content)
        return es_settings_fail(s, "normalizer.content", "there", err);
    ES_TRY(es_settings_pattern(s, part, n->budget, &current(n)->pattern, &single, err));
    n->whole = n->whole || !single; /* a match may lie across the cut */
    return keep_text(n, content, err);
}

static const es_normalizer_kind kinds[] = {{"NFC", read_nfc, run_nfc, true},
                                           {"NFKC", read_nfc, run_nfkc, true},
                                           {"Precompiled", read_precompiled, run_precompiled, true},
                                           {"Strip", read_strip, run_strip, false},
                                           {"Prepend", read_prepend, run_prepend, false},
                                           {"Replace", read_replace, run_replace, false}};

/* Reads one step of the normalizer by its type. */
static es_status read_step(es_normalizers *n, const es_settings *s, const json_t *part,
                           es_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (es_settings_is(part, kinds[i].type)) {
            if (n->count == ES_NORMALIZERS_MOST)
                break;
            n->steps[n->count++].kind = &kinds[i];
            return kinds[i].read(n, s, part, err);
        }
    return es_settings_refuse(
        s, "tokenizer.normalizer", "a normalizer",
        n->count == ES_NORMALIZERS_MOST ? "one of more than 16" : es_settings_type(part),
        "NFC, NFKC, Precompiled, Strip, Prepend, Replace and a Sequence of them "
        "are built in",
        err);
}

es_status es_normalizers_read(es_normalizers *n, const es_settings *s, es_error *err)
{
    const json_t *part = json_object_get(s->root, "normalizer");
    *n = (es_normalizers){.budget = s->budget};
    if (!part || json_is_null(part))
        return ES_OK;
    if (!es_settings_is(part, "Sequence"))
        return read_step(n, s, part, err);
    const json_t *list = json_object_get(part, "normalizers");
    if (!json_is_array(list))
        return es_settings_fail(s, "normalizer.normalizers", "a list", err);
    for (size_t i = 0; i < json_array_size(list); i++)
        ES_TRY(read_step(n, s, json_array_get(list, i), err));
    return ES_OK;
}

void es_normalizers_close(es_normalizers *n)
{
    for (int i = 0; i < n->count; i++) {
        es_pattern_close(n->steps[i].pattern);
        es_mem_free(n->budget, n->steps[i].text);
        es_charsmap_close(&n->steps[i].map);
    }
    *n = (es_normalizers){0};
}

/* ---- running them ---- */

void es_normalizing_free(es_normalizing *work)
{
    es_aligned_free(&work->first);
    es_aligned_free(&work->second);
    es_mem_free(work->budget, work->run);
    work->run = NULL;
}

/* Returns whether a text may be cut before `right`, by the step that sees it first. */
static bool divides(const es_normalizer *first, const unsigned char *text, size_t at, int32_t right)
{
    int32_t left;
    if (first->kind->run != run_precompiled)
        return es_char_boundary(right);
    size_t before = at;
    while (before > 0 && (text[--before] & 0xc0) == 0x80)
        ;
    return before < at && es_utf8_next(text + before, at - before, &left) == at - before &&
           left >= 0 && es_grapheme_apart(left, right);
}

/* Without composition and clusters any character ends a part; with them, one that a boundary
 * follows. */
size_t es_normalizers_cut(const es_normalizers *n, const unsigned char *text, size_t bytes)
{
    if (n->whole)
        return 0;
    if (n->count == 0 || !n->steps[0].kind->looks_ahead)
        return bytes;
    for (size_t at = bytes; at-- > 0;) {
        int32_t c;
        if ((text[at] & 0xc0) == 0x80)
            continue;
        es_utf8_next(text + at, bytes - at, &c);
        if (c >= 0 && divides(&n->steps[0], text, at, c))
            return at;
    }
    return 0;
}

/* Texts between steps go to and fro between two buffers. */
es_status es_normalizers_run(const es_normalizers *n, es_normalizing *work, bool fresh,
                             es_aligned *out, es_error *err)
{
    es_aligned *in = &work->first, *next = &work->second;
    if (in->used == 0)
        return ES_OK;
    for (int i = 0; i < n->count; i++) {
        const es_normalizer *step = &n->steps[i];
        es_aligned *to = i + 1 == n->count ? out : next;
        ES_TRY(step->kind->run(step, work, in, fresh, to, err));
        in->used = 0;
        next = in;
        in = to;
    }
    const es_status status = n->count ? ES_OK : es_aligned_copy(out, in, 0, in->used, err);
    work->first.used = work->second.used = 0;
    return status;
}
