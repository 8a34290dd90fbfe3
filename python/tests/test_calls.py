# SPDX-License-Identifier: Apache-2.0
"""Forks, Ctrl-C and threads while the library works.  PY02 PY03 PY05"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import esscher


def in_child(work, seconds=60):
    """What ``work`` writes in a child of fork(), or None if it hangs: 60 s are for safety only."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, work())
        finally:
            os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            with os.fdopen(reader, "rb") as f:
                return f.read()
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


class Forks(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.small, self.large = rng.normal(size=(300, 8)), rng.normal(size=(3000, 16))

    def test_PY02_a_child_computes_the_same(self):
        """OpenMP's threads, made before the fork by two kinds of call, are not waited for."""
        for x in (self.small, self.large):
            before = esscher.attend(x, x, x, threads=2)
            after = in_child(lambda: esscher.attend(x, x, x, threads=2)[:4].tobytes())
            self.assertEqual(after, before[:4].tobytes())

    def test_PY02_a_child_of_a_child(self):
        x = self.small
        before = esscher.attend(x, x, x, threads=2)[:1].tobytes()

        def work():
            esscher.attend(x, x, x, threads=2)
            return in_child(lambda: esscher.attend(x, x, x, threads=2)[:1].tobytes()) or b"hangs"

        self.assertEqual(in_child(work), before)

    def test_PY02_a_study_in_a_child(self):
        ask = dict(n=[50, 100], replicates=4, threads=2)
        before = esscher.converge(**ask).tables["rows"]["map_error"].tobytes()
        work = lambda: esscher.converge(**ask).tables["rows"]["map_error"].tobytes()  # noqa: E731
        self.assertEqual(in_child(work), before)

    def test_PY02_a_fork_in_the_middle_is_refused(self):
        """Another thread was inside the library: nobody knows in which state it is."""
        x = np.random.default_rng(0).normal(size=(100000, 64)).astype("f4")
        forked = threading.Event()

        def progress(share, phase):
            if forked.is_set():
                raise KeyboardInterrupt

        def inside():  # until the child has ended
            with self.assertRaises(KeyboardInterrupt):
                esscher.attend(x, x, x, progress=progress)

        thread = threading.Thread(target=inside)
        thread.start()
        while not esscher._calls._busy:
            time.sleep(0.001)

        def work():
            try:
                esscher.attend(self.small, self.small, self.small)
            except esscher.ForkError as error:
                return error.rule.encode()
            return b"computed"

        said = in_child(work)
        forked.set()
        thread.join()
        self.assertEqual(said, b"python.fork")
        esscher.attend(self.small, self.small, self.small)  # the parent goes on


# What the code of interrupted() begins with. It prints "begins" at the first report of progress, in the middle of a call.
REPORTED = """
import numpy as np, esscher
reports = []
def progress(share, phase):
    if not reports:
        print("begins", flush=True)
    reports.append(share)
"""


def interrupted(code):
    """Send Ctrl-C to code that is in the middle of a call: its exit code and what it printed.

    A call that notices the signal leaves most of its work undone, which the tests look at. The
    300 s are for safety only.
    """
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process = subprocess.Popen([sys.executable, "-c", REPORTED + code], **pipes)
    assert process.stdout.readline().strip() == "begins"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


class Interrupts(unittest.TestCase):
    def test_PY03_ctrl_c_stops_attention(self):
        code = """
x = np.random.default_rng(0).normal(size=(100000, 64)).astype("f4")
y = np.full(x.shape, np.nan)
try:
    esscher.attend(x, x, x, out=y, progress=progress)
except KeyboardInterrupt:
    print("stopped", np.isnan(y).mean() > 0.5)
    small = x[:100]
    print(esscher.attend(small, small, small).shape)
"""
        self.assertEqual(interrupted(code), (0, "stopped True\n(100, 64)\n", ""))

    def test_PY03_ctrl_c_stops_many_small_heads(self):
        code = """
q = np.ones((400000, 1, 16), "f4")
k = np.ones((1, 512, 16), "f4")
y = np.full(q.shape, np.nan)
try:
    esscher.attend(q, k, k, out=y, progress=progress)
except KeyboardInterrupt:
    print("stopped", np.isnan(y).mean() > 0.5)
"""
        self.assertEqual(interrupted(code), (0, "stopped True\n", ""))

    def test_PY03_ctrl_c_stops_a_study(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            code = f"""
try:
    esscher.converge(n=[500, 1000], replicates=3000, out={path!r}, progress=progress)
except KeyboardInterrupt:
    print("stopped")
"""
            self.assertEqual(interrupted(code), (0, "stopped\n", ""))
            with self.assertRaises(esscher.EmptyError) as raised:  # there are cells, and no tables
                esscher.open(path)
            self.assertIn("resume=True", raised.exception.hint)

    def test_PY03_what_is_resumed_has_the_same_bits(self):
        ask = dict(n=[200, 4000], replicates=60)

        def progress(share, phase):
            if share > 0.2:
                raise KeyboardInterrupt

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.run")
            with self.assertRaises(KeyboardInterrupt):
                esscher.converge(**ask, out=path, progress=progress)
            resumed = esscher.converge(**ask, out=path, resume=True)
        whole = esscher.converge(**ask)
        np.testing.assert_array_equal(resumed.tables["rows"], whole.tables["rows"])

    def test_PY03_an_exception_in_a_callback_is_the_callers(self):
        x = np.random.default_rng(0).normal(size=(30000, 32))

        def progress(share, phase):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            esscher.attend(x, x, x, progress=progress)


class Threads(unittest.TestCase):
    def test_PY05_threads_at_once(self):
        """Attention and studies from four threads of Python: the same bits as one by one."""
        arrays = [np.random.default_rng(i).normal(size=(1500, 16)) for i in range(4)]

        def work(i):
            x = arrays[i]
            y = esscher.attend(x, x, x, threads=2)
            r = esscher.converge(n=[50, 100], replicates=4, seed=i, threads=2)
            return y.tobytes() + r.tables["rows"]["map_error"].tobytes()

        alone = [work(i) for i in range(4)]
        together = [None] * 4

        def keep(i):
            together[i] = work(i)

        threads = [threading.Thread(target=keep, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(together, alone)

    def test_PY05_the_interpreter_goes_on_meanwhile(self):
        """The lock of Python is not held: another thread counts, and then the call is stopped.

        If it were held, progress would not be looked at before all the work is done.
        """
        x = np.random.default_rng(0).normal(size=(60000, 64)).astype("f4")
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)  # gives the lock away

        class Enough(Exception):
            pass

        def progress(share, phase):
            if counted[0] > before + 20:
                raise Enough

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        try:
            with self.assertRaises(Enough):
                esscher.attend(x, x, x, progress=progress)
        finally:
            stop.set()
            thread.join()


if __name__ == "__main__":
    unittest.main()
