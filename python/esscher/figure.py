"""A figure of a table as SVG: one quantity against another, with its error bars.

It is meant for a first look in a notebook. The figures of the report, one set for each study, are
drawn by ``esscher.report()``.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .results import ColumnInfo

_COLOURS = ("#3b6fb6", "#c4622d", "#3a8f5c", "#8a5aa8", "#a8893a", "#4a9aa8", "#b04a6a", "#777777")
_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 130, 16, 48


@dataclass(frozen=True)
class Series:
    """Points that are joined by a line."""

    name: str
    x: "np.ndarray[Any, Any]"
    y: "np.ndarray[Any, Any]"
    error: "np.ndarray[Any, Any]"  # NaN where there is none


@dataclass(frozen=True)
class Plot:
    """What is drawn, before anything is drawn."""

    x: ColumnInfo
    y: ColumnInfo
    series: List[Series]
    caption: str


def _is_number(array: "np.ndarray[Any, Any]", key: str) -> bool:
    return array.dtype[key].kind in "fi"


def _choose(
    array: "np.ndarray[Any, Any]", about: List[ColumnInfo]
) -> Optional[Tuple[ColumnInfo, ColumnInfo, List[str]]]:
    """x: of the columns that tell rows apart, the number that takes most values. y: the first
    quantity that people are shown, one with an error if there is any. The other columns that tell
    rows apart make the lines."""
    keys = [c for c in about if c.tells_apart]
    numbers = [c for c in keys if _is_number(array, c.key)]
    values = {c.key: len(np.unique(array[c.key])) for c in numbers}
    if not numbers or max(values.values()) < 2:
        return None
    x = max(numbers, key=lambda c: values[c.key])
    shown = [
        c
        for c in about
        if c.shown and not c.tells_apart and array.dtype[c.key].kind == "f"
        and np.isfinite(array[c.key]).any()
    ]  # fmt: skip
    with_error = [c for c in shown if c.error and c.error in (array.dtype.names or ())]
    y = next(iter([*with_error, *shown]), None)
    if y is None:
        return None
    return x, y, [c.key for c in keys if c is not x]


def plot_of(array: "np.ndarray[Any, Any]", about: List[ColumnInfo]) -> Optional[Plot]:
    """The figure of a table; ``None`` if nothing in it is a quantity along another."""
    if not len(array):
        return None
    chosen = _choose(array, about)
    if chosen is None:
        return None
    x, y, lines = chosen
    has_error = bool(y.error) and y.error in (array.dtype.names or ())
    error = array[y.error] if has_error else np.full(len(array), np.nan)
    groups: Dict[Tuple[str, ...], List[int]] = {}
    for row in range(len(array)):
        groups.setdefault(tuple(_brief(array[key][row]) for key in lines), []).append(row)
    series = []
    for label, rows in list(groups.items())[: len(_COLOURS)]:
        name = ", ".join(f"{key} {value}" for key, value in zip(lines, label))
        at = np.array(rows)[np.argsort(array[x.key][rows], kind="stable")]
        series.append(Series(name, array[x.key][at] * 1.0, array[y.key][at] * 1.0, error[at] * 1.0))
    caption = f"{y.title} against {x.title}"
    caption += "; bars: one standard error" if has_error else ""
    if len(groups) > len(series):
        caption += f"; the first {len(series)} of {len(groups)} lines"
    missing = sum(int((~np.isfinite(s.y)).sum()) for s in series)
    if missing:
        caption += f"; {missing} rows have no number"
    return Plot(x, y, series, caption)


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


class Axis:
    """Numbers to pixels: logarithmic where all are positive and span more than a factor of ten."""

    def __init__(self, values: "np.ndarray[Any, Any]", low: float, high: float) -> None:
        values = values[np.isfinite(values)]
        self.log = bool((values > 0).all() and values.max() > 10 * values.min())
        ends = self._scaled(values.min()), self._scaled(values.max())
        margin = 0.04 * (ends[1] - ends[0]) or 0.5 * abs(ends[0]) or 0.5
        self._from, self._to = ends[0] - margin, ends[1] + margin
        self._low, self._high = low, high

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else float(value)

    def at(self, value: float) -> float:
        """Where a number lies; what is not on a logarithmic axis lies at its lower end."""
        if self.log and value <= 0:
            return self._low
        share = (self._scaled(value) - self._from) / (self._to - self._from)
        return self._low + min(max(share, 0.0), 1.0) * (self._high - self._low)

    def ticks(self) -> List[float]:
        if self.log:
            decades = range(max(math.ceil(self._from), -307), min(math.floor(self._to), 308) + 1)
            found = [10.0**k for k in decades]
            if len(found) > 2:
                return found[:: 1 + len(found) // 7]
            lowest = math.floor(self._from)
            fine = [m * 10.0**k for k in range(lowest, lowest + 4) for m in (1, 2, 5)]
            return [t for t in fine if self._from <= math.log10(t) <= self._to]
        step = 10.0 ** math.floor(math.log10(self._to - self._from))
        step *= next(m for m in (0.2, 0.5, 1.0) if (self._to - self._from) / (m * step) <= 8)
        first = math.ceil(self._from / step)
        return [i * step for i in range(first, math.floor(self._to / step) + 1)]


def svg(plot: Plot) -> str:
    """The figure itself. Texts and axes take the colour of the page's text."""
    every = np.concatenate
    finite = [np.isfinite(s.y) for s in plot.series]
    ys = every([s.y[f] for s, f in zip(plot.series, finite)])
    if not len(ys):
        return ""
    errors = every([s.error[f] for s, f in zip(plot.series, finite)])
    ends = every([ys - errors, ys + errors])
    if (ys > 0).all():  # a bar below 0 is no reason to give up a logarithmic axis
        ends = ends[ends > 0]
    x = Axis(every([s.x for s in plot.series]), _LEFT, _WIDTH - _RIGHT)
    y = Axis(every([ys, ends[np.isfinite(ends)]]), _HEIGHT - _BOTTOM, _TOP)
    body = [*_frame(plot, x, y)]
    for number, series in enumerate(plot.series):
        body += _drawn(series, x, y, _COLOURS[number], number)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="{html.escape(plot.caption)}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(body)}</svg>'
    )


def _named(column: ColumnInfo) -> str:
    return html.escape(f"{column.title} ({column.unit})" if column.unit else column.title)


def _frame(plot: Plot, x: Axis, y: Axis) -> List[str]:
    left, bottom, right = _LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [f'<path d="M{left} {_TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>']
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(f'<path d="M{at:.1f} {bottom}v4" stroke="currentColor"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<path d="M{left} {at:.1f}h-4" stroke="currentColor"/>')
        parts.append(f'<text x="{left - 7}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (left + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">{_named(plot.x)}</text>'
    )
    parts.append(
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{_named(plot.y)}</text>'
    )
    return parts


def _drawn(series: Series, x: Axis, y: Axis, colour: str, number: int) -> List[str]:
    points = [
        (x.at(a), y.at(b), b, e)
        for a, b, e in zip(series.x, series.y, series.error)
        if math.isfinite(b)
    ]
    parts = []
    if points:
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py, _, _ in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for px, py, value, error in points:
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>')
        if math.isfinite(error):
            ends = f"M{px:.1f} {y.at(value - error):.1f}V{y.at(value + error):.1f}"
            parts.append(f'<path d="{ends}" stroke="{colour}"/>')
    if series.name:
        place = _TOP + 10 + 16 * number
        side = _WIDTH - _RIGHT + 10
        parts.append(f'<path d="M{side} {place - 4}h14" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{side + 18}" y="{place}">{html.escape(series.name)}</text>')
    return parts
