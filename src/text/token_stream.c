/* SPDX-License-Identifier: Apache-2.0 */
/* token_stream.c : the public face of streams: a text's beginning and end, its specials, what went
 * wrong. What is between belongs to the kind of tokenizer (wordpiece.c, bpe_stream.c). */
#include "base/error.h"
#include "base/memory.h"
#include "text/tokenizer_inside.h"

/* ---- what kinds tell their stream ---- */

/* Fails for a token without an embedding in the model, and names its position in the text. */
static void check_ids(es_token_stream *s, const es_token *tokens, int64_t count)
{
    for (int64_t i = 0; i < count && s->status == ES_OK; i++)
        if (tokens[i].id >= s->opts.vocab)
            s->status = es_fail_file(&s->failure, ES_E_FORMAT, NULL, tokens[i].begin, "text.token",
                                     "remove it from the text",
                                     "token \"%.64s\" has id %d, but the model has %lld embeddings",
                                     es_tokenizer_token(s->tokenizer, tokens[i].id), tokens[i].id,
                                     (long long)s->opts.vocab);
}

/* A failure sticks: nothing more is handed on until the text is finished. */
void es_stream_put(es_token_stream *s, const es_token *tokens, int64_t count)
{
    if (s->opts.vocab && s->opts.vocab < s->tokenizer->info.size)
        check_ids(s, tokens, count);
    if (count && s->status == ES_OK)
        s->status = s->sink(s->user, tokens, count, &s->failure);
}

/* The first byte that is no UTF-8 is remembered, for one remark after all text has been read. */
bool es_stream_replace(es_token_stream *s, int64_t at, unsigned char byte)
{
    if (s->replaced.count++ == 0)
        s->replaced.text = s->texts, s->replaced.at = at;
    if (s->opts.invalid != ES_TEXT_ERROR)
        return true;
    s->status = es_fail_file(&s->failure, ES_E_FORMAT, NULL, at, "text.utf8",
                             "convert the text to UTF-8, or ask for replacement",
                             "byte %lld (0x%02x) is not UTF-8", (long long)at, byte);
    return false;
}

/* ---- the public face ---- */

es_status es_token_stream_open(const es_tokenizer *tokenizer, const es_encode_opts *opts,
                               es_token_sink sink, void *user, es_token_stream **out, es_error *err)
{
    es_mem_limit *budget = opts ? opts->budget : NULL;
    es_token_stream *s;
    if (out)
        *out = NULL;
    if (!tokenizer || !sink || !out)
        return es_fail(err, ES_E_ARGUMENT, "tokenizer.stream", "pass a tokenizer and a sink",
                       "missing tokenizer, sink or stream");
    ES_TRY(ES_MEM_NEW(budget, s, 1, "token stream", err));
    *s = (es_token_stream){.tokenizer = tokenizer, .sink = sink, .user = user, .budget = budget};
    if (opts)
        s->opts = *opts;
    const es_status status = tokenizer->kind->open(s, err);
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
    stream->tokenizer->kind->close(stream);
    es_mem_free(stream->budget, stream);
}

/* Emits special tokens, which have no place in the text. */
static void put_specials(es_token_stream *s, const int32_t *ids, int count)
{
    es_token tokens[ES_TOKENIZER_SPECIALS] = {0};
    for (int i = 0; i < count; i++)
        tokens[i].id = ids[i];
    if (!s->opts.no_specials)
        es_stream_put(s, tokens, count);
}

/* Sends the special tokens before a text, at its first byte or at the end of an empty text. */
static void begin_text(es_token_stream *s)
{
    const es_tokenizer_info *info = &s->tokenizer->info;
    if (!s->begun)
        put_specials(s, info->prefix, info->prefix_count);
    s->begun = true;
}

/* Returns the status of the text, with its error. */
static es_status report(const es_token_stream *s, es_error *err)
{
    if (s->status != ES_OK && err)
        *err = s->failure;
    return s->status;
}

es_status es_token_stream_write(es_token_stream *s, const void *data, size_t bytes, es_error *err)
{
    begin_text(s);
    if (bytes && s->status == ES_OK)
        s->tokenizer->kind->write(s, data, bytes);
    return report(s, err);
}

es_status es_token_stream_finish(es_token_stream *s, es_error *err)
{
    const es_tokenizer_info *info = &s->tokenizer->info;
    begin_text(s);
    s->tokenizer->kind->finish(s);
    put_specials(s, info->suffix, info->suffix_count);
    const es_status status = report(s, err);
    s->texts++;
    s->begun = false;
    s->status = ES_OK;
    return status;
}
