# SPDX-License-Identifier: Apache-2.0
"""Temporary folders that a killed process does not leave behind for good.

As those of the library (src/store/scratch.h): the folder is locked, by the operating system, for as
long as its process lives, and the process that makes the next one first removes those whose lock
is free. A name is no proof that a folder is ours: it must belong to this user alone and hold our
marker, and if there is anything in it but arrays, tables and texts, it is left as it is. The name
of the host is part of the folder's, because locks of other machines may not be seen here.

A forked child shares the lock, and leaves removing to its parent.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
import weakref
from contextlib import suppress

_MARKER = ".esscher-scratch"
_MAGIC = b"esscher scratch folder, removed when this process is gone: "
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A new folder, after those of killed processes are removed. It goes with this object.

    Attributes:
        path: of the folder.
    """

    def __init__(self, what: str) -> None:
        where = tempfile.gettempdir()
        prefix = f"esscher-{what}-{socket.gethostname().partition('/')[0]}-"
        _reclaim_all(where, prefix)
        self.path = tempfile.mkdtemp(prefix=prefix, dir=where)
        lock = os.open(self.path, _FOLDER)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        with suppress(OSError):  # without locks no process removes another's folder
            fcntl.flock(lock, fcntl.LOCK_EX)
        with open(os.path.join(self.path, _MARKER), "xb") as file:
            file.write(_MAGIC + b"%d\n" % os.getpid())

    def remove(self) -> None:
        """Remove the folder, unless this process is a fork of the one that made it."""
        self._finalizer()


def _remove(path: str, lock: int, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _reclaim_all(where: str, prefix: str) -> None:
    with suppress(OSError):
        names = [name for name in os.listdir(where) if name.startswith(prefix)]
        for name in names:
            with suppress(OSError):  # in use, of another user, or removed meanwhile
                _reclaim(os.path.join(where, name))


def _reclaim(path: str) -> None:
    """Removes the folder if it is one of a process that is gone."""
    folder = os.open(path, _FOLDER)
    try:
        about = os.fstat(folder)
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        names = os.listdir(folder)
        if _MARKER not in names or not all(_is_ours(folder, name) for name in names):
            return
        names.remove(_MARKER)
        for name in [*names, _MARKER]:  # a process that is killed before the end leaves its marker
            os.unlink(name, dir_fd=folder)
        os.rmdir(path)
    finally:
        os.close(folder)


def _is_ours(folder: int, name: str) -> bool:
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    if name != _MARKER:
        return name.endswith((".npy", ".csv", ".text"))
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(file, len(_MAGIC)) == _MAGIC
    finally:
        os.close(file)
