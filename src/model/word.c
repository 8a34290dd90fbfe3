#include "model/word.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/unicode.h"

es_status es_word_open(es_word *word, const es_tokenizer *tokenizer, es_budget *budget,
                       es_error *err)
{
    const int64_t chars = tokenizer->info.max_chars;
    *word = (es_word){.tokenizer = tokenizer, .budget = budget};
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, 1, "word", (void **)&word->bytes, err));
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *word->begin, "word",
                        (void **)&word->begin, err));
    ES_TRY(es_mem_array(budget, chars, ES_UTF8_MOST, sizeof *word->end, "word", (void **)&word->end,
                        err));
    return es_mem_array(budget, chars, 1, sizeof *word->pieces, "word", (void **)&word->pieces,
                        err);
}

void es_word_close(es_word *word)
{
    es_mem_free(word->budget, word->bytes);
    es_mem_free(word->budget, word->begin);
    es_mem_free(word->budget, word->end);
    es_mem_free(word->budget, word->pieces);
    *word = (es_word){0};
}

void es_word_put(es_word *word, int32_t c, int64_t begin, int64_t end)
{
    if (word->chars == 0)
        word->from = begin;
    word->to = end;
    if (word->chars++ >= word->tokenizer->info.max_chars)
        return; /* it is unknown already; only its end is of interest */
    const size_t length = es_utf8_put(c, word->bytes + word->used);
    for (size_t i = word->used; i < word->used + length; i++)
        word->begin[i] = begin, word->end[i] = end;
    word->used += length;
}

/* As many pieces as there are, or -1 if at some place none fits. */
static int64_t cut_greedily(es_word *word)
{
    const es_tokenizer *t = word->tokenizer;
    int64_t count = 0;
    uint32_t node = ES_TRIE_ROOT;
    for (size_t at = 0; at < word->used; node = t->continuing) {
        int32_t id = 0;
        const size_t length =
            es_trie_longest(&t->pieces, node, word->bytes + at, word->used - at, &id);
        if (length == 0)
            return -1;
        word->pieces[count++] = (es_token){id, word->begin[at], word->end[at + length - 1]};
        at += length;
    }
    return count;
}

int64_t es_word_cut(es_word *word)
{
    if (word->chars == 0)
        return 0;
    int64_t count = word->chars > word->tokenizer->info.max_chars ? -1 : cut_greedily(word);
    if (count < 0) {
        word->pieces[0] = (es_token){word->tokenizer->info.unknown, word->from, word->to};
        count = 1;
    }
    word->used = 0;
    word->chars = 0;
    return count;
}
