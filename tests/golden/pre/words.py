# SPDX-License-Identifier: Apache-2.0
"""Writes words.jsonl beside this file: words of short texts by the pre-tokenizers that GGUF files name, and by some of tokenizer.json.

Run once with Debian's python3-regex (2022.10.31). The expressions are those of the models' tokenizer.json, or, where GGUF has another
one with the same meaning for the model's vocabulary, of llama.cpp; they were typed here from those files. A row has the text and, for
each name, the lengths of its words in bytes of the text, which is composed first (NFC) for names in COMPOSED.
"""
import json
import pathlib
import unicodedata

import regex

CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ"
    "ℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

SPLITS = {
    "gpt-2": [GPT2],
    "llama-bpe": [CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen2": [CASE + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen35": [CASE + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "smollm": [r"\p{N}", GPT2],
    "tekken": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "gpt-4o": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CASE}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CASE}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "falcon": [r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", rf"\s?[{LETTERS}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", ASIAN, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""],
    "default": [r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    # of tokenizer.json, not of GGUF
    "Punctuation Isolated": [r"[\p{P}$+<=>^~|`]"],
    "Punctuation Contiguous": [r"[\p{P}$+<=>^~|`]+"],
    "WhitespaceSplit": None,
    "Falcon": [r"[\p{P}$+<=>^~|`]+", GPT2, "bytes", r"\p{N}+", "[0-9][0-9][0-9]"],
    "Digits behind ByteLevel": ["bytes", r"\p{N}"],
}
COMPOSED = {"qwen2", "qwen35"}

TEXTS = [
    "Hello, world!", "I'm sure they'LL say it's HE'S 'tis rock'n'roll don\u2019t we'Ve I'D", "'s't're've'm'll'd 'S'T'RE'VE'M'LL'D 'x'", "  two  spaces   three\t\ttabs \n",
    "line\r\nline\r\n\r\n  indented\n\n\n\tx\r\ry", "1 12 123 1234 12345 1234567 3.14159 1,000,000 0x1F 1e-9", "\u0661\u0662\u0663\u0664 \u0967\u0968\u0969 \u00bd\u00b2\u00b3 \u2167\u2160 \u3007\u4e00\u4e8c \uff11\uff12\uff13\uff14",
    "caf\u00e9 cafe\u0301 na\u00efve nai\u0308ve A\u030angstro\u0308m a\u0323\u0301\u0316", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u662f2026\u5e748\u670813\u65e5\u3002", "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc\u3068\u6f22\u5b57abc", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\u2764\ufe0f!!",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u1f00\u03c1\u03c7\u03ae \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627\u064b", "CamelCaseWORDSandHTTPServer iPhone McDONALD'S XMLHttpRequest's \u01c5ungla \u02b0\u02b7x \u00c9COLE\u00e9cole",
    "nbsp\u00a0between\u00a0\u00a0two \u2003em\u2009thin\u3000wide\u2028line\u2029par\u0085nel\u200bzero\ufeffbom", "a+b=c; x<y>z ^caret| ~tilde` $5.00 \u20ac9 \u00a3 100% #tag @you _under_ \\back\\slash", "((nested)) [[x]] {{y}} \u00abquote\u00bb \u201cquoted\u201d \u2018single\u2019 \u2026 \u2014 \u2013 \u00a7\u00b6",
    "/usr/local/bin //comment /* x */ http://a.b/c?d=e&f=g#h", "def f(x):\n    return x**2 + 1  # note\n\n\nclass A:\n\tpass\n", "x  ", "   ", "\n", "\t", " \n \n ", "a \n", "\r\n", " ", "a", "'", "' ", "\u0301", " \u0301a", "1\u0301 2", "a\u0301'S", "9'9", "...\n\n...", "!\r\n?", "   1", "  !a",
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8 \uff28\uff45\uff4c\uff4c\uff4f \ufb01ne \u2122 \u2126 \u212a \u1fbe\u1f7d", "\u0131\u0130\u00df\u1e9e\u0149\u017f's \u212as it'\u017f it'\u017ft",
    "\u16a0\u16a2 \u13a3\u13b3 \uab70\uab71 \u10d0\u10d1 \u1c90 \u0561\u0562 \u2c00 \ua640 \U00010400\U00010428 \ua9c0\u1b05", "\u00aa\u00ba \u01bb \u01c0 \u0294 \u02bc\u02bcx \u3005\u3006 \u30fc \uff70", "a_b-c d--e f...g h,,i", "100\u00b0C 5\u20326\u2033 \u00bc cup n\u00b2", "MiXeD123Case456 ABCdef ABC DEF abcDEF1ghi",
]


def letters():
    """GPT-2's letter for each byte: itself if it can be seen, else the next from U+0100 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in seen]
    return {**{b: chr(b) for b in seen}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


LETTER = letters()


def cut(pieces, expression):
    """Divides each piece into matches and what is between them."""
    out = []
    for piece in pieces:
        at = 0
        for m in expression.finditer(piece):
            out += [piece[at:m.start()], m.group()]
            at = m.end()
        out.append(piece[at:])
    return [p for p in out if p]


def words(name, text):
    if name == "WhitespaceSplit":
        return [w for w in regex.split(r"\p{White_Space}+", text) if w]
    pieces = [text]
    for expression in SPLITS[name]:
        if expression == "bytes":
            pieces = ["".join(LETTER[b] for b in piece.encode()) for piece in pieces]
        else:
            pieces = cut(pieces, regex.compile(expression, regex.V0))
    return pieces


with open(pathlib.Path(__file__).parent / "words.jsonl", "w") as out:
    for text in TEXTS:
        row = {"text": text}
        for name in SPLITS:
            source = unicodedata.normalize("NFC", text) if name in COMPOSED else text
            spelt = "bytes" in (SPLITS[name] or [])
            row[name] = [len(w) if spelt else len(w.encode()) for w in words(name, source)]
            assert name == "WhitespaceSplit" or sum(row[name]) == len(source.encode())
        out.write(json.dumps(row) + "\n")
