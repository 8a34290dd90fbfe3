#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of corpus_gguf."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
          11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98),
          19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4),
          27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36),
          41: (128, 18), 42: (64, 18)}  # type: numbers and bytes of a block


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(raw)) + raw


def item(kind, value):
    return text(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)


def value(key, kind, v):
    if isinstance(v, list):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(item(kind, x) for x in v)
    return text(key) + struct.pack("<I", kind) + item(kind, v)


def tensor(name, shape, kind, offset):
    return text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape) \
        + struct.pack("<IQ", kind, offset)


def gguf(values=(), tensors=(), data=b"", alignment=32, version=3, counts=None):
    head = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(tensors), len(values))))
    head += b"".join(values) + b"".join(tensors)
    return head + b"\0" * (-len(head) % alignment) + data


def bpe(pre="gpt-2", **other):
    letters = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ", "Ã", "©"]
    tokens = letters + ["ab", "Ġab", "<s>", "12"]
    return [value("general.architecture", STRING, "llama"), value("tokenizer.ggml.model", STRING, "gpt2"),
            value("tokenizer.ggml.pre", STRING, pre), value("tokenizer.ggml.tokens", STRING, tokens),
            value("tokenizer.ggml.token_type", I32, [3 if t == "<s>" else 1 for t in tokens]),
            value("tokenizer.ggml.merges", STRING, other.get("merges", ["a b", "Ġ ab", "1 2"])),
            value("tokenizer.ggml.bos_token_id", U32, other.get("bos", tokens.index("<s>"))),
            value("tokenizer.ggml.add_bos_token", BOOL, True)]


def pieces(**other):
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + ["▁", "a", "b", "c", "▁a", "ab", "▁ab"]
    types = [2, 3, 3] + [6] * 256 + [1] * 7
    scores = [0.0] * 259 + [-4.0, -5.0, -6.0, -7.0, -1.0, -2.0, -2.0]
    return [value("tokenizer.ggml.model", STRING, "llama"),
            value("tokenizer.ggml.tokens", STRING, other.get("tokens", tokens)),
            value("tokenizer.ggml.scores", F32, other.get("scores", scores)),
            value("tokenizer.ggml.token_type", other.get("kind", I32), other.get("types", types)),
            value("tokenizer.ggml.add_space_prefix", BOOL, other.get("prefix", True))]


def blocks(types, fill):
    """One block of each type, its bytes by fill(index)."""
    tensors, data = [], b""
    for t in types:
        numbers, size = BLOCKS[t]
        tensors.append(tensor("t%02d" % t, [numbers], t, len(data)))
        data += bytes(fill(i) & 255 for i in range(size))
        data += b"\0" * (-len(data) % 32)
    return gguf([], tensors, data)


def split(number, count, tensors):
    return gguf([value("split.no", U16, number), value("split.count", U16, count),
                 value("split.tensors.count", I32, tensors)], [EIGHT], b"\0" * 32)


def model(arch="llama", rates=None, more=(), bias=None, **other):
    """One layer of one head of two channels."""
    sizes = {"block_count": 1, "context_length": 8, "embedding_length": 2, "feed_forward_length": 1,
             "attention.head_count": 1, "attention.head_count_kv": 1}
    sizes.update(other)
    values = [value("general.architecture", STRING, arch)] + [value(f"{arch}.{k}", U32, n) for k, n in sizes.items()]
    values += [value(f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-5), value(f"{arch}.rope.freq_base", F32, 1e4)]
    values += list(more)
    shapes = {"token_embd": [2, 1], "output_norm": [2], "blk.0.attn_norm": [2], "blk.0.attn_q": [2, 2],
              "blk.0.attn_k": [2, 2], "blk.0.attn_v": [2, 2], "blk.0.attn_output": [2, 2], "blk.0.ffn_norm": [2],
              "blk.0.ffn_gate": [2, 1], "blk.0.ffn_up": [2, 1], "blk.0.ffn_down": [1, 2]}
    if rates:
        shapes["rope_freqs"] = [1]
    shapes = {n + ".weight": s for n, s in shapes.items()}
    if bias:
        shapes[bias] = [2]
    if arch == "qwen3":
        shapes.update({f"blk.0.attn_{c}_norm.weight": [2] for c in "qk"})
    if arch == "qwen2":
        shapes.update({f"blk.0.attn_{c}.bias": [2] for c in "qkv"})
    names = list(shapes)
    tensors = [tensor(n, s, 0, 32 * i) for i, (n, s) in enumerate(shapes.items())]
    return gguf(values, tensors, b"\0" * 32 * len(names))


EIGHT = tensor("a", [8], 0, 0)
CORPUS = {
    "good_empty": gguf(),
    "good_values": gguf([value("k%d" % k, k, 1.5 if k in (F32, F64) else "x" if k == STRING else 1)
                         for k in range(13) if k != ARRAY] + [value("l", STRING, ["", "é"]), value("n", I16, [-1, 2])]),
    "good_kinds": gguf([value("general.alignment", U32, 64)],
                       [tensor("a", [2, 3], 0, 0), tensor("b", [4], 1, 64), tensor("c", [2, 1, 2], 30, 128),
                        tensor("d", [32, 2], 8, 192), tensor("e", [256], 12, 320)],
                       bytes(range(24)).ljust(64, b"\0") + b"\1\x7c".ljust(64, b"\0") + b"\x80\x7f".ljust(64, b"\0")
                       + bytes(range(68)).ljust(128, b"\0") + b"\7" * 144, 64),
    "good_types_plain": blocks([t for t in BLOCKS if BLOCKS[t][0] < 256], lambda i: 37 * i + 1),
    "good_types_k": blocks([10, 11, 12, 13, 14, 23, 34, 35], lambda i: 37 * i + 1),
    "good_types_iq": blocks([16, 17, 18, 19, 21, 22, 29], lambda i: 37 * i + 1),
    "good_types_odd": blocks([t for t in BLOCKS if t not in (12, 13)], lambda i: 255),
    "good_split": split(0, 2, 2),
    "good_split_of_one": split(0, 1, 1),
    "bad_split": split(2, 2, 2),
    "bad_split_other": split(1, 2, 2),
    "bad_block_rows": gguf([], [tensor("a", [320, 16], 12, 0)], b"\0" * 2880),
    "bad_type_inside": gguf([], [tensor("a", [256], 15, 0)], b"\0" * 320),
    "good_bpe": gguf(bpe()),
    "good_llama_bpe": gguf(bpe("llama-bpe")),
    "good_qwen2": gguf(bpe("qwen2")),
    "good_default": gguf(bpe("default")),
    "good_smollm": gguf(bpe("smollm")),
    "good_tekken": gguf(bpe("tekken")),
    "good_pieces": gguf(pieces()),
    "good_empty_piece": gguf(pieces(tokens=["<unk>", "<s>", "a", ""], scores=[0.0] * 4, types=[2, 3, 1, 1])),
    "good_no_prefix": gguf(pieces(prefix=False)),
    "good_model": model(),
    "good_model_qwen2": model("qwen2"),
    "good_model_qwen3": model("qwen3", **{"attention.key_length": 2, "attention.value_length": 2}),
    "good_rates": model(rates=True),
    "good_yarn": model(more=[value("llama.rope.scaling.type", STRING, "yarn"), value("llama.rope.scaling.factor", F32, 4.0),
                             value("llama.rope.scaling.yarn_beta_fast", F32, 8.0), value("llama.rope.scaling.yarn_ext_factor", F32, 1.0)]),
    "good_model_lists": model(**{"attention.head_count_kv": [1], "feed_forward_length": [1]}),
    "bad_model_lists": model(**{"attention.head_count_kv": [1, 2]}),
    "bad_model_bias": model(bias="output_norm.bias"),
    "bad_model_heads": model(**{"attention.head_count_kv": 2}),
    "bad_model_experts": model(expert_count=2),
    "bad_model_layers": model(block_count=2),
    "bad_architecture": model("gemma"),
    "good_version_2": gguf([], [EIGHT], b"\0" * 32, version=2),
    "bad_magic": b"GGML" + gguf()[4:],
    "bad_version_1": gguf(version=1),
    "bad_endian": gguf(version=0x03000000),
    "bad_counts": gguf(counts=(1 << 60, 0)),
    "bad_counts_values": gguf(counts=(0, 1 << 60)),
    "bad_string": gguf([struct.pack("<Q", 1 << 63) + b"abc"]),
    "bad_array": gguf([text("a") + struct.pack("<IIQ", ARRAY, U64, 1 << 61)]),
    "bad_nested": gguf([text("a") + struct.pack("<IIQ", ARRAY, ARRAY, 1)]),
    "bad_type": gguf([text("a") + struct.pack("<IQ", 13, 0)]),
    "bad_flag": gguf([text("a") + struct.pack("<IB", BOOL, 2)]),
    "bad_duplicate": gguf([value("a", U8, 1), value("a", U8, 1)]),
    "bad_alignment": gguf([value("general.alignment", U32, 24)]),
    "bad_overlap": gguf([], [EIGHT, tensor("b", [8], 0, 0)], b"\0" * 64),
    "bad_range": gguf([], [tensor("a", [9], 0, 0)], b"\0" * 32),
    "bad_offset": gguf([], [tensor("a", [8], 0, 4)], b"\0" * 64),
    "bad_hole": gguf([], [tensor("a", [8], 0, 64)], b"\0" * 96),
    "bad_trailing": gguf([], [EIGHT], b"\0" * 65),
    "bad_rank": gguf([], [tensor("a", [1] * 5, 0, 0)]),
    "bad_overflow": gguf([], [tensor("a", [1 << 32, 1 << 32], 0, 0)]),
    "bad_block": gguf([], [tensor("a", [31], 8, 0)], b"\0" * 64),
    "bad_kind": gguf([], [tensor("a", [32], 31, 0)], b"\0" * 64),
    "bad_pre": gguf(bpe("nobody")),
    "bad_merge": gguf(bpe(merges=["a b", "ab c"])),
    "bad_bos": gguf(bpe(bos=9999)),
    "bad_scores": gguf(pieces(scores=[0.0, 1.0])),
    "bad_token_type": gguf(pieces(tokens=["<unk>", "a"], scores=[0.0] * 2, kind=U32, types=[2, 0xFF000001])),
    "bad_nan": gguf(pieces(scores=[float("nan")] * 266)),
    "bad_piece": gguf(pieces(tokens=["<unk>", "ab"], scores=[0.0, 0.0], types=[2, 1])),
}
folder = os.path.join(HERE, "corpus_gguf")
os.makedirs(folder, exist_ok=True)
for name, content in CORPUS.items():
    with open(os.path.join(folder, name), "wb") as f:
        f.write(content)
