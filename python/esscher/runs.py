"""Run files: opened as results, and made into a page."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from . import _abi
from ._calls import call_long
from ._library import lib
from .errors import EmptyError, check
from .results import Answer, ColumnInfo, Result, Table, numbers, objects

PathLike = Union[str, "os.PathLike[str]"]

_REAL = 2  # es_format of numbers that nobody described


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


# ---- what a run says about its columns ----

_Said = List[Dict[str, str]]


def _said(run: _Run, names: List[str]) -> _Said:
    if "_columns" not in names:
        return []
    columns = run.table("_columns")
    rows = len(next(iter(columns.values()))) if columns else 0
    return [{key: str(column[i]) for key, column in columns.items()} for i in range(rows)]


def _format(name: str, column: "np.ndarray[Any, Any]") -> int:
    form = ctypes.c_int(0)
    if column.dtype == object:
        return 0
    known = lib.es_format_parse(name.encode(), ctypes.byref(form))
    return form.value if known and form.value else _REAL


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


# ---- an answer that can be looked at, made again of what the file holds ----


class _Specs:
    """Descriptions of tables for the library, which must outlive the answer."""

    def __init__(self) -> None:
        self._keep: List[Any] = []

    def spec(self, table: Table, said: _Said) -> _abi.TableSpec:
        columns = [self._column(info) for info in table.about if not info.is_error]
        views: Dict[str, List[str]] = {}
        about: Dict[str, Dict[str, str]] = {}
        for row in said:
            if row.get("hidden") == "no":
                views.setdefault(row["title"], []).append(row["key"])
                about[row["title"]] = row
        shown = [
            _abi.TableView(
                title=title.encode(),
                columns=" ".join(keys).encode(),
                note=about[title].get("note", "").encode() or None,
                more=not _seen_unasked(about[title]),
            )
            for title, keys in views.items()
        ]
        column_array = (_abi.Column * (len(columns) + 1))(*columns)
        view_array = (_abi.TableView * (len(shown) + 1))(*shown)
        spec = _abi.TableSpec(key=table.key.encode(), columns=column_array, views=view_array)
        self._keep.append((spec, column_array, view_array))
        return spec

    @staticmethod
    def _column(info: ColumnInfo) -> _abi.Column:
        form = ctypes.c_int(0)
        lib.es_format_parse(info.format.encode(), ctypes.byref(form))
        standings = ["", "proved", "heuristic", "numerical", "cited"]
        standing = standings.index(info.standing) if info.standing in standings else 0
        return _abi.Column(
            key=info.key.encode(),
            title=info.title.encode(),
            unit=info.unit.encode(),
            format=form.value,
            definition=info.definition.encode() or None,
            error=info.error.encode() if info.error else None,
            standing=standing,
        )


def _fill(handle: Any, table: Table) -> None:
    texts = {key: column.dtype == object for key, column in table.columns.items()}
    rows = len(next(iter(table.columns.values()))) if table.columns else 0
    for _ in range(rows):
        row = lib.es_table_row(handle)
        for key, column in table.columns.items():
            if texts[key]:
                lib.es_table_text(handle, row, key.encode(), str(column[row]).encode())
            else:
                lib.es_table_real(handle, row, key.encode(), float(column[row]))


def _answer(
    command: str, tables: List[Table], said: _Said, findings: List[str], values: Dict[str, str]
) -> Answer:
    error, handle, specs = _abi.Error(), ctypes.c_void_p(), _Specs()
    check(lib.es_answer_new(None, ctypes.byref(handle), ctypes.byref(error)), error)
    answer = Answer(handle, specs)
    lib.es_answer_name(handle, command.encode(), -1)
    for key, text in values.items():
        lib.es_answer_text(handle, key.encode(), text.encode())
    for table in tables:
        own = [row for row in said if row["table"] == table.key]
        _fill(lib.es_answer_table(handle, ctypes.byref(specs.spec(table, own))), table)
    for sentence in findings:
        lib.es_answer_tell(handle, b"%s", sentence.encode())
    check(lib.es_answer_status(handle, ctypes.byref(error)), error)
    return answer


# ---- for everybody ----


def open(path: PathLike) -> Result:  # noqa: A001
    """The results that a run file holds, whoever wrote it: this package or the program.

    Raises:
        EmptyError: the run has no tables yet.
        FormatError: the file is no run file, or is damaged.
        FileError: it cannot be read.
        UnsupportedError: it was written by a newer version.
    """
    with _Run(path) as run:
        names = run.names()
        command, provenance = run.about()
        if not any(not name.startswith("_") for name in names):
            raise EmptyError(
                "there are no tables in it",
                status="ES_E_EMPTY",
                rule="run.table",
                hint=run.why_empty(),
                file=os.fspath(path),
            )
        said = _said(run, names)
        order = list(dict.fromkeys([row["table"] for row in said] + names))
        tables = [
            _table(name, run.table(name), [row for row in said if row["table"] == name])
            for name in order
            if not name.startswith("_") and name in names
        ]
        lone = run.table("_answer") if "_answer" in names else {}
        told = run.table("_findings") if "_findings" in names else {}
    texts = dict(zip(map(str, lone.get("key", [])), map(str, lone.get("value", []))))
    findings = [str(sentence) for sentence in told.get("sentence", [])]
    return Result(
        command,
        tables,
        findings,
        lambda: _answer(command, tables, said, findings, texts),
        path=os.fspath(path),
        values={key: _value(text) for key, text in texts.items()},
        provenance=provenance,
    )


def _value(text: str) -> Any:
    """A result that stands alone, of its text."""
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

    check(call_long(work, None), error)
    return os.fspath(out)
