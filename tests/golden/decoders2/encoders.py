#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Options of encoders that the other folders do not have: encoders.py FOLDER, this folder.

A forward pass in NumPy, f64, that shares no code with the program. It first repeats roberta, xlm-roberta, modernbert, big_bird and
nomic_bert beside it, which another program made, and stops if it is more than 1e-12 of the scale off. Then it writes
  roberta-pad          tokens of padding inside a text, pad_token_id 4, another activation
  modernbert-classes   all biases, a classifier of the mean over tokens, layer_types
  big_bird-classes     rescale_embeddings, no use_bias, a classifier with hidden_act, block_sparse of a short text
"""
import json
import math
import os
import struct
import sys

import numpy as np

HERE = sys.argv[1]
erf = np.vectorize(math.erf)
ACT = {"gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, "silu": lambda x: x / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0),
       "gelu_new": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2}


def load(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        raw = data[t["data_offsets"][0]:t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            x = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[t["dtype"]])
        out[name] = x.astype(np.float64).reshape(t["shape"])
    return out


def save(path, tensors):
    header, at = {}, 0
    for name, x in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + 4 * x.size]}
        at += 4 * x.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(x.astype("<f4").tobytes() for _, x in sorted(tensors.items())))


def norm(x, w, name, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * w[name + ".weight"] + w.get(name + ".bias", 0)


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)


def turn(x, theta):
    n, d = x.shape[1:]
    angle = np.arange(n)[:, None] * theta ** (-2 * np.arange(d // 2) / d)
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def attend(q, k, v, heads, theta, window, seen):
    q, k, v = (x.reshape(len(x), heads, -1).transpose(1, 0, 2) for x in (q, k, v))
    if theta:
        q, k = turn(q, theta), turn(k, theta)
    s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    if window is not None:
        i = np.arange(s.shape[-1])
        s = np.where(abs(i[:, None] - i) <= window, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    out = p / p.sum(-1, keepdims=True) @ v
    seen.append((q, k, out))
    return out.transpose(1, 0, 2).reshape(out.shape[1], -1)


def bert(c, w, ids, seen):
    p = "roberta." if "roberta" in c["model_type"] else "bert."
    eps, act, heads = c["layer_norm_eps"], ACT[c["hidden_act"]], c["num_attention_heads"]
    place = np.arange(len(ids))
    if p == "roberta.":
        pad = c["pad_token_id"]
        place = np.where(ids == pad, pad, pad + np.cumsum(ids != pad))
    scale = math.sqrt(c["hidden_size"]) if c.get("rescale_embeddings") else 1.0
    x = scale * w[p + "embeddings.word_embeddings.weight"][ids] + w[p + "embeddings.token_type_embeddings.weight"][0]
    states = [norm(x + w[p + "embeddings.position_embeddings.weight"][place], w, p + "embeddings.LayerNorm", eps)]
    for l in range(c["num_hidden_layers"]):
        x, at = states[-1], f"{p}encoder.layer.{l}."
        q, k, v = (linear(x, w, at + "attention.self." + name) for name in ("query", "key", "value"))
        a = norm(x + linear(attend(q, k, v, heads, 0, None, seen), w, at + "attention.output.dense"), w, at + "attention.output.LayerNorm", eps)
        states.append(norm(a + linear(act(linear(a, w, at + "intermediate.dense")), w, at + "output.dense"), w, at + "output.LayerNorm", eps))
    ends = {}
    if p + "pooler.weight" in w:
        ends["pooled"] = np.tanh(linear(states[-1][0], w, p + "pooler"))
    if "classifier.dense.weight" in w:
        f = act if p == "bert." else np.tanh
        ends["classes"] = linear(f(linear(states[-1][0], w, "classifier.dense")), w, "classifier.out_proj")
    return states, ends


def modernbert(c, w, ids, seen):
    eps, act, heads, D = c["norm_eps"], ACT[c["hidden_activation"]], c["num_attention_heads"], c["hidden_size"]
    states = [norm(w["model.embeddings.tok_embeddings.weight"][ids], w, "model.embeddings.norm", eps)]
    for l in range(c["num_hidden_layers"]):
        x, at = states[-1], f"model.layers.{l}."
        types = c.get("layer_types")
        full = types[l] == "full_attention" if types else l % c["global_attn_every_n_layers"] == 0
        y = norm(x, w, at + "attn_norm", eps) if l else x
        q, k, v = np.split(linear(y, w, at + "attn.Wqkv"), 3, -1)
        theta, window = (c["global_rope_theta"], None) if full else (c["local_rope_theta"], c["local_attention"] // 2)
        x = x + linear(attend(q, k, v, heads, theta, window, seen), w, at + "attn.Wo")
        u, g = np.split(linear(norm(x, w, at + "mlp_norm", eps), w, at + "mlp.Wi"), 2, -1)
        states.append(x + linear(act(u) * g, w, at + "mlp.Wo"))
    ends = {"final": norm(states[-1], w, "model.final_norm", eps)}
    if "classifier.weight" in w:
        given = ends["final"].mean(0) if c.get("classifier_pooling") == "mean" else ends["final"][0]
        ends["classes"] = linear(norm(ACT["gelu"](linear(given, w, "head.dense")), w, "head.norm", eps), w, "classifier")
    return states, ends


def nomic(c, w, ids, seen):
    eps, heads = c["layer_norm_epsilon"], c["n_head"]
    states = [norm(w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0], w, "emb_ln", eps)]
    for l in range(c["n_layer"]):
        x, at = states[-1], f"encoder.layers.{l}."
        q, k, v = np.split(linear(x, w, at + "attn.Wqkv"), 3, -1)
        a = norm(x + linear(attend(q, k, v, heads, c["rotary_emb_base"], None, seen), w, at + "attn.out_proj"), w, at + "norm1", eps)
        states.append(norm(a + linear(linear(a, w, at + "mlp.fc11") * ACT["silu"](linear(a, w, at + "mlp.fc12")), w, at + "mlp.fc2"), w, at + "norm2", eps))
    return states, {}


def run(c, w, ids):
    seen = []
    of = {"modernbert": modernbert, "nomic_bert": nomic}.get(c["model_type"], bert)
    states, ends = of(c, w, ids, seen)
    q, k, out = seen[1]
    return dict(ends, hidden=np.stack(states), q0=q, k0=k, out0=out)


AXIS = {"hidden": 1, "q0": 1, "k0": 1, "out0": 1, "final": 0}


def read(name):
    folder = os.path.join(HERE, name)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    return config, load(os.path.join(folder, "model.safetensors")), np.load(os.path.join(folder, "ids.npy"))


for name in ("roberta", "xlm-roberta", "modernbert", "big_bird", "nomic_bert"):
    rows = np.load(os.path.join(HERE, name, "rows.npy"))
    for what, got in run(*read(name)).items():
        path = os.path.join(HERE, name, what + ".npy")
        if os.path.exists(path):
            want = np.load(path)
            got = np.take(got, rows, AXIS[what]) if what in AXIS else got
            off = abs(got - want).max() / math.sqrt((want ** 2).mean())
            print(f"{name} {what} {off:.1e}")
            assert off < 1e-12, (name, what)


def write(name, config, tensors, ids):
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    tensors = {key: x.astype("<f4").astype(np.float64) for key, x in tensors.items()}
    save(os.path.join(folder, "model.safetensors"), tensors)
    rows = np.unique(np.append(np.arange(3, ids.size, 4), ids.size - 1))
    np.save(os.path.join(folder, "ids.npy"), ids)
    np.save(os.path.join(folder, "rows.npy"), rows)
    for what, x in run(config, tensors, ids).items():
        np.save(os.path.join(folder, what + ".npy"), np.take(x, rows, AXIS[what]) if what in AXIS else x)


rng = np.random.default_rng(26)
LABELS = {str(i): "abc"[i] for i in range(3)}
config, tensors, ids = read("roberta")
ids[[7, 8, 20]] = 4
tensors = {key: x for key, x in tensors.items() if not key.startswith("lm_head")}
write("roberta-pad", dict(config, pad_token_id=4, hidden_act="relu"), tensors, ids)

config, tensors, ids = read("modernbert")
D = config["hidden_size"]
for key in list(tensors):
    if key.endswith(".weight") and "embeddings.tok" not in key:
        tensors[key[:-6] + "bias"] = 0.2 * rng.standard_normal(tensors[key].shape[0])
tensors.pop("decoder.bias")
tensors.update({"classifier.weight": rng.standard_normal((3, D)) / 6, "classifier.bias": rng.standard_normal(3)})
kinds = ["full_attention" if l in (1, 4) else "sliding_attention" for l in range(config["num_hidden_layers"])]
write("modernbert-classes", dict(config, architectures=["ModernBertForSequenceClassification"], id2label=LABELS, classifier_pooling="mean",
                                 norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, layer_types=kinds), tensors, ids)

config, tensors, ids = read("big_bird")
tensors = {key: x for key, x in tensors.items()
           if not key.startswith("cls.") and not (".self." in key and key.endswith("bias")) and not key.startswith("bert.pooler")}
tensors.update({"classifier.dense.weight": rng.standard_normal((D, D)) / 6, "classifier.dense.bias": rng.standard_normal(D) / 6,
                "classifier.out_proj.weight": rng.standard_normal((3, D)) / 6, "classifier.out_proj.bias": rng.standard_normal(3)})
write("big_bird-classes", dict(config, architectures=["BigBirdForSequenceClassification"], id2label=LABELS, use_bias=False, rescale_embeddings=True,
                               attention_type="block_sparse", block_size=10, num_random_blocks=0), tensors, ids)
