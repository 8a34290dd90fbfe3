# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs: beside the C program on a large problem, and alone on a small one.

    python3 bench/python.py [--rounds 15] [--shape 16384x16384x64] [--threads N]

Needs a build (./do bench or cmake --build --preset release) and Python with NumPy. Both sides read
the same files and take turns, so that a busy machine hits both; a round's ratio is taken within the
round. On a machine with other work look at the processor's seconds, which are those of es_attend()
called directly and of esscher.attend() in this process. Printed, in Markdown: median, and in
brackets the quarters.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
import esscher  # noqa: E402
from esscher import _abi, _arrays  # noqa: E402
from esscher._library import lib  # noqa: E402

ENGINE = ROOT / "build" / "release" / "tests" / "bench_engine"


def quarters(values):
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.4g} ({low:.4g}-{high:.4g})"


def seconds_of(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def direct(q, k, v, y, threads):
    """es_attend() as C would call it, in this thread."""
    at = ctypes.byref
    views = [_arrays.matrix(a) for a in (q, k, v)]
    how = _abi.Exec(threads=threads)
    options = _abi.AttendOpts(exec=ctypes.pointer(how))
    out, error = _abi.AttendOut(output=y.ctypes.data), _abi.Error()

    def call(_keep=(q, k, v, y)):
        status = lib.es_attend(*map(at, views), at(options), at(out), at(error))
        assert status == 0, error.message

    return call


def processor_seconds(work):
    """Of all threads of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def large(shape, rounds, threads):
    """Attention from Python and from C, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ENGINE, "make", *shape.split("x"), folder], check=True)
        q, k, v = (np.load(f"{folder}/{name}.npy") for name in "QKV")
        words = [ENGINE, "run", folder, str(threads), "1", "f32", f"{folder}/Y.npy"]
        ours, theirs, ours_cpu, theirs_cpu = [], [], [], []
        by_hand = direct(q, k, v, np.empty((len(q), v.shape[1])), threads)
        esscher.attend(q, k, v, threads=threads)
        by_hand()
        for _ in range(rounds):
            done = subprocess.run(words, check=True, capture_output=True)
            theirs.append(json.loads(done.stdout)["seconds"])
            ours.append(seconds_of(lambda: esscher.attend(q, k, v, threads=threads)))
            theirs_cpu.append(processor_seconds(by_hand))
            ours_cpu.append(processor_seconds(lambda: esscher.attend(q, k, v, threads=threads)))
        y = esscher.attend(q, k, v, threads=threads)
        same = np.array_equal(y, np.load(f"{folder}/Y.npy"))
    speed = 100 * np.array(theirs) / np.array(ours)
    print(f"| {shape}, {threads} threads, {rounds} rounds | C | Python |\n|---|---|---|")
    print(f"| seconds | {quarters(theirs)} | {quarters(ours)} |")
    print(f"| fastest, seconds | {min(theirs):.3g} | {min(ours):.3g} |")
    print(f"| speed, % of C within a round | 100 | {quarters(speed)} |")
    print(f"| speed of the fastest, % of C | 100 | {100 * min(theirs) / min(ours):.4g} |")
    cpu = f"{quarters(theirs_cpu)} | {quarters(ours_cpu)}"
    print(f"| seconds of processors, in one process | {cpu} |")
    share = 100 * np.array(theirs_cpu) / np.array(ours_cpu)
    print(f"| the same as speed, % of a direct call | 100 | {quarters(share)} |")
    print(f"\nthe same bits: {'yes' if same else 'no'}\n")


def small(rounds):
    """Microseconds of one small call: all of it, and what the library takes of it."""
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    library = direct(x, x, x, np.empty((16, 8)), 1)

    def all_of_it():
        esscher.attend(x, x, x, threads=1)

    x4 = np.random.default_rng(0).normal(size=(2, 8, 16, 8)).astype(np.float32)
    times = {
        "es_attend() by itself, 16 x 16, d = 8": library,
        "esscher.attend(), the same": all_of_it,
        "with its lse": lambda: esscher.attend(x, x, x, threads=1, stats=["lse"]),
        "16 heads of that, per head": lambda: esscher.attend(x4, x4, x4, threads=1),
    }
    print("| a small call | microseconds |\n|---|---|")
    for name, work in times.items():
        work()
        divisor = 16 if "16 heads" in name else 1
        print(f"| {name} | {quarters([1e6 * seconds_of(work) / divisor for _ in range(rounds)])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shape", default="16384x16384x64")
    parser.add_argument("--threads", type=int, default=esscher.info()["threads"])
    options = parser.parse_args()
    if not ENGINE.exists():
        sys.exit("build first: cmake --build --preset release")
    large(options.shape, options.rounds, options.threads)
    small(2000)


if __name__ == "__main__":
    main()
