# SPDX-License-Identifier: Apache-2.0
"""What a key-value cache gives back for the rows it is given, in NumPy (docs/CACHE.md).

Arithmetic is f32, each operation rounded to nearest, ties to even; scales are f16. A block is 32
consecutive numbers of a row; the last block of a row may be shorter.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np

Array = Any  # an array of NumPy
F32 = np.float32
BLOCK = 32
LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=F32
)


def _half(x: Array) -> Array:
    """Rounds to f16 and back."""
    return x.astype(np.float16).astype(F32)


def _inverse(x: Array) -> Array:
    """Returns 1/x, and 0 where x is 0."""
    return np.where(x == 0, F32(0), F32(1) / np.where(x == 0, F32(1), x)).astype(F32)


def _largest(x: Array) -> Array:
    """Returns the number of largest size in each row, with its sign; of equal ones the first."""
    at = np.argmax(np.abs(x), axis=-1)
    return np.take_along_axis(x, at[..., None], axis=-1)


def _bf16(x: Array) -> Array:
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(F32)


def _e4m3(x: Array) -> Array:
    """Rounds to the nearest number of e4m3fn, saturated at 448."""
    size = np.minimum(np.abs(x), F32(448))
    _, exponent = np.frexp(size)
    step = np.ldexp(F32(1), np.maximum(exponent - 4, -9)).astype(F32)
    return np.copysign(np.round(size / step) * step, x).astype(F32)


def _q8_0(x: Array) -> Array:
    d = np.max(np.abs(x), axis=-1, keepdims=True) / F32(127)
    scaled = x * _inverse(d)
    code = np.trunc(np.abs(scaled) + F32(0.5))  # halves away from 0
    exact = np.abs(scaled) - np.trunc(np.abs(scaled)) < F32(0.5)  # the sum above may round up
    code = np.where(exact, np.trunc(np.abs(scaled)), code)
    return np.copysign(code, scaled) * _half(d)


def _symmetric(steps: int) -> Callable[[Array], Array]:
    def rounder(x: Array) -> Array:
        d = _largest(x) / F32(-steps)
        code = np.trunc(x * _inverse(d) + F32(steps + 0.5))
        return (np.minimum(code, F32(2 * steps - 1)) - F32(steps)) * _half(d)

    return rounder


def _asymmetric(steps: int) -> Callable[[Array], Array]:
    def rounder(x: Array) -> Array:
        low = np.min(x, axis=-1, keepdims=True)
        d = (np.max(x, axis=-1, keepdims=True) - low) / F32(steps)
        code = np.minimum(np.trunc((x - low) * _inverse(d) + F32(0.5)), F32(steps))
        return code * _half(d) + _half(low)

    return rounder


def _iq4_nl(x: Array) -> Array:
    top = _largest(x)
    scaled = x * _inverse(top / F32(-127))
    upper = np.clip(np.searchsorted(LEVELS, scaled, side="left"), 1, 15)
    take_upper = LEVELS[upper] - scaled <= scaled - LEVELS[upper - 1]
    code = LEVELS[np.where(take_upper, upper, upper - 1)]
    above = np.zeros(x.shape[:-1], dtype=F32)
    below = np.zeros(x.shape[:-1], dtype=F32)
    for i in range(x.shape[-1]):  # in order: sums in f32 depend on it
        weight = x[..., i] * x[..., i]
        above = above + weight * code[..., i] * x[..., i]
        below = below + weight * code[..., i] * code[..., i]
    d = above * _inverse(below)
    d = np.where(np.abs(top[..., 0]) < F32(1e-15), F32(0), d)
    return code * _half(d[..., None].astype(F32))


BLOCKS: Dict[str, Callable[[Array], Array]] = {
    "q8_0": _q8_0,
    "q5_1": _asymmetric(31),
    "q5_0": _symmetric(16),
    "q4_1": _asymmetric(15),
    "q4_0": _symmetric(8),
    "iq4_nl": _iq4_nl,
}


def hadamard(x: Array) -> Array:
    """Multiplies rows by the orthonormal Walsh-Hadamard matrix, in f64."""
    d = x.shape[-1]
    size = d & -d
    y = x.astype(np.float64).reshape(*x.shape[:-1], d // size, size)
    half = 1
    while half < size:
        pairs = y.reshape(*y.shape[:-1], size // (2 * half), 2, half)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        y = np.stack([a + b, a - b], axis=-2).reshape(y.shape)
        half *= 2
    return (y / np.sqrt(size)).reshape(x.shape)


def _round(name: str, option: str, x: Array) -> Array:
    """Rounds rows of f32 by the type `name`."""
    if name == "f16":
        return _half(x)
    if name == "bf16":
        return _bf16(np.ascontiguousarray(x))
    if name == "fp8":
        largest = F32(np.max(np.abs(x), initial=0))
        scale = largest / F32(448) if option == "tensor" else F32(option or 1)
        return _e4m3(x / scale) * scale if scale else x * F32(0)
    out = np.empty_like(x)
    for first in range(0, x.shape[-1], BLOCK):
        block = slice(first, first + BLOCK)
        out[..., block] = BLOCKS[name](x[..., block])
    return out


def hold(kind: str, rows: Array) -> Array:
    """Returns what a cache of this number type gives back for rows (..., d).

    ``fp8:tensor`` has one scale for all rows, so give it all heads and places of a layer. Rows that
    are rotated (``+hadamard``) come back in f64. KIVI's types depend on the query that reads them,
    and are not supported here.
    """
    if kind == "f32":
        return rows
    name, _, rotation = kind.partition("+")
    name, _, option = name.partition(":")
    if name not in ("f16", "bf16", "fp8", *BLOCKS) or rotation not in ("", "h", "hadamard"):
        raise NotImplementedError(f"number type {kind!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        if not rotation:
            return _round(name, option, rows.astype(F32))
        return hadamard(_round(name, option, hadamard(rows.astype(F32)).astype(F32)))
