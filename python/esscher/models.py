# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a model on disk: its tokens, its hidden states, and the studies that run one.

A model is a folder of a checkpoint, a GGUF file, or ``org/name`` in the cache of the Hugging Face
hub::

    ids = esscher.tokenize("models/pebble", "Call me Ishmael.")
    states = esscher.encode("models/pebble", "Call me Ishmael.")      # (layers + 1, n, hidden)
    esscher.models.probe(model="models/pebble", text="book.txt")      # the same as esscher.probe

The flat names of the package stay.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _abi
from ._calls import Monitor, call_long, fill_exec
from ._library import lib
from .errors import ArgumentError, check
from .studies import studies
from .watch import watch

__all__ = ["encode", "tokenize", "watch"]

PathLike = Union[str, "os.PathLike[str]"]


def _located(model: PathLike) -> bytes:
    """The path of a model, which may be named as on the hub."""
    name = os.fsencode(model)
    if os.path.exists(name):
        return name
    error, out = _abi.Error(), ctypes.create_string_buffer(4096)
    check(lib.es_model_locate(name, out, len(out), ctypes.byref(error)), error)
    return out.value


class _Tokenizer:
    """The tokenizer of a model, released with this object."""

    def __init__(self, model: PathLike) -> None:
        self.handle = ctypes.c_void_p()
        error = _abi.Error()
        path = _located(model)
        check(
            lib.es_tokenizer_open(path, None, ctypes.byref(self.handle), ctypes.byref(error)), error
        )

    def __enter__(self) -> "_Tokenizer":
        return self

    def __exit__(self, *_: object) -> None:
        lib.es_tokenizer_free(self.handle)

    def ids(self, text: str, special: bool) -> "NDArray[np.int64]":
        data = text.encode("utf-8", "surrogateescape")
        opts, tokens, error = _abi.EncodeOpts(), _abi.TokenList(), _abi.Error()
        opts.no_specials = not special
        opts.invalid = 1  # what is no text is refused: a str has none but by its own fault
        try:
            check(
                lib.es_tokenizer_encode(
                    self.handle, data, len(data), ctypes.byref(opts), ctypes.byref(tokens),
                    ctypes.byref(error),
                ),
                error,
            )  # fmt: skip
            return np.array([tokens.tokens[i].id for i in range(tokens.count)], dtype=np.int64)
        finally:
            lib.es_token_list_free(ctypes.byref(tokens))

    def framed(self, text: str) -> "NDArray[np.int64]":
        """As a model reads a block: with what stands around it."""
        info = lib.es_tokenizer_frame(self.handle)
        before, after = info.prefix[: info.prefix_count], info.suffix[: info.suffix_count]
        ids: NDArray[np.int64] = np.concatenate(
            [before, self.ids(text, special=False), after]
        ).astype(np.int64)
        return ids


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, and not {type(text).__name__}")
    return text


def tokenize(model: PathLike, text: str, *, special: bool = True) -> "NDArray[np.int64]":
    """The ids of a text's tokens, as the checkpoint's own tokenizer makes them.

    Args:
        model: a folder, a file of a tokenizer, a GGUF file, or ``org/name`` on the hub.
        text: the text itself, not the name of a file.
        special: with the special tokens that the model expects around a text.
    """
    with _Tokenizer(model) as tokenizer:
        return tokenizer.ids(_text(text), bool(special))


def encode(
    model: PathLike,
    text: Optional[str] = None,
    *,
    ids: Optional[ArrayLike] = None,
    logits: bool = False,
    precision: str = "f32",
    threads: Optional[int] = None,
) -> Any:
    """Hidden states of one block of text, or logits of the next token.

    Args:
        model: a folder of a checkpoint, a GGUF file, or ``org/name`` on the hub.
        text: the text itself; the tokenizer's special tokens are added around it.
        ids: token ids instead of a text, used as they are.
        logits: ``True``: (n, vocabulary) logits of the token after each, of a decoder; else all
            hidden states, (layers + 1, n, hidden), embeddings first.
        precision: of weights, arithmetic and result: ``"f32"`` or ``"f64"``.
        threads: how many work; by default all processors.

    Raises:
        RangeError: the text is longer than the model's positions.
    """
    if (text is None) == (ids is None):
        raise ArgumentError(
            "text or ids", rule="python.encode", hint="give one of text= and ids="
        )
    if precision not in ("f32", "f64"):
        raise ValueError(f"precision {precision!r}: expected 'f32' or 'f64'")
    if ids is None:
        with _Tokenizer(model) as tokenizer:
            tokens = tokenizer.framed(_text(text)).astype(np.int32)
    else:
        tokens = np.ascontiguousarray(ids, dtype=np.int32).reshape(-1)
    return _forward(_located(model), tokens, bool(logits), precision, threads)


def _forward(
    path: bytes, tokens: "NDArray[np.int32]", logits: bool, precision: str, threads: Optional[int]
) -> Any:
    error, opts, handle = _abi.Error(), _abi.ModelOpts(), ctypes.c_void_p()
    run = _abi.Exec()
    fill_exec(run, threads, None)
    opts.precision = {"f32": _abi.ES_F32, "f64": _abi.ES_F64}[precision]
    opts.threads = run.threads
    check(
        lib.es_model_open(path, ctypes.byref(opts), ctypes.byref(handle), ctypes.byref(error)),
        error,
    )
    try:
        config = lib.es_model_config_of(handle).contents
        n = len(tokens)
        shape = (n, config.vocab) if logits else (config.layers + 1, n, config.hidden)
        result = np.empty(shape, {"f32": np.float32, "f64": np.float64}[precision])
        block = _abi.ModelBlock()
        block.ids, block.n = tokens.ctypes.data, n
        setattr(block, "token_logits" if logits else "hidden", result.ctypes.data)

        def work() -> int:
            status: int = lib.es_model_forward(
                handle, ctypes.byref(block), 1, ctypes.byref(run), ctypes.byref(error)
            )
            return status

        check(call_long(work, Monitor()), error)
        return result
    finally:
        lib.es_model_close(handle)


def _studies_here() -> None:
    """Adds the studies that run a model to this module."""
    for name, study in studies().items():
        if study.group == _abi.ES_GROUP_MODEL:
            globals()[name] = study
            __all__.append(name)


_studies_here()


def __dir__() -> List[str]:
    """What is meant for users: without the modules that this one imports."""
    return sorted(__all__)
