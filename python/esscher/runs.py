# SPDX-License-Identifier: Apache-2.0
"""Run files: opened as results, and made into a page."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Optional, Tuple, Union

from . import _abi
from ._arguments import decoded, path_bytes
from ._calls import call_long
from ._library import lib
from .errors import EmptyError, EsscherError, check
from .params import to_keywords
from .results import Answer, Result

PathLike = Union[str, "os.PathLike[str]"]

_ANEW = "was it changed by another program? Copy it anew, or run the study again"


class _Run:
    """A run file that is open for reading."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self.handle = ctypes.c_void_p()
        error = _abi.Error()

        def work() -> int:
            status: int = lib.es_run_open(
                path_bytes(path), ctypes.byref(self.handle), ctypes.byref(error)
            )
            return status

        check(call_long(work, None), error)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        lib.es_run_close(self.handle, None)

    def answer(self) -> Answer:
        """All that the file holds of an answer, read by the library."""
        error, handle = _abi.Error(), ctypes.c_void_p()

        def work() -> int:
            status: int = lib.es_run_answer(
                self.handle, None, None, ctypes.byref(handle), ctypes.byref(error)
            )
            return status

        try:
            check(call_long(work, None), error)
        except EsscherError as failure:
            failure.file = failure.file or self.path
            failure.hint = failure.hint or _ANEW
            raise
        return Answer(handle)

    def about(self) -> Tuple[str, Dict[str, Any]]:
        """The command and its provenance: user, date, machine."""
        info = lib.es_run_info(self.handle)
        sessions: Dict[int, Dict[str, str]] = {}
        for i in range(info.facts_count):
            fact = info.facts[i]
            sessions.setdefault(fact.session, {})[decoded(fact.key)] = decoded(fact.text)
        parameters = {
            decoded(info.params[i].key): decoded(info.params[i].text)
            for i in range(info.params_count)
        }
        return decoded(info.command), {
            "created": decoded(info.created),
            "updated": decoded(info.updated),
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


class _Opened:
    """The answer of a run file: read once, and again after it was pickled, where it is looked
    at. After unpickling, only views need the file."""

    def __init__(self, path: str, answer: Optional[Answer] = None) -> None:
        self._path = path
        self._answer = answer

    def __call__(self) -> Answer:
        if self._answer is None:
            with _Run(self._path) as run:
                self._answer = run.answer()
        return self._answer

    def __deepcopy__(self, _memo: object) -> "_Opened":
        return self  # it does not change

    def __reduce__(self) -> Tuple[Any, ...]:
        return _Opened, (self._path,)


def open(path: PathLike) -> Result:  # noqa: A001
    """The results that a run file holds, written by this package or the program.

    A result that was opened may be pickled; its views (``text()``, ``json()``, ...) are then read
    from the run file again.

    Raises:
        EmptyError: the run has no tables yet.
        FormatError: the file is no run file, is damaged, or describes its tables in a way that
            cannot be read.
        FileError: it cannot be read.
        UnsupportedError: it was written by a newer version.
    """
    with _Run(path) as run:
        command, provenance = run.about()
        answer = run.answer()
        tables = answer.tables()
        if not tables:
            raise EmptyError(
                "there are no tables in it",
                status="ES_E_EMPTY",
                rule="run.table",
                hint=run.why_empty(),
                file=run.path,
            )
        return Result(
            command,
            tables,
            answer.findings(),
            _Opened(run.path, answer),
            refuted=lib.es_answer_check_failed(answer.handle),
            path=run.path,
            provenance=provenance,
        )


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
        paths.append(path_bytes(path))
    array = (ctypes.c_char_p * max(len(paths), 1))(*paths)
    opts = _abi.ReportOpts(
        title=None if title is None else title.encode(), overwrite=force, tables_only=not figures
    )
    error = _abi.Error()

    def work() -> int:
        status: int = lib.es_report_write(
            array, len(paths), path_bytes(out), ctypes.byref(opts), None, ctypes.byref(error)
        )
        return status

    try:
        check(call_long(work, None), error)
    except EsscherError as failure:
        to_keywords(failure, ["force"], ["force", "out", "title"])
        raise
    return os.fspath(out)
