# SPDX-License-Identifier: Apache-2.0
"""Attention by NumPy in f64, as one would write it down: what the tests compare with."""

import numpy as np


def sees(m, n, causal=False, window=0, sinks=0, positions=None):
    """(m, n): may query i see key j? The words of include/esscher/attend.h."""
    p = (np.arange(m) if positions is None else np.asarray(positions))[:, None]
    j = np.arange(n)[None, :]
    seen = np.ones((m, n), bool)
    if window or sinks:
        seen = np.repeat(j < sinks, m, 0)
        if window:
            seen = seen | ((p - window < j) & (j <= p) if causal else abs(j - p) <= window)
    return seen & (j <= p) if causal else seen


def attention(q, k, v, scale=None, mask=None, cap=None, sinks=None):
    """Outputs, lse, entropy and weights of arrays (..., m, d), (..., n, d), (..., n, dv).

    With sinks, logits (...), the first weight is theirs."""
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    group = q.shape[-3] // k.shape[-3] if q.ndim > 2 and k.ndim > 2 and k.shape[-3] > 1 else 1
    if group > 1:
        k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    scores = (q @ np.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(np.asarray(sinks)[..., None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate([column, scores], -1)
        v = np.concatenate([np.zeros_like(v[..., :1, :]), v], -2)
    top = scores.max(-1, keepdims=True)
    lse = np.log(np.exp(scores - top).sum(-1)) + top[..., 0]
    weights = np.exp(scores - lse[..., None])
    entropy = lse - np.where(weights > 0, weights * np.where(weights > 0, scores, 0), 0).sum(-1)
    return weights @ v, lse, entropy, weights


def distance(a, b):
    """Relative distance of two arrays in L2, as attend.h states accuracy."""
    return np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b)
