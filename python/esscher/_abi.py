# SPDX-License-Identifier: Apache-2.0
# Made from include/esscher by cmake/abi.awk: cmake --build build/release --target python_abi
"""The constants, structs and functions of the shared library, as ctypes describes them."""

from __future__ import annotations

import ctypes as c
from typing import Any, Dict, List, Tuple, Type

Pointer = c.c_void_p
Text = c.c_char_p

ES_OK = 0
ES_E_ARGUMENT = 1
ES_E_SHAPE = 2
ES_E_RANGE = 3
ES_E_NONFINITE = 4
ES_E_OVERFLOW = 5
ES_E_MEMORY = 6
ES_E_LIMIT = 7
ES_E_IO = 8
ES_E_FORMAT = 9
ES_E_UNSUPPORTED = 10
ES_E_NUMERIC = 11
ES_E_INTERRUPTED = 12
ES_E_EXISTS = 13
ES_E_EMPTY = 14
ES_ISA_AUTO = 0
ES_ISA_PORTABLE = 1
ES_ISA_AVX2 = 2
ES_ISA_AVX512 = 3
ES_ISA_NEON = 4
ES_LOG_ERROR = 0
ES_LOG_WARN = 1
ES_LOG_INFO = 2
ES_LOG_DEBUG = 3
ES_MOMENTS_STRIP = 8
ES_F32 = 1
ES_F64 = 2
ES_ATTEND_BLOCK = 1024
ES_EXPERIMENT_BENCH = 6
ES_EXPERIMENT_BENCH_INPUTS = 7
ES_EXPERIMENT_FREE = 32768
ES_POLICY_SCORES = 1
ES_POLICY_REACH = 2
ES_POLICY_HISTORY = 4
ES_POLICY_OBSERVED = 8
ES_POLICY_CHANCE = 16
ES_POLICY_FUTURE = 32
ES_POLICY_MEASURED = 64
ES_PART_WINDOW = 1
ES_PART_SINKS = 2
ES_PART_RANDOM = 4
ES_PART_SPAN = 8
ES_PART_CORRECTION = 16
ES_PART_REPLACEMENT = 32
ES_PART_POOL = 64
ES_CORRECTION_OWN = 0
ES_CORRECTION_NONE = 1
ES_CORRECTION_INVERSE = 2
ES_POLICY_UNSET = -1
ES_POLICY_SPAN = 32
ES_POLICY_MOST_DRAWS = 1000000
ES_POLICY_MOST_POOL = 64
ES_CHANCE_NONE = 0
ES_CHANCE_WITH = 1
ES_CHANCE_WITHOUT = 2
ES_CHANCE_EACH = 3
ES_TOKENIZER_SPECIALS = 8
ES_TEXT_REPLACE = 0
ES_TEXT_ERROR = 1
ES_TEXT_REPLACE_ALL = 2
ES_MODEL_LABELS = 16
ES_MODEL_LAYERS = 1024
ES_MODEL_KINDS = 8
ES_ROTARY_FACTORS = 128
ES_WEIGHTS_AUTO = 0
ES_WEIGHTS_RESIDENT = 1
ES_WEIGHTS_STREAMED = 2
ES_FORMAT_TEXT = 0
ES_FORMAT_COUNT = 1
ES_FORMAT_REAL = 2
ES_FORMAT_SHORT = 3
ES_FORMAT_BYTES = 4
ES_FORMAT_DURATION = 5
ES_FORMAT_FLAG = 6
ES_FORMAT_SIZE = 64
ES_STANDING_NONE = 0
ES_STANDING_PROVED = 1
ES_STANDING_HEURISTIC = 2
ES_STANDING_NUMERICAL = 3
ES_STANDING_CITED = 4
ES_TYPE_NONE = 0
ES_TYPE_REAL = 1
ES_TYPE_COUNT = 2
ES_TYPE_INT = 3
ES_TYPE_FLAG = 4
ES_TYPE_TEXT = 5
ES_TYPE_MEASURED = 6
ES_TYPE_NUMBERS = 7
ES_TYPE_REALS = 8
ES_TYPE_MEASUREDS = 9
ES_TYPE_TEXTS = 10
ES_ANSWER_TEXT = 0
ES_ANSWER_MARKDOWN = 1
ES_ANSWER_CSV = 2
ES_ANSWER_JSON = 3
ES_ANSWER_LATEX = 4
ES_PARAM_FLAG = 1
ES_PARAM_TEXT = 2
ES_PARAM_WHOLE = 3
ES_PARAM_NUMBER = 4
ES_PARAM_SEED = 5
ES_PARAM_BYTES = 6
ES_PARAM_CHOICE = 7
ES_PARAM_REALS = 8
ES_PARAM_COUNTS = 9
ES_PARAM_TEXTS = 10
ES_PARAM_FILE = 11
ES_PARAM_FILES = 12
ES_PARAM_NAMED = 13
ES_PARAM_MODEL = 14
ES_PARAM_OUTPUT = 15
ES_MOST_TEXTS = 256
ES_TAKES_SEED = 1
ES_TAKES_THREADS = 2
ES_TAKES_ISA = 4
ES_TAKES_PRECISION = 8
ES_TAKES_HEADS = 16
ES_GROUP_MORE = 0
ES_GROUP_MODEL = 1
ES_GROUP_ARRAYS = 2
ES_GROUP_LAB = 3
ES_GROUP_RESULTS = 4
ES_ARRAY_RANK = 4
ES_NPY_RAW_REFUSED = 0
ES_NPY_RAW_BF16 = 1
ES_NPY_RAW_WHOLE = 2
ES_PLAN_CONTEXT = 4194304
ES_PLAN_UNITS = 65536
ES_PLAN_TEXT = 256
ES_PLAN_NOTE = 512
ES_PLAN_POLICY = 256
ES_PLAN_TYPE = 96
ES_PLAN_IDEAL = 0
ES_PLAN_PROMPT = 1
ES_PLAN_DECODE = 2
ES_PLAN_NONE = 3
ES_REPORT_RUNS = 256
ES_RUN_SCHEMA = 2
ES_RUN_BATCH_SECONDS = 1
ES_RUN_REAL = 1
ES_RUN_TEXT = 2


class Error(c.Structure):
    _fields_ = [
        ("code", c.c_int), ("offset", c.c_int64), ("row", c.c_int64), ("col", c.c_int64),
        ("file", c.c_char * 256), ("rule", c.c_char * 48), ("message", c.c_char * 320),
        ("hint", c.c_char * 256),
    ]  # fmt: skip


class Curve(c.Structure):
    _fields_ = [
        ("count", c.c_int64), ("keys", Pointer), ("risk", Pointer), ("weight", c.c_double),
    ]  # fmt: skip


class MemLimit(c.Structure):
    _fields_ = [
        ("limit", c.c_size_t), ("used", c.c_size_t), ("peak", c.c_size_t),
    ]  # fmt: skip


class Exec(c.Structure):
    _fields_ = [
        ("threads", c.c_int), ("isa", c.c_int), ("budget", c.POINTER(MemLimit)),
        ("progress", Pointer), ("progress_user", Pointer), ("executor", Pointer),
    ]  # fmt: skip


class Mask(c.Structure):
    _fields_ = [
        ("positions", Pointer), ("causal", c.c_bool), ("window", c.c_int64), ("sinks", c.c_int64),
        ("local", c.c_int64), ("list_queries", c.c_int64), ("list_offsets", Pointer),
        ("list_keys", Pointer), ("list_factors", Pointer), ("n_classes", c.c_int64),
        ("classes", Pointer), ("class_factors", Pointer),
    ]  # fmt: skip


class Moments(c.Structure):
    _fields_ = [
        ("count", c.c_int64), ("dim", c.c_int64), ("mean", Pointer), ("scatter", Pointer),
        ("scratch", Pointer), ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class View(c.Structure):
    _fields_ = [
        ("data", Pointer), ("dtype", c.c_int), ("rows", c.c_int64), ("cols", c.c_int64),
        ("row_stride", c.c_int64), ("col_stride", c.c_int64),
    ]  # fmt: skip


class Num(c.Structure):
    _fields_ = [
        ("val", c.c_double), ("err", c.c_double),
    ]  # fmt: skip


class AttendOpts(c.Structure):
    _fields_ = [
        ("precision", c.c_int), ("scales", Pointer), ("n_scales", c.c_int64),
        ("score_cap", c.c_double), ("sink", Pointer), ("prefixes", Pointer),
        ("n_prefixes", c.c_int64), ("self", c.c_bool), ("exclude_self", c.c_bool),
        ("mask", c.POINTER(Mask)), ("top_k", Pointer), ("n_top_k", c.c_int64), ("spread", c.c_bool),
        ("block", c.c_int64), ("exec", c.POINTER(Exec)),
    ]  # fmt: skip


class AttendOut(c.Structure):
    _fields_ = [
        ("output", Pointer), ("lse", Pointer), ("entropy", Pointer), ("top_weight", Pointer),
        ("top_index", Pointer), ("sum_squares", Pointer), ("top_mass", Pointer),
        ("spread2", Pointer), ("block_spread2", Pointer), ("block_powers", Pointer),
        ("moments", c.POINTER(Moments)),
    ]  # fmt: skip


class AttendPlan(c.Structure):
    _fields_ = [
        ("isa", c.c_int), ("threads", c.c_int), ("block", c.c_int64), ("blocks", c.c_int64),
        ("tile", c.c_int64), ("cuts", c.c_int64), ("segments", c.c_int64), ("chunks", c.c_int64),
        ("few", c.c_bool), ("flops", c.c_double), ("bytes", c.c_size_t),
    ]  # fmt: skip


class Address(c.Structure):
    _fields_ = [
        ("seed", c.c_uint64), ("experiment", c.c_uint16), ("cell", c.c_uint64),
        ("token", c.c_uint64), ("lane", c.c_uint32),
    ]  # fmt: skip


class PolicySpec(c.Structure):
    _fields_ = [
        ("policy", Pointer), ("keys", c.c_int64), ("window", c.c_int64), ("sinks", c.c_int64),
        ("random", c.c_int64), ("span", c.c_int64), ("pool", c.c_int64), ("correction", c.c_int),
        ("with_replacement", c.c_bool),
    ]  # fmt: skip


class PolicyQuery(c.Structure):
    _fields_ = [
        ("n", c.c_int64), ("position", c.c_int64), ("causal", c.c_bool), ("scores", Pointer),
        ("reach", Pointer), ("history", Pointer), ("observed", Pointer),
    ]  # fmt: skip


class Choice(c.Structure):
    _fields_ = [
        ("budget", c.POINTER(MemLimit)), ("n", c.c_int64), ("sure_count", c.c_int64),
        ("rest_count", c.c_int64), ("sure", Pointer), ("rest", Pointer), ("chance", c.c_int),
        ("draws", c.c_int64), ("factor", c.c_double), ("kept", Pointer), ("factors", Pointer),
        ("capacity", c.c_int64),
    ]  # fmt: skip


class Kept(c.Structure):
    _fields_ = [
        ("budget", c.POINTER(MemLimit)), ("count", c.c_int64), ("capacity", c.c_int64),
        ("keys", Pointer), ("log_factor", Pointer),
    ]  # fmt: skip


class TokenizerInfo(c.Structure):
    _fields_ = [
        ("size", c.c_int64), ("own_size", c.c_int64), ("unknown", c.c_int32),
        ("prefix_count", c.c_int), ("suffix_count", c.c_int), ("prefix", c.c_int32 * 8),
        ("suffix", c.c_int32 * 8), ("begin", c.c_int32), ("max_chars", c.c_int64),
        ("clean_text", c.c_bool), ("split_chinese", c.c_bool), ("strip_accents", c.c_bool),
        ("lowercase", c.c_bool), ("model", Text),
    ]  # fmt: skip


class Token(c.Structure):
    _fields_ = [
        ("id", c.c_int32), ("begin", c.c_int64), ("end", c.c_int64),
    ]  # fmt: skip


class EncodeOpts(c.Structure):
    _fields_ = [
        ("no_specials", c.c_bool), ("invalid", c.c_int), ("vocab", c.c_int64),
        ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class TokenList(c.Structure):
    _fields_ = [
        ("tokens", c.POINTER(Token)), ("count", c.c_int64), ("capacity", c.c_int64),
        ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class Rotary(c.Structure):
    _fields_ = [
        ("width", c.c_int64), ("share", c.c_double), ("theta", c.c_double), ("type", c.c_char * 64),
        ("factor", c.c_double), ("original", c.c_double), ("low", c.c_double), ("high", c.c_double),
        ("fast", c.c_double), ("slow", c.c_double), ("attention", c.c_double),
        ("mscale", c.c_double), ("mscale_all", c.c_double), ("rounded", c.c_bool),
        ("pairs", c.c_bool), ("query_beta", c.c_double), ("short_count", c.c_int64),
        ("long_count", c.c_int64), ("short_factor", c.c_double * 128),
        ("long_factor", c.c_double * 128),
    ]  # fmt: skip


class LayerKind(c.Structure):
    _fields_ = [
        ("window", c.c_int64), ("rotary", c.c_int), ("experts", c.c_bool),
    ]  # fmt: skip


class ModelConfig(c.Structure):
    _fields_ = [
        ("hidden", c.c_int64), ("layers", c.c_int64), ("heads", c.c_int64), ("kv_heads", c.c_int64),
        ("head_dim", c.c_int64), ("query_width", c.c_int64), ("kv_width", c.c_int64),
        ("qkv_width", c.c_int64), ("intermediate", c.c_int64), ("vocab", c.c_int64),
        ("positions", c.c_int64), ("position_rows", c.c_int64), ("first_position", c.c_int64),
        ("types", c.c_int64), ("labels", c.c_int64), ("up_width", c.c_int64),
        ("experts", c.c_int64), ("experts_used", c.c_int64), ("expert_width", c.c_int64),
        ("expert_up", c.c_int64), ("kinds", c.c_int64), ("kind", LayerKind * 8),
        ("layer_kind", c.c_uint8 * 1024), ("label", (c.c_char * 64) * 16), ("pooler", c.c_bool),
        ("causal", c.c_bool), ("tied", c.c_bool), ("predicts", c.c_bool), ("weights", c.c_int),
        ("parallel", c.c_bool), ("head_norms", c.c_bool), ("norm_from_one", c.c_bool),
        ("attention_bias", c.c_bool), ("mlp_bias", c.c_bool), ("norm_bias", c.c_bool),
        ("pooler_bias", c.c_bool), ("mean_pooled", c.c_bool), ("shares_sum", c.c_bool),
        ("experts_fused", c.c_bool), ("experts_packed", c.c_bool), ("sinks", c.c_bool),
        ("layer_norm_eps", c.c_double), ("score_divisor", c.c_double), ("score_cap", c.c_double),
        ("embed_factor", c.c_double), ("branch_factor", c.c_double), ("logit_factor", c.c_double),
        ("logit_cap", c.c_double), ("rotary", Rotary), ("rotary_local", Rotary),
        ("activation", c.c_char * 64), ("architecture", c.c_char * 64),
        ("model_type", c.c_char * 64),
    ]  # fmt: skip


class ModelOpts(c.Structure):
    _fields_ = [
        ("precision", c.c_int), ("allow_nonfinite", c.c_bool), ("allow_trailing", c.c_bool),
        ("weights", c.c_int), ("threads", c.c_int), ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class ModelHead(c.Structure):
    _fields_ = [
        ("wq", View), ("wk", View), ("wv", View), ("bq", View), ("bk", View), ("bv", View),
        ("wo", View),
    ]  # fmt: skip


class ModelSparse(c.Structure):
    _fields_ = [
        ("heads", c.POINTER(PolicySpec)), ("at", Address),
    ]  # fmt: skip


class ModelSeen(c.Structure):
    _fields_ = [
        ("block", c.c_int64), ("layer", c.c_int64), ("head", c.c_int64), ("window", c.c_int64),
        ("scale", c.c_double), ("cap", c.c_double), ("sink", Pointer), ("q", View), ("k", View),
        ("v", View), ("wo", View), ("bo", View), ("plain_q", View), ("plain_k", View),
        ("output", Pointer), ("lse", Pointer), ("entropy", Pointer), ("top_weight", Pointer),
        ("sum_squares", Pointer),
    ]  # fmt: skip


class ModelVisit(c.Structure):
    _fields_ = [
        ("head", Pointer), ("context", Pointer), ("statistics", c.c_bool), ("plain", c.c_bool),
        ("state", Pointer), ("logits", Pointer),
    ]  # fmt: skip


class ModelBlock(c.Structure):
    _fields_ = [
        ("ids", Pointer), ("n", c.c_int64), ("states", c.c_int64), ("hidden", Pointer),
        ("last", Pointer), ("entropy", Pointer), ("top_weight", Pointer), ("sum_squares", Pointer),
        ("ess", Pointer), ("pooled", Pointer), ("logits", Pointer),
        ("sparse", c.POINTER(ModelSparse)), ("kept", Pointer), ("empty", Pointer),
        ("start", c.c_int64), ("input", Pointer), ("inputs", Pointer), ("nll", Pointer),
        ("token_logits", Pointer), ("mask", c.POINTER(Mask)), ("score_factor", Pointer),
        ("cache", Pointer), ("rotary", c.POINTER(Rotary)), ("visit", c.POINTER(ModelVisit)),
    ]  # fmt: skip


class ModelCost(c.Structure):
    _fields_ = [
        ("products", c.c_double), ("attention", c.c_double), ("bytes", c.c_double),
        ("weights", c.c_double),
    ]  # fmt: skip


class CacheOpts(c.Structure):
    _fields_ = [
        ("evict", Text), ("prompt", c.c_int64), ("policy", Text), ("keys", c.c_int64),
        ("k_type", Text), ("v_type", Text),
    ]  # fmt: skip


class Work(c.Structure):
    _fields_ = [
        ("noun", Text), ("pieces", Pointer), ("count", c.c_int64), ("numbers", c.c_int64),
        ("one_thread_per_cell", c.c_bool), ("window", c.c_int64), ("user", Pointer),
        ("weight", Pointer), ("destination", Pointer), ("compute", Pointer), ("done", Pointer),
    ]  # fmt: skip


class Executor(c.Structure):
    _fields_ = [
        ("name", Text), ("rank", c.c_int), ("ranks", c.c_int), ("run", Pointer), ("share", Pointer),
        ("agree", Pointer), ("state", Pointer),
    ]  # fmt: skip


class Message(c.Structure):
    _fields_ = [
        ("from", c.c_int), ("bytes", Pointer), ("size", c.c_size_t),
    ]  # fmt: skip


class Fabric(c.Structure):
    _fields_ = [
        ("name", Text), ("rank", c.c_int), ("ranks", c.c_int), ("state", Pointer),
        ("host", Pointer), ("send", Pointer), ("receive", Pointer), ("close", Pointer),
        ("sharing", c.c_int), ("exit_code", c.c_int),
    ]  # fmt: skip


class Launcher(c.Structure):
    _fields_ = [
        ("name", Text), ("rank", c.c_int), ("ranks", c.c_int), ("local_rank", c.c_int),
    ]  # fmt: skip


class FabricOpts(c.Structure):
    _fields_ = [
        ("timeout", c.c_double), ("expect", c.c_int),
    ]  # fmt: skip


class Measured(c.Structure):
    _fields_ = [
        ("value", c.c_double), ("se", c.c_double),
    ]  # fmt: skip


class FormatForm(c.Structure):
    _fields_ = [
        ("format", c.c_int), ("scientific", c.c_bool), ("digits", c.c_int), ("decimals", c.c_int),
    ]  # fmt: skip


class Numbers(c.Structure):
    _fields_ = [
        ("values", Pointer), ("rows", c.c_int64), ("cols", c.c_int64),
    ]  # fmt: skip


class Column(c.Structure):
    _fields_ = [
        ("key", Text), ("title", Text), ("unit", Text), ("format", c.c_int), ("definition", Text),
        ("error", Text), ("each", c.c_bool), ("array", c.c_bool), ("standing", c.c_int),
        ("type", c.c_int), ("offset", c.c_size_t), ("inline_count", c.c_int64),
    ]  # fmt: skip


class TableView(c.Structure):
    _fields_ = [
        ("title", Text), ("columns", Text), ("note", Text), ("only_with_full", c.c_bool),
    ]  # fmt: skip


class TableSpec(c.Structure):
    _fields_ = [
        ("key", Text), ("columns", c.POINTER(Column)), ("views", c.POINTER(TableView)),
        ("row", c.c_size_t), ("record", c.c_bool), ("inside", Text), ("link", Text),
        ("nested", Text), ("only_inside", c.c_bool), ("keys", Text),
    ]  # fmt: skip


class TableColumn(c.Structure):
    _fields_ = [
        ("key", Text), ("name", Text), ("title", Text), ("spec", c.POINTER(Column)),
        ("format", c.c_int), ("is_error", c.c_bool), ("error", Text), ("table", Pointer),
        ("at", c.c_int64),
    ]  # fmt: skip


class RowPick(c.Structure):
    _fields_ = [
        ("key", Text), ("values", Pointer), ("count", c.c_int64),
    ]  # fmt: skip


class AnswerOpts(c.Structure):
    _fields_ = [
        ("table", Text), ("colour", c.c_bool), ("full", c.c_bool), ("width", c.c_int),
        ("most_rows", c.c_int64), ("rest", Text), ("picks", c.POINTER(RowPick)), ("sort", Text),
        ("top", c.c_int64),
    ]  # fmt: skip


class Grid(c.Structure):
    _fields_ = [
        ("count", c.c_int64), ("reals", Pointer), ("counts", Pointer), ("merged", c.c_int64),
    ]  # fmt: skip


class Texts(c.Structure):
    _fields_ = [
        ("count", c.c_int64), ("at", Text * 256),
    ]  # fmt: skip


class Param(c.Structure):
    _fields_ = [
        ("name", Text), ("letter", c.c_char), ("kind", c.c_int), ("argument", Text), ("help", Text),
        ("field", c.c_size_t), ("default_value", Text), ("default_note", Text), ("unit", Text),
        ("min", c.c_double), ("max", c.c_double), ("increasing", c.c_bool),
        ("choices", c.POINTER(Text)), ("not_in_fingerprint", c.c_bool), ("alias", Text),
        ("renamed_from", Text), ("several", c.c_bool),
    ]  # fmt: skip


class Cost(c.Structure):
    _fields_ = [
        ("flops", c.c_double), ("seconds", c.c_double), ("disk_bytes", c.c_double),
        ("input_bytes", c.c_double), ("output_bytes", c.c_double), ("work_bytes", c.c_double),
        ("thread_bytes", c.c_double), ("begin_flops", c.c_double),
    ]  # fmt: skip


class CellField(c.Structure):
    _fields_ = [
        ("name", Text), ("offset", c.c_size_t), ("size", c.c_size_t), ("measured", c.c_bool),
    ]  # fmt: skip


class Stage(c.Structure):
    _fields_ = [
        ("name", Text), ("phase", Text), ("noun", Text), ("cells", c.c_int64), ("rows", c.c_int64),
        ("record", c.c_size_t), ("fields", c.POINTER(CellField)), ("cols", c.c_int64),
        ("columns", c.POINTER(Text)), ("one_thread_per_cell", c.c_bool),
        ("reports_progress", c.c_bool), ("shared", c.c_bool), ("on_disk", c.c_bool),
        ("flops", c.c_double), ("weight", Pointer), ("run", Pointer), ("group", c.c_int64),
        ("parts", c.c_int64), ("part_numbers", c.c_int64), ("run_part", Pointer), ("fold", Pointer),
        ("finish", Pointer),
    ]  # fmt: skip


class Study(c.Structure):
    _fields_ = [
        ("name", Text), ("summary", Text), ("usage", Text), ("about", Text),
        ("examples", c.POINTER(Text)), ("params", c.POINTER(Param)), ("size", c.c_size_t),
        ("takes", c.c_uint), ("operand", Text), ("csv", Text), ("keeps_nothing", c.c_bool),
        ("state", c.c_size_t), ("open", Pointer), ("cost", Pointer), ("begin", Pointer),
        ("summarise", Pointer), ("close", Pointer), ("group", c.c_int), ("main_options", Text),
    ]  # fmt: skip


class Progress(c.Structure):
    _fields_ = [
        ("phase", Text), ("phase_share", c.c_double), ("share", c.c_double), ("kept", c.c_double),
    ]  # fmt: skip


class StudyOpts(c.Structure):
    _fields_ = [
        ("seed", c.c_uint64), ("precision", c.c_int), ("exec", Exec), ("max_memory", c.c_size_t),
        ("dry_run", c.c_bool), ("out", Text), ("resume", c.c_bool), ("force", c.c_bool),
        ("shard", c.c_int64), ("shards", c.c_int64), ("line", Text), ("progress", Pointer),
        ("admitted", Pointer), ("user", Pointer),
    ]  # fmt: skip


class Field(c.Structure):
    _fields_ = [
        ("type", Text), ("name", Text), ("offset", c.c_int64), ("size", c.c_int64),
    ]  # fmt: skip


class MonitorView(c.Structure):
    _fields_ = [
        ("share", c.c_double), ("phase_share", c.c_double), ("kept", c.c_double),
        ("phase", c.c_char * 96),
    ]  # fmt: skip


class Build(c.Structure):
    _fields_ = [
        ("version", Text), ("compiler", Text), ("flags", Text), ("blas", Text), ("id", Text),
        ("openmp", c.c_bool),
    ]  # fmt: skip


class Array(c.Structure):
    _fields_ = [
        ("dtype", c.c_int), ("rank", c.c_int), ("shape", c.c_int64 * 4), ("data", Pointer),
        ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class NpyInfo(c.Structure):
    _fields_ = [
        ("dtype", c.c_int), ("rank", c.c_int), ("shape", c.c_int64 * 4), ("bytes", c.c_int64),
        ("descr", c.c_char * 8),
    ]  # fmt: skip


class PlanUnit(c.Structure):
    _fields_ = [
        ("policy", c.c_char * 256), ("keys", c.c_int64), ("k_type", c.c_char * 96),
        ("v_type", c.c_char * 96), ("risk", c.c_double),
    ]  # fmt: skip


class PlanHead(c.Structure):
    _fields_ = [
        ("spec", PolicySpec), ("risk", c.c_double),
    ]  # fmt: skip


class Plan(c.Structure):
    _fields_ = [
        ("model_type", c.c_char * 64), ("layers", c.c_int64), ("heads", c.c_int64),
        ("kv_heads", c.c_int64), ("head_dim", c.c_int64), ("hidden", c.c_int64),
        ("vocab", c.c_int64), ("window", c.c_int64), ("context", c.c_int64), ("prompt", c.c_int64),
        ("mode", c.c_int), ("causal", c.c_bool), ("fingerprint", c.c_uint64),
        ("keys_kept", c.c_double), ("keys_all", c.c_double), ("bytes_before", c.c_double),
        ("bytes_after", c.c_double), ("cache", c.c_char * 96), ("text", c.c_char * 256),
        ("note", c.c_char * 512), ("windows", Pointer), ("head", c.POINTER(PlanHead)),
        ("unit", c.POINTER(PlanUnit)), ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class PolicyRisk(c.Structure):
    _fields_ = [
        ("square", Num), ("bias2", c.c_double), ("variance", c.c_double), ("mass", c.c_double),
        ("keys", c.c_double), ("first_order", c.c_double), ("empty", c.c_double),
    ]  # fmt: skip


class RiskQuery(c.Structure):
    _fields_ = [
        ("n", c.c_int64), ("dv", c.c_int64), ("sink", c.c_bool), ("weights", Pointer),
        ("logs", Pointer), ("values", Pointer), ("output", Pointer), ("off", Pointer),
        ("reach", Pointer), ("spread2", c.c_double),
    ]  # fmt: skip


class ReportOpts(c.Structure):
    _fields_ = [
        ("title", Text), ("overwrite", c.c_bool), ("tables_only", c.c_bool),
        ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


class ReportSize(c.Structure):
    _fields_ = [
        ("runs", c.c_int64), ("tables", c.c_int64), ("rows", c.c_int64), ("bytes", c.c_int64),
    ]  # fmt: skip


class ReportFile(c.Structure):
    _fields_ = [
        ("path", Text), ("figure", Text), ("kind", Text), ("title", Text), ("rows", c.c_int64),
        ("bytes", c.c_int64), ("unknown", c.c_int64),
    ]  # fmt: skip


class FiguresOpts(c.Structure):
    _fields_ = [
        ("overwrite", c.c_bool), ("budget", c.POINTER(MemLimit)), ("progress", Pointer),
        ("progress_user", Pointer), ("wrote", Pointer), ("wrote_user", Pointer),
    ]  # fmt: skip


class RunPair(c.Structure):
    _fields_ = [
        ("key", Text), ("text", Text),
    ]  # fmt: skip


class RunFact(c.Structure):
    _fields_ = [
        ("session", c.c_int64), ("key", Text), ("text", Text),
    ]  # fmt: skip


class RunSpec(c.Structure):
    _fields_ = [
        ("command", Text), ("params", c.POINTER(RunPair)), ("params_count", c.c_int64),
        ("facts", c.POINTER(RunPair)), ("facts_count", c.c_int64),
    ]  # fmt: skip


class RunAbout(c.Structure):
    _fields_ = [
        ("command", Text), ("schema", c.c_int), ("created", Text), ("updated", Text),
        ("params", c.POINTER(RunPair)), ("params_count", c.c_int64), ("facts", c.POINTER(RunFact)),
        ("facts_count", c.c_int64), ("stages_count", c.c_int64),
    ]  # fmt: skip


class RunStage(c.Structure):
    _fields_ = [
        ("name", Text), ("rows", c.c_int64), ("cols", c.c_int64), ("columns", c.POINTER(Text)),
        ("cells", c.c_int64), ("scratch", c.c_bool),
    ]  # fmt: skip


class RunJoinOpts(c.Structure):
    _fields_ = [
        ("facts", c.POINTER(RunPair)), ("facts_count", c.c_int64), ("overwrite", c.c_bool),
        ("partial", c.c_bool), ("progress", Pointer), ("progress_user", Pointer),
    ]  # fmt: skip


class RunJoined(c.Structure):
    _fields_ = [
        ("files", c.c_int64), ("cells", c.c_int64), ("twice", c.c_int64), ("missing", c.c_int64),
        ("gaps", c.c_char * 256),
    ]  # fmt: skip


class RunColumn(c.Structure):
    _fields_ = [
        ("name", Text), ("kind", c.c_int), ("reals", Pointer), ("texts", c.POINTER(Text)),
    ]  # fmt: skip


class RunTable(c.Structure):
    _fields_ = [
        ("name", Text), ("rows", c.c_int64), ("cols", c.c_int64), ("columns", c.POINTER(RunColumn)),
        ("budget", c.POINTER(MemLimit)),
    ]  # fmt: skip


ProgressFn = c.CFUNCTYPE(c.c_bool, Pointer, c.c_double, c.c_double)
LogFn = c.CFUNCTYPE(None, Pointer, c.c_int, Pointer)
TokenSink = c.CFUNCTYPE(c.c_int, Pointer, c.POINTER(Token), c.c_int64, c.POINTER(Error))
WriteFn = c.CFUNCTYPE(c.c_bool, Pointer, Pointer, c.c_size_t)

STRUCTS: Dict[str, Type[c.Structure]] = {
    "es_error": Error,
    "es_curve": Curve,
    "es_mem_limit": MemLimit,
    "es_exec": Exec,
    "es_mask": Mask,
    "es_moments": Moments,
    "es_view": View,
    "es_num": Num,
    "es_attend_opts": AttendOpts,
    "es_attend_out": AttendOut,
    "es_attend_plan": AttendPlan,
    "es_address": Address,
    "es_policy_spec": PolicySpec,
    "es_policy_query": PolicyQuery,
    "es_choice": Choice,
    "es_kept": Kept,
    "es_tokenizer_info": TokenizerInfo,
    "es_token": Token,
    "es_encode_opts": EncodeOpts,
    "es_token_list": TokenList,
    "es_rotary": Rotary,
    "es_layer_kind": LayerKind,
    "es_model_config": ModelConfig,
    "es_model_opts": ModelOpts,
    "es_model_head": ModelHead,
    "es_model_sparse": ModelSparse,
    "es_model_seen": ModelSeen,
    "es_model_visit": ModelVisit,
    "es_model_block": ModelBlock,
    "es_model_cost": ModelCost,
    "es_cache_opts": CacheOpts,
    "es_work": Work,
    "es_executor": Executor,
    "es_message": Message,
    "es_fabric": Fabric,
    "es_launcher": Launcher,
    "es_fabric_opts": FabricOpts,
    "es_measured": Measured,
    "es_format_form": FormatForm,
    "es_numbers": Numbers,
    "es_column": Column,
    "es_table_view": TableView,
    "es_table_spec": TableSpec,
    "es_table_column": TableColumn,
    "es_row_pick": RowPick,
    "es_answer_opts": AnswerOpts,
    "es_grid": Grid,
    "es_texts": Texts,
    "es_param": Param,
    "es_cost": Cost,
    "es_cell_field": CellField,
    "es_stage": Stage,
    "es_study": Study,
    "es_progress": Progress,
    "es_study_opts": StudyOpts,
    "es_field": Field,
    "es_monitor_view": MonitorView,
    "es_build": Build,
    "es_array": Array,
    "es_npy_info": NpyInfo,
    "es_plan_unit": PlanUnit,
    "es_plan_head": PlanHead,
    "es_plan": Plan,
    "es_policy_risk": PolicyRisk,
    "es_risk_query": RiskQuery,
    "es_report_opts": ReportOpts,
    "es_report_size": ReportSize,
    "es_report_file": ReportFile,
    "es_figures_opts": FiguresOpts,
    "es_run_pair": RunPair,
    "es_run_fact": RunFact,
    "es_run_spec": RunSpec,
    "es_run_about": RunAbout,
    "es_run_stage": RunStage,
    "es_run_join_opts": RunJoinOpts,
    "es_run_joined": RunJoined,
    "es_run_column": RunColumn,
    "es_run_table": RunTable,
}

# What each function returns and takes.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "es_status_name": (Text, [c.c_int]),
    "es_version": (Text, []),
    "es_allocate_keys": (c.c_int, [
        c.POINTER(Curve), c.c_int64, c.c_double, Pointer, Pointer, Pointer, c.POINTER(Error),
    ]),
    "es_allocate_risk": (c.c_int, [
        c.POINTER(Curve), c.c_int64, c.c_double, Pointer, Pointer, Pointer, c.POINTER(Error),
    ]),
    "es_isa_name": (Text, [c.c_int]),
    "es_isa_parse": (c.c_bool, [Text, Pointer]),
    "es_isa_available": (c.c_bool, [c.c_int]),
    "es_isa_resolve": (c.c_int, [c.c_int, Pointer, c.POINTER(Error)]),
    "es_threads_available": (c.c_int, []),
    "es_log_set": (None, [LogFn, Pointer, c.c_int]),
    "es_moments_free": (None, [c.POINTER(Moments)]),
    "es_moments_covariance": (None, [c.POINTER(Moments), c.c_int, Pointer]),
    "es_dtype_size": (c.c_size_t, [c.c_int]),
    "es_dtype_name": (Text, [c.c_int]),
    "es_view_f32": (View, [Pointer, c.c_int64, c.c_int64]),
    "es_view_f64": (View, [Pointer, c.c_int64, c.c_int64]),
    "es_view_get": (c.c_double, [c.POINTER(View), c.c_int64, c.c_int64]),
    "es_attend": (c.c_int, [
        c.POINTER(View), c.POINTER(View), c.POINTER(View), c.POINTER(AttendOpts),
        c.POINTER(AttendOut), c.POINTER(Error),
    ]),
    "es_attend_reference": (c.c_int, [
        c.POINTER(View), c.POINTER(View), c.POINTER(View), c.POINTER(AttendOpts),
        c.POINTER(AttendOut), c.POINTER(Error),
    ]),
    "es_attend_plan_for": (c.c_int, [
        c.c_int64, c.c_int64, c.c_int64, c.c_int64, c.POINTER(AttendOpts), c.c_bool,
        c.POINTER(AttendPlan), c.POINTER(Error),
    ]),
    "es_uniform_rows": (c.c_int, [
        c.POINTER(Address), c.c_int64, c.c_int64, Pointer, c.POINTER(Error),
    ]),
    "es_normal_rows": (c.c_int, [
        c.POINTER(Address), c.c_int64, c.c_int64, Pointer, c.POINTER(Error),
    ]),
    "es_normal_rows_f32": (c.c_int, [
        c.POINTER(Address), c.c_int64, c.c_int64, Pointer, c.POINTER(Error),
    ]),
    "es_policy_at": (Pointer, [c.c_int64]),
    "es_policy_find": (Pointer, [Text]),
    "es_policy_name": (Text, [Pointer]),
    "es_policy_inputs": (c.c_uint, [Pointer]),
    "es_policy_parts": (c.c_uint, [Pointer]),
    "es_policy_spec_init": (None, [c.POINTER(PolicySpec), Pointer]),
    "es_policy_spec_check": (c.c_int, [c.POINTER(PolicySpec), c.c_bool, c.POINTER(Error)]),
    "es_policy_choose": (c.c_int, [
        c.POINTER(PolicySpec), c.POINTER(PolicyQuery), c.POINTER(MemLimit), c.POINTER(Choice),
        c.POINTER(Error),
    ]),
    "es_choice_free": (None, [c.POINTER(Choice)]),
    "es_choice_keys": (c.c_double, [c.POINTER(Choice)]),
    "es_choice_draw": (c.c_int, [
        c.POINTER(Choice), c.POINTER(Address), c.POINTER(Kept), c.POINTER(Error),
    ]),
    "es_kept_free": (None, [c.POINTER(Kept)]),
    "es_tokenizer_open": (c.c_int, [
        Text, c.POINTER(MemLimit), c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_tokenizer_memory": (c.c_size_t, [Text]),
    "es_tokenizer_free": (None, [Pointer]),
    "es_tokenizer_frame": (TokenizerInfo, [Pointer]),
    "es_tokenizer_token": (Text, [Pointer, c.c_int64]),
    "es_tokenizer_encode": (c.c_int, [
        Pointer, Text, c.c_size_t, c.POINTER(EncodeOpts), c.POINTER(TokenList), c.POINTER(Error),
    ]),
    "es_token_list_free": (None, [c.POINTER(TokenList)]),
    "es_text_check": (c.c_int, [Pointer, c.c_size_t, Text, c.POINTER(Error)]),
    "es_text_check_replaced": (c.c_int, [
        c.c_int64, c.c_int64, c.c_int, Text, c.c_int64, c.POINTER(Error),
    ]),
    "es_token_stream_open": (c.c_int, [
        Pointer, c.POINTER(EncodeOpts), TokenSink, Pointer, c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_token_stream_write": (c.c_int, [Pointer, Pointer, c.c_size_t, c.POINTER(Error)]),
    "es_token_stream_finish": (c.c_int, [Pointer, c.POINTER(Error)]),
    "es_token_stream_replaced": (c.c_int64, [Pointer, Pointer, Pointer]),
    "es_token_stream_close": (None, [Pointer]),
    "es_model_config_load": (c.c_int, [Text, c.POINTER(ModelConfig), c.POINTER(Error)]),
    "es_model_layer": (c.POINTER(LayerKind), [c.POINTER(ModelConfig), c.c_int64]),
    "es_model_locate": (c.c_int, [Text, Text, c.c_size_t, c.POINTER(Error)]),
    "es_model_open": (c.c_int, [Text, c.POINTER(ModelOpts), c.POINTER(Pointer), c.POINTER(Error)]),
    "es_model_close": (None, [Pointer]),
    "es_model_config_of": (c.POINTER(ModelConfig), [Pointer]),
    "es_model_check_tokenizer": (c.c_int, [
        c.POINTER(ModelConfig), Text, Pointer, c.POINTER(Error),
    ]),
    "es_model_forward": (c.c_int, [
        Pointer, c.POINTER(ModelBlock), c.c_int64, c.POINTER(Exec), c.POINTER(Error),
    ]),
    "es_model_cost_of": (ModelCost, [
        c.POINTER(ModelConfig), c.c_int, c.c_int64, c.c_int, c.c_bool,
    ]),
    "es_model_products": (c.c_int, [
        Pointer, c.c_int64, c.c_int64, c.POINTER(Exec), c.POINTER(Error),
    ]),
    "es_cache_new": (c.c_int, [
        c.POINTER(ModelConfig), c.POINTER(CacheOpts), c.c_int64, c.POINTER(MemLimit),
        c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_cache_free": (None, [Pointer]),
    "es_cache_memory": (c.c_int, [
        c.POINTER(ModelConfig), c.POINTER(CacheOpts), c.c_int64, c.c_int, c.c_int, Pointer,
        c.POINTER(Error),
    ]),
    "es_cache_look_ahead": (c.c_int, [
        Pointer, Pointer, Pointer, c.POINTER(Exec), c.POINTER(Error),
    ]),
    "es_cache_last": (Pointer, [Pointer]),
    "es_cache_save": (c.c_int, [Pointer, Text, c.c_bool, c.POINTER(Error)]),
    "es_work_run": (c.c_int, [c.POINTER(Work), c.POINTER(Exec), c.POINTER(Error)]),
    "es_work_agree": (c.c_int, [c.POINTER(Exec), c.c_int, Text, c.POINTER(Error)]),
    "es_launcher_seen": (Launcher, []),
    "es_fabric_load": (c.c_int, [c.POINTER(FabricOpts), c.POINTER(Pointer), c.POINTER(Error)]),
    "es_ranks_new": (c.c_int, [c.POINTER(Fabric), c.POINTER(Pointer), c.POINTER(Error)]),
    "es_ranks_free": (None, [c.POINTER(Executor)]),
    "es_format_choose": (FormatForm, [c.c_int, Pointer, Pointer, c.c_int64]),
    "es_format_put": (Text, [FormatForm, c.c_double, c.c_double, Text, c.c_size_t]),
    "es_format_name": (Text, [c.c_int]),
    "es_format_parse": (c.c_bool, [Text, Pointer]),
    "es_escape": (Text, [Text, Text, c.c_size_t]),
    "es_utf8": (c.c_bool, [Text]),
    "es_json_quote": (Text, [Text, Text, c.c_size_t]),
    "es_standing_name": (Text, [c.c_int]),
    "es_answer_new": (c.c_int, [c.POINTER(MemLimit), c.POINTER(Pointer), c.POINTER(Error)]),
    "es_answer_free": (None, [Pointer]),
    "es_answer_status": (c.c_int, [Pointer, c.POINTER(Error)]),
    "es_answer_table": (Pointer, [Pointer, c.POINTER(TableSpec)]),
    "es_answer_find": (Pointer, [Pointer, Text]),
    "es_answer_at": (Pointer, [Pointer, c.c_int64]),
    "es_answer_real": (None, [Pointer, Text, c.c_double]),
    "es_answer_count": (None, [Pointer, Text, c.c_int64]),
    "es_answer_flag": (None, [Pointer, Text, c.c_bool]),
    "es_answer_text": (None, [Pointer, Text, Text]),
    "es_answer_reals": (None, [Pointer, Text, Pointer, c.c_int64]),
    "es_answer_counts": (None, [Pointer, Text, Pointer, c.c_int64]),
    "es_answer_provenance": (None, [Pointer, Text, Text]),
    "es_answer_provenance_count": (None, [Pointer, Text, c.c_int64]),
    "es_answer_provenance_list": (None, [Pointer, Text, c.POINTER(Text), c.c_int64]),
    "es_answer_finding": (Text, [Pointer, c.c_int64]),
    "es_answer_name": (None, [Pointer, Text, c.c_int64]),
    "es_answer_fail_check": (None, [Pointer]),
    "es_answer_check_failed": (c.c_bool, [Pointer]),
    "es_table_add_row": (Pointer, [Pointer, c.c_size_t]),
    "es_table_row_array": (Pointer, [Pointer, c.c_size_t]),
    "es_table_numbers": (Numbers, [Pointer, Pointer, c.c_int64, c.c_int64]),
    "es_table_row": (c.c_int64, [Pointer]),
    "es_table_real": (None, [Pointer, c.c_int64, Text, c.c_double]),
    "es_table_count": (None, [Pointer, c.c_int64, Text, c.c_int64]),
    "es_table_text": (None, [Pointer, c.c_int64, Text, Text]),
    "es_table_each": (None, [Pointer, Text, c.POINTER(Text), c.c_int64]),
    "es_table_show": (None, [Pointer, c.POINTER(Text)]),
    "es_table_about": (c.POINTER(TableSpec), [Pointer]),
    "es_table_rows": (c.c_int64, [Pointer]),
    "es_table_column_at": (c.c_bool, [Pointer, c.c_int64, c.POINTER(TableColumn)]),
    "es_table_columns": (c.c_int64, [Pointer]),
    "es_table_find": (c.c_bool, [Pointer, Text, c.POINTER(TableColumn)]),
    "es_column_real": (c.c_double, [c.POINTER(TableColumn), c.c_int64]),
    "es_column_text": (Text, [c.POINTER(TableColumn), c.c_int64]),
    "es_column_reals": (None, [c.POINTER(TableColumn), c.c_int64, Pointer]),
    "es_table_get": (c.c_double, [Pointer, c.c_int64, Text]),
    "es_table_get_text": (Text, [Pointer, c.c_int64, Text]),
    "es_answer_write": (c.c_int, [
        Pointer, c.c_int, c.POINTER(AnswerOpts), WriteFn, Pointer, c.POINTER(Error),
    ]),
    "es_params_new": (c.c_int, [
        c.POINTER(Param), c.c_size_t, c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_params_free": (None, [Pointer]),
    "es_params_set": (c.c_int, [Pointer, Text, Text, c.POINTER(Error)]),
    "es_params_values": (Pointer, [Pointer]),
    "es_params_given": (c.c_bool, [Pointer, Text]),
    "es_param_find": (c.POINTER(Param), [c.POINTER(Param), Text]),
    "es_nearest": (Text, [Text, c.POINTER(Text), c.c_int]),
    "es_answer_machine": (None, [Pointer, c.POINTER(Exec)]),
    "es_cost_admit": (c.c_int, [
        c.POINTER(Cost), c.c_size_t, c.POINTER(MemLimit), c.POINTER(Error),
    ]),
    "es_cost_report": (c.c_int, [
        c.POINTER(Cost), c.POINTER(Exec), c.c_int, Pointer, c.POINTER(Error),
    ]),
    "es_study_at": (c.POINTER(Study), [c.c_int64]),
    "es_study_find": (c.POINTER(Study), [Text]),
    "es_claim_id_at": (Text, [c.c_int64]),
    "es_study_run": (c.c_int, [
        c.POINTER(Study), Pointer, c.POINTER(StudyOpts), c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_field_at": (c.POINTER(Field), [c.c_int64]),
    "es_monitor_new": (c.c_int, [c.POINTER(Pointer), c.POINTER(Error)]),
    "es_monitor_free": (None, [Pointer]),
    "es_monitor_work": (c.c_bool, [Pointer, c.c_double, c.c_double]),
    "es_monitor_progress": (c.c_bool, [Pointer, c.POINTER(Progress)]),
    "es_monitor_read": (None, [Pointer, c.POINTER(MonitorView)]),
    "es_monitor_stop": (None, [Pointer]),
    "es_build_info": (Build, []),
    "es_cpu_name": (Text, []),
    "es_program_path": (c.c_bool, [Text, c.c_size_t]),
    "es_peak_measure": (c.c_int, [c.POINTER(Exec), c.c_int, c.c_double, Pointer, c.POINTER(Error)]),
    "es_bandwidth_measure": (c.c_int, [
        c.POINTER(Exec), Pointer, c.c_size_t, c.c_double, Pointer, c.POINTER(Error),
    ]),
    "es_npy_inspect_as": (c.c_int, [Text, c.c_int, c.POINTER(NpyInfo), c.POINTER(Error)]),
    "es_npy_load": (c.c_int, [Text, c.POINTER(MemLimit), c.POINTER(Array), c.POINTER(Error)]),
    "es_npy_load_as": (c.c_int, [
        Text, c.c_int, c.POINTER(MemLimit), c.POINTER(Array), c.POINTER(Error),
    ]),
    "es_npy_save": (c.c_int, [
        Text, c.c_int, c.c_int, Pointer, Pointer, c.c_bool, c.POINTER(Error),
    ]),
    "es_array_free": (None, [c.POINTER(Array)]),
    "es_array_view": (c.c_int, [c.POINTER(Array), c.c_int64, c.POINTER(View), c.POINTER(Error)]),
    "es_plan_new": (c.c_int, [
        c.POINTER(ModelConfig), c.c_int64, c.POINTER(MemLimit), c.POINTER(Pointer),
        c.POINTER(Error),
    ]),
    "es_plan_new_cache": (c.c_int, [
        c.POINTER(ModelConfig), c.c_int, c.c_int64, c.c_int64, c.POINTER(MemLimit),
        c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_plan_free": (None, [c.POINTER(Plan)]),
    "es_plan_load": (c.c_int, [Text, c.POINTER(MemLimit), c.POINTER(Pointer), c.POINTER(Error)]),
    "es_plan_save": (c.c_int, [c.POINTER(Plan), Text, c.c_bool, c.POINTER(Error)]),
    "es_plan_check": (c.c_int, [c.POINTER(Plan), c.POINTER(ModelConfig), c.POINTER(Error)]),
    "es_plan_cache": (c.c_int, [
        c.POINTER(Plan), Pointer, c.c_int64, c.POINTER(Exec), c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_plan_memory": (c.c_int, [
        c.POINTER(Plan), c.POINTER(ModelConfig), c.c_int64, c.c_int, c.c_int, Pointer,
        c.POINTER(Error),
    ]),
    "es_plan_export": (c.c_int, [
        c.POINTER(Plan), Text, Text, c.POINTER(Text), Pointer, c.POINTER(Error),
    ]),
    "es_plan_export_free": (None, [Text]),
    "es_plan_export_file": (c.c_int, [
        c.POINTER(Plan), Text, Text, Text, c.c_bool, c.POINTER(Error),
    ]),
    "es_risk_query_new": (c.c_int, [
        Pointer, c.c_int64, c.POINTER(View), c.POINTER(MemLimit), c.POINTER(RiskQuery),
        c.POINTER(Error),
    ]),
    "es_risk_query_free": (None, [c.POINTER(RiskQuery), c.POINTER(MemLimit)]),
    "es_policy_risk_of": (c.c_int, [
        c.POINTER(RiskQuery), c.POINTER(Choice), c.POINTER(MemLimit), c.POINTER(PolicyRisk),
        c.POINTER(Error),
    ]),
    "es_report_write": (c.c_int, [
        c.POINTER(Text), c.c_int64, Text, c.POINTER(ReportOpts), c.POINTER(ReportSize),
        c.POINTER(Error),
    ]),
    "es_report_figures": (c.c_int, [
        c.POINTER(Text), c.c_int64, Text, c.POINTER(FiguresOpts), c.POINTER(Error),
    ]),
    "es_report_missing": (Text, []),
    "es_run_create": (c.c_int, [
        Text, c.POINTER(RunSpec), c.c_bool, c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_run_open": (c.c_int, [Text, c.POINTER(Pointer), c.POINTER(Error)]),
    "es_run_close": (c.c_int, [Pointer, c.POINTER(Error)]),
    "es_run_info": (RunAbout, [Pointer]),
    "es_run_get_stage": (c.c_int, [Pointer, c.c_int64, c.POINTER(RunStage), c.POINTER(Error)]),
    "es_run_shard": (c.c_bool, [Pointer, Pointer, Pointer]),
    "es_run_join": (c.c_int, [
        c.POINTER(Text), c.c_int64, Text, c.POINTER(RunJoinOpts), c.POINTER(RunJoined),
        c.POINTER(Error),
    ]),
    "es_run_put_table": (c.c_int, [Pointer, c.POINTER(RunTable), c.POINTER(Error)]),
    "es_run_tables_count": (c.c_int, [Pointer, Pointer, c.POINTER(Error)]),
    "es_run_table_name": (c.c_int, [Pointer, c.c_int64, Text, c.POINTER(Error)]),
    "es_run_get_table": (c.c_int, [
        Pointer, Text, c.POINTER(MemLimit), c.POINTER(RunTable), c.POINTER(Error),
    ]),
    "es_run_answer": (c.c_int, [
        Pointer, Text, c.POINTER(MemLimit), c.POINTER(Pointer), c.POINTER(Error),
    ]),
    "es_run_table_free": (None, [c.POINTER(RunTable)]),
}  # fmt: skip
