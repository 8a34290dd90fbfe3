# SPDX-License-Identifier: Apache-2.0
"""Checks the output of an attention kernel in a test."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

import numpy as np

from .results import Result


def assert_attention(
    q: Any, k: Any, v: Any, out: Any, *, causal: bool = False, **options: Any
) -> None:
    """Fails unless ``out`` is the attention of these queries, keys and values.

    Each row may be off by what a kernel of its number format may be. The message of the failure
    says what the output is instead, where a known mistake explains it. Of a batch every entry is
    checked, and the message has a line for each that fails.

    Args:
        q: queries, (m, d), (heads, m, d) or (batch, heads, m, d).
        k: keys; fewer heads than queries have are shared by groups of query heads.
        v: values.
        out: the output of the kernel.
        causal: a query sees its own key and those before it.
        options: of ``esscher.measure``, for example ``scale``, ``window``, ``score_cap``,
            ``compare_dtype`` and ``tolerance``. ``batch`` checks one entry of a batch alone.

    Raises:
        AssertionError: with the verdict.
    """
    from . import studies

    measure = studies()["measure"]
    failures: List[str] = []
    for entry in _entries(q, options):
        chosen: Dict[str, Any] = {} if entry is None else {"batch": entry}
        result = measure(q=q, k=k, v=v, compare=out, causal=causal, **options, **chosen)
        if result.refuted:
            verdict = _verdict(result, named=isinstance(out, (str, bytes, os.PathLike)))
            failures.append(verdict if entry is None else f"entry {entry}: {verdict}")
    if failures:
        raise AssertionError("\n".join(failures))


def _entries(q: Any, options: Dict[str, Any]) -> List[Optional[int]]:
    """The entries of a batch to check one by one; one ``None`` where there is no batch of several."""
    shape = np.shape(q)
    if len(shape) != 4 or shape[0] < 2 or options.get("batch") is not None:
        return [None]
    return list(range(shape[0]))


def _verdict(result: Result, named: bool) -> str:
    """The findings about the comparison, which come first: the verdict and, after a mismatch, how
    far the output is off. ``named``: the output is a file, whose name they may say."""
    mismatch = result.findings[0].startswith("MISMATCH")
    text = " ".join(result.findings[: 2 if mismatch else 1])
    verdict = result.tables["compare"]
    if not mismatch and verdict["passed"][0] == 0:
        error, tolerance = verdict["relative_l2"][0], verdict["tolerance"][0]
        text += f" The relative L2 error {error:.3g} is above the tolerance {tolerance:g}."
    return text if named else re.sub(r"\bcompare\.npy\b", "out", text)
