#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_blocks.py ROOT ESSCHER MAKE_NPY MAKE_MODEL CC LIBRARY : every code block of the documents, run as far as it can be.

Blocks of CONTRIBUTING.md and of docs/, and the examples of `esscher help`, are run in a scratch folder with
stand-ins for what they name (stand_ins.py). Which way a block is run is decided by the tables below and summed up at the
end. A block or command that no row covers is a failure. (README.md: run_readme.py.)

What a fence says of its block:

    sh, or indented    commands                     c       compiled, and run
    console            a terminal: "$ " commands,   python  run, or compiled where it needs what is not here
                       what they print, "$ echo $?" json    parsed
    nothing            what the commands before it  text    neither a command nor code
                       print; "..." is left out     r, sql  run by the tests files_*, as FILES.md's python
    transcript         what `./do deb` typed and saw: its "$ " commands are those of its script
"""

import ast
import concurrent.futures
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True

import blocks
import stand_ins

# ---- the tables ----

# Calls of esscher by their words, the first row that fits: how, what is added, exit codes that are as meant.
CALLS = [
    # what takes no time is run
    ("demo*", "told", "--help", "0"),
    ("paper", "run", "", "0"),
    ("paper*", "told", "--help", "0"),  # the test cli_paper runs them
    ("claims*--list*", "run", "", "0"),
    ("claims*", "reduced", "--list --force", "0"),
    ("selfcheck*--only*", "reduced", "--trials 4", "0 1"),
    ("selfcheck*", "reduced", "--only mean --trials 4 --force", "0 1"),
    ("regimes --dim 3 --n 1e3,1e6,1e12 --b 0.5", "run", "", "0"),
    ("hardmax", "run", "", "0"),
    ("rope*", "run", "--force", "0"),
    ("context-fit*", "run", "--force", "0"),
    ("exponent*", "run", "--force", "0"),
    ("limit*", "run", "", "0"),
    ("theory*", "run", "", "0"),
    ("tokenize*", "run", "", "0"),
    ("encode*", "run", "--force", "0"),
    ("compare*", "run", "", "0 1"),
    ("export*", "run", "", "0"),
    ("report*--force*", "run", "", "0"),
    ("report*", "run", "--force", "0"),
    ("merge*", "run", "--force", "0"),
    ("plan export*--out*", "run", "--force", "0"),
    ("plan*", "run", "", "0"),
    ("info*", "run", "", "0"),
    ("help*", "run", "", "0"),
    ("measure*--compare*", "run", "--force", "0 1"),
    ("measure*", "run", "--force", "0"),
    ("converge --n 100..1600[*]5 *", "run", "", "0"),
    ("converge --dim 9 * --quiet *", "run", "", "0"),
    ("converge --law gausian", "run", "", "0"),
    # a plan is made with little effort, for the commands that read it
    ("budget*--context*--out-plan*", "reduced", "--blocks 2 --query-count 1 --force", "0"),
    ("budget*--out-plan*", "reduced", "--blocks 2 --query-count 1 --context 256 --force", "0"),
    # everything else says what it would do: parameters, inputs, memory
    ("bench --model*", "reduced", "--repetitions 1 --n 64 --threads 1", "0"),
    (
        "converge*--preset paper*",
        "dry run",
        "--dry-run --n 100,200",
        "0",
    ),  # limits at its own n take seconds
    ("sparse*", "dry run", "--dry-run", "0"),
    ("converge*", "dry run", "--dry-run", "0"),
    ("ball*", "dry run", "--dry-run", "0"),
    ("hardmax*", "dry run", "--dry-run", "0"),
    ("regimes*", "dry run", "--dry-run", "0"),
    ("heat*", "dry run", "--dry-run", "0"),
    ("collapse*", "dry run", "--dry-run", "0"),
    ("sink*", "dry run", "--dry-run", "0"),
    ("probe*", "dry run", "--dry-run", "0"),
    ("tails*", "dry run", "--dry-run", "0"),
    ("depth*", "dry run", "--dry-run", "0"),
    (
        "downstream*--plan*",
        "dry run",
        "--dry-run --concat 16",
        "0",
    ),  # sentences of the stand-in are short
    ("downstream*", "dry run", "--dry-run", "0"),
    ("loss*", "dry run", "--dry-run", "0"),
    ("budget*", "dry run", "--dry-run", "0"),
    ("picture*", "dry run", "--dry-run", "0"),
    ("bench*", "dry run", "--dry-run", "0"),
]

# Where the program was built without npm, or there is no Node.js.
CALLS_WITHOUT_FIGURES = [("report*", "told, for want of figures", "--help", "0")]

# Programs that stand for others: what they look at. Their calls of esscher are real. ($ROOT: this repository.)
PROGRAMS = {
    "ssh": 'shift; exec "$@"',
    "mpirun": '[ "$1" = -n ] && shift 2; exec "$@"',
    "sbatch": 'for last; do :; done; sh -n "$ROOT/examples/slurm/$last"',
    "kubectl": 'case $1 in apply) [ -s "$ROOT/examples/kubernetes/$3" ] ;; wait) ;; *) exit 1 ;; esac',
    "cmake": (
        "case $1 in -B | --install) exit ;; --build) shift ;; esac; "
        '[ "$1" != --preset ] || grep -q "\\"name\\": \\"$2\\"" "$ROOT/CMakePresets.json"'
    ),
    "ctest": '[ "$1" = --preset ] && grep -q "\\"name\\": \\"$2\\"" "$ROOT/CMakePresets.json"',
    "do": '[ -f "$ROOT/scripts/$1.sh" ]',
    "man": "cat >/dev/null",
    "true": "exit 0",
    "pkg-config": 'echo "-I$ROOT/include -L$LIBRARY -Wl,-rpath,$LIBRARY -lesscher"',
}

# Numbers that stand-ins are too small for, and those that take their place: reduced. The folder /shared is a folder here.
SMALLER = [
    (r"--pool \d{6,}", "--pool 20000"),
    (r"--n 1e3\.\.1e5\*12", "--n 1e3..1e4*3"),
    (r"--n 64,512,4096,32768", "--n 64,512,4096"),
    (r"(theory .*) --n 1e3\.\.3e4\*4", r"\1 --n 1e3"),
    (r"--n 1e3\.\.1e4\*5", "--n 100,200"),
    (r" /shared/", " shared/"),
]

# Words that begin a command. (Programs of bench/ and build/release/tests have to be there; they are not run.)
COMMANDS = re.compile(
    r"(?:[A-Z_]+=\S+ )?(esscher|split|\./do|cmake|ctest|cc|mpirun|ssh|sbatch|kubectl|bench/|build/release/)"
)

# Commands that change the system, or need what is not here: the shell looks at their grammar.
PARSED = re.compile(
    r"(?:apt|apt-get|dpkg\S*|pip|~/\S+/bin/pip|python3 -m|podman|docker|tar|xargs) "
)

# Python: document, a word of the block, how.
PYTHON = [
    ("docs/CACHE.md", "", "run with the package"),
    ("docs/FILES.md", "", "run by files_python"),
    ("docs/MODELS.md", "from transformers import", "compiled"),  # no package of Debian
    ("docs/MODELS.md", "from safetensors.torch import", "compiled"),  # the same
    ("docs/MODELS.md", 'numpy.load("ours.npy")', "run"),
    ("docs/KERNEL.md", "out = attention(", "compiled"),  # lines of a function of docs/MODELS.md
    ("docs/KERNEL.md", "esscher.assert_attention(", "run with the package"),
    ("docs/PYTHON.md", "esscher.watch(model)", "run by python_watch"),
    ("docs/PYTHON.md", "", "run by python_docs"),
    ("README.md", "esscher.attend(", "run with the package"),
]

# What types the commands of a transcript, and those that it types in a loop or by a key.
TYPIST = "packaging/check_deb.sh"
TYPED_OTHERWISE = re.compile(r"/debs/(program|python) |esscher con<TAB>")

# Indented blocks that are no commands.
FORMULAS = ["docs/THEORY.md", "docs/THEORY-GUIDE.md"]

# The variables that the C block of docs/PYTHON.md takes for granted.
C_FRAME = """#include <stdio.h>
#include <stdlib.h>
%s
int main(void)
{
    enum { m = 3, n = 4096, d = 8, dv = 5 };
    float *Q = calloc(m * d, sizeof *Q), *K = calloc(n * d, sizeof *K), *V = calloc(n * dv, sizeof *V);
    double *Y = calloc(3 * m * dv, sizeof *Y), *H = calloc(3 * m, sizeof *H);
%s
    return !(H[0] > 5.5 && H[0] < 5.6); /* equal weights of 256 keys: ln 256 = 5.545 nats */
}
"""


# ---- how outputs are compared ----

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def near(shown, printed, error):
    """Is the printed number within the error that is stated of the shown one? Without an error: within 10 %, since numbers
    of another CPU differ in the last digits that are shown; errors of rounding, in all of them."""
    if error is not None:
        return abs(shown - printed) <= error
    return (
        abs(shown - printed) <= 0.1 * max(abs(shown), abs(printed))
        or max(abs(shown), abs(printed)) < 1e-4
    )


def same_word(shown, printed, error=None):
    parts = [NUMBER.split(word) for word in (shown, printed)]
    return parts[0] == parts[1] and all(
        near(float(a), float(b), error)
        for a, b in zip(NUMBER.findall(shown), NUMBER.findall(printed))
    )


def stated_error(words, at):
    """The error e of the word `at` in "x ± e", or None."""
    if words[at + 1 : at + 2] != ["±"] or at + 2 >= len(words):
        return None
    found = NUMBER.search(words[at + 2])
    return float(found[0]) if found else None


def differs(shown, printed):
    """What is shown and not printed, or None: words, however they are broken into lines. A line of dots stands for any
    number of them, as do beginning and end."""
    have, at = " ".join(printed).split(), 0
    pieces = re.split(r"^\s*(?:\.\.\.|…)\s*$", "\n".join(shown), flags=re.M)
    for piece in (piece.split() for piece in pieces):
        best = 0
        for start in range(at, len(have) - len(piece) + 1):
            fit = next(
                (
                    i
                    for i, word in enumerate(piece)
                    if not same_word(word, have[start + i], stated_error(piece, i))
                ),
                len(piece),
            )
            best = max(best, fit)
            if fit == len(piece):
                at = start + fit
                break
        else:
            return " ".join(piece[max(0, best - 5) : best + 5])
    return None


def width(lines):
    """Of the terminal in which lines were shown."""
    return next(
        columns
        for columns in (80, 100, 120, 200, 1000)
        if all(len(row) <= columns for row in lines)
    )


# ---- one document ----


class Document:
    """Its blocks, run in order in a folder of their own."""

    as_printed = ""  # not empty: commands run without the additions of CALLS

    def __init__(self, tools, name, found, folder):
        self.tools, self.name, self.blocks, self.folder = tools, name, found, folder
        self.ways, self.faults, self.printed, self.how, self.compared = Counter(), [], [], [], False
        folder.mkdir(parents=True)
        self.furnish()

    def furnish(self):
        stand_ins.furnish(self.tools, self.folder)

    def dress(self, command):
        stand_ins.dress(self.tools, self.folder, command)

    def fail(self, place, why):
        self.faults.append(f"{place}: {why}")

    def note(self, way):
        self.ways[way] += 1

    def run(self):
        for block, following in zip(self.blocks, self.blocks[1:] + [None]):
            way = WAYS.get(block.info)
            self.columns = width(
                block.lines + (following.lines if following and following.info == "" else [])
            )
            if way is None:
                self.fail(block, f"no rule for a block of {block.info!r}")
            else:
                way(self, block)
        return self

    # -- shell

    def shell(self, command, exact=False):
        """(exit code, stdout and stderr) of a command; `how` gets the ways in which esscher was called."""
        self.dress(command)
        log = self.folder / ".ways"
        log.write_text("")
        environment = {
            **os.environ,
            "PATH": f"{self.tools.bin}:{os.environ['PATH']}",
            "COLUMNS": str(self.columns),
            "DOCS_LOG": str(log),
            "DOCS_EXACT": "1" if exact else "",
            "DOCS_AS_PRINTED": self.as_printed,
            "ROOT": str(self.tools.root),
            "LIBRARY": str(self.tools.library),
            "OMP_WAIT_POLICY": "passive",
        }
        words = command
        for number, smaller in [] if self.as_printed else SMALLER:
            words = re.sub(number, smaller, words)
        done = subprocess.run(
            ["bash" if "<(" in words else "sh", "-c", words],
            cwd=self.folder,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
        )
        self.how = log.read_text().split("\n")[:-1]
        for how in self.how or ["checked by a stand-in"]:
            self.note(how)
        return done.returncode, done.stdout.split("\n")

    def commands(self, block):
        self.printed, ways = [], []
        for offset, command in blocks.commands(block.lines):
            place = f"{block.file}:{block.line + offset}"
            if PARSED.match(command):
                self.parse(place, command)
                continue
            if not COMMANDS.match(command):
                self.fail(place, f"neither a command nor marked as something else: {command}")
                continue
            code, printed = self.shell(command)
            if code != 0:
                self.fail(
                    place, f"ended with {code}: {command}\n    " + "\n    ".join(printed[-8:])
                )
            self.printed += printed
            ways += self.how
        self.compared = set(ways) == {"run"}

    def parse(self, place, command):
        """Is it a command of the shell? It is not run."""
        done = subprocess.run(["sh", "-n", "-c", command], capture_output=True, text=True)
        if done.returncode != 0:
            self.fail(place, f"no command of the shell: {command}\n    {done.stderr}")
        self.note("parsed by the shell")

    def output(self, block):
        """What the commands before print: compared where they were run as they stand."""
        if not self.compared or not self.tools.python and "npy" in block.text:
            self.note("output, not compared")
            return
        wrong = differs(block.lines, self.printed)
        if wrong is not None:
            self.fail(block, f"not printed: {wrong}")
        self.note("output, compared")

    def console(self, block):
        """Every command must end and print as shown, where it can be run here."""
        turns = blocks.transcript(block.lines)
        for at, (offset, command, shown) in enumerate(turns):
            place = f"{block.file}:{block.line + offset}"
            following = turns[at + 1] if at + 1 < len(turns) else (0, "", [])
            expected = int(following[2][0]) if following[1] == "echo $?" else 0
            if command == "echo $?":
                continue
            if command.startswith("cat "):
                (self.folder / command[4:]).write_text("\n".join(shown) + "\n")
                continue
            if command.startswith("python3 "):
                if not self.tools.python:
                    return self.note("skipped: no NumPy")
                command = command.replace("python3", self.tools.python, 1)
            if command.startswith("./do "):
                shown = []
            self.columns = width(shown)
            code, printed = self.shell(command, exact=True)
            ran = self.how in (["run"], [])
            if code != (expected if ran else 0):
                self.fail(
                    place, f"ended with {code}: {command}\n    " + "\n    ".join(printed[-8:])
                )
            elif ran and differs(shown, printed) is not None:
                self.fail(place, f"not printed: {differs(shown, printed)}")
            self.note("output, compared" if ran and shown else "output, not compared")

    def example(self, block):
        """Examples of help. What other programs do with what is printed is theirs."""
        for offset, command in blocks.commands(block.lines):
            code, printed = self.shell(re.sub(r" \| (source|sqlite3 \S+)$", " >/dev/null", command))
            if code != 0:
                self.fail(
                    block.file, f"ended with {code}: {command}\n    " + "\n    ".join(printed[-8:])
                )

    # -- code

    def c(self, block):
        includes = [row for row in block.lines if row.startswith("#include")]
        rest = [row for row in block.lines if not row.startswith("#include")]
        (self.folder / "program.c").write_text(
            C_FRAME % ("\n".join(includes), textwrap.indent("\n".join(rest), "    "))
        )
        code, printed = self.shell(
            f"{self.tools.cc} -std=c11 -Wall -Werror -o program program.c $(pkg-config esscher) && ./program"
        )
        if code != 0:
            self.fail(block, "\n".join(printed))
        self.ways["checked by a stand-in"] -= 1
        self.note("compiled and run")

    def python(self, block):
        for document, word, how in PYTHON:
            if fnmatch.fnmatch(self.name, document) and word in block.text:
                break
        else:
            return self.fail(block, "no rule for this Python")
        text = textwrap.dedent(block.text)
        if "return " in text and "def " not in text:
            text = "def part():\n" + textwrap.indent(text, "    ")
        try:
            ast.parse(text)
        except SyntaxError as wrong:
            return self.fail(block, wrong)
        if how.startswith("run") and "run by" not in how and not self.tools.python:
            how = "skipped: no NumPy"
        if how == "run":
            self.run_python(block, text)
        if how == "run with the package":
            self.run_with_package(block, text)
        self.note(f"Python, {how}")

    def run_python(self, block, text):
        """The block that holds our logits against another program's: its number must be what its comment promises."""
        done = subprocess.run(
            [self.tools.python, "-c", "import numpy\n" + text],
            cwd=self.folder,
            text=True,
            capture_output=True,
        )
        if done.returncode != 0 or not float(done.stdout) < 1e-10:
            self.fail(block, done.stdout + done.stderr)

    def run_with_package(self, block, text):
        """A block that is a whole program: it ends well."""
        done = subprocess.run(
            [self.tools.python, "-c", text],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.tools.root / "python"),
                "ESSCHER_LIBRARY": str(self.tools.library / "libesscher.so"),
            },
            text=True,
            capture_output=True,
        )
        if done.returncode != 0:
            self.fail(block, done.stdout + done.stderr)

    def json(self, block):
        try:
            json.loads(block.text)
        except ValueError as wrong:
            self.fail(block, wrong)
        self.note("JSON, parsed")

    def other_test(self, block):
        if self.name != "docs/FILES.md":
            return self.fail(block, f"no rule for {block.info} here")
        self.note(f"{block.info}, run by files_{block.info}")

    def transcript(self, block):
        typed = (self.tools.root / TYPIST).read_text()
        for row in block.lines:
            if row.startswith("$ ") and row[2:] not in typed and not TYPED_OTHERWISE.match(row[2:]):
                self.fail(block, f"{TYPIST} does not type this: {row}")
        self.note(f"typed by {TYPIST}")

    def plain(self, block):
        for row in block.lines:
            if row.startswith("$ ") or COMMANDS.match(row):
                self.fail(block, f"a command in a block of text: {row}")
        self.note("text")

    def indented(self, block):
        if COMMANDS.match(block.lines[0]) or PARSED.match(block.lines[0]):
            return self.commands(block)
        if self.name not in FORMULAS:
            return self.fail(
                block, f"neither commands nor marked as something else: {block.lines[0]}"
            )
        self.plain(block)


WAYS = {
    "indented": Document.indented,
    "sh": Document.commands,
    "": Document.output,
    "console": Document.console,
    "text": Document.plain,
    "transcript": Document.transcript,
    "c": Document.c,
    "python": Document.python,
    "json": Document.json,
    "r": Document.other_test,
    "sql": Document.other_test,
    "example": Document.example,
}


# ---- all of them ----


def write_programs(tools, esscher):
    """bin/: esscher, which adds what the table says, and the programs that stand for others."""
    calls = CALLS if tools.has_figures() else CALLS_WITHOUT_FIGURES + CALLS
    rows = "\n".join(
        f'{pattern.replace(" ", chr(92) + " ").replace("[*]", chr(92) + "*")}) how={shlex.quote(how)}; '
        f'added={shlex.quote(added)}; meant="{codes}" ;;'
        for pattern, how, added, codes in calls
    )
    write(
        tools.bin / "esscher",
        f"""case $* in
{rows}
*) echo "no row of CALLS fits: esscher $*" >&2; exit 99 ;;
esac
[ -z "$DOCS_AS_PRINTED" ] || {{ how=run; added=; }}
echo "$how" >>"$DOCS_LOG"
{shlex.quote(str(esscher))} "$@" $added
code=$?
[ -n "$DOCS_EXACT" ] || case " $meant " in *" $code "*) code=0 ;; esac
exit $code""",
    )
    for name, text in PROGRAMS.items():
        write(tools.bin / name, text)


def write(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def find_python():
    for name in ("python3", "/usr/bin/python3"):
        if subprocess.run([name, "-c", "import numpy"], capture_output=True).returncode == 0:
            return name
    return None


def examples(esscher):
    """The examples of help, as a document."""
    listed = subprocess.run(
        [esscher, "help", "--list"], check=True, capture_output=True, text=True
    ).stdout
    found = []
    for name in re.findall(r"^([a-z][a-z-]*)\t", listed, re.M):
        page = subprocess.run(
            [esscher, "help", name], check=True, capture_output=True, text=True
        ).stdout
        rows = re.search(r"^Examples:\n((?:  .*\n)+)", page, re.M)
        found.append(
            blocks.Block(
                f"esscher help {name}", 1, "example", [row[2:] for row in rows[1].split("\n")[:-1]]
            )
        )
    return found


def equip(root, esscher, make_npy, make_model, cc, library, work):
    """What all documents share."""
    tools = stand_ins.Tools(root, esscher, make_npy, make_model, find_python(), work)
    tools.cc, tools.library = cc, library
    write_programs(tools, esscher)
    return tools


def main(root, esscher, make_npy, make_model, cc, library):
    with tempfile.TemporaryDirectory() as work:
        tools = equip(root, esscher, make_npy, make_model, cc, library, Path(work))
        files = [root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]
        documents = [
            (
                str(path.relative_to(root)),
                blocks.read(str(path.relative_to(root)), path.read_text()),
            )
            for path in files
        ]
        documents.append(("esscher help", examples(esscher)))
        documents.sort(key=lambda each: -len(each[1]))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            made = [
                Document(tools, name, found, Path(work) / "run" / name)
                for name, found in documents
                if found
            ]
            done = list(pool.map(Document.run, made))
    sum_up(done)


def sum_up(done):
    """Prints how blocks were run, and fails if one is wrong."""
    ways = sum((each.ways for each in done), Counter())
    for way, count in sorted(ways.items(), key=lambda pair: -pair[1]):
        if count:
            print(f"{count:5}  {way}")
    faults = [fault for each in done for fault in each.faults]
    print(
        f"{sum(len(each.blocks) for each in done)} blocks of {len(done)} documents, {len(faults)} faults"
    )
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(
        *[Path(word).resolve() for word in sys.argv[1:5]], sys.argv[5], Path(sys.argv[6]).resolve()
    )
