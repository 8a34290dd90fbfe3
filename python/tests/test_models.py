# SPDX-License-Identifier: Apache-2.0
"""Models from Python: tokens, hidden states, texts as strings, namespaces, help in keywords."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import esscher

PEBBLE = Path(__file__).resolve().parents[2] / "models" / "pebble"
TEXT = "Alice was beginning to get very tired of sitting by her sister on the bank.\n"


def program(*words, text=None):
    """What the program says, as JSON."""
    done = subprocess.run(
        [os.environ["ESSCHER_PROGRAM"], *map(str, words), "--json", "--quiet"],
        input=text, stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@unittest.skipUnless(os.environ.get("ESSCHER_PROGRAM"), "needs the program of the same build")
class Models(unittest.TestCase):
    def test_tokens_are_those_of_the_program(self):
        said = program("tokenize", "--model", PEBBLE, text=TEXT)
        ids = esscher.tokenize(PEBBLE, TEXT.rstrip("\n"))
        self.assertEqual(ids.tolist(), said["lines"][0]["ids"])
        self.assertEqual(ids.dtype, np.int64)

    def test_hidden_states_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            file, out = os.path.join(folder, "a.txt"), os.path.join(folder, "h.npy")
            Path(file).write_text(TEXT)
            program("encode", "--model", PEBBLE, "--text", file, "--out", out, "--threads", 1)
            states = esscher.encode(PEBBLE, TEXT, threads=1)
            np.testing.assert_array_equal(states, np.load(out))
            self.assertEqual(states.dtype, np.float32)

    def test_logits_follow_the_ids(self):
        ids = esscher.tokenize(PEBBLE, TEXT)
        a = esscher.encode(PEBBLE, ids=ids, logits=True, precision="f64")
        b = esscher.encode(PEBBLE, ids=ids[:5], logits=True, precision="f64")
        self.assertEqual(a.dtype, np.float64)
        np.testing.assert_allclose(a[:5], b, atol=1e-9)  # causal; sums of other lengths round anew

    def test_one_of_text_and_ids(self):
        for options in ({}, {"text": "a", "ids": [1]}):
            with self.assertRaises(esscher.ArgumentError):
                esscher.encode(PEBBLE, **options)
        with self.assertRaises(TypeError):
            esscher.tokenize(PEBBLE, b"bytes")
        with self.assertRaises(esscher.RangeError):
            esscher.encode(PEBBLE, "a " * 20000)

    def test_a_text_is_as_good_as_its_file(self):
        text = TEXT * 40
        options = {"model": str(PEBBLE), "block": 64, "blocks": 2, "threads": 1}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "a.txt"
            file.write_text(text)
            expected = esscher.loss(text=file, **options).tables["rows"]
        found = esscher.loss(text=text, **options).tables["rows"]
        np.testing.assert_array_equal(found["nll"], expected["nll"])
        with self.assertRaisesRegex(esscher.MissingFileError, "nosuch.txt"):
            esscher.loss(text="nosuch.txt", **options)


class Names(unittest.TestCase):
    def test_namespaces_have_the_studies_and_flat_names_stay(self):
        self.assertIs(esscher.models.probe, esscher.probe)
        self.assertIs(esscher.models.tokenize, esscher.tokenize)
        self.assertIs(esscher.theory.regimes, esscher.regimes)
        self.assertTrue(callable(esscher.theory))
        self.assertFalse(hasattr(esscher.models, "converge"))
        self.assertFalse(hasattr(esscher.theory, "probe"))

    def test_names_are_found_where_they_are_documented(self):
        self.assertIn("cache", esscher.__all__)
        self.assertTrue(callable(esscher.cache.load_plan))
        self.assertIn("probe", dir(esscher.models))
        self.assertEqual([name for name in dir(esscher.models) if name.startswith("_")], [])
        self.assertNotIn("ctypes", dir(esscher.models))

    def test_a_hint_that_is_a_command_stays_one(self):
        with self.assertRaises(esscher.EsscherError) as failed:
            esscher.limit()
        self.assertTrue(failed.exception.hint.startswith("esscher limit --law "))

    def test_help_is_in_keywords(self):
        for name, study in esscher.studies().items():
            self.assertEqual(re.findall(r"(?<![\w-])--[a-z][\w-]*", study.__doc__), [], name)
        self.assertIn("look='far'", esscher.probe.__doc__)


if __name__ == "__main__":
    unittest.main()
