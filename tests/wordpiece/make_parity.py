#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write vocab.txt and parity.jsonl: texts and the ids that BERT's algorithm gives them.

A second implementation, straight from the description of BasicTokenizer and WordpieceTokenizer, on Python's own Unicode
tables and not on utf8proc. Only characters assigned in Unicode 14 are used, so that any Python since 3.11 writes the
same bytes. The test TK12 compares; ids of Hugging Face are in tests/golden.
"""
import itertools
import json
import pathlib
import random
import unicodedata

HERE = pathlib.Path(__file__).parent
LETTERS = [chr(c) for c in itertools.chain(range(0x61, 0x7B), range(0x3B1, 0x3CA), range(0x430, 0x450), range(0x5D0, 0x5EB),
                                           range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A8, 0x11C3))]
OTHERS = list("0123456789éüßøÉAZ") + [chr(0x915), chr(0x93F), chr(0x302E), chr(0x4D)]
SIGNS = [chr(c) for c in range(33, 127) if not chr(c).isalnum()] + list("¿«»—…。、“”") + ["中", "文", "豈", "𠀀", "€", "→"]
PIECES = ("the un hello world token ##ing ##aff ##able ##ize ##ization attention lang ##uage na ##ive ab aba ##ab").split()
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + LETTERS + OTHERS + SIGNS + ["##" + c for c in LETTERS + OTHERS] + PIECES
ID = {token: i for i, token in enumerate(VOCAB)}
ADDED = VOCAB[:5]


def chinese(c):
    blocks = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
              (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
    return any(a <= ord(c) <= b for a, b in blocks)


def control(c):
    return c not in "\t\n\r" and unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")


def space(c):
    return c in "\t\n\v\f\r\x85\u2028\u2029" or unicodedata.category(c) == "Zs"


def punctuation(c):
    return 33 <= ord(c) <= 47 or 58 <= ord(c) <= 64 or 91 <= ord(c) <= 96 or 123 <= ord(c) <= 126 or unicodedata.category(c)[0] == "P"


def words(text, lower, strip, cjk):
    text = "".join(" " if space(c) else c for c in text if c not in "\0\ufffd" and not control(c))
    if cjk:
        text = "".join(f" {c} " if chinese(c) else c for c in text)
    if strip:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    if lower:
        text = "".join(c.lower() for c in text)
    return "".join(f" {c} " if punctuation(c) else " " if space(c) else c for c in text).split(" ")


def pieces(word):
    if len(word) > 100:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in ID:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        start = end
    return found


def split_added(text):
    """Text and added tokens in turn."""
    at = start = 0
    while at < len(text):
        token = next((t for t in ADDED if text.startswith(t, at)), None)
        if token:
            yield text[start:at], token
            start = at = at + len(token)
        else:
            at += 1
    yield text[start:], None


def encode(text, **options):
    tokens = ["[CLS]"]
    for part, added in split_added(text):
        for word in words(part, **options):
            tokens += pieces(word) if word else []
        tokens += [added] if added else []
    return [ID[t] for t in tokens + ["[SEP]"]]


BY_HAND = ["", " ", "Hello, world!", "unaffable", "the THE thé", "tokenization", "naïve languages", "[MASK] [CLS]a[SEP]", "[mask] [UNK",
           "a" * 100, "a" * 101, "é" * 100, "e\u0301" * 101, "가각힣", "中文a中", "豈𠀀x", "İı ẞß", "ΑΣ Σ σς", "a\u200db\ufeffc\u00add", "x\u0000y\ufffdz",
           "१२ कि क\u093f", "a\u302eb\u302fc", "d\u0323\u0307 \u1e0d\u0307", "…«a»—b", "a\u2028b\u3000c\u00a0d\u0085e", "``a''b$c^d", "שָׁלוֹם", "Привет, МИР", "👩\u200d👧 🏽",
           "\ue000a\U000f0000b", "a\tb\nc\rd", "\u037e \u1fef \u212a \u2126", "##ing #", "ab aba abab ababa", "ﬁ ½ Ⅳ"]
BLOCKS = [(0x20, 0x7E)] * 6 + [(0xA0, 0x24F)] * 3 + [(0x300, 0x36F)] * 2 + [(0x370, 0x52F)] * 2 + [
    (0x590, 0x5FF), (0x900, 0x97F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x20CF), (0x3000, 0x302F), (0x4E00, 0x4E40), (0xAC00, 0xD7A3),
    (0xF900, 0xFA6D), (0xFE00, 0xFEFF), (0x1D15E, 0x1D172), (0x20000, 0x20010)]


def by_chance(rng):
    text = ""
    while len(text) < rng.randrange(2, 30):
        c = chr(rng.randrange(*rng.choice(BLOCKS)))
        text += c if unicodedata.category(c) != "Cn" else " "
        text += rng.choice(["", "", "", " ", "ab", "the", "ing"])
    return text


def main():
    rng = random.Random(6)
    texts = BY_HAND + [by_chance(rng) for _ in range(120)]
    (HERE / "vocab.txt").write_text("".join(t + "\n" for t in VOCAB), encoding="utf-8")
    with open(HERE / "parity.jsonl", "w", encoding="utf-8") as out:
        for options in ({}, {"lower": False, "strip": False}, {"strip": False}, {"lower": False}, {"cjk": False}):
            all_options = {"lower": True, "strip": True, "cjk": True, **options}
            for text in texts:
                row = {**all_options, "text": text, "ids": encode(text, **all_options)}
                out.write(json.dumps(row) + "\n")


main()
