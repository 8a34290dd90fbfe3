#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts golden checkpoints to GGUF (convert.py), runs them, and compares hidden states and logits with the golden values.

    compare.py ESSCHER GOLDEN WORK [FOLDER...]"""
import os
import subprocess
import sys

import numpy as np

from convert import convert

FOLDERS = ["decoders/" + f for f in "llama llama-linear llama-yarn llama3-rope qwen2 qwen3 gpt2 neox neox-serial".split()] + \
    ["decoders2/" + f for f in """gemma gemma2 gemma3 gemma3-embedding phi3 phi3-longrope phi4-mini smollm3 olmo2 olmo3 granite
     ministral3 gpt_oss gpt_oss-mxfp4 qwen3_moe mixtral cohere cohere2 exaone4 stablelm stablelm-heads starcoder2 roberta
     nomic_bert modernbert""".split()]

# What the converter rounds to f32: the factor that is folded into queries of Gemma, sums of positions and token types. Others are exact: 1e-10 allows for a few hundred roundings of 1e-16 in each layer; f32 for the same of 6e-8.
ROUNDED = {"decoders2/gemma2": 1e-6, "decoders2/gemma3": 1e-6}


def difference(folder, name, got):
    want = np.load(f"{folder}/{name}.npy")
    rows = np.load(f"{folder}/rows.npy") if os.path.exists(f"{folder}/rows.npy") else np.arange(want.shape[-2])
    return np.abs(got[..., rows, :] - want).max() / np.sqrt((want ** 2).mean())


def compare(esscher, golden, work, name, variant):
    folder, model = f"{golden}/{name}", f"{work}/model.gguf"
    convert(folder, model, variant == "old", variant == "distil")
    worst = []
    for precision, most in (("f64", 1e-6 if variant == "distil" else ROUNDED.get(name, 1e-10)), ("f32", 2e-5)):
        predicts = os.path.exists(f"{folder}/logits.npy") and name.split("/")[1] not in ("roberta", "modernbert", "gemma3-embedding")
        command = [esscher, "encode", "--quiet", "--force", "--model", model, "--ids", f"{folder}/ids.npy", "--precision", precision,
                   "--out", f"{work}/h.npy"] + (["--logits", f"{work}/l.npy"] if predicts else [])
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            return f"{name}: {run.stderr.strip()}"
        off = [difference(folder, "hidden", np.load(f"{work}/h.npy"))]
        if predicts:
            off.append(difference(folder, "logits", np.load(f"{work}/l.npy")))
        worst.append(max(off))
        if not max(off) <= most:
            return f"{name} in {precision}: off by {max(off):.3g} of the scale"
    print(f"{name}{' ' + variant if variant else ''}: {worst[0]:.2g} {worst[1]:.2g}")
    return None


def main():
    esscher, golden, work, *chosen = sys.argv[1:]
    cases = [(f, "") for f in chosen or FOLDERS]
    if not chosen:
        cases += [("decoders2/mixtral", "old"), ("decoders2/roberta", "distil")]
    bad = [b for f, variant in cases if (b := compare(esscher, golden, work, f, variant))]
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


main()
