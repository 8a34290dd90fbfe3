#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_run_blocks.py ROOT ESSCHER MAKE_NPY MAKE_MODEL CC LIBRARY : what is wrong in a document is found by run_blocks.py."""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import blocks
import run_blocks

TABLE = "    esscher regimes --dim 3 --n 1e3,1e6,1e12 --b 0.5\n\n```\n...\n  3  1000  0.5  5.00e+02  %s ± 0.0058\n...\n```\n"

# A document's name, its text, and words of the fault that must be found; None: nothing is wrong.
CASES = [
    ("docs/X.md", "    esscher rope\n", None),
    ("docs/X.md", TABLE % "0.5534", None),
    ("docs/X.md", TABLE % "0.5591", None),  # within the stated error of 0.0058
    ("docs/X.md", TABLE % "0.5602", "not printed: 3 1000 0.5"),  # 1 % off, and beyond it
    ("docs/X.md", TABLE % "0.7534", "not printed: 3 1000 0.5"),
    ("docs/X.md", "    esscher rope --bose 3\n", "ended with 2"),
    ("docs/X.md", "    esscher rope          how far\n", "ended with 2"),
    ("docs/X.md", "    esscher measure --q nowhere.npy --k k.npy --v v.npy\n", "cannot open"),
    ("docs/X.md", "    esscher frobnicate\n", "no row of CALLS fits"),
    ("docs/X.md", "    wget somewhere\n", "neither commands nor"),
    ("docs/X.md", "    esscher rope\n    a = b + c\n", "neither a command nor"),
    ("docs/X.md", "    ./do chekc\n", "ended with 1"),
    ("docs/X.md", "    cmake --preset relase\n", "ended with 1"),
    ("docs/X.md", "    bench/nothing 3\n", "ended with 127"),
    ("docs/X.md", '    apt-get install gcc && echo "$(id -u)"\n', None),
    ("docs/X.md", "    apt-get install gcc && (\n", "no command of the shell"),
    ("docs/X.md", "    a = b + c\n", "neither commands nor"),
    ("docs/THEORY.md", "    a = b + c\n", None),
    ("docs/X.md", "```perl\nx\n```\n", "no rule for a block"),
    ("docs/X.md", '```json\n{"a": ...}\n```\n', "Expecting value"),
    ("docs/X.md", "```text\nesscher rope\n```\n", "a command in a block of text"),
    ("docs/X.md", "```python\nx = 1\n```\n", "no rule for this Python"),
    ("docs/MODELS.md", "```python\nfrom transformers import (\n```\n", "never closed"),
    ("docs/X.md", "```console\n$ esscher converge --law gausian\n...\n$ echo $?\n2\n```\n", None),
    (
        "docs/X.md",
        "```console\n$ esscher converge --law gausian\n...\n$ echo $?\n3\n```\n",
        "ended with 2",
    ),
    (
        "docs/X.md",
        "```console\n$ esscher converge --law gausian\nnot what it says\n$ echo $?\n2\n```\n",
        "not printed",
    ),
    ("README.md", "```c\n#include <esscher/attend.h>\n\nes_attend(1, 2);\n```\n", "error:"),
]


def main(root, esscher, make_npy, make_model, cc, library):
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        tools = run_blocks.equip(root, esscher, make_npy, make_model, cc, library, Path(work))
        for at, (name, text, words) in enumerate(CASES):
            document = run_blocks.Document(
                tools, name, blocks.read(name, text), Path(work) / f"case{at}"
            ).run()
            found = "\n".join(document.faults)
            if bool(found) != bool(words) or words and words not in found:
                wrong.append(f"{name}: {text!r}\n    wanted {words!r}, found {found!r}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(
        *[Path(word).resolve() for word in sys.argv[1:5]], sys.argv[5], Path(sys.argv[6]).resolve()
    )
