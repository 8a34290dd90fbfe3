# SPDX-License-Identifier: Apache-2.0
"""A figure of a table as SVG: one quantity against another, with its error bars.

It is meant for a first look in a notebook. The figures of the report, one set for each study, are
drawn by ``esscher.report()``.
"""

from __future__ import annotations

import html
import importlib
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .results import ColumnInfo

_COLOURS = ("#3b6fb6", "#c4622d", "#3a8f5c", "#8a5aa8", "#a8893a", "#4a9aa8", "#b04a6a", "#777777")
_DASHES = ("", "6 3", "2 3")  # distinguish lines of one colour
_MOST_LINES = len(_COLOURS) * len(_DASHES)
_WIDTH, _HEIGHT = 360, 276  # of the axes
_LEFT, _TOP, _BOTTOM = 70, 16, 48
_LETTER, _LINE = 6.3, 16  # width of a letter on average, of a line of the legend


@dataclass(frozen=True)
class Series:
    """Points of one colour and dash."""

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
    joined: bool  # by lines; numbers that only name something, as heads, are not


def _is_number(array: "np.ndarray[Any, Any]", key: str) -> bool:
    return array.dtype[key].kind in "fi"


def _is_name(array: "np.ndarray[Any, Any]", column: ColumnInfo) -> bool:
    """Whole numbers without a unit that count from 0 or 1: the names of layers and heads."""
    found = np.unique(array[column.key])
    if array.dtype[column.key].kind != "i" or column.unit or not 0 <= found[0] <= 1:
        return False
    return bool(len(found) == found[-1] - found[0] + 1)


def _choose(
    array: "np.ndarray[Any, Any]", about: List[ColumnInfo]
) -> Optional[Tuple[ColumnInfo, ColumnInfo, List[ColumnInfo]]]:
    """x: of the columns that identify rows, the number that takes most values; one that is a mere
    name only if there is no other. y: the first quantity that people are shown, one with an error
    if there is any. The other columns that identify rows make the lines."""
    keys = [c for c in about if c.tells_apart]
    values = {c.key: len(np.unique(array[c.key])) for c in keys if _is_number(array, c.key)}
    numbers = [c for c in keys if values.get(c.key, 0) > 1]
    if not numbers:
        return None
    x = max(numbers, key=lambda c: (not _is_name(array, c), values[c.key]))
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
    return x, y, [c for c in keys if c is not x]


def _groups(
    array: "np.ndarray[Any, Any]", keys: List[ColumnInfo], rows: "np.ndarray[Any, Any]"
) -> Dict[Tuple[str, ...], List[int]]:
    """Rows of one line, by what distinguishes it from others."""
    found: Dict[Tuple[str, ...], List[int]] = {}
    for row in rows:
        found.setdefault(tuple(_brief(array[c.key][row]) for c in keys), []).append(row)
    return found


def _first_of_many(
    array: "np.ndarray[Any, Any]", keys: List[ColumnInfo]
) -> Tuple["np.ndarray[Any, Any]", List[str]]:
    """The rows of as many lines as there are colours, if that can be had by looking at the first
    head or layer alone: every policy is better than every head of the first policies. And what is
    left out by it, in words."""
    rows, left = np.arange(len(array)), []
    for column in [c for c in reversed(keys) if _is_name(array, c)]:
        if len(_groups(array, keys, rows)) <= len(_COLOURS):
            break
        found = np.unique(array[column.key])
        if len(found) > 1:
            rows = rows[array[column.key][rows] == found[0]]
            left.append(f"{column.title} {found[0]} of {len(found)} alone")
    return rows, left


def plot_of(array: "np.ndarray[Any, Any]", about: List[ColumnInfo]) -> Optional[Plot]:
    """The figure of a table; ``None`` if nothing in it is a quantity along another."""
    if not len(array):
        return None
    chosen = _choose(array, about)
    if chosen is None:
        return None
    x, y, keys = chosen
    has_error = bool(y.error) and y.error in (array.dtype.names or ())
    error = array[y.error] if has_error else np.full(len(array), np.nan)
    rows, left = _first_of_many(array, keys)
    groups = _groups(array, keys, rows)
    several = [len({label[i] for label in groups}) > 1 for i in range(len(keys))]
    series = []
    for label, own in list(groups.items())[:_MOST_LINES]:
        parts = zip(keys, label, several)
        name = ", ".join(f"{c.key} {value}" for c, value, differs in parts if differs)
        at = np.array(own)[np.argsort(array[x.key][own], kind="stable")]
        series.append(Series(name, array[x.key][at] * 1.0, array[y.key][at] * 1.0, error[at] * 1.0))
    notes = ["bars: one standard error"] if has_error else []
    if len(groups) > len(series):
        notes.append(f"the first {len(series)} of {len(groups)} lines")
    missing = sum(int((~np.isfinite(s.y) | ~np.isfinite(s.x)).sum()) for s in series)
    if missing:
        notes.append(f"{missing} rows have no number")
    caption = "; ".join([f"{y.title} against {x.title}", *left, *notes])
    return Plot(x, y, series, caption, not _is_name(array, x))


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


class Axis:
    """Numbers to pixels: logarithmic where all are positive and span more than a factor of ten.
    ``whole``: there is nothing between whole numbers. Without any number it is that of 0."""

    def __init__(
        self, values: "np.ndarray[Any, Any]", low: float, high: float, whole: bool = False
    ) -> None:
        values = values[np.isfinite(values)]
        values = values if len(values) else np.zeros(1)
        self.log = bool((values > 0).all() and values.max() / 10 > values.min())
        # differences of the largest numbers are no numbers any more
        self._unit = 2.0**-10 if not self.log and np.abs(values).max() > 1e300 else 1.0
        ends = self._scaled(values.min()), self._scaled(values.max())
        margin = 0.04 * (ends[1] - ends[0]) or 0.5 * abs(ends[0]) or 0.5
        self._from, self._to = ends[0] - margin, ends[1] + margin
        self._low, self._high = low, high
        self._whole = whole

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else float(value) * self._unit

    def at(self, value: float) -> float:
        """Where a number lies; what is not on a logarithmic axis lies at its lower end."""
        if self.log and value <= 0:
            return self._low
        share = (self._scaled(value) - self._from) / (self._to - self._from)
        return self._low + min(max(share, 0.0), 1.0) * (self._high - self._low)

    def ticks(self) -> List[float]:
        """Where numbers stand at the axis."""
        if self.log:
            decades = range(max(math.ceil(self._from), -307), min(math.floor(self._to), 308) + 1)
            found = [10.0**k for k in decades]
            if len(found) > 2:
                return found[:: 1 + len(found) // 7]
            lowest = math.floor(self._from)
            fine = [m * 10.0**k for k in range(lowest, lowest + 4) for m in (1, 2, 5)]
            return [t for t in fine if self._from <= math.log10(t) <= self._to]
        step = 10.0 ** math.floor(math.log10(self._to - self._from))
        step *= next(m for m in (0.2, 0.5, 1.0, 2.0) if (self._to - self._from) / (m * step) <= 8)
        step = max(step, 1.0) if self._whole else step
        first = math.ceil(self._from / step)
        found = [i * step / self._unit for i in range(first, math.floor(self._to / step) + 1)]
        return [t for t in found if math.isfinite(t)]


def svg(plot: Plot) -> str:
    """The figure itself. Texts and axes take the colour of the page's text."""
    every = np.concatenate
    finite = [np.isfinite(s.y) & np.isfinite(s.x) for s in plot.series]
    ys = every([s.y[f] for s, f in zip(plot.series, finite)])
    if not len(ys):
        return ""
    errors = every([s.error[f] for s, f in zip(plot.series, finite)])
    ends = every([ys - errors, ys + errors])
    if (ys > 0).all():  # a bar below 0 is no reason to give up a logarithmic axis
        ends = ends[ends > 0]
    x = Axis(every([s.x for s in plot.series]), _LEFT, _LEFT + _WIDTH, whole=not plot.joined)
    y = Axis(every([ys, ends[np.isfinite(ends)]]), _TOP + _HEIGHT, _TOP)
    body = [*_frame(plot, x, y)]
    for number, series in enumerate(plot.series):
        body += _drawn(series, x, y, number, plot.joined)
    # the legend takes what it needs: nothing of it is cut off
    longest = max(len(series.name) for series in plot.series)
    width = _LEFT + _WIDTH + (30 + math.ceil(_LETTER * longest) if longest else 20)
    height = _TOP + max(_HEIGHT, _LINE * len(plot.series)) + _BOTTOM
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{html.escape(plot.caption)}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(body)}</svg>'
    )


def draw(plot: Plot, ax: Any) -> Any:
    """The figure in axes of matplotlib, new ones if there are none."""
    if ax is None:
        pyplot = importlib.import_module("matplotlib.pyplot")
        ax = pyplot.figure(layout="constrained").add_subplot()
    for number, series in enumerate(plot.series):
        bars = series.error if np.isfinite(series.error).any() else None
        ax.errorbar(
            series.x,
            series.y,
            yerr=bars,
            marker="o",
            markersize=3.5,
            linestyle="-" if plot.joined else "none",
            color=_COLOURS[number % len(_COLOURS)],
            label=series.name or None,
        )
    for numbers, scale in (
        (np.concatenate([s.x for s in plot.series]), ax.set_xscale),
        (np.concatenate([s.y for s in plot.series]), ax.set_yscale),
    ):
        if Axis(numbers, 0.0, 1.0).log:
            scale("log")
    ax.set_xlabel(f"{plot.x.title} ({plot.x.unit})" if plot.x.unit else plot.x.title)
    ax.set_ylabel(f"{plot.y.title} ({plot.y.unit})" if plot.y.unit else plot.y.title)
    if len(plot.series) > 1:
        ax.legend(fontsize="small")
    return ax


def _named(column: ColumnInfo) -> str:
    return html.escape(f"{column.title} ({column.unit})" if column.unit else column.title)


def _frame(plot: Plot, x: Axis, y: Axis) -> List[str]:
    left, bottom, right = _LEFT, _TOP + _HEIGHT, _LEFT + _WIDTH
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
        f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">{_named(plot.x)}</text>'
    )
    parts.append(
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{_named(plot.y)}</text>'
    )
    return parts


def _drawn(series: Series, x: Axis, y: Axis, number: int, joined: bool) -> List[str]:
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS)]
    style = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    points = [
        (x.at(a), y.at(b), b, e)
        for a, b, e in zip(series.x, series.y, series.error)
        if math.isfinite(a) and math.isfinite(b)
    ]
    parts = []
    if points and joined:
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py, _, _ in points)
        parts.append(f'<path d="M{path}" fill="none" {style} stroke-width="1.5"/>')
    for px, py, value, error in points:
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>')
        if math.isfinite(error):
            ends = f"M{px:.1f} {y.at(value - error):.1f}V{y.at(value + error):.1f}"
            parts.append(f'<path d="{ends}" stroke="{colour}"/>')
    if series.name:
        place = _TOP + 10 + _LINE * number
        side = _LEFT + _WIDTH + 8
        parts.append(f'<path d="M{side} {place - 4}h14" {style} stroke-width="2"/>')
        parts.append(f'<text x="{side + 18}" y="{place}">{html.escape(series.name)}</text>')
    return parts
