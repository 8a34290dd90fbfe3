# SPDX-License-Identifier: Apache-2.0
"""Checks the output of an attention kernel in a test."""

from __future__ import annotations

from typing import Any


def assert_attention(
    q: Any, k: Any, v: Any, out: Any, *, causal: bool = False, **options: Any
) -> None:
    """Fails unless ``out`` is the attention of these queries, keys and values.

    Each row may be off by what a kernel of its number format may be. The message of the failure
    says what the output is instead, where a known mistake explains it.

    Args:
        q: queries, (m, d), (heads, m, d) or (batch, heads, m, d).
        k: keys; fewer heads than queries have are shared by groups of query heads.
        v: values.
        out: the output of the kernel.
        causal: a query sees its own key and those before it.
        options: of ``esscher.measure``, for example ``scale``, ``window``, ``score_cap``,
            ``compare_dtype`` and ``tolerance``.

    Raises:
        AssertionError: with the verdict.
    """
    from . import studies

    result = studies()["measure"](q=q, k=k, v=v, compare=out, causal=causal, **options)
    if result.refuted:
        raise AssertionError(" ".join(result.findings))
