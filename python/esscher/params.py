"""Parameters of a study as keywords of a function: what they are called, and values as text.

The library reads every parameter as text, as a command line has it. So a list of numbers becomes
``0.5,1,2``, and an array where a file is expected becomes a ``.npy`` file in a temporary folder.
"""

from __future__ import annotations

import ctypes
import keyword
import operator
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from . import _abi, _arrays
from ._library import lib

# es_param_kind
FLAG, TEXT, WHOLE, NUMBER, SEED, BYTES, CHOICE, REALS, COUNTS, TEXTS = range(1, 11)
FILE, FILES, NAMED, MODEL, OUTPUT = range(11, 16)

# How the type of a parameter's values is written in signatures and stubs.
_TYPES = {
    FLAG: "bool",
    TEXT: "str | int | float",
    WHOLE: "int",
    NUMBER: "float",
    SEED: "int",
    BYTES: "int | str",
    CHOICE: "str",
    REALS: "str | float | Sequence[float]",
    COUNTS: "str | int | Sequence[int]",
    TEXTS: "str | Sequence[str]",
    FILE: "PathLike | ArrayLike",
    FILES: "PathLike | Sequence[PathLike]",
    NAMED: "Mapping[str, PathLike] | str | Sequence[str]",
    MODEL: "PathLike",
    OUTPUT: "PathLike",
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
        standard: the default as one would write it, or ``None``.
        otherwise: what happens without it, in words; may be empty.
        unit, min, max: of numbers.
        choices: the words of a choice.
        was: a spelling that is gone.
    """

    name: str
    keyword: str
    kind: int
    argument: str
    help: str
    standard: Optional[str]
    otherwise: str
    unit: str
    min: float
    max: float
    choices: Tuple[str, ...]
    alias: str
    was: str

    @property
    def annotation(self) -> str:
        """Type of its values, as source text."""
        if self.kind == CHOICE:
            return "Literal[" + ", ".join(map(repr, self.choices)) + "]"
        return _TYPES[self.kind]

    @property
    def default(self) -> Any:
        """The default as a value of Python: what a signature shows."""
        if self.kind == FLAG:
            return False
        if self.standard is None:
            return None
        try:
            if self.kind in (WHOLE, SEED):
                return int(self.standard)
            if self.kind == NUMBER:
                return float(self.standard)
        except ValueError:
            pass
        return self.standard

    @property
    def says(self) -> str:
        """What it does and what happens without it, for a docstring."""
        if self.otherwise:
            return f"{self.help} (default: {self.otherwise})"
        if self.standard is not None and self.kind != FLAG:
            return f"{self.help} (default: {self.standard})"
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
                argument=_abi.decoded(p.argument),
                help=_abi.decoded(p.help),
                standard=p.standard.decode() if p.standard is not None else None,
                otherwise=_abi.decoded(p.otherwise),
                unit=_abi.decoded(p.unit),
                min=p.min,
                max=p.max,
                choices=tuple(_choices(p.choices)),
                alias=_abi.decoded(p.alias),
                was=_abi.decoded(p.was),
            )
        )
        at += 1
    return found


def nearest(name: str, names: List[str]) -> Optional[str]:
    """The name that was probably meant."""
    array = (ctypes.c_char_p * max(len(names), 1))(*(n.encode() for n in names))
    found = lib.es_nearest(name.encode(), array, len(names))
    return found.decode() if found else None


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


class Inputs:
    """Values as the library reads them; arrays are kept in files for as long as this is open."""

    def __init__(self) -> None:
        self._folder: Optional["tempfile.TemporaryDirectory[str]"] = None

    def __enter__(self) -> "Inputs":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder:
            self._folder.cleanup()

    def texts(self, parameter: Parameter, value: Any) -> List[str]:
        """A value as the texts that es_params_set() is given, one after the other."""
        kind, name = parameter.kind, parameter.keyword
        if kind == FLAG:
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, and not {value!r}")
            return ["yes" if value else "no"]
        if kind in (FILE, MODEL, OUTPUT):
            return [self._file(value, name, kind == FILE)]
        if kind == NAMED:
            return self._named(value, name)
        if isinstance(value, str):
            return [value]
        if kind == FILES:
            files = [value] if _is_path(value) else value
            return [self._file(one, name, False) for one in files]
        if kind == TEXTS:
            return [str(one) for one in value]
        if kind in (WHOLE, SEED, BYTES):
            return [_whole(value, name)]
        if kind == NUMBER:
            return [_real(value, name)]
        if kind == REALS:
            return [",".join(_real(one, name) for one in _several(value))]
        if kind == COUNTS:
            return [",".join(_whole(one, name) for one in _several(value))]
        return [str(value)]

    def _named(self, value: Any, name: str) -> List[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, Mapping):
            return [f"{key}={self._file(file, name, True)}" for key, file in value.items()]
        return [str(one) for one in value]

    def _file(self, value: Any, name: str, arrays: bool) -> str:
        if _is_path(value):
            return os.fsdecode(value)
        if not arrays:
            raise TypeError(f"{name} must be a path, and not {type(value).__name__}")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="esscher-")
        path = Path(self._folder.name) / f"{name}.npy"
        while path.exists():  # of another value of the same parameter
            path = path.with_name(path.stem + "_.npy")
        np.save(path, saved(value, name))
        return str(path)


def saved(value: Any, name: str) -> Any:
    """An array with numbers that the library reads from files."""
    array = np.asarray(value) if isinstance(value, (list, tuple)) else _arrays.plain(value, name)
    if array.dtype.kind in "iu" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8):
        return array
    return _arrays.floats(array, name)
