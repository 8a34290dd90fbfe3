# SPDX-License-Identifier: Apache-2.0
"""A run file that is opened is the result that was written: every study that keeps one, small."""

import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

import esscher

ROOT = Path(__file__).resolve().parents[2]
PEBBLE = ROOT / "models" / "pebble"
TEXT = "".join(f"The cat sat on the mat, word {i % 11} of {i % 7} unaffable.\n" for i in range(60))
LOSS = "context,loss\n1,5.72\n4,3.46\n16,2.41\n64,1.88\n256,1.6\n1024,1.474\n4096,1.405\n"

KEYS = np.sin(1 + 2.7 * np.arange(64)[:, None] + 1.3 * np.arange(3))
HEADS = np.sin(1 + 2.7 * np.arange(24)[:, None] + 1.3 * np.arange(4)) * np.ones((2, 1, 1))
OF_TEXT = dict(model=PEBBLE, text="@text")

# Files of the folder begin with @.
ASKED = [
    ("claims", dict(list=True)),
    ("claims", dict(only="hardmax-law")),
    ("claims", dict(only="hardmax-law", evidence=True)),
    ("converge", dict(dim=2, scales=[0.5, 1], n=[50, 100], replicates=4, predict=True, seed=7)),
    ("converge", dict(law="sphere", dim=3, n=[50, 100], replicates=4)),
    ("ball", dict(n=[50, 100, 200], replicates=4, dim=2)),
    ("hardmax", dict(n=[100, 1000], replicates=20)),
    ("regimes", dict(dim=3, n=[100, 1000], b=[0.1, 1], replicates=20)),
    ("heat", dict(n=200, beta=[10, 20], replicates=2, particles=30, steps=3)),
    ("collapse", dict(n=[100], replicates=2)),
    ("collapse", dict(phase=True, curves=True, n=[100], replicates=2)),
    ("sink", dict(n=[100, 1000], spread=[1, 2], replicates=20)),
    ("exponent", dict(keys=KEYS, beta=5, n=[100, 1000])),
    ("context_fit", dict(file="@loss.csv", at=[1e5])),
    ("rope", dict(base=[1e4, 5e5], scale=[1, 2], distance=[1, 10, 100])),
    ("limit", dict(law="gaussian", cov=np.eye(3), x=KEYS, moments=True)),
    ("theory", dict(cov=np.eye(3), A=np.eye(3), n=[100])),
    ("probe", OF_TEXT),
    ("probe", dict(**OF_TEXT, look="content", n=[20, 50], replicates=4, query_count=4)),
    ("tails", OF_TEXT),
    ("picture", dict(n=[20, 50], dim=3, query_count=20, perplexity=9, steps=20)),
    ("depth", dict(synthetic=True, n=[20, 40], replicates=4, depth=2, reference=64)),
    ("loss", dict(**OF_TEXT, block=32, blocks=4)),
    ("loss", dict(**OF_TEXT, block=32, blocks=4, window=[2, 4, 8, 16], sinks=[0, 2])),
    ("budget", dict(**OF_TEXT, context=32, ratio=0.25, verify="@text", rivals=True)),
    ("measure", dict(q=HEADS, k=HEADS, v=HEADS, prefixes=[8, 24], top_k=[1, 4], causal=True)),
    ("measure", dict(q=KEYS, k=KEYS, v=KEYS, error_bar=4)),
    ("measure", dict(q=KEYS, k=KEYS, v=KEYS, compare=KEYS)),  # which is refuted
    ("sparse", dict(q=KEYS, k=KEYS, v=KEYS, keys=[4, 8], simulations=4, per_query=True)),
    ("sparse", dict(**OF_TEXT, contexts=1, repeat=True, query_count=3, policy=["top"])),
    ("compare", dict(runs=["@0.run", "@1.run"])),
    ("selfcheck", dict(only="mean.4", trials=4)),
]


class Opened(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at("text").write_text(TEXT)
        cls.at("loss.csv").write_text(LOSS)
        for seed in (0, 1):
            esscher.sink(n=[100, 1000], replicates=20, seed=seed, out=cls.at(f"{seed}.run"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def at(cls, name):
        return Path(cls.folder.name) / name

    def given(self, value):
        if isinstance(value, list):
            return [self.given(one) for one in value]
        return self.at(value[1:]) if isinstance(value, str) and value[0] == "@" else value

    def both(self, study, asked):
        path = self.at("x.run")
        asked = {key: self.given(value) for key, value in asked.items()}
        fresh = getattr(esscher, study)(**asked, out=path, force=True)
        return fresh, esscher.open(path)

    def test_it_is_the_result_that_was_written(self):
        for study, asked in ASKED:
            if "out" not in [name for name, *_ in getattr(esscher, study).common]:
                continue
            with self.subTest(study, **{k: str(v)[:40] for k, v in asked.items()}):
                self.check(*self.both(study, asked))

    def test_an_older_run_is_opened_as_ever(self):
        """It says neither which views wait nor what its values were before they were texts."""
        r = esscher.open(ROOT / "tests" / "old_runs" / "converge.run")
        self.assertEqual(r.main, "rows")
        self.assertEqual(r.json()["dim"], 3)
        self.assertEqual(r.json()["provenance"], {"inputs": []})
        self.assertEqual(len(r.json()["rows"]), len(r.tables["rows"]))
        self.assertNotIn("more table", str(r))
        self.assertTrue(r.csv().startswith("scale,n,"))

    def check(self, fresh, opened):
        self.assertEqual(list(opened.tables), list(fresh.tables))
        self.assertEqual(opened.main, fresh.main)
        self.assertEqual(opened.findings, fresh.findings)
        self.assertEqual(opened.values, fresh.values)
        self.assertEqual(opened.refuted, fresh.refuted)
        for name, table in fresh.tables.items():
            self.assertEqual(opened.tables[name].dtype, table.dtype)
            for key in table.dtype.names:
                np.testing.assert_array_equal(opened.tables[name][key], table[key])
            self.assertEqual(opened.columns(name), fresh.columns(name))
            self.assertEqual(opened.csv(name), fresh.csv(name))
        self.assertEqual(str(opened), str(fresh))
        self.assertEqual(opened.text(full=True), fresh.text(full=True))
        self.assertEqual(opened.markdown(full=True), fresh.markdown(full=True))
        self.assertEqual(opened.latex(), fresh.latex())
        self.assertEqual(opened.csv(), fresh.csv())
        self.assertEqual(opened.json(), fresh.json())


if __name__ == "__main__":
    unittest.main()
