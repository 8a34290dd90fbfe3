# SPDX-License-Identifier: Apache-2.0
"""positions.json anew: every head of models/pebble over 96 tokens, place by place, in plain Python and f64, with nothing of
this project and no library. Half a minute.

    python3 positions.py
"""

import json
import math
import os
import struct
from operator import mul

here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(here, "..", "..", "..", "models", "pebble")
raw = open(os.path.join(folder, "model.safetensors"), "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
tensors = json.loads(raw[8 : 8 + size])

LAYERS, HEADS, GROUP, K, THETA, EPS, SINKS, LOCAL = 4, 6, 3, 32, 10000.0, 1e-5, 4, 64


def tensor(name):
    begin, end = tensors[name]["data_offsets"]
    numbers = struct.unpack(f"<{(end - begin) // 2}e", raw[8 + size + begin : 8 + size + end])
    shape = tensors[name]["shape"]
    if len(shape) == 1:
        return numbers
    return [numbers[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]


def dot(a, b):
    return sum(map(mul, a, b))


def times(matrix, x):
    return [dot(row, x) for row in matrix]


def norm(x, weight):
    scale = 1 / math.sqrt(dot(x, x) / len(x) + EPS)
    return [v * scale * w for v, w in zip(x, weight)]


def rotated(x, place):
    half = len(x) // 2
    out = [0.0] * len(x)
    for c in range(half):
        angle = place * THETA ** (-2 * c / len(x))
        out[c] = x[c] * math.cos(angle) - x[c + half] * math.sin(angle)
        out[c + half] = x[c + half] * math.cos(angle) + x[c] * math.sin(angle)
    return out


def softmax(scores):
    most = max(scores)
    powers = [math.exp(s - most) for s in scores]
    return [p / sum(powers) for p in powers]


def grid(n):
    edges = sorted({round(2 ** (i / 2)) for i in range(40)})
    return [e for e in edges if 1.1 * e < n] + [n], [e for e in edges if e < n]


def error_of(w, values, y, window):
    """|y_w - y|^2 over the last keys and the first 4."""
    i = len(w) - 1
    seen = [j for j in range(i + 1) if j < SINKS or i - j < window]
    mass = sum(w[j] for j in seen)
    return sum((sum(w[j] * values[j][c] for j in seen) / mass - y[c]) ** 2 for c in range(K))


def context_of(errors, windows, to):
    """Where errors come down to 0.1 for good; a line in ln w."""
    above = 0.0
    for c in reversed(range(len(windows))):
        if errors[c] > 0.1:
            following = min(windows[c + 1] if c + 1 < len(windows) else to, to)
            low, high = math.log(windows[c]), math.log(following)
            return math.exp(low + (high - low) * (errors[c] - 0.1) / (errors[c] - above))
        above = errors[c]
    return 1.0


def describe(q, k, v):
    """A head: q, k, v (n, K) before rotation. What positions.json has of it, and its outputs."""
    n = len(q)
    turned = [[rotated(x, i) for i, x in enumerate(rows)] for rows in (q, k)]
    scores = [[dot(turned[0][i], turned[1][j]) / math.sqrt(K) for j in range(i + 1)] for i in range(n)]
    plain = [[dot(q[i], k[j]) / math.sqrt(K) for j in range(i + 1)] for i in range(n)]
    weights = [softmax(s) for s in scores]
    y = [[sum(w[j] * v[j][c] for j in range(len(w))) for c in range(K)] for w in weights]
    mean = [sum(row[c] for row in y) / n for c in range(K)]
    to, windows = grid(n)
    out = {key: [] for key in ("entropy", "ess", "top_weight", "sink_mass", "local_mass", "score_sd", "context")}
    first = 0
    for end in to:
        places = range(first, end)
        first = end

        def average(f):
            return sum(f(i) for i in places) / len(places)

        def deviation(i):
            centre = sum(scores[i]) / (i + 1)
            return math.sqrt(sum((s - centre) ** 2 for s in scores[i]) / (i + 1))

        spread = average(lambda i: sum((y[i][c] - mean[c]) ** 2 for c in range(K)))
        errors = [math.sqrt(average(lambda i: error_of(weights[i], v, y[i], w)) / spread) for w in windows]
        out["entropy"].append(average(lambda i: -sum(w * math.log(w) for w in weights[i])))
        out["ess"].append(average(lambda i: 1 / dot(weights[i], weights[i])))
        out["top_weight"].append(average(lambda i: max(weights[i])))
        out["sink_mass"].append(average(lambda i: sum(weights[i][:SINKS])))
        out["local_mass"].append(average(lambda i: sum(weights[i][-LOCAL:])))
        out["score_sd"].append(average(deviation))
        out["context"].append(context_of(errors, windows, end))
    out["error"] = errors  # of the last bin
    for key, of in (("score", scores), ("plain", plain)):
        sums = [[0.0, 0] for _ in range(len(windows) + 2)]
        for i in range(n):
            for j in range(i + 1):
                at = len(windows) + 1 if j < SINKS else sum(1 for w in windows if i - j >= w)
                sums[at][0] += of[i][j]
                sums[at][1] += 1
        out[key] = [s / count if count else None for s, count in sums]
    return out, y


def main():
    path = os.path.join(here, "positions.json")
    ids = json.load(open(path))["ids"]
    n = len(ids)
    words = tensor("model.embed_tokens.weight")
    x = [words[i] for i in ids]
    heads = []
    for layer in range(LAYERS):
        of = {name: tensor(f"model.layers.{layer}.{name}.weight") for name in (
            "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
        given = [norm(row, of["input_layernorm"]) for row in x]
        q, k, v = ([times(of[f"self_attn.{part}_proj"], row) for row in given] for part in "qkv")
        outputs = [[] for _ in range(n)]
        for head in range(HEADS):
            a, b = head * K, head // GROUP * K
            about, y = describe([r[a : a + K] for r in q], [r[b : b + K] for r in k], [r[b : b + K] for r in v])
            heads.append({"layer": layer, "head": head, **about})
            outputs = [o + row for o, row in zip(outputs, y)]
        x = [[s + t for s, t in zip(row, times(of["self_attn.o_proj"], o))] for row, o in zip(x, outputs)]
        for i in range(n):
            inner = norm(x[i], of["post_attention_layernorm"])
            gate, up = times(of["mlp.gate_proj"], inner), times(of["mlp.up_proj"], inner)
            middle = [u * g / (1 + math.exp(-g)) for u, g in zip(up, gate)]
            x[i] = [s + t for s, t in zip(x[i], times(of["mlp.down_proj"], middle))]
    to, windows = grid(n)
    short = lambda v: [short(u) for u in v] if isinstance(v, list) else float(f"{v:.9g}") if isinstance(v, float) else v
    heads = [{key: short(value) for key, value in head.items()} for head in heads]
    lines = ",\n".join(json.dumps(head) for head in heads)
    with open(path, "w") as out:
        out.write(f'{{"ids": {json.dumps(ids)},\n"to": {to},\n"windows": {windows},\n"heads": [\n{lines}]}}\n')


main()
