# SPDX-License-Identifier: Apache-2.0
"""sinks.json anew: attention of sparse/q.npy, k.npy, v.npy with a sink logit, a score cap or both, in plain NumPy and f64, with
nothing of this project.

    python3 sinks.py

Scores s = scale q.k become cap tanh(s / cap), then the mask hides keys, then the sink stands as one more column of score `sink`
and value 0: statistics are those of all columns, `top_index` is -1 where the sink has the largest weight.
"""

import json
import os

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
arrays = {name: np.load(f"{here}/sparse/{name}.npy").astype(np.float64) for name in "qkv"}


def mean(x):
    return [float(np.mean(x)), float(np.std(x, ddof=1) / np.sqrt(len(x)))]


def case(queries, sink=None, cap=None, scale=0.25, causal=False, exclude_self=False):
    """Means over queries with their errors, and for six queries, evenly spread, everything."""
    q, k, v = arrays[queries], arrays["k"], arrays["v"]
    place = np.arange(len(q))[:, None] + len(k) - len(q)
    key = np.arange(len(k))[None, :]
    scores = scale * (q @ k.T)
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    if causal:
        scores = np.where(key <= place, scores, -np.inf)
    if exclude_self:
        scores = np.where(key != place, scores, -np.inf)
    logit = -np.inf if sink is None else sink
    scores = np.concatenate([np.full((len(q), 1), logit), scores], 1)
    most = scores.max(1, keepdims=True)
    total = np.exp(scores - most).sum(1, keepdims=True)
    w = np.exp(scores - most) / total
    y = w[:, 1:] @ v
    lse = (most + np.log(total))[:, 0]
    entropy = -np.sum(np.where(w > 0, w * np.log(np.where(w > 0, w, 1)), 0), 1)
    squares = (w * w).sum(1)
    some = [round(i * (len(q) - 1) / 5) for i in range(6)]
    return {
        "queries": queries, "sink": sink, "cap": cap, "scale": scale, "causal": causal, "exclude_self": exclude_self,
        "entropy": mean(entropy), "perplexity": mean(np.exp(entropy)), "ess": mean(1 / squares), "sum_squares": mean(squares),
        "top_weight": mean(w.max(1)), "lse": mean(lse), "sink_weight": mean(w[:, 0]),
        "output_mean_norm": float(np.linalg.norm(y.mean(0))), "output_cov_trace": float(y.var(0).sum()),
        "rows": [
            {
                "query": i, "lse": lse[i], "entropy": entropy[i], "top_weight": w[i].max(), "top_index": int(w[i].argmax()) - 1,
                "sum_squares": squares[i], "top_mass_3": float(np.sort(w[i])[-3:].sum()), "output": y[i].tolist(),
            }
            for i in some
        ],
    }


cases = [
    case("q", sink=1.5), case("q", sink=7.0), case("q", cap=2.0, scale=1.0), case("q", cap=0.75, scale=2.0, sink=-0.5),
    case("k", sink=3.0, causal=True), case("k", cap=5.0, scale=1.0, causal=True), case("k", sink=0.0, cap=4.0, causal=True),
    case("k", sink=-2.0, causal=True, exclude_self=True), case("q", sink=40.0, scale=1.0), case("q", cap=50.0, sink=-300.0),
]
with open(f"{here}/sinks.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
