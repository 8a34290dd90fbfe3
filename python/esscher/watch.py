# SPDX-License-Identifier: Apache-2.0
"""Watch a PyTorch model that you already run.

::

    with esscher.watch(model) as w:
        model(**inputs)
    w.result.to_pandas()        # a row for each layer and head, as the study ``measure`` has them

The queries, keys and values of every attention in the model are copied as it runs, O(n d) numbers
each, to a temporary folder; the study reads them there. No matrix of n x n weights is made or kept.
The model does not notice: outputs and gradients have the same bits as without.

What statistics would be wrong of is refused by name, and no table is given that leaves it out
unless that is asked for. ``docs/PYTHON.md`` says what is caught, and what is refused.
"""

from __future__ import annotations

import fnmatch
import html
import importlib
import logging
import os
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy as np

from . import _abi
from ._arguments import whole
from ._scratch import Scratch
from .errors import ArgumentError, EmptyError, EsscherError, UnsupportedError
from .results import ColumnInfo, Result, Table
from .studies import studies

if TYPE_CHECKING:
    from ._verify import Caught, Entries

_MAX_BYTES = 4 << 30

# Parameters of measure that follow from what was caught, or have no meaning for many calls.
_OWN = {
    *("q", "k", "v", "scale", "scales", "causal", "window", "layout", "batch", "bf16"),
    *("tokens", "Wq", "Wk", "Wv", "compare", "compare_layout", "compare_dtype", "tolerance"),
    *("output", "per_query", "out", "resume", "force", "shard", "dry_run"),
}


@dataclass(frozen=True)
class Call:
    """One entry of the batch of one call of an attention that was caught."""

    layer: int
    """Its number, in the order of first calls."""
    module: str
    """The name of its module in the model."""
    call: int
    """Its number among the calls of this layer."""
    batch: int
    """Which entry of the batch."""
    place: str
    """Where it was caught: ``scaled_dot_product_attention``, ``MultiheadAttention`` or
    ``projections``."""
    heads: Tuple[int, ...]
    """Query heads that were kept."""
    queries: int
    keys: int
    scale: float
    causal: bool
    window: int
    """0: none."""
    output_error: Optional[float]
    """Relative error of the model's outputs, for some queries of each head, against attention of
    what was caught in f64; None where they cannot be compared, with dropout."""
    files: Tuple[str, str, str]
    """.npy files of queries (heads, m, d), keys and values."""


@dataclass(frozen=True)
class Refusal:
    """An attention whose statistics would have been wrong."""

    layer: int
    module: str
    call: int
    entries: Tuple[int, ...]
    """Entries of the batch that it is about; none: the call as a whole."""
    why: str

    def __str__(self) -> str:
        whose = f"layer {self.layer}, {self.module}, call {self.call}"
        if len(self.entries) > 4:
            first, last = self.entries[0], self.entries[-1]
            whose += f", {len(self.entries)} entries from {first} to {last}"
        elif self.entries:
            numbers = ", ".join(map(str, self.entries))
            whose += f", {'entry' if len(self.entries) == 1 else 'entries'} {numbers}"
        return f"{whose}: {self.why}"


def watch(
    model: Any,
    *,
    layers: Union[None, int, str, Sequence[Union[int, str]]] = None,
    heads: Union[None, int, Sequence[int]] = None,
    last: Optional[int] = None,
    max_bytes: int = _MAX_BYTES,
    folder: Union[None, str, "os.PathLike[str]"] = None,
) -> "Watch":
    """Catch the attention of a PyTorch model while it runs: ``with esscher.watch(model) as w:``

    Args:
        model: a ``torch.nn.Module``, on any device.
        layers: which, by their number in the order of first calls or by patterns of module names,
            ``"decoder.*"``; all by default.
        heads: which query heads; all by default.
        last: keep this many queries of each call, the last ones; all by default. Time of the study
            and the queries' part of the files shrink with it.
        max_bytes: most that may be kept. What comes after it is refused.
        folder: keep the files here (a new or empty folder) instead of a temporary one.

    Raises:
        ImportError: PyTorch is not installed.
        TypeError: the model is none, or one that cannot be seen into (TorchScript, torch.compile,
            DataParallel).
    """
    try:
        from . import _hooks
    except ImportError as error:
        raise ImportError(
            "esscher.watch needs PyTorch, which cannot be imported by this Python "
            f"({error}): install the package torch, or python3-torch of Debian"
        ) from error
    w = Watch(layers, heads, last, max_bytes, folder)
    w._catcher = _hooks.Catcher(model, w._receive)
    return w


class Watch:
    """What :func:`watch` returns: open inside the ``with``, to be asked behind it.

    Attributes:
        calls: what was caught, in order.
        refused: what was not, and why.
        bytes: how much is kept.
    """

    def __init__(
        self,
        layers: Union[None, int, str, Sequence[Union[int, str]]],
        heads: Union[None, int, Sequence[int]],
        last: Optional[int],
        max_bytes: int,
        folder: Union[None, str, "os.PathLike[str]"],
    ) -> None:
        self._wanted = _chosen(layers, "layers", patterns=True)
        self._heads = _chosen(heads, "heads")
        self._last = None if last is None else whole(last, "last", 1)
        self._max_bytes = whole(max_bytes, "max_bytes", 0)
        self._given_folder = folder
        self._temporary: Optional[Scratch] = None
        self._catcher: Any = None
        self._numbers: Dict[str, int] = {}  # of layers, by name
        self._count: Dict[str, int] = {}  # of their calls
        self._closed = False
        self._result: Optional[Watched] = None
        self._result_of = (0, 0)  # how many calls and refusals it was made of
        self.calls: List[Call] = []
        self.refused: List[Refusal] = []
        self.bytes = 0

    def __enter__(self) -> "Watch":
        self._catcher.open()
        self._closed = False
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._catcher.close()
        if error is not None:
            self.close()

    def close(self) -> None:
        """Forget what was caught and remove the temporary folder. It goes with this object, too.
        A ``result`` that was computed before stays."""
        if self._result_of != self._now():
            self._result = None
        self.calls, self.bytes = [], 0
        self._closed, self._result_of = True, self._now()
        if self._temporary:
            self._temporary.remove()
        self._temporary = None

    @property
    def layers(self) -> Dict[int, str]:
        """Names of all layers that ran, by number, also of those that were not wanted."""
        return {number: name for name, number in self._numbers.items()}

    def __repr__(self) -> str:
        refused = f", {len(self.refused)} refused" if self.refused else ""
        layers = len({call.layer for call in self.calls})
        return (
            f"<esscher watch: {len(self.calls)} calls of {layers} layers caught{refused}, "
            f"{self.bytes} bytes>"
        )

    # ---- while the model runs ----

    def _receive(self, name: str, place: str, entries: "Entries") -> None:
        """An attention was computed. Nothing that goes wrong here may disturb the model, and what
        is wrong with one entry of the batch not the others."""
        layer = self._numbers.setdefault(name, len(self._numbers))
        call = self._count.get(name, 0)
        self._count[name] = call + 1
        if not self._is_wanted(layer, name):
            return
        whys: Dict[str, List[int]] = {}  # which entries were refused for it
        try:
            for number, catch in entries:
                try:
                    self._keep(layer, name, call, number, place, catch())
                except Exception as error:
                    whys.setdefault(_why(error), []).append(number)
        except Exception as error:
            whys[_why(error)] = []
        self.refused += [
            Refusal(layer, name, call, tuple(numbers), why) for why, numbers in whys.items()
        ]

    def _is_wanted(self, layer: int, name: str) -> bool:
        return self._wanted is None or any(
            fnmatch.fnmatchcase(name, w) if isinstance(w, str) else w == layer for w in self._wanted
        )

    def _keep(
        self, layer: int, name: str, call: int, number: int, place: str, caught: "Caught"
    ) -> None:
        from ._masks import Refused
        from ._verify import copied

        q, k, v = caught.entry
        heads: Sequence[int] = range(len(q)) if self._heads is None else self._heads
        group = len(q) // len(k)
        if self._heads is not None:
            if not all(0 <= head < len(q) for head in heads):
                raise Refused(f"heads {list(heads)} were asked for, it has {len(q)}")
            q = q[list(heads)]
            k, v = (x[[head // group for head in heads]] for x in (k, v))
        q = q[:, -self._last :] if self._last else q
        arrays = [copied(x) for x in (q, k, v)]
        size = sum(array.nbytes for array in arrays)
        if self.bytes + size > self._max_bytes:
            raise Refused(
                f"its {size} bytes do not fit into max_bytes = {self._max_bytes} beside the "
                f"{self.bytes} before: choose layers, heads or last, or allow more"
            )
        files = self._write(f"layer{layer}.call{call}.batch{number}", arrays)
        self.bytes += size
        self.calls.append(
            Call(
                layer=layer,
                module=name,
                call=call,
                batch=number,
                place=place,
                heads=tuple(heads),
                queries=q.shape[1],
                keys=k.shape[1],
                scale=caught.scale,
                causal=caught.sight.causal,
                window=caught.sight.window,
                output_error=caught.error,
                files=files,
            )
        )

    def _write(self, stem: str, arrays: List["np.ndarray[Any, Any]"]) -> Tuple[str, str, str]:
        if self._given_folder is not None:
            os.makedirs(self._given_folder, exist_ok=True)
            folder = os.fspath(self._given_folder)
        else:
            if not self._temporary:
                self._temporary = Scratch("watch")
            folder = self._temporary.path
        q, k, v = (os.path.join(folder, f"{stem}.{letter}.npy") for letter in "qkv")
        for path, array in zip((q, k, v), arrays):
            with open(path, "xb") as file:
                np.save(file, array)
        return q, k, v

    # ---- afterwards ----

    @property
    def result(self) -> "Watched":
        """The tables of ``measure``, computed when they are first asked for."""
        if self._result is None or self._result_of != self._now():
            self._result, self._result_of = self.measure(), self._now()
        return self._result

    def _now(self) -> Tuple[int, int]:
        return len(self.calls), len(self.refused)

    def measure(self, *, skip_refused: bool = False, **keywords: Any) -> "Watched":
        """The study ``measure`` of every call that was caught.

        Args:
            skip_refused: give tables although some of what ran is not in them.
            keywords: of :func:`esscher.measure`, ``prefixes=[256, 1024]``, ``top_k=[1, 8]``, ...
                Arrays, scale and mask are those of the calls.

        Raises:
            UnsupportedError: some of what ran was refused; the message says what, and why.
            EmptyError: nothing was caught, or it was closed.
        """
        own = [keyword for keyword in keywords if keyword in _OWN]
        if own:
            raise ArgumentError(
                f"{own[0]} is not for all calls at once",
                rule="watch.keyword",
                hint="w.calls has the files of each call: esscher.measure(q=..., k=..., v=...)",
            )
        if self._closed:
            raise EmptyError(
                "it was closed, and what was caught is gone",
                rule="watch.closed",
                hint="ask for tables before close(); an exception inside the with closes it, too",
            )
        if self.refused and not (skip_refused and self.calls):
            shown = "".join(f"\n  {refusal}" for refusal in self.refused[:8])
            more = len(self.refused) - 8
            others = "w.measure(skip_refused=True) gives the tables of the others"
            raise UnsupportedError(
                f"{'some' if self.calls else 'all'} of the attention that ran was refused:{shown}"
                + (f"\n  and {more} more: w.refused" if more > 0 else ""),
                rule="watch.refused",
                hint=others if self.calls else "",
            )
        if self._numbers and not any(self._is_wanted(*layer) for layer in self.layers.items()):
            ran = ", ".join(f"{number} {name}" for name, number in [*self._numbers.items()][:8])
            raise EmptyError(
                "none of the layers that ran was wanted",
                rule="watch.layers",
                hint=f"layers that ran: {ran}{', ...' if len(self._numbers) > 8 else ''}",
            )
        if not self.calls:
            raise EmptyError(
                "no attention was caught",
                rule="watch.nothing",
                hint="run the model inside the with; what is caught is torch.nn.functional's "
                "scaled_dot_product_attention, torch.nn.MultiheadAttention, and modules with "
                "q_proj, k_proj and v_proj",
            )
        once = _Once()
        logger = logging.getLogger("esscher")
        logger.addFilter(once)
        try:
            return Watched([(call, _measured(call, keywords)) for call in self.calls])
        finally:
            logger.removeFilter(once)


def _chosen(value: Any, name: str, patterns: bool = False) -> Optional[List[Any]]:
    """Numbers, or patterns of names, of which one may be given alone; None: all."""
    if value is None:
        return None
    several = [value] if np.ndim(value) == 0 else list(value)
    return [
        one if patterns and isinstance(one, str) else whole(one, name, 0) for one in several
    ]


def _why(error: Exception) -> str:
    from ._masks import Refused

    if isinstance(error, Refused):
        return str(error)
    # no memory, no disk, no numbers: tables must know
    return f"it could not be kept: {type(error).__name__}: {error}"


class _Once(logging.Filter):
    """A remark of the library about every layer is given once, for the first."""

    def __init__(self) -> None:
        super().__init__()
        self._said: Set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage() in self._said
        self._said.add(record.getMessage())
        return not said


def _measured(call: Call, keywords: Dict[str, Any]) -> Result:
    q, k, v = call.files
    try:
        return studies()["measure"](
            q=q,
            k=k,
            v=v,
            scale=call.scale,
            causal=call.causal,
            window=call.window or None,
            layout="bhnd",
            **keywords,
        )
    except EsscherError as error:
        whose = f"layer {call.layer}, {call.module}, call {call.call}, entry {call.batch}"
        error.message = f"{whose}: {error.message}"
        raise


# ---- what is answered ----

_KEYS = tuple(
    ColumnInfo(key, key, "", form, definition, None, "", tells_apart=True)
    for key, form, definition in (
        ("layer", "count", "in the order of first calls"),
        ("module", "text", "its name in the model"),
        ("call", "count", "which call of this layer"),
        ("batch", "count", "which entry of the batch"),
    )
)


class Watched:
    """The answers of ``measure`` for all calls that were caught.

    Attributes:
        results: (call, answer) of each, in order.
        tables: the tables of all answers, one below the other, as structured arrays: columns
            ``layer``, ``module``, ``call`` and ``batch`` come first.
    """

    def __init__(self, results: List[Tuple[Call, Result]]) -> None:
        self.results = results
        self._about: Dict[str, Table] = {}
        for key in dict.fromkeys(key for _, result in results for key in result.tables):
            self._about[key] = _joined(key, results)
        self.tables = {key: table.array() for key, table in self._about.items()}

    def columns(self, table: str = "rows") -> Dict[str, ColumnInfo]:
        """What is known about the columns of a table, by key."""
        return {info.key: info for info in self._about[table].about}

    def to_pandas(self, table: str = "rows") -> Any:
        """A table as a DataFrame of pandas."""
        pandas = importlib.import_module("pandas")  # only for callers of this method
        array = self.tables[table]
        return pandas.DataFrame({key: array[key] for key in array.dtype.names or ()})

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        tables = ", ".join(f"{key}[{len(array)}]" for key, array in self.tables.items())
        return f"<esscher watched: {len(self.results)} calls, {tables}>"

    def _lines(self, most: int) -> List[List[str]]:
        """What people are shown of ``rows``: titles, then a line for each row."""
        array = self.tables["rows"]
        shown = [key for key in _SHOWN if key in (array.dtype.names or ())]
        about = self.columns()
        return [[about[key].title for key in shown]] + [
            [_text(row[key]) for key in shown] for row in array[:most]
        ]

    def _rest(self, most: int) -> str:
        left = len(self.tables["rows"]) - most
        return f"{left} more row{'' if left == 1 else 's'}" if left > 0 else ""

    def text(self, full: bool = False) -> str:
        """The first rows as people read them; ``full``: all."""
        most = len(self.tables["rows"]) if full else _MOST_LINES
        lines = self._lines(most)
        widths = [max(map(len, column)) for column in zip(*lines)]
        rest = self._rest(most)
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines
        ) + (f"\n  {rest}: w.result.text(full=True)" if rest else "")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        title, *rows = [[html.escape(cell) for cell in line] for line in self._lines(_MOST_ROWS)]
        head = "".join(f"<th>{cell}</th>" for cell in title)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows
        )
        rest = self._rest(_MOST_ROWS)
        note = f"<p>{rest}</p>" if rest else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


_MOST_LINES, _MOST_ROWS = 40, 20  # in a terminal and in a notebook, as of a Result
_SHOWN = ("layer", "module", "call", "batch", "head", "n", "ess", "entropy", "top_weight", "lse")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _joined(key: str, results: List[Tuple[Call, Result]]) -> Table:
    """A table of all answers: whose row it is, then its columns."""
    having = [(call, result) for call, result in results if key in result.tables]
    lengths = [len(result.tables[key]) for _, result in having]
    about = {info.key: info for info in _KEYS}
    columns: Dict[str, Any] = {}
    for name, info in about.items():
        values = np.array([getattr(call, name) for call, _ in having])
        columns[name] = np.repeat(values.astype(object if info.format == "text" else int), lengths)
    for _, result in having:
        for name, info in result.columns(key).items():
            about.setdefault(name, info)
    for name in about:
        if name not in columns:
            parts = [_column(call, result.tables[key], name) for call, result in having]
            columns[name] = np.concatenate(parts)
    return Table(key, columns, list(about.values()))


def _column(call: Call, array: "np.ndarray[Any, Any]", name: str) -> "np.ndarray[Any, Any]":
    if name not in (array.dtype.names or ()):
        return np.full(len(array), np.nan)
    column: "np.ndarray[Any, Any]" = array[name]
    if name == "head" and len(column):
        column = np.asarray(call.heads)[column.astype(int)]  # numbers as the model has them
    return column
