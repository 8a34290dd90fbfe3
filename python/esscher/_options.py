# SPDX-License-Identifier: Apache-2.0
"""One question to es_attend(): arrays, options and masks as the library takes them."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _abi, _arrays
from ._arguments import truth, whole
from ._calls import Monitor, call_long, call_short, fill_exec
from ._library import address, lib
from .errors import ArgumentError, ArgumentTypeError, EsscherError, ShapeError, error_of
from .progress import Line, Progress, reporter

# What may be asked for besides the output: the shape behind (scales, prefixes), and the dtype.
SHAPES: Dict[str, Callable[[int, int, int], Tuple[int, ...]]] = {
    "output": lambda m, dv, top: (m, dv),
    "lse": lambda m, dv, top: (m,),
    "entropy": lambda m, dv, top: (m,),
    "top_weight": lambda m, dv, top: (m,),
    "top_index": lambda m, dv, top: (m,),
    "sum_squares": lambda m, dv, top: (m,),
    "top_mass": lambda m, dv, top: (m, top),
    "spread2": lambda m, dv, top: (m,),
    "block_spread2": lambda m, dv, top: (m, dv),
    "block_powers": lambda m, dv, top: (m, 3),
    "mean": lambda m, dv, top: (dv,),
    "covariance": lambda m, dv, top: (dv, dv),
}
_MOMENTS = ("mean", "covariance")
_BLOCKS = ("block_spread2", "block_powers")
STATS = tuple(name for name in SHAPES if name != "output")

# Fewer multiplications than this are done before anybody could want to stop them.
_SHORT_WORK = 5e7


def wanted_names(stats: Sequence[str], output: bool) -> List[str]:
    """Names of the arrays to make, in a fixed order."""
    asked = {stats} if isinstance(stats, str) else set(stats)
    unknown = sorted(asked - set(STATS), key=str)
    if unknown:
        raise ArgumentError(
            f"there is no statistic {unknown[0]!r}",
            rule="python.stats",
            hint=f"stats may be {', '.join(STATS)}",
        )
    if truth(output, "output"):
        asked.add("output")
    if not asked:
        raise ArgumentError(
            "nothing is asked for: no output, and no stats",
            rule="python.stats",
            hint='name some, as in stats=("lse", "entropy"), or leave output=False out',
        )
    return [name for name in SHAPES if name in asked]


def _refuse_alone(keyword: str, given: bool, wanted: List[str], names: Sequence[str],
                  means: str) -> None:  # fmt: skip
    """A keyword is given with the statistics that it is for, and they with it."""
    asked = [name for name in names if name in wanted]
    if given and not asked:
        raise ArgumentError(
            f"{keyword} is given, but no statistic that it is for",
            rule=f"python.{keyword}",
            hint=f"ask for stats={' or '.join(map(repr, names))}, or leave {keyword} out",
        )
    if asked and not given:
        raise ArgumentError(f"{asked[0]} needs {keyword}", rule=f"python.{keyword}", hint=means)


class Heads:
    """Queries, keys and values as pairs of matrices: where each begins, and how they are shared."""

    def __init__(self, q: Any, k: Any, v: Any) -> None:
        for name, array in (("q", q), ("k", k), ("v", v)):
            if array.ndim < 2:
                raise _bad_shape(f"{name} has shape {array.shape}: expected two dimensions or more")
        if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
            raise _bad_shape(
                f"q {q.shape}, k {k.shape} and v {v.shape} do not fit: q and k need the same last "
                "dimension, k and v the same last but one"
            )
        self.m, self.d = q.shape[-2:]
        self.n, self.dv = v.shape[-2:]
        q_heads = q.shape[-3] if q.ndim > 2 else 1
        groups = [_group(q_heads, a.shape[-3] if a.ndim > 2 else 1, q, a) for a in (k, v)]
        leads = [q.shape[:-2], *(_ungrouped(a, g) for a, g in zip((k, v), groups))]
        try:
            same = leads[0] == leads[1] == leads[2]
            self.lead = leads[0] if same else np.broadcast_shapes(*leads)
        except ValueError:
            raise _bad_shape(
                f"leading dimensions of q {q.shape}, k {k.shape} and v {v.shape} do not fit"
            ) from None
        self.arrays = (q, k, v)
        self._groups = (1, *groups)
        self.count = math.prod(self.lead)

    def offsets(self, index: Tuple[int, ...]) -> List[int]:
        """Bytes from the first number of each array to that of its matrix for one head."""
        return [_offset(a, g, index) for a, g in zip(self.arrays, self._groups)]


def _bad_shape(message: str) -> ShapeError:
    return ShapeError(message, rule="python.shape")


def _group(q_heads: int, heads: int, q: Any, other: Any) -> int:
    """How many query heads share one head of keys or values."""
    if heads in (q_heads, 1) or q_heads == 1:
        return 1
    if heads == 0 or q_heads % heads:
        raise _bad_shape(f"{q_heads} heads of {q.shape} cannot share {heads} of {other.shape}")
    return q_heads // heads


def _ungrouped(array: Any, group: int) -> Tuple[int, ...]:
    lead: Tuple[int, ...] = array.shape[:-2]
    return lead if group == 1 else (*lead[:-1], lead[-1] * group)


def _offset(array: Any, group: int, index: Tuple[int, ...]) -> int:
    lead = array.ndim - 2
    own = index[len(index) - lead :]
    total = 0
    for axis in range(lead):
        at = own[axis] // group if axis == lead - 1 else own[axis]
        total += (0 if array.shape[axis] == 1 else at) * array.strides[axis]
    return total


def _row(array: Any, name: str) -> Any:
    """An array that is a row of numbers, or one: the order of others is unknown."""
    if array.ndim > 1:
        raise _bad_shape(f"{name} has shape {array.shape}: expected one dimension")
    return array.reshape(-1)


def _whole(values: ArrayLike, name: str) -> Any:
    """Whole numbers as the library takes them: a copy, which answers may keep."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"{name} must be whole numbers, and not {array.dtype}",
            rule="python.whole",
            hint="give ints, or whole numbers of NumPy",
        )
    return np.array(_row(array, name), dtype=np.int64)


def _reals(values: ArrayLike, count: Optional[int], name: str) -> Any:
    """The same of `count` real numbers; None: any number."""
    array = np.array(_row(_arrays.floats(values, name), name), dtype=np.float64)
    if count is not None and len(array) != count:
        raise _bad_shape(f"{name} has {len(array)} numbers: expected {count}")
    return array


class Request:
    """One call of es_attend() for every head, and what it points to."""

    def __init__(self, heads: Heads, wanted: List[str]) -> None:
        self.heads = heads
        self.wanted = wanted
        self.opts = _abi.AttendOpts()
        self.exec = _abi.Exec()
        self.opts.exec = ctypes.pointer(self.exec)
        self.keep: List[Any] = []  # arrays that the structs point to
        self._mask: Optional[_abi.Mask] = None
        self._sinks: Optional[Any] = None  # (..., heads, 1) logits

    def _point(self, array: Any) -> int:
        self.keep.append(array)
        return int(array.ctypes.data)

    # ---- what is asked ----

    def options(
        self,
        scale: Optional[ArrayLike],
        prefixes: Optional[ArrayLike],
        top_k: ArrayLike,
        block: int,
        precision: str,
        self_attention: bool,
        exclude_self: bool,
    ) -> None:
        self.one_scale = scale is None or np.ndim(scale) == 0
        d = self.heads.d
        if scale is None:
            scale = 1 / math.sqrt(d) if d else 1.0
        self.scales = _reals(scale, None, "scale")
        self.opts.scales, self.opts.n_scales = self._point(self.scales), len(self.scales)
        self.one_prefix = prefixes is None
        self.prefixes = (
            np.array([self.heads.n]) if prefixes is None else _whole(prefixes, "prefixes")
        )
        if not len(self.scales) or not len(self.prefixes):
            raise ArgumentError(
                "scale and prefixes must not be empty",
                rule="python.scale" if not len(self.scales) else "python.prefixes",
                hint="leave out which is not wanted",
            )
        if prefixes is not None:
            self.opts.prefixes, self.opts.n_prefixes = (
                self._point(self.prefixes),
                len(self.prefixes),
            )
        self.top = _whole(top_k, "top_k")
        _refuse_alone(
            "top_k", len(self.top) > 0, self.wanted, ["top_mass"],
            "top_k=[1, 8] is the mass of the largest weight and of the 8 largest",
        )  # fmt: skip
        if len(self.top):
            self.opts.top_k, self.opts.n_top_k = self._point(self.top), len(self.top)
        if precision not in ("f32", "f64"):
            raise ArgumentError(
                f"there is no precision {precision!r}",
                rule="python.precision",
                hint="expected 'f32' or 'f64'",
            )
        self.opts.precision = _abi.ES_F32 if precision == "f32" else _abi.ES_F64
        self.opts.block = whole(block, "block")
        _refuse_alone(
            "block", block != 0, self.wanted, _BLOCKS,
            "block=64, say, is the number of keys per block: a power of two up to 1024",
        )  # fmt: skip
        self.opts.spread = "spread2" in self.wanted
        self.opts.self = truth(self_attention, "self_attention")
        self.opts.exclude_self = truth(exclude_self, "exclude_self")

    def softmax(self, score_cap: Optional[float], sink_logits: Optional[ArrayLike]) -> None:
        """The cap of scores, and the sink of each head."""
        if score_cap is not None:
            self.opts.score_cap = float(_reals(score_cap, 1, "score_cap")[0])
            if self.opts.score_cap == 0.0:
                raise ArgumentError(
                    "score_cap is 0",
                    rule="python.score_cap",
                    hint="a cap is above 0; leave it out for none",
                )
        if sink_logits is None:
            return
        logits = np.asarray(_arrays.floats(sink_logits, "sink_logits"), dtype=np.float64)
        try:
            spread = np.broadcast_to(logits, self.heads.lead)
        except ValueError:
            raise _bad_shape(
                f"sink_logits has shape {logits.shape}: expected one number, or one for each head "
                f"of {self.heads.lead}"
            ) from None
        self._sinks = np.array(spread)[..., None]

    def _the_mask(self) -> _abi.Mask:
        if self._mask is None:
            self._mask = _abi.Mask()
            self.opts.mask = ctypes.pointer(self._mask)
        return self._mask

    def mask(
        self,
        causal: bool,
        window: int,
        sinks: int,
        local: int,
        positions: Union[None, str, ArrayLike],
    ) -> None:
        causal = truth(causal, "causal")
        if not (causal or window or sinks or local or positions is not None):
            return
        mask = self._the_mask()
        mask.causal = causal
        mask.window = whole(window, "window")
        mask.sinks = whole(sinks, "sinks")
        mask.local = whole(local, "local")
        if positions is None:
            return
        m, n = self.heads.m, self.heads.n
        if isinstance(positions, str):
            if positions != "last":
                raise ArgumentError(
                    f"positions cannot be {positions!r}",
                    rule="python.positions",
                    hint="expected whole numbers, one for each query, or 'last'",
                )
            if m > n:
                raise _bad_shape(f"{m} queries cannot be the last of {n} keys")
            places = np.arange(n - m, n, dtype=np.int64)
        else:
            places = _whole(positions, "positions")
        if len(places) != m:
            raise _bad_shape(f"positions has {len(places)} numbers, and there are {m} queries")
        mask.positions = self._point(places)

    def lists(
        self,
        lists: Optional[Sequence[ArrayLike]],
        queries: int,
        factors: Optional[ArrayLike],
    ) -> None:
        if lists is None:
            if queries or factors is not None:
                raise ArgumentError(
                    "list_queries and list_factors are given with lists",
                    rule="python.lists",
                    hint="give lists, or leave both out",
                )
            return
        queries = whole(queries, "list_queries")
        if queries < 1:
            raise ArgumentError(
                "lists need list_queries: how many consecutive queries share one",
                rule="python.lists",
                hint="list_queries=1 if each query has its own",
            )
        needed = -(-self.heads.m // queries)
        if len(lists) != needed:
            raise _bad_shape(
                f"{len(lists)} lists, and {self.heads.m} queries by {queries} need {needed}"
            )
        mask = self._the_mask()
        rows = [_whole(one, "lists") for one in lists]
        mask.list_queries = queries
        mask.list_offsets = self._point(np.cumsum([0, *map(len, rows)], dtype=np.int64))
        mask.list_keys = self._point(np.concatenate([*rows, np.zeros(1, np.int64)]))
        if factors is not None:
            mask.list_factors = self._point(_reals(factors, needed, "list_factors"))

    def classes(self, classes: Optional[ArrayLike], factors: Optional[ArrayLike]) -> None:
        if classes is None and factors is None:
            return
        if classes is None or factors is None:
            raise ArgumentError(
                "classes and class_factors are given together",
                rule="python.classes",
                hint="classes says which each key has, class_factors what each adds to scores",
            )
        numbers = _whole(classes, "classes")
        add = _reals(factors, None, "class_factors")
        if len(numbers) != self.heads.n:
            raise _bad_shape(f"classes has {len(numbers)} numbers: expected {self.heads.n}")
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < min(len(add), 256):
            raise ArgumentError(
                f"classes from {numbers.min()} to {numbers.max()}, and {len(add)} class_factors",
                rule="python.classes",
                hint=f"classes must lie in [0, {min(len(add), 256)})",
            )
        mask = self._the_mask()
        mask.n_classes = len(add)
        mask.classes = self._point(numbers.astype(np.uint8))
        mask.class_factors = self._point(add)

    def execution(
        self, threads: Optional[int], isa: Optional[str], max_memory: Optional[int]
    ) -> None:
        fill_exec(self.exec, threads, isa)
        if max_memory is not None:
            budget = _abi.MemLimit(limit=whole(max_memory, "max_memory", 1))
            self.exec.budget = ctypes.pointer(budget)
            self.keep.append(budget)

    # ---- the call ----

    def run(self, out: Optional[Any], progress: Union[None, bool, Progress]) -> Dict[str, Any]:
        if out is not None and "output" not in self.wanted:
            raise ArgumentError(
                "out is where the output goes, and output=False asks for none",
                rule="python.out",
                hint="leave one of them out",
            )
        tell = reporter("attend", progress)
        results = self._arrays(out)
        if self.heads.count and self.heads.m:
            try:
                self._compute(results, tell)
            finally:
                if isinstance(tell, Line):
                    tell.close()
        elif self.heads.count:  # no queries: what is a mean over them is none
            for name in set(results).intersection(_MOMENTS):
                results[name].fill(np.nan)
        for name in results:
            results[name] = self._trimmed(results[name])
        if out is not None:
            results["output"] = _delivered(results["output"], out)
        return results

    def _arrays(self, out: Optional[Any]) -> Dict[str, Any]:
        heads = self.heads
        front = (*heads.lead, len(self.scales), len(self.prefixes))
        results: Dict[str, Any] = {}
        for name in self.wanted:
            shape = (*front, *SHAPES[name](heads.m, heads.dv, len(self.top)))
            dtype = np.int64 if name == "top_index" else np.float64
            if name == "output" and out is not None and self._fits(out, shape):
                results[name] = out.reshape(shape)
            else:
                results[name] = np.empty(shape, dtype)
        return results

    def _fits(self, out: Any, shape: Tuple[int, ...]) -> bool:
        """Can the library write into ``out`` itself? Raises if it cannot be written at all."""
        if not isinstance(out, np.ndarray):
            raise ArgumentTypeError(
                f"out must be an array of NumPy, and not {type(out).__name__}",
                rule="python.out",
                hint="np.empty() makes one",
            )
        expected = self._shape_of(shape)
        if out.shape != expected:
            raise _bad_shape(f"out has shape {out.shape}: expected {expected}")
        if not out.flags.writeable:
            raise ArgumentError("out is read-only", rule="python.out", hint="give a copy of it")
        if not np.can_cast(np.float64, out.dtype, "same_kind"):
            raise _arrays.no_numbers("out", out)
        inputs = self.heads.arrays
        return (
            out.dtype == np.float64
            and out.flags.c_contiguous
            and out.flags.aligned
            and not any(np.may_share_memory(out, a) for a in inputs)
        )

    def _shape_of(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        lead = len(self.heads.lead)
        scales = () if self.one_scale else shape[lead : lead + 1]
        prefixes = () if self.one_prefix else shape[lead + 1 : lead + 2]
        return (*shape[:lead], *scales, *prefixes, *shape[lead + 2 :])

    def _trimmed(self, array: Any) -> Any:
        """Without the dimensions of what was given alone."""
        return array.reshape(self._shape_of(array.shape))

    def _compute(self, results: Dict[str, Any], progress: Optional[Progress]) -> None:
        heads = self.heads
        error = _abi.Error()
        at: List[Any] = [0, ()]
        size = heads.count * heads.m * heads.n * (heads.d + len(self.scales) * heads.dv)
        short = size < _SHORT_WORK and progress is None
        monitor = None if short else Monitor()

        def work() -> int:
            for number, index in enumerate(itertools.product(*map(range, heads.lead))):
                if monitor and monitor.stopped:  # a head of one piece has nowhere to stop in
                    break
                at[:] = number, index
                status = self._one(index, results, error)
                if status:
                    return status
            return 0

        if monitor is None:
            status = call_short(work)
        else:
            self.exec.progress = address("es_monitor_work")
            self.exec.progress_user = monitor.handle
            tell = None
            if progress:
                tell = lambda share, _: progress((at[0] + share) / heads.count, "")  # noqa: E731
            status = call_long(work, monitor, tell)
        if status:
            raise self._failure(status, error, at[1])

    def _one(self, index: Tuple[int, ...], results: Dict[str, Any], error: _abi.Error) -> int:
        views = [
            _arrays.matrix(array, offset)
            for array, offset in zip(self.heads.arrays, self.heads.offsets(index))
        ]
        if self._sinks is not None:
            self.opts.sink = self._sinks[index].ctypes.data
        out = _abi.AttendOut()
        for name, array in results.items():
            if name not in _MOMENTS:
                setattr(out, name, array[index].ctypes.data)
        wants_moments = any(name in results for name in _MOMENTS)
        cells = len(self.scales) * len(self.prefixes)
        moments = (_abi.Moments * cells)() if wants_moments else None
        if moments is not None:
            out.moments = moments
        status: int = lib.es_attend(
            *map(ctypes.byref, views), ctypes.byref(self.opts), ctypes.byref(out),
            ctypes.byref(error),
        )  # fmt: skip
        if status == 0 and moments is not None:
            for cell, one in enumerate(moments):
                _take_moments(one, cell, index, results)
        return status

    def _failure(self, status: int, error: _abi.Error, index: Tuple[int, ...]) -> EsscherError:
        failure = error_of(status, error)
        failure.head = index or None
        return failure


def _take_moments(
    one: _abi.Moments, cell: int, index: Tuple[int, ...], results: Dict[str, Any]
) -> None:
    dim = one.dim
    if "mean" in results:
        mean = ctypes.cast(one.mean, ctypes.POINTER(ctypes.c_double))
        results["mean"][index].reshape(-1, dim)[cell] = np.ctypeslib.as_array(mean, (dim,))
    if "covariance" in results:
        matrix = results["covariance"][index].reshape(-1, dim, dim)[cell]
        lib.es_moments_covariance(ctypes.byref(one), 0, matrix.ctypes.data)
    lib.es_moments_free(ctypes.byref(one))


def _delivered(result: Any, out: Any) -> Any:
    if not np.may_share_memory(result, out):
        np.copyto(out, result, casting="same_kind")
    return out
