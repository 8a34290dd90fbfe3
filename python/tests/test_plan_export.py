# SPDX-License-Identifier: Apache-2.0
"""Budgets for kvpress in the Python file that `esscher plan export` writes."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples/plan/pebble.plan.json"


def export(plan, engine, folder):
    """Returns the path of what is exported."""
    path = os.path.join(folder, f"plan_{engine}.py")
    program = os.environ["ESSCHER_PROGRAM"]
    subprocess.run([program, "plan", "export", str(plan), "--to", engine, "--out", path], check=True)
    return path


class Kvpress(unittest.TestCase):
    """Budgets need NumPy alone; test_plan_torch.py runs the press."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = export(EXAMPLE, "kvpress", self.folder.name)
        with open(EXAMPLE, encoding="utf-8") as file:
            self.plan = json.load(file)
        self.kept = np.array(
            [[u["keys"] / self.plan["prompt"] for u in l["kv_heads"]] for l in self.plan["layers"]]
        )

    def tearDown(self):
        self.folder.cleanup()

    def test_budgets_of_lukv_are_prune_ratios(self):
        out = os.path.join(self.folder.name, "curve.npy")
        subprocess.run([sys.executable, self.path, "--lukv", out], check=True)
        curve = np.load(out)
        self.assertEqual(curve.shape, (99, 4, 2))
        # LUKVPress keeps round(sum of (1 - ratio) x length) keys of a layer; ratios are f32
        for row in curve:
            np.testing.assert_allclose(1.0 - row, self.kept, rtol=0, atol=1e-7)
        counts = np.floor((1.0 - curve[0].astype(np.float32)) * self.plan["prompt"] + 0.5)
        self.assertEqual(
            counts.tolist(), [[u["keys"] for u in l["kv_heads"]] for l in self.plan["layers"]]
        )

    def test_heads_of_duo_attention_are_a_table(self):
        out = os.path.join(self.folder.name, "full_attention_heads.tsv")
        subprocess.run([sys.executable, self.path, "--duo", out], check=True)
        np.testing.assert_allclose(np.loadtxt(out, delimiter="\t"), self.kept, atol=1e-6)

    def test_other_words_are_refused(self):
        run = subprocess.run([sys.executable, self.path, "--x", "y"], capture_output=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn(b"--lukv", run.stderr)


if __name__ == "__main__":
    unittest.main()
