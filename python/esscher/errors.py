# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions.

The library reports a failure as a status and a record: which rule was broken, where, and what to
do about it. Each status has its class here, all of them are :class:`EsscherError`, and where Python
has an exception of the same meaning they are that, too: a bad argument is a ``ValueError``, a file
that cannot be read an ``OSError``. What the package itself refuses, before the library is asked, is
said by the same classes.
"""

from __future__ import annotations

import errno
import os
from typing import Dict, Optional, Tuple, Type

from . import _abi
from ._arguments import decoded
from ._library import lib


class EsscherError(Exception):
    """A failure that the library reported, or a call that the package refused.

    Attributes:
        status: name of the status, ``"ES_E_SHAPE"``, which goes with the class.
        rule: short stable name of the rule that was broken, ``"npy.header.shape"``.
        message: what happened, in a sentence.
        hint: what to do about it; empty where nothing can be said.
        file: the file it is about, or ``None``.
        offset: byte offset in that file, or ``None``.
        row, col: place in a matrix, or ``None``.
        head: where there are several, the indices of the one it is about, or ``None``.
    """

    status = ""

    def __init__(
        self,
        message: str,
        *,
        status: str = "",
        rule: str = "",
        hint: str = "",
        file: Optional[str] = None,
        offset: Optional[int] = None,
        row: Optional[int] = None,
        col: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status
        self.rule = rule
        self.hint = hint
        self.file = file
        self.offset = offset
        self.row = row
        self.col = col
        self.head: Optional[Tuple[int, ...]] = None

    def __str__(self) -> str:
        text = f"{self.file}: {self.message}" if self.file else self.message
        if self.head:
            text += f" (head {self.head if len(self.head) > 1 else self.head[0]})"
        if self.rule:
            text += f" [rule {self.rule}]"
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


class ArgumentError(EsscherError, ValueError):
    """A call or an option that makes no sense whatever the data."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a kind that cannot be."""


class ShapeError(EsscherError, ValueError):
    """Shapes that do not fit together."""


class RangeError(EsscherError, ValueError):
    """A number outside the interval in which the operation is defined."""


class NonFiniteError(EsscherError, ValueError):
    """NaN or infinity in the input; ``row`` and ``col`` say where."""


class SizeOverflowError(EsscherError, OverflowError):
    """A result or a size that does not fit its type."""


class OutOfMemoryError(EsscherError, MemoryError):
    """The system refused memory."""


class LimitError(EsscherError, MemoryError):
    """Refused: over a limit that the caller has set."""


class FileError(EsscherError, OSError):
    """Opening, reading, writing or renaming failed; ``errno`` says why where the system did."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class FormatError(EsscherError, ValueError):
    """A file that breaks a rule of its format."""


class UnsupportedError(EsscherError, NotImplementedError):
    """Well formed, but not something that this build can do."""


class NumericError(EsscherError, ArithmeticError):
    """Not positive definite, no convergence, or an answer that does not exist."""


class StoppedError(EsscherError):
    """A request to stop other than Ctrl-C (that is a ``KeyboardInterrupt``)."""


class ExistsError(EsscherError, FileExistsError):
    """An output file is there already."""


class EmptyError(EsscherError, ValueError):
    """Nothing to work on: no tokens, or every key masked."""


class ForkError(EsscherError, RuntimeError):
    """This process was forked while another thread was inside the library."""


# By the numbers of es_status, which never change.
_CLASSES: Dict[int, Type[EsscherError]] = {
    _abi.ES_E_ARGUMENT: ArgumentError,
    _abi.ES_E_SHAPE: ShapeError,
    _abi.ES_E_RANGE: RangeError,
    _abi.ES_E_NONFINITE: NonFiniteError,
    _abi.ES_E_OVERFLOW: SizeOverflowError,
    _abi.ES_E_MEMORY: OutOfMemoryError,
    _abi.ES_E_LIMIT: LimitError,
    _abi.ES_E_IO: FileError,
    _abi.ES_E_FORMAT: FormatError,
    _abi.ES_E_UNSUPPORTED: UnsupportedError,
    _abi.ES_E_NUMERIC: NumericError,
    _abi.ES_E_INTERRUPTED: StoppedError,
    _abi.ES_E_EXISTS: ExistsError,
    _abi.ES_E_EMPTY: EmptyError,
}


for _number, _class in _CLASSES.items():
    _class.status = decoded(lib.es_status_name(_number))


def _place(at: int) -> Optional[int]:
    return None if at < 0 else at


def _errno(kind: Type[EsscherError], message: str) -> Optional[int]:
    """The system's number. The library's record has its words alone, the last of the message, and
    they are those of this process's own libc."""
    if kind is ExistsError:
        return errno.EEXIST
    return next((n for n in errno.errorcode if message.endswith(": " + os.strerror(n))), None)


def error_of(status: int, record: _abi.Error) -> EsscherError:
    """The exception for a failed call."""
    message = decoded(record.message)
    kind = _CLASSES.get(status, EsscherError)
    number = _errno(kind, message) if issubclass(kind, OSError) else None
    if kind is FileError and number == errno.ENOENT:
        kind = MissingFileError
    error = kind(
        message,
        status=decoded(lib.es_status_name(status)),
        rule=decoded(record.rule),
        hint=decoded(record.hint),
        file=decoded(record.file) or None,
        offset=_place(record.offset),
        row=_place(record.row),
        col=_place(record.col),
    )
    if isinstance(error, OSError):
        error.filename = error.file
        if number is not None:
            error.errno = number
    return error


def check(status: int, record: _abi.Error) -> None:
    """Raise what a call that returned ``status`` means."""
    if status:
        raise error_of(status, record)
