#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copy mixtral with its experts in one tensor for each matrix, as transformers 5 has them in memory: fuse.py mixtral mixtral-fused.

Gate and up lie below each other, and names are those of memory. The function is the same, and so are the values.
"""
import json
import os
import re
import shutil
import struct
import sys

source, target = sys.argv[1], sys.argv[2]
shutil.copytree(source, target)
with open(os.path.join(source, "model.safetensors"), "rb") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    header = json.loads(f.read(size))
    data = f.read()
header.pop("__metadata__", None)
tensors = {name: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]]) for name, t in header.items()}
fused = {}
for name, tensor in tensors.items():
    place = re.match(r"(model\.layers\.\d+\.)block_sparse_moe\.(?:experts\.(\d+)\.w(\d)|(gate))\.weight", name)
    if not place:
        fused[name] = tensor
    elif place[4]:
        fused[place[1] + "mlp.gate.weight"] = tensor
experts = json.load(open(os.path.join(source, "config.json")))["num_local_experts"]
for layer in sorted({name.split("block_sparse_moe")[0] for name in tensors if "block_sparse_moe" in name}):
    for out, parts in ("gate_up_proj", "13"), ("down_proj", "2"):
        pieces = [tensors[f"{layer}block_sparse_moe.experts.{e}.w{p}.weight"] for e in range(experts) for p in parts]
        dtype, (rows, cols), _ = pieces[0]
        fused[layer + "mlp.experts." + out] = dtype, [experts, rows * len(parts), cols], b"".join(piece[2] for piece in pieces)
entries, at = {}, 0
for name, (dtype, shape, raw) in sorted(fused.items()):
    entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
    at += len(raw)
text = json.dumps(entries).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(target, "model.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, (_, _, raw) in sorted(fused.items())))
