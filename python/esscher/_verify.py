# SPDX-License-Identifier: Apache-2.0
"""Is what was caught what the model computed?

Queries, keys and values are caught before the softmax, outputs behind it. For some queries of every
head attention is computed again in f64, plainly, and held against the model's own outputs: a scale,
a mask, positions or a norm that is unknown to us shows there.

Only imported by ``watch``: this needs torch.
"""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ._masks import Refused, Shape, Sight

torch: Any = import_module("torch")

# Up to which error (L2) an output is taken for the attention of what was caught, by the format that
# the model computes in: what weights may be off, relative to what they do, and what rounding may
# add, relative to the output. Eager kernels round scores, of 16 nats by 2^-5 in bfloat16, and some
# compute the softmax of f64 in f32.
_TOLERANCE = {
    torch.float64: (1e-4, 2e-6),
    torch.float32: (1e-4, 2e-6),
    torch.float16: (2e-2, 4e-3),
    torch.bfloat16: (1e-1, 3e-2),
}
_CHECKED_QUERIES = 8
_FINE = 1e-3  # rounding that hides nothing which a table would show


Finish = Callable[[Any, Any], Any]
"""Takes outputs (rows, heads, dv), and what stands beside them in the model, to what it shows."""


class Entry(NamedTuple):
    """Queries (heads, m, d), keys (kv heads, n, d) and values (kv heads, n, dv) of one entry of the
    batch of one call."""

    q: Any
    k: Any
    v: Any


class Caught(NamedTuple):
    """The attention of one entry of the batch of one call, without padding."""

    entry: Entry
    scale: float
    sight: Sight
    error: Optional[float]
    """Relative error of the outputs that were checked; None: the model's could not be seen."""


Entries = Iterator[Tuple[int, Callable[[], Caught]]]
"""Entries of the batch of one call, each with a function that catches it. What raises
:class:`Refused` in the iterator is wrong with the call, in the function with that entry alone."""


def checked(
    entry: Entry,
    scales: Sequence[float],
    sights: Sequence[Sight],
    theirs: Any,
    causes: str,
    *,
    finish: Finish = lambda outputs, beside: outputs,
    beside: Any = None,
    proof: bool = False,
) -> Caught:
    """The first of scales and sights with which attention is what the model has: ``theirs`` is
    (m, heads, dv), or what ``finish`` makes of that and of ``beside`` (m, ...); None: unknown.
    ``causes`` says what it may be if there is none.

    With ``proof`` nothing is taken for granted: outputs must be such that they can tell."""
    errors = []
    for sight in sights:
        kept = _without_padding(entry, sight)
        _refuse_nan(kept)
        if theirs is None:
            return Caught(kept, scales[0], sight, None)
        rows = _rows(kept.q.shape[1])
        wanted, near = (_at(x, sight, rows) for x in (theirs, beside))
        if not wanted.isfinite().all():
            raise Refused(
                "its outputs hold NaN or infinities, although its queries, keys and values do not"
            )
        for scale in scales:
            outputs = _outputs(kept, scale, sight, rows)
            ours, plain = (finish(x, near) for x in outputs)
            dtypes = (entry.q.dtype, theirs.dtype)
            error, allowed, tells = _error(ours, plain, wanted, dtypes, _differ(kept.v))
            tells |= kept.k.shape[1] == 1
            if error <= allowed and (tells or not proof):
                return Caught(kept, scale, sight, error)
            if error <= allowed:
                raise Refused(
                    "its outputs are so near to plain averages that, rounded as they are, they "
                    "cannot tell whether they are the attention of what was caught: run it in f32, "
                    "with values that differ"
                )
            errors.append(error)
    raise Refused(
        "its outputs are not the attention of the queries, keys and values that were caught "
        f"(relative error {min(errors):.2g}): {causes}"
    )


def _refuse_nan(entry: Entry) -> None:
    for name, x in zip(("queries", "keys", "values"), entry):
        if not x.isfinite().all():
            raise Refused(f"its {name} hold NaN or infinities, of which there are no statistics")


def _without_padding(entry: Entry, sight: Sight) -> Entry:
    q, k, v = entry
    if sight.queries is not None:
        q = q[:, sight.queries.to(q.device)]
    if sight.keys is not None:
        k, v = (x[:, sight.keys.to(x.device)] for x in (k, v))
    return Entry(q, k, v)


def _rows(m: int) -> Any:
    """Queries that are computed again, from the first to the last."""
    return torch.linspace(0, m - 1, min(m, _CHECKED_QUERIES)).round().long()


def _at(x: Any, sight: Sight, rows: Any) -> Any:
    """Some rows of those that are kept, in f64."""
    if x is None:
        return None
    x = x if sight.queries is None else x[sight.queries.to(x.device)]
    return exact(x[rows.to(x.device)])


def _differ(values: Any) -> bool:
    """Do values (heads, n, dv) differ by more than rounding? Equal ones, all 0 as some models begin
    with, have the same average under any weights."""
    return bool((values - values[:, :1]).norm() > _FINE * values.norm())


def _error(
    ours: Any, plain: Any, theirs: Any, dtypes: Sequence[Any], differ: bool
) -> Tuple[float, float, bool]:
    """Relative error of their outputs (rows, heads, dv), and what it may be, of the head that is
    worst; and whether that says anything about the weights. Only what distinguishes an output from
    the ``plain`` average of the values that are seen does: errors are held against that, and
    rounding against all of it. Where values ``differ`` and rounding is fine, a plain average says
    that weights are equal. What a module does it does to all of its heads, so one that tells will
    do."""
    size = theirs.norm(dim=(0, 2)).clamp_min(1e-300)
    weights, rounding = max(_TOLERANCE[dtype] for dtype in dtypes)
    effect = (ours - plain).norm(dim=(0, 2)) / size
    allowed = weights * effect + rounding
    error = (ours - theirs).norm(dim=(0, 2)) / size
    worst = int((error - allowed).argmax())
    tells = (differ and rounding < _FINE) or float(effect.max()) > 2 * rounding
    return float(error[worst]), float(allowed[worst]), tells


def _outputs(entry: Entry, scale: float, sight: Sight, rows: Any) -> Tuple[Any, Any]:
    """(rows, heads, dv) outputs of these queries, and what equal weights would give. One head of
    keys at a time, so that f64 copies stay small."""
    m, n = entry.q.shape[1], entry.k.shape[1]
    seen = sight.matrix(rows + (n - m), n)
    q, k, v = entry
    group = len(q) // len(k)
    equal = (seen / seen.sum(1, keepdim=True)).to(torch.float64)
    outputs: List[Any] = []
    averages: List[Any] = []
    for head in range(len(q)):
        if head % group == 0:
            keys, values = exact(k[head // group]), exact(v[head // group])
        scores = exact(q[head, rows.to(q.device)]) @ keys.T * scale
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
        outputs.append(weights @ values)
        averages.append(equal @ values)
    return torch.stack(outputs, 1), torch.stack(averages, 1)


def exact(x: Any) -> Any:
    return x.detach().to("cpu", torch.float64)


# ---- of calls and tensors ----


def given_by_name(module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments of a call by name; those that a signature gathers, too."""
    signature = inspect.signature(module.forward)
    bound = signature.bind(*args, **kwargs).arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.update(bound.pop(name, {}))
    return dict(bound)


def by_heads(x: Any, heads: int) -> Any:
    """(batch, n, heads d) as (batch, heads, n, d)"""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def shape_of(q: Any, k: Any) -> Shape:
    return (q.shape[0], q.shape[1], q.shape[2], k.shape[2])


def scale_of(q: Any) -> float:
    return 1.0 / math.sqrt(q.shape[-1])


def copied(tensor: Any) -> "np.ndarray[Any, Any]":
    """A copy in f32, which holds f16 and bf16 exactly; f64 stays."""
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    out: "np.ndarray[Any, Any]" = tensor.detach().to("cpu", dtype).contiguous().numpy()
    return out
