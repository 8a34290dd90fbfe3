#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of a decoder's forward pass beside llama.cpp's prompt processing, on the same GGUF file and ids.

    bench/prompt.py MODEL.gguf ... [--tokens 512,2048,8192] [--rounds 5] [--threads 2] [--weights auto] [--json FILE]

Contenders take turns, round after round: Esscher, llama.cpp with flash attention, llama.cpp without. Esscher computes
the last hidden state of every token. llama.cpp computes the logits after the last token, and what follows attention in the last
layer for that token alone. A prompt is one block, of which Esscher's threads share the strips; --blocks B runs B prompts,
of which Esscher's threads take one each and llama.cpp's share each.

Repetitions during which other processes took more than --busy of a core are left out. A contender that has none that
counts tries again. On a machine that is never idle, --threads 1 --clock cpu compares processor times, which hardly depend
on other processes; with more threads processor time includes waiting. Printed: tokens per second, by median, and for each contender the median over
rounds of Esscher's speed over its own, with the smallest and the largest; then how far logits
after the shortest prompt are apart.

Build first (target bench_forward). Peer: npm install --no-save --ignore-scripts node-llama-cpp@3.22.1, in bench/ or
elsewhere (ESSCHER_BENCH_LLAMA is then the path of its dist/index.js)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FORWARD = os.environ.get("ESSCHER_BENCH_FORWARD", os.path.join(HERE, "../build/release/tests/bench_forward"))
PEERS = {"flash": "llama.cpp, flash attention", "plain": "llama.cpp"}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="+")
    p.add_argument("--tokens", default="512,2048,8192")
    p.add_argument("--blocks", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--weights", default="auto", choices=["auto", "resident", "streamed"])
    p.add_argument("--peers", default="flash,plain")
    p.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    p.add_argument("--busy", type=float, default=0.05)
    p.add_argument("--tries", type=int, default=4, help="of a contender in a round")
    p.add_argument("--json")
    return p.parse_args()


def command(o, model, tokens, name, output):
    sizes = [model, str(tokens), str(o.blocks), str(o.threads), str(o.reps)]
    if name == "esscher":
        return [FORWARD, *sizes, o.weights, *output]
    return ["node", os.path.join(HERE, "llama.mjs"), *sizes, name, *output]


def turn(o, model, tokens, name, output=()):
    """Returns the median time of the repetitions that count, or None, and what the contender says of itself."""
    done = subprocess.run(command(o, model, tokens, name, output), stdout=subprocess.PIPE, check=True, text=True)
    line = json.loads(done.stdout)
    times = line["cpu" if o.clock == "cpu" else "seconds"]
    counted = [s for s, b in zip(times, line["busy"]) if b <= o.busy or o.clock == "cpu"]
    print(f"  {name} {['%.4g' % s for s in times]} others {['%.2f' % b for b in line['busy']]}", file=sys.stderr)
    return (statistics.median(counted) if counted else None), times


def round_of(o, model, tokens, names):
    """Returns the time of each contender; one without a repetition that counts tries again, the last time as it is."""
    times = {}
    for name in names:
        for left in reversed(range(o.tries)):
            times[name], all_times = turn(o, model, tokens, name)
            if times[name] is None and not left:
                times[name] = statistics.median(all_times)
                print(f"prompt.py: {name} at {tokens} tokens was disturbed", file=sys.stderr)
            if times[name] is not None:
                break
    return times


def agreement(o, model, tokens, names):
    """Returns for each peer: whether the likeliest token is the same, and the largest difference of two logits."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = os.path.join(folder, name)
            subprocess.run(command(argparse.Namespace(**{**vars(o), "reps": 0}), model, tokens, name, [path]),
                           stdout=subprocess.DEVNULL, check=True)
            found[name] = np.fromfile(path, "<f4")
    ours = found.pop("esscher")
    return {name: {"same_top": bool(ours.argmax() == x.argmax()), "difference": float(abs(ours - x).max()),
                   "largest": float(abs(ours).max())} for name, x in found.items()}


def measure(o, model, tokens):
    names = ["esscher", *o.peers.split(",")]
    rounds = [round_of(o, model, tokens, names) for _ in range(o.rounds)]
    row = {"model": os.path.basename(model), "tokens": tokens, "blocks": o.blocks, "weights": o.weights, "threads": o.threads,
           "clock": o.clock, "rounds": rounds}
    row["speed"] = {n: o.blocks * tokens / statistics.median(r[n] for r in rounds) for n in names}
    ratios = {n: sorted(r[n] / r["esscher"] for r in rounds) for n in names[1:]}
    row["ratio"] = {n: [statistics.median(x), x[0], x[-1]] for n, x in ratios.items()}
    return row


def show(row):
    print(f"{row['model']}, {row['blocks']} x {row['tokens']} tokens: Esscher {row['speed']['esscher']:.0f} tokens/s")
    for n, (middle, least, most) in row["ratio"].items():
        print(f"  {PEERS[n]:27} {row['speed'][n]:6.0f} tokens/s; Esscher is {middle:.2f} times as fast ({least:.2f} to "
              f"{most:.2f})", flush=True)


def show_agreement(seen):
    for n, x in seen.items():
        print(f"  {PEERS[n]:27} logits differ by {x['difference']:.2g} of {x['largest']:.3g}, likeliest token "
              f"{'the same' if x['same_top'] else 'another'}", flush=True)


def main():
    o = options()
    lengths = [int(x) for x in o.tokens.split(",")]
    rows = []
    for model in o.model:
        for tokens in lengths:
            rows.append(measure(o, model, tokens))
            show(rows[-1])
        rows[-1]["logits"] = agreement(o, model, lengths[0], ["esscher", *o.peers.split(",")])
        show_agreement(rows[-1]["logits"])
        if o.json:
            with open(o.json, "w") as f:
                json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
