#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a rounded KV cache costs, here and in llama.cpp: KL of the next token on the same weights and ids.

    bench/cache_types.py FOLDER MODEL.gguf IDS.npy [--prompt 512] [--types Q8_0,Q4_0] [--threads 1] [--json FILE]

FOLDER is a Llama in safetensors, MODEL.gguf its F32 copy (llama_gguf.py), IDS.npy whole numbers (blocks, n). Places
from --prompt on are compared, each program with its own unrounded cache: f32 here, F16 in llama.cpp. Esscher runs each type as
it is and rotated (+hadamard); llama.cpp rotates by itself since PR 21038, unless LLAMA_ATTN_ROT_DISABLE=1 is set, and both
are run. Printed: means over places with standard errors over blocks, and how far the programs are from each other.

Build first. Peer: npm install --no-save --ignore-scripts node-llama-cpp@3.22.1, as for bench/prompt.py."""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ESSCHER = os.environ.get("ESSCHER", os.path.join(HERE, "../build/release/esscher"))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("gguf")
    p.add_argument("ids")
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--types", default="Q8_0,Q4_0")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--json")
    return p.parse_args()


def esscher(o, block, kv_type, work):
    """Returns log-probabilities (n - prompt, vocabulary) of a block."""
    np.save(f"{work}/ids.npy", block)
    types = ["--kv-type", kv_type] if kv_type else []
    subprocess.run([ESSCHER, "encode", "--model", o.folder, "--ids", f"{work}/ids.npy", "--logits", f"{work}/l.npy", "--force",
                    "--quiet", "--threads", str(o.threads), *types], check=True, stdout=subprocess.DEVNULL)
    return normal(np.load(f"{work}/l.npy")[o.prompt:])


def llama(o, block, kv_type, rotate, work):
    block.astype("<i4").tofile(f"{work}/ids.i32")
    subprocess.run(["node", os.path.join(HERE, "llama_cache.mjs"), o.gguf, f"{work}/ids.i32", str(len(block)), str(o.prompt),
                    str(o.threads), kv_type, kv_type, f"{work}/l.f32"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "LLAMA_ATTN_ROT_DISABLE": "0" if rotate else "1"})
    return normal(np.fromfile(f"{work}/l.f32", "<f4").reshape(len(block) - o.prompt, -1))


def normal(logits):
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def kl(p, q):
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def measure(o, block, work):
    """Returns the divergences of one block by name."""
    full, half = esscher(o, block, None, work), llama(o, block, "F16", True, work)
    out = {"unrounded, Esscher from llama.cpp": kl(full, half)}
    for name in o.types.split(","):
        ours = {r: esscher(o, block, name.lower() + r, work) for r in ("", "+hadamard")}
        theirs = {r: llama(o, block, name, r != "", work) for r in ("", "+hadamard")}
        for r in ("", "+hadamard"):
            out[f"{name}{r}, Esscher"] = kl(full, ours[r])
            out[f"{name}{r}, llama.cpp"] = kl(half, theirs[r])
            out[f"{name}{r}, Esscher from llama.cpp"] = kl(ours[r], theirs[r])
    return out


def main():
    o = options()
    with tempfile.TemporaryDirectory() as work:
        blocks = [measure(o, block, work) for block in np.atleast_2d(np.load(o.ids))]
    for name in blocks[0]:
        x = np.array([b[name] for b in blocks])
        error = x.std(ddof=1) / len(x) ** 0.5 if len(x) > 1 else float("nan")
        print(f"{name:42} {x.mean():.3g} +- {error:.2g}")
    if o.json:
        with open(o.json, "w") as f:
            json.dump(blocks, f)


main()
