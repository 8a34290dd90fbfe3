#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF file that llama.cpp's converter would make of a tiny golden checkpoint: names, keys, order of rows, norms
with their 1. Written from what the converter does, not with the reader. NumPy alone.

    convert.py FOLDER FILE.gguf [old] [distil]

old: a tensor for each expert, as files of 2023 have them. distil: a BERT whose token types are added to its positions, as if it
were a DistilBERT."""
import json
import math
import os
import struct
import sys

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TYPES = {"F32": 0, "F16": 1, "BF16": 30, "MXFP4": 39}


# ---- checkpoints: tensors are (type of the GGUF, numbers as f32) ----

def read_checkpoint(folder):
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + o for o in t["data_offsets"])
        kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1"}[t["dtype"]]
        x = np.frombuffer(data[begin:end], kind).reshape(t["shape"])
        if t["dtype"] == "BF16":
            x = (x.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = x if t["dtype"] == "U8" else x.astype(np.float32)
    return config, tensors


# ---- GGUF ----

def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def item(kind, v):
    return text(v) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def value(key, v):
    first = v[0] if isinstance(v, list) else v
    kind = BOOL if isinstance(first, bool) else STRING if isinstance(first, str) else F32 if isinstance(first, float) else U32
    if key.endswith("token_type"):
        kind = I32
    if isinstance(v, list):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(item(kind, x) for x in v)
    return text(key) + struct.pack("<I", kind) + item(kind, v)


def write_gguf(path, values, tensors):
    """tensors: name -> numbers (F32), or (MXFP4 bytes, shape)."""
    infos, data = b"", b""
    for name, x in tensors.items():
        kind, raw, shape = ("MXFP4", *x) if isinstance(x, tuple) else ("F32", x.astype("<f4").tobytes(), x.shape)
        infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", TYPES[kind], len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(value(k, v) for k, v in values.items()) + infos
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)


def byte_letters():
    """The 256 letters that byte pairs are spelt in."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    return [chr(b) if b in keep else chr(256 + sum(c not in keep for c in range(b))) for b in range(256)]


def tokenizer(vocab):
    tokens = (byte_letters() + [f"<{i}>" for i in range(vocab)])[:vocab]
    tokens[10 if vocab > 10 else 0] = "Ċ"
    seen = {}
    tokens = [t if seen.setdefault(t, i) == i else f"<{i}>" for i, t in enumerate(tokens)]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [1] * vocab, "tokenizer.ggml.merges": [f"{tokens[0]} {tokens[1]}"],
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": False}


# ---- names ----

ENDS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
        "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm",
        "embed_in": "token_embd", "final_layer_norm": "output_norm", "embed_out": "output",
        "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
        "embeddings.position_embeddings": "position_embd", "embeddings.LayerNorm": "token_embd_norm",
        "emb_ln": "token_embd_norm", "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm",
        "final_norm": "output_norm"}
ATTENTION = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
             "self_attn.k_norm": "attn_k_norm", "self_attn.sinks": "attn_sinks", "mlp.gate": "ffn_gate_inp",
             "mlp.router": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "mlp.gate_up_proj": "ffn_up", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
LLAMA = {**ATTENTION, "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
AFTER = {**ATTENTION, "post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
LAYERS = {
    "gemma": {**AFTER, "input_layernorm": "attn_norm", "pre_feedforward_layernorm": "ffn_norm"},
    "after": AFTER,
    "llama": LLAMA,
    "gpt-oss": {**LLAMA, "post_attention_layernorm": "post_attention_norm"},
    "gpt2": {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    "gptneox": {"input_layernorm": "attn_norm", "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
                "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
    "bert": {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
             "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
             "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"},
    "nomic": {"attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "mlp.fc11": "ffn_up",
              "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down", "norm2": "layer_output_norm"},
    "modern": {"attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
               "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"},
}
LAYER_WORDS = ("model.layers.", "transformer.h.", "gpt_neox.layers.", "encoder.layer.", "encoder.layers.", "layers.", "h.")
PREFIXES = ("language_model.", "roberta.", "bert.")
HEADS = ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "head.", "decoder.", "classifier", "pooler")


def place(name):
    """(layer or None, rest) of a tensor's name."""
    for p in PREFIXES:
        name = name[len(p):] if name.startswith(p) else name
    for words in LAYER_WORDS:
        if name.startswith(words) and name[len(words)].isdigit():
            layer, rest = name[len(words):].split(".", 1)
            return int(layer), rest
    for words in ("model.", "transformer.", "gpt_neox."):
        name = name[len(words):] if name.startswith(words) else name
    return None, name


def pairs(x, heads):
    """Rows of a head, first halves of rotary pairs first, become pairs side by side."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def by_head(x, heads):
    """Query, key and value of head 0, of head 1, ... become all queries, all keys, all values."""
    return x.reshape(heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


# ---- families ----

FAMILY = {  # model_type: (architecture, names of a layer, rows of q and k are pairs)
    "llama": ("llama", "llama", True), "mistral": ("llama", "llama", True), "mixtral": ("llama", "llama", True),
    "ministral3": ("mistral3", "llama", True), "smollm3": ("smollm3", "llama", True), "granite": ("granite", "llama", True),
    "qwen2": ("qwen2", "llama", False), "qwen3": ("qwen3", "llama", False), "qwen3_moe": ("qwen3moe", "llama", False),
    "phi3": ("phi3", "llama", False), "olmo2": ("olmo2", "after", False), "olmo3": ("olmo2", "after", False),
    "exaone4": ("exaone4", "after", False), "gemma": ("gemma", "llama", False), "gemma2": ("gemma2", "gemma", False),
    "gemma3_text": ("gemma3", "gemma", False), "gpt_oss": ("gpt-oss", "gpt-oss", False), "gpt2": ("gpt2", "gpt2", False),
    "gpt_neox": ("gptneox", "gptneox", False), "starcoder2": ("starcoder2", "llama", False),
    "stablelm": ("stablelm", "llama", False), "cohere": ("command-r", "llama", False), "cohere2": ("cohere2", "llama", False),
    "bert": ("bert", "bert", False), "roberta": ("bert", "bert", False), "xlm-roberta": ("bert", "bert", False),
    "nomic_bert": ("nomic-bert", "nomic", False), "modernbert": ("modern-bert", "modern", False)}


def first(config, *keys):
    return next((config[k] for k in keys if config.get(k) is not None), None)


def rope_of(config):
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return {**rope, "type": rope.get("rope_type", rope.get("type", "default"))}


def usual_keys(config, heads, width, rope):
    """What the converter writes for all families, under names of config.json that some of them have."""
    kv, dim = config.get("num_key_value_heads"), config.get("head_dim")
    theta = first(config, "rope_theta", "rotary_emb_base", "global_rope_theta") or rope.get("rope_theta")
    keys = {"block_count": first(config, "num_hidden_layers", "n_layer"),
            "context_length": first(config, "max_position_embeddings", "n_positions"), "embedding_length": width,
            "feed_forward_length": first(config, "intermediate_size", "n_inner") or 4 * width, "attention.head_count": heads}
    if kv:
        keys["attention.head_count_kv"] = kv
    if dim:
        keys["attention.key_length"] = keys["attention.value_length"] = dim
    if theta and config["model_type"] != "gpt_neox":
        keys["rope.freq_base"] = float(theta)
    if (eps := config.get("rms_norm_eps")) is not None:
        keys["attention.layer_norm_rms_epsilon"] = eps
    if (eps := first(config, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")) is not None:
        keys["attention.layer_norm_epsilon"] = eps
    if rope["type"] == "linear" or rope["type"] == "yarn":
        keys["rope.scaling.type"], keys["rope.scaling.factor"] = rope["type"], float(rope["factor"])
    if rope["type"] == "yarn":
        keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        for ours, theirs in (("attn_factor", "attention_factor"), ("beta_fast", "beta_fast"), ("beta_slow", "beta_slow")):
            if theirs in rope:
                keys["rope.scaling.yarn_" + ours] = float(rope[theirs])
    if (experts := first(config, "num_local_experts", "num_experts")):
        keys["expert_count"], keys["expert_used_count"] = experts, config["num_experts_per_tok"]
    return keys


def own_keys(kind, config, heads, width, rope, embedding):
    """What the converter of one family adds."""
    dim = config.get("head_dim") or width // heads
    keys, extra = {}, {}
    sliding = [t == "sliding_attention" for t in config.get("layer_types", [])]
    if kind == "gemma2":
        keys = {"attn_logit_softcapping": config["attn_logit_softcapping"], "final_logit_softcapping": config["final_logit_softcapping"]}
    if kind == "granite":
        keys = {"attention.scale": config["attention_multiplier"], "embedding_scale": config["embedding_multiplier"],
                "residual_scale": config["residual_multiplier"], "logit_scale": config["logits_scaling"]}
    if kind in ("cohere", "cohere2"):
        keys = {"logit_scale": config["logit_scale"], "rope.scaling.type": "none"}
    if kind == "ministral3":
        keys = {"attention.temperature_scale": rope["llama_4_scaling_beta"], "rope.scaling.yarn_log_multiplier": rope["mscale_all_dim"]}
    if kind in ("llama", "mixtral", "ministral3", "smollm3", "granite"):
        keys.update({"rope.dimension_count": dim, "vocab_size": config["vocab_size"]})
    if kind in ("olmo3", "exaone4") and config.get("sliding_window"):
        keys = {"attention.sliding_window": config["sliding_window"], "attention.sliding_window_pattern": sliding}
    if kind in ("gemma2", "gemma3_text", "gpt_oss", "cohere2", "starcoder2") and "sliding_window" in config:
        keys["attention.sliding_window"] = config["sliding_window"]
    if kind == "gemma3_text" and "sliding_window_pattern" in config:
        keys["attention.sliding_window_pattern"] = config["sliding_window_pattern"]
    if embedding:
        keys.update({"attention.sliding_window_pattern": sliding, "pooling_type": 1})
    if kind in ("gpt_oss", "qwen3_moe"):
        keys["expert_feed_forward_length"] = first(config, "moe_intermediate_size", "intermediate_size")
    if kind in ("gpt_neox", "stablelm"):
        keys["use_parallel_residual"] = config.get("use_parallel_residual", True)
        keys["rope.dimension_count"] = int(first(config, "rotary_pct", "partial_rotary_factor") * dim)
    if kind == "phi3":
        turning, original = int(config.get("partial_rotary_factor", 1.0) * dim), config["original_max_position_embeddings"]
        keys = {"rope.scaling.original_context_length": original, "rope.dimension_count": turning,
                "attention.sliding_window": config["sliding_window"] or 0}
        if rope.get("long_factor"):
            scale = config["max_position_embeddings"] / original
            keys["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(scale) / math.log(original))
            extra = {f"rope_factors_{w}.weight": np.array(rope[w + "_factor"]) for w in ("long", "short")}
    if kind in ("llama", "exaone4") and rope["type"] == "llama3":
        extra["rope_freqs.weight"] = llama3_factors(dim, config["rope_theta"], rope)
    if kind in ("bert", "roberta", "xlm-roberta", "nomic_bert", "modernbert"):
        keys.update({"attention.causal": False, "pooling_type": 1})
    if kind in ("bert", "roberta", "xlm-roberta", "nomic_bert"):
        keys["token_type_count"] = config.get("type_vocab_size", 1)
    if kind in ("roberta", "xlm-roberta"):
        keys["context_length"] = config["max_position_embeddings"] - config.get("pad_token_id", 1) - 1
    if kind == "modernbert":
        keys.update({"attention.sliding_window": config["local_attention"], "rope.freq_base_swa": config["local_rope_theta"],
                     "attention.sliding_window_pattern": config["global_attn_every_n_layers"]})
    return keys, extra


def llama3_factors(dim, theta, rope):
    out = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * theta ** (i / dim)
        low, high = (rope["original_max_position_embeddings"] / rope[k + "_freq_factor"] for k in ("low", "high"))
        smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / \
            (rope["high_freq_factor"] - rope["low_freq_factor"])
        out.append(1.0 if wave < high else rope["factor"] if wave > low else 1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out)


# ---- tensors ----

def mxfp4(blocks, scales):
    """Bytes of two neighbours become bytes of numbers i and i + 16; the exponent comes first."""
    numbers = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = numbers[..., :16] | numbers[..., 16:] << 4
    raw = np.concatenate([scales[..., None], packed], axis=-1)
    return raw.tobytes(), (*blocks.shape[:2], blocks.shape[2] * 32)


def expert_name(rest):
    """(expert, name of the matrix) of a tensor of one expert."""
    parts = rest.split(".")
    if "experts" not in parts or not parts[parts.index("experts") + 1].isdigit():
        return None
    at = parts.index("experts") + 1
    word = {"w1": "ffn_gate", "w2": "ffn_down", "w3": "ffn_up", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
            "down_proj": "ffn_down"}[parts[at + 1]]
    return int(parts[at]), word


def gpt_oss_experts(rest, x, tensors, blk):
    """Matrices are y = x W in the checkpoint, gate and up in turn; with biases."""
    if "_scales" in rest:
        return
    if "_blocks" in rest:
        scales = tensors[rest.replace("_blocks", "_scales")]
        cuts = (("gate", slice(0, None, 2)), ("up", slice(1, None, 2))) if "gate_up" in rest else (("down", slice(None)),)
        for word, cut in cuts:
            yield f"{blk}ffn_{word}_exps.weight", mxfp4(x[:, cut], scales[:, cut])
        return
    end = "bias" if rest.endswith("_bias") else "weight"
    rows = x if end == "bias" else x.swapaxes(1, 2)
    if "gate_up" in rest:
        yield f"{blk}ffn_gate_exps.{end}", rows[:, ::2]
        yield f"{blk}ffn_up_exps.{end}", rows[:, 1::2]
    else:
        yield f"{blk}ffn_down_exps.{end}", rows


def convert(folder, path, old=False, distil=False):
    config, tensors = read_checkpoint(folder)
    kind = config["model_type"]
    arch, names, turned = FAMILY[kind]
    embedding = config.get("use_bidirectional_attention", False)
    arch = "gemma-embedding" if embedding else arch
    heads, width = first(config, "num_attention_heads", "n_head"), first(config, "hidden_size", "n_embd")
    rope = rope_of(config)
    keys = usual_keys(config, heads, width, rope)
    own, out = own_keys(kind, config, heads, width, rope, embedding)
    keys.update(own)
    if kind in ("granite", "cohere2"):
        keys.pop("attention.key_length", None), keys.pop("attention.value_length", None)
    stacks = {}
    for name, x in tensors.items():
        layer, rest = place(name)
        if (layer is None and rest.startswith(HEADS)) or name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        blk = f"blk.{layer}."
        if kind == "gpt_oss" and ".experts." in rest:
            same = {place(n)[1]: y for n, y in tensors.items() if place(n)[0] == layer}
            out.update(gpt_oss_experts(rest, x, same, blk))
            continue
        if layer is not None and (expert := expert_name(rest)):
            if old:
                out[f"{blk}{expert[1]}.{expert[0]}.weight"] = x
            else:
                stacks.setdefault(f"{blk}{expert[1]}_exps.weight", {})[expert[0]] = x
            continue
        if "layernorm.norms." in rest:  # StableLM: one for each head
            word = "attn_q_norm" if "q_layernorm" in rest else "attn_k_norm"
            stacks.setdefault(f"{blk}{word}.weight", {})[int(rest.split(".")[-2])] = x
            continue
        body, end = (rest, "weight") if rest.endswith("sinks") else rest.rsplit(".", 1)
        if layer is None:
            body = ENDS[body]
            if kind in ("roberta", "xlm-roberta") and body == "position_embd":
                x = x[config.get("pad_token_id", 1) + 1:]
            out[f"{body}.{end}"] = shift(kind, rest, x)
            continue
        if kind == "gpt2" and x.ndim == 2:
            x = x.T
        if kind == "gpt_neox" and "query_key_value" in body:
            x = by_head(x, heads)
        if turned and body.endswith(("q_proj", "k_proj")):
            x = pairs(x, heads if body.endswith("q_proj") else config.get("num_key_value_heads", heads))
        out[f"{blk}{LAYERS[names][body]}.{end}"] = fold(kind, config, body, shift(kind, rest, x))
    for name, parts in stacks.items():
        out[name] = np.stack([parts[i] for i in range(len(parts))])
    if distil:
        out["position_embd.weight"] = out["position_embd.weight"] + out.pop("token_types.weight")[0]
    vocab = first(config, "vocab_size")
    values = {"general.architecture": arch, "general.name": "tiny", **{f"{arch}.{k}": v for k, v in keys.items()}, **tokenizer(vocab)}
    write_gguf(path, values, {n: x if isinstance(x, tuple) else np.ascontiguousarray(x) for n, x in out.items()})


def shift(kind, name, x):
    """Gemma's norms multiply by 1 + weight."""
    return x + np.float32(1) if kind.startswith("gemma") and name.endswith("norm.weight") else x


def fold(kind, config, body, x):
    """The file cannot say what scores of Gemma 2 and 3 are divided by; what differs from the width of a head goes into the queries."""
    divisor = config.get("query_pre_attn_scalar")
    if divisor and divisor != config["head_dim"] and body == {"gemma2": "self_attn.q_proj", "gemma3_text": "self_attn.q_norm"}[kind]:
        return (x * np.float64(math.sqrt(config["head_dim"] / divisor))).astype(np.float32)
    return x


if __name__ == "__main__":
    convert(sys.argv[1], sys.argv[2], "old" in sys.argv[3:], "distil" in sys.argv[3:])
