# SPDX-License-Identifier: Apache-2.0
"""What a study answers: tables as NumPy arrays, findings, values, provenance, and views of them."""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple

import numpy as np

from . import _abi
from ._arguments import decoded
from ._library import lib
from .errors import ArgumentError, check

# es_answer_form
_FORMS = {
    "text": _abi.ES_ANSWER_TEXT,
    "markdown": _abi.ES_ANSWER_MARKDOWN,
    "csv": _abi.ES_ANSWER_CSV,
    "json": _abi.ES_ANSWER_JSON,
    "latex": _abi.ES_ANSWER_LATEX,
}

# Members of an answer's JSON that are no results.
_RESERVED = ("schema", "command", "version", "seed", "provenance", "standing", "findings")


@dataclass(frozen=True)
class ColumnInfo:
    """What is known about a column of a table.

    Attributes:
        key: its name in ``tables``, in JSON and in run files.
        title: for people.
        unit: or empty.
        format: how its numbers are written: ``"real"``, ``"count"``, ``"bytes"``, ...
        definition: what it means; empty where the title says it all.
        error: key of the column that holds its standard errors, or ``None``.
        standing: how far what theory says may be trusted: ``"proved"``, ``"heuristic"``,
            ``"numerical"``, ``"cited"``; empty for what was measured.
        is_error: it holds the standard errors of another column.
        shown: people are shown it.
        tells_apart: it says what a row is about, where others say what was found.
    """

    key: str
    title: str
    unit: str
    format: str
    definition: str
    error: Optional[str]
    standing: str
    is_error: bool = False
    shown: bool = True
    tells_apart: bool = False


@dataclass
class Table:
    """A table while it is read: its columns, what is known about them, and its views."""

    key: str
    columns: Dict[str, Any]
    about: List[ColumnInfo]
    title: str = ""  # of what people see of it unasked
    lists: Sequence[ColumnInfo] = ()  # columns of vectors or matrices, which are not in columns yet

    def array(self) -> "np.ndarray[Any, Any]":
        """The table as a structured array."""
        rows = len(next(iter(self.columns.values()))) if self.columns else 0
        out = np.empty(rows, dtype=[(key, c.dtype) for key, c in self.columns.items()])
        for key, column in self.columns.items():
            out[key] = column
        return out


def _numbers(reals: "np.ndarray[Any, Any]", form: int) -> "np.ndarray[Any, Any]":
    """Counts as whole numbers and flags as truth values, where none is missing; others as f64."""
    if len(reals) and form in (_abi.ES_FORMAT_COUNT, _abi.ES_FORMAT_FLAG) and np.isfinite(reals).all():
        if form == _abi.ES_FORMAT_FLAG:
            return reals.astype(np.bool_)
        if (np.abs(reals) < 2.0**53).all() and (reals == np.floor(reals)).all():
            return reals.astype(np.int64)
    return reals


def objects(values: List[Any]) -> "np.ndarray[Any, Any]":
    """A column of things that are no numbers, one by one: NumPy would look into arrays."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


class Answer:
    """An es_answer of the library, freed with this object. One thread at a time."""

    def __init__(self, handle: ctypes.c_void_p, keep: Any = None) -> None:
        self.handle = handle
        self._keep = keep  # what the answer points to
        self._lock = threading.Lock()

    def __del__(self, free: Callable[[Any], None] = lib.es_answer_free) -> None:
        free(self.handle)

    def write(self, form: str, opts: _abi.AnswerOpts) -> str:
        """A view of it."""
        pieces: List[bytes] = []

        def take(_user: object, data: int, count: int) -> bool:
            pieces.append(ctypes.string_at(data, count))
            return True

        error = _abi.Error()
        with self._lock:
            status = lib.es_answer_write(
                self.handle, _FORMS[form], ctypes.byref(opts), _abi.WriteFn(take), None,
                ctypes.byref(error),
            )
        check(status, error)
        return b"".join(pieces).decode("utf-8", "replace")

    def findings(self) -> List[str]:
        found: List[str] = []
        while (sentence := lib.es_answer_finding(self.handle, len(found))) is not None:
            found.append(sentence.decode("utf-8", "replace"))
        return found

    def tables(self) -> List[Table]:
        found: List[Table] = []
        while handle := lib.es_answer_at(self.handle, len(found)):
            found.append(_read_table(handle))
        return found


def _words(text: Optional[bytes]) -> List[str]:
    return decoded(text).split()


def _shown_keys(spec: _abi.TableSpec) -> Tuple[str, List[str], bool]:
    """Title of the first view that people see unasked, the keys that views show, and whether one
    shows them all."""
    title, keys, everything = "", [], False
    at = 0
    while spec.views and spec.views[at].title:
        view = spec.views[at]
        title = title or ("" if view.only_with_full else decoded(view.title))
        keys += _words(view.columns)
        everything = everything or view.columns is None
        at += 1
    return title, keys, everything


def _definition(own: _abi.Column) -> str:
    """What a column means, without the marks around its formulas."""
    return re.sub("`([^`]*)`", r"\1", decoded(own.definition))


def _column_info(column: _abi.TableColumn, spec: _abi.TableSpec) -> ColumnInfo:
    own = column.spec.contents
    _, shown, everything = _shown_keys(spec)
    key, own_key = decoded(column.key), decoded(own.key)
    return ColumnInfo(
        key=key,
        title=decoded(column.title),
        unit=decoded(own.unit),
        format=decoded(lib.es_format_name(column.format)),
        definition="one standard error" if column.is_error else _definition(own),
        error=decoded(column.error) if column.error else None,
        standing="" if column.is_error else decoded(lib.es_standing_name(own.standing)),
        is_error=column.is_error,
        shown=not column.is_error and (everything or own_key in shown),
        tells_apart=not column.is_error and own_key in _words(spec.keys),
    )


def _read_table(handle: int) -> Table:
    spec = lib.es_table_about(handle).contents
    rows = lib.es_table_rows(handle)
    columns: Dict[str, Any] = {}
    about = []
    column = _abi.TableColumn()
    at = 0
    while lib.es_table_column_at(handle, at, ctypes.byref(column)):
        info = _column_info(column, spec)
        about.append(info)
        columns[info.key] = _read_column(column, rows)
        at += 1
    return Table(decoded(spec.key), columns, about, _shown_keys(spec)[0], _list_columns(spec))


def _list_columns(spec: _abi.TableSpec) -> List[ColumnInfo]:
    found = []
    at = 0
    while spec.columns[at].key:
        own = spec.columns[at]
        if own.array:
            found.append(
                ColumnInfo(
                    key=decoded(own.key),
                    title=decoded(own.title),
                    unit=decoded(own.unit),
                    format=decoded(lib.es_format_name(own.format)),
                    definition=_definition(own),
                    error=None,
                    standing=decoded(lib.es_standing_name(own.standing)),
                    shown=False,
                )
            )
        at += 1
    return found


def _read_column(column: _abi.TableColumn, rows: int) -> "np.ndarray[Any, Any]":
    """A column of the library's as an array of its own. One without rows is of numbers."""
    if column.format == _abi.ES_FORMAT_TEXT and rows:
        at = ctypes.byref(column)
        return objects([decoded(lib.es_column_text(at, i)) for i in range(rows)])
    reals = np.empty(rows)
    lib.es_column_reals(ctypes.byref(column), rows, reals.ctypes.data)
    return _numbers(reals, column.format)


class Result:
    """The answer of a study.

    Attributes:
        command: which study it was.
        tables: each table as a structured array, by its key: ``r.tables["rows"]["n"]``. Numbers are
            f64, counts int64 where none is missing, texts ``str``.
        findings: sentences with their numbers and uncertainty.
        refuted: a check that was asked for has failed. (Run files do not keep it.)
        path: the run file it was read from or written to, or ``None``.
    """

    def __init__(
        self,
        command: str,
        tables: List[Table],
        findings: List[str],
        answer: Callable[[], Answer],
        *,
        refuted: bool = False,
        path: Optional[str] = None,
        values: Optional[Dict[str, Any]] = None,
        provenance: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.command = command
        self.findings = findings
        self.refuted = refuted
        self.path = path
        self.tables: Mapping[str, "np.ndarray[Any, Any]"] = {t.key: t.array() for t in tables}
        self._about = {t.key: t for t in tables}
        self._make_answer = answer
        self._answer: Optional[Answer] = None
        self._values = values
        self._provenance = provenance
        self._parsed: Optional[Dict[str, Any]] = None

    # ---- parts ----

    @property
    def values(self) -> Dict[str, Any]:
        """Results that stand alone, by key."""
        if self._values is None:
            skip = {*_RESERVED, *self._about}
            self._values = {k: v for k, v in self.json().items() if k not in skip}
        return self._values

    @property
    def provenance(self) -> Dict[str, Any]:
        """Provenance: user, machine and program."""
        if self._provenance is None:
            self._provenance = dict(self.json().get("provenance", {}))
        return self._provenance

    def columns(self, table: Optional[str] = None) -> Dict[str, ColumnInfo]:
        """What is known about the columns of a table (the main one by default), by key."""
        return {info.key: info for info in self._table(table).about}

    @property
    def main(self) -> Optional[str]:
        """Key of the table that the study is about; ``None`` if there are no tables."""
        study = lib.es_study_find(self.command.encode())
        said = [decoded(study.contents.csv)] if study else []
        with_rows = [t.key for t in self._about.values() if t.title and len(self.tables[t.key])]
        known = [key for key in said if key in self._about]
        return next(iter([*known, *with_rows, *self._about]), None)

    def _table(self, key: Optional[str]) -> Table:
        key = self.main if key is None else key
        if key is None or key not in self._about:
            raise KeyError(f"there is no table {key!r}, but {', '.join(self._about) or 'none'}")
        return self._about[key]

    # ---- views ----

    def _view(self, form: str, **opts: Any) -> str:
        if self._answer is None:
            self._answer = self._make_answer()
        return self._answer.write(form, _abi.AnswerOpts(**opts))

    def text(self, full: bool = False, width: int = 0) -> str:
        """As the program prints it: findings, then the tables that support them.

        ``full``: every view with every column and row. ``width``: columns of the terminal; what
        does not fit is left out from the right.
        """
        rest = None if full else b"r.text(full=True)"
        return self._view("text", full=full, width=width, most_rows=0 if full else 40, rest=rest)

    def markdown(self, full: bool = False) -> str:
        """The same as Markdown."""
        return self._view("markdown", full=full)

    def latex(self) -> str:
        """Tables for a paper."""
        return self._view("latex")

    def csv(self, table: Optional[str] = None) -> str:
        """One table (the main one by default), every column, all digits."""
        table = self.main if table is None else table
        return self._view("csv", table=None if table is None else table.encode())

    def json_text(self) -> str:
        """All of it as JSON text."""
        return self._view("json")

    def plot(self, table: Optional[str] = None, ax: Any = None) -> Any:
        """Draws a table with matplotlib, which must be installed: the figure that a notebook shows,
        a quantity along another, a line for each setting, with one standard error.

        Args:
            table: its key; by default the main table, or the first in which there is one.
            ax: axes of matplotlib to draw into; by default new ones.

        Returns:
            The axes.

        Raises:
            ArgumentError: nothing in the table is a quantity along another.
        """
        from .figure import draw, plot_of

        keys = [self.main, *self.tables] if table is None else [table]
        for key in filter(None, keys):
            about = list(self.columns(key).values())
            plot = plot_of(self.tables[key], about)
            if plot is not None:
                return draw(plot, ax)
        raise ArgumentError(
            "there is nothing to draw in " + ("any table" if table is None else f"table {table!r}"),
            rule="python.plot",
            hint="" if table is None else "leave table= out to draw the first table that can be",
        )

    def json(self) -> Dict[str, Any]:
        """All of it, as the program's ``--json`` has it, parsed. NaN is ``None``."""
        if self._parsed is None:
            parsed: Dict[str, Any] = json.loads(self.json_text())
            self._parsed = parsed
        return self._parsed

    def to_pandas(self, table: Optional[str] = None) -> Any:
        """A table (the main one by default) as a DataFrame of pandas."""
        pandas = importlib.import_module("pandas")  # only for callers of this method
        array = self.tables[self._table(table).key]
        return pandas.DataFrame({key: array[key] for key in array.dtype.names or ()})

    def _repr_html_(self) -> str:
        from .notebook import as_html  # which needs this module

        return as_html(self)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_answer": None}  # made again where it is looked at

    def __str__(self) -> str:
        return self.text(width=100).rstrip("\n")

    def __repr__(self) -> str:
        tables = ", ".join(f"{key}[{len(array)}]" for key, array in self.tables.items())
        return f"<esscher {self.command}: {tables or 'no tables'}, {len(self.findings)} findings>"


class _Held:
    """The answer of a run, which lives in the library and in this process."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __call__(self) -> Answer:
        return self._answer

    def __deepcopy__(self, _memo: object) -> "_Held":
        return self  # immutable

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a result that was computed here cannot be pickled: give the study out=, and pickle "
            "esscher.open() of that file"
        )


def result_of(answer: Answer, command: str, path: Optional[str]) -> Result:
    """What a run answered."""
    tables = answer.tables()
    if any(t.lists for t in tables):
        everything = json.loads(answer.write("json", _abi.AnswerOpts()))
        for table in tables:
            _add_lists(table, everything)
    return Result(
        command,
        tables,
        answer.findings(),
        _Held(answer),
        refuted=lib.es_answer_check_failed(answer.handle),
        path=path,
    )


def _add_lists(table: Table, everything: Dict[str, Any]) -> None:
    """Columns whose cells are vectors or matrices: of all forms JSON alone holds them."""
    rows = everything.get(table.key, [])
    rows = [rows] if isinstance(rows, dict) else rows
    for info in table.lists:
        cells = [_nested(row, info.key) for row in rows]
        if any(cell is not None for cell in cells):
            table.about.append(info)
            table.columns[info.key] = objects(
                [None if cell is None else np.array(cell, dtype=np.float64) for cell in cells]
            )


def _nested(row: Any, key: str) -> Any:
    for part in key.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row
