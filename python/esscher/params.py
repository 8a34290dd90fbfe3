# SPDX-License-Identifier: Apache-2.0
"""Parameters of a study as keywords of a function: what they are called, and values as text.

The library reads every parameter as text, as a command line has it. So a list of numbers becomes
``0.5,1,2``, and an array where a file of numbers is expected becomes a ``.npy`` file in a temporary
folder.
"""

from __future__ import annotations

import csv
import ctypes
import keyword
import operator
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from . import _abi, _arrays
from ._abi import (
    ES_PARAM_BYTES,
    ES_PARAM_CHOICE,
    ES_PARAM_COUNTS,
    ES_PARAM_FILE,
    ES_PARAM_FILES,
    ES_PARAM_FLAG,
    ES_PARAM_MODEL,
    ES_PARAM_NAMED,
    ES_PARAM_NUMBER,
    ES_PARAM_OUTPUT,
    ES_PARAM_REALS,
    ES_PARAM_SEED,
    ES_PARAM_TEXT,
    ES_PARAM_TEXTS,
    ES_PARAM_WHOLE,
)
from ._arguments import decoded
from ._library import lib
from ._scratch import Scratch
from .errors import EsscherError

# How the type of a parameter's values is written in signatures and stubs.
_TYPES = {
    ES_PARAM_FLAG: "bool",
    ES_PARAM_TEXT: "str | float",
    ES_PARAM_WHOLE: "int",
    ES_PARAM_NUMBER: "float",
    ES_PARAM_SEED: "int",
    ES_PARAM_BYTES: "int | str",
    ES_PARAM_CHOICE: "str",
    ES_PARAM_REALS: "str | float | Sequence[float] | NDArray[Any]",
    ES_PARAM_COUNTS: "str | int | Sequence[int] | NDArray[Any]",
    ES_PARAM_TEXTS: "str | Sequence[str]",
    ES_PARAM_FILE: "PathLike",
    ES_PARAM_FILES: "PathLike | Sequence[PathLike]",
    ES_PARAM_NAMED: "Mapping[str, PathLike] | str | Sequence[str]",
    ES_PARAM_MODEL: "PathLike",
    ES_PARAM_OUTPUT: "PathLike",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a study, as its description has it.

    Attributes:
        name: what the library and the program call it: ``max-memory``.
        keyword: the same for Python: ``max_memory``.
        kind: how its value is read, a number of ``es_param_kind``.
        argument: what help calls the value; empty for a flag.
        help: what it does.
        default_value: the default as one would write it, or ``None``.
        default_note: what happens without it, in words; may be empty.
        unit, min, max: of numbers.
        choices: the words of a choice.
        renamed_from: a spelling that is gone.
    """

    name: str
    keyword: str
    kind: int
    argument: str
    help: str
    default_value: Optional[str]
    default_note: str
    unit: str
    min: float
    max: float
    choices: Tuple[str, ...]
    alias: str
    renamed_from: str

    @property
    def annotation(self) -> str:
        """Type of its values, as source text."""
        if self.kind == ES_PARAM_CHOICE:
            return "Literal[" + ", ".join(map(repr, self.choices)) + "]"
        if self.is_list:
            return "str | Sequence[str]"
        more = {".npy": " | ArrayLike", ".csv": " | Columns"}
        return _TYPES[self.kind] + more.get(self.holds, "")

    @property
    def is_list(self) -> bool:
        """It is a text with commas between its words."""
        return self.kind == ES_PARAM_TEXT and self.argument == "LIST"

    @property
    def holds(self) -> str:
        """Ending of the files that it names, as help has it: ``.npy`` for those of numbers, which
        are called ``FILE`` alone; empty of what is no file."""
        return (Path(self.argument).suffix or ".npy") if self.kind == ES_PARAM_FILE else ""

    @property
    def default(self) -> Any:
        """The default as a value of Python: what a signature shows."""
        if self.kind == ES_PARAM_FLAG:
            return False
        if self.default_value is None:
            return None
        try:
            if self.kind in (ES_PARAM_WHOLE, ES_PARAM_SEED):
                return int(self.default_value)
            if self.kind == ES_PARAM_NUMBER:
                return float(self.default_value)
        except ValueError:
            pass
        return self.default_value

    @property
    def says(self) -> str:
        """What it does and what happens without it, for a docstring."""
        if self.default_note:
            return f"{self.help} (default: {self.default_note})"
        if self.default_value is not None and self.kind != ES_PARAM_FLAG:
            return f"{self.help} (default: {self.default_value})"
        return self.help


def python_name(name: str) -> str:
    """``max-memory`` as an identifier."""
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def _choices(pointer: Any) -> Iterator[str]:
    at = 0
    while pointer and pointer[at]:
        yield pointer[at].decode()
        at += 1


def parameters(study: _abi.Study) -> List[Parameter]:
    """The parameters of a study, in the order of their description."""
    found = []
    at = 0
    while study.params and study.params[at].name:
        p = study.params[at]
        found.append(
            Parameter(
                name=p.name.decode(),
                keyword=python_name(p.name.decode()),
                kind=p.kind,
                argument=decoded(p.argument),
                help=decoded(p.help),
                default_value=p.default_value.decode() if p.default_value is not None else None,
                default_note=decoded(p.default_note),
                unit=decoded(p.unit),
                min=p.min,
                max=p.max,
                choices=tuple(_choices(p.choices)),
                alias=decoded(p.alias),
                renamed_from=decoded(p.renamed_from),
            )
        )
        at += 1
    return found


def nearest(name: str, names: List[str]) -> Optional[str]:
    """The name that was probably meant."""
    array = (ctypes.c_char_p * max(len(names), 1))(*(n.encode() for n in names))
    found = lib.es_nearest(name.encode(), array, len(names))
    return found.decode() if found else None


_OPTION = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)( [0-9A-Z][\w./]*)?")


def to_keywords(error: EsscherError, flags: Collection[str], known: Collection[str]) -> None:
    """Options, which errors have as on a command line, become keywords: ``--force`` is
    ``force=True``, ``--batch 0`` is ``batch=0``. Those of other commands stay what they are, and so
    does a hint that is a command of the program."""

    def keyword_of(found: "re.Match[str]") -> str:
        name, value = python_name(found[1]), found[2] or ""
        if name not in known:
            return found[0]
        if name in flags:
            return f"{name}=True{value}"
        return f"{name}={value[1:]}" if value else name

    error.message = _OPTION.sub(keyword_of, error.message)
    if not error.hint.startswith("esscher "):
        error.hint = _OPTION.sub(keyword_of, error.hint)
    error.args = (error.message,)


_IN_HELP = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)([ =](?:[a-z0-9]+|[A-Z]+)(?![\w.:/-]))?")
_WORDS = ("positions", "limit", "content", "far", "prompt", "decode", "none", "ideal", "yes", "no")


def in_keywords(help: str) -> str:
    """Help of the program, whose options become keywords: ``--look far`` is ``look='far'``,
    ``--keys K`` is ``keys=K``, ``--window`` is ``window``."""

    def keyword_of(found: "re.Match[str]") -> str:
        name, rest = python_name(found[1]), found[2] or ""
        value = rest[1:]
        if rest and (value.isupper() or value.isdecimal()):
            return f"{name}={value}"
        if value in _WORDS:
            return f"{name}={value!r}"
        return name + rest

    return _IN_HELP.sub(keyword_of, help)


# ---- values as text ----


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _whole(value: Any, name: str) -> str:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a whole number, and not {value!r}")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} must be a whole number, and not {value!r}") from None


def _real(value: Any, name: str) -> str:
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, and not {value!r}") from None


def _several(value: Any) -> List[Any]:
    return [value] if np.ndim(value) == 0 else list(np.asarray(value).reshape(-1))


def _text(value: Any, name: str) -> str:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, float, np.number)):
        raise TypeError(f"{name} must be a text, and not {value!r}")
    return str(value)


def _is_one_number(parameter: Parameter, value: Any) -> bool:
    """Is this one number of a parameter that takes numbers or a file of them?"""
    return parameter.argument == "FILE|LIST" and np.ndim(value) == 0 and not _is_path(value)


class Inputs:
    """Values as the library reads them; arrays are kept in files for as long as this is open."""

    def __init__(self) -> None:
        self._folder: Optional[Scratch] = None
        self._keywords: Dict[str, str] = {}  # by the file that is written for them

    def __enter__(self) -> "Inputs":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder:
            # in a thread, which no signal interrupts: files would stay behind for good
            thread = threading.Thread(target=self._folder.remove)
            thread.start()
            thread.join()

    def blame(self, error: EsscherError) -> None:
        """An error about a temporary file names the keyword it was written for."""
        for path, name in self._keywords.items():
            if error.file == path:
                error.file = None
                error.message = f"{name}: {error.message}"
            error.message = error.message.replace(path, name)
            error.hint = error.hint.replace(path, name)
        error.args = (error.message,)

    def texts(self, parameter: Parameter, value: Any) -> List[str]:
        """A value as the texts that es_params_set() is given, one after the other."""
        kind, name = parameter.kind, parameter.keyword
        if kind == ES_PARAM_FLAG:
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, and not {value!r}")
            return ["yes" if value else "no"]
        if _is_one_number(parameter, value):
            return [_real(value, name)]
        if kind in (ES_PARAM_FILE, ES_PARAM_MODEL, ES_PARAM_OUTPUT):
            return [self._file(value, name, parameter.holds)]
        if kind == ES_PARAM_NAMED:
            return self._named(value, name)
        if kind == ES_PARAM_FILES:
            files = [value] if _is_path(value) else value
            return [self._text_file(one, name) for one in files]
        if isinstance(value, str):
            return [value]
        if kind == ES_PARAM_TEXTS:
            return [str(one) for one in value]
        if kind in (ES_PARAM_WHOLE, ES_PARAM_SEED, ES_PARAM_BYTES):
            return [_whole(value, name)]
        if kind == ES_PARAM_NUMBER:
            return [_real(value, name)]
        if kind == ES_PARAM_REALS:
            return [",".join(_real(one, name) for one in _several(value))]
        if kind == ES_PARAM_COUNTS:
            return [",".join(_whole(one, name) for one in _several(value))]
        if parameter.is_list and isinstance(value, (list, tuple)):
            return [",".join(_text(one, name) for one in value)]
        return [_text(value, name)]

    def _named(self, value: Any, name: str) -> List[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, Mapping):
            return [f"{key}={self._file(file, name)}" for key, file in value.items()]
        return [str(one) for one in value]

    def _text_file(self, value: Any, name: str) -> str:
        """A text itself, in a file: it has a line break, or a space and no file has that name."""
        if isinstance(value, str) and (
            "\n" in value or (" " in value and not os.path.exists(value))
        ):
            path = self._path(f"{name}-{len(self._keywords)}.text")
            with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(value)
            self._keywords[path] = name
            return path
        return self._file(value, name)

    def _path(self, name: str) -> str:
        if self._folder is None:
            self._folder = Scratch("inputs")
        return os.path.join(self._folder.path, name)

    def _file(self, value: Any, name: str, holds: str = "") -> str:
        if _is_path(value):
            return os.fsdecode(value)
        writers = {".npy": _write_array, ".csv": _write_table}
        if holds not in writers:
            raise TypeError(f"{name} must be a path, and not {type(value).__name__}")
        path = self._path(name + holds)
        writers[holds](path, value, name)
        self._keywords[path] = name
        return path


def _write_array(path: str, value: Any, name: str) -> None:
    np.save(path, saved(value, name))


def _write_table(path: str, value: Any, name: str) -> None:
    """Columns by their names: a mapping, a DataFrame, or a structured array."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        value = {key: value[key] for key in value.dtype.names}
    if not hasattr(value, "keys"):
        raise TypeError(
            f"{name} must be a path or columns by their names, and not {type(value).__name__}"
        )
    columns = {str(key): np.asarray(value[key]) for key in value.keys()}
    if any(c.ndim != 1 or len(c) != len(next(iter(columns.values()))) for c in columns.values()):
        raise ValueError(f"{name} must have columns of one length")
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*(c.tolist() for c in columns.values())))


def saved(value: Any, name: str) -> Any:
    """An array with numbers that the library reads from files."""
    array = np.asarray(value) if isinstance(value, (list, tuple)) else _arrays.plain(value, name)
    if array.dtype.kind in "iu" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8):
        return array
    return _arrays.floats(array, name)
