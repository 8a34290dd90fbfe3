# SPDX-License-Identifier: Apache-2.0
"""Arrays of other people as matrices of the library: without a copy wherever that can be."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from . import _abi
from .errors import ArgumentTypeError

_DTYPES = {4: _abi.ES_F32, 8: _abi.ES_F64}  # by the size of a number


def plain(x: Any, name: str) -> "np.ndarray[Any, Any]":
    """``x`` as an array of NumPy. PyTorch's tensors on the CPU share their memory with it."""
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{name} is a masked array, whose mask would be lost",
            rule="python.numbers",
            hint="fill it first",
        )
    if isinstance(x, np.ndarray):
        return x
    if callable(getattr(x, "detach", None)):  # a tensor of PyTorch, which may need its gradient
        x = x.detach()
        if str(x.dtype) == "torch.bfloat16":  # NumPy has no such numbers
            x = x.float()
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def floats(x: Any, name: str) -> "np.ndarray[Any, Any]":
    """``x`` with numbers that the library reads: f16 as f32, others that are not f32 as f64.

    Strides may be anything, and nothing is ever written.
    """
    array = plain(x, name)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f" and size in _DTYPES:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if (kind == "f" and size == 2) or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if kind in "fiub":
        return array.astype(np.float64)
    raise no_numbers(name, array)


def like(array: "np.ndarray[Any, Any]", x: Any, typed: bool) -> Any:
    """``array`` as ``x`` is: a tensor if that is one; ``typed``: of its type, if that is real."""
    if callable(getattr(x, "detach", None)):
        torch = importlib.import_module("torch")  # which exists, since x is one of its tensors
        made = torch.from_numpy(np.ascontiguousarray(array))
        return made.to(x.dtype) if typed and x.dtype.is_floating_point else made
    dtype = getattr(x, "dtype", None)
    if not typed or not isinstance(dtype, np.dtype):
        return array
    if dtype.name == "bfloat16":
        return array.astype(dtype)
    real = dtype.kind == "f" and dtype.itemsize <= 8
    return array.astype(dtype.newbyteorder("="), copy=False) if real else array


def no_numbers(name: str, array: "np.ndarray[Any, Any]") -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} has dtype {array.dtype}",
        rule="python.numbers",
        hint="expected real numbers",
    )


def matrix(array: "np.ndarray[Any, Any]", offset: int = 0) -> _abi.View:
    """The last two dimensions of an array, ``offset`` bytes behind its first number."""
    rows, cols = array.shape[-2:]
    row_stride, col_stride = array.strides[-2:]
    dtype = _DTYPES[array.dtype.itemsize]
    return _abi.View(array.ctypes.data + offset, dtype, rows, cols, row_stride, col_stride)
