# SPDX-License-Identifier: Apache-2.0
"""mask.json anew: attention of sparse/q.npy, k.npy, v.npy under masks, in plain NumPy and f64, with nothing of this project.

    python3 mask.py
"""

import json
import os

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
arrays = {name: np.load(f"{here}/sparse/{name}.npy").astype(np.float64) for name in "qkv"}


def attend(queries, causal, window, prefix, exclude_self):
    """Weights (m, n) and outputs. Query i stands at key i + n - m; of a prefix there are only so many queries and keys."""
    q, k, v = arrays[queries], arrays["k"], arrays["v"]
    shift = len(k) - len(q)
    if prefix:
        assert shift == 0
        q, k, v = q[:prefix], k[:prefix], v[:prefix]
    place = np.arange(len(q))[:, None] + shift
    key = np.arange(len(k))[None, :]
    seen = np.ones((len(q), len(k)), bool)
    if causal:
        seen &= key <= place
    if window:
        seen &= (key > place - window) if causal else (abs(key - place) <= window)
    counts = seen.sum(1)
    if exclude_self:
        seen &= key != place
    scores = np.where(seen, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    most = scores.max(1, keepdims=True)
    total = np.exp(scores - most).sum(1, keepdims=True)
    w = np.exp(scores - most) / total
    return counts, (most + np.log(total))[:, 0], w, w @ v


def mean(x):
    return [float(np.mean(x)), float(np.std(x, ddof=1) / np.sqrt(len(x)))]


def case(queries, causal=False, window=0, prefix=0, exclude_self=False):
    counts, lse, w, y = attend(queries, causal, window, prefix, exclude_self)
    entropy = -np.sum(np.where(w > 0, w * np.log(np.where(w > 0, w, 1)), 0), 1)
    squares = (w * w).sum(1)
    return {
        "queries": queries, "causal": causal, "window": window, "prefix": prefix, "exclude_self": exclude_self,
        "seen": float(counts.mean()),
        "entropy": mean(entropy), "perplexity": mean(np.exp(entropy)), "ess": mean(1 / squares), "sum_squares": mean(squares),
        "top_weight": mean(w.max(1)), "lse": mean(lse),
        "output_mean_norm": float(np.linalg.norm(y.mean(0))), "output_cov_trace": float(y.var(0).sum()),
    }


cases = [
    case("q", causal=True), case("q", causal=True, window=37), case("q", window=50), case("k", causal=True),
    case("k", causal=True, window=16), case("k", causal=True, prefix=100), case("k", causal=True, prefix=250),
    case("k", window=5, exclude_self=True), case("q", causal=True, window=1000), case("k", causal=True, window=1),
]
with open(f"{here}/mask.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
