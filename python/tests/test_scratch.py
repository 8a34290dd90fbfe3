# SPDX-License-Identifier: Apache-2.0
"""Temporary folders: neither a forked child nor a stranger removes them, and kill -9 leaves none
for good (PY06). watch() itself needs PyTorch; what it writes to does not."""

import glob
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

import esscher

watching = importlib.import_module("esscher.watch")
ROWS = np.eye(2)

# A process that watches, says where, and waits.
HOLDER = """
import importlib, sys, numpy
watching = importlib.import_module("esscher.watch")
w = watching.Watch(None, None, None, 1 << 20, None)
print(w._write("layer0.call0.batch0", [numpy.eye(2)] * 3)[0], flush=True)
sys.stdin.read()
"""

# One whose child ends before it reads what it has caught.
FORKING = """
import importlib, os, sys, numpy
watching = importlib.import_module("esscher.watch")
w = watching.Watch(None, None, None, 1 << 20, None)
file = w._write("layer0.call0.batch0", [numpy.eye(2)] * 3)[0]
child = os.fork()
if child == 0:
    {leave}
os.waitpid(child, 0)
print(numpy.load(file).ravel().tolist())
"""


def watch():
    return watching.Watch(None, None, None, 1 << 20, None)


def written(w):
    """The folder of a watch that has caught something."""
    return os.path.dirname(w._write("layer0.call0.batch0", [ROWS] * 3)[0])


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        patch = unittest.mock.patch.object(tempfile, "tempdir", self.folder.name)
        patch.start()
        self.addCleanup(patch.stop)

    def here(self):
        return sorted(glob.glob(self.folder.name + "/*"))

    def holder(self):
        """Another process that watches, and the folder it does it in."""
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            env={**os.environ, "TMPDIR": self.folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return process, os.path.dirname(process.stdout.readline().strip())

    def end(self, process):
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def test_it_goes_with_its_watch(self):
        w = watch()
        folder = written(w)
        self.assertTrue(os.path.isdir(folder))
        w.close()
        self.assertEqual(self.here(), [])

    def test_a_forked_child_that_exits_leaves_its_parents_folder(self):
        for leave in ("sys.exit(0)", "w.close(); sys.exit(0)"):
            said = subprocess.run(
                [sys.executable, "-c", FORKING.format(leave=leave)],
                env={**os.environ, "TMPDIR": self.folder.name},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            self.assertEqual(said, "[1.0, 0.0, 0.0, 1.0]\n")
            self.assertEqual(self.here(), [])

    def test_what_a_killed_process_left_goes_with_the_next(self):
        killed, left = self.holder()
        alive, kept = self.holder()
        killed.send_signal(signal.SIGKILL)
        self.end(killed)
        self.assertTrue(os.path.isdir(left))
        w = watch()
        mine = written(w)
        self.assertEqual(self.here(), sorted([kept, mine]))
        np.testing.assert_array_equal(np.load(kept + "/layer0.call0.batch0.k.npy"), ROWS)
        alive.communicate()
        self.assertEqual(self.here(), [mine])

    def test_inputs_of_a_study_are_kept_so_as_well(self):
        killed, left = self.holder()
        killed.send_signal(signal.SIGKILL)
        self.end(killed)
        inputs = left.replace("esscher-watch-", "esscher-inputs-")
        os.rename(left, inputs)
        esscher.measure(q=ROWS, k=ROWS, v=ROWS)
        self.assertEqual(self.here(), [])

    def test_a_folder_that_is_not_ours_stays(self):
        killed, left = self.holder()
        killed.send_signal(signal.SIGKILL)
        self.end(killed)
        name = Path(left).name
        Path(left, "thesis.txt").write_text("mine")
        like = Path(self.folder.name, name + "x")  # the name alone
        like.mkdir()
        (like / "a.npy").write_text("mine")
        linked = Path(self.folder.name, name + "y")
        linked.symlink_to(like)
        w = watch()
        written(w)
        self.assertEqual(Path(left, "thesis.txt").read_text(), "mine")
        self.assertEqual((like / "a.npy").read_text(), "mine")
        self.assertTrue(linked.is_symlink())


if __name__ == "__main__":
    unittest.main()
