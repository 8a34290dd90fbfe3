#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py ROOT ESSCHER WORK : runs the commands of README.md and docs/TUTORIAL.md again and puts in what they print now.

WORK looks like the repository, with demo/minilm, demo/minimind and demo/alice.txt, which ./do demo fetches. Commands and their output are
the console blocks of the tutorial, and in README.md the indented commands with the block that follows. Lines of "…" or
"..." stay where they are: between them, as many lines are taken as the document shows, from the same first line on if it
is still printed. `./do demo` is run as the `esscher demo` that it ends with. A command whose output shows "^C" is
interrupted once its first replicate is done.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

TOUR = "esscher demo --folder demo --model demo/minilm --text demo/alice.txt --decoder demo/minimind"
SETTLED = 8.0  # seconds after which the command that is interrupted has finished a replicate, on two cores


def abridge(shown, printed):
    """The printed lines, cut where the shown ones are."""
    dots = [at for at, row in enumerate(shown) if row.strip() in ("…", "...")]
    if not dots:
        return printed
    made, at, begin = [], 0, 0
    for end in [*dots, len(shown)]:
        piece = shown[begin:end]
        if piece and begin:
            last = len(printed) - len(piece)
            same = [i for i in range(at, len(printed)) if printed[i] == piece[0]]
            at = same[0] if same else max(at, last if end == len(shown) else at)
        made += printed[at : at + len(piece)] + shown[end : end + 1]
        at, begin = at + len(piece), end + 1
    return made


def run(command, columns, interrupt):
    """(exit code, lines of stdout and stderr as a terminal shows them)."""
    words = TOUR if command == "./do demo" else command
    words = re.sub(r"^python3\b", sys.executable, words)  # the one that has NumPy
    process = subprocess.Popen(
        ["sh", "-c", f"exec {words}"] if interrupt else ["sh", "-c", words],
        env={**os.environ, "COLUMNS": str(columns), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if interrupt:
        time.sleep(SETTLED)
        process.send_signal(signal.SIGINT)
    printed = process.communicate()[0].rstrip("\n").split("\n")
    if interrupt:
        printed.insert(len(printed) - 2, "^C")
    return process.returncode, [] if printed == [""] else printed


def replay(block):
    """The lines of one console block, with new output."""
    made, code = [], 0
    for command, shown in turns(block):
        made.append("$ " + command)
        if command == "echo $?":
            made += [str(code)]
        elif command.startswith("cat "):
            Path(command[4:]).write_text("\n".join(shown) + "\n")
            made += shown
        else:
            columns = 120 if any(len(row) > 80 for row in shown) else 80
            code, printed = run(command, columns, "^C" in shown)
            if command.startswith("python3 ") and code != 0:
                sys.exit("\n".join(printed))
            made += abridge(shown, printed)
    return made


def turns(block):
    """(command, what is shown after it) of a console block."""
    found = []
    for row in block:
        if row.startswith("$ "):
            found.append([row[2:], []])
        elif found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + row
        else:
            found[-1][1].append(row)
    return found


def refresh_tutorial(text):
    """The page with new output in its console blocks."""
    return re.sub(
        r"^```console\n(.*?)^```$",
        lambda block: "\n".join(["```console", *replay(block[1].split("\n")[:-1]), "```"]),
        text,
        flags=re.M | re.S,
    )


def refresh_readme(text):
    """The page with new output in the blocks that follow commands."""

    def again(found):
        *before, command = [row[4:] for row in found["commands"].split("\n")[:-1]]
        for words in before:
            run(words, 100, False)
        shown = found["shown"].split("\n")[:-1]
        columns = 120 if any(len(row) > 100 for row in shown) else 100
        printed = run(f"{command} --quiet 2>/dev/null", columns, False)[1]
        return f"{found['commands']}\n```\n" + "\n".join([*abridge(shown, printed), "```"])

    return re.sub(
        r"(?P<commands>^(?:    [^\n]+\n)+)\n```\n(?P<shown>.*?\n)```$",
        again,
        text,
        flags=re.M | re.S,
    )


def main(root, esscher, work):
    os.chdir(work)
    os.environ["PATH"] = f"{esscher.parent}:{os.environ['PATH']}"
    for old in [*Path(".").glob("*.run"), *Path(".").glob("*.html")]:
        old.unlink()
    told = subprocess.run([esscher, "--version"], capture_output=True, text=True, check=True)
    version = told.stdout.split("\n")[0]
    for name, refresh in (
        ("README.md", refresh_readme),
        ("docs/TUTORIAL.md", refresh_tutorial),
    ):
        text = refresh((root / name).read_text())
        (root / name).write_text(re.sub(r"\(esscher [0-9.]+\)", f"({version})", text))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*[Path(word).resolve() for word in sys.argv[1:]])
