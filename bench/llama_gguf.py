#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GGUF files of Llamas for bench/prompt.py and bench/cache_types.py. NumPy alone; quantising takes llama.cpp's own library.

    llama_gguf.py FOLDER OUT.gguf           F32 copy of a checkpoint in safetensors (one file, F32, F16 or BF16)
    llama_gguf.py tinyllama OUT.gguf        random weights, shape of TinyLlama (1.1 B)
    llama_gguf.py IN.gguf OUT.gguf LIBRARY  Q4_K_M, written by llama_model_quantize() of libllama.so

The tokenizer in these files is a stand-in, because both programs get ids."""
import ctypes
import json
import os
import struct
import sys

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TINYLLAMA = {"hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
             "intermediate_size": 5632, "vocab_size": 32000, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
             "max_position_embeddings": 8192, "tie_word_embeddings": False}
PARTS = (("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
         ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
         ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"))


# ---- tensors: pairs of names, in the checkpoint and in GGUF, and shapes ----

def shapes(c):
    """Returns (checkpoint name, GGUF name, shape) of every tensor."""
    H, I, V, heads = c["hidden_size"], c["intermediate_size"], c["vocab_size"], c["num_attention_heads"]
    k = c.get("head_dim") or H // heads
    kv = c["num_key_value_heads"] * k
    shape = {"attn_q": (heads * k, H), "attn_k": (kv, H), "attn_v": (kv, H), "attn_output": (H, heads * k),
             "ffn_gate": (I, H), "ffn_up": (I, H), "ffn_down": (H, I), "attn_norm": (H,), "ffn_norm": (H,)}
    out = [("model.embed_tokens.weight", "token_embd.weight", (V, H)), ("model.norm.weight", "output_norm.weight", (H,))]
    if not c["tie_word_embeddings"]:
        out.append(("lm_head.weight", "output.weight", (V, H)))
    for i in range(c["num_hidden_layers"]):
        out += [(f"model.layers.{i}.{a}.weight", f"blk.{i}.{b}.weight", shape[b]) for a, b in PARTS]
    return out


def safetensors(path):
    """Returns a function that reads a tensor of the file, as f32."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
    data = np.memmap(path, np.uint8, "r", 8 + size)

    def read(name, shape):
        t = header[name]
        raw = data[t["data_offsets"][0]:t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = raw.view({"F32": "<f4", "F16": "<f2"}[t["dtype"]]).astype(np.float32)
        assert tuple(t["shape"]) == shape, name
        return x.reshape(shape)
    return read


def drawn(name, shape):
    """Returns random weights whose products keep the size of their input; norms are 1."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    rng = np.random.default_rng([ord(x) for x in name])
    return rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[1]))


def interleave(x, heads):
    """Moves the two halves of a head's rotary pairs side by side, as llama.cpp has them."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(x.shape)


# ---- the file ----

def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def item(kind, v):
    return text(v) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def value(key, kind, v):
    if isinstance(v, list):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(item(kind, x) for x in v)
    return text(key) + struct.pack("<I", kind) + item(kind, v)


def values(c):
    """Returns the metadata: sizes, and a tokenizer of the right number of pieces."""
    k = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    sizes = (("block_count", c["num_hidden_layers"]), ("context_length", c["max_position_embeddings"]),
             ("embedding_length", c["hidden_size"]), ("feed_forward_length", c["intermediate_size"]),
             ("attention.head_count", c["num_attention_heads"]), ("vocab_size", c["vocab_size"]),
             ("attention.head_count_kv", c["num_key_value_heads"]), ("rope.dimension_count", k))
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    pieces += [f"p{i}" for i in range(len(pieces), c["vocab_size"])]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(pieces) - 259)
    return [value("general.architecture", STRING, "llama"), value("general.name", STRING, "bench")] + \
        [value("llama." + key, U32, v) for key, v in sizes] + \
        [value("llama.attention.layer_norm_rms_epsilon", F32, c["rms_norm_eps"]),
         value("llama.rope.freq_base", F32, c["rope_theta"]), value("tokenizer.ggml.model", STRING, "llama"),
         value("tokenizer.ggml.tokens", STRING, pieces), value("tokenizer.ggml.token_type", I32, kinds),
         value("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(pieces))]),
         value("tokenizer.ggml.bos_token_id", U32, 1), value("tokenizer.ggml.eos_token_id", U32, 2),
         value("tokenizer.ggml.unknown_token_id", U32, 0)]


def write(path, c, read):
    tensors, about = shapes(c), values(c)
    infos, at = b"", 0
    for _, name, shape in tensors:
        infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", 0, at)
        at += -(-4 * int(np.prod(shape)) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(about)) + b"".join(about) + infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for source, name, shape in tensors:
            x = read(source, shape)
            if ".attn_q." in name or ".attn_k." in name:
                x = interleave(x, c["num_attention_heads" if ".attn_q." in name else "num_key_value_heads"])
            raw = np.ascontiguousarray(x, "<f4").tobytes()
            f.write(raw + b"\0" * (-len(raw) % 32))


# ---- Q4_K_M ----

class Parameters(ctypes.Structure):
    """llama_model_quantize_params: the two members that are set here; the rest stays as the library fills it."""
    _fields_ = [("threads", ctypes.c_int32), ("ftype", ctypes.c_int32), ("rest", ctypes.c_char * 504)]


def quantise(source, path, library):
    lib = ctypes.CDLL(library)
    lib.llama_model_quantize_default_params.restype = Parameters
    p = lib.llama_model_quantize_default_params()
    p.threads, p.ftype = 2, 15  # LLAMA_FTYPE_MOSTLY_Q4_K_M
    lib.llama_backend_init()
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(path), ctypes.byref(p)):
        sys.exit(f"llama_gguf.py: cannot quantise {source}")


def main():
    if len(sys.argv) == 4:
        quantise(*sys.argv[1:])
    elif len(sys.argv) != 3:
        sys.exit(__doc__)
    elif sys.argv[1] == "tinyllama":
        write(sys.argv[2], TINYLLAMA, drawn)
    else:
        with open(os.path.join(sys.argv[1], "config.json")) as f:
            c = json.load(f)
        write(sys.argv[2], c, safetensors(os.path.join(sys.argv[1], "model.safetensors")))


if __name__ == "__main__":
    main()
