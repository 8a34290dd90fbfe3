# SPDX-License-Identifier: Apache-2.0
"""Writes the first corpora of fuzz_vocab, fuzz_tokenizer_json, fuzz_bpe and fuzz_tokenize beside this file."""
import base64
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def put(corpus, name, data):
    folder = HERE / ("corpus_" + corpus)
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


SPECIALS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
WORDS = "un\n##aff\n##able\nhello\nworld\n,\n!\n"
for name, data in {
    "plain": SPECIALS + WORDS,
    "crlf": (SPECIALS + WORDS).replace("\n", "\r\n"),
    "bom": b"\xef\xbb\xbf" + SPECIALS.encode(),
    "blank_lines": SPECIALS + "\n\na\n",
    "duplicate": SPECIALS + "a\nb\na\n",
    "no_newline": SPECIALS + "a",
    "no_unk": "[CLS]\n[SEP]\n",
    "nul": SPECIALS.encode() + b"a\0b\n",
    "not_utf8": SPECIALS.encode() + b"\xff\n",
    "empty": "",
    "config": SPECIALS + '====\n{"do_lower_case": false, "strip_accents": true, "cls_token": {"content": "[CLS]"}}',
    "config_other_names": '<s>\n</s>\n<unk>\n====\n{"cls_token":"<s>","sep_token":"</s>","unk_token":"<unk>"}',
    "config_python": SPECIALS + '====\n{"model_max_length": 1000000000000000019884624838656, "x": NaN, "x": 1, "do_lower_case": false}',
    "config_mark": SPECIALS + "====\n\ufeff{}",
    "config_bad": SPECIALS + "====\n{",
    "config_type": SPECIALS + '====\n{"do_lower_case": 1}',
}.items():
    put("vocab", name, data)

VOCAB = {t: i for i, t in enumerate((SPECIALS + WORDS).split())}


def tokenizer(**changes):
    added = [{"id": i, "content": t, "special": True, "normalized": False, "single_word": False} for t, i in VOCAB.items() if t[0] == "["]
    special = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    whole = {
        "version": "1.0", "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]")],
                           "special_tokens": {t: {"id": t, "ids": [VOCAB[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": VOCAB},
    }
    whole.update(changes)
    return json.dumps(whole)


def unigram(parts=None, **flags):
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.0], ["ab", -3.0], ["\u2581", -1.0], ["\u2581a", -2.5], ["<0xC3>", -9.0], ["<0xB6>", -9.0]]}
    model.update(flags)
    return json.dumps(dict(parts or {}, model=model))


def charsmap(changes=None, size=2048):
    """A table of one replacement, "bc" of "a", with some units changed."""
    units = [0] * 512
    units[0], units[0x161], units[0x80] = 256 << 10, (0x161 ^ 0x80) << 10 | 0x161, 0x80000000 | 2
    for at, unit in (changes or {}).items():
        units[at] = unit
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(struct.pack("<513I", size, *units) + b"x\0bc\0").decode()}


MODEL = json.loads(tokenizer())["model"]
for name, data in {
    "plain": tokenizer(),
    "mark": "\ufeff" + tokenizer(),
    "big_number": tokenizer(truncation={"max_length": 10**30}),
    "bert_processing": tokenizer(post_processor={"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}),
    "nothing_around": tokenizer(post_processor=None, normalizer=None, added_tokens=[]),
    "bpe": tokenizer(model={"type": "BPE", "vocab": {}, "merges": []}),
    "unigram": tokenizer(model={"type": "Unigram", "vocab": [["a", -1.0]]}),
    "unigram_no_unknown": unigram(unk_id=None),
    "unigram_unknown_far": unigram(unk_id=99),
    "unigram_empty": unigram(vocab=[]),
    "unigram_pair": unigram(vocab=[["a"]]),
    "unigram_big_scores": unigram(vocab=[["<unk>", 0], ["a", 1e308], ["aa", -1e308]]),
    "charsmap": unigram(parts={"normalizer": charsmap()}),
    "charsmap_far": unigram(parts={"normalizer": charsmap({0x161: 0x1FFFFF << 10 | 0x161})}),
    "charsmap_loop": unigram(parts={"normalizer": charsmap({0x161: (0x161 ^ 0x100) << 10 | 0x61})}),
    "charsmap_value": unigram(parts={"normalizer": charsmap({0x80: 0x80000000 | 77})}),
    "charsmap_short": unigram(parts={"normalizer": charsmap(size=4096)}),
    "charsmap_letters": unigram(parts={"normalizer": {"type": "Precompiled", "precompiled_charsmap": "A!=="}}),
    "sparse_ids": tokenizer(model=dict(MODEL, vocab=dict(VOCAB, far=500))),
    "far_id": tokenizer(model=dict(MODEL, vocab=dict(VOCAB, far=2**31))),
    "negative_id": tokenizer(model=dict(MODEL, vocab=dict(VOCAB, far=-1))),
    "clash": tokenizer(model=dict(MODEL, vocab=dict(VOCAB, other=5))),
    "added_clash": tokenizer(added_tokens=[{"id": 9, "content": "[CLS]"}]),
    "added_normalized": tokenizer(added_tokens=[{"id": 12, "content": "new", "normalized": True}]),
    "long_words": tokenizer(model=dict(MODEL, max_input_chars_per_word=10001)),
    "short_words": tokenizer(model=dict(MODEL, max_input_chars_per_word=1)),
    "odd_prefix": tokenizer(model=dict(MODEL, continuing_subword_prefix="")),
    "deep": "[" * 3000,
    "array": "[]",
    "duplicate_key": '{"model": 1, "model": 2}',
    "truncated": tokenizer()[:200],
}.items():
    put("tokenizer_json", name, data)

for name, data in {
    "words": "\x0eab aba  abab. b!",
    "specials": "\x3e[CLS]a[MASK][SEP][[MASK]]",
    "accents": "\x22 e\u0301\u0323 \u00e9 \u0130 \u1e9b\u0323",
    "ideographs": "\x16a\u4e2db\uf900\U00020000",
    "marks": "\x42a\u302e\u302f\u302ab\u1d165",
    "hangul": "\x12\uac00\ud7a3",
    "long": "\xfe" + "ab" * 60 + " a",
    "sigma": "\x02\u03a3\u03a3",
    "spaces": "\x0f \t\r\n\u00a0\u3000\u2028",
    "controls": "\x0e\u0000\u200d\ufeff\u0085a\u0007b",
}.items():
    put("tokenize", name, data.encode("latin-1") if max(map(ord, data)) < 256 else data)
for name, data in {"truncated": b"\x3ea\xe4\xb8", "surrogate": b"\x0ea\xed\xa0\x80b", "overlong": b"\x0e\xc0\xafa", "five": b"\x0e\xf8\x88\x80\x80\x80", "mixed": b"\x5e\xff\xfea\x80b\xf0\x9f\x98"}.items():
    put("tokenize", name, data)

# ---- byte pairs: a tokenizer.json, NUL, a text ----

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PIECES = ["<unk>", "<s>", "a", "b", "c", " ", "-", "1", "\u2581", "\u00e9", "ab", "abc", "\u2581a", "<0xC3>", "<0xA4>", "\u0120", "\u0120a", "-b"]
MERGES = ["a b", "ab c", "\u2581 a", "\u0120 a"]
TEXT = "abc a\u0301 12 it's <s> b-b\u2581 \u00e9\u00e4  \n\u4e2d\0x"


def pairs(text=TEXT, flags=None, **parts):
    model = {"type": "BPE", "vocab": {p: i for i, p in enumerate(PIECES)}, "merges": MERGES}
    model.update(flags or {})
    parts["model"] = model
    return json.dumps(parts).encode() + b"\0" + (text if isinstance(text, bytes) else text.encode())


def split(pattern, behavior="Isolated", **more):
    return dict({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior}, **more)


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def token(content, number, **flags):
    return dict({"content": content, "id": number}, **flags)


LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
for name, data in {
    "plain": pairs(),
    "merges_as_lists": pairs(flags={"merges": [m.split() for m in MERGES]}),
    "merge_missing": pairs(flags={"merges": ["a z"]}),
    "unknown": pairs(flags={"unk_token": "<unk>", "fuse_unk": True}),
    "fallback": pairs(flags={"unk_token": "<unk>", "byte_fallback": True}),
    "whole_words": pairs(flags={"ignore_merges": True}, pre_tokenizer=split("\\s")),
    "sentencepiece": pairs(normalizer=sequence("normalizers", PREPEND, REPLACE)),
    "nfc": pairs(normalizer={"type": "NFC"}, text="a\u0323\u0301\u0316 \u1112\u1161\u11ab \u212b e\u0301"),
    "replace_regex": pairs(normalizer={"type": "Replace", "pattern": {"Regex": "x*|b+"}, "content": "ab"}),
    "gpt2": pairs(pre_tokenizer=LEVEL),
    "llama3": pairs(pre_tokenizer=sequence("pretokenizers", split(LLAMA3), dict(LEVEL, add_prefix_space=False, use_regex=False))),
    "removed": pairs(pre_tokenizer=split("b|-", "Removed")),
    "merged_with_previous": pairs(pre_tokenizer=split("b|-", "MergedWithPrevious")),
    "merged_with_next": pairs(pre_tokenizer=split("b|-", "MergedWithNext", invert=True)),
    "contiguous": pairs(pre_tokenizer=split("[ab]", "Contiguous")),
    "looks_back": pairs(pre_tokenizer=split("(?<=a)b|\\bc|^a|$")),
    "looks_far": pairs(pre_tokenizer=split("a*b|a"), text="a" * 600),
    "explodes": pairs(pre_tokenizer=split("(a|aa)+$"), text="a" * 60 + "b"),
    "digits": pairs(pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, split(" "))),
    "metaspace": pairs(pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}),
    "added": pairs(added_tokens=[token("<s>", 1, lstrip=True, rstrip=True), token("b", 3, single_word=True), token("12", 20)]),
    "added_normalized": pairs(normalizer=REPLACE, added_tokens=[token("- ", 20, normalized=True), token("<s>", 1, normalized=True, lstrip=True)]),
    "template": pairs(post_processor=sequence("processors", LEVEL, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                                              "special_tokens": {"<s>": {"ids": [1]}}})),
    "decoders": pairs(decoder=sequence("decoders", {"type": "Fuse"}, {"type": "Strip"})),
    "nfkc": pairs(normalizer={"type": "NFKC"}, text="\ufb01 \u00bd\u3131\u314f \uff76\uff9e a\u0323\u0301 \u1e9b\u0323\u03d3"),
    "strip": pairs(normalizer=sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": True}, REPLACE), text=" \u3000a b <s> c\n"),
    "punctuation": pairs(pre_tokenizer=sequence("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "WhitespaceSplit"})),
    "digits_behind_bytes": pairs(pre_tokenizer=sequence("pretokenizers", LEVEL, {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
    "unigram": unigram(parts={"pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Metaspace"})}, byte_fallback=True).encode() + b"\0" + TEXT.encode(),
    "unigram_map": unigram(parts={"normalizer": charsmap(), "added_tokens": [token("<s>", 8, lstrip=True)]}).encode() + b"\0ab a\xcc\x81\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 <s>\r\na\r",
    "not_utf8": pairs(text=b"a\xff\xc3 \xed\xa0\x80\xf0\x9f\x98"),
}.items():
    put("bpe", name, data)
