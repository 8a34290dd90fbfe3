#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copy a folder of reference values, every fourth token and the last: thin.py FROM TO.

Arrays of all tokens would be twice as large as the checkpoints. A wrong window, rotation or norm moves every late token, so that a
quarter of them shows it as well. rows.npy says which tokens are here.
"""
import os
import shutil
import sys

import numpy as np

source, target = sys.argv[1], sys.argv[2]
os.makedirs(target, exist_ok=True)
for name in ("config.json", "model.safetensors"):
    shutil.copyfile(os.path.join(source, name), os.path.join(target, name))
ids = np.load(os.path.join(source, "ids.npy"))
rows = np.unique(np.append(np.arange(3, ids.size, 4), ids.size - 1))
np.save(os.path.join(target, "ids.npy"), ids)
np.save(os.path.join(target, "rows.npy"), rows)
for name, axis in ("hidden", 1), ("logits", 0), ("q0", 1), ("k0", 1), ("out0", 1), ("final", 0):
    path = os.path.join(source, name + ".npy")
    if os.path.exists(path):
        np.save(os.path.join(target, name + ".npy"), np.take(np.load(path), rows, axis))
for name in ("pooled.npy", "classes.npy"):  # of the whole text
    if os.path.exists(os.path.join(source, name)):
        shutil.copyfile(os.path.join(source, name), os.path.join(target, name))
