/* SPDX-License-Identifier: Apache-2.0 */
#include "text/splitter.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "text/bpe.h"

/* ---- dividing ---- */

/* A step at work on bytes [at, end) of a text. */
typedef struct divider {
    es_splitting *work;
    int next; /* the step that words go to */
    const es_splitter *step;
    const es_aligned *text;
    bool holds, match; /* a part is held, for what comes next may join it; is it a match? */
    size_t from, to;   /* the part */
    size_t taken;      /* up to here words have been handed on */
} divider;

static es_status run_step(es_splitting *work, int i, const es_aligned *text, size_t begin,
                          size_t end, bool fresh, bool last, size_t *taken, es_error *err);

/* Sends bytes [from, to) to the next step. */
static es_status send_part(divider *d, size_t from, size_t to, es_error *err)
{
    size_t taken;
    d->taken = to;
    return run_step(d->work, d->next, d->text, from, to, true, true, &taken, err);
}

/* Sends the part that is held, if any. */
static es_status send_held(divider *d, es_error *err)
{
    if (!d->holds)
        return ES_OK;
    d->holds = false;
    return send_part(d, d->from, d->to, err);
}

/* Holds a part that the next one may extend. */
static void hold(divider *d, size_t from, size_t to, bool match)
{
    d->from = d->holds ? d->from : from;
    d->to = to;
    d->match = match;
    d->holds = true;
}

/* Receives the next part of the text: a match, or the text between two matches. Holds parts that
 * the next one may extend. */
static es_status take_part(divider *d, size_t from, size_t to, bool match, es_error *err)
{
    if (from == to)
        return ES_OK;
    match = match != d->step->invert;
    switch (d->step->behavior) {
    case ES_SPLIT_REMOVED:
        if (match)
            d->taken = to;
        return match ? ES_OK : send_part(d, from, to, err);
    case ES_SPLIT_ISOLATED:
        return send_part(d, from, to, err);
    case ES_SPLIT_MERGED_WITH_PREVIOUS: /* what is held is no match */
        if (d->holds && !match)
            ES_TRY(send_held(d, err));
        hold(d, from, to, match);
        return match ? send_held(d, err) : ES_OK;
    case ES_SPLIT_MERGED_WITH_NEXT: /* what is held is a match */
        if (d->holds && match)
            ES_TRY(send_held(d, err));
        hold(d, from, to, match);
        return match ? ES_OK : send_held(d, err);
    case ES_SPLIT_CONTIGUOUS:
        if (d->holds && d->match != match)
            ES_TRY(send_held(d, err));
        hold(d, from, to, match);
        return ES_OK;
    }
    return ES_OK;
}

/* Divides bytes [begin, end) at the matches of the pattern. If the pattern looks behind, it waits
 * for the whole text, because matched text must stay. */
static es_status divide(divider *d, size_t begin, size_t end, bool last, es_error *err)
{
    const es_pattern *pattern = d->step->pattern;
    size_t at = begin, from = begin, match = 0, stop = 0;
    if (!last && !es_pattern_streams(pattern))
        return ES_OK;
    while (from <= end) {
        es_found found;
        ES_TRY(es_pattern_find(pattern, d->work->matcher, d->text->bytes + begin, end - begin,
                               from - begin, last, &found, &match, &stop, err));
        if (found == ES_FOUND_WAIT || (found == ES_FOUND_NONE && !last))
            return ES_OK; /* a held part waits as well */
        if (found == ES_FOUND_NONE)
            break;
        ES_TRY(take_part(d, at, begin + match, false, err));
        ES_TRY(take_part(d, begin + match, begin + stop, true, err));
        at = from = begin + stop;
        int32_t c;
        if (stop == match) /* an empty match divides, and the search goes on behind a character */
            from += from < end ? es_utf8_next(d->text->bytes + from, end - from, &c) : 1;
    }
    ES_TRY(take_part(d, at, end, false, err));
    return send_held(d, err);
}

/* ---- spelling ---- */

/* Returns whether the text begins with `what`. */
static bool begins_with(const es_aligned *text, size_t begin, size_t end, const char *what)
{
    const size_t length = strlen(what);
    return end - begin >= length && memcmp(text->bytes + begin, what, length) == 0;
}

/* Writes the text in the spelling of this step. *prefix: bytes that were put before it. */
static es_status rewrite(const es_splitter *step, const es_aligned *text, size_t begin, size_t end,
                         bool prefixed, es_aligned *out, size_t *prefix, es_error *err)
{
    const size_t length = strlen(step->space);
    out->used = 0;
    *prefix = 0;
    if (prefixed && end > begin && text->bytes[begin] != ' ' &&
        !begins_with(text, begin, end, step->space)) {
        *prefix = length;
        ES_TRY(es_aligned_put(out, step->space, length, text->from[begin], text->from[begin], err));
    }
    size_t same = begin;
    for (size_t at = begin; at < end; at++)
        if (text->bytes[at] == ' ') {
            ES_TRY(es_aligned_copy(out, text, same, at, err));
            ES_TRY(es_aligned_put(out, step->space, length, text->from[at], text->to[at], err));
            same = at + 1;
        }
    return es_aligned_copy(out, text, same, end, err);
}

/* Returns how many bytes of the text became the first `taken` bytes of the rewritten text. */
static size_t unwritten(const es_splitter *step, const es_aligned *text, size_t begin,
                        size_t prefix, size_t taken)
{
    size_t at = begin;
    for (size_t done = prefix; done < taken; at++)
        done += text->bytes[at] == ' ' ? strlen(step->space) : 1;
    return at - begin;
}

/* ---- bytes as letters ---- */

/* Spells bytes [begin, end) of a text, a letter for each. */
static es_status spell(const es_aligned *text, size_t begin, size_t end, es_aligned *out,
                       es_error *err)
{
    out->used = 0;
    for (size_t at = begin; at < end; at++) {
        unsigned char letter[ES_UTF8_MOST];
        const size_t length = es_utf8_put(es_byte_letter(text->bytes[at]), letter);
        ES_TRY(es_aligned_put(out, letter, length, text->from[at], text->to[at], err));
    }
    return ES_OK;
}

/* Turns letters [begin, end) of a text back into the bytes that they stand for. */
static es_status unspell(const es_aligned *text, size_t begin, size_t end, es_aligned *out,
                         es_error *err)
{
    out->used = 0;
    for (size_t at = begin, length; at < end; at += length) {
        int32_t letter;
        length = es_utf8_next(text->bytes + at, end - at, &letter);
        const unsigned char byte = es_letter_byte(letter);
        ES_TRY(es_aligned_put(out, &byte, 1, text->from[at], text->to[at], err));
    }
    return ES_OK;
}

/* Returns how many letters there are in the first `bytes` bytes of a spelt text. */
static size_t count_letters(const es_aligned *text, size_t bytes)
{
    size_t count = 0;
    for (size_t at = 0; at < bytes; at++)
        count += (text->bytes[at] & 0xc0) != 0x80;
    return count;
}

/* Returns how many bytes of a spelt text its `count` letters from `begin` on have. */
static size_t bytes_of_letters(const es_aligned *text, size_t begin, size_t count)
{
    size_t at = begin;
    int32_t letter;
    for (; count > 0; count--)
        at += es_utf8_next(text->bytes + at, text->used - at, &letter);
    return at - begin;
}

/* ---- the chain ---- */

/* Applies the pattern of step i and passes the parts on to the next step. */
static es_status run_pattern(es_splitting *work, int i, const es_aligned *text, size_t begin,
                             size_t end, bool fresh, bool last, size_t *taken, es_error *err)
{
    const es_splitter *step = &work->chain->steps[i];
    if (!step->pattern)
        return run_step(work, i + 1, text, begin, end, fresh, last, taken, err);
    divider d = {.work = work, .next = i + 1, .step = step, .text = text, .taken = begin};
    ES_TRY(divide(&d, begin, end, last, err));
    *taken = (last ? end : d.taken) - begin;
    return ES_OK;
}

/* Sends a word to the sink, in bytes if it is spelt in letters. A word may consist only of what
 * was put before the text; then no byte of the text is used. */
static es_status run_sink(es_splitting *work, const es_aligned *text, size_t begin, size_t end,
                          bool last, size_t *taken, es_error *err)
{
    const es_aligned *word = text;
    size_t from = begin, to = end;
    if (work->chain->spelt) {
        work->bytes.budget = work->budget;
        ES_TRY(unspell(text, begin, end, &work->bytes, err));
        word = &work->bytes;
        from = 0;
        to = word->used;
    }
    const es_status status = work->sink(work->user, word, from, to, last, taken, err);
    if (work->chain->spelt)
        *taken = bytes_of_letters(text, begin, *taken);
    work->begun = work->begun || *taken;
    return status;
}

/* Applies step i, whose pattern sees letters, to bytes [begin, end) of a text. */
static es_status run_spelt(es_splitting *work, int i, const es_aligned *text, size_t begin,
                           size_t end, bool fresh, bool last, size_t *taken, es_error *err)
{
    es_aligned *out = &work->rewritten[i];
    size_t done;
    out->budget = work->budget;
    ES_TRY(spell(text, begin, end, out, err));
    ES_TRY(run_pattern(work, i, out, 0, out->used, fresh, last, &done, err));
    *taken = count_letters(out, done);
    return ES_OK;
}

/* Applies step i of the splitters to a stretch of text, and the sink after the last step. */
static es_status run_step(es_splitting *work, int i, const es_aligned *text, size_t begin,
                          size_t end, bool fresh, bool last, size_t *taken, es_error *err)
{
    *taken = 0;
    if (end == begin)
        return ES_OK;
    if (i == work->chain->count)
        return run_sink(work, text, begin, end, last, taken, err);
    const es_splitter *step = &work->chain->steps[i];
    if (step->spells)
        return run_spelt(work, i, text, begin, end, fresh, last, taken, err);
    if (!step->space[0])
        return run_pattern(work, i, text, begin, end, fresh, last, taken, err);
    es_aligned *out = &work->rewritten[i];
    const bool prefixed = fresh && (step->prefix == ES_PREFIX_ALWAYS ||
                                    (step->prefix == ES_PREFIX_FIRST && text->from[begin] == 0));
    size_t prefix, done;
    out->budget = work->budget;
    ES_TRY(rewrite(step, text, begin, end, prefixed, out, &prefix, err));
    ES_TRY(run_pattern(work, i, out, 0, out->used, fresh, last, &done, err));
    *taken = last ? end - begin : unwritten(step, text, begin, prefix, done);
    return ES_OK;
}

es_status es_splitting_run(es_splitting *work, const es_aligned *text, bool last, size_t *taken,
                           es_error *err)
{
    const es_status status = run_step(work, 0, text, 0, text->used, !work->begun, last, taken, err);
    work->begun = !last && (work->begun || *taken);
    return status;
}

void es_splitting_free(es_splitting *work)
{
    for (int i = 0; i < ES_SPLITTERS_MOST; i++)
        es_aligned_free(&work->rewritten[i]);
    es_aligned_free(&work->bytes);
}

/* ---- kinds ---- */

/* Returns the step that is being read. */
static es_splitter *current(es_splitters *p) { return &p->steps[p->count - 1]; }

/* GPT-2's words: contractions, letters, digits and signs, each with the space before it. */
static const char gpt2_words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                                 "|\\s+(?!\\S)|\\s+";

/* Reads a ByteLevel step: whether a space is put before the text, and whether GPT-2's pattern
 * splits words. */
static es_status read_byte_level(es_splitters *p, const es_settings *s, const json_t *part,
                                 es_error *err)
{
    es_splitter *step = current(p);
    bool prefix = true, regex = true;
    ES_TRY(es_settings_bool(s, part, "add_prefix_space", &prefix, err));
    ES_TRY(es_settings_bool(s, part, "use_regex", &regex, err));
    p->byte_level = true;
    if (prefix) {
        step->prefix = ES_PREFIX_ALWAYS;
        strcpy(step->space, " ");
    }
    step->behavior = ES_SPLIT_ISOLATED;
    return regex ? es_pattern_open(gpt2_words, false, s->path, p->budget, &step->pattern, err)
                 : ES_OK;
}

/* Reads the "behavior" of a step, which says what becomes of the pattern's matches. A step without
 * one keeps the value it has. */
static es_status read_behavior(es_splitters *p, const es_settings *s, const json_t *part,
                               es_error *err)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *behavior = names[current(p)->behavior];
    ES_TRY(es_settings_text(s, part, "behavior", &behavior, err));
    for (int i = ES_SPLIT_REMOVED; i <= ES_SPLIT_CONTIGUOUS; i++)
        if (strcmp(behavior, names[i]) == 0) {
            current(p)->behavior = (es_split_behavior)i;
            return ES_OK;
        }
    return es_settings_refuse(s, "tokenizer.pretokenizer", "the behavior of a pre-tokenizer",
                              behavior,
                              "Removed, Isolated, MergedWithPrevious, MergedWithNext and "
                              "Contiguous are built in",
                              err);
}

/* Reads a Split step: pattern, and what becomes of its matches. */
static es_status read_split(es_splitters *p, const es_settings *s, const json_t *part,
                            es_error *err)
{
    es_splitter *step = current(p);
    const json_t *behavior = json_object_get(part, "behavior");
    bool single;
    if (!behavior || json_is_null(behavior))
        return es_settings_refuse(s, "tokenizer.pretokenizer", "the behavior of Split", NULL,
                                  "Split needs a behavior, for example Isolated", err);
    ES_TRY(read_behavior(p, s, part, err));
    ES_TRY(es_settings_bool(s, part, "invert", &step->invert, err));
    return es_settings_pattern(s, part, p->budget, &step->pattern, &single, err);
}

/* Reads a Punctuation step: P of Unicode, and every ASCII sign. */
static es_status read_punctuation(es_splitters *p, const es_settings *s, const json_t *part,
                                  es_error *err)
{
    current(p)->behavior = ES_SPLIT_ISOLATED;
    ES_TRY(read_behavior(p, s, part, err));
    return es_pattern_open("[\\p{P}$+<=>^`|~]", false, s->path, p->budget, &current(p)->pattern,
                           err);
}

/* Reads a WhitespaceSplit step: white space divides words and is left out. */
static es_status read_whitespace(es_splitters *p, const es_settings *s, const json_t *part,
                                 es_error *err)
{
    (void)part;
    current(p)->behavior = ES_SPLIT_REMOVED;
    return es_pattern_open("\\s", false, s->path, p->budget, &current(p)->pattern, err);
}

/* Digits, and whatever else Unicode counts as a number. */
static es_status read_digits(es_splitters *p, const es_settings *s, const json_t *part,
                             es_error *err)
{
    bool individual = false;
    ES_TRY(es_settings_bool(s, part, "individual_digits", &individual, err));
    current(p)->behavior = individual ? ES_SPLIT_ISOLATED : ES_SPLIT_CONTIGUOUS;
    return es_pattern_open("\\p{N}", false, s->path, p->budget, &current(p)->pattern, err);
}

/* Reads Metaspace. Older files have add_prefix_space, true or false; newer ones prepend_scheme. */
static es_status read_metaspace(es_splitters *p, const es_settings *s, const json_t *part,
                                es_error *err)
{
    static const char *const names[] = {"never", "first", "always"};
    es_splitter *step = current(p);
    const char *space = "\xe2\x96\x81", *scheme = NULL;
    bool prefix = true, split = true, known = false;
    ES_TRY(es_settings_text(s, part, "replacement", &space, err));
    ES_TRY(es_settings_text(s, part, "prepend_scheme", &scheme, err));
    ES_TRY(es_settings_bool(s, part, "add_prefix_space", &prefix, err));
    ES_TRY(es_settings_bool(s, part, "split", &split, err));
    scheme = scheme ? scheme : names[prefix ? ES_PREFIX_ALWAYS : ES_PREFIX_NEVER];
    for (int i = ES_PREFIX_NEVER; i <= ES_PREFIX_ALWAYS; i++)
        if (strcmp(scheme, names[i]) == 0)
            step->prefix = (es_split_prefix)i, known = true;
    if (!known)
        return es_settings_refuse(s, "tokenizer.pretokenizer", "the prepend_scheme of Metaspace",
                                  scheme, "always, first and never are built in", err);
    if (!*space || strlen(space) > ES_UTF8_MOST)
        return es_settings_fail(s, "replacement", "one character", err);
    strcpy(step->space, space);
    step->behavior = ES_SPLIT_MERGED_WITH_NEXT;
    return split ? es_pattern_open(space, true, s->path, p->budget, &step->pattern, err) : ES_OK;
}

static const struct {
    const char *type;
    es_status (*read)(es_splitters *p, const es_settings *s, const json_t *part, es_error *err);
} kinds[] = {{"ByteLevel", read_byte_level},
             {"Split", read_split},
             {"Digits", read_digits},
             {"Punctuation", read_punctuation},
             {"WhitespaceSplit", read_whitespace},
             {"Metaspace", read_metaspace}};

/* Reads one step by its type. Behind ByteLevel a text is spelt in another alphabet, one letter for
 * each byte, and patterns see that: Falcon divides numbers there. */
static es_status read_step(es_splitters *p, const es_settings *s, const json_t *part, es_error *err)
{
    const char *found = es_settings_type(part);
    const bool rewrites = es_settings_is(part, "ByteLevel") || es_settings_is(part, "Metaspace");
    if (p->byte_level && rewrites)
        found = "one that changes spaces behind ByteLevel";
    else if (p->count == ES_SPLITTERS_MOST)
        found = "one of more than 16";
    else
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (es_settings_is(part, kinds[i].type)) {
                p->steps[p->count++] = (es_splitter){.spells = p->byte_level && !p->spelt};
                p->spelt = p->byte_level;
                return kinds[i].read(p, s, part, err);
            }
    return es_settings_refuse(s, "tokenizer.pretokenizer", "a pre-tokenizer", found,
                              "ByteLevel, Split, Digits, Punctuation, WhitespaceSplit, Metaspace "
                              "and a Sequence of them are built in",
                              err);
}

es_status es_splitters_read(es_splitters *p, const es_settings *s, es_error *err)
{
    const json_t *part = json_object_get(s->root, "pre_tokenizer");
    *p = (es_splitters){.budget = s->budget};
    if (!part || json_is_null(part))
        return ES_OK;
    if (!es_settings_is(part, "Sequence"))
        return read_step(p, s, part, err);
    const json_t *list = json_object_get(part, "pretokenizers");
    if (!json_is_array(list))
        return es_settings_fail(s, "pre_tokenizer.pretokenizers", "a list", err);
    for (size_t i = 0; i < json_array_size(list); i++)
        ES_TRY(read_step(p, s, json_array_get(list, i), err));
    return ES_OK;
}

void es_splitters_close(es_splitters *p)
{
    for (int i = 0; i < p->count; i++)
        es_pattern_close(p->steps[i].pattern);
    *p = (es_splitters){0};
}
