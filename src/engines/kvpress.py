# A press for kvpress that keeps as many keys of each key-value head as PLAN says:
#
#     from plan_press import plan_press              # this file
#     pipe(context, question=question, press=plan_press())
#
# Scores are those of kvpress's own presses, but for policies observed, h2o and tova. PLAN["prompt"] tokens
# are what the plan was made for; of a prompt of another length each head keeps the same share of its keys.
# kvpress masks keys where heads of a layer keep different numbers of them, which needs another
# implementation than "eager" (for instance "sdpa").
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
    return {"knorm": kvpress.KnormPress, "keydiff": kvpress.KeyDiffPress}[name]()


def _weights(module, hidden_states, keys, kwargs, since):
    """Returns the weight that each key gets from queries `since` and later, summed over them:
    (batch, heads, places). kvpress has all weights only from "eager", which cannot mask by head."""
    import torch
    from kvpress.utils import get_prerope_query_states

    q = get_prerope_query_states(module, hidden_states)
    cos, sin = (angles.unsqueeze(1) for angles in kwargs["position_embeddings"])
    width = cos.shape[-1]
    turned, rest = q[..., :width], q[..., width:]
    halves = torch.cat((-turned[..., width // 2 :], turned[..., : width // 2]), -1)
    q = torch.cat((turned * cos + halves * sin, rest), -1)
    batch, heads, length, d = q.shape
    k = keys.repeat_interleave(heads // keys.shape[1], dim=1).transpose(2, 3)
    places = torch.arange(length, device=keys.device)
    window = getattr(module, "sliding_window", None) or length
    scale = getattr(module, "scaling", d**-0.5)
    total = torch.zeros(batch, heads, length, device=keys.device)
    for first in range(since, length, 256):
        i = places[first : first + 256, None]
        unseen = (places > i) | (i - places >= window)
        score = (q[:, :, first : first + 256] @ k).float() * scale
        total += score.masked_fill(unseen, -float("inf")).softmax(-1).sum(2)
    return total


def _scores(name, options, given):
    """Returns the scores (batch, kv_heads, places) of a policy's keys."""
    import torch

    module, hidden_states, keys, _, _, kwargs = given
    batch, units, length = keys.shape[:3]
    if name == "stream":
        return torch.zeros(batch, units, length, device=keys.device)
    if name not in ("h2o", "observed", "tova"):
        return _scorer(name, options, length).score(*given).float()
    since = length - 1 if name == "tova" else 0
    w = _weights(module, hidden_states, keys, kwargs, since)
    if options.get("scope") == "layer":
        return w.mean(1, keepdim=True).expand(batch, units, length)
    w = w.view(batch, units, -1, length).mean(2)
    if name == "observed":  # means over the queries that see a key
        w = w / (length - torch.arange(length, device=keys.device))
    return w


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
            given = (module, hidden_states, keys, values, attentions, kwargs)
            found = {}  # scores by policy
            for g, unit in enumerate(PLAN["layers"][module.layer_idx]):
                words = unit["policy"].split(":")
                count = round(unit["keys"] * length / PLAN["prompt"])
                if words[0] == "full" or count >= length:
                    continue
                options = dict(word.split("=") for word in words[1:])
                if unit["policy"] not in found:
                    found[unit["policy"]] = _scores(words[0], options, given)
                score = found[unit["policy"]][:, g].clone()
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
