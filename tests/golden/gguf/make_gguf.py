#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random decoders, as a Hugging Face checkpoint and as the GGUF files that llama.cpp would make of it. NumPy alone.

All weights are whole numbers of 7 bits times a power of two, and so the same in F32, F16, BF16 and Q8_0: every file
describes the same function to the last bit. Norms and biases are F32 in all of them, as llama.cpp has it."""
import json
import os
import struct

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, HEADS, KV, WIDTH, LAYERS = 32, 4, 2, 64, 2
K = HIDDEN // HEADS
KINDS = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


# ---- the model ----

def weights(rng, rows, cols, scale):
    whole = rng.integers(-127, 128, (rows, cols))
    whole[:, ::32] = 127  # so that the largest of each block is, and its scale a power of two
    return (whole * 2.0 ** np.round(np.log2(scale / 70))).astype(np.float32)


def model(seed, vocab, biases, tied, k=K, head_norms=False):
    rng = np.random.default_rng(seed)

    def norm(width=HIDDEN):
        return (1 + 0.1 * rng.standard_normal(width)).astype(np.float32)

    t = {"model.embed_tokens.weight": weights(rng, vocab, HIDDEN, 1.0), "model.norm.weight": norm()}
    if not tied:
        t["lm_head.weight"] = weights(rng, vocab, HIDDEN, 0.3)
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        t[p + "input_layernorm.weight"] = norm()
        t[p + "post_attention_layernorm.weight"] = norm()
        for name, rows, cols in (("self_attn.q_proj", HEADS * k, HIDDEN), ("self_attn.k_proj", KV * k, HIDDEN),
                                 ("self_attn.v_proj", KV * k, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * k),
                                 ("mlp.gate_proj", WIDTH, HIDDEN), ("mlp.up_proj", WIDTH, HIDDEN),
                                 ("mlp.down_proj", HIDDEN, WIDTH)):
            t[p + name + ".weight"] = weights(rng, rows, cols, 0.4)
            if biases and name[-6] in "qkv":
                t[p + name + ".bias"] = (0.3 * rng.standard_normal(rows)).astype(np.float32)
        if head_norms:
            t[p + "self_attn.q_norm.weight"], t[p + "self_attn.k_norm.weight"] = norm(k), norm(k)
    return t


# ---- numbers ----

def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("<u2").tobytes()


def q8_0(x):
    blocks = x.reshape(-1, 32)
    d = (np.abs(blocks).max(axis=1) / 127).astype(np.float16)
    q = np.round(blocks / d[:, None].astype(np.float32)).astype(np.int8)
    assert (q * d[:, None].astype(np.float32) == blocks).all()
    return b"".join(s.tobytes() + row.tobytes() for s, row in zip(d, q))


def encode(x, kind):
    if kind == "q8_0":
        return q8_0(x)
    if kind == "bf16":
        return bf16(x)
    y = x.astype("<f4" if kind == "f32" else "<f2")
    assert (y == x).all()
    return y.tobytes()


# ---- safetensors ----

def safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        kind = "F32" if x.ndim == 1 else "BF16"
        raw = x.tobytes() if x.ndim == 1 else bf16(x)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


# ---- GGUF ----

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    body, end = name.rsplit(".", 1)
    if body.startswith("model.layers."):
        layer, part = body[len("model.layers."):].split(".", 1)
        return f"blk.{layer}.{NAMES[part]}.{end}"
    return f"{NAMES[body]}.{end}"


def interleave(x, heads):
    """Rows of a head, first halves of rotary pairs first, become pairs side by side."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def item(kind, v):
    return text(v) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def value(key, kind, v):
    if isinstance(v, list):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(item(kind, x) for x in v)
    return text(key) + struct.pack("<I", kind) + item(kind, v)


def gguf(path, arch, tensors, values, kind):
    values = [value("general.architecture", STRING, arch), value("general.name", STRING, "tiny")] + values
    infos, data = b"", b""
    for name, x in tensors.items():
        if arch == "llama" and ".q_proj." in name:
            x = interleave(x, HEADS)
        if arch == "llama" and ".k_proj." in name:
            x = interleave(x, KV)
        used = kind if x.ndim == 2 else "f32"
        infos += text(gguf_name(name)) + struct.pack("<I", x.ndim)
        infos += b"".join(struct.pack("<Q", n) for n in reversed(x.shape))
        infos += struct.pack("<IQ", KINDS[used], len(data))
        data += encode(x, used)
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def sizes(arch, theta, eps):
    return [value(f"{arch}.{k}", U32, v) for k, v in
            (("block_count", LAYERS), ("context_length", 128), ("embedding_length", HIDDEN),
             ("feed_forward_length", WIDTH), ("attention.head_count", HEADS), ("attention.head_count_kv", KV))] + \
        [value(f"{arch}.attention.layer_norm_rms_epsilon", F32, eps), value(f"{arch}.rope.freq_base", F32, theta)]


def config(arch, vocab, theta, eps, tied):
    return {"architectures": [arch.capitalize() + "ForCausalLM"], "model_type": arch, "hidden_size": HIDDEN,
            "intermediate_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV, "vocab_size": vocab, "max_position_embeddings": 128, "rms_norm_eps": eps,
            "rope_theta": theta, "hidden_act": "silu", "tie_word_embeddings": tied}


def pieces():
    words = ["▁t", "he", "▁the", "▁a", "nd", "in", "▁in", "▁and"]
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁"] + list("abcdefghijklmnopqrstuvwxyz") + words
    kinds = [2, 3, 3, 6] + [1] * (len(tokens) - 4)
    scores = [0.0] * 4 + [-100.0] * 27 + [-float(i) for i in range(len(words))]
    return [value("tokenizer.ggml.model", STRING, "llama"), value("tokenizer.ggml.tokens", STRING, tokens),
            value("tokenizer.ggml.scores", F32, scores), value("tokenizer.ggml.token_type", I32, kinds),
            value("tokenizer.ggml.bos_token_id", U32, 1), value("tokenizer.ggml.unknown_token_id", U32, 0)], tokens


def byte_pairs():
    tokens = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ", "Ġt", "he", "Ġthe", "<|endoftext|>"]
    return [value("tokenizer.ggml.model", STRING, "gpt2"), value("tokenizer.ggml.pre", STRING, "qwen2"),
            value("tokenizer.ggml.tokens", STRING, tokens),
            value("tokenizer.ggml.token_type", I32, [3 if len(t) > 4 else 1 for t in tokens]),
            value("tokenizer.ggml.merges", STRING, ["Ġ t", "h e", "Ġt he"]),
            value("tokenizer.ggml.add_bos_token", BOOL, False)], tokens


def write(arch, seed, tokenizer, theta, eps, tied, kinds, k=K):
    """Heads of k channels that need not share the hidden width evenly, and have norms then, as in Qwen 3."""
    values, tokens = tokenizer
    folder = os.path.join(HERE, arch)
    os.makedirs(folder, exist_ok=True)
    tensors = model(seed, len(tokens), arch == "qwen2", tied, k, arch == "qwen3")
    about = config(arch, len(tokens), theta, eps, tied)
    if arch == "qwen3":
        about["head_dim"] = k
        values = values + [value(f"qwen3.attention.{of}_length", U32, k) for of in ("key", "value")]
    safetensors(os.path.join(folder, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(about, f, indent=1)
        f.write("\n")
    for kind in kinds:
        gguf(os.path.join(folder, kind + ".gguf"), arch, tensors, values + sizes(arch, theta, eps), kind)


write("llama", 1, pieces(), 10000.0, 1e-5, False, ["f32", "f16", "bf16", "q8_0"])
write("qwen2", 2, byte_pairs(), 1000000.0, 1e-6, True, ["q8_0"])
write("qwen3", 3, byte_pairs(), 1000000.0, 1e-6, True, ["q8_0"], k=16)
