# SPDX-License-Identifier: Apache-2.0
"""Writes small Unigram tokenizers and ids.jsonl beside this file: texts and their ids, with special tokens.

Run once with Debian's python3-regex and python3-sentencepiece 0.1.97. SentencePiece trains the pieces on the strings of
wordpiece.jsonl and compiles the table of replacements from RULES; it takes no part in the ids. Those come from the functions below,
which follow the description of Hugging Face's library (docs and behaviour of tokenizers 0.15) and share nothing with the C code:
replacements are looked up in RULES, not in the compiled table.
"""
import base64
import json
import pathlib
import tempfile
import unicodedata

import regex
import sentencepiece

HERE = pathlib.Path(__file__).parent
STRINGS = [json.loads(line)["text"] for line in open(HERE.parent / "wordpiece.jsonl")]


# ---- rules of replacement: some of NFKC, white space, controls ----

def rules():
    out = {}
    singles = [*range(0xFF01, 0xFF5F), *range(0xFF61, 0xFFA0), *range(0x2460, 0x2474), *range(0x2160, 0x2180), *range(0xFB00, 0xFB07),
               0x2122, 0x2126, 0x212B, 0xBD, 0xB2, 0x2026, 0xAA, 0x1E9B, 0xFDFA]
    for c in singles:
        out[chr(c)] = unicodedata.normalize("NFKC", chr(c))
    for letter in "aeiouAEIOUncNC":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u0327":
            if len(unicodedata.normalize("NFC", letter + mark)) == 1:
                out[letter + mark] = unicodedata.normalize("NFC", letter + mark)
    for c in range(0xFF66, 0xFF9E):
        for mark in "\uff9e\uff9f":
            both = unicodedata.normalize("NFKC", chr(c) + mark)
            if len(both) == 1:
                out[chr(c) + mark] = both
    for c in "\t\n\r\u00a0\u2003\u3000\u2028":
        out[c] = " "
    for c in "\x01\x07\u200b\ufeff\u00ad":
        out[c] = ""
    return out


RULES = rules()


def replacement(part):
    """The replacement of the shortest rule that a text begins with, None: there is none."""
    for end in range(1, len(part) + 1):
        if part[:end] in RULES:
            return RULES[part[:end]]
    return None


def precompiled(text):
    out = []
    for cluster in regex.findall(r"\X", text):
        whole = replacement(cluster) if len(cluster.encode()) < 6 else None
        if whole is not None:
            out.append(whole)
            continue
        for c in cluster:
            new = replacement(c)
            out.append(c if new is None else new)
    return "".join(out)


# ---- the best path ----

def viterbi(word, model):
    """Ids of a word. `model`: pieces with scores, unk_id, byte_fallback."""
    ids = {piece: i for i, (piece, _) in enumerate(model["vocab"])}
    scores = {piece: model["vocab"][i][1] for piece, i in ids.items()}
    unknown_score = min(score for _, score in model["vocab"]) - 10
    longest = max(map(len, ids))
    best = [None] * (len(word) + 1)  # score, begin, id
    best[0] = (0.0, 0, None)
    for begin in range(len(word)):
        offers = [(word[begin:end], end) for end in range(begin + 1, min(len(word), begin + longest) + 1) if word[begin:end] in ids]
        candidates = [(best[begin][0] + scores[p], end, ids[p]) for p, end in offers]
        if not any(end == begin + 1 for _, end in offers):
            candidates.append((best[begin][0] + unknown_score, begin + 1, model["unk_id"]))
        for score, end, i in candidates:
            if best[end] is None or score > best[end][0]:
                best[end] = (score, begin, i)
    parts, end = [], len(word)
    while end:
        _, begin, i = best[end]
        if i == model["unk_id"] and parts and parts[-1][1] == model["unk_id"]:
            parts[-1] = (word[begin:end] + parts[-1][0], i)
        else:
            parts.append((word[begin:end], i))
        end = begin
    out = []
    for text, i in reversed(parts):
        spelt = ["<0x%02X>" % b for b in text.encode()]
        if text in ids:
            out.append(ids[text])
        elif model.get("byte_fallback") and all(b in ids for b in spelt):
            out += [ids[b] for b in spelt]
        else:
            out.append(model["unk_id"])
    return out


# ---- tokenizers ----

def train(size, **more):
    """Pieces with scores of a vocabulary, and its table of replacements."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, table = folder + "/corpus.txt", folder + "/rules.tsv"
        hexes = lambda text: " ".join("%X" % ord(c) for c in text)
        with open(table, "w") as f:
            f.writelines(hexes(a) + "\t" + hexes(b) + "\n" for a, b in RULES.items())
        with open(corpus, "w") as f:
            f.writelines(s.replace("\n", " ").replace("\0", " ") + "\n" for s in STRINGS)
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=folder + "/m", vocab_size=size, model_type="unigram", normalization_rule_tsv=table,
                                                 minloglevel=2, hard_vocab_limit=False, num_threads=1, character_coverage=0.98, **more)
        sp = sentencepiece.SentencePieceProcessor(model_file=folder + "/m.model")
        pieces = [[sp.id_to_piece(i), sp.get_score(i)] for i in range(sp.get_piece_size())]
        return pieces, find_table(open(folder + "/m.model", "rb").read())


def find_table(model):
    """The bytes of normalizer_spec.precompiled_charsmap (fields 3 and 2) of a SentencePiece model."""
    def fields(data):
        at = 0
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                b = data[at]
                at += 1
                value |= (b & 127) << shift
                shift += 7
                if b < 128:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 2:
                size = varint()
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 0:
                varint()
            else:
                at += 4 if key & 7 == 5 else 8
    spec = dict(fields(model))[3]
    return dict(fields(spec))[2]


def added(content, number, **flags):
    return dict({"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}, **flags)


SPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}


def xlmr_like():
    pieces, table = train(1000)
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]] + pieces[3:] + [["<mask>", 0.0]]
    mask = len(vocab) - 1
    special = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    return {
        "version": "1.0",
        "added_tokens": [added("<s>", 0), added("<pad>", 1), added("</s>", 2), added("<unk>", 3), added("<mask>", mask, lstrip=True)],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, SPACE]},
        "post_processor": {"type": "TemplateProcessing", "single": [special("<s>"), {"Sequence": {"id": "A", "type_id": 0}}, special("</s>")],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False},
    }


def bytes_like():
    """Bytes to fall back on, NFKC, several spaces as one, the end stripped."""
    pieces, _ = train(1200, byte_fallback=True)
    return {
        "version": "1.0", "added_tokens": [added("<unk>", 0), added("<s>", 1), added("</s>", 2)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Strip", "strip_left": False, "strip_right": True},
                                                           {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
        "pre_tokenizer": SPACE, "post_processor": None, "decoder": None,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True},
    }


def ties():
    """Equal scores, positive scores, a piece twice, unknown characters that are a piece together, bytes that are incomplete."""
    vocab = [["<unk>", 0.0], ["a", -1.0], ["b", -1.0], ["ab", -2.0], ["aba", -3.0], ["ba", -2.0], ["abab", -4.0], ["c", -2.5], ["cc", -5.0], ["ccc", -7.5],
             ["bab", 1.0], ["babz", -40.0], ["xy", -40.0], ["d", -3.0], ["dd", -6.5], ["d", -3.25], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["\u2581", -2.0], ["\u2581a", -3.0]]
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": dict(SPACE, prepend_scheme="never", split=False), "post_processor": None, "decoder": None,
            "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": True}}


# ---- ids ----

def words_of(name, text):
    if name == "xlmr-like":
        words = [w if w.startswith("\u2581") else "\u2581" + w for w in regex.split(r"\p{White_Space}+", precompiled(text)) if w]
        return [part for w in words for part in regex.findall(r"\u2581[^\u2581]*", w)]
    if name == "bytes-like":
        text = regex.sub(" {2,}", " ", regex.sub(r"\p{White_Space}+\Z", "", unicodedata.normalize("NFKC", text))).replace(" ", "\u2581")
        text = text if not text or text.startswith("\u2581") else "\u2581" + text
        return regex.findall(r"\u2581?[^\u2581]+|\u2581", text)
    return [text.replace(" ", "\u2581")] if text else []


ODD = ["", " ", "  a  b ", "\t\r\n", "e\u0301a\u0300 cafe\u0301", "\uff76\uff9e\uff77 \uff8a\uff9f", "\ufb01ne \ufb01\u0301x \ufb01\u0301\u0301", "a\u0301\u0316 \u212b\u0301", "\r\nx\r\n", "\u00ad\u200b", "x\u00ady \ufeffz",
       "\u2460\u2461 \u2167 \uff28\uff45\uff4c\uff4c\uff4f", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\u4e2d\u6587\u4e2d\u6587", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\ufdfa", "\u1100\u1161\u11a8", "\u3131\u314f", "\u1e9b\u0323",
       "\u03d3 \u017f \u00a8 \u00b4x", "xy", "xyz", "xyxy", "ababab", "aabbaabb", "bababa", "cccccc", "ccc ccc", "ddd", "\u00e9", "\u00e9\u00e9", "\u00e8\u00e9", "x\u00e9y", "\u00e9\u00e8", "abxyab", "q", "qq", "aq", "qa", "a b", "\u2581a", "Hello world", "unaffable", "babz", "babzz", "\uff41\u20dd b\uff42\u20dd", "\uff43\u0301"]
TOKENIZERS = {"xlmr-like": xlmr_like(), "bytes-like": bytes_like(), "ties": ties()}
with open(HERE / "ids.jsonl", "w") as out:
    for name, tokenizer in TOKENIZERS.items():
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")) + "\n")
        model = tokenizer["model"]
        around = ([0], [2]) if name == "xlmr-like" else ([], [])
        for text in ODD + [s for s in STRINGS[:: 30 if name == "ties" else 4] if "\0" not in s and len(s) < 400 and not regex.search(r"<(s|pad|/s|unk|mask)>", s)]:
            ids = [i for word in words_of(name, text) for i in viterbi(word, model)]
            out.write(json.dumps({"tokenizer": name, "text": text, "ids": around[0] + ids + around[1]}) + "\n")
    mask = len(TOKENIZERS["xlmr-like"]["model"]["vocab"]) - 1
    path = lambda word: viterbi("\u2581" + word, TOKENIZERS["xlmr-like"]["model"])
    for text, ids in [("a <mask> b", path("a") + [mask] + path("b")), ("a<mask>b", path("a") + [mask] + path("b")), ("<mask>", [mask]), ("x </s>", path("x") + [2])]:
        out.write(json.dumps({"tokenizer": "xlmr-like", "text": text, "ids": [0] + ids + [2]}) + "\n")
