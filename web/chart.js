// chart.js : from a figure, as the files in figures/ describe it, to a Vega-Lite specification.
//
// A figure is data:
//
//   { title, caption, table,                 table: name of the table that holds its numbers
//     x: {title, log, domain, names}, y: ...  names: of the whole numbers from 1 on
//     series: [{name, colour, dash}],        colour: number of the palette; what legend buttons switch
//     layers: [{kind, rows}] }               rows: {series, x, y, lo, hi, label, tip: [[name, text], ...]}
//
// kinds: "points"; "bars", intervals lo..hi; "band", the same as an area; "line", through rows in order of x, or of
// `k` where rows have one, in grey if the layer is `plain`; "label", text; "cells", a heat map of named rows and
// columns, with `value` for the colour; "tiles", one over numbers, from x, y to x2, y2, on which lines can be drawn.
//
// Rows with a `pick` can be clicked: the option of that name is shown where a choice (choice.js) has one.
//
// What cannot be drawn is counted, and the figure says so: missing numbers, and on logarithmic axes what is not
// positive.
import { extent, isNumber, superscript } from "./tables.js";

const drawable = (axis, v) => isNumber(v) && !(axis.log && v <= 0);

// Lower ends of intervals at or below zero reach the bottom of a logarithmic axis.
function clipLow(axis, layers) {
  if (!axis.log) return null;
  const positive = layers.flatMap((l) => l.rows.flatMap((r) => [r.y, r.lo, r.hi])).filter((v) => isNumber(v) && v > 0);
  return positive.length ? Math.min(...positive) / 1.5 : null;
}

export function clean(figure) {
  const counts = { missing: 0, sign: 0, clipped: 0 };
  const floor = clipLow(figure.y, figure.layers);
  const layers = figure.layers.map((layer) => {
    if (layer.kind === "cells" || layer.kind === "tiles") return cleanCells(layer, counts);
    const interval = layer.kind === "band" || layer.kind === "bars";
    const rows = [];
    for (const given of layer.rows) {
      const row = { ...given };
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
  const rows = layer.rows.filter((r) => isNumber(r.value));
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

const marks = {
  points: (theme, layer) => ({
    type: "point",
    filled: !layer.hollow,
    size: layer.size ?? 42,
    opacity: 1,
    shape: layer.shape ?? "circle",
    strokeWidth: 1.6,
    tooltip: { content: "data" },
    ...(layer.hollow ? { fill: theme.paper } : {}),
  }),
  hover: () => ({ type: "point", filled: true, size: 420, opacity: 0, tooltip: { content: "data" } }),
  bars: () => ({ type: "rule", strokeWidth: 1.4, opacity: 0.85 }),
  band: () => ({ type: "area", opacity: 0.16, line: false }),
  line: (theme, layer) => ({
    type: "line",
    strokeWidth: layer.width ?? 1.6,
    opacity: layer.opacity ?? 1,
    clip: true,
    strokeDash: layer.dash ?? [],
    ...(layer.plain ? { stroke: theme.quiet } : {}),
  }),
  label: (theme) => ({ type: "text", fontSize: 11, align: "left", baseline: "middle", dx: 5, fill: theme.quiet }),
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
        labelOverlap: true,
        tickCount: axis.narrow ? 4 : 6,
        ...(axis.names ? naming(axis.names.map((name, i) => ({ value: i + 1, name }))) : {}),
      },
    };
  const domain = axis.domain ?? logDomain(axis.values, channel === "x" ? 1.08 : 1.15);
  const ticks = domain && logTicks(...domain);
  return {
    ...base,
    scale: { type: "log", nice: false, ...(domain ? { domain } : {}) },
    axis: { grid, labelOverlap: true, ...(ticks ? naming(ticks) : { tickCount: 5, format: ".3~g" }) },
  };
}

// A saved figure has one kind of key, a short line, so that dashes are said in words.
function legendNames(series) {
  const words = ({ name, dash }) => JSON.stringify(name + (!dash ? "" : dash[0] > 3 ? " (dashed)" : " (dotted)"));
  return `[${series.map(words)}][indexof([${series.map((s) => JSON.stringify(s.name))}], datum.label)]`;
}

function colourOf(figure, theme, legend) {
  return {
    field: "series",
    type: "nominal",
    scale: {
      domain: figure.series.map((s) => s.name),
      range: figure.series.map((s) => theme.palette[s.colour % theme.palette.length]),
    },
    legend: legend
      ? {
          title: null,
          orient: "bottom",
          columns: 2,
          labelLimit: 400,
          symbolType: "stroke",
          symbolStrokeWidth: 2.5,
          labelExpr: legendNames(figure.series),
        }
      : null,
  };
}

function layerOf(figure, layer, theme, legend) {
  const x = axisOf({ ...figure.x, values: figure.values.x }, "x");
  const y = axisOf({ ...figure.y, values: figure.values.y }, "y");
  const encoding = { x, y, color: colourOf(figure, theme, legend) };
  if (layer.kind === "bars" || layer.kind === "band") {
    encoding.y = { ...y, field: "lo" };
    encoding.y2 = { field: "hi" };
  }
  if (layer.kind === "line") {
    encoding.order = { field: layer.rows[0] && "k" in layer.rows[0] ? "k" : "x", type: "quantitative" };
    encoding.detail = { field: "part", type: "nominal" };
  }
  if (layer.kind === "label") encoding.text = { field: "label" };
  if (layer.kind === "label" || layer.plain) delete encoding.color;
  const one = (kind) => ({
    data: { values: layer.rows },
    transform: [{ filter: "indexof(hidden, datum.series) < 0" }],
    mark: marks[kind](theme, layer),
    encoding,
  });
  return layer.kind === "points" && !legend ? [one("points"), one("hover")] : [one(layer.kind)];
}

const rampOf = (layer, theme) => ({
  field: "value",
  type: "quantitative",
  title: layer.title,
  scale: { range: theme.ramp, ...(layer.domain ? { domain: layer.domain, clamp: true } : {}) },
  legend: { orient: "bottom", gradientLength: 200, gradientThickness: 10, titleLimit: 300 },
});

function cellsOf(figure, layer, theme) {
  const axis = (a, channel) => ({
    field: channel,
    type: "ordinal",
    title: a.title,
    sort: a.sort ?? null,
    axis: {
      labelAngle: 0,
      labelOverlap: true,
      labelExpr: "isNumber(datum.value) ? format(datum.value, '.3~g') : datum.label",
    },
  });
  return [
    {
      data: { values: layer.rows },
      mark: { type: "rect", tooltip: { content: "data" }, ...(layer.rows[0].pick ? { cursor: "pointer" } : {}) },
      encoding: {
        x: axis(figure.x, "x"),
        y: axis(figure.y, "y"),
        color: rampOf(layer, theme),
      },
    },
  ];
}

function tilesOf(figure, layer, theme) {
  return [
    {
      data: { values: layer.rows },
      mark: { type: "rect", tooltip: { content: "data" } },
      encoding: {
        x: axisOf({ ...figure.x, values: figure.values.x }, "x"),
        x2: { field: "x2" },
        y: axisOf({ ...figure.y, values: figure.values.y }, "y"),
        y2: { field: "y2" },
        color: rampOf(layer, theme),
      },
    },
  ];
}

const drawn = { cells: cellsOf, tiles: tilesOf };

export function specOf(figure, theme, { width, height, legend = false }) {
  const all = figure.layers.filter((l) => l.kind !== "cells" && l.kind !== "label").flatMap((l) => l.rows);
  const values = { x: all.map((r) => r.x), y: all.flatMap((r) => [r.y, r.lo, r.hi]) };
  const known = { ...figure, x: { ...figure.x, narrow: width < 420 }, values };
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width,
    height,
    autosize: { type: "fit", contains: "padding" },
    padding: 2,
    background: legend ? theme.paper : null,
    ...(legend ? { title: { text: figure.title, anchor: "start", fontSize: 13, color: theme.ink } } : {}),
    params: [{ name: "hidden", value: [] }],
    layer: figure.layers
      .filter((l) => l.rows.length)
      .flatMap((l) => (drawn[l.kind] ?? layerOf)(known, l, theme, legend)),
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

// The figure's own numbers, for the CSV: what people see, without what only helps drawing.
export function dataOf(figure) {
  return figure.layers
    .filter((l) => l.kind !== "label")
    .flatMap((l) => l.rows.map(({ tip, part, k, label, pick, ...row }) => ({ part: l.name ?? l.kind, ...row })));
}
