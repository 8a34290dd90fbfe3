#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of corpus_safetensors, corpus_index and corpus_config."""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def entry(dtype="F32", shape=(1,), begin=0, end=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def st(header, data=b"\0" * 4, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


SAFETENSORS = {
    "good_f32": st({"a": entry()}),
    "good_empty": st({}, b""),
    "good_metadata": st({"__metadata__": {"format": "pt"}, "a": entry()}),
    "good_kinds": st({"a": entry("F16", (2,)), "b": entry("BF16", (2,), 4, 8), "c": entry("F64", (1,), 8, 16),
                      "d": entry("I64", (1,), 16, 24), "e": entry("F99", (1,), 24, 25)}, b"\1\x7c" * 12 + b"x"),
    "good_scalar": st({"a": entry(shape=()), "e": entry(shape=(3, 0), begin=4)}),
    "good_escapes": st({"\u00e9\U0001f600\n": entry()}),
    "good_extra_key": st({"a": dict(entry(), x=[1, -2.5e3, {"y": None}, True, "z"])}),
    "good_sub_byte": st({"a": entry("F4", (8,))}),
    "bad_short": b"\2\0\0",
    "bad_length": st({"a": entry()}, length=1 << 63),
    "bad_begin": st(b" {}"),
    "bad_duplicate": st(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
                        b'"\\u0061":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}'),
    "bad_overlap": st({"a": entry(), "b": entry()}),
    "bad_hole": st({"a": entry("U8", (2,), 2, 4)}),
    "bad_trailing": st({"a": entry()}, b"\0" * 5),
    "bad_range": st({"a": entry(end=8)}),
    "bad_reversed": st({"a": entry(begin=4, end=0)}),
    "bad_negative": st({"a": entry(begin=-4)}),
    "bad_float": st({"a": entry(end=4.0)}),
    "bad_overflow": st({"a": entry(shape=(1 << 32, 1 << 32))}),
    "bad_rank": st({"a": entry(shape=(1,) * 9)}),
    "bad_deep": st(b'{"a":{"x":' + b"[" * 100),
    "bad_surrogate": st(b'{"\\ud800":{}}'),
    "bad_utf8": st(b'{"\xc0\xaf":{}}'),
    "bad_metadata": st({"__metadata__": {"a": 1}}),
    "bad_pickle": b"\x80\x02}q\0.",
    "bad_gguf": b"GGUF\3\0\0\0{\0\0\0\0\0\0\0",
}
INDEX = {
    "good": json.dumps({"metadata": {"total_size": 8}, "weight_map": {"b": "s2.safetensors", "a": "s1.safetensors"}}),
    "bad_path": json.dumps({"weight_map": {"a": "../x"}}),
    "bad_twice": '{"weight_map":{"a":"s","\\u0061":"s"}}',
    "bad_empty": '{"weight_map":{}}',
    "bad_value": '{"weight_map":{"a":1}}',
}
BERT = {"architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 16,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 16, "model_type": "bert", "num_attention_heads": 2,
        "num_hidden_layers": 2, "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 30,
        "id2label": {"0": "A", "1": "B"}, "x": [None, True, -1.5e-3]}
DISTILBERT = {"activation": "gelu", "architectures": ["DistilBertModel"], "dim": 8, "hidden_dim": 16,
              "max_position_embeddings": 16, "model_type": "distilbert", "n_heads": 2, "n_layers": 2,
              "sinusoidal_pos_embds": False, "vocab_size": 30}
MISTRAL = {"model_type": "mistral", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
           "intermediate_size": 32, "vocab_size": 30, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "sliding_window": 8}
SIZES = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32,
         "vocab_size": 30, "max_position_embeddings": 64, "layer_norm_eps": 1e-5}
LAYERS = ["sliding_attention", "full_attention"] * 2
GEMMA3 = {"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 2, "query_pre_attn_scalar": 4, "head_dim": 4,
          "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "final_logit_softcapping": 30.0}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [2.0, 4.0]}
FAMILIES = {
    "gemma3": GEMMA3,
    "gemma2": {"model_type": "gemma2", "attn_logit_softcapping": 50.0, "sliding_window": 8},
    "gemma": {"model_type": "gemma", "head_dim": 4, "hidden_act": "gelu"},
    "phi3": {"model_type": "phi3", "original_max_position_embeddings": 32, "rope_scaling": LONGROPE, "sliding_window": 16},
    "smollm3": {"model_type": "smollm3", "no_rope_layers": [1, 1, 0, 1], "use_sliding_window": True, "sliding_window": 8},
    "olmo3": {"model_type": "olmo3", "layer_types": LAYERS, "sliding_window": 8,
              "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5},
                                  "sliding_attention": {"rope_theta": 5e5}}},
    "granite": {"model_type": "granite", "attention_multiplier": 0.5, "residual_multiplier": 0.2, "logits_scaling": 8.0},
    "ministral3": {"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "llama_4_scaling_beta": 0.1,
                                                                     "original_max_position_embeddings": 16, "max_position_embeddings": 64}},
    "starcoder2": {"model_type": "starcoder2", "norm_epsilon": 1e-5, "use_bias": False, "sliding_window": None},
    "stablelm": {"model_type": "stablelm", "qk_layernorm": True, "use_parallel_residual": True, "partial_rotary_factor": 0.5},
    "cohere": {"model_type": "cohere", "use_qk_norm": True, "logit_scale": 0.25},
    "cohere2": {"model_type": "cohere2", "sliding_window": 8,
                "rope_parameters": {"full_attention": None, "sliding_attention": {"rope_theta": 5e4}}},
    "roberta": {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1, "architectures": ["RobertaForSequenceClassification"]},
    "xlm_roberta": {"model_type": "xlm-roberta", "type_vocab_size": 1, "pad_token_id": 0, "hidden_act": "gelu"},
    "modernbert": {"model_type": "modernbert", "norm_eps": 1e-5, "local_attention": 8, "global_attn_every_n_layers": 2, "norm_bias": True,
                   "global_rope_theta": 1.6e5, "local_rope_theta": None, "classifier_pooling": "mean", "layer_types": LAYERS},
    "big_bird": {"model_type": "big_bird", "type_vocab_size": 2, "attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1,
                 "rescale_embeddings": True, "use_bias": False},
    "nomic_bert": {"model_type": "nomic_bert", "n_embd": 16, "n_head": 4, "n_layer": 2, "n_inner": 32, "n_positions": 64, "type_vocab_size": 2,
                   "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_scaling_factor": None},
    "exaone4": {"model_type": "exaone4", "sliding_window_pattern": "LLLG", "sliding_window": 8},
    "mixtral": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                  "norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": 8},
    "gpt_oss": {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": LAYERS, "head_dim": 4,
                "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}},
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 5e5, "finetuned": True}
CONFIG = {
    "good_mistral": json.dumps(dict(MISTRAL, layer_types=["sliding_attention"] * 2)),
    "good_layer_types": json.dumps(dict(MISTRAL, rope_parameters={"full_attention": YARN, "sliding_attention": YARN})),
    "good_two_rotations": json.dumps(dict(MISTRAL, rope_parameters={"full_attention": YARN, "sliding_attention": {"rope_theta": 1e4}})),
    "good_mixed_layers": json.dumps(dict(MISTRAL, layer_types=["full_attention", "sliding_attention"])),
    "bad_layer_types": json.dumps(dict(MISTRAL, layer_types=["chunked_attention", "sliding_attention"])),
    "bad_few_layers": json.dumps(dict(MISTRAL, layer_types=["full_attention"])),
    "bad_longrope": json.dumps(dict(SIZES, **dict(FAMILIES["phi3"], rope_scaling=dict(LONGROPE, short_factor=[1.0] * 300)))),
    "bad_experts": json.dumps(dict(SIZES, **dict(FAMILIES["mixtral"], num_experts_per_tok=5))),
    "bad_dense": json.dumps(dict(SIZES, **dict(FAMILIES["qwen3_moe"], mlp_only_layers=[-1]))),
    "bad_method": json.dumps(dict(SIZES, **dict(FAMILIES["gpt_oss"], quantization_config={"quant_method": "awq"}))),
    "bad_period": json.dumps(dict(SIZES, **dict(FAMILIES["exaone4"], sliding_window_pattern="LGLG"))),
    "good_wrapped": json.dumps({"model_type": "gemma3", "text_config": dict(SIZES, **GEMMA3), "vision_config": {"hidden_size": 8}}),
    "good_mistral3": json.dumps({"model_type": "mistral3", "text_config": MISTRAL}),
    "bad_wrapped": json.dumps({"model_type": "gemma3", "quantization_config": {"bits": 4}, "text_config": dict(SIZES, **GEMMA3)}),
    "bad_rotary_key": json.dumps(dict(MISTRAL, rope_scaling=dict(YARN, beta=1))),
    "good": json.dumps(BERT),
    "good_distilbert": json.dumps(DISTILBERT),
    "bad_distilbert": json.dumps(dict(DISTILBERT, hidden_size=8, dim=None)),
    "bad_roberta": json.dumps(dict(BERT, model_type="roberta", pad_token_id=15)),
    "bad_big_bird": json.dumps(dict(BERT, model_type="big_bird", attention_type="sparse")),
    "bad_heads": json.dumps(dict(BERT, num_attention_heads=3)),
    "bad_string": json.dumps(dict(BERT, hidden_size="8")),
    "bad_eps": json.dumps(dict(BERT, layer_norm_eps=0)),
    "bad_rope": json.dumps(dict(BERT, position_embedding_type="rope")),
    "good_python": '{"big": 1000000000000000019884624838656, "x": [NaN, -Infinity], "x": 1,' + json.dumps(BERT)[1:],
    "good_mark": "\ufeff" + json.dumps(BERT),
    "bad_nan": json.dumps(dict(BERT, hidden_size=float("nan"))),
    "bad_missing": "{}",
    "bad_array": "[]",
}
CONFIG.update({"good_" + name: json.dumps(dict(SIZES, **family)) for name, family in FAMILIES.items()})

for name, seeds in ("safetensors", SAFETENSORS), ("index", INDEX), ("config", CONFIG):
    folder = os.path.join(HERE, "corpus_" + name)
    os.makedirs(folder, exist_ok=True)
    for seed, content in seeds.items():
        with open(os.path.join(folder, seed), "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())
