#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A StableLM whose heads have norms of their own and whose branches are parallel, in NumPy: stablelm_heads.py FOLDER."""
import json
import os
import struct
import sys

import numpy as np

D, H, K, d, F, V, L, n = 24, 4, 2, 8, 32, 53, 3, 33
TURNING = 4  # int(d * .5)
rng = np.random.default_rng(11)
tensors = {}


def draw(name, *shape, around=0.0, spread=None):
    x = (around + rng.standard_normal(shape) * (spread or shape[-1] ** -0.5)).astype(np.float32)
    tensors[name] = x
    return x.astype(float)


def norm(x, w, b=0.0):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * w + b


def turn(x):
    angle = np.arange(n)[:, None] * 10000.0 ** (-2 * np.arange(TURNING // 2) / TURNING)
    a, b = x[:, :TURNING // 2], x[:, TURNING // 2:TURNING]
    return np.hstack([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[:, TURNING:]])


def heads(y, p, side, count):
    rows = (y @ draw(p + f"self_attn.{side}_proj.weight", count * d, D).T).reshape(n, count, d).transpose(1, 0, 2)
    if side == "v":
        return rows
    return np.array([turn(norm(r, draw(p + f"self_attn.{side}_layernorm.norms.{h}.weight", d, around=1.0, spread=0.3)))
                     for h, r in enumerate(rows)])


ids = rng.integers(0, V, n)
x = draw("model.embed_tokens.weight", V, D, spread=1.0)[ids]
hidden, kept = [x], {}
for layer in range(L):
    p = f"model.layers.{layer}."
    y = norm(x, draw(p + "input_layernorm.weight", D, around=1.0, spread=0.1), draw(p + "input_layernorm.bias", D, spread=0.1))
    q, k, v = heads(y, p, "q", H), heads(y, p, "k", K), heads(y, p, "v", K)
    scores = np.einsum("hid,hjd->hij", q, np.repeat(k, H // K, 0)) / np.sqrt(d)
    weights = np.exp(np.where(np.tri(n, dtype=bool), scores, -np.inf))
    out = np.einsum("hij,hjd->hid", weights / weights.sum(-1, keepdims=True), np.repeat(v, H // K, 0))
    if layer == 1:
        kept = {"q0": q, "k0": k, "out0": out}
    gate = y @ draw(p + "mlp.gate_proj.weight", F, D).T
    up = y @ draw(p + "mlp.up_proj.weight", F, D).T
    x = (x + out.transpose(1, 0, 2).reshape(n, H * d) @ draw(p + "self_attn.o_proj.weight", D, H * d).T
         + (gate / (1 + np.exp(-gate)) * up) @ draw(p + "mlp.down_proj.weight", D, F).T)
    hidden.append(x)
last = norm(x, draw("model.norm.weight", D, around=1.0, spread=0.1), draw("model.norm.bias", D, spread=0.1))
logits = last @ draw("lm_head.weight", V, D).T

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
config = {"architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_size": D, "head_dim": d, "intermediate_size": F,
          "num_hidden_layers": L, "num_attention_heads": H, "num_key_value_heads": K, "vocab_size": V, "max_position_embeddings": 64,
          "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "qk_layernorm": True, "use_parallel_residual": True}
with open(os.path.join(folder, "config.json"), "w") as file:
    json.dump(config, file, indent=1)
header, data = {}, b""
for name, x in tensors.items():
    header[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [len(data), len(data) + x.nbytes]}
    data += x.tobytes()
text = json.dumps(header).encode()
with open(os.path.join(folder, "model.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
rows = np.arange(n)
for name, x in dict(kept, ids=ids, rows=rows, hidden=np.array(hidden), logits=logits).items():
    np.save(os.path.join(folder, name + ".npy"), x)
