# SPDX-License-Identifier: Apache-2.0
"""kinds.json anew: errors of heads with learned sinks, score caps and windows under policies that keep some of their keys, in plain
NumPy and f64, with nothing of this project.

    python3 kinds.py FOLDER

FOLDER holds the models of ../decoders2 with reference values of all tokens (thin.py there keeps a quarter). States come from its
NAME/hidden.npy, which transformers confirms; q0.npy, k0.npy and out0.npy check what is made of them. A sink is one more key of value 0 that every policy keeps; a window leaves a query the keys begin .. end - 1, which policies
count from 0. Exact risks of draws without replacement are means over all sets.
"""

import itertools
import json
import os
import struct
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
models = sys.argv[1]


def tensors(path):
    """Tensors of a safetensors file by name, in f64."""
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        data = raw[8 + size + t["data_offsets"][0] : 8 + size + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data, {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[t["dtype"]])
        out[name] = x.astype(np.float64).reshape(t["shape"])
    return out


def rms(x, w, eps):
    return w * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def turn(x, f, factor):
    """Rotary positions by halves: x (n, d), f (d / 2) frequencies."""
    angle = np.arange(len(x))[:, None] * f
    c, s, half = np.cos(angle) * factor, np.sin(angle) * factor, len(f)
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * c - b * s, b * c + a * s], 1)


def yarn(theta, d, y):
    """Frequencies and factor of yarn without truncation."""
    f = theta ** (-np.arange(0, d, 2) / d)
    place = lambda turns: d * np.log(y["original_max_position_embeddings"] / (2 * np.pi * turns)) / (2 * np.log(theta))
    low, high = max(place(y["beta_fast"]), 0), min(place(y["beta_slow"]), d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    return f * (1 - ramp) + f / y["factor"] * ramp, 0.1 * np.log(y["factor"]) + 1


def gpt_oss(c, w, x, layer):
    """Queries, keys and values (heads, n, d) of a layer, and its sinks."""
    p = f"model.layers.{layer}."
    h = rms(x, w[p + "input_layernorm.weight"], c["rms_norm_eps"])
    f, factor = yarn(c["rope_theta"], c["head_dim"], c["rope_scaling"])
    side = lambda s: h @ w[f"{p}self_attn.{s}_proj.weight"].T + w[f"{p}self_attn.{s}_proj.bias"]
    return heads_of(c, side, lambda y: turn(y, f, factor)), w[p + "self_attn.sinks"]


def gemma2(c, w, x, layer):
    p = f"model.layers.{layer}."
    h = rms(x, 1 + w[p + "input_layernorm.weight"], c["rms_norm_eps"])
    f = c["rope_theta"] ** (-np.arange(0, c["head_dim"], 2) / c["head_dim"])
    side = lambda s: h @ w[f"{p}self_attn.{s}_proj.weight"].T
    return heads_of(c, side, lambda y: turn(y, f, 1.0)), None


def modernbert(c, w, x, layer):
    p, d = f"model.layers.{layer}.", c["hidden_size"] // c["num_attention_heads"]
    h = x
    if layer:
        mean = x.mean(-1, keepdims=True)
        h = w[p + "attn_norm.weight"] * (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + c["norm_eps"])
    theta = c["local_rope_theta"] if window_of("modernbert", c, layer) else c["global_rope_theta"]
    f = theta ** (-np.arange(0, d, 2) / d)
    wide = c["hidden_size"]
    rows = {s: w[p + "attn.Wqkv.weight"][i * wide : (i + 1) * wide] for i, s in enumerate("qkv")}
    c = dict(c, head_dim=d, num_key_value_heads=c["num_attention_heads"])
    return heads_of(c, lambda s: h @ rows[s].T, lambda y: turn(y, f, 1.0)), None


def heads_of(c, side, turned):
    d, group = c["head_dim"], c["num_attention_heads"] // c["num_key_value_heads"]
    cut = lambda y: [y[:, i : i + d] for i in range(0, y.shape[1], d)]
    q = [turned(y) for y in cut(side("q"))]
    k = [turned(y) for y in cut(side("k")) for _ in range(group)]
    v = [y for y in cut(side("v")) for _ in range(group)]
    return np.array(q), np.array(k), np.array(v)


def window_of(name, c, layer):
    """Keys that a causal query sees, or keys to each side; 0: all."""
    if name == "modernbert":
        return 0 if layer % c["global_attn_every_n_layers"] == 0 else c["local_attention"] // 2
    if "layer_types" in c:
        return c["sliding_window"] if c["layer_types"][layer] == "sliding_attention" else 0
    return 0 if layer % 2 else c["sliding_window"]


def weights(scores, sink):
    """Softmax over keys and, last, the sink."""
    s = np.append(scores, -np.inf if sink is None else sink)
    e = np.exp(s - s.max())
    return e / e.sum()


def output(scores, v, sink):
    w = weights(scores, sink)
    return w[:-1] @ v


def scores_at(name, c, q, k, i, layer):
    """Scores of query i over the keys that it sees, capped where the model caps them."""
    begin, end = seen_by(name, len(k), window_of(name, c, layer), i)
    cap = c.get("attn_logit_softcapping")
    s = (k[begin:end] @ q[i]) / np.sqrt(c.get("query_pre_attn_scalar", q.shape[1]))
    return cap * np.tanh(s / cap) if cap else s


def check(folder, w, c, maker, layer=1):
    """What is made of layer 1 is what the golden folder has."""
    name = os.path.basename(folder)
    (q, k, v), sinks = maker(c, w, np.load(folder + "/hidden.npy")[layer], layer)
    for mine, theirs in ((q, "q0"), (k, "k0")):
        want = np.load(f"{folder}/{theirs}.npy")
        mine = mine[:: len(mine) // len(want)]
        assert abs(mine - want).max() < 1e-12 * abs(want).max(), (name, theirs)
    y = np.array([[output(scores_at(name, c, q[h], k[h], i, layer), v[h][slice(*seen_by(name, len(v[h]), window_of(name, c, layer), i))],
                          None if sinks is None else sinks[h]) for i in range(len(v[h]))] for h in range(len(q))])
    want = np.load(folder + "/out0.npy")
    assert abs(y - want).max() < 1e-12 * abs(want).max(), (name, "out0")


def seen_by(name, n, window, i):
    if name == "modernbert":
        return (max(0, i - window), min(n, i + window + 1)) if window else (0, n)
    return (max(0, i - window + 1) if window else 0), i + 1


def case(name, maker, layers, queries):
    folder = f"{models}/{name}"
    c, w = json.load(open(folder + "/config.json")), tensors(folder + "/model.safetensors")
    check(folder, w, c, maker)
    states, rows = np.load(folder + "/hidden.npy"), []
    for layer in layers:
        (q, k, v), sinks = maker(c, w, states[layer], layer)
        window = window_of(name, c, layer)
        for head in (0, len(q) - 1):
            sink = None if sinks is None else sinks[head]
            for i in queries:
                begin, end = seen_by(name, len(states[layer]), window, i)
                s = scores_at(name, c, q[head], k[head], i, layer)
                rows.append(row(s, v[head, begin:end], sink, i - begin, name != "modernbert", dict(layer=layer, head=head, query=i, begin=begin)))
    return {"model": name, "rows": rows}


STREAM, TOP, DRAWS = (2, 4), 5, 3  # sinks and window; keys; keys drawn beside 1 sure one


def row(s, v, sink, at, causal, out):
    n, y, w = len(s), output(s, v, sink), weights(s, sink)
    off = np.vstack([v, np.zeros(v.shape[1])]) - y
    near = range(at - STREAM[1] + 1, at + 1) if causal else range(at - STREAM[1], at + STREAM[1] + 1)
    stream = sorted(set(range(min(STREAM[0], n))) | {j for j in near if 0 <= j < n})
    top = sorted(np.argsort(-s, kind="stable")[:TOP])
    error = lambda keys: float(((output(s[keys], v[keys], sink) - y) ** 2).sum())
    out.update(seen=n, ess=float(1 / (w * w).sum()), spread2=float(w @ (off * off).sum(1)))
    out["stream"], out["stream_mass"] = error(stream), float(w[stream].sum() + w[-1])
    out["top"], out["top_mass"] = error(top), float(w[top].sum() + w[-1])
    if n <= 20:  # BigBird with one global key, its own key and keys at random, without replacement
        sure = sorted({0, at})
        rest = [j for j in range(n) if j not in sure]
        if len(rest) > DRAWS:
            sets = [error(sorted(sure + list(x))) for x in itertools.combinations(rest, DRAWS)]
            out["random"] = float(np.mean(sets))
    return out


cases = [
    case("gpt_oss", gpt_oss, (0, 1), (9, 30, 49)),
    case("gemma2", gemma2, (0, 1), (9, 30, 49)),
    case("modernbert", modernbert, (0, 1), (2, 25, 49)),
]
parts = {"stream_sinks": STREAM[0], "stream_window": STREAM[1], "top_keys": TOP, "draws": DRAWS}
json.dump({**parts, "cases": cases}, open(here + "/kinds.json", "w"), indent=1)
open(here + "/kinds.json", "a").write("\n")
