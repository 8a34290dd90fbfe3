# SPDX-License-Identifier: Apache-2.0
"""Files that `esscher plan export` writes for transformers and kvpress, with torch."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    print("skipped: there is no torch (Debian package python3-torch)")
    sys.exit(77)

from esscher import cache

GOLDEN = Path(__file__).resolve().parent.parent.parent / "tests/golden/cache/rows"


def export(plan, folder, engine="transformers"):
    """Returns the module that is exported."""
    path = os.path.join(folder, f"plan_{engine}.py")
    program = os.environ["ESSCHER_PROGRAM"]
    words = ["plan", "export", plan, "--to", engine, "--out", path]
    subprocess.run([program, *words], check=True)
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Policies that the attention function has, with options that none of their defaults have.
POLICIES = [
    "stream:sinks=2",
    "snapkv:sinks=1:window=6:kernel=3:pooling=avg",
    "snapkv:sinks=0:window=5:kernel=5:pooling=max",
    "observed:sinks=1",
    "h2o:sinks=0:recent=4",
    "tova:sinks=0:protect=1:scope=layer",
    "tova:sinks=2:protect=0:scope=kv",
    "knorm:sinks=3",
    "keydiff:sinks=0",
    "random:sinks=1:seed=11",
    "full",
    "stream:sinks=0",
]
TYPES = ["f32", "f16", "bf16", "fp8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "fp8:0.5"]
LAYERS, UNITS, HEADS, D, PROMPT, N = 6, 2, 6, 40, 24, 33


def bits(kind):
    name = kind.partition(":")[0]
    whole = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "q8_0": 8}.get(name) or int(name[1])
    blocks = {"0": 16, "1": 32}.get(name[-1], 0) if name.startswith("q") else 0
    return whole * D + blocks * -(-D // 32)


def write_plan(path):
    layers, kept, after = [], 0, 0.0
    for layer in range(LAYERS):
        heads = []
        for unit in range(UNITS):
            i = layer * UNITS + unit
            keys = PROMPT if POLICIES[i] == "full" else 9 + i % 3
            k, v = TYPES[i % len(TYPES)], TYPES[(i + 3) % len(TYPES)]
            one = {"kv_head": unit, "policy": POLICIES[i], "keys": keys, "k_type": k, "v_type": v}
            heads.append(one)
            kept += keys
            after += keys * (bits(k) + bits(v)) / 8
        layers.append({"layer": layer, "kv_heads": heads})
    model = {"model_type": "llama", "layers": LAYERS, "heads": HEADS, "kv_heads": UNITS}
    model.update({"head_dim": D, "hidden": 48, "vocab": 96, "window": 0, "causal": True})
    plan = {"schema": "esscher-plan/3", "mode": "prompt", "model": model, "context": N}
    plan.update({"prompt": PROMPT, "keys_kept": kept, "keys_all": LAYERS * UNITS * PROMPT})
    plan["bytes_before"] = LAYERS * UNITS * PROMPT * D * 4
    plan.update({"bytes_after": after, "layers": layers})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plan, file)


class Transformers(unittest.TestCase):
    """The attention function against the reference consumer, in f64. Sums are the same in another
    order: 1e-12 of outputs of size 1 is thousands of roundings."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "plan.json")
        write_plan(path)
        cls.plan = cache.load_plan(path)
        cls.exported = export(path, cls.folder.name)
        rng = np.random.default_rng(5)
        shapes = [(2, LAYERS, heads, N, D) for heads in (HEADS, UNITS, UNITS)]
        cls.q, cls.k, cls.v = (rng.standard_normal(shape) for shape in shapes)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def attend(self, module, layer, first, last, **more):
        q, k, v = (torch.from_numpy(x[:, layer]) for x in (self.q, self.k, self.v))
        return self.exported.esscher_plan_attention(
            module, q[:, :, first:last], k[:, :, :last], v[:, :, :last], None, **more
        )[0]

    def module(self, layer):
        return types.SimpleNamespace(layer_idx=layer, training=False)

    def test_outputs_and_sets_are_the_reference_consumers(self):
        for layer in range(LAYERS):
            module = self.module(layer)
            out = self.attend(module, layer, 0, N).numpy()
            for b in range(2):
                given = (self.q[b, layer], self.k[b, layer], self.v[b, layer])
                want, last = cache.attend(self.plan, layer, *given)
                kept = last[:, :PROMPT] == N - 1
                np.testing.assert_array_equal(module.esscher_kept[b].numpy(), kept, str(layer))
                np.testing.assert_allclose(out[b].transpose(1, 0, 2), want, rtol=0, atol=1e-12)

    def test_token_by_token_is_the_same(self):
        for layer in range(LAYERS):
            module = self.module(layer)
            whole = self.attend(self.module(layer), layer, 0, N)
            parts = [self.attend(module, layer, 0, PROMPT)]
            parts += [self.attend(module, layer, t, t + 1) for t in range(PROMPT, N)]
            np.testing.assert_allclose(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)

    def test_windows_sinks_and_masks(self):
        sinks = np.linspace(-1, 2, HEADS)
        for layer in (1, 4):
            more = {"sliding_window": 11, "s_aux": torch.from_numpy(sinks), "scaling": 0.1}
            out = self.attend(self.module(layer), layer, 0, N, **more)[0].numpy()
            given = (self.q[0, layer], self.k[0, layer], self.v[0, layer])
            want, _ = cache.attend(self.plan, layer, *given, scale=0.1, window=11, sinks=sinks)
            np.testing.assert_allclose(out.transpose(1, 0, 2), want, rtol=0, atol=1e-12)
        q, k, v = (torch.from_numpy(x[:, 0]) for x in (self.q, self.k, self.v))
        seen = torch.ones(N, N, dtype=torch.bool).tril()
        for mask in (seen, torch.zeros(N, N).masked_fill(~seen, torch.finfo(torch.float32).min)):
            out, _ = self.exported.esscher_plan_attention(
                self.module(0), q, k, v, mask.expand(2, 1, N, N)
            )
            np.testing.assert_array_equal(out, self.attend(self.module(0), 0, 0, N))

    def test_a_prompt_in_pieces_is_refused(self):
        module = self.module(0)
        self.attend(module, 0, 0, PROMPT - 1)
        with self.assertRaises(ValueError):
            self.attend(module, 0, PROMPT - 1, PROMPT + 1)

    def test_rows_are_golden_bit_for_bit(self):
        with open(GOLDEN / "rows.json", encoding="utf-8") as file:
            described = json.load(file)
        checked = 0
        for one in described:
            rows = torch.from_numpy(np.load(GOLDEN / one["rows"]).astype(np.float32))
            for kind, want in zip(one["types"], np.load(GOLDEN / one["held"])):
                if kind in TYPES:
                    np.testing.assert_array_equal(self.exported.hold(kind, rows), want, kind)
                    checked += 1
        self.assertGreaterEqual(checked, 24)


def stand_in(score):
    """Returns modules in place of kvpress: presses that all give the same scores, and queries that
    the attention module holds."""

    class Press:
        def __init__(self, **options):
            self.options = options

        def score(self, module, hidden_states, keys, values, attentions, kwargs):
            return score.clone()

    kvpress = types.ModuleType("kvpress")
    for name in ("SnapKV", "ExpectedAttention", "Knorm", "KeyDiff"):
        setattr(kvpress, name + "Press", type(name, (Press,), {}))
    base = types.ModuleType("kvpress.presses.base_press")
    base.BasePress = object
    utils = types.ModuleType("kvpress.utils")
    utils.get_prerope_query_states = lambda module, hidden_states: module.plain_q
    presses = types.ModuleType("kvpress.presses")
    named = {"kvpress": kvpress, "kvpress.presses": presses}
    return {**named, base.__name__: base, utils.__name__: utils}


def turn(rows, angles):
    """Returns rows (..., places, d) turned by angles (places, pairs), as complex numbers; channels
    beyond the pairs stay."""
    pairs = angles.shape[1]
    turned = (rows[..., :pairs] + 1j * rows[..., pairs : 2 * pairs]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag, rows[..., 2 * pairs :]], axis=-1)


class Press(unittest.TestCase):
    """The press of the file for kvpress. kvpress is not installed here: scores of its presses are
    given, and what is tested is which keys the press masks. Policies that the press scores by itself
    are compared with the reference consumer."""

    def test_heads_keep_what_the_plan_says(self):
        rng = np.random.default_rng(6)
        for length in (PROMPT, 2 * PROMPT):
            for width in (D, D // 2):
                self.compress(rng, length, width)

    def compress(self, rng, length, width):
        """Compares the keys of all heads, for a prompt of a length and heads of which `width`
        channels turn."""
        score = rng.standard_normal((2, UNITS, length))
        shapes = [(2, heads, length, D) for heads in (HEADS, UNITS, UNITS)]
        q, k, v = (rng.standard_normal(shape) for shape in shapes)
        angles = rng.uniform(0, 7, (length, width // 2))
        both = np.concatenate([angles, angles], axis=1)[None]
        given = {"position_embeddings": [torch.from_numpy(f(both)) for f in (np.cos, np.sin)]}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            write_plan(path)
            plan = cache.load_plan(path)
            exported = export(path, folder, "kvpress")
        plan["prompt"] = length
        for unit in (unit for layer in plan["layers"] for unit in layer["kv_heads"]):
            unit.update(keys=unit["keys"] * length // PROMPT, k_type="f32", v_type="f32")
        with unittest.mock.patch.dict(sys.modules, stand_in(torch.from_numpy(score))):
            press = exported.plan_press()
            for layer, units in enumerate(exported.PLAN["layers"]):
                module = types.SimpleNamespace(layer_idx=layer, plain_q=torch.from_numpy(q))
                press.compress(module, None, torch.from_numpy(k), torch.from_numpy(v), None, given)
                kept = torch.ones(2, UNITS, length, dtype=torch.bool)
                kept[module.masked_key_indices] = False
                for b in range(2):
                    rows = (turn(q[b], angles), k[b], v[b])
                    later = [np.pad(x, [(0, 0), (0, 1), (0, 0)]) for x in rows]  # a query after it
                    sets = cache.kept_keys(plan, layer, *later)
                    for g, unit in enumerate(units):
                        want = list(sets[g])
                        if unit["policy"].partition(":")[0] not in ("observed", "h2o", "tova"):
                            want = self.brute_force(unit, score[b, g].tolist())
                        self.assertEqual(torch.nonzero(kept[b, g])[:, 0].tolist(), want, unit)

    def brute_force(self, unit, score):
        """Returns the places that stay, one after the other."""
        name, *words = unit["policy"].split(":")
        options = dict(word.split("=") for word in words)
        length, places = len(score), set(range(len(score)))
        count = round(unit["keys"] * length / PROMPT)
        if name == "full":
            return sorted(places)
        stay = set(range(min(int(options["sinks"]), count)))
        newest = count if name == "stream" else int(options.get("window", 0))
        for j in range(length - 1, length - 1 - min(newest, count - len(stay)), -1):
            stay.add(j)
        while len(stay) < count:
            stay.add(max(places - stay, key=lambda j: score[j]))
        return sorted(stay)


if __name__ == "__main__":
    unittest.main()
