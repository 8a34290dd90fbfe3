# SPDX-License-Identifier: Apache-2.0
"""Finding the shared library, and making sure that it is the one this package was made for."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import sys
from pathlib import Path
from typing import Iterator, List, Tuple

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
        wrong = _abi.differences(lib)
        _abi.declare(lib)
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

_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}
_logger = logging.getLogger("esscher")


def _remark(_user: object, level: int, message: bytes) -> None:
    _logger.log(_LEVELS.get(level, logging.INFO), "%s", message.decode("utf-8", "replace"))


_remark_pointer = _abi.LogFn(_remark)


def _forget_remarks() -> None:
    lib.es_log_set(None, None, 0)


if sys.byteorder != "little":  # the library refuses such machines, too
    raise ImportError("esscher needs a little-endian machine")
lib, library_path = load()
lib.es_log_set(ctypes.cast(_remark_pointer, ctypes.c_void_p), None, 1)
atexit.register(_forget_remarks)
