#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of corpus_plan."""
import copy
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def head(number, group, policy="stream", keys=8, correction="none", **more):
    return dict({"head": number, "group": group, "policy": policy, "keys": keys, "correction": correction,
                 "risk": 0.5}, **more)


def plan(heads, kept, causal=True, kv_heads=1, window=0, context=16, version=1):
    sees = min(context, window) if window else context
    return {"schema": f"esscher-plan/{version}",
            "model": {"model_type": "llama", "layers": 1, "heads": len(heads), "kv_heads": kv_heads, "head_dim": 4,
                      "hidden": 8, "vocab": 30, "window": window, "causal": causal},
            "context": context, "text": "t", "keys_kept": kept, "keys_all": kv_heads * sees,
            "layers": [{"layer": 0, "heads": heads}]}


def unit(number, policy="full", keys=8, k_type="q8_0", v_type="q4_0"):
    return {"kv_head": number, "policy": policy, "keys": keys, "k_type": k_type, "v_type": v_type, "risk": 0.5}


BYTES = {"f16": 8, "q8_0": 6, "q4_0": 4, "bf16+hadamard": 8, "fp8:0.5": 4}  # of a row of 4 numbers


def cache(units, mode="prompt", **more):
    """A plan of a cache of one layer, with a prompt of 8 of 16 tokens."""
    sees = 8 if mode == "prompt" else 16
    new = {"schema": "esscher-plan/3", "mode": mode,
           "model": {"model_type": "llama", "layers": 1, "heads": 2 * len(units), "kv_heads": len(units), "head_dim": 4,
                     "hidden": 8, "vocab": 30, "window": 0, "causal": True},
           "context": 16, "cache": "f16", "text": "t", "keys_kept": sum(u["keys"] for u in units),
           "keys_all": sees * len(units), "bytes_before": 16 * sees * len(units),
           "bytes_after": sum(u["keys"] * (BYTES.get(u["k_type"], 0) + BYTES.get(u["v_type"], 0)) for u in units),
           "layers": [{"layer": 0, "kv_heads": units}]}
    return dict(new, **({"prompt": 8} if mode == "prompt" else {}), **more)


GOOD = plan([head(0, 0), head(1, 0)], 8)


def edited(path, value):
    """GOOD with one value replaced; None: left out."""
    new = copy.deepcopy(GOOD)
    at = new
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return new


HEAD = ["layers", 0, "heads", 0]
SEEDS = {
    "good_stream": GOOD,
    "good_parts": plan([head(0, 0, sinks=2, window=6), head(1, 0, sinks=2, window=6)], 8),
    "good_kinds": plan([head(0, 0, "full", 16), head(1, 1, "bigbird", 9, "inverse", window=3, sinks=1),
                        head(2, 2, "random", 4, "own", with_replacement=True), head(3, 3, "observe", 5, span=3)],
                       34, kv_heads=4),
    "good_both_sides": plan([head(0, 0, "local", 5, span=5), head(1, 1, "strided", 6)], 11, causal=False, kv_heads=2),
    "good_window": plan([head(0, 0, "heavy", 3), head(1, 1, "full", 4)], 7, kv_heads=2, window=4),
    "good_version_2": dict(plan([head(0, 0, "full", 16), head(1, 1, "bigbird", 9, "inverse", window=3, sinks=1),
                                 head(2, 2, "random", 4, sinks=0, with_replacement=True),
                                 head(3, 3, "observe", 5, window=3, span=3, pool=1)], 34, kv_heads=4, version=2),
                           note="n"),
    "bad_part": plan([head(0, 0, "observe", 5, window=3, span=3), head(1, 0, "observe", 5, window=3, span=3)], 5, version=2),
    "bad_pool": plan([head(0, 0, "observe", 5, pool=65), head(1, 0, "observe", 5, pool=65)], 5),
    "bad_total": edited(["keys_kept"], 9),
    "bad_schema": edited(["schema"], "esscher-plan/9"),
    "bad_unknown": edited(HEAD + ["sink"], 4),
    "bad_missing": edited(["context"], None),
    "bad_zero": edited(HEAD + ["keys"], 0),
    "bad_negative": edited(HEAD + ["keys"], -1),
    "bad_many": edited(HEAD + ["keys"], 17),
    "bad_policy": edited(HEAD + ["policy"], "steam"),
    "bad_group": edited(HEAD + ["group"], 1),
    "bad_parts": edited(HEAD + ["window"], 8),
    "bad_context": edited(["context"], 1 << 40),
    "bad_future": plan([head(0, 0, "linformer")], 8),
    "bad_array": [],
    "good_cache_prompt": cache([unit(0), unit(1, "snapkv:sinks=1:window=2:kernel=3:pooling=max", 4),
                                unit(2, "tova:sinks=0:protect=1:scope=layer", 3, "f16", "fp8:0.5"),
                                unit(3, "expected:sinks=1:recent=1:future=64:covariance=yes:vnorm=no:eps=0.02", 5)],
                               fingerprint="0123456789abcdef", note="n"),
    "good_cache_shared": cache([unit(0, "knorm:sinks=1:alpha=0.25", 3), unit(1, "knorm:sinks=1:alpha=0.25", 3)]),
    "good_cache_decode": cache([unit(0, "h2o:sinks=1:recent=2", 4), unit(1, "stream:sinks=4", 6)], "decode"),
    "good_cache_none": cache([unit(0, keys=16, k_type="bf16+hadamard"), unit(1, keys=16)], "none"),
    "bad_cache_mode": cache([unit(0)], "ideal"),
    "bad_cache_option": cache([unit(0, "h2o:sinks=1", 4)]),
    "bad_cache_oracle": cache([unit(0, "oracle:sinks=1", 4)]),
    "bad_cache_type": cache([unit(0, k_type="q9_0")]),
    "bad_cache_kivi": cache([unit(0, "stream:sinks=1", 4, "kivi2", "kivi2")]),
    "bad_cache_keys": cache([unit(0, "stream:sinks=1", 9)]),
    "bad_cache_prompt": cache([unit(0, keys=16)], "none", prompt=8),
    "bad_cache_bytes": dict(cache([unit(0)]), bytes_after=1),
    "bad_cache_fingerprint": cache([unit(0)], fingerprint="0"),
}

folder = os.path.join(HERE, "corpus_plan")
os.makedirs(folder, exist_ok=True)
for name, content in SEEDS.items():
    with open(os.path.join(folder, name), "w", encoding="ascii") as out:
        json.dump(content, out)
with open(os.path.join(folder, "bad_nan"), "w", encoding="ascii") as out:
    out.write(json.dumps(GOOD).replace("0.5", "NaN"))
