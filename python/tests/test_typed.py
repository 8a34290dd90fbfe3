# SPDX-License-Identifier: Apache-2.0
"""Types: the package itself, and what a user's program sees of it, by mypy in its strict mode."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MYPY = shutil.which("mypy")
if MYPY is None:
    print("skipped: there is no mypy (Debian package mypy)")
    sys.exit(77)

PACKAGE = Path(__file__).parent.parent / "esscher"

USER = """
import numpy as np
import esscher

x = np.ones((3, 2), np.float32)
y = esscher.attend(x, x, x, causal=True, stats=["lse"])
y = esscher.attend(x, x, x, scale=np.array([0.5, 1]), prefixes=np.arange(1, 4), progress=True)
y = esscher.attend(x, x, x, scale=0.5, stats="top_mass", top_k=np.array([1, 2]))
esscher.converge(n=np.array([100, 200]), scales=np.linspace(0.5, 1, 2))
esscher.sparse(q=x, k=x, v=x, policy=["stream", "top"], keys=range(1, 5))
esscher.loss(model=".", text="t", window=np.array([4, 8]))
esscher.context_fit({"context": [1, 4], "loss": np.ones(2)})
r = esscher.converge(dim=3, scales=[0.5, 1], n="100..400*3", cov=np.eye(3), out="x.run")
print(r.tables["rows"], r.columns("rows")["n"].unit, r.findings[0], r.json()["rows"])
try:
    esscher.open("x.run")
except esscher.FormatError as error:
    print(error.rule, error.offset, error.head)
except esscher.FileError as missing:
    print(missing.hint, missing.errno, missing.filename)
"""

WRONG = """
import numpy as np
import esscher
esscher.converge(dims=3)
esscher.converge(law='x')
esscher.downstream(tasks=np.ones(3))
"""


def mypy(*words):
    return subprocess.run(
        [MYPY, "--strict", "--python-executable", sys.executable, "--cache-dir", os.devnull]
        + list(words),
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )


class Types(unittest.TestCase):
    def test_the_package_and_a_users_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(USER)
            done = mypy(str(PACKAGE), str(program))
        self.assertEqual(done.stdout.strip().split("\n")[-1][:7], "Success", done.stdout)

    def test_a_wrong_program_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(WRONG)
            done = mypy(str(program))
        self.assertIn('Unexpected keyword argument "dims"', done.stdout)
        self.assertIn("Literal['x']", done.stdout)
        self.assertIn('Argument "tasks"', done.stdout)


if __name__ == "__main__":
    unittest.main()
