# A press for kvpress that keeps as many keys of each key-value head as PLAN says:
#
#     from plan_press import plan_press              # this file
#     pipe(context, question=question, press=plan_press())
#
# Scores are those of kvpress's own presses. PLAN["prompt"] tokens are what the plan was made for; of a
# prompt of another length each head keeps the same share of its keys. kvpress masks keys where heads
# of a layer keep different numbers of them, which needs another implementation than "eager".
#
# Budgets for two other presses, which have one policy for all heads:
#
#     python3 plan_press.py --lukv curve.npy        array [99, layers, kv_heads] of prune ratios, every
#                                                   row the plan: LUKVPress(budget_curve_url="file:...")
#     python3 plan_press.py --duo full_attention_heads.tsv    1 for heads that keep everything, else the
#                                                   share they keep: DuoAttention
import sys


def shares():
    """Returns the share of keys that each head keeps, [layers][kv_heads]."""
    return [[unit["keys"] / PLAN["prompt"] for unit in layer] for layer in PLAN["layers"]]


def write_lukv(path):
    """Writes prune ratios as LUKVPress reads them. Every row is the plan, so that it does not matter
    which compression ratio above 0 is asked for."""
    import numpy as np

    ratios = 1.0 - np.array(shares(), dtype=np.float32)
    with open(path, "wb") as file:
        np.save(file, np.broadcast_to(ratios, (99, *ratios.shape)).copy())


def write_duo(path):
    """Writes scores of heads as DuoAttention reads them: tabs between heads, a line for each layer."""
    with open(path, "w", encoding="ascii") as file:
        for layer in shares():
            file.write("\t".join(f"{share:.6f}" for share in layer) + "\n")


def _scorer(name, options, length):
    """Returns the press of kvpress that scores keys like a policy."""
    import kvpress

    if name == "snapkv":
        window, kernel = int(options["window"]), int(options["kernel"])
        return kvpress.SnapKVPress(window_size=min(window, length - 1), kernel_size=kernel)
    if name == "expected":
        return kvpress.ExpectedAttentionPress(
            n_future_positions=int(options["future"]),
            n_sink=int(options["sinks"]),
            use_covariance=options["covariance"] == "yes",
            use_vnorm=options["vnorm"] == "yes",
            epsilon=float(options["eps"]),
        )
    if name in ("observed", "h2o"):
        return kvpress.ObservedAttentionPress()
    return {
        "tova": kvpress.TOVAPress,
        "knorm": kvpress.KnormPress,
        "keydiff": kvpress.KeyDiffPress,
    }[name]()


_LAST = {"snapkv": "window", "h2o": "recent", "expected": "recent", "tova": "protect"}


def plan_press():
    """Returns the press."""
    import math

    import torch
    from kvpress.presses.base_press import BasePress

    class PlanPress(BasePress):
        """Keeps of each key-value head what PLAN says."""

        compression_ratio = 1.0 - sum(map(sum, shares())) / sum(map(len, shares()))

        def compress(self, module, hidden_states, keys, values, attentions, kwargs):
            length = keys.shape[2]
            dropped = torch.zeros(keys.shape[:3], dtype=torch.bool, device=keys.device)
            for g, unit in enumerate(PLAN["layers"][module.layer_idx]):
                words = unit["policy"].split(":")
                count = round(unit["keys"] * length / PLAN["prompt"])
                if words[0] == "full" or count >= length:
                    continue
                options = dict(word.split("=") for word in words[1:])
                score = torch.zeros(keys.shape[0], length, device=keys.device)
                if words[0] != "stream":
                    press = _scorer(words[0], options, length)
                    given = (module, hidden_states, keys, values, attentions, kwargs)
                    score = press.score(*given)[:, g].float()
                if words[0] == "h2o":  # sums, where the press has means over the queries that see a key
                    score = score * (length - torch.arange(length, device=score.device))
                first = min(int(options["sinks"]), count)
                last = count if words[0] == "stream" else int(options.get(_LAST.get(words[0]), 0))
                score[:, :first] = math.inf
                score[:, length - min(last, count - first) :] = math.inf
                order = torch.argsort(score, dim=-1, descending=True, stable=True)
                dropped[:, g].scatter_(1, order[:, count:], True)
            module.masked_key_indices = torch.nonzero(dropped, as_tuple=True)
            return keys, values

    return PlanPress()


if __name__ == "__main__":
    writers = {"--lukv": write_lukv, "--duo": write_duo}
    if len(sys.argv) != 3 or sys.argv[1] not in writers:
        sys.exit(f"use: {sys.argv[0]} --lukv FILE.npy, or --duo FILE.tsv")
    writers[sys.argv[1]](sys.argv[2])
