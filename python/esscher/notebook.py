# SPDX-License-Identifier: Apache-2.0
"""A result as a notebook shows it: findings, a figure, the main table."""

from __future__ import annotations

import ctypes
import html
from typing import Any, List

import numpy as np

from . import _abi
from ._library import lib
from .figure import plot_of, svg
from .results import ColumnInfo, Result

_MOST_ROWS = 20


def as_html(result: Result) -> str:
    """HTML for ``_repr_html_``."""
    parts = [f"<p><b>{html.escape(result.command)}</b></p>"]
    if result.refuted:
        parts.append("<p><b>A check that was asked for has failed.</b></p>")
    if result.findings:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in result.findings)
        parts.append(f"<ul>{items}</ul>")
    key = result.main
    if key is not None:
        array, about = result.tables[key], list(result.columns(key).values())
        plot = plot_of(array, about)
        drawn = svg(plot) if plot else ""
        if plot and drawn:
            parts.append(
                f"<figure>{drawn}<figcaption>{html.escape(plot.caption)}</figcaption></figure>"
            )
        parts.append(_table(array, about))
    others = [name for name in result.tables if name != key]
    if others:
        parts.append(f"<p>Further tables: {html.escape(', '.join(others))}</p>")
    return f'<div class="esscher">{"".join(parts)}</div>'


def _table(array: "np.ndarray[Any, Any]", about: List[ColumnInfo]) -> str:
    shown = [c for c in about if c.shown]
    head = "".join(
        f'<th title="{html.escape(c.definition)}">{html.escape(c.title)}'
        f"{'<br>' + html.escape(c.unit) if c.unit else ''}</th>"
        for c in shown
    )
    cells = [_cells(array, c) for c in shown]
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(column[i])}</td>" for column in cells) + "</tr>"
        for i in range(min(len(array), _MOST_ROWS))
    )
    left = len(array) - _MOST_ROWS
    note = f"<p>{left} more rows</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


def _cells(array: "np.ndarray[Any, Any]", column: ColumnInfo) -> List[str]:
    """Numbers as the library writes them everywhere, with their standard errors."""
    values = array[column.key]
    if values.dtype == object:
        return [str(v) for v in values[:_MOST_ROWS]]
    values = np.ascontiguousarray(values, dtype=np.float64)
    has_error = bool(column.error) and column.error in (array.dtype.names or ())
    errors = np.ascontiguousarray(
        array[column.error] if has_error else np.full(len(array), np.nan), dtype=np.float64
    )
    form = ctypes.c_int(0)
    lib.es_format_parse(column.format.encode(), ctypes.byref(form))
    chosen = lib.es_format_choose(
        form.value, values.ctypes.data, errors.ctypes.data if has_error else None, len(values)
    )
    return [_number(chosen, v, e) for v, e in zip(values[:_MOST_ROWS], errors)]


def _number(form: _abi.FormatForm, value: float, error: float) -> str:
    buffer = ctypes.create_string_buffer(_abi.ES_FORMAT_SIZE)
    lib.es_format_put(form, value, error, buffer, _abi.ES_FORMAT_SIZE)
    return buffer.value.decode("utf-8", "replace")
