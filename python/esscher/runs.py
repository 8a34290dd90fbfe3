"""Run files: opened as results, and made into a page."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _abi
from ._calls import call_long
from ._library import lib
from .errors import EmptyError, EsscherError, FormatError, check
from .params import to_keywords
from .results import Answer, ColumnInfo, Result, Table, numbers, objects

PathLike = Union[str, "os.PathLike[str]"]

_REAL = 2  # es_format of numbers that nobody described
_MOST_COLUMNS = 4096  # of a table in a run file

# What a text of a file that means nothing may lead to, where it is taken for something.
_SENSELESS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    ctypes.ArgumentError,
)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """What goes wrong inside is the file's fault: its checksums are right, and still whoever wrote
    it may have said anything at all about its tables."""
    try:
        yield
    except EsscherError as failure:
        failure.file = failure.file or path
        failure.hint = failure.hint or _ANEW
        raise
    except _SENSELESS as error:
        raise FormatError(
            f"what it says about its tables cannot be read: {type(error).__name__}: "
            f"{str(error)[:200]}",
            rule="run.answer",
            hint=_ANEW,
            file=path,
        ) from error


_ANEW = "was it changed by another program? Copy it anew, or run the study again"


class _Run:
    """A run file that is open for reading."""

    def __init__(self, path: PathLike) -> None:
        self.handle = ctypes.c_void_p()
        error = _abi.Error()

        def work() -> int:
            status: int = lib.es_run_open(
                _abi.path(path), ctypes.byref(self.handle), ctypes.byref(error)
            )
            return status

        check(call_long(work, None), error)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        lib.es_run_close(self.handle, None)

    def names(self) -> List[str]:
        """Tables, in order of their names."""
        error = _abi.Error()
        count = ctypes.c_int64()
        check(
            lib.es_run_tables_count(self.handle, ctypes.byref(count), ctypes.byref(error)), error
        )
        found = []
        for at in range(count.value):
            name = ctypes.create_string_buffer(256)
            check(lib.es_run_table_name(self.handle, at, name, ctypes.byref(error)), error)
            found.append(name.value.decode())
        return found

    def table(self, name: str) -> Dict[str, "np.ndarray[Any, Any]"]:
        """The columns of a table, numbers as f64."""
        error, table = _abi.Error(), _abi.RunTable()
        check(
            lib.es_run_get_table(
                self.handle, name.encode(), None, ctypes.byref(table), ctypes.byref(error)
            ),
            error,
        )
        try:
            columns = [table.columns[j] for j in range(table.cols)]
            return {c.name.decode(): _column(c, table.rows) for c in columns}
        finally:
            lib.es_run_table_free(ctypes.byref(table))

    def about(self) -> Tuple[str, Dict[str, Any]]:
        """The command, and who computed it when, on what."""
        info = lib.es_run_info(self.handle)
        sessions: Dict[int, Dict[str, str]] = {}
        for i in range(info.facts_count):
            fact = info.facts[i]
            sessions.setdefault(fact.session, {})[_abi.decoded(fact.key)] = _abi.decoded(fact.text)
        parameters = {
            _abi.decoded(info.params[i].key): _abi.decoded(info.params[i].text)
            for i in range(info.params_count)
        }
        return _abi.decoded(info.command), {
            "created": _abi.decoded(info.created),
            "updated": _abi.decoded(info.updated),
            "schema": info.schema,
            "parameters": parameters,
            "sessions": [sessions[s] for s in sorted(sessions)],
        }

    def why_empty(self) -> str:
        shard, shards = ctypes.c_int64(), ctypes.c_int64()
        if lib.es_run_shard(self.handle, ctypes.byref(shard), ctypes.byref(shards)):
            return (
                f"it is shard {shard.value} of {shards.value}, which has no tables: esscher merge "
                "joins them all"
            )
        return "the run is not complete: call the study again with the same out and resume=True"


def _column(column: _abi.RunColumn, rows: int) -> "np.ndarray[Any, Any]":
    if column.kind == 2:
        return objects([_abi.decoded(column.texts[i]) for i in range(rows)])
    return np.ctypeslib.as_array(column.reals, (rows,)).copy() if rows else np.empty(0)


# ---- what a run says about its tables ----

_Said = List[Dict[str, str]]


def _rows(run: _Run, names: List[str], table: str) -> _Said:
    """A table of texts, row by row; none where the run, which may be an older one, has no such."""
    if table not in names:
        return []
    columns = run.table(table)
    rows = len(next(iter(columns.values()))) if columns else 0
    return [{key: str(column[i]) for key, column in columns.items()} for i in range(rows)]


def _format(name: str, column: "np.ndarray[Any, Any]") -> int:
    form = ctypes.c_int(0)
    if column.dtype == object:
        return 0
    known = lib.es_format_parse(name.encode(), ctypes.byref(form))
    # Numbers that are said to be texts are numbers; of a table without rows all columns are f64.
    return form.value if known and (form.value or not len(column)) else _REAL


def _info(key: str, column: "np.ndarray[Any, Any]", said: _Said) -> ColumnInfo:
    rows = [row for row in said if row["key"] == key]
    first = rows[0] if rows else {}
    return ColumnInfo(
        key=key,
        title=first.get("header") or key,
        unit=first.get("unit", ""),
        format=_abi.decoded(lib.es_format_name(_format(first.get("format", ""), column))),
        definition=first.get("definition", ""),
        error=first.get("error") or None,
        standing=first.get("standing", ""),
        is_error=first.get("role") == "error",
        shown=any(row.get("hidden") == "no" for row in rows),
        tells_apart=first.get("role") == "key",
    )


def _table(name: str, columns: Dict[str, Any], said: _Said) -> Table:
    if not columns:  # there are no rows, and the file does not have it
        ordered = sorted(said, key=lambda row: float(row.get("place", 0)))
        columns = {row["key"]: np.empty(0) for row in ordered}
    about = [_info(key, column, said) for key, column in columns.items()]
    for info in about:
        column = columns[info.key]
        if column.dtype != object:
            columns[info.key] = numbers(column, _format(info.format, column))
    title = next((row["title"] for row in said if _seen_unasked(row)), "")
    return Table(name, columns, about, title)


def _seen_unasked(row: Dict[str, str]) -> bool:
    # Runs of 0.1 have no `more`: all that they show, they show unasked.
    return row.get("hidden") == "no" and row.get("more") != "yes"


def _nullable(text: Optional[str]) -> Optional[bytes]:
    return text.encode() if text else None


# ---- an answer that can be looked at, made again of what the file holds ----


class _Again:
    """A table of the library, made again: its description, which must outlive the answer, and what
    it is filled with."""

    def __init__(self, table: Table, own: Dict[str, str], said: _Said) -> None:
        self._table = table
        self._first: Dict[str, Dict[str, str]] = {}
        self._shown: Dict[str, List[Dict[str, str]]] = {}  # rows of `said` by the view's title
        for row in said:
            self._first.setdefault(row["key"], row)
            if row.get("hidden") == "no":
                self._shown.setdefault(row["title"], []).append(row)
        errors = {info.error for info in table.about}
        self._listed = [i for i in table.about if not (i.is_error and i.key in errors)]
        columns = {self._base(info.key): self._column(info) for info in self._listed}
        keys = [self._base(info.key) for info in table.about if info.tells_apart]
        self._columns = (_abi.Column * (len(columns) + 1))(*columns.values())
        self._views = (_abi.TableView * (len(self._shown) + 1))(*self._made_views())
        self.spec = _abi.TableSpec(
            key=table.key.encode(),
            columns=self._columns,
            views=self._views,
            record=own.get("record") == "yes",
            inside=_nullable(own.get("inside")),
            link=_nullable(own.get("link")),
            nested=_nullable(own.get("nested")),
            only_inside=own.get("only_inside") == "yes",
            keys=_nullable(" ".join(keys)),
        )

    def _base(self, key: str) -> str:
        """The key that a column is one of several of, or its own."""
        return self._first.get(key, {}).get("each") or key

    def _made_views(self) -> List[_abi.TableView]:
        return [
            _abi.TableView(
                title=title.encode(),
                columns=" ".join(dict.fromkeys(self._base(row["key"]) for row in rows)).encode(),
                note=_nullable(rows[0].get("note")),
                more=rows[0].get("more") == "yes",
            )
            for title, rows in self._shown.items()
        ]

    def _column(self, info: ColumnInfo) -> _abi.Column:
        form = ctypes.c_int(0)
        lib.es_format_parse(info.format.encode(), ctypes.byref(form))
        standings = ["", "proved", "heuristic", "numerical", "cited"]
        standing = standings.index(info.standing) if info.standing in standings else 0
        key, title, error = self._base(info.key), info.title, info.error
        each = key != info.key
        if each:  # the label stands behind the title, the number behind the keys
            title = title[: -len(self._first[info.key]["label"]) - 1]
            error = error[: len(error) - len(info.key) + len(key)] if error else None
        return _abi.Column(
            key=key.encode(),
            title=title.encode(),
            unit=info.unit.encode(),
            format=form.value,
            definition=info.definition.encode() or None,
            error=_nullable(error),
            standing=standing,
            each=each,
        )

    def fill(self, handle: Any) -> None:
        """The table in an answer, which is empty yet."""
        self._label(handle)
        if any(rows[0].get("more") == "never" for rows in self._shown.values()):
            titles = [t for t, rows in self._shown.items() if rows[0].get("more") != "never"]
            lib.es_table_show(handle, _texts([*titles, None]))
        columns = self._table.columns
        missing = {key for key, row in self._first.items() if row.get("missing") == "yes"}
        for _ in range(len(next(iter(columns.values()))) if columns else 0):
            row = lib.es_table_row(handle)
            for key, column in columns.items():
                if column.dtype != object:
                    lib.es_table_real(handle, row, key.encode(), float(column[row]))
                elif column[row] or key not in missing:
                    lib.es_table_text(handle, row, key.encode(), column[row].encode())

    def _label(self, handle: Any) -> None:
        labels: Dict[str, Dict[int, str]] = {}
        for info in self._listed:
            base = self._base(info.key)
            if base != info.key:  # base.3 is the fourth
                number = int(info.key[len(base) + 1 :])
                if not 0 <= number < _MOST_COLUMNS:
                    raise ValueError(f"column {info.key}")
                labels.setdefault(base, {})[number] = self._first[info.key]["label"]
        for base, each in labels.items():
            every = [each.get(i, "") for i in range(max(each) + 1)]  # some may be in no row
            lib.es_table_each(handle, base.encode(), _texts(every), len(every))


def _texts(texts: Sequence[Optional[str]]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * len(texts))(*(t if t is None else t.encode() for t in texts))


def _put(handle: Any, key: str, value: Any) -> None:
    """A result that stands alone, of its JSON. Null is a number that is not there."""
    name = key.encode()
    if isinstance(value, list):
        _put_list(handle, name, value)
    elif isinstance(value, str):
        lib.es_answer_text(handle, name, value.encode())
    elif isinstance(value, bool):
        lib.es_answer_flag(handle, name, value)
    elif isinstance(value, int):
        lib.es_answer_count(handle, name, value)
    else:
        lib.es_answer_real(handle, name, np.nan if value is None else value)


def _put_list(handle: Any, name: bytes, value: List[Any]) -> None:
    if value and isinstance(value[0], str):
        lib.es_answer_texts(handle, name, _texts(value), len(value))
    elif value and isinstance(value[0], list):
        matrix = np.array(value, dtype=np.float64)
        lib.es_answer_matrix(handle, name, matrix.ctypes.data, *matrix.shape)
    elif all(isinstance(one, int) for one in value):
        counts = np.array(value, dtype=np.int64)
        lib.es_answer_counts(handle, name, counts.ctypes.data, len(counts))
    else:
        reals = np.array(value, dtype=np.float64)
        lib.es_answer_reals(handle, name, reals.ctypes.data, len(reals))


def _put_fact(handle: Any, key: str, value: Any) -> None:
    name = key.encode()
    if isinstance(value, list):
        lib.es_answer_provenance_list(handle, name, _texts(value), len(value))
    elif isinstance(value, str):
        lib.es_answer_provenance(handle, name, value.encode())
    elif isinstance(value, bool):
        lib.es_answer_provenance_flag(handle, name, value)
    elif isinstance(value, int):
        lib.es_answer_provenance_count(handle, name, value)
    else:
        lib.es_answer_provenance_real(handle, name, np.nan if value is None else value)


def _put_provenance(handle: Any, provenance: Dict[str, Any]) -> None:
    for key, value in provenance.items():
        if key != "inputs":
            _put_fact(handle, key, value)
    for one in provenance.get("inputs", []):
        lib.es_answer_input(
            handle, one["role"].encode(), one["path"].encode(), len(one["shape"]),
            (ctypes.c_int64 * max(len(one["shape"]), 1))(*one["shape"]), one["dtype"].encode(),
        )  # fmt: skip


@dataclass
class _Kept:
    """All that a run file holds of an answer."""

    path: str
    command: str
    seed: int  # -1: none was used
    tables: List[Table]
    specs: Dict[str, Dict[str, str]]  # "_tables", by table
    said: _Said
    values: Dict[str, Any]
    after: List[int]  # tables that stand before each of the values
    findings: List[str]
    refuted: bool
    provenance: Dict[str, Any]

    def answer(self) -> Answer:
        """The answer, made again."""
        with _reading(self.path):
            return self._made()

    def _made(self) -> Answer:
        error, handle = _abi.Error(), ctypes.c_void_p()
        check(lib.es_answer_new(None, ctypes.byref(handle), ctypes.byref(error)), error)
        keep: List[_Again] = []
        answer = Answer(handle, keep)
        lib.es_answer_name(handle, self.command.encode(), self.seed)
        _put_provenance(handle, self.provenance)
        values = list(zip(self.values.items(), self.after))
        for number in range(len(self.tables) + 1):
            for (key, value), after in values:
                if after == number:
                    _put(handle, key, value)
            if number < len(self.tables):
                table = self.tables[number]
                said = [row for row in self.said if row["table"] == table.key]
                keep.append(_Again(table, self.specs.get(table.key, {}), said))
                keep[-1].fill(lib.es_answer_table(handle, ctypes.byref(keep[-1].spec)))
        for sentence in self.findings:
            lib.es_answer_add_finding(handle, b"%s", sentence.encode())
        if self.refuted:
            lib.es_answer_fail_check(handle)
        check(lib.es_answer_status(handle, ctypes.byref(error)), error)
        return answer


def _kept(
    path: str, run: _Run, names: List[str], command: str, provenance: Dict[str, Any]
) -> _Kept:
    said = _rows(run, names, "_columns")
    specs = {row["table"]: row for row in _rows(run, names, "_tables")}
    order = list(dict.fromkeys([*specs, *(row["table"] for row in said), *names]))
    tables = [
        _table(
            name,
            run.table(name) if name in names else {},
            [row for row in said if row["table"] == name],
        )
        for name in order
        if not name.startswith("_") and (name in names or name in specs)
    ]
    lone = _rows(run, names, "_answer")
    about = {row["key"]: json.loads(row["json"]) for row in _rows(run, names, "_about")}
    facts = about.get("provenance", {})
    if facts:  # the caller signs an answer, after it was kept
        words = shlex.split(provenance["sessions"][-1].get("command", ""))
        facts["argv"] = words[words[:1] == ["esscher"] :]
    return _Kept(
        path=path,
        command=command,
        seed=int(provenance["parameters"].get("seed", -1)),
        tables=tables,
        specs=specs,
        said=said,
        values={
            row["key"]: json.loads(row["json"]) if "json" in row else _value(row["value"])
            for row in lone
        },
        after=[int(float(row.get("after", 0))) for row in lone],
        findings=[row["sentence"] for row in _rows(run, names, "_findings")],
        refuted=about.get("refuted", False),
        provenance=facts,
    )


# ---- for everybody ----


def open(path: PathLike) -> Result:  # noqa: A001
    """The results that a run file holds, whoever wrote it: this package or the program.

    Raises:
        EmptyError: the run has no tables yet.
        FormatError: the file is no run file, is damaged, or describes its tables in a way that
            cannot be read.
        FileError: it cannot be read.
        UnsupportedError: it was written by a newer version.
    """
    name = os.fspath(path)
    with _Run(path) as run, _reading(name):
        names = run.names()
        command, provenance = run.about()
        if all(table.startswith("_") for table in names):
            raise EmptyError(
                "there are no tables in it",
                status="ES_E_EMPTY",
                rule="run.table",
                hint=run.why_empty(),
                file=name,
            )
        kept = _kept(name, run, names, command, provenance)
        return Result(
            command,
            kept.tables,
            kept.findings,
            kept.answer,
            refuted=kept.refuted,
            path=name,
            values=kept.values,
            provenance=provenance,
        )


def _value(text: str) -> Any:
    """A result that stands alone, of its text: runs of 0.1 have nothing else."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def report(
    *runs: Union[PathLike, Result],
    out: PathLike,
    title: Optional[str] = None,
    force: bool = False,
    figures: bool = True,
) -> str:
    """Run files as one HTML page, with findings, figures, tables and provenance.

    Args:
        runs: run files, or results that have one.
        out: the page.
        title: by default model and text of the first run, or the commands.
        force: replace a file of that name.
        figures: ``False`` leaves them out; the only way in a library that was built without them.

    Returns:
        The path of the page.
    """
    paths = []
    for run in runs:
        path = run.path if isinstance(run, Result) else run
        if path is None:
            raise ValueError("a result without a run file cannot be reported: give the study out=")
        paths.append(_abi.path(path))
    array = (ctypes.c_char_p * max(len(paths), 1))(*paths)
    opts = _abi.ReportOpts(
        title=None if title is None else title.encode(), overwrite=force, tables_only=not figures
    )
    error = _abi.Error()

    def work() -> int:
        status: int = lib.es_report_write(
            array, len(paths), _abi.path(out), ctypes.byref(opts), None, ctypes.byref(error)
        )
        return status

    try:
        check(call_long(work, None), error)
    except EsscherError as failure:
        to_keywords(failure, ["force"], ["force", "out", "title"])
        raise
    return os.fspath(out)
