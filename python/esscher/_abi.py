# SPDX-License-Identifier: Apache-2.0
"""The structs and functions of the shared library, as ctypes describes them.

Every struct here is a copy of one in ``include/esscher``. The library says where its own fields
lie (``es_field_at``), and :func:`differences` holds the copies against that before anything is
called with them, so that a library of another version is an error and no crash.
"""

from __future__ import annotations

import ctypes as c
import operator
import os
from typing import Any, Dict, List, Tuple, Type

import numpy as np

Status = c.c_int
Pointer = c.c_void_p
Text = c.c_char_p
I64 = c.c_int64


class Field(c.Structure):
    _fields_ = [("type", Text), ("name", Text), ("offset", I64), ("size", I64)]


class Error(c.Structure):
    _fields_ = [
        ("code", c.c_int), ("offset", I64), ("row", I64), ("col", I64), ("file", c.c_char * 256),
        ("rule", c.c_char * 48), ("message", c.c_char * 320), ("hint", c.c_char * 256),
    ]  # fmt: skip


class View(c.Structure):
    _fields_ = [
        ("data", Pointer), ("dtype", c.c_int), ("rows", I64), ("cols", I64), ("row_stride", I64),
        ("col_stride", I64),
    ]  # fmt: skip


class Budget(c.Structure):
    _fields_ = [("limit", c.c_size_t), ("used", c.c_size_t), ("peak", c.c_size_t)]


class Exec(c.Structure):
    _fields_ = [
        ("threads", c.c_int), ("isa", c.c_int), ("budget", c.POINTER(Budget)),
        ("progress", Pointer), ("progress_user", Pointer), ("executor", Pointer),
    ]  # fmt: skip


class Build(c.Structure):
    _fields_ = [
        ("version", Text), ("compiler", Text), ("flags", Text), ("blas", Text), ("id", Text),
        ("openmp", c.c_bool),
    ]  # fmt: skip


class Moments(c.Structure):
    _fields_ = [
        ("count", I64), ("dim", I64), ("mean", c.POINTER(c.c_double)), ("scatter", Pointer),
        ("scratch", Pointer), ("budget", Pointer),
    ]  # fmt: skip


class Mask(c.Structure):
    _fields_ = [
        ("positions", Pointer), ("causal", c.c_bool), ("window", I64), ("sinks", I64),
        ("local", I64), ("list_queries", I64), ("list_offsets", Pointer), ("list_keys", Pointer),
        ("list_factors", Pointer), ("n_classes", I64), ("classes", Pointer),
        ("class_factors", Pointer),
    ]  # fmt: skip


class AttendOpts(c.Structure):
    _fields_ = [
        ("precision", c.c_int), ("scales", Pointer), ("n_scales", I64),
        ("score_cap", c.c_double), ("sink", Pointer), ("prefixes", Pointer),
        ("n_prefixes", I64), ("self", c.c_bool), ("exclude_self", c.c_bool),
        ("mask", c.POINTER(Mask)), ("top_k", Pointer), ("n_top_k", I64), ("spread", c.c_bool),
        ("block", I64), ("exec", c.POINTER(Exec)),
    ]  # fmt: skip


class AttendOut(c.Structure):
    _fields_ = [
        ("output", Pointer), ("lse", Pointer), ("entropy", Pointer), ("top_weight", Pointer),
        ("top_index", Pointer), ("sum_squares", Pointer), ("top_mass", Pointer),
        ("spread2", Pointer), ("block_spread2", Pointer), ("block_powers", Pointer),
        ("moments", Pointer),
    ]  # fmt: skip


class Column(c.Structure):
    _fields_ = [
        ("key", Text), ("title", Text), ("unit", Text), ("format", c.c_int), ("definition", Text),
        ("error", Text), ("each", c.c_bool), ("array", c.c_bool), ("standing", c.c_int),
        ("type", c.c_int), ("offset", c.c_size_t), ("inline_count", I64),
    ]  # fmt: skip


class TableView(c.Structure):
    _fields_ = [("title", Text), ("columns", Text), ("note", Text), ("only_with_full", c.c_bool)]


class TableSpec(c.Structure):
    _fields_ = [
        ("key", Text), ("columns", c.POINTER(Column)), ("views", c.POINTER(TableView)),
        ("row", c.c_size_t), ("record", c.c_bool), ("inside", Text), ("link", Text), ("nested", Text),
        ("only_inside", c.c_bool), ("keys", Text),
    ]  # fmt: skip


class TableColumn(c.Structure):
    _fields_ = [
        ("key", Text), ("name", Text), ("title", Text), ("spec", c.POINTER(Column)),
        ("format", c.c_int), ("is_error", c.c_bool), ("error", Text), ("table", Pointer),
        ("at", I64),
    ]  # fmt: skip


class AnswerOpts(c.Structure):
    _fields_ = [
        ("table", Text), ("colour", c.c_bool), ("full", c.c_bool), ("width", c.c_int),
        ("most_rows", I64), ("rest", Text), ("picks", Pointer), ("sort", Text), ("top", I64),
    ]  # fmt: skip


class FormatForm(c.Structure):
    _fields_ = [
        ("format", c.c_int), ("scientific", c.c_bool), ("digits", c.c_int), ("decimals", c.c_int),
    ]  # fmt: skip


class Param(c.Structure):
    _fields_ = [
        ("name", Text), ("letter", c.c_char), ("kind", c.c_int), ("argument", Text),
        ("help", Text), ("field", c.c_size_t), ("default_value", Text), ("default_note", Text),
        ("unit", Text), ("min", c.c_double), ("max", c.c_double), ("increasing", c.c_bool),
        ("choices", c.POINTER(Text)), ("not_in_fingerprint", c.c_bool), ("alias", Text), ("renamed_from", Text),
        ("several", c.c_bool),
    ]  # fmt: skip


class Study(c.Structure):
    _fields_ = [
        ("name", Text), ("summary", Text), ("usage", Text), ("about", Text),
        ("examples", c.POINTER(Text)), ("params", c.POINTER(Param)), ("size", c.c_size_t),
        ("takes", c.c_uint), ("operand", Text), ("csv", Text), ("keeps_nothing", c.c_bool),
        ("state", c.c_size_t), ("open", Pointer), ("cost", Pointer), ("begin", Pointer),
        ("summarise", Pointer), ("close", Pointer), ("group", c.c_int),
        ("main_options", Text),
    ]  # fmt: skip


class StudyOpts(c.Structure):
    _fields_ = [
        ("seed", c.c_uint64), ("precision", c.c_int), ("exec", Exec), ("max_memory", c.c_size_t),
        ("dry_run", c.c_bool), ("out", Text), ("resume", c.c_bool), ("force", c.c_bool),
        ("shard", I64), ("shards", I64), ("line", Text), ("progress", Pointer),
        ("admitted", Pointer), ("user", Pointer),
    ]  # fmt: skip


class RunPair(c.Structure):
    _fields_ = [("key", Text), ("text", Text)]


class RunFact(c.Structure):
    _fields_ = [("session", I64), ("key", Text), ("text", Text)]


class RunAbout(c.Structure):
    _fields_ = [
        ("command", Text), ("schema", c.c_int), ("created", Text), ("updated", Text),
        ("params", c.POINTER(RunPair)), ("params_count", I64), ("facts", c.POINTER(RunFact)),
        ("facts_count", I64), ("stages_count", I64),
    ]  # fmt: skip


class RunColumn(c.Structure):
    _fields_ = [
        ("name", Text), ("kind", c.c_int), ("reals", c.POINTER(c.c_double)),
        ("texts", c.POINTER(Text)),
    ]  # fmt: skip


class RunTable(c.Structure):
    _fields_ = [
        ("name", Text), ("rows", I64), ("cols", I64), ("columns", c.POINTER(RunColumn)),
        ("budget", Pointer),
    ]  # fmt: skip


class ReportOpts(c.Structure):
    _fields_ = [
        ("title", Text), ("overwrite", c.c_bool), ("tables_only", c.c_bool), ("budget", Pointer),
    ]  # fmt: skip


class MonitorView(c.Structure):
    _fields_ = [
        ("share", c.c_double), ("phase_share", c.c_double), ("kept", c.c_double),
        ("phase", c.c_char * 96),
    ]  # fmt: skip


STRUCTS: Dict[str, Type[c.Structure]] = {
    "es_error": Error,
    "es_view": View,
    "es_mem_limit": Budget,
    "es_exec": Exec,
    "es_build": Build,
    "es_moments": Moments,
    "es_mask": Mask,
    "es_attend_opts": AttendOpts,
    "es_attend_out": AttendOut,
    "es_column": Column,
    "es_table_view": TableView,
    "es_table_spec": TableSpec,
    "es_table_column": TableColumn,
    "es_answer_opts": AnswerOpts,
    "es_format_form": FormatForm,
    "es_param": Param,
    "es_study": Study,
    "es_study_opts": StudyOpts,
    "es_run_pair": RunPair,
    "es_run_fact": RunFact,
    "es_run_about": RunAbout,
    "es_run_column": RunColumn,
    "es_run_table": RunTable,
    "es_report_opts": ReportOpts,
    "es_monitor_view": MonitorView,
}

WriteFn = c.CFUNCTYPE(c.c_bool, Pointer, Pointer, c.c_size_t)
LogFn = c.CFUNCTYPE(None, Pointer, c.c_int, Text)

_err = c.POINTER(Error)
_out = c.POINTER(Pointer)

# What each function takes and returns. Handles of opaque structs are plain pointers.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "es_version": (Text, []),
    "es_status_name": (Text, [Status]),
    "es_build_info": (Build, []),
    "es_cpu_name": (Text, []),
    "es_threads_available": (c.c_int, []),
    "es_isa_parse": (c.c_bool, [Text, c.POINTER(c.c_int)]),
    "es_isa_name": (Text, [c.c_int]),
    "es_log_set": (None, [Pointer, Pointer, c.c_int]),
    "es_attend": (
        Status,
        [
            c.POINTER(View), c.POINTER(View), c.POINTER(View), c.POINTER(AttendOpts),
            c.POINTER(AttendOut), _err,
        ],
    ),
    "es_moments_covariance": (None, [c.POINTER(Moments), c.c_int, Pointer]),
    "es_moments_free": (None, [c.POINTER(Moments)]),
    "es_study_at": (c.POINTER(Study), [I64]),
    "es_study_find": (c.POINTER(Study), [Text]),
    "es_study_run": (
        Status,
        [c.POINTER(Study), Pointer, c.POINTER(StudyOpts), _out, _err],
    ),
    "es_params_new": (Status, [c.POINTER(Param), c.c_size_t, _out, _err]),
    "es_params_set": (Status, [Pointer, Text, Text, _err]),
    "es_params_free": (None, [Pointer]),
    "es_nearest": (Text, [Text, c.POINTER(Text), c.c_int]),
    "es_answer_free": (None, [Pointer]),
    "es_answer_at": (Pointer, [Pointer, I64]),
    "es_answer_finding": (Text, [Pointer, I64]),
    "es_answer_provenance_list": (None, [Pointer, Text, c.POINTER(Text), I64]),
    "es_answer_check_failed": (c.c_bool, [Pointer]),
    "es_answer_write": (
        Status,
        [Pointer, c.c_int, c.POINTER(AnswerOpts), WriteFn, Pointer, _err],
    ),
    "es_table_about": (c.POINTER(TableSpec), [Pointer]),
    "es_table_rows": (I64, [Pointer]),
    "es_table_column_at": (c.c_bool, [Pointer, I64, c.POINTER(TableColumn)]),
    "es_column_reals": (None, [c.POINTER(TableColumn), I64, Pointer]),
    "es_column_text": (Text, [c.POINTER(TableColumn), I64]),
    "es_standing_name": (Text, [c.c_int]),
    "es_format_name": (Text, [c.c_int]),
    "es_format_choose": (FormatForm, [c.c_int, Pointer, Pointer, I64]),
    "es_format_put": (Text, [FormatForm, c.c_double, c.c_double, Text, c.c_size_t]),
    "es_format_parse": (c.c_bool, [Text, c.POINTER(c.c_int)]),
    "es_run_open": (Status, [Text, _out, _err]),
    "es_run_close": (Status, [Pointer, _err]),
    "es_run_info": (RunAbout, [Pointer]),
    "es_run_answer": (Status, [Pointer, Text, Pointer, _out, _err]),
    "es_run_shard": (c.c_bool, [Pointer, c.POINTER(I64), c.POINTER(I64)]),
    "es_run_tables_count": (Status, [Pointer, c.POINTER(I64), _err]),
    "es_run_table_name": (Status, [Pointer, I64, Pointer, _err]),
    "es_run_get_table": (Status, [Pointer, Text, Pointer, c.POINTER(RunTable), _err]),
    "es_run_table_free": (None, [c.POINTER(RunTable)]),
    "es_report_write": (
        Status,
        [c.POINTER(Text), I64, Text, c.POINTER(ReportOpts), Pointer, _err],
    ),
    "es_report_missing": (Text, []),
    "es_monitor_new": (Status, [_out, _err]),
    "es_monitor_free": (None, [Pointer]),
    "es_monitor_read": (None, [Pointer, c.POINTER(MonitorView)]),
    "es_monitor_stop": (None, [Pointer]),
}  # fmt: skip

# Functions that the library calls itself: only their addresses are used.
ADDRESSES = ("es_monitor_work", "es_monitor_progress")


# ---- what callers give; exceptions are imported when they are raised: they need this module ----


def whole(value: Any, name: str, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """A whole number for a field: ctypes would cut one that does not fit, and take no NumPy's."""
    try:
        number = operator.index(value)
    except TypeError:
        from .errors import ArgumentTypeError

        raise ArgumentTypeError(
            f"{name} must be a whole number, and not {value!r}",
            rule="python.whole",
            hint="give an int, or a whole number of NumPy",
        ) from None
    if not low <= number <= high:
        from .errors import ArgumentError

        raise ArgumentError(
            f"{name} cannot be {number}",
            rule="python.whole",
            hint=f"expected a number from {low} to {high}",
        )
    return number


def truth(value: Any, name: str) -> bool:
    """A truth value for a field: Python would take "no" for True."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    from .errors import ArgumentTypeError

    raise ArgumentTypeError(
        f"{name} must be True or False, and not {value!r}",
        rule="python.truth",
        hint=f"give {name}=True or {name}=False",
    )


def path(value: "str | os.PathLike[str]") -> bytes:
    """A path as the system has it; ctypes would end it at a zero byte."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        from .errors import ArgumentError

        raise ArgumentError(
            f"the path {value!r} holds a zero byte",
            rule="python.path",
            hint="no file has such a name",
        )
    return raw


def decoded(text: "bytes | None") -> str:
    """A text of the library's; none is empty."""
    return text.decode("utf-8", "replace") if text else ""


def declare(lib: c.CDLL) -> None:
    """Give every function its types. AttributeError names one that the library has not."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    for name in ADDRESSES:
        getattr(lib, name)


def address(lib: c.CDLL, name: str) -> Any:
    """The address of a function, for a field that holds one."""
    return c.cast(getattr(lib, name), Pointer)


def differences(lib: c.CDLL) -> List[str]:
    """Where the library's structs differ from those above, in words; empty if nowhere."""
    field_at = lib.es_field_at
    field_at.restype = c.POINTER(Field)
    field_at.argtypes = [I64]
    theirs: Dict[str, Dict[str, Tuple[int, int]]] = {}
    at = 0
    while field := field_at(at):
        one = field.contents
        theirs.setdefault(one.type.decode(), {})[one.name.decode()] = (one.offset, one.size)
        at += 1
    found = []
    for name, struct in STRUCTS.items():
        ours = {"": (0, c.sizeof(struct))}
        for field_name, *_ in struct._fields_:
            place = getattr(struct, field_name)
            ours[field_name] = (place.offset, place.size)
        there = theirs.get(name, {})
        for key in sorted(set(ours) | set(there)):
            if ours.get(key) != there.get(key):
                found.append(
                    f"{name}{'.' if key else ''}{key}: {there.get(key)} in the library, "
                    f"{ours.get(key)} in the package"
                )
    return found
