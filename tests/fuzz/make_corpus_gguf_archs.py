#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of corpus_gguf that are models: one of each architecture, a few kilobytes each, and tokenizers. The golden
checkpoints are made smaller, size by size, and converted by tests/golden/gguf/convert.py."""
import json
import os
import shutil
import struct
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path.insert(0, os.path.join(GOLDEN, "gguf"))
from convert import convert, first, read_checkpoint, value  # noqa: E402

FOLDERS = ["decoders/gpt2", "decoders/neox"] + ["decoders2/" + f for f in
           """gemma gemma2 gemma3-embedding phi3 phi4-mini smollm3 olmo3 granite ministral3 gpt_oss qwen3_moe mixtral cohere
           cohere2 exaone4 stablelm starcoder2 roberta nomic_bert modernbert""".split()]
HIDDEN, DIM, VOCAB, POSITIONS = 8, 4, 8, 8


def shrink(config, tensors):
    """Heads of 4 channels, 2 of them (1 of keys), 2 experts, 2 layers, and everything else 8 wide."""
    heads = first(config, "num_attention_heads", "n_head")
    kv = config.get("num_key_value_heads", heads)
    width = first(config, "hidden_size", "n_embd")
    dim, inner = config.get("head_dim") or width // heads, first(config, "intermediate_size", "n_inner") or 4 * width
    few = 1 if kv < heads else 2
    sizes = {width: HIDDEN, inner: HIDDEN, 2 * inner: 2 * HIDDEN, heads * dim: 2 * DIM, kv * dim: few * DIM, dim: DIM,
             (heads + 2 * kv) * dim: (2 + 2 * few) * DIM, config["vocab_size"]: VOCAB}
    for key in ("moe_intermediate_size",):
        if key in config:
            sizes[config[key]], config[key] = HIDDEN, HIDDEN
    positions = first(config, "max_position_embeddings", "n_positions")
    sizes[positions] = POSITIONS
    experts = first(config, "num_local_experts", "num_experts")
    small = {}
    for name, x in tensors.items():
        parts = name.split(".")
        layer = next((int(p) for p in parts if p.isdigit()), 0)
        expert = int(parts[parts.index("experts") + 1]) if "experts" in parts and parts[parts.index("experts") + 1].isdigit() else 0
        if layer > 1 or expert > 1:
            continue
        shape = [sizes.get(n, n) for n in x.shape]
        if experts and (x.ndim == 3 or "router" in name or name.endswith("gate.weight") or (x.ndim == 2 and "bias" in name)):
            shape[0] = 2
        if x.shape == (heads, dim) or x.shape == (kv, dim):
            shape = [2 if x.shape[0] == heads else few, DIM]
        if "sinks" in name:
            shape = [2]
        small[name] = np.resize(x, shape).astype(np.float32)
    for key in ("hidden_size", "n_embd", "intermediate_size", "n_inner"):
        if key in config:
            config[key] = HIDDEN
    if config["model_type"] == "gpt2":
        for name in small:
            if "mlp.c_fc" in name:
                small[name] = np.resize(small[name], [HIDDEN, 4 * HIDDEN] if small[name].ndim == 2 else [4 * HIDDEN])
            elif "mlp.c_proj.weight" in name:
                small[name] = np.resize(small[name], [4 * HIDDEN, HIDDEN])
    for key, n in (("num_attention_heads", 2), ("n_head", 2), ("num_key_value_heads", few), ("head_dim", DIM), ("vocab_size", VOCAB),
                   ("max_position_embeddings", POSITIONS), ("n_positions", POSITIONS), ("num_hidden_layers", 2), ("n_layer", 2),
                   ("num_local_experts", 2), ("num_experts", 2), ("num_experts_per_tok", 1), ("sliding_window", 2),
                   ("original_max_position_embeddings", 4), ("query_pre_attn_scalar", DIM)):
        if config.get(key) is not None:
            config[key] = n
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:2]
    for key in ("rotary_pct", "partial_rotary_factor"):
        if key in config:
            config[key] = 0.5
    rope = config.get("rope_scaling") or {}
    for key in ("short_factor", "long_factor"):
        if key in rope:
            rope[key], config["partial_rotary_factor"] = rope[key][:1], 0.5
    return small


def save(folder, config, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)


def tokenizers(out):
    """Unigram and WordPiece with a few tokens."""
    t5 = ["<pad>", "</s>", "<unk>", "▁", "a", "b", "▁ab", "<0x0A>", "12"]
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "b", "▁ab", "▁1", "2"]
    cases = {"good_unigram": {"model": "t5", "tokens": t5, "token_type": [3, 3, 2, 1, 1, 1, 1, 6, 4],
                              "scores": [0.0, 0.0, 0.0, -2.0, -3.0, -3.5, -1.0, -4.0, -5.0], "remove_extra_whitespaces": False},
             "good_wordpiece": {"model": "bert", "tokens": bert, "token_type": [3] * 4 + [1] * 5, "unknown_token_id": 1,
                                "cls_token_id": 2, "seperator_token_id": 3},
             "bad_unigram_charsmap": {"model": "t5", "tokens": t5, "token_type": [3, 3, 2, 1, 1, 1, 1, 6, 4], "scores": [0.0] * 9,
                                      "precompiled_charsmap": [4, 0, 0, 0]}}
    for name, values in cases.items():
        values = {"tokenizer.ggml." + k: v for k, v in values.items()}
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(value(k, v) for k, v in values.items())
        with open(os.path.join(out, name), "wb") as f:
            f.write(head + b"\0" * (-len(head) % 32))


def main():
    out = os.path.join(HERE, "corpus_gguf")
    folder = tempfile.mkdtemp()
    for name in FOLDERS:
        config, tensors = read_checkpoint(os.path.join(GOLDEN, name))
        save(folder, config, shrink(config, tensors))
        convert(folder, os.path.join(out, "arch_" + name.split("/")[1]))
    shutil.rmtree(folder)
    tokenizers(out)


main()
