# SPDX-License-Identifier: Apache-2.0
"""Attention over NumPy arrays, with its statistics, in one pass and without an n x n matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _arrays
from ._options import SHAPES, STATS, Heads, Request, wanted_names
from .progress import Progress

__all__ = ["Attention", "STATS", "attend"]


@dataclass(frozen=True)
class Attention:
    """What :func:`attend` computed. Arrays that were not asked for are ``None``.

    Shapes begin with the leading dimensions of the queries (batch, heads), then, where several
    were given, scales, then prefixes. m queries, values of dv numbers.
    """

    output: Optional[Any] = None
    """(m, dv) outputs."""
    lse: Optional[Any] = None
    """(m) log of the sum of exp(score), in nats."""
    entropy: Optional[Any] = None
    """(m) entropy of the weights, in nats."""
    top_weight: Optional[Any] = None
    """(m) the largest weight."""
    top_index: Optional[Any] = None
    """(m) a key that has it: the first; -1: the sink."""
    sum_squares: Optional[Any] = None
    """(m) sum of squared weights; its inverse is the effective number of keys."""
    top_mass: Optional[Any] = None
    """(m, len(top_k)) mass of the k largest weights."""
    spread2: Optional[Any] = None
    """(m) sum over keys of (weight times distance of its value from the output) squared."""
    block_spread2: Optional[Any] = None
    """(m, dv) the same for blocks of consecutive keys, by channel."""
    block_powers: Optional[Any] = None
    """(m, 3) sums over blocks of the second, third and fourth power of their weight."""
    mean: Optional[Any] = None
    """(dv) mean of the outputs over the queries."""
    covariance: Optional[Any] = None
    """(dv, dv) covariance of the outputs over the queries, with divisor m."""
    scales: Optional[Any] = None
    """The score scales that were used."""
    prefixes: Optional[Any] = None
    """The numbers of keys that were used."""
    top_k: Tuple[int, ...] = ()
    """Sizes k of ``top_mass``."""

    def __repr__(self) -> str:
        shown = [
            f"{name}{list(getattr(self, name).shape)}"
            for name in SHAPES
            if getattr(self, name) is not None
        ]
        return f"Attention({', '.join(shown)})"


def attend(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scale: Optional[ArrayLike] = None,
    score_cap: Optional[float] = None,
    sink_logits: Optional[ArrayLike] = None,
    causal: bool = False,
    window: int = 0,
    sinks: int = 0,
    local: int = 0,
    positions: Union[None, str, ArrayLike] = None,
    prefixes: Optional[ArrayLike] = None,
    stats: Sequence[str] = (),
    top_k: ArrayLike = (),
    block: int = 0,
    self_attention: bool = False,
    exclude_self: bool = False,
    lists: Optional[Sequence[ArrayLike]] = None,
    list_queries: int = 0,
    list_factors: Optional[ArrayLike] = None,
    classes: Optional[ArrayLike] = None,
    class_factors: Optional[ArrayLike] = None,
    output: bool = True,
    precision: str = "f32",
    threads: Optional[int] = None,
    isa: Optional[str] = None,
    max_memory: Optional[int] = None,
    out: Optional["np.ndarray[Any, Any]"] = None,
    progress: Union[None, bool, Progress] = False,
) -> Any:
    """Softmax attention of every query against every key that it sees.

    A query sees every key if neither ``window``, ``sinks``, ``local`` nor ``lists`` are given.
    Given any of them, it sees only the keys that one of them lets it see: ``sinks=3`` alone is the
    first three keys and no others. ``causal`` then takes away those behind its own place.

    Arrays of f32 and f64 with any strides, aligned or not, writable or not, are read where they
    lie; f16 and bf16 are converted to f32, integers to f64. Tensors of PyTorch on the CPU are taken
    as they are. The output has the type of the queries, f16 and bf16 included; that of integers is
    f64. Statistics are f64. Tensors give tensors.

    Args:
        q: queries, (m, d), (heads, m, d) or (batch, heads, m, d); any number of leading dimensions.
        k: keys, (n, d) and so on. Leading dimensions are broadcast as NumPy does; of the last of
            them, heads, keys and values may have fewer if they divide those of the queries: query
            head h then uses head h // (heads / key heads).
        v: values, (n, dv) and so on.
        scale: factor b of the scores b q.k; several: a dimension of the results. By default
            1/sqrt(d).
        score_cap: a score s becomes c tanh(s / c), after the scale and before the mask.
        sink_logits: learned sinks: one number, or one for each head, broadcast to the leading
            dimensions; -inf: no sink. Weights are exp(s) / (exp(logit) + sum exp(s)). The sink
            counts as one more key with value 0 in all statistics but spreads; ``top_index`` is -1
            where it has the largest weight, and its own weight is exp(logit - lse). A query that
            sees no key has output 0.
        causal: a query sees no key behind its own place, whatever lets it.
        window: lets a query see keys at distance up to ``window``; causal: the last ``window``
            keys, its own included. 0: no window.
        sinks: lets it see the first ``sinks`` keys. 0: none.
        local: lets it see the keys of its own block of ``local`` keys. 0: no blocks.
        positions: (m) the place of each query among the keys; ``"last"``: the queries are the last
            m tokens, as in decoding. By default query i stands at key i; with ``causal`` there are
            then as many queries as keys.
        prefixes: increasing numbers of keys; everything is computed for each, in the same pass, and
            is a dimension of the results.
        stats: what is wanted besides the output: any of ``lse``, ``entropy``, ``top_weight``,
            ``top_index``, ``sum_squares``, ``top_mass`` (needs ``top_k``), ``spread2``,
            ``block_spread2`` and ``block_powers`` (need ``block``), ``mean``, ``covariance``.
        top_k: sizes k for ``top_mass``; refused without it.
        block: keys per block: a power of two up to 1024; refused without statistics of blocks.
        self_attention: the queries are the tokens themselves: at prefix p only the first p of them
            exist, and the rest of the results is NaN.
        exclude_self: a query does not see the key at its own place.
        lists: let queries see the keys of one increasing list for each ``list_queries``
            consecutive queries; ``list_factors`` (lists) is added to the scores of those that a
            query sees by its list alone.
        list_queries: how many consecutive queries share a list.
        list_factors: see ``lists``.
        classes: (n) a class below 256 for each key, with ``class_factors`` (classes) added to the
            scores of its keys, in nats.
        class_factors: see ``classes``.
        output: ``False`` if only statistics are wanted.
        precision: ``"f32"`` or ``"f64"`` kernels. Outputs of f32 kernels have a relative error
            below 1e-6 while scores stay within 10 nats, below 5e-6 within 130 nats; those of f64
            kernels below 1e-12.
        threads: how many work; by default all processors. They do not change a bit of the result.
        isa: ``"portable"``, ``"avx2"``, ``"avx512"`` and so on; by default the best of this CPU.
        max_memory: refuse to take more bytes than this besides inputs and outputs, head by head.
        out: where the output goes; any real dtype and layout, f64 in C order without a copy.
        progress: called now and then with the share that is done and an empty text; ``True``: a
            line on standard error; ``None``: that, in a terminal or notebook. Silent by default.

    Returns:
        The output, an array; or, where ``stats``, ``prefixes`` or several scales are asked for, an
        :class:`Attention`.

    Raises:
        NonFiniteError: an input holds NaN or infinity; the exception says where.
        ShapeError: shapes do not fit.
        EmptyError: a query would see no key, and has no sink.
        ArgumentError: options that make no sense; an :class:`ArgumentTypeError`, which is a
            ``TypeError``, where one is of a kind that cannot be.
        RangeError: numbers are too large for the kernels' precision.
        KeyboardInterrupt: after Ctrl-C, within a second or so.

    >>> import esscher, numpy as np
    >>> x = np.eye(3)
    >>> esscher.attend(x, x, x, scale=0.0).round(3)[0]
    array([0.333, 0.333, 0.333])
    """
    arrays = (_arrays.floats(q, "q"), _arrays.floats(k, "k"), _arrays.floats(v, "v"))
    heads = Heads(*arrays)
    wanted = wanted_names(stats, output)
    request = Request(heads, wanted)
    request.options(scale, prefixes, top_k, block, precision, self_attention, exclude_self)
    request.softmax(score_cap, sink_logits)
    request.mask(causal, window, sinks, local, positions)
    request.lists(lists, list_queries, list_factors)
    request.classes(classes, class_factors)
    request.execution(threads, isa, max_memory)
    results = request.run(out, progress)
    results = {
        name: array
        if name == "output" and out is not None
        else _arrays.like(array, q, typed=name == "output")
        for name, array in results.items()
    }
    if wanted == ["output"] and prefixes is None and request.one_scale:
        return results["output"]
    return Attention(
        **results,
        scales=request.scales,
        prefixes=request.prefixes,
        top_k=tuple(map(int, request.top)),
    )
