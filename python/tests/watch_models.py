# SPDX-License-Identifier: Apache-2.0
"""Small models with attention of every kind that ``watch`` meets, and what their weights say.

References are the models' own: softmax(scale q k') as they compute it, in f64, of which entropy,
sum of squares and largest weight are taken here. Nothing of esscher is used.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def statistics(weights):
    """(..., queries, keys) weights of f64: means over queries of what ``measure`` tells."""
    w = weights.detach().double()
    squares = (w * w).sum(-1)
    return {
        "entropy": torch.special.entr(w).sum(-1).mean(-1).numpy(),
        "ess": (1 / squares).mean(-1).numpy(),
        "sum_squares": squares.mean(-1).numpy(),
        "top_weight": w.max(-1).values.mean(-1).numpy(),
    }


def stand_in(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
             enable_gqa=False):  # fmt: skip
    """What torch 2 documents of scaled_dot_product_attention, for a torch that has none."""
    m, n = query.shape[-2], key.shape[-2]
    bias = torch.zeros(m, n, dtype=query.dtype)
    if is_causal:
        bias = bias.masked_fill(torch.ones(m, n, dtype=torch.bool).tril().logical_not(), -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        bias = bias.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        bias = bias + attn_mask
    if enable_gqa:
        group = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(group, -3) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = torch.softmax(query @ key.transpose(-2, -1) * scale + bias, -1)
    return F.dropout(weights, dropout_p, dropout_p > 0) @ value


def encoder(layers=2, width=16, heads=4, **options):
    layer = nn.TransformerEncoderLayer(width, heads, 32, batch_first=True, **options)
    model = nn.TransformerEncoder(layer, layers)
    for parameter in model.parameters():  # layers are copies, and their biases are 0
        nn.init.normal_(parameter, std=0.4)
    return model


def encoder_weights(model, x, entry=0, **masks):
    """Attention weights of each layer in f64, told by its own MultiheadAttention."""
    told = []
    for layer in model.layers:
        inner = layer.norm1(x) if layer.norm_first else x
        _, weights = layer.self_attn(
            inner, inner, inner, need_weights=True, average_attn_weights=False, **masks
        )
        told.append(weights[entry])
        x = layer(x, masks.get("attn_mask"), masks.get("key_padding_mask"))
    return told


def turned(x, base=100.0):
    """Rotary positions, pairs side by side."""
    n, d = x.shape[-2:]
    angles = torch.arange(n, dtype=x.dtype)[:, None] * base ** (-torch.arange(0, d, 2) / d).to(x)
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def product(a, b):
    """a @ b, rounded once. Debian's torch 1.13 dies of products of batches of bf16 on some CPUs."""
    return (a.float() @ b.float()).to(a.dtype) if a.dtype == torch.bfloat16 else a @ b


def by_heads(x, d):
    return x.view(x.shape[0], x.shape[1], -1, d).transpose(1, 2)


class Config:
    def __init__(self, **values):
        self.__dict__.update(values)


class Grouped(nn.Module):
    """Self-attention in the layout of Hugging Face's Llama: causal, grouped, eager unless ``sdpa``.

    ``weights`` are those of its last call.
    """

    def __init__(self, config, positions="", sdpa=False, scaling=None):
        super().__init__()
        d = config.hidden_size // config.num_attention_heads
        kv = config.num_key_value_heads * d
        self.config, self.positions, self.sdpa = config, positions, sdpa
        self.scaling = 1 / math.sqrt(d) if scaling is None else scaling
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        if positions == "named":
            self.rotary_emb = nn.Identity()
        self.cache = None
        self.weights = None

    def forward(self, hidden_states, attention_mask=None, use_cache=False):
        d = self.config.hidden_size // self.config.num_attention_heads
        q, k, v = (
            by_heads(proj(hidden_states), d) for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.positions:
            q, k = turned(q), turned(k)
        if use_cache and self.cache is not None:
            k, v = (torch.cat(both, -2) for both in zip(self.cache, (k, v)))
        self.cache = (k.detach(), v.detach()) if use_cache else None
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
        m, n = q.shape[-2], k.shape[-2]
        seen = torch.ones(m, n, dtype=torch.bool).tril(n - m)
        if attention_mask is not None:  # all of what is seen, as transformers makes it
            seen = attention_mask
        scores = product(q, k.transpose(-2, -1)) * self.scaling
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
        self.weights = weights.detach()
        if not self.sdpa:
            y = product(weights, v)
        elif attention_mask is None and m == n:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scaling)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scaling)
        return self.o_proj(y.transpose(1, 2).flatten(2)), weights


class Decoder(nn.Module):
    """Some layers of it."""

    def __init__(self, layers=2, heads=4, kv_heads=2, width=16, **options):
        super().__init__()
        config = Config(
            hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads
        )
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width), "self_attn": Grouped(config, **options)})
            for _ in range(layers)
        )
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5)

    def forward(self, x, **arguments):
        for layer in self.layers:
            x = x + layer["self_attn"](layer["norm"](x), **arguments)[0]
        return x

    def weights(self, entry=0):
        return [layer["self_attn"].weights[entry] for layer in self.layers]


class Bert(nn.Module):
    """BERT's self-attention: query, key, value, an additive mask, its output not yet projected."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.num_attention_heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5)

    def forward(self, hidden_states, attention_mask=None, others=None):
        d = hidden_states.shape[-1] // self.num_attention_heads
        others = hidden_states if others is None else others
        q = by_heads(self.query(input=hidden_states), d)
        k, v = (by_heads(proj(others), d) for proj in (self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = scores.softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2), weights


def of_layer(result, layer, batch=0, call=0):
    """Rows of ``measure`` of one call of a layer, by head."""
    rows = result.tables["rows"]
    return rows[(rows["layer"] == layer) & (rows["batch"] == batch) & (rows["call"] == call)]


def largest_difference(rows, weights):
    """Of all statistics of all heads; (heads, queries, keys) weights."""
    wanted = statistics(weights)
    if len(rows) != len(weights):
        raise AssertionError(f"{len(rows)} rows of {len(weights)} heads")
    return max(float(np.abs(rows[key] - wanted[key]).max()) for key in wanted)
