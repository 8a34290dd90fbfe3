# SPDX-License-Identifier: Apache-2.0
"""The reference consumer of plans: kept sets, rows and logits of golden cases, and of the program."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
from decoder import Decoder

from esscher import cache

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "golden")
NAMES = ("llama", "qwen3")

# What golden cases mean by options that they leave out; a plan states every option.
DEFAULTS = {
    "stream": {"sinks": 4},
    "snapkv": {"sinks": 0, "window": 32, "kernel": 5, "pooling": "avg"},
    "observed": {"sinks": 0},
    "h2o": {"sinks": 0, "recent": None},
    "tova": {"sinks": 0, "protect": None, "scope": "layer"},
    "knorm": {"sinks": 0},
    "keydiff": {"sinks": 0},
    "expected": {
        "sinks": 4,
        "recent": 0,
        "future": 512,
        "covariance": "yes",
        "vnorm": "yes",
        "eps": 0,
    },
    "random": {"sinks": 0, "seed": 0},
}


def policy_text(case, keys, mode):
    """Returns the policy of a golden case with every option."""
    if "policy" not in case:
        return "full"
    options = dict(DEFAULTS[case["policy"]], **case["options"])
    if options.get("recent", 0) is None:
        options["recent"] = keys // 2
    if options.get("protect", 0) is None:
        options["protect"] = int(mode == "prompt")
    words = {True: "yes", False: "no"}
    return ":".join(
        [case["policy"]]
        + [f"{k}={words[v] if isinstance(v, bool) else v}" for k, v in options.items()]
    )


def at(value, layer, unit):
    """Returns a value that may be one for all, one per layer, or one per unit."""
    if isinstance(value, list):
        value = value[layer]
    return value[unit] if isinstance(value, list) else value


def plan_of(golden, case, mode):
    """Returns a golden case as a plan."""
    n, prompt = golden["n"], golden["prompt"]
    layers = []
    for layer in range(golden["layers"]):
        heads = []
        for unit in range(golden["kv_heads"]):
            keys = at(case.get("keys", n), layer, unit)
            heads.append(
                {
                    "kv_head": unit,
                    "policy": policy_text(case, keys, mode),
                    "keys": keys,
                    "k_type": at(case.get("ktype", "f32"), layer, unit),
                    "v_type": at(case.get("vtype", "f32"), layer, unit),
                }
            )
        layers.append({"layer": layer, "kv_heads": heads})
    return {"mode": mode, "prompt": prompt, "layers": layers}


def run(decoder, ids, plan):
    """Returns logits of the decoder under a plan, and the last query that finds each key."""
    found = []
    rotation = cache.mean_rotation(decoder.inverse, decoder.d)

    def attention(layer, q, k, v, plain):
        y, last = cache.attend(plan, layer, q, k, v, plain, rotation)
        found.append(last)
        return y

    return decoder.logits(ids, attention), found


class Golden(unittest.TestCase):
    """Sets are equal; logits agree to 1e-9 of their root mean square, as in the tests of the
    library: gaps of golden sets are 7e-5 and more, and sums are the same in another order."""

    def cases(self, kind, file, mode):
        for name in NAMES:
            folder = os.path.join(GOLDEN, "cache", name)
            with open(os.path.join(folder, "expected.json"), encoding="utf-8") as f:
                golden = json.load(f)
            decoder = Decoder(os.path.join(GOLDEN, "decoders", name))
            ids = np.load(os.path.join(folder, "ids.npy")).astype(int)
            want = np.load(os.path.join(folder, file))
            for case, logits in zip(golden[kind], want):
                if case.get("policy") == "oracle" or "kivi" in str(case.get("ktype")):
                    continue
                with self.subTest(decoder=name, case=case.get("case", case.get("ktype"))):
                    got, last = run(decoder, ids, plan_of(golden, case, mode))
                    off = np.abs(got[golden["prompt"] :] - logits).max()
                    self.assertLess(off, 1e-9 * np.sqrt((logits**2).mean()))
                    yield golden, case, last

    def test_prompt_mode_keeps_the_golden_sets(self):
        ran = 0
        for golden, case, last in self.cases("prompt_cases", "prompt.npy", "prompt"):
            for layer, kept in enumerate(case["kept"]):
                for unit, want in enumerate(kept):
                    found = last[layer][unit][: golden["prompt"]] == golden["n"] - 1
                    self.assertEqual(np.flatnonzero(found).tolist(), want)
            ran += 1
        self.assertGreater(ran, 60)

    def test_decode_mode_evicts_the_golden_keys(self):
        ran = 0
        for golden, case, last in self.cases("stream_cases", "stream.npy", "decode"):
            for layer, evicted in enumerate(case["evicted"]):
                for unit, want in enumerate(evicted):
                    for t, key in enumerate(want[: golden["n"] - 1]):
                        if key >= 0:
                            self.assertEqual(last[layer][unit][key], t)
            ran += 1
        self.assertGreater(ran, 10)

    def test_types_give_the_golden_logits(self):
        self.assertGreater(len(list(self.cases("type_cases", "types.npy", "none"))), 30)

    def test_rows_are_golden_bit_for_bit(self):
        folder = os.path.join(GOLDEN, "cache", "rows")
        with open(os.path.join(folder, "rows.json"), encoding="utf-8") as f:
            described = json.load(f)
        checked = 0
        for one in described:
            rows = np.load(os.path.join(folder, one["rows"]))
            held = np.load(os.path.join(folder, one["held"]))
            for kind, want in zip(one["types"], held):
                if kind.startswith("kivi"):
                    continue
                with self.subTest(type=kind, held=one["held"]):
                    got = cache.hold(kind, rows)
                    if "+h" in kind:  # sums of the inverse rotation are f64 in another order
                        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13 * np.abs(want).max())
                    else:
                        np.testing.assert_array_equal(got, want)
                checked += 1
        self.assertGreaterEqual(checked, 60)


BITS = {"f16": (16, 0), "q8_0": (8, 16), "q4_0": (4, 16), "fp8": (8, 0)}


class Program(unittest.TestCase):
    """`esscher encode --plan` keeps what this consumer keeps."""

    def test_kept_sets_are_those_of_the_program(self):
        decoder = Decoder(os.path.join(GOLDEN, "decoders", "llama"))
        ids = np.load(os.path.join(GOLDEN, "cache", "llama", "ids.npy")).astype(int)
        n, prompt, d = len(ids), 40, decoder.d
        policies = [
            "snapkv:sinks=2:window=6:kernel=3:pooling=max",
            "h2o:sinks=1:recent=5",
            "expected:sinks=4:recent=1:future=64:covariance=yes:vnorm=yes:eps=0.02",
            "keydiff:sinks=4",
            "stream:sinks=4",
            "full",
        ]
        layers, kept_keys, after = [], 0, 0.0
        for layer in range(3):
            heads = []
            for unit in range(2):
                policy = policies[2 * layer + unit]
                keys = prompt if policy == "full" else 11 + 3 * layer
                types = [("f16", "q8_0"), ("q8_0", "q4_0")][unit]
                heads.append(
                    {
                        "kv_head": unit,
                        "policy": policy,
                        "keys": keys,
                        "k_type": types[0],
                        "v_type": types[1],
                        "risk": None,
                    }
                )
                kept_keys += keys
                after += keys * sum(BITS[t][0] * d + BITS[t][1] for t in types) / 8
            layers.append({"layer": layer, "kv_heads": heads})
        plan = {
            "schema": "esscher-plan/3",
            "mode": "prompt",
            "model": {
                "model_type": "llama",
                "layers": 3,
                "heads": 6,
                "kv_heads": 2,
                "head_dim": d,
                "hidden": 48,
                "vocab": 96,
                "window": 0,
                "causal": True,
            },
            "context": n,
            "prompt": prompt,
            "keys_kept": kept_keys,
            "keys_all": 6 * prompt,
            "bytes_before": 6 * prompt * d * 4,
            "bytes_after": after,
            "layers": layers,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(plan, f)
            np.save(os.path.join(folder, "ids.npy"), ids.astype(np.int64))
            subprocess.run(
                [os.environ["ESSCHER_PROGRAM"], "encode", "--quiet", "--precision", "f64"]
                + ["--model", os.path.join(GOLDEN, "decoders", "llama"), "--ids", "ids.npy"]
                + ["--plan", path, "--kept", "kept.json", "--logits", "logits.npy"],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            with open(os.path.join(folder, "kept.json"), encoding="utf-8") as f:
                program = json.load(f)
            logits = np.load(os.path.join(folder, "logits.npy"))
            mine, last = run(decoder, ids, cache.load_plan(path))
        self.assertEqual(program["evict"], "prompt")
        for layer in range(3):
            for unit in range(2):
                found = np.flatnonzero(last[layer][unit][:prompt] == n - 1)
                self.assertEqual(found.tolist(), program["kept"][layer][unit])
        self.assertLess(np.abs(mine - logits).max(), 1e-9 * np.sqrt((logits**2).mean()))


class Refused(unittest.TestCase):
    def test_other_files_and_types_are_refused(self):
        with self.assertRaises(NotImplementedError):
            cache.hold("kivi2", np.zeros((1, 8)))
        with self.assertRaises(NotImplementedError):
            cache.hold("q9_0", np.zeros((1, 8)))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"schema": "esscher-plan/2"}, f)
            with self.assertRaises(ValueError):
                cache.load_plan(path)


if __name__ == "__main__":
    unittest.main()
