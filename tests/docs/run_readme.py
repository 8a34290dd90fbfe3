#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_readme.py ROOT ESSCHER MAKE_NPY MAKE_MODEL CC LIBRARY : every command of README.md, run as it is printed.

The folder looks like a fresh clone: what git tracks, and nothing else. Nothing stands in for a file, no option is added,
and every shown number must be printed again within its stated error. Only ./do is not run: that would run this test.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import blocks
import run_blocks
import stand_ins


class Readme(run_blocks.Document):
    as_printed = "1"

    def furnish(self):
        for name in tracked(self.tools.root):
            if name != "do":
                stand_ins.link(self.tools.root / name, self.folder / name)
        stand_ins.link(self.tools.bin / "do", self.folder / "do")

    def dress(self, command):
        """Nothing: README's commands find their files in the clone or make them."""


def tracked(root):
    """Files of a clone. Without git (a release), all but what a build makes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (root / name).exists()]
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [str(path) for path in found if path.parts[0] not in ("build", "demo")]


def main(root, esscher, make_npy, make_model, cc, library):
    with tempfile.TemporaryDirectory() as work:
        tools = run_blocks.equip(root, esscher, make_npy, make_model, cc, library, Path(work))
        found = blocks.read("README.md", (root / "README.md").read_text())
        run_blocks.sum_up([Readme(tools, "README.md", found, Path(work) / "clone").run()])


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(
        *[Path(word).resolve() for word in sys.argv[1:5]], sys.argv[5], Path(sys.argv[6]).resolve()
    )
