/* SPDX-License-Identifier: Apache-2.0 */
/* text_blocks.c : texts become blocks of token ids between what the tokenizer puts around each:
 * [CLS] ... [SEP], <s> ..., <|endoftext|> ... */
#include "text/blocks.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "text/text_even.h"
#include "text/text_shuffle.h"
#include "store/file.h"

/* Ids and starts that grow, and the block being filled. */
typedef struct cutter {
    const es_blocks_spec *spec;
    es_tokenizer_info info;
    es_blocks *out;
    int64_t ids_capacity, starts_capacity, bytes_capacity;
    int64_t end;          /* bytes of the text that tokens have been taken from */
    bool open;            /* a block has been begun */
    bool full;            /* as many as were wanted */
    es_text_units *units; /* to be shuffled; NULL: none */

    /* blocks that are taken evenly: */
    bool counting;  /* tokens are only counted */
    int64_t text;   /* number of the text that is read */
    int64_t passed; /* tokens of it so far */
    int64_t *whole; /* (n_texts + 1) whole blocks of the texts before */
    int64_t wanted; /* blocks to take; 0: all from the start on */
} cutter;

/* Specials count as tokens of a block, for they are: keys and queries like any other. */
static int64_t specials_of(const es_tokenizer_info *info)
{
    return info->prefix_count + info->suffix_count;
}

/* Returns the number of ids in all blocks. */
static int64_t ids_count(const es_blocks *b) { return b->start[b->count]; }

/* Appends an id to the open block: start[count + 1] grows with it, and is where the next block
 * begins. */
static es_status push(cutter *c, int32_t id, es_error *err)
{
    es_blocks *b = c->out;
    int64_t *end = &b->start[b->count + 1];
    ES_TRY(ES_MEM_GROW(b->budget, b->ids, &c->ids_capacity, *end + 1, "token ids", err));
    b->ids[(*end)++] = id;
    return ES_OK;
}

/* Returns the most ids that a block which begins now may have. */
static int64_t scratch_of_block(const cutter *c)
{
    const int64_t left = c->spec->tokens - ids_count(c->out);
    return c->spec->tokens && left < c->spec->length ? left : c->spec->length;
}

/* Begins a block. The last one may be shorter, to end at the number of tokens that is wanted; a
 * block of special tokens alone is not begun. */
static es_status begin_block(cutter *c, es_error *err)
{
    es_blocks *b = c->out;
    if (scratch_of_block(c) <= specials_of(&c->info) ||
        (c->spec->most && b->count == c->spec->most)) {
        c->full = true;
        return ES_OK;
    }
    ES_TRY(ES_MEM_GROW(b->budget, b->start, &c->starts_capacity, b->count + 3, "blocks", err));
    if (c->spec->running)
        ES_TRY(ES_MEM_GROW(b->budget, b->bytes, &c->bytes_capacity, b->count + 1, "blocks", err));
    b->start[b->count + 1] = b->start[b->count];
    c->open = true;
    for (int i = 0; i < c->info.prefix_count; i++)
        ES_TRY(push(c, c->info.prefix[i], err));
    return ES_OK;
}

/* Ends the current block with the suffix of special tokens. */
static es_status end_block(cutter *c, es_error *err)
{
    if (!c->open)
        return ES_OK;
    for (int i = 0; i < c->info.suffix_count; i++)
        ES_TRY(push(c, c->info.suffix[i], err));
    c->out->count++;
    c->open = false;
    return ES_OK;
}

/* Counts for a token the bytes from the end of the previous one to its own end. No byte is
 * counted twice, even of a character of several tokens, and none is left out. */
static void count_bytes(cutter *c, const es_token *token)
{
    es_blocks *b = c->out;
    const int64_t end = token->end > c->end ? token->end : c->end;
    if (b->bytes && b->start[b->count + 1] > b->start[b->count])
        b->bytes[b->count] += end - c->end;
    c->end = end;
}

/* ---- blocks taken evenly ---- */

/* Returns the tokens of text in a whole block. */
static int64_t tokens_of_block(const cutter *c) { return c->spec->length - specials_of(&c->info); }

/* Returns the number of whole blocks of all texts. */
static int64_t whole_blocks(const cutter *c) { return c->whole[c->spec->n_texts]; }

/* Returns whether the next token belongs to a block that is wanted. A rest at the end of a text is
 * in no whole block. */
static bool is_wanted(const cutter *c)
{
    const int64_t block = c->whole[c->text] + c->passed / tokens_of_block(c);
    return block < c->whole[c->text + 1] &&
           block == es_even_block(c->out->count, c->wanted, whole_blocks(c));
}

/* Passes over a token of a block that is not wanted. What follows is no continuation of what was
 * taken before. */
static void skip(cutter *c, const es_token *token)
{
    c->end = token->end > c->end ? token->end : c->end;
    if (c->units)
        c->units->begins = true;
}

/* Receives tokens word by word. Blocks are cut between tokens, within a word if necessary, as
 * when a context is filled. */
static es_status take(void *user, const es_token *tokens, int64_t count, es_error *err)
{
    cutter *c = user;
    if (c->counting) {
        c->passed += count;
        return ES_OK;
    }
    if (c->units)
        es_text_units_word(c->units, tokens, count);
    for (int64_t i = 0; i < count && !c->full; i++, c->passed++) {
        c->full = c->wanted && c->out->count == c->wanted;
        if (c->full)
            break;
        if (c->wanted && !is_wanted(c)) {
            skip(c, &tokens[i]);
            continue;
        }
        if (!c->open)
            ES_TRY(begin_block(c, err));
        if (c->full)
            break;
        count_bytes(c, &tokens[i]);
        ES_TRY(push(c, tokens[i].id, err));
        if (c->units)
            ES_TRY(es_text_units_token(c->units, err));
        const es_blocks *b = c->out;
        const int64_t used = b->start[b->count + 1] - b->start[b->count];
        if (used + c->info.suffix_count == scratch_of_block(c))
            ES_TRY(end_block(c, err));
    }
    return ES_OK;
}

/* ---- files ---- */

/* Fails if more bytes of this file were replaced than the caller accepts; `before` were replaced
 * in earlier files. */
static es_status check_replaced(const cutter *c, const es_token_stream *stream, const char *path,
                                int64_t before, uint64_t bytes, es_error *err)
{
    int64_t at;
    const int64_t replaced = es_token_stream_replaced(stream, NULL, &at) - before;
    return es_text_check_replaced(replaced, (int64_t)bytes, c->spec->invalid, path,
                                  before ? -1 : at, err);
}

/* Fails if the caller wants to stop. */
static es_status check_stop(const es_blocks_spec *spec, es_error *err)
{
    return spec->progress && spec->progress(spec->progress_user, 0.0, 1.0)
               ? es_fail(err, ES_E_INTERRUPTED, "exec.progress", "", "stopped on request")
               : ES_OK;
}

/* Opens a text. Its name may have been an extra word after --text, so the hint says what it was
 * taken for. */
static es_status open_text(const char *path, es_file *out, es_error *err)
{
    const es_status status = es_file_open(path, out, err);
    if (status != ES_OK && err && strcmp(err->rule, "file.regular") == 0)
        snprintf(err->hint, sizeof err->hint, "name a text file");
    if (status != ES_OK && err && strcmp(err->rule, "file.open") == 0)
        snprintf(err->hint, sizeof err->hint,
                 "it was taken as a text: check its name and permissions");
    return status;
}

/* Reads a file in pieces: texts may be larger than memory. The first piece decides whether it
 * is text at all. The stream is finished even after a failure, to be ready for another text. */
static es_status read_text(cutter *c, es_token_stream *stream, const char *path, es_error *err)
{
    char bytes[65536];
    es_file file;
    ES_TRY(open_text(path, &file, err));
    es_status status = ES_OK;
    const int64_t replaced = es_token_stream_replaced(stream, NULL, NULL);
    uint64_t at = 0;
    c->end = c->passed = 0;
    while (at < file.size && status == ES_OK && !c->full) {
        const uint64_t left = file.size - at;
        const size_t size = left < sizeof bytes ? (size_t)left : sizeof bytes;
        status = es_file_read(&file, at, bytes, size, err);
        if (status == ES_OK && at == 0)
            status = es_text_check(bytes, size, path, err);
        if (status == ES_OK && c->units)
            status = es_text_units_bytes(c->units, at, bytes, size, err);
        if (status == ES_OK)
            status = es_token_stream_write(stream, bytes, size, err);
        if (status == ES_OK)
            status = check_stop(c->spec, err);
        at += size;
    }
    es_file_close(&file);
    es_error last;
    const es_status finished = es_token_stream_finish(stream, status == ES_OK ? err : &last);
    if (status == ES_OK)
        status = finished;
    if (status == ES_OK && !c->wanted) /* else the text was checked, whole, while it was counted */
        status = check_replaced(c, stream, path, replaced, at, err);
    if (status == ES_OK)
        status = end_block(c, err);
    if (status != ES_OK && err && !err->file[0])
        strncpy(err->file, path, sizeof err->file - 1);
    return status;
}

/* Bytes that are dropped must not be dropped in silence: a file in Latin-1, or no text at all. */
static void warn_replaced(const cutter *c, const es_token_stream *stream)
{
    int64_t text, at;
    const int64_t count = es_token_stream_replaced(stream, &text, &at);
    if (count && !c->spec->counted && !c->counting)
        es_log(ES_LOG_WARN,
               "%s: byte %lld: not UTF-8, taken for U+FFFD; %lld such in what was read. Convert "
               "the text to UTF-8",
               c->spec->texts[text % c->spec->n_texts], (long long)at, (long long)count);
}

/* Texts are read again from the first until there are enough tokens, if that was allowed and if
 * they hold any: a text of white space would be read for ever. */
static es_status read_all(cutter *c, es_error *err)
{
    const es_blocks_spec *spec = c->spec;
    const es_encode_opts opts = {.no_specials = true,
                                 .invalid = spec->invalid,
                                 .vocab = spec->vocab,
                                 .budget = c->out->budget};
    es_token_stream *stream;
    ES_TRY(es_token_stream_open(spec->tokenizer, &opts, take, c, &stream, err));
    es_status status = ES_OK;
    do {
        const int64_t before = ids_count(c->out);
        for (c->text = 0; c->text < spec->n_texts && status == ES_OK && !c->full; c->text++) {
            status = read_text(c, stream, spec->texts[c->text], err);
            if (c->counting)
                c->whole[c->text + 1] = c->whole[c->text] + c->passed / tokens_of_block(c);
        }
        if (status != ES_OK || ids_count(c->out) == before || !spec->repeat || !spec->tokens)
            break;
        /* what is left may be too little for a block with a token in it */
        c->full = c->full || spec->tokens - ids_count(c->out) <= specials_of(&c->info);
        c->out->repeats += !c->full;
    } while (!c->full);
    if (status == ES_OK)
        warn_replaced(c, stream);
    es_token_stream_close(stream);
    return status;
}

/* Returns the number of blocks requested, the last of which may be short; 0: as many as there
 * are. */
static int64_t blocks_asked(const cutter *c)
{
    const es_blocks_spec *spec = c->spec;
    const int64_t rest = spec->tokens % spec->length;
    const int64_t by_tokens = spec->tokens / spec->length + (rest > specials_of(&c->info));
    return spec->most && (!spec->tokens || spec->most < by_tokens) ? spec->most : by_tokens;
}

/* Counts the whole blocks of the texts, which takes reading them, and decides whether some are to
 * be chosen. Where there are not even as many whole ones, all of the text is wanted. */
static es_status plan_even(cutter *c, es_error *err)
{
    const int64_t asked = blocks_asked(c);
    if (!asked || c->spec->from == ES_BLOCKS_START)
        return ES_OK;
    ES_TRY(ES_MEM_NEW(c->out->budget, c->whole, c->spec->n_texts + 1, "texts", err));
    c->counting = true;
    ES_TRY(read_all(c, err));
    c->counting = false;
    c->wanted = asked <= whole_blocks(c) ? asked : 0;
    c->out->of = c->wanted ? whole_blocks(c) : 0;
    return ES_OK;
}

/* Fails if there are fewer tokens than wanted, except for a rest that is too short for a block. */
static es_status check_enough(const cutter *c, es_error *err)
{
    const int64_t have = ids_count(c->out), want = c->spec->tokens;
    if (have == 0)
        return es_fail_file(err, ES_E_EMPTY, c->spec->texts[0], -1, "pool.empty",
                            "check that this is the right file", "the text has no token");
    if (want && want - have > specials_of(&c->info))
        return es_fail_file(err, ES_E_EMPTY, c->spec->n_texts == 1 ? c->spec->texts[0] : NULL, -1,
                            "pool.short", "ask for fewer, give more text, or use --repeat",
                            "the text has %lld tokens, special ones included; %lld were requested "
                            "in all",
                            (long long)have, (long long)want);
    return ES_OK;
}

/* Replaces the special tokens of the tokenizer by those of a block of running text. */
static es_status take_start(cutter *c, es_error *err)
{
    const es_blocks_spec *spec = c->spec;
    if (!spec->running)
        return ES_OK;
    if (spec->shuffle || spec->n_start < 0 || spec->n_start > ES_TOKENIZER_SPECIALS)
        return es_fail(err, ES_E_ARGUMENT, "pool.running",
                       "no shuffle, and a few ids to begin with",
                       "running text cannot be cut like this");
    for (int64_t i = 0; i < spec->n_start; i++)
        c->info.prefix[i] = spec->start[i];
    c->info.prefix_count = (int)spec->n_start;
    c->info.suffix_count = 0;
    return ES_OK;
}

es_status es_blocks_read(const es_blocks_spec *spec, es_mem_limit *budget, es_blocks *out,
                         es_error *err)
{
    es_text_units units = {.tokenizer = spec->tokenizer, .how = spec->shuffle, .budget = budget};
    *out = (es_blocks){.budget = budget};
    cutter c = {.spec = spec, .info = es_tokenizer_frame(spec->tokenizer), .out = out};
    ES_TRY(take_start(&c, err));
    if (spec->n_texts < 1)
        return es_fail(err, ES_E_EMPTY, "pool.empty", "name a text", "missing text");
    if (spec->length <= specials_of(&c.info))
        return es_fail(err, ES_E_RANGE, "pool.length", "use longer blocks",
                       "blocks of %lld ids hold only special tokens", (long long)spec->length);
    es_status status = ES_MEM_GROW(budget, out->start, &c.starts_capacity, 2, "blocks",
                                   err); /* start[0] is there: 0 */
    if (status == ES_OK)
        status = plan_even(&c, err);
    c.units = spec->shuffle ? &units : NULL;
    if (status == ES_OK)
        status = read_all(&c, err);
    if (status == ES_OK)
        status = check_enough(&c, err);
    if (status == ES_OK && c.units)
        status = es_text_units_shuffle(&units, spec->seed, out, err);
    es_text_units_free(&units);
    es_mem_free(budget, c.whole);
    if (status != ES_OK)
        es_blocks_free(out);
    return status;
}

void es_blocks_free(es_blocks *blocks)
{
    es_mem_free(blocks->budget, blocks->ids);
    es_mem_free(blocks->budget, blocks->start);
    es_mem_free(blocks->budget, blocks->bytes);
    *blocks = (es_blocks){0};
}
