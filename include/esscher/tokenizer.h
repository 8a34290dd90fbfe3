/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h : text becomes token ids, as the checkpoint's own tokenizer makes them: WordPiece
 * (BERT), byte pairs spelt in bytes (GPT-2, Llama 3, Qwen), SentencePiece's byte pairs with bytes
 * to fall back on (Llama 2, Mistral, Gemma), or its Unigram (XLM-RoBERTa).
 *
 * A tokenizer is read from a model's folder: from tokenizer.json, or from vocab.txt with the
 * tokenizer_config.json beside it; or from a GGUF file, which carries one with it. It never changes
 * afterwards, so any number of threads may use it. Text goes through it in one pass:
 *
 *     bytes -> characters -> added tokens such as [MASK] or <|endoftext|> taken out
 *           -> the normalizer. WordPiece: clean, set ideographs apart, strip accents, lower case.
 *              Others: NFC, NFKC, Precompiled, Strip, Prepend, Replace, as the file says
 *           -> the pre-tokenizer: words. WordPiece: white space divides, punctuation stands alone.
 *              Others: ByteLevel, Split, Digits, Punctuation, WhitespaceSplit, Metaspace, as the
 *              file says
 *           -> the model. WordPiece: the longest piece of the vocabulary that begins the word, then
 *              the longest "##" piece that goes on, ...; [UNK] for a word that cannot be cut up, or
 *              is too long. Byte pairs: neighbours that the list of merges has become one piece,
 *              the first of the list first, until none is left. Unigram: the pieces whose scores
 *              have the largest sum
 *
 *     es_tokenizer *tokenizer;
 *     es_token_list list = {0};
 *     if (es_tokenizer_open("models/minilm", NULL, &tokenizer, &err) == ES_OK &&
 *         es_tokenizer_encode(tokenizer, text, strlen(text), NULL, &list, &err) == ES_OK)
 *         for (int64_t i = 0; i < list.count; i++)
 *             printf("%d %s\n", list.tokens[i].id,
 *                    es_tokenizer_token(tokenizer, list.tokens[i].id));
 *
 * For text that does not fit in memory there is a stream: bytes are written to it in pieces of any
 * size, tokens come out through a callback. Of WordPiece a stream's memory does not depend on the
 * text, even if the text is one word of a gigabyte, and its time is O(bytes L), L the longest piece
 * of the vocabulary; on English text a piece is found in some seven steps. Byte pairs take O(bytes
 * log W) time and O(W) memory, W the longest word: 2 MB, and up to 150 bytes for each of a word's
 * (a million letters in a row are one). Unigram takes O(bytes L) time and O(W) memory. What has to
 * be seen as a whole the file says: a pattern that looks back, or a text to be replaced that is
 * longer than a character, makes one word of all that stands between two added tokens.
 *
 * What is like Hugging Face's tokenizers, and what is not. Of byte pairs, ids are those of
 * transformers.js, but for U+0085 and U+FEFF in a ByteLevel with its own pattern: the former is
 * white space and the latter is not, as Unicode and the Rust library have it. Patterns see Unicode
 * as PCRE2 has it (14 in Debian 12). Of WordPiece, ids are those of BertNormalizer,
 * BertPreTokenizer and WordPiece. Implementations differ in three details. Which characters are
 * accents and punctuation follows Unicode 17, as in transformers.js; the Rust library has older
 * tables, which differ in 658 characters of scripts that no vocabulary has. Ideographs of the
 * supplementary planes stand alone, as in BERT's own code; transformers.js overlooks them, and Rust
 * those of U+2B820..U+2B91F. Lower case is made character by character, as in Rust: a capital sigma
 * at the end of a word becomes U+03C3. Truncation and padding that a tokenizer.json may ask for are
 * left to the caller. Of Unigram, ids are those of the Rust library, whose Precompiled differs from
 * SentencePiece in letters with rare marks; a file without unk_id is refused.
 *
 * For a GGUF file, ids are those of the model's own tokenizer.json as far as the file describes it.
 * Its pre-tokenizer has a name, which docs/MODELS.md lists; any other name is an error. Some
 * compose characters (NFC), which llama.cpp leaves out. Pieces with scores (SentencePiece's) are
 * joined as SentencePiece does, the best score first and the leftmost of equals, where a
 * tokenizer.json made from them orders equals by its list.
 */
#ifndef ESSCHER_TOKENIZER_H
#define ESSCHER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <esscher/exec.h>
#include <esscher/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct es_tokenizer es_tokenizer;

enum { ES_TOKENIZER_SPECIALS = 8 }; /* most special tokens on either side of a text */

/* What a tokenizer does, for a record of it. */
typedef struct es_tokenizer_info {
    int64_t size;                   /* ids are in [0, size) */
    int64_t own_size;               /* those of tokens that were not added are in [0, own_size) */
    int32_t unknown;                /* -1: there is none */
    int prefix_count, suffix_count; /* specials around a text: [CLS] ... [SEP] for BERT */
    int32_t prefix[ES_TOKENIZER_SPECIALS], suffix[ES_TOKENIZER_SPECIALS];
    /* Of byte pairs without a special before a text: the token that begins one all the same where a
     * model is to read it (es_tokenizer_frame()). "bos_token" of the tokenizer_config.json beside
     * tokenizer.json, null meaning none; where that says nothing, "bos_token_id" of config.json;
     * of a GGUF its own, unless it says that none is added.
     * -1: there is none, or `prefix` does without it */
    int32_t begin;
    int64_t max_chars; /* a longer word is unknown; of WordPiece, as the next */
    bool clean_text, split_chinese, strip_accents, lowercase;
    const char *model; /* the kind: "WordPiece", "BPE" or "Unigram" */
} es_tokenizer_info;

/* ---- a tokenizer ---- */

/*! es_tokenizer_open() : read a model's folder (tokenizer.json if it is there, else vocab.txt), or
 *  one of these files, or a GGUF, by its path. On success release it with es_tokenizer_free().
 * Files over 32 MiB are refused before they are read; memory is proportional to the file and
 * counted against `budget` (may be NULL), which must outlive the tokenizer. Remarks on odd
 * vocabularies (a token twice, a blank line, unused ids) go to the log. Thread-safe.
 *  @return : ES_OK; ES_E_ARGUMENT without a path;
 *   ES_E_IO (file.open, file.regular, file.read, tokenizer.missing, which is ES_E_UNSUPPORTED in
 *     a folder with a tokenizer of another form);
 *   ES_E_FORMAT: tokenizer.json (no JSON; err->offset), tokenizer.key (a key that is missing or of
 *     another type), vocab.empty, vocab.utf8, vocab.nul (err->offset), tokenizer.special (no
 *     [UNK], [CLS] or [SEP]), tokenizer.id.range, tokenizer.id.clash, tokenizer.merge (of pieces,
 * or into one, that the vocabulary does not have); ES_E_UNSUPPORTED: tokenizer.model (Unigram,
 * ...), tokenizer.normalizer, tokenizer.pretokenizer, tokenizer.postprocessor, tokenizer.decoder,
 * tokenizer.pattern, tokenizer.added, tokenizer.word; of a GGUF also gguf.* (gguf_inside.h says
 * which), gguf.tokenizer for what is not built in; ES_E_LIMIT (tokenizer.size, or over the
 * budget); ES_E_MEMORY. */
ES_API es_status es_tokenizer_open(const char *path, es_mem_limit *budget, es_tokenizer **out,
                                   es_error *err);

/*! es_tokenizer_memory() : bytes that es_tokenizer_open() of this path takes at most at a time, by
 *  what its files hold; 0 where there are none that it could read. O(file). Thread-safe. */
ES_API size_t es_tokenizer_memory(const char *path);

/*! es_tokenizer_free() : NULL is fine. No stream may be open on it. */
ES_API void es_tokenizer_free(es_tokenizer *tokenizer);

/*! es_tokenizer_frame() : the same, where prefix and suffix are what stands around a block that a
 *  model reads: the template's specials, nothing that it does not have, and info.begin where it
 * puts nothing first: <|endoftext|> of a GPT-2, whose template is empty although it was trained on
 * texts that begin so. */
ES_API es_tokenizer_info es_tokenizer_frame(const es_tokenizer *tokenizer);

/*! es_tokenizer_token() : the text of an id, valid as long as the tokenizer; NULL for an id that
 *  has no token. O(1). */
ES_API const char *es_tokenizer_token(const es_tokenizer *tokenizer, int64_t id);

/* ---- text ---- */

/* A token and the bytes [begin, end) of the text it was made from; a special token that was added
 * around the text has begin = end = 0. Characters that the normalizer removes at the edge of a
 * token do not belong to it. */
typedef struct es_token {
    int32_t id;
    int64_t begin, end;
} es_token;

typedef enum es_text_invalid {
    /* U+FFFD for each maximal part of a broken character; cleaning drops it. Readers of files
     * refuse one that has more of them than one for a hundred bytes: es_text_check_replaced() */
    ES_TEXT_REPLACE = 0,
    ES_TEXT_ERROR = 1,      /* refuse the text and name the byte */
    ES_TEXT_REPLACE_ALL = 2 /* U+FFFD, however many */
} es_text_invalid;

typedef struct es_encode_opts {
    bool no_specials;        /* leave [CLS] and [SEP] out */
    es_text_invalid invalid; /* bytes that are no UTF-8, surrogates included */
    int64_t vocab; /* ids that a model has embeddings for: a text with another is refused; 0: all */
    es_mem_limit *budget; /* NULL: no ceiling */
} es_encode_opts;

/* Tokens that we own; begin with {0}. */
typedef struct es_token_list {
    es_token *tokens;
    int64_t count, capacity;
    es_mem_limit *budget;
} es_token_list;

/*! es_tokenizer_encode() : the tokens of one text, in place of what the list held. A text without a
 *  word gives the specials only: whether nothing is an error, the caller knows. opts may be NULL,
 *  text too if bytes is 0. Release the list with es_token_list_free(). Thread-safe.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_FORMAT (text.utf8, err->offset) if asked to be strict,
 *  (text.token, err->offset) for a token beyond opts->vocab;
 *  ES_E_LIMIT (tokenizer.pattern: a match takes too long; text.word; or over the budget),
 *  ES_E_MEMORY. After a failure the list is empty. */
ES_API es_status es_tokenizer_encode(const es_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const es_encode_opts *opts, es_token_list *list,
                                     es_error *err);

ES_API void es_token_list_free(es_token_list *list);

/*! es_text_check() : fails unless the beginning of a file (4 KiB are enough) is that of a text.
 *  Compressed files and UTF-16 or UTF-32 are recognised and named, for they would give tokens, but
 *  nonsense.
 *  @return : ES_OK; ES_E_UNSUPPORTED with rule text.compressed or text.encoding. */
ES_API es_status es_text_check(const void *data, size_t bytes, const char *path, es_error *err);

/*! es_text_check_replaced() : refuses a text of `bytes` bytes in which `replaced` parts were not
 *  UTF-8, if these are more than one in a hundred bytes and `invalid` does not allow that: it is in
 *  another encoding, or not text. `first` is the byte of the first such part (-1: not known).
 *  @return : ES_OK; ES_E_FORMAT (text.utf8, err->offset). */
ES_API es_status es_text_check_replaced(int64_t replaced, int64_t bytes, es_text_invalid invalid,
                                        const char *path, int64_t first, es_error *err);

/* ---- streams ---- */

/* Takes the tokens of a word, in order. Anything but ES_OK ends the stream and is handed on. */
typedef es_status (*es_token_sink)(void *user, const es_token *tokens, int64_t count,
                                   es_error *err);

typedef struct es_token_stream es_token_stream;

/*! es_token_stream_open() : begin a text. A stream belongs to one thread at a time.
 *  @return : ES_OK; ES_E_ARGUMENT; ES_E_LIMIT, ES_E_MEMORY. */
ES_API es_status es_token_stream_open(const es_tokenizer *tokenizer, const es_encode_opts *opts,
                                      es_token_sink sink, void *user, es_token_stream **out,
                                      es_error *err);

/*! es_token_stream_write() : the next bytes of the text, cut anywhere, even inside a character.
 *  Tokens reach the sink when their word has ended.
 *  @return : ES_OK; ES_E_FORMAT (text.utf8, text.token); ES_E_LIMIT, ES_E_MEMORY (byte pairs; see
 *  es_tokenizer_encode()); what the sink returned. After a failure the text is lost;
 * es_token_stream_finish() repeats the status and makes the stream ready for the next. */
ES_API es_status es_token_stream_write(es_token_stream *stream, const void *data, size_t bytes,
                                       es_error *err);

/*! es_token_stream_finish() : the text is over; the last tokens reach the sink. The stream is then
 *  ready for another text, whose offsets begin at 0. @return : as es_token_stream_write(). */
ES_API es_status es_token_stream_finish(es_token_stream *stream, es_error *err);

/*! es_token_stream_replaced() : how many parts of all texts so far were no UTF-8 and taken for
 *  U+FFFD; of the first, if there is one, *text is the number of its text, from 0, and *at the byte
 *  in it. Both may be NULL. */
ES_API int64_t es_token_stream_replaced(const es_token_stream *stream, int64_t *text, int64_t *at);

ES_API void es_token_stream_close(es_token_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
