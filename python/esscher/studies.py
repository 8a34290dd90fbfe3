# SPDX-License-Identifier: Apache-2.0
"""Every study of the library as a function.

The functions are made when the package is imported, from the descriptions that the library holds:
their keywords are the study's parameters, with ``_`` for ``-``, and their help is the same.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import shlex
import textwrap
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _abi
from ._arguments import path_bytes, whole
from ._calls import ISAS, Monitor, call_long, fill_exec
from ._library import address, lib
from .errors import EsscherError, check
from .params import (
    Inputs,
    Parameter,
    in_keywords,
    nearest,
    parameters,
    python_name,
    to_keywords,
)
from .progress import Line, reporter
from .results import Answer, Result, result_of


def _common(study: _abi.Study) -> List[Tuple[str, Any, str, str]]:
    """Keywords that are the run's and not the study's: name, default, type, what it does."""
    keeps = not study.keeps_nothing
    rows: List[Tuple[bool, str, Any, str, str]] = [
        (study.takes & _abi.ES_TAKES_SEED, "seed", 0, "int", "seed of every random number"),
        (study.takes & _abi.ES_TAKES_THREADS, "threads", None, "int",
         "threads that work (default: all processors). Results have the same bits for any number"),
        (study.takes & _abi.ES_TAKES_PRECISION, "precision", None, "Literal['f32', 'f64']",
         "kernels that compute (default: the study's choice)"),
        (study.takes & _abi.ES_TAKES_ISA, "isa", None, f"Literal[{', '.join(map(repr, ISAS))}]",
         "instruction set of the kernels (default: the best of this CPU, or the environment "
         "variable ESSCHER_ISA)"),
        (keeps, "out", None, "PathLike", "run file: everything that is finished is kept at once"),
        (keeps, "resume", False, "bool",
         "go on with the run file of out, or begin it if there is none"),
        (keeps, "force", False, "bool",
         "overwrite the run file of out, and other files that are written"),
        (keeps, "shard", None, "tuple[int, int] | str",
         "(i, k) or 'i/k': compute part i of k of the cells, 1 <= i <= k, into the run file of "
         "out"),
        (True, "max_memory", None, "int",
         "refuse to start when the memory bound is above this many bytes"),
        (True, "dry_run", False, "bool",
         "the answer is what the run would cost, in operations, seconds and bytes"),
        (True, "progress", None, "bool | Callable[[float, str], object]",
         "called now and then with the share that is done and what is going on; True: a line on "
         "standard error; by default that, on a terminal or in a notebook; False: silent"),
    ]  # fmt: skip
    return [(name, default, kind, text) for takes, name, default, kind, text in rows if takes]


class StudyFunction:
    """A study of the library, to be called: ``esscher.converge(dim=50, scales=[0.5, 1, 2])``.

    Attributes:
        study: its name in the library and the program: ``context-fit``.
        summary: one line about it.
        parameters: its parameters, by keyword.
    """

    def __init__(self, study: _abi.Study) -> None:
        self._study = study
        self.study: str = study.name.decode()
        self.summary: str = study.summary.decode()
        self.group: int = study.group
        self.parameters: Dict[str, Parameter] = {p.keyword: p for p in parameters(study)}
        self.common = _common(study)
        self.operand: Optional[str] = python_name(study.operand.decode()) if study.operand else None
        self.__name__ = self.__qualname__ = python_name(self.study)
        self.__module__ = "esscher"
        self.__signature__ = self._signature()
        self.__doc__ = self._docstring()

    def __repr__(self) -> str:
        return f"<study {self.study}: {self.summary}>"

    # ---- what it says about itself ----

    def _signature(self) -> inspect.Signature:
        P = inspect.Parameter
        own = [
            P(
                p.keyword,
                P.POSITIONAL_OR_KEYWORD if p.keyword == self.operand else P.KEYWORD_ONLY,
                default=p.default,
                annotation=p.annotation,
            )
            for p in sorted(self.parameters.values(), key=lambda p: p.keyword != self.operand)
        ]
        common = [
            P(name, P.KEYWORD_ONLY, default=default, annotation=kind)
            for name, default, kind, _ in self.common
        ]
        return inspect.Signature([*own, *common], return_annotation=Result)

    def _docstring(self) -> str:
        about = in_keywords(self._study.about.decode() if self._study.about else "")
        parts = [self.summary[:1].upper() + self.summary[1:] + "."]
        parts += [textwrap.fill(p, 96) for p in about.split("\n") if p.strip()]
        lines = ["Args:"]
        for keyword, text in [
            *((p.keyword, in_keywords(p.says)) for p in self.parameters.values()),
            *((name, text) for name, _, _, text in self.common),
        ]:
            lines.append(
                textwrap.fill(f"{keyword}: {text}", 96, initial_indent="    ",
                              subsequent_indent="        ")
            )  # fmt: skip
        returns = "Returns:\n    Result: its tables and findings."
        return "\n\n".join([*parts, "\n".join(lines), returns])

    # ---- calling it ----

    def __call__(self, *operands: Any, **keywords: Any) -> Result:
        values = self._bound(operands, keywords)
        common = {name: values.pop(name) for name, *_ in self.common if name in values}
        with Inputs() as inputs:
            texts = [
                (self.parameters[keyword], text)
                for keyword, value in values.items()
                if value is not None
                for text in inputs.texts(self.parameters[keyword], value)
            ]
            try:
                return self._run(texts, common)
            except EsscherError as error:
                inputs.blame(error)
                to_keywords(error, self._flags(), self._keywords())
                raise

    def _keywords(self) -> List[str]:
        return [*self.parameters, *(name for name, *_ in self.common)]

    def _flags(self) -> List[str]:
        own = [p.keyword for p in self.parameters.values() if p.kind == _abi.ES_PARAM_FLAG]
        return own + [name for name, default, *_ in self.common if default is False]

    def _bound(self, operands: Tuple[Any, ...], keywords: Dict[str, Any]) -> Dict[str, Any]:
        """Values by keyword. TypeError, as Python's own, for what does not fit."""
        if len(operands) > (1 if self.operand else 0):
            raise TypeError(f"{self.__name__}() takes its parameters as keywords")
        known = self._keywords()
        for keyword in keywords:
            if keyword not in known:
                raise TypeError(self._unknown(keyword, known))
        if operands and self.operand:
            if self.operand in keywords:
                raise TypeError(f"{self.__name__}() got {self.operand!r} twice")
            keywords[self.operand] = operands[0]
        return keywords

    def _unknown(self, keyword: str, known: List[str]) -> str:
        text = f"{self.__name__}() got an unexpected keyword argument {keyword!r}"
        for p in self.parameters.values():
            if p.renamed_from and python_name(p.renamed_from) == keyword:
                return f"{text}: it is now {p.keyword!r}"
            if p.alias and python_name(p.alias) == keyword:
                return f"{text}: it is called {p.keyword!r}"
        near = nearest(keyword, known)
        return f"{text} (did you mean {near!r}?)" if near else text

    def _run(self, texts: List[Tuple[Parameter, str]], common: Dict[str, Any]) -> Result:
        error = _abi.Error()
        params = _Params(self._study)
        for parameter, text in texts:
            params.set(parameter, text)
        words = _words(self.study, texts, common)
        budget = _abi.MemLimit()
        opts = _options(common, words)
        opts.exec.budget = ctypes.pointer(budget)
        monitor = Monitor()
        opts.progress = address("es_monitor_progress")
        opts.user = monitor.handle
        handle = ctypes.c_void_p()

        def work() -> int:
            status: int = lib.es_study_run(
                ctypes.byref(self._study), params.handle, ctypes.byref(opts),
                ctypes.byref(handle), ctypes.byref(error),
            )  # fmt: skip
            return status

        tell = reporter(self.study, common.get("progress"))
        try:
            status = call_long(work, monitor, tell)
        finally:
            if isinstance(tell, Line):
                tell.close()
        check(status, error)
        _sign(handle, words)
        out = common.get("out")
        path = None if out is None else os.fspath(out)
        return result_of(Answer(handle, (params, budget)), self.study, path)


class _Params:
    """The library's own copy of a study's parameters, freed with this object."""

    def __init__(self, study: _abi.Study) -> None:
        self.handle = ctypes.c_void_p()
        error = _abi.Error()
        check(
            lib.es_params_new(
                study.params, study.size, ctypes.byref(self.handle), ctypes.byref(error)
            ),
            error,
        )

    def __del__(self, free: Callable[[Any], None] = lib.es_params_free) -> None:
        free(self.handle)

    def set(self, parameter: Parameter, text: str) -> None:
        error = _abi.Error()
        name = parameter.name.encode()
        value = text.encode("utf-8", "surrogateescape")
        if b"\0" in value:
            raise ValueError(f"{parameter.keyword} holds a zero byte")
        check(lib.es_params_set(self.handle, name, value, ctypes.byref(error)), error)


def _words(study: str, texts: List[Tuple[Parameter, str]], common: Dict[str, Any]) -> List[str]:
    """The command line that asks the same of the program: run files keep it."""
    words = [study]
    for parameter, text in texts:
        if parameter.kind != _abi.ES_PARAM_FLAG:
            words += ["--" + parameter.name, text]
        elif text == "yes":
            words.append("--" + parameter.name)
    for name, value in common.items():
        if name == "progress" or value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if name == "shard":
            words.append("{}/{}".format(*_shard(value)))
        elif value is not True:
            words.append(str(value))
    return words


def _shard(value: Any) -> Tuple[Any, Any]:
    """Part i of k, of (i, k) or of 'i/k'."""
    parts = value.split("/") if isinstance(value, str) else value
    if not isinstance(parts, (tuple, list)) or len(parts) != 2:
        raise TypeError(f"shard must be (i, k) or 'i/k', and not {value!r}")
    if not isinstance(value, str):
        return parts[0], parts[1]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"shard must be (i, k) or 'i/k', and not {value!r}")
    return int(parts[0]), int(parts[1])


def _options(common: Dict[str, Any], words: List[str]) -> _abi.StudyOpts:
    opts = _abi.StudyOpts()
    opts.seed = whole(common.get("seed") or 0, "seed", 0, 2**64 - 1)
    precision = common.get("precision")
    if precision not in (None, "f32", "f64"):
        raise ValueError(f"precision {precision!r}: expected 'f32' or 'f64'")
    opts.precision = {None: 0, "f32": _abi.ES_F32, "f64": _abi.ES_F64}[precision]
    fill_exec(opts.exec, common.get("threads"), common.get("isa"))
    if common.get("max_memory") is not None:
        opts.max_memory = whole(common["max_memory"], "max_memory", 1)
    opts.dry_run = bool(common.get("dry_run"))
    out = common.get("out")
    opts.out = None if out is None else path_bytes(out)
    opts.resume, opts.force = bool(common.get("resume")), bool(common.get("force"))
    if common.get("shard") is not None:
        shard, shards = _shard(common["shard"])
        opts.shards = whole(shards, "shards", 1)
        opts.shard = whole(shard, "shard", 1, opts.shards)
    opts.line = shlex.join(words).encode("utf-8", "surrogateescape")
    return opts


def _sign(handle: ctypes.c_void_p, words: List[str]) -> None:
    """The parameters of the answer, beside its provenance."""
    texts = (ctypes.c_char_p * len(words))(*(w.encode("utf-8", "surrogateescape") for w in words))
    lib.es_answer_provenance_list(handle, b"argv", texts, len(words))


def studies() -> Dict[str, StudyFunction]:
    """Every study, by its name in Python."""
    return dict(_STUDIES)


def _made() -> Dict[str, StudyFunction]:
    found: Dict[str, StudyFunction] = {}
    while study := lib.es_study_at(len(found)):
        function = StudyFunction(study.contents)
        found[function.__name__] = function
    return found


_STUDIES = _made()
for _name, _study in _STUDIES.items():  # esscher.theory is a study, and has those of the theory lab
    if _study.group == _abi.ES_GROUP_LAB and _study.study != "theory":
        setattr(_STUDIES["theory"], _name, _study)
