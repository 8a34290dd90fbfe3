# Attention for transformers that applies PLAN by a mask:
#
#     import plan_attention                          # this file
#     plan_attention.register()
#     model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="esscher_plan")
#
# The prompt must come in one piece, without padding, and have PLAN["prompt"] tokens or more; the keys
# of its first PLAN["prompt"] tokens are chosen from once. It is written to be compared with, not to be
# fast: it takes memory for all weights of the prompt, and rounds all rows at every step.
import math

import torch


def _half(x):
    return x.to(torch.float16).to(torch.float32)


def _inverse(x):
    return torch.where(x == 0, torch.zeros_like(x), 1 / torch.where(x == 0, torch.ones_like(x), x))


def _e4m3(x):
    size = x.abs().clamp(max=448.0)
    exponent = torch.frexp(size)[1]
    step = torch.ldexp(torch.ones_like(size), (exponent - 4).clamp(min=-9))
    return torch.copysign(torch.round(size / step) * step, x)


def _q8_0(x):
    d = x.abs().amax(-1, keepdim=True) / 127
    scaled = x * _inverse(d)
    whole = scaled.abs().trunc()
    code = whole + (scaled.abs() - whole >= 0.5)  # halves away from 0
    return torch.copysign(code, scaled) * _half(d)


def _symmetric(x, steps):
    top = torch.gather(x, -1, x.abs().argmax(-1, keepdim=True))
    d = top / -steps
    code = (x * _inverse(d) + (steps + 0.5)).trunc().clamp(max=2 * steps - 1)
    return (code - steps) * _half(d)


def _asymmetric(x, steps):
    low = x.amin(-1, keepdim=True)
    d = (x.amax(-1, keepdim=True) - low) / steps
    code = ((x - low) * _inverse(d) + 0.5).trunc().clamp(max=steps)
    return code * _half(d) + _half(low)


_BLOCKS = {
    "q8_0": _q8_0,
    "q5_1": lambda x: _asymmetric(x, 31),
    "q5_0": lambda x: _symmetric(x, 16),
    "q4_1": lambda x: _asymmetric(x, 15),
    "q4_0": lambda x: _symmetric(x, 8),
}


def hold(kind, rows):
    """Returns what a cache of this number type gives back for rows (..., d)."""
    if kind == "f32":
        return rows
    name, _, scale = kind.partition(":")
    x = rows.to(torch.float32)
    if name == "f16":
        out = _half(x)
    elif name == "bf16":
        out = x.to(torch.bfloat16).to(torch.float32)
    elif name == "fp8":
        out = _e4m3(x / float(scale or 1)) * float(scale or 1)
    else:
        out = torch.cat([_BLOCKS[name](block) for block in x.split(32, dim=-1)], dim=-1)
    return out.to(rows.dtype)


def _weights(query, key, scaling, seen, s_aux):
    """Returns weights (batch, heads, queries, keys) of query over key, both (batch, heads, n, d)."""
    score = torch.matmul(query, key.transpose(2, 3)) * scaling
    score = score.to(torch.promote_types(score.dtype, torch.float32))
    score = score.masked_fill(~seen, -math.inf)
    if s_aux is not None:  # a learned sink is one more outcome, without a value
        sink = s_aux.reshape(1, -1, 1, 1).to(score.dtype)
        score = torch.cat([score, sink.expand(*score.shape[:3], 1)], dim=-1)
        return torch.softmax(score, dim=-1)[..., :-1]
    return torch.softmax(score, dim=-1)


def _seen(queries, keys, sliding_window, device):
    """Returns which keys the last `queries` of `keys` places see."""
    i = torch.arange(keys - queries, keys, device=device)[:, None]
    j = torch.arange(keys, device=device)[None, :]
    seen = j <= i
    return seen & (i - j < sliding_window) if sliding_window else seen


# ---- which keys of the prompt stay: scores (batch, P) of a key-value head ----


def _mix(z):
    mask = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


def _pool(votes, kernel, pooling):
    """Pools votes (batch, heads, keys) over neighbours."""
    if pooling == "max":
        return torch.nn.functional.max_pool1d(votes, kernel, 1, kernel // 2)
    return torch.nn.functional.avg_pool1d(votes, kernel, 1, kernel // 2)


def _score(name, options, w, layer, unit, group, key):
    """w (batch, heads of the layer, P, P), key (batch, P, d)."""
    own, P = w[:, unit * group : (unit + 1) * group], w.shape[-1]
    if name == "snapkv":
        before = P - int(options["window"])
        score = torch.zeros_like(own[:, 0, 0])
        if before > 0:
            votes = own[:, :, before:, :before].mean(2)
            score[:, :before] = _pool(votes, int(options["kernel"]), options["pooling"]).mean(1)
        return score
    if name == "observed":
        return own.sum(2).mean(1) / (P - torch.arange(P, device=w.device))
    if name == "h2o":
        return own.sum((1, 2))
    if name == "tova":
        return (own if options["scope"] == "kv" else w)[:, :, -1].mean(1)
    if name == "knorm":
        return -key.norm(dim=-1)
    if name == "keydiff":
        norm = key.norm(dim=-1)
        mean = (key / norm.clamp(min=1e-12)[..., None]).mean(1)
        cos = (key @ mean[..., None])[..., 0]
        return -cos / (norm.clamp(min=1e-8) * mean.norm(dim=-1, keepdim=True).clamp(min=1e-8))
    if name == "random":
        start = _mix(_mix(_mix(int(options["seed"])) ^ layer) ^ unit)
        one = [(_mix(start ^ j) >> 11) * 2.0**-53 for j in range(P)]
        return torch.tensor(one, dtype=w.dtype, device=w.device).expand(w.shape[0], P)
    return torch.zeros_like(own[:, 0, 0])  # stream


_LAST = {"snapkv": "window", "h2o": "recent", "tova": "protect"}


def _keep(unit, score):
    """Returns which keys (batch, P) stay, from their scores; of equal scores the lower place."""
    words = unit["policy"].split(":")
    options = dict(word.split("=") for word in words[1:])
    P, keys = score.shape[-1], unit["keys"]
    first = min(int(options["sinks"]), keys)
    last = keys if words[0] == "stream" else int(options.get(_LAST.get(words[0]), 0))
    score = score.clone()
    score[:, :first] = math.inf
    score[:, P - min(last, keys - first) :] = math.inf
    order = torch.argsort(score, dim=-1, descending=True, stable=True)[:, :keys]
    return torch.zeros_like(score, dtype=torch.bool).scatter_(1, order, True)


def choose(layer, query, key, scaling, sliding_window=None, s_aux=None):
    """Returns which keys of the prompt stay, (batch, kv_heads, P), from query (batch, heads, n, d)
    and key (batch, kv_heads, n, d) of its tokens, n >= P, as the cache holds them."""
    units, P = PLAN["layers"][layer], PLAN["prompt"]
    group = query.shape[1] // len(units)
    repeated = key[:, :, :P].repeat_interleave(group, dim=1)
    seen = _seen(P, P, sliding_window, query.device)
    w = _weights(query[:, :, :P], repeated, scaling, seen, s_aux)
    kept = torch.ones(key.shape[0], len(units), P, dtype=torch.bool, device=key.device)
    for g, unit in enumerate(units):
        words = unit["policy"].split(":")
        if words[0] != "full" and unit["keys"] < P:
            options = dict(word.split("=") for word in words[1:])
            rows = key[:, g, :P].to(w.dtype)
            kept[:, g] = _keep(unit, _score(words[0], options, w, layer, g, group, rows))
    return kept


def esscher_plan_attention(
    module,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    dropout=0.0,
    sliding_window=None,
    s_aux=None,
    **kwargs,
):
    """query (batch, heads, queries, d); key and value (batch, kv_heads, keys, d) of all places so
    far. Returns outputs (batch, queries, heads, d) and weights."""
    units, P, layer = PLAN["layers"][module.layer_idx], PLAN["prompt"], module.layer_idx
    (_, heads, queries, d), keys = query.shape, key.shape[2]
    group, first = heads // len(units), keys - queries
    scaling = 1 / math.sqrt(d) if scaling is None else scaling
    key = torch.stack([hold(u["k_type"], key[:, g]) for g, u in enumerate(units)], dim=1)
    value = torch.stack([hold(u["v_type"], value[:, g]) for g, u in enumerate(units)], dim=1)
    seen = _seen(queries, keys, sliding_window, query.device)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        seen = seen & attention_mask[..., :keys]
    elif attention_mask is not None:
        seen = seen & (attention_mask[..., :keys] > torch.finfo(attention_mask.dtype).min / 2)
    prompts = PLAN["mode"] == "prompt"
    if first == 0:
        enough = prompts and keys >= P
        kept = choose(layer, query, key, scaling, sliding_window, s_aux) if enough else None
        module.esscher_kept = kept
    if prompts and keys > P:
        if module.esscher_kept is None:
            raise ValueError(f"a prompt of at least {P} tokens must come in one piece")
        found = torch.ones(key.shape[0], len(units), keys, dtype=torch.bool, device=key.device)
        found[..., :P] = module.esscher_kept
        early = torch.arange(first, keys, device=key.device)[:, None] < P
        found = found.repeat_interleave(group, dim=1)[:, :, None, :]
        seen = seen & (found | early)
    w = _weights(query, key.repeat_interleave(group, dim=1), scaling, seen, s_aux)
    w = torch.nn.functional.dropout(w, dropout, module.training)
    out = torch.matmul(w.to(value.dtype), value.repeat_interleave(group, dim=1))
    return out.transpose(1, 2).contiguous(), w


def register(name="esscher_plan"):
    """Makes the function known to transformers as an attention implementation."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, esscher_plan_attention)
