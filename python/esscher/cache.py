# SPDX-License-Identifier: Apache-2.0
"""A reference consumer of plans for key-value caches, in NumPy: what a plan keeps of one layer.

A plan file (docs/FILES.md) says for every layer and key-value head which keys a cache keeps, by
which policy, and in which number types (docs/CACHE.md). An engine that runs plans can be compared
with this module, layer by layer::

    plan = cache.load_plan("cache.plan.json")
    kept = cache.kept_keys(plan, layer, q, k, v)       # one array of places per key-value head
    y, kept = cache.attend(plan, layer, q, k, v)       # outputs of all queries, too

q is (heads, n, d), k and v are (kv_heads, n, d), after norms and rotary positions. It is written to
be read, and takes O(n^2) memory. Policy ``oracle`` and the types ``kivi2`` and ``kivi4`` are not
supported.
"""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._kv_types import Array, hadamard, hold

__all__ = ["attend", "hadamard", "hold", "kept_keys", "load_plan", "mean_rotation"]

Plan = Dict[str, Any]
Rotation = Callable[[int, int], Array]
SCHEMA = "esscher-plan/3"


# ---- plans ----


def load_plan(path: str) -> Plan:
    """Reads a plan of a cache, as the dictionary that the file holds, and checks its outline.

    ``esscher plan show FILE`` checks everything.
    """
    with open(path, encoding="utf-8") as file:
        plan: Plan = json.load(file)
    if plan.get("schema") != SCHEMA:
        raise ValueError(f"{path}: the schema is {plan.get('schema')!r}, this reads {SCHEMA!r}")
    if plan["mode"] not in ("prompt", "decode", "none"):
        raise ValueError(f"{path}: unknown mode {plan['mode']!r}")
    shape = [len(layer["kv_heads"]) for layer in plan["layers"]]
    if shape != [plan["model"]["kv_heads"]] * plan["model"]["layers"]:
        raise ValueError(f"{path}: layers or key-value heads are missing")
    return plan


_LAST = {"snapkv": "window", "h2o": "recent", "expected": "recent", "tova": "protect"}


class _Unit:
    """What one key-value head does."""

    def __init__(self, stated: Dict[str, Any]) -> None:
        words = stated["policy"].split(":")
        self.policy: str = words[0]
        self.keys: int = stated["keys"]
        self.options = dict(word.split("=") for word in words[1:])
        self.k_type: str = stated["k_type"]
        self.v_type: str = stated["v_type"]

    def number(self, name: str) -> int:
        return int(float(self.options[name]))

    def last(self) -> int:
        """Returns how many last keys of a prompt stay whatever they score, at most."""
        if self.policy == "stream":
            return self.keys
        name = _LAST.get(self.policy)
        return self.number(name) if name else 0


def _units(plan: Plan, layer: int) -> List[_Unit]:
    return [_Unit(stated) for stated in plan["layers"][layer]["kv_heads"]]


# ---- weights ----


class _Layer:
    """Queries, held keys and values, and scores of one layer, in f64."""

    def __init__(
        self,
        units: List[_Unit],
        q: Array,
        k: Array,
        v: Array,
        scale: Optional[float],
        window: int,
        sinks: Optional[Array],
    ) -> None:
        self.units = units
        self.k = np.stack([hold(u.k_type, k)[g] for g, u in enumerate(units)]).astype(np.float64)
        self.v = np.stack([hold(u.v_type, v)[g] for g, u in enumerate(units)]).astype(np.float64)
        self.heads, self.n, d = q.shape
        self.group = self.heads // len(units)
        self.scale = 1.0 / math.sqrt(d) if scale is None else scale
        keys = np.repeat(self.k, self.group, axis=0)
        self.score = self.scale * (q.astype(np.float64) @ keys.transpose(0, 2, 1))
        self.seen = np.tril(np.ones((self.n, self.n), dtype=bool))
        if window:
            self.seen &= ~np.tril(np.ones((self.n, self.n), dtype=bool), -window)
        self.sinks = None if sinks is None else np.asarray(sinks, dtype=np.float64)[:, None, None]

    def weights(self, found: Array) -> Array:
        """Returns softmax weights (heads, n, n) over the keys that are seen and found. A learned
        sink is one more outcome, without a value."""
        score = np.where(self.seen & found, self.score, -np.inf)
        top = score.max(axis=2, keepdims=True)
        if self.sinks is not None:
            top = np.maximum(top, self.sinks)
        w = np.exp(score - top)
        total = w.sum(axis=2, keepdims=True)
        if self.sinks is not None:
            total = total + np.exp(self.sinks - top)
        return w / total

    def of(self, unit: int) -> slice:
        """Returns the query heads of a unit."""
        return slice(unit * self.group, (unit + 1) * self.group)


# ---- policies of prompt mode: scores (P) of a unit's keys ----


class _Prompt:
    """What a policy may look at when a prompt of P tokens has been read."""

    def __init__(self, P: int, layer: int, unit: int) -> None:
        self.P, self.layer, self.unit = P, layer, unit
        self.w: Array  # (heads of the unit, P, P)
        self.all_w: Array  # (heads of the layer, P, P)
        self.k: Array  # (P, d)
        self.v: Array
        self.plain_q: Optional[Array]  # (heads of the unit, P, d)
        self.rotation: Optional[Rotation]
        self.scale: float


def _pool(votes: Array, kernel: int, pooling: str) -> Array:
    half, n = kernel // 2, len(votes)
    around = [votes[max(0, j - half) : j + half + 1] for j in range(n)]
    if pooling == "max":
        return np.array([a.max() for a in around])
    return np.array([a.sum() for a in around]) / kernel


def _snapkv(u: _Unit, p: _Prompt) -> Array:
    window = u.number("window")
    score = np.zeros(p.P)
    before = p.P - window
    if before > 0:
        pooled = [
            _pool(w[before:, :before].mean(axis=0), u.number("kernel"), u.options["pooling"])
            for w in p.w
        ]
        score[:before] = np.mean(pooled, axis=0)
    return score


def _observed(u: _Unit, p: _Prompt) -> Array:
    return p.w.sum(axis=1).mean(axis=0) / (p.P - np.arange(p.P))


def _h2o(u: _Unit, p: _Prompt) -> Array:
    return p.w.sum(axis=(0, 1))


def _tova(u: _Unit, p: _Prompt) -> Array:
    w = p.w if u.options["scope"] == "kv" else p.all_w
    return w[:, -1, :].mean(axis=0)


def _knorm(u: _Unit, p: _Prompt) -> Array:
    return -np.linalg.norm(p.k, axis=1)


def _keydiff(u: _Unit, p: _Prompt) -> Array:
    norm = np.linalg.norm(p.k, axis=1)
    mean = (p.k / np.maximum(norm, 1e-12)[:, None]).mean(axis=0)
    return -(p.k @ mean) / (np.maximum(norm, 1e-8) * max(float(np.linalg.norm(mean)), 1e-8))


def _expected(u: _Unit, p: _Prompt) -> Array:
    S = u.number("sinks")
    score = np.zeros(p.P)
    if S >= p.P:
        return score
    if p.plain_q is None:
        raise ValueError("policy expected needs plain_q, queries before rotary positions")
    d = p.k.shape[1]
    turn = p.rotation(p.P, u.number("future")) if p.rotation else np.eye(d)
    e = np.zeros(p.P - S)
    for q in p.plain_q[:, S : p.P]:
        mean = q.mean(axis=0)
        cov = (q - mean).T @ (q - mean) / len(q)
        mean, cov = turn @ mean, turn @ cov @ turn.T
        t = p.scale * (p.k[S:] @ mean)
        if u.options["covariance"] == "yes":
            t = t + 0.5 * p.scale**2 * np.einsum("jc,cd,jd->j", p.k[S:], cov, p.k[S:])
        w = np.exp(t - t.max())
        e += w / w.sum() / len(p.plain_q)
    if u.options["vnorm"] == "yes":
        e = (e + float(u.options["eps"])) * np.linalg.norm(p.v[S:], axis=1)
    score[S:] = e
    return score


_MASK = (1 << 64) - 1


def _mix(z: int) -> int:
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def _random(u: _Unit, p: _Prompt) -> Array:
    unit = _mix(_mix(_mix(u.number("seed")) ^ p.layer) ^ p.unit)
    return np.array([(_mix(unit ^ j) >> 11) * 2.0**-53 for j in range(p.P)])


_SCORES: Dict[str, Callable[[_Unit, _Prompt], Array]] = {
    "stream": lambda u, p: np.zeros(p.P),
    "snapkv": _snapkv,
    "observed": _observed,
    "h2o": _h2o,
    "tova": _tova,
    "knorm": _knorm,
    "keydiff": _keydiff,
    "expected": _expected,
    "random": _random,
}


def _protect(u: _Unit, score: Array) -> Array:
    """Returns scores in which keys that always stay are +inf."""
    P = len(score)
    first = min(u.number("sinks"), u.keys)
    last = min(u.last(), u.keys - first)
    score = score.copy()
    score[:first] = np.inf
    if last:
        score[P - last :] = np.inf
    return score


def _best(score: Array, count: int) -> Array:
    """Returns the places of the largest scores, of equal ones the lower place, sorted."""
    return np.sort(np.argsort(-score, kind="stable")[:count])


def _share(units: List[_Unit], scores: List[Array]) -> List[Array]:
    """Ada-KV: the units of a layer share their keys; each has ⌊alpha k⌋ of its own."""
    keys, P = units[0].keys, len(scores[0])
    own = math.floor(float(units[0].options["alpha"]) * keys)
    for u, score in zip(units, scores):
        score[:] = _protect(u, score)
        score[np.argsort(-score, kind="stable")[:own]] = np.inf
    chosen = _best(np.concatenate(scores), len(units) * keys)
    return [chosen[chosen // P == g] % P for g in range(len(units))]


def _choose(units: List[_Unit], prompts: List[_Prompt]) -> List[Array]:
    """Returns the places of the prompt that each unit keeps."""
    P = prompts[0].P
    shares = "alpha" in units[0].options and units[0].keys < P
    kept, scores = [], []
    for u, p in zip(units, prompts):
        if u.policy == "full" or u.keys >= P:
            kept.append(np.arange(P))
            continue
        if u.policy not in _SCORES:
            raise NotImplementedError(f"policy {u.policy!r}")
        score = _SCORES[u.policy](u, p)
        scores.append(score)
        kept.append(_best(_protect(u, score), u.keys))
    return _share(units, scores) if shares else kept


def mean_rotation(inverse_frequencies: Array, d: int, factor: float = 1.0) -> Rotation:
    """Returns the mean rotary matrix over places first .. first + places - 1, for ``rotation``.

    For rotary positions whose pairs are channels i and i + r/2 of the first r = 2 x frequencies
    channels, as in Llama; the other channels do not turn. `factor` is that of yarn.
    """

    def rotation(first: int, places: int) -> Array:
        half = len(inverse_frequencies)
        angle = np.arange(first, first + places)[:, None] * np.asarray(inverse_frequencies)
        cos, sin = factor * np.cos(angle).mean(axis=0), factor * np.sin(angle).mean(axis=0)
        at, out = np.arange(half), np.eye(d)
        out[at, at] = out[at + half, at + half] = cos
        out[at, at + half], out[at + half, at] = -sin, sin
        return out

    return rotation


# ---- decode mode ----


def _decode(
    units: List[_Unit], w: Callable[[int, int, Array], Array], n: int
) -> List[Array]:
    """Returns (n) of each unit: the last query that finds each key. w(unit, t, held) gives weights
    (heads, held) of query t."""
    everything = range(len(units))
    together = units[0].policy == "tova" and units[0].options["scope"] == "layer"
    out = [np.full(n, n - 1) for _ in everything]
    for group in [list(everything)] if together else [[g] for g in everything]:
        u = units[group[0]]
        if u.policy == "full":
            continue
        held: List[int] = []
        total = np.zeros(n)
        first = min(u.number("sinks"), u.keys)
        asked = 0 if u.policy == "stream" else u.last()
        recent = min(asked, u.keys - first)
        for t in range(n):
            held.append(t)
            now = np.array(held)
            weight = sum(w(g, t, now).sum(axis=0) for g in group)
            total[now] += weight
            if len(held) <= u.keys:
                continue
            value = {"stream": now, "h2o": total[now], "tova": weight}[u.policy].astype(float)
            value[(now < first) | (now > t - recent)] = np.inf
            goes = now[len(now) - 1 - np.argmin(value[::-1])]  # of equal ones the higher place
            held.remove(goes)
            for g in group:
                out[g][goes] = t
    return out


# ---- a layer ----


def _prompt_last(
    a: _Layer, P: int, layer: int, plain_q: Optional[Array], rotation: Optional[Rotation]
) -> Array:
    """Returns the last query that finds each key, in prompt mode."""
    w = a.weights(np.ones((a.n, a.n), dtype=bool))[:, :P, :P]
    last = np.full((len(a.units), a.n), a.n - 1)
    prompts = []
    for g in range(len(a.units)):
        p = _Prompt(P, layer, g)
        p.w, p.all_w, p.k, p.v = w[a.of(g)], w, a.k[g, :P], a.v[g, :P]
        p.plain_q = None if plain_q is None else np.asarray(plain_q, dtype=np.float64)[a.of(g)]
        p.rotation, p.scale = rotation, a.scale
        prompts.append(p)
    for g, places in enumerate(_choose(a.units, prompts)):
        last[g, :P] = P - 1
        last[g, places] = a.n - 1
    return last


def _find(
    plan: Plan,
    layer: int,
    q: Array,
    k: Array,
    v: Array,
    plain_q: Optional[Array],
    rotation: Optional[Rotation],
    scale: Optional[float],
    window: int,
    sinks: Optional[Array],
) -> Tuple[_Layer, Array]:
    """Returns the layer, and (kv_heads, n): the last query that finds each key."""
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    a = _Layer(_units(plan, layer), q, k, v, scale, window, sinks)
    if plan["mode"] == "prompt":
        return a, _prompt_last(a, plan["prompt"], layer, plain_q, rotation)
    if plan["mode"] == "none":
        return a, np.full((len(a.units), a.n), a.n - 1)
    if window or sinks is not None:
        raise NotImplementedError("decode mode with a window or learned sinks")
    w = a.weights(np.ones((a.n, a.n), dtype=bool))

    def weigh(g: int, t: int, held: Array) -> Array:
        part = w[a.of(g), t][:, held]
        return part / part.sum(axis=1, keepdims=True)

    return a, np.stack(_decode(a.units, weigh, a.n))


def kept_keys(
    plan: Plan,
    layer: int,
    q: Array,
    k: Array,
    v: Array,
    plain_q: Optional[Array] = None,
    rotation: Optional[Rotation] = None,
    scale: Optional[float] = None,
    window: int = 0,
    sinks: Optional[Array] = None,
) -> List[Array]:
    """Returns for each key-value head the places that are kept: of the prompt in prompt mode, after
    the last token but one in decode mode.

    q (heads, n, d), k and v (kv_heads, n, d) are those of one layer of the full model. `plain_q` is
    q before rotary positions and `rotation` the mean rotary matrix (``mean_rotation()``), for policy
    ``expected`` alone. `scale` is 1/sqrt(d) unless given; `window` is the layer's own; `sinks` are
    learned sink logits (heads).
    """
    _, last = _find(plan, layer, q, k, v, plain_q, rotation, scale, window, sinks)
    n = last.shape[1]
    stop = plan["prompt"] if plan["mode"] == "prompt" else n
    return [np.flatnonzero(one[:stop] == n - 1) for one in last]


def attend(
    plan: Plan,
    layer: int,
    q: Array,
    k: Array,
    v: Array,
    plain_q: Optional[Array] = None,
    rotation: Optional[Rotation] = None,
    scale: Optional[float] = None,
    window: int = 0,
    sinks: Optional[Array] = None,
) -> Tuple[Array, Array]:
    """Returns outputs (heads, n, d) in f64 of all queries over what they find, and (kv_heads, n),
    the last query that finds each key. Arguments are those of ``kept_keys()``.

    Rows at places after the prompt must be those of the model that runs with the cache, since what
    is dropped changes the layers above.
    """
    a, last = _find(plan, layer, q, k, v, plain_q, rotation, scale, window, sinks)
    found = np.arange(a.n)[:, None] <= np.repeat(last, a.group, axis=0)[:, None, :]
    return a.weights(found) @ np.repeat(a.v, a.group, axis=0), last
