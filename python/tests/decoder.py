# SPDX-License-Identifier: Apache-2.0
"""A Llama or Qwen3 decoder in plain NumPy and f64, whose attention is given: for tests of caches."""

import json
import os
import struct

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16}


def read_weights(path):
    """Returns the tensors of a safetensors file, in f64."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(data[first:last], dtype=TYPES[entry["dtype"]])
            out[name] = flat.reshape(entry["shape"]).astype(np.float64)
    return out


class Decoder:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.w = read_weights(os.path.join(folder, "model.safetensors"))
        c = self.config
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        self.d = c.get("head_dim", c["hidden_size"] // self.heads)
        self.inverse = c["rope_theta"] ** (-np.arange(0, self.d, 2) / self.d)

    def norm(self, x, name):
        eps = self.config["rms_norm_eps"]
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * self.w[name]

    def turn(self, x):
        """Applies rotary positions to (heads, n, d)."""
        angle = np.arange(x.shape[1])[:, None] * self.inverse
        cos, sin, half = np.cos(angle), np.sin(angle), self.d // 2
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def project(self, x, layer, part, heads):
        """Returns (heads, n, d) of queries, keys or values."""
        name = f"model.layers.{layer}.self_attn.{part}"
        rows = x @ self.w[f"{name}_proj.weight"].T
        rows = rows.reshape(len(x), heads, self.d).transpose(1, 0, 2)
        return self.norm(rows, f"{name}_norm.weight") if f"{name}_norm.weight" in self.w else rows

    def logits(self, ids, attention):
        """Returns logits (n, vocabulary). attention(layer, q, k, v, plain_q) gives (heads, n, d)."""
        x = self.w["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            h = self.norm(x, f"{name}.input_layernorm.weight")
            plain = self.project(h, layer, "q", self.heads)
            k = self.turn(self.project(h, layer, "k", self.kv_heads))
            v = self.project(h, layer, "v", self.kv_heads)
            y = attention(layer, self.turn(plain), k, v, plain)
            x = x + y.transpose(1, 0, 2).reshape(len(x), -1) @ (
                self.w[f"{name}.self_attn.o_proj.weight"].T
            )
            h = self.norm(x, f"{name}.post_attention_layernorm.weight")
            gate = h @ self.w[f"{name}.mlp.gate_proj.weight"].T
            up = h @ self.w[f"{name}.mlp.up_proj.weight"].T
            x = x + (gate / (1.0 + np.exp(-gate)) * up) @ self.w[f"{name}.mlp.down_proj.weight"].T
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        return self.norm(x, "model.norm.weight") @ head.T
