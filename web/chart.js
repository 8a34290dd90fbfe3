/* SPDX-License-Identifier: Apache-2.0 */
// chart.js : from a figure, as the files in figures/ describe it, to a Vega-Lite specification.
//
// A figure is data:
//
//   { title, caption, table,                 table: name of the table that holds its numbers
//     x: {title, log, domain, names, whole}, y: ...  names: of the whole numbers from 1 on; whole: ticks at those only
//     series: [{name, colour, dash}],        colour: number of the palette; what legend buttons switch
//     layers: [{kind, rows}],                rows: {series, x, y, lo, hi, label, tip: [[name, text], ...]}
//     direct,                                its labels say what series are: no key
//     open }                                 shown at once; else only the first of a run is (gallery.js)
//
// An axis with `share` is that of shares: it ends at 0 and 1, and so do intervals on it. A figure with `tenth` has a line
// at 0.1, what counts as near. A layer of "cells" or "tiles" with `log` has colours by logarithm, one with `classes`,
// [{name, colour}], colours by each row's `class`; `smooth` tiles are drawn
// without edges, `unseen` ones not at all: they answer the pointer.
//
// kinds: "points"; "bars", intervals lo..hi; "band", the same as an area; "line", through rows in order of x, or of
// `k` where rows have one, in grey if the layer is `plain`; "label", text; "cells", a heat map of named rows and
// columns, with `value` for the colour and `sign`, a word in the cell, which needs no value if it is "any"; "tiles", one
// over numbers, from x, y to x2, y2, on which lines can be drawn.
//
// The CSV calls x and y by their axis' `column`. Marks that stand side by side have an x that only the eye needs: what
// they are `of`, {layer, head}, is in the CSV instead.
//
// A layer that is `aside` draws what other layers have already, such as lines between their points: the CSV leaves it out. A
// line without a name is in no key.
//
// Rows with a `pick` can be clicked: what it names becomes the run's selection (selection.js), which is marked wherever
// rows have its `at`.
//
// Every row is drawn. What cannot be is counted, and the figure says so: missing numbers, and on logarithmic axes what
// is not positive. A series is known by its colour and by the shape of its points, or, without any, the dashes of its
// lines.
import { extent, highest, isNumber, lowest, show, superscript } from "./tables.js";

const drawable = (axis, v) => isNumber(v) && !(axis.log && v <= 0);

// Lower ends of intervals at or below zero reach the bottom of a logarithmic axis.
function clipLow(axis, layers) {
  if (!axis.log) return null;
  const positive = layers.flatMap((l) => l.rows.flatMap((r) => [r.y, r.lo, r.hi])).filter((v) => isNumber(v) && v > 0);
  return positive.length ? lowest(positive) / 1.5 : null;
}

// Where words above the line at a tenth are furthest from all points: at its left end, in the middle or at its right end.
function freeOf(figure, [low, high]) {
  const rows = figure.layers.filter((l) => l.kind === "points").flatMap((l) => l.rows);
  const [xs, ys] = [rows.map((r) => r.x), [0.1, ...rows.map((r) => r.y)]];
  const middle = figure.x.log ? Math.sqrt(low * high) : (low + high) / 2;
  const words = shareOf(figure.y, ys, 0.1) + 0.03;
  const near = (centre) => (r) => drawable(figure.x, r.x) && Math.abs(shareOf(figure.x, xs, r.x) - centre) <= 0.2;
  const free = (centre) =>
    Math.min(1, ...rows.filter(near(centre)).map((r) => Math.abs(shareOf(figure.y, ys, r.y) - words)).filter(isNumber));
  return [
    { end: low, align: "left", free: free(0.15) },
    { end: middle, align: "center", free: free(0.5) },
    { end: high, align: "right", free: free(0.85) },
  ].reduce((best, place) => (place.free > best.free ? place : best));
}

// The line at a tenth, as wide as the figure.
function tenthLayers(figure) {
  const x = extent(figure.layers.flatMap((l) => l.rows.map((r) => r.x)).filter((v) => drawable(figure.x, v)));
  if (!figure.tenth || !x) return [];
  const at = (v) => ({ series: figure.series[0]?.name, x: v, y: 0.1 });
  const { end, align } = freeOf(figure, x);
  return [
    { kind: "line", name: "0.1, near", aside: true, plain: true, dash: [5, 3], width: 1.2, rows: x.map(at) },
    { kind: "label", above: true, align, rows: [{ ...at(end), label: "0.1 of the outputs' spread" }] },
  ];
}

const clamp = (v) => (isNumber(v) ? Math.min(1, Math.max(0, v)) : v);

export function clean(given) {
  const figure = given.y.share
    ? { ...given, y: { nice: false, domain: [0, 1], ...given.y } }
    : { ...given, layers: [...tenthLayers(given), ...given.layers] };
  const counts = { missing: 0, sign: 0, clipped: 0 };
  const floor = clipLow(figure.y, figure.layers);
  const layers = figure.layers.map((layer) => {
    if (layer.kind === "cells" || layer.kind === "tiles") return cleanCells(layer, counts);
    const interval = layer.kind === "band" || layer.kind === "bars";
    const rows = [];
    for (const given of layer.rows) {
      const row = { ...given };
      if (figure.y.share && interval) [row.lo, row.hi] = [clamp(row.lo), clamp(row.hi)];
      if (interval && floor !== null && isNumber(row.lo) && row.lo <= 0 && row.hi > 0) {
        row.lo = floor;
        counts.clipped++;
      }
      const needs = interval ? [row.lo, row.hi] : [row.y];
      if (drawable(figure.x, row.x) && needs.every((v) => drawable(figure.y, v))) rows.push(row);
      else if (layer.kind === "points") {
        const sign = [row.x, ...needs].every(isNumber);
        counts[sign ? "sign" : "missing"]++;
      }
    }
    return { ...layer, rows };
  });
  return { figure: { ...figure, layers }, notes: notesOf(counts), empty: layers.every((l) => l.rows.length === 0) };
}

function cleanCells(layer, counts) {
  const rows = layer.rows.filter((r) => isNumber(r.value) || r.sign === "any");
  counts.missing += layer.rows.length - rows.length;
  return { ...layer, rows };
}

function notesOf({ missing, sign, clipped }) {
  const points = (n) => `${n} point${n === 1 ? "" : "s"}`;
  const notes = [];
  if (missing) notes.push(`${points(missing)} without a finite number ${missing === 1 ? "is" : "are"} left out.`);
  if (sign)
    notes.push(
      `${points(sign)} at or below zero cannot be shown on a logarithmic axis and ${sign === 1 ? "is" : "are"} left out.`,
    );
  if (clipped)
    notes.push(`${clipped} interval${clipped === 1 ? " reaches" : "s reach"} zero and end at the bottom of the axis.`);
  return notes;
}

// ---- marks ----

// In this order, so that neighbours in the palette differ most; names are Vega's.
const shapes = [
  "circle",
  "square",
  "triangle-up",
  "diamond",
  "cross",
  "triangle-down",
  "triangle-right",
  "triangle-left",
];
const dashes = [[], [7, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3], [10, 4], [5, 2, 1, 2]];

// What distinguishes a series without its colour: the shape of its points; else, the dashes of its lines.
export function styleOf(figure) {
  const pointed = new Set(figure.layers.filter((l) => l.kind === "points").flatMap((l) => l.rows.map((r) => r.series)));
  const plain = !pointed.size && !figure.layers.some((l) => l.dash);
  return figure.series.map((s, i) => ({
    ...s,
    shape: pointed.has(s.name) ? (s.shape ?? shapes[(s.colour ?? i) % shapes.length]) : "stroke",
    dash: s.dash ?? (plain && figure.series.length > 1 ? dashes[i % dashes.length] : undefined),
    ownDash: plain && figure.series.length > 1,
  }));
}

const marks = {
  points: (theme, layer) => ({
    type: "point",
    filled: !layer.hollow,
    size: layer.size ?? 42,
    opacity: 1,
    ...(layer.shape ? { shape: layer.shape } : {}),
    strokeWidth: 1.6,
    tooltip: { content: "data" },
    ...(layer.hollow ? { fill: theme.paper } : {}),
    ...(layer.rows[0]?.pick ? { cursor: "pointer" } : {}),
  }),
  hover: (theme, layer) => ({
    type: "point",
    filled: true,
    size: layer.rows.length > 60 ? 120 : 420, // many would lie on each other
    opacity: 0,
    tooltip: { content: "data" },
    ...(layer.rows[0]?.pick ? { cursor: "pointer" } : {}),
  }),
  picked: (theme) => ({
    type: "point",
    filled: false,
    shape: "circle",
    size: 210,
    strokeWidth: 2.6,
    stroke: theme.ink,
    opacity: 1,
  }),
  bars: () => ({ type: "rule", strokeWidth: 1.4, opacity: 0.85 }),
  band: (theme, layer) => ({ type: "area", opacity: layer.opacity ?? 0.16, line: false }),
  line: (theme, layer) => ({
    type: "line",
    ...(layer.smooth ? { interpolate: "monotone" } : {}),
    strokeWidth: layer.width ?? 1.6,
    opacity: layer.opacity ?? 1,
    clip: true,
    ...(layer.dash ? { strokeDash: layer.dash } : {}),
    ...(layer.plain ? { stroke: theme.quiet } : {}),
  }),
  label: (theme, layer) => ({
    type: "text",
    fontSize: layer.size ?? 11,
    align: layer.centre ? "center" : (layer.align ?? "left"),
    baseline: layer.above ? "bottom" : "middle",
    dx: { center: 0, right: -5 }[layer.centre ? "center" : layer.align] ?? 5,
    dy: layer.above ? -2 : 0,
    fontWeight: layer.bold ? 600 : 400,
    fill: layer.on === "much" ? theme.paper : layer.bold ? theme.ink : theme.quiet,
  }),
};

// ---- axes ----

// 0.02, 500, 2·10⁵
function tickName(digit, k) {
  if (k >= -3 && k < 5) return String(Number((digit * 10 ** k).toPrecision(6)));
  return `${digit === 1 ? "" : `${digit}·`}10${superscript(k)}`;
}

// Ticks of a logarithmic axis: as many of 1, 2, 5 in each decade as are readable, with their names; null where the
// range is so short that ticks had better be even.
export function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const digits = decades > 3.2 ? [1] : decades > 1.6 ? [1, 3] : decades > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const step = Math.max(1, Math.ceil(decades / 9));
  const ticks = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
    for (const digit of k % step === 0 ? digits : []) {
      const value = Number(`${digit}e${k}`);
      if (value >= low && value <= high) ticks.push({ value, name: tickName(digit, k) });
    }
  return ticks.length > 1 ? ticks : null;
}

// Four to eight round numbers between low and high, with their names.
export function evenTicks(low, high) {
  const rough = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = [5, 2, 1].map((m) => m * rough).find((s) => (high - low) / s >= 4) ?? rough;
  const first = Math.ceil(low / step);
  const values = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(10)),
  );
  return values.length && isNumber(step) ? values.map((value) => ({ value, name: show(value) })) : null;
}

// The range of a logarithmic axis, with some air around the data.
function logDomain(values, air) {
  const e = extent(values.filter((v) => v > 0));
  return e ? [e[0] / air, e[1] * air] : null;
}

// Ticks where we say and as we call them. Names may come from a run file: they enter the expression as JSON strings.
const naming = (ticks) => ({
  values: ticks.map((t) => t.value),
  labelExpr: `[${ticks.map((t) => JSON.stringify(t.name))}][indexof([${ticks.map((t) => t.value)}], datum.value)]`,
  labelLimit: 150,
  labelOverlap: false,
});

function axisOf(axis, channel) {
  const base = { field: channel, type: "quantitative", title: axis.title };
  const grid = channel === "y";
  if (!axis.log)
    return {
      ...base,
      scale: { zero: axis.zero ?? false, nice: axis.nice ?? true, ...(axis.domain ? { domain: axis.domain } : {}) },
      axis: {
        grid,
        ...(axis.names
          ? naming(axis.names.map((name, i) => ({ value: i + 1, name })))
          : { labelOverlap: true, tickCount: axis.narrow ? 4 : 6, ...(axis.whole ? { tickMinStep: 1, format: "d" } : {}) }),
      },
    };
  const domain = axis.domain ?? logDomain(axis.values, channel === "x" ? 1.08 : 1.15);
  const ticks = domain && (logTicks(...domain) ?? evenTicks(...domain));
  return {
    ...base,
    scale: { type: "log", nice: false, ...(domain ? { domain } : {}) },
    axis: { grid, ...(ticks ? naming(ticks) : { labelOverlap: true, tickCount: 5 }) },
  };
}

function colourOf(figure, theme) {
  return {
    field: "series",
    type: "nominal",
    scale: {
      domain: figure.series.map((s) => s.name),
      range: figure.series.map((s) => theme.palette[s.colour % theme.palette.length]),
    },
    legend: null,
  };
}

// Shape or dashes of a series, beside its colour.
const styled = (figure, key) => ({
  field: "series",
  type: "nominal",
  scale: { domain: figure.series.map((s) => s.name), range: figure.series.map((s) => s[key] ?? []) },
  legend: null,
});

// ---- the key of a saved figure ----

const KEY = { sample: 26, gap: 18, line: 17, below: 50 }; // pixels; below: from the axis, past its names and title

const inkOf = (series, theme) => theme.palette[series.colour % theme.palette.length];

const layersWith = (figure, kind, name) =>
  figure.layers.filter((l) => l.kind === kind && !l.plain && l.rows.some((r) => r.series === name));

// A series: the shape of its points, on a line if an ordinary one joins them; without points, its line as it is dashed.
function seriesEntries(figure, theme) {
  return styleOf(figure).map((s) => {
    const [lines, points] = [layersWith(figure, "line", s.name), layersWith(figure, "points", s.name)];
    return {
      series: s.name,
      ink: inkOf(s, theme),
      shape: s.shape === "stroke" ? "" : s.shape,
      hollow: points.length > 0 && points.every((l) => l.hollow),
      lines: lines.some((l) => !l.dash) || s.shape === "stroke",
      dash: s.dash ?? (s.shape === "stroke" ? lines[0]?.dash : undefined) ?? [],
    };
  });
}

// What the entries of series leave open: lines in grey or beside the points of a series, points of a second look.
function styleEntries(figure, theme) {
  const series = styleOf(figure);
  const pointed = new Set(series.filter((s) => s.shape !== "stroke").map((s) => s.name));
  const second = (l) =>
    (l.hollow || l.shape) && l.rows.some((r) => layersWith(figure, "points", r.series).some((o) => o.name !== l.name));
  const open = (l) => (l.kind === "line" ? l.plain || l.rows.some((r) => pointed.has(r.series)) : second(l));
  const left = figure.layers.filter(
    (l) =>
      (l.kind === "line" || l.kind === "points") &&
      l.name &&
      l.rows.length &&
      !series.some((s) => s.name === l.name) &&
      open(l),
  );
  return left
    .filter((l, i) => left.findIndex((o) => o.name === l.name) === i)
    .map((l) => ({
      series: l.name,
      ink: l.plain ? theme.quiet : series.length === 1 ? inkOf(series[0], theme) : theme.ink,
      shape: l.kind === "points" ? (l.shape ?? "circle") : "",
      hollow: Boolean(l.hollow),
      lines: l.kind === "line",
      dash: l.dash ?? [],
    }));
}

// Entries of the key, one after the other in lines of at most `width` pixels: {series, x, y, ...}.
function keyEntries(figure, theme, width) {
  let [x, y] = [0, 0];
  const [series, styles] = [seriesEntries(figure, theme), styleEntries(figure, theme)];
  return (series.length > 1 || styles.length ? [...series, ...styles] : []).map((entry) => {
    const space = KEY.sample + 5 + 6 * entry.series.length + KEY.gap;
    if (x > 0 && x + space > width) [x, y] = [0, y + KEY.line];
    const placed = { ...entry, x, y };
    x += space;
    return placed;
  });
}

// Drawn from ordinary marks, in pixels: a line as it is dashed, the shape of the points, the name.
function keyLayers(entries, theme) {
  const at = (dx) => ({ x: { expr: `datum.x + ${dx}` }, y: { expr: `height + datum.y + ${KEY.below}` } });
  const one = (name, filter, mark) => ({
    name,
    data: { values: entries },
    transform: [{ filter }],
    mark,
    encoding: {},
  });
  const ink = { expr: "datum.ink" };
  return [
    one("key_lines", "datum.lines", {
      type: "point",
      ...at(KEY.sample / 2),
      shape: "M-1,0L1,0",
      size: KEY.sample ** 2,
      opacity: 1,
      stroke: ink,
      strokeWidth: 1.6,
      strokeDash: { expr: "datum.dash" },
    }),
    one("key_shapes", "datum.shape", {
      type: "point",
      ...at(KEY.sample / 2),
      shape: { expr: "datum.shape" },
      size: 60,
      fill: { expr: `datum.hollow ? ${JSON.stringify(theme.paper)} : datum.ink` },
      stroke: ink,
      strokeWidth: 1.6,
      opacity: 1,
    }),
    one("key_names", "true", {
      type: "text",
      ...at(KEY.sample + 5),
      text: { expr: "datum.series" },
      align: "left",
      baseline: "middle",
      fontSize: 11,
      fill: theme.ink,
    }),
  ];
}

function layerOf(figure, layer, theme, still) {
  const x = axisOf({ ...figure.x, values: figure.values.x }, "x");
  const y = axisOf({ ...figure.y, values: figure.values.y }, "y");
  const encoding = { x, y, color: colourOf(figure, theme) };
  if (layer.kind === "bars" || layer.kind === "band") {
    encoding.y = { ...y, field: "lo" };
    encoding.y2 = { field: "hi" };
  }
  if (layer.kind === "line") {
    encoding.order = { field: layer.rows[0] && "k" in layer.rows[0] ? "k" : "x", type: "quantitative" };
    encoding.detail = { field: "part", type: "nominal" };
  }
  if (layer.kind === "label") encoding.text = { field: "label" };
  if (layer.kind === "points" && !layer.shape && figure.series.length) encoding.shape = styled(figure, "shape");
  if (layer.kind === "line" && !layer.dash && !layer.plain && figure.series.some((s) => s.ownDash))
    encoding.strokeDash = styled(figure, "dash");
  if (layer.kind === "label" || layer.plain) delete encoding.color;
  const one = (kind, filter = "indexof(hidden, datum.series) < 0", channels = encoding) => ({
    name: `${kind}${figure.layers.indexOf(layer)}`,
    data: { values: layer.rows },
    transform: [{ filter }],
    mark: marks[kind](theme, layer),
    encoding: channels,
  });
  if (layer.kind !== "points" || still) return [one(layer.kind)];
  const picked = layer.rows.some((r) => r.at) ? [one("picked", "datum.at === picked", { x, y })] : [];
  return [one("points"), ...picked, one("hover")];
}

const LEGEND = { gradientThickness: 11, gradientLength: 200, titleLimit: 300 };

// Where colours begin and end; of logarithmic ones, the positive values.
function rangeOf(layer) {
  const values = layer.rows.map((r) => r.value).filter((v) => isNumber(v) && !(layer.log && v <= 0));
  return layer.domain ?? extent(values) ?? [0, 1];
}

function rampOf(layer, theme) {
  const place = { orient: "bottom", direction: "horizontal" };
  if (layer.classes)
    return {
      field: "class",
      type: "nominal",
      title: null,
      scale: {
        domain: layer.classes.map((c) => c.name),
        range: layer.classes.map((c) => theme.palette[c.colour % theme.palette.length]),
      },
      legend: { ...place, symbolType: "square", symbolSize: 150, symbolOpacity: 1, symbolStrokeWidth: 0, labelLimit: 300 },
    };
  const domain = layer.log ? rangeOf(layer) : layer.domain;
  const ticks = layer.log ? (logTicks(...domain) ?? evenTicks(...domain)) : null;
  return {
    field: "value",
    type: "quantitative",
    title: layer.title,
    scale: { ...(layer.log ? { type: "log" } : {}), range: theme.ramp, ...(domain ? { domain, clamp: true } : {}) },
    legend: { ...LEGEND, ...place, ...(ticks ? naming(ticks) : {}) },
  };
}

// Names of an axis of named rows or columns, whose values may be numbers.
function nameOfEach(values) {
  const all = [...new Set(values)];
  return `[${all.map((v) => JSON.stringify(isNumber(v) ? show(v) : String(v)))}][indexof([${all.map((v) => JSON.stringify(v))}], datum.value)]`;
}

// The words in cells. Either end of the ramp stands out from the other: paper on much, ink on little.
function signsOf(layer, theme, axes) {
  const rows = layer.rows.filter((r) => r.sign);
  const [low, high] = rangeOf(layer);
  const middle = layer.log ? Math.sqrt(low * high) : (low + high) / 2;
  const much = layer.classes ? "true" : `isValid(datum.value) && datum.value > ${middle}`;
  return rows.length === 0
    ? []
    : [
        {
          name: "label_signs",
          data: { values: rows },
          mark: { type: "text", fontSize: 11, tooltip: { content: "data" } },
          encoding: {
            ...axes,
            text: { field: "sign" },
            color: { condition: { test: much, value: theme.paper }, value: theme.ink },
          },
        },
      ];
}

function cellsOf(figure, layer, theme, still) {
  const axis = (a, channel) => ({
    field: channel,
    type: "ordinal",
    title: a.title,
    sort: a.sort ?? null,
    axis: { labelAngle: 0, labelOverlap: true, labelExpr: nameOfEach(layer.rows.map((r) => r[channel])) },
  });
  const [x, y] = [axis(figure.x, "x"), axis(figure.y, "y")];
  const some = (name, rows, style, channels) => ({
    name,
    data: { values: rows },
    mark: { type: "rect", tooltip: { content: "data" }, ...(rows[0].pick ? { cursor: "pointer" } : {}), ...style },
    encoding: { x, y, ...channels },
  });
  const [valued, bare] = [layer.rows.filter((r) => isNumber(r.value)), layer.rows.filter((r) => !isNumber(r.value))];
  const cells = [
    ...(valued.length ? [some("cells", valued, {}, { color: rampOf(layer, theme) })] : []),
    ...(bare.length ? [some("cells_any", bare, { fill: theme.paper, stroke: theme.rule })] : []),
    ...signsOf(layer, theme, { x, y }),
  ];
  if (still || !layer.rows.some((r) => r.at)) return cells;
  // The frame is seen on every colour of the ramp: ink with paper on either side of it.
  const frame = (kind, stroke, strokeWidth) => ({
    name: kind,
    data: { values: layer.rows },
    transform: [{ filter: "datum.at === picked" }],
    mark: { type: "rect", filled: false, stroke, strokeWidth, opacity: 1 },
    encoding: { x, y },
  });
  return [...cells, frame("around", theme.paper, 5), frame("picked", theme.ink, 2.5)];
}

function tilesOf(figure, layer, theme, still) {
  return [
    {
      name: `tiles${figure.layers.indexOf(layer)}`,
      data: { values: layer.rows },
      mark: {
        type: "rect",
        tooltip: { content: "data" },
        ...(layer.smooth ? { x2Offset: 0.7, yOffset: 0.7, tooltip: null } : {}),
        ...(layer.unseen ? { opacity: 0, fill: theme.paper } : {}),
      },
      encoding: {
        x: axisOf({ ...figure.x, values: figure.values.x }, "x"),
        x2: { field: "x2" },
        y: axisOf({ ...figure.y, values: figure.values.y }, "y"),
        y2: { field: "y2" },
        ...(layer.unseen ? {} : { color: rampOf(layer, theme) }),
      },
    },
  ];
}

const drawn = { cells: cellsOf, tiles: tilesOf };

// ---- names at the ends of lines ----

// Pixels; most: share of the width that names may take, least: what the axis must be left for its numbers.
const NAME = { letter: 6.1, line: 13, most: 0.3, least: 280, axis: 44 };

// The row at whose place the name of a series can stand: the last one of its lines or, beside the lines of others, of its
// points, if there is one for each x.
function endOf(figure, name) {
  const all = (kind) => figure.layers.filter((l) => l.kind === kind && !l.plain).flatMap((l) => l.rows);
  const own = (rows) => rows.filter((r) => r.series === name && drawable(figure.y, r.y));
  const lines = all("line");
  const points = lines.length ? own(all("points")) : [];
  const single = new Set(points.map((r) => r.x)).size === points.length;
  const rows = own(lines).length || !single ? own(lines) : points;
  return rows.length > 1 ? rows.reduce((a, b) => (b.x >= a.x ? b : a)) : null;
}

// Share of an axis below a value, estimated before it is drawn.
function shareOf(axis, values, v) {
  const of = (t) => (axis.log ? Math.log(t) : t);
  const all = axis.domain ?? extent([...values.filter((t) => drawable(axis, t)), ...(axis.zero ? [0] : [])]) ?? [0, 1];
  return (of(v) - of(all[0])) / (of(all[1]) - of(all[0]) || 1);
}

// Names at the right ends of lines, none on another, if every series has a line that ends there and there is space for
// them: [{series, ink, y, dy}]; else null, and the figure has a key.
export function endNames(figure, theme, width) {
  const count = figure.series.length;
  if (count < 2 || count > 8 || figure.layers.some((l) => l.kind === "cells")) return null;
  const ends = figure.series.map((s) => ({ series: s.name, ink: theme.palette[s.colour % 8], end: endOf(figure, s.name) }));
  const longest = highest(figure.series.map((s) => s.name.length));
  const space = Math.min(NAME.most * width, width - NAME.least);
  if (ends.some((e) => !e.end) || NAME.letter * longest > space) return null;
  const rows = figure.layers.filter((l) => l.kind !== "label").flatMap((l) => l.rows);
  const [xs, ys] = [rows.map((r) => r.x), rows.flatMap((r) => [r.y, r.lo, r.hi])];
  if (ends.some((e) => shareOf(figure.x, xs, e.end.x) < 0.93)) return null;
  const height = heightOf(figure) - NAME.axis;
  const placed = ends
    .map((e) => ({ series: e.series, ink: e.ink, y: e.end.y, at: height * (1 - shareOf(figure.y, ys, e.end.y)) }))
    .sort((a, b) => a.at - b.at);
  placed.forEach((e, i) => (e.to = Math.max(e.at, i ? placed[i - 1].to + NAME.line : 0)));
  for (let i = count - 1; i >= 0; i--) // from the bottom up, those that were pushed out
    placed[i].to = Math.min(placed[i].to, i === count - 1 ? height : placed[i + 1].to - NAME.line);
  return placed.map((e) => ({ ...e, dy: e.to - e.at }));
}

const nameLayer = (names) => ({
  name: "names",
  data: { values: names },
  mark: {
    type: "text",
    x: { expr: "width + 6" },
    y: { expr: "scale('y', datum.y) + datum.dy" },
    text: { expr: "datum.series" },
    fill: { expr: "datum.ink" },
    align: "left",
    baseline: "middle",
    fontSize: 11,
    fontWeight: 600,
    opacity: 1,
  },
  encoding: {},
});

// still: on its own, with a title and a key, as it is saved.
export function specOf(figure, theme, { width, height, still = false }) {
  const all = figure.layers.filter((l) => l.kind !== "cells" && l.kind !== "label").flatMap((l) => l.rows);
  const values = { x: all.map((r) => r.x), y: all.flatMap((r) => [r.y, r.lo, r.hi]) };
  const known = { ...figure, x: { ...figure.x, narrow: width < 420 }, values, series: styleOf(figure) };
  const key = still ? keyEntries(figure, theme, width - 90) : [];
  const space = key.length ? key.at(-1).y + KEY.line : 0;
  const names = still || figure.direct ? null : endNames(figure, theme, width);
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width,
    height: height + space,
    autosize: { type: "fit", contains: "padding" },
    padding: { left: 2, top: 2, right: still ? 8 : 2, bottom: 2 + space },
    background: still ? theme.paper : null,
    ...(still ? { title: { text: figure.title, anchor: "start", fontSize: 13, color: theme.ink } } : {}),
    params: [
      { name: "hidden", value: [] },
      { name: "picked", value: "" },
    ],
    layer: [
      ...figure.layers.filter((l) => l.rows.length).flatMap((l) => (drawn[l.kind] ?? layerOf)(known, l, theme, still)),
      ...(key.length ? keyLayers(key, theme) : []),
      ...(names ? [nameLayer(names)] : []),
    ],
    resolve: { scale: { color: figure.layers.some((l) => l.kind === "tiles") ? "independent" : "shared" } },
    config: configOf(theme),
  };
}

function configOf(theme) {
  const text = { labelColor: theme.quiet, titleColor: theme.ink, labelFont: theme.font, titleFont: theme.font };
  return {
    aria: false,
    font: theme.font,
    view: { stroke: null },
    axis: {
      ...text,
      labelFontSize: 11,
      titleFontSize: 12,
      titleFontWeight: "normal",
      gridColor: theme.rule,
      gridOpacity: 0.6,
      domainColor: theme.quiet,
      tickColor: theme.quiet,
      tickSize: 4,
      titlePadding: 8,
    },
    legend: { ...text, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal" },
    title: { font: theme.font },
    text: { font: theme.font },
  };
}

export const heightOf = (figure) => figure.height ?? 320;

// As it is saved, by the page and by `esscher report --figures`: for papers, with its key.
export const stillOf = (figure, theme) =>
  specOf(figure, theme, { width: 680, height: Math.max(heightOf(figure), 420), still: true });

// The figure's own numbers, for the CSV: what people see, without what only helps drawing.
export function dataOf(figure) {
  const names = { x: figure.x.column ?? "x", y: figure.y.column ?? "y" };
  const named = (row) => Object.fromEntries(Object.entries(row).map(([key, v]) => [names[key] ?? key, v]));
  const data = ({ tip, part, k, label, pick, at, of, x, series, ...row }) =>
    named({ ...(series === undefined ? {} : { series }), ...(of ?? (x === undefined ? {} : { x })), ...row });
  return figure.layers
    .filter((l) => l.kind !== "label" && !l.aside)
    .flatMap((l) => l.rows.map((row) => ({ part: l.name ?? l.kind, ...data(row) })));
}

// What stands beside every such CSV: pages carry tables with that many digits.
export const digitsOfCsv = "7 digits; esscher export has all";

// The name of a file that a figure is saved in, of at most `most` characters; a title that has no letter or digit of
// ASCII gives none, and is called `otherwise`.
export const plainName = (title, otherwise = "figure", most = 90) =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, most)
    .replace(/-$/, "") || otherwise;
