# SPDX-License-Identifier: Apache-2.0
"""Values that callers give, checked before they become fields of a struct; texts that come back.

Exceptions are imported where they are raised, because their module needs this one.
"""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np


def whole(value: Any, name: str, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """A whole number for a field: ctypes would cut one that does not fit, and take no NumPy's."""
    try:
        number = operator.index(value)
    except TypeError:
        from .errors import ArgumentTypeError

        raise ArgumentTypeError(
            f"{name} must be a whole number, and not {value!r}",
            rule="python.whole",
            hint="give an int, or a whole number of NumPy",
        ) from None
    if not low <= number <= high:
        from .errors import ArgumentError

        raise ArgumentError(
            f"{name} cannot be {number}",
            rule="python.whole",
            hint=f"expected a number from {low} to {high}",
        )
    return number


def truth(value: Any, name: str) -> bool:
    """A truth value for a field: Python would take "no" for True."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    from .errors import ArgumentTypeError

    raise ArgumentTypeError(
        f"{name} must be True or False, and not {value!r}",
        rule="python.truth",
        hint=f"give {name}=True or {name}=False",
    )


def path_bytes(value: "str | os.PathLike[str]") -> bytes:
    """A path as the system has it; ctypes would end it at a zero byte."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        from .errors import ArgumentError

        raise ArgumentError(
            f"the path {value!r} holds a zero byte",
            rule="python.path",
            hint="no file has such a name",
        )
    return raw


def decoded(text: "bytes | None") -> str:
    """A text of the library's; none is empty."""
    return text.decode("utf-8", "replace") if text else ""
