# SPDX-License-Identifier: Apache-2.0
"""Progress of a long call: nothing for a while, then one line in a terminal or a notebook."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any, Callable, Optional, Union

from .errors import ArgumentTypeError

Progress = Callable[[float, str], object]

_QUIET_SECONDS = 1.0  # what takes less says nothing
_WIDTH = 30


def line(name: str, share: float, phase: str, seconds: float) -> str:
    """``converge  [=====     ] 50 %  drawing tokens  12 s left``"""
    share = min(max(share, 0.0), 1.0)
    full = int(share * _WIDTH)
    left = seconds * (1 - share) / share if share > 0.01 else None
    ends = "" if left is None else f"  {_duration(left)} left"
    bar = "=" * full + " " * (_WIDTH - full)
    return f"{name}  [{bar}] {share * 100:3.0f} %  {phase}{ends}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


class Line:
    """Progress on standard error, where that is a terminal, or under the cell of a notebook."""

    def __init__(self, name: str, display: Optional[Any]) -> None:
        self._name = name
        self._display = display  # IPython's, in a notebook
        self._handle: Any = None
        self._began = time.monotonic()
        self._shown = 0

    def __call__(self, share: float, phase: str) -> None:
        seconds = time.monotonic() - self._began
        if seconds < _QUIET_SECONDS:
            return
        text = line(self._name, share, phase, seconds)
        if self._display is None:
            sys.stderr.write("\r" + text.ljust(self._shown))
            sys.stderr.flush()
            self._shown = len(text)
        elif self._handle is None:
            self._handle = self._display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """The line goes away: what was computed is what stays."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _notebook_display() -> Optional[Any]:
    """IPython's display(), if this runs in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return importlib.import_module("IPython.display").display


def reporter(name: str, wanted: Union[None, bool, Progress]) -> Optional[Any]:
    """The receiver of progress: the caller's; by default a line on a terminal or in a notebook."""
    if callable(wanted):
        return wanted
    if wanted is not None and not isinstance(wanted, bool):
        raise ArgumentTypeError(
            f"progress must be True, False or a function, and not {wanted!r}",
            rule="python.progress",
            hint="a function is called with the share that is done and what is going on",
        )
    if wanted is False:
        return None
    display = _notebook_display()
    if wanted is None and display is None and not (sys.stderr and sys.stderr.isatty()):
        return None
    return Line(name, display)
