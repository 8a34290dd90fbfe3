# SPDX-License-Identifier: Apache-2.0
"""Calling the library so that Python stays alive: Ctrl-C, progress, forks.

While a thread of Python is inside the library, it runs no Python, and the main thread no handlers
of signals. So whatever may take long is called in a thread of its own, and the thread that asked
waits where it can be interrupted, looks at progress, and asks to stop when it has to go. Nothing
of Python runs in the library's own threads.

A child of ``os.fork()`` inherits memory but no threads. OpenMP would wait for ever for those that
worked for the thread that forked; a thread made after the fork gets new ones. So every call of a
child goes to a new thread. Where the fork came while a call was under way in another thread, the
library's own state is in the middle of something: then calls are refused.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Callable, Dict, List, Optional, Tuple, cast

from . import _abi
from ._arguments import whole
from ._library import lib
from .errors import ArgumentError, ForkError, check
from .progress import Progress

_LOOK_SECONDS = 0.1
_OPENMP: bool = lib.es_build_info().openmp


def _isas() -> Dict[str, int]:
    """Instruction sets that the library knows, with their numbers; 0 is the best of the CPU."""
    names: Dict[str, int] = {}
    chosen = ctypes.c_int()
    while lib.es_isa_parse(lib.es_isa_name(len(names) + 1), ctypes.byref(chosen)):
        names[lib.es_isa_name(chosen.value).decode()] = chosen.value
    return names


ISAS = _isas()

_forked = False
_broken = False
_busy = 0  # calls under way
_count = threading.RLock()  # a handler of signals may fork


def _before_fork() -> None:
    _count.acquire()


def _in_parent() -> None:
    _count.release()


def _in_child() -> None:
    global _forked, _broken, _busy, _count
    _forked = True
    _broken = _broken or _busy > 0
    _busy = 0
    _count = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


class Monitor:
    """Progress of one call, and the wish that it stops."""

    def __init__(self) -> None:
        self.stopped = False
        self.handle = ctypes.c_void_p()
        error = _abi.Error()
        check(lib.es_monitor_new(ctypes.byref(self.handle), ctypes.byref(error)), error)

    def __del__(self, free: Callable[[object], None] = lib.es_monitor_free) -> None:
        if self.handle:
            free(self.handle)

    def stop(self) -> None:
        self.stopped = True
        lib.es_monitor_stop(self.handle)

    def read(self) -> Optional[Tuple[float, str]]:
        """Share of the work that is done, and what is going on; None before anything is known."""
        now = _abi.MonitorView()
        lib.es_monitor_read(self.handle, ctypes.byref(now))
        return None if now.share < 0 else (now.share, now.phase.decode("utf-8", "replace"))


def _call(work: Callable[[], int]) -> int:
    """The call itself, counted."""
    global _busy
    with _count:
        _busy += 1
    try:
        return work()
    finally:
        with _count:
            _busy -= 1


def _refuse_broken() -> None:
    if _broken:
        raise ForkError(
            "this process was forked while another thread was inside esscher",
            rule="python.fork",
            hint="fork before the first call or between calls, or start processes by "
            'multiprocessing.get_context("spawn")',
        )


def call_short(work: Callable[[], int]) -> int:
    """Call what takes no longer than a blink: in this thread, if that is safe."""
    if _forked:
        return call_long(work, None)
    return _call(work)


def call_long(
    work: Callable[[], int], monitor: Optional[Monitor], progress: Optional[Progress] = None
) -> int:
    """Call what may take long, and be there for signals and ``progress`` meanwhile.

    ``work`` keeps what it uses alive, so that the call may be left behind: the first Ctrl-C asks it
    to stop and waits until it has, the second does not wait.
    """
    _refuse_broken()
    main = threading.current_thread() is threading.main_thread()
    if not (main or _forked or progress):
        return _call(work)
    outcome: List[object] = []
    done = threading.Lock()
    done.acquire()

    def run(_keep: object = monitor) -> None:
        try:
            outcome.append(_call(work))
        except BaseException as error:  # raised again by the waiting thread
            outcome.append(error)
        finally:
            done.release()

    thread = threading.Thread(target=run, name="esscher", daemon=True)
    try:
        thread.start()
        while not done.acquire(timeout=_LOOK_SECONDS):
            now = monitor.read() if monitor and progress else None
            if now and progress:
                progress(*now)
    except BaseException:
        if monitor and thread.ident is not None:
            monitor.stop()
            done.acquire()
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return cast(int, outcome[0])


def fill_exec(to: _abi.Exec, threads: Optional[int], isa: Optional[str]) -> None:
    """Threads and kernels, as the caller gave them."""
    if threads is not None:
        to.threads = whole(threads, "threads", 1, 1024)
    else:
        to.threads = lib.es_threads_available() if _OPENMP else 1
    if isa is not None:
        if isa not in ISAS:
            raise ArgumentError(
                f"there is no isa {isa!r}",
                rule="python.isa",
                hint=f"expected one of {', '.join(ISAS)}",
            )
        to.isa = ISAS[isa]
