/* SPDX-License-Identifier: Apache-2.0 */
#include "text/gguf_pre.h"

#include <stdio.h>
#include <string.h>

/* ---- patterns ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define OLD_WORDS    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define REST         "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BEFORE       "[^\\r\\n\\p{L}\\p{N}]?"
#define LATER_WORDS(digits)                                                                        \
    CONTRACTIONS "|" BEFORE "\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" REST
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(end, digits)                                                                   \
    BEFORE CAPITAL "*" SMALL "+" end "|" BEFORE CAPITAL "+" SMALL "*" end "|" digits               \
                   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" REST

/* DeepSeek's first tokenizers list the letters with upper and lower case that Unicode had. */
#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* Ideographs with kana and syllables of Korean, as ranges of code points. */
#define IDEOGRAPHS "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define SIGNS      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"

static const es_pre_pattern gpt2 = {.gpt2_words = true};
static const es_pre_pattern llama3 = {{LATER_WORDS("\\p{N}{1,3}")}};
static const es_pre_pattern qwen2 = {{LATER_WORDS("\\p{N}")}};
static const es_pre_pattern qwen35 = {
    {CONTRACTIONS "|" BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" REST}};
static const es_pre_pattern smollm = {{"\\p{N}"}, true};
static const es_pre_pattern tekken = {{CASED_WORDS("", "\\p{N}")}};
static const es_pre_pattern gpt4o = {{CASED_WORDS(CONTRACTIONS "?", "\\p{N}{1,3}")}};
static const es_pre_pattern falcon = {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", OLD_WORDS, "[0-9][0-9][0-9]"}};
static const es_pre_pattern deepseek_llm = {
    {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
     "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
     "\\s+$", IDEOGRAPHS, "\\p{N}+"}};
static const es_pre_pattern deepseek_coder = {
    {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", IDEOGRAPHS, "\\p{N}"}};
static const es_pre_pattern deepseek_v3 = {
    {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
     SIGNS
     "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" REST}};
/* llama.cpp's guess at a model whose tokenizer it did not know */
static const es_pre_pattern guess = {
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", OLD_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}};

/* ---- names ---- */

enum { BEGINS = ES_PRE_BEGINS, WHOLE = ES_PRE_WHOLE, NFC = ES_PRE_NFC };

/* Flags are those of llama.cpp, but for NFC: some models' own tokenizers compose characters first,
 * which llama.cpp leaves out, so that it gives other ids to text that is not composed. */
static const es_gguf_pre pres[] = {
    {"gpt-2", &gpt2, 0},
    {"a.x-4.0", &gpt2, 0},
    {"exaone4", &gpt2, 0},
    {"gigachat", &gpt2, 0},
    {"granite-docling", &gpt2, 0},
    {"jais", &gpt2, 0},
    {"jina-de", &gpt2, 0},
    {"jina-es", &gpt2, 0},
    {"jina-v2-de", &gpt2, 0},
    {"jina-v2-es", &gpt2, 0},
    {"mellum", &gpt2, 0},
    {"modern-bert", &gpt2, 0},
    {"mpt", &gpt2, 0},
    {"olmo", &gpt2, 0},
    {"phi-2", &gpt2, 0},
    {"trillion", &gpt2, 0},
    {"llama-bpe", &llama3, BEGINS | WHOLE},
    {"chatglm-bpe", &llama3, 0},
    {"dbrx", &llama3, 0},
    {"falcon-h1", &llama3, BEGINS | WHOLE},
    {"falcon3", &llama3, BEGINS | WHOLE},
    {"glm4", &llama3, 0},
    {"jina-v5-nano", &llama3, BEGINS | WHOLE},
    {"lfm2", &llama3, BEGINS | WHOLE},
    {"llama-v3", &llama3, BEGINS | WHOLE},
    {"llama3", &llama3, BEGINS | WHOLE},
    {"midm-2.0", &llama3, BEGINS | WHOLE},
    {"pixtral", &llama3, BEGINS | WHOLE},
    {"smaug-bpe", &llama3, 0},
    {"qwen2", &qwen2, NFC},
    {"deepseek-r1-qwen", &qwen2, NFC},
    {"f2llmv2", &qwen2, NFC},
    {"grok-2", &qwen2, 0},
    {"hunyuan", &qwen2, 0},
    {"kormo", &qwen2, 0},
    {"megrez", &qwen2, 0},
    {"solar-open", &qwen2, 0},
    {"stablelm2", &qwen2, NFC},
    {"qwen35", &qwen35, NFC},
    {"smollm", &smollm, 0},
    {"codeshell", &smollm, 0},
    {"command-r", &smollm, NFC},
    {"exaone", &smollm, 0},
    {"mellum2", &smollm, 0},
    {"minerva-7b", &smollm, 0},
    {"refact", &smollm, 0},
    {"starcoder", &smollm, 0},
    {"tekken", &tekken, BEGINS | WHOLE},
    {"gpt-4o", &gpt4o, 0},
    {"kanana2", &gpt4o, 0},
    {"llama4", &gpt4o, 0},
    {"minimax-m2", &gpt4o, 0},
    {"talkie", &gpt4o, 0},
    {"falcon", &falcon, 0},
    {"deepseek-llm", &deepseek_llm, 0},
    {"deepseek-coder", &deepseek_coder, 0},
    {"deepseek-v3", &deepseek_v3, 0},
    {"hunyuan-dense", &deepseek_v3, 0},
    {"joyai-llm", &deepseek_v3, 0},
    {"default", &guess, 0},
};
enum { PRES = sizeof pres / sizeof pres[0] };

const es_gguf_pre *es_gguf_pre_at(int i) { return i < PRES ? &pres[i] : NULL; }

const es_gguf_pre *es_gguf_pre_find(const char *name, size_t bytes)
{
    for (int i = 0; i < PRES; i++)
        if (strlen(pres[i].name) == bytes && memcmp(pres[i].name, name, bytes) == 0)
            return &pres[i];
    return NULL;
}

bool es_gguf_pre_first(const es_gguf_pre *pre)
{
    return pre == pres || pre[-1].pattern != pre->pattern;
}

void es_gguf_pre_list(char *out, size_t capacity)
{
    size_t used = 0;
    int aliases = 0;
    out[0] = '\0';
    for (int i = 0; i < PRES && used < capacity; i++) {
        if (es_gguf_pre_first(&pres[i]))
            used +=
                (size_t)snprintf(out + used, capacity - used, "%s%s", i ? ", " : "", pres[i].name);
        else
            aliases++;
    }
    if (used < capacity)
        snprintf(out + used, capacity - used, " and %d aliases", aliases);
}

/* ---- rules ---- */

/* Returns the list "pretokenizers": the splits, then ByteLevel. */
static json_t *make_steps(const es_pre_pattern *pattern)
{
    json_t *steps = json_array();
    for (int i = 0; i < ES_PRE_SPLITS && pattern->splits[i]; i++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex",
                                        pattern->splits[i], "behavior", "Isolated"));
    json_array_append_new(steps,
                          json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                    "use_regex", (int)pattern->gpt2_words));
    return steps;
}

json_t *es_gguf_pre_rules(const es_gguf_pre *pre)
{
    json_t *normalizer =
        pre->flags & NFC ? json_pack("{s:s}", "type", "NFC") : json_null(); /* o takes it over */
    return json_pack("{s:{s:s, s:b}, s:o, s:{s:s, s:o}}", "model", "type", "BPE", "ignore_merges",
                     pre->flags & WHOLE ? 1 : 0, "normalizer", normalizer, "pre_tokenizer", "type",
                     "Sequence", "pretokenizers", make_steps(pre->pattern));
}
