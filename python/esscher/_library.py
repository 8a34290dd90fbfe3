# SPDX-License-Identifier: Apache-2.0
"""Finding the shared library, and making sure that it is the one this package was made for."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from . import _abi
from ._version import version

SONAME = "libesscher.so." + ".".join(version.split(".")[:2])

_HELP = (
    "Install the library that belongs to this package, or name the file in the environment "
    "variable ESSCHER_LIBRARY."
)


def candidates() -> Iterator[Tuple[str, str]]:
    """Where the library may be, first choice first: (path or name, why there)."""
    named = os.environ.get("ESSCHER_LIBRARY")
    if named:
        yield named, "the environment variable ESSCHER_LIBRARY"
        return
    here = Path(__file__).resolve().parent
    yield str(here / "_lib" / SONAME), "inside the package"
    root = here.parent.parent
    if (root / "include" / "esscher" / "foreign.h").exists():
        yield str(root / "build" / "release" / SONAME), "built in the source tree"
    yield SONAME, "installed in the system"


def _open(path: str) -> ctypes.CDLL:
    if os.sep in path and not os.path.exists(path):
        raise OSError("there is no such file")
    return ctypes.CDLL(path)


def load() -> Tuple[ctypes.CDLL, str]:
    """The library and the path it came from.

    The first candidate that can be opened is taken; if it is of another version, that is an
    ImportError and no reason to look further: which library is used must not depend on luck.
    """
    tried: List[str] = []
    for path, why in candidates():
        try:
            lib = _open(path)
        except OSError as error:
            tried.append(f"  {path} ({why}): {error}")
            continue
        _check(lib, path)
        return lib, path
    raise ImportError(
        f"esscher {version}: the shared library {SONAME} cannot be loaded. Tried:\n"
        + "\n".join(tried)
        + "\n"
        + _HELP
    )


def declare(lib: ctypes.CDLL) -> None:
    """Give every function its types. AttributeError names one that the library has not."""
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments


def differences(lib: ctypes.CDLL) -> List[str]:
    """Where the library's structs differ from those of _abi, in words; empty if nowhere."""
    theirs: Dict[str, Dict[str, Tuple[int, int]]] = {}
    at = 0
    while field := lib.es_field_at(at):
        one = field.contents
        theirs.setdefault(one.type.decode(), {})[one.name.decode()] = (one.offset, one.size)
        at += 1
    found = []
    for name, struct in _abi.STRUCTS.items():
        ours = {"": (0, ctypes.sizeof(struct))}
        for field_name, *_ in struct._fields_:
            place = getattr(struct, field_name)
            ours[field_name] = (place.offset, place.size)
        there = theirs.get(name, {})
        for key in sorted(set(ours) | set(there)):
            if ours.get(key) != there.get(key):
                found.append(
                    f"{name}{'.' if key else ''}{key}: {there.get(key)} in the library, "
                    f"{ours.get(key)} in the package"
                )
    return found


def _check(lib: ctypes.CDLL, path: str) -> None:
    """ImportError unless the library has this package's version, structs and functions."""
    try:
        lib.es_version.restype = ctypes.c_char_p
        found = lib.es_version().decode()
    except AttributeError:
        raise ImportError(f"{path} is no library of esscher. {_HELP}") from None
    if found != version:
        raise ImportError(
            f"{path} is version {found}, and this package is version {version}. {_HELP}"
        )
    try:
        declare(lib)
        wrong = differences(lib)
    except AttributeError as error:
        raise ImportError(
            f"{path} is version {found}, but another build than this package is made for: {error}. "
            f"{_HELP}"
        ) from None
    if wrong:
        raise ImportError(
            f"{path} is version {found}, but its structs are not those of this package: "
            f"{'; '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}. {_HELP}"
        )


# ---- what the library remarks goes to the logger "esscher" ----

_LEVELS = {
    _abi.ES_LOG_ERROR: logging.ERROR,
    _abi.ES_LOG_WARN: logging.WARNING,
    _abi.ES_LOG_INFO: logging.INFO,
    _abi.ES_LOG_DEBUG: logging.DEBUG,
}
_logger = logging.getLogger("esscher")


def _remark(_user: object, level: int, message: int) -> None:
    text = ctypes.string_at(message).decode("utf-8", "replace")
    _logger.log(_LEVELS.get(level, logging.INFO), "%s", text)


_remark_pointer = _abi.LogFn(_remark)


def _forget_remarks() -> None:
    lib.es_log_set(_abi.LogFn(0), None, _abi.ES_LOG_ERROR)


if sys.byteorder != "little":  # the library refuses such machines, too
    raise ImportError("esscher needs a little-endian machine")
lib, library_path = load()
lib.es_log_set(_remark_pointer, None, _abi.ES_LOG_WARN)
atexit.register(_forget_remarks)


def address(name: str) -> Any:
    """The address of a function of the library, for a field that holds one."""
    return ctypes.cast(getattr(lib, name), _abi.Pointer)
